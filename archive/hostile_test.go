package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/perfark/perfark/store"
)

// A tarMaker writes tars that no tar would write.
type tarMaker struct{ b bytes.Buffer }

// entry adds an entry; change may spoil its header, whose checksum is made
// anew then.
func (m *tarMaker) entry(h tar.Header, body string, change func([]byte)) *tarMaker {
	if h.Mode == 0 {
		h.Mode = 0o644
	}
	if h.Typeflag == 0 {
		h.Typeflag = tar.TypeReg
	}
	if h.Typeflag == tar.TypeReg && h.Size == 0 {
		h.Size = int64(len(body))
	}
	var b bytes.Buffer
	if err := tar.NewWriter(&b).WriteHeader(&h); err != nil {
		panic(err)
	}
	if change != nil {
		last := b.Bytes()[b.Len()-blockSize:]
		change(last)
		resum(last)
	}
	m.b.Write(b.Bytes())
	return m.body(body)
}

func (m *tarMaker) body(s string) *tarMaker {
	m.b.WriteString(s)
	m.b.Write(make([]byte, -len(s)&(blockSize-1)))
	return m
}

// raw adds a header block of the given type, with contents.
func (m *tarMaker) raw(typ byte, name, body string) *tarMaker {
	return m.entry(tar.Header{Name: name, Size: int64(len(body))}, body, func(h []byte) { h[156] = typ })
}

func (m *tarMaker) end() []byte {
	m.b.Write(make([]byte, 2*blockSize))
	return m.b.Bytes()
}

func resum(h []byte) {
	copy(h[148:156], "        ")
	var sum int
	for _, c := range h[:blockSize] {
		sum += int(c)
	}
	copy(h[148:156], fmt.Sprintf("%06o\x00 ", sum))
}

// pax makes records of a PAX header.
func pax(kv ...string) string {
	var b strings.Builder
	for i := 0; i < len(kv); i += 2 {
		rec := " " + kv[i] + "=" + kv[i+1] + "\n"
		n := len(rec) + 1
		for len(fmt.Sprint(n))+len(rec) != n {
			n++
		}
		fmt.Fprintf(&b, "%d%s", n, rec)
	}
	return b.String()
}

// good is an entry that has a place.
func good(m *tarMaker) *tarMaker {
	id := testID(1)
	link, target := LinkName(id, "bin/good/"+id.String()+"/elf")
	m.entry(tar.Header{Name: link, Linkname: target, Typeflag: tar.TypeSymlink}, "", nil)
	return m.entry(tar.Header{Name: "bin/good/" + id.String() + "/elf"}, string(elfWith(id, "good")), nil)
}

// object is the name of a file that has a place.
func object(n int) string { return fmt.Sprintf("bin/x%d/%s/elf", n, testID(n)) }

