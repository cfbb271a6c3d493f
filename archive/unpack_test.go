package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/store"
)

// unpack unpacks b into new directories and returns them.
func unpack(t testing.TB, b []byte, o UnpackOptions) (*Unpacked, string, error) {
	t.Helper()
	dir := t.TempDir()
	if o.Dir == "" {
		o.Dir = filepath.Join(dir, "debug")
	}
	if o.DataDir == "" {
		o.DataDir = filepath.Join(dir, "data")
	}
	u, err := Unpack(t.Context(), bytes.NewReader(b), o)
	return u, dir, err
}

// stateOf lists everything below a directory: kind, mode, size, contents.
func stateOf(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		fmt.Fprintf(&b, "%q %v", rel, fi.Mode())
		switch {
		case fi.Mode().IsRegular():
			c, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %d %s", len(c), sumHex(c)[:16])
		case fi.Mode()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(p)
			fmt.Fprintf(&b, " -> %q", to)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// refused returns how many files were refused.
func refused(u *Unpacked) int {
	n := 0
	for _, f := range u.Files {
		if f.Outcome == Refused {
			n++
		}
	}
	return n
}

// TestUnpack unpacks every format and looks for everything.
func TestUnpack(t *testing.T) {
	p := sample()
	for _, f := range allFormats {
		t.Run(f.String(), func(t *testing.T) {
			u, dir, err := unpack(t, p.encode(t, EncodeOptions{Format: f}), UnpackOptions{})
			if err != nil {
				t.Fatal(err)
			}
			tree := filepath.Join(dir, "debug")
			for _, x := range u.Files {
				if x.Outcome != Added || x.Why != "" {
					t.Errorf("%q: %s %s", x.Name, x.Outcome, x.Why)
				}
			}
			if len(u.Files) != len(p.files) || len(u.Missing) != 1 {
				t.Errorf("%d files, %d missing; want %d, 1", len(u.Files), len(u.Missing), len(p.files))
			}
			for _, o := range p.m.Objects {
				for _, x := range o.Files {
					// What the archive escapes, a tree has as perf writes it.
					name := string(x.Name)
					if got, err := os.ReadFile(filepath.Join(tree, name)); err != nil || !bytes.Equal(got, p.files[x.Name]) {
						t.Errorf("%q: %v", name, err)
					}
					if o.ID != "" {
						link, _ := LinkName(o.ID, name)
						if got, err := os.ReadFile(filepath.Join(tree, link, string(x.Kind))); err != nil || !bytes.Equal(got, p.files[x.Name]) {
							t.Errorf("%q: %v", link, err)
						}
					}
				}
			}
			// B18: the second path of an object.
			if _, err := os.Stat(filepath.Join(tree, "usr/bin/other", testID(1).String(), "elf")); err != nil {
				t.Error(err)
			}
			if f == Bundle {
				data := filepath.Join(dir, "data", "perf.data")
				fi, err := os.Stat(data)
				if err != nil || u.Data != data || !fi.ModTime().Equal(p.m.Data.MTime) || fi.Mode() != 0o600 {
					t.Errorf("%q: %v %v", u.Data, fi, err)
				}
			} else if u.Data != "" {
				t.Errorf("data %q", u.Data)
			}
			if l, _ := filepath.Glob(filepath.Join(tree, ".perfark", "*.json")); len(l) != 1 {
				t.Errorf("manifests %q", l)
			}
			if s := stateOf(t, dir); strings.Contains(s, tempPrefix) {
				t.Errorf("a temporary file is left:\n%s", s)
			}
		})
	}
}

// TestUnpackSwept (F1): what a killed process left is removed, but not what
// another one is writing.
func TestUnpackSwept(t *testing.T) {
	tree := t.TempDir()
	left, busy := filepath.Join(tree, tempPrefix+"left"), filepath.Join(tree, tempPrefix+"busy")
	os.WriteFile(left, []byte("half"), 0o600)
	f, err := os.Create(busy)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, _, err := unpack(t, small().encode(t, EncodeOptions{Format: Tar}), UnpackOptions{Dir: tree}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("the rest of a killed process is still there")
	}
	if _, err := os.Stat(busy); err != nil {
		t.Error("a file that is being written was removed")
	}
}

// TestUnpackTwice keeps what is there.
func TestUnpackTwice(t *testing.T) {
	b := sample().encode(t, EncodeOptions{Format: Bundle})
	_, dir, err := unpack(t, b, UnpackOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before := stateOf(t, dir)
	u, _, err := unpack(t, b, UnpackOptions{Dir: filepath.Join(dir, "debug"), DataDir: filepath.Join(dir, "data")})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range u.Files {
		if x.Outcome != Kept {
			t.Errorf("%q: %s %s, want kept", x.Name, x.Outcome, x.Why)
		}
	}
	if after := stateOf(t, dir); after != before {
		t.Errorf("changed:\n%s\nwas:\n%s", after, before)
	}
}

// TestUnpackData: a perf.data that is there stays, without --force.
func TestUnpackData(t *testing.T) {
	b := sample().encode(t, EncodeOptions{Format: Bundle})
	dir := t.TempDir()
	name := filepath.Join(dir, "perf.data")
	if err := os.WriteFile(name, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	o := UnpackOptions{Dir: filepath.Join(dir, "debug"), DataDir: dir}
	_, err := Unpack(t.Context(), bytes.NewReader(b), o)
	if want := name + ": is there; it is replaced with --force only"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if _, err := os.Lstat(o.Dir); err == nil {
		t.Error("something was written")
	}
	o.Force = true
	if _, err := Unpack(t.Context(), bytes.NewReader(b), o); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(name); string(got) != string(sample().data) {
		t.Errorf("with force: %q", got)
	}
	// A link there is replaced, not followed.
	other := filepath.Join(dir, "other")
	os.WriteFile(other, []byte("other"), 0o644)
	os.Remove(name)
	os.Symlink(other, name)
	if _, err := Unpack(t.Context(), bytes.NewReader(b), o); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(other); string(got) != "other" {
		t.Errorf("written through a link: %q", got)
	}
}

// TestUnpackWrong: objects that are not what the archive says are refused, and
// the others are unpacked (UNP-3, H3).
func TestUnpackWrong(t *testing.T) {
	p := newPacked()
	p.object(Object{ID: testID(1), Kind: "file", Paths: []Name{"/bin/good"}}).file(store.ELF, elfWith(testID(1), "good"))
	p.object(Object{ID: testID(2), Kind: "file", Paths: []Name{"/bin/otherid"}}).file(store.ELF, elfWith(testID(3), ""))
	p.object(Object{ID: testID(4), Kind: "file", Paths: []Name{"/bin/script"}}).file(store.ELF, []byte("#!/bin/sh\n"))
	p.object(Object{ID: testID(5), Kind: "kernel", Paths: []Name{"[kernel.kallsyms]"}}).file(store.Kallsyms, []byte("0000000000000000 T _text\n"))
	b := p.encode(t, EncodeOptions{Format: Bzip2})
	u, dir, err := unpack(t, b, UnpackOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if refused(u) != 3 {
		t.Errorf("%d refused, want 3: %+v", refused(u), u.Files)
	}
	s := stateOf(t, dir)
	for name, want := range map[string]bool{"good": true, "otherid/": false, "script/": false, "kallsyms\"": false} {
		if strings.Contains(s, name) != want {
			t.Errorf("%q in the tree: %v\n%s", name, !want, s)
		}
	}
}

// TestUnpackBetter (B21): the better copy wins, in whatever order they come.
// The files are programs compiled here.
func TestUnpackBetter(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("gcc is not installed")
	}
	dir := t.TempDir()
	src := filepath.Join(dir, "a.c")
	os.WriteFile(src, []byte("int hot(void){return 1;} int main(void){return hot();}\n"), 0o600)
	full, stripped := filepath.Join(dir, "full"), filepath.Join(dir, "stripped")
	id := testID(6)
	run(t, "gcc", "-g", "-Wl,--build-id=0x"+id.String(), "-o", full, src)
	run(t, "strip", "-o", stripped, full)
	pack := func(file string) []byte {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return newPacked().object(Object{ID: id, Kind: "file", Paths: []Name{"/bin/a"}}).file(store.ELF, b).encode(t, EncodeOptions{Format: Zstd})
	}
	want, _ := os.ReadFile(full)
	for _, order := range [][]string{{full, stripped}, {stripped, full}, {full}} {
		tree := t.TempDir()
		for _, file := range order {
			if _, _, err := unpack(t, pack(file), UnpackOptions{Dir: tree}); err != nil {
				t.Fatal(err)
			}
		}
		link, _ := LinkName(id, "x/y/elf")
		if got, err := os.ReadFile(filepath.Join(tree, link, "elf")); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%q: %d bytes, want %d; error %v", order, len(got), len(want), err)
		}
	}
}

func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	b, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, b)
	}
	return string(b)
}

