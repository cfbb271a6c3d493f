package main

import (
	"cmp"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/report"
)

// rowRE matches a row of a page without separators, and not the lines of call
// graphs below it: the overhead of one event or several, and the rest.
var rowRE = regexp.MustCompile(`^ {1,5}(\d+\.\d\d%(?: +\d+\.\d\d%)*)  (.*)$`)

var spacesRE = regexp.MustCompile(`  +`)

// A page is what a report says, without how it is laid out.
type page struct {
	titles []string   // the lines of samples, counts and columns
	blocks [][]string // rows of each event: overhead and columns
}

// parsePage parses a page of perf or ours.
func parsePage(text string) page {
	var p page
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "# Samples: "):
			p.blocks = append(p.blocks, nil)
			p.titles = append(p.titles, line)
		case strings.HasPrefix(line, "# Event count"), strings.HasPrefix(line, "# Overhead"), strings.HasPrefix(line, "# Total Lost"):
			p.titles = append(p.titles, strings.Join(strings.Fields(line), " "))
		case len(p.blocks) > 0:
			if m := rowRE.FindStringSubmatch(line); m != nil {
				b := &p.blocks[len(p.blocks)-1]
				*b = append(*b, m[1]+"  "+spacesRE.ReplaceAllString(strings.TrimRight(m[2], " "), "  "))
			}
		}
	}
	return p
}

// overhead returns the numbers that a row begins with.
func overhead(row string) string {
	i := strings.Index(row, "%  ")
	return row[:i]
}

// sameRows compares rows in the order of their overhead; those of equal
// overhead are a set. got may have more rows if want was cut.
func sameRows(t *testing.T, got, want []string, cut bool) {
	t.Helper()
	if len(got) < len(want) || !cut && len(got) != len(want) {
		t.Errorf("%d rows, want %d", len(got), len(want))
		return
	}
	for i := 0; i < len(want); {
		j := i
		for j < len(want) && overhead(want[j]) == overhead(want[i]) {
			j++
		}
		k := i
		for k < len(got) && overhead(got[k]) == overhead(want[i]) {
			k++
		}
		w, g := slices.Sorted(slices.Values(want[i:j])), slices.Sorted(slices.Values(got[i:min(max(j, k), len(got))]))
		if !cut || j < len(want) {
			if !slices.Equal(w, g) {
				t.Errorf("rows\n%s\nwant\n%s", strings.Join(g, "\n"), strings.Join(w, "\n"))
				return
			}
		} else {
			for _, row := range w {
				if !slices.Contains(g, row) {
					t.Errorf("row %q is missing in\n%s", row, strings.Join(g, "\n"))
					return
				}
			}
		}
		i = j
	}
}

// TestReportCorpus compares the flat report of every recording of the corpus
// with that of perf, of which the first 60 lines are kept.
func TestReportCorpus(t *testing.T) {
	dir := perftest.Corpus(t)
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PERF_CONFIG", "/dev/null")
	for _, rel := range perftest.CorpusFiles(t) {
		want, ok := perftest.Expected(t, rel, "report60.txt")
		if !ok {
			continue
		}
		t.Run(rel, func(t *testing.T) {
			file := filepath.Join(dir, rel)
			args := []string{"report", "--stdio", "--no-children", "-g", "none", "--sort", "comm,dso,sym", "-i", file}
			if hasBranches(t, file) {
				// perf's answer counts branches, whose addresses without a symbol
				// it shows as they are at run time; ask it to count samples.
				args = append(args, "--no-branch-stack")
				want = perftest.Perf(t, append(args, "--symfs", t.TempDir(), "-f")...).Stdout
			}
			code, out, errs := runArgs(t, "", args...)
			wp := parsePage(want)
			if len(wp.blocks) == 0 {
				newer := filepath.Join(dir, "expected", "perf-6.12", strings.ReplaceAll(rel, "/", "~")+".report60.txt")
				if b, err := os.ReadFile(newer); err == nil {
					want, wp = string(b), parsePage(string(b))
				}
			}
			if len(wp.blocks) == 0 {
				why, events := refused[filepath.Base(rel)], len(parsePage(out).blocks)
				if (why != "") != (events > 0) {
					t.Errorf("perf shows no samples, perfark %d events: because of %q", events, why)
				}
				return
			}
			gp := parsePage(strings.ReplaceAll(out, report.Restricted, report.UnknownDSO))
			if n := synthesized[filepath.Base(rel)]; n > 0 {
				wp.titles, wp.blocks = wp.titles[:len(wp.titles)-3*n], wp.blocks[:len(wp.blocks)-n]
			}
			if len(gp.blocks) != len(wp.blocks) && !cut(want) {
				t.Fatalf("%d events, want %d; exit status %d\n%s", len(gp.blocks), len(wp.blocks), code, errs)
			}
			for i, title := range wp.titles {
				if at(gp.titles, i) != title {
					t.Errorf("line %q, want %q", at(gp.titles, i), title)
				}
			}
			for i, rows := range wp.blocks {
				if i < len(gp.blocks) {
					sameRows(t, gp.blocks[i], uncut(rows, gp.blocks[i]), cut(want) && i == len(wp.blocks)-1)
				}
			}
		})
	}
}

