package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/store"
)

// elfWith returns a small ELF file with a build id and some more bytes. No id
// makes one without.
func elfWith(id buildid.ID, more string) []byte {
	le := binary.LittleEndian
	b := []byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	b = le.AppendUint16(b, 3)  // ET_DYN
	b = le.AppendUint16(b, 62) // x86-64
	b = le.AppendUint32(b, 1)
	b = le.AppendUint64(b, 0)  // entry
	b = le.AppendUint64(b, 64) // phoff
	b = le.AppendUint64(b, 0)  // shoff
	b = le.AppendUint32(b, 0)
	for _, x := range []uint16{64, 56, 2, 64, 0, 0} {
		b = le.AppendUint16(b, x)
	}
	note := []byte{}
	if id != "" {
		note = le.AppendUint32(note, 4)
		note = le.AppendUint32(note, uint32(len(id)))
		note = le.AppendUint32(note, 3)
		note = append(note, "GNU\x00"...)
		note = append(note, id...)
	}
	size := uint64(64 + 2*56 + len(note) + len(more))
	for _, p := range [][4]uint64{{1, 5, 0, size}, {4, 4, 64 + 2*56, uint64(len(note))}} {
		b = le.AppendUint32(b, uint32(p[0]))
		b = le.AppendUint32(b, uint32(p[1]))
		b = le.AppendUint64(b, p[2])
		b = le.AppendUint64(b, p[2])
		b = le.AppendUint64(b, p[2])
		b = le.AppendUint64(b, p[3])
		b = le.AppendUint64(b, p[3])
		b = le.AppendUint64(b, 4)
	}
	b = append(b, note...)
	return append(b, more...)
}

func testID(n int) buildid.ID {
	sum := sha256.Sum256(fmt.Append(nil, n))
	return buildid.New(sum[:20])
}

