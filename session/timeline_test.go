package session

import (
	"math/rand/v2"
	"testing"
)

// naive is an address space as a list: the newest mapping that covers an
// address counts.
type naive []mapping

func (n naive) find(ip uint64) int32 {
	for i := len(n) - 1; i >= 0; i-- {
		if n[i].has(ip) {
			return n[i].object
		}
	}
	return none
}

// TestSpaceRandom compares spaces that map, fork and exec at random with
// lists, at every moment of their lives.
func TestSpaceRandom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 60 {
		a := newAtlas()
		spaces := []*space{{}}
		now := []naive{nil}
		type snapshot struct {
			space int
			at    moment
			maps  naive
		}
		var shots []snapshot
		steps := 300
		width := uint64(1) << (6 + round%10)
		for i := range steps {
			at := moment{uint64(i / 3), uint64(i)} // equal times, and time 0
			k := rnd.IntN(len(spaces))
			switch op := rnd.IntN(20); {
			case op == 0 && len(spaces) < 12:
				spaces = append(spaces, &space{})
				now = append(now, nil)
				fallthrough
			case op == 1:
				c := rnd.IntN(len(spaces))
				if c != k {
					spaces[k].fork(a, at, spaces[c])
					now[c] = now[k][:len(now[k]):len(now[k])]
					shots = append(shots, snapshot{c, at, now[c]})
				}
			case op == 2:
				// Exec: mappings, of which the last one ends it.
				spaces[k].exec()
				n := 2 + rnd.IntN(40)
				var fresh naive
				for j := range n {
					m := mapping{start: uint64(j) + rnd.Uint64N(8), last: uint64(j + 8), object: int32(i)}
					if j == n-1 {
						spaces[k].loaded()
					}
					spaces[k].add(a, at, m)
					fresh = append(fresh, m)
				}
				now[k] = fresh
				shots = append(shots, snapshot{k, at, now[k]})
			default:
				start := rnd.Uint64N(width)
				m := mapping{start: start, last: start + rnd.Uint64N(width), object: int32(i)}
				if rnd.IntN(8) == 0 {
					m.object = none
				}
				if rnd.IntN(30) == 0 {
					m.last = ^uint64(0)
				}
				spaces[k].add(a, at, m)
				now[k] = append(now[k][:len(now[k]):len(now[k])], m)
				shots = append(shots, snapshot{k, at, now[k]})
			}
		}
		last := map[int]naive{} // at time 0, the last one counts
		for _, s := range shots {
			if s.at.time == 0 {
				last[s.space] = s.maps
			}
		}
		for _, s := range shots {
			if s.at.time == 0 {
				s.maps = last[s.space]
				s.at.pos = 2
			}
			st, _, _ := spaces[s.space].at(s.at)
			for range 20 {
				ip := rnd.Uint64N(2*width + 2)
				m, lo, hi := a.find(st, ip)
				got := int32(none)
				if m != none {
					got = a.maps[m].object
				}
				if want := s.maps.find(ip); got != want {
					t.Fatalf("round %d, space %d at %v: object %d at %#x, want %d", round, s.space, s.at, got, ip, want)
				}
				if ip < lo || ip > hi {
					t.Fatalf("%#x is not in its range %#x-%#x", ip, lo, hi)
				}
				other := lo + rnd.Uint64N(min(hi-lo, 2*width)+1)
				if m2, _, _ := a.find(st, other); m2 != m {
					t.Fatalf("%#x has mapping %d, %#x of the same range has %d", ip, m, other, m2)
				}
			}
		}
	}
}

// TestManyMaps is P15 of the hostile recipes: very many mappings over one
// another in one process, each at a time of its own.
func TestManyMaps(t *testing.T) {
	n := 250_000
	if testing.Short() {
		n = 50_000
	}
	a := newAtlas()
	var sp space
	for i := range n {
		// Each lies in the middle of the one before: nothing is replaced, and
		// the tree has every one of them.
		at := moment{uint64(i + 1), uint64(i)}
		sp.add(a, at, mapping{start: uint64(i), last: uint64(4*n - i), object: int32(i)})
	}
	for i := 0; i < n; i += n / 1000 {
		st, _, _ := sp.at(moment{uint64(i + 1), uint64(i)})
		if m, _, _ := a.find(st, uint64(i)); m != int32(i) {
			t.Fatalf("at %d: mapping %d, want the newest", i, m)
		}
		if m, _, _ := a.find(st, uint64(i/2)); m != int32(i/2) {
			t.Fatalf("at %d: mapping %d at %#x, want %d", i, m, i/2, i/2)
		}
	}
	if got, most := len(a.forest.nodes), 40*n; got > most {
		t.Errorf("%d nodes for %d mappings, want at most %d", got, n, most)
	} else {
		t.Logf("%.1f nodes a mapping", float64(got)/float64(n))
	}
}
