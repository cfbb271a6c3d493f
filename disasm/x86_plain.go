//go:build !iced

package disasm

import (
	"strings"

	"golang.org/x/arch/x86/x86asm"
)

// newX86 returns a decoder of 32- or 64-bit code for builds without iced.
func newX86(bits int, intel bool) *Decoder {
	return &Decoder{
		decode: func(code []byte, addr uint64) Inst { return plainX86(code, addr, bits, intel) },
		notice: "this perfark was built without iced-x86: some instructions of newer x86 processors are shown wrong or as (bad)",
	}
}

func plainX86(code []byte, addr uint64, bits int, intel bool) Inst {
	if len(code) >= 4 && string(code[:3]) == "\xf3\x0f\x1e" && code[3]&^1 == 0xfa { // x86asm takes it for a prefix
		return Inst{Len: 4, Text: map[byte]string{0xfa: "endbr64", 0xfb: "endbr32"}[code[3]]}
	}
	if len(code) >= 3 && code[0] == 0xc5 && code[1]&^4 == 0xf8 && code[2] == 0x77 { // and these for all that follows
		return Inst{Len: 3, Text: map[byte]string{0xf8: "vzeroupper", 0xfc: "vzeroall"}[code[1]]}
	}
	in, err := x86asm.Decode(code, bits)
	if err != nil || in.Len <= 0 || in.Len > min(len(code), 15) || in.Op == 0 {
		return badX86(code[:min(len(code), 15)], bits, func() bool { return false })
	}
	i := Inst{Len: in.Len}
	switch name := in.Op.String(); {
	case name == "JMP" || name == "LJMP":
		i.Kind = Jump
	case name == "CALL" || name == "LCALL":
		i.Kind = Call
	case name == "RET" || name == "LRET" || strings.HasPrefix(name, "IRET"):
		i.Kind = Return
	case strings.HasPrefix(name, "J") || strings.HasPrefix(name, "LOOP") || name == "XBEGIN":
		i.Kind = Branch
	}
	for _, a := range in.Args {
		switch a := a.(type) {
		case x86asm.Rel:
			i.Target, i.HasTarget = addr+uint64(in.Len)+uint64(int64(a)), i.Kind != Plain
		case x86asm.Mem:
			if a.Base == x86asm.RIP {
				i.Data, i.HasData = addr+uint64(in.Len)+uint64(a.Disp), true
			}
		}
	}
	if intel {
		i.Text = intel86(code[:in.Len], "", strings.ReplaceAll(x86asm.IntelSyntax(in, addr, nil), ", ", ","), bits)
	} else {
		i.Text = gas(code[:in.Len], "", strings.ReplaceAll(x86asm.GNUSyntax(in, addr, nil), ", ", ","), bits)
	}
	return i
}
