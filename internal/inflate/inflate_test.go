package inflate

import (
	"bytes"
	"compress/zlib"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
)

// samples are data of many kinds: of one byte, of few, of all, repeating at
// short and long distances.
func samples() map[string][]byte {
	rnd := rand.New(rand.NewPCG(1, 2))
	random := func(n, kinds int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rnd.IntN(kinds))
		}
		return b
	}
	skewed := make([]byte, 300_000)
	for i := range skewed {
		skewed[i] = byte(rnd.ExpFloat64() * 9)
	}
	mixed := random(1000, 256)
	for len(mixed) < 500_000 {
		n := 3 + rnd.IntN(300)
		at := rnd.IntN(len(mixed) - n)
		mixed = append(mixed, mixed[at:at+n]...)
		mixed = append(mixed, random(rnd.IntN(9), 256)...)
	}
	m := map[string][]byte{
		"empty": nil, "one": {7}, "zeros": make([]byte, 100_000), "random": random(200_000, 256), "few": random(200_000, 5), "skewed": skewed, "mixed": mixed,
	}
	for _, n := range []int{2, 3, 5, 7, 8, 9, 15, 16, 17} {
		m["period"+string(rune('a'+n))] = bytes.Repeat(random(n, 256), 3000)
	}
	return m
}

func deflate(t testing.TB, b []byte, level int) []byte {
	var out bytes.Buffer
	w, err := zlib.NewWriterLevel(&out, level)
	if err != nil {
		t.Fatal(err)
	}
	w.Write(b)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestZlib(t *testing.T) {
	for name, want := range samples() {
		for _, level := range []int{zlib.NoCompression, zlib.BestSpeed, zlib.DefaultCompression, zlib.BestCompression, zlib.HuffmanOnly} {
			z := deflate(t, want, level)
			readers := []io.Reader{bytes.NewReader(z), iotest.HalfReader(bytes.NewReader(z))}
			if level == zlib.DefaultCompression {
				readers = append(readers, iotest.OneByteReader(bytes.NewReader(append(z, 1, 2, 3))))
			}
			for _, r := range readers {
				got := make([]byte, len(want))
				if err := Zlib(got, r); err != nil || !bytes.Equal(got, want) {
					t.Fatalf("%s, level %d: %v", name, level, err)
				}
			}
			if err := Zlib(make([]byte, len(want)+1), bytes.NewReader(z)); !errors.Is(err, ErrSize) {
				t.Errorf("%s, level %d: one byte more wanted: %v", name, level, err)
			}
			if len(want) > 0 {
				if err := Zlib(make([]byte, len(want)-1), bytes.NewReader(z)); !errors.Is(err, ErrSize) {
					t.Errorf("%s, level %d: one byte less wanted: %v", name, level, err)
				}
			}
		}
	}
}

// TestDamaged flips bits and cuts: what the standard library refuses is
// refused, and the rest is the same.
func TestDamaged(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	want := samples()["mixed"][:20_000]
	z := deflate(t, want, zlib.BestCompression)
	for range 3000 {
		b := bytes.Clone(z)
		b[rnd.IntN(len(b))] ^= 1 << rnd.IntN(8)
		if rnd.IntN(4) == 0 {
			b = b[:rnd.IntN(len(b))]
		}
		sameAsStandard(t, b, len(want))
	}
	for n := range 200 {
		if err := Zlib(make([]byte, len(want)), bytes.NewReader(z[:n])); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
}

func sameAsStandard(t *testing.T, b []byte, size int) {
	got := make([]byte, size)
	err := Zlib(got, bytes.NewReader(b))
	var want []byte
	r, e := zlib.NewReader(bytes.NewReader(b))
	if e == nil {
		want, e = io.ReadAll(io.LimitReader(r, int64(size)+1))
	}
	switch {
	case e != nil || len(want) != size:
		if err == nil {
			t.Errorf("no error, but the standard library has %d bytes, %v", len(want), e)
		}
	case err != nil:
		t.Errorf("%v, but the standard library has none", err)
	case !bytes.Equal(got, want):
		t.Error("other bytes than the standard library's")
	}
}

func FuzzZlib(f *testing.F) {
	for _, b := range samples() {
		f.Add(deflate(f, b[:min(len(b), 300)], zlib.BestCompression), uint16(min(len(b), 300)))
	}
	f.Fuzz(func(t *testing.T, b []byte, size uint16) { sameAsStandard(t, b, int(size)) })
}

func BenchmarkZlib(b *testing.B) {
	want := samples()["mixed"]
	z := deflate(b, want, zlib.DefaultCompression)
	got := make([]byte, len(want))
	b.SetBytes(int64(len(want)))
	for b.Loop() {
		if err := Zlib(got, bytes.NewReader(z)); err != nil {
			b.Fatal(err)
		}
	}
}