func sumHex(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// A packed is an archive being made for a test.
type packed struct {
	m     Manifest
	files map[Name][]byte
	data  []byte
}

func newPacked() *packed {
	return &packed{m: Manifest{Version: 1, Tool: "perfark test"}, files: map[Name][]byte{}}
}

// add adds a file to the last object.
func (p *packed) file(kind store.Kind, b []byte) *packed {
	o := &p.m.Objects[len(p.m.Objects)-1]
	name := Name(ObjectName(string(o.Paths[0]), o.ID, sumHex(b), kind))
	if kind == store.PerfMap {
		name = Name(PerfMapName(o.PID))
	} else if kind == store.JITDump {
		name = Name(JITDumpName(o.PID, sumHex(b)))
	}
	o.Files = append(o.Files, File{Kind: kind, Name: name, Size: int64(len(b)), SHA256: sumHex(b)})
	p.files[name] = b
	return p
}

func (p *packed) object(o Object) *packed {
	p.m.Objects = append(p.m.Objects, o)
	return p
}

func (p *packed) withData(b []byte) *packed {
	p.data = b
	p.m.Data = &Data{Name: "perf.data", Size: int64(len(b)), SHA256: sumHex(b), MTime: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Included: true}
	return p
}

func (p *packed) contents() Contents {
	open := func(b []byte) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
	return Contents{
		Data: func() (io.ReadCloser, error) { return open(p.data) },
		File: func(f *File) (io.ReadCloser, error) { return open(p.files[f.Name]) },
	}
}

func (p *packed) encode(t testing.TB, o EncodeOptions) []byte {
	t.Helper()
	m := p.m
	if o.Format != Bundle && m.Data != nil {
		d := *m.Data
		d.Included = false
		m.Data = &d
	}
	var b bytes.Buffer
	if err := Encode(t.Context(), &b, &m, p.contents(), o); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// oddNames are recorded paths that tools trip over (B33, B34, G12).
var oddNames = []string{
	"/usr/lib/d ir (x)/a b", "/tmp/line\nbreak", "/tmp/\xff\xfe", "/tmp/-rf", "/tmp/*?[a]", "/tmp/\"'`$x\\",
	"/tmp/\x1b[31mred", "/tmp/\u202egnp", "/tmp/ümläut", "/" + strings.Repeat("n", 255),
	"/" + strings.Repeat("deep/", 60) + "x", "/a/../../b", "/.build-id/ab/cd", "/.perfark/x", "relative", "/tmp/tab\there", "/tmp/MANIFEST.json",
}

// sample is an archive with something of everything.
func sample() *packed { return sampleOf(10_000) }

// sampleOf is a sample with an object of more than n bytes.
func sampleOf(n int) *packed {
	r := rand.New(rand.NewPCG(1, 1))
	big := make([]byte, n)
	for i := range big {
		if i < 1_000_000 {
			big[i] = byte(r.Uint32() % 7)
		} else {
			big[i] = big[i-1_000_000]
		}
	}
	p := newPacked().withData([]byte("PERFILE2 and so on"))
	p.object(Object{ID: testID(1), Kind: "file", Paths: []Name{"/usr/bin/app", "/usr/bin/other"}, Samples: 10}).
		file(store.ELF, elfWith(testID(1), string(big))).file(store.Debug, elfWith(testID(1), "debug"))
	p.object(Object{ID: testID(2), Kind: "kernel", Paths: []Name{"[kernel.kallsyms]"}, Samples: 5}).
		file(store.Kallsyms, []byte("ffffffff81000000 T _text\nffffffff81000100 T start\n"))
	p.object(Object{ID: testID(3), Kind: "vdso", Paths: []Name{"[vdso]"}}).file(store.VDSO, elfWith(testID(3), "vdso"))
	p.object(Object{Kind: "file", Paths: []Name{"/opt/noid"}, Unverified: true}).file(store.ELF, elfWith("", "no id"))
	p.object(Object{Kind: "perfmap", Paths: []Name{"/tmp/perf-77.map"}, PID: 77, Unverified: true}).file(store.PerfMap, []byte("1000 10 jitted\n"))
	p.object(Object{Kind: "jitdump", Paths: []Name{"/tmp/jit-9.dump"}, PID: 77, Unverified: true}).file(store.JITDump, []byte("JiTD and so on"))
	p.object(Object{Kind: "file", Paths: []Name{"/opt/inode"}, Unverified: true, Inodes: []Inode{{8, 1, 1234, 5}}}).file(store.ELF, elfWith("", "by its inode"))
	for i, name := range oddNames {
		p.object(Object{ID: testID(100 + i), Kind: "file", Paths: []Name{Name(name)}}).file(store.ELF, elfWith(testID(100+i), name))
	}
	p.m.Missing = []Missing{{ID: testID(9), Kind: "file", Path: "/gone\xff", Samples: 3, Reason: "deleted"}}
	return p
}

var allFormats = []Format{Bzip2, Zstd, Gzip, XZ, Tar, Bundle}

// TestEncode opens what was encoded, in every format, and compares everything.
func TestEncode(t *testing.T) {
	p := sampleOf(1_300_000)
	for _, f := range allFormats {
		t.Run(f.String(), func(t *testing.T) {
			b := p.encode(t, EncodeOptions{Format: f})
			a, err := New(t.Context(), bytes.NewReader(b), int64(len(b)), "test", OpenOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			for name, want := range p.files {
				f, err := a.OpenMember(name)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size))
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%q: %d bytes, error %v; want %d bytes", name, len(got), err, len(want))
				}
			}
			if got, want := len(a.Manifest().Objects), len(p.m.Objects); got != want {
				t.Errorf("%d objects, want %d", got, want)
			}
			if got := a.Manifest().Missing[0].Path; got != "/gone\xff" {
				t.Errorf("missing path %q", got)
			}
			r, size, ok := a.Data()
			if ok != (f == Bundle) {
				t.Fatalf("data: %v", ok)
			}
			if ok {
				got, err := io.ReadAll(io.NewSectionReader(r, 0, size))
				if err != nil || !bytes.Equal(got, p.data) {
					t.Errorf("data %q, error %v", got, err)
				}
			}
		})
	}
}

// TestReproducible (BUN-9, G32): the same bytes for any number of workers.
func TestReproducible(t *testing.T) {
	// More than one piece of each format; xz is slow.
	sizes := map[Format]int{Bzip2: 1_000_000, Zstd: zstdFrame, Bundle: bundleFrame, Gzip: 2_000_000, XZ: 10_000, Tar: 10_000}
	for _, f := range allFormats {
		p := sampleOf(sizes[f])
		want := sumHex(p.encode(t, EncodeOptions{Format: f, Workers: 1}))
		if got := sumHex(p.encode(t, EncodeOptions{Format: f, Workers: 5})); got != want {
			t.Errorf("%v: other bytes with other workers", f)
		}
	}
}

