package objfile

import (
	"bytes"
	"encoding/binary"
	"hash/adler32"
	"slices"
	"strings"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
)

// maxThin is the largest compressed section that is made thin, in bytes when
// decompressed: it is in memory then.
const maxThin = 1 << 30

// thin keeps of a section of debug information what needed returns, given its
// size and a way to read it: spans of its contents. If that reports false all of
// it is kept.
//
// A compressed section is compressed again, with zeros in it, in the place of
// the old one and as long: what is left over is filled with blocks of nothing.
func (s *slimmer) thin(x *section, needed func(size uint64, read func(off, n uint64) []byte) ([]Span, bool)) {
	f := s.f
	old := strings.HasPrefix(x.name, ".z")
	if x.flags&shfCompressed == 0 && !old {
		spans, ok := needed(x.size, func(off, n uint64) []byte {
			b := make([]byte, n)
			k, _ := f.r.ReadAt(b, int64(x.off+off))
			return b[:k]
		})
		if !ok {
			s.keep(x.off, x.size)
			return
		}
		for _, p := range spans {
			s.keep(x.off+uint64(p.Start), uint64(p.End-p.Start))
		}
		return
	}
	if !s.pack(x, needed) {
		s.keep(x.off, x.size)
	}
}

// pack is thin for a compressed section; it reports false if that is better
// kept as it is.
func (s *slimmer) pack(x *section, needed func(size uint64, read func(off, n uint64) []byte) ([]Span, bool)) bool {
	f := s.f
	c, err := f.compression(x)
	if err != nil || c.size > maxThin || x.size < c.head+64 {
		return false
	}
	b, err := (&debugSections{f: f}).contents(slices.IndexFunc(f.sections, func(y section) bool { return y == *x }))
	if err != nil || uint64(len(b)) != c.size {
		return false
	}
	defer f.budget.Free(int64(len(b)))
	spans, ok := needed(c.size, func(off, n uint64) []byte { return b[off : off+n] })
	if !ok {
		return false
	}
	at := int64(0)
	for _, p := range merge(spans) {
		clear(b[at:p.Start])
		at = p.End
	}
	clear(b[at:])
	room := int64(x.size - c.head)
	var patches []Patch
	switch c.typ {
	case compressZlib:
		patches, ok = zlibPatches(b, room)
	case compressZstd:
		patches, ok = zstdPatches(b, room)
	default:
		ok = false
	}
	if !ok {
		return false
	}
	s.keep(x.off, c.head)
	for _, p := range patches {
		p.Off += int64(x.off + c.head)
		s.patches = append(s.patches, p)
	}
	return true
}

// Blocks of nothing in a deflate stream, from one byte's beginning to another's: a
// stored one, and one of fixed codes with a stored one behind it. Any length
// from 20 bytes on is a number of the one and up to four of the other.
//
// Source: RFC 1951, section 3.2.
var (
	nothing5 = []byte{0, 0, 0, 0xff, 0xff}
	nothing6 = []byte{2, 0, 0, 0, 0xff, 0xff}
)

// zlibPatches compresses b to a zlib stream of exactly room bytes, in patches
// from offset 0 on; false if it does not fit.
func zlibPatches(b []byte, room int64) ([]Patch, bool) {
	var out bytes.Buffer
	out.Write([]byte{0x78, 0x01})
	w, err := flate.NewWriter(&out, 6)
	if err != nil {
		return nil, false
	}
	if _, err := w.Write(b); err != nil || w.Flush() != nil { // Flush ends on a byte
		return nil, false
	}
	end := binary.BigEndian.AppendUint32([]byte{1, 0, 0, 0xff, 0xff}, adler32.Checksum(b))
	fill := room - int64(out.Len()) - int64(len(end))
	if fill != 0 && fill < 20 {
		return nil, false
	}
	for range fill % 5 {
		out.Write(nothing6)
	}
	list := []Patch{{Data: out.Bytes()}}
	if n := (fill - 6*(fill%5)) / 5; n > 0 {
		list = append(list, Patch{Off: int64(out.Len()), Data: nothing5, Repeat: n})
	}
	return append(list, Patch{Off: room - int64(len(end)), Data: end}), true
}

// zstdPatches compresses b to zstd frames of exactly room bytes: the last is
// one to be skipped.
//
// Source: RFC 8878, section 3.1.2.
func zstdPatches(b []byte, room int64) ([]Patch, bool) {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, false
	}
	defer w.Close()
	out := w.EncodeAll(b, nil)
	fill := room - int64(len(out))
	if fill != 0 && fill < 8 || fill > 1<<31 {
		return nil, false
	}
	if fill > 0 {
		out = binary.LittleEndian.AppendUint32(out, 0x184d2a50)
		out = binary.LittleEndian.AppendUint32(out, uint32(fill-8))
	}
	return []Patch{{Data: out}}, true
}
