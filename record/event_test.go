package record

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perfark/perfark/perfdata"
)

// fakeHost is a host with one PMU and two tracepoints.
func fakeHost(t testing.TB) Host {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"bus/event_source/devices/pmu/type":                "12\n",
		"bus/event_source/devices/pmu/cpumask":             "0,2-3\n",
		"bus/event_source/devices/pmu/format/event":        "config:0-7,32-35\n",
		"bus/event_source/devices/pmu/format/umask":        "config:8-15\n",
		"bus/event_source/devices/pmu/format/limit":        "config1:0-3\n",
		"bus/event_source/devices/pmu/events/misses":       "event=0x2e,umask=0x41\n",
		"kernel/tracing/events/sched/sched_switch/id":      "316\n",
		"kernel/tracing/events/sched/sched_wakeup/id":      "318\n",
		"kernel/tracing/events/sched/sched_switch/format":  "name: sched_switch\nID: 316\n",
		"kernel/tracing/events/header_page":                "\tfield: u64 timestamp;\n",
		"kernel/tracing/events/header_event":               "# compressed entry header\n",
		"kernel/tracing/printk_formats":                    "",
		"kernel/tracing/saved_cmdlines":                    "1 init\n",
		"kernel/tracing/events/sched/sched_wakeup/format":  "name: sched_wakeup\nID: 318\n",
		"kernel/tracing/events/sched/not_an_event/nothing": "",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Host{Sys: dir}
}

func TestParseEvents(t *testing.T) {
	h := fakeHost(t)
	for _, test := range []struct {
		list string
		want []Event
	}{
		{"cycles", []Event{{Name: "cycles"}}},
		{" cycles:u , faults:pp", []Event{{Name: "cycles:u", User: true, modified: true}, {Name: "faults:pp", Type: perfdata.TypeSoftware, Config: 2, Precise: 2, modified: true, Leader: 1}}},
		{"r1a8:k", []Event{{Name: "r1a8:k", Type: perfdata.TypeRaw, Config: 0x1a8, Kernel: true, modified: true}}},
		{"L1-dcache-load-misses", []Event{{Name: "L1-dcache-load-misses", Type: perfdata.TypeHWCache, Config: 1 << 16}}},
		{"LLC-stores", []Event{{Name: "LLC-stores", Type: perfdata.TypeHWCache, Config: 2 | 1<<8}}},
		{"{cycles,cs}:S", []Event{{Name: "cycles", SampleRead: true}, {Name: "cs", Type: perfdata.TypeSoftware, Config: 3, SampleRead: true}}},
		{"a{cycles}", []Event{{Name: "cycles", Group: "a"}}},
		{"mem:0x1000/8:w:u", []Event{{Name: "mem:0x1000/8:w:u", Type: perfdata.TypeBreakpoint, Config1: 0x1000, Config2: 8, BPType: 2, User: true}}},
		{"pmu/event=0xf2e,umask=1,limit=3/k", []Event{{Name: "pmu/event=0xf2e,umask=1,limit=3/:k", Type: 12, Config: 0x2e | 1<<8 | 0xf<<32, Config1: 3, CPUs: []int{0, 2, 3}, Kernel: true, modified: true}}},
		{"pmu/misses,period=100/", []Event{{Name: "pmu/misses,period=100/", Type: 12, Config: 0x412e, Period: 100, CPUs: []int{0, 2, 3}}}},
		{"sched:sched_*", []Event{
			{Name: "sched:sched_switch", Type: perfdata.TypeTracepoint, Config: 316, tracepoint: "sched:sched_switch"},
			{Name: "sched:sched_wakeup", Type: perfdata.TypeTracepoint, Config: 318, tracepoint: "sched:sched_wakeup", Leader: 1},
		}},
	} {
		got, err := h.ParseEvents(test.list)
		if err != nil {
			t.Errorf("%q: %v", test.list, err)
			continue
		}
		same := slices.EqualFunc(got, test.want, func(a, b Event) bool {
			cpus := slices.Equal(a.CPUs, b.CPUs)
			a.CPUs, b.CPUs = nil, nil
			return cpus && equalEvents(a, b)
		})
		if !same {
			t.Errorf("%q:\n got %+v\nwant %+v", test.list, got, test.want)
		}
	}
	for list, want := range map[string]string{
		"":                   `event "": no event`,
		"nosuch":             `event "nosuch": there is no event "nosuch" on this host`,
		"cycles,":            `event "cycles,": want the name of an event`,
		"{cycles":            `event "{cycles": want a comma or }`,
		"cycles:x":           `event "cycles:x": modifier "x": 'x' is none of ukhGHIpPDeSWb`,
		"cycles:pppp":        `event "cycles:pppp": modifier "pppp": more than three p`,
		"pmu/event=0x1ffff/": `event "pmu/event=0x1ffff/": term "event": the value has 5 bits too many`,
		"pmu/nosuch/":        `event "pmu/nosuch/": term "nosuch": pmu knows no such term or event`,
		"sched:nosuch":       "tracepoint sched:nosuch: there is none in " + h.tracefs() + "/events",
		"../x:y":             `event "../x:y"`,
		"mem:0x10/9":         "length \"9\" of a breakpoint: want 1 to 8",
	} {
		if _, err := h.ParseEvents(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", list, err, want)
		}
	}
}

