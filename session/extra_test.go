package session

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
)

// extraText is what of an Extra is not 0 or None, and how many samples have it.
func extraText(p *profile.Profile, s *profile.Sample) string {
	if s.Extra == profile.None {
		return fmt.Sprintf("%d: none", s.Count)
	}
	x := p.Extras[s.Extra]
	text := fmt.Sprintf("%d:", s.Count)
	v := reflect.ValueOf(x)
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Name, v.Field(i)
		switch name {
		case "Data", "From", "To":
			if loc := int32(f.Int()); loc != profile.None {
				text += " " + name + "=" + locText(p, loc)
			}
		default:
			if !f.IsZero() {
				text += fmt.Sprintf(" %s=%#x", name, f.Uint())
			}
		}
	}
	return text
}

func extraRows(p *profile.Profile) []string {
	var out []string
	for i := range p.Samples {
		out = append(out, extraText(p, &p.Samples[i]))
	}
	return out
}

const memory = `event mem sample=IDENTIFIER|IP|TID|TIME|ADDR|CPU|PERIOD|WEIGHT_STRUCT|DATA_SRC|TRANSACTION|PHYS_ADDR|CGROUP|DATA_PAGE_SIZE|CODE_PAGE_SIZE
comm pid=5 tid=5 name=x time=1
mmap2 pid=5 tid=5 start=0x1000 len=0x1000 prot=5 name=/bin/a time=1
mmap2 pid=5 tid=5 start=0x9000 len=0x1000 prot=3 pgoff=0x3000 name=/bin/a time=1
mmap2 pid=5 tid=5 start=0xa000 len=0x1000 prot=3 name=[heap] time=1
mmap2 pid=5 tid=5 start=0xb000 len=0x1000 prot=3 name=//anon time=1
cgroup id=7 name=/x.slice time=2
namespaces pid=5 tid=5 links=4/1,4/2,4/3,4/4,4/5,4/6,4/0xeffffffb time=2
sample pid=5 tid=5 ip=0x1010 time=1000000007 addr=0x9010 weight=0x0003000200000001 data_src=0x1e phys_addr=0x77 txn=1 cgroup=7 data_page=4096 code_page=0x200000
sample pid=5 tid=5 ip=0x1010 time=1000000008 addr=0x9010 weight=0x0003000200000001 data_src=0x1e phys_addr=0x77 txn=1 cgroup=7 data_page=4096 code_page=0x200000
sample pid=5 tid=5 ip=0x1010 time=1000000009 addr=0xa010 weight=0x0003000200000001 data_src=0x1e phys_addr=0x78 txn=1 cgroup=7 data_page=4096 code_page=0x200000
sample pid=5 tid=5 ip=0x1010 time=2000000009 addr=0xb010 weight=0x0003000200000001 data_src=0x1e phys_addr=0x78 txn=1 cgroup=7 data_page=4096 code_page=0x200000
sample pid=6 tid=6 ip=0x1010 time=2000000009
`

// TestExtras: each field is kept when asked for, and only then; what differs
// in nothing that is kept is one sample.
func TestExtras(t *testing.T) {
	tests := []struct {
		keep Keep
		want []string
	}{
		{KeepComm, []string{"4: none", "1: none"}},
		{KeepAddr, []string{"2: Addr=0x9010 Data=. a 0x3010", "1: Addr=0xa010 Data=. [heap] 0xa010", "1: Addr=0xb010 Data=. anon 0xb010", "1: none"}},
		{KeepPhysAddr, []string{"2: PhysAddr=0x77", "2: PhysAddr=0x78", "1: none"}},
		{KeepDataSrc, []string{"4: DataSrc=0x1e", "1: none"}},
		{KeepWeight, []string{"4: Weight=0x1 InsLat=0x2 PStage=0x3", "1: none"}},
		{KeepTransaction, []string{"4: Transaction=0x1", "1: none"}},
		{KeepCgroup, []string{"4: Cgroup=0x7", "1: none"}},
		{KeepNamespace, []string{"4: NSDev=0x4 NSIno=0xeffffffb", "1: none"}},
		{KeepDataPageSize, []string{"4: DataPageSize=0x1000", "1: none"}},
		{KeepCodePageSize, []string{"4: CodePageSize=0x200000", "1: none"}},
		{KeepTime, []string{"3: Time=0x3b9aca00", "1: Time=0x77359400", "1: Time=0x77359400"}},
		{KeepTime | KeepDataSrc, []string{"3: Time=0x3b9aca00 DataSrc=0x1e", "1: Time=0x77359400 DataSrc=0x1e", "1: Time=0x77359400"}},
	}
	perftest.Orders(t, memory, func(t *testing.T, data []byte) {
		for _, tt := range tests {
			r := loadData(t, data, Options{Keep: tt.keep, TimeQuantum: 100_000_000})
			got := extraRows(r.Profile)
			slices.Sort(got)
			want := slices.Clone(tt.want)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("keep %b:\ngot  %q\nwant %q", tt.keep, got, want)
			}
			if r.Profile.Cgroups[7] != "/x.slice" {
				t.Errorf("cgroups %v", r.Profile.Cgroups)
			}
		}
	})
}

