package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/perfark/perfark/buildid"
)

// The forms of ~/.debug that perf, old perf, archives and GNU trees have.
func TestCacheForms(t *testing.T) {
	id := testID(0xab, 20)
	hex := id.String()
	elf := testELF{id: id, text: "the program", symtab: true}.bytes()
	debug := testELF{id: id, text: "the program", dwarf: true, debugOnly: true}.bytes()
	syms := []byte("0000000000000000 A fixed_percpu_data\nffffffff81000000 T _stext\n")
	vdso := testELF{id: id, text: "vdso code"}.bytes()
	tests := []struct {
		name  string
		build func(dir string)
		key   Key
		want  []byte
	}{
		{"link to directory", func(dir string) {
			write(t, dir+"/usr/bin/prog/"+hex+"/elf", elf)
			symlink(t, "../../usr/bin/prog/"+hex, dir+"/.build-id/ab/"+hex[2:])
		}, Key{ID: id, Kind: ELF, Path: "/somewhere/else"}, elf},
		{"link to file of old perf", func(dir string) {
			write(t, dir+"/usr/bin/prog/"+hex, elf)
			symlink(t, "../../usr/bin/prog/"+hex, dir+"/.build-id/ab/"+hex[2:])
		}, Key{ID: id, Kind: ELF, Path: "/usr/bin/prog"}, elf},
		{"kallsyms of old perf", func(dir string) {
			write(t, dir+"/[kernel.kallsyms]/"+hex, syms)
			symlink(t, "../../[kernel.kallsyms]/"+hex, dir+"/.build-id/ab/"+hex[2:])
		}, Key{ID: id, Kind: Kallsyms, Path: "[kernel.kallsyms]"}, syms},
		{"real directory", func(dir string) {
			write(t, dir+"/.build-id/ab/"+hex[2:]+"/elf", elf)
		}, Key{ID: id, Kind: ELF, Path: "/usr/bin/prog"}, elf},
		{"GNU tree", func(dir string) {
			write(t, dir+"/.build-id/ab/"+hex[2:]+".debug", debug)
		}, Key{ID: id, Kind: Debug, Path: "/usr/bin/prog"}, debug},
		{"debug companion", func(dir string) {
			write(t, dir+"/usr/bin/prog/"+hex+"/debug", debug)
			symlink(t, "../../usr/bin/prog/"+hex, dir+"/.build-id/ab/"+hex[2:])
		}, Key{ID: id, Kind: Debug}, debug},
		{"kallsyms behind the link of an image", func(dir string) {
			write(t, dir+"/boot/vmlinux/"+hex+"/elf", elf)
			write(t, dir+"/[kernel.kallsyms]/"+hex+"/kallsyms", syms)
			symlink(t, "../../boot/vmlinux/"+hex, dir+"/.build-id/ab/"+hex[2:])
		}, Key{ID: id, Kind: Kallsyms, Path: "[kernel.kallsyms]_text"}, syms},
		{"vdso", func(dir string) {
			write(t, dir+"/[vdso]/"+hex+"/vdso", vdso)
			symlink(t, "../../[vdso]/"+hex, dir+"/.build-id/ab/"+hex[2:])
		}, Key{ID: id, Kind: VDSO, Path: "[vdso]"}, vdso},
		{"path only, no link", func(dir string) {
			write(t, dir+"/usr/bin/prog/"+hex+"/elf", elf)
		}, Key{ID: id, Kind: ELF, Path: "/usr/bin/prog"}, elf},
		{"odd bytes in the path", func(dir string) { // B33
			write(t, dir+"/d ir (x)/a\nb\xff\xfe/"+hex+"/elf", elf)
		}, Key{ID: id, Kind: ELF, Path: "/d ir (x)/a\nb\xff\xfe"}, elf},
		{"path of a deleted file", func(dir string) { // C05
			write(t, dir+"/usr/bin/prog/"+hex+"/elf", elf)
		}, Key{ID: id, Kind: ELF, Path: "/usr/bin/prog (deleted)"}, elf},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			tt.build(dir)
			testSource(t, Cache(dir), tt.key, tt.want)
		})
	}
	testNone(t, Cache(filepath.Join(t.TempDir(), "absent")), Key{ID: id, Kind: ELF})
}

