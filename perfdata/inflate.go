package perfdata

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/klauspost/compress/zstd"

	"github.com/perfark/perfark/internal/decode"
)

// An inflater decompresses a zstd stream that comes in pieces. The decoder
// wants to pull its input where we have to push: it runs as a coroutine that
// yields what it decompressed, or nil if it wants more input.
type inflater struct {
	in   []byte
	max  uint64 // bytes of the window
	err  error  // why the decoder ended
	next func() ([]byte, bool)
	stop func()
}

var errStopped = errors.New("stopped")

func newInflater(window uint64) *inflater {
	z := &inflater{max: window}
	z.next, z.stop = iter.Pull(z.run)
	return z
}

func (z *inflater) run(yield func([]byte) bool) {
	dec, err := zstd.NewReader(pieces{z, yield}, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(z.max), zstd.WithDecoderLowmem(true))
	if err != nil {
		z.err = err
		return
	}
	defer dec.Close()
	buf := make([]byte, 128<<10)
	for {
		n, err := dec.Read(buf)
		if n > 0 && !yield(buf[:n]) {
			return
		}
		if err != nil {
			z.err = err
			return
		}
	}
}

// pieces is the decoder's input.
type pieces struct {
	z     *inflater
	yield func([]byte) bool
}

func (p pieces) Read(b []byte) (int, error) {
	for len(p.z.in) == 0 {
		if !p.yield(nil) {
			return 0, errStopped
		}
	}
	n := copy(b, p.z.in)
	p.z.in = p.z.in[n:]
	return n, nil
}

var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// startInflate begins with the COMPRESSED record at the window's begin, which
// is whole.
func (r *BatchReader) startInflate(typ Type, size int) error {
	s := &r.cur
	rec, err := r.try.Decode(r.win[:size], r.off)
	if err != nil {
		r.damaged(err)
		return nil
	}
	data := rec.(*CompressedData).Data
	if r.zbad && !bytes.HasPrefix(data, zstdMagic) {
		r.bad(r.off, size, &decode.Error{Offset: r.off, Field: "compressed", Why: "zstd: depends on data before it that is damaged"})
		r.skip(int64(size))
		return nil
	}
	if r.zbad || r.z == nil {
		r.stopInflater()
		r.z, r.zbad = newInflater(r.f.window()), false
		r.f.addInflater(r.z)
	}
	if len(r.out) > 0 && r.outLost && bytes.HasPrefix(data, zstdMagic) {
		r.note(Damage{Name: s.name, Offset: r.outAt(), Len: int64(len(r.out)), What: "compressed data ends inside a record"})
		r.out, r.marks = r.out[:0], r.marks[:0]
	}
	r.zoff, r.zsize, r.zbusy = r.off, size, true
	r.zin += int64(len(data))
	r.z.in = data
	if n := len(r.marks); n > 0 && r.marks[n-1].pos == len(r.out) {
		r.marks = r.marks[:n-1] // nothing came of that one yet, or only the begin of a record
	}
	r.marks = append(r.marks, mark{pos: len(r.out), off: r.off})
	return nil
}

// inflate decompresses up to a chunk.
func (r *BatchReader) inflate() error {
	for len(r.out) < chunkSize {
		b, ok := r.z.next()
		if !ok {
			why := r.z.err
			if why == nil || why == io.EOF {
				why = io.ErrUnexpectedEOF
			}
			if errors.Is(why, zstd.ErrWindowSizeExceeded) {
				r.cutOut()
				return fmt.Errorf("%s: offset %#x: %w", r.cur.name, r.zoff, r.f.windowError("zstd: COMPRESSED records"))
			}
			r.cutOut()
			r.bad(r.zoff, r.zsize, &decode.Error{Offset: r.zoff, Field: "compressed", Why: fmt.Sprintf("zstd: %v", why)})
			r.zbad = true
			r.endRecord()
			return nil
		}
		if b == nil {
			if len(r.z.in) == 0 {
				r.endRecord()
				break
			}
			continue
		}
		r.zout += int64(len(b))
		if err := r.f.inflated(r.zin, r.zout, "zstd: COMPRESSED records"); err != nil {
			r.flushOut()
			return fmt.Errorf("%s: offset %#x: %w", r.cur.name, r.zoff, err)
		}
		if cap(r.out)-len(r.out) < len(b) {
			old := r.out
			r.out = append(r.get(max(chunkSize+256<<10, 2*len(old)+len(b)))[:0], old...)
		}
		r.out = append(r.out, b...)
	}
	if len(r.out) >= chunkSize/2 {
		r.flushOut()
	}
	return nil
}

// endRecord goes on behind the COMPRESSED record.
func (r *BatchReader) endRecord() {
	r.zbusy = false
	r.skip(int64(r.zsize))
}

