package index

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/objfile"
)

// maxID is the room for a Build ID in the header, in bytes.
const maxID = buildid.MaxSize

// countsAt is where the header has the numbers of records.
const countsAt = 52 + maxID + 32

// A File is an open index. It reads blocks of its io.ReaderAt when they are
// needed, and compares the checksum of each. It is for one goroutine at a time.
type File struct {
	Identity

	r     io.ReaderAt
	off   [sections]int64
	count [sections]int64
	body  int64 // bytes
	sums  []byte
	close func() error

	blocks [][]byte // those that were read and are sound
	texts  []string // by block: the same, if there are strings in it
	hint   [2]int64 // where the last look-up in the ranges ended
}

// Open reads the header of an index of size bytes. The error wraps ErrDamaged
// if it is none, or not whole.
func Open(r io.ReaderAt, size int64) (*File, error) {
	if size < headerSize {
		return nil, damaged("%d bytes", size)
	}
	h := make([]byte, headerSize)
	if err := readFull(r, h, 0); err != nil {
		return nil, err
	}
	if string(h[:8]) != magic {
		return nil, damaged("begins with %q", h[:8])
	}
	if v := binary.LittleEndian.Uint32(h[8:]); v != Version {
		return nil, damaged("version %d, but this perfark reads %d", v, Version)
	}
	if crc32.Checksum(h[:headerSize-4], castagnoli) != binary.LittleEndian.Uint32(h[headerSize-4:]) {
		return nil, damaged("offset 0x0: header: wrong checksum")
	}
	f := &File{r: r}
	f.Quality = objfile.Quality(binary.LittleEndian.Uint32(h[12:]))
	copy(f.Sources[:], h[16:])
	n := binary.LittleEndian.Uint32(h[48:])
	if n == 0 || n > maxID {
		return nil, damaged("offset 0x30: build id of %d bytes", n)
	}
	f.ID = buildid.ID(h[52 : 52+n])
	copy(f.Layout[:], h[52+maxID:])
	at := int64(headerSize)
	for i := range f.count {
		n := binary.LittleEndian.Uint64(h[countsAt+8*i:])
		limit := uint64(maxRecords)
		if i == secStrings {
			limit = math.MaxUint32
		}
		if n > limit || int64(n)*recordSize[i] > size-at {
			return nil, damaged("offset %#x: section %d: %d records, but the file has %d bytes", countsAt+8*i, i, n, size)
		}
		f.off[i], f.count[i] = at, int64(n)
		at += int64(n) * recordSize[i]
	}
	f.body = at - headerSize
	blocks := (f.body + blockSize - 1) / blockSize
	if at+4*blocks != size {
		return nil, damaged("%d bytes, want %d", size, at+4*blocks)
	}
	f.blocks, f.texts = make([][]byte, blocks), make([]string, blocks)
	f.sums = make([]byte, 4*blocks)
	if err := readFull(r, f.sums, at); err != nil {
		return nil, err
	}
	if crc32.Checksum(f.sums, castagnoli) != binary.LittleEndian.Uint32(h[countsAt+8*sections:]) {
		return nil, damaged("offset %#x: checksums: wrong checksum", at)
	}
	return f, nil
}

// Close closes what Cache.Get opened.
func (f *File) Close() error {
	if f.close == nil {
		return nil
	}
	return f.close()
}

// Len returns how many ranges of addresses the index knows.
func (f *File) Len() int { return int(f.count[secSymbolRanges] + f.count[secFrameRanges]) }

// Symbols returns the number of symbols, which FindSymbol's are not above.
func (f *File) Symbols() int { return int(f.count[secSymbols]) }

func readFull(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		return damaged("offset %#x: %d bytes wanted, but only %d follow", off, len(b), n)
	}
	return fmt.Errorf("offset %#x: %w", off, err)
}