func testNone(t *testing.T, s Source, k Key, want ...Reason) {
	t.Helper()
	if got := refused(t, s, k); !slices.Equal(got, want) {
		t.Errorf("Get(%v): refused for %q, want %q", k, got, want)
	}
}

// Ids as perf cuts or pads them lead to the file that carries the true one.
func TestCacheIDLengths(t *testing.T) {
	for _, tt := range []struct {
		name         string
		inFile, asks buildid.ID
		dir          string // hex name in the tree
	}{
		{"8 bytes", testID(1, 8), testID(1, 8), strings.Repeat("01", 8)},
		{"16 bytes", testID(1, 16), testID(1, 16), strings.Repeat("01", 16)},
		{"16 bytes padded by old perf, tree too", testID(1, 16), testID(1, 16) + "\x00\x00\x00\x00", strings.Repeat("01", 16) + "00000000"},
		{"16 bytes padded by old perf, tree not", testID(1, 16), testID(1, 16) + "\x00\x00\x00\x00", strings.Repeat("01", 16)},
		{"16 bytes, tree padded", testID(1, 16), testID(1, 16), strings.Repeat("01", 16) + "00000000"},
		{"32 bytes cut by perf", testID(1, 32), testID(1, 20), strings.Repeat("01", 20)},
		{"32 bytes asked in full", testID(1, 32), testID(1, 32), strings.Repeat("01", 20)},
		{"32 bytes kept in full", testID(1, 32), testID(1, 32), strings.Repeat("01", 32)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			elf := testELF{id: tt.inFile, text: "x"}.bytes()
			write(t, dir+"/p/"+tt.dir+"/elf", elf)
			symlink(t, "../../p/"+tt.dir, dir+"/.build-id/"+tt.dir[:2]+"/"+tt.dir[2:])
			testSource(t, Cache(dir), Key{ID: tt.asks, Kind: ELF}, elf)
		})
	}
}

// A pipe is no cache, and nobody waits for who writes to it.
func TestCachePipe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "debug")
	if err := syscall.Mkfifo(dir, 0o666); err != nil {
		t.Fatal(err)
	}
	c := Cache(dir)
	if _, err := c.Get(t.Context(), Key{ID: testID(1, 20), Kind: ELF}); err == nil {
		t.Error("no error")
	}
	if _, err := c.List(t.Context()); err == nil || err.Error() != "open "+dir+": not a directory" {
		t.Error(err)
	}
}

