package perfdata

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"
	"sync"

	"github.com/perfark/perfark/internal/decode"
)

const (
	maxRecord = 1<<16 - 1

	// chunkSize is how much is read at once, in bytes, and about the size of
	// a Batch: small enough to stay in a CPU's cache while it is decoded.
	chunkSize = 1 << 20

	// maxSeek is how far behind a damaged record the next one is looked for.
	maxSeek = 16 << 20

	// badKept is how much of what was skipped is kept in a Bad.
	badKept = 64 << 10
)

// A Batch is a run of whole records, as raw bytes. RecordHeader walks it: no
// record's size in it is below 8 or reaches beyond it.
type Batch struct {
	Stream int    // 0, or in directories which of the files
	Offset int64  // of the first record in its file: see At
	Pos    uint64 // of Data[0]: grows from batch to batch, and byte by byte within Data
	Data   []byte // decompressed; valid until Release

	// Bad is set, and Data empty, where bytes had to be skipped.
	Bad *Bad

	// Cut is how many bytes a Batcher left out of the record, the only one of
	// this batch; 0 in those of a BatchReader.
	Cut int

	marks []mark
	from  *BatchReader
	buf   []byte // for reuse
}

// A mark says that from Data[pos] on, records come from the COMPRESSED record
// at off.
type mark struct {
	pos int
	off int64
}

// At returns the offset in the file of the record at Data[i]. In compressed
// data it is that of the COMPRESSED record in which the record begins.
func (b *Batch) At(i int) int64 {
	if b.marks == nil {
		return b.Offset + int64(i)
	}
	n := sort.Search(len(b.marks), func(j int) bool { return b.marks[j].pos > i })
	if n == 0 {
		return b.Offset
	}
	return b.marks[n-1].off
}

// Release gives the memory of Data back for use by later batches. It may be
// called from any goroutine; Data must not be used afterwards. A Batch that is
// not released is left to the garbage collector.
func (b *Batch) Release() {
	if b.buf == nil || b.from == nil {
		return
	}
	r := b.from
	r.freeMu.Lock()
	if len(r.free) < 16 {
		r.free = append(r.free, b.buf)
	}
	r.freeMu.Unlock()
	b.buf, b.Data = nil, nil
}

// A BatchReader yields a recording as raw records, in the order of the file.
// Next may be called from several goroutines at once, which then decode their
// batches in parallel; Batch.Pos says how these belong together.
type BatchReader struct {
	f    *File
	ctx  context.Context
	scan bool // reads ahead for readPipe: notes nothing, decompresses nothing

	freeMu sync.Mutex
	free   [][]byte

	mu     sync.Mutex // for all below
	err    error      // the end
	queue  []*Batch
	pos    uint64
	stream int // index of the stream
	cur    stream
	last   int // index of the last stream, plus one

	off int64  // of win in the stream
	win []byte // read, but not yet looked at
	buf []byte // what win is in

	z       *inflater
	zbad    bool  // the zstd stream is broken until another begins
	zoff    int64 // of the COMPRESSED record that is being decompressed
	zsize   int
	zbusy   bool
	zin     int64
	zout    int64
	out     []byte // decompressed, but not yet looked at
	marks   []mark // of out
	outLost bool   // out begins somewhere inside a record
	outNext int    // how long out must be for the next try to find a record

	seeking  bool // skipping damage
	lostAt   int64
	lostLen  int64
	lostWhy  error
	lost     []byte // its first bytes
	verified int64  // bytes tried as records while seeking

	unknown map[Type]int64
	try     *Decoder
}

// Batches returns a BatchReader of f, from the first record on.
func (f *File) Batches(ctx context.Context) *BatchReader { return f.newBatches(ctx) }

func (f *File) newBatches(ctx context.Context) *BatchReader {
	r := &BatchReader{
		f:       f,
		ctx:     ctx,
		last:    len(f.streams),
		unknown: make(map[Type]int64),
		try:     &Decoder{f: f, tab: &f.table, big: f.hdr.Big, quiet: true},
	}
	r.startStream()
	return r
}