// block returns a block of the body, read and compared with its checksum.
func (f *File) block(i int64) ([]byte, error) {
	if i < 0 || i >= int64(len(f.blocks)) {
		return nil, damaged("offset %#x: beyond the end", headerSize+i*blockSize)
	}
	if b := f.blocks[i]; b != nil {
		return b, nil
	}
	at := i * blockSize
	b := make([]byte, min(blockSize, f.body-at))
	if err := readFull(f.r, b, headerSize+at); err != nil {
		return nil, err
	}
	if crc32.Checksum(b, castagnoli) != binary.LittleEndian.Uint32(f.sums[4*i:]) {
		return nil, damaged("offset %#x: block: wrong checksum", headerSize+at)
	}
	f.blocks[i] = b
	return b, nil
}

// bytes returns n bytes at off in the file, which are in the body. They may
// alias a block.
func (f *File) bytes(off, n int64) ([]byte, error) {
	at := off - headerSize
	if at < 0 || n < 0 || at > f.body-n {
		return nil, damaged("offset %#x: %d bytes wanted, beyond the end", off, n)
	}
	b, err := f.block(at / blockSize)
	if err != nil || n == 0 {
		return nil, err
	}
	b = b[at%blockSize:]
	if int64(len(b)) >= n {
		return b[:n], nil
	}
	out := append(make([]byte, 0, n), b...)
	for int64(len(out)) < n {
		at += int64(len(b))
		if b, err = f.block(at / blockSize); err != nil {
			return nil, err
		}
		b = b[:min(int64(len(b)), n-int64(len(out)))]
		out = append(out, b...)
	}
	return out, nil
}

// record returns record i of a section.
func (f *File) record(sec int, i int64) ([]byte, error) {
	if i < 0 || i >= f.count[sec] {
		return nil, damaged("offset %#x: record %d of %d", f.off[sec], i, f.count[sec])
	}
	return f.bytes(f.off[sec]+i*recordSize[sec], recordSize[sec])
}

// entry returns range i of a section. Ranges never cross the end of a block:
// they are in front of all else, and of a size that divides that of a block.
func (f *File) entry(sec int, i int64) (entry, error) {
	if i < 0 || i >= f.count[sec] {
		return entry{}, damaged("offset %#x: record %d of %d", f.off[sec], i, f.count[sec])
	}
	at := f.off[sec] - headerSize + i*rangeSize
	b := f.blocks[at/blockSize]
	if b == nil {
		var err error
		if b, err = f.block(at / blockSize); err != nil {
			return entry{}, err
		}
	}
	b = b[at%blockSize:][:rangeSize]
	return entry{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])}, nil
}

// each calls do for all ranges of a section.
func (f *File) each(sec int, do func(entry) error) error {
	for i := range f.count[sec] {
		e, err := f.entry(sec, i)
		if err != nil {
			return err
		}
		if e.start > math.MaxUint64-uint64(e.size) {
			return damaged("offset %#x: range: it has no end", f.off[sec]+rangeSize*i)
		}
		if err := do(e); err != nil {
			return err
		}
	}
	return nil
}

