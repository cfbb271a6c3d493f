package disasm

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/arch/arm/armasm"
	"golang.org/x/arch/loong64/loong64asm"
	"golang.org/x/arch/ppc64/ppc64asm"
	"golang.org/x/arch/riscv64/riscv64asm"
	"golang.org/x/arch/s390x/s390xasm"

	"github.com/perfark/perfark/objfile"
)

// data is code that is no instruction, or none that the library knows.
func data(code []byte, n int, directive string, order binary.ByteOrder) Inst {
	if len(code) < n {
		return Inst{Len: len(code), Text: ".byte\t" + hexBytes(code), Bad: true}
	}
	i := Inst{Len: n, Bad: true}
	switch n {
	case 2:
		i.Text = fmt.Sprintf("%s\t0x%04x", directive, order.Uint16(code))
	case 4:
		i.Text = fmt.Sprintf("%s\t0x%08x", directive, order.Uint32(code))
	default:
		i.Text = directive + "\t" + hexBytes(code[:n])
	}
	return i
}

// column puts the operands of an instruction in objdump's column, behind a
// blank or a tab.
func column(op, args string, width int) string {
	if args == "" {
		return op
	}
	if width == 0 {
		return op + "\t" + args
	}
	return fmt.Sprintf("%-*s %s", width, op, args)
}

// parts splits an instruction in its operation and its operands.
func parts(text string) (op, args string) {
	op, args, _ = strings.Cut(text, " ")
	return op, strings.TrimSpace(args)
}

// target gives an instruction the address that it goes to, and the text of it
// as its last operand.
func (i *Inst) target(op, args string, to uint64, width int) {
	i.Target, i.HasTarget = to, true
	i.Text = column(op, args[:strings.LastIndexAny(args, ", ")+1]+strconv.FormatUint(to, 16), width)
}

// ppc64 reads code of 64-bit PowerPC.
func ppc64(order binary.ByteOrder) func([]byte, uint64) Inst {
	const width = 7
	return func(code []byte, addr uint64) Inst {
		if len(code) < word4 {
			return data(code, word4, ".long", order)
		}
		// An instruction with a prefix is one of 8 bytes.
		n := word4
		if order.Uint32(code)>>26 == 1 && len(code) >= 8 {
			n = 8
		}
		in, err := ppc64asm.Decode(code[:n], order)
		if err != nil || in.Len != n {
			if n == 8 {
				return Inst{Len: 8, Bad: true, Text: fmt.Sprintf(".8byte\t0x%08x%08x", order.Uint32(code), order.Uint32(code[4:]))}
			}
			return Inst{Len: word4, Text: fmt.Sprintf(".long 0x%x", order.Uint32(code)), Bad: true}
		}
		op, args := parts(ppc64asm.GNUSyntax(in, addr))
		if op == ".long" {
			return Inst{Len: word4, Text: fmt.Sprintf(".long 0x%x", order.Uint32(code)), Bad: true}
		}
		op, args = ppcAlias(op, args, order.Uint32(code))
		i := Inst{Len: in.Len, Kind: kindOf(objfile.MachinePPC64, op), Text: column(op, args, width)}
		for _, a := range in.Args {
			switch a := a.(type) {
			case ppc64asm.PCRel:
				i.target(op, args, addr+uint64(int64(a)), width)
			case ppc64asm.Label:
				i.target(op, args, uint64(a), width)
			}
		}
		return i
	}
}

