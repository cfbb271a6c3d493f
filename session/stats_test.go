package session

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
)

// statNames are perf's names of the types of records, as in perf report
// --stats.
var statNames = map[int]string{
	1: "MMAP", 2: "LOST", 3: "COMM", 4: "EXIT", 5: "THROTTLE", 6: "UNTHROTTLE", 7: "FORK", 8: "READ", 9: "SAMPLE", 10: "MMAP2",
	11: "AUX", 12: "ITRACE_START", 13: "LOST_SAMPLES", 14: "SWITCH", 15: "SWITCH_CPU_WIDE", 16: "NAMESPACES", 17: "KSYMBOL",
	18: "BPF_EVENT", 19: "CGROUP", 20: "TEXT_POKE", 64: "ATTR", 65: "EVENT_TYPE", 66: "TRACING_DATA", 67: "BUILD_ID", 68: "FINISHED_ROUND", 69: "ID_INDEX",
	70: "AUXTRACE_INFO", 71: "AUXTRACE", 73: "THREAD_MAP", 74: "CPU_MAP", 78: "EVENT_UPDATE", 79: "TIME_CONV", 80: "FEATURE",
	81: "COMPRESSED", 82: "FINISHED_INIT",
}

var statLine = regexp.MustCompile(`^ *([A-Z0-9_]+) events: *(\d+)`)

// checkStats compares the counts of records with perf report --stats.
func checkStats(t *testing.T, name string) {
	t.Helper()
	out := perftest.Perf(t, "report", "-f", "-i", name, "--stats")
	want := map[string]uint64{}
	total := false
	for line := range strings.Lines(out.Stdout) {
		m := statLine.FindStringSubmatch(line)
		if m == nil {
			if total && strings.Contains(line, "stats:") {
				break // the counts of events follow
			}
			continue
		}
		n, _ := strconv.ParseUint(m[2], 10, 64)
		want[m[1]] = n
		total = total || m[1] == "TOTAL"
	}
	if !total {
		t.Skipf("perf says nothing: %s", out.Stderr)
	}
	s := load(t, name, Options{HitsOnly: true}).Stats
	got := map[string]uint64{"TOTAL": s.Total}
	for typ, n := range s.Types {
		if n > 0 {
			got[statNames[typ]] = n
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

func TestCorpusStats(t *testing.T) {
	dir := perftest.Corpus(t)
	for _, rel := range perftest.CorpusFiles(t) {
		t.Run(filepath.Base(rel), func(t *testing.T) {
			if text, ok := perftest.Expected(t, rel, "report60.txt"); !ok || !strings.Contains(text, "# Samples:") {
				t.Skip("perf cannot read it")
			}
			checkStats(t, filepath.Join(dir, rel))
		})
	}
}
