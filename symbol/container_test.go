package symbol_test

import (
	"archive/zip"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/store"
	"github.com/perfark/perfark/symbol"
)

// TestContainer is C19, C20 and C21: code that is mapped out of a larger file
// has names, and an object for each file inside.
func TestContainer(t *testing.T) {
	x, _, xLeaf := program(t, "-shared", "-fPIC")
	y, _, yLeaf := program(t, "-shared", "-fPIC", "-DUNUSED")
	var z bytes.Buffer
	w := zip.NewWriter(&z)
	put := func(name string, method uint16, b []byte) {
		h := &zip.FileHeader{Name: name, Method: method}
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		f.Write(b)
	}
	put("lib/x86_64/libX.so", zip.Store, x)
	put("lib/x86_64/libY.so", zip.Store, y)
	put("lib/x86_64/libZ.so", zip.Deflate, x)
	w.Close()
	apk := z.Bytes()
	xAt, yAt, zAt := bytes.Index(apk, x), bytes.Index(apk, y), bytes.Index(apk, []byte("libZ.so"))
	const path = "/data/app/base.apk"
	src := &fake{files: map[store.Key][]byte{{Path: path, Kind: store.ELF}: apk}}
	make := func() *profile.Profile {
		p := one(profile.Object{Path: path, Short: "base.apk"}, uint64(xAt)+xLeaf+1, uint64(yAt)+yLeaf+2, uint64(xAt)+xLeaf, uint64(zAt)+100, uint64(len(apk))-10)
		// The third sample has the second location as its caller.
		p.Stacks = []profile.Stack{{Location: 1, Caller: profile.None}}
		p.Samples[2].Stack = 0
		return p
	}
	p := make()
	out := resolve(t, p, src)
	check := func() {
		t.Helper()
		if got, want := names(p), []string{"hot_leaf", "hot_leaf", "hot_leaf", "", ""}; !reflect.DeepEqual(got, want) {
			t.Fatalf("names %q, want %q: %+v", got, want, out.Objects)
		}
		type row struct {
			path, short, container string
			offset, samples        uint64
		}
		var got []row
		for _, o := range p.Objects {
			got = append(got, row{o.Path, o.Short, o.Container, o.Offset, o.Samples})
		}
		want := []row{
			{path, "base.apk", "", 0, 2},
			{path + "!/lib/x86_64/libX.so", "base.apk!libX.so", path, uint64(xAt), 2},
			{path + "!/lib/x86_64/libY.so", "base.apk!libY.so", path, uint64(yAt), 2},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("objects\n%+v, want\n%+v", got, want)
		}
		if p.Locations[0].Addr != xLeaf+1 || p.Locations[0].Object != 1 || p.Functions[p.Locations[1].Func].Start != yLeaf {
			t.Errorf("locations %+v, functions %+v", p.Locations, p.Functions)
		}
		for i := 1; i < 3; i++ {
			if o := out.Objects[i]; !o.Unverified || o.Quality != objfile.Symtab || !strings.HasPrefix(p.Objects[i].Note, "unverified: ") || !strings.HasSuffix(o.Origins[0], "!/lib/x86_64/lib"+[]string{"X", "Y"}[i-1]+".so") {
				t.Errorf("%+v, note %q", o, p.Objects[i].Note)
			}
		}
		if o := out.Objects[0]; o.Reason != symbol.Damaged || !strings.Contains(o.Detail, `"lib/x86_64/libZ.so": the member is compressed`) {
			t.Errorf("%+v", o)
		}
	}
	check()
	out = resolve(t, p, src) // again
	check()
	p = make()
	out = resolve(t, p, &fake{})
	if got := names(p); len(p.Objects) != 1 || got[0] != "" || out.Objects[0].Reason != symbol.NoBuildID || !strings.Contains(out.Objects[0].Hint, "libraries inside") {
		t.Errorf("without the file: %q, %+v", got, out.Objects)
	}
}

// TestContainerDebug: the debug file of a library inside is found by the id
// that the library carries.
func TestContainerDebug(t *testing.T) {
	perftest.NeedTool(t, "objcopy")
	b, id, leaf := program(t, "-shared", "-fPIC", "-g")
	dir := t.TempDir()
	full := filepath.Join(dir, "full")
	if err := os.WriteFile(full, b, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--only-keep-debug", full, dir + "/debug"}, {"--strip-all", full, dir + "/stripped"}} {
		if out, err := exec.Command("objcopy", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	stripped, debug := read(t, dir+"/stripped"), read(t, dir+"/debug")
	raw := append(make([]byte, 8192), stripped...)
	p := one(profile.Object{Path: "/x/apk.bin", Short: "apk.bin"}, 8192+leaf)
	out := resolve(t, p, &fake{files: map[store.Key][]byte{{Path: "/x/apk.bin", Kind: store.ELF}: raw, {ID: id, Kind: store.Debug}: debug}})
	if got := names(p); got[0] != "hot_leaf" || p.Objects[1].Path != "/x/apk.bin!/0x2000" || !out.Objects[1].Unverified || out.Objects[1].Quality != objfile.FullDWARF {
		t.Errorf("names %q, %+v, %+v", got, p.Objects, out.Objects)
	}
}
