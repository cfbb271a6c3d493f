package objfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"sync"
)

// Stubs that call functions of other objects have no symbols: the linker
// makes them. Each jumps to the address in a slot of the global offset table,
// and a relocation says whose address the dynamic linker puts there. On the
// machines whose stubs we can decode, the two are joined by the address of the
// slot, so it does not matter which linker made the stubs, in which order.
// Elsewhere the n-th stub belongs to the n-th relocation, if the sizes agree.

// A target is what a slot will hold.
type target struct {
	names *stringTable // nil if there is no symbol
	name  uint32       // of the symbol, in names
	ifunc uint64       // the address of the resolver of an IRELATIVE relocation; 0 if it is none
}

// symbol returns the name of the symbol, "" if there is none. It is not kept:
// all relocations may have the same long one.
func (t *target) symbol() string {
	if t.names == nil {
		return ""
	}
	return t.names.at(t.name, maxSynthName)
}

// maxSynth bounds what we write into names of stubs, in bytes. A hostile
// file can give each of them a name of a megabyte.
const (
	maxSynth     = 16 << 20
	maxSynthName = 4096
)

// stubs are the symbols of stubs, which are made at the first lookup in one:
// few profiles have samples there.
type stubs struct {
	ranges []extent // of the sections, as addresses of the table
	once   sync.Once
	load   func() *Table
	t      *Table
}

// An extent is a half-open range.
type extent struct{ start, end uint64 }

// find looks up addr, which is the number of a symbol in s.t.
func (s *stubs) find(addr uint64) (int, bool) {
	for _, r := range s.ranges {
		if r.start <= addr && addr < r.end {
			s.once.Do(func() { s.t = s.load() })
			return s.t.find(addr)
		}
	}
	return 0, false
}

// stubs prepares the symbols of the stubs of f; nil if it has none.
func (f *File) stubs(l *loader) *stubs {
	var s stubs
	secs := f.stubSections()
	for _, x := range secs {
		r := sectionRule{bias: x.addr - x.off, known: true}
		start, ok := l.offset(x.addr, &r)
		if ok {
			s.ranges = append(s.ranges, extent{start, addClamp(start, x.size)})
		}
	}
	if len(s.ranges) == 0 {
		return nil
	}
	s.load = func() *Table { return f.plt(l, secs) }
	return &s
}

// plt makes symbols for the stubs of f.
func (f *File) plt(l *loader, secs []*section) *Table {
	p := pltWriter{l: l, f: f}
	slots, order, err := f.slots(l, secs)
	if err != nil {
		f.warn(WarnSymbols, "stubs: %v", err)
	}
	p.resolvers(order)
	for _, s := range secs {
		p.section = s
		if s.name == mipsStubs {
			if err := p.lazy(); err != nil {
				f.warn(WarnSymbols, "section %s: %v", s.name, err)
			}
			continue
		}
		if len(slots) == 0 {
			continue
		}
		if s.name == glinkName {
			for i, t := range order {
				if at := uint64(i) * f.glinkSize(); at < s.size {
					p.add(s.addr+at, t)
				}
			}
			continue
		}
		b, err := f.contents(s)
		if err != nil {
			f.warn(WarnSymbols, "section %s: %v", s.name, err)
			continue
		}
		switch f.machine {
		case MachineX86_64, Machine386:
			p.x86(b, slots, order)
		case MachineSPARC, MachineSPARC64:
			p.sparc(slots)
		default:
			p.words(b, slots, order)
		}
	}
	return p.table()
}

// mipsStubs is the section of stubs that MIPS has beside .plt: those that bind
// functions at their first call.
const mipsStubs = ".MIPS.stubs"

func (f *File) stubSections() []*section {
	var out []*section
	for i := range f.sections {
		s := &f.sections[i]
		if s.typ == shtProgbits && s.flags&shfExec != 0 && s.size > 0 && len(out) < 8 &&
			(strings.HasPrefix(s.name, ".plt") || s.name == ".iplt" || s.name == mipsStubs && f.machine == MachineMIPS) {
			out = append(out, s)
		}
	}
	if s := f.glink(); s != nil {
		out = append(out, s)
	}
	return out
}

