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

	code int32
}

// tiered reports whether a table is a tree of its keys.
func (t *Table) tiered() bool {
	return t.b.o.Hierarchy && slices.ContainsFunc(t.visible(), func(k Key) bool { return !k.counts() })
}

// levels returns the hierarchy of a table, and a table with a row for each
// level. Rows of one level are in the order of what is counted, and of their
// key.
func (t *Table) levels() ([]*tier, *Table) {
	b := t.b
	var keys []Key
	for _, k := range t.visible() {
		if !k.counts() {
			keys = append(keys, k)
		}
	}
	all := *t
	all.rows, all.self, all.modes = nil, nil, nil
	m := len(t.Totals)
	type edge struct {
		up   int
		code int32
	}
	have := make(map[edge]*tier)
	root := &tier{}
	for _, r := range t.order {
		row := &t.rows[r]
		at, up := root, -1
		for depth, k := range keys {
			code := b.code(row, k)
			next, ok := have[edge{up, code}]
			if !ok {
				next = &tier{Depth: depth, Row: len(all.rows), Leaf: -1, code: code}
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

func (t *Table) sortLevels(l *tier, keys []Key) {
	if len(l.Sub) == 0 {
		return
	}
	var d *dim
	b := t.b
	for _, dims := range [][]dim{b.heads, b.tails} {
		for i := range dims {
			if dims[i].key == keys[l.Sub[0].Depth] {
				d = &dims[i]
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
		return cmp.Or(cmp.Compare(d.order(x.code), d.order(y.code)), cmp.Compare(d.last(x.code), d.last(y.code)))
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
	var counts, keys []int
	for c, k := range p.columns {
		if k.counts() {
			counts = append(counts, c)
		} else {
			keys = append(keys, c)
		}
	}
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

func (p *printer) levels(levels []*tier, counts, keys []int, g *grapher) {
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
		b = append(b, sep...)
		c := keys[l.Depth]
		text := strings.TrimLeft(string(p.entry(nil, &p.t.rows[l.Row], p.columns[c])), " ")
		if padded(p.columns[c]) {
			text = fmt.Sprintf("%-*s", p.width[c], text)
		}
		b = append(append(b, text...), '\n')
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
func (p *printer) levelHeading(counts, keys []int) {
	sep := p.separator()
	indent := 0
	if p.o.Separator == "" {
		indent = (len(keys) - 1) * hierarchyIndent
	}
	fmt.Fprintf(p.w, "# %*s", indent, "")
	dots := indent
	for i, c := range counts {
		fmt.Fprintf(p.w, "%*s%s", p.width[c], p.t.heading(p.columns[c]), sep)
		dots += p.width[c]
		if i > 0 {
			dots += 2
		}
	}
	var titles []string
	width := 0
	for depth, c := range keys {
		titles = append(titles, strings.TrimSpace(p.t.heading(p.columns[c])))
		width = max(width, depth*hierarchyIndent+p.width[c])
	}
	title := strings.Join(titles, " / ")
	fmt.Fprintf(p.w, "%s\n# %s%s%s\n#\n", title, strings.Repeat(".", dots), sep, strings.Repeat(".", max(width, len(title))))
}
