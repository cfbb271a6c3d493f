package objfile

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/internal/decode"
)

// A program of Windows (PE, with symbols as in COFF) is read as if it were an
// ELF file: its sections are segments too, as they are mapped one by one.
// Addresses are those at which it is linked to be: those of the header plus the
// base of the image. Wine and .NET map such files.
//
// Source: "PE Format", Microsoft.

// A peFile is what a PE file has that an ELF file has elsewhere.
type peFile struct {
	base    uint64 // address of the image
	symbols uint64 // offset of the symbol table; 0 if there is none
	count   uint64 // of symbols
	exports [2]uint32
}

// PE machines, and what ready-to-run images of .NET have them combined with for
// an operating system.
var (
	peMachines = map[uint16]Machine{
		0x14c: Machine386, 0x1c0: MachineARM, 0x1c4: MachineARM, 0x5032: MachineRISCV, 0x5064: MachineRISCV,
		0x6264: MachineLoong, 0x8664: MachineX86_64, 0xaa64: MachineAArch64,
	}
	peSystems = []uint16{0, 0x7b79, 0x4644, 0xadc4, 0x1993} // Windows, Linux, macOS, FreeBSD, NetBSD
)

const (
	peSectionSize = 40
	peSymbolSize  = 18
	peDirSize     = 28 // of a debug directory entry

	peCode    = 0x20
	peExec    = 0x20000000
	peDiscard = 0x02000000

	peCodeView = 2 // type of a debug directory entry
)

// peHeader decodes the headers of a PE file.
func (f *File) peHeader() error {
	var dos [64]byte
	if n, err := f.r.ReadAt(dos[:], 0); n < len(dos) {
		return fmt.Errorf("%w: a DOS header of %d bytes: %v", ErrNotELF, n, err)
	}
	at := uint64(binary.LittleEndian.Uint32(dos[60:]))
	b, err := f.read(at, 24, "PE header")
	if err != nil || string(b[:4]) != "PE\x00\x00" {
		return fmt.Errorf("%w: a DOS program without a PE header at offset %#x", ErrNotELF, at)
	}
	f.pe = &peFile{}
	c := decode.NewCursor(b[4:], int64(at)+4, false)
	machine := c.Uint16("Machine")
	sections := uint64(c.Uint16("NumberOfSections"))
	c.Skip(4, "TimeDateStamp")
	f.pe.symbols = uint64(c.Uint32("PointerToSymbolTable"))
	f.pe.count = uint64(c.Uint32("NumberOfSymbols"))
	optional := uint64(c.Uint16("SizeOfOptionalHeader"))
	f.typ = TypeExec
	if c.Uint16("Characteristics")&0x2000 != 0 {
		f.typ = TypeDyn
	}
	for _, os := range peSystems {
		if m, ok := peMachines[machine^os]; ok {
			f.machine = m
			break
		}
	}
	b, err = f.read(at+24, optional, "optional header")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotELF, err)
	}
	c = decode.NewCursor(b, int64(at)+24, false)
	dirs, headers, err := f.peOptional(&c)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotELF, err)
	}
	if err := f.peSections(at+24+optional, sections, headers); err != nil {
		f.sections, f.segments, f.loads = nil, nil, nil
		f.warn(WarnHeaders, "no sections: %v", err)
		return nil
	}
	if len(dirs) > 0 {
		f.pe.exports = dirs[0]
	}
	if len(dirs) > 6 {
		if err := f.peDebug(dirs[6]); err != nil {
			f.warn(WarnNotes, "debug directory: %v", err)
		}
	}
	return nil
}

// peOptional decodes the optional header: it returns the data directories, each
// an address and a size, and the size of all headers.
func (f *File) peOptional(c *decode.Cursor) (dirs [][2]uint32, headers uint64, err error) {
	switch magic := c.Uint16("Magic"); magic {
	case 0x10b:
		f.class = 32
		c.Skip(14, "sizes")
		f.entry = uint64(c.Uint32("AddressOfEntryPoint"))
		c.Skip(8, "bases")
		f.pe.base = uint64(c.Uint32("ImageBase"))
	case 0x20b:
		f.class = 64
		c.Skip(14, "sizes")
		f.entry = uint64(c.Uint32("AddressOfEntryPoint"))
		c.Skip(4, "BaseOfCode")
		f.pe.base = c.Uint64("ImageBase")
	default:
		if c.Err() == nil {
			c.Failf("Magic", "%#x, want 0x10b or 0x20b", magic)
		}
		return nil, 0, c.Err()
	}
	c.Skip(28, "alignments and versions")
	headers = uint64(c.Uint32("SizeOfHeaders"))
	c.Skip(8, "CheckSum")
	c.Skip(4*f.class/8, "sizes of stack and heap")
	c.Skip(4, "LoaderFlags")
	for range min(c.Uint32("NumberOfRvaAndSizes"), 16) {
		if c.Len() < 8 {
			break
		}
		dirs = append(dirs, [2]uint32{c.Uint32("VirtualAddress"), c.Uint32("Size")})
	}
	f.entry += f.pe.base
	return dirs, headers, c.Err()
}

