package session

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/perfark/perfark/internal/crew"
	"github.com/perfark/perfark/profile"
)

// merge makes one profile of the workers' tables, the same for any number of
// them. Threads are in the order in which they come up in the recording,
// locations by object and address, stacks by location from the outermost on,
// samples by location.
func (l *loader) merge(p *profile.Profile) {
	bs := make([]*builder, len(l.workers))
	for i, w := range l.workers {
		bs[i] = w.b
		w.b.cache, w.b.queue = nil, frameQueue{}
		if l.callers {
			w.b.finishCallers()
		}
	}
	threads := l.mergeThreads(p, bs)
	var locs [][]int32
	if l.index == nil {
		locs = mergeLocations(p, bs, l.o.Workers)
		if l.o.Runs {
			mergeRuns(p, bs, locs)
		}
		if l.o.Stretches {
			mergeStretches(p, bs, locs)
		}
		if l.recalls() {
			l.takeRecall(locs)
		}
	}
	var stacks []int32
	if l.chains != nil {
		stacks = l.chains.stacks(p, l.o.Workers)
	}
	mergeSamples(p, bs, threads, locs, mergeExtras(p, bs, locs), stacks)
}

// mergeThreads fills p.Threads, and returns the new number of each builder's
// threads.
func (l *loader) mergeThreads(p *profile.Profile, bs []*builder) [][]int32 {
	remap := newRemap(bs, func(b *builder) int { return len(b.threadPos) })
	ids := map[profile.Thread]int32{}
	pos := func(i, j int) uint64 { return bs[i].threadPos[j].pos }
	inOrder(remap, pos, func(i, j int) {
		k := bs[i].threadPos[j].threadKey
		th := profile.Thread{PID: k.pid, TID: k.tid}
		if l.o.Keep&KeepComm != 0 {
			th.Comm = l.commName(k.comm, k.unnamed-1)
			if k.comm == defaultComm {
				th.Later = l.firstName(k.unnamed - 1)
			}
			if t := l.threads[k.tid]; t != nil && k.tid >= 0 {
				th.Last = l.commName(t.last(), k.tid)
			}
		}
		// Not by key: a thread without a name is called by its tid, and
		// another may really be called that.
		id, ok := ids[th]
		if !ok {
			id = int32(len(p.Threads))
			ids[th] = id
			p.Threads = append(p.Threads, th)
		}
		remap[i][j] = id
	})
	return remap
}

func compareLoc(a, b locSlot) int {
	if a.place != b.place {
		// By object and level; without an object comes last.
		return cmp.Compare(a.place-8, b.place-8)
	}
	return cmp.Compare(a.addr, b.addr)
}

// mergeLocations fills p.Locations, and returns the new number of each
// builder's locations.
func mergeLocations(p *profile.Profile, bs []*builder, workers int) [][]int32 {
	// Those of one place go side by side, and places to goroutines.
	type entry struct {
		addr        uint64
		builder, id int32
	}
	places := uint32(8)
	for _, b := range bs {
		places = max(places, uint32(len(b.l.objects.table)+1)<<3)
	}
	// By object and level; what is without an object comes last.
	rank := func(place uint32) uint32 { return (place + places - 8) % places }
	ends := make([]int32, places+1)
	for _, b := range bs {
		for i := range b.locs.slots {
			if s := &b.locs.slots[i]; s.id != 0 {
				ends[rank(s.place)+1]++
			}
		}
	}
	for i := range places {
		ends[i+1] += ends[i]
	}
	entries := make([]entry, ends[places])
	next := slices.Clone(ends)
	remap := newRemap(bs, func(b *builder) int { return b.locs.n })
	for i, b := range bs {
		for k := range b.locs.slots {
			s := &b.locs.slots[k]
			if s.id == 0 {
				continue
			}
			at := &next[rank(s.place)]
			entries[*at] = entry{s.addr, int32(i), s.id - 1}
			*at++
		}
		b.locs.slots = nil
	}
	each := func(f func(place uint32, rows []entry)) {
		var at atomic.Int64
		var wg crew.Group
		for range workers {
			wg.Go(func() {
				for {
					r := uint32(at.Add(1) - 1)
					if r >= places {
						return
					}
					if ends[r] < ends[r+1] {
						f((r+8)%places, entries[ends[r]:ends[r+1]])
					}
				}
			})
		}
		wg.Wait()
	}
	// next becomes how many different ones come before a place.
	each(func(place uint32, rows []entry) {
		slices.SortFunc(rows, func(x, y entry) int { return cmp.Compare(x.addr, y.addr) })
		n := int32(1)
		for i := range rows[1:] {
			if rows[i].addr != rows[i+1].addr {
				n++
			}
		}
		next[rank(place)] = n
	})
	n := int32(0)
	for i := range places {
		if ends[i] == ends[i+1] {
			next[i] = 0
		}
		next[i], n = n, n+next[i]
	}
	p.Locations = make([]profile.Location, n)
	each(func(place uint32, rows []entry) {
		id := next[rank(place)] - 1
		var first uint64 // place of the sample whose ip it has
		for i, r := range rows {
			f := bs[r.builder].locs.firstOf(r.id)
			if i == 0 || rows[i-1].addr != r.addr {
				id++
				k := locKey{r.addr, place}
				p.Locations[id] = profile.Location{
					Object: k.object(), Level: levels[k.mode()], IP: f.ip, Addr: k.addr, Func: profile.None,
				}
				first = f.pos
			} else if f.pos < first {
				p.Locations[id].IP, first = f.ip, f.pos
			}
			remap[r.builder][r.id] = id
		}
	})
	for _, b := range bs {
		b.locs = locTable{}
	}
	return remap
}

