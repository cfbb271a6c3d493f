package unwind

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/objfile"
)

// A Module is the call frame information of one binary. It is safe for
// concurrent use.
type Module struct {
	name    string
	machine objfile.Machine
	big     bool
	wide    bool // addresses of 64 bits
	budget  *decode.Budget
	spaces  []space
	entries []entry // by start
	file    *objfile.File
}

// A space is a section of call frame information.
type space struct {
	data []byte
	addr uint64 // of data[0]
	eh   bool   // .eh_frame; else .debug_frame
	text uint64 // what textrel and datarel addresses are relative to
	got  uint64
}

// An entry is an FDE: the code from start to end, described at off of a space.
type entry struct {
	start, end uint64
	off        uint32
	space      uint8
}

// maxFrames is the size of the largest section that is read, in bytes.
const maxFrames = 1 << 30

// NewModule reads what the binary f has: .eh_frame, and .debug_frame of f or
// else of debug, its separate debug file, which may be nil. A binary without
// either gives a Module without rules. The error is that of a section that
// cannot be read; entries that make no sense are left out.
func NewModule(f, debug *objfile.File, b *decode.Budget) (*Module, error) {
	m := &Module{name: f.Name(), machine: f.Machine(), big: f.Big(), wide: f.Class() == 64, budget: b, file: f}
	var first error
	for _, s := range []struct {
		f    *objfile.File
		name string
		eh   bool
	}{{f, ".eh_frame", true}, {f, ".debug_frame", false}, {debug, ".debug_frame", false}} {
		if s.f == nil || s.f == debug && len(m.spaces) > 0 && !m.spaces[len(m.spaces)-1].eh {
			continue
		}
		data, err := s.f.Section(s.name)
		if err != nil {
			first = errors.Join(first, err)
			continue
		}
		if len(data) == 0 || len(data) > maxFrames {
			continue
		}
		addr, _ := s.f.SectionAddr(s.name)
		text, _ := s.f.SectionAddr(".text")
		got, _ := s.f.SectionAddr(".got")
		m.spaces = append(m.spaces, space{data: data, addr: addr, eh: s.eh, text: text, got: got})
		if err := m.index(len(m.spaces) - 1); err != nil {
			first = errors.Join(first, fmt.Errorf("%s: section %s: %w", m.name, s.name, err))
		}
	}
	slices.SortStableFunc(m.entries, func(a, b entry) int {
		switch {
		case a.start < b.start:
			return -1
		case a.start > b.start:
			return 1
		}
		return 0
	})
	return m, first
}

// Empty reports whether there are no rules at all.
func (m *Module) Empty() bool { return len(m.entries) == 0 }

// find returns the entry of the code at pc. Of several, which only a broken
// file has, the one that begins last.
func (m *Module) find(pc uint64) *entry {
	i, _ := slices.BinarySearchFunc(m.entries, pc, func(e entry, pc uint64) int {
		if e.start <= pc {
			return -1
		}
		return 1
	})
	if i == 0 || pc >= m.entries[i-1].end {
		return nil
	}
	return &m.entries[i-1]
}

// A cie is what FDEs have in common.
type cie struct {
	codeAlign uint64
	dataAlign int64
	ra        uint64
	fde       byte // encoding of the addresses of FDEs
	augmented bool // FDEs have data of their own, behind a length
	signal    bool // the frame was entered by a signal: its caller's PC is exact
	bkey      bool
	addrSize  int
	program   []byte
}

// index lists the FDEs of a space.
func (m *Module) index(n int) error {
	s := &m.spaces[n]
	cies := map[uint64]*cie{}
	r := reader{data: s.data, big: m.big}
	for r.pos < len(r.data) {
		off := r.pos
		rec, ok := m.record(s, uint64(off))
		if !ok {
			if rec.next <= off {
				break // the terminator, or nothing that makes sense
			}
			r.pos = rec.next
			continue
		}
		r.pos = rec.next
		if rec.cie {
			continue
		}
		c := cies[rec.ciePos]
		if c == nil {
			if err := m.budget.Alloc(128, "call frame information"); err != nil {
				return err
			}
			c = m.cie(s, rec.ciePos)
			cies[rec.ciePos] = c
		}
		start, size, ok := m.extent(s, c, rec)
		if !ok || size == 0 || start+size < start {
			continue
		}
		if uint64(off) > 1<<32-1 {
			break
		}
		if len(m.entries)&1023 == 0 {
			if err := m.budget.Alloc(1024*24, "call frame information"); err != nil {
				return err
			}
		}
		m.entries = append(m.entries, entry{start: start, end: start + size, off: uint32(off), space: uint8(n)})
	}
	return nil
}

