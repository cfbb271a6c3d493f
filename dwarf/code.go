package dwarf

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// unitCode is where the functions of a unit are.
type unitCode struct {
	fns   []function
	segs  []segment // who has the code at an address
	marks marks     // for the scopes of names
	cost  int64     // bytes kept, without the inlines

	mu      sync.Mutex
	inlines map[int32]*inlines // by function
}

// Entries of a few bytes can each stand for a function, so these bound how many
// there are in a unit, and how many are inlined into one.
const (
	maxFunctions = 1 << 19
	maxInlined   = 1 << 18
)

// A function is a subprogram with code.
type function struct {
	die, end uint64 // its entry and those below it, in .debug_info
	low      uint64 // where it begins
}

// A segment is a range of code that belongs to one owner: it ends where the
// next one begins.
type segment struct {
	lo    uint64
	owner int32 // none: -1
}

// An interval is code of an owner. Intervals may overlap.
type interval struct {
	lo, hi uint64
	owner  int32
}

// flatten divides code among those that claim it: an address belongs to the
// interval that begins last, and of several that begin together to the last
// one. It sorts its argument.
func flatten(in []interval) []segment {
	if len(in) == 0 {
		return nil
	}
	slices.SortStableFunc(in, func(a, b interval) int { return cmp.Compare(a.lo, b.lo) })
	out := make([]segment, 0, len(in)+1)
	put := func(lo uint64, owner int32) {
		switch n := len(out); {
		case n > 0 && out[n-1].lo == lo:
			out[n-1].owner = owner
		case n > 0 && out[n-1].owner == owner:
		default:
			out = append(out, segment{lo, owner})
		}
	}
	var open []int
	// closeTo ends what ends up to limit.
	closeTo := func(limit uint64, all bool) {
		for len(open) > 0 {
			hi := in[open[len(open)-1]].hi
			if hi > limit && !all {
				return
			}
			for len(open) > 0 && in[open[len(open)-1]].hi <= hi {
				open = open[:len(open)-1]
			}
			owner := int32(-1)
			if len(open) > 0 {
				owner = in[open[len(open)-1]].owner
			}
			put(hi, owner)
		}
	}
	for i := range in {
		closeTo(in[i].lo, false)
		put(in[i].lo, in[i].owner)
		open = append(open, i)
	}
	closeTo(0, true)
	return out
}

// owner returns who has the code at addr, -1 for nobody.
func owner(segs []segment, addr uint64) int32 {
	n, _ := slices.BinarySearchFunc(segs, addr, func(s segment, a uint64) int {
		if s.lo <= a {
			return -1
		}
		return 1
	})
	if n == 0 {
		return -1
	}
	return segs[n-1].owner
}

