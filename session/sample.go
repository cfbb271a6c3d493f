package session

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"sync/atomic"

	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/unwind"
)

// A worker decodes samples of some of the batches. It reads the loader's
// tables, which do not change any more, and writes its own.
type worker struct {
	l    *loader
	b    *builder // nil with HitsOnly
	d    *perfdata.Decoder
	s    *perfdata.Sample // the last that d decoded
	cur  current
	hits []Hit // by object

	logged bool // all samples so far

	lastIP    [modes]recent
	lastFrame [modes]recent

	lastID    uint64 // the id looked up last, and its event
	lastEvent int
	chainBuf  []byte

	historyBuf   []perfdata.Branch // see branchChain
	historyChain []byte

	walker     *unwind.Walker
	walkerArch unwind.Arch
	unwoundBuf []byte
	log        unwoundLog
	short      shortener

	threads []threadEntry // cache by tid
	ranges  []rangeEntry  // cache by state and page
	lo, hi  uint64        // times between which kernelState holds
	kernel  int32

	events        []profile.Event // counts only
	unknownID     uint64
	badChains     uint64
	bad           uint64
	kernelSamples uint64
	guestSamples  uint64
	userStacks    uint64
	branchStacks  uint64
	kernelMissing bool
	sampled       map[int32]bool // pids; true if with a dump of the stack
	reads         map[uint64]uint64
}

// A threadEntry is what a tid is between two times.
type threadEntry struct {
	pid, tid int32
	lo, hi   uint64 // exclusive; lo >= hi is an empty entry
	maps     int32  // state of the user space
	handle   int32  // builder's thread
	group    int32  // builder's group of the last sample, plus 1
	extra    int32  // its extra, plus 1
	stack    bool   // seen with a dump of the stack
}

// A rangeEntry is what find answers for the addresses from lo to hi.
type rangeEntry struct {
	lo, hi  uint64
	state   int32 // plus 1; 0 is an empty entry
	mapping int32
	marked  Hit // what of hits is set already
}

const (
	threadCacheBits = 10
	rangeCacheBits  = 12
)

// modes are the CPU modes of a frame: where its address is looked up.
type mode uint8

const (
	modeKernel mode = iota
	modeUser
	modeGuestKernel
	modeGuestUser
	modeHypervisor // and whatever else
	modes
)

var levels = [...]byte{
	profile.LevelKernel, profile.LevelUser, profile.LevelGuest, profile.LevelGuestUser, profile.LevelHypervisor,
}

func cpuMode(misc uint16) mode {
	switch misc & perfdata.MiscCPUModeMask {
	case perfdata.CPUModeKernel:
		return modeKernel
	case perfdata.CPUModeUser:
		return modeUser
	case perfdata.CPUModeGuestKernel:
		return modeGuestKernel
	case perfdata.CPUModeGuestUser:
		return modeGuestUser
	}
	return modeHypervisor
}

// contextMode returns the mode that a context marker switches to.
func contextMode(ip uint64) (m mode, ok bool) {
	switch ip {
	case perfdata.ContextKernel:
		return modeKernel, true
	case perfdata.ContextUser:
		return modeUser, true
	case perfdata.ContextHV:
		return modeHypervisor, true
	case perfdata.ContextGuest, perfdata.ContextGuestKernel:
		return modeGuestKernel, true
	case perfdata.ContextGuestUser:
		return modeGuestUser, true
	}
	return modeHypervisor, false
}

// readsCounters reports whether samples carry counters.
func (l *loader) readsCounters() bool {
	for _, e := range l.f.Events() {
		if e.Attr.SampleType&perfdata.SampleRead != 0 {
			return true
		}
	}
	return false
}

