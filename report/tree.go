package report

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/perfark/perfark/profile"
)

// A Branch is a part of the call tree of a row: frames without a branch
// between them, in the order of the chain, and what follows.
type Branch struct {
	Frames []Frame
	Self   Count // of the chains that end here
	Total  Count // and of those that go on
	Sub    []*Branch

	up *Branch
}

// A Frame is a function, or an address without one, in a chain.
type Frame struct {
	Name    string // "" if it has none
	Addr    uint64 // as sampled, of one of the samples
	Object  int32  // index into Profile.Objects; profile.None if there is none
	Inlined bool
	Line    string // source line, or the distance from the symbol's begin, with ByAddress and BySrcline

	place int32
}

// A treeNode is a node of a call tree while it is made.
type treeNode struct {
	up, down, next int32 // parent, first child, next child of the parent; 0: none
	code, place    int32
	self, total    Count
}

// A treeMaker makes call trees, one after the other.
type treeMaker struct {
	t     *Table
	b     *builder
	nodes []treeNode // the root first; children behind their parents
	slots []int32    // child by parent and code
	used  int

	walk walk
	min  uint64 // smaller branches are not needed

	// By head, for trees of rows with what was called.
	kept    []bool
	kid     []int32
	sibling []int32
	begins  [][]int32
	want    []int32
	local   []int32
	stack   []visit
	below   walk
	inRow   []bool
	weight  []Count
	path    []int32
	done    int
}

type visit struct{ at, parent int32 }

// chainCodes numbers what frames of chains are told apart by.
func (b *builder) chainCodes() []int32 {
	if b.codes != nil {
		return b.codes
	}
	s := b.s
	funcs := make([]int32, len(b.p.Functions))
	c := classes{make(map[class]int32)}
	names := make(map[string]int32)
	for i := range b.p.Functions {
		f := &b.p.Functions[i]
		k := class{uint64(uint32(f.Object)), f.Start}
		if f.Inlined {
			n, ok := names[f.Name]
			if !ok {
				n = int32(len(names))
				names[f.Name] = n
			}
			k = class{1<<62 | uint64(n), 0}
		}
		funcs[i] = c.of(k)
	}
	b.codes = make([]int32, s.len())
	var lines []int32
	if b.o.Graph.Key == BySrcline {
		lines = s.rankSrclines()
	}
	for i := range b.codes {
		f := s.funcIndex(int32(i))
		l := s.location(int32(i))
		switch {
		case f == profile.None:
			b.codes[i] = c.of(class{1<<63 | uint64(uint32(l.Object)), l.Addr})
		case b.o.Graph.Key == ByAddress:
			b.codes[i] = c.of(class{1<<61 | uint64(f)<<28 ^ uint64(uint32(l.Object)), l.Addr})
		case b.o.Graph.Key == BySrcline:
			b.codes[i] = c.of(class{1<<60 | uint64(f), uint64(lines[i])})
		default:
			b.codes[i] = funcs[f]
		}
	}
	return b.codes
}

// minHit returns the period below which branches of a table are not drawn.
func (t *Table) minHit() uint64 {
	g := &t.b.o.Graph
	if g.Mode == GraphFractal {
		return 0
	}
	return uint64(float64(t.Totals[0].Period) * (g.MinPercent / 100))
}

func newTreeMaker(t *Table) *treeMaker {
	return &treeMaker{t: t, b: t.b, min: t.minHit()}
}

func (m *treeMaker) reset() {
	m.nodes = append(m.nodes[:0], treeNode{})
	if m.used > 0 {
		clear(m.slots)
		if len(m.slots) > 1<<12 && m.used < len(m.slots)/64 {
			m.slots = nil
		}
	}
	m.used = 0
}

// child returns the child of a node for a place.
func (m *treeMaker) child(up, place int32) int32 {
	if 2*m.used >= len(m.slots) {
		m.grow()
	}
	code := m.b.codes[place]
	mask := uint64(len(m.slots) - 1)
	for i := edgeHash(up, code) & mask; ; i = (i + 1) & mask {
		n := m.slots[i]
		if n == 0 {
			n = int32(len(m.nodes))
			m.nodes = append(m.nodes, treeNode{up: up, next: m.nodes[up].down, code: code, place: place})
			m.nodes[up].down = n
			m.slots[i] = n
			m.used++
			return n
		}
		if m.nodes[n].up == up && m.nodes[n].code == code {
			return n
		}
	}
}

