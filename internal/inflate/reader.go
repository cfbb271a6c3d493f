package inflate

import (
	"errors"
	"fmt"
	"hash"
	"hash/adler32"
	"io"
	"slices"
	"sync"
	"sync/atomic"
)

// A Reader reads zlib data of a known size at any place. It keeps the first
// part of what it decompressed, and of the rest the few parts that were asked
// for last; what it dropped it decompresses again. So it is for those who read
// about in order, twice at most. If they do not, it keeps all: what they read
// takes no more than three times the time of [Zlib].
//
// Its methods are safe for concurrent use.
type Reader struct {
	src   io.ReaderAt
	off   int64 // of the data in src
	n     int64 // bytes in src
	size  int64
	limit int64 // bytes of the first part, or a little more
	each  int64 // bytes of the other parts, or up to blockMax more

	first []byte       // the first part, as far as ready
	ready atomic.Int64 // bytes

	mu     sync.Mutex
	err    error
	input  *io.SectionReader // of front
	front  *decoder          // at the end of what was decompressed; nil: not begun, or all was
	at     int64             // decompressed so far
	begin  int               // where the part that is being decompressed begins in front.dst
	sum    hash.Hash32
	points []point
	parts  []part // in the order of their last use
	spare  *decoder
	again  int64 // bytes decompressed once more
	whole  []byte
}

// A point is where decompression can go on: in front of a block.
type point struct {
	at     int64 // decompressed bytes in front
	in     int64 // bytes of the input in front that were read
	acc    uint64
	n      uint
	window []byte
}

// A part is what is between two points.
type part struct {
	at  int64
	b   []byte
	mem []byte // that b is in
}

const (
	windowSize = 32 << 10
	partSize   = 4 << 20 // see Reader.each
	blockMax   = 8 << 20 // the longest block that a Reader can do with in parts
	keptParts  = 6
)

// NewReader returns a Reader of the n bytes of zlib data at off in src, which
// must give exactly size bytes. It keeps the first keep bytes of them.
func NewReader(src io.ReaderAt, off, n, size, keep int64) *Reader {
	return &Reader{src: src, off: off, n: n, size: size, limit: max(keep, 0), each: partSize, sum: adler32.New()}
}

// ReadAt implements io.ReaderAt. The errors are those of Zlib, which a wrong
// checksum is noticed by when the end was read.
func (r *Reader) ReadAt(b []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errors.New("inflate: negative offset")
	}
	done := 0
	for done < len(b) && off < r.size {
		var n int
		if ready := r.ready.Load(); off < ready {
			n = copy(b[done:], r.first[off:ready])
		} else {
			var err error
			if n, err = r.read(b[done:], off); err != nil {
				return done, err
			}
		}
		done += n
		off += int64(n)
	}
	if done < len(b) {
		return done, io.EOF
	}
	return done, nil
}

// Check decompresses what was not yet, and returns what is wrong with any of
// the data.
func (r *Reader) Check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.err == nil && r.at < r.size {
		r.advance()
	}
	if r.err == nil && r.size == 0 {
		return Zlib(nil, io.NewSectionReader(r.src, r.off, r.n))
	}
	return r.err
}

// read copies bytes at off that are not ready, one at least.
func (r *Reader) read(b []byte, off int64) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.err == nil && r.at <= off {
		r.advance()
	}
	switch {
	case r.err != nil:
		return 0, r.err
	case r.whole != nil:
		return copy(b, r.whole[off:]), nil
	case off < r.ready.Load():
		return copy(b, r.first[off:r.ready.Load()]), nil
	}
	p, err := r.part(off)
	if err != nil {
		r.err = err
		return 0, err
	}
	return copy(b, p.b[off-p.at:]), nil
}

