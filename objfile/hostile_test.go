package objfile

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/perfark/perfark/internal/decode"
)

// use does with a file all that can be done.
func use(b []byte) error {
	f, err := Open(bytes.NewReader(b), int64(len(b)), "f", decode.NewBudget(decode.Limits{Bytes: 1 << 30}))
	if err != nil {
		return err
	}
	f.Quality()
	f.Debuglink()
	f.Altlink()
	f.TextHash()
	f.Section(".debug_info")
	for _, s := range []Space{Offsets, Addresses, Loaded} {
		tab, err := f.Symbols(SymbolOptions{Space: s})
		if err != nil {
			continue
		}
		if tab.Len() == 0 {
			continue
		}
		for i := range min(tab.Len(), 2000) {
			sym := tab.Sym(i * (tab.Len() - 1) / 2000)
			tab.Lookup(sym.Start)
			tab.Lookup(sym.End)
		}
		f.Symbols(SymbolOptions{Space: s, Only: []uint64{0, 5, tab.Sym(0).Start, 1<<64 - 1}})
		tab.Lookup(0)
		tab.Lookup(1<<64 - 1)
	}
	return nil
}

// bounded runs fn and fails if it takes long or much memory: G2, G3.
func bounded(t *testing.T, name string, input int, fn func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	peak := peakHeap()
	start := cpuTime(t)
	fn()
	d := cpuTime(t) - start
	if n := peak(); n > 64<<20+3*uint64(input)+admittedPeak {
		t.Errorf("%s: %d MiB in use for %d bytes", name, n>>20, input)
	}
	runtime.ReadMemStats(&after)
	if d > 2*time.Second*raceFactor {
		t.Errorf("%s: took %v", name, d)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 256<<20+24*uint64(input) { // in all readings
		t.Errorf("%s: allocated %d MiB for %d bytes", name, n>>20, input)
	}
}

// admittedPeak is what a file may grow to by decompression, in bytes, and as
// much again while it grows.
const admittedPeak = 2 * maxGrowth

// peakHeap begins to watch how much memory is in use. The function that it
// returns ends that and gives the most, in bytes above what was at the beginning.
func peakHeap() func() uint64 {
	if raceFactor > 1 {
		return func() uint64 { return 0 } // it keeps memory of its own
	}
	old := debug.SetGCPercent(30)
	runtime.GC()
	inUse := func() uint64 {
		s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	base := inUse()
	most, stop, done := base, make(chan bool), make(chan bool)
	go func() {
		defer close(done)
		for tick := time.NewTicker(time.Millisecond); ; {
			most = max(most, inUse())
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
			}
		}
	}()
	return func() uint64 {
		close(stop)
		<-done
		debug.SetGCPercent(old)
		return most - base
	}
}

// cpuTime is what this process has used of the processors.
func cpuTime(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestHostile runs the recipes: each gives an answer, in bounded time and
// memory.
func TestHostile(t *testing.T) {
	load := []segment{{typ: ptLoad, flags: pfExec, off: 0, vaddr: 0x1000, filesz: 0x1000, memsz: 0x1000}}
	base := func() testELF { return testELF{typ: TypeDyn, machine: MachineX86_64, segments: load} }
	patch := func(b []byte, off int, v uint64, n int) []byte {
		binary.LittleEndian.PutUint64(append(b[:0:0], make([]byte, 8)...), v)
		var x [8]byte
		binary.LittleEndian.PutUint64(x[:], v)
		copy(b[off:], x[:n])
		return b
	}
	plain := func() []byte {
		e := program(base(), 0x1100, 64, testSym{name: "x", value: 0x1100, size: 8, info: fn, shndx: 1})
		return e.bytes()
	}
	many := func(n int, sym func(i int) testSym) []byte {
		e := base()
		syms := make([]testSym, n)
		for i := range syms {
			syms[i] = sym(i)
		}
		e = program(e, 0x1100, 64, syms...)
		return e.bytes()
	}
	// r01: symbols that share one name of a megabyte, or its ends.
	shared := func(n int, step uint32) []byte {
		e := base()
		e = program(e, 0x1100, 64, make([]testSym, n)...)
		tab := e.sections[1].data
		for i := range n {
			b := tab[24*(i+1):]
			binary.LittleEndian.PutUint32(b, 1+uint32(i)*step)
			b[4], b[6] = fn, 1
			binary.LittleEndian.PutUint64(b[8:], 0x1100+uint64(i%64))
			binary.LittleEndian.PutUint64(b[16:], 1)
		}
		e.sections[2].data = append(append([]byte{0}, bytes.Repeat([]byte{'A'}, 1<<20)...), 0)
		return e.bytes()
	}
	notes := func(b []byte) []byte {
		e := base()
		e.sections = append(e.sections, testSection{name: ".note", section: section{typ: shtNote, flags: shfAlloc, addralign: 4}, data: b})
		return e.bytes()
	}
	chdr := func(typ uint32, size uint64, data []byte) []byte {
		b := binary.LittleEndian.AppendUint32(nil, typ)
		b = binary.LittleEndian.AppendUint32(b, 0)
		b = binary.LittleEndian.AppendUint64(b, size)
		b = binary.LittleEndian.AppendUint64(b, 1)
		e := base()
		e.sections = append(e.sections, testSection{name: ".debug_info", section: section{typ: shtProgbits, flags: shfCompressed}, data: append(b, data...)})
		return e.bytes()
	}
	const bomb = 80 << 20 / raceFactor
	zeros := make([]byte, bomb)
	var zl bytes.Buffer
	zw, _ := zlib.NewWriterLevel(&zl, zlib.BestSpeed)
	zw.Write(zeros)
	zw.Close()
	// The same in a gzip header. The checksum is wrong, but comes too late.
	gz := append([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0}, zl.Bytes()[2:]...)
	enc, _ := zstd.NewWriter(nil)
	zs := enc.EncodeAll(zeros, nil)
	zeros = nil

	recipes := []struct {
		name string
		b    []byte
	}{
		{"E1 r01 shared name", shared(2000, 0)},
		{"E1 r01 ends of a name", shared(2000, 500)},
		{"E2 r10 section count in section 0", patch(patch(plain(), 60, 0, 2), int(binary.LittleEndian.Uint64(plain()[40:]))+32, 1<<28, 8)},
		{"E2 PN_XNUM", patch(patch(plain(), 56, 0xffff, 2), int(binary.LittleEndian.Uint64(plain()[40:]))+44, 1<<31, 4)},
		{"E3 sections at the end", patch(plain(), 40, uint64(len(plain())-1), 8)},
		{"E3 sections at odd place", patch(plain(), 40, 3, 8)},
		{"E3 sections wrap", patch(plain(), 40, 1<<64-16, 8)},
		{"E4 section wraps", patch(plain(), int(binary.LittleEndian.Uint64(plain()[40:]))+64+24, 1<<64-8, 8)},
		{"E4 section size", patch(plain(), int(binary.LittleEndian.Uint64(plain()[40:]))+128+32, 1<<60, 8)},
		{"E5 link to itself", patch(plain(), int(binary.LittleEndian.Uint64(plain()[40:]))+128+40, 2, 4)},
		{"E5 link nowhere", patch(plain(), int(binary.LittleEndian.Uint64(plain()[40:]))+128+40, 0xffff, 4)},
		{"E6 entry size", patch(plain(), int(binary.LittleEndian.Uint64(plain()[40:]))+128+56, 1<<63, 8)},
		{"E6 entry size 1", patch(plain(), int(binary.LittleEndian.Uint64(plain()[40:]))+128+56, 1, 8)},
		{"E9 r11 note sizes", notes(bytes.Repeat([]byte{0xfd, 0xff, 0xff, 0xff}, 100))},
		{"E9 id of 64 MiB", notes(append(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32([]byte{4, 0, 0, 0}, 64<<20), 3), "GNU\x00"...))},
		{"E9 many notes", notes(bytes.Repeat([]byte{0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0}, 1<<20))},
		{"E14 one address", many(1000000/raceFactor, func(i int) testSym { return testSym{name: "s", value: 0x1100, size: 8, info: fn, shndx: 1} })},
		{"E14 all overlapping", many(200000/raceFactor, func(i int) testSym {
			return testSym{name: "s", value: 0x1100 + uint64(i), size: 1<<64 - 1, info: fn, shndx: 1}
		})},
		{"E14 nested", many(200000/raceFactor, func(i int) testSym {
			return testSym{name: "s", value: 0x1100 + uint64(i), size: uint64(400000 - 2*i), info: fn, shndx: 1}
		})},
		{"E14 odd names", many(3, func(i int) testSym {
			return testSym{name: []string{"", "\x1b]0;t\x07", "\xff\xfe"}[i], value: 0x1100, size: 8, info: fn, shndx: 1}
		})},
		{"r02 zlib bomb", chdr(1, bomb, zl.Bytes())},
		{"r03 ch_size", chdr(1, 1<<40, make([]byte, 20))},
		{"r15 zstd bomb", chdr(2, bomb, zs)},
		{"r15 zstd bomb, small ch_size", chdr(2, 1000, zs)},
		{"C1 gzip bomb", gz},
		{"C3 zstd bomb", zs},
		{"C3 zstd skippable frames", append(bytes.Repeat([]byte{0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0}, 1<<17), zs[:100]...)},
		{"C6 nested", nest(plain())},
		{"E18 nothing", nil},
		{"E18 zeros", make([]byte, 4096)},
	}
	for i, p := range []uint16{0, 0xffff, 0xff00} {
		recipes = append(recipes, struct {
			name string
			b    []byte
		}{fmt.Sprintf("section names %d", i), patch(plain(), 62, uint64(p), 2)})
	}
	e := base()
	for i := range 65000 {
		e.segments = append(e.segments, segment{typ: []uint32{ptLoad, ptNote}[i%2], off: 0, vaddr: uint64(i) << 20, filesz: 1 << 62, memsz: 1 << 62, align: 8})
	}
	recipes = append(recipes, struct {
		name string
		b    []byte
	}{"E10 65,000 segments", e.bytes()})
	e = base()
	for range 65000 {
		e.sections = append(e.sections, testSection{section: section{typ: shtProgbits, flags: shfAlloc}})
	}
	b := e.bytes()
	b = append(b, bytes.Repeat([]byte{'N'}, 1<<20)...)
	recipes = append(recipes, struct {
		name string
		b    []byte
	}{"E8 section names", b})
	for _, r := range recipes {
		bounded(t, r.name, len(r.b), func() { use(r.b) })
	}
}

// holes is a file of 1 TiB that begins with some bytes and has zeros behind
// them.
type holes []byte

func (h holes) ReadAt(b []byte, off int64) (int, error) {
	clear(b)
	if off < int64(len(h)) {
		copy(b, h[off:])
	}
	return len(b), nil
}

// TestSparse is E21: what a file says of itself may be in its size, and yet
// too much.
func TestSparse(t *testing.T) {
	base := func(patch func(e *testELF)) []byte {
		e := program(testELF{typ: TypeDyn, machine: MachineX86_64, segments: []segment{{typ: ptLoad, flags: pfExec, vaddr: 0x1000, filesz: 1 << 39, memsz: 1 << 39}, {typ: ptNote, filesz: 1 << 39}}}, 0x1100, 64,
			testSym{name: "x", value: 0x1100, size: 8, info: fn, shndx: 1})
		patch(&e)
		return e.bytes()
	}
	sections := base(func(e *testELF) {})
	shoff := binary.LittleEndian.Uint64(sections[40:])
	binary.LittleEndian.PutUint16(sections[60:], 0)
	binary.LittleEndian.PutUint64(sections[shoff+32:], 1<<30)
	for name, b := range map[string][]byte{
		"sections": sections,
		"symbols":  base(func(e *testELF) { e.sections[1].size = 1 << 39 }),
		"strings":  base(func(e *testELF) { e.sections[2].size = 1 << 39 }),
		"notes": base(func(e *testELF) {
			e.sections = append(e.sections, testSection{name: ".note", section: section{typ: shtNote, flags: shfAlloc, size: 1 << 39}})
		}),
	} {
		bounded(t, name, len(b), func() {
			f, err := Open(holes(b), 1<<40, "f", nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range []SymbolOptions{{}, {Only: []uint64{0x100, 0x200}}, {Space: Addresses}} {
				if tab, err := f.Symbols(o); err == nil {
					tab.Lookup(0x100)
				}
			}
			if _, err := f.TextHash(); err == nil {
				t.Errorf("%s: half a terabyte was hashed", name)
			}
			if len(f.Warnings()) == 0 {
				t.Errorf("%s: no warning", name)
			}
		})
	}
}

// nest compresses ten times. Only the outermost is undone.
func nest(b []byte) []byte {
	for range 10 {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		w.Write(b)
		w.Close()
		b = out.Bytes()
	}
	return b
}

// TestTruncated opens every prefix of a file, and the file with every byte of
// its headers changed.
func TestTruncated(t *testing.T) {
	e := program(testELF{typ: TypeDyn, machine: MachineX86_64, segments: []segment{{typ: ptLoad, flags: pfExec, vaddr: 0x1000, filesz: 0x1000, memsz: 0x1000}}}, 0x1100, 64,
		testSym{name: "x", value: 0x1100, size: 8, info: fn, shndx: 1}, testSym{name: "y", value: 0x1110, info: fn, shndx: 1})
	whole := e.bytes()
	for n := range whole {
		use(whole[:n])
	}
	for i := 0; i < len(whole); i += (raceFactor + 4) / 5 {
		for _, x := range []byte{0, 1, 0x7f, 0x80, 0xff} {
			b := bytes.Clone(whole)
			b[i] = x
			use(b)
		}
	}
}

// TestNotELF states the errors.
func TestNotELF(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", `f: not an ELF file: 0 bytes`},
		{"#!/bin/sh\necho hello\n", `f: not an ELF file: it begins with "#!/b"`},
		{"\x7fELF\x03\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00", `f: not an ELF file: offset 0x4: class 3, want 1 or 2`},
		{"\x7fELF\x02\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00", `f: not an ELF file: offset 0x5: byte order 0, want 1 or 2`},
		{"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00", `f: not an ELF file: offset 0x0: e_ident: 64 bytes wanted, but the file has 16`},
	} {
		_, err := Open(strings.NewReader(tt.in), int64(len(tt.in)), "f", nil)
		if !errors.Is(err, ErrNotELF) || err.Error() != tt.want {
			t.Errorf("%q: got %v", tt.in, err)
		}
	}
}

// FuzzOpen reads everything a file has.
func FuzzOpen(f *testing.F) {
	for _, b := range fuzzSeeds() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		start := cpuTime(t)
		use(b)
		if d := cpuTime(t) - start; d > 2*time.Second {
			t.Errorf("took %v", d)
		}
	})
}

