package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/perfark/perfark/internal/perftest"
)

func (r *recorder) capture(args ...string) perftest.Result {
	r.Helper()
	return perftest.Run(r, r.dir, nil, nil, r.bin, append([]string{"capture"}, args...)...)
}

// files lists what is in the directory of the test beside what was there before.
func (r *recorder) files() []string {
	r.Helper()
	list, err := os.ReadDir(r.dir)
	if err != nil {
		r.Fatal(err)
	}
	var names []string
	for _, e := range list {
		if n := e.Name(); n != "burn" && n != "perfark" && !strings.HasPrefix(n, "probe.data") {
			names = append(names, n)
		}
	}
	return names
}

func (r *recorder) wantFiles(want ...string) {
	r.Helper()
	if got := r.files(); !slices.Equal(got, want) {
		r.Errorf("files %q, want %q", got, want)
	}
}

// A capture is one bundle and nothing else, in which everything has a name where
// the originals are hidden; the command's status is passed on, and what is wrong
// with the bundle comes before it.
func TestCapture(t *testing.T) {
	r := newRecorder(t)
	res := r.capture("-e", "cpu-clock", "-o", "a.perfark", "--", "./burn", "100", "7")
	if res.Code != 7 || !strings.Contains(res.Stderr, "coverage: 100.00 %") || res.Stdout != "" {
		t.Errorf("status %d, standard output %q, standard error:\n%s", res.Code, res.Stdout, res.Stderr)
	}
	r.wantFiles("a.perfark")
	if res := perftest.Run(t, r.dir, nil, nil, r.bin, "verify", "a.perfark"); res.Code != 0 {
		t.Errorf("verify: %d\n%s", res.Code, res.Stderr)
	}
	// The page is that of perf, with the symbols of the unpacked bundle.
	if res := perftest.Run(t, r.dir, nil, nil, r.bin, "unpack", "-C", "home/.debug", "--data-dir", "home", "a.perfark"); res.Code != 0 {
		t.Fatalf("unpack: %s", res.Stderr)
	}
	mv := exec.Command("mv", "burn", "gone")
	mv.Dir = r.dir
	if err := mv.Run(); err != nil {
		t.Fatal(err)
	}
	want := perftest.PerfIn(t, r.dir, filepath.Join(r.dir, "home"), nil, "report", "-i", "home/perf.data", "--stdio", "--no-children", "-g", "none", "--sort", "symbol")
	got := perftest.Run(t, r.dir, perftest.Env(r.dir), nil, r.bin, "report", "-i", "a.perfark", "--stdio", "--no-children", "-g", "none", "--sort", "symbol", "--no-index")
	rows := regexp.MustCompile(`(?m)^ +[0-9.]+%.*$`)
	want.Stdout = regexp.MustCompile(`(?m)[ -]+$`).ReplaceAllString(want.Stdout, "") // perf has columns of instructions per cycle
	w, g := rows.FindAllString(want.Stdout, -1), rows.FindAllString(got.Stdout, -1)
	if len(w) == 0 || !slices.Equal(w, g) || !strings.Contains(strings.Join(g, ""), "leaf") {
		t.Errorf("perf's rows:\n%s\nperfark's:\n%s", strings.Join(w, "\n"), strings.Join(g, "\n"))
	}
}

// What ends a recording without a command, and the names of bundles.
func TestCaptureEnd(t *testing.T) {
	r := newRecorder(t)
	res := r.capture("-F", "99", "--duration", "200ms", "--json", "--max-object-size", "1M", "--debug-info", "none")
	var rep packReport
	if err := json.Unmarshal([]byte(res.Stdout), &rep); err != nil || res.Code != 0 && res.Code != 3 {
		t.Fatalf("status %d, %v\n%s", res.Code, err, res.Stderr)
	}
	if list := r.files(); len(list) != 1 || list[0] != rep.Archive || !regexp.MustCompile(`^[\w.-]+-\d{8}T\d{6}Z\.perfark$`).MatchString(rep.Archive) {
		t.Errorf("files %q, printed %q", list, rep.Archive)
	}
	os.Remove(filepath.Join(r.dir, rep.Archive))

	pid := r.background("./burn", "100000").Process.Pid
	// To standard output.
	res = r.capture("-e", "cpu-clock", "-p", itoa(pid), "--duration", "200ms", "-o", "-")
	if v := perftest.Run(t, r.dir, nil, []byte(res.Stdout), r.bin, "verify", "-", "--allow-missing"); v.Code != 0 {
		t.Errorf("of standard output: %s", v.Stderr)
	}
	r.wantFiles()
	for _, tt := range []struct {
		args   string
		signal syscall.Signal
		code   int
	}{
		{"", syscall.SIGINT, 0},
		{"", syscall.SIGTERM, 0},
		{"--duration 1h", syscall.SIGINT, 130},
		{"--keep-data", syscall.SIGINT, 0},
	} {
		cmd := exec.Command(r.bin, strings.Fields("capture -e cpu-clock -p "+itoa(pid)+" -o x.perfark "+tt.args)...)
		cmd.Dir = r.dir
		var errs strings.Builder
		cmd.Stderr = &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		r.waitForData()
		cmd.Process.Signal(tt.signal)
		cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != tt.code {
			t.Errorf("%q, %v: status %d, want %d\n%s", tt.args, tt.signal, code, tt.code, &errs)
		}
		if tt.args == "--keep-data" {
			r.wantFiles("x.data", "x.perfark")
			continue
		}
		r.wantFiles("x.perfark")
	}
}

