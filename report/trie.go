package report

import (
	"regexp"

	"github.com/perfark/perfark/profile"
)

// A trie is the chains of a profile as rows and call trees see them: its
// locations are places, with a node for each inlined function.
type trie struct {
	nodes []profile.Stack
	of    []int32 // node by stack of the profile; nil: they are the same

	// place is what stands in the sample's place, by stack; nil or a negative
	// one: nothing else.
	place []int32
}

// node returns the node of a sample, profile.None if it has no chain.
func (t *trie) node(s *profile.Sample) int32 {
	if s.Stack == profile.None || t.of == nil {
		return s.Stack
	}
	return t.of[s.Stack]
}

// newTrie returns the chains of p under the options.
func newTrie(p *profile.Profile, s *places, o *Options) *trie {
	switch {
	case o.IgnoreCallees != nil || o.HideUnresolved || deeper(p, o.MaxStack):
		return cutTrie(p, s, o)
	case s.first != nil:
		return inlineTrie(p, s)
	}
	return &trie{nodes: p.Stacks}
}

// deeper reports whether there are chains of more than limit locations.
func deeper(p *profile.Profile, limit int) bool {
	if limit <= 0 {
		return false
	}
	depth := make([]int32, len(p.Stacks))
	t := trie{nodes: p.Stacks}
	order := t.topological()
	for i := range depth {
		at := int32(i)
		if order != nil {
			at = order[i]
		}
		depth[at] = 1
		if up := p.Stacks[at].Caller; up != profile.None {
			depth[at] = depth[up] + 1
		}
		if int(depth[at]) > limit {
			return true
		}
	}
	return false
}

// inlineTrie gives every frame of a location a node.
func inlineTrie(p *profile.Profile, s *places) *trie {
	t := &trie{of: make([]int32, len(p.Stacks))}
	n := 0
	for i := range p.Stacks {
		_, k := s.chain(p.Stacks[i].Location)
		n += int(k)
		t.of[i] = profile.None
	}
	t.nodes = make([]profile.Stack, 0, n)
	var path []int32
	for i := range p.Stacks {
		path = path[:0]
		at := int32(i)
		for ; at != profile.None && t.of[at] == profile.None; at = p.Stacks[at].Caller {
			path = append(path, at)
		}
		caller := int32(profile.None)
		if at != profile.None {
			caller = t.of[at]
		}
		for j := len(path) - 1; j >= 0; j-- {
			first, k := s.chain(p.Stacks[path[j]].Location)
			for f := first + k - 1; f >= first; f-- {
				t.nodes = append(t.nodes, profile.Stack{Location: f, Caller: caller})
				caller = int32(len(t.nodes) - 1)
			}
			t.of[path[j]] = caller
		}
	}
	return t
}

// cutTrie makes the chains anew: with what the options leave of them.
func cutTrie(p *profile.Profile, s *places, o *Options) *trie {
	t := &trie{of: make([]int32, len(p.Stacks)), place: make([]int32, len(p.Stacks))}
	type edge struct{ caller, place int32 }
	have := make(map[edge]int32)
	used := make([]bool, len(p.Stacks))
	for i := range p.Samples {
		if st := p.Samples[i].Stack; st != profile.None {
			used[st] = true
		}
	}
	ignored := matcher(s, o.IgnoreCallees)
	var chain, raw []int32
	for i := range p.Stacks {
		t.of[i], t.place[i] = profile.None, profile.None
		if !used[i] {
			continue
		}
		chain, raw = chain[:0], raw[:0]
		for at := int32(i); at != profile.None; at = p.Stacks[at].Caller {
			raw = append(raw, p.Stacks[at].Location)
		}
		if o.MaxStack > 0 && len(raw) > o.MaxStack {
			if o.Graph.Order == ByCaller {
				raw = raw[len(raw)-o.MaxStack:]
			} else {
				raw = raw[:o.MaxStack]
			}
		}
		for _, loc := range raw {
			if o.HideUnresolved && p.Locations[loc].Func == profile.None {
				continue
			}
			if ignored != nil && ignored(loc) {
				chain = chain[:0]
				t.place[i] = loc
			}
			first, k := s.chain(loc)
			for f := range k {
				chain = append(chain, first+f)
			}
		}
		caller := int32(profile.None)
		for j := len(chain) - 1; j >= 0; j-- {
			e := edge{caller, chain[j]}
			n, ok := have[e]
			if !ok {
				n = int32(len(t.nodes))
				have[e] = n
				t.nodes = append(t.nodes, profile.Stack{Location: chain[j], Caller: caller})
			}
			caller = n
		}
		t.of[i] = caller
	}
	return t
}

