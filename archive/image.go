package archive

import (
	"bytes"
	stdbzip2 "compress/bzip2"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/mikelolasagasti/xz"

	"github.com/perfark/perfark/internal/ordered"
)

// Limits bounds what an archive from outside may cost. The zero value uses
// the defaults.
type Limits struct {
	MaxBytes int64 // of its members, and of it when decompressed; 0 means 64 GiB (--max-bytes)
	MaxFiles int   // members; 0 means 1,000,000 (--max-files)
	MaxRatio int   // bytes out per byte in, beyond the first 16 MiB; 0 means 250 (--max-ratio)
}

func (l Limits) withDefaults() Limits {
	if l.MaxBytes <= 0 {
		l.MaxBytes = 64 << 30
	}
	if l.MaxFiles <= 0 {
		l.MaxFiles = 1_000_000
	}
	if l.MaxRatio <= 0 {
		l.MaxRatio = 250
	}
	return l
}

// ratioFree is what an archive may decompress to whatever its size, in bytes.
const ratioFree = 16 << 20

// check fails if out bytes are too many for in bytes.
func (l Limits) check(in, out int64) error {
	if out > l.MaxBytes {
		return fmt.Errorf("decompresses to more than %d bytes; raise the limit with --max-bytes", l.MaxBytes)
	}
	if out > ratioFree && out/int64(l.MaxRatio) > in {
		return fmt.Errorf("%d bytes decompress to %d or more, over the limit of %d times; raise it with --max-ratio", in, out, l.MaxRatio)
	}
	return nil
}

// A packing is how a file is compressed.
type packing uint8

const (
	packUnknown packing = iota
	packTar             // not at all
	packBzip2
	packZstd
	packGzip
	packXZ
)

// packingOf tells it by the first bytes.
func packingOf(b []byte) packing {
	switch {
	case len(b) >= 4 && string(b[:3]) == "BZh" && b[3] >= '1' && b[3] <= '9':
		return packBzip2
	case len(b) >= 4 && string(b[:4]) == "\x28\xb5\x2f\xfd",
		len(b) >= 4 && b[0]&0xf0 == 0x50 && string(b[1:4]) == "\x2a\x4d\x18": // skippable frame
		return packZstd
	case len(b) >= 2 && string(b[:2]) == "\x1f\x8b":
		return packGzip
	case len(b) >= 6 && string(b[:6]) == "\xfd7zXZ\x00":
		return packXZ
	case len(b) >= blockSize && string(b[257:262]) == "ustar":
		return packTar
	}
	return packUnknown
}

// Memory that the decoders may use for their windows, in bytes.
const maxWindow = 128 << 20

// An image is the plain tar inside an archive.
type image struct {
	io.ReaderAt
	size  int64
	close []func() error
}

// Close frees it.
func (m *image) Close() error {
	var errs []error
	for _, f := range m.close {
		errs = append(errs, f())
	}
	m.close = nil
	return errors.Join(errs...)
}

// ErrNotArchive is wrapped by the error of Open for a file that is neither a
// tar nor compressed.
var ErrNotArchive = errors.New("not an archive")

// openImage returns the tar in a file of size bytes. What cannot be read at
// any place is decompressed to a temporary file.
func openImage(ctx context.Context, r io.ReaderAt, size int64, o OpenOptions) (*image, error) {
	head := make([]byte, min(size, blockSize))
	if err := readFull(r, head, 0); err != nil {
		return nil, err
	}
	lim := o.Limits.withDefaults()
	p := packingOf(head)
	switch p {
	case packUnknown:
		return nil, fmt.Errorf("%w: begins with %q", ErrNotArchive, head[:min(len(head), 8)])
	case packTar:
		return &image{ReaderAt: r, size: size}, nil
	case packZstd:
		s, err := newSeekable(r, size, runtime.GOMAXPROCS(0))
		if err == nil {
			if err := lim.check(size, s.size); err != nil {
				s.Close()
				return nil, err
			}
			return &image{ReaderAt: s, size: s.size, close: []func() error{s.Close}}, nil
		}
		if err != errNoTable {
			return nil, err
		}
	}
	f, err := tempFile(o.Temp)
	if err != nil {
		return nil, err
	}
	w := &limited{ctx: ctx, w: f, lim: lim, progress: o.Progress, total: size}
	err = decompress(w, r, size, p)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &image{ReaderAt: f, size: w.n, close: []func() error{f.Close}}, nil
}

