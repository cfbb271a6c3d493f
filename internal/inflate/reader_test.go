package inflate

import (
	"bytes"
	"compress/zlib"
	"errors"
	"hash/adler32"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
)

// long returns n bytes that are not all alike, quickly.
func long(n int) []byte {
	m := samples()["mixed"]
	rnd := rand.New(rand.NewPCG(5, 6))
	out := make([]byte, 0, n+len(m))
	for len(out) < n {
		at := rnd.IntN(len(m))
		out = append(out, m[at:]...)
	}
	return out[:n]
}

func newReader(z []byte, size, keep int64) *Reader {
	in := append([]byte("head"), z...)
	return NewReader(bytes.NewReader(in), 4, int64(len(z)), size, keep)
}

func check(t *testing.T, r *Reader, want []byte, off, n int) {
	t.Helper()
	got := make([]byte, n)
	end := min(off+n, len(want))
	m, err := r.ReadAt(got, int64(off))
	if m != end-off || (err != nil) != (m < n) || err != nil && err != io.EOF || !bytes.Equal(got[:m], want[off:end]) {
		t.Fatalf("%d bytes at %#x: %d, %v, and they are equal: %v", n, off, m, err, bytes.Equal(got[:m], want[off:end]))
	}
}

// TestReader reads in order, in order again, anywhere, and from two goroutines.
func TestReader(t *testing.T) {
	want := long(2 << 20)
	z := deflate(t, want, zlib.BestSpeed)
	size := int64(len(want))
	for _, keep := range []int64{0, size / 2, 2 * size} {
		r := newReader(z, size, keep)
		r.each = 200 << 10
		for range 2 {
			for off := 0; off < len(want); off += 50 << 10 {
				check(t, r, want, off, 20<<10)
			}
			if err := r.Check(); err != nil {
				t.Fatal(err)
			}
		}
		if r.whole != nil {
			t.Errorf("keep %d: all is kept, though it was read in order", keep)
		}
		var wg sync.WaitGroup
		for k := range 2 {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(k), 1))
				for range 100 {
					off := rnd.IntN(len(want))
					got := make([]byte, min(len(want)-off, rnd.IntN(100<<10)))
					if _, err := r.ReadAt(got, int64(off)); err != nil || !bytes.Equal(got, want[off:off+len(got)]) {
						t.Errorf("%d bytes at %#x: %v", len(got), off, err)
					}
				}
			})
		}
		wg.Wait()
		if (r.whole != nil) != (keep == 0) {
			t.Errorf("keep %d: all is kept: %v", keep, r.whole != nil)
		}
		check(t, r, want, len(want)-10, 20)
		check(t, r, want, len(want)-10, 10)
	}
}

// TestReaderSmall compares small data with what Zlib makes of them.
func TestReaderSmall(t *testing.T) {
	for name, want := range samples() {
		z := deflate(t, want, zlib.DefaultCompression)
		r := newReader(z, int64(len(want)), 0)
		if err := r.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for off := 0; off < len(want); off += 1 + len(want)/7 {
			check(t, r, want, off, 1000)
		}
		for _, d := range []int64{-1, 1} {
			if n := int64(len(want)) + d; n >= 0 {
				if err := newReader(z, n, 0).Check(); !errors.Is(err, ErrSize) {
					t.Errorf("%s, %d bytes more wanted: %v", name, d, err)
				}
			}
		}
		if len(z) > 0 {
			if err := newReader(z[:len(z)-1], int64(len(want)), 0).Check(); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s, cut: %v", name, err)
			}
			bad := bytes.Clone(z)
			bad[len(bad)-1] ^= 1
			if err := newReader(bad, int64(len(want)), 0).Check(); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s, wrong checksum: %v", name, err)
			}
		}
	}
}

// TestReaderBlock: data in one block, of which no part can be decompressed by
// itself.
func TestReaderBlock(t *testing.T) {
	var b []byte
	var acc uint64
	var n uint
	put := func(v uint64, k uint) { // first bit first
		acc |= v << n
		for n += k; n >= 8; n -= 8 {
			b = append(b, byte(acc))
			acc >>= 8
		}
	}
	const matches = 100_000
	put(0x0178, 16)
	put(1|1<<1, 3)     // the last block, with the codes of the standard
	put(0b00001100, 8) // the literal 0: 00110000
	for range matches {
		put(0b10100011, 8) // a length of 258: 11000101
		put(0, 5)          // at a distance of 1
	}
	put(0, 7) // the end
	put(0, (8-n)%8)
	want := make([]byte, 1+258*matches)
	sum := adler32.Checksum(want)
	b = append(b, byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum))
	r := newReader(b, int64(len(want)), 0)
	check(t, r, want, 5, 100)
	check(t, r, want, len(want)-5, 5)
	if err := r.Check(); err != nil {
		t.Error(err)
	}
}

func FuzzReader(f *testing.F) {
	for _, b := range samples() {
		f.Add(deflate(f, b[:min(len(b), 300)], zlib.BestCompression), uint16(min(len(b), 300)))
	}
	f.Fuzz(func(t *testing.T, b []byte, size uint16) {
		want := make([]byte, size)
		err := Zlib(want, bytes.NewReader(b))
		r := newReader(b, int64(size), 0)
		if got := r.Check(); (got == nil) != (err == nil) {
			t.Fatalf("%v, but Zlib says %v", got, err)
		}
		if err == nil {
			check(t, r, want, int(size)/2, int(size))
		}
	})
}
