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

// with returns a set with an object in it. serial is that of the sample.
func (s *objectSets) with(set, object int32, serial uint64) int32 {
	e := &s.cache[s.h.mix(uint64(set), uint64(object))>>(64-setCacheBits)]
	if e.set == set && e.object == object {
		return e.with
	}
	for t := set; t != 0; t = s.sets[t].without {
		if s.sets[t].object == object {
			*e = setEntry{set, object, set}
			return set
		}
	}
	id, ok := s.next[[2]int32{set, object}]
	if !ok {
		if len(s.sets) >= setsMax || s.sets[set].size >= setSizeMax {
			if s.stamps[object] != serial {
				s.stamps[object] = serial
				s.beyond[object]++
			}
			return set
		}
		id = int32(len(s.sets))
		s.sets = append(s.sets, objectSet{set, object, s.sets[set].size + 1})
		s.counts = append(s.counts, 0)
		s.next[[2]int32{set, object}] = id
	}
	*e = setEntry{set, object, id}
	return id
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
