package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
)

const mixedRust = `
#[inline(always)] fn mix_rust(x: u64) -> u64 { (x ^ (x >> 7)).wrapping_mul(0x9E3779B97F4A7C15) }
#[inline(never)] pub fn hot_rust(n: u64) -> u64 { let mut s = n; let mut i = 0; while i < n { s = mix_rust(s + i); i += 1; } s }
fn main() { let mut s = 0; for i in 0..20 { s ^= hot_rust(20_000_000 + i); } println!("{}", s); }
`

const mixedCXX = `
#include <cstdint>
#include <cstdio>
namespace mixed {
static inline __attribute__((always_inline)) uint64_t mix_cxx(uint64_t x) { return (x ^ x >> 7) * 0x9E3779B97F4A7C15ull; }
template <typename T> struct Work { __attribute__((noinline)) T spin(T n) { T s = n; for (T i = 0; i < n; i++) s = mix_cxx(s + i); return s; } };
}
int main() { mixed::Work<uint64_t> w; uint64_t s = 0; for (int i = 0; i < 20; i++) s ^= w.spin(20000000 + i); printf("%llu\n", (unsigned long long)s); }
`

const mixedGo = `package main

func mixGo(x uint64) uint64 { return (x ^ x>>7) * 0x9E3779B97F4A7C15 }

//go:noinline
func hotGo(n uint64) uint64 {
	s := n
	for i := uint64(0); i < n; i++ {
		s = mixGo(s + i)
	}
	return s
}

func main() {
	s := uint64(0)
	for i := range uint64(20) {
		s ^= hotGo(20000000 + i)
	}
	println(s)
}
`

const mixedJava = `public class Hot {
	static long hotJava(long n) { long s = n; for (long i = 0; i < n; i++) { s = (s ^ s >>> 7) * 0x9E3779B97F4A7C15L + i; } return s; }
	public static void main(String[] a) { long s = 0; for (int i = 0; i < 3000; i++) s ^= hotJava(200000 + i); System.out.println(s); }
}
`

// P20: a recording with samples of Rust, C++, Go, Python, the run-time compiler of
// Java and the kernel, of which the bundle alone is left, reads as it did where
// it was made: rows, call graphs, and inlined functions.
func TestMixedElsewhere(t *testing.T) {
	if testing.Short() {
		t.Skip("NOTICE: takes many seconds")
	}
	env := os.Environ() // with the home of the compilers
	h := newHost(t)
	write := func(name, text string) string {
		name = filepath.Join(h.dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	var script, want []string
	lang := func(tool, build, run string, names ...string) {
		if _, err := exec.LookPath(tool); err != nil {
			t.Logf("NOTICE: %s is not installed", tool)
			return
		}
		if build != "" {
			if r := perftest.Run(t, h.dir, env, nil, "sh", "-ec", build); r.Code != 0 {
				t.Logf("NOTICE: %s: %s", build, r.Stderr)
				return
			}
		}
		script = append(script, run)
		want = append(want, names...)
	}
	write("r.rs", mixedRust)
	write("c.cpp", mixedCXX)
	write("g.go", mixedGo)
	write("Hot.java", mixedJava)
	write("p.py", "s = 0\nfor i in range(6000000):\n    s = (s ^ i) * 31 & 0xffffffff\n")
	lang("rustc", "rustc -g -O -C force-frame-pointers=yes -C link-arg=-Wl,--build-id -o r r.rs", "./r", "r::hot_rust", "r::mix_rust (inlined)")
	lang("g++", "g++ -g -O2 -fno-omit-frame-pointer -o c c.cpp", "./c", "mixed::Work<unsigned long>::spin", "mix_cxx (inlined)")
	lang("go", "env GOFLAGS= CGO_ENABLED=0 GO111MODULE=off go build -ldflags=-B=gobuildid -o g g.go", "./g", "main.hotGo", "main.mixGo (inlined)")
	lang("java", "javac Hot.java", "java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit -XX:+PreserveFramePointer -Xbatch Hot", "hotJava")
	lang("python3", "", "python3 p.py")
	script = append(script, "dd if=/dev/zero of=/dev/null bs=1M count=8000 2>/dev/null")
	write("run.sh", "cd "+h.dir+"\n"+strings.Join(script, "\n")+"\n")
	removeMaps(t, "hotJava")
	data := h.record("-e", "cpu-clock", "-g", "--", "sh", filepath.Join(h.dir, "run.sh"))

	flags := []string{"--stdio", "--percent-limit", "0.2", "--comm", "r,c,g,java,python3,dd"}
	code, home, stderr := runArgs(t, "", append([]string{"report", "-i", data}, flags...)...)
	if code != 0 {
		t.Fatalf("exit status %d: %s", code, stderr)
	}
	for _, name := range want {
		if !strings.Contains(home, name) {
			t.Errorf("no %s in the report", name)
		}
	}
	bundle := filepath.Join(t.TempDir(), "b.perfark")
	h.pack(data, "--all", "-o", bundle)
	deleteMaps("hotJava")
	self := filepath.Join(t.TempDir(), "perfark")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(exe, self); err != nil {
		t.Fatal(err)
	}
	hide := []string{h.dir, h.home, filepath.Dir(data)}
	if static(t, exe) {
		hide = append(hide, "/usr")
	}
	r := h.hidden(hide, self, append([]string{"report", "-i", bundle}, flags...)...)
	if rows(r.Stdout) != rows(home) {
		a, b := filepath.Join(t.TempDir(), "home"), filepath.Join(t.TempDir(), "away")
		os.WriteFile(a, []byte(rows(home)), 0o600)
		os.WriteFile(b, []byte(rows(r.Stdout)), 0o600)
		diff := perftest.Run(t, "/", nil, nil, "diff", a, b).Stdout
		t.Errorf("the page is another one elsewhere:\n%s\n%s", diff[:min(len(diff), 4000)], r.Stderr)
	}
}
