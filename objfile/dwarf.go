package objfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"

	"github.com/perfark/perfark/dwarf"
	"github.com/perfark/perfark/internal/crew"
	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/internal/inflate"
)

// DWARFOptions says how the debug information of a file is read. The zero
// value is right for a file that was mapped itself and needs no other.
type DWARFOptions struct {
	// Runtime is the file that was mapped, if the debug information is in
	// another one: it places the sections of a relocatable file.
	Runtime *File

	// Space is where the addresses of a relocatable file begin: Offsets or
	// Loaded. Those of other files are addresses as in the symbol table,
	// see File.Address.
	Space Space

	// DWO says that this is a .dwo or .dwp file. Alt, Split, Sum and CacheBytes are
	// as in dwarf.Options.
	DWO        bool
	Alt        func() (*dwarf.Data, error)
	Split      func(dwarf.SplitUnit) (*dwarf.Data, error)
	Sum        func(file string, md5 [16]byte)
	CacheBytes int64
}

// DWARF returns the debug information of a file. It reads nothing but what is
// asked for; the file must stay open as long as it is used. The error wraps
// dwarf.ErrNoInfo if there is none.
func (f *File) DWARF(o DWARFOptions) (*dwarf.Data, error) {
	s := &debugSections{f: f, o: o, partly: partlyKept}
	return dwarf.New(s.section, dwarf.Options{
		Name: f.name, Big: f.big, Budget: f.budget, MinAddr: f.minCode(), DWO: o.DWO,
		Alt: o.Alt, Split: o.Split, Sum: o.Sum, CacheBytes: o.CacheBytes,
	})
}

// minCode returns the lowest address that code can have: what lies below is
// debug information of functions that the linker dropped.
func (f *File) minCode() uint64 {
	if f.typ == TypeRel {
		return 0
	}
	low := uint64(math.MaxUint64)
	for _, s := range f.sections {
		if s.flags&(shfAlloc|shfExec) == shfAlloc|shfExec && s.size > 0 {
			low = min(low, s.addr)
		}
	}
	for _, p := range f.loads {
		if p.flags&pfExec != 0 && low == math.MaxUint64 {
			low = p.vaddr
		}
	}
	if low == math.MaxUint64 {
		return 0
	}
	return low
}

// Address returns the address in the symbol table and in the debug information
// of what the file has at an offset, as it was mapped. In a relocatable file it
// is the offset. Where segments share a page of the file, it is that of the one with
// code.
func (f *File) Address(off uint64) (addr uint64, ok bool) {
	if f.typ == TypeRel {
		return off, true
	}
	for _, p := range f.loads {
		if off >= p.off && off-p.off < p.filesz && (!ok || p.flags&pfExec != 0) {
			addr, ok = off-p.off+p.vaddr, true
		}
	}
	if ok || len(f.loads) > 0 {
		return addr, ok
	}
	for _, s := range f.sections {
		if s.flags&shfAlloc != 0 && s.typ != shtNobits && off >= s.off && off-s.off < s.size {
			return off - s.off + s.addr, true
		}
	}
	return 0, false
}

// debugSections yields the sections of a file to package dwarf, from any
// goroutine: unlike the methods of File it changes nothing in it.
type debugSections struct {
	f      *File
	o      DWARFOptions
	partly uint64 // see partlyKept

	mu       sync.Mutex
	admitted int64 // bytes decompressed
	made     map[int]*madeSection
}

// A madeSection is one that does not lie in the file as it is read.
type madeSection struct {
	asked sync.Once // for memory
	limit error
	once  sync.Once
	data  []byte
	err   error
}

