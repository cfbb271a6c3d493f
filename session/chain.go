package session

import (
	"math/bits"
	"math/rand/v2"

	"github.com/perfark/perfark/profile"
)

// A chainTable numbers call chains: a hash table of slices of locations. Whole
// chains cost less than a tree of frames while samples are counted: one
// look-up a sample, and less memory, for most frames of a tree would be
// of one chain only.
type chainTable struct {
	h      hasher
	slots  []chainSlot
	starts []uint64 // by number: block and place in it
	blocks [][]int32
}

type chainSlot struct {
	hash uint32
	id   int32 // plus 1; 0 is an empty slot
}

const chainBlock = 1 << 18 // locations

// hashOf returns the hash of a chain of locations, innermost first.
func (t *chainTable) hashOf(frames []int32) uint64 {
	n := len(frames)
	x := uint64(0)
	for i := 0; i+1 < n; i += 2 {
		x = t.h.mix(x, word(frames[i], frames[i+1]))
	}
	if n%2 == 1 {
		x = t.h.mix(x, uint64(uint32(frames[n-1])))
	}
	return t.h.mix(x, uint64(n))
}

// reserve makes room for n more chains.
func (t *chainTable) reserve(n int) {
	for 4*(len(t.starts)+n) > 3*len(t.slots) {
		t.grow()
	}
}

// The three touches load what id will look at, one after the other; each has
// to be done for many chains before the next one is.

func (t *chainTable) touch(x uint64) uint32 {
	return t.slots[uint32(x>>32)&uint32(len(t.slots)-1)].hash
}

func (t *chainTable) touchStart(x uint64) uint64 {
	if s := t.slots[uint32(x>>32)&uint32(len(t.slots)-1)]; s.id != 0 && s.hash == uint32(x) {
		return t.starts[s.id-1]
	}
	return 0
}

func (t *chainTable) touchChain(x uint64) int32 {
	if s := t.slots[uint32(x>>32)&uint32(len(t.slots)-1)]; s.id != 0 && s.hash == uint32(x) {
		start := t.starts[s.id-1]
		return t.blocks[start>>32][uint32(start)]
	}
	return 0
}

// id returns the number of a chain of locations, innermost first, whose hash
// is x; none for one without frames. It is kept outermost first, behind its
// length. There must be room for it.
func (t *chainTable) id(frames []int32, x uint64) int32 {
	if len(frames) == 0 {
		return none
	}
	hash := uint32(x)
	mask := uint32(len(t.slots) - 1)
	for i := uint32(x>>32) & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.id == 0 {
			t.keep(frames)
			*s = chainSlot{hash, int32(len(t.starts))}
			return s.id - 1
		}
		if s.hash == hash && t.equal(s.id-1, frames) {
			return s.id - 1
		}
	}
}

func (t *chainTable) equal(id int32, frames []int32) bool {
	c := t.chain(id)
	if len(c) != len(frames) {
		return false
	}
	for i, f := range c {
		if f != frames[len(c)-1-i] {
			return false
		}
	}
	return true
}

func (t *chainTable) keep(frames []int32) {
	n := len(t.blocks)
	if n == 0 || cap(t.blocks[n-1])-len(t.blocks[n-1]) < 1+len(frames) {
		// The first one is small: most recordings have few stacks.
		size := max(chainBlock, 1+len(frames))
		if n == 0 {
			size = max(1<<12, 1+len(frames))
		}
		t.blocks = append(t.blocks, make([]int32, 0, size))
		n++
	}
	b := t.blocks[n-1]
	t.starts = append(t.starts, uint64(n-1)<<32|uint64(len(b)))
	b = append(b, int32(len(frames)))
	for i := len(frames) - 1; i >= 0; i-- {
		b = append(b, frames[i])
	}
	t.blocks[n-1] = b
}

// chain returns a chain, outermost first.
func (t *chainTable) chain(id int32) []int32 { return t.at(t.starts[id]) }

func (t *chainTable) at(start uint64) []int32 {
	b := t.blocks[start>>32][uint32(start):]
	return b[1 : 1+b[0]]
}

