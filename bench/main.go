// Command bench times perfark against the tools it replaces, in turn and in
// one run, and prints wall time, CPU time, peak memory and the ratios as a
// Markdown table. These machines are noisy: only ratios of one run count.
//
// bench/inputs.sh makes the inputs; see README.md for the figures.
package main

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// A row compares two commands that do the same job.
type row struct {
	name   string
	theirs string // shell command; "" if the row only looks at ours
	ours   string
	goal   float64   // wall time of theirs over ours
	clean  string    // shell command before each run
	out    [2]string // files to compare in size: theirs, ours
	quick  bool
	cpu    bool // it waits most of the time: what counts is CPU time, and how much of the machine that is
}

// rows are the jobs, with D the directory of the inputs, O a scratch
// directory, B that of this program's files and P the perfark binary in the
// environment. Archives hold what
// perf archive would pack, objects with a Build ID without debug files, so that
// their sizes can be compared.
var rows = []row{
	{name: "start-up: buildid-list, small", quick: true, goal: 0.5,
		theirs: `perf buildid-list -i $D/small.data`,
		ours:   `$P buildid-list -i $D/small.data`},
	{name: "flat report, small", quick: true, goal: 4,
		theirs: `perf --buildid-dir $D/cache/small report -i $D/small.data --stdio --no-children -g none`,
		ours:   `$P --buildid-dir $D/cache/small report -i $D/small.data --stdio --no-children -g none`},
	{name: "flat report, large", goal: 7,
		theirs: `perf --buildid-dir $D/cache/large report -i $D/large.data --stdio --no-children -g none`,
		ours:   `$P --buildid-dir $D/cache/large report -i $D/large.data --stdio --no-children -g none`},
	{name: "flat report, bigdso", goal: 8,
		theirs: `perf --buildid-dir $D/cache/bigdso report -i $D/bigdso.data --stdio --no-children -g none`,
		ours:   `$P --buildid-dir $D/cache/bigdso report -i $D/bigdso.data --stdio --no-children -g none`},
	{name: "children, large", goal: 20,
		theirs: `perf --buildid-dir $D/cache/large report -i $D/large.data --stdio --children -g none --no-inline`,
		ours:   `$P --buildid-dir $D/cache/large report -i $D/large.data --stdio --children -g none --no-inline`},
	{name: "callers, large", goal: 8,
		theirs: `perf --buildid-dir $D/cache/large report -i $D/large.data --stdio --no-children -g caller --no-inline`,
		ours:   `$P --buildid-dir $D/cache/large report -i $D/large.data --stdio --no-children -g caller --no-inline`},
	{name: "default report, zstd", goal: 20,
		theirs: `perf --buildid-dir $D/cache/zstd report -i $D/zstd.data --stdio`,
		ours:   `$P --buildid-dir $D/cache/zstd report -i $D/zstd.data --stdio --no-inline`},
	{name: "default report with inlined frames, zstd (theirs has none on these chains)", goal: 0,
		theirs: `perf --buildid-dir $D/cache/zstd report -i $D/zstd.data --stdio`,
		ours:   `$P --buildid-dir $D/cache/zstd report -i $D/zstd.data --stdio`},
	{name: "default report, large (theirs: children alone; it would need more than 24 GB)", goal: 0,
		theirs: `perf --buildid-dir $D/cache/large report -i $D/large.data --stdio --children -g none --no-inline`,
		ours:   `$P --buildid-dir $D/cache/large report -i $D/large.data --stdio`},
	{name: "script, large", goal: 5,
		theirs: `perf --buildid-dir $D/cache/large script -i $D/large.data`,
		ours:   `$P --buildid-dir $D/cache/large script -i $D/large.data`},
	{name: "folded stacks, large", goal: 0,
		theirs: `perf --buildid-dir $D/cache/large script -i $D/large.data -F comm,ip,sym | awk -f $B/fold.awk`,
		ours:   `$P --buildid-dir $D/cache/large report -i $D/large.data --stdio --no-children -g folded,0,caller,function,count --no-inline`},
	{name: "srcline, bigcpp", goal: 100,
		theirs: `perf --buildid-dir $D/cache/bigcpp report -i $D/bigcpp.data --stdio --no-children -g none --sort srcline`,
		ours:   `$P --buildid-dir $D/cache/bigcpp report -i $D/bigcpp.data --stdio --no-children -g none --sort srcline --no-index`},
	{name: "srcline, cpp", goal: 100,
		theirs: `perf --buildid-dir $D/cache/cpp report -i $D/cpp.data --stdio --no-children -g none --sort srcline`,
		ours:   `$P --buildid-dir $D/cache/cpp report -i $D/cpp.data --stdio --no-children -g none --sort srcline --no-index`},
	{name: "srcline, rust", goal: 100,
		theirs: `perf --buildid-dir $D/cache/rust report -i $D/rust.data --stdio --no-children -g none --sort srcline`,
		ours:   `$P --buildid-dir $D/cache/rust report -i $D/rust.data --stdio --no-children -g none --sort srcline --no-index`},
	{name: "annotate, large, one function", goal: 4,
		theirs: `perf --buildid-dir $D/cache/large annotate -i $D/large.data --stdio -s _int_malloc`,
		ours:   `$P --buildid-dir $D/cache/large annotate -i $D/large.data --stdio -s _int_malloc`},
	{name: "annotate, bigdso, one function", goal: 4,
		theirs: `perf --buildid-dir $D/cache/bigdso annotate -i $D/bigdso.data --stdio -s gt_ggc_mx_lang_tree_node`,
		ours:   `$P --buildid-dir $D/cache/bigdso annotate -i $D/bigdso.data --stdio -s gt_ggc_mx_lang_tree_node`},
	{name: "annotate, bigdso, all functions of a library", goal: 8,
		theirs: `perf --buildid-dir $D/cache/bigdso annotate -i $D/bigdso.data --stdio -d libpython3.11.so.1.0`,
		ours:   `$P --buildid-dir $D/cache/bigdso annotate -i $D/bigdso.data --stdio -d libpython3.11.so.1.0`},
	{name: "annotate, cpp, all functions of a program", goal: 8,
		theirs: `perf --buildid-dir $D/cache/cpp annotate -i $D/cpp.data --stdio -d cxxheavy-fp`,
		ours:   `$P --buildid-dir $D/cache/cpp annotate -i $D/cpp.data --stdio -d cxxheavy-fp`},
	{name: "20,000 cold addresses, vmlinux (theirs: llvm-symbolizer)", goal: 2,
		theirs: `llvm-symbolizer --obj=$D/vmlinux.debug --inlines <$D/vmlinux.addr`,
		ours:   `$D/bin/symbolize $D/vmlinux.debug $D/vmlinux.addr`},
	{name: "20,000 cold addresses, ceph-osd (theirs: llvm-symbolizer)", goal: 1.54,
		theirs: `llvm-symbolizer --obj=$D/ceph.debug --inlines <$D/ceph.addr`,
		ours:   `$D/bin/symbolize $D/ceph.debug $D/ceph.addr`},
	{name: "20,000 warm addresses, vmlinux (theirs: cold)", goal: 0,
		theirs: `$D/bin/symbolize $D/vmlinux.debug $D/vmlinux.addr`,
		ours:   `$D/bin/symbolize -index $O/index $D/vmlinux.debug $D/vmlinux.addr`,
		clean:  `test -d $O/index || $D/bin/symbolize -index $O/index $D/vmlinux.debug $D/vmlinux.addr >/dev/null`},
	{name: "dwarf chains, inlined frames", goal: 6,
		theirs: `perf --buildid-dir $D/cache/dwarf report -i $D/dwarf.data --stdio`,
		ours:   `$P --buildid-dir $D/cache/dwarf report -i $D/dwarf.data --stdio`},
	{name: "dwarf chains, no inlined frames", goal: 3,
		theirs: `perf --buildid-dir $D/cache/dwarf report -i $D/dwarf.data --stdio --no-inline`,
		ours:   `$P --buildid-dir $D/cache/dwarf report -i $D/dwarf.data --stdio --no-inline`},
	{name: "dwarf chains, script", goal: 3,
		theirs: `perf --buildid-dir $D/cache/dwarf script -i $D/dwarf.data --no-inline`,
		ours:   `$P --buildid-dir $D/cache/dwarf script -i $D/dwarf.data --no-inline`},
	{name: "buildid-list --with-hits, large", goal: 5,
		theirs: `perf buildid-list -i $D/large.data --with-hits`,
		ours:   `$P buildid-list -i $D/large.data --with-hits`},
	{name: "archive, small", quick: true, goal: 3,
		theirs: `cp $D/small.data $O/s.data && perf --buildid-dir $D/cache/small archive $O/s.data`,
		ours:   `$P --buildid-dir $D/cache/small archive --allow-missing --verified --debug-info none -o $O/s.tar.zst $D/small.data`,
		out:    [2]string{"s.data.tar.bz2", "s.tar.zst"}},
	{name: "archive, bigdso, zst", goal: 12,
		theirs: `perf --buildid-dir $D/cache/bigdso archive $O/b.data`,
		ours:   `$P --buildid-dir $D/cache/bigdso archive --allow-missing --verified --debug-info none -o $O/b.tar.zst $O/b.data`,
		out:    [2]string{"b.data.tar.bz2", "b.tar.zst"}, clean: `cp -n $D/bigdso.data $O/b.data`},
	{name: "archive, bigdso, zst fast level", goal: 25,
		theirs: `perf --buildid-dir $D/cache/bigdso archive $O/b.data`,
		ours:   `$P --buildid-dir $D/cache/bigdso archive --allow-missing --verified --debug-info none --level 1 -o $O/b1.tar.zst $O/b.data`,
		out:    [2]string{"b.data.tar.bz2", "b1.tar.zst"}, clean: `cp -n $D/bigdso.data $O/b.data`},
	{name: "archive, bigdso, slim", goal: 20,
		theirs: `perf --buildid-dir $D/cache/bigdso archive $O/b.data`,
		ours:   `$P --buildid-dir $D/cache/bigdso archive --allow-missing --verified --debug-info none --slim -o $O/slim.tar.zst $O/b.data`,
		out:    [2]string{"b.data.tar.bz2", "slim.tar.zst"}, clean: `cp -n $D/bigdso.data $O/b.data`},
	{name: "archive, bigdso, bzip2", goal: 2.5,
		theirs: `perf --buildid-dir $D/cache/bigdso archive $O/b.data`,
		ours:   `$P --buildid-dir $D/cache/bigdso archive --allow-missing --verified --debug-info none -o $O/bo.tar.bz2 $O/b.data`,
		out:    [2]string{"b.data.tar.bz2", "bo.tar.bz2"}, clean: `cp -n $D/bigdso.data $O/b.data`},
	{name: "unpack, bigdso, every byte verified (theirs: tar xjf)", goal: 10,
		theirs: `mkdir -p $O/u1 && tar xjf $O/b.data.tar.bz2 -C $O/u1`,
		ours:   `$P unpack -q -C $O/u2 $O/b.tar.zst`,
		clean:  `rm -rf $O/u1 $O/u2`},
	{name: "record -F 99 -a -g, 20 s", quick: true, goal: 1, cpu: true,
		theirs: `perf record -q -F 99 -a -g -o $O/r.data -- sleep 20`,
		ours:   `$P record -q -F 99 -a -g -o $O/r.data -- sleep 20`},
	{name: "record -F 99 -a -g, without Build IDs, 20 s", goal: 1, cpu: true,
		theirs: `perf record -q -B -F 99 -a -g -o $O/r.data -- sleep 20`,
		ours:   `$P record -q -B -F 99 -a -g -o $O/r.data -- sleep 20`},
	{name: "record -F 4000 -a -g, 20 s", goal: 1, cpu: true,
		theirs: `perf record -q -F 4000 -a -g -o $O/r.data -- sleep 20`,
		ours:   `$P record -q -F 4000 -a -g -o $O/r.data -- sleep 20`},
	{name: "record -F 99 -a --call-graph dwarf, 20 s", goal: 1, cpu: true,
		theirs: `perf record -q -F 99 -a --call-graph dwarf -o $O/r.data -- sleep 20`,
		ours:   `$P record -q -F 99 -a --call-graph dwarf -o $O/r.data -- sleep 20`},
	{name: "scaling: report, large, GOMAXPROCS 1 (theirs) and 2", goal: 1.7,
		theirs: `GOMAXPROCS=1 $P --buildid-dir $D/cache/large report -i $D/large.data --stdio --no-children -g none`,
		ours:   `GOMAXPROCS=2 $P --buildid-dir $D/cache/large report -i $D/large.data --stdio --no-children -g none`},
	{name: "scaling: children, large, GOMAXPROCS 1 (theirs) and 2", goal: 1.7,
		theirs: `GOMAXPROCS=1 $P --buildid-dir $D/cache/large report -i $D/large.data --stdio --children -g none --no-inline`,
		ours:   `GOMAXPROCS=2 $P --buildid-dir $D/cache/large report -i $D/large.data --stdio --children -g none --no-inline`},
	{name: "scaling: script, large, GOMAXPROCS 1 (theirs) and 2", goal: 1.7,
		theirs: `GOMAXPROCS=1 $P --buildid-dir $D/cache/large script -i $D/large.data`,
		ours:   `GOMAXPROCS=2 $P --buildid-dir $D/cache/large script -i $D/large.data`},
	{name: "scaling: report, large (theirs) and its first half", goal: 0,
		theirs: `$P --buildid-dir $D/cache/large report -i $D/large.data --stdio --no-children -g none`,
		ours:   `$P --buildid-dir $D/cache/large report -i $D/half.data --stdio --no-children -g none`},
}

