package objfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/perfark/perfark/buildid"
)

// A testPE is a PE file to be written by a test: one section of code, one with
// the directories, a symbol table and its strings.
type testPE struct {
	class   int
	machine uint16
	guid    []byte
	symbols []testCOFF
	exports map[string]uint32 // by name, in .text
}

type testCOFF struct {
	name    string
	value   uint32
	section int16
	typ     uint16
	class   byte
	aux     int
}

const (
	peBase     = 0x140000000
	peTextRVA  = 0x1000
	peTextAt   = 0x400
	peRdataRVA = 0x2000
	peRdataAt  = 0x800
)

func (e testPE) bytes() []byte {
	le := binary.LittleEndian
	b := make([]byte, 0x1000)
	copy(b, "MZ")
	le.PutUint32(b[60:], 0x80)
	h := b[0x80:]
	copy(h, "PE\x00\x00")
	machine := e.machine
	if machine == 0 {
		machine = 0x8664
	}
	le.PutUint16(h[4:], machine)
	le.PutUint16(h[6:], 2)
	le.PutUint32(h[12:], uint32(len(b)))
	optional := 240
	if e.class == 32 {
		optional = 224
	}
	le.PutUint16(h[20:], uint16(optional))
	o := h[24:]
	dirs := o[112:]
	if e.class == 32 {
		le.PutUint16(o, 0x10b)
		le.PutUint32(o[28:], peBase&0xffffffff)
		dirs = o[96:]
	} else {
		le.PutUint16(o, 0x20b)
		le.PutUint64(o[24:], peBase)
	}
	le.PutUint32(o[60:], 0x400)
	le.PutUint32(o[len(o)-len(dirs)-4:], 16)
	sec := o[optional:]
	for i, s := range []struct {
		name           string
		size, rva, raw uint32
		flags          uint32
	}{{".text", 0x200, peTextRVA, peTextAt, 0x60000020}, {".rdata", 0x400, peRdataRVA, peRdataAt, 0x40000040}} {
		h := sec[40*i:]
		copy(h, s.name)
		le.PutUint32(h[8:], s.size)
		le.PutUint32(h[12:], s.rva)
		le.PutUint32(h[16:], s.size)
		le.PutUint32(h[20:], s.raw)
		le.PutUint32(h[36:], s.flags)
	}
	r := b[peRdataAt:]
	if e.guid != nil {
		le.PutUint32(dirs[6*8:], peRdataRVA)
		le.PutUint32(dirs[6*8+4:], 28)
		le.PutUint32(r[12:], peCodeView)
		le.PutUint32(r[16:], 40)
		le.PutUint32(r[24:], peRdataAt+0x40)
		copy(r[0x40:], "RSDS")
		copy(r[0x44:], e.guid)
	}
	if e.exports != nil {
		const at = 0x80
		le.PutUint32(dirs, peRdataRVA+at)
		le.PutUint32(dirs[4:], 0x200)
		x := r[at:]
		n := uint32(len(e.exports))
		le.PutUint32(x[20:], n)
		le.PutUint32(x[24:], n)
		le.PutUint32(x[28:], peRdataRVA+at+0x40)
		le.PutUint32(x[32:], peRdataRVA+at+0x60)
		le.PutUint32(x[36:], peRdataRVA+at+0x80)
		i, text := uint32(0), uint32(0xa0)
		for name, rva := range e.exports {
			le.PutUint32(x[0x40+4*i:], rva)
			le.PutUint32(x[0x60+4*i:], peRdataRVA+at+text)
			le.PutUint16(x[0x80+2*i:], uint16(i))
			copy(x[text:], name)
			text += uint32(len(name)) + 1
			i++
		}
	}
	strs := make([]byte, 4)
	n := 0
	for _, s := range e.symbols {
		sym := make([]byte, 18)
		if len(s.name) > 8 {
			le.PutUint32(sym[4:], uint32(len(strs)))
			strs = append(append(strs, s.name...), 0)
		} else {
			copy(sym, s.name)
		}
		le.PutUint32(sym[8:], s.value)
		le.PutUint16(sym[12:], uint16(s.section))
		le.PutUint16(sym[14:], s.typ)
		sym[16], sym[17] = s.class, byte(s.aux)
		b = append(append(b, sym...), make([]byte, 18*s.aux)...)
		n += 1 + s.aux
	}
	le.PutUint32(b[0x80+16:], uint32(n))
	le.PutUint32(strs, uint32(len(strs)))
	return append(b, strs...)
}

