package browse

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/report"
)

// A rowsPane is the table of an event: rows, and below those that are open the
// trees of their callers. A place in it is a row and a line of its tree, not a
// number of lines: how high all rows are is never needed.
type rowsPane struct {
	*listing
	looks
	asked   looks // by the last key; the listing follows
	heads   []report.Heading
	visible []int32 // rows of t; nil: all
	folds   []uint8 // by row of a hierarchy: opened or closed by a key; 0 if by none
	bare    bool    // no titles of columns
	others  int     // how often rows became others
	looking,
	searching int // numbers of the last ones begun

	at, top place
	left    int
	height  int

	all     bool // rows are open unless they were closed
	entries map[int]*entry
	order   []int // of the entries that were opened by all, the oldest first
	makes   bool  // trees are being made
}

// A place is line sub of what is shown of a row: 0 is the row itself.
type place struct{ row, sub int } // row counts in visible

// A rowFilter leaves rows out.
type rowFilter struct {
	kind    string // "DSO", "kernel", "thread", "socket", "symbol", "limit"
	text    string
	min     float64
	tid     int32   // of the thread, -1 for any; the number of the socket
	objects []int32 // of the kernel
}

func (f *rowFilter) String() string { return f.kind + ": " + escape.Name(f.text) }

// is reports whether two filters leave the same rows.
func (f *rowFilter) is(g rowFilter) bool {
	return f.kind == g.kind && f.text == g.text && f.min == g.min && f.tid == g.tid
}

// newRows shows the table of the event that m.event says.
func (m *Model) newRows() (*rowsPane, tea.Cmd) {
	p := &rowsPane{listing: &listing{}, entries: map[int]*entry{}, height: m.h}
	if m.table() == nil {
		return p, nil
	}
	v := *m.views[m.event]
	k := looks{}
	if n := m.data.Page.PercentLimit; n > 0 {
		k.filters = append(k.filters, rowFilter{kind: "limit", text: fmt.Sprint(n), min: n})
		v.kept = sift(m.jobs.ctx, v.base, k.filters)
	}
	if v.levels != nil {
		p.folds = make([]uint8, len(v.levels.Depth))
	}
	p.show(&v, k)
	p.asked = k
	if m.verbose || m.relative {
		k.verbose, k.relative = m.verbose, m.relative
		return p, p.again(m, k)
	}
	return p, nil
}

// turnVerbose shows more of each row, or less: how wide columns then are is
// found out beside the screen.
func (m *Model) turnVerbose() tea.Cmd {
	m.verbose = !m.verbose
	p, ok := m.panes[0].(*rowsPane)
	if !ok {
		return nil
	}
	k := p.asked
	k.verbose, k.relative = m.verbose, m.relative
	return p.again(m, k)
}

// rows returns how many rows are shown.
func (p *rowsPane) rows() int {
	switch {
	case p.t == nil:
		return 0
	case p.visible != nil:
		return len(p.visible)
	}
	return p.t.Len()
}

// row returns which row of the table is shown at i.
func (p *rowsPane) row(i int) int {
	if p.visible != nil {
		return int(p.visible[i])
	}
	return i
}

// graph reports whether rows have call trees.
func (p *rowsPane) graph() bool { return p.t != nil && p.t.Graph().Mode != report.GraphNone }

// opens reports whether rows can be opened.
func (p *rowsPane) opens() bool { return p.graph() || p.t != nil && p.levels != nil }

// size returns how many lines a row takes.
func (p *rowsPane) size(i int) int {
	e := p.entry(p.row(i))
	switch {
	case e == nil:
		return 1
	case !e.ready:
		return 2
	}
	return 1 + len(e.lines)
}