// ppcAlias returns the name that objdump prefers for an instruction.
func ppcAlias(op, args string, word uint32) (string, string) {
	r := strings.Split(args, ",")
	switch {
	case (op == "or" || op == "or.") && len(r) == 3 && r[1] == r[2]:
		return "mr" + op[2:], r[0] + "," + r[1]
	case (op == "nor" || op == "nor.") && len(r) == 3 && r[1] == r[2]:
		return "not" + op[3:], r[0] + "," + r[1]
	case op == "ori" && word == 0x60000000:
		return "nop", ""
	case op == "sc" && args == "0":
		return "sc", ""
	case len(r) == 3 && r[1] == "r0" && (strings.HasSuffix(op, "cx.") || strings.HasSuffix(op, "arx")):
		return op, r[0] + ",0," + r[2]
	case op == "xxpermdi" && len(r) == 4 && r[1] == r[2]:
		if name := map[string]string{"0": "xxspltd", "2": "xxswapd", "3": "xxspltd"}[r[3]]; name == "xxswapd" {
			return name, r[0] + "," + r[1]
		} else if name != "" {
			return name, r[0] + "," + r[1] + "," + map[string]string{"0": "0", "3": "1"}[r[3]]
		}
	case op == "rldicr" && len(r) == 4:
		if sh, err := strconv.Atoi(r[2]); err == nil && r[3] == strconv.Itoa(63-sh) {
			return "sldi", strings.Join(r[:3], ",")
		}
	case op == "rldicl" && len(r) == 4 && r[2] == "0":
		return "clrldi", r[0] + "," + r[1] + "," + r[3]
	case op == "rldicl" && len(r) == 4:
		sh, err1 := strconv.Atoi(r[2])
		if mb, err2 := strconv.Atoi(r[3]); err1 == nil && err2 == nil && mb == 64-sh {
			return "srdi", r[0] + "," + r[1] + "," + r[3]
		}
	case op == "rlwinm" && len(r) == 5:
		sh, _ := strconv.Atoi(r[2])
		mb, _ := strconv.Atoi(r[3])
		me, _ := strconv.Atoi(r[4])
		switch {
		case mb == 0 && me == 31-sh:
			return "slwi", strings.Join(r[:3], ",")
		case me == 31 && sh == 32-mb && mb > 0:
			return "srwi", r[0] + "," + r[1] + "," + r[3]
		case sh == 0 && me == 31:
			return "clrlwi", r[0] + "," + r[1] + "," + r[3]
		}
	}
	return op, args
}

// riscv64 reads code of 64-bit RISC-V.
func riscv64(code []byte, addr uint64) Inst {
	n := 2
	if code[0]&3 == 3 {
		n = word4
	}
	in, err := riscv64asm.Decode(code[:min(n, len(code))])
	if len(code) < n || err != nil || in.Len != n {
		return data(code, n, map[int]string{2: ".2byte", 4: ".4byte"}[n], binary.LittleEndian)
	}
	op, args := parts(strings.ToLower(riscv64asm.GNUSyntax(in)))
	op, args = strings.TrimPrefix(op, "c."), strings.ReplaceAll(args, ", ", ",")
	op, args = riscvAlias(op, riscvRegister.ReplaceAllStringFunc(args, func(r string) string {
		n, _ := strconv.Atoi(r[1:])
		if r[0] == 'f' {
			return riscvFloats[n%32]
		}
		return riscvNames[n%32]
	}))
	i := Inst{Len: n, Kind: kindOf(objfile.MachineRISCV, op), Text: column(op, args, 0)}
	if i.Kind == Jump || i.Kind == Branch || i.Kind == Call {
		last := args[strings.LastIndexByte(args, ',')+1:]
		if rel, err := strconv.ParseInt(last, 0, 64); err == nil {
			i.target(op, args, addr+uint64(rel), 0)
		}
	}
	return i
}

var riscvRegister = regexp.MustCompile(`\b[xf][0-9]{1,2}\b`)

// The registers of RISC-V, by what they are for.
// Source: RISC-V ABIs Specification, "Register Convention".
var (
	riscvNames = [32]string{
		"zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5",
		"a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
	}
	riscvFloats = [32]string{
		"ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "fs0", "fs1", "fa0", "fa1", "fa2", "fa3", "fa4", "fa5",
		"fa6", "fa7", "fs2", "fs3", "fs4", "fs5", "fs6", "fs7", "fs8", "fs9", "fs10", "fs11", "ft8", "ft9", "ft10", "ft11",
	}
)