// mergeSamples fills p.Samples, in the order of location, stack, thread, event,
// CPU and extra.
func mergeSamples(p *profile.Profile, bs []*builder, threads, locs, extras [][]int32, stacks []int32) {
	// Groups in their order get numbers in that order, the same for all.
	var groups []group
	for i, b := range bs {
		for j := range b.groupOf {
			c := &b.groupOf[j]
			c.thread = threads[i][c.thread]
			if c.extra != none {
				c.extra = extras[i][c.extra]
			}
			groups = append(groups, *c)
		}
	}
	slices.SortFunc(groups, compareGroup)
	groups = slices.Compact(groups)
	rows := make([][]sampleSlot, len(bs))
	var wg crew.Group
	for i, b := range bs {
		wg.Go(func() {
			renamed := make([]int32, len(b.groupOf))
			for j, c := range b.groupOf {
				k, _ := slices.BinarySearchFunc(groups, c, compareGroup)
				renamed[j] = int32(k)
			}
			rows[i] = b.samples.rows()
			b.samples = sampleTable{}
			for j := range rows[i] {
				k := &rows[i][j]
				if locs != nil {
					k.loc = locs[i][k.loc]
				}
				k.group = renamed[k.group]
				if k.stack != none {
					k.stack = stacks[k.stack]
				}
			}
			rows[i] = sortSamples(rows[i])
		})
	}
	wg.Wait()
	less := func(x, y sampleSlot) bool { return compareSample(&x.sampleKey, &y.sampleKey) < 0 }
	n := 0
	var last sampleKey
	merge(rows, less, func(_ int, r sampleSlot) {
		if n == 0 || last != r.sampleKey {
			last = r.sampleKey
			n++
		}
	})
	p.Samples = make([]profile.Sample, 0, n)
	merge(rows, less, func(_ int, r sampleSlot) {
		n := len(p.Samples)
		if n == 0 || last != r.sampleKey {
			last = r.sampleKey
			c := groups[r.group]
			p.Samples = append(p.Samples, profile.Sample{
				Event: c.event, Thread: c.thread, CPU: c.cpu, Location: r.loc, Stack: r.stack, Extra: c.extra,
			})
			n++
		}
		s := &p.Samples[n-1]
		s.Count += uint64(r.count)
		s.Period += r.period
	})
}

// sortSamples returns rows in order; they are spent.
func sortSamples(rows []sampleSlot) []sampleSlot {
	compare := func(x, y sampleSlot) int { return compareSample(&x.sampleKey, &y.sampleKey) }
	locs := 0
	for i := range rows {
		locs = max(locs, int(rows[i].loc)+1)
	}
	if len(rows) < 1<<10 || locs/4 > len(rows) {
		slices.SortFunc(rows, compare)
		return rows
	}
	// Most rows are told apart by their location, of which there are not many
	// more than rows: they go straight to their place.
	next := make([]int32, locs+2) // by location, which may be none
	for i := range rows {
		next[rows[i].loc+2]++
	}
	for i := 1; i < len(next); i++ {
		next[i] += next[i-1]
	}
	out := make([]sampleSlot, len(rows))
	for i := range rows {
		at := &next[rows[i].loc+1]
		out[*at] = rows[i]
		*at++
	}
	for i := 0; i < len(out); {
		j := i + 1
		for j < len(out) && out[j].loc == out[i].loc {
			j++
		}
		if j > i+1 {
			slices.SortFunc(out[i:j], compare)
		}
		i = j
	}
	return out
}

func compareGroup(a, b group) int {
	return cmp.Or(cmp.Compare(a.thread, b.thread), cmp.Compare(a.event, b.event), cmp.Compare(a.cpu, b.cpu), cmp.Compare(a.extra, b.extra))
}

func compareSample(a, b *sampleKey) int {
	switch {
	case a.loc != b.loc:
		return cmp.Compare(a.loc, b.loc)
	case a.stack != b.stack:
		return cmp.Compare(a.stack, b.stack)
	}
	return cmp.Compare(a.group, b.group)
}

// newRemap makes a map from each builder's rows to those of the profile.
func newRemap(bs []*builder, n func(*builder) int) [][]int32 {
	m := make([][]int32, len(bs))
	for i, b := range bs {
		m[i] = make([]int32, n(b))
	}
	return m
}

// merge calls f for all rows of sorted lists, in order; i is the list.
func merge[R any](lists [][]R, less func(x, y R) bool, f func(i int, r R)) {
	lists = slices.Clone(lists)
	for {
		best := -1
		for i := range lists {
			if len(lists[i]) > 0 && (best < 0 || less(lists[i][0], lists[best][0])) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		f(best, lists[best][0])
		lists[best] = lists[best][1:]
	}
}

// inOrder calls f for row j of builder i, all rows in the order of pos, which
// is sorted for each builder. Rows of one pos belong to one builder.
func inOrder(rows [][]int32, pos func(i, j int) uint64, f func(i, j int)) {
	at := make([]int, len(rows))
	for {
		// Builder best comes next, up to where another one does.
		best, limit := -1, ^uint64(0)
		var first uint64
		for i := range rows {
			if at[i] == len(rows[i]) {
				continue
			}
			switch p := pos(i, at[i]); {
			case best < 0:
				best, first = i, p
			case p < first:
				limit = min(limit, first)
				best, first = i, p
			default:
				limit = min(limit, p)
			}
		}
		if best < 0 {
			return
		}
		for at[best] < len(rows[best]) && pos(best, at[best]) <= limit {
			f(best, at[best])
			at[best]++
		}
	}
}