// perfTree makes a ~/.debug as perf makes it, and returns its parent.
func perfTree(t *testing.T) (home string, id buildid.ID) {
	t.Helper()
	home = t.TempDir()
	id = testID(7)
	d := filepath.Join(home, ".debug")
	obj := filepath.Join(d, "usr/bin/perfapp", id.String())
	os.MkdirAll(obj, 0o755)
	os.WriteFile(filepath.Join(obj, "elf"), elfWith(id, "perf's"), 0o755)
	os.Link(filepath.Join(obj, "elf"), filepath.Join(obj, "debug")) // B02
	os.WriteFile(filepath.Join(obj, "probes"), nil, 0o644)
	kid := testID(8)
	kern := filepath.Join(d, "[kernel.kallsyms]", kid.String())
	os.MkdirAll(kern, 0o755)
	os.WriteFile(filepath.Join(kern, "kallsyms"), []byte("ffffffff81000000 T _text\n"), 0o755)
	for _, x := range []struct {
		id  buildid.ID
		dir string
	}{{id, "usr/bin/perfapp"}, {kid, "[kernel.kallsyms]"}} {
		s := x.id.String()
		os.MkdirAll(filepath.Join(d, ".build-id", s[:2]), 0o755)
		os.Symlink("../../"+x.dir+"/"+s, filepath.Join(d, ".build-id", s[:2], s[2:]))
	}
	return home, id
}