// riscvPlain are the names of operations with an immediate operand without the
// letter that says so.
var riscvPlain = map[string]string{
	"addi": "add", "addiw": "addw", "andi": "and", "ori": "or", "xori": "xor", "slli": "sll", "srli": "srl", "srai": "sra",
	"slliw": "sllw", "srliw": "srlw", "sraiw": "sraw", "slti": "slt", "sltiu": "sltu", "addi16sp": "add", "addi4spn": "add",
	"ldsp": "ld", "lwsp": "lw", "sdsp": "sd", "swsp": "sw", "fldsp": "fld", "fsdsp": "fsd",
}

// riscvAlias returns the name that objdump prefers for an instruction.
func riscvAlias(op, args string) (string, string) {
	if plain := riscvPlain[op]; plain != "" {
		op = plain
		if r := strings.Split(args, ","); len(r) == 3 {
			_, err := strconv.ParseInt(r[2], 0, 64)
			switch {
			case err != nil:
			case op == "add" && r[1] == "zero":
				return "li", r[0] + "," + r[2]
			case op == "add" && r[2] == "0":
				return "mv", r[0] + "," + r[1]
			case op == "addw" && r[2] == "0":
				return "sext.w", r[0] + "," + r[1]
			case op == "xor" && r[2] == "-1":
				return "not", r[0] + "," + r[1]
			case op == "sltu" && r[2] == "1":
				return "seqz", r[0] + "," + r[1]
			case strings.HasPrefix(op, "s") && op[1] != 'e' && !strings.HasPrefix(op, "slt"):
				if n, err := strconv.ParseInt(r[2], 0, 64); err == nil {
					return op, r[0] + "," + r[1] + ",0x" + strconv.FormatInt(n, 16)
				}
			}
		}
	}
	r := strings.Split(args, ",")
	switch {
	case op == "jr" && args == "ra":
		return "ret", ""
	case op == "add" && len(r) == 3 && r[1] == "zero":
		return "mv", r[0] + "," + r[2]
	case (op == "sub" || op == "subw") && len(r) == 3 && r[1] == "zero":
		return "neg" + op[3:], r[0] + "," + r[2]
	case op == "sltu" && len(r) == 3 && r[1] == "zero":
		return "snez", r[0] + "," + r[2]
	case len(r) == 3 && r[1] == "zero" && (op == "beq" || op == "bne" || op == "bge" || op == "blt"):
		return op + "z", r[0] + "," + r[2]
	case len(r) == 3 && r[0] == "zero" && (op == "bge" || op == "blt"):
		return map[string]string{"bge": "blez", "blt": "bgtz"}[op], r[1] + "," + r[2]
	case op == "jal" && len(r) == 2 && r[0] == "zero":
		return "j", r[1]
	case op == "jal" && len(r) == 2 && r[0] == "ra":
		return "jal", r[0] + "," + r[1]
	case (op == "lui" || op == "auipc") && len(r) == 2:
		if n, err := strconv.ParseInt(r[1], 0, 64); err == nil {
			return op, r[0] + ",0x" + strconv.FormatUint(uint64(n)&0xfffff, 16)
		}
	case (op == "and" || op == "or" || op == "xor" || op == "sub" || op == "add" || op == "addw" || op == "subw") && len(r) == 2:
		return op, r[0] + "," + args // the short form names its register once
	}
	return op, args
}

// s390x reads code of the IBM Z.
func s390x(code []byte, addr uint64) Inst {
	n := 2
	switch code[0] >> 6 {
	case 1, 2:
		n = 4
	case 3:
		n = 6
	}
	if len(code) < n {
		return data(code, n, ".byte", binary.BigEndian)
	}
	in, err := s390xasm.Decode(code[:n])
	op, args := "", ""
	if err == nil {
		op, args = parts(s390xasm.GNUSyntax(in, addr))
	}
	if in.Len != n || op == "" || op[0] == '.' {
		if len(code) < 4 {
			return data(code, 2, ".short", binary.BigEndian)
		}
		return data(code, 4, ".long", binary.BigEndian)
	}
	op, args = zAlias(op, args)
	i := Inst{Len: n, Kind: kindOf(objfile.MachineS390, op), Text: column(op, args, 0)}
	last := args[strings.LastIndexByte(args, ',')+1:]
	if relative(code, n) && strings.HasPrefix(last, "0x") {
		if to, err := strconv.ParseUint(last[2:], 16, 64); err == nil {
			i.target(op, args, to, 0)
		}
	}
	if op == "br" && strings.TrimSpace(args) == "%r14" {
		i.Kind = Return
	}
	return i
}

