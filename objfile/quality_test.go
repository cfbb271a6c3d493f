package objfile

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
)

// tool runs a program that a test needs, and skips the test without it.
func tool(t *testing.T, name string, args ...string) {
	t.Helper()
	perftest.NeedTool(t, name)
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

func warned(f *File, k WarningKind) string {
	for _, w := range f.Warnings() {
		if w.Kind == k {
			return w.Text
		}
	}
	return ""
}

// TestQuality strips a program step by step.
func TestQuality(t *testing.T) {
	full := perftest.CC(t, "full", pltSource, "-g", "-O1", "-lm", "-rdynamic", "-Wl,--build-id=0x00112233445566778899aabbccddeeff0011223344556677")
	dir := t.TempDir()
	path := func(s string) string { return filepath.Join(dir, s) }
	tool(t, "objcopy", "--strip-debug", full, path("symtab"))
	tool(t, "objcopy", "--strip-all", full, path("dynsym"))
	tool(t, "objcopy", "--only-keep-debug", full, path("debug"))
	tool(t, "objcopy", "--add-gnu-debuglink="+path("debug"), path("dynsym"), path("linked"))
	static := perftest.CC(t, "static", "int main(void) { return 0; }", "-static", "-s")
	id := ""
	var text [sha256.Size]byte
	for _, tt := range []struct {
		name  string
		want  Quality
		str   string
		debug bool
	}{
		{full, FullDWARF, "full DWARF", false},
		{path("symtab"), Symtab, "symtab", false},
		{path("dynsym"), Dynsym, "dynsym only", false},
		{path("linked"), Dynsym, "dynsym only", false},
		{path("debug"), FullDWARF, "full DWARF", true},
		{static, Stripped, "stripped", false},
	} {
		f := openTest(t, tt.name)
		if f.Quality() != tt.want || f.Quality().String() != tt.str || f.DebugOnly() != tt.debug {
			t.Errorf("%s: quality %v, debug only %v", tt.name, f.Quality(), f.DebugOnly())
		}
		if tt.name == static {
			continue
		}
		if id == "" {
			id = f.BuildID().String()
		}
		if f.BuildID().String() != id || len(id) != 48 {
			t.Errorf("%s: build id %s, want %s", tt.name, f.BuildID(), id)
		}
		sum, err := f.TextHash()
		switch {
		case tt.debug:
			if !errors.Is(err, ErrNoText) {
				t.Errorf("%s: text hash: %v, want %v", tt.name, err, ErrNoText)
			}
		case err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case text == [sha256.Size]byte{}:
			text = sum
		case sum != text:
			t.Errorf("%s: stripping changed the hash of the text", tt.name)
		}
	}
	f := openTest(t, path("linked"))
	b, err := os.ReadFile(path("debug"))
	if err != nil {
		t.Fatal(err)
	}
	name, crc, ok := f.Debuglink()
	if !ok || name != "debug" || crc != crc32.ChecksumIEEE(b) {
		t.Errorf("debug link: %q, %#x, %v", name, crc, ok)
	}
	if got, err := CRC32(bytes.NewReader(b), int64(len(b))); err != nil || got != crc {
		t.Errorf("crc %#x, %v, want %#x", got, err, crc)
	}
	// Names of the debug file, offsets of the program: S09.
	want, err := openTest(t, full).Symbols(SymbolOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d := openTest(t, path("debug"))
	got, err := d.SymbolsWith(f, SymbolOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for s := range want.All {
		if strings.Contains(s.Name, "bss") || s.Name == "_end" {
			continue
		}
		if g, ok := got.Lookup(s.Start); s.End > s.Start && (!ok || g.Start != s.Start) {
			t.Errorf("%s at %#x: the debug file gives %+v", s.Name, s.Start, g)
		}
	}
	if _, err := d.SymbolsWith(openTest(t, static), SymbolOptions{}); !errors.Is(err, ErrOtherProgram) {
		t.Errorf("with another program: %v, want %v", err, ErrOtherProgram)
	}
	if _, err := d.Symbols(SymbolOptions{}); !errors.Is(err, ErrNoRuntime) {
		t.Errorf("the debug file alone: %v, want %v", err, ErrNoRuntime)
	}
}

// TestIDCollision is case B19: one id, other code.
func TestIDCollision(t *testing.T) {
	const id = "-Wl,--build-id=0x1111111111111111111111111111111111111111"
	a := openTest(t, perftest.CC(t, "a", "int main(void) { return 1; }", id))
	b := openTest(t, perftest.CC(t, "b", "int main(void) { return 2; }", id))
	ha, err := a.TextHash()
	if err != nil {
		t.Fatal(err)
	}
	hb, err := b.TextHash()
	if err != nil {
		t.Fatal(err)
	}
	if a.BuildID() != b.BuildID() || ha == hb {
		t.Errorf("ids %v and %v, hashes %x and %x", a.BuildID(), b.BuildID(), ha, hb)
	}
}

// TestNoID is case B07: an id of zeros is none.
func TestNoID(t *testing.T) {
	for _, id := range []string{"-Wl,--build-id=none", "-Wl,--build-id=0x0000000000000000000000000000000000000000"} {
		if f := openTest(t, perftest.CC(t, "x", "int main(void) { return 1; }", id)); f.BuildID() != "" {
			t.Errorf("%s: got %s", id, f.BuildID())
		}
	}
}

// TestGoID is cases B09 and B10.
func TestGoID(t *testing.T) {
	perftest.NeedTool(t, "go")
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/main.go", []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"-ldflags=-B none", "-ldflags=-B 0x00112233445566778899aabbccddeeff00112233"} {
		cmd := exec.Command("go", "build", "-o", "x", flag, "main.go")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0", "GO111MODULE=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("NOTICE: go cannot build here: %s", out)
		}
		f := openTest(t, dir+"/x")
		want := ""
		if !strings.Contains(flag, "none") {
			want = "00112233445566778899aabbccddeeff00112233"
		}
		out, err := exec.Command("go", "tool", "buildid", dir+"/x").Output()
		if err != nil {
			t.Fatal(err)
		}
		if f.BuildID().String() != want || f.GoID() != strings.TrimSpace(string(out)) || f.GoID() == "" {
			t.Errorf("%s: id %q, Go id %q; go says %q", flag, f.BuildID(), f.GoID(), out)
		}
	}
}

// TestMalformedLinks is S31, S32 and E13: the link is ignored, with a
// warning, and the file is read.
func TestMalformedLinks(t *testing.T) {
	for _, tt := range []struct{ link, want string }{
		{"x.debug\x00\x01\x02\x03\x04", ""},
		{"x.debug\x00\x01", "test: .gnu_debuglink is ignored: offset 0x48: debuglink.crc: 4 bytes wanted, but only 1 follow"},
		{"x.debug", "test: .gnu_debuglink is ignored: offset 0x40: name: empty, or without an end"},
		{"\x00\x00\x00\x00\x01\x02\x03\x04", "test: .gnu_debuglink is ignored: offset 0x40: name: empty, or without an end"},
		{"../x\x00\x00\x00\x00\x01\x02\x03\x04", `test: .gnu_debuglink is ignored: name "../x" is not a plain file name`},
		{strings.Repeat("x", 64<<10) + "\x00\x01\x02\x03\x04", "test: .gnu_debuglink is ignored: its 65541 bytes are not in the file, or over 4104"},
	} {
		e := testELF{typ: TypeDyn, machine: MachineX86_64, sections: []testSection{{name: ".gnu_debuglink", section: section{typ: shtProgbits}, data: []byte(tt.link)}}}
		f := openBytes(t, e.bytes())
		name, crc, ok := f.Debuglink()
		if w := warned(f, WarnDebuglink); w != tt.want || ok != (w == "") || ok && (name != "x.debug" || crc != 0x04030201) {
			t.Errorf("%.20q: got %q, %#x, %v, warning %q", tt.link, name, crc, ok, w)
		}
	}
	e := testELF{typ: TypeDyn, machine: MachineX86_64, sections: []testSection{{name: ".gnu_debugaltlink", section: section{typ: shtProgbits}, data: []byte("/x/y\x00abcd")}}}
	if name, id, ok := openBytes(t, e.bytes()).Altlink(); name != "/x/y" || id != "abcd" || !ok {
		t.Errorf("altlink: got %q, %q, %v", name, string(id), ok)
	}
}

// TestTwoIDs is E9: two ids that differ are told.
func TestTwoIDs(t *testing.T) {
	note := func(id string) []byte {
		return append([]byte("\x04\x00\x00\x00\x04\x00\x00\x00\x03\x00\x00\x00GNU\x00"), id...)
	}
	e := testELF{typ: TypeDyn, machine: MachineX86_64, sections: []testSection{
		{name: ".note.a", section: section{typ: shtNote, flags: shfAlloc}, data: note("abcd")},
		{name: ".note.b", section: section{typ: shtNote, flags: shfAlloc}, data: note("efgh")},
	}}
	f := openBytes(t, e.bytes())
	if w := warned(f, WarnTwoIDs); f.BuildID() != "abcd" || len(f.IDs()) != 2 || w != "test: two build ids: 61626364, and 65666768 which is not used" {
		t.Errorf("got %q, %v, %q", f.BuildID(), f.IDs(), w)
	}
}

// TestNoSections is case S10: without section headers the id stands in
// PT_NOTE, and the functions in PT_DYNAMIC.
func TestNoSections(t *testing.T) {
	for _, hash := range []string{"gnu", "sysv"} {
		name := perftest.CC(t, "lib.so", "int alpha(int x) { return x + 1; }\nint beta(int x) { return alpha(x) * 2; }\n", "-shared", "-fPIC", "-Wl,--hash-style="+hash)
		whole := openTest(t, name)
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		copy(b[40:48], make([]byte, 8)) // e_shoff
		f := openBytes(t, b)
		if f.BuildID() == "" || f.BuildID() != whole.BuildID() {
			t.Errorf("build id %q, want %q", f.BuildID(), whole.BuildID())
		}
		want, err := whole.Symbols(SymbolOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Symbols(SymbolOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []string{"alpha", "beta"} {
			at, ok := want.Address(s)
			if g, ok2 := got.Lookup(at); !ok || !ok2 || g.Name != s {
				t.Errorf("%s hash: %s: got %+v, %v", hash, s, g, ok2)
			}
		}
		var dyn segment
		for _, p := range f.segments {
			if p.typ == ptDynamic {
				dyn = p
			}
		}
		// E11: what PT_DYNAMIC points to is hostile too.
		short := append(bytes.Clone(b[:0x600]), b[dyn.off:dyn.off+dyn.filesz]...)
		order := binary.LittleEndian
		for i := range f.segments {
			if f.segments[i].typ == ptDynamic {
				order.PutUint64(short[64+56*i+8:], 0x600)
			}
		}
		if got, err := openBytes(t, short).Symbols(SymbolOptions{Space: Addresses}); err != nil || got.Len() < 2 {
			t.Errorf("%s hash: cut short: %v", hash, err)
		}
		mutate(t, [][]byte{short}, 2000, func(b []byte) int { return len(b) - 8 })
		h, err := whole.TextHash()
		if g, err2 := f.TextHash(); err != nil || err2 != nil || g != h {
			t.Errorf("the hash of the text differs without section headers: %v, %v", err, err2)
		}
	}
}

// TestMiniDebug is case S39: symbols in .gnu_debugdata.
func TestMiniDebug(t *testing.T) {
	perftest.NeedTool(t, "xz")
	full := perftest.CC(t, "full", spinLike, "-O1")
	dir := t.TempDir()
	path := func(s string) string { return filepath.Join(dir, s) }
	tool(t, "objcopy", "--only-keep-debug", full, path("mini"))
	tool(t, "strip", "--strip-debug", path("mini"))
	tool(t, "xz", path("mini"))
	tool(t, "objcopy", "--strip-all", "--add-section", ".gnu_debugdata="+path("mini.xz"), full, path("out"))
	f := openTest(t, path("out"))
	if f.Quality() != MiniDebug {
		t.Errorf("quality %v, want %v", f.Quality(), MiniDebug)
	}
	want, err := openTest(t, full).Symbols(SymbolOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.Symbols(SymbolOptions{})
	if err != nil {
		t.Fatal(err)
	}
	at, _ := want.Address("hot_leaf")
	if s, ok := got.Lookup(at); !ok || s.Name != "hot_leaf" {
		t.Errorf("got %+v, %v", s, ok)
	}
}

const spinLike = "volatile long x;\nstatic __attribute__((noinline)) void hot_leaf(long n) { for (long i = 0; i < n; i++) x += i; }\nint main(void) { hot_leaf(9); return 0; }\n"

// TestCompressedSections compares all kinds with debug/elf.
func TestCompressedSections(t *testing.T) {
	full := perftest.CC(t, "full", pltSource, "-g", "-lm")
	for _, kind := range []string{"none", "zlib", "zlib-gnu", "zstd"} {
		name := filepath.Join(t.TempDir(), kind)
		perftest.NeedTool(t, "objcopy")
		if out, err := exec.Command("objcopy", "--compress-debug-sections="+kind, full, name).CombinedOutput(); err != nil {
			t.Logf("NOTICE: objcopy cannot do %s: %s", kind, out)
			continue
		}
		std, err := elf.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer std.Close()
		f := openTest(t, name)
		n := 0
		for _, s := range []string{".debug_info", ".debug_str", ".debug_line", ".debug_abbrev", ".text"} {
			x := std.Section(s)
			if x == nil {
				x = std.Section(strings.Replace(s, ".debug", ".zdebug", 1))
			}
			if x == nil {
				continue
			}
			want, err := x.Data()
			if err != nil {
				t.Fatal(err)
			}
			got, err := f.Section(s)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %s: %d bytes, %v; want %d", kind, s, len(got), err, len(want))
			}
			n++
		}
		if n < 4 {
			t.Errorf("%s: only %d sections", kind, n)
		}
		if got, err := f.Section(".absent"); got != nil || err != nil {
			t.Errorf("absent section: %v, %v", got, err)
		}
	}
}

// TestCompressedErrors states the errors of lying sizes (C5).
func TestCompressedErrors(t *testing.T) {
	for _, tt := range []struct {
		typ  uint32
		size uint64
		want string
	}{
		{1, 1 << 40, "test: section .debug_info: .debug_info: wants 1099511627776, over the limit of"},
		{1, 3, "test: section .debug_info: "},
		{9, 3, "test: section .debug_info: ch_type is 9, want 1 (zlib) or 2 (zstd)"},
	} {
		b := fmt.Appendf(nil, "%c\x00\x00\x00\x00\x00\x00\x00", tt.typ)
		for i := range 8 {
			b = append(b, byte(tt.size>>(8*i)))
		}
		b = append(b, make([]byte, 8+20)...)
		e := testELF{typ: TypeDyn, machine: MachineX86_64, sections: []testSection{{name: ".debug_info", section: section{typ: shtProgbits, flags: shfCompressed}, data: b}}}
		_, err := openBytes(t, e.bytes()).Section(".debug_info")
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("type %d, size %d: got %v", tt.typ, tt.size, err)
		}
	}
}
