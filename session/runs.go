package session

import (
	"cmp"
	"slices"

	"github.com/perfark/perfark/profile"
)

// branchPredicted is the bit of perf_branch_entry that says that a branch went
// where it was thought to go.
const branchPredicted = 1 << 1

// A runKey tells runs apart, by locations of a builder.
type runKey struct{ location, start, end int32 }

// addRuns adds the straight runs of code that the current sample's branch
// stack tells of: from where each branch went to where the next left. A run
// backwards is none: something is missing.
func (b *builder) addRuns(w *worker, f *frames) {
	c := &w.cur
	if len(c.branches) < 2 {
		return
	}
	if b.runs == nil {
		b.runs = map[runKey]profile.Run{}
	}
	leaf := b.location(w, f.state(c.mode), c.mode, c.ip, f.t.pos)
	for i := len(c.branches) - 1; i > 0; i-- {
		from, to := c.branches[i].To, &c.branches[i-1]
		if from == 0 || from > to.From {
			continue
		}
		k := runKey{leaf, b.branchEnd(w, f, from), b.branchEnd(w, f, to.From)}
		r := b.runs[k]
		r.Count++
		if to.Flags&branchPredicted != 0 {
			r.Predicted++
		}
		b.runs[k] = r
	}
}

// mergeRuns fills p.Runs, each once and in order.
func mergeRuns(p *profile.Profile, bs []*builder, locs [][]int32) {
	sum := map[runKey]profile.Run{}
	for i, b := range bs {
		for k, r := range b.runs {
			k = runKey{locs[i][k.location], locs[i][k.start], locs[i][k.end]}
			s := sum[k]
			s.Count += r.Count
			s.Predicted += r.Predicted
			sum[k] = s
		}
		b.runs = nil
	}
	for k, r := range sum {
		r.Location, r.Start, r.End = k.location, k.start, k.end
		p.Runs = append(p.Runs, r)
	}
	slices.SortFunc(p.Runs, func(a, b profile.Run) int {
		return cmp.Or(cmp.Compare(a.Location, b.Location), cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
	})
}