// FuzzDecompress reads compressed files and sections.
func FuzzDecompress(f *testing.F) {
	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	w.Write([]byte("hello, hello, hello"))
	w.Close()
	f.Add(gz.Bytes())
	enc, _ := zstd.NewWriter(nil)
	f.Add(enc.EncodeAll([]byte("hello, hello, hello"), nil))
	f.Add([]byte("\xfd7zXZ\x00\x00\x04\xe6\xd6\xb4F\x02\x00!\x01\x16\x00\x00\x00t/\xe5\xa3\x01\x00\x05hello\n\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		budget := decode.NewBudget(decode.Limits{})
		start := cpuTime(t)
		_, n, err := Decompress(bytes.NewReader(b), int64(len(b)), budget)
		if err == nil && n > int64(len(b))*maxRatio+maxGrowth {
			t.Errorf("%d bytes of %d", n, len(b))
		}
		file := &File{r: bytes.NewReader(b), size: int64(len(b)), budget: budget}
		for typ := range uint32(3) {
			if out, err := file.inflate(typ, b, 1000, "x"); err == nil && len(out) != 1000 {
				t.Errorf("%d bytes", len(out))
			}
		}
		if d := cpuTime(t) - start; d > 2*time.Second {
			t.Errorf("took %v", d)
		}
	})
}

