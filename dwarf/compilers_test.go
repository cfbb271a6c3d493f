package dwarf_test

import (
	"debug/elf"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perfark/perfark/dwarf"
	"github.com/perfark/perfark/objfile"
)

// A build is a program made at test time. In the commands, which run in an
// empty directory, $T is testdata.
type build struct {
	name  string
	needs []string // programs without which it is skipped
	make  string   // makes prog
	slow  bool     // left out with -short
	// wantFrom is the file that llvm-symbolizer reads, if it cannot read prog.
	wantFrom string
	allow    int // addresses of 1,000 that may differ, and why is said at the build
}

func builds() []build {
	bs := []build{
		{name: "gcc file reordered", needs: []string{"gcc"}, make: "gcc -g -O2 -ffunction-sections -Wl,--gc-sections $T/plain.c $T/plain2.c -o prog"},
		{name: "gcc type units", slow: true, needs: []string{"g++"}, make: "g++ -g -O2 -fdebug-types-section $T/shapes.cc -o prog"},
		{name: "gcc zlib", slow: true, needs: []string{"g++"}, make: "g++ -g -O2 -gz=zlib $T/shapes.cc -o prog"},
		{name: "gcc zlib-gnu", slow: true, needs: []string{"g++"}, make: "g++ -g -O2 -gz=zlib-gnu $T/shapes.cc -o prog", wantFrom: "g++ -g -O2 $T/shapes.cc -o want"},
		{name: "gcc zstd", needs: []string{"g++", "objcopy"}, make: "g++ -g -O2 $T/shapes.cc -o prog && objcopy --compress-debug-sections=zstd prog"},
		{name: "gcc lto", needs: []string{"gcc"}, make: "gcc -g -O2 -flto $T/plain.c $T/plain2.c -Wl,-u,second -o prog"},
		{name: "g++ lto", needs: []string{"g++"}, make: "g++ -g -O2 -flto $T/shapes.cc -o prog", slow: true},
		{name: "gcc gdwarf64", slow: true, needs: []string{"gcc"}, make: "gcc -g -O2 -gdwarf64 -gdwarf-5 $T/plain.c -o prog"},
		{name: "gcc m32", needs: []string{"gcc"}, make: "gcc -m32 -g -O2 -c $T/plain.c -o plain.o && ld -m elf_i386 -e outer plain.o -o prog"},
		{name: "as", needs: []string{"gcc"}, make: "gcc -S -O1 $T/plain.c -o plain.s && gcc -c -Wa,-g plain.s -o plain.o && gcc plain.o -o prog"},
		{name: "clang lto", slow: true, needs: []string{"clang-19", "ld.lld-19"}, make: "clang-19 -g -O2 -flto -fuse-ld=lld $T/plain.c $T/plain2.c -Wl,-u,second -o prog"},
		{name: "clang thin lto", needs: []string{"clang-19", "ld.lld-19"}, make: "clang-19 -g -O2 -flto=thin -fuse-ld=lld $T/plain.c $T/plain2.c -Wl,-u,second -o prog"},
		{name: "clang icf", needs: []string{"clang-19", "ld.lld-19"}, make: "clang++-19 -g -O2 -ffunction-sections -fuse-ld=lld -Wl,--icf=all,--gc-sections $T/shapes.cc -o prog"},
		{name: "clang gdwarf64", needs: []string{"clang-19"}, make: "clang-19 -g -O2 -gdwarf64 -gdwarf-5 $T/plain.c -o prog"},
		{name: "clang gline-tables-only", slow: true, needs: []string{"clang-19"}, make: "clang++-19 -gline-tables-only -O2 $T/shapes.cc -o prog"},
		{name: "clang discriminators", needs: []string{"clang-19"}, make: "clang++-19 -g -O3 -fdebug-info-for-profiling $T/shapes.cc -o prog", slow: true},
		{name: "gcc dwz", slow: true, needs: []string{"g++", "dwz"}, wantFrom: "g++ -g -O2 -gdwarf-5 $T/shapes.cc -o want",
			make: "g++ -g -O2 -gdwarf-5 $T/shapes.cc -o prog && dwz prog"},
		// S34, S35: entries and strings are in the file that dwz made.
		{name: "gcc dwz multifile", needs: []string{"g++", "dwz"}, wantFrom: "g++ -g -O2 -gdwarf-4 $T/shapes.cc -o want",
			make: "g++ -g -O2 -gdwarf-4 $T/shapes.cc -o prog && cp prog second && dwz -m alt prog second"},
		{name: "gcc dwz debug_sup", slow: true, needs: []string{"g++", "dwz"}, wantFrom: "g++ -g -O2 -gdwarf-5 $T/shapes.cc -o want",
			make: "g++ -g -O2 -gdwarf-5 $T/shapes.cc -o prog && cp prog second && dwz -5 -m alt prog second"},
		{name: "gcc split 4", slow: true, needs: []string{"g++"}, make: "g++ -g -O2 -gdwarf-4 -gsplit-dwarf $T/shapes.cc -o prog"},
		// S37: functions are in .dwo and .dwp files.
		{name: "gcc split 5", needs: []string{"g++"}, make: "g++ -g -O2 -gdwarf-5 -gsplit-dwarf $T/shapes.cc -o prog"},
		{name: "gcc split 4 dwp", needs: []string{"g++", "dwp"}, wantFrom: "g++ -g -O2 -gdwarf-4 $T/shapes.cc -o want",
			make: "g++ -g -O2 -gdwarf-4 -gsplit-dwarf $T/shapes.cc -o prog && dwp -e prog -o prog.dwp && rm -f *.dwo"},
		{name: "clang split 5 dwp", needs: []string{"clang-19", "llvm-dwp-19"}, wantFrom: "clang++-19 -g -O2 $T/shapes.cc -o want",
			make: "clang++-19 -g -O2 -gsplit-dwarf -fno-split-dwarf-inlining $T/shapes.cc -o prog && llvm-dwp-19 -e prog -o prog.dwp && rm -f *.dwo"},
		{name: "clang split 4", slow: true, needs: []string{"clang-19"}, make: "clang-19 -g -O2 -gdwarf-4 -gsplit-dwarf $T/plain.c $T/plain2.c -o prog"},
		{name: "fortran", needs: []string{"gfortran"}, make: "gfortran -g -O2 $T/area.f90 -o prog"},
		{name: "rust", needs: []string{"rustc"}, make: "rustc -g -O $T/sum.rs -o prog", slow: true},
		{name: "go", needs: []string{"go"}, make: "cp $T/words.go.txt words.go && go build -o prog words.go", slow: true},
		{name: "go plain", needs: []string{"go"}, make: "cp $T/words.go.txt words.go && go build -ldflags=-compressdwarf=false -o prog words.go", slow: true},
	}
	for _, v := range []int{2, 3, 4, 5} {
		for _, o := range []string{"-O2", "-O3"} {
			slow := o == "-O3" || v == 3 || v == 2
			bs = append(bs,
				build{name: fmt.Sprintf("gcc dwarf%d %s", v, o), needs: []string{"g++"}, slow: slow,
					make: fmt.Sprintf("g++ -g -gdwarf-%d %s $T/shapes.cc -o prog", v, o)},
				build{name: fmt.Sprintf("clang dwarf%d %s", v, o), needs: []string{"clang-19"}, slow: slow,
					make: fmt.Sprintf("clang++-19 -g -gdwarf-%d %s $T/shapes.cc -o prog", v, o)})
		}
	}
	return bs
}

