package disasm

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// golang.org/x/arch knows the first version of AArch64. What programs use of
// the later ones is here: atomics, cryptography, pointer authentication, memory
// tags, copies and fills, and the like.
//
// Source: Arm Architecture Reference Manual, C4.1 and C6.2.

// An arm64Form is the instructions with some bits in common. In its text,
// <Xd> and the like stand for a register, of which the letter behind tells
// where its number is; <uAT:N*K> and <sAT:N*K> for a number of N bits at AT,
// unsigned or signed, times K; <hAT:N*K> is hexadecimal.
type arm64Form struct {
	mask, value uint32
	text        string
}

// field is where the number of a register begins.
var arm64Field = map[byte]int{'d': 0, 't': 0, 'n': 5, 'a': 10, 'u': 10, 'm': 16, 's': 16}

// expand puts the operands of an instruction into its text.
func (f arm64Form) expand(word uint32) string {
	var out strings.Builder
	rest := f.text
	for {
		before, after, ok := strings.Cut(rest, "<")
		out.WriteString(before)
		if !ok {
			return out.String()
		}
		token, tail, _ := strings.Cut(after, ">")
		out.WriteString(arm64Operand(token, word))
		rest = tail
	}
}

// arm64Operand returns the text of one operand.
func arm64Operand(token string, word uint32) string {
	if token[0] == 'u' || token[0] == 'h' || token[0] == 's' && token[1] >= '0' && token[1] <= '9' {
		at, width, scale := 0, 0, 1
		fmt.Sscanf(token[1:], "%d:%d*%d", &at, &width, &scale)
		n := int64(word >> at & (1<<width - 1))
		if token[0] == 's' && n>>(width-1) != 0 {
			n -= 1 << width
		}
		if token[0] == 'h' {
			return "#0x" + strconv.FormatInt(n*int64(scale), 16)
		}
		return "#" + strconv.FormatInt(n*int64(scale), 10)
	}
	n := word >> arm64Field[token[1]] & 31
	switch token[0] {
	case 'X', 'W', 'R': // R: of 64 or 32 bits by the first bit
		return arm64Register(token[0] == 'X' || token[0] == 'R' && word>>31 != 0, n, strings.HasSuffix(token, "|SP"))
	}
	if token[0] == 'P' { // there are 16
		n &= 15
	}
	return strings.ToLower(token[:1]) + strconv.Itoa(int(n))
}

// arm64Register returns the name of a general register.
func arm64Register(wide bool, n uint32, sp bool) string {
	prefix := "w"
	if wide {
		prefix = "x"
	}
	switch {
	case n < 31:
		return prefix + strconv.Itoa(int(n))
	case sp && wide:
		return "sp"
	case sp:
		return "wsp"
	}
	return prefix + "zr"
}

