package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/objfile"
)

// A program of Windows, as Wine maps it, has names and lines; a file of another
// id has none.
func TestReportPE(t *testing.T) {
	const cc = "x86_64-w64-mingw32-gcc"
	dir := t.TempDir()
	src, prog := filepath.Join(dir, "p.c"), filepath.Join(dir, "p.exe")
	if err := os.WriteFile(src, []byte("volatile int sink;\n__attribute__((noinline)) void hot_leaf(int n) {\n\tfor (int i = 0; i < n; i++)\n\t\tsink += i;\n}\nint main(int c, char **v) { hot_leaf(c); return 0; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-O1", "-g", "-Wl,--build-id", "-o", prog, src).CombinedOutput(); err != nil {
		t.Skipf("NOTICE: %s: %v: %s", cc, err, out)
	}
	f, err := os.Open(prog)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	o, err := objfile.Open(f, st.Size(), prog, nil)
	if err != nil {
		t.Fatal(err)
	}
	tab, err := o.Symbols(objfile.SymbolOptions{})
	if err != nil {
		t.Fatal(err)
	}
	at, _ := tab.Address("hot_leaf")
	text := o.TextOffset()
	for id, want := range map[string]string{
		o.BuildID().String():               "p.exe|[.] hot_leaf|p.c:",
		"00112233445566778899aabbccddeeff": "p.exe|[.] 0x",
	} {
		data := perftest.File(t, fmt.Sprintf("event cpu-clock sample=IP|TID|TIME|PERIOD\ncomm pid=9 tid=9 name=p.exe time=1\n"+
			"mmap2 pid=9 tid=9 start=0x140001000 len=0x10000 pgoff=%#x prot=5 flags=2 id=%s name=%s time=2\n"+
			"sample ip=%#x pid=9 tid=9 time=10 period=100\n", text, id, prog, 0x140001000+at-text))
		code, page, stderr := runArgs(t, "", "report", "-i", data, "--stdio", "-q", "-F", "overhead,dso,sym,srcline", "-t", "|")
		if got := strings.ReplaceAll(page, " ", ""); code != 0 || !strings.Contains(got, strings.ReplaceAll(want, " ", "")) {
			t.Errorf("id %s: exit status %d: %q, want %q in it: %s", id, code, got, want, stderr)
		}
	}
}
