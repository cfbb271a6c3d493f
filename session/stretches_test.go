package session

import (
	"slices"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/profile"
)

// TestStretches: what entries of branch stacks tell of time, in both byte
// orders, and for any number of workers.
func TestStretches(t *testing.T) {
	text := `event x sample=+BRANCH_STACK
mmap2 pid=5 tid=5 start=0x1000 len=0x1000 prot=5 name=/bin/a
sample pid=5 tid=5 time=9 ip=0x1010 branches=0x1020>0x1010:0x32,0x1030>0x1014:0x12,0x1040>0x1018:0x2,0x1050>0x1020:0xffff2
sample pid=5 tid=5 time=10 ip=0x1010 branches=0x1020>0x1010:0x52,0x1030>0x1014:0x2
sample pid=5 tid=5 time=11 ip=0x1010 branches=0x1020>0x1010:0x2,0x1030>0x1014:0x12
sample pid=5 tid=5 time=12 ip=0x1010 branches=
`
	type row struct {
		start, end    uint64
		count, cycles uint64
		min, max      uint16
	}
	want := []row{{0, 0x50, 1, 0xffff, 0xffff, 0xffff}, {0x14, 0x20, 2, 8, 3, 5}, {0x18, 0x30, 1, 1, 1, 1}}
	perftest.Orders(t, text, func(t *testing.T, data []byte) {
		for _, workers := range []int{1, 3} {
			for _, branches := range []bool{false, true} {
				p := loadData(t, data, Options{Stretches: true, Branches: branches, Workers: workers}).Profile
				var got []row
				for _, s := range p.Stretches {
					r := row{0, p.Locations[s.End].Addr, s.Count, s.Cycles, s.Min, s.Max}
					if s.Start != profile.None {
						r.start = p.Locations[s.Start].Addr
					}
					if branches != (s.Location == profile.None) {
						t.Errorf("location %d, of branches: %v", s.Location, branches)
					}
					got = append(got, r)
				}
				if !slices.Equal(got, want) {
					t.Errorf("got  %x\nwant %x", got, want)
				}
			}
		}
	})
}
