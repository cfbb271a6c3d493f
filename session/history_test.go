package session

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
)

// TestHistory: branches are frames, and of loops one round is left, the newest
// or the oldest; what begins a second one goes, too.
func TestHistory(t *testing.T) {
	text := `event x sample=+CALLCHAIN|BRANCH_STACK
mmap2 pid=5 tid=5 start=0x1000 len=0x1000 prot=5 name=/bin/a
sample pid=5 tid=5 time=9 ip=0x1010 chain=user,0x1010,0x1105,0x1205 branches=0x1100>0x1000,0x1030>0x1020,0x1030>0x1020,0x1200>0x1018
sample pid=5 tid=5 time=10 ip=0x1010 chain=user,0x1010,0x1205
sample pid=5 tid=5 time=11 ip=0x1010 chain= branches=0x1030>0x1020,0x1040>0x1020,0x1030>0x1021
`
	for _, tt := range []struct {
		history History
		want    []string // innermost first
	}{
		{NoHistory, []string{"10", "10 105 205", "10 205"}},
		{HistoryByCallee, []string{"0 100 20 30 18 200 10 105 205", "10 205", "20 30 20 40"}},
		{HistoryByCaller, []string{"10 205", "40 20 30 21", "100 0 30 20 200 18 10 105 205"}},
	} {
		perftest.Orders(t, text, func(t *testing.T, data []byte) {
			p := loadData(t, data, Options{Keep: KeepStacks, History: tt.history}).Profile
			var got []string
			for i := range p.Samples {
				var chain []string
				for s := p.Samples[i].Stack; s != profile.None; s = p.Stacks[s].Caller {
					chain = append(chain, fmt.Sprintf("%x", p.Locations[p.Stacks[s].Location].Addr))
				}
				if len(chain) == 0 {
					chain = []string{fmt.Sprintf("%x", p.Locations[p.Samples[i].Location].Addr)}
				}
				got = append(got, strings.Join(chain, " "))
			}
			slices.Sort(got)
			want := slices.Sorted(slices.Values(tt.want))
			if !slices.Equal(got, want) {
				t.Errorf("history %d:\ngot  %q\nwant %q", tt.history, got, want)
			}
		})
	}
}

// FuzzHistory: nothing that branches and chains say makes it fail, and nothing
// is made up: there are no more frames than were recorded.
func FuzzHistory(f *testing.F) {
	f.Add([]byte{1, 2, 1, 2, 1, 2, 3}, []byte{0xff, 1, 2, 3})
	f.Fuzz(func(t *testing.T, branches, chain []byte) {
		var list []perfdata.Branch
		for _, b := range branches[:min(len(branches), maxHistory)] {
			list = append(list, perfdata.Branch{From: uint64(b), To: uint64(b) + 1})
		}
		var raw []byte
		for _, b := range chain {
			ip := uint64(b)
			if b == 0xff {
				ip = perfdata.ContextUser
			}
			raw = binary.LittleEndian.AppendUint64(raw, ip)
		}
		if got := appendRest(nil, raw, list); len(got) > len(raw) || len(got)%8 != 0 {
			t.Errorf("%d bytes of %d are left", len(got), len(raw))
		}
		before := slices.Clone(list)
		got := withoutLoops(list)
		if len(got) > len(before) || len(before) > 0 && (len(got) == 0 || got[0] != before[0]) {
			t.Errorf("%v is left of %v", got, before)
		}
	})
}
