package session

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/perfark/perfark/internal/crew"
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

	touched uint64 // keeps the compiler from leaving out loads
}

type chainSlot struct {
	hash uint32
	id   int32 // plus 1; 0 is an empty slot
}

const chainBlock = 1 << 18 // locations

// chain returns the hash of a chain of locations.
func (h hasher) chain(frames []int32) uint64 {
	n := len(frames)
	x := uint64(0)
	for i := 0; i+1 < n; i += 2 {
		x = h.mix(x, word(frames[i], frames[i+1]))
	}
	if n%2 == 1 {
		x = h.mix(x, uint64(uint32(frames[n-1])))
	}
	return h.mix(x, uint64(n))
}

// reserve makes room for n more chains.
func (t *chainTable) reserve(n int) {
	size := max(1<<8, len(t.slots))
	for 4*(len(t.starts)+n) > 3*size {
		size *= 2
	}
	if size == len(t.slots) {
		return
	}
	old := t.slots
	t.slots = fresh[chainSlot](size)
	mask := uint32(size - 1)
	for _, s := range old {
		if s.id == 0 {
			continue
		}
		i := s.hash & mask
		for t.slots[i].id != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = s
	}
}

// The three touches load what id will look at, one after the other; each has
// to be done for many chains before the next one is.

func (t *chainTable) touch(x uint64) uint32 {
	return t.slots[uint32(x>>32)&uint32(len(t.slots)-1)].hash
}

func (t *chainTable) touchStart(x uint64) uint64 {
	if s := t.slots[uint32(x>>32)&uint32(len(t.slots)-1)]; s.id != 0 && s.hash == uint32(x>>32) {
		return t.starts[s.id-1]
	}
	return 0
}

func (t *chainTable) touchChain(x uint64) int32 {
	if s := t.slots[uint32(x>>32)&uint32(len(t.slots)-1)]; s.id != 0 && s.hash == uint32(x>>32) {
		start := t.starts[s.id-1]
		return t.blocks[start>>32][uint32(start)]
	}
	return 0
}

// id returns the number of a chain of locations, outermost first, whose hash
// is x; none for one without frames. There must be room for it.
func (t *chainTable) id(frames []int32, x uint64) int32 {
	if len(frames) == 0 {
		return none
	}
	hash := uint32(x >> 32)
	mask := uint32(len(t.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.id == 0 {
			t.keep(frames)
			*s = chainSlot{hash, int32(len(t.starts))}
			return s.id - 1
		}
		if s.hash == hash && slices.Equal(t.chain(s.id-1), frames) {
			return s.id - 1
		}
	}
}

// keep keeps a chain behind its length.
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
	t.blocks[n-1] = append(b, frames...)
}

// chain returns a chain, outermost first.
func (t *chainTable) chain(id int32) []int32 { return t.at(t.starts[id]) }

func (t *chainTable) at(start uint64) []int32 {
	b := t.blocks[start>>32][uint32(start):]
	return b[1 : 1+b[0]]
}

// A chainRef is a chain in sorting: key is its location at the depth at hand,
// plus 1, or 0 behind its end.
type chainRef struct {
	key   uint32
	id    int32
	start uint64
}

// sorted returns all chains, by their locations from the outermost on. It uses
// so many goroutines.
func (t *chainTable) sorted(workers int) []chainRef {
	refs := make([]chainRef, len(t.starts))
	for id, start := range t.starts {
		refs[id] = chainRef{id: int32(id), start: start}
	}
	t.sortAll(refs, workers)
	return refs
}

func (t *chainTable) sortAll(refs []chainRef, workers int) {
	t.load(refs, 0)
	s := chainSorter{t: t, spare: make(chan struct{}, max(workers-1, 0))}
	s.sort(refs, 0, rand.NewPCG(t.h.a, t.h.b))
	s.wg.Wait()
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

// A chainSorter sorts chains on several cores.
type chainSorter struct {
	t     *chainTable
	spare chan struct{} // as many as there may be further goroutines
	wg    crew.Group
}

// sortAlone is how many chains are not worth another goroutine.
const sortAlone = 1 << 14

// sort sorts chains that are equal up to depth: quicksort by one location at a
// time, so that what chains share is looked at once (Bentley and Sedgewick,
// Fast Algorithms for Sorting and Searching Strings).
// The pivots are random, so that no recording can make it slow.
func (s *chainSorter) sort(refs []chainRef, depth int, rnd *rand.PCG) {
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
		s.part(refs[:lt], depth, rnd)
		s.part(refs[gt:], depth, rnd)
		refs = refs[lt:gt]
		if pivot == 0 {
			return // all end here
		}
		depth++
		s.t.load(refs, depth)
	}
}

