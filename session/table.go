package session

import (
	"math/bits"
	"math/rand/v2"
)

// A hasher has the secrets of one Load, so that no recording can be made to
// collide. No result depends on them.
type hasher struct{ a, b uint64 }

func newHasher() hasher { return hasher{rand.Uint64(), rand.Uint64()} }

// mix is a hash of two words: the product of both, folded.
func (h hasher) mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^h.a, b^h.b)
	return hi ^ lo
}

func word(a, b int32) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) }

// The tables below are open hash tables whose entries hold all there is to
// know, so that a look-up touches one line of memory: with millions of
// samples that line is what a look-up costs. A table is full at three
// quarters.

// fresh returns n empty slots. It writes to every page of them: the first
// access of a look-up is a read, for which the kernel maps its page of zeros,
// and the write that follows would have it interrupt all processors to replace
// that by a page of ours.
func fresh[T any](n int) []T {
	s := make([]T, n)
	var empty T
	for i := 0; i < n; i += 64 { // slots have at most 64 bytes
		s[i] = empty
	}
	return s
}

// locTable numbers locations.
type locTable struct {
	h     hasher
	slots []locSlot
	n     int
	first [][]locFirst // by number, in blocks, so that none is copied
}

const locBlockBits = 12

// A locKey is an address in an object. Its place packs object and level.
type locKey struct {
	addr  uint64
	place uint32
}

type locSlot struct {
	addr  uint64
	place uint32
	id    int32 // plus 1; 0 is an empty slot
}

// A locFirst is the first sample of a location.
type locFirst struct{ pos, ip uint64 }

func placeOf(object int32, m mode) uint32 { return uint32(object+1)<<3 | uint32(m) }

func (p locKey) object() int32 { return int32(p.place>>3) - 1 }
func (p locKey) mode() mode    { return mode(p.place & 7) }

func (t *locTable) hash(k locKey) uint64 { return t.h.mix(k.addr, uint64(k.place)) }

func (t *locTable) id(k locKey, hash uint64, first locFirst) int32 {
	if 4*t.n >= 3*len(t.slots) {
		t.grow()
	}
	mask := uint64(len(t.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.id == 0 {
			id := int32(t.n)
			t.n++
			if id&(1<<locBlockBits-1) == 0 {
				t.first = append(t.first, make([]locFirst, 1<<locBlockBits))
			}
			t.first[id>>locBlockBits][id&(1<<locBlockBits-1)] = first
			*s = locSlot{k.addr, k.place, id + 1}
			return id
		}
		if s.addr == k.addr && s.place == k.place {
			return s.id - 1
		}
	}
}

// firstOf returns the first sample of a location.
func (t *locTable) firstOf(id int32) *locFirst {
	return &t.first[id>>locBlockBits][id&(1<<locBlockBits-1)]
}

func (t *locTable) grow() {
	old := t.slots
	t.slots = fresh[locSlot](max(1<<10, 2*len(old)))
	mask := uint64(len(t.slots) - 1)
	for _, s := range old {
		if s.id == 0 {
			continue
		}
		i := t.hash(locKey{s.addr, s.place}) & mask
		for t.slots[i].id != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = s
	}
}

// sampleTable adds up samples.
type sampleTable struct {
	h     hasher
	slots []sampleSlot
	n     int
	full  []sampleSlot // whose counts have no room for more
}

// A sampleKey is a place and a group: see builder.group.
type sampleKey struct{ loc, stack, group int32 }

type sampleSlot struct {
	sampleKey
	count  uint32 // 0 is an empty slot
	period uint64
}

func (t *sampleTable) hash(k sampleKey) uint64 {
	return t.h.mix(uint64(uint32(k.loc)), word(k.stack, k.group))
}

func (t *sampleTable) add(k sampleKey, hash uint64, count uint32, period uint64) {
	mask := uint64(len(t.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		switch {
		case s.count == 0:
			s.sampleKey = k
			t.n++
		case s.sampleKey != k:
			continue
		case s.count > ^uint32(0)-count:
			t.full = append(t.full, *s)
			s.count, s.period = 0, 0
		}
		s.count += count
		s.period += period
		return
	}
}

// reserve makes room for n more samples.
func (t *sampleTable) reserve(n int) {
	size := max(1<<10, len(t.slots))
	for 4*(t.n+n) > 3*size {
		size *= 2
	}
	if size == len(t.slots) {
		return
	}
	old := t.slots
	t.slots = fresh[sampleSlot](size)
	mask := uint64(len(t.slots) - 1)
	for i := range old {
		s := &old[i]
		if s.count == 0 {
			continue
		}
		i := t.hash(s.sampleKey) & mask
		for t.slots[i].count != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = *s
	}
}

// rows returns the samples; the table is spent.
func (t *sampleTable) rows() []sampleSlot {
	n := 0
	for _, s := range t.slots {
		if s.count != 0 {
			t.slots[n] = s
			n++
		}
	}
	return append(t.slots[:n], t.full...)
}
