package dwarf_test

import (
	"testing"

	"github.com/perfark/perfark/dwarf"
)

// fuzzSection fuzzes one section of a small file with all kinds of entries.
func fuzzSection(f *testing.F, name string, seeds ...[]byte) {
	for _, s := range seeds {
		f.Add(s, false)
	}
	m := function(new(asm).uleb(3).u32(0x1d).u8(0).uleb(4, 0).u64(0x1000).b, func(a *asm) {
		a.abbrev(3, 0x1d, 0, aOrigin, fRef4, aRanges, fRnglistx)
		a.abbrev(4, 0x2e, 0, aLinkage, 0x1a, aLow, fAddr, aHigh, 0x21, 0x10)
	})
	m[".debug_rnglists"] = rnglist(2)
	m[".debug_str_offsets"] = new(asm).u32(8).u16(5).u16(0).u32(1).b
	m[".debug_str"] = []byte("\x00_Z1fv\x00")
	if b := m[name]; b != nil {
		f.Add(b, false)
	}
	f.Fuzz(func(t *testing.T, b []byte, big bool) {
		n := map[string][]byte{}
		for k, v := range m {
			n[k] = v
		}
		n[name] = b
		d, err := dwarf.New(sections(n), dwarf.Options{Big: big})
		if err != nil {
			return
		}
		for _, a := range []uint64{0, 0x1000, 0x1008, 0x1010, 1 << 63} {
			d.Frames(a, nil)
		}
		d.Functions(func(dwarf.Func) bool { return true })
	})
}

func FuzzInfo(f *testing.F) {
	for v := range byte(6) {
		b := function(nil, nil)[".debug_info"]
		b[4] = v
		f.Add(b, v == 3)
	}
	fuzzSection(f, ".debug_info")
}

func FuzzAbbrev(f *testing.F) { fuzzSection(f, ".debug_abbrev") }

func FuzzLine(f *testing.F) {
	old := new(asm).u32(40).u16(3).u32(20).u8(1, 1, 0xfb, 14, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1)
	old.str("d").u8(0).str("a.c").u8(1, 0, 0, 0).u8(0, 9, 2).u64(0x1000).u8(1, 2, 9, 0, 1, 1)
	fuzzSection(f, ".debug_line", old.b)
}

func FuzzRnglists(f *testing.F) {
	fuzzSection(f, ".debug_rnglists", new(asm).u32(0).u16(5).u8(8, 0).u32(1).u32(4).u8(5).u64(0x1000).u8(7).u64(4).uleb(9).u8(6).u64(1).u64(2).u8(1, 0, 2, 0, 1, 3, 0, 9, 0).b)
}

func FuzzStrOffsets(f *testing.F) { fuzzSection(f, ".debug_str_offsets") }

func FuzzStr(f *testing.F) { fuzzSection(f, ".debug_str") }

// FuzzRanges fuzzes .debug_ranges with a unit of version 4.
func FuzzRanges(f *testing.F) {
	f.Add(new(asm).u64(0x10).u64(0x20).u64(1<<64-1).u64(0x1000).u64(0).u64(8).u64(0).u64(0).b, false)
	f.Fuzz(func(t *testing.T, b []byte, big bool) {
		m := map[string][]byte{".debug_ranges": b}
		m[".debug_abbrev"] = new(asm).abbrev(1, 0x11, 1, aLow, fAddr, aRanges, fSec).abbrev(2, 0x2e, 0, aRanges, fSec).u8(0).b
		body := new(asm).u16(4).u32(0).u8(8).uleb(1).u64(0x1000).u32(0).uleb(2).u32(0).u8(0)
		m[".debug_info"] = append(new(asm).u32(uint32(len(body.b))).b, body.b...)
		d, err := dwarf.New(sections(m), dwarf.Options{Big: big})
		if err != nil {
			t.Fatal(err)
		}
		d.Frames(0x1010, nil)
	})
}

// FuzzIndex fuzzes the index of a .dwp file.
func FuzzIndex(f *testing.F) {
	x := new(asm).u16(5).u16(0).u32(4).u32(1).u32(2).u64(42).u64(0).u32(1).u32(0).u32(1).u32(3).u32(6).u32(8)
	x.u32(0).u32(0).u32(0).u32(0).u32(64).u32(16).u32(16).u32(16)
	f.Add(x.b, false)
	f.Fuzz(func(t *testing.T, b []byte, big bool) {
		m := map[string][]byte{".debug_abbrev": new(asm).abbrev(1, 0x4a, 0, aLow, fAddr, aHigh, fData4).u8(0).b}
		m[".debug_info"] = new(asm).u32(29).u16(5).u8(4, 8).u32(0).u64(42).uleb(1).u64(0x1000).u32(0x10).b
		p := map[string][]byte{".debug_cu_index": b, ".debug_abbrev.dwo": new(asm).abbrev(1, 0x11, 0).u8(0).b}
		p[".debug_info.dwo"] = new(asm).u32(17).u16(5).u8(5, 8).u32(0).u64(42).uleb(1).u64(0).b
		d, err := dwarf.New(sections(m), dwarf.Options{Split: func(dwarf.SplitUnit) (*dwarf.Data, error) {
			return dwarf.New(sections(p), dwarf.Options{DWO: true, Big: big})
		}})
		if err != nil {
			t.Fatal(err)
		}
		d.Frames(0x1001, nil)
	})
}