// one returns a BatchReader of a single stream.
func (f *File) one(stream int) *BatchReader {
	r := f.newBatches(context.Background())
	r.stream, r.last = stream, stream+1
	r.startStream()
	return r
}

func (r *BatchReader) startStream() {
	if r.stream < len(r.f.streams) {
		r.cur = r.f.streams[r.stream]
		r.off = r.cur.start
	}
	r.win = nil
}

// Next returns the next batch: about a megabyte, less where the file makes
// it so. At the end the error is io.EOF; other errors are those of reading
// the file, of the context, or a *decode.LimitError.
func (r *BatchReader) Next() (*Batch, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) == 0 {
		if r.err == nil {
			r.err = r.ctx.Err()
		}
		if r.err == nil {
			r.err = r.step()
		}
		if r.err != nil && len(r.queue) == 0 {
			r.stopInflater()
			return nil, r.err
		}
	}
	b := r.queue[0]
	r.queue = r.queue[1:]
	return b, nil
}

// Close ends reading before the end of the file. It need not be called after
// an error or io.EOF, nor before File.Close.
func (r *BatchReader) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = errors.New("perfdata: reader is closed")
	}
	r.queue = nil
	r.stopInflater()
}

func (r *BatchReader) stop() { r.Close() }

// step moves on by a chunk, a record, or a stretch of damage.
func (r *BatchReader) step() error {
	if r.zbusy {
		return r.inflate()
	}
	if r.stream >= r.last {
		r.countUnknown()
		return io.EOF
	}
	s := &r.cur
	if r.off >= s.end {
		r.endStream()
		return nil
	}
	if len(r.win) == 0 {
		return r.fill()
	}
	if r.seeking {
		return r.seek()
	}
	n, why := r.walk(r.win, false)
	if n > 0 {
		r.emit(n)
		return nil
	}
	end := r.off+int64(len(r.win)) >= s.end
	switch why {
	case stopShort:
		if !end {
			return r.fill()
		}
		r.damaged(r.short(s))
		return nil
	case stopBad:
		r.damaged(r.badHeader(r.win))
		return nil
	}
	return r.special(s)
}

// fill reads the next chunk.
func (r *BatchReader) fill() error {
	s := &r.cur
	n := int(min(chunkSize, s.end-r.off))
	buf := r.buf
	r.buf = nil
	if cap(buf) < n {
		buf = r.get(n)
	}
	buf = buf[:n]
	m, err := s.r.ReadAt(buf, r.off)
	if m < n {
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s: offset %#x: %w", s.name, r.off+int64(m), err)
		}
		// The file became shorter while it was read.
		r.note(Damage{Name: s.name, Offset: r.off + int64(m), Len: s.end - r.off - int64(m), What: "data: the file ended before its size at the start"})
		s.end = r.off + int64(m)
		if m == 0 {
			r.buf = buf
			return nil
		}
	}
	r.buf, r.win = buf, buf[:m]
	return nil
}

// get returns a buffer of n bytes or more.
func (r *BatchReader) get(n int) []byte {
	r.freeMu.Lock()
	defer r.freeMu.Unlock()
	if k := len(r.free); k > 0 && cap(r.free[k-1]) >= n {
		b := r.free[k-1]
		r.free = r.free[:k-1]
		return b
	}
	// A whole chunk also for a short rest, so that it can be used again.
	if n > maxRecord && n < chunkSize {
		return make([]byte, n)
	}
	return make([]byte, max(n, 4096))
}

// Why walk stopped.
type stop int

const (
	stopShort   stop = iota // the next record is not whole
	stopBad                 // its header is damaged
	stopSpecial             // more than its size belongs to it, or it is compressed
)

