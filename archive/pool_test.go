package archive

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/store"
)

// pooling packs a program, a library and a slim copy's place twice, beside a
// pool, and returns the directory.
func pooling(t *testing.T) (dir string, first, second *Result) {
	t.Helper()
	dir = t.TempDir()
	src := &fakeSource{dir: t.TempDir()}
	src.put(t, store.ELF, "/bin/app", elfOf(id(1), "app", 3<<20))
	src.put(t, store.ELF, "/lib/lib.so", elfOf(id(2), "lib", 10))
	src.put(t, store.ELF, "/bin/plain", elfOf("", "plain", 10))
	pool, err := CreatePool(filepath.Join(dir, "objects"))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	data := []byte("the recording")
	run := func(name string, objs ...obj) *Result {
		pl, err := NewPlan(t.Context(), result(objs...), PlanOptions{Source: src,
			Data: &DataFile{ReaderAt: bytes.NewReader(data), Name: "perf.data", Size: int64(len(data)), Include: true}})
		if err != nil {
			t.Fatal(err)
		}
		defer pl.Close()
		r, err := pl.Pack(t.Context(), filepath.Join(dir, name), PackOptions{EncodeOptions: EncodeOptions{Format: Bundle}, Pool: pool})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	app, lib, plain := obj{"/bin/app", id(1), 0, 5}, obj{"/lib/lib.so", id(2), 0, 3}, obj{"/bin/plain", "", 0, 1}
	return dir, run("1.perfark", app, plain), run("2.perfark", app, lib, plain)
}

// Two bundles beside a pool share what both need; each reads as one that has
// everything does, and is that again when it is written whole.
func TestPool(t *testing.T) {
	dir, first, second := pooling(t)
	pool, err := OpenPool(filepath.Join(dir, "objects"))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	list, err := pool.List()
	if err != nil || len(list) != 3 {
		t.Fatalf("%d files in the pool (%v), want 3", len(list), err)
	}
	var sum int64
	for _, f := range list {
		sum += f.Size
	}
	if first.Pooled+second.Pooled != sum || second.Pooled == 0 || second.Pooled >= first.Pooled {
		t.Errorf("%d and %d bytes went to the pool, which has %d", first.Pooled, second.Pooled, sum)
	}
	a, err := Open(t.Context(), filepath.Join(dir, "2.perfark"), OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if a.Absent() != nil || a.PoolDir() != filepath.Join(dir, "objects") {
		t.Errorf("absent: %v; the pool is %q", a.Absent(), a.PoolDir())
	}
	rep, err := a.Verify(t.Context(), VerifyOptions{})
	if err != nil || rep.Files != 4 || len(rep.Defects) > 0 {
		t.Errorf("verify: %+v, %v", rep, err)
	}
	f, err := a.Get(t.Context(), store.Key{ID: id(2), Kind: store.ELF})
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size))
	f.Close()
	if want := elfOf(id(2), "lib", 10); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes of the library (%v), want %d", len(got), err, len(want))
	}

	// Whole again: the same tree as from the bundle and its pool.
	whole := filepath.Join(t.TempDir(), "whole.perfark")
	w := a.Manifest().Whole()
	if err := Create(t.Context(), whole, nil, func(out *os.File) error {
		return Encode(t.Context(), out, w, Contents{
			Data: func() (io.ReadCloser, error) {
				r, n, _ := a.Data()
				return io.NopCloser(io.NewSectionReader(r, 0, n)), nil
			},
			File: func(f *File) (io.ReadCloser, error) {
				m, err := a.OpenMember(f.Name)
				if err != nil {
					return nil, err
				}
				return struct {
					io.Reader
					io.Closer
				}{io.NewSectionReader(m, 0, m.Size), closeFunc(m.Close)}, nil
			},
		}, EncodeOptions{Format: Bundle})
	}); err != nil {
		t.Fatal(err)
	}
	var trees [2]map[string]string
	for i, name := range []string{filepath.Join(dir, "2.perfark"), whole} {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		to := t.TempDir()
		u, err := Unpack(t.Context(), f, UnpackOptions{Dir: filepath.Join(to, ".debug"), DataDir: to})
		if err != nil || refused(u) > 0 {
			t.Fatalf("%s: %+v, %v", name, u, err)
		}
		trees[i] = readTree(t, to)
	}
	if !reflect.DeepEqual(trees[0], trees[1]) {
		t.Errorf("unpacked: %q\nfrom the whole: %q", keys(trees[0]), keys(trees[1]))
	}
}

type closeFunc func() error

func (f closeFunc) Close() error { return f() }

// readTree reads all files and links below a directory.
func readTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	if err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		if d.Type()&fs.ModeSymlink != 0 {
			out[rel], err = os.Readlink(name)
			return err
		}
		b, err := os.ReadFile(name)
		out[rel] = string(b)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// Away from its pool a bundle says what is absent, and is else readable; where