// section returns a section: as it lies in the file, or decompressed and
// relocated in memory, which is done when its contents are asked for.
func (d *debugSections) section(name string) (dwarf.Section, error) {
	f := d.f
	i := d.index(name)
	if i < 0 {
		return dwarf.Section{}, nil
	}
	s := &f.sections[i]
	if s.size > uint64(f.size) || s.off > uint64(f.size)-s.size {
		return dwarf.Section{}, &decode.Error{Offset: int64(s.off), Field: s.name, Why: fmt.Sprintf("%d bytes wanted, but the file has %d", s.size, f.size)}
	}
	c, err := f.compression(s)
	if err != nil {
		return dwarf.Section{}, err
	}
	if c.typ == 0 && !d.relocated() {
		return dwarf.Section{R: f.r, Off: int64(s.off), Size: int64(s.size)}, nil
	}
	if name == ".debug_info" && c.typ == compressZlib && !d.relocated() && c.size >= d.partly {
		return dwarf.Section{R: &infoReader{d: d, i: i, c: c}, Size: int64(min(c.size, math.MaxInt64))}, nil
	}
	return dwarf.Section{Size: int64(min(c.size, math.MaxInt64)), Load: func() ([]byte, error) {
		if name == ".debug_info" {
			d.prepare()
		}
		return d.load(i)
	}}, nil
}

// index returns which section has the name, or the name that it has if it is
// compressed in the old way; -1 if there is none with contents.
func (d *debugSections) index(name string) int {
	for _, n := range [...]string{name, ".z" + name[1:]} {
		for i := range d.f.sections {
			if s := &d.f.sections[i]; s.name == n && s.typ != shtNobits {
				return i
			}
		}
	}
	return -1
}

func (d *debugSections) relocated() bool { return d.f.typ == TypeRel && !d.o.DWO }

// partlyKept is from which size on .debug_info is not kept as a whole when it
// is decompressed, in bytes.
const partlyKept = 96 << 20

// An infoReader reads .debug_info where it is decompressed in parts.
type infoReader struct {
	d *debugSections
	i int
	c compression

	once sync.Once
	r    *inflate.Reader
	err  error
}

func (x *infoReader) open() error {
	x.once.Do(func() {
		if x.err = x.d.admit(x.i, x.c); x.err != nil {
			return
		}
		x.d.prepare()
		s := &x.d.f.sections[x.i]
		size := int64(x.c.size)
		x.r = inflate.NewReader(x.d.f.r, int64(s.off+x.c.head), int64(s.size-x.c.head), size, size/2)
	})
	return x.err
}

func (x *infoReader) ReadAt(b []byte, off int64) (int, error) {
	if err := x.open(); err != nil {
		return 0, err
	}
	return x.r.ReadAt(b, off)
}

// Check returns what is wrong with the compressed data.
func (x *infoReader) Check() error {
	if err := x.open(); err != nil {
		return err
	}
	return x.r.Check()
}

// prepare makes the sections that every question needs, at the same time.
func (d *debugSections) prepare() {
	var wg crew.Group
	for _, name := range [...]string{
		".debug_info", ".debug_str", ".debug_line", ".debug_rnglists", ".debug_ranges", ".debug_abbrev", ".debug_addr", ".debug_str_offsets",
		".debug_line_str",
	} {
		i := d.index(name)
		if i < 0 {
			continue
		}
		c, err := d.f.compression(&d.f.sections[i])
		if err != nil || c.typ == 0 && !d.relocated() {
			continue
		}
		d.admit(i, c) // in this order, whoever is ready first
		if name == ".debug_info" && c.size >= d.partly {
			continue // it is read as it is decompressed
		}
		wg.Go(func() { d.load(i) })
	}
	wg.Wait()
}

// entry returns what is known of section i.
func (d *debugSections) entry(i int) *madeSection {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.made == nil {
		d.made = map[int]*madeSection{}
	}
	m := d.made[i]
	if m == nil {
		m = &madeSection{}
		d.made[i] = m
	}
	return m
}

// load makes section i.
func (d *debugSections) load(i int) ([]byte, error) {
	m := d.entry(i)
	m.once.Do(func() {
		if m.data, m.err = d.contents(i); m.err == nil && d.relocated() {
			m.err = d.relocate(m.data, uint32(i))
		}
	})
	return m.data, m.err
}

