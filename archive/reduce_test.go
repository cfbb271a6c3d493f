package archive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/store"
)

const reduceSource = `#include <stdio.h>
static int twice(int n) { return 2 * n; }
int main(int c, char **v) { printf("%d\n", twice(c)); return 0; }
`

func reduceBytes(b []byte) ([]byte, error) {
	f, err := reduced(&store.File{ReaderAt: bytes.NewReader(b), Size: int64(len(b))}, decode.Limits{})
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(f, 0, f.Size))
}

// B02: what is left runs as before, has the same symbols, id and code, and
// readelf has nothing to say against it.
func TestReduce(t *testing.T) {
	for _, flags := range [][]string{{"-g"}, {"-g", "-gz"}, {"-g", "-static"}, {"-g", "-c"}, {"-g", "-m32"}} {
		name := strings.Join(flags, " ")
		t.Run(name, func(t *testing.T) {
			perftest.NeedTool(t, "gcc")
			perftest.NeedTool(t, "readelf")
			dir := t.TempDir()
			src, whole, small := filepath.Join(dir, "x.c"), filepath.Join(dir, "whole"), filepath.Join(dir, "small")
			os.WriteFile(src, []byte(reduceSource), 0o600)
			if out, err := exec.Command("gcc", append([]string{"-O1", "-o", whole, src}, flags...)...).CombinedOutput(); err != nil {
				t.Skipf("NOTICE: gcc %s does not work here: %s", name, out)
			}
			in, err := os.ReadFile(whole)
			if err != nil {
				t.Fatal(err)
			}
			out, err := reduceBytes(in)
			if err != nil {
				t.Fatal(err)
			}
			if len(out) >= len(in) {
				t.Errorf("%d bytes, were %d", len(out), len(in))
			}
			if err := os.WriteFile(small, out, 0o700); err != nil {
				t.Fatal(err)
			}
			run := func(name string, args ...string) string {
				t.Helper()
				cmd := exec.Command(name, args...)
				b, err := cmd.CombinedOutput()
				if err != nil {
					t.Errorf("%s %q: %v %s", name, args, err, b)
				}
				return strings.ReplaceAll(strings.ReplaceAll(string(b), whole, "X"), small, "X")
			}
			for _, args := range [][]string{{"nm"}, {"readelf", "-nW"}, {"readelf", "-lW"}, {"objdump", "-d"}} {
				a, b := run(args[0], append(args[1:], whole)...), run(args[0], append(args[1:], small)...)
				if a != b {
					t.Errorf("%q says other things:\n%s\n%s", args, a, b)
				}
			}
			if all := run("readelf", "-aW", small); strings.Contains(all, "arning") || strings.Contains(all, "rror:") {
				t.Errorf("readelf complains:\n%s", all)
			}
			if flags[len(flags)-1] != "-c" {
				if got := run(small); got != "2\n" {
					t.Errorf("it says %q", got)
				}
			}
			x := identity(&store.File{ReaderAt: bytes.NewReader(in), Size: int64(len(in))}, decode.Limits{})
			y := identity(&store.File{ReaderAt: bytes.NewReader(out), Size: int64(len(out))}, decode.Limits{})
			if x.id != y.id || y.quality != objfile.Symtab || x.quality != objfile.FullDWARF {
				t.Errorf("id %v, quality %v; were %v, %v", y.id, y.quality, x.id, x.quality)
			}
			if _, err := reduceBytes(out); !errors.Is(err, errNotReduced) {
				t.Errorf("again: %v", err)
			}
		})
	}
}

// B02: an object over the limit is packed without its debug information if
// that makes it fit.
func TestPackReduced(t *testing.T) {
	perftest.NeedTool(t, "objcopy")
	app := perftest.CC(t, "app", reduceSource, "-g", "-Wl,--build-id=uuid")
	dir := filepath.Dir(app)
	fat := filepath.Join(dir, "fat")
	os.WriteFile(fat, make([]byte, 4<<20), 0o600)
	if out, err := exec.Command("objcopy", "--add-section", ".debug_fat="+fat, app).CombinedOutput(); err != nil {
		t.Fatalf("objcopy: %v %s", err, out)
	}
	f, err := hostFiles{}.Get(t.Context(), store.Key{Path: app})
	if err != nil {
		t.Fatal(err)
	}
	id := identity(f, decode.Limits{}).id
	f.Close()
	res, got, err := pack(t, result(obj{app, id, 0, 1}), PlanOptions{Source: hostFiles{}, MaxObjectSize: 64 << 10, DebugInfo: DebugNone}, PackOptions{})
	if err != nil {
		t.Fatal(err)
	}
	file := res.Manifest.Objects[0].Files[0]
	if file.Size > 64<<10 || file.Whole < 4<<20 || file.Quality != "symtab" || len(res.Manifest.Missing) != 0 {
		t.Errorf("%+v, missing %v", file, res.Manifest.Missing)
	}
	if n := len(got[string(file.Name)]); int64(n) != file.Size {
		t.Errorf("packed %d bytes, want %d", n, file.Size)
	}
}

func TestReduceErrors(t *testing.T) {
	elf := elfOf("", "code", 100)
	binary.LittleEndian.PutUint16(elf[58:], 64)
	bad := func(change func(b []byte)) []byte {
		b := bytes.Clone(elf)
		change(b)
		return b
	}
	for name, b := range map[string][]byte{
		"empty":          nil,
		"text":           []byte(strings.Repeat("no ELF file ", 10)),
		"no sections":    elf,
		"sections past":  bad(func(b []byte) { b[60] = 3; b[40] = 0xff; b[47] = 0x7f }),
		"sections cut":   bad(func(b []byte) { b[60] = 200; b[40] = 64 }),
		"segment past":   bad(func(b []byte) { b[60] = 1; b[40] = 64; b[64+32] = 0xff; b[64+39] = 0x7f }),
		"segments past":  bad(func(b []byte) { b[60] = 1; b[40] = 64; b[39] = 0x7f }),
		"names past":     bad(func(b []byte) { b[60] = 1; b[62] = 9; b[40] = 64 }),
		"wrong entsizes": bad(func(b []byte) { b[60] = 1; b[54] = 7; b[40] = 64 }),
	} {
		if out, err := reduceBytes(b); err == nil {
			t.Errorf("%s: %d bytes, no error", name, len(out))
		}
	}
}

func FuzzReduce(f *testing.F) {
	f.Add(elfOf("", "code", 100))
	if b, err := os.ReadFile("/bin/true"); err == nil && len(b) < 100<<10 {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		out, err := reduceBytes(b)
		if err == nil && len(out) > len(b)+1<<21+64*(1<<16) {
			t.Errorf("%d bytes of %d", len(out), len(b))
		}
	})
}
