// Package bzip2 writes bzip2 files on many cores. The standard library reads
// them but does not write them.
//
// Every block is a stream of its own, and the streams stand one after the
// other, as pbzip2 does it: bzip2, tar and compress/bzip2 read the result as
// one file. The bytes do not depend on the number of workers or on how the
// input was cut into writes.
//
// The format is described in "BZIP2: Format Specification" by Joe Tsai.
package bzip2

import (
	"errors"
	"io"
	"runtime"

	"github.com/perfark/perfark/internal/ordered"
)

// Options says how to compress. The zero value compresses best.
type Options struct {
	Level   int // size of blocks in units of 100,000 bytes, 1 to 9; 0 means 9
	Workers int // 0 means one per CPU
}

// A Writer compresses what is written to it.
type Writer struct {
	level  int
	max    int    // bytes in a block
	buf    []byte // the block after the run-length encoding
	crc    uint32 // of the raw bytes in buf
	last   byte   // the byte of the run at the end of buf
	run    int    // its length, 0 to maxRun
	blocks int
	out    *ordered.Writer[block]
	free   chan []byte
	closed bool
}

// A block is the input of one worker.
type block struct {
	level int
	data  []byte // after the run-length encoding
	crc   uint32 // before it
}

// maxRun is the longest run that one count byte can stand for.
const maxRun = 4 + 255

// maxWorkers keeps the memory of all workers below 200 MB. A worker and its
// share of the queue need about 25 MB.
const maxWorkers = 6

// NewWriter returns a Writer to w. Close must be called.
func NewWriter(w io.Writer, o Options) *Writer {
	if o.Level <= 0 || o.Level > 9 {
		o.Level = 9
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	workers := min(o.Workers, maxWorkers)
	depth := workers + 2
	z := &Writer{level: o.Level, max: 100_000*o.Level - 19, free: make(chan []byte, depth+1)}
	z.buf = make([]byte, 0, z.max)
	z.crc = ^uint32(0)
	z.out = ordered.NewWriter(w, workers, depth, func() func(dst []byte, b block) ([]byte, error) {
		var e encoder
		return func(dst []byte, b block) ([]byte, error) {
			return e.stream(dst, b), nil
		}
	})
	z.out.Wrote = func(b block, _ int) {
		select {
		case z.free <- b.data:
		default:
		}
	}
	return z
}

// Write compresses p. It returns the first error of the underlying writer,
// perhaps some writes later.
func (z *Writer) Write(p []byte) (int, error) {
	if z.closed {
		return 0, errors.New("bzip2: write after close")
	}
	start := 0 // of the bytes whose checksum is due
	for i := 0; i < len(p); {
		x := p[i]
		if z.run > 0 && x == z.last {
			z.run++
			if z.run <= 4 {
				z.buf = append(z.buf, x)
			}
			if z.run == maxRun {
				z.endRun()
			}
			i++
			continue
		}
		z.endRun()
		if len(z.buf)+5 > z.max {
			z.crc = updateCRC(z.crc, p[start:i])
			start = i
			if err := z.flush(); err != nil {
				return 0, err
			}
		}
		z.buf = append(z.buf, x)
		z.last, z.run = x, 1
		i++
		// Most bytes start a run of one: take them without looking back.
		room := min(len(p), i+z.max-5-len(z.buf))
		from := i
		for i < room && p[i] != p[i-1] {
			i++
		}
		if i > from {
			z.buf = append(z.buf, p[from:i]...)
			z.last = p[i-1]
		}
	}
	z.crc = updateCRC(z.crc, p[start:])
	return len(p), nil
}

// endRun writes the count of a run of four or more.
func (z *Writer) endRun() {
	if z.run >= 4 {
		z.buf = append(z.buf, byte(z.run-4))
	}
	z.run = 0
}

func (z *Writer) flush() error {
	err := z.out.Put(block{z.level, z.buf, ^z.crc})
	z.blocks++
	z.crc = ^uint32(0)
	select {
	case z.buf = <-z.free:
		z.buf = z.buf[:0]
	default:
		z.buf = make([]byte, 0, z.max)
	}
	return err
}

// Close compresses what is left and waits for all workers. It does not close
// the underlying writer.
func (z *Writer) Close() error {
	if z.closed {
		return z.out.Err()
	}
	z.closed = true
	z.endRun()
	var err error
	if len(z.buf) > 0 || z.blocks == 0 {
		err = z.flush()
	}
	if e := z.out.Close(); err == nil {
		err = e
	}
	return err
}

// crcTable is the table of CRC-32 with its bits in the order bzip2 has them:
// the polynomial 0x04c11db7, most significant bit first. Row k is for a byte
// that k bytes follow.
var crcTable = func() (t [8][256]uint32) {
	for i := range t[0] {
		c := uint32(i) << 24
		for range 8 {
			if c&(1<<31) != 0 {
				c = c<<1 ^ 0x04c11db7
			} else {
				c <<= 1
			}
		}
		t[0][i] = c
	}
	for k := 1; k < len(t); k++ {
		for i := range t[k] {
			c := t[k-1][i]
			t[k][i] = c<<8 ^ t[0][c>>24]
		}
	}
	return t
}()

func updateCRC(c uint32, p []byte) uint32 {
	t := &crcTable
	for len(p) >= 8 {
		c ^= uint32(p[0])<<24 | uint32(p[1])<<16 | uint32(p[2])<<8 | uint32(p[3])
		c = t[7][c>>24] ^ t[6][c>>16&0xff] ^ t[5][c>>8&0xff] ^ t[4][c&0xff] ^
			t[3][p[4]] ^ t[2][p[5]] ^ t[1][p[6]] ^ t[0][p[7]]
		p = p[8:]
	}
	for _, x := range p {
		c = c<<8 ^ t[0][byte(c>>24)^x]
	}
	return c
}
