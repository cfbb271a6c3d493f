package dwarf

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// scopeCache keeps the bytes of the unit that was last asked for the scope of a
// name.
type scopeCache struct {
	work atomic.Int64 // bytes walked for scopes

	mu   sync.Mutex
	unit *unit
	b    []byte
	buf  []byte
}

// Bytes that may be walked for the scopes of names: scopeFactor times the size
// of .debug_info and scopeBase. Names beyond have no scope.
const (
	scopeFactor = 8
	scopeBase   = 128 << 20
)

// maxScopes bounds the scopes of one name, and how deep functions within
// functions are followed.
const maxScopes = 16

// scoped reports whether names of the unit's language stand in scopes that
// their name does not say: not in C and assembler, nor in Go, where names have
// their package.
// Source: DWARF 5, table 7.17; later languages: https://dwarfstd.org/languages.html.
func (u *unit) scoped() bool {
	switch u.lang {
	case 0, 0x01, 0x02, 0x0c, 0x1d, 0x2c, 0x16, 0x8001:
		return false
	}
	return true
}

// qualify puts the scopes of the entry at off in front of its name: namespaces,
// types and functions around it.
func (u *unit) qualify(off uint64, text string, depth int) string {
	if !u.scoped() || depth >= maxScopes || text == "" {
		return text
	}
	parents, err := u.parents(off)
	if err != nil {
		u.d.warn("%s: scope of the entry at %#x: %v", u.d.secs[secInfo].name, off, err)
	}
	prefix := ""
	for _, at := range parents[max(len(parents)-maxScopes, 0):] {
		e, err := u.readEntry(at)
		if err != nil {
			break
		}
		var s string
		switch e.tag {
		case tagNamespace:
			if s, _ = u.str(e.name); s == "" {
				s = "(anonymous namespace)"
			}
		case tagClassType, tagStructureType, tagUnionType, tagEnumerationType, tagInterfaceType, tagModule:
			if s, _ = u.str(e.name); s == "" {
				s = "{unnamed type}"
				if strings.HasPrefix(text, "operator()") || text == "~<lambda>" {
					s = "{lambda}"
				}
			}
		case tagSubprogram:
			// Its own scopes are in front of it already, unless it is declared
			// elsewhere.
			prefix = ""
			s = u.sourceName(at, depth+1)
		}
		if s != "" {
			prefix += s + "::"
		}
		if len(prefix) > maxName {
			break
		}
	}
	return prefix + text
}

// sourceName returns the name of a function as in the source, with its scopes.
func (u *unit) sourceName(off uint64, depth int) string {
	at := ref{u.d, off}
	for range maxHops {
		v, err := u.holder(at)
		if err != nil {
			return ""
		}
		e, err := v.readEntry(at.off)
		if err != nil {
			return ""
		}
		if s, _ := v.str(e.name); s != "" {
			return v.qualify(at.off, s, depth)
		}
		to, ok := v.ref(e.origin)
		if !ok {
			return ""
		}
		u, at = v, to
	}
	return ""
}

