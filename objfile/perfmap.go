package objfile

import (
	"bufio"
	"bytes"
	"container/heap"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/perfark/perfark/internal/decode"
)

// ReadPerfMap reads the names that a run-time compiler gives to code it made,
// as in /tmp/perf-PID.map: lines "START SIZE name" in hex. Lines of another
// form are passed over. Where ranges overlap, because code was compiled again
// in the same place, the later line wins.
//
// Only are the addresses that will be looked up, in ascending order: what does
// not name one of them is not kept, so that the size of the map does not
// matter. Nil means that any may be. A nil budget means the default limits.
// The error wraps ErrNoSymbols if no line has that form.
//
// Source: Documentation/jit-interface.txt in tools/perf.
func ReadPerfMap(r io.Reader, only []uint64, b *decode.Budget) (*Table, error) {
	if b == nil {
		b = decode.NewBudget(decode.Limits{})
	}
	t := &Table{plain: true}
	var names []byte
	any := false
	in := bufio.NewReaderSize(io.LimitReader(r, maxPerfMap+1), 64<<10)
	for at := int64(0); ; {
		// Of a longer line, the beginning is enough.
		line, err := in.ReadSlice('\n')
		n := len(line)
		if s, ok := perfMapLine(bytes.TrimSuffix(line, []byte{'\n'}), 0); ok {
			any = true
			if i, _ := slices.BinarySearch(only, s.start); only == nil || i < len(only) && only[i] < s.end {
				name := bytes.TrimSuffix(line, []byte{'\n'})[s.name:]
				if err := b.Alloc(120+2*int64(len(name)), "perf map: symbols"); err != nil {
					return nil, err
				}
				if uint64(len(names))+uint64(len(name))+1 > math.MaxUint32 {
					return nil, errors.New("perf map: names of more than 4 GiB")
				}
				s.name = uint32(len(names))
				names = append(append(names, name...), 0)
				t.syms = append(t.syms, s)
			}
		}
		for err == bufio.ErrBufferFull {
			line, err = in.ReadSlice('\n')
			n += len(line)
		}
		if at += int64(n); at > maxPerfMap {
			return nil, fmt.Errorf("perf map: more than %d bytes", int64(maxPerfMap))
		}
		if serr := b.Step(1, "perf map: lines"); serr != nil {
			return nil, serr
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("perf map: %w", err)
		}
	}
	if !any {
		return nil, fmt.Errorf("perf map: %w: no line of the form %q", ErrNoSymbols, "START SIZE name")
	}
	t.tabs = []*stringTable{textTable(string(names))}
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