// step returns the place n lines further on, or back.
func (p *rowsPane) step(at place, n int) place {
	if p.rows() == 0 {
		return place{}
	}
	for ; n > 0; n-- {
		switch {
		case at.sub+1 < p.size(at.row):
			at.sub++
		case at.row+1 < p.rows():
			at = place{at.row + 1, 0}
		default:
			return at
		}
	}
	for ; n < 0; n++ {
		switch {
		case at.sub > 0:
			at.sub--
		case at.row > 0:
			at = place{at.row - 1, p.size(at.row-1) - 1}
		default:
			return at
		}
	}
	return at
}

func (a place) before(b place) bool { return a.row < b.row || a.row == b.row && a.sub < b.sub }

// fit has the selected line be there, and on the screen.
func (p *rowsPane) fit() {
	clamp := func(at place) place {
		if n := p.rows(); at.row >= n {
			at = place{max(n-1, 0), 0}
		}
		if p.rows() > 0 {
			at.sub = max(min(at.sub, p.size(at.row)-1), 0)
		}
		return at
	}
	if p.rows() == 0 {
		p.at, p.top = place{}, place{}
		return
	}
	p.at, p.top = clamp(p.at), clamp(p.top)
	n := p.rows()
	if last := p.step(place{n - 1, p.size(n-1) - 1}, -max(p.height-1, 0)); last.before(p.top) {
		p.top = last // no empty lines at the end
	}
	first := p.step(p.at, -max(p.height-1, 0))
	switch {
	case p.at.before(p.top):
		p.top = p.at
	case p.top.before(first):
		p.top = first
	}
}

func (p *rowsPane) title(m *Model) string {
	if p.t == nil {
		return escape.Name(m.data.Name) + ": no samples"
	}
	t := p.t
	s := "event"
	if t.Group {
		s = "events"
	}
	s = fmt.Sprintf("Samples: %s of %s '%s', Event count (approx.): %d", report.Short(t.Samples), s, escape.Name(t.Title()), t.Period)
	for i := range p.filters {
		s += p.filters[i].title()
	}
	if m.request.Times != "" {
		s += ", Time: " + escape.Name(m.request.Times)
	}
	return s
}

// filtered says which filters there are.
func (p *rowsPane) filtered() string {
	var out []string
	for i := range p.filters {
		out = append(out, p.filters[i].String())
	}
	return strings.Join(out, ", ")
}

func (p *rowsPane) heading(m *Model) string {
	if p.t == nil || p.bare {
		return ""
	}
	s := strings.Repeat(" ", p.margin())
	columns := p.columns()
	for i, h := range columns {
		if p.hidden(i) {
			continue
		}
		if i > 0 {
			s += "  "
		}
		if i == len(columns)-1 {
			s += p.indent()
		}
		if w := p.column(m, i); h.Right {
			s += padLeft(h.Text, w)
		} else {
			s += pad(cut(h.Text, 0, w), w)
		}
	}
	if p.left > 0 {
		return cut(s, p.left, m.w)
	}
	return s
}

// hidden reports whether all rows have the same in a column, as a filter wants
// it. The last one stays.
func (p *rowsPane) hidden(i int) bool {
	if p.levels != nil || i == len(p.heads)-1 {
		return false
	}
	switch p.heads[i].Key {
	case report.DSO:
		return p.filteredBy("DSO") || p.filteredBy("kernel")
	case report.Comm:
		return p.filteredBy("thread")
	}
	return false
}

func (k *looks) filteredBy(kind string) bool {
	return slices.ContainsFunc(k.filters, func(f rowFilter) bool { return f.kind == kind })
}

// column is how wide a column is shown. Where not all have room, those before
// the last do without the ends of long names, until the view is moved to the
// right.
func (p *rowsPane) column(m *Model, i int) int {
	if p.levels != nil {
		return p.columns()[i].Width
	}
	h := &p.heads[i]
	all := p.margin()
	for j := range p.heads {
		if !p.hidden(j) {
			all += 2 + p.heads[j].Width
		}
	}
	if h.Right || i == len(p.heads)-1 || p.left > 0 || all-2 <= m.w {
		return h.Width
	}
	return min(h.Width, max(m.w/5, width(h.Text)))
}

