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
	case len(r) == 3 && r[1] == "r0" && (strings.HasSuffix(op, "cx.") || strings.HasSuffix(op, "arx") || ppcIndexed(op)):
		return op, r[0] + ",0," + r[2]
	case r[0] == "r0" && strings.HasPrefix(op, "dcb") || r[0] == "r0" && strings.HasPrefix(op, "icb"):
		if op == "dcbt" && len(r) == 3 && r[2] == "0" {
			return "dcbtct", "0," + r[1]
		}
		return op, "0" + args[2:]
	case op == "xxpermdi" && len(r) == 4:
		switch same := r[1] == r[2]; {
		case same && r[3] == "2":
			return "xxswapd", r[0] + "," + r[1]
		case same && (r[3] == "0" || r[3] == "3"):
			return "xxspltd", r[0] + "," + r[1] + "," + map[string]string{"0": "0", "3": "1"}[r[3]]
		case r[3] == "0":
			return "xxmrghd", strings.Join(r[:3], ",")
		case r[3] == "3":
			return "xxmrgld", strings.Join(r[:3], ",")
		}
	case len(r) == 3 && r[1] == r[2] && (op == "xxlor" || op == "vor" || op == "vnor"):
		return map[string]string{"xxlor": "xxmr", "vor": "vmr", "vnor": "vnot"}[op], r[0] + "," + r[1]
	case len(r) == 2 && (strings.HasPrefix(op, "mfvsr") || strings.HasPrefix(op, "mtvsr")) && op != "mfvsrld" && op != "mtvsrws" && op != "mtvsrdd":
		return ppcMove(op, r)
	case strings.HasPrefix(op, "rld") || strings.HasPrefix(op, "rlwinm"):
		return ppcRotate(op, args, r)
	}
	return op, args
}

// ppcIndexed reports whether an operation has an address of two registers, of
// which the first may be none.
func ppcIndexed(op string) bool {
	return op == "lvsl" || op == "lvsr" || (op[0] == 'l' || strings.HasPrefix(op, "st")) && strings.HasSuffix(op, "x")
}

// ppcMove returns a move to or from a vector register by the kind of that
// register.
func ppcMove(op string, r []string) (string, string) {
	at := 1
	if op[1] == 't' {
		at = 0
	}
	n, err := strconv.Atoi(strings.TrimPrefix(r[at], "vs"))
	if err != nil {
		return op, strings.Join(r, ",")
	}
	kind, prefix := "fpr", "f"
	if n >= 32 {
		kind, prefix, n = "vr", "v", n-32
	}
	r[at] = prefix + strconv.Itoa(n)
	return op[:2] + kind + op[len("mfvsr"):], strings.Join(r, ",")
}

// ppcRotate returns the short name of a rotation.
func ppcRotate(op, args string, r []string) (string, string) {
	op, dot := strings.CutSuffix(op, ".")
	suffix := ""
	if dot {
		suffix = "."
	}
	number := func(i int) int {
		if i < len(r) {
			if n, err := strconv.Atoi(r[i]); err == nil {
				return n
			}
		}
		return -1
	}
	short := func(name string, n int) (string, string) {
		return name + suffix, r[0] + "," + r[1] + "," + strconv.Itoa(n)
	}
	sh, mb, me := number(2), number(3), number(4)
	switch {
	case op == "rldicr" && sh >= 0 && mb == 63-sh:
		return short("sldi", sh)
	case op == "rldicr" && sh == 0 && mb >= 0:
		return short("clrrdi", 63-mb)
	case op == "rldicl" && sh == 0:
		return short("clrldi", mb)
	case op == "rldicl" && mb == 0:
		return short("rotldi", sh)
	case op == "rldicl" && mb > 0 && sh == 64-mb:
		return short("srdi", mb)
	case op == "rldcl" && len(r) == 4 && mb == 0:
		return "rotld" + suffix, strings.Join(r[:3], ",")
	case op == "rlwinm" && mb == 0 && me == 31-sh:
		return short("slwi", sh)
	case op == "rlwinm" && mb > 0 && me == 31 && sh == 32-mb:
		return short("srwi", mb)
	case op == "rlwinm" && sh == 0 && me == 31:
		return short("clrlwi", mb)
	case op == "rlwinm" && mb == 0 && me == 31:
		return short("rotlwi", sh)
	case op == "rlwinm" && sh == 0 && mb == 0:
		return short("clrrwi", 31-me)
	}
	return op + suffix, args
}

// riscv64 reads code of 64-bit RISC-V. It remembers the upper bits of the
// addresses that registers were given, from one instruction to the next: the
// second of a pair has the whole address behind it.
func riscv64() func([]byte, uint64) Inst {
	var upper riscvUpper
	return func(code []byte, addr uint64) Inst {
		n := 2
		if code[0]&3 == 3 {
			n = word4
		}
		if addr != upper.next {
			upper = riscvUpper{}
		}
		upper.next = addr + uint64(n)
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
		word := uint32(binary.LittleEndian.Uint16(code))
		if n == word4 {
			word = binary.LittleEndian.Uint32(code)
			args += riscvRounding(op, word)
		}
		i := Inst{Len: n, Kind: kindOf(objfile.MachineRISCV, op), Text: column(op, args, 0)}
		if i.Kind == Jump || i.Kind == Branch || i.Kind == Call {
			last := args[strings.LastIndexByte(args, ',')+1:]
			if rel, err := strconv.ParseInt(last, 0, 64); err == nil {
				i.target(op, args, addr+uint64(rel), 0)
			}
		}
		if i.Data, i.HasData = upper.address(word, n, addr); i.HasData {
			i.Gap = 1
		}
		return i
	}
}

