package report

import (
	"cmp"
	"slices"
	"strings"

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
	b.fill(all, where)

	kept := all[:0]
	for _, t := range all {
		for _, c := range t.Totals {
			t.Samples += c.Samples
			t.Period += c.Period
		}
		if t.Samples > 0 || o.KeepEmpty {
			b.sort(t)
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

// A rowKey tells rows apart: handles of what the order asks for, 0 for the
// rest.
type rowKey struct {
	table, comm, tid, dso, symbol, cpu int32
}

// A symbolKey tells symbols apart, and addresses without one.
type symbolKey struct {
	dso        int32
	name       string
	start, end uint64
}

// A builder makes the rows of a report. Names become handles first, so that a
// sample costs one lookup.
type builder struct {
	p     *profile.Profile
	order []Key
	by    [TID + 1]bool // the keys in order

	names   map[string]int32 // handles of comms and objects
	dso     []int32          // per location
	symbol  []int32          // per location
	comm    []int32          // per thread
	dsoName []string         // per location
}

func newBuilder(p *profile.Profile, order []Key, restricted bool) *builder {
	b := &builder{p: p, order: order, names: make(map[string]int32)}
	for _, k := range order {
		b.by[k] = true
	}
	symbols := make(map[symbolKey]int32)
	b.dso = make([]int32, len(p.Locations))
	b.symbol = make([]int32, len(p.Locations))
	b.dsoName = make([]string, len(p.Locations))
	for i := range p.Locations {
		l := &p.Locations[i]
		name := dsoName(p, l, restricted)
		b.dsoName[i] = name
		b.dso[i] = b.name(name)
		b.symbol[i] = handle(symbols, b.symbolKey(l, b.dso[i]))
	}
	b.comm = make([]int32, len(p.Threads))
	for i := range p.Threads {
		b.comm[i] = b.name(comm(&p.Threads[i]))
	}
	return b
}

// symbolKey returns the key of a location. Without a column of objects perf
// takes addresses without a symbol for one even if they are in two objects.
func (b *builder) symbolKey(l *profile.Location, dso int32) symbolKey {
	if l.Func == profile.None {
		k := symbolKey{dso: -1, start: address(b.p, l)}
		if b.by[DSO] {
			k.dso = -2 - dso
		}
		return k
	}
	f := &b.p.Functions[l.Func]
	return symbolKey{dso, f.Name, f.Start, f.End}
}

func (b *builder) name(s string) int32 { return handle(b.names, s) }

// handle returns the number of k in m, a new one if it is not there.
func handle[K comparable](m map[K]int32, k K) int32 {
	h, ok := m[k]
	if !ok {
		h = int32(len(m))
		m[k] = h
	}
	return h
}

// address returns the address of l that is printed if it has no name: that in
// the object, as perf has it; for a module the distance from its begin.
func address(p *profile.Profile, l *profile.Location) uint64 {
	if l.Object != profile.None {
		if o := &p.Objects[l.Object]; o.Kind == profile.KindModule {
			return l.Addr - o.Start
		}
	}
	return l.Addr
}

// comm returns the name a thread goes by: as with perf, the first name it gets
// is also that of its samples before.
func comm(t *profile.Thread) string { return cmp.Or(t.Later, t.Comm) }

// dsoName returns what stands in the column of objects for l.
func dsoName(p *profile.Profile, l *profile.Location, restricted bool) string {
	if l.Object == profile.None {
		if l.Level == profile.LevelKernel && restricted {
			return Restricted
		}
		return UnknownDSO
	}
	o := &p.Objects[l.Object]
	if o.Kind == profile.KindUnnamed {
		return Unnamed
	}
	return cmp.Or(o.Short, o.Path)
}

// fill adds the samples up.
func (b *builder) fill(all []*Table, where []slot) {
	rows := make(map[rowKey]int32)
	for i := range b.p.Samples {
		s := &b.p.Samples[i]
		w := where[s.Event]
		t := all[w.table]
		k := b.key(s)
		k.table = w.table
		ri, ok := rows[k]
		if !ok {
			ri = int32(len(t.Rows))
			rows[k] = ri
			t.Rows = append(t.Rows, b.row(s, len(t.Totals)))
		}
		c := &t.Rows[ri].Counts[w.member]
		c.Samples += s.Count
		c.Period += s.Period
		t.Totals[w.member].Samples += s.Count
		t.Totals[w.member].Period += s.Period
	}
}

func (b *builder) key(s *profile.Sample) rowKey {
	var k rowKey
	if b.by[Comm] && s.Thread >= 0 {
		k.comm = b.comm[s.Thread]
	}
	if (b.by[PID] || b.by[TID]) && s.Thread >= 0 {
		k.tid = b.p.Threads[s.Thread].TID
	}
	if b.by[DSO] {
		k.dso = b.dso[s.Location]
	}
	if b.by[Symbol] {
		k.symbol = b.symbol[s.Location]
	}
	if b.by[CPU] {
		k.cpu = s.CPU
	}
	return k
}

// row returns a new row for s, without its counts.
func (b *builder) row(s *profile.Sample, events int) Row {
	l := &b.p.Locations[s.Location]
	r := Row{
		Counts: make([]Count, events),
		PID:    -1,
		TID:    -1,
		DSO:    b.dsoName[s.Location],
		CPU:    s.CPU,
		Level:  l.Level,
		Addr:   address(b.p, l),
		Object: l.Object,
	}
	if s.Thread >= 0 {
		t := &b.p.Threads[s.Thread]
		r.PID, r.TID, r.Comm, r.Thread = t.PID, t.TID, comm(t), cmp.Or(t.Last, t.Comm)
	}
	if l.Func != profile.None {
		f := &b.p.Functions[l.Func]
		r.Symbol = f.Name
		r.Addr = f.Start
	}
	return r
}

// sort orders the rows of t.
func (b *builder) sort(t *Table) {
	slices.SortStableFunc(t.Rows, func(x, y Row) int {
		for _, k := range b.order {
			if c := compare(&x, &y, k); c != 0 {
				return c
			}
		}
		for _, k := range b.order {
			if c := collapse(&x, &y, k); c != 0 {
				return c
			}
		}
		return 0
	})
}

// compare orders two rows by one key: what is counted descending, names and
// numbers ascending, addresses without a symbol last.
func compare(x, y *Row, k Key) int {
	switch k {
	case Overhead, Period:
		for i := range x.Counts {
			if c := cmp.Compare(y.Counts[i].Period, x.Counts[i].Period); c != 0 {
				return c
			}
		}
	case Samples:
		for i := range x.Counts {
			if c := cmp.Compare(y.Counts[i].Samples, x.Counts[i].Samples); c != 0 {
				return c
			}
		}
	case Comm:
		return strings.Compare(x.Comm, y.Comm)
	case DSO:
		return compareDSO(x, y)
	case Symbol:
		switch {
		case x.Symbol == "" && y.Symbol == "":
			return 0
		case x.Symbol == "":
			return 1
		case y.Symbol == "":
			return -1
		}
		return strings.Compare(x.Symbol, y.Symbol)
	case PID, TID:
		return cmp.Compare(x.TID, y.TID)
	case CPU:
		return cmp.Compare(x.CPU, y.CPU)
	}
	return 0
}

// compareDSO orders by name, addresses without a mapping last.
func compareDSO(x, y *Row) int {
	if (x.Object == profile.None) != (y.Object == profile.None) {
		if x.Object == profile.None {
			return 1
		}
		return -1
	}
	return strings.Compare(x.DSO, y.DSO)
}

// collapse is the order that equal rows are left in: that of perf's tree of
// entries, which goes by address where compare goes by name.
func collapse(x, y *Row, k Key) int {
	if k != Symbol {
		if k.counts() {
			return 0
		}
		return compare(x, y, k)
	}
	switch {
	case x.Symbol == "" && y.Symbol == "":
		return cmp.Compare(x.Addr, y.Addr)
	case x.Symbol == "":
		return 1
	case y.Symbol == "":
		return -1
	}
	if c := compareDSO(x, y); c != 0 {
		return c
	}
	return cmp.Compare(x.Addr, y.Addr)
}
