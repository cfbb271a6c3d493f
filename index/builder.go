package index

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
)

// A Builder collects what an index will hold. The zero value is ready to use.
// Ranges may be added in any order. Those of one object agree where they
// overlap; of what does not agree, one is kept for each address.
type Builder struct {
	symbolRanges []entry
	frameRanges  []entry
	symbols      []symbolRecord
	frames       []frameRecord
	strings      bytes.Buffer

	symbolIndex map[symbolRecord]uint32
	frameIndex  map[frameRecord]uint32
	stringIndex map[string]uint32
}

// An entry is a range of addresses and what is known of it: 0 for nothing, else
// one more than the index of a record.
type entry struct {
	start uint64
	size  uint32
	ref   uint32
}

func (e entry) end() uint64 { return e.start + uint64(e.size) }

type symbolRecord struct {
	start, end    uint64
	name, linkage uint32 // in strings
}

type frameRecord struct {
	name, linkage, file uint32 // in strings
	line                uint32
	start               uint64
	flags               uint32
	parent              uint32 // one more than the index of the frame that it stands in; 0: it stands in none
}

// Len returns how many ranges were added.
func (b *Builder) Len() int { return len(b.symbolRanges) + len(b.frameRanges) }

// Symbol adds that the addresses from lo up to hi are held by s, or by no
// symbol if s is nil.
func (b *Builder) Symbol(lo, hi uint64, s *Symbol) {
	ref := uint32(0)
	if s != nil {
		r := symbolRecord{s.Start, s.End, b.string(s.Name), b.string(s.Linkage)}
		n, ok := b.symbolIndex[r]
		if !ok {
			if b.symbolIndex == nil {
				b.symbolIndex = map[symbolRecord]uint32{}
			}
			n = uint32(len(b.symbols))
			b.symbols = append(b.symbols, r)
			b.symbolIndex[r] = n
		}
		ref = n + 1
	}
	b.symbolRanges = addRange(b.symbolRanges, lo, hi, ref)
}

// Frames adds that the addresses from lo up to hi have the given frames,
// innermost first. Without frames it adds that nothing is known there.
func (b *Builder) Frames(lo, hi uint64, frames []Frame) {
	ref := uint32(0)
	for i := len(frames) - 1; i >= 0; i-- {
		f := &frames[i]
		r := frameRecord{b.string(f.Name), b.string(f.Linkage), b.string(f.File), f.Line, f.Start, 0, ref}
		if f.Mangled {
			r.flags |= flagMangled
		}
		n, ok := b.frameIndex[r]
		if !ok {
			if b.frameIndex == nil {
				b.frameIndex = map[frameRecord]uint32{}
			}
			n = uint32(len(b.frames))
			b.frames = append(b.frames, r)
			b.frameIndex[r] = n
		}
		ref = n + 1
	}
	b.frameRanges = addRange(b.frameRanges, lo, hi, ref)
}

func addRange(list []entry, lo, hi uint64, ref uint32) []entry {
	for lo < hi {
		size := min(hi-lo, math.MaxUint32)
		list = append(list, entry{lo, uint32(size), ref})
		lo += size
	}
	return list
}

// string returns the place of s in the strings. Long ones are cut.
func (b *Builder) string(s string) uint32 {
	if len(s) > maxString {
		s = s[:maxString]
	}
	at, ok := b.stringIndex[s]
	if !ok {
		if b.stringIndex == nil {
			b.stringIndex = map[string]uint32{}
		}
		at = uint32(min(uint64(b.strings.Len()), math.MaxUint32))
		b.strings.Write(binary.AppendUvarint(b.strings.AvailableBuffer(), uint64(len(s))))
		b.strings.WriteString(s)
		b.stringIndex[s] = at
	}
	return at
}