// arm64Forms are those whose text says all of them.
var arm64Forms = []arm64Form{
	// Cryptography.
	{0xffe0fc00, 0xce608000, "sha512h\t<Qd>, <Qn>, <Vm>.2d"},
	{0xffe0fc00, 0xce608400, "sha512h2\t<Qd>, <Qn>, <Vm>.2d"},
	{0xffe0fc00, 0xce608800, "sha512su1\t<Vd>.2d, <Vn>.2d, <Vm>.2d"},
	{0xffe0fc00, 0xce608c00, "rax1\t<Vd>.2d, <Vn>.2d, <Vm>.2d"},
	{0xfffffc00, 0xcec08000, "sha512su0\t<Vd>.2d, <Vn>.2d"},
	{0xfffffc00, 0xcec08400, "sm4e\t<Vd>.4s, <Vn>.4s"},
	{0xffe0fc00, 0xce60c800, "sm4ekey\t<Vd>.4s, <Vn>.4s, <Vm>.4s"},
	{0xffe0fc00, 0xce60c000, "sm3partw1\t<Vd>.4s, <Vn>.4s, <Vm>.4s"},
	{0xffe0fc00, 0xce60c400, "sm3partw2\t<Vd>.4s, <Vn>.4s, <Vm>.4s"},
	{0xffe08000, 0xce000000, "eor3\t<Vd>.16b, <Vn>.16b, <Vm>.16b, <Va>.16b"},
	{0xffe08000, 0xce200000, "bcax\t<Vd>.16b, <Vn>.16b, <Vm>.16b, <Va>.16b"},
	{0xffe08000, 0xce400000, "sm3ss1\t<Vd>.4s, <Vn>.4s, <Vm>.4s, <Va>.4s"},
	{0xffe00000, 0xce800000, "xar\t<Vd>.2d, <Vn>.2d, <Vm>.2d, <u10:6>"},
	// Memory tags.
	{0xffe0fc00, 0x9ac01400, "gmi\t<Xd>, <Xn|SP>, <Xm>"},
	{0xffe0fc00, 0x9ac00000, "subp\t<Xd>, <Xn|SP>, <Xm|SP>"},
	{0xffe0fc1f, 0xbac0001f, "cmpp\t<Xn|SP>, <Xm|SP>"},
	{0xffe0fc00, 0xbac00000, "subps\t<Xd>, <Xn|SP>, <Xm|SP>"},
	{0xfffffc00, 0x9adf1000, "irg\t<Xd|SP>, <Xn|SP>"},
	{0xffe0fc00, 0x9ac01000, "irg\t<Xd|SP>, <Xn|SP>, <Xm>"},
	{0xffc0c000, 0x91800000, "addg\t<Xd|SP>, <Xn|SP>, <h16:6*16>, <h10:4>"},
	{0xffc0c000, 0xd1800000, "subg\t<Xd|SP>, <Xn|SP>, <h16:6*16>, <h10:4>"},
	{0xfffffc00, 0xd9200000, "stzgm\t<Xt>, [<Xn|SP>]"},
	{0xfffffc00, 0xd9a00000, "stgm\t<Xt>, [<Xn|SP>]"},
	{0xfffffc00, 0xd9e00000, "ldgm\t<Xt>, [<Xn|SP>]"},
	// Pointer authentication.
	{0xffe0fc00, 0x9ac03000, "pacga\t<Xd>, <Xn>, <Xm|SP>"},
	{0xfffffc00, 0xdac10000, "pacia\t<Xd>, <Xn|SP>"},
	{0xfffffc00, 0xdac10400, "pacib\t<Xd>, <Xn|SP>"},
	{0xfffffc00, 0xdac10800, "pacda\t<Xd>, <Xn|SP>"},
	{0xfffffc00, 0xdac10c00, "pacdb\t<Xd>, <Xn|SP>"},
	{0xfffffc00, 0xdac11000, "autia\t<Xd>, <Xn|SP>"},
	{0xfffffc00, 0xdac11400, "autib\t<Xd>, <Xn|SP>"},
	{0xfffffc00, 0xdac11800, "autda\t<Xd>, <Xn|SP>"},
	{0xfffffc00, 0xdac11c00, "autdb\t<Xd>, <Xn|SP>"},
	{0xffffffe0, 0xdac123e0, "paciza\t<Xd>"},
	{0xffffffe0, 0xdac127e0, "pacizb\t<Xd>"},
	{0xffffffe0, 0xdac12be0, "pacdza\t<Xd>"},
	{0xffffffe0, 0xdac12fe0, "pacdzb\t<Xd>"},
	{0xffffffe0, 0xdac133e0, "autiza\t<Xd>"},
	{0xffffffe0, 0xdac137e0, "autizb\t<Xd>"},
	{0xffffffe0, 0xdac13be0, "autdza\t<Xd>"},
	{0xffffffe0, 0xdac13fe0, "autdzb\t<Xd>"},
	{0xffffffe0, 0xdac143e0, "xpaci\t<Xd>"},
	{0xffffffe0, 0xdac147e0, "xpacd\t<Xd>"},
	{0xfffffc1f, 0xd61f081f, "braaz\t<Xn>"},
	{0xfffffc1f, 0xd61f0c1f, "brabz\t<Xn>"},
	{0xfffffc1f, 0xd63f081f, "blraaz\t<Xn>"},
	{0xfffffc1f, 0xd63f0c1f, "blrabz\t<Xn>"},
	{0xfffffc00, 0xd71f0800, "braa\t<Xn>, <Xd|SP>"},
	{0xfffffc00, 0xd71f0c00, "brab\t<Xn>, <Xd|SP>"},
	{0xfffffc00, 0xd73f0800, "blraa\t<Xn>, <Xd|SP>"},
	{0xfffffc00, 0xd73f0c00, "blrab\t<Xn>, <Xd|SP>"},
	{0xffffffff, 0xd65f0bff, "retaa"},
	{0xffffffff, 0xd65f0fff, "retab"},
	{0xffffffff, 0xd69f0bff, "eretaa"},
	{0xffffffff, 0xd69f0fff, "eretab"},
	// Flags, barriers, conversions.
	{0xffffffff, 0xd500401f, "cfinv"},
	{0xffffffff, 0xd500403f, "xaflag"},
	{0xffffffff, 0xd500405f, "axflag"},
	{0xffffffff, 0xd50330ff, "sb"},
	{0xffffffe0, 0xd5031000, "wfet\t<Xd>"},
	{0xffffffe0, 0xd5031020, "wfit\t<Xd>"},
	{0xfffffc1f, 0x3a00080d, "setf8\t<Wn>"},
	{0xfffffc1f, 0x3a00480d, "setf16\t<Wn>"},
	{0xffe07c10, 0xba000400, "rmif\t<Xn>, <u15:6>, <u0:4>"},
	{0xfffffc00, 0x1e7e0000, "fjcvtzs\t<Wd>, <Dn>"},
	{0xfffffc00, 0x9ee60000, "fmov\t<Xd>, <Hn>"},
	{0xfffffc00, 0x9ee70000, "fmov\t<Hd>, <Xn>"},
	// Common short sequences.
	{0x7ffc0000, 0x11c00000, "smax\t<Rd>, <Rn>, <s10:8>"},
	{0x7ffc0000, 0x11c40000, "umax\t<Rd>, <Rn>, <u10:8>"},
	{0x7ffc0000, 0x11c80000, "smin\t<Rd>, <Rn>, <s10:8>"},
	{0x7ffc0000, 0x11cc0000, "umin\t<Rd>, <Rn>, <u10:8>"},
	{0x7fe0fc00, 0x1ac06000, "smax\t<Rd>, <Rn>, <Rm>"},
	{0x7fe0fc00, 0x1ac06400, "umax\t<Rd>, <Rn>, <Rm>"},
	{0x7fe0fc00, 0x1ac06800, "smin\t<Rd>, <Rn>, <Rm>"},
	{0x7fe0fc00, 0x1ac06c00, "umin\t<Rd>, <Rn>, <Rm>"},
	{0x7ffffc00, 0x5ac01800, "ctz\t<Rd>, <Rn>"},
	{0x7ffffc00, 0x5ac01c00, "cnt\t<Rd>, <Rn>"},
	{0x7ffffc00, 0x5ac02000, "abs\t<Rd>, <Rn>"},
	// Exceptions, transactions, 64 bytes at once.
	{0xffe0001f, 0xd4000002, "hvc\t<h5:16>"},
	{0xffe0001f, 0xd4000003, "smc\t<h5:16>"},
	{0xffe0001f, 0xd4600000, "tcancel\t<u5:16>"},
	{0xffffffe0, 0xd5233060, "tstart\t<Xd>"},
	{0xffffffe0, 0xd5233160, "ttest\t<Xd>"},
	{0xffffffff, 0xd503307f, "tcommit"},
	{0xfffffc00, 0xf83fd000, "ld64b\t<Xt>, [<Xn|SP>]"},
	{0xfffffc00, 0xf83f9000, "st64b\t<Xt>, [<Xn|SP>]"},
	{0xffe0fc00, 0xf820b000, "st64bv\t<Xs>, <Xt>, [<Xn|SP>]"},
	{0xffe0fc00, 0xf820a000, "st64bv0\t<Xs>, <Xt>, [<Xn|SP>]"},
	{0xfffff0ff, 0xd500407f, "msr\tuao, <h8:4>"},
	{0xfffff0ff, 0xd500409f, "msr\tpan, <h8:4>"},
	{0xfffff0ff, 0xd50040bf, "msr\tspsel, <h8:4>"},
	{0xfffff0ff, 0xd503405f, "msr\tdit, <h8:4>"},
	{0xfffff0ff, 0xd503409f, "msr\ttco, <h8:4>"},
	{0xfffff0ff, 0xd503403f, "msr\tssbs, <h8:4>"},
	// Matrices and dot products.
	{0xffe0fc00, 0x4e80a400, "smmla\t<Vd>.4s, <Vn>.16b, <Vm>.16b"},
	{0xffe0fc00, 0x6e80a400, "ummla\t<Vd>.4s, <Vn>.16b, <Vm>.16b"},
	{0xffe0fc00, 0x4e80ac00, "usmmla\t<Vd>.4s, <Vn>.16b, <Vm>.16b"},
	{0xffe0fc00, 0x6e40ec00, "bfmmla\t<Vd>.4s, <Vn>.8h, <Vm>.8h"},
	{0xffe0fc00, 0x2ec0fc00, "bfmlalb\t<Vd>.4s, <Vn>.8h, <Vm>.8h"},
	{0xffe0fc00, 0x6ec0fc00, "bfmlalt\t<Vd>.4s, <Vn>.8h, <Vm>.8h"},
	{0xfffffc00, 0x1e634000, "bfcvt\t<Hd>, <Sn>"},
	{0xfffffc00, 0x0ea16800, "bfcvtn\t<Vd>.4h, <Vn>.4s"},
	{0xfffffc00, 0x4ea16800, "bfcvtn2\t<Vd>.8h, <Vn>.4s"},
	{0xffe0fc00, 0x2e40fc00, "bfdot\t<Vd>.2s, <Vn>.4h, <Vm>.4h"},
	{0xffe0fc00, 0x6e40fc00, "bfdot\t<Vd>.4s, <Vn>.8h, <Vm>.8h"},
	{0xfffffc00, 0x0e30c800, "fmaxnmv\t<Hd>, <Vn>.4h"},
	{0xfffffc00, 0x4e30c800, "fmaxnmv\t<Hd>, <Vn>.8h"},
	{0xfffffc00, 0x0eb0c800, "fminnmv\t<Hd>, <Vn>.4h"},
	{0xfffffc00, 0x4eb0c800, "fminnmv\t<Hd>, <Vn>.8h"},
	{0xfffffc00, 0x0e30f800, "fmaxv\t<Hd>, <Vn>.4h"},
	{0xfffffc00, 0x4e30f800, "fmaxv\t<Hd>, <Vn>.8h"},
	{0xfffffc00, 0x0eb0f800, "fminv\t<Hd>, <Vn>.4h"},
	{0xfffffc00, 0x4eb0f800, "fminv\t<Hd>, <Vn>.8h"},
	{0xfffffc00, 0x5e30c800, "fmaxnmp\t<Hd>, <Vn>.2h"},
	{0xfffffc00, 0x5eb0c800, "fminnmp\t<Hd>, <Vn>.2h"},
	{0xfffffc00, 0x5e30d800, "faddp\t<Hd>, <Vn>.2h"},
	{0xfffffc00, 0x5e30f800, "fmaxp\t<Hd>, <Vn>.2h"},
	{0xfffffc00, 0x5eb0f800, "fminp\t<Hd>, <Vn>.2h"},
	{0xfffffc00, 0x1e284000, "frint32z\t<Sd>, <Sn>"},
	{0xfffffc00, 0x1e28c000, "frint32x\t<Sd>, <Sn>"},
	{0xfffffc00, 0x1e294000, "frint64z\t<Sd>, <Sn>"},
	{0xfffffc00, 0x1e29c000, "frint64x\t<Sd>, <Sn>"},
	{0xfffffc00, 0x1e684000, "frint32z\t<Dd>, <Dn>"},
	{0xfffffc00, 0x1e68c000, "frint32x\t<Dd>, <Dn>"},
	{0xfffffc00, 0x1e694000, "frint64z\t<Dd>, <Dn>"},
	{0xfffffc00, 0x1e69c000, "frint64x\t<Dd>, <Dn>"},
	{0xffe0fc00, 0x0e809400, "sdot\t<Vd>.2s, <Vn>.8b, <Vm>.8b"},
	{0xffe0fc00, 0x4e809400, "sdot\t<Vd>.4s, <Vn>.16b, <Vm>.16b"},
	{0xffe0fc00, 0x2e809400, "udot\t<Vd>.2s, <Vn>.8b, <Vm>.8b"},
	{0xffe0fc00, 0x6e809400, "udot\t<Vd>.4s, <Vn>.16b, <Vm>.16b"},
	{0xffe0fc00, 0x0e809c00, "usdot\t<Vd>.2s, <Vn>.8b, <Vm>.8b"},
	{0xffe0fc00, 0x4e809c00, "usdot\t<Vd>.4s, <Vn>.16b, <Vm>.16b"},
	{0xffa0fc00, 0x0e20ec00, "fmlal\t<Vd>.2s, <Vn>.2h, <Vm>.2h"},
	{0xffa0fc00, 0x4e20ec00, "fmlal\t<Vd>.4s, <Vn>.4h, <Vm>.4h"},
	{0xffa0fc00, 0x0ea0ec00, "fmlsl\t<Vd>.2s, <Vn>.2h, <Vm>.2h"},
	{0xffa0fc00, 0x4ea0ec00, "fmlsl\t<Vd>.4s, <Vn>.4h, <Vm>.4h"},
	{0xffa0fc00, 0x2e20cc00, "fmlal2\t<Vd>.2s, <Vn>.2h, <Vm>.2h"},
	{0xffa0fc00, 0x6e20cc00, "fmlal2\t<Vd>.4s, <Vn>.4h, <Vm>.4h"},
	{0xffa0fc00, 0x2ea0cc00, "fmlsl2\t<Vd>.2s, <Vn>.2h, <Vm>.2h"},
	{0xffa0fc00, 0x6ea0cc00, "fmlsl2\t<Vd>.4s, <Vn>.4h, <Vm>.4h"},
}

