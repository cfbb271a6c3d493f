package archive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/store"
)

// errNotReduced says that a file cannot be made smaller.
var errNotReduced = errors.New("there is no debug information to leave out")

// reduced returns an ELF file without its debug information, as it reads f: the
// code, the symbols and the notes stay where they are or move up. The sections
// that are left out stay in the section table, as inactive entries, so that no
// index changes. It fails for what is no plain ELF file.
//
// Source: System V ABI, ELF header and section header table.
func reduced(f *store.File, l decode.Limits) (*store.File, error) {
	e, err := readELF(f.ReaderAt, f.Size, decode.NewBudget(l))
	if err != nil {
		return nil, err
	}
	r, err := e.reduce(f.ReaderAt)
	if err != nil {
		return nil, err
	}
	c := *f
	c.ReaderAt, c.Size = r, r.size
	return &c, nil
}

// An elfImage is the tables of an ELF file, as bytes to be changed.
type elfImage struct {
	order    binary.ByteOrder
	wide     bool // 64 bits
	size     int64
	header   []byte
	table    []byte // section headers
	entsize  int
	sections []elfSection
	fixed    int64 // end of what must not move: headers, segments, sections in memory
}

type elfSection struct {
	typ       uint32
	flags     uint64
	off, size int64
	align     int64
	debug     bool
}

const (
	shtNull   = 0
	shtNobits = 8
	shfAlloc  = 2
	maxTables = 64 << 20 // bytes of section headers, and of names
)

// readELF reads the header and the tables of an ELF file.
func readELF(r io.ReaderAt, size int64, b *decode.Budget) (*elfImage, error) {
	e := &elfImage{size: size, header: make([]byte, 64)}
	if n, _ := r.ReadAt(e.header, 0); n < 52 {
		return nil, errors.New("not an ELF file")
	}
	if string(e.header[:4]) != "\x7fELF" || e.header[4] < 1 || e.header[4] > 2 || e.header[5] < 1 || e.header[5] > 2 {
		return nil, errors.New("not an ELF file")
	}
	e.wide = e.header[4] == 2
	e.order = binary.LittleEndian
	if e.header[5] == 2 {
		e.order = binary.BigEndian
	}
	at := 52
	e.entsize = 40
	if e.wide {
		at, e.entsize = 64, 64
	} else {
		e.header = e.header[:52]
	}
	half := func(back int) int { return int(e.order.Uint16(e.header[at-back:])) }
	phentsize, phnum, shentsize, shnum, shstrndx := half(10), half(8), half(6), half(4), half(2)
	var phoff, shoff int64
	if e.wide {
		phoff, shoff = int64(e.order.Uint64(e.header[32:])), int64(e.order.Uint64(e.header[40:]))
	} else {
		phoff, shoff = int64(e.order.Uint32(e.header[28:])), int64(e.order.Uint32(e.header[32:]))
	}
	if shentsize != e.entsize || shnum == 0 || shstrndx >= shnum {
		return nil, errors.New("no section headers, or too many")
	}
	var err error
	if e.table, err = e.read(r, shoff, int64(shnum*shentsize), b, "section headers"); err != nil {
		return nil, err
	}
	e.fixed = int64(at)
	if err := e.segments(r, phoff, phnum, phentsize, b); err != nil {
		return nil, err
	}
	return e, e.readSections(r, shnum, shstrndx, b)
}

// read reads a table that must lie in the file.
func (e *elfImage) read(r io.ReaderAt, off, n int64, b *decode.Budget, what string) ([]byte, error) {
	if off < 0 || n < 0 || n > maxTables || off > e.size-n {
		return nil, fmt.Errorf("%s at %#x: %d bytes are not in the file", what, off, n)
	}
	if err := b.Alloc(n, "elf: "+what); err != nil {
		return nil, err
	}
	buf := make([]byte, n)
	if k, err := r.ReadAt(buf, off); int64(k) < n {
		return nil, err
	}
	return buf, nil
}

// segments finds the end of the segments.
func (e *elfImage) segments(r io.ReaderAt, off int64, num, entsize int, b *decode.Budget) error {
	want := 32
	if e.wide {
		want = 56
	}
	if num == 0 {
		return nil
	}
	if entsize != want || num == 0xffff {
		return fmt.Errorf("program headers of %d bytes, %d of them", entsize, num)
	}
	t, err := e.read(r, off, int64(num*entsize), b, "program headers")
	if err != nil {
		return err
	}
	e.fixed = max(e.fixed, off+int64(len(t)))
	for ; len(t) > 0; t = t[entsize:] {
		var at, n int64
		if e.wide {
			at, n = int64(e.order.Uint64(t[8:])), int64(e.order.Uint64(t[32:]))
		} else {
			at, n = int64(e.order.Uint32(t[4:])), int64(e.order.Uint32(t[16:]))
		}
		if at < 0 || n < 0 || at > e.size-n {
			return fmt.Errorf("segment at %#x: %d bytes are not in the file", at, n)
		}
		if n > 0 {
			e.fixed = max(e.fixed, at+n)
		}
	}
	return nil
}

