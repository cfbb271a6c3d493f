package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/perfark/perfark/internal/ordered"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
)

// WalkOptions are for Result.Walk. The zero value is useful.
type WalkOptions struct {
	Workers  int    // goroutines that call each; 0 means GOMAXPROCS
	Sides    bool   // records that are not samples come, too
	Filter   Filter // of samples
	MaxBytes int64  // as perfdata.OrderOptions.MaxBytes
}

// An Event is a record of a recording, and what is known at its time. It is
// valid during the call that has it.
type Event struct {
	// Record is a *perfdata.Sample or another record, or a *perfdata.Bad.
	Record perfdata.Record
	Worker int // which of the workers calls, from 0: for memory of its own

	// Comm is the name of the record's thread at that time: of Sample.TID, or
	// of Meta.TID; of a COMM, FORK, EXIT, MMAP and NAMESPACES that of the
	// thread that it is about. ":TID" if it had none yet.
	Comm string

	// A sample that carries counters comes once for each that counted
	// something since the sample before, with Sample.Event, ID and Period those
	// of the counter, as in perf.
	//
	// Of samples: indices into Profile.Locations. None where the profile does
	// not have it.
	Location int32      // of Sample.IP
	Data     int32      // of Sample.Addr; None if that is 0
	Frames   []int32    // of the call chain, innermost first
	IPs      []uint64   // as sampled, parallel to Frames
	Branches [][2]int32 // from and to, parallel to Sample.Branches
}

// Walk reads the recording once more, in the order of perf script: that of
// time, and of equal times that of the file, as far as the recording is in
// order (see perfdata.OrderedReader). For each record it calls each, which
// appends what is to be written to dst, and returns that. The calls come from
// several goroutines and in any order; what they return is written to w in
// the order of the records.
//
// Load must have had KeepFrames or KeepStacks, or the events have no frames.
// The recording must still be open. Memory is bounded by WalkOptions.MaxBytes
// and what each appends for some thousands of records. The error is the first
// of the recording's, w's and ctx's.
func (r *Result) Walk(ctx context.Context, o WalkOptions, w io.Writer, each func(dst []byte, e *Event) []byte) error {
	if r.l == nil {
		return errors.New("session: the profile was loaded without samples")
	}
	l := r.l.again(KeepComm)
	l.o.Filter = o.Filter
	l.recall = nil
	l.index = newLocIndex(r.Profile, nil)
	l.index.fill()
	l.shapes = shapes{}
	n := o.Workers
	if n <= 0 {
		n = runtime.GOMAXPROCS(0)
	}
	if l.readsCounters() {
		n = 1
	}
	if l.o.Unwind != nil && l.unwinder == nil {
		l.unwinder = newUnwinder(l)
	}
	order := perfdata.OrderOptions{MaxBytes: o.MaxBytes}
	if l.plain != nil && l.plain.short != nil {
		order.Batches = newShortReader(l.plain)
	}
	or := l.f.Ordered(order)
	defer or.Close()
	var started atomic.Int32
	out := ordered.NewWriter(w, n, 4*n, func() func([]byte, []perfdata.Raw) ([]byte, error) {
		k := &walker{w: newWorker(l, l.index.h), each: each}
		k.e.Worker = int(started.Add(1) - 1)
		return func(dst []byte, raws []perfdata.Raw) ([]byte, error) {
			for i := range raws {
				dst = k.record(dst, &raws[i])
			}
			return k.flush(dst), nil
		}
	})
	err := l.feed(ctx, or, o.Sides, out)
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	return err
}

// walkBatch is how many records go to a worker at a time.
const walkBatch = 1024

