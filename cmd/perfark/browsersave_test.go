package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestSaveNumbered: names that are not taken; of what fails nothing is left.
func TestSaveNumbered(t *testing.T) {
	name := filepath.Join(t.TempDir(), "perf.hist.*")
	for _, want := range []string{"perf.hist.0", "perf.hist.1"} {
		got, err := saveNumbered(name, func(w io.Writer) error { _, err := io.WriteString(w, "x"); return err })
		if err != nil || filepath.Base(got) != want {
			t.Errorf("%q, %v, want %s", got, err, want)
		}
	}
	full := errors.New("no space left on device")
	_, err := saveNumbered(name, func(w io.Writer) error { io.WriteString(w, "half"); return full })
	if !errors.Is(err, full) {
		t.Errorf("error %v", err)
	}
	if files, _ := os.ReadDir(filepath.Dir(name)); len(files) != 2 {
		t.Errorf("%v, want two files", files)
	}
}
