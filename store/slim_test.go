package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/objfile"
)

// slimOf makes a slim copy of a program with the code of some functions.
func slimOf(t *testing.T, b []byte, funcs ...string) []byte {
	t.Helper()
	f, err := objfile.Open(bytes.NewReader(b), int64(len(b)), "program", decode.NewBudget(decode.Limits{}))
	if err != nil {
		t.Fatal(err)
	}
	tab, err := f.Symbols(objfile.SymbolOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var o objfile.SlimOptions
	for s := range tab.All {
		if slices.Contains(funcs, s.Name) {
			o.Code = append(o.Code, objfile.Span{Start: int64(s.Start), End: int64(s.End)})
		}
	}
	if len(o.Code) != len(funcs) {
		t.Fatalf("%v: %d of them", funcs, len(o.Code))
	}
	z, err := f.Slim(o)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]byte, len(b))
	if n, err := z.ReadAt(bytes.NewReader(b), int64(len(b)), out, 0); n < len(b) {
		t.Fatal(err)
	}
	return out
}

// A whole copy wins over a slim one, wherever and whenever it comes; two slim
// ones become one; a slim copy of another program with the same id is seen by
// the code that it has (B19).
func TestSlim(t *testing.T) {
	program := func(name, text string) []byte {
		src := strings.ReplaceAll(`
volatile int sink;
__attribute__((noinline)) void one(int n) { for (int i = 0; i < n; i++) sink += i TEXT; }
__attribute__((noinline)) void two(int n) { for (int i = 0; i < n; i++) sink *= i TEXT; }
int main(int c, char **v) { one(c); two(c); return 0; }
`, "TEXT", text)
		b, err := os.ReadFile(perftest.CC(t, name, src, "-O1", "-g", "-Wl,--build-id=0x1111111111111111111111111111111111111111"))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	whole := program("prog", "+ 3")
	other := program("prog", "- 40")
	one, two := slimOf(t, whole, "one"), slimOf(t, whole, "two")
	foreign := slimOf(t, other, "one")
	id, err := buildid.Parse("1111111111111111111111111111111111111111")
	if err != nil {
		t.Fatal(err)
	}
	k := Key{ID: id, Kind: ELF, Path: "/opt/prog"}
	in := func(files ...[]byte) (*BuildIDCache, error) {
		c := Cache(t.TempDir())
		var last error
		for _, b := range files {
			_, err := put(t, c, k, b, PutOptions{})
			last = errors.Join(last, err)
		}
		return c, last
	}
	check := func(what string, want []byte, files ...[]byte) {
		t.Helper()
		c, err := in(files...)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		if got := contents(t, c, k); !bytes.Equal(got, want) {
			t.Errorf("%s: not what it should be", what)
		}
	}
	check("slim, whole", whole, one, whole)
	check("whole, slim", whole, whole, one)
	check("slim", one, one)
	check("slim twice", one, one, one)
	union := bytes.Clone(one)
	for i := range union {
		union[i] |= two[i]
	}
	check("slim, another slim", union, one, two)
	check("two slim, the first again", union, one, two, one)
	for _, files := range [][][]byte{{whole, foreign}, {foreign, whole}, {one, foreign}} {
		if _, err := in(files...); err == nil {
			t.Error("a slim copy of another program is taken")
		} else if _, ok := errors.AsType[*ConflictError](err); !ok {
			t.Error(err)
		}
	}

	// Of several sources.
	a, _ := in(one)
	b, _ := in(whole)
	if got := contents(t, Multi(a, b), k); !bytes.Equal(got, whole) {
		t.Error("a slim copy before a whole one wins")
	}
	c, _ := in(foreign)
	elsewhere := k
	elsewhere.Path = ""
	if got := refused(t, Multi(b, c), elsewhere); !slices.Contains(got, Ambiguous) {
		t.Errorf("two programs: %v", got)
	}
}

// Zeros become holes, and the bytes stay the same.
func TestSparse(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var want []byte
	s := &sparse{f: f}
	for i, n := range []int{10, 4086, 1 << 20, 1, 5000, 1 << 16, 3} {
		b := make([]byte, n)
		if i%2 == 0 {
			b[n/2] = byte(i + 1)
		}
		want = append(want, b...)
		if k, err := s.Write(b); k != n || err != nil {
			t.Fatal(k, err)
		}
	}
	want = append(want, make([]byte, 9999)...)
	if _, err := s.Write(make([]byte, 9999)); err != nil {
		t.Fatal(err)
	}
	if err := s.finish(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(name)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d: %v", len(got), len(want), err)
	}
}
