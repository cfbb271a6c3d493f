package objfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestPerfMap(t *testing.T) {
	tab, err := ReadPerfMap(strings.NewReader(`1000 100 first
1100 100 second name with blanks
not a line
1080 20 inner
1000 10 again
2000 0 empty
0x3000 0x10 prefixed
3008 100 long, over what follows
3010 8 short
fffffffffffffff0 ffff end`), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		addr  uint64
		want  string
		start uint64
	}{
		{0xfff, "", 0}, {0x1000, "again", 0x1000}, {0x100f, "again", 0x1000}, {0x1010, "first", 0x1000}, {0x107f, "first", 0x1000},
		{0x1080, "inner", 0x1080}, {0x109f, "inner", 0x1080}, {0x10a0, "first", 0x1000}, {0x1100, "second name with blanks", 0x1100}, {0x1200, "", 0},
		{0x2000, "", 0}, {0x3000, "prefixed", 0x3000}, {0x3008, "long, over what follows", 0x3008}, {0x3010, "short", 0x3010}, {0x3018, "long, over what follows", 0x3008},
		{0xfffffffffffffff8, "end", 0xfffffffffffffff0},
	} {
		s, ok := tab.Lookup(tt.addr)
		if s.Name != tt.want || s.Start != tt.start || ok != (tt.want != "") {
			t.Errorf("%#x: got %+v, %v; want %q", tt.addr, s, ok, tt.want)
		}
	}
	a, _ := tab.Find(0x1010)
	b, _ := tab.Find(0x10a0)
	if a != b {
		t.Error("the pieces of one function are two symbols")
	}
	if _, err := ReadPerfMap(strings.NewReader("x\n"), nil, nil); !errors.Is(err, ErrNoSymbols) {
		t.Errorf("no lines: %v", err)
	}
}

// TestPerfMapHostile is S7: millions of lines, all overlapping.
func TestPerfMapHostile(t *testing.T) {
	var b bytes.Buffer
	for i := range 300000 {
		b.WriteString([]string{"1000 ffffffff a\n", "2000 10 b\n", "1 fffffff c\n"}[i%3])
	}
	bounded(t, "perf map", b.Len(), func() {
		if _, err := ReadPerfMap(&b, nil, nil); err != nil {
			t.Error(err)
		}
	})
}

// TestPerfMapOnly: S7, too. Of a map of any size, only what will be looked up is
// kept.
func TestPerfMapOnly(t *testing.T) {
	line := func(i int) string { return fmt.Sprintf("%x 10 f%d\n", i*16, i) }
	const lines = 1_000_000
	text := make([]byte, 0, lines*16)
	for i := range lines {
		text = append(text, line(i)...)
	}
	text = append(text, line(77)...)
	text = append(text, "4d8 2 inner\n4d9 1 "...)
	text = append(text, bytes.Repeat([]byte("long"), 100<<10)...) // and no end of line
	only := []uint64{0, 0x4d0, 0x4d8, 0x4d9, 0x5000000, lines * 16, 1 << 62}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	tab, err := ReadPerfMap(bytes.NewReader(text), only, nil)
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("allocated %d bytes", n)
	}
	var got []string
	for _, a := range only {
		s, _ := tab.Lookup(a)
		got = append(got, s.Name[:min(len(s.Name), 8)])
	}
	if want := []string{"f0", "f77", "inner", "longlong", "", "", ""}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if tab, err := ReadPerfMap(strings.NewReader("10 10 x\n"), []uint64{}, nil); err != nil || tab.Len() != 0 {
		t.Errorf("nothing to look up: %v", err)
	}
	// 10 GB of zeros.
	if _, err := ReadPerfMap(io.LimitReader(zeros{}, 10<<30), only, nil); err == nil || err.Error() != "perf map: more than 1073741824 bytes" {
		t.Errorf("10 GB: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

func FuzzPerfMap(f *testing.F) {
	f.Add([]byte("1000 100 first\n1080 20 inner\n1000 10 again\n"))
	f.Add([]byte("0x1 0x2 x\nffffffffffffffff ffffffffffffffff y\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		tab, err := ReadPerfMap(bytes.NewReader(b), nil, nil)
		if err != nil {
			return
		}
		// The last line that holds an address names it.
		for i := range tab.Len() {
			s := tab.Sym(i)
			if got, ok := tab.Lookup(s.Start); ok && (got.Start > s.Start || got.End <= s.Start) {
				t.Errorf("%#x: got %+v", s.Start, got)
			}
		}
	})
}