func hasBranches(t *testing.T, name string) bool {
	f, err := perfdata.Open(name, perfdata.Options{})
	if err != nil {
		return false // others compare what is said
	}
	defer f.Close()
	return f.Header().Has(perfdata.FeatureBranchStack)
}

// refused are recordings that perf 6.1 does not read, or in which it finds no
// samples; docs/differences.md says more.
var refused = map[string]string{
	"debug_unwind_small_map_range.data":              "attributes of 136 bytes",
	"perf_with_trace_offcpu.data":                    "attributes of 136 bytes",
	"perf_with_tracepoint_event.data":                "attributes of 136 bytes",
	"perf_for_build_id_check.data":                   "records of simpleperf",
	"perf_test_max_stack_and_percent_limit.data":     "records of simpleperf",
	"perf_with_callchain_record.data":                "records of simpleperf",
	"perf_with_failed_unwinding_debug_info.data":     "records of simpleperf",
	"perf.data.piped.corrupted.zero_size_sample-3.2": "a damaged record, behind which all others are whole",
	"sleep.compressed2.data":                         "COMPRESSED2",
}

// synthesized are recordings for which perf makes up events from AUX traces,
// the last ones of the page.
var synthesized = map[string]int{"perf.data.intel_pt-4.14": 1}

// uncut returns rows of perf with the names of threads as they are in got
// where perf cut them: it makes their column as wide as the last names.
func uncut(rows, got []string) []string {
	rows = slices.Clone(rows)
	for i, row := range rows {
		over, rest, _ := strings.Cut(row, "%  ")
		comm, rest, _ := strings.Cut(rest, "  ")
		for _, g := range got {
			gover, grest, _ := strings.Cut(g, "%  ")
			gcomm, grest, _ := strings.Cut(grest, "  ")
			if gover == over && grest == rest && len(gcomm) > len(comm) && strings.HasPrefix(gcomm, comm) && !slices.Contains(got, row) {
				rows[i] = g
			}
		}
	}
	return rows
}

// cut reports whether perf's answer had more than the 60 lines that are kept.
func cut(want string) bool { return strings.Count(want, "\n") >= 60 }

func at(s []string, i int) string {
	if i < len(s) {
		return s[i]
	}
	return ""
}

