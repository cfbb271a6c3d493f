package archive

import (
	"archive/tar"
	"bytes"
	"compress/bzip2"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/session"
	"github.com/perfark/perfark/store"
)

// elfOf returns an ELF file with a build id ("" for none) and code, followed
// by size bytes that are in no segment.
func elfOf(id buildid.ID, code string, size int) []byte {
	var note []byte
	if id != "" {
		note = binary.LittleEndian.AppendUint32(note, 4)
		note = binary.LittleEndian.AppendUint32(note, uint32(len(id)))
		note = binary.LittleEndian.AppendUint32(note, 3)
		note = append(note, "GNU\x00"...)
		note = append(note, id...)
	}
	const ehdr, phdr = 64, 56
	le := binary.LittleEndian
	b := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 9)...)
	b = le.AppendUint16(b, 3)    // ET_DYN
	b = le.AppendUint16(b, 0x3e) // x86-64
	b = le.AppendUint32(b, 1)
	b = le.AppendUint64(b, 0)    // entry
	b = le.AppendUint64(b, ehdr) // program headers
	b = le.AppendUint64(b, 0)
	b = le.AppendUint32(b, 0)
	for _, v := range []uint16{ehdr, phdr, 2, 0, 0, 0} {
		b = le.AppendUint16(b, v)
	}
	at := uint64(ehdr + 2*phdr)
	segment := func(typ, flags uint32, off, n uint64) {
		b = le.AppendUint32(b, typ)
		b = le.AppendUint32(b, flags)
		for _, v := range []uint64{off, off, off, n, n, 4} {
			b = le.AppendUint64(b, v)
		}
	}
	segment(4, 4, at, uint64(len(note)))
	segment(1, 5, at+uint64(len(note)), uint64(len(code)))
	b = append(b, note...)
	b = append(b, code...)
	return append(b, make([]byte, size)...)
}

// A fakeSource serves files of a directory, by kind and path.
type fakeSource struct {
	dir  string
	gets int
	hook func(k store.Key, f *store.File) *store.File
}

func (s *fakeSource) name(k store.Key) string {
	return filepath.Join(s.dir, string(k.Kind), filepath.Clean("/"+k.Path))
}

func (s *fakeSource) put(t *testing.T, kind store.Kind, path string, b []byte) {
	t.Helper()
	name := s.name(store.Key{Kind: kind, Path: path})
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func (s *fakeSource) Get(ctx context.Context, k store.Key) (*store.File, error) {
	s.gets++
	f, err := os.Open(s.name(k))
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	sf := &store.File{ReaderAt: f, Size: fi.Size(), Origin: k.Path, Info: fi, Close: f.Close, Unverified: k.ID == ""}
	if s.hook != nil {
		sf = s.hook(k, sf)
	}
	return sf, nil
}

// An obj is an object of a profile, hit by some samples at address 0x100.
type obj struct {
	path    string
	id      buildid.ID
	kind    profile.ObjectKind
	samples uint64
}

// result is a session of samples in objects.
func result(objs ...obj) *session.Result {
	p := &profile.Profile{}
	var locs []int
	for i, o := range objs {
		locs = append(locs, 1)
		p.Objects = append(p.Objects, profile.Object{Kind: o.kind, Path: o.path, BuildID: o.id, Samples: o.samples})
		p.Locations = append(p.Locations, profile.Location{Object: int32(i), Level: '.', IP: 0x1100, Addr: 0x100, Func: profile.None})
		p.Samples = append(p.Samples, profile.Sample{Location: int32(i), Stack: profile.None, Extra: profile.None, CPU: -1, Count: o.samples, Period: o.samples})
	}
	return &session.Result{Profile: p, Hit: make([]session.Hit, len(objs)), IDSource: make([]session.IDSource, len(objs)), Mapped: make([]bool, len(objs)), Locations: locs}
}

func id(b byte) buildid.ID { return buildid.New(bytes.Repeat([]byte{b}, 20)) }

// pack plans and packs, and returns the names, links and contents of the tar.
func pack(t *testing.T, r *session.Result, o PlanOptions, po PackOptions) (*Result, map[string]string, error) {
	t.Helper()
	pl, err := NewPlan(t.Context(), r, o)
	if err != nil {
		t.Fatal(err)
	}
	defer pl.Close()
	name := filepath.Join(t.TempDir(), "out.tar.bz2")
	res, err := pl.Pack(t.Context(), name, po)
	if err != nil {
		if _, e := os.Lstat(name); !errors.Is(e, fs.ErrNotExist) {
			t.Errorf("after an error there is %s: %v", name, e)
		}
		return res, nil, err
	}
	return res, untar(t, name), nil
}

func untar(t *testing.T, name string) map[string]string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	members := map[string]string{}
	tr := tar.NewReader(bzip2.NewReader(f))
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return members
		}
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case strings.HasPrefix(h.Name, ownDir+"/") && strings.HasSuffix(h.Name, ".json"):
		case h.Typeflag == tar.TypeSymlink:
			members[h.Name] = "-> " + h.Linkname
		case h.Typeflag == tar.TypeReg:
			b, err := io.ReadAll(tr)
			if err != nil {
				t.Fatal(err)
			}
			members[h.Name] = string(b)
		}
	}
}

