package perftest

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A Result is what a program answered.
type Result struct {
	Stdout, Stderr string
	Code           int // exit status; -1 if a signal ended it
}

// NeedTool skips the test, and says so, unless a program of that name is in
// PATH.
func NeedTool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("NOTICE: no %s here; install it for this test", name)
	}
	return path
}

// Env is the environment in which perf's answers depend on its input alone:
// home is HOME, where it looks for ~/.debug and ~/.perfconfig.
func Env(home string) []string {
	return []string{
		"HOME=" + home, "LC_ALL=C", "TZ=UTC", "DEBUGINFOD_URLS=", "PERF_CONFIG=/dev/null", "PAGER=cat", "TERM=dumb",
		"PATH=" + os.Getenv("PATH"), "PERF_PAGER=cat",
	}
}

// Perf runs the real perf with an empty home directory, LC_ALL=C and TZ=UTC,
// and returns what it printed. It skips the test where there is no perf.
func Perf(t testing.TB, args ...string) Result {
	t.Helper()
	return PerfIn(t, t.TempDir(), t.TempDir(), nil, args...)
}

// PerfIn is Perf in the directory dir, with home as HOME and stdin as its
// input.
func PerfIn(t testing.TB, dir, home string, stdin []byte, args ...string) Result {
	t.Helper()
	NeedTool(t, "perf")
	return Run(t, dir, Env(home), stdin, "perf", args...)
}

// Run runs a program for at most three minutes. env nil means the test's own
// environment. A program that cannot be started fails the test; one that
// ends with an exit status does not. While it records with perf, or asks the
// kernel for Build IDs, it holds the lock that [Shared] and [Exclusive] are
// about.
func Run(t testing.TB, dir string, env []string, stdin []byte, name string, args ...string) Result {
	t.Helper()
	defer lockRecording(t, name, args)()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, env
	cmd.Stdin = bytes.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	return Result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// NoBPF keeps perf record from waiting at its end for the thread that is told of
// BPF programs, which perf 6.1 looks after once in a second.
const NoBPF = "--no-bpf-event"

// Record runs perf record with args, writing to a new file whose path it
// returns, without the records of BPF programs: see [NoBPF]. What was recorded
// is not copied to a cache, as the home directory is empty and not used again.
// Record skips the test where perf is absent or may not record.
func Record(t testing.TB, args ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "perf.data")
	r := Perf(t, append([]string{"record", NoBPF, "-N", "-o", out}, args...)...)
	// perf 6.1 dies (134, or -1 for the signal) of records that the kernel writes
	// while another recording asks for build ids.
	if _, err := os.Stat(out); err != nil || r.Code == 129 || r.Code == 255 || r.Code == 134 || r.Code == -1 {
		t.Skipf("NOTICE: perf may not record here: %s", strings.TrimSpace(r.Stderr))
	}
	return out
}

// CC compiles a C program with gcc and returns the path of what it made, in a
// directory of the test. Flags follow the source, so libraries work.
func CC(t testing.TB, name, src string, flags ...string) string {
	t.Helper()
	NeedTool(t, "gcc")
	dir := t.TempDir()
	c := filepath.Join(dir, name+".c")
	if err := os.WriteFile(c, []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, name)
	r := Run(t, dir, nil, nil, "gcc", append([]string{"-o", out, c}, flags...)...)
	if r.Code != 0 {
		t.Fatalf("gcc: %s", r.Stderr)
	}
	return out
}

// Corpus returns the directory of the corpus: real recordings and perf's
// answers. It skips the test if PERFARK_CORPUS does not name it.
func Corpus(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("PERFARK_CORPUS")
	if dir == "" {
		t.Skip("NOTICE: PERFARK_CORPUS is not set; the tests of real recordings are skipped")
	}
	return dir
}

// CorpusFiles returns the recordings of the corpus: the files that perf's
// answers are about, as paths below Corpus, sorted.
func CorpusFiles(t testing.TB) []string {
	t.Helper()
	dir := Corpus(t)
	const suffix = ".header.txt"
	names, err := filepath.Glob(filepath.Join(dir, "expected", "*"+suffix))
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: no answers of perf in there", dir)
	}
	var out []string
	for _, n := range names {
		rel := strings.ReplaceAll(strings.TrimSuffix(filepath.Base(n), suffix), "~", "/")
		if _, err := os.Stat(filepath.Join(dir, rel)); err == nil {
			out = append(out, rel)
		}
	}
	slices.Sort(out)
	return out
}

// Expected returns perf's answer to what (such as "header.txt") about a file
// of the corpus; ok is false if there is none.
func Expected(t testing.TB, rel, what string) (string, bool) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(Corpus(t), "expected", strings.ReplaceAll(rel, "/", "~")+"."+what))
	if errors.Is(err, fs.ErrNotExist) {
		return "", false
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(b), true
}
