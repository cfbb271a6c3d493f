package bzip2

import (
	"bytes"
	stdbzip2 "compress/bzip2"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func compress(t testing.TB, in []byte, o Options) []byte {
	t.Helper()
	var b bytes.Buffer
	z := NewWriter(&b, o)
	if _, err := z.Write(in); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// inputs are texts that are hard for one part or another of the encoder.
func inputs() map[string][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	random := make([]byte, 250_000)
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	skewed := make([]byte, 90_000) // Huffman codes that want to be too long
	for i := range skewed {
		for skewed[i] < 40 && r.Uint32()&1 == 0 {
			skewed[i]++
		}
	}
	fib := []string{"a", "b"}
	for len(fib[len(fib)-1]) < 90_000 {
		fib = append(fib, fib[len(fib)-1]+fib[len(fib)-2])
	}
	in := map[string][]byte{
		"empty":       nil,
		"one":         []byte("x"),
		"same":        bytes.Repeat([]byte{0}, 5_000_000),
		"periodic":    bytes.Repeat([]byte("ab"), 60_000),
		"period 1000": bytes.Repeat(random[:1000], 120),
		"square":      append(slices.Clone(random[:45_000]), random[:45_000]...),
		"fibonacci":   []byte(fib[len(fib)-1]),
		"random":      random,
		"skewed":      skewed,
		"text":        []byte(strings.Repeat("the quick brown fox jumps over the lazy dog\n", 3000)),
		"all bytes":   random[:258],
		"descending": func() (b []byte) {
			for i := range 256 {
				b = append(b, byte(255-i))
			}
			return bytes.Repeat(b, 100)
		}(),
		"near a block": random[:99_981],
	}
	for n := 1; n < 12; n++ {
		in[fmt.Sprintf("run %d", n)] = bytes.Repeat([]byte("z"), n)
	}
	for n := 255; n < 265; n++ {
		in[fmt.Sprintf("run %d", n)] = append(bytes.Repeat([]byte("z"), n), "yyy"...)
	}
	return in
}

func TestRoundTrip(t *testing.T) {
	for name, in := range inputs() {
		t.Run(name, func(t *testing.T) {
			z := compress(t, in, Options{Level: 1})
			got, err := io.ReadAll(stdbzip2.NewReader(bytes.NewReader(z)))
			if err != nil || !bytes.Equal(got, in) {
				t.Fatalf("%d bytes back of %d, error %v", len(got), len(in), err)
			}
		})
	}
}

// TestBzip2 has bzip2 itself read what we write.
func TestBzip2(t *testing.T) {
	if _, err := exec.LookPath("bzip2"); err != nil {
		t.Skip("bzip2 is not installed")
	}
	var all []byte
	for _, in := range inputs() {
		all = append(all, in...)
	}
	cmd := exec.Command("bzip2", "-dc")
	cmd.Stdin = bytes.NewReader(compress(t, all, Options{}))
	got, err := cmd.Output()
	if err != nil || !bytes.Equal(got, all) {
		t.Fatalf("%d bytes back of %d, error %v", len(got), len(all), err)
	}
}

// TestSame writes one input with different workers and cuts.
func TestSame(t *testing.T) {
	in := slices.Concat(inputs()["random"], inputs()["same"], inputs()["text"], inputs()["skewed"])
	want := compress(t, in, Options{Workers: 1, Level: 1})
	for workers := 1; workers < 10; workers += 3 {
		var b bytes.Buffer
		z := NewWriter(&b, Options{Workers: workers, Level: 1})
		for rest := in; len(rest) > 0; {
			n := min(len(rest), 1+workers*777)
			if _, err := z.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b.Bytes(), want) {
			t.Errorf("%d workers: other bytes", workers)
		}
	}
}

type failing struct{ left int }

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

func TestWriteError(t *testing.T) {
	z := NewWriter(&failing{100_000}, Options{Level: 1, Workers: 2})
	var err error
	in := inputs()["random"]
	for range 20 {
		if _, err = z.Write(in); err != nil {
			break
		}
	}
	if err == nil || err.Error() != "disk full" {
		t.Errorf("Write: error %v, want disk full", err)
	}
	if err := z.Close(); err == nil || err.Error() != "disk full" {
		t.Errorf("Close: error %v, want disk full", err)
	}
}

// TestTransform compares both ways of sorting with the definition.
func TestTransform(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var s sorter
	for range 5_000 {
		n := 1 + r.IntN(40)
		in := make([]byte, n)
		for i := range in {
			in[i] = byte(r.IntN(1 + r.IntN(4)))
		}
		rows := make([]string, n)
		for i := range rows {
			rows[i] = string(in[i:]) + string(in[:i])
		}
		slices.Sort(rows)
		var want []byte
		for _, row := range rows {
			want = append(want, row[n-1])
		}
		got, row := s.transform(nil, in)
		if !bytes.Equal(got, want) || rows[row] != string(in) {
			t.Fatalf("%q: column %q, row %d %q; want %q", in, got, row, rows[row], want)
		}
		text := make([]int32, n)
		for i, c := range in {
			text[i] = int32(c)
		}
		sa := make([]int32, n)
		sais(text, sa, 256)
		for i := 1; i < n; i++ {
			if string(in[sa[i-1]:]) >= string(in[sa[i]:]) {
				t.Fatalf("%q: suffixes %d and %d are out of order: %v", in, sa[i-1], sa[i], sa)
			}
		}
	}
}

func TestCRC(t *testing.T) {
	// The check value of CRC-32/BZIP2.
	if got := ^updateCRC(^uint32(0), []byte("123456789")); got != 0xfc891918 {
		t.Errorf("%#x, want 0xfc891918", got)
	}
}

func FuzzRoundTrip(f *testing.F) {
	for _, in := range inputs() {
		if len(in) < 2000 {
			f.Add(in, uint16(1))
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, times uint16) {
		in = bytes.Repeat(in, int(times)%64)
		z := compress(t, in, Options{Level: 1, Workers: 1})
		got, err := io.ReadAll(stdbzip2.NewReader(bytes.NewReader(z)))
		if err != nil || !bytes.Equal(got, in) {
			t.Fatalf("%d bytes back of %d, error %v", len(got), len(in), err)
		}
	})
}

// BenchmarkWriter compresses the file BZIP2_BENCH, or a library.
func BenchmarkWriter(b *testing.B) {
	name := os.Getenv("BZIP2_BENCH")
	in, err := os.ReadFile(name)
	if err != nil {
		b.Skip("BZIP2_BENCH names no file to compress")
	}
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		z := compress(b, in, Options{Workers: 1})
		b.ReportMetric(float64(len(in))/float64(len(z)), "ratio")
	}
}
