package objfile_test

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/objfile"
)

const labelsSource = `
	.text
	.globl beta, alpha, _start
	.type alpha, @function
	.type beta, @function
_start:
	nop
alpha:
beta:
	call hidden
	jmp _start
	.size beta, .-beta
	.size alpha, 1
	.hidden hidden
hidden:
	lea table+4(%rip), %rax
	lea end(%rip), %rax
	ret
	.data
	.quad 0
table:
	.quad 0
	.bss
	.skip 16
end:
	.skip 16
`

// TestBefore compares the names of addresses with objdump's.
func TestBefore(t *testing.T) {
	objdump := perftest.NeedTool(t, "objdump")
	gcc := perftest.NeedTool(t, "gcc")
	dir := t.TempDir()
	src, prog := filepath.Join(dir, "x.s"), filepath.Join(dir, "x")
	if err := os.WriteFile(src, []byte(labelsSource), 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(gcc, "-nostdlib", "-static", "-o", prog, src).CombinedOutput(); err != nil {
		t.Skipf("gcc: %s", out)
	}
	if f, err := elf.Open(prog); err != nil || f.Machine != elf.EM_X86_64 {
		t.Skip("not x86-64")
	}
	f, err := os.Open(prog)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	x, err := objfile.Open(f, fi.Size(), prog, nil)
	if err != nil {
		t.Fatal(err)
	}
	tab, err := x.Symbols(objfile.SymbolOptions{Space: objfile.Addresses, Labels: true})
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(objdump, "-d", "--no-show-raw-insn", prog).Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, m := range regexp.MustCompile(`\b([0-9a-f]+) <([^>+]+)(?:\+0x([0-9a-f]+))?>`).FindAllStringSubmatch(string(out), -1) {
		addr, _ := strconv.ParseUint(m[1], 16, 64)
		off, _ := strconv.ParseUint("0"+m[3], 16, 64)
		s, ok := tab.Before(addr)
		if !ok || s.Name != m[2] || addr-s.Start != off {
			t.Errorf("%#x: %+v, %v, want %s+%#x", addr, s, ok, m[2], off)
		}
		seen++
	}
	if seen < 6 {
		t.Errorf("%d names in\n%s", seen, out)
	}
	if first, ok := tab.Before(0); !ok || !strings.HasPrefix(first.Name, "_start") {
		t.Errorf("before all: %+v, %v", first, ok)
	}
}

// TestDemangleFull compares with c++filt, which prints names as objdump -C.
func TestDemangleFull(t *testing.T) {
	filt := perftest.NeedTool(t, "c++filt")
	names := []string{
		"main", "_ZN4shop5TableINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEElE3addERKS6_l", "_ZN4shop3mixILi3EEElRSt6vectorIlSaIlEE",
		"_ZNK5heavy4AreaclERKNS_3TriE", "_ZTVSt9basic_iosIcSt11char_traitsIcEE", "_Znwm@plt", "_ZN3fooEv.isra.0", "_ZSt11make_uniqueIN5heavy5NodeNILi28EEEJEENSt9_MakeUniqIT_E15__single_objectEDpOT0_",
	}
	for _, name := range names {
		mangled, plt, isPLT := strings.Cut(name, "@") // c++filt does not know what is behind it
		out, err := exec.Command(filt, mangled).Output()
		if err != nil {
			t.Fatal(err)
		}
		want := strings.TrimSpace(string(out))
		if isPLT {
			want += "@" + plt
		}
		if got := objfile.DemangleFull(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
