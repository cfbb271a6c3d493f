package session

import (
	"bufio"
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/perfark/perfark/perfdata"
)

// A plain recording is one run of records without anything odd, which is what
// most are. Workers read it in chunks, each on its own. What is not quite so
// goes through perfdata.BatchReader, which knows about damage, compression,
// and data outside of records.
type plain struct {
	r          io.ReaderAt
	start, end int64
	big        bool

	// The first record of chunk k begins at bounds[k], at or behind
	// start+k*chunkSize. Chunk k ends where the next begins.
	bounds []int64

	logged []bool       // by chunk: the pass over the samples put it into a log
	short  []shortChunk // by chunk, or nil: see Options.Walk

	mu   sync.Mutex
	turn sync.Cond // for the next bound
	odd  bool      // the recording is not plain after all
}

const (
	chunkSize = 1 << 18
	recordMax = 1 << 16
)

// errOdd says that a recording is not plain.
var errOdd = errors.New("session: not a plain recording")

func newPlain(f *perfdata.File) *plain {
	r, start, end, ok := f.Plain()
	if !ok || end <= start {
		return nil
	}
	p := &plain{r: r, start: start, end: end, big: f.Header().Big, bounds: []int64{start}}
	p.turn.L = &p.mu
	return p
}

func (p *plain) chunks() int { return int((p.end - p.start + chunkSize - 1) / chunkSize) }

// read reads the bytes from off to end into buf, which it returns.
func (p *plain) read(buf []byte, off, end int64) ([]byte, error) {
	n := int(end - off)
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	if m, err := p.r.ReadAt(buf, off); m < n {
		if err == nil || errors.Is(err, io.EOF) {
			err = errOdd // it became shorter
		}
		return buf, err
	}
	return buf, nil
}

// walkable reports whether the record is one whose size is all there is to it.
func walkable(typ perfdata.Type, size int) bool {
	if size < 8 || typ == 0 || !typ.Known() {
		return false
	}
	switch typ {
	case perfdata.RecordCompressed, perfdata.RecordCompressed2, perfdata.RecordAuxtrace, perfdata.RecordTracingData:
		return false
	}
	return size%8 == 0 || typ >= typeHeaderAttr
}

// scan takes chunks until there are no more. Records are found one after the
// other, so each worker waits for the end of the chunk before its own, but
// reads ahead.
func (p *plain) scan(ctx context.Context, s *scanner, next *atomic.Int64) error {
	var buf []byte
	var found []int
	for {
		k := int(next.Add(1) - 1)
		if k >= p.chunks() {
			return nil
		}
		if err := ctx.Err(); err != nil {
			p.stop()
			return err
		}
		base := p.start + int64(k)*chunkSize
		limit := min(base+chunkSize, p.end)
		b, err := p.read(buf, base, min(limit+recordMax, p.end))
		buf = b
		if err != nil {
			p.stop()
			return err
		}
		from, ok := p.bound(k)
		if !ok {
			return errOdd
		}
		i := int(from - base)
		var samples uint64
		found = found[:0]
		for end := int(limit - base); i < end; {
			if len(b)-i < 8 {
				ok = false
				break
			}
			typ, _, size := perfdata.RecordHeader(b[i:], p.big)
			if typ == typeSample && size >= 8 && size%8 == 0 && size <= len(b)-i {
				samples++
				i += size
				continue
			}
			if size > len(b)-i || !walkable(typ, size) {
				ok = false
				break
			}
			found = append(found, i)
			i += size
		}
		if !ok {
			p.stop()
			return errOdd
		}
		p.publish(base + int64(i))
		s.stats.Types[typeSample] += samples
		s.stats.Total += samples
		batch := perfdata.Batch{Offset: base, Pos: uint64(base - p.start), Data: b}
		for _, i := range found {
			s.record(&batch, i)
		}
	}
}

// bound waits for where chunk k begins.
func (p *plain) bound(k int) (int64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.bounds) <= k && !p.odd {
		p.turn.Wait()
	}
	if p.odd {
		return 0, false
	}
	return p.bounds[k], true
}

func (p *plain) publish(end int64) {
	p.mu.Lock()
	p.bounds = append(p.bounds, end)
	p.mu.Unlock()
	p.turn.Broadcast()
}

func (p *plain) stop() {
	p.mu.Lock()
	p.odd = true
	p.mu.Unlock()
	p.turn.Broadcast()
}

// samples takes chunks, whose bounds are known now, until there are no more,
// but for those to skip.
func (p *plain) samples(ctx context.Context, w *worker, next *atomic.Int64, skip []bool) error {
	var buf []byte
	for {
		k := int(next.Add(1) - 1)
		if k+1 >= len(p.bounds) {
			return nil
		}
		if skip != nil && skip[k] {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := p.read(buf, p.bounds[k], p.bounds[k+1])
		if err != nil {
			return err
		}
		buf = b
		logged := w.batch(&perfdata.Batch{Offset: p.bounds[k], Pos: uint64(p.bounds[k] - p.start), Data: b})
		if p.short != nil {
			p.short[k] = w.short.take(len(b))
		}
		if p.logged != nil {
			p.logged[k] = logged
		}
	}
}

// countCompressed counts the COMPRESSED records of a recording, which a
// perfdata.BatchReader replaces by what is in them. Up to damage: behind it
// there is no telling.
func countCompressed(f *perfdata.File, s *Stats) {
	r, off, end, ok := f.Plain()
	if !ok {
		return
	}
	big := f.Header().Big
	b := bufio.NewReaderSize(io.NewSectionReader(r, off, end-off), 1<<16)
	for {
		h, err := b.Peek(8)
		if err != nil {
			return
		}
		typ, _, size := perfdata.RecordHeader(h, big)
		switch {
		case size < 8 || typ == 0 || typ == perfdata.RecordAuxtrace || typ == perfdata.RecordTracingData:
			return
		case typ == perfdata.RecordCompressed || typ == perfdata.RecordCompressed2:
			s.Types[typ]++
			s.Total++
		}
		if n, err := b.Discard(size); n < size || err != nil {
			return
		}
	}
}
