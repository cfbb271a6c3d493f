package browse

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/report"
)

// A rowsPane is the table of an event: rows, and below those that are open the
// trees of their callers. A place in it is a row and a line of its tree, not a
// number of lines: how high all rows are is never needed.
type rowsPane struct {
	t       *report.Table
	l       *report.Lines
	heads   []report.Heading
	visible []int32 // rows of t; nil: all
	filters []rowFilter
	filtering,
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

// An entry is a row that was opened, or closed.
type entry struct {
	open  bool
	own   bool // by a key on this row
	ready bool
	deep  bool // all branches are open
	tree  []*report.Branch
	fold  map[*report.Branch]bool // open or closed by a key
	lines []treeLine
}

// A treeLine is a line of a call tree.
type treeLine struct {
	depth  int
	sign   byte // '+' or '-'; ' ' where nothing follows
	branch *report.Branch
	frame  *report.Frame
	first  bool // of its branch: it has the share
}

// mostOpen is how many trees are kept that no key opened one by one.
const mostOpen = 1 << 12

// maxDepth is how deep a tree is shown.
const maxDepth = 500

// A rowFilter leaves rows out.
type rowFilter struct {
	kind string // "DSO", "thread", "symbol", "limit"
	text string
	min  float64
}

func (f *rowFilter) String() string { return f.kind + ": " + escape.Name(f.text) }

// newRows shows the table of the event that m.event says.
func (m *Model) newRows() *rowsPane {
	p := &rowsPane{t: m.table(), entries: map[int]*entry{}}
	if p.t == nil {
		return p
	}
	p.layout(m)
	p.height = m.h
	if m.data.Page.PercentLimit > 0 {
		n := m.data.Page.PercentLimit
		p.filters = append(p.filters, rowFilter{"limit", fmt.Sprint(n), n})
		p.visible = p.sift(m.jobs.ctx, p.filters)
	}
	return p
}

func (p *rowsPane) layout(m *Model) {
	p.l = m.lines[m.event]
	p.heads = p.l.Headings()
}

// turnVerbose shows more of each row, or less: how wide columns then are is
// found out beside the screen.
func (m *Model) turnVerbose() tea.Cmd {
	d, verbose := m.data, !m.verbose
	return m.jobs.start(func(context.Context) tea.Msg {
		o := d.Page
		o.Verbose = o.Verbose != verbose
		var lines []*report.Lines
		for _, t := range d.Tables {
			lines = append(lines, report.NewLines(t, o))
		}
		return callMsg(func(m *Model) tea.Cmd {
			if m.data != d {
				return nil
			}
			m.verbose, m.lines = verbose, lines
			if p, ok := m.panes[0].(*rowsPane); ok && p.t != nil {
				p.layout(m)
			}
			return nil
		})
	})
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

// trees reports whether rows have call trees.
func (p *rowsPane) trees() bool { return p.t != nil && p.t.Graph().Mode != report.GraphNone }

// entry returns what is shown below a row of the table; nil for nothing.
func (p *rowsPane) entry(row int) *entry {
	e := p.entries[row]
	if e == nil && p.all {
		e = &entry{open: true, deep: true}
		p.entries[row] = e
		p.order = append(p.order, row)
		p.forget()
	}
	if e == nil || !e.open {
		return nil
	}
	return e
}

// forget lets go of trees of rows that were only passed by.
func (p *rowsPane) forget() {
	for len(p.order) > mostOpen {
		if e := p.entries[p.order[0]]; e != nil && !e.own {
			delete(p.entries, p.order[0])
		}
		p.order = p.order[1:]
	}
}

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
	if p.t == nil {
		return ""
	}
	s := strings.Repeat(" ", p.margin())
	for i, h := range p.heads {
		if p.hidden(i) {
			continue
		}
		if i > 0 {
			s += "  "
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
	kind := map[report.Key]string{report.DSO: "DSO", report.Comm: "thread"}[p.heads[i].Key]
	return kind != "" && i < len(p.heads)-1 && p.filteredBy(kind)
}

func (p *rowsPane) filteredBy(kind string) bool {
	return slices.ContainsFunc(p.filters, func(f rowFilter) bool { return f.kind == kind })
}

// column is how wide a column is shown. Where not all have room, those before
// the last do without the ends of long names, until the view is moved to the
// right.
func (p *rowsPane) column(m *Model, i int) int {
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
	if p.trees() {
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
	if p.trees() {
		sign := "+ "
		if e := p.entry(row); e != nil {
			sign = "- "
			if e.ready && len(e.lines) == 0 {
				sign = "  "
			}
		}
		b.WriteString(sign)
	}
	color := heat(p.t.Share(row))
	for i, cell := range p.l.Row(row) {
		h := &p.heads[i]
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
		case i == len(p.heads)-1:
			b.WriteString(cell)
		default:
			w := p.column(m, i)
			b.WriteString(pad(cut(cell, 0, w), w))
		}
	}
	return b.String()
}

// treeText is a line of a call tree.
func (p *rowsPane) treeText(m *Model, row, n int) string {
	e := p.entries[row]
	if !e.ready {
		return "     opening " + m.marks.dots
	}
	x := &e.lines[n]
	s := strings.Repeat(" ", 3+3*x.depth) + string(rune(x.sign)) + " "
	if x.first {
		g := p.t.Graph()
		total := p.t.Totals[0].Period
		share := g.Text(x.branch.Total, total)
		v := 0.0
		if total > 0 {
			v = 100 * float64(x.branch.Total.Period) / float64(total)
		}
		s += m.colored(heat(v), share) + " "
	} else {
		s += "   "
	}
	return s + x.frame.Text()
}

// build makes the lines of a tree.
func (e *entry) build() {
	e.lines = e.lines[:0]
	var add func(list []*report.Branch, depth int)
	add = func(list []*report.Branch, depth int) {
		for _, br := range list {
			open, given := e.fold[br]
			if !given {
				open = e.deep || depth == 0 && len(e.tree) == 1
			}
			sign := byte(' ')
			switch {
			case len(br.Sub)+len(br.Frames) <= 1:
			case open:
				sign = '-'
			default:
				sign = '+'
			}
			for i := range br.Frames {
				if i > 0 && !open {
					break
				}
				e.lines = append(e.lines, treeLine{min(depth, maxDepth), sign, br, &br.Frames[i], i == 0})
				sign = ' '
			}
			if open && depth < maxDepth {
				add(br.Sub, depth+1)
			}
		}
	}
	add(e.tree, 0)
}

// ahead is for how many screens trees are made at a time: those of many rows
// take little more than those of one.
const ahead = 8

// settle begins to make the trees that are to be on the screen.
func (p *rowsPane) settle(m *Model) tea.Cmd {
	if !p.trees() || p.rows() == 0 || p.makes {
		return nil
	}
	p.fit()
	var want []int
	seen := false
	page := max(p.height, m.h, 1)
	for i := p.top.row; i < min(p.rows(), p.top.row+ahead*page); i++ {
		if e := p.entry(p.row(i)); e != nil && !e.ready {
			want = append(want, p.row(i))
			seen = seen || i < p.top.row+page
		}
	}
	if !seen {
		return nil
	}
	p.makes = true
	t, lock := p.t, m.trees
	return m.jobs.start(func(context.Context) tea.Msg {
		trees := make([][]*report.Branch, 0, len(want))
		lock.Lock()
		defer lock.Unlock()
		for i := 0; i < len(want); {
			n := 1
			for i+n < len(want) && want[i+n] == want[i]+n {
				n++
			}
			trees = append(trees, t.Trees(want[i], n)...)
			i += n
		}
		return callMsg(func(m *Model) tea.Cmd {
			p.makes = false
			for i, row := range want {
				if e := p.entries[row]; e != nil && !e.ready {
					e.tree, e.ready = trees[i], true
					e.build()
				}
			}
			return m.settle()
		})
	})
}

// set opens or closes the row of the selected line, or the branch.
func (p *rowsPane) set(whole, deep bool) {
	if !p.trees() || p.rows() == 0 {
		return
	}
	row := p.row(p.at.row)
	e := p.entries[row]
	if e == nil {
		e = &entry{}
		p.entries[row] = e
	}
	e.own = true
	if p.at.sub > 0 && !whole && e.ready {
		x := &e.lines[p.at.sub-1]
		if e.fold == nil {
			e.fold = map[*report.Branch]bool{}
		}
		open := false
		for i := range e.lines {
			if e.lines[i].branch == x.branch && e.lines[i].first {
				open = e.lines[i].sign == '-'
			}
		}
		e.fold[x.branch] = !open
		branch := x.branch
		e.build()
		for i := range e.lines { // back to where the branch begins
			if e.lines[i].branch == branch {
				p.at.sub = i + 1
				break
			}
		}
		return
	}
	e.open = !e.open
	e.deep, e.fold = deep, nil
	if !e.open {
		p.at.sub = 0
	}
	if e.ready {
		e.build()
	}
}

func (p *rowsPane) key(m *Model, k string) (tea.Cmd, bool) {
	n := p.rows()
	page := max(p.height-1, 1)
	switch k {
	case "up", "k":
		p.at = p.step(p.at, -1)
	case "down", "j":
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
		if n > 0 {
			if e := p.entry(p.row(p.at.row)); e != nil {
				e.open, e.own, p.at.sub = false, true, 0
			}
		}
	case "E", "C":
		p.all = k == "E"
		p.entries, p.order = map[int]*entry{}, nil
		p.at.sub = 0
	case "tab", "shift+tab":
		return p.turn(m, map[string]int{"tab": 1, "shift+tab": -1}[k]), true
	case "/":
		m.ask("show only symbols with (none for all): ", func(m *Model, text string) tea.Cmd {
			m.search = text
			return p.filter(m, rowFilter{"symbol", text, 0}, text != "")
		})
	case "n", "N":
		return p.find(m, map[string]int{"n": 1, "N": -1}[k]), true
	case "d":
		return p.zoom(m, "DSO"), true
	case "t":
		return p.zoom(m, "thread"), true
	case "L":
		m.ask("leave out rows below this percentage: ", func(m *Model, text string) tea.Cmd {
			var v float64
			if _, err := fmt.Sscan(text, &v); err != nil && text != "" || v < 0 || v > 100 {
				m.message = "not a percentage: " + escape.Name(text)
				return nil
			}
			return p.filter(m, rowFilter{"limit", text, v}, v > 0)
		})
	case "V":
		return m.turnVerbose(), true
	case "P":
		if p.t == nil {
			break
		}
		t, o, lock := p.t, m.data.Page, m.trees
		o.Color = false
		o.Verbose = o.Verbose != m.verbose
		return m.saveAs("perf.hist.*", func(w io.Writer) error {
			lock.Lock()
			defer lock.Unlock()
			return report.WritePage(w, []*report.Table{t}, o)
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
	if n := len(p.filters); n > 0 {
		return p.apply(m, slices.Clone(p.filters[:n-1])), true
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
	m.event = (m.event + by + n) % n
	m.panes = []pane{m.newRows()}
	return nil
}

// zoom shows only what is of one DSO or thread, or again all.
func (p *rowsPane) zoom(m *Model, kind string) tea.Cmd {
	if p.filteredBy(kind) {
		return p.filter(m, rowFilter{kind: kind}, false)
	}
	if p.rows() == 0 {
		return nil
	}
	r := p.t.Row(p.row(p.at.row))
	switch {
	case kind == "DSO" && !p.t.Has(report.DSO), kind == "thread" && !p.t.Has(report.Comm):
		m.message = "rows have no " + kind + ": see --sort"
		return nil
	case kind == "DSO":
		return p.filter(m, rowFilter{"DSO", r.DSO, 0}, true)
	}
	return p.filter(m, rowFilter{"thread", r.Comm, 0}, true)
}

// filter adds a filter in place of the one of its kind, or takes that off.
func (p *rowsPane) filter(m *Model, f rowFilter, on bool) tea.Cmd {
	next := slices.DeleteFunc(slices.Clone(p.filters), func(g rowFilter) bool { return g.kind == f.kind })
	if on {
		next = append(next, f)
	}
	return p.apply(m, next)
}

// apply looks beside the screen which rows filters leave.
func (p *rowsPane) apply(m *Model, filters []rowFilter) tea.Cmd {
	if p.t == nil {
		return nil
	}
	p.filtering++
	number := p.filtering
	return m.jobs.start(func(ctx context.Context) tea.Msg {
		visible := p.sift(ctx, filters)
		return callMsg(func(m *Model) tea.Cmd {
			if number != p.filtering {
				return nil
			}
			was := -1
			if p.rows() > 0 {
				was = p.row(p.at.row)
			}
			p.filters, p.visible = filters, visible
			p.at, p.top = place{}, place{}
			if visible == nil {
				p.at.row = max(was, 0)
			} else if i := slices.Index(visible, int32(was)); i >= 0 {
				p.at.row = i
			}
			p.fit()
			return m.settle()
		})
	})
}

// sift returns which rows filters leave; nil for all.
func (p *rowsPane) sift(ctx context.Context, filters []rowFilter) []int32 {
	if len(filters) == 0 {
		return nil
	}
	out := []int32{}
	for i := range p.t.Len() {
		if i%checked == 0 && ctx.Err() != nil {
			break
		}
		var r report.Row
		if slices.ContainsFunc(filters, func(f rowFilter) bool { return f.kind != "limit" }) {
			r = p.t.Row(i)
		}
		keep := true
		for _, f := range filters {
			switch f.kind {
			case "DSO":
				keep = keep && r.DSO == f.text
			case "thread":
				keep = keep && r.Comm == f.text
			case "symbol":
				keep = keep && strings.Contains(r.SymbolText(), f.text)
			case "limit":
				keep = keep && p.t.Share(i) >= f.min
			}
		}
		if keep {
			out = append(out, int32(i))
		}
	}
	return out
}

// find goes to the next row whose symbol has what was looked for in it.
func (p *rowsPane) find(m *Model, step int) tea.Cmd {
	n := p.rows()
	if m.search == "" || n == 0 {
		m.message = "/ looks for something"
		return nil
	}
	p.searching++
	number, want, from, visible, t := p.searching, m.search, p.at.row, p.visible, p.t
	return m.jobs.start(func(ctx context.Context) tea.Msg {
		found := -1
		for i := 1; i <= n && found < 0 && (i%checked > 0 || ctx.Err() == nil); i++ {
			at := ((from+step*i)%n + n) % n
			row := at
			if visible != nil {
				row = int(visible[at])
			}
			r := t.Row(row)
			if strings.Contains(r.SymbolText(), want) {
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
	return Function{Object: r.Object, Start: r.Addr, Symbol: r.Symbol}, r.Symbol != "" && p.t.Has(report.Symbol)
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
	r := p.t.Row(p.row(p.at.row))
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
	case p.t.Has(report.Comm):
		add("Zoom into thread "+escape.Name(r.Comm), "t")
	}
	switch {
	case p.filteredBy("DSO"):
		add("Zoom out of the DSO", "d")
	case p.t.Has(report.DSO):
		add("Zoom into DSO "+escape.Name(r.DSO), "d")
	}
	if p.trees() {
		add("Expand or collapse the call chain (one level)", "+")
		add("Expand or collapse the call chain (all of it)", "e")
	}
	items = append(items, item{"Show where the row is from", func(m *Model) tea.Cmd { return m.push(p.origin(m, r)) }})
	add("Flame graph", "f")
	if m.data.Timeline != nil {
		add("Select a part of the time", "T")
	}
	add("Print the table to a file", "P")
	if m.o.Files != nil {
		add("Show another recording of this directory", "s")
	}
	items = append(items, item{"Leave", func(m *Model) tea.Cmd { return m.leave() }})
	return m.push(&menu{name: "what now?", items: items})
}

// origin is a page about where the code of a row is from.
func (p *rowsPane) origin(m *Model, r report.Row) pane {
	lines := []string{
		"symbol     " + r.SymbolText(),
		fmt.Sprintf("address    %#x", r.Addr),
		"thread     " + escape.Name(r.Comm) + fmt.Sprintf(" (%d/%d)", r.PID, r.TID),
	}
	if d := m.data.Profile; d != nil && r.Object >= 0 && int(r.Object) < len(d.Objects) {
		o := &d.Objects[r.Object]
		id := "none"
		if o.BuildID != "" {
			id = o.BuildID.String()
		}
		lines = append(lines, "object     "+escape.Name(o.Path), "build id   "+id, "samples    "+fmt.Sprint(o.Samples)+" in the object")
		if o.Note != "" {
			lines = append(lines, "note       "+escape.Name(o.Note))
		}
	} else if r.Object == profile.None {
		lines = append(lines, "object     none: nothing was mapped there")
	}
	return &textPane{name: "where the row is from", text: lines}
}

func (p *rowsPane) status(m *Model) string {
	if p.rows() == 0 {
		return "? keys  q leaves"
	}
	s := fmt.Sprintf("row %d of %d  %.2f%%", p.at.row+1, p.rows(), p.t.Share(p.row(p.at.row)))
	if f := p.filtered(); f != "" {
		s += "  " + f + " (Esc)"
	}
	if n := len(m.data.Tables); n > 1 {
		s += fmt.Sprintf("  event %d of %d (Tab)", m.event+1, n)
	}
	return s + "  Enter menu  a code  ? keys  q leaves"
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
	for i, cell := range p.l.Row(row) {
		parts = append(parts, p.heads[i].Text+" "+strings.TrimSpace(cell))
	}
	open := ""
	if p.trees() {
		open = ", closed"
		if p.entry(row) != nil {
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
		{"d", "zoom into the DSO of the row, and out"},
		{"t", "zoom into the thread of the row, and out"},
		{"L", "leave out rows below a percentage"},
		{"Esc Left", "take the last filter off"},
		{"b", "callers and callees of the function"},
		{"f", "flame graph"},
		{"T", "select a part of the time"},
		{"V", "paths of objects, and addresses of symbols; and back"},
		{"P", "print the table to perf.hist.N"},
		{"i", "the header of the recording"},
		{"!", "what is lost, why, and what helps (perfark doctor)"},
		{"s", "show another recording of this directory"},
	}
}
