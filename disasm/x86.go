package disasm

import (
	"bytes"
	"strconv"
	"strings"
)

// operandColumn is where objdump puts the operands of x86 instructions.
const operandColumn = 7

// prefixNames are the names that objdump gives prefixes that it prints by
// themselves.
var prefixNames = map[byte]string{
	0x26: "es", 0x2e: "cs", 0x36: "ss", 0x3e: "ds", 0x64: "fs", 0x65: "gs",
	0x66: "data16", 0x67: "addr32", 0xf0: "lock", 0xf2: "repnz", 0xf3: "repz",
}

// gas turns text of an instruction in AT&T syntax into the one of GNU
// objdump 2.40: the suffixes that it leaves out, the operands that it writes
// out, and prefixes without a meaning, which it prints in front.
func gas(code []byte, text string, bits int) string {
	prefix, op, args := split(text)
	e := encodingOf(code, bits)
	first := e.op()
	args = scale(e, args)
	switch op {
	case "callq", "jmpq", "retq", "pushq", "popq", "leaveq", "enterq", "lretl", "iretl", "lcalll", "ljmpl",
		"calll", "jmpl", "retl", "pushl", "popl", "leavel", "enterl":
		op = op[:len(op)-1]
	}
	switch first {
	case 0xc0, 0xc1, 0xd0, 0xd1, 0xd2, 0xd3:
		if strings.HasPrefix(op, "sal") {
			op = "shl" + op[3:]
		}
		if first == 0xd0 || first == 0xd1 {
			args = strings.TrimPrefix(args, "$0x1,")
		}
	case 0x69, 0x6b:
		if strings.Count(args, ",") == 1 {
			args += args[strings.IndexByte(args, ','):]
		}
	case 0xd8, 0xd9, 0xda, 0xdb, 0xdc, 0xdd, 0xde, 0xdf:
		if args == "" {
			args = stackArgs[op]
		}
	case 0x6c, 0x6d, 0xaa, 0xab: // ins, stos
		args = implicit(args, "%es:(", "(")
	case 0x6e, 0x6f, 0xac, 0xad, 0xd7: // outs, lods, xlat
		args = implicit(args, "%ds:(", "(")
	case 0xa4, 0xa5: // movs
		args = implicit(args, "%ds:(", "%es:(")
	case 0xa6, 0xa7: // cmps
		args = implicit(args, "%es:(", "%ds:(")
	case 0xae, 0xaf: // scas
		args = implicit(args, "%es:(", "(")
	case 0xc2, 0xc3:
		if prefix == "rep " {
			prefix = "repz "
		}
	}
	switch first {
	case 0x6c, 0x6d, 0x6e, 0x6f, 0xec, 0xed, 0xee, 0xef:
		args = strings.Replace(args, "%dx", "(%dx)", 1)
	}
	return join(e.idle(prefix+op, args)+prefix, op, args)
}

// split parts an instruction in prefixes, the operation, and its operands.
func split(text string) (prefix, op, args string) {
	op = text
	if i := strings.IndexByte(text, ' '); i >= 0 {
		op, args = text[:i], strings.TrimLeft(text[i:], " ")
	}
	for args != "" {
		switch op {
		case "rep", "lock", "bnd", "notrack", "data16", "xacquire", "xrelease":
		case "repe":
			op = "repz"
		case "repne":
			op = "repnz"
		default:
			return prefix, op, args
		}
		prefix += op + " "
		_, op, args = split(args)
	}
	return prefix, op, args
}

// join puts together what split has parted, with the operands in their
// column, and the targets of branches as plain numbers.
func join(prefix, op, args string) string {
	if strings.HasPrefix(op, "j") || strings.HasPrefix(op, "loop") || op == "call" || op == "xbegin" {
		args = strings.TrimPrefix(args, "0x")
	}
	text := prefix + op
	if args == "" {
		return text
	}
	if n := operandColumn - len(text); n > 1 {
		return text + "       "[:n] + args
	}
	return text + " " + args
}

// stackArgs are operands of x87 instructions that objdump writes out.
var stackArgs = map[string]string{
	"fmulp": "%st,%st(1)", "fdivrp": "%st,%st(1)", "fdivp": "%st,%st(1)",
	"faddp": "%st,%st(1)", "fsubp": "%st,%st(1)", "fsubrp": "%st,%st(1)",
	"fxch": "%st(1)", "fucom": "%st(1)", "fucomp": "%st(1)", "fcom": "%st(1)", "fcomp": "%st(1)",
}

// implicit writes out the segments of the memory operands of a string
// instruction: the first, and the one after it.
func implicit(args, first, second string) string {
	i := strings.IndexByte(args, '(')
	if i < 0 || strings.HasSuffix(args[:i], ":") {
		return args
	}
	head, tail := args[:i], args[i+1:]
	if j := strings.IndexByte(tail, '('); j >= 0 && second != "(" {
		tail = tail[:j] + second + tail[j+1:]
	}
	return head + first + tail
}

