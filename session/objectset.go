package session

// objectSets counts samples by the set of objects that they touch. Samples
// have few different ones, and consecutive frames are mostly of one object, so
// that counting costs little more than looking at the frames.
type objectSets struct {
	h      hasher
	sets   []objectSet // [0] is the empty one
	counts []uint64    // samples, by set
	next   map[[2]int32]int32
	cache  []setEntry

	// Of objects for which there was no set any more.
	beyond []uint64 // samples, by object
	stamps []uint64 // by object: the serial of the last sample so counted
}

// An objectSet is another one and an object that is not in it.
type objectSet struct{ without, object, size int32 }

// A setEntry of the cache says which set is set with object.
type setEntry struct{ set, object, with int32 }

const (
	setCacheBits = 10
	setsMax      = 1 << 20
	setSizeMax   = 64
)

func newObjectSets(h hasher, objects int) objectSets {
	s := objectSets{
		h: h, sets: make([]objectSet, 1), counts: make([]uint64, 1), next: map[[2]int32]int32{},
		cache: make([]setEntry, 1<<setCacheBits), beyond: make([]uint64, objects), stamps: make([]uint64, objects),
	}
	for i := range s.cache {
		s.cache[i].object = none
	}
	return s
}

// with returns a set with an object in it. If there is no room for such a set
// it counts the object by itself, and whole is false. serial is that of the
// sample.
func (s *objectSets) with(set, object int32, serial uint64) (with int32, whole bool) {
	e := &s.cache[s.h.mix(uint64(set), uint64(object))>>(64-setCacheBits)]
	if e.set == set && e.object == object {
		return e.with, true
	}
	for t := set; t != 0; t = s.sets[t].without {
		if s.sets[t].object == object {
			*e = setEntry{set, object, set}
			return set, true
		}
	}
	id, ok := s.next[[2]int32{set, object}]
	if !ok {
		if len(s.sets) >= setsMax || s.sets[set].size >= setSizeMax {
			if s.stamps[object] != serial {
				s.stamps[object] = serial
				s.beyond[object]++
			}
			return set, false
		}
		id = int32(len(s.sets))
		s.sets = append(s.sets, objectSet{set, object, s.sets[set].size + 1})
		s.counts = append(s.counts, 0)
		s.next[[2]int32{set, object}] = id
	}
	*e = setEntry{set, object, id}
	return id, true
}

// An objectWay is the objects of a call chain, from the outermost frame on,
// and the sets of those up to each frame: samples have much of it in common
// with the one before.
type objectWay struct {
	objects []int32
	sets    []int32 // of the first frames, as far as they were whole
}

// keep goes back to the n outermost frames.
func (o *objectWay) keep(n int32) {
	o.objects = o.objects[:n]
	o.sets = o.sets[:min(len(o.sets), int(n))]
}

// all returns the set of all objects on a way.
func (s *objectSets) all(way *objectWay, serial uint64) int32 {
	n := len(way.sets)
	set, last, whole := int32(0), int32(none), true
	if n > 0 {
		set, last = way.sets[n-1], way.objects[n-1]
	}
	for _, o := range way.objects[n:] {
		if o != none && o != last {
			ok := true
			set, ok = s.with(set, o, serial)
			whole = whole && ok
			last = o
		}
		if whole {
			way.sets = append(way.sets, set)
		}
	}
	return set
}

// add adds to out, by object, in how many samples each object is.
func (s *objectSets) add(out []uint64) {
	for id, n := range s.counts {
		for t := int32(id); t != 0 && n > 0; t = s.sets[t].without {
			out[s.sets[t].object] += n
		}
	}
	for o, n := range s.beyond {
		out[o] += n
	}
}