// samples is the second pass.
func (l *loader) samples(ctx context.Context) error {
	n := l.o.Workers
	if l.readsCounters() {
		n = 1 // the period of a sample is its difference to the one before
	}
	if l.o.Unwind != nil && l.unwinder == nil {
		l.unwinder = newUnwinder(l)
	}
	h := newHasher()
	if l.index != nil {
		h = l.index.h
	}
	recalls := l.recalls()
	for range n {
		w := newWorker(l, h)
		if w.logged = recalls; recalls {
			w.b.log.room = int(l.o.MaxRecall) / n
		}
		l.workers = append(l.workers, w)
	}
	var skip []bool
	if r := l.recall; r != nil {
		err := parallel(ctx, n, func(ctx context.Context, i int) error {
			return l.workers[i].b.again(ctx, &r.workers[i], l.index.same)
		})
		if err != nil || r.whole {
			return err
		}
		skip = r.chunks
	}
	if l.plain != nil {
		if recalls {
			l.plain.logged = make([]bool, l.plain.chunks())
		}
		if l.shortens() {
			l.plain.short = make([]shortChunk, l.plain.chunks())
			for _, w := range l.workers {
				w.short.room = cmp.Or(l.o.maxShort, shortMax) / n
			}
		}
		var next atomic.Int64
		err := parallel(ctx, n, func(ctx context.Context, i int) error { return l.plain.samples(ctx, l.workers[i], &next, skip) })
		if errors.Is(err, errOdd) {
			err = errors.New("the file became shorter while it was read")
		}
		return err
	}
	br := l.f.Batches(ctx)
	defer br.Close()
	return parallel(ctx, n, func(_ context.Context, i int) error { return l.workers[i].run(br) })
}

func newWorker(l *loader, h hasher) *worker {
	w := &worker{
		l:       l,
		d:       perfdata.NewDecoder(l.f),
		s:       new(perfdata.Sample),
		hits:    make([]Hit, len(l.objects.table)),
		threads: make([]threadEntry, 1<<threadCacheBits),
		ranges:  make([]rangeEntry, 1<<rangeCacheBits),
		events:  make([]profile.Event, len(l.f.Events())),
		sampled: map[int32]bool{},
		reads:   map[uint64]uint64{},
	}
	for i := range modes {
		w.lastIP[i] = recent{none, 1, 0}
		w.lastFrame[i] = recent{none, 1, 0}
	}
	if !l.o.HitsOnly {
		w.b = newBuilder(l, h)
	}
	return w
}

func (w *worker) run(br *perfdata.BatchReader) error {
	for {
		b, err := br.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		w.batch(b)
		b.Release()
	}
}

// batch takes the samples of a batch, and reports whether they are in the log.
func (w *worker) batch(b *perfdata.Batch) (logged bool) {
	if w.l.o.Progress != nil {
		w.l.o.Progress(int64(len(b.Data)))
	}
	big, fast := w.l.f.Header().Big, w.l.shapes.ok
	if w.b != nil {
		w.b.log.begin(w.b.locs.n, len(b.Data))
	}
	data := b.Data
	for i := 0; i+8 <= len(data); {
		typ, misc, size := perfdata.RecordHeader(data[i:], big)
		if size < 8 || size > len(data)-i {
			break
		}
		if typ == typeSample {
			rec := data[i : i+size : i+size]
			if fast && w.decode(rec, misc, &w.cur) || w.decodeAny(rec, b.At(i), &w.cur) {
				w.sample(b.Pos + uint64(i))
			}
		}
		if w.short.room > 0 {
			w.shorten(data[i:i+size], b.Pos+uint64(i), typ)
		}
		i += size
	}
	if w.b != nil {
		w.b.flush(w)
		w.b.last.raw = nil // it is in the batch
		logged = w.b.log.end()
		w.logged = w.logged && logged
	}
	return logged
}

// sample counts the current sample.
func (w *worker) sample(pos uint64) {
	if w.cur.sampleRead {
		w.eachRead(func() { w.count(pos) })
		return
	}
	w.count(pos)
}

