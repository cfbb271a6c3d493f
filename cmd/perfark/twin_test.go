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

// TestBigEndianTwin is S50: a recording from a big-endian machine, of a program
// for it, has the report of its twin of this byte order.
func TestBigEndianTwin(t *testing.T) {
	const source = `volatile unsigned long sink;
__attribute__((noinline)) void hot_leaf(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i * i; }
__attribute__((noinline)) void hot_mid(unsigned long n) { hot_leaf(n); sink++; }
int main(void) { hot_mid(3); return 0; }
`
	page := func(cc string, big bool) string {
		dir := t.TempDir()
		src, prog := filepath.Join(dir, "p.c"), filepath.Join(dir, "twin")
		if err := os.WriteFile(src, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(cc, "-O1", "-Wl,--build-id=0x1234567890123456789012345678901234567890", "-o", prog, src).CombinedOutput(); err != nil {
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
		var sb strings.Builder
		fmt.Fprintf(&sb, "event cpu-clock sample=IP|TID|TIME|PERIOD\ncomm pid=9 tid=9 name=twin time=1\n")
		fmt.Fprintf(&sb, "mmap2 pid=9 tid=9 start=0x10000000 len=0x100000 pgoff=0 prot=5 flags=2 id=%s name=%s time=2\n", o.BuildID(), prog)
		for i, n := range []string{"hot_leaf", "hot_leaf", "hot_leaf", "hot_mid", "main"} {
			at, ok := tab.Address(n)
			if !ok {
				t.Fatalf("%s: no %s", cc, n)
			}
			fmt.Fprintf(&sb, "sample ip=%#x pid=9 tid=9 time=%d period=100\n", 0x10000000+at+4, 10+i)
		}
		data := filepath.Join(dir, "perf.data")
		b, err := perftest.Build(perftest.InOrder(sb.String(), big))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(data, b, 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := runArgs(t, "", "report", "-i", data, "--stdio")
		if code != 0 {
			t.Fatalf("%s: exit status %d: %s", cc, code, stderr)
		}
		return stdout
	}
	little, big := page("gcc", false), page("s390x-linux-gnu-gcc", true)
	if little != big || !strings.Contains(little, "[.] hot_leaf") {
		t.Errorf("little-endian:\n%s\nbig-endian:\n%s", little, big)
	}
}