// codeOf returns where the functions of a unit are, from the cache or from its
// entries.
func (u *unit) codeOf() (*unitCode, error) {
	if c := u.code.Load(); c != nil {
		u.touch()
		return c, nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if c := u.code.Load(); c != nil {
		return c, nil
	}
	if err := u.open(); err != nil {
		return nil, err
	}
	c := &unitCode{}
	if u.table.code {
		buf := buffers.Get().(*[]byte)
		defer putBuffer(buf)
		b, err := u.d.secs[secInfo].window(u.die, u.end-u.die, buf)
		if err != nil {
			return nil, err
		}
		u.walk(c, b)
	}
	c.cost = int64(cap(c.fns)*24 + cap(c.segs)*16 + cap(c.marks.at)*16 + cap(c.marks.nodes)*16 + 200)
	u.code.Store(c)
	u.touch()
	u.main().d.cache.add(u, c.cost)
	return c, nil
}

// walk passes over all entries of a unit and takes the functions with code. b
// is the unit from its first entry on.
func (u *unit) walk(c *unitCode, b []byte) {
	type open struct {
		fn    int
		depth int
	}
	var (
		r     = reader{b: b, big: u.d.opt.Big}
		sc    = scratches.Get().(*scratch)
		stack []open
		ivs   = sc.ivs[:0]
		depth int
		err   error
		sub   = -1 // depth of the outermost function that is open
		marks = marker{scoped: u.scoped()}
	)
	for r.p < len(r.b) {
		at := r.p
		marks.visit(&c.marks, at, depth)
		code := r.uleb()
		if code == 0 {
			if depth--; depth <= 0 {
				break
			}
			if sub == depth {
				sub = -1
			}
			marks.close(depth)
			if n := len(stack); n > 0 && stack[n-1].depth == depth {
				c.fns[stack[n-1].fn].end = u.die + uint64(r.p)
				stack = stack[:n-1]
			}
			continue
		}
		a := u.table.get(code)
		if a == nil {
			r.fail("no abbreviation %d", code)
			u.d.warn("%s: unit at %#x: entry at %#x: no abbreviation %d", u.d.secs[secInfo].name, u.off, u.die+uint64(at), code)
			break
		}
		switch a.kind {
		case kindCode:
			var pc pcAttrs
			for _, x := range u.table.attrs[a.attr0 : a.attr0+a.nattrs] {
				switch x.at {
				case atLowPC, atHighPC, atRanges:
					pc.set(x.at, u.value(&r, x))
				default:
					u.skip(&r, x.form)
				}
			}
			n := len(ivs)
			if ivs, err = u.intervals(sc, ivs, &pc, int32(len(c.fns))); err != nil {
				u.d.warn("%s: entry at %#x: %v", u.d.secs[secInfo].name, u.die+uint64(at), err)
			}
			if len(c.fns) == maxFunctions {
				u.d.warn("%s: unit at %#x: more than %d functions", u.d.secs[secInfo].name, u.off, maxFunctions)
				r.end()
				r.why = "too many functions"
				ivs = ivs[:n]
			}
			if len(ivs) > n {
				f := function{die: u.die + uint64(at), end: u.die + uint64(r.p), low: ivs[n].lo}
				if pc.hasLow {
					// Of a function in several parts, the one with its entry.
					if lo, ok := u.addr(pc.low); ok && lo != 0 {
						f.low = lo
					}
				}
				if a.kids {
					stack = append(stack, open{len(c.fns), depth})
				}
				c.fns = append(c.fns, f)
			}
		case kindType:
			if sub >= 0 {
				u.skipEntry(&r, a) // of a lambda within a function the code is in there
			} else if u.skipType(&r, a, u.die) {
				continue
			}
		default:
			u.skipEntry(&r, a)
		}
		if a.kids {
			if sub < 0 && (a.kind == kindCode || a.kind == kindSub) {
				sub = depth
			}
			if depth > 0 && isScope(a.tag) {
				marks.open(at, depth)
			}
			depth++
		} else if depth == 0 {
			break
		}
	}
	for _, o := range stack {
		c.fns[o.fn].end = u.end
	}
	if r.bad && r.why == "" {
		u.d.warn("%s: unit at %#x: its entries are cut off", u.d.secs[secInfo].name, u.off)
	}
	c.segs = slices.Clip(flatten(ivs))
	c.fns = slices.Clip(c.fns)
	sc.ivs = ivs
	sc.put()
}

// skipType passes over a type, and reports whether it passed over the entries
// below it too, which is if it says where the next one is. Compilers that say so
// put no code in there. The reader began at start in .debug_info.
func (u *unit) skipType(r *reader, a *abbrev, start uint64) bool {
	if a.sib == 0 || !a.kids {
		u.skipEntry(r, a)
		return false
	}
	to := u.sibling(r, a)
	if to < start+uint64(r.p) || to > start+uint64(len(r.b)) {
		return false
	}
	r.p = int(to - start)
	return true
}

// inlines are the functions that were inlined into one.
type inlines struct {
	nodes []inlined
	segs  []segment
}

// An inlined is one function inlined in one place.
type inlined struct {
	origin uint64 // entry of the function, in .debug_info of alt or of the unit's own file
	alt    bool
	parent int32 // the node it is inlined into; -1: the function itself
	file   uint32
	line   uint32
	column uint32
	discr  uint32
}

// inlinesOf returns what is inlined into function i.
func (u *unit) inlinesOf(c *unitCode, i int32) (*inlines, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if in, ok := c.inlines[i]; ok {
		return in, nil
	}
	f := &c.fns[i]
	buf := buffers.Get().(*[]byte)
	defer putBuffer(buf)
	b, err := u.d.secs[secInfo].window(f.die, f.end-f.die, buf)
	if err != nil {
		return nil, err
	}
	in := u.walkInlines(f, b)
	if c.inlines == nil {
		c.inlines = map[int32]*inlines{}
	}
	c.inlines[i] = in
	u.main().d.cache.add(u, int64(cap(in.nodes)*40+cap(in.segs)*16+100))
	return in, nil
}

// walkInlines takes the inlined functions below the entry of a function, whose
// bytes b are. Functions within it are left out: they have code of their own.
func (u *unit) walkInlines(f *function, b []byte) *inlines {
	type open struct {
		node  int32
		depth int
	}
	var (
		in     = &inlines{}
		r      = reader{b: b, big: u.d.opt.Big}
		sc     = scratches.Get().(*scratch)
		stack  []open
		ivs    = sc.ivs[:0]
		nodes  = sc.nodes[:0]
		depth  int
		err    error
		nested = -1 // depth of the function within it that is passed over
	)
	for r.p < len(r.b) {
		at := r.p
		code := r.uleb()
		if code == 0 {
			if depth--; depth <= 0 {
				break
			}
			if n := len(stack); n > 0 && stack[n-1].depth == depth {
				stack = stack[:n-1]
			}
			if nested == depth {
				nested = -1
			}
			continue
		}
		a := u.table.get(code)
		if a == nil {
			break
		}
		switch {
		case a.kind == kindInlined && nested < 0:
			parent := int32(-1)
			if n := len(stack); n > 0 {
				parent = stack[n-1].node
			}
			node := int32(len(nodes))
			if node == maxInlined {
				u.d.warn("%s: entry at %#x: more than %d functions inlined", u.d.secs[secInfo].name, f.die, maxInlined)
				r.end()
				continue
			}
			pc, x := u.readInlined(&r, a)
			x.parent = parent
			n := len(ivs)
			if ivs, err = u.intervals(sc, ivs, &pc, node); err != nil {
				u.d.warn("%s: entry at %#x: %v", u.d.secs[secInfo].name, f.die+uint64(at), err)
			}
			if len(ivs) > n || a.kids {
				nodes = append(nodes, x)
				if a.kids {
					stack = append(stack, open{node, depth})
				}
			}
		case a.kind == kindType:
			if u.skipType(&r, a, f.die) {
				continue
			}
		default:
			u.skipEntry(&r, a)
			if a.kids && nested < 0 && depth > 0 && (a.kind == kindCode || a.kind == kindSub) {
				nested = depth
			}
		}
		if !a.kids && depth == 0 {
			break
		}
		if a.kids {
			depth++
		}
	}
	in.segs = slices.Clip(flatten(ivs))
	in.nodes = slices.Clone(nodes)
	sc.ivs, sc.nodes = ivs, nodes
	sc.put()
	return in
}

// A scratch is memory for the walk of one unit or function.
type scratch struct {
	ranges []addrRange
	ivs    []interval
	nodes  []inlined
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// put gives the memory back, unless it is much.
func (s *scratch) put() {
	if cap(s.ranges)+cap(s.ivs)+cap(s.nodes) < 1<<16 {
		scratches.Put(s)
	}
}

// intervals appends the ranges of an entry to ivs.
func (u *unit) intervals(s *scratch, ivs []interval, pc *pcAttrs, owner int32) ([]interval, error) {
	rs, err := u.appendRanges(s.ranges[:0], pc)
	for _, r := range rs {
		ivs = append(ivs, interval{r.lo, r.hi, owner})
	}
	s.ranges = rs[:0]
	return ivs, err
}

// readInlined reads the values of an inlined function.
func (u *unit) readInlined(r *reader, a *abbrev) (pcAttrs, inlined) {
	var pc pcAttrs
	var x inlined
	for _, at := range u.table.attrs[a.attr0 : a.attr0+a.nattrs] {
		switch at.at {
		case atLowPC, atHighPC, atRanges:
			pc.set(at.at, u.value(r, at))
		case atAbstractOrigin:
			if to, ok := u.ref(u.value(r, at)); ok {
				x.origin, x.alt = to.off, to.d != u.d
			}
		case atCallFile:
			x.file = clamp32(u.value(r, at).u)
		case atCallLine:
			x.line = clamp32(u.value(r, at).u)
		case atCallColumn:
			x.column = clamp32(u.value(r, at).u)
		case atGNUDiscriminator:
			x.discr = clamp32(u.value(r, at).u)
		default:
			u.skip(r, at.form)
		}
	}
	return pc, x
}

func clamp32(v uint64) uint32 {
	if v > 1<<31 {
		return 0
	}
	return uint32(v)
}

// unitCache drops the code of units that were not asked for in a long time.
type unitCache struct {
	limit int64
	clock atomic.Int64

	mu    sync.Mutex
	total int64
	cost  map[*unit]int64
}

func (u *unit) touch() { u.used.Store(u.main().d.cache.clock.Add(1)) }

// add counts bytes kept for a unit, and drops others if there are too many.
func (c *unitCache) add(u *unit, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cost == nil {
		c.cost = map[*unit]int64{}
	}
	c.cost[u] += n
	c.total += n
	if c.total <= c.limit {
		return
	}
	// Half of them go, so that this is done seldom.
	all := make([]*unit, 0, len(c.cost))
	for v := range c.cost {
		if v != u {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b *unit) int { return cmp.Compare(a.used.Load(), b.used.Load()) })
	for _, v := range all {
		if c.total <= c.limit/2 {
			break
		}
		v.gone.Store(true)
		v.code.Store(nil)
		v.lines.Store(nil)
		c.total -= c.cost[v]
		delete(c.cost, v)
	}
}

// splitUnit returns the unit that has the functions of u: u itself, or for a
// skeleton the one in another file, if it is found.
func (u *unit) splitUnit() *unit {
	if u.dwoName == "" && u.kind != utSkeleton {
		return u
	}
	u.splitOnce.Do(func() { u.split = u.findSplit() })
	if u.split == nil {
		return u
	}
	return u.split
}

func (u *unit) findSplit() *unit {
	d := u.d
	if d.opt.Split == nil {
		d.warn("split debug information %q is missing", u.dwoName)
		return nil
	}
	other, err := d.opt.Split(SplitUnit{ID: u.dwoID, Name: u.dwoName, CompDir: u.compDir})
	if err == nil && other == nil {
		err = fmt.Errorf("not found")
	}
	var s *unit
	if err == nil {
		s, err = other.splitFor(u)
	}
	if err != nil {
		d.warn("split debug information %q: %v", u.dwoName, err)
		return nil
	}
	return s
}
