package disasm

import (
	"bufio"
	"debug/elf"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/perfark/perfark/objfile"
)

// A listing is a section of code as objdump prints it.
type listing struct {
	base uint64
	code []byte
	addr []uint64 // of each instruction
	text []string // of each, without symbols
}

var symbolic = regexp.MustCompile(` <[^>]*>`)

// objdump has a binary's .text disassembled.
func objdump(t *testing.T, tool, name string, args ...string) listing {
	t.Helper()
	if _, err := exec.LookPath(tool); err != nil {
		t.Skipf("no %s", tool)
	}
	f, err := elf.Open(name)
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	section := f.Section(".text")
	l := listing{base: section.Addr}
	if l.code, err = section.Data(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(tool, append(args, "-d", "-z", "-j", ".text", "--no-show-raw-insn", name)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for sc := bufio.NewScanner(out); sc.Scan(); {
		addr, text, ok := strings.Cut(sc.Text(), ":\t")
		if !ok {
			continue
		}
		if a, err := strconv.ParseUint(strings.TrimSpace(addr), 16, 64); err == nil {
			l.addr = append(l.addr, a)
			l.text = append(l.text, strings.TrimRight(symbolic.ReplaceAllString(text, ""), " "))
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(l.addr) == 0 {
		t.Fatalf("%s %s: no instructions", tool, name)
	}
	return l
}

func noNames(uint64) string { return "" }

// TestObjdump reads whole sections from one end to the other. All
// instructions begin where objdump's do, and read the same, up to the share
// that docs/annotate.md lists.
func TestObjdump(t *testing.T) {
	for _, tt := range []struct {
		name, tool, file string
		args             []string
		machine          objfile.Machine
		bits             int
		options          Options
		starts, texts    float64 // percent that agree, at least
	}{
		{"libc", "objdump", "/lib/x86_64-linux-gnu/libc.so.6", nil, objfile.MachineX86_64, 64, Options{}, exactStarts, exactTexts},
		{"libc intel", "objdump", "/lib/x86_64-linux-gnu/libc.so.6", []string{"-M", "intel"}, objfile.MachineX86_64, 64, Options{Intel: true}, exactStarts, plainIntel},
		{"perf", "objdump", "/usr/bin/perf", nil, objfile.MachineX86_64, 64, Options{}, exactStarts, exactTexts},
		{"libc i386", "i686-linux-gnu-objdump", "/usr/i686-linux-gnu/lib/libc.so.6", nil, objfile.Machine386, 32, Options{}, exactStarts, exactTexts},
		{"riscv64", "riscv64-linux-gnu-objdump", "/usr/riscv64-linux-gnu/lib/libc.so.6", nil, objfile.MachineRISCV, 64, Options{}, 100, 100},
		{"ppc64le", "powerpc64le-linux-gnu-objdump", "/usr/powerpc64le-linux-gnu/lib/libc.so.6", nil, objfile.MachinePPC64, 64, Options{}, 100, 99.9},
		{"s390x", "s390x-linux-gnu-objdump", "/usr/s390x-linux-gnu/lib/libc.so.6", nil, objfile.MachineS390, 64, Options{Big: true}, 100, 99.98},
		{"arm", "arm-linux-gnueabihf-objdump", "/usr/arm-linux-gnueabihf/lib/libc.so.6", nil, objfile.MachineARM, 32, Options{Thumb: true}, 99.97, 0},
		{"arm64", "aarch64-linux-gnu-objdump", "/usr/aarch64-linux-gnu/lib/libc.so.6", nil, objfile.MachineAArch64, 64, Options{}, 100, 100},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if x86 := tt.machine == objfile.MachineX86_64 || tt.machine == objfile.Machine386; !withIced && x86 && tt.name != "libc" {
				t.Skip("for builds with iced")
			}
			want := objdump(t, tt.tool, tt.file, tt.args...)
			d, err := New(tt.machine, tt.bits, tt.options)
			if err != nil {
				t.Fatal(err)
			}
			got := map[uint64]string{}
			for at := 0; at < len(want.code); {
				in := d.Decode(want.code[at:], want.base+uint64(at))
				got[want.base+uint64(at)] = in.Format(noNames)
				at += in.Len
			}
			starts, texts, shown := 0, 0, 0
			for i, a := range want.addr {
				text, ok := got[a]
				if ok {
					starts++
				}
				if text == want.text[i] {
					texts++
				} else if shown++; shown <= 20 {
					t.Logf("%x: %q, want %q", a, text, want.text[i])
				}
			}
			n := float64(len(want.addr))
			if s, x := 100*float64(starts)/n, 100*float64(texts)/n; s < tt.starts || x < tt.texts {
				t.Errorf("of %d instructions %.4f %% begin and %.4f %% read as objdump's, want %v and %v", len(want.addr), s, x, tt.starts, tt.texts)
			} else {
				t.Logf("of %d instructions %.4f %% begin and %.4f %% read as objdump's", len(want.addr), s, x)
			}
		})
	}
}