// TestWeight: without WEIGHT_STRUCT, all bits are the weight.
func TestWeight(t *testing.T) {
	text := "event mem sample=IDENTIFIER|IP|TID|TIME|CPU|PERIOD|WEIGHT\nsample pid=5 tid=5 ip=1 time=9 weight=0x300000001\n"
	perftest.Orders(t, text, func(t *testing.T, data []byte) {
		r := loadData(t, data, Options{Keep: KeepWeight})
		if got := extraRows(r.Profile); !slices.Equal(got, []string{"1: Weight=0x300000001"}) {
			t.Error(got)
		}
	})
}

// TestBranchSamples: every entry of a branch stack is a sample of period 1.
func TestBranchSamples(t *testing.T) {
	text := `event x sample=+BRANCH_STACK
mmap2 pid=5 tid=5 start=0x1000 len=0x1000 prot=5 name=/bin/a
mmap2 pid=5 tid=5 start=0x2000 len=0x1000 prot=5 name=/lib/b
sample pid=5 tid=5 time=9 ip=0x1010 period=7 branches=0x2010>0x1010:0x21,0x2010>0x1010:0x21
sample pid=5 tid=5 time=9 ip=0x1010 period=7 branches=0x1020>0x1010:0x2
sample pid=5 tid=5 time=9 ip=0x1010 period=7 branches=
`
	want := []string{
		"1: From=. a 0x20 To=. a 0x10 BranchFlags=0x2",
		"2: From=. b 0x10 To=. a 0x10 BranchFlags=0x21 BranchCycles=0x2",
	}
	perftest.Orders(t, text, func(t *testing.T, data []byte) {
		r := loadData(t, data, Options{Keep: KeepComm, Branches: true})
		got := extraRows(r.Profile)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		if e := r.Profile.Events[0]; e.Samples != 3 || e.Period != 3 {
			t.Errorf("event %+v, want 3 samples of period 1", e)
		}
		if r.Profile.Objects[0].Samples != 3 || r.Profile.Objects[1].Samples != 2 || r.Hit[1] != HitBranch {
			t.Errorf("objects %+v, hits %v", r.Profile.Objects, r.Hit)
		}
	})
}

// TestBranchCorpus compares with perf report -b -n --sort symbol_from,symbol_to.
func TestBranchCorpus(t *testing.T) {
	dir := os.Getenv("PERFARK_CORPUS")
	if dir == "" {
		t.Skip("NOTICE: PERFARK_CORPUS does not name the corpus")
	}
	for _, tt := range []struct {
		file       string
		total, top uint64
	}{
		{"GrapheneOS__platform_system_extras/simpleperf/testdata/perf_b.data", 2400, 833},
		{"google__perf_data_converter/src/quipper/testdata/perf.data.callgraph_and_branch-3.4", 14768, 228},
	} {
		name := filepath.Join(dir, tt.file)
		if _, err := os.Stat(name); err != nil {
			t.Logf("NOTICE: %v", err)
			continue
		}
		r := load(t, name, Options{Keep: KeepComm, Branches: true})
		p := r.Profile
		pairs := map[[3]any]uint64{}
		var top uint64
		for i := range p.Samples {
			s := &p.Samples[i]
			x := &p.Extras[s.Extra]
			k := [3]any{p.Threads[s.Thread].Comm, x.From, x.To}
			pairs[k] += s.Count
			top = max(top, pairs[k])
		}
		if e := p.Events[0]; e.Samples != tt.total || e.Period != tt.total || top != tt.top {
			t.Errorf("%s: %d samples, %d of one branch, want %d and %d", tt.file, e.Samples, top, tt.total, tt.top)
		}
	}
}

