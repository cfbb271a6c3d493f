package archive

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/klauspost/pgzip"
	"github.com/perfark/perfark/internal/bzip2"
	"github.com/perfark/perfark/internal/ordered"
	"github.com/ulikunitz/xz"
)

// blockSize is the unit of tar.
const blockSize = 512

func newEncoder(w io.Writer, o EncodeOptions) (encoder, error) {
	switch o.Format {
	case Bzip2:
		return plain{bzip2.NewWriter(w, bzip2.Options{Level: o.Level, Workers: o.Workers})}, nil
	case Zstd, Bundle:
		return newZstd(w, o), nil
	case Gzip:
		z, err := pgzip.NewWriterLevel(w, gzipLevel(o.Level))
		if err != nil {
			return nil, err
		}
		if err := z.SetConcurrency(1<<20, o.Workers); err != nil {
			return nil, err
		}
		return plain{z}, nil
	case XZ:
		z, err := xz.NewWriter(w)
		if err != nil {
			return nil, err
		}
		return plain{z}, nil
	case Tar:
		return plain{nopCloser{w}}, nil
	}
	return nil, fmt.Errorf("%v: cannot be written", o.Format)
}

func gzipLevel(level int) int {
	if level == 0 {
		return 6
	}
	return min(max(level, 1), 9)
}

// plain is an encoder of a format without frames.
type plain struct{ io.WriteCloser }

func (plain) Cut() error { return nil }

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// Sizes of zstd frames before compression, in bytes. The frames of a bundle
// are read one at a time; those of a .tar.zst are the unit of parallel work.
const (
	bundleFrame = 1 << 20
	zstdFrame   = 8 << 20
)

// A zstdWriter writes independent frames, and for a bundle the seek table.
type zstdWriter struct {
	size  int
	buf   []byte
	free  chan []byte
	out   *ordered.Writer[[]byte]
	w     io.Writer
	table []byte // entries of the seek table, if seek is set
	seek  bool
}

func newZstd(w io.Writer, o EncodeOptions) *zstdWriter {
	z := &zstdWriter{size: zstdFrame, w: w, seek: o.Format == Bundle}
	if z.seek {
		z.size = bundleFrame
	}
	workers := min(o.Workers, 64)
	if !z.seek {
		workers = min(o.Workers, 4)
	}
	depth := 2 * workers
	z.free = make(chan []byte, depth)
	level := zstdLevel(o.Level)
	z.out = ordered.NewWriter(w, workers, depth, func() func(dst, src []byte) ([]byte, error) {
		enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1),
			zstd.WithWindowSize(z.size), zstd.WithEncoderCRC(true), zstd.WithLowerEncoderMem(true))
		return func(dst, src []byte) ([]byte, error) {
			if err != nil {
				return nil, err
			}
			return enc.EncodeAll(src, dst), nil
		}
	})
	z.out.Wrote = func(src []byte, n int) {
		if z.seek {
			z.table = binary.LittleEndian.AppendUint32(z.table, uint32(n))
			z.table = binary.LittleEndian.AppendUint32(z.table, uint32(len(src)))
		}
		select {
		case z.free <- src:
		default:
		}
	}
	return z
}

func zstdLevel(level int) zstd.EncoderLevel {
	switch {
	case level == 0:
		return zstd.SpeedBetterCompression
	case level <= 1:
		return zstd.SpeedFastest
	case level <= 3:
		return zstd.SpeedDefault
	case level <= 7:
		return zstd.SpeedBetterCompression
	}
	return zstd.SpeedBestCompression
}

func (z *zstdWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if z.buf == nil {
			select {
			case z.buf = <-z.free:
				z.buf = z.buf[:0]
			default:
				z.buf = make([]byte, 0, z.size)
			}
		}
		k := min(len(p), z.size-len(z.buf))
		z.buf = append(z.buf, p[:k]...)
		p = p[k:]
		if len(z.buf) == z.size {
			if err := z.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (z *zstdWriter) flush() error {
	if len(z.buf) == 0 {
		return z.out.Err()
	}
	b := z.buf
	z.buf = nil
	return z.out.Put(b)
}

// Cut ends the frame of a bundle, so that every member has its own.
func (z *zstdWriter) Cut() error {
	if !z.seek {
		return nil
	}
	return z.flush()
}

// Close writes the last frame and the seek table.
func (z *zstdWriter) Close() error {
	err := z.flush()
	if e := z.out.Close(); err == nil {
		err = e
	}
	if err != nil || !z.seek {
		return err
	}
	_, err = z.w.Write(seekTable(z.table))
	return err
}

// Magic numbers of the seekable format, a convention of zstd's
// contrib/seekable_format: the table is a skippable frame at the end.
const (
	skippableMagic = 0x184d2a5e
	seekableMagic  = 0x8f92eab1
)

// seekTable returns the frame that holds a seek table without checksums.
func seekTable(entries []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, skippableMagic)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(entries)+9))
	b = append(b, entries...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(entries)/8))
	b = append(b, 0) // descriptor: no checksums
	return binary.LittleEndian.AppendUint32(b, seekableMagic)
}
