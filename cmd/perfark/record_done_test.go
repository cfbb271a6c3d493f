package main

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/perfark/perfark/internal/perftest"
)

// What perfark records, of whatever target and in whatever way, has the same rows
// in stock perf and in perfark, and the same once more in its bundle where the
// originals are hidden.
func TestRecordDone(t *testing.T) {
	all := newWitness(t)
	all.cc("spin", spinSource)
	all.cc("other", otherSource)
	all.cc("jit", jitSource)
	removeMaps(t, "jit_hot")
	if r := perftest.Run(t, all.dir, nil, nil, all.bin, "record", "-e", "cpu-clock", "-o", "probe.data", "--", "true"); r.Code != 0 {
		t.Skipf("NOTICE: no recording is possible here: %s", r.Stderr)
	}
	const ns = "exec unshare -pfm --kill-child --mount-proc sh -c 'mount -t tmpfs none ns && cp spin ns/app && exec ns/app 100000000'"
	for _, tt := range []struct {
		name   string
		flags  string // PID: of a process that spins
		script string
		want   string // a row has it
		often  bool   // else with make record alone
	}{
		{"a command", "-e cpu-clock", "./spin 60000000", "hot_leaf", true},
		{"a pid", "-e cpu-clock:u -p PID", "sleep 0.3", "hot_leaf", false},
		{"a thread", "-e cpu-clock:u -t PID", "sleep 0.3", "hot_leaf", true},
		{"system-wide", "-e cpu-clock:u -a", "./spin 60000000", "hot_leaf", true},
		{"a cgroup", "-e cpu-clock:u -a -G CGROUP", "./spin 60000000", "hot_leaf", true},
		{"two events in a group", "-e {cpu-clock:u,task-clock:u}", "./spin 60000000", "hot_leaf", true},
		{"-z", "-e cpu-clock:u -z", "./spin 60000000", "hot_leaf", false},
		{"-z of dwarf", "-e cpu-clock:u -z --call-graph dwarf,4096", "./spin 60000000", "hot_leaf", true},
		{"dwarf chains", "-e cpu-clock:u --call-graph dwarf", "./spin 60000000", "hot_leaf", false},
		{"fp chains", "-e cpu-clock:u -g", "./spin 60000000", "hot_leaf", true},
		{"a storm of forks", "-e cpu-clock:u -F 4000", "for i in $(seq 60); do ./spin 400000 & ./other 400000; done; wait; ./spin 30000000", "zzz_wrong_function", true},
		{"run-time code", "-e cpu-clock:u -k mono", "./jit map 300", "jit_hot", true},
		{"a container that is gone", "-e cpu-clock:u", ns, "hot_leaf", true},
		{"deleted", "-e cpu-clock:u", "cp spin app; ./app 200000000 & sleep 0.2; rm app; wait", "hot_leaf", true},
		{"replaced", "-e cpu-clock:u", "cp spin app; ./app 200000000 & sleep 0.2; cp other new; mv new app; wait", "hot_leaf", true},
	} {
		if !tt.often && os.Getenv("PERFARK_RECORD") == "" {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			w := newWitness(t)
			w.sh("cp " + all.dir + "/spin " + all.dir + "/other " + all.dir + "/jit .; mkdir ns")
			script := tt.script
			flags := strings.ReplaceAll(tt.flags, "CGROUP", w.cgroup(&script, strings.Contains(tt.flags, "CGROUP")))
			if strings.Contains(flags, "PID") {
				pid := w.start("./spin", "20000000000")
				flags = strings.ReplaceAll(flags, "PID", pid)
				defer w.kill(pid)
			}
			data, stderr := w.watch(append(strings.Fields(flags), "--", "sh", "-c", script)...)
			page := []string{"report", "--stdio", "--no-children", "-g", "none", "-s", "comm,dso,sym", "--percent-limit", "0.5", "-i", data}
			if strings.Contains(flags, "-a") { // of others perfark may know more names
				page = append([]string{page[0], "--comms", "spin"}, page[1:]...)
			}
			env := append(os.Environ(), "HOME="+w.home, "LC_ALL=C", "DEBUGINFOD_URLS=")
			perf := perftest.Run(t, w.dir, env, nil, "perf", page...)
			here := perftest.Run(t, w.dir, env, nil, w.bin, page...)
			// Of two entries of a perf map for an address perf takes the first: what was there before.
			rows := recordRows(here.Stdout)
			want, got := sameStubs(strings.ReplaceAll(recordRows(perf.Stdout), "jit_old", "jit_hot"), rows)
			if perf.Code != 0 || perf.Stderr != "" || here.Code != 0 || got != want || !strings.Contains(got, tt.want) {
				t.Errorf("rows:\n%s%s\nof perf:\n%s%s\nrecorder: %s", got, here.Stderr, want, perf.Stderr, stderr)
			}
			bundle := filepath.Join(t.TempDir(), "b.perfark")
			p := w.pack(data, "--all", "--allow-missing", "--level", "1", "-o", bundle)
			for _, m := range p.Missing {
				if strings.HasPrefix(string(m.Path), w.dir) {
					t.Errorf("missing from the bundle: %s: %s: %s", m.Path, m.Reason, m.Detail)
				}
			}
			page[len(page)-1] = bundle
			hide := []string{w.dir, w.home, filepath.Dir(data)}
			if _, err := os.Stat("/usr/lib/debug"); err == nil {
				hide = append(hide, "/usr/lib/debug")
			}
			away := w.hidden(hide, w.bin, page...)
			if there := recordRows(away.Stdout); p.code != 0 || there != rows {
				t.Errorf("rows of the bundle where the originals are hidden:\n%s%s\nat home:\n%s\narchive: %d: %s", there, away.Stderr, rows, p.code, p.stderr)
			}
		})
	}
}