// feed puts the records of or into out.
func (l *loader) feed(ctx context.Context, or *perfdata.OrderedReader, sides bool, out *ordered.Writer[[]perfdata.Raw]) error {
	big := l.f.Header().Big
	var batch []perfdata.Raw
	for {
		if batch == nil {
			batch = make([]perfdata.Raw, 0, walkBatch)
		}
		have := len(batch)
		var err error
		batch, err = or.NextRaw(batch)
		if !sides {
			batch = append(batch[:have], slices.DeleteFunc(batch[have:], func(r perfdata.Raw) bool {
				if r.Bad != nil {
					return true
				}
				typ, _, _ := perfdata.RecordHeader(r.Data, big)
				return typ != typeSample
			})...)
		}
		end := err == io.EOF
		if err != nil && !end {
			return fmt.Errorf("%s: %w", l.f.Name(), err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(batch) == cap(batch) || end && len(batch) > 0 {
			if err := out.Put(batch); err != nil {
				return err
			}
			batch = nil
		}
		if end {
			return nil
		}
	}
}

// A walker makes events.
type walker struct {
	w    *worker
	each func(dst []byte, e *Event) []byte
	e    Event

	// Samples wait, so that their addresses are looked up together.
	waits   [walkWait]walkSample
	waiting int
}

// walkWait is how many samples wait at most.
const walkWait = 64

// A walkSample waits for the locations of its addresses, which are in the
// builder's queue.
type walkSample struct {
	s        perfdata.Sample
	comm     string
	leaf     int32 // places in the queue: of the sample's address, behind which its call chain is,
	branches int32 // of the first end of a branch
	data     int32 // and of the data address; none if there is none
}

// reset empties the event for another record.
func (k *walker) reset(rec perfdata.Record) {
	e := &k.e
	e.Record, e.Comm = rec, ""
	e.Location, e.Data = profile.None, profile.None
	e.Frames, e.IPs, e.Branches = nil, nil, e.Branches[:0]
}

// record calls each for a record, and for those before that wait, unless it is
// a sample that can wait itself.
func (k *walker) record(dst []byte, r *perfdata.Raw) []byte {
	w := k.w
	w.d.Stream = r.Stream
	if r.Bad != nil {
		dst = k.flush(dst)
		k.reset(r.Bad)
		return k.each(dst, &k.e)
	}
	if typ, _, _ := perfdata.RecordHeader(r.Data, w.l.f.Header().Big); typ != typeSample {
		dst = k.flush(dst)
		rec, err := w.d.Decode(r.Data, r.Offset)
		if err != nil {
			rec = bad(w.l.f, r, err)
		}
		return k.side(dst, rec, r.Pos)
	}
	if k.waiting == len(k.waits) {
		dst = k.flush(dst)
	}
	w.s = &k.waits[k.waiting].s
	if !w.decodeAny(r.Data, r.Offset, &w.cur) {
		return dst
	}
	if !w.cur.sampleRead {
		k.wait(r.Pos)
		return dst
	}
	first, last := &k.waits[0], &k.waits[k.waiting]
	dst = k.flush(dst)
	first.s, last.s = last.s, first.s
	w.s = &first.s
	w.eachRead(func() {
		k.wait(r.Pos)
		dst = k.flush(dst)
	})
	return dst
}

// bad is what a record is that cannot be decoded.
func bad(f *perfdata.File, r *perfdata.Raw, err error) *perfdata.Bad {
	typ, misc, size := perfdata.RecordHeader(r.Data, f.Header().Big)
	return &perfdata.Bad{Meta: perfdata.Meta{Type: typ, Misc: misc, Size: size, Offset: r.Offset}, Bytes: r.Data, Err: err}
}

func (k *walker) side(dst []byte, rec perfdata.Record, pos uint64) []byte {
	k.reset(rec)
	m := rec.Head()
	tid := m.TID
	switch r := rec.(type) {
	case *perfdata.Comm:
		tid = r.CommTID
	case *perfdata.Fork:
		tid = r.ForkTID
		if r.Type == perfdata.RecordFork {
			tid = r.ParentTID // whose name it has: its own may be known only later
		}
	case *perfdata.Mmap:
		tid = r.MapTID
	case *perfdata.Namespaces:
		tid = r.TaskTID
	}
	if tid != -1 {
		k.e.Comm = k.w.l.commAt(tid, k.w.l.when(m.Time, pos))
	}
	return k.each(dst, &k.e)
}

// commAt is the name of a thread.
func (l *loader) commAt(tid int32, t moment) string {
	comm := int32(defaultComm)
	if th := l.threads[tid]; th != nil {
		comm, _, _ = th.at(t)
	}
	return l.commName(comm, tid)
}

// wait queues the current sample.
func (k *walker) wait(pos uint64) {
	w, s := k.w, k.w.s
	c := &w.cur
	if !w.l.o.Filter.empty() && !w.l.o.Filter.takes(c) {
		return
	}
	t := w.l.when(c.time, pos)
	th := w.thread(t)
	if t.time <= w.lo || t.time >= w.hi {
		w.kernel, w.lo, w.hi = w.l.kernels[hostMachine].at(t)
	}
	f := frames{w: w, t: t, user: th.maps}
	if c.userStack && w.l.unwinder != nil {
		c.chain = w.chainOf(&f)
	}
	b, q := w.b, &w.b.queue
	x := &k.waits[k.waiting]
	k.waiting++
	x.comm = b.comm(th.handle)
	x.leaf = int32(len(q.ips))
	q.push(c.ip, where(f.state(c.mode), c.mode))
	w.pushChain(q, &f, c.chain)
	x.branches = int32(len(q.ips))
	for i := range s.Branches {
		for _, ip := range [...]uint64{s.Branches[i].From, s.Branches[i].To} {
			m := f.branchMode(ip)
			q.push(ip, where(f.state(m), m))
		}
	}
	x.data = none
	if s.Addr != 0 {
		m := f.dataMode(s.Addr)
		x.data = int32(len(q.ips))
		q.push(s.Addr, where(f.state(m), m))
	}
	q.samples = append(q.samples, queued{pos: pos, branches: int32(len(q.ips))})
}

// flush calls each for the samples that wait.
func (k *walker) flush(dst []byte) []byte {
	b, q := k.w.b, &k.w.b.queue
	b.resolve(k.w)
	for i := range k.waits[:k.waiting] {
		x, e := &k.waits[i], &k.e
		k.reset(&x.s)
		e.Comm = x.comm
		e.Location = q.locs[x.leaf]
		e.Frames, e.IPs = q.locs[x.leaf+1:x.branches], q.ips[x.leaf+1:x.branches]
		for j := range x.s.Branches {
			at := x.branches + 2*int32(j)
			e.Branches = append(e.Branches, [2]int32{q.locs[at], q.locs[at+1]})
		}
		if x.data != none {
			e.Data = q.locs[x.data]
		}
		dst = k.each(dst, e)
	}
	k.waiting = 0
	q.reset()
	return dst
}

// comm is the name of a thread of the builder.
func (b *builder) comm(handle int32) string {
	k := &b.threadPos[handle].threadKey
	return b.l.commName(k.comm, k.unnamed-1)
}
