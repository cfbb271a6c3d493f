package dwarf_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/perfark/perfark/dwarf"
)

// An asm writes little-endian sections.
type asm struct{ b []byte }

func (a *asm) u8(v ...uint8) *asm { a.b = append(a.b, v...); return a }
func (a *asm) u16(v uint16) *asm  { a.b = binary.LittleEndian.AppendUint16(a.b, v); return a }
func (a *asm) u32(v uint32) *asm  { a.b = binary.LittleEndian.AppendUint32(a.b, v); return a }
func (a *asm) u64(v uint64) *asm  { a.b = binary.LittleEndian.AppendUint64(a.b, v); return a }
func (a *asm) uleb(v ...uint64) *asm {
	for _, v := range v {
		a.b = binary.AppendUvarint(a.b, v)
	}
	return a
}
func (a *asm) str(s string) *asm { a.b = append(append(a.b, s...), 0); return a }

// abbrevs writes abbreviations: code, tag, children, attributes and forms, as
// they stand in the section.
func (a *asm) abbrev(code, tag uint64, kids uint8, attrs ...uint64) *asm {
	a.uleb(code, tag).u8(kids)
	return a.uleb(attrs...).u8(0, 0)
}

// unit writes a unit of version 5 whose entries are body.
func (a *asm) unit(abbrev uint32, body []byte) *asm {
	a.u32(uint32(8+len(body))).u16(5).u8(1, 8).u32(abbrev)
	a.b = append(a.b, body...)
	return a
}

// lineProgram writes a line table of version 5 with one directory and one
// file.
func (a *asm) lineProgram(prog []byte) *asm {
	var h asm
	h.u8(1, 1, 1, 0xfb, 14, 13).u8(0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1)
	h.u8(1).uleb(1, 8).uleb(1).str("/src")
	h.u8(2).uleb(1, 8, 2, 0xb).uleb(2).str("a.c").u8(0).str("a.c").u8(0)
	a.u32(uint32(2+2+4+len(h.b)+len(prog))).u16(5).u8(8, 0).u32(uint32(len(h.b)))
	a.b = append(append(a.b, h.b...), prog...)
	return a
}

// Attributes and forms that the tests use.
const (
	aName, aStmt, aLow, aHigh, aLinkage, aOrigin, aRanges, aSibling = 0x03, 0x10, 0x11, 0x12, 0x6e, 0x31, 0x55, 0x01

	fAddr, fData4, fData8, fString, fStrp, fRef4, fSec, fRnglistx, fUdata, fIndirect, fBlock = 0x01, 0x06, 0x07, 0x08, 0x0e, 0x13, 0x17, 0x23, 0x0f, 0x16, 0x09
)

// sections serves sections from memory.
func sections(m map[string][]byte) dwarf.Sections {
	return func(name string) (dwarf.Section, error) { return dwarf.Section{Data: m[name]}, nil }
}

// measured runs f with what it may cost: 2 CPU seconds, and 64 MiB and three
// times the input's bytes.
func measured(t *testing.T, m map[string][]byte, f func(d *dwarf.Data)) {
	t.Helper()
	input := 0
	for _, b := range m {
		input += len(b)
	}
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	stop, done := make(chan bool), make(chan uint64)
	go func() {
		var peak uint64
		for {
			select {
			case <-stop:
				done <- peak
				return
			case <-time.After(2 * time.Millisecond):
				var s runtime.MemStats
				runtime.ReadMemStats(&s)
				peak = max(peak, s.HeapInuse)
			}
		}
	}()
	cpu := cpuTime()
	d, err := dwarf.New(sections(m), dwarf.Options{Name: "hostile"})
	if err == nil {
		f(d)
	}
	used := cpuTime() - cpu
	close(stop)
	peak := int64(<-done) - int64(before.HeapInuse)
	t.Logf("%d bytes: %v CPU, %d KiB", input, used, peak>>10)
	if raceEnabled {
		return
	}
	if used > 2*time.Second {
		t.Errorf("%v CPU, want 2 s", used)
	}
	if limit := int64(64<<20 + 3*input); peak > limit {
		t.Errorf("%d bytes of memory, want %d", peak, limit)
	}
}

