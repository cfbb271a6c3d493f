package report

import (
	"cmp"
	"fmt"
	"strings"
)

// A grapher draws the call trees of rows of a table, as ui/stdio/hist.c of
// perf does.
type grapher struct {
	p     *printer
	t     *Table
	g     *Graph
	rows  []int32 // that are going to be drawn, in order
	next  int     // the row that comes next
	first int     // in rows, of the first of trees
	trees [][]*Branch
	skip  bool // the first frame: the row shows it
}

// treesAtOnce is how many rows' trees are made before they are drawn.
const treesAtOnce = 4096

func newGrapher(p *printer, t *Table, rows []int32) *grapher {
	o := p.b.o
	g := &grapher{p: p, t: t, g: &o.Graph, rows: rows}
	if len(o.Fields) == 0 && len(o.Sort) > 0 {
		switch o.Sort[0] {
		case Symbol, SymbolOffset, SymbolSize, SymbolFrom, SymbolTo, SymbolData, SymbolCode:
			g.skip = true
		}
	}
	return g
}

// take returns the tree of the row that comes next.
func (g *grapher) take() []*Branch {
	i := g.next
	g.next++
	if g.g.Mode == GraphNone {
		return nil
	}
	if i >= g.first+len(g.trees) {
		g.first = i
		g.trees = g.t.trees(g.rows[i:min(i+treesAtOnce, len(g.rows))])
	}
	tree := g.trees[i-g.first]
	g.trees[i-g.first] = nil
	return tree
}

// write draws the tree of the row that comes next.
func (g *grapher) write() {
	tree := g.take()
	if len(tree) == 0 {
		return
	}
	switch g.g.Mode {
	case GraphFlat, GraphFolded:
		g.chains(tree)
	default:
		n := int(g.rows[g.next-1]) * len(g.t.Totals)
		sum := g.t.self[n]
		if g.t.acc != nil {
			sum = g.t.acc[n]
		}
		g.graph(tree, sum)
	}
}

const leftMargin = "            "

// graph draws a tree of a row that has sum.
func (g *grapher) graph(tree []*Branch, sum Count) {
	w := g.p.w
	total := g.t.Totals[0].Period
	margin := leftMargin
	drawn := false
	parent := &Branch{Total: sum}
	if top := tree[0]; len(tree) == 1 && top.Total.Period == sum.Period {
		printed := 0
		for i := range top.Frames {
			if i == 0 && g.skip {
				continue
			}
			if printed == 0 {
				w.WriteString(margin + "|\n" + margin + "---")
				margin += "   "
			} else {
				w.WriteString(margin)
			}
			w.WriteString(top.Frames[i].Text())
			w.WriteByte('\n')
			drawn = true
			if printed++; printed == g.g.PrintLimit {
				break
			}
		}
		tree, parent = top.Sub, top
	}
	if g.g.Mode == GraphFractal {
		total = sum.Period
	}
	if g.branches(tree, parent, total, margin, []bool{true}) || drawn {
		w.WriteByte('\n')
	}
}

// branches draws branches side by side; bars tells for each level up to this
// one whether more follows there.
func (g *grapher) branches(list []*Branch, parent *Branch, total uint64, margin string, bars []bool) bool {
	w := g.p.w
	remaining := total
	var shown uint64
	for i, br := range list {
		remaining -= br.Total.Period
		shown += br.Total.Samples
		g.bars(margin, bars)
		w.WriteByte('\n')
		last := i == len(list)-1 && (g.g.Mode != GraphFractal || remaining == 0)
		bars[len(bars)-1] = !last
		for j := range br.Frames {
			g.line(br.Total, total, br.Frames[j].Text(), margin, bars, j == 0)
		}
		sub := total
		if g.g.Mode == GraphFractal {
			sub = br.Total.Period - br.Self.Period
		}
		g.branches(br.Sub, br, sub, margin, append(bars, true))
		if i+1 == g.g.PrintLimit {
			break
		}
	}
	if g.g.Mode == GraphFractal && remaining > 0 && remaining != total {
		rest := Count{Period: remaining}
		if g.g.Value == ValueCount {
			rest.Samples = parent.Total.Samples - parent.Self.Samples - shown
			if int64(rest.Samples) <= 0 {
				return true
			}
		}
		bars[len(bars)-1] = false
		g.line(rest, total, "[...]", margin, bars, true)
	}
	return len(list) > 0
}

// bars draws the line between branches.
func (g *grapher) bars(margin string, bars []bool) {
	w := g.p.w
	w.WriteString(margin)
	for _, bar := range bars {
		if bar {
			w.WriteString("|          ")
		} else {
			w.WriteString("           ")
		}
	}
}

// line draws a frame, the first of a branch with its share.
func (g *grapher) line(c Count, total uint64, text, margin string, bars []bool, first bool) {
	w := g.p.w
	w.WriteString(margin)
	for i, bar := range bars {
		if bar {
			w.WriteByte('|')
		} else {
			w.WriteByte(' ')
		}
		if first && i == len(bars)-1 {
			w.WriteString("--")
			w.WriteString(g.value(c, total))
			w.WriteString("--")
		} else {
			w.WriteString("          ")
		}
	}
	w.WriteString(text)
	w.WriteByte('\n')
}

// value returns the share of a branch.
func (g *grapher) value(c Count, total uint64) string {
	s := g.g.Text(c, total)
	if g.p.o.Color && g.g.Value == ValuePercent {
		start, end := percentColor(percent(c.Period, total))
		s = start + s + end
	}
	return s
}

// noName is printed for an inlined function whose name is missing: it lies in
// a file of debug information that was not found.
const noName = "[unknown]"

// chains prints every chain of a tree by itself, most first.
func (g *grapher) chains(tree []*Branch) {
	w := g.p.w
	total := g.t.Totals[0].Period
	sep := cmp.Or(g.p.o.Separator, ";")
	for i, br := range chainList(tree, g.t.minHit()) {
		if i == g.g.PrintLimit && i > 0 {
			break
		}
		frames := br.chain()
		if g.g.Mode == GraphFlat {
			fmt.Fprintf(w, "           %s\n", g.value(br.Total, total))
			for j := range frames {
				fmt.Fprintf(w, "                %s\n", frames[j].Text())
			}
			w.WriteByte('\n')
			continue
		}
		w.WriteString(g.value(br.Self, total))
		for j := range frames {
			if j == 0 {
				w.WriteByte(' ')
			} else {
				w.WriteString(sep)
			}
			if text := frames[j].Text(); g.p.o.Separator != "" {
				w.Write(g.p.text(nil, text))
			} else {
				w.WriteString(strings.ReplaceAll(text, ";", ":"))
			}
		}
		w.WriteByte('\n')
	}
}