// hostile are archives that must be refused before anything is written. Each
// begins with a good object.
func hostile() map[string][]byte {
	id := testID(2).String()
	link := func(name, to string) tar.Header {
		return tar.Header{Name: name, Linkname: to, Typeflag: tar.TypeSymlink}
	}
	hard := func(name, to string) tar.Header {
		return tar.Header{Name: name, Linkname: to, Typeflag: tar.TypeLink}
	}
	x := map[string]func(m *tarMaker){
		"t01 dot dot":           func(m *tarMaker) { m.entry(tar.Header{Name: "../evil"}, "x", nil) },
		"t01 dot dot inside":    func(m *tarMaker) { m.entry(tar.Header{Name: "bin/../../evil/" + id + "/elf"}, "x", nil) },
		"t02 absolute":          func(m *tarMaker) { m.entry(tar.Header{Name: "/tmp/evil/" + id + "/elf"}, "x", nil) },
		"t03 symlink then file": func(m *tarMaker) { m.entry(link("d", "/tmp"), "", nil).entry(tar.Header{Name: "d/evil"}, "x", nil) },
		"t04 absolute symlink":  func(m *tarMaker) { m.entry(link(".build-id/ab/cd", "/etc"), "", nil) },
		"t05 symlink, same name": func(m *tarMaker) {
			m.entry(link(object(2), "/tmp/evil"), "", nil).entry(tar.Header{Name: object(2)}, "x", nil)
		},
		"t06 hard link outside": func(m *tarMaker) { m.entry(hard(object(2), "/etc/hostname"), "", nil) },
		"t06 hard link, write": func(m *tarMaker) {
			m.entry(hard(object(2), "../evil"), "", nil).entry(tar.Header{Name: object(2)}, "x", nil)
		},
		"t07 hard link via symlink": func(m *tarMaker) { m.entry(link("l", "/etc"), "", nil).entry(hard(object(2), "l/hostname"), "", nil) },
		"t08 link chain": func(m *tarMaker) {
			m.entry(link("a", "."), "", nil).entry(link("a/b", ".."), "", nil).entry(tar.Header{Name: "a/b/evil"}, "x", nil)
		},
		"t09 FIFO":   func(m *tarMaker) { m.entry(tar.Header{Name: object(2), Typeflag: tar.TypeFifo}, "", nil) },
		"t10 device": func(m *tarMaker) { m.entry(tar.Header{Name: object(2), Typeflag: tar.TypeChar, Devmajor: 1}, "", nil) },
		"t12 directory over symlink": func(m *tarMaker) {
			m.entry(link("bin/x", "/tmp"), "", nil).entry(tar.Header{Name: "bin/x/", Typeflag: tar.TypeDir}, "", nil)
		},
		"t13 id to outside": func(m *tarMaker) { m.entry(link(".build-id/"+id[:2]+"/"+id[2:], "../../../../etc/"+id), "", nil) },
		"t13 id to another": func(m *tarMaker) {
			m.entry(link(".build-id/"+id[:2]+"/"+id[2:], "../../bin/good/"+testID(1).String()), "", nil)
		},
		"t13 id into links": func(m *tarMaker) { m.entry(link(".build-id/"+id[:2]+"/"+id[2:], "../../.build-id/"+id), "", nil) },
		"T15 two sizes": func(m *tarMaker) {
			m.raw('x', "x", pax("size", "3")).entry(tar.Header{Name: object(2)}, "0123456789", nil)
		},
		"T15 x then L": func(m *tarMaker) {
			m.raw('x', "x", pax("path", "a")).raw('L', "L", object(2)+"\x00").entry(tar.Header{Name: "b"}, "x", nil)
		},
		"T15 L then x": func(m *tarMaker) {
			m.raw('L', "L", object(2)+"\x00").raw('x', "x", pax("path", "a")).entry(tar.Header{Name: "b"}, "x", nil)
		},
		"T15 two L": func(m *tarMaker) {
			m.raw('L', "L", "a\x00").raw('L', "L", object(2)+"\x00").entry(tar.Header{Name: "b"}, "x", nil)
		},
		"T15 path twice": func(m *tarMaker) {
			m.raw('x', "x", pax("path", "a", "path", object(2))).entry(tar.Header{Name: "b"}, "x", nil)
		},
		"T16 long component": func(m *tarMaker) {
			m.raw('x', "x", pax("path", strings.Repeat("a", 256)+"/"+id+"/elf")).entry(tar.Header{Name: "b"}, "x", nil)
		},
		"T16 long name": func(m *tarMaker) {
			m.raw('x', "x", pax("path", strings.Repeat("a/", 2100)+id+"/elf")).entry(tar.Header{Name: "b"}, "x", nil)
		},
		"T16 empty name":  func(m *tarMaker) { m.entry(tar.Header{Name: "b"}, "x", func(h []byte) { clear(h[:100]) }) },
		"T16 dot":         func(m *tarMaker) { m.entry(tar.Header{Name: "."}, "x", nil) },
		"T16 leading dot": func(m *tarMaker) { m.entry(tar.Header{Name: "./" + object(2)}, "x", nil) },
		"T16 double slash": func(m *tarMaker) {
			m.entry(tar.Header{Name: "b"}, "x", func(h []byte) { copy(h, "bin//x/"+id+"/elf\x00") })
		},
		"T16 slash after a file": func(m *tarMaker) { m.raw('x', "x", pax("path", object(2)+"/")).entry(tar.Header{Name: "b"}, "x", nil) },
		"T16 slash after a link": func(m *tarMaker) {
			m.raw('x', "x", pax("path", ".build-id/ab/cd/")).entry(link("l", "../../bin/abcd"), "", nil)
		},
		"T16 NUL in a path": func(m *tarMaker) {
			m.raw('x', "x", pax("path", object(2)+"\x00/x")).entry(tar.Header{Name: "b"}, "x", nil)
		},
		"T17 duplicate": func(m *tarMaker) {
			m.entry(tar.Header{Name: object(2)}, "x", nil).entry(tar.Header{Name: object(2)}, "y", nil)
		},
		"T17 duplicate, two sizes": func(m *tarMaker) {
			m.entry(tar.Header{Name: object(2)}, "x", nil).entry(tar.Header{Name: object(2)}, "yy", nil)
		},
		"T17 file then directory": func(m *tarMaker) {
			m.entry(tar.Header{Name: object(2)}, "x", nil).entry(tar.Header{Name: object(2) + "/a/" + id + "/elf"}, "y", nil)
		},
		"T17 directory then file": func(m *tarMaker) {
			m.entry(tar.Header{Name: object(2) + "/a/" + id + "/elf"}, "y", nil).entry(tar.Header{Name: object(2)}, "x", nil)
		},
		"T18 8 EiB": func(m *tarMaker) {
			m.entry(tar.Header{Name: object(2)}, "x", func(h []byte) { copy(h[124:136], "\x80\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff") })
		},
		"T18 negative size": func(m *tarMaker) {
			m.entry(tar.Header{Name: object(2)}, "x", func(h []byte) { copy(h[124:136], strings.Repeat("\xff", 12)) })
		},
		"T18 size not octal": func(m *tarMaker) {
			m.entry(tar.Header{Name: object(2)}, "x", func(h []byte) { copy(h[124:136], "-0000000001\x00") })
		},
		"T19 GNU sparse": func(m *tarMaker) { m.raw('S', object(2), "x") },
		"T19 PAX sparse": func(m *tarMaker) {
			m.raw('x', "x", pax("GNU.sparse.major", "1", "GNU.sparse.minor", "0")).entry(tar.Header{Name: object(2)}, "x", nil)
		},
		"T20 large PAX": func(m *tarMaker) {
			m.raw('x', "x", pax("comment", strings.Repeat("x", 1<<20))).entry(tar.Header{Name: object(2)}, "x", nil)
		},
		"T20 global header":    func(m *tarMaker) { m.raw('g', "g", pax("path", "evil")).entry(tar.Header{Name: object(2)}, "x", nil) },
		"T20 empty PAX":        func(m *tarMaker) { m.raw('x', "x", "").entry(tar.Header{Name: object(2)}, "x", nil) },
		"T20 wrong PAX length": func(m *tarMaker) { m.raw('x', "x", "99 path=a\n").entry(tar.Header{Name: object(2)}, "x", nil) },
		"T20 PAX at the end":   func(m *tarMaker) { m.raw('x', "x", pax("path", "a")) },
		"T20 mtime":            func(m *tarMaker) { m.raw('x', "x", pax("mtime", "9e99")).entry(tar.Header{Name: object(2)}, "x", nil) },
		"T21 checksum": func(m *tarMaker) {
			m.entry(tar.Header{Name: object(2)}, "x", nil)
			b := m.b.Bytes()
			b[len(b)-2*blockSize]++
		},
		"no place":            func(m *tarMaker) { m.entry(tar.Header{Name: "README"}, "x", nil) },
		"no place, ssh":       func(m *tarMaker) { m.entry(tar.Header{Name: ".ssh/authorized_keys"}, "x", nil) },
		"no place, id":        func(m *tarMaker) { m.entry(tar.Header{Name: "bin/x/ABCD/elf"}, "x", nil) },
		"no place, kind":      func(m *tarMaker) { m.entry(tar.Header{Name: "bin/x/" + id + "/evil"}, "x", nil) },
		"no place, in links":  func(m *tarMaker) { m.entry(tar.Header{Name: ".build-id/ab/" + id + "/elf"}, "x", nil) },
		"no place, in own":    func(m *tarMaker) { m.entry(tar.Header{Name: ".perfark/x/" + id + "/elf"}, "x", nil) },
		"no place, temporary": func(m *tarMaker) { m.entry(tar.Header{Name: tempPrefix + "x"}, "x", nil) },
		"X01 link, then pwned": func(m *tarMaker) {
			m.entry(link(".build-id/aa", "/tmp/outside"), "", nil).entry(tar.Header{Name: ".build-id/aa/pwned"}, "x", nil)
		},
		"X03 ../../e symlink": func(m *tarMaker) { m.entry(link("../../e", "x"), "", nil) },
		"X03 PAX path override": func(m *tarMaker) {
			m.raw('x', "x", pax("path", "../evil")).entry(tar.Header{Name: object(2)}, "x", nil)
		},
		"X05 nested archive":   func(m *tarMaker) { m.entry(tar.Header{Name: "inner.tar.bz2"}, "BZh9", nil) },
		"X05 nested bundle":    func(m *tarMaker) { m.entry(tar.Header{Name: "MANIFEST.json"}, "{}", nil) },
		"manifest, other name": func(m *tarMaker) { m.entry(tar.Header{Name: ".perfark/0123456789abcdef.json"}, `{"version":1}`, nil) },
	}
	out := map[string][]byte{}
	for name, f := range x {
		var m tarMaker
		good(&m)
		f(&m)
		out[name] = m.end()
	}
	var m tarMaker
	base := good(&m).end()
	add := func(name string, b []byte) { out[name] = b }
	add("UNP-5 trailing garbage", append(bytes.Clone(base), "garbage"...))
	add("UNP-5 concatenated", append(bytes.Clone(base), base...))
	add("T21 magic", func() []byte { b := bytes.Clone(base); copy(b[257:], "nstar"); resum(b); return b }())
	add("no end mark", base[:len(base)-2*blockSize])
	add("one end block", base[:len(base)-blockSize])
	add("empty", nil)
	add("text", []byte("hello\n"))
	return out
}

