package browse

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"

	tea "charm.land/bubbletea/v2"

	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/report"
)

// A listing is the rows of a table that filters leave, and how they are written.
type listing struct {
	whole  *report.Table  // of the event, in the order that is shown
	base   *report.Table  // the same with the percentages that are shown
	t      *report.Table  // that rows are of: base, or one with a row for each level
	l      *report.Lines  // of t
	levels *report.Levels // nil if the table is no hierarchy
	kept   []int32        // rows of base; nil: all
}

// looks say which rows of a table are shown, and how.
type looks struct {
	filters  []rowFilter
	sort     int  // the member of the group that is sorted by
	relative bool // percentages are of what filters leave
	verbose  bool
}

// newListing makes a listing, which takes a while for a long table.
func newListing(ctx context.Context, base *report.Table, page report.PageOptions, k looks, lock *sync.Mutex) *listing {
	if k.sort > 0 && k.sort < len(base.Totals) {
		lock.Lock()
		base = base.By(k.sort)
		lock.Unlock()
	}
	v := &listing{whole: base, base: base, t: base, kept: sift(ctx, base, k.filters)}
	page.Verbose = page.Verbose != k.verbose
	lock.Lock()
	if k.relative && v.kept != nil {
		v.base = base.Of(v.kept)
		v.t = v.base
	}
	if v.levels = v.base.Levels(v.kept); v.levels != nil {
		v.t = v.levels.Table
	}
	lock.Unlock()
	v.l = report.NewLines(v.t, page)
	return v
}

// trees are Table.Trees of rows of the listing. The lock of the tables is held.
func (v *listing) trees(first, n int) [][]*report.Branch {
	var trees [][]*report.Branch
	if v.levels != nil {
		trees = v.levels.Trees(first, n)
	} else {
		trees = v.whole.Trees(first, n)
	}
	if v.base.Graph().Mode.Chains() {
		for i := range trees {
			trees[i] = v.base.Chains(trees[i])
		}
	}
	return trees
}

// sift returns which rows of a table filters leave; nil for all. The levels of
// a hierarchy each have their own limit.
func sift(ctx context.Context, t *report.Table, filters []rowFilter) []int32 {
	named := slices.ContainsFunc(filters, func(f rowFilter) bool { return f.kind != "limit" })
	if len(filters) == 0 || !named && t.Tiered() {
		return nil
	}
	out := []int32{}
	for i := range t.Len() {
		if i%checked == 0 && ctx.Err() != nil {
			break
		}
		var r report.Row
		if named {
			r = t.Row(i)
		}
		keep := true
		for _, f := range filters {
			switch f.kind {
			case "DSO":
				keep = keep && r.DSO == f.text
			case "kernel":
				keep = keep && r.Object >= 0 && slices.Contains(f.objects, r.Object)
			case "thread":
				keep = keep && r.Comm == f.text && (f.tid < 0 || r.TID == f.tid)
			case "socket":
				keep = keep && r.Socket == f.tid
			case "symbol":
				keep = keep && strings.Contains(r.SymbolText(), f.text)
			case "limit":
				keep = keep && (t.Tiered() || t.Share(i) >= f.min)
			}
		}
		if keep {
			out = append(out, int32(i))
		}
	}
	return out
}

// Rows of a hierarchy that were opened or closed by a key.
const (
	folded = 1 + iota
	unfolded
)

// opened reports whether what is below a row of a hierarchy is shown.
func (p *rowsPane) opened(row int) bool {
	switch p.folds[row] {
	case folded:
		return false
	case unfolded:
		return true
	}
	return p.all
}

// unfold finds which rows are shown.
func (p *rowsPane) unfold() {
	if p.levels == nil {
		p.visible = p.kept
		return
	}
	was := -1
	if p.at.row < len(p.visible) {
		was = int(p.visible[p.at.row])
	}
	least := 0.0
	for _, f := range p.filters {
		least = max(least, f.min)
	}
	v := p.levels
	out := []int32{}
	for i := 0; i < len(v.Depth); {
		if v.Table.Share(i) < least {
			i = v.End[i]
			continue
		}
		out = append(out, int32(i))
		if v.Leaf(i) || p.opened(i) {
			i++
		} else {
			i = v.End[i]
		}
	}
	p.visible = out
	// The row that was selected, or that above it which hides it.
	n := sort.Search(len(out), func(i int) bool { return int(out[i]) > was })
	if at := max(n-1, 0); at != p.at.row {
		p.at = place{at, 0}
	}
}

// turnLevel opens or closes a row of a hierarchy; deep all that is below it,
// too.
func (p *rowsPane) turnLevel(row int, open, deep bool) {
	to := uint8(folded)
	if open {
		to = unfolded
	}
	p.folds[row] = to
	if deep {
		for i := row; i < p.levels.End[row]; i++ {
			p.folds[i] = to
			if e := p.entries[i]; e != nil {
				e.open, e.deep, e.fold = open, open, nil
				if e.ready {
					e.build(p.base)
				}
			}
		}
	}
	p.unfold()
}

