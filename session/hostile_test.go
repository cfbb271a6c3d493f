package session

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
)

// TestManyPids is P16 of the hostile recipes: very many pids, forks in circles,
// exits before forks. The time is linear, and what one costs is bounded.
func TestManyPids(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n = 30_000
	}
	data := perftest.Data(t, header)
	f, err := perfdata.New(bytes.NewReader(data), int64(len(data)), "x", perfdata.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	start := time.Now()
	l := newLoader(f, Options{MaxNodes: 1 << 20})
	for i := range int32(n) {
		at := moment{uint64(i), uint64(i)}
		l.change(&change{moment: at, typ: typeExit, pid: i + 1, tid: i + 1})
		l.change(&change{moment: at, typ: typeFork, pid: i + 1, tid: i + 1, ppid: i, ptid: i})
		l.change(&change{moment: at, typ: typeFork, pid: i, tid: i, ppid: i + 1, ptid: i + 1})
		l.change(&change{moment: at, typ: typeFork, pid: i, tid: i, ppid: i, ptid: i})
		l.change(&change{moment: at, typ: typeMmap2, mmap: &perfdata.Mmap{
			Meta: perfdata.Meta{Type: typeMmap2, Misc: perfdata.CPUModeUser}, MapPID: i + 1,
			Start: uint64(i) << 12, Len: 1 << 40, Prot: protExec, Name: "/x",
		}})
	}
	if nodes := len(l.atlas.forest.nodes); nodes > 1<<20+100 {
		t.Errorf("%d nodes, the limit is %d", nodes, 1<<20)
	}
	t.Logf("%d pids in %v, %d nodes, %d maps dropped", n, time.Since(start), len(l.atlas.forest.nodes), l.res.DroppedMaps)
	if d := time.Since(start); d > time.Minute {
		t.Errorf("took %v", d)
	}
}

// TestLimits: what goes beyond a limit is counted, and the rest stays.
func TestLimits(t *testing.T) {
	text := chained + `
mmap2 pid=5 tid=5 start=0x1000 len=0x1000 prot=5 name=/bin/a
sample pid=5 tid=5 time=9 ip=0x1010 chain=user,0x1010,deferred,1
callchain_deferred time=9 spid=5 stid=5 cookie=1 chain=0x1010,0x1020
`
	data := perftest.Data(t, text)
	r := loadData(t, data, Options{MaxNodes: 1, MaxDefer: 1})
	if r.DroppedMaps != 1 || r.DroppedChains != 1 || !r.Partial() || r.Profile.Events[0].Samples != 1 {
		t.Errorf("dropped %d maps, %d chains, partial %v, %d samples", r.DroppedMaps, r.DroppedChains, r.Partial(), r.Profile.Events[0].Samples)
	}
	if r := loadData(t, data, Options{}); r.Partial() {
		t.Error("partial without a limit in reach")
	}
}

// TestWrap is P15: mappings that wrap, that are empty, that are everything.
func TestWrap(t *testing.T) {
	check(t, header+`
mmap2 pid=5 tid=5 start=0xfffffffffffff000 len=0x2000 pgoff=0x8000000000000000 prot=5 name=/wraps
mmap2 pid=5 tid=5 start=0x1000 len=0 prot=5 name=/empty
mmap2 pid=6 tid=6 start=0 len=0xffffffffffffffff prot=5 name=/all
sample pid=5 tid=5 ip=0xfffffffffffffff0 mode=user time=9
sample pid=5 tid=5 ip=0x1000 time=9
sample pid=5 tid=5 ip=0 time=9
sample pid=6 tid=6 ip=0 time=9
sample pid=6 tid=6 ip=0xfffffffffffffffe mode=user time=9
sample pid=6 tid=6 ip=0xffffffffffffffff mode=user time=9
`, Options{Keep: KeepStacks},
		"/-1 1: . wraps 0x8000000000000ff0", "/-1 1: . ? 0x1000", "/-1 1: . ? 0x0",
		"/-1 1: . all 0x0", "/-1 1: . all 0xfffffffffffffffe", "/-1 1: . ? 0xffffffffffffffff")
}