// peSections reads the section table.
func (f *File) peSections(at, n, headers uint64) error {
	b, err := f.read(at, n*peSectionSize, "section table")
	if err != nil {
		return err
	}
	if err := f.budget.Alloc(int64(n)*(96+112), "pe: sections"); err != nil {
		return err
	}
	// Long names are in the string table behind the symbols: /OFFSET.
	var names *stringTable
	if f.pe.symbols != 0 {
		names = f.peStrings()
	}
	f.segments = append(f.segments, segment{typ: ptLoad, vaddr: f.pe.base, filesz: min(headers, uint64(f.size)), memsz: headers})
	f.sections = append(f.sections, section{}) // numbers count from 1
	c := decode.NewCursor(b, int64(at), false)
	for range n {
		name := strings.TrimRight(string(c.Bytes(8, "Name")), "\x00")
		if rest, ok := strings.CutPrefix(name, "/"); ok && names != nil {
			if off, err := strconv.ParseUint(rest, 10, 32); err == nil {
				name = names.at(uint32(off), 256)
			}
		}
		memsz := uint64(c.Uint32("VirtualSize"))
		s := section{name: name, typ: shtProgbits}
		s.addr = addClamp(f.pe.base, uint64(c.Uint32("VirtualAddress")))
		s.size = uint64(c.Uint32("SizeOfRawData"))
		s.off = uint64(c.Uint32("PointerToRawData"))
		c.Skip(12, "relocations")
		flags := c.Uint32("Characteristics")
		if !strings.HasPrefix(name, ".debug") && !strings.HasPrefix(name, ".zdebug") && !strings.HasPrefix(name, ".gnu_debug") && flags&peDiscard == 0 {
			s.flags |= shfAlloc
		}
		p := segment{typ: ptLoad, off: s.off, vaddr: s.addr, filesz: min(s.size, memsz), memsz: memsz}
		if flags&(peExec|peCode) != 0 {
			s.flags |= shfAlloc | shfExec
			p.flags = pfExec
		}
		if s.off == 0 {
			s.typ, s.size, p.filesz = shtNobits, memsz, 0
		} else if memsz != 0 && memsz < s.size {
			s.size = memsz // the rest is padding
		}
		f.sections = append(f.sections, s)
		f.segments = append(f.segments, p)
	}
	f.loads = slices.Clone(f.segments)
	slices.SortStableFunc(f.loads, byAddress)
	return c.Err()
}

// peDebug takes the build id from the debug directory: the GUID of the first
// CodeView entry, in the order in which a GUID is written, without the age. perf
// has it from libbfd in that form.
func (f *File) peDebug(dir [2]uint32) error {
	if dir[0] == 0 || dir[1] == 0 {
		return nil
	}
	off, room, ok := f.bytesAt(addClamp(f.pe.base, uint64(dir[0])))
	if !ok {
		return fmt.Errorf("address %#x is not in the file", dir[0])
	}
	b, err := f.read(off, min(uint64(dir[1]), room, 64*peDirSize), "debug directory")
	if err != nil {
		return err
	}
	for c := decode.NewCursor(b, int64(off), false); c.Len() >= peDirSize; {
		c.Skip(12, "debug directory")
		typ := c.Uint32("Type")
		size := uint64(c.Uint32("SizeOfData"))
		c.Skip(4, "AddressOfRawData")
		at := uint64(c.Uint32("PointerToRawData"))
		if typ != peCodeView || size < 24 {
			continue
		}
		b, err := f.read(at, 24, "CodeView record")
		if err != nil {
			return err
		}
		if string(b[:4]) != "RSDS" {
			continue
		}
		g := b[4:20]
		id := binary.BigEndian.AppendUint32(nil, binary.LittleEndian.Uint32(g))
		id = binary.BigEndian.AppendUint16(id, binary.LittleEndian.Uint16(g[4:]))
		id = binary.BigEndian.AppendUint16(id, binary.LittleEndian.Uint16(g[6:]))
		f.addID(buildid.New(append(id, g[8:]...)))
	}
	return nil
}

