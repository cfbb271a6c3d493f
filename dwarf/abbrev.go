package dwarf

import (
	"cmp"
	"slices"
	"sync"
)

// An abbrev is the form of an entry.
type abbrev struct {
	tag    uint16
	kind   abbrevKind
	kids   bool
	attr0  uint32 // index of the first attribute in table.attrs
	nattrs uint32
	op0    uint32 // index of the first step in table.ops
	nops   uint32
	fixed  int32 // size of the values in bytes if all are of fixed size, else -1
	sib    int32 // 0: it has no sibling; if all values are of fixed size, where that is, and one more; else -1
}

// An abbrevKind says what is to be done with an entry when a unit is walked.
type abbrevKind uint8

const (
	kindSkip    abbrevKind = iota
	kindCode               // subprogram with addresses
	kindSub                // subprogram without
	kindInlined            // inlined subroutine
	kindType               // type, whose entries need no visit
)

// An attr is an attribute and the form of its value.
type attr struct {
	at, form uint16
	implicit int32 // index in table.implicit
}

// An abbrevTable is the abbreviations of one or more units.
type abbrevTable struct {
	dense    []abbrev      // codes from 1 in order, as all compilers write them
	sparse   []codedAbbrev // others, by code
	attrs    []attr
	implicit []int64
	ops      []uint16
	code     bool // some entry has addresses
}

func (t *abbrevTable) get(code uint64) *abbrev {
	if code-1 < uint64(len(t.dense)) {
		return &t.dense[code-1]
	}
	i, ok := slices.BinarySearchFunc(t.sparse, code, func(a codedAbbrev, code uint64) int { return cmp.Compare(a.code, code) })
	if !ok {
		return nil
	}
	return &t.sparse[i].abbrev
}

// A codedAbbrev is an abbreviation whose code is out of order.
type codedAbbrev struct {
	code uint64
	abbrev
}

// Steps to pass over the values of an entry: opVar and the form, or a number
// of bytes.
const opVar = 0x8000

// abbrevKey tells tables apart: sizes of values depend on the unit.
type abbrevKey struct {
	off      uint64
	addrSize uint8
	refSize  uint8 // of DW_FORM_ref_addr
	is64     bool
}

type abbrevCache struct {
	mu    sync.Mutex
	m     map[abbrevKey]*abbrevTable
	roots map[rootKey]*abbrevTable
}

// A rootKey is that of a table with the abbreviation of one code.
type rootKey struct {
	abbrevKey
	code uint64
}

// maxRoots bounds the tables of one abbreviation that are kept.
const maxRoots = 256

func (u *unit) abbrevKey() abbrevKey {
	return abbrevKey{u.abbrevOff, uint8(u.addrSize), uint8(u.refSize()), u.is64}
}

// rootAbbrev returns a table that has the abbreviation of that code, and maybe
// no other: the first entries of all units are read, but of few units more.
func (d *Data) rootAbbrev(u *unit, code uint64) (*abbrevTable, error) {
	k := rootKey{u.abbrevKey(), code}
	d.abbrevs.mu.Lock()
	defer d.abbrevs.mu.Unlock()
	if t, ok := d.abbrevs.m[k.abbrevKey]; ok {
		return t, nil
	}
	if t, ok := d.abbrevs.roots[k]; ok {
		return t, nil
	}
	if err := d.share(secAbbrev, 0); err != nil {
		return nil, err
	}
	t, n := &abbrevTable{}, 0
	err := d.secs[secAbbrev].parse(d.opt.Big, u.abbrevOff, u.abbrevEnd, func(r *reader) {
		t = &abbrevTable{}
		u.parseRoot(r, t, code)
		n = r.p
	})
	if e := d.share(secAbbrev, n); e != nil {
		return nil, e
	}
	if err != nil {
		return nil, err
	}
	if d.abbrevs.roots == nil || len(d.abbrevs.roots) == maxRoots {
		d.abbrevs.roots = map[rootKey]*abbrevTable{}
	}
	d.abbrevs.roots[k] = t
	return t, nil
}

// parseRoot reads a table up to the abbreviation of one code.
func (u *unit) parseRoot(r *reader, t *abbrevTable, want uint64) {
	for !r.bad {
		code := r.uleb()
		if code == 0 {
			return
		}
		a := abbrev{tag: uint16(min(r.uleb(), 0xffff)), kids: r.u8() != 0}
		if code == want {
			if u.parseAttrs(r, t, &a); !r.bad {
				t.sparse = []codedAbbrev{{code, a}}
			}
			return
		}
		for !r.bad {
			at, form := r.uleb(), r.uleb()
			if form == formImplicitConst {
				r.sleb()
			}
			if at == 0 && form == 0 {
				break
			}
		}
	}
}

