package objfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
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
	name  string // of the symbol; "" if there is none
	ifunc uint64 // the address of the resolver of an IRELATIVE relocation; 0 if it is none
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
	if len(slots) > 0 {
		for _, s := range secs {
			b, err := f.contents(s)
			if err != nil {
				f.warn(WarnSymbols, "section %s: %v", s.name, err)
				continue
			}
			p.section = s
			switch f.machine {
			case MachineX86_64, Machine386:
				p.x86(b, slots, order)
			case MachineAArch64:
				p.arm64(b, slots)
			default:
				p.byOrder(uint64(len(b)), order)
			}
		}
	}
	return p.table()
}

func (f *File) stubSections() []*section {
	var out []*section
	for i := range f.sections {
		s := &f.sections[i]
		if s.typ == shtProgbits && s.flags&shfExec != 0 && s.size > 0 && (strings.HasPrefix(s.name, ".plt") || s.name == ".iplt") && len(out) < 8 {
			out = append(out, s)
		}
	}
	return out
}

// slots reads the relocations of .rel[a].plt, which it returns in their order
// too, and those of .rel[a].dyn if there is a section of stubs that use them.
func (f *File) slots(l *loader, stubs []*section) (map[uint64]target, []target, error) {
	slots := map[uint64]target{}
	var order []target
	other := false
	for _, s := range stubs {
		other = other || s.name != ".plt" && s.name != ".plt.sec"
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
	symbolName := func(i uint64, order binary.ByteOrder) string {
		if i == 0 || i >= uint64(len(syms))/f.symSize() {
			return ""
		}
		return names.at(order.Uint32(syms[i*f.symSize():]), maxSynthName)
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
		t := target{name: symbolName(sym, order)}
		if sym == 0 && f.isIrelative(typ) {
			t.ifunc = addend
		}
		if t.name == "" && t.ifunc == 0 && !all {
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
		if off, ok := p.l.offset(t.ifunc, &sectionRule{}); ok && t.name == "" && t.ifunc != 0 {
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
	name := t.name
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

// arm64 finds the stubs: [bti c] adrp x16, slot; ldr x17, [x16, #slot]; …
func (p *pltWriter) arm64(b []byte, slots map[uint64]target) {
	p.header()
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	for at := 0; at+8 <= len(b); at += 4 {
		w, w2 := word(at), word(at+4)
		if w&0x9f00001f != 0x90000010 || w2&0xffc003ff != 0xf9400211 {
			continue
		}
		addr := p.section.addr + uint64(at)
		page := int64(int32((w>>5&0x7ffff<<2|w>>29&3)<<11) >> 11) // immhi:immlo, signed
		slot := addr&^0xfff + uint64(page<<12) + uint64(w2>>10&0xfff)*8
		t, ok := slots[slot]
		if !ok {
			continue
		}
		if at >= 4 && word(at-4) == 0xd503245f {
			addr -= 4
		}
		p.add(addr, t)
	}
}

// pltSizes is how many bytes the code in front of the stubs has, and each
// stub, by machine: as binutils makes them, and lld where that differs.
var pltSizes = map[Machine][][2]uint64{
	MachineARM:   {{20, 12}, {32, 16}},
	MachineRISCV: {{32, 16}},
	MachineLoong: {{32, 16}},
	MachineS390:  {{32, 32}},
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