// TestUnpackPerf reads the archives that perf archive makes, with the commands
// that its script runs.
func TestUnpackPerf(t *testing.T) {
	home, id := perfTree(t)
	d := filepath.Join(home, ".debug")
	var list strings.Builder
	for _, x := range []buildid.ID{id, testID(8), id} { // one twice
		s := x.String()
		link := filepath.Join(d, ".build-id", s[:2], s[2:])
		to, _ := filepath.EvalSymlinks(link)
		rel, _ := filepath.Rel(d, to)
		fmt.Fprintf(&list, ".build-id/%s/%s\n%s\n", s[:2], s[2:], rel)
	}
	manifest := filepath.Join(home, "list")
	os.WriteFile(manifest, []byte(list.String()), 0o600)
	syms := filepath.Join(home, "perf.data.tar.bz2")
	if b, err := exec.Command("tar", "cfj", syms, "-C", d, "-T", manifest).CombinedOutput(); err != nil {
		t.Skipf("tar: %v\n%s", err, b)
	}
	// And that of --all (6.8).
	os.Rename(syms, filepath.Join(home, perfInner))
	os.WriteFile(filepath.Join(home, "perf.data"), []byte("PERFILE2"), 0o600)
	all := filepath.Join(home, "perf.all-host-20261130-120000.tar.bz2")
	run(t, "tar", "cfj", all, "-C", home, "perf.data", perfInner)
	os.Rename(filepath.Join(home, perfInner), syms)
	for _, file := range []string{syms, all} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		u, dir, err := unpack(t, b, UnpackOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if refused(u) != 0 || len(u.Files) != 3 {
			t.Errorf("%+v", u.Files)
		}
		for _, kind := range []string{"elf", "debug"} {
			s := id.String()
			got, err := os.ReadFile(filepath.Join(dir, "debug", ".build-id", s[:2], s[2:], kind))
			if err != nil || !bytes.Equal(got, elfWith(id, "perf's")) {
				t.Errorf("%s: %v", kind, err)
			}
		}
		if (file == all) != (u.Data != "") {
			t.Errorf("data %q", u.Data)
		}
		a, err := New(t.Context(), bytes.NewReader(b), int64(len(b)), "x", OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		f, err := a.Get(t.Context(), store.Key{ID: id, Kind: store.ELF, Path: "/usr/bin/perfapp"})
		if err != nil || !f.Bound {
			t.Errorf("%+v %v", f, err)
		}
		a.Close()
	}
}

// TestUnpackDangling (B01): links of perf archive without their objects.
func TestUnpackDangling(t *testing.T) {
	home, id := perfTree(t)
	s := id.String()
	file := filepath.Join(home, "a.tar.bz2")
	if b, err := exec.Command("tar", "cfj", file, "-C", filepath.Join(home, ".debug"), ".build-id/"+s[:2]+"/"+s[2:]).CombinedOutput(); err != nil {
		t.Skipf("tar: %v\n%s", err, b)
	}
	b, _ := os.ReadFile(file)
	u, dir, err := unpack(t, b, UnpackOptions{})
	if err != nil || refused(u) != 1 || u.Files[0].ID != id {
		t.Errorf("%+v, error %v; want the id refused", u, err)
	}
	if s := stateOf(t, dir); strings.Contains(s, "->") {
		t.Errorf("a link that leads to nothing was made:\n%s", s)
	}
}

// TestUnpackMany (G9, UNP-7): many unpackers and readers at once; nobody sees
// part of a file.
func TestUnpackMany(t *testing.T) {
	p := newPacked()
	const objects = 8
	for i := range objects {
		id := testID(i)
		p.object(Object{ID: id, Kind: "file", Paths: []Name{Name(fmt.Sprintf("/bin/p%d", i))}}).
			file(store.ELF, elfWith(id, strings.Repeat(fmt.Sprint(i), 50_000)))
	}
	b := p.encode(t, EncodeOptions{Format: Bundle})
	dir := t.TempDir()
	tree := filepath.Join(dir, "debug")
	var stop atomic.Bool
	var reads atomic.Int64
	var readers, unpackers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for i := 0; !stop.Load(); i++ {
				o := p.m.Objects[i%objects]
				link, _ := LinkName(o.ID, string(o.Files[0].Name))
				got, err := os.ReadFile(filepath.Join(tree, link, "elf"))
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				reads.Add(1)
				if err != nil || !bytes.Equal(got, p.files[o.Files[0].Name]) {
					t.Errorf("%s: %d bytes, error %v", link, len(got), err)
					return
				}
			}
		})
	}
	for range 8 {
		unpackers.Go(func() {
			for range 3 {
				if u, err := Unpack(t.Context(), bytes.NewReader(b), UnpackOptions{Dir: tree, DataDir: dir}); err != nil || refused(u) > 0 {
					t.Errorf("%+v %v", u, err)
				}
			}
		})
	}
	unpackers.Wait()
	stop.Store(true)
	readers.Wait()
	if s := stateOf(t, dir); strings.Contains(s, tempPrefix) {
		t.Errorf("a temporary file is left:\n%s", s)
	}
	t.Logf("%d reads", reads.Load())
}

