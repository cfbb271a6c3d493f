package report

import (
	"cmp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/perfark/perfark/internal/crew"
	"github.com/perfark/perfark/profile"
)

// A row is what samples have in common: a head, the values of the keys that
// hang on the sample, and a tail, the values of those that hang on the code.
type row struct {
	head, tail int32
	place      int32 // one of those with that tail
	sample     int32 // one of those with that head
}

// A modes is the part of a period that was spent in the kernel, in user space,
// and in these of virtual machines.
type modes [4]uint64

// A builder makes the rows of a report.
type builder struct {
	p       *profile.Profile
	o       *Options
	s       *places
	t       *trie
	order   []Key
	cpus    int
	workers int

	heads    []dim // keys of the sample, in order
	tails    []dim // keys of the code, in order
	headSet  interner
	tailSet  interner
	headOf   []int32 // by thread, if all keys of the sample hang on it
	sampleHd []int32 // by sample, if not
	tailOf   []int32 // by place
	placeOf  []int32 // by tail: the first place; nil: any will do

	// Where a head or a tail comes in the order of its keys, and what decides
	// if all keys are equal.
	headRank, headTie, tailRank, tailTie []int32

	plan []step

	parents   []int32 // by node of the trie +1: function that Options.Parent names
	before    []int32 // by node of the trie: how many come before it, callers first; nil if chains do not matter
	codes     []int32 // by place: class in chains; nil until asked for
	needModes bool
	callers   bool // Profile.Callers is there, and says what was called
	depth     bool // chains are there, so that their depth counts in the order
}

func newBuilder(p *profile.Profile, o *Options, columns, order []Key) *builder {
	b := &builder{p: p, o: o, order: order, workers: o.Workers}
	if b.workers <= 0 {
		b.workers = runtime.GOMAXPROCS(0)
	}
	b.s = newPlaces(p, o)
	b.codeDims()
	return b
}

// finish does what needs the samples.
func (b *builder) finish(columns []Key) {
	p, o := b.p, b.o
	b.callers = o.Children && o.Graph.Mode == GraphNone && p.Callers != nil
	for i := range p.Samples {
		b.cpus = max(b.cpus, int(p.Samples[i].CPU)+1)
	}
	if o.Children || o.Graph.Mode != GraphNone || o.MaxStack > 0 || o.IgnoreCallees != nil || slices.Contains(b.order, Parent) {
		b.t = newTrie(p, b.s, o)
	}
	b.depth = o.Children && o.Graph.Mode != GraphNone
	if o.Children && !b.callers || o.Graph.Mode != GraphNone {
		b.before = b.t.preorder()
	}
	for _, k := range columns {
		switch k {
		case OverheadSys, OverheadUser, OverheadGuestSys, OverheadGuestUser:
			b.needModes = true
		}
	}
	b.dims()
}

// codeDims makes the values of the keys of code, and numbers tails.
func (b *builder) codeDims() {
	for _, k := range b.order {
		if k.kind() == ofPlace {
			b.tails = append(b.tails, b.dim(k))
		}
	}
	b.tailSet.width = len(b.tails)
	for j := range b.tails {
		if d := &b.tails[j]; d.key == Symbol {
			b.tailSet.decide(j, len(d.rank))
		}
	}
	b.tailOf = make([]int32, b.s.len())
	tuple := make([]int32, len(b.tails))
	for i := range b.tailOf {
		for j := range b.tails {
			tuple[j] = b.tails[j].codes[i]
		}
		b.tailOf[i] = b.tailSet.number(tuple)
	}
	b.tailSet.slots, b.tailSet.first = nil, nil
}

