package annotate

import (
	"fmt"
	"slices"

	"github.com/perfark/perfark/profile"
)

// Runs tell how often code of an object was gone through in a straight line,
// from branch stacks.
type Runs struct {
	starts, ends []edge // in order of address
}

// An edge is where runs begin or end.
type edge struct {
	addr             uint64
	count, predicted uint64
	before           uint64 // sum of the counts of those before
}

// NewRuns collects the runs of an object, those in the branch stacks of samples
// that take accepts; nil if there are none.
func NewRuns(p *profile.Profile, object int32, take func(location int32) bool) *Runs {
	var r Runs
	for _, x := range p.Runs {
		from, to := &p.Locations[x.Start], &p.Locations[x.End]
		if from.Object == object && to.Object == object && from.Addr <= to.Addr && take(x.Location) {
			r.starts = append(r.starts, edge{addr: from.Addr, count: x.Count})
			r.ends = append(r.ends, edge{addr: to.Addr, count: x.Count, predicted: x.Predicted})
		}
	}
	if len(r.starts) == 0 {
		return nil
	}
	r.starts, r.ends = addUp(r.starts), addUp(r.ends)
	return &r
}

// addUp sorts edges, and makes one of those at one place.
func addUp(list []edge) []edge {
	slices.SortFunc(list, func(a, b edge) int {
		if a.addr < b.addr {
			return -1
		}
		if a.addr > b.addr {
			return 1
		}
		return 0
	})
	out := list[:0]
	var before uint64
	for _, e := range list {
		if n := len(out); n > 0 && out[n-1].addr == e.addr {
			out[n-1].count += e.count
			out[n-1].predicted += e.predicted
		} else {
			e.before = before
			out = append(out, e)
		}
		before += e.count
	}
	return out
}

// find returns the number of the first edge at or behind addr, and whether it
// is there.
func find(list []edge, addr uint64) (int, bool) {
	return slices.BinarySearchFunc(list, addr, func(e edge, a uint64) int {
		switch {
		case e.addr < a:
			return -1
		case e.addr > a:
			return 1
		}
		return 0
	})
}

// upTo is how many runs have an edge before addr.
func upTo(list []edge, addr uint64) uint64 {
	i, _ := find(list, addr)
	if i < len(list) {
		return list[i].before
	}
	if i == 0 {
		return 0
	}
	return list[i-1].before + list[i-1].count
}

// through is how many runs go through addr.
func (r *Runs) through(addr uint64) uint64 { return upTo(r.starts, addr+1) - upTo(r.ends, addr) }

// A Flow is what branch stacks say of an instruction.
type Flow struct {
	Entered   float64 // percent of what goes through the next branch that was entered here, by a jump
	Left      float64 // percent of what comes here that leaves
	Predicted float64 // percent of these that the processor had predicted
}

// At returns what is known of the instruction at an address, in the space of
// Location.Addr.
func (r *Runs) At(addr uint64) (f Flow) {
	if r == nil {
		return f
	}
	if i, ok := find(r.starts, addr); ok {
		next, _ := find(r.ends, addr)
		f.Entered = 100 * float64(r.starts[i].count) / float64(r.through(r.ends[next].addr))
	}
	if i, ok := find(r.ends, addr); ok {
		f.Left = 100 * float64(r.ends[i].count) / float64(r.through(addr))
		f.Predicted = 100 * float64(r.ends[i].predicted) / float64(r.ends[i].count)
	}
	return f
}

// least is the percentage that is not printed.
const least = 0.1

// String is what perf annotate prints behind the instruction.
func (f Flow) String() string {
	s := ""
	if f.Entered > least {
		s += fmt.Sprintf(" +%.2f%%", f.Entered)
	}
	if f.Left > least {
		s += fmt.Sprintf(" -%.2f%% (p:%.2f%%)", f.Left, f.Predicted)
	}
	if s != "" {
		s = "\t#" + s
	}
	return s
}
