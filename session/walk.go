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
	or := l.f.Ordered(perfdata.OrderOptions{MaxBytes: o.MaxBytes})
	defer or.Close()
	var started atomic.Int32
	out := ordered.NewWriter(w, n, 4*n, func() func([]byte, []perfdata.Raw) ([]byte, error) {
		k := &walker{w: newWorker(l, l.index.h), each: each}
		k.e.Worker = int(started.Add(1) - 1)
		return func(dst []byte, raws []perfdata.Raw) ([]byte, error) {
			for i := range raws {
				dst = k.record(dst, &raws[i])
			}
			return dst, nil
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
}

// reset empties the event for another record.
func (k *walker) reset(rec perfdata.Record) {
	e := &k.e
	e.Record, e.Comm = rec, ""
	e.Location, e.Data = profile.None, profile.None
	e.Frames, e.IPs, e.Branches = nil, nil, e.Branches[:0]
}

// record calls each for a record.
func (k *walker) record(dst []byte, r *perfdata.Raw) []byte {
	w := k.w
	w.d.Stream = r.Stream
	if r.Bad != nil {
		k.reset(r.Bad)
		return k.each(dst, &k.e)
	}
	if typ, _, _ := perfdata.RecordHeader(r.Data, w.l.f.Header().Big); typ != typeSample {
		rec, err := w.d.Decode(r.Data, r.Offset)
		if err != nil {
			rec = bad(w.l.f, r, err)
		}
		return k.side(dst, rec, r.Pos)
	}
	if !w.decodeAny(r.Data, r.Offset, &w.cur) {
		return dst
	}
	if !w.cur.sampleRead {
		return k.sample(dst, r.Pos)
	}
	w.eachRead(func() { dst = k.sample(dst, r.Pos) })
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

// sample calls each for the current sample.
func (k *walker) sample(dst []byte, pos uint64) []byte {
	w, s := k.w, &k.w.s
	c := &w.cur
	if !w.l.o.Filter.empty() && !w.l.o.Filter.takes(c) {
		return dst
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
	k.reset(s)
	e := &k.e
	e.Comm = b.comm(th.handle)
	if s.Addr != 0 {
		mode := f.dataMode(s.Addr)
		e.Data = b.location(w, f.state(mode), mode, s.Addr, pos)
	}
	q.reset()
	q.push(c.ip, where(f.state(c.mode), c.mode)) // with the others: see resolve
	w.pushChain(q, &f, c.chain)
	n := int32(len(q.ips))
	q.samples = append(q.samples, queued{pos: pos, from: 1, to: n, branches: n})
	b.resolve(w)
	e.Location, e.Frames, e.IPs = q.locs[0], q.locs[1:], q.ips[1:]
	for i := range s.Branches {
		e.Branches = append(e.Branches, [2]int32{
			b.branchEnd(w, &f, s.Branches[i].From), b.branchEnd(w, &f, s.Branches[i].To),
		})
	}
	return k.each(dst, e)
}

// comm is the name of a thread of the builder.
func (b *builder) comm(handle int32) string {
	k := &b.threadPos[handle].threadKey
	return b.l.commName(k.comm, k.unnamed-1)
}
