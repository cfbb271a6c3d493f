// Package objfile reads the files that name addresses: ELF objects and their
// notes, symbol tables, copies of /proc/kallsyms and perf maps.
//
// Everything in them is hostile: no size is trusted before it is compared
// with the bytes that are there, everything allocated is asked for from a
// decode.Budget, and a file that is damaged in one place still gives what it
// has in the others; Warnings says what was left out. Refused is only what
// is no ELF file at all.
//
// A compressed file (gzip, xz, zstd: kernel modules) is recognised by its
// first bytes, never by its name, and read as what is inside.
package objfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/internal/decode"
)

// ErrNotELF says that a file is no ELF file, nor a PE file. Open and ReadBuildID
// wrap it.
var ErrNotELF = errors.New("not an ELF file")

// A Type is what an ELF file is for (e_type).
type Type uint16

// The types of ELF files.
const (
	TypeRel  Type = 1 // relocatable: an object file, a kernel module
	TypeExec Type = 2 // program at a fixed address
	TypeDyn  Type = 3 // shared library or position-independent program
	TypeCore Type = 4
)

// A Machine is an architecture (e_machine).
type Machine uint16

// The machines whose symbols need rules of their own.
const (
	Machine386     Machine = 3
	MachineSPARC   Machine = 2
	MachineMIPS    Machine = 8
	MachinePPC     Machine = 20
	MachinePPC64   Machine = 21
	MachineS390    Machine = 22
	MachineARM     Machine = 40
	MachineSPARC64 Machine = 43
	MachineX86_64  Machine = 62
	MachineXtensa  Machine = 94
	MachineAArch64 Machine = 183
	MachineRISCV   Machine = 243
	MachineLoong   Machine = 258
)

// A WarningKind says what about a file was passed over.
type WarningKind uint8

// The kinds of warnings.
const (
	WarnHeaders   WarningKind = iota // section or program headers out of the file or malformed
	WarnNotes                        // damaged or oversized notes
	WarnTwoIDs                       // two notes with different build ids; the first counts
	WarnDebuglink                    // malformed .gnu_debuglink or .gnu_debugaltlink
	WarnSymbols                      // symbols that could not be read
	WarnSection                      // a section that could not be decompressed
)

// A Warning is a defect that was passed over.
type Warning struct {
	Kind WarningKind
	Text string // what, where and why, on one line
}

func (w Warning) String() string { return w.Text }

// A File is an open ELF file. It reads from its io.ReaderAt when asked, so
// that must stay open. Its methods must not be called concurrently.
type File struct {
	r      io.ReaderAt
	size   int64 // of r, in bytes
	name   string
	budget *decode.Budget

	class    int // 32 or 64
	big      bool
	typ      Type
	machine  Machine
	flags    uint32
	slim     bool
	entry    uint64
	ehsize   int64
	shoff    uint64
	pe       *peFile // nil for an ELF file
	sections []section
	segments []segment
	loads    []segment // PT_LOAD, sorted by vaddr

	admitted int64 // decompressed bytes so far, see admit
	ids      []buildid.ID
	goID     string
	warnings []Warning

	relativeList  []relative // see relatives
	relativesRead bool
}

// A section is a section header. Its extent may lie outside the file: only
// File.read looks at the bytes, and checks.
type section struct {
	name      string
	typ       uint32
	flags     uint64
	addr      uint64
	off       uint64
	size      uint64
	link      uint32
	info      uint32
	addralign uint64
	entsize   uint64
}

// Section types and flags (gABI).
const (
	shtProgbits = 1
	shtSymtab   = 2
	shtRela     = 4
	shtNote     = 7
	shtNobits   = 8
	shtRel      = 9
	shtDynsym   = 11

	shfAlloc      = 2
	shfExec       = 4
	shfCompressed = 0x800
)

// A segment is a program header.
type segment struct {
	typ    uint32
	flags  uint32
	off    uint64
	vaddr  uint64
	filesz uint64
	memsz  uint64
	align  uint64
}

const (
	ptLoad  = 1
	ptNote  = 4
	pfExec  = 1
	pfWrite = 2

	pnXNum    = 0xffff
	shnXIndex = 0xffff
)

