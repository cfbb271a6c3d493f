package archive

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"

	"github.com/klauspost/compress/zstd"
	"github.com/klauspost/pgzip"
	"github.com/perfark/perfark/internal/bzip2"
	"github.com/perfark/perfark/internal/ordered"
	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"
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
		return newXZ(w, o), nil
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

// Sizes of zstd frames before compression, in bytes. Frames are the unit of
// parallel work, and of reading in place; those of a bundle are made for that.
// Smaller ones are larger together: of binaries, 4 MiB make 2 % more than 12.
const (
	zstdFrame   = 12 << 20
	bundleFrame = 4 << 20
)

// maxZstdWorkers bounds the memory of all workers. Two need 150 MB, each
// further one 60 MB; for a bundle it is half of that.
const maxZstdWorkers = 16

// A chunkWriter cuts a stream into chunks that are compressed by themselves.
type chunkWriter struct {
	size int // of a chunk, in bytes
	buf  []byte
	free chan []byte
	out  *ordered.Writer[[]byte]
}

// newChunks returns a writer of chunks. Every worker compresses with a function
// that start made for it; wrote, if not nil, is told the sizes of every chunk.
func newChunks(w io.Writer, size, workers int, start func() func(dst, src []byte) ([]byte, error), wrote func(in, out int)) *chunkWriter {
	depth := workers
	z := &chunkWriter{size: size, free: make(chan []byte, depth)}
	z.out = ordered.NewWriter(w, workers, depth, start)
	z.out.Wrote = func(src []byte, n int) {
		if wrote != nil {
			wrote(len(src), n)
		}
		select {
		case z.free <- src:
		default:
		}
	}
	return z
}

func (z *chunkWriter) Write(p []byte) (int, error) {
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

// flush ends the chunk.
func (z *chunkWriter) flush() error {
	if len(z.buf) == 0 {
		return z.out.Err()
	}
	b := z.buf
	z.buf = nil
	return z.out.Put(b)
}

// Cut does nothing: chunks are cut by size.
func (z *chunkWriter) Cut() error { return nil }

// Close writes the last chunk and waits for all workers.
func (z *chunkWriter) Close() error {
	err := z.flush()
	if e := z.out.Close(); err == nil {
		err = e
	}
	return err
}

// xzChunk is the size of an xz stream before compression, in bytes: that of
// the window of xz -6.
const xzChunk = 8 << 20

// newXZ writes streams, one after the other, which xz reads as one file.
func newXZ(w io.Writer, o EncodeOptions) *chunkWriter {
	return newChunks(w, xzChunk, min(o.Workers, 4), func() func(dst, src []byte) ([]byte, error) {
		return func(dst, src []byte) ([]byte, error) {
			b := bytes.NewBuffer(dst)
			z, err := xz.WriterConfig{DictCap: xzChunk, Matcher: lzma.HashTable4}.NewWriter(b)
			if err != nil {
				return nil, err
			}
			if _, err := z.Write(src); err != nil {
				return nil, err
			}
			err = z.Close()
			return b.Bytes(), err
		}
	}, nil)
}

// A zstdWriter writes independent frames, and the seek table behind them.
type zstdWriter struct {
	*chunkWriter
	w     io.Writer
	table []byte // entries of the seek table
}

func newZstd(w io.Writer, o EncodeOptions) *zstdWriter {
	if o.Format == Bundle {
		return zstdFrames(w, o, bundleFrame)
	}
	return zstdFrames(w, o, zstdFrame)
}

// zstdFrames returns a writer of frames of size bytes before compression.
func zstdFrames(w io.Writer, o EncodeOptions, size int) *zstdWriter {
	z := &zstdWriter{w: w}
	z.chunkWriter = newChunks(w, size, min(o.Workers, maxZstdWorkers), func() func(dst, src []byte) ([]byte, error) {
		e := &frameEncoder{level: o.Level, size: size}
		return e.encode
	}, func(in, out int) {
		z.table = binary.LittleEndian.AppendUint32(z.table, uint32(out))
		z.table = binary.LittleEndian.AppendUint32(z.table, uint32(in))
	})
	return z
}

// A frameEncoder makes zstd frames.
type frameEncoder struct {
	level   int // of --level
	size    int // of the largest frame, in bytes
	enc     [zstd.SpeedBestCompression + 1]*zstd.Encoder
	sampler *zstd.Encoder
}

// hardFrame is for the default level: a frame is compressed well instead of
// fast if samples of it do not shrink to less than this part of their size. So
// the outcome is no larger than that of bzip2, measured on 1.5 GB of large
// programs; that of the levels 1 to 3 is at most 5 % larger.
const hardFrame = 0.38

// encode appends a frame to dst.
func (e *frameEncoder) encode(dst, src []byte) ([]byte, error) {
	speed := zstd.SpeedBetterCompression
	switch {
	case e.level > 7:
		speed = zstd.SpeedBestCompression
	case e.level > 0 && e.level <= 3:
		speed = zstd.SpeedDefault
	case e.level == 0:
		part, err := e.sample(src)
		if err != nil {
			return nil, err
		}
		if part < hardFrame {
			speed = zstd.SpeedDefault
		}
	}
	if e.enc[speed] == nil {
		var err error
		if e.enc[speed], err = newFrames(speed, e.size); err != nil {
			return nil, err
		}
	}
	if cap(dst) == 0 {
		dst = make([]byte, 0, len(src)/2) // growing it would leave a trail
	}
	return e.enc[speed].EncodeAll(src, dst), nil
}

// newFrames returns an encoder of frames of at most size bytes. Its window is
// at least that: moving a window is slow.
func newFrames(speed zstd.EncoderLevel, size int) (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(speed), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(1<<bits.Len(uint(size-1))), zstd.WithEncoderCRC(true), zstd.WithLowerEncoderMem(true))
}

// sample returns the size of samples of src after compression as a part of
// what it was.
func (e *frameEncoder) sample(src []byte) (float64, error) {
	const samples, size = 8, 32 << 10
	if len(src) <= samples*size {
		return 1, nil
	}
	if e.sampler == nil {
		var err error
		if e.sampler, err = newFrames(zstd.SpeedDefault, size); err != nil {
			return 0, err
		}
	}
	var out []byte
	n := 0
	for i := range samples {
		at := len(src) / samples * i
		out = e.sampler.EncodeAll(src[at:at+size], out[:0])
		n += len(out)
	}
	return float64(n) / (samples * size), nil
}

// Cut ends the frame.
func (z *zstdWriter) Cut() error { return z.flush() }

// Close writes the last frame and the seek table.
func (z *zstdWriter) Close() error {
	if err := z.chunkWriter.Close(); err != nil {
		return err
	}
	_, err := z.w.Write(seekTable(z.table))
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
