package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/perfark/perfark/annotate"
	"github.com/perfark/perfark/internal/perftest"
)

// cyclesRecording makes a recording of branch stacks with cycles, in a program
// of which every instruction is known. The pages in testdata/cycles are those
// of perf 6.1 for it, which had to be mended for that: it crashes on every
// recording with cycles, as it gives back references that it did not take
// (hist__account_cycles). perf's percentages of samples are not compared: with
// branch stacks, all are of the first branch that it met in a function.
func cyclesRecording(t *testing.T, flags ...string) (data, prog string) {
	t.Helper()
	perftest.NeedTool(t, "gcc")
	dir := t.TempDir()
	prog = filepath.Join(dir, "prog")
	source, err := filepath.Abs(filepath.Join("testdata", "cycles", "program.s"))
	if err != nil {
		t.Fatal(err)
	}
	r := perftest.Run(t, dir, nil, nil, "gcc", append(flags, "-nostdlib", "-static", "-no-pie", "-Wl,-Ttext=0x401000",
		"-Wl,--build-id=0x00112233445566778899aabbccddeeff00112233", "-o", prog, source)...)
	if r.Code != 0 {
		t.Skipf("NOTICE: gcc makes no program for this: %s", r.Stderr)
	}
	return perftest.File(t, strings.ReplaceAll(golden(t, "recording.txt"), "@PROG@", prog)), prog
}

func golden(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "cycles", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// timings are the lines of a page of --stdio2 from the columns of time on, by
// function.
func timings(page string) map[string]string {
	out := map[string]string{}
	name := ""
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		if n, _, ok := strings.Cut(line, "() /"); ok {
			name = n
			continue
		}
		if n, _, ok := strings.Cut(line, "() @"); ok {
			name = n
			continue
		}
		if strings.HasPrefix(line, "Samples: ") {
			name = ""
			continue
		}
		if name != "" && len(line) >= 7 {
			line, _, _ = strings.Cut(line[7:], "\t#")
			out[name] += strings.TrimRight(line, " ") + "\n"
		}
	}
	return out
}

// TestAnnotateCycles compares the columns of time with perf's, and checks that
// perf reads the recording.
func TestAnnotateCycles(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PERF_CONFIG", "/dev/null")
	data, _ := cyclesRecording(t)
	code, out, errs := runArgs(t, "", "annotate", "--stdio2", "--no-index", "-i", data)
	if code != 0 {
		t.Fatalf("exit status %d: %s", code, errs)
	}
	got, want := timings(out), timings(golden(t, "annotate.txt"))
	for _, name := range []string{"hot", "cold"} {
		if want[name] == "" || got[name] != want[name] {
			t.Errorf("%s: %s", name, firstDifference(got[name], want[name]))
		}
	}

	code, out, errs = runArgs(t, "", "annotate", "--json", "--no-index", "-i", data, "cold")
	var doc annotate.Document
	if err := json.Unmarshal([]byte(out), &doc); err != nil || code != 0 {
		t.Fatalf("exit status %d, %v: %s", code, err, errs)
	}
	f := doc.Functions[0]
	if last := f.Lines[len(f.Lines)-1]; f.Coverage != 100 || last.Cycles == nil || *last.Cycles != (annotate.DocCycles{Average: 9, Min: 8, Max: 11}) ||
		last.IPC < 0.21 || last.IPC > 0.22 || f.IPC < 0.026 || f.IPC > 0.027 {
		t.Errorf("IPC %v of %v %%, %+v", f.IPC, f.Coverage, last)
	}

	if perf := perftest.Perf(t, "script", "-i", data, "-F", "brstack"); !strings.Contains(perf.Stdout, "0x401018/0x401000/M/-/-/300/") {
		t.Errorf("perf script has no branch of 300 cycles:\n%.400s%s", perf.Stdout, perf.Stderr)
	}
}