// stubRow is a row of a stub of a procedure linkage table: its share, what
// stands before the name, and the name.
var stubRow = regexp.MustCompile(`(?m)^ *([\d.]+)%(.*\[\.\] )(\S*@plt) *\n`)

// sameStubs makes rows of stubs alike, of a page of perf and of perfark. perf has
// one row of an object, "@plt", for all stubs whose relocation it finds no name
// for. It is taken out if the stubs that perf has no other row for come to the
// same share; and with it the width of the names.
func sameStubs(perf, ours string) (string, string) {
	known := map[string]bool{}
	unnamed := map[string]float64{} // by what stands before the name
	for _, m := range stubRow.FindAllStringSubmatch(perf, -1) {
		share, _ := strconv.ParseFloat(m[1], 64)
		if m[3] == "@plt" {
			unnamed[m[2]] += share
		}
		known[m[2]+m[3]] = true
	}
	if len(unnamed) == 0 {
		return perf, ours
	}
	parts := map[string]int{}
	for _, m := range stubRow.FindAllStringSubmatch(ours, -1) {
		if share, _ := strconv.ParseFloat(m[1], 64); !known[m[2]+m[3]] {
			unnamed[m[2]] -= share
			parts[m[2]]++
		}
	}
	for before, rest := range unnamed {
		if parts[before] == 0 || math.Abs(rest) > 0.005*float64(parts[before]+1) { // shares are rounded
			return perf, ours
		}
	}
	without := func(page string, out func(before, name string) bool) string {
		page = stubRow.ReplaceAllStringFunc(page, func(row string) string {
			if m := stubRow.FindStringSubmatch(row); out(m[2], m[3]) {
				return ""
			}
			return row
		})
		return regexp.MustCompile(`(?m)^# \.\..*\n`).ReplaceAllString(page, "")
	}
	return without(perf, func(_, name string) bool { return name == "@plt" }),
		without(ours, func(before, name string) bool { return !known[before+name] })
}

// Rows of stubs are alike only if they have the same share.
func TestSameStubs(t *testing.T) {
	const perf = "# ....  ....\n 90.00%  a  [.] f\n  5.00%  a  [.] x@plt\n  3.00%  a  [.] @plt\n"
	for _, tt := range []struct {
		ours string
		same bool
	}{
		{"# ....  .......\n 90.00%  a  [.] f\n  5.00%  a  [.] x@plt\n  2.00%  a  [.] long@plt\n  1.00%  a  [.] y@plt\n", true},
		{"# ....  .......\n 90.00%  a  [.] f\n  5.00%  a  [.] x@plt\n  2.00%  a  [.] long@plt\n", false},
		{"# ....  ....\n 90.00%  a  [.] f\n  5.00%  a  [.] x@plt\n  3.00%  b  [.] y@plt\n", false},
		{"# ....  ....\n 90.00%  a  [.] g\n  5.00%  a  [.] x@plt\n  3.00%  a  [.] y@plt\n", false},
		{"# ....  ....\n 90.00%  a  [.] f\n  3.00%  a  [.] y@plt\n", false},
		{"# ....  ....\n 90.00%  a  [.] f\n  5.00%  a  [.] x@plt\n", false},
	} {
		if want, got := sameStubs(perf, tt.ours); (got == want) != tt.same {
			t.Errorf("%q: %q and %q; want the same: %v", tt.ours, got, want, tt.same)
		}
	}
}

// cgroup makes a cgroup in which script puts itself first, and returns its name
// for -G.
func (w *witness) cgroup(script *string, wanted bool) string {
	w.t.Helper()
	if !wanted {
		return ""
	}
	name := "perfark-test-" + strconv.Itoa(os.Getpid())
	for _, root := range []string{"/sys/fs/cgroup/perf_event", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		dir := filepath.Join(root, name)
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil || os.Mkdir(dir, 0o755) != nil {
			continue
		}
		w.t.Cleanup(func() {
			for range 50 {
				if os.Remove(dir) == nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
		*script = "echo $$ > " + dir + "/cgroup.procs || exit 99; " + *script
		return name
	}
	w.t.Skip("NOTICE: no cgroups can be made here")
	return ""
}
