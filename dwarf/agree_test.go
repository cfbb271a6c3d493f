package dwarf_test

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/perfark/perfark/dwarf"
	"github.com/perfark/perfark/objfile"
)

// symbolizer returns the newest llvm-symbolizer, or skips the test.
func symbolizer(t testing.TB) string {
	for v := 30; v >= 14; v-- {
		if p, err := exec.LookPath("llvm-symbolizer-" + strconv.Itoa(v)); err == nil {
			return p
		}
	}
	p, err := exec.LookPath("llvm-symbolizer")
	if err != nil {
		t.Skip("no llvm-symbolizer to compare with")
	}
	return p
}

// A theirFrame is a frame in the JSON of llvm-symbolizer.
type theirFrame struct {
	FunctionName string
	FileName     string
	Line, Column int
}

// theirs asks llvm-symbolizer for the frames of addresses.
func theirs(t testing.TB, file string, addrs []uint64, args ...string) [][]theirFrame {
	var in bytes.Buffer
	for _, a := range addrs {
		fmt.Fprintf(&in, "%#x\n", a)
	}
	cmd := exec.Command(symbolizer(t), append([]string{"--obj=" + file, "--inlines", "--no-demangle", "--output-style=JSON"}, args...)...)
	cmd.Stdin = &in
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: llvm-symbolizer: %v", file, err)
	}
	var all [][]theirFrame
	dec := json.NewDecoder(bytes.NewReader(out))
	for dec.More() {
		var x struct{ Symbol []theirFrame }
		if err := dec.Decode(&x); err != nil {
			t.Fatalf("%s: llvm-symbolizer: %v", file, err)
		}
		all = append(all, x.Symbol)
	}
	if len(all) != len(addrs) {
		t.Fatalf("%s: llvm-symbolizer gave %d answers to %d addresses", file, len(all), len(addrs))
	}
	return all
}

