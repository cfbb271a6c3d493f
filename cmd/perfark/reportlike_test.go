package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
)

// likeSource recurses, branches, and has leaves that are called from many
// places, in two processes of one name.
const likeSource = `
#include <unistd.h>
#include <stdlib.h>
#include <sys/wait.h>
volatile unsigned long x;
static char *pages;
#define F __attribute__((noinline))
F void leaf(int n) { for (int i = 0; i < n; i++) x += i; }
F int fib(int n) { if (n < 2) { leaf(60); return n; } int r = fib(n - 1); r += fib(n - 2); return r + x % 2; }
F void mid(void) { leaf(20000); fib(9); x++; }
F void touch(int i) { pages[(i * 4096) % (1 << 24)] = 1; x++; }
F void other(int i) { for (int j = 0; j < 20; j++) touch(20 * i + j); leaf(9000); x++; }
F void even(int n); F void odd(int n) { if (n) even(n - 1); else leaf(7000); x++; }
F void even(int n) { if (n) odd(n - 1); else mid(); x++; }
F void top(int i) { mid(); other(i); even(i % 40); x++; }
int main(void) {
	pages = malloc(1 << 24);
	int pid = fork();
	for (int i = 0; i < 4000; i++) top(i);
	if (pid) wait(0);
	return 0;
}
`

var (
	likeRow  = regexp.MustCompile(`^ {0,9}\d+\.\d\d% *[^ ]`)
	likeBars = regexp.MustCompile(`^[ |]+`)

	// likeNoLine is what stands for the line of code without debug information:
	// perf makes up line 0 of a file of the symbol table.
	likeNoLine = regexp.MustCompile(` (\S+:0|\+\d+)$`)
)

// likeBlocks takes a page apart: rows with their trees, each as its lines in
// any order, as perf leaves the order of equal branches open, and the titles.
func likeBlocks(page string) map[string]int {
	blocks := make(map[string]int)
	var block []string
	end := func() {
		if len(block) > 0 {
			slices.Sort(block[1:])
			blocks[strings.Join(block, "\n")]++
		}
		block = nil
	}
	for line := range strings.Lines(page) {
		line = likeNoLine.ReplaceAllString(strings.TrimRight(line, " \n"), "")
		switch {
		case strings.HasPrefix(line, "# (Tip"), line == "":
		case strings.HasPrefix(line, "#"):
			end()
			blocks[line]++
		case likeRow.MatchString(line) && !strings.HasPrefix(line, "           "):
			end()
			block = append(block, spacesRE.ReplaceAllString(line, "  "))
		default:
			block = append(block, likeBars.ReplaceAllString(line, ""))
		}
	}
	end()
	return blocks
}

// twoPages returns the pages of perf, with home as its home directory, and of
// perfark: what both report of a recording with the flags args.
func twoPages(t *testing.T, data, home, args string) (perf, ours string) {
	t.Helper()
	list := append([]string{"report", "-i", data, "--no-inline"}, strings.Fields(args)...)
	code, ours, errs := runArgs(t, "", append(list, "--no-pager")...)
	if code != 0 {
		t.Fatalf("exit status %d: %s", code, errs)
	}
	return perftest.PerfIn(t, home, home, nil, append(list, "--stdio")...).Stdout, ours
}

// samePage wants two pages that have the same blocks. Changes that are made to
// both first are pairs of an expression, and what stands in its place.
func samePage(t *testing.T, data, home, args string, changes ...string) {
	t.Helper()
	perf, ours := twoPages(t, data, home, args)
	// perf 6.1 prints the rest of a branch as inlined, from memory that it did
	// not set.
	perf = strings.ReplaceAll(perf, "[...] (inlined)", "[...]")
	for i := 0; i < len(changes); i += 2 {
		re := regexp.MustCompile(changes[i])
		perf, ours = re.ReplaceAllString(perf, changes[i+1]), re.ReplaceAllString(ours, changes[i+1])
	}
	if got, want := likeBlocks(ours), likeBlocks(perf); len(want) == 0 || !maps.Equal(got, want) {
		t.Errorf("%s: blocks that differ:\n%s", args, likeDiff(got, want))
	}
}

