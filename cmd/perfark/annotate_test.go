package main

import (
	"cmp"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/perfark/perfark/annotate"
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
			code, out, errs := runArgs(t, "", "annotate", "--stdio", "--no-inline", "--no-index", "-i", data, "--symfs", symfs, "-s", symbol)
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

// A program of two functions, one of which is put into the other, that takes
// a while.
const annotateSource = `#include <stdio.h>
#include <stdlib.h>
static inline double square(double x) {
	return x * x;
}
__attribute__((noinline)) static double leaf(int n) {
	double s = 0;
	for (int i = 0; i < n; i++) {
		s += square(i);
		if (i % 3 == 0)
			s -= 1;
	}
	return s;
}
int main(void) {
	double t = 0;
	for (int i = 0; i < 8000; i++)
		t += leaf(10000 + i % 7);
	printf("%f\n", t);
	return 0;
}
`

const annotateCXX = `#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>
namespace shop {
template <typename K, typename V> struct Table {
	std::map<K, V> m;
	__attribute__((noinline)) V add(const K &k, V v) { return m[k] += v; }
};
template <int N> __attribute__((noinline)) long mix(std::vector<long> &v) {
	for (auto &x : v) x = x * 2862933555777941757L + N;
	std::sort(v.begin(), v.end());
	return v[v.size() / 2];
}
}
int main() {
	shop::Table<std::string, long> t;
	std::vector<long> v(20000);
	long sum = 0;
	for (int i = 0; i < 40; i++) {
		sum += shop::mix<3>(v) + shop::mix<7>(v);
		for (int j = 0; j < 2000; j++) sum += t.add(std::to_string(j % 50), sum & 3);
	}
	printf("%ld\n", sum);
	return 0;
}
`

// TestAnnotatePerf compares with the perf of this machine, on fresh
// recordings: all functions of a program, and the flags that change the page.
func TestAnnotatePerf(t *testing.T) {
	needIced(t)
	perftest.NeedTool(t, "perf")
	perftest.NeedTool(t, "objdump")
	prog := perftest.CC(t, "annotate-test", annotateSource, "-O1", "-g")
	data := perftest.Record(t, "-e", "cpu-clock:u", "-F", "1000", "--", prog)
	two := perftest.Record(t, "-e", "cpu-clock:u,task-clock:u", "-F", "1000", "--", prog)
	grouped := perftest.Record(t, "-e", "{cpu-clock:u,task-clock:u}", "-F", "1000", "--", prog)
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("PERF_CONFIG", "/dev/null")
	compare := func(t *testing.T, args ...string) {
		t.Helper()
		args = append([]string{"annotate", "--stdio"}, args...)
		want := perftest.PerfIn(t, ".", home, nil, args...)
		code, out, errs := runArgs(t, "", append(args, "--no-inline")...)
		if code != 0 {
			t.Fatalf("exit status %d: %s", code, errs)
		}
		if got, want := unnumbered(out), unnumbered(string(want.Stdout)); got != want {
			t.Errorf("%q: %s", args, firstDifference(got, want))
		}
	}
	for _, flags := range []string{
		"", "-l", "-n", "--show-total-period", "--asm-raw", "-M intel", "--no-source", "-P -l", "-P --asm-raw -M intel -n",
		"--percent-type local-hits", "--stdio2", "--stdio2 -n", "--stdio2 --show-total-period", "--prefix /x --prefix-strip 2",
		"--stdio-color always -l", "-n --stdio-color always --asm-raw", "--stdio2 -l", "--show-total-period --stdio-color always",
	} {
		t.Run(flags, func(t *testing.T) { compare(t, append(strings.Fields(flags), "-i", data, "-s", "leaf")...) })
		t.Run("group "+flags, func(t *testing.T) {
			compare(t, append(strings.Fields(flags), "-i", grouped, "-s", "leaf")...)
		})
	}
	base := filepath.Base(prog)
	t.Run("not a group", func(t *testing.T) { compare(t, "-i", two, "-s", "leaf", "--group") })
	t.Run("-d stdio2", func(t *testing.T) { compare(t, "-i", two, "-d", base, "--stdio2", "--percent-limit", "50") })
	t.Run("all", func(t *testing.T) { compare(t, "-i", two, "-d", base) })
	t.Run("all global", func(t *testing.T) { compare(t, "-i", data, "-d", base, "--percent-type", "period-global") })
	t.Run("positional", func(t *testing.T) { compare(t, "-i", two, "leaf") })
}

// TestAnnotateCXX compares the instructions and the source lines of all
// functions of a C++ program with perf's. What stands above them may differ:
// binutils does not know which function every inlined one is in.
func TestAnnotateCXX(t *testing.T) {
	needIced(t)
	perftest.NeedTool(t, "perf")
	perftest.NeedTool(t, "objdump")
	gxx := perftest.NeedTool(t, "g++")
	dir := t.TempDir()
	src, prog := filepath.Join(dir, "shop.cc"), filepath.Join(dir, "shop")
	if err := os.WriteFile(src, []byte(annotateCXX), 0o666); err != nil {
		t.Fatal(err)
	}
	if r := perftest.Run(t, dir, nil, nil, gxx, "-O2", "-g", "-o", prog, src); r.Code != 0 {
		t.Skipf("g++: %s", r.Stderr)
	}
	data := perftest.Record(t, "-e", "cpu-clock:u", "-F", "1000", "--", prog)
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("PERF_CONFIG", "/dev/null")
	args := []string{"annotate", "--stdio", "-i", data, "-d", "shop"}
	want := string(perftest.PerfIn(t, ".", home, nil, args...).Stdout)
	code, got, errs := runArgs(t, "", args...)
	if code != 0 {
		t.Fatalf("exit status %d: %s", code, errs)
	}
	if g, w := instructionsOf(got), instructionsOf(want); g != w {
		t.Error(firstDifference(g, w))
	}
}

var (
	instructionLine = regexp.MustCompile(`^ +[0-9.]+ :`)
	slotName        = regexp.MustCompile(`(@G?[A-Z]*[_0-9.]+)?>$`) // objdump knows the versions of symbols
)

func instructionsOf(page string) string {
	var b strings.Builder
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n")
		if instructionLine.MatchString(line) && !strings.Contains(line, "vtable for") {
			b.WriteString(slotName.ReplaceAllString(line, ">") + "\n")
		}
	}
	return b.String()
}

