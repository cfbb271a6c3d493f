package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/perfark/perfark/internal/perftest"
)

// slimHot is the unit of the program that runs, with functions inlined into
// each other; slimCold is one of those that do not.
const slimHot = `
#include <stdio.h>
#include <stdlib.h>
static inline unsigned mix(unsigned x, unsigned i) {
	x ^= x << 13;
	x ^= x >> 17;
	return x * 2654435761u + i;
}
static inline unsigned twice(unsigned x, unsigned i) {
	return mix(mix(x, i), i + 1);
}
__attribute__((noinline)) unsigned hot(unsigned n) {
	unsigned x = 1;
	for (unsigned i = 0; i < n; i++)
		x = twice(x, i);
	return x;
}
__attribute__((noinline)) unsigned other(unsigned n) {
	return hot(n) + hot(n / 2);
}
int cold0(int);
__attribute__((noinline, aligned(256))) unsigned warm(unsigned n) {
	unsigned x = 7;
	for (unsigned i = 0; i < n; i++)
		x = x * 31 + (x >> 5);
	return x;
}
int main(int argc, char **argv) {
	unsigned s = 0;
	for (int i = 0; i < 40; i++)
		s += argc == 2 ? other(atoi(argv[1])) : warm(2 * atoi(argv[1]));
	if (argc > 3)
		s += cold0(argc);
	printf("%u\n", s);
}
`

// slimCold is a unit with many functions, types and data.
func slimCold(n int) string {
	var b strings.Builder
	b.WriteString("#include <stdio.h>\n#include <stdlib.h>\n")
	for i := range 60 {
		fmt.Fprintf(&b, "struct s%d_%d { int a, b[%d]; struct s%d_%d *next; };\n", n, i, i+1, n, i)
		fmt.Fprintf(&b, "static const char *text%d_%d = \"text number %d of %d\";\n", n, i, i, n)
		fmt.Fprintf(&b, "__attribute__((noinline)) int f%d_%d(int x) { struct s%d_%d s = {x}; for (int i = 0; i < x; i++) s.b[i %% %d] += printf(\"%%s %%d\", text%d_%d, i * %d); return s.b[x %% %d] + s.a; }\n",
			n, i, n, i, i+1, n, i, i, i+1)
	}
	fmt.Fprintf(&b, "int cold%d(int x) { int s = 0;", n)
	for i := range 60 {
		fmt.Fprintf(&b, " s += f%d_%d(x);", n, i)
	}
	b.WriteString(" return s; }\n")
	return b.String()
}

// slimProgram compiles the program with flags.
func slimProgram(t *testing.T, dir, cc string, flags ...string) string {
	t.Helper()
	for _, name := range []string{cc, cc + "-19", cc + "-14"} {
		if _, err := exec.LookPath(name); err == nil {
			cc = name
			break
		}
	}
	perftest.NeedTool(t, cc)
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	prog := filepath.Join(dir, "prog")
	args := append([]string{"-O2", "-g", "-Wl,--build-id=uuid", "-o", prog}, flags...)
	args = append(args, write("hot.c", slimHot))
	for i := range 6 {
		args = append(args, write(fmt.Sprintf("cold%d.c", i), slimCold(i)))
	}
	if r := perftest.Run(t, dir, nil, nil, cc, args...); r.Code != 0 {
		t.Fatalf("%s: %s", cc, r.Stderr)
	}
	return prog
}

// slimCopies records the program, and unpacks a whole and a slim archive of it
// into directories of their own. It returns the two copies of the program.
func slimCopies(t *testing.T, prog string) (data string, dirs, copies [2]string) {
	t.Helper()
	data = perftest.Record(t, "-q", "-e", "cpu-clock", "-F", "999", "-g", "--", prog, "3000000")
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("PERF_CONFIG", "/dev/null")
	sizes := [2]int64{}
	for i, args := range [][]string{{}, {"--slim"}} {
		arc := filepath.Join(home, fmt.Sprintf("a%d.tar.zst", i))
		code, _, errs := runArgs(t, "", append([]string{"archive", "--allow-missing", "-q", "-o", arc, data}, args...)...)
		if code != 0 {
			t.Fatalf("archive %v: exit status %d\n%s", args, code, errs)
		}
		fi, err := os.Stat(arc)
		if err != nil {
			t.Fatal(err)
		}
		sizes[i] = fi.Size()
		dirs[i] = filepath.Join(home, fmt.Sprintf("debug%d", i))
		if code, _, errs := runArgs(t, "", "unpack", "-q", "-C", dirs[i], arc); code != 0 {
			t.Fatalf("unpack: exit status %d\n%s", code, errs)
		}
		found, err := filepath.Glob(filepath.Join(dirs[i], prog, "*", "elf"))
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %v %v", dirs[i], found, err)
		}
		copies[i] = found[0]
		code, out, errs := runArgs(t, "", "verify", "--allow-missing", arc, data)
		if code != 0 || strings.Contains(out, " slim\n") != (i == 1) {
			t.Errorf("verify: exit status %d\n%s%s", code, out, errs)
		}
	}
	if sizes[1] >= sizes[0] {
		t.Errorf("the slim archive has %d bytes, the whole one %d", sizes[1], sizes[0])
	}
	return data, dirs, copies
}