// parents returns the entries around the one at off, outermost first, without
// that of the unit.
func (u *unit) parents(off uint64) ([]uint64, error) {
	c := &u.d.scopes
	info, _ := u.d.secs[secInfo].size()
	if c.work.Load() > scopeFactor*info+scopeBase {
		return nil, fmt.Errorf("too many names without one in the symbol table: scopes are left out")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unit != u {
		c.unit = nil
		b, err := u.d.secs[secInfo].window(u.die, u.end-u.die, &c.buf)
		if err != nil {
			return nil, err
		}
		c.unit, c.b = u, b
	}
	type open struct {
		die   uint64
		depth int
	}
	var (
		r     = reader{b: c.b, big: u.d.opt.Big}
		stack []open
		depth int
		saved int // bytes passed over
	)
	if code := u.code.Load(); code != nil {
		// What was noted when the unit was walked says where to begin.
		if m := code.marks.before(int(off - u.die)); m != nil {
			r.p, depth, saved = int(m.pos), int(m.depth), int(m.pos)
			for n := m.node; n >= 0; n = code.marks.nodes[n].parent {
				stack = append(stack, open{u.die + uint64(code.marks.nodes[n].pos), int(code.marks.nodes[n].depth)})
			}
			slices.Reverse(stack)
		}
	}
	for r.p < len(r.b) && u.die+uint64(r.p) < off {
		at := u.die + uint64(r.p)
		code := r.uleb()
		if code == 0 {
			if depth--; depth <= 0 {
				break
			}
			if n := len(stack); n > 0 && stack[n-1].depth == depth {
				stack = stack[:n-1]
			}
			continue
		}
		a := u.table.get(code)
		if a == nil {
			return nil, fmt.Errorf("no abbreviation %d", code)
		}
		if !a.kids {
			u.skipEntry(&r, a)
			continue
		}
		if depth > 0 {
			if next := u.sibling(&r, a); next > u.die+uint64(r.p) && next <= off {
				saved += int(next-u.die) - r.p
				r.p = int(next - u.die)
				continue
			}
			if isScope(a.tag) {
				stack = append(stack, open{at, depth})
			}
		} else {
			u.skipEntry(&r, a)
		}
		depth++
	}
	c.work.Add(int64(r.p - saved + 256))
	out := make([]uint64, len(stack))
	for i, o := range stack {
		out[i] = o.die
	}
	return out, nil
}

// sibling passes over the values of an entry and returns where its sibling is, 0
// if it does not say.
func (u *unit) sibling(r *reader, a *abbrev) uint64 {
	switch {
	case a.sib == 0:
		u.skipEntry(r, a)
		return 0
	case a.sib > 0:
		p := r.p
		if u.skipEntry(r, a); r.bad {
			return 0
		}
		x := reader{b: r.b[p+int(a.sib)-1:], big: r.big}
		if v := uint64(x.u32()); v <= u.end-u.off {
			return u.off + v
		}
		return 0
	}
	next := uint64(0)
	for _, x := range u.table.attrs[a.attr0 : a.attr0+a.nattrs] {
		if x.at != atSibling {
			u.skip(r, x.form)
			continue
		}
		if v := u.value(r, x); v.form != formRefAddr && v.u <= u.end-u.off {
			next = u.off + v.u
		}
	}
	if r.bad {
		return 0
	}
	return next
}

// isScope reports whether entries of the tag give those below them a scope.
func isScope(tag uint16) bool {
	switch tag {
	case tagNamespace, tagClassType, tagStructureType, tagUnionType, tagEnumerationType, tagInterfaceType, tagModule, tagSubprogram:
		return true
	}
	return false
}

// marks are places in a unit with the scopes that are open there, so that not
// all of the unit has to be walked for the scope of one name.
type marks struct {
	at    []mark
	nodes []markNode
}

type mark struct {
	pos   uint32 // of an entry, from the unit's first one
	depth int32
	node  int32 // innermost scope; -1: none
}

type markNode struct {
	pos    uint32
	depth  int32
	parent int32
}

// before returns the last mark that is not behind a place, nil if there is none.
func (m *marks) before(pos int) *mark {
	i, _ := slices.BinarySearchFunc(m.at, pos, func(x mark, pos int) int {
		if int(x.pos) <= pos {
			return -1
		}
		return 1
	})
	if i == 0 {
		return nil
	}
	return &m.at[i-1]
}

// markEvery is how far marks are from each other, in bytes.
const markEvery = 16 << 10

// A marker makes marks in the course of a walk.
type marker struct {
	scoped bool
	next   int
	scopes []openScope
}

// An openScope is a scope that is open, and its node if a mark needed one.
type openScope struct {
	pos, depth int
	node       int32
}

func (m *marker) open(pos, depth int) {
	if m.scoped {
		m.scopes = append(m.scopes, openScope{pos, depth, -1})
	}
}

func (m *marker) close(depth int) {
	if n := len(m.scopes); n > 0 && m.scopes[n-1].depth == depth {
		m.scopes = m.scopes[:n-1]
	}
}

// visit makes a mark if the last one is far away.
func (m *marker) visit(to *marks, pos, depth int) {
	if pos < m.next || !m.scoped || depth == 0 || pos > 1<<31-1 || len(m.scopes) > 64 {
		return
	}
	m.next = pos + markEvery
	node := int32(-1)
	for i := range m.scopes {
		s := &m.scopes[i]
		if s.node < 0 {
			s.node = int32(len(to.nodes))
			to.nodes = append(to.nodes, markNode{uint32(s.pos), int32(s.depth), node})
		}
		node = s.node
	}
	to.at = append(to.at, mark{uint32(pos), int32(depth), node})
}