// arm64Later returns the text of an instruction of a later version of the
// architecture, or nothing.
func arm64Later(w uint32) string {
	if w>>16 == 0 {
		return "udf\t#" + strconv.Itoa(int(w))
	}
	if w>>25&15 == 2 {
		return sve(w)
	}
	for _, f := range arm64Forms {
		if w&f.mask == f.value {
			return f.expand(w)
		}
	}
	for _, f := range arm64Groups {
		if w&f.mask == f.value {
			if text := f.text(w); text != "" {
				return text
			}
		}
	}
	return ""
}

// arm64Groups are instructions of which bits make the name, too.
var arm64Groups = []struct {
	mask, value uint32
	text        func(uint32) string
}{
	{0x3f200c00, 0x38200000, arm64Atomic},
	{0x3fa07c00, 0x08a07c00, arm64CompareSwap},
	{0xbfa07c00, 0x08207c00, arm64CompareSwapPair},
	{0x3fa08000, 0x08800000, arm64LimitedOrder},
	{0x3f200c00, 0x19000000, arm64Ordered},
	{0xff200400, 0xf8200400, arm64LoadAuthenticated},
	{0xff200000, 0xd9200000, arm64Tag},
	{0xfe400000, 0x68000000, arm64TagPair},
	{0xfb200c00, 0x19000400, arm64Copy},
	{0xffe0c000, 0xce408000, arm64SM3},
	{0x9f208400, 0x0e008400, arm64Same},
	{0xff208400, 0x7e008400, arm64Same},
	{0xbf20e400, 0x2e00e400, arm64Complex},
	{0xbf20e400, 0x2e00c400, arm64Complex},
	{0x9f20c400, 0x0e000400, arm64Half},
	{0xdf20c400, 0x5e000400, arm64Half},
	{0x8f000400, 0x0f000000, arm64Element},
	{0x9fbeec00, 0x0e20e800, arm64Round},
	{0x8ff0c400, 0x0f10c400, arm64Fixed},
}