// peStrings returns the string table behind the symbols; nil if it is damaged.
// Offsets in it count from its size, which stands first.
func (f *File) peStrings() *stringTable {
	at := f.pe.symbols + f.pe.count*peSymbolSize
	b, err := f.read(at, 4, "string table size")
	if err != nil {
		return nil
	}
	size := uint64(binary.LittleEndian.Uint32(b))
	if at < uint64(f.size) {
		size = min(size, uint64(f.size)-at)
	}
	t, err := f.lazyTable(at, size)
	if err != nil {
		return nil
	}
	return t
}

// peQuality returns what the symbols of a PE file can name.
func (f *File) peQuality() Quality {
	q := Stripped
	if f.pe.exports[1] != 0 {
		q = Dynsym
	}
	if f.pe.symbols != 0 && f.pe.count != 0 {
		q = Symtab
	}
	if s := f.section(".debug_info"); s != nil && s.typ != shtNobits && s.size > 0 {
		q = FullDWARF
	}
	return q
}

// peSymbols adds the symbols of a PE file, and the functions it exports.
func (l *loader) peSymbols(f *File) {
	if err := l.coff(f); err != nil {
		f.warn(WarnSymbols, "symbol table: %v", err)
	}
	if err := l.exports(f); err != nil {
		f.warn(WarnSymbols, "exports: %v", err)
	}
}

// Storage classes of COFF symbols.
const (
	coffExternal = 2
	coffStatic   = 3
	coffWeak     = 105
)

// coff adds the symbols of the symbol table. They have no sizes.
func (l *loader) coff(f *File) error {
	n := f.pe.count
	if f.pe.symbols == 0 || n == 0 {
		return nil
	}
	if n > maxSymbols || f.pe.symbols > uint64(f.size) || n > (uint64(f.size)-f.pe.symbols)/peSymbolSize {
		return &decode.Error{Offset: int64(f.pe.symbols), Field: "NumberOfSymbols", Why: fmt.Sprintf("%d symbols, but the file has %d bytes", n, f.size)}
	}
	long := f.peStrings()
	if long == nil {
		long = textTable("")
	}
	if len(l.t.tabs)+2 > maxTables {
		return fmt.Errorf("more than %d symbol tables", maxTables)
	}
	if err := f.budget.Step(int64(n), "pe: symbols"); err != nil {
		return err
	}
	longTab, shortTab := uint8(len(l.t.tabs)), uint8(len(l.t.tabs)+1)
	var short strings.Builder // names of up to eight bytes stand in the symbols
	rules := l.rules(f)
	const chunk = 4096
	buf := make([]byte, peSymbolSize*min(n, chunk))
	skip := uint64(0)
	for i := uint64(0); i < n; i += chunk {
		b := buf[:peSymbolSize*min(n-i, chunk)]
		if m, err := f.r.ReadAt(b, int64(f.pe.symbols+i*peSymbolSize)); m < len(b) {
			return fmt.Errorf("offset %#x: %w", f.pe.symbols+i*peSymbolSize, err)
		}
		before, names := cap(l.t.syms), short.Len()
		for ; len(b) > 0; b = b[peSymbolSize:] {
			if skip > 0 {
				skip--
				continue
			}
			skip = uint64(b[17])
			number := int(int16(binary.LittleEndian.Uint16(b[12:])))
			class := b[16]
			if number <= 0 || number >= len(rules) || class != coffExternal && class != coffStatic && class != coffWeak {
				continue
			}
			if class == coffStatic && skip > 0 && binary.LittleEndian.Uint16(b[14:]) == 0 {
				continue // the section itself
			}
			s := symbol{tab: longTab, flags: symGlobal}
			switch class {
			case coffStatic:
				s.flags = 0
			case coffWeak:
				s.flags = symWeak
			}
			if binary.LittleEndian.Uint32(b) == 0 {
				s.name = binary.LittleEndian.Uint32(b[4:])
				if uint64(s.name) >= long.size {
					continue
				}
			} else {
				name, _, _ := strings.Cut(string(b[:8]), "\x00")
				s.tab, s.name = shortTab, uint32(short.Len())
				if strings.HasPrefix(name, ".") {
					continue
				}
				short.WriteString(name)
				short.WriteByte(0)
			}
			l.addSizeless(s, f.sections[number].addr+uint64(binary.LittleEndian.Uint32(b[8:])), &rules[number])
		}
		if err := f.budget.Alloc(int64(cap(l.t.syms)-before)*24+int64(short.Len()-names), "pe: symbols"); err != nil {
			return err
		}
	}
	l.t.tabs = append(l.t.tabs, long, textTable(short.String()))
	return nil
}