// Without objdump, binary and sources, in another directory, all that is
// needed comes from the bundle.
func TestAnnotateBundle(t *testing.T) {
	perftest.NeedTool(t, "perf")
	prog := perftest.CC(t, "bundle-test", annotateSource, "-O1", "-g")
	src := prog + ".c"
	if _, err := os.Stat(src); err != nil {
		t.Skip(err)
	}
	data := perftest.Record(t, "-e", "cpu-clock:u", "-F", "1000", "--", prog)
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PERF_CONFIG", "/dev/null")
	want := func(name string, text bool, args ...string) {
		t.Helper()
		code, out, errs := runArgs(t, "", append([]string{"annotate", "-i", name, "-s", "leaf"}, args...)...)
		if code != 0 || !strings.Contains(out, "<leaf>:") || !strings.Contains(out, "square():") {
			t.Fatalf("exit status %d, %s%s", code, out, errs)
		}
		if strings.Contains(out, "s += square(i);") != text || strings.Contains(errs, "no source text") == text {
			t.Errorf("source text %v, want %v: %s", !text, text, errs)
		}
	}
	dir := t.TempDir()
	for _, flags := range []string{"", "--sources hot", "--sources hot --slim"} {
		bundle := filepath.Join(dir, "x"+strings.ReplaceAll(flags, " ", "")+".perfark")
		if code, _, errs := runArgs(t, "", append([]string{"archive", "--all", "--allow-missing", "-o", bundle, data}, strings.Fields(flags)...)...); code != 0 {
			t.Fatal(errs)
		}
	}
	want(data, true)
	text, err := os.ReadFile(src)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{src, prog} {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", "/nonexistent")
	t.Setenv("HOME", t.TempDir())
	want(filepath.Join(dir, "x.perfark"), false)
	want(filepath.Join(dir, "x--sourceshot.perfark"), true)
	want(filepath.Join(dir, "x--sourceshot--slim.perfark"), true)
	// Elsewhere, and where the file is younger than the recording.
	if err := os.WriteFile(src, text, 0o666); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(src, later, later); err != nil {
		t.Fatal(err)
	}
	want(filepath.Join(dir, "x.perfark"), false)
	want(filepath.Join(dir, "x.perfark"), true, "--source-dir", filepath.Dir(src))
	want(filepath.Join(dir, "x.perfark"), true, "--prefix-map", filepath.Dir(src)+"="+filepath.Dir(src))
	want(filepath.Join(dir, "x.perfark"), false, "--prefix-map", filepath.Dir(src)+"=/nonexistent")
}

// O06, O08, O09, C15: what cannot be shown has a reason and an exit status of
// its own.
func TestAnnotateRefusals(t *testing.T) {
	prog := perftest.CC(t, "refusal-test", annotateSource, "-O1", "-g")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PERF_CONFIG", "/dev/null")
	text := "comm pid=10 tid=10 name=w time=1\n" +
		"mmap2 pid=10 tid=10 start=0x400000 len=0x100000 prot=5 flags=2 name=" + prog + " time=2\n" +
		"sample ip=0x" + strconv.FormatUint(0x400000+offsetOf(t, prog, "leaf"), 16) + " pid=10 tid=10 time=3 period=6\n"
	for _, tt := range []struct {
		name, text string
		args       []string
		code       int
		want       string
	}{
		{"O06", text, []string{"--symfs", "/", "--objdump=/nonexistent/objdump"}, 1, "/nonexistent/objdump"},
		{"O08", text, []string{"--symfs", "/", "--objdump=riscv64-linux-gnu-objdump"}, 1, "wrong architecture"},
		{"O09 no samples", text, []string{"--symfs", "/", "-s", "main"}, 1, `no samples in a function "main"`},
		{"O09 no file", strings.ReplaceAll(text, prog, "/nonexistent/prog"), nil, 1, "unnamed: /nonexistent/prog"},
		{"no object", text, []string{"--symfs", "/", "-d", "nosuch"}, 1, `no samples in a function of "nosuch"`},
		{"limit", text, []string{"--symfs", "/", "--percent-limit", "101"}, 1, "no function has 101 percent"},
		{"two symbols", text, []string{"leaf", "main"}, 2, "2 symbols; want one"},
		{"style", text, []string{"-M", "masm"}, 2, "want att or intel"},
		{"type", text, []string{"--percent-type", "x"}, 2, "local-period"},
		{"prefix", text, []string{"--prefix-strip", "1"}, 2, "--prefix-strip needs --prefix"},
		{"map", text, []string{"--prefix-map", "x"}, 2, "want OLD=NEW"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "O08" {
				perftest.NeedTool(t, "riscv64-linux-gnu-objdump")
			}
			code, out, errs := runArgs(t, "", append([]string{"annotate", "-i", perftest.File(t, tt.text)}, tt.args...)...)
			if code != tt.code || out != "" || !strings.Contains(errs, tt.want) {
				t.Errorf("exit status %d, want %d; %q, want %q; %q", code, tt.code, errs, tt.want, out)
			}
		})
	}
}