// TestUnpackInterrupted stops at many points; then nothing is there, or it is
// whole, and no temporary file.
func TestUnpackInterrupted(t *testing.T) {
	p := sample()
	b := p.encode(t, EncodeOptions{Format: Bundle})
	for n := 0; ; n++ {
		ctx, cancel := context.WithCancel(t.Context())
		dir := t.TempDir()
		left := n * 3
		o := UnpackOptions{Dir: filepath.Join(dir, "debug"), DataDir: filepath.Join(dir, "data"), Workers: 1,
			Progress: func(int64, int64, string) {
				if left--; left == 0 {
					cancel()
				}
			}}
		if n == 0 {
			cancel()
		}
		_, err := Unpack(ctx, bytes.NewReader(b), o)
		cancel()
		s := stateOf(t, dir)
		if strings.Contains(s, tempPrefix) {
			t.Fatalf("after %d: a temporary file is left:\n%s", n, s)
		}
		for name, want := range p.files {
			got, err := os.ReadFile(filepath.Join(o.Dir, string(name)))
			if err == nil && !bytes.Equal(got, want) {
				t.Fatalf("after %d: %q: %d bytes of %d", n, name, len(got), len(want))
			}
		}
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("after %d: error %v", n, err)
		}
	}
}

// TestUnpackSwapped (X04, F14): while we unpack, others exchange directories of
// the tree with links that lead out of it.
func TestUnpackSwapped(t *testing.T) {
	p := newPacked()
	for i := range 20 {
		p.object(Object{ID: testID(i), Kind: "file", Paths: []Name{Name(fmt.Sprintf("/bin/p%d", i))}}).file(store.ELF, elfWith(testID(i), "x"))
	}
	p.object(Object{Kind: "perfmap", PID: 1, Paths: []Name{"/tmp/perf-1.map"}}).file(store.PerfMap, []byte("1 1 x\n"))
	b := p.encode(t, EncodeOptions{Format: Tar})
	dir := t.TempDir()
	outside := filepath.Join(dir, "outside")
	for _, d := range []string{"bin", "jit", ".build-id", "xx"} {
		os.MkdirAll(filepath.Join(outside, d), 0o755)
	}
	before := stateOf(t, outside)
	tree := filepath.Join(dir, "tree")
	os.MkdirAll(filepath.Join(tree, ".perfark"), 0o755)
	var stop atomic.Bool
	var swaps atomic.Int64
	var swappers sync.WaitGroup
	for _, name := range []string{"bin", ".build-id", ".perfark/jit"} {
		link := filepath.Join(dir, "link-"+filepath.Base(name))
		os.Symlink(outside, link)
		swappers.Go(func() {
			for !stop.Load() {
				at := filepath.Join(tree, name)
				os.MkdirAll(at, 0o755)
				if unix.Renameat2(unix.AT_FDCWD, link, unix.AT_FDCWD, at, unix.RENAME_EXCHANGE) == nil {
					swaps.Add(1)
				}
			}
		})
	}
	end := time.Now().Add(2 * time.Second)
	if testing.Short() {
		end = time.Now().Add(300 * time.Millisecond)
	}
	runs := 0
	for time.Now().Before(end) {
		Unpack(t.Context(), bytes.NewReader(b), UnpackOptions{Dir: tree, DataDir: dir})
		runs++
	}
	stop.Store(true)
	swappers.Wait()
	if after := stateOf(t, outside); after != before {
		t.Errorf("escaped:\n%s\nwas:\n%s", after, before)
	}
	t.Logf("%d swaps, %d runs", swaps.Load(), runs)
}