func equalEvents(a, b Event) bool {
	a.CPUs, b.CPUs = nil, nil
	return a.Name == b.Name && a.Type == b.Type && a.Config == b.Config && a.Config1 == b.Config1 && a.Config2 == b.Config2 && a.BPType == b.BPType &&
		a.Leader == b.Leader && a.Period == b.Period && a.User == b.User && a.Kernel == b.Kernel && a.Precise == b.Precise &&
		a.SampleRead == b.SampleRead && a.Group == b.Group && a.modified == b.modified && a.tracepoint == b.tracepoint
}

func TestParseCPUs(t *testing.T) {
	got, err := ParseCPUs("3, 0-1,1")
	if err != nil || !slices.Equal(got, []int{0, 1, 3}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, s := range []string{"", "a", "2-1", "1-", "70000"} {
		if got, err := ParseCPUs(s); err == nil {
			t.Errorf("%q: %v", s, got)
		}
	}
}

func TestParseOptions(t *testing.T) {
	for s, want := range map[string]Callgraph{
		"fp": {Mode: CallgraphFP}, "dwarf": {Mode: CallgraphDWARF}, "dwarf,4090": {Mode: CallgraphDWARF, StackSize: 4096}, "lbr": {Mode: CallgraphLBR}, "fp,8": {Mode: CallgraphFP, MaxStack: 8},
	} {
		if got, err := ParseCallgraph(s); got != want || err != nil {
			t.Errorf("%q: %+v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "x", "dwarf,", "dwarf,0", "dwarf,65529", "dwarf,-8", "fp,0", "fp,70000", "lbr,8"} {
		if got, err := ParseCallgraph(s); err == nil {
			t.Errorf("%q: %+v", s, got)
		}
	}
	if got, err := ParseBranches([]string{"u"}); got != 9 || err != nil {
		t.Errorf("u: %#x, %v", got, err)
	}
	if got, err := ParseBranches([]string{"any_call", "K"}); got != 0x12 || err != nil {
		t.Errorf("any_call, k: %#x, %v", got, err)
	}
	if _, err := ParseBranches([]string{"nosuch"}); err == nil {
		t.Error("nosuch: no error")
	}
	for s, want := range map[string]int32{"mono": 1, "CLOCK_MONOTONIC_RAW": 4, "boot": 7, "11": 11} {
		if got, err := ParseClock(s); got != want || err != nil {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	if _, err := ParseClock("sundial"); err == nil {
		t.Error("sundial: no error")
	}
	passwd := filepath.Join(t.TempDir(), "passwd")
	if err := os.WriteFile(passwd, []byte("root:x:0:0\nme:x:1000:1000:Me\nbroken\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for user, want := range map[string]int{"me": 1000, "root": 0, "7": 7} {
		if got, err := userID(passwd, user); got != want || err != nil {
			t.Errorf("%q: %v, %v", user, got, err)
		}
	}
	for _, user := range []string{"", "broken", "-1", "7x"} {
		if got, err := userID(passwd, user); err == nil {
			t.Errorf("%q: %v", user, got)
		}
	}
}

func TestParseWindows(t *testing.T) {
	const ms = time.Millisecond
	for s, want := range map[string][]Window{"-1": nil, "30": nil, "10-20": {{10 * ms, 20 * ms}}, "10-20,20-40": {{10 * ms, 20 * ms}, {20 * ms, 40 * ms}}} {
		delay, list, err := ParseWindows(s)
		if err != nil || !slices.Equal(list, want) || delay != map[string]time.Duration{"-1": -1, "30": 30 * ms}[s] && delay != 10*ms {
			t.Errorf("%q: %v, %v, %v", s, delay, list, err)
		}
	}
	for _, s := range []string{"", "x", "1-", "20-10", "10-10", "10-20,15-30", "10-20,", "99999999999"} {
		if _, list, err := ParseWindows(s); err == nil {
			t.Errorf("%q: %v", s, list)
		}
	}
	for s, want := range map[string]Synth{"no": SynthNone, "all": SynthMaps | SynthCgroups, "task,cgroup": SynthTasks | SynthCgroups} {
		if got, err := ParseSynth(s); got != want || err != nil {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "no,task", "mmap,"} {
		if got, err := ParseSynth(s); err == nil {
			t.Errorf("%q: %v", s, got)
		}
	}
	for _, test := range []struct {
		s, kind Synth
		want    bool
	}{{0, SynthCgroups, true}, {SynthNone, SynthTasks, false}, {SynthMaps, SynthTasks, true}, {SynthTasks, SynthMaps, false}} {
		if got := test.s.has(test.kind); got != test.want {
			t.Errorf("%v has %v: %v", test.s, test.kind, got)
		}
	}
}

// The terms that an event may have of its own.
func TestEventTerms(t *testing.T) {
	list, err := fakeHost(t).ParseEvents("cycles/call-graph=dwarf,stack-size=4090,max-stack=5,branch_type=any_call,no-inherit,overwrite,percore,nr=3,time=0/")
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	e := list[0]
	if e.Callgraph != "dwarf" || e.StackSize != 4096 || e.MaxStack != 5 || e.Branch != 0x10 || e.Inherit != No || e.Overwrite != Yes || !e.NoTime {
		t.Errorf("%+v", e)
	}
	for _, s := range []string{"cycles/stack-size=65535/", "cycles/max-stack=65536/", "cycles/branch_type=x/", "cycles/inherit=x/", "cycles/freq=x/"} {
		if list, err := (Host{}).ParseEvents(s); err == nil {
			t.Errorf("%s: %+v", s, list)
		}
	}
	e.AddFilter("a == 1")
	if e.AddFilter("b == 2"); e.Filter != "(a == 1) && (b == 2)" {
		t.Errorf("filter %q", e.Filter)
	}
}

func FuzzParseEvents(f *testing.F) {
	for _, s := range []string{"cycles:u", "{cycles,cs}:S", "mem:0x1000/8:w", "pmu/event=1,umask=2/k", "sched:*", "a{r1}", "L1-dcache-loads", "{", "a:b:c", "/", "x//"} {
		f.Add(s)
	}
	h := fakeHost(f)
	f.Fuzz(func(t *testing.T, s string) {
		list, err := h.ParseEvents(s)
		for i, e := range list {
			if err == nil && (e.Leader < 0 || e.Leader > i) {
				t.Errorf("event %d: leader %d", i, e.Leader)
			}
		}
	})
}
