package store

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
)

// TestAltlink: the file of dwz is found by its id, by a path relative to the
// real place of the file that names it, and by an absolute path; never by a
// path alone (S34, S36).
func TestAltlink(t *testing.T) {
	id, alt := testID(0xab, 20), testID(0xcd, 20)
	common := testELF{id: alt, text: "", dwarf: true, debugOnly: true}.bytes()
	wrong := testELF{id: id, text: "x", dwarf: true, debugOnly: true}.bytes()
	for _, tt := range []struct {
		name string
		at   string // below the debug directory
		link string // as in the file; DIR is the debug directory
		b    []byte
		via  string // where the debug file really is, if the tree of ids has a link
		ok   bool
	}{
		{name: "by id", at: ".build-id/cd/" + alt.String()[2:] + ".debug", link: "nowhere", b: common, ok: true},
		{name: "relative", at: ".dwz/x86_64-linux-gnu/prog.debug", link: "../../.dwz/x86_64-linux-gnu/prog.debug", b: common, ok: true},
		{name: "relative to the real place", at: ".dwz/prog.debug", link: "../../.dwz/prog.debug", b: common, via: "usr/bin/prog.debug", ok: true},
		{name: "absolute", at: "elsewhere/common.debug", link: "DIR/elsewhere/common.debug", b: common, ok: true},
		{name: "absolute, moved with its tree", at: ".dwz/prog.debug", link: "/usr/lib/debug/.dwz/prog.debug", b: common, ok: true},
		{name: "wrong id", at: ".dwz/prog.debug", link: "../../.dwz/prog.debug", b: wrong},
		{name: "missing", at: "other", link: "../../.dwz/prog.debug", b: common},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			at := filepath.Join(dir, ".build-id/ab", id.String()[2:]+".debug")
			if tt.via != "" {
				write(t, filepath.Join(dir, tt.via), testELF{id: id, text: "code", dwarf: true, debugOnly: true}.bytes())
				symlink(t, "../../"+tt.via, at)
			} else {
				write(t, at, testELF{id: id, text: "code", dwarf: true, debugOnly: true}.bytes())
			}
			write(t, filepath.Join(dir, tt.at), tt.b)
			src := Multi(DebugDirs([]string{dir}), Host(HostOptions{}))
			f, err := src.Get(t.Context(), Key{ID: id, Kind: Debug, Path: "/usr/bin/prog"})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			link := tt.link
			if rest, ok := cutDir(link); ok {
				link = filepath.Join(dir, rest)
			}
			g, err := Altlink(t.Context(), src, f, "/usr/bin/prog", link, alt)
			if (err == nil) != tt.ok {
				t.Fatalf("error %v, want it found: %v", err, tt.ok)
			}
			if err != nil {
				if !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("error %v, want one of a file that is not there", err)
				}
				return
			}
			defer g.Close()
			if g.Size != int64(len(common)) {
				t.Errorf("%s has %d bytes", g.Origin, g.Size)
			}
		})
	}
}

func cutDir(s string) (string, bool) {
	if len(s) > 3 && s[:4] == "DIR/" {
		return s[4:], true
	}
	return "", false
}

// TestSplitAndIndex: files of split DWARF are asked for by path; indexes by
// id, beside the object.
func TestSplitAndIndex(t *testing.T) {
	dir := t.TempDir()
	dwo := testELF{text: "dwo", dwarf: true}.bytes()
	at := write(t, filepath.Join(dir, "obj/a.dwo"), dwo)
	testSource(t, Host(HostOptions{}), Key{Kind: Split, Path: at}, dwo)
	testNone(t, Host(HostOptions{}), Key{Kind: Split, Path: filepath.Join(dir, "obj")}, NotRegular)

	cache := Cache(filepath.Join(dir, "debug"))
	if _, err := cache.Put(t.Context(), Key{Kind: ELF, Path: at}, memFile(dwo, "dwo"), PutOptions{}); err != nil {
		t.Fatal(err)
	}
	testSource(t, cache, Key{Kind: Split, Path: at}, dwo)

	id := testID(0xab, 20)
	elf := testELF{id: id, text: "code"}.bytes()
	if _, err := cache.Put(t.Context(), Key{ID: id, Kind: ELF, Path: "/bin/prog"}, memFile(elf, "elf"), PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cache.Put(t.Context(), Key{ID: id, Kind: Index, Path: "/bin/prog"}, memFile([]byte("index"), "index"), PutOptions{}); err != nil {
		t.Fatal(err)
	}
	testSource(t, cache, Key{ID: id, Kind: Index}, []byte("index"))
}
