package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/perfark/perfark/internal/perftest"
)

var update = flag.Bool("update", false, "rewrite the golden parts of testdata")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"perfark":      main,
		"perf-archive": main,
	})
}

// TestScript runs testdata/script: a script per behaviour of a command. The
// command exits, with CODE, runs a command that must end with that status.
func TestScript(t *testing.T) {
	demo, err := filepath.Abs("../../demo/sample")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		WorkdirRoot:   t.TempDir(), // else some of it stays when not all scripts are run
		UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("TZ", "UTC")
			e.Setenv("DEMO", demo)
			e.Setenv("PERF_CONFIG", "/dev/null")
			e.Setenv("PERFARK_CORPUS", os.Getenv("PERFARK_CORPUS"))
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond == "corpus" {
				return os.Getenv("PERFARK_CORPUS") != "", nil
			}
			return false, errors.New("unknown condition " + cond)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":   exits,
			"fixture": fixture,
		},
	})
}

// fixture makes the recording that a text describes: see internal/perftest.
func fixture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: fixture TEXT RECORDING")
	}
	b, err := perftest.Build(ts.ReadFile(args[0]))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), b, 0o600))
}

// exits runs a command and checks its exit status.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARGS...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if err != nil {
		code = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if code != args[0] {
		ts.Fatalf("%s: exit status %s, want %s", strings.Join(args[1:], " "), code, args[0])
	}
}

// runArgs runs perfark in this process.
func runArgs(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errw bytes.Buffer
	code = run(context.Background(), args, strings.NewReader(stdin), &out, &errw)
	return code, out.String(), errw.String()
}

// Every command has an example, and a line of help that begins small and ends
// without a full stop.
func TestHelp(t *testing.T) {
	root := newRootCmd(&app{})
	for _, c := range root.Commands() {
		if c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		if c.Example == "" {
			t.Errorf("%s: no example", c.Name())
		}
		if c.Short == "" || c.Short[0] < 'a' || c.Short[0] > 'z' || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: short help %q", c.Name(), c.Short)
		}
		code, out, _ := runArgs(t, "", c.Name(), "--help")
		if code != 0 || !strings.Contains(out, "Examples:") {
			t.Errorf("%s --help: exit status %d, %q", c.Name(), code, out)
		}
		_, flags, _ := strings.Cut(out, "\nFlags:\n")
		for line := range strings.Lines(flags) {
			// Flags stand in one column, what they do in another.
			if rs := []rune(line); strings.HasPrefix(strings.TrimSpace(line), "-") && strings.Contains(strings.TrimSpace(line), "  ") && len(rs) > 33 && (rs[30] != ' ' || rs[31] != ' ' || rs[32] == ' ') {
				t.Errorf("%s --help: %q", c.Name(), line)
			}
			if strings.Contains(line, " string ") || strings.Contains(line, " int ") {
				t.Errorf("%s --help: no name for the value: %q", c.Name(), line)
			}
		}
	}
}

// Unknown flags and surplus arguments are one line and exit status 2, for
// every command.
func TestUsageErrors(t *testing.T) {
	root := newRootCmd(&app{})
	for _, c := range root.Commands() {
		if c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		code, out, errs := runArgs(t, "", c.Name(), "--no-such-flag")
		want := "perfark: " + c.Name() + ": unknown flag: --no-such-flag\n"
		if code != 2 || out != "" || errs != want {
			t.Errorf("%s: exit status %d, stdout %q, stderr %q, want %q", c.Name(), code, out, errs, want)
		}
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

// F3: a full disk behind standard output is an error; a reader who has left is
// none worth a word.
func TestStdout(t *testing.T) {
	tests := []struct {
		err  error
		code int
		want string
	}{
		{&os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}, 1, "perfark: version: standard output: no space left on device\n"},
		{&os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}, 141, ""},
	}
	for _, tt := range tests {
		var errw bytes.Buffer
		code := run(context.Background(), []string{"version"}, nil, failingWriter{tt.err}, &errw)
		if code != tt.code || errw.String() != tt.want {
			t.Errorf("%v: exit status %d, %q, want %d, %q", tt.err, code, errw.String(), tt.code, tt.want)
		}
	}
}

