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

// appendRanges appends to out the ranges of code that are not empty and were not
// dropped by the linker.
func (u *unit) appendRanges(out []addrRange, p *pcAttrs) ([]addrRange, error) {
	first := len(out)
	var err error
	switch {
	case p.hasRanges:
		out, err = u.rangeList(out, p.ranges)
	case p.hasLow && p.hasHigh:
		lo, ok := u.addr(p.low)
		if !ok {
			return out, fmt.Errorf("no address for low_pc")
		}
		hi := p.high.u
		if p.high.isAddr() {
			if hi, ok = u.addr(p.high); !ok {
				return out, fmt.Errorf("no address for high_pc")
			}
		} else {
			hi += lo
		}
		out = append(out, addrRange{lo, hi})
	}
	keep := out[:first]
	for _, r := range out[first:] {
		if r, ok := u.clean(r); ok {
			keep = append(keep, r)
		}
	}
	return keep, err
}

// clean reports whether a range is not empty and not of code that the linker
// dropped. Linkers put such code at 0, below the file's code, or at the last
// addresses.
func (u *unit) clean(r addrRange) (addrRange, bool) {
	if u.main().addrSize == 4 {
		r.lo, r.hi = r.lo&0xffffffff, r.hi&0xffffffff
	}
	return r, r.lo < r.hi && r.lo >= u.main().d.opt.MinAddr
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

// rangeList appends the ranges of a list to out.
func (u *unit) rangeList(out []addrRange, v value) ([]addrRange, error) {
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
			return out, fmt.Errorf("index %#x of a range list", i)
		}
		at := u.rngBase + i*size
		rel, err := d.secs[sec].uint(d.opt.Big, at, int(size))
		if err != nil {
			return out, err
		}
		off = u.rngBase + rel
	} else {
		off += u.rngPart
	}
	if err := d.share(sec, 0); err != nil && !u.gone.Load() {
		return out, err
	}
	first, n := len(out), 0
	b, in, err := d.secs[sec].mem()
	switch {
	case err != nil:
		return out, err
	case in && off < uint64(len(b)):
		r := reader{b: b[off:], big: d.opt.Big}
		out = u.readList(&r, out)
		n, err = r.p, r.err(d.secs[sec].name, off)
	default:
		err = d.secs[sec].parse(d.opt.Big, off, 1<<62, func(r *reader) {
			out = u.readList(r, out[:first])
			n = r.p
		})
	}
	// What counts is the memory that an entry takes, which may have three bytes.
	if !u.gone.Load() {
		if e := d.share(sec, max(n, 64*(len(out)-first))); e != nil {
			return out[:first], e
		}
	}
	return out, err
}

// readList reads a list up to its end.
func (u *unit) readList(r *reader, out []addrRange) []addrRange {
	if u.version < 5 {
		return u.readRanges(r, out)
	}
	return u.readRnglist(r, out)
}

// readRanges reads a list of .debug_ranges.
func (u *unit) readRanges(r *reader, out []addrRange) []addrRange {
	base, size := u.main().low, u.addrSize
	last := ^uint64(0)
	if size < 8 {
		last = 1<<(8*size) - 1
	}
	for {
		lo, hi := r.uint(size), r.uint(size)
		switch {
		case r.bad || lo == 0 && hi == 0:
			return out
		case lo == last:
			base = hi
		case lo < hi:
			out = append(out, addrRange{base + lo, base + hi})
		}
	}
}

// readRnglist reads a list of .debug_rnglists.
func (u *unit) readRnglist(r *reader, out []addrRange) []addrRange {
	base := u.main().low
	for {
		kind := r.u8()
		if r.bad {
			return out
		}
		var lo, hi uint64
		ok := true
		switch kind {
		case rleEndOfList:
			return out
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
			return out
		}
		if r.bad || !ok {
			r.fail("no address for an entry of a range list")
			return out
		}
		out = append(out, addrRange{lo, hi})
	}
}
