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
	"sync"

	"github.com/perfark/perfark/internal/decode"
)

// ErrNoGoTable says that a file has no table of Go functions, or none that we
// know how to read.
var ErrNoGoTable = errors.New("no table of Go functions")

// A GoTable is what a Go program knows of its own functions, for its stack
// traces: names, source lines, inlined calls. It is there in every Go program,
// also in those linked with -s -w. It knows nothing of code in other languages
// that is linked in.
//
// Addresses are those at link time. It is safe for concurrent use; the file
// must stay open.
//
// Source: runtime/symtab.go, debug/gosym and cmd/link/internal/ld/pcln.go of
// each version of Go.
type GoTable struct {
	f       *File
	order   binary.ByteOrder
	layout  goLayout
	ptr     uint64 // size of an address
	quantum uint64 // size of the smallest instruction
	addr    uint64 // where the table is
	off     uint64 // and where in the file

	data  goPart // from its header on
	names goPart // parts of data
	cus   goPart
	files goPart
	pcs   goPart
	funcs goPart

	entries []uint64 // of the functions, sorted; and where the last one ends
	offs    []uint32 // of the functions in funcs
	gofunc  uint64   // what funcdata counts from; 0 if unknown
}

// A goLayout is a version of the format.
type goLayout uint8

const (
	go12  goLayout = iota // 1.2 to 1.15
	go116                 // and 1.17: tables apart, in the header
	go118                 // and 1.19: addresses count from the beginning of the code
	go120                 // and later
)

// goMagic are the first bytes of a table, by layout.
var goMagic = [...]uint32{go12: 0xfffffffb, go116: 0xfffffffa, go118: 0xfffffff0, go120: 0xfffffff1}

// Bounds of what one look-up does.
const (
	maxGoSteps  = 1 << 20 // of one table of values
	maxGoInline = 256     // calls inlined in each other
	maxGoFuncs  = 1 << 24
)

// Indices of the tables that say what was inlined.
const (
	pcdataInlTree   = 2
	funcdataInl113  = 4 // up to 1.15
	funcdataInlTree = 3
)

// IsGo reports whether the file looks like a Go program: by its notes and
// sections.
func (f *File) IsGo() bool {
	return f.goID != "" || f.section(".go.buildinfo") != nil || f.goSection() != nil
}

// goSection returns the section that is named for the table, nil if there is
// none: some linkers put it into another.
func (f *File) goSection() *section {
	for _, name := range [...]string{".gopclntab", ".data.rel.ro.gopclntab"} {
		if s := f.section(name); s != nil && s.typ != shtNobits && s.size > 0 {
			return s
		}
	}
	return nil
}

// GoTable reads the table of Go functions: from its section, or, if the file
// has none of that name or no sections at all, from where it is found in
// memory. The error wraps ErrNoGoTable if there is none.
func (f *File) GoTable() (*GoTable, error) {
	if s := f.goSection(); s != nil {
		t, err := f.goTableAt(s.off, s.addr, s.size)
		if err != nil {
			err = fmt.Errorf("%s: %w", f.name, err)
		}
		return t, err
	}
	if !f.IsGo() && len(f.sections) > 0 || f.DebugOnly() {
		return nil, fmt.Errorf("%s: %w", f.name, ErrNoGoTable)
	}
	var err error = ErrNoGoTable
	for _, p := range f.loads {
		if p.flags&pfExec != 0 || p.off >= uint64(f.size) {
			continue
		}
		size := min(p.filesz, uint64(f.size)-p.off)
		for at := range f.goHeaders(p.off, size) {
			t, terr := f.goTableAt(p.off+at, p.vaddr+at, size-at)
			if terr == nil {
				return t, nil
			}
			err = terr
		}
	}
	return nil, fmt.Errorf("%s: %w", f.name, err)
}

// maxGoHeaders is how many places that look like the beginning of a table are
// looked at.
const maxGoHeaders = 64

