package unwind

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/objfile"
)

func open(t testing.TB, name string) *Module {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Skipf("NOTICE: %v", err)
	}
	f, err := objfile.Open(bytes.NewReader(b), int64(len(b)), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewModule(f, nil, decode.NewBudget(decode.Limits{}))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// names of registers as readelf prints them, by DWARF number.
var x86Names = map[string]uint64{
	"rax": 0, "rdx": 1, "rcx": 2, "rbx": 3, "rsi": 4, "rdi": 5, "rbp": 6, "rsp": 7, "r8": 8, "r9": 9, "r10": 10,
	"r11": 11, "r12": 12, "r13": 13, "r14": 14, "r15": 15, "ra": 16,
}

// TestReadelf compares the rules at every address where they change with
// those that readelf --debug-dump=frames-interp prints.
func TestReadelf(t *testing.T) {
	if _, err := exec.LookPath("readelf"); err != nil {
		t.Skip("NOTICE: readelf is not installed")
	}
	files := []string{"/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "/bin/bash"}
	if testing.Short() {
		files = files[:1]
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			m := open(t, name)
			if m.machine != objfile.MachineX86_64 {
				t.Skip("NOTICE: not x86-64")
			}
			out, err := exec.Command("readelf", "-wF", name).Output()
			if err != nil {
				t.Skipf("NOTICE: readelf: %v", err)
			}
			if n := compareRows(t, m, out); n < 1000 {
				t.Errorf("only %d rows compared", n)
			}
		})
	}
}

func compareRows(t *testing.T, m *Module, out []byte) int {
	var regs []string
	var pending []string
	var end uint64
	compared := 0
	check := func(next uint64) {
		if pending == nil {
			return
		}
		at, _ := strconv.ParseUint(pending[0], 16, 64)
		if at == next || at >= end {
			return // replaced at once
		}
		compared++
		row, err := m.row(at)
		if err != nil {
			t.Fatalf("%#x: %v", at, err)
		}
		if got, want := text(row, regs), strings.Join(pending[1:], " "); got != want {
			t.Fatalf("%#x: got %s, want %s (%v)", at, got, want, regs)
		}
	}
	fde := regexp.MustCompile(`FDE .*pc=([0-9a-f]+)\.\.([0-9a-f]+)`)
	sc := bufio.NewScanner(bytes.NewReader(out))
	for sc.Scan() {
		line := sc.Text()
		f := strings.Fields(line)
		switch {
		case len(f) == 0:
		case f[0] == "LOC":
			regs = f[2:]
		case strings.Contains(line, " CIE "), strings.Contains(line, " FDE "):
			check(end)
			pending, end = nil, 0
			if x := fde.FindStringSubmatch(line); x != nil {
				end, _ = strconv.ParseUint(x[2], 16, 64)
			}
		case len(f) == len(regs)+2 && end > 0:
			at, err := strconv.ParseUint(f[0], 16, 64)
			if err != nil {
				continue
			}
			check(at)
			pending = f
		}
	}
	check(end)
	return compared
}

// text prints a row as readelf does.
func text(w *row, regs []string) string {
	cfa := "exp"
	if w.cfaExpr == nil {
		for name, n := range x86Names {
			if n == w.cfaReg {
				cfa = fmt.Sprintf("%s%+d", name, w.cfaOff)
			}
		}
	}
	out := []string{cfa}
	for _, name := range regs {
		r := w.rule(x86Names[name])
		switch {
		case r == nil, r.kind == undefined:
			out = append(out, "u")
		case r.kind == same:
			out = append(out, "s")
		case r.kind == inMemory:
			out = append(out, fmt.Sprintf("c%+d", r.off))
		case r.kind == value:
			out = append(out, fmt.Sprintf("v%+d", r.off))
		case r.kind == atExpr:
			out = append(out, "exp")
		case r.kind == valueExpr:
			out = append(out, "vexp")
		}
	}
	return strings.Join(out, " ")
}

