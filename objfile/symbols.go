package objfile

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/perfark/perfark/internal/decode"
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

	// Only are the addresses that will be looked up, in ascending order. Other
	// symbols are not kept, which saves most of the memory and time. Nil means
	// that any may be. A symbol without a size may seem to end later than it
	// does, though not beyond the next of these addresses.
	Only []uint64

	// Labels keeps those in sections of any name, and hidden ones: what a disassembler names
	// addresses after.
	Labels bool
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

// ErrOtherProgram says that a debug file is not of the program it was given
// with, though it may carry the same build id.
var ErrOtherProgram = errors.New("the debug file is of another program: its code lies elsewhere")

// SymbolsWith returns the symbols of the separate debug file f and those of
// runtime, the file that was mapped, whose headers place both. The error wraps
// ErrOtherProgram if the code of the two is not in the same sections.
func (f *File) SymbolsWith(runtime *File, o SymbolOptions) (*Table, error) {
	if _, ok := f.Moved(runtime); !ok {
		return nil, fmt.Errorf("%s: %w", f.name, ErrOtherProgram)
	}
	return f.symbols(runtime, o)
}

// Moved returns how far the code of runtime, the file that was mapped, lies
// behind that in its debug file f, as linked: what has an address in f has it,
// and distance more, in runtime. It is not 0 if one of them was prelinked. ok is
// false if f is not the debug file of runtime: its sections of code are others,
// as far as runtime has sections.
func (f *File) Moved(runtime *File) (distance uint64, ok bool) {
	if f.machine != runtime.machine || f.class != runtime.class || f.big != runtime.big {
		return 0, false
	}
	if len(runtime.sections) == 0 || f.typ == TypeRel {
		return 0, true
	}
	type place struct{ addr, size uint64 }
	at := map[string]place{}
	for _, s := range runtime.sections {
		if s.flags&(shfAlloc|shfExec) == shfAlloc|shfExec {
			at[s.name] = place{s.addr, s.size}
		}
	}
	first := true
	for _, s := range f.sections {
		if s.flags&(shfAlloc|shfExec) != shfAlloc|shfExec {
			continue
		}
		p, ok := at[s.name]
		if first {
			first, distance = false, p.addr-s.addr
		}
		if !ok || p.size != s.size || p.addr-s.addr != distance {
			return 0, false
		}
	}
	// All is moved by pages.
	return distance, distance&0xfff == 0
}

func (f *File) symbols(runtime *File, o SymbolOptions) (*Table, error) {
	l := &loader{space: o.Space, labels: o.Labels, only: o.Only, self: f, runtime: runtime, place: f, tables: map[*section]rawTable{}}
	if l.only != nil {
		l.behind = make([]barrier, len(l.only))
	}
	if o.Space == Loaded {
		l.loaded = f.layout()
	}
	if runtime != nil {
		l.place = runtime
		l.moved, _ = f.Moved(runtime)
	} else if o.Space == Offsets && f.misplaced() {
		return nil, fmt.Errorf("%s: %w", f.name, ErrNoRuntime)
	}
	if runtime != nil {
		l.file(runtime)
	}
	l.file(f)
	if o.Space != Loaded {
		l.t.stubs = l.place.stubs(l)
	}
	if o.Labels && o.Space == Addresses {
		l.slots()
	}
	if len(l.t.syms) == 0 && l.t.stubs == nil {
		return nil, fmt.Errorf("%s: %w", f.name, ErrNoSymbols)
	}
	l.t.finish()
	return &l.t, nil
}

// slots notes what dynamic relocations put where. What cannot be read is not
// known.
func (l *loader) slots() {
	l.t.slots = map[uint64]target{}
	f := l.place
	for i := range f.sections {
		s := &f.sections[i]
		if s.typ != shtRel && s.typ != shtRela || s.flags&shfAlloc == 0 {
			continue
		}
		err := f.relocs(l, s, func(slot uint64, t target) {
			if t.names != nil {
				l.t.slots[slot] = t
			}
		}, false)
		if err != nil {
			f.warn(WarnSymbols, "section %s: %v", s.name, err)
			return
		}
	}
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
	t             Table
	space         Space
	labels        bool
	self, runtime *File  // whose symbols; runtime may be nil
	place         *File  // the one of them whose headers turn addresses into offsets
	moved         uint64 // see File.Moved

	tables map[*section]rawTable // of dynamic symbols, for stubs
	loaded map[uint32]uint64     // Loaded: where sections begin

	only   []uint64  // see SymbolOptions
	behind []barrier // by only: of the symbols that were not kept
	near   int       // index in only of the last symbol: the next is mostly there too

	last segment // the PT_LOAD of the last symbol: the next is mostly there too
}