// sized returns the suffix of a name, and whether the register is one of 64
// bits, of a size.
func sized(size uint32) (suffix string, wide bool) {
	return [4]string{"b", "h"}[size], size == 3
}

// address returns an operand in memory.
func arm64Address(n uint32, offset int64) string {
	if offset == 0 {
		return "[" + arm64Register(true, n, true) + "]"
	}
	return "[" + arm64Register(true, n, true) + ", #" + strconv.FormatInt(offset, 10) + "]"
}

func arm64Signed(w uint32, at, width int) int64 {
	return int64(int32(w<<(32-at-width)) >> (32 - width))
}

// arm64Atomic reads loads that change what they read.
func arm64Atomic(w uint32) string {
	suffix, wide := sized(w >> 30)
	acquire, release := w>>23&1 != 0, w>>22&1 != 0
	s, n, t := w>>16&31, w>>5&31, w&31
	op := w >> 12 & 7
	name := [8]string{"add", "clr", "eor", "set", "smax", "smin", "umax", "umin"}[op]
	order := ""
	if acquire {
		order = "a"
	}
	if release {
		order += "l"
	}
	switch {
	case w>>15&1 == 0 && t == 31 && !acquire:
		return "st" + name + order + suffix + "\t" + arm64Register(wide, s, false) + ", " + arm64Address(n, 0)
	case w>>15&1 == 0:
		name = "ld" + name
	case op == 0:
		name = "swp"
	case op == 4 && acquire && !release && s == 31:
		return "ldapr" + suffix + "\t" + arm64Register(wide, t, false) + ", " + arm64Address(n, 0)
	default:
		return ""
	}
	return name + order + suffix + "\t" + arm64Register(wide, s, false) + ", " + arm64Register(wide, t, false) + ", " + arm64Address(n, 0)
}

