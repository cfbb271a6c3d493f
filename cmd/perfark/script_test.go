package main

import (
	"compress/gzip"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/perfdata"
)

// TestScriptCorpus compares every line with perf's, of all recordings of the
// corpus that perf reads.
func TestScriptCorpus(t *testing.T) {
	dir := perftest.Corpus(t)
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PERF_CONFIG", "/dev/null")
	n := 0
	for _, rel := range perftest.CorpusFiles(t) {
		name := filepath.Join(dir, "expected", strings.ReplaceAll(rel, "/", "~")+".script.txt.gz")
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		want, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if synthesized[filepath.Base(rel)] > 0 {
			continue // most of perf's lines are of events that it makes up
		}
		n++
		t.Run(rel, func(t *testing.T) {
			_, got, errs := runArgs(t, "", "script", "-i", filepath.Join(dir, rel))
			if hasStackDumps(t, filepath.Join(dir, rel)) && hasLines(got, string(want)) {
				return // and callers that perf has no file to find with, or one frame where it has none
			}
			if got != string(want) {
				t.Errorf("%s\n%s", firstDiff(string(want), got), errs)
			}
		})
	}
	if n < 60 {
		t.Errorf("%d recordings compared", n)
	}
}

func hasStackDumps(t *testing.T, name string) bool {
	f, err := perfdata.Open(name, perfdata.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return slices.ContainsFunc(f.Events(), func(e perfdata.Event) bool { return e.Attr.SampleType&perfdata.SampleStackUser != 0 })
}

// hasLines reports whether all lines of want are in got, in their order.
func hasLines(got, want string) bool {
	lines := strings.Split(got, "\n")
	for line := range strings.SplitSeq(want, "\n") {
		i := slices.Index(lines, line)
		if i < 0 {
			return false
		}
		lines = lines[i+1:]
	}
	return true
}

// firstDiff shows the first line in which two texts differ.
func firstDiff(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		if at(w, i) != at(g, i) {
			return "got  " + at(g, i) + "\nwant " + at(w, i)
		}
	}
	return ""
}

// TestScriptPerf compares with the perf of this machine, on fresh recordings.
func TestScriptPerf(t *testing.T) {
	perftest.NeedTool(t, "perf")
	prog := perftest.CC(t, "script-test", threadsSource, "-O1", "-g", "-fno-omit-frame-pointer", "-lpthread")
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("PERF_CONFIG", "/dev/null")
	chains := perftest.Record(t, "-e", "cpu-clock:u,page-faults:u", "-F", "500", "-g", "-d", "--sample-cpu", "--", prog)
	regs := perftest.Record(t, "-e", "cpu-clock:u", "-F", "500", "--user-regs=ip,sp,ax,r8", "--intr-regs=ip,flags", "--", prog)
	group := perftest.Record(t, "-e", "{cpu-clock:u,task-clock:u}:S", "-F", "500", "--", prog)
	type run struct {
		data string
		args []string
	}
	runs := []run{
		{chains, nil},
		{chains, []string{"-G"}},
		{chains, []string{"--max-stack", "2"}},
		{chains, []string{"--ns"}},
		{chains, []string{"--reltime"}},
		{chains, []string{"--deltatime", "-F", "time,event"}},
		{chains, []string{"--reltime", "--show-task-events", "--show-mmap-events"}},
		{chains, []string{"--deltatime", "--show-task-events", "--show-mmap-events"}},
		{chains, []string{"-F", "+flags"}},
		{regs, []string{"-F", "comm,ip,flags"}},
		{chains, []string{"-F", "comm,tid,time,period,event,ip,sym,symoff,dso"}},
		{chains, []string{"-F", "+pid,-tid,+addr"}},
		{chains, []string{"-F", "ip,sym"}},
		{chains, []string{"-F", "ip"}},
		{chains, []string{"-F", "comm,pid"}},
		{chains, []string{"-F", "sw:comm,tid,ip,dso", "-G"}},
		{chains, []string{"-F", "+misc"}},
		{chains, []string{"--show-task-events", "--show-mmap-events"}},
		{chains, []string{"-C", "0"}},
		{chains, []string{"-c", "2nd"}},
		{chains, []string{"-S", "leaf,middle", "-G"}},
		{chains, []string{"--dsos", "script-test"}},
		{chains, []string{"--time", "10%-20%"}},
		{chains, []string{"--stop-bt", "middle"}},
		{chains, []string{"--header"}},
		{chains, []string{"--hide-call"}}, // cut short
		{regs, nil},
		{regs, []string{"-F", "+iregs,+uregs"}},
		{group, nil},
	}
	dumps := perftest.Record(t, "-e", "cpu-clock:u", "-F", "500", "--call-graph", "dwarf,4096", "--", prog)
	runs = append(runs, run{dumps, []string{"--no-inline", "--max-stack", "2"}}, run{dumps, []string{"--no-inline", "--max-stack", "3", "-F", "ip,sym,dso"}})
	// The kernel touches what the program has mapped.
	faults := filepath.Join(t.TempDir(), "perf.data")
	if r := perftest.Perf(t, "record", perftest.NoBPF, "-q", "-e", "page-faults", "-c", "1", "-d", "-o", faults, "--", prog); r.Code == 0 {
		runs = append(runs, run{faults, []string{"-F", "event,addr,ip,dso"}})
	}
	for _, tt := range runs {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			args := append([]string{"script", "-i", tt.data}, tt.args...)
			want := perftest.PerfIn(t, t.TempDir(), home, nil, args...)
			code, got, errs := runArgs(t, "", args...)
			if code != 0 || want.Code != 0 {
				t.Fatalf("exit status %d, perf's %d: %s%s", code, want.Code, errs, want.Stderr)
			}
			if got == "" || got != want.Stdout {
				t.Errorf("(- perf, + perfark):\n%s", gocmp.Diff(headLines(want.Stdout), headLines(got)))
			}
		})
	}
}

