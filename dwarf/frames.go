package dwarf

import "slices"

// Frames appends to buf the functions at an address, innermost first: those
// that were inlined there, and last the one with the machine code. Each has the
// line where it is, or calls the one before it. Addresses are those of the file
// as it was linked. Nothing is appended if nothing is known of the address; if
// there is a line and no function, the frame has no name.
func (d *Data) Frames(addr uint64, buf []Frame) ([]Frame, error) {
	if err := d.index(); err != nil {
		return buf, err
	}
	var few [8]int32
	n := len(buf)
	var line []Frame // of a unit that has no function there
	for pass := range 2 {
		rs := d.ranges
		if pass == 1 {
			if rs = d.scan(); len(rs) == 0 {
				break
			}
		}
		for _, i := range candidates(rs, addr, few[:0]) {
			var known bool
			buf, known = d.unit(i).frames(addr, buf)
			if known {
				return buf, nil
			}
			if len(buf) > n {
				if line == nil {
					line = slices.Clone(buf[n:])
				}
				buf = buf[:n]
			}
		}
		if line != nil {
			break
		}
	}
	return append(buf, line...), nil
}

// Order returns a number for an address, by which questions are best asked:
// those with one number are answered from one unit, and units are read in the
// order in which they lie in the file.
func (d *Data) Order(addr uint64) int {
	var few [8]int32
	if d.index() == nil {
		if list := candidates(d.ranges, addr, few[:0]); len(list) > 0 {
			return int(list[0])
		}
	}
	return len(d.heads)
}

// scan looks for the code of units that do not say where it is.
func (d *Data) scan() []unitRange {
	d.scanOnce.Do(func() {
		for _, at := range d.unranged {
			u := d.unit(at)
			c, err := u.splitUnit().codeOf()
			if err != nil {
				d.warn("%s: unit at %#x: %v", d.secs[secInfo].name, u.off, err)
				continue
			}
			for i, s := range c.segs {
				if s.owner >= 0 {
					d.scanned = append(d.scanned, unitRange{s.lo, c.segs[i+1].lo, 0, at})
				}
			}
		}
		sortRanges(d.scanned)
	})
	return d.scanned
}

// frames is Frames for one unit. It reports whether the unit has a function
// there.
func (u *unit) frames(addr uint64, buf []Frame) ([]Frame, bool) {
	var at Frame
	t := u.lineTableOf()
	if t != nil {
		if p, ok := t.lookup(addr); ok {
			at.File, at.Line, at.Column, at.Discr = t.path(p.file), int(p.line), int(p.col), int(p.discr)
		}
	}
	s := u.splitUnit()
	c, err := s.codeOf()
	if err != nil {
		u.d.warn("%s: unit at %#x: %v", s.d.secs[secInfo].name, s.off, err)
		c = &unitCode{}
	}
	fn := owner(c.segs, addr)
	if fn < 0 {
		if at != (Frame{}) {
			buf = append(buf, at)
		}
		return buf, false
	}
	start := c.fns[fn].low
	in, err := s.inlinesOf(c, fn)
	if err != nil {
		u.d.warn("%s: unit at %#x: %v", s.d.secs[secInfo].name, s.off, err)
		in = &inlines{}
	}
	first := len(buf)
	for node := owner(in.segs, addr); node >= 0; {
		x := &in.nodes[node]
		if len(buf)-first == maxFrames-1 {
			u.d.warn("address %#x: more than %d functions inlined into each other", addr, maxFrames)
			break
		}
		at.Inlined, at.Start = true, start
		s.setName(&at, x)
		buf = append(buf, at)
		at = Frame{Line: int(x.line), Column: int(x.column), Discr: int(x.discr)}
		if t != nil {
			at.File = t.path(x.file)
		}
		node = x.parent
	}
	n := s.nameOf(c.fns[fn].die)
	at.Name, at.Linkage, at.Start = n.text, n.linkage, start
	return append(buf, at), true
}

// setName gives a frame the name of an inlined function.
func (u *unit) setName(f *Frame, x *inlined) {
	if x.origin == 0 {
		return
	}
	v := u
	if x.alt {
		alt := u.d.altData()
		if alt == nil {
			return
		}
		w, err := alt.unitAt(x.origin)
		if err != nil {
			return
		}
		v = w
	}
	n := v.nameOf(x.origin)
	f.Name, f.Linkage = n.text, n.linkage
}

// A Func is code of a function.
type Func struct {
	Name       string // "" if unknown; bytes
	Linkage    bool   // Name is as in the symbol table
	Start, End uint64 // half-open; a function in several parts is given once for each
}

// Functions calls yield for all functions with code, until it returns false:
// unit by unit, and within a unit in order of address.
func (d *Data) Functions(yield func(Func) bool) error {
	if err := d.index(); err != nil {
		return err
	}
	for i := range d.opened {
		// What place did not keep has no code.
		u := d.opened[i].Load()
		if u == nil || u.kind != utCompile && u.kind != utSkeleton {
			continue
		}
		s := u.splitUnit()
		c, err := s.codeOf()
		if err != nil {
			d.warn("%s: unit at %#x: %v", d.secs[secInfo].name, u.off, err)
			continue
		}
		for i, seg := range c.segs {
			if seg.owner < 0 {
				continue
			}
			n := s.nameOf(c.fns[seg.owner].die)
			if !yield(Func{n.text, n.linkage, seg.lo, c.segs[i+1].lo}) {
				return nil
			}
		}
	}
	return nil
}
