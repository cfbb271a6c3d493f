package browse

import (
	"context"

	tea "charm.land/bubbletea/v2"

	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/report"
)

// noSamples is why samples are not shown where Data.Samples is nil.
const noSamples = "samples from a pipe cannot be read again: keep the recording in a file"

// openSamples shows samples one by one.
func (m *Model) openSamples(name string, s Selection) tea.Cmd {
	if m.data.Samples == nil {
		m.message = noSamples
		return nil
	}
	d := m.data
	return m.page(name, func(ctx context.Context) (string, error) { return d.Samples(ctx, s) })
}

// scripts asks which samples are to be shown one by one.
func (p *rowsPane) scripts(m *Model) tea.Cmd {
	switch {
	case p.t == nil:
		return nil
	case m.data.Samples == nil:
		m.message = noSamples
		return nil
	}
	event := ""
	if len(m.data.Tables) > 1 && !p.t.Group {
		event = p.t.Events[0]
	}
	list := &menu{name: "which samples?"}
	add := func(text string, s Selection) {
		s.Event = event
		list.items = append(list.items, item{text, func(m *Model) tea.Cmd { return m.openSamples(text, s) }})
	}
	if p.rows() > 0 {
		row := p.row(p.at.row)
		r := p.t.Row(row)
		if r.Object < 0 {
			r.DSO = ""
		}
		if f, ok := p.selected(); ok && p.at.sub == 0 {
			add("samples of function "+escape.Name(f.Symbol), Selection{Symbol: f.Symbol, DSO: r.DSO})
		}
		if r.DSO != "" && p.has(row, report.DSO) {
			add("samples of DSO "+escape.Name(r.DSO), Selection{DSO: r.DSO})
		}
		if p.has(row, report.Comm) {
			add("samples of thread "+escape.Name(r.Comm), Selection{Comm: r.Comm})
		}
	}
	add("all samples", Selection{})
	return m.push(list)
}