// headLines are the lines that a difference is shown of.
func headLines(s string) []string {
	lines := strings.SplitAfter(s, "\n")
	return lines[:min(len(lines), 400)]
}

// TestScriptTracepoints compares what is printed of tracepoints.
func TestScriptTracepoints(t *testing.T) {
	perftest.NeedTool(t, "perf")
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("PERF_CONFIG", "/dev/null")
	name := filepath.Join(t.TempDir(), "perf.data")
	events := "sched:sched_switch,sched:sched_wakeup,raw_syscalls:sys_enter,raw_syscalls:sys_exit,kmem:kmalloc,irq:softirq_entry,timer:hrtimer_start"
	if r := perftest.Perf(t, "record", perftest.NoBPF, "-q", "-e", events, "-o", name, "--", "ls", "/"); r.Code != 0 {
		t.Skipf("skipped: perf may not record tracepoints: %s", r.Stderr)
	}
	for _, args := range [][]string{nil, {"-F", "trace:comm,event,trace"}} {
		args = append([]string{"script", "-i", name}, args...)
		want := perftest.PerfIn(t, t.TempDir(), home, nil, args...)
		code, got, errs := runArgs(t, "", args...)
		if code != 0 || got == "" || got != want.Stdout {
			t.Errorf("%q: exit status %d, %s\n%s", args, code, errs, firstDiff(want.Stdout, got))
		}
	}
}

// The lines are the same for any number of workers, and in the order of time.
func TestScriptWorkers(t *testing.T) {
	var text strings.Builder
	text.WriteString("event cycles type=0 sample=+CALLCHAIN ids=7\ncomm pid=10 tid=10 name=w time=1\n")
	for i := range 20000 {
		text.WriteString("sample ip=0x400123 pid=10 tid=10 time=")
		text.WriteString(strconv.Itoa(2 + i ^ 1)) // pairs exchanged
		text.WriteString(" chain=user,0x400123,0x400456\n")
	}
	name := perftest.File(t, text.String())
	t.Setenv("HOME", t.TempDir())
	_, one, _ := runArgs(t, "", "script", "-j", "1", "-F", "time,ip", "--ns", "-i", name)
	_, four, _ := runArgs(t, "", "script", "-j", "4", "-F", "time,ip", "--ns", "-i", name)
	if one != four || strings.Count(one, "\n") != 4*20000 {
		t.Errorf("%d and %d lines, which differ", strings.Count(one, "\n"), strings.Count(four, "\n"))
	}
	last := ""
	for line := range strings.Lines(one) {
		if strings.Contains(line, ".") {
			if line < last {
				t.Fatalf("%q behind %q", line, last)
			}
			last = line
		}
	}
}