// TestLoad is the order of perf_regs.h on x86-64 and arm64.
func TestLoad(t *testing.T) {
	var r Regs
	// ax to ip without flags and segments, r8 to r15: what perf asks for.
	mask := uint64(0xff0fff)
	values := make([]uint64, 20)
	for i := range values {
		values[i] = uint64(100 + i)
	}
	if !X86_64.Load(&r, mask, values) {
		t.Fatal("no pc or no sp")
	}
	for reg, want := range map[uint64]uint64{0: 100, 3: 101, 2: 102, 1: 103, 6: 106, 7: 107, 8: 112, 15: 119} {
		if got, ok := r.Reg(reg); !ok || got != want {
			t.Errorf("register %d: got %d, want %d", reg, got, want)
		}
	}
	if r.PC != 108 || !r.Exact {
		t.Errorf("pc: got %+v", r.PC)
	}
	if _, ok := r.Reg(16); ok {
		t.Error("the return address is no register")
	}
	if !ARM64.Load(&r, 1<<33-1, append(values, values...)) || r.PC != 112 || ARM64.SP(&r) != 111 {
		t.Errorf("arm64: pc %d, sp %d", r.PC, ARM64.SP(&r))
	}
	if X86_64.Load(&r, 1<<8, []uint64{1}) {
		t.Error("loaded without a stack pointer")
	}
}

// TestStepFP covers what frame pointers must look like.
func TestStepFP(t *testing.T) {
	stack := &Stack{Base: 0x1000, Data: make([]byte, 64)}
	put := func(off int, v uint64) {
		for i := range 8 {
			stack.Data[off+i] = byte(v >> (8 * i))
		}
	}
	put(16, 0x1030)
	put(24, 0xabc)
	w := NewWalker(X86_64)
	var r Regs
	r.set(6, 0x1010)
	r.set(7, 0x1000)
	if err := w.StepFP(&r, stack); err != nil || r.PC != 0xabc || r.Exact {
		t.Fatalf("got %v, pc %#x", err, r.PC)
	}
	if sp, _ := r.Reg(7); sp != 0x1020 {
		t.Errorf("sp %#x", sp)
	}
	if err := w.StepFP(&r, stack); !errors.Is(err, ErrOutermost) {
		t.Errorf("got %v, want the outermost frame", err)
	}
	r.set(6, 0x2000)
	if err := w.StepFP(&r, stack); !errors.Is(err, ErrMemory) && !errors.Is(err, ErrNoRule) {
		t.Errorf("got %v", err)
	}
}

// TestPLT is what ld writes for the entries of a PLT: before the push of the
// 11th byte the frame is of one word, behind it of two.
func TestPLT(t *testing.T) {
	expr := []byte{opBreg0 + 7, 8, opBreg0 + 16, 0, opLit0 + 15, opAnd, opLit0 + 11, opGe, opLit0 + 3, opShl, opPlus}
	m := &Module{machine: objfile.MachineX86_64, wide: true}
	var r Regs
	r.set(7, 0x1000)
	for pc, want := range map[uint64]uint64{0x5060: 0x1008, 0x506a: 0x1008, 0x506b: 0x1010, 0x506f: 0x1010} {
		r.PC = pc
		if got, err := m.eval(expr, &r, &Stack{}, 0, nil); err != nil || got != want {
			t.Errorf("%#x: got %#x, %v, want %#x", pc, got, err, want)
		}
	}
}

// FuzzRules feeds sections that say anything at all.
func FuzzRules(f *testing.F) {
	f.Add([]byte("\x14\x00\x00\x00\x00\x00\x00\x00\x01zR\x00\x01\x78\x10\x01\x1b\x0c\x07\x08\x90\x01\x00\x00"+
		"\x18\x00\x00\x00\x1c\x00\x00\x00\x00\x10\x00\x00\x20\x00\x00\x00\x00\x44\x0e\x10\x86\x02\x0a\x0b"), uint64(0x1024), true, false)
	f.Fuzz(func(t *testing.T, data []byte, pc uint64, eh, big bool) {
		m := &Module{machine: objfile.MachineX86_64, wide: true, big: big, budget: decode.NewBudget(decode.Limits{Bytes: 1 << 24, Steps: 1 << 24})}
		m.spaces = []space{{data: data, eh: eh}}
		m.index(0)
		w := NewWalker(X86_64)
		for _, e := range append(m.entries, entry{start: pc}) {
			for _, at := range []uint64{pc, e.start, e.end - 1} {
				row, err := m.row(at)
				if err != nil {
					continue
				}
				var r Regs
				r.PC = at
				for i := range uint64(17) {
					r.set(i, 0x1000)
				}
				w.apply(m, row, &r, &Stack{Base: 0x1000, Data: data}, 0)
			}
		}
	})
}
