package session

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
)

// manyChains returns a recording of several chunks in whose call chains there
// is what the kernel writes into them, and what it does not.
func manyChains() string {
	rnd := rand.New(rand.NewPCG(5, 6))
	var b strings.Builder
	b.WriteString(chained)
	for pid := range 4 {
		for i := range 20 {
			fmt.Fprintf(&b, "mmap2 pid=%d tid=%d start=%#x len=0x1000 prot=5 name=/lib/%d\n", 5+pid, 5+pid, (i+1)*0x1000, (i+pid)%7)
		}
	}
	var chain []string
	for n := range 5000 {
		pid := 5 + rnd.IntN(4)*rnd.IntN(2)
		for len(chain) > 0 && rnd.IntN(3) > 0 {
			chain = chain[1:]
		}
		for rnd.IntN(3) > 0 {
			chain = append([]string{fmt.Sprintf("%#x", 0x1000+rnd.IntN(1<<rnd.IntN(17)))}, chain...)
		}
		if rnd.IntN(40) == 0 {
			marker := []string{"kernel", "user", "guest", "hv", "0xfffffffffffff123"}[rnd.IntN(5)]
			chain = append([]string{marker}, chain...)
		}
		ip := "0x1010"
		if len(chain) > 0 && strings.HasPrefix(chain[0], "0x") && rnd.IntN(4) > 0 {
			ip = chain[0]
		}
		fmt.Fprintf(&b, "sample pid=%d tid=%d time=%d ip=%s chain=%s\n", pid, pid, 9+n, ip, strings.Join(append([]string{"user"}, chain...), ","))
	}
	return b.String()
}

// TestRecall: it makes no difference how much of the samples the first pass
// could keep for the second one.
func TestRecall(t *testing.T) {
	const part = 40 << 10 // bytes: of the first chunk there are fewer, of all more
	ctx := context.Background()
	perftest.Orders(t, manyChains(), func(t *testing.T, data []byte) {
		f, err := perfdata.New(strings.NewReader(string(data)), int64(len(data)), "test.data", perfdata.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, keep := range []Keep{0, KeepTID} {
			var stacks, callers *profile.Profile
			for _, o := range []Options{
				{MaxRecall: -1, Workers: 1}, {Workers: 1}, {Workers: 3}, {Workers: 2, batches: true},
				{MaxRecall: part, Workers: 1}, {MaxRecall: 2 * part, Workers: 2}, {MaxRecall: part, Workers: 2, batches: true},
			} {
				o.Keep = KeepFrames | keep
				for _, callersOnly := range []bool{false, true} {
					r, err := Load(ctx, f, o)
					if err != nil {
						t.Fatal(err)
					}
					p := r.Profile
					same := make([]int32, len(p.Locations))
					for i := range same {
						same[i] = int32(i - i%3)
					}
					left := "nothing"
					if c := r.l.recall; c != nil {
						left = fmt.Sprintf("whole %t, some %t", c.whole, slices.Contains(c.chunks, true))
					}
					want, ok := map[int64]string{-1: "nothing", 0: "whole true, some true"}[o.MaxRecall]
					switch {
					case o.batches && ok:
						want = "whole true, some false"
					case o.batches:
						want = "nothing"
					case !ok:
						want = "whole false, some true"
					}
					if left != want {
						t.Fatalf("%+v: the first pass left: %s; want: %s", o, left, want)
					}
					profile := &stacks
					if callersOnly {
						profile = &callers
						err = r.Callers(ctx, same, keep, 0)
					} else {
						err = r.Stacks(ctx, same, keep)
					}
					if err != nil {
						t.Fatal(err)
					}
					if *profile == nil {
						*profile = p
					} else if !reflect.DeepEqual(p, *profile) {
						t.Fatalf("%+v, callers %t: another profile", o, callersOnly)
					}
				}
			}
		}
	})
}