// margin is how many columns the sign of a row takes.
func (p *rowsPane) margin() int {
	if p.opens() {
		return 2
	}
	return 0
}

func (p *rowsPane) view(m *Model, w, h int) ([]string, int) {
	p.height = h
	if p.rows() == 0 {
		switch {
		case p.t == nil:
			return []string{"the recording has no samples"}, -1
		case len(p.filters) > 0:
			return []string{"no row is left: Esc takes the last filter off"}, -1
		}
		return []string{"no rows"}, -1
	}
	p.fit()
	var out []string
	selected := 0
	for at := p.top; len(out) < h; {
		on := at == p.at
		if on {
			selected = len(out)
		}
		s := cut(p.line(m, at, on), p.left, w)
		if on {
			s = m.bar(strip(s))
		}
		out = append(out, s)
		next := p.step(at, 1)
		if next == at {
			break
		}
		at = next
	}
	return out, selected
}

// line is a line of the table; one that is selected has no colours.
func (p *rowsPane) line(m *Model, at place, selected bool) string {
	row := p.row(at.row)
	if at.sub > 0 {
		return p.treeText(m, row, at.sub-1)
	}
	var b strings.Builder
	if p.levels != nil {
		b.WriteString(strings.Repeat(" ", levelIndent*p.levels.Depth[row]))
	}
	if p.opens() {
		b.WriteString(p.sign(row))
	}
	color := heat(p.t.Share(row))
	columns := p.columns()
	for i, cell := range p.cells(row) {
		h := &columns[i]
		if p.hidden(i) {
			continue
		}
		if i > 0 {
			b.WriteString("  ")
		}
		switch {
		case h.Right:
			b.WriteString(strings.Repeat(" ", max(h.Width-width(cell), 0)))
			if h.Key == report.Samples || h.Key == report.Period || selected {
				b.WriteString(cell)
			} else {
				b.WriteString(m.colored(color, cell))
			}
		case i == len(columns)-1:
			b.WriteString(p.indent())
			b.WriteString(cell)
		default:
			w := p.column(m, i)
			b.WriteString(pad(cut(cell, 0, w), w))
		}
	}
	return b.String()
}

// sign says whether a row is open, and whether anything is below it.
func (p *rowsPane) sign(row int) string {
	if p.level(row) {
		if p.opened(row) {
			return "- "
		}
		return "+ "
	}
	if !p.graph() {
		return "  "
	}
	if e := p.entries[row]; e != nil && e.ready && len(e.lines) == 0 && len(e.tree) == 0 {
		return "  "
	}
	if p.entry(row) != nil {
		return "- "
	}
	return "+ "
}