func TestCacheRefuses(t *testing.T) {
	id := testID(0xab, 20)
	hexID := id.String()
	link := "/.build-id/ab/" + hexID[2:]
	good := testELF{id: id, text: "good"}.bytes()
	outside := write(t, t.TempDir()+"/elf", good)
	tests := []struct {
		name  string
		build func(dir string)
		key   Key
		want  []Reason
	}{
		{"bytes of another id", func(dir string) { // BUN-3, H3
			write(t, dir+"/p/"+hexID+"/elf", testELF{id: testID(0xcd, 20), text: "new"}.bytes())
			symlink(t, "../../p/"+hexID, dir+link)
		}, Key{ID: id, Kind: ELF}, []Reason{Replaced}},
		{"no id", func(dir string) {
			write(t, dir+link+"/elf", testELF{text: "new"}.bytes())
		}, Key{ID: id, Kind: ELF}, []Reason{NoID}},
		{"no object", func(dir string) {
			write(t, dir+link+"/elf", []byte("#!/bin/sh\n"))
		}, Key{ID: id, Kind: ELF}, []Reason{Malformed}},
		{"empty", func(dir string) {
			write(t, dir+link+"/elf", nil)
		}, Key{ID: id, Kind: ELF}, []Reason{NotRegular}},
		{"link to nowhere", func(dir string) { // B01
			symlink(t, "../../p/"+hexID, dir+link)
		}, Key{ID: id, Kind: ELF}, []Reason{Deleted}},
		{"link out of the tree", func(dir string) { // H11, X01
			symlink(t, "../../../"+filepath.Base(filepath.Dir(outside)), dir+link)
		}, Key{ID: id, Kind: ELF}, []Reason{NotRegular}},
		{"absolute link", func(dir string) { // X02
			write(t, dir+link+"/x", nil)
			symlink(t, outside, dir+link+"/elf")
		}, Key{ID: id, Kind: ELF}, []Reason{NotRegular}},
		{"FIFO", func(dir string) { // BUN-2, S4
			write(t, dir+link+"/x", nil)
			if err := syscall.Mkfifo(dir+link+"/elf", 0o600); err != nil {
				t.Skip(err)
			}
		}, Key{ID: id, Kind: ELF}, []Reason{NotRegular}},
		{"zero kallsyms", func(dir string) { // S12
			write(t, dir+link+"/kallsyms", []byte("0000000000000000 A fixed_percpu_data\n0000000000000000 T _stext\n0000000000000000 t x\t[mod]\n"))
		}, Key{ID: id, Kind: Kallsyms, Path: "[kernel.kallsyms]"}, []Reason{Restricted}},
		{"kallsyms of something else", func(dir string) {
			write(t, dir+link+"/kallsyms", []byte("hello\n"))
		}, Key{ID: id, Kind: Kallsyms}, []Reason{Malformed}},
		{"content of another hash", func(dir string) {
			write(t, dir+"/p/"+strings.Repeat("ab", 32)+"/elf", testELF{text: "x"}.bytes())
		}, Key{Kind: ELF, Path: "/p"}, []Reason{Replaced}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			tt.build(dir)
			testNone(t, Cache(dir), tt.key, tt.want...)
		})
	}
}

// B09, B07: what has no id is kept by its content and known by its path.
func TestCacheByHash(t *testing.T) {
	dir := t.TempDir()
	c := Cache(dir)
	prog := testELF{text: "go program"}.bytes()
	sum := sha256.Sum256(prog)
	src := write(t, t.TempDir()+"/prog", prog)
	k := Key{Kind: ELF, Path: "/srv/go prog"}
	f, err := openPath(src)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	res, err := c.Put(t.Context(), k, f, PutOptions{})
	if want := "srv/go prog/" + hex.EncodeToString(sum[:]) + "/elf"; err != nil || res.File != want || !res.Stored {
		t.Fatalf("Put: %+v, %v; want %s", res, err, want)
	}
	if _, err := os.Stat(dir + "/.build-id"); err == nil {
		t.Error("something without an id got a link")
	}
	testSource(t, c, k, prog)
	g, err := c.Get(t.Context(), k)
	if err != nil || !g.Unverified {
		t.Errorf("Get: %+v, %v; want an unverified file", g, err)
	}
	g.Close()
	if res, err = c.Put(t.Context(), k, f, PutOptions{}); err != nil || res.Stored {
		t.Errorf("Put again: %+v, %v", res, err)
	}
	// An all-zero id is none.
	if zero := buildid.New(make([]byte, 20)); zero != "" {
		t.Errorf("zero id is %q", zero)
	}
	// A second program without an id, at the same path: no telling.
	other := write(t, t.TempDir()+"/prog", testELF{text: "another"}.bytes())
	f2, err := openPath(other)
	if err != nil {
		t.Fatal(err)
	}
	defer f2.Close()
	if _, err := c.Put(t.Context(), k, f2, PutOptions{}); err != nil {
		t.Fatal(err)
	}
	testNone(t, c, k, Ambiguous)
}

func put(t testing.TB, c *BuildIDCache, k Key, b []byte, o PutOptions) (PutResult, error) {
	t.Helper()
	f, err := openPath(write(t, t.TempDir()+"/src", b))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return c.Put(t.Context(), k, f, o)
}

