package objfile

import (
	"encoding/binary"
	hexcode "encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// crossTargets are the prefixes of Debian's cross compilers, one for each
// machine with rules of its own.
var crossTargets = []string{
	"aarch64-linux-gnu", "arm-linux-gnueabihf", "i686-linux-gnu", "mips-linux-gnu", "powerpc-linux-gnu", "powerpc64-linux-gnu",
	"powerpc64le-linux-gnu", "riscv64-linux-gnu", "s390x-linux-gnu", "sparc64-linux-gnu",
}

const crossSource = `#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int hot(int n) { char b[64]; snprintf(b, sizeof b, "%d", n); return atoi(b) + (int)strlen(b); }
static __attribute__((noinline)) int inner(int x) { return hot(x) * x; }
int (*volatile fp)(int) = hot;
int main(int c, char **v) {
	int s = 0;
	for (int i = 0; i < 10; i++) s += hot(i) + inner(i) + fp(i);
	puts("x");
	void *p = malloc(s);
	free(p);
	qsort(v, c, sizeof *v, (int (*)(const void *, const void *))strcmp);
	return s == 0;
}
`

// TestCross names every function and stub of programs for other machines as nm
// and objdump do: S50, and the machines of the issue.
func TestCross(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles for all machines")
	}
	dir := t.TempDir()
	src := filepath.Join(dir, "p.c")
	if err := os.WriteFile(src, []byte(crossSource), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, target := range crossTargets {
		if _, err := exec.LookPath(target + "-gcc"); err != nil {
			t.Logf("NOTICE: no %s-gcc here", target)
			continue
		}
		forms := [][]string{{"-pie"}, {"-no-pie"}, {"-shared", "-fPIC"}, {"-static"}, {"-Wl,-s"}}
		if raceFactor > 1 {
			forms = [][]string{{"-pie"}, {"-Wl,-s"}}
		}
		if target == "arm-linux-gnueabihf" {
			forms = append(forms, []string{"-marm"}, []string{"-mthumb", "-no-pie"})
		}
		for _, flags := range forms {
			name := filepath.Join(dir, target+strings.Join(flags, ""))
			if out, err := exec.Command(target+"-gcc", append([]string{"-O1", "-o", name, src, "-Wl,--build-id"}, flags...)...).CombinedOutput(); err != nil {
				t.Logf("NOTICE: %s %q: %s", target, flags, out)
				continue
			}
			crossCheck(t, target, name)
		}
	}
}

// crossCheck compares the names in a file with those of binutils.
func crossCheck(t *testing.T, target, name string) {
	t.Helper()
	f := openTest(t, name)
	tab, err := f.Symbols(SymbolOptions{})
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	if len(f.Warnings()) > 0 {
		t.Errorf("%s: %v", name, f.Warnings())
	}
	lookup := func(addr uint64) (Sym, uint64) {
		p, _ := f.load(addr)
		off := addr - p.vaddr + p.off
		s, _ := tab.Lookup(off)
		return s, off
	}
	// Functions, by readelf, which gives sizes and the form of descriptors.
	out, err := exec.Command(target+"-readelf", "-sW", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	funcs, bad := 0, 0
	names := map[uint64][]string{}
	type fun struct {
		addr, size uint64
		name       string
	}
	var list []fun
	opd := f.section(".opd")
	for l := range strings.Lines(string(out)) {
		w := strings.Fields(l)
		if len(w) < 8 || w[3] != "FUNC" && w[3] != "IFUNC" || w[len(w)-2] == "UND" || w[6] == "UND" {
			continue
		}
		addr, err := strconv.ParseUint(w[1], 16, 64)
		size, err2 := strconv.ParseUint(w[2], 0, 64)
		if err != nil || err2 != nil {
			continue
		}
		if f.machine == MachineARM {
			addr &^= 1
		}
		if opd != nil && addr-opd.addr < opd.size {
			b, err := f.contents(opd)
			if err != nil {
				t.Fatal(err)
			}
			addr = beWord(b[addr-opd.addr:])
		}
		// What other has stands in brackets before the section or behind it:
		// [<localentry>: 8], [<other>: 10].
		l = regexp.MustCompile(`\[.*?\]`).ReplaceAllString(l, "")
		if w = strings.Fields(l); len(w) < 8 || w[6] == "UND" {
			continue
		}
		n, _, _ := strings.Cut(w[7], "@")
		names[addr] = append(names[addr], n)
		list = append(list, fun{addr, size, n})
	}
	for _, x := range list {
		addrs := []uint64{x.addr}
		if x.size > 4 {
			addrs = append(addrs, x.addr+x.size/2, x.addr+x.size-1)
		}
		for _, a := range addrs {
			s, _ := lookup(a)
			ok := false
			for _, n := range names[x.addr] {
				g, _, _ := strings.Cut(s.Name, "@")
				// Marks of the linker for the beginning of sections.
				ok = ok || g == n || g == "_ftext" && (a < x.addr+x.size || x.size == 0) || n == mipsLabel
			}
			// A symbol inside of this one is the better answer.
			p, _ := f.load(x.addr)
			if !ok && !(a > x.addr && s.Start > x.addr-p.vaddr+p.off && s.Name != "") {
				if bad++; bad < 6 {
					t.Errorf("%s: %s+%#x (%#x): got %+v", name, x.name, a-x.addr, a, s)
				}
			}
			funcs++
		}
	}
	// Stubs, by objdump.
	if f.machine == MachinePPC {
		return // their code has no section, and no dynamic tag tells where it is
	}
	out, _ = exec.Command(target+"-objdump", "-d", name).Output()
	label := regexp.MustCompile(`(?m)^([0-9a-f]+) <(.+)@plt>:$`)
	stubs := 0
	for _, m := range label.FindAllStringSubmatch(string(out), -1) {
		addr, _ := strconv.ParseUint(m[1], 16, 64)
		want, _, _ := strings.Cut(m[2], "@")
		s, off := lookup(addr)
		got := strings.TrimSuffix(s.Name, "@plt")
		if want == "*ABS*" {
			want, _, _ = strings.Cut(got, "@")
		}
		if got != want || got == s.Name || s.Start != off {
			t.Errorf("%s: stub at %#x: got %+v, want %s@plt", name, addr, s, want)
		}
		stubs++
	}
	t.Logf("%s: %d addresses in functions, %d stubs", filepath.Base(name), funcs, stubs)
}

// mipsLabel is of all stubs of MIPS.
const mipsLabel = "_MIPS_STUBS_"

func beWord(b []byte) (v uint64) {
	for _, x := range b[:8] {
		v = v<<8 | uint64(x)
	}
	return v
}

// TestStubDecoders has the code of a stub of each machine, as objdump shows it,
// and the slot that readelf has for it.
func TestStubDecoders(t *testing.T) {
	for _, tt := range []struct {
		m          Machine
		class      int
		big        bool
		addr, slot uint64
		code       string
	}{
		{MachineARM, 32, false, 0x49c, 0x2018, "00c68fe201ca8ce274fbbce5"},
		{MachineARM, 32, false, 0x49c, 0x2018, "7847c04600c68fe201ca8ce270fbbce5"},
		{MachineARM, 32, true, 0x49c, 0x2018, "e28fc600e28cca01e5bcfb74"},
		{MachineARM, 32, false, 0x1000, 0x3010, "04c09fe50fc08ce000f09ce504200000"},
		{MachineRISCV, 64, false, 0x720, 0x2048, "172e0000033e8e9267030e0013000000"},
		{MachineS390, 64, true, 0x720, 0x2010, "c01000000c78e3101000000407f10d10"},
		{MachineAArch64, 64, false, 0x7a0, 0x20038, "10010090111e40f910e2009120021fd6"},
		{MachineAArch64, 64, false, 0x79c, 0x20038, "5f2403d510010090111e40f910e2009120021fd6"},
		{MachineMIPS, 32, true, 0x400700, 0x410720, "3c0f00418df907200320000825f80720"},
		{MachineLoong, 64, false, 0x720, 0x2048, "4f00001cefa1e428ed01004c00004003"},
	} {
		code, err := hexcode.DecodeString(tt.code)
		if err != nil {
			t.Fatal(err)
		}
		e := testELF{class: tt.class, big: tt.big, typ: TypeDyn, machine: tt.m}
		base := tt.addr &^ 0xfff
		e.segments = []segment{{typ: ptLoad, flags: pfExec, off: 0x1000, vaddr: base, filesz: 0x1000, memsz: 0x1000}}
		dyn, str := e.symtab(testSym{name: "ext", info: fn})
		var rel []byte
		var o binary.AppendByteOrder = binary.LittleEndian
		if tt.big {
			o = binary.BigEndian
		}
		if tt.class == 32 {
			rel = o.AppendUint32(o.AppendUint32(nil, uint32(tt.slot)), 1<<8|22)
		} else {
			rel = o.AppendUint64(o.AppendUint64(o.AppendUint64(nil, tt.slot), 1<<32|5), 0)
		}
		typ, name := uint32(shtRel), ".rel.plt"
		if tt.class == 64 {
			typ, name = shtRela, ".rela.plt"
		}
		e.sections = []testSection{
			{name: ".plt", section: section{typ: shtProgbits, flags: shfAlloc | shfExec, addr: tt.addr, off: 0x1000 + tt.addr - base, size: uint64(len(code))}},
			{name: ".dynsym", section: section{typ: shtDynsym, flags: shfAlloc, link: 3, entsize: e.symEnt()}, data: dyn},
			{name: ".dynstr", section: section{typ: 3, flags: shfAlloc}, data: str},
			{name: name, section: section{typ: typ, flags: shfAlloc, link: 2}, data: rel},
		}
		b := e.bytes()
		b = append(b, make([]byte, 0x2000)...)
		copy(b[0x1000+tt.addr-base:], code)
		f := openBytes(t, b)
		tab, err := f.Symbols(SymbolOptions{})
		if err != nil {
			t.Fatal(err)
		}
		at := 0x1000 + tt.addr - base
		if s, ok := tab.Lookup(at); !ok || s.Name != "ext@plt" || s.Start != at {
			t.Errorf("machine %d, code %s: got %+v, %v", tt.m, tt.code, s, ok)
		}
	}
}

// TestStubsByPlace has the stubs that no code tells: of SPARC, which are their
// own slots, those that MIPS binds at their first call, and of 64-bit PowerPC.
func TestStubsByPlace(t *testing.T) {
	load := segment{typ: ptLoad, flags: pfExec, off: 0, vaddr: 0x10000, filesz: 0x1000, memsz: 0x1000}
	text := func(name string, off, size uint64) testSection {
		return testSection{name: name, section: section{typ: shtProgbits, flags: shfAlloc | shfExec, addr: 0x10000 + off, off: off, size: size}}
	}
	check := func(what string, e testELF, want map[uint64]string) {
		t.Helper()
		b := e.bytes()
		tab, err := openBytes(t, append(b, make([]byte, 0x1000)...)).Symbols(SymbolOptions{})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for off, name := range want {
			if s, _ := tab.Lookup(off); s.Name != name {
				t.Errorf("%s: %#x: got %+v, want %q", what, off, s, name)
			}
		}
	}
	sparc := testELF{big: true, typ: TypeDyn, machine: MachineSPARC64, segments: []segment{load}}
	dyn, str := sparc.symtab(testSym{name: "a", info: fn}, testSym{name: "b", info: fn})
	var rela []byte
	for i := range uint64(2) {
		rela = binary.BigEndian.AppendUint64(rela, 0x10800+128+32*i)
		rela = binary.BigEndian.AppendUint64(rela, (i+1)<<32|21)
		rela = binary.BigEndian.AppendUint64(rela, 0)
	}
	sections := func(plt testSection, dyn, str []byte, entsize uint64, rel testSection) []testSection {
		return []testSection{plt,
			{name: ".dynsym", section: section{typ: shtDynsym, flags: shfAlloc, link: 3, entsize: entsize}, data: dyn},
			{name: ".dynstr", section: section{typ: 3, flags: shfAlloc}, data: str}, rel}
	}
	relaSec := testSection{name: ".rela.plt", section: section{typ: shtRela, flags: shfAlloc, link: 2}, data: rela}
	sparc.sections = sections(text(".plt", 0x800, 128+64), dyn, str, 24, relaSec)
	check("sparc64", sparc, map[uint64]string{0x800: ".plt", 0x800 + 128: "a@plt", 0x800 + 159: "a@plt", 0x800 + 160: "b@plt", 0x800 + 192: ""})

	mips := testELF{class: 32, big: true, typ: TypeDyn, machine: MachineMIPS, segments: []segment{load}}
	dyn, str = mips.symtab(testSym{name: "a", value: 0x10810, info: fn}, testSym{name: "b", value: 0x10800, info: fn}, testSym{name: "odd", value: 0x10901, size: 8, info: fn, shndx: 1})
	mips.sections = sections(text(mipsStubs, 0x800, 0x20), dyn, str, 16, testSection{name: ".x"})
	check("mips", mips, map[uint64]string{0x800: "b@plt", 0x80f: "b@plt", 0x810: "a@plt", 0x81f: "a@plt", 0x820: "", 0x900: "odd"})

	for _, v2 := range []bool{false, true} {
		ppc := testELF{big: !v2, typ: TypeDyn, machine: MachinePPC64, segments: []segment{load, {typ: ptDynamic, off: 0x900, vaddr: 0x10900, filesz: 32}}}
		var o binary.AppendByteOrder = binary.BigEndian
		size := uint64(8)
		if v2 {
			o, size = binary.LittleEndian, 4
		}
		dyn, str = ppc.symtab(testSym{name: "a", info: fn}, testSym{name: "b", info: fn})
		rela = nil
		for i := range uint64(2) {
			rela = o.AppendUint64(o.AppendUint64(o.AppendUint64(rela, 0x20000+8*i), (i+1)<<32|21), 0)
		}
		relaSec.data = rela
		tags := o.AppendUint64(o.AppendUint64(nil, dtGlink), 0x10800)
		ppc.sections = append(sections(text(".text", 0x700, 0x200), dyn, str, 24, relaSec),
			testSection{name: ".dynamic", section: section{typ: 6, flags: shfAlloc, addr: 0x10900, off: 0x900, size: 32}})
		b := ppc.bytes()
		if len(b) > 0x900 {
			t.Fatal("too large")
		}
		b = append(append(b, make([]byte, 0x900-len(b))...), tags...)
		b = append(b, make([]byte, 0x800)...)
		if v2 {
			o.(binary.ByteOrder).PutUint32(b[48:], 2)
		}
		tab, err := openBytes(t, b).Symbols(SymbolOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for off, want := range map[uint64]string{0x820: "a@plt", 0x820 + size - 1: "a@plt", 0x820 + size: "b@plt", 0x820 + 2*size: ""} {
			if s, _ := tab.Lookup(off); s.Name != want {
				t.Errorf("ppc64, ABI v2 %v: %#x: got %+v, want %q", v2, off, s, want)
			}
		}
	}
}

// TestMapping: marks for disassemblers name nothing.
func TestMapping(t *testing.T) {
	for name, want := range map[string]bool{
		"$a\x00": true, "$d\x00": true, "$t.5\x00": true, "$x\x00": true, "$x.foo\x00": true, "$xrv64i2p1_m2p0\x00": true,
		"$xyz\x00": false, "$b\x00": false, "$ab\x00": false, "$drv\x00": false, "a\x00\x00": false, "$": false,
	} {
		if got := len(name) > 0 && name[0] == '$' && isMapping(name); got != want {
			t.Errorf("%q: got %v", name, got)
		}
	}
}
