package dwarf

import "fmt"

// An addrRange is half-open.
type addrRange struct{ lo, hi uint64 }

// pcAttrs are the attributes that say where the code of an entry is.
type pcAttrs struct {
	low, high, ranges          value
	hasLow, hasHigh, hasRanges bool
}

func (p *pcAttrs) set(at uint16, v value) {
	switch at {
	case atLowPC:
		p.low, p.hasLow = v, true
	case atHighPC:
		p.high, p.hasHigh = v, true
	case atRanges:
		p.ranges, p.hasRanges = v, true
	}
}

// eachRange calls f for each range of code that is not empty and was not
// dropped by the linker.
func (u *unit) eachRange(p *pcAttrs, f func(lo, hi uint64)) error {
	if p.hasRanges {
		return u.rangeList(p.ranges, f)
	}
	if !p.hasLow || !p.hasHigh {
		return nil
	}
	lo, ok := u.addr(p.low)
	if !ok {
		return fmt.Errorf("no address for low_pc")
	}
	hi := p.high.u
	if p.high.isAddr() {
		if hi, ok = u.addr(p.high); !ok {
			return fmt.Errorf("no address for high_pc")
		}
	} else {
		hi += lo
	}
	u.emit(lo, hi, f)
	return nil
}

// emit calls f unless the range is empty or of code that the linker dropped.
// Linkers put such code at 0, below the file's code, or at the last
// addresses.
func (u *unit) emit(lo, hi uint64, f func(lo, hi uint64)) {
	if u.main().addrSize == 4 {
		lo, hi = lo&0xffffffff, hi&0xffffffff
	}
	if lo < hi && lo >= u.main().d.opt.MinAddr {
		f(lo, hi)
	}
}

// main returns the unit in the main file: itself, or its skeleton.
func (u *unit) main() *unit {
	if u.skel != nil {
		return u.skel
	}
	return u
}

// Kinds of entries of range lists. Source: DWARF 5, table 7.30.
const (
	rleEndOfList    = 0
	rleBaseAddressx = 1
	rleStartxEndx   = 2
	rleStartxLength = 3
	rleOffsetPair   = 4
	rleBaseAddress  = 5
	rleStartEnd     = 6
	rleStartLength  = 7
)

// rangeList calls f for each range of a list.
func (u *unit) rangeList(v value, f func(lo, hi uint64)) error {
	sec, d, off := secRnglists, u.d, v.u
	if u.version < 5 {
		// Version 4 with split units has its range lists in the main file.
		sec, d = secRanges, u.main().d
		if u.skel != nil {
			off += u.skel.rngBase
		}
	} else if v.form == formRnglistx {
		i, size := off, uint64(4)
		if u.is64 {
			size = 8
		}
		if i > 1<<40 {
			return fmt.Errorf("index %#x of a range list", i)
		}
		at := u.rngBase + i*size
		err := d.secs[sec].parse(d.opt.Big, at, at+size, func(r *reader) { off = u.rngBase + r.offset(u.is64) })
		if err != nil {
			return err
		}
	} else {
		off += u.rngPart
	}
	if err := d.share(sec, 0); err != nil && !u.gone.Load() {
		return err
	}
	var out []addrRange
	n := 0
	err := d.secs[sec].parse(d.opt.Big, off, 1<<62, func(r *reader) {
		out = out[:0]
		add := func(lo, hi uint64) { out = append(out, addrRange{lo, hi}) }
		if u.version < 5 {
			u.readRanges(r, add)
		} else {
			u.readRnglist(r, add)
		}
		n = r.p
	})
	// What counts is the memory that an entry takes, which may have three bytes.
	if !u.gone.Load() {
		if e := d.share(sec, max(n, 64*len(out))); e != nil {
			return e
		}
	}
	for _, r := range out {
		u.emit(r.lo, r.hi, f)
	}
	return err
}

// readRanges reads a list of .debug_ranges.
func (u *unit) readRanges(r *reader, f func(lo, hi uint64)) {
	base, size := u.main().low, u.addrSize
	last := ^uint64(0)
	if size < 8 {
		last = 1<<(8*size) - 1
	}
	for !r.bad {
		lo, hi := r.uint(size), r.uint(size)
		switch {
		case r.bad || lo == 0 && hi == 0:
			return
		case lo == last:
			base = hi
		case lo < hi:
			f(base+lo, base+hi)
		}
	}
}

// readRnglist reads a list of .debug_rnglists.
func (u *unit) readRnglist(r *reader, f func(lo, hi uint64)) {
	base := u.main().low
	for {
		kind := r.u8()
		if r.bad {
			return
		}
		var lo, hi uint64
		ok := true
		switch kind {
		case rleEndOfList:
			return
		case rleBaseAddressx:
			base, ok = u.addrx(r.uleb())
			if !ok {
				r.fail("no address for the base of a range list")
			}
			continue
		case rleStartxEndx:
			i, j := r.uleb(), r.uleb()
			if lo, ok = u.addrx(i); ok {
				hi, ok = u.addrx(j)
			}
		case rleStartxLength:
			i, n := r.uleb(), r.uleb()
			lo, ok = u.addrx(i)
			hi = lo + n
		case rleOffsetPair:
			lo, hi = base+r.uleb(), base+r.uleb()
		case rleBaseAddress:
			base = r.uint(u.addrSize)
			continue
		case rleStartEnd:
			lo, hi = r.uint(u.addrSize), r.uint(u.addrSize)
		case rleStartLength:
			lo = r.uint(u.addrSize)
			hi = lo + r.uleb()
		default:
			r.fail("entry of kind %d in a range list", kind)
			return
		}
		if r.bad || !ok {
			r.fail("no address for an entry of a range list")
			return
		}
		f(lo, hi)
	}
}