// TestTar has GNU tar list and unpack what we write (BUN-7, B33): every name
// as it was, every link to its object.
func TestTar(t *testing.T) {
	p := sample()
	flags := map[Format]string{Bzip2: "-j", Zstd: "--zstd", Gzip: "-z", XZ: "-J", Tar: "", Bundle: "--zstd"}
	for _, locale := range []string{"C", "C.UTF-8"} {
		for f, flag := range flags {
			if locale != "C" && f != Bzip2 {
				continue
			}
			t.Run(f.String()+" "+locale, func(t *testing.T) {
				dir := t.TempDir()
				file := filepath.Join(dir, "a"+f.Ext())
				if err := os.WriteFile(file, p.encode(t, EncodeOptions{Format: f}), 0o600); err != nil {
					t.Fatal(err)
				}
				out := filepath.Join(dir, "out")
				os.Mkdir(out, 0o700)
				args := []string{"-xf", file, "-C", out}
				if flag != "" {
					args = append(args, flag)
				}
				cmd := exec.Command("tar", args...)
				cmd.Env = append(os.Environ(), "LC_ALL="+locale)
				if b, err := cmd.CombinedOutput(); err != nil || len(b) > 0 {
					if errors.Is(err, exec.ErrNotFound) || strings.Contains(string(b), "Cannot exec") {
						t.Skipf("tar %s: %v %s", flag, err, b)
					}
					t.Fatalf("tar: %v\n%s", err, b)
				}
				tree := out
				if f == Bundle {
					tree = filepath.Join(out, ".debug")
					fi, err := os.Stat(filepath.Join(out, "perf.data"))
					if err != nil || !fi.ModTime().Equal(p.m.Data.MTime) {
						t.Errorf("perf.data: %v %v", fi, err)
					}
				}
				for name, want := range p.files {
					got, err := os.ReadFile(filepath.Join(tree, string(name)))
					if err != nil || !bytes.Equal(got, want) {
						t.Errorf("%q: %v", name, err)
					}
				}
				for _, o := range p.m.Objects {
					if o.ID == "" {
						continue
					}
					link, _ := LinkName(o.ID, string(o.Files[0].Name))
					got, err := os.ReadFile(filepath.Join(tree, link, string(o.Files[0].Kind)))
					if err != nil || !bytes.Equal(got, p.files[o.Files[0].Name]) {
						t.Errorf("through %q: %v", link, err)
					}
				}
			})
		}
	}
}

func TestObjectName(t *testing.T) {
	id := testID(1)
	for path, want := range map[string]string{
		"/usr/bin/app":                          "usr/bin/app",
		"[kernel.kallsyms]":                     "[kernel.kallsyms]",
		"//a/./b//c/":                           "a/b/c",
		"/a/../../b":                            "a/%2e%2e/%2e%2e/b",
		"/.build-id/x":                          "%2ebuild-id/x",
		"/a/.build-id/x":                        "a/.build-id/x",
		"/.perfark/x":                           "%2eperfark/x",
		"":                                      "%",
		"/":                                     "%",
		"/a/" + strings.Repeat("b", 300) + "/c": "a/" + strings.Repeat("b", 238) + "%dccc1450d6fc4232" + "/c",
		"/" + strings.Repeat("a/", 3000) + "last": "last%65c707bff964cadb",
	} {
		if got := ObjectName(path, id, "", store.ELF); got != want+"/"+id.String()+"/elf" {
			t.Errorf("%q: %q, want %q/...", path, got, want)
		}
	}
}

// TestEncodeChanged (BUN-4): a file that is not what the manifest says.
func TestEncodeChanged(t *testing.T) {
	for name, f := range map[string]func([]byte) []byte{
		"other":   func(b []byte) []byte { b = slices.Clone(b); b[len(b)-1] ^= 1; return b },
		"shorter": func(b []byte) []byte { return b[:len(b)-1] },
		"longer":  func(b []byte) []byte { return append(slices.Clone(b), 0) },
	} {
		p := sample()
		for n, b := range p.files {
			if strings.HasPrefix(string(n), "usr/bin/app/") {
				p.files[n] = f(b)
			}
		}
		m := p.m
		err := Encode(t.Context(), io.Discard, &m, p.contents(), EncodeOptions{Format: Bundle})
		if _, ok := errors.AsType[*ChangedError](err); !ok {
			t.Errorf("%s: error %v, want a ChangedError", name, err)
		}
	}
}

type brokenWriter struct{ left int }

var errDisk = errors.New("disk full")

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errDisk
	}
	return len(p), nil
}

