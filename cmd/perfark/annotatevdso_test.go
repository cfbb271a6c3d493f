package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/store"
)

// TestAnnotateVDSO: the code of the vDSO comes from the bundle, in which it is
// an object, as objdump reads it.
func TestAnnotateVDSO(t *testing.T) {
	needIced(t)
	perftest.NeedTool(t, "perf")
	objdump := perftest.NeedTool(t, "objdump")
	id, err := store.RunningVDSO()
	if err != nil {
		t.Skipf("NOTICE: no vDSO here: %v", err)
	}
	prog := perftest.CC(t, "vdso-test", `#include <time.h>
int main(void) {
	struct timespec t;
	long s = 0;
	for (int i = 0; i < 5000000; i++) {
		clock_gettime(CLOCK_MONOTONIC, &t);
		s += t.tv_nsec;
	}
	return s & 1;
}
`, "-O1")
	data := perftest.Record(t, "-e", "cpu-clock:u", "-F", "2000", "--", prog)
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PERF_CONFIG", "/dev/null")
	bundle := filepath.Join(t.TempDir(), "x.perfark")
	if code, _, errs := runArgs(t, "", "archive", "--all", "--allow-missing", "-o", bundle, data); code != 0 {
		t.Fatal(errs)
	}
	code, out, errs := runArgs(t, "", "annotate", "--stdio", "-i", bundle, "-d", "[vdso]")
	if code == 1 && strings.Contains(errs, "no samples") {
		t.Skip("NOTICE: the clock of this machine is not read in the vDSO")
	}
	name := regexp.MustCompile(`(?m)^ +: \d+ +([0-9a-f]{16}) <(.*)>:$`).FindStringSubmatch(out)
	if code != 0 || name == nil || !strings.Contains(out, "Disassembly of [vdso] for ") {
		t.Fatalf("exit status %d: %s\n%s", code, errs, out)
	}
	f, err := store.Host(store.HostOptions{}).Get(t.Context(), store.Key{ID: id, Kind: store.VDSO, Path: "[vdso]"})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	image := make([]byte, f.Size)
	if _, err := f.ReadAt(image, 0); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "vdso")
	if err := os.WriteFile(file, image, 0o600); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for line := range strings.Lines(out) {
		if m := regexp.MustCompile(`^ +[0-9.]+ : +([0-9a-f]+: +.*)`).FindStringSubmatch(line); m != nil {
			got = append(got, strings.Join(strings.Fields(targetName.ReplaceAllString(m[1], "")), " "))
		} else if len(got) > 0 && strings.HasPrefix(line, " Percent") {
			break
		}
	}
	r := perftest.Run(t, ".", nil, nil, objdump, "-d", "--no-show-raw-insn", "--start-address=0x"+name[1], file)
	for _, m := range regexp.MustCompile(`(?m)^ +([0-9a-f]+:\t.*)$`).FindAllStringSubmatch(string(r.Stdout), -1) {
		if want = append(want, strings.Join(strings.Fields(targetName.ReplaceAllString(m[1], "")), " ")); len(want) == len(got) {
			break
		}
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w || g == "" {
		t.Errorf("%s: %s", name[2], firstDifference(g, w))
	}
}

// TestRedactSources: source files of a bundle are left out of the redacted one,
// and so are their lines.
func TestRedactSources(t *testing.T) {
	perftest.NeedTool(t, "perf")
	prog := perftest.CC(t, "redact-source", annotateSource, "-O1", "-g")
	data := perftest.Record(t, "-e", "cpu-clock:u", "-F", "1000", "--", prog)
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PERF_CONFIG", "/dev/null")
	dir := t.TempDir()
	bundle, redacted := filepath.Join(dir, "x.perfark"), filepath.Join(dir, "r.perfark")
	if code, _, errs := runArgs(t, "", "archive", "--all", "--allow-missing", "--sources", "hot", "-o", bundle, data); code != 0 {
		t.Fatal(errs)
	}
	if err := os.RemoveAll(filepath.Dir(prog)); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := runArgs(t, "", "annotate", "--stdio", "-i", bundle, "-s", "leaf"); code != 0 || !strings.Contains(out, "s += square(i);") {
		t.Fatalf("exit status %d: %s\n%s", code, errs, out)
	}
	if code, _, errs := runArgs(t, "", "redact", bundle, redacted); code != 0 && code != 3 {
		t.Fatalf("redact: exit status %d: %s", code, errs)
	}
	code, out, errs := runArgs(t, "", "annotate", "--stdio", "-i", redacted, "-s", "leaf")
	if code != 0 || !strings.Contains(out, "<leaf>:") || strings.Contains(out, "s += square(i);") {
		t.Errorf("exit status %d: %s\n%s", code, errs, out)
	}
	if code, out, errs := runArgs(t, "", "verify", "--json", redacted); code != 0 && code != 3 || strings.Contains(out, `"source"`) {
		t.Errorf("verify: exit status %d: %s%s", code, errs, out)
	}
}
