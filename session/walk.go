package session

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

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
	// of Meta.TID; of a COMM, FORK and EXIT that of the thread that it is
	// about. ":TID" if it had none yet.
	Comm string

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
	l.index = newLocIndex(r.Profile, nil)
	l.shapes = shapes{}
	or := l.f.Ordered(perfdata.OrderOptions{MaxBytes: o.MaxBytes})
	defer or.Close()
	wk := newWalker(newWorker(l, l.index.h), each)
	var buf []byte
	for n := 0; ; n++ {
		if n%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		rec, err := or.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", l.f.Name(), err)
		}
		s, ok := rec.(*perfdata.Sample)
		if !ok && !o.Sides {
			continue
		}
		if ok {
			buf = wk.sample(buf[:0], s, uint64(s.Offset))
		} else {
			buf = wk.side(buf[:0], rec, uint64(rec.Head().Offset))
		}
		if len(buf) > 0 {
			if _, err := w.Write(buf); err != nil {
				return err
			}
		}
	}
}

// A walker makes events.
type walker struct {
	w    *worker
	each func(dst []byte, e *Event) []byte
	e    Event
}

func newWalker(w *worker, each func(dst []byte, e *Event) []byte) *walker {
	return &walker{w: w, each: each}
}

// reset empties the event for another record.
func (k *walker) reset(rec perfdata.Record) {
	e := &k.e
	e.Record, e.Comm = rec, ""
	e.Location, e.Data = profile.None, profile.None
	e.Frames, e.IPs, e.Branches = e.Frames[:0], e.IPs[:0], e.Branches[:0]
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

func (k *walker) sample(dst []byte, s *perfdata.Sample, pos uint64) []byte {
	w := k.w
	w.chainBuf = w.chainBuf[:0]
	for _, ip := range s.Callchain {
		w.chainBuf = binary.LittleEndian.AppendUint64(w.chainBuf, ip)
	}
	c := &w.cur
	*c = current{
		any: true, event: max(s.Event, 0), pid: s.PID, tid: s.TID, cpu: s.CPU, mode: cpuMode(s.Misc),
		time: s.Time, ip: s.IP, period: s.Period, chain: w.chainBuf, branches: s.Branches,
	}
	if !w.l.o.Filter.empty() && !w.l.o.Filter.takes(c) {
		return dst
	}
	t := w.l.when(c.time, pos)
	th := w.thread(t)
	if t.time <= w.lo || t.time >= w.hi {
		w.kernel, w.lo, w.hi = w.l.kernels[hostMachine].at(t)
	}
	f := &frames{w: w, t: t, user: th.maps}
	b := w.b
	k.reset(s)
	e := &k.e
	e.Comm = b.comm(th.handle)
	e.Location = b.location(w, f.state(c.mode), c.mode, c.ip, pos)
	if s.Addr != 0 {
		e.Data = b.location(w, f.state(c.mode), c.mode, s.Addr, pos)
	}
	q := &b.queue
	q.reset()
	w.pushChain(q, f, c.chain)
	n := int32(len(q.ips))
	q.samples = append(q.samples, queued{pos: pos, ends: n, branches: n, shared: n})
	b.resolve(w)
	e.Frames, e.IPs = q.locs, q.ips
	for i := range s.Branches {
		e.Branches = append(e.Branches, [2]int32{
			b.branchEnd(w, f, s.Branches[i].From), b.branchEnd(w, f, s.Branches[i].To),
		})
	}
	return k.each(dst, e)
}

// comm is the name of a thread of the builder.
func (b *builder) comm(handle int32) string {
	k := &b.threadPos[handle].threadKey
	return b.l.commName(k.comm, k.unnamed-1)
}