func keys(m map[string]string) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func wantMembers(t *testing.T, got map[string]string, want map[string]string) {
	t.Helper()
	if !reflect.DeepEqual(keys(got), keys(want)) {
		t.Fatalf("members\n%q\nwant\n%q", keys(got), keys(want))
	}
	for k := range want {
		if got[k] != want[k] {
			t.Errorf("%s: %d bytes %.40q, want %d bytes %.40q", k, len(got[k]), got[k], len(want[k]), want[k])
		}
	}
}

// B18: one object on two paths is stored once, and both paths are listed.
func TestPackSameObjectTwice(t *testing.T) {
	s := &fakeSource{dir: t.TempDir()}
	x := elfOf(id(1), "code", 0)
	s.put(t, store.ELF, "/usr/bin/b", x)
	s.put(t, store.ELF, "/usr/bin/a", x)
	r := result(obj{"/usr/bin/b", id(1), 0, 3}, obj{"/usr/bin/a", id(1), 0, 4})
	res, got, err := pack(t, r, PlanOptions{Source: s}, PackOptions{})
	if err != nil {
		t.Fatal(err)
	}
	hex := id(1).String()
	wantMembers(t, got, map[string]string{
		"usr/bin/a/" + hex + "/elf":            string(x),
		".build-id/" + hex[:2] + "/" + hex[2:]: "-> ../../usr/bin/a/" + hex,
	})
	if o := res.Manifest.Objects; len(o) != 1 || !slices.Equal(o[0].Paths, []Name{"/usr/bin/a", "/usr/bin/b"}) || o[0].Samples != 7 {
		t.Errorf("objects %+v", o)
	}
}

// B19: different programs with one id stay apart, and each path leads to its own.
func TestPackCollision(t *testing.T) {
	s := &fakeSource{dir: t.TempDir()}
	x, y := elfOf(id(0x11), "spin", 0), elfOf(id(0x11), "other", 0)
	s.put(t, store.ELF, "/bin/spin", x)
	s.put(t, store.ELF, "/bin/other", y)
	r := result(obj{"/bin/other", id(0x11), 0, 3}, obj{"/bin/spin", id(0x11), 0, 4})
	pl, err := NewPlan(t.Context(), r, PlanOptions{Source: s})
	if err != nil {
		t.Fatal(err)
	}
	defer pl.Close()
	name := filepath.Join(t.TempDir(), "out.tar.bz2")
	res, err := pl.Pack(t.Context(), name, PackOptions{})
	if err != nil {
		t.Fatal(err)
	}
	hex := id(0x11).String()
	got := untar(t, name)
	delete(got, ".build-id/11/"+hex[2:])
	wantMembers(t, got, map[string]string{
		"bin/spin/" + hex + "/elf":  string(x),
		"bin/other/" + hex + "/elf": string(y),
	})
	for path, want := range map[string][]byte{"/bin/spin": x, "/bin/other": y} {
		f, err := (&planSource{pl, res.Manifest}).Get(t.Context(), store.Key{ID: id(0x11), Kind: store.ELF, Path: path})
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(io.NewSectionReader(f, 0, f.Size))
		if !bytes.Equal(b, want) {
			t.Errorf("%s: the other program", path)
		}
	}
	_, err = (&planSource{pl, res.Manifest}).Get(t.Context(), store.Key{ID: id(0x11), Kind: store.ELF, Path: "/bin/third"})
	if rs := store.Refusals(err); len(rs) != 1 || rs[0].Reason != store.Ambiguous {
		t.Errorf("a third path: %v, want it refused as ambiguous", err)
	}
}