// scale writes out the scale of an index, and the index that an address has
// in its SIB byte and that is none.
func scale(e encoding, args string) string {
	i := strings.IndexByte(args, '(')
	if i < 0 {
		return args
	}
	j := strings.IndexByte(args[i:], ')')
	if j < 0 {
		return args
	}
	j += i
	switch strings.Count(args[i:j], ",") {
	case 0, 1:
		if strings.HasSuffix(args[:j], ",") {
			args = args[:j-1] + args[j:]
			j--
		}
		if sib, ok := e.sib(); ok && sib>>3&7 == 4 && sib&7 != 4 && strings.IndexByte(args[i:j], ',') < 0 {
			return args[:j] + "," + e.noIndex() + "," + string("1248"[sib>>6]) + args[j:]
		}
		if strings.IndexByte(args[i:j], ',') >= 0 {
			return args[:j] + ",1" + args[j:]
		}
	}
	return args
}

// encoding is how the bytes of an x86 instruction begin.
type encoding struct {
	prefixes []byte // without REX
	rex      byte   // 0: none
	bits     int    // 32 or 64
	rest     []byte // from the operation on
}

func encodingOf(code []byte, bits int) encoding {
	i := 0
	for i < len(code) && prefixNames[code[i]] != "" {
		i++
	}
	e := encoding{prefixes: code[:i], rest: code[i:], bits: bits}
	if bits == 64 && len(e.rest) > 0 && isREX(e.rest[0]) {
		e.rex, e.rest = e.rest[0], e.rest[1:]
	}
	return e
}

// op returns the first byte of the operation; 0 if there is none.
func (e encoding) op() byte {
	if len(e.rest) == 0 {
		return 0
	}
	return e.rest[0]
}

// noIndex is the name of the index that is none.
func (e encoding) noIndex() string {
	if e.bits == 32 || bytes.IndexByte(e.prefixes, 0x67) >= 0 {
		return "%eiz"
	}
	return "%riz"
}

// vector reports whether a VEX or EVEX prefix holds the operation.
func (e encoding) vector() bool { return e.op() == 0xc4 || e.op() == 0xc5 || e.op() == 0x62 }

// branch reports whether it is a conditional jump, for which some segments
// are hints.
func (e encoding) branch() bool {
	return e.op()&0xf0 == 0x70 || e.op() == 0x0f && len(e.rest) > 1 && e.rest[1]&0xf0 == 0x80
}

// sib returns the SIB byte, if there is one and no REX prefix extends its
// index.
func (e encoding) sib() (byte, bool) {
	rest := e.rest
	if e.op() == 0x0f {
		if rest = rest[1:]; len(rest) > 0 && (rest[0] == 0x38 || rest[0] == 0x3a) {
			rest = rest[1:]
		}
	}
	if len(rest) < 3 || e.rex&2 != 0 || e.vector() {
		return 0, false
	}
	if modrm := rest[1]; modrm>>6 == 3 || modrm&7 != 4 {
		return 0, false
	}
	return rest[2], true
}

// idle returns the prefixes that mean nothing to an instruction: operand
// sizes that it has no use for, segments without a memory operand,
// repetitions of what is not repeated. They are printed in front of it.
func (e encoding) idle(text, args string) string {
	var out strings.Builder
	size := 0
	for _, c := range e.prefixes {
		if c == 0x66 {
			size++
		}
	}
	mandatory := e.op() == 0x0f || e.op() == 0x90 || e.vector()
	if size > 0 && (mandatory || e.rex&8 == 0) {
		size-- // that one is used
	}
	for range size {
		out.WriteString("data16 ")
	}
	for _, c := range e.prefixes {
		name := prefixNames[c]
		switch c {
		case 0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65:
			if !strings.Contains(args, name+":") && !strings.HasPrefix(text, "notrack ") && !e.branch() {
				out.WriteString(name + " ")
			}
		case 0xf2, 0xf3:
			if !mandatory && !strings.HasPrefix(text, "rep") && !strings.HasPrefix(text, "bnd ") && !strings.HasPrefix(text, "x") {
				out.WriteString(name + " ")
			}
		case 0x67:
			if !strings.ContainsAny(args, "([") {
				out.WriteString(name + " ")
			}
		}
	}
	return out.String()
}

// badX86 is what objdump makes of bytes that are no instruction: the prefixes
// by their names, and one byte more.
func badX86(code []byte, bits int) Inst {
	e := encodingOf(code, bits)
	var out strings.Builder
	for _, c := range e.prefixes {
		out.WriteString(prefixNames[c] + " ")
	}
	n := len(e.prefixes) + 1
	if e.rex != 0 {
		out.WriteString(rexName(e.rex) + " ")
		n++
	}
	return Inst{Len: min(n, len(code)), Text: out.String() + "(bad)", Bad: true}
}