// glinkName stands for the stubs of 64-bit PowerPC, which have no section of
// their own.
const glinkName = "glink"

// glink returns where the lazy stubs of a 64-bit PowerPC file are, as a section;
// nil if it has none. They stand 32 bytes behind DT_PPC64_GLINK, one for each
// relocation of .rela.plt: a branch, in ABI v1 behind another instruction.
// Source: 64-bit ELF V2 ABI, section 4.2.5.3.
func (f *File) glink() *section {
	if f.machine != MachinePPC64 || f.class != 64 {
		return nil
	}
	tags, err := f.dynamicTags()
	if err != nil || tags[dtGlink] == 0 {
		return nil
	}
	rela := f.section(".rela.plt")
	if rela == nil {
		return nil
	}
	addr := addClamp(tags[dtGlink], 32)
	off, room, ok := f.bytesAt(addr)
	size := rela.size / 24 * f.glinkSize()
	if !ok || size == 0 || size > room {
		return nil
	}
	return &section{name: glinkName, typ: shtProgbits, flags: shfAlloc | shfExec, addr: addr, off: off, size: size}
}

// glinkSize is the size of a lazy stub in bytes.
func (f *File) glinkSize() uint64 {
	if f.flags&3 == 2 {
		return 4 // ABI v2
	}
	return 8
}

// slots reads the relocations of .rel[a].plt, which it returns in their order
// too, and those of .rel[a].dyn if there is a section of stubs that use them.
func (f *File) slots(l *loader, stubs []*section) (map[uint64]target, []target, error) {
	slots := map[uint64]target{}
	var order []target
	other := false
	for _, s := range stubs {
		other = other || s.name != ".plt" && s.name != ".plt.sec" && s.name != mipsStubs && s.name != glinkName
	}
	for i := range f.sections {
		s := &f.sections[i]
		if s.typ != shtRel && s.typ != shtRela || s.flags&shfAlloc == 0 {
			continue
		}
		plt := strings.HasSuffix(s.name, ".plt") || strings.HasSuffix(s.name, ".iplt")
		if !plt && !other {
			continue
		}
		err := f.relocs(l, s, func(slot uint64, t target) {
			slots[slot] = t
			if plt {
				order = append(order, t)
			}
		}, plt)
		if err != nil {
			return slots, order, err
		}
	}
	return slots, order, nil
}

// relocs calls add for the relocations of section s that fill slots. With
// all set, those without a symbol are given too, to keep the order.
func (f *File) relocs(l *loader, s *section, add func(uint64, target), all bool) error {
	raw, err := f.contents(s)
	if err != nil {
		return err
	}
	size := f.class / 8 * 2
	if s.typ == shtRela {
		size += f.class / 8
	}
	var syms []byte
	var names *stringTable
	if s.link != 0 && uint64(s.link) < uint64(len(f.sections)) {
		if t, ok := l.tables[&f.sections[s.link]]; ok {
			if syms, err = f.contents(&f.sections[s.link]); err != nil {
				return err
			}
			names = t.names
		}
	}
	of := func(i uint64, order binary.ByteOrder) target {
		if i == 0 || i >= uint64(len(syms))/f.symSize() {
			return target{}
		}
		return target{names: names, name: order.Uint32(syms[i*f.symSize():])}
	}
	var order binary.ByteOrder = binary.LittleEndian
	if f.big {
		order = binary.BigEndian
	}
	seen := 0
	for ; len(raw) >= size; raw = raw[size:] {
		var off, sym, typ, addend uint64
		if f.class == 64 {
			off = order.Uint64(raw)
			info := order.Uint64(raw[8:])
			sym, typ = info>>32, info&0xffffffff
			if f.machine == MachineMIPS {
				// A word and four bytes, whatever the byte order.
				sym, typ = uint64(order.Uint32(raw[8:])), uint64(raw[15])
			}
			if s.typ == shtRela {
				addend = order.Uint64(raw[16:])
			}
		} else {
			off = uint64(order.Uint32(raw))
			info := uint64(order.Uint32(raw[4:]))
			sym, typ = info>>8, info&0xff
			if s.typ == shtRela {
				addend = uint64(order.Uint32(raw[8:]))
			}
		}
		t := of(sym, order)
		if sym == 0 && f.isIrelative(typ) {
			t.ifunc = addend
		}
		if t.names == nil && t.ifunc == 0 && !all {
			continue
		}
		if seen++; seen&0xfff == 0 {
			if err := f.budget.Alloc(0x1000*64, "elf: relocations"); err != nil {
				return err
			}
		}
		add(off, t)
	}
	return nil
}

