package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/perfark/perfark/archive"
	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/perfdata"
)

const redactProgram = `
#include <stdlib.h>
__attribute__((noinline)) long leaf(long n) { volatile long s = 0; for (long i = 0; i < n; i++) s += i; return s; }
__attribute__((noinline)) long middle(long n) { return leaf(n) + 1; }
int main(int c, char **v) { long t = 0; for (int i = 0; i < 60; i++) t += middle(1000000); return t == 42; }
`

// redactSecrets are those of the program's path, arguments and environment.
var redactSecrets = []string{"alicewonder", "hunter2SECRET", "pw4bob9", "ENVSECRET9", "VALUE4711"}

// recordSecrets records a program under a home directory with secrets in its
// arguments and environment, with copies of its stacks, and packs it.
func recordSecrets(t *testing.T) (data, bundle string) {
	t.Helper()
	perftest.NeedTool(t, "gcc")
	home := filepath.Join(t.TempDir(), "home", "alicewonder")
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	src, prog := filepath.Join(home, "work.c"), filepath.Join(home, "work")
	if err := os.WriteFile(src, []byte(redactProgram), 0o600); err != nil {
		t.Fatal(err)
	}
	// The directory is in its debug information, compressed.
	if out, err := exec.Command("gcc", "-g", "-O1", "-gz=zlib", "-o", prog, src).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	data = perftest.Record(t, "-q", "-e", "cpu-clock", "-F", "999", "--call-graph", "dwarf", "--", "env", "DB_TOKEN=ENVSECRET9", "SOME_NAME=VALUE4711",
		prog, "--token=hunter2SECRET", "https://bob:pw4bob9@db.example/x")
	t.Setenv("HOME", t.TempDir())
	bundle = filepath.Join(t.TempDir(), "in.perfark")
	if code, _, errs := runArgs(t, "", "archive", "--all", "--allow-missing", "-q", "-i", data, "-o", bundle); code != 0 {
		t.Fatalf("archive: exit status %d\n%s", code, errs)
	}
	return data, bundle
}

