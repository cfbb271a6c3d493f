package symbol_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/store"
	"github.com/perfark/perfark/symbol"
)

// TestKernelLines: S18. The lines of a kernel that was moved at boot, and of a
// module, are those of their debug information.
func TestKernelLines(t *testing.T) {
	image := read(t, perftest.CC(t, "vmlinux", `
void _stext(void) { __asm__ volatile(".skip 64"); }
static inline __attribute__((always_inline)) void inl_image(void) {
	__asm__ volatile(".skip 8");
}
void do_image(void) {
	__asm__ volatile(".skip 16");
	inl_image();
}
void _start(void) {}
`, "-g", "-nostdlib", "-static", "-O1", "-fcf-protection=none", "-mcmodel=kernel", "-fno-pie", "-no-pie", "-Wl,-Ttext=0xffffffff81000000", "-Wl,--build-id=sha1"))
	f, err := objfile.Open(bytes.NewReader(image), int64(len(image)), "vmlinux", nil)
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
	text := func(p *profile.Profile, l int) (s string) {
		for _, f := range p.FramesOf(&p.Locations[l]) {
			file := ""
			if f.File != profile.None {
				file = filepath.Base(p.Files[f.File])
			}
			s += fmt.Sprintf("%s %s:%d; ", p.Functions[f.Func].Name, file, f.Line)
		}
		return s
	}
	lines := func(p *profile.Profile, src store.Source) {
		t.Helper()
		if _, err := symbol.Resolve(context.Background(), p, symbol.Options{Source: src, Lines: true, Inlines: true}); err != nil {
			t.Fatal(err)
		}
	}
	elf, ks := store.Key{ID: id, Kind: store.ELF}, store.Key{ID: id, Kind: store.Kallsyms}
	moved := []byte(fmt.Sprintf("%x T _stext\n%x T do_image\n", ref+boot2, at+boot2))
	for name, obj := range map[string]profile.Object{
		"by the reference symbol": {RefName: "_stext", RefAddr: ref + boot2},
		"by kallsyms":             {},
	} {
		obj.Kind, obj.Path, obj.BuildID = profile.KindKernel, "[kernel.kallsyms]", id
		p := one(obj, at+boot2+2, at+boot2+18)
		lines(p, &fake{files: map[store.Key][]byte{elf: image, ks: moved}})
		if got := text(p, 0); got != "do_image vmlinux.c:7; " {
			t.Errorf("%s: %q", name, got)
		}
		if got := text(p, 1); got != "inl_image vmlinux.c:4; do_image vmlinux.c:8; " {
			t.Errorf("%s: %q", name, got)
		}
	}

	// A module: two sections of code, of which the second is aligned.
	dir := t.TempDir()
	src := filepath.Join(dir, "mod.c")
	if err := os.WriteFile(src, []byte(`
__asm__(".pushsection .note.gnu.build-id,\"a\",@note\n.balign 4\n.long 4, 4, 3\n.asciz \"GNU\"\n.byte 1,2,3,4\n.popsection");
int mod_first(int x) { return x * 3; }
int __attribute__((section(".text.hot"), aligned(64))) mod_hot(int x) {
	return x * 7 + 2;
}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := perftest.Run(t, dir, nil, nil, "gcc", "-c", "-g", "-O1", "-fcf-protection=none", "-o", "mod.ko", src); r.Code != 0 {
		t.Fatalf("gcc: %s", r.Stderr)
	}
	ko := read(t, filepath.Join(dir, "mod.ko"))
	const start = 0xffffffffc0100000
	p := one(profile.Object{Kind: profile.KindModule, Path: "[mod]", Short: "[mod]", BuildID: "\x01\x02\x03\x04", Start: start, End: start + 0x1000}, start, start+64)
	lines(p, &fake{files: map[store.Key][]byte{{ID: "\x01\x02\x03\x04", Kind: store.ELF}: ko}})
	if got := text(p, 0) + text(p, 1); got != "mod_first mod.c:3; mod_hot mod.c:5; " {
		t.Errorf("module: %q", got)
	}
}