// isIrelative reports whether a relocation type fills a slot with what a
// resolver function returns.
func (f *File) isIrelative(typ uint64) bool {
	switch f.machine {
	case MachineX86_64:
		return typ == 37
	case Machine386:
		return typ == 42
	case MachineAArch64:
		return typ == 1032
	case MachineARM:
		return typ == 160
	case MachineRISCV:
		return typ == 58
	case MachineS390:
		return typ == 61
	case MachineLoong:
		return typ == 12
	case MachineMIPS:
		return typ == 128
	case MachinePPC, MachinePPC64:
		return typ == 248
	case MachineSPARC, MachineSPARC64:
		return typ&0xff == 249
	}
	return false
}

// A pltWriter adds symbols for stubs to a table.
type pltWriter struct {
	l       *loader
	f       *File
	section *section
	chosen  *Table // names the functions that resolvers are of; nil if there are none
	names   strings.Builder
	syms    []symbol
}

// resolvers looks up the functions that are chosen at run time: the stub has
// the name of the function that the resolver is of.
func (p *pltWriter) resolvers(order []target) {
	var only []uint64
	for _, t := range order {
		if off, ok := p.l.offset(t.ifunc, &sectionRule{}); ok && t.names == nil && t.ifunc != 0 {
			only = append(only, off)
		}
	}
	if len(only) == 0 {
		return
	}
	slices.Sort(only)
	t, err := p.l.self.symbols(p.l.runtime, SymbolOptions{Space: p.l.space, Only: only})
	if err == nil {
		p.chosen = t
	}
}

// add adds a symbol for the stub at addr, which extends to the next one.
func (p *pltWriter) add(addr uint64, t target) {
	r := sectionRule{bias: p.section.addr - p.section.off, known: true}
	start, ok := p.l.offset(addr, &r)
	if !ok {
		return
	}
	end, ok := p.l.offset(p.section.addr+p.section.size-1, &r)
	if !ok || p.names.Len() > maxSynth {
		return
	}
	name := t.symbol()
	if name == "" && t.ifunc != 0 && p.chosen != nil {
		if off, ok := p.l.offset(t.ifunc, &sectionRule{}); ok {
			if s, ok := p.chosen.Lookup(off); ok && s.Start == off && len(s.Name) < maxSynthName {
				name = s.Name
			}
		}
	}
	if name == "" {
		name = fmt.Sprintf("offset_%#x", start)
	}
	p.write(start, addClamp(end, 1), name+"@plt")
}

// header adds the symbol of the code in front of the stubs, which they share.
func (p *pltWriter) header() {
	r := sectionRule{bias: p.section.addr - p.section.off, known: true}
	start, ok := p.l.offset(p.section.addr, &r)
	if ok && p.section.name == ".plt" {
		p.write(start, addClamp(start, p.section.size), ".plt")
	}
}

func (p *pltWriter) write(start, end uint64, name string) {
	p.syms = append(p.syms, symbol{start: start, end: end, name: uint32(p.names.Len()), flags: symGlobal | symSizeless})
	p.names.WriteString(name)
	p.names.WriteByte(0)
}

