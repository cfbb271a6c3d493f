package disasm

import (
	"bytes"
	"regexp"
	"slices"
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
// out, and prefixes without a meaning, which it prints in front; rex is one of
// them.
func gas(code []byte, rex, text string, bits int) string {
	prefix, op, args := split(text)
	e := encodingOf(code, bits)
	first := e.op()
	args = scale(e, args)
	if first == 0x0f && len(e.rest) > 2 {
		op, args = e.twoBytes(op, args)
	}
	op, args = e.renamed(op, args)
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
	return join(e.idle(prefix+op, args)+e.locked(prefix)+rex, op, args)
}

// twoBytes is gas for operations of two bytes.
func (e encoding) twoBytes(op, args string) (string, string) {
	switch c := e.rest[1]; {
	case c == 0x21:
		args = strings.Replace(args, "%dr", "%db", 1)
	case c == 0x23:
		args = strings.Replace(args, "%dr", "%db", 1)
	case c >= 0x18 && c <= 0x1f && (op == "nop" || op == "nopl" || op == "nopw" || op == "nopq"):
		if i := strings.IndexByte(args, ','); i > 0 && strings.HasPrefix(args, "%") && !strings.Contains(args[:i], ":") {
			args = args[i+1:]
		}
		if op == "nop" && strings.IndexByte(args, '(') >= 0 {
			op = "nopl"
			if e.rex&8 != 0 {
				op = "nopq"
			} else if bytes.IndexByte(e.prefixes, 0x66) >= 0 {
				op = "nopw"
			}
		}
	}
	return op, args
}

// vexNames are operations that have two encodings with the same operands, of
// which objdump marks the shorter one.
var vexNames = []string{"vpdpbusd", "vpdpbusds", "vpdpwssd", "vpdpwssds", "vpmadd52huq", "vpmadd52luq", "vcvtneps2bf16", "vcvtneps2bf16x", "vcvtneps2bf16y"}

// otherNames are those of objdump for operations of which iced has others.
var otherNames = map[string]string{
	"cmpaexadd": "cmpnbxadd", "cmpaxadd": "cmpnbexadd", "cmpexadd": "cmpzxadd", "cmpgexadd": "cmpnlxadd", "cmpgxadd": "cmpnlexadd", "cmpnexadd": "cmpnzxadd",
}

// renamed returns the operation, and the operands that it always has, as
// objdump writes them.
func (e encoding) renamed(op, args string) (string, string) {
	if name := otherNames[op]; name != "" {
		return name, args
	}
	var registers []string
	switch op {
	case "lgdt", "lidt", "sgdt", "sidt", "lddqu", "vlddqu", "enqcmd", "enqcmds", "movdir64b", "invpcid", "ldtilecfg", "sttilecfg",
		"wrssd", "wrssq", "wrussd", "wrussq", "aesdec128kl", "aesdec256kl", "aesenc128kl", "aesenc256kl",
		"aesdecwide128kl", "aesdecwide256kl", "aesencwide128kl", "aesencwide256kl":
		return op, sizePointer.ReplaceAllString(args, "")
	case "invept", "invvpid", "cmpxchg16b":
		return op, strings.Replace(args, "XMMWORD", "OWORD", 1)
	case "invlpg", "cldemote":
		if e.intel && strings.HasPrefix(args, "[") {
			args = "BYTE PTR " + args
		}
		return op, args
	}
	if e.intel {
		return e.marked(op), args
	}
	switch op {
	case "monitor", "monitorx":
		registers = []string{"rax", "ecx", "edx"}
		if e.bits == 32 != (bytes.IndexByte(e.prefixes, 0x67) >= 0) {
			registers[0] = "eax"
		}
	case "mwait":
		registers = []string{"eax", "ecx"}
	case "mwaitx":
		registers = []string{"eax", "ecx", "ebx"}
	default:
		return e.marked(op), args
	}
	return op, "%" + strings.Join(registers, ",%")
}

// marked returns the name of an operation with a mark of its encoding, if
// there are two.
func (e encoding) marked(op string) string {
	if e.op() == 0xc4 && slices.Contains(vexNames, op) {
		return "{vex} " + op
	}
	return op
}

// sizePointer is the size of an operand in memory.
var sizePointer = regexp.MustCompile(`\b[A-Z0-9]+ PTR `)

// split parts an instruction in prefixes, the operation, and its operands.
func split(text string) (prefix, op, args string) {
	op = text
	if i := strings.IndexByte(text, ' '); i >= 0 {
		op, args = text[:i], strings.TrimLeft(text[i:], " ")
	}
	for args != "" {
		switch op {
		case "rep", "lock", "bnd", "notrack", "data16", "xacquire", "xrelease":
		case "addr32", "rex.w", "hint-taken", "hint-not-taken", "data64": // idle adds what there is of them
			return split(args)
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

// locked writes out the lock of an instruction with a hint for it.
func (e encoding) locked(prefix string) string {
	if prefix != "xacquire " && prefix != "xrelease " {
		return prefix
	}
	lock, hint := bytes.IndexByte(e.prefixes, 0xf0), -1
	for i, c := range e.prefixes {
		if c == 0xf2 || c == 0xf3 {
			hint = i
		}
	}
	switch {
	case lock < 0:
		return prefix
	case lock < hint:
		return "lock " + prefix
	}
	return prefix + "lock "
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
		if sib, ok := e.sib(); ok && sib>>3&7 == 4 && (sib&7 != 4 || sib>>6 != 0) && strings.IndexByte(args[i:j], ',') < 0 {
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
	intel    bool   // the syntax
	rest     []byte // from the operation on
}

func encodingOf(code []byte, bits int) encoding {
	i := 0
	for i < len(code) && isPrefix(code[i]) {
		i++
	}
	e := encoding{prefixes: code[:i], rest: code[i:], bits: bits}
	if bits == 64 && len(e.rest) > 0 && isREX(e.rest[0]) {
		e.rex, e.rest = e.rest[0], e.rest[1:]
	}
	return e
}

// isPrefix reports whether a byte is one of prefixNames.
func isPrefix(c byte) bool {
	switch c {
	case 0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf0, 0xf2, 0xf3:
		return true
	}
	return false
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

// modRM returns the ModRM byte, if the operation has one: all of those of two
// or three bytes but some of the former, and some of one byte.
func (e encoding) modRM() (byte, bool) {
	op, rest, has := e.op(), e.rest, false
	if e.vector() && (e.bits == 64 || len(rest) > 1 && rest[1] >= 0xc0) {
		at := 3
		switch op {
		case 0xc4:
			at = 4
		case 0x62:
			at = 5
		}
		if at < len(rest) {
			return rest[at], true
		}
		return 0, false
	}
	if op != 0x0f {
		has = op < 0x40 && op&7 < 4 || op == 0x62 || op == 0x63 || op == 0x69 || op == 0x6b || op&0xf0 == 0x80 ||
			op == 0xc0 || op == 0xc1 || op >= 0xc4 && op <= 0xc7 || op >= 0xd0 && op <= 0xd3 || op >= 0xd8 && op <= 0xdf ||
			op == 0xf6 || op == 0xf7 || op == 0xfe || op == 0xff
	} else if len(rest) > 1 {
		switch rest, op = rest[1:], rest[1]; {
		case op == 0x38 || op == 0x3a:
			rest, has = rest[1:], true
		default:
			switch op {
			case 5, 6, 7, 8, 9, 0xb, 0xe, 0x77, 0xa0, 0xa1, 0xa2, 0xa8, 0xa9, 0xaa:
			default:
				has = op&0xf0 != 0x80 && op&0xf0 != 0x30 && (op < 0xc8 || op > 0xcf)
			}
		}
	}
	if !has || len(rest) < 2 {
		return 0, false
	}
	return rest[1], true
}

// sizeless reports whether an operation has no operand whose size a prefix
// could change: those on bytes, jumps, and those without operands.
func (e encoding) sizeless() bool {
	switch op := e.op(); {
	case e.branch():
		return true
	case op >= 0xd8 && op <= 0xdf && len(e.rest) > 1:
		environment := e.rest[1] < 0xc0 && (op == 0xd9 || op == 0xdd) && e.rest[1]>>3&5 == 4
		return !environment
	case op < 0x40:
		return op&1 == 0 && op&7 < 6
	case op == 0x80 || op >= 0x84 && op <= 0x8a || op >= 0xa0 && op < 0xb0 || op >= 0xd0 && op <= 0xd2:
		return op&1 == 0
	case op >= 0xb0 && op < 0xb8, op == 0xc0, op == 0xc6, op >= 0xe0 && op <= 0xe4, op == 0xe6, op == 0xeb, op == 0xec, op == 0xee,
		op == 0x9e, op == 0x9f, op == 0xcc, op == 0xcd, op == 0xd7, op == 0xf4, op == 0xf5, op == 0xf6, op >= 0xf8 && op <= 0xfe:
		return true
	}
	return false
}

// sib returns the SIB byte, if there is one and no REX prefix extends its
// index.
func (e encoding) sib() (byte, bool) {
	rest := e.rest
	switch op := e.op(); {
	case op == 0x0f:
		if rest = rest[1:]; len(rest) > 0 && (rest[0] == 0x38 || rest[0] == 0x3a) {
			rest = rest[1:]
		}
	case op == 0x62: // its index is one of vectors, or there is none
		return 0, false
	case op == 0xc5 && e.bits == 64 && len(rest) > 2:
		rest = rest[2:]
	case op == 0xc4 && e.bits == 64 && len(rest) > 3:
		if rest[1]&0x40 == 0 { // X, inverted
			return 0, false
		}
		rest = rest[3:]
	}
	if len(rest) < 3 || e.rex&2 != 0 {
		return 0, false
	}
	if modrm, ok := e.modRM(); !ok || modrm>>6 == 3 || modrm&7 != 4 {
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
	if size > 0 && !e.sizeless() && (mandatory || e.rex&8 == 0) {
		size-- // that one is used
	}
	for range size {
		out.WriteString("data16 ")
	}
	locks := 0
	for _, c := range e.prefixes {
		name := prefixNames[c]
		switch c {
		case 0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65:
			if !e.usesSegment(c, text, args) {
				out.WriteString(name + " ")
			}
		case 0xf0:
			if locks++; locks > 1 {
				out.WriteString(name + " ")
			}
		case 0xf2, 0xf3:
			if !mandatory && !strings.HasPrefix(text, "rep") && !strings.HasPrefix(text, "bnd ") && !strings.HasPrefix(text, "xacquire ") && !strings.HasPrefix(text, "xrelease ") {
				out.WriteString(name + " ")
			}
		case 0x67:
			if !e.addresses() {
				out.WriteString(name + " ")
			}
		}
	}
	return out.String()
}

// usesSegment reports whether a segment's prefix shows in the instruction.
func (e encoding) usesSegment(c byte, text, args string) bool {
	switch e.op() {
	case 0x6c, 0x6d, 0xaa, 0xab, 0xae, 0xaf: // their segment is always ES
		return false
	case 0x6e, 0x6f, 0xa4, 0xa5, 0xa6, 0xa7, 0xac, 0xad:
		return true
	}
	return strings.Contains(args, prefixNames[c]+":") || strings.HasPrefix(text, "notrack ") || !e.intel && e.branch() && c&^0x10 == 0x2e
}

// addresses reports whether the instruction has an operand in memory or, as
// jrcxz, a register of the size of addresses.
func (e encoding) addresses() bool {
	op := e.op()
	if op == 0x8f && len(e.rest) > 4 && e.rest[1]&0x1f >= 8 { // XOP
		return e.rest[4]>>6 != 3
	}
	if modrm, ok := e.modRM(); ok {
		counts := op == 0x0f && e.rest[1] == 1 && (modrm == 0xc8 || modrm == 0xfa) || op == 0x0f && e.rest[1] == 0xae // monitor, umonitor
		return modrm>>6 != 3 || counts
	}
	return op >= 0x6c && op <= 0x6f || op >= 0xa0 && op <= 0xa7 || op >= 0xaa && op <= 0xaf || op == 0xd7 || op >= 0xe0 && op <= 0xe3
}

// badX86 is what objdump makes of bytes that are no instruction: the prefixes
// by their names, and the operation, of as many bytes as tell that there is
// none. If there is one with another prefix, it leaves the names out.
func badX86(code []byte, bits int, other func() bool) Inst {
	e := encodingOf(code, bits)
	op, rest := e.op(), e.rest
	n := 1
	switch {
	case len(rest) < 2:
	case op == 0x0f && (rest[1] == 0x38 || rest[1] == 0x3a):
		n = 3
	case op == 0x0f && rest[1] != 0x0f && !e.badOperand():
		n = 2
	case op >= 0xd8 && op <= 0xdf && rest[1] >= 0xc0:
		n = 2
	case op == 0x62 && bits == 64: // EVEX: fields that tell what it is come first
		switch {
		case rest[1]&8 != 0 || rest[1]&7 == 0 || rest[1]&7 == 4 || rest[1]&7 == 7:
		case len(rest) > 2 && rest[2]&4 == 0:
			n = 2
		default:
			n = 5
		}
	case op == 0xc4 && bits == 64 && rest[1]&0x1f-1 < 3, op == 0x8f && rest[1]&0x1f-8 < 3: // VEX, XOP
		n = 4
	case op == 0xc5 && bits == 64:
		n = 3
	}
	i := Inst{Len: min(len(code)-len(rest)+n, len(code)), Text: "(bad)", Bad: true}
	if n <= 2 && op != 0x0f || op == 0x0f && !other() {
		i.Text = e.names() + i.Text
	}
	return i
}

// names are those of all prefixes.
func (e encoding) names() string {
	var out strings.Builder
	for _, c := range e.prefixes {
		out.WriteString(prefixNames[c] + " ")
	}
	if e.rex != 0 {
		out.WriteString(rexName(e.rex) + " ")
	}
	return out.String()
}

// badOperand reports whether an operation of two bytes is one that wants a
// register and has an operand in memory, or has one that it must not have.
func (e encoding) badOperand() bool {
	modrm, ok := e.modRM()
	if e.rest[1] == 0xa6 || e.rest[1] == 0xa7 {
		return ok && modrm&0xc7 != 0xc0
	}
	return ok && modrm>>6 != 3 && bytes.IndexByte([]byte{0x50, 0xc5, 0xd7, 0xf7}, e.rest[1]) >= 0
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
func intel86(code []byte, rex, text string, bits int) string {
	prefix, op, args := split(text)
	e := encodingOf(code, bits)
	e.intel = true
	first := e.op()
	if name := intelNames[op]; name != "" {
		op = name
	}
	if rest, ok := strings.CutPrefix(args, "far"); ok {
		switch args = strings.TrimLeft(rest, " "); {
		case op != "ret":
		case e.rex&8 != 0:
			op = "retfq"
		default:
			op = "retf"
		}
	}
	op, args = e.renamed(op, args)
	if e.op() == 0x62 {
		args = vectorIntel(op, args)
	}
	if first == 0x0f && len(e.rest) > 2 {
		op, args = e.twoBytes(op, args)
		if e.rest[1] == 0x38 && (e.rest[2] == 0xcb || e.rest[2] == 0x10 || e.rest[2] == 0x14 || e.rest[2] == 0x15) {
			args += ",xmm0"
		}
	}
	if i := strings.IndexByte(args, '['); i >= 0 {
		if j := strings.IndexByte(args[i:], ']'); j > 0 {
			args = address(e.withoutIndex(args, i+1, i+j), i)
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
			if i := strings.Index(args, " PTR "); i >= 0 {
				from := strings.LastIndexByte(args[:i], ',') + 1
				args = args[:from] + args[i+len(" PTR "):]
			}
		}
	case 0x8e:
		if i := strings.IndexByte(args, ','); i >= 0 && strings.IndexByte(args, '[') < 0 && bytes.IndexByte(e.prefixes, 0x66) < 0 {
			if r := args[i+1:]; len(r) == 2 && r != "r8" && r != "r9" {
				args = args[:i+1] + "e" + r
			} else {
				args = strings.TrimSuffix(args, "w")
				if e.rex&8 == 0 {
					args += "d"
				}
			}
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
	return join(e.idle(prefix+op, args)+e.locked(prefix)+rex, op, args)
}

// address writes the memory operand between two brackets as objdump does: a
// plain address without them, one before the instruction as a number of 64
// bits.
func address(args string, i int) string {
	j := i + strings.IndexByte(args[i:], ']')
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

// withoutIndex writes out the index that an address, between i and j, has in its
// SIB byte and that is none.
func (e encoding) withoutIndex(args string, i, j int) string {
	sib, ok := e.sib()
	modrm, _ := e.modRM()
	if !ok || sib>>3&7 != 4 || sib&7 == 4 && sib>>6 == 0 || sib&7 == 5 && modrm>>6 == 0 {
		return args
	}
	if n := strings.IndexAny(args[i:j], "+-"); n >= 0 {
		j = i + n
	}
	return args[:j] + "+" + e.noIndex()[1:] + "*" + string("1248"[sib>>6]) + args[j:]
}

// vectorIntel writes the operands of an AVX-512 instruction as objdump does:
// the rounding behind the last register, a broadcast in place of PTR, and the
// mask of a gather or a scatter in braces.
func vectorIntel(op, args string) string {
	if i := strings.Index(args, "sae}"); i >= 0 {
		from := strings.LastIndexByte(args[:i], '{')
		mode := strings.Replace(args[from:i+len("sae}")], "{rne-", "{rn-", 1)
		args = args[:from] + args[i+len("sae}"):]
		if n := strings.LastIndexByte(args, ','); n >= 0 && strings.HasPrefix(args[n:], ",0x") {
			args = args[:n] + mode + args[n:]
		} else {
			args += mode
		}
	}
	if i := strings.Index(args, "{1to"); i >= 0 {
		end := i + strings.IndexByte(args[i:], '}') + 1
		if !narrows(op, args) {
			args = args[:i] + args[end:]
		}
		args = strings.Replace(args, " PTR ", " BCST ", 1)
	}
	if strings.Contains(op, "gather") || strings.Contains(op, "scatter") {
		args = maskOperand.ReplaceAllString(args, "{$1}$2")
	}
	return args
}

// narrows reports whether the first operand does not tell how often another one
// is broadcast.
func narrows(op, args string) bool {
	switch op {
	case "vcvtpd2dq", "vcvttpd2dq", "vcvtpd2udq", "vcvttpd2udq", "vcvtpd2ps", "vcvtqq2ps", "vcvtuqq2ps", "vcvtneps2bf16",
		"vcvtpd2ph", "vcvtqq2ph", "vcvtuqq2ph", "vcvtdq2ph", "vcvtudq2ph", "vcvtps2phx":
		return strings.HasPrefix(args, "xmm")
	}
	return strings.HasPrefix(op, "vfpclass")
}

var maskOperand = regexp.MustCompile(`,(k[1-7])(,|$)`)

// intelNames are those that objdump gives in Intel's syntax.
var intelNames = map[string]string{"pushfq": "pushf", "popfq": "popf", "iretd": "iret"}

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
