package symbol_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/index"
	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/store"
	"github.com/perfark/perfark/symbol"
)

const inlineSource = `
extern int printf(const char *, ...);
volatile unsigned long x;
static inline __attribute__((always_inline)) void inl_inner(long n) {
	for (long i = 0; i < n; i++)
		x += i * n;
}
static inline __attribute__((always_inline)) void inl_middle(long n) {
	inl_inner(n + 1);
	x++;
}
__attribute__((noinline)) void hot(long n) {
	inl_middle(n);
	inl_inner(n);
	x--;
}
__attribute__((noinline, noreturn)) void never(void) {
	for (;;) x++;
}
__attribute__((noinline)) void ends(void) {
	hot(3);
	never();
}
__attribute__((noinline)) void next(void) { x = 3; }
int main(int c, char **v) { hot(c); if (c > 5) ends(); next(); return 0; }
`

// build compiles inlineSource in dir, as prog.c, to prog.
func build(t *testing.T, dir string, cc string, flags ...string) string {
	t.Helper()
	perftest.NeedTool(t, cc)
	if err := os.WriteFile(filepath.Join(dir, "prog.c"), []byte(inlineSource), 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, dir, cc, append([]string{"-O2", "-Wl,--build-id=uuid", "-o", "prog", "prog.c"}, flags...)...)
	return filepath.Join(dir, "prog")
}

func run(t *testing.T, dir, tool string, args ...string) string {
	t.Helper()
	perftest.NeedTool(t, tool)
	r := perftest.Run(t, dir, nil, nil, tool, args...)
	if r.Code != 0 {
		t.Fatalf("%s %q: status %d: %s", tool, args, r.Code, r.Stderr)
	}
	return r.Stdout
}

