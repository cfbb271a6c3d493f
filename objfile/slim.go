package objfile

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/perfark/perfark/dwarf"
)

// ErrNotSlim says that a file cannot be made slim: it has no section headers
// to tell what is in it, or is compressed.
var ErrNotSlim = errors.New("cannot be made slim")

// A slim file is one of which only those parts are there that a profile needs.
// The rest is zeros: headers, offsets and Build ID are those of the original.
// It carries a mark in bytes of the ELF header that are kept for later use and
// that no reader looks at: the last of e_ident.
const (
	slimHash   = 9
	slimOffset = 12
	slimMark   = "slim"
)

// slimPatch marks a slim file of which the parts in keep are there: with a hash
// of keep, so that copies made for other profiles begin with other bytes, and
// the mark itself.
func slimPatch(keep []Span) Patch {
	h := fnv.New32a()
	for _, s := range keep {
		var b [16]byte
		binary.LittleEndian.PutUint64(b[:], uint64(s.Start))
		binary.LittleEndian.PutUint64(b[8:], uint64(s.End))
		h.Write(b[:])
	}
	sum := h.Sum(nil)
	return Patch{Off: slimHash, Data: append(sum[:slimOffset-slimHash:slimOffset-slimHash], slimMark...)}
}

// IsSlim reports whether the file is a slim copy: what it does not name may
// have been left out.
func (f *File) IsSlim() bool { return f.slim }

// A Span is a part of a file, in bytes from its beginning.
type Span struct{ Start, End int64 }

// SlimOptions says what a profile needs of a file.
type SlimOptions struct {
	// Code are the parts of the code to keep. AllCode keeps all of it.
	Code    []Span
	AllCode bool

	// Addrs are the addresses that are asked about, as the debug information
	// has them. All of it is kept if AllDebug is set.
	Addrs    []uint64
	AllDebug bool

	// Again makes a slim copy of a slim copy too.
	Again bool

	// More is kept as well where it lies in memory: what was read of data.
	More []Span
}

// A Slimming says what a slim copy consists of: parts of the file, zeros
// elsewhere, and then the patches over both.
type Slimming struct {
	Keep    []Span // in order, apart from each other
	Patches []Patch
}

// A Patch is bytes that stand in a slim copy in place of others.
type Patch struct {
	Off    int64
	Data   []byte
	Repeat int64 // how often Data stands there, one behind the other; 0 means once
}

// Size returns how many bytes a patch covers.
func (p *Patch) Size() int64 { return int64(len(p.Data)) * max(p.Repeat, 1) }

// ReadAt is that of a copy of r, which has size bytes, made as z says. Of what
// is not kept nothing is read.
func (z *Slimming) ReadAt(r io.ReaderAt, size int64, b []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fs.ErrInvalid
	}
	if off >= size {
		return 0, io.EOF
	}
	short := int64(len(b)) > size-off
	if short {
		b = b[:size-off]
	}
	end := off + int64(len(b))
	i, _ := slices.BinarySearchFunc(z.Keep, off, func(s Span, off int64) int {
		if s.End <= off {
			return -1
		}
		return 1
	})
	at := off
	for ; i < len(z.Keep) && z.Keep[i].Start < end; i++ {
		lo, hi := max(z.Keep[i].Start, at), min(z.Keep[i].End, end)
		clear(b[at-off : lo-off])
		if n, err := r.ReadAt(b[lo-off:hi-off], lo); int64(n) < hi-lo {
			return int(lo-off) + n, err
		}
		at = hi
	}
	clear(b[at-off:])
	for i := range z.Patches {
		z.Patches[i].apply(b, off)
	}
	if short {
		return len(b), io.EOF
	}
	return len(b), nil
}

// apply writes the patch into b, which is the file from off on.
func (p *Patch) apply(b []byte, off int64) {
	lo, hi := max(p.Off, off), min(p.Off+p.Size(), off+int64(len(b)))
	for at := lo; at < hi; {
		from := (at - p.Off) % int64(len(p.Data))
		at += int64(copy(b[at-off:hi-off], p.Data[from:]))
	}
}

