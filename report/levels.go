package report

import "strings"

// Levels are the rows of a hierarchy: Table has a row for each, in the order of
// WritePage, those below a row behind it.
type Levels struct {
	Table  *Table
	Depth  []int    // of each row: 0 for the first key
	End    []int    // of each row: the next one that is not below it
	Keys   [][]int  // by depth: which columns of Lines are its keys
	Titles []string // by depth

	of   *Table
	leaf []int32 // by row: that of the table which it stands for; -1 above the last key
}

// Levels returns the hierarchy of these rows of t, by their place in it; nil is
// all of them. It returns nil if Options.Hierarchy was not asked for.
func (t *Table) Levels(rows []int32) *Levels {
	if !t.Tiered() {
		return nil
	}
	tiers, all := t.Only(rows).levels()
	columns := t.visible()
	out := &Levels{Table: all, Keys: t.tierColumns(columns), of: t}
	out.Titles = t.tierTitles(columns, out.Keys)
	all.order = make([]int32, 0, len(all.rows))
	out.add(tiers)
	return out
}

// tierTitles returns the titles of levels, whose keys are some of the columns.
func (t *Table) tierTitles(columns []Key, keys [][]int) []string {
	var out []string
	for _, level := range keys {
		var names []string
		for _, c := range level {
			names = append(names, strings.TrimSpace(t.heading(columns[c])))
		}
		out = append(out, strings.Join(names, "+"))
	}
	return out
}

func (l *Levels) add(tiers []*tier) {
	for _, t := range tiers {
		i := len(l.Depth)
		l.Table.order = append(l.Table.order, int32(t.Row))
		l.Depth = append(l.Depth, t.Depth)
		l.End = append(l.End, 0)
		l.leaf = append(l.leaf, int32(t.Leaf))
		l.add(t.Sub)
		l.End[i] = len(l.Depth)
	}
}

// Leaf reports whether nothing is below row i but its call tree.
func (l *Levels) Leaf(i int) bool { return l.leaf[i] >= 0 }

// Trees is Table.Trees. Rows above the last key have none.
func (l *Levels) Trees(first, n int) [][]*Branch {
	out := make([][]*Branch, n)
	var rows []int32
	for _, r := range l.leaf[first : first+n] {
		if r >= 0 {
			rows = append(rows, r)
		}
	}
	trees := l.of.trees(rows)
	for i, r := range l.leaf[first : first+n] {
		if r >= 0 {
			out[i], trees = trees[0], trees[1:]
		}
	}
	return out
}
