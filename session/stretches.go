package session

import (
	"cmp"
	"slices"

	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
)

// cyclesOf is how many cycles passed from the branch before to this one; 0 if
// that is not known.
func cyclesOf(x *perfdata.Branch) uint16 {
	return uint16(x.Flags >> branchCyclesShift & branchCyclesMask)
}

// addStretches adds what the current sample's branch stack tells of time: from
// where each branch went to where the next left, and the cycles in between. As
// for perf, a stack whose newest entry has no cycles tells nothing
// (tools/perf/util/hist.c, hist__account_cycles), and what comes before its
// oldest entry is not known.
func (b *builder) addStretches(w *worker, f *frames) {
	c := &w.cur
	if len(c.branches) == 0 || cyclesOf(&c.branches[0]) == 0 {
		return
	}
	if b.stretches == nil {
		b.stretches = map[runKey]profile.Stretch{}
	}
	leaf := int32(none)
	if !b.l.o.Branches {
		leaf = b.location(w, f.state(c.mode), c.mode, c.ip, f.t.pos)
	}
	for i := len(c.branches) - 1; i >= 0; i-- {
		cycles := cyclesOf(&c.branches[i])
		if cycles == 0 {
			continue
		}
		k := runKey{leaf, none, b.branchEnd(w, f, c.branches[i].From)}
		if i+1 < len(c.branches) {
			k.start = b.branchEnd(w, f, c.branches[i+1].To)
		}
		b.stretches[k] = addStretch(b.stretches[k], profile.Stretch{Count: 1, Cycles: uint64(cycles), Min: cycles, Max: cycles})
	}
}

// addStretch adds up two stretches of the same code.
func addStretch(a, b profile.Stretch) profile.Stretch {
	if a.Count == 0 {
		return b
	}
	return profile.Stretch{Count: a.Count + b.Count, Cycles: a.Cycles + b.Cycles, Min: min(a.Min, b.Min), Max: max(a.Max, b.Max)}
}

// mergeStretches fills p.Stretches, each once and in order.
func mergeStretches(p *profile.Profile, bs []*builder, locs [][]int32) {
	sum := map[runKey]profile.Stretch{}
	for i, b := range bs {
		of := func(location int32) int32 {
			if location == none {
				return none
			}
			return locs[i][location]
		}
		for k, s := range b.stretches {
			k = runKey{of(k.location), of(k.start), of(k.end)}
			sum[k] = addStretch(sum[k], s)
		}
		b.stretches = nil
	}
	for k, s := range sum {
		s.Location, s.Start, s.End = k.location, k.start, k.end
		p.Stretches = append(p.Stretches, s)
	}
	slices.SortFunc(p.Stretches, func(a, b profile.Stretch) int {
		return cmp.Or(cmp.Compare(a.Location, b.Location), cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
	})
}
