package perfdata

import (
	"context"
	"io"
	"slices"
)

// OrderOptions are for File.Ordered. The zero value is useful.
type OrderOptions struct {
	// MaxBytes is how much memory the queue may take, in bytes; 0 means 256
	// MiB. Beyond it the oldest are delivered, whether their time has come
	// or not.
	MaxBytes int64

	// Batches, if set, yields the records of a recording of one stream instead
	// of File.Batches.
	Batches Batcher
}

// A Batcher yields the records of a recording in the order of the file, as
// BatchReader does. It may leave out what nobody wants of a record: see
// Batch.Cut.
type Batcher interface {
	// Next returns the next batch. At the end the error is io.EOF.
	Next() (*Batch, error)

	// Close ends reading before the end of the file.
	Close()
}

// An OrderedReader yields the records of a recording in the order of time.
//
// A recording is a sequence of rounds, in each of which perf copied what was
// in the buffer of every CPU: it is only almost sorted. At the end of a round
// (FINISHED_ROUND) everything older than the newest record of the round
// *before* is there, and is delivered (tools/perf/util/ordered-events.c).
// Records without a time are delivered at once. Of equal times, the one that
// comes first in the file comes first.
//
// In directories every file is ordered so, and the files are merged.
type OrderedReader struct {
	f       *File
	d       *Decoder
	streams []*queue
	untimed bool   // records have no times: the order is that of the file
	last    uint64 // the time of the latest record delivered
	late    int64
	bad     Bad
}

// A queue orders one stream.
type queue struct {
	b   Batcher
	max int64

	ready  []item // may be delivered, sorted, from next on
	next   int
	wait   []item // may not
	sorted int    // how many of wait are sorted
	merged []item // room to merge in
	runs   []int
	bytes  int64  // of wait
	seen   int64  // items
	work   int64  // items that were moved to sort them
	newest uint64 // time seen
	limit  uint64 // the newest time at the end of the round before
	err    error

	untimed bool // all is ready at once
}

// An item is a record in a batch that is kept as long as there are items of it.
type item struct {
	time uint64 // 0: at once
	data []byte
	off  int64
	pos  uint64
	bad  *Bad

	stream int32
	cut    int32 // see Batch.Cut
}

// A Raw is a record as bytes, at its place in the order of time.
type Raw struct {
	Data   []byte // the whole record; it may be kept, and must not be changed
	Offset int64  // see Batch.At
	Pos    uint64 // grows with the place in the recording: see Batch.Pos
	Stream int    // see Batch.Stream

	// Bad is set, and Data empty, where bytes had to be skipped.
	Bad *Bad
}

// cost is the memory that the item holds, in bytes, about. What was cut out
// counts: the order must not depend on it.
func (it *item) cost() int64 { return int64(len(it.data)) + int64(it.cut) + 64 }

// Ordered returns an OrderedReader of the records of f from the first on. If
// f's records have no times it is in the order of the file.
func (f *File) Ordered(o OrderOptions) *OrderedReader {
	r := &OrderedReader{f: f, d: NewDecoder(f)}
	a := &f.events[0].Attr
	r.untimed = a.Flags&FlagSampleIDAll == 0 || a.SampleType&SampleTime == 0
	if r.untimed {
		if o.Batches == nil {
			o.Batches = f.Batches(context.Background())
		}
		r.streams = []*queue{{b: o.Batches, untimed: true}}
		return r
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 256 << 20
	}
	if o.Batches != nil {
		r.streams = []*queue{{b: o.Batches, max: o.MaxBytes}}
		return r
	}
	for i := range f.streams {
		q := &queue{b: f.one(i), max: o.MaxBytes}
		if i > 0 {
			// One CPU's, which the kernel has sorted; there are no rounds.
			q.max = chunkSize
		}
		r.streams = append(r.streams, q)
	}
	return r
}

// Next returns the next record, which is valid until the call after. Damage
// comes as *Bad. At the end the error is io.EOF; others are those of
// Reader.Next.
func (r *OrderedReader) Next() (Record, error) {
	q, err := r.first()
	if err != nil {
		return nil, err
	}
	it := r.take(q)
	if it.bad != nil {
		return it.bad, nil
	}
	r.d.Stream = int(it.stream)
	rec, err := r.d.Decode(it.data, it.off)
	if err != nil {
		typ, misc, size := RecordHeader(it.data, r.d.big)
		r.bad = Bad{Meta: Meta{Type: typ, Misc: misc, Size: size, Offset: it.off}, Bytes: it.data, Err: err}
		return &r.bad, nil
	}
	return rec, nil
}

// NextRaw appends the next records to out, at most as many as fit in its
// capacity, and returns it. It reads no further than it has to for one. The
// error is that of Next.
func (r *OrderedReader) NextRaw(out []Raw) ([]Raw, error) {
	q, err := r.first()
	if err != nil {
		return out, err
	}
	for len(out) < cap(out) {
		it := r.take(q)
		out = append(out, Raw{Data: it.data, Offset: it.off, Pos: it.pos, Stream: int(it.stream), Bad: it.bad})
		if len(r.streams) > 1 {
			if q, err = r.first(); err != nil {
				break // which the next call finds again
			}
		} else if q.next == len(q.ready) {
			break
		}
	}
	return out, nil
}

