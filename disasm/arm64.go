package disasm

import (
	"cmp"
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
	word := binary.LittleEndian.Uint32(code)
	if arm64Unallocated(word) {
		return arm64Bytes(word)
	}
	text := arm64Later(word)
	if text == "" && word&0xfff80000 == 0xd5080000 {
		text = arm64System(word)
	}
	if text != "" {
		op, _, _ := strings.Cut(text, "\t")
		return Inst{Len: word4, Text: text, Kind: arm64Kinds[op]}
	}
	// What the library does not know but by another name.
	known, hinted := word, false
	half := word&0x7e000000 == 0x1e000000 && word>>22&3 == 3 // numbers of 16 bits
	if half {
		known &^= 3 << 22
	}
	if word&0xff000010 == 0x54000010 {
		known, hinted = word&^0x10, true
	}
	operation := word >> 12 & 31
	halves := word&0x8f7e0c00 == 0x0e780800 && (word>>28&1 == 0 || word>>30&1 != 0) && operation >= 12 && operation&24 != 16 // vectors of them
	if halves {
		known &^= 0x580000
	}
	in, err := arm64asm.Decode(binary.LittleEndian.AppendUint32(nil, known))
	if err != nil {
		if text := arm64System(word); text != "" {
			return Inst{Len: word4, Text: text}
		}
		return arm64Bytes(word)
	}
	i := Inst{Len: word4}
	op, args, _ := strings.Cut(arm64asm.GNUSyntax(in), " ")
	if half || halves {
		args = strings.NewReplacer(".2s", ".4h", ".4s", ".8h").Replace(args)
		args = single.ReplaceAllString(args, "h$1")
	}
	if hinted {
		op = "bc" + strings.TrimPrefix(op, "b")
	}
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
			if word&15 == 15 {
				op = strings.TrimSuffix(op, "al") + "nv"
			}
			name, cc, _ := strings.Cut(op, ".")
			i.Comment = condition(cc, name+".")
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
		if cc == "al" && word>>12&15 == 15 {
			args = strings.TrimSuffix(args, "al") + "nv"
		}
		if names := condition(cc, ""); names != "" {
			i.Comment = "\t// " + cc + " = " + strings.TrimPrefix(names, "  // ")
		}
	case arm64asm.BFM:
		if size := 32 + word>>31*32; word>>5&31 == 31 {
			op, args = "bfc", fmt.Sprintf("%s, #%d, #%d", arm64Register(size == 64, word&31, false), (size-word>>16&63)%size, word>>10&63+1)
		}
	case arm64asm.FCMP, arm64asm.FCMPE, arm64asm.FCMEQ, arm64asm.FCMGE, arm64asm.FCMGT, arm64asm.FCMLE, arm64asm.FCMLT:
		if strings.HasSuffix(args, " #0") {
			args += ".0"
		}
	case arm64asm.HINT:
		if n, err := strconv.ParseUint(strings.TrimPrefix(args, "#"), 0, 8); err == nil && hints[n] != "" {
			op, args, _ = strings.Cut(hints[n], " ")
		}
	case arm64asm.MRS, arm64asm.MSR:
		args = systemRegister.ReplaceAllStringFunc(args, func(s string) string {
			return cmp.Or(arm64Names()[strings.ToLower(s)], s)
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

// arm64Bytes is a word that is no instruction, or one that is not known: of the
// rarer ones of vectors without a fixed length (SVE), and of matrices (SME).
func arm64Bytes(word uint32) Inst {
	i := Inst{Len: word4, Text: fmt.Sprintf(".inst\t0x%08x", word), Bad: true}
	if group := word >> 25 & 15; group != 2 && (group != 0 || word>>31 == 0) {
		i.Text += " ; undefined"
	}
	return i
}

// arm64Unallocated reports whether a word is one that the library takes for an
// instruction, and the architecture does not.
func arm64Unallocated(w uint32) bool {
	switch {
	case w&0x1f200000 == 0x0b200000: // an extended register is shifted by 4 at most
		return w>>22&3 != 0 || w>>10&7 > 4
	case w&0x3fe08000 == 0x08c08000: // ldar
		return w>>16&31 != 31 || w>>10&31 != 31
	case w&0x1f800000 == 0x12000000: // a logical immediate is not all ones
		element := uint32(63)
		if w>>22&1 == 0 {
			element = 31
			for n := w >> 10 & 63; element > 1 && n&(element+1) != 0; {
				element >>= 1
			}
		}
		return w>>10&element == element
	case w&0xfe400000 == 0x68400000: // ldpsw that changes its own address, or one register twice
		n := w >> 5 & 31
		return w&31 == w>>10&31 || w>>23&1 != 0 && n != 31 && (n == w&31 || n == w>>10&31)
	}
	return false
}

var (
	single         = regexp.MustCompile(`\bs([0-9]+)\b`)
	indexed        = regexp.MustCompile(`\[(x[0-9]+|sp),([wx][0-9]+|[wx]zr)`)
	extended       = regexp.MustCompile(`([wx](?:[0-9]+|zr)),((?:lsl|[us]xt[bhwx])\b)`)
	systemRegister = regexp.MustCompile(`(?i)s[0-3]_[0-7]_c[0-9]+_c[0-9]+_[0-7]`)
)

// hints are those that have names of their own.
// Source: Arm Architecture Reference Manual, C6.2, HINT.
var hints = map[uint64]string{
	6: "dgh", 7: "xpaclri", 8: "pacia1716", 10: "pacib1716", 12: "autia1716", 14: "autib1716", 16: "esb", 17: "psb csync", 18: "tsb csync",
	20: "csdb", 22: "clearbhb", 24: "paciaz", 25: "paciasp", 26: "pacibz", 27: "pacibsp", 28: "autiaz", 29: "autiasp", 30: "autibz", 31: "autibsp",
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
