package main

import (
	"cmp"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/perfark/perfark/internal/perftest"
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
			code, out, errs := runArgs(t, "", "report", "--stdio", "--no-children", "-g", "none", "--sort", "comm,dso,sym", "-i", filepath.Join(dir, rel))
			if why, ok := differs[filepath.Base(rel)]; ok {
				t.Skipf("perf has no answer, or a wrong one: %s", why)
			}
			wp := parsePage(want)
			if len(wp.blocks) == 0 {
				if code == 0 && strings.Contains(out, "# Samples") {
					t.Logf("perf shows no samples, we do: exit status %d, %s", code, errs)
				}
				return
			}
			gp := parsePage(strings.ReplaceAll(out, "[kernel, restricted]", "[unknown]"))
			if len(gp.blocks) != len(wp.blocks) && !cut(want) {
				t.Fatalf("%d events, want %d; exit status %d\n%s", len(gp.blocks), len(wp.blocks), code, errs)
			}
			for i, title := range wp.titles {
				if i >= len(gp.titles) || gp.titles[i] != title {
					t.Errorf("line %q, want %q", at(gp.titles, i), title)
				}
			}
			for i, rows := range wp.blocks {
				if i < len(gp.blocks) {
					sameRows(t, gp.blocks[i], rows, cut(want) && i == len(wp.blocks)-1)
				}
			}
		})
	}
}

// cut reports whether perf's answer had more than the 60 lines that are kept.
func cut(want string) bool { return strings.Count(want, "\n") >= 60 }

func at(s []string, i int) string {
	if i < len(s) {
		return s[i]
	}
	return ""
}

// differs are recordings whose report by perf 6.1 is not the right one, with
// the reason; docs/differences.md says more.
var differs = map[string]string{}

// TestReportPerf compares with the perf of this machine, on a fresh recording,
// every combination of sort keys and the options that change the page.
func TestReportPerf(t *testing.T) {
	perftest.NeedTool(t, "perf")
	prog := perftest.CC(t, "threads-test", threadsSource, "-O1", "-g", "-lpthread")
	home := t.TempDir()
	data := perftest.Record(t, "-e", "cpu-clock,page-faults", "-F", "2000", "--sample-cpu", "--", prog)
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
	for file, tests := range map[string][][]string{data: tests, grouped: pages} {
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

// normalPage takes out of a page what is random: the tip, and the order of rows
// that have equal numbers.
func normalPage(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "# (Tip: ") {
			lines = append(lines, line)
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
