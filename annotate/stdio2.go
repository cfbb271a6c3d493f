package annotate

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/perfark/perfark/disasm"
	"github.com/perfark/perfark/internal/escape"
)

// WriteText prints a listing as perf annotate --stdio2 does: with arrows at
// jumps, the distance from the beginning of the function at their targets, and
// names in place of addresses. Header is the line above it, what was recorded.
func WriteText(w io.Writer, l *Listing, header string, o PageOptions) error {
	b := bufio.NewWriter(w)
	t := &text{Writer: b, page: page{Writer: b, l: l, o: o}}
	t.write(header)
	return b.Flush()
}

type text struct {
	*bufio.Writer
	page        // its Writer is the same
	columns int // width of what was counted
	front   int // width of all in front
	timing  *Timing
	addr    int // width of distances
	short   *Short
	targets map[uint64]bool
}

// field is the width of one column.
func (t *text) field() int {
	if t.o.Value == Period {
		return 12
	}
	return 7
}

func (t *text) write(header string) {
	l, o := t.l, t.o
	start := l.Lines[0].Addr
	t.columns = t.field() * len(o.Columns)
	t.front = t.columns
	if t.timing = o.Cycles.Timing(l); t.timing != nil {
		t.front += ipcWidth + t.cyclesWidth()
	}
	t.addr = len(strconv.FormatUint(l.Func.End-l.Func.Start, 16))
	t.short = NewShort(l.Lines, l.Func.End-l.Func.Start)
	t.targets = map[uint64]bool{}
	for i := range l.Lines {
		x := &l.Lines[i]
		if t.local(x) {
			t.targets[x.Inst.Target] = true
		}
	}
	if o.Lines {
		t.page.summary()
	}
	t.WriteString(header + "\n")
	fmt.Fprintf(t, "%s %s\n", escape.Name(called(l.Func.Name)), escape.Name(o.Object.Path))
	fmt.Fprintf(t, "%-*s%s%*s\n", t.columns, o.Value, t.timingHeading(), 1+t.front, "")
	t.other("")
	t.other("")
	if l.Section != "" {
		t.other("Disassembly of section " + escape.Name(l.Section) + ":")
		t.other("")
	}
	t.other(fmt.Sprintf("%016x <%s>:", start, escape.Name(l.Name)))
	if l.labelled() {
		t.other(escape.Name(l.label() + ":"))
	}
	source := o.walk()
	for i := range l.Lines {
		x := &l.Lines[i]
		for _, s := range source.next(x.Frames) {
			switch {
			case s.place && strings.HasPrefix(s.text, "/"):
			case s.number > 0 && !s.place:
				t.other(sourceText(s.text))
			default:
				t.other(escape.Name(s.text))
			}
		}
		t.instruction(i, x)
	}
}

func (t *text) other(s string) {
	if s == "" {
		fmt.Fprintf(t, "%*s\n", t.front+1+t.front, "")
		return
	}
	fmt.Fprintf(t, "%*s%-*s\n", t.front+1+t.addr+2, "", t.addr+2+t.front-1, s)
}

func (t *text) instruction(i int, x *Line) {
	hit := slices.ContainsFunc(t.o.Columns, func(e int32) bool { return x.Counts[e] != Count{} })
	for _, e := range t.o.Columns {
		c := x.Counts[e]
		percent := t.l.percent(x, e, t.o)
		s := ""
		switch {
		case !hit:
		case t.o.Value == Samples:
			s = fmt.Sprintf("%6d ", c.Samples)
		case t.o.Value == Period:
			s = fmt.Sprintf("%11d ", c.Period)
		default:
			s = fmt.Sprintf("%6.2f ", percent)
		}
		on, off := "", ""
		if s != "" {
			on, off = t.paint(percent)
		}
		fmt.Fprintf(t, "%s%*s%s", on, t.field(), s, off)
	}
	t.WriteString(t.timingOf(i))
	distance := x.Addr - t.l.Lines[0].Addr
	label := ""
	if t.targets[x.Addr] {
		label = strconv.FormatUint(distance, 16) + ":"
	}
	fmt.Fprintf(t, " %*s ", t.addr+1, label)
	arrow := "  "
	switch {
	case x.Inst.Kind == disasm.Call:
		arrow = "→ "
	case x.Inst.Kind == disasm.Return:
		arrow = "← "
	case x.Inst.Kind == disasm.Plain:
	case t.local(x) && x.Inst.Target > x.Addr:
		arrow = "↓ "
	case t.local(x):
		arrow = "↑ "
	default:
		arrow = "→ " // out of the function, or nobody knows where to
	}
	s := t.text(x) + t.o.Runs.At(t.l.place(x)).String()
	fmt.Fprintf(t, "%s%-*s\n", arrow, t.front+t.addr+2+3, s)
}