// walk returns how many of b's bytes are whole records that stand for
// themselves.
func (r *BatchReader) walk(b []byte, inside bool) (n int, why stop) {
	big := r.f.hdr.Big
	for {
		if len(b)-n < 8 {
			return n, stopShort
		}
		h := binary.LittleEndian.Uint64(b[n:])
		if big {
			typ, misc, size := RecordHeader(b[n:], true)
			h = uint64(typ) | uint64(misc)<<32 | uint64(size)<<48
		}
		typ, size := Type(h), int(h>>48)
		if size < 8 {
			return n, stopBad
		}
		if typ-1 < recordKernelMax && size&7 == 0 {
			if size > len(b)-n {
				return n, stopShort
			}
			n += size
			continue
		}
		switch {
		case typ == 0, typ >= recordLimit && (typ < recordSimpleperfMin || typ > recordSimpleperfMax):
			return n, stopBad
		case typ >= recordSimpleperfMin:
			if _, _, size = RecordHeader(b[n:], big); size < 8 {
				return n, stopBad
			}
			if size > maxRecord {
				return n, stopSpecial
			}
		case typ == RecordCompressed || typ == RecordCompressed2:
			if size <= len(b)-n && !r.scan {
				return n, stopSpecial
			}
		case typ == RecordAuxtrace || typ == RecordTracingData:
			if size <= len(b)-n && !inside {
				return n, stopSpecial
			}
		case typ <= recordKernelMax: // of a size that the kernel does not write
			if size <= len(b)-n && !r.odd(b[n:], size) {
				return n, stopBad
			}
		}
		if size > len(b)-n {
			return n, stopShort
		}
		if !typ.Known() {
			r.unknown[typ]++
		}
		n += size
	}
}

// odd reports whether the record at b, whose size is no multiple of 8, is one
// nevertheless.
func (r *BatchReader) odd(b []byte, size int) bool {
	if _, err := r.try.Decode(b[:size], 0); err != nil {
		return false
	}
	if len(b)-size < 8 {
		return true
	}
	typ, _, next := RecordHeader(b[size:], r.f.hdr.Big)
	return typ.Known() && next >= 8
}

// emit queues the first n bytes of the window as a batch, and moves on.
func (r *BatchReader) emit(n int) {
	r.flushOut()
	b := &Batch{Stream: r.stream, Offset: r.off, from: r}
	if 2*n >= len(r.win) {
		// What little is left will be read again.
		b.Data, b.buf = r.win[:n:n], r.buf
		r.buf, r.win = nil, nil
	} else {
		b.Data = append([]byte(nil), r.win[:n]...)
		r.win = r.win[n:]
	}
	r.push(b)
	r.off += int64(n)
}

func (r *BatchReader) push(b *Batch) {
	b.Pos = r.pos
	r.pos += uint64(max(len(b.Data), 1))
	r.queue = append(r.queue, b)
}

func (r *BatchReader) note(d Damage) {
	if !r.scan {
		r.f.AddDamage(d)
	}
}

// special handles the record at the window's begin, which is whole unless it
// is one of simpleperf's large ones.
func (r *BatchReader) special(s *stream) error {
	typ, _, size := RecordHeader(r.win, r.f.hdr.Big)
	at := r.off
	switch typ {
	case RecordCompressed, RecordCompressed2:
		return r.startInflate(typ, size)
	case RecordAuxtrace, RecordTracingData:
		var more uint64
		rec, err := r.try.Decode(r.win[:size], at)
		switch rec := rec.(type) {
		case *Auxtrace:
			more = rec.Len
		case *TracingData:
			if size <= 16 { // simpleperf has the data in the record
				more = (uint64(rec.Len) + 7) &^ 7
			}
		}
		if err == nil && more > uint64(s.end-at-int64(size)) {
			field := "auxtrace.size"
			if typ == RecordTracingData {
				field = "tracing_data.size"
			}
			err = &decode.Error{Offset: at + 8, Field: field, Why: fmt.Sprintf("%d bytes wanted, but only %d follow", more, s.end-at-int64(size))}
			if s.killed || r.f.hdr.Truncated {
				r.note(Damage{Name: s.name, Offset: at + 8, Len: s.end - at, What: decodeWhy(err)})
				r.off, r.win = s.end, nil
				return nil
			}
		}
		if err != nil {
			r.damaged(err)
			return nil
		}
		if more > 0 {
			r.emit(size)
			r.skip(int64(more))
			return nil
		}
		r.emit(size)
		return nil
	}
	// One of simpleperf's that is larger than a record can be.
	if int64(size) > s.end-at {
		r.damaged(&decode.Error{Offset: at, Field: "record.size", Why: fmt.Sprintf("%v of %d bytes, but only %d follow", typ, size, s.end-at)})
		return nil
	}
	r.unknown[typ]++
	r.skip(int64(size))
	return nil
}