// A record is a CIE or an FDE in a space.
type record struct {
	cie        bool
	ciePos     uint64 // where its CIE is
	body, next int    // behind the CIE pointer; behind the record
	offset64   bool
}

// record reads the header of the record at off. It returns false for what is
// neither a CIE nor an FDE; next is behind it if there is more to read.
func (m *Module) record(s *space, off uint64) (record, bool) {
	r := reader{data: s.data, pos: int(off), big: m.big}
	var rec record
	n := uint64(r.u32())
	if n == 0xffffffff {
		rec.offset64 = true
		n = r.u64()
	}
	if r.bad || n == 0 && !s.eh || n > uint64(len(s.data)-r.pos) {
		return rec, false
	}
	if n == 0 {
		// A terminator; the linker leaves those of the parts it joined.
		rec.next = r.pos
		return rec, false
	}
	rec.next = r.pos + int(n)
	at := uint64(r.pos)
	var id uint64
	if rec.offset64 && !s.eh {
		id = r.u64()
	} else {
		id = uint64(r.u32())
	}
	rec.body = r.pos
	if r.bad || r.pos > rec.next {
		return rec, false
	}
	switch {
	case s.eh && id == 0, !s.eh && (id == 0xffffffff && !rec.offset64 || id == 1<<64-1):
		rec.cie = true
	case s.eh:
		if id > at {
			return rec, false
		}
		rec.ciePos = at - id
	default:
		rec.ciePos = id
	}
	return rec, true
}

// cie reads the CIE at off; nil if it makes no sense.
func (m *Module) cie(s *space, off uint64) *cie {
	if off >= uint64(len(s.data)) {
		return nil
	}
	rec, ok := m.record(s, off)
	if !ok || !rec.cie {
		return nil
	}
	r := reader{data: s.data[:rec.next], pos: rec.body, big: m.big}
	c := &cie{addrSize: 4}
	if m.wide {
		c.addrSize = 8
	}
	version := r.u8()
	aug := r.cstring()
	switch {
	case version != 1 && version != 3 && version != 4:
		return nil
	case version == 4:
		c.addrSize = int(r.u8())
		if seg := r.u8(); seg != 0 || c.addrSize != 4 && c.addrSize != 8 {
			return nil
		}
	}
	if len(aug) >= 2 && aug[:2] == "eh" {
		r.skip(c.addrSize)
		aug = aug[2:]
	}
	c.codeAlign = r.uleb()
	c.dataAlign = r.sleb()
	if version == 1 {
		c.ra = uint64(r.u8())
	} else {
		c.ra = r.uleb()
	}
	if len(aug) > 0 && aug[0] == 'z' {
		c.augmented = true
		n := r.uleb()
		if r.bad || n > uint64(len(r.data)-r.pos) {
			return nil
		}
		end := r.pos + int(n)
		if !c.augment(&r, aug[1:]) {
			return nil
		}
		r.pos = end
	} else if aug != "" {
		return nil // data of an unknown length
	}
	if r.bad || c.ra >= maxRegs {
		return nil
	}
	c.program = r.data[r.pos:]
	return c
}

// augment reads the data that the letters of an augmentation announce.
func (c *cie) augment(r *reader, letters string) bool {
	for i := 0; i < len(letters); i++ {
		switch letters[i] {
		case 'R':
			c.fde = r.u8()
		case 'P':
			r.skipEncoded(r.u8(), c.addrSize)
		case 'L':
			r.u8()
		case 'S':
			c.signal = true
		case 'B':
			c.bkey = true
		case 'G': // memory tagging of the frame
		default:
			return true // the rest is skipped by the length
		}
	}
	return !r.bad
}

// extent returns the code that an FDE describes.
func (m *Module) extent(s *space, c *cie, rec record) (start, size uint64, ok bool) {
	if c == nil {
		return 0, 0, false
	}
	r := reader{data: s.data[:rec.next], pos: rec.body, big: m.big}
	enc := c.fde
	start, ok = r.encoded(enc, c.addrSize, s)
	if !ok {
		return 0, 0, false
	}
	size, ok = r.encoded(enc&0x0f, c.addrSize, s)
	return start, size, ok && !r.bad
}

