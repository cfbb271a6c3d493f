package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A recording may name any file as a source. Those that are none, that have no
// end, or that are outside of the directories that were given, are not read.
func TestSourceFinderHostile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return name
	}
	source, secret := write("a.c", "one\ntwo"), write("secret", "x")
	write("src/b/c.c", "c")
	fifo := filepath.Join(dir, "fifo.c")
	if err := syscall.Mkfifo(fifo, 0o666); err != nil {
		t.Fatal(err)
	}
	huge := write("huge.c", "")
	if err := os.Truncate(huge, maxSource+1); err != nil {
		t.Fatal(err)
	}
	long := write("long.c", strings.Repeat("x", maxSourceLine+5)+"\nend")
	given := sourceFlags{sourceDirs: []string{filepath.Join(dir, "src")}}
	for _, tt := range []struct {
		file  string
		flags sourceFlags
		want  string // of the first line
	}{
		{source, sourceFlags{}, "one"},
		{secret, sourceFlags{}, ""},
		{fifo, sourceFlags{}, ""},
		{huge, sourceFlags{}, ""},
		{dir, sourceFlags{}, ""},
		{"/dev/zero", sourceFlags{}, ""},
		{"/proc/kmsg", sourceFlags{}, ""},
		{"/proc/self/environ.c/../environ", sourceFlags{}, ""},
		{long, sourceFlags{}, strings.Repeat("x", maxSourceLine) + "…"},
		{"/build/b/c.c", given, "c"},
		{"../b/c.c", given, "c"},
		{"../secret", given, ""},
		{"/build/../../secret", given, ""},
	} {
		f := &sourceFinder{sourceFlags: tt.flags, files: map[string][]string{}, note: func(string, ...any) {}}
		got := ""
		if lines := f.lines(tt.file); len(lines) > 0 {
			got = lines[0]
		}
		if got != tt.want {
			t.Errorf("%q: %.20q, want %.20q", tt.file, got, tt.want)
		}
	}
	for file, want := range map[string]int{"/old/a.c": 2, "/old/src/../a.c": 2, "/old/../" + filepath.Base(dir) + "/secret": 0, "/old/b/../../a.c": 0} {
		f := &sourceFinder{maps: [][2]string{{"/old", dir}}, files: map[string][]string{}, made: time.Now().Add(-time.Hour), note: func(string, ...any) {}}
		if got := len(f.lines(file)); got != want {
			t.Errorf("%q: %d lines, want %d", file, got, want)
		}
	}
	f := &sourceFinder{files: map[string][]string{}, size: maxSources}
	if f.lines(source) != nil {
		t.Error("more than all of it was read")
	}
}
