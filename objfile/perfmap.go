package objfile

import (
	"bytes"
	"container/heap"
	"fmt"
	"io"

	"github.com/perfark/perfark/internal/decode"
)

// ReadPerfMap reads the names that a run-time compiler gives to code it made,
// as in /tmp/perf-PID.map: lines "START SIZE name" in hex. Lines of another
// form are passed over. Where ranges overlap, because code was compiled again
// in the same place, the later line wins. A nil budget means the default
// limits. The error wraps ErrNoSymbols if no line has that form.
//
// Source: Documentation/jit-interface.txt in tools/perf.
func ReadPerfMap(r io.Reader, b *decode.Budget) (*Table, error) {
	if b == nil {
		b = decode.NewBudget(decode.Limits{})
	}
	text, err := readBounded(r, min(maxPerfMap, b.Left()), b, "perf map")
	if err != nil {
		return nil, err
	}
	n := bytes.Count(text, []byte{'\n'}) + 1
	if err := b.Alloc(int64(n)*120+int64(len(text)), "perf map: symbols"); err != nil {
		return nil, err
	}
	t := &Table{plain: true, syms: make([]symbol, 0, n)}
	for at := 0; at < len(text); {
		end := bytes.IndexByte(text[at:], '\n')
		if end < 0 {
			end = len(text)
		} else {
			end += at
			text[end] = 0
		}
		if s, ok := perfMapLine(text[at:end], at); ok {
			t.syms = append(t.syms, s)
		}
		at = end + 1
	}
	if len(t.syms) == 0 {
		return nil, fmt.Errorf("perf map: %w: no line of the form %q", ErrNoSymbols, "START SIZE name")
	}
	t.tabs = []*stringTable{textTable(string(text))}
	t.paint()
	return t, nil
}

// perfMapLine decodes a line that begins at byte at of the file.
func perfMapLine(line []byte, at int) (symbol, bool) {
	var v [2]uint64
	p := 0
	for i := range v {
		if bytes.HasPrefix(line[p:], []byte("0x")) {
			p += 2
		}
		x, n := hexDigits(line[p:])
		p += n + 1
		if n == 0 || p >= len(line) || line[p-1] != ' ' && line[p-1] != '\t' {
			return symbol{}, false
		}
		v[i] = x
	}
	return symbol{start: v[0], end: addClamp(v[0], v[1]), name: uint32(at + p), flags: symGlobal}, true
}

// paint makes the symbols disjoint: where several overlap, the one that comes
// last in the table remains. A symbol may be left in several pieces; spans has
// the whole range of each.
func (t *Table) paint() {
	order := t.syms // in the order of the file
	byStart := make([]symbol, len(order))
	for i, s := range order {
		byStart[i] = s
		byStart[i].name = uint32(i) // its rank, for now
	}
	sortSymbols(byStart)
	var out []symbol
	first := make([]int32, len(order))
	for i := range first {
		first[i] = -1
	}
	var open ranks // those around the current address
	emit := func(rank int, start, end uint64) {
		s := order[rank]
		if n := len(out); n > 0 && t.spans[n-1].rank == rank && out[n-1].end == start {
			out[n-1].end = end
			return
		}
		out = append(out, symbol{start: start, end: end, name: s.name, flags: s.flags})
		if first[rank] < 0 {
			first[rank] = int32(len(t.spans))
		}
		t.spans = append(t.spans, span{s.start, s.end, rank, first[rank]})
	}
	for i := 0; i < len(byStart); {
		at := byStart[i].start
		for ; i < len(byStart) && byStart[i].start == at; i++ {
			if byStart[i].end > at {
				heap.Push(&open, int(byStart[i].name))
			}
		}
		next := ^uint64(0)
		if i < len(byStart) {
			next = byStart[i].start
		}
		for at < next && len(open) > 0 {
			top := open[0]
			if order[top].end <= at {
				heap.Pop(&open)
				continue
			}
			end := min(order[top].end, next)
			emit(top, at, end)
			at = end
		}
	}
	t.syms = out
}

// A span is the range a symbol had before others were painted over it.
type span struct {
	start, end uint64
	rank       int
	first      int32 // its first piece
}

// ranks is a heap with the highest rank first.
type ranks []int

func (r ranks) Len() int           { return len(r) }
func (r ranks) Less(i, j int) bool { return r[i] > r[j] }
func (r ranks) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *ranks) Push(x any)        { *r = append(*r, x.(int)) }
func (r *ranks) Pop() any {
	old := *r
	x := old[len(old)-1]
	*r = old[:len(old)-1]
	return x
}
