package dwarf

import (
	"bytes"
	"fmt"

	"github.com/perfark/perfark/internal/decode"
)

// A value is that of an attribute, before what it refers to is looked up.
type value struct {
	form uint16
	u    uint64 // number, address, offset, reference or index
	b    []byte // of a string in place; aliases the input
}

// A layout says how values are laid out in a unit, or in a line table.
type layout struct {
	version  int
	addrSize int  // in bytes
	is64     bool // offsets have 8 bytes, else 4
}

// formSize returns the size in bytes of values of the form, -1 if it is not
// fixed.
func (l layout) formSize(form uint16) int {
	switch form {
	case formFlagPresent, formImplicitConst:
		return 0
	case formData1, formFlag, formRef1, formStrx1, formAddrx1:
		return 1
	case formData2, formRef2, formStrx2, formAddrx2:
		return 2
	case formStrx3, formAddrx3:
		return 3
	case formData4, formRef4, formRefSup4, formStrx4, formAddrx4:
		return 4
	case formData8, formRef8, formRefSig8, formRefSup8:
		return 8
	case formData16:
		return 16
	case formAddr:
		return l.addrSize
	case formRefAddr:
		return l.refSize()
	case formStrp, formSecOffset, formStrpSup, formLineStrp, formGNURefAlt, formGNUStrpAlt:
		if l.is64 {
			return 8
		}
		return 4
	}
	return -1
}

// variableForm reports whether values of the form say themselves how long
// they are.
func variableForm(form uint16) bool {
	switch form {
	case formString, formSdata, formUdata, formRefUdata, formStrx, formAddrx, formLoclistx, formRnglistx, formGNUAddrIndex,
		formGNUStrIndex, formExprloc, formBlock, formBlock1, formBlock2, formBlock4, formIndirect:
		return true
	}
	return false
}

// refSize returns the size of DW_FORM_ref_addr: that of an address in
// version 2, of an offset later.
func (l layout) refSize() int {
	switch {
	case l.version <= 2:
		return l.addrSize
	case l.is64:
		return 8
	}
	return 4
}

// skipVar passes over a value of a variable form.
func (l layout) skipVar(r *reader, form uint16) {
	for form == formIndirect {
		form = uint16(min(r.uleb(), 0xffff))
		if n := l.formSize(form); n >= 0 && form != formImplicitConst {
			r.skip(uint64(n))
			return
		}
	}
	switch form {
	case formString:
		i := bytes.IndexByte(r.b[r.p:], 0)
		if i < 0 {
			r.end()
			return
		}
		r.p += i + 1
	case formSdata, formUdata, formRefUdata, formStrx, formAddrx, formLoclistx, formRnglistx, formGNUAddrIndex, formGNUStrIndex:
		for r.p < len(r.b) && r.b[r.p] >= 0x80 {
			r.p++
		}
		r.u8()
	case formExprloc, formBlock:
		r.skip(r.uleb())
	case formBlock1:
		r.skip(uint64(r.u8()))
	case formBlock2:
		r.skip(uint64(r.u16()))
	case formBlock4:
		r.skip(uint64(r.u32()))
	default:
		r.fail("unknown form %#x", form)
	}
}

// skipEntry passes over the values of an entry.
func (u *unit) skipEntry(r *reader, a *abbrev) {
	if a.fixed >= 0 {
		if int(a.fixed) > len(r.b)-r.p {
			r.end()
			return
		}
		r.p += int(a.fixed)
		return
	}
	for _, op := range u.table.ops[a.op0 : a.op0+a.nops] {
		if op < opVar {
			if int(op) > len(r.b)-r.p {
				r.end()
				return
			}
			r.p += int(op)
			continue
		}
		u.skipVar(r, op&0x7fff)
	}
}

// skip passes over a value.
func (l layout) skip(r *reader, form uint16) {
	if n := l.formSize(form); n >= 0 {
		r.skip(uint64(n))
		return
	}
	l.skipVar(r, form)
}

// value reads the value of an attribute.
func (u *unit) value(r *reader, a attr) value { return u.table.value(u.layout, r, a) }

func (t *abbrevTable) value(l layout, r *reader, a attr) value {
	if a.form == formImplicitConst {
		return value{form: a.form, u: uint64(t.implicit[a.implicit])}
	}
	return l.read(r, a.form)
}