func edgeHash(up, code int32) uint64 {
	const k = 0x9e3779b97f4a7c15
	h := (uint64(uint32(up))<<32 | uint64(uint32(code))) * k
	h ^= h >> 29
	h *= k
	return h ^ h>>32
}

func (m *treeMaker) grow() {
	m.slots = make([]int32, max(256, 4*len(m.slots)))
	mask := uint64(len(m.slots) - 1)
	for n := 1; n < len(m.nodes); n++ {
		i := edgeHash(m.nodes[n].up, m.nodes[n].code) & mask
		for m.slots[i] != 0 {
			i = (i + 1) & mask
		}
		m.slots[i] = int32(n)
	}
}

// ofRow returns the samples of a row: those of the first event of the table.
func (t *Table) ofRow(n int) []int32 {
	return t.samples[t.sampleEnds[n]:t.sampleEnds[n+1]]
}

// own makes the tree of the samples of a row with their whole chains.
func (m *treeMaker) own(n int) {
	m.reset()
	w := &m.walk
	for _, i := range m.t.ofRow(n) {
		s := &m.b.p.Samples[i]
		node := m.b.t.node(s)
		if node == profile.None {
			continue
		}
		c := Count{s.Count, s.Period}
		if m.b.o.Graph.Order == ByCallee {
			at := int32(0)
			for ; node != profile.None; node = m.b.t.nodes[node].Caller {
				at = m.child(at, m.b.t.nodes[node].Location)
			}
			m.nodes[at].self.add(c)
			continue
		}
		if w.b == nil || len(m.nodes) == 1 {
			w.reset(m.b)
		}
		at := w.add(node)
		for len(m.local) < len(w.nodes) {
			m.local = append(m.local, 0)
		}
		if len(m.nodes) == 1 {
			m.done = 0
		}
		for ; m.done < len(w.nodes); m.done++ {
			up := int32(0)
			if w.parent[m.done] >= 0 {
				up = m.local[w.parent[m.done]]
			}
			m.local[m.done] = m.child(up, m.b.t.nodes[w.nodes[m.done]].Location)
		}
		m.nodes[m.local[at]].self.add(c)
	}
	m.sum()
}

// sum adds up the totals of a tree that has what ends in each node alone.
func (m *treeMaker) sum() {
	for i := len(m.nodes) - 1; i >= 0; i-- {
		n := &m.nodes[i]
		n.total.add(n.self)
		if i > 0 {
			m.nodes[n.up].total.add(n.total)
		}
	}
}

// head prepares for the trees of rows of one head with what was called.
func (m *treeMaker) head(h int32, rows []int) {
	t, b, w := m.t, m.b, &m.walk
	w.reset(b)
	for _, i := range t.list[t.ends[h]:t.ends[h+1]] {
		s := &b.p.Samples[i]
		node := b.t.node(s)
		if t.where[s.Event].member != 0 || node == profile.None {
			continue
		}
		w.self[w.add(node)].add(Count{s.Count, s.Period})
	}
	w.sum()
	if m.want == nil {
		m.want = make([]int32, max(b.tailSet.len(), 1))
	}
	clear(m.want)
	members := len(t.Totals)
	for n := t.headRows[h]; n < t.headRows[h+1]; n++ {
		if t.acc[int(n)*members].Period >= m.min {
			m.want[t.rows[n].tail] = -1
		}
	}
	for k, n := range rows {
		m.want[t.rows[n].tail] = int32(k + 1)
	}
	m.begins = slices.Grow(m.begins[:0], len(rows))[:len(rows)]
	for k := range m.begins {
		m.begins[k] = m.begins[k][:0]
	}
	size := len(w.nodes)
	m.kept = slices.Grow(m.kept[:0], size)[:size]
	m.kid = slices.Grow(m.kid[:0], size)[:size]
	m.sibling = slices.Grow(m.sibling[:0], size)[:size]
	m.local = slices.Grow(m.local[:0], size)[:size]
	for at := range size {
		m.kid[at], m.sibling[at], m.local[at] = -1, -1, 0
		want := m.want[w.tail[at]]
		m.kept[at] = want != 0
		if want == 0 {
			continue
		}
		if up := w.parent[at]; up >= 0 {
			m.sibling[at] = m.kid[up]
			m.kid[up] = int32(at)
		}
		if want > 0 && (b.o.Graph.Order == ByCallee || w.outermost(int32(at))) {
			m.begins[want-1] = append(m.begins[want-1], int32(at))
		}
	}
}