// TestHostile (UNP-1, X01 to X03, X05, T01 to T21): nothing is written, nothing
// outside has changed.
func TestHostile(t *testing.T) {
	for name, b := range hostile() {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			o := UnpackOptions{Dir: filepath.Join(dir, "tree"), DataDir: dir}
			u, err := Unpack(t.Context(), bytes.NewReader(b), o)
			if err == nil || u != nil {
				t.Errorf("%+v, no error", u)
			}
			if s := stateOf(t, dir); strings.Count(s, "\n") != 1 {
				t.Errorf("error %v, but written:\n%s", err, s)
			}
			if _, err := New(t.Context(), bytes.NewReader(b), int64(len(b)), "x", OpenOptions{}); err == nil {
				t.Error("Open: no error")
			}
		})
	}
}

// TestErrors fixes some of the messages.
func TestErrors(t *testing.T) {
	x := hostile()
	for name, want := range map[string]string{
		"t01 dot dot":          `entry 3: name "../evil" has a component ".."`,
		"t09 FIFO":             `entry 3: offset 0x600: "` + object(2) + `": a FIFO; only files, directories and links are allowed`,
		"t04 absolute symlink": `entry ".build-id/ab/cd": a link to "/etc", want ../../<path>/abcd`,
		"T15 two sizes":        `entry 3: offset 0x600: "` + object(2) + `": size 10 in the header, but 3 in the extended header`,
		"no place":             `entry "README": has no place in a ~/.debug tree: want <path>/<id>/elf, debug, kallsyms, vdso, index, source`,
		"no end mark":          `entry 3: offset 0x600: cut off: a header wanted, but only 0 bytes follow`,
		"text":                 `not an archive: begins with "hello\n"`,
		"empty":                `not an archive: begins with ""`,
	} {
		b := x[name]
		_, err := New(t.Context(), bytes.NewReader(b), int64(len(b)), "x", OpenOptions{})
		if err == nil || err.Error() != want {
			t.Errorf("%s: error %q\nwant %q", name, err, want)
		}
	}
}