// the pool lacks a file or has a wrong one it is a defect.
func TestPoolAbsent(t *testing.T) {
	dir, _, _ := pooling(t)
	away := filepath.Join(t.TempDir(), "x.perfark")
	if err := os.Rename(filepath.Join(dir, "1.perfark"), away); err != nil {
		t.Fatal(err)
	}
	open := func(name string, o OpenOptions) *Archive {
		t.Helper()
		a, err := Open(t.Context(), name, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { a.Close() })
		return a
	}
	a := open(away, OpenOptions{})
	if n := len(a.Absent()); n != 2 {
		t.Errorf("%d objects are absent, want 2", n)
	}
	if _, err := a.Get(t.Context(), store.Key{ID: id(1), Kind: store.ELF}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an absent object: %v", err)
	}
	rep, err := a.Verify(t.Context(), VerifyOptions{})
	if err != nil || len(rep.Defects) != 2 {
		t.Errorf("verify: %+v, %v", rep, err)
	}
	if r, n, ok := a.Data(); !ok || n == 0 || r == nil {
		t.Error("the recording is not there")
	}
	if b := open(away, OpenOptions{Pool: filepath.Join(dir, "objects")}); b.Absent() != nil {
		t.Errorf("with the pool named: %v", b.Absent())
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Join(dir, "2.perfark"), link); err != nil {
		t.Fatal(err)
	}
	b := open(link, OpenOptions{})
	if b.Absent() != nil {
		t.Errorf("by a link: %v", b.Absent())
	}

	// Other bytes of the same size, under the name of the program.
	app := b.Manifest().Objects[0].Files[0]
	pool, err := OpenPool(filepath.Join(dir, "objects"))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := pool.Remove(app.SHA256); err != nil {
		t.Fatal(err)
	}
	other := app
	if _, err := pool.put(t.Context(), &other, func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(strings.Repeat("x", int(app.Size)))), nil
	}, &room{}, EncodeOptions{}, nil); !errors.As(err, new(*ChangedError)) {
		t.Errorf("bytes that are not those of the name were stored: %v", err)
	}
	z := zstdEncoded(t, bytes.Repeat([]byte("x"), int(app.Size)))
	if err := os.WriteFile(filepath.Join(pool.Dir(), PoolName(app.SHA256)), z, 0o600); err != nil {
		t.Fatal(err)
	}
	rep, err = open(link, OpenOptions{}).Verify(t.Context(), VerifyOptions{})
	if err != nil || len(rep.Defects) == 0 || !strings.Contains(rep.Defects[0].What, "sha256 is") && !strings.Contains(rep.Defects[0].What, "carries") {
		t.Errorf("verify of wrong bytes: %+v, %v", rep, err)
	}
}

func zstdEncoded(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zstdFrames(&out, EncodeOptions{Workers: 1}, poolFrame)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// A manifest leads nowhere but to the directory beside it, and a pool to no
// file elsewhere.
// A pipe beside a bundle is no pool, and nobody waits for who writes to it.
func TestPoolPipe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "objects")
	if err := unix.Mkfifo(dir, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenPool(dir); err == nil || err.Error() != "open "+dir+": not a directory" {
		t.Error(err)
	}
	if _, err := CreatePool(dir); err == nil {
		t.Error("no error")
	}
}

func TestPoolHostile(t *testing.T) {
	sum := strings.Repeat("ab", 32)
	for text, want := range map[string]string{
		`"pool":"../x"`:         `manifest: pool "../x": not the name of a directory beside the bundle`,
		`"pool":".."`:           `manifest: pool "..": not the name of a directory beside the bundle`,
		`"pool":"/etc"`:         `manifest: pool "/etc": not the name of a directory beside the bundle`,
		`"pool":"a/b"`:          `manifest: pool "a/b": not the name of a directory beside the bundle`,
		`"tool":"no pool here"`: `manifest: objects[0]: "x/` + sum + `/elf": in a pool, but none is named`,
	} {
		_, err := ParseManifest([]byte(`{"version":1,` + text + `,"objects":[{"kind":"file","paths":["/x"],"samples":1,"files":[
			{"kind":"elf","name":"x/` + sum + `/elf","size":1,"sha256":"` + sum + `","pooled":true}]}]}`))
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v\nwant %s", text, err, want)
		}
	}
	dir := filepath.Join(t.TempDir(), "objects")
	p, err := CreatePool(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, zstdEncoded(t, []byte("x")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, sum[:2]), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(dir, PoolName(sum))); err != nil {
		t.Fatal(err)
	}
	if f, err := p.Open(sum, 1); err == nil {
		f.Close()
		t.Error("a link out of the pool was followed")
	}
	if err := p.Remove("../../" + sum[:60]); err == nil {
		t.Error("a name that is no sum was removed")
	}
	if list, err := p.List(); err != nil || len(list) != 0 {
		t.Errorf("a link is listed: %v, %v", list, err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := CreatePool(dir); err == nil || !strings.Contains(err.Error(), "others may write to it") {
		t.Errorf("a pool that all may write to: %v", err)
	}
}