// table returns the symbols. Their names are not mangled: those of C++
// functions have @plt behind them.
func (p *pltWriter) table() *Table {
	t := &Table{plain: true, syms: p.syms, tabs: []*stringTable{textTable(p.names.String())}}
	if err := p.f.budget.Alloc(int64(p.names.Len()+len(p.syms)*24), "elf: names of stubs"); err != nil {
		p.f.warn(WarnSymbols, "%v", err)
		t.syms = nil
	}
	t.finish()
	return t
}

// x86 finds the stubs among the code b, at addresses that are multiples of 8:
//
//	[endbr] [bnd] jmp *slot   .plt, .plt.sec, .plt.got
//	[endbr] push $n           .plt in front of .plt.sec
//	mov slot, %r11            with retpolines
//
// Source: System V ABI, x86-64 supplement, "Procedure Linkage Table".
func (p *pltWriter) x86(b []byte, slots map[uint64]target, order []target) {
	first := true
	for at := 0; at+6 <= len(b); at += 8 {
		code, addr := b[at:], p.section.addr+uint64(at)
		n := 0
		if bytes.HasPrefix(code, []byte{0xf3, 0x0f, 0x1e, 0xfa}) || bytes.HasPrefix(code, []byte{0xf3, 0x0f, 0x1e, 0xfb}) {
			n = 4
		}
		if n < len(code) && code[n] == 0xf2 {
			n++
		}
		t, ok := p.x86Stub(code[n:], addr+uint64(n), slots, order)
		switch {
		case ok:
			p.add(addr, t)
		case first:
			p.header()
		}
		first = false
	}
}

func (p *pltWriter) x86Stub(code []byte, addr uint64, slots map[uint64]target, order []target) (target, bool) {
	if len(code) < 6 {
		return target{}, false
	}
	var slot uint64
	switch {
	case code[0] == 0x68:
		n := uint64(binary.LittleEndian.Uint32(code[1:]))
		if p.f.machine == Machine386 {
			n /= 8 // of Elf32_Rel
		}
		if n >= uint64(len(order)) || p.section.name != ".plt" {
			return target{}, false
		}
		return order[n], true
	case code[0] == 0xff && code[1] == 0x25 && p.f.machine == MachineX86_64:
		slot = addr + 6 + uint64(int64(int32(binary.LittleEndian.Uint32(code[2:]))))
	case code[0] == 0x4c && code[1] == 0x8b && code[2] == 0x1d && len(code) >= 7 && p.f.machine == MachineX86_64:
		slot = addr + 7 + uint64(int64(int32(binary.LittleEndian.Uint32(code[3:]))))
	case code[0] == 0xff && code[1] == 0x25:
		slot = uint64(binary.LittleEndian.Uint32(code[2:]))
	case code[0] == 0xff && code[1] == 0xa3 && p.f.machine == Machine386:
		// Relative to %ebx, which holds the address of the table.
		got := p.f.section(".got.plt")
		if got == nil {
			got = p.f.section(".got")
		}
		if got == nil {
			return target{}, false
		}
		slot = uint64(uint32(got.addr) + binary.LittleEndian.Uint32(code[2:]))
	default:
		return target{}, false
	}
	t, ok := slots[slot]
	return t, ok
}

// words finds the stubs among the code b of a machine whose instructions are
// words. Each begins with instructions that load a slot. Of code that it does
// not know it names the stubs by their order.
func (p *pltWriter) words(b []byte, slots map[uint64]target, order []target) {
	stub := stubDecoders[p.f.machine]
	if stub == nil || p.f.machine == MachineS390 && p.f.class == 32 {
		p.byOrder(uint64(len(b)), order)
		return
	}
	// Code is little-endian on all but these.
	var code binary.ByteOrder = binary.LittleEndian
	if p.f.big && (p.f.machine == MachineMIPS || p.f.machine == MachineS390 || p.f.machine == MachineARM && p.f.flags&armBE8 == 0) {
		code = binary.BigEndian
	}
	step := 4
	if p.f.machine == MachineS390 {
		step = 2
	}
	n := len(p.syms)
	p.header()
	found := false
	for at := 0; at+8 <= len(b); at += step {
		slot, ok := stub(b[at:], p.section.addr+uint64(at), code)
		if !ok {
			continue
		}
		if p.f.class == 32 {
			slot &= 1<<32 - 1
		}
		t, ok := slots[slot]
		if !ok {
			continue
		}
		found = true
		p.add(p.section.addr+uint64(at-prefix(b[:at], p.f.machine, code)), t)
	}
	if !found {
		p.syms = p.syms[:n]
		p.byOrder(uint64(len(b)), order)
	}
}

