package main

import (
	"bytes"
	"cmp"
	"container/heap"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/perfdata"
)

// A task is a thread of a recording, for perf report --tasks.
type task struct {
	pid, tid int32
	ppid     int32 // tid of the thread that it was made by; -1 if unknown
	comm     string
	maps     []taskMap // of the leader, as they were made
	laid     []taskMap // what they come to
	children []*task
	listed   bool
	printed  bool
}

// A taskMap is what a process mapped as code.
type taskMap struct {
	start, end, pgoff, ino uint64
	prot, flags            uint32
	name                   string
}

// A taskTable collects the threads of a recording, each as it was last.
type taskTable struct {
	byTID map[int32]*task
	order []*task
}

func (t *taskTable) get(pid, tid int32) *task {
	if x := t.byTID[tid]; x != nil {
		return x
	}
	x := &task{pid: pid, tid: tid, ppid: -1, comm: ":" + strconv.Itoa(int(tid))}
	t.byTID[tid] = x
	t.order = append(t.order, x)
	return x
}

// record takes what a record says about threads.
func (t *taskTable) record(r perfdata.Record) {
	switch r := r.(type) {
	case *perfdata.Comm:
		t.get(r.CommPID, r.CommTID).comm = r.Name
	case *perfdata.Fork:
		if r.Type == perfdata.RecordExit {
			return
		}
		parent := t.get(r.ParentPID, r.ParentTID)
		if r.ForkTID == r.ParentTID {
			return
		}
		// A tid that comes again is another thread.
		if old := t.byTID[r.ForkTID]; old != nil {
			t.order = slices.DeleteFunc(t.order, func(x *task) bool { return x == old })
			delete(t.byTID, r.ForkTID)
		}
		x := t.get(r.ForkPID, r.ForkTID)
		x.ppid, x.comm = parent.tid, parent.comm
		if x.pid != parent.pid && r.Misc&perfdata.MiscForkExec == 0 {
			if leader := t.byTID[parent.pid]; leader != nil {
				x.maps = slices.Clip(leader.maps) // of which both have the beginning
			}
		}
	case *perfdata.Mmap:
		if r.MapPID < 0 || r.Misc&perfdata.MiscCPUModeMask == perfdata.CPUModeKernel {
			return
		}
		x := t.get(r.MapPID, r.MapPID)
		m := taskMap{r.Start, r.Start + r.Len, r.Pgoff, r.Ino, r.Prot, r.Flags, r.Name}
		if m.start < m.end {
			x.maps = append(x.maps, m)
		}
	}
}

// layout returns what is mapped in the end, by address: of two that overlap the
// later one is there.
func layout(maps []taskMap) []taskMap {
	byStart := make([]int, len(maps))
	ends := make([]uint64, 0, 2*len(maps))
	for i, m := range maps {
		byStart[i] = i
		ends = append(ends, m.start, m.end)
	}
	slices.SortFunc(byStart, func(a, b int) int { return cmp.Compare(maps[a].start, maps[b].start) })
	slices.Sort(ends)
	ends = slices.Compact(ends)
	var out []taskMap
	var open latest
	last := -1
	for i, next := 0, 0; i+1 < len(ends); i++ {
		at := ends[i]
		for next < len(byStart) && maps[byStart[next]].start <= at {
			heap.Push(&open, byStart[next])
			next++
		}
		for len(open) > 0 && maps[open[0]].end <= at {
			heap.Pop(&open)
		}
		switch {
		case len(open) == 0:
			last = -1
		case open[0] == last:
			out[len(out)-1].end = ends[i+1]
		default:
			last = open[0]
			m := maps[last]
			m.pgoff += at - m.start
			m.start, m.end = at, ends[i+1]
			out = append(out, m)
		}
	}
	return out
}

// latest is a heap of mappings, the one that was made last on top.
type latest []int

func (h latest) Len() int           { return len(h) }
func (h latest) Less(i, j int) bool { return h[i] > h[j] }
func (h latest) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *latest) Push(x any)        { *h = append(*h, x.(int)) }

func (h *latest) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// printTasks prints the threads of a recording, as a tree.
func (c *reportCmd) printTasks(in *input) error {
	t := &taskTable{byTID: map[int32]*task{}}
	t.get(0, 0).comm = "swapper"
	or := in.Ordered(perfdata.OrderOptions{})
	for {
		r, err := or.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		t.record(r)
	}
	c.startPager()
	c.stdout.Write(t.page(c.mmaps))
	if err := c.stdout.Flush(); err != nil {
		return err
	}
	return c.lossError(in, nil)
}

// page returns the threads, each below the one that made it, in perf's order:
// that of its table, which goes by the lowest byte of the tid first.
func (t *taskTable) page(maps bool) []byte {
	slices.SortFunc(t.order, func(x, y *task) int {
		return cmp.Or(cmp.Compare(uint8(x.tid), uint8(y.tid)), cmp.Compare(x.tid, y.tid))
	})
	var roots []*task
	for _, x := range t.order {
		for !x.listed {
			x.listed = true
			parent := t.byTID[x.ppid]
			if x.ppid == -1 || parent == nil {
				roots = append(roots, x)
				break
			}
			parent.children = append(parent.children, x)
			x = parent
		}
	}
	const narrow = 8
	var b bytes.Buffer
	b.WriteString("#      pid      tid     ppid  comm\n")
	for _, x := range roots {
		t.print(&b, x, 0, narrow, maps)
	}
	return b.Bytes()
}

// maxTaskDepth is how deep the tree is printed; a deeper one is damage.
const maxTaskDepth = 1 << 12

func (t *taskTable) print(b *bytes.Buffer, x *task, depth, width int, maps bool) {
	if x.printed || depth > maxTaskDepth {
		return
	}
	x.printed = true
	b.WriteByte(' ')
	for _, n := range []int32{x.pid, x.tid, x.ppid} {
		b.WriteByte(' ')
		b.Write(appendInt(nil, int64(n), width))
	}
	b.WriteString(" |")
	b.WriteString(strings.Repeat(" ", depth))
	b.WriteString(escape.Name(x.comm))
	b.WriteByte('\n')
	if maps {
		own := t.get(x.pid, x.pid)
		if own.laid == nil {
			own.laid = layout(own.maps)
		}
		for i := range own.laid {
			own.laid[i].print(b, depth+2+3*(width+2)-2)
		}
	}
	for _, c := range x.children {
		t.print(b, c, depth+1, width, maps)
	}
}

func (m *taskMap) print(b *bytes.Buffer, indent int) {
	b.WriteString(strings.Repeat(" ", indent))
	var line []byte
	line = strconv.AppendUint(append(line, ' ', ' '), m.start, 16)
	line = strconv.AppendUint(append(line, '-'), m.end, 16)
	line = append(line, ' ')
	const read, write, exec, shared = 1, 2, 4, 1
	for _, p := range [...]struct {
		on bool
		c  byte
	}{{m.prot&read != 0, 'r'}, {m.prot&write != 0, 'w'}, {m.prot&exec != 0, 'x'}} {
		if !p.on {
			p.c = '-'
		}
		line = append(line, p.c)
	}
	if m.flags&shared != 0 {
		line = append(line, 's', ' ')
	} else {
		line = append(line, 'p', ' ')
	}
	line = appendHexZeros(line, m.pgoff, 8)
	line = append(line, ' ')
	line = strconv.AppendUint(line, m.ino, 10)
	line = append(line, ' ')
	b.Write(line)
	b.WriteString(escape.Name(m.name))
	b.WriteByte('\n')
}
