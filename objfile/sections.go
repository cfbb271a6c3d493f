package objfile

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// A CompressedSection is a section whose contents are compressed, so that they
// cannot be changed in place.
type CompressedSection struct {
	Name   string
	Header Span // in the file: its entry in the section table
	Data   Span // in the file

	f *File
	i int
}

// CompressedSections lists the sections that are compressed: those marked so,
// .zdebug_* and .gnu_debugdata.
func (f *File) CompressedSections() []CompressedSection {
	b, err := f.read(0, uint64(f.ehsize), "e_ident")
	if err != nil || len(f.sections) == 0 || len(b) < 52 || f.class == 64 && len(b) < 64 {
		return nil
	}
	order := f.order()
	shoff := uint64(order.Uint32(b[32:]))
	if f.class == 64 {
		shoff = order.Uint64(b[40:])
	}
	entsize := uint64(order.Uint16(b[f.ehsize-6:]))
	var out []CompressedSection
	for i := range f.sections {
		x := &f.sections[i]
		if x.typ == 0 || x.typ == shtNobits || x.flags&shfCompressed == 0 && !strings.HasPrefix(x.name, ".zdebug_") && x.name != ".gnu_debugdata" {
			continue
		}
		at := shoff + uint64(i)*entsize
		if size := uint64(f.size); at > size || entsize > size-at || entsize < 40 || f.class == 64 && entsize < 64 || x.off > size || x.size > size-x.off {
			continue
		}
		out = append(out, CompressedSection{
			Name: x.name, f: f, i: i,
			Header: Span{int64(at), int64(at + entsize)}, Data: Span{int64(x.off), int64(x.off + x.size)},
		})
	}
	return out
}

// Contents returns the decompressed contents. Memory is asked for from the
// budget that the file was opened with.
func (c *CompressedSection) Contents() ([]byte, error) {
	x := &c.f.sections[c.i]
	if x.name != ".gnu_debugdata" || x.flags&shfCompressed != 0 {
		return c.f.contents(x)
	}
	raw, err := c.f.contents(x)
	if err != nil {
		return nil, err
	}
	r, size, err := Decompress(bytes.NewReader(raw), int64(len(raw)), c.f.budget)
	if err != nil {
		return nil, err
	}
	out := make([]byte, size)
	if n, err := r.ReadAt(out, 0); n < len(out) {
		return nil, err
	}
	return out, nil
}

// HeaderFor returns the entry of the section table as it is when the contents
// stand, not compressed, at off and have size bytes; of a size of 0 it is that
// of a section that is not there. ok is false where the name says that the
// contents are compressed: these can only be left out.
func (c *CompressedSection) HeaderFor(off, size int64) (entry []byte, ok bool, err error) {
	f, x := c.f, &c.f.sections[c.i]
	if size > 0 && x.flags&shfCompressed == 0 {
		return nil, false, nil
	}
	b, err := f.read(uint64(c.Header.Start), uint64(c.Header.End-c.Header.Start), "section header")
	if err != nil {
		return nil, false, err
	}
	entry = append([]byte{}, b...)
	order := f.order()
	if size == 0 {
		order.PutUint32(entry[4:], 0) // SHT_NULL
		putWord(order, entry, f.class, 32, 20, 0)
		return entry, true, nil
	}
	putWord(order, entry, f.class, 8, 8, x.flags&^shfCompressed)
	putWord(order, entry, f.class, 24, 16, uint64(off))
	putWord(order, entry, f.class, 32, 20, uint64(size))
	putWord(order, entry, f.class, 48, 32, 1) // sh_addralign
	return entry, true, nil
}

// putWord writes a word of an entry, which stands at one of two places.
func putWord(order binary.ByteOrder, b []byte, class, at64, at32 int, v uint64) {
	if class == 64 {
		order.PutUint64(b[at64:], v)
		return
	}
	order.PutUint32(b[at32:], uint32(v))
}