// goHeaders yields where in a segment a header of a table may be.
func (f *File) goHeaders(off, size uint64) func(yield func(uint64) bool) {
	return func(yield func(uint64) bool) {
		const chunk, head = 1 << 20, 8
		buf := make([]byte, min(size, chunk+head))
		found := 0
		// Of the magic number, all but the lowest byte are the same.
		want, before := []byte{0xff, 0xff, 0xff, 0, 0}, 1
		if f.big {
			want, before = want[:3], 0
		}
		for at := uint64(0); at < size; at += chunk {
			b := buf[:min(chunk+head, size-at)]
			n, _ := f.r.ReadAt(b, int64(off+at))
			b = b[:n]
			if f.budget.Step(int64(len(b)/256), "elf: search for the Go functions") != nil {
				return
			}
			for i := 0; i < len(b); i++ {
				j := bytes.Index(b[i:], want)
				if j < 0 {
					break
				}
				i += j
				start := i - before
				if start < 0 || start >= chunk || start%4 != 0 || start+head > len(b) || !f.isGoHeader(b[start:]) {
					continue
				}
				if found++; found > maxGoHeaders || !yield(at+uint64(start)) {
					return
				}
			}
		}
	}
}

// isGoHeader reports whether a table may begin with b.
func (f *File) isGoHeader(b []byte) bool {
	magic := f.order().Uint32(b)
	return slices.Contains(goMagic[:], magic) && b[4] == 0 && b[5] == 0 &&
		(b[6] == 1 || b[6] == 2 || b[6] == 4) && int(b[7])*8 == f.class
}

