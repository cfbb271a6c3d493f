package session

import (
	"encoding/binary"

	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
)

// A builder makes the tables of a profile from the samples of one worker.
// merge makes one profile of those of all.
type builder struct {
	l    *loader
	keep Keep

	threads   map[threadKey]int32
	threadPos []threadFirst
	groups    map[group]int32
	groupOf   []group
	locs      locTable
	chains    chainTable
	samples   sampleTable

	cache   []locEntry
	waiting []waiting
	touched uint64 // keeps the compiler from leaving out loads

	frames  []int32        // locations of the chain at hand, innermost first
	ips     []uint64       // addresses of frames, parallel to it
	stamps  []uint64       // by object: serial of the last sample with a frame there
	serial  uint64         // of the sample
	beyond  []uint64       // by object: samples that touch it only in their branch stack
	branchy map[int32]bool // locations in branch stacks

	extras   []profile.Extra // see extraOf
	extraIDs map[profile.Extra]int32

	chained []Hit // by location, with KeepFrames alone
	strange bool  // with an index: an address was not in it
}

type (
	threadKey struct {
		pid, tid int32
		comm     int32
		unnamed  int32 // the tid of a thread without a name, plus 1, if its name is kept
	}
	threadFirst struct {
		threadKey
		pos uint64
	}

	// A group is what tells samples of one place apart.
	group struct{ thread, event, cpu, extra int32 }

	// A locEntry of the cache says what an ip is in a state and mode.
	locEntry struct {
		ip    uint64
		where uint32 // state and mode, plus 1
		loc   int32
	}

	// A waiting sample has its location looked up together with others: the
	// loads from memory of many overlap, those of one have to be waited for.
	waiting struct {
		ip, pos, period uint64
		hash            uint64
		state           int32
		mode            mode
		loc, group      int32
		key             locKey
	}
)

const (
	locCacheBits = 15
	waitingMax   = 256
)

func newBuilder(l *loader, h hasher) *builder {
	return &builder{
		l:       l,
		keep:    l.o.Keep,
		threads: map[threadKey]int32{},
		groups:  map[group]int32{},
		locs:    locTable{h: h},
		chains:  chainTable{h: h},
		samples: sampleTable{h: h},
		cache:   make([]locEntry, 1<<locCacheBits),
		waiting: make([]waiting, 0, waitingMax),
		stamps:  make([]uint64, len(l.objects.table)),
		beyond:  make([]uint64, len(l.objects.table)),
		branchy: map[int32]bool{},

		extraIDs: map[profile.Extra]int32{},
	}
}

func (b *builder) thread(pid, tid, comm int32, pos uint64) int32 {
	k := threadKey{pid: -1, tid: -1, comm: none}
	if b.keep&KeepPID != 0 {
		k.pid = pid
	}
	if b.keep&KeepTID != 0 {
		k.tid = tid
	}
	if b.keep&KeepComm != 0 {
		k.comm = comm
		if comm == defaultComm {
			k.unnamed = tid + 1
		}
	}
	id, ok := b.threads[k]
	if !ok {
		id = int32(len(b.threadPos))
		b.threads[k] = id
		b.threadPos = append(b.threadPos, threadFirst{k, pos})
	}
	return id
}

// group returns the number of the group of the current sample, of thread
// th.
func (b *builder) group(c *current, th *threadEntry, extra int32) int32 {
	k := group{th.handle, int32(c.event), -1, extra}
	if b.keep&KeepCPU != 0 {
		k.cpu = c.cpu
	}
	// The same thread's samples mostly are of the same event and CPU.
	if th.group != 0 && b.groupOf[th.group-1] == k {
		return th.group - 1
	}
	id, ok := b.groups[k]
	if !ok {
		id = int32(len(b.groupOf))
		b.groups[k] = id
		b.groupOf = append(b.groupOf, k)
	}
	th.group = id + 1
	return id
}

// add adds the current sample.
func (b *builder) add(w *worker, f *frames, pos uint64, th *threadEntry) {
	c := &w.cur
	if b.l.o.Branches {
		b.addBranches(w, f, th)
		return
	}
	extra := int32(none)
	if b.keep&keepExtra != 0 {
		extra = b.extraOf(w, f, th, nil)
	}
	group := b.group(c, th, extra)
	if b.keep&(KeepStacks|KeepFrames) != 0 {
		b.addStack(w, f, pos, group)
		return
	}
	b.waiting = append(b.waiting, waiting{
		ip: c.ip, pos: pos, period: c.period, state: f.state(c.mode), mode: c.mode, group: group,
	})
	if len(b.waiting) == waitingMax {
		b.flush(w)
	}
}

// flush looks up the locations of the waiting samples, and adds these.
func (b *builder) flush(w *worker) {
	var missing [waitingMax]int16
	n := 0
	touched := b.touched
	mask := uint64(len(b.locs.slots) - 1)
	for i := range b.waiting {
		x := &b.waiting[i]
		e := b.entry(x.ip, x.state, x.mode)
		if e.ip == x.ip && e.where == where(x.state, x.mode) {
			x.loc = e.loc
			continue
		}
		x.key = w.locKey(x.state, x.mode, x.ip)
		x.hash = b.locs.hash(x.key)
		if mask+1 != 0 {
			touched += b.locs.slots[x.hash&mask].addr
		}
		missing[n] = int16(i)
		n++
	}
	for _, i := range missing[:n] {
		x := &b.waiting[i]
		x.loc = b.locs.id(x.key, x.hash, locFirst{x.pos, x.ip})
		*b.entry(x.ip, x.state, x.mode) = locEntry{x.ip, where(x.state, x.mode), x.loc}
	}
	b.samples.reserve(len(b.waiting))
	mask = uint64(len(b.samples.slots) - 1)
	for i := range b.waiting {
		x := &b.waiting[i]
		x.hash = b.samples.hash(sampleKey{x.loc, none, x.group})
		touched += uint64(b.samples.slots[x.hash&mask].count)
	}
	for i := range b.waiting {
		x := &b.waiting[i]
		b.samples.add(sampleKey{x.loc, none, x.group}, x.hash, x.period)
	}
	b.touched = touched
	b.waiting = b.waiting[:0]
}