// dims makes the values of the keys of samples, numbers heads, and puts heads
// and tails in order.
func (b *builder) dims() {
	byThread := true
	for _, k := range b.order {
		if kind := k.kind(); kind != ofCounts && kind != ofPlace {
			b.heads = append(b.heads, b.dim(k))
			byThread = byThread && kind == ofThread
		}
	}
	b.headSet.width = len(b.heads)
	tuple := make([]int32, len(b.heads))
	if byThread {
		b.headOf = make([]int32, len(b.p.Threads)+1)
		for i := range b.headOf {
			for j := range b.heads {
				tuple[j] = 0
				if i > 0 {
					tuple[j] = b.heads[j].codes[i-1]
				}
			}
			b.headOf[i] = b.headSet.number(tuple)
		}
	} else {
		b.sampleHd = make([]int32, len(b.p.Samples))
		for i := range b.p.Samples {
			for j := range b.heads {
				tuple[j] = b.headCode(&b.heads[j], &b.p.Samples[i])
			}
			b.sampleHd[i] = b.headSet.number(tuple)
		}
	}
	b.headRank, b.headTie = b.rankTuples(&b.headSet, b.heads)
	b.tailRank, b.tailTie = b.rankTuples(&b.tailSet, b.tails)
	b.makePlan()
}

// A step of the comparison of rows: a count, one key, or all keys of one kind.
type step struct {
	key Key  // a count if nothing else is set
	dim int  // index in heads or tails; -1: all of them
	on  kind // ofCounts, ofThread for heads, ofPlace for tails
}

func (b *builder) makePlan() {
	for i := 0; i < len(b.order); i++ {
		k := b.order[i]
		if k.counts() {
			b.plan = append(b.plan, step{key: k})
			continue
		}
		on, dims := ofThread, b.heads
		if k.kind() == ofPlace {
			on, dims = ofPlace, b.tails
		}
		if k == dims[0].key && i+len(dims) <= len(b.order) && !slices.ContainsFunc(b.order[i:i+len(dims)], func(k Key) bool {
			return k.counts() || (k.kind() == ofPlace) != (on == ofPlace)
		}) {
			b.plan = append(b.plan, step{dim: -1, on: on})
			i += len(dims) - 1
			continue
		}
		b.plan = append(b.plan, step{dim: slices.IndexFunc(dims, func(d dim) bool { return d.key == k }), on: on})
	}
}

// headCode returns the value of a key of the sample.
func (b *builder) headCode(d *dim, s *profile.Sample) int32 {
	switch d.key.kind() {
	case ofThread:
		if s.Thread < 0 {
			return 0
		}
		return d.codes[s.Thread]
	case ofCPU:
		return d.codes[max(s.CPU, -1)+1]
	case ofChain:
		return d.codes[b.t.node(s)+1]
	}
	return d.codes[s.Extra+1]
}

// head returns the head of a sample.
func (b *builder) head(i int32) int32 {
	if b.headOf != nil {
		return b.headOf[max(b.p.Samples[i].Thread, -1)+1]
	}
	return b.sampleHd[i]
}

// place returns where a sample counts.
func (b *builder) place(s *profile.Sample) int32 {
	if b.placeOf != nil {
		return b.placeOf[b.tailOf[s.Location]]
	}
	if b.t != nil && b.t.place != nil && s.Stack != profile.None {
		if at := b.t.place[s.Stack]; at != profile.None {
			return at
		}
	}
	return s.Location
}

// count returns what a sample counts. Memory accesses weigh what they took.
func (b *builder) count(s *profile.Sample) Count {
	if b.o.Memory {
		weight := uint64(1)
		if e := b.extra(s); e != nil {
			weight = max(weight, e.Weight)
		}
		return Count{s.Count, s.Count * weight}
	}
	return Count{s.Count, s.Period}
}

