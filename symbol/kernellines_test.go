package symbol_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/perfark/perfark/index"
	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/store"
)

const kernelSource = `
volatile int x;
static inline __attribute__((always_inline)) void step(int n) { x += n; }
__attribute__((section(".text.a"))) void _stext(void) { __asm__ volatile(".skip 64"); }
__attribute__((section(".text.b"))) void do_image(int n) {
	step(n);
	x = 7;
}
void _start(void) {}
`

// TestKernelLinesBoots: a kernel image was linked elsewhere than it ran, and runs
// elsewhere in each boot. What is kept of it serves all boots.
func TestKernelLinesBoots(t *testing.T) {
	image := perftest.CC(t, "vmlinux", kernelSource, "-g", "-nostdlib", "-static", "-O1", "-mcmodel=kernel", "-fno-pie", "-no-pie", "-Wl,-Ttext=0xffffffff81000000", "-Wl,--build-id=sha1")
	b := read(t, image)
	f := openObject(t, b)
	tab, err := f.Symbols(objfile.SymbolOptions{Space: objfile.Addresses})
	if err != nil {
		t.Fatal(err)
	}
	ref, _ := tab.Address("_stext")
	at, _ := tab.Address("do_image")
	id := f.BuildID()
	c := index.NewCache(filepath.Join(t.TempDir(), "index"), 0)
	run(t, filepath.Dir(image), "strip", "-g", "-o", "stripped", image)
	stripped := read(t, filepath.Join(filepath.Dir(image), "stripped"))
	for i, image := range [][]byte{b, b, stripped} {
		shift := uint64(i) * 0x200000
		p := one(profile.Object{Kind: profile.KindKernel, Path: "[kernel.kallsyms]", BuildID: id, RefName: "_stext", RefAddr: ref + shift}, at+shift)
		resolveLines(t, p, &fake{files: map[store.Key][]byte{{ID: id, Kind: store.ELF}: image}}, c)
		if got := chains(p); len(got) != 1 || got[0] != "step vmlinux.c:3 < do_image vmlinux.c:6" {
			t.Errorf("boot %d: %q", i, got)
		}
		if fn := p.Functions[p.Locations[0].Func]; fn.Start != at+shift {
			t.Errorf("boot %d: function %+v, want it at %#x", i, fn, at+shift)
		}
	}
}

// TestModuleLines: a module's lines are in its file, whose code the kernel lays
// out, and in the debug file of that.
func TestModuleLines(t *testing.T) {
	dir := t.TempDir()
	perftest.NeedTool(t, "gcc")
	src := `
volatile int x;
static inline __attribute__((always_inline)) void step(int n) { x += n; }
void __attribute__((section(".text.first"))) m_init(void) { x = 1; }
void m_run(int n) {
	step(n);
	x = 7;
}
`
	if err := os.WriteFile(filepath.Join(dir, "m.c"), []byte(src), 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, dir, "gcc", "-g", "-O1", "-fno-pic", "-c", "-o", "m.o", "m.c")
	run(t, dir, "ld", "-r", "--build-id=sha1", "-o", "m.ko", "m.o")
	run(t, dir, "objcopy", "--only-keep-debug", "m.ko", "m.ko.debug")
	run(t, dir, "strip", "-g", "-o", "m.stripped.ko", "m.ko")
	whole, debug, stripped := read(t, dir+"/m.ko"), read(t, dir+"/m.ko.debug"), read(t, dir+"/m.stripped.ko")
	f := openObject(t, whole)
	tab, err := f.Symbols(objfile.SymbolOptions{Space: objfile.Loaded})
	if err != nil {
		t.Fatal(err)
	}
	at, ok := tab.Address("m_run")
	if !ok || f.BuildID() == "" {
		t.Skip("NOTICE: ld made no module of it")
	}
	id := f.BuildID()
	const start = 0xffffffffc0001000
	for name, files := range map[string]map[store.Key][]byte{
		"whole": {{ID: id, Kind: store.ELF}: whole},
		"debug": {{ID: id, Kind: store.ELF}: stripped, {ID: id, Kind: store.Debug}: debug},
	} {
		p := one(profile.Object{Kind: profile.KindModule, Path: "/lib/modules/1/m.ko", Short: "[m]", BuildID: id, Start: start}, start+at)
		out := resolveLines(t, p, &fake{files: files}, nil)
		if got := chains(p); !reflect.DeepEqual(got, []string{"step m.c:3 < m_run m.c:6"}) {
			t.Errorf("%s: %q, %+v", name, got, out.Objects[0])
		}
	}
}
