package objfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
)

// A Space says what the addresses of a Table are.
type Space uint8

// The spaces.
const (
	// Offsets are positions in the file that is mapped, as in the Location of
	// a user object: the address of a symbol less p_vaddr plus p_offset of its
	// segment. In a relocatable file they count from the beginning of the file
	// too.
	Offsets Space = iota
	// Addresses are those in the symbol table: for a kernel image, before it
	// is moved to its run-time address.
	Addresses
	// Loaded are those of a relocatable file, less the address at which the
	// kernel loads its code: of a module. Sections that are freed after start
	// or whose place is decided by the kernel are left out.
	Loaded
)

// SymbolOptions says how symbols are read. The zero value is what user
// objects need.
type SymbolOptions struct {
	Space Space
}

// Symbols returns the symbols of a file: those of .symtab, .dynsym and
// .gnu_debugdata, and name@plt for the stubs that call imported functions.
// The error wraps ErrNoSymbols if there are none.
//
// Kept are functions, objects, and labels in sections whose name has "text"
// or "data" in it; not those that are undefined, absolute, outside of
// memory, or that mark code and data for the disassembler.
//
// A separate debug file lacks the file offsets of the file that was mapped:
// use SymbolsWith. The error wraps ErrNoRuntime if they are needed.
func (f *File) Symbols(o SymbolOptions) (*Table, error) {
	return f.symbols(nil, o)
}

// ErrNoRuntime says that the symbols of a debug file cannot be placed without
// the file that was mapped.
var ErrNoRuntime = errors.New("symbols of a debug file alone: the mapped file is needed to place them")

// SymbolsWith returns the symbols of the separate debug file f and those of
// runtime, the file that was mapped, whose headers place both.
func (f *File) SymbolsWith(runtime *File, o SymbolOptions) (*Table, error) {
	return f.symbols(runtime, o)
}

func (f *File) symbols(runtime *File, o SymbolOptions) (*Table, error) {
	l := &loader{space: o.Space, place: f, raw: map[*section]rawTable{}}
	if o.Space == Loaded {
		l.loaded = f.layout()
	}
	if runtime != nil {
		l.place = runtime
	} else if o.Space == Offsets && f.misplaced() {
		return nil, fmt.Errorf("%s: %w", f.name, ErrNoRuntime)
	}
	l.file(f)
	if runtime != nil {
		l.file(runtime)
	}
	if o.Space != Loaded {
		l.t.stubs = l.place.stubs(l)
	}
	if len(l.t.syms) == 0 && l.t.stubs == nil {
		return nil, fmt.Errorf("%s: %w", f.name, ErrNoSymbols)
	}
	l.t.finish()
	return &l.t, nil
}

// misplaced reports whether the program headers of a separate debug file are
// not those of the file it was made of. Strip of elfutils keeps them, objcopy
// of binutils writes offsets of its own and sizes of 0.
func (f *File) misplaced() bool {
	if !f.DebugOnly() {
		return false
	}
	for _, p := range f.loads {
		if p.flags&pfExec != 0 && p.filesz == 0 {
			return true
		}
	}
	return len(f.loads) == 0
}

// A loader collects the symbols of one or several files in one table.
type loader struct {
	t     Table
	space Space
	place *File // whose headers turn addresses into offsets

	raw    map[*section]rawTable // the tables read
	loaded map[uint32]uint64     // Loaded: where sections begin

	last segment // the PT_LOAD of the last symbol: the next is mostly there too
}

// file adds the symbols of f.
func (l *loader) file(f *File) {
	full := false
	for _, typ := range [...]uint32{shtSymtab, shtDynsym} {
		for i := range f.sections {
			s := &f.sections[i]
			if s.typ != typ {
				continue
			}
			n := len(l.t.syms)
			if err := l.table(f, s, i); err != nil {
				f.warn(WarnSymbols, "section %s: %v", s.name, err)
			}
			full = full || typ == shtSymtab && len(l.t.syms) > n
		}
	}
	if len(f.sections) == 0 {
		if err := l.dynamic(f); err != nil {
			f.warn(WarnSymbols, "%v", err)
		}
	}
	if !full {
		l.miniDebug(f)
	}
}

