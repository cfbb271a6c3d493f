package browse

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/report"
)

// selected returns the object, and the function or address, that the selected
// line is of.
func (p *rowsPane) selected() (f Function, ok bool) {
	if p.rows() == 0 {
		return f, false
	}
	row := p.row(p.at.row)
	if e := p.entry(row); e != nil && e.ready && p.at.sub > 0 && p.at.sub <= len(e.lines) {
		x := e.lines[p.at.sub-1].frame
		return Function{Object: x.Object, Start: noStart, Symbol: x.Name}, x.Name != ""
	}
	r := p.t.Row(row)
	return Function{Object: r.Object, Start: r.Addr, Symbol: r.Symbol}, r.Symbol != "" && p.has(row, report.Symbol)
}

func (p *rowsPane) symbol() string {
	f, ok := p.selected()
	if !ok {
		return ""
	}
	return f.Symbol
}

func (p *rowsPane) annotate(m *Model) tea.Cmd {
	f, ok := p.selected()
	switch {
	case m.data.Code == nil:
		m.message = "code is not shown here"
	case !ok:
		m.message = "no function is selected"
	default:
		return m.openCode(f)
	}
	return nil
}

// menu asks what is to be done with the selected row.
func (p *rowsPane) menu(m *Model) tea.Cmd {
	if p.rows() == 0 {
		return nil
	}
	row := p.row(p.at.row)
	r := p.t.Row(row)
	var items []item
	add := func(text, k string) {
		items = append(items, item{text, func(m *Model) tea.Cmd { cmd, _ := p.key(m, k); return cmd }})
	}
	if f, ok := p.selected(); ok {
		if m.data.Code != nil {
			add("Annotate "+escape.Name(f.Symbol), "a")
		}
		add("Callers and callees of "+escape.Name(f.Symbol), "b")
	}
	switch {
	case p.filteredBy("thread"):
		add("Zoom out of the thread", "t")
	case p.has(row, report.Comm):
		add("Zoom into thread "+escape.Name(r.Comm), "t")
	}
	switch {
	case p.filteredBy("DSO"):
		add("Zoom out of the DSO", "d")
	case p.has(row, report.DSO):
		add("Zoom into DSO "+escape.Name(r.DSO)+" (k: the kernel)", "d")
	}
	switch {
	case p.filteredBy("socket"):
		add("Zoom out of the processor socket", "S")
	case p.has(row, report.Socket) && r.Socket >= 0:
		add(fmt.Sprintf("Zoom into processor socket %d", r.Socket), "S")
	}
	if p.opens() {
		add("Expand or collapse the call chain (one level)", "+")
		add("Expand or collapse the call chain (all of it)", "e")
	}
	items = append(items, item{"Show where the row is from, and the functions of its object", func(m *Model) tea.Cmd { return m.origin(r) }})
	add("Flame graph", "f")
	if m.data.Timeline != nil {
		add("Select a part of the time", "T")
	}
	if m.data.Samples != nil {
		add("Show individual samples", "r")
	}
	if len(m.data.Tables) > 1 {
		add("Show another event", "M")
	}
	add("Print the table to a file", "P")
	if m.o.Files != nil {
		add("Show another recording of this directory", "s")
	}
	items = append(items, item{"Leave", func(m *Model) tea.Cmd { return m.leave() }})
	return m.push(&menu{name: "what now?", items: items})
}

// origin is a page about where the code of a row is from, and which functions
// of its object the recording has.
func (m *Model) origin(r report.Row) tea.Cmd {
	lines := []string{
		"symbol     " + r.SymbolText(),
		fmt.Sprintf("address    %#x", r.Addr),
		"thread     " + escape.Name(r.Comm) + fmt.Sprintf(" (%d/%d)", r.PID, r.TID),
	}
	p := m.data.Profile
	if p == nil || r.Object < 0 || int(r.Object) >= len(p.Objects) {
		lines = append(lines, "object     none: nothing was mapped there")
		return m.push(&textPane{name: "where the row is from", text: lines})
	}
	o := &p.Objects[r.Object]
	id := "none"
	if o.BuildID != "" {
		id = o.BuildID.String()
	}
	lines = append(lines, "object     "+escape.Name(o.Path), "build id   "+id, "samples    "+fmt.Sprint(o.Samples)+" in the object")
	if o.Note != "" {
		lines = append(lines, "note       "+escape.Name(o.Note))
	}
	page := &textPane{name: "where the row is from", busy: true}
	return tea.Batch(m.push(page), m.jobs.start(func(ctx context.Context) tea.Msg {
		list := functionsOf(ctx, p, r.Object)
		return callMsg(func(*Model) tea.Cmd {
			page.busy, page.text, page.wide = false, append(lines, list...), 0
			return nil
		})
	}))
}

// functionsOf lists the functions of an object that the recording has, by
// address.
func functionsOf(ctx context.Context, p *profile.Profile, object int32) []string {
	var list []*profile.Function
	for i := range p.Functions {
		if i%checked == 0 && ctx.Err() != nil {
			return nil
		}
		if f := &p.Functions[i]; f.Object == object && !f.Inlined && f.Name != "" {
			list = append(list, f)
		}
	}
	slices.SortStableFunc(list, func(a, b *profile.Function) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Name, b.Name))
	})
	if len(list) == 0 {
		return nil
	}
	out := []string{"", "the functions of the object that samples are in, or in what they called"}
	for _, f := range list {
		out = append(out, fmt.Sprintf("%12x %12x  %s", f.Start, f.End, escape.Name(f.Name)))
	}
	return out
}