// A run is what one command cost.
type run struct {
	wall, cpu time.Duration
	rss       int64 // KiB, of the largest process
	code      int
}

func main() {
	dir := flag.String("dir", "bench/out", "`directory` of the inputs; make them with bench/inputs.sh")
	quick := flag.Bool("quick", false, "the rows that take seconds")
	rounds := flag.Int("n", 3, "`rounds` of each row; the medians count")
	only := flag.String("run", "", "rows that match this `regexp`")
	here := flag.String("here", "bench", "`directory` of this program's files")
	bin := flag.String("perfark", "bin/perfark", "the perfark `binary`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := bench(ctx, *dir, *here, *bin, *only, *quick, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context, dir, here, bin, only string, quick bool, rounds int) error {
	want, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	d, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	p, err := filepath.Abs(bin)
	if err != nil {
		return err
	}
	h, err := filepath.Abs(here)
	if err != nil {
		return err
	}
	o, err := os.MkdirTemp(d, "run")
	if err != nil {
		return err
	}
	defer os.RemoveAll(o)
	env := append(os.Environ(), "D="+d, "O="+o, "B="+h, "P="+p, "HOME="+o, "LC_ALL=C", "TZ=UTC", "DEBUGINFOD_URLS=", "PERFARK_NO_PROGRESS=1")
	fmt.Printf("%s, %d CPUs, %s; %s\n\n", cpuModel(), runtime.NumCPU(), runtime.Version(), version("perf"))
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "| job\t| theirs: wall, CPU, peak\t| perfark: wall, CPU, peak\t| times faster (goal)\t| peak\t| size\t|")
	fmt.Fprintln(w, "| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t|")
	for _, r := range rows {
		if quick && !r.quick || !want.MatchString(r.name) {
			continue
		}
		if missing := lacks(d, r); missing != "" {
			fmt.Fprintf(os.Stderr, "bench: %s: skipped, there is no %s\n", r.name, missing)
			continue
		}
		var a, b []run
		for range rounds {
			for i, cmd := range []string{r.theirs, r.ours} {
				if err := ctx.Err(); err != nil {
					return err
				}
				x, err := timed(ctx, cmd, r.clean, env)
				if err != nil {
					return fmt.Errorf("%s: %w", r.name, err)
				}
				if i == 0 {
					a = append(a, x)
				} else {
					b = append(b, x)
				}
			}
		}
		fmt.Fprintln(w, line(r, median(a), median(b), o))
		w.Flush()
	}
	return w.Flush()
}

