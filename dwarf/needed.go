package dwarf

import (
	"cmp"
	"slices"
)

// A Piece is a part of .debug_info, in bytes from its beginning.
type Piece struct{ Start, End uint64 }

// Needed returns the parts of .debug_info that questions about addrs need, in
// order: of each unit its header and first entry, and the whole of those that
// have code at one of the addresses, of the units that these refer to, and of
// those that say nothing of where their code is. Zeros in place of the rest are
// entries that end a list: the units stay what readers can walk over.
func (d *Data) Needed(addrs []uint64) ([]Piece, error) {
	if err := d.index(); err != nil {
		return nil, err
	}
	whole := make([]bool, len(d.heads))
	var todo []int32
	add := func(i int32) {
		if !whole[i] {
			whole[i] = true
			todo = append(todo, i)
		}
	}
	var buf []int32
	for _, addr := range addrs {
		buf = candidates(d.ranges, addr, buf[:0])
		for _, i := range buf {
			add(i)
		}
	}
	for _, i := range d.unranged {
		add(i)
	}
	ends := make([]uint64, len(d.heads)) // of first entries
	for i := range d.heads {
		u := d.unit(int32(i))
		end, err := u.rootEnd()
		if err != nil || u.kind != utCompile && u.kind != utPartial || u.dwoName != "" {
			add(int32(i))
			continue
		}
		ends[i] = end
	}
	for len(todo) > 0 {
		u := d.unit(todo[len(todo)-1])
		todo = todo[:len(todo)-1]
		refs, err := u.references()
		if err != nil {
			return nil, err
		}
		for _, off := range refs {
			if i, ok := d.unitIndex(off); ok {
				add(i)
			}
		}
	}
	var out []Piece
	keep := func(start, end uint64) {
		if n := len(out); n > 0 && out[n-1].End >= start {
			out[n-1].End = max(out[n-1].End, end)
		} else if end > start {
			out = append(out, Piece{start, end})
		}
	}
	at := uint64(0)
	for i := range d.heads {
		u := &d.heads[i]
		keep(at, u.off) // what is no unit stays as it is
		end := ends[i]
		if whole[i] {
			end = u.end
		}
		keep(u.off, end)
		at = u.end
	}
	size, err := d.secs[secInfo].size()
	keep(at, uint64(size))
	return out, err
}

// unitIndex returns which unit holds an offset.
func (d *Data) unitIndex(off uint64) (int32, bool) {
	i, ok := slices.BinarySearchFunc(d.heads, off, func(h unitHead, off uint64) int { return cmp.Compare(h.off, off) })
	if !ok {
		i--
	}
	return int32(i), i >= 0 && off < d.heads[i].end
}

// rootEnd returns where the first entry of a unit ends.
func (u *unit) rootEnd() (end uint64, err error) {
	if err := u.open(); err != nil {
		return 0, err
	}
	err = u.d.secs[secInfo].parse(u.d.opt.Big, u.die, u.end, func(r *reader) {
		a := u.table.get(r.uleb())
		if a == nil {
			r.fail("no abbreviation")
			return
		}
		u.skipEntry(r, a)
		end = u.die + uint64(r.p)
	})
	return end, err
}

// references returns the offsets in .debug_info of what the entries of a unit
// refer to in other units.
func (u *unit) references() ([]uint64, error) {
	if err := u.open(); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(u.table.attrs, func(a attr) bool { return a.form == formRefAddr || a.form == formIndirect }) {
		return nil, nil
	}
	if err := u.d.opt.Budget.Step(int64(u.end-u.die), "dwarf: references"); err != nil {
		return nil, err
	}
	buf := buffers.Get().(*[]byte)
	defer putBuffer(buf)
	b, err := u.d.secs[secInfo].window(u.die, u.end-u.die, buf)
	if err != nil {
		return nil, err
	}
	seen := map[uint64]bool{}
	var out []uint64
	r := reader{b: b, big: u.d.opt.Big}
	for r.p < len(r.b) && !r.bad {
		code := r.uleb()
		if code == 0 {
			continue
		}
		a := u.table.get(code)
		if a == nil {
			r.fail("no abbreviation %d", code)
			break
		}
		for _, at := range u.table.attrs[a.attr0 : a.attr0+a.nattrs] {
			v := u.value(&r, at)
			if v.form == formRefAddr && !r.bad {
				// Targets are many, their units few.
				if t, err := u.d.unitAt(v.u + u.infoBase); err == nil && t != u && !seen[t.off] {
					seen[t.off] = true
					out = append(out, t.off)
				}
			}
		}
	}
	return out, r.err(u.d.secs[secInfo].name, u.die)
}
