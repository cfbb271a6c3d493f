package session

import (
	"bytes"
	"context"
	"io"
	"reflect"
	"testing"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
)

// FuzzStages: no recording breaks anything, all handles are those of something,
// samples add up, and the result does not depend on the number of workers.
func FuzzStages(f *testing.F) {
	for _, text := range []string{
		header + "comm pid=1 tid=1 name=x time=1\nsample pid=1 tid=1 ip=1 time=2\n",
		chained + "mmap2 pid=1 tid=1 start=0x1000 len=0x1000 prot=5 name=/a time=1\nsample pid=1 tid=1 ip=0x1010 time=2 chain=user,0x1010,0x1020\nfinished_round\n",
		memory,
		"event x sample=+CALLCHAIN|BRANCH_STACK branch_sample_type=0x801\nmmap2 pid=5 tid=5 start=0x1000 len=0x1000 prot=5 name=/bin/a\nsample pid=5 tid=5 time=9 ip=0x1010 chain=kernel,0xffffffff81000010,user,0x1030 branches=0x1010>0x1020,0x1010>0x1000\n",
	} {
		data, err := perftest.Build(text)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, err := perfdata.New(bytes.NewReader(data), int64(len(data)), "fuzz.data", perfdata.Options{
			Limits: decode.Limits{Bytes: 16 << 20, Steps: 1 << 20},
		})
		if err != nil {
			return
		}
		defer rec.Close()
		ctx := context.Background()
		all := KeepComm | KeepTID | KeepPID | KeepCPU | keepExtra
		for _, o := range []Options{
			{Keep: all | KeepStacks}, {Keep: all | KeepFrames}, {Keep: KeepComm}, {Keep: all, Branches: true}, {HitsOnly: true},
		} {
			var first *Result
			for _, n := range []int{1, 3} {
				o.Workers = n
				r, err := Load(ctx, rec, o)
				if err != nil {
					return
				}
				checkHandles(t, r.Profile)
				if o.Keep&KeepFrames != 0 {
					same := make([]int32, len(r.Profile.Locations))
					for i := range same {
						same[i] = int32(i) &^ 1 // pairs
					}
					checkCallers(t, r, same, all)
					clear(same)
					if err := r.Stacks(ctx, same, all); err != nil {
						t.Fatal(err)
					}
					checkHandles(t, r.Profile)
					if err := r.Walk(ctx, WalkOptions{Sides: true, Workers: n}, io.Discard, func(dst []byte, e *Event) []byte {
						return append(dst, e.Comm...)
					}); err != nil {
						t.Fatal(err)
					}
				}
				r.l = nil
				if first == nil {
					first = r
				} else if !reflect.DeepEqual(r, first) {
					t.Fatalf("%+v: another result", o)
				}
			}
		}
	})
}

// checkHandles checks that whatever a profile refers to is there.
func checkHandles(t *testing.T, p *profile.Profile) {
	t.Helper()
	in := func(what string, h int32, n int, none bool) {
		if (h < 0 || int(h) >= n) && (h != profile.None || !none) {
			t.Fatalf("%s %d of %d", what, h, n)
		}
	}
	for i := range p.Locations {
		in("object", p.Locations[i].Object, len(p.Objects), true)
	}
	for i, s := range p.Stacks {
		in("location", s.Location, len(p.Locations), false)
		in("caller", s.Caller, i, true)
	}
	for _, x := range p.Extras {
		in("data", x.Data, len(p.Locations), true)
		in("from", x.From, len(p.Locations), true)
		in("to", x.To, len(p.Locations), true)
	}
	sums := make([]profile.Event, len(p.Events))
	for i := range p.Samples {
		s := &p.Samples[i]
		in("event", s.Event, len(p.Events), false)
		in("thread", s.Thread, len(p.Threads), false)
		in("location", s.Location, len(p.Locations), false)
		in("stack", s.Stack, len(p.Stacks), true)
		in("extra", s.Extra, len(p.Extras), true)
		sums[s.Event].Samples += s.Count
		sums[s.Event].Period += s.Period
	}
	for i, e := range p.Events {
		if len(p.Samples) > 0 && (sums[i].Samples != e.Samples || sums[i].Period != e.Period) {
			t.Fatalf("event %d: samples add up to %+v, want %+v", i, sums[i], e)
		}
	}
}
