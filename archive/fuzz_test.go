package archive

import (
	"archive/tar"
	"bytes"
	stdbzip2 "compress/bzip2"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perfark/perfark/store"
)

// small is an archive of a few hundred bytes with something of everything.
func small() *packed {
	p := newPacked().withData([]byte("PERFILE2"))
	p.object(Object{ID: testID(1), Kind: "file", Paths: []Name{"/bin/a", "/bin/\xff"}}).file(store.ELF, elfWith(testID(1), "a")).file(store.Debug, elfWith(testID(1), "d"))
	p.object(Object{ID: testID(2), Kind: "kernel", Paths: []Name{"[kernel.kallsyms]"}}).file(store.Kallsyms, []byte("ffffffff81000000 T _text\n"))
	p.object(Object{Kind: "perfmap", PID: 7, Paths: []Name{"/tmp/perf-7.map"}}).file(store.PerfMap, []byte("1 1 x\n"))
	return p
}

// resumAll gives every block of a plain tar that looks like a header the right
// checksum, so that mutants get further.
func resumAll(b []byte) {
	for ; len(b) >= blockSize; b = b[blockSize:] {
		if string(b[257:262]) == "ustar" {
			resum(b)
		}
	}
}

// FuzzUnpack unpacks mutants: nothing outside the two directories changes, no
// link leads out of them, nothing but files, directories and links is made.
func FuzzUnpack(f *testing.F) {
	p := small()
	for _, format := range allFormats {
		f.Add(p.encode(f, EncodeOptions{Format: format}), false)
	}
	for _, b := range hostile() {
		if len(b) < 16<<10 {
			f.Add(b, true)
		}
	}
	limits := Limits{MaxBytes: 1 << 20, MaxFiles: 1000}
	f.Fuzz(func(t *testing.T, b []byte, sums bool) {
		if sums {
			b = bytes.Clone(b)
			resumAll(b)
		}
		dir := t.TempDir()
		outside := filepath.Join(dir, "outside")
		os.Mkdir(outside, 0o755)
		before := stateOf(t, outside)
		o := UnpackOptions{Dir: filepath.Join(dir, "tree"), DataDir: filepath.Join(dir, "data"), Limits: limits}
		Unpack(t.Context(), bytes.NewReader(b), o)
		if after := stateOf(t, outside); after != before {
			t.Fatalf("outside changed:\n%s", after)
		}
		list, _ := os.ReadDir(dir)
		for _, e := range list {
			if n := e.Name(); n != "outside" && n != "tree" && n != "data" {
				t.Fatalf("made %q", n)
			}
		}
		s := stateOf(t, dir)
		for line := range strings.Lines(s) {
			_, mode, _ := strings.Cut(line, `" `)
			if !strings.HasPrefix(mode, "-r") && !strings.HasPrefix(mode, "dr") && !strings.HasPrefix(mode, `Lrwxrwxrwx -> "../../`) {
				t.Fatalf("made %s", line)
			}
		}
		if strings.Contains(s, tempPrefix) || strings.Contains(s, `"../../../`) {
			t.Fatalf("left:\n%s", s)
		}
	})
}

// FuzzTar: what we accept, archive/tar reads in the same way.
func FuzzTar(f *testing.F) {
	p := small()
	f.Add(p.encode(f, EncodeOptions{Format: Tar}), false)
	for _, b := range hostile() {
		if len(b) < 16<<10 {
			f.Add(b, true)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, sums bool) {
		if sums {
			b = bytes.Clone(b)
			resumAll(b)
		}
		list, err := scanTar(t.Context(), bytes.NewReader(b), int64(len(b)), 1000)
		if err != nil {
			return
		}
		r := tar.NewReader(bytes.NewReader(b))
		for i, e := range list {
			h, err := r.Next()
			if err != nil {
				return // it knows more about PAX records than we do
			}
			typ := h.Typeflag
			switch typ {
			case '7':
				typ = tar.TypeReg
			case tar.TypeDir:
				h.Name = strings.TrimSuffix(h.Name, "/")
			}
			if strings.HasSuffix(e.name, "/") {
				continue // a file or a directory, as one likes; checkName refuses it
			}
			if h.Name != e.name || typ != e.typ || h.Size != e.size || h.Linkname != e.link && typ != tar.TypeReg && typ != tar.TypeDir {
				t.Fatalf("entry %d: %q %q %d %q\narchive/tar: %q %q %d %q", i, e.name, e.typ, e.size, e.link, h.Name, typ, h.Size, h.Linkname)
			}
			if e.typ == tar.TypeReg && checkName(e.name) == nil {
				body, err := io.ReadAll(r)
				if err != nil || !bytes.Equal(body, b[e.off:e.off+e.size]) {
					t.Fatalf("entry %d: other contents, error %v", i, err)
				}
			}
		}
		if _, err := r.Next(); err == nil {
			t.Fatal("archive/tar reads more entries")
		}
	})
}

// FuzzManifest: what is accepted is written and read the same.
func FuzzManifest(f *testing.F) {
	b, err := small().m.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"version":1,"objects":[{"id":"","kind":"","paths":[{"base64":"/w=="}],"files":[]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseManifest(b)
		if err != nil {
			return
		}
		once, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseManifest(once)
		if err != nil {
			t.Fatalf("%v\n%s", err, once)
		}
		twice, err := again.Encode()
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s\nthen\n%s\n%v", once, twice, err)
		}
	})
}

// FuzzSeekTable reads whole files with spoilt tables, at all places.
func FuzzSeekTable(f *testing.F) {
	b := small().encode(f, EncodeOptions{Format: Bundle})
	f.Add(b, int64(0))
	f.Add(append(bytes.Clone(b[:len(b)/2]), seekTable(nil)...), int64(3))
	f.Fuzz(func(t *testing.T, b []byte, off int64) {
		s, err := newSeekable(bytes.NewReader(b), int64(len(b)), 1)
		if err != nil {
			return
		}
		defer s.Close()
		buf := make([]byte, 1000)
		n, err := s.ReadAt(buf, off)
		if n < len(buf) && err == nil {
			t.Fatalf("%d bytes without an error", n)
		}
		if s.size < 1<<20 {
			all := make([]byte, s.size)
			if n, err := s.ReadAt(all, 0); n < len(all) && err == nil {
				t.Fatalf("%d bytes of %d without an error", n, len(all))
			}
		}
	})
}

// FuzzBzip2: reading in parallel gives what reading in sequence gives.
func FuzzBzip2(f *testing.F) {
	p := small()
	one := p.encode(f, EncodeOptions{Format: Bzip2})
	f.Add(one)
	f.Add(append(bytes.Clone(one), one...))
	f.Add([]byte("BZh91AY&SYBZh91AY&SY"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if packingOf(b) != packBzip2 {
			return
		}
		lim := Limits{MaxBytes: 1 << 20}.withDefaults()
		var got, want bytes.Buffer
		errGot := decompress(&limited{ctx: t.Context(), w: &got, lim: lim}, bytes.NewReader(b), int64(len(b)), packBzip2)
		w := &limited{ctx: t.Context(), w: &want, lim: lim}
		errWant := sequentialBzip2(w, b)
		if (errGot == nil) != (errWant == nil) || errWant == nil && !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Fatalf("%d bytes, %v; want %d bytes, %v", got.Len(), errGot, want.Len(), errWant)
		}
	})
}

func sequentialBzip2(w io.Writer, b []byte) error {
	_, err := io.Copy(w, stdbzip2.NewReader(bytes.NewReader(b)))
	return err
}
