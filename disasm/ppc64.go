package disasm

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/arch/ppc64/ppc64asm"

	"github.com/perfark/perfark/objfile"
)

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
