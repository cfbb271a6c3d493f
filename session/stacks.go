package session

import (
	"context"
	"fmt"
	"slices"

	"github.com/perfark/perfark/profile"
)

// Stacks reads the samples again, and makes the profile's Samples, Stacks,
// Threads and Extras anew, with the stacks of all samples. In these location
// same[l] stands for every location l; nil keeps them as they are. With one
// location for each function, stacks that differ in addresses only are one,
// and millions of samples have few. Locations in Extras stay as they are.
//
// keep is as in Options.Keep; KeepStacks is implied. Options.Filter and
// TimeQuantum are those of Load, which must have had KeepFrames or KeepStacks.
// The recording must still be open. The result is the same for any number of
// workers. After an error there are no samples.
func (r *Result) Stacks(ctx context.Context, same []int32, keep Keep) error {
	l, err := r.second(same, keep|KeepStacks)
	if err != nil {
		return err
	}
	p := r.Profile
	l.chains = newChainStore(l.index.h, l.o.Workers)
	p.Threads, p.Stacks, p.Samples, p.Extras, p.Callers = nil, nil, nil, nil, nil
	if err := l.samples(ctx); err != nil {
		return fmt.Errorf("%s: %w", l.f.Name(), err)
	}
	if l.strange() {
		return l.changed()
	}
	q := &profile.Profile{}
	l.merge(q)
	p.Threads, p.Stacks, p.Samples, p.Extras = q.Threads, q.Stacks, q.Samples, q.Extras
	return nil
}

// again returns a loader for another pass over the samples.
func (l *loader) again(keep Keep) *loader {
	m := *l
	m.o.Keep = keep
	m.o.Progress = nil
	m.workers = nil
	m.logs = false
	m.shapes = shapes{}
	if keep&keepSample == 0 {
		m.shapes = newShapes(m.f)
	}
	return &m
}

// A locIndex finds the locations of a profile, or those that stand for them.
type locIndex struct {
	h     hasher
	slots []locSlot
	same  []int32 // what stands for each; nil: it does itself
	p     *profile.Profile
}

func newLocIndex(p *profile.Profile, same []int32) *locIndex {
	return &locIndex{h: newHasher(), same: same, p: p}
}

// fill makes find possible.
func (x *locIndex) fill() {
	p := x.p
	n := 1 << 10
	for 3*n < 4*len(p.Locations) {
		n *= 2
	}
	x.slots = make([]locSlot, n)
	mask := uint64(n - 1)
	for id := range p.Locations {
		k := keyOf(p, &p.Locations[id])
		i := x.h.mix(k.addr, uint64(k.place)) & mask
		for x.slots[i].id != 0 {
			i = (i + 1) & mask
		}
		to := int32(id)
		if x.same != nil {
			to = x.same[id]
		}
		x.slots[i] = locSlot{k.addr, k.place, to + 1}
	}
}

// find returns the location that stands for k, none if there is none.
func (x *locIndex) find(k locKey, hash uint64) int32 {
	mask := uint64(len(x.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		switch s := &x.slots[i]; {
		case s.id == 0:
			return none
		case s.addr == k.addr && s.place == k.place:
			return s.id - 1
		}
	}
}

func keyOf(p *profile.Profile, l *profile.Location) locKey {
	object, addr := p.Recorded(l)
	return locKey{addr, placeOf(object, mode(slices.Index(levels[:], l.Level)))}
}

// exact returns the location of k itself, none if there is none.
func (x *locIndex) exact(k locKey) int32 {
	want := locSlot{addr: k.addr, place: k.place}
	i, ok := slices.BinarySearchFunc(x.p.Locations, want, func(l profile.Location, want locSlot) int {
		k := keyOf(x.p, &l)
		return compareLoc(locSlot{addr: k.addr, place: k.place}, want)
	})
	if !ok {
		return none
	}
	return int32(i)
}