// TestCompressedModule is S19 and S20: modules are read whatever compresses
// them, by content.
func TestCompressedModule(t *testing.T) {
	note := []byte("\x04\x00\x00\x00\x04\x00\x00\x00\x03\x00\x00\x00GNU\x00abcd")
	e := testELF{typ: TypeRel, machine: MachineX86_64}
	e.sections = []testSection{{name: ".note.gnu.build-id", section: section{typ: shtNote, flags: shfAlloc, addralign: 4}, data: note}}
	e = program(e, 0, 64, testSym{name: "f", size: 8, info: fn, shndx: 1})
	dir := t.TempDir()
	name := filepath.Join(dir, "m.ko")
	if err := os.WriteFile(name, e.bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"cat", "gzip", "xz", "zstd"} {
		b, err := exec.Command(tool, append(map[string][]string{"cat": {}, "gzip": {"-c"}, "xz": {"-c", "--check=crc32"}, "zstd": {"-c", "-q", "-19"}}[tool], name)...).Output()
		if err != nil {
			t.Logf("NOTICE: no %s", tool)
			continue
		}
		id, err := ReadBuildID(bytes.NewReader(b), int64(len(b)))
		if err != nil || id != "abcd" {
			t.Errorf("%s: got %q, %v", tool, id, err)
		}
		if _, err := openBytes(t, b).Symbols(SymbolOptions{}); err != nil {
			t.Errorf("%s: %v", tool, err)
		}
		for n := range b { // C7
			if _, err := ReadBuildID(bytes.NewReader(b[:n]), int64(n)); err == nil && tool != "cat" {
				t.Errorf("%s: cut to %d bytes: no error", tool, n)
			}
		}
	}
}