// abbrevTable returns the table of the unit.
func (d *Data) abbrevTable(u *unit) (*abbrevTable, error) {
	k := u.abbrevKey()
	d.abbrevs.mu.Lock()
	defer d.abbrevs.mu.Unlock()
	if t, ok := d.abbrevs.m[k]; ok {
		return t, nil
	}
	if err := d.share(secAbbrev, 0); err != nil {
		return nil, err
	}
	var t *abbrevTable
	var n int
	err := d.secs[secAbbrev].parse(d.opt.Big, u.abbrevOff, u.abbrevEnd, func(r *reader) {
		t = u.parseAbbrevs(r)
		n = r.p
	})
	if e := d.share(secAbbrev, n); e != nil {
		return nil, e
	}
	if err != nil {
		return nil, err
	}
	if d.abbrevs.m == nil {
		d.abbrevs.m = map[abbrevKey]*abbrevTable{}
	}
	d.abbrevs.m[k] = t
	return t, nil
}

// parseAbbrevs reads a table. Of several abbreviations with one code the
// first counts.
func (u *unit) parseAbbrevs(r *reader) *abbrevTable {
	t := &abbrevTable{}
	for !r.bad {
		code := r.uleb()
		if code == 0 {
			break
		}
		tag := r.uleb()
		a := abbrev{tag: uint16(min(tag, 0xffff)), kids: r.u8() != 0, attr0: uint32(len(t.attrs)), op0: uint32(len(t.ops))}
		u.parseAttrs(r, t, &a)
		if r.bad {
			break
		}
		if code == uint64(len(t.dense))+1 {
			t.dense = append(t.dense, a)
		} else if code > uint64(len(t.dense)) {
			t.sparse = append(t.sparse, codedAbbrev{code, a})
		}
		t.code = t.code || a.kind == kindCode
	}
	slices.SortStableFunc(t.sparse, func(a, b codedAbbrev) int { return cmp.Compare(a.code, b.code) })
	t.sparse = slices.CompactFunc(t.sparse, func(a, b codedAbbrev) bool { return a.code == b.code })
	return t
}

func (u *unit) parseAttrs(r *reader, t *abbrevTable, a *abbrev) {
	code, sibling := false, int32(-1)
	for {
		at, form := r.uleb(), r.uleb()
		v := attr{at: uint16(min(at, 0xffff)), form: uint16(min(form, 0xffff))}
		if v.form == formImplicitConst {
			v.implicit = int32(len(t.implicit))
			t.implicit = append(t.implicit, r.sleb())
		}
		if r.bad || at == 0 && form == 0 {
			break
		}
		t.attrs = append(t.attrs, v)
		a.nattrs++
		n := u.formSize(v.form)
		switch {
		case n < 0 && !variableForm(v.form):
			r.fail("unknown form %#x", form)
			return
		case n < 0:
			a.fixed = -1
			t.ops = append(t.ops, opVar|v.form&0x7fff)
			a.nops++
		default:
			if a.fixed >= 0 {
				a.fixed += int32(n)
			}
			if k := len(t.ops) - 1; a.nops > 0 && t.ops[k] < opVar-16 {
				t.ops[k] += uint16(n)
			} else {
				t.ops = append(t.ops, uint16(n))
				a.nops++
			}
		}
		switch v.at {
		case atLowPC, atHighPC, atRanges, atEntryPC:
			code = true
		case atSibling:
			a.sib = -1
			if v.form == formRef4 && a.fixed >= 4 {
				sibling = a.fixed - 4
			}
		}
	}
	if a.fixed > 1<<20 {
		a.fixed = -1
	}
	if sibling >= 0 && a.fixed >= 0 {
		a.sib = sibling + 1
	}
	switch a.tag {
	case tagSubprogram:
		a.kind = kindSub
		if code {
			a.kind = kindCode
		}
	case tagInlinedSubroutine:
		a.kind = kindInlined
	case tagClassType, tagStructureType, tagUnionType, tagEnumerationType, tagArrayType, tagSubroutineType, tagInterfaceType:
		a.kind = kindType
	}
}