// TestUnpackDir (T26): where we do not write.
func TestUnpackDir(t *testing.T) {
	b := sample().encode(t, EncodeOptions{Format: Zstd})
	for name, prepare := range map[string]func(dir string) error{
		"world-writable": func(dir string) error { os.Mkdir(dir, 0o777); return os.Chmod(dir, 0o777) },
		"a file":         func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
		"owned by L": func(dir string) error {
			if os.Getuid() != 0 {
				t.Skip("not root")
			}
			os.Mkdir(dir, 0o755)
			return os.Chown(dir, 1234, 1234)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "tree")
			if err := prepare(dir); err != nil {
				t.Fatal(err)
			}
			before := stateOf(t, dir)
			if _, _, err := unpack(t, b, UnpackOptions{Dir: dir}); err == nil {
				t.Error("no error")
			}
			if after := stateOf(t, dir); after != before {
				t.Errorf("changed:\n%s", after)
			}
		})
	}
	t.Run("build-id is a link", func(t *testing.T) {
		top := t.TempDir()
		outside := filepath.Join(top, "outside")
		os.Mkdir(outside, 0o755)
		tree := filepath.Join(top, "tree")
		os.Mkdir(tree, 0o755)
		os.Symlink(outside, filepath.Join(tree, ".build-id"))
		u, _, err := unpack(t, b, UnpackOptions{Dir: tree})
		if err == nil && refused(u) == 0 {
			t.Error("nothing refused")
		}
		if s := stateOf(t, outside); strings.Count(s, "\n") != 1 {
			t.Errorf("written outside:\n%s", s)
		}
	})
}