// TestSlimTools compares what tools say of a slim copy with what they say of
// the whole one: perf's report and annotation, readelf, addr2line,
// llvm-symbolizer, objdump, gdb.
func TestSlimTools(t *testing.T) {
	if testing.Short() {
		t.Skip("NOTICE: many tools are run")
	}
	for _, tt := range []struct {
		name  string
		cc    string
		flags []string
	}{
		{"lto", "gcc", []string{"-flto"}},
		{"compressed", "gcc", []string{"-gz=zlib", "-gdwarf-4", "-no-pie"}},
		{"clang", "clang", []string{"-gdwarf-5"}},
		{"index", "gcc", []string{"-fuse-ld=gold", "-ggnu-pubnames", "-Wl,--gdb-index"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			prog := slimProgram(t, t.TempDir(), tt.cc, tt.flags...)
			data, dirs, copies := slimCopies(t, prog)
			same := func(what string, run func(i int) string) {
				t.Helper()
				want, got := run(0), run(1)
				if d := gocmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); d != "" {
					t.Errorf("%s of the slim copy, -whole +slim:\n%.3000s", what, d)
				}
			}
			tips := regexp.MustCompile(`(?m)^# \(Tip.*\n|` + regexp.QuoteMeta(dirs[0]) + `|` + regexp.QuoteMeta(dirs[1]))
			perf := func(args ...string) func(int) string {
				return func(i int) string {
					r := perftest.PerfIn(t, t.TempDir(), t.TempDir(), nil, append([]string{"--buildid-dir", dirs[i]}, args...)...)
					return tips.ReplaceAllString(r.Stdout, "")
				}
			}
			same("perf report", perf("report", "-i", data, "--stdio", "--no-children"))
			for _, sym := range []string{"hot", "other", "main"} {
				same("perf annotate "+sym, perf("annotate", "-i", data, "--stdio", "-s", sym))
			}
			tool := func(name string, args ...string) func(int) string {
				return func(i int) string {
					r := perftest.Run(t, t.TempDir(), perftest.Env(t.TempDir()), nil, name, append(args[:len(args):len(args)], copies[i])...)
					return fmt.Sprintf("exit status %d\n%s%s", r.Code, strings.ReplaceAll(r.Stdout, copies[i], "COPY"), strings.ReplaceAll(r.Stderr, copies[i], "COPY"))
				}
			}
			perftest.NeedTool(t, "readelf")
			same("readelf -hlSsdnV", func(i int) string {
				return regexp.MustCompile(`(?m)^  Magic:.*\n`).ReplaceAllString(tool("readelf", "-hlSsdnVW")(i), "")
			})
			if r := perftest.Run(t, t.TempDir(), nil, nil, "readelf", "-aW", copies[1]); r.Stderr != "" || r.Code != 0 {
				t.Errorf("readelf -a: exit status %d\n%s", r.Code, r.Stderr)
			}
			same("objdump -h", tool("objdump", "-h"))
			same("readelf --debug-dump=decodedline", func(i int) string {
				// Of units without entries it says so on standard error.
				return perftest.Run(t, t.TempDir(), nil, nil, "readelf", "--debug-dump=decodedline", copies[i]).Stdout
			})
			addrs := addressesOf(t, copies[0], "hot", "other", "main")
			for _, name := range []string{"addr2line", "llvm-symbolizer"} {
				if _, err := os.Stat("/usr/bin/" + name); err != nil {
					t.Logf("NOTICE: no %s here", name)
					continue
				}
				same(name, func(i int) string {
					args := append([]string{"-f", "-i", "-e", copies[i]}, addrs...)
					r := perftest.Run(t, t.TempDir(), nil, nil, name, args...)
					return r.Stdout + r.Stderr
				})
			}
			if _, err := os.Stat("/usr/bin/gdb"); err == nil {
				same("gdb", tool("gdb", "-nx", "-batch", "-ex", "info line hot", "-ex", "disassemble hot", "-ex", "info symbol cold0"))
			}
			r := perftest.Run(t, t.TempDir(), nil, nil, "objdump", "-d", "--disassemble=f2_7", copies[1])
			if r.Code != 0 || r.Stderr != "" {
				t.Errorf("objdump: exit status %d\n%s", r.Code, r.Stderr)
			}
			if tt.name != "lto" && !strings.Contains(r.Stdout, "<f2_7>:\n\t...\n") {
				t.Errorf("f2_7 has code:\n%.500s", r.Stdout)
			}
		})
	}
}

