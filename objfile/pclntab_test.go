package objfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/internal/perftest"
)

// goProgram has functions that are inlined in each other.
const goProgram = `package main

import "os"

func inner(x int) int { return x*3 + len(os.Args) }

func middle(x int) int {
	y := inner(x)
	return inner(y) + x
}

//go:noinline
func hotLeaf(n int) int {
	s := 0
	for i := 0; i < n; i++ {
		s += middle(i)
	}
	return s
}

func main() { println(hotLeaf(1000)) }
`

// buildGo builds a program in dir with an installed version of Go, such as
// "go1.20.14", "" for that which runs the test.
func buildGo(t *testing.T, dir, name, version, src string, env []string, args ...string) string {
	t.Helper()
	tool := perftest.NeedTool(t, "go")
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("main.go", src)
	write("go.mod", "module m\n\ngo 1.13\n")
	out := filepath.Join(dir, name)
	cmd := exec.Command(tool, append(append([]string{"build", "-o", out}, args...), ".")...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "GOFLAGS=-tags=test", "CGO_ENABLED=0"), env...)
	if version != "" {
		cmd.Env = append(cmd.Env, "GOTOOLCHAIN="+version)
	}
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, msg)
	}
	return out
}

func openName(t testing.TB, name string) *File {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return openBytes(t, b)
}

// anyLength is for names that the table shortens: of generic types and arrays.
var anyLength = regexp.MustCompile(`\[.*\]`)

func goName(s string) string {
	return strings.ReplaceAll(anyLength.ReplaceAllString(strings.TrimSuffix(s, ".abi0"), "[...]"), "·", ".")
}

// TestGoTable: B15. What a stripped Go program names is what its twin names,
// in all versions of the format, machines, and ways to link. By itself it is
// the version of Go at hand; PERFARK_GO names others.
func TestGoTable(t *testing.T) {
	if testing.Short() {
		t.Skip("builds Go programs")
	}
	versions := append([]string{""}, strings.Fields(os.Getenv("PERFARK_GO"))...)
	type build struct {
		version string
		env     []string
		args    []string
	}
	var builds []build
	for _, v := range versions {
		builds = append(builds, build{version: v}, build{version: v, args: []string{"-buildmode=pie"}})
	}
	builds = append(builds, build{env: []string{"GOARCH=mips", "GOOS=linux"}})
	for _, b := range builds {
		t.Run(strings.Join(append(append([]string{b.version}, b.env...), b.args...), " "), func(t *testing.T) {
			dir := t.TempDir()
			fullName := buildGo(t, dir, "full", b.version, goProgram, b.env, b.args...)
			full := openName(t, fullName)
			strippedName := buildGo(t, dir, "stripped", b.version, goProgram, b.env, append(b.args, "-ldflags=-s -w")...)
			stripped := openName(t, strippedName)
			if q := stripped.Quality(); q != GoFuncs {
				t.Errorf("quality %v", q)
			}
			want, err := full.Symbols(SymbolOptions{Space: Addresses})
			if err != nil {
				t.Fatal(err)
			}
			tab, err := stripped.GoTable()
			if err != nil {
				t.Fatal(err)
			}
			syms, err := stripped.Symbols(SymbolOptions{Space: Addresses})
			if err != nil || len(stripped.Warnings()) > 0 {
				t.Fatal(err, stripped.Warnings())
			}
			if tab.Len() < 1000 {
				t.Fatalf("%d functions", tab.Len())
			}
			for i := range tab.Len() {
				s := tab.Sym(i)
				w, ok := want.Lookup(s.Start)
				if !ok || w.Start != s.Start || goName(w.Name) != goName(s.Name) || w.End > s.End {
					t.Errorf("%#x: %v, want %v", s.Start, s, w)
				}
				if g, ok := syms.Lookup(s.Start); !ok || g.Start != s.Start || g.Name != s.Name {
					t.Errorf("%#x: %v among the symbols, want %v", s.Start, g, s)
				}
			}
			sameLines(t, tab, fullName, want)
			// Without section headers it is found by what it is.
			if f := openBytes(t, withoutSections(t, strippedName)); true {
				again, err := f.GoTable()
				if err != nil || again.Len() != tab.Len() || again.Sym(99) != tab.Sym(99) {
					t.Errorf("without sections: %v", err)
				}
			}
		})
	}
}

