package dwarf

import (
	"sync"
)

// A name is what a function is called.
type name struct {
	text    string
	linkage bool
}

// nameCache keeps the names of functions by the place of their entry. It is
// emptied when it is full.
type nameCache struct {
	mu    sync.Mutex
	m     map[uint64]name
	bytes int
}

// maxNames bounds the names kept, in bytes.
const maxNames = 16 << 20

func (c *nameCache) get(off uint64) (name, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, ok := c.m[off]
	return n, ok
}

func (c *nameCache) put(off uint64, n name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || c.bytes > maxNames {
		c.m, c.bytes = map[uint64]name{}, 0
	}
	c.m[off] = n
	c.bytes += len(n.text) + 64
}

// maxHops bounds how often a reference is followed for a name. Real ones need
// three: an instance, its abstract function, the declaration in the class.
const maxHops = 16

// nameOf returns the name of the function whose entry is at off: the one in
// the symbol table if it is there, else the one in the source. u is a unit of
// the file.
func (u *unit) nameOf(off uint64) name {
	d := u.d
	if n, ok := d.names.get(off); ok {
		return n
	}
	n, err := u.readName(off)
	if err != nil {
		d.warn("%s: entry at %#x: %v", d.secs[secInfo].name, off, err)
	}
	d.names.put(off, n)
	return n
}

func (u *unit) readName(off uint64) (name, error) {
	var n name
	var named ref    // the entry that has the name
	var holder *unit // of it
	at := ref{u.d, off}
	for range maxHops {
		v, err := u.holder(at)
		if err != nil {
			return n, err
		}
		e, err := v.readEntry(at.off)
		if err != nil {
			return n, err
		}
		if e.linkage.form != 0 {
			s, err := v.str(e.linkage)
			if err != nil {
				return n, err
			}
			if s != "" {
				return name{s, true}, nil
			}
		}
		if n.text == "" && e.name.form != 0 {
			if n.text, err = v.str(e.name); err != nil {
				return n, err
			}
		}
		if e.name.form != 0 {
			// The last one stands where the function is declared.
			named, holder = at, v
		}
		if e.origin.form == 0 {
			break
		}
		to, ok := v.ref(e.origin)
		if !ok || to == at {
			break
		}
		u, at = v, to
	}
	if holder != nil {
		n.text = holder.qualify(named.off, n.text, 0)
	}
	return n, nil
}

// holder returns the unit that holds an entry.
func (u *unit) holder(at ref) (*unit, error) {
	if at.d == u.d && at.off >= u.die && at.off < u.end {
		return u, u.open()
	}
	return at.d.unitAt(at.off)
}

// An entry is what an entry says of a function's name.
type entry struct {
	tag     uint16
	name    value
	linkage value
	origin  value
}

// readEntry reads the entry at off in .debug_info, which the unit holds.
func (u *unit) readEntry(off uint64) (entry, error) {
	var e entry
	err := u.d.secs[secInfo].parse(u.d.opt.Big, off, u.end, func(r *reader) {
		e = entry{}
		code := r.uleb()
		a := u.table.get(code)
		if r.bad {
			return
		}
		if a == nil {
			r.fail("no abbreviation %d", code)
			return
		}
		e.tag = a.tag
		for _, x := range u.table.attrs[a.attr0 : a.attr0+a.nattrs] {
			switch x.at {
			case atName:
				e.name = u.value(r, x)
			case atLinkageName, atMIPSLinkageName:
				e.linkage = u.value(r, x)
			case atAbstractOrigin, atSpecification:
				e.origin = u.value(r, x)
			default:
				u.skip(r, x.form)
			}
		}
		// The buffer is gone when they are looked at.
		if e.name.b != nil {
			e.name.b = clip(e.name.b)
		}
		if e.linkage.b != nil {
			e.linkage.b = clip(e.linkage.b)
		}
	})
	return e, err
}
