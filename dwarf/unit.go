package dwarf

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/perfark/perfark/internal/decode"
)

// A unitHead is the header of a unit. There may be millions, so it is small.
type unitHead struct {
	off, end  uint64 // of all of it, in .debug_info
	die       uint64 // of its first entry, in .debug_info
	abbrevOff uint64
	dwoID     uint64
	version   uint8
	kind      uint8 // DW_UT_…
	addrSize  uint8
	is64      bool
}

// A unit is a unit of .debug_info: its header and what its first entry says.
type unit struct {
	d        *Data
	off, end uint64 // of all of it, in .debug_info
	die      uint64 // of its first entry, in .debug_info
	layout
	kind      uint8 // DW_UT_…
	abbrevOff uint64
	abbrevEnd uint64
	dwoID     uint64

	rootOnce sync.Once
	rootErr  error
	tag      uint16
	lang     uint16
	hasLine  bool
	line     uint64 // of its line program, in .debug_line
	low      uint64 // base of its range lists
	addrBase uint64
	strBase  uint64
	rngBase  uint64 // of the offsets of .debug_rnglists; of GNU: of .debug_ranges
	rngPart  uint64 // of its range lists: not 0 in a .dwp file
	infoBase uint64 // what references between units count from: not 0 in a .dwp file
	lineBase uint64
	ranges   []addrRange // of its code
	rngErr   error
	compDir  string
	dwoName  string

	tableOnce sync.Once
	tableErr  error
	table     *abbrevTable // after open

	skel *unit // of a split unit, the one in the main file

	splitOnce sync.Once
	split     *unit // of a skeleton, the unit with the functions; nil if it was not found

	mu   sync.Mutex
	code atomic.Pointer[unitCode]

	lineMu     sync.Mutex
	lines      atomic.Pointer[lineTable]
	badLine    bool
	lineShared bool // the program was counted, see Data.share

	used atomic.Int64 // when it was asked for, see unitCache
	gone atomic.Bool  // it was dropped from the cache: what it reads again is not counted, see Data.share
}

// A unitRange is code of a unit.
type unitRange struct {
	lo, hi uint64
	maxHi  uint64 // the greatest hi up to here
	u      int32  // index in Data.heads
}

// index reads the headers of all units, and finds out where their code is.
func (d *Data) index() error {
	d.indexOnce.Do(func() {
		d.indexErr = d.readUnits()
		if d.indexErr != nil {
			d.indexErr = fmt.Errorf("%s: %w", d.opt.Name, d.indexErr)
		}
		sortRanges(d.ranges)
	})
	return d.indexErr
}

// readUnits reads the headers of the units, one after the other, and of each
// where its code is: .debug_info is passed over once. What follows a header that
// makes no sense is lost.
func (d *Data) readUnits() error {
	var placed []*unit // by unit
	size, err := d.secs[secInfo].size()
	if err != nil {
		return err
	}
	for off := uint64(0); off < uint64(size); {
		h := unitHead{off: off}
		err := d.secs[secInfo].parse(d.opt.Big, off, off+maxHead, func(r *reader) { h.read(r, uint64(size)) })
		if h.end <= off {
			d.warn("%s: unit at %#x: %v", d.secs[secInfo].name, off, err)
			if len(d.heads) == 0 {
				return err
			}
			break
		}
		off = h.end
		if err != nil {
			d.warn("%s: unit at %#x: %v", d.secs[secInfo].name, h.off, err)
			continue
		}
		if err := d.opt.Budget.Alloc(56, "dwarf: units"); err != nil {
			return err
		}
		d.heads = append(d.heads, h)
		placed = append(placed, d.place(int32(len(d.heads)-1)))
	}
	d.opened = make([]atomic.Pointer[unit], len(d.heads))
	for i, u := range placed {
		if u != nil {
			d.opened[i].Store(u)
		}
	}
	return d.secs[secInfo].check()
}

// maxHead is how many bytes are read to see a unit's header: the longest is
// 64-bit DWARF 5, with a type signature.
const maxHead = 12 + 2 + 1 + 1 + 8 + 8 + 8

