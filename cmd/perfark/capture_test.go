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

// Captures that begin at the same time do not take each other's directory for
// what one that was killed has left.
func TestWorkDirs(t *testing.T) {
	dir := t.TempDir()
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for {
			select {
			case <-done:
				return
			default:
				sweepWork(dir)
			}
		}
	}()
	for range 500 {
		w, err := newWorkDir(dir)
		if err == nil {
			err = os.WriteFile(filepath.Join(w.name, "x"), nil, 0o600)
			w.remove()
		}
		if err != nil {
			t.Error(err)
			break
		}
	}
	close(done)
	<-gone
}

// What cannot be written at the end is said before anything is recorded.
func TestCaptureInTheWay(t *testing.T) {
	r := newRecorder(t)
	if err := os.Mkdir(filepath.Join(r.dir, "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	if res := r.capture("-e", "cpu-clock", "-o", "dir", "--", "touch", "ran"); res.Code != 1 || res.Stderr != "perfark: capture: dir: there, and not a regular file\n" {
		t.Errorf("status %d, %s", res.Code, res.Stderr)
	}
	r.wantFiles("dir")
}

// What ends a recording without a command, and the names of bundles.
func TestCaptureEnd(t *testing.T) {
	r := newRecorder(t)
	res := r.capture("-F", "99", "--duration", "200ms", "--json", "--max-object-size", "1M", "--debug-info", "none", "--allow-missing")
	var rep packReport
	if err := json.Unmarshal([]byte(res.Stdout), &rep); err != nil || res.Code != 0 {
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

// Captures into a directory share what both need; all commands read them in
// place, and away from the directory they say what is absent.
func TestCaptureDir(t *testing.T) {
	r := newRecorder(t)
	for range 2 {
		res := r.capture("-e", "cpu-clock", "--dir", "d", "--metrics-file", filepath.Join(r.dir, "m.prom"), "--", "./burn", "30", "5")
		if res.Code != 5 || !strings.Contains(res.Stderr, "coverage: 100.00 %") {
			t.Fatalf("status %d: %s", res.Code, res.Stderr)
		}
	}
	list, _ := filepath.Glob(filepath.Join(r.dir, "d/*.perfark"))
	objects, _ := filepath.Glob(filepath.Join(r.dir, "d/objects/*/*.zst"))
	if len(list) != 2 || len(objects) < 2 {
		t.Fatalf("bundles %q, objects %q", list, objects)
	}
	for _, name := range list {
		if st, err := os.Stat(name); err != nil || st.Size() > 100<<10 || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, st, err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(r.dir, "m.prom")); err != nil || !strings.Contains(string(b), `perfark_capture_windows_total{result="complete"} 1`) {
		t.Errorf("%v: %s", err, b)
	}
	r.wantFiles("d", "m.prom")
	perfark := func(code int, args ...string) perftest.Result {
		t.Helper()
		res := perftest.Run(t, r.dir, append(perftest.Env(r.dir), "HOME="+r.dir), nil, r.bin, args...)
		if res.Code != code {
			t.Errorf("%q: status %d, want %d\n%s", args, res.Code, code, res.Stderr)
		}
		return res
	}
	os.Rename(filepath.Join(r.dir, "burn"), filepath.Join(r.dir, "d/burn.hidden"))
	here := list[1]
	report := func(name string) string {
		return perfark(0, "report", "--stdio", "--no-index", "-i", name, "--sort", "symbol").Stdout
	}
	page := report(here)
	if !strings.Contains(page, "leaf") {
		t.Errorf("page:\n%s", page)
	}
	perfark(0, "verify", here)
	lines := perfark(0, "script", "-i", here, "-F", "ip,sym").Stdout
	if !strings.Contains(lines, "leaf") {
		t.Errorf("script:\n%.300s", lines)
	}
	if ids := perfark(0, "buildid-list", "-i", here).Stdout; !strings.Contains(ids, "burn") {
		t.Errorf("buildid-list:\n%s", ids)
	}
	if err := os.Symlink(here, filepath.Join(r.dir, "link.perfark")); err != nil {
		t.Fatal(err)
	}
	if got := report("link.perfark"); got != page {
		t.Errorf("by a link:\n%s", got)
	}
	whole := filepath.Join(r.dir, "whole.perfark")
	perfark(0, "archive", "--all", "-o", whole, here)
	if got := report(whole); got != page {
		t.Errorf("of it packed again:\n%s", got)
	}
	perfark(0, "unpack", "-C", "tree", "--data-dir", "out", here)
	if got := perfark(0, "report", "--stdio", "--no-index", "--buildid-dir", "tree", "-i", "out/perf.data", "--sort", "symbol").Stdout; !strings.Contains(got, "leaf") {
		t.Errorf("of it unpacked:\n%s", got)
	}

	away := filepath.Join(r.dir, "away.perfark")
	if err := os.Rename(here, away); err != nil {
		t.Fatal(err)
	}
	res := perfark(0, "report", "--stdio", "--no-index", "-i", away, "--sort", "symbol")
	if strings.Contains(res.Stdout, "leaf") || !regexp.MustCompile(`perfark: absent: [0-9a-f]{40} \S+/burn: [\d,]+ samples: not in `).MatchString(res.Stderr) ||
		!strings.Contains(res.Stderr, "hint: perfark bundle export away.perfark") {
		t.Errorf("away:\n%s\n%s", res.Stdout, res.Stderr)
	}
	if res := perfark(1, "verify", away); !strings.Contains(res.Stderr, "burn") || !strings.Contains(res.Stderr, "defects") {
		t.Errorf("verify of it away:\n%s", res.Stderr)
	}
	if res := perfark(3, "unpack", "-C", "tree2", "--data-dir", "out2", away); !strings.Contains(res.Stderr, "refused: ") || !strings.Contains(res.Stderr, "which is not here") {
		t.Errorf("unpack of it away:\n%s", res.Stderr)
	}
}

// AGT-5: without a command a capture runs no program and opens no socket.
func TestCaptureAlone(t *testing.T) {
	perftest.NeedTool(t, "strace")
	r := newRecorder(t)
	pid := r.background("./burn", "100000").Process.Pid
	res := perftest.Run(t, r.dir, nil, nil, "strace", "-f", "-o", "trace", "-e", "trace=execve,execveat,socket,bind,listen,connect", r.bin,
		"capture", "-e", "cpu-clock", "-p", itoa(pid), "--duration", "200ms", "--dir", "d")
	if res.Code != 0 {
		t.Skipf("NOTICE: strace does not do here: %s", res.Stderr)
	}
	b, err := os.ReadFile(filepath.Join(r.dir, "trace"))
	if err != nil {
		t.Fatal(err)
	}
	calls := regexp.MustCompile(`(?m)^\d+ +(execve\w*|socket|bind|listen|connect)\(.*$`).FindAllString(string(b), -1)
	if len(calls) != 1 || !strings.Contains(calls[0], "execve") {
		t.Errorf("calls:\n%s", strings.Join(calls, "\n"))
	}
}
