package objfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
)

// perfNames asks the real perf for the symbols at file offsets in an ELF file: a
// recording is made in which its code is mapped at base, with a sample at
// each. It returns name and offset, "" for none.
func perfNames(t *testing.T, name string, f *File, offs []uint64) map[uint64]string {
	t.Helper()
	const base = 0x10000000
	var sb strings.Builder
	id := ""
	if s := f.BuildID().String(); s != "" {
		id = " id=" + s
	}
	var exec []segment
	for _, p := range f.loads {
		if p.flags&pfExec != 0 {
			exec = append(exec, p)
		}
	}
	if len(exec) == 0 {
		t.Fatalf("%s: no code", name)
	}
	fmt.Fprintf(&sb, "event cpu-clock sample=IP|TID|TIME\ncomm pid=9 tid=9 name=x time=1\n")
	lo, hi := exec[0].off&^0xfff, (exec[len(exec)-1].off+exec[len(exec)-1].filesz+0xfff)&^0xfff
	fmt.Fprintf(&sb, "mmap2 pid=9 tid=9 start=%#x len=%#x pgoff=%#x prot=5 flags=2%s name=%s time=2\n", base, hi-lo, lo, id, name)
	for i, o := range offs {
		fmt.Fprintf(&sb, "sample ip=%#x pid=9 tid=9 time=%d\n", base+o-lo, 10+i)
	}
	file := perftest.File(t, sb.String())
	r := perftest.Perf(t, "script", "-f", "-i", file, "-F", "ip,sym,symoff", "--no-inline")
	line := regexp.MustCompile(`^\s*([0-9a-f]+) (.*)$`)
	out := map[uint64]string{}
	for l := range strings.Lines(r.Stdout) {
		m := line.FindStringSubmatch(strings.TrimRight(l, "\n"))
		if m == nil {
			continue
		}
		a, err := strconv.ParseUint(m[1], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		s := strings.TrimSpace(m[2])
		if s == "[unknown]" {
			s = ""
		}
		out[a-base+lo] = s
	}
	if len(out) != len(offs) {
		t.Fatalf("%s: perf answered %d of %d: %s", name, len(out), len(offs), r.Stderr)
	}
	return out
}

// probes returns file offsets worth asking for: the beginning, middle and end
// of symbols of code and what is behind them, at most max.
func probes(f *File, tab *Table, max int) []uint64 {
	set := map[uint64]bool{}
	step := tab.Len()*4/max + 1
	for i := 0; i < tab.Len(); i += step {
		s := tab.Sym(i)
		for _, o := range []uint64{s.Start, s.Start + (s.End-s.Start)/2, s.End - 1, s.End} {
			for _, p := range f.loads {
				if p.flags&pfExec != 0 && o-p.off < p.filesz {
					set[o] = true
				}
			}
		}
	}
	var out []uint64
	for o := range set {
		out = append(out, o)
	}
	return out
}

// TestPerf compares the names of addresses all over many files with those of
// the real perf. Where we differ we know why; see docs/symbols.md.
func TestPerf(t *testing.T) {
	perftest.NeedTool(t, "perf")
	max := 1500
	if testing.Short() || raceFactor > 1 {
		max = 200
	}
	files := systemFiles(t)
	files = append(files, builds(t)...)
	for _, name := range files {
		if strings.HasSuffix(name, ".o") {
			continue
		}
		comparePerf(t, name, max)
	}
}

// An agreement counts addresses by how the answer of perf is to ours.
type agreement struct{ asked, same, stubs, gaps, nested, longer, mangled, wrong int }

func (a *agreement) add(b agreement) {
	a.asked += b.asked
	a.same += b.same
	a.stubs += b.stubs
	a.gaps += b.gaps
	a.nested += b.nested
	a.longer += b.longer
	a.mangled += b.mangled
	a.wrong += b.wrong
}

func (a agreement) String() string {
	return fmt.Sprintf("%d of %d as perf; %d stubs, %d behind a section, %d nested, %d behind an alias, %d demangled otherwise, %d wrong", a.same, a.asked, a.stubs, a.gaps, a.nested, a.longer, a.mangled, a.wrong)
}

// TestAgreement compares every symbol of PERFARK_AGREEMENT shared libraries of
// this machine with perf: at its first, middle and last byte, and behind it. Run
// by make agreement.
func TestAgreement(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("PERFARK_AGREEMENT"))
	if err != nil {
		t.Skip("NOTICE: PERFARK_AGREEMENT says how many libraries to compare")
	}
	perftest.NeedTool(t, "perf")
	type lib struct {
		name string
		size int64
	}
	var libs []lib
	seen := map[string]bool{}
	for _, pat := range []string{"/usr/lib/x86_64-linux-gnu/*.so*", "/usr/lib/aarch64-linux-gnu/*.so*", "/usr/lib64/*.so*"} {
		names, _ := filepath.Glob(pat)
		for _, name := range names {
			real, err := filepath.EvalSymlinks(name)
			if err != nil || seen[real] {
				continue
			}
			seen[real] = true
			b, err := os.ReadFile(real)
			if err != nil || !strings.HasPrefix(string(b), "\x7fELF") || len(b) > 24<<20 || !bytes.Contains(b, []byte("libc.so.6")) {
				continue
			}
			libs = append(libs, lib{real, int64(len(b))})
		}
	}
	// The largest, and the C library, whatever its size.
	slices.SortStableFunc(libs, func(a, b lib) int {
		if c := strings.HasSuffix(b.name, "libc.so.6"); c != strings.HasSuffix(a.name, "libc.so.6") {
			if c {
				return 1
			}
			return -1
		}
		return int(b.size - a.size)
	})
	var sum agreement
	for _, l := range libs[:min(n, len(libs))] {
		sum.add(comparePerf(t, l.name, 1<<20))
	}
	t.Logf("%d libraries: %v", min(n, len(libs)), sum)
}