// tempFile makes a file that has no name.
func tempFile(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, ".perfark-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// limited writes what is decompressed, within the limits.
type limited struct {
	ctx      context.Context
	w        io.Writer
	n        int64 // bytes written
	in       counter
	lim      Limits
	progress Progress
	total    int64 // size of the input
}

func (l *limited) Write(p []byte) (int, error) {
	if err := l.ctx.Err(); err != nil {
		return 0, err
	}
	if err := l.lim.check(l.in.n.Load(), l.n+int64(len(p))); err != nil {
		return 0, err
	}
	n, err := l.w.Write(p)
	l.n += int64(n)
	if l.progress != nil {
		l.progress(l.in.n.Load(), l.total, "decompressing")
	}
	return n, err
}

// decompress writes the contents of r to w.
func decompress(w *limited, r io.ReaderAt, size int64, p packing) error {
	at := int64(0)
	if p == packBzip2 {
		var err error
		if at, err = parallelBzip2(w, r, size); err != nil || at == size {
			return err
		}
	}
	w.in.r = io.NewSectionReader(r, at, size-at)
	w.in.n.Store(at)
	var z io.Reader
	switch p {
	case packBzip2:
		z = stdbzip2.NewReader(&w.in)
	case packGzip:
		g, err := gzip.NewReader(&w.in)
		if err != nil {
			return fmt.Errorf("gzip: %w", err)
		}
		z = g
	case packXZ:
		x, err := xz.NewReader(&w.in, maxWindow)
		if err != nil {
			return fmt.Errorf("xz: %w", err)
		}
		z = x
	case packZstd:
		d, err := zstd.NewReader(&w.in, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(math.MaxInt64))
		if err != nil {
			return fmt.Errorf("zstd: %w", err)
		}
		defer d.Close()
		z = d
	}
	_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{z}, make([]byte, 1<<20))
	if err == io.ErrUnexpectedEOF {
		return fmt.Errorf("cut off at %d bytes: %w", size, err)
	}
	return err
}

// A bzPiece of a bzip2 file is a number of whole streams, or looks so.
type bzPiece struct {
	data []byte
	end  int64 // in the file
	ok   bool
}

// Limits of a piece, in bytes: compressed, and decompressed. What is larger is
// not decompressed in parallel.
const (
	maxPieceIn  = 4 << 20
	maxPieceOut = 64 << 20
)

var errPiece = errors.New("not a bzip2 stream by itself")

// parallelBzip2 decompresses the streams that r begins with, as long as they
// are small, and returns where it stopped. The bytes that separate streams
// may stand inside one too, so what does not decompress by itself is no error
// here: all before it was right.
func parallelBzip2(w *limited, r io.ReaderAt, size int64) (int64, error) {
	var done int64
	workers := min(runtime.GOMAXPROCS(0), 4)
	out := ordered.NewWriter(w, workers, 2*workers, func() func(dst []byte, p *bzPiece) ([]byte, error) {
		return func(dst []byte, p *bzPiece) ([]byte, error) {
			b := bytes.NewBuffer(dst)
			n, err := io.Copy(b, io.LimitReader(stdbzip2.NewReader(bytes.NewReader(p.data)), maxPieceOut))
			if err != nil || n == maxPieceOut {
				return nil, errPiece
			}
			p.ok = true
			return b.Bytes(), nil
		}
	})
	out.Wrote = func(p *bzPiece, _ int) {
		if p.ok && out.Err() == nil {
			done = p.end
			w.in.n.Store(done)
		}
	}
	err := bzip2Pieces(r, size, out.Put)
	if e := out.Close(); e != nil {
		err = e
	}
	if err == errPiece {
		err = nil
	}
	return done, err
}

// bzip2Pieces cuts r where a stream may begin. It stops with errPiece where
// the next piece would be too large.
func bzip2Pieces(r io.ReaderAt, size int64, put func(*bzPiece) error) error {
	magic := []byte("1AY&SY") // of a block; a stream has four bytes before it
	buf := make([]byte, 0, 1<<20)
	for at := int64(0); at < size; {
		// buf holds r from at on; its first bytes begin a stream.
		cut := -1
		from := 10
		for cut < 0 {
			if i := bytes.Index(buf[min(from, len(buf)):], magic); i >= 0 {
				i += from
				if string(buf[i-4:i-1]) == "BZh" {
					cut = i - 4
					break
				}
				from = i + 1
				continue
			}
			from = max(len(buf)-len(magic), 10)
			n := min(1<<20, size-at-int64(len(buf)))
			if n == 0 {
				cut = len(buf)
				break
			}
			if len(buf) > maxPieceIn {
				return errPiece
			}
			k := len(buf)
			buf = append(buf, make([]byte, n)...)
			if err := readFull(r, buf[k:], at+int64(k)); err != nil {
				return err
			}
		}
		if err := put(&bzPiece{data: bytes.Clone(buf[:cut]), end: at + int64(cut)}); err != nil {
			return err
		}
		buf = append(buf[:0], buf[cut:]...)
		at += int64(cut)
	}
	return nil
}