// withoutSections returns a file without its section headers.
func withoutSections(t testing.TB, name string) []byte {
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if b[4] == 1 {
		clear(b[0x20:0x24])
		clear(b[0x30:0x34])
	} else {
		clear(b[0x28:0x30])
		clear(b[0x3c:0x40])
	}
	return b
}

// sameLines compares frames with those of llvm-symbolizer.
func sameLines(t *testing.T, tab *GoTable, name string, syms *Table) {
	t.Helper()
	tool := perftest.NeedTool(t, "llvm-symbolizer-14")
	var addrs []uint64
	var in strings.Builder
	for i := 0; i < tab.Len(); i += 3 {
		s, _ := syms.Lookup(tab.Sym(i).Start)
		for _, addr := range []uint64{s.Start, s.Start + (s.End-s.Start)/2, s.End - 1} {
			if n := len(addrs); s.Start <= addr && addr < s.End && (n == 0 || addrs[n-1] < addr) {
				addrs = append(addrs, addr)
				fmt.Fprintf(&in, "%#x\n", addr)
			}
		}
	}
	cmd := exec.Command(tool, "--obj="+name, "--output-style=GNU", "-f", "-i", "-a")
	cmd.Stdin = strings.NewReader(in.String())
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := map[uint64]string{}
	var at uint64
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "0x") {
			at, _ = strconv.ParseUint(strings.TrimSpace(line[2:]), 16, 64)
			continue
		}
		line, _, _ = strings.Cut(strings.TrimSpace(line), " (discr")
		want[at] += goName(line) + "\n"
	}
	good, bad, deep := 0, 0, 0
	for _, addr := range addrs {
		frames, err := tab.Frames(addr, nil)
		if err != nil || len(frames) == 0 {
			t.Fatalf("%#x: %v, %v", addr, frames, err)
		}
		got := ""
		for i, f := range frames {
			got += fmt.Sprintf("%s\n%s:%d\n", goName(f.Name), f.File, f.Line)
			if f.Inlined != (i+1 < len(frames)) {
				t.Errorf("%#x: frame %d: inlined %v", addr, i, f.Inlined)
			}
		}
		w := strings.ReplaceAll(strings.ReplaceAll(want[addr], "././<", "<"), "./<", "<")
		if strings.Contains(w, ":0\n") || strings.HasPrefix(got, "go:text") {
			continue // of some machines, some code has no lines in the debug information
		}
		if got != w {
			// DWARF of some versions ends an inlined call early.
			if bad++; bad > len(addrs)/100 {
				t.Fatalf("%#x:\n%swant\n%s", addr, got, w)
			}
			continue
		}
		good++
		if len(frames) > 1 {
			deep++
		}
	}
	if good < 500 || deep < 20 {
		t.Errorf("%d addresses compared, %d with inlined calls", good, deep)
	}
}

// A testGo is a table of Go functions to be written by a test, with all that
// it refers to: a file of one code segment and one of data.
type testGo struct {
	layout goLayout
	big    bool
	class  int
	noText bool // the header does not say where the code begins, as since 1.26
	twice  bool // the code is in two sections, with a gap between
}

// Of a testGo, the functions are main.a, in which main.b is inlined from 8 to
// 12 and calls main.c, which is inlined too, at 10; and main.z.
const (
	testGoText = 0x400000
	testGoData = 0x500000
)