// Merge adds all that f holds. The error is that of reading it; what was added
// before stays.
func (b *Builder) Merge(f *File) error {
	symbols := map[uint32]*Symbol{0: nil}
	err := f.each(secSymbolRanges, func(e entry) error {
		s, ok := symbols[e.ref]
		if !ok {
			x, err := f.Symbol(e.ref)
			if err != nil {
				return err
			}
			s = &x
			symbols[e.ref] = s
		}
		b.Symbol(e.start, e.end(), s)
		return nil
	})
	if err != nil {
		return err
	}
	chains := map[uint32][]Frame{0: nil}
	return f.each(secFrameRanges, func(e entry) error {
		c, ok := chains[e.ref]
		if !ok {
			var err error
			if c, err = f.Frames(e.ref, nil); err != nil {
				return err
			}
			chains[e.ref] = c
		}
		b.Frames(e.start, e.end(), c)
		return nil
	})
}

// WriteTo writes the index of what was added.
func (b *Builder) WriteTo(w io.Writer, id Identity) error {
	if id.ID == "" || len(id.ID) > maxID {
		return fmt.Errorf("index: build id of %d bytes", len(id.ID))
	}
	if int64(b.strings.Len()) > math.MaxUint32 || len(b.symbols) > maxRecords || len(b.frames) > maxRecords {
		return fmt.Errorf("index: too large")
	}
	var body []byte
	var count [sections]uint64
	for i, list := range [...][]entry{b.symbolRanges, b.frameRanges} {
		for _, e := range disjoint(list) {
			body = binary.LittleEndian.AppendUint64(body, e.start)
			body = binary.LittleEndian.AppendUint32(body, e.size)
			body = binary.LittleEndian.AppendUint32(body, e.ref)
			count[i]++
		}
	}
	for _, s := range b.symbols {
		body = binary.LittleEndian.AppendUint64(body, s.start)
		body = binary.LittleEndian.AppendUint64(body, s.end)
		body = binary.LittleEndian.AppendUint32(body, s.name)
		body = binary.LittleEndian.AppendUint32(body, s.linkage)
	}
	for _, f := range b.frames {
		for _, v := range [...]uint32{f.name, f.linkage, f.file, f.line, f.parent, f.flags} {
			body = binary.LittleEndian.AppendUint32(body, v)
		}
		body = binary.LittleEndian.AppendUint64(body, f.start)
	}
	body = append(body, b.strings.Bytes()...)
	count[secSymbols], count[secFrames], count[secStrings] = uint64(len(b.symbols)), uint64(len(b.frames)), uint64(b.strings.Len())

	var sums []byte
	for at := 0; at < len(body); at += blockSize {
		sums = binary.LittleEndian.AppendUint32(sums, crc32.Checksum(body[at:min(at+blockSize, len(body))], castagnoli))
	}
	h := make([]byte, 0, headerSize)
	h = append(h, magic...)
	h = binary.LittleEndian.AppendUint32(h, Version)
	h = binary.LittleEndian.AppendUint32(h, uint32(id.Quality))
	h = append(h, id.Sources[:]...)
	h = binary.LittleEndian.AppendUint32(h, uint32(len(id.ID)))
	h = append(h, id.ID...)
	h = append(h, make([]byte, maxID-len(id.ID))...)
	h = append(h, id.Layout[:]...)
	for _, n := range count {
		h = binary.LittleEndian.AppendUint64(h, n)
	}
	h = binary.LittleEndian.AppendUint32(h, crc32.Checksum(sums, castagnoli))
	h = append(h, make([]byte, headerSize-4-len(h))...)
	h = binary.LittleEndian.AppendUint32(h, crc32.Checksum(h, castagnoli))
	for _, p := range [...][]byte{h, body, sums} {
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	return nil
}

// disjoint sorts ranges and cuts those that overlap the one in front of them.
// Ranges that touch and say the same become one.
func disjoint(list []entry) []entry {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b entry) int { return cmp.Compare(a.start, b.start) })
	out := list[:0]
	for _, e := range list {
		if n := len(out); n > 0 {
			last := &out[n-1]
			if end := last.end(); e.start < end {
				if e.end() <= end {
					continue
				}
				e.size = uint32(e.end() - end)
				e.start = end
			}
			if last.end() == e.start && last.ref == e.ref && uint64(last.size)+uint64(e.size) <= math.MaxUint32 {
				last.size += e.size
				continue
			}
		}
		out = append(out, e)
	}
	return out
}
