package browse

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/profile"
)

// A callersPane shows what calls a function, and what it calls.
type callersPane struct {
	name  string // as the profile has it
	t     *callTree
	rows  []callersRow
	self  uint64
	total uint64
	menuScroll
}

type menuScroll struct {
	scroller
	height int
}

type callersRow struct {
	text string
	name int32 // 0: none to go to
}

func (m *Model) openCallers(name string) tea.Cmd {
	if m.data.Profile == nil {
		m.message = "there are no stacks"
		return nil
	}
	p := &callersPane{name: name}
	return tea.Batch(m.push(p), m.stacks(p.fill))
}

func (p *callersPane) fill(m *Model, t *callTree) {
	p.t = t
	id := int32(-1)
	for i, n := range t.names {
		if i > 0 && n == escape.Name(p.name) {
			id = int32(i)
			break
		}
	}
	if id < 0 {
		p.rows = []callersRow{{"no samples are in or below " + escape.Name(p.name), 0}}
		return
	}
	callers, callees, self, total := t.around(id)
	p.self, p.total = self, total
	p.rows = append(p.rows, callersRow{"called by", 0})
	add := func(n neighbour) {
		p.rows = append(p.rows, callersRow{fmt.Sprintf("%8.2f%%    %s", t.percent(n.total), t.names[n.name]), n.name})
	}
	for _, n := range callers {
		add(n)
	}
	p.rows = append(p.rows, callersRow{fmt.Sprintf("%8.2f%%  %s, itself %.2f%%", t.percent(total), escape.Name(p.name), t.percent(self)), 0})
	p.at = len(p.rows) - 1
	p.rows = append(p.rows, callersRow{"calls", 0})
	for _, n := range callees {
		add(n)
	}
}

func (p *callersPane) title(*Model) string   { return "callers and callees of " + escape.Name(p.name) }
func (p *callersPane) heading(*Model) string { return "" }
func (p *callersPane) status(*Model) string {
	return "Enter goes to a function  a code  h keys  q goes back"
}

func (p *callersPane) view(m *Model, w, h int) ([]string, int) {
	p.height = h
	if p.t == nil {
		return []string{"adding up the stacks"}, -1
	}
	p.fit(len(p.rows), h)
	var out []string
	for i := p.top; i < len(p.rows) && len(out) < h; i++ {
		s := cut(p.rows[i].text, p.left, w)
		if i == p.at {
			s = m.bar(s)
		}
		out = append(out, s)
	}
	return out, p.at - p.top
}

func (p *callersPane) key(m *Model, k string) (tea.Cmd, bool) {
	if p.t == nil || p.at >= len(p.rows) {
		return nil, false
	}
	name := p.name
	if n := p.rows[p.at].name; n > 0 {
		name = p.t.names[n]
	}
	switch k {
	case "enter":
		if p.rows[p.at].name > 0 {
			return m.openCallers(name), true
		}
		return nil, true
	case "a":
		return m.openCode(Function{Object: profile.None, Start: noStart, Symbol: name}), true
	case "P":
		return m.save("perf.callers.*", m.viewText()), true
	case "j":
		k = "down"
	case "k":
		k = "up"
	}
	return nil, p.scroller.key(k, len(p.rows), p.height)
}

func (p *callersPane) say(*Model) string {
	if p.t == nil || p.at >= len(p.rows) {
		return "adding up the stacks"
	}
	return strings.TrimSpace(p.rows[p.at].text)
}

func (p *callersPane) help() []keyHelp {
	return []keyHelp{{"Enter", "the callers and callees of the selected function"}, {"a", "its code"}, {"P", "print the view to a file"}}
}
