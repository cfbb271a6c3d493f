package browse

import (
	"context"
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/profile"
)

// A flamePane is a flame graph, with what calls above what is called: as wide as
// the screen is all, or the function that was zoomed into.
type flamePane struct {
	t      *callTree // nil until it is made
	zoom   int32
	at     int32 // selected
	top    int   // the first level on the screen
	height int
	wide   int
}

// stacks makes the call tree of the event that is shown, and then does what is
// to be done with it.
func (m *Model) stacks(then func(m *Model, t *callTree)) tea.Cmd {
	if m.tree != nil && m.treeOf == m.event {
		then(m, m.tree)
		return nil
	}
	p, event := m.data.Profile, m.event
	if p == nil {
		return nil
	}
	columns := m.columnsOf(p.Events)
	return m.jobs.start(func(ctx context.Context) tea.Msg {
		t := newCallTree(ctx, p, columns)
		return callMsg(func(m *Model) tea.Cmd {
			if m.data != nil && m.data.Profile == p {
				m.tree, m.treeOf = t, event
			}
			then(m, t)
			return nil
		})
	})
}

func (m *Model) openFlame() tea.Cmd {
	if m.data.Profile == nil {
		m.message = "there are no stacks"
		return nil
	}
	p := &flamePane{}
	return tea.Batch(m.push(p), m.stacks(func(_ *Model, t *callTree) { p.t = t }))
}

func (p *flamePane) title(m *Model) string {
	s := "flame graph"
	if t := m.table(); t != nil {
		s += " of '" + escape.Name(t.Title()) + "'"
	}
	if p.t != nil && p.zoom != 0 {
		s += ", zoomed into " + p.t.name(p.zoom)
	}
	return s
}

func (p *flamePane) heading(*Model) string { return "" }

// A flameCell is a node on the screen.
type flameCell struct {
	node    int32
	x, wide int
}

