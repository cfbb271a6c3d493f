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
	if _, addrs := o.Filter.symbols(); len(addrs) > 0 {
		return nil
	}
	b := &builder{p: p, o: &o, s: newPlaces(p, &o), workers: 1}
	if slices.Contains(order, Symbol) {
		return b.sameSymbols(order)
	}
	var tails []dim
	for _, k := range order {
		if k.kind() == ofPlace {
			tails = append(tails, b.dim(k))
		}
	}
	f := &o.Filter
	if o.Graph.Mode != GraphNone || o.IgnoreCallees != nil || o.HideUnresolved || slices.Contains(order, Parent) ||
		len(f.DSOs)+len(f.Symbols)+len(f.SymbolPart) > 0 {
		tails = append(tails, dim{codes: b.chainCodes()})
	}
	levels := dim{codes: make([]int32, b.s.len())}
	for i := range levels.codes {
		levels.codes[i] = int32(b.s.location(int32(i)).Level)
	}
	tails = append(tails, levels)
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
	first := make([]int32, max(set.len(), 1))
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

// sameSymbols is Same for an order with symbols: what has none stands for
// itself.
func (b *builder) sameSymbols(order []Key) []int32 {
	p := b.p
	funcs, _ := b.s.symbols()
	var lines [][]int32
	for _, k := range order {
		if k == Srcline || k == Srcfile {
			lines = append(lines, b.dim(k).codes)
		}
	}
	if b.o.Graph.Key == BySrcline && b.o.Graph.Mode != GraphNone {
		lines = append(lines, b.s.rankSrclines())
	}
	set := interner{width: 3 + len(lines)}
	tuple := make([]int32, set.width)
	number := func(up, place int32) int32 {
		f := b.s.funcIndex(place)
		tuple[0], tuple[1], tuple[2] = up, profile.None, int32(b.s.location(place).Level)
		if f != profile.None {
			tuple[1] = funcs[f]
		}
		for j := range lines {
			tuple[3+j] = lines[j][place]
		}
		return set.number(tuple)
	}
	same := make([]int32, len(p.Locations))
	var first []int32 // by number
	for i := range p.Locations {
		loc := int32(i)
		same[i] = loc
		if p.Locations[i].Func == profile.None && p.Locations[i].NFrames < 2 {
			continue
		}
		k := number(-1, loc)
		if at, n := b.s.chain(loc); at != loc {
			for j := range n {
				k = number(k, at+j)
			}
		}
		for len(first) <= int(k) {
			first = append(first, profile.None)
		}
		if first[k] == profile.None {
			first[k] = loc
		}
		same[i] = first[k]
	}
	return same
}
