package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
)

// goBuild builds a Go program of one file under a name in the directory of
// programs.
func (h *host) goBuild(name, src, ldflags string, env ...string) {
	h.t.Helper()
	tool := perftest.NeedTool(h.t, "go")
	file := filepath.Join(h.t.TempDir(), "x.go")
	if err := os.WriteFile(file, []byte(src), 0o600); err != nil {
		h.t.Fatal(err)
	}
	cmd := exec.Command(tool, "build", "-ldflags="+ldflags, "-o", filepath.Join(h.dir, name), file)
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0", "GOCACHE="+goEnv(h.t.(*testing.T), "GOCACHE"), "GOFLAGS="), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		h.t.Fatalf("go build: %v: %s", err, out)
	}
}

const goSpin = `package main

var sink int

func loop(i int) (s int) {
	for j := 0; j < i; j++ {
		s += j ^ s
	}
	return s
}

func inlined(i int) int { return loop(i) + 1 }

//go:noinline
func hotLeaf(n int) {
	for i := 0; i < n; i++ {
		sink += inlined(i)
	}
}

func main() { hotLeaf(20000) }
`

// TestGoStripped: B15. A Go program without symbols and debug information has
// its functions, its lines and its inlined calls all the same, at home and from
// the archive.
func TestGoStripped(t *testing.T) {
	h := newHost(t)
	h.goBuild("gobin", goSpin, "-s -w")
	data := h.record("-g", "--", "./gobin")
	p := h.pack(data)
	hot := func(from, page string) {
		f := strings.Fields(page)
		if len(f) < 5 || f[4] != "main.hotLeaf" || len(f[0]) < 6 || f[0] != "100.00%" && f[0] < "90" {
			t.Errorf("from %s:\n%s", from, page)
		}
	}
	hot("the archive", h.report(data, p.Archive))
	code, out, stderr := runArgs(t, "", "report", "-i", data, "--stdio", "--no-children", "-g", "none")
	hot("here", rows(out))
	if code != 0 {
		t.Errorf("exit status %d: %s", code, stderr)
	}
	if got := h.report(data, p.Archive, "-s", "srcline"); !strings.Contains(got, "x.go:6") && !strings.Contains(got, "x.go:7") {
		t.Errorf("lines:\n%s", got)
	}
	code, out, stderr = runArgs(t, "", "report", "-i", data, "--stdio", "--no-children", "-g", "caller", "--inline")
	if code != 0 || !strings.Contains(out, "main.hotLeaf\n               main.inlined (inlined)\n               main.loop (inlined)\n") {
		t.Errorf("inlined calls: exit status %d: %s\n%s", code, stderr, out)
	}
}

// TestGoWithC: of a stripped program, C functions have no names, and the reason
// is told.
func TestGoWithC(t *testing.T) {
	h := newHost(t)
	h.goBuild("gobin", `package main

// static int __attribute__((noinline)) cwork(unsigned n) { unsigned volatile s = 0; while (n--) s += n; return s; }
import "C"

//go:noinline
func goWork(n int) (s int) {
	for i := 0; i < n; i++ {
		s += i ^ s
	}
	return s
}

func main() { println(C.cwork(50000000), goWork(200000000)) }
`, "-s -w", "CGO_ENABLED=1")
	data := h.record("--", "./gobin")
	code, out, stderr := runArgs(t, "", "report", "-i", data, "--stdio", "--no-children")
	if code != 0 || !strings.Contains(out, "main.goWork") || strings.Contains(out, "cwork") || !strings.Contains(stderr, "names of its Go functions only") {
		t.Errorf("exit status %d: %s\n%s", code, stderr, out)
	}
}

// TestGoIDOnly: B14. A program that has no Build ID, built again with other
// code, is not taken for what ran: neither from its path, nor from the archive
// of the other recording.
func TestGoIDOnly(t *testing.T) {
	h := newHost(t)
	h.goBuild("gobin", goSpin, "-B none")
	first := h.record("--", "./gobin")
	one := h.pack(first)
	h.sh("mv gobin old")
	h.goBuild("gobin", strings.ReplaceAll(goSpin, "hotLeaf", "zzz_wrong_function"), "-B none")
	second := h.record("--", "./gobin")
	two := h.pack(second)
	name := func(p packed) (name, goID string) {
		for _, o := range p.Objects {
			if len(o.Paths) > 0 && strings.HasSuffix(string(o.Paths[0]), "/gobin") && o.ID == "" && o.Unverified {
				return string(o.Files[0].Name), o.GoID
			}
		}
		t.Fatalf("no gobin in %+v, %s", p.Objects, p.stderr)
		return "", ""
	}
	n1, g1 := name(one)
	n2, g2 := name(two)
	if n1 == n2 || g1 == g2 || g1 == "" {
		t.Errorf("identities %q %q, %q %q", n1, g1, n2, g2)
	}
	if got := h.report(first, one.Archive); !strings.Contains(got, "main.hotLeaf") {
		t.Errorf("the first:\n%s", got)
	}
	if got := h.report(second, two.Archive); !strings.Contains(got, "main.zzz_wrong_function") {
		t.Errorf("the second:\n%s", got)
	}
	code, out, _ := runArgs(t, "", "report", "-i", first, "--stdio", "--no-children")
	if strings.Contains(out, "zzz_wrong_function") {
		t.Errorf("exit status %d: the file at the path was used:\n%s", code, out)
	}
	if got := h.report(first, two.Archive); strings.Contains(got, "zzz_wrong_function") {
		t.Errorf("the archive of the other was used:\n%s", got)
	}
}
