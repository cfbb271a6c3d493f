package objfile

import (
	"bytes"
	"errors"
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
fffffffffffffff0 ffff end`), nil)
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
	if _, err := ReadPerfMap(strings.NewReader("x\n"), nil); !errors.Is(err, ErrNoSymbols) {
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
		if _, err := ReadPerfMap(&b, nil); err != nil {
			t.Error(err)
		}
	})
}

func FuzzPerfMap(f *testing.F) {
	f.Add([]byte("1000 100 first\n1080 20 inner\n1000 10 again\n"))
	f.Add([]byte("0x1 0x2 x\nffffffffffffffff ffffffffffffffff y\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		tab, err := ReadPerfMap(bytes.NewReader(b), nil)
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
