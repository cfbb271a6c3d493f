package report

import (
	"cmp"
	"math"
	"slices"
	"sync/atomic"

	"github.com/perfark/perfark/internal/crew"
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
	want   []int32 // by tail: 0 if its row is too small for any tree, else its place among the rows whose trees are made +1, or -1
	last   []int32 // by tail: the innermost kept node on the way +1
	kept   []keptNode
	begins [][]int32 // by row: kept nodes where chains begin
	stack  []visit
	weight []Count
	at     int // in kept
}

// A keptNode is a node of the trie with the samples of a head that can be in
// trees: its row is large enough. They are in the order of the trie.
type keptNode struct {
	node         int32
	same         int32 // the nearest above in the same row; -1 if there is none
	kid, sibling int32 // -1: none
	local, row   int32 // its node in the tree of a row, counted from 1
	self, total  Count
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
	var lines []int32
	if b.o.Graph.Key == BySrcline {
		lines = s.rankSrclines()
	}
	codes := make([]int32, s.len())
	var bare []int32
	for i := range codes {
		f := s.funcIndex(int32(i))
		switch {
		case f == profile.None:
			bare = append(bare, int32(i))
		case b.o.Graph.Key == ByAddress:
			l := s.location(int32(i))
			codes[i] = c.of(class{1<<61 | uint64(f)<<28 ^ uint64(uint32(l.Object)), l.Addr})
		case b.o.Graph.Key == BySrcline:
			codes[i] = funcs[f]
			if file, _ := s.line(int32(i)); file != "" {
				codes[i] = c.of(class{1<<60 | uint64(f), uint64(lines[i])})
			}
		default:
			codes[i] = funcs[f]
		}
	}
	for i, place := range bare { // locations are different from each other
		codes[place] = int32(len(c.number) + i)
	}
	b.codes = codes
	return codes
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
	nodes := m.b.t.nodes
	w := m.walker()
	w.enter = func(at *waypoint) {
		up := int32(0)
		if n := len(w.path); n > 1 {
			up = w.path[n-2].local
		}
		at.local = m.child(up, nodes[at.node].Location)
	}
	for _, i := range m.t.ofRow(n) {
		s := &m.b.p.Samples[i]
		node := m.b.t.node(s)
		if node == profile.None {
			continue
		}
		c := m.b.count(s)
		if m.b.o.Graph.Order == ByCallee {
			at := int32(0)
			for ; node != profile.None; node = nodes[node].Caller {
				at = m.child(at, nodes[node].Location)
			}
			m.nodes[at].self.add(c)
			continue
		}
		w.to(node)
		m.nodes[w.path[len(w.path)-1].local].self.add(c)
	}
	w.to(profile.None)
	m.sum()
}

func (m *treeMaker) walker() *walk {
	w := &m.walk
	if w.on == nil {
		w.init(m.b)
	}
	w.enter, w.leave = nil, nil
	return w
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
	t, b := m.t, m.b
	if m.want == nil {
		m.want = make([]int32, max(b.tailSet.len(), 1))
		m.last = make([]int32, len(m.want))
	}
	clear(m.want)
	members := len(t.Totals)
	if b.o.Filter.SymbolPart != "" {
		// Not all rows are there, but what they are of is in the trees.
		for tail := range m.want {
			m.want[tail] = -1
		}
	}
	for n := t.headRows[h]; n < t.headRows[h+1]; n++ {
		if t.acc[int(n)*members].Period >= m.min {
			m.want[t.rows[n].tail] = -1
		}
	}
	for k, n := range rows {
		m.want[t.rows[n].tail] = int32(k + 1)
	}
	for len(m.begins) < len(rows) {
		m.begins = append(m.begins, nil)
	}
	for k := range m.begins {
		m.begins[k] = m.begins[k][:0]
	}
	m.kept = m.kept[:0]
	w := m.walker()
	w.enter = func(at *waypoint) {
		want := m.want[at.tail]
		if want == 0 {
			at.local = -1
			return
		}
		at.local = int32(len(m.kept))
		k := keptNode{node: at.node, same: m.last[at.tail] - 1, kid: -1, sibling: -1}
		m.last[at.tail] = at.local + 1
		if n := len(w.path); n > 1 && w.path[n-2].local >= 0 {
			up := &m.kept[w.path[n-2].local]
			k.sibling, up.kid = up.kid, at.local
		}
		if want > 0 && (b.o.Graph.Order == ByCallee || k.same < 0) {
			m.begins[want-1] = append(m.begins[want-1], at.local)
		}
		m.kept = append(m.kept, k)
	}
	w.leave = func(at *waypoint) {
		if at.local >= 0 {
			k := &m.kept[at.local]
			k.self, k.total = at.self, at.total
			m.last[at.tail] = k.same + 1
		}
	}
	for _, i := range t.list[t.ends[h]:t.ends[h+1]] {
		s := &b.p.Samples[i]
		node := b.t.node(s)
		if t.where[s.Event].member != 0 || node == profile.None {
			continue
		}
		w.to(node)
		w.path[len(w.path)-1].add(m.b.count(s))
	}
	w.to(profile.None)
}

// find returns which kept node is that of the trie, -1 if there is none. From
// one call to the next nodes come later in the trie, unless m.at is set back.
func (m *treeMaker) find(node int32) int32 {
	before := m.b.before
	i, ok := slices.BinarySearchFunc(m.kept[m.at:], before[node], func(k keptNode, v int32) int { return cmp.Compare(before[k.node], v) })
	m.at += i
	if !ok {
		return -1
	}
	return int32(m.at)
}

