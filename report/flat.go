package report

import (
	"slices"

	"github.com/perfark/perfark/profile"
)

// A Table is the report of one event, or of a group of events.
type Table struct {
	Events  []string // names; several if Group
	Group   bool
	Forced  bool   // the group is not one of the recording
	Name    string // of the group; "" if it has none
	Samples uint64 // all of them, over the events; of those shown if Options.Relative
	Period  uint64 // their sum
	Totals  []Count
	Shown   []Count // what Options.Filter left, by event
	Columns []Key

	b     *builder
	where []slot
	list  []int32 // samples, by head
	ends  []int32 // by head: where its samples begin in list; then the end of the last

	callers    []int32 // as list, but of Profile.Callers
	callerEnds []int32

	rows   []row
	self   []Count // by row, for each event
	acc    []Count // with what was called; nil without Options.Children
	modes  []modes
	depths []int32
	order  []int32 // rows in order

	headRows   []int32 // by head: its first row; then the number of rows
	samples    []int32 // of the first event, by row
	sampleEnds []int32 // by row: where its samples begin in samples; then the end of the last
	makers     []*treeMaker
}

// A Row is a row of a table, for those who want its parts. Fields that the
// table has no column for are those of one of the samples.
type Row struct {
	Counts   []Count // per event of the table
	Children []Count // with what was called; nil without Options.Children

	PID, TID int32
	Comm     string // of the samples
	Thread   string // the last name of the thread TID
	DSO      string // short name of the object, or one of the names for what is none
	CPU      int32
	Socket   int32 // of the CPU; -1 if unknown

	Symbol  string // "" if the address has no name
	Inlined bool   // the compiler put it into another function
	Level   byte   // 'k' kernel, '.' user, …: see profile.Location
	Addr    uint64 // of a sample, in the object's space
	Object  int32  // index into Profile.Objects; profile.None if there is none
}

// Flat returns the report of p, in the order of the events.
//
// Rows, their order and their numbers are perf's: objects are told apart by
// their short name, symbols by object, name, start and end, addresses without
// a symbol by themselves. Rows that compare equal in everything that orders
// them are in the order of object and address, which perf leaves open.
//
// The tables refer to p, which must not change while they are used.
func Flat(p *profile.Profile, o Options) []*Table { return New(p, o).Tables() }

// A Report is a report in the making: what tells code apart is known, what the
// samples are need not be.
type Report struct {
	b       *builder
	columns []Key
}

// New begins a report of p, of which it looks at all but samples, stacks,
// threads and extras: these may be made anew until Tables is called.
func New(p *profile.Profile, o Options) *Report {
	columns, order := layout(&o)
	if o.Memory && !slices.ContainsFunc(p.Extras, func(e profile.Extra) bool { return e.PStage != 0 }) {
		// Processors without pipeline stages have no such column.
		none := func(k Key) bool { return k == LocalPStage || k == PStage }
		columns, order = slices.DeleteFunc(columns, none), slices.DeleteFunc(order, none)
	}
	return &Report{newBuilder(p, &o, columns, order), columns}
}

// Rows returns, for each location, the first one whose code is in the same
// rows. ok reports whether there are no chains but to count what was called:
// Profile.Callers of these locations then do for the stacks, with the frames
// of chains that depth says, so many innermost ones, or -depth outermost; 0
// means all.
func (r *Report) Rows() (same []int32, depth int, ok bool) {
	b := r.b
	o := b.o
	if !o.Children || o.Graph.Mode != GraphNone || b.s.first != nil || o.IgnoreCallees != nil || o.HideUnresolved || !o.Filter.empty() ||
		slices.ContainsFunc(b.order, func(k Key) bool { return k.kind() > ofPlace }) {
		return nil, 0, false
	}
	depth = o.MaxStack
	if o.Graph.Order == ByCaller {
		depth = -depth
	}
	same = make([]int32, len(b.tailOf))
	b.placeOf = make([]int32, max(b.tailSet.len(), 1))
	for i := range b.placeOf {
		b.placeOf[i] = profile.None
	}
	for i, t := range b.tailOf {
		if b.placeOf[t] == profile.None {
			b.placeOf[t] = int32(i)
		}
		same[i] = b.placeOf[t]
	}
	return same, depth, true
}