// first returns the queue whose record comes next.
func (r *OrderedReader) first() (*queue, error) {
	var first *queue
	for _, q := range r.streams {
		if err := q.fill(r.d); err != nil {
			return nil, err
		}
		if q.next < len(q.ready) && (first == nil || q.ready[q.next].time < first.ready[first.next].time) {
			first = q
		}
	}
	if first == nil {
		return nil, io.EOF
	}
	return first, nil
}

// take takes the next record out of q.
func (r *OrderedReader) take(q *queue) *item {
	it := &q.ready[q.next]
	q.next++
	if it.time != 0 {
		if it.time < r.last {
			r.late++
		}
		r.last = max(r.last, it.time)
	}
	return it
}

// Late returns how many records were delivered after a later one, because the
// recording broke the rule or the queue was full.
func (r *OrderedReader) Late() int64 { return r.late }

// Close ends reading before the end of the file. It need not be called after
// an error or io.EOF, nor before File.Close.
func (r *OrderedReader) Close() {
	for _, q := range r.streams {
		q.b.Close()
	}
}

// fill reads until a record may be delivered, or to the end.
func (q *queue) fill(d *Decoder) error {
	for q.next == len(q.ready) {
		clear(q.ready) // or the batches would be kept
		q.ready, q.next = q.ready[:0], 0
		if q.err != nil {
			return nil
		}
		b, err := q.b.Next()
		if err == io.EOF {
			q.err = err
			q.flush(^uint64(0))
			continue
		}
		if err != nil {
			return err
		}
		q.batch(b, d)
	}
	return nil
}

// batch takes up the records of b.
func (q *queue) batch(b *Batch, d *Decoder) {
	if b.Bad != nil {
		q.ready = append(q.ready, item{bad: b.Bad, pos: b.Pos, stream: int32(b.Stream)})
		return
	}
	for i := 0; i < len(b.Data); {
		typ, _, size := RecordHeader(b.Data[i:], d.big)
		it := item{data: b.Data[i : i+size : i+size], off: b.At(i), pos: b.Pos + uint64(i), stream: int32(b.Stream), cut: int32(b.Cut)}
		i += size
		if q.untimed {
			q.ready = append(q.ready, it)
			continue
		}
		it.time = d.Time(it.data)
		switch {
		case typ == RecordFinishedRound:
			q.flush(q.limit)
			q.limit = q.newest
			q.ready = append(q.ready, it)
			continue
		case it.time == 0 || it.time == ^uint64(0):
			it.time = 0
			q.ready = append(q.ready, it)
			continue
		}
		q.newest = max(q.newest, it.time)
		q.seen++
		q.wait = append(q.wait, it)
		if q.bytes += it.cost(); q.bytes > q.max {
			q.overflow()
		}
	}
}

// overflow delivers the older half of what waits.
func (q *queue) overflow() {
	q.sort()
	q.flushTo(len(q.wait) / 2)
}

// sort sorts what waits, by time; what is of one time stays as it is. It
// merges runs that are sorted already: what was in the buffer of a CPU is one.
func (q *queue) sort() {
	q.runs = append(q.runs[:0], 0)
	for i := max(q.sorted, 1); i < len(q.wait); i++ {
		if q.wait[i].time < q.wait[i-1].time {
			q.runs = append(q.runs, i)
		}
	}
	if cap(q.merged) < len(q.wait) {
		q.merged = make([]item, len(q.wait), cap(q.wait))
	}
	for runs := q.runs; len(runs) > 1; {
		from, to := q.wait, q.merged[:len(q.wait)]
		n := 0
		for i := 0; i < len(runs); i += 2 {
			a, mid, end := runs[i], len(from), len(from)
			if i+1 < len(runs) {
				mid = runs[i+1]
			}
			if i+2 < len(runs) {
				end = runs[i+2]
			}
			mergeItems(to[a:end], from[a:mid], from[mid:end])
			runs[n] = a
			n++
		}
		runs = runs[:n]
		q.wait, q.merged = to, from
		q.work += int64(len(to))
		if len(runs) == 1 {
			clear(q.merged) // or the batches would be kept
		}
	}
	q.sorted = len(q.wait)
}

// mergeItems merges a and b, of which those of a come first, into out.
func mergeItems(out, a, b []item) {
	for len(a) > 0 && len(b) > 0 {
		// Runs alternate in stretches, not one by one.
		if a[0].time <= b[0].time {
			n := 1
			for n < len(a) && a[n].time <= b[0].time {
				n++
			}
			out = out[copy(out, a[:n]):]
			a = a[n:]
			continue
		}
		n := 1
		for n < len(b) && b[n].time < a[0].time {
			n++
		}
		out = out[copy(out, b[:n]):]
		b = b[n:]
	}
	copy(out[copy(out, a):], b)
}

// flush delivers what is not newer than limit.
func (q *queue) flush(limit uint64) {
	q.sort()
	n, _ := slices.BinarySearchFunc(q.wait, limit, func(it item, t uint64) int {
		if it.time <= t {
			return -1
		}
		return 1
	})
	q.flushTo(n)
	if q.work > 64*q.seen+1<<24 {
		// Rounds of a few records over and over, and very many that wait: no
		// recording is like that.
		q.flushTo(len(q.wait) / 2)
	}
}

func (q *queue) flushTo(n int) {
	for i := range q.wait[:n] {
		q.bytes -= q.wait[i].cost()
	}
	q.ready = append(q.ready, q.wait[:n]...)
	clear(q.wait[:n]) // or the batches would be kept
	q.wait = q.wait[n:]
	q.sorted -= n
}