// TestUnpackStream (T25): from a pipe, and one that does not end.
func TestUnpackStream(t *testing.T) {
	b := sample().encode(t, EncodeOptions{Format: Bundle})
	dir := t.TempDir()
	r, w, _ := os.Pipe()
	go func(w *os.File) { w.Write(b); w.Close() }(w)
	if u, err := Unpack(t.Context(), r, UnpackOptions{Dir: filepath.Join(dir, "a"), DataDir: dir}); err != nil || refused(u) > 0 {
		t.Errorf("%+v %v", u, err)
	}
	zero, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer zero.Close()
	o := UnpackOptions{Dir: filepath.Join(dir, "b"), DataDir: dir, Limits: Limits{MaxBytes: 1 << 20}}
	if _, err := Unpack(t.Context(), zero, o); err == nil || !strings.Contains(err.Error(), "--max-bytes") {
		t.Errorf("endless: error %v, want one that names --max-bytes", err)
	}
	r, w, _ = os.Pipe()
	defer w.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := Unpack(ctx, r, o); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > time.Second {
		t.Errorf("stalled: error %v after %v", err, time.Since(start))
	}
}

// TestUnpackNoSpace (F3): a file system that is full.
func TestUnpackNoSpace(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=20m"); err != nil {
		t.Skipf("mount: %v", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	p := newPacked()
	p.object(Object{ID: testID(1), Kind: "file", Paths: []Name{"/bin/a"}}).file(store.ELF, elfWith(testID(1), strings.Repeat("x", 10<<20)))
	b := p.encode(t, EncodeOptions{Format: Zstd})
	_, err := Unpack(t.Context(), bytes.NewReader(b), UnpackOptions{Dir: filepath.Join(dir, "x"), DataDir: dir})
	if err == nil || !strings.Contains(err.Error(), "are free") {
		t.Errorf("error %v", err)
	}
	if s := stateOf(t, dir); strings.Count(s, "\n") != 1 {
		t.Errorf("written:\n%s", s)
	}
}

// TestUnpackKilled (F1, G8): killed at any moment, whatever is there is whole;
// the next run completes it and leaves no temporary file.
func TestUnpackKilled(t *testing.T) {
	if file := os.Getenv("PERFARK_TEST_UNPACK"); file != "" {
		r, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		dir := os.Getenv("PERFARK_TEST_DIR")
		for {
			os.RemoveAll(filepath.Join(dir, "debug"))
			os.RemoveAll(filepath.Join(dir, "data"))
			Unpack(context.Background(), r, UnpackOptions{Dir: filepath.Join(dir, "debug"), DataDir: filepath.Join(dir, "data")})
		}
	}
	p := sampleOf(500_000)
	b := p.encode(t, EncodeOptions{Format: Zstd})
	file := filepath.Join(t.TempDir(), "a.tar.zst")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	kills := 15
	if testing.Short() {
		kills = 5
	}
	for i := range kills {
		dir := t.TempDir()
		cmd := exec.Command(os.Args[0], "-test.run=^TestUnpackKilled$")
		cmd.Env = append(os.Environ(), "PERFARK_TEST_UNPACK="+file, "PERFARK_TEST_DIR="+dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for {
			if _, err := os.Stat(filepath.Join(dir, "debug")); err == nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(i) * 700 * time.Microsecond)
		cmd.Process.Kill()
		cmd.Wait()
		o := UnpackOptions{Dir: filepath.Join(dir, "debug"), DataDir: filepath.Join(dir, "data")}
		for name, want := range p.files {
			got, err := os.ReadFile(filepath.Join(o.Dir, string(name)))
			if err == nil && !bytes.Equal(got, want) {
				t.Fatalf("kill %d: %q: %d bytes of %d", i, name, len(got), len(want))
			}
		}
		u, err := Unpack(t.Context(), bytes.NewReader(b), o)
		if err != nil || refused(u) > 0 {
			t.Fatalf("kill %d: %+v %v", i, u, err)
		}
		if s := stateOf(t, dir); strings.Contains(s, tempPrefix) {
			t.Fatalf("kill %d: a temporary file is left:\n%s", i, s)
		}
	}
}

// F3: what cannot be written is named by where it was to go, and not by the
// temporary name.
func TestUnpackNames(t *testing.T) {
	const dir = "/sys/kernel" // where nobody makes files
	_, _, err := unpack(t, sample().encode(t, EncodeOptions{Format: Bundle}), UnpackOptions{DataDir: dir})
	if err == nil || !strings.HasPrefix(err.Error(), dir+"/perf.data: ") || strings.Contains(err.Error(), tempPrefix) {
		t.Errorf("error %v, want one that names %s/perf.data", err, dir)
	}
}