// zConditions are the letters of the masks of the condition code.
var zConditions = [16]string{"nop", "o", "h", "nle", "l", "nhe", "lh", "ne", "e", "nlh", "he", "nl", "le", "nh", "no", ""}

// zAlias returns the name that objdump prefers for an instruction.
func zAlias(op, args string) (string, string) {
	first, rest, ok := strings.Cut(args, ",")
	mask, err := strconv.Atoi(first)
	switch {
	case (op == "brc" || op == "brcl") && ok && err == nil && mask > 0 && mask < 16:
		return map[string]string{"brc": "j", "brcl": "jg"}[op] + zConditions[mask], rest
	case strings.HasPrefix(op, "risbg"):
		r := strings.Split(args, ",")
		if len(r) == 5 {
			if n, err := strconv.Atoi(r[3]); err == nil && n >= 128 {
				r[3] = strconv.Itoa(n - 128)
				if r[4] == "0" && op == "risbg" {
					return "risbgz", strings.Join(r, ",")
				}
				return op + "z", strings.Join(r, ",")
			}
		}
	case op == "nilf" || op == "oilf" || op == "xilf" || op == "llilf" || op == "nihf" || op == "oihf" || op == "xihf":
		if n, err := strconv.ParseInt(rest, 10, 64); err == nil && n < 0 {
			return op, first + "," + strconv.FormatInt(n&0xffffffff, 10)
		}
	case op == "mvhi" || op == "mvghi" || op == "mvhhi":
		if n, err := strconv.Atoi(rest); err == nil && n > 0x7fff {
			return op, first + "," + strconv.Itoa(n-0x10000)
		}
	case op == "ni" || op == "oi" || op == "xi" || op == "mvi" || op == "tm" || op == "cli":
		if n, err := strconv.Atoi(args[strings.LastIndexByte(args, ',')+1:]); err == nil && n < 0 {
			return op, args[:strings.LastIndexByte(args, ',')+1] + strconv.Itoa(n&0xff)
		}
	case op == "nill" || op == "nilh" || op == "oill" || op == "oilh" || op == "tmll" || op == "tmlh" || op == "llill" || op == "llilh":
		if n, err := strconv.Atoi(rest); err == nil && n < 0 {
			return op, first + "," + strconv.Itoa(n&0xffff)
		}
	}
	return op, args
}

// relative reports whether the last operand of an instruction of the IBM Z
// counts from the instruction.
func relative(code []byte, n int) bool {
	switch {
	case n == 4 && code[0] == 0xa7: // RI: brc, bras, brct, brctg
		op := code[1] & 15
		return op >= 4 && op <= 7
	case n == 4:
		return code[0] == 0x84 || code[0] == 0x85 // RSI
	case n == 6 && code[0] == 0xc0: // RIL: larl, brcl, brasl
		op := code[1] & 15
		return op == 0 || op == 4 || op == 5
	case n == 6 && (code[0] == 0xc4 || code[0] == 0xc6): // RIL: lgrl and the like
		return true
	case n == 6 && code[0] == 0xec: // RIE: crj, cgij and the like
		return code[5]&0x40 != 0 && code[5] < 0x80 || code[5] == 0x44 || code[5] == 0x45
	}
	return false
}

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
		if err != nil {
			return data(word[:], word4, ".word", binary.LittleEndian)
		}
		op, args := parts(armasm.GNUSyntax(in))
		i := Inst{Len: word4, Kind: kindOf(objfile.MachineARM, op), Text: column(op, args, 0)}
		for _, a := range in.Args {
			if rel, ok := a.(armasm.PCRel); ok {
				i.target(op, args, uint64(uint32(addr)+8+uint32(rel)), 0)
			}
		}
		if op == "bx" && args == "lr" || op == "pop" && strings.Contains(args, "pc") {
			i.Kind = Return
		}
		return i
	}
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