// callees makes the tree of row k of a head: what it called, from its
// outermost frame on, and the whole chains of its own samples.
func (m *treeMaker) callees(k, n int) {
	r := &m.t.rows[n]
	m.reset()
	w, t := &m.walk, m.t
	for _, begin := range m.begins[k] {
		m.stack = append(m.stack[:0], visit{begin, 0})
		for len(m.stack) > 0 {
			v := m.stack[len(m.stack)-1]
			m.stack = m.stack[:len(m.stack)-1]
			n := m.child(v.parent, m.b.t.nodes[w.nodes[v.at]].Location)
			m.nodes[n].self.add(w.self[v.at])
			m.nodes[n].total.add(w.total[v.at])
			m.local[v.at] = n
			for kid := m.kid[v.at]; kid >= 0; kid = m.sibling[kid] {
				m.stack = append(m.stack, visit{kid, n})
			}
		}
	}
	// The row's own samples are in there with a part of their chains.
	own := &m.below
	own.reset(m.b)
	for _, i := range t.ofRow(n) {
		s := &m.b.p.Samples[i]
		if node := m.b.t.node(s); node != profile.None {
			own.self[own.add(node)].add(Count{s.Count, s.Period})
		}
	}
	own.sum()
	m.inRow = slices.Grow(m.inRow[:0], len(own.nodes))[:len(own.nodes)]
	m.path = slices.Grow(m.path[:0], len(own.nodes))[:len(own.nodes)]
	for at, node := range own.nodes {
		up := own.parent[at]
		m.inRow[at] = own.tail[at] == r.tail || up >= 0 && m.inRow[up]
		in := w.at(node)
		m.path[at] = -1
		if in < 0 || !m.kept[in] {
			continue
		}
		if m.inRow[at] && m.local[in] > 0 {
			n := &m.nodes[m.local[in]]
			n.self.sub(own.self[at])
			n.total.sub(own.total[at])
		}
		parent := int32(0)
		if up >= 0 {
			if parent = m.path[up]; parent < 0 {
				continue
			}
		}
		n := m.child(parent, m.b.t.nodes[node].Location)
		m.nodes[n].self.add(own.self[at])
		m.nodes[n].total.add(own.total[at])
		m.path[at] = n
	}
	for _, begin := range m.begins[k] {
		m.stack = append(m.stack[:0], visit{begin, 0})
		for len(m.stack) > 0 {
			v := m.stack[len(m.stack)-1]
			m.stack = m.stack[:len(m.stack)-1]
			m.local[v.at] = 0
			for kid := m.kid[v.at]; kid >= 0; kid = m.sibling[kid] {
				m.stack = append(m.stack, visit{kid, 0})
			}
		}
	}
}

func (c *Count) sub(d Count) {
	c.Samples -= d.Samples
	c.Period -= d.Period
}

// callers makes the tree of row k of a head: what called it, from its
// innermost frame on.
func (m *treeMaker) callers(k, n int) {
	r := &m.t.rows[n]
	m.reset()
	w := &m.walk
	begins := m.begins[k]
	m.weight = slices.Grow(m.weight[:0], len(w.nodes))[:len(w.nodes)]
	for _, at := range begins {
		m.weight[at] = w.total[at]
	}
	for _, at := range begins {
		if up := w.parent[at]; up >= 0 && w.has(up, r.tail) {
			for w.tail[up] != r.tail {
				up = w.parent[up]
			}
			m.weight[up].sub(w.total[at])
		}
	}
	// Samples of the row's own whose chain begins elsewhere have all of it.
	for _, i := range m.t.ofRow(n) {
		s := &m.b.p.Samples[i]
		node := m.b.t.node(s)
		if node == profile.None {
			continue
		}
		at := w.at(node)
		if at < 0 || w.tail[at] == r.tail {
			continue
		}
		c := Count{s.Count, s.Period}
		if w.has(at, r.tail) {
			up := at
			for w.tail[up] != r.tail {
				up = w.parent[up]
			}
			m.weight[up].sub(c)
		}
		m.up(at, c)
	}
	for _, at := range begins {
		if m.weight[at].Samples > 0 {
			m.up(at, m.weight[at])
		}
	}
}