// bad queues a Bad for what stands at off.
func (r *BatchReader) bad(off int64, size int, err error) {
	r.flushOut()
	r.note(Damage{Name: r.cur.name, Offset: off, Len: int64(size), What: decodeWhy(err)})
	b := &Bad{Meta: Meta{Size: size, Offset: off}, Err: err}
	if len(r.win) >= 8 {
		b.Type, b.Misc, _ = RecordHeader(r.win, r.f.hdr.Big)
		b.Bytes = append(b.Bytes, r.win[:min(size, len(r.win), badKept)]...)
	}
	r.push(&Batch{Stream: r.stream, Offset: off, Bad: b})
}

// outAt returns the offset of the COMPRESSED record that r.out begins in.
func (r *BatchReader) outAt() int64 {
	if len(r.marks) > 0 {
		return r.marks[0].off
	}
	return r.zoff
}

// flushOut queues the whole records in r.out. The rest, a record that the next
// COMPRESSED record ends, stays.
func (r *BatchReader) flushOut() {
	for len(r.out) > 0 {
		if r.outLost {
			if len(r.out) < r.outNext {
				return
			}
			i, ok := r.findRecords(r.out, 0, false)
			if !ok {
				if len(r.out) > 4*maxRecord {
					r.dropOut((len(r.out) - 4*maxRecord) &^ 7)
				}
				// Not after every few bytes: all of it is tried again.
				r.outNext = len(r.out) + maxRecord
				return
			}
			r.dropOut(i)
			r.outLost, r.verified = false, 0
		}
		n, why := r.walk(r.out, true)
		if n > 0 {
			r.emitOut(n)
			continue
		}
		switch why {
		case stopShort:
			return
		case stopSpecial: // a COMPRESSED record within another
			_, _, size := RecordHeader(r.out, r.f.hdr.Big)
			size = min(size, len(r.out))
			r.badOut(size, "is compressed twice")
			r.dropQuiet(size)
		default:
			r.badOut(0, decodeWhy(r.badHeader(r.out)))
			r.outLost, r.outNext = true, 0
			r.dropOut(min(4, len(r.out)))
		}
	}
}

// badOut queues a Bad for decompressed data.
func (r *BatchReader) badOut(size int, what string) {
	at := r.outAt()
	r.note(Damage{Name: r.cur.name, Offset: at, Len: int64(size), What: "in compressed data: " + what})
	b := &Bad{Meta: Meta{Size: size, Offset: at}, Err: &decode.Error{Offset: at, Field: "compressed", Why: what}}
	r.push(&Batch{Stream: r.stream, Offset: at, Bad: b})
}

// dropOut leaves out n bytes of r.out, which are lost.
func (r *BatchReader) dropOut(n int) {
	if n > 0 {
		r.note(Damage{Name: r.cur.name, Offset: r.outAt(), Len: int64(n), What: "in compressed data: skipped to the next record"})
		r.dropQuiet(n)
	}
}

func (r *BatchReader) dropQuiet(n int) {
	_, r.marks = splitMarks(r.marks, n)
	r.out = append(r.out[:0], r.out[n:]...)
}

// cutOut forgets the record that r.out ends in: its end cannot be had.
func (r *BatchReader) cutOut() {
	r.outNext = 0
	r.flushOut()
	if len(r.out) > 0 {
		r.dropOut(len(r.out))
	}
	r.outLost = false
}

// emitOut queues the first n bytes of r.out.
func (r *BatchReader) emitOut(n int) {
	b := &Batch{Stream: r.stream, Offset: r.outAt(), from: r, buf: r.out[:cap(r.out)]}
	b.Data = r.out[:n:n]
	b.marks, r.marks = splitMarks(r.marks, n)
	rest := r.out[n:]
	r.out = append(r.get(chunkSize + 256<<10)[:0], rest...)
	r.push(b)
}

// splitMarks returns the marks of what stands before n and, moved, of what
// stands behind.
func splitMarks(m []mark, n int) (before, after []mark) {
	for _, x := range m {
		if x.pos < n {
			before = append(before, x)
			continue
		}
		if x.pos > n && len(after) == 0 && len(before) > 0 {
			after = append(after, mark{0, before[len(before)-1].off})
		}
		after = append(after, mark{x.pos - n, x.off})
	}
	if len(after) == 0 && len(before) > 0 {
		after = append(after, mark{0, before[len(before)-1].off})
	}
	return before, after
}

func (r *BatchReader) stopInflater() {
	if r.z != nil {
		r.f.dropInflater(r.z)
		r.z = nil
	}
	r.zbusy = false
}

func (f *File) addInflater(z *inflater) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.inflaters == nil {
		f.inflaters = make(map[*inflater]bool)
	}
	f.inflaters[z] = true
}

// dropInflater ends the coroutine of z.
func (f *File) dropInflater(z *inflater) {
	f.mu.Lock()
	delete(f.inflaters, z)
	f.mu.Unlock()
	z.stop()
}