// readSections decodes the section headers and finds those of debug
// information.
func (e *elfImage) readSections(r io.ReaderAt, num, names int, b *decode.Budget) error {
	for i := range num {
		e.sections = append(e.sections, e.section(i))
	}
	s := e.sections[names]
	strs, err := e.read(r, s.off, s.size, b, "section names")
	if err != nil {
		return err
	}
	for i := range e.sections {
		s := &e.sections[i]
		if s.typ == shtNull || s.typ == shtNobits {
			continue
		}
		if s.off < 0 || s.size < 0 || s.off > e.size-s.size {
			return fmt.Errorf("section %d at %#x: %d bytes are not in the file", i, s.off, s.size)
		}
		name := e.order.Uint32(e.table[i*e.entsize:])
		if s.flags&shfAlloc != 0 {
			e.fixed = max(e.fixed, s.off+s.size)
		} else if int(name) < len(strs) {
			s.debug = isDebug(strs[name:])
		}
	}
	return nil
}

// isDebug reports whether a section, whose name is at the start of b, holds
// debug information or the relocations of such.
func isDebug(b []byte) bool {
	name := string(b[:min(len(b), 32)])
	for _, rel := range []string{".rela", ".rel"} {
		if rest, ok := strings.CutPrefix(name, rel+"."); ok {
			name = "." + rest
			break
		}
	}
	return strings.HasPrefix(name, ".debug_") || strings.HasPrefix(name, ".zdebug_") || strings.HasPrefix(name, ".gnu.debuglto_")
}

// section decodes a section header.
func (e *elfImage) section(i int) elfSection {
	t := e.table[i*e.entsize:]
	if e.wide {
		return elfSection{
			typ: e.order.Uint32(t[4:]), flags: e.order.Uint64(t[8:]),
			off: int64(e.order.Uint64(t[24:])), size: int64(e.order.Uint64(t[32:])), align: int64(e.order.Uint64(t[48:])),
		}
	}
	return elfSection{
		typ: e.order.Uint32(t[4:]), flags: uint64(e.order.Uint32(t[8:])),
		off: int64(e.order.Uint32(t[16:])), size: int64(e.order.Uint32(t[20:])), align: int64(e.order.Uint32(t[32:])),
	}
}

// drop makes the header of a section an inactive one; its name stays.
func (e *elfImage) drop(i int) {
	clear(e.table[i*e.entsize+4 : (i+1)*e.entsize])
}

// move changes where a section is.
func (e *elfImage) move(i int, off int64) {
	t := e.table[i*e.entsize:]
	if e.wide {
		e.order.PutUint64(t[24:], uint64(off))
	} else {
		e.order.PutUint32(t[16:], uint32(off))
	}
}

// reduce lays the file out anew.
func (e *elfImage) reduce(r io.ReaderAt) (*extents, error) {
	p := &extents{}
	p.add(int64(len(e.header)), bytesAt(e.header), 0)
	p.add(e.fixed-p.size, r, p.size)
	any := false
	for i := range e.sections {
		s := &e.sections[i]
		switch {
		case s.debug:
			any = any || s.size > 0
			e.drop(i)
		case s.typ == shtNull || s.typ == shtNobits || s.off+s.size <= e.fixed:
		default:
			if err := p.pad(s.align); err != nil {
				return nil, fmt.Errorf("section %d: %w", i, err)
			}
			e.move(i, p.size)
			p.add(s.size, r, s.off)
		}
		if p.size > e.size { // sections that overlap
			return nil, errNotReduced
		}
	}
	if !any {
		return nil, errNotReduced
	}
	if err := p.pad(8); err != nil {
		return nil, err
	}
	if e.wide {
		e.order.PutUint64(e.header[40:], uint64(p.size))
	} else {
		e.order.PutUint32(e.header[32:], uint32(p.size))
	}
	p.add(int64(len(e.table)), bytesAt(e.table), 0)
	return p, nil
}

// bytesAt is an io.ReaderAt of bytes.
type bytesAt []byte

func (b bytesAt) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= int64(len(b)) {
		return 0, io.EOF
	}
	n := copy(p, b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// An extents is a file made of pieces of others.
type extents struct {
	list []extent
	size int64
}

type extent struct {
	at  int64 // where it is in the whole
	n   int64
	r   io.ReaderAt
	off int64 // where it is in r
}

func (p *extents) add(n int64, r io.ReaderAt, off int64) {
	if n > 0 {
		p.list = append(p.list, extent{p.size, n, r, off})
		p.size += n
	}
}

// pad adds zeros up to a multiple of align.
func (p *extents) pad(align int64) error {
	if align < 0 || align > 1<<20 {
		return fmt.Errorf("aligned to %d bytes", align)
	}
	if align > 1 {
		n := (align - p.size%align) % align
		p.add(n, bytesAt(make([]byte, n)), 0)
	}
	return nil
}

// ReadAt reads across extents.
func (p *extents) ReadAt(b []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errors.New("negative offset")
	}
	i, found := slices.BinarySearchFunc(p.list, off, func(x extent, off int64) int {
		switch {
		case x.at > off:
			return 1
		case x.at+x.n <= off:
			return -1
		}
		return 0
	})
	if !found {
		return 0, io.EOF
	}
	done := 0
	for ; i < len(p.list) && done < len(b); i++ {
		x := p.list[i]
		from := off + int64(done) - x.at
		want := min(int64(len(b)-done), x.n-from)
		n, err := x.r.ReadAt(b[done:done+int(want)], x.off+from)
		done += n
		if int64(n) < want {
			return done, err
		}
	}
	if done < len(b) {
		return done, io.EOF
	}
	return done, nil
}