func (f *File) order() binary.ByteOrder {
	if f.big {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// goTableAt reads the table of at most size bytes at off.
func (f *File) goTableAt(off, addr, size uint64) (*GoTable, error) {
	if size > uint64(f.size) || off > uint64(f.size)-size {
		return nil, &decode.Error{Offset: int64(off), Field: "Go functions", Why: fmt.Sprintf("%d bytes wanted, but the file has %d", size, f.size)}
	}
	data := goPart{&goPages{r: f.r, off: off, size: size, budget: f.budget}, 0, size}
	b := data.at(0, min(8, size))
	if len(b) < 8 || !f.isGoHeader(b) {
		return nil, fmt.Errorf("%w that we know: offset %#x: it begins with %x", ErrNoGoTable, off, b[:min(8, len(b))])
	}
	t := &GoTable{f: f, order: f.order(), ptr: uint64(b[7]), quantum: uint64(b[6]), addr: addr, off: off, data: data}
	t.layout = goLayout(slices.Index(goMagic[:], t.order.Uint32(b)))
	if t.layout < go118 && f.typ == TypeDyn {
		f.relatives() // now, as look-ups may be concurrent
	}
	if err := t.header(); err != nil {
		return nil, fmt.Errorf("%w: offset %#x: %w", ErrNoGoTable, off, err)
	}
	return t, nil
}

// word returns the address-sized value at off in the table, 0 beyond its end.
func (t *GoTable) word(off uint64) uint64 {
	return wordAt(t.data.at(off, t.ptr), 0, t.ptr, t.order)
}

func wordAt(b []byte, off, size uint64, order binary.ByteOrder) uint64 {
	if off > uint64(len(b)) || uint64(len(b))-off < size {
		return 0
	}
	if size == 4 {
		return uint64(order.Uint32(b[off:]))
	}
	return order.Uint64(b[off:])
}

// u32 returns the four bytes at off, 0 beyond the end.
func (t *GoTable) u32(b []byte, off uint64) uint32 { return uint32(wordAt(b, off, 4, t.order)) }

// u32in returns the four bytes at off in a part, 0 beyond the end.
func (t *GoTable) u32in(p goPart, off uint64) uint32 { return t.u32(p.at(off, 4), 0) }

// goPages are the bytes of a table, read where they are asked for: of a table
// of 200 MB a profile needs a few. They are safe for concurrent use.
type goPages struct {
	r      io.ReaderAt
	off    uint64 // of the table in the file
	size   uint64
	budget *decode.Budget

	mu    sync.Mutex
	pages map[uint64][]byte
}

const goPage = 16 << 10

// page returns page i, shorter at the end; nil if it cannot be read.
func (p *goPages) page(i uint64) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, ok := p.pages[i]
	if ok || i >= (p.size+goPage-1)/goPage {
		return b
	}
	n := min(goPage, p.size-i*goPage)
	if p.budget.Alloc(int64(n), "elf: Go functions") == nil {
		b = make([]byte, n)
		if m, _ := p.r.ReadAt(b, int64(p.off+i*goPage)); m < len(b) {
			b = nil
		}
	}
	if p.pages == nil {
		p.pages = map[uint64][]byte{}
	}
	p.pages[i] = b
	return b
}

// A goPart is a part of a table.
type goPart struct {
	pages  *goPages
	lo, hi uint64
}

func (p goPart) len() uint64 { return p.hi - p.lo }

// at returns n bytes at off, which must not be changed, or as many as there
// are.
func (p goPart) at(off, n uint64) []byte {
	if off >= p.len() {
		return nil
	}
	off, n = p.lo+off, min(n, p.len()-off)
	b := p.pages.page(off / goPage)
	b = b[min(off%goPage, uint64(len(b))):]
	if uint64(len(b)) >= n {
		return b[:n:n]
	}
	out := slices.Clone(b)
	for uint64(len(out)) < n {
		next := p.pages.page((off + uint64(len(out))) / goPage)
		if len(next) == 0 {
			return out
		}
		out = append(out, next[:min(uint64(len(next)), n-uint64(len(out)))]...)
	}
	return out
}

// cstring returns the NUL-terminated string at off, of at most max bytes.
func (p goPart) cstring(off uint64, max int) string {
	for n := uint64(128); ; n *= 8 {
		b := p.at(off, min(n, uint64(max)))
		if i := bytes.IndexByte(b, 0); i >= 0 {
			return string(b[:i])
		}
		if uint64(len(b)) < n {
			return string(b)
		}
	}
}

// header reads the header and the list of functions. It is padded to 8 bytes
// from:
//
//	1.2:  nfunc
//	1.16: nfunc nfiles names cus files pcs funcs
//	1.18: nfunc nfiles text names cus files pcs funcs
//
// in words, the last five being offsets from the header.
func (t *GoTable) header() error {
	nfunc := t.word(8)
	if nfunc == 0 || nfunc > maxGoFuncs || nfunc > t.data.len()/8 {
		return fmt.Errorf("%d functions in %d bytes", nfunc, t.data.len())
	}
	if t.layout == go12 {
		t.names, t.funcs, t.pcs = t.data, t.data, t.data
		return t.list(8+t.ptr, nfunc)
	}
	first := uint64(2)
	if t.layout >= go118 {
		first = 3
	}
	var at [6]uint64
	for i := range 5 {
		at[i] = t.word(8 + (first+uint64(i))*t.ptr)
	}
	at[5] = t.data.len()
	for i := range 5 {
		if at[i] < 8+(first+5)*t.ptr || at[i] > at[i+1] {
			return fmt.Errorf("part %d is at %#x to %#x of %#x", i, at[i], at[i+1], at[5])
		}
	}
	part := func(i int) goPart { return goPart{t.data.pages, at[i], at[i+1]} }
	t.names, t.cus, t.files, t.pcs, t.funcs = part(0), part(1), part(2), part(3), part(4)
	return t.list(at[4], nfunc)
}

// list reads the list of functions, which is at off: pairs of where one begins
// and where in the table it is described, and where the last one ends.
func (t *GoTable) list(off, nfunc uint64) error {
	size := t.ptr
	if t.layout >= go118 {
		size = 4
	}
	if off > t.data.len() || (t.data.len()-off)/size < 2*nfunc+1 {
		return fmt.Errorf("%d functions, but only %d bytes follow", nfunc, t.data.len())
	}
	if err := t.f.budget.Alloc(int64(nfunc)*12, "elf: Go functions"); err != nil {
		return err
	}
	list, err := t.f.read(t.off+off, (2*nfunc+1)*size, "Go functions")
	if err != nil {
		return err
	}
	defer t.f.budget.Free(int64(len(list)))
	at := func(i uint64) uint64 { return wordAt(list, i*size, size, t.order) }
	entry := at
	switch {
	case t.layout >= go118:
		place, err := t.places(nfunc, at(0), at(2*nfunc))
		if err != nil {
			return err
		}
		entry = func(i uint64) uint64 { return place(at(i)) }
	case at(0) == 0 && t.f.typ == TypeDyn:
		// The dynamic linker is to write all addresses.
		entry = func(i uint64) uint64 { return t.f.pointer(t.addr+off+i*size, at(i)) }
	}
	t.entries = make([]uint64, nfunc+1)
	t.offs = make([]uint32, nfunc)
	for i := range nfunc {
		t.entries[i], t.offs[i] = entry(2*i), uint32(at(2*i+1))
	}
	t.entries[nfunc] = entry(2 * nfunc)
	if !slices.IsSorted(t.entries) {
		return errors.New("functions are not in order")
	}
	for _, a := range []uint64{t.entries[0], t.entries[nfunc] - 1} {
		if p, ok := t.f.load(a); !ok || p.flags&pfExec == 0 {
			return fmt.Errorf("address %#x of a function is not that of code", a)
		}
	}
	return nil
}

// places returns what turns the offsets that the list has since Go 1.18 into
// addresses. They count from the symbol runtime.text, which is not the
// beginning of the section .text where C code is linked in. The runtime has it
// in its description of the module; the header had it up to Go 1.25.
func (t *GoTable) places(nfunc, first, last uint64) (func(uint64) uint64, error) {
	m := t.module(nfunc)
	text := uint64(0)
	if m != nil {
		text = m.word(moduleText)
		t.gofunc = m.word(m.gofunc())
		if sections := m.sections(); len(sections) > 0 {
			return func(off uint64) uint64 {
				for _, s := range sections {
					if off < s.end || s.last && off == s.end {
						return s.base + off - s.start
					}
				}
				return text + off
			}, nil
		}
	}
	if text == 0 {
		at := 8 + 2*t.ptr
		text = t.f.pointer(t.addr+at, t.word(at))
	}
	if text == 0 || addClamp(text, last) == math.MaxUint64 {
		return nil, errors.New("nothing says where the code begins")
	}
	return func(off uint64) uint64 { return text + off }, nil
}

// A goModule is the runtime's description of the program (moduledata), of
// which the table is a part.
type goModule struct {
	t    *GoTable
	addr uint64
	data []byte
}

// Places in a goModule, in words. Behind text are etext, and beginnings and
// ends of noptrdata, data, bss, noptrbss, since 1.20 covctrs; end, gcdata,
// gcbss, types, etypes, rodata, gofunc; since 1.26 epclntab; textsectmap.
const (
	moduleNames = 1  // slices of three words: names, cus, files, pcs, funcs
	moduleList  = 16 // slice: the list of functions
	moduleText  = 22
	moduleSize  = 48
)

// word returns the i-th word.
func (m *goModule) word(i uint64) uint64 {
	return m.t.f.pointer(m.addr+i*m.t.ptr, wordAt(m.data, i*m.t.ptr, m.t.ptr, m.t.order))
}

// gofunc returns the place of the address that funcdata counts from.
func (m *goModule) gofunc() uint64 {
	if m.t.layout >= go120 {
		return moduleText + 18
	}
	return moduleText + 16
}

// A goText is a section of code where there are several: on machines whose
// branches do not reach over all. Offsets count as if they were one.
type goText struct {
	start, end uint64 // offsets
	base       uint64 // address
	last       bool
}

// sections returns the sections of code if there are several.
func (m *goModule) sections() []goText {
	for i := m.gofunc() + 1; i <= m.gofunc()+2; i++ {
		addr, n, room := m.word(i), m.word(i+1), m.word(i+2)
		if n < 2 || n > 4096 || room < n || addr == 0 {
			continue
		}
		off, left, ok := m.t.f.bytesAt(addr)
		if !ok || left < n*3*m.t.ptr {
			continue
		}
		b, err := m.t.f.read(off, n*3*m.t.ptr, "Go sections")
		if err != nil {
			continue
		}
		var out []goText
		for j := range n {
			w := func(k uint64) uint64 {
				at := (3*j + k) * m.t.ptr
				return m.t.f.pointer(addr+at, wordAt(b, at, m.t.ptr, m.t.order))
			}
			out = append(out, goText{start: w(0), end: w(1), base: w(2), last: j == n-1})
		}
		if out[0].base == m.word(moduleText) && slices.IsSortedFunc(out, func(a, b goText) int { return cmp.Compare(a.start, b.start) }) {
			return out
		}
	}
	return nil
}

// module finds the description of the program: its first word is the address
// of the table, and others are those of the parts of it.
func (t *GoTable) module(nfunc uint64) *goModule {
	f := t.f
	check := func(addr uint64) *goModule {
		off, room, ok := f.bytesAt(addr)
		if !ok || room < moduleText*t.ptr {
			return nil
		}
		m := &goModule{t: t, addr: addr, data: make([]byte, min(room, moduleSize*t.ptr))}
		if n, _ := f.r.ReadAt(m.data, int64(off)); n < len(m.data) {
			return nil
		}
		for i, part := range []goPart{t.names, t.cus, t.files, t.pcs, t.funcs} {
			at := t.addr + part.lo
			if m.word(moduleNames+3*uint64(i)) != at {
				return nil
			}
		}
		if n := m.word(moduleList + 1); n != nfunc && n != nfunc+1 {
			return nil
		}
		return m
	}
	want := make([]byte, t.ptr)
	if t.ptr == 4 {
		t.order.PutUint32(want, uint32(t.addr))
	} else {
		t.order.PutUint64(want, t.addr)
	}
	const chunk = 1 << 20
	// It is a variable: where there are few bytes, and mostly not in the rest.
	loads := slices.Clone(f.loads)
	slices.SortStableFunc(loads, func(a, b segment) int { return cmp.Compare(b.flags&pfWrite, a.flags&pfWrite) })
	for _, p := range loads {
		if p.flags&pfExec != 0 || p.off >= uint64(f.size) {
			continue
		}
		size := min(p.filesz, uint64(f.size)-p.off)
		buf := make([]byte, min(size, chunk+8))
		for at := uint64(0); at < size; at += chunk {
			b := buf[:min(chunk+8, size-at)]
			n, _ := f.r.ReadAt(b, int64(p.off+at))
			b = b[:n]
			if f.budget.Step(int64(len(b)/256), "elf: search for the Go module") != nil {
				return nil
			}
			for i := 0; ; i++ {
				j := bytes.Index(b[i:], want)
				if j < 0 {
					break
				}
				i += j
				if (p.vaddr+at+uint64(i))%t.ptr != 0 {
					continue
				}
				if m := check(p.vaddr + at + uint64(i)); m != nil {
					return m
				}
			}
		}
	}
	for _, r := range f.relatives() {
		if r.value == t.addr {
			if m := check(r.addr); m != nil {
				return m
			}
		}
	}
	return nil
}

// A relative is an address that the dynamic linker writes (R_*_RELATIVE).
type relative struct {
	addr, value uint64
}

// Tags of the dynamic section.
const (
	dtRela   = 7
	dtRelasz = 8
)

// relatives returns the addresses that are not in the file, but in its table
// of relocations, in the order of where they go. Machines that have no such
// tables have them in place.
func (f *File) relatives() []relative {
	if f.relativesRead {
		return f.relativeList
	}
	f.relativesRead = true
	typ, ok := map[Machine]uint64{MachineX86_64: 8, MachineAArch64: 1027, MachinePPC64: 22, MachineS390: 12, MachineRISCV: 3, MachineLoong: 3}[f.machine]
	if !ok || f.class != 64 {
		return nil
	}
	tags, err := f.dynamicTags()
	if err != nil || tags[dtRela] == 0 {
		return nil
	}
	off, room, ok := f.bytesAt(tags[dtRela])
	if !ok {
		return nil
	}
	n := min(tags[dtRelasz], room) / 24
	if err := f.budget.Alloc(int64(n)*40, "elf: relocations"); err != nil {
		f.warn(WarnSection, "relocations: %v", err)
		return nil
	}
	b := make([]byte, n*24)
	if m, _ := f.r.ReadAt(b, int64(off)); m < len(b) {
		return nil
	}
	order := f.order()
	for i := range n {
		if e := b[i*24:]; order.Uint64(e[8:]) == typ {
			f.relativeList = append(f.relativeList, relative{order.Uint64(e), order.Uint64(e[16:])})
		}
	}
	slices.SortStableFunc(f.relativeList, func(a, b relative) int { return cmp.Compare(a.addr, b.addr) })
	return f.relativeList
}

// pointer returns the address that will be at addr, where the file has in.
func (f *File) pointer(addr, in uint64) uint64 {
	if in != 0 || f.typ != TypeDyn {
		return in
	}
	list := f.relatives()
	i, ok := slices.BinarySearchFunc(list, addr, func(r relative, a uint64) int { return cmp.Compare(r.addr, a) })
	if !ok {
		return in
	}
	return list[i].value
}

// Len returns the number of functions.
func (t *GoTable) Len() int { return len(t.offs) }

// Sym returns function i, in order of address. It ends where the next begins.
func (t *GoTable) Sym(i int) Sym {
	return Sym{t.name(t.nameOff(i)), t.entries[i], t.entries[i+1]}
}

// Find returns the number of the function that holds an address, for Sym.
func (t *GoTable) Find(addr uint64) (int, bool) {
	n := len(t.offs)
	i, _ := slices.BinarySearchFunc(t.entries[:n], addr, func(e, a uint64) int {
		if e <= a {
			return -1
		}
		return 1
	})
	if i == 0 || addr >= t.entries[i] {
		return 0, false
	}
	return i - 1, true
}

// Lookup returns the function that holds an address.
func (t *GoTable) Lookup(addr uint64) (Sym, bool) {
	i, ok := t.Find(addr)
	if !ok {
		return Sym{}, false
	}
	return t.Sym(i), true
}

// nameOff returns where the name of function i is in t.names.
func (t *GoTable) nameOff(i int) uint32 {
	return t.u32in(t.funcs, uint64(t.offs[i])+t.entrySize())
}

// entrySize is the size of the first field of a function.
func (t *GoTable) entrySize() uint64 {
	if t.layout >= go118 {
		return 4
	}
	return t.ptr
}

func (t *GoTable) name(off uint32) string { return t.names.cstring(uint64(off), maxName) }

// A goFunc is a function of the table (_func). After the entry and the offset
// of its name come, in words of four bytes,
//
//	args deferreturn pcsp pcfile pcln npcdata [cuOffset] [startLine] flags
//
// where cuOffset is there since 1.16 and startLine since 1.20. The last byte of
// flags is nfuncdata. Then npcdata offsets into pcs, and nfuncdata references.
type goFunc struct {
	t      *GoTable
	entry  uint64
	name   uint32
	file   uint32
	line   uint32
	cu     uint32
	pcdata []byte
	tree   uint64 // address of the inlined calls; 0 if there are none
}

// function decodes function i.
func (t *GoTable) function(i int) goFunc {
	// All of it is a few words: they are read at once.
	const most = 8 + 12*4 + 64*4 + 256*8
	from := uint64(t.offs[i])
	b := t.funcs.at(from, most)
	at := uint64(0)
	fn := goFunc{t: t, entry: t.entries[i], name: t.nameOff(i)}
	at += t.entrySize() + 4 + 3*4
	fn.file, fn.line = t.u32(b, at), t.u32(b, at+4)
	npcdata := uint64(t.u32(b, at+8))
	at += 12
	if t.layout >= go116 {
		fn.cu = t.u32(b, at)
		at += 4
	}
	if t.layout >= go120 {
		at += 4
	}
	if at > uint64(len(b)) || uint64(len(b))-at < 4 {
		return fn
	}
	nfuncdata := b[at+3]
	at += 4
	if npcdata > 64 || (uint64(len(b))-at)/4 < npcdata {
		return fn
	}
	fn.pcdata = b[at : at+4*npcdata]
	at += 4 * npcdata
	switch index := uint64(funcdataInlTree); {
	case t.layout >= go118:
		if off := t.u32(b, at+4*index); index < uint64(nfuncdata) && off != math.MaxUint32 && t.gofunc != 0 {
			fn.tree = t.gofunc + uint64(off)
		}
	default:
		if t.layout == go12 {
			index = funcdataInl113
		}
		if (t.funcs.lo+from+at)%t.ptr != 0 {
			at += 4 // references are aligned
		}
		if index < uint64(nfuncdata) {
			at += t.ptr * index
			fn.tree = t.f.pointer(t.addr+t.funcs.lo+from+at, wordAt(b, at, t.ptr, t.order))
		}
	}
	return fn
}

// value returns what a table of values has for pc: the first byte of it is at
// off in pcs. It holds differences, of the value and of the pc, alternating,
// as numbers of seven bits a byte, and ends with a difference of 0.
func (fn *goFunc) value(off uint32, pc uint64) (int32, bool) {
	t := fn.t
	if off == 0 || uint64(off) >= t.pcs.len() {
		return -1, false
	}
	const window, least = 512, 10
	from := uint64(off)
	b := t.pcs.at(from, window)
	value, at := int32(-1), fn.entry
	steps := 0
	defer func() { t.f.budget.Step(int64(steps), "elf: Go lines") }()
	for ; steps < maxGoSteps; steps++ {
		if len(b) < least {
			b = t.pcs.at(from, window)
		}
		d, n := binary.Uvarint(b[:min(len(b), 5)])
		if n <= 0 || d == 0 && steps > 0 {
			return -1, false
		}
		b, from = b[n:], from+uint64(n)
		value += int32(uint32(d>>1) ^ -uint32(d&1))
		d, n = binary.Uvarint(b[:min(len(b), 5)])
		if n <= 0 {
			return -1, false
		}
		b, from = b[n:], from+uint64(n)
		if at += d * t.quantum; pc < at {
			return value, true
		}
	}
	return -1, false
}

// fileName returns the name of a file by its number in the function's unit.
func (fn *goFunc) fileName(n int32) string {
	t := fn.t
	if n < 0 {
		return ""
	}
	if t.layout == go12 {
		// Behind the list of functions is where the table of files is: their
		// number, then the places of their names.
		list := uint64(8 + t.ptr + (2*uint64(len(t.offs))+1)*t.ptr)
		files := uint64(t.u32in(t.data, list))
		if n == 0 || uint32(n) >= t.u32in(t.data, files) {
			return ""
		}
		return t.data.cstring(uint64(t.u32in(t.data, files+4*uint64(n))), maxName)
	}
	off := (uint64(fn.cu) + uint64(n)) * 4
	if off > t.cus.len() || t.cus.len()-off < 4 {
		return ""
	}
	at := t.u32in(t.cus, off)
	if at == math.MaxUint32 {
		return ""
	}
	return t.files.cstring(uint64(at), maxName)
}

// source sets the source line of a frame.
func (fn *goFunc) source(fr *GoFrame, pc uint64) {
	if n, ok := fn.value(fn.line, pc); ok && n > 0 {
		fr.Line = int(n)
	}
	if n, ok := fn.value(fn.file, pc); ok {
		fr.File = fn.fileName(n)
	}
}

// A GoFrame is a function at an address, and the line there.
type GoFrame struct {
	Name    string
	Inlined bool   // the function has no code of its own here
	File    string // "" if unknown
	Line    int    // from 1; 0 if unknown
	Start   uint64 // where the function with the machine code begins
}

// Frames appends to buf what the compiler put at addr: innermost first, the
// function that the machine code belongs to last. It appends nothing if no Go
// function holds the address. The error says that the budget is used up.
func (t *GoTable) Frames(addr uint64, buf []GoFrame) ([]GoFrame, error) {
	i, ok := t.Find(addr)
	if !ok {
		return buf, nil
	}
	if err := t.f.budget.Step(1, "elf: Go lines"); err != nil {
		return buf, err
	}
	fn := t.function(i)
	n := len(buf)
	if fn.tree != 0 {
		if buf, ok = fn.inlined(addr, buf); !ok {
			buf = buf[:n] // it makes no sense
		}
	}
	if len(buf) == n {
		fr := GoFrame{Name: t.name(fn.name)}
		fn.source(&fr, addr)
		buf = append(buf, fr)
	}
	for j := n; j < len(buf); j++ {
		buf[j].Inlined, buf[j].Start = j+1 < len(buf), fn.entry
	}
	return buf, nil
}

// inlined appends the frames of fn and of what is inlined in it, and reports
// whether what it read makes sense.
func (fn *goFunc) inlined(pc uint64, buf []GoFrame) ([]GoFrame, bool) {
	t := fn.t
	if len(fn.pcdata) < 4*(pcdataInlTree+1) {
		return buf, false
	}
	tab := t.u32(fn.pcdata, 4*pcdataInlTree)
	if t.layout >= go120 {
		for depth := 0; ; depth++ {
			n, ok := fn.value(tab, pc)
			var c inlinedCall
			if ok && n >= 0 {
				if c, ok = fn.call(n); !ok || depth == maxGoInline {
					return buf, false
				}
			}
			fr := GoFrame{Name: t.name(fn.name)}
			if ok && n >= 0 {
				fr.Name = c.name
			}
			fn.source(&fr, pc)
			buf = append(buf, fr)
			if !ok || n < 0 {
				return buf, true
			}
			pc = fn.entry + uint64(c.at)
		}
	}
	var fr GoFrame
	fn.source(&fr, pc)
	n, ok := fn.value(tab, pc)
	for depth := 0; ok && n >= 0; depth++ {
		c, ok := fn.call(n)
		if !ok || depth == maxGoInline {
			return buf, false
		}
		fr.Name = c.name
		buf = append(buf, fr)
		fr = GoFrame{File: fn.fileName(c.file), Line: int(max(c.line, 0))}
		n = c.parent
	}
	fr.Name = t.name(fn.name)
	return append(buf, fr), true
}

// An inlinedCall is an entry of a tree of inlined calls.
type inlinedCall struct {
	name   string
	at     uint32 // of the call, from the entry of the function
	parent int32  // up to 1.19: the entry of the caller; less than 0: the function itself
	file   int32  // up to 1.19: of the call
	line   int32
}

// call reads entry n of the tree:
//
//	1.13: int16 parent, u8 funcID, u8 0, i32 file, i32 line, i32 name, i32 pc
//	1.20: u8 funcID, u8 0, u8 0, u8 0, i32 name, i32 pc, i32 first line
//
// Nothing says how many there are. What can be checked is.
func (fn *goFunc) call(n int32) (c inlinedCall, ok bool) {
	t := fn.t
	size := uint64(20)
	if t.layout >= go120 {
		size = 16
	}
	off, room, ok := t.f.bytesAt(fn.tree + uint64(n)*size)
	if !ok || room < size {
		return c, false
	}
	var buf [20]byte
	b := buf[:size]
	if m, err := t.f.r.ReadAt(b, int64(off)); m < len(b) && err != nil && err != io.EOF {
		return c, false
	}
	var name uint32
	if t.layout >= go120 {
		name, c.at = t.u32(b, 4), t.u32(b, 8)
		ok = b[1]|b[2]|b[3] == 0
	} else {
		c.parent = int32(int16(t.order.Uint16(b)))
		c.file, c.line = int32(t.u32(b, 4)), int32(t.u32(b, 8))
		name, c.at = t.u32(b, 12), t.u32(b, 16)
		ok = b[3] == 0 && c.parent >= -1 && c.line >= 0
	}
	i, _ := t.Find(fn.entry)
	ok = ok && uint64(c.at) < t.entries[i+1]-fn.entry && uint64(name) < t.names.len()
	if ok && name > 0 {
		before := t.names.at(uint64(name)-1, 1)
		ok = len(before) == 1 && before[0] == 0
	}
	c.name = t.name(name)
	return c, ok && c.name != "" && !strings.ContainsAny(c.name, "\x00\n")
}

// goSymbols adds the functions of the table, which .dynsym lacks.
func (l *loader) goSymbols(f *File) {
	if !f.IsGo() && len(f.sections) > 0 || f.typ == TypeRel || f.DebugOnly() {
		return
	}
	t, err := f.GoTable()
	if err != nil {
		if f.IsGo() {
			f.warn(WarnSymbols, "%v", err)
		}
		return
	}
	names, err := f.lazyTable(t.off+t.names.lo, t.names.len())
	if err != nil || len(l.t.tabs) == maxTables {
		return
	}
	tab := uint8(len(l.t.tabs))
	l.t.tabs = append(l.t.tabs, names)
	if l.only == nil {
		if err := f.budget.Alloc(int64(t.Len())*24, "elf: symbols"); err != nil {
			f.warn(WarnSymbols, "%v", err)
			return
		}
	}
	add := func(i int) {
		name := t.nameOff(i)
		start, ok := l.offset(t.entries[i], &anySection)
		if b := t.names.at(uint64(name), 1); !ok || len(b) == 0 || b[0] == 0 {
			return
		}
		s := symbol{start: start, end: addClamp(start, t.entries[i+1]-t.entries[i]), name: name, tab: tab, flags: symGlobal}
		if l.only == nil {
			l.t.syms = append(l.t.syms, s)
		} else {
			l.keep(s)
		}
	}
	if l.only == nil || l.space != Offsets {
		for i := range t.offs {
			add(i)
		}
		return
	}
	last := -1
	for _, off := range l.only {
		if addr, ok := f.Address(off); ok {
			if i, ok := t.Find(addr); ok && i != last {
				add(i)
				last = i
			}
		}
	}
}