// level reports whether a row of t has others below it.
func (p *rowsPane) level(row int) bool { return p.levels != nil && !p.levels.Leaf(row) }

// has reports whether a row of t has a key, or all rows have the same.
func (p *rowsPane) has(row int, k report.Key) bool {
	if p.levels == nil {
		return p.base.Has(k)
	}
	for _, columns := range p.levels.Keys[:p.levels.Depth[row]+1] {
		for _, c := range columns {
			if p.heads[c].Key == k {
				return true
			}
		}
	}
	return p.base.Has(k) && !slices.ContainsFunc(p.heads, func(h report.Heading) bool { return h.Key == k })
}

// cells are what a row has of each column. Of a hierarchy it is what is
// counted, and the keys of the level together.
func (p *rowsPane) cells(row int) []string {
	cells := p.l.Row(row)
	if p.levels == nil {
		return cells
	}
	var key []string
	for _, c := range p.levels.Keys[p.levels.Depth[row]] {
		key = append(key, cells[c])
	}
	var out []string
	for _, c := range p.counts() {
		out = append(out, cells[c])
	}
	return append(out, strings.TrimSpace(strings.Join(key, "  ")))
}

// counts are the columns of a hierarchy that are no keys.
func (p *rowsPane) counts() []int {
	var out []int
	for c := range p.heads {
		if !slices.ContainsFunc(p.levels.Keys, func(keys []int) bool { return slices.Contains(keys, c) }) {
			out = append(out, c)
		}
	}
	return out
}

// columns are the titles of what cells returns.
func (p *rowsPane) columns() []report.Heading {
	if p.levels == nil {
		return p.heads
	}
	var out []report.Heading
	for _, c := range p.counts() {
		out = append(out, p.heads[c])
	}
	title := strings.Join(p.levels.Titles, " / ")
	return append(out, report.Heading{Key: report.Symbol, Text: title, Width: width(title)})
}

// levelIndent is how far a level stands behind the one above it.
const levelIndent = 3

// indent is what stands before the last column, so that the deepest level has
// room before its counts.
func (p *rowsPane) indent() string {
	if p.levels == nil {
		return ""
	}
	return strings.Repeat(" ", levelIndent*(len(p.levels.Keys)-1))
}

// again makes the listing of the pane anew beside the screen.
func (p *rowsPane) again(m *Model, k looks) tea.Cmd {
	if p.base == nil {
		return nil
	}
	p.looking++
	p.asked = k
	number, d, event, lock := p.looking, m.data, m.event, m.trees
	return m.jobs.start(func(ctx context.Context) tea.Msg {
		v := newListing(ctx, d.Tables[event], d.Page, k, lock)
		return callMsg(func(m *Model) tea.Cmd {
			if number == p.looking {
				p.show(v, k)
			}
			return m.settle()
		})
	})
}

// show shows another listing, with the same row selected if it is there.
func (p *rowsPane) show(v *listing, k looks) {
	was, sorted := -1, p.sort != k.sort
	if p.rows() > 0 && p.levels == nil {
		was = p.row(p.at.row)
	}
	same := !sorted && slices.EqualFunc(p.filters, k.filters, func(a, b rowFilter) bool { return a.is(b) })
	p.listing, p.looks = v, k
	p.heads = v.l.Headings()
	if sorted || v.levels != nil && !same {
		p.entries, p.order = map[int]*entry{}, nil
		p.others++
	}
	for _, e := range p.entries { // percentages may be of something else
		if e.ready {
			e.build(p.base)
		}
	}
	if v.levels != nil {
		if !same {
			p.at, p.top = place{}, place{}
			p.folds = make([]uint8, len(v.levels.Depth))
			const few = 1000 // levels that are opened for a filter
			if len(v.kept) > 0 && len(v.levels.Depth) <= few {
				for i := range p.folds {
					if !v.levels.Leaf(i) {
						p.folds[i] = unfolded
					}
				}
			}
		}
		p.unfold()
		p.fit()
		return
	}
	p.unfold()
	if !same {
		p.at, p.top = place{}, place{}
		switch {
		case sorted:
		case p.visible == nil:
			p.at.row = max(was, 0)
		default:
			p.at.row = max(slices.Index(p.visible, int32(was)), 0)
		}
	}
	p.fit()
}

// kernelObjects returns the objects that are kernel images.
func (m *Model) kernelObjects() []int32 {
	var out []int32
	if m.data.Profile == nil {
		return nil
	}
	for i := range m.data.Profile.Objects {
		if m.data.Profile.Objects[i].Kind == profile.KindKernel {
			out = append(out, int32(i))
		}
	}
	return out
}

// title says which rows a filter leaves, as perf does.
func (f *rowFilter) title() string {
	switch f.kind {
	case "DSO", "kernel":
		return ", DSO: " + escape.Name(f.text)
	case "thread":
		if f.tid >= 0 {
			return fmt.Sprintf(", Thread: %s(%d)", escape.Name(f.text), f.tid)
		}
		return ", Thread: " + escape.Name(f.text)
	case "socket":
		return fmt.Sprintf(", Processor Socket: %d", f.tid)
	}
	return ""
}