// TestReportPerf compares with the perf of this machine, on a fresh recording,
// every combination of sort keys and the options that change the page.
func TestReportPerf(t *testing.T) {
	perftest.NeedTool(t, "perf")
	prog := perftest.CC(t, "threads-test", threadsSource, "-O1", "-g", "-lpthread")
	home := t.TempDir()
	data := perftest.Record(t, "-e", "cpu-clock:u,page-faults:u", "-F", "2000", "--sample-cpu", "--", prog)
	grouped := perftest.Record(t, "-e", "{cpu-clock,page-faults}", "-F", "2000", "--", prog)
	t.Setenv("HOME", home)
	t.Setenv("PERF_CONFIG", "/dev/null")

	pages := [][]string{
		{},
		{"-n"},
		{"-n", "--show-total-period", "--sort", "dso"},
		{"-t", ","},
		{"-t", "r", "-n", "--sort", "pid,dso,sym,cpu"},
		{"-q", "--sort", "dso"},
		{"-F", "sample,period,overhead,comm"},
		{"-F", "comm,overhead"},
		{"-F", "overhead,dso", "--sort", "sym"},
		{"-F", "over,sam,com"},
		{"--percent-limit", "1"},
		{"--header-only"},
		{"--header", "--sort", "comm"},
		{"--stats"},
		{"-s", "+cpu"},
		{"-s", "comm,overhead,period"},
		{"--no-group", "--sort", "dso"},
	}
	tests := slices.Clone(pages)
	for _, sort := range sortCombinations([]string{"comm", "dso", "sym", "pid", "cpu"}) {
		tests = append(tests, []string{"--sort", sort})
	}
	for file, tests := range map[string][][]string{data: tests, grouped: slices.Concat(pages[:5], pages[13:])} {
		for _, args := range tests {
			name := strings.Join(args, " ")
			if file == grouped {
				name += " group"
			}
			t.Run(name, func(t *testing.T) {
				full := append([]string{"report", "--stdio", "--no-children", "-g", "none", "-i", file}, args...)
				want := perftest.PerfIn(t, t.TempDir(), home, nil, full...)
				code, got, errs := runArgs(t, "", full...)
				if code != 0 {
					t.Fatalf("exit status %d: %s", code, errs)
				}
				if diff := gocmp.Diff(normalPage(want.Stdout), normalPage(got)); diff != "" {
					t.Errorf("page (- perf, + perfark):\n%s", diff)
				}
			})
		}
	}
}

// S07: of libc, only the mapping of its code, which begins at another offset
// than 0, is in the recording.
func TestReportLibc(t *testing.T) {
	prog := perftest.CC(t, "sorts", `#include <stdlib.h>
static int less(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static int v[20000];
int main(void) {
	for (int n = 0; n < 60; n++) {
		for (int i = 0; i < 20000; i++) v[i] = i * 7919 % 10007;
		qsort(v, 20000, sizeof *v, less);
	}
	return 0;
}`)
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("PERF_CONFIG", "/dev/null")
	data := filepath.Join(t.TempDir(), "perf.data")
	if r := perftest.PerfIn(t, t.TempDir(), home, nil, "record", perftest.NoBPF, "-q", "-e", "cpu-clock:u", "-F", "4000", "-o", data, "--", prog); r.Code != 0 {
		t.Skipf("skipped: perf may not record: %s", r.Stderr)
	}
	f, err := perfdata.Open(data, perfdata.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at := map[uint64]bool{}
	for r := f.Records(); ; {
		rec, err := r.Next()
		if err != nil {
			break
		}
		if m, ok := rec.(*perfdata.Mmap); ok && filepath.Base(m.Name) == "libc.so.6" {
			at[m.Pgoff] = true
		}
	}
	if len(at) == 0 || at[0] {
		t.Skipf("NOTICE: skipped: libc is mapped at the offsets %v", at)
	}
	args := []string{"report", "--stdio", "--no-children", "-g", "none", "-i", data, "-s", "dso,sym"}
	want := perftest.PerfIn(t, t.TempDir(), home, nil, args...)
	_, got, _ := runArgs(t, "", args...)
	theirs, ours := sameStubs(want.Stdout, got)
	if diff := gocmp.Diff(normalPage(theirs), normalPage(ours)); diff != "" {
		t.Errorf("page (- perf, + perfark):\n%s", diff)
	}
	if !regexp.MustCompile(`libc\.so\.6 +\[\.\] [a-z_]`).MatchString(got) {
		t.Errorf("no function of libc is named:\n%s", got)
	}
}

// normalPage takes out of a page what is random: the tip, and the order of rows
// that have equal numbers.
func normalPage(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "# (Tip: ") {
			// perf writes events for one of a group that it takes apart.
			lines = append(lines, strings.Replace(line, "of events 'cpu-clock", "of event 'cpu-clock", 1))
		}
	}
	number := regexp.MustCompile(`^[ \d.%N/A]*`)
	for i := 0; i < len(lines); {
		j := i + 1
		if !strings.HasPrefix(lines[i], "#") {
			for j < len(lines) && !strings.HasPrefix(lines[j], "#") && number.FindString(lines[j]) == number.FindString(lines[i]) {
				j++
			}
			slices.SortFunc(lines[i:j], cmp.Compare)
		}
		i = j
	}
	return lines
}