// Pages with children, call graphs and the rest are perf's: numbers, rows,
// trees, titles, widths. Only the order of what is equal is left open.
func TestReportLikePerf(t *testing.T) {
	if testing.Short() {
		t.Skip("runs perf many times")
	}
	prog := perftest.CC(t, "like", likeSource, "-O1", "-g", "-static", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls")
	data := perftest.Record(t, "-q", "-e", "{cpu-clock:u,page-faults:u}", "-F", "1500", "-g", "-d", prog)
	home := t.TempDir()
	for _, args := range []string{
		"",
		"--no-children",
		"--no-children -g caller",
		"--no-children -g flat,0.1",
		"--no-children -g folded,0",
		"--no-children -g fractal,1,callee",
		"--children -g callee",
		"--children -g fractal,0,caller",
		"--children -g fractal,10,callee,count",
		"--children -g flat,caller,period",
		"--children -g folded,0,callee,count",
		"--children -g none -n --show-total-period",
		"--no-children -g caller,address",
		"-G --no-children",
		"-s sym",
		"-s sym,dso --no-children -g caller",
		"-s dso --children",
		"-s pid,sym -g none",
		"-s parent -p mid --no-children -g none",
		"--no-children -g none -x -p ^even$",
		"--no-children --max-stack 3",
		"--children --max-stack 5 -g callee",
		"--children --max-stack 3 -g none",
		"--children -G --max-stack 3 -g none",
		"--children -p main|mid -g none",
		"--hierarchy -s comm,parent -p main|mid -g none",
		"--no-children -g none -s sym -c like",
		"--no-children -g none -s sym,dso,comm -S leaf -c like -d like",
		"--no-children --ignore-callees ^fib$",
		"--hierarchy",
		"--hierarchy -s {comm,dso},sym",
		"--hierarchy -s pid,{dso,sym} --no-children -n -t ,",
		"--hierarchy --no-children -n --percent-limit 20",
		"--no-children -g none -F overhead,overhead_children,sample,period,sym",
		"--no-children -g none -F sample,comm,sym -s dso",
		"--no-children -g none -c like --percentage relative",
		"--no-children -g none -S leaf,fib",
		"--no-children -g none -S leaf --percentage relative",
		"--no-children -g none -d nosuch",
		"--children -g none --percent-limit 5",
		"--children -g none -w 6,7,0,8,12",
		"--children -g none --showcpuutilization",
		"--no-children -g folded -t ;",
		"--no-children -g none -q",
		"--no-group --no-children -g caller",
		"--group-sort-idx 1 --no-children -g none",
	} {
		t.Run(args, func(t *testing.T) {
			// The leader of a group is "events" with --no-group.
			samePage(t, data, home, args, `write@plt`, "_init", `of events 'cpu-clock:u'`, "of event 'cpu-clock:u'")
		})
	}
}

// likeDiff lists some of what is in one of two pages alone.
func likeDiff(got, want map[string]int) string {
	var b strings.Builder
	for _, x := range []struct {
		name string
		a, b map[string]int
	}{{"ours", got, want}, {"perf's", want, got}} {
		n := 0
		for _, k := range slices.Sorted(maps.Keys(x.a)) {
			if x.a[k] != x.b[k] {
				if n++; n > 4 {
					fmt.Fprintf(&b, "…\n")
					break
				}
				fmt.Fprintf(&b, "%s, %d times:\n%.600s\n", x.name, x.a[k], k)
			}
		}
	}
	return b.String()
}

// Every key is perf's, also where it alone decides the order.
func TestReportKeysLikePerf(t *testing.T) {
	if testing.Short() {
		t.Skip("runs perf many times")
	}
	prog := perftest.CC(t, "keys", likeSource, "-O1", "-static")
	data := perftest.Record(t, "-q", "-e", "cpu-clock:u,page-faults:u", "-F", "500", "-d", "-W", "--phys-data", "--data-page-size", "--code-page-size",
		"--sample-cpu", "--all-cgroups", "--namespaces", prog)
	home := t.TempDir()
	lines := func(page string) []string {
		var out []string
		for line := range strings.Lines(page) {
			if line = strings.TrimRight(line, " \n"); line != "" && !strings.HasPrefix(line, "# (Tip") {
				out = append(out, line)
			}
		}
		return out
	}
	check := func(keys string, flags ...string) {
		for key := range strings.FieldsSeq(keys) {
			args := append([]string{"report", "-i", data, "--no-inline", "-F", "sample," + key}, flags...)
			_, out, errs := runArgs(t, "", append(args, "--no-pager")...)
			want := lines(perftest.PerfIn(t, home, home, nil, append(args, "--stdio")...).Stdout)
			if got := lines(out); len(got) < 8 || !slices.Equal(got, want) {
				t.Errorf("%q:\n%s\nwant\n%s\n%s", args, strings.Join(got, "\n"), strings.Join(want, "\n"), errs)
			}
		}
	}
	check("pid comm dso sym cpu socket local_weight weight transaction symbol_size cgroup cgroup_id time code_page_size local_ins_lat ins_lat addr " +
		"overhead overhead_sys overhead_us overhead_guest_sys overhead_guest_us overhead_children period")
	check("dso_daddr locked tlb mem snoop data_page_size blocked local_weight weight symbol_iaddr", "--mem-mode")
}

// Memory accesses, as far as software events have them.
func TestReportMemoryLikePerf(t *testing.T) {
	data := perftest.Record(t, "-q", "-e", "page-faults:u", "-c", "1", "-d", "-W", "true")
	home := t.TempDir()
	for _, args := range []string{"-s mem,snoop,tlb,locked,blocked", "-s dso_daddr", "-s phys_daddr,data_page_size", "-s local_weight,weight,local_ins_lat"} {
		t.Run(args, func(t *testing.T) {
			samePage(t, data, home, "--mem-mode "+args)
		})
	}
}

// The columns of data are as wide as perf's, with and without an address.
func TestReportMemoryWidths(t *testing.T) {
	home := t.TempDir()
	dots := regexp.MustCompile(`(?m)^# \.[. ]*$`)
	prog := perftest.CC(t, "widths", threadsSource, "-O1", "-lpthread")
	for _, event := range []string{"cpu-clock:u", "page-faults:u"} {
		data := perftest.Record(t, "-q", "-e", event, "-d", "-W", prog)
		for _, args := range []string{"-s dso_daddr,snoop", "-s sym,dso_daddr,tlb"} {
			list := append([]string{"report", "-i", data, "--mem-mode"}, strings.Fields(args)...)
			_, out, _ := runArgs(t, "", append(list, "--no-pager")...)
			want := dots.FindAllString(perftest.PerfIn(t, home, home, nil, append(list, "--stdio")...).Stdout, -1)
			if got := dots.FindAllString(out, -1); len(want) == 0 || !slices.Equal(got, want) {
				t.Errorf("%s %s: %q, perf %q", event, args, got, want)
			}
		}
	}
}

// cgroup_id is that of the thread's namespace, not of the sample's cgroup.
func TestReportCgroupIDLikePerf(t *testing.T) {
	home := t.TempDir()
	data := perftest.Record(t, "-q", "-e", "cpu-clock:u", "--namespaces", "--all-cgroups", perftest.CC(t, "ns", threadsSource, "-O1", "-lpthread"))
	for _, args := range []string{"-s cgroup_id", "-s cgroup_id,comm", "-s cgroup,cgroup_id"} {
		samePage(t, data, home, args)
	}
}

// Recordings of tracepoints alone are shown by what the tracepoints say.
func TestReportTracepointsLikePerf(t *testing.T) {
	data := perftest.Record(t, "-q", "-e", "sched:sched_process_exec,sched:sched_process_fork", "sh", "-c", "ls > /dev/null; ls | cat > /dev/null")
	home := t.TempDir()
	for _, args := range []string{"", "-s comm,trace", "-s trace,pid -n", "-s sym", "-s trace --raw-trace", "-s trace,trace_fields"} {
		t.Run(args, func(t *testing.T) {
			// perf cuts some of the texts by a character, and the column with them.
			samePage(t, data, home, args, `(?m)(?: old_pid=\d* *| child_pid=\d* *|^# \.[. ]*)$`, "")
		})
	}
}

// --cgroup leaves the rows that perf shows for these cgroups.
func TestReportCgroupFilterLikePerf(t *testing.T) {
	home := t.TempDir()
	root := cgroupRoot(t)
	prog := perftest.CC(t, "spin", `
#include <stdio.h>
#include <unistd.h>
__attribute__((noinline)) void work(int n) { for (volatile int i = 0; i < n; i++) ; }
int main(int c, char **v) {
	for (int i = 1; i < c; i++) {
		FILE *f = fopen(v[i], "w");
		if (!f || fprintf(f, "%d", getpid()) < 0 || fclose(f)) return 1;
		work(i * 60000000);
	}
}`, "-O1")
	var procs, names []string
	for _, name := range []string{"one", "two"} {
		dir, err := os.MkdirTemp(root, "perfark-"+name)
		if err != nil {
			t.Skipf("NOTICE: no cgroups to be made here: %v", err)
		}
		t.Cleanup(func() { os.Remove(dir) })
		procs = append(procs, filepath.Join(dir, "cgroup.procs"))
		names = append(names, "/"+filepath.Base(dir))
	}
	data := perftest.Record(t, append([]string{"-q", "-e", "cpu-clock", "--all-cgroups", prog}, procs...)...)
	list := []string{"report", "-i", data, "-s", "cgroup,comm,sym", "--no-inline"}
	all := perftest.PerfIn(t, home, home, nil, append(list, "--stdio")...).Stdout
	rows := func(page string, strip string) []string {
		var out []string
		for _, b := range parsePage(page).blocks {
			for _, row := range b {
				if _, rest, _ := strings.Cut(row, "%  "); strip == "" || strings.HasPrefix(rest, strip+"  ") {
					out = append(out, strings.Replace(row, "%  "+strip+"  ", "%  ", 1))
				}
			}
		}
		return out
	}
	for _, name := range names {
		want := rows(all, name)
		if len(want) == 0 {
			t.Skipf("NOTICE: perf shows no samples of %s:\n%s", name, all)
		}
		for _, arg := range []string{name, strings.TrimPrefix(name, "/")} {
			_, out, errs := runArgs(t, "", append(list, "--no-pager", "--cgroup", arg)...)
			if got := rows(out, ""); !slices.Equal(got, want) || !strings.Contains(out, "# cgroup: "+arg+"\n") {
				t.Errorf("--cgroup %s: %q, want %q\n%s%s", arg, got, want, out, errs)
			}
		}
	}
	_, out, _ := runArgs(t, "", append(list, "--no-pager", "--cgroup", strings.Join(names, ","))...)
	both := slices.DeleteFunc(rows(all, ""), func(row string) bool {
		return !strings.Contains(row, "  "+names[0]+"  ") && !strings.Contains(row, "  "+names[1]+"  ")
	})
	sameRows(t, rows(out, ""), both, false)
}

// cgroupRoot returns where cgroups of version 2 are.
func cgroupRoot(t *testing.T) string {
	b, err := os.ReadFile("/proc/mounts")
	if err != nil {
		t.Skip("NOTICE: no /proc/mounts")
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup2" {
			return f[1]
		}
	}
	t.Skip("NOTICE: no cgroups of version 2 are mounted")
	return ""
}

