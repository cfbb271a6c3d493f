package session

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/perfark/perfark/profile"
)

// Callers reads the samples again, and fills the profile's Callers: what the
// samples that have a location in their call chain, or are of it, count
// together. Each counts once for a location, whatever the number of frames it
// has there. In these location same[l] stands for every location l; nil keeps
// them as they are. Of each chain the depth innermost frames count, or
// the -depth outermost if it is negative; all if it is 0. Samples stay as they
// are.
//
// This is what is left of the stacks if nobody wants to see them, for a part
// of the memory and the time. All else is as with Stacks.
func (r *Result) Callers(ctx context.Context, same []int32, keep Keep, depth int) error {
	l, err := r.second(same, keep&^KeepStacks|KeepFrames)
	if err != nil {
		return err
	}
	p := r.Profile
	l.callers, l.depth = true, depth
	if err := l.samples(ctx); err != nil {
		return fmt.Errorf("%s: %w", l.f.Name(), err)
	}
	q := &profile.Profile{}
	strange := l.strange()
	l.merge(q)
	if strange || !slices.Equal(p.Threads, q.Threads) || !slices.Equal(p.Extras, q.Extras) {
		return l.changed()
	}
	p.Callers = q.Samples
	return nil
}

// second returns a loader that reads the samples again.
func (r *Result) second(same []int32, keep Keep) (*loader, error) {
	p := r.Profile
	if r.l == nil || r.l.o.Keep&(KeepFrames|KeepStacks) == 0 || r.l.o.HitsOnly {
		return nil, errors.New("session: the profile was loaded without frames")
	}
	if same != nil && len(same) != len(p.Locations) {
		return nil, fmt.Errorf("session: %d classes for %d locations", len(same), len(p.Locations))
	}
	l := r.l.again(keep)
	l.o.Branches = false
	l.index = newLocIndex(p, same)
	if l.recall, r.l.recall = r.l.recall, nil; l.recall != nil && (l.recall.keep^keep)&^(KeepFrames|KeepStacks) != 0 {
		l.recall = nil
	}
	if l.recall == nil || !l.recall.whole {
		l.index.fill()
	}
	return l, nil
}

// strange reports whether there were addresses that were not there before. The
// index is spent.
func (l *loader) strange() bool {
	l.index.slots = nil // they are not needed any more
	return slices.ContainsFunc(l.workers, func(w *worker) bool { return w.b.strange })
}

func (l *loader) changed() error {
	return fmt.Errorf("%s: the recording changed while it was read", l.f.Name())
}

// A callerWay is the way to the frame of a sample, from the outermost on. What
// the next sample shares of it stays, and is counted when it is left: once for
// all of them.
type callerWay struct {
	path  []callerFrame
	on    []uint64 // by location: whether it is on the way, a bit each
	group int32    // of what is on the way

	// What was counted last, by hash: most is of few locations, and need not go
	// to the large table each time.
	sums []callerSum
	done []callerSum // what goes there now
}

type callerFrame struct {
	loc    int32
	first  bool // it is not on the way before
	count  uint32
	period uint64
}

// A callerSum waits to be added to the table.
type callerSum struct {
	key    sampleKey
	count  uint32 // 0: nothing
	period uint64
	hash   uint64
}

const callerSumBits = 13

// sum counts samples.
func (b *builder) sum(loc, group int32, count uint32, period uint64) {
	k := sampleKey{loc, none, group}
	h := b.samples.hash(k)
	e := &b.way.sums[h>>(64-callerSumBits)]
	if e.key != k || e.count > 1<<30 {
		if e.count > 0 {
			b.way.done = append(b.way.done, *e)
		}
		*e = callerSum{key: k, hash: h}
	}
	e.count += count
	e.period += period
}

// addCallers adds what is done to the table.
func (b *builder) addCallers() {
	c := &b.way
	b.samples.reserve(len(c.done))
	mask := uint64(len(b.samples.slots) - 1)
	touched := b.touched
	for i := range c.done {
		touched += uint64(b.samples.slots[c.done[i].hash&mask].count)
	}
	b.touched = touched
	for i := range c.done {
		d := &c.done[i]
		b.samples.add(d.key, d.hash, d.count, d.period)
	}
	c.done = c.done[:0]
}

// finishCallers adds all that waits.
func (b *builder) finishCallers() {
	for i := range b.way.sums {
		if e := &b.way.sums[i]; e.count > 0 {
			b.way.done = append(b.way.done, *e)
		}
	}
	b.addCallers()
	b.way = callerWay{}
}

// countCallers counts the queued samples for each location they have.
func (b *builder) countCallers() {
	q := &b.queue
	b.way.init(b)
	for i := range q.samples {
		s := &q.samples[i]
		chain := q.chains[s.chain:s.end]
		switch d := b.l.depth; {
		case d > 0:
			chain = chain[max(len(chain)-d, 0):]
		case d < 0:
			chain = chain[:min(-d, len(chain))]
		}
		s.keep = 0
		b.walk(s, chain)
	}
	b.back(0)
	b.addCallers()
}

// walk counts a sample. The outermost s.keep frames of its chain are those on
// the way, which is that to the sample before, and the others own.
func (b *builder) walk(s *queued, own []int32) {
	c, keep := &b.way, int(s.keep)
	if s.group != c.group {
		kept := c.path[:keep]
		b.back(0)
		c.group = s.group
		for i := range kept {
			c.push(kept[i].loc) // to where it was
		}
	}
	n := 0
	for n < len(own) && keep+n < len(c.path) && c.path[keep+n].loc == own[n] {
		n++
	}
	b.back(keep + n)
	for _, loc := range own[n:] {
		c.push(loc)
	}
	if n := len(c.path); n > 0 {
		at := &c.path[n-1]
		at.count++
		at.period += s.period
	}
	if leaf := s.loc; leaf >= 0 && c.on[leaf>>6]>>(leaf&63)&1 == 0 {
		b.sum(leaf, c.group, 1, s.period)
	}
}

// init makes room for the locations of b.
func (c *callerWay) init(b *builder) {
	if c.on == nil {
		c.on = make([]uint64, (len(b.l.index.p.Locations)+63)/64)
		c.sums = make([]callerSum, 1<<callerSumBits)
	}
}

func (c *callerWay) push(loc int32) {
	at := callerFrame{loc: loc}
	if loc >= 0 { // else the recording has changed
		at.first = c.on[loc>>6]>>(loc&63)&1 == 0
		c.on[loc>>6] |= 1 << (loc & 63)
	}
	c.path = append(c.path, at)
}

// back goes back to the n outermost frames.
func (b *builder) back(n int) {
	c := &b.way
	for i := len(c.path) - 1; i >= n; i-- {
		at := &c.path[i]
		if at.first {
			c.on[at.loc>>6] &^= 1 << (at.loc & 63)
			if at.count > 0 {
				b.sum(at.loc, c.group, at.count, at.period)
			}
		}
		if i > 0 {
			up := &c.path[i-1]
			up.count += at.count
			up.period += at.period
		}
	}
	c.path = c.path[:n]
}