// read reads a value. Blocks are passed over: nothing that is wanted has one.
func (l layout) read(r *reader, form uint16) value {
	for form == formIndirect && !r.bad {
		form = uint16(min(r.uleb(), 0xffff))
	}
	v := value{form: form}
	switch form {
	case formFlagPresent:
		v.u = 1
	case formString:
		v.b = r.cstr()
	case formSdata:
		v.u = uint64(r.sleb())
	case formUdata, formRefUdata, formStrx, formAddrx, formLoclistx, formRnglistx, formGNUAddrIndex, formGNUStrIndex:
		v.u = r.uleb()
	case formStrx3, formAddrx3:
		v.u = uint64(r.u24())
	case formData16, formExprloc, formBlock, formBlock1, formBlock2, formBlock4:
		l.skip(r, form)
	default:
		n := l.formSize(form)
		if n <= 0 {
			r.fail("unknown form %#x", form)
			return value{}
		}
		v.u = r.uint(n)
	}
	return v
}

// isAddr reports whether the value is an address, or the index of one.
func (v value) isAddr() bool {
	switch v.form {
	case formAddr, formAddrx, formAddrx1, formAddrx2, formAddrx3, formAddrx4, formGNUAddrIndex:
		return true
	}
	return false
}

// addr returns the address that a value of class address is.
func (u *unit) addr(v value) (uint64, bool) {
	switch v.form {
	case formAddr:
		return v.u, true
	case formAddrx, formAddrx1, formAddrx2, formAddrx3, formAddrx4, formGNUAddrIndex:
		return u.addrx(v.u)
	}
	return 0, false
}

// addrx returns entry i of the unit's part of .debug_addr, which for a split
// unit is in the file of its skeleton.
func (u *unit) addrx(i uint64) (uint64, bool) {
	s := u
	if u.skel != nil {
		s = u.skel
	}
	size := uint64(s.addrSize)
	if i > 1<<40 {
		return 0, false
	}
	v, err := s.d.secs[secAddr].uint(s.d.opt.Big, s.addrBase+i*size, s.addrSize)
	return v, err == nil
}

// A ref is the place of an entry: in the file itself, or in the one that it
// shares entries with.
type ref struct {
	d   *Data
	off uint64 // in .debug_info
}

// ref returns what a value of class reference refers to. v.form tells if there
// is one at all.
func (u *unit) ref(v value) (ref, bool) {
	switch v.form {
	case formRef1, formRef2, formRef4, formRef8, formRefUdata:
		return ref{u.d, u.off + v.u}, v.u < u.end-u.off
	case formRefAddr:
		return ref{u.d, u.infoBase + v.u}, true
	case formGNURefAlt, formRefSup4, formRefSup8:
		if alt := u.d.altData(); alt != nil {
			return ref{alt, v.u}, true
		}
	}
	return ref{}, false
}

// altData returns the file that entries and strings are shared with, nil if
// there is none.
func (d *Data) altData() *Data {
	d.altOnce.Do(func() {
		if d.opt.Alt == nil {
			d.warn("the file it shares debug information with is missing")
			return
		}
		alt, err := d.opt.Alt()
		if err != nil {
			d.warn("the file it shares debug information with: %v", err)
			return
		}
		d.alt = alt
	})
	return d.alt
}

// maxName is the longest string taken from a file, in bytes. What is longer is
// cut: thousands of entries may have ends of one string of a megabyte.
const maxName = 64 << 10

// str returns the string that a value of class string is.
func (u *unit) str(v value) (string, error) {
	switch v.form {
	case formString:
		return string(v.b[:min(len(v.b), maxName)]), nil
	case formStrp:
		return u.d.cstring(secStr, v.u)
	case formLineStrp:
		return u.d.cstring(secLineStr, v.u)
	case formGNUStrpAlt, formStrpSup:
		alt := u.d.altData()
		if alt == nil {
			return "", nil
		}
		return alt.cstring(secStr, v.u)
	case formStrx, formStrx1, formStrx2, formStrx3, formStrx4, formGNUStrIndex:
		off, err := u.strx(v.u)
		if err != nil {
			return "", err
		}
		return u.d.cstring(secStr, off)
	}
	return "", fmt.Errorf("form %#x is no string", v.form)
}

// strx returns entry i of the unit's part of .debug_str_offsets.
func (u *unit) strx(i uint64) (uint64, error) {
	size := uint64(4)
	if u.is64 {
		size = 8
	}
	if i > 1<<40 {
		return 0, &decode.Error{Offset: int64(u.off), Field: u.d.secs[secStrOffsets].name, Why: fmt.Sprintf("index %#x", i)}
	}
	return u.d.secs[secStrOffsets].uint(u.d.opt.Big, u.strBase+i*size, int(size))
}

// cstring returns the NUL-terminated string at off in a section.
func (d *Data) cstring(sec int, off uint64) (string, error) {
	var s string
	err := d.secs[sec].parse(d.opt.Big, off, off+maxName, func(r *reader) {
		if b := r.cstr(); b != nil {
			s = string(b)
		} else if len(r.b) == maxName {
			s, r.bad = string(r.b), false
		}
	})
	return s, err
}
