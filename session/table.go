package session

// A table gives each key a number, in order of arrival: a hash table of open
// addressing, with the hash by the caller.
type table[K comparable] struct {
	keys  []K
	slots []slot
}

type slot struct {
	hash uint32
	id   int32 // plus 1; 0 is empty
}

// id returns the number of k, whose hash is h, and whether it is new.
func (t *table[K]) id(k K, h uint64) (int32, bool) {
	if 4*len(t.keys) >= 3*len(t.slots) {
		t.grow()
	}
	mask := uint32(len(t.slots) - 1)
	tag := uint32(h >> 32)
	for i := tag & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.id == 0 {
			t.keys = append(t.keys, k)
			*s = slot{tag, int32(len(t.keys))}
			return s.id - 1, true
		}
		if s.hash == tag && t.keys[s.id-1] == k {
			return s.id - 1, false
		}
	}
}

func (t *table[K]) grow() {
	old := t.slots
	t.slots = make([]slot, max(64, 2*len(old)))
	mask := uint32(len(t.slots) - 1)
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

// mix is a hash of two words: one round of a multiply that keeps both halves
// of the product, with secrets, so that no recording can be made to collide.
func (h hasher) mix(a, b uint64) uint64 {
	return mul(a^h.a, b^h.b)
}

// A hasher has the secrets of one Load. No result depends on them.
type hasher struct{ a, b uint64 }
