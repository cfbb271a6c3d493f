package objfile

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// A testELF is an ELF file to be written by a test: headers in front,
// section contents in order, section headers last.
type testELF struct {
	big      bool
	class    int // 64 if 0
	typ      Type
	machine  Machine
	sections []testSection // the first is number 1
	segments []segment
	noShdr   bool
}

type testSection struct {
	name string
	section
	data []byte
}

// bytes writes the file. Sections without an offset get the next one, except
// NOBITS; their sizes are those of their data unless set.
func (e *testELF) bytes() []byte {
	var o binary.AppendByteOrder = binary.LittleEndian
	if e.big {
		o = binary.BigEndian
	}
	word := o.AppendUint64
	ehsize, phsize, shsize := 64, 56, 64
	if e.class == 32 {
		word = func(b []byte, v uint64) []byte { return o.AppendUint32(b, uint32(v)) }
		ehsize, phsize, shsize = 52, 32, 40
	}
	names := []byte{0}
	secs := append([]testSection{{}}, e.sections...)
	secs = append(secs, testSection{name: ".shstrtab", section: section{typ: 3}})
	var nameAt []uint32
	for _, s := range secs {
		nameAt = append(nameAt, uint32(len(names)))
		names = append(append(names, s.name...), 0)
	}
	secs[len(secs)-1].data = names
	body := make([]byte, ehsize+phsize*len(e.segments))
	for i := range secs {
		s := &secs[i]
		if i == 0 {
			continue
		}
		for len(body)%16 != 0 {
			body = append(body, 0)
		}
		if s.off == 0 {
			s.off = uint64(len(body))
		}
		if s.size == 0 {
			s.size = uint64(len(s.data))
		}
		body = append(body, s.data...)
	}
	shoff := len(body)
	for i, s := range secs {
		body = o.AppendUint32(body, nameAt[i])
		body = o.AppendUint32(body, s.typ)
		body = word(body, s.flags)
		body = word(body, s.addr)
		body = word(body, s.off)
		body = word(body, s.size)
		body = o.AppendUint32(body, s.link)
		body = o.AppendUint32(body, s.info)
		body = word(body, s.addralign)
		body = word(body, s.entsize)
	}
	h := []byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	if e.class == 32 {
		h[4] = 1
	}
	if e.big {
		h[5] = 2
	}
	h = o.AppendUint16(h, uint16(e.typ))
	h = o.AppendUint16(h, uint16(e.machine))
	h = o.AppendUint32(h, 1)
	h = word(h, 0)
	h = word(h, uint64(ehsize))
	if e.noShdr {
		h = word(h, 0)
	} else {
		h = word(h, uint64(shoff))
	}
	h = o.AppendUint32(h, 0)
	h = o.AppendUint16(h, uint16(ehsize))
	h = o.AppendUint16(h, uint16(phsize))
	h = o.AppendUint16(h, uint16(len(e.segments)))
	h = o.AppendUint16(h, uint16(shsize))
	h = o.AppendUint16(h, uint16(len(secs)))
	h = o.AppendUint16(h, uint16(len(secs)-1))
	for _, p := range e.segments {
		h = o.AppendUint32(h, p.typ)
		if e.class != 32 {
			h = o.AppendUint32(h, p.flags)
		}
		h = word(h, p.off)
		h = word(h, p.vaddr)
		h = word(h, p.vaddr)
		h = word(h, p.filesz)
		h = word(h, p.memsz)
		if e.class == 32 {
			h = o.AppendUint32(h, p.flags)
		}
		h = word(h, p.align)
	}
	copy(body, h)
	if e.noShdr {
		body = body[:shoff]
	}
	return body
}

// A testSym is a symbol to be written.
type testSym struct {
	name        string
	value, size uint64
	info, other byte
	shndx       uint16
}

// symtab returns the contents of a symbol table and of its strings.
func (e *testELF) symtab(syms ...testSym) (tab, str []byte) {
	var o binary.AppendByteOrder = binary.LittleEndian
	if e.big {
		o = binary.BigEndian
	}
	str = []byte{0}
	tab = make([]byte, 24)
	if e.class == 32 {
		tab = tab[:16]
	}
	for _, s := range syms {
		tab = o.AppendUint32(tab, uint32(len(str)))
		if e.class == 32 {
			tab = o.AppendUint32(tab, uint32(s.value))
			tab = o.AppendUint32(tab, uint32(s.size))
		}
		tab = append(tab, s.info, s.other)
		tab = o.AppendUint16(tab, s.shndx)
		if e.class != 32 {
			tab = o.AppendUint64(tab, s.value)
			tab = o.AppendUint64(tab, s.size)
		}
		str = append(append(str, s.name...), 0)
	}
	return tab, str
}