// file adds the symbols of f.
func (l *loader) file(f *File) {
	if f.pe != nil {
		l.peSymbols(f)
		return
	}
	// A file has one of each at most. perf gives symbols without a size their end
	// by .symtab alone: the last of one address must be of that.
	for _, typ := range [...]uint32{shtDynsym, shtSymtab} {
		if i := slices.IndexFunc(f.sections, func(s section) bool { return s.typ == typ }); i >= 0 {
			if err := l.table(f, &f.sections[i], i); err != nil {
				f.warn(WarnSymbols, "section %s: %v", f.sections[i].name, err)
			}
		}
	}
	if len(f.sections) == 0 {
		if err := l.dynamic(f); err != nil {
			f.warn(WarnSymbols, "%v", err)
		}
	}
	if f.Quality() < Symtab {
		l.miniDebug(f)
		l.goSymbols(f)
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
	if i := slices.IndexFunc(m.sections, func(s section) bool { return s.typ == shtSymtab }); i >= 0 {
		if err := l.table(m, &m.sections[i], i); err != nil {
			f.warn(WarnSymbols, "section .gnu_debugdata: %v", err)
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
	names, err := f.strings(str)
	if err != nil {
		return err
	}
	raw := rawTable{r: f.r, off: s.off, size: s.size, names: names}
	if s.flags&shfCompressed != 0 {
		b, err := f.contents(s)
		if err != nil {
			return err
		}
		raw = memTable(b, names)
	} else if s.size > uint64(f.size) || s.off > uint64(f.size)-s.size {
		return &decode.Error{Offset: int64(s.off), Field: s.name, Why: fmt.Sprintf("%d bytes wanted, but the file has %d", s.size, f.size)}
	}
	if s.typ == shtDynsym {
		l.tables[s] = raw
		if l.labels && slices.ContainsFunc(f.sections, func(s section) bool { return s.typ == shtSymtab }) {
			return nil // a disassembler reads it only if there is no .symtab
		}
	}
	var xindex []byte
	if i := slices.IndexFunc(f.sections, func(x section) bool { return x.typ == shtSymtabShndx && int(x.link) == index }); i >= 0 {
		if xindex, err = f.contents(&f.sections[i]); err != nil {
			return err
		}
	}
	return l.add(f, raw, xindex)
}

// A rawTable is a symbol table as it is in the file, with its strings.
type rawTable struct {
	r     io.ReaderAt
	off   uint64
	size  uint64
	names *stringTable
}

// memTable returns a table that is in memory.
func memTable(b []byte, names *stringTable) rawTable {
	return rawTable{r: bytes.NewReader(b), size: uint64(len(b)), names: names}
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
		r.label = l.labels || strings.Contains(s.name, "text") || strings.Contains(s.name, "data")
		r.bias, r.known = s.addr-s.off, s.typ != shtNobits
		if !r.known && i < len(l.place.sections) {
			if p := l.place.sections[i]; p.addr == s.addr+l.distance(f) && p.name == s.name && p.typ != shtNobits {
				r.bias, r.known = p.addr-p.off, true
			}
		}
		r.end = math.MaxUint64
		if s.size > 0 {
			if off, ok := l.offset(addClamp(s.addr+l.distance(f), s.size-1), r); ok {
				r.end = addClamp(off, 1)
			}
		}
	}
	return out
}

// distance returns what the addresses in f lack.
func (l *loader) distance(f *File) uint64 {
	if f == l.self {
		return l.moved
	}
	return 0
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

// add adds the symbols of a table, of which xindex has the section numbers
// that do not fit in 16 bits.
func (l *loader) add(f *File, raw rawTable, xindex []byte) error {
	if len(l.t.tabs) == maxTables {
		return fmt.Errorf("more than %d symbol tables", maxTables)
	}
	c := symbolReader{l: l, f: f, order: binary.LittleEndian, tab: uint8(len(l.t.tabs)), names: raw.names, xindex: xindex, rules: l.rules(f), opd: l.place.opd(f), moved: l.distance(f)}
	if f.big {
		c.order = binary.BigEndian
	}
	if f.machine == MachineARM || f.machine == MachineAArch64 || f.machine == MachineRISCV {
		text, err := raw.names.whole()
		if err != nil {
			return err
		}
		c.text = text
	}
	l.t.tabs = append(l.t.tabs, raw.names)
	size := f.symSize()
	n := raw.size / size
	if n > maxSymbols {
		return fmt.Errorf("%d symbols, at most %d are read", n, maxSymbols)
	}
	if err := f.budget.Step(int64(n), "elf: symbols"); err != nil {
		return err
	}
	if l.only == nil && cap(l.t.syms) == 0 {
		if err := f.budget.Alloc(int64(n)*24, "elf: symbols"); err != nil {
			return err
		}
		l.t.syms = make([]symbol, 0, n)
	}
	const chunk = 4096
	buf := make([]byte, size*min(n, chunk))
	for i := uint64(0); i < n; i += chunk {
		b := buf[:size*min(n-i, chunk)]
		if m, err := raw.r.ReadAt(b, int64(raw.off+i*size)); m < len(b) {
			return fmt.Errorf("offset %#x: symbols: %w", raw.off+i*size, err)
		}
		before := cap(l.t.syms)
		for j := range uint64(len(b)) / size {
			c.symbol(int(i+j), b[j*size:][:size])
		}
		if err := f.budget.Alloc(int64(cap(l.t.syms)-before)*24, "elf: symbols"); err != nil {
			return err
		}
	}
	return nil
}

// A symbolReader decodes the symbols of one table.
type symbolReader struct {
	l      *loader
	f      *File
	order  binary.ByteOrder
	tab    uint8
	names  *stringTable
	text   string // all of names, on machines with mapping symbols
	xindex []byte
	rules  []sectionRule
	opd    descriptors
	moved  uint64 // what is added to values
}

// symbol decodes symbol i of the table (Elf32_Sym, Elf64_Sym) and adds it if
// it is one that names code or data.
func (c *symbolReader) symbol(i int, b []byte) {
	order, f, l := c.order, c.f, c.l
	name := order.Uint32(b)
	var value, length uint64
	var info, other byte
	var shndx uint32
	if len(b) == 24 {
		info, other, shndx = b[4], b[5], uint32(order.Uint16(b[6:]))
		value, length = order.Uint64(b[8:]), order.Uint64(b[16:])
	} else {
		value, length = uint64(order.Uint32(b[4:])), uint64(order.Uint32(b[8:]))
		info, other, shndx = b[12], b[13], uint32(order.Uint16(b[14:]))
	}
	typ := info & 15
	if shndx == shnUndef || shndx == shnAbs || name == 0 || uint64(name) >= c.names.size {
		return
	}
	label := typ == sttNotype && (l.labels || other&3 != stvHidden && other&3 != stvInternal)
	if typ != sttFunc && typ != sttIfunc && typ != sttObject && !label {
		return
	}
	if shndx == shnXIndex {
		if len(c.xindex)/4 <= i {
			return
		}
		shndx = order.Uint32(c.xindex[i*4:])
	}
	if c.text != "" && c.text[name] == '$' && isMapping(c.text[name:]) {
		return
	}
	if (f.machine == MachineARM || f.machine == MachineMIPS) && typ == sttFunc {
		if l.labels && f.machine == MachineARM && value&1 != 0 {
			if l.t.thumb == nil {
				l.t.thumb = map[uint64]bool{}
			}
			l.t.thumb[value&^1+c.moved] = true
		}
		value &^= 1 // Thumb, MIPS16, microMIPS
	}
	value += c.moved
	if c.opd.data != nil && shndx == c.opd.index {
		if value, shndx = c.opd.code(value, order); shndx == shnUndef {
			return
		}
	}
	var r *sectionRule
	switch {
	case uint64(shndx) < uint64(len(c.rules)):
		r = &c.rules[shndx]
	case len(c.rules) == 0 && shndx < 0xff00:
		r = &anySection
	}
	if r == nil || !r.keep || label && !r.label {
		return
	}
	if l.space == Offsets && f.typ == TypeRel && len(l.place.loads) == 0 && uint64(shndx) < uint64(len(f.sections)) {
		value += f.sections[shndx].addr
	}
	start, ok := l.offset(value, r)
	if !ok {
		return
	}
	s := symbol{start: start, end: addClamp(start, length), name: name, tab: c.tab}
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
	if l.only == nil {
		l.t.syms = append(l.t.syms, s)
	} else {
		l.keep(s)
	}
}

// anySection is for files without sections, whose symbols come from .dynamic.
var anySection = sectionRule{keep: true, end: math.MaxUint64}

// A barrier is the last start of a symbol in front of an address that was not
// kept. It matters as it ends those without a size.
type barrier struct {
	start uint64
	index int // in Table.syms of the symbol that stands for it, and one more
}

// keep adds a symbol that holds one of the addresses in l.only. Of any other
// it keeps the start, as a symbol that holds nothing, if no later start is
// known before the same address.
func (l *loader) keep(s symbol) {
	i := l.near
	if i > 0 && l.only[i-1] >= s.start || i < len(l.only) && l.only[i] < s.start || i > len(l.only) {
		i, _ = slices.BinarySearch(l.only, s.start)
		l.near = i
	}
	if i == len(l.only) {
		return // it is behind all of them
	}
	if l.only[i] < s.end {
		l.t.syms = append(l.t.syms, s)
		return
	}
	b := &l.behind[i]
	if b.index > 0 && s.start < b.start {
		return
	}
	s.end = s.start
	s.flags &^= symSizeless
	if b.start = s.start; b.index > 0 && b.index == len(l.t.syms) {
		l.t.syms[b.index-1] = s
		return
	}
	l.t.syms = append(l.t.syms, s)
	b.index = len(l.t.syms)
}

// isMapping reports whether a name that begins with $ marks code or data for
// a disassembler: $a, $d, $t, $x, the same with .anything behind, and $xrv with
// the instruction set behind, as RISC-V has it.
func isMapping(name string) bool {
	return len(name) >= 3 && strings.IndexByte("adtx", name[1]) >= 0 && (name[2] == 0 || name[2] == '.' || strings.HasPrefix(name, "$xrv"))
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

// descriptors are the section .opd of a 64-bit PowerPC file (ELF ABI v1):
// function symbols point to descriptors there, of which the first word is the
// address of the code.
type descriptors struct {
	index    uint32
	addr     uint64
	data     []byte
	sections []codeSection // by address
}

// A codeSection is a section in memory and its index.
type codeSection struct {
	addr, size uint64
	index      uint32
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
		d := descriptors{index: uint32(i), addr: s.addr, data: b}
		for i, s := range f.sections {
			if s.flags&shfAlloc != 0 && s.size > 0 {
				d.sections = append(d.sections, codeSection{s.addr, s.size, uint32(i)})
			}
		}
		slices.SortStableFunc(d.sections, func(a, b codeSection) int { return cmp.Compare(a.addr, b.addr) })
		return d
	}
	return descriptors{}
}

// code returns the address that the descriptor at addr points to, and the
// index of its section; 0 if there is none.
func (d *descriptors) code(addr uint64, order binary.ByteOrder) (uint64, uint32) {
	at := addr - d.addr
	if at > uint64(len(d.data)) || uint64(len(d.data))-at < 8 {
		return 0, shnUndef
	}
	code := order.Uint64(d.data[at:])
	i, _ := slices.BinarySearchFunc(d.sections, code, func(s codeSection, a uint64) int {
		if s.addr <= a {
			return -1
		}
		return 1
	})
	if i == 0 || code-d.sections[i-1].addr >= d.sections[i-1].size {
		return 0, shnUndef
	}
	return code, d.sections[i-1].index
}
