package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
)

const inlineSource = `#include <stdio.h>
static inline double square(double x) {
	return x * x;
}
static inline double cube(double x) {
	return square(x) * x;
}
__attribute__((noinline)) static double leaf(int n) {
	double s = 0;
	for (int i = 0; i < n; i++) {
		s += cube(i);
		if (i % 3 == 0)
			s -= square(s);
	}
	return s;
}
int main(void) {
	double t = 0;
	for (int i = 0; i < 4000; i++)
		t += leaf(10000 + i % 7);
	printf("%f\n", t);
	return 0;
}
`

var (
	pageInstruction = regexp.MustCompile(`^ +[0-9.]+ : +([0-9a-f]+):`)
	pageText        = regexp.MustCompile(`^ +: \d+ +(.*)$`)
	dumpInstruction = regexp.MustCompile(`^ +([0-9a-f]+):\t`)
)

// callsOf returns by which calls the code at each instruction was put there, as
// lines between instructions say it.
func callsOf(lines []string, instruction *regexp.Regexp) string {
	var b strings.Builder
	var calls []string
	fresh := false // no instruction since the last line of text
	for _, s := range lines {
		if m := instruction.FindStringSubmatch(s); m != nil {
			b.WriteString(m[1] + " " + strings.Join(calls, ", ") + "\n")
			fresh = false
			continue
		}
		if m := pageText.FindStringSubmatch(s); m != nil {
			s = m[1]
		}
		switch {
		case strings.HasPrefix(s, "inlined by "):
			if !fresh {
				calls = nil
			}
			fresh = true
			calls = append(calls, strings.Replace(s, "by "+filepath.Dir(strings.TrimPrefix(s, "inlined by "))+"/", "by ", 1))
		case strings.HasSuffix(s, "():"):
			calls = nil
		}
	}
	return b.String()
}

// TestAnnotateInlined: above code that was put into another function stands
// where that calls it, as objdump --inlines has it, with one line for each call.
func TestAnnotateInlined(t *testing.T) {
	perftest.NeedTool(t, "perf")
	objdump := perftest.NeedTool(t, "objdump")
	prog := perftest.CC(t, "inline-test", inlineSource, "-O1", "-g")
	data := perftest.Record(t, "-e", "cpu-clock:u", "-F", "1000", "--", prog)
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PERF_CONFIG", "/dev/null")
	r := perftest.Run(t, ".", nil, nil, objdump, "-d", "-l", "--inlines", "--no-show-raw-insn", "--disassemble=leaf", prog)
	want := callsOf(strings.Split(string(r.Stdout), "\n"), dumpInstruction)
	if !strings.Contains(want, "inlined by inline-test.c:6 (cube), inlined by inline-test.c:11 (leaf)") {
		t.Skipf("this objdump or gcc does it otherwise:\n%s", want)
	}
	for _, flags := range []string{"", "-l", "-l -P", "-M intel"} {
		args := append([]string{"annotate", "--stdio", "-i", data, "-s", "leaf"}, strings.Fields(flags)...)
		code, out, errs := runArgs(t, "", args...)
		if code != 0 {
			t.Fatalf("exit status %d: %s", code, errs)
		}
		if got := callsOf(strings.Split(out, "\n"), pageInstruction); got != want {
			t.Errorf("%q: %s\n%s", flags, firstDifference(got, want), out)
		}
	}
	code, out, errs := runArgs(t, "", "annotate", "--stdio2", "-i", data, "-s", "leaf")
	if code != 0 || !strings.Contains(out, " inlined by inline-test.c:6 (cube)") {
		t.Errorf("--stdio2: exit status %d: %s\n%s", code, errs, out)
	}
	for _, page := range []string{"--stdio", "--stdio2"} {
		if code, out, errs := runArgs(t, "", "annotate", page, "--no-inline", "-i", data, "-s", "leaf"); code != 0 || strings.Contains(out, "inlined by") {
			t.Errorf("%s --no-inline: exit status %d: %s\n%s", page, code, errs, out)
		}
	}
}