// rankTuples returns where each tuple of a set comes in the order of its keys,
// equal ones at one place, and where it comes if that does not decide.
func (b *builder) rankTuples(set *interner, dims []dim) (rank, tie []int32) {
	n := set.len()
	if set.width == 0 {
		return make([]int32, 1), make([]int32, 1)
	}
	type entry struct {
		key, tie uint64 // of the first two keys
		tuple    int32
	}
	list := make([]entry, n)
	for i := range list {
		e := &list[i]
		e.tuple = int32(i)
		for j, code := range set.tuple(int32(i))[:min(2, len(dims))] {
			shift := 32 - 32*j
			e.key |= uint64(uint32(dims[j].order(code))^1<<31) << shift
			e.tie |= uint64(uint32(dims[j].last(code))^1<<31) << shift
		}
	}
	more := func(x, y int32, of func(d *dim, code int32) int32) int {
		if len(dims) <= 2 {
			return 0
		}
		a, b := set.tuple(x), set.tuple(y)
		for j := 2; j < len(dims); j++ {
			if c := cmp.Compare(of(&dims[j], a[j]), of(&dims[j], b[j])); c != 0 {
				return c
			}
		}
		return 0
	}
	parallelSort(list, b.workers, func(x, y entry) int {
		if x.key != y.key {
			return cmp.Compare(x.key, y.key)
		}
		if c := more(x.tuple, y.tuple, (*dim).order); c != 0 {
			return c
		}
		if x.tie != y.tie {
			return cmp.Compare(x.tie, y.tie)
		}
		return cmp.Or(more(x.tuple, y.tuple, (*dim).last), cmp.Compare(x.tuple, y.tuple))
	})
	rank, tie = make([]int32, n), make([]int32, n)
	for i, e := range list {
		tie[e.tuple] = int32(i)
		rank[e.tuple] = int32(i)
		if i > 0 && list[i-1].key == e.key && more(list[i-1].tuple, e.tuple, (*dim).order) == 0 {
			rank[e.tuple] = rank[list[i-1].tuple]
		}
	}
	return rank, tie
}

// A slot is where the counts of an event go.
type slot struct{ table, member int32 }

// fill makes the rows of all tables.
func (b *builder) fill(all []*Table, where []slot) {
	p := b.p
	skip := b.filtered()
	heads := max(b.headSet.len(), 1)
	ends := make([]int32, len(all)*heads+1)
	for i := range p.Samples {
		s := &p.Samples[i]
		w := where[s.Event]
		if skip != nil && skip[i] == dropped {
			continue
		}
		c := b.count(s)
		all[w.table].Totals[w.member].add(c)
		if skip != nil && skip[i] != 0 {
			continue
		}
		all[w.table].Shown[w.member].add(c)
		ends[int(w.table)*heads+int(b.head(int32(i)))+1]++
	}
	for i := 1; i < len(ends); i++ {
		ends[i] += ends[i-1]
	}
	list := make([]int32, ends[len(ends)-1])
	next := slices.Clone(ends)
	for i := range p.Samples {
		if skip != nil && skip[i] != 0 {
			continue
		}
		g := int(where[p.Samples[i].Event].table)*heads + int(b.head(int32(i)))
		list[next[g]] = int32(i)
		next[g]++
	}
	if b.callers {
		b.fillCallers(all, where)
	}
	for i, t := range all {
		t.b, t.where = b, where
		t.list = list
		t.ends = ends[i*heads : (i+1)*heads+1]
		t.makeRows()
	}
	if b.o.Graph.Mode == GraphNone {
		b.before = nil
	}
}

// fillCallers lists the rows of Profile.Callers by head.
func (b *builder) fillCallers(all []*Table, where []slot) {
	p := b.p
	heads := max(b.headSet.len(), 1)
	group := func(s *profile.Sample) int {
		return int(where[s.Event].table)*heads + int(b.headOf[max(s.Thread, -1)+1])
	}
	ends := make([]int32, len(all)*heads+1)
	for i := range p.Callers {
		ends[group(&p.Callers[i])+1]++
	}
	for i := 1; i < len(ends); i++ {
		ends[i] += ends[i-1]
	}
	list := make([]int32, len(p.Callers))
	next := slices.Clone(ends)
	for i := range p.Callers {
		at := &next[group(&p.Callers[i])]
		list[*at] = int32(i)
		*at++
	}
	for i, t := range all {
		t.callers, t.callerEnds = list, ends[i*heads:(i+1)*heads+1]
	}
}