// program returns the CIE of an FDE, and its instructions.
func (m *Module) program(e *entry) (*cie, []byte, bool) {
	s := &m.spaces[e.space]
	rec, ok := m.record(s, uint64(e.off))
	if !ok || rec.cie {
		return nil, nil, false
	}
	c := m.cie(s, rec.ciePos)
	if c == nil {
		return nil, nil, false
	}
	r := reader{data: s.data[:rec.next], pos: rec.body, big: m.big}
	if _, ok := r.encoded(c.fde, c.addrSize, s); !ok {
		return nil, nil, false
	}
	r.encoded(c.fde&0x0f, c.addrSize, s)
	if c.augmented {
		r.skip64(r.uleb())
	}
	if r.bad {
		return nil, nil, false
	}
	return c, r.data[r.pos:], true
}

// A reader reads from data. Behind its end it reads zeros and is bad.
type reader struct {
	data []byte
	pos  int
	big  bool
	bad  bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.data)-r.pos {
		r.bad = true
		r.pos = len(r.data)
		return nil
	}
	b := r.data[r.pos : r.pos+n]
	r.pos += n
	return b
}

func (r *reader) skip(n int) { r.take(n) }

func (r *reader) skip64(n uint64) {
	if n > uint64(len(r.data)-r.pos) {
		r.bad = true
		return
	}
	r.pos += int(n)
}

func (r *reader) order() binary.ByteOrder {
	if r.big {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

func (r *reader) u8() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	if b := r.take(2); b != nil {
		return r.order().Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return r.order().Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return r.order().Uint64(b)
	}
	return 0
}

func (r *reader) word(size int) uint64 {
	if size == 4 {
		return uint64(r.u32())
	}
	return r.u64()
}

func (r *reader) uleb() uint64 {
	var v uint64
	for shift := uint(0); ; shift += 7 {
		b := r.u8()
		if shift < 64 {
			v |= uint64(b&0x7f) << shift
		}
		if b&0x80 == 0 || r.bad {
			return v
		}
	}
}

func (r *reader) sleb() int64 {
	var v int64
	for shift := uint(0); ; {
		b := r.u8()
		if shift < 64 {
			v |= int64(b&0x7f) << shift
		}
		shift += 7
		if b&0x80 == 0 || r.bad {
			if b&0x40 != 0 && shift < 64 {
				v |= -1 << shift
			}
			return v
		}
	}
}

func (r *reader) cstring() string {
	for i := r.pos; i < len(r.data); i++ {
		if r.data[i] == 0 {
			s := string(r.data[r.pos:min(i, r.pos+64)])
			r.pos = i + 1
			return s
		}
	}
	r.bad = true
	return ""
}

// Encodings of pointers (LSB, "DWARF Extensions").
const (
	encAbsptr  = 0x00
	encUleb    = 0x01
	encUdata2  = 0x02
	encUdata4  = 0x03
	encUdata8  = 0x04
	encSleb    = 0x09
	encSdata2  = 0x0a
	encSdata4  = 0x0b
	encSdata8  = 0x0c
	encPcrel   = 0x10
	encTextrel = 0x20
	encDatarel = 0x30
	encFuncrel = 0x40
	encOmit    = 0xff
)

// encoded reads a pointer. Those that are to be fetched from memory are not
// for us: nobody encodes code that way.
func (r *reader) encoded(enc byte, addrSize int, s *space) (uint64, bool) {
	if enc == encOmit || enc&0x80 != 0 {
		return 0, false
	}
	at := s.addr + uint64(r.pos)
	var v uint64
	switch enc & 0x0f {
	case encAbsptr:
		v = r.word(addrSize)
	case encUleb:
		v = r.uleb()
	case encUdata2:
		v = uint64(r.u16())
	case encUdata4:
		v = uint64(r.u32())
	case encUdata8, encSdata8:
		v = r.u64()
	case encSleb:
		v = uint64(r.sleb())
	case encSdata2:
		v = uint64(int64(int16(r.u16())))
	case encSdata4:
		v = uint64(int64(int32(r.u32())))
	default:
		return 0, false
	}
	switch enc & 0x70 {
	case 0:
	case encPcrel:
		v += at
	case encTextrel:
		v += s.text
	case encDatarel:
		v += s.got
	default:
		return 0, false
	}
	if addrSize == 4 {
		v = uint64(uint32(v))
	}
	return v, !r.bad
}

func (r *reader) skipEncoded(enc byte, addrSize int) {
	if enc != encOmit {
		r.encoded(enc&0x0f, addrSize, &space{})
	}
}
