package main

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/perfark/perfark/internal/perftest"
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
			if got != string(want) {
				t.Errorf("%s\n%s", firstDiff(string(want), got), errs)
			}
		})
	}
	if n < 60 {
		t.Errorf("%d recordings compared", n)
	}
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
	for _, tt := range []struct {
		data string
		args []string
	}{
		{chains, nil},
		{chains, []string{"-G"}},
		{chains, []string{"--max-stack", "2"}},
		{chains, []string{"--ns"}},
		{chains, []string{"--reltime"}},
		{chains, []string{"--deltatime", "-F", "time,event"}},
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
	} {
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
	if r := perftest.Perf(t, "record", "-q", "-e", events, "-o", name, "--", "ls", "/"); r.Code != 0 {
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