// riscvUpper are the upper bits of addresses, by register.
type riscvUpper struct {
	next  uint64 // where the next instruction is
	value [32]uint64
	known [32]bool
}

// address returns the address that an instruction makes of upper bits that are
// known, which then are no longer, or of no register at all or that of the
// thread; and it keeps the bits that the instruction sets itself.
// Source: The RISC-V Instruction Set Manual, "Instruction Set Listings".
func (u *riscvUpper) address(word uint32, n int, pc uint64) (uint64, bool) {
	rd, rs1 := word>>7&31, word>>15&31
	immediate := uint64(int64(int32(word) >> 20))
	if n == 2 {
		offset := uint64(int64(int32(word<<19)>>31)<<5 | int64(word>>2&31))
		switch {
		case word&0xe003 == 0x6001 && rd != 0 && rd != 2: // c.lui
			u.value[rd], u.known[rd] = offset<<12, true
		case word&0xe003 == 0x0001 && rd != 0: // c.addi
			return u.take(rd, offset)
		case word&0xe003 == 0x2001 && rd != 0 && offset != 0: // c.addiw, not sext.w
			a, ok := u.take(rd, offset)
			return uint64(int64(int32(a))), ok
		}
		return 0, false
	}
	switch word & 0x7f {
	case 0x17, 0x37: // auipc, lui
		u.value[rd], u.known[rd] = uint64(int64(int32(word&^0xfff))), true
		if word&0x7f == 0x17 {
			u.value[rd] += pc
		}
	case 0x03, 0x07, 0x67: // loads, jalr
		return u.take(rs1, immediate)
	case 0x23, 0x27: // stores
		return u.take(rs1, uint64(int64(int32(word)>>25)<<5|int64(word>>7&31)))
	case 0x13, 0x1b: // addi, addiw
		if word>>12&7 == 0 && rs1 != 0 && immediate != 0 { // not mv, nor sext.w
			a, ok := u.take(rs1, immediate)
			if word&0x7f == 0x1b {
				a = uint64(int64(int32(a)))
			}
			return a, ok
		}
	}
	return 0, false
}

func (u *riscvUpper) take(r uint32, offset uint64) (uint64, bool) {
	const tp = 4
	switch {
	case u.known[r]:
		u.known[r] = false
		return u.value[r] + offset, true
	case r == 0 || r == tp:
		return offset, true
	}
	return 0, false
}

// riscvRounding returns the rounding of an operation that names one.
func riscvRounding(op string, word uint32) string {
	mode := word >> 12 & 7
	switch word & 0x7f {
	case 0x43, 0x47, 0x4b, 0x4f:
	case 0x53:
		name, _, _ := strings.Cut(op, ".")
		exact := op == "fcvt.d.w" || op == "fcvt.d.wu" || op == "fcvt.d.s"
		if exact || name != "fadd" && name != "fsub" && name != "fmul" && name != "fdiv" && name != "fsqrt" && name != "fcvt" {
			return ""
		}
	default:
		return ""
	}
	return [8]string{",rne", ",rtz", ",rdn", ",rup", ",rmm"}[mode]
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
	"slliw": "sllw", "srliw": "srlw", "sraiw": "sraw", "csrsi": "csrs", "csrci": "csrc", "csrwi": "csrw", "addi16sp": "add", "addi4spn": "add",
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
			case strings.HasPrefix(op, "s") && op[1] != 'e' && !strings.HasPrefix(op, "slt"):
				if n, err := strconv.ParseInt(r[2], 0, 64); err == nil {
					return op, r[0] + "," + r[1] + ",0x" + strconv.FormatInt(n, 16)
				}
			}
		}
	}
	r := strings.Split(args, ",")
	switch {
	case op == "sltiu" && len(r) == 3 && r[2] == "1":
		return "seqz", r[0] + "," + r[1]
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
	op, args = zAlias(op, noBase.ReplaceAllString(args, "($1,%r0),"))
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

// noBase is a length without the register behind it, which the library leaves
// out where it is none.
var noBase = regexp.MustCompile(`\(([0-9]+),,`)

// zConditions are the letters of the masks of the condition code.
var zConditions = [16]string{"nop", "o", "h", "nle", "l", "nhe", "lh", "ne", "e", "nlh", "he", "nl", "le", "nh", "no", ""}

// zAlias returns the name that objdump prefers for an instruction.
func zAlias(op, args string) (string, string) {
	first, rest, ok := strings.Cut(args, ",")
	mask, err := strconv.Atoi(first)
	switch {
	case (op == "brc" || op == "brcl") && ok && err == nil && mask > 0 && mask < 16:
		return map[string]string{"brc": "j", "brcl": "jg"}[op] + zConditions[mask], rest
	case op == "bcr" && ok && err == nil && mask > 0 && mask < 15:
		return "b" + zConditions[mask] + "r", rest
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
	case op == "nilf" || op == "oilf" || op == "xilf" || op == "llilf" || op == "llihf" || op == "nihf" || op == "oihf" || op == "xihf":
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
	case op == "nill" || op == "nilh" || op == "oill" || op == "oilh" || op == "tmll" || op == "tmlh" || op == "llill" || op == "llilh" || op == "llihl" || op == "llihh" || op == "oihh" || op == "oihl" || op == "nihh" || op == "nihl":
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
