package annotate

import (
	"bufio"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/perfark/perfark/internal/escape"
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

// PageOptions say how listings are printed.
type PageOptions struct {
	Value       Value
	Type        PercentType
	FullPath    bool // print the paths of objects, not their names
	Raw         bool // print the bytes of instructions
	Lines       bool // print a table of the source lines, and the line behind an instruction
	NoSource    bool // leave out source lines
	Source      func(file string) []string
	Events      []profile.Event // the columns
	Section     string
	ObjectName  string // as printed
	ObjectLong  string
	MinColor    float64
	LineColours bool
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
}

func (p *page) write() {
	l, o := p.l, p.o
	p.digits = len(fmt.Sprintf("%x", l.Lines[len(l.Lines)-1].Addr))
	width := 8 * len(l.Total)
	if o.Value == Period {
		width = 12 * len(l.Total)
	}
	title := map[Value]string{Percent: "Percent", Samples: "Samples", Period: "Period"}[o.Value]
	name := o.ObjectLong
	if !o.FullPath {
		name = path.Base(name)
	}
	var events []string
	var samples uint64
	for i := range l.Total {
		events = append(events, o.Events[i].Name)
		samples += l.Total[i].Samples
	}
	head := fmt.Sprintf(" %-*.*s|\tSource code & Disassembly of %s for %s (%d samples, percent: %s)",
		width, width, title, escape.Name(name), escape.Name(strings.Join(events, ", ")), samples, o.Type)
	p.WriteString(head + "\n")
	dashes := len(head) + 1 + 4
	p.WriteString(strings.Repeat("-", dashes) + "\n")

	first := &l.Lines[0]
	for range 3 {
		p.other(width, "")
	}
	p.other(width, "Disassembly of section "+escape.Name(o.Section)+":")
	p.other(width, "")
	p.other(width, fmt.Sprintf("%016x <%s>:", first.Addr, escape.Name(l.Func.Name)))
	if len(first.Frames) == 0 || first.Frames[0].Func == "" {
		p.other(width, strings.TrimSuffix(escape.Name(l.Func.Name), "()")+"():")
	}
	source := newSourceWalk(func(file string) []string {
		if o.Source == nil || o.NoSource {
			return nil
		}
		return o.Source(file)
	})
	for i := range l.Lines {
		x := &l.Lines[i]
		for _, s := range source.next(x.Frames) {
			switch {
			case s.place && strings.HasPrefix(s.text, "/"):
				p.number = s.number // perf counts on from there, and does not print it
			case s.number > 0 && !s.place:
				p.number = s.number
				p.other(width, escape.Name(strings.TrimLeft(s.text, " \t")))
			default:
				p.other(width, escape.Name(s.text))
			}
		}
		for e := range x.Counts {
			p.value(x, e)
		}
		p.WriteString(" :   " + p.instruction(x) + "\n")
		p.number++
	}
}

// other prints a line that is no instruction.
func (p *page) other(width int, text string) {
	p.WriteString(" " + strings.Repeat(" ", width) + ":")
	if text != "" {
		fmt.Fprintf(p, " %-*d %s", p.digits, p.number, text)
	}
	p.WriteString("\n")
	p.number++
}

// value prints what was counted of an event.
func (p *page) value(x *Line, e int) {
	c := x.Counts[e]
	switch p.o.Value {
	case Samples:
		fmt.Fprintf(p, " %7d", c.Samples)
	case Period:
		fmt.Fprintf(p, " %11d", c.Period)
	default:
		fmt.Fprintf(p, " %7.2f", p.l.Percent(x, e, p.o))
	}
}

// Percent returns the share of an instruction in what was counted of an event.
func (l *Listing) Percent(x *Line, e int, o PageOptions) float64 {
	part, whole := x.Counts[e].Period, l.Total[e].Period
	switch o.Type {
	case LocalHits:
		part, whole = x.Counts[e].Samples, l.Total[e].Samples
	case GlobalPeriod:
		whole = o.Events[e].Period
	case GlobalHits:
		part, whole = x.Counts[e].Samples, o.Events[e].Samples
	}
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

// instruction is an instruction as objdump prints it, behind its address.
func (p *page) instruction(x *Line) string {
	addr := fmt.Sprintf("%*x", p.digits, x.Addr)
	pad := len(addr) - len(strings.TrimLeft(addr, " "))
	text := fmt.Sprintf("%x:\t", x.Addr)
	if p.o.Raw {
		for _, c := range x.Bytes {
			text += fmt.Sprintf("%02x ", c)
		}
		text = text[:len(text)-1] + "\t"
	}
	return strings.Repeat(" ", pad) + expandTabs(text+escape.Name(x.Text))
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