// A file may be large and mostly holes, so what it says of itself is bounded
// by more than its size.
const (
	maxHeaders = 1 << 20 // sections, and segments
	maxSymbols = 1 << 26 // of one table
)

// Open reads the headers and notes of the ELF file, or the headers of the PE
// file, r of size bytes. Name is
// used in errors only. A nil budget means the default limits for this file.
// If r is compressed, Open decompresses it in memory, within the budget.
// The error wraps ErrNotELF if r is something else.
func Open(r io.ReaderAt, size int64, name string, b *decode.Budget) (*File, error) {
	if b == nil {
		b = decode.NewBudget(decode.Limits{})
	}
	plain, n, err := Decompress(r, size, b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f := &File{r: plain, size: n, name: name, budget: b}
	if err := f.header(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if f.pe == nil {
		f.readNotes()
	}
	return f, nil
}

// Name returns the name given to Open.
func (f *File) Name() string { return f.name }

// Class returns the width of an address in bits: 32 or 64.
func (f *File) Class() int { return f.class }

// Big reports whether the file is big-endian.
func (f *File) Big() bool { return f.big }

// Type returns what the file is for.
func (f *File) Type() Type { return f.typ }

// Flags returns the flags of the file's machine (e_flags).
func (f *File) Flags() uint32 { return f.flags }

// Machine returns the file's architecture.
func (f *File) Machine() Machine { return f.machine }

// Size returns the size of the file in bytes, decompressed.
func (f *File) Size() int64 { return f.size }

// Warnings returns the defects passed over so far, in the order met.
func (f *File) Warnings() []Warning { return f.warnings }

// warn keeps a warning. The number kept is bounded: a file can have a defect
// in every symbol.
func (f *File) warn(k WarningKind, format string, args ...any) {
	if len(f.warnings) < 16 {
		f.warnings = append(f.warnings, Warning{k, f.name + ": " + fmt.Sprintf(format, args...)})
	}
}

// read returns n bytes at off. They count against the budget.
func (f *File) read(off, n uint64, what string) ([]byte, error) {
	if n > uint64(f.size) || off > uint64(f.size)-n {
		return nil, &decode.Error{Offset: int64(off), Field: what, Why: fmt.Sprintf("%d bytes wanted, but the file has %d", n, f.size)}
	}
	if err := f.budget.Alloc(int64(n), "elf: "+what); err != nil {
		return nil, err
	}
	b := make([]byte, n)
	if m, err := f.r.ReadAt(b, int64(off)); m < len(b) {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("offset %#x: %s: %w", off, what, err)
	}
	return b, nil
}

// word reads an address-sized value.
func (f *File) word(c *decode.Cursor, field string) uint64 {
	if f.class == 32 {
		return uint64(c.Uint32(field))
	}
	return c.Uint64(field)
}

// header decodes the ELF header, then the tables it points to.
// Source: gABI, "ELF Header".
func (f *File) header() error {
	var ident [16]byte
	if n, err := f.r.ReadAt(ident[:], 0); n < len(ident) {
		if err != nil && err != io.EOF {
			return err
		}
		return fmt.Errorf("%w: %d bytes", ErrNotELF, n)
	}
	if string(ident[:2]) == "MZ" {
		return f.peHeader()
	}
	if string(ident[:4]) != "\x7fELF" {
		return fmt.Errorf("%w: it begins with %q", ErrNotELF, ident[:4])
	}
	switch ident[4] {
	case 1:
		f.class, f.ehsize = 32, 52
	case 2:
		f.class, f.ehsize = 64, 64
	default:
		return fmt.Errorf("%w: offset 0x4: class %d, want 1 or 2", ErrNotELF, ident[4])
	}
	switch ident[5] {
	case 1:
	case 2:
		f.big = true
	default:
		return fmt.Errorf("%w: offset 0x5: byte order %d, want 1 or 2", ErrNotELF, ident[5])
	}
	b, err := f.read(0, uint64(f.ehsize), "e_ident")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotELF, err)
	}
	f.slim = string(ident[slimOffset:]) == slimMark
	c := decode.NewCursor(b[16:], 16, f.big)
	f.typ = Type(c.Uint16("e_type"))
	f.machine = Machine(c.Uint16("e_machine"))
	c.Skip(4, "e_version")
	f.entry = f.word(&c, "e_entry")
	phoff := f.word(&c, "e_phoff")
	shoff := f.word(&c, "e_shoff")
	f.flags = c.Uint32("e_flags")
	c.Skip(2, "e_ehsize")
	phentsize := c.Uint16("e_phentsize")
	phnum := uint64(c.Uint16("e_phnum"))
	shentsize := c.Uint16("e_shentsize")
	shnum := uint64(c.Uint16("e_shnum"))
	shstrndx := uint32(c.Uint16("e_shstrndx"))
	if err := c.Err(); err != nil {
		return err
	}
	if f.shoff = shoff; shoff != 0 {
		xphnum, err := f.readSections(shoff, uint64(shentsize), shnum, shstrndx)
		if err != nil {
			f.sections = nil
			f.warn(WarnHeaders, "no sections: %v", err)
		} else if phnum == pnXNum {
			phnum = xphnum
		}
	}
	if phnum != 0 {
		if err := f.readSegments(phoff, uint64(phentsize), phnum); err != nil {
			f.segments = nil
			f.warn(WarnHeaders, "no segments: %v", err)
		}
	}
	return nil
}