// lacks names an input of r that is not there.
func lacks(dir string, r row) string {
	for _, m := range regexp.MustCompile(`\$D/([a-z]+\.(?:data|addr|debug))`).FindAllStringSubmatch(r.theirs+r.ours+r.clean, -1) {
		if _, err := os.Stat(filepath.Join(dir, m[1])); err != nil {
			return m[1]
		}
	}
	return ""
}

// timed runs one shell command after its preparation, output to nowhere.
func timed(ctx context.Context, cmd, clean string, env []string) (run, error) {
	if clean != "" {
		c := exec.CommandContext(ctx, "sh", "-c", clean)
		c.Env = env
		c.Run() // cp -n fails where the copy is there already
	}
	c := exec.CommandContext(ctx, "sh", "-c", "exec >/dev/null 2>&1\n"+cmd)
	c.Env = env
	start := time.Now()
	err := c.Run()
	x := run{wall: time.Since(start)}
	if c.ProcessState == nil {
		return x, err
	}
	x.cpu = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	x.code = c.ProcessState.ExitCode()
	if u, ok := c.ProcessState.SysUsage().(*syscall.Rusage); ok {
		x.rss = int64(u.Maxrss)
	}
	if x.code != 0 && x.code != 3 {
		return x, fmt.Errorf("%s: exit status %d", cmd, x.code)
	}
	return x, nil
}

