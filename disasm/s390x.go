package disasm

import (
	"encoding/binary"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/arch/s390x/s390xasm"

	"github.com/perfark/perfark/objfile"
)

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