// eachRead calls f for each counter of a sample that carries some: each is a
// sample of its event, and its period is what was counted since the sample
// before. Those that counted nothing are none.
func (w *worker) eachRead(f func()) {
	s, c := w.s, &w.cur
	event, id := s.Event, s.ID
	hasID := w.l.f.Events()[event].Attr.ReadFormat&perfdata.ReadID != 0
	for i := range s.Read {
		v := s.Read[i]
		c.event = event
		if !hasID {
			v.ID = id
		} else {
			e, ok := w.l.eventIDs[v.ID]
			if !ok {
				w.unknownID++
				continue
			}
			c.event = e
		}
		c.period = v.Value - w.reads[v.ID]
		w.reads[v.ID] = v.Value
		if c.period != 0 {
			s.Event, s.ID, s.Period = c.event, v.ID, c.period
			f()
		}
	}
}

func (w *worker) count(pos uint64) {
	c := &w.cur
	if !w.l.o.Filter.empty() && !w.l.o.Filter.takes(c) {
		return
	}
	e := &w.events[c.event]
	if w.l.o.Branches {
		e.Samples += uint64(len(c.branches))
		e.Period += uint64(len(c.branches))
	} else {
		e.Samples++
		e.Period += c.period
	}

	t := w.l.when(c.time, pos)
	th := w.thread(t)
	if len(c.branches) > 0 {
		w.branchStacks++
	}
	if c.userStack {
		w.userStacks++
		if !th.stack {
			th.stack = true
			w.sampled[th.pid] = true
		}
	}
	if t.time <= w.lo || t.time >= w.hi {
		w.kernel, w.lo, w.hi = w.l.kernels[hostMachine].at(t)
	}
	switch c.mode {
	case modeKernel:
		w.kernelSamples++
	case modeGuestKernel, modeGuestUser:
		w.guestSamples++
	}
	f := frames{w: w, t: t, user: th.maps}
	if c.userStack && w.l.unwinder != nil {
		c.chain = w.chainOf(&f)
	}
	if w.l.o.History != NoHistory {
		c.chain = w.branchChain(&f)
	}
	if w.b == nil {
		w.mark(&f)
		return
	}
	w.b.add(w, &f, pos, th)
}

// thread returns what the sample's thread is at t.
func (w *worker) thread(t moment) *threadEntry {
	pid, tid := w.cur.pid, w.cur.tid
	e := &w.threads[uint32(tid)*0x9e3779b1>>(32-threadCacheBits)]
	if e.tid == tid && e.pid == pid && e.lo < t.time && t.time < e.hi {
		return e
	}
	*e = threadEntry{pid: pid, tid: tid, hi: ^uint64(0)}
	comm := int32(defaultComm)
	if th := w.l.threads[tid]; th != nil {
		comm, e.lo, e.hi = th.at(t)
	}
	if p := w.l.procs[pid]; p != nil {
		var lo, hi uint64
		e.maps, lo, hi = p.at(t)
		e.lo, e.hi = max(e.lo, lo), min(e.hi, hi)
	}
	if w.b != nil {
		e.handle = w.b.thread(pid, tid, comm, t.pos)
	}
	if _, ok := w.sampled[pid]; !ok {
		w.sampled[pid] = false
	}
	return e
}

// frames resolves the frames of one sample.
type frames struct {
	w    *worker
	t    moment
	user int32 // state of the thread's user space
}

// state returns the state in which the addresses of mode m are looked up.
func (f *frames) state(m mode) int32 {
	w := f.w
	switch m {
	case modeKernel:
		return w.kernel
	case modeUser:
		return f.user
	case modeHypervisor:
		return 0
	}
	if !w.l.o.Guests {
		return 0
	}
	spaces := w.l.kernels
	if m == modeGuestUser {
		spaces = w.l.guests
	}
	sp := spaces[w.cur.pid]
	if sp == nil {
		sp = spaces[0] // the guest whose pid nobody knew
	}
	if sp == nil {
		return 0
	}
	s, _, _ := sp.at(f.t)
	return s
}

