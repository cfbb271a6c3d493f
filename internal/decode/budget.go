package decode

import (
	"fmt"
	"sync/atomic"
)

// Limits bounds what one input may cost. The zero value uses the defaults;
// there is no "unlimited".
type Limits struct {
	Bytes int64 // decompressed or allocated bytes; 0 means 4 GiB (--max-input-bytes)
	Steps int64 // loop iterations not paid for by input bytes; 0 means 1<<32 (--max-input-steps)
	Depth int   // nesting; 0 means 64 (--max-input-depth)
}

// A LimitError says that an input wanted more than its budget.
type LimitError struct {
	What   string // what wanted it, such as "elf: .debug_info"
	Limit  int64  // the limit it hit
	Want   int64  // the total it wanted
	Option string // the flag that raises the limit
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s: wants %d, over the limit of %d; raise it with %s", e.What, e.Want, e.Limit, e.Option)
}

// A Budget is what is left of the Limits of one input. It is shared by all
// readers of that input and safe for concurrent use. A nil *Budget has the
// default limits for each single call.
type Budget struct {
	lim   Limits
	bytes atomic.Int64
	steps atomic.Int64
}

// NewBudget returns a budget for one input.
func NewBudget(l Limits) *Budget {
	b := &Budget{lim: l.withDefaults()}
	return b
}

func (l Limits) withDefaults() Limits {
	if l.Bytes <= 0 {
		l.Bytes = 4 << 30
	}
	if l.Steps <= 0 {
		l.Steps = 1 << 32
	}
	if l.Depth <= 0 {
		l.Depth = 64
	}
	return l
}

// Alloc asks for n bytes; call it before allocating them. The error is a
// *LimitError.
func (b *Budget) Alloc(n int64, what string) error {
	if b == nil {
		return check(n, Limits{}.withDefaults().Bytes, what, "--max-input-bytes")
	}
	if n < 0 {
		return check(n, b.lim.Bytes, what, "--max-input-bytes")
	}
	return check(b.bytes.Add(n), b.lim.Bytes, what, "--max-input-bytes")
}

// Free gives back n bytes that were asked for with Alloc.
func (b *Budget) Free(n int64) {
	if b != nil {
		b.bytes.Add(-n)
	}
}

// Step asks for n steps of work. The error is a *LimitError.
func (b *Budget) Step(n int64, what string) error {
	if b == nil {
		return check(n, Limits{}.withDefaults().Steps, what, "--max-input-steps")
	}
	return check(b.steps.Add(n), b.lim.Steps, what, "--max-input-steps")
}

// Depth fails if depth is over the limit. The error is a *LimitError.
func (b *Budget) Depth(depth int, what string) error {
	lim := Limits{}.withDefaults().Depth
	if b != nil {
		lim = b.lim.Depth
	}
	return check(int64(depth), int64(lim), what, "--max-input-depth")
}

// Left returns how many bytes may still be asked for.
func (b *Budget) Left() int64 {
	if b == nil {
		return Limits{}.withDefaults().Bytes
	}
	return max(b.lim.Bytes-b.bytes.Load(), 0)
}

func check(want, limit int64, what, option string) error {
	if want < 0 || want > limit {
		return &LimitError{What: what, Limit: limit, Want: want, Option: option}
	}
	return nil
}