// makeRows adds up the samples of a table, head by head. Rows of one head are
// side by side, and the same for any number of workers.
func (t *Table) makeRows() {
	b := t.b
	heads := len(t.ends) - 1
	chunk := max(heads/(64*b.workers), 1)
	parts := make([]sums, (heads+chunk-1)/chunk)
	var next atomic.Int64
	var wg crew.Group
	for range min(b.workers, len(parts)) {
		wg.Go(func() {
			w := newAdder(t)
			for {
				c := int(next.Add(1)) - 1
				if c >= len(parts) {
					w.rowOf, w.within, w.walk, w.keys = nil, nil, walk{}, nil
					return
				}
				w.sums = sums{}
				to := min((c+1)*chunk, heads)
				if b.callers { // every row is one of a caller, or a sample's, which counts as one
					w.reserve(int(t.callerEnds[to] - t.callerEnds[c*chunk]))
				}
				for h := c * chunk; h < to; h++ {
					if t.ends[h] < t.ends[h+1] {
						w.head(int32(h))
					}
				}
				parts[c] = w.sums
			}
		})
	}
	wg.Wait()
	n, m := 0, len(t.Totals)
	for i := range parts {
		n += len(parts[i].rows)
	}
	t.rows, t.self = make([]row, 0, n), make([]Count, 0, n*m)
	if b.o.Children {
		t.acc = make([]Count, 0, n*m)
	}
	if b.needModes {
		t.modes = make([]modes, 0, n*m)
	}
	if b.depth {
		t.depths = make([]int32, 0, n)
	}
	for i := range parts {
		c := &parts[i]
		t.rows = append(t.rows, c.rows...)
		t.self = append(t.self, c.self...)
		t.acc = append(t.acc, c.acc...)
		t.modes = append(t.modes, c.modes...)
		t.depths = append(t.depths, c.depths...)
		*c = sums{}
	}
	if part := b.o.Filter.SymbolPart; part != "" {
		t.keep(func(r *row) bool {
			f := b.s.function(r.place)
			return f != nil && strings.Contains(f.Name, part)
		})
	}
	t.headRows = make([]int32, heads+1)
	for i := range t.rows {
		t.headRows[t.rows[i].head+1] = int32(i + 1)
	}
	for h := range heads {
		t.headRows[h+1] = max(t.headRows[h+1], t.headRows[h])
	}
}

// keep keeps the rows that f accepts.
func (t *Table) keep(f func(r *row) bool) {
	n, m := 0, len(t.Totals)
	for i := range t.rows {
		if !f(&t.rows[i]) {
			continue
		}
		t.rows[n] = t.rows[i]
		copy(t.self[n*m:(n+1)*m], t.self[i*m:])
		if t.acc != nil {
			copy(t.acc[n*m:(n+1)*m], t.acc[i*m:])
		}
		if t.modes != nil {
			copy(t.modes[n*m:(n+1)*m], t.modes[i*m:])
		}
		if t.depths != nil {
			t.depths[n] = t.depths[i]
		}
		n++
	}
	t.rows, t.self = t.rows[:n], t.self[:n*m]
	if t.acc != nil {
		t.acc = t.acc[:n*m]
	}
	if t.modes != nil {
		t.modes = t.modes[:n*m]
	}
	if t.depths != nil {
		t.depths = t.depths[:n]
	}
}

// A sums is the rows of some heads.
type sums struct {
	rows   []row
	self   []Count
	acc    []Count // with what was called
	modes  []modes
	depths []int32 // of the longest chain
}

// An adder adds up the samples of heads.
type adder struct {
	sums
	t *Table
	b *builder
	m int // events of the table

	rowOf  []int32 // row by tail; right only if rows has that tail there
	from   int     // first row of the head
	walk   walk
	within []int32 // by tail: how many nodes of the way are in its row
	keys   []uint64
}

