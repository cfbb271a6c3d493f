package report

import (
	"cmp"
	"math"
	"slices"

	"github.com/perfark/perfark/profile"
)

// A dim is a key of the rows while they are made: values are numbers, equal if
// the rows are.
type dim struct {
	key   Key
	codes []int32 // by thread, place, CPU+1, extra+1 or stack+1
	rank  []int32 // by code: where it comes in the order; nil: at the code itself
	tie   []int32 // by code: and if all keys are equal; nil: like rank
}

func (d *dim) order(code int32) int32 {
	if d.rank == nil {
		return code
	}
	return d.rank[code]
}

func (d *dim) last(code int32) int32 {
	if d.tie == nil {
		return d.order(code)
	}
	return d.tie[code]
}

// comm returns the name a thread goes by: as with perf, the first name it gets
// is also that of its samples before.
func comm(t *profile.Thread) string { return cmp.Or(t.Later, t.Comm) }

// dim returns the values of a key.
func (b *builder) dim(k Key) dim {
	p := b.p
	d := dim{key: k}
	switch k {
	case Comm:
		names := make([]string, len(p.Threads))
		for i := range p.Threads {
			names[i] = comm(&p.Threads[i])
		}
		d.codes = ranks(names)
	case PID, TID:
		d.codes = make([]int32, len(p.Threads))
		for i := range p.Threads {
			d.codes[i] = p.Threads[i].TID
		}
	case DSO:
		d.codes = make([]int32, b.s.len())
		for i := range d.codes {
			d.codes[i] = b.s.dso(b.s.location(int32(i))).rank
		}
	case Symbol:
		b.symbolDim(&d)
	case IPC, IPCNull:
		b.symbolDim(&d) // as perf, which tells functions apart by it
	case SymbolOffset:
		values := make([]uint64, b.s.len())
		for i := range values {
			values[i] = signed(b.s.location(int32(i)).Addr)
		}
		d.codes = rankValues(values, false)
	case Addr, SymbolCode:
		values := make([]uint64, b.s.len())
		for i := range values {
			values[i] = signed(b.s.location(int32(i)).IP)
		}
		d.codes = rankValues(values, false)
	case Srcline:
		d.codes = b.s.rankSrclines()
	case Srcfile:
		names := make([]string, b.s.len())
		for i := range names {
			names[i] = b.s.srcfile(int32(i))
		}
		d.codes = ranks(names)
	case SymbolSize:
		values := make([]uint64, b.s.len())
		for i := range values {
			if f := b.s.function(int32(i)); f != nil {
				values[i] = f.End - f.Start
			}
		}
		d.codes = rankValues(values, false)
	case Socket:
		d.codes = make([]int32, b.cpus+1)
		for i := range d.codes {
			d.codes[i] = socket(b.o.Sockets, int32(i)-1)
		}
	case CPU:
		d.codes = make([]int32, b.cpus+1)
		for i := range d.codes {
			d.codes[i] = int32(i) - 1
		}
	case Parent:
		b.parentDim(&d)
	default:
		b.extraDim(&d)
	}
	return d
}

func socket(sockets []int32, cpu int32) int32 {
	if cpu < 0 || int(cpu) >= len(sockets) {
		return -1
	}
	return sockets[cpu]
}

// signed maps addresses so that they are in the order that perf has them: it
// subtracts them and looks at the sign.
func signed(addr uint64) uint64 { return addr ^ 1<<63 }

// rankValues numbers values in order, or in the opposite one.
func rankValues(values []uint64, most bool) []int32 {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	out := make([]int32, len(values))
	for i, v := range values {
		n, _ := slices.BinarySearch(sorted, v)
		if most {
			n = len(sorted) - 1 - n
		}
		out[i] = int32(n)
	}
	return out
}

// symbols numbers the symbols by object and address, and returns the number by
// function and the place of the name by number. Functions of one name and
// place in objects of one name are one symbol.
func (s *places) symbols() (funcs, rank []int32) {
	type symbol struct {
		dso        int32
		start, end uint64
		name       int32
	}
	p := s.p
	names := make([]string, len(p.Functions))
	for i := range p.Functions {
		names[i] = p.Functions[i].Name
	}
	symbols := make([]symbol, len(names))
	order := make([]int32, len(names))
	for i, r := range ranks(names) {
		f := &p.Functions[i]
		dso := int32(math.MaxInt32)
		if f.Object != profile.None {
			dso = s.dsos[f.Object].rank
		}
		symbols[i] = symbol{dso, f.Start, f.End, r}
		order[i] = int32(i)
	}
	compare := func(i, j int32) int {
		x, y := &symbols[i], &symbols[j]
		return cmp.Or(cmp.Compare(x.dso, y.dso), cmp.Compare(x.start, y.start), cmp.Compare(x.end, y.end), cmp.Compare(x.name, y.name))
	}
	slices.SortFunc(order, compare)
	funcs = make([]int32, len(symbols))
	for i, f := range order {
		if i == 0 || compare(order[i-1], f) != 0 {
			rank = append(rank, symbols[f].name)
		}
		funcs[f] = int32(len(rank) - 1)
	}
	return funcs, rank
}