// part sorts refs, elsewhere if that is worth it and there is room.
func (s *chainSorter) part(refs []chainRef, depth int, rnd *rand.PCG) {
	if len(refs) > sortAlone {
		select {
		case s.spare <- struct{}{}:
			rnd := rand.NewPCG(rnd.Uint64(), rnd.Uint64())
			s.wg.Go(func() {
				defer func() { <-s.spare }()
				s.sort(refs, depth, rnd)
			})
			return
		default:
		}
	}
	s.sort(refs, depth, rnd)
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

// A chainStore is a chainTable of all workers. It is in several parts by hash,
// each of which one worker at a time looks into.
type chainStore struct {
	h     hasher
	bits  uint // of the number of parts
	parts []chainPart
}

type chainPart struct {
	mu sync.Mutex
	chainTable
	_ [64]byte // so that no two share a line of the cache
}

func newChainStore(h hasher, workers int) *chainStore {
	s := &chainStore{h: h}
	for 1<<s.bits < min(4*workers, 64) {
		s.bits++
	}
	s.parts = make([]chainPart, 1<<s.bits)
	for i := range s.parts {
		s.parts[i].h = h
	}
	return s
}

// number sets stack of all queued samples to the numbers of their chains.
// turn is where to begin, so that workers do not wait for one another.
func (s *chainStore) number(q *frameQueue, turn int) {
	q.hashes = q.hashes[:0]
	q.order = append(q.order[:0], make([]int32, len(q.samples))...)
	var ends [65]int32 // of the places of each part in order
	part := func(x uint64) int { return int(x & uint64(len(s.parts)-1)) }
	for i := range q.samples {
		c := &q.samples[i]
		x := s.h.chain(q.chains[c.chain:c.end])
		q.hashes = append(q.hashes, x)
		ends[part(x)+1]++
	}
	for i := range s.parts {
		ends[i+1] += ends[i]
	}
	for i, x := range q.hashes {
		at := &ends[part(x)]
		q.order[*at] = int32(i)
		*at++
	}
	for k := range s.parts {
		k = (k + turn) & (len(s.parts) - 1)
		from := int32(0)
		if k > 0 {
			from = ends[k-1]
		}
		if from < ends[k] {
			s.parts[k].number(q, q.order[from:ends[k]], s.bits, int32(k))
		}
	}
}

// number numbers the chains of some of the queued samples.
func (t *chainPart) number(q *frameQueue, samples []int32, bits uint, k int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reserve(len(samples))
	touched := uint64(0)
	for _, i := range samples {
		touched += uint64(t.touch(q.hashes[i]))
	}
	for _, i := range samples {
		touched += t.touchStart(q.hashes[i])
	}
	for _, i := range samples {
		touched += uint64(t.touchChain(q.hashes[i]))
	}
	t.touched = touched
	for _, i := range samples {
		c := &q.samples[i]
		c.stack = t.id(q.chains[c.chain:c.end], q.hashes[i])
		if c.stack != none {
			c.stack = c.stack<<bits | k
		}
	}
}

// stacks fills p.Stacks, and returns the stack of each chain. The store is
// spent.
func (s *chainStore) stacks(p *profile.Profile, workers int) []int32 {
	t := chainTable{h: s.h}
	n, last := 0, 0
	for k := range s.parts {
		n += len(s.parts[k].starts)
		last = max(last, len(s.parts[k].starts))
	}
	refs := make([]chainRef, 0, n)
	for k := range s.parts {
		c := &s.parts[k].chainTable
		for id, start := range c.starts {
			refs = append(refs, chainRef{id: int32(id)<<s.bits | int32(k), start: start + uint64(len(t.blocks))<<32})
		}
		t.blocks = append(t.blocks, c.blocks...)
		*c = chainTable{}
	}
	t.sortAll(refs, workers)
	sb := stackBuilder{p: p}
	p.Stacks = make([]profile.Stack, 0, t.nodes(refs))
	out := make([]int32, last<<s.bits)
	for i := range refs {
		out[refs[i].id] = sb.add(t.at(refs[i].start))
	}
	return out
}