// TestCompilers compares the frames at every address of programs from many
// compilers, linkers and tools with llvm-symbolizer.
func TestCompilers(t *testing.T) {
	symbolizer(t)
	for _, b := range builds() {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			if b.slow && os.Getenv("PERFARK_AGREE") == "" {
				t.Skip("PERFARK_AGREE is not set")
			}
			dir := t.TempDir()
			prog := b.run(t, dir, b.make, "prog")
			from := prog
			if b.wantFrom != "" {
				from = b.run(t, dir, b.wantFrom, "want")
			}
			f, d := openBuild(t, dir, prog)
			addrs := codeAddresses(t, prog, f)
			a := compare(t, b.name, d, addrs, theirs(t, from, addrs))
			for _, w := range d.Warnings() {
				t.Error(w)
			}
			if len(a.differ) > b.allow*len(addrs)/1000 {
				for _, s := range a.differ[:min(len(a.differ), 5)] {
					t.Log(s)
				}
				t.Errorf("%d of %d addresses differ", len(a.differ), len(addrs))
			}
			t.Logf("%d addresses, %d but for a column", len(addrs), a.column)
		})
	}
}

// run runs the commands and returns the file they made.
func (b build) run(t testing.TB, dir, script, name string) string {
	for _, p := range b.needs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("no %s", p)
		}
	}
	src, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-e", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "T="+src, "GOFLAGS=", "GO111MODULE=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "cannot find") || strings.Contains(string(out), "skipping incompatible") {
			t.Skipf("%s: %s", script, out)
		}
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return filepath.Join(dir, name)
}