func openObject(t *testing.T, b []byte) *objfile.File {
	t.Helper()
	f, err := objfile.Open(bytes.NewReader(b), int64(len(b)), "prog", nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// function returns the extent of a function, as offsets in the file.
func function(t *testing.T, b []byte, name string) (start, end uint64) {
	t.Helper()
	tab, err := openObject(t, b).Symbols(objfile.SymbolOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for s := range tab.All {
		if s.Name == name {
			return s.Start, s.End
		}
	}
	t.Fatalf("no symbol %s", name)
	return 0, 0
}

// each returns the numbers from start up to end.
func each(start, end uint64) (out []uint64) {
	for a := start; a < end; a++ {
		out = append(out, a)
	}
	return out
}

// chains returns what is known of each location: "inner a.c:3 < outer a.c:9".
func chains(p *profile.Profile) (out []string) {
	for i := range p.Locations {
		var frames []string
		for k, f := range p.FramesOf(&p.Locations[i]) {
			name, file := "?", "?"
			if f.Func != profile.None {
				name = p.Functions[f.Func].Name
				if inlined := k+1 < int(p.Locations[i].NFrames); p.Functions[f.Func].Inlined != inlined {
					name += " (wrongly inlined or not)"
				}
			}
			if f.File != profile.None {
				file = filepath.Base(p.Files[f.File])
			}
			frames = append(frames, fmt.Sprintf("%s %s:%d", name, file, f.Line))
		}
		out = append(out, strings.Join(frames, " < "))
	}
	return out
}

// symbolizer asks llvm-symbolizer for the same.
func symbolizer(t *testing.T, prog string, addrs []uint64) (out []string) {
	t.Helper()
	tool := "llvm-symbolizer-19"
	args := []string{"--output-style=JSON", "--inlines", "--functions=linkage", "--demangle", "--obj=" + prog}
	for _, a := range addrs {
		args = append(args, fmt.Sprintf("%#x", a))
	}
	var list []struct {
		Symbol []struct {
			FunctionName, FileName string
			Line                   int
		}
	}
	if err := json.Unmarshal([]byte(run(t, filepath.Dir(prog), tool, args...)), &list); err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		var frames []string
		for _, s := range a.Symbol {
			frames = append(frames, fmt.Sprintf("%s %s:%d", s.FunctionName, filepath.Base(s.FileName), s.Line))
		}
		out = append(out, strings.Join(frames, " < "))
	}
	return out
}

func resolveLines(t *testing.T, p *profile.Profile, src store.Source, x symbol.Indexes) *symbol.Outcome {
	t.Helper()
	out, err := symbol.Resolve(context.Background(), p, symbol.Options{Source: src, Lines: true, Index: x, IndexAll: true})
	if err != nil {
		t.Fatal(err)
	}
	if f, ok := src.(*fake); ok && f.open.Load() != 0 {
		t.Errorf("%d files are still open", f.open.Load())
	}
	return out
}

// TestLines: inlined functions and lines, wherever the debug information lies
// (B22, S32, S34, S36, S37, S38, S39).
func TestLines(t *testing.T) {
	dir := t.TempDir()
	prog := build(t, dir, "gcc", "-g")
	whole := read(t, prog)
	f := openObject(t, whole)
	start, end := function(t, whole, "hot")
	addrs := each(start, end)
	var linked []uint64
	for _, a := range addrs {
		v, _ := f.Address(a)
		linked = append(linked, v)
	}
	want := symbolizer(t, prog, linked)
	if !slices.Contains(want, "inl_inner prog.c:6 < inl_middle prog.c:9 < hot prog.c:13") {
		t.Fatalf("the compiler did not inline: %q", want)
	}
	outer := make([]string, len(want))
	obj := profile.Object{Path: prog, BuildID: f.BuildID()}
	check := func(t *testing.T, src store.Source, want []string, reason symbol.Reason) *symbol.Outcome {
		t.Helper()
		p := one(obj, addrs...)
		out := resolveLines(t, p, src, nil)
		if got := chains(p); !reflect.DeepEqual(got, want) {
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("at %#x:\ngot  %s\nwant %s", addrs[i], got[i], want[i])
				}
			}
		}
		for _, n := range names(p) {
			if n != "hot" {
				t.Fatalf("names %q", names(p))
			}
		}
		if x := out.Objects[0]; x.LineReason != reason || reason == "" && x.FramesLined != len(addrs) {
			t.Errorf("outcome %+v, want the reason %q", x, reason)
		}
		return out
	}
	elf, debug := store.Key{ID: obj.BuildID, Kind: store.ELF}, store.Key{ID: obj.BuildID, Kind: store.Debug}

	t.Run("own", func(t *testing.T) {
		check(t, &fake{files: map[store.Key][]byte{elf: whole}}, want, "")
	})
	t.Run("debug file", func(t *testing.T) {
		run(t, dir, "objcopy", "--only-keep-debug", "prog", "prog.debug")
		run(t, dir, "strip", "-o", "prog.stripped", "prog")
		run(t, dir, "strip", "-g", "-o", "prog.symbols", "prog")
		for _, name := range []string{"prog.stripped", "prog.symbols"} {
			check(t, &fake{files: map[store.Key][]byte{elf: read(t, filepath.Join(dir, name)), debug: read(t, filepath.Join(dir, "prog.debug"))}}, want, "")
		}
		out := check(t, &fake{files: map[store.Key][]byte{elf: read(t, filepath.Join(dir, "prog.symbols"))}}, outer, symbol.NoDebugInfo)
		if out.Objects[0].LineHint == "" {
			t.Error("no hint")
		}
	})
	t.Run("link to nothing", func(t *testing.T) { // S32
		run(t, dir, "objcopy", "--only-keep-debug", "prog", "gone.debug")
		run(t, dir, "objcopy", "--add-gnu-debuglink=gone.debug", "prog", "prog.linked")
		check(t, &fake{files: map[store.Key][]byte{elf: read(t, filepath.Join(dir, "prog.linked"))}}, want, "")
	})
	t.Run("compressed", func(t *testing.T) {
		run(t, dir, "objcopy", "--compress-debug-sections=zlib", "prog", "prog.z")
		check(t, &fake{files: map[store.Key][]byte{elf: read(t, filepath.Join(dir, "prog.z"))}}, want, "")
	})
	t.Run("no line table", func(t *testing.T) {
		run(t, dir, "objcopy", "--remove-section=.debug_line", "prog", "prog.noline")
		p := one(obj, addrs...)
		out := resolveLines(t, p, &fake{files: map[store.Key][]byte{elf: read(t, filepath.Join(dir, "prog.noline"))}}, nil)
		if x := out.Objects[0]; x.FramesLined != 0 || x.LineReason != symbol.NoLineTable {
			t.Errorf("outcome %+v", x)
		}
		if n := names(p); n[0] != "hot" {
			t.Errorf("names %q", n)
		}
	})
	t.Run("dwz", func(t *testing.T) {
		for _, name := range []string{"dz1", "dz2"} {
			if err := os.WriteFile(filepath.Join(dir, name), whole, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		run(t, dir, "dwz", "-m", "common.dwz", "-M", "sub/common.dwz", "dz1", "dz2")
		small, common := read(t, filepath.Join(dir, "dz1")), read(t, filepath.Join(dir, "common.dwz"))
		_, alt, ok := openObject(t, small).Altlink()
		if !ok {
			t.Skip("NOTICE: dwz shared nothing")
		}
		for _, kind := range []store.Kind{store.Debug, store.ELF} {
			check(t, &fake{files: map[store.Key][]byte{elf: small, {ID: alt, Kind: kind}: common}}, want, "")
		}
		// Without it the names of the functions with code stay, and lines.
		p := one(obj, addrs...)
		out := resolveLines(t, p, &fake{files: map[store.Key][]byte{elf: small}}, nil)
		x := out.Objects[0]
		if x.LineReason != symbol.NoShared || x.LineDetail != "sub/common.dwz" || x.LineHint == "" || x.FramesNamed != len(addrs) {
			t.Errorf("without the shared file: %+v", x)
		}
		// PARSE-6: a file that shares with itself.
		resolveLines(t, one(obj, addrs...), &fake{files: map[store.Key][]byte{elf: small, {ID: alt, Kind: store.Debug}: small}}, nil)
	})
	t.Run("go on after damage", func(t *testing.T) {
		b := bytes.Clone(whole)
		for _, name := range []string{".debug_info", ".debug_line", ".debug_abbrev"} {
			s, err := f.Section(name)
			if err != nil || len(s) == 0 {
				t.Fatal(err)
			}
			at := bytes.Index(whole, s)
			for i := range s {
				b[at+i] ^= byte(0x5a + i)
			}
		}
		p := one(obj, addrs...)
		resolveLines(t, p, &fake{files: map[store.Key][]byte{elf: b}}, nil)
		for _, n := range names(p) {
			if n != "hot" {
				t.Fatalf("names %q", names(p))
			}
		}
	})
}

// TestSplit: .dwo and .dwp files are found where the compiler wrote them and
// beside the program, and used only if they have the id of the unit (S37, S38).
func TestSplit(t *testing.T) {
	for _, flags := range [][]string{{"gcc", "-gdwarf-5"}, {"gcc", "-gdwarf-4"}, {"clang-14", "-gdwarf-5"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			dir := t.TempDir()
			prog := build(t, dir, flags[0], append(flags[1:], "-gsplit-dwarf")...)
			whole := read(t, prog)
			dwos, _ := filepath.Glob(filepath.Join(dir, "*.dwo"))
			if len(dwos) != 1 {
				t.Fatalf("split files %q", dwos)
			}
			dwo := read(t, dwos[0])
			f := openObject(t, whole)
			start, end := function(t, whole, "hot")
			addrs := each(start, end)
			var linked []uint64
			for _, a := range addrs {
				v, _ := f.Address(a)
				linked = append(linked, v)
			}
			want := symbolizer(t, prog, linked)
			var dwp []byte
			if flags[0] != "gcc" || flags[1] != "-gdwarf-5" { // which no packer of Debian 12 takes
				run(t, dir, "llvm-dwp-14", "-e", "prog", "-o", "prog.dwp")
				dwp = read(t, prog+".dwp")
			}
			other := build(t, t.TempDir(), flags[0], append(flags[1:], "-gsplit-dwarf", "-DOTHER", "-O1")...)
			otherDWO, _ := filepath.Glob(filepath.Join(filepath.Dir(other), "*.dwo"))

			obj := profile.Object{Path: prog, BuildID: f.BuildID()}
			elf := store.Key{ID: obj.BuildID, Kind: store.ELF}
			at := func(path string) store.Key { return store.Key{Path: path, Kind: store.Split} }
			for _, tt := range []struct {
				name  string
				files map[store.Key][]byte
				found bool
			}{
				{"dwo", map[store.Key][]byte{at(dwos[0]): dwo}, true},
				{"dwp", map[store.Key][]byte{at(prog + ".dwp"): dwp}, true},
				{"another program's dwp in front", map[store.Key][]byte{at(prog + ".dwp"): read(t, otherDWO[0]), at(dwos[0]): dwo}, true},
				{"another program's", map[store.Key][]byte{at(dwos[0]): read(t, otherDWO[0])}, false},
				{"missing", nil, false},
				{"no object file", map[store.Key][]byte{at(dwos[0]): []byte("hello")}, false},
			} {
				t.Run(tt.name, func(t *testing.T) {
					if tt.name == "dwp" && dwp == nil {
						t.Skip("NOTICE: nothing packs these")
					}
					src := &fake{files: map[store.Key][]byte{elf: whole}}
					for k, b := range tt.files {
						src.files[k] = b
					}
					p := one(obj, addrs...)
					x := resolveLines(t, p, src, nil).Objects[0]
					if tt.found {
						if got := chains(p); !reflect.DeepEqual(got, want) {
							t.Errorf("got  %q\nwant %q", got, want)
						}
						if x.LineReason != "" {
							t.Errorf("outcome %+v", x)
						}
						return
					}
					if x.LineReason != symbol.NoSplit || !strings.HasSuffix(x.LineDetail, ".dwo") || x.LineHint == "" || x.FramesNamed != len(addrs) {
						t.Errorf("outcome %+v", x)
					}
				})
			}
		})
	}
}

// TestCallers: the lines of a caller are those of its call, also where the call
// is the last thing in its function; the lines of a sample are those of the
// address itself. Symbols go by the address as it is, as perf's do.
func TestCallers(t *testing.T) {
	dir := t.TempDir()
	prog := build(t, dir, "gcc", "-g", "-fno-reorder-functions")
	b := read(t, prog)
	f := openObject(t, b)
	start, end := function(t, b, "ends")
	// ends: call hot, call never, and nothing behind.
	p := one(profile.Object{Path: prog, BuildID: f.BuildID()}, end-1)
	p.Locations = append(p.Locations, profile.Location{Object: 0, Level: '.', Addr: end, Func: profile.None}, profile.Location{Object: 0, Level: '.', Addr: end - 5, Func: profile.None})
	p.Stacks = []profile.Stack{{Location: 1, Caller: profile.None}, {Location: 2, Caller: 0}}
	p.Samples[0].Stack = 1
	resolveLines(t, p, &fake{files: map[store.Key][]byte{{ID: f.BuildID(), Kind: store.ELF}: b}}, nil)
	got := chains(p)
	if got[0] != "ends prog.c:22" || got[2] != "ends prog.c:21" {
		t.Errorf("ends is at %#x to %#x; got %q", start, end, got)
	}
}

// TestIndexes: what was found out once is known the next time without debug
// information, and never used where better is at hand.
func TestIndexes(t *testing.T) {
	dir := t.TempDir()
	prog := build(t, dir, "gcc", "-g")
	run(t, dir, "objcopy", "--only-keep-debug", "prog", "prog.debug")
	run(t, dir, "strip", "-o", "prog.stripped", "prog")
	whole, stripped, debugFile := read(t, prog), read(t, prog+".stripped"), read(t, prog+".debug")
	id := openObject(t, whole).BuildID()
	start, end := function(t, whole, "hot")
	addrs := each(start, end)
	obj := profile.Object{Path: prog, BuildID: id}
	elf, debug := store.Key{ID: id, Kind: store.ELF}, store.Key{ID: id, Kind: store.Debug}
	both := func() *fake { return &fake{files: map[store.Key][]byte{elf: stripped, debug: debugFile}} }

	p := one(obj, addrs...)
	resolveLines(t, p, both(), nil)
	want, wantNames := chains(p), names(p)

	c := index.NewCache(filepath.Join(t.TempDir(), "index"), 0)
	check := func(t *testing.T, src store.Source, x symbol.Indexes, want []string) {
		t.Helper()
		p := one(obj, addrs...)
		resolveLines(t, p, src, x)
		if got := chains(p); !reflect.DeepEqual(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		if got := names(p); !reflect.DeepEqual(got, wantNames) {
			t.Errorf("names %q, want %q", got, wantNames)
		}
	}

	// A poor copy first, then a better one: B22, B23.
	check2 := one(obj, addrs...)
	resolveLines(t, check2, &fake{files: map[store.Key][]byte{elf: stripped}}, c)
	if got := names(check2); got[0] != "" {
		t.Fatalf("names of a stripped file: %q", got)
	}
	check(t, both(), c, want)
	// Then the debug information is needed no more, nor is any file.
	check(t, &fake{files: map[store.Key][]byte{elf: stripped}}, c, want)
	check(t, &fake{}, c, want)
	check(t, both(), c, want)
	// A file of the same id that is another program has nothing of it.
	other := build(t, t.TempDir(), "gcc", "-O0", "-Wl,--build-id=0x"+id.String())
	p = one(obj, addrs...)
	resolveLines(t, p, &fake{files: map[store.Key][]byte{elf: read(t, other)}}, c)
	if got := chains(p); reflect.DeepEqual(got, want) {
		t.Error("an index was used for another program")
	}
	// Nor is it used for what the Source refuses.
	p = one(obj, addrs...)
	resolveLines(t, p, &fake{errs: map[store.Key]error{elf: &store.RefusedError{Path: prog, Reason: store.Replaced}}}, c)
	if got := names(p); got[0] != "" {
		t.Errorf("names of a refused object: %q", got)
	}

	// A damaged index is built again.
	list, _ := filepath.Glob(filepath.Join(c.Dir(), "*", "*"))
	if len(list) != 1 {
		t.Fatalf("indexes %q", list)
	}
	raw := read(t, list[0])
	for _, at := range []int{0, 100, 300, len(raw) / 2, len(raw) - 2} {
		b := bytes.Clone(raw)
		b[at] ^= 1
		if err := os.WriteFile(list[0], b, 0o600); err != nil {
			t.Fatal(err)
		}
		check(t, both(), c, want)
		f, err := c.Get(id)
		if err != nil {
			t.Fatalf("damaged at %#x: it was not built again: %v", at, err)
		}
		if err := new(index.Builder).Merge(f); err != nil {
			t.Errorf("damaged at %#x: %v", at, err)
		}
		f.Close()
	}

	// In an archive, an index serves as well.
	src := both()
	src.files[store.Key{ID: id, Kind: store.Index}] = raw
	delete(src.files, debug)
	check(t, src, nil, want)
	src.files[store.Key{ID: id, Kind: store.Index}] = raw[:len(raw)-1]
	src.files[debug] = debugFile
	check(t, src, nil, want)
}

// TestIndexRanges: what is found out about an address is known of all that the
// compiler made of the same line.
func TestIndexRanges(t *testing.T) {
	dir := t.TempDir()
	prog := build(t, dir, "gcc", "-g")
	run(t, dir, "strip", "-g", "-o", "prog.symbols", "prog")
	whole, symbols := read(t, prog), read(t, prog+".symbols")
	id := openObject(t, whole).BuildID()
	start, end := function(t, whole, "hot")
	obj := profile.Object{Path: prog, BuildID: id}
	elf := store.Key{ID: id, Kind: store.ELF}
	all := each(start, end)
	p := one(obj, all...)
	resolveLines(t, p, &fake{files: map[store.Key][]byte{elf: whole}}, nil)
	want := chains(p)

	c := index.NewCache(filepath.Join(t.TempDir(), "index"), 0)
	var some []uint64
	for i := 0; i < len(all); i += 4 {
		some = append(some, all[i])
	}
	resolveLines(t, one(obj, some...), &fake{files: map[store.Key][]byte{elf: whole}}, c)
	p = one(obj, all...)
	resolveLines(t, p, &fake{files: map[store.Key][]byte{elf: symbols}}, c)
	known := 0
	for i, got := range chains(p) {
		if got == want[i] {
			known++
		} else if got != "" {
			t.Errorf("at %#x: %q, want %q or nothing", all[i], got, want[i])
		}
	}
	if known*10 < len(all)*7 {
		t.Errorf("%d of %d addresses are known after %d were looked up", known, len(all), len(some))
	}
}

// noIndexes keeps nothing, and counts what it is given.
type noIndexes struct{ puts int }

func (n *noIndexes) Get(buildid.ID) (*index.File, error) { return nil, errors.New("none") }

func (n *noIndexes) Put(index.Identity, *index.Builder) error {
	n.puts++
	return nil
}

// TestIndexCheap: what is found at once is not kept.
func TestIndexCheap(t *testing.T) {
	b, id, leaf := program(t)
	src := &fake{files: map[store.Key][]byte{{ID: id, Kind: store.ELF}: b}}
	n := &noIndexes{}
	for _, all := range []bool{false, true} {
		if _, err := symbol.Resolve(context.Background(), one(profile.Object{BuildID: id}, leaf), symbol.Options{Source: src, Index: n, IndexAll: all}); err != nil {
			t.Fatal(err)
		}
	}
	if n.puts < 1 || n.puts > 2 { // 2 if the machine is slow
		t.Errorf("%d indexes kept, want 1", n.puts)
	}
}

// Checksums of source files are told whether or not an index has the lines, as
// long as the debug information is there.
func TestSourceSumIndexed(t *testing.T) {
	dir := t.TempDir()
	prog := build(t, dir, "clang-14", "-gdwarf-5")
	whole := read(t, prog)
	f := openObject(t, whole)
	start, end := function(t, whole, "hot")
	source := read(t, filepath.Join(dir, "prog.c"))
	elf := store.Key{ID: f.BuildID(), Kind: store.ELF}
	c := index.NewCache(filepath.Join(t.TempDir(), "index"), 0)
	var want []string
	for _, files := range []map[store.Key][]byte{{elf: whole}, {elf: whole}, {}} {
		p := one(profile.Object{Path: prog, BuildID: f.BuildID()}, each(start, end)...)
		sums := map[[16]byte]bool{}
		var mu sync.Mutex
		_, err := symbol.Resolve(t.Context(), p, symbol.Options{Source: &fake{files: files}, Lines: true, Index: c, IndexAll: true,
			SourceSum: func(_ string, sum [16]byte) { mu.Lock(); sums[sum] = true; mu.Unlock() }})
		if err != nil {
			t.Fatal(err)
		}
		if sums[md5.Sum(source)] != (len(files) > 0) {
			t.Errorf("%d files: checksums %v", len(files), sums)
		}
		if want == nil {
			want = chains(p)
		}
		if got := chains(p); !slices.Equal(got, want) || got[0] == "" {
			t.Errorf("%d files: %.200q, want %.200q", len(files), got, want)
		}
	}
}