// arm64CompareSwap reads cas and its kin.
func arm64CompareSwap(w uint32) string {
	suffix, wide := sized(w >> 30)
	return "cas" + arm64Order(w) + suffix + "\t" + arm64Register(wide, w>>16&31, false) + ", " + arm64Register(wide, w&31, false) + ", " + arm64Address(w>>5&31, 0)
}

// arm64CompareSwapPair reads casp and its kin.
func arm64CompareSwapPair(w uint32) string {
	wide, s, t := w>>30&1 != 0, w>>16&31, w&31
	if s&1 != 0 || t&1 != 0 {
		return ""
	}
	var r []string
	for _, n := range []uint32{s, s + 1, t, t + 1} {
		r = append(r, arm64Register(wide, n, false))
	}
	return "casp" + arm64Order(w) + "\t" + strings.Join(r, ", ") + ", " + arm64Address(w>>5&31, 0)
}

func arm64Order(w uint32) string {
	order := ""
	if w>>22&1 != 0 {
		order = "a"
	}
	if w>>15&1 != 0 {
		order += "l"
	}
	return order
}

// arm64LimitedOrder reads ldlar and stllr.
func arm64LimitedOrder(w uint32) string {
	suffix, wide := sized(w >> 30)
	return [2]string{"stllr", "ldlar"}[w>>22&1] + suffix + "\t" + arm64Register(wide, w&31, false) + ", " + arm64Address(w>>5&31, 0)
}