// TestModes (t11, X03, UNP-6): modes and owners of the archive do not matter.
func TestModes(t *testing.T) {
	var m tarMaker
	id := testID(2)
	m.entry(tar.Header{Name: "bin/x2/", Typeflag: tar.TypeDir, Mode: 0o1777, Uid: 77}, "", func(h []byte) { copy(h[100:108], "0000000\x00") })
	m.entry(tar.Header{Name: object(2), Mode: 0o6755, Uid: 77, Gid: 77}, string(elfWith(id, "")), nil)
	_, dir, err := unpack(t, m.end(), UnpackOptions{})
	if err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(filepath.Join(dir, "debug", object(2)))
	if err != nil || fi.Mode() != 0o644 {
		t.Errorf("%v %v", fi, err)
	}
	fi, err = os.Stat(filepath.Join(dir, "debug", "bin/x2"))
	if err != nil || fi.Mode().Perm() != 0o755 || fi.Mode()&os.ModeSticky != 0 {
		t.Errorf("%v %v", fi.Mode(), err)
	}
}

// TestTwoArchives (t14): a link of the first does not lead the second outside.
func TestTwoArchives(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(dir, "outside")
	os.Mkdir(outside, 0o755)
	var a, b tarMaker
	good(&a).entry(tar.Header{Name: "bin/x2", Linkname: outside, Typeflag: tar.TypeSymlink}, "", nil)
	good(&b).entry(tar.Header{Name: object(2)}, string(elfWith(testID(2), "")), nil)
	o := UnpackOptions{Dir: filepath.Join(dir, "tree"), DataDir: dir}
	if _, err := Unpack(t.Context(), bytes.NewReader(a.end()), o); err == nil {
		t.Error("first: no error")
	}
	// As GNU tar would have left it:
	os.MkdirAll(filepath.Join(o.Dir, "bin"), 0o755)
	os.Symlink(outside, filepath.Join(o.Dir, "bin/x2"))
	u, err := Unpack(t.Context(), bytes.NewReader(b.end()), o)
	if err != nil || refused(u) != 1 {
		t.Errorf("second: %+v %v", u, err)
	}
	if s := stateOf(t, outside); strings.Count(s, "\n") != 1 {
		t.Errorf("written outside:\n%s", s)
	}
}