// miniDebug adds the symbols of .gnu_debugdata: an ELF file in xz that holds
// the symbols of functions which .dynsym lacks.
func (l *loader) miniDebug(f *File) {
	s := f.section(".gnu_debugdata")
	if s == nil || s.typ == shtNobits {
		return
	}
	m, err := f.openMini(s)
	if err != nil {
		f.warn(WarnSection, "section .gnu_debugdata: %v", err)
		return
	}
	for i := range m.sections {
		if m.sections[i].typ == shtSymtab {
			if err := l.table(m, &m.sections[i], i); err != nil {
				f.warn(WarnSymbols, "section .gnu_debugdata: %v", err)
			}
		}
	}
}

func (f *File) openMini(s *section) (*File, error) {
	b, err := f.read(s.off, s.size, s.name)
	if err != nil {
		return nil, err
	}
	z, done, err := openXZ(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	defer done()
	limit := min(f.size*maxRatio+maxGrowth-f.admitted, f.budget.Left())
	out, err := readBounded(z, limit, f.budget, "decompressed section")
	if err != nil {
		return nil, err
	}
	f.admitted += int64(len(out))
	m := &File{r: bytes.NewReader(out), size: int64(len(out)), name: f.name + " .gnu_debugdata", budget: f.budget}
	return m, m.header()
}

// table adds the symbols of section s, the index-th of f.
func (l *loader) table(f *File, s *section, index int) error {
	if s.entsize != 0 && s.entsize != f.symSize() {
		return fmt.Errorf("sh_entsize is %d, want %d", s.entsize, f.symSize())
	}
	if uint64(s.link) >= uint64(len(f.sections)) {
		return fmt.Errorf("sh_link is %d of %d sections", s.link, len(f.sections))
	}
	str := f.sections[s.link]
	if str.typ == shtNobits {
		return fmt.Errorf("section %d, its strings, is not in the file", s.link)
	}
	raw, err := f.contents(s)
	if err != nil {
		return err
	}
	names, err := f.strings(str)
	if err != nil {
		return err
	}
	if s.typ == shtDynsym {
		l.raw[s] = rawTable{raw, names}
	}
	var xindex []byte
	for _, x := range f.sections {
		if x.typ == shtSymtabShndx && int(x.link) == index {
			if xindex, err = f.contents(&x); err != nil {
				return err
			}
		}
	}
	return l.add(f, raw, names, xindex)
}

const shtSymtabShndx = 18

// strings returns the string table in a section.
func (f *File) strings(s section) (*stringTable, error) {
	if s.flags&shfCompressed != 0 {
		b, err := f.contents(&s)
		return textTable(string(b)), err
	}
	return f.lazyTable(s.off, s.size)
}

// Symbol types, bindings and places (gABI).
const (
	sttNotype = 0
	sttObject = 1
	sttFunc   = 2
	sttIfunc  = 10

	stbLocal = 0
	stbWeak  = 2

	stvInternal = 1
	stvHidden   = 2

	shnUndef = 0
	shnAbs   = 0xfff1
)

// A sectionRule says what the symbols of a section are good for.
type sectionRule struct {
	keep  bool   // in memory
	label bool   // its labels are symbols too
	end   uint64 // where a symbol without a size ends at the latest
	bias  uint64 // address less offset, for a symbol outside of all segments
	known bool   // bias is meaningful
}

// rules works out the rules for the sections of f.
func (l *loader) rules(f *File) []sectionRule {
	out := make([]sectionRule, len(f.sections))
	for i := range f.sections {
		s := &f.sections[i]
		r := &out[i]
		if s.flags&shfAlloc == 0 {
			continue
		}
		// .bss has no place in the file. In a debug file nothing has.
		if s.typ == shtNobits && (f == l.place || s.flags&shfExec == 0 && strings.Contains(s.name, "bss")) && l.space == Offsets {
			continue
		}
		if l.space == Loaded {
			base, ok := l.loaded[uint32(i)]
			if !ok {
				continue
			}
			r.bias, r.known, r.end = -base, true, addClamp(base, s.size)
			r.keep, r.label = true, true
			continue
		}
		r.keep = true
		r.label = strings.Contains(s.name, "text") || strings.Contains(s.name, "data")
		r.bias, r.known = s.addr-s.off, s.typ != shtNobits
		if !r.known && i < len(l.place.sections) {
			if p := l.place.sections[i]; p.addr == s.addr && p.name == s.name && p.typ != shtNobits {
				r.bias, r.known = p.addr-p.off, true
			}
		}
		r.end = math.MaxUint64
		if s.size > 0 {
			if off, ok := l.offset(addClamp(s.addr, s.size-1), r); ok {
				r.end = addClamp(off, 1)
			}
		}
	}
	return out
}

// offset turns an address into one of the table's space. Addresses outside
// of all segments go by their section.
func (l *loader) offset(addr uint64, r *sectionRule) (uint64, bool) {
	switch l.space {
	case Addresses:
		return addr, true
	case Loaded:
		return addr - r.bias, true
	}
	if addr-l.last.vaddr >= l.last.memsz {
		p, ok := l.place.load(addr)
		if !ok {
			return addr - r.bias, r.known
		}
		l.last = p
	}
	return addr - l.last.vaddr + l.last.off, true
}

// add adds the symbols in raw, of which xindex has the section numbers that
// do not fit in 16 bits.
func (l *loader) add(f *File, raw []byte, names *stringTable, xindex []byte) error {
	if len(l.t.tabs) == maxTables {
		return fmt.Errorf("more than %d symbol tables", maxTables)
	}
	size := int(f.symSize())
	n := len(raw) / size
	if err := f.budget.Alloc(int64(n)*32, "elf: symbols"); err != nil {
		return err
	}
	rules := l.rules(f)
	opd := l.place.opd(f)
	var order binary.ByteOrder = binary.LittleEndian
	if f.big {
		order = binary.BigEndian
	}
	tab := uint8(len(l.t.tabs))
	l.t.tabs = append(l.t.tabs, names)
	if cap(l.t.syms) == 0 {
		l.t.syms = make([]symbol, 0, n)
	}
	text := ""
	mapping := f.machine == MachineARM || f.machine == MachineAArch64 || f.machine == MachineRISCV
	if mapping {
		var err error
		if text, err = names.whole(); err != nil {
			return err
		}
	}
	for i := range n {
		b := raw[i*size:][:size]
		name := order.Uint32(b)
		var value, length uint64
		var info, other byte
		var shndx uint32
		if size == 24 {
			info, other, shndx = b[4], b[5], uint32(order.Uint16(b[6:]))
			value, length = order.Uint64(b[8:]), order.Uint64(b[16:])
		} else {
			value, length = uint64(order.Uint32(b[4:])), uint64(order.Uint32(b[8:]))
			info, other, shndx = b[12], b[13], uint32(order.Uint16(b[14:]))
		}
		typ := info & 15
		if shndx == shnUndef || shndx == shnAbs || name == 0 || uint64(name) >= names.size {
			continue
		}
		label := typ == sttNotype && other&3 != stvHidden && other&3 != stvInternal
		if typ != sttFunc && typ != sttIfunc && typ != sttObject && !label {
			continue
		}
		if shndx == shnXIndex {
			if len(xindex)/4 <= i {
				continue
			}
			shndx = order.Uint32(xindex[i*4:])
		}
		if mapping && text[name] == '$' && isMapping(text[name:]) {
			continue
		}
		if f.machine == MachineARM && typ == sttFunc {
			value &^= 1
		}
		if opd.data != nil && shndx == opd.index {
			at := value - opd.addr
			if at > uint64(len(opd.data)) || uint64(len(opd.data))-at < 8 {
				continue
			}
			value = order.Uint64(opd.data[at:])
			if shndx = f.sectionAt(value); shndx == shnUndef {
				continue
			}
		}
		var r sectionRule
		switch {
		case uint64(shndx) < uint64(len(rules)):
			r = rules[shndx]
		case len(rules) == 0 && shndx < 0xff00:
			r = sectionRule{keep: true, end: math.MaxUint64} // no sections: from .dynamic
		}
		if !r.keep || label && !r.label {
			continue
		}
		addr := value
		if l.space == Offsets && f.typ == TypeRel && len(l.place.loads) == 0 && uint64(shndx) < uint64(len(f.sections)) {
			addr += f.sections[shndx].addr
		}
		start, ok := l.offset(addr, &r)
		if !ok {
			continue
		}
		s := symbol{start: start, end: addClamp(start, length), name: name, tab: tab}
		if length == 0 {
			s.end = r.end
			s.flags |= symSizeless
		}
		switch info >> 4 {
		case stbLocal:
		case stbWeak:
			s.flags |= symWeak
		default:
			s.flags |= symGlobal
		}
		l.t.syms = append(l.t.syms, s)
	}
	return nil
}

// isMapping reports whether a name that begins with $ marks code or data for
// a disassembler: $a, $d, $t, $x, and the same with .anything behind.
func isMapping(name string) bool {
	return len(name) >= 3 && strings.IndexByte("adtx", name[1]) >= 0 && (name[2] == 0 || name[2] == '.')
}

// layout returns where the kernel puts the code sections of a module, counted
// from the first: one behind the other, each aligned. Sections whose name begins with .init come
// elsewhere. Behind one whose size the kernel decides when it loads the
// module, places are unknown.
// Source: layout_sections, kernel/module/main.c.
func (f *File) layout() map[uint32]uint64 {
	out := map[uint32]uint64{}
	at := uint64(0)
	for i := range f.sections {
		s := &f.sections[i]
		if s.flags&(shfAlloc|shfExec) != shfAlloc|shfExec || strings.HasPrefix(s.name, ".init") && s.name != ".init.plt" {
			continue
		}
		if strings.HasSuffix(s.name, "plt") || strings.Contains(s.name, "trampoline") || s.addralign > 1<<20 {
			break
		}
		if a := s.addralign; a > 1 {
			at = addClamp(at, a-1) / a * a
		}
		out[uint32(i)] = at
		at = addClamp(at, s.size)
	}
	return out
}

// sectionAt returns the index of the section in memory that holds an address,
// and 0 if there is none.
func (f *File) sectionAt(addr uint64) uint32 {
	for i, s := range f.sections {
		if s.flags&shfAlloc != 0 && addr-s.addr < s.size {
			return uint32(i)
		}
	}
	return 0
}

// A descriptors section is the .opd of a 64-bit PowerPC file (ELF ABI v1): function
// symbols point to descriptors there, of which the first word is the address
// of the code.
type descriptors struct {
	index uint32
	addr  uint64
	data  []byte
}

// opd reads the function descriptors for the symbols of sym, the file itself
// or its debug file.
func (f *File) opd(sym *File) descriptors {
	if f.machine != MachinePPC64 {
		return descriptors{}
	}
	for i := range f.sections {
		s := &f.sections[i]
		if s.name != ".opd" || s.typ == shtNobits || i >= len(sym.sections) || sym.sections[i].name != ".opd" {
			continue
		}
		b, err := f.contents(s)
		if err != nil {
			f.warn(WarnSymbols, "section .opd: %v", err)
			break
		}
		return descriptors{uint32(i), s.addr, b}
	}
	return descriptors{}
}
