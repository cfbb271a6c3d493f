package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/profile"
)

// Schema names what WriteJSON writes: docs/report.md. It changes when a reader
// of the old would go wrong, not when fields are added.
const Schema = "perfark.report/1"

// JSONOptions says what is in a report as JSON besides its tables.
type JSONOptions struct {
	File         string // name of the recording
	Lost         uint64 // samples lost
	PercentLimit float64
	Blocks       *BlockTable // of each table, besides the rows; nil: none
}

// WriteJSON writes tables as JSON, a row on a line, one after the other: a row
// is not kept when it has been written. Characters that a terminal may act
// upon are written as \u escapes.
func WriteJSON(w io.Writer, tables []*Table, o JSONOptions) error {
	bw := bufio.NewWriterSize(w, 64<<10)
	fmt.Fprintf(bw, "{\"schema\":%s,\"file\":%s,\"lost_samples\":%d,\"tables\":[", jsonText(Schema), escape.JSON(jsonText(o.File)), o.Lost)
	for i, t := range tables {
		if i > 0 {
			bw.WriteByte(',')
		}
		bw.WriteByte('\n')
		j := jsonWriter{t: t, blocks: o.Blocks, p: newPrinter(t, PageOptions{PercentLimit: o.PercentLimit}, bw), w: bw}
		if err := j.table(); err != nil {
			return err
		}
	}
	bw.WriteString("\n]}\n")
	return bw.Flush()
}

// A jsonWriter writes a table.
type jsonWriter struct {
	t   *Table
	p   *printer
	w   *bufio.Writer
	buf []byte

	blocks *BlockTable
	levels [][]int // of a hierarchy: the columns of each
}

// jsonHead is what a table has besides rows.
type jsonHead struct {
	Events  []string    `json:"events"`
	Group   string      `json:"group,omitempty"`
	Samples uint64      `json:"samples"`
	Period  uint64      `json:"period"`
	Totals  []jsonCount `json:"totals"`
	Columns []string    `json:"columns"`
	Order   string      `json:"call_order,omitempty"`
}

type jsonCount struct {
	Samples uint64 `json:"samples"`
	Period  uint64 `json:"period"`
}

// A jsonBranch is a part of a call tree.
type jsonBranch struct {
	Frames      []jsonFrame  `json:"frames"`
	Samples     uint64       `json:"samples"`
	Period      uint64       `json:"period"`
	SelfSamples uint64       `json:"self_samples"`
	SelfPeriod  uint64       `json:"self_period"`
	Calls       []jsonBranch `json:"calls,omitempty"`
}

type jsonFrame struct {
	Symbol  *string `json:"symbol,omitempty"`
	Address string  `json:"address,omitempty"`
	DSO     string  `json:"dso,omitempty"`
	Inlined bool    `json:"inlined,omitempty"`
	Line    string  `json:"line,omitempty"`
}

func (j *jsonWriter) table() error {
	t := j.t
	h := jsonHead{Events: t.Events, Group: t.Name, Samples: t.Samples, Period: t.Period}
	for _, c := range t.Totals {
		h.Totals = append(h.Totals, jsonCount(c))
	}
	for _, k := range t.Columns {
		h.Columns = append(h.Columns, t.b.o.name(k, t.b.p.Events))
	}
	if t.b.o.Graph.Mode != GraphNone {
		h.Order = "callee"
		if t.b.o.Graph.Order == ByCaller {
			h.Order = "caller"
		}
	}
	head, err := marshal(h)
	if err != nil {
		return err
	}
	j.w.Write(escape.JSON(head[:len(head)-1]))
	if j.blocks != nil {
		list, err := marshal(j.blocks.json(t, j.p.o.PercentLimit))
		if err != nil {
			return err
		}
		j.w.WriteString(",\"blocks\":")
		j.w.Write(escape.JSON(list))
	}
	j.w.WriteString(",\"rows\":[")
	if t.Tiered() {
		tiers, all := t.levels()
		g := newGrapher(j.p, t, j.p.leaves(nil, tiers, all))
		q := *j
		q.t, q.levels = all, t.tierColumns(j.p.columns)
		q.tiers(tiers, t, g)
		err = q.flush()
	} else {
		err = j.rows()
	}
	j.w.WriteString("]}")
	return err
}

func (j *jsonWriter) flush() error {
	_, err := j.w.Write(escape.JSON(j.buf))
	j.buf = j.buf[:0]
	return err
}