// up adds a chain from a node to the outermost.
func (m *treeMaker) up(at int32, c Count) {
	w := &m.walk
	n := int32(0)
	for ; at >= 0; at = w.parent[at] {
		if !m.kept[at] {
			return
		}
		n = m.child(n, m.b.t.nodes[w.nodes[at]].Location)
		m.nodes[n].total.add(c)
	}
	m.nodes[n].self.add(c)
}

// branches returns what is drawn of the tree below a node.
func (m *treeMaker) branches(n int32, up *Branch) []*Branch {
	g := &m.b.o.Graph
	least := m.min
	if g.Mode == GraphFractal {
		rest := m.nodes[n].total.Period - m.nodes[n].self.Period
		if n == 0 {
			rest = 0
			for k := m.nodes[0].down; k != 0; k = m.nodes[k].next {
				rest += m.nodes[k].total.Period
			}
		}
		least = uint64(math.Ceil(float64(rest) * (g.MinPercent / 100)))
	}
	var list []int32
	for k := m.nodes[n].down; k != 0; k = m.nodes[k].next {
		if x := &m.nodes[k]; x.total.Samples > 0 && x.total.Period >= least {
			list = append(list, k)
		}
	}
	slices.SortFunc(list, func(x, y int32) int {
		a, b := &m.nodes[x], &m.nodes[y]
		return cmp.Or(cmp.Compare(b.total.Period, a.total.Period), m.b.comparePlaces(a.place, b.place))
	})
	var out []*Branch
	for _, k := range list {
		br := &Branch{up: up}
		for {
			br.Frames = append(br.Frames, m.b.frame(m.nodes[k].place))
			only := m.only(k)
			if only == 0 {
				break
			}
			k = only
		}
		br.Self, br.Total = m.nodes[k].self, m.nodes[k].total
		br.Sub = m.branches(k, br)
		out = append(out, br)
	}
	return out
}

// only returns the child that has all of a node, 0 if there is none.
func (m *treeMaker) only(n int32) int32 {
	for k := m.nodes[n].down; k != 0; k = m.nodes[k].next {
		if m.nodes[k].total.Samples == m.nodes[n].total.Samples {
			return k
		}
	}
	return 0
}

// comparePlaces orders what perf leaves open: by object, address, function.
func (b *builder) comparePlaces(x, y int32) int {
	lx, ly := b.s.location(x), b.s.location(y)
	fx, fy := b.s.function(x), b.s.function(y)
	ax, ay := lx.Addr, ly.Addr
	if fx != nil && fy != nil && b.o.Graph.Key == ByFunction {
		if c := cmp.Or(cmp.Compare(lx.Object, ly.Object), cmp.Compare(fx.Start, fy.Start), cmp.Compare(fx.Name, fy.Name)); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(lx.Object, ly.Object), cmp.Compare(ax, ay), cmp.Compare(x, y))
}

// frame returns what is at a place of a chain.
func (b *builder) frame(place int32) Frame {
	l := b.s.location(place)
	f := Frame{Addr: l.IP, Object: l.Object, Inlined: b.s.inlined(place), place: place}
	if fn := b.s.function(place); fn != nil {
		f.Name = fn.Name
		if b.o.Graph.Key != ByFunction {
			f.Line = b.s.srcline(place, false)
		}
	}
	return f
}