// TestReportTotalCycles compares with the page of perf.
func TestReportTotalCycles(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PERF_CONFIG", "/dev/null")
	data, _ := cyclesRecording(t)
	code, out, errs := runArgs(t, "", "report", "--stdio", "--total-cycles", "--no-index", "-i", data)
	if code != 0 {
		t.Fatalf("exit status %d: %s", code, errs)
	}
	if want := golden(t, "total.txt"); out != want {
		t.Errorf("%s", firstDifference(out, want))
	}
	code, out, _ = runArgs(t, "", "report", "--stdio", "--total-cycles", "--no-index", "-q", "-t", ";", "--percent-limit", "0.2", "-i", data)
	if want := "99.25%;196.7K;6.21%;9.4K;[      0 ->       e];prog\n0.48%;945;0.06%;94;[      0 ->       1];prog\n"; code != 0 || out != want {
		t.Errorf("got  %q\nwant %q", out, want)
	}
	code, out, errs = runArgs(t, "", "report", "--total-cycles", "--json", "--no-index", "-i", data)
	var doc struct {
		Tables []struct {
			Rows   []any
			Blocks []struct {
				Symbol string
				Begin  *uint64
				End    uint64
				Count  uint64
				Cycles uint64
				All    struct{ Count, Cycles, Average, Min, Max uint64 }
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil || code != 0 {
		t.Fatalf("exit status %d, %v: %s", code, err, errs)
	}
	b := doc.Tables[0].Blocks
	if len(b) != 8 || len(doc.Tables[0].Rows) == 0 || b[0].Symbol != "hot" || b[0].Begin == nil || *b[0].Begin != 0 || b[0].End != 14 || b[0].Cycles != 33 ||
		b[0].All.Cycles != 196689 || b[0].All.Min != 4 || b[0].All.Max != 65535 {
		t.Errorf("%d blocks, the first %+v", len(b), b[0])
	}
	// Without branches it changes nothing, as with perf.
	code, out, _ = runArgs(t, "", "report", "--stdio", "--total-cycles", "--no-branch-stack", "--no-index", "-i", data)
	if code != 0 || !regexp.MustCompile(`(?m)^ +76\.19%  prog .* hot$`).MatchString(out) {
		t.Errorf("exit status %d:\n%s", code, out)
	}
}

// TestReportIPC: what perf shows with -s symbol, which adds the column.
func TestReportIPC(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PERF_CONFIG", "/dev/null")
	data, _ := cyclesRecording(t)
	want := `# Overhead  Symbol                  IPC   [IPC Coverage]
# ........  ......................  ....................
#
    71.29%  [.] hot                 1.33  [ 88.9%]
    12.87%  [.] cold                0.03  [100.0%]
    11.88%  [.] _start              0.00  [  0.0%]
     2.97%  [.] 0000000000000000    -
     0.99%  [.] 0x00007fff00000f00  -
`
	_, out, errs := runArgs(t, "", "report", "--stdio", "--no-index", "-s", "symbol,ipc_lbr", "-i", data)
	var lines []string
	for line := range strings.Lines(out) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	if got := strings.Join(lines, "\n"); !strings.Contains(got, want) {
		t.Errorf("got\n%s%s", got, errs)
	}
	_, out, _ = runArgs(t, "", "report", "--json", "--no-index", "-s", "symbol,ipc_lbr", "-i", data)
	for _, re := range []string{
		`"symbol":"hot".*"ipc_lbr":\{"ipc":1\.33\d*,"coverage_percent":88\.8\d*\}`, `"symbol":"_start".*"ipc_lbr":\{"ipc":0,"coverage_percent":0\}`, `"ipc_lbr":null`,
	} {
		if !regexp.MustCompile(re).MatchString(out) {
			t.Errorf("no %s in\n%s", re, out)
		}
	}
	_, out, _ = runArgs(t, "", "report", "--stdio", "--no-index", "-q", "--no-branch-stack", "-s", "ipc_null", "-i", data)
	if want := "    76.19%  -      -            \n"; !strings.HasPrefix(out, want) {
		t.Errorf("got  %q\nwant %q", out, want)
	}
	for _, flags := range [][]string{{"--no-branch-stack"}, {"-b"}} {
		args := append([]string{"report", "--stdio", "-q", "-s", "dso_size,dso", "-i", data}, flags...)
		_, out, _ := runArgs(t, "", append(args, "--no-index")...)
		if perf := perftest.Perf(t, args...); strings.TrimSpace(out) != strings.TrimSpace(perf.Stdout) || !strings.Contains(out, " 4096 ") {
			t.Errorf("got\n%swant\n%s", out, perf.Stdout)
		}
	}
}

var branchCounts = regexp.MustCompile(` \((predicted|abort|cycles|iter|avg_cycles)[^)]*\)| +-      - *$`)

// TestReportBranchHistory compares call graphs of branches with perf's, which
// has counts behind some, and a column more.
func TestReportBranchHistory(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PERF_CONFIG", "/dev/null")
	data, _ := cyclesRecording(t, "-g")
	lines := func(page string) string {
		var out []string
		for line := range strings.Lines(page) {
			line = strings.TrimRight(branchCounts.ReplaceAllString(strings.TrimRight(line, "\n"), ""), " ")
			if line != "" && line[0] != '#' {
				out = append(out, line)
			}
		}
		slices.Sort(out) // equal ones are in no order in perf's
		return strings.Join(out, "\n")
	}
	for _, flags := range [][]string{nil, {"-G"}, {"--no-children"}, {"--no-children", "-s", "sym"}} {
		args := append([]string{"report", "--stdio", "--branch-history", "-g", "folded", "-i", data}, flags...)
		perf := perftest.Perf(t, args...)
		code, out, errs := runArgs(t, "", append(args, "--no-index")...)
		if code != 0 {
			t.Fatalf("exit status %d: %s", code, errs)
		}
		if got, want := lines(out), lines(perf.Stdout); got != want || !strings.Contains(want, ";") {
			t.Errorf("%v: %s", flags, firstDifference(got, want))
		}
	}
	code, _, errs := runArgs(t, "", "report", "--stdio", "--branch-history", "-i", perftest.File(t, "sample ip=1 time=1\n"))
	if code != 1 || !strings.Contains(errs, "Selected -g or --branch-history.") {
		t.Errorf("without branches: exit status %d: %s", code, errs)
	}
}
