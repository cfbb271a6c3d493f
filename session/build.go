package session

import (
	"github.com/perfark/perfark/perfdata"
)

// A builder makes the tables of a profile from the samples of one worker.
// Beside each new row it notes where in the recording it came up, from which
// merge makes one order for any number of workers.
type builder struct {
	l    *loader
	h    hasher
	keep Keep

	threads table[threadKey]
	locs    table[locKey]
	stacks  table[stackKey]
	samples table[sampleKey]

	threadPos []uint64
	locPos    []uint64
	locIP     []uint64 // smallest of those seen at the location
	stackPos  []uint64
	samplePos []uint64
	counts    []counts

	cache  []locEntry
	frames []int32  // of the chain at hand, innermost first
	stamps []uint64 // by object: number of the last sample with a frame there
	serial uint64   // of the sample
	extra  []uint64 // by object: samples that touch it only in their branch stack
	hits   []Hit    // by location
}

type (
	threadKey struct {
		pid, tid int32
		comm     int32
		unnamed  int32 // the tid of a thread without a name, plus 1, if its name is kept
	}
	locKey struct {
		addr   uint64
		object int32
		level  uint32
	}
	stackKey  struct{ loc, caller int32 }
	sampleKey struct{ event, thread, cpu, loc, stack int32 }

	counts   struct{ count, period uint64 }
	locEntry struct {
		ip    uint64
		where uint32 // state and mode, plus 1
		loc   int32
	}
)

const locCacheBits = 15

func newBuilder(l *loader, h hasher) *builder {
	return &builder{
		l:      l,
		h:      h,
		keep:   l.o.Keep,
		cache:  make([]locEntry, 1<<locCacheBits),
		stamps: make([]uint64, len(l.objects.table)),
		extra:  make([]uint64, len(l.objects.table)),
	}
}

func word(a, b int32) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) }

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
	id, fresh := b.threads.id(k, b.h.mix(word(k.pid, k.tid), word(k.comm, k.unnamed)))
	if fresh {
		b.threadPos = append(b.threadPos, pos)
	}
	return id
}

// location returns the location of ip.
func (b *builder) location(w *worker, st int32, m mode, ip, pos uint64) int32 {
	where := uint32(st)<<3 | uint32(m) + 1
	e := &b.cache[b.h.mix(ip, uint64(where))>>(64-locCacheBits)]
	if e.ip == ip && e.where == where {
		return e.loc
	}
	k := locKey{addr: ip, object: none, level: uint32(levels[m])}
	if r := w.find(st, ip); r.mapping != none {
		mp := &b.l.atlas.maps[r.mapping]
		if mp.object != none {
			k.object = mp.object
			k.addr = mp.addr(ip)
		}
	}
	id, fresh := b.locs.id(k, b.h.mix(k.addr, word(k.object, int32(k.level))))
	if fresh {
		b.locPos = append(b.locPos, pos)
		b.locIP = append(b.locIP, ip)
		b.hits = append(b.hits, 0)
	} else if ip < b.locIP[id] {
		b.locIP[id] = ip
	}
	*e = locEntry{ip, where, id}
	return id
}

// build adds a sample to the builder's tables.
func (w *worker) build(f *frames, m mode, pos uint64, event int, thread int32, period uint64) {
	b, s := w.b, &w.s
	k := sampleKey{event: int32(event), thread: thread, cpu: -1, stack: none}
	k.loc = b.location(w, f.state(m), m, s.IP, pos)
	b.hits[k.loc] |= HitIP
	if m == modeKernel && b.locs.keys[k.loc].object == none {
		w.kernelMissing = true
	}
	if b.keep&KeepCPU != 0 {
		k.cpu = s.CPU
	}
	if b.keep&KeepStacks != 0 {
		b.frames = b.frames[:0]
		w.chain(f, s.Callchain, pos)
		for _, loc := range b.frames {
			b.hits[loc] |= HitChain
		}
		for i := len(b.frames) - 1; i >= 0; i-- {
			k.stack = b.stack(b.frames[i], k.stack, pos)
		}
		if len(s.Branches) > 0 {
			w.branches(f, k.loc, pos)
		}
	}
	id, fresh := b.samples.id(k, b.h.mix(word(k.event, k.thread)^uint64(uint32(k.cpu))<<20, word(k.loc, k.stack)))
	if fresh {
		b.samplePos = append(b.samplePos, pos)
		b.counts = append(b.counts, counts{})
	}
	c := &b.counts[id]
	c.count++
	c.period += period
}

func (b *builder) stack(loc, caller int32, pos uint64) int32 {
	id, fresh := b.stacks.id(stackKey{loc, caller}, b.h.mix(uint64(uint32(loc)), uint64(uint32(caller))))
	if fresh {
		b.stackPos = append(b.stackPos, pos)
	}
	return id
}

// chain appends the locations of a call chain to frames.
func (w *worker) chain(f *frames, chain []uint64, pos uint64) {
	b := w.b
	m := modeUser // until a marker says otherwise
	st := f.user
	for i, ip := range chain {
		if ip < perfdata.MaxContext {
			b.frames = append(b.frames, b.location(w, st, m, ip, pos))
			continue
		}
		if ip == perfdata.ContextUserDefer {
			w.chain(f, w.deferredChain(chain[i+1:]), pos)
			return
		}
		next, ok := contextMode(ip)
		if !ok {
			w.badChains++
			return
		}
		if next == modeUser && len(w.s.Branches) > 0 && w.l.callStack[w.s.Event] {
			w.lbr(f, chain[i+1:], pos)
			return
		}
		m, st = next, f.state(next)
	}
}

// lbr appends the user frames that the processor recorded as a stack of calls
// (PERF_SAMPLE_BRANCH_CALL_STACK): where the newest call went, and where each
// came from.
func (w *worker) lbr(f *frames, rest []uint64, pos uint64) {
	b, s := w.b, &w.s
	add := func(ip uint64) {
		if ip != 0 && ip < perfdata.MaxContext {
			b.frames = append(b.frames, b.location(w, f.user, modeUser, ip, pos))
		}
	}
	if len(rest) > 0 {
		add(rest[0])
	}
	add(s.Branches[0].To)
	for i := range s.Branches {
		add(s.Branches[i].From)
	}
}

// branches notes the objects of a branch stack: those that no frame of the
// sample touches count as touched by it all the same.
func (w *worker) branches(f *frames, leaf int32, pos uint64) {
	b, s := w.b, &w.s
	b.serial++
	stamp := func(loc int32) bool {
		o := b.locs.keys[loc].object
		if o == none || b.stamps[o] == b.serial {
			return false
		}
		b.stamps[o] = b.serial
		return true
	}
	stamp(leaf)
	for _, loc := range b.frames {
		stamp(loc)
	}
	for i := range s.Branches {
		for _, ip := range [...]uint64{s.Branches[i].From, s.Branches[i].To} {
			if ip == 0 {
				continue
			}
			m := f.branchMode(ip)
			loc := b.location(w, f.state(m), m, ip, pos)
			b.hits[loc] |= HitBranch
			if stamp(loc) {
				b.extra[b.locs.keys[loc].object]++
			}
		}
	}
}
