package annotate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/report"
)

// Cycles tell how long the code of a profile took, from branch stacks with
// cycles. A nil one tells nothing.
type Cycles struct {
	blocks map[report.Function][]report.Block // each in the order of addresses
}

// NewCycles collects what the branch stacks of samples in functions with names
// tell, or those of all samples if their places were not kept; nil if that is
// nothing.
func NewCycles(p *profile.Profile) *Cycles {
	named := func(s *profile.Stretch) bool {
		if s.Location == profile.None {
			return true
		}
		_, _, ok := report.FunctionAt(p, s.Location)
		return ok
	}
	list := report.Blocks(p, named, true)
	if len(list) == 0 {
		return nil
	}
	c := &Cycles{map[report.Function][]report.Block{}}
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].Function == list[0].Function {
			n++
		}
		c.blocks[list[0].Function] = list[:n:n]
		list = list[n:]
	}
	return c
}

// Functions returns the functions of which something is known, by object and
// address.
func (c *Cycles) Functions() []report.Function {
	if c == nil {
		return nil
	}
	return slices.SortedFunc(maps.Keys(c.blocks), func(a, b report.Function) int {
		return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Start, b.Start), cmp.Compare(a.Stop, b.Stop))
	})
}

// A Timing is how long the code of a function took.
type Timing struct {
	IPC      float64 // instructions per cycle, where that is known; 0 if it is nowhere
	Coverage float64 // percent of the instructions of which it is known
	Lines    []LineTiming
}

// A LineTiming is how long the code up to an instruction took.
type LineTiming struct {
	IPC      float64 // instructions per cycle of the block with the instruction; 0: not known
	Cycles   uint64  // average of what ends with this branch, rounded down; 0: nothing was seen to
	Min, Max uint16  // the shortest and the longest time of these
}

// Timing returns how long the code of a listing took, by its lines; nil if
// nothing is known. The numbers are perf's (tools/perf/util/annotate.c,
// annotation__compute_ipc): blocks are gone through from the last on, and an
// instruction has the value of the first that it is in.
func (c *Cycles) Timing(l *Listing) *Timing {
	if c == nil {
		return nil
	}
	blocks := c.blocks[l.key()]
	if len(blocks) == 0 {
		return nil
	}
	t := &Timing{Lines: make([]LineTiming, len(l.Lines))}
	var instructions, cycles uint64
	covered := 0
	for _, b := range slices.Backward(blocks) {
		end := l.lineAt(b.End + 1)
		if b.Known {
			begin := l.lineAt(b.Begin)
			n := uint64(end - begin)
			value := float64(float32(float64(n) / (float64(b.Cycles) / float64(b.Count))))
			fresh := 0
			for i := begin; i < end; i++ {
				if t.Lines[i].IPC == 0 && n > 0 {
					t.Lines[i].IPC = value
					fresh++
				}
			}
			if fresh > 0 {
				covered += fresh
				cycles += b.Cycles
				instructions += n * b.Count
			}
		}
		if end > 0 && l.place(&l.Lines[end-1]) == b.End {
			x := &t.Lines[end-1]
			x.Cycles, x.Min, x.Max = b.AllCycles/b.AllCount, b.Min, b.Max
		}
	}
	if cycles > 0 {
		t.IPC = float64(instructions) / float64(cycles)
	}
	t.Coverage = 100 * float64(covered) / float64(len(l.Lines))
	return t
}

// lineAt returns the first line at or behind an address, in the space of
// Location.Addr.
func (l *Listing) lineAt(addr uint64) int {
	n, _ := slices.BinarySearchFunc(l.Lines, addr, func(x Line, addr uint64) int {
		switch at := l.place(&x); {
		case at < addr:
			return -1
		case at > addr:
			return 1
		}
		return 0
	})
	return n
}

// String is the line that perf has above the code.
func (t *Timing) String() string {
	return fmt.Sprintf("(Average IPC: %.2f, IPC Coverage: %.1f%%)", t.IPC, t.Coverage)
}

// Range is the average with the shortest and the longest time; "" if nothing
// was seen to end there.
func (t *LineTiming) Range() string {
	if t.Cycles == 0 {
		return ""
	}
	return fmt.Sprintf("%d(%d/%d)", t.Cycles, t.Min, t.Max)
}

// Timing reads the code of a function, and returns how long it took; nil
// if nothing is known. It looks up no source lines.
func (c *Code) Timing(ctx context.Context, fn *Function, by *Cycles) (*Timing, error) {
	if by == nil || len(by.blocks[fn.key()]) == 0 {
		return nil, nil
	}
	l, err := c.read(ctx, fn)
	if err != nil {
		return nil, err
	}
	return by.Timing(l), nil
}

func (f *Function) key() report.Function {
	return report.Function{Object: f.Object, Start: f.Func.Start, Stop: f.Func.End}
}