func FuzzLoad(f *testing.F) {
	for _, text := range []string{
		header + "mmap2 pid=5 tid=5 start=0x1000 len=0x1000 prot=5 name=/a\nsample pid=5 tid=5 ip=0x1010 time=9\n",
		chained + "comm pid=5 tid=5 name=x misc=0x2000\nfork pid=6 tid=6 ppid=5 ptid=5\nsample pid=6 tid=6 ip=0x10 chain=user,0x10,deferred,1\ncallchain_deferred cookie=1 chain=1,2\n",
		"event x sample=+CALLCHAIN|BRANCH_STACK branch_sample_type=0x801\nsample pid=5 tid=5 ip=1 chain=user,1 branches=1>2\n",
		"event a sample=+READ read=ID|GROUP\nsample ip=1 read=1/100\nksymbol addr=1 len=9 name=k\nksymbol addr=1 len=9 flags=1 name=k\n",
		"file big\n" + header + "mmap pid=-1 tid=0 start=0 len=0 name=[kernel.kallsyms]_text\nsample ip=0xffffffff81000000\n",
	} {
		b, err := perftest.Build(text)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	if dir := os.Getenv("PERFARK_CORPUS"); dir != "" {
		names, _ := filepath.Glob(filepath.Join(dir, "*", "*", "*", "*", "*.data*"))
		for _, n := range names {
			if b, err := os.ReadFile(n); err == nil && len(b) < 64<<10 {
				f.Add(b)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, err := perfdata.New(bytes.NewReader(data), int64(len(data)), "fuzz", perfdata.Options{
			Limits: decode.Limits{Bytes: 64 << 20, Steps: 1 << 24},
		})
		if err != nil {
			return
		}
		defer rec.Close()
		for _, o := range []Options{
			{HitsOnly: true, Workers: 1},
			{Keep: KeepComm | KeepTID, Workers: 2},
			{Keep: KeepPID | KeepCPU | KeepStacks, Workers: 1, Guests: true},
		} {
			r, err := Load(context.Background(), rec, o)
			if err != nil {
				continue
			}
			checkProfile(t, r)
		}
	})
}

// checkProfile checks that all handles of a profile lead somewhere, and that
// samples add up.
func checkProfile(t *testing.T, r *Result) {
	t.Helper()
	p := r.Profile
	n := len(p.Objects)
	if len(r.Hit) != n || len(r.Mapped) != n || len(r.IDSource) != n || len(r.Locations) != n {
		t.Fatal("slices by object are not as long as there are objects")
	}
	in := func(i int32, n int) bool { return i >= 0 && int(i) < n }
	for i, s := range p.Stacks {
		if !in(s.Location, len(p.Locations)) || s.Caller != profile.None && !in(s.Caller, i) {
			t.Fatalf("stack %d: %+v", i, s)
		}
	}
	for i, l := range p.Locations {
		if l.Object != profile.None && !in(l.Object, n) {
			t.Fatalf("location %d: %+v", i, l)
		}
	}
	sums := make([]uint64, len(p.Events))
	for i, s := range p.Samples {
		if !in(s.Event, len(p.Events)) || !in(s.Thread, len(p.Threads)) || !in(s.Location, len(p.Locations)) ||
			s.Stack != profile.None && !in(s.Stack, len(p.Stacks)) {
			t.Fatalf("sample %d: %+v", i, s)
		}
		sums[s.Event] += s.Count
	}
	for i, e := range p.Events {
		if len(p.Samples) > 0 && sums[i] != e.Samples {
			t.Fatalf("event %d: %d samples in rows, %d in all", i, sums[i], e.Samples)
		}
	}
}
