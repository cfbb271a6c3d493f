package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/perfark/perfark/buildid"
)

// A testELF describes a small x86-64 executable, or its separate debug file.
type testELF struct {
	id        buildid.ID
	text      string // its code
	symtab    bool
	dwarf     bool
	debugOnly bool   // .text takes no room in the file
	link      string // of .gnu_debuglink
	linkCRC   uint32
	fill      int // bytes more, to make it large
}

// bytes builds the file. No tool is needed for it, so every test runs.
func (e testELF) bytes() []byte {
	type section struct {
		name       string
		typ        uint32
		flags      uint64
		data       []byte
		link, info uint32
		entsize    uint64
		off, size  uint64
	}
	le := binary.LittleEndian
	secs := []section{{}}
	add := func(s section) uint32 { secs = append(secs, s); return uint32(len(secs) - 1) }
	if e.id != "" {
		note := le.AppendUint32(nil, 4)
		note = le.AppendUint32(note, uint32(len(e.id)))
		note = le.AppendUint32(note, 3)
		note = append(append(note, "GNU\x00"...), e.id...)
		for len(note)%4 != 0 {
			note = append(note, 0)
		}
		add(section{name: ".note.gnu.build-id", typ: 7, flags: 2, data: note})
	}
	text := section{name: ".text", typ: 1, flags: 6, data: []byte(e.text)}
	if e.debugOnly {
		text.typ = 8
	}
	textNdx := add(text)
	if e.symtab {
		str := add(section{name: ".strtab", typ: 3, data: []byte("\x00main\x00")})
		sym := make([]byte, 24)
		sym = le.AppendUint32(sym, 1)
		sym = append(sym, 0x12, 0)
		sym = le.AppendUint16(sym, uint16(textNdx))
		sym = le.AppendUint64(sym, 0x401000)
		sym = le.AppendUint64(sym, uint64(len(e.text)))
		add(section{name: ".symtab", typ: 2, data: sym, link: str, info: 1, entsize: 24})
	}
	if e.dwarf {
		add(section{name: ".debug_info", typ: 1, data: []byte{7, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8}})
	}
	if e.link != "" {
		b := append([]byte(e.link), 0)
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
		add(section{name: ".gnu_debuglink", typ: 1, data: le.AppendUint32(b, e.linkCRC)})
	}
	if e.fill > 0 {
		add(section{name: ".fill", typ: 1, data: bytes.Repeat([]byte{0xcc}, e.fill)})
	}
	names := []byte{0}
	var nameOff []uint32
	for i := range secs {
		nameOff = append(nameOff, uint32(len(names)))
		if i > 0 {
			names = append(append(names, secs[i].name...), 0)
		}
	}
	nameOff = append(nameOff, uint32(len(names)))
	names = append(names, ".shstrtab\x00"...)
	add(section{name: ".shstrtab", typ: 3, data: names})

	const ehsize, phsize = 64, 56
	body := make([]byte, ehsize+2*phsize)
	var textOff, noteOff, noteSize uint64
	for i := range secs[1:] {
		s := &secs[i+1]
		for len(body)%8 != 0 {
			body = append(body, 0)
		}
		s.off, s.size = uint64(len(body)), uint64(len(s.data))
		if s.typ != 8 {
			body = append(body, s.data...)
		}
		switch s.name {
		case ".text":
			textOff = s.off
		case ".note.gnu.build-id":
			noteOff, noteSize = s.off, s.size
		}
	}
	for len(body)%8 != 0 {
		body = append(body, 0)
	}
	shoff := uint64(len(body))
	for i, s := range secs {
		body = le.AppendUint32(body, nameOff[i])
		body = le.AppendUint32(body, s.typ)
		body = le.AppendUint64(body, s.flags)
		addr := uint64(0)
		if s.name == ".text" {
			addr = 0x401000
		}
		body = le.AppendUint64(body, addr)
		body = le.AppendUint64(body, s.off)
		body = le.AppendUint64(body, s.size)
		body = le.AppendUint32(body, s.link)
		body = le.AppendUint32(body, s.info)
		body = le.AppendUint64(body, 4)
		body = le.AppendUint64(body, s.entsize)
	}
	h := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 9)...)
	h = le.AppendUint16(h, 2)
	h = le.AppendUint16(h, 62)
	h = le.AppendUint32(h, 1)
	h = le.AppendUint64(h, 0x401000)
	h = le.AppendUint64(h, ehsize)
	h = le.AppendUint64(h, shoff)
	h = le.AppendUint32(h, 0)
	for _, v := range []uint16{ehsize, phsize, 2, 64, uint16(len(secs)), uint16(len(secs) - 1)} {
		h = le.AppendUint16(h, v)
	}
	filesz := uint64(len(e.text))
	if e.debugOnly {
		filesz = 0
	}
	for _, p := range [][8]uint64{
		{1, 5, textOff, 0x401000, 0x401000, filesz, uint64(len(e.text)), 8},
		{4, 4, noteOff, 0x400200, 0x400200, noteSize, noteSize, 4},
	} {
		h = le.AppendUint32(h, uint32(p[0]))
		h = le.AppendUint32(h, uint32(p[1]))
		for _, v := range p[2:] {
			h = le.AppendUint64(h, v)
		}
	}
	copy(body, h)
	return body
}