// openDWARF opens the debug information of a file.
func openDWARF(t testing.TB, name string, o objfile.DWARFOptions) (*objfile.File, *dwarf.Data) {
	r, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	fi, err := r.Stat()
	if err != nil {
		t.Fatal(err)
	}
	f, err := objfile.Open(r, fi.Size(), filepath.Base(name), nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := f.DWARF(o)
	if err != nil {
		t.Fatal(err)
	}
	return f, d
}

// An agreement counts addresses by how the answers compare.
type agreement struct {
	addrs  int
	equal  int // same functions, files and lines
	column int // the same but for a column
	differ []string
}

// compare compares our frames with those of llvm-symbolizer. Of the outermost
// function it takes the name from the symbol table, so that is not compared.
func compare(t testing.TB, name string, d *dwarf.Data, addrs []uint64, want [][]theirFrame) agreement {
	a := agreement{addrs: len(addrs)}
	var buf []dwarf.Frame
	for i, addr := range addrs {
		var err error
		if buf, err = d.Frames(addr, buf[:0]); err != nil {
			t.Fatalf("%s: %#x: %v", name, addr, err)
		}
		same, column := sameFrames(buf, want[i])
		switch {
		case same && column:
			a.equal++
		case same:
			a.equal++
			a.column++
		default:
			a.differ = append(a.differ, fmt.Sprintf("%s: %#x: %s\n\twant %s", name, addr, showOurs(buf), showTheirs(want[i])))
		}
	}
	return a
}

func sameFrames(ours []dwarf.Frame, want []theirFrame) (same, column bool) {
	if len(ours) == 0 {
		// It takes the name from the symbol table, and the file from there too.
		return len(want) == 1 && want[0].Line == 0, true
	}
	if len(ours) != len(want) {
		return false, false
	}
	column = true
	for i := range ours {
		o, w := &ours[i], &want[i]
		if i == 0 && o.File == "" && o.Line == 0 && w.Line == 0 {
			continue // the file is that of the symbol table
		}
		if o.Line != w.Line || o.File != w.FileName {
			return false, false
		}
		if i < len(ours)-1 && !sameName(o, w.FunctionName) {
			return false, false
		}
		column = column && o.Column == w.Column
	}
	return true, column
}

// sameName compares a name: theirs has no namespace if it is not that of the
// symbol table.
func sameName(f *dwarf.Frame, want string) bool {
	if f.Linkage {
		return f.Name == want
	}
	return f.Name == want || strings.HasSuffix(f.Name, "::"+want) || strings.HasSuffix(f.Name, "."+want)
}

func showOurs(fs []dwarf.Frame) string {
	var sb strings.Builder
	for _, f := range fs {
		fmt.Fprintf(&sb, "[%s %s:%d:%d]", f.Name, f.File, f.Line, f.Column)
	}
	return sb.String()
}

func showTheirs(fs []theirFrame) string {
	var sb strings.Builder
	for _, f := range fs {
		fmt.Fprintf(&sb, "[%s %s:%d:%d]", f.FunctionName, f.FileName, f.Line, f.Column)
	}
	return sb.String()
}

// randomAddresses returns addresses within the functions of a file.
func randomAddresses(t testing.TB, name string, d *dwarf.Data, n int) []uint64 {
	type fn struct{ lo, hi uint64 }
	var fns []fn
	e, err := elf.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	syms, _ := e.Symbols()
	for _, s := range syms {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Size > 0 && int(s.Section) < len(e.Sections) && e.Sections[s.Section].Flags&elf.SHF_EXECINSTR != 0 {
			fns = append(fns, fn{s.Value, s.Value + s.Size})
		}
	}
	if len(fns) == 0 {
		err := d.Functions(func(x dwarf.Func) bool {
			fns = append(fns, fn{x.Start, x.End})
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(fns) == 0 {
		return nil
	}
	rnd := rand.New(rand.NewPCG(1, uint64(len(name))))
	out := make([]uint64, n)
	for i := range out {
		x := fns[rnd.IntN(len(fns))]
		out[i] = x.lo + rnd.Uint64N(x.hi-x.lo)
	}
	return out
}

// TestAgreement compares the lines and inlined functions of random addresses
// of large debug files with llvm-symbolizer. PERFARK_DEBUG_FILES names the
// files, or directories to look for them in; PERFARK_AGREE_ADDRS is the number of
// addresses of all files together, 100,000 if not set.
func TestAgreement(t *testing.T) {
	list := os.Getenv("PERFARK_DEBUG_FILES")
	if list == "" {
		t.Skip("PERFARK_DEBUG_FILES is not set: no debug files to compare")
	}
	total := 100_000
	if s := os.Getenv("PERFARK_AGREE_ADDRS"); s != "" {
		total, _ = strconv.Atoi(s)
	}
	files := debugFiles(t, filepath.SplitList(list))
	var sum agreement
	for _, name := range files {
		_, d := openDWARF(t, name, objfile.DWARFOptions{})
		addrs := randomAddresses(t, name, d, total/len(files))
		if len(addrs) == 0 {
			t.Logf("%s: no functions", name)
			continue
		}
		a := compare(t, name, d, addrs, theirs(t, name, addrs))
		t.Logf("%s: %d of %d equal, %d but for a column", name, a.equal, a.addrs, a.column)
		for _, w := range d.Warnings() {
			t.Log(w)
		}
		for _, s := range a.differ[:min(len(a.differ), 5)] {
			t.Log(s)
		}
		sum.addrs += a.addrs
		sum.equal += a.equal
		sum.column += a.column
	}
	t.Logf("%d files: %d of %d equal (%.3f %%), %d of them but for a column", len(files), sum.equal, sum.addrs, 100*float64(sum.equal)/float64(sum.addrs), sum.column)
	if sum.equal*1000 < sum.addrs*999 {
		t.Errorf("%d of %d addresses are equal, want 99.9 %%", sum.equal, sum.addrs)
	}
}

// debugFiles returns the files in the list, and the largest 30 with debug
// information below its directories.
func debugFiles(t *testing.T, list []string) []string {
	type file struct {
		name string
		size int64
	}
	var found []file
	var out []string
	for _, name := range list {
		fi, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if !fi.IsDir() {
			out = append(out, name)
			continue
		}
		err = filepath.Walk(name, func(p string, fi os.FileInfo, err error) error {
			if err != nil || !fi.Mode().IsRegular() || fi.Size() < 1<<20 {
				return nil
			}
			// Of a relocatable file, addresses of several sections are equal.
			if e, err := elf.Open(p); err == nil {
				if e.Type != elf.ET_REL && (e.Section(".debug_info") != nil || e.Section(".zdebug_info") != nil) {
					found = append(found, file{p, fi.Size()})
				}
				e.Close()
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.SortFunc(found, func(a, b file) int { return cmp.Compare(b.size, a.size) })
	for _, f := range found[:min(len(found), 30)] {
		out = append(out, f.name)
	}
	return out
}
