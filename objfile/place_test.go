package objfile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
)

// TestSections: places of code are in the sections and segments that
// debug/elf has them in.
func TestSections(t *testing.T) {
	gcc := perftest.NeedTool(t, "gcc")
	dir := t.TempDir()
	src := `int other(int);
__attribute__((section(".noinstr.text"))) int quiet(int n) { return n * 3; }
__attribute__((section(".init.text"))) int begin(int n) { return n * 5; }
int work(int n) { int t = 0; for (int i = 0; i < n; i++) t += i ^ n; return t + other(n); }
int data[4] = {1, 2, 3, 4};
`
	if err := os.WriteFile(filepath.Join(dir, "m.c"), []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"-c", "-o", "m.o"},
		{"-shared", "-fPIC", "-nostdlib", "-o", "m.so"},
	} {
		if r := perftest.Run(t, dir, nil, nil, gcc, append(args, "-O1", "m.c")...); r.Code != 0 {
			t.Skipf("gcc: %s", r.Stderr)
		}
		name := filepath.Join(dir, args[len(args)-1])
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Open(bytes.NewReader(b), int64(len(b)), name, nil)
		if err != nil {
			t.Fatal(err)
		}
		x, err := elf.NewFile(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		for off := range uint64(len(b) + 16) {
			want := ""
			for _, s := range x.Sections {
				if s.Flags&elf.SHF_EXECINSTR != 0 && s.Type == elf.SHT_PROGBITS && off >= s.Offset && off < s.Offset+s.Size {
					want = s.Name
				}
			}
			if got := f.SectionAt(off); got != want {
				t.Fatalf("%s: SectionAt(%#x) = %q, want %q", name, off, got, want)
			}
		}
		for addr := range uint64(0x5000) {
			var want, size, next uint64
			var there, more bool
			for _, p := range x.Progs {
				if p.Type != elf.PT_LOAD {
					continue
				}
				if addr >= p.Vaddr && addr < p.Vaddr+p.Filesz {
					want, size, there = addr-p.Vaddr+p.Off, p.Filesz-(addr-p.Vaddr), true
				}
				if p.Vaddr > addr && (!more || p.Vaddr < next) {
					next, more = p.Vaddr, true
				}
			}
			if off, n, ok := f.Segment(addr); off != want || n != size || ok != there {
				t.Fatalf("%s: Segment(%#x) = %#x, %d, %v, want %#x, %d, %v", name, addr, off, n, ok, want, size, there)
			}
			if at, ok := f.NextSegment(addr); at != next || ok != more {
				t.Fatalf("%s: NextSegment(%#x) = %#x, %v, want %#x, %v", name, addr, at, ok, next, more)
			}
		}
		if x.Type != elf.ET_REL {
			continue
		}
		// The kernel loads code one section behind the other, without .init.
		at := uint64(0)
		for _, s := range x.Sections {
			if s.Flags&elf.SHF_EXECINSTR == 0 {
				continue
			}
			if s.Name == ".init.text" {
				continue
			}
			at = (at + s.Addralign - 1) / s.Addralign * s.Addralign
			for _, addr := range []uint64{at, at + s.Size - 1} {
				if got, ok := f.LoadedSection(addr); s.Size > 0 && (!ok || got != LoadedSection{s.Name, at, s.Offset, s.Size}) {
					t.Errorf("%s: LoadedSection(%#x) = %+v, %v, want %q at %#x", name, addr, got, ok, s.Name, at)
				}
			}
			at += s.Size
		}
		if got, ok := f.LoadedSection(at); ok {
			t.Errorf("%s: LoadedSection(%#x) = %+v", name, at, got)
		}
	}
}

// TestSegmentsOfCore: of a core file only what it has is there.
func TestSegmentsOfCore(t *testing.T) {
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		b := perftest.Core(62, order, perftest.CoreSegment{Addr: 0xffff000000002000, Data: make([]byte, 4096), Size: 1 << 40}, perftest.CoreSegment{Addr: 0x1000, Data: make([]byte, 4096)})
		f, err := Open(bytes.NewReader(b), int64(len(b)), "core", nil)
		if err != nil {
			t.Fatal(err)
		}
		if f.Type() != TypeCore {
			t.Errorf("type %d", f.Type())
		}
		if off, n, ok := f.Segment(0x1010); off != 0x2010 || n != 0xff0 || !ok {
			t.Errorf("%#x, %#x, %v", off, n, ok)
		}
		if off, n, ok := f.Segment(0xffff000000002000); off != 0x1000 || n != 1<<40 || !ok {
			t.Errorf("%#x, %#x, %v", off, n, ok)
		}
		if at, ok := f.NextSegment(0x1000); at != 0xffff000000002000 || !ok {
			t.Errorf("%#x, %v", at, ok)
		}
		if at, ok := f.NextSegment(0xffff000000002000); ok {
			t.Errorf("%#x", at)
		}
	}
}
