package session

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
)

// header is the first line of most fixtures: one event without call chains.
const header = "event cycles sample=IDENTIFIER|IP|TID|TIME|CPU|PERIOD\n"

// chained is an event with them.
const chained = "event cycles sample=+CALLCHAIN\n"

func loadData(t *testing.T, data []byte, o Options) *Result {
	t.Helper()
	f, err := perfdata.New(bytes.NewReader(data), int64(len(data)), "test.data", perfdata.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := Load(context.Background(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// locText is a location as LEVEL OBJECT ADDR.
func locText(p *profile.Profile, i int32) string {
	l := p.Locations[i]
	name := "?"
	if l.Object != profile.None {
		name = p.Objects[l.Object].Short
	}
	return fmt.Sprintf("%c %s %#x", l.Level, name, l.Addr)
}

// rows are the samples as COMM TID COUNT: LOCATION, and the frames of the
// stack behind it, sorted.
func rows(r *Result) []string {
	p := r.Profile
	var out []string
	for _, s := range p.Samples {
		th := p.Threads[s.Thread]
		text := fmt.Sprintf("%s/%d %d: %s", th.Comm, th.TID, s.Count, locText(p, s.Location))
		sep := " <- "
		for st := s.Stack; st != profile.None; st = p.Stacks[st].Caller {
			text += sep + locText(p, p.Stacks[st].Location)
			sep = " | "
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}

// check loads text in both byte orders and compares the rows.
func check(t *testing.T, text string, o Options, want ...string) {
	t.Helper()
	if o.Keep == 0 {
		o.Keep = KeepComm | KeepTID | KeepStacks
	}
	perftest.Orders(t, text, func(t *testing.T, data []byte) {
		t.Helper()
		r := loadData(t, data, o)
		got := rows(r)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
		}
		p := r.Profile
		sums := make([]profile.Event, len(p.Events))
		for _, s := range p.Samples {
			sums[s.Event].Samples += s.Count
			sums[s.Event].Period += s.Period
		}
		for i, e := range p.Events {
			if sums[i].Samples != e.Samples || sums[i].Period != e.Period {
				t.Errorf("event %d: samples add up to %d with period %d, want %d with %d", i, sums[i].Samples, sums[i].Period, e.Samples, e.Period)
			}
		}
	})
}

// TestThreadMapsShare is perf's test of that name: threads share the maps of
// their process, children have a copy.
func TestThreadMapsShare(t *testing.T) {
	check(t, header+`
comm pid=10 tid=10 name=main time=1
mmap2 pid=10 tid=10 start=0x400000 len=0x2000 pgoff=0x1000 prot=5 name=/bin/a time=2
fork pid=10 tid=11 ppid=10 ptid=10 time=3
fork pid=20 tid=20 ppid=10 ptid=10 time=4
mmap2 pid=10 tid=11 start=0x500000 len=0x1000 prot=5 name=/lib/by-thread time=5
mmap2 pid=20 tid=20 start=0x500000 len=0x1000 prot=5 name=/lib/by-child time=5
fork pid=21 tid=21 ppid=20 ptid=20 time=6
mmap2 pid=20 tid=20 start=0x400000 len=0x1000 prot=5 name=/lib/over time=7
fork pid=30 tid=30 ppid=10 ptid=10 misc=0x2000 time=8
sample pid=10 tid=10 ip=0x400010 time=20
sample pid=10 tid=10 ip=0x500010 time=20
sample pid=10 tid=11 ip=0x500020 time=20
sample pid=10 tid=12 ip=0x500030 time=20
sample pid=20 tid=20 ip=0x400010 time=20
sample pid=20 tid=20 ip=0x401010 time=20
sample pid=20 tid=20 ip=0x500010 time=20
sample pid=21 tid=21 ip=0x400010 time=20
sample pid=21 tid=21 ip=0x500010 time=20
sample pid=30 tid=30 ip=0x400010 time=20
`, Options{},
		"main/10 1: . a 0x1010",
		"main/10 1: . by-thread 0x10",
		"main/11 1: . by-thread 0x20",
		":12/12 1: . by-thread 0x30",
		"main/20 1: . over 0x10",
		"main/20 1: . a 0x2010",
		"main/20 1: . by-child 0x10",
		"main/21 1: . a 0x1010",
		"main/21 1: . by-child 0x10",
		"main/30 1: . ? 0x400010", // FORK_EXEC: its own maps would follow
	)
}

// TestMapsFixup is perf's maps test: a newer map cuts an older one, whose ends
// keep their place in the file.
func TestMapsFixup(t *testing.T) {
	check(t, header+`
mmap2 pid=1 tid=1 start=0x10000 len=0x5000 pgoff=0x100000 prot=5 name=/old time=1
mmap2 pid=1 tid=1 start=0x12000 len=0x1000 pgoff=0 prot=5 name=/mid time=2
mmap2 pid=1 tid=1 start=0xf000 len=0x2000 pgoff=0x50000 prot=5 name=/front time=3
mmap2 pid=1 tid=1 start=0x14000 len=0x4000 pgoff=0x60000 prot=5 name=/back time=4
sample pid=1 tid=1 ip=0xffff time=9
sample pid=1 tid=1 ip=0x10fff time=9
sample pid=1 tid=1 ip=0x11000 time=9
sample pid=1 tid=1 ip=0x12000 time=9
sample pid=1 tid=1 ip=0x13fff time=9
sample pid=1 tid=1 ip=0x14000 time=9
sample pid=1 tid=1 ip=0x18000 time=9
`, Options{Keep: KeepStacks},
		"/-1 1: . front 0x50fff",
		"/-1 1: . front 0x51fff",
		"/-1 1: . old 0x101000",
		"/-1 1: . mid 0x0",
		"/-1 1: . old 0x103fff",
		"/-1 1: . back 0x60000",
		"/-1 1: . ? 0x18000",
	)
}

// TestStateAtTheTime: names and maps are those of the sample's time, wherever
// in the file the records stand. The records of CPU 1 come behind those of
// CPU 0.
func TestStateAtTheTime(t *testing.T) {
	check(t, header+`
comm pid=5 tid=5 name=first
mmap2 pid=5 tid=5 start=0x1000 len=0x1000 prot=5 name=/one
sample pid=5 tid=5 ip=0x1010 time=10
sample pid=5 tid=5 ip=0x1010 time=30
sample pid=5 tid=5 ip=0x1010 time=50
finished_round
mmap2 pid=5 tid=5 start=0x1000 len=0x1000 prot=5 name=/two time=40
comm pid=5 tid=5 name=second time=20
comm pid=0 tid=0 name=ignored time=60
sample pid=0 tid=0 ip=0xffffffff81000010 time=15
finished_round
`, Options{},
		"first/5 1: . one 0x10",
		"second/5 1: . one 0x10",
		"second/5 1: . two 0x10",
		"swapper/0 1: k ? 0xffffffff81000010",
	)
}

// TestEqualTimes is P17: at equal times, and in recordings without times, the
// order is that of the file; records of time 0 and ~0 count from the start.
func TestEqualTimes(t *testing.T) {
	body := func(a, b, c, d string) string {
		return `
comm pid=5 tid=5 name=a ` + a + `
sample pid=5 tid=5 ip=0x10 ` + b + `
comm pid=5 tid=5 name=b ` + c + `
sample pid=5 tid=5 ip=0x20 ` + d + "\n"
	}
	inOrder := []string{"a/5 1: . ? 0x10", "b/5 1: . ? 0x20"}
	t.Run("equal", func(t *testing.T) {
		check(t, header+body("time=7", "time=7", "time=7", "time=7"), Options{}, inOrder...)
	})
	t.Run("largest", func(t *testing.T) {
		const max = "time=0xfffffffffffffffe"
		check(t, header+body(max, max, max, max), Options{}, inOrder...)
	})
	t.Run("reversed", func(t *testing.T) {
		check(t, header+body("time=40", "time=30", "time=20", "time=10"), Options{}, "b/5 1: . ? 0x10", ":5/5 1: . ? 0x20")
	})
	t.Run("none", func(t *testing.T) {
		check(t, "event x sample=IP|TID !sample_id_all\n"+body("", "", "", ""), Options{}, inOrder...)
	})
	t.Run("start", func(t *testing.T) {
		check(t, header+body("time=0", "time=5", "time=0xffffffffffffffff", "time=6"), Options{}, "b/5 1: . ? 0x10", "b/5 1: . ? 0x20")
	})
}

// TestExec: a new program has none of the old maps once it runs, but the end
// of execve is still called by the old one. Without maps behind it, exec
// changes the name only.
func TestExec(t *testing.T) {
	check(t, chained+`
mmap2 pid=5 tid=5 start=0x1000 len=0x1000 prot=5 name=/old time=1
comm pid=5 tid=5 name=new misc=0x2000 time=10
sample pid=5 tid=5 ip=0xffffffff81000000 chain=kernel,0xffffffff81000000,user,0x1010 time=11
mmap2 pid=5 tid=5 start=0x8000 len=0x1000 prot=5 name=/new time=12
mmap2 pid=5 tid=5 start=0x9000 len=0x1000 prot=5 name=[vdso] time=13
sample pid=5 tid=5 ip=0xffffffff81000000 chain=kernel,0xffffffff81000000,user,0x1020 time=14
mmap2 pid=5 tid=5 start=0xa000 len=0x1000 prot=5 name=/libc time=15
sample pid=5 tid=5 ip=0x1030 chain=user,0x1030 time=16
sample pid=5 tid=5 ip=0x8030 chain=user,0x8030,0x9010,0xa010 time=17
mmap2 pid=6 tid=6 start=0x1000 len=0x1000 prot=5 name=/old time=1
comm pid=6 tid=6 name=blind misc=0x2000 time=10
sample pid=6 tid=6 ip=0x1040 chain=user,0x1040 time=19
`, Options{},
		"new/5 1: k ? 0xffffffff81000000 <- k ? 0xffffffff81000000 | . old 0x10",
		"new/5 1: k ? 0xffffffff81000000 <- k ? 0xffffffff81000000 | . old 0x20",
		"new/5 1: . ? 0x1030 <- . ? 0x1030",
		"new/5 1: . new 0x30 <- . new 0x30 | . [vdso] 0x10 | . libc 0x10",
		"blind/6 1: . old 0x40 <- . old 0x40",
	)
}

// TestReuse: a pid that comes again is another process.
func TestReuse(t *testing.T) {
	check(t, header+`
comm pid=1 tid=1 name=sh time=1
comm pid=9 tid=9 name=old time=1
mmap2 pid=9 tid=9 start=0x1000 len=0x1000 prot=5 name=/old time=2
exit pid=9 tid=9 ppid=1 ptid=1 time=5
sample pid=9 tid=9 ip=0x1010 time=6
fork pid=9 tid=9 ppid=1 ptid=1 time=7
sample pid=9 tid=9 ip=0x1010 time=8
exit pid=77 tid=77 ppid=1 ptid=1 time=8
fork pid=3 tid=3 ppid=3 ptid=3 time=8
sample pid=3 tid=3 ip=0x1010 time=9
`, Options{},
		"old/9 1: . old 0x10", // late, but still it
		"sh/9 1: . ? 0x1010",
		":3/3 1: . ? 0x1010",
	)
}

// TestKernelMaps: the kernel, modules that come and go, and its start-up code
// behind the recorded end.
func TestKernelMaps(t *testing.T) {
	text := header + `
mmap pid=-1 tid=0 start=0xffffffff81000000 len=0x1000000 pgoff=0xffffffff81000000 name=[kernel.kallsyms]_text
mmap pid=-1 tid=0 start=0xffffffffc0000000 len=0x2000 name=/lib/modules/6.1.0/kernel/net/xt-nat.ko.xz
mmap pid=-1 tid=0 start=0xffffffffc0010000 len=0x1000 name=[dm-mod]
sample pid=0 tid=0 ip=0xffffffff81000040 time=9
sample pid=0 tid=0 ip=0xffffffff83781254 time=9
sample pid=0 tid=0 ip=0xffffffffc0001010 time=9
sample pid=0 tid=0 ip=0xffffffffc0010010 time=9
sample pid=0 tid=0 ip=0xffffffffc0020010 time=9
feature build_id {
	build_id pid=-1 id=0123456789abcdef0123456789abcdef01234567 mode=kernel name=[kernel.kallsyms]
	build_id pid=-1 id=1123456789abcdef0123456789abcdef01234567 mode=kernel name=/lib/modules/6.1.0/kernel/drivers/md/dm-mod.ko
	build_id pid=-1 id=2123456789abcdef0123456789abcdef01234567 mode=kernel name=[xt_nat]
}
`
	check(t, text, Options{},
		"swapper/0 1: k [kernel.kallsyms] 0xffffffff81000040",
		"swapper/0 1: k [kernel.kallsyms] 0xffffffff83781254",
		"swapper/0 1: k [xt_nat] 0xffffffffc0001010",
		"swapper/0 1: k [dm_mod] 0xffffffffc0010010",
		"swapper/0 1: k ? 0xffffffffc0020010",
	)
	r := loadData(t, perftest.Data(t, text), Options{})
	if r.KernelRestricted {
		t.Error("the kernel's place is recorded, but KernelRestricted is set")
	}
	for i, o := range r.Profile.Objects {
		if !r.Mapped[i] {
			continue
		}
		want := map[string]string{"[kernel.kallsyms]": "01", "[dm_mod]": "11", "[xt_nat]": "21"}[o.Short]
		if !strings.HasPrefix(o.BuildID.String(), want) || want == "" {
			t.Errorf("%s has build id %v, want %s...", o.Short, o.BuildID, want)
		}
		if o.Kind == profile.KindKernel && (o.RefName != "_text" || o.RefAddr != 0xffffffff81000000 || o.Start != 0xffffffff81000000 || o.End != 0xffffffff82000000) {
			t.Errorf("kernel %+v", o)
		}
	}
}

// TestKernelRestricted is S13: with kernel.kptr_restrict there is no kernel
// map, and the user part is whole.
func TestKernelRestricted(t *testing.T) {
	text := header + `
mmap2 pid=5 tid=5 start=0x1000 len=0x1000 prot=5 name=/bin/dd
sample pid=5 tid=5 ip=0x1010 time=9
sample pid=5 tid=5 ip=0xffffffff81000040 time=9
`
	check(t, text, Options{}, ":5/5 1: . dd 0x10", ":5/5 1: k ? 0xffffffff81000040")
	for _, o := range []Options{{}, {HitsOnly: true}, {Keep: KeepStacks}} {
		if r := loadData(t, perftest.Data(t, text), o); !r.KernelRestricted || r.KernelSamples != 1 {
			t.Errorf("%+v: KernelRestricted is %v with %d kernel samples, want true with 1", o, r.KernelRestricted, r.KernelSamples)
		}
	}
}

// TestKsymbol: BPF programs are there from register to unregister, over the
// kernel or beside it.
func TestKsymbol(t *testing.T) {
	check(t, header+`
mmap pid=-1 tid=0 start=0xffffffff81000000 len=0x1000000 pgoff=0xffffffff81000000 name=[kernel.kallsyms]_text
ksymbol addr=0xffffffffc0001040 len=0x80 kind=1 name=bpf_prog_aa_x time=10
ksymbol addr=0xffffffff81000100 len=0x10 kind=2 name=kprobe_page time=10
ksymbol addr=0xffffffffc0001040 len=0x80 kind=1 flags=1 name=bpf_prog_aa_x time=20
ksymbol addr=0xffffffff81000100 len=0x10 kind=2 flags=1 name=kprobe_page time=20
ksymbol addr=0xffffffff81000200 len=0x10 kind=1 flags=1 name=unheard time=20
ksymbol addr=0xffffffffc0001060 len=0x80 kind=1 name=bpf_prog_bb_y time=30
sample pid=0 tid=0 ip=0xffffffffc0001070 time=5
sample pid=0 tid=0 ip=0xffffffffc0001070 time=15
sample pid=0 tid=0 ip=0xffffffffc0001070 time=25
sample pid=0 tid=0 ip=0xffffffffc0001070 time=35
sample pid=0 tid=0 ip=0xffffffff81000108 time=15
sample pid=0 tid=0 ip=0xffffffff81000108 time=25
sample pid=0 tid=0 ip=0xffffffff81000208 time=25
`, Options{},
		"swapper/0 2: k ? 0xffffffffc0001070",
		"swapper/0 1: k bpf_prog_aa_x 0xffffffffc0001070",
		"swapper/0 1: k bpf_prog_bb_y 0xffffffffc0001070",
		"swapper/0 1: k kprobe_page 0xffffffff81000108",
		"swapper/0 1: k [kernel.kallsyms] 0xffffffff81000108",
		"swapper/0 1: k [kernel.kallsyms] 0xffffffff81000208",
	)
}

// TestSpecialMaps: what perf makes of the names of mappings.
func TestSpecialMaps(t *testing.T) {
	check(t, header+`
mmap2 pid=5 tid=5 start=0x10000 len=0x1000 pgoff=0x10 prot=5 name=//anon
mmap2 pid=5 tid=5 start=0x20000 len=0x1000 prot=5 name="/dev/zero (deleted)"
mmap2 pid=5 tid=5 start=0x30000 len=0x1000 prot=5 name=/anon_hugepage
mmap2 pid=5 tid=5 start=0x40000 len=0x1000 prot=5 flags=0x40000 name=/hugetlbfs/code
mmap2 pid=5 tid=5 start=0x50000 len=0x1000 prot=5 name=[heap]
mmap2 pid=5 tid=5 start=0x60000 len=0x1000 pgoff=0x5000 prot=5 name=[vdso]
mmap2 pid=5 tid=5 start=0x70000 len=0x1000 prot=5 name=
mmap2 pid=5 tid=5 start=0x80000 len=0x1000 pgoff=0x2000 prot=5 name="/memfd:prog (deleted)"
mmap2 pid=5 tid=5 start=0x90000 len=0x1000 prot=5 name="/usr/lib/libc-2.17.so;56dd2155"
mmap2 pid=5 tid=5 start=0xa0000 len=0x1000 prot=3 name=[stack]
mmap2 pid=5 tid=5 start=0xb0000 len=0x1000 prot=3 name=//anon
fork pid=6 tid=6 ppid=5 ptid=5 time=1
sample pid=5 tid=5 ip=0x10010 time=9
sample pid=5 tid=5 ip=0x20010 time=9
sample pid=5 tid=5 ip=0x30010 time=9
sample pid=5 tid=5 ip=0x40010 time=9
sample pid=5 tid=5 ip=0x50010 time=9
sample pid=5 tid=5 ip=0x60010 time=9
sample pid=5 tid=5 ip=0x70010 time=9
sample pid=5 tid=5 ip=0x80010 time=9
sample pid=5 tid=5 ip=0x90010 time=9
sample pid=5 tid=5 ip=0xa0010 time=9
sample pid=5 tid=5 ip=0xb0010 time=9
sample pid=6 tid=6 ip=0x10020 time=9
`, Options{Keep: KeepStacks},
		"/-1 1: . [JIT] tid 5 0x10010",
		"/-1 1: . [JIT] tid 5 0x20010",
		"/-1 1: . [JIT] tid 5 0x30010",
		"/-1 1: . [JIT] tid 5 0x40010",
		"/-1 1: . [JIT] tid 5 0x50010",
		"/-1 1: . [vdso] 0x10",
		"/-1 1: . [unnamed mapping] 0x10",
		"/-1 1: . memfd:prog (deleted) 0x2010",
		"/-1 1: . libc-2.17.so;56dd2155 0x10",
		"/-1 1: . [stack] 0xa0010",
		"/-1 1: . anon 0xb0010",
		"/-1 1: . [JIT] tid 5 0x10020", // the parent's code
	)
}

// TestNonExec: data mapped over code hides it, and code over data shows.
func TestNonExec(t *testing.T) {
	check(t, header+`
mmap pid=5 tid=5 start=0x1000 len=0x4000 name=/lib
mmap pid=5 tid=5 start=0x2000 len=0x1000 pgoff=0x9000 misc=0x2002 name=/data
mmap pid=5 tid=5 start=0x2800 len=0x100 pgoff=0x20 name=/code
sample pid=5 tid=5 ip=0x1800 time=9
sample pid=5 tid=5 ip=0x2010 time=9
sample pid=5 tid=5 ip=0x2810 time=9
sample pid=5 tid=5 ip=0x3010 time=9
`, Options{Keep: KeepStacks},
		"/-1 1: . lib 0x800", "/-1 1: . data 0x9010", "/-1 1: . code 0x30", "/-1 1: . lib 0x2010")
}

// objectRows are the objects that were hit, as PATH ID SOURCE, sorted.
func objectRows(r *Result) []string {
	var out []string
	for i, o := range r.Profile.Objects {
		if r.Hit[i]&HitFrame != 0 {
			id := o.BuildID.String()
			if len(id) > 4 {
				id = fmt.Sprintf("%s*%d", id[:4], len(id)/2)
			}
			out = append(out, fmt.Sprintf("%s %s %d %v", o.Path, id, r.IDSource[i], slices.Contains(r.MissingIDs, int32(i))))
		}
	}
	slices.Sort(out)
	return out
}

func TestBuildIDs(t *testing.T) {
	const a = "aaaa*20"
	maps := func(lines ...string) string {
		text := header
		for i, l := range lines {
			text += fmt.Sprintf("mmap2 pid=5 tid=5 start=%#x len=0x1000 prot=5 %s\n", 0x10000*(i+1), l)
			text += fmt.Sprintf("sample pid=5 tid=5 ip=%#x time=9\n", 0x10000*(i+1)+16)
		}
		return text
	}
	table := func(lines ...string) string {
		return "feature build_id {\n" + strings.Join(lines, "\n") + "\n}\n"
	}
	tests := []struct {
		name, text string
		want       []string
	}{
		// B18: one object for each path.
		{"two paths, one id", maps("id="+a+" name=/a", "id="+a+" name=/b"),
			[]string{"/a aaaa*20 1 false", "/b aaaa*20 1 false"}},
		{"one path, two ids", maps("id="+a+" name=/a", "id=bbbb*20 name=/a"),
			[]string{"/a aaaa*20 1 false", "/a bbbb*20 1 false"}},
		// B19: two files of the same id at one path cannot be told apart here,
		// but their paths can.
		{"collision", maps("id="+a+" name=/spin", "id="+a+" name=/other"),
			[]string{"/other aaaa*20 1 false", "/spin aaaa*20 1 false"}},
		// B07: zeros are no id.
		{"zeros", maps("id=00*20 name=/a", "id=00*20 name=/b") + table("build_id pid=-1 id=00*20 name=/a"),
			[]string{"/a  0 true", "/b  0 true"}},
		{"table", maps("ino=3 name=/a", "ino=4 name=/b") + table("build_id pid=-1 id="+a+" name=/a"),
			[]string{"/a aaaa*20 2 false", "/b  0 true"}},
		{"mmap before table", maps("id=bbbb*20 name=/a") + table("build_id pid=-1 id="+a+" name=/a"),
			[]string{"/a bbbb*20 1 false"}},
		{"padded by an old perf", maps("ino=3 name=/a", "ino=3 name=/b") +
			table("build_id pid=-1 id=aaaa*8+00*12 nosize name=/a", "build_id pid=-1 id=aaaa*8+00*12 name=/b"),
			[]string{"/a aaaa*8 2 false", "/b aaaa*20 2 false"}},
		{"vdso", maps("name=[vdso]") + table("build_id pid=-1 id="+a+" name=[vdso]"),
			[]string{"[vdso] aaaa*20 2 false"}},
		// C07 without ids in the maps: the table has one of them.
		{"replaced", maps("ino=3 name=/a", "ino=4 name=/a") + table("build_id pid=-1 id="+a+" name=/a"),
			[]string{"/a  4 true", "/a  4 true", "/a aaaa*20 2 false"}},
		{"table with two", maps("ino=3 name=/a") + table("build_id pid=-1 id="+a+" name=/a", "build_id pid=-1 id=bbbb*20 name=/a"),
			[]string{"/a  4 true"}},
		// C05, C06: a removed file, and one that is really called that.
		{"deleted", maps("ino=3 name=\"/x (deleted)\"", "ino=4 name=\"/x (deleted)\"", "ino=5 name=/x"),
			[]string{"/x  0 true", "/x (deleted)  0 true", "/x (deleted)  0 true"}},
		{"no file", maps("name=//anon", "name="), []string{" " + " 0 false", "/tmp/perf-5.map  0 false"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.NewReplacer(
				"aaaa*20", strings.Repeat("aa", 20), "bbbb*20", strings.Repeat("bb", 20), "aaaa*8", strings.Repeat("aa", 8),
			).Replace(tt.text)
			slices.Sort(tt.want)
			for _, o := range []Options{{HitsOnly: true}, {}, {Keep: KeepStacks}} {
				r := loadData(t, perftest.Data(t, text), o)
				for i, o := range r.Profile.Objects {
					if hit := r.Hit[i]&HitFrame != 0; hit != (o.Samples > 0) && len(r.Profile.Samples) > 0 {
						t.Errorf("%+v: %d samples, hit %b", o, o.Samples, r.Hit[i])
					}
				}
				if got := objectRows(r); !slices.Equal(got, tt.want) {
					t.Errorf("%+v: got %q\nwant %q", o, got, tt.want)
				}
			}
		})
	}
}

// TestMmapKinds is C28: MMAP, MMAP2, MMAP2 with ids and all of them mixed give
// the same rows.
func TestMmapKinds(t *testing.T) {
	kinds := []string{
		"mmap pid=5 tid=5 start=%#x len=0x1000 pgoff=0x3000 name=/lib\n",
		"mmap2 pid=5 tid=5 start=%#x len=0x1000 pgoff=0x3000 prot=5 flags=2 ino=7 name=/lib\n",
		"mmap2 pid=5 tid=5 start=%#x len=0x1000 pgoff=0x3000 prot=5 flags=2 id=" + strings.Repeat("aa", 20) + " name=/lib\n",
	}
	for mix := range 4 {
		text := header
		for i := range 3 {
			kind := kinds[mix%3]
			if mix == 3 {
				kind = kinds[i]
			}
			text += fmt.Sprintf(kind, 0x10000*(i+1))
			text += fmt.Sprintf("sample pid=5 tid=5 ip=%#x time=9\n", 0x10000*(i+1)+16*(i+1))
		}
		text += "feature build_id {\nbuild_id pid=-1 id=" + strings.Repeat("aa", 20) + " name=/lib\n}\n"
		check(t, text, Options{}, ":5/5 1: . lib 0x3010", ":5/5 1: . lib 0x3020", ":5/5 1: . lib 0x3030")
		if r := loadData(t, perftest.Data(t, text), Options{}); len(r.MissingIDs) != 0 || r.Locations[0] != 3 || r.Profile.Objects[0].Samples != 3 {
			t.Errorf("mix %d: missing %v, %d locations and %d samples in %+v, want 3 in one object", mix, r.MissingIDs, r.Locations[0], r.Profile.Objects[0].Samples, r.Profile.Objects)
		}
	}
}

func TestCallchains(t *testing.T) {
	const maps = `
mmap pid=-1 tid=0 start=0xffffffff81000000 len=0x1000000 pgoff=0xffffffff81000000 name=[kernel.kallsyms]_text
mmap2 pid=5 tid=5 start=0x1000 len=0x1000 prot=5 name=/bin/a
mmap2 pid=5 tid=5 start=0x2000 len=0x1000 prot=5 name=/lib/b
`
	tests := []struct{ name, sample, want string }{
		{"kernel to user", "ip=0xffffffff81000010 chain=kernel,0xffffffff81000010,0xffffffff81000020,user,0x1010,0x2010",
			"k [kernel.kallsyms] 0xffffffff81000010 <- k [kernel.kallsyms] 0xffffffff81000010 | k [kernel.kallsyms] 0xffffffff81000020 | . a 0x10 | . b 0x10"},
		{"no marker is user", "ip=0x1010 chain=0x1010,0x2010", ". a 0x10 <- . a 0x10 | . b 0x10"},
		{"unknown marker", "ip=0x1010 chain=user,0x1010,0xfffffffffffffffe,0x2010", ". a 0x10 <- . a 0x10"},
		{"hypervisor", "ip=0x1010 chain=hv,0x1010,user,0x1010", ". a 0x10 <- H ? 0x1010 | . a 0x10"},
		{"guest", "ip=0x1010 chain=guest_user,0x1010,user,0x1010", ". a 0x10 <- u ? 0x1010 | . a 0x10"},
		{"no chain", "ip=0x1010", ". a 0x10"},
		{"user address in kernel mode", "ip=0x1010 mode=kernel chain=kernel,0x1010", "k ? 0x1010 <- k ? 0x1010"},
		{"unknown mode", "ip=0x1010 mode=unknown chain=user,0x1010", "H ? 0x1010 <- . a 0x10"},
		{"recursion", "ip=0x1010 chain=user,0x1010,0x1010,0x1010", ". a 0x10 <- . a 0x10 | . a 0x10 | . a 0x10"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			check(t, chained+maps+"sample pid=5 tid=5 time=9 "+tt.sample+"\n", Options{}, ":5/5 1: "+tt.want)
		})
	}
	r := loadData(t, perftest.Data(t, chained+maps+`
sample pid=5 tid=5 time=9 ip=0x1010 chain=user,0x1010,0xfffffffffffffffe,0x2010
sample pid=5 tid=5 time=9 ip=0x1010 chain=user,0x1010,0x2010
sample pid=5 tid=5 time=9 ip=0x1020 chain=user,0x1020,0x1010
`), Options{Keep: KeepStacks})
	if r.Profile.Lost.BadChains != 1 {
		t.Errorf("%d bad chains, want 1", r.Profile.Lost.BadChains)
	}
	for i, o := range r.Profile.Objects {
		want := map[string]uint64{"/bin/a": 3, "/lib/b": 1}[o.Path]
		if o.Samples != want {
			t.Errorf("%s: %d samples, want %d", o.Path, o.Samples, want)
		}
		if o.Path == "/lib/b" && r.Hit[i] != HitChain {
			t.Errorf("%s: hit %b, want by chain only", o.Path, r.Hit[i])
		}
	}
}

// TestDeferred: the user part of a chain may come later, with the cookie.
func TestDeferred(t *testing.T) {
	text := chained + `
mmap2 pid=5 tid=5 start=0x1000 len=0x1000 prot=5 name=/bin/a
sample pid=5 tid=5 time=9 ip=0xffffffff81000010 chain=kernel,0xffffffff81000010,deferred,77
sample pid=5 tid=5 time=10 ip=0xffffffff81000020 chain=kernel,0xffffffff81000020,deferred,77
sample pid=5 tid=6 time=10 ip=0xffffffff81000030 chain=kernel,0xffffffff81000030,deferred,77
callchain_deferred pid=5 tid=5 spid=5 stid=5 time=11 cookie=77 chain=0xfffffffffffffe00,0x1010,0x1020
`
	text = strings.ReplaceAll(text, "callchain_deferred pid=5 tid=5 ", "callchain_deferred ")
	check(t, text, Options{},
		":5/5 1: k ? 0xffffffff81000010 <- k ? 0xffffffff81000010 | . a 0x10 | . a 0x20",
		":5/5 1: k ? 0xffffffff81000020 <- k ? 0xffffffff81000020 | . a 0x10 | . a 0x20",
		":6/6 1: k ? 0xffffffff81000030 <- k ? 0xffffffff81000030",
	)
	if r := loadData(t, perftest.Data(t, text), Options{HitsOnly: true}); r.Hit[0] != HitChain {
		t.Errorf("hit %b, want by chain", r.Hit[0])
	}
}

// TestBranches: both ends of a branch are frames; a stack of calls that the
// processor recorded is the user part of the chain.
func TestBranches(t *testing.T) {
	const maps = `
mmap2 pid=5 tid=5 start=0x1000 len=0x1000 prot=5 name=/bin/a
mmap2 pid=5 tid=5 start=0x2000 len=0x1000 prot=5 name=/lib/b
mmap2 pid=5 tid=5 start=0x3000 len=0x1000 prot=5 name=/lib/c
`
	text := "event x sample=+BRANCH_STACK\n" + maps + `
sample pid=5 tid=5 time=9 ip=0x1010 branches=0x2010>0x1010,0x3010>0x2000
sample pid=5 tid=5 time=9 ip=0x1010 branches=0x2010>0x1010
`
	check(t, text, Options{}, ":5/5 2: . a 0x10")
	for _, o := range []Options{{HitsOnly: true}, {Keep: KeepStacks}} {
		r := loadData(t, perftest.Data(t, text), o)
		for i, want := range []Hit{HitIP | HitBranch, HitBranch, HitBranch} {
			if r.Hit[i] != want {
				t.Errorf("%+v: %s: hit %b, want %b", o, r.Profile.Objects[i].Path, r.Hit[i], want)
			}
			if n := []uint64{2, 2, 1}[i]; !o.HitsOnly && r.Profile.Objects[i].Samples != n {
				t.Errorf("%s: %d samples, want %d", r.Profile.Objects[i].Path, r.Profile.Objects[i].Samples, n)
			}
		}
	}
	check(t, "event x sample=+CALLCHAIN|BRANCH_STACK branch_sample_type=0x801\n"+maps+`
sample pid=5 tid=5 time=9 ip=0xffffffff81000010 chain=kernel,0xffffffff81000010,user,0x3030,0x3040 branches=0x2010>0x3020,0x1010>0x2000
`, Options{}, ":5/5 1: k ? 0xffffffff81000010 <- k ? 0xffffffff81000010 | . c 0x20 | . b 0x10 | . a 0x10")
}

// TestGuests: without the option, what ran in virtual machines is counted, and
// looked up nowhere.
func TestGuests(t *testing.T) {
	text := header + `
mmap pid=77 tid=77 mode=guest_kernel start=0xffffffff81000000 len=0x1000000 pgoff=0xffffffff81000000 name=[guest.kernel.kallsyms.77]_text
mmap pid=77 tid=77 mode=guest_kernel start=0xffffffffc0000000 len=0x1000 name=/lib/modules/6/kernel/a-b.ko
mmap pid=-1 tid=0 start=0xffffffff81000000 len=0x1000000 pgoff=0xffffffff81000000 name=[kernel.kallsyms]_text
sample pid=77 tid=78 mode=guest_kernel ip=0xffffffff81000010 time=9
sample pid=77 tid=78 mode=guest_kernel ip=0xffffffffc0000010 time=9
sample pid=77 tid=78 mode=guest_user ip=0x1010 time=9
sample pid=77 tid=78 ip=0xffffffff81000010 time=9
feature build_id {
	build_id pid=77 id=0123456789abcdef0123456789abcdef01234567 mode=guest_kernel name=[guest.kernel.kallsyms.77]
}
`
	check(t, text, Options{},
		":78/78 1: g ? 0xffffffff81000010", ":78/78 1: g ? 0xffffffffc0000010", ":78/78 1: u ? 0x1010",
		":78/78 1: k [kernel.kallsyms] 0xffffffff81000010")
	check(t, text, Options{Guests: true},
		":78/78 1: g [guest.kernel.kallsyms.77] 0xffffffff81000010", ":78/78 1: g [a_b] 0xffffffffc0000010", ":78/78 1: u ? 0x1010",
		":78/78 1: k [kernel.kallsyms] 0xffffffff81000010")
	r := loadData(t, perftest.Data(t, text), Options{Guests: true})
	if r.GuestSamples != 3 || r.KernelRestricted {
		t.Errorf("%d samples of guests, restricted %v, want 3 and false", r.GuestSamples, r.KernelRestricted)
	}
	for i, o := range r.Profile.Objects {
		if o.Kind == profile.KindGuestKernel && r.Mapped[i] && (o.Guest != 77 || !strings.HasPrefix(o.BuildID.String(), "0123")) {
			t.Errorf("guest kernel %+v", o)
		}
	}
}

// TestReadGroup: a sample with the counters of a group is a sample of each
// member, whose period is what it counted since the last one.
func TestReadGroup(t *testing.T) {
	text := `
event a sample=IDENTIFIER|IP|TID|TIME|CPU|PERIOD|READ read=ID|GROUP ids=1
event b sample=IDENTIFIER|IP|TID|TIME|CPU|PERIOD|READ read=ID|GROUP ids=2
sample pid=5 tid=5 ip=0x10 time=1 evid=1 read=100/1,7/2
sample pid=5 tid=5 ip=0x20 time=2 evid=1 read=250/1,7/2
sample pid=5 tid=5 ip=0x30 time=3 evid=1 read=300/1,9/2,4/99
`
	check(t, text, Options{Keep: KeepTID},
		"/5 1: . ? 0x10", "/5 1: . ? 0x10", "/5 1: . ? 0x20", "/5 1: . ? 0x30", "/5 1: . ? 0x30")
	r := loadData(t, perftest.Data(t, text), Options{})
	if e := r.Profile.Events; e[0].Samples != 3 || e[0].Period != 300 || e[1].Samples != 2 || e[1].Period != 9 || r.Profile.Lost.UnknownID != 1 {
		t.Errorf("events %+v, lost %+v", e, r.Profile.Lost)
	}
}

func TestUnknown(t *testing.T) {
	// P07: records of unknown types, and samples of unknown events.
	text := `
event a ids=1
event b ids=2
raw type=200 u64:1
raw type=200 u64:2
sample pid=5 tid=5 ip=0x10 time=1 evid=1
sample pid=5 tid=5 ip=0x10 time=1 evid=99
lost id=1 lost=11
lost_samples lost=5
`
	perftest.Orders(t, text, func(t *testing.T, data []byte) {
		r := loadData(t, data, Options{})
		if l := r.Profile.Lost; l.UnknownID != 1 || l.Events != 11 || l.Samples != 5 {
			t.Errorf("lost %+v", l)
		}
		if !r.Partial() {
			t.Error("a sample of no event is not in the profile, and the result says it is whole")
		}
		if s := r.Stats; s.Total != 6 || s.Types[200] != 2 || s.Types[typeSample] != 2 || !slices.Equal(s.Samples, []uint64{1, 0}) {
			t.Errorf("stats: total %d, type 200 %d, samples %d %v", s.Total, s.Types[200], s.Types[typeSample], s.Samples)
		}
	})
}

// TestProcesses: what archive looks for in /proc.
func TestProcesses(t *testing.T) {
	r := loadData(t, perftest.Data(t, "event x sample=+REGS_USER|STACK_USER sample_regs_user=1 sample_stack_user=8\n"+`
comm pid=1 tid=1 name=sh time=1
mmap2 pid=1 tid=1 start=0x1000 len=0x1000 prot=5 name=/bin/sh time=1
mmap2 pid=1 tid=1 start=0x8000 len=0x1000 prot=1 name=/data time=1
fork pid=2 tid=2 ppid=1 ptid=1 time=2
comm pid=2 tid=2 name=ls misc=0x2000 time=3
mmap2 pid=2 tid=2 start=0x4000 len=0x1000 prot=5 name=/bin/ls time=3
mmap2 pid=2 tid=2 start=0x5000 len=0x1000 prot=5 name=/lib/c time=3
exit pid=2 tid=2 ppid=1 ptid=1 time=9
sample pid=2 tid=2 ip=0x4010 time=4 regs=1 stack=0011223344556677
sample pid=9 tid=9 ip=0x4010 time=4
`), Options{})
	var got []string
	for _, p := range r.Processes {
		var paths []string
		for _, o := range p.Objects {
			paths = append(paths, r.Profile.Objects[o].Path)
		}
		got = append(got, fmt.Sprintf("%d %q exited=%v sampled=%v %v", p.PID, p.Comm, p.Exited, p.Sampled, paths))
	}
	want := []string{
		`1 "sh" exited=false sampled=false [/bin/sh]`,
		`2 "ls" exited=true sampled=true [/bin/ls /lib/c]`,
		`9 "" exited=false sampled=true []`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if r.UserStacks != 1 {
		t.Errorf("%d samples with a stack, want 1", r.UserStacks)
	}
	for i, o := range r.Profile.Objects {
		want := map[string]Hit{"/bin/sh": HitUnwind, "/bin/ls": HitUnwind | HitIP, "/lib/c": HitUnwind}[o.Path]
		if r.Hit[i] != want {
			t.Errorf("%s: hit %b, want %b", o.Path, r.Hit[i], want)
		}
	}
}

// TestKeep: what is not kept does not split samples.
func TestKeep(t *testing.T) {
	data := perftest.Data(t, chained+`
comm pid=5 tid=5 name=a
comm pid=5 tid=6 name=a
comm pid=7 tid=7 name=a
sample pid=5 tid=5 cpu=0 ip=0x10 chain=user,0x10,0x20 time=1
sample pid=5 tid=6 cpu=1 ip=0x10 chain=user,0x10,0x20 time=1
sample pid=7 tid=7 cpu=1 ip=0x10 chain=user,0x10,0x30 time=1
`)
	for _, tt := range []struct {
		keep             Keep
		samples, threads int
		stacks, locs     int
	}{
		{0, 1, 1, 0, 1},
		{KeepComm, 1, 1, 0, 1},
		{KeepPID, 2, 2, 0, 1},
		{KeepTID, 3, 3, 0, 1},
		{KeepCPU, 2, 1, 0, 1},
		{KeepStacks, 2, 1, 4, 3},
		{KeepComm | KeepPID | KeepTID | KeepCPU | KeepStacks, 3, 3, 4, 3},
	} {
		p := loadData(t, data, Options{Keep: tt.keep}).Profile
		if len(p.Samples) != tt.samples || len(p.Threads) != tt.threads || len(p.Stacks) != tt.stacks || len(p.Locations) != tt.locs {
			t.Errorf("keep %b: %d samples, %d threads, %d stacks, %d locations, want %+v", tt.keep, len(p.Samples), len(p.Threads), len(p.Stacks), len(p.Locations), tt)
		}
	}
}