// plain decompresses a bundle.
func plain(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	out, err := z.DecodeAll(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func holds(t *testing.T, what string, b []byte, want bool, secrets ...string) {
	t.Helper()
	for _, s := range secrets {
		if i := bytes.Index(b, []byte(s)); i >= 0 != want {
			t.Errorf("%s: %q is in it: %v, want %v: %q", what, s, i >= 0, want, b[max(i-40, 0):min(max(i, 0)+40, len(b))])
		}
	}
}

var columnGaps = regexp.MustCompile(` +`)

var reportTip = regexp.MustCompile(`(?m)^# \(Tip.*\n`)

// TestRedactBundle is X07 and X08: no secret is in any byte of a redacted
// bundle, decompressed, and it reports what the original does.
func TestRedactBundle(t *testing.T) {
	_, in := recordSecrets(t)
	holds(t, "the original", plain(t, in), true, redactSecrets...)
	out := filepath.Join(t.TempDir(), "out.perfark")
	code, stdout, errs := runArgs(t, "", "redact", "--preview", in)
	if code != 0 {
		t.Fatalf("preview: exit status %d\n%s", code, errs)
	}
	for _, s := range []string{"    alicewonder → user", "    hunter2SECRET → secret", "    work\n"} {
		if !strings.Contains(stdout, s) {
			t.Errorf("the preview has no %q:\n%s", s, stdout)
		}
	}
	code, stdout, errs = runArgs(t, "", "redact", "--allow-missing", in, out)
	if code != 0 {
		t.Fatalf("redact: exit status %d\n%s%s", code, stdout, errs)
	}
	holds(t, "what is printed", []byte(stdout+errs), false, redactSecrets...)
	holds(t, "the bundle", plain(t, out), false, redactSecrets...)
	if code, stdout, errs := runArgs(t, "", "verify", "--allow-missing", out); code != 0 {
		t.Errorf("verify: exit status %d\n%s%s", code, stdout, errs)
	}
	arc, err := archive.Open(t.Context(), out, archive.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if m := arc.Manifest(); m.Host != nil {
		t.Errorf("the manifest names the host: %+v", m.Host)
	}
	arc.Close()
	report := func(name string) string {
		code, stdout, errs := runArgs(t, "", "report", "-i", name, "--stdio", "--no-children", "-g", "caller", "-s", "comm,dso,sym,srcline")
		if code != 0 {
			t.Fatalf("report %s: exit status %d\n%s", name, code, errs)
		}
		return stdout
	}
	if a, b := report(in), report(out); a != b {
		t.Errorf("the report of the redacted bundle\n%s\nwant\n%s", b, a)
	}
	small := filepath.Join(t.TempDir(), "slim.perfark")
	if code, stdout, errs := runArgs(t, "", "redact", "-q", "--slim", "--allow-missing", in, small); code != 0 {
		t.Fatalf("redact --slim: exit status %d\n%s%s", code, stdout, errs)
	}
	holds(t, "the slim bundle", plain(t, small), false, redactSecrets...)
	if a, b := report(in), report(small); a != b {
		t.Errorf("the report of the slim redacted bundle\n%s\nwant\n%s", b, a)
	}
	// Stock perf, and sections as others decompress them.
	dir := t.TempDir()
	if code, _, errs := runArgs(t, "", "unpack", "-q", "-C", filepath.Join(dir, ".debug"), "--data-dir", dir, out); code != 0 {
		t.Fatalf("unpack: exit status %d\n%s", code, errs)
	}
	elfs, err := filepath.Glob(filepath.Join(dir, ".debug", "*", "*", "*", "home", "*", "work", "*", "elf"))
	if err != nil || len(elfs) != 1 {
		elfs, err = nil, filepath.WalkDir(filepath.Join(dir, ".debug"), func(name string, d os.DirEntry, err error) error {
			if err == nil && d.Name() == "elf" && slices.Contains(strings.Split(name, string(filepath.Separator)), "work") {
				elfs = append(elfs, name)
			}
			return err
		})
	}
	if err != nil || len(elfs) != 1 {
		t.Fatalf("programs unpacked: %v, %v", elfs, err)
	}
	flat := filepath.Join(dir, "flat")
	if b, err := exec.Command("objcopy", "--decompress-debug-sections", elfs[0], flat).CombinedOutput(); err != nil {
		t.Fatalf("objcopy: %v\n%s", err, b)
	}
	b, err := os.ReadFile(flat)
	if err != nil {
		t.Fatal(err)
	}
	holds(t, "the program, decompressed", b, false, redactSecrets...)
	r := perftest.PerfIn(t, dir, dir, nil, "report", "-i", filepath.Join(dir, "perf.data"), "--stdio", "--no-children", "-g", "none", "-s", "sym")
	if got := reportTip.ReplaceAllString(r.Stdout, ""); !strings.Contains(got, "[.] leaf") || strings.Contains(r.Stderr, "rror") {
		t.Errorf("perf report: %s\n%s", got, r.Stderr)
	}
}

// stacks returns the copies of stacks in a recording, one after the other.
func stacks(t *testing.T, data string) (all []byte) {
	t.Helper()
	f, err := perfdata.Open(data, perfdata.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for records := f.Records(); ; {
		rec, err := records.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := rec.(*perfdata.Sample); ok {
			all = append(all, s.UserStack[:cap(s.UserStack)]...)
		}
	}
}

// TestRedactRecording redacts a recording alone: perf reports the same of both.
func TestRedactRecording(t *testing.T) {
	data, _ := recordSecrets(t)
	dir := t.TempDir()
	for i, args := range [][]string{nil, {"--user-stacks", "drop"}, {"--policy", "strict"}, {"--user-stacks=keep"}} {
		out := filepath.Join(dir, fmt.Sprintf("out%d.data", i))
		code, stdout, errs := runArgs(t, "", append([]string{"redact", data, out}, args...)...)
		kept := len(args) == 1
		if want := map[bool]int{false: 0, true: 3}[kept]; code != want {
			t.Fatalf("redact %v: exit status %d, want %d\n%s%s", args, code, want, stdout, errs)
		}
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		if kept {
			if was, is := stacks(t, data), stacks(t, out); len(was) == 0 || !bytes.Equal(was, is) {
				t.Errorf("%d bytes of stacks became others, %d", len(was), len(is))
			}
			// Whether a stack was taken with the secret in it is up to chance.
			holds(t, "the recording with stacks", b, bytes.Contains(stacks(t, data), []byte("VALUE4711")), "VALUE4711")
			continue
		}
		holds(t, fmt.Sprintf("the recording %v", args), b, false, redactSecrets...)
		report := func(name string) string {
			r := perftest.PerfIn(t, dir, dir, nil, "report", "-i", name, "--stdio", "--no-children", "-g", "none", "-s", "pid,sym", "-F", "overhead,sample,sym")
			if r.Code != 0 || strings.Contains(r.Stderr, "rror") {
				t.Errorf("perf report: %d\n%s", r.Code, r.Stderr)
			}
			return columnGaps.ReplaceAllString(reportTip.ReplaceAllString(r.Stdout, ""), " ") // names have other widths
		}
		if i == 2 {
			continue // files have other names, at which perf finds none of them
		}
		// perf finds the program by its path, which is another now.
		kernel := regexp.MustCompile(`(?m)^ .*\[k\].*$`)
		if a, b := kernel.FindAllString(report(data), -1), kernel.FindAllString(report(out), -1); strings.Join(a, "\n") != strings.Join(b, "\n") {
			t.Errorf("%v: perf report\n%s\nwant\n%s", args, b, a)
		}
		fi, err := os.Stat(data)
		if err != nil {
			t.Fatal(err)
		}
		if ft, err := os.Stat(out); err != nil || !ft.ModTime().Equal(fi.ModTime()) || ft.Mode().Perm() != 0o600 {
			t.Errorf("%v: %v, %v, want the time %v", args, ft, err, fi.ModTime())
		}
	}
}
