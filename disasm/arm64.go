package disasm

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/arch/arm64/arm64asm"
)

// word4 is the length of the instructions of machines that have but one.
const word4 = 4

// arm64 reads code of AArch64, which has the least significant byte first
// whatever the data has.
func arm64(code []byte, addr uint64) Inst {
	if len(code) < word4 {
		return Inst{Len: len(code), Text: ".byte\t" + hexBytes(code), Bad: true}
	}
	in, err := arm64asm.Decode(code[:word4])
	if err != nil {
		return Inst{Len: word4, Text: fmt.Sprintf(".inst\t0x%08x", binary.LittleEndian.Uint32(code)), Bad: true}
	}
	i := Inst{Len: word4}
	op, args, _ := strings.Cut(arm64asm.GNUSyntax(in), " ")
	for _, a := range in.Args {
		if rel, ok := a.(arm64asm.PCRel); ok {
			from := addr
			if in.Op == arm64asm.ADRP {
				from &^= 0xfff
			}
			i.Target, i.HasTarget = from+uint64(int64(rel)), true
			if n := strings.LastIndex(args, ".+0x"); n >= 0 {
				args = args[:n] + strconv.FormatUint(i.Target, 16)
			}
		}
	}
	switch in.Op {
	case arm64asm.B:
		i.Kind = Jump
		if _, ok := in.Args[0].(arm64asm.Cond); ok {
			i.Kind = Branch
			i.Comment = condition(strings.TrimPrefix(op, "b."), "b.")
		}
	case arm64asm.CBZ, arm64asm.CBNZ, arm64asm.TBZ, arm64asm.TBNZ:
		i.Kind = Branch
	case arm64asm.BL, arm64asm.BLR:
		i.Kind = Call
	case arm64asm.BR:
		i.Kind = Jump
	case arm64asm.RET, arm64asm.ERET:
		i.Kind = Return
	case arm64asm.MOV:
		if n := strings.LastIndex(args, "#0x"); n >= 0 {
			i.Comment = immediate(args[n+3:], args[0] == 'w')
		}
	}
	args = strings.ReplaceAll(args, ",#", ", #")
	i.Text = op
	if args != "" {
		i.Text += "\t" + args
	}
	return i
}

// condition returns what objdump says of the other names of a condition.
func condition(cc, prefix string) string {
	names := map[string]string{
		"eq": "none", "ne": "any", "cs": "hs nlast", "cc": "lo ul last", "mi": "first", "pl": "nfrst",
		"hi": "pmore", "ls": "plast", "ge": "tcont", "lt": "tstop",
	}[cc]
	if names == "" {
		return ""
	}
	return "  // " + prefix + strings.ReplaceAll(names, " ", ", "+prefix)
}

// immediate returns what objdump says of a number: its decimal form.
func immediate(digits string, narrow bool) string {
	n, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		return ""
	}
	v := int64(n)
	if narrow {
		v = int64(int32(n))
	}
	return strings.Repeat(" ", max(20-len(digits), 0)) + "\t// #" + strconv.FormatInt(v, 10)
}

func hexBytes(code []byte) string {
	var out []string
	for _, c := range code {
		out = append(out, fmt.Sprintf("0x%02x", c))
	}
	return strings.Join(out, ", ")
}