// addressesOf lists addresses in functions of a program.
func addressesOf(t *testing.T, name string, funcs ...string) []string {
	t.Helper()
	r := perftest.Run(t, t.TempDir(), nil, nil, "nm", "-S", name)
	var out []string
	for line := range strings.Lines(r.Stdout) {
		var start, size uint64
		var typ, sym string
		if n, _ := fmt.Sscanf(line, "%x %x %s %s", &start, &size, &typ, &sym); n != 4 {
			continue
		}
		for _, f := range funcs {
			if f == sym {
				for a := start; a < start+size; a += 3 {
					out = append(out, fmt.Sprintf("%#x", a))
				}
			}
		}
	}
	if len(out) == 0 {
		t.Fatalf("%s: none of %v", name, funcs)
	}
	return out
}

// TestSlimStore puts slim and whole copies into one cache, in every order: the
// whole one stays or wins, and of two slim ones the result has what both have.
func TestSlimStore(t *testing.T) {
	prog := slimProgram(t, t.TempDir(), "gcc")
	data, _, copies := slimCopies(t, prog)
	// Another recording of the same program needs other code.
	more := perftest.Record(t, "-q", "-e", "cpu-clock", "-F", "999", "-g", "--", prog, "3000000", "x")
	home := os.Getenv("HOME")
	whole, err := os.ReadFile(copies[0])
	if err != nil {
		t.Fatal(err)
	}
	slim, err := os.ReadFile(copies[1])
	if err != nil {
		t.Fatal(err)
	}
	if string(slim[12:16]) != "slim" || len(slim) != len(whole) {
		t.Errorf("the slim copy of %d bytes, of %d, begins with %x", len(slim), len(whole), slim[:16])
	}
	arc := func(i int) string { return filepath.Join(home, fmt.Sprintf("a%d.tar.zst", i)) }
	if code, _, errs := runArgs(t, "", "archive", "--allow-missing", "-q", "--slim", "-o", arc(2), more); code != 0 {
		t.Fatalf("archive: %s", errs)
	}
	put := func(dir string, archives ...int) string {
		t.Helper()
		dir = filepath.Join(home, dir)
		for _, i := range archives {
			if code, _, errs := runArgs(t, "", "unpack", "-q", "-C", dir, arc(i)); code != 0 {
				t.Fatalf("unpack: exit status %d\n%s", code, errs)
			}
		}
		found, _ := filepath.Glob(filepath.Join(dir, prog, "*", "elf"))
		if len(found) != 1 {
			t.Fatalf("%v", found)
		}
		b, err := os.ReadFile(found[0])
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if put("slim-whole", 1, 0) != string(whole) {
		t.Error("a whole copy does not replace a slim one")
	}
	if put("whole-slim", 0, 1) != string(whole) {
		t.Error("a slim copy replaces a whole one")
	}
	second := put("second", 2)
	both := put("slim-slim", 1, 2)
	for i := 16; i < len(whole); i++ {
		want := slim[i] | second[i]
		if both[i] != want {
			t.Fatalf("offset %#x: %#x, want %#x", i, both[i], want)
		}
	}
	if both == string(slim) || both == second {
		t.Error("the other slim copy adds nothing")
	}
	if put("slim-slim", 1, 2) != both {
		t.Error("the same again changes it")
	}
	// What is packed from a slim copy is called one, and said to be.
	if err := os.Remove(prog); err != nil {
		t.Fatal(err)
	}
	again := filepath.Join(home, "again.tar")
	code, out, errs := runArgs(t, "", "--buildid-dir", filepath.Join(home, "second"), "archive", "--allow-missing", "-o", again, data)
	if code != 0 || !strings.Contains(errs, "only a slim copy was found") || !regexp.MustCompile(`, \d+ slim\n`).MatchString(out) {
		t.Errorf("archive from a slim copy: exit status %d\n%s%s", code, out, errs)
	}
}