// sortCombinations returns all lists of one and two of the keys, and a list of
// all of them beginning with each.
func sortCombinations(keys []string) []string {
	set := map[string]bool{}
	for i, a := range keys {
		set[a] = true
		set[strings.Join(append(slices.Clone(keys[i:]), keys[:i]...), ",")] = true
		for _, b := range keys {
			if b != a {
				set[a+","+b] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// threadsSource is a program of three threads with names of their own, shorter
// than its name: perf makes the column as wide as the last names of threads,
// not those of its samples.
const threadsSource = `
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
__attribute__((noinline)) static unsigned leaf(unsigned x) { for (int i = 0; i < 2000; i++) x = x * 1664525 + 1013904223; return x; }
__attribute__((noinline)) unsigned middle(unsigned x) { return leaf(x) + 1; }
static void *thread(void *name) {
	prctl(PR_SET_NAME, name);
	volatile unsigned x = 0;
	for (int i = 0; i < 40000; i++) x += middle(i);
	return 0;
}
int main(void) {
	pthread_t t[2];
	pthread_create(&t[0], 0, thread, "first one");
	pthread_create(&t[1], 0, thread, "2nd");
	char *b = malloc(1 << 20);
	for (int i = 0; i < 1000; i++) { memset(b, i, 1 << 20); getppid(); }
	pthread_join(t[0], 0);
	pthread_join(t[1], 0);
	return b[1000] == 1;
}
`

// reportText runs report on a recording made from text.
func reportText(t *testing.T, text string, args ...string) (code int, out, errs string) {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PERF_CONFIG", "/dev/null")
	return runArgs(t, "", append([]string{"report", "-q", "-i", perftest.File(t, text)}, args...)...)
}

// S13: a recording under kernel.kptr_restrict=2 has no map of the kernel. The
// user part is complete, the kernel part is grouped, and one warning names the
// sysctl.
func TestReportRestricted(t *testing.T) {
	code, out, errs := reportText(t, `
comm pid=10 tid=10 name=dd time=1
mmap2 pid=10 tid=10 start=0x400000 len=0x1000 prot=5 flags=2 name=/bin/dd time=2
sample ip=0x400123 pid=10 tid=10 time=3 period=6
sample ip=0xffffffff81000010 pid=10 tid=10 time=4 period=3
sample ip=0xffffffff81000020 pid=10 tid=10 time=5 period=1
finished_round
`, "-s", "dso")
	want := "    60.00%  dd                  \n    40.00%  [kernel, restricted]\n\n\n"
	if code != 0 || out != want {
		t.Errorf("exit status %d, %q, want %q", code, out, want)
	}
	if n := strings.Count(errs, "kernel.kptr_restrict"); n != 1 {
		t.Errorf("%d lines name the sysctl, want 1:\n%s", n, errs)
	}
}

// P10: mappings without a name are one object, and no file is looked for.
func TestReportUnnamed(t *testing.T) {
	code, out, errs := reportText(t, `
comm pid=10 tid=10 name=jit time=1
mmap2 pid=10 tid=10 start=0x400000 len=0x1000 prot=5 flags=2 name= time=2
mmap2 pid=10 tid=10 start=0x600000 len=0x1000 prot=5 flags=2 name= time=2
sample ip=0x400123 pid=10 tid=10 time=3 period=1
sample ip=0x600123 pid=10 tid=10 time=4 period=1
finished_round
`, "-s", "dso")
	want := "   100.00%  [unnamed mapping]\n\n\n"
	if code != 0 || out != want {
		t.Errorf("exit status %d, %q, want %q; %s", code, out, want, errs)
	}
	if strings.Contains(errs, `""`) || strings.Contains(errs, "no file") {
		t.Errorf("a file was looked for: %s", errs)
	}
}

// UI-4, G13: names from outside reach neither output as they are.
func TestReportEscapes(t *testing.T) {
	code, out, errs := reportText(t, `
comm pid=10 tid=10 name="a\x1b[31mb\n" time=1
mmap2 pid=10 tid=10 start=0x400000 len=0x1000 prot=5 flags=2 name="/bin/\u202ex\xff\x9b" time=2
sample ip=0x400123 pid=10 tid=10 time=3 period=1
finished_round
`)
	if want := `   100.00%  a\x1b[31mb\x0a  \u202ex\xff\x9b   [.] 0x0000000000000123` + "\n\n\n"; code != 0 || out != want {
		t.Errorf("exit status %d, %q, want %q", code, out, want)
	}
	for _, s := range []string{out, errs} {
		for _, raw := range []string{"\x1b", "\u202e", "\xff", "\x9b"} {
			if strings.Contains(s, raw) {
				t.Errorf("%q has %q", s, raw)
			}
		}
	}
}

// PARSE-3: what was read of a damaged recording is shown, what was not is told
// with its offset, and the exit status is 3.
func TestReportDamaged(t *testing.T) {
	const text = `
comm pid=10 tid=10 name=w time=1
sample ip=0x400123 pid=10 tid=10 time=3 period=1
%s
sample ip=0x400123 pid=10 tid=10 time=5 period=1
finished_round
`
	tests := []struct{ name, bad, want string }{
		{"short record", "mmap2 pid=10 tid=10 start=0x400000 len=0x1000 name=/bin/x time=4 cut=40", "offset 0x"},
		{"sample without its end", "sample ip=1 pid=10 tid=10 time=4 cut=8", "offset 0x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, out, errs := reportText(t, strings.Replace(text, "%s", tt.bad, 1), "-n", "-s", "comm")
			if want := "   100.00%             2  w\n\n\n"; code != 3 || normal(out) != normal(want) {
				t.Errorf("exit status %d, %q, want 3, %q", code, out, want)
			}
			if !strings.Contains(errs, tt.want) || !strings.Contains(errs, "the recording is damaged") {
				t.Errorf("stderr %q", errs)
			}
		})
	}
	t.Run("killed", func(t *testing.T) {
		code, out, errs := reportText(t, "file killed\n"+strings.Replace(text, "%s", "", 1), "-n", "-s", "comm")
		if want := "   100.00%             2  w\n\n\n"; code != 3 || normal(out) != normal(want) {
			t.Errorf("exit status %d, %q, want 3, %q; %s", code, out, want, errs)
		}
	})
}

func normal(s string) string { return strings.Join(strings.Fields(s), " ") }

// A recording without samples is no error, as with perf, and says so.
func TestReportNoSamples(t *testing.T) {
	code, out, errs := reportText(t, "comm pid=10 tid=10 name=w time=1\nfinished_round\n")
	if code != 0 || out != "" || !strings.Contains(errs, "the recording has no samples") {
		t.Errorf("exit status %d, %q, %q", code, out, errs)
	}
}

// TestReportBinaries compares with perf where the corpus has the programs.
func TestReportBinaries(t *testing.T) {
	dir := perftest.Corpus(t)
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PERF_CONFIG", "/dev/null")
	// Not sp_minidebug, of which perf reads no .gnu_debugdata.
	for _, name := range []string{"ro_sample", "sp_elf", "sp_g_fp", "sp_two_functions_arm64"} {
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join(dir, "expected", "with-binaries", name+".meta.json"))
			if err != nil {
				t.Fatal(err)
			}
			var meta struct {
				PerfData string            `json:"perfdata"`
				Symfs    map[string]string `json:"symfs"`
			}
			if err := json.Unmarshal(b, &meta); err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(filepath.Join(dir, "expected", "with-binaries", name+".report-gnone.txt"))
			if err != nil {
				t.Fatal(err)
			}
			cache := t.TempDir()
			for _, bin := range meta.Symfs {
				if code, _, errs := runArgs(t, "", "--buildid-dir", cache, "buildid-cache", "-a", filepath.Join(dir, bin)); code != 0 {
					t.Fatal(errs)
				}
			}
			_, out, errs := runArgs(t, "", "--buildid-dir", cache, "report", "--no-children", "-g", "none", "--sort", "comm,dso,sym", "-i", filepath.Join(dir, meta.PerfData))
			gp, wp := parsePage(strings.ReplaceAll(out, report.Restricted, report.UnknownDSO)), parsePage(string(want))
			if len(gp.blocks) != len(wp.blocks) {
				t.Fatalf("%d events, want %d: %s", len(gp.blocks), len(wp.blocks), errs)
			}
			for i := range wp.blocks {
				sameRows(t, gp.blocks[i], wp.blocks[i], false)
			}
		})
	}
}