func (j *jsonWriter) rows() error {
	var rows []int32
	for _, r := range j.t.order {
		if j.t.share(int(r)) >= j.p.o.PercentLimit {
			rows = append(rows, r)
		}
	}
	g := newGrapher(j.p, j.t, rows)
	for i, r := range rows {
		if i > 0 {
			j.buf = append(j.buf, ',')
		}
		j.buf = append(j.buf, "\n{"...)
		j.counts(int(r))
		for _, k := range j.t.Columns {
			j.field(&j.t.rows[r], k)
		}
		j.calls(g.take())
		j.buf = append(j.buf, '}')
		if err := j.flush(); err != nil {
			return err
		}
	}
	return nil
}

// tiers writes the rows of a hierarchy, each with those below.
func (j *jsonWriter) tiers(list []*tier, leaves *Table, g *grapher) {
	n := 0
	for _, l := range list {
		if j.t.share(l.Row) < j.p.o.PercentLimit {
			continue
		}
		if n > 0 {
			j.buf = append(j.buf, ',')
		}
		n++
		j.buf = append(j.buf, "\n{"...)
		j.counts(l.Row)
		for _, c := range j.levels[l.Depth] {
			j.field(&j.t.rows[l.Row], j.p.columns[c])
		}
		if l.Leaf >= 0 {
			j.calls(g.take())
		} else {
			j.buf = append(j.buf, ",\"rows\":["...)
			j.tiers(l.Sub, leaves, g)
			j.buf = append(j.buf, ']')
		}
		j.buf = append(j.buf, '}')
	}
}

// counts appends what is counted in a row: a list with a number for each
// event.
func (j *jsonWriter) counts(row int) {
	t := j.t
	m := len(t.Totals)
	list := func(name string, number func(b []byte, i int) []byte) {
		if j.buf[len(j.buf)-1] != '{' {
			j.buf = append(j.buf, ',')
		}
		j.buf = append(j.buf, '"')
		j.buf = append(j.buf, name...)
		j.buf = append(j.buf, `":[`...)
		for i := range m {
			if i > 0 {
				j.buf = append(j.buf, ',')
			}
			j.buf = number(j.buf, i)
		}
		j.buf = append(j.buf, ']')
	}
	share := func(b []byte, period, total uint64) []byte {
		return strconv.AppendFloat(b, percent(period, total), 'g', -1, 64)
	}
	list("overhead", func(b []byte, i int) []byte { return share(b, t.self[row*m+i].Period, t.Totals[i].Period) })
	list("samples", func(b []byte, i int) []byte { return strconv.AppendUint(b, t.self[row*m+i].Samples, 10) })
	list("period", func(b []byte, i int) []byte { return strconv.AppendUint(b, t.self[row*m+i].Period, 10) })
	if t.acc != nil {
		list("overhead_children", func(b []byte, i int) []byte { return share(b, t.acc[row*m+i].Period, t.Totals[i].Period) })
		list("samples_children", func(b []byte, i int) []byte { return strconv.AppendUint(b, t.acc[row*m+i].Samples, 10) })
		list("period_children", func(b []byte, i int) []byte { return strconv.AppendUint(b, t.acc[row*m+i].Period, 10) })
	}
	for _, k := range t.Columns {
		if t.modes != nil && k >= OverheadSys && k <= OverheadGuestUser {
			list(k.String(), func(b []byte, i int) []byte { return share(b, t.count(row*m+i, k), t.Totals[i].Period) })
		}
	}
}