// part returns the part that holds off, which was decompressed before.
func (r *Reader) part(off int64) (part, error) {
	for i, p := range r.parts {
		if off >= p.at && off-p.at < int64(len(p.b)) {
			copy(r.parts[i:], r.parts[i+1:])
			r.parts[len(r.parts)-1] = p
			return p, nil
		}
	}
	i, ok := slices.BinarySearchFunc(r.points, off, func(p point, off int64) int {
		switch {
		case p.at < off:
			return -1
		case p.at > off:
			return 1
		}
		return 0
	})
	if !ok {
		i--
	}
	p := &r.points[i]
	end := r.at
	if i+1 < len(r.points) {
		end = r.points[i+1].at
	}
	if r.again += end - p.at; r.again > r.size+r.size/2 {
		if err := r.all(); err != nil {
			return part{}, err
		}
		return part{b: r.whole}, nil
	}
	d := r.spare
	if d == nil {
		d = &decoder{buf: make([]byte, inputSize)}
		r.spare = d
	}
	d.r, d.in, d.eof, d.err = io.NewSectionReader(r.src, r.off+p.in, r.n-p.in), nil, nil, nil
	d.acc, d.n = p.acc, p.n
	n := len(p.window) + int(end-p.at)
	d.dst = r.room(n)[:n]
	d.w = copy(d.dst, p.window)
	for d.err == nil && d.w < len(d.dst) {
		d.next()
	}
	if d.err != nil {
		return part{}, d.err // the input changed
	}
	x := part{p.at, d.dst[len(p.window):], d.dst}
	d.dst = nil
	r.parts = append(r.parts, x)
	return x, nil
}

// room returns memory for a part of n bytes: that of the part that was not used
// for longest if there are many, which it drops.
func (r *Reader) room(n int) []byte {
	if len(r.parts) >= keptParts {
		b := r.parts[0].mem
		r.parts = append(r.parts[:0], r.parts[1:]...)
		if cap(b) >= n {
			return b[:0]
		}
	}
	return make([]byte, 0, max(n, int(min(r.each+r.each/8, r.size))))
}

// all decompresses all of the data and keeps it.
func (r *Reader) all() error {
	b := make([]byte, r.size)
	if err := Zlib(b, io.NewSectionReader(r.src, r.off, r.n)); err != nil {
		return err
	}
	r.whole, r.at = b, r.size
	r.front, r.spare, r.points, r.parts = nil, nil, nil, nil
	return nil
}

// advance decompresses up to the next point.
func (r *Reader) advance() {
	if r.front == nil {
		r.input = io.NewSectionReader(r.src, r.off, r.n)
		r.front = &decoder{r: r.input, buf: make([]byte, inputSize), dst: make([]byte, windowSize+min(r.size, r.each+blockMax))}
		r.first = make([]byte, min(r.size, r.limit+r.each+blockMax))
		r.front.header()
	}
	d := r.front
	pos, _ := r.input.Seek(0, io.SeekCurrent)
	p := point{at: r.at, in: pos - int64(len(d.in)), acc: d.acc, n: d.n}
	last := false
	for d.err == nil && !last && int64(d.w-r.begin) < r.each {
		last = d.next()
	}
	n := d.w - r.begin
	switch {
	case errors.Is(d.err, ErrSize) && r.at+int64(n) < r.size:
		r.err = r.all() // a block is too long
		return
	case d.err == nil && (r.at+int64(n) > r.size || last && r.at+int64(n) < r.size):
		d.err = fmt.Errorf("%w: %d bytes, want %d", ErrSize, r.at+int64(n), r.size)
	}
	if r.err = d.err; r.err != nil {
		return
	}
	b := d.dst[r.begin:d.w]
	r.sum.Write(b)
	if r.at < r.limit {
		copy(r.first[r.at:], b)
		r.ready.Store(r.at + int64(n))
	} else {
		p.window = slices.Clone(d.dst[max(r.begin-windowSize, 0):r.begin])
		r.points = append(r.points, p)
		b = append(r.room(n), b...)
		r.parts = append(r.parts, part{r.at, b, b})
	}
	r.at += int64(n)
	if r.at == r.size {
		for d.err == nil && !last {
			last = d.next() // blocks without bytes
		}
		if d.err == nil && d.w-r.begin != n {
			d.err = fmt.Errorf("%w: more than %d bytes", ErrSize, r.size)
		}
		if want := d.checksum(); d.err == nil && want != r.sum.Sum32() {
			d.mismatch(r.sum.Sum32(), want)
		}
		r.err, r.front = d.err, nil
		return
	}
	k := min(d.w, windowSize)
	copy(d.dst, d.dst[d.w-k:d.w])
	d.w, r.begin = k, k
}