// Fields of tracepoints are keys, in the table of their event alone.
func TestReportTraceFieldsLikePerf(t *testing.T) {
	data := perftest.Record(t, "-q", "-e", "sched:sched_switch,sched:sched_wakeup,cpu-clock", "sh", "-c", "ls > /dev/null; ls | cat > /dev/null")
	home := t.TempDir()
	list := []string{
		"-s next_comm", "-s sched:sched_switch.next_pid", "-s trace_fields", "-s sched_switch.prev_state", "-s sched_wakeup.*",
		"-s next_comm/raw", "-s prev_state/raw,pid", "-s common_pid", "-s pid,prio -n", "-s %1.prev_prio",
		"-s trace_fields --raw-trace -t ;", "-s next_comm -w 8,10",
	}
	// perf cuts the name that a process has before its program (docs/differences.md).
	if perf, _ := twoPages(t, data, home, "-s comm"); !strings.Contains(perf, "perf-ex") {
		list = append(list, "-s prev_state/raw,comm")
	}
	for _, args := range list {
		t.Run(args, func(t *testing.T) { samePage(t, data, home, args) })
	}
	for _, tt := range []struct{ args, err string }{
		{"-s nosuch", `--sort: unknown key "nosuch": want some of pid,`},
		{"-s next_comm/hex", `--sort: "next_comm/hex": fields of tracepoints have no option "hex", but raw`},
		{"-s sched.prev_pid", `--sort: "sched.prev_pid": 2 events are called that: want one, such as %1`},
		{"-s %3.x", `--sort: unknown key "%3.x"`},
		{"-F sample,nosuch", `--fields: unknown key "nosuch"`},
	} {
		code, _, errs := runArgs(t, "", append([]string{"report", "-i", data}, strings.Fields(tt.args)...)...)
		if code != 2 || !strings.Contains(errs, tt.err) {
			t.Errorf("%s: exit status %d, %q, want %q", tt.args, code, errs, tt.err)
		}
	}
	// A tree of keys that an event has none of is its total.
	_, out, _ := runArgs(t, "", "report", "-i", data, "-s", "next_comm", "--hierarchy", "--no-pager")
	if n := strings.Count(out, "   100.00%\n"); n != 2 {
		t.Errorf("%d totals, want 2:\n%s", n, out)
	}
}