func (p *rowsPane) key(m *Model, k string) (tea.Cmd, bool) {
	n := p.rows()
	page := max(p.height-1, 1)
	switch k {
	case "up":
		p.at = p.step(p.at, -1)
	case "down":
		p.at = p.step(p.at, 1)
	case "pgup", "ctrl+b":
		p.at, p.top = p.step(p.at, -page), p.step(p.top, -page)
	case "pgdown", "ctrl+f", "space":
		p.at, p.top = p.step(p.at, page), p.step(p.top, page)
	case "home", "g":
		p.at = place{}
	case "end", "G":
		if n > 0 {
			p.at = place{n - 1, p.size(n-1) - 1}
		}
	case "right":
		p.left += 10
	case "left":
		if p.left == 0 {
			return p.back(m)
		}
		p.left = max(p.left-10, 0)
	case "esc", "backspace":
		return p.back(m)
	case "+", "-":
		p.set(false, false)
	case "e":
		p.set(true, true)
	case "c":
		if n == 0 {
			break
		}
		row := p.row(p.at.row)
		if p.level(row) {
			p.turnLevel(row, false, true)
		} else if e := p.entry(row); e != nil {
			e.open, e.own, p.at.sub = false, true, 0
		}
	case "E", "C":
		p.all = k == "E"
		p.entries, p.order = map[int]*entry{}, nil
		p.others++
		p.at.sub = 0
		clear(p.folds)
		p.unfold()
	case "tab", "shift+tab":
		return p.turn(m, map[string]int{"tab": 1, "shift+tab": -1}[k]), true
	case "/":
		m.ask("show only symbols with (none for all): ", func(m *Model, text string) tea.Cmd {
			m.search = text
			return p.filter(m, rowFilter{kind: "symbol", text: text}, text != "")
		})
	case "n", "N":
		return p.find(m, map[string]int{"n": 1, "N": -1}[k]), true
	case "d":
		return p.zoom(m, "DSO"), true
	case "t":
		return p.zoom(m, "thread"), true
	case "k":
		return p.zoom(m, "kernel"), true
	case "S":
		return p.zoom(m, "socket"), true
	case "F":
		m.relative = !m.relative
		m.message = "percentages of all samples"
		if m.relative {
			m.message = "percentages of what filters leave"
		}
		return p.turnRelative(m), true
	case "H":
		p.bare = !p.bare
	case "0", "1", "2", "3", "4", "5", "6", "7", "8", "9":
		return p.sortBy(m, int(k[0]-'0')), true
	case "r":
		return p.scripts(m), true
	case "M":
		return m.openEvents(), true
	case "L":
		m.ask("leave out rows below this percentage: ", func(m *Model, text string) tea.Cmd {
			var v float64
			if _, err := fmt.Sscan(text, &v); err != nil && text != "" || v < 0 || v > 100 {
				m.message = "not a percentage: " + escape.Name(text)
				return nil
			}
			return p.filter(m, rowFilter{kind: "limit", text: text, min: v}, v > 0)
		})
	case "V":
		return m.turnVerbose(), true
	case "P":
		if p.t == nil {
			break
		}
		v, o, lock := p.listing, m.data.Page, m.trees
		o.Color, o.PercentLimit = false, 0
		o.Verbose = o.Verbose != p.verbose
		for i := range p.filters {
			o.PercentLimit = max(o.PercentLimit, p.filters[i].min)
		}
		return m.saveAs("perf.hist.*", func(w io.Writer) error {
			lock.Lock()
			defer lock.Unlock()
			return report.WritePage(w, []*report.Table{v.base.Only(v.kept)}, o)
		}), true
	case "enter", "m":
		return p.menu(m), true
	case "a":
		return p.annotate(m), true
	case "b":
		if name := p.symbol(); name != "" {
			return m.openCallers(name), true
		}
		m.message = "no function is selected"
	case "f":
		return m.openFlame(), true
	case "T":
		return m.openTimeline(), true
	case "s":
		return m.openFiles(), true
	case "!":
		if m.data.Doctor == nil {
			m.message = "nothing more is known of what is lost"
			break
		}
		return m.page("what is lost, why, and what helps", m.data.Doctor), true
	case "i":
		if m.data.Info == nil {
			m.message = "the recording has no header"
			break
		}
		return m.page("the header of "+m.data.Name, func(context.Context) (string, error) { return m.data.Info() }), true
	default:
		return nil, false
	}
	p.fit()
	return nil, true
}

// back takes the last filter off; ok is false if there is none.
func (p *rowsPane) back(m *Model) (cmd tea.Cmd, ok bool) {
	if n := len(p.asked.filters); n > 0 {
		return p.apply(m, slices.Clone(p.asked.filters[:n-1])), true
	}
	if m.request.Times != "" {
		return m.load(Request{File: m.request.File}), true
	}
	return nil, false
}

