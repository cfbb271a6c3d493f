package disasm

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/arch/arm/armasm"

	"github.com/perfark/perfark/objfile"
)

// arm reads code of 32-bit ARM, but for Thumb.
func arm(big bool) func([]byte, uint64) Inst {
	return func(code []byte, addr uint64) Inst {
		if len(code) < word4 {
			return data(code, word4, ".word", binary.LittleEndian)
		}
		word := [word4]byte(code[:word4])
		if big {
			word = [word4]byte{code[3], code[2], code[1], code[0]}
		}
		in, err := armasm.Decode(word[:], armasm.ModeARM)
		stored := false
		if err != nil && word[3]&0xe == 6 && word[2]&0x10 == 0 { // a store: the library knows the load
			load := word
			load[2] |= 0x10
			in, err = armasm.Decode(load[:], armasm.ModeARM)
			stored = err == nil
		}
		if err != nil {
			return data(word[:], word4, ".word", binary.LittleEndian)
		}
		op, args := parts(armasm.GNUSyntax(in))
		if stored {
			op = "st" + strings.TrimPrefix(op, "ld")
		}
		i := Inst{Len: word4, Kind: kindOf(objfile.MachineARM, op), Text: column(op, args, 0)}
		for _, a := range in.Args {
			if rel, ok := a.(armasm.PCRel); ok {
				i.target(op, args, uint64(uint32(addr)+8+uint32(rel)), 0)
			}
		}
		if !i.HasTarget {
			args = armNames.Replace(args)
			if name := armBarriers[args]; name != "" && (op == "dmb" || op == "dsb") {
				args = name
			}
			i.Text, i.Comment = column(op, args, 0), armComment(op, args, addr, binary.LittleEndian.Uint32(word[:]))
		}
		if op == "bx" && args == "lr" || op == "pop" && strings.Contains(args, "pc") {
			i.Kind = Return
		}
		return i
	}
}

var (
	armNames = strings.NewReplacer("apsr_nzcv", "APSR_nzcv")
	// armBarriers are the options of barriers.
	// Source: Arm Architecture Reference Manual ARMv7-A, A8.8.43, DMB.
	armBarriers = map[string]string{"#2": "oshst", "#3": "osh", "#6": "nshst", "#7": "un", "#10": "ishst", "#11": "ish", "#14": "st", "#15": "sy"}
	armNumber   = regexp.MustCompile(`#(-?[0-9]+)\]?!?$`)
)

// armComment returns what objdump says behind an instruction: the address of
// what it reads, a number in hexadecimal, or what it is besides its name.
func armComment(op, args string, addr uint64, word uint32) string {
	switch word & 0x0fff0fff {
	case 0x049d0004:
		return fmt.Sprintf("\t\t@ (ldr%s %s, [sp], #4)", op[len("pop"):], strings.Trim(args, "{}"))
	case 0x052d0004:
		return fmt.Sprintf("\t\t@ (str%s %s, [sp, #-4]!)", op[len("push"):], strings.Trim(args, "{}"))
	}
	if strings.HasSuffix(args, "[pc]") {
		return fmt.Sprintf("\t@ %x", uint32(addr)+8)
	}
	m := armNumber.FindStringSubmatch(args)
	if m == nil {
		return ""
	}
	for _, shift := range []string{"lsl ", "lsr ", "asr ", "ror "} {
		if strings.Contains(args, shift+m[0]) {
			return ""
		}
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	switch group := word >> 25 & 7; {
	case err != nil:
		return ""
	case strings.Contains(args, "[pc, #") && strings.HasSuffix(args, "]"):
		return fmt.Sprintf("\t@ %x", uint32(int64(addr)+8+n))
	case (n > 32 || n < -16) && (group == 1 || group == 2 || group == 0 && word&0x400090 == 0x400090 || group == 6 && word>>8&14 == 10):
		return fmt.Sprintf("\t@ 0x%x", uint32(n))
	}
	return ""
}

// thumb finds where the instructions of Thumb code begin, and no more.
func thumb(order binary.ByteOrder) func([]byte, uint64) Inst {
	return func(code []byte, _ uint64) Inst {
		if len(code) < 2 {
			return data(code, 2, ".inst.n", order)
		}
		if order.Uint16(code)>>11 < 0x1d || len(code) < word4 {
			return Inst{Len: 2, Text: fmt.Sprintf(".inst.n\t0x%04x", order.Uint16(code))}
		}
		return Inst{Len: word4, Text: fmt.Sprintf(".inst.w\t0x%04x%04x", order.Uint16(code), order.Uint16(code[2:]))}
	}
}