// G5: a recording that was cut anywhere never ends with exit status 0, and
// with 3 if anything of it is shown; one that was damaged only if all samples
// are there. None of them panics or takes long.
func TestReportDamage(t *testing.T) {
	dir := perftest.Corpus(t)
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PERF_CONFIG", "/dev/null")
	for _, rel := range []string{
		"mstange__linux-perf-data/tests/fixtures/sleep.data",
		"google__perf_data_converter/src/quipper/testdata/perf.data.callgraph-3.8",
		"google__perf_data_converter/src/quipper/testdata/perf.data.piped.no_attr_ids-4.14",
	} {
		b, err := os.ReadFile(filepath.Join(dir, rel))
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(t.TempDir(), "perf.data")
		report := func(b []byte) (code int, out, errs string) {
			t.Helper()
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			code, out, errs = runArgs(t, "", "report", "-q", "-s", "comm", "-n", "-i", name)
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("took %v", took)
			}
			return code, out, errs
		}
		t.Run("cut "+filepath.Base(rel), func(t *testing.T) {
			step := len(b)/150 | 1 // odd: records are multiples of 8 bytes
			for n := 1; n < len(b); n += step {
				code, out, errs := report(b[:n])
				pipe := strings.Contains(rel, "piped")
				if code == 0 && !pipe || code != 0 && errs == "" || code == 1 && out != "" {
					t.Fatalf("cut at %#x: exit status %d\n%s%s", n, code, out, errs)
				}
			}
		})
		t.Run("mutants "+filepath.Base(rel), func(t *testing.T) {
			_, whole, _ := report(b)
			r := rand.New(rand.NewPCG(1, 2))
			for range 100 {
				at, n := r.IntN(len(b)), 1+r.IntN(64)
				m := slices.Clone(b)
				for i := at; i < min(at+n, len(m)); i++ {
					m[i] = byte(r.Uint32())
				}
				code, out, errs := report(m)
				told := strings.Contains(errs, "skipped") // a type that may be of a newer kernel
				if code == 0 && !told && samplesOf(out) < samplesOf(whole) {
					t.Errorf("%d bytes damaged at %#x: %d samples of %d, exit status 0\n%s", n, at, samplesOf(out), samplesOf(whole), errs)
				}
			}
		})
	}
}

