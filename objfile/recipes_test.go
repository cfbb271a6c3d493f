package objfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/internal/decode"
)

// hostileBase is a library without sections.
func hostileBase() testELF {
	return testELF{typ: TypeDyn, machine: MachineX86_64, segments: []segment{{typ: ptLoad, flags: pfExec, vaddr: 0x1000, filesz: 0x10000, memsz: 0x10000}}}
}

// TestHostileStrings is E7: strings without an end, and names behind the end.
func TestHostileStrings(t *testing.T) {
	e := program(hostileBase(), 0x1100, 64, testSym{name: "first", value: 0x1100, size: 8, info: fn, shndx: 1}, testSym{name: "last", value: 0x1110, size: 8, info: fn, shndx: 1})
	tab, str := e.sections[1].data, e.sections[2].data
	e.sections[2].data = str[:len(str)-1] // without the last NUL
	f := openBytes(t, e.bytes())
	got, err := f.Symbols(SymbolOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s, _ := got.Lookup(0x110); s.Name != "last" {
		t.Errorf("without an end: got %+v", s)
	}
	for _, name := range []uint32{uint32(len(str)), 1 << 20, 1<<32 - 1} {
		binary.LittleEndian.PutUint32(tab[24:], name)
		got, err := openBytes(t, e.bytes()).Symbols(SymbolOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := got.Lookup(0x100); ok {
			t.Errorf("name at %#x: got %+v", name, s)
		}
		if s, _ := got.Lookup(0x110); s.Name != "last" {
			t.Errorf("name at %#x: the other symbol is %+v", name, s)
		}
	}
}

// TestHostileHash is E11: hash tables that count symbols wrongly, in files
// without sections.
func TestHostileHash(t *testing.T) {
	le := binary.LittleEndian
	words := func(v ...uint32) (b []byte) {
		for _, x := range v {
			b = le.AppendUint32(b, x)
		}
		return b
	}
	for name, tt := range map[string]struct {
		tag  uint64
		hash []byte
	}{
		"DT_HASH, 2^32-1 symbols":      {dtHash, words(1, 1<<32-1, 0)},
		"DT_HASH, none":                {dtHash, words(0, 0)},
		"DT_HASH, cut":                 {dtHash, nil},
		"DT_GNU_HASH, no buckets":      {dtGNUHash, words(0, 1, 1, 0, 0, 0)},
		"DT_GNU_HASH, 2^31 of bloom":   {dtGNUHash, words(1, 1, 1<<31, 0, 0, 0)},
		"DT_GNU_HASH, 2^32-1 buckets":  {dtGNUHash, words(1<<32-1, 1, 1, 0, 0, 0)},
		"DT_GNU_HASH, bucket far away": {dtGNUHash, words(1, 1, 1, 0, 0, 0, 1<<32-1, 1)},
		"DT_GNU_HASH, before symbols":  {dtGNUHash, words(1, 1<<31, 1, 0, 0, 0, 5, 1)},
		"DT_GNU_HASH, no end of chain": {dtGNUHash, append(words(1, 1, 1, 0, 0, 0, 1), bytes.Repeat([]byte{2, 0, 0, 0}, 0x2000)...)},
	} {
		e := hostileBase()
		e.noShdr = true
		e.segments = append(e.segments, segment{typ: ptDynamic, off: 0x400, vaddr: 0x1400, filesz: 0x100})
		b := append(e.bytes(), make([]byte, 0x10000)...)
		dyn := b[0x400:]
		for i, d := range [][2]uint64{{dtSymtab, 0x1600}, {dtStrtab, 0x1800}, {dtStrsz, 0x10}, {tt.tag, 0x1900}} {
			le.PutUint64(dyn[16*i:], d[0])
			le.PutUint64(dyn[16*i+8:], d[1])
		}
		copy(b[0x900:], tt.hash)
		bounded(t, name, len(b), func() {
			f := openBytes(t, b)
			if _, err := f.Symbols(SymbolOptions{}); err == nil {
				t.Errorf("%s: there are symbols", name)
			}
		})
	}
}

// TestHostileBody is E15: the header says another class, byte order or machine
// than the body has.
func TestHostileBody(t *testing.T) {
	e := program(hostileBase(), 0x1100, 64, testSym{name: "x", value: 0x1100, size: 8, info: fn, shndx: 1})
	whole := e.bytes()
	for _, class := range []byte{1, 2} {
		for _, order := range []byte{1, 2} {
			for _, machine := range []uint16{0, 8, 21, 22, 40, 183, 243, 0xffff} {
				b := bytes.Clone(whole)
				b[4], b[5] = class, order
				binary.LittleEndian.PutUint16(b[18:], machine)
				what := fmt.Sprintf("class %d, order %d, machine %d", class, order, machine)
				bounded(t, what, len(b), func() { use(b) })
				if class == 2 && order == 1 {
					continue // the body is what the header says
				}
				f, err := Open(bytes.NewReader(b), int64(len(b)), "f", nil)
				if err != nil {
					continue
				}
				if tab, err := f.Symbols(SymbolOptions{}); err == nil {
					if s, ok := tab.Lookup(0x100); ok {
						t.Errorf("%s: got %+v", what, s)
					}
				}
			}
		}
	}
}

// TestHostileRelocations is E16: relocations of stubs with offsets and symbols
// out of everything.
func TestHostileRelocations(t *testing.T) {
	le := binary.LittleEndian
	n := 500_000 / raceFactor
	for name, entry := range map[string][2]uint64{
		"r13 offset":   {1<<64 - 1, 1<<32 | 7},
		"r14 symbol":   {0x2000, 1<<64 - 1},
		"one slot":     {0x2000, 1<<32 | 7},
		"no symbol":    {0x2000, 7},
		"of an ifunc":  {0x2000, 37},
		"far resolver": {0x2000, 37},
	} {
		e := hostileBase()
		dyn, str := e.symtab(testSym{name: strings.Repeat("A", 1<<20), info: fn})
		rela := make([]byte, 0, 24*n)
		for i := range n {
			rela = le.AppendUint64(rela, entry[0])
			rela = le.AppendUint64(rela, entry[1])
			rela = le.AppendUint64(rela, uint64(i)*0x1001)
		}
		e.sections = []testSection{
			{name: ".plt", section: section{typ: shtProgbits, flags: shfAlloc | shfExec, addr: 0x1800}, data: bytes.Repeat([]byte{0xff, 0x25, 0xfa, 0x07, 0, 0, 0x68, 0}, 1000)},
			{name: ".dynsym", section: section{typ: shtDynsym, flags: shfAlloc, link: 3, entsize: 24}, data: dyn},
			{name: ".dynstr", section: section{typ: 3, flags: shfAlloc}, data: str},
			{name: ".rela.plt", section: section{typ: shtRela, flags: shfAlloc, link: 2}, data: rela},
		}
		b := e.bytes()
		bounded(t, name, len(b), func() {
			f := openBytes(t, b)
			tab, err := f.Symbols(SymbolOptions{})
			if err != nil {
				return
			}
			at := f.section(".plt").off
			for i := range uint64(1000) {
				if s, ok := tab.Lookup(at + 8*i); ok && len(s.Name) > maxSynthName+16 {
					t.Errorf("%s: a name of %d bytes", name, len(s.Name))
				}
			}
		})
	}
}

// A shrinking file has fewer bytes than it said.
type shrinking struct {
	b     []byte
	reads int
}

func (s *shrinking) ReadAt(p []byte, off int64) (int, error) {
	if s.reads--; s.reads < 0 {
		s.b = s.b[:min(len(s.b), 64)]
	}
	return bytes.NewReader(s.b).ReadAt(p, off)
}

// TestHostileShrinking is E19: a file that is cut while it is read.
func TestHostileShrinking(t *testing.T) {
	e := program(hostileBase(), 0x1100, 64, testSym{name: "x", value: 0x1100, size: 8, info: fn, shndx: 1})
	b := e.bytes()
	for reads := range 30 {
		f, err := Open(&shrinking{b, reads}, int64(len(b)), "f", nil)
		if err != nil {
			continue
		}
		f.Section(".symtab")
		f.TextHash()
		if tab, err := f.Symbols(SymbolOptions{}); err == nil {
			if s, ok := tab.Lookup(0x100); ok && s.Name != "x" && s.Name != "" {
				t.Errorf("after %d reads: got %+v", reads, s)
			}
		}
	}
}

// TestHostilePolyglot is E20: an ELF file that is a zip archive too is an ELF
// file.
func TestHostilePolyglot(t *testing.T) {
	e := program(hostileBase(), 0x1100, 64, testSym{name: "x", value: 0x1100, size: 8, info: fn, shndx: 1})
	b := aligned(t, e.bytes(), "lib/libX.so", fuzzSeeds()[0])
	if !IsObject(bytes.NewReader(b)) {
		t.Error("no object")
	}
	tab, err := openBytes(t, b).Symbols(SymbolOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s, _ := tab.Lookup(0x100); s.Name != "x" {
		t.Errorf("got %+v", s)
	}
}

// TestHostileIDs is E22, and what E9 leaves: ids of odd sizes.
func TestHostileIDs(t *testing.T) {
	note := func(id []byte) []byte {
		le := binary.LittleEndian
		b := le.AppendUint32(nil, 4)
		b = le.AppendUint32(b, uint32(len(id)))
		b = append(le.AppendUint32(b, 3), "GNU\x00"...)
		b = append(b, id...)
		return append(b, make([]byte, -len(id)&3)...)
	}
	for _, tt := range []struct {
		id   []byte
		want buildid.ID
	}{
		{nil, ""},
		{[]byte{7}, "\x07"},
		{make([]byte, 20), ""}, // zeros are none
		{bytes.Repeat([]byte{0xab}, 20), buildid.ID(strings.Repeat("\xab", 20))},
		{bytes.Repeat([]byte{0xab}, 64), buildid.ID(strings.Repeat("\xab", 64))},
		{bytes.Repeat([]byte{0xab}, 255), ""},
		{bytes.Repeat([]byte{0xab}, 1<<20), ""},
	} {
		e := hostileBase()
		e.sections = []testSection{{name: ".note.gnu.build-id", section: section{typ: shtNote, flags: shfAlloc, addralign: 4}, data: note(tt.id)}}
		b := e.bytes()
		bounded(t, fmt.Sprintf("id of %d bytes", len(tt.id)), len(b), func() {
			f := openBytes(t, b)
			if f.BuildID() != tt.want {
				t.Errorf("%d bytes: got %q, want %q", len(tt.id), f.BuildID(), tt.want)
			}
		})
	}
}

// TestHostileCompression is C2, C3, C5 and C10: bombs of all kinds, sizes that
// lie, and a file with nine bombs, which has one budget.
func TestHostileCompression(t *testing.T) {
	le := binary.LittleEndian
	var zl bytes.Buffer
	w, _ := zlib.NewWriterLevel(&zl, zlib.BestSpeed)
	zeros := make([]byte, 32<<20) // nine are over any limit
	w.Write(zeros)
	w.Close()
	enc, _ := zstd.NewWriter(nil)
	zs := enc.EncodeAll(zeros, nil)
	small := enc.EncodeAll(make([]byte, 1000), nil)
	section9 := func(typ uint32, size uint64, data []byte) []byte {
		e := hostileBase()
		for i := range 9 {
			h := le.AppendUint64(le.AppendUint64(le.AppendUint32(le.AppendUint32(nil, typ), 0), size), 1)
			e.sections = append(e.sections, testSection{name: fmt.Sprintf(".debug_%d", i), section: section{typ: shtProgbits, flags: shfCompressed}, data: append(h, data...)})
		}
		return e.bytes()
	}
	for name, b := range map[string][]byte{
		"C10 nine zlib bombs": section9(compressZlib, uint64(len(zeros)), zl.Bytes()),
		"C10 nine zstd bombs": section9(compressZstd, uint64(len(zeros)), zs),
		"C5 too small":        section9(compressZstd, 10, small),
		"C5 too large":        section9(compressZstd, 2000, small),
		"C5 none":             section9(compressZstd, 0, small),
		"C5 2^63":             section9(compressZstd, 1<<63, small),
		"r18 unknown type":    section9(77, 1000, small),
	} {
		bounded(t, name, len(b), func() {
			f := openBytes(t, b)
			got, failed := 0, 0
			for i := range 9 {
				out, err := f.Section(fmt.Sprintf(".debug_%d", i))
				got += len(out)
				if err != nil {
					failed++
				}
			}
			if most := len(b)*maxRatio + maxGrowth; got > most {
				t.Errorf("%s: %d bytes out of %d", name, got, len(b))
			}
			if failed == 0 {
				t.Errorf("%s: no error", name)
			}
		})
	}
	// C3: a window of 2^41 bytes; C2: a dictionary of 4 GiB.
	wide := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 31 << 3, 1, 0, 0}
	files := map[string][]byte{"C3 window": append(wide, make([]byte, 100)...)}
	if out, err := exec.Command("sh", "-c", "head -c 67108864 /dev/zero | xz -c -0").Output(); err == nil {
		files["C2 xz bomb"] = out
		d := bytes.Clone(out)
		d[12+4] = 40 // the filter's properties: 4 GiB
		files["C2 dictionary"] = d
	}
	files["C2 LZMA alone"] = append([]byte{0x5d, 0xff, 0xff, 0xff, 0xff}, make([]byte, 100)...)
	for name, b := range files {
		bounded(t, name, len(b), func() {
			r, n, err := Decompress(bytes.NewReader(b), int64(len(b)), decode.NewBudget(decode.Limits{Bytes: 32 << 20}))
			if err == nil && n > 32<<20 {
				t.Errorf("%s: %d bytes", name, n)
			}
			if err == nil && r != nil {
				io.Copy(io.Discard, io.NewSectionReader(r, 0, n))
			}
		})
	}
}