// addSizeless adds a symbol of which only the address is known.
func (l *loader) addSizeless(s symbol, addr uint64, r *sectionRule) {
	if !r.keep {
		return
	}
	start, ok := l.offset(addr+l.moved, r)
	if !ok {
		return
	}
	s.start, s.end = start, max(r.end, start)
	s.flags |= symSizeless
	if l.only == nil {
		l.t.syms = append(l.t.syms, s)
	} else {
		l.keep(s)
	}
}

// exports adds the functions that a PE file exports by name.
func (l *loader) exports(f *File) error {
	dir := f.pe.exports
	if dir[0] == 0 || dir[1] < 40 {
		return nil
	}
	at := func(rva uint32, what string) (off, room uint64, err error) {
		off, room, ok := f.bytesAt(addClamp(f.pe.base, uint64(rva)))
		if !ok {
			return 0, 0, fmt.Errorf("%s: address %#x is not in the file", what, rva)
		}
		return off, room, nil
	}
	table := func(rva uint32, n, size uint64, what string) ([]byte, error) {
		off, room, err := at(rva, what)
		if err != nil {
			return nil, err
		}
		if n > room/size {
			return nil, &decode.Error{Offset: int64(off), Field: what, Why: fmt.Sprintf("%d entries, but only %d bytes follow", n, room)}
		}
		return f.read(off, n*size, what)
	}
	b, err := table(dir[0], 40, 1, "export directory")
	if err != nil {
		return err
	}
	c := decode.NewCursor(b, 0, false)
	c.Skip(20, "export directory")
	functions, names := uint64(c.Uint32("NumberOfFunctions")), uint64(c.Uint32("NumberOfNames"))
	addrs, err := table(c.Uint32("AddressOfFunctions"), functions, 4, "AddressOfFunctions")
	if err != nil {
		return err
	}
	texts, err := table(c.Uint32("AddressOfNames"), names, 4, "AddressOfNames")
	if err != nil {
		return err
	}
	ordinals, err := table(c.Uint32("AddressOfNameOrdinals"), names, 2, "AddressOfNameOrdinals")
	if err != nil {
		return err
	}
	text, err := f.lazyTable(0, min(uint64(f.size), math.MaxUint32))
	if err != nil {
		return err
	}
	if len(l.t.tabs) == maxTables {
		return fmt.Errorf("more than %d symbol tables", maxTables)
	}
	if err := f.budget.Alloc(int64(names)*24, "pe: exports"); err != nil {
		return err
	}
	rules := l.rules(f)
	find := f.sectionFinder()
	for i := range names {
		n := uint64(binary.LittleEndian.Uint16(ordinals[2*i:]))
		if n >= functions {
			continue
		}
		rva := binary.LittleEndian.Uint32(addrs[4*n:])
		if rva == 0 || rva-dir[0] < dir[1] {
			continue // of another file
		}
		off, _, err := at(binary.LittleEndian.Uint32(texts[4*i:]), "name")
		if err != nil || off >= text.size {
			continue
		}
		addr := addClamp(f.pe.base, uint64(rva))
		if r := find(addr); r > 0 {
			l.addSizeless(symbol{tab: uint8(len(l.t.tabs)), name: uint32(off), flags: symGlobal}, addr, &rules[r])
		}
	}
	l.t.tabs = append(l.t.tabs, text)
	return nil
}

// sectionFinder returns a function that gives the number of the section that
// holds an address, 0 if none does.
func (f *File) sectionFinder() func(addr uint64) int {
	order := make([]int, 0, len(f.sections))
	for i := range f.sections {
		if f.sections[i].size > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(f.sections[a].addr, f.sections[b].addr) })
	return func(addr uint64) int {
		n, _ := slices.BinarySearchFunc(order, addr, func(i int, addr uint64) int {
			if f.sections[i].addr <= addr {
				return -1
			}
			return 1
		})
		if n == 0 || addr-f.sections[order[n-1]].addr >= f.sections[order[n-1]].size {
			return 0
		}
		return order[n-1]
	}
}
