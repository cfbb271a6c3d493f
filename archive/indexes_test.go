package archive

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/session"
	"github.com/perfark/perfark/store"
	"github.com/perfark/perfark/symbol"
)

const inlineSource = `
volatile unsigned long x;
static inline __attribute__((always_inline)) void inner(long n) {
	for (long i = 0; i < n; i++)
		x += i * n;
}
__attribute__((noinline)) void hot(long n) {
	inner(n);
	x--;
}
int main(int c, char **v) { hot(c); return 0; }
`

// TestPackIndex: with --index an archive has lines and inlined functions also
// where it has no debug files; unpacked into a cache too.
func TestPackIndex(t *testing.T) {
	dir := t.TempDir()
	whole := perftest.CC(t, "prog", inlineSource, "-O2", "-g", "-Wl,--build-id=uuid")
	prog := filepath.Join(dir, "prog")
	for _, args := range [][]string{{"strip", "-o", prog, whole}, {"objcopy", "--only-keep-debug", whole, prog + ".debug"}} {
		perftest.NeedTool(t, args[0])
		if r := perftest.Run(t, dir, nil, nil, args[0], args[1:]...); r.Code != 0 {
			t.Fatalf("%q: %s", args, r.Stderr)
		}
	}
	b, err := os.ReadFile(whole)
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
	start, _ := tab.Address("hot")
	hot, _ := tab.Lookup(start)
	made := func() *session.Result {
		r := result(obj{prog, f.BuildID(), profile.KindFile, 1})
		p := r.Profile
		p.Locations, p.Samples = nil, nil
		for a := hot.Start; a < hot.End; a++ {
			p.Samples = append(p.Samples, profile.Sample{Location: int32(len(p.Locations)), Stack: profile.None, Extra: profile.None, CPU: -1, Count: 1, Period: 1})
			p.Locations = append(p.Locations, profile.Location{Object: 0, Level: '.', Addr: a, Func: profile.None})
		}
		p.Objects[0].Samples = uint64(len(p.Samples))
		r.Locations = []int{len(p.Locations)}
		return r
	}
	src := &fakeSource{dir: filepath.Join(dir, "src")}
	for kind, name := range map[store.Kind]string{store.ELF: prog, store.Debug: prog + ".debug"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		src.put(t, kind, prog, b)
	}
	lines := func(src store.Source) (out []string) {
		p := made().Profile
		if _, err := symbol.Resolve(t.Context(), p, symbol.Options{Source: src, Lines: true, Inlines: true}); err != nil {
			t.Fatal(err)
		}
		for i := range p.Locations {
			var frames []string
			for _, f := range p.FramesOf(&p.Locations[i]) {
				frames = append(frames, fmt.Sprintf("%s:%d", p.Functions[f.Func].Name, f.Line))
			}
			out = append(out, strings.Join(frames, " < "))
		}
		return out
	}
	want := lines(src)
	if !slices.Contains(want, "inner:5 < hot:8") {
		t.Fatalf("the compiler did not inline: %q", want)
	}

	var archives [][]byte
	for _, workers := range []int{1, 4} {
		pl, err := NewPlan(t.Context(), made(), PlanOptions{Source: src, Index: true, DebugInfo: DebugNone, Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		defer pl.Close()
		name := filepath.Join(dir, "out.tar.zst")
		res, err := pl.Pack(t.Context(), name, PackOptions{EncodeOptions: EncodeOptions{Format: Zstd, Workers: workers}})
		if err != nil {
			t.Fatal(err)
		}
		if c := res.Outcome.Coverage; c.FramesNamed != 0 {
			t.Errorf("%v: it is of what the files name, which have no symbols", c)
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, b)
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of the same are not the same")
	}
	a, err := Open(t.Context(), filepath.Join(dir, "out.tar.zst"), OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if got := lines(a); !reflect.DeepEqual(got, want) {
		t.Errorf("from the archive: %q\nwant %q", got, want)
	}
	if r, err := a.Verify(t.Context(), VerifyOptions{}); err != nil || len(r.Defects) > 0 {
		t.Errorf("verify: %v, %v", r, err)
	}
	debug := filepath.Join(dir, "debug")
	if _, err := Unpack(t.Context(), bytes.NewReader(archives[0]), UnpackOptions{Dir: debug}); err != nil {
		t.Fatal(err)
	}
	if got := lines(store.Cache(debug)); !reflect.DeepEqual(got, want) {
		t.Errorf("from the cache: %q\nwant %q", got, want)
	}
	list, err := store.Cache(debug).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[store.Kind]bool{}
	for _, e := range list {
		kinds[e.Kind] = true
		if e.Problem != "" {
			t.Errorf("%s: %s", e.File, e.Problem)
		}
	}
	if !kinds[store.Index] || kinds[store.Debug] {
		t.Errorf("kinds of files in the cache: %v", kinds)
	}
}