// A recording that comes through a pipe has no ids and no file time. While it
// is fresh, the files of this host are used, and said to be unverified; when
// it is not, nothing shows that they are the recorded ones.
func TestReportLivePipe(t *testing.T) {
	prog := perftest.CC(t, "spin", "volatile long x; __attribute__((noinline)) void hot_leaf(void) { for (long i = 0; i < 100000000; i++) x += i; }\nint main(void) { hot_leaf(); return 0; }")
	rec := perftest.Perf(t, "record", perftest.NoBPF, "-q", "-e", "cpu-clock", "-o", "-", "--", prog)
	if rec.Code != 0 {
		t.Skipf("skipped: perf may not record: %s", rec.Stderr)
	}
	report := func(data []byte) (string, string) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		go func() {
			w.Write(data)
			w.Close()
		}()
		var out, errs strings.Builder
		run(t.Context(), []string{"report", "-i", "-", "-s", "sym"}, r, &out, &errs)
		return out.String(), errs.String()
	}
	out, errs := report([]byte(rec.Stdout))
	if !strings.Contains(out, "[.] hot_leaf") || !strings.Contains(errs, "perfark: unverified: "+prog) {
		t.Errorf("fresh:\n%s\n%s", out, errs)
	}
	f, err := perfdata.NewStream(strings.NewReader(rec.Stdout), "pipe", perfdata.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	time.Sleep(10 * time.Millisecond) // /proc/uptime has hundredths of a second, cut off
	if up, ok := uptime(); !ok || liveTime(t.Context(), f).IsZero() || lastTime(t.Context(), f) > uint64(up) {
		t.Errorf("last record at %d ns, up for %v: not live", lastTime(t.Context(), f), up)
	}
}

