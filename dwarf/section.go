package dwarf

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/perfark/perfark/internal/decode"
)

// The sections that are read.
const (
	secInfo = iota
	secAbbrev
	secStr
	secLine
	secLineStr
	secRanges
	secRnglists
	secAddr
	secStrOffsets
	secAranges
	secCuIndex
	secTuIndex
	numSections
)

var sectionNames = [numSections]string{
	".debug_info", ".debug_abbrev", ".debug_str", ".debug_line", ".debug_line_str", ".debug_ranges", ".debug_rnglists",
	".debug_addr", ".debug_str_offsets", ".debug_aranges", ".debug_cu_index", ".debug_tu_index",
}

// dwoName returns the name of a section in a .dwo or .dwp file.
func dwoName(name string) string {
	if strings.HasSuffix(name, "_index") {
		return name
	}
	return name + ".dwo"
}

// A section is read when it is first asked for. Small ones are kept in
// memory, of large ones in files only the parts that are needed.
type section struct {
	name   string
	load   Sections
	budget *decode.Budget

	once sync.Once
	s    Section
	err  error

	allOnce sync.Once
	data    []byte
	dataErr error
}

// wholeSize is up to which size a section in a file is read as a whole when a
// part of it is asked for, in bytes.
const wholeSize = 4 << 20

func (s *section) get() error {
	s.once.Do(func() {
		if s.s, s.err = s.load(s.name); s.err != nil {
			s.s = Section{}
			s.err = fmt.Errorf("%s: %w", s.name, s.err)
		}
		if s.s.Load == nil && s.s.R == nil {
			s.s.Size = int64(len(s.s.Data))
		}
		s.s.Size = max(s.s.Size, 0)
	})
	return s.err
}

// check returns what is wrong with the contents as a whole, as far as the file
// can tell.
func (s *section) check() error {
	c, ok := s.s.R.(interface{ Check() error })
	if !ok {
		return nil
	}
	if err := c.Check(); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}

// size returns the size of the section in bytes, 0 if there is none.
func (s *section) size() (int64, error) {
	err := s.get()
	return s.s.Size, err
}

// mem returns the section if it is in memory, and brings it there if it is
// small.
func (s *section) mem() ([]byte, bool, error) {
	if err := s.get(); err != nil {
		return nil, false, err
	}
	switch {
	case s.s.Load != nil:
	case s.s.R == nil:
		return s.s.Data, true, nil
	case s.s.Size > wholeSize:
		return nil, false, nil
	}
	b, err := s.all()
	return b, true, err
}

// all returns the whole section.
func (s *section) all() ([]byte, error) {
	if err := s.get(); err != nil {
		return nil, err
	}
	if s.s.R == nil && s.s.Load == nil {
		return s.s.Data, nil
	}
	s.allOnce.Do(func() {
		if s.s.Load != nil {
			b, err := s.s.Load()
			switch {
			case err != nil:
				s.dataErr = fmt.Errorf("%s: %w", s.name, err)
			case int64(len(b)) != s.s.Size:
				s.dataErr = fmt.Errorf("%s: %d bytes, want %d", s.name, len(b), s.s.Size)
			default:
				s.data = b
			}
			return
		}
		if s.dataErr = s.budget.Alloc(s.s.Size, s.name); s.dataErr != nil {
			return
		}
		b := make([]byte, s.s.Size)
		if s.dataErr = s.readAt(b, 0); s.dataErr == nil {
			s.data = b
		}
	})
	return s.data, s.dataErr
}

func (s *section) readAt(b []byte, off uint64) error {
	n, err := s.s.R.ReadAt(b, s.s.Off+int64(off))
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%s: offset %#x: %w", s.name, off, err)
}

// buffers are for parts of sections in files, for the time of one call.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxPooled bounds the buffers that are kept, in bytes.
const maxPooled = 8 << 20

func putBuffer(b *[]byte) {
	if cap(*b) <= maxPooled {
		buffers.Put(b)
	}
}

// window returns n bytes at off: those of the section in memory, else read
// into buf.
func (s *section) window(off, n uint64, buf *[]byte) ([]byte, error) {
	b, in, err := s.mem()
	if err != nil {
		return nil, err
	}
	size := uint64(s.s.Size)
	if off > size || n > size-off {
		return nil, &decode.Error{Offset: int64(off), Field: s.name, Why: fmt.Sprintf("%d bytes wanted, but the section has %d", n, size)}
	}
	if in {
		return b[off : off+n : off+n], nil
	}
	if uint64(cap(*buf)) < n {
		// A section can be larger than any memory, if the file is full of holes.
		if err := s.budget.Alloc(int64(n), s.name); err != nil {
			return nil, err
		}
		s.budget.Free(int64(n))
		*buf = make([]byte, n)
	}
	b = (*buf)[:n]
	return b, s.readAt(b, off)
}

// parse calls f with the bytes from off up to end, or the end of the section
// if that comes first, in longer and longer parts until f is content: until
// it does not run over the end of what it was given.
func (s *section) parse(big bool, off, end uint64, f func(r *reader)) error {
	b, in, err := s.mem()
	if err != nil {
		return err
	}
	end = min(end, uint64(s.s.Size))
	if off >= end {
		return fmt.Errorf("%s: offset %#x: beyond its end at %#x", s.name, off, s.s.Size)
	}
	if in {
		r := reader{b: b[off:end:end], big: big}
		f(&r)
		return r.err(s.name, off)
	}
	buf := buffers.Get().(*[]byte)
	defer putBuffer(buf)
	for n := uint64(256); ; n *= 16 {
		n = min(n, end-off)
		b, err := s.window(off, n, buf)
		if err != nil {
			return err
		}
		r := reader{b: b, big: big}
		f(&r)
		if !r.bad || r.why != "" || n == end-off {
			return r.err(s.name, off)
		}
	}
}

// uint returns the value of size bytes at off.
func (s *section) uint(big bool, off uint64, size int) (uint64, error) {
	if b, in, err := s.mem(); err == nil && in && off < uint64(len(b)) {
		r := reader{b: b[off:], big: big}
		v := r.uint(size)
		return v, r.err(s.name, off)
	}
	var v uint64
	err := s.parse(big, off, off+uint64(size), func(r *reader) { v = r.uint(size) })
	return v, err
}
