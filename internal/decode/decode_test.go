package decode

import (
	"errors"
	"testing"
)

func TestCursor(t *testing.T) {
	le := []byte{1, 2, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 'a', 'b', 0, 'c'}
	be := []byte{1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 'a', 'b', 0, 'c'}
	for i, b := range [][]byte{le, be} {
		c := NewCursor(b, 0x100, i == 1)
		if got := c.Uint8("a"); got != 1 {
			t.Errorf("Uint8 = %d, want 1", got)
		}
		if got := c.Uint16("b"); got != 2 {
			t.Errorf("Uint16 = %d, want 2", got)
		}
		if got := c.Uint32("c"); got != 3 {
			t.Errorf("Uint32 = %d, want 3", got)
		}
		if got := c.Uint64("d"); got != 4 {
			t.Errorf("Uint64 = %d, want 4", got)
		}
		if got := c.CString("e"); got != "ab" {
			t.Errorf("CString = %q, want %q", got, "ab")
		}
		if got := c.CString("f"); got != "c" {
			t.Errorf("CString without NUL = %q, want %q", got, "c")
		}
		if c.Err() != nil || c.Len() != 0 || c.Offset() != 0x100+int64(len(b)) {
			t.Errorf("at the end: err %v, %d bytes, offset %#x", c.Err(), c.Len(), c.Offset())
		}
	}
}

func TestCursorErrors(t *testing.T) {
	tests := []struct {
		name string
		in   []byte
		read func(*Cursor)
		want string
	}{
		{"short", []byte{1}, func(c *Cursor) { c.Uint32("x.y") }, "offset 0x10: x.y: 4 bytes wanted, but only 1 follow"},
		{"first error stays", []byte{1}, func(c *Cursor) { c.Uint64("a"); c.Uint64("b") }, "offset 0x10: a: 8 bytes wanted, but only 1 follow"},
		{"negative", []byte{1}, func(c *Cursor) { c.Bytes(-1, "n") }, "offset 0x10: n: -1 bytes wanted, but only 1 follow"},
		{"count", []byte{0, 0, 0, 0, 0, 0, 0, 16, 7}, func(c *Cursor) { c.Count(8, "nr") }, "offset 0x10: nr: count 1152921504606846976, but only 1 bytes follow"},
		{"count32", []byte{3, 0, 0, 0, 1, 2, 3, 4}, func(c *Cursor) { c.Count32(2, "nr") }, "offset 0x10: nr: count 3, but only 4 bytes follow"},
		{"length", []byte{5, 0, 0, 0, 1, 2, 3, 4}, func(c *Cursor) { c.Length32("len") }, "offset 0x10: len: count 5, but only 4 bytes follow"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := NewCursor(tt.in, 0x10, false)
			tt.read(&c)
			if c.Err() == nil || c.Err().Error() != tt.want {
				t.Errorf("error %v\nwant  %s", c.Err(), tt.want)
			}
			if got := c.Uint8("after"); got != 0 || c.Len() != 0 {
				t.Errorf("after the error: read %d, %d bytes left, want 0, 0", got, c.Len())
			}
		})
	}
}

func TestBudget(t *testing.T) {
	b := NewBudget(Limits{Bytes: 100, Steps: 10, Depth: 2})
	if err := b.Alloc(60, "x"); err != nil {
		t.Fatal(err)
	}
	if got := b.Left(); got != 40 {
		t.Errorf("Left = %d, want 40", got)
	}
	err := b.Alloc(60, "elf: .symtab")
	var le *LimitError
	if !errors.As(err, &le) || le.Want != 120 || le.Option != "--max-input-bytes" {
		t.Errorf("second Alloc: %v", err)
	}
	if got, want := err.Error(), "elf: .symtab: wants 120, over the limit of 100; raise it with --max-input-bytes"; got != want {
		t.Errorf("error %q, want %q", got, want)
	}
	if err := b.Alloc(-1, "x"); err == nil {
		t.Error("a negative Alloc was granted")
	}
	if err := b.Step(11, "x"); err == nil {
		t.Error("11 steps of 10 were granted")
	}
	if b.Depth(2, "x") != nil || b.Depth(3, "x") == nil {
		t.Error("a depth of 2 is allowed, 3 is not")
	}
	if (*Budget)(nil).Alloc(1<<20, "x") != nil || (*Budget)(nil).Alloc(1<<40, "x") == nil {
		t.Error("a nil budget has the default limits")
	}
}