// readSections reads the section headers and their names. It returns the
// number of program headers in section 0, for files with PN_XNUM of them.
func (f *File) readSections(off, entsize, num uint64, strndx uint32) (phnum uint64, err error) {
	min := uint64(64)
	if f.class == 32 {
		min = 40
	}
	if entsize < min {
		return 0, fmt.Errorf("e_shentsize is %d, want %d", entsize, min)
	}
	b, err := f.read(off, entsize, "section 0")
	if err != nil {
		return 0, err
	}
	first := f.decodeSection(b, off)
	if num == 0 {
		num = first.size
	}
	if strndx == shnXIndex {
		strndx = first.link
	}
	if num > uint64(f.size)/entsize {
		return 0, fmt.Errorf("e_shnum: %d sections of %d bytes, but the file has %d bytes", num, entsize, f.size)
	}
	if num > maxHeaders {
		return 0, fmt.Errorf("e_shnum: %d sections, at most %d are read", num, maxHeaders)
	}
	b, err = f.read(off, num*entsize, "section headers")
	if err != nil {
		return 0, err
	}
	if err := f.budget.Alloc(int64(num)*96, "elf: section headers"); err != nil {
		return 0, err
	}
	f.sections = make([]section, num)
	names := make([]uint32, num)
	for i := range f.sections {
		h := b[uint64(i)*entsize:][:entsize]
		f.sections[i] = f.decodeSection(h, off+uint64(i)*entsize)
		c := decode.NewCursor(h, 0, f.big)
		names[i] = c.Uint32("sh_name")
	}
	f.nameSections(names, strndx)
	return uint64(first.info), nil
}

// nameSections gives the sections their names. Names share the bytes of the
// string table, and only their first bytes are looked at: 65,536 sections
// can be named by one string of a megabyte.
func (f *File) nameSections(names []uint32, strndx uint32) {
	if uint64(strndx) >= uint64(len(f.sections)) || f.sections[strndx].typ == shtNobits {
		if strndx != 0 {
			f.warn(WarnHeaders, "no section names: e_shstrndx is %d of %d sections", strndx, len(f.sections))
		}
		return
	}
	s := f.sections[strndx]
	b, err := f.read(s.off, s.size, "section names")
	if err != nil {
		f.warn(WarnHeaders, "no section names: %v", err)
		return
	}
	str := string(b)
	for i, n := range names {
		f.sections[i].name = cstring(str, n, 256)
	}
}

// cstring returns the NUL-terminated string at off in tab, of at most max
// bytes, without copying it.
func cstring(tab string, off uint32, max int) string {
	if uint64(off) >= uint64(len(tab)) {
		return ""
	}
	s := tab[off:]
	if len(s) > max {
		s = s[:max]
	}
	if i := strings.IndexByte(s, 0); i >= 0 {
		s = s[:i]
	}
	return s
}

