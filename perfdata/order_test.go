package perfdata

import (
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
)

func comms(times ...int) string {
	var s strings.Builder
	for i, t := range times {
		switch t {
		case -1:
			s.WriteString("finished_round\n")
		default:
			fmt.Fprintf(&s, "comm pid=1 tid=1 name=%d.%d time=%d\n", t, i, t)
		}
	}
	return s.String()
}

// TestOrdered checks the rule of FINISHED_ROUND.
func TestOrdered(t *testing.T) {
	tests := []struct {
		name  string
		times []int // -1 is FINISHED_ROUND
		want  string
		late  int64
	}{
		{"no round", []int{3, 1, 2}, "1.1 2.2 3.0", 0},
		{"equal times keep their order", []int{5, 5, 4, 5}, "4.2 5.0 5.1 5.3", 0},
		{"no time comes at once", []int{3, 0, 1, 0}, "0.1 0.3 1.2 3.0", 0},
		{"rounds overlap", []int{3, 1, -1, 4, 2, -1, 6, 5, -1}, "1.1 2.4 3.0 4.3 5.7 6.6", 0},
		// Older than the newest of the round before last: nothing can be done.
		{"too late", []int{3, -1, 4, -1, 5, -1, 1}, "3.0 4.2 1.6 5.4", 1},
		{"reversed", []int{5, 4, 3, 2, 1}, "1.4 2.3 3.2 4.1 5.0", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			perftest.Orders(t, "event a\n"+comms(tt.times...), func(t *testing.T, b []byte) {
				f := open(t, b, Options{})
				r := f.Ordered(OrderOptions{})
				if got := names(t, r.Next); got != tt.want || r.Late() != tt.late {
					t.Errorf("%s, %d late; want %s, %d", got, r.Late(), tt.want, tt.late)
				}
			})
		})
	}
	// perf does not order what has no times, or only some.
	for _, event := range []string{"event a !sample_id_all", "event a sample=IP|TID"} {
		f := open(t, perftest.Data(t, event+"\nfork pid=2 time=9\ncomm pid=1 tid=1 name=x\nfork pid=1 time=1"), Options{})
		r := f.Ordered(OrderOptions{})
		var got []int32
		for {
			rec, err := r.Next()
			if err == io.EOF {
				break
			}
			if fk, ok := rec.(*Fork); ok {
				got = append(got, fk.ForkPID)
			}
		}
		if fmt.Sprint(got) != "[2 1]" || r.Late() != 0 {
			t.Errorf("%s: %v, %d late", event, got, r.Late())
		}
	}
}

// TestOrderedMemory is P17: times in no order at all, and no rounds. The queue
// does not grow, and what comes late is counted.
func TestOrderedMemory(t *testing.T) {
	n := 200_000
	if raceEnabled {
		n = 20_000
	}
	b := benchFile(n)
	f := open(t, b, Options{})
	off := int(f.hdr.Data.Offset)
	r := rand.New(rand.NewPCG(5, 6))
	for i := off; i < len(b); {
		_, _, size := RecordHeader(b[i:], false)
		order(false).PutUint64(b[i+32:], 1+r.Uint64N(1<<40))
		i += size
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	o := f.Ordered(OrderOptions{MaxBytes: 1 << 20})
	got := 0
	for {
		rec, err := o.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := rec.(*Sample); ok {
			got++
		}
	}
	runtime.ReadMemStats(&after)
	if got != n || o.Late() < int64(n/4) {
		t.Errorf("%d samples, %d late", got, o.Late())
	}
	if grown := int64(after.HeapSys - before.HeapSys); grown > 48<<20 {
		t.Errorf("the heap grew by %d MB", grown>>20)
	}
}

// TestOrderedRaw: as bytes, records come in the same order, whatever the room
// for them.
func TestOrderedRaw(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	var times []int
	for i := range 3000 {
		switch r.IntN(40) {
		case 0:
			times = append(times, -1)
		case 1:
			times = append(times, 0)
		default:
			times = append(times, 1+i/2+r.IntN(60))
		}
	}
	for _, event := range []string{"event a\n", "event a !sample_id_all\n"} {
		text := event + comms(times...)
		if strings.Contains(event, "!") {
			text = event + regexp.MustCompile(` time=\d+`).ReplaceAllString(comms(times...), "")
		}
		perftest.Orders(t, text, func(t *testing.T, b []byte) {
			f := open(t, b, Options{})
			var want []string
			o := f.Ordered(OrderOptions{})
			for {
				rec, err := o.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, fmt.Sprint(rec.Head().Offset))
			}
			for _, room := range []int{1, 7, 10000} {
				var got []string
				o := f.Ordered(OrderOptions{})
				for {
					raws, err := o.NextRaw(make([]Raw, 0, room))
					if err == io.EOF {
						break
					}
					if err != nil || len(raws) == 0 {
						t.Fatalf("%d records, %v", len(raws), err)
					}
					for _, x := range raws {
						got = append(got, fmt.Sprint(x.Offset))
						if x.Pos != uint64(x.Offset)-f.hdr.Data.Offset {
							t.Fatalf("at %#x: pos %d", x.Offset, x.Pos)
						}
					}
				}
				if strings.Join(got, " ") != strings.Join(want, " ") {
					t.Errorf("%q, room for %d: another order", event, room)
				}
			}
		})
	}
}