// TestCaseFold (T17): names that differ in case are different names.
func TestCaseFold(t *testing.T) {
	var m tarMaker
	for i, name := range []string{"bin/App", "bin/app", "bin/\u00e4", "bin/a\u0308"} {
		m.entry(tar.Header{Name: fmt.Sprintf("%s/%s/elf", name, testID(i))}, string(elfWith(testID(i), name)), nil)
	}
	u, _, err := unpack(t, m.end(), UnpackOptions{})
	if err != nil || refused(u) != 0 || len(u.Files) != 4 {
		t.Errorf("%+v %v", u, err)
	}
}

// TestManyEntries (T18, UNP-4): the number of entries is bounded.
func TestManyEntries(t *testing.T) {
	var m tarMaker
	for i := range 1001 {
		m.entry(tar.Header{Name: fmt.Sprintf("d%d/", i), Typeflag: tar.TypeDir}, "", nil)
	}
	_, _, err := unpack(t, m.end(), UnpackOptions{Limits: Limits{MaxFiles: 1000}})
	if want := "more than 1000 entries; raise the limit with --max-files"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error %v, want ... %s", err, want)
	}
	deep := strings.Repeat("d/", 1001) + testID(1).String() + "/elf"
	_, _, err = unpack(t, new(tarMaker).entry(tar.Header{Name: deep}, "x", nil).end(), UnpackOptions{Limits: Limits{MaxFiles: 1000}})
	if want := "more than 1000 directories; raise the limit with --max-files"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error %v, want ... %s", err, want)
	}
	_, _, err = unpack(t, good(new(tarMaker)).end(), UnpackOptions{Limits: Limits{MaxBytes: 10}})
	if want := "more than 10 bytes; raise the limit with --max-bytes"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error %v, want ... %s", err, want)
	}
}

