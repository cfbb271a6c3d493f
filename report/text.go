package report

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/perfark/perfark/internal/escape"
)

// PageOptions says how a page is printed. The zero value is perf's default.
type PageOptions struct {
	Separator    string  // between columns instead of padding; "" for aligned columns. Not "."
	Quiet        bool    // the rows alone
	PercentLimit float64 // rows with less than that are left out
	Header       string  // lines of the recording's header, "" for the line that says how to get them
	Lost         uint64  // samples lost
}

// WritePage writes tables as perf report --stdio does, without its random
// tip; without a table the page ends behind the header. Names are escaped;
// everything else is perf's, byte for byte: see
// hist_entry__snprintf and hists__fprintf in tools/perf/ui.
func WritePage(w io.Writer, tables []*Table, o PageOptions) error {
	bw := bufio.NewWriterSize(w, 64<<10)
	if !o.Quiet {
		if o.Header != "" {
			bw.WriteString(o.Header)
		} else {
			bw.WriteString("# To display the perf.data header info, please use --header/--header-only options.\n#\n")
		}
		if len(tables) == 0 {
			return bw.Flush()
		}
		fmt.Fprintf(bw, "#\n# Total Lost Samples: %d\n#\n", o.Lost)
	}
	for _, t := range tables {
		if !o.Quiet {
			t.writeTitle(bw)
		}
		p := printer{t: t, o: o, w: bw}
		p.widths()
		if !o.Quiet {
			p.heading()
		}
		p.rows()
		bw.WriteString("\n\n")
	}
	if !o.Quiet {
		bw.WriteString("#\n#\n")
	}
	return bw.Flush()
}

// writeTitle writes what was counted, and how often.
func (t *Table) writeTitle(w *bufio.Writer) {
	n, unit := shortCount(t.Samples)
	fmt.Fprintf(w, "# Samples: %d%c of event%s '%s'\n", n, unit, plural(t.Group), escape.Name(t.Title()))
	fmt.Fprintf(w, "# Event count (approx.): %d\n#\n", t.Period)
}

// Title returns the name of the event, or of the group and its events.
func (t *Table) Title() string {
	names := strings.Join(t.Events, ", ")
	if !t.Group {
		return names
	}
	name := t.Name
	if name == "" {
		name = "anon group"
	}
	return name + " { " + names + " }"
}

func plural(many bool) string {
	if many {
		return "s"
	}
	return ""
}

// shortCount returns n as perf prints it: divided by 1000 while it is over
// 1000, and the unit for that.
func shortCount(n uint64) (uint64, byte) {
	f, unit := float64(n), byte(' ')
	for _, u := range []byte("KMG") {
		if f <= 1000 {
			break
		}
		f, unit = f/1000, u
	}
	return uint64(f), unit
}

// unresolvedWidth is how wide perf makes a column for addresses of 64 bits.
const unresolvedWidth = 16

// A printer writes one table.
type printer struct {
	t     *Table
	o     PageOptions
	w     *bufio.Writer
	width []int // per column
	buf   []byte
}

// widths computes the width of each column: that of its heading or of the
// longest entry, in bytes, whether or not its row is printed.
func (p *printer) widths() {
	var comm, thread, dso, symbol int
	for i := range p.t.Rows {
		r := &p.t.Rows[i]
		comm = max(comm, len(escape.Name(r.Comm)))
		thread = max(thread, len(escape.Name(r.Thread)))
		if r.Object >= 0 || r.DSO != UnknownDSO {
			dso = max(dso, len(escape.Name(r.DSO)))
		}
		if r.Symbol != "" {
			symbol = max(symbol, len("[k] ")+len(escape.Name(r.Symbol)))
			continue
		}
		symbol = max(symbol, len("[k] 0x")+unresolvedWidth)
		if p.o.Separator == "" {
			dso = max(dso, unresolvedWidth)
		}
	}
	events := len(p.t.Totals)
	for _, k := range p.t.Columns {
		width := 0
		switch k {
		case Overhead:
			width = 8 * events
		case Samples, Period:
			width = 12 * events
		case PID, TID:
			width = thread + len("1234567:")
		case Comm:
			width = comm
		case DSO:
			width = dso
		case Symbol:
			width = symbol
		}
		p.width = append(p.width, max(width, len(k.heading())))
	}
}