// turn shows another event.
func (p *rowsPane) turn(m *Model, by int) tea.Cmd {
	n := len(m.data.Tables)
	if n < 2 {
		m.message = "there is one event"
		return nil
	}
	return m.showEvent((m.event + by + n) % n)
}

func (m *Model) showEvent(n int) tea.Cmd {
	m.event = n
	p, cmd := m.newRows()
	m.panes = []pane{p}
	return cmd
}

// openEvents asks which event is to be shown.
func (m *Model) openEvents() tea.Cmd {
	if len(m.data.Tables) < 2 {
		m.message = "there is one event"
		return nil
	}
	p := &menu{name: "events, and how many samples they have"}
	for i, t := range m.data.Tables {
		p.items = append(p.items, item{fmt.Sprintf("%6s %s", report.Short(t.Samples), escape.Name(t.Title())),
			func(m *Model) tea.Cmd { return m.showEvent(i) }})
	}
	p.at = m.event
	return m.push(p)
}

// turnRelative has percentages be of all samples, or of those that filters
// leave, as m.relative says.
func (p *rowsPane) turnRelative(m *Model) tea.Cmd {
	k := p.asked
	k.relative = m.relative
	return p.again(m, k)
}

// sortBy orders rows by a member of a group of events.
func (p *rowsPane) sortBy(m *Model, member int) tea.Cmd {
	switch {
	case p.t == nil:
		return nil
	case len(p.t.Totals) < 2:
		m.message = "the event is in no group"
		return nil
	case member >= len(p.t.Totals):
		m.message = fmt.Sprintf("the group has %d events, from 0 on", len(p.t.Totals))
		return nil
	}
	m.message = "sorted by " + escape.Name(p.t.Events[member])
	k := p.asked
	k.sort = member
	return p.again(m, k)
}

// zoom shows only what is of one DSO, thread or socket, or of the kernel, or
// again all.
func (p *rowsPane) zoom(m *Model, kind string) tea.Cmd {
	if p.asked.filteredBy(kind) {
		return p.filter(m, rowFilter{kind: kind}, false)
	}
	if p.rows() == 0 {
		return nil
	}
	row := p.row(p.at.row)
	r := p.t.Row(row)
	f := rowFilter{kind: kind, tid: -1}
	ok := true
	switch kind {
	case "DSO":
		f.text, ok = r.DSO, p.has(row, report.DSO)
	case "kernel":
		if f.objects = m.kernelObjects(); len(f.objects) == 0 {
			m.message = "there is no kernel in the recording"
			return nil
		}
		f.text, ok = p.t.ObjectName(f.objects[0]), p.base.Has(report.DSO)
	case "thread":
		f.text, ok = r.Comm, p.has(row, report.Comm) || p.has(row, report.PID) || p.has(row, report.TID)
		if p.has(row, report.PID) || p.has(row, report.TID) {
			f.tid = r.TID
		}
	case "socket":
		f.text, f.tid, ok = fmt.Sprint(r.Socket), r.Socket, p.has(row, report.Socket) && r.Socket >= 0
	}
	if !ok {
		m.message = "the row has no " + kind + ": see --sort"
		return nil
	}
	return p.filter(m, f, true)
}

// filter adds a filter in place of the one of its kind, or takes that off.
func (p *rowsPane) filter(m *Model, f rowFilter, on bool) tea.Cmd {
	next := slices.DeleteFunc(slices.Clone(p.asked.filters), func(g rowFilter) bool { return g.kind == f.kind })
	if on {
		next = append(next, f)
	}
	return p.apply(m, next)
}

// apply looks beside the screen which rows filters leave.
func (p *rowsPane) apply(m *Model, filters []rowFilter) tea.Cmd {
	k := p.asked
	k.filters = filters
	return p.again(m, k)
}