// O07: objdumps print in many styles; what is read of them is the same.
func TestAnnotateObjdump(t *testing.T) {
	needIced(t)
	objdump := perftest.NeedTool(t, "objdump")
	prog := perftest.CC(t, "objdump-test", annotateSource, "-O1", "-g")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PERF_CONFIG", "/dev/null")
	data := perftest.File(t, "comm pid=10 tid=10 name=w time=1\n"+
		"mmap2 pid=10 tid=10 start=0x400000 len=0x100000 prot=5 flags=2 name="+prog+" time=2\n"+
		"sample ip=0x"+strconv.FormatUint(0x400000+offsetOf(t, prog, "leaf"), 16)+" pid=10 tid=10 time=3 period=6\n")
	_, want, _ := runArgs(t, "", "annotate", "--symfs", "/", "-i", data, "-s", "leaf")
	if !strings.Contains(want, "<leaf>:") {
		t.Fatal(want)
	}
	dir := t.TempDir()
	for name, filter := range map[string]string{
		"plain":    "cat",
		"headless": "grep -v '^Disassembly'",
		"padded":   `sed -e 's/^ *\([0-9a-f]*\):/    \1: /'`,
		"slack":    `sed -e 's/$/   /'`,
	} {
		shim := filepath.Join(dir, name)
		if err := os.WriteFile(shim, []byte("#!/bin/sh\n"+objdump+" \"$@\" | "+filter+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if code, got, errs := runArgs(t, "", "annotate", "--symfs", "/", "-i", data, "-s", "leaf", "--objdump", shim); got != want {
			t.Errorf("%s: exit status %d: %s %s", name, code, firstDifference(got, want), errs)
		}
	}
}

// An objdump that fails, prints without end, prints anything, or leaves behind
// what holds its output, is said so.
func TestAnnotateObjdumpOdd(t *testing.T) {
	prog := perftest.CC(t, "odd-test", annotateSource, "-O1", "-g")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PERF_CONFIG", "/dev/null")
	data := perftest.File(t, "comm pid=10 tid=10 name=w time=1\n"+
		"mmap2 pid=10 tid=10 start=0x400000 len=0x100000 prot=5 flags=2 name="+prog+" time=2\n"+
		"sample ip=0x"+strconv.FormatUint(0x400000+offsetOf(t, prog, "leaf"), 16)+" pid=10 tid=10 time=3 period=6\n")
	const asked = "case $1 in -f) echo 'architecture: i386:x86-64, flags'; exit;; esac\n"
	dir := t.TempDir()
	for _, tt := range []struct{ name, script, want string }{
		{"fails", "exit 1", "fails: exit status 1\n"},
		{"endless", "exec yes", "prints more than 67108864 bytes"},
		{"nothing", asked, "prints no instruction at 0x"},
		{"garbage", asked + "head -c 100000 /dev/urandom", "prints no instruction at 0x"},
		{"held", "sleep 60 &", "WaitDelay expired"},
	} {
		shim := filepath.Join(dir, tt.name)
		if err := os.WriteFile(shim, []byte("#!/bin/sh\n"+tt.script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		code, out, errs := runArgs(t, "", "annotate", "--symfs", "/", "-i", data, "-s", "leaf", "--objdump", shim)
		if code != 1 || out != "" || !strings.Contains(errs, tt.want) {
			t.Errorf("%s: exit status %d: %q, want %q; %q", tt.name, code, errs, tt.want, out)
		}
	}
}

// TestAnnotateJSON reads the document back.
func TestAnnotateJSON(t *testing.T) {
	prog := perftest.CC(t, "json-test", annotateSource, "-O1", "-g")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PERF_CONFIG", "/dev/null")
	data := perftest.File(t, "comm pid=10 tid=10 name=w time=1\n"+
		"mmap2 pid=10 tid=10 start=0x400000 len=0x100000 prot=5 flags=2 name="+prog+" time=2\n"+
		"sample ip=0x"+strconv.FormatUint(0x400000+offsetOf(t, prog, "leaf"), 16)+" pid=10 tid=10 time=3 period=6\n")
	code, out, errs := runArgs(t, "", "annotate", "--json", "--symfs", "/", "-i", data)
	var doc annotate.Document
	if err := json.Unmarshal([]byte(out), &doc); err != nil || code != 0 {
		t.Fatalf("exit status %d, %v, %s", code, err, errs)
	}
	if doc.Schema != annotate.Schema || len(doc.Functions) != 1 || doc.Functions[0].Symbol != "leaf" || len(doc.Missing) != 0 {
		t.Fatalf("%+v", doc)
	}
	f := &doc.Functions[0]
	if first := f.Lines[0]; len(first.Counts) != 1 || first.Counts[0].Period != 6 || len(first.Frames) == 0 || first.Frames[0].Func != "leaf" {
		t.Errorf("%+v", first)
	}
}

// offsetOf is where a function of a program begins, in its file.
func offsetOf(t *testing.T, prog, name string) uint64 {
	t.Helper()
	f, err := elf.Open(prog)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	syms, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range syms {
		if s.Name != name {
			continue
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_LOAD && s.Value-p.Vaddr < p.Filesz {
				return s.Value - p.Vaddr + p.Off
			}
		}
	}
	t.Fatalf("%s has no %s", prog, name)
	return 0
}

// C15: of code made at run time there are instructions if a jitdump has them.
// Without one the reason is said.
func TestAnnotateJIT(t *testing.T) {
	h := newHost(t)
	h.cc("jit", jitSource)
	data := h.record("./jit", "map", "100")
	code, out, errs := runArgs(t, "", "annotate", "-i", data, "-s", "jit_hot")
	if code != 1 || out != "" || !strings.Contains(errs, "no code bytes were recorded") || !strings.Contains(errs, "hint: have the runtime write a jitdump") {
		t.Errorf("perf map: exit status %d, %s%s", code, out, errs)
	}
	data = h.record("-k", "mono", "./jit", "dump", "100", h.dir)
	for _, name := range []string{"jit_first", "jit_second"} {
		code, out, errs = runArgs(t, "", "annotate", "-i", data, "-s", name)
		if code != 0 || !strings.Contains(out, "<"+name+">:") || !strings.Contains(out, "dec    %eax") || !strings.Contains(out, "ret") {
			t.Errorf("%s: exit status %d, %s%s", name, code, out, errs)
		}
	}
}

// Kernel functions come from the vmlinux and the modules of the recorded Build
// IDs, wherever they ran.
func TestAnnotateKernel(t *testing.T) {
	needIced(t)
	gcc := perftest.NeedTool(t, "gcc")
	dir := t.TempDir()
	build := func(name, src string, flags ...string) string {
		t.Helper()
		out := filepath.Join(dir, name)
		if err := os.WriteFile(out+".s", []byte(src), 0o666); err != nil {
			t.Fatal(err)
		}
		if r := perftest.Run(t, dir, nil, nil, gcc, append([]string{"-nostdlib", "-o", out, out + ".s"}, flags...)...); r.Code != 0 {
			t.Skipf("gcc: %s", r.Stderr)
		}
		f, err := elf.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if f.Machine != elf.EM_X86_64 {
			t.Skip("not x86-64")
		}
		note, err := f.Section(".note.gnu.build-id").Data()
		if err != nil {
			t.Fatal(err)
		}
		return hex.EncodeToString(note[16:])
	}
	kernel := build("vmlinux", ".text\n.globl _text, _stext\n_text:\n_stext:\n.skip 64, 0x90\n.globl schedule\n.type schedule, @function\nschedule:\n\tnop\n\tcall pick_next\n\tret\n.size schedule, .-schedule\n.type pick_next, @function\npick_next:\n\tinc %eax\n\tret\n.size pick_next, .-pick_next\n",
		"-static", "-Wl,-Ttext=0xffffffff81000000,-e,_text,--build-id")
	module := build("mod.ko", ".text\n.skip 16, 0x90\n.type mod_work, @function\nmod_work:\n\tdec %ecx\n\tjnz mod_work\n\tret\n.size mod_work, .-mod_work\n",
		"-r", "-Wl,--build-id")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PERF_CONFIG", "/dev/null")
	cache := filepath.Join(dir, "cache")
	for _, name := range []string{"vmlinux", "mod.ko"} {
		if code, _, errs := runArgs(t, "", "--buildid-dir", cache, "buildid-cache", "-a", filepath.Join(dir, name)); code != 0 {
			t.Fatal(errs)
		}
	}
	data := perftest.File(t, `mmap pid=-1 tid=0 start=0xffffffff9d000000 len=0x1000 pgoff=0xffffffff9d000000 name="[kernel.kallsyms]_text" misc=1
mmap pid=-1 tid=0 start=0xffffffffc0100000 len=0x1000 name=/lib/modules/6.1/mod.ko misc=1
comm pid=10 tid=10 name=w time=1
sample ip=0xffffffff9d000041 pid=10 tid=10 time=3 period=6 misc=1
sample ip=0xffffffffc0100010 pid=10 tid=10 time=4 period=5 misc=1
feature build_id {
	build_id pid=-1 id=`+kernel+` name=[kernel.kallsyms] misc=1
	build_id pid=-1 id=`+module+` name=/lib/modules/6.1/mod.ko misc=1
}
`)
	code, out, errs := runArgs(t, "", "--buildid-dir", cache, "annotate", "-i", data)
	if code != 0 {
		t.Errorf("exit status %d: %s", code, errs)
	}
	for _, want := range []string{
		"ffffffff81000040 <schedule>:", "  100.00 :   ffffffff81000041:       call   ffffffff81000047 <pick_next>",
		"0000000000000010 <mod_work>:", "  100.00 :   10:     dec    %ecx", "    0.00 :   12:     jne    10 <mod_work>",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	code, _, errs = runArgs(t, "", "--buildid-dir", t.TempDir(), "annotate", "-i", data)
	if code != 1 {
		t.Errorf("without files: exit status %d: %s", code, errs)
	}
}

// Programs of other languages annotate from their bundles, where neither
// program nor source is.
func TestAnnotateLanguages(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles programs")
	}
	perftest.NeedTool(t, "perf")
	const goSource = `package main

import "fmt"

//go:noinline
func work(n int) (t int) {
	for i := range n {
		t += i * i % 7
	}
	return t
}

func main() {
	t := 0
	for i := range 3000 {
		t += work(50000 + i)
	}
	fmt.Println(t)
}
`
	const cxxSource = `#include <cstdio>
#include <vector>
namespace shop {
template <int N> __attribute__((noinline)) long mix(std::vector<long> &v) {
	long t = 0;
	for (auto x : v)
		t = t * 31 + (x ^ N);
	return t;
}
}
int main() {
	std::vector<long> v(20000);
	long sum = 0;
	for (int i = 0; i < 12000; i++) {
		v[i] = sum; // else once would do
		sum += shop::mix<3>(v);
	}
	printf("%ld\n", sum);
	return 0;
}
`
	const rustSource = `#[inline(never)]
fn work(n: u64) -> u64 {
    let mut t = 0u64;
    for i in 0..n {
        t = t.wrapping_add(i * i % 7);
    }
    t
}

fn main() {
    let mut t = 0u64;
    for i in 0..3000 {
        t += work(50000 + i);
    }
    println!("{}", t);
}
`
	for _, tt := range []struct {
		tool, file, source string
		args               []string
		symbol, text       string
		label              string // "": that of the symbol
	}{
		{"go", "work.go", goSource, []string{"build", "-o", "work", "work.go"}, "main.work", "t += i * i % 7", ""},
		{"g++", "shop.cc", cxxSource, []string{"-O2", "-g", "-o", "work", "shop.cc"}, "shop::mix<3>", "t = t * 31 + (x ^ N);", "<long shop::mix<3>(std::vector<long, std::allocator<long> >&)>:"},
		{"rustc", "work.rs", rustSource, []string{"-O", "-g", "-o", "work", "work.rs"}, "work::work", "t = t.wrapping_add(i * i % 7);", ""},
	} {
		t.Run(tt.tool, func(t *testing.T) {
			tool := perftest.NeedTool(t, tt.tool)
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, tt.file), []byte(tt.source), 0o666); err != nil {
				t.Fatal(err)
			}
			if r := perftest.Run(t, dir, nil, nil, tool, tt.args...); r.Code != 0 {
				t.Skipf("%s: %s", tt.tool, r.Stderr)
			}
			data := perftest.Record(t, "-e", "cpu-clock:u", "-F", "1000", "--", filepath.Join(dir, "work"))
			t.Setenv("HOME", t.TempDir())
			t.Setenv("PERF_CONFIG", "/dev/null")
			bundle := filepath.Join(t.TempDir(), "x.perfark")
			if code, _, errs := runArgs(t, "", "archive", "--all", "--allow-missing", "--sources", "hot", "-o", bundle, data); code != 0 {
				t.Fatal(errs)
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", "/nonexistent")
			t.Setenv("HOME", t.TempDir())
			code, out, errs := runArgs(t, "", "annotate", "-i", bundle, "-s", tt.symbol)
			if code != 0 || !strings.Contains(out, tt.text) || !strings.Contains(out, cmp.Or(tt.label, "<"+tt.symbol+">:")) {
				t.Errorf("exit status %d: %s\n%s", code, errs, out)
			}
		})
	}
}

// A source file at the recorded path counts if it has the checksum that DWARF
// 5 has of it, whatever its time.
func TestAnnotateSourceSum(t *testing.T) {
	perftest.NeedTool(t, "perf")
	dir := t.TempDir()
	src, prog := filepath.Join(dir, "sum.c"), filepath.Join(dir, "sum")
	if err := os.WriteFile(src, []byte(annotateSource), 0o666); err != nil {
		t.Fatal(err)
	}
	clang := ""
	for _, name := range []string{"clang", "clang-14", "clang-19"} {
		if path, err := exec.LookPath(name); err == nil && clang == "" {
			clang = path
		}
	}
	if clang == "" {
		t.Skip("NOTICE: no clang here; install it for this test")
	}
	if r := perftest.Run(t, dir, nil, nil, clang, "-O1", "-g", "-gdwarf-5", "-o", prog, src); r.Code != 0 {
		t.Skipf("clang: %s", r.Stderr)
	}
	data := perftest.Record(t, "-e", "cpu-clock:u", "-F", "1000", "--", prog)
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PERF_CONFIG", "/dev/null")
	// An index has the lines, but no checksums.
	indexed := filepath.Join(dir, "sum.perfark")
	if code, _, errs := runArgs(t, "", "archive", "--all", "--index", "--allow-missing", "-o", indexed, data); code != 0 {
		t.Fatalf("archive: exit status %d: %s", code, errs)
	}
	for _, tt := range []struct {
		text  string
		when  time.Duration
		shown bool
	}{
		{annotateSource, time.Hour, true},
		{annotateSource, -time.Hour, true},
		{strings.Replace(annotateSource, "s -= 1", "s -= 2", 1), -time.Hour, false},
	} {
		if err := os.WriteFile(src, []byte(tt.text), 0o666); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(tt.when)
		if err := os.Chtimes(src, at, at); err != nil {
			t.Fatal(err)
		}
		for _, flags := range [][]string{{"--no-index"}, {"-i", indexed}, {"--source-dir", dir}, {"--prefix-map", dir + "=" + dir}, {"--prefix", "/"}} {
			args := append([]string{"annotate", "-i", data, "-s", "leaf"}, flags...)
			code, out, errs := runArgs(t, "", args...)
			shown := strings.Contains(out, "s += square(i);")
			if code != 0 || shown != tt.shown || !shown && !strings.Contains(errs, "changed") {
				t.Errorf("%q, %v: exit status %d, source text %v, want %v: %s", flags, tt.when, code, shown, tt.shown, errs)
			}
		}
	}
}

// Code of other machines is read by perfark, or by an objdump that knows them.
func TestAnnotateCross(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PERF_CONFIG", "/dev/null")
	const source = "__attribute__((noinline)) int work(int n) { int t = 0; for (int i = 0; i < n; i++) t += i ^ n; return t; }\nint main(void) { return work(3); }\n"
	for _, tt := range []struct {
		triple string
		alone  bool // without objdump
		want   string
	}{
		{"aarch64-linux-gnu", true, "ret"},
		{"riscv64-linux-gnu", true, "ret"},
		{"s390x-linux-gnu", true, "%r14"},
		{"powerpc64le-linux-gnu", true, "blr"},
		{"arm-linux-gnueabihf", true, ".inst"},
		{"mips-linux-gnu", false, "jr"},
	} {
		t.Run(tt.triple, func(t *testing.T) {
			gcc, objdump := perftest.NeedTool(t, tt.triple+"-gcc"), perftest.NeedTool(t, tt.triple+"-objdump")
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "x.c"), []byte(source), 0o666); err != nil {
				t.Fatal(err)
			}
			if r := perftest.Run(t, dir, nil, nil, gcc, "-O1", "-g", "-nostdlib", "-shared", "-fPIC", "-o", "x.so", "x.c"); r.Code != 0 {
				t.Skipf("gcc: %s", r.Stderr)
			}
			prog := filepath.Join(dir, "x.so")
			data := perftest.File(t, "comm pid=10 tid=10 name=w time=1\n"+
				"mmap2 pid=10 tid=10 start=0x400000 len=0x100000 prot=5 flags=2 name="+prog+" time=2\n"+
				"sample ip=0x"+strconv.FormatUint((0x400000+offsetOf(t, prog, "work"))&^1, 16)+" pid=10 tid=10 time=3 period=6\n")
			code, out, errs := runArgs(t, "", "annotate", "--symfs", "/", "-i", data, "-s", "work")
			switch {
			case tt.alone && (code != 0 || !strings.Contains(out, "<work>:") || !strings.Contains(out, tt.want)):
				t.Errorf("exit status %d: %s%s", code, errs, out)
			case !tt.alone && (code != 1 || !strings.Contains(errs, "--objdump=PATH")):
				t.Errorf("exit status %d: %s%s", code, errs, out)
			}
			code, out, errs = runArgs(t, "", "annotate", "--symfs", "/", "-i", data, "-s", "work", "--objdump", objdump)
			if code != 0 || !strings.Contains(out, "<work>:") || strings.Contains(out, ".inst") {
				t.Errorf("objdump: exit status %d: %s%s", code, errs, out)
			}
		})
	}
}

// A function is found by any of its names; what has no name is said if all
// functions are wanted, as in a report, but not with --skip-missing.
func TestAnnotateNames(t *testing.T) {
	prog := perftest.CC(t, "names-test", annotateSource+"int other_name(int) __attribute__((alias(\"leaf\")));\n", "-O1", "-g", "-Wno-attribute-alias")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PERF_CONFIG", "/dev/null")
	data := perftest.File(t, "comm pid=10 tid=10 name=w time=1\n"+
		"mmap2 pid=10 tid=10 start=0x400000 len=0x100000 prot=5 flags=2 name="+prog+" time=2\n"+
		"mmap2 pid=10 tid=10 start=0x800000 len=0x1000 prot=5 flags=2 name=/nonexistent/x time=2\n"+
		"sample ip=0x"+strconv.FormatUint(0x400000+offsetOf(t, prog, "leaf"), 16)+" pid=10 tid=10 time=3 period=6\n"+
		"sample ip=0x800010 pid=10 tid=10 time=4 period=3\n")
	var pages []string
	for _, name := range []string{"leaf", "other_name"} {
		code, out, errs := runArgs(t, "", "annotate", "--symfs", "/", "-i", data, "-s", name)
		if code != 0 || !strings.Contains(out, "ret") {
			t.Errorf("-s %s: exit status %d: %s%s", name, code, errs, out)
		}
		pages = append(pages, out)
	}
	if pages[0] != pages[1] {
		t.Errorf("by another name it is\n%s\nwant\n%s", pages[1], pages[0])
	}
	code, whole, errs := runArgs(t, "", "annotate", "--symfs", "/", "-i", data)
	if code != 0 || !strings.Contains(errs, "unnamed: /nonexistent/x") {
		t.Errorf("exit status %d: %s", code, errs)
	}
	code, out, errs := runArgs(t, "", "annotate", "--symfs", "/", "-i", data, "--skip-missing")
	if code != 0 || out != whole || strings.Contains(errs, "/nonexistent/x") {
		t.Errorf("--skip-missing: exit status %d: %s%s", code, errs, out)
	}
}