func openBytes(t testing.TB, b []byte) *File {
	t.Helper()
	f, err := Open(bytes.NewReader(b), int64(len(b)), "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// program returns a file with a text section of size bytes at address addr
// and the given symbols.
func program(e testELF, addr uint64, size int, syms ...testSym) testELF {
	text := testSection{name: ".text", section: section{typ: shtProgbits, flags: shfAlloc | shfExec, addr: addr}, data: make([]byte, size)}
	e.sections = append([]testSection{text}, e.sections...)
	tab, str := e.symtab(syms...)
	n := uint32(len(e.sections))
	e.sections = append(e.sections, testSection{name: ".symtab", section: section{typ: shtSymtab, link: n + 2, entsize: 24}, data: tab}, testSection{name: ".strtab", section: section{typ: 3}, data: str})
	if e.class == 32 {
		e.sections[n].entsize = 16
	}
	return e
}

const fn, obj, label, local, weak = 1<<4 | 2, 1<<4 | 1, 1 << 4, 2, 2<<4 | 2

// TestSymbolRules checks the rules of symbols, in both byte orders and word
// sizes (E15, S50).
func TestSymbolRules(t *testing.T) {
	for _, big := range []bool{false, true} {
		for _, class := range []int{32, 64} {
			e := testELF{big: big, class: class, typ: TypeDyn, machine: MachineS390}
			e.segments = []segment{{typ: ptLoad, flags: pfExec, off: 0x40, vaddr: 0x1040, filesz: 0x1000, memsz: 0x1000}}
			e = program(e, 0x1100, 0x100,
				testSym{name: "sized", value: 0x1100, size: 0x10, info: fn, shndx: 1},
				testSym{name: "gap", value: 0x1118, size: 8, info: fn, shndx: 1},
				testSym{name: "outer", value: 0x1120, size: 0x20, info: fn, shndx: 1},
				testSym{name: "inner", value: 0x1128, size: 8, info: fn, shndx: 1},
				testSym{name: "label", value: 0x1140, info: label, shndx: 1},
				testSym{name: "hidden", value: 0x1142, info: label, other: stvHidden, shndx: 1},
				testSym{name: "absolute", value: 0x1144, size: 4, info: fn, shndx: shnAbs},
				testSym{name: "undefined", value: 0x1144, size: 4, info: fn},
				testSym{name: "file", value: 0x1144, size: 4, info: 4, shndx: 1},
				testSym{name: "bad", value: 0x1144, size: 4, info: fn, shndx: 0x77},
				testSym{name: "a", value: 0x1150, size: 4, info: local, shndx: 1},
				testSym{name: "weaklonger", value: 0x1150, size: 4, info: weak, shndx: 1},
				testSym{name: "_g", value: 0x1150, size: 4, info: fn, shndx: 1},
				testSym{name: "gg", value: 0x1150, size: 4, info: fn, shndx: 1},
				testSym{name: "g", value: 0x1150, size: 4, info: fn, shndx: 1},
				testSym{name: "sizeless", value: 0x1150, info: fn, shndx: 1},
				testSym{name: "last", value: 0x11f0, info: fn, shndx: 1},
			)
			f := openBytes(t, e.bytes())
			tab, err := f.Symbols(SymbolOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, tt := range []struct {
				addr uint64
				want string
			}{
				{0x1100, "sized"}, {0x110f, "sized"}, {0x1110, ""}, {0x1117, ""}, {0x1118, "gap"}, {0x111f, "gap"},
				{0x1120, "outer"}, {0x1128, "inner"}, {0x112f, "inner"}, {0x1130, "outer"}, {0x113f, "outer"},
				{0x1140, "label"}, {0x114f, "label"}, {0x1150, "sizeless"}, {0x1154, "sizeless"}, {0x11ef, "sizeless"}, {0x11f0, "last"}, {0x11ff, "last"}, {0x1200, ""}, {0x10ff, ""},
			} {
				s, ok := tab.Lookup(tt.addr - 0x1000)
				if s.Name != tt.want || ok != (tt.want != "") {
					t.Errorf("big %v, %d bits: %#x: got %+v, want %q", big, class, tt.addr, s, tt.want)
				}
			}
			if len(f.Warnings()) > 0 {
				t.Errorf("warnings: %v", f.Warnings())
			}
		}
	}
}

// TestMachineRules checks what only some machines have.
func TestMachineRules(t *testing.T) {
	load := []segment{{typ: ptLoad, flags: pfExec, off: 0, vaddr: 0x1000, filesz: 0x1000, memsz: 0x1000}}
	names := func(e testELF) (out []string) {
		tab, err := openBytes(t, e.bytes()).Symbols(SymbolOptions{Space: Addresses})
		if err != nil {
			t.Fatal(err)
		}
		for s := range tab.All {
			out = append(out, s.Name)
			if s.Start != 0x1100 {
				t.Errorf("%s is at %#x", s.Name, s.Start)
			}
		}
		return out
	}
	arm := program(testELF{class: 32, typ: TypeDyn, machine: MachineARM, segments: load}, 0x1100, 64,
		testSym{name: "$t", value: 0x1100, info: 0, shndx: 1}, testSym{name: "$a.7", value: 0x1100, info: 0, shndx: 1}, testSym{name: "$b", value: 0x1100, info: 0, shndx: 1},
		testSym{name: "thumb", value: 0x1101, size: 8, info: fn, shndx: 1})
	if got := names(arm); len(got) != 2 || got[0] != "$b" || got[1] != "thumb" {
		t.Errorf("arm: got %q", got)
	}
	// ELF ABI v1: the symbol is of a descriptor in .opd, whose first word is
	// the address of the code.
	opd := binary.BigEndian.AppendUint64(make([]byte, 8), 0x1100)
	ppc := testELF{big: true, typ: TypeDyn, machine: MachinePPC64, segments: load}
	ppc.sections = []testSection{{name: ".opd", section: section{typ: shtProgbits, flags: shfAlloc, addr: 0x2000}, data: append(opd, make([]byte, 16)...)}}
	ppc = program(ppc, 0x1100, 64, testSym{name: "dot", value: 0x2008, size: 8, info: fn, shndx: 2}, testSym{name: "out", value: 0x2018, size: 8, info: fn, shndx: 2})
	if got := names(ppc); len(got) != 1 || got[0] != "dot" {
		t.Errorf("ppc64: got %q", got)
	}
}

// TestModule checks S22: the sections of a kernel module are placed as the
// kernel's loader does it.
func TestModule(t *testing.T) {
	e := testELF{typ: TypeRel, machine: MachineX86_64}
	exec := section{typ: shtProgbits, flags: shfAlloc | shfExec, addralign: 16}
	tab, str := e.symtab(testSym{name: "one", value: 4, size: 8, info: fn, shndx: 1}, testSym{name: "start", value: 0, size: 8, info: fn, shndx: 2}, testSym{name: "two", value: 0, size: 8, info: fn, shndx: 3})
	e.sections = []testSection{
		{name: ".text", section: exec, data: make([]byte, 0x21)},
		{name: ".init.text", section: exec, data: make([]byte, 0x100)},
		{name: ".text.unlikely", section: exec, data: make([]byte, 0x10)},
		{name: ".symtab", section: section{typ: shtSymtab, link: 5, entsize: 24}, data: tab},
		{name: ".strtab", section: section{typ: 3}, data: str},
	}
	f := openBytes(t, e.bytes())
	got, err := f.Symbols(SymbolOptions{Space: Loaded})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		addr uint64
		want string
	}{{4, "one"}, {0x30, "two"}, {0x37, "two"}, {0x38, ""}, {0x28, ""}} {
		if s, _ := got.Lookup(tt.addr); s.Name != tt.want {
			t.Errorf("%#x: got %q, want %q", tt.addr, s.Name, tt.want)
		}
	}
	got, err = f.Symbols(SymbolOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s, _ := got.Lookup(f.TextOffset() + 4); s.Name != "one" {
		t.Errorf("by file offset: got %q", s.Name)
	}
}