var testGUID = []byte{0x82, 0xd8, 0x0f, 0x5a, 0x30, 0xb5, 0x22, 0x84, 0x4b, 0xa4, 0x7b, 0x62, 0x4c, 0x55, 0xa4, 0x69}

// TestPE has the build id of perf's own test of PE files, and symbols of both
// kinds.
func TestPE(t *testing.T) {
	for _, class := range []int{32, 64} {
		e := testPE{class: class, guid: testGUID, symbols: []testCOFF{
			{".file", 0, -2, 0, 103, 1},
			{"main", 0x10, 1, 0x20, coffExternal, 1},
			{".text", 0, 1, 0, coffStatic, 1},
			{"a_static_function", 0x40, 1, 0x20, coffStatic, 0},
			{"_ZN1a4longEv", 0x80, 1, 0x20, coffExternal, 0},
			{"__imp_x", 0x10, 2, 0, coffExternal, 0},
			{"undefined", 0, 0, 0x20, coffExternal, 0},
			{"absolute", 5, -1, 0, coffExternal, 0},
			{"eight_ch", 0x60, 1, 0x20, coffExternal, 0},
		}, exports: map[string]uint32{"Exported": peTextRVA + 0xc0, "Forward": peRdataRVA + 0x90}}
		f := openBytes(t, e.bytes())
		if want := buildid.ID("\x5a\x0f\xd8\x82\xb5\x30\x84\x22\x4b\xa4\x7b\x62\x4c\x55\xa4\x69"); f.BuildID() != want || f.Class() != class || f.Machine() != MachineX86_64 {
			t.Errorf("id %s, want %s; %d bits, machine %d", f.BuildID(), want, f.Class(), f.Machine())
		}
		tab, err := f.Symbols(SymbolOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for off, want := range map[uint64]string{
			peTextAt: "", peTextAt + 0x10: "main", peTextAt + 0x3f: "main", peTextAt + 0x40: "a_static_function", peTextAt + 0x60: "eight_ch",
			peTextAt + 0x7f: "eight_ch", peTextAt + 0x80: "_ZN1a4longEv", peTextAt + 0xc0: "Exported", peTextAt + 0x1ff: "Exported", peTextAt + 0x200: "", peRdataAt + 0x10: "__imp_x",
		} {
			if s, _ := tab.Lookup(off); s.Name != want {
				t.Errorf("%d bits: %#x: got %+v, want %q", class, off, s, want)
			}
		}
		if some, err := f.Symbols(SymbolOptions{Only: []uint64{peTextAt + 0x45}}); err != nil {
			t.Error(err)
		} else if s, _ := some.Lookup(peTextAt + 0x45); s.Name != "a_static_function" {
			t.Errorf("only one: got %+v", s)
		}
		if f.Quality() != Symtab || len(f.Warnings()) > 0 {
			t.Errorf("quality %v, warnings %v", f.Quality(), f.Warnings())
		}
		if _, err := f.TextHash(); err != nil {
			t.Error(err)
		}
		e.symbols = nil
		if q := openBytes(t, e.bytes()).Quality(); q != Dynsym {
			t.Errorf("without symbols: quality %v", q)
		}
	}
	if m := openBytes(t, testPE{machine: 0x8664 ^ 0x7b79}.bytes()).Machine(); m != MachineX86_64 {
		t.Errorf("ready to run: machine %d", m)
	}
	_, err := Open(strings.NewReader("MZ, but no more"), 15, "f", nil)
	if !errors.Is(err, ErrNotELF) {
		t.Errorf("DOS: %v", err)
	}
}

// TestPEMinGW compares with objdump and nm of binutils.
func TestPEMinGW(t *testing.T) {
	const tool = "x86_64-w64-mingw32-"
	if _, err := exec.LookPath(tool + "gcc"); err != nil {
		t.Skip("NOTICE: no MinGW here; install gcc-mingw-w64-x86-64 for this test")
	}
	dir := t.TempDir()
	src := filepath.Join(dir, "p.c")
	if err := os.WriteFile(src, []byte(`#include <stdio.h>
volatile unsigned long sink;
__declspec(dllexport) __attribute__((noinline)) void hot_leaf(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i * i; }
static __attribute__((noinline)) void hot_mid(unsigned long n) { hot_leaf(n); sink++; }
int main(int c, char **v) { hot_mid(c); puts("x"); return 0; }
`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		out   string
		flags []string
		q     Quality
	}{
		{"p.exe", []string{"-g"}, FullDWARF},
		{"q.exe", nil, Symtab},
		{"p.dll", []string{"-shared"}, Symtab},
		{"s.dll", []string{"-shared", "-s"}, Dynsym},
	} {
		name := filepath.Join(dir, tt.out)
		if out, err := exec.Command(tool+"gcc", append([]string{"-O1", "-Wl,--build-id", "-o", name, src}, tt.flags...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		f := openTest(t, name)
		dump, err := exec.Command(tool+"objdump", "-p", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(`RSDS signature ([0-9a-f]{32})`).FindSubmatch(dump)
		if m == nil || string(m[1]) != f.BuildID().String() {
			t.Errorf("%s: id %s, objdump has %s", tt.out, f.BuildID(), m)
		}
		// The runtime of MinGW has debug information of its own.
		if q := f.Quality(); q != tt.q && !(q == FullDWARF && tt.q == Symtab) || len(f.Warnings()) > 0 {
			t.Errorf("%s: quality %v, want %v; warnings %v", tt.out, f.Quality(), tt.q, f.Warnings())
		}
		tab, err := f.Symbols(SymbolOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want := map[uint64][]string{}
		if tt.q != Dynsym {
			out, err := exec.Command(tool+"nm", name).Output()
			if err != nil {
				t.Fatal(err)
			}
			for l := range strings.Lines(string(out)) {
				if w := strings.Fields(l); len(w) == 3 && (w[1] == "T" || w[1] == "t") {
					a := beHex(w[0])
					want[a] = append(want[a], w[2])
				}
			}
		}
		n := 0
		for addr, names := range want {
			off, _, ok := f.bytesAt(addr)
			if !ok {
				t.Errorf("%s: %#x is not in the file", tt.out, addr)
				continue
			}
			s, _ := tab.Lookup(off)
			found := false
			for _, x := range names {
				found = found || x == s.Name || strings.HasPrefix(x, ".")
			}
			if !found {
				t.Errorf("%s: %#x: got %+v, nm has %q", tt.out, addr, s, names)
			}
			n++
		}
		if tt.q == Dynsym {
			at, ok := tab.Address("hot_leaf")
			if s, _ := tab.Lookup(at + 3); !ok || s.Name != "hot_leaf" {
				t.Errorf("%s: got %+v", tt.out, s)
			}
		}
		t.Logf("%s: %d addresses", tt.out, n)
	}
}

func beHex(s string) (v uint64) {
	for _, c := range []byte(s) {
		v = v<<4 | uint64(strings.IndexByte("0123456789abcdef", c))
	}
	return v
}

// TestPEHostile: whatever headers say, reading ends soon.
func TestPEHostile(t *testing.T) {
	e := testPE{class: 64, guid: testGUID, symbols: []testCOFF{{"main", 0x10, 1, 0x20, coffExternal, 0}, {"a_long_name", 0x20, 1, 0x20, coffExternal, 0}}, exports: map[string]uint32{"Exported": peTextRVA + 0xc0}}
	whole := e.bytes()
	for n := 0; n < len(whole); n += raceFactor {
		use(whole[:n])
	}
	mutate(t, [][]byte{whole}, 3000, func(b []byte) int { return len(b) - 8 })
	le := binary.LittleEndian
	// A million symbols with one name of a megabyte, and as many exports.
	n := 1_000_000 / raceFactor
	b := e.bytes()[:0x1000]
	le.PutUint32(b[0x80+16:], uint32(n))
	sym := make([]byte, 18)
	le.PutUint32(sym[4:], 4)
	le.PutUint16(sym[12:], 1)
	sym[16] = coffExternal
	b = append(b, bytes.Repeat(sym, n)...)
	b = le.AppendUint32(b, 1<<20+5)
	b = append(append(b, bytes.Repeat([]byte{'A'}, 1<<20)...), 0)
	bounded(t, "one name", len(b), func() { use(b) })
	// Sections all over each other.
	x := e.bytes()
	x = append(x, make([]byte, 65535*40)...)
	le.PutUint16(x[0x80+6:], 65535)
	for i := range 65535 {
		s := x[0x80+24+240+40*i:]
		if len(s) < 40 {
			break
		}
		copy(s, "/4")
		le.PutUint32(s[8:], 1<<31)
		le.PutUint32(s[16:], 1<<31)
		le.PutUint32(s[20:], 1)
		le.PutUint32(s[36:], 0x60000020)
	}
	bounded(t, "sections", len(x), func() { use(x) })
}

func FuzzPE(f *testing.F) {
	f.Add(testPE{class: 64, guid: testGUID, symbols: []testCOFF{{"main", 0x10, 1, 0x20, coffExternal, 0}}, exports: map[string]uint32{"E": peTextRVA}}.bytes())
	f.Add(testPE{class: 32}.bytes())
	f.Fuzz(func(t *testing.T, b []byte) { use(b) })
}