// id makes a Build ID of n bytes, all b.
func testID(b byte, n int) buildid.ID { return buildid.New(bytes.Repeat([]byte{b}, n)) }

// write writes a file and the directories above it.
func write(t testing.TB, name string, b []byte) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

func symlink(t testing.TB, text, name string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(text, name); err != nil {
		t.Fatal(err)
	}
}

// contents gets k and returns its bytes.
func contents(t testing.TB, s Source, k Key) []byte {
	t.Helper()
	f, err := s.Get(t.Context(), k)
	if err != nil {
		t.Fatalf("Get(%v): %v", k, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size))
	if err != nil || int64(len(b)) != f.Size {
		t.Fatalf("Get(%v): %d of %d bytes: %v", k, len(b), f.Size, err)
	}
	return b
}

// refused gets k and returns the reasons why there is none.
func refused(t testing.TB, s Source, k Key) []Reason {
	t.Helper()
	f, err := s.Get(t.Context(), k)
	if err == nil {
		f.Close()
		t.Fatalf("Get(%v): %s, want none", k, f.Origin)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Get(%v): error %v does not wrap fs.ErrNotExist", k, err)
	}
	var rs []Reason
	for _, r := range Refusals(err) {
		rs = append(rs, r.Reason)
	}
	return rs
}

// testSource is what every Source must do, for a key that it has.
func testSource(t *testing.T, s Source, k Key, want []byte) {
	t.Helper()
	if got := contents(t, s, k); !bytes.Equal(got, want) {
		t.Errorf("Get(%v): %d bytes, want the %d of the file", k, len(got), len(want))
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			f, err := s.Get(context.Background(), k)
			if err != nil {
				t.Errorf("Get(%v): %v", k, err)
				return
			}
			b := make([]byte, f.Size)
			if _, err := f.ReadAt(b, 0); err != nil || !bytes.Equal(b, want) {
				t.Errorf("ReadAt: %v, or other bytes", err)
			}
			if f.Origin == "" {
				t.Error("Origin is empty")
			}
			if err := f.Unchanged(); err != nil {
				t.Error(err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, other := range []Key{
		{Kind: k.Kind, ID: testID(0xee, 20), Path: "/no/such/file", PID: 1 << 22},
		{Kind: "nonsense", ID: k.ID, Path: k.Path},
		{Kind: k.Kind},
		{},
	} {
		f, err := s.Get(t.Context(), other)
		if err == nil {
			f.Close()
			t.Errorf("Get(%v) yields %s", other, f.Origin)
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Get(%v): error %v does not wrap fs.ErrNotExist", other, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if f, err := s.Get(ctx, k); !errors.Is(err, context.Canceled) {
		t.Errorf("Get with a context that is done: %v, %v", f, err)
	}
}

func crc(b []byte) uint32 { return crc32.ChecksumIEEE(b) }
