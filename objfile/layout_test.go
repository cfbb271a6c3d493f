package objfile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
)

// mapsSource prints where functions are in memory, and the mapping of each:
// NAME ADDRESS START PGOFF PATH, as perf sees it.
const mapsSource = `#include <stdio.h>
#include <string.h>
volatile unsigned long sink;
__attribute__((noinline)) void hot_leaf(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i * i; }
__attribute__((noinline)) void hot_mid(unsigned long n) { hot_leaf(n); sink++; }
__attribute__((noinline, section(".text.other"))) void hot_other(unsigned long n) { sink += n; }
__attribute__((noinline, section("elsewhere"))) void hot_elsewhere(unsigned long n) { sink -= n; }
static void where(const char *name, void *p) {
	char line[4096], path[4096];
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long start, end, off;
	while (fgets(line, sizeof line, f)) {
		path[0] = 0;
		sscanf(line, "%lx-%lx %*s %lx %*s %*s %[^\n]", &start, &end, &off, path);
		if (start <= (unsigned long)p && (unsigned long)p < end)
			printf("%s %lx %lx %lx %s\n", name, (unsigned long)p, start, off, path);
	}
	fclose(f);
}
int main(void) {
	hot_mid(3), hot_other(1), hot_elsewhere(1);
	where("hot_leaf", hot_leaf), where("hot_mid", hot_mid), where("main", main);
	where("hot_other", hot_other), where("hot_elsewhere", hot_elsewhere);
	return 0;
}
`

// A linker is one that gcc can be told to use.
type linker struct {
	name  string
	flags []string // for gcc
}

// linkers returns those that are installed.
func linkers(t *testing.T) []linker {
	out := []linker{{"bfd", []string{"-fuse-ld=bfd"}}}
	for _, l := range []struct{ name, prog string }{{"lld", "ld.lld"}, {"mold", "mold"}, {"gold", "ld.gold"}} {
		if _, err := exec.LookPath(l.prog); err != nil {
			t.Logf("NOTICE: no %s here", l.prog)
			continue
		}
		out = append(out, linker{l.name, []string{"-fuse-ld=" + l.name}})
	}
	return out
}