// heading writes the titles of the columns, and the dots that show how wide
// they are unless a separator does.
func (p *printer) heading() {
	sep := p.separator()
	p.w.WriteString("# ")
	for i, k := range p.t.Columns {
		if i > 0 {
			p.w.WriteString(sep)
		}
		if k.counts() {
			fmt.Fprintf(p.w, "%*s", p.width[i], k.heading())
		} else {
			fmt.Fprintf(p.w, "%-*s", p.width[i], k.heading())
		}
	}
	p.w.WriteByte('\n')
	if p.o.Separator != "" {
		return
	}
	p.w.WriteString("# ")
	for i := range p.t.Columns {
		if i > 0 {
			p.w.WriteString(sep)
		}
		p.w.WriteString(strings.Repeat(".", p.width[i]))
	}
	p.w.WriteString("\n#\n")
}

func (p *printer) separator() string {
	if p.o.Separator != "" {
		return p.o.Separator
	}
	return "  "
}

// rows writes the rows. All columns but the last are padded; names other than
// symbols pad themselves, the last one too.
func (p *printer) rows() {
	sep := p.separator()
	for i := range p.t.Rows {
		r := &p.t.Rows[i]
		if p.o.PercentLimit > 0 && p.t.Percent(r, 0) < p.o.PercentLimit {
			continue
		}
		b := p.buf[:0]
		for c, k := range p.t.Columns {
			if c > 0 || p.o.Separator == "" {
				b = append(b, sep...)
			}
			at := len(b)
			b = p.cell(b, r, k)
			if c < len(p.t.Columns)-1 || k != Symbol && !k.counts() {
				for len(b)-at < p.width[c] {
					b = append(b, ' ')
				}
			}
		}
		b = append(b, '\n')
		p.w.Write(b)
		p.buf = b
	}
}

// cell appends the entry of r in the column k.
func (p *printer) cell(b []byte, r *Row, k Key) []byte {
	switch k {
	case Overhead:
		for i := range r.Counts {
			b = append(b, ' ')
			b = p.number(b, strconv.FormatFloat(p.t.Percent(r, i), 'f', 2, 64), 6)
			b = append(b, '%')
		}
	case Samples:
		for _, c := range r.Counts {
			b = append(b, ' ')
			b = p.number(b, strconv.FormatUint(c.Samples, 10), 11)
		}
	case Period:
		for _, c := range r.Counts {
			b = append(b, ' ')
			b = p.number(b, strconv.FormatUint(c.Period, 10), 11)
		}
	case PID, TID:
		b = p.text(b, fmt.Sprintf("%7d:%s", r.TID, escape.Name(r.Thread)))
	case Comm:
		b = p.text(b, escape.Name(r.Comm))
	case DSO:
		b = p.text(b, escape.Name(r.DSO))
	case Symbol:
		b = p.text(b, r.SymbolText())
	case CPU:
		b = p.text(b, fmt.Sprintf("%.3d", r.CPU))
	}
	return b
}

// SymbolText returns what perf prints for the symbol of r, escaped: the level
// and the name, or the address where it has none.
func (r *Row) SymbolText() string {
	level := r.Level
	if level == 0 {
		level = ' '
	}
	if r.Symbol != "" {
		return "[" + string(rune(level)) + "] " + escape.Name(r.Symbol)
	}
	if r.Addr == 0 { // C's %#.16llx writes no 0x before zero
		return fmt.Sprintf("[%c] %.*x", level, unresolvedWidth, r.Addr)
	}
	return fmt.Sprintf("[%c] %#.*x", level, unresolvedWidth, r.Addr)
}

// number appends s, right-justified unless a separator stands between the
// columns.
func (p *printer) number(b []byte, s string, width int) []byte {
	if p.o.Separator == "" {
		for n := len(s); n < width; n++ {
			b = append(b, ' ')
		}
	}
	return append(b, s...)
}

// text appends s with the separator's first character made a dot.
func (p *printer) text(b []byte, s string) []byte {
	if p.o.Separator != "" {
		s = strings.ReplaceAll(s, p.o.Separator[:1], ".")
	}
	return append(b, s...)
}