// find goes to the next row whose symbol has what was looked for in it.
func (p *rowsPane) find(m *Model, step int) tea.Cmd {
	n := p.rows()
	if m.search == "" || n == 0 {
		m.message = "/ looks for something"
		return nil
	}
	p.searching++
	number, want, from, visible, t, lines := p.searching, m.search, p.at.row, p.visible, p.t, *p
	return m.jobs.start(func(ctx context.Context) tea.Msg {
		found := -1
		for i := 1; i <= n && found < 0 && (i%checked > 0 || ctx.Err() == nil); i++ {
			at := ((from+step*i)%n + n) % n
			row := at
			if visible != nil {
				row = int(visible[at])
			}
			text := ""
			if lines.level(row) {
				text = strings.Join(lines.cells(row), " ")
			} else {
				r := t.Row(row)
				text = r.SymbolText()
			}
			if strings.Contains(text, want) {
				found = at
			}
		}
		return callMsg(func(m *Model) tea.Cmd {
			switch {
			case number != p.searching || found >= p.rows():
			case found < 0:
				m.message = "not found: " + escape.Name(want)
			default:
				p.at = place{found, 0}
				p.fit()
			}
			return m.settle()
		})
	})
}

func (p *rowsPane) status(m *Model) string {
	if p.rows() == 0 {
		return "h keys  q leaves"
	}
	s := fmt.Sprintf("row %d of %d  %.2f%%", p.at.row+1, p.rows(), p.t.Share(p.row(p.at.row)))
	if f := p.filtered(); f != "" {
		s += "  " + f + " (Esc)"
	}
	if n := len(m.data.Tables); n > 1 {
		s += fmt.Sprintf("  event %d of %d (Tab)", m.event+1, n)
	}
	return s + "  Enter menu  a code  h keys  q leaves"
}

func (p *rowsPane) say(m *Model) string {
	if p.rows() == 0 {
		return p.title(m)
	}
	p.fit()
	if p.at.sub > 0 {
		return strings.TrimSpace(strip(p.line(m, p.at, true)))
	}
	row := p.row(p.at.row)
	var parts []string
	columns := p.columns()
	for i, cell := range p.cells(row) {
		title := columns[i].Text
		if p.levels != nil && i == len(columns)-1 {
			title = p.levels.Titles[p.levels.Depth[row]]
		}
		parts = append(parts, title+" "+strings.TrimSpace(cell))
	}
	open := ""
	if p.opens() {
		open = ", closed"
		if p.sign(row) == "- " {
			open = ", open"
		}
	}
	return fmt.Sprintf("row %d of %d: %s%s", p.at.row+1, p.rows(), strings.Join(parts, ", "), open)
}

func (p *rowsPane) help() []keyHelp {
	return []keyHelp{
		{"Enter", "what can be done with the row"},
		{"a", "the code of the function, with the samples of each instruction"},
		{"+ -", "open or close the row, or a branch of its callers"},
		{"e", "the same, with all that is below it"},
		{"c", "close the row"},
		{"E C", "open, close all rows"},
		{"Tab Shift-Tab", "the next event, the one before"},
		{"/", "show only symbols with a text in them; none: all"},
		{"n N", "the next, the last row with that text"},
		{"d t S", "zoom into the DSO, thread, processor socket of the row, and out"},
		{"k", "zoom into the kernel, and out"},
		{"L", "leave out rows below a percentage"},
		{"F", "percentages of all samples, or of what filters leave"},
		{"Esc Left", "take the last filter off"},
		{"b", "callers and callees of the function"},
		{"f", "flame graph"},
		{"T", "select a part of the time"},
		{"r", "individual samples: of the function, of the thread, all"},
		{"V", "paths of objects, addresses of symbols, objects of callers; and back"},
		{"H", "titles of columns, or none"},
		{"0-9", "sort by this event of a group"},
		{"M", "a list of events to choose from"},
		{"P", "print the table to perf.hist.N"},
		{"i", "the header of the recording"},
		{"!", "what is lost, why, and what helps (perfark doctor)"},
		{"s", "show another recording of this directory"},
	}
}