// armBE8 marks a big-endian ARM file whose code is little-endian (e_flags).
const armBE8 = 0x00800000

// prefix returns the size of what may stand in front of a stub's loading of
// its slot: on AArch64 a landing pad, on ARM the change from Thumb.
func prefix(b []byte, m Machine, o binary.ByteOrder) int {
	if len(b) < 4 {
		return 0
	}
	b = b[len(b)-4:]
	if m == MachineAArch64 && o.Uint32(b) == 0xd503245f || // bti c
		m == MachineARM && o.Uint16(b) == 0x4778 { // bx pc; nop
		return 4
	}
	return 0
}

// stubDecoders return the address of the slot that the stub at addr, with the
// code b of at least 8 bytes, jumps to.
var stubDecoders = map[Machine]func(b []byte, addr uint64, o binary.ByteOrder) (slot uint64, ok bool){
	MachineAArch64: arm64Stub,
	MachineARM:     armStub,
	MachineRISCV:   riscvStub,
	MachineLoong:   loongStub,
	MachineS390:    s390xStub,
	MachineMIPS:    mipsStub,
}

// signed extends the sign of the lowest n bits of v.
func signed(v uint32, n int) uint64 { return uint64(int64(int32(v<<(32-n)) >> (32 - n))) }

// arm64Stub knows adrp x16, slot; ldr x17, [x16, #slot].
func arm64Stub(b []byte, addr uint64, o binary.ByteOrder) (uint64, bool) {
	w, w2 := o.Uint32(b), o.Uint32(b[4:])
	if w&0x9f00001f != 0x90000010 || w2&0xffc003ff != 0xf9400211 {
		return 0, false
	}
	page := signed(w>>5&0x7ffff<<2|w>>29&3, 21) // immhi:immlo
	return addr&^0xfff + page<<12 + uint64(w2>>10&0xfff)*8, true
}

// armStub knows add ip, pc, #a; add ip, ip, #b; …; ldr pc, [ip, #c]! and
// ldr ip, [pc, #4]; add ip, ip, pc; ldr pc, [ip]; .word, which lld has.
func armStub(b []byte, addr uint64, o binary.ByteOrder) (uint64, bool) {
	w := o.Uint32(b)
	if w == 0xe59fc004 && len(b) >= 16 {
		add, load := o.Uint32(b[4:]), o.Uint32(b[8:])
		return addr + 12 + uint64(o.Uint32(b[12:])), (add == 0xe08cc00f || add == 0xe08fc00c) && load == 0xe59cf000
	}
	if w&0xfffff000 != 0xe28fc000 {
		return 0, false
	}
	ip := addr + 8
	for at := 0; at+4 <= len(b) && at < 16; at += 4 {
		w := o.Uint32(b[at:])
		switch {
		case at == 0 || w&0xfffff000 == 0xe28cc000:
			ip += uint64(bits.RotateLeft32(w&0xff, -2*int(w>>8&15)))
		case w&0xfffff000 == 0xe5bcf000:
			return ip + uint64(w&0xfff), true
		default:
			return 0, false
		}
	}
	return 0, false
}

// riscvStub knows auipc t3, slot; l[dw] t3, slot(t3).
func riscvStub(b []byte, addr uint64, o binary.ByteOrder) (uint64, bool) {
	w, w2 := o.Uint32(b), o.Uint32(b[4:])
	if w&0xfff != 0xe17 || w2&0xfffff != 0xe3e03 && w2&0xfffff != 0xe2e03 {
		return 0, false
	}
	return addr + signed(w&^0xfff, 32) + signed(w2>>20, 12), true
}