// bytes writes the file. main.a is at testGoText+16, main.z at testGoText+48;
// in a second section, 0x1000 further.
func (g *testGo) bytes() []byte {
	var o interface {
		binary.ByteOrder
		binary.AppendByteOrder
	} = binary.LittleEndian
	if g.big {
		o = binary.BigEndian
	}
	ptr := g.class / 8
	word := func(b []byte, v uint64) []byte {
		if ptr == 4 {
			return o.AppendUint32(b, uint32(v))
		}
		return o.AppendUint64(b, v)
	}
	u32 := func(b []byte, v ...uint32) []byte {
		for _, x := range v {
			b = o.AppendUint32(b, x)
		}
		return b
	}
	align := func(b []byte, n int) []byte {
		for len(b)%n != 0 {
			b = append(b, 0)
		}
		return b
	}
	names := []byte("\x00main.a\x00main.b\x00main.c\x00main.z\x00")
	const a, b, c, z = 1, 8, 15, 22
	// Values: the differences are zigzag; those of pc are counts.
	pcs := []byte{0}
	table := func(pairs ...int) uint32 {
		at := len(pcs)
		last := -1
		for i := 0; i < len(pairs); i += 2 {
			d := int64(pairs[i] - last)
			pcs = binary.AppendUvarint(pcs, uint64(d<<1)^uint64(d>>63))
			pcs = binary.AppendUvarint(pcs, uint64(pairs[i+1]))
			last = pairs[i]
		}
		pcs = append(pcs, 0)
		return uint32(at)
	}
	first := 0 // number of the first file
	if g.layout == go12 {
		first = 1
	}
	file := table(first, 8, first+1, 4, first, 20)
	line := table(10, 8, 31, 2, 41, 2, 11, 20)
	tree := table(-1, 8, 0, 2, 1, 2, -1, 20)
	zfile, zline := table(first, 16), table(77, 16)

	// Inlined calls: 0 is main.b at pc 4 of main.a, 1 is main.c at pc 9.
	var inl []byte
	if g.layout >= go120 {
		inl = u32(inl, 0, b, 4, 30, 0, c, 9, 40)
	} else {
		for _, e := range [][5]uint32{{0xffff, uint32(first), 10, b, 4}, {0, uint32(first + 1), 31, c, 9}} {
			inl = o.AppendUint16(inl, uint16(e[0]))
			inl = append(inl, 0, 0)
			inl = u32(inl, e[1:]...)
		}
	}
	// The data: inlined calls at 0, two sections, the module, the table.
	data := append([]byte{}, inl...)
	data = align(data, 64)
	module := len(data)
	data = append(data, make([]byte, moduleSize*ptr)...)
	sections := len(data)
	data = align(append(data, make([]byte, 6*ptr)...), 64)
	at := uint64(testGoData + len(data)) // of the table

	h := u32(nil, goMagic[g.layout])
	h = append(h, 0, 0, 1, byte(ptr))
	h = word(h, 2)
	function := func(entry uint64, name, file, line uint32, inlined bool) []byte {
		var f []byte
		if g.layout >= go118 {
			f = u32(f, uint32(entry-testGoText))
		} else {
			f = word(f, entry)
		}
		n := uint32(0)
		if inlined {
			n = 5
		}
		f = u32(f, name, 0, 0, 0, file, line, 3)
		if g.layout >= go116 {
			f = u32(f, 0)
		}
		if g.layout >= go120 {
			f = u32(f, 9)
		}
		f = append(f, 0, 0, 0, byte(n))
		f = u32(f, 0, 0)
		if inlined {
			return u32(f, tree) // funcdata follows: offset 0 from gofunc
		}
		return u32(f, 0)
	}
	const aAt, zAt, endAt = testGoText + 16, testGoText + 48, testGoText + 64
	list := func(offs ...uint32) (l []byte) {
		for i, e := range []uint64{aAt, zAt, endAt} {
			if g.layout >= go118 {
				l = u32(l, uint32(e-testGoText))
			} else {
				l = word(l, e)
			}
			if i < len(offs) && g.layout >= go118 {
				l = u32(l, offs[i])
			} else if i < len(offs) {
				l = word(l, uint64(offs[i]))
			}
		}
		return l
	}
	// with writes the functions behind what is there already.
	with := func(t []byte, base int, list func(a, z uint32) []byte) []byte {
		start := len(t)
		t = append(t, list(0, 0)...)
		if g.layout == go12 {
			t = u32(t, 0) // where the files are, for now
		}
		t = align(t, ptr)
		offA := len(t) - base
		t = append(t, function(aAt, a, file, line, true)...)
		if g.layout >= go118 {
			t = u32(t, 0, 0, 0, 0, 0)
		} else {
			t = align(t, ptr)
			for i := range 5 {
				v := uint64(0)
				if i == 3 && g.layout == go116 || i == 4 && g.layout == go12 {
					v = testGoData
				}
				t = word(t, v)
			}
		}
		t = align(t, ptr)
		offZ := len(t) - base
		t = append(t, function(zAt, z, zfile, zline, false)...)
		copy(t[start:], list(uint32(offA), uint32(offZ)))
		return t
	}
	files := []byte("a.go\x00b.go\x00")
	var parts [5]uint64
	if g.layout == go12 {
		// Names, values and functions are all in one, and count from the header.
		// Both come first, so that where they are is known.
		nameAt, pcAt := uint32(0), uint32(0)
		for range 2 {
			t := append([]byte{}, h...)
			fix := func(f func(uint64, uint32, uint32, uint32, bool) []byte) func(uint64, uint32, uint32, uint32, bool) []byte {
				return func(e uint64, n, fi, l uint32, in bool) []byte { return f(e, n+nameAt, fi+pcAt, l+pcAt, in) }
			}
			old := function
			function = fix(old)
			oldTree := tree
			tree += pcAt
			t = with(t, 0, func(a, z uint32) []byte { return list(a, z) })
			function, tree = old, oldTree
			listEnd := 8 + ptr + 5*ptr
			t = align(t, 4)
			o.PutUint32(t[listEnd:], uint32(len(t)))
			filesAt := uint32(len(t) + 12)
			t = u32(t, 3, filesAt, filesAt+5)
			t = append(t, files...)
			// The number counts itself: file 1 is at index 1.
			nameAt = uint32(len(t))
			t = append(t, names...)
			pcAt = uint32(len(t))
			h2 := append(t, pcs...)
			data = append(data[:at-testGoData], h2...)
		}
		for _, at := range []int{12, 32} {
			o.PutUint32(data[at:], o.Uint32(data[at:])+nameAt)
		}
	} else {
		t := word(h, 2)
		if g.layout >= go118 {
			text := uint64(testGoText)
			if g.noText {
				text = 0
			}
			t = word(t, text)
		}
		head := len(t)
		t = append(t, make([]byte, 5*ptr)...)
		for i, part := range [][]byte{names, u32(nil, 0, 5), files, pcs} {
			t = align(t, 8)
			parts[i] = uint64(len(t))
			t = append(t, part...)
		}
		t = align(t, 8)
		parts[4] = uint64(len(t))
		t = with(t, len(t), func(a, z uint32) []byte { return list(a, z) })
		for i, p := range parts {
			copy(t[head+i*ptr:], word(nil, p))
		}
		data = append(data, t...)
		m := func(i int, v uint64) { copy(data[module+i*ptr:], word(nil, v)) }
		m(0, at)
		for i, p := range parts {
			m(moduleNames+3*i, at+p)
		}
		m(moduleList, at+parts[4])
		m(moduleList+1, 3)
		m(moduleText, testGoText)
		gofunc := moduleText + 16
		if g.layout >= go120 {
			gofunc += 2
		}
		m(gofunc, testGoData)
		m(gofunc+1, testGoData+uint64(sections))
		m(gofunc+2, 1)
		m(gofunc+3, 1)
		if g.twice {
			m(gofunc+2, 2)
			m(gofunc+3, 2)
			for i, v := range []uint64{0, 32, testGoText, 32, 64, testGoText + 0x1020} {
				copy(data[sections+i*ptr:], word(nil, v))
			}
		}
	}
	e := testELF{big: g.big, class: g.class, typ: TypeExec, machine: MachineX86_64, noShdr: true}
	if g.class == 32 {
		e.machine = Machine386
	}
	e.segments = []segment{
		{typ: ptLoad, flags: 5, off: 0, vaddr: testGoText, filesz: 0, memsz: 0x2000, align: 0x1000},
		{typ: ptLoad, flags: 4, off: 0x100, vaddr: testGoData, filesz: uint64(len(data)), memsz: uint64(len(data)), align: 0x10},
	}
	e.sections = []testSection{{name: ".gopclntab", section: section{typ: shtProgbits, off: 0x100}}}
	out := e.bytes()
	out = append(out, make([]byte, max(0, 0x100-len(out)))...)
	return append(out[:0x100], data...)
}