// arm64Ordered reads ldapur and stlur.
func arm64Ordered(w uint32) string {
	size, op := w>>30, w>>22&3
	suffix, wide := sized(size)
	name := "ldapur"
	switch {
	case op == 0:
		name = "stlur"
	case op == 2 && size < 3, op == 3 && size < 2:
		name, wide = "ldapurs", op == 2
		if size == 2 {
			suffix = "w"
		}
	case op > 1:
		return ""
	}
	return name + suffix + "\t" + arm64Register(wide, w&31, false) + ", " + arm64Address(w>>5&31, arm64Signed(w, 12, 9))
}

// arm64LoadAuthenticated reads ldraa and ldrab.
func arm64LoadAuthenticated(w uint32) string {
	offset := int64(w>>12&0x1ff)<<3 - int64(w>>22&1)<<12
	text := [2]string{"ldraa", "ldrab"}[w>>23&1] + "\t" + arm64Register(true, w&31, false) + ", "
	if w>>11&1 != 0 {
		return text + "[" + arm64Register(true, w>>5&31, true) + ", #" + strconv.FormatInt(offset, 10) + "]!"
	}
	return text + arm64Address(w>>5&31, offset)
}

// arm64Tag reads stg and its kin.
func arm64Tag(w uint32) string {
	op, mode, n := w>>22&3, w>>10&3, w>>5&31
	offset := arm64Signed(w, 12, 9) * 16
	if mode == 0 {
		if op != 1 {
			return ""
		}
		return "ldg\t" + arm64Register(true, w&31, false) + ", " + arm64Address(n, offset)
	}
	return [4]string{"stg", "stzg", "st2g", "stz2g"}[op] + "\t" + arm64Register(true, w&31, true) + ", " + arm64Indexed(mode, n, offset)
}

// arm64TagPair reads stgp.
func arm64TagPair(w uint32) string {
	mode := w >> 23 & 3
	if mode == 0 {
		return ""
	}
	return "stgp\t" + arm64Register(true, w&31, false) + ", " + arm64Register(true, w>>10&31, false) + ", " + arm64Indexed(mode, w>>5&31, arm64Signed(w, 15, 7)*16)
}

// arm64Indexed returns an operand in memory that may change its register: 1
// behind, 3 before, 2 not at all.
func arm64Indexed(mode, n uint32, offset int64) string {
	r, number := arm64Register(true, n, true), strconv.FormatInt(offset, 10)
	switch mode {
	case 1:
		return "[" + r + "], #" + number
	case 3:
		return "[" + r + ", #" + number + "]!"
	}
	return arm64Address(n, offset)
}

// arm64Copy reads cpy, set and their kin.
func arm64Copy(w uint32) string {
	s, n, d := arm64Register(true, w>>16&31, false), arm64Register(true, w>>5&31, false), arm64Register(true, w&31, false)
	option := w >> 12 & 15
	// No two registers are the same, and none but the last of set is the zero
	// register.
	if w>>16&31 == w>>5&31 || w>>5&31 == w&31 || w>>16&31 == w&31 || w>>5&31 == 31 || w&31 == 31 || w>>22&3 < 3 && w>>16&31 == 31 {
		return ""
	}
	if stage := w >> 22 & 3; stage < 3 {
		name := [2]string{"cpyf", "cpy"}[w>>26&1] + string("pme"[stage]) +
			[4]string{"", "wt", "rt", "t"}[option&3] + [4]string{"", "wn", "rn", "n"}[option>>2]
		return name + "\t[" + d + "]!, [" + s + "]!, " + n + "!"
	}
	if option > 11 {
		return ""
	}
	name := [2]string{"set", "setg"}[w>>26&1] + string("pme"[option>>2]) + [4]string{"", "t", "n", "tn"}[option&3]
	return name + "\t[" + d + "]!, " + n + "!, " + s
}

// arm64SM3 reads sm3tt1a and its kin.
func arm64SM3(w uint32) string {
	return fmt.Sprintf("sm3tt%s\tv%d.4s, v%d.4s, v%d.s[%d]", [4]string{"1a", "1b", "2a", "2b"}[w>>10&3], w&31, w>>5&31, w>>16&31, w>>12&3)
}

// arm64Same reads sqrdmlah and sqrdmlsh.
func arm64Same(w uint32) string {
	size, op := w>>22&3, w>>11&15
	if w>>29&1 == 0 || size == 0 || size == 3 || op > 1 {
		return ""
	}
	if w>>28&1 != 0 { // of one number
		r := [2]string{"h", "s"}[size-1]
		return fmt.Sprintf("%s\t%s%d, %s%d, %s%d", [2]string{"sqrdmlah", "sqrdmlsh"}[op], r, w&31, r, w>>5&31, r, w>>16&31)
	}
	a := [2][2]string{{"4h", "8h"}, {"2s", "4s"}}[size-1][w>>30&1]
	return fmt.Sprintf("%s\tv%d.%s, v%d.%s, v%d.%s", [2]string{"sqrdmlah", "sqrdmlsh"}[op], w&31, a, w>>5&31, a, w>>16&31, a)
}

