package main

import (
	"os"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
)

// A program without a Build ID is tied to its debug file by the checksum in its
// debug link alone: at home, and where only the archive is. One with another
// checksum names nothing.
func TestArchiveDebuglink(t *testing.T) {
	h := newHost(t)
	perftest.NeedTool(t, "objcopy")
	h.cc("app", spinSource, "-Wl,--build-id=none")
	h.sh("mkdir .debug; objcopy --only-keep-debug app .debug/app.debug; objcopy --strip-all --add-gnu-debuglink=.debug/app.debug app")
	data := h.record("--", "./app")
	p := h.pack(data)
	if p.code != 0 || !p.has(h.dir+"/app") {
		t.Fatalf("exit status %d, missing %v: %s", p.code, p.Missing, p.stderr)
	}
	_, home, _ := runArgs(t, "", "report", "-i", data, "--stdio")
	for where, page := range map[string]string{"home": rows(home), "archive": h.report(data, p.Archive)} {
		if !strings.Contains(page, "[.] hot_leaf") {
			t.Errorf("%s: no hot_leaf in\n%s", where, page)
		}
	}
	f, err := os.OpenFile(".debug/app.debug", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString("more")
	f.Close()
	if _, page, _ := runArgs(t, "", "report", "-i", data, "--stdio"); strings.Contains(page, "[.] hot_leaf") {
		t.Errorf("with another checksum:\n%s", page)
	}
}
