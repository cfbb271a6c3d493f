package report

import (
	"slices"

	"github.com/perfark/perfark/profile"
)

// Same returns, for each location of p, the first one that the report under
// the options does not tell from it: locations of one function with the same
// inlined functions, addresses without a symbol by themselves. Samples and
// stacks of p can have that one instead. It is nil if all locations are
// different.
func Same(p *profile.Profile, o Options) []int32 {
	columns, order := layout(&o)
	for _, k := range slices.Concat(columns, order) {
		switch k {
		case SymbolOffset, Addr, SymbolCode, AddrFrom, AddrTo, SymbolData, CacheLine:
			return nil
		}
	}
	if o.Graph.Mode != GraphNone && o.Graph.Key == ByAddress {
		return nil
	}
	b := &builder{p: p, o: &o, s: newPlaces(p, &o)}
	var tails []dim
	for _, k := range order {
		if k.kind() == ofPlace {
			tails = append(tails, b.dim(k))
		}
	}
	tails = append(tails, dim{codes: b.chainCodes()})
	set := interner{width: len(tails)}
	of := make([]int32, b.s.len())
	tuple := make([]int32, len(tails))
	for i := range of {
		for j := range tails {
			tuple[j] = tails[j].codes[i]
		}
		of[i] = set.number(tuple)
	}

	same := make([]int32, len(p.Locations))
	first := make([]int32, set.len())
	for i := range first {
		first[i] = profile.None
	}
	type chain struct{ up, place int32 }
	chains := make(map[chain]int32) // of the inlined functions of a location
	firstOf := make(map[int32]int32)
	for i := range p.Locations {
		loc := int32(i)
		at, n := b.s.chain(loc)
		if at == loc {
			k := of[i]
			if first[k] == profile.None {
				first[k] = loc
			}
			same[i] = first[k]
			continue
		}
		link := func(up, place int32) int32 {
			c := chain{up, place}
			k, ok := chains[c]
			if !ok {
				k = int32(len(chains))
				chains[c] = k
			}
			return k
		}
		k := link(-1, of[i])
		for j := range n {
			k = link(k, of[at+j])
		}
		f, ok := firstOf[k]
		if !ok {
			f = loc
			firstOf[k] = f
		}
		same[i] = f
	}
	return same
}
