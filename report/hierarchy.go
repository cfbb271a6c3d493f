package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// hierarchyIndent is how far a level stands behind the one above.
const hierarchyIndent = 3

// A tier is a row of a hierarchy: what the rows of a table have in common in
// their first keys.
type tier struct {
	Depth int
	Row   int // in the table of levels
	Leaf  int // in the table that the levels are of; -1 above the last key
	Sub   []*tier
}

// Tiered reports whether t is shown as a tree of its keys: see Levels.
func (t *Table) Tiered() bool {
	return t.b.o.Hierarchy && slices.ContainsFunc(t.visible(), func(k Key) bool { return !k.counts() })
}

// tierColumns returns the columns of the keys of each level, by their place in
// columns.
func (t *Table) tierColumns(columns []Key) [][]int {
	var list [][]int
	last := -1
	for c, k := range columns {
		if k.counts() {
			continue
		}
		group := slices.IndexFunc(t.b.o.Together, func(g []Key) bool { return slices.Contains(g, k) })
		if group >= 0 && group == last {
			list[len(list)-1] = append(list[len(list)-1], c)
		} else {
			list = append(list, []int{c})
		}
		last = group
	}
	return list
}

// levels returns the hierarchy of a table, and a table with a row for each
// level. Rows of one level are in the order of what is counted, and of their
// key.
func (t *Table) levels() ([]*tier, *Table) {
	b := t.b
	columns := t.visible()
	var keys [][]Key
	for _, level := range t.tierColumns(columns) {
		var list []Key
		for _, c := range level {
			list = append(list, columns[c])
		}
		keys = append(keys, list)
	}
	all := *t
	all.rows, all.self, all.modes = nil, nil, nil
	m := len(t.Totals)
	type edge struct {
		up   int
		code int32
	}
	have := make(map[edge]*tier)
	type pair struct{ first, last int32 }
	pairs := make(map[pair]int32) // of the values of several keys
	root := &tier{}
	for _, r := range t.order {
		row := &t.rows[r]
		at, up := root, -1
		for depth, k := range keys {
			code := b.code(row, k[0])
			for _, more := range k[1:] {
				p := pair{code, b.code(row, more)}
				n, ok := pairs[p]
				if !ok {
					n = int32(len(pairs))
					pairs[p] = n
				}
				code = n
			}
			next, ok := have[edge{up, code}]
			if !ok {
				next = &tier{Depth: depth, Row: len(all.rows), Leaf: -1}
				have[edge{up, code}] = next
				at.Sub = append(at.Sub, next)
				all.rows = append(all.rows, *row)
				all.self = append(all.self, make([]Count, m)...)
				if t.modes != nil {
					all.modes = append(all.modes, make([]modes, m)...)
				}
			}
			for g := range m {
				all.self[next.Row*m+g].add(t.self[int(r)*m+g])
				if t.modes != nil {
					for i, v := range t.modes[int(r)*m+g] {
						all.modes[next.Row*m+g][i] += v
					}
				}
			}
			at, up = next, next.Row
		}
		if at != root {
			at.Leaf = int(r)
		}
	}
	all.sortLevels(root, keys)
	return root.Sub, &all
}

// code returns the value of a key of a row.
func (b *builder) code(r *row, k Key) int32 {
	if k.kind() == ofPlace {
		i := slices.IndexFunc(b.tails, func(d dim) bool { return d.key == k })
		return b.tailSet.tuple(r.tail)[i]
	}
	i := slices.IndexFunc(b.heads, func(d dim) bool { return d.key == k })
	return b.headSet.tuple(r.head)[i]
}

func (t *Table) sortLevels(l *tier, keys [][]Key) {
	if len(l.Sub) == 0 {
		return
	}
	b := t.b
	level := keys[l.Sub[0].Depth]
	dims := make([]*dim, len(level))
	for i, k := range level {
		for _, list := range [][]dim{b.heads, b.tails} {
			for j := range list {
				if list[j].key == k {
					dims[i] = &list[j]
				}
			}
		}
	}
	slices.SortStableFunc(l.Sub, func(x, y *tier) int {
		for _, k := range b.order {
			if k.counts() {
				if c := t.compareCounts(x.Row, y.Row, k); c != 0 {
					return c
				}
			}
		}
		for i, d := range dims {
			p, q := b.code(&t.rows[x.Row], level[i]), b.code(&t.rows[y.Row], level[i])
			if c := cmp.Compare(d.order(p), d.order(q)); c != 0 {
				return c
			}
		}
		for i, d := range dims {
			p, q := b.code(&t.rows[x.Row], level[i]), b.code(&t.rows[y.Row], level[i])
			if c := cmp.Compare(d.last(p), d.last(q)); c != 0 {
				return c
			}
		}
		return 0
	})
	for _, sub := range l.Sub {
		t.sortLevels(sub, keys)
	}
}

