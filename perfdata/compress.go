package perfdata

import (
	"bytes"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// A Compressor makes COMPRESSED records of records, as perf record -z does: one
// stream of zstd, that each of them is a piece of.
type Compressor struct {
	emit func(rec []byte) error
	big  bool
	enc  *zstd.Encoder
	out  bytes.Buffer
	rest []byte

	// In and Out are how many bytes of records became how many.
	In, Out uint64
}

// compressedPiece is how much becomes one record, in bytes: so much that it
// fits when it cannot be compressed.
const compressedPiece = 48 << 10

// NewCompressor returns a Compressor whose records, in the byte order of the
// recording, go to emit. The level is one of zstd, from 1 to 22.
func NewCompressor(level int, big bool, emit func(rec []byte) error) (*Compressor, error) {
	z := &Compressor{emit: emit, big: big}
	var err error
	z.enc, err = zstd.NewWriter(&z.out, zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(1<<20), zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
	return z, err
}

// Write takes whole records.
func (z *Compressor) Write(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), compressedPiece-len(z.rest))
		z.rest = append(z.rest, b[:n]...)
		b = b[n:]
		if len(z.rest) == compressedPiece {
			if err := z.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Flush emits what was written until now. It comes before any record that is
// not compressed, as records are read in the order in which they stand.
func (z *Compressor) Flush() error {
	if len(z.rest) == 0 {
		return nil
	}
	z.out.Reset()
	z.out.Write(make([]byte, 8))
	if _, err := z.enc.Write(z.rest); err != nil {
		return err
	}
	if err := z.enc.Flush(); err != nil {
		return err
	}
	b := z.out.Bytes()
	if len(b) > maxRecord {
		return fmt.Errorf("compressed records: %d bytes became %d", len(z.rest), len(b))
	}
	e := encoder{b: b[:0], order: appendOrder(z.big)}
	e.u32(uint32(RecordCompressed))
	e.u16(0)
	e.u16(uint16(len(b)))
	z.In += uint64(len(z.rest))
	z.Out += uint64(len(b))
	z.rest = z.rest[:0]
	return z.emit(b)
}