// find returns the range that holds an address. It begins where it found the
// last one: who asks for addresses in their order reads each block once.
func (f *File) find(sec int, addr uint64) (ref uint32, ok bool, err error) {
	lo, hi := int64(0), f.count[sec] // the first that begins behind addr is in [lo, hi]
	for at, step := f.hint[sec], int64(1); at < hi; at, step = at+step, 2*step {
		e, err := f.entry(sec, at)
		if err != nil {
			return 0, false, err
		}
		if e.start > addr {
			hi = at
			break
		}
		lo = at + 1
	}
	for lo < hi {
		mid := int64(uint64(lo+hi) >> 1)
		e, err := f.entry(sec, mid)
		if err != nil {
			return 0, false, err
		}
		if e.start <= addr {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return 0, false, nil
	}
	f.hint[sec] = lo - 1
	e, err := f.entry(sec, lo-1)
	if err != nil || addr-e.start >= uint64(e.size) {
		return 0, false, err
	}
	return e.ref, true, nil
}

// FindSymbol looks up an address. It returns a number for Symbol, equal for
// equal symbols, 0 if no symbol holds the address. ok is false if the index
// does not know the address.
func (f *File) FindSymbol(addr uint64) (ref uint32, ok bool, err error) {
	return f.find(secSymbolRanges, addr)
}

// FindFrames looks up an address. It returns a number for Frames, equal for
// equal frames, 0 if nothing is known there. ok is false if the index does not
// know the address.
func (f *File) FindFrames(addr uint64) (ref uint32, ok bool, err error) {
	return f.find(secFrameRanges, addr)
}

// Symbol returns the symbol of a number that FindSymbol gave.
func (f *File) Symbol(ref uint32) (s Symbol, err error) {
	b, err := f.record(secSymbols, int64(ref)-1)
	if err != nil {
		return s, err
	}
	s.Start, s.End = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	name, linkage := binary.LittleEndian.Uint32(b[16:]), binary.LittleEndian.Uint32(b[20:])
	if s.Name, err = f.String(name); err != nil {
		return s, err
	}
	if s.Linkage = s.Name; linkage != name {
		s.Linkage, err = f.String(linkage)
	}
	return s, err
}

// A Record is a frame as it is kept: its strings are numbers for
// [File.String]. Equal ones are equal strings.
type Record struct {
	Name, Linkage, File uint32
	Line                uint32
	Start               uint64
	Mangled             bool
}

// Records appends to buf the frames of a number that FindFrames gave,
// innermost first.
func (f *File) Records(ref uint32, buf []Record) ([]Record, error) {
	for n := 0; ref != 0; n++ {
		b, err := f.record(secFrames, int64(ref)-1)
		if err != nil {
			return buf, err
		}
		parent := binary.LittleEndian.Uint32(b[16:])
		if parent >= ref || n == maxChain {
			// Records come after those they stand in, so chains end.
			return buf, damaged("offset %#x: frame: it stands in frame %d", f.off[secFrames]+32*(int64(ref)-1), parent)
		}
		buf = append(buf, Record{
			Name:    binary.LittleEndian.Uint32(b),
			Linkage: binary.LittleEndian.Uint32(b[4:]),
			File:    binary.LittleEndian.Uint32(b[8:]),
			Line:    binary.LittleEndian.Uint32(b[12:]),
			Mangled: binary.LittleEndian.Uint32(b[20:])&flagMangled != 0,
			Start:   binary.LittleEndian.Uint64(b[24:]),
		})
		ref = parent
	}
	return buf, nil
}

// Frames appends to buf the frames of a number that FindFrames gave, innermost
// first.
func (f *File) Frames(ref uint32, buf []Frame) ([]Frame, error) {
	list, err := f.Records(ref, nil)
	for _, r := range list {
		fr := Frame{Line: r.Line, Start: r.Start, Mangled: r.Mangled}
		for i, s := range [...]*string{&fr.Name, &fr.Linkage, &fr.File} {
			var serr error
			if *s, serr = f.String([...]uint32{r.Name, r.Linkage, r.File}[i]); serr != nil {
				return buf, serr
			}
		}
		buf = append(buf, fr)
	}
	return buf, err
}

// String returns the string of a number that is in a Record.
func (f *File) String(at uint32) (string, error) {
	left := f.count[secStrings] - int64(at)
	if left <= 0 {
		return "", damaged("offset %#x: string %#x of %d bytes", f.off[secStrings], at, f.count[secStrings])
	}
	off := f.off[secStrings] + int64(at)
	if s, ok := f.text(off); ok {
		return s, nil
	}
	b, err := f.bytes(off, min(left, 4))
	if err != nil {
		return "", err
	}
	n, size := binary.Uvarint(b)
	if size <= 0 || n > maxString || int64(n) > left-int64(size) {
		return "", damaged("offset %#x: string of %d bytes", off, n)
	}
	b, err = f.bytes(off+int64(size), int64(n))
	return string(b), err
}

// text returns the string at off in the file, as a part of a string of the
// whole block, if it is short and ends in the block.
func (f *File) text(off int64) (string, bool) {
	i, at := (off-headerSize)/blockSize, (off-headerSize)%blockSize
	if f.texts[i] == "" {
		b, err := f.block(i)
		if err != nil {
			return "", false
		}
		f.texts[i] = string(b)
	}
	s := f.texts[i][at:]
	if len(s) == 0 || s[0] >= 0x80 || len(s) <= int(s[0]) {
		return "", false
	}
	return s[1:][:s[0]], true
}