// Tables returns the tables. It is called once.
func (r *Report) Tables() []*Table {
	b, columns := r.b, r.columns
	p, o := b.p, b.o
	b.finish(columns)
	groups := tables(p, o.Groups)
	where := make([]slot, len(p.Events))
	all := make([]*Table, len(groups))
	for ti, g := range groups {
		t := &Table{
			Group:   len(g.Members) > 1,
			Forced:  g.Forced,
			Name:    g.Name,
			Columns: o.columnsOf(columns, g.Members[0]),
			Totals:  make([]Count, len(g.Members)),
			Shown:   make([]Count, len(g.Members)),
		}
		for i, e := range g.Members {
			t.Events = append(t.Events, p.Events[e].Name)
			where[e] = slot{int32(ti), int32(i)}
		}
		all[ti] = t
	}
	b.fill(all, where)

	kept := all[:0]
	for _, t := range all {
		some := false
		for i := range t.Totals {
			some = some || t.Totals[i].Samples > 0
			if o.Relative {
				t.Totals[i] = t.Shown[i]
			}
			t.Samples += t.Totals[i].Samples
			t.Period += t.Totals[i].Period
		}
		if some || o.KeepEmpty {
			t.sort()
			kept = append(kept, t)
		}
	}
	return kept
}

// layout returns the columns of a table, and the keys that order its rows.
func layout(o *Options) (columns, order []Key) {
	if o.Hierarchy {
		o.Children = false
	}
	sort := o.Sort
	if len(o.Fields) == 0 {
		if sort == nil {
			sort = DefaultSort
		}
		if o.Children && !slices.Contains(sort, OverheadChildren) {
			order = append(order, OverheadChildren)
			columns = append(columns, OverheadChildren)
		}
		if !slices.Contains(sort, Overhead) {
			order = append(order, Overhead)
		}
		columns = append(columns, Overhead)
		if o.ShowCPU {
			columns = append(columns, OverheadSys, OverheadUser)
		}
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
	if o.Parent != nil {
		columns = appendKey(columns, Parent)
		order = appendKey(order, Parent)
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

// Len returns the number of rows.
func (t *Table) Len() int { return len(t.order) }

// Row returns row i.
func (t *Table) Row(i int) Row {
	n := int(t.order[i])
	p, b := t.b.p, t.b
	r := &t.rows[n]
	l := b.s.location(r.place)
	m := len(t.Totals)
	out := Row{
		Counts:  t.self[n*m : (n+1)*m : (n+1)*m],
		PID:     -1,
		TID:     -1,
		CPU:     -1,
		DSO:     b.s.dso(l).name,
		Level:   l.Level,
		Addr:    address(p, l),
		Object:  l.Object,
		Inlined: b.s.inlined(r.place),
	}
	if t.acc != nil {
		out.Children = t.acc[n*m : (n+1)*m : (n+1)*m]
	}
	s := &p.Samples[r.sample]
	out.CPU, out.Socket = s.CPU, socket(b.o.Sockets, s.CPU)
	if s.Thread >= 0 {
		th := &p.Threads[s.Thread]
		out.PID, out.TID, out.Comm, out.Thread = th.PID, th.TID, comm(th), lastName(th)
	}
	if f := b.s.function(r.place); f != nil {
		out.Symbol = f.Name
		out.Addr = f.Start
	}
	return out
}

// Percent returns what share of the period of event i of t the row has.
func (t *Table) Percent(r *Row, i int) float64 {
	return percent(r.Counts[i].Period, t.Totals[i].Period)
}

func percent(n, total uint64) float64 {
	if total == 0 {
		return 0
	}
	return 100.0 * float64(n) / float64(total)
}