// fuzzSeeds are small files of every class, byte order and machine with rules
// of its own.
func fuzzSeeds() (out [][]byte) {
	for _, big := range []bool{false, true} {
		for _, class := range []int{32, 64} {
			for _, m := range []Machine{MachineX86_64, Machine386, MachineARM, MachineAArch64, MachinePPC64, MachineMIPS, MachineRISCV, MachineS390, MachineSPARC64, MachineLoong} {
				e := testELF{big: big, class: class, typ: TypeDyn, machine: m}
				e.segments = []segment{{typ: ptLoad, flags: pfExec, vaddr: 0x1000, filesz: 0x1000, memsz: 0x1000}, {typ: ptNote, off: 0x40, filesz: 0x20}, {typ: ptDynamic, off: 0x40, filesz: 0x40}}
				dyn, str := e.symtab(testSym{name: "puts", info: fn}, testSym{name: "exported", value: 0x1104, size: 4, info: fn, shndx: 1})
				rela := make([]byte, 24)
				rela[0] = 0x40
				rela[4+8] = 1
				e.sections = []testSection{
					{name: ".note.gnu.build-id", section: section{typ: shtNote, flags: shfAlloc, addralign: 4}, data: []byte("\x04\x00\x00\x00\x04\x00\x00\x00\x03\x00\x00\x00GNU\x00abcd")},
					{name: ".gnu_debuglink", section: section{typ: shtProgbits}, data: []byte("x.debug\x00\x01\x02\x03\x04")},
					{name: ".plt", section: section{typ: shtProgbits, flags: shfAlloc | shfExec, addr: 0x1200}, data: []byte("\xff\x35\x02\x00\x00\x00\xff\x25\x04\x00\x00\x00\x0f\x1f\x40\x00\xff\x25\x02\x00\x00\x00\x68\x00\x00\x00\x00\xe9\xe0\xff\xff\xff")},
					{name: mipsStubs, section: section{typ: shtProgbits, flags: shfAlloc | shfExec, addr: 0x1280}, data: make([]byte, 16)},
					{name: ".opd", section: section{typ: shtProgbits, flags: shfAlloc, addr: 0x1300}, data: make([]byte, 24)},
					{name: ".dynsym", section: section{typ: shtDynsym, flags: shfAlloc, link: 8, entsize: e.symEnt()}, data: dyn},
					{name: ".dynstr", section: section{typ: 3, flags: shfAlloc}, data: str},
					{name: ".rela.plt", section: section{typ: shtRela, flags: shfAlloc, link: 7}, data: rela},
				}
				e = program(e, 0x1100, 64, testSym{name: "_ZN1a1bEv", value: 0x1100, size: 8, info: fn, shndx: 1}, testSym{name: "y", value: 0x1110, info: fn, shndx: 1}, testSym{name: "d", value: 0x1300, info: fn, shndx: 6})
				out = append(out, e.bytes())
			}
		}
	}
	return out
}

