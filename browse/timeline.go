package browse

import (
	"context"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
)

// A timelinePane shows how many samples there are over the time, to select a
// part of it.
type timelinePane struct {
	t        *Timeline
	at, mark int // columns; mark is -1 for none
}

// parts is how many parts the time is cut into at most.
const parts = 10000

func (m *Model) openTimeline() tea.Cmd {
	if m.data.Timeline == nil {
		m.message = "samples have no times, or cannot be read again"
		return nil
	}
	p := &timelinePane{mark: -1}
	d := m.data
	return tea.Batch(m.push(p), m.jobs.start(func(ctx context.Context) tea.Msg {
		t, err := d.Timeline(ctx, parts)
		return callMsg(func(m *Model) tea.Cmd {
			switch {
			case err != nil:
				if m.pane() == p {
					m.pop()
				}
				m.failed(err)
			case len(t.Counts) == 0 || t.End <= t.Start:
				if m.pane() == p {
					m.pop()
				}
				m.message = "samples have no times"
			default:
				p.t = t
			}
			return nil
		})
	}))
}

// columns returns the counts by column.
func (p *timelinePane) columns(w int) []uint64 {
	out := make([]uint64, max(w, 1))
	n := len(p.t.Counts)
	for i, c := range p.t.Counts {
		out[i*len(out)/n] += c
	}
	if len(out) > n { // wider than it is fine
		out = slices.Clone(p.t.Counts)
	}
	return out
}

// when is the time at which a column begins.
func (p *timelinePane) when(column, columns int) uint64 {
	return p.t.Start + uint64(float64(p.t.End-p.t.Start)*float64(column)/float64(columns))
}

func (p *timelinePane) title(m *Model) string   { return "samples over the time" }
func (p *timelinePane) heading(m *Model) string { return "" }

// span returns the columns that are selected, both inside.
func (p *timelinePane) span() (from, to int) {
	if p.mark < 0 {
		return p.at, p.at
	}
	return min(p.at, p.mark), max(p.at, p.mark)
}

func (p *timelinePane) view(m *Model, w, h int) ([]string, int) {
	if p.t == nil {
		return []string{"looking when the samples were taken"}, -1
	}
	cols := p.columns(w)
	p.at = max(min(p.at, len(cols)-1), 0)
	p.mark = min(p.mark, len(cols)-1)
	most := max(slices.Max(cols), 1)
	rows := max(min(h-1, 8), 1)
	steps := len(m.marks.sparks) - 1
	from, to := p.span()
	var out []string
	for r := rows - 1; r >= 0; r-- {
		var b strings.Builder
		on := false
		for i, c := range cols {
			if sel := i >= from && i <= to; sel != on {
				on = sel
				b.WriteString(map[bool]string{true: reverse, false: plainText}[on])
			}
			full := int(c * uint64(rows*steps) / most)
			if c > 0 {
				full = max(full, 1)
			}
			b.WriteString(m.marks.sparks[max(min(full-r*steps, steps), 0)])
		}
		if on {
			b.WriteString(plainText)
		}
		out = append(out, b.String())
	}
	return append(out, strings.Repeat(" ", p.at)+"^")[:min(rows+1, h)], -1
}

func (p *timelinePane) key(m *Model, k string) (tea.Cmd, bool) {
	if p.t == nil {
		return nil, false
	}
	cols := len(p.columns(m.w))
	switch k {
	case "left":
		p.at--
	case "right":
		p.at++
	case "pgup", "shift+left":
		p.at -= 10
	case "pgdown", "shift+right":
		p.at += 10
	case "home", "g":
		p.at = 0
	case "end", "G":
		p.at = cols - 1
	case "space", "m":
		if p.mark >= 0 {
			p.mark = -1
		} else {
			p.mark = p.at
		}
	case "enter":
		from, to := p.span()
		a, b := p.when(from, cols), p.when(to+1, cols)-1
		m.pop()
		return m.load(Request{File: m.request.File, Times: fmt.Sprintf("%d.%09d,%d.%09d", a/1e9, a%1e9, b/1e9, b%1e9)}), true
	case "0":
		m.pop()
		if m.request.Times == "" {
			return nil, true
		}
		return m.load(Request{File: m.request.File}), true
	default:
		return nil, false
	}
	p.at = max(min(p.at, cols-1), 0)
	return nil, true
}

func (p *timelinePane) say(m *Model) string {
	if p.t == nil {
		return "looking when the samples were taken"
	}
	cols := p.columns(m.w)
	from, to := p.span()
	from, to = max(min(from, len(cols)-1), 0), max(min(to, len(cols)-1), 0)
	var n uint64
	for _, c := range cols[from : to+1] {
		n += c
	}
	seconds := func(column int) float64 { return float64(p.when(column, len(cols))-p.t.Start) / 1e9 }
	return fmt.Sprintf("from %.3f s to %.3f s: %d samples", seconds(from), seconds(to+1), n)
}

func (p *timelinePane) status(m *Model) string {
	return p.say(m) + "  Space begins a part  Enter shows it  0 all  q goes back"
}

func (p *timelinePane) help() []keyHelp {
	return []keyHelp{
		{"Left Right", "move; Shift or PgUp PgDn: by ten"},
		{"Space m", "begin a part here, or begin none"},
		{"Enter", "the report of the part alone"},
		{"0", "the report of all"},
	}
}