// loongStub knows pcaddu12i $t3, slot; ld.[dw] $t3, $t3, slot.
func loongStub(b []byte, addr uint64, o binary.ByteOrder) (uint64, bool) {
	w, w2 := o.Uint32(b), o.Uint32(b[4:])
	if w&0xfe00001f != 0x1c00000f || w2&0xffc003ff != 0x28c001ef && w2&0xffc003ff != 0x288001ef {
		return 0, false
	}
	return addr + signed(w>>5, 20)<<12 + signed(w2>>10, 12), true
}

// s390xStub knows larl %r1, slot; lg %r1, 0(%r1).
func s390xStub(b []byte, addr uint64, o binary.ByteOrder) (uint64, bool) {
	if o.Uint16(b) != 0xc010 || len(b) < 12 || !bytes.Equal(b[6:12], []byte{0xe3, 0x10, 0x10, 0, 0, 4}) {
		return 0, false
	}
	return addr + signed(o.Uint32(b[2:]), 32)*2, true
}

// mipsStub knows lui $15, slot; l[dw] $25, slot($15).
func mipsStub(b []byte, addr uint64, o binary.ByteOrder) (uint64, bool) {
	w, w2 := o.Uint32(b), o.Uint32(b[4:])
	if w>>16 != 0x3c0f || w2>>16 != 0x8df9 && w2>>16 != 0xddf9 {
		return 0, false
	}
	return signed(w<<16, 32) + signed(w2, 16), true
}

// sparc names the stubs of SPARC, which are their own slots: the dynamic
// linker writes code there.
func (p *pltWriter) sparc(slots map[uint64]target) {
	p.header()
	for _, at := range slices.Sorted(maps.Keys(slots)) {
		if at-p.section.addr < p.section.size {
			p.add(at, slots[at])
		}
	}
}

// lazy names the stubs of MIPS that bind a function at its first call: each is
// the value of the dynamic symbol that is undefined otherwise.
func (p *pltWriter) lazy() error {
	var order binary.ByteOrder = binary.LittleEndian
	if p.f.big {
		order = binary.BigEndian
	}
	for sec, tab := range p.l.tables {
		if sec.typ != shtDynsym {
			continue
		}
		b, err := p.f.contents(sec)
		if err != nil {
			return err
		}
		for size := int(p.f.symSize()); len(b) >= size; b = b[size:] {
			name, value, shndx := order.Uint32(b), uint64(order.Uint32(b[4:])), order.Uint16(b[14:])
			if size == 24 {
				value, shndx = order.Uint64(b[8:]), order.Uint16(b[6:])
			}
			if shndx == shnUndef && value-p.section.addr < p.section.size && value != 0 {
				p.add(value, target{names: tab.names, name: name})
			}
		}
	}
	return nil
}

// pltSizes is how many bytes the code in front of the stubs has, and each
// stub, by machine: as binutils makes them, and lld where that differs.
var pltSizes = map[Machine][][2]uint64{
	MachineARM:    {{20, 12}, {20, 16}, {32, 16}, {16, 16}},
	MachineRISCV:  {{32, 16}},
	MachineLoong:  {{32, 16}},
	MachineS390:   {{32, 32}},
	MachineXtensa: {{0, 16}},
}

// byOrder names the stubs in .plt, of size bytes, by the order of the
// relocations, if their number agrees.
func (p *pltWriter) byOrder(size uint64, order []target) {
	if p.section.name != ".plt" {
		return
	}
	for _, z := range pltSizes[p.f.machine] {
		if size != z[0]+z[1]*uint64(len(order)) {
			continue
		}
		p.header()
		for i, t := range order {
			p.add(p.section.addr+z[0]+z[1]*uint64(i), t)
		}
		return
	}
}