// waitForData waits until a capture in the directory has samples.
func (r *recorder) waitForData() {
	r.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		list, _ := filepath.Glob(filepath.Join(r.dir, ".perfark-capture-*/perf.data"))
		if len(list) == 1 {
			if st, err := os.Stat(list[0]); err == nil && st.Size() > 20<<10 {
				return
			}
		}
	}
	r.Fatal("no samples within 20 s")
}

// Nothing is left of a capture that fails, is ended twice, or was killed before
// another one.
func TestCaptureNothingLeft(t *testing.T) {
	r := newRecorder(t)
	for _, tt := range []struct {
		args string
		code int
		text string
	}{
		{"-e cpu-clock -- ./nonesuch", 1, `"./nonesuch": no such file`},
		{"-e cpu-clock -n -- true", 2, "-n: a bundle is of the binaries"},
		{"--min-coverage 200 -- true", 2, "--min-coverage 200"},
		{"-e cpu-clock -o nonesuch/x.perfark -- true", 1, "nonesuch"},
		{"-e cpu-clock -o x.perfark --exclude-buildids nonesuch -- true", 1, "--exclude-buildids"},
		{"--keep 1h -- true", 2, "--keep: want --dir DIR"},
		{"--dir d --every 1s", 2, "--every: want --duration TIME too"},
		{"--dir d --every 1s --duration 2s", 2, "--every 1s: less than --duration 2s"},
		{"--dir d --every 2s --duration 1s -- true", 2, "--every: a COMMAND would run each time"},
		{"--dir d --every 2s --duration 1s --metrics-listen 0.0.0.0:0", 1, "not an address of this host alone"},
		{"--duration 1x", 2, "not a time such as"},
	} {
		res := r.capture(strings.Fields(tt.args)...)
		if res.Code != tt.code || !strings.Contains(res.Stderr, tt.text) {
			t.Errorf("%s: status %d, want %d; %s", tt.args, res.Code, tt.code, res.Stderr)
		}
		os.RemoveAll(filepath.Join(r.dir, "d"))
		r.wantFiles()
	}

	start := func(args ...string) *exec.Cmd {
		cmd := exec.Command(r.bin, append([]string{"capture", "-e", "cpu-clock", "-o", "x.perfark"}, args...)...)
		cmd.Dir = r.dir
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		r.waitForData()
		return cmd
	}
	pid := r.background("./burn", "100000").Process.Pid
	cmd := start("-p", itoa(pid))
	cmd.Process.Signal(syscall.SIGINT)
	cmd.Process.Signal(syscall.SIGTERM)
	cmd.Wait()
	if list := r.files(); len(list) > 1 || len(list) == 1 && list[0] != "x.perfark" {
		t.Errorf("after two signals: %q", list)
	}
	os.Remove(filepath.Join(r.dir, "x.perfark"))

	cmd = start("-p", itoa(pid))
	cmd.Process.Kill()
	cmd.Wait()
	if list := r.files(); len(list) != 1 || !strings.HasPrefix(list[0], ".perfark-capture-") {
		t.Errorf("after SIGKILL: %q", list)
	}
	if res := r.capture("-e", "cpu-clock", "-o", "y.perfark", "--", "./burn", "20"); res.Code != 0 {
		t.Errorf("%s", res.Stderr)
	}
	r.wantFiles("y.perfark")
}
