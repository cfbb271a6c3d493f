package session

import "math/rand/v2"

// A mapping is a range of addresses and what stands there.
type mapping struct {
	start, last uint64 // both inside
	pgoff       uint64
	object      int32 // none: nothing is there
	identity    bool  // the address in the object is the address itself
}

const none = -1

func (m *mapping) has(ip uint64) bool { return m.start <= ip && ip <= m.last }

// addr returns the address in the object of an ip in the mapping.
func (m *mapping) addr(ip uint64) uint64 {
	if m.identity {
		return ip
	}
	return ip - m.start + m.pgoff
}

// A tree is a set of disjoint ranges that never changes: insert returns
// another one, which shares most of its nodes. It is the index of its root in
// forest.nodes, 0 if it is empty. The shape is a treap.
type tree = int32

type node struct {
	start, last uint64 // both inside; a part of the mapping
	mapping     int32
	prio        uint32
	left, right tree
}

// A forest holds the nodes of all trees.
type forest struct {
	nodes []node
	// Nodes from here on belong to the tree being built and to no other, and
	// are changed in place.
	owned int
	// The priorities are random so that nobody can order a recording such
	// that the trees grow into lists. No result depends on them.
	rnd *rand.PCG
}

func newForest() *forest {
	return &forest{nodes: make([]node, 1), rnd: rand.NewPCG(rand.Uint64(), rand.Uint64())}
}

func (f *forest) add(n node) tree {
	f.nodes = append(f.nodes, n)
	return tree(len(f.nodes) - 1)
}

// own returns t, or a copy of it that may be changed.
func (f *forest) own(t tree) tree {
	if int(t) >= f.owned {
		return t
	}
	return f.add(f.nodes[t])
}

// split cuts t into what lies below key and what does not.
func (f *forest) split(t tree, key uint64) (below, rest tree) {
	if t == 0 {
		return 0, 0
	}
	n := f.nodes[t]
	switch {
	case n.last < key:
		a, b := f.split(n.right, key)
		t = f.own(t)
		f.nodes[t].right = a
		return t, b
	case n.start >= key:
		a, b := f.split(n.left, key)
		t = f.own(t)
		f.nodes[t].left = b
		return a, t
	}
	// Both halves need a priority of their own: if they shared one, a range
	// cut a thousand times would make a list of a thousand nodes.
	half := f.add(node{start: key, last: n.last, mapping: n.mapping, prio: uint32(f.rnd.Uint64())})
	t = f.own(t)
	f.nodes[t].last = key - 1
	f.nodes[t].right = 0
	return t, f.merge(half, n.right)
}

// merge joins two trees; all of a lies below all of b.
func (f *forest) merge(a, b tree) tree {
	switch {
	case a == 0:
		return b
	case b == 0:
		return a
	case f.nodes[a].prio >= f.nodes[b].prio:
		r := f.merge(f.nodes[a].right, b)
		a = f.own(a)
		f.nodes[a].right = r
		return a
	}
	l := f.merge(a, f.nodes[b].left)
	b = f.own(b)
	f.nodes[b].left = l
	return b
}

// insert puts a range over whatever is in t: older ranges lose what it covers.
func (f *forest) insert(t tree, start, last uint64, mapping int32) tree {
	below, rest := f.split(t, start)
	above := tree(0)
	if last != ^uint64(0) {
		_, above = f.split(rest, last+1)
	}
	n := f.add(node{start: start, last: last, mapping: mapping, prio: uint32(f.rnd.Uint64())})
	return f.merge(f.merge(below, n), above)
}

// find returns the mapping at ip in t, or none, and narrows lo and hi to the
// addresses around ip for which that is the answer, too.
func (f *forest) find(t tree, ip, lo, hi uint64) (int32, uint64, uint64) {
	for t != 0 {
		n := &f.nodes[t]
		switch {
		case ip < n.start:
			hi = min(hi, n.start-1)
			t = n.left
		case ip > n.last:
			lo = max(lo, n.last+1)
			t = n.right
		default:
			return n.mapping, max(lo, n.start), min(hi, n.last)
		}
	}
	return none, lo, hi
}
