package session

import (
	"encoding/binary"

	"github.com/perfark/perfark/perfdata"
)

// frameBatch is how many frames wait at most, but for those of the last
// sample.
const frameBatch = 4096

// leafBatch is how many samples wait of which only the address is kept.
const leafBatch = 1024

// A frameQueue holds the frames of samples whose locations are looked up
// together: the loads from memory of many overlap.
type frameQueue struct {
	ips    []uint64
	wheres []uint32 // state and mode: see where
	locs   []int32
	objs   []int32
	entry  []uint32 // places in the cache
	miss   []missing

	samples []queued
	hashes  []uint64 // of the samples' chains
	order   []int32
}

// A queued sample has a leaf, call chain frames, innermost first, and ends of
// branches. The leaf is the frame in front of the others, or the first one of
// these if that is the same.
type queued struct {
	pos, period uint64
	group       int32
	leaf        int32 // place of its frame
	chain, ends int32 // places where the frames of the call chain begin and end
	branches    int32 // where those of branches end

	// From place shared on, frames of the call chain are those that stand back
	// places before: the sample before has the same callers.
	shared, back int32

	stack int32 // number of the chain
}

// A missing frame is not in the cache.
type missing struct {
	key  locKey
	hash uint64
	pos  uint64
	i    int32
}

// push adds a frame.
func (q *frameQueue) push(ip uint64, where uint32) {
	q.ips = append(q.ips, ip)
	q.wheres = append(q.wheres, where)
}

// key is that of a queued sample.
func (q *frameQueue) key(i int) sampleKey {
	s := &q.samples[i]
	return sampleKey{q.locs[s.leaf], s.stack, s.group}
}

func (q *frameQueue) reset() {
	q.ips, q.wheres, q.samples = q.ips[:0], q.wheres[:0], q.samples[:0]
}

// queueSample queues the current sample, with its stack if that is kept.
func (b *builder) queueSample(w *worker, f *frames, pos uint64, group int32) {
	c := &w.cur
	q := &b.queue
	s := queued{pos: pos, period: c.period, group: group, leaf: int32(len(q.ips)), stack: none}
	leaf := where(f.state(c.mode), c.mode)
	q.push(c.ip, leaf)
	s.chain = int32(len(q.ips))
	if b.keep&(KeepStacks|KeepFrames) == 0 {
		s.ends, s.branches, s.shared = s.chain, s.chain, s.chain
		q.samples = append(q.samples, s)
		if len(q.ips) >= leafBatch {
			b.flush(w)
		}
		return
	}
	w.pushChain(q, f, c.chain)
	s.ends = int32(len(q.ips))
	if s.ends > s.chain && q.ips[s.chain] == c.ip && q.wheres[s.chain] == leaf {
		s.leaf = s.chain
	}
	s.shared = s.ends
	if n := len(q.samples); n > 0 {
		p := &q.samples[n-1]
		s.back = s.ends - p.ends
		for i, j := s.ends-1, p.ends-1; i >= s.chain && j >= p.chain && q.ips[i] == q.ips[j] && q.wheres[i] == q.wheres[j]; i, j = i-1, j-1 {
			s.shared = i
		}
	}
	if len(c.branches) > 0 && b.l.index == nil {
		for i := range c.branches {
			for _, ip := range [...]uint64{c.branches[i].From, c.branches[i].To} {
				if ip != 0 {
					m := f.branchMode(ip)
					q.push(ip, where(f.state(m), m))
				}
			}
		}
	}
	s.branches = int32(len(q.ips))
	q.samples = append(q.samples, s)
	if len(q.ips) >= frameBatch {
		b.flush(w)
	}
}

// pushChain adds the frames of a call chain, innermost first.
func (w *worker) pushChain(q *frameQueue, f *frames, chain []byte) {
	m := modeUser // until a marker says otherwise
	at := where(f.user, m)
	for ; len(chain) >= 8; chain = chain[8:] {
		ip := binary.LittleEndian.Uint64(chain)
		if ip < perfdata.MaxContext {
			q.ips = append(q.ips, ip)
			q.wheres = append(q.wheres, at)
			continue
		}
		if ip == perfdata.ContextUserDefer {
			w.pushChain(q, f, w.deferredChain(chain[8:]))
			return
		}
		next, ok := contextMode(ip)
		if !ok {
			w.badChains++
			return
		}
		if next == modeUser && len(w.cur.branches) > 0 && w.l.callStack[w.cur.event] {
			w.pushLBR(q, f)
			return
		}
		m = next
		at = where(f.state(m), m)
	}
}

// pushLBR adds the user frames that the processor recorded as a stack of calls
// (PERF_SAMPLE_BRANCH_CALL_STACK): where the newest call went, which is in the
// function of the sample's address, and where each came from.
func (w *worker) pushLBR(q *frameQueue, f *frames) {
	at := where(f.user, modeUser)
	push := func(ip uint64) {
		if ip != 0 && ip < perfdata.MaxContext {
			q.push(ip, at)
		}
	}
	branches := w.cur.branches
	push(branches[0].To)
	for i := range branches {
		push(branches[i].From)
	}
}

