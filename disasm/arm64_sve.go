package disasm

import (
	"fmt"
	"strconv"
	"strings"
)

// What compilers and libraries use most of the vectors without a fixed length
// (SVE): loads and stores of whole vectors, loops over them, arithmetic,
// comparisons. The rest is shown as bytes.
//
// Source: Arm Architecture Reference Manual, C8.2.

// sveForms are those whose text says all of them: <T> is the size of elements,
// and <G> the register of the mask.
var sveForms = []arm64Form{
	{0xfffffff0, 0x2518e400, "pfalse\t<Pd>.b"},
	{0xfffffff0, 0x2519f000, "rdffr\t<Pd>.b"},
	{0xfffffe1f, 0x25289000, "wrffr\t<Pn>.b"},
	{0xffffffff, 0x252c9000, "setffr"},
	{0xfffff800, 0x04bf5000, "rdvl\t<Xd>, <s5:6>"},
	{0xffe0f800, 0x04205000, "addvl\t<Xd|SP>, <Xs|SP>, <s5:6>"},
	{0xffe0f800, 0x04605000, "addpl\t<Xd|SP>, <Xs|SP>, <s5:6>"},
	{0xff20fc00, 0x04200000, "add\t<Zd>.<T>, <Zn>.<T>, <Zm>.<T>"},
	{0xff20fc00, 0x04200400, "sub\t<Zd>.<T>, <Zn>.<T>, <Zm>.<T>"},
	{0xff20fc00, 0x05206000, "zip1\t<Zd>.<T>, <Zn>.<T>, <Zm>.<T>"},
	{0xff20fc00, 0x05206400, "zip2\t<Zd>.<T>, <Zn>.<T>, <Zm>.<T>"},
	{0xff20fc00, 0x05206800, "uzp1\t<Zd>.<T>, <Zn>.<T>, <Zm>.<T>"},
	{0xff20fc00, 0x05206c00, "uzp2\t<Zd>.<T>, <Zn>.<T>, <Zm>.<T>"},
	{0xff20fc00, 0x05207000, "trn1\t<Zd>.<T>, <Zn>.<T>, <Zm>.<T>"},
	{0xff20fc00, 0x05207400, "trn2\t<Zd>.<T>, <Zn>.<T>, <Zm>.<T>"},
	{0xff20e000, 0x04004000, "mla\t<Zd>.<T>, <G>/m, <Zn>.<T>, <Zm>.<T>"},
	{0xff20e000, 0x04006000, "mls\t<Zd>.<T>, <G>/m, <Zn>.<T>, <Zm>.<T>"},
	{0xffe0fc00, 0x04203000, "and\t<Zd>.d, <Zn>.d, <Zm>.d"},
	{0xffe0fc00, 0x04a03000, "eor\t<Zd>.d, <Zn>.d, <Zm>.d"},
	{0xffe0fc00, 0x04e03000, "bic\t<Zd>.d, <Zn>.d, <Zm>.d"},
	{0xfffffc00, 0x0420bc00, "movprfx\t<Zd>, <Zn>"},
	{0xff3fe000, 0x04102000, "movprfx\t<Zd>.<T>, <G>/z, <Zn>.<T>"},
	{0xff3fe000, 0x04112000, "movprfx\t<Zd>.<T>, <G>/m, <Zn>.<T>"},
	{0xff20e010, 0x2400a000, "cmpeq\t<Pd>.<T>, <G>/z, <Zn>.<T>, <Zm>.<T>"},
	{0xff20e010, 0x2400a010, "cmpne\t<Pd>.<T>, <G>/z, <Zn>.<T>, <Zm>.<T>"},
	{0xff20e010, 0x24008000, "cmpge\t<Pd>.<T>, <G>/z, <Zn>.<T>, <Zm>.<T>"},
	{0xff20e010, 0x24008010, "cmpgt\t<Pd>.<T>, <G>/z, <Zn>.<T>, <Zm>.<T>"},
	{0xff20e010, 0x24000000, "cmphs\t<Pd>.<T>, <G>/z, <Zn>.<T>, <Zm>.<T>"},
	{0xff20e010, 0x24000010, "cmphi\t<Pd>.<T>, <G>/z, <Zn>.<T>, <Zm>.<T>"},
	{0xff20e010, 0x25008000, "cmpeq\t<Pd>.<T>, <G>/z, <Zn>.<T>, <s16:5>"},
	{0xff20e010, 0x25008010, "cmpne\t<Pd>.<T>, <G>/z, <Zn>.<T>, <s16:5>"},
	{0xff20e010, 0x25000000, "cmpge\t<Pd>.<T>, <G>/z, <Zn>.<T>, <s16:5>"},
	{0xff20e010, 0x25000010, "cmpgt\t<Pd>.<T>, <G>/z, <Zn>.<T>, <s16:5>"},
	{0xff20e010, 0x25002000, "cmplt\t<Pd>.<T>, <G>/z, <Zn>.<T>, <s16:5>"},
	{0xff20e010, 0x25002010, "cmple\t<Pd>.<T>, <G>/z, <Zn>.<T>, <s16:5>"},
	{0xff3ffc00, 0x05203800, "mov\t<Zd>.<T>, <E>"},
}