// callees makes the tree of row k of a head: what it called, from its
// outermost frame on, and the whole chains of its own samples.
func (m *treeMaker) callees(k, n int) {
	m.reset()
	t, nodes := m.t, m.b.t.nodes
	row := int32(k + 1)
	tail := t.rows[n].tail
	for _, begin := range m.begins[k] {
		m.stack = append(m.stack[:0], visit{begin, 0})
		for len(m.stack) > 0 {
			v := m.stack[len(m.stack)-1]
			m.stack = m.stack[:len(m.stack)-1]
			at := &m.kept[v.at]
			n := m.child(v.parent, nodes[at.node].Location)
			m.nodes[n].self.add(at.self)
			m.nodes[n].total.add(at.total)
			at.local, at.row = n, row
			for kid := at.kid; kid >= 0; kid = m.kept[kid].sibling {
				m.stack = append(m.stack, visit{kid, n})
			}
		}
	}
	// The row's own samples are in there with a part of their chains.
	m.at = 0
	w := m.walker()
	w.enter = func(at *waypoint) {
		up := int32(0)
		at.first = at.tail == tail
		if n := len(w.path); n > 1 {
			up = w.path[n-2].local
			at.first = at.first || w.path[n-2].first
		}
		at.local, at.kept = -1, -1
		if m.want[at.tail] == 0 {
			return
		}
		if at.first {
			at.kept = m.find(at.node)
		}
		if up >= 0 {
			at.local = m.child(up, nodes[at.node].Location)
		}
	}
	w.leave = func(at *waypoint) {
		if at.kept >= 0 && m.kept[at.kept].row == row {
			x := &m.nodes[m.kept[at.kept].local]
			x.self.sub(at.self)
			x.total.sub(at.total)
		}
		if at.local >= 0 {
			x := &m.nodes[at.local]
			x.self.add(at.self)
			x.total.add(at.total)
		}
	}
	for _, i := range t.ofRow(n) {
		s := &m.b.p.Samples[i]
		if node := m.b.t.node(s); node != profile.None {
			w.to(node)
			w.path[len(w.path)-1].add(m.b.count(s))
		}
	}
	w.to(profile.None)
}

func (c *Count) sub(d Count) {
	c.Samples -= d.Samples
	c.Period -= d.Period
}

// callers makes the tree of row k of a head: what called it, from its
// innermost frame on.
func (m *treeMaker) callers(k, n int) {
	m.reset()
	nodes, tails := m.b.t.nodes, m.b.tailOf
	tail := m.t.rows[n].tail
	begins := m.begins[k]
	m.weight = slices.Grow(m.weight[:0], len(m.kept))[:len(m.kept)]
	for _, at := range begins {
		m.weight[at] = m.kept[at].total
	}
	for _, at := range begins {
		if up := m.kept[at].same; up >= 0 {
			m.weight[up].sub(m.kept[at].total)
		}
	}
	// Samples of the row's own whose chain begins elsewhere have all of it.
	for _, i := range m.t.ofRow(n) {
		s := &m.b.p.Samples[i]
		node := m.b.t.node(s)
		if node == profile.None || tails[nodes[node].Location] == tail {
			continue
		}
		c := m.b.count(s)
		m.up(node, c)
		for node != profile.None && tails[nodes[node].Location] != tail {
			node = nodes[node].Caller
		}
		if node != profile.None {
			m.at = 0
			if at := m.find(node); at >= 0 {
				m.weight[at].sub(c)
			}
		}
	}
	for _, at := range begins {
		if m.weight[at].Samples > 0 {
			m.up(m.kept[at].node, m.weight[at])
		}
	}
}

// up adds a chain from a node to the outermost, as far as it can be in a tree.
func (m *treeMaker) up(node int32, c Count) {
	nodes := m.b.t.nodes
	n := int32(0)
	for ; node != profile.None; node = nodes[node].Caller {
		if m.want[m.b.tailOf[nodes[node].Location]] == 0 {
			return
		}
		n = m.child(n, nodes[node].Location)
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
		if file, _ := b.s.line(place); b.o.Graph.Key == ByAddress || b.o.Graph.Key == BySrcline && file != "" {
			f.Line = b.s.srcline(place, false)
		}
	}
	return f
}

// Trees returns the call trees of n rows from row first on: what is to be
// drawn of them, in order. A row that has none has a nil.
func (t *Table) Trees(first, n int) [][]*Branch { return t.trees(t.order[first : first+n]) }

// trees is Trees for any rows, by their place in t.rows.
func (t *Table) trees(rows []int32) [][]*Branch {
	b := t.b
	out := make([][]*Branch, len(rows))
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
	for i, row := range rows {
		r := int(row)
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
	var wg crew.Group
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

// Chains returns the chains of a tree, as they are drawn with GraphFlat and
// GraphFolded: each as a branch that Total is printed of.
func (t *Table) Chains(tree []*Branch) []*Branch {
	g := t.Graph()
	list := chainList(tree, t.minHit())
	if g.PrintLimit > 0 {
		list = list[:min(len(list), g.PrintLimit)]
	}
	out := make([]*Branch, len(list))
	for i, br := range list {
		c := br.Total
		if g.Mode == GraphFolded {
			c = br.Self
		}
		out[i] = &Branch{Total: c, Self: c, Frames: slices.Clone(br.chain())}
	}
	return out
}

// chain returns the frames from the begin of the tree to the end of br.
func (br *Branch) chain() []Frame {
	if br.up == nil {
		return br.Frames
	}
	return append(slices.Clip(br.up.chain()), br.Frames...)
}
