package escape

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// UI-4: C0, DEL, C1, bidi overrides and bytes that are no UTF-8.
func TestName(t *testing.T) {
	tests := []struct{ in, want string }{
		{"", ""},
		{"libc.so.6", "libc.so.6"},
		{"naïve/中文", "naïve/中文"},
		{"a\x1b[31mb", `a\x1b[31mb`},
		{"a\nb\tc\rd", `a\x0ab\x09c\x0dd`},
		{"a\x00b\x7f", `a\x00b\x7f`},
		{"\u009b31m", `\u009b31m`},
		{"a\u202egnp.exe", `a\u202egnp.exe`},
		{"\u2066x\u2069", `\u2066x\u2069`},
		{"a\xffb\xc3", `a\xffb\xc3`},
		{"\ufffd", "\ufffd"},
		{"\ufeffx", `\ufeffx`},
		{"a\u200bb\u00ad\u2060", `a\u200bb\u00ad\u2060`}, // U4: shown as nothing
		{"a\U000e0041\ufffe", `a\U000e0041\ufffe`},
		{"e\u0301", "e\u0301"},
		{`C:\dir`, `C:\dir`},
	}
	for _, tt := range tests {
		if got := Name(tt.in); got != tt.want {
			t.Errorf("Name(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestLines(t *testing.T) {
	if got, want := Lines("a:\tb\nc\x1b[0m"), "a:\tb\nc\\x1b[0m"; got != want {
		t.Errorf("Lines = %q, want %q", got, want)
	}
}

// What JSON writes says the same as before.
func TestJSON(t *testing.T) {
	for _, in := range []string{"", "naïve/中文", "a\u202eb", "\u009b31m\x7f", "\u2066x\u2069\ufeff", "a\x1b\n\u2028", "x\u200e", "\u200b\U000e0041\ufffe😀"} {
		text, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		got := JSON(text)
		if name := Name(string(got)); name != string(got) {
			t.Errorf("JSON(%q) = %q, which a terminal acts upon", text, got)
		}
		var back string
		if err := json.Unmarshal(got, &back); err != nil || back != in {
			t.Errorf("JSON(%q) = %q, which says %q, %v", text, got, back, err)
		}
	}
	if got, want := string(JSON([]byte("\"a\u202eb\x7f\""))), `"a\u202eb\u007f"`; got != want {
		t.Errorf("JSON = %q, want %q", got, want)
	}
}

func FuzzName(f *testing.F) {
	f.Add("a\x1b[31m\u202e\xff中")
	f.Fuzz(func(t *testing.T, s string) {
		got := Name(s)
		if !utf8.ValidString(got) {
			t.Fatalf("Name(%q) = %q: not UTF-8", s, got)
		}
		if i := strings.IndexFunc(got, func(r rune) bool { return r < 0x20 || r == 0x7f || acts(r) }); i >= 0 {
			t.Fatalf("Name(%q) = %q: acts at %d", s, got, i)
		}
		if again := Name(got); again != got {
			t.Fatalf("Name(%q) = %q, and again %q", s, got, again)
		}
	})
}

// TestPlain: what is looked at eight bytes at a time is what is looked at byte
// by byte.
func TestPlain(t *testing.T) {
	for n := range 20 {
		for at := range n {
			for c := range 256 {
				b := bytes.Repeat([]byte("~"), n)
				b[at] = byte(c)
				want := -1
				if c < 0x20 || c >= 0x7f {
					want = at
				}
				if got := unsafeAt(string(b), false); got != want {
					t.Fatalf("%q: %d, want %d", b, got, want)
				}
			}
		}
	}
}
