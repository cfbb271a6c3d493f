package symbol_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/store"
	"github.com/perfark/perfark/symbol"
)

// A fake is a Source of files in memory.
type fake struct {
	files map[store.Key][]byte // by ID and Kind; by Path and Kind without ID
	errs  map[store.Key]error
	open  atomic.Int32
}

func (f *fake) Get(_ context.Context, k store.Key) (*store.File, error) {
	short := store.Key{ID: k.ID, Kind: k.Kind}
	if k.ID == "" {
		short = store.Key{Path: k.Path, Kind: k.Kind}
	}
	if err := f.errs[short]; err != nil {
		return nil, err
	}
	b, ok := f.files[short]
	if !ok {
		return nil, fmt.Errorf("%s: %w", k, fs.ErrNotExist)
	}
	f.open.Add(1)
	return &store.File{ReaderAt: bytes.NewReader(b), Size: int64(len(b)), Origin: "fake", Unverified: k.ID == "" && k.Kind != store.PerfMap, Close: func() error { f.open.Add(-1); return nil }}, nil
}

// one makes a profile of one object with a sample at each address.
func one(o profile.Object, addrs ...uint64) *profile.Profile {
	p := &profile.Profile{Events: []profile.Event{{Name: "e"}}, Objects: []profile.Object{o}, Threads: []profile.Thread{{}}}
	for _, a := range addrs {
		p.Locations = append(p.Locations, profile.Location{Object: 0, Level: '.', IP: a, Addr: a, Func: profile.None})
		p.Samples = append(p.Samples, profile.Sample{Location: int32(len(p.Locations) - 1), Stack: profile.None, Extra: profile.None, Count: 1, Period: 1})
		p.Objects[0].Samples++
	}
	return p
}

func resolve(t *testing.T, p *profile.Profile, src store.Source) *symbol.Outcome {
	t.Helper()
	out, err := symbol.Resolve(context.Background(), p, symbol.Options{Source: src})
	if err != nil {
		t.Fatal(err)
	}
	if f, ok := src.(*fake); ok && f.open.Load() != 0 {
		t.Errorf("%d files are still open", f.open.Load())
	}
	return out
}