func newAdder(t *Table) *adder {
	a := &adder{t: t, b: t.b, m: len(t.Totals)}
	a.rowOf = make([]int32, max(a.b.tailSet.len(), 1))
	return a
}

// reserve makes room for n rows.
func (a *adder) reserve(n int) {
	a.rows, a.self, a.acc = make([]row, 0, n), make([]Count, 0, n*a.m), make([]Count, 0, n*a.m)
}

// row returns the row of a tail.
func (a *adder) row(head, tail, place, sample int32) int {
	n := int(a.rowOf[tail])
	if n >= a.from && n < len(a.rows) && a.rows[n].tail == tail {
		return n
	}
	n = len(a.rows)
	a.rowOf[tail] = int32(n)
	a.rows = append(a.rows, row{head, tail, place, sample})
	for range a.m {
		a.self = append(a.self, Count{})
		if a.b.o.Children {
			a.acc = append(a.acc, Count{})
		}
		if a.b.needModes {
			a.modes = append(a.modes, modes{})
		}
	}
	if a.b.depth {
		a.depths = append(a.depths, 0)
	}
	return n
}

// head makes the rows of a head.
func (a *adder) head(h int32) {
	b := a.b
	a.from = len(a.rows)
	samples := a.t.list[a.t.ends[h]:a.t.ends[h+1]]
	if b.before != nil {
		a.arrange(samples)
	}
	for _, i := range samples {
		s := &b.p.Samples[i]
		place := b.place(s)
		m := int(a.t.where[s.Event].member)
		n := a.row(h, b.tailOf[place], place, i)*a.m + m
		c := b.count(s)
		a.self[n].add(c)
		if b.needModes {
			if mode := modeOf(b.p.Locations[s.Location].Level); mode >= 0 {
				a.modes[n][mode] += c.Period
			}
		}
	}
	if !b.o.Children {
		return
	}
	if b.callers {
		for _, i := range a.t.callers[a.t.callerEnds[h]:a.t.callerEnds[h+1]] {
			s := &b.p.Callers[i]
			n := a.row(h, b.tailOf[s.Location], s.Location, samples[0])*a.m + int(a.t.where[s.Event].member)
			a.acc[n].add(Count{s.Count, s.Period})
		}
		return
	}
	for m := range a.m {
		a.callers(h, samples, int32(m))
	}
}

// arrange puts samples in the order of their chains in the trie.
func (a *adder) arrange(samples []int32) {
	b := a.b
	a.keys = a.keys[:0]
	for _, i := range samples {
		k := uint64(uint32(i))
		if node := b.t.node(&b.p.Samples[i]); node != profile.None {
			k |= uint64(b.before[node]+1) << 32
		}
		a.keys = append(a.keys, k)
	}
	slices.Sort(a.keys)
	for i, k := range a.keys {
		samples[i] = int32(uint32(k))
	}
}

func modeOf(level byte) int {
	switch level {
	case profile.LevelKernel:
		return 0
	case profile.LevelUser:
		return 1
	case profile.LevelGuest:
		return 2
	case profile.LevelGuestUser:
		return 3
	}
	return -1
}

