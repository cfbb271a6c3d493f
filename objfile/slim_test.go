package objfile

import (
	"bytes"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/internal/perftest"
)

// cut returns the slim copy of a file.
func cut(t *testing.T, b []byte, z *Slimming) []byte {
	t.Helper()
	out := make([]byte, len(b))
	// In pieces, so that spans and patches are cut at every place.
	for at := 0; at < len(out); at += 1000 {
		p := out[at:min(at+1000, len(out))]
		if n, err := z.ReadAt(bytes.NewReader(b), int64(len(b)), p, int64(at)); n < len(p) {
			t.Fatalf("offset %#x: %d bytes of %d: %v", at, n, len(p), err)
		}
	}
	if n, err := z.ReadAt(bytes.NewReader(b), int64(len(b)), make([]byte, 5), int64(len(b))); n != 0 || err != io.EOF {
		t.Errorf("at the end: %d %v", n, err)
	}
	return out
}

// A slim copy has the ids, sections and symbols of the whole file, and no code
// but what was asked for; it has no hash of its code.
func TestSlim(t *testing.T) {
	src := `
#include <stdio.h>
static const char text[5000] = "constant data";
__attribute__((noinline)) int hot(int x) { return printf("%s", text + x); }
__attribute__((noinline)) int cold(int x) { return printf("%d", x * 3); }
int main(int c, char **v) { return hot(c) + cold(c); }
`
	for _, flags := range [][]string{{"-g"}, {"-s"}, {"-g", "-static"}, {"-gz=zlib"}, {"-gz=zlib", "-gdwarf-4", "-ggdb3"}, {"-gz=zlib-gnu"}, {"-Wl,-z,noseparate-code", "-no-pie", "-g"}} {
		name := perftest.CC(t, "prog", src, append(flags, "-O1", "-Wl,--build-id=sha1")...)
		whole, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		open := func(b []byte) *File {
			f, err := Open(bytes.NewReader(b), int64(len(b)), name, decode.NewBudget(decode.Limits{}))
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		f := open(whole)
		tab, err := f.Symbols(SymbolOptions{})
		if err != nil {
			t.Fatal(err)
		}
		find := func(name string) Sym {
			for s := range tab.All {
				if s.Name == name {
					return s
				}
			}
			return Sym{}
		}
		hot, cold := find("hot"), find("cold")
		var o SlimOptions
		if hot.End > 0 {
			addr, _ := f.Address(hot.Start)
			o.Code, o.Addrs = []Span{{int64(hot.Start), int64(hot.End)}}, []uint64{addr}
		}
		z, err := f.Slim(o)
		if err != nil {
			t.Fatal(err)
		}
		slim := cut(t, whole, z)
		g := open(slim)
		if !g.IsSlim() || f.IsSlim() || g.BuildID() != f.BuildID() || g.BuildID() == "" || g.Quality() != f.Quality() || len(g.Warnings()) != 0 {
			t.Errorf("%v: slim %v, id %s of %s, quality %v of %v, %v", flags, g.IsSlim(), g.BuildID(), f.BuildID(), g.Quality(), f.Quality(), g.Warnings())
		}
		if _, err := g.TextHash(); err != ErrNoText {
			t.Errorf("%v: hash of code: %v", flags, err)
		}
		if !slices.Equal(g.sections, f.sections) || !slices.Equal(g.segments, f.segments) {
			t.Errorf("%v: the tables differ", flags)
		}
		other, err := g.Symbols(SymbolOptions{})
		if err != nil || !slices.Equal(slices.Collect(other.All), slices.Collect(tab.All)) {
			t.Errorf("%v: the symbols differ: %v", flags, err)
		}
		if hot.End > 0 {
			if !bytes.Equal(slim[hot.Start:hot.End], whole[hot.Start:hot.End]) {
				t.Errorf("%v: hot has other code", flags)
			}
			if bytes.ContainsFunc(slim[cold.Start:cold.End], func(r rune) bool { return r != 0 }) {
				t.Errorf("%v: cold has code", flags)
			}
		}
		if bytes.Contains(slim, []byte("constant data")) || !bytes.Contains(whole, []byte("constant data")) {
			t.Errorf("%v: the data is there", flags)
		}
		if _, err := g.Slim(o); err == nil {
			t.Errorf("%v: a slim copy is made slim again", flags)
		}
	}
}

// FuzzSlim: whatever a file says of itself, the spans are in order, apart,
// in the file, and begin with its header; a copy of them alone opens.
func FuzzSlim(f *testing.F) {
	if b, err := os.ReadFile("/proc/self/exe"); err == nil {
		f.Add(b[:min(len(b), 1<<12)], uint64(0x1000), uint64(0x2000))
	}
	f.Add(smallELF(), uint64(0), uint64(10))
	f.Fuzz(func(t *testing.T, b []byte, lo, hi uint64) {
		x, err := Open(bytes.NewReader(b), int64(len(b)), "fuzz", decode.NewBudget(decode.Limits{Bytes: 64 << 20, Steps: 1 << 20}))
		if err != nil || x.Size() != int64(len(b)) {
			return
		}
		z, err := x.Slim(SlimOptions{Code: []Span{{int64(lo), int64(hi)}}, Addrs: []uint64{lo, hi}, More: []Span{{int64(hi), int64(lo)}}})
		if err != nil {
			return
		}
		at, spans := int64(-1), z.Keep
		for _, s := range spans {
			if s.Start <= at || s.End <= s.Start || s.End > int64(len(b)) {
				t.Fatalf("%v of %d bytes", spans, len(b))
			}
			at = s.End
		}
		if len(spans) == 0 || spans[0].Start != 0 {
			t.Fatalf("%v: no header", spans)
		}
		slim := cut(t, b, z)
		g, err := Open(bytes.NewReader(slim), int64(len(slim)), "slim", nil)
		if err != nil && err != io.EOF || err == nil && !g.IsSlim() {
			t.Fatalf("the copy: %v", err)
		}
	})
}

// smallELF is a 64-bit ELF file with a code section and its names.
func smallELF() []byte {
	b := make([]byte, 64+3*64+32)
	copy(b, "\x7fELF\x02\x01\x01")
	b[16], b[18], b[20] = 3, 62, 1
	b[40] = 64                      // e_shoff
	b[52], b[58], b[60] = 64, 64, 3 // e_ehsize, e_shentsize, e_shnum
	b[62] = 2                       // e_shstrndx
	text, names := b[128:192], b[192:256]
	text[0], text[4], text[8] = 1, 1, 6
	text[24], text[25], text[32] = 0, 1, 16 // at 0x100
	names[0], names[4] = 7, 3
	names[24], names[25], names[32] = 16, 1, 16
	copy(b[0x110:], "\x00.text\x00.names\x00")
	return b
}