// TestCut (T22, C7): cut at any place, nothing is written.
func TestCut(t *testing.T) {
	p := newPacked()
	p.object(Object{ID: testID(1), Kind: "file", Paths: []Name{"/bin/a"}}).file(store.ELF, elfWith(testID(1), "x"))
	for _, f := range allFormats {
		b := p.encode(t, EncodeOptions{Format: f})
		step := 7
		if f == Tar {
			step = blockSize / 2
		}
		if testing.Short() {
			step *= 5
		}
		for n := 0; n < len(b); n += step {
			if c := b[n:]; len(c) > 4 && binary.LittleEndian.Uint32(c) == skippableMagic {
				continue // only the seek table is cut off
			}
			dir := t.TempDir()
			_, err := Unpack(t.Context(), bytes.NewReader(b[:n]), UnpackOptions{Dir: filepath.Join(dir, "tree"), DataDir: dir})
			if err == nil {
				t.Fatalf("%v cut at %d of %d: no error", f, n, len(b))
			}
			if s := stateOf(t, dir); strings.Count(s, "\n") != 1 {
				t.Fatalf("%v cut at %d: error %v, but written:\n%s", f, n, err, s)
			}
		}
	}
}

// TestFlipped (C7): a flipped bit never gives other bytes under a name.
func TestFlipped(t *testing.T) {
	p := newPacked()
	id := testID(1)
	want := elfWith(id, "some more text, some more text")
	p.object(Object{ID: id, Kind: "file", Paths: []Name{"/bin/a"}}).file(store.ELF, want)
	for _, f := range allFormats {
		b := p.encode(t, EncodeOptions{Format: f})
		step := 61
		if testing.Short() {
			step = 301
		}
		for n := 0; n < len(b)*8; n += step {
			c := bytes.Clone(b)
			c[n/8] ^= 1 << (n % 8)
			dir := t.TempDir()
			tree := filepath.Join(dir, "tree")
			Unpack(t.Context(), bytes.NewReader(c), UnpackOptions{Dir: tree, DataDir: dir})
			got, err := os.ReadFile(filepath.Join(tree, "bin/a", id.String(), "elf"))
			if err == nil && !bytes.Equal(got, want) {
				t.Fatalf("%v, bit %d: other bytes", f, n)
			}
		}
	}
}