// openBuild opens a program, and what it needs beside it.
func openBuild(t testing.TB, dir, prog string) (*objfile.File, *dwarf.Data) {
	var o objfile.DWARFOptions
	o.Alt = func() (*dwarf.Data, error) {
		_, d := openDWARF(t, filepath.Join(dir, "alt"), objfile.DWARFOptions{})
		return d, nil
	}
	var packed *dwarf.Data
	if _, err := os.Stat(prog + ".dwp"); err == nil {
		_, packed = openDWARF(t, prog+".dwp", objfile.DWARFOptions{DWO: true})
	}
	o.Split = func(s dwarf.SplitUnit) (*dwarf.Data, error) {
		if packed != nil {
			return packed, nil
		}
		name := s.Name
		if !filepath.IsAbs(name) {
			name = filepath.Join(s.CompDir, name)
		}
		_, d := openDWARF(t, name, objfile.DWARFOptions{DWO: true})
		return d, nil
	}
	return openDWARF(t, prog, o)
}

// codeAddresses returns addresses in the functions of a program: all of them if
// it is small.
func codeAddresses(t testing.TB, prog string, f *objfile.File) []uint64 {
	e, err := elf.Open(prog)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	syms, _ := e.Symbols()
	var total uint64
	for _, s := range syms {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			total += s.Size
		}
	}
	step := max(total/20_000, 1)
	var out []uint64
	for _, s := range syms {
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC {
			continue
		}
		for a := s.Value; a < s.Value+s.Size; a += step {
			out = append(out, a)
		}
	}
	if len(out) == 0 {
		t.Fatal("no functions")
	}
	return out
}

// TestRelocatable compares the frames of object files of many architectures,
// whose debug information is complete only when it is relocated, with
// llvm-symbolizer. In ours they lie at their offset in the file.
func TestRelocatable(t *testing.T) {
	symbolizer(t)
	for i, target := range []string{
		"x86_64", "i386", "aarch64", "aarch64_be", "arm", "armeb", "riscv64", "riscv32", "powerpc64le", "powerpc64", "powerpc", "s390x", "mips64", "mips64el", "mips",
		"sparc64", "loongarch64",
	} {
		for _, version := range []string{"4", "5"} {
			t.Run(target+" dwarf"+version, func(t *testing.T) {
				t.Parallel()
				if (version == "4" || i%3 != 0) && os.Getenv("PERFARK_AGREE") == "" {
					t.Skip("PERFARK_AGREE is not set")
				}
				b := build{needs: []string{"clang-19"}}
				obj := b.run(t, t.TempDir(), "clang-19 --target="+target+"-linux-gnu -g -gdwarf-"+version+" -O2 -c $T/plain.c -o plain.o", "plain.o")
				e, err := elf.Open(obj)
				if err != nil {
					t.Fatal(err)
				}
				defer e.Close()
				text := e.Section(".text")
				_, d := openDWARF(t, obj, objfile.DWARFOptions{})
				var at, there []uint64
				for a := uint64(0); a < text.Size; a += 2 {
					at, there = append(at, a), append(there, a+text.Offset)
				}
				got := compare(t, target, d, there, theirs(t, obj, at))
				for _, w := range d.Warnings() {
					t.Error(w)
				}
				if len(got.differ) > 0 {
					t.Errorf("%d of %d addresses differ: %s", len(got.differ), len(at), got.differ[0])
				}
			})
		}
	}
}