// resolve looks up the locations of the queued frames.
func (b *builder) resolve(w *worker) {
	q := &b.queue
	if cap(q.locs) < len(q.ips) {
		q.locs = make([]int32, cap(q.ips))
		q.objs = make([]int32, cap(q.ips))
		q.entry = make([]uint32, cap(q.ips))
	}
	q.locs, q.objs, q.entry = q.locs[:len(q.ips)], q.objs[:len(q.ips)], q.entry[:len(q.ips)]
	q.miss = q.miss[:0]
	from, objects := int32(0), b.l.index == nil
	touched := b.touched
	for k := range q.samples {
		s := &q.samples[k]
		touched += b.touchEntries(from, s.shared)
		touched += b.touchEntries(s.ends, s.branches)
		from = s.branches
	}
	from = 0
	for k := range q.samples {
		s := &q.samples[k]
		for i := from; i < s.branches; i++ {
			if i == s.shared {
				if i = s.ends; i == s.branches {
					break
				}
			}
			ip, at := q.ips[i], q.wheres[i]
			h := q.entry[i]
			if e := &b.cache[h]; e.ip == ip && e.where == at {
				q.locs[i] = e.loc
				if objects {
					q.objs[i] = b.objects[h]
				}
				continue
			}
			key := w.locKeyAt(at, ip)
			q.miss = append(q.miss, missing{key, b.locs.hash(key), s.pos, i})
		}
		from = s.branches
	}
	slots := b.locs.slots
	if x := b.l.index; x != nil {
		slots = x.slots
	}
	if mask := uint64(len(slots) - 1); len(slots) > 0 {
		// Nothing but loads, so that the processor has many under way.
		for k := range q.miss {
			touched += slots[q.miss[k].hash&mask].addr
		}
	}
	b.touched = touched
	for k := range q.miss {
		m := &q.miss[k]
		ip, at := q.ips[m.i], q.wheres[m.i]
		h := q.entry[m.i]
		e := &b.cache[h]
		if e.ip != ip || e.where != at {
			*e = locEntry{ip, at, b.locate(m.key, m.hash, m.pos, ip)}
			b.objects[h] = m.key.object()
		}
		q.locs[m.i], q.objs[m.i] = e.loc, m.key.object()
	}
	for k := range q.samples {
		if s := &q.samples[k]; s.shared < s.ends {
			copy(q.locs[s.shared:s.ends], q.locs[s.shared-s.back:])
			if objects {
				copy(q.objs[s.shared:s.ends], q.objs[s.shared-s.back:])
			}
		}
	}
}

// touchEntries finds the places of frames in the cache. It does nothing with
// what is there but load it, so that the processor has many loads under way.
func (b *builder) touchEntries(from, to int32) uint64 {
	q := &b.queue
	n := uint64(0)
	for i := from; i < to; i++ {
		h := b.entryAt(q.ips[i], q.wheres[i])
		q.entry[i] = uint32(h)
		n += b.cache[h].ip
	}
	return n
}

// locate returns the location of a key, which was looked up at ip.
func (b *builder) locate(k locKey, hash, pos, ip uint64) int32 {
	x := b.l.index
	if x == nil {
		return b.locs.id(k, hash, locFirst{pos, ip})
	}
	id := x.find(k, hash)
	if id == none {
		b.strange = true
	}
	return id
}

// flush adds the queued samples.
func (b *builder) flush(w *worker) {
	q := &b.queue
	b.resolve(w)
	if b.l.index == nil && b.keep&(KeepStacks|KeepFrames) != 0 {
		for i := range q.samples {
			b.countObjects(w, &q.samples[i])
		}
	}
	if b.l.callers {
		b.countCallers()
		q.reset()
		return
	}
	if chains := b.l.chains; chains != nil {
		b.turn++
		chains.number(q, b.turn)
	}
	b.samples.reserve(len(q.samples))
	q.hashes = q.hashes[:0]
	for i := range q.samples {
		q.hashes = append(q.hashes, b.samples.hash(q.key(i)))
	}
	mask := uint64(len(b.samples.slots) - 1)
	touched := b.touched
	for _, h := range q.hashes {
		touched += uint64(b.samples.slots[h&mask].count)
	}
	b.touched = touched
	for i := range q.samples {
		b.samples.add(q.key(i), q.hashes[i], 1, q.samples[i].period)
	}
	q.reset()
}

// countObjects counts the sample for each object that it touches.
func (b *builder) countObjects(w *worker, s *queued) {
	q := &b.queue
	set, last := int32(0), int32(none)
	b.serial++
	touch := func(i int32, h Hit) {
		o := q.objs[i]
		if o == none {
			return
		}
		w.hits[o] |= h
		if o != last {
			set = b.sets.with(set, o, b.serial)
			last = o
		}
	}
	touch(s.leaf, HitIP)
	for i := s.chain; i < s.ends; i++ {
		touch(i, HitChain)
	}
	for i := s.ends; i < s.branches; i++ {
		touch(i, HitBranch)
	}
	b.sets.counts[set]++
}
