package report

import (
	"slices"

	"github.com/perfark/perfark/profile"
)

// Names of what is not an object, in the column of objects.
const (
	UnknownDSO = "[unknown]"            // no mapping at the address
	Restricted = "[kernel, restricted]" // kernel code, and the recording has no kernel map
	Unnamed    = "[unnamed mapping]"    // a mapping with an empty name
)

// Options says which rows and columns a flat report has. The zero value is
// perf's default: overhead, comm, dso, symbol.
type Options struct {
	Sort   []Key // what rows are told apart and ordered by; nil means comm, dso, symbol if Fields is nil too
	Fields []Key // the columns, followed by those of Sort that are missing; nil means overhead and Sort

	ShowSamples bool // a column of samples after the overhead; not used with Fields
	ShowPeriod  bool // and one of periods

	// Restricted says that the recording has no map of the kernel: kernel
	// addresses stand under that name instead of as unknown.
	Restricted bool

	Groups    []Group // events shown side by side; the others have a table each
	KeepEmpty bool    // tables of events without samples too
}

// A Group is a set of events that were counted together: one table shows them
// side by side.
type Group struct {
	Name    string  // "" for a group without one
	Members []int32 // indices into Profile.Events, the leader first
}

// A Table is the flat report of one event, or of a group of events.
type Table struct {
	Events  []string // names; several if Group
	Group   bool
	Name    string // of the group; "" if it has none
	Samples uint64 // all of them, over the events
	Period  uint64 // their sum
	Totals  []Count
	Columns []Key
	Rows    []Row
}

// A Count is a number of samples and the sum of their periods.
type Count struct {
	Samples uint64
	Period  uint64
}

// A Row is what samples have in common. Fields that the table has no column
// for are those of one of the samples.
type Row struct {
	Counts []Count // per event of the table

	PID, TID int32
	Comm     string // of the samples
	Thread   string // the last name of the thread TID
	DSO      string // short name of the object, or one of the names for what is none
	CPU      int32

	Symbol string // "" if the address has no name
	Level  byte   // 'k' kernel, '.' user, …: see profile.Location
	Addr   uint64 // of a sample, in the object's space
	Object int32  // index into Profile.Objects; profile.None if there is none
}

// Percent returns what share of the period of event i of t the row has.
func (t *Table) Percent(r *Row, i int) float64 {
	if t.Totals[i].Period == 0 {
		return 0
	}
	return 100.0 * float64(r.Counts[i].Period) / float64(t.Totals[i].Period)
}

// Flat returns the flat report of p, in the order of the events.
//
// Rows, their order and their numbers are perf's: objects are told apart by
// their short name, symbols by object, name, start and end, addresses without
// a symbol by themselves. Rows that compare equal in everything that orders
// them are in the order of object and address, which perf leaves open.
func Flat(p *profile.Profile, o Options) []*Table {
	columns, order := layout(o)
	b := newBuilder(p, order, o.Restricted)
	groups := tables(p, o.Groups)
	where := make([]slot, len(p.Events))
	all := make([]*Table, len(groups))
	for ti, g := range groups {
		t := &Table{Group: len(g.Members) > 1, Name: g.Name, Columns: columns, Totals: make([]Count, len(g.Members))}
		for i, e := range g.Members {
			t.Events = append(t.Events, p.Events[e].Name)
			where[e] = slot{int32(ti), int32(i)}
		}
		all[ti] = t
	}
	rows := b.fill(all, where)

	kept := all[:0]
	for i, t := range all {
		for _, c := range t.Totals {
			t.Samples += c.Samples
			t.Period += c.Period
		}
		if t.Samples > 0 || o.KeepEmpty {
			t.Rows = b.rows(&rows[i])
			kept = append(kept, t)
		}
	}
	return kept
}

// layout returns the columns of a table, and the keys that order its rows.
func layout(o Options) (columns, order []Key) {
	sort := o.Sort
	if len(o.Fields) == 0 {
		if sort == nil {
			sort = []Key{Comm, DSO, Symbol}
		}
		if !slices.Contains(sort, Overhead) {
			order = []Key{Overhead}
		}
		columns = []Key{Overhead}
		if o.ShowSamples {
			columns = append(columns, Samples)
		}
		if o.ShowPeriod {
			columns = append(columns, Period)
		}
	}
	for _, k := range o.Fields {
		columns = appendKey(columns, k)
	}
	for _, k := range sort {
		columns = appendKey(columns, k)
		order = appendKey(order, k)
	}
	for _, k := range columns {
		order = appendKey(order, k)
	}
	return columns, order
}

// tables returns the events of each table: the groups, and every other event
// by itself, in the order of the events.
func tables(p *profile.Profile, groups []Group) []Group {
	led := make(map[int32]Group)
	member := make(map[int32]bool)
	for _, g := range groups {
		if len(g.Members) < 2 || slices.ContainsFunc(g.Members, func(e int32) bool {
			return e < 0 || int(e) >= len(p.Events) || member[e]
		}) {
			continue
		}
		led[g.Members[0]] = g
		for _, e := range g.Members {
			member[e] = true
		}
	}
	var out []Group
	for e := range p.Events {
		if g, ok := led[int32(e)]; ok {
			out = append(out, g)
		} else if !member[int32(e)] {
			out = append(out, Group{Members: []int32{int32(e)}})
		}
	}
	return out
}

// A slot is where the counts of an event go.
type slot struct{ table, member int32 }
