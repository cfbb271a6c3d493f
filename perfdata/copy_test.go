package perfdata

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
)

// A part is a run of bytes of a recording that copyFile encodes anew.
type part struct {
	off int64
	b   []byte
}

// copyFile writes f to w as a recording of its own: the header, the events, their
// ids and the table of features encoded from what was read, everything else,
// such as records, payloads of features, what is unknown and what stands
// between, as it is. Of a well-formed file it makes the same bytes. A wrapped
// file is written unwrapped; of a directory only the file data is.
func copyFile(w io.Writer, f *File) error {
	parts := []part{{off: 0, b: appendHeader(nil, &f.hdr)}}
	if !f.hdr.Pipe {
		more, err := f.parts()
		if err != nil {
			return err
		}
		parts = append(parts, more...)
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(a.off, b.off) })
	pos := int64(0)
	for _, p := range parts {
		if p.off < pos {
			return fmt.Errorf("%s: offset %#x: parts of the file overlap: it cannot be written anew", f.name, p.off)
		}
		if err := f.copyBytes(w, pos, p.off); err != nil {
			return err
		}
		if _, err := w.Write(p.b); err != nil {
			return err
		}
		pos = p.off + int64(len(p.b))
	}
	return f.copyBytes(w, pos, f.size)
}

// copyBytes copies f's bytes from one offset to another.
func (f *File) copyBytes(w io.Writer, from, to int64) error {
	to = min(to, f.size)
	if from >= to {
		return nil
	}
	_, err := io.Copy(w, io.NewSectionReader(f.r, from, to-from))
	return err
}

// parts encodes the events and the table of features. A part that the file
// is too short for is left out.
func (f *File) parts() ([]part, error) {
	h := &f.hdr
	var parts []part
	add := func(off int64, b []byte) {
		if len(b) > 0 && off >= 0 && off+int64(len(b)) <= f.size {
			parts = append(parts, part{off: off, b: b})
		}
	}
	seen := map[int64]bool{} // events may share their ids
	for i := range f.events {
		e := &f.events[i]
		n := int(h.AttrSize) - sectionSize
		ids, err := f.sectionAt(e.offset + int64(n))
		if err != nil {
			return nil, err
		}
		enc := encoder{order: appendOrder(h.Big)}
		enc.b = e.Attr.AppendTo(enc.b, n, h.Big)
		enc.u64(ids.Offset)
		enc.u64(ids.Size)
		add(e.offset, enc.b)
		if ids.Size == 8*uint64(len(e.IDs)) && !seen[int64(ids.Offset)] {
			seen[int64(ids.Offset)] = true
			enc := encoder{order: appendOrder(h.Big)}
			for _, id := range e.IDs {
				enc.u64(id)
			}
			add(int64(ids.Offset), enc.b)
		}
	}
	if h.Killed || h.Size < headerSize {
		return parts, nil
	}
	table := h.Data.Offset + h.Data.Size
	for bit := range 256 {
		if !h.Has(bit) {
			continue
		}
		if ft, ok := f.features[bit]; ok {
			enc := encoder{order: appendOrder(h.Big)}
			enc.u64(uint64(ft.off))
			enc.u64(uint64(ft.size))
			add(int64(table), enc.b)
		}
		table += sectionSize
	}
	return parts, nil
}

// sectionAt reads an offset and a size.
func (f *File) sectionAt(off int64) (Section, error) {
	var b [sectionSize]byte
	if _, err := f.r.ReadAt(b[:], off); err != nil && !errors.Is(err, io.EOF) {
		return Section{}, err
	}
	o := order(f.hdr.Big)
	return Section{Offset: o.Uint64(b[:]), Size: o.Uint64(b[8:])}, nil
}