// samplesOf adds up the samples of a page made with -q -n.
func samplesOf(page string) int {
	sum := 0
	for line := range strings.Lines(page) {
		if f := strings.Fields(line); len(f) > 1 {
			n, _ := strconv.Atoi(f[1])
			sum += n
		}
	}
	return sum
}

// Unwinding stops at --max-stack: what is left of a stack is what was sampled,
// not what it began with.
func TestReportUnwoundMaxStack(t *testing.T) {
	perftest.NeedTool(t, "perf")
	prog := perftest.CC(t, "unwound-test", threadsSource, "-O1", "-g", "-lpthread")
	home := t.TempDir()
	data := perftest.Record(t, "-e", "cpu-clock:u", "-F", "500", "--call-graph", "dwarf,4096", "--", prog)
	t.Setenv("HOME", home)
	t.Setenv("PERF_CONFIG", "/dev/null")
	for _, args := range []string{"--max-stack 2", "--max-stack 2 -g none", "--max-stack 3 --no-children -g caller"} {
		samePage(t, data, home, args)
	}
}

// reportFlags are the flags of call graphs and filters that give perf's page,
// on any recording.
var reportFlags = []string{
	"", "--no-children", "-g", "-g caller", "-gcallee", "--call-graph=fractal,5", "-g graph,0.5,callee,function,count",
	"--no-children -g folded", "--no-children -g flat,period", "--no-children -G", "-g none", "--no-call-graph",
	"--max-stack 2", "--ignore-callees middle -g callee", "--ignore-callees middle --no-children", "-p middle", "-p middle -x", "--percent-limit 10", "--hierarchy",
	"-w 8,8,6,10", "-c 2nd", "-d flags-test --no-children", "-S leaf --percentage relative --no-children -g none", "-C 0 --no-children", "--time 10%-50% --no-children",
	"--symbol-filter le --no-children -g none", "--symbol-filter le", "--symbol-filter le -g callee", "-s cgroup --no-children -g none", "-U", "--show-cpu-utilization", "-n --show-total-period", "-F +period", "-F +cpu -s dso",
	"-F overhead_children,overhead,sym", "-s time --ns --time-quantum 10ms --no-children -g none", "-q", "-t ;", "--tasks", "--mmaps", "--stats",
}

