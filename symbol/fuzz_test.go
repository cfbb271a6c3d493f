package symbol_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"testing"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/index"
	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/store"
	"github.com/perfark/perfark/symbol"
)

// FuzzResolve: an object, its debug file, a file of split DWARF and an index
// may hold anything.
func FuzzResolve(f *testing.F) {
	elf := perftest.CC(f, "prog", "int x; int f(int n) { return n + x; } int main(void) { return f(2); }\n", "-g", "-O1", "-Wl,--build-id", "-nostartfiles", "-Wl,-e,main")
	b, err := os.ReadFile(elf)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, b, b[:64])
	f.Add(b[:len(b)/2], b, b)
	f.Fuzz(func(t *testing.T, elf, debug, other []byte) {
		id := idOf(elf)
		src := &anything{elf, debug, other}
		p := one(profile.Object{Path: "/bin/x", BuildID: id}, 0, 0x1000, 0x1005, 0x2000, 1<<40)
		o := symbol.Options{Source: src, Lines: true, Inlines: true, IndexAll: true, Index: &memory{},
			Limits: decode.Limits{Bytes: 64 << 20, Steps: 1 << 22}}
		for range 2 { // the second time with the index
			if _, err := symbol.Resolve(context.Background(), p, o); err != nil {
				t.Fatal(err)
			}
			for i := range p.Locations {
				for _, fr := range p.FramesOf(&p.Locations[i]) {
					if int(fr.Func) >= len(p.Functions) || int(fr.File) >= len(p.Files) {
						t.Fatalf("frame %+v of %d functions, %d files", fr, len(p.Functions), len(p.Files))
					}
				}
			}
		}
	})
}

// memory keeps one index in memory.
type memory struct{ b []byte }

func (m *memory) Get(buildid.ID) (*index.File, error) {
	if m.b == nil {
		return nil, fs.ErrNotExist
	}
	return index.Open(bytes.NewReader(m.b), int64(len(m.b)))
}

func (m *memory) Put(id index.Identity, b *index.Builder) error {
	var out bytes.Buffer
	err := b.WriteTo(&out, id)
	m.b = out.Bytes()
	return err
}

// anything is a Source of hostile files.
type anything struct{ elf, debug, other []byte }

func (a *anything) Get(_ context.Context, k store.Key) (*store.File, error) {
	b := a.other
	switch k.Kind {
	case store.ELF:
		b = a.elf
	case store.Debug:
		b = a.debug
	}
	return &store.File{ReaderAt: bytes.NewReader(b), Size: int64(len(b)), Origin: "anything", Close: func() error { return nil }}, nil
}

// idOf returns the Build ID of a file, or one that it does not have.
func idOf(b []byte) buildid.ID {
	if f, err := objfile.Open(bytes.NewReader(b), int64(len(b)), "anything", nil); err == nil && f.BuildID() != "" {
		return f.BuildID()
	}
	return "12345678"
}