// skip leaves out n bytes from r.off on.
func (r *BatchReader) skip(n int64) {
	r.off += n
	if n < int64(len(r.win)) {
		r.win = r.win[n:]
		return
	}
	r.win = nil
}

// endStream goes on to the next stream.
func (r *BatchReader) endStream() {
	if r.seeking {
		r.endSeek(r.off)
	}
	r.outNext = 0
	r.flushOut()
	if len(r.out) > 0 {
		r.note(Damage{Name: r.cur.name, Offset: r.outAt(), Len: int64(len(r.out)), What: "compressed data ends inside a record"})
	}
	r.stopInflater()
	r.out, r.marks, r.outLost, r.zbad = nil, nil, false, false
	r.stream++
	r.startStream()
}

// countUnknown keeps what was counted, now that all was read.
func (r *BatchReader) countUnknown() {
	if r.scan {
		return
	}
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	if r.f.unknown == nil {
		r.f.unknown = make(map[Type]int64)
	}
	for t, n := range r.unknown {
		r.f.unknown[t] = max(n, r.f.unknown[t])
	}
}

// decodeWhy returns the text of a decode error without its offset.
func decodeWhy(err error) string {
	var e *decode.Error
	if errors.As(err, &e) {
		return e.Field + ": " + e.Why
	}
	return err.Error()
}

// short is the error of a record that the stream ends in.
func (r *BatchReader) short(s *stream) error {
	if len(r.win) < 8 {
		return &decode.Error{Offset: r.off, Field: "record", Why: fmt.Sprintf("8 bytes wanted, but only %d follow", len(r.win))}
	}
	typ, _, size := RecordHeader(r.win, r.f.hdr.Big)
	return &decode.Error{Offset: r.off, Field: "record.size", Why: fmt.Sprintf("%v (%d) of %d bytes, but only %d follow", typ, uint32(typ), size, s.end-r.off)}
}

// badHeader is the error of a header that can be none.
func (r *BatchReader) badHeader(b []byte) error {
	typ, _, size := RecordHeader(b, r.f.hdr.Big)
	e := &decode.Error{Offset: r.off, Field: "record.type", Why: fmt.Sprintf("is %d, with size %d", uint32(typ), size)}
	switch {
	case size < 8:
		e.Field, e.Why = "record.size", fmt.Sprintf("is %d, but a record has at least 8 bytes (type %d)", size, uint32(typ))
	case typ.Known():
		e.Field, e.Why = "record.size", fmt.Sprintf("%v (%d) of %d bytes, which is no multiple of 8", typ, uint32(typ), size)
	}
	return e
}

// damaged begins to look for the next record behind a damaged one.
func (r *BatchReader) damaged(err error) {
	r.flushOut()
	r.seeking = true
	r.lostAt, r.lostLen, r.lostWhy, r.lost = r.off, 0, err, nil
}

// lose leaves out n bytes of the window.
func (r *BatchReader) lose(n int) {
	if k := badKept - len(r.lost); k > 0 {
		r.lost = append(r.lost, r.win[:min(n, k)]...)
	}
	r.lostLen += int64(n)
	r.skip(int64(n))
}