// admit asks for memory for section i.
func (d *debugSections) admit(i int, c compression) error {
	m := d.entry(i)
	m.asked.Do(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		s := &d.f.sections[i]
		if c.typ == 0 {
			return // read counts it
		}
		limit := min(d.f.size*maxRatio+maxGrowth-d.admitted, d.f.budget.Left())
		if c.size > uint64(max(limit, 0)) {
			m.limit = &decode.LimitError{What: s.name, Limit: limit, Want: int64(min(c.size, math.MaxInt64)), Option: "--max-input-bytes"}
			return
		}
		d.admitted += int64(c.size)
		m.limit = d.f.budget.Alloc(int64(c.size), s.name)
	})
	return m.limit
}

// A compression says how a section is compressed.
type compression struct {
	typ  uint32 // ch_type; 0: it is not
	head uint64 // bytes in front of the compressed ones
	size uint64 // of what comes out, in bytes
}

// compression reads how a section is compressed.
func (f *File) compression(s *section) (compression, error) {
	old := strings.HasPrefix(s.name, ".z")
	if s.flags&shfCompressed == 0 && !old {
		return compression{size: s.size}, nil
	}
	head := uint64(12)
	if s.flags&shfCompressed != 0 && f.class == 64 {
		head = 24
	}
	b, err := f.read(s.off, min(head, s.size), s.name)
	if err != nil {
		return compression{}, err
	}
	f.budget.Free(int64(len(b)))
	c := decode.NewCursor(b, int64(s.off), f.big)
	x := compression{head: head}
	switch {
	case s.flags&shfCompressed != 0:
		x.typ = c.Uint32("ch_type")
		if f.class == 64 {
			c.Skip(4, "ch_reserved")
		}
		x.size = f.word(&c, "ch_size")
		f.word(&c, "ch_addralign")
		if x.typ != compressZlib && x.typ != compressZstd && c.Err() == nil {
			return x, fmt.Errorf("ch_type is %d, want 1 (zlib) or 2 (zstd)", x.typ)
		}
	case bytes.HasPrefix(b, []byte("ZLIB")):
		c = decode.NewCursor(b, int64(s.off), true)
		c.Skip(4, "zdebug.magic")
		x.typ, x.size = compressZlib, c.Uint64("zdebug.size")
	default:
		return compression{size: s.size}, nil
	}
	return x, c.Err()
}

// contents reads a section, decompressed.
func (d *debugSections) contents(i int) ([]byte, error) {
	f := d.f
	s := &f.sections[i]
	c, err := f.compression(s)
	if err != nil {
		return nil, err
	}
	if c.typ == 0 {
		return f.read(s.off, s.size, s.name)
	}
	if err := d.admit(i, c); err != nil {
		return nil, err
	}
	out := make([]byte, c.size)
	r := io.NewSectionReader(f.r, int64(s.off+c.head), int64(s.size-c.head))
	if c.typ == compressZlib {
		return out, inflate.Zlib(out, r)
	}
	z, done, err := openZstd(r)
	if err != nil {
		return nil, err
	}
	defer done()
	if n, err := io.ReadFull(z, out); err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil, fmt.Errorf("holds %d bytes, but its ch_size is %d", n, len(out))
	} else if err != nil {
		return nil, err
	}
	switch n, err := z.Read(make([]byte, 1)); {
	case n > 0:
		return nil, fmt.Errorf("holds more than the %d bytes of its ch_size", len(out))
	case err != nil && err != io.EOF:
		return nil, err
	}
	return out, nil
}

// maxRelocs bounds the relocations of one section.
const maxRelocs = 1 << 26

// relocate applies the relocations of section i to its contents. Code is
// placed as o.Space says, other sections at 0, as debug information refers to
// them by offset. What a relocation of an unknown type would change stays.
func (d *debugSections) relocate(b []byte, i uint32) error {
	f := d.f
	for k := range f.sections {
		r := &f.sections[k]
		if r.typ != shtRela && r.typ != shtRel || r.info != i || uint64(r.link) >= uint64(len(f.sections)) {
			continue
		}
		rel, err := f.read(r.off, r.size, r.name)
		if err != nil {
			return err
		}
		st := &f.sections[r.link]
		syms, err := f.read(st.off, st.size, st.name)
		if err != nil {
			return err
		}
		x := relocator{f: f, to: b, syms: syms, base: d.bases(), order: binary.ByteOrder(binary.LittleEndian)}
		if f.big {
			x.order = binary.BigEndian
		}
		x.apply(rel, r.typ == shtRela)
		f.budget.Free(int64(r.size + st.size))
	}
	return nil
}