func cpuTime() time.Duration {
	var r syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// ask asks for addresses and for all functions.
func ask(t *testing.T, addrs ...uint64) func(d *dwarf.Data) {
	return func(d *dwarf.Data) {
		for _, a := range addrs {
			d.Frames(a, nil)
		}
		d.Functions(func(dwarf.Func) bool { return true })
		if len(d.Warnings()) > 16 {
			t.Errorf("%d warnings", len(d.Warnings()))
		}
	}
}

// function is a unit of one function at 0x1000 with a line table, and room for
// entries below it.
func function(below []byte, abbrevs func(a *asm)) map[string][]byte {
	var ab asm
	ab.abbrev(1, 0x11, 1, aStmt, fSec, aLow, fAddr, aHigh, fData4)
	ab.abbrev(2, 0x2e, 1, aName, fString, aLow, fAddr, aHigh, fData4)
	if abbrevs != nil {
		abbrevs(&ab)
	}
	ab.u8(0)
	var body, info, line asm
	body.uleb(1).u32(0).u64(0x1000).u32(0x1000)
	body.uleb(2).str("f").u64(0x1000).u32(0x1000)
	body.b = append(body.b, below...)
	body.u8(0, 0)
	info.unit(0, body.b)
	line.lineProgram(append(append([]byte{0, 9, 2}, binary.LittleEndian.AppendUint64(nil, 0x1000)...), 0x1, 2, 0x80, 0x20, 0, 1, 1))
	return map[string][]byte{".debug_info": info.b, ".debug_abbrev": ab.b, ".debug_line": line.b}
}

func frame(name, file string, line int) dwarf.Frame {
	return dwarf.Frame{Name: name, File: file, Line: line, Start: 0x1000}
}

// one returns the only frame at an address.
func one(t *testing.T, m map[string][]byte, addr uint64) dwarf.Frame {
	t.Helper()
	d, err := dwarf.New(sections(m), dwarf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	fs, err := d.Frames(addr, nil)
	if err != nil || len(fs) != 1 {
		t.Fatalf("%d frames, %v: want one", len(fs), err)
	}
	return fs[0]
}

func TestFunction(t *testing.T) {
	if got, want := one(t, function(nil, nil), 0x1010), frame("f", "/src/a.c", 1); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestHostile runs the recipes for DWARF of the threat model: nothing panics,
// nothing takes long or much.
func TestHostile(t *testing.T) {
	t.Run("r04 directories 2^33", func(t *testing.T) { hostileTables(t, 1<<33, nil) })
	t.Run("r05 directories 2^62", func(t *testing.T) { hostileTables(t, 1<<62, nil) })
	t.Run("D1 255 formats without bytes", func(t *testing.T) { hostileTables(t, 1<<32, bytes.Repeat([]byte{1, 0x19}, 255)) })
	t.Run("r06 chain of 3 M types", func(t *testing.T) {
		var below asm
		for range 3_000_000 {
			below.u8(3).u32(uint32(len(below.b)))
		}
		m := function(below.b, func(a *asm) { a.abbrev(3, 0x16, 0, 0x49, fRef4) })
		measured(t, m, ask(t, 0x1010))
		if got := one(t, m, 0x1010); got.Name != "f" {
			t.Errorf("name %q", got.Name)
		}
	})
	t.Run("r07 4,000 names of 1 MiB", hostileStrings)
	t.Run("r08 indirect forms", func(t *testing.T) {
		below := append([]byte{3}, bytes.Repeat([]byte{fIndirect}, 4<<20)...)
		measured(t, function(below, func(a *asm) { a.abbrev(3, 0x34, 0, aName, fIndirect) }), ask(t, 0x1010))
	})
	t.Run("r09 overlapping abbreviations", hostileAbbrevs)
	t.Run("r12 16 M rows", func(t *testing.T) {
		m := function(nil, nil)
		prog := append([]byte{0, 9, 2}, binary.LittleEndian.AppendUint64(nil, 0x1000)...)
		prog = append(append(prog, bytes.Repeat([]byte{0x20}, 16<<20)...), 2, 1, 0, 1, 1)
		m[".debug_line"] = new(asm).lineProgram(prog).b
		measured(t, m, ask(t, 0x1010, 0x1fff))
	})
	t.Run("D2 line programs", hostileLines)
	t.Run("D3 codes", func(t *testing.T) {
		m := function(new(asm).uleb(1<<63).str("x").b, func(a *asm) {
			a.abbrev(1<<63, 0x34, 0, aName, fString).abbrev(2, 0x34, 0).abbrev(1<<63, 0x34, 0, aName, fBlock)
		})
		measured(t, m, ask(t, 0x1010))
		if got := one(t, m, 0x1010); got.Name != "f" {
			t.Errorf("name %q: a second abbreviation of the same code was taken", got.Name)
		}
	})
	t.Run("D4 string offsets", func(t *testing.T) {
		for _, i := range []uint64{1 << 32, 1 << 61, 1<<64 - 1} {
			m := function(new(asm).uleb(3, i).u64(0x1000).u32(0x10).b, func(a *asm) { a.abbrev(3, 0x2e, 0, aLinkage, 0x1a, aLow, fAddr, aHigh, fData4) })
			m[".debug_str_offsets"] = make([]byte, 64)
			measured(t, m, ask(t, 0x1001))
		}
	})
	t.Run("D6 origins in circles", func(t *testing.T) {
		start := uint32(12 + 1 + 4 + 8 + 4 + 1 + 2 + 8 + 4)
		for _, n := range []uint32{1, 2, 3, 50} {
			var below asm
			for i := range n {
				below.uleb(3).u32(start + (i+1)%n*17).u64(0x1000).u32(0x10)
			}
			m := function(below.b, func(a *asm) { a.abbrev(3, 0x1d, 0, aOrigin, fRef4, aLow, fAddr, aHigh, fData4) })
			measured(t, m, func(d *dwarf.Data) {
				fs, err := d.Frames(0x1001, nil)
				if err != nil || len(fs) != 2 || fs[0].Name != "" || fs[1].Name != "f" {
					t.Errorf("frames %+v, %v", fs, err)
				}
			})
		}
	})
	t.Run("D7 siblings backwards", func(t *testing.T) {
		for _, to := range []uint32{0, 1, 12, 30, 1 << 31, 1<<32 - 1} {
			m := function(nil, func(a *asm) { a.abbrev(3, 0x13, 1, aSibling, fRef4) })
			var body asm
			body.uleb(1).u32(0).u64(0x1000).u32(0x1000)
			body.uleb(3).u32(to).u8(0).uleb(2).str("f").u64(0x1000).u32(0x1000).u8(0, 0)
			m[".debug_info"] = new(asm).unit(0, body.b).b
			measured(t, m, ask(t, 0x1010))
			if got := one(t, m, 0x1010); got.Name != "f" {
				t.Errorf("sibling %#x: name %q", to, got.Name)
			}
		}
	})
	t.Run("D9 a million inlined into each other", func(t *testing.T) {
		var below asm
		for range 1_000_000 {
			below.u8(3).u8(0)
		}
		m := function(append(below.b, make([]byte, 1_000_000)...), func(a *asm) { a.abbrev(3, 0x1d, 1, aRanges, fRnglistx) })
		m[".debug_rnglists"] = rnglist(1)
		measured(t, m, func(d *dwarf.Data) {
			fs, err := d.Frames(0x1010, nil)
			if err != nil || len(fs) == 0 || len(fs) > 1024 || fs[len(fs)-1].Name != "f" {
				t.Errorf("%d frames, %v", len(fs), err)
			}
			if len(d.Warnings()) == 0 {
				t.Error("no warning")
			}
		})
	})
	t.Run("D9 a million beside each other", func(t *testing.T) {
		m := function(bytes.Repeat([]byte{3, 0}, 1_000_000), func(a *asm) { a.abbrev(3, 0x1d, 0, aRanges, fRnglistx) })
		m[".debug_rnglists"] = rnglist(1)
		measured(t, m, ask(t, 0x1010))
	})
	t.Run("D10 shared range lists", func(t *testing.T) {
		m := function(bytes.Repeat([]byte{3, 0}, 100_000), func(a *asm) { a.abbrev(3, 0x2e, 0, aRanges, fRnglistx) })
		m[".debug_rnglists"] = rnglist(300_000)
		measured(t, m, ask(t, 0x1010))
	})
	t.Run("D10 units over each other", func(t *testing.T) {
		m := function(nil, nil)
		m[".debug_info"] = bytes.Repeat(m[".debug_info"], 20_000)
		measured(t, m, ask(t, 0x1010, 0x1020, 0x1030))
	})
	t.Run("D11 headers", hostileHeaders)
	t.Run("D12 lengths and forms", func(t *testing.T) {
		for _, form := range []uint64{fBlock, 0x18, 0x15, 0x1c, 0x24, 0x1f20, 0x1f21, 0x1d, 0x1f01, 0x1f02, 0x1a, 0x1b, 0x22, 0x23, 0x20, 0x21, fIndirect, 0, 0x2d, 0xffff, 1 << 40} {
			for _, at := range []uint64{aName, aLinkage, aOrigin, aRanges, aHigh, aSibling} {
				below := new(asm).u8(3).uleb(1<<63, 1<<63).b
				m := function(below, func(a *asm) { a.abbrev(3, 0x1d, 1, at, form).abbrev(4, 0x13, 1, at, form, aSibling, form) })
				d, err := dwarf.New(sections(m), dwarf.Options{})
				if err != nil {
					t.Fatal(err)
				}
				ask(t, 0x1010)(d)
			}
		}
	})
	t.Run("D13 long numbers", func(t *testing.T) {
		long := append(bytes.Repeat([]byte{0x80}, 10_000), 0)
		below := append(append([]byte{3}, long...), 0)
		m := function(below, func(a *asm) { a.abbrev(3, 0x34, 0, 0x1c, fUdata) })
		measured(t, m, ask(t, 0x1010))
		if got := one(t, m, 0x1010); got.Name != "f" {
			t.Errorf("name %q", got.Name)
		}
		measured(t, function(bytes.Repeat([]byte{0x80}, 1<<20), nil), ask(t, 0x1010))
	})
	t.Run("D16 full index", hostileIndex)
	t.Run("D18 names", func(t *testing.T) {
		// The name goes to whoever prints it as it is, but not a megabyte of it.
		m := function(nil, nil)
		var ab asm
		ab.abbrev(1, 0x11, 0, aStmt, fSec, aLow, fAddr, aHigh, fData4, 0x1b, fString).u8(0)
		m[".debug_abbrev"] = ab.b
		m[".debug_info"] = new(asm).unit(0, new(asm).uleb(1).u32(0).u64(0x1000).u32(0x1000).str(strings.Repeat("d", 1<<20)).b).b
		measured(t, m, func(d *dwarf.Data) {
			fs, err := d.Frames(0x1010, nil)
			if err != nil || len(fs) != 1 || len(fs[0].File) > 65<<10 {
				t.Errorf("%d frames, %v", len(fs), err)
			}
		})
	})
}

// rnglist is a section with one list of n ranges over 0x1000.
func rnglist(n int) []byte {
	var a asm
	a.u32(0).u16(5).u8(8, 0).u32(1).u32(4)
	for range n {
		a.u8(4).uleb(0, 0x1000) // offset_pair from the unit's low_pc
	}
	return a.u8(0).b
}

func hostileTables(t *testing.T, count uint64, formats []byte) {
	m := function(nil, nil)
	var h, a asm
	h.u8(1, 1, 1, 0xfb, 14, 1).u8(uint8(len(formats) / 2))
	h.b = append(h.b, formats...)
	h.uleb(count)
	a.u32(uint32(2+2+4+len(h.b))).u16(5).u8(8, 0).u32(uint32(len(h.b)))
	m[".debug_line"] = append(a.b, h.b...)
	measured(t, m, func(d *dwarf.Data) {
		fs, err := d.Frames(0x1010, nil)
		if err != nil || len(fs) != 1 || fs[0].Name != "f" {
			t.Errorf("frames %+v, %v: want that of f without a line", fs, err)
		}
		if w := strings.Join(d.Warnings(), "\n"); !strings.Contains(w, "directories") {
			t.Errorf("warnings %q", w)
		}
	})
}

func hostileStrings(t *testing.T) {
	var below asm
	for i := range 4000 {
		below.u8(3).u32(0).u64(0x1000 + uint64(i)).u32(1)
	}
	m := function(below.b, func(a *asm) { a.abbrev(3, 0x1d+0x11, 0, aLinkage, fStrp, aLow, fAddr, aHigh, fData4) })
	m[".debug_str"] = append(bytes.Repeat([]byte{'x'}, 1<<20), 0)
	measured(t, m, func(d *dwarf.Data) {
		for i := range 4000 {
			if fs, err := d.Frames(0x1000+uint64(i), nil); err != nil || len(fs) != 1 || len(fs[0].Name) != 64<<10 {
				t.Fatalf("%#x: %d frames, %v", 0x1000+i, len(fs), err)
			}
		}
	})
}

func hostileAbbrevs(t *testing.T) {
	var ab, info asm
	offs := make([]uint32, 60_000)
	for i := range offs {
		offs[i] = uint32(len(ab.b))
		ab.abbrev(uint64(60_000-i), 0x11, 0, aLow, fAddr)
	}
	ab.u8(0)
	for i := range 4000 {
		info.unit(offs[i], new(asm).uleb(1).u64(0x1000).b)
	}
	measured(t, map[string][]byte{".debug_info": info.b, ".debug_abbrev": ab.b}, ask(t, 0x1000, 0x1010))
}

func hostileLines(t *testing.T) {
	set := append([]byte{0, 9, 2}, binary.LittleEndian.AppendUint64(nil, 0x1000)...)
	big := binary.AppendUvarint(nil, 1<<63)
	progs := map[string][]byte{
		"advance_pc huge":       append(append(append([]byte{}, set...), 1, 2), big...),
		"address backwards":     append(append(append([]byte{}, set...), 1, 2, 0x40, 1), append(set, 1, 2, 9, 0, 1, 1)...),
		"never ended":           append(append([]byte{}, set...), 1, 2, 4, 1),
		"set_file huge":         append(append(append(append([]byte{}, set...), 4), big...), 1, 2, 0x20, 0, 1, 1),
		"line huge":             append(append(append(append([]byte{}, set...), 3), big...), 1, 2, 0x20, 0, 1, 1),
		"extended length huge":  append(append([]byte{0}, big...), 2),
		"extended length 0":     {0, 0, 0, 0, 0, 0},
		"address of odd length": {0, 4, 2, 1, 2, 3, 1, 0, 1, 1},
		"unknown extended":      {0, 3, 0x90, 1, 2, 1, 0, 1, 1},
		"empty":                 {},
	}
	for name, prog := range progs {
		m := function(nil, nil)
		m[".debug_line"] = new(asm).lineProgram(prog).b
		d, err := dwarf.New(sections(m), dwarf.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if fs, err := d.Frames(0x1010, nil); err != nil || len(fs) != 1 || fs[0].Name != "f" {
			t.Errorf("%s: frames %+v, %v", name, fs, err)
		}
	}
	// min_inst_length, max_ops, line_range, opcode_base 0, one by one.
	for i := range 6 {
		m := function(nil, nil)
		m[".debug_line"][12+i] = 0
		if fs := one(t, m, 0x1010); fs.Name != "f" {
			t.Errorf("byte %d of the header 0: %+v", i, fs)
		}
	}
}

func hostileHeaders(t *testing.T) {
	var ok = function(nil, nil)
	patch := func(at int, b ...byte) map[string][]byte {
		m := map[string][]byte{".debug_abbrev": ok[".debug_abbrev"], ".debug_line": ok[".debug_line"]}
		info := bytes.Clone(ok[".debug_info"])
		copy(info[at:], b)
		m[".debug_info"] = info
		return m
	}
	ff := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	tests := []struct {
		name string
		m    map[string][]byte
		want string // what the warning says; "" if there is an answer
	}{
		{"length 0", patch(0, 0, 0, 0, 0), "length 0x0"},
		{"length reserved", patch(0, 0xf0, 0xff, 0xff, 0xff), "reserved"},
		{"length 64 bits", patch(0, ff...), "length 0xffffffffffffffff"},
		{"length too long", patch(0, 0xff, 0xff, 0, 0), "length 0xffff"},
		{"length too short", patch(0, 3, 0, 0, 0), "header of 12 bytes in a unit of 7"},
		{"version 0", patch(4, 0, 0), "version 0"},
		{"version 1", patch(4, 1, 0), "version 1"},
		{"version 6", patch(4, 6, 0), "version 6"},
		{"version 0xffff", patch(4, 0xff, 0xff), "version 65535"},
		{"address of 0 bytes", patch(7, 0), "addresses of 0 bytes"},
		{"address of 3 bytes", patch(7, 3), "addresses of 3 bytes"},
		{"address of 255 bytes", patch(7, 255), "addresses of 255 bytes"},
		{"abbreviations elsewhere", patch(8, 0xff, 0xff, 0xff, 0x7f), "beyond its end"},
	}
	for _, tt := range tests {
		d, err := dwarf.New(sections(tt.m), dwarf.Options{Name: "x"})
		if err != nil {
			t.Fatal(err)
		}
		fs, err := d.Frames(0x1010, nil)
		msg := strings.Join(d.Warnings(), "\n") + fmt.Sprint(err)
		if len(fs) != 0 || !strings.Contains(msg, tt.want) {
			t.Errorf("%s: %d frames, %q: want %q", tt.name, len(fs), msg, tt.want)
		}
	}
}

func hostileIndex(t *testing.T) {
	m := function(nil, nil)
	var ab asm
	ab.abbrev(1, 0x4a, 0, 0x76, fString, aLow, fAddr, aHigh, fData4).u8(0)
	m[".debug_abbrev"] = ab.b
	body := new(asm).uleb(1).str("../../etc/x").u64(0x1000).u32(0x10).b
	var info asm
	info.u32(uint32(16+len(body))).u16(5).u8(4, 8).u32(0).u64(42)
	m[".debug_info"] = append(info.b, body...)
	for _, n := range []struct{ columns, units, slots uint32 }{{1, 1, 1 << 31}, {1 << 31, 1 << 31, 2}, {2, 1 << 30, 4}, {0, 0, 4}, {2, 4, 4}, {8, 1, 4}} {
		var x asm
		x.u32(2).u32(n.columns).u32(n.units).u32(n.slots)
		for range 64 {
			x.u32(42) // each slot is taken, all of them by one id
		}
		index := x.b
		var asked dwarf.SplitUnit
		d, err := dwarf.New(sections(m), dwarf.Options{Split: func(s dwarf.SplitUnit) (*dwarf.Data, error) {
			asked = s
			return dwarf.New(sections(map[string][]byte{".debug_info.dwo": make([]byte, 64), ".debug_cu_index": index}), dwarf.Options{DWO: true})
		}})
		if err != nil {
			t.Fatal(err)
		}
		d.Frames(0x1001, nil)
		if asked.Name != "../../etc/x" || asked.ID != 42 {
			t.Errorf("asked for %+v", asked)
		}
		if w := strings.Join(d.Warnings(), "\n"); !strings.Contains(w, "split debug information") {
			t.Errorf("%+v: warnings %q", n, w)
		}
	}
}

// A hole is a file of a terabyte without anything in it behind its first bytes.
type hole struct{ head []byte }

func (h hole) ReadAt(b []byte, off int64) (int, error) {
	clear(b)
	if off < int64(len(h.head)) {
		copy(b, h.head[off:])
	}
	return len(b), nil
}

// TestHoles covers E21: sections of a sparse file, as large as they say.
func TestHoles(t *testing.T) {
	m := function(nil, nil)
	long := func(b []byte) []byte { // with a 64-bit length of nearly a terabyte
		return append(new(asm).u32(1<<32-1).u64(1<<39).b, b[4:]...)
	}
	for _, name := range []string{".debug_info", ".debug_line"} {
		d, err := dwarf.New(func(n string) (dwarf.Section, error) {
			if n == name {
				return dwarf.Section{R: hole{long(m[n])}, Size: 1 << 40}, nil
			}
			return dwarf.Section{Data: m[n]}, nil
		}, dwarf.Options{})
		if err != nil {
			t.Fatal(err)
		}
		cpu := cpuTime()
		d.Frames(0x1010, nil)
		d.Functions(func(dwarf.Func) bool { return true })
		if used := cpuTime() - cpu; used > 2*time.Second && !raceEnabled {
			t.Errorf("%s: %v CPU", name, used)
		}
		if len(d.Warnings()) == 0 {
			t.Errorf("%s: no warning", name)
		}
	}
}
