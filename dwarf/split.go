package dwarf

import (
	"fmt"
	"sync"
)

// A dwpIndex is the index of a .dwp file: which parts of its sections belong to
// a unit. It is empty in a .dwo file.
type dwpIndex struct {
	once  sync.Once
	err   error
	units map[uint64]contributions
}

// contributions are the parts of the sections of a .dwp file that belong to
// one unit, by DW_SECT_….
type contributions [9]struct{ off, size uint32 }

// Sections in the index. Source: DWARF 5, section 7.3.5.3; for version 2 of the
// GNU extension, https://gcc.gnu.org/wiki/DebugFissionDWP.
const (
	sectInfo       = 1
	sectAbbrev     = 3
	sectStrOffsets = 6
	sectRnglists   = 8 // in version 5 only
)

// splitFor returns the unit of a .dwo or .dwp file that belongs to a skeleton:
// that of the same id.
func (d *Data) splitFor(skel *unit) (*unit, error) {
	x := &d.dwp
	x.once.Do(func() { x.err = d.readDwpIndex() })
	if x.err != nil {
		return nil, x.err
	}
	if x.units != nil {
		return d.splitPacked(skel)
	}
	if err := d.index(); err != nil {
		return nil, err
	}
	for i := range d.heads {
		h := &d.heads[i]
		if h.version >= 5 && (h.kind != utSplitCompile || h.dwoID != skel.dwoID) {
			continue
		}
		s := h.unit(d)
		s.skel = skel
		if err := s.root(); err != nil {
			return nil, err
		}
		if s.tag == tagCompileUnit && s.dwoID == skel.dwoID {
			return s, nil
		}
	}
	return nil, fmt.Errorf("no unit in it has the id %016x", skel.dwoID)
}

// splitPacked is splitFor for a .dwp file.
func (d *Data) splitPacked(skel *unit) (*unit, error) {
	parts, ok := d.dwp.units[skel.dwoID]
	if !ok {
		return nil, fmt.Errorf("no unit in it has the id %016x", skel.dwoID)
	}
	info := parts[sectInfo]
	h := unitHead{off: uint64(info.off)}
	end := uint64(info.off) + uint64(info.size)
	if size, _ := d.secs[secInfo].size(); end > uint64(size) {
		return nil, fmt.Errorf("unit %016x: it ends at %#x of %#x bytes", skel.dwoID, end, size)
	}
	if err := d.secs[secInfo].parse(d.opt.Big, h.off, min(end, h.off+maxHead), func(r *reader) { h.read(r, end) }); err != nil {
		return nil, fmt.Errorf("unit %016x: %w", skel.dwoID, err)
	}
	s := h.unit(d)
	s.infoBase, s.skel = h.off, skel
	a := parts[sectAbbrev]
	s.abbrevEnd = uint64(a.off) + uint64(a.size)
	s.abbrevOff += uint64(a.off)
	s.strBase = uint64(parts[sectStrOffsets].off)
	if s.version >= 5 {
		s.rngBase = uint64(parts[sectRnglists].off)
		s.rngPart = s.rngBase
	}
	if err := s.root(); err != nil {
		return nil, fmt.Errorf("unit %016x: %w", skel.dwoID, err)
	}
	if s.dwoID != skel.dwoID {
		return nil, fmt.Errorf("unit %016x: its own id is %016x", skel.dwoID, s.dwoID)
	}
	return s, nil
}

// readDwpIndex reads .debug_cu_index, which is a hash table. It is read as a
// list: how a hostile file fills the table does not matter then.
func (d *Data) readDwpIndex() error {
	b, err := d.secs[secCuIndex].all()
	if err != nil || len(b) == 0 {
		return err
	}
	r := reader{b: b, big: d.opt.Big}
	version := r.u32()
	if version != 2 {
		// Version 5 has two bytes of it, and two of padding.
		r.p = 0
		version = uint32(r.u16())
		r.u16()
	}
	columns, units, slots := uint64(r.u32()), uint64(r.u32()), uint64(r.u32())
	left := uint64(len(r.b) - r.p)
	switch {
	case r.bad || version != 2 && version != 5:
		return fmt.Errorf("%s: version %d, want 2 or 5", d.secs[secCuIndex].name, version)
	case slots > left/12 || columns > 64 || columns > 0 && units > (left-slots*12)/(8*columns):
		return fmt.Errorf("%s: %d slots, %d units of %d sections, but %d bytes follow", d.secs[secCuIndex].name, slots, units, columns, left)
	}
	ids, rows := reader{b: r.bytes(slots * 8), big: r.big}, reader{b: r.bytes(slots * 4), big: r.big}
	sects := make([]uint32, columns)
	for i := range sects {
		sects[i] = r.u32()
	}
	offs, sizes := r.bytes(units*columns*4), r.bytes(units*columns*4)
	if err := d.opt.Budget.Alloc(int64(slots*100), "dwarf: index of the .dwp file"); err != nil {
		return err
	}
	d.dwp.units = map[uint64]contributions{}
	for range slots {
		id, row := ids.u64(), uint64(rows.u32())
		if row == 0 || row > units || r.bad {
			continue
		}
		var c contributions
		for i, sect := range sects {
			if sect >= uint32(len(c)) || version == 2 && sect == sectRnglists {
				continue
			}
			at := ((row-1)*columns + uint64(i)) * 4
			o, z := reader{b: offs[at : at+4], big: r.big}, reader{b: sizes[at : at+4], big: r.big}
			c[sect].off, c[sect].size = o.u32(), z.u32()
		}
		d.dwp.units[id] = c
	}
	return nil
}
