package report

import (
	"cmp"
	"slices"

	"github.com/perfark/perfark/profile"
)

// A Block is the code of a function up to a branch, and the time it took, from
// branch stacks with cycles.
//
// Branches into the middle of straight code make stretches of different length
// that end with the same branch. As for perf (tools/perf/util/annotate.c), the
// block begins where the longest one does.
type Block struct {
	Function
	Begin  uint64 // address of its first instruction, in the space of Location.Addr; 0 if Known is false
	End    uint64 // of the branch
	Known  bool   // where it begins
	Count  uint64 // how often it was gone through from Begin
	Cycles uint64 // that took, in all

	// Of all stretches that end here, wherever they begin.
	AllCount, AllCycles uint64
	Min, Max            uint16 // cycles of one
}

// A Function is a function that machine code belongs to, not one that was
// inlined there.
type Function struct {
	Object      int32
	Start, Stop uint64 // half-open, in the space of Location.Addr
}

// FunctionAt returns the function that the machine code of a location belongs
// to, and its handle; false if it has no name.
func FunctionAt(p *profile.Profile, location int32) (f Function, handle int32, ok bool) {
	if location == profile.None {
		return f, profile.None, false
	}
	l := &p.Locations[location]
	handle = l.Func
	if l.NFrames > 0 {
		if outer := p.Frames[l.Frames+int32(l.NFrames)-1].Func; outer != profile.None {
			handle = outer
		}
	}
	if handle == profile.None {
		return f, handle, false
	}
	x := &p.Functions[handle]
	return Function{l.Object, x.Start, x.End}, handle, true
}

// Blocks returns the blocks of the stretches that take accepts, by function and
// by the place of their branch. whole says that where stretches begin is known
// by the entry before: that branch stacks have all branches.
func Blocks(p *profile.Profile, take func(*profile.Stretch) bool, whole bool) []Block {
	type place struct {
		Function
		end uint64
	}
	at := map[place]int{}
	var out []Block
	for i := range p.Stretches {
		s := &p.Stretches[i]
		if !take(s) {
			continue
		}
		f, _, ok := FunctionAt(p, s.End)
		end := p.Locations[s.End].Addr
		if !ok || end < f.Start || end >= f.Stop {
			continue
		}
		begin, known := uint64(0), false
		if from, _, ok := FunctionAt(p, s.Start); ok && whole && from == f {
			if begin = p.Locations[s.Start].Addr; begin < f.Start || begin >= f.Stop {
				continue
			}
			known = begin < end
		}
		if !known {
			begin = 0
		}
		n, ok := at[place{f, end}]
		if !ok {
			n = len(out)
			at[place{f, end}] = n
			out = append(out, Block{Function: f, End: end})
		}
		out[n].add(s, begin, known)
	}
	slices.SortFunc(out, func(a, b Block) int {
		return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Start, b.Start), cmp.Compare(a.Stop, b.Stop), cmp.Compare(a.End, b.End))
	})
	return out
}

// add adds a stretch that ends with the block.
func (b *Block) add(s *profile.Stretch, begin uint64, known bool) {
	if b.AllCount == 0 || s.Min < b.Min {
		b.Min = s.Min
	}
	b.Max = max(b.Max, s.Max)
	b.AllCount += s.Count
	b.AllCycles += s.Cycles
	switch {
	case known && (!b.Known || begin < b.Begin):
		b.Known, b.Begin, b.Count, b.Cycles = true, begin, s.Count, s.Cycles
	case known == b.Known && begin == b.Begin:
		b.Count += s.Count
		b.Cycles += s.Cycles
	}
}
