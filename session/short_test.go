package session

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/unwind"
)

// A countedReader counts what is read.
type countedReader struct {
	r io.ReaderAt
	n atomic.Int64
}

func (c *countedReader) ReadAt(b []byte, off int64) (int, error) {
	c.n.Add(int64(len(b)))
	return c.r.ReadAt(b, off)
}

// TestWalkShort: what Load keeps for Walk makes no difference but to what is
// read, however much of the recording there is room for.
func TestWalkShort(t *testing.T) {
	perftest.Orders(t, shortText(), func(t *testing.T, data []byte) {
		in := &countedReader{r: bytes.NewReader(data)}
		f, err := perfdata.New(in, int64(len(data)), "test.data", perfdata.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		walk := func(o Options, wo WalkOptions) (string, int64) {
			o.Keep = KeepComm | KeepFrames
			o.Code = func(*profile.Object) *CodeLog { return nil }
			o.Unwind = func(*profile.Object) *unwind.Module { return nil }
			r, err := Load(context.Background(), f, o)
			if err != nil {
				t.Fatal(err)
			}
			before := in.n.Load()
			var out bytes.Buffer
			if err := r.Walk(context.Background(), wo, &out, func(dst []byte, e *Event) []byte {
				dst = fmt.Appendf(dst, "%s %#x %v", e.Comm, e.IPs, e.Frames)
				if s, ok := e.Record.(*perfdata.Sample); ok {
					c := *s
					c.UserStack, c.Size = nil, 0
					return fmt.Appendf(dst, " %v %+v\n", s.UserStack != nil, c)
				}
				return fmt.Appendf(dst, "%+v\n", e.Record)
			}); err != nil {
				t.Fatal(err)
			}
			return out.String(), in.n.Load() - before
		}
		for _, wo := range []WalkOptions{{Sides: true}, {Filter: Filter{TIDs: []int32{6}}}, {MaxBytes: 100_000}} {
			for _, o := range []Options{{Walk: true}, {Walk: true, Workers: 1, maxShort: 60_000}, {Walk: true, batches: true}, {Walk: true, Filter: Filter{TIDs: []int32{6}}}} {
				long := o
				long.Walk = false
				want, all := walk(long, wo)
				if n := strings.Count(want, "0x91004"); n < 100 && wo.Filter.empty() && o.Filter.empty() {
					t.Fatalf("%d unwound chains", n)
				}
				got, read := walk(o, wo)
				if got != want {
					t.Fatalf("%+v %+v: not what it is without: %d bytes, want %d", o, wo, len(got), len(want))
				}
				most := all
				switch {
				case o.maxShort > 0:
					most = all * 7 / 8
				case !o.batches && o.Filter.empty():
					most = all * 2 / 3 // that of the part without stacks
				}
				if read > most {
					t.Errorf("%+v: %d bytes read, of %d", o, read, all)
				}
			}
		}
	})
}

// shortText is a recording of samples with stacks, whose times are in some
// disorder, and among them everything else that there may be. The last third
// has no stacks.
func shortText() string {
	var b strings.Builder
	b.WriteString(`event cycles sample=IDENTIFIER|IP|TID|TIME|CPU|PERIOD|CALLCHAIN|RAW|REGS_USER|STACK_USER|WEIGHT|REGS_INTR|AUX sample_regs_user=0x1c0 sample_regs_intr=1 sample_stack_user=2048
feature arch x86_64
comm pid=5 tid=5 name=vm time=1
fork pid=5 tid=6 ppid=5 ptid=5 time=1
mmap2 pid=5 tid=5 start=0x40000 len=0x10000 prot=7 name=//anon time=3
mmap2 pid=5 tid=5 start=0x91000 len=0x1000 prot=7 name=//anon time=3
`)
	big := func(v uint64) string { // as the file has it, whatever its order: the unwinder reads what fits
		return fmt.Sprintf("%x", binary.BigEndian.AppendUint64(nil, v))
	}
	little := func(v uint64) string { return fmt.Sprintf("%x", binary.LittleEndian.AppendUint64(nil, v)) }
	for i := range 260 {
		word := little
		if i%2 == 1 {
			word = big
		}
		fmt.Fprintf(&b, "sample pid=5 tid=%d ip=0x40104 cpu=1 period=%d time=%d chain=user,0x40104", 5+i%2, i+1, 10+i^3)
		if i%7 > 0 {
			fmt.Fprintf(&b, " regs=0x7ff010,0x7ff000,0x40%03x stack=00*16+%s+%s+00*8+%s+%02x*2000 dyn=%d", 0x104+i, word(0x7ff020), word(0x40205), word(0x91005), i%256, 1000+i%3)
		}
		fmt.Fprintf(&b, " raw=%08x weight=%d iregs=7 aux=%016x\n", i, i, i)
		switch i % 40 {
		case 3:
			b.WriteString("finished_round\n")
		case 9:
			fmt.Fprintf(&b, "comm pid=5 tid=5 name=vm%d time=%d\n", i, 10+i)
		}
	}
	for i := range 1500 {
		fmt.Fprintf(&b, "sample pid=5 tid=5 ip=0x40104 cpu=1 period=1 time=%d chain=user,0x40104\n", 1000+i)
	}
	return b.String()
}