// find returns the range around ip in state st.
func (w *worker) find(st int32, ip uint64) *rangeEntry {
	e := &w.ranges[(ip>>12^uint64(st)*0x9e3779b97f4a7c15>>40)*0x9e3779b97f4a7c15>>(64-rangeCacheBits)]
	if e.state != st+1 || ip < e.lo || ip > e.hi {
		m, lo, hi := w.l.atlas.find(st, ip)
		*e = rangeEntry{lo: lo, hi: hi, state: st + 1, mapping: m}
	}
	return e
}

// object returns the object of a range, or none.
func (w *worker) object(e *rangeEntry) int32 {
	if e.mapping == none {
		return none
	}
	return w.l.atlas.maps[e.mapping].object
}

// hit marks the object of a range.
func (w *worker) hit(e *rangeEntry, h Hit) {
	if e.marked&h == h {
		return
	}
	e.marked |= h
	if o := w.object(e); o != none {
		w.hits[o] |= h
	}
}

// branchMode says where the address of a branch is: the record does not. perf
// asks the maps of the process first (thread__find_cpumode_addr_location).
func (f *frames) branchMode(ip uint64) mode {
	if f.w.object(f.w.find(f.user, ip)) != none {
		return modeUser
	}
	if f.w.object(f.w.find(f.w.kernel, ip)) != none || int64(ip) < 0 {
		return modeKernel
	}
	return modeUser
}

// A recent range is the last one that was found in a state, and is marked: it
// is that of most of the next frames as well. lo > hi if there is none.
type recent struct {
	state  int32
	lo, hi uint64
}

// mark marks the objects of all frames.
func (w *worker) mark(f *frames) {
	c := &w.cur
	st := f.state(c.mode)
	if r := &w.lastIP[c.mode]; r.state != st || c.ip < r.lo || c.ip > r.hi {
		e := w.find(st, c.ip)
		w.hit(e, HitIP)
		if c.mode == modeKernel && e.mapping == none {
			w.kernelMissing = true
		}
		*r = recent{st, e.lo, e.hi}
	}
	w.markChain(f, c.chain)
	for i := range c.branches {
		for _, ip := range [...]uint64{c.branches[i].From, c.branches[i].To} {
			if ip != 0 {
				w.hit(w.find(f.state(f.branchMode(ip)), ip), HitBranch)
			}
		}
	}
}

func (w *worker) markChain(f *frames, chain []byte) {
	r := &w.lastFrame[modeUser] // until a marker says otherwise
	r.use(f.user)
	for i := 0; i+8 <= len(chain); i += 8 {
		ip := binary.LittleEndian.Uint64(chain[i:])
		if r.lo <= ip && ip <= r.hi {
			continue
		}
		if ip >= perfdata.MaxContext {
			if ip == perfdata.ContextUserDefer {
				w.markChain(f, w.deferredChain(chain[i+8:]))
				return
			}
			m, ok := contextMode(ip)
			if !ok {
				w.badChains++
				return
			}
			r = &w.lastFrame[m]
			r.use(f.state(m))
			continue
		}
		e := w.find(r.state, ip)
		w.hit(e, HitChain)
		// Markers must not be taken for addresses of the range.
		r.lo, r.hi = e.lo, min(e.hi, perfdata.MaxContext-1)
	}
}

// use forgets the range unless it is one of state st.
func (r *recent) use(st int32) {
	if r.state != st {
		*r = recent{st, 1, 0}
	}
}

// deferredChain returns the part of a call chain that was recorded later, on
// the way back to user space. rest begins with its cookie.
func (w *worker) deferredChain(rest []byte) []byte {
	if len(rest) < 8 {
		return nil
	}
	r, ok := w.l.deferred.byCookie[deferKey{w.cur.tid, binary.LittleEndian.Uint64(rest)}]
	if !ok {
		return nil
	}
	return w.l.deferred.ips[r[0]:r[1]]
}
