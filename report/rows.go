package report

import (
	"cmp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

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

	// Where a head or a tail comes in the order of its keys, and what decides
	// if all keys are equal.
	headRank, tailRank, tailTie []int32

	plan []step

	parents   []int32 // by node of the trie +1: function that Options.Parent names
	codes     []int32 // by place: class in chains; nil until asked for
	needModes bool
	depth     bool // chains are there, so that their depth counts in the order
}

func newBuilder(p *profile.Profile, o *Options, columns, order []Key) *builder {
	b := &builder{p: p, o: o, order: order, workers: o.Workers}
	if b.workers <= 0 {
		b.workers = runtime.GOMAXPROCS(0)
	}
	b.s = newPlaces(p, o)
	for i := range p.Samples {
		b.cpus = max(b.cpus, int(p.Samples[i].CPU)+1)
	}
	if o.Children || o.Graph.Mode != GraphNone || o.MaxStack > 0 || o.IgnoreCallees != nil || slices.Contains(order, Parent) {
		b.t = newTrie(p, b.s, o)
	}
	b.depth = o.Children && o.Graph.Mode != GraphNone
	for _, k := range columns {
		switch k {
		case OverheadSys, OverheadUser, OverheadGuestSys, OverheadGuestUser:
			b.needModes = true
		}
	}
	b.dims()
	return b
}

// dims makes the values of the keys, and numbers heads and tails.
func (b *builder) dims() {
	var keys []Key
	for _, k := range b.order {
		if !k.counts() {
			keys = append(keys, k)
		}
	}
	byThread := true
	for _, k := range keys {
		d := b.dim(k)
		if k.kind() == ofPlace {
			b.tails = append(b.tails, d)
			continue
		}
		b.heads = append(b.heads, d)
		byThread = byThread && k.kind() == ofThread
	}

	b.tailSet.width = len(b.tails)
	b.tailOf = make([]int32, b.s.len())
	tuple := make([]int32, max(len(b.tails), len(b.heads)))
	for i := range b.tailOf {
		for j := range b.tails {
			tuple[j] = b.tails[j].codes[i]
		}
		b.tailOf[i] = b.tailSet.number(tuple[:len(b.tails)])
	}
	b.headSet.width = len(b.heads)
	tuple = tuple[:len(b.heads)]
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
	b.headRank, _ = rankTuples(&b.headSet, b.heads)
	b.tailRank, b.tailTie = rankTuples(&b.tailSet, b.tails)
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
	if b.t != nil && b.t.place != nil && s.Stack != profile.None {
		if at := b.t.place[s.Stack]; at != profile.None {
			return at
		}
	}
	return s.Location
}