// TestStacksClasses: with one location for each object, stacks that differ in
// addresses only are one.
func TestStacksClasses(t *testing.T) {
	text := chained + `
mmap2 pid=5 tid=5 start=0x1000 len=0x1000 prot=5 name=/bin/a
mmap2 pid=5 tid=5 start=0x2000 len=0x1000 prot=5 name=/lib/b
sample pid=5 tid=5 time=9 ip=0x2010 chain=user,0x2010,0x1010
sample pid=5 tid=5 time=9 ip=0x2020 chain=user,0x2020,0x1010
sample pid=5 tid=5 time=9 ip=0x2010 chain=user,0x2010,0x1020,0x1030
`
	perftest.Orders(t, text, func(t *testing.T, data []byte) {
		f, err := perfdata.New(strings.NewReader(string(data)), int64(len(data)), "test.data", perfdata.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := Load(context.Background(), f, Options{Keep: KeepFrames})
		if err != nil {
			t.Fatal(err)
		}
		p := r.Profile
		first := map[int32]int32{}
		same := make([]int32, len(p.Locations))
		for i, l := range p.Locations {
			if _, ok := first[l.Object]; !ok {
				first[l.Object] = int32(i)
			}
			same[i] = first[l.Object]
		}
		if len(p.Stacks) != 0 || len(p.Locations) != 5 {
			t.Errorf("%d stacks, %d locations, want none and 5", len(p.Stacks), len(p.Locations))
		}
		for range 2 { // any number of times
			if err := r.Stacks(context.Background(), same, KeepTID); err != nil {
				t.Fatal(err)
			}
			want := []string{
				"/5 1: . b 0x10 <- . b 0x10 | . a 0x10 | . a 0x10",
				"/5 2: . b 0x10 <- . b 0x10 | . a 0x10",
			}
			if got := rows(r); !slices.Equal(got, want) {
				t.Errorf("got %q\nwant %q", got, want)
			}
		}
		if err := r.Stacks(context.Background(), same[1:], 0); err == nil {
			t.Error("classes of too few locations are no error")
		}
		flat, err := Load(context.Background(), f, Options{Keep: KeepComm})
		if err != nil {
			t.Fatal(err)
		}
		if err := flat.Stacks(context.Background(), nil, 0); err == nil {
			t.Error("a profile without frames has stacks")
		}
	})
}

// checkCallers checks the callers of a result that has frames against its
// stacks. It leaves the stacks there.
func checkCallers(t *testing.T, r *Result, same []int32, keep Keep) {
	t.Helper()
	ctx := context.Background()
	p := r.Profile
	depths := []int{0, 1, 2, -1, -2}
	var got [][]profile.Sample
	for _, depth := range depths {
		if err := r.Callers(ctx, same, keep, depth); err != nil {
			t.Fatal(err)
		}
		got = append(got, p.Callers)
	}
	if err := r.Stacks(ctx, same, keep); err != nil {
		t.Fatal(err)
	}
	for i, depth := range depths {
		sum := map[profile.Sample]profile.Sample{} // by what is not counted
		for _, s := range p.Samples {
			var chain []int32
			for at := s.Stack; at != profile.None; at = p.Stacks[at].Caller {
				chain = append(chain, p.Stacks[at].Location)
			}
			if n := len(chain); depth > 0 {
				chain = chain[:min(depth, n)]
			} else if depth < 0 {
				chain = chain[max(n+depth, 0):]
			}
			chain = append(chain, s.Location)
			slices.Sort(chain)
			for _, loc := range slices.Compact(chain) {
				k := profile.Sample{Event: s.Event, Thread: s.Thread, CPU: s.CPU, Location: loc, Stack: profile.None, Extra: s.Extra}
				c, ok := sum[k]
				if !ok {
					c = k
				}
				c.Count += s.Count
				c.Period += s.Period
				sum[k] = c
			}
		}
		for _, s := range got[i] {
			k := s
			k.Count, k.Period = 0, 0
			if sum[k] != s {
				t.Fatalf("depth %d: callers: %+v, want %+v", depth, s, sum[k])
			}
		}
		if len(got[i]) != len(sum) {
			t.Fatalf("depth %d: %d callers, want %d", depth, len(got[i]), len(sum))
		}
	}
}

// TestCallers: a sample counts once for each location of its chain, however
// often that is there, and for its own.
func TestCallers(t *testing.T) {
	text := chained + `
mmap2 pid=5 tid=5 start=0x1000 len=0x1000 prot=5 name=/bin/a
mmap2 pid=5 tid=5 start=0x2000 len=0x1000 prot=5 name=/lib/b
sample pid=5 tid=5 time=9 ip=0x2010 chain=user,0x2010,0x1010
sample pid=5 tid=5 time=9 ip=0x2020 chain=user,0x2020,0x1010,0x2020,0x1010
sample pid=5 tid=5 time=9 ip=0x2030 chain=user,0x1020,0x1030
sample pid=6 tid=6 time=9 ip=0x2030 chain=user,0x1020,0x1030
sample pid=5 tid=5 time=9 ip=0x2030 chain=
`
	perftest.Orders(t, text, func(t *testing.T, data []byte) {
		f, err := perfdata.New(strings.NewReader(string(data)), int64(len(data)), "test.data", perfdata.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, workers := range []int{1, 3} {
			r, err := Load(context.Background(), f, Options{Keep: KeepFrames | KeepTID, Workers: workers})
			if err != nil {
				t.Fatal(err)
			}
			p := r.Profile
			if err := r.Callers(context.Background(), nil, KeepTID, 0); err != nil {
				t.Fatal(err)
			}
			counts := map[string]uint64{}
			for _, c := range p.Callers {
				l := &p.Locations[c.Location]
				name := "-"
				if l.Object >= 0 {
					name = p.Objects[l.Object].Short
				}
				counts[fmt.Sprintf("%d %s %#x", p.Threads[c.Thread].TID, name, l.Addr)] += c.Count
			}
			want := map[string]uint64{
				"5 a 0x10": 2, "5 b 0x10": 1, "5 b 0x20": 1, "5 b 0x30": 2, "5 a 0x20": 1, "5 a 0x30": 1,
				"6 - 0x1020": 1, "6 - 0x1030": 1, "6 - 0x2030": 1,
			}
			if !maps.Equal(counts, want) {
				t.Errorf("got %v\nwant %v", counts, want)
			}
			checkCallers(t, r, make([]int32, len(p.Locations)), KeepTID)
			checkCallers(t, r, nil, KeepTID)
		}
	})
}

// TestManyQueued: as many samples without call chains as wait at a time, all
// different, in tables that are empty before.
func TestManyQueued(t *testing.T) {
	var text strings.Builder
	text.WriteString(chained)
	for i := range 3 * frameBatch {
		fmt.Fprintf(&text, "sample pid=5 tid=5 ip=%#x time=9 chain=\n", 0x1000+i)
	}
	r := loadData(t, perftest.Data(t, text.String()), Options{Keep: KeepStacks, Workers: 1})
	if n := len(r.Profile.Samples); n != 3*frameBatch {
		t.Errorf("%d samples, want %d", n, 3*frameBatch)
	}
}

// TestStacksData: classes are of code; data stays where it is.
func TestStacksData(t *testing.T) {
	data := perftest.Data(t, memory)
	f, err := perfdata.New(strings.NewReader(string(data)), int64(len(data)), "test.data", perfdata.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Load(context.Background(), f, Options{Keep: KeepFrames | KeepAddr})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Stacks(context.Background(), make([]int32, len(r.Profile.Locations)), KeepAddr); err != nil {
		t.Fatal(err)
	}
	got := extraRows(r.Profile)
	slices.Sort(got)
	want := []string{"1: Addr=0xa010 Data=. [heap] 0xa010", "1: Addr=0xb010 Data=. anon 0xb010", "1: none", "2: Addr=0x9010 Data=. a 0x3010"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