// bases returns where the sections of a relocatable file lie.
func (d *debugSections) bases() []uint64 {
	f := d.f
	place := d.o.Runtime
	if place == nil {
		place = f
	}
	var loaded map[uint32]uint64
	if d.o.Space == Loaded {
		loaded = place.layout()
	}
	at := map[string]uint64{}
	for i := range place.sections {
		s := &place.sections[i]
		switch lo, ok := loaded[uint32(i)]; {
		case s.flags&shfAlloc == 0:
		case d.o.Space == Loaded && ok:
			at[s.name] = lo
		case d.o.Space == Loaded:
			at[s.name] = 1 << 62 // no place is known
		default:
			at[s.name] = s.off + s.addr
		}
	}
	bases := make([]uint64, len(f.sections))
	for i := range f.sections {
		if f.sections[i].flags&shfAlloc != 0 {
			bases[i] = at[f.sections[i].name]
		}
	}
	return bases
}

// A relocator changes the contents of one section.
type relocator struct {
	f     *File
	to    []byte
	syms  []byte
	base  []uint64
	order binary.ByteOrder
}

// apply applies a table of relocations.
func (x *relocator) apply(rel []byte, addend bool) {
	size := 8
	if x.f.class == 64 {
		size = 16
	}
	if addend {
		size += size / 2
	}
	for n := 0; len(rel) >= size && n < maxRelocs; n++ {
		c := decode.NewCursor(rel[:size], 0, x.f.big)
		off := x.f.word(&c, "r_offset")
		info := x.f.word(&c, "r_info")
		var add uint64
		if addend {
			add = x.f.word(&c, "r_addend")
		}
		rel = rel[size:]
		sym, typ := uint32(info>>8), uint32(info&0xff)
		switch {
		case x.f.machine == MachineMIPS && x.f.class == 64 && !x.f.big:
			// r_sym, r_ssym, r_type3, r_type2, r_type as separate fields.
			sym, typ = uint32(info), uint32(info>>56)
		case x.f.class == 64:
			sym, typ = uint32(info>>32), uint32(info)
		}
		x.one(off, sym, typ, add, addend)
	}
}

// one applies one relocation.
func (x *relocator) one(off uint64, sym, typ uint32, add uint64, explicit bool) {
	kind := relocation(x.f.machine, typ)
	size := uint64(kind.size)
	if size == 0 || off > uint64(len(x.to)) || uint64(len(x.to))-off < size {
		return
	}
	at := x.to[off : off+size]
	v := x.symbol(sym)
	old := uint64(0)
	switch size {
	case 1:
		old = uint64(at[0])
	case 2:
		old = uint64(x.order.Uint16(at))
	case 4:
		old = uint64(x.order.Uint32(at))
	case 8:
		old = x.order.Uint64(at)
	}
	if !explicit {
		add = old
	}
	switch kind.op {
	case '=':
		v += add
	case '+':
		v = old + v + add
	case '-':
		v = old - v - add
	}
	switch size {
	case 1:
		if kind.bits == 6 {
			v = old&^0x3f | v&0x3f
		}
		at[0] = byte(v)
	case 2:
		x.order.PutUint16(at, uint16(v))
	case 4:
		x.order.PutUint32(at, uint32(v))
	case 8:
		x.order.PutUint64(at, v)
	}
}

// symbol returns the value of a symbol: its place.
func (x *relocator) symbol(i uint32) uint64 {
	size := uint64(16)
	if x.f.class == 64 {
		size = 24
	}
	at := uint64(i) * size
	if at > uint64(len(x.syms)) || uint64(len(x.syms))-at < size {
		return 0
	}
	c := decode.NewCursor(x.syms[at:at+size], 0, x.f.big)
	var shndx uint16
	var value uint64
	if c.Skip(4, "st_name"); x.f.class == 64 {
		c.Skip(2, "st_info")
		shndx = c.Uint16("st_shndx")
		value = c.Uint64("st_value")
	} else {
		value = uint64(c.Uint32("st_value"))
		c.Skip(6, "st_size")
		shndx = c.Uint16("st_shndx")
	}
	if int(shndx) < len(x.base) {
		value += x.base[shndx]
	}
	return value
}