// Widths of the columns of time, as perf has them.
const (
	ipcWidth        = 6
	cyclesWidth     = 6
	cyclesMoreWidth = 19
	averageWidth    = 36
)

func (t *text) cyclesWidth() int {
	if t.o.MinMax {
		return cyclesMoreWidth
	}
	return cyclesWidth
}

// timingHeading is what stands above the columns of time.
func (t *text) timingHeading() string {
	if t.timing == nil {
		return ""
	}
	name := "Cycle"
	if t.o.MinMax {
		name = "Cycle(min/max)"
	}
	return fmt.Sprintf("%*s %*s %*s", ipcWidth-1, "IPC", t.cyclesWidth()-1, name, averageWidth, t.timing)
}

// timingOf is what stands in the columns of time at an instruction.
func (t *text) timingOf(line int) string {
	if t.timing == nil {
		return ""
	}
	x := &t.timing.Lines[line]
	ipc, cycles := "", ""
	if x.IPC != 0 {
		ipc = fmt.Sprintf("%.2f", x.IPC)
	}
	switch {
	case t.o.MinMax:
		cycles = x.Range()
	case x.Cycles != 0:
		cycles = strconv.FormatUint(x.Cycles, 10)
	}
	return fmt.Sprintf("%*s %*s ", ipcWidth-1, ipc, t.cyclesWidth()-1, cycles)
}

// local reports whether an instruction jumps inside the function.
func (t *text) local(x *Line) bool { return t.short.Local(x) }

// operation parts the text of an instruction in the name of the operation and
// the rest.
func operation(s string) (op, args string) {
	i := strings.IndexAny(s, " \t")
	if i < 0 {
		return s, ""
	}
	return s[:i], strings.TrimLeft(s[i:], " \t")
}

// text is an instruction with names in place of addresses.
func (t *text) text(x *Line) string {
	if t.o.Raw {
		return expandTabs(rawText(x.Bytes[:min(len(x.Bytes), rawBytes(t.o.Machine))], t.o.Machine) + "\t" + escapeText(x.Text))
	}
	return t.short.Text(x)
}

// isNop reports whether an operation of x86 is nop, with the letter of a size
// or without.
func isNop(op string) bool {
	return strings.HasPrefix(op, "nop") && (len(op) == 3 || len(op) == 4 && strings.ContainsRune("bwlq", rune(op[3])))
}

// dataName puts the name of an address that is behind an instruction in the
// place of the operand.
func dataName(args string) string {
	args, comment, ok := strings.Cut(args, "        # ")
	i, j := strings.IndexByte(comment, '<'), strings.LastIndexByte(comment, '>')
	if !ok {
		return args
	}
	name := comment
	if i >= 0 && j > i {
		name = comment[i+1 : j]
	}
	if k := strings.Index(args, "(%rip)"); k >= 0 {
		from := strings.LastIndexAny(args[:k], ", *") + 1
		return args[:from] + name + args[k+len("(%rip)"):]
	}
	if from := strings.Index(args, "[rip"); from >= 0 {
		if to := strings.IndexByte(args[from:], ']'); to > 0 {
			return args[:from] + "[" + name + args[from+to:]
		}
	}
	return args
}