func TestErrors(t *testing.T) {
	tests := []struct {
		err  error
		code int
		want string
	}{
		{errors.New("x: no"), 1, "perfark: x: no\n"},
		{usagef("want %d", 1), 2, "perfark: want 1\n"},
		{partialf("less"), 3, "perfark: less\n"},
		{&exitError{code: 3}, 3, ""},
		{hintf(hintf(errors.New("x"), "inner"), "outer %q", "\x1b"), 1, "perfark: x\nperfark: hint: outer \"\\x1b\"\nperfark: hint: inner\n"},
		{errors.New("evil \x1b[2J\u202e"), 1, `perfark: evil \x1b[2J\u202e` + "\n"},
		{errors.Join(errors.New("one"), errors.New("two")), 1, "perfark: one\nperfark: two\n"},
	}
	for _, tt := range tests {
		var errw bytes.Buffer
		a := &app{stderr: &errw, out: &output{}}
		if code := a.fail(context.Background(), nil, tt.err); code != tt.code || errw.String() != tt.want {
			t.Errorf("%v: exit status %d, %q, want %d, %q", tt.err, code, errw.String(), tt.code, tt.want)
		}
	}
}

// A fault of perfark is one line, and the place only with -v.
func TestBug(t *testing.T) {
	commands = append(commands, func(a *app) *cobra.Command {
		c := &cobra.Command{Use: "fault", RunE: func(*cobra.Command, []string) error { panic("at \x1b") }}
		a.addOutputFlags(c)
		return c
	})
	defer func() { commands = commands[:len(commands)-1] }()
	code, _, errs := runArgs(t, "", "fault")
	if want := `perfark: internal error: at \x1b` + "\nperfark: hint: this is a fault of perfark; -v shows the place\n"; code != 1 || errs != want {
		t.Errorf("exit status %d, %q, want 1, %q", code, errs, want)
	}
	if code, _, errs := runArgs(t, "", "fault", "-v"); code != 1 || !strings.Contains(errs, "main_test.go:") {
		t.Errorf("exit status %d, %q", code, errs)
	}
}

// What goes to a pager that cannot be run has been lost; how else one ends says
// nothing.
func TestPager(t *testing.T) {
	for line, want := range map[string]string{
		"no-such-pager 2>/dev/null": `pager "no-such-pager 2>/dev/null" cannot be run`,
		"cat >/dev/null":            "",
		"exit 3":                    "",
	} {
		c := exec.Command("sh", "-c", line)
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		a := &app{pager: &pager{c, in}}
		got := ""
		if err := a.stopPager(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestSize(t *testing.T) {
	tests := []struct {
		in   string
		want int64
		text string
		err  string
	}{
		{"0", 0, "", ""},
		{"500", 500, "500", ""},
		{"64K", 64 << 10, "64K", ""},
		{"20m", 20 << 20, "20M", ""},
		{"4GiB", 4 << 30, "4G", ""},
		{"2TB", 2 << 40, "2T", ""},
		{"-1", 0, "", `"-1" is not a size such as 500, 64K, 20M or 4G`},
		{"9999999999T", 0, "", `"9999999999T" is not a size such as 500, 64K, 20M or 4G`},
		{"x", 0, "", `"x" is not a size such as 500, 64K, 20M or 4G`},
		{"", 0, "", `"" is not a size such as 500, 64K, 20M or 4G`},
	}
	for _, tt := range tests {
		var v sizeValue
		msg := ""
		if err := v.Set(tt.in); err != nil {
			msg = err.Error()
		}
		if int64(v) != tt.want || msg != tt.err || msg == "" && v.String() != tt.text {
			t.Errorf("Set(%q) = %d %q, %q, want %d %q, %q", tt.in, v, v.String(), msg, tt.want, tt.text, tt.err)
		}
	}
}

func TestBytesText(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 1_234_567: "1.2 MB", 999_999: "1.0 MB", 1 << 62: "4.6 EB"} {
		if got := bytesText(n); got != want {
			t.Errorf("bytesText(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestCacheDirs(t *testing.T) {
	name := filepath.Join(t.TempDir(), "perfconfig")
	const text = "# comment\n[other]\n\tdir = /no\n[buildid]\n\tdir = /first\n\tdir = \"~/cache\" # last wins\n[top]\ndir=/no\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &app{env: environ{home: "/home/u", sudoHome: "/home/v", perfconfig: name, buildIDDir: "/env"}, buildIDDir: "/flag"}
	rest := []string{"/home/u/cache", "/home/u/.debug", "/home/v/.debug"}
	for _, want := range [][]string{append([]string{"/flag"}, rest...), append([]string{"/env"}, rest...), rest} {
		if got := a.cacheDirs(); !slices.Equal(got, want) || a.cacheDir() != want[0] {
			t.Errorf("cacheDirs() = %q, want %q", got, want)
		}
		if a.buildIDDir != "" {
			a.buildIDDir = ""
		} else {
			a.env.buildIDDir = ""
		}
	}
}
