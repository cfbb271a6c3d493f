package objfile

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"github.com/mikelolasagasti/xz"

	"github.com/perfark/perfark/internal/decode"
)

// maxWindow is the largest history a decompressor may keep, in bytes: what
// zstd -19 and xz -9 use.
const maxWindow = 64 << 20

// Compressed data may grow to maxRatio times its size and maxGrowth bytes
// more. Real sections and modules grow three- to tenfold, bombs by thousands.
const (
	maxRatio  = 100
	maxGrowth = 64 << 20
)

// admit returns how many bytes may come out of n compressed bytes.
func admit(n int64, b *decode.Budget) int64 {
	if n > math.MaxInt64/maxRatio/2 {
		return b.Left()
	}
	return min(n*maxRatio+maxGrowth, b.Left())
}

// Decompress returns what is inside a file compressed with gzip, xz or zstd,
// as kernel modules are, recognised by its first bytes. It is decompressed
// into memory, within the budget. A file that is not compressed is returned
// as it is. What is inside is not decompressed again.
func Decompress(r io.ReaderAt, size int64, b *decode.Budget) (io.ReaderAt, int64, error) {
	var magic [6]byte
	if n, _ := r.ReadAt(magic[:], 0); n < len(magic) {
		return r, size, nil
	}
	open := opener(magic[:])
	if open == nil {
		return r, size, nil
	}
	z, done, err := open(io.NewSectionReader(r, 0, size))
	if err != nil {
		return nil, 0, fmt.Errorf("decompress: %w", err)
	}
	defer done()
	out, err := readBounded(z, admit(size, b), b, "decompressed file")
	if err != nil {
		return nil, 0, err
	}
	return bytes.NewReader(out), int64(len(out)), nil
}

type openFunc func(io.Reader) (z io.Reader, done func(), err error)

// opener returns the decompressor for data that begins with magic, or nil.
func opener(magic []byte) openFunc {
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return func(r io.Reader) (io.Reader, func(), error) {
			z, err := gzip.NewReader(r)
			return z, func() {}, err
		}
	case bytes.HasPrefix(magic, []byte("\xfd7zXZ\x00")):
		return openXZ
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return openZstd
	}
	return nil
}

func openXZ(r io.Reader) (io.Reader, func(), error) {
	z, err := xz.NewReader(r, maxWindow)
	return z, func() {}, err
}

func openZstd(r io.Reader) (io.Reader, func(), error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(math.MaxInt64))
	if err != nil {
		return nil, nil, err
	}
	return z, z.Close, nil
}

// readBounded reads all of r, at most limit bytes. It allocates as data
// comes, never by what the data says of itself.
func readBounded(r io.Reader, limit int64, b *decode.Budget, what string) ([]byte, error) {
	var out []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if int64(len(out)+n) > limit {
			return nil, &decode.LimitError{What: what, Limit: limit, Want: int64(len(out) + n), Option: "--max-input-bytes"}
		}
		if err := b.Alloc(int64(n), what); err != nil {
			return nil, err
		}
		if len(out)+n > cap(out) {
			grown := make([]byte, len(out), min(max(2*int64(cap(out)), int64(len(buf))), max(limit, int64(len(out)+n))))
			copy(grown, out)
			out = grown
		}
		out = append(out, buf[:n]...)
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		if n == 0 {
			if err := b.Step(1, what); err != nil {
				return nil, err
			}
		}
	}
}

// Compression types of Elf32_Chdr and Elf64_Chdr.
const (
	compressZlib = 1
	compressZstd = 2
)

// Section returns the contents of the first section of that name,
// decompressed, and nil if there is none. It accepts the old form too, where
// .debug_info is named .zdebug_info. The contents of one file may not grow
// beyond 100 times its size and 64 MiB, nor beyond its budget.
func (f *File) Section(name string) ([]byte, error) {
	s := f.section(name)
	if s == nil && len(name) > 1 && name[0] == '.' {
		s = f.section(".z" + name[1:])
	}
	if s == nil || s.typ == shtNobits {
		return nil, nil
	}
	b, err := f.contents(s)
	if err != nil {
		return nil, fmt.Errorf("%s: section %s: %w", f.name, name, err)
	}
	return b, nil
}

// contents returns the bytes of a section, decompressed.
func (f *File) contents(s *section) ([]byte, error) {
	b, err := f.read(s.off, s.size, s.name)
	if err != nil {
		return nil, err
	}
	c := decode.NewCursor(b, int64(s.off), f.big)
	switch {
	case s.flags&shfCompressed != 0:
		typ := c.Uint32("ch_type")
		if f.class == 64 {
			c.Skip(4, "ch_reserved")
		}
		size := f.word(&c, "ch_size")
		f.word(&c, "ch_addralign")
		if err := c.Err(); err != nil {
			return nil, err
		}
		return f.inflate(typ, c.Rest(), size, s.name)
	case len(s.name) > 7 && s.name[:7] == ".zdebug" && bytes.HasPrefix(b, []byte("ZLIB")):
		c = decode.NewCursor(b, int64(s.off), true)
		c.Skip(4, "zdebug.magic")
		size := c.Uint64("zdebug.size")
		if err := c.Err(); err != nil {
			return nil, err
		}
		return f.inflate(compressZlib, c.Rest(), size, s.name)
	}
	return b, nil
}

// inflate decompresses b, which must give exactly size bytes.
func (f *File) inflate(typ uint32, b []byte, size uint64, what string) ([]byte, error) {
	limit := min(f.size*maxRatio+maxGrowth-f.admitted, f.budget.Left())
	if size > uint64(max(limit, 0)) {
		return nil, &decode.LimitError{What: what, Limit: limit, Want: int64(min(size, math.MaxInt64)), Option: "--max-input-bytes"}
	}
	var z io.Reader
	switch typ {
	case compressZlib:
		r, err := zlib.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		z = r
	case compressZstd:
		r, done, err := openZstd(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		defer done()
		z = r
	default:
		return nil, fmt.Errorf("ch_type is %d, want 1 (zlib) or 2 (zstd)", typ)
	}
	out, err := readBounded(z, int64(size), f.budget, what)
	if err != nil {
		var l *decode.LimitError
		if errors.As(err, &l) && l.Limit == int64(size) {
			return nil, fmt.Errorf("holds more than the %d bytes of its ch_size", size)
		}
		return nil, err
	}
	if uint64(len(out)) != size {
		return nil, fmt.Errorf("holds %d bytes, but its ch_size is %d", len(out), size)
	}
	f.admitted += int64(size)
	return out, nil
}