// read reads a unit's header. It sets end as soon as the next unit can be
// found.
func (h *unitHead) read(r *reader, size uint64) {
	var n uint64
	n, h.is64 = r.length()
	start := h.off + uint64(r.p)
	if r.bad {
		return
	}
	if n > size-start || n == 0 {
		r.fail("length %#x, but %#x bytes follow", n, size-start)
		return
	}
	h.end = start + n
	version := r.u16()
	if version < 2 || version > 5 {
		r.fail("version %d, want 2 to 5", version)
		return
	}
	h.version, h.kind = uint8(version), utCompile
	if version >= 5 {
		h.kind, h.addrSize, h.abbrevOff = r.u8(), r.u8(), r.offset(h.is64)
		switch h.kind {
		case utSkeleton, utSplitCompile:
			h.dwoID = r.u64()
		case utType, utSplitType:
			r.skip(8)
			r.offset(h.is64)
		}
	} else {
		h.abbrevOff, h.addrSize = r.offset(h.is64), r.u8()
	}
	if h.addrSize != 4 && h.addrSize != 8 && h.addrSize != 2 {
		r.fail("addresses of %d bytes", h.addrSize)
	}
	if h.die = h.off + uint64(r.p); h.die >= h.end {
		r.fail("header of %d bytes in a unit of %d", h.die-h.off, h.end-h.off)
	}
}

// unit returns a unit of which nothing is read yet but the header.
func (h *unitHead) unit(d *Data) *unit {
	return &unit{
		d: d, off: h.off, end: h.end, die: h.die, kind: h.kind, abbrevOff: h.abbrevOff, abbrevEnd: 1 << 62, dwoID: h.dwoID,
		layout: layout{version: int(h.version), addrSize: int(h.addrSize), is64: h.is64},
	}
}

// unit returns unit i.
func (d *Data) unit(i int32) *unit {
	if u := d.opened[i].Load(); u != nil {
		return u
	}
	d.opened[i].CompareAndSwap(nil, d.heads[i].unit(d))
	return d.opened[i].Load()
}

// root reads the first entry of a unit.
func (u *unit) root() error {
	u.rootOnce.Do(func() {
		var a *abbrev
		var t *abbrevTable
		var tableErr error
		var vals []rootValue
		err := u.d.secs[secInfo].parse(u.d.opt.Big, u.die, u.end, func(r *reader) {
			vals = vals[:0]
			code := r.uleb()
			if r.bad {
				return
			}
			if t, tableErr = u.d.rootAbbrev(u, code); tableErr != nil {
				r.fail("abbreviation")
				return
			}
			if a = t.get(code); a == nil {
				r.fail("no abbreviation %d", code)
				return
			}
			for _, at := range t.attrs[a.attr0 : a.attr0+a.nattrs] {
				v := t.value(u.layout, r, at)
				if len(v.b) > 0 {
					v.b = slices.Clone(v.b[:min(len(v.b), maxName)])
				}
				vals = append(vals, rootValue{at.at, v})
			}
		})
		if u.rootErr = cmp.Or(tableErr, err); u.rootErr != nil {
			return
		}
		u.tag = a.tag
		u.setRoot(vals)
	})
	return u.rootErr
}

// open reads the first entry of a unit, and the abbreviations for all others.
func (u *unit) open() error {
	if err := u.root(); err != nil {
		return err
	}
	u.tableOnce.Do(func() { u.table, u.tableErr = u.d.abbrevTable(u) })
	return u.tableErr
}

type rootValue struct {
	at uint16
	v  value
}