// TestGoLayouts reads every version of the table, in both byte orders and word
// sizes.
func TestGoLayouts(t *testing.T) {
	for layout := range goMagic {
		for _, class := range []int{32, 64} {
			for _, big := range []bool{false, true} {
				for _, noText := range []bool{false, true} {
					for _, twice := range []bool{false, true} {
						g := testGo{layout: goLayout(layout), class: class, big: big, noText: noText, twice: twice}
						if layout < int(go118) && (noText || twice) {
							continue
						}
						t.Run(fmt.Sprintf("%+v", g), func(t *testing.T) { g.check(t) })
					}
				}
			}
		}
	}
}

func (g *testGo) check(t *testing.T) {
	f := openBytes(t, g.bytes())
	tab, err := f.GoTable()
	if err != nil {
		t.Fatal(err)
	}
	const a = testGoText + 16
	z := uint64(testGoText + 48)
	if g.twice {
		z += 0x1000
	}
	var got []string
	for _, addr := range []uint64{a - 1, a, a + 8, a + 10, a + 12, z, z + 15, z + 16} {
		frames, err := tab.Frames(addr, nil)
		if err != nil {
			t.Fatal(err)
		}
		s := ""
		for _, f := range frames {
			s += fmt.Sprintf("%s %s:%d %v; ", f.Name, f.File, f.Line, f.Inlined)
		}
		got = append(got, s)
	}
	want := []string{
		"",
		"main.a a.go:10 false; ",
		"main.b b.go:31 true; main.a a.go:10 false; ",
		"main.c b.go:41 true; main.b b.go:31 true; main.a a.go:10 false; ",
		"main.a a.go:11 false; ",
		"main.z a.go:77 false; ",
		"main.z a.go:77 false; ",
		"",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if s, ok := tab.Lookup(a + 1); !ok || s.Name != "main.a" || s.Start != a {
		t.Errorf("%+v", s)
	}
}

// TestGoHostile: tables that lie are refused, or name less, and cost little.
func TestGoHostile(t *testing.T) {
	for layout := range goMagic {
		g := testGo{layout: goLayout(layout), class: 64}
		b := g.bytes()
		for i := 0x100; i < len(b); i += raceFactor {
			for _, v := range []byte{0, 1, 0x7f, 0xff} {
				old := b[i]
				b[i] = v
				exerciseGo(t, b)
				b[i] = old
			}
		}
		for n := 0; n < len(b); n += raceFactor {
			exerciseGo(t, b[:n:n])
		}
	}
}

func exerciseGo(t testing.TB, b []byte) {
	f, err := Open(bytes.NewReader(b), int64(len(b)), "program", decode.NewBudget(decode.Limits{Bytes: 1 << 26, Steps: 1 << 20}))
	if err != nil {
		return
	}
	tab, err := f.GoTable()
	if err != nil {
		if !errors.Is(err, ErrNoGoTable) {
			var limit *decode.LimitError
			if !errors.As(err, &limit) {
				t.Errorf("error %v", err)
			}
		}
		return
	}
	for i := range min(tab.Len(), 8) {
		s := tab.Sym(i)
		for _, addr := range []uint64{s.Start, s.Start + 8, s.Start + 10, s.End - 1} {
			tab.Frames(addr, nil)
		}
	}
	f.Symbols(SymbolOptions{})
}

func FuzzGoTable(f *testing.F) {
	for layout := range goMagic {
		for _, class := range []int{32, 64} {
			g := testGo{layout: goLayout(layout), class: class, big: class == 32}
			f.Add(g.bytes())
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) { exerciseGo(t, b) })
}