func comparePerf(t *testing.T, name string, max int) (sum agreement) {
	f := openTest(t, name)
	tab, err := f.Symbols(SymbolOptions{})
	if err != nil {
		return sum
	}
	if id := f.BuildID().String(); len(id) > 2 {
		debug := "/usr/lib/debug/.build-id/" + id[:2] + "/" + id[2:] + ".debug"
		if _, err := os.Stat(debug); err == nil {
			if tab, err = openTest(t, debug).SymbolsWith(f, SymbolOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	offs := probes(f, tab, max)
	if len(offs) <= 2000 {
		compareOnly(t, f, tab, offs)
	}
	if len(offs) == 0 {
		t.Errorf("%s: nothing to ask", name)
		return sum
	}
	sum.asked = len(offs)
	for o, want := range perfNames(t, name, f, offs) {
		s, ok := tab.Lookup(o)
		got := ""
		if ok {
			got = fmt.Sprintf("%s+%#x", Demangle(s.Name), o-s.Start)
		}
		switch {
		case got == want:
			sum.same++
		case strings.Contains(s.Name, "@plt") || s.Name == ".plt":
			sum.stubs++ // perf 6.1 has the wrong place, or the function before
		case got == "" && pastSection(f, tab, want, o):
			sum.gaps++
		case ok && want == "" && o < s.End:
			sum.longer++ // perf kept a shorter alias
		case ok && strings.HasPrefix(s.Name, "_") && want == fmt.Sprintf("%s+%#x", s.Name, o-s.Start):
			sum.mangled++ // newer than perf's demangler
		case ok && slices.ContainsFunc(knownDemangle, func(k string) bool { return strings.Contains(s.Name, k) }):
			sum.mangled++
		case ok && isNested(tab, s, want):
			sum.nested++
		default:
			if sum.wrong++; sum.wrong < 8 {
				t.Errorf("%s: offset %#x: got %q (%#x-%#x), perf says %q", name, o, got, s.Start, s.End, want)
			}
		}
	}
	t.Logf("%s: %v", name, sum)
	return sum
}

// compareOnly checks that symbols that are read for some addresses only are
// the same at these.
func compareOnly(t *testing.T, f *File, tab *Table, offs []uint64) {
	t.Helper()
	for n := 1; n <= len(offs); n *= 7 {
		some := slices.Clone(offs[:n])
		slices.Sort(some)
		got, err := f.Symbols(SymbolOptions{Only: some})
		if err != nil && !errors.Is(err, ErrNoSymbols) {
			t.Fatal(err)
		}
		if want, err := f.Symbols(SymbolOptions{}); err == nil {
			tab = want
		}
		for _, o := range some {
			want, ok := tab.Lookup(o)
			var s Sym
			ok2 := false
			if got != nil {
				s, ok2 = got.Lookup(o)
			}
			if ok != ok2 || s.Name != want.Name || s.Start != want.Start {
				t.Errorf("%s: %d offsets: %#x: got %+v, want %+v", f.name, n, o, s, want)
			}
		}
		if got != nil && got.Len() > tab.Len() {
			t.Errorf("%s: %d symbols kept of %d", f.name, got.Len(), tab.Len())
		}
	}
}

// pastSection reports whether perf's answer is a symbol without a size that
// it extends beyond the end of its section.
func pastSection(f *File, tab *Table, want string, off uint64) bool {
	name, _, _ := strings.Cut(want, "+0x")
	at, ok := tab.Address(name)
	if !ok {
		return false
	}
	for _, s := range f.sections {
		if s.flags&shfAlloc != 0 && s.typ != shtNobits && at-s.off < s.size {
			return off >= s.off+s.size
		}
	}
	return false
}

// isNested reports whether perf's answer is another symbol around the
// address, with an earlier start.
func isNested(tab *Table, got Sym, want string) bool {
	name, _, _ := strings.Cut(want, "+0x")
	for s := range tab.All {
		if Demangle(s.Name) == name && s.Start < got.Start && s.End > got.Start {
			return true
		}
	}
	return false
}

const pltSource = `
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
int hot(int n) { char b[64]; snprintf(b, sizeof b, "%d", n); return atoi(b) + (int)strlen(b); }
static int inner(double x) { return (int)cos(x); }
int main(int c, char **v) { int s = 0; for (int i = 0; i < 10; i++) s += hot(i) + inner(i); puts("x"); void *p = malloc(s); free(p); return s == 0; }
`

// builds compiles the forms of programs that the cases name: S05 (fixed
// address, static, position-independent, both), S53 (assembly without sizes),
// S54 (stubs, lazy and with indirect-branch tracking).
func builds(t *testing.T) []string {
	if _, err := exec.LookPath("gcc"); err != nil {
		return nil
	}
	var out []string
	for _, flags := range [][]string{
		{"-no-pie", "-lm"}, {"-static", "-lm"}, {"-pie", "-lm"}, {"-static-pie", "-lm"},
		{"-Wl,-z,ibtplt", "-lm"}, {"-Wl,-z,now", "-lm"}, {"-fcf-protection", "-Wl,-z,ibtplt,-z,lazy", "-lm"}, {"-fno-plt", "-lm"},
		{"-Wl,-z,lazy", "-s", "-rdynamic", "-lm"},
	} {
		out = append(out, perftest.CC(t, "x"+strings.NewReplacer(",", "", "-", "").Replace(strings.Join(flags, "")), pltSource, append([]string{"-O1", "-Wl,--build-id=uuid"}, flags...)...))
	}
	return out
}

// TestAsmWithoutSize is case S53: symbols without a size reach to the next
// one, and to the end of their section at most.
func TestAsmWithoutSize(t *testing.T) {
	perftest.NeedTool(t, "gcc")
	dir := t.TempDir()
	asm := filepath.Join(dir, "f.S")
	if err := os.WriteFile(asm, []byte(`
	.text
	.globl asm_hot
asm_hot:
1:	dec %rdi
	jnz 1b
	ret
	.balign 64
	.globl asm_typed
	.type asm_typed,@function
asm_typed:
1:	dec %rdi
	jnz 1b
	ret
	.section .text.last,"ax",@progbits
	.globl asm_last
asm_last:
	nop
	ret
	.section .note.GNU-stack,"",@progbits
`), 0o644); err != nil {
		t.Fatal(err)
	}
	name := perftest.CC(t, "asm", "void asm_hot(unsigned long); void asm_typed(unsigned long); void asm_last(void);\nint main(void) { asm_hot(3); asm_typed(3); asm_last(); return 0; }\n", asm)
	f := openTest(t, name)
	tab, err := f.Symbols(SymbolOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		name string
		min  uint64
	}{{"asm_hot", 6}, {"asm_typed", 6}, {"asm_last", 2}} {
		at, ok := tab.Address(want.name)
		if !ok {
			t.Fatalf("no %s", want.name)
		}
		for o := range want.min {
			if s, ok := tab.Lookup(at + o); !ok || s.Name != want.name {
				t.Errorf("%s+%d: got %+v, %v", want.name, o, s, ok)
			}
		}
	}
	comparePerf(t, name, 1000)
}

// TestStubs is case S54: the names of all stubs are those that objdump gives.
func TestStubs(t *testing.T) {
	perftest.NeedTool(t, "objdump")
	label := regexp.MustCompile(`(?m)^([0-9a-f]+) <(.+)@plt>:$`)
	stubs := 0
	for _, name := range append(builds(t), "/bin/ls", "/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6") {
		out, err := exec.Command("objdump", "-d", "-j", ".plt", "-j", ".plt.sec", "-j", ".plt.got", name).Output()
		if err != nil && len(out) == 0 {
			continue
		}
		f := openTest(t, name)
		tab, err := f.Symbols(SymbolOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range label.FindAllStringSubmatch(string(out), -1) {
			addr, _ := strconv.ParseUint(m[1], 16, 64)
			p, _ := f.load(addr)
			want := m[2]
			if stubs%10 == 0 { // as for a profile with a sample here only
				if tab, err = f.Symbols(SymbolOptions{Only: []uint64{addr - p.vaddr + p.off}}); err != nil {
					t.Fatal(err)
				}
			}
			s, ok := tab.Lookup(addr - p.vaddr + p.off)
			got := strings.TrimSuffix(s.Name, "@plt")
			if strings.HasPrefix(want, "*ABS*") {
				// of a function that is chosen at run time: we know which
				if !ok || got == s.Name || strings.HasPrefix(got, "offset_") {
					t.Errorf("%s: %#x: got %+v, objdump has %s", name, addr, s, want)
				}
			} else if want, _, _ = strings.Cut(want, "@"); got != want || !ok {
				t.Errorf("%s: %#x: got %+v, objdump has %s", name, addr, s, want)
			}
			stubs++
		}
	}
	if stubs < 100 {
		t.Errorf("only %d stubs compared", stubs)
	}
	t.Logf("%d stubs", stubs)
}

// TestStubsCross names the stubs of other machines, made by clang and lld.
func TestStubsCross(t *testing.T) {
	clang, err := exec.LookPath("clang-14")
	if err != nil {
		if clang, err = exec.LookPath("clang"); err != nil {
			t.Skip("NOTICE: no clang here; install it for this test")
		}
	}
	lld, err := exec.LookPath("ld.lld")
	if err != nil {
		out, _ := exec.Command("rustc", "--print", "sysroot").Output()
		found, _ := filepath.Glob(strings.TrimSpace(string(out)) + "/lib/rustlib/*/bin/gcc-ld/ld.lld")
		if len(found) == 0 {
			t.Skip("NOTICE: no ld.lld here; install lld for this test")
		}
		lld = found[0]
	}
	dir := t.TempDir()
	src := filepath.Join(dir, "p.c")
	if err := os.WriteFile(src, []byte("int ext_a(int); int ext_b(int); int f(int x) { return ext_a(x) + ext_b(x); }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		target string
		flags  []string
		stubs  []uint64 // from the beginning of .plt
	}{
		{"x86_64-linux-gnu", nil, []uint64{16, 32}},
		{"i386-linux-gnu", nil, []uint64{16, 32}},
		{"aarch64-linux-gnu", nil, []uint64{32, 48}},
		{"aarch64-linux-gnu", []string{"-mbranch-protection=standard"}, []uint64{32, 56}},
		{"armv7-linux-gnueabihf", nil, []uint64{32, 48}},
		{"riscv64-linux-gnu", nil, []uint64{32, 48}},
		{"s390x-linux-gnu", nil, []uint64{32, 64}},
	} {
		obj, lib := filepath.Join(dir, "p.o"), filepath.Join(dir, "p.so")
		if out, err := exec.Command(clang, append([]string{"--target=" + tt.target, "-O1", "-fPIC", "-c", src, "-o", obj}, tt.flags...)...).CombinedOutput(); err != nil {
			t.Logf("NOTICE: %s: %s", tt.target, out)
			continue
		}
		link := []string{"-shared", obj, "-o", lib}
		if tt.flags != nil {
			link = append(link, "-z", "force-bti")
		}
		if out, err := exec.Command(lld, link...).CombinedOutput(); err != nil {
			t.Logf("NOTICE: %s: %s", tt.target, out)
			continue
		}
		f := openTest(t, lib)
		tab, err := f.Symbols(SymbolOptions{})
		if err != nil {
			t.Fatal(err)
		}
		plt := f.section(".plt")
		for i, want := range []string{".plt", "ext_a@plt", "ext_b@plt"} {
			at := plt.off
			if i > 0 {
				at += tt.stubs[i-1]
			}
			for _, o := range []uint64{0, 7} {
				if s, ok := tab.Lookup(at + o); !ok || s.Name != want || s.Start != at {
					t.Errorf("%s %q: %#x: got %+v, %v; want %s", tt.target, tt.flags, at+o, s, ok, want)
				}
			}
		}
		if at, ok := tab.Address("f"); !ok {
			t.Errorf("%s: no f", tt.target)
		} else if s, ok := tab.Lookup(at); !ok || s.Name != "f" {
			t.Errorf("%s: %#x: got %+v", tt.target, at, s)
		}
	}
}