// What threads counted stands behind the page.
func TestReportThreadsLikePerf(t *testing.T) {
	data := perftest.Record(t, "-q", "-s", "-e", "cpu-clock:u,page-faults:u", perftest.CC(t, "counted", threadsSource, "-O1", "-lpthread"))
	home := t.TempDir()
	last := func(page string) string { return page[max(strings.LastIndex(page, "\n#"), 0):] }
	for _, args := range [][]string{{"-T"}, {"--threads", "-q", "-s", "dso"}} {
		args = append([]string{"report", "-i", data}, args...)
		_, out, errs := runArgs(t, "", append(args, "--no-pager")...)
		want := last(perftest.PerfIn(t, home, home, nil, append(args, "--stdio")...).Stdout)
		if got := last(out); strings.Count(got, "\n") < 3 || got != want {
			t.Errorf("%q: %s\nwant%s\n%s", args, got, want, errs)
		}
	}
}

// READ records of two processors are added up, and in the order of time.
func TestReportThreads(t *testing.T) {
	const text = `event cpu-clock read=ID ids=7 inherit_stat
event page-faults config=2 read=ID ids=8 inherit_stat
sample ip=0x400123 pid=1 tid=1 time=1
read pid=1 tid=22 read=5/7 time=9
read pid=1 tid=3 read=1/7 time=5
read pid=1 tid=22 read=6/7 time=6
read pid=1 tid=3 ev=1 read=12345/8 time=5
`
	const want = `
# PID  TID  cpu-clock:HG  page-faults:HG
    1    3             1           12345
    1   22            11               0
`
	perftest.Orders(t, text, func(t *testing.T, data []byte) {
		_, out, errs := runArgs(t, string(data), "report", "-i", "-", "-T", "--no-pager")
		if !strings.HasSuffix(out, want) {
			t.Errorf("%s%s\nwant%s", out, errs, want)
		}
	})
}
