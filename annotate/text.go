package annotate

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
)

// PercentType says what a line's percentage is of.
type PercentType uint8

// The types.
const (
	LocalPeriod  PercentType = iota // the period of the function
	LocalHits                       // its number of samples
	GlobalPeriod                    // the period of the event
	GlobalHits                      // its number of samples
)

var percentTypes = [...]string{"local period", "local hits", "global period", "global hits"}

func (t PercentType) String() string { return percentTypes[t] }

// ParsePercentType parses perf's words: local-period and the like, in either
// order.
func ParsePercentType(s string) (PercentType, error) {
	for i, name := range percentTypes {
		a, b, _ := strings.Cut(name, " ")
		if s == a+"-"+b || s == b+"-"+a {
			return PercentType(i), nil
		}
	}
	return 0, fmt.Errorf("%q: not local-period, local-hits, global-period or global-hits", s)
}

// A Value is what stands in front of an instruction.
type Value uint8

// The values.
const (
	Percent Value = iota
	Samples
	Period
)

// String is the heading of its column.
func (v Value) String() string { return [...]string{"Percent", "Samples", "Period"}[v] }

// PageOptions say how listings are printed.
type PageOptions struct {
	Value   Value
	Type    PercentType
	Events  []profile.Event // of the profile
	Columns []int32         // events that are shown side by side
	Title   string          // of the columns; "": the name of the first
	Object  *profile.Object // with the function
	Machine objfile.Machine // of its code

	FullPath bool // print the paths of objects and sources, not their names
	Raw      bool // print the bytes of instructions
	Lines    bool // print a table of the source lines, and the line behind an instruction
	Inlined  bool // say where code that was put into another function is called
	Color    bool
	Runs     *Runs                      // of the object; nil: nothing is known
	Cycles   *Cycles                    // of the profile: how long code took, for WriteText and Document; nil: nothing is known
	MinMax   bool                       // with the average of cycles print the least and the most
	Source   func(file string) []string // lines of a source file, nil if it is not to be had; nil: none is shown
}

// WritePage prints a listing as perf annotate --stdio does.
func WritePage(w io.Writer, l *Listing, o PageOptions) error {
	b := bufio.NewWriter(w)
	p := &page{Writer: b, l: l, o: o}
	p.write()
	return b.Flush()
}

type page struct {
	*bufio.Writer
	l      *Listing
	o      PageOptions
	digits int // of the last address
	number int // of the line, as perf counts them
	width  int // of the columns
	last   string
}

func (p *page) write() {
	l, o := p.l, p.o
	p.digits = len(fmt.Sprintf("%x", l.Lines[len(l.Lines)-1].Addr))
	p.width = 8 * len(o.Columns)
	if o.Value == Period {
		p.width = 12 * len(o.Columns)
	}
	if o.Lines {
		p.summary()
	}
	name := o.Object.Path
	if !o.FullPath {
		name = path.Base(name)
	}
	head := fmt.Sprintf(" %-*.*s|\tSource code & Disassembly of %s for %s (%d samples, percent: %s)",
		p.width, p.width, o.Value, escape.Name(name), escape.Name(o.title()), l.samples(o.Columns), o.Type)
	p.WriteString(head + "\n")
	p.WriteString(strings.Repeat("-", len(head)+1+4) + "\n")
	for range 3 {
		p.other("")
	}
	if l.Section != "" { // code that is in no file has none
		p.other("Disassembly of section " + escape.Name(l.Section) + ":")
		p.other("")
	}
	p.other(fmt.Sprintf("%016x <%s>:", l.Lines[0].Addr, escape.Name(l.Name)))
	if l.labelled() {
		p.other(escape.Name(l.label() + ":"))
	}
	source := o.walk()
	for i := range l.Lines {
		x := &l.Lines[i]
		for _, s := range source.next(x.Frames) {
			switch {
			case s.call:
				n := p.number // perf has no such lines
				p.other(escape.Name(s.text))
				p.number = n
			case s.place && strings.HasPrefix(s.text, "/"):
				p.number = s.number // perf counts on from there, and does not print it
			case s.number > 0 && !s.place:
				p.number = s.number
				p.other(sourceText(s.text))
			default:
				p.other(escape.Name(s.text))
			}
		}
		p.instruction(x)
	}
}

// walk returns what gives the source lines between instructions.
func (o *PageOptions) walk() *sourceWalk {
	w := newSourceWalk(o.Source)
	w.calls, w.name = o.Inlined, path.Base
	if o.FullPath {
		w.name = func(file string) string { return file }
	}
	return w
}

