package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
)

// corpusBinaries returns the recording of a corpus case that carries binaries,
// a directory for --symfs, and the symbol that perf annotated.
func corpusBinaries(t *testing.T, name string) (data, symfs, symbol, want string) {
	t.Helper()
	dir := perftest.Corpus(t)
	b, err := os.ReadFile(filepath.Join(dir, "expected", "with-binaries", name+".meta.json"))
	if err != nil {
		t.Fatal(err)
	}
	var meta struct {
		PerfData string            `json:"perfdata"`
		Symfs    map[string]string `json:"symfs"`
		Symbol   string            `json:"top_sym"`
	}
	if err := json.Unmarshal(b, &meta); err != nil {
		t.Fatal(err)
	}
	symfs = t.TempDir()
	for path, file := range meta.Symfs {
		path = filepath.Join(symfs, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(dir, file), path); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "expected", "with-binaries", name+".annotate-top.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, meta.PerfData), symfs, meta.Symbol, string(page)
}

// TestAnnotateCorpus compares with what perf annotate printed, branches
// included, where the corpus has the programs.
func TestAnnotateCorpus(t *testing.T) {
	needIced(t)
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PERF_CONFIG", "/dev/null")
	for _, name := range []string{"ro_sample", "sp_b", "sp_elf", "sp_g_fp", "sp_two_functions_arm64", "test_lbr"} {
		t.Run(name, func(t *testing.T) {
			data, symfs, symbol, want := corpusBinaries(t, name)
			code, out, errs := runArgs(t, "", "annotate", "--stdio", "--no-index", "-i", data, "--symfs", symfs, "-s", symbol)
			if code != 0 && code != 3 {
				t.Fatalf("exit status %d: %s", code, errs)
			}
			if out != want {
				t.Errorf("%s", firstDifference(out, want))
			}
		})
	}
}

// firstDifference shows the first line in which two pages differ.
func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		var a, b string
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b {
			return "line " + strconv.Itoa(i+1) + ": " + a + "\nwant " + b
		}
	}
	return "equal"
}

var sourceNumber = regexp.MustCompile(`(?m)^( +:) \d+ +`)

// unnumbered is a page without the numbers of lines that are no instructions:
// perf counts them from the line that a block of source ends with, perfark
// prints those of the file.
func unnumbered(page string) string { return sourceNumber.ReplaceAllString(page, "$1 ") }