// TestNames is about functions that the symbol table does not name: they stand
// in their namespaces, classes and functions.
func TestNames(t *testing.T) {
	b := build{needs: []string{"g++"}}
	for _, tt := range []struct {
		make string
		want []string
	}{
		{"g++ -g -O2 $T/shapes.cc -o prog", []string{"geo::(anonymous namespace)::hidden", "main::{lambda}::operator()", "cold", "main::Local::call"}},
		{"g++ -g -O2 -gdwarf-4 $T/shapes.cc -o prog", []string{"geo::(anonymous namespace)::hidden"}},
		{"gcc -g -O2 $T/plain.c -o prog", []string{"inner", "middle"}},
	} {
		dir := t.TempDir()
		prog := b.run(t, dir, tt.make, "prog")
		f, d := openBuild(t, dir, prog)
		got := map[string]bool{}
		for _, a := range codeAddresses(t, prog, f) {
			fs, err := d.Frames(a, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range fs {
				if !x.Linkage {
					got[x.Name] = true
				}
			}
		}
		for _, w := range tt.want {
			if !got[w] {
				t.Errorf("%s: no %q in %q", tt.make, w, slices.Sorted(maps.Keys(got)))
			}
		}
	}
}

// TestSplitMissing is about split units whose other file is not there (S37), or is
// a .dwp of another build (S38): the line stays, and there is a warning.
func TestSplitMissing(t *testing.T) {
	b := build{needs: []string{"gcc", "dwp"}}
	dir := t.TempDir()
	prog := b.run(t, dir, "gcc -g -O2 -gsplit-dwarf -gdwarf-4 $T/plain.c -o prog && dwp -e prog -o prog.dwp", "prog")
	b.run(t, dir, "mkdir x && cd x && gcc -g -O1 -DOTHER=1 -gsplit-dwarf -gdwarf-4 $T/plain.c -o other && dwp -e other -o ../other.dwp", "other.dwp")
	_, whole := openBuild(t, dir, prog)
	split := func(name string) func(dwarf.SplitUnit) (*dwarf.Data, error) {
		_, d := openDWARF(t, filepath.Join(dir, name), objfile.DWARFOptions{DWO: true})
		return func(dwarf.SplitUnit) (*dwarf.Data, error) { return d, nil }
	}
	for _, tt := range []struct {
		name  string
		split func(dwarf.SplitUnit) (*dwarf.Data, error)
		want  string
	}{
		{"none", nil, "is missing"},
		{"not found", func(dwarf.SplitUnit) (*dwarf.Data, error) { return nil, os.ErrNotExist }, "file does not exist"},
		{"other build", split("other.dwp"), "no unit in it has the id"},
		{"right", split("prog.dwp"), ""},
	} {
		f, d := openDWARF(t, prog, objfile.DWARFOptions{Split: tt.split})
		for _, a := range codeAddresses(t, prog, f) {
			want, err := whole.Frames(a, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := d.Frames(a, nil)
			if err != nil || len(want) > 0 && len(got) == 0 || len(got) > 0 && got[0].Line != want[0].Line {
				t.Fatalf("%s: %#x: %+v, %v: want the line of %+v", tt.name, a, got, err, want)
			}
			if tt.want == "" && !slices.Equal(got, want) {
				t.Fatalf("%s: %#x: %+v, want %+v", tt.name, a, got, want)
			}
		}
		if w := strings.Join(d.Warnings(), "\n"); !strings.Contains(w, tt.want) || (w != "") != (tt.want != "") {
			t.Errorf("%s: warnings %q, want %q", tt.name, w, tt.want)
		}
	}
}

// TestConcurrent asks from many goroutines, with a cache that holds next to
// nothing: the answers are those of one.
func TestConcurrent(t *testing.T) {
	b := build{needs: []string{"g++"}}
	dir := t.TempDir()
	prog := b.run(t, dir, "g++ -g -O2 $T/shapes.cc $T/plain2.c -Wl,--unresolved-symbols=ignore-all -o prog", "prog")
	f, one := openBuild(t, dir, prog)
	addrs := codeAddresses(t, prog, f)
	want := make([][]dwarf.Frame, len(addrs))
	for i, a := range addrs {
		want[i], _ = one.Frames(a, nil)
	}
	_, d := openDWARF(t, prog, objfile.DWARFOptions{CacheBytes: 1})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			var buf []dwarf.Frame
			for k := range len(addrs) / 4 {
				i := (k*7 + g*len(addrs)/8) % len(addrs)
				var err error
				if buf, err = d.Frames(addrs[i], buf[:0]); err != nil || !slices.Equal(buf, want[i]) {
					t.Errorf("%#x: %+v, %v: want %+v", addrs[i], buf, err, want[i])
					return
				}
			}
		})
	}
	wg.Wait()
	n := 0
	if err := d.Functions(func(x dwarf.Func) bool { n++; return x.Start < x.End }); err != nil || n == 0 {
		t.Errorf("%d functions, %v", n, err)
	}
}