// labelled reports whether the function is named above its code, where no
// debug information does that. Slots of the dynamic linker are not.
func (l *Listing) labelled() bool {
	x := &l.Lines[0]
	return (len(x.Frames) == 0 || x.Frames[0].Func == "") && !strings.HasPrefix(l.Section, ".plt")
}

// called is the name of a function with the parentheses that perf puts behind
// it, for which some names have them already.
func called(name string) string {
	if strings.HasSuffix(name, "operator()") {
		return name + "()"
	}
	return strings.TrimSuffix(name, "()") + "()"
}

// label is the function as objdump writes it above its code.
func (l *Listing) label() string {
	if full := objfile.DemangleFull(l.Func.Linkage); full != l.Func.Linkage {
		return full
	}
	return called(l.Func.Name)
}

// sourceText is a line of source without what is before and behind it.
func sourceText(s string) string {
	return escapeText(expandTabs(strings.Trim(s, " \t\r\f\v")))
}

func (o *PageOptions) title() string {
	if o.Title != "" {
		return o.Title
	}
	return o.Events[o.Columns[0]].Name
}

// samples is how many samples of some events are in the function; as perf has
// it, those of the first alone.
func (l *Listing) samples(columns []int32) uint64 { return l.Total[columns[0]].Samples }

// other prints a line that is no instruction.
func (p *page) other(text string) {
	p.WriteString(" " + strings.Repeat(" ", p.width) + ":")
	if text != "" {
		fmt.Fprintf(p, " %-*d %s", p.digits, p.number, text)
	}
	p.WriteString("\n")
	p.number++
}

// instruction prints an instruction, with the samples in front and what
// branches tell behind. Its bytes take as many lines as they need.
func (p *page) instruction(x *Line) {
	for _, e := range p.o.Columns {
		c := x.Counts[e]
		percent := p.l.percent(x, e, p.o)
		color, off := p.paint(percent)
		switch p.o.Value {
		case Samples:
			fmt.Fprintf(p, "%s %7d%s", color, c.Samples, off)
		case Period:
			fmt.Fprintf(p, "%s %11d%s", color, c.Period, off)
		default:
			fmt.Fprintf(p, "%s %7.2f%s", color, percent, off)
		}
	}
	rest := x.Bytes
	text := fmt.Sprintf("%x:\t", x.Addr)
	if p.o.Raw {
		n := min(rawBytes(p.o.Machine), len(rest))
		text += rawText(rest[:n], p.o.Machine) + "\t"
		rest = rest[n:]
	}
	p.WriteString(" : " + p.code(x.Addr, expandTabs(text+escapeText(x.Text))) + p.o.Runs.At(p.l.place(x)).String() + p.behind(x) + "\n")
	p.number++
	for p.o.Raw && len(rest) > 0 {
		n := min(rawBytes(p.o.Machine), len(rest))
		at := x.Addr + uint64(len(x.Bytes)-len(rest))
		for range p.o.Columns {
			switch p.o.Value {
			case Samples:
				fmt.Fprintf(p, " %7d", 0)
			case Period:
				fmt.Fprintf(p, " %11d", 0)
			default:
				fmt.Fprintf(p, " %7.2f", 0.0)
			}
		}
		p.WriteString(" : " + p.code(at, expandTabs(fmt.Sprintf("%x:\t", at)+strings.TrimRight(rawText(rest[:n], p.o.Machine), " "))) + "\n")
		rest = rest[n:]
		p.number++
	}
}

// code is an address, such that all end in one column, and what is there, in
// perf's colours.
func (p *page) code(addr uint64, text string) string {
	at, rest, _ := strings.Cut(text, ":")
	at = "  " + strings.Repeat(" ", max(p.digits-len(fmt.Sprintf("%x", addr)), 0)) + at + ":"
	if !p.o.Color {
		return at + rest
	}
	return "\x1b[35m" + at + "\x1b[m\x1b[34m" + rest + "\x1b[m"
}

// behind is the source line that -l prints behind an instruction.
func (p *page) behind(x *Line) string {
	if !p.o.Lines {
		return ""
	}
	line := p.lineOf(x)
	if line == "" || line == p.last {
		return ""
	}
	p.last = line
	on, off := p.paint(p.l.percent(x, p.o.Columns[len(p.o.Columns)-1], p.o)) // as perf has it
	return on + " // " + escape.Name(line) + off
}

