package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
)

// walkText is a sample as perf script -F comm,tid,time,ip prints it: frames by
// their address in the file.
func walkText(dst []byte, f *perfdata.File, p *profile.Profile, e *Event) []byte {
	s, ok := e.Record.(*perfdata.Sample)
	if !ok {
		return dst
	}
	dst = fmt.Appendf(dst, "%s %d %d.%06d:", e.Comm, s.TID, s.Time/1e9, s.Time%1e9/1e3)
	if f.Events()[s.Event].Attr.SampleType&perfdata.SampleCallchain == 0 {
		dst = fmt.Appendf(dst, " %x", s.IP)
	}
	for _, ip := range s.Callchain {
		if _, ok := contextMode(ip); ip >= perfdata.MaxContext && !ok {
			return append(dst, '\n') // perf drops the chain: see docs/session.md
		}
	}
	for _, loc := range e.Frames {
		dst = fmt.Appendf(dst, " %x", p.Locations[loc].Addr)
	}
	return append(dst, '\n')
}

// TestWalkOrder compares the order of records, names and chains with perf
// script.
func TestWalkOrder(t *testing.T) {
	for _, args := range [][]string{{"-g"}, {"-z"}, {"-g", "-e", "cpu-clock", "-e", "page-faults"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			prog := perftest.CC(t, "forker", forker, "-O1", "-g", "-fno-omit-frame-pointer", "-pthread")
			data := perftest.Record(t, append(append([]string{"-e", "cpu-clock", "-F", "1499", "-a"}, args...), prog)...)
			out := perftest.Perf(t, "script", "-f", "-i", data, "-F", "comm,tid,time,ip")
			var want strings.Builder
			for _, rec := range strings.Split(out.Stdout, "\n\n") {
				if args[0] != "-g" {
					for _, line := range strings.Split(rec, "\n") {
						want.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
					}
					continue
				}
				want.WriteString(strings.Join(strings.Fields(rec), " ") + "\n")
			}
			f, err := perfdata.Open(data, perfdata.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			r, err := Load(context.Background(), f, Options{Keep: KeepFrames})
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []int{1, 3} {
				var got bytes.Buffer
				if err := r.Walk(context.Background(), WalkOptions{Workers: n}, &got, func(dst []byte, e *Event) []byte {
					checkEvent(t, r.Profile, e)
					return walkText(dst, f, r.Profile, e)
				}); err != nil {
					t.Fatal(err)
				}
				diffLines(t, strings.Fields(strings.ReplaceAll(got.String(), "\n", " | ")), strings.Fields(strings.ReplaceAll(strings.TrimRight(want.String(), "\n")+"\n", "\n", " | ")))
			}
		})
	}
}

// checkEvent checks that the locations of an event are those of its addresses.
func checkEvent(t *testing.T, p *profile.Profile, e *Event) {
	s, ok := e.Record.(*perfdata.Sample)
	if !ok {
		return
	}
	check := func(loc int32, ip uint64) {
		if loc == profile.None {
			t.Errorf("no location at %#x", ip)
			return
		}
		l := &p.Locations[loc]
		if (l.Object == profile.None || l.Level == profile.LevelKernel) && l.Addr != ip {
			t.Errorf("location %+v at %#x", l, ip)
		}
		if l.Addr%4096 != ip%4096 {
			t.Errorf("location %+v at %#x", l, ip)
		}
	}
	check(e.Location, s.IP)
	for i, loc := range e.Frames {
		check(loc, e.IPs[i])
	}
}

func diffLines(t *testing.T, got, want []string) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("word %d of %d: %q, want %q; around: %q, want %q", i, len(want), got[i], want[i],
				got[max(0, i-8):min(i+8, len(got))], want[max(0, i-8):min(i+8, len(want))])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d words, want %d", len(got), len(want))
	}
}

// TestWalkSides: other records come in their place, with the name of the
// thread that they are about.
func TestWalkSides(t *testing.T) {
	text := header + `
comm pid=10 tid=10 name=a time=1
sample pid=10 tid=10 ip=0x1 time=5
fork pid=11 tid=11 ppid=10 ptid=10 time=4
comm pid=11 tid=11 name=b time=6
sample pid=11 tid=11 ip=0x2 time=5
exit pid=11 tid=11 ppid=10 ptid=10 time=8
sample pid=11 tid=11 ip=0x3 time=7
sample pid=12 tid=12 ip=0x4 time=9
`
	want := "COMM a|FORK a|SAMPLE a 1|SAMPLE a 2|COMM b|SAMPLE b 3|EXIT b|SAMPLE :12 4|"
	perftest.Orders(t, text, func(t *testing.T, data []byte) {
		f, err := perfdata.New(bytes.NewReader(data), int64(len(data)), "test.data", perfdata.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := Load(context.Background(), f, Options{Keep: KeepFrames})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		walk := func(o WalkOptions) string {
			out.Reset()
			if err := r.Walk(context.Background(), o, &out, func(dst []byte, e *Event) []byte {
				dst = fmt.Appendf(dst, "%s %s", e.Record.Head().Type, e.Comm)
				if s, ok := e.Record.(*perfdata.Sample); ok {
					dst = fmt.Appendf(dst, " %d", s.IP)
				}
				return append(dst, '|')
			}); err != nil {
				t.Fatal(err)
			}
			return out.String()
		}
		if got := walk(WalkOptions{Sides: true}); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if got, want := walk(WalkOptions{Filter: Filter{TIDs: []int32{11}, Times: []TimeRange{{6, 8}}}}), "SAMPLE b 3|"; got != want {
			t.Errorf("filtered: got %s, want %s", got, want)
		}
		boom := errors.New("no room")
		if err := r.Walk(context.Background(), WalkOptions{}, failing{boom}, func(dst []byte, _ *Event) []byte { return append(dst, 'x') }); err != boom {
			t.Errorf("error %v, want that of the writer", err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := r.Walk(ctx, WalkOptions{}, io.Discard, func(dst []byte, _ *Event) []byte { return dst }); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// BenchmarkWalk measures on the recording that PERFARK_BENCH_DATA names.
func BenchmarkWalk(b *testing.B) {
	name := os.Getenv("PERFARK_BENCH_DATA")
	if name == "" {
		b.Skip("NOTICE: PERFARK_BENCH_DATA does not name a recording")
	}
	f, err := perfdata.Open(name, perfdata.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	r, err := Load(context.Background(), f, Options{Keep: KeepFrames})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := r.Walk(context.Background(), WalkOptions{}, io.Discard, func(dst []byte, e *Event) []byte { return dst }); err != nil {
			b.Fatal(err)
		}
	}
}
