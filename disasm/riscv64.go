package disasm

import (
	"encoding/binary"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/arch/riscv64/riscv64asm"

	"github.com/perfark/perfark/objfile"
)

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