// arm64Complex reads fcmla and fcadd of vectors.
func arm64Complex(w uint32) string {
	size, wide := w>>22&3, w>>30&1
	if size == 0 || size == 3 && wide == 0 {
		return ""
	}
	a := [4][2]string{{}, {"4h", "8h"}, {"2s", "4s"}, {"", "2d"}}[size][wide]
	name, degrees := "fcmla", w>>11&3*90
	if w>>13&1 != 0 { // fcadd
		if w>>11&1 != 0 {
			return ""
		}
		name, degrees = "fcadd", 90+w>>12&1*180
	}
	return fmt.Sprintf("%s\tv%d.%s, v%d.%s, v%d.%s, #%d", name, w&31, a, w>>5&31, a, w>>16&31, a, degrees)
}

// arm64Half reads operations of three vectors of numbers of 16 bits.
func arm64Half(w uint32) string {
	if w>>21&3 != 2 {
		return ""
	}
	name := map[uint32]string{
		0x00: "fmaxnm", 0x01: "fmla", 0x02: "fadd", 0x03: "fmulx", 0x04: "fcmeq", 0x06: "fmax", 0x07: "frecps",
		0x08: "fminnm", 0x09: "fmls", 0x0a: "fsub", 0x0e: "fmin", 0x0f: "frsqrts",
		0x10: "fmaxnmp", 0x12: "faddp", 0x13: "fmul", 0x14: "fcmge", 0x15: "facge", 0x16: "fmaxp", 0x17: "fdiv",
		0x18: "fminnmp", 0x1a: "fabd", 0x1c: "fcmgt", 0x1d: "facgt", 0x1e: "fminp",
	}[w>>29&1<<4|w>>23&1<<3|w>>11&7]
	if name == "" {
		return ""
	}
	if w>>28&1 != 0 { // of one number
		switch name {
		case "fmulx", "fcmeq", "frecps", "frsqrts", "fcmge", "facge", "fabd", "fcmgt", "facgt":
			return fmt.Sprintf("%s\th%d, h%d, h%d", name, w&31, w>>5&31, w>>16&31)
		}
		return ""
	}
	a := [2]string{"4h", "8h"}[w>>30&1]
	return fmt.Sprintf("%s\tv%d.%s, v%d.%s, v%d.%s", name, w&31, a, w>>5&31, a, w>>16&31, a)
}

// arm64Element reads operations on a vector, or a number, and an element of
// another.
func arm64Element(w uint32) string {
	size, op, wide, alone := w>>22&3, w>>12&15|w>>29&1<<4, w>>30&1, w>>28&1 != 0
	d, n, m := w&31, w>>5&31, w>>16&31
	if alone && wide == 0 {
		return ""
	}
	halves, singles := [2]string{"4h", "8h"}[wide], [2]string{"2s", "4s"}[wide]
	bytes := [2]string{"8b", "16b"}[wide]
	index := w>>11&1<<2 | w>>21&1<<1 | w>>20&1 // of 16 bits
	switch {
	case size == 0 && (op == 1 || op == 5 || op == 9 || op == 0x19):
		name := map[uint32]string{1: "fmla", 5: "fmls", 9: "fmul", 0x19: "fmulx"}[op]
		if alone {
			return fmt.Sprintf("%s\th%d, h%d, v%d.h[%d]", name, d, n, m&15, index)
		}
		return fmt.Sprintf("%s\tv%d.%s, v%d.%s, v%d.h[%d]", name, d, halves, n, halves, m&15, index)
	case op == 0x1d || op == 0x1f:
		name := map[uint32]string{0x1d: "sqrdmlah", 0x1f: "sqrdmlsh"}[op]
		switch {
		case size == 1 && alone:
			return fmt.Sprintf("%s\th%d, h%d, v%d.h[%d]", name, d, n, m&15, index)
		case size == 1:
			return fmt.Sprintf("%s\tv%d.%s, v%d.%s, v%d.h[%d]", name, d, halves, n, halves, m&15, index)
		case size == 2 && alone:
			return fmt.Sprintf("%s\ts%d, s%d, v%d.s[%d]", name, d, n, m, index>>1)
		case size == 2:
			return fmt.Sprintf("%s\tv%d.%s, v%d.%s, v%d.s[%d]", name, d, singles, n, singles, m, index>>1)
		}
	case alone:
	case size == 2 && (op == 0xe || op == 0x1e || op == 0xf), size == 0 && op == 0xf:
		name := map[uint32]string{0xe: "sdot", 0x1e: "udot", 0xf: "usdot"}[op]
		if size == 0 {
			name = "sudot"
		}
		return fmt.Sprintf("%s\tv%d.%s, v%d.%s, v%d.4b[%d]", name, d, singles, n, bytes, m, index>>1)
	case size == 1 && op == 0xf:
		return fmt.Sprintf("bfdot\tv%d.%s, v%d.%s, v%d.2h[%d]", d, singles, n, halves, m, index>>1)
	case size == 3 && op == 0xf:
		return fmt.Sprintf("bfmlal%s\tv%d.4s, v%d.8h, v%d.h[%d]", [2]string{"b", "t"}[wide], d, n, m&15, index)
	case size == 2 && (op == 0 || op == 4 || op == 0x18 || op == 0x1c):
		name := map[uint32]string{0: "fmlal", 4: "fmlsl", 0x18: "fmlal2", 0x1c: "fmlsl2"}[op]
		return fmt.Sprintf("%s\tv%d.%s, v%d.%s, v%d.h[%d]", name, d, singles, n, [2]string{"2h", "4h"}[wide], m&15, index)
	case (size == 1 || size == 2) && op&0x19 == 0x11:
		degrees := op >> 1 & 3 * 90
		if size == 1 && (wide == 1 || index < 4) {
			return fmt.Sprintf("fcmla\tv%d.%s, v%d.%s, v%d.h[%d], #%d", d, halves, n, halves, m, index>>1, degrees)
		}
		if size == 2 && wide == 1 && index&2 == 0 {
			return fmt.Sprintf("fcmla\tv%d.4s, v%d.4s, v%d.s[%d], #%d", d, n, m, index>>2, degrees)
		}
	}
	return ""
}