// Slim returns what a slim copy of a file consists of: headers, notes, symbols,
// what unwinding needs, debug information of the units that were hit, and the
// code that o names. The error is ErrNotSlim if there is no telling.
func (f *File) Slim(o SlimOptions) (*Slimming, error) {
	switch {
	case len(f.sections) == 0:
		return nil, fmt.Errorf("%s: %w: no section headers", f.name, ErrNotSlim)
	case f.slim && !o.Again:
		return nil, fmt.Errorf("%s: %w: it is slim already", f.name, ErrNotSlim)
	}
	s := slimmer{f: f, o: o}
	if err := s.headers(); err != nil {
		return nil, err
	}
	for i := range f.sections {
		if err := s.section(i); err != nil {
			return nil, err
		}
	}
	for _, p := range f.segments {
		if p.typ == ptNote || p.typ == ptDynamic || p.typ == ptInterp {
			s.keep(p.off, p.filesz)
		}
	}
	confused := f.confusesPerf()
	for _, x := range o.Code {
		if x.Start < 0 || x.End <= x.Start {
			continue
		}
		s.keep(uint64(x.Start), uint64(x.End-x.Start))
		if off, ok := f.offsetOf(uint64(x.Start)); confused && ok {
			s.keep(off, uint64(x.End-x.Start))
		}
	}
	s.more()
	z := &Slimming{Keep: merge(s.spans), Patches: s.patches}
	z.Patches = append(z.Patches, slimPatch(z.Keep))
	return z, nil
}

const ptInterp = 3

// A slimmer collects what is kept.
type slimmer struct {
	f     *File
	o     SlimOptions
	spans []Span

	patches []Patch
}

// keep keeps n bytes at off, as far as they are in the file.
func (s *slimmer) keep(off, n uint64) {
	size := uint64(s.f.size)
	if off >= size || n == 0 {
		return
	}
	s.spans = append(s.spans, Span{int64(off), int64(off + min(n, size-off))})
}

// confusesPerf reports whether perf annotate takes offsets for addresses in
// the file, as it does where .text has one that is the other. Code elsewhere is
// then shown from the wrong place; it is to be shown all the same.
func (f *File) confusesPerf() bool {
	x := f.section(".text")
	return f.typ == TypeDyn && x != nil && x.addr == x.off
}

// offsetOf returns where in the file an address is; ok is false if nowhere.
func (f *File) offsetOf(addr uint64) (off uint64, ok bool) {
	p, ok := f.load(addr)
	if !ok || addr-p.vaddr >= p.filesz {
		return 0, false
	}
	return addr - p.vaddr + p.off, true
}

// more keeps what o.More has in common with sections in memory.
func (s *slimmer) more() {
	for i := range s.f.sections {
		x := &s.f.sections[i]
		if x.flags&shfAlloc == 0 || x.typ == shtNobits || x.size > uint64(s.f.size) || x.off > uint64(s.f.size)-x.size {
			continue
		}
		for _, m := range s.o.More {
			if lo, hi := max(m.Start, int64(x.off)), min(m.End, int64(x.off+x.size)); lo < hi {
				s.keep(uint64(lo), uint64(hi-lo))
			}
		}
	}
}

// headers keeps the ELF header and the two tables.
func (s *slimmer) headers() error {
	f := s.f
	b, err := f.read(0, uint64(f.ehsize), "e_ident")
	if err != nil {
		return err
	}
	order := f.order()
	half := func(back int64) uint64 { return uint64(order.Uint16(b[f.ehsize-back:])) }
	var phoff, shoff uint64
	if f.class == 64 {
		phoff, shoff = order.Uint64(b[32:]), order.Uint64(b[40:])
	} else {
		phoff, shoff = uint64(order.Uint32(b[28:])), uint64(order.Uint32(b[32:]))
	}
	s.keep(0, uint64(f.ehsize))
	s.keep(phoff, half(10)*uint64(len(f.segments)))
	s.keep(shoff, half(6)*uint64(len(f.sections)))
	return nil
}

