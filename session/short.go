package session

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/perfark/perfark/perfdata"
)

// shortMax is how many bytes of records without their stacks are kept, by all
// workers together.
const shortMax = 64 << 20

// stackKept is how much is left of the copy of a stack, in bytes: a sample
// must still have one.
const stackKept = 8

// A shortChunk is the records of a chunk of a plain recording. Samples whose
// call chains are in an unwoundLog have lost the copy of the stack, which is
// most of them.
type shortChunk struct {
	data []byte
	at   []shortAt
}

// A shortAt is a record of a shortChunk that lost something, or some that did
// not.
type shortAt struct {
	pos uint64 // of the first
	end uint32 // in data
	cut uint32 // bytes that were left out
}

// shortens reports whether the current pass keeps records for Walk.
func (l *loader) shortens() bool {
	if !l.o.Walk || !l.logs || l.unwinder == nil || l.index != nil {
		return false
	}
	for _, e := range l.f.Events() {
		if e.Attr.SampleType&perfdata.SampleStackUser != 0 {
			return true
		}
	}
	return false
}

// A shortener makes the shortChunks of a worker.
type shortener struct {
	room int // bytes that may still be kept; 0: nothing is
	now  shortChunk
}

// shorten takes up a record that was looked at.
func (w *worker) shorten(rec []byte, pos uint64, typ perfdata.Type) {
	c := &w.short.now
	if typ == typeSample && w.log.has(pos) {
		if at, n := w.s.StackAt, cap(w.s.UserStack); n > stackKept {
			from := len(c.data)
			c.data = append(append(c.data, rec[:at+stackKept]...), rec[at+n:]...)
			w.shortenStack(c.data[from:], at)
			c.at = append(c.at, shortAt{pos, uint32(len(c.data)), uint32(n - stackKept)})
			return
		}
	}
	c.data = append(c.data, rec...)
	if n := len(c.at); n > 0 && c.at[n-1].cut == 0 {
		c.at[n-1].end = uint32(len(c.data))
		return
	}
	c.at = append(c.at, shortAt{pos, uint32(len(c.data)), 0})
}

// shortenStack corrects the sizes in a sample of whose stack, at the given
// place, stackKept bytes are left: that of the record, before the stack that
// of the copy, and behind it how much of this is valid.
func (w *worker) shortenStack(rec []byte, at int) {
	var order binary.ByteOrder = binary.LittleEndian
	if w.l.f.Header().Big {
		order = binary.BigEndian
	}
	order.PutUint16(rec[6:], uint16(len(rec)))
	order.PutUint64(rec[at-8:], stackKept)
	valid := rec[at+stackKept:]
	order.PutUint64(valid, min(order.Uint64(valid), stackKept))
}

// take returns what was taken up of a chunk of so many bytes; nothing if that
// is not much less, or there is no room.
func (s *shortener) take(bytes int) shortChunk {
	c := s.now
	s.now.data, s.now.at = c.data[:0], c.at[:0]
	const perRecord = 24
	n := len(c.data) + perRecord*len(c.at)
	if n == 0 || n > bytes/4 {
		return shortChunk{}
	}
	if n > s.room {
		s.room, s.now = 0, shortChunk{}
		return shortChunk{}
	}
	s.room -= n
	out := shortChunk{make([]byte, len(c.data)), make([]shortAt, len(c.at))}
	copy(out.data, c.data)
	copy(out.at, c.at)
	return out
}

// A shortReader yields the records of a plain recording from its short chunks,
// and reads the others.
type shortReader struct {
	p     *plain
	chunk int
	next  int // in at of the chunk
	from  uint32
	free  []perfdata.Batch
	err   error
}

func newShortReader(p *plain) *shortReader { return &shortReader{p: p} }

// Next returns the next records: see perfdata.Batcher.
func (r *shortReader) Next() (*perfdata.Batch, error) {
	for r.err == nil {
		if r.chunk+1 >= len(r.p.bounds) {
			r.err = io.EOF
			break
		}
		c := &r.p.short[r.chunk]
		if c.at == nil {
			var b []byte
			b, r.err = r.p.read(nil, r.p.bounds[r.chunk], r.p.bounds[r.chunk+1])
			if errors.Is(r.err, errOdd) {
				r.err = errors.New("the file became shorter while it was read")
			}
			if r.err != nil {
				break
			}
			pos := uint64(r.p.bounds[r.chunk] - r.p.start)
			r.chunk++
			if len(b) > 0 {
				return r.batch(pos, b, 0), nil
			}
			continue
		}
		if r.next == len(c.at) {
			r.chunk, r.next, r.from = r.chunk+1, 0, 0
			continue
		}
		at := &c.at[r.next]
		b := c.data[r.from:at.end:at.end]
		r.next, r.from = r.next+1, at.end
		return r.batch(at.pos, b, int(at.cut)), nil
	}
	return nil, r.err
}

// Close ends reading.
func (r *shortReader) Close() {
	if r.err == nil {
		r.err = errors.New("session: reader is closed")
	}
}

func (r *shortReader) batch(pos uint64, data []byte, cut int) *perfdata.Batch {
	if len(r.free) == 0 {
		r.free = make([]perfdata.Batch, 256)
	}
	b := &r.free[0]
	r.free = r.free[1:]
	b.Offset, b.Pos, b.Data, b.Cut = r.p.start+int64(pos), pos, data, cut
	return b
}
