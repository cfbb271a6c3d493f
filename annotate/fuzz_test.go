package annotate

import (
	"strings"
	"testing"

	"github.com/perfark/perfark/disasm"
	"github.com/perfark/perfark/objfile"
)

// FuzzShort writes what any objdump may print in both forms: it ends, and no
// character reaches the terminal that it would act upon.
func FuzzShort(f *testing.F) {
	f.Add("jmp    401045 <collatz+0x1a>", "collatz+0x1a")
	f.Add("tbz\tw0, #3, 10 <f+0x10>  // comment", "f+0x10")
	f.Add("mov    0x2bff(%rip),%rax        # 4020 <x>", "x")
	f.Add("mov    rax,QWORD PTR [rip+0x2bff]        # 0x4020", "x\x1b]y")
	f.Add("nopw\t%cs:0x0(%rax,%rax,1)", "<>")
	f.Fuzz(func(t *testing.T, text, name string) {
		for _, m := range []objfile.Machine{objfile.MachineX86_64, objfile.MachineAArch64, objfile.MachinePPC64, objfile.MachineS390} {
			x := Line{Addr: 0x401000, Inst: disasm.Parse(m, text), Bytes: []byte{0x90}}
			x.Text = x.Inst.Format(func(uint64) string { return name })
			s := NewShort([]Line{x}, 0x100)
			for _, out := range []string{s.Text(&x), s.Whole(&x)} {
				if strings.ContainsAny(out, "\x1b\n\r\x00\x7f") {
					t.Fatalf("%q of %q", out, x.Text)
				}
			}
		}
	})
}