func (t *chainTable) grow() {
	// The hash of the place is not kept, so it is made of the chain again; but
	// only for each doubling.
	t.slots = fresh[chainSlot](max(1<<10, 2*len(t.slots)))
	mask := uint32(len(t.slots) - 1)
	for id := range t.starts {
		x := t.hash(t.chain(int32(id)))
		i := uint32(x>>32) & mask
		for t.slots[i].id != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = chainSlot{uint32(x), int32(id + 1)}
	}
}

// hash is that of id, of a chain that is outermost first.
func (t *chainTable) hash(c []int32) uint64 {
	n := len(c)
	x := uint64(0)
	for i := n - 1; i > 0; i -= 2 {
		x = t.h.mix(x, word(c[i], c[i-1]))
	}
	if n%2 == 1 {
		x = t.h.mix(x, uint64(uint32(c[0])))
	}
	return t.h.mix(x, uint64(n))
}

// rename gives the locations of all chains the numbers that they have in the
// profile.
func (t *chainTable) rename(locs []int32) {
	for id := range t.starts {
		c := t.chain(int32(id))
		for i, loc := range c {
			c[i] = locs[loc]
		}
	}
}

// A chainRef is a chain in sorting: key is its location at the depth at hand,
// plus 1, or 0 behind its end.
type chainRef struct {
	key   uint32
	id    int32
	start uint64
}

// sorted returns all chains, by their locations from the outermost on.
func (t *chainTable) sorted() []chainRef {
	refs := make([]chainRef, len(t.starts))
	for id, start := range t.starts {
		refs[id] = chainRef{id: int32(id), start: start}
	}
	t.load(refs, 0)
	t.sort(refs, 0, rand.NewPCG(t.h.a, t.h.b))
	return refs
}

// nodes returns how many nodes the tree of sorted chains has.
func (t *chainTable) nodes(refs []chainRef) int {
	n := 0
	var last []int32
	for i := range refs {
		c := t.at(refs[i].start)
		n += len(c) - common(c, last)
		last = c
	}
	return n
}

// common returns how many of the first locations of two chains are the same.
func common(a, b []int32) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// load sets the keys for a depth.
func (t *chainTable) load(refs []chainRef, depth int) {
	for i := range refs {
		refs[i].key = 0
		if c := t.at(refs[i].start); depth < len(c) {
			refs[i].key = uint32(c[depth]) + 1
		}
	}
}

// sort sorts chains that are equal up to depth: quicksort by one location at a
// time, so that what chains share is looked at once (Bentley and Sedgewick,
// Fast Algorithms for Sorting and Searching Strings).
// The pivots are random, so that no recording can make it slow.
func (t *chainTable) sort(refs []chainRef, depth int, rnd *rand.PCG) {
	any := func() uint32 {
		i, _ := bits.Mul64(rnd.Uint64(), uint64(len(refs)))
		return refs[i].key
	}
	for len(refs) > 1 {
		pivot := median(any(), any(), any())
		lt, i, gt := 0, 0, len(refs)
		for i < gt {
			switch k := refs[i].key; {
			case k < pivot:
				refs[lt], refs[i] = refs[i], refs[lt]
				lt++
				i++
			case k > pivot:
				gt--
				refs[gt], refs[i] = refs[i], refs[gt]
			default:
				i++
			}
		}
		t.sort(refs[:lt], depth, rnd)
		t.sort(refs[gt:], depth, rnd)
		refs = refs[lt:gt]
		if pivot == 0 {
			return // all end here
		}
		depth++
		t.load(refs, depth)
	}
}

func median(a, b, c uint32) uint32 {
	return max(min(a, b), min(max(a, b), c))
}

// A stackBuilder makes the tree of a profile's stacks from sorted chains.
type stackBuilder struct {
	p    *profile.Profile
	path []int32 // stacks of the last chain, outermost first
	last []int32 // its locations
}

// add adds a chain and returns its stack.
func (b *stackBuilder) add(c []int32) int32 {
	n := common(c, b.last)
	b.path = b.path[:n]
	caller := int32(profile.None)
	if n > 0 {
		caller = b.path[n-1]
	}
	for _, loc := range c[n:] {
		b.p.Stacks = append(b.p.Stacks, profile.Stack{Location: loc, Caller: caller})
		caller = int32(len(b.p.Stacks) - 1)
		b.path = append(b.path, caller)
	}
	b.last = c
	return caller
}