// callers counts the samples of an event in every row that is in their chains,
// once in each.
func (a *adder) callers(h int32, samples []int32, member int32) {
	b := a.b
	if a.walk.on == nil {
		a.walk.init(b)
		a.within = make([]int32, max(b.tailSet.len(), 1))
	}
	w := &a.walk
	m := int(member)
	w.enter = func(at *waypoint) {
		a.within[at.tail]++
		at.first = a.within[at.tail] == 1
	}
	w.leave = func(at *waypoint) {
		a.within[at.tail]--
		if !at.first {
			return
		}
		n := a.row(h, at.tail, b.t.nodes[at.node].Location, samples[0])
		a.acc[n*a.m+m].add(at.total)
		if b.depth {
			d := int32(len(w.path))
			if b.o.Graph.Order == ByCaller {
				d = at.deep - d + 1
			}
			a.depths[n] = max(a.depths[n], d)
		}
	}
	for _, i := range samples {
		s := &b.p.Samples[i]
		if a.t.where[s.Event].member != member {
			continue
		}
		c := b.count(s)
		place := b.place(s)
		tail := b.tailOf[place]
		leaf := a.row(h, tail, place, i)
		node := b.t.node(s)
		if node == profile.None {
			a.acc[leaf*a.m+m].add(c)
			continue
		}
		w.to(node)
		w.path[len(w.path)-1].add(c)
		if a.within[tail] == 0 {
			a.acc[leaf*a.m+m].add(c)
		}
		if b.depth {
			a.depths[leaf] = max(a.depths[leaf], int32(len(w.path)))
		}
	}
	w.to(profile.None)
}

// sort puts the rows in order.
func (t *Table) sort() {
	b := t.b
	t.order = make([]int32, len(t.rows))
	if rest, ok := b.simple(len(t.Totals)); ok {
		t.sortSimple(rest)
		return
	}
	for i := range t.order {
		t.order[i] = int32(i)
	}
	parallelSort(t.order, b.workers, func(x, y int32) int { return t.compare(int(x), int(y)) })
}

// simple reports whether rows are ordered by one or two counts of one event,
// and then by all keys of samples and all keys of code, and returns the steps
// behind the counts.
func (b *builder) simple(members int) ([]step, bool) {
	n := 0
	for n < len(b.plan) && b.plan[n].on == ofCounts {
		n++
	}
	rest := b.plan[n:]
	for i, st := range rest {
		if st.dim >= 0 || st.on == ofCounts || i > 1 {
			return nil, false
		}
	}
	return rest, members == 1 && n > 0 && n <= 2
}

// sortSimple is sort for what simple accepts: by one number at a time, as most
// rows have small counts, and many the same.
func (t *Table) sortSimple(rest []step) {
	b := t.b
	var by []func(row int32) uint64
	for i := range len(b.plan) - len(rest) {
		key := b.plan[i].key
		by = append(by, func(row int32) uint64 { return ^t.count(int(row), key) }) // most first
		if i == 0 && b.depth && key == OverheadChildren {
			by = append(by, func(row int32) uint64 {
				depth := t.depths[row]
				if b.o.Graph.Order == ByCaller {
					depth = -depth
				}
				return uint64(b.headTie[t.rows[row].head])<<32 | uint64(uint32(depth)^1<<31)
			})
		}
	}
	by = append(by, func(row int32) uint64 { // which is different for all
		r := &t.rows[row]
		head, tail := uint64(b.headTie[r.head]), uint64(b.tailTie[r.tail])
		if len(rest) > 0 && rest[0].on == ofPlace {
			return tail<<32 | head
		}
		return head<<32 | tail
	})
	type entry struct {
		key uint64
		row int32
	}
	var sort func(list []entry, by []func(row int32) uint64)
	sort = func(list []entry, by []func(row int32) uint64) {
		for i := range list {
			list[i].key = by[0](list[i].row)
		}
		parallelSort(list, b.workers, func(x, y entry) int { return cmp.Compare(x.key, y.key) })
		for len(by) > 1 && len(list) > 0 {
			n := 1
			for n < len(list) && list[n].key == list[0].key {
				n++
			}
			if n > 1 {
				sort(list[:n], by[1:])
			}
			list = list[n:]
		}
	}
	list := make([]entry, len(t.rows))
	for i := range list {
		list[i].row = int32(i)
	}
	sort(list, by)
	for i := range list {
		t.order[i] = list[i].row
	}
}

// groupIndex returns the member of a group that comes at place i in the order.
func (b *builder) groupIndex(members, i int) int {
	first := b.o.GroupSort
	if first <= 0 || first >= members {
		return i
	}
	switch {
	case i == 0:
		return first
	case i <= first:
		return i - 1
	}
	return i
}