// matcher returns a function that tells whether the function at a place has a
// name that re matches; nil if re is nil.
func matcher(s *places, re *regexp.Regexp) func(place int32) bool {
	if re == nil {
		return nil
	}
	known := make(map[int32]bool)
	return func(place int32) bool {
		f := s.funcIndex(place)
		if f == profile.None {
			return false
		}
		m, ok := known[f]
		if !ok {
			m = re.MatchString(s.p.Functions[f].Name)
			known[f] = m
		}
		return m
	}
}

// preorder returns for each node how many come before it if every node is
// followed by what it called.
func (t *trie) preorder() []int32 {
	n := len(t.nodes)
	order := t.topological()
	node := func(i int) int32 {
		if order != nil {
			return order[i]
		}
		return int32(i)
	}
	size := make([]int32, n)
	for i := n - 1; i >= 0; i-- {
		at := node(i)
		size[at]++
		if up := t.nodes[at].Caller; up != profile.None {
			size[up] += size[at]
		}
	}
	// From here on, size of what was numbered is where its next child goes.
	before := make([]int32, n)
	next := int32(0)
	for i := range n {
		at := node(i)
		mine := size[at]
		if up := t.nodes[at].Caller; up != profile.None {
			before[at] = size[up]
			size[up] += mine
		} else {
			before[at] = next
			next += mine
		}
		size[at] = before[at] + 1
	}
	return before
}

// topological returns the nodes with callers before what they called; nil if
// they are in such an order.
func (t *trie) topological() []int32 {
	sorted := true
	for i := range t.nodes {
		if int(t.nodes[i].Caller) >= i {
			sorted = false
			break
		}
	}
	if sorted {
		return nil
	}
	order := make([]int32, 0, len(t.nodes))
	done := make([]bool, len(t.nodes))
	var path []int32
	for i := range t.nodes {
		path = path[:0]
		for at := int32(i); at != profile.None && !done[at]; at = t.nodes[at].Caller {
			done[at] = true
			path = append(path, at)
		}
		for j := len(path) - 1; j >= 0; j-- {
			order = append(order, path[j])
		}
	}
	return order
}

// A walk goes through the chains of samples in the order of the trie. It knows
// the way from the outermost frame to where it is, and tells when a node is
// entered, for the first and only time, and when it is left.
type walk struct {
	b     *builder
	on    []uint64 // by node: whether it is on the way, a bit each
	path  []waypoint
	climb []int32
	enter func(at *waypoint)
	leave func(at *waypoint)
}

// A waypoint is a node on the way.
type waypoint struct {
	node, tail int32
	local      int32 // what enter makes of it
	kept       int32 // and this
	deep       int32 // depth of the deepest below that was seen
	first      bool  // what enter makes of it
	self       Count
	total      Count // with what was called; complete when it is left
}

func (p *waypoint) add(c Count) {
	p.self.add(c)
	p.total.add(c)
}

func (w *walk) init(b *builder) {
	w.b = b
	w.on = make([]uint64, (len(b.t.nodes)+63)/64)
}

// to goes to a node, or back out of all of them.
func (w *walk) to(node int32) {
	nodes := w.b.t.nodes
	w.climb = w.climb[:0]
	for ; node != profile.None && w.on[node>>6]>>(node&63)&1 == 0; node = nodes[node].Caller {
		w.climb = append(w.climb, node)
	}
	for n := len(w.path); n > 0 && w.path[n-1].node != node; n = len(w.path) {
		at := &w.path[n-1]
		if w.leave != nil {
			at.deep = max(at.deep, int32(n))
			w.leave(at)
		}
		w.on[at.node>>6] &^= 1 << (at.node & 63)
		if n > 1 {
			up := &w.path[n-2]
			up.total.add(at.total)
			up.deep = max(up.deep, at.deep)
		}
		w.path = w.path[:n-1]
	}
	for i := len(w.climb) - 1; i >= 0; i-- {
		n := w.climb[i]
		w.on[n>>6] |= 1 << (n & 63)
		w.path = append(w.path, waypoint{node: n, tail: w.b.tailOf[nodes[n].Location]})
		if w.enter != nil {
			w.enter(&w.path[len(w.path)-1])
		}
	}
}