// TestDamaged flips bytes of the debug sections of real programs: nothing
// panics, and no question takes long.
func TestDamaged(t *testing.T) {
	rounds := 60
	if s := os.Getenv("PERFARK_DAMAGE_ROUNDS"); s != "" {
		rounds, _ = strconv.Atoi(s)
	}
	b := build{needs: []string{"g++"}}
	for _, version := range []string{"3", "4", "5"} {
		dir := t.TempDir()
		prog := b.run(t, dir, "g++ -g -O2 -gdwarf-"+version+" $T/shapes.cc -o prog", "prog")
		f, _ := openDWARF(t, prog, objfile.DWARFOptions{})
		addrs := codeAddresses(t, prog, f)
		e, err := elf.Open(prog)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		secs := map[string][]byte{}
		var names []string
		var low uint64
		for _, s := range e.Sections {
			if strings.HasPrefix(s.Name, ".debug_") {
				secs[s.Name], _ = s.Data()
				names = append(names, s.Name)
			}
			if s.Name == ".init" {
				low = s.Addr
			}
		}
		rnd := rand.New(rand.NewPCG(7, 8))
		for round := range rounds {
			m := maps.Clone(secs)
			for range 1 + rnd.IntN(20) {
				name := names[rnd.IntN(len(names))]
				data := slices.Clone(m[name])
				switch at := rnd.IntN(len(data)); rnd.IntN(4) {
				case 0:
					data[at] ^= 1 << rnd.IntN(8)
				case 1:
					data[at] = 0xff
				case 2:
					data[at] = byte(rnd.IntN(256))
				default:
					copy(data[at:], []byte{0xff, 0xff, 0xff, 0x7f}[:rnd.IntN(4)+1])
				}
				m[name] = data
			}
			d, err := dwarf.New(sections(m), dwarf.Options{MinAddr: low})
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			var buf []dwarf.Frame
			for k := 0; k < len(addrs); k += 7 {
				buf, _ = d.Frames(addrs[k], buf[:0])
			}
			d.Functions(func(dwarf.Func) bool { return true })
			if d := time.Since(start); d > 10*time.Second {
				t.Errorf("version %s, round %d: %v", version, round, d)
			}
		}
	}
}
