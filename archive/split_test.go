package archive

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/store"
	"github.com/perfark/perfark/symbol"
)

// TestPackSplit: the .dwo file that a unit of the profile needs comes along,
// wherever the compiler wrote it; others do not (S37, S38).
func TestPackSplit(t *testing.T) {
	perftest.NeedTool(t, "gcc")
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "obj"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, src := range map[string]string{"a.c": inlineSource, "b.c": "int unused(void) { return 3; }\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(src), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"-O2", "-g", "-gsplit-dwarf", "-c", "-o", "obj/a.o", "a.c"},
		{"-O2", "-g", "-gsplit-dwarf", "-c", "-o", "obj/b.o", "b.c"},
		{"-Wl,--build-id=uuid", "-o", "prog", "obj/a.o", "obj/b.o"},
	} {
		if r := perftest.Run(t, dir, nil, nil, "gcc", args...); r.Code != 0 {
			t.Fatalf("gcc %q: %s", args, r.Stderr)
		}
	}
	prog := filepath.Join(dir, "prog")
	b, err := os.ReadFile(prog)
	if err != nil {
		t.Fatal(err)
	}
	f, err := objfile.Open(bytes.NewReader(b), int64(len(b)), "prog", nil)
	if err != nil {
		t.Fatal(err)
	}
	tab, err := f.Symbols(objfile.SymbolOptions{})
	if err != nil {
		t.Fatal(err)
	}
	hot, _ := tab.Address("hot")
	r := result(obj{prog, f.BuildID(), profile.KindFile, 1})
	r.Profile.Locations[0].Addr = hot
	_, got, err := pack(t, r, PlanOptions{Source: hostFiles{}}, PackOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dwos := 0
	for name := range got {
		if strings.HasSuffix(filepath.Dir(filepath.Dir(name)), ".dwo") {
			dwos++
			if !strings.HasSuffix(filepath.Dir(filepath.Dir(name)), "obj/a.dwo") {
				t.Errorf("member %s", name)
			}
		}
	}
	if dwos != 1 {
		t.Errorf("%d .dwo files in %q", dwos, keys(got))
	}

	pl, err := NewPlan(t.Context(), r, PlanOptions{Source: hostFiles{}})
	if err != nil {
		t.Fatal(err)
	}
	defer pl.Close()
	name := filepath.Join(t.TempDir(), "out.tar.zst")
	if _, err := pl.Pack(t.Context(), name, PackOptions{EncodeOptions: EncodeOptions{Format: Zstd}}); err != nil {
		t.Fatal(err)
	}
	a, err := Open(t.Context(), name, OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for _, src := range []store.Source{a} {
		if _, err := symbol.Resolve(t.Context(), r.Profile, symbol.Options{Source: src, Lines: true, Inlines: true}); err != nil {
			t.Fatal(err)
		}
		if l := &r.Profile.Locations[0]; l.NFrames != 2 || r.Profile.Functions[r.Profile.FramesOf(l)[0].Func].Name != "inner" {
			t.Errorf("frames %+v of %+v", r.Profile.FramesOf(l), r.Profile.Functions)
		}
	}
}