// hierarchy writes the rows of a table as a tree of their keys.
func (p *printer) hierarchy() {
	levels, all := p.t.levels()
	leaves := p.leaves(nil, levels, all)
	g := newGrapher(p, p.t, leaves)
	var counts []int
	for c, k := range p.columns {
		if k.counts() {
			counts = append(counts, c)
		}
	}
	keys := p.t.tierColumns(p.columns)
	if !p.o.Quiet {
		p.levelHeading(counts, keys)
	}
	q := *p
	q.t = all
	q.levels(levels, counts, keys, g)
}

// leaves appends the rows of the last level that are printed.
func (p *printer) leaves(list []int32, levels []*tier, all *Table) []int32 {
	for _, l := range levels {
		if l.Leaf >= 0 && all.share(l.Row) >= p.o.PercentLimit {
			list = append(list, int32(l.Leaf))
		}
		list = p.leaves(list, l.Sub, all)
	}
	return list
}

func (p *printer) levels(levels []*tier, counts []int, keys [][]int, g *grapher) {
	sep := p.separator()
	for _, l := range levels {
		if p.t.share(l.Row) < p.o.PercentLimit {
			continue
		}
		var b []byte
		b = append(b, strings.Repeat(" ", l.Depth*hierarchyIndent)...)
		for i, c := range counts {
			if i > 0 || p.o.Separator == "" {
				b = append(b, sep...)
			}
			at := len(b)
			var color int
			b, color = p.cell(b, l.Row, c)
			for len(b)-at-color < p.width[c] {
				b = append(b, ' ')
			}
		}
		if p.o.Separator == "" {
			b = append(b, strings.Repeat(" ", (len(keys)-1)*hierarchyIndent)...)
		}
		for _, c := range keys[l.Depth] {
			text := string(p.entry(nil, &p.t.rows[l.Row], p.columns[c]))
			if padded(p.columns[c]) {
				text = fmt.Sprintf("%-*s", p.width[c], text)
			}
			b = append(append(b, sep...), strings.TrimLeft(text, " ")...)
		}
		b = append(b, '\n')
		p.w.Write(b)
		if l.Leaf >= 0 {
			g.write()
			continue
		}
		if !slices.ContainsFunc(l.Sub, func(s *tier) bool { return p.t.share(s.Row) >= p.o.PercentLimit }) {
			indent := 0
			if p.o.Separator == "" {
				indent = (len(keys) + l.Depth) * hierarchyIndent
			}
			width := 4 - 2
			for _, c := range counts {
				width += p.width[c] + 2
			}
			fmt.Fprintf(p.w, "%*s%*sno entry >= %.2f%%\n", indent, "", width, "", p.o.PercentLimit)
		}
		p.levels(l.Sub, counts, keys, g)
	}
}

// levelHeading writes the titles of a hierarchy.
func (p *printer) levelHeading(counts []int, keys [][]int) {
	sep := p.separator()
	indent := 0
	if p.o.Separator == "" {
		indent = (len(keys) - 1) * hierarchyIndent
	}
	fmt.Fprintf(p.w, "# %*s", indent, "")
	between := cmp.Or(p.o.Separator, "..")
	dots := strings.Repeat(".", indent)
	for i, c := range counts {
		fmt.Fprintf(p.w, "%*s%s", p.width[c], p.t.heading(p.columns[c]), sep)
		if i > 0 {
			dots += between
		}
		dots += strings.Repeat(".", p.width[c])
	}
	width := 0
	for depth, level := range keys {
		w := depth*hierarchyIndent + len(level) - 1
		for _, c := range level {
			w += p.width[c]
		}
		width = max(width, w)
	}
	title := strings.Join(p.t.tierTitles(p.columns, keys), " / ")
	fmt.Fprintf(p.w, "%s\n# %s%s%s\n#\n", title, dots, sep, strings.Repeat(".", max(width, len(title))))
}