// field appends what a row has under a key.
func (j *jsonWriter) field(r *row, k Key) {
	if k.counts() {
		return
	}
	b := j.t.b
	s := &b.p.Samples[r.sample]
	text := func(name, v string) {
		j.buf = append(j.buf, ',')
		j.buf = append(j.buf, jsonText(name)...)
		j.buf = append(j.buf, ':')
		j.buf = append(j.buf, jsonText(v)...)
	}
	number := func(name string, v int64) {
		j.buf = append(j.buf, ",\""...)
		j.buf = append(j.buf, name...)
		j.buf = append(j.buf, "\":"...)
		j.buf = strconv.AppendInt(j.buf, v, 10)
	}
	switch k {
	case Comm:
		if s.Thread >= 0 {
			text("comm", comm(&b.p.Threads[s.Thread]))
		}
	case PID, TID:
		if s.Thread >= 0 {
			th := &b.p.Threads[s.Thread]
			number("pid", int64(th.PID))
			number("tid", int64(th.TID))
			text("thread", lastName(th))
		}
	case CPU:
		number("cpu", int64(s.CPU))
	case Socket:
		number("socket", int64(socket(b.o.Sockets, s.CPU)))
	case DSO:
		text("dso", b.s.dso(b.s.location(r.place)).name)
	case Symbol:
		l := b.s.location(r.place)
		text("level", string(rune(level(l.Level))))
		if f := b.s.function(r.place); f != nil {
			text("symbol", f.Name)
			if b.s.inlined(r.place) {
				j.buf = append(j.buf, `,"inlined":true`...)
			}
		} else {
			text("address", fmt.Sprintf("%#x", address(b.p, l)))
		}
	case SymbolSize:
		if f := b.s.function(r.place); f != nil {
			number("symbol_size", int64(min(f.End-f.Start, math.MaxInt64)))
		}
	case IPC:
		var v *jsonIPC
		if f, _, ok := FunctionAt(b.p, s.Location); ok && b.o.Timing != nil {
			v = &jsonIPC{}
			v.IPC, v.Coverage = b.o.Timing(f)
		}
		if x, err := marshal(v); err == nil {
			j.buf = append(append(j.buf, ",\"ipc_lbr\":"...), x...)
		}
	case Srcline:
		text("srcline", b.s.srcline(r.place, true))
	case Srcfile:
		text("srcfile", b.s.srcfile(r.place))
	case Parent:
		text("parent", b.parentName(b.parents[b.t.node(s)+1]))
	default:
		e := b.extra(s)
		if e == nil {
			e = &profile.Extra{Data: profile.None, From: profile.None, To: profile.None}
		}
		if v, ok := extraNumber(e, k); ok {
			number(k.String(), int64(min(v, math.MaxInt64)))
			return
		}
		text(b.o.name(k, b.p.Events), strings.TrimSpace(j.p.raw(r, k)))
	}
}

// A jsonIPC is how fast a function was.
type jsonIPC struct {
	IPC      float64 `json:"ipc"`
	Coverage float64 `json:"coverage_percent"`
}

// extraNumber returns the value of a key that is a number.
func extraNumber(e *profile.Extra, k Key) (uint64, bool) {
	switch k {
	case LocalWeight, Weight:
		return e.Weight, true
	case LocalInsLat, InsLat:
		return uint64(e.InsLat), true
	case LocalPStage, PStage:
		return uint64(e.PStage), true
	case CgroupID:
		return e.NSIno, true
	case Time:
		return e.Time, true
	case CodePageSize:
		return e.CodePageSize, true
	case DSOSize:
		return e.MapSize, true
	case DataPageSize:
		return e.DataPageSize, true
	case Cycles:
		return uint64(e.BranchCycles), true
	}
	return 0, false
}

// raw returns what the page shows of a row under a key.
func (p *printer) raw(r *row, k Key) string { return string(p.entry(nil, r, k)) }

// calls appends a call tree.
func (j *jsonWriter) calls(tree []*Branch) {
	if len(tree) == 0 {
		return
	}
	text, err := marshal(j.branches(tree))
	if err != nil {
		return
	}
	j.buf = append(j.buf, ",\"calls\":"...)
	j.buf = append(j.buf, text...)
}

func (j *jsonWriter) branches(tree []*Branch) []jsonBranch {
	var out []jsonBranch
	for _, br := range tree {
		b := jsonBranch{Samples: br.Total.Samples, Period: br.Total.Period, SelfSamples: br.Self.Samples, SelfPeriod: br.Self.Period}
		for i := range br.Frames {
			f := &br.Frames[i]
			x := jsonFrame{DSO: j.t.b.s.dso(j.t.b.s.location(f.place)).name, Inlined: f.Inlined, Line: f.Line}
			if f.Name != "" {
				x.Symbol = &f.Name
			} else {
				x.Address = fmt.Sprintf("%#x", f.Addr)
			}
			b.Frames = append(b.Frames, x)
		}
		b.Calls = j.branches(br.Sub)
		out = append(out, b)
	}
	return out
}

// marshal returns v as JSON, in one line.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// jsonText returns s as a JSON string.
func jsonText(s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			b, err := marshal(s)
			if err != nil {
				return []byte(`""`)
			}
			return b
		}
	}
	return append(append(append(make([]byte, 0, len(s)+2), '"'), s...), '"')
}
