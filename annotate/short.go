package annotate

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/perfark/perfark/disasm"
)

// A Short writes the instructions of a function in short, as perf annotate has
// them with --stdio2 and on a terminal: names of operations in a column, and
// names or distances in place of addresses.
type Short struct {
	start, size uint64
	name        int // width of names of operations
}

// NewShort returns what writes these instructions of a function of so many
// bytes, of which there is one at least.
func NewShort(lines []Line, size uint64) *Short {
	s := &Short{start: lines[0].Addr, size: size}
	for i := range lines {
		op, _ := operation(lines[i].Text)
		s.name = max(s.name, len(op))
	}
	return s
}

// Local reports whether an instruction jumps inside the function.
func (s *Short) Local(x *Line) bool {
	k := x.Inst.Kind
	if k != disasm.Jump && k != disasm.Branch || !x.Inst.HasTarget {
		return false
	}
	return x.Inst.Target >= s.start && x.Inst.Target-s.start < s.size
}

// Text is an instruction with names in place of addresses, escaped.
func (s *Short) Text(x *Line) string {
	op, args := operation(x.Text)
	switch {
	case isNop(op):
		return fmt.Sprintf("%-*s", s.name, "nop") // as perf, whatever its operands are
	case s.Local(x):
		if i := strings.LastIndexAny(args[:max(strings.Index(args, " <"), 0)], ", "); i >= 0 {
			args = args[:i+1] // a register that the jump looks at
		} else {
			args = ""
		}
		args += strconv.FormatUint(x.Inst.Target-s.start, 16)
	case x.Inst.HasTarget:
		if i, j := strings.LastIndex(args, " <"), strings.LastIndexByte(args, '>'); i >= 0 && j > i {
			before := args[:i]
			args = before[:strings.LastIndexAny(before, ", ")+1] + args[i+2:j]
		}
	case x.Inst.HasData && x.Inst.Kind == disasm.Plain: // as perf, which leaves calls and jumps by way of memory as they are
		args = dataName(args)
	}
	return s.join(op, args)
}

// Whole is an instruction as it was listed, escaped.
func (s *Short) Whole(x *Line) string { return s.join(operation(x.Text)) }

func (s *Short) join(op, args string) string {
	if args == "" {
		return escapeText(op)
	}
	return expandTabs(fmt.Sprintf("%-*s %s", s.name, escapeText(op), escapeText(args)))
}
