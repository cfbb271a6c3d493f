package objfile

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/perfark/perfark/dwarf"
	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/internal/perftest"
)

// compressed is a section in the form of SHF_COMPRESSED.
func compressedSection(name string, typ uint32, size uint64, data []byte) testSection {
	var h []byte
	h = binary.LittleEndian.AppendUint32(h, typ)
	h = binary.LittleEndian.AppendUint32(h, 0)
	h = binary.LittleEndian.AppendUint64(h, size)
	h = binary.LittleEndian.AppendUint64(h, 1)
	return testSection{name: name, section: section{typ: shtProgbits, flags: shfCompressed}, data: append(h, data...)}
}

func zlibOf(r io.Reader) []byte {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	io.Copy(w, r)
	w.Close()
	return b.Bytes()
}

func zstdOf(t *testing.T, r io.Reader) []byte {
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(w, r)
	w.Close()
	return b.Bytes()
}

type onlyZeros struct{}

func (onlyZeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// TestDWARFCompressed covers the recipes r02, r03, r15, r18 and r19: sections that
// decompress to more than the file is worth, or to other than they say.
func TestDWARFCompressed(t *testing.T) {
	const mb = 1 << 20
	small := zlibOf(bytes.NewReader(make([]byte, 100)))
	nine := func() []testSection {
		z := zlibOf(io.LimitReader(onlyZeros{}, 64*mb))
		var s []testSection
		for _, n := range []string{"info", "abbrev", "str", "line", "line_str", "ranges", "rnglists", "addr", "str_offsets"} {
			s = append(s, compressedSection(".debug_"+n, compressZlib, 64*mb, z))
		}
		return s
	}
	old := append([]byte("ZLIB\x10\x00\x00\x00\x00\x00\x00\x00"), small...)
	tests := []struct {
		name  string
		secs  []testSection
		limit bool // the error is a *decode.LimitError
		want  string
	}{
		{"r02 zlib bomb", []testSection{compressedSection(".debug_info", compressZlib, 512*mb, zlibOf(io.LimitReader(onlyZeros{}, 8*mb)))}, true, "wants 536870912"},
		{"r03 size 2^40", []testSection{compressedSection(".debug_info", compressZlib, 1<<40, small)}, true, "wants 1099511627776"},
		{"size 2^63", []testSection{compressedSection(".debug_info", compressZlib, 1<<63, small)}, true, ""},
		{"r15 zstd bomb", []testSection{compressedSection(".debug_info", compressZstd, 256*mb, zstdOf(t, io.LimitReader(onlyZeros{}, 64*mb)))}, true, "wants 268435456"},
		{"r18 zdebug size 2^60", []testSection{{name: ".zdebug_info", section: section{typ: shtProgbits}, data: old}}, true, "wants 1152921504606846976"},
		{"r19 nine bombs", nine(), false, "length 0x0"},
		{"too little", []testSection{compressedSection(".debug_info", compressZlib, 101, small)}, false, "wrong size: 100 bytes, want 101"},
		{"bomb that says it is small", []testSection{compressedSection(".debug_info", compressZlib, 99, zlibOf(io.LimitReader(onlyZeros{}, 64*mb)))}, false, "more than 99 bytes"},
		{"too much", []testSection{compressedSection(".debug_info", compressZlib, 99, small)}, false, "wrong size: more than 99 bytes"},
		{"zstd too little", []testSection{compressedSection(".debug_info", compressZstd, 101, zstdOf(t, bytes.NewReader(make([]byte, 100))))}, false, "holds 100 bytes"},
		{"zstd too much", []testSection{compressedSection(".debug_info", compressZstd, 99, zstdOf(t, bytes.NewReader(make([]byte, 100))))}, false, "holds more than the 99 bytes"},
		{"cut off", []testSection{compressedSection(".debug_info", compressZlib, 100, small[:len(small)-2])}, false, "unexpected EOF"},
		{"damaged", []testSection{compressedSection(".debug_info", compressZlib, 100, append(bytes.Clone(small[:len(small)-1]), 9))}, false, "checksum"},
		{"unknown type", []testSection{compressedSection(".debug_info", 77, 100, small)}, false, "ch_type is 77"},
		{"no header", []testSection{{name: ".debug_info", section: section{typ: shtProgbits, flags: shfCompressed}, data: []byte{1, 0, 0}}}, false, "ch_type"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := testELF{typ: TypeDyn, machine: MachineX86_64, sections: tt.secs}
			f := openBytes(t, e.bytes())
			d, err := f.DWARF(DWARFOptions{})
			if err == nil {
				_, err = d.Frames(0x1000, nil)
			}
			var l *decode.LimitError
			if err == nil || errors.As(err, &l) != tt.limit || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestDWARFNone(t *testing.T) {
	e := program(testELF{}, 0x1000, 64)
	f := openBytes(t, e.bytes())
	if _, err := f.DWARF(DWARFOptions{}); !errors.Is(err, dwarf.ErrNoInfo) {
		t.Errorf("error %v, want %v", err, dwarf.ErrNoInfo)
	}
}

// TestDWARFRelocations covers r13, r14 and E16: relocations out of the section, of
// symbols that are not there.
func TestDWARFRelocations(t *testing.T) {
	rela := func(off uint64, sym, typ uint32, add uint64) []byte {
		b := binary.LittleEndian.AppendUint64(nil, off)
		b = binary.LittleEndian.AppendUint64(b, uint64(sym)<<32|uint64(typ))
		return binary.LittleEndian.AppendUint64(b, add)
	}
	var rel []byte
	for _, off := range []uint64{math.MaxUint64, math.MaxUint64 - 7, 1 << 63, 57, 64, 1 << 20} {
		for _, typ := range []uint32{0, 1, 10, 11, 12, 999} {
			rel = append(rel, rela(off, math.MaxUint32, typ, math.MaxUint64)...)
			rel = append(rel, rela(off, 1, typ, 5)...)
		}
	}
	e := testELF{typ: TypeRel, machine: MachineX86_64, sections: []testSection{
		{name: ".debug_info", section: section{typ: shtProgbits}, data: make([]byte, 64)},
		{name: ".rela.debug_info", section: section{typ: shtRela, info: 1, link: 3}, data: append(rel, 1, 2, 3)},
		{name: ".symtab", section: section{typ: shtSymtab}, data: make([]byte, 24)},
		{name: ".rel.debug_info", section: section{typ: shtRel, info: 1, link: math.MaxUint32}, data: rel},
	}}
	f := openBytes(t, e.bytes())
	d, err := f.DWARF(DWARFOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Frames(0, nil); err == nil || !strings.Contains(err.Error(), "length 0x0") {
		t.Errorf("error %v", err)
	}
}

// TestAddress converts offsets of the file that was mapped: of lld's layout, where
// address and offset differ, and where two segments have one page of the file.
func TestAddress(t *testing.T) {
	f := &File{typ: TypeDyn, loads: []segment{
		{typ: ptLoad, flags: 4, off: 0, vaddr: 0, filesz: 0x6a0, memsz: 0x6a0},
		{typ: ptLoad, flags: 5, off: 0x6a0, vaddr: 0x16a0, filesz: 0x1f0, memsz: 0x1f0},
		{typ: ptLoad, flags: 6, off: 0x800, vaddr: 0x3800, filesz: 0x900, memsz: 0x2000},
	}}
	for _, tt := range []struct {
		off, addr uint64
		ok        bool
	}{{0x10, 0x10, true}, {0x6a0, 0x16a0, true}, {0x850, 0x1850, true}, {0x890, 0x3890, true}, {0x1100, 0, false}} {
		if addr, ok := f.Address(tt.off); addr != tt.addr || ok != tt.ok {
			t.Errorf("offset %#x: %#x, %t, want %#x, %t", tt.off, addr, ok, tt.addr, tt.ok)
		}
	}
	f = &File{typ: TypeRel}
	if addr, ok := f.Address(0x77); addr != 0x77 || !ok {
		t.Errorf("relocatable: %#x, %t", addr, ok)
	}
}

// TestPartlyKept: debug information that is decompressed in parts says the same
// as if it were kept, and damage is noticed.
func TestPartlyKept(t *testing.T) {
	prog := perftest.CC(t, "parts", "#include <stdlib.h>\nstatic inline int twice(int x) { return x + x; }\nint main(int c, char **v) { return twice(c) + twice(atoi(v[0])); }\n", "-O2", "-g", "-gz=zlib")
	raw, err := os.ReadFile(prog)
	if err != nil {
		t.Fatal(err)
	}
	all := func(raw []byte, partly uint64) (out []string, warnings []string, err error) {
		f, err := Open(bytes.NewReader(raw), int64(len(raw)), "parts", nil)
		if err != nil {
			t.Fatal(err)
		}
		s := &debugSections{f: f, partly: partly}
		d, err := dwarf.New(s.section, dwarf.Options{Budget: f.budget})
		if err != nil {
			return nil, nil, err
		}
		err = d.Functions(func(fn dwarf.Func) bool {
			for a := fn.Start; a < fn.End; a++ {
				frames, err := d.Frames(a, nil)
				out = append(out, fmt.Sprint(a, frames, err))
			}
			return true
		})
		return out, d.Warnings(), err
	}
	want, _, err := all(raw, math.MaxUint64)
	if err != nil || len(want) == 0 {
		t.Fatalf("%d lines, %v", len(want), err)
	}
	got, warnings, err := all(raw, 0)
	if err != nil || !slices.Equal(got, want) || len(warnings) > 0 {
		t.Errorf("in parts: %v, %v, and it is the same: %v", err, warnings, slices.Equal(got, want))
	}
	f, err := Open(bytes.NewReader(raw), int64(len(raw)), "parts", nil)
	if err != nil {
		t.Fatal(err)
	}
	info := f.section(".debug_info")
	raw[info.off+info.size-1] ^= 1 // of the checksum
	for _, partly := range []uint64{math.MaxUint64, 0} {
		if got, _, err := all(raw, partly); err == nil {
			t.Errorf("partly %d: %d lines of damaged debug information", partly, len(got))
		}
	}
}