// levels returns the cells of each level: what calls the one that is zoomed
// into, that, and what it calls, as far as anything of it is a column wide.
func (p *flamePane) levels(w int) [][]flameCell {
	var out [][]flameCell
	for n := p.t.nodes[p.zoom].up; n >= 0; n = p.t.nodes[n].up {
		out = append(out, []flameCell{{n, 0, w}})
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	level := []flameCell{{p.zoom, 0, w}}
	const most = 1 << 12
	for len(level) > 0 && len(out) < most {
		out = append(out, level)
		var next []flameCell
		for _, c := range level {
			n := &p.t.nodes[c.node]
			if n.total == 0 {
				continue
			}
			var sum uint64
			for _, k := range n.kids {
				x0 := c.x + int(float64(c.wide)*float64(sum)/float64(n.total)+0.5)
				sum += p.t.nodes[k].total
				x1 := c.x + int(float64(c.wide)*float64(sum)/float64(n.total)+0.5)
				if x1 > x0 {
					next = append(next, flameCell{k, x0, x1 - x0})
				}
			}
		}
		level = next
	}
	return out
}

// find returns where the selected node is.
func (p *flamePane) find(levels [][]flameCell) (level, cell int) {
	for i, l := range levels {
		for j, c := range l {
			if c.node == p.at {
				return i, j
			}
		}
	}
	p.at = p.zoom
	for i, l := range levels {
		if l[0].node == p.zoom {
			return i, 0
		}
	}
	return 0, 0
}

func (p *flamePane) view(m *Model, w, h int) ([]string, int) {
	p.height, p.wide = h, w
	if p.t == nil {
		return []string{"adding up the stacks"}, -1
	}
	levels := p.levels(w)
	at, _ := p.find(levels)
	p.top = max(min(p.top, at), at-h+1, 0)
	var out []string
	for i := p.top; i < len(levels) && len(out) < h; i++ {
		var b strings.Builder
		x := 0
		for _, c := range levels[i] {
			b.WriteString(strings.Repeat(" ", max(c.x-x, 0)))
			b.WriteString(p.cell(m, c))
			x = c.x + c.wide
		}
		out = append(out, b.String())
	}
	return out, at - p.top
}

// cell is a node, with a line at its left.
func (p *flamePane) cell(m *Model, c flameCell) string {
	s := m.marks.vertical + pad(cut(p.t.name(c.node), 0, c.wide-1), c.wide-1)
	if c.wide == 1 {
		s = m.marks.vertical
	}
	switch {
	case c.node == p.at:
		return reverse + s + plainText
	case m.search != "" && strings.Contains(p.t.name(c.node), m.search):
		return bold + m.colored(magenta, s) + plainText
	}
	colors := []string{red, green, blue, cyan}
	return m.colored(colors[int(p.t.nodes[c.node].name)%len(colors)], s)
}

func (p *flamePane) key(m *Model, k string) (tea.Cmd, bool) {
	if p.t == nil {
		return nil, false
	}
	levels := p.levels(max(p.wide, 1))
	i, j := p.find(levels)
	switch k {
	case "up", "k":
		if up := p.t.nodes[p.at].up; up >= 0 {
			p.at = up
		}
	case "down", "j":
		for _, kid := range p.t.nodes[p.at].kids {
			if i+1 < len(levels) && containsNode(levels[i+1], kid) {
				p.at = kid
				break
			}
		}
	case "left":
		if j > 0 {
			p.at = levels[i][j-1].node
		}
	case "right":
		if j+1 < len(levels[i]) {
			p.at = levels[i][j+1].node
		}
	case "home", "g":
		p.at, p.zoom = 0, 0
	case "pgdown", "space":
		for range max(p.height-1, 1) {
			p.key(m, "down")
		}
	case "pgup":
		for range max(p.height-1, 1) {
			p.key(m, "up")
		}
	case "enter", "+":
		p.zoom = p.at
	case "-", "backspace", "esc":
		if p.zoom == 0 {
			return nil, false
		}
		p.zoom = max(p.t.nodes[p.zoom].up, 0)
	case "/":
		m.ask("search: ", func(m *Model, text string) tea.Cmd {
			m.search = text
			p.next(m)
			return nil
		})
	case "n":
		p.next(m)
	case "a":
		return m.openCode(Function{Object: profile.None, Start: noStart, Symbol: p.t.name(p.at)}), true
	case "b":
		return m.openCallers(p.t.name(p.at)), true
	case "P":
		return m.save("perf.flame.*", m.viewText()), true
	default:
		return nil, false
	}
	return nil, true
}

func containsNode(list []flameCell, n int32) bool {
	for _, c := range list {
		if c.node == n {
			return true
		}
	}
	return false
}

// next selects the next node that is found, and zooms out until it can be seen.
func (p *flamePane) next(m *Model) {
	n := int32(len(p.t.nodes))
	for i := int32(1); i <= n && m.search != ""; i++ {
		if at := (p.at + i) % n; strings.Contains(p.t.name(at), m.search) {
			p.at = at
			for !p.seen() && p.zoom != 0 {
				p.zoom = max(p.t.nodes[p.zoom].up, 0)
			}
			if !p.seen() {
				p.zoom = at
			}
			return
		}
	}
	m.message = "not found: " + escape.Name(m.search)
}

func (p *flamePane) seen() bool {
	for _, l := range p.levels(max(p.wide, 1)) {
		if containsNode(l, p.at) {
			return true
		}
	}
	return false
}

func (p *flamePane) status(m *Model) string {
	if p.t == nil {
		return "q goes back"
	}
	return p.say(m) + "  Enter zooms  Esc out  a code  b callers  q goes back"
}

func (p *flamePane) say(m *Model) string {
	if p.t == nil {
		return "adding up the stacks"
	}
	n := &p.t.nodes[p.at]
	return fmt.Sprintf("%s %.2f%%, itself %.2f%%", p.t.name(p.at), p.t.percent(n.total), p.t.percent(n.self))
}

func (p *flamePane) help() []keyHelp {
	return []keyHelp{
		{"Up Down", "the caller, the callee with most"},
		{"Left Right", "the functions beside"},
		{"Enter +", "zoom into the function"},
		{"Esc -", "zoom out, and back"},
		{"/  n", "search, to the next"},
		{"a  b", "its code; its callers and callees"},
		{"P", "print the view to a file"},
	}
}
