package dwarf

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/perfark/perfark/internal/decode"
)

// A reader reads values in order, as decode.Cursor does, but knows the
// encodings of DWARF and does not name what it reads: millions of entries are
// passed over for one that is wanted. After the first read past the end it is
// bad, stands at the end, and yields zeros.
type reader struct {
	b   []byte
	p   int
	big bool
	bad bool
	why string // what is wrong; "" if bad means the end
}

// fail makes the reader bad for a reason.
func (r *reader) fail(format string, args ...any) {
	if !r.bad {
		r.bad, r.why = true, fmt.Sprintf(format, args...)
	}
	r.p = len(r.b)
}

func (r *reader) end() {
	r.bad = true
	r.p = len(r.b)
}

// err returns what went wrong, if anything did. The reader's bytes began at
// off in the section.
func (r *reader) err(name string, off uint64) error {
	if !r.bad {
		return nil
	}
	why := r.why
	if why == "" {
		why = "cut off"
	}
	return &decode.Error{Offset: int64(off), Field: name, Why: why}
}

func (r *reader) skip(n uint64) {
	if n > uint64(len(r.b)-r.p) {
		r.end()
		return
	}
	r.p += int(n)
}

// bytes reads n bytes. They alias the input.
func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.b)-r.p) {
		r.end()
		return nil
	}
	b := r.b[r.p : r.p+int(n)]
	r.p += int(n)
	return b
}

func (r *reader) u8() uint8 {
	if r.p >= len(r.b) {
		r.bad = true
		return 0
	}
	v := r.b[r.p]
	r.p++
	return v
}

func (r *reader) u16() uint16 {
	if len(r.b)-r.p < 2 {
		r.end()
		return 0
	}
	b := r.b[r.p:]
	r.p += 2
	if r.big {
		return binary.BigEndian.Uint16(b)
	}
	return binary.LittleEndian.Uint16(b)
}

func (r *reader) u24() uint32 {
	b := r.bytes(3)
	switch {
	case b == nil:
		return 0
	case r.big:
		return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
	}
	return uint32(b[2])<<16 | uint32(b[1])<<8 | uint32(b[0])
}

func (r *reader) u32() uint32 {
	if len(r.b)-r.p < 4 {
		r.end()
		return 0
	}
	b := r.b[r.p:]
	r.p += 4
	if r.big {
		return binary.BigEndian.Uint32(b)
	}
	return binary.LittleEndian.Uint32(b)
}

func (r *reader) u64() uint64 {
	if len(r.b)-r.p < 8 {
		r.end()
		return 0
	}
	b := r.b[r.p:]
	r.p += 8
	if r.big {
		return binary.BigEndian.Uint64(b)
	}
	return binary.LittleEndian.Uint64(b)
}

// uint reads a value of size bytes.
func (r *reader) uint(size int) uint64 {
	switch size {
	case 1:
		return uint64(r.u8())
	case 2:
		return uint64(r.u16())
	case 4:
		return uint64(r.u32())
	case 8:
		return r.u64()
	}
	r.fail("a value of %d bytes", size)
	return 0
}

// offset reads an offset of the 32-bit or 64-bit format.
func (r *reader) offset(is64 bool) uint64 {
	if is64 {
		return r.u64()
	}
	return uint64(r.u32())
}

// uleb reads an unsigned LEB128 number. Bits above 64 are dropped.
func (r *reader) uleb() uint64 {
	if r.p < len(r.b) && r.b[r.p] < 0x80 {
		r.p++
		return uint64(r.b[r.p-1])
	}
	var v uint64
	for shift := uint(0); ; shift += 7 {
		if r.p >= len(r.b) {
			r.bad = true
			return 0
		}
		x := r.b[r.p]
		r.p++
		v |= uint64(x&0x7f) << shift
		if x < 0x80 {
			return v
		}
	}
}

// sleb reads a signed LEB128 number.
func (r *reader) sleb() int64 {
	var v int64
	for shift := uint(0); ; {
		if r.p >= len(r.b) {
			r.bad = true
			return 0
		}
		x := r.b[r.p]
		r.p++
		v |= int64(x&0x7f) << shift
		shift += 7
		if x < 0x80 {
			if x&0x40 != 0 && shift < 64 {
				v |= -1 << shift
			}
			return v
		}
	}
}

// cstr reads a NUL-terminated string, without the NUL. It aliases the input.
func (r *reader) cstr() []byte {
	i := bytes.IndexByte(r.b[r.p:], 0)
	if i < 0 {
		r.end()
		return nil
	}
	b := r.b[r.p : r.p+i]
	r.p += i + 1
	return b
}

// length reads a unit's length and says which format it is in.
func (r *reader) length() (n uint64, is64 bool) {
	v := r.u32()
	switch {
	case v == 0xffffffff:
		return r.u64(), true
	case v >= 0xfffffff0:
		r.fail("length %#x is reserved", v)
		return 0, false
	}
	return uint64(v), false
}