// TestScriptBranches compares branch stacks with perf's, on recordings of the
// corpus.
func TestScriptBranches(t *testing.T) {
	dir := perftest.Corpus(t)
	perftest.NeedTool(t, "perf")
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("PERF_CONFIG", "/dev/null")
	for _, rel := range []string{
		"google__autofdo/testdata/test.lbr",
		"google__perf_data_converter/src/quipper/testdata/perf.data.branch-4.14",
	} {
		for _, fields := range []string{"+brstack", "+brstacksym", "brstacksym,sym,ip,symoff", "ip,brstack"} {
			args := []string{"script", "-i", filepath.Join(dir, rel), "-F", fields}
			want := perftest.PerfIn(t, home, home, nil, append(args, "-f", "--symfs", home)...)
			_, got, errs := runArgs(t, "", args...)
			if got == "" || got != want.Stdout {
				t.Errorf("%s -F %s: %s\n%s", rel, fields, firstDiff(want.Stdout, got), errs)
			}
		}
	}
}

// TestScriptMemory compares memory accesses with perf's, of which the columns
// are padded to the longest one before.
func TestScriptMemory(t *testing.T) {
	perftest.NeedTool(t, "perf")
	var text strings.Builder
	text.WriteString("event loads type=4 config=0x1cd sample=+ADDR|WEIGHT|DATA_SRC|PHYS_ADDR|DATA_PAGE_SIZE|CODE_PAGE_SIZE ids=7\n")
	for i, src := range []string{
		"0x68100142", "0x1", "0x2668100842", "0x5080184", "0x229080184", "0x1e05080144", "0x68100242", "0x6a100442", "0x10068501042",
		"0x2042980104a2", "0x40c68140042", "0x8e68100022",
	} {
		n := strconv.Itoa(i + 5)
		text.WriteString("sample ip=0x400123 pid=10 tid=10 time=" + n + " addr=0x7fff1000 weight=" + n + " data_src=" + src +
			" phys_addr=0x1234 data_page=4096 code_page=2097152\n")
	}
	name := perftest.File(t, text.String())
	home := t.TempDir()
	t.Setenv("HOME", home)
	want := perftest.PerfIn(t, home, home, nil, "script", "-i", name)
	_, got, errs := runArgs(t, "", "script", "-i", name)
	normal := func(s string) string { return spacesRE.ReplaceAllString(s, "  ") }
	if got == "" || normal(got) != normal(want.Stdout) {
		t.Errorf("%s\n%s", firstDiff(normal(want.Stdout), normal(got)), errs)
	}
}

// Samples between two events, and those at an address, are perf's; so are they
// in reports.
func TestScriptSwitchLikePerf(t *testing.T) {
	perftest.NeedTool(t, "perf")
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("PERF_CONFIG", "/dev/null")
	data := perftest.Record(t, "-q", "-e", "sched:sched_switch,sched:sched_wakeup,cpu-clock:u", "sh", "-c", "ls > /dev/null; ls | cat > /dev/null")
	same := func(args ...string) {
		t.Helper()
		want := perftest.PerfIn(t, home, home, nil, args...)
		_, got, errs := runArgs(t, "", args...)
		if got != want.Stdout {
			t.Errorf("%q: %s\n%s", args, firstDiff(want.Stdout, got), errs)
		}
	}
	const on, off = "sched:sched_wakeup", "sched:sched_switch"
	for _, list := range [][]string{
		{"--switch-on", on},
		{"--switch-on", on, "--show-on-off-events"},
		{"--switch-on", on, "--switch-off", off},
		{"--switch-on", on, "--switch-off", off, "--show-on-off-events"},
		{"--switch-on", off, "--switch-off", off},
	} {
		same(append([]string{"script", "-i", data}, list...)...)
		report := append([]string{"report", "-i", data, "-s", "sym"}, list...)
		want := likeBlocks(perftest.PerfIn(t, home, home, nil, append(report, "--stdio")...).Stdout)
		if _, out, errs := runArgs(t, "", append(report, "--no-pager")...); !maps.Equal(likeBlocks(out), want) {
			t.Errorf("%q: %s\n%s", report, likeDiff(likeBlocks(out), want), errs)
		}
	}
	_, lines, _ := runArgs(t, "", "script", "-i", data, "-F", "sw:ip")
	addr := "0x" + strings.TrimSpace(strings.SplitN(lines, "\n", 2)[0])
	if addr == "0x" {
		t.Skip("NOTICE: nothing was sampled in user space")
	}
	for _, n := range []string{"0", "1", "4096"} {
		same("script", "-i", data, "-F", "sw:ip,time", "-S", addr, "--addr-range", n)
	}
	code, _, errs := runArgs(t, "", "script", "-i", data, "--switch-off", "sched_switch")
	if code != 1 || !strings.Contains(errs, `--switch-off: no event is called "sched_switch"`) || !strings.Contains(errs, "perfark evlist -i") {
		t.Errorf("exit status %d: %s", code, errs)
	}
}