// Trees returns the call trees of n rows from row first on: what is to be
// drawn of them, in order. A row that has none has a nil.
func (t *Table) Trees(first, n int) [][]*Branch {
	b := t.b
	out := make([][]*Branch, n)
	if b.o.Graph.Mode == GraphNone || len(b.t.nodes) == 0 {
		return out
	}
	b.chainCodes()
	t.indexSamples()
	// What one goroutine does at a time: rows of one head, or one row.
	type job struct {
		head int32
		rows []int // of the table
		at   []int // in out
	}
	var jobs []job
	ofHead := make(map[int32]int)
	least := t.minHit()
	for i := range n {
		r := int(t.order[first+i])
		head := t.rows[r].head
		sum := t.self[r*len(t.Totals)]
		if t.acc != nil {
			sum = t.acc[r*len(t.Totals)]
		}
		if sum.Samples == 0 || sum.Period < least {
			continue
		}
		if t.acc == nil {
			jobs = append(jobs, job{head, []int{r}, []int{i}})
			continue
		}
		j, ok := ofHead[head]
		if !ok {
			j = len(jobs)
			ofHead[head] = j
			jobs = append(jobs, job{head: head})
		}
		jobs[j].rows = append(jobs[j].rows, r)
		jobs[j].at = append(jobs[j].at, i)
	}
	if t.acc != nil {
		slices.SortStableFunc(jobs, func(x, y job) int {
			return cmp.Compare(t.ends[y.head+1]-t.ends[y.head], t.ends[x.head+1]-t.ends[x.head])
		})
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for i := range min(b.workers, len(jobs)) {
		if i >= len(t.makers) {
			t.makers = append(t.makers, newTreeMaker(t))
		}
		m := t.makers[i]
		wg.Go(func() {
			for {
				k := int(next.Add(1)) - 1
				if k >= len(jobs) {
					return
				}
				j := jobs[k]
				if t.acc != nil {
					m.head(j.head, j.rows)
				}
				for k, n := range j.rows {
					switch {
					case t.acc == nil:
						m.own(n)
					case b.o.Graph.Order == ByCaller:
						m.callees(k, n)
					default:
						m.callers(k, n)
					}
					out[j.at[k]] = m.branches(0, nil)
				}
			}
		})
	}
	wg.Wait()
	return out
}

// indexSamples finds the samples of each row.
func (t *Table) indexSamples() {
	if t.sampleEnds != nil {
		return
	}
	b := t.b
	heads := len(t.ends) - 1
	t.sampleEnds = make([]int32, len(t.rows)+1)
	rowOf := make([]int32, len(t.list))
	byTail := make([]int32, max(b.tailSet.len(), 1))
	for h := range heads {
		lo, hi := t.headRows[h], t.headRows[h+1]
		for n := lo; n < hi; n++ {
			byTail[t.rows[n].tail] = n
		}
		for j := t.ends[h]; j < t.ends[h+1]; j++ {
			rowOf[j] = -1
			s := &b.p.Samples[t.list[j]]
			tail := b.tailOf[b.place(s)]
			if n := byTail[tail]; n >= lo && n < hi && t.rows[n].tail == tail && t.where[s.Event].member == 0 {
				rowOf[j] = n
				t.sampleEnds[n+1]++
			}
		}
	}
	for i := range t.rows {
		t.sampleEnds[i+1] += t.sampleEnds[i]
	}
	t.samples = make([]int32, t.sampleEnds[len(t.rows)])
	next := slices.Clone(t.sampleEnds)
	for j, i := range t.list {
		if n := rowOf[j]; n >= 0 && int32(j) >= t.ends[0] && int32(j) < t.ends[heads] {
			t.samples[next[n]] = i
			next[n]++
		}
	}
}

// chainList returns the branches where at least so much ends, most first.
func chainList(tree []*Branch, least uint64) []*Branch {
	var out []*Branch
	var add func(list []*Branch)
	add = func(list []*Branch) {
		for _, br := range list {
			add(br.Sub)
			if br.Self.Period > 0 && br.Self.Period >= least {
				out = append(out, br)
			}
		}
	}
	add(tree)
	slices.SortStableFunc(out, func(x, y *Branch) int { return cmp.Compare(y.Self.Period, x.Self.Period) })
	return out
}

// chain returns the frames from the begin of the tree to the end of br.
func (br *Branch) chain() []Frame {
	if br.up == nil {
		return br.Frames
	}
	return append(slices.Clip(br.up.chain()), br.Frames...)
}