func (e *testELF) symEnt() uint64 {
	if e.class == 32 {
		return 16
	}
	return 24
}

// TestMutants changes fields of small files to values that break things: what
// a fuzzer that changes bytes does not find.
func TestMutants(t *testing.T) {
	mutate(t, fuzzSeeds(), 6000, func(b []byte) int { return len(b) - 8 })
}

// mutate uses n mutants of the seeds, changed before the offset that end
// gives.
func mutate(t *testing.T, seeds [][]byte, n int, end func([]byte) int) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	values := []uint64{0, 1, 2, 7, 8, 16, 24, 0x40, 0xff, 0x100, 0xffff, 0xff00, 0x1100, 0x1fff, 1 << 20, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1 << 40, 1<<63 - 1, 1 << 63, 1<<64 - 0x1000, 1<<64 - 1}
	n /= raceFactor
	if testing.Short() {
		n /= 10
	}
	for i := range n {
		b := bytes.Clone(seeds[rnd.IntN(len(seeds))])
		var order binary.ByteOrder = binary.LittleEndian
		if b[5] == 2 {
			order = binary.BigEndian
		}
		for range 1 + rnd.IntN(4) {
			v := values[rnd.IntN(len(values))]
			switch at := rnd.IntN(end(b)) &^ 1; rnd.IntN(4) {
			case 0:
				b[at] = byte(v)
			case 1:
				order.PutUint16(b[at:], uint16(v))
			case 2:
				order.PutUint32(b[at&^3:], uint32(v))
			case 3:
				order.PutUint64(b[at&^3:], v)
			}
		}
		start := cpuTime(t)
		use(b)
		if d := cpuTime(t) - start; d > time.Second*raceFactor {
			t.Errorf("mutant %d: took %v", i, d)
		}
	}
}

// TestEmbedded reads the id of a library inside another file, as of one that
// is mapped out of an APK.
func TestEmbedded(t *testing.T) {
	b := fuzzSeeds()[0]
	apk := append(append(make([]byte, 8192), b...), "and more"...)
	if id, err := ReadBuildID(io.NewSectionReader(bytes.NewReader(apk), 8192, int64(len(b))), int64(len(b))); err != nil || id != "abcd" {
		t.Errorf("got %q, %v", id, err)
	}
	if _, err := ReadBuildID(bytes.NewReader(apk), int64(len(apk))); !errors.Is(err, ErrNotELF) {
		t.Errorf("the whole file: %v", err)
	}
}
