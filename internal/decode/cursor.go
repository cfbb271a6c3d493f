// Package decode reads binary input from outside: one cursor for every
// format, and one budget for everything an input may make us allocate or do.
//
// Nothing in here trusts a length, a count or an offset before it has been
// compared with the bytes that are left.
package decode

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// An Error is a defect in the input: where it is, which field, what is wrong.
type Error struct {
	Offset int64  // position in the file, in bytes
	Field  string // the name the format gives it, such as "mmap2.pgoff"
	Why    string // what was found and what was wanted
}

func (e *Error) Error() string {
	return fmt.Sprintf("offset %#x: %s: %s", e.Offset, e.Field, e.Why)
}

// A Cursor reads values in order from a byte slice. The first read past the
// end sets an error; from then on every read returns zero. Callers decode a
// whole structure and check Err once.
type Cursor struct {
	b   []byte
	off int64 // position of b[0] in the file, for errors
	big bool  // values are big-endian
	err error
}

// NewCursor returns a cursor over b, whose first byte stands at off in the
// file. Values are big-endian if big is set, else little-endian.
func NewCursor(b []byte, off int64, big bool) Cursor {
	return Cursor{b: b, off: off, big: big}
}

// Err returns the first error, a *Error, or nil.
func (c *Cursor) Err() error { return c.err }

// Len returns how many bytes are unread.
func (c *Cursor) Len() int { return len(c.b) }

// Offset returns the position of the next byte in the file.
func (c *Cursor) Offset() int64 { return c.off }

// Big reports whether values are read as big-endian.
func (c *Cursor) Big() bool { return c.big }

// Rest returns the unread bytes and consumes them. They alias the input.
func (c *Cursor) Rest() []byte {
	b := c.b
	c.off += int64(len(b))
	c.b = nil
	return b
}

// Failf records an error at the current position unless there is one already.
func (c *Cursor) Failf(field, format string, args ...any) {
	c.FailAt(c.off, field, format, args...)
}

// FailAt records an error at off unless there is one already.
func (c *Cursor) FailAt(off int64, field, format string, args ...any) {
	if c.err == nil {
		c.err = &Error{Offset: off, Field: field, Why: fmt.Sprintf(format, args...)}
	}
	c.b = nil
}

func (c *Cursor) take(n int, field string) []byte {
	if c.err != nil {
		return nil
	}
	if n < 0 || n > len(c.b) {
		c.Failf(field, "%d bytes wanted, but only %d follow", n, len(c.b))
		return nil
	}
	b := c.b[:n:n]
	c.b = c.b[n:]
	c.off += int64(n)
	return b
}

// Bytes reads n bytes. They alias the input.
func (c *Cursor) Bytes(n int, field string) []byte { return c.take(n, field) }

// Peek returns the next n bytes, or as many as there are, and leaves them
// unread. They alias the input.
func (c *Cursor) Peek(n int) []byte { return c.b[:min(max(n, 0), len(c.b))] }

// Skip skips n bytes.
func (c *Cursor) Skip(n int, field string) { c.take(n, field) }

// Uint8 reads one byte.
func (c *Cursor) Uint8(field string) uint8 {
	b := c.take(1, field)
	if b == nil {
		return 0
	}
	return b[0]
}

// Uint16 reads two bytes.
func (c *Cursor) Uint16(field string) uint16 {
	b := c.take(2, field)
	switch {
	case b == nil:
		return 0
	case c.big:
		return binary.BigEndian.Uint16(b)
	}
	return binary.LittleEndian.Uint16(b)
}

// Uint32 reads four bytes.
func (c *Cursor) Uint32(field string) uint32 {
	b := c.take(4, field)
	switch {
	case b == nil:
		return 0
	case c.big:
		return binary.BigEndian.Uint32(b)
	}
	return binary.LittleEndian.Uint32(b)
}

// Uint64 reads eight bytes.
func (c *Cursor) Uint64(field string) uint64 {
	b := c.take(8, field)
	switch {
	case b == nil:
		return 0
	case c.big:
		return binary.BigEndian.Uint64(b)
	}
	return binary.LittleEndian.Uint64(b)
}

// CString reads a NUL-terminated string and its NUL. Without a NUL it takes
// what is left: names in old files are cut at the end of their record.
func (c *Cursor) CString(field string) string {
	if c.err != nil {
		return ""
	}
	i := bytes.IndexByte(c.b, 0)
	if i < 0 {
		return string(c.take(len(c.b), field))
	}
	s := string(c.b[:i])
	c.take(i+1, field)
	return s
}

// Count reads an 8-byte element count and fails unless that many elements of
// size bytes each can still follow. Use its result, never a raw count, to
// size an allocation.
func (c *Cursor) Count(size int, field string) int {
	at := c.off
	return c.count(at, c.Uint64(field), size, field)
}

// Count32 is Count for a 4-byte count.
func (c *Cursor) Count32(size int, field string) int {
	at := c.off
	return c.count(at, uint64(c.Uint32(field)), size, field)
}

func (c *Cursor) count(at int64, n uint64, size int, field string) int {
	if c.err != nil {
		return 0
	}
	if n > uint64(len(c.b)/max(size, 1)) {
		c.FailAt(at, field, "count %d, but only %d bytes follow", n, len(c.b))
		return 0
	}
	return int(n)
}

// Length32 reads a 4-byte length in bytes of something that follows, not always at once. It
// fails if it is larger than all that is left.
func (c *Cursor) Length32(field string) int {
	at := c.off
	return c.count(at, uint64(c.Uint32(field)), 1, field)
}
