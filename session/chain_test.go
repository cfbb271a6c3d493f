package session

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/perfark/perfark/profile"
)

// TestChains: equal chains have one number, different ones have others, and
// the tree that is made of them has every one of them and no node twice.
func TestChains(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	tab := chainTable{h: newHasher()}
	var chains [][]int32
	ids := map[string]int32{}
	text := func(c []int32) string {
		b := make([]byte, 0, 2*len(c))
		for _, x := range c {
			b = append(b, byte(x), byte(x>>8))
		}
		return string(b)
	}
	for range 20000 {
		c := make([]int32, rnd.IntN(12))
		for i := range c {
			c[i] = rnd.Int32N(4)
		}
		if rnd.IntN(2000) == 0 {
			c = append(c, make([]int32, chainBlock)...)
		}
		tab.reserve(1)
		id := tab.id(c, tab.h.chain(c))
		k := text(c)
		if len(c) == 0 {
			if id != none {
				t.Fatalf("no frames have number %d", id)
			}
			continue
		}
		if old, ok := ids[k]; ok != (int(id) < len(chains)) || ok && old != id {
			t.Fatalf("%v has number %d, had %d", c[:min(len(c), 20)], id, old)
		} else if !ok {
			ids[k] = id
			chains = append(chains, c)
		}
	}
	refs := tab.sorted(3)
	if !slices.IsSortedFunc(refs, func(a, b chainRef) int { return slices.Compare(tab.at(a.start), tab.at(b.start)) }) {
		t.Fatal("not sorted")
	}
	var p profile.Profile
	b := stackBuilder{p: &p}
	for _, r := range refs {
		s := b.add(tab.at(r.start))
		want := chains[r.id]
		for i, loc := range slices.Backward(want) {
			if s == profile.None || p.Stacks[s].Location != loc {
				t.Fatalf("chain %d: frame %d differs", r.id, i)
			}
			s = p.Stacks[s].Caller
		}
		if s != profile.None {
			t.Fatalf("chain %d: more frames than it has", r.id)
		}
	}
	seen := map[profile.Stack]bool{}
	for _, s := range p.Stacks {
		if seen[s] {
			t.Fatalf("stack %+v is there twice", s)
		}
		seen[s] = true
	}
	t.Logf("%d chains, %d stacks", len(refs), len(p.Stacks))
}

// TestSortSamples: in order, whether by comparison or by place.
func TestSortSamples(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, n := range []int{0, 1, 100, 5000} {
		for _, locs := range []int{1, 50, 1000, 1 << 20} {
			rows := make([]sampleSlot, n)
			for i := range rows {
				rows[i].sampleKey = sampleKey{int32(rng.IntN(locs+1)) - 1, int32(rng.IntN(3)) - 1, int32(rng.IntN(3))}
				rows[i].count = uint32(i)
			}
			want := slices.Clone(rows)
			compare := func(x, y sampleSlot) int {
				return cmp.Or(compareSample(&x.sampleKey, &y.sampleKey), cmp.Compare(x.count, y.count))
			}
			slices.SortFunc(want, compare)
			got := sortSamples(rows)
			if !slices.IsSortedFunc(got, func(x, y sampleSlot) int { return compareSample(&x.sampleKey, &y.sampleKey) }) {
				t.Fatalf("%d rows of %d locations: not in order", n, locs)
			}
			slices.SortFunc(got, compare)
			if !slices.Equal(got, want) {
				t.Fatalf("%d rows of %d locations: other rows", n, locs)
			}
		}
	}
}
