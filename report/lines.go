package report

import (
	"cmp"
	"strconv"

	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/profile"
)

// Lines are the rows of a table as WritePage has them, one by one, for those
// who show a part at a time. They may be read by many goroutines.
type Lines struct {
	p *printer
}

// NewLines returns the rows of t. Separator, Quiet, PercentLimit, Header and
// Color of o do not count.
func NewLines(t *Table, o PageOptions) *Lines {
	o.Separator, o.Color = "", false
	return &Lines{newPrinter(t, o, nil)}
}

// A Heading is the title of a column.
type Heading struct {
	Key   Key
	Text  string // escaped
	Width int    // of the column, in bytes
	Right bool   // what is in it stands at its right end
}

// Headings returns the titles of the columns.
func (l *Lines) Headings() []Heading {
	var out []Heading
	for i, k := range l.p.columns {
		out = append(out, Heading{k, l.p.t.heading(k), l.p.width[i], k.counts() || k.field() >= 0})
	}
	return out
}

// Row returns what row i has in each column, escaped.
func (l *Lines) Row(i int) []string {
	out := make([]string, len(l.p.columns))
	for c := range out {
		b, _ := l.p.cell(nil, int(l.p.t.order[i]), c)
		out[c] = string(b)
	}
	return out
}

// Share returns the percentage of row i by which it is shown or left out: of
// its event, with what it called if that was counted.
func (t *Table) Share(i int) float64 { return t.share(int(t.order[i])) }

// Of returns t with percentages of these rows alone, by their place in it, as
// Options.Relative has them of what a filter leaves.
func (t *Table) Of(rows []int32) *Table {
	out := *t
	m := len(t.Totals)
	out.Totals = make([]Count, m)
	out.Samples, out.Period = 0, 0
	for _, r := range rows {
		n := int(t.order[r]) * m
		for i := range m {
			out.Totals[i].add(t.self[n+i])
		}
	}
	for _, c := range out.Totals {
		out.Samples += c.Samples
		out.Period += c.Period
	}
	return &out
}

// Only returns t with these rows alone, by their place in it; nil is all.
func (t *Table) Only(rows []int32) *Table {
	if rows == nil {
		return t
	}
	out := *t
	out.order = make([]int32, len(rows))
	for i, r := range rows {
		out.order[i] = t.order[r]
	}
	return &out
}

// By returns t in the order of what member i of its group counts, 0 being the
// leader.
func (t *Table) By(i int) *Table {
	out, b, o := *t, *t.b, *t.b.o
	o.GroupSort = i
	b.o = &o
	out.b = &b
	out.order = nil
	out.sort()
	out.b = t.b
	return &out
}

// Graph says how the call trees of t are made and drawn.
func (t *Table) Graph() Graph { return t.b.o.Graph }

// Has reports whether t has a column k, or all of its rows the same there, as
// the filter wants it.
func (t *Table) Has(k Key) bool {
	for _, c := range t.Columns {
		if c == k {
			return true
		}
	}
	return false
}

// ObjectName returns the name of what Row.DSO calls one, of an object by its
// index: as it is, or that of what is none.
func (t *Table) ObjectName(object int32) string {
	if object == profile.None {
		return UnknownDSO
	}
	return t.b.s.dsos[object].name
}

// Text returns what is printed for a frame, escaped.
func (f *Frame) Text() string {
	if f.Name == "" && !f.Inlined {
		return hexAddr(f.Addr)
	}
	s := escape.Name(cmp.Or(f.Name, noName))
	if f.Line != "" {
		s += " " + escape.Name(f.Line)
	}
	if f.Inlined {
		s += " (inlined)"
	}
	return s
}

// Text returns what is printed for the share of a branch: total is the period
// of all.
func (g *Graph) Text(c Count, total uint64) string {
	switch g.Value {
	case ValuePeriod:
		return strconv.FormatUint(c.Period, 10)
	case ValueCount:
		return strconv.FormatUint(c.Samples, 10)
	}
	return strconv.FormatFloat(percent(c.Period, total), 'f', 2, 64) + "%"
}

// Short returns a number of samples as the title of a page has it: 2K for 2104.
func Short(n uint64) string {
	v, unit := shortCount(n)
	s := strconv.FormatUint(v, 10)
	if unit != ' ' {
		s += string(rune(unit))
	}
	return s
}

// Chains reports whether the mode prints chains one by one, not trees.
func (m GraphMode) Chains() bool { return m == GraphFlat || m == GraphFolded }
