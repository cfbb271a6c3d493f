package perfdata

import (
	"cmp"
	"io"
	"slices"
)

// OrderOptions are for File.Ordered. The zero value is useful.
type OrderOptions struct {
	// MaxBytes is how much memory the queue may take, in bytes; 0 means 256
	// MiB. Beyond it the oldest are delivered, whether their time has come
	// or not.
	MaxBytes int64
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
	plain   *Reader // if records have no times
	last    uint64  // the time of the latest record delivered
	late    int64
	bad     Bad
}

// A queue orders one stream.
type queue struct {
	b      *BatchReader
	stream int
	max    int64

	ready  []item // may be delivered, sorted
	wait   []item // may not
	bytes  int64  // of wait
	newest uint64 // time seen
	limit  uint64 // the newest time at the end of the round before
	err    error
}

// An item is a record in a batch that is kept as long as there are items of it.
type item struct {
	time uint64 // 0: at once
	data []byte
	off  int64
	bad  *Bad
}

// cost is the memory that the item holds, in bytes, about.
func (it item) cost() int64 { return int64(len(it.data)) + 64 }

// Ordered returns an OrderedReader of the records of f from the first on. If
// f's records have no times it is in the order of the file.
func (f *File) Ordered(o OrderOptions) *OrderedReader {
	r := &OrderedReader{f: f, d: NewDecoder(f)}
	a := &f.events[0].Attr
	if a.Flags&FlagSampleIDAll == 0 || a.SampleType&SampleTime == 0 {
		r.plain = f.Records()
		return r
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 256 << 20
	}
	for i := range f.streams {
		q := &queue{b: f.one(i), stream: i, max: o.MaxBytes}
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
	if r.plain != nil {
		return r.plain.Next()
	}
	var first *queue
	for _, q := range r.streams {
		if err := q.fill(r.d); err != nil {
			return nil, err
		}
		if len(q.ready) > 0 && (first == nil || q.ready[0].time < first.ready[0].time) {
			first = q
		}
	}
	if first == nil {
		return nil, io.EOF
	}
	it := first.ready[0]
	first.ready = first.ready[1:]
	if it.bad != nil {
		return it.bad, nil
	}
	if it.time != 0 {
		if it.time < r.last {
			r.late++
		}
		r.last = max(r.last, it.time)
	}
	r.d.Stream = first.stream
	rec, err := r.d.Decode(it.data, it.off)
	if err != nil {
		typ, misc, size := RecordHeader(it.data, r.d.big)
		r.bad = Bad{Meta: Meta{Type: typ, Misc: misc, Size: size, Offset: it.off}, Bytes: it.data, Err: err}
		return &r.bad, nil
	}
	return rec, nil
}

// Late returns how many records were delivered after a later one, because the
// recording broke the rule or the queue was full.
func (r *OrderedReader) Late() int64 { return r.late }

// Close ends reading before the end of the file. It need not be called after
// an error or io.EOF, nor before File.Close.
func (r *OrderedReader) Close() {
	if r.plain != nil {
		r.plain.Close()
	}
	for _, q := range r.streams {
		q.b.Close()
	}
}

// fill reads until a record may be delivered, or to the end.
func (q *queue) fill(d *Decoder) error {
	for len(q.ready) == 0 {
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
		q.ready = append(q.ready, item{bad: b.Bad})
		return
	}
	for i := 0; i < len(b.Data); {
		typ, _, size := RecordHeader(b.Data[i:], d.big)
		it := item{data: b.Data[i : i+size : i+size], off: b.At(i)}
		i += size
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

func (q *queue) sort() {
	slices.SortStableFunc(q.wait, func(a, b item) int { return cmp.Compare(a.time, b.time) })
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
}

func (q *queue) flushTo(n int) {
	for _, it := range q.wait[:n] {
		q.bytes -= it.cost()
	}
	q.ready = append(q.ready, q.wait[:n]...)
	q.wait = append(q.wait[:0], q.wait[n:]...)
}
