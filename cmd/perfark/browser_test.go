package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/perfark/perfark/internal/perftest"
)

// A tmux is a terminal in which perfark runs.
type tmux struct {
	t    *testing.T
	path string
	sock string
	dir  string // of the shell
	asks int    // how often it was asked whether it is there
}

// newTmux runs perfark with args in a terminal, in a directory with the sample
// of the demonstration and its source. When it ends, its exit status is
// printed, and whether the terminal echoes.
func newTmux(t *testing.T, w, h int, env string, args string) *tmux {
	t.Helper()
	x := &tmux{t: t, path: perftest.NeedTool(t, "tmux"), dir: t.TempDir()}
	sample, err := filepath.Abs("../../demo")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(x.dir, "bin", "perfark")
	os.Mkdir(filepath.Dir(bin), 0o700)
	os.Mkdir(filepath.Join(x.dir, "src"), 0o700)
	for from, to := range map[string]string{self: bin, sample + "/sample.c": x.dir + "/src/sample.c", sample + "/sample/perf.data": x.dir + "/perf.data"} {
		if err := os.Symlink(from, to); err != nil {
			t.Fatal(err)
		}
	}
	short, err := os.MkdirTemp("", "t") // a socket's name must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(short) })
	x.sock = filepath.Join(short, "s")
	shell := fmt.Sprintf("cd %s; export HOME=%[1]s TZ=UTC PERF_CONFIG=/dev/null LC_ALL=C.UTF-8 PERF_BUILDID_DIR=%s/sample/debug PATH=%s/bin:$PATH; %s perfark %s; "+
		`echo "status=$?"; stty -a | grep -o ' -*echo '; sleep 100`, shellQuote(x.dir), shellQuote(sample), shellQuote(x.dir), env, args)
	x.run("-u", "-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(w), "-y", fmt.Sprint(h), "sh", "-c", shell)
	t.Cleanup(func() { exec.Command(x.path, "-S", x.sock, "kill-server").Run() })
	return x
}

func (x *tmux) run(args ...string) string {
	x.t.Helper()
	out, err := exec.Command(x.path, append([]string{"-S", x.sock}, args...)...).CombinedOutput()
	if err != nil {
		x.t.Fatalf("tmux %s: %v: %s", args, err, out)
	}
	return string(out)
}

// press sends keys, in the words of tmux.
func (x *tmux) press(keys ...string) { x.t.Helper(); x.run(append([]string{"send-keys"}, keys...)...) }

// patience is how long a test waits for a screen before it fails: a machine may
// be busy with much else.
const patience = time.Minute

// until waits for a text to be on the screen, and returns the screen.
func (x *tmux) until(text string) string {
	x.t.Helper()
	var screen string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(30 * time.Millisecond) {
		if screen = x.run("capture-pane", "-p"); strings.Contains(screen, text) {
			return screen
		}
	}
	x.t.Fatalf("no %q on the screen:\n%s", text, screen)
	return ""
}

// linesOf is how many lines code has: one more where something is to be said
// of how perfark was built.
var linesOf = regexp.MustCompile(`line \d+ of \d+`)

// shell waits until a shell does what is typed: what comes while it begins can
// be lost.
func (x *tmux) shell() {
	x.t.Helper()
	x.asks++
	ready := fmt.Sprint("ready", x.asks)
	for end := time.Now().Add(patience); time.Now().Before(end); {
		x.press("echo re''"+ready[2:], "Enter")
		for range 30 {
			if strings.Contains(x.run("capture-pane", "-p"), "\n"+ready+"\n") {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	x.t.Fatalf("no shell:\n%s", x.run("capture-pane", "-p"))
}

// golden compares the screen, when a text is on it, with a golden file.
func (x *tmux) golden(name, text string) {
	x.t.Helper()
	x.until(text)
	name = filepath.Join("testdata", "browser", name+".txt")
	want, _ := os.ReadFile(name)
	var got string
	wait := patience
	if *update {
		wait = 3 * time.Second
	}
	for end := time.Now().Add(wait); time.Now().Before(end); time.Sleep(50 * time.Millisecond) { // what is drawn comes in parts
		got = linesOf.ReplaceAllString(x.run("capture-pane", "-p"), "line N of N")
		if got == string(want) {
			return
		}
	}
	if *update {
		os.MkdirAll(filepath.Dir(name), 0o777)
		if err := os.WriteFile(name, []byte(got), 0o666); err != nil {
			x.t.Fatal(err)
		}
		return
	}
	x.t.Errorf("%s:\n%s\nwant:\n%s", name, got, want)
}

// TestBrowserSession walks from the report to a function, to its code, and
// back, screen by screen.
func TestBrowserSession(t *testing.T) {
	x := newTmux(t, 80, 24, "", "report --no-index --source-dir src -i perf.data")
	x.golden("report", "Samples: 340")
	x.press("Down", "Down", "+")
	x.golden("open", "next")
	x.press("Enter")
	x.golden("menu", "Annotate")
	x.press("Enter")
	x.golden("code", "collatz  ")
	x.press("H", "o")
	x.golden("hottest", "40103")
	x.press("q")
	x.golden("back", "row 3 of")
	x.press("q")
	screen := x.until("echo\n")
	if !strings.Contains(screen, "status=0\n") || strings.Contains(screen, "-echo") || strings.Contains(screen, "Samples:") {
		t.Errorf("afterwards:\n%s", screen)
	}
}

// Annotate begins with the code of the function.
func TestBrowserAnnotate(t *testing.T) {
	x := newTmux(t, 80, 24, "", "annotate --no-index primes")
	x.until("primes  ")
	x.press("q")
	x.until("row 1 of ")
	x.press("q")
	x.until("status=0")
}

// The size of the terminal changes; it is old, and knows no colours.
func TestBrowserTerminals(t *testing.T) {
	x := newTmux(t, 80, 24, "TERM=vt100 LC_ALL=C", "report --no-index")
	x.until("row 1 of")
	if s := x.run("capture-pane", "-p", "-e"); strings.Contains(s, "\x1b[31m") {
		t.Errorf("colours:\n%q", s)
	}
	x.run("resize-window", "-x", "30", "-y", "5")
	x.until("row 1 of")
	x.run("resize-window", "-x", "1", "-y", "1")
	time.Sleep(100 * time.Millisecond)
	x.run("resize-window", "-x", "100", "-y", "30")
	x.until("Shared Object")
	x.press("q")
	x.until("status=0")
}

// What perf browses is browsed; what it prints can be, as pages before the
// table; and samples are there one by one.
func TestBrowserPages(t *testing.T) {
	x := newTmux(t, 80, 24, "", "report --no-index --hierarchy -g folded")
	x.until("Command / Shared Object / Symbol")
	x.press("+", "Down", "+", "Down", "+")
	x.until("_start;run;collatz")
	x.press("r", "Enter")
	x.until("line 1 of ")
	if s := x.run("capture-pane", "-p"); !strings.Contains(s, "samples of function collatz") || !strings.Contains(s, "collatz+0x") {
		t.Errorf("%s", s)
	}
	x.press("Q")
	x.until("status=0")

	x = newTmux(t, 80, 24, "", "report --no-index --tui --header -T")
	x.until("the header of perf.data")
	x.press("q")
	x.until("what threads counted")
	x.press("q")
	x.until("row 1 of")
	x.press("q")
	x.until("status=0")
}

// Text where text is wanted.
func TestBrowserNot(t *testing.T) {
	for _, args := range []string{"report --stdio", "report -q", "report --header-only", "report --stats", "annotate --stdio", "report -i perf.data | cat"} {
		x := newTmux(t, 100, 200, "PAGER=cat", args+" --no-index")
		if strings.HasSuffix(args, "cat") {
			x = newTmux(t, 100, 200, "", args)
		}
		if s := x.until("status=0"); strings.Contains(s, "q leaves") {
			t.Errorf("%s:\n%s", args, s)
		}
	}
	code, _, stderr := runArgs(t, "", "report", "--tui", "-i", "../../demo/sample/perf.data")
	if code != 2 || !strings.Contains(stderr, "--tui: standard output is no terminal") {
		t.Errorf("exit status %d, %s", code, stderr)
	}
	if code, _, stderr = runArgs(t, "", "report", "--tui", "--stdio"); code != 2 {
		t.Errorf("exit status %d, %s", code, stderr)
	}
}

// The plain mode prints a line for each change, and moves nothing on the
// screen.
func TestBrowserPlain(t *testing.T) {
	x := newTmux(t, 120, 24, "", "report --no-index --plain --no-children -g none")
	x.until("row 1 of 3: Overhead 91.47%")
	x.press("Down", "a")
	x.until("percent, at ")
	x.press("q", "q")
	s := x.until("status=0")
	if i, j := strings.Index(s, "row 1 of 3"), strings.Index(s, "row 2 of 3"); i < 0 || j < i {
		t.Errorf("%s", s)
	}
	x.until("echo\n")
}

// A signal, and an error, leave the terminal as it was.
func TestBrowserSignal(t *testing.T) {
	x := newTmux(t, 80, 24, "", "report --no-index")
	x.until("row 1 of")
	pid := x.perfark()
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s := x.until("echo\n")
	if !strings.Contains(s, "status=143") || strings.Contains(s, "-echo") {
		t.Errorf("%s", s)
	}

	x = newTmux(t, 80, 24, "", "report --no-index -i missing.data")
	s = x.until("echo\n")
	if !strings.Contains(s, "status=1") || !strings.Contains(s, "missing.data: no such file") || strings.Contains(s, "-echo") {
		t.Errorf("%s", s)
	}
}

// perfark returns the process of perfark.
func (x *tmux) perfark() int {
	x.t.Helper()
	for _, p := range children(x.t, x.run("display", "-p", "#{pane_pid}")) {
		if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p)); string(name) == "perfark\n" {
			return p
		}
	}
	x.t.Skip("NOTICE: no /proc to find the process in")
	return 0
}

// Each signal leaves the terminal as it was, also the second of two, for which
// nothing waits.
func TestBrowserSignals(t *testing.T) {
	for status, sigs := range map[string][]syscall.Signal{
		"status=129": {syscall.SIGHUP}, "status=130": {syscall.SIGINT}, "status=143": {syscall.SIGTERM, syscall.SIGTERM},
		"status=2": {syscall.SIGQUIT},
	} {
		x := newTmux(t, 80, 24, "", "report --no-index")
		x.until("row 1 of")
		pid := x.perfark()
		for _, sig := range sigs {
			syscall.Kill(pid, sig)
		}
		if s := x.until("echo\n"); !strings.Contains(s, status) || strings.Contains(s, "-echo") || strings.Contains(s, "row 1 of") {
			t.Errorf("%v:\n%s", sigs, s)
		}
	}
}

// Stopped by a key or by a signal, the shell has its terminal; continued, the
// browser is where it was. Where there is no shell nothing stops.
func TestBrowserStop(t *testing.T) {
	perftest.NeedTool(t, "bash")
	x := newTmux(t, 80, 24, "HISTFILE= PS1='$ ' exec bash --norc -i #", "")
	x.shell()
	x.press("perfark report --no-index", "Enter")
	x.until("row 1 of")
	x.press("Down", "C-z")
	x.until("Stopped")
	x.shell()
	x.press("stty -a | grep -o ' -*echo '", "Enter")
	if s := x.until("echo\n"); strings.Contains(s, " -echo\n") {
		t.Errorf("%s", s)
	}
	x.press("clear; fg; echo status=$?", "Enter")
	x.until("row 2 of")
	x.press("Down")
	x.until("row 3 of")
	x.press("q")
	x.until("status=0")

	x = newTmux(t, 80, 24, "", "report --no-index")
	x.until("row 1 of")
	x.press("C-z")
	x.until("nobody could continue")
	x.press("Down")
	x.until("row 2 of")
	x.press("q")
	x.until("status=0")
}

// What is to be said of a recording, and the exit status, are those of --stdio.
func TestBrowserPartial(t *testing.T) {
	x := newTmux(t, 100, 24, "head -c 16000 perf.data >cut.data;", "report --no-index -i cut.data")
	x.until("row 1 of")
	x.press("w")
	x.until("cut.data")
	x.press("Q")
	if s := x.until("status="); !strings.Contains(s, "status=3") || !strings.Contains(s, "the recording is damaged") {
		t.Errorf("%s", s)
	}
}

// children returns the processes that a process began.
func children(t *testing.T, pid string) []int {
	t.Helper()
	pid = strings.TrimSpace(pid)
	b, err := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
	if err != nil {
		return nil
	}
	var out []int
	for _, f := range strings.Fields(string(b)) {
		var n int
		if _, err := fmt.Sscan(f, &n); err == nil {
			out = append(out, n)
		}
	}
	return out
}