// TestReportFlags compares the pages of the flags of call graphs and filters
// with those of the perf of this machine, on a fresh recording.
func TestReportFlags(t *testing.T) {
	perftest.NeedTool(t, "perf")
	prog := perftest.CC(t, "flags-test", threadsSource, "-O1", "-g", "-fno-omit-frame-pointer", "-lpthread")
	home := t.TempDir()
	data := perftest.Record(t, "-e", "cpu-clock:u", "-F", "1000", "-g", "--sample-cpu", "--", prog)
	t.Setenv("HOME", home)
	t.Setenv("PERF_CONFIG", "/dev/null")
	for _, args := range reportFlags {
		t.Run(args, func(t *testing.T) { samePage(t, data, home, args) })
	}
	want := "perfark: report: Selected --mem-mode but no mem data. Did you call perf record without -d?\n"
	if code, _, errs := runArgs(t, "", "report", "-i", data, "--mem-mode"); code != 1 || errs != want {
		t.Errorf("--mem-mode: exit status %d, %q", code, errs)
	}
}

// --cgroup is a filter like --comms: the rest counts in the totals, and the
// column goes if there is one name. Samples of unknown cgroups are "unknown".
func TestReportCgroupFilter(t *testing.T) {
	const text = `event cpu-clock sample=+CGROUP
mmap2 pid=5 tid=5 start=0x1000 len=0x1000 prot=5 name=/bin/x time=1
comm pid=5 tid=5 name=x time=1
cgroup id=7 name=/a.slice time=2
cgroup id=8 name=/a.slice/b time=2
sample pid=5 tid=5 ip=0x1010 time=3 cgroup=7 period=6
sample pid=5 tid=5 ip=0x1010 time=4 cgroup=8 period=3
sample pid=5 tid=5 ip=0x1010 time=5 cgroup=9 period=1
`
	for _, tt := range []struct{ args, want string }{
		{"-s cgroup --cgroup /a.slice", "60.00%  /a.slice"}, // no other key is left: the column stays
		{"-s cgroup,comm --cgroup a.slice/b", "30.00%  x"},
		{"-s comm --cgroup a.slice/b,unknown", "40.00%  x"},
		{"-s comm --cgroup a.slice --percentage relative", "100.00%  x"},
		{"-s cgroup --cgroup a,b", ""},
	} {
		perftest.Orders(t, text, func(t *testing.T, data []byte) {
			_, out, errs := runArgs(t, string(data), append([]string{"report", "-i", "-", "--no-pager"}, strings.Fields(tt.args)...)...)
			if got := strings.Join(slices.Concat(parsePage(out).blocks...), "\n"); got != tt.want {
				t.Errorf("%s: %q, want %q\n%s%s", tt.args, got, tt.want, out, errs)
			}
		})
	}
	code, _, errs := reportText(t, strings.ReplaceAll(strings.ReplaceAll(text, "sample=+CGROUP", ""), "cgroup=", "cpu="), "--cgroup", "a")
	if code != 1 || !strings.Contains(errs, "samples do not say in which cgroup") || !strings.Contains(errs, "--all-cgroups") {
		t.Errorf("exit status %d: %s", code, errs)
	}
}

// Keys of branches need branches; expressions are short (UI-6).
func TestReportRefused(t *testing.T) {
	const text = "sample ip=0x400123 pid=1 tid=1 time=1\n"
	for _, tt := range []struct{ args, err string }{
		{"-s dso_from", `"dso_from" is a key of branches, which -b counts`},
		{"-F overhead,cycles", `"cycles" is a key of branches, which -b counts`},
		{"-F +in_tx", `"in_tx" is a key of branches, which -b counts`},
		{"-p " + strings.Repeat("a", 1025), "--parent: an expression of 1025 bytes, at most 1024 are looked at"},
		{"--ignore-callees " + strings.Repeat("(a*)*", 300), "--ignore-callees: an expression of 1500 bytes"},
		{"-p (", "--parent: error parsing regexp"},
	} {
		if code, _, errs := reportText(t, text, strings.Fields(tt.args)...); code != 2 || !strings.Contains(errs, tt.err) {
			t.Errorf("%.40s: exit status %d, %q, want %q", tt.args, code, errs, tt.err)
		}
	}
}