// B07, B09: objects without an id stay apart, each under the hash of its contents.
func TestPackWithoutID(t *testing.T) {
	s := &fakeSource{dir: t.TempDir()}
	x, y := elfOf("", "one", 0), elfOf("", "two", 0)
	s.put(t, store.ELF, "/bin/one", x)
	s.put(t, store.ELF, "/bin/two", y)
	zero := buildid.New(make([]byte, 20))
	res, got, err := pack(t, result(obj{"/bin/one", zero, 0, 1}, obj{"/bin/two", "", 0, 1}), PlanOptions{Source: s}, PackOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, o := range res.Manifest.Objects {
		if !o.Unverified || o.ID != "" {
			t.Errorf("%+v: not unverified", o)
		}
		want[string(o.Paths[0][1:])+"/"+o.Files[0].SHA256+"/elf"] = ""
	}
	if !reflect.DeepEqual(keys(got), keys(want)) {
		t.Errorf("members %q, want %q", keys(got), keys(want))
	}
}

// The debug file of an object that only the object itself gives an id of comes
// along, under that id.
func TestPackOwnDebug(t *testing.T) {
	s := &fakeSource{dir: t.TempDir()}
	x := elfOf(id(7), "code", 0)
	s.put(t, store.ELF, "/lib/x.so", x)
	s.put(t, store.Debug, "/lib/x.so", elfOf(id(7), "code", 100))
	s.hook = func(k store.Key, f *store.File) *store.File {
		if k.Kind == store.Debug && k.Path == "/lib/x.so" && k.ID != id(7) {
			t.Errorf("a debug file of %v was asked for", k)
		}
		return f
	}
	_, got, err := pack(t, result(obj{"/lib/x.so", "", 0, 1}), PlanOptions{Source: s}, PackOptions{})
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256(x)
	want := map[string]string{
		"lib/x.so/" + hex.EncodeToString(hash[:]) + "/elf": "",
		"lib/x.so/" + id(7).String() + "/debug":            "",
		".build-id/07/" + id(7).String()[2:]:               "",
	}
	if !reflect.DeepEqual(keys(got), keys(want)) {
		t.Errorf("members %q, want %q", keys(got), keys(want))
	}

	// Without the object its debug file has no use.
	s.put(t, store.ELF, "/bin/y", elfOf(id(1), "main", 0))
	_, got, err = pack(t, result(obj{"/lib/x.so", "", 0, 1}, obj{"/bin/y", id(1), 0, 1}), PlanOptions{Source: s, Verified: true}, PackOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want = map[string]string{"bin/y/" + id(1).String() + "/elf": "", ".build-id/01/" + id(1).String()[2:]: ""}
	if !reflect.DeepEqual(keys(got), keys(want)) {
		t.Errorf("verified: members %q, want %q", keys(got), keys(want))
	}
}

// B02: contents that stand under two names are stored once, as a hard link.
func TestPackStoredOnce(t *testing.T) {
	s := &fakeSource{dir: t.TempDir()}
	x := elfOf(id(1), "code", 5000)
	s.put(t, store.ELF, "/a", x)
	s.put(t, store.ELF, "/b", x)
	s.put(t, store.Debug, "/a", x)
	pl, err := NewPlan(t.Context(), result(obj{"/a", id(1), 0, 1}, obj{"/b", "", 0, 1}), PlanOptions{Source: s})
	if err != nil {
		t.Fatal(err)
	}
	defer pl.Close()
	name := filepath.Join(t.TempDir(), "x.tar")
	if _, err := pl.Pack(t.Context(), name, PackOptions{EncodeOptions: EncodeOptions{Format: Tar}}); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(name); err != nil || bytes.Count(b, x) != 1 {
		t.Errorf("stored %d times, %v", bytes.Count(b, x), err)
	}
	a, err := Open(t.Context(), name, OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for _, k := range []store.Key{{ID: id(1), Kind: store.ELF}, {ID: id(1), Kind: store.Debug}, {Kind: store.ELF, Path: "/b"}} {
		f, err := a.Get(t.Context(), k)
		if err != nil {
			t.Errorf("%v: %v", k, err)
			continue
		}
		if b, _ := io.ReadAll(io.NewSectionReader(f, 0, f.Size)); !bytes.Equal(b, x) {
			t.Errorf("%v: %d bytes", k, len(b))
		}
	}
	dir := t.TempDir()
	if out, err := exec.Command("tar", "xf", name, "-C", dir).CombinedOutput(); err != nil {
		t.Skipf("NOTICE: tar: %v %s", err, out)
	}
	if b, err := os.ReadFile(filepath.Join(dir, ".build-id", id(1).String()[:2], id(1).String()[2:], "debug")); err != nil || !bytes.Equal(b, x) {
		t.Errorf("tar: %d bytes, %v", len(b), err)
	}
}

// With Verified what has no id is left out, and told.
func TestPackVerified(t *testing.T) {
	s := &fakeSource{dir: t.TempDir()}
	s.put(t, store.ELF, "/a", elfOf(id(1), "code", 0))
	s.put(t, store.ELF, "/b", elfOf("", "code", 0))
	pl, err := NewPlan(t.Context(), result(obj{"/a", id(1), 0, 1}, obj{"/b", "", 0, 1}), PlanOptions{Source: s, Verified: true})
	if err != nil {
		t.Fatal(err)
	}
	defer pl.Close()
	if f := pl.Files(); len(f) != 1 || f[0].Path != "/a" || len(pl.Missing) != 0 || len(pl.Excluded) != 1 || pl.Excluded[0].Path != "/b" {
		t.Errorf("files %+v, missing %+v, excluded %+v", f, pl.Missing, pl.Excluded)
	}
}

// B33: names of any bytes survive.
func TestPackNames(t *testing.T) {
	s := &fakeSource{dir: t.TempDir()}
	var objs []obj
	names := []string{"/d ir (x)/a b", "/new\nline", "/\xff\xfe", "/-rf", "/a;b$(c)", "/é", "/x (deleted)"}
	for i, n := range names {
		s.put(t, store.ELF, n, elfOf(id(byte(i+1)), "code", i))
		objs = append(objs, obj{n, id(byte(i + 1)), 0, 1})
	}
	res, got, err := pack(t, result(objs...), PlanOptions{Source: s}, PackOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range names {
		if _, ok := got[n[1:]+"/"+id(byte(i+1)).String()+"/elf"]; !ok {
			t.Errorf("%q is not there", n)
		}
	}
	b, err := res.Manifest.Encode()
	if err != nil {
		t.Fatal(err)
	}
	m, err := ParseManifest(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if !slices.ContainsFunc(m.Objects, func(o Object) bool { return o.Paths[0] == Name(n) }) {
			t.Errorf("the manifest lost %q", n)
		}
	}
}

// B01: nothing found is an error, and no file; with Empty it is an archive
// that says what it lacks.
func TestPackNothing(t *testing.T) {
	s := &fakeSource{dir: t.TempDir()}
	r := result(obj{"/gone", id(1), 0, 10}, obj{"/more", id(2), 0, 20})
	res, _, err := pack(t, r, PlanOptions{Source: s}, PackOptions{})
	if !errors.Is(err, ErrNothing) {
		t.Fatalf("error %v, want ErrNothing", err)
	}
	want := []Missing{
		{ID: id(2), Kind: "file", Path: "/more", Samples: 20, Frames: 1},
		{ID: id(1), Kind: "file", Path: "/gone", Samples: 10, Frames: 1},
	}
	check := func(m *Manifest) {
		t.Helper()
		if len(m.Missing) != 2 {
			t.Fatalf("missing %+v", m.Missing)
		}
		for i, got := range m.Missing {
			if got.Reason == "" || got.Detail == "" || got.Hint == "" {
				t.Errorf("%+v: no reason, or no hint", got)
			}
			got.Reason, got.Detail, got.Hint = "", "", ""
			if got != want[i] {
				t.Errorf("missing %+v, want %+v", got, want[i])
			}
		}
	}
	check(res.Manifest)
	res, _, err = pack(t, r, PlanOptions{Source: s}, PackOptions{Empty: true})
	if err != nil {
		t.Fatal(err)
	}
	check(res.Manifest)
}

// B02: what is over the limit is left out, the debug file before the object.
func TestPackMaxObjectSize(t *testing.T) {
	s := &fakeSource{dir: t.TempDir()}
	s.put(t, store.ELF, "/small", elfOf(id(1), "code", 100))
	s.put(t, store.Debug, "/small", elfOf(id(1), "code", 1<<20))
	s.put(t, store.ELF, "/large", elfOf(id(2), "code", 1<<20))
	r := result(obj{"/small", id(1), 0, 1}, obj{"/large", id(2), 0, 1})
	res, got, err := pack(t, r, PlanOptions{Source: s, MaxObjectSize: 64 << 10, Command: "perfark archive"}, PackOptions{})
	if err != nil {
		t.Fatal(err)
	}
	hex := id(1).String()
	if want := []string{".build-id/" + hex[:2] + "/" + hex[2:], "small/" + hex + "/elf"}; !slices.Equal(keys(got), want) {
		t.Errorf("members %q, want %q", keys(got), want)
	}
	if m := res.Manifest.Missing; len(m) != 1 || m[0].Reason != "too-large" || m[0].Path != "/large" || !strings.HasPrefix(m[0].Hint, "perfark archive --max-object-size 104") {
		t.Errorf("missing %+v", m)
	}
}

func TestPackExclude(t *testing.T) {
	s := &fakeSource{dir: t.TempDir()}
	for i := byte(1); i <= 3; i++ {
		s.put(t, store.ELF, fmt.Sprintf("/p%d", i), elfOf(id(i), "code", 0))
	}
	r := result(obj{"/p1", id(1), 0, 1}, obj{"/p2", id(2), 0, 1}, obj{"/p3", id(3), 0, 1})
	res, _, err := pack(t, r, PlanOptions{Source: s, Exclude: []buildid.ID{id(2), id(9)}}, PackOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var paths []Name
	for _, o := range res.Manifest.Objects {
		paths = append(paths, o.Paths...)
	}
	if !slices.Equal(paths, []Name{"/p1", "/p3"}) || len(res.Manifest.Missing) != 0 {
		t.Errorf("objects %q, missing %v", paths, res.Manifest.Missing)
	}
}

// A restless file is another one each time its byte at is read.
type restless struct {
	b     []byte
	at    int64
	reads int
}

func (r *restless) ReadAt(p []byte, off int64) (int, error) {
	n, err := bytes.NewReader(r.b).ReadAt(p, off)
	if off <= r.at && r.at < off+int64(n) {
		r.reads++
		p[r.at-off] = byte(r.reads)
	}
	return n, err
}

// BUN-3, BUN-4: an object whose id changes between the look at it and the
// reading of its bytes is not packed, and the reason is told.
func TestPackChanging(t *testing.T) {
	s := &fakeSource{dir: t.TempDir()}
	s.put(t, store.ELF, "/still", elfOf(id(1), "code", 0))
	s.put(t, store.ELF, "/moving", elfOf(id(2), "code", 0))
	s.hook = func(k store.Key, f *store.File) *store.File {
		if k.Path == "/moving" {
			b, _ := io.ReadAll(io.NewSectionReader(f, 0, f.Size))
			f.ReaderAt = &restless{b: b, at: int64(bytes.Index(b, []byte(id(2)))) + 19}
		}
		return f
	}
	r := result(obj{"/still", id(1), 0, 1}, obj{"/moving", id(2), 0, 1})
	res, _, err := pack(t, r, PlanOptions{Source: s}, PackOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if m := res.Manifest.Missing; len(m) != 1 || m[0].Path != "/moving" || m[0].Reason != "changed" {
		t.Errorf("missing %+v, want /moving: changed", m)
	}
}

// BUN-3: a Source that yields a file of another id is not believed.
func TestPackWrongBytes(t *testing.T) {
	s := &fakeSource{dir: t.TempDir()}
	s.put(t, store.ELF, "/good", elfOf(id(1), "code", 0))
	s.put(t, store.ELF, "/bad", elfOf(id(3), "code", 0))
	res, _, err := pack(t, result(obj{"/good", id(1), 0, 1}, obj{"/bad", id(2), 0, 1}), PlanOptions{Source: s}, PackOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m := res.Manifest.Missing
	if len(m) != 1 || m[0].Reason != "replaced" || m[0].Detail != "replaced since the recording (file now has id "+id(3).String()+")" {
		t.Errorf("missing %+v", m)
	}
}

// BUN-4: a file that is written to between being read and being packed is
// packed from a private copy, with the replay done again.
func TestPackChangedWhilePacked(t *testing.T) {
	s := &fakeSource{dir: t.TempDir()}
	s.put(t, store.ELF, "/prog", elfOf(id(1), "code", 100))
	pl, err := NewPlan(t.Context(), result(obj{"/prog", id(1), 0, 1}), PlanOptions{Source: s})
	if err != nil {
		t.Fatal(err)
	}
	defer pl.Close()
	changed := false
	name := filepath.Join(t.TempDir(), "out.tar.bz2")
	res, err := pl.Pack(t.Context(), name, PackOptions{EncodeOptions: EncodeOptions{Progress: func(done, total int64, what string) {
		if !changed && strings.HasSuffix(what, "/elf") {
			changed = true
			s.put(t, store.ELF, "/prog", elfOf(id(1), "edoc", 200))
		}
	}}})
	if err != nil {
		t.Fatal(err)
	}
	want := elfOf(id(1), "edoc", 200)
	if got := untar(t, name)["prog/"+id(1).String()+"/elf"]; got != string(want) || !changed {
		t.Errorf("packed %d bytes, want the %d of the new file", len(got), len(want))
	}
	if f := res.Manifest.Objects[0].Files[0]; f.Size != int64(len(want)) {
		t.Errorf("the manifest says %d bytes", f.Size)
	}
}

// BUN-9: same input, same bytes, for any number of workers.
func TestPackReproducible(t *testing.T) {
	s := &fakeSource{dir: t.TempDir()}
	var objs []obj
	for i := byte(1); i < 20; i++ {
		s.put(t, store.ELF, fmt.Sprintf("/p%d", i), elfOf(id(i), "code", int(i)*1000))
		objs = append(objs, obj{fmt.Sprintf("/p%d", i), id(i), 0, uint64(i)})
	}
	var first []byte
	for workers := 1; workers <= 3; workers++ {
		pl, err := NewPlan(t.Context(), result(objs...), PlanOptions{Source: s, Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(t.TempDir(), "x")
		if _, err := pl.Pack(t.Context(), name, PackOptions{EncodeOptions: EncodeOptions{Format: Zstd, Workers: workers}}); err != nil {
			t.Fatal(err)
		}
		pl.Close()
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = b
		} else if !bytes.Equal(first, b) {
			t.Errorf("%d workers: other bytes", workers)
		}
	}
}

// BUN-6: a cancelled run leaves nothing, and an older archive stays.
func TestPackCancel(t *testing.T) {
	s := &fakeSource{dir: t.TempDir()}
	s.put(t, store.ELF, "/p", elfOf(id(1), "code", 8<<20))
	dir := t.TempDir()
	name := filepath.Join(dir, "out.tar.bz2")
	if err := os.WriteFile(name, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	pl, err := NewPlan(ctx, result(obj{"/p", id(1), 0, 1}), PlanOptions{Source: s})
	if err != nil {
		t.Fatal(err)
	}
	defer pl.Close()
	_, err = pl.Pack(ctx, name, PackOptions{EncodeOptions: EncodeOptions{Progress: func(done, total int64, what string) {
		if done > 1<<20 && strings.HasSuffix(what, "/elf") {
			cancel()
		}
	}}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	onlyFile(t, dir, "out.tar.bz2", "old")
}

// A check sees the whole archive before it has a name, and can keep it from
// getting one.
func TestPackCheck(t *testing.T) {
	s := &fakeSource{dir: t.TempDir()}
	s.put(t, store.ELF, "/usr/bin/a", elfOf(id(1), "code", 0))
	pl, err := NewPlan(t.Context(), result(obj{"/usr/bin/a", id(1), 0, 3}), PlanOptions{Source: s})
	if err != nil {
		t.Fatal(err)
	}
	defer pl.Close()
	dir := t.TempDir()
	name := filepath.Join(dir, "out.tar.zst")
	if err := os.WriteFile(name, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := errors.New("not good")
	var why error
	o := PackOptions{EncodeOptions: EncodeOptions{Format: Zstd}, Check: func(r io.ReaderAt, size int64) error {
		onlyFile(t, dir, "out.tar.zst", "old")
		a, err := New(t.Context(), r, size, "x", OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		if len(a.Objects()) != 1 {
			t.Errorf("objects %+v", a.Objects())
		}
		return why
	}}
	why = bad
	if _, err := pl.Pack(t.Context(), name, o); !errors.Is(err, bad) {
		t.Errorf("error %v, want %v", err, bad)
	}
	onlyFile(t, dir, "out.tar.zst", "old")
	why = nil
	r, err := pl.Pack(t.Context(), name, o)
	if err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(name); err != nil || fi.Size() != r.Size {
		t.Errorf("%v, %v; want %d bytes", fi, err, r.Size)
	}
}

// onlyFile fails unless the one file of a directory has this name and content.
func onlyFile(t *testing.T, dir, name, content string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || list[0].Name() != name {
		t.Fatalf("%s holds %v, want %s only", dir, list, name)
	}
	if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != content {
		t.Errorf("%s: %.20q, %v; want %q", name, b, err, content)
	}
}

// F3: a full disk is one error that names the file and what is free, and
// leaves nothing.
func TestPackFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("mounting a small file system: %v", err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	s := &fakeSource{dir: t.TempDir()}
	code := make([]byte, 1<<20)
	for i, x := 0, uint32(1); i < len(code); i++ {
		x = x*1664525 + 1013904223
		code[i] = byte(x >> 24)
	}
	s.put(t, store.ELF, "/p", elfOf(id(1), string(code), 0))
	name := filepath.Join(dir, "out.tar.bz2")
	if err := os.WriteFile(name, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	pl, err := NewPlan(t.Context(), result(obj{"/p", id(1), 0, 1}), PlanOptions{Source: s})
	if err != nil {
		t.Fatal(err)
	}
	defer pl.Close()
	_, err = pl.Pack(t.Context(), name, PackOptions{})
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "bytes were free in") {
		t.Errorf("error %v, want no space left, and how much is free", err)
	}
	onlyFile(t, dir, "out.tar.bz2", "old")
}

// F1: a killed run leaves the old archive or the new one, and nothing torn.
func TestPackKilled(t *testing.T) {
	if dir := os.Getenv("PERFARK_TEST_PACK"); dir != "" {
		s := &fakeSource{dir: filepath.Join(dir, "src")}
		s.put(t, store.ELF, "/p", elfOf(id(1), "code", 1<<20))
		pl, err := NewPlan(t.Context(), result(obj{"/p", id(1), 0, 1}), PlanOptions{Source: s})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("ready")
		for {
			if _, err := pl.Pack(t.Context(), filepath.Join(dir, "out", "x.tar.zst"), PackOptions{EncodeOptions: EncodeOptions{Format: Zstd}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	if err := os.Mkdir(out, 0o755); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(out, "x.tar.zst")
	var whole []byte
	for i := range 20 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestPackKilled$")
		cmd.Env = append(os.Environ(), "PERFARK_TEST_PACK="+dir)
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		io.ReadFull(stdout, make([]byte, len("ready")))
		time.Sleep(time.Duration(i) * 3 * time.Millisecond)
		cmd.Process.Kill()
		cmd.Wait()
		b, err := os.ReadFile(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			t.Fatal(err)
		case whole == nil:
			whole = b
		case !bytes.Equal(b, whole):
			t.Fatalf("kill %d: %d bytes, want all %d", i, len(b), len(whole))
		}
	}
	if whole == nil {
		t.Skip("every run was killed before it had written anything")
	}
	// What is left over under a temporary name goes with the next run.
	d, err := newDraft(name)
	if err != nil {
		t.Fatal(err)
	}
	d.abort()
	onlyFile(t, out, "x.tar.zst", string(whole))
}

func TestDraft(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a")
	write := func(s string) {
		t.Helper()
		d, err := newDraft(name)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(d, s)
		if err := d.commit(); err != nil {
			t.Fatal(err)
		}
		onlyFile(t, dir, "a", s)
	}
	write("first")
	write("second")
	if fi, err := os.Stat(name); err != nil || fi.Mode() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", fi.Mode(), err)
	}
	for what, make := range map[string]func(string) error{
		"symbolic link": func(s string) error { return os.Symlink("a", s) },
		"regular file":  func(s string) error { return syscall.Mkfifo(s, 0o600) },
	} {
		at := filepath.Join(dir, "other")
		if err := make(at); err != nil {
			t.Fatal(err)
		}
		if _, err := newDraft(at); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: error %v", what, err)
		}
		os.Remove(at)
	}
	if _, err := newDraft(filepath.Join(dir, "none", "a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: error %v", err)
	}
}

// A directory that may be written to but not read takes a file, and there is no
// error when it is there.
func TestDraftUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("NOTICE: root may read every directory")
	}
	dir := t.TempDir()
	d, err := newDraft(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o300); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o700)
	if err := d.commit(); err != nil {
		t.Error(err)
	}
}

// Stale temporary files go; those of a run that is still there stay.
func TestDraftSweep(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a")
	for _, f := range []string{".a.perfark-1-0", ".a.perfark-live", ".b.perfark-1", "a.perfark-1"} {
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	live, err := os.Open(filepath.Join(dir, ".a.perfark-live"))
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	if err := syscall.Flock(int(live.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	d, err := newDraft(name)
	if err != nil {
		t.Fatal(err)
	}
	d.abort()
	var names []string
	list, _ := os.ReadDir(dir)
	for _, e := range list {
		names = append(names, e.Name())
	}
	if want := []string{".a.perfark-live", ".b.perfark-1", "a.perfark-1"}; !slices.Equal(names, want) {
		t.Errorf("left %q, want %q", names, want)
	}
}

// An errSource has an error for everything.
type errSource struct{ err error }

func (s errSource) Get(ctx context.Context, k store.Key) (*store.File, error) { return nil, s.err }

// Each way to miss an object has its reason, and advice. S13, S15 among them.
func TestMissing(t *testing.T) {
	refuse := func(r store.Reason, why string, got buildid.ID, err error) error {
		return &store.RefusedError{Path: "/bin/x", Reason: r, Why: why, Got: got, Err: err}
	}
	const cmd = "perfark archive -i d"
	root := PlanOptions{Command: cmd}
	user := PlanOptions{Command: cmd, Caller: "nobody (uid 65534)"}
	locked := PlanOptions{Command: cmd, Caller: "nobody (uid 65534)", Elsewhere: []string{"/root/.debug"}}
	away := PlanOptions{Command: cmd, OtherHost: "db1"}
	for _, tt := range []struct {
		name                 string
		obj                  obj
		err                  error
		o                    PlanOptions
		reason, detail, hint string
	}{
		{"nothing", obj{"/bin/x", id(1), 0, 1}, fs.ErrNotExist, root,
			"not-found", "no such file: it was deleted or moved, or is in another mount namespace (a container)", "perfark buildid-cache --add COPY-OF-THE-FILE && " + cmd},
		{"replaced", obj{"/bin/x", id(1), 0, 1}, refuse(store.Replaced, "", id(2), nil), root,
			"replaced", "replaced since the recording (file now has id " + id(2).String() + ")", "perfark buildid-cache --add COPY-OF-THE-OLD-FILE && " + cmd},
		{"unreadable", obj{"/bin/x", id(1), 0, 1}, refuse(store.Unreadable, "", "", fs.ErrPermission), user,
			"unreadable", `"/bin/x" is not readable by nobody (uid 65534)`, "sudo " + cmd},
		{"other cache", obj{"/bin/x", id(1), 0, 1}, fs.ErrNotExist, locked,
			"not-found", "no such file: it was deleted or moved, or is in another mount namespace (a container); /root/.debug, which nobody (uid 65534) cannot read, may hold it", "sudo " + cmd},
		{"other host", obj{"/bin/x", id(1), 0, 1}, fs.ErrNotExist, away,
			"other-host", `recorded on host "db1"; no file here has this id`, cmd + ", on host db1"},
		{"deleted", obj{"/bin/x (deleted)", id(1), 0, 1}, refuse(store.Deleted, "", "", nil), root,
			"deleted", "deleted, and no process that runs has it mapped", "perfark buildid-cache --add COPY-OF-THE-FILE && " + cmd},
		{"memfd", obj{"/memfd:x (deleted)", "", 0, 1}, fs.ErrNotExist, locked,
			"memfd", "lived in memory only, and no process that runs has it mapped", "record again, then " + cmd + ", while the program runs"},
		{"no id", obj{"/bin/x", "", 0, 1}, refuse(store.Untied, "nothing ties the file to it", "", nil), root,
			"untied", "nothing ties the file to it", "link it with a build id (gcc -Wl,--build-id), perf record --buildid-mmap …, then " + cmd},
		{"no id, gone", obj{"/bin/x", "", 0, 1}, fs.ErrNotExist, root,
			"not-found", "no such file: it was deleted or moved, or is in another mount namespace (a container)", "perf record --buildid-mmap …, then " + cmd + ", while the program runs"},
		{"no id, replaced", obj{"/bin/x", "", 0, 1}, refuse(store.Replaced, "no build id, and it is inode 2; inode 1 was mapped", "", nil), root,
			"replaced", "no build id, and it is inode 2; inode 1 was mapped", "perf record --buildid-mmap …, then " + cmd},
		{"kptr_restrict", obj{"[kernel.kallsyms]", id(1), profile.KindKernel, 1}, refuse(store.Restricted, "zeros", "", nil), user,
			"restricted", "kernel addresses are hidden (kernel.kptr_restrict)", "sudo " + cmd},
		{"kernel", obj{"[kernel.kallsyms]", id(1), profile.KindKernel, 1}, fs.ErrNotExist, root,
			"other-kernel", "belongs to a kernel that does not run here now, and no cache has it", cmd + ", before the host is booted into another kernel"},
		{"vDSO of another kernel", obj{"[vdso]", id(1), profile.KindVDSO, 1}, refuse(store.OtherHost, "of another kernel", id(2), nil), root, // S56
			"other-kernel", "belongs to a kernel that does not run here now, and no cache has it", cmd + ", before the host is booted into another kernel"},
		{"module", obj{"[xfs]", id(1), profile.KindModule, 1}, fs.ErrNotExist, root,
			"no-file", "the recording names no file for this kernel module", ""},
		{"guest", obj{"[guest.kernel.kallsyms]", id(1), profile.KindGuestKernel, 1}, fs.ErrNotExist, root,
			"guest", "belongs to a virtual machine, whose files are not on this host", cmd + " --symbols DIR"},
		{"two reasons", obj{"/bin/x", id(1), 0, 1}, errors.Join(refuse(store.Malformed, "no ELF", "", nil), refuse(store.Changed, "", "", nil)), root,
			"changed", `"/bin/x" changed while reading, 3 times`, cmd},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.Source = errSource{tt.err}
			pl, err := NewPlan(t.Context(), result(tt.obj), tt.o)
			if err != nil {
				t.Fatal(err)
			}
			want := Missing{
				ID: tt.obj.id, Kind: kindName(tt.obj.kind), Path: Name(tt.obj.path), Samples: 1, Frames: 1,
				Reason: tt.reason, Detail: tt.detail, Hint: tt.hint,
			}
			if len(pl.Missing) != 1 || pl.Missing[0] != want {
				t.Errorf("got  %+v\nwant %+v", pl.Missing, want)
			}
		})
	}
}

// S13: kernel samples of a recording that may not say where the kernel is.
func TestMissingRestricted(t *testing.T) {
	s := &fakeSource{dir: t.TempDir()}
	s.put(t, store.ELF, "/p", elfOf(id(1), "code", 0))
	r := result(obj{"/p", id(1), 0, 1})
	r.KernelRestricted, r.KernelSamples = true, 26
	res, _, err := pack(t, r, PlanOptions{Source: s}, PackOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m := res.Manifest.Missing
	if len(m) != 1 || m[0].Path != "[kernel]" || m[0].Samples != 26 || m[0].Reason != "restricted" || !strings.Contains(m[0].Hint, "kernel.kptr_restrict=0") {
		t.Errorf("missing %+v", m)
	}
}

// What unwinding needs is packed though no frame is in it; the vDSO is if it
// is there, and no gap if it is not.
func TestPackUnwind(t *testing.T) {
	s := &fakeSource{dir: t.TempDir()}
	s.put(t, store.ELF, "/p", elfOf(id(1), "code", 0))
	s.put(t, store.ELF, "/lib", elfOf(id(2), "code", 0))
	s.put(t, store.ELF, "/unused", elfOf(id(3), "code", 0))
	r := result(obj{"/p", id(1), 0, 1}, obj{"/lib", id(2), 0, 0}, obj{"/unused", id(3), 0, 0}, obj{"[vdso]", id(4), profile.KindVDSO, 0})
	r.Hit[1] = session.HitUnwind
	res, _, err := pack(t, r, PlanOptions{Source: s}, PackOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var paths []Name
	for _, o := range res.Manifest.Objects {
		paths = append(paths, o.Paths...)
	}
	if !slices.Equal(paths, []Name{"/lib", "/p"}) || len(res.Manifest.Missing) != 0 {
		t.Errorf("packed %q, missing %v", paths, res.Manifest.Missing)
	}
}

// A kernel image that the user names is packed if it is that of the recording.
func TestPackVmlinux(t *testing.T) {
	s := &fakeSource{dir: t.TempDir()}
	s.put(t, store.Kallsyms, "[kernel.kallsyms]", []byte("ffffffff81000000 T _text\n"))
	r := result(obj{"[kernel.kallsyms]", id(1), profile.KindKernel, 1})
	name := filepath.Join(t.TempDir(), "vmlinux")
	for _, tt := range []struct {
		id      buildid.ID
		members int
		missing string
	}{
		{id(1), 3, ""},
		{id(2), 2, "carries build id " + id(2).String() + "; " + id(1).String() + " is wanted; perfark archive --vmlinux=FILE, or install the debug symbols of the kernel"},
	} {
		if err := os.WriteFile(name, elfOf(tt.id, "code", 0), 0o600); err != nil {
			t.Fatal(err)
		}
		res, got, err := pack(t, r, PlanOptions{Source: s, Vmlinux: true, VmlinuxFile: name, Command: "perfark archive"}, PackOptions{})
		if err != nil {
			t.Fatal(err)
		}
		detail := ""
		for _, m := range res.Manifest.Missing {
			detail += m.Detail + "; " + m.Hint
		}
		if len(got) != tt.members || detail != tt.missing {
			t.Errorf("%s: members %q, missing %q", tt.id, keys(got), detail)
		}
	}
}

// Shared debug information of dwz, and split DWARF beside a program.
func TestPackDebugInfo(t *testing.T) {
	if _, err := exec.LookPath("objcopy"); err != nil {
		t.Skip("NOTICE: no objcopy here; install binutils for this test")
	}
	dir := t.TempDir()
	shared := filepath.Join(dir, "shared.debug")
	link := filepath.Join(dir, "link")
	app := filepath.Join(dir, "app")
	exe := perftest.CC(t, "exe", "int main() { return 0; }", "-Wl,--build-id=uuid")
	os.WriteFile(shared, elfOf(id(7), "", 0), 0o600)
	os.WriteFile(link, append([]byte("shared.debug\x00"), id(7)...), 0o600)
	if out, err := exec.Command("objcopy", "--add-section", ".gnu_debugaltlink="+link, exe, app).CombinedOutput(); err != nil {
		t.Fatalf("objcopy: %v %s", err, out)
	}
	for _, n := range []string{"app.dwp", "app-x.dwo", "other.dwp", "app2.dwo"} {
		os.WriteFile(filepath.Join(dir, n), []byte(n), 0o600)
	}
	os.Symlink("/etc/passwd", filepath.Join(dir, "app-evil.dwo"))
	syscall.Mkfifo(filepath.Join(dir, "app-fifo.dwo"), 0o600)
	s := hostFiles{}
	f, err := s.Get(t.Context(), store.Key{Kind: store.ELF, Path: app})
	if err != nil {
		t.Fatal(err)
	}
	appID := identity(f, decode.Limits{}).id
	f.Close()
	r := result(obj{app, appID, 0, 1}, obj{"/lots", id(9), 0, 1000})
	for _, tt := range []struct {
		d    DebugInfo
		want []string
	}{
		{DebugAll, []string{"app", "app-x.dwo", "app.dwp", "shared.debug"}},
		{DebugHot, []string{"app"}},
		{DebugNone, []string{"app"}},
	} {
		res, _, err := pack(t, r, PlanOptions{Source: s, DebugInfo: tt.d}, PackOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range res.Manifest.Objects {
			got = append(got, filepath.Base(string(o.Paths[0])))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%v: %q, want %q", tt.d, got, tt.want)
		}
	}
}

// hostFiles serves the files at their recorded paths.
type hostFiles struct{}

func (hostFiles) Get(ctx context.Context, k store.Key) (*store.File, error) {
	f, err := openFileOnly(k.Path)
	if err != nil {
		return nil, fs.ErrNotExist
	}
	return f, nil
}