// A reloc is what a relocation does: store symbol and addend, or add them to
// what is there, or subtract them.
type reloc struct {
	size int  // of what it changes, in bytes; 0: nothing
	op   byte // '=', '+' or '-'
	bits int  // fewer than the size has, 0 if not
}

// relocation returns what a type of relocation does that debug sections have.
// Source: the ABI supplement of each architecture; elf.h.
func relocation(m Machine, typ uint32) reloc {
	var r32, r64, r16 uint32
	switch m {
	case MachineX86_64:
		switch typ {
		case 10, 11: // R_X86_64_32, 32S
			return reloc{size: 4, op: '='}
		case 17: // DTPOFF64
			return reloc{}
		}
		r64, r32, r16 = 1, 10, 12
	case Machine386:
		r32, r16 = 1, 20
	case MachineAArch64:
		r64, r32, r16 = 257, 258, 259
	case MachineARM:
		r32, r16 = 2, 5
	case MachinePPC:
		r32, r16 = 1, 3
	case MachinePPC64:
		r64, r32, r16 = 38, 1, 3
	case MachineS390:
		r64, r32, r16 = 22, 4, 3
	case MachineSPARC, MachineSPARC64:
		switch typ {
		case 23: // R_SPARC_UA32
			return reloc{size: 4, op: '='}
		case 54: // R_SPARC_UA64
			return reloc{size: 8, op: '='}
		}
		r64, r32, r16 = 32, 3, 2
	case MachineMIPS:
		r64, r32, r16 = 18, 2, 1
	case MachineXtensa:
		r32 = 1
	case MachineRISCV, MachineLoong:
		return relocationRISC(m, typ)
	default:
		return reloc{}
	}
	switch typ {
	case 0:
	case r64:
		return reloc{size: 8, op: '='}
	case r32:
		return reloc{size: 4, op: '='}
	case r16:
		return reloc{size: 2, op: '='}
	}
	return reloc{}
}

// relocationRISC is relocation for the architectures whose linker shrinks
// code: differences are an addition and a subtraction in one place.
func relocationRISC(m Machine, typ uint32) reloc {
	if m == MachineLoong {
		switch typ {
		case 1, 2: // R_LARCH_32, 64
			return reloc{size: 4 * int(typ), op: '='}
		case 47, 48, 50, 51: // ADD8, ADD16, ADD32, ADD64
			return reloc{size: map[uint32]int{47: 1, 48: 2, 50: 4, 51: 8}[typ], op: '+'}
		case 52, 53, 55, 56: // SUB8, SUB16, SUB32, SUB64
			return reloc{size: map[uint32]int{52: 1, 53: 2, 55: 4, 56: 8}[typ], op: '-'}
		case 105: // ADD6
			return reloc{size: 1, op: '+', bits: 6}
		case 106: // SUB6
			return reloc{size: 1, op: '-', bits: 6}
		}
		return reloc{}
	}
	switch typ {
	case 1, 2: // R_RISCV_32, 64
		return reloc{size: 4 * int(typ), op: '='}
	case 33, 34, 35, 36: // ADD8, ADD16, ADD32, ADD64
		return reloc{size: 1 << (typ - 33), op: '+'}
	case 37, 38, 39, 40: // SUB8, SUB16, SUB32, SUB64
		return reloc{size: 1 << (typ - 37), op: '-'}
	case 52: // SUB6
		return reloc{size: 1, op: '-', bits: 6}
	case 53, 54, 55, 56: // SET6, SET8, SET16, SET32
		return reloc{size: []int{1, 1, 2, 4}[typ-53], op: '=', bits: []int{6, 0, 0, 0}[typ-53]}
	}
	return reloc{}
}