// section keeps what is needed of a section.
func (s *slimmer) section(i int) error {
	x := &s.f.sections[i]
	switch x.typ {
	case 0, shtNobits:
		return nil
	case shtRela, shtRel:
		s.relocations(x)
		return nil
	case shtProgbits:
	case shtInitArray, shtFiniArray, shtPreinitArray:
		return nil
	default: // symbols, strings, notes, hashes, versions, groups, and what machines have for unwinding
		s.keep(x.off, x.size)
		return nil
	}
	switch {
	case (x.name == ".debug_info" || x.name == ".zdebug_info") && !s.o.AllDebug && s.f.typ != TypeRel:
		s.thin(x, s.info)
	case x.name == ".debug_loclists" && s.f.typ != TypeRel:
		s.thin(x, s.listTables)
	case x.name == ".gdb_index" && x.size >= 4:
		// One of a later version than it knows gdb passes over without a word.
		s.patches = append(s.patches, Patch{Off: int64(x.off), Data: []byte("\xff\xff\xff\x7f")})
	case droppedDebug(x.name) && s.f.typ != TypeRel:
		s.thin(x, func(uint64, func(off, n uint64) []byte) ([]Span, bool) { return nil, true })
	case isPLT(x.name), s.o.AllCode && x.flags&shfExec != 0, keptSection(x.name), x.flags&shfAlloc == 0 && keptUnloaded(x):
		s.keep(x.off, x.size)
	}
	return nil
}

// Section types that hold addresses of functions.
const (
	shtInitArray    = 14
	shtFiniArray    = 15
	shtPreinitArray = 16
)

// droppedDebug reports whether a section holds debug information that neither
// lines nor inlined functions nor unwinding need: where variables are, macros,
// indexes of names.
func droppedDebug(name string) bool {
	switch strings.TrimSuffix(strings.Replace(name, ".zdebug_", ".debug_", 1), ".dwo") {
	case ".debug_loc", ".debug_loclists", ".debug_macro", ".debug_macinfo", ".debug_pubnames", ".debug_pubtypes",
		".debug_gnu_pubnames", ".debug_gnu_pubtypes", ".gdb_index":
		return true
	}
	return false
}

// isPLT reports whether a section holds stubs that call functions of other
// objects.
func isPLT(name string) bool {
	return name == ".plt" || strings.HasPrefix(name, ".plt.") || name == ".iplt" || name == ".glink" || name == ".MIPS.stubs"
}

// keptSection reports whether a section in memory is kept: what unwinders
// read, the functions of Go programs, what names a kernel module.
func keptSection(name string) bool {
	switch name {
	case ".eh_frame", ".eh_frame_hdr", ".debug_frame", ".ARM.exidx", ".ARM.extab", ".sframe", ".opd", ".interp", ".dynamic", ".init", ".fini",
		".gopclntab", ".data.rel.ro.gopclntab", ".go.buildinfo", ".gnu.linkonce.this_module", ".modinfo":
		return true
	}
	return strings.HasPrefix(name, ".note") || strings.HasPrefix(name, ".gnu_debug")
}

// maxUnknown is the size up to which sections are kept whose use is not known,
// in bytes: .comment and the like.
const maxUnknown = 4 << 10

// keptUnloaded reports whether a section that is not in memory is kept.
func keptUnloaded(x *section) bool {
	return strings.HasPrefix(x.name, ".debug_") || strings.HasPrefix(x.name, ".zdebug_") || strings.HasPrefix(x.name, ".gnu") || x.size <= maxUnknown
}

// relocations keeps those that name stubs, and those of debug information in
// relocatable files. Relative ones, which stand in front, name nothing; zeros
// in their place are relocations that do nothing.
func (s *slimmer) relocations(x *section) {
	f := s.f
	if x.flags&shfAlloc == 0 {
		if to := int(x.info); f.typ == TypeRel && to < len(f.sections) && f.sections[to].flags&shfAlloc == 0 {
			s.keep(x.off, x.size)
		}
		return
	}
	skip := uint64(0)
	if strings.HasSuffix(x.name, ".dyn") {
		skip = f.relativePrefix(x)
	}
	s.keep(x.off+skip, x.size-skip)
}

