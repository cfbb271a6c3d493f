package disasm

import (
	"encoding/binary"
	"fmt"
	"regexp"
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
		word := binary.LittleEndian.Uint32(code)
		if text := arm64Later(word); text != "" {
			op, _, _ := strings.Cut(text, "\t")
			return Inst{Len: word4, Text: text, Kind: arm64Kinds[op]}
		}
		return Inst{Len: word4, Text: fmt.Sprintf(".inst\t0x%08x", word), Bad: true}
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
	switch in.Op {
	case arm64asm.CSEL, arm64asm.CSINC, arm64asm.CSINV, arm64asm.CSNEG, arm64asm.CSET, arm64asm.CSETM, arm64asm.CINC, arm64asm.CINV,
		arm64asm.CNEG, arm64asm.CCMP, arm64asm.CCMN, arm64asm.FCSEL, arm64asm.FCCMP, arm64asm.FCCMPE:
		cc := args[strings.LastIndexByte(args, ' ')+1:]
		if names := condition(cc, ""); names != "" {
			i.Comment = "\t// " + cc + " = " + strings.TrimPrefix(names, "  // ")
		}
	case arm64asm.FCMP, arm64asm.FCMPE:
		if strings.HasSuffix(args, " #0") {
			args += ".0"
		}
	case arm64asm.HINT:
		if n, err := strconv.ParseUint(strings.TrimPrefix(args, "#"), 0, 8); err == nil && hints[n] != "" {
			op, args, _ = strings.Cut(hints[n], " ")
		}
	case arm64asm.MRS, arm64asm.MSR:
		args = systemRegister.ReplaceAllStringFunc(args, func(s string) string {
			if name := systemRegisters[s]; name != "" {
				return name
			}
			return s
		})
	}
	args = strings.ReplaceAll(args, ",#", ", #")
	args = extended.ReplaceAllString(indexed.ReplaceAllString(args, "[$1, $2"), "$1, $2")
	i.Text = op
	if args != "" {
		i.Text += "\t" + args
	}
	return i
}

// arm64Kinds are those of the later instructions that branch.
var arm64Kinds = map[string]Kind{
	"braa": Jump, "brab": Jump, "braaz": Jump, "brabz": Jump, "blraa": Call, "blrab": Call, "blraaz": Call, "blrabz": Call,
	"retaa": Return, "retab": Return, "eretaa": Return, "eretab": Return,
}

var (
	indexed        = regexp.MustCompile(`\[(x[0-9]+|sp),([wx][0-9]+|[wx]zr)`)
	extended       = regexp.MustCompile(`([wx](?:[0-9]+|zr)),((?:lsl|[us]xt[bhwx])\b)`)
	systemRegister = regexp.MustCompile(`(?i)s[0-3]_[0-7]_c[0-9]+_c[0-9]+_[0-7]`)
)

// systemRegisters are those that programs read, by their encoding.
// Source: Arm Architecture Reference Manual, D19.
var systemRegisters = map[string]string{
	"s3_3_c13_c0_2": "tpidr_el0", "s3_3_c13_c0_3": "tpidrro_el0", "s3_3_c4_c4_0": "fpcr", "s3_3_c4_c4_1": "fpsr",
	"s3_3_c14_c0_0": "cntfrq_el0", "s3_3_c14_c0_1": "cntpct_el0", "s3_3_c14_c0_2": "cntvct_el0", "s3_3_c0_c0_1": "ctr_el0",
	"s3_3_c0_c0_7": "dczid_el0", "s3_3_c4_c2_0": "nzcv", "s3_0_c0_c0_0": "midr_el1", "s3_0_c0_c4_0": "id_aa64pfr0_el1",
	"s3_0_c0_c6_0": "id_aa64isar0_el1", "s3_0_c0_c6_1": "id_aa64isar1_el1", "s3_0_c0_c0_5": "mpidr_el1", "s3_0_c4_c1_0": "sp_el0",
	"s3_0_c13_c0_4": "tpidr_el1", "s3_0_c2_c0_0": "ttbr0_el1", "s3_0_c2_c0_1": "ttbr1_el1", "s3_0_c4_c2_2": "currentel",
	"s3_0_c5_c2_0": "esr_el1", "s3_0_c6_c0_0": "far_el1", "s3_0_c4_c0_0": "spsr_el1", "s3_0_c4_c0_1": "elr_el1", "s3_3_c4_c2_1": "daif",
	"s3_3_c4_c2_5": "dit", "s3_3_c4_c2_6": "ssbs", "s3_3_c2_c4_0": "rndr", "s3_3_c2_c4_1": "rndrrs", "s3_3_c4_c2_7": "tco",
}

// hints are those that have names of their own.
// Source: Arm Architecture Reference Manual, C6.2, HINT.
var hints = map[uint64]string{
	6: "dgh", 7: "xpaclri", 8: "pacia1716", 10: "pacib1716", 12: "autia1716", 14: "autib1716", 16: "esb", 17: "psb csync", 18: "tsb csync",
	20: "csdb", 24: "paciaz", 25: "paciasp", 26: "pacibz", 27: "pacibsp", 28: "autiaz", 29: "autiasp", 30: "autibz", 31: "autibsp",
	32: "bti", 34: "bti c", 36: "bti j", 38: "bti jc",
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