// decodeSection decodes a section header (Elf32_Shdr, Elf64_Shdr), which
// have the same fields in the same order.
func (f *File) decodeSection(b []byte, off uint64) section {
	c := decode.NewCursor(b, int64(off), f.big)
	var s section
	c.Skip(4, "sh_name")
	s.typ = c.Uint32("sh_type")
	s.flags = f.word(&c, "sh_flags")
	s.addr = f.word(&c, "sh_addr")
	s.off = f.word(&c, "sh_offset")
	s.size = f.word(&c, "sh_size")
	s.link = c.Uint32("sh_link")
	s.info = c.Uint32("sh_info")
	s.addralign = f.word(&c, "sh_addralign")
	s.entsize = f.word(&c, "sh_entsize")
	return s
}

// readSegments reads the program headers (Elf32_Phdr, Elf64_Phdr), whose
// fields stand in a different order.
func (f *File) readSegments(off, entsize, num uint64) error {
	min := uint64(56)
	if f.class == 32 {
		min = 32
	}
	if entsize < min {
		return fmt.Errorf("e_phentsize is %d, want %d", entsize, min)
	}
	if num > uint64(f.size)/entsize {
		return fmt.Errorf("e_phnum: %d segments of %d bytes, but the file has %d bytes", num, entsize, f.size)
	}
	if num > maxHeaders {
		return fmt.Errorf("e_phnum: %d segments, at most %d are read", num, maxHeaders)
	}
	b, err := f.read(off, num*entsize, "program headers")
	if err != nil {
		return err
	}
	if err := f.budget.Alloc(int64(num)*112, "elf: program headers"); err != nil {
		return err
	}
	f.segments = make([]segment, num)
	for i := range f.segments {
		at := uint64(i) * entsize
		c := decode.NewCursor(b[at:][:entsize], int64(off+at), f.big)
		p := &f.segments[i]
		p.typ = c.Uint32("p_type")
		if f.class == 64 {
			p.flags = c.Uint32("p_flags")
		}
		p.off = f.word(&c, "p_offset")
		p.vaddr = f.word(&c, "p_vaddr")
		f.word(&c, "p_paddr")
		p.filesz = f.word(&c, "p_filesz")
		p.memsz = f.word(&c, "p_memsz")
		if f.class == 32 {
			p.flags = c.Uint32("p_flags")
		}
		p.align = f.word(&c, "p_align")
		if p.typ == ptLoad {
			f.loads = append(f.loads, *p)
		}
	}
	slices.SortStableFunc(f.loads, byAddress)
	return nil
}

func byAddress(a, b segment) int { return cmp.Compare(a.vaddr, b.vaddr) }

// load returns the PT_LOAD that holds the address.
func (f *File) load(addr uint64) (segment, bool) {
	i, _ := slices.BinarySearchFunc(f.loads, addr, func(p segment, a uint64) int {
		if p.vaddr <= a {
			return -1
		}
		return 1
	})
	if i == 0 {
		return segment{}, false
	}
	p := f.loads[i-1]
	return p, addr-p.vaddr < p.memsz
}

// section returns the first section of that name, or nil.
func (f *File) section(name string) *section {
	for i := range f.sections {
		if f.sections[i].name == name {
			return &f.sections[i]
		}
	}
	return nil
}

// SectionAddr returns the address as linked of the first section of a name; ok
// is false if there is none.
func (f *File) SectionAddr(name string) (addr uint64, ok bool) {
	s := f.section(name)
	if s == nil {
		return 0, false
	}
	return s.addr, true
}

// DebugOnly reports whether the file is a separate debug file: it describes
// code that it does not hold.
func (f *File) DebugOnly() bool {
	text := false
	for _, s := range f.sections {
		if s.flags&shfExec != 0 && s.flags&shfAlloc != 0 {
			if s.typ != shtNobits {
				return false
			}
			text = true
		}
	}
	return text
}

// TextOffset returns where the code of a relocatable file, such as a kernel
// module, begins in the file: the offset of its section .text. 0 if there is
// none.
func (f *File) TextOffset() uint64 {
	if s := f.section(".text"); s != nil {
		return s.off
	}
	return 0
}