// layouts builds source in every layout that linkers give a program. use is
// called for each.
func layouts(t *testing.T, source string, use func(name string, linker linker, flags []string)) {
	t.Helper()
	perftest.NeedTool(t, "gcc")
	dir := t.TempDir()
	src := filepath.Join(dir, "p.c")
	if err := os.WriteFile(src, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	obj := map[string]string{}
	for _, pic := range []string{"-fPIE", "-fno-pie"} {
		obj[pic] = filepath.Join(dir, "p"+pic+".o")
		if out, err := exec.Command("gcc", "-O1", "-g", pic, "-c", "-o", obj[pic], src).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	n := 0
	for _, l := range linkers(t) {
		for _, kind := range []string{"-pie", "-no-pie", "-static", "-static-pie"} {
			for _, layout := range []string{"", "-z,separate-code", "-z,noseparate-code", "--no-rosegment", "-z,max-page-size=0x200000", "-z,max-page-size=65536", "-z,separate-loadable-segments", "-Ttext-segment=0x40000000", "-N"} {
				if strings.HasPrefix(layout, "-T") && !strings.HasPrefix(kind, "-no") {
					continue
				}
				if strings.HasPrefix(kind, "-static") && layout != "" && (testing.Short() || raceFactor > 1 || strings.Contains(layout, "65536")) {
					continue
				}
				pic := "-fPIE"
				if kind == "-no-pie" || kind == "-static" {
					pic = "-fno-pie"
				}
				flags := append([]string{kind, "-Wl,--build-id"}, l.flags...)
				if layout != "" {
					flags = append(flags, "-Wl,"+layout)
				}
				name := filepath.Join(dir, fmt.Sprintf("p%d", n))
				n++
				if out, err := exec.Command("gcc", append([]string{"-o", name, obj[pic]}, flags...)...).CombinedOutput(); err != nil {
					if layout == "" {
						t.Logf("NOTICE: %s %s: %s", l.name, kind, out)
					}
					continue // the linker has no such layout
				}
				use(name, l, flags)
				os.Remove(name)
			}
		}
	}
}

// mapped runs a program made of mapsSource and checks that what the kernel
// mapped where leads to the right names.
func mapped(t *testing.T, what, name string, tab *Table) {
	t.Helper()
	out, err := exec.Command(name).Output()
	if err != nil {
		t.Logf("NOTICE: %s does not run: %v", what, err)
		return
	}
	n := 0
	for line := range strings.Lines(string(out)) {
		w := strings.Fields(line)
		if len(w) < 5 || w[4] != name {
			continue
		}
		var v [3]uint64
		for i := range v {
			if v[i], err = strconv.ParseUint(w[1+i], 16, 64); err != nil {
				t.Fatal(err)
			}
		}
		addr := v[0] - v[1] + v[2]
		if s, ok := tab.Lookup(addr); !ok || s.Name != w[0] || s.Start != addr {
			t.Errorf("%s: %s at offset %#x: got %+v, %v", what, w[0], addr, s, ok)
		}
		n++
	}
	if n != 5 {
		t.Errorf("%s: %d functions are mapped from the file: %s", what, n, out)
	}
}

// TestLayouts is S01, S03, S05 and S06: wherever linkers put segments, the
// names of the addresses that the kernel gives them are those of nm.
func TestLayouts(t *testing.T) {
	n := 0
	layouts(t, mapsSource, func(name string, l linker, flags []string) {
		n++
		what := l.name + " " + strings.Join(flags, " ")
		f := openTest(t, name)
		tab, err := f.Symbols(SymbolOptions{})
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		mapped(t, what, name, tab)
		ref, err := elf.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer ref.Close()
		syms, err := ref.Symbols()
		if err != nil {
			t.Fatal(err)
		}
		at := map[uint64][]string{}
		for _, s := range syms {
			if s.Section != elf.SHN_UNDEF {
				at[s.Value] = append(at[s.Value], s.Name)
			}
		}
		bad := 0
		for _, s := range syms {
			if elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Section == elf.SHN_UNDEF || s.Size == 0 {
				continue
			}
			for _, p := range ref.Progs {
				if p.Type != elf.PT_LOAD || s.Value < p.Vaddr || s.Value >= p.Vaddr+p.Filesz {
					continue
				}
				off := s.Value - p.Vaddr + p.Off
				got, ok := tab.Lookup(off)
				right := false
				for _, n := range at[s.Value] {
					right = right || n == got.Name
				}
				if !ok || !right || got.Start != off {
					if bad++; bad < 4 {
						t.Errorf("%s: %s at offset %#x: got %+v", what, s.Name, off, got)
					}
				}
			}
		}
		// S09: the debug file has other program headers, and the stripped one
		// has no names.
		if strings.Contains(what, "-static") {
			return
		}
		debugged(t, what, name)
	})
	t.Logf("%d layouts", n)
}

// debugged strips a program as distributions do, and looks for its names with
// its debug file.
func debugged(t *testing.T, what, name string) {
	t.Helper()
	for _, tool := range [][]string{
		{"sh", "-ec", `objcopy --only-keep-debug "$1" "$1.debug"; objcopy --strip-all --add-gnu-debuglink="$1.debug" "$1" "$1.stripped"`},
		{"sh", "-ec", `eu-strip -f "$1.debug" -o "$1.stripped" "$1"`},
	} {
		if _, err := exec.LookPath(strings.Fields(tool[2])[0]); err != nil {
			t.Logf("NOTICE: no %s here", strings.Fields(tool[2])[0])
			continue
		}
		if out, err := exec.Command(tool[0], append(tool[1:], "sh", name)...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", what, err, out)
			continue
		}
		if err := os.Rename(name+".stripped", name); err != nil {
			t.Fatal(err)
		}
		debug, runtime := openTest(t, name+".debug"), openTest(t, name)
		tab, err := debug.SymbolsWith(runtime, SymbolOptions{})
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		mapped(t, what+" with its debug file", name, tab)
		os.Remove(name + ".debug")
		break // what is stripped is stripped
	}
}

// TestDebugFilePlaces is S09 with the stripper of each kind.
func TestDebugFilePlaces(t *testing.T) {
	for _, l := range linkers(t) {
		if l.name != "gold" { // it knows one layout
			l.flags = append(l.flags, "-Wl,-z,separate-code")
		}
		name := perftest.CC(t, "p", mapsSource, append(l.flags, "-O1", "-g", "-Wl,--build-id")...)
		whole := openTest(t, name)
		want, err := whole.Symbols(SymbolOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, script := range []string{
			`objcopy --only-keep-debug p p.debug; objcopy --strip-all p p.stripped`,
			`objcopy --only-keep-debug --compress-debug-sections=zlib p p.debug; strip -o p.stripped p`,
			`eu-strip -f p.debug -o p.stripped p`,
			`eu-strip --reloc-debug-sections -f p.debug -o p.stripped p`,
			`llvm-objcopy-14 --only-keep-debug p p.debug; llvm-objcopy-14 --strip-all p p.stripped`,
		} {
			if _, err := exec.LookPath(strings.Fields(script)[0]); err != nil {
				continue
			}
			cmd := exec.Command("sh", "-ec", script)
			cmd.Dir = filepath.Dir(name)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			got, err := openTest(t, name+".debug").SymbolsWith(openTest(t, name+".stripped"), SymbolOptions{})
			if err != nil {
				t.Errorf("%s: %s: %v", l.name, script, err)
				continue
			}
			for _, n := range []string{"hot_leaf", "hot_mid", "hot_other", "hot_elsewhere", "main", "_start"} {
				a, ok := got.Address(n)
				b, _ := want.Address(n)
				if !ok || a != b {
					t.Errorf("%s: %s: %s is at %#x, want %#x", l.name, script, n, a, b)
				}
			}
		}
	}
}

// move adds distance to all addresses of an ELF file's headers and symbols, as
// prelink does.
func move(t *testing.T, b []byte, distance uint64) []byte {
	t.Helper()
	b = bytes.Clone(b)
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	le := binary.LittleEndian
	add := func(at uint64) {
		if v := le.Uint64(b[at:]); v != 0 {
			le.PutUint64(b[at:], v+distance)
		}
	}
	phoff, shoff := le.Uint64(b[32:]), le.Uint64(b[40:])
	for i := range f.Progs {
		at := phoff + uint64(i)*56
		le.PutUint64(b[at+16:], le.Uint64(b[at+16:])+distance)
		le.PutUint64(b[at+24:], le.Uint64(b[at+24:])+distance)
	}
	for i, s := range f.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 {
			add(shoff + uint64(i)*64 + 16)
		}
		if (s.Type == elf.SHT_SYMTAB || s.Type == elf.SHT_DYNSYM) && s.Offset+s.Size <= uint64(len(b)) {
			for at := s.Offset + 24; at < s.Offset+s.Size; at += 24 {
				if x := le.Uint16(b[at+6:]); x != 0 && x < 0xff00 {
					add(at + 8)
				}
			}
		}
	}
	return b
}

// TestPrelinked: a program that was moved after its debug file was made.
func TestPrelinked(t *testing.T) {
	perftest.NeedTool(t, "objcopy")
	name := perftest.CC(t, "p", mapsSource, "-O1", "-g", "-Wl,--build-id", "-shared", "-fPIC")
	whole, err := openTest(t, name).Symbols(SymbolOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-ec", `objcopy --only-keep-debug p p.debug; objcopy --strip-all p p.stripped`)
	cmd.Dir = filepath.Dir(name)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	stripped, err := os.ReadFile(name + ".stripped")
	if err != nil {
		t.Fatal(err)
	}
	debug := openTest(t, name+".debug")
	for _, tt := range []struct {
		distance uint64
		ok       bool
	}{{0, true}, {0x41000000, true}, {0x3000, true}, {0x41000010, false}} {
		moved := openBytes(t, move(t, stripped, tt.distance))
		tab, err := debug.SymbolsWith(moved, SymbolOptions{})
		if (err == nil) != tt.ok {
			t.Errorf("by %#x: %v", tt.distance, err)
		}
		if err != nil {
			continue
		}
		for _, n := range []string{"hot_leaf", "hot_mid", "hot_other", "hot_elsewhere"} {
			at, _ := whole.Address(n)
			if s, ok := tab.Lookup(at + 2); !ok || s.Name != n || s.Start != at {
				t.Errorf("by %#x: %s: got %+v, want it at %#x", tt.distance, n, s, at)
			}
		}
	}
}
