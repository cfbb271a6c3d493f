package report

import (
	"bufio"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/perfark/perfark/internal/escape"
)

// A BlockTable is what perf report --total-cycles prints in place of the rows
// of tables of branches: the blocks of code that took the most cycles.
type BlockTable struct {
	Blocks []Block
	Total  uint64                               // cycles of the whole recording; 0: nothing has a share
	Line   func(f Function, addr uint64) string // the source line of an address in a function, or its distance from the beginning; "" if its object has no lines
}

// A blockRow is a row of a BlockTable.
type blockRow struct {
	*Block
	name    string
	ratio   float64 // of all cycles
	average uint64  // cycles, of all stretches
	part    float64 // of the averages of all rows of the table, in percent
}

// blockColumns are the headings, and how wide columns are.
var blockColumns = [...]struct {
	name  string
	width int
}{
	{"Sampled Cycles%", 15}, {"Sampled Cycles", 14}, {"Avg Cycles%", 11}, {"Avg Cycles", 10},
	{"[Program Block Range]", 70}, {"Shared Object", 20},
}

// rows are the blocks of the functions that branches of a table go to, without
// those below a limit, in percent. The averages of a function count as often as
// the table has rows of it, as perf adds them up.
func (bt *BlockTable) rows(t *Table, limit float64) []blockRow {
	times := map[Function]uint64{}
	names := map[Function]string{}
	for i := range t.rows {
		if f, n, ok := FunctionAt(t.b.p, t.b.p.Samples[t.rows[i].sample].Location); ok {
			times[f]++
			names[f] = t.b.p.Functions[n].Name
		}
	}
	var out []blockRow
	var averages float64
	for i := range bt.Blocks {
		b := &bt.Blocks[i]
		if times[b.Function] == 0 {
			continue
		}
		r := blockRow{Block: b, name: names[b.Function], average: b.AllCycles / b.AllCount}
		if bt.Total > 0 {
			r.ratio = float64(b.AllCycles) / float64(bt.Total)
		}
		averages += float64(r.average) * float64(times[b.Function])
		out = append(out, r)
	}
	for i := range out {
		if averages > 0 {
			out[i].part = 100 * (float64(out[i].average) / averages)
		}
	}
	rank := func(r *blockRow) int64 { return int64(r.ratio * 100000) }
	slices.SortStableFunc(out, func(a, b blockRow) int {
		return cmp.Or(cmp.Compare(rank(&b), rank(&a)), strings.Compare(b.name, a.name), cmp.Compare(a.Object, b.Object),
			cmp.Compare(a.Start, b.Start), cmp.Compare(a.offset(), b.offset()), cmp.Compare(a.End, b.End))
	})
	return slices.DeleteFunc(out, func(r blockRow) bool { return 100*r.ratio < limit })
}

// offset is how far from the beginning of the function a block begins, 0 if
// that is not known.
func (b *Block) offset() uint64 {
	if !b.Known {
		return 0
	}
	return b.Begin - b.Start
}

// place is where a block begins and ends.
func (bt *BlockTable) place(b *Block) string {
	from, to := bt.Line(b.Function, b.Start+b.offset()), bt.Line(b.Function, b.End)
	if from == "" || to == "" {
		return fmt.Sprintf("[%7x -> %7x]", b.offset(), b.End-b.Start)
	}
	return "[" + escape.Name(from) + " -> " + escape.Name(to) + "]"
}

// shortCycles is a number of cycles as perf prints it.
func shortCycles(n uint64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1fK", float64(n)/1e3)
	}
	return fmt.Sprint(n)
}

// write prints the blocks of a table.
func (bt *BlockTable) write(w *bufio.Writer, t *Table, o PageOptions) {
	width := func(c int) int {
		switch {
		case o.Separator != "":
			return 0
		case c < len(o.Widths) && o.Widths[c] > 0:
			return max(o.Widths[c], len(blockColumns[c].name))
		}
		return blockColumns[c].width
	}
	line := func(first string, cells ...string) {
		w.WriteString(first)
		for c, s := range cells {
			if c > 0 {
				w.WriteString(cmp.Or(o.Separator, "  "))
			}
			fmt.Fprintf(w, "%*s", width(c), s)
		}
		w.WriteByte('\n')
	}
	if !o.Quiet {
		var heads, dots []string
		for c := range blockColumns {
			heads = append(heads, blockColumns[c].name)
			dots = append(dots, strings.Repeat(".", width(c)))
		}
		line("# ", heads...)
		if o.Separator == "" {
			line("# ", dots...)
			w.WriteString("#\n")
		}
	}
	first := "  "
	if o.Separator != "" {
		first = ""
	}
	for _, r := range bt.rows(t, o.PercentLimit) {
		short := "[unknown]"
		if r.Object >= 0 {
			short = t.b.p.Objects[r.Object].Short
		}
		line(first, fmt.Sprintf("%.2f%%", 100*r.ratio), shortCycles(r.AllCycles), fmt.Sprintf("%.2f%%", r.part), shortCycles(r.average),
			bt.place(r.Block), escape.Name(short))
	}
}

// A jsonBlock is a row of a BlockTable.
type jsonBlock struct {
	Symbol  string  `json:"symbol"`
	DSO     string  `json:"dso"`
	Begin   *uint64 `json:"begin,omitempty"` // from the beginning of the function
	End     uint64  `json:"end"`
	From    string  `json:"from,omitempty"` // source lines
	To      string  `json:"to,omitempty"`
	Count   uint64  `json:"count"`
	Cycles  uint64  `json:"cycles"`
	Percent float64 `json:"percent"`
	Whole   struct {
		Count   uint64 `json:"count"`
		Cycles  uint64 `json:"cycles"`
		Average uint64 `json:"average"`
		Min     uint16 `json:"min"`
		Max     uint16 `json:"max"`
	} `json:"all"`
}

// json is the blocks of a table.
func (bt *BlockTable) json(t *Table, limit float64) []jsonBlock {
	out := []jsonBlock{}
	for _, r := range bt.rows(t, limit) {
		x := jsonBlock{
			Symbol: r.name, End: r.End - r.Start, From: bt.Line(r.Function, r.Start+r.offset()), To: bt.Line(r.Function, r.End),
			Count: r.Count, Cycles: r.Cycles, Percent: 100 * r.ratio,
		}
		if r.Object >= 0 {
			x.DSO = t.b.p.Objects[r.Object].Path
		}
		if r.Known {
			begin := r.offset()
			x.Begin = &begin
		}
		x.Whole.Count, x.Whole.Cycles, x.Whole.Average, x.Whole.Min, x.Whole.Max = r.AllCount, r.AllCycles, r.average, r.Min, r.Max
		out = append(out, x)
	}
	return out
}