// sveGroups are instructions of which bits make the name, too.
var sveGroups = []struct {
	mask, value uint32
	text        func(uint32) string
}{
	{0xff3ffc10, 0x2518e000, svePattern("ptrue")},
	{0xff30fc00, 0x0420e000, sveCount("cnt")},
	{0xff30fc00, 0x0430e000, sveCount("inc")},
	{0xff30fc00, 0x0430e400, sveCount("dec")},
	{0xff20e400, 0x25200400, sveWhile},
	{0xffc0e000, 0x85804000, sveWhole("ldr\tz")},
	{0xffc0e000, 0xe5804000, sveWhole("str\tz")},
	{0xffc0e010, 0x85800000, sveWhole("ldr\tp")},
	{0xffc0e010, 0xe5800000, sveWhole("str\tp")},
	{0xfe10e000, 0xa400a000, sveLoad},
	{0xfe00e000, 0xa4004000, sveLoad},
	{0xfe10e000, 0xe400e000, sveStore},
	{0xfe00e000, 0xe4004000, sveStore},
	{0xff20e000, 0x04000000, sveMasked},
	{0xff20e000, 0x65200000, sveFloat("fmla")},
	{0xff20e000, 0x65202000, sveFloat("fmls")},
	{0xff20fc00, 0x65000000, sveFloat("fadd")},
	{0xff20fc00, 0x65000400, sveFloat("fsub")},
	{0xff20fc00, 0x65000800, sveFloat("fmul")},
	{0xff3fe000, 0x65002000, sveFloat("faddv")},
}

// sve returns the text of an instruction of SVE, or nothing.
func sve(w uint32) string {
	for _, f := range sveForms {
		if w&f.mask == f.value {
			text := strings.NewReplacer("<T>", sveSize(w), "<G>", svePredicate(w), "<E>", arm64Register(w>>22&3 == 3, w>>5&31, true)).Replace(f.text)
			return arm64Form{text: text}.expand(w)
		}
	}
	for _, f := range sveGroups {
		if w&f.mask == f.value {
			return f.text(w)
		}
	}
	return ""
}

func sveSize(w uint32) string { return string("bhsd"[w>>22&3]) }

func svePredicate(w uint32) string { return "p" + strconv.Itoa(int(w>>10&7)) }

// svePatterns are the numbers of elements that have names.
var svePatterns = map[uint32]string{
	0: "pow2", 1: "vl1", 2: "vl2", 3: "vl3", 4: "vl4", 5: "vl5", 6: "vl6", 7: "vl7", 8: "vl8", 9: "vl16", 10: "vl32", 11: "vl64", 12: "vl128", 13: "vl256",
	29: "mul4", 30: "mul3", 31: "",
}

// pattern returns the operand that says which elements, if it is not all.
func pattern(w uint32) string {
	name, ok := svePatterns[w>>5&31]
	switch {
	case !ok:
		return fmt.Sprintf(", #%d", w>>5&31)
	case name == "":
		return ""
	}
	return ", " + name
}

func svePattern(name string) func(uint32) string {
	return func(w uint32) string {
		return fmt.Sprintf("%s\tp%d.%s%s", name, w&15, sveSize(w), pattern(w))
	}
}

func sveCount(name string) func(uint32) string {
	return func(w uint32) string {
		text := fmt.Sprintf("%s%c\t%s", name, "bhwd"[w>>22&3], arm64Register(true, w&31, false))
		times := w >> 16 & 15
		if which := pattern(w); which != "" || times == 0 {
			text += which
		} else {
			text += ", all"
		}
		if times > 0 {
			text += fmt.Sprintf(", mul #%d", times+1)
		}
		return text
	}
}