func where(state int32, m mode) uint32 { return uint32(state)<<3 | uint32(m) + 1 }

func (b *builder) entry(ip uint64, state int32, m mode) *locEntry {
	return &b.cache[b.locs.h.mix(ip, uint64(where(state, m)))>>(64-locCacheBits)]
}

// locKey returns what ip is in a state.
func (w *worker) locKey(state int32, m mode, ip uint64) locKey {
	object, addr := int32(none), ip
	if r := w.find(state, ip); r.mapping != none {
		mp := &w.l.atlas.maps[r.mapping]
		if mp.object != none {
			object, addr = mp.object, mp.addr(ip)
		}
	}
	if object == none && m == modeKernel {
		w.kernelMissing = true
	}
	return locKey{addr, placeOf(object, m)}
}

// location returns the location of ip.
func (b *builder) location(w *worker, state int32, m mode, ip, pos uint64) int32 {
	e := b.entry(ip, state, m)
	if e.ip == ip && e.where == where(state, m) {
		return e.loc
	}
	k := w.locKey(state, m, ip)
	id := int32(none)
	if x := b.l.index; x != nil {
		if id = x.find(k); id == none {
			b.strange = true
		}
	} else {
		id = b.locs.id(k, b.locs.hash(k), locFirst{pos, ip})
	}
	*e = locEntry{ip, where(state, m), id}
	return id
}

// addStack adds the current sample with its stack.
func (b *builder) addStack(w *worker, f *frames, pos uint64, group int32) {
	c := &w.cur
	k := sampleKey{stack: none, group: group}
	k.loc = b.location(w, f.state(c.mode), c.mode, c.ip, pos)
	b.frames, b.ips = b.frames[:0], b.ips[:0]
	b.chain(w, f, c.chain, pos)
	if b.keep&KeepStacks != 0 {
		k.stack = b.chains.id(b.frames)
	}
	if b.l.index == nil && (len(c.branches) > 0 || b.keep&KeepStacks == 0) {
		b.branches(w, f, k.loc, pos)
	}
	b.samples.reserve(1)
	b.samples.add(k, b.samples.hash(k), c.period)
}

// chain appends the locations of a call chain to frames.
func (b *builder) chain(w *worker, f *frames, chain []byte, pos uint64) {
	m := modeUser // until a marker says otherwise
	st := f.user
	for ; len(chain) >= 8; chain = chain[8:] {
		ip := binary.LittleEndian.Uint64(chain)
		if ip < perfdata.MaxContext {
			b.frames = append(b.frames, b.location(w, st, m, ip, pos))
			b.ips = append(b.ips, ip)
			continue
		}
		if ip == perfdata.ContextUserDefer {
			b.chain(w, f, w.deferredChain(chain[8:]), pos)
			return
		}
		next, ok := contextMode(ip)
		if !ok {
			w.badChains++
			return
		}
		if next == modeUser && len(w.cur.branches) > 0 && w.l.callStack[w.cur.event] {
			b.lbr(w, f, chain[8:], pos)
			return
		}
		m, st = next, f.state(next)
	}
}

// lbr appends the user frames that the processor recorded as a stack of calls
// (PERF_SAMPLE_BRANCH_CALL_STACK): where the newest call went, and where each
// came from.
func (b *builder) lbr(w *worker, f *frames, rest []byte, pos uint64) {
	add := func(ip uint64) {
		if ip != 0 && ip < perfdata.MaxContext {
			b.frames = append(b.frames, b.location(w, f.user, modeUser, ip, pos))
			b.ips = append(b.ips, ip)
		}
	}
	if len(rest) >= 8 {
		add(binary.LittleEndian.Uint64(rest))
	}
	branches := w.cur.branches
	add(branches[0].To)
	for i := range branches {
		add(branches[i].From)
	}
}

// branches notes the objects of a branch stack: those that no frame of the
// sample touches count as touched by it all the same.
func (b *builder) branches(w *worker, f *frames, leaf int32, pos uint64) {
	b.serial++
	stamp := func(loc int32) bool {
		o := b.locs.keys[loc].object()
		if o == none || b.stamps[o] == b.serial {
			return false
		}
		b.stamps[o] = b.serial
		return true
	}
	stamp(leaf)
	for _, loc := range b.frames {
		if stamp(loc) && b.keep&KeepStacks == 0 {
			b.beyond[b.locs.keys[loc].object()]++
		}
	}
	if b.keep&KeepStacks == 0 {
		b.chained = append(b.chained, make([]Hit, len(b.locs.keys)-len(b.chained))...)
		for _, loc := range b.frames {
			b.chained[loc] = HitChain
		}
	}
	for _, br := range w.cur.branches {
		for _, ip := range [...]uint64{br.From, br.To} {
			if ip == 0 {
				continue
			}
			m := f.branchMode(ip)
			loc := b.location(w, f.state(m), m, ip, pos)
			b.branchy[loc] = true
			if stamp(loc) {
				b.beyond[b.locs.keys[loc].object()]++
			}
		}
	}
}