// names returns the name of each location, "" if it has none.
func names(p *profile.Profile) (out []string) {
	for _, l := range p.Locations {
		name := ""
		if l.Func != profile.None {
			name = p.Functions[l.Func].Name
		}
		out = append(out, name)
	}
	return out
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// program compiles spinSource and returns it, its id and the file offset of
// hot_leaf.
func program(t *testing.T, flags ...string) (b []byte, id buildid.ID, leaf uint64) {
	t.Helper()
	b = read(t, perftest.CC(t, "spin", spinSource, append([]string{"-O1", "-Wl,--build-id=uuid"}, flags...)...))
	f, err := objfile.Open(bytes.NewReader(b), int64(len(b)), "spin", nil)
	if err != nil {
		t.Fatal(err)
	}
	if tab, err := f.Symbols(objfile.SymbolOptions{}); err == nil {
		leaf, _ = tab.Address("hot_leaf")
	}
	return b, f.BuildID(), leaf
}

func TestNames(t *testing.T) {
	b, id, leaf := program(t)
	src := &fake{files: map[store.Key][]byte{{ID: id, Kind: store.ELF}: b}}
	p := one(profile.Object{Path: "/bin/spin", BuildID: id}, leaf+4, leaf, 1<<40)
	out := resolve(t, p, src)
	if got := names(p); !reflect.DeepEqual(got, []string{"hot_leaf", "hot_leaf", ""}) {
		t.Errorf("names %q", got)
	}
	if len(p.Functions) != 1 || p.Functions[0].Start != leaf || p.Functions[0].Linkage != "hot_leaf" {
		t.Errorf("functions %+v", p.Functions)
	}
	x := out.Objects[0]
	if x.Frames != 3 || x.FramesNamed != 2 || x.Samples != 3 || x.SamplesUnnamed != 1 || x.Reason != symbol.Gap || x.Quality != objfile.Symtab || x.Unverified {
		t.Errorf("outcome %+v", x)
	}
	if want := "coverage: 66.66 % of 3 frames (66.6 % of samples fully named)"; out.Coverage.String() != want {
		t.Errorf("got %q, want %q", out.Coverage, want)
	}
	// An id that perf cut or padded is the same.
	p = one(profile.Object{Path: "/bin/spin", BuildID: id + "\x00\x00\x00\x00"}, leaf)
	src.files[store.Key{ID: p.Objects[0].BuildID, Kind: store.ELF}] = b
	if resolve(t, p, src); names(p)[0] != "hot_leaf" {
		t.Errorf("a padded id: %q", names(p))
	}
}

// TestDebugFile takes names from the debug file and offsets from the program.
func TestDebugFile(t *testing.T) {
	perftest.NeedTool(t, "objcopy")
	b, id, leaf := program(t, "-g")
	dir := t.TempDir()
	full, debug, stripped := filepath.Join(dir, "full"), filepath.Join(dir, "debug"), filepath.Join(dir, "stripped")
	if err := os.WriteFile(full, b, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--only-keep-debug", full, debug}, {"--strip-all", full, stripped}} {
		if out, err := exec.Command("objcopy", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	elf, dbg := store.Key{ID: id, Kind: store.ELF}, store.Key{ID: id, Kind: store.Debug}
	o := profile.Object{Path: "/bin/spin", BuildID: id}
	for _, tt := range []struct {
		files   map[store.Key][]byte
		name    string
		reason  symbol.Reason
		quality objfile.Quality
	}{
		{map[store.Key][]byte{elf: read(t, stripped), dbg: read(t, debug)}, "hot_leaf", symbol.Named, objfile.FullDWARF},
		{map[store.Key][]byte{elf: b}, "hot_leaf", symbol.Named, objfile.FullDWARF},
		{map[store.Key][]byte{elf: read(t, stripped)}, "", symbol.Exported, objfile.Dynsym},
		{map[store.Key][]byte{dbg: read(t, debug)}, "", symbol.NoRuntime, objfile.FullDWARF},
		{map[store.Key][]byte{elf: []byte("#!/bin/sh, and more of it"), dbg: read(t, debug)}, "", symbol.NoRuntime, objfile.FullDWARF},
	} {
		p := one(o, leaf+1)
		out := resolve(t, p, &fake{files: tt.files})
		if x := out.Objects[0]; names(p)[0] != tt.name || x.Reason != tt.reason || x.Quality != tt.quality {
			t.Errorf("%d files: %q, %+v", len(tt.files), names(p), x)
		}
	}
}

// TestOwnDebugFile: the recording has no id of the object, but the file has,
// and so has its debug file.
func TestOwnDebugFile(t *testing.T) {
	perftest.NeedTool(t, "objcopy")
	b, id, leaf := program(t, "-g")
	dir := t.TempDir()
	full, debug, stripped := filepath.Join(dir, "full"), filepath.Join(dir, "debug"), filepath.Join(dir, "stripped")
	if err := os.WriteFile(full, b, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--only-keep-debug", full, debug}, {"--strip-all", full, stripped}} {
		if out, err := exec.Command("objcopy", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	p := one(profile.Object{Path: "/bin/spin"}, leaf+1)
	out := resolve(t, p, &fake{files: map[store.Key][]byte{
		{Path: "/bin/spin", Kind: store.ELF}: read(t, stripped),
		{ID: id, Kind: store.Debug}:          read(t, debug),
	}})
	if x := out.Objects[0]; names(p)[0] != "hot_leaf" || !x.Unverified {
		t.Errorf("%q, %+v", names(p), x)
	}
}

// TestOtherDebugFile is case B19 for debug files: the id is right, the
// program another.
func TestOtherDebugFile(t *testing.T) {
	perftest.NeedTool(t, "objcopy")
	const id = "-Wl,--build-id=0x1111111111111111111111111111111111111111"
	b, got, _ := program(t, id, "-s", "-rdynamic")
	dir := t.TempDir()
	other := perftest.CC(t, "other", "int zzz_wrong_function(int x) { return x; }\nint main(void) { return zzz_wrong_function(1); }", id, "-g")
	if out, err := exec.Command("objcopy", "--only-keep-debug", other, dir+"/debug").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	f, err := objfile.Open(bytes.NewReader(b), int64(len(b)), "spin", nil)
	if err != nil {
		t.Fatal(err)
	}
	tab, err := f.Symbols(objfile.SymbolOptions{})
	if err != nil {
		t.Fatal(err)
	}
	leaf, _ := tab.Address("hot_leaf")
	p := one(profile.Object{Path: "/bin/spin", BuildID: got}, leaf)
	out := resolve(t, p, &fake{files: map[store.Key][]byte{{ID: got, Kind: store.ELF}: b, {ID: got, Kind: store.Debug}: read(t, dir+"/debug")}})
	if x := out.Objects[0]; names(p)[0] != "hot_leaf" || x.Quality != objfile.Dynsym || len(x.Warnings) == 0 {
		t.Errorf("%q, %+v", names(p), x)
	}
}

// TestWrongFile is the first promise: a Source that yields another program
// than asked for names nothing.
func TestWrongFile(t *testing.T) {
	_, id, leaf := program(t)
	other, _, _ := program(t)
	p := one(profile.Object{Path: "/bin/spin", BuildID: id}, leaf)
	out := resolve(t, p, &fake{files: map[store.Key][]byte{{ID: id, Kind: store.ELF}: other, {ID: id, Kind: store.Debug}: other}})
	if x := out.Objects[0]; names(p)[0] != "" || x.Reason != symbol.Mismatch || !strings.Contains(x.Detail, "build id differs") {
		t.Errorf("%q, %+v", names(p), x)
	}
}

// TestUnverified: an object without an id is named by its path, and says so.
func TestUnverified(t *testing.T) {
	b, _, leaf := program(t)
	p := one(profile.Object{Path: "/bin/spin"}, leaf)
	out := resolve(t, p, &fake{files: map[store.Key][]byte{{Path: "/bin/spin", Kind: store.ELF}: b}})
	if x := out.Objects[0]; names(p)[0] != "hot_leaf" || !x.Unverified || !strings.HasPrefix(p.Objects[0].Note, "unverified: ") {
		t.Errorf("%q, %+v, note %q", names(p), x, p.Objects[0].Note)
	}
}

const (
	text  = 0xffffffff81000000
	boot2 = 0x5600000 // by which the kernel lies elsewhere in another boot
)

const kallsyms = `ffffffff81000000 T _stext
ffffffff81000100 T do_one
ffffffff81000200 t do_two
ffffffff81000300 T _etext
ffffffffc0001000 t m_run	[my_mod]
ffffffffc0008000 t n_run	[other]
`

// TestReasons: every way to have no name has its reason.
func TestReasons(t *testing.T) {
	const id = buildid.ID("0123456789abcdef0123")
	refused := func(r store.Reason) error { return &store.RefusedError{Path: "/x", Reason: r, Why: "because"} }
	zeros := strings.ReplaceAll(strings.ReplaceAll(kallsyms, "ffffffff8", "000000000"), "ffffffffc", "000000000")
	for i := range 9 {
		zeros = strings.ReplaceAll(zeros, fmt.Sprintf("%d00 ", i), "000 ")
	}
	zeros = strings.ReplaceAll(zeros, "8000 ", "0000 ")
	zeros = strings.ReplaceAll(zeros, "1000 ", "0000 ")
	zeros = strings.ReplaceAll(zeros, "01000000", "00000000")
	k := store.Key{ID: id, Kind: store.Kallsyms}
	kernel := profile.Object{Kind: profile.KindKernel, Path: "[kernel.kallsyms]", BuildID: id, RefName: "_stext", RefAddr: text}
	for _, tt := range []struct {
		name   string
		obj    profile.Object
		files  map[store.Key][]byte
		errs   map[store.Key]error
		reason symbol.Reason
		hint   string
	}{
		{"no id", profile.Object{Path: "/x"}, nil, nil, symbol.NoBuildID, "build it with a build id"},
		{"not found", profile.Object{Path: "/x y", BuildID: id}, nil, nil, symbol.NotFound, "perfark buildid-cache --add '/x y'"},
		{"replaced", profile.Object{Path: "/x", BuildID: id}, nil, map[store.Key]error{{ID: id, Kind: store.ELF}: refused(store.Replaced)}, symbol.Replaced, "find the very build"},
		{"another id", profile.Object{Path: "/x", BuildID: id}, nil, map[store.Key]error{{ID: id, Kind: store.ELF}: &store.RefusedError{Path: "/x", Reason: store.Replaced, Got: "other"}}, symbol.Mismatch, "find the very build"},
		{"carries no id", profile.Object{Path: "/x", BuildID: id}, nil, map[store.Key]error{{ID: id, Kind: store.ELF}: refused(store.NoID)}, symbol.Replaced, "find the very build"},
		{"ambiguous", profile.Object{Path: "/x", BuildID: id}, nil, map[store.Key]error{{ID: id, Kind: store.ELF}: refused(store.Ambiguous)}, symbol.Ambiguous, "find the very build"},
		{"unreadable", profile.Object{Path: "/x", BuildID: id}, nil, map[store.Key]error{{ID: id, Kind: store.ELF}: fs.ErrPermission}, symbol.NotPermitted, "as root"},
		{"I/O error", profile.Object{Path: "/x", BuildID: id}, nil, map[store.Key]error{{ID: id, Kind: store.ELF}: errors.New("input/output error")}, symbol.Damaged, ""},
		{"not ELF", profile.Object{Path: "/x", BuildID: id}, map[store.Key][]byte{{ID: id, Kind: store.ELF}: []byte("<html>, and so on")}, nil, symbol.Damaged, ""},
		{"deleted", profile.Object{Path: "/x (deleted)", BuildID: id}, nil, nil, symbol.Deleted, "find the very build"},
		{"memfd", profile.Object{Path: "/memfd:x (deleted)"}, nil, nil, symbol.Memfd, "while the process lives"},
		{"vdso", profile.Object{Kind: profile.KindVDSO, Path: "[vdso]", BuildID: id}, nil, nil, symbol.NoVDSO, "same kernel"}, // S56
		{"perf map", profile.Object{Kind: profile.KindPerfMap, Path: "/tmp/perf-7.map", PID: 7}, nil, nil, symbol.NoPerfMap, "perf-PID.map"},
		{"stack", profile.Object{Kind: profile.KindSpecial, Path: "[stack]"}, nil, nil, symbol.NotCode, ""},
		{"no kallsyms", kernel, nil, nil, symbol.NoKallsyms, "same boot"}, // S15
		{"restricted", kernel, map[store.Key][]byte{k: []byte(zeros)}, nil, symbol.Restricted, "kptr_restrict"},
		{"restricted in a cache, and another kernel here", kernel, nil, map[store.Key]error{k: errors.Join(refused(store.OtherHost), refused(store.Restricted))}, symbol.Restricted, "kptr_restrict"}, // S12
		{"no reference", kernel, map[store.Key][]byte{k: []byte(strings.ReplaceAll(kallsyms, "_stext", "stext"))}, nil, symbol.OtherBoot, "same boot"},
		{"not kallsyms", kernel, map[store.Key][]byte{k: []byte("x")}, nil, symbol.Damaged, ""},
		{"module", profile.Object{Kind: profile.KindModule, Path: "[my_mod]", BuildID: id}, nil, nil, symbol.NoModule, "perfark archive"},
	} {
		p := one(tt.obj, 0xffffffff81000110)
		out := resolve(t, p, &fake{files: tt.files, errs: tt.errs})
		x := out.Objects[0]
		if names(p)[0] != "" || x.Reason != tt.reason || !strings.Contains(x.Hint, tt.hint) || !strings.HasPrefix(p.Objects[0].Note, string(tt.reason)) || tt.hint == "" != (x.Hint == "") {
			t.Errorf("%s: %q, reason %q, hint %q, note %q", tt.name, names(p), x.Reason, x.Hint, p.Objects[0].Note)
		}
	}
}

// TestKernel: S11, S16 and S17. A copy of kallsyms of another boot is moved by
// the reference symbol; the id is the Source's to check.
func TestKernel(t *testing.T) {
	const id = buildid.ID("0123456789abcdef0123")
	src := &fake{files: map[store.Key][]byte{{ID: id, Kind: store.Kallsyms}: []byte(kallsyms)}}
	for _, shift := range []uint64{0, boot2, 1<<64 - boot2} {
		p := one(profile.Object{Kind: profile.KindKernel, Path: "[kernel.kallsyms]", BuildID: id, RefName: "_stext", RefAddr: text + shift},
			text+shift+0x110, text+shift+0x2ff, text+shift-1)
		p.Objects = append(p.Objects, profile.Object{Kind: profile.KindModule, Path: "/lib/modules/1/my-mod.ko.xz", Short: "[my_mod]", BuildID: "x", Start: 0xffffffffc0001000},
			profile.Object{Kind: profile.KindBPF, Path: "bpf_prog_6deef7357e7b4530_x", Start: 0xffffffffc0005000, End: 0xffffffffc0005100})
		p.Locations = append(p.Locations, profile.Location{Object: 1, Addr: 0xffffffffc0001010}, profile.Location{Object: 2, Addr: 0xffffffffc0005010})
		out := resolve(t, p, src)
		want := []string{"do_one", "do_two", "", "m_run", "bpf_prog_6deef7357e7b4530_x"}
		if shift != 0 {
			want[3] = "" // where modules lay in that boot, nobody knows
		}
		if got := names(p); !reflect.DeepEqual(got, want) {
			t.Errorf("shift %#x: %q, want %q", shift, got, want)
		}
		if f := p.Functions[0]; f.Start != text+shift+0x100 || f.End != text+shift+0x200 || !out.Objects[0].Kallsyms {
			t.Errorf("shift %#x: function %+v", shift, f)
		}
	}
}

// TestKernelUnverified: kallsyms that only the boot ties to the recording are
// used if they are of that boot, and said to be unverified.
func TestKernelUnverified(t *testing.T) {
	src := &fake{files: map[store.Key][]byte{{Path: "[kernel.kallsyms]", Kind: store.Kallsyms}: []byte(kallsyms)}}
	for shift, want := range map[uint64]string{0: "do_one", boot2: ""} {
		p := one(profile.Object{Kind: profile.KindKernel, Path: "[kernel.kallsyms]", RefName: "_stext", RefAddr: text + shift}, text+shift+0x110)
		out := resolve(t, p, src)
		if x := out.Objects[0]; names(p)[0] != want || x.Unverified != (want != "") || (x.Reason == symbol.OtherBoot) != (want == "") {
			t.Errorf("shift %#x: %q, %+v", shift, names(p), x)
		}
	}
}

// TestVmlinux names a kernel from its ELF image, moved by the recorded
// reference symbol (S16) or by kallsyms (S17), and not at all without either.
func TestVmlinux(t *testing.T) {
	b := read(t, perftest.CC(t, "vmlinux", `
__attribute__((section(".text.a"))) void _stext(void) { __asm__ volatile(".skip 64"); }
__attribute__((section(".text.b"))) void do_image(void) { __asm__ volatile(".skip 64"); }
void _start(void) {}
`, "-nostdlib", "-static", "-O1", "-mcmodel=kernel", "-fno-pie", "-no-pie", "-Wl,-Ttext=0xffffffff81000000", "-Wl,--build-id=sha1"))
	f, err := objfile.Open(bytes.NewReader(b), int64(len(b)), "vmlinux", nil)
	if err != nil {
		t.Fatal(err)
	}
	tab, err := f.Symbols(objfile.SymbolOptions{Space: objfile.Addresses})
	if err != nil {
		t.Fatal(err)
	}
	ref, _ := tab.Address("_stext")
	at, _ := tab.Address("do_image")
	id := f.BuildID()
	elf, ks := store.Key{ID: id, Kind: store.ELF}, store.Key{ID: id, Kind: store.Kallsyms}
	moved := []byte(fmt.Sprintf("%x T _stext\n%x T do_kallsyms\n", ref+boot2, at+boot2))
	for _, tt := range []struct {
		name  string
		obj   profile.Object
		files map[store.Key][]byte
		want  string
	}{
		{"reference", profile.Object{RefName: "_stext", RefAddr: ref + boot2}, map[store.Key][]byte{elf: b, ks: moved}, "do_image"},
		{"by kallsyms", profile.Object{}, map[store.Key][]byte{elf: b, ks: moved}, "do_image"},
		{"neither", profile.Object{}, map[store.Key][]byte{elf: b}, ""},
		{"unknown reference", profile.Object{RefName: "_absent", RefAddr: ref + boot2}, map[store.Key][]byte{elf: b}, ""},
		{"kallsyms only", profile.Object{RefName: "_stext", RefAddr: ref + boot2}, map[store.Key][]byte{ks: moved}, "do_kallsyms"},
	} {
		tt.obj.Kind, tt.obj.Path, tt.obj.BuildID = profile.KindKernel, "[kernel.kallsyms]", id
		p := one(tt.obj, at+boot2+2)
		resolve(t, p, &fake{files: tt.files})
		if names(p)[0] != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, names(p), tt.want)
		}
	}
}

// TestPerfMap names code made at run time.
func TestPerfMap(t *testing.T) {
	p := one(profile.Object{Kind: profile.KindPerfMap, Path: "/tmp/perf-7.map", PID: 7}, 0x1008, 0x2000)
	resolve(t, p, &fake{files: map[store.Key][]byte{{Path: "/tmp/perf-7.map", Kind: store.PerfMap}: []byte("1000 10 old\n1000 10 LFoo;bar\n")}})
	if got := names(p); !reflect.DeepEqual(got, []string{"LFoo;bar", ""}) {
		t.Errorf("names %q", got)
	}
}

// TestCoverage counts samples by their whole stacks.
func TestCoverage(t *testing.T) {
	b, id, leaf := program(t)
	p := one(profile.Object{Path: "/bin/spin", BuildID: id}, leaf, leaf+1)
	p.Objects = append(p.Objects, profile.Object{Path: "/gone", BuildID: "gone"})
	p.Locations = append(p.Locations,
		profile.Location{Object: 1, Addr: 5}, profile.Location{Object: profile.None, Level: '.', Addr: 6}, profile.Location{Object: profile.None, Level: 'k', Addr: 7})
	p.Stacks = []profile.Stack{{Location: 0, Caller: profile.None}, {Location: 2, Caller: 0}, {Location: 3, Caller: 1}, {Location: 1, Caller: 0}, {Location: 4, Caller: 5}, {Location: 4, Caller: 4}}
	p.Samples = []profile.Sample{
		{Location: 0, Stack: profile.None, Count: 1000}, {Location: 1, Stack: 3, Count: 100}, {Location: 0, Stack: 1, Count: 10}, {Location: 0, Stack: 2, Count: 5}, {Location: 2, Stack: 4, Count: 1},
	}
	out := resolve(t, p, &fake{files: map[store.Key][]byte{{ID: id, Kind: store.ELF}: b}})
	if want := (symbol.Coverage{Frames: 5, FramesNamed: 2, Samples: 1116, SamplesFullyNamed: 1100}); out.Coverage != want {
		t.Errorf("got %+v, want %+v", out.Coverage, want)
	}
	if n := []uint64{out.Objects[0].SamplesUnnamed, out.Objects[1].SamplesUnnamed, out.Unmapped.SamplesUnnamed, out.UnmappedKernel.SamplesUnnamed}; !reflect.DeepEqual(n, []uint64{0, 16, 5, 1}) {
		t.Errorf("unnamed samples %v", n)
	}
	var missing []symbol.Reason
	for _, m := range out.Missing() {
		missing = append(missing, m.Reason)
	}
	if want := []symbol.Reason{symbol.NotFound, symbol.NoMapping, symbol.Hidden}; !reflect.DeepEqual(missing, want) {
		t.Errorf("missing %q, want %q", missing, want)
	}
}

func TestCoverageString(t *testing.T) {
	for _, tt := range []struct {
		c    symbol.Coverage
		want string
	}{
		{symbol.Coverage{Frames: 12481, FramesNamed: 12395, Samples: 1000, SamplesFullyNamed: 989}, "coverage: 99.31 % of 12,481 frames (98.9 % of samples fully named)"},
		{symbol.Coverage{Frames: 1000000, FramesNamed: 999999, Samples: 1 << 60, SamplesFullyNamed: 1<<60 - 1}, "coverage: 99.99 % of 1,000,000 frames (99.9 % of samples fully named)"},
		{symbol.Coverage{Frames: 10, FramesNamed: 10, Samples: 5, SamplesFullyNamed: 5}, "coverage: 100.00 % of 10 frames (100.0 % of samples fully named)"},
		{symbol.Coverage{}, "coverage: 100.00 % of 0 frames (100.0 % of samples fully named)"},
		{symbol.Coverage{Frames: 999, Samples: 7}, "coverage: 0.00 % of 999 frames (0.0 % of samples fully named)"},
	} {
		if got := tt.c.String(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// TestWorkers: the result does not depend on their number.
func TestWorkers(t *testing.T) {
	src := &fake{files: map[store.Key][]byte{}}
	make := func() *profile.Profile {
		p := one(profile.Object{Path: "/none", BuildID: "none"}, 1, 2)
		for i := range 20 {
			o := profile.Object{Kind: profile.KindPerfMap, Path: fmt.Sprintf("/tmp/perf-%d.map", i)}
			src.files[store.Key{Path: o.Path, Kind: store.PerfMap}] = fmt.Appendf(nil, "1000 10 a%d\n2000 10 b%d\n", i, i)
			p.Objects = append(p.Objects, o)
			for _, a := range []uint64{0x2004, 0x1002, 0x3000, 0x1001} {
				p.Locations = append(p.Locations, profile.Location{Object: int32(i + 1), Addr: a + uint64(i%3)})
			}
		}
		return p
	}
	var first *profile.Profile
	var firstOut *symbol.Outcome
	for _, n := range []int{1, 2, 7, 64} {
		p := make()
		out, err := symbol.Resolve(context.Background(), p, symbol.Options{Source: src, Workers: n})
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first, firstOut = p, out
			continue
		}
		if !reflect.DeepEqual(p, first) || !reflect.DeepEqual(out, firstOut) {
			t.Errorf("%d workers give another result than one", n)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := symbol.Resolve(ctx, make(), symbol.Options{Source: src}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	// Resolving again, with nothing, takes the names away.
	out, err := symbol.Resolve(context.Background(), first, symbol.Options{})
	if err != nil || out.Coverage.FramesNamed != 0 || len(first.Functions) != 0 {
		t.Errorf("without a source: %v, %v", out.Coverage, err)
	}
}
