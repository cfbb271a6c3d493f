package session

import (
	"slices"

	"github.com/perfark/perfark/profile"
)

// merge makes one profile of the workers' tables. Rows are in the order in
// which they come up in the recording, but locations are sorted by object and
// address.
func (l *loader) merge(p *profile.Profile) []Hit {
	n := len(l.workers)
	bs := make([]*builder, n)
	for i, w := range l.workers {
		bs[i] = w.b
	}
	pos := func(of func(b *builder) []uint64) [][]uint64 {
		out := make([][]uint64, n)
		for i, b := range bs {
			out[i] = of(b)
		}
		return out
	}

	// Threads by what they are: a tid of which nothing is known has a comm
	// made of its number, which another may have for a name.
	threadMap := newRemap(bs, func(b *builder) int { return len(b.threadPos) })
	byName := map[profile.Thread]int32{}
	inOrder(pos(func(b *builder) []uint64 { return b.threadPos }), func(i, j int) {
		k := bs[i].threads.keys[j]
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
		id, ok := byName[th]
		if !ok {
			id = int32(len(p.Threads))
			byName[th] = id
			p.Threads = append(p.Threads, th)
		}
		threadMap[i][j] = id
	})

	locMap := newRemap(bs, func(b *builder) int { return len(b.locPos) })
	hits := l.mergeLocations(p, bs, locMap)

	stackMap := newRemap(bs, func(b *builder) int { return len(b.stackPos) })
	stacks := table[stackKey]{}
	h := l.workers[0].h
	inOrder(pos(func(b *builder) []uint64 { return b.stackPos }), func(i, j int) {
		k := bs[i].stacks.keys[j]
		k.loc = locMap[i][k.loc]
		if k.caller != none {
			k.caller = stackMap[i][k.caller]
		}
		stackMap[i][j], _ = stacks.id(k, h.mix(uint64(uint32(k.loc)), uint64(uint32(k.caller))))
	})
	p.Stacks = make([]profile.Stack, len(stacks.keys))
	for i, k := range stacks.keys {
		p.Stacks[i] = profile.Stack{Location: k.loc, Caller: k.caller}
	}

	samples := table[sampleKey]{}
	inOrder(pos(func(b *builder) []uint64 { return b.samplePos }), func(i, j int) {
		k := bs[i].samples.keys[j]
		k.thread = threadMap[i][k.thread]
		k.loc = locMap[i][k.loc]
		if k.stack != none {
			k.stack = stackMap[i][k.stack]
		}
		id, fresh := samples.id(k, h.mix(word(k.event, k.thread)^uint64(uint32(k.cpu))<<20, word(k.loc, k.stack)))
		if fresh {
			p.Samples = append(p.Samples, profile.Sample{
				Event: k.event, Thread: k.thread, CPU: k.cpu, Location: k.loc, Stack: k.stack,
			})
		}
		c := bs[i].counts[j]
		p.Samples[id].Count += c.count
		p.Samples[id].Period += c.period
	})
	return hits
}

// mergeLocations fills p.Locations and locMap, and returns how each location
// was hit.
func (l *loader) mergeLocations(p *profile.Profile, bs []*builder, locMap [][]int32) []Hit {
	all := table[locKey]{}
	h := l.workers[0].h
	var ips []uint64
	var hits []Hit
	for i, b := range bs {
		for j, k := range b.locs.keys {
			id, fresh := all.id(k, h.mix(k.addr, word(k.object, int32(k.level))))
			if fresh {
				ips = append(ips, b.locIP[j])
				hits = append(hits, 0)
			}
			ips[id] = min(ips[id], b.locIP[j])
			hits[id] |= b.hits[j]
			locMap[i][j] = id
		}
	}
	order := make([]int32, len(all.keys))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(x, y int32) int {
		a, b := &all.keys[x], &all.keys[y]
		if a.object != b.object {
			return cmpUint(uint64(uint32(a.object)), uint64(uint32(b.object))) // none is last
		}
		if a.addr != b.addr {
			return cmpUint(a.addr, b.addr)
		}
		return cmpUint(uint64(a.level), uint64(b.level))
	})
	rank := make([]int32, len(order))
	sorted := make([]Hit, len(order))
	p.Locations = make([]profile.Location, len(order))
	for i, x := range order {
		k := &all.keys[x]
		rank[x] = int32(i)
		sorted[i] = hits[x]
		p.Locations[i] = profile.Location{
			Object: k.object, Level: byte(k.level), IP: ips[x], Addr: k.addr, Func: profile.None,
		}
	}
	for _, m := range locMap {
		for j := range m {
			m[j] = rank[m[j]]
		}
	}
	return sorted
}

// newRemap makes a map from each builder's rows to those of the profile.
func newRemap(bs []*builder, n func(*builder) int) [][]int32 {
	m := make([][]int32, len(bs))
	for i, b := range bs {
		m[i] = make([]int32, n(b))
	}
	return m
}

// inOrder calls f for row j of worker i, all rows in the order of pos, which
// is sorted for each worker. Rows of one pos belong to one worker.
func inOrder(pos [][]uint64, f func(i, j int)) {
	at := make([]int, len(pos))
	for {
		// Worker best comes next, up to where another one does.
		best, limit := -1, ^uint64(0)
		for i := range pos {
			if at[i] == len(pos[i]) {
				continue
			}
			switch p := pos[i][at[i]]; {
			case best < 0:
				best = i
			case p < pos[best][at[best]]:
				limit = min(limit, pos[best][at[best]])
				best = i
			default:
				limit = min(limit, p)
			}
		}
		if best < 0 {
			return
		}
		for at[best] < len(pos[best]) && pos[best][at[best]] <= limit {
			f(best, at[best])
			at[best]++
		}
	}
}