// B21: the best copy of an id wins, whatever the order.
func TestPutQuality(t *testing.T) {
	id := testID(0x21, 20)
	stripped := testELF{id: id, text: "code"}.bytes()
	symtab := testELF{id: id, text: "code", symtab: true}.bytes()
	full := testELF{id: id, text: "code", symtab: true, dwarf: true}.bytes()
	k := Key{ID: id, Kind: ELF, Path: "/bin/tool"}
	for _, order := range [][][]byte{{stripped, symtab, full}, {full, symtab, stripped}, {symtab, full, stripped}} {
		c := Cache(t.TempDir())
		for _, b := range order {
			if _, err := put(t, c, k, b, PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if got := contents(t, c, k); !bytes.Equal(got, full) {
			t.Errorf("%d bytes won, want the %d of the full one", len(got), len(full))
		}
	}
	// Under two paths: the link leads to the better, both paths answer with it.
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		c := Cache(t.TempDir())
		paths := []string{"/a/stripped", "/b/full"}
		for _, i := range order {
			k := Key{ID: id, Kind: ELF, Path: paths[i]}
			if _, err := put(t, c, k, [][]byte{stripped, full}[i], PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range []string{"", paths[0], paths[1]} {
			if got := contents(t, c, Key{ID: id, Kind: ELF, Path: p}); !bytes.Equal(got, full) {
				t.Errorf("order %v, path %q: not the full one", order, p)
			}
		}
	}
	// Update takes what it is given.
	c := Cache(t.TempDir())
	put(t, c, k, full, PutOptions{})
	if res, err := put(t, c, k, stripped, PutOptions{Update: true}); err != nil || !res.Stored {
		t.Errorf("update: %+v, %v", res, err)
	}
	if got := contents(t, c, k); !bytes.Equal(got, stripped) {
		t.Error("update did not take")
	}
}

// B19, B20: different programs of one id both stay, each for its own path, and
// who asks for neither is told.
func TestPutCollision(t *testing.T) {
	id := testID(0x11, 20)
	spin := testELF{id: id, text: "spin", symtab: true}.bytes()
	other := testELF{id: id, text: "zzz_wrong_function", symtab: true, dwarf: true}.bytes()
	c := Cache(t.TempDir())
	if _, err := put(t, c, Key{ID: id, Kind: ELF, Path: "/bin/other"}, other, PutOptions{}); err != nil {
		t.Fatal(err)
	}
	res, err := put(t, c, Key{ID: id, Kind: ELF, Path: "/bin/spin"}, spin, PutOptions{})
	if err != nil || res.Conflict != "bin/other/"+id.String() || res.Linked {
		t.Fatalf("Put: %+v, %v", res, err)
	}
	for p, want := range map[string][]byte{"/bin/spin": spin, "/bin/other": other} {
		if got := contents(t, c, Key{ID: id, Kind: ELF, Path: p}); !bytes.Equal(got, want) {
			t.Errorf("%s: the other program's bytes", p)
		}
	}
	_, err = put(t, c, Key{ID: id, Kind: ELF, Path: "/bin/other"}, spin, PutOptions{})
	if want := c.Dir() + "/bin/other/" + id.String() + "/elf: holds a different program with build id " + id.String(); err == nil || err.Error() != want {
		t.Errorf("Put over it: %v, want %s", err, want)
	}
	// Two sources, neither bound to the path: refused. One bound: that.
	dir := t.TempDir()
	write(t, dir+"/11/"+id.String()[2:], other)
	plain := Cache(t.TempDir())
	put(t, plain, Key{ID: id, Kind: ELF, Path: "/bin/spin"}, spin, PutOptions{})
	m := Multi(DebugDirs([]string{dir}), plain)
	testNone(t, m, Key{ID: id, Kind: ELF, Path: "/x"}, Ambiguous)
	if got := contents(t, m, Key{ID: id, Kind: ELF, Path: "/bin/spin"}); !bytes.Equal(got, spin) {
		t.Error("not the one bound to the path")
	}
}

// B18: one program under many paths is stored once and found by each.
func TestPutManyPaths(t *testing.T) {
	id := testID(0x18, 20)
	b := testELF{id: id, text: "spin", symtab: true}.bytes()
	c := Cache(t.TempDir())
	for _, p := range []string{"/opt/a", "/opt/b"} {
		if _, err := put(t, c, Key{ID: id, Kind: ELF, Path: p}, b, PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := c.List(t.Context())
	if err != nil || len(list) != 2 {
		t.Fatalf("List: %d entries, %v", len(list), err)
	}
	if n := TotalSize(list); n != int64(len(b)) {
		t.Errorf("takes %d bytes, want %d", n, len(b))
	}
	for _, p := range []string{"/opt/a", "/opt/b", "/opt/c"} {
		testSource(t, c, Key{ID: id, Kind: ELF, Path: p}, b)
	}
	// Removing the first path leaves the second reachable by id.
	if _, err := c.Remove(t.Context(), RemoveOptions{Path: "/opt/a"}); err != nil {
		t.Fatal(err)
	}
	testSource(t, c, Key{ID: id, Kind: ELF}, b)
	if _, err := os.Lstat(c.Dir() + "/opt/a"); err == nil {
		t.Error("/opt/a is still there")
	}
	if _, err := c.Remove(t.Context(), RemoveOptions{ID: id}); err != nil {
		t.Fatal(err)
	}
	if names, _ := os.ReadDir(c.Dir()); len(names) != 0 {
		t.Errorf("left behind: %v", names)
	}
}

func TestPutRefuses(t *testing.T) {
	id := testID(0xab, 20)
	k := Key{ID: id, Kind: ELF, Path: "/bin/prog"}
	good := testELF{id: id, text: "good"}.bytes()
	link := "/.build-id/ab/" + id.String()[2:]

	// Bytes of another id, or of none.
	for _, b := range [][]byte{testELF{id: testID(1, 20), text: "x"}.bytes(), testELF{text: "x"}.bytes(), []byte("text")} {
		c := Cache(t.TempDir())
		if _, err := put(t, c, k, b, PutOptions{}); len(Refusals(err)) != 1 {
			t.Errorf("Put: %v", err)
		}
		if names, _ := os.ReadDir(c.Dir()); len(names) != 0 {
			t.Errorf("left behind: %v", names)
		}
	}
	// Paths that have no place.
	for _, p := range []string{"", "/", "/..", "/.build-id/ab/cd", "/a\x00b", "/" + strings.Repeat("x", 256)} {
		if _, err := put(t, Cache(t.TempDir()), Key{ID: id, Kind: ELF, Path: p}, good, PutOptions{}); err == nil {
			t.Errorf("Put under %q succeeded", p)
		}
	}
	// REC-2, H11: planted links, wherever they are.
	for _, at := range []string{"/bin", "/bin/prog", "/bin/prog/" + id.String(), "/.build-id", "/.build-id/ab"} {
		dir, victim := t.TempDir(), t.TempDir()
		symlink(t, victim, dir+at)
		if _, err := put(t, Cache(dir), k, good, PutOptions{}); err == nil {
			t.Errorf("Put through a link at %s succeeded", at)
		}
		if names, _ := os.ReadDir(victim); len(names) != 0 {
			t.Errorf("link at %s: written through it: %v", at, names)
		}
	}
	// A link in the place of the file, or of the id's link, is replaced.
	dir := t.TempDir()
	victim := write(t, t.TempDir()+"/victim", []byte("mine"))
	symlink(t, victim, dir+"/bin/prog/"+id.String()+"/elf")
	symlink(t, filepath.Dir(victim), dir+link)
	if _, err := put(t, Cache(dir), k, good, PutOptions{}); err != nil {
		t.Error(err)
	}
	if b, _ := os.ReadFile(victim); string(b) != "mine" {
		t.Error("written through the link")
	}
	testSource(t, Cache(dir), Key{ID: id, Kind: ELF}, good)
	// A directory of somebody else, or open to all.
	for _, spoil := range []func(string) error{
		func(d string) error { return os.Chmod(d, 0o777) },
		func(d string) error { return os.Chown(d, 12345, -1) },
	} {
		dir := t.TempDir()
		if err := spoil(dir); err != nil {
			continue // not root
		}
		if os.Geteuid() == 12345 {
			continue
		}
		if _, err := put(t, Cache(dir), k, good, PutOptions{}); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("Put: %v, want a refusal", err)
		}
		if _, err := put(t, Cache(dir), k, good, PutOptions{Force: true}); err != nil {
			t.Errorf("Put with Force: %v", err)
		}
	}
}

// Old perf's file, and a real directory, are replaced by a link as of today.
func TestPutOldForms(t *testing.T) {
	id := testID(0xab, 20)
	k := Key{ID: id, Kind: ELF, Path: "/bin/prog"}
	stripped := testELF{id: id, text: "good"}.bytes()
	full := testELF{id: id, text: "good", symtab: true}.bytes()
	debug := testELF{id: id, text: "good", dwarf: true, debugOnly: true}.bytes()
	link := "/.build-id/ab/" + id.String()[2:]
	for name, build := range map[string]func(dir string){
		"file":      func(dir string) { write(t, dir+link, stripped) },
		"dangling":  func(dir string) { symlink(t, "../../gone/"+id.String(), dir+link) },
		"directory": func(dir string) { write(t, dir+link+"/elf", stripped); write(t, dir+link+"/debug", debug) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			build(dir)
			res, err := put(t, Cache(dir), k, full, PutOptions{})
			if err != nil || !res.Linked {
				t.Fatalf("Put: %+v, %v", res, err)
			}
			if text, err := os.Readlink(dir + link); err != nil || text != "../../bin/prog/"+id.String() {
				t.Errorf("link: %q, %v", text, err)
			}
			testSource(t, Cache(dir), k, full)
			if name == "directory" {
				testSource(t, Cache(dir), Key{ID: id, Kind: Debug}, debug)
			}
		})
	}
}

// BUN-5: a copy is no more open than its original, and kernel addresses are
// the owner's.
func TestPutModes(t *testing.T) {
	id := testID(0xab, 20)
	b := testELF{id: id, text: "x"}.bytes()
	c := Cache(t.TempDir())
	for _, tt := range []struct {
		kind Kind
		in   os.FileMode
		want os.FileMode
	}{{ELF, 0o755 | os.ModeSetuid, 0o755}, {Debug, 0o644, 0o644}, {VDSO, 0o755, 0o600}} {
		src := write(t, t.TempDir()+"/src", b)
		if err := os.Chmod(src, tt.in); err != nil {
			t.Fatal(err)
		}
		f, err := openPath(src)
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.Put(t.Context(), Key{ID: id, Kind: tt.kind, Path: "/m"}, f, PutOptions{})
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		if fi, err := os.Stat(filepath.Join(c.Dir(), res.File)); err != nil || fi.Mode() != tt.want {
			t.Errorf("%s: mode %v, want %v", tt.kind, fi.Mode(), tt.want)
		}
	}
}

// TestCacheJITDump: a jitdump that an archive brought is that of its process, if
// there is one only.
func TestCacheJITDump(t *testing.T) {
	c := Cache(t.TempDir())
	write(t, c.Dir()+"/.perfark/jit/12-0123456789abcdef.dump", []byte("JiTD"))
	f, err := c.Get(t.Context(), Key{Kind: JITDump, PID: 12, Path: "/tmp/jit-1.dump"})
	if err != nil || !f.Unverified || f.Size != 4 {
		t.Fatalf("%+v, %v", f, err)
	}
	f.Close()
	testNone(t, c, Key{Kind: JITDump, PID: 1, Path: "/tmp/jit-1.dump"})
	write(t, c.Dir()+"/.perfark/jit/12-0123456789abcdee.dump", []byte("JiTD, another"))
	testNone(t, c, Key{Kind: JITDump, PID: 12, Path: "/tmp/jit-1.dump"}, Ambiguous)
}