func median(r []run) run {
	slices.SortFunc(r, func(a, b run) int { return int(a.wall - b.wall) })
	return r[len(r)/2]
}

func line(r row, a, b run, scratch string) string {
	cells := []string{r.name, cell(a), cell(b), "", "", ""}
	cells[3] = fmt.Sprintf("%.1f (%.3g)", float64(a.wall)/float64(b.wall), r.goal)
	if r.cpu {
		cells[3] = fmt.Sprintf("CPU %.1f (%.3g), %.2f %% of the machine", a.cpu.Seconds()/b.cpu.Seconds(), r.goal, 100*b.cpu.Seconds()/b.wall.Seconds()/float64(runtime.NumCPU()))
	}
	cells[4] = fmt.Sprintf("1/%.1f", float64(a.rss)/float64(max(b.rss, 1)))
	if r.out[0] != "" {
		t, o := size(filepath.Join(scratch, r.out[0])), size(filepath.Join(scratch, r.out[1]))
		cells[5] = fmt.Sprintf("%.1f / %.1f MB", float64(t)/1e6, float64(o)/1e6)
	}
	return "| " + strings.Join(cells, "\t| ") + "\t|"
}

func cell(r run) string {
	return fmt.Sprintf("%.3f s, %.2f s, %d MB", r.wall.Seconds(), r.cpu.Seconds(), r.rss/1024)
}

func size(name string) int64 {
	var i fs.FileInfo
	i, err := os.Stat(name)
	if err != nil {
		return 0
	}
	return i.Size()
}

func version(tool string) string {
	out, err := exec.Command(tool, "--version").Output()
	if err != nil {
		return tool + " is absent"
	}
	return strings.TrimSpace(string(out))
}

func cpuModel() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	if m := regexp.MustCompile(`model name\s*: (.*)`).FindSubmatch(b); m != nil {
		return string(m[1])
	}
	return runtime.GOARCH
}