// symbolDim numbers the symbols, and behind them the addresses without one,
// each of which is a symbol of its own; without a column of objects perf takes
// such addresses for one even if they are in two objects.
func (b *builder) symbolDim(d *dim) {
	funcs, rank := b.s.symbols()
	type bare struct {
		addr  int64 // perf subtracts addresses and looks at the sign
		place int32
	}
	d.codes = make([]int32, b.s.len())
	n := 0
	for i := range d.codes {
		if b.s.funcIndex(int32(i)) == profile.None {
			n++
		}
	}
	bares := make([]bare, 0, n)
	for i := range d.codes {
		if f := b.s.funcIndex(int32(i)); f != profile.None {
			d.codes[i] = funcs[f]
		} else {
			bares = append(bares, bare{int64(address(b.p, b.s.location(int32(i)))), int32(i)})
		}
	}
	d.rank = rank
	if len(bares) == 0 {
		return
	}
	d.rank = slices.Grow(d.rank, len(bares))
	parallelSort(bares, b.workers, func(x, y bare) int { return cmp.Or(cmp.Compare(x.addr, y.addr), cmp.Compare(x.place, y.place)) })
	for i := range bares {
		if i == 0 || bares[i].addr != bares[i-1].addr {
			d.rank = append(d.rank, math.MaxInt32)
		}
		d.codes[bares[i].place] = int32(len(d.rank) - 1)
	}
	d.tie = make([]int32, len(d.rank))
	for i := range d.tie {
		d.tie[i] = int32(i)
	}
}

// An interner numbers tuples of one length.
type interner struct {
	width int
	data  []int32 // the tuples, in the order of their numbers
	slots []int32 // numbers plus 1 by hash: of those that first does not have
	n     int     // how many these are
	last  int32   // the number that was asked for last

	// Where one value of a tuple all but decides, and is small, it is looked
	// at first.
	at    int     // its index
	first []int32 // by value: number plus 1 of the first tuple with it; nil: there is no such value
}

// decide has the interner look at the value at index i first, all of which are
// from 0 up to, but not including, n.
func (t *interner) decide(i, n int) { t.at, t.first = i, make([]int32, n) }

func (t *interner) len() int { return len(t.data) / max(t.width, 1) }

// tuple returns the tuple of a number.
func (t *interner) tuple(n int32) []int32 { return t.data[int(n)*t.width:][:t.width] }

// number returns the number of a tuple.
func (t *interner) number(tuple []int32) int32 {
	if t.width == 0 {
		return 0
	}
	n := len(t.data) / t.width
	if n > 0 && slices.Equal(t.tuple(t.last), tuple) { // locations of a function are side by side
		return t.last
	}
	if t.first != nil {
		f := &t.first[tuple[t.at]]
		if *f == 0 {
			*f = t.add(tuple) + 1
			return t.last
		}
		if slices.Equal(t.tuple(*f-1), tuple) {
			t.last = *f - 1
			return t.last
		}
	}
	if 2*t.n >= len(t.slots) {
		t.grow()
	}
	mask := uint64(len(t.slots) - 1)
	for i := hash(tuple) & mask; ; i = (i + 1) & mask {
		k := t.slots[i]
		if k == 0 {
			t.n++
			t.slots[i] = t.add(tuple) + 1
			return t.last
		}
		if slices.Equal(t.tuple(k-1), tuple) {
			t.last = k - 1
			return t.last
		}
	}
}

// add gives a tuple the next number.
func (t *interner) add(tuple []int32) int32 {
	t.last = int32(t.len())
	t.data = append(t.data, tuple...)
	return t.last
}

func (t *interner) grow() {
	old := t.slots
	t.slots = make([]int32, max(64, 4*len(old)))
	mask := uint64(len(t.slots) - 1)
	for _, k := range old {
		if k == 0 {
			continue
		}
		i := hash(t.tuple(k-1)) & mask
		for t.slots[i] != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = k
	}
}

func hash(tuple []int32) uint64 {
	const m = 0x9e3779b97f4a7c15
	h := uint64(0)
	for _, v := range tuple {
		h = (h ^ uint64(uint32(v))) * m
		h ^= h >> 32
	}
	return h
}
