package report

import (
	"cmp"
	"math"
	"slices"

	"github.com/perfark/perfark/profile"
)

// A rowKey tells rows of a table apart: numbers for what the order asks for, 0
// for the rest. Names are numbered in their order, so that rows are put in
// order without a look at a name.
type rowKey struct {
	comm, dso, tid, cpu int32
	fn                  int32  // symbol; noFunc for an address without one
	addr                uint64 // that address
}

const noFunc = -1

// hash mixes the fields of k.
func (k *rowKey) hash() uint64 {
	const m = 0x9e3779b97f4a7c15
	h := k.addr ^ uint64(uint32(k.fn))<<32 ^ uint64(uint32(k.comm))
	h = (h ^ h>>29) * m
	h ^= uint64(uint32(k.dso))<<40 ^ uint64(uint32(k.tid))<<8 ^ uint64(uint32(k.cpu))
	h = (h ^ h>>32) * m
	return h ^ h>>29
}

// rowSet is the rows of a table while they are filled: a hash table by key,
// with open addressing.
type rowSet struct {
	members int // events of the table
	slots   []int32
	keys    []rowKey
	first   []int32 // sample that came first
	counts  []Count // members for each row
}

// row returns the number of the row of k; sample is its first if there is none
// yet.
func (s *rowSet) row(k *rowKey, sample int32) int {
	if 2*len(s.keys) >= len(s.slots) {
		s.grow()
	}
	mask := uint64(len(s.slots) - 1)
	for i := k.hash() & mask; ; i = (i + 1) & mask {
		n := s.slots[i]
		if n == 0 {
			s.keys = append(s.keys, *k)
			s.first = append(s.first, sample)
			for range s.members {
				s.counts = append(s.counts, Count{})
			}
			s.slots[i] = int32(len(s.keys))
			return len(s.keys) - 1
		}
		if s.keys[n-1] == *k {
			return int(n - 1)
		}
	}
}

func (s *rowSet) grow() {
	s.slots = make([]int32, max(1024, 4*len(s.slots)))
	mask := uint64(len(s.slots) - 1)
	for n := range s.keys {
		i := s.keys[n].hash() & mask
		for s.slots[i] != 0 {
			i = (i + 1) & mask
		}
		s.slots[i] = int32(n + 1)
	}
}

// A builder makes the rows of a report.
type builder struct {
	p     *profile.Profile
	order []Key
	by    [TID + 1]bool // the keys in order

	comms   []int32   // number of the name, by thread
	objects []dsoRank // by object, then for no object: in user space, in the kernel
	funcs   []int32   // number of the symbol, by function
	symbols []symbolRank
}

// A dsoRank is the name of an object, and its place among them.
type dsoRank struct {
	name string
	rank int32
}

// A symbolRank is a symbol that has a number: its name's place among the names,
// and the symbol's among the symbols by object and address.
type symbolRank struct{ name, place int32 }

func newBuilder(p *profile.Profile, order []Key, restricted bool) *builder {
	b := &builder{p: p, order: order}
	for _, k := range order {
		b.by[k] = true
	}
	b.rankComms()
	b.rankObjects(restricted)
	if b.by[Symbol] {
		b.rankSymbols()
	}
	return b
}

func (b *builder) rankComms() {
	names := make([]string, len(b.p.Threads))
	for i := range b.p.Threads {
		names[i] = comm(&b.p.Threads[i])
	}
	b.comms = ranks(names)
}

// ranks returns the place of each name among the different ones, in order.
func ranks(names []string) []int32 {
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	place := make(map[string]int32, len(sorted))
	for i, s := range sorted {
		place[s] = int32(i)
	}
	out := make([]int32, len(names))
	for i, s := range names {
		out[i] = place[s]
	}
	return out
}

// rankObjects numbers the names of objects; what is no object comes last.
func (b *builder) rankObjects(restricted bool) {
	n := len(b.p.Objects)
	names := make([]string, n)
	for i := range b.p.Objects {
		o := &b.p.Objects[i]
		names[i] = cmp.Or(o.Short, o.Path)
		if o.Kind == profile.KindUnnamed {
			names[i] = Unnamed
		}
	}
	b.objects = make([]dsoRank, n+2)
	for i, r := range ranks(names) {
		b.objects[i] = dsoRank{names[i], r}
	}
	b.objects[n] = dsoRank{UnknownDSO, math.MaxInt32}
	b.objects[n+1] = b.objects[n]
	if restricted {
		b.objects[n+1] = dsoRank{Restricted, math.MaxInt32 - 1}
	}
}

// object returns the index in b.objects for l.
func (b *builder) object(l *profile.Location) int {
	if l.Object != profile.None {
		return int(l.Object)
	}
	if l.Level == profile.LevelKernel {
		return len(b.p.Objects) + 1
	}
	return len(b.p.Objects)
}