// relativePrefix returns how many bytes of a table of relocations, from its
// beginning on, are relocations without a symbol.
func (f *File) relativePrefix(x *section) uint64 {
	size := uint64(8)
	if f.class == 64 {
		size = 16
	}
	if x.typ == shtRela {
		size += size / 2
	}
	if x.size > uint64(f.size) || x.off > uint64(f.size)-x.size || f.machine == MachineMIPS {
		return 0
	}
	word := size / 2
	if x.typ == shtRela {
		word = size / 3
	}
	buf := make([]byte, size*4096)
	for at := uint64(0); at+size <= x.size; {
		n := min(uint64(len(buf)), (x.size-at)/size*size)
		k, _ := f.r.ReadAt(buf[:n], int64(x.off+at))
		if uint64(k) < n {
			return at
		}
		for b := buf[:n]; len(b) > 0; b = b[size:] {
			if f.relocationSymbol(b[word:2*word]) != 0 {
				return at
			}
			at += size
		}
	}
	return x.size
}

// relocationSymbol returns the symbol in r_info.
func (f *File) relocationSymbol(info []byte) uint64 {
	order := f.order()
	if f.class == 64 {
		return order.Uint64(info) >> 32
	}
	return uint64(order.Uint32(info) >> 8)
}

// info returns what of .debug_info the addresses need.
func (s *slimmer) info(uint64, func(off, n uint64) []byte) ([]Span, bool) {
	d, err := s.f.DWARF(DWARFOptions{Alt: func() (*dwarf.Data, error) { return nil, dwarf.ErrNoInfo }})
	if err != nil {
		return nil, false
	}
	pieces, err := d.Needed(s.o.Addrs)
	if err != nil {
		return nil, false
	}
	var out []Span
	for _, p := range pieces {
		out = append(out, Span{int64(p.Start), int64(p.End)})
	}
	return out, true
}

// listTables returns the headers and offsets of the tables in .debug_loclists:
// zeros behind them are lists that end at once.
//
// Source: DWARF 5, section 7.29.
func (s *slimmer) listTables(size uint64, read func(off, n uint64) []byte) ([]Span, bool) {
	var out []Span
	order := s.f.order()
	for at := uint64(0); at < size; {
		h := read(at, min(20, size-at))
		if len(h) < 12 {
			return nil, false
		}
		n, head, width := uint64(order.Uint32(h)), uint64(12), uint64(4)
		begin := uint64(4)
		if n == 0xffffffff {
			if len(h) < 20 {
				return nil, false
			}
			n, head, width, begin = order.Uint64(h[4:]), 20, 8, 12
		}
		if n < head-begin || n > size-at-begin || len(out) >= maxHeaders {
			return nil, false
		}
		count := uint64(order.Uint32(h[head-4:]))
		if count*width > n-(head-begin) {
			return nil, false
		}
		out = append(out, Span{int64(at), int64(at + head + count*width)})
		at += begin + n
	}
	return out, true
}

// CodeSpans returns where the code is in a file.
func (f *File) CodeSpans() []Span {
	var out []Span
	for i := range f.sections {
		x := &f.sections[i]
		if x.flags&(shfAlloc|shfExec) == shfAlloc|shfExec && x.typ != shtNobits && x.off < uint64(f.size) {
			out = append(out, Span{int64(x.off), int64(x.off + min(x.size, uint64(f.size)-x.off))})
		}
	}
	return merge(out)
}

// merge sorts spans and joins those that touch.
func merge(spans []Span) []Span {
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End)) })
	var out []Span
	for _, x := range spans {
		if n := len(out); n > 0 && x.Start <= out[n-1].End {
			out[n-1].End = max(out[n-1].End, x.End)
			continue
		}
		out = append(out, x)
	}
	return out
}