func sveWhile(w uint32) string {
	wide := w>>12&1 != 0
	name := [2][2]string{{"whilelt", "whilele"}, {"whilelo", "whilels"}}[w>>11&1][w>>4&1]
	return fmt.Sprintf("%s\tp%d.%s, %s, %s", name, w&15, sveSize(w), arm64Register(wide, w>>5&31, false), arm64Register(wide, w>>16&31, false))
}

// sveAddress is one that counts in vectors.
func sveAddress(n uint32, offset int64) string {
	if offset == 0 {
		return arm64Address(n, 0)
	}
	return fmt.Sprintf("[%s, #%d, mul vl]", arm64Register(true, n, true), offset)
}

func sveWhole(name string) func(uint32) string {
	return func(w uint32) string {
		offset := arm64Signed(w, 16, 6)<<3 | int64(w>>10&7)
		return fmt.Sprintf("%s%d, %s", name, w&31, sveAddress(w>>5&31, offset))
	}
}

// sveMemory is the address of a load or store: of two registers, or of one and
// a number.
func sveMemory(w uint32, immediate bool, shift uint32) string {
	if immediate {
		return sveAddress(w>>5&31, arm64Signed(w, 16, 4))
	}
	text := "[" + arm64Register(true, w>>5&31, true) + ", " + arm64Register(true, w>>16&31, false)
	if shift > 0 {
		text += fmt.Sprintf(", lsl #%d", shift)
	}
	return text + "]"
}

func sveLoad(w uint32) string {
	types := strings.Fields("b.b b.h b.s b.d sw.d h.h h.s h.d sh.d sh.s w.s w.d sb.d sb.s sb.h d.d")
	name, size, _ := strings.Cut(types[w>>21&15], ".")
	immediate := w>>13&1 != 0
	if !immediate && w>>16&31 == 31 {
		return ""
	}
	shift := uint32(strings.IndexByte("bhwd", name[len(name)-1]))
	return fmt.Sprintf("ld1%s\t{z%d.%s}, %s/z, %s", name, w&31, size, svePredicate(w), sveMemory(w, immediate, shift))
}

func sveStore(w uint32) string {
	memory, size := w>>23&3, w>>21&3
	immediate := w>>15&1 != 0
	if size < memory || !immediate && w>>16&31 == 31 {
		return ""
	}
	return fmt.Sprintf("st1%c\t{z%d.%c}, %s, %s", "bhwd"[memory], w&31, "bhsd"[size], svePredicate(w), sveMemory(w, immediate, memory))
}

// sveMasked reads operations on a vector and another one under a mask.
func sveMasked(w uint32) string {
	name := map[uint32]string{
		0: "add", 1: "sub", 3: "subr", 8: "smax", 9: "umax", 10: "smin", 11: "umin", 12: "sabd", 13: "uabd", 16: "mul", 18: "smulh", 19: "umulh",
		20: "sdiv", 21: "udiv", 22: "sdivr", 23: "udivr", 24: "orr", 25: "eor", 26: "and", 27: "bic",
	}[w>>16&31]
	if name == "" || w>>16&31 >= 20 && w>>16&31 <= 23 && w>>22&3 < 2 {
		return ""
	}
	t := sveSize(w)
	return fmt.Sprintf("%s\tz%d.%s, %s/m, z%d.%s, z%d.%s", name, w&31, t, svePredicate(w), w&31, t, w>>5&31, t)
}

// sveFloat reads an operation on floating-point numbers.
func sveFloat(name string) func(uint32) string {
	return func(w uint32) string {
		t := sveSize(w)
		switch {
		case t == "b":
			return ""
		case name == "faddv":
			return fmt.Sprintf("%s\t%s%d, %s, z%d.%s", name, t, w&31, svePredicate(w), w>>5&31, t)
		case name[1] == 'm' && name != "fmul":
			return fmt.Sprintf("%s\tz%d.%s, %s/m, z%d.%s, z%d.%s", name, w&31, t, svePredicate(w), w>>5&31, t, w>>16&31, t)
		}
		return fmt.Sprintf("%s\tz%d.%s, z%d.%s, z%d.%s", name, w&31, t, w>>5&31, t, w>>16&31, t)
	}
}