// seek moves towards the next place where records can be seen.
func (r *BatchReader) seek() error {
	s := &r.cur
	end := r.off+int64(len(r.win)) >= s.end
	if !end && len(r.win) < chunkSize {
		return r.fill()
	}
	from := 0
	if r.lostLen == 0 {
		from = min(4, len(r.win)) // not the damaged one again
	}
	if err := r.f.budget.Step(int64(len(r.win)/8), "perf.data: damaged records"); err != nil {
		return err
	}
	n, ok := r.findRecords(r.win, from, end)
	if ok {
		r.lose(n)
		r.endSeek(r.off)
		return nil
	}
	if end || r.lostLen+int64(len(r.win)) > maxSeek || r.verified > maxSeek+4*r.lostLen {
		r.lose(len(r.win))
		r.lostLen += s.end - r.off
		r.off, r.win = s.end, nil
		r.endSeek(s.end)
		return nil
	}
	// Keep what may be the begin of a run that ends in the next chunk.
	r.lose((len(r.win) - 4*maxRecord) &^ 7)
	return nil
}

// endSeek notes what was lost up to end.
func (r *BatchReader) endSeek(end int64) {
	r.seeking = false
	s := &r.cur
	what := decodeWhy(r.lostWhy)
	if end >= s.end && end-r.lostAt > maxSeek {
		what += "; no record found behind it"
	}
	r.note(Damage{Name: s.name, Offset: r.lostAt, Len: r.lostLen, What: what})
	b := &Bad{Meta: Meta{Size: int(min(r.lostLen, 1<<30)), Offset: r.lostAt}, Bytes: r.lost, Err: r.lostWhy}
	if len(r.lost) >= 8 {
		b.Type, b.Misc, _ = RecordHeader(r.lost, r.f.hdr.Big)
	}
	r.push(&Batch{Stream: r.stream, Offset: r.lostAt, Bad: b})
	r.lost, r.verified = nil, 0
}

// findRecords looks in b, from the given place on, for a run of records: three
// that can be decoded, or fewer that end with the stream. Records are aligned
// to 8 bytes, or to 4 behind a TRACING_DATA; in compressed recordings not at
// all.
func (r *BatchReader) findRecords(b []byte, from int, end bool) (int, bool) {
	if r.scan {
		r.f.table = newEventTable(r.f.events)
	}
	step := 4
	if r.zin > 0 {
		step = 1
	}
	for i := from; i+8 <= len(b); i += step {
		typ, _, size := RecordHeader(b[i:], r.f.hdr.Big)
		if !typ.Known() || size < 8 || size > len(b)-i {
			continue
		}
		if r.plausible(b[i:], end) {
			return i, true
		}
		if r.verified > maxSeek+8*int64(i) {
			break
		}
	}
	return 0, false
}

// plausible reports whether b begins with a run of records.
func (r *BatchReader) plausible(b []byte, end bool) bool {
	for n := 0; n < 3; n++ {
		if end && len(b) == 0 {
			return n > 0
		}
		if len(b) < 8 {
			return false
		}
		typ, misc, size := RecordHeader(b, r.f.hdr.Big)
		switch {
		case !typ.Known() || size < 8 || size > len(b):
			return false
		case typ <= recordKernelMax && (size&7 != 0 || misc&0x0ff8 != 0 || misc&MiscCPUModeMask > CPUModeGuestUser):
			return false
		case (typ == RecordFinishedRound || typ == RecordFinishedInit) && size != 8:
			return false
		case typ >= recordUserMin && misc != 0 && typ != RecordBuildID:
			return false
		case typ == RecordAuxtrace || typ == RecordTracingData:
			return size >= 12 && n > 0 // no record follows at once
		}
		r.verified += int64(size)
		if _, err := r.try.Decode(b[:size], 0); err != nil {
			return false
		}
		b = b[size:]
	}
	return true
}