// count returns what is counted under a key; 0 for others.
func (t *Table) count(n int, k Key) uint64 {
	switch k {
	case Overhead, Period:
		return t.self[n].Period
	case Samples:
		return t.self[n].Samples
	case OverheadChildren:
		if t.acc != nil {
			return t.acc[n].Period
		}
	case OverheadSys, OverheadUser, OverheadGuestSys, OverheadGuestUser:
		if t.modes != nil {
			return t.modes[n][k-OverheadSys]
		}
	}
	return 0
}

// compare orders two rows: by the keys in their order; those that are equal in
// these as perf's tree of entries has them, which goes by object and address
// where the keys go by name.
func (t *Table) compare(x, y int) int {
	b := t.b
	rx, ry := &t.rows[x], &t.rows[y]
	for _, st := range b.plan {
		c := 0
		switch {
		case st.on == ofCounts:
			c = t.compareCounts(x, y, st.key)
		case st.on == ofThread && st.dim < 0:
			c = cmp.Compare(b.headRank[rx.head], b.headRank[ry.head])
		case st.on == ofThread:
			d := &b.heads[st.dim]
			c = cmp.Compare(d.order(b.headSet.tuple(rx.head)[st.dim]), d.order(b.headSet.tuple(ry.head)[st.dim]))
		case st.dim < 0:
			c = cmp.Compare(b.tailRank[rx.tail], b.tailRank[ry.tail])
		default:
			d := &b.tails[st.dim]
			c = cmp.Compare(d.order(b.tailSet.tuple(rx.tail)[st.dim]), d.order(b.tailSet.tuple(ry.tail)[st.dim]))
		}
		if c != 0 {
			return c
		}
	}
	return b.tie(rx, ry)
}

// compareCounts orders by a count of each event, most first. Of rows that have
// the same with what they called, those of one thread name stand together,
// callers before that. (perf looks at callers if both rows are of one thread,
// else goes on to the next key, which is no order.)
func (t *Table) compareCounts(x, y int, k Key) int {
	m := len(t.Totals)
	for g := range m {
		g = t.b.groupIndex(m, g)
		if c := cmp.Compare(t.count(y*m+g, k), t.count(x*m+g, k)); c != 0 {
			return c
		}
	}
	if k != OverheadChildren || !t.b.depth {
		return 0
	}
	if c := cmp.Compare(t.b.headTie[t.rows[x].head], t.b.headTie[t.rows[y].head]); c != 0 {
		return c
	}
	if t.b.o.Graph.Order == ByCaller {
		return cmp.Compare(t.depths[y], t.depths[x])
	}
	return cmp.Compare(t.depths[x], t.depths[y])
}

// tie decides between rows whose keys are equal.
func (b *builder) tie(x, y *row) int {
	return cmp.Or(cmp.Compare(b.tailTie[x.tail], b.tailTie[y.tail]), cmp.Compare(x.head, y.head))
}

// parallelSort sorts with several goroutines; the order is that of SortFunc if
// compare leaves nothing open.
func parallelSort[T any](list []T, workers int, compare func(x, y T) int) {
	if workers < 2 || len(list) < 8192 {
		slices.SortFunc(list, compare)
		return
	}
	half := len(list) / 2
	left, right := list[:half], list[half:]
	var wg crew.Group
	wg.Go(func() { parallelSort(list[:half], workers/2, compare) })
	parallelSort(right, workers-workers/2, compare)
	wg.Wait()
	// What is written never passes what is still to be read on the right.
	left = slices.Clone(left)
	for i := range list {
		switch {
		case len(left) == 0:
			return
		case len(right) > 0 && compare(right[0], left[0]) < 0:
			list[i], right = right[0], right[1:]
		default:
			list[i], left = left[0], left[1:]
		}
	}
}