// Changes of the kernel's code are printed with their bytes, as by perf.
func TestScriptTextPokes(t *testing.T) {
	const text = `event cycles text_poke
mmap2 pid=-1 tid=-1 start=0xffffffff81000000 len=0x1000000 prot=5 pgoff=0xffffffff81000000 name="[kernel.kallsyms]_text" time=1
text_poke addr=0xffffffff81000010 old_len=5 new_len=5 bytes=0f1f440000e812345678 time=2
text_poke addr=0xffffffff81000120 old_len=0 new_len=18 bytes=90*17+cc time=2
text_poke addr=0x20 old_len=1 new_len=0 bytes=90 time=2
sample pid=0 tid=0 ip=0xffffffff81000123 time=3
`
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("PERF_CONFIG", "/dev/null")
	symbols := filepath.Join(home, "kallsyms")
	if err := os.WriteFile(symbols, []byte("ffffffff81000000 T _text\nffffffff81000100 T poked\nffffffff81000200 T after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	name := perftest.File(t, text)
	args := []string{"script", "-i", name, "--kallsyms", symbols, "--show-text-poke-events"}
	_, got, errs := runArgs(t, "", args...)
	const want = `         swapper     0 [000]     0.000000: PERF_RECORD_TEXT_POKE ffffffff81000120 poked+0x20 old len 0 new len 18
            New bytes: 90 90 90 90 90 90 90 90 90 90 90 90 90 90 90 90
            New bytes: 90 cc
         swapper     0 [000]     0.000000: PERF_RECORD_TEXT_POKE 20  old len 1 new len 0
            Old bytes: 90
`
	if !strings.Contains(got, want) {
		t.Errorf("%s%s\nwant\n%s", got, errs, want)
	}
	perftest.NeedTool(t, "perf")
	if perf := perftest.PerfIn(t, home, home, nil, args...).Stdout; got != perf {
		t.Error(firstDiff(perf, got))
	}
}

// Every flag of perf is one here: it works, or says why it does not.
func TestFlagsLikePerf(t *testing.T) {
	perftest.NeedTool(t, "perf")
	long := regexp.MustCompile(`(?m)^ +(?:-[A-Za-z], )?--([a-zA-Z-]+)`)
	short := regexp.MustCompile(`(?m)^ +-([A-Za-z]),`)
	root := newRootCmd(&app{})
	for _, name := range []string{"report", "script"} {
		help := perftest.Perf(t, name, "-h")
		cmd, _, err := root.Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		names := long.FindAllStringSubmatch(help.Stderr+help.Stdout, -1)
		if len(names) < 50 {
			t.Fatalf("%s: %d flags", name, len(names))
		}
		for _, m := range names {
			if cmd.Flags().Lookup(m[1]) == nil {
				t.Errorf("%s --%s is not known", name, m[1])
			}
		}
		for _, m := range short.FindAllStringSubmatch(help.Stderr+help.Stdout, -1) {
			if cmd.Flags().ShorthandLookup(m[1]) == nil {
				t.Errorf("%s -%s is not known", name, m[1])
			}
		}
	}
	for _, tt := range []struct{ args, err string }{
		{"report --itrace", "report: --itrace: perfark does not decode traces of the hardware"},
		{"report --itrace=i100us", "report: --itrace: perfark does not decode traces of the hardware"},
		{"report -D", "report: --dump-raw-trace: perfark does not dump records"},
		{"script -s flamegraph", "script: --script: perfark runs no scripts"},
		{"script -F brstackinsn", `script: --fields: field "brstackinsn": perfark script does not disassemble; perfark annotate does`},
	} {
		if code, _, errs := runArgs(t, "", strings.Fields(tt.args)...); code != 2 || !strings.Contains(errs, tt.err) {
			t.Errorf("%s: exit status %d, %q, want %q", tt.args, code, errs, tt.err)
		}
	}
}
