package buildid

import (
	"encoding/binary"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	tests := []struct{ in, want, err string }{
		{"E4F1aa00", "e4f1aa00", ""},
		{strings.Repeat("00", 20), "", ""}, // B07: all zero is no id
		{strings.Repeat("ab", 32), strings.Repeat("ab", 32), ""},
		{"", "", "build id is empty"},
		{"abc", "", `build id "abc": not an even number of hex digits`},
		{"zz", "", `build id "zz": not an even number of hex digits`},
		{strings.Repeat("ab", 65), "", `build id "` + strings.Repeat("ab", 65) + `": 65 bytes, at most 64 are allowed`},
	}
	for _, tt := range tests {
		id, err := Parse(tt.in)
		if msg := errText(err); msg != tt.err || id.String() != tt.want {
			t.Errorf("Parse(%q) = %q, %q; want %q, %q", tt.in, id, msg, tt.want, tt.err)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func id(s string) ID {
	x, err := Parse(s)
	if err != nil {
		panic(err)
	}
	return x
}

func TestMatch(t *testing.T) {
	const md5 = "00112233445566778899aabbccddeeff"
	tests := []struct {
		a, b ID
		want bool
	}{
		{id(md5), id(md5), true},
		{id(md5), id(md5 + "00000000"), true}, // perf before 5.10
		{id(md5[:16]), id(md5[:16] + "000000000000000000000000"), true},
		{id(md5), id(md5 + "00000001"), false},
		{id(md5), id(md5[:30]), false},
		{id(strings.Repeat("ab", 32)), id(strings.Repeat("ab", 20)), true}, // cut by perf
		{id(strings.Repeat("ab", 32)), id(strings.Repeat("ab", 16)), false},
		{"", "", false},
		{"", id(md5), false},
	}
	for _, tt := range tests {
		if got := tt.a.Match(tt.b); got != tt.want {
			t.Errorf("%s.Match(%s) = %v, want %v", tt.a, tt.b, got, tt.want)
		}
		if got := tt.b.Match(tt.a); got != tt.want {
			t.Errorf("%s.Match(%s) = %v, want %v", tt.b, tt.a, got, tt.want)
		}
	}
}

func TestTrim(t *testing.T) {
	const md5 = "00112233445566778899aabbccddeeff"
	for in, want := range map[string]string{
		md5 + "00000000":                    md5,
		md5[:16] + strings.Repeat("00", 12): md5[:16],
		md5 + "00000001":                    md5 + "00000001",
		md5:                                 md5,
	} {
		if got := id(in).Trim().String(); got != want {
			t.Errorf("Trim(%s) = %s, want %s", in, got, want)
		}
	}
}

func note(o binary.AppendByteOrder, typ uint32, name, desc string) []byte {
	b := o.AppendUint32(nil, uint32(len(name)))
	b = o.AppendUint32(b, uint32(len(desc)))
	b = o.AppendUint32(b, typ)
	for _, s := range []string{name, desc} {
		b = append(b, s...)
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
	}
	return b
}

func TestParseNotes(t *testing.T) {
	for _, big := range []bool{false, true} {
		var o binary.AppendByteOrder = binary.LittleEndian
		if big {
			o = binary.BigEndian
		}
		b := note(o, 1, "GNU\x00", "abi tag")
		b = append(b, note(o, 4, "Go\x00\x00", "a/b/c/d")...)
		b = append(b, note(o, 3, "GNU\x00", "12345678")...)
		b = append(b, note(o, 3, "GNU\x00", "the second")...)
		n, err := ParseNotes(b, 0, big, 4)
		if err != nil || n.GNU != "12345678" || n.Go != "a/b/c/d" {
			t.Errorf("big %v: got %+v, %v", big, n, err)
		}
		// E9: sizes beyond the end; what stood before is kept.
		b = o.AppendUint32(append(b, note(o, 9, "X", "")...), 0xfffffffd)
		b = append(b, make([]byte, 8)...)
		n, err = ParseNotes(b, 0, big, 4)
		if n.GNU != "12345678" || err == nil || !strings.Contains(err.Error(), "note.namesz: count 4294967293, but only 8 bytes follow") {
			t.Errorf("big %v, damaged: got %+v, %v", big, n, err)
		}
		if n, _ := ParseNotes(note(o, 3, "GNU\x00", strings.Repeat("\x00", 20)), 0, big, 4); n.GNU != "" {
			t.Errorf("an all-zero id was taken for one: %s", n.GNU)
		}
		if n, _ := ParseNotes(note(o, 3, "GNU\x00", strings.Repeat("a", 65)), 0, big, 4); n.GNU != "" {
			t.Errorf("an id of 65 bytes was taken for one")
		}
	}
}

// The kernel's own notes have the same form; readelf is the judge for files.
func TestParseNotesReadelf(t *testing.T) {
	out, err := exec.Command("readelf", "-n", "/bin/sh").Output()
	m := regexp.MustCompile(`Build ID: ([0-9a-f]+)`).FindSubmatch(out)
	if err != nil || m == nil {
		t.Skip("readelf, or a build id in /bin/sh, is absent")
	}
	raw := t.TempDir() + "/note"
	if err := exec.Command("objcopy", "-O", "binary", "--only-section=.note.gnu.build-id", "/bin/sh", raw).Run(); err != nil {
		t.Skip("objcopy: ", err)
	}
	b, err := os.ReadFile(raw)
	if err != nil {
		t.Fatal(err)
	}
	n, err := ParseNotes(b, 0, false, 4)
	if err != nil || n.GNU.String() != string(m[1]) {
		t.Errorf("got %s, %v; readelf says %s", n.GNU, err, m[1])
	}
}

func FuzzParseNotes(f *testing.F) {
	f.Add(note(binary.LittleEndian, 3, "GNU\x00", "12345678"), false, 4)
	f.Add(note(binary.BigEndian, 4, "Go\x00\x00", "a/b"), true, 8)
	f.Fuzz(func(t *testing.T, b []byte, big bool, align int) {
		n, _ := ParseNotes(b, 0, big, align)
		if len(n.GNU) > MaxSize || n.GNU != New([]byte(n.GNU)) {
			t.Errorf("id %q is no valid id", string(n.GNU))
		}
	})
}

// TestParseNotesAlign8 reads notes padded to 8 bytes: .note.gnu.property, of
// which the name ends at an aligned place, then an id.
func TestParseNotesAlign8(t *testing.T) {
	b := []byte("\x04\x00\x00\x00\x10\x00\x00\x00\x05\x00\x00\x00GNU\x00" + "\x02\x00\x00\xc0\x04\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00" +
		"\x04\x00\x00\x00\x05\x00\x00\x00\x03\x00\x00\x00GNU\x00" + "\x01\x02\x03\x04\x05\x00\x00\x00")
	n, err := ParseNotes(b, 0, false, 8)
	if err != nil || n.GNU.String() != "0102030405" {
		t.Errorf("got %+v, %v", n, err)
	}
}