// rankTuples returns where each tuple of a set comes in the order of its keys,
// equal ones at one place, and where it comes if that does not decide.
func rankTuples(set *interner, dims []dim) (rank, tie []int32) {
	n := set.len()
	if set.width == 0 {
		return make([]int32, 1), make([]int32, 1)
	}
	rank, tie = make([]int32, n), make([]int32, n)
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	compare := func(x, y int32) int {
		a, b := set.tuple(x), set.tuple(y)
		for i := range dims {
			if c := cmp.Compare(dims[i].order(a[i]), dims[i].order(b[i])); c != 0 {
				return c
			}
		}
		return 0
	}
	last := func(x, y int32) int {
		a, b := set.tuple(x), set.tuple(y)
		for i := range dims {
			if c := cmp.Compare(dims[i].last(a[i]), dims[i].last(b[i])); c != 0 {
				return c
			}
		}
		return 0
	}
	slices.SortFunc(order, func(x, y int32) int { return cmp.Or(compare(x, y), last(x, y)) })
	for i, at := range order {
		tie[at] = int32(i)
		rank[at] = int32(i)
		if i > 0 && compare(order[i-1], at) == 0 {
			rank[at] = rank[order[i-1]]
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
		c := Count{s.Count, s.Period}
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
	for i, t := range all {
		t.b, t.where = b, where
		t.list = list
		t.ends = ends[i*heads : (i+1)*heads+1]
		t.makeRows()
	}
}

// makeRows adds up the samples of a table, head by head. Rows of one head are
// side by side, and the same for any number of workers.
func (t *Table) makeRows() {
	b := t.b
	heads := len(t.ends) - 1
	chunk := max(heads/(64*b.workers), 1)
	chunks := make([]*adder, (heads+chunk-1)/chunk)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(b.workers, len(chunks)) {
		wg.Go(func() {
			w := newAdder(t)
			for {
				c := int(next.Add(1)) - 1
				if c >= len(chunks) {
					return
				}
				for h := c * chunk; h < min((c+1)*chunk, heads); h++ {
					if t.ends[h] < t.ends[h+1] {
						w.head(int32(h))
					}
				}
				chunks[c] = w.take()
			}
		})
	}
	wg.Wait()
	for _, c := range chunks {
		t.rows = append(t.rows, c.rows...)
		t.self = append(t.self, c.self...)
		t.acc = append(t.acc, c.acc...)
		t.modes = append(t.modes, c.modes...)
		t.depths = append(t.depths, c.depths...)
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

// An adder adds up the samples of heads.
type adder struct {
	t      *Table
	b      *builder
	m      int // events of the table
	rows   []row
	self   []Count
	acc    []Count // with what was called
	modes  []modes
	depths []int32 // of the longest chain

	rowOf []int32 // row by tail; right only if rows has that tail there
	from  int     // first row of the head
	walk  walk
}

func newAdder(t *Table) *adder {
	a := &adder{t: t, b: t.b, m: len(t.Totals)}
	a.rowOf = make([]int32, max(a.b.tailSet.len(), 1))
	return a
}

// take returns the rows made since the last call.
func (a *adder) take() *adder {
	out := &adder{rows: slices.Clone(a.rows), self: slices.Clone(a.self), acc: slices.Clone(a.acc), modes: slices.Clone(a.modes), depths: slices.Clone(a.depths)}
	a.rows, a.self, a.acc, a.modes, a.depths = a.rows[:0], a.self[:0], a.acc[:0], a.modes[:0], a.depths[:0]
	return out
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
	for _, i := range samples {
		s := &b.p.Samples[i]
		place := b.place(s)
		m := int(a.t.where[s.Event].member)
		n := a.row(h, b.tailOf[place], place, i)*a.m + m
		a.self[n].add(Count{s.Count, s.Period})
		if b.needModes {
			if mode := modeOf(b.p.Locations[s.Location].Level); mode >= 0 {
				a.modes[n][mode] += s.Period
			}
		}
	}
	if !b.o.Children {
		return
	}
	for m := range a.m {
		a.callers(h, samples, int32(m))
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
	w := &a.walk
	w.reset(b)
	for _, i := range samples {
		s := &b.p.Samples[i]
		if a.t.where[s.Event].member != member {
			continue
		}
		c := Count{s.Count, s.Period}
		tail := b.tailOf[b.place(s)]
		leaf := a.row(h, tail, b.place(s), i)
		node := b.t.node(s)
		if node == profile.None {
			a.acc[leaf*a.m+int(member)].add(c)
			continue
		}
		at := w.add(node)
		w.self[at].add(c)
		if !w.has(at, tail) {
			a.acc[leaf*a.m+int(member)].add(c)
		}
		if b.depth {
			a.depths[leaf] = max(a.depths[leaf], w.depth[at])
		}
	}
	w.sum()
	if b.depth {
		w.deepest()
	}
	first := int32(-1)
	if len(samples) > 0 {
		first = samples[0]
	}
	for at := range w.nodes {
		if !w.outermost(int32(at)) {
			continue
		}
		place := b.t.nodes[w.nodes[at]].Location
		n := a.row(h, w.tail[at], place, first)
		a.acc[n*a.m+int(member)].add(w.total[at])
		if b.depth {
			d := w.depth[at]
			if b.o.Graph.Order == ByCaller {
				d = w.deep[at] - d + 1
			}
			a.depths[n] = max(a.depths[n], d)
		}
	}
}

// A walk is the part of the trie that the chains of some samples are in.
// Callers come before what they called.
type walk struct {
	b      *builder
	pos    []int32 // by node of the trie: where it is in nodes; right only if it is there
	nodes  []int32
	parent []int32
	tail   []int32
	depth  []int32 // from the outermost, which has 1
	mask   []uint64
	self   []Count
	total  []Count
	deep   []int32 // depth of the deepest below
	path   []int32
}

func (w *walk) reset(b *builder) {
	if w.b == nil {
		w.b = b
		w.pos = make([]int32, len(b.t.nodes))
	}
	w.nodes, w.parent, w.tail, w.depth, w.mask, w.self, w.total = w.nodes[:0], w.parent[:0], w.tail[:0], w.depth[:0], w.mask[:0], w.self[:0], w.total[:0]
}

// at returns where a node is, -1 if it is not there.
func (w *walk) at(node int32) int32 {
	if at := w.pos[node]; int(at) < len(w.nodes) && w.nodes[at] == node {
		return at
	}
	return -1
}

// add adds a node and its callers, and returns where it is.
func (w *walk) add(node int32) int32 {
	w.path = w.path[:0]
	at := int32(-1)
	for ; node != profile.None; node = w.b.t.nodes[node].Caller {
		if at = w.at(node); at >= 0 {
			break
		}
		w.path = append(w.path, node)
	}
	for i := len(w.path) - 1; i >= 0; i-- {
		n := w.path[i]
		tail := w.b.tailOf[w.b.t.nodes[n].Location]
		mask, depth := uint64(0), int32(0)
		if at >= 0 {
			mask, depth = w.mask[at], w.depth[at]
		}
		w.nodes = append(w.nodes, n)
		w.parent = append(w.parent, at)
		w.tail = append(w.tail, tail)
		w.depth = append(w.depth, depth+1)
		w.mask = append(w.mask, mask|tailBit(tail))
		w.self = append(w.self, Count{})
		at = int32(len(w.nodes) - 1)
		w.pos[n] = at
	}
	return at
}

func tailBit(tail int32) uint64 { return 1 << (uint64(uint32(tail)) * 0x9e3779b97f4a7c15 >> 58) }

// has reports whether the node at at, or one of its callers, has a tail.
func (w *walk) has(at, tail int32) bool {
	bit := tailBit(tail)
	for ; at >= 0 && w.mask[at]&bit != 0; at = w.parent[at] {
		if w.tail[at] == tail {
			return true
		}
	}
	return false
}

// outermost reports whether no caller of the node at at is in the same row.
func (w *walk) outermost(at int32) bool {
	return w.parent[at] < 0 || !w.has(w.parent[at], w.tail[at])
}

// sum adds up what was counted in the nodes and in what they called.
func (w *walk) sum() {
	w.total = append(w.total[:0], w.self...)
	for at := len(w.nodes) - 1; at >= 0; at-- {
		if up := w.parent[at]; up >= 0 {
			w.total[up].add(w.total[at])
		}
	}
}

// deepest finds the depth of the longest chain through each node.
func (w *walk) deepest() {
	w.deep = append(w.deep[:0], w.depth...)
	for at := len(w.nodes) - 1; at >= 0; at-- {
		if up := w.parent[at]; up >= 0 {
			w.deep[up] = max(w.deep[up], w.deep[at])
		}
	}
}

// sort puts the rows in order.
func (t *Table) sort() {
	b := t.b
	type entry struct {
		lead uint64 // of what comes first in order, most first, if that is a count
		row  int32
	}
	list := make([]entry, len(t.rows))
	m := len(t.Totals)
	for i := range list {
		list[i].row = int32(i)
		list[i].lead = ^t.count(i*m+b.groupIndex(m, 0), b.order[0])
	}
	parallelSort(list, b.workers, func(x, y entry) int {
		if x.lead != y.lead {
			return cmp.Compare(x.lead, y.lead)
		}
		return t.compare(int(x.row), int(y.row))
	})
	t.order = make([]int32, len(list))
	for i, e := range list {
		t.order[i] = e.row
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

// compareCounts orders by a count of each event, most first. Of rows of one
// thread that have the same, callers come before what they called.
func (t *Table) compareCounts(x, y int, k Key) int {
	m := len(t.Totals)
	for g := range m {
		g = t.b.groupIndex(m, g)
		if c := cmp.Compare(t.count(y*m+g, k), t.count(x*m+g, k)); c != 0 {
			return c
		}
	}
	if k != OverheadChildren || !t.b.depth || !t.sameThread(&t.rows[x], &t.rows[y]) {
		return 0
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

// sameThread reports whether two rows are of one thread as far as the sample
// says that they stand for.
func (t *Table) sameThread(x, y *row) bool {
	sx, sy := &t.b.p.Samples[x.sample], &t.b.p.Samples[y.sample]
	if sx.Thread < 0 || sy.Thread < 0 {
		return sx.Thread == sy.Thread
	}
	return t.b.p.Threads[sx.Thread].TID == t.b.p.Threads[sy.Thread].TID
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
	var wg sync.WaitGroup
	wg.Go(func() { parallelSort(left, workers/2, compare) })
	parallelSort(right, workers-workers/2, compare)
	wg.Wait()
	merged := make([]T, 0, len(list))
	for len(left) > 0 && len(right) > 0 {
		if compare(right[0], left[0]) < 0 {
			merged, right = append(merged, right[0]), right[1:]
		} else {
			merged, left = append(merged, left[0]), left[1:]
		}
	}
	merged = append(append(merged, left...), right...)
	copy(list, merged)
}