// lineOf is the source line of an instruction that the table of lines counts,
// "??:0" if nobody knows it; "" if the instruction has too little.
func (p *page) lineOf(x *Line) string {
	for _, e := range p.o.Columns {
		if p.l.percent(x, e, p.o) > leastLine {
			if len(x.Frames) == 0 || x.Frames[0].File == "" {
				return "??:0"
			}
			return p.file(x.Frames[0])
		}
	}
	return ""
}

func (p *page) file(f Frame) string {
	name := f.File
	if !p.o.FullPath {
		name = path.Base(name)
	}
	return fmt.Sprintf("%s:%d", name, f.Line)
}

// leastLine is the percentage that instructions need to count in the table of
// lines.
const leastLine = 0.5

// summary prints the table of source lines.
func (p *page) summary() {
	type row struct {
		line    string
		percent []float64
	}
	var rows []*row
	of := map[string]*row{}
	for i := range p.l.Lines {
		x := &p.l.Lines[i]
		line := p.lineOf(x)
		if line == "" {
			continue
		}
		r := of[line]
		if r == nil {
			r = &row{line, make([]float64, len(p.o.Columns))}
			of[line] = r
			rows = append(rows, r)
		}
		for k, e := range p.o.Columns {
			r.percent[k] += p.l.percent(x, e, p.o)
		}
	}
	slices.SortStableFunc(rows, func(a, b *row) int {
		return cmp.Or(slices.Compare(b.percent, a.percent), cmp.Compare(b.line, a.line)) // equal ones as perf has them
	})
	fmt.Fprintf(p, "\nSorted summary for file %s\n----------------------------------------------\n\n", escape.Name(p.o.Object.Path))
	if len(rows) == 0 {
		p.WriteString(" Nothing higher than 0.5%\n")
	}
	for _, r := range rows {
		for _, x := range r.percent {
			color, off := p.paint(x)
			fmt.Fprintf(p, "%s %7.2f%s", color, x, off)
		}
		color, off := p.paint(slices.Max(r.percent))
		fmt.Fprintf(p, "%s %s\n%s", color, escape.Name(r.line), off)
	}
}

// paint returns what makes a percentage red or green, and what ends it.
func (p *page) paint(percent float64) (on, off string) {
	switch {
	case !p.o.Color:
	case percent >= 5:
		return "\x1b[31m", "\x1b[m"
	case percent >= 0.5:
		return "\x1b[32m", "\x1b[m"
	}
	return "", ""
}

// percent returns the share of an instruction in what was counted of an event.
func (l *Listing) percent(x *Line, e int32, o PageOptions) float64 {
	return o.Type.Share(x.Counts[e], l.Total[e], Count{o.Events[e].Samples, o.Events[e].Period})
}

// Share returns the percentage of a part of a function in what was counted of
// an event in the function, or in all; 0 if that is nothing.
func (t PercentType) Share(part, function, event Count) float64 {
	whole := function
	if t == GlobalPeriod || t == GlobalHits {
		whole = event
	}
	n, all := part.Period, whole.Period
	if t == LocalHits || t == GlobalHits {
		n, all = part.Samples, whole.Samples
	}
	if all == 0 {
		return 0
	}
	return 100 * float64(n) / float64(all)
}

// rawBytes is how many bytes of an instruction objdump prints in a line.
func rawBytes(m objfile.Machine) int {
	switch m {
	case objfile.MachineX86_64, objfile.Machine386:
		return 7
	case objfile.MachineS390:
		return 6
	}
	return 4
}

// rawText is bytes as objdump prints them in front of an instruction.
func rawText(b []byte, m objfile.Machine) string {
	switch m {
	case objfile.MachineAArch64, objfile.MachineARM, objfile.MachineRISCV, objfile.MachineLoong:
		if len(b) == 4 {
			return fmt.Sprintf("%02x%02x%02x%02x ", b[3], b[2], b[1], b[0])
		}
	}
	var s strings.Builder
	for _, c := range b {
		fmt.Fprintf(&s, "%02x ", c)
	}
	return fmt.Sprintf("%-*s", 3*rawBytes(m), s.String())
}

// escapeText is the text of an instruction, in which tabs are as they are.
func escapeText(s string) string {
	parts := strings.Split(s, "\t")
	for i := range parts {
		parts[i] = escape.Name(parts[i])
	}
	return strings.Join(parts, "\t")
}

// expandTabs puts blanks up to the next multiple of eight in place of tabs.
func expandTabs(s string) string {
	if strings.IndexByte(s, '\t') < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if r == '\t' {
			b.WriteString("        "[b.Len()%8:])
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
