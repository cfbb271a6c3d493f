package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
)

// A bundle of a directory of captures is made whole: it reads elsewhere as it
// does there, in perfark and in stock perf.
func TestBundleExport(t *testing.T) {
	r := newRecorder(t)
	run := func(code int, args ...string) perftest.Result {
		t.Helper()
		res := perftest.Run(t, r.dir, perftest.Env(r.dir), nil, r.bin, args...)
		if res.Code != code {
			t.Fatalf("perfark %s: %d: %s", strings.Join(args, " "), res.Code, res.Stderr)
		}
		return res
	}
	run(0, "capture", "-q", "-g", "-F", "500", "--dir", "d", "--allow-missing", "--", "./burn", "60")
	list, _ := filepath.Glob(filepath.Join(r.dir, "d", "*.perfark"))
	if len(list) != 1 {
		t.Fatalf("bundles: %q", list)
	}
	if out := run(0, "bundle", "export", list[0], "whole.perfark").Stdout; !strings.HasPrefix(out, "whole.perfark: ") {
		t.Error(out)
	}
	page := []string{"report", "--stdio", "--no-children", "-g", "none", "-s", "comm,dso,sym", "-i"}
	want := recordRows(run(0, append(page, list[0])...).Stdout)
	if !strings.Contains(want, "leaf") {
		t.Fatalf("rows: %s", want)
	}
	if err := os.RemoveAll(filepath.Join(r.dir, "d", "objects")); err != nil {
		t.Fatal(err)
	}
	for _, hidden := range []string{"burn", "burn.c"} {
		os.Remove(filepath.Join(r.dir, hidden))
	}
	if got := recordRows(run(0, append(page, "whole.perfark")...).Stdout); got != want {
		t.Errorf("rows of the bundle by itself:\n%s\nwant:\n%s", got, want)
	}
	run(0, "verify", "--allow-missing", "whole.perfark")
	run(0, "unpack", "whole.perfark")
	res := r.perf(append(page, "perf.data")...)
	if !strings.Contains(res.Stdout, "leaf") {
		t.Errorf("perf report: %s%s", res.Stdout, res.Stderr)
	}
	if res := run(3, "bundle", "export", list[0], "part.perfark"); !strings.Contains(res.Stderr, "missing: ") {
		t.Error(res.Stderr)
	}
	run(0, "bundle", "export", "-q", "--allow-missing", list[0], "part.perfark")
	run(0, "verify", "--allow-missing", "part.perfark")
	run(1, "bundle", "export", "perf.data", "x.perfark")
	run(2, "bundle", "export", list[0])
	if res := run(2, "bundle", "export", list[0], list[0]); !strings.Contains(res.Stderr, " are one file") {
		t.Error(res.Stderr)
	}
	run(2, "bundle", "list", list[0])
	run(2, "bundle")
	if _, err := os.Stat(filepath.Join(r.dir, "x.perfark")); err == nil {
		t.Error("there is a bundle of no bundle")
	}
}
