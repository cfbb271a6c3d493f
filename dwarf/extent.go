package dwarf

import (
	"math"
	"slices"
)

// Extent returns the addresses around addr for which Frames says the same: from
// lo up to hi. It may be less than all of them, and is addr alone where units
// do not say where their code is. For whoever keeps answers.
func (d *Data) Extent(addr uint64) (lo, hi uint64) {
	e := extent{addr: addr, hi: math.MaxUint64}
	if d.index() != nil || !e.units(d) {
		return addr, addr + 1
	}
	return e.lo, e.hi
}

// An extent is a range around an address that is cut wherever something may
// differ.
type extent struct{ addr, lo, hi uint64 }

// cut says that what is at a, and behind it, may differ from what is in front.
func (e *extent) cut(a uint64) {
	if a <= e.addr {
		e.lo = max(e.lo, a)
	} else {
		e.hi = min(e.hi, a)
	}
}

// segment cuts at the ends of the segment that holds the address, and returns
// its owner.
func (e *extent) segment(segs []segment) int32 {
	n, _ := slices.BinarySearchFunc(segs, e.addr, func(s segment, a uint64) int {
		if s.lo <= a {
			return -1
		}
		return 1
	})
	if n < len(segs) {
		e.cut(segs[n].lo)
	}
	if n == 0 {
		return -1
	}
	e.cut(segs[n-1].lo)
	return segs[n-1].owner
}

// units cuts at the ends of what the units say that Frames asks about the
// address. It reports whether one of them has a function there.
func (e *extent) units(d *Data) bool {
	n, _ := slices.BinarySearchFunc(d.ranges, e.addr, func(r unitRange, a uint64) int {
		if r.lo <= a {
			return -1
		}
		return 1
	})
	if n == 0 {
		return false
	}
	if n < len(d.ranges) {
		e.cut(d.ranges[n].lo)
	}
	// In front of it a range may have ended that the same units do not have.
	const most = 64
	for i := n - 1; i >= 0 && d.ranges[i].maxHi > e.lo; i-- {
		e.cut(d.ranges[i].lo)
		e.cut(d.ranges[i].hi)
		if n-i > most {
			return false
		}
	}
	var few [8]int32
	for _, i := range candidates(d.ranges, e.addr, few[:0]) {
		u := d.unit(i)
		if t := u.lineTableOf(); t != nil {
			t.extent(e)
		}
		s := u.splitUnit()
		c, err := s.codeOf()
		if err != nil {
			return false
		}
		fn := e.segment(c.segs)
		if fn < 0 {
			continue
		}
		in, err := s.inlinesOf(c, fn)
		if err != nil {
			return false
		}
		e.segment(in.segs)
		return true
	}
	return false
}

// extent cuts e at the ends of the row that holds its address.
func (t *lineTable) extent(e *extent) {
	i, _ := slices.BinarySearchFunc(t.seqs, e.addr, func(s sequence, a uint64) int {
		if s.hi <= a {
			return -1
		}
		return 1
	})
	if i > 0 {
		e.cut(t.seqs[i-1].hi)
	}
	for n := 0; i < len(t.seqs) && t.seqs[i].lo > e.addr; i++ {
		e.cut(t.seqs[i].lo)
		if n++; n == maxOverlap {
			e.cut(e.addr)
			e.cut(e.addr + 1)
			return
		}
	}
	if i == len(t.seqs) {
		return
	}
	s := &t.seqs[i]
	e.cut(s.lo)
	e.cut(s.hi)
	pts := t.points[s.first : s.first+s.n]
	k, _ := slices.BinarySearchFunc(pts, e.addr, func(p point, a uint64) int {
		if p.addr <= a {
			return -1
		}
		return 1
	})
	at := pts[max(k-1, 0)]
	stop := s.stop
	if k < len(pts) {
		stop = pts[k].pos
		e.cut(pts[k].addr)
	}
	e.cut(at.addr)
	buf := buffers.Get().(*[]byte)
	defer putBuffer(buf)
	prog, err := t.d.secs[secLine].window(t.off+uint64(at.pos), uint64(stop-at.pos), buf)
	if err != nil {
		e.cut(e.addr)
		e.cut(e.addr + 1)
		return
	}
	mask := ^uint64(0)
	if t.addrSize == 4 {
		mask = 1<<32 - 1
	}
	m := machine{t: t, r: reader{b: prog, big: t.d.opt.Big}}
	m.row = row{addr: at.addr, op: uint64(at.op), file: uint64(at.file), line: int64(at.line), col: uint64(at.col)}
	for m.next() && !m.end {
		a := m.row.addr & mask
		e.cut(a)
		if a > e.addr {
			break
		}
		m.after()
	}
}