func isREX(c byte) bool { return c&0xf0 == 0x40 }

// rexName returns the name of a REX prefix.
func rexName(c byte) string {
	name := "rex"
	for i, bit := range "WRXB" {
		if c&(8>>i) != 0 {
			if len(name) == 3 {
				name += "."
			}
			name += string(bit)
		}
	}
	return name
}

// intel86 does for Intel's syntax what gas does for that of AT&T.
func intel86(code []byte, text string, bits int) string {
	prefix, op, args := split(text)
	e := encodingOf(code, bits)
	first := e.op()
	if i := strings.IndexByte(args, '['); i >= 0 {
		if j := strings.IndexByte(args[i:], ']'); j > 0 {
			args = address(args, i, i+j)
		}
	}
	switch first {
	case 0xd0, 0xd1:
		if strings.HasSuffix(args, ",0x1") {
			args = strings.TrimSuffix(args, "0x1") + "1"
		}
		fallthrough
	case 0xc0, 0xc1, 0xd2, 0xd3:
		if op == "sal" {
			op = "shl"
		}
	case 0x69, 0x6b:
		if strings.Count(args, ",") == 1 {
			args = args[:strings.IndexByte(args, ',')+1] + args
		}
	case 0xb8, 0xb9, 0xba, 0xbb, 0xbc, 0xbd, 0xbe, 0xbf:
		if e.rex&8 != 0 {
			op = "movabs"
		}
	case 0xa0, 0xa1, 0xa2, 0xa3:
		if bits == 64 {
			op = "movabs"
		}
	case 0xc2, 0xc3:
		if prefix == "rep " {
			prefix = "repz "
		}
	case 0xd8, 0xd9, 0xda, 0xdb, 0xdc, 0xdd, 0xde, 0xdf:
		args = stackIntel(op, args)
	case 0x6c, 0x6d, 0x6e, 0x6f, 0xa4, 0xa5, 0xa6, 0xa7, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf:
		op, args = stringIntel(first, args)
	case 0xd7:
		args = strings.Replace(args, "[", "ds:[", 1)
	}
	return join(e.idle(prefix+op, args)+prefix, op, args)
}

// address writes the memory operand between two brackets as objdump does: a
// plain address without them, one before the instruction as a number of 64
// bits.
func address(args string, i, j int) string {
	inside := args[i+1 : j]
	switch {
	case strings.HasPrefix(inside, "0x"):
		if strings.HasSuffix(args[:i], ":") {
			return args[:i] + inside + args[j+1:]
		}
		return args[:i] + "ds:" + inside + args[j+1:]
	case strings.HasPrefix(inside, "rip-0x"):
		if n, err := strconv.ParseUint(inside[len("rip-0x"):], 16, 64); err == nil {
			return args[:i] + "[rip+0x" + strconv.FormatUint(-n, 16) + args[j:]
		}
	}
	return args
}

// stackIntel returns the operands that objdump prints of an x87 instruction.
func stackIntel(op, args string) string {
	switch {
	case args == "":
		switch stackArgs[op] {
		case "%st,%st(1)":
			return "st(1),st"
		case "%st(1)":
			return "st(1)"
		}
	case strings.IndexByte(args, '[') >= 0 || op == "fld" || op == "fxch" || strings.HasPrefix(op, "fcom") || strings.HasPrefix(op, "fucom"):
		if strings.HasPrefix(op, "fcomi") || strings.HasPrefix(op, "fucomi") {
			return args
		}
		return strings.TrimSuffix(strings.TrimPrefix(args, "st,"), ",st")
	case op == "fstp" || op == "fst" || op == "ffree":
		return strings.TrimSuffix(args, ",st")
	}
	return args
}

// stringIntel returns a string instruction with all its operands.
func stringIntel(first byte, args string) (op, full string) {
	size, _, _ := strings.Cut(args, " PTR ")
	size = size[strings.LastIndexByte(size, ',')+1:]
	register := map[string]string{"BYTE": "al", "WORD": "ax", "DWORD": "eax", "QWORD": "rax"}[size]
	from, to := size+" PTR ds:[rsi]", size+" PTR es:[rdi]"
	switch first &^ 1 {
	case 0x6c:
		return "ins", to + ",dx"
	case 0x6e:
		return "outs", "dx," + from
	case 0xa4:
		return "movs", to + "," + from
	case 0xa6:
		return "cmps", from + "," + to
	case 0xaa:
		return "stos", to + "," + register
	case 0xac:
		return "lods", register + "," + from
	}
	return "scas", register + "," + to
}