// arm64Round reads frint32z and its kin, of vectors.
func arm64Round(w uint32) string {
	if w>>16&1 == 0 {
		return ""
	}
	a := [2][2]string{{"2s", "4s"}, {"", "2d"}}[w>>22&1][w>>30&1]
	if a == "" {
		return ""
	}
	name := "frint" + [2]string{"32", "64"}[w>>12&1] + [2]string{"z", "x"}[w>>29&1]
	return fmt.Sprintf("%s\tv%d.%s, v%d.%s", name, w&31, a, w>>5&31, a)
}

// arm64Fixed reads conversions of fixed-point numbers of 16 bits.
func arm64Fixed(w uint32) string {
	var name string
	switch w >> 11 & 7 {
	case 4:
		name = [2]string{"scvtf", "ucvtf"}[w>>29&1]
	case 7:
		name = [2]string{"fcvtzs", "fcvtzu"}[w>>29&1]
	default:
		return ""
	}
	if w>>28&1 != 0 {
		if w>>30&1 == 0 {
			return ""
		}
		return fmt.Sprintf("%s\th%d, h%d, #%d", name, w&31, w>>5&31, 32-w>>16&31)
	}
	a := [2]string{"4h", "8h"}[w>>30&1]
	return fmt.Sprintf("%s\tv%d.%s, v%d.%s, #%d", name, w&31, a, w>>5&31, a, 32-w>>16&31)
}

// arm64System reads operations of the system, and instructions on registers
// that the library does not know.
func arm64System(w uint32) string {
	if w&0xffc00000 != 0xd5000000 {
		return ""
	}
	op1, n, m, op2, t := w>>16&7, w>>12&15, w>>8&15, w>>5&7, arm64Register(true, w&31, false)
	register := fmt.Sprintf("s%d_%d_c%d_c%d_%d", w>>19&3, op1, n, m, op2)
	load := w>>21&1 != 0
	switch {
	case w>>19&3 == 1 && !load && arm64Names()[register] != "":
		op, name, _ := strings.Cut(arm64Names()[register], ".")
		switch {
		case name == "":
			return op
		case strings.HasPrefix(name, "ialluis") || name == "iallu" || strings.HasPrefix(name, "vmalle1") || strings.HasPrefix(name, "alle") || strings.HasPrefix(name, "vmalls12e1") || strings.HasPrefix(name, "paall"):
			return op + "\t" + name
		}
		return op + "\t" + name + ", " + t
	case w>>19&3 == 1 && load:
		return fmt.Sprintf("sysl\t%s, #%d, C%d, C%d, #%d", t, op1, n, m, op2)
	case w>>19&3 == 1 && w&31 == 31:
		return fmt.Sprintf("sys\t#%d, C%d, C%d, #%d", op1, n, m, op2)
	case w>>19&3 == 1:
		return fmt.Sprintf("sys\t#%d, C%d, C%d, #%d, %s", op1, n, m, op2, t)
	case load:
		return "mrs\t" + t + ", " + cmp.Or(arm64Names()[register], register)
	}
	return "msr\t" + cmp.Or(arm64Names()[register], register) + ", " + t
}