// rankSymbols numbers the symbols. Functions of one name and place in objects
// of one name are one symbol.
func (b *builder) rankSymbols() {
	type symbol struct {
		dso        int32
		start, end uint64
		name       int32
	}
	names := make([]string, len(b.p.Functions))
	for i := range b.p.Functions {
		names[i] = b.p.Functions[i].Name
	}
	symbols := make([]symbol, len(names))
	for i, r := range ranks(names) {
		f := &b.p.Functions[i]
		symbols[i] = symbol{b.objects[f.Object].rank, f.Start, f.End, r}
	}
	sorted := slices.Clone(symbols)
	slices.SortFunc(sorted, func(x, y symbol) int {
		return cmp.Or(cmp.Compare(x.dso, y.dso), cmp.Compare(x.start, y.start), cmp.Compare(x.end, y.end), cmp.Compare(x.name, y.name))
	})
	sorted = slices.Compact(sorted)
	number := make(map[symbol]int32, len(sorted))
	b.symbols = make([]symbolRank, len(sorted))
	for i, s := range sorted {
		number[s] = int32(i)
		b.symbols[i] = symbolRank{s.name, int32(i)}
	}
	b.funcs = make([]int32, len(symbols))
	for i, s := range symbols {
		b.funcs[i] = number[s]
	}
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

// fill adds the samples up, for each table.
func (b *builder) fill(all []*Table, where []slot) []rowSet {
	sets := make([]rowSet, len(all))
	for i, t := range all {
		sets[i].members = len(t.Totals)
	}
	var k rowKey
	for i := range b.p.Samples {
		s := &b.p.Samples[i]
		w := where[s.Event]
		b.key(s, &k)
		set := &sets[w.table]
		c := &set.counts[set.row(&k, int32(i))*set.members+int(w.member)]
		c.Samples += s.Count
		c.Period += s.Period
		total := &all[w.table].Totals[w.member]
		total.Samples += s.Count
		total.Period += s.Period
	}
	return sets
}

// key sets k to the key of s. Without a column of objects perf takes addresses
// without a symbol for one even if they are in two objects.
func (b *builder) key(s *profile.Sample, k *rowKey) {
	l := &b.p.Locations[s.Location]
	if s.Thread >= 0 {
		if b.by[Comm] {
			k.comm = b.comms[s.Thread]
		}
		if b.by[PID] || b.by[TID] {
			k.tid = b.p.Threads[s.Thread].TID
		}
	}
	if b.by[DSO] {
		k.dso = b.objects[b.object(l)].rank
	}
	if b.by[CPU] {
		k.cpu = s.CPU
	}
	if b.by[Symbol] {
		k.fn, k.addr = noFunc, 0
		if l.Func != profile.None {
			k.fn = b.funcs[l.Func]
		} else {
			k.addr = address(b.p, l)
		}
	}
}

// rows returns the rows of s in order.
func (b *builder) rows(s *rowSet) []Row {
	type place struct {
		lead uint64 // of what comes first in order, most first, if that is a count
		row  int32
	}
	order := make([]place, len(s.keys))
	for i := range order {
		order[i].row = int32(i)
		switch c := s.counts[i*s.members]; b.order[0] {
		case Overhead, Period:
			order[i].lead = ^c.Period
		case Samples:
			order[i].lead = ^c.Samples
		}
	}
	slices.SortFunc(order, func(x, y place) int {
		if x.lead != y.lead {
			return cmp.Compare(x.lead, y.lead)
		}
		return b.compare(s, int(x.row), int(y.row))
	})
	rows := make([]Row, len(order))
	for i, o := range order {
		n := int(o.row) * s.members
		rows[i] = b.row(&b.p.Samples[s.first[o.row]])
		rows[i].Counts = s.counts[n : n+s.members : n+s.members]
	}
	return rows
}

// compare orders two rows of s: by the keys in their order; those that are
// equal in these as perf's tree of entries has them, which goes by object and
// address where the keys go by name.
func (b *builder) compare(s *rowSet, x, y int) int {
	kx, ky := &s.keys[x], &s.keys[y]
	for _, k := range b.order {
		c := 0
		switch k {
		case Comm:
			c = cmp.Compare(kx.comm, ky.comm)
		case DSO:
			c = cmp.Compare(kx.dso, ky.dso)
		case Symbol:
			c = cmp.Compare(b.symbol(kx).name, b.symbol(ky).name)
		case PID, TID:
			c = cmp.Compare(kx.tid, ky.tid)
		case CPU:
			c = cmp.Compare(kx.cpu, ky.cpu)
		default:
			c = compareCounts(s.counts[x*s.members:][:s.members], s.counts[y*s.members:][:s.members], k)
		}
		if c != 0 {
			return c
		}
	}
	if c := cmp.Compare(b.symbol(kx).place, b.symbol(ky).place); c != 0 {
		return c
	}
	// perf subtracts addresses and looks at the sign.
	return cmp.Or(cmp.Compare(int64(kx.addr), int64(ky.addr)), cmp.Compare(s.first[x], s.first[y]))
}

// symbol returns the places of the symbol of k; an address without one is
// behind them all.
func (b *builder) symbol(k *rowKey) symbolRank {
	if k.fn == noFunc {
		return symbolRank{math.MaxInt32, math.MaxInt32}
	}
	if b.symbols == nil {
		return symbolRank{}
	}
	return b.symbols[k.fn]
}

// compareCounts orders by period or samples of each event, most first.
func compareCounts(x, y []Count, k Key) int {
	for i := range x {
		c := 0
		if k == Samples {
			c = cmp.Compare(y[i].Samples, x[i].Samples)
		} else {
			c = cmp.Compare(y[i].Period, x[i].Period)
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

// row returns a row like s, without its counts. Its strings are those of the
// profile.
func (b *builder) row(s *profile.Sample) Row {
	l := &b.p.Locations[s.Location]
	r := Row{
		PID:    -1,
		TID:    -1,
		DSO:    b.objects[b.object(l)].name,
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
