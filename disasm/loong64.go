package disasm

import (
	"encoding/binary"
	"strings"

	"golang.org/x/arch/loong64/loong64asm"

	"github.com/perfark/perfark/objfile"
)

// loong64 reads code of LoongArch.
func loong64(code []byte, addr uint64) Inst {
	if len(code) < word4 {
		return data(code, word4, ".word", binary.LittleEndian)
	}
	in, err := loong64asm.Decode(code[:word4])
	if err != nil {
		return data(code, word4, ".word", binary.LittleEndian)
	}
	op, args := parts(loong64asm.GNUSyntax(in))
	i := Inst{Len: word4, Kind: kindOf(objfile.MachineLoong, op), Text: column(op, args, 0)}
	if op == "ret" {
		return i
	}
	if op == "jirl" {
		i.Kind = Jump
		if args == "$zero, $ra, 0" || args == "$r0, $r1, 0" {
			i.Kind = Return
		} else if strings.HasPrefix(args, "$ra,") || strings.HasPrefix(args, "$r1,") {
			i.Kind = Call
		}
		return i
	}
	for _, a := range in.Args {
		if rel, ok := a.(loong64asm.OffsetSimm); ok && i.Kind != Plain {
			i.target(op, args, addr+uint64(int64(rel.Imm)), 0)
		}
	}
	return i
}
