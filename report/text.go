package report

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/perfark/perfark/internal/crew"
	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/profile"
)

// PageOptions says how a page is printed. The zero value is perf's default.
type PageOptions struct {
	Separator    string  // between columns instead of padding; "" for aligned columns. Not "."
	Quiet        bool    // the rows alone
	PercentLimit float64 // rows with less than that are left out
	Header       string  // lines of the recording's header, "" for the line that says how to get them
	Lost         uint64  // samples lost
	Widths       []int   // of the columns, in order; 0 or none: as wide as what is in it
	Color        bool    // percentages are coloured as on a terminal
	Slices       string  // the parts of the recording that were counted, as --time named them; "" for all
	Verbose      bool    // paths instead of names of objects, and addresses in front of symbols

	Blocks *BlockTable // printed in place of the rows; nil: rows are

	// Origin returns the letter for where the names of an object, by index,
	// are from, with Verbose; nil means '!' everywhere.
	Origin func(object int32) byte
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
		for _, s := range tables[0].elided() {
			bw.WriteString(s)
		}
		fmt.Fprintf(bw, "#\n# Total Lost Samples: %d\n#\n", o.Lost)
	}
	for _, t := range tables {
		if !o.Quiet {
			t.writeTitle(bw, o.Slices)
		}
		if o.Blocks != nil {
			o.Blocks.write(bw, t, o)
			continue
		}
		p := newPrinter(t, o, bw)
		if t.Tiered() {
			p.hierarchy()
		} else {
			if !o.Quiet {
				p.heading()
			}
			p.rows()
		}
		bw.WriteString("\n\n")
	}
	if !o.Quiet {
		bw.WriteString("#\n#\n")
	}
	return bw.Flush()
}

// chosen returns the values of a key that the filter leaves; nil for any.
func (f *Filter) chosen(k Key) []string {
	switch k {
	case DSO:
		return f.DSOs
	case Comm:
		return f.Comms
	case Symbol:
		names, _ := f.symbols()
		return names
	case Cgroup:
		return f.Cgroups
	}
	return nil
}

// elided returns the lines that stand for columns with one value, in the order
// of the columns.
func (t *Table) elided() []string {
	var out []string
	for _, k := range t.Columns {
		if list := t.b.o.Filter.chosen(k); len(list) == 1 {
			out = append(out, "# "+k.String()+": "+escape.Name(list[0])+"\n")
		}
	}
	return out
}

// visible returns the columns that are printed: all but those with one value,
// which the filter has. All are if that leaves no key at all, and in a tree of
// the keys.
func (t *Table) visible() []Key {
	var out []Key
	keys := 0
	for _, k := range t.Columns {
		if len(t.b.o.Filter.chosen(k)) == 1 {
			continue
		}
		if !k.counts() {
			keys++
		}
		out = append(out, k)
	}
	if keys == 0 || t.b.o.Hierarchy {
		return t.Columns
	}
	return out
}

// writeTitle writes what was counted, and how often.
func (t *Table) writeTitle(w *bufio.Writer, times string) {
	n, unit := shortCount(t.Samples)
	fmt.Fprintf(w, "# Samples: %d%c of event%s '%s'", n, unit, plural(t.Group), escape.Name(t.Title()))
	if times != "" {
		fmt.Fprintf(w, " (time slices: %s)", escape.Name(times))
	}
	if o := t.b.o; o.Memory {
		fmt.Fprintf(w, "\n# Total weight : %d\n# Sort order   : %s\n", t.Period, escape.Name(cmp.Or(o.SortOrder, defaultMemText)))
	} else {
		fmt.Fprintf(w, "\n# Event count (approx.): %d\n", t.Period)
	}
	if f := &t.b.o.Filter; len(f.Sockets) == 1 {
		fmt.Fprintf(w, "# Processor Socket: %d\n", f.Sockets[0])
	}
	w.WriteString("#\n")
}

// defaultMemText is DefaultMemSort in perf's words.
const defaultMemText = "local_weight,mem,sym,dso,symbol_daddr,dso_daddr,snoop,tlb,locked,blocked,local_ins_lat,local_p_stage_cyc"

