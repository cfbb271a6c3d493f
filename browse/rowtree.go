package browse

import (
	"context"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/report"
)

// An entry is a row that was opened, or closed.
type entry struct {
	open  bool
	own   bool // by a key on this row
	ready bool
	deep  bool // all branches are open
	tree  []*report.Branch
	sum   uint64                  // the period of the row
	fold  map[*report.Branch]bool // open or closed by a key
	lines []treeLine
}

// A treeLine is a line of a call tree.
type treeLine struct {
	depth  int
	sign   byte // '+' or '-'; ' ' where nothing follows
	branch *report.Branch
	frame  *report.Frame
	first  bool   // of its branch
	share  bool   // the share is shown
	whole  uint64 // what it is of
}

// mostOpen is how many trees are kept that no key opened one by one.
const mostOpen = 1 << 12

// maxDepth is how deep a tree is shown.
const maxDepth = 500

// entry returns what is shown below a row of the table; nil for nothing.
func (p *rowsPane) entry(row int) *entry {
	if !p.graph() || p.level(row) {
		return nil
	}
	e := p.entries[row]
	if e == nil && (p.folds != nil && p.opened(row) || p.folds == nil && p.all) {
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

// treeText is a line of a call tree.
func (p *rowsPane) treeText(m *Model, row, n int) string {
	e := p.entries[row]
	if !e.ready {
		return "     opening " + m.marks.dots
	}
	x := &e.lines[n]
	depth := x.depth
	if p.levels != nil {
		depth += p.levels.Depth[row]
	}
	s := strings.Repeat(" ", 3+3*depth) + string(rune(x.sign)) + " "
	g := p.t.Graph()
	switch {
	case x.share:
		v := 0.0
		if x.whole > 0 {
			v = 100 * float64(x.branch.Total.Period) / float64(x.whole)
		}
		s += m.colored(heat(v), g.Text(x.branch.Total, x.whole)) + " "
	case !x.first:
		s += "   "
	}
	text := x.frame.Text()
	if g.Mode == report.GraphFolded {
		for i := range x.branch.Frames[1:] {
			text += ";" + x.branch.Frames[i+1].Text()
		}
	}
	if p.verbose != m.data.Page.Verbose && x.frame.Object >= 0 {
		text += " " + escape.Name(p.t.ObjectName(x.frame.Object))
	}
	return s + text
}

// build makes the lines of a tree of a table.
func (e *entry) build(t *report.Table) {
	e.lines = e.lines[:0]
	g := t.Graph()
	fractal := g.Mode == report.GraphFractal
	var add func(list []*report.Branch, depth int, whole, up uint64)
	add = func(list []*report.Branch, depth int, whole, up uint64) {
		for _, br := range list {
			open, given := e.fold[br]
			if !given {
				open = e.deep || depth == 0 && len(e.tree) == 1
			}
			frames := br.Frames
			if g.Mode == report.GraphFolded {
				frames = frames[:min(len(frames), 1)]
			}
			sign := byte(' ')
			switch {
			case len(br.Sub)+len(frames) <= 1:
			case open:
				sign = '-'
			default:
				sign = '+'
			}
			// As in perf, a branch that is all there is has no share.
			share := len(list) > 1 || br.Total.Period != up
			for i := range frames {
				if i > 0 && !open {
					break
				}
				e.lines = append(e.lines, treeLine{min(depth, maxDepth), sign, br, &frames[i], i == 0, i == 0 && share, whole})
				sign = ' '
			}
			if open && depth < maxDepth {
				sub := whole
				if fractal {
					sub = br.Total.Period - br.Self.Period
				}
				add(br.Sub, depth+1, sub, br.Total.Period)
			}
		}
	}
	whole := t.Totals[0].Period
	if fractal {
		whole = e.sum
	}
	add(e.tree, 0, whole, e.sum)
}

// ahead is for how many screens trees are made at a time: those of many rows
// take little more than those of one.
const ahead = 8

// settle begins to make the trees that are to be on the screen.
func (p *rowsPane) settle(m *Model) tea.Cmd {
	if !p.graph() || p.rows() == 0 || p.makes {
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
	v, others, lock := p.listing, p.others, m.trees
	return m.jobs.start(func(context.Context) tea.Msg {
		trees := make([][]*report.Branch, 0, len(want))
		lock.Lock()
		defer lock.Unlock()
		for i := 0; i < len(want); {
			n := 1
			for i+n < len(want) && want[i+n] == want[i]+n {
				n++
			}
			trees = append(trees, v.trees(want[i], n)...)
			i += n
		}
		return callMsg(func(m *Model) tea.Cmd {
			p.makes = false
			if others != p.others {
				return m.settle() // rows are others now
			}
			for i, row := range want {
				if e := p.entries[row]; e != nil && !e.ready {
					e.tree, e.ready = trees[i], true
					r := p.t.Row(row)
					e.sum = r.Counts[0].Period
					if r.Children != nil {
						e.sum = r.Children[0].Period
					}
					e.build(p.base)
				}
			}
			return m.settle()
		})
	})
}

// set opens or closes the row of the selected line, or the branch.
func (p *rowsPane) set(whole, deep bool) {
	if !p.opens() || p.rows() == 0 {
		return
	}
	row := p.row(p.at.row)
	if p.level(row) {
		p.turnLevel(row, !p.opened(row), deep)
		return
	}
	if !p.graph() {
		return
	}
	p.entry(row) // is made if all rows are open
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
		e.build(p.base)
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
		e.build(p.base)
	}
}
