package archive

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/store"
)

// wipe makes a slim copy lose something that it needs.
func wipe(p *part, off, n int) {
	p.slim.Patches = append(p.slim.Patches, objfile.Patch{Off: int64(off), Data: make([]byte, n)})
}

// A slim copy names what the whole one names, or the whole one is packed
// (B24: what was cut off must not be missed).
func TestSlim(t *testing.T) {
	src := `
#include <stdio.h>
static const char text[9000] = "constant data";
static inline int inner(int x) { return x * printf("%s", text + x); }
__attribute__((noinline)) int hot(int x) { return inner(x) + 1; }
__attribute__((noinline, aligned(256))) int cold(int x) { return inner(x * 2) - 1; }
int main(int c, char **v) { return hot(c) + cold(c); }
`
	whole, err := os.ReadFile(perftest.CC(t, "prog", src, "-O2", "-g", "-Wl,--build-id=0x0101010101010101010101010101010101010101"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := objfile.Open(bytes.NewReader(whole), int64(len(whole)), "prog", decode.NewBudget(decode.Limits{}))
	if err != nil {
		t.Fatal(err)
	}
	tab, err := f.Symbols(objfile.SymbolOptions{})
	if err != nil {
		t.Fatal(err)
	}
	funcs := map[string]objfile.Sym{}
	for s := range tab.All {
		funcs[s.Name] = s
	}
	for _, tt := range []struct {
		name   string
		damage func(p *part)
		slim   bool
	}{
		{"as it is", func(*part) {}, true},
		{"without symbols", func(p *part) { wipe(p, bytes.LastIndex(whole, []byte("\x00hot\x00")), 5) }, false},
		{"without lines", func(p *part) { wipe(p, bytes.Index(whole, []byte("prog.c\x00")), 6) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &fakeSource{dir: t.TempDir()}
			s.put(t, store.ELF, "/prog", whole)
			r := result(obj{"/prog", id(1), profile.KindFile, 1})
			r.Profile.Locations[0].Addr = funcs["hot"].Start + 4
			pl, err := NewPlan(t.Context(), r, PlanOptions{Source: s, Slim: true})
			if err != nil {
				t.Fatal(err)
			}
			defer pl.Close()
			if n := len(pl.items); n != 1 || pl.items[0].parts[0].slim == nil {
				t.Fatalf("%d items, or not slim", n)
			}
			if kept := pl.Files()[0].Kept; kept <= 0 || kept >= int64(len(whole)) {
				t.Errorf("%d bytes kept of %d", kept, len(whole))
			}
			tt.damage(pl.items[0].parts[0])
			name := filepath.Join(t.TempDir(), "out.tar")
			res, err := pl.Pack(t.Context(), name, PackOptions{EncodeOptions: EncodeOptions{Format: Tar}})
			if err != nil {
				t.Fatal(err)
			}
			file := res.Manifest.Objects[0].Files[0]
			if file.Slim != tt.slim || file.Size != int64(len(whole)) {
				t.Errorf("slim %v, %d bytes; want %v, %d", file.Slim, file.Size, tt.slim, len(whole))
			}
			a, err := Open(t.Context(), name, OpenOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			got, err := a.Get(t.Context(), store.Key{ID: id(1), Kind: store.ELF, Path: "/prog"})
			if err != nil {
				t.Fatal(err)
			}
			b := make([]byte, got.Size)
			if _, err := got.ReadAt(b, 0); err != nil && got.Size != int64(len(whole)) {
				t.Fatal(err)
			}
			hot, cold := funcs["hot"], funcs["cold"]
			if !bytes.Equal(b[hot.Start:hot.End], whole[hot.Start:hot.End]) {
				t.Error("hot has other code")
			}
			if zero := len(bytes.Trim(b[cold.End-8:cold.End], "\x00")) == 0; zero != tt.slim || strings.Contains(string(b), "constant data") == tt.slim {
				t.Errorf("what is not needed: gone %v, want %v", zero, tt.slim)
			}
			if !tt.slim && !bytes.Equal(b, whole) {
				t.Error("the whole file is another")
			}
			rep, err := a.Verify(t.Context(), VerifyOptions{})
			if err != nil || len(rep.Defects) > 0 || (rep.Slim == 1) != tt.slim {
				t.Errorf("verify: %+v, %v", rep, err)
			}
		})
	}
}