// TestBombs (C1 to C4, C6, C10): stopped by the ratio, with the option named.
func TestBombs(t *testing.T) {
	zeros := make([]byte, 1<<20)
	const size = 20
	var gz bytes.Buffer
	g := gzip.NewWriter(&gz)
	for range size {
		g.Write(zeros)
	}
	g.Close()
	var zs bytes.Buffer
	z, _ := zstd.NewWriter(&zs)
	for range size {
		z.Write(zeros)
	}
	z.Close()
	bombs := map[string][]byte{"C1 gzip": gz.Bytes(), "C3 zstd": zs.Bytes()}
	for name, tool := range map[string]string{"C2 xz": "xz", "C4 bzip2": "bzip2"} {
		cmd := exec.Command("sh", "-c", fmt.Sprintf("head -c %dM /dev/zero | %s -c", size, tool))
		if b, err := cmd.Output(); err == nil && len(b) > 0 {
			bombs[name] = b
		}
	}
	// One that the seek table declares.
	p := newPacked()
	p.object(Object{ID: testID(1), Kind: "file", Paths: []Name{"/bin/a"}}).file(store.ELF, make([]byte, size<<20))
	bombs["C10 bundle"] = p.encode(t, EncodeOptions{Format: Bundle})
	for name, b := range bombs {
		start := time.Now()
		_, err := New(t.Context(), bytes.NewReader(b), int64(len(b)), "x", OpenOptions{})
		if err == nil || !strings.Contains(err.Error(), "--max-ratio") {
			t.Errorf("%s, %d bytes: error %v, want one that names --max-ratio", name, len(b), err)
		}
		_, err = New(t.Context(), bytes.NewReader(b), int64(len(b)), "x", OpenOptions{Limits: Limits{MaxRatio: 1 << 30, MaxBytes: 18 << 20}})
		if err == nil || !strings.Contains(err.Error(), "--max-bytes") {
			t.Errorf("%s: error %v, want one that names --max-bytes", name, err)
		}
		t.Logf("%s: %d bytes, %v", name, len(b), time.Since(start))
	}
	// C6: only one layer is unpacked.
	var twice bytes.Buffer
	g = gzip.NewWriter(&twice)
	g.Write(gz.Bytes())
	g.Close()
	if _, err := New(t.Context(), bytes.NewReader(twice.Bytes()), int64(twice.Len()), "x", OpenOptions{}); err == nil {
		t.Error("C6: no error")
	}
	// C2, C3: windows of gigabytes.
	lzma := append([]byte("\x5d\xff\xff\xff\xff"), make([]byte, 100)...)
	frame := append([]byte("\x28\xb5\x2f\xfd\x00\xf8"), make([]byte, 100)...) // window 2^41
	for name, b := range map[string][]byte{"lzma": lzma, "zstd window": frame} {
		if _, err := New(t.Context(), bytes.NewReader(b), int64(len(b)), "x", OpenOptions{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestSeekTable (C5): tables that lie.
func TestSeekTable(t *testing.T) {
	p := newPacked()
	p.object(Object{ID: testID(1), Kind: "file", Paths: []Name{"/bin/a"}}).file(store.ELF, elfWith(testID(1), "x"))
	b := p.encode(t, EncodeOptions{Format: Bundle})
	frames, size, err := readSeekTable(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, f := range frames {
		sum += int64(f.outSize)
	}
	if sum != size || len(frames) < 4 {
		t.Errorf("%d frames of %d bytes, size %d", len(frames), sum, size)
	}
	table := len(b) - 9 - 8*len(frames) - 8
	for name, change := range map[string]func(b []byte){
		"count":         func(b []byte) { binary.LittleEndian.PutUint32(b[len(b)-9:], 1<<31) },
		"count + 1":     func(b []byte) { binary.LittleEndian.PutUint32(b[len(b)-9:], uint32(len(frames)+1)) },
		"reserved":      func(b []byte) { b[len(b)-5] = 4 },
		"checksums":     func(b []byte) { b[len(b)-5] = 0x80 },
		"magic":         func(b []byte) { b[table]++ },
		"size":          func(b []byte) { b[table+4]++ },
		"frame in":      func(b []byte) { b[table+8]++ },
		"frame out":     func(b []byte) { b[table+12]++ },
		"frame out max": func(b []byte) { binary.LittleEndian.PutUint32(b[table+12:], 1<<31) },
		"frame zero":    func(b []byte) { binary.LittleEndian.PutUint32(b[table+12:], 0) },
	} {
		c := bytes.Clone(b)
		change(c)
		if _, _, err := unpack(t, c, UnpackOptions{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	// Without the table it is a plain zstd file.
	if _, _, err := unpack(t, b[:table], UnpackOptions{}); err != nil {
		t.Errorf("no table: %v", err)
	}
}

// TestManifest (T23): manifests that contradict the archive or themselves.
func TestManifestHostile(t *testing.T) {
	elf := elfWith(testID(1), "x")
	name := ObjectName("/bin/a", testID(1), "", store.ELF)
	file := fmt.Sprintf(`{"kind":"elf","name":%q,"size":%d,"sha256":%q}`, name, len(elf), sumHex(elf))
	full := func(f string) string {
		return fmt.Sprintf(`{"version":1,"objects":[{"id":%q,"kind":"file","paths":["/bin/a"],"samples":1,"files":[%s]}]}`, testID(1), f)
	}
	bundle := func(manifest string, more func(m *tarMaker)) []byte {
		var m tarMaker
		m.entry(tar.Header{Name: "MANIFEST.json"}, manifest, nil)
		if more != nil {
			more(&m)
		}
		m.entry(tar.Header{Name: ".debug/" + name}, string(elf), nil)
		return m.end()
	}
	if _, _, err := unpack(t, bundle(full(file), nil), UnpackOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"wrong size":      bundle(full(strings.Replace(file, `"size":`, `"size":1`, 1)), nil),
		"missing object":  bundle(full(file+`,{"kind":"debug","name":"a/b","size":0,"sha256":"`+sumHex(nil)+`"}`), nil),
		"extra object":    bundle(full(file), func(m *tarMaker) { m.entry(tar.Header{Name: ".debug/" + object(3)}, "x", nil) }),
		"no object":       bundle(`{"version":1,"objects":[]}`, nil),
		"duplicate key":   bundle(full(strings.Replace(file, `"kind"`, `"size":1,"kind"`, 1)), nil),
		"key in capitals": bundle(full(strings.Replace(file, `"kind"`, `"SIZE":1,"kind"`, 1)), nil),
		"two manifests":   bundle(full(file), func(m *tarMaker) { m.entry(tar.Header{Name: "MANIFEST.json"}, full(file)+" ", nil) }),
		"manifest of tree": bundle(full(file), func(m *tarMaker) {
			m.entry(tar.Header{Name: ".debug/" + ManifestName([]byte(full(file)))}, full(file), nil)
		}),
		"BOM":              bundle("\ufeff"+full(file), nil),
		"depth":            bundle(strings.Repeat("[", 1e5), nil),
		"number":           bundle(`{"version":`+strings.Repeat("1", 1e6)+`}`, nil),
		"not JSON":         bundle("hello", nil),
		"two values":       bundle(full(file)+full(file), nil),
		"version 2":        bundle(strings.Replace(full(file), `"version":1`, `"version":2`, 1), nil),
		"no version":       bundle(`{"objects":[]}`, nil),
		"name outside":     bundle(full(strings.Replace(file, "bin/a", "../a", 1)), nil),
		"T17 object twice": bundle(full(file), func(m *tarMaker) { m.entry(tar.Header{Name: ".debug/" + name}, string(elf), nil) }),
		"kind is a path":   bundle(full(strings.Replace(file, `"kind":"elf"`, `"kind":"../../../x"`, 1)), nil),
		"kind is another":  bundle(full(strings.Replace(file, `"kind":"elf"`, `"kind":"debug"`, 1)), nil),
		"many lists":       bundle(`{"version":1,"objects":[`+strings.Repeat(`{},`, maxManifestLists)+`{}]}`, nil),
		"short sum":        bundle(full(strings.Replace(file, sumHex(elf), "00", 1)), nil),
		"data not there":   bundle(strings.Replace(full(file), `"objects"`, `"data":{"name":"perf.data","size":0,"sha256":"`+sumHex(nil)+`","included":true},"objects"`, 1), nil),
		"data not listed":  bundle(full(file), func(m *tarMaker) { m.entry(tar.Header{Name: "perf.data"}, "x", nil) }),
		"other member":     bundle(full(file), func(m *tarMaker) { m.entry(tar.Header{Name: "README"}, "x", nil) }),
		"manifest is large": bundle(full(file), func(m *tarMaker) {
			m.b.Reset()
			m.entry(tar.Header{Name: "MANIFEST.json"}, strings.Repeat(" ", maxManifest+1), nil)
		}),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := Unpack(t.Context(), bytes.NewReader(b), UnpackOptions{Dir: filepath.Join(dir, "tree"), DataDir: dir})
			if err == nil {
				t.Error("no error")
			}
			if s := stateOf(t, dir); strings.Count(s, "\n") != 1 {
				t.Errorf("error %v, but written:\n%s", err, s)
			}
		})
	}
	t.Run("digest mismatch", func(t *testing.T) {
		u, dir, err := unpack(t, bundle(full(strings.Replace(file, sumHex(elf), sumHex(nil), 1)), nil), UnpackOptions{})
		if err != nil || refused(u) != 1 || !strings.Contains(u.Files[0].Why, " is wanted") {
			t.Errorf("%+v %v", u, err)
		}
		if s := stateOf(t, dir); strings.Contains(s, "elf") {
			t.Errorf("written:\n%s", s)
		}
	})
}
