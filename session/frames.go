package session

import (
	"encoding/binary"
	"slices"

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
	chains  []int32  // locations of call chains, outermost first
	hashes  []uint64 // of the samples' chains
	order   []int32
}

// A queued sample has a leaf, a call chain and ends of branches. The chain has
// the outermost frames of the sample before, so many as keep says, and frames
// of its own, innermost first. The leaf is the innermost of these if that is
// the same, or else the frame behind them.
type queued struct {
	pos, period uint64
	group       int32
	leaf        int32 // place of its frame
	from, to    int32 // places where the frames of its own begin and end
	keep        int32
	branches    int32 // place where those of branches end

	loc        int32 // of the leaf
	chain, end int32 // places in frameQueue.chains
	stack      int32 // number of the chain
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
func (s *queued) key() sampleKey { return sampleKey{s.loc, s.stack, s.group} }

func (q *frameQueue) reset() {
	q.ips, q.wheres, q.samples, q.chains = q.ips[:0], q.wheres[:0], q.samples[:0], q.chains[:0]
}

// A lastChain is the call chain of the sample before: most samples have its
// outermost frames. Frames are compared as they were recorded.
type lastChain struct {
	raw          []byte // nil: nothing is shared with it
	user, kernel int32  // states in which it was looked up
	wheres       []uint32
	locs         []int32 // outermost first
	buf          []byte
}

// queueSample queues the current sample, with its stack if that is kept.
func (b *builder) queueSample(w *worker, f *frames, pos uint64, group int32) {
	c := &w.cur
	q := &b.queue
	s := queued{pos: pos, period: c.period, group: group, stack: none}
	s.from = int32(len(q.ips))
	leaf := where(f.state(c.mode), c.mode)
	if b.keep&(KeepStacks|KeepFrames) == 0 {
		s.leaf, s.to, s.branches = s.from, s.from, s.from+1
		q.push(c.ip, leaf)
		q.samples = append(q.samples, s)
		if len(q.ips) >= leafBatch {
			b.flush(w)
		}
		return
	}
	s.keep = b.queueChain(w, f)
	s.to = int32(len(q.ips))
	s.leaf = s.from
	if s.to == s.from || q.ips[s.from] != c.ip || q.wheres[s.from] != leaf {
		s.leaf = s.to
		q.push(c.ip, leaf)
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

// queueChain adds the frames of the current sample's call chain but for the
// outermost ones that it has in common with the last, and returns how many
// these are.
func (b *builder) queueChain(w *worker, f *frames) (keep int32) {
	c, q, last := &w.cur, &b.queue, &b.last
	from := len(q.ips)
	// What is shared must mean the same: the same maps, and nothing that takes
	// the place of frames.
	own := c.chain
	plain := len(c.branches) == 0 && !w.l.o.Guests
	marker := false
	if plain && last.raw != nil && last.user == f.user && last.kernel == w.kernel {
		own, keep, marker = unshared(c.chain, last.raw)
	}
	bad := w.badChains
	at, whole := w.pushChain(q, f, own)
	if keep > 0 && (!whole || !marker && at != last.wheres[keep-1]) {
		q.ips, q.wheres = q.ips[:from], q.wheres[:from]
		keep, w.badChains = 0, bad
		_, whole = w.pushChain(q, f, c.chain)
	}
	last.user, last.kernel = f.user, w.kernel
	last.wheres = last.wheres[:keep]
	for i := len(q.wheres) - 1; i >= from; i-- {
		last.wheres = append(last.wheres, q.wheres[i])
	}
	last.raw = nil
	if plain && whole {
		last.raw = c.chain
		if c.any { // it stands in memory that the next sample needs
			last.buf = append(last.buf[:0], c.chain...)
			last.raw = last.buf
		}
	}
	return keep
}

// unshared returns what a call chain has of its own before the entries that it
// shares with last, how many frames these are, and whether a marker is the
// first of them.
func unshared(chain, last []byte) (own []byte, frames int32, marker bool) {
	n, m := len(chain), len(last)
	for n >= 8 && m >= 8 {
		ip := binary.LittleEndian.Uint64(chain[n-8:])
		if ip != binary.LittleEndian.Uint64(last[m-8:]) {
			break
		}
		n, m = n-8, m-8
		marker = ip >= perfdata.MaxContext
		if !marker {
			frames++
		}
	}
	return chain[:n], frames, marker
}

// pushChain adds the frames of a call chain, innermost first. It returns where
// the next one would be looked up, and whether these were the frames as
// recorded, and all of them.
func (w *worker) pushChain(q *frameQueue, f *frames, chain []byte) (at uint32, whole bool) {
	m := modeUser // until a marker says otherwise
	at = where(f.user, m)
	for ; len(chain) >= 8; chain = chain[8:] {
		ip := binary.LittleEndian.Uint64(chain)
		if ip < perfdata.MaxContext {
			q.ips = append(q.ips, ip)
			q.wheres = append(q.wheres, at)
			continue
		}
		if ip == perfdata.ContextUserDefer {
			w.pushChain(q, f, w.deferredChain(chain[8:]))
			return at, false
		}
		next, ok := contextMode(ip)
		if !ok {
			w.badChains++
			return at, false
		}
		if next == modeUser && len(w.cur.branches) > 0 && w.l.callStack[w.cur.event] {
			w.pushLBR(q, f)
			return at, false
		}
		m = next
		at = where(f.state(m), m)
	}
	return at, true
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
	// Loops that do nothing but load have the processor do many at a time.
	touched := b.touched
	for i, ip := range q.ips {
		h := b.entryAt(ip, q.wheres[i])
		q.entry[i] = uint32(h)
		touched += b.cache[h].ip
	}
	i := int32(0)
	for k := range q.samples {
		for ; i < q.samples[k].branches; i++ {
			ip, at := q.ips[i], q.wheres[i]
			h := q.entry[i]
			if e := &b.cache[h]; e.ip == ip && e.where == at {
				q.locs[i], q.objs[i] = e.loc, e.object
				continue
			}
			key := w.locKeyAt(at, ip)
			q.miss = append(q.miss, missing{key, b.locs.hash(key), q.samples[k].pos, i})
		}
	}
	slots := b.locs.slots
	if x := b.l.index; x != nil {
		slots = x.slots
	}
	if mask := uint64(len(slots) - 1); len(slots) > 0 {
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
			*e = locEntry{ip, at, b.locate(m.key, m.hash, m.pos, ip), m.key.object()}
		}
		q.locs[m.i], q.objs[m.i] = e.loc, m.key.object()
	}
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
	frames := b.keep&(KeepStacks|KeepFrames) != 0
	for i := range q.samples {
		s := &q.samples[i]
		s.loc = q.locs[s.leaf]
		switch {
		case !frames:
		case b.l.index == nil:
			b.countObjects(w, s)
		default:
			slices.Reverse(q.locs[s.from:s.to])
			b.lay(s, q.locs[s.from:s.to])
		}
	}
	b.log.add(q, b.locs.n)
	b.tally()
}

// lay lays out the call chain of a sample: what it shares with the sample
// before, and its own frames, outermost first.
func (b *builder) lay(s *queued, own []int32) {
	q, last := &b.queue, &b.last
	last.locs = append(last.locs[:s.keep], own...)
	s.chain = int32(len(q.chains))
	q.chains = append(q.chains, last.locs...)
	s.end = int32(len(q.chains))
}

// tally counts the queued samples, whose locations are known.
func (b *builder) tally() {
	q := &b.queue
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
		q.hashes = append(q.hashes, b.samples.hash(q.samples[i].key()))
	}
	mask := uint64(len(b.samples.slots) - 1)
	touched := b.touched
	for _, h := range q.hashes {
		touched += uint64(b.samples.slots[h&mask].count)
	}
	b.touched = touched
	for i := range q.samples {
		b.samples.add(q.samples[i].key(), q.hashes[i], 1, q.samples[i].period)
	}
	q.reset()
}

// countObjects counts the sample for each object that it touches.
func (b *builder) countObjects(w *worker, s *queued) {
	q, way := &b.queue, &b.onWay
	way.keep(s.keep)
	b.serial++
	for i := s.to - 1; i >= s.from; i-- {
		o := q.objs[i]
		if o != none {
			w.hits[o] |= HitChain
		}
		way.objects = append(way.objects, o)
	}
	set := b.sets.all(way, b.serial)
	if o := q.objs[s.leaf]; o != none {
		w.hits[o] |= HitIP
		set, _ = b.sets.with(set, o, b.serial)
	}
	for _, o := range q.objs[max(s.leaf+1, s.to):s.branches] {
		if o != none {
			w.hits[o] |= HitBranch
			set, _ = b.sets.with(set, o, b.serial)
		}
	}
	b.sets.counts[set]++
}