// setRoot takes the attributes of the first entry: those first that others
// need to be understood.
func (u *unit) setRoot(vals []rootValue) {
	u.defaultBases()
	for _, x := range vals {
		switch x.at {
		case atStmtList:
			u.hasLine, u.line = true, u.lineBase+x.v.u
		case atLanguage:
			u.lang = uint16(x.v.u)
		case atAddrBase, atGNUAddrBase:
			u.addrBase = x.v.u
		case atStrOffsetsBase:
			u.strBase = x.v.u
		case atRnglistsBase, atGNURangesBase:
			u.rngBase = x.v.u
		case atGNUDwoID:
			u.dwoID = x.v.u
		}
	}
	var pc pcAttrs
	for _, x := range vals {
		switch x.at {
		case atCompDir:
			u.compDir, _ = u.str(x.v)
		case atDwoName, atGNUDwoName:
			u.dwoName, _ = u.str(x.v)
		case atLowPC:
			u.low, _ = u.addr(x.v)
			pc.set(x.at, x.v)
		case atHighPC, atRanges:
			pc.set(x.at, x.v)
		}
	}
	u.ranges, u.rngErr = u.appendRanges(nil, &pc)
}

// defaultBases sets where the tables of a unit begin that does not say it.
func (u *unit) defaultBases() {
	header := uint64(8)
	if u.is64 {
		header = 16
	}
	if u.version >= 5 {
		u.strBase += header
		u.addrBase = header
		u.rngBase += header + 4
	}
}

// place finds out where the code of a unit is. It returns the unit if it has
// some.
func (d *Data) place(i int32) *unit {
	h := &d.heads[i]
	if d.opt.DWO || h.kind != utCompile && h.kind != utSkeleton {
		return nil
	}
	u := h.unit(d)
	if err := u.root(); err != nil {
		d.warn("%s: unit at %#x: %v", d.secs[secInfo].name, u.off, err)
		return nil
	}
	if u.rngErr != nil {
		d.warn("%s: unit at %#x: ranges: %v", d.secs[secInfo].name, u.off, u.rngErr)
	}
	if u.tag != tagCompileUnit && u.tag != tagSkeletonUnit {
		return nil
	}
	if len(u.ranges) == 0 {
		if u.dwoName == "" && (u.open() != nil || !u.table.code) {
			return nil // it has no code
		}
		d.unranged = append(d.unranged, i)
	}
	for _, r := range u.ranges {
		d.ranges = append(d.ranges, unitRange{r.lo, r.hi, 0, i})
	}
	u.ranges = nil
	return u
}

func sortRanges(rs []unitRange) {
	slices.SortFunc(rs, func(a, b unitRange) int {
		if c := cmp.Compare(a.lo, b.lo); c != 0 {
			return c
		}
		return cmp.Compare(b.u, a.u)
	})
	var m uint64
	for i := range rs {
		m = max(m, rs[i].hi)
		rs[i].maxHi = m
	}
}

// maxCandidates bounds the units tried for one address.
const maxCandidates = 64

// candidates appends the units whose code holds addr, by their place in the
// file: of units that claim the same code the first is right, as linkers that
// fold equal functions keep the first.
func candidates(rs []unitRange, addr uint64, buf []int32) []int32 {
	n, _ := slices.BinarySearchFunc(rs, addr, func(r unitRange, a uint64) int {
		if r.lo <= a {
			return -1
		}
		return 1
	})
	for i := n - 1; i >= 0 && rs[i].maxHi > addr && n-i < 1<<16; i-- {
		if rs[i].hi > addr && len(buf) < maxCandidates {
			buf = append(buf, rs[i].u)
		}
	}
	slices.Sort(buf)
	return slices.Compact(buf)
}

// unitAt returns the unit that holds an offset of .debug_info.
func (d *Data) unitAt(off uint64) (*unit, error) {
	if err := d.index(); err != nil {
		return nil, err
	}
	i, ok := slices.BinarySearchFunc(d.heads, off, func(h unitHead, off uint64) int { return cmp.Compare(h.off, off) })
	if !ok {
		i--
	}
	if i < 0 || off < d.heads[i].die || off >= d.heads[i].end {
		return nil, &decode.Error{Offset: int64(off), Field: d.secs[secInfo].name, Why: "no unit holds it"}
	}
	u := d.unit(int32(i))
	return u, u.open()
}
