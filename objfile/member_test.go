package objfile

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
)

// library compiles a shared library that exports function.
func library(t *testing.T, soname, function string) []byte {
	t.Helper()
	name := perftest.CC(t, soname, "int "+function+"(int n) { int s = 0; for (int i = 0; i < n; i++) s += i * n; return s; }\n",
		"-O1", "-shared", "-fPIC", "-Wl,--build-id=sha1", "-Wl,-soname,"+soname)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// aligned writes a zip archive whose stored members begin at pages, as
// zipalign does, with front before it. Names that end in .deflated are
// compressed.
func aligned(t testing.TB, front []byte, members ...any) []byte {
	t.Helper()
	var out bytes.Buffer
	out.Write(front)
	w := zip.NewWriter(&out)
	w.SetOffset(int64(len(front)))
	for i := 0; i < len(members); i += 2 {
		h := &zip.FileHeader{Name: members[i].(string), Method: zip.Store}
		if strings.HasSuffix(h.Name, ".deflated") {
			h.Method = zip.Deflate
		}
		w.Flush()
		at := out.Len() + 30 + len(h.Name) + 4
		h.Extra = binary.LittleEndian.AppendUint16(nil, 0xd935) // what zipalign uses
		pad := (memberPage - at%memberPage) % memberPage
		h.Extra = binary.LittleEndian.AppendUint16(h.Extra, uint16(pad))
		h.Extra = append(h.Extra, make([]byte, pad)...)
		b := members[i+1].([]byte)
		h.CompressedSize64, h.UncompressedSize64 = uint64(len(b)), uint64(len(b))
		var f io.Writer
		var err error
		if h.Method == zip.Store {
			f, err = w.CreateRaw(h)
		} else {
			f, err = w.CreateHeader(h)
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Write(b)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestMembers is C19, C20 and C21: libraries inside of other files are found
// by offset.
func TestMembers(t *testing.T) {
	perftest.NeedTool(t, "gcc")
	x, y := library(t, "libX.so", "x_work"), library(t, "libY.so", "y_work")
	raw := make([]byte, 8192)
	raw = append(raw, x...)
	raw = append(raw, make([]byte, memberPage-len(raw)%memberPage)...)
	yAt := len(raw)
	raw = append(append(raw, y...), "end"...)
	apk := aligned(t, nil, "classes.dex", []byte("dex\n035"), "lib/x86_64/libX.so", x, "small.deflated", bytes.Repeat([]byte("text "), 5000), "lib/x86_64/libY.so", y)
	exe := aligned(t, bytes.Repeat([]byte("#!/bin/sh\n"), 1000), "libX.so", x, "libY.so", y)
	for _, tt := range []struct {
		name    string
		b       []byte
		members [2]string
	}{
		{"C19 without a directory", raw, [2]string{"libX.so", "libY.so"}},
		{"C20 zip archive", apk, [2]string{"lib/x86_64/libX.so", "lib/x86_64/libY.so"}},
		{"zip archive behind a script", exe, [2]string{"libX.so", "libY.so"}},
	} {
		ms := NewMembers(bytes.NewReader(tt.b), int64(len(tt.b)), nil)
		for i, lib := range [][]byte{x, y} {
			at := bytes.Index(tt.b, lib)
			for _, o := range []int{0, 0x1000, len(lib) - 1} {
				m, err := ms.At(uint64(at + o))
				if want := (Member{tt.members[i], int64(at), int64(len(lib))}); err != nil || m != want {
					t.Errorf("%s: %#x: got %+v, %v, want %+v", tt.name, at+o, m, err, want)
				}
			}
			f, err := Open(io.NewSectionReader(bytes.NewReader(tt.b), int64(at), int64(len(lib))), int64(len(lib)), "member", nil)
			if err != nil || f.BuildID() == "" {
				t.Errorf("%s: %v, id %q", tt.name, err, f.BuildID())
			}
		}
		if i := bytes.Index(tt.b, []byte("dex\n")); i > 0 {
			if m, err := ms.At(uint64(i)); !errors.Is(err, ErrNoMember) {
				t.Errorf("%s: classes.dex: got %+v, %v", tt.name, m, err)
			}
		}
		if m, err := ms.At(uint64(len(tt.b))); !errors.Is(err, ErrNoMember) {
			t.Errorf("%s: behind the end: got %+v, %v", tt.name, m, err)
		}
	}
	if m, err := FindMember(bytes.NewReader(raw), int64(len(raw)), uint64(yAt-1)); err == nil && m.Off+m.Size > int64(yAt) {
		t.Errorf("between members: got %+v", m)
	}
	m, err := NewMembers(bytes.NewReader(apk), int64(len(apk)), nil).Named("lib/x86_64/libY.so")
	if err != nil || m.Off != int64(bytes.Index(apk, y)) {
		t.Errorf("by name: got %+v, %v", m, err)
	}
	if _, err := NewMembers(bytes.NewReader(apk), int64(len(apk)), nil).Named("lib/x86/libY.so"); !errors.Is(err, ErrNoMember) {
		t.Errorf("by name: got %v", err)
	}
}

// TestMemberCompressed is the other half of C20: a clear refusal.
func TestMemberCompressed(t *testing.T) {
	data := bytes.Repeat([]byte("\x7fELF some text "), 2000)
	z := aligned(t, nil, "lib/libZ.so.deflated", data, "b", []byte("x"))
	m := NewMembers(bytes.NewReader(z), int64(len(z)), nil)
	_, err := m.At(70)
	if want := `offset 0x46: "lib/libZ.so.deflated": the member is compressed, and code cannot be mapped out of it`; !errors.Is(err, ErrCompressedMember) || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

// TestMembersZip compares with what zip writes.
func TestMembersZip(t *testing.T) {
	zipTool := perftest.NeedTool(t, "zip")
	dir := t.TempDir()
	elf := fuzzSeeds()[0]
	for _, n := range []string{"a.so", "b.txt", "c.so"} {
		b := elf
		if n == "b.txt" {
			b = []byte("hello")
		}
		if err := os.WriteFile(filepath.Join(dir, n), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(zipTool, "-q", "-0", "-z", "x.zip", "a.so", "b.txt", "c.so")
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader("a comment, PK\x05\x06 in it\n.\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "x.zip"))
	if err != nil {
		t.Fatal(err)
	}
	ms := NewMembers(bytes.NewReader(b), int64(len(b)), nil)
	for at, n := 0, 0; ; n++ {
		i := bytes.Index(b[at:], elf)
		if i < 0 {
			if n != 2 {
				t.Errorf("%d members", n)
			}
			break
		}
		at += i
		if m, err := ms.At(uint64(at + 100)); err != nil || m.Off != int64(at) || m.Size != int64(len(elf)) || m.Name != []string{"a.so", "c.so"}[n] {
			t.Errorf("%#x: got %+v, %v", at, m, err)
		}
		at++
	}
}

// TestMembersHostile: E20 and the like end in bounded time.
func TestMembersHostile(t *testing.T) {
	seed := fuzzSeeds()[0]
	many := make([]byte, 0, 20000*memberPage/raceFactor)
	for len(many) < cap(many) {
		many = append(many, seed[:min(len(seed), memberPage)]...)
		many = append(many, make([]byte, (memberPage-len(many)%memberPage)%memberPage)...)
	}
	entry := append([]byte("PK\x01\x02"), make([]byte, zipEntrySize-4)...)
	n := 1_000_000 / raceFactor
	dir := bytes.Repeat(entry, n)
	end := append([]byte("PK\x05\x06"), make([]byte, 18)...)
	binary.LittleEndian.PutUint16(end[10:], 0xffff)
	binary.LittleEndian.PutUint32(end[12:], uint32(len(dir)))
	tail := func(patch func([]byte)) []byte {
		z := aligned(t, nil, "a", seed)
		patch(z[len(z)-zipEndSize:])
		return z
	}
	for name, b := range map[string][]byte{
		"nothing":        nil,
		"zeros":          make([]byte, 64<<20/raceFactor),
		"ELF at pages":   many,
		"a million":      append(dir, end...),
		"directory away": tail(func(b []byte) { binary.LittleEndian.PutUint32(b[16:], 1<<31) }),
		"directory size": tail(func(b []byte) { binary.LittleEndian.PutUint32(b[12:], 1<<31) }),
		"entries":        tail(func(b []byte) { binary.LittleEndian.PutUint16(b[10:], 0xfffe) }),
		"zip64":          tail(func(b []byte) { binary.LittleEndian.PutUint32(b[16:], 0xffffffff) }),
	} {
		bounded(t, name, len(b), func() {
			m := NewMembers(bytes.NewReader(b), int64(len(b)), nil)
			const n = 20000 / raceFactor
			for i := range n {
				m.At(uint64(i) * uint64(len(b)) / n)
			}
			m.At(1<<64 - 1)
			m.Named("x")
		})
	}
	z := aligned(t, nil, "a", seed, "b", seed)
	for n := range z {
		NewMembers(bytes.NewReader(z[:n]), int64(n), nil).At(uint64(n / 2))
	}
}

func FuzzMembers(f *testing.F) {
	seed := fuzzSeeds()[0]
	f.Add(aligned(f, nil, "a", seed, "b.deflated", seed), uint64(5000))
	f.Add(append(make([]byte, 4096), seed...), uint64(5000))
	f.Fuzz(func(t *testing.T, b []byte, off uint64) {
		m := NewMembers(bytes.NewReader(b), int64(len(b)), nil)
		for _, o := range []uint64{off, off / 2, uint64(len(b)) / 2, uint64(len(b)) - 1} {
			x, err := m.At(o)
			if err == nil && (x.Off < 0 || x.Size < 0 || x.Off+x.Size > int64(len(b)) || o < uint64(x.Off) || o >= uint64(x.Off+x.Size)) {
				t.Errorf("%#x: %+v of %d bytes", o, x, len(b))
			}
		}
		if x, err := m.Named("a"); err == nil && (x.Off < 0 || x.Off+x.Size > int64(len(b))) {
			t.Errorf("%+v of %d bytes", x, len(b))
		}
	})
}