// Title returns the name of the event, or of the group and its events.
func (t *Table) Title() string {
	names := strings.Join(t.Events, ", ")
	if !t.Group || t.Forced {
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
	t       *Table
	b       *builder
	o       PageOptions
	w       *bufio.Writer
	columns []Key
	width   []int // per column
	user    []bool
	narrow  bool // there are PageOptions.Widths: none is for addresses
}

func newPrinter(t *Table, o PageOptions, w *bufio.Writer) *printer {
	p := &printer{t: t, b: t.b, o: o, w: w, columns: t.visible(), narrow: len(o.Widths) > 0}
	if t.Tiered() {
		p.o.Widths = nil // as perf, whose levels have one width
	}
	p.widths()
	return p
}

// maxWidth is how wide a column gets for its entries: longer ones are printed
// whole, but the other rows are not filled up for them.
const maxWidth = 4096

// widths computes the width of each column: that of its heading or of the
// longest entry, in bytes, whether or not its row is printed.
func (p *printer) widths() {
	p.width = make([]int, len(p.columns))
	p.user = make([]bool, len(p.columns))
	dso, bare := -1, false
	for c, k := range p.columns {
		p.width[c] = max(p.minWidth(k), len(p.t.heading(k)))
		if c < len(p.o.Widths) && p.o.Widths[c] > 0 {
			p.width[c], p.user[c] = p.o.Widths[c], true
			if k.counts() {
				p.width[c] = max(p.width[c], len(p.t.heading(k)))
				if len(p.t.Totals) > 1 {
					p.width[c] = max(p.width[c], p.minWidth(k))
				}
			}
			continue
		}
		if k == DSO {
			dso = c
		}
		w, b := p.longest(k)
		p.width[c] = max(p.width[c], min(w, maxWidth))
		bare = bare || b
	}
	for i := 0; i < len(p.t.rows) && dso >= 0 && !bare; i++ {
		bare = p.b.s.funcIndex(p.t.rows[i].place) == profile.None // without a column of symbols, too
	}
	if bare && dso >= 0 && p.o.Separator == "" && !p.narrow && p.b.o.Filter.DSOs == nil {
		p.width[dso] = max(p.width[dso], unresolvedWidth)
	}
}

// longest returns the length of the longest entry in a column that is as wide
// as that, and whether there are addresses without a symbol in it.
func (p *printer) longest(k Key) (width int, bare bool) {
	switch k {
	case Symbol:
		return p.longestSymbol()
	case Comm, PID, TID, Cgroup, DSOFrom, DSOTo, DSOData, SymbolFrom, SymbolTo, SymbolData, CacheLine, SrclineFrom, SrclineTo, Parent,
		DSO, SymbolCode, Srcline, Srcfile, SymbolOffset, Addr, AddrFrom, AddrTo, Trace:
	default:
		if k.field() < 0 {
			return 0, false
		}
	}
	// Rows have few values of most keys: each is looked at once.
	var dims []dim
	set, tail := &p.b.headSet, k.kind() == ofPlace
	dims = p.b.heads
	if tail {
		dims, set = p.b.tails, &p.b.tailSet
	}
	at := -1
	for i := range dims {
		if dims[i].key == k {
			at = i
		}
	}
	seen := make(map[int32]bool)
	var buf []byte
	for i := range p.t.rows {
		r := &p.t.rows[i]
		n := r.head
		if tail {
			n = r.tail
		}
		code := set.tuple(n)[at]
		if i > 0 && seen[code] {
			continue
		}
		seen[code] = true
		if k == DSO && p.b.s.location(r.place).Object == profile.None && p.b.s.dso(p.b.s.location(r.place)).name == UnknownDSO {
			continue
		}
		buf = p.entry(buf[:0], r, k)
		width = max(width, len(buf), p.dataWidth(r, k))
	}
	return width, false
}

// dataWidth is how wide perf makes the columns of memory accesses for a row,
// whatever stands in them.
func (p *printer) dataWidth(r *row, k Key) int {
	switch k {
	case SymbolCode:
		if f := p.b.s.function(r.place); f != nil {
			return len("[k] 0x") + unresolvedWidth + len(escape.Name(f.Name))
		}
		return len("[k] 0x") + unresolvedWidth
	case DSOData, SymbolData, CacheLine:
	default:
		return 0
	}
	data := int32(profile.None)
	if e := p.b.extra(&p.b.p.Samples[r.sample]); e != nil {
		data = e.Data
	}
	switch {
	case k == DSOData:
		if p.o.Separator == "" && (data == profile.None || p.b.p.Locations[data].Object == profile.None) {
			return unresolvedWidth
		}
	case data != profile.None:
		if f := p.b.s.function(data); f != nil {
			w := len("[k] 0x") + unresolvedWidth + len(escape.Name(f.Name))
			if k == CacheLine {
				w++
			}
			return w
		}
	}
	return 0
}

// longestSymbol is longest for the column of symbols.
func (p *printer) longestSymbol() (width int, bare bool) {
	extra := 0
	if p.o.Verbose {
		extra = len("0x0123456789abcdef k ")
	}
	known := make([]int32, len(p.b.p.Functions)) // length of the name
	for i := range p.t.rows {
		r := &p.t.rows[i]
		f := p.b.s.funcIndex(r.place)
		if f == profile.None {
			bare = true
			width = max(width, len("[k] 0x")+unresolvedWidth+extra)
			continue
		}
		if known[f] == 0 {
			known[f] = int32(len("[k] ") + len(escape.Name(p.b.p.Functions[f].Name)))
		}
		n := int(known[f])
		if p.b.s.inlined(r.place) {
			n += len(" (inlined)")
		}
		width = max(width, n+extra)
	}
	return width, bare
}

// minWidth returns how wide a column is at least.
func (p *printer) minWidth(k Key) int {
	events := len(p.t.Totals)
	switch k {
	case Overhead, OverheadChildren, OverheadSys, OverheadUser, OverheadGuestSys, OverheadGuestUser:
		return max(8*events, len(p.t.heading(k)))
	case Samples, Period:
		return 12 * events
	case CPU:
		return 3
	case Mem:
		return 24
	case SymbolData, PhysAddr, CacheLine, DataPageSize:
		return 22
	case Time:
		if p.b.o.Nanoseconds {
			return 16
		}
		return 12
	case Snoop, LocalWeight, Weight:
		return 12
	case TLB:
		return 22
	case Blocked:
		return 10
	case Addr:
		return len("0x") + unresolvedWidth
	}
	if i := k.field(); i >= 0 {
		return min(p.b.o.TraceFields[i].Width, maxWidth)
	}
	return 0
}

// heading writes the titles of the columns, and the dots that show how wide
// they are unless a separator does.
func (p *printer) heading() {
	sep := p.separator()
	p.w.WriteString("# ")
	for i, k := range p.columns {
		if i > 0 {
			p.w.WriteString(sep)
		}
		h := p.t.heading(k)
		if p.user[i] && len(h) > p.width[i] && !k.counts() {
			h = h[:p.width[i]]
		}
		if k.counts() || k.field() >= 0 {
			fmt.Fprintf(p.w, "%*s", p.width[i], h)
		} else {
			fmt.Fprintf(p.w, "%-*s", p.width[i], h)
		}
	}
	p.w.WriteByte('\n')
	if p.o.Separator != "" {
		return
	}
	p.w.WriteString("# ")
	for i := range p.columns {
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

// share returns the percentage that decides whether a row is printed.
func (t *Table) share(row int) float64 {
	n := row * len(t.Totals)
	if t.acc != nil {
		return percent(t.acc[n].Period, t.Totals[0].Period)
	}
	return percent(t.self[n].Period, t.Totals[0].Period)
}

// rowsAtOnce is how many rows a goroutine writes before they are printed.
const rowsAtOnce = 4096

// rows writes the rows, and below each its call tree.
func (p *printer) rows() {
	rows := p.t.order
	if p.o.PercentLimit > 0 {
		rows = nil
		for _, r := range p.t.order {
			if p.t.share(int(r)) >= p.o.PercentLimit {
				rows = append(rows, r)
			}
		}
	}
	g := newGrapher(p, p.t, rows)
	pages := make([]pageText, p.b.workers)
	for len(rows) > 0 {
		var wg crew.Group
		for i := range pages {
			n := min(len(rows), rowsAtOnce)
			pages[i].rows, rows = rows[:n], rows[n:]
			wg.Go(func() { pages[i].write(p) })
		}
		wg.Wait()
		for i := range pages {
			if g.g.Mode == GraphNone {
				p.w.Write(pages[i].text)
				continue
			}
			from := 0
			for _, end := range pages[i].ends {
				p.w.Write(pages[i].text[from:end])
				from = end
				g.write()
			}
		}
	}
}

// A pageText is some rows, written.
type pageText struct {
	rows []int32
	text []byte
	ends []int // by row
}

func (t *pageText) write(p *printer) {
	t.text, t.ends = t.text[:0], t.ends[:0]
	for _, r := range t.rows {
		t.text = p.row(t.text, int(r))
		t.ends = append(t.ends, len(t.text))
	}
}

// row appends a row. All columns but the last are padded; names other than
// symbols pad themselves, the last one too.
func (p *printer) row(b []byte, n int) []byte {
	sep := p.separator()
	for c, k := range p.columns {
		if c > 0 || p.o.Separator == "" {
			b = append(b, sep...)
		}
		at := len(b)
		var color int
		b, color = p.cell(b, n, c)
		bare := k == Symbol && p.b.s.funcIndex(p.t.rows[n].place) == profile.None // which perf does not cut
		if p.user[c] && !k.counts() && !bare && len(b)-at > p.width[c] {
			b = b[:at+p.width[c]]
		}
		if c < len(p.columns)-1 || padded(k) {
			for len(b)-at-color < p.width[c] {
				b = append(b, ' ')
			}
		}
	}
	return append(b, '\n')
}

// padded reports whether perf fills a column up with blanks in the last place
// too.
func padded(k Key) bool {
	switch k {
	case Symbol, SymbolOffset, SymbolFrom, SymbolTo, SymbolData, SymbolCode, CacheLine, Locked, Blocked, AddrFrom, AddrTo, Cgroup, CgroupID, Time, Trace:
		return false
	}
	return !k.counts() && k.field() < 0
}

// heading is the title of a column.
func (t *Table) heading(k Key) string {
	if o := t.b.o; k == Overhead && t.acc != nil && (len(o.Fields) == 0 || o.AddedFields) {
		return "Self"
	}
	if i := k.field(); i >= 0 {
		return escape.Name(t.b.o.TraceFields[i].Name)
	}
	return k.heading()
}

// cell appends the entry of a row in column c, and returns how many bytes of it
// are colours.
func (p *printer) cell(b []byte, row, c int) ([]byte, int) {
	k := p.columns[c]
	if !k.counts() {
		at := len(b)
		b = p.entry(b, &p.t.rows[row], k)
		if n := p.width[c] - (len(b) - at); k.field() >= 0 && n > 0 {
			b = slices.Insert(b, at, bytes.Repeat([]byte{' '}, n)...)
		}
		return b, 0
	}
	m := len(p.t.Totals)
	color := 0
	width := 12
	if k != Samples && k != Period {
		width = max(len(k.heading()), 8)
	}
	if p.user[c] {
		width = p.width[c]
		if c < len(p.o.Widths) {
			width = p.o.Widths[c]
		}
	}
	for i := range m {
		n := row*m + i
		switch {
		case k == Samples:
			b = p.number(append(b, ' '), p.t.self[n].Samples, width-1)
		case k == Period:
			b = p.number(append(b, ' '), p.t.self[n].Period, width-1)
		case k == OverheadChildren && p.t.acc == nil:
			return p.right(append(b, ' '), "N/A", width-1), 0
		default:
			b, color = p.percent(b, percent(p.t.count(n, k), p.t.Totals[i].Period), width-2, color)
		}
	}
	return b, color
}

// percent appends a percentage, right-justified unless a separator stands
// between the columns.
func (p *printer) percent(b []byte, v float64, width, color int) ([]byte, int) {
	start, end := "", ""
	if p.o.Color && p.o.Separator == "" {
		start, end = percentColor(v)
		b = append(b, start...)
		color += len(start) + len(end)
	}
	b = append(b, ' ')
	if p.o.Separator == "" {
		digits := len("0.00")
		for x := 10.0; x <= v+0.005 && digits < 20; x *= 10 {
			digits++
		}
		for range width - digits {
			b = append(b, ' ')
		}
	}
	b = appendHundredths(b, v)
	b = append(b, '%')
	return append(b, end...), color
}

// appendHundredths appends v with two digits behind the point, as strconv
// rounds it: at once where it is not near the middle between two.
func appendHundredths(b []byte, v float64) []byte {
	const most = 1 << 20 // up to there 100*v is wrong by far less than near
	const near = 1e-6
	whole, rest := math.Modf(100 * v)
	if !(v >= 0 && v < most) || math.Abs(rest-0.5) < near {
		return strconv.AppendFloat(b, v, 'f', 2, 64)
	}
	n := uint64(whole)
	if rest > 0.5 {
		n++
	}
	b = strconv.AppendUint(b, n/100, 10)
	return append(b, '.', byte('0'+n/10%10), byte('0'+n%10))
}

// percentColor returns what makes a percentage red from 5 on, green from 0.5
// on, and ends that.
func percentColor(v float64) (start, end string) {
	switch {
	case v >= 5:
		return "\x1b[31m", "\x1b[m"
	case v >= 0.5:
		return "\x1b[32m", "\x1b[m"
	}
	return "", ""
}

// entry appends what a row has in a column that is not counted.
func (p *printer) entry(b []byte, r *row, k Key) []byte {
	pr := p.b.p
	s := &pr.Samples[r.sample]
	l := p.b.s.location(r.place)
	switch k {
	case PID, TID:
		id, name := int32(-1), ""
		if s.Thread >= 0 {
			th := &pr.Threads[s.Thread]
			id, name = th.TID, lastName(th)
		}
		return p.text(b, fmt.Sprintf("%7d:%s", id, escape.Name(name)))
	case Comm:
		if s.Thread < 0 {
			return b
		}
		return p.text(b, escape.Name(comm(&pr.Threads[s.Thread])))
	case DSO:
		return p.text(b, escape.Name(p.dso(l)))
	case Symbol:
		if p.o.Verbose {
			b = p.verbose(b, l)
		}
		if p.o.Separator == "" {
			return p.b.appendSymbol(b, r.place)
		}
		return p.text(b, p.b.symbolText(r.place))
	case SymbolOffset:
		text := p.b.symbolText(r.place)
		if f := p.b.s.function(r.place); f != nil {
			text += fmt.Sprintf("+0x%x", l.Addr-f.Start)
		}
		return p.text(b, text)
	case SymbolCode:
		return p.text(b, p.b.symbolText(r.place))
	case Addr:
		return p.text(b, hexAddr(l.IP))
	case Srcline:
		return p.text(b, escape.Name(p.b.s.srcline(r.place, true)))
	case Srcfile:
		return p.text(b, escape.Name(p.b.s.srcfile(r.place)))
	case SymbolSize:
		n := "-"
		if f := p.b.s.function(r.place); f != nil {
			n = strconv.FormatUint(f.End-f.Start, 10)
		}
		return p.text(b, fmt.Sprintf("%11s", n))
	case IPCNull:
		return p.text(b, "-      -")
	case IPC:
		if f, _, ok := FunctionAt(p.b.p, s.Location); ok && p.b.o.Timing != nil {
			ipc, coverage := p.b.o.Timing(f)
			return p.text(b, fmt.Sprintf("%-5.2f [%5.1f%%]", ipc, coverage))
		}
		return p.text(b, "-")
	case CPU:
		return p.text(b, fmt.Sprintf("%.3d", s.CPU))
	case Socket:
		return p.text(b, fmt.Sprintf("%6.3d", socket(p.b.o.Sockets, s.CPU)))
	case Parent:
		return p.text(b, escape.Name(p.b.parentName(p.b.parents[p.b.t.node(s)+1])))
	}
	return p.text(b, p.b.extraText(s, l, k))
}

// dso returns the name of an object in its column.
func (p *printer) dso(l *profile.Location) string {
	if p.o.Verbose && l.Object != profile.None && p.b.p.Objects[l.Object].Path != "" {
		return p.b.p.Objects[l.Object].Path
	}
	return p.b.s.dso(l).name
}

// verbose appends an address and where the names of its object are from.
func (p *printer) verbose(b []byte, l *profile.Location) []byte {
	origin := byte('!')
	if p.o.Origin != nil && l.Object != profile.None {
		origin = p.o.Origin(l.Object)
	}
	return fmt.Appendf(b, "%-#18x %c ", address(p.b.p, l), origin)
}

func hexAddr(v uint64) string {
	if v == 0 {
		return "0"
	}
	return fmt.Sprintf("%#x", v)
}

// lastName returns the name that a thread goes by in lists of threads.
func lastName(t *profile.Thread) string {
	if t.Last != "" {
		return t.Last
	}
	return t.Comm
}

// appendSymbol appends what perf prints for the symbol at a place, escaped: the
// level and the name, or the address where it has none.
func (b *builder) appendSymbol(dst []byte, place int32) []byte {
	l := b.s.location(place)
	f := b.s.function(place)
	if f == nil {
		return appendBare(dst, l.Level, address(b.p, l))
	}
	dst = append(dst, '[', level(l.Level), ']', ' ')
	dst = append(dst, escape.Name(f.Name)...)
	if b.s.inlined(place) {
		dst = append(dst, " (inlined)"...)
	}
	return dst
}

func (b *builder) symbolText(place int32) string { return string(b.appendSymbol(nil, place)) }

// appendBare appends what perf prints for an address without a name.
func appendBare(dst []byte, lvl byte, addr uint64) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '[', level(lvl), ']', ' ')
	if addr != 0 { // C's %#.16llx writes no 0x before zero
		dst = append(dst, '0', 'x')
	}
	for shift := 60; shift >= 0; shift -= 4 {
		dst = append(dst, hex[addr>>shift&15])
	}
	return dst
}

func bareText(lvl byte, addr uint64) string { return string(appendBare(nil, lvl, addr)) }

func level(l byte) byte {
	if l == 0 {
		return ' '
	}
	return l
}

// SymbolText returns what perf prints for the symbol of r, escaped.
func (r *Row) SymbolText() string {
	if r.Symbol == "" {
		return bareText(r.Level, r.Addr)
	}
	text := "[" + string(rune(level(r.Level))) + "] " + escape.Name(r.Symbol)
	if r.Inlined {
		text += " (inlined)"
	}
	return text
}

// extraText returns the entry of a sample under a key of few samples, escaped.
// Numbers of a sample's own are summed up where perf sums.
func (b *builder) extraText(s *profile.Sample, l *profile.Location, k Key) string {
	e := b.extra(s)
	if e == nil {
		e = &profile.Extra{Data: profile.None, From: profile.None, To: profile.None}
	}
	switch k {
	case LocalWeight, Weight:
		return strconv.FormatUint(e.Weight, 10)
	case LocalInsLat, InsLat:
		return strconv.FormatUint(uint64(e.InsLat), 10)
	case LocalPStage, PStage:
		return strconv.FormatUint(uint64(e.PStage), 10)
	case Transaction:
		return transactionText(e.Transaction)
	case Cgroup:
		return escape.Name(b.cgroup(e))
	case Trace:
		return escape.Name(cmp.Or(traceText(e), "N/A"))
	case CgroupID:
		return fmt.Sprintf("%d/0x%x", e.NSDev, e.NSIno)
	case Time:
		if b.o.Nanoseconds {
			return fmt.Sprintf("%d.%09d", e.Time/1e9, e.Time%1e9)
		}
		return fmt.Sprintf("%d.%06d", e.Time/1e9, e.Time%1e9/1000)
	case DSOSize:
		if e.MapSize == 0 {
			return fmt.Sprintf("%8s", "unknown")
		}
		return fmt.Sprintf("%8d", e.MapSize)
	case CodePageSize:
		return pageSize(e.CodePageSize)
	case DataPageSize:
		return pageSize(e.DataPageSize)
	case PhysAddr:
		return bareText(l.Level, e.PhysAddr)
	case DSOFrom:
		return b.dsoText(e.From)
	case DSOTo:
		return b.dsoText(e.To)
	case DSOData:
		return b.dsoText(e.Data)
	case SymbolFrom:
		return b.locationText(e.From)
	case SymbolTo:
		return b.locationText(e.To)
	case SrclineFrom:
		return b.srclineText(e.From)
	case SrclineTo:
		return b.srclineText(e.To)
	case AddrFrom:
		return b.addressText(e.From)
	case AddrTo:
		return b.addressText(e.To)
	case SymbolData:
		return b.dataText(e, l.Level)
	case CacheLine:
		return bareText('X', e.Addr&^63)
	case Mispredict:
		switch {
		case e.BranchFlags&branchPredicted != 0:
			return "N"
		case e.BranchFlags&branchMispredicted != 0:
			return "Y"
		}
		return "N/A"
	case Abort:
		if e.BranchFlags&branchAbort != 0 {
			return "A"
		}
		return "."
	case InTx:
		if e.BranchFlags&branchInTx != 0 {
			return "T"
		}
		return "."
	case Cycles:
		if e.BranchCycles == 0 {
			return "-"
		}
		return strconv.Itoa(int(e.BranchCycles))
	case Mem:
		return memLevel(e.DataSrc)
	case Locked:
		return memLock(e.DataSrc)
	case TLB:
		return memTLB(e.DataSrc)
	case Snoop:
		return memSnoop(e.DataSrc)
	case Blocked:
		return memBlocked(e.DataSrc)
	}
	return escape.Name(fieldText(e, k.field()))
}

func (b *builder) dsoText(loc int32) string {
	if loc == profile.None {
		return UnknownDSO
	}
	return escape.Name(b.s.dso(&b.p.Locations[loc]).name)
}

func (b *builder) locationText(loc int32) string {
	if loc == profile.None {
		return bareText(' ', 0)
	}
	return b.symbolText(loc)
}

func (b *builder) srclineText(loc int32) string {
	if loc == profile.None {
		return "??:0"
	}
	return escape.Name(b.s.srcline(loc, true))
}

func (b *builder) addressText(loc int32) string {
	if loc == profile.None {
		return bareText(' ', 0)
	}
	l := &b.p.Locations[loc]
	if f := b.s.function(loc); f != nil {
		return fmt.Sprintf("[%c] %s+0x%x", level(l.Level), escape.Name(f.Name), l.Addr-f.Start)
	}
	return bareText(l.Level, address(b.p, l))
}

// dataText returns what perf prints for the symbol of data.
func (b *builder) dataText(e *profile.Extra, lvl byte) string {
	if e.Data == profile.None {
		return bareText(lvl, e.Addr)
	}
	l := &b.p.Locations[e.Data]
	if f := b.s.function(e.Data); f != nil {
		return fmt.Sprintf("[%c] %s+0x%x", level(lvl), escape.Name(f.Name), l.Addr-f.Start)
	}
	return bareText(lvl, e.Addr)
}

// transactionText names the bits of a transaction as perf does.
func transactionText(v uint64) string {
	var parts []string
	for i, n := range []string{"EL", "TX", "SYNC", "ASYNC", "RETRY", "CON", "CAP-WRITE", "CAP-READ"} {
		if v>>i&1 != 0 {
			parts = append(parts, n)
		}
	}
	if code := v >> 32; code != 0 {
		parts = append(parts, fmt.Sprintf(":%x", code))
	}
	return strings.Join(parts, " ")
}

// number appends v, right-justified unless a separator stands between the
// columns.
func (p *printer) number(b []byte, v uint64, width int) []byte {
	if p.o.Separator == "" {
		digits := 1
		for x := v; x >= 10; x /= 10 {
			digits++
		}
		for range width - digits {
			b = append(b, ' ')
		}
	}
	return strconv.AppendUint(b, v, 10)
}

// right is number for text.
func (p *printer) right(b []byte, s string, width int) []byte {
	if p.o.Separator == "" {
		for range width - len(s) {
			b = append(b, ' ')
		}
	}
	return append(b, s...)
}

// text appends s. With a separator its first character is made a dot, and what
// a spreadsheet would take for a formula, or for the begin of a quoted cell, is
// marked as text.
func (p *printer) text(b []byte, s string) []byte {
	if p.o.Separator == "" {
		return append(b, s...)
	}
	s = strings.ReplaceAll(s, p.o.Separator[:1], ".")
	if s != "" && strings.IndexByte("=+-@\"", s[0]) >= 0 && strings.TrimLeft(s[1:], "0123456789.") != "" { // and no number
		b = append(b, '\'')
	}
	return append(b, s...)
}