// TestEncodeError (F3): the error of the writer comes out, wherever it arises.
func TestEncodeError(t *testing.T) {
	p := sample()
	for _, f := range allFormats {
		m := p.m
		if f != Bundle {
			m.Data = nil
		}
		var b bytes.Buffer
		if err := Encode(t.Context(), &b, &m, p.contents(), EncodeOptions{Format: f}); err != nil {
			t.Fatal(err)
		}
		size := b.Len()
		for _, left := range []int{0, 1, size / 2, size - 1} {
			err := Encode(t.Context(), &brokenWriter{left}, &m, p.contents(), EncodeOptions{Format: f})
			if !errors.Is(err, errDisk) {
				t.Errorf("%v after %d bytes: error %v, want disk full", f, left, err)
			}
		}
	}
}

func TestEncodeCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := sample()
	for _, f := range allFormats {
		m := p.m
		if f != Bundle {
			m.Data = nil
		}
		if err := Encode(ctx, io.Discard, &m, p.contents(), EncodeOptions{Format: f}); !errors.Is(err, context.Canceled) {
			t.Errorf("%v: error %v, want canceled", f, err)
		}
	}
}

// TestGet asks an archive as a store.Source.
func TestGet(t *testing.T) {
	p := sample()
	// B19: two programs with one id.
	twin := testID(50)
	p.object(Object{ID: twin, Kind: "file", Paths: []Name{"/bin/x"}}).file(store.ELF, elfWith(twin, "x"))
	p.object(Object{ID: twin, Kind: "file", Paths: []Name{"/bin/y"}}).file(store.ELF, elfWith(twin, "y"))
	// H3: bytes that do not carry their id.
	p.object(Object{ID: testID(51), Kind: "file", Paths: []Name{"/bin/wrong"}}).file(store.ELF, elfWith(testID(52), ""))
	b := p.encode(t, EncodeOptions{Format: Bundle})
	a, err := New(t.Context(), bytes.NewReader(b), int64(len(b)), "test", OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for _, tt := range []struct {
		k    store.Key
		want string // end of the origin; "" if not there
	}{
		{store.Key{ID: testID(1), Kind: store.ELF}, "usr/bin/app/" + testID(1).String() + "/elf"},
		{store.Key{ID: testID(1), Kind: store.Debug}, "/debug"},
		{store.Key{ID: testID(1), Kind: store.VDSO}, ""},
		{store.Key{ID: testID(2), Kind: store.Kallsyms}, "/kallsyms"},
		{store.Key{ID: testID(3), Kind: store.VDSO}, "/vdso"},
		{store.Key{Kind: store.ELF, Path: "/opt/noid"}, "/elf"},
		{store.Key{Kind: store.ELF, Path: "/usr/bin/app"}, ""}, // has an id: not by its path
		{store.Key{Kind: store.PerfMap, PID: 77}, "perf-77.map"},
		{store.Key{Kind: store.PerfMap, PID: 78}, ""},
		{store.Key{Kind: store.JITDump, PID: 77, Path: "/tmp/jit-9.dump"}, ".dump"},
		{store.Key{Kind: store.JITDump, PID: 78, Path: "/tmp/jit-9.dump"}, ""},
		{store.Key{Kind: store.JITDump, PID: 77, Path: "/tmp/jit-10.dump"}, ""},
		{store.Key{Kind: store.ELF, Path: "/opt/inode"}, "/elf"},
		{store.Key{Kind: store.ELF, Path: "/opt/inode", Maj: 8, Min: 1, Ino: 1234, InoGen: 5}, "/elf"},
		{store.Key{Kind: store.ELF, Path: "/opt/inode", Maj: 8, Min: 1, Ino: 1234, InoGen: 6}, ""},
		{store.Key{Kind: store.ELF, Path: "/opt/inode", Maj: 8, Min: 2, Ino: 1234, InoGen: 5}, ""},
		{store.Key{ID: twin, Kind: store.ELF, Path: "/bin/y"}, "bin/y/" + twin.String() + "/elf"},
		{store.Key{ID: twin, Kind: store.ELF, Path: "/bin/z"}, ""},
		{store.Key{ID: testID(51), Kind: store.ELF}, ""},
		{store.Key{ID: testID(999), Kind: store.ELF}, ""},
	} {
		f, err := a.Get(t.Context(), tt.k)
		if tt.want == "" {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%v: error %v, want one that wraps fs.ErrNotExist", tt.k, err)
			}
			continue
		}
		if err != nil || !strings.HasSuffix(f.Origin, tt.want) {
			t.Errorf("%v: %+v, error %v; want %q", tt.k, f, err, tt.want)
			continue
		}
		if f.Unverified != (tt.k.ID == "" && !isLog(tt.k.Kind)) {
			t.Errorf("%v: unverified %v", tt.k, f.Unverified)
		}
	}
}
