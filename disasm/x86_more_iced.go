//go:build iced

package disasm

import (
	"bytes"
	"strconv"
	"strings"
)

// What objdump has and iced has not: marks of prefixes without a meaning, and
// instructions that only objdump shows.

// usesREX reports whether the instruction is known to use a bit of the REX
// prefix.
func (e encoding) usesREX(bit byte) bool {
	modrm, ok := e.modRM()
	op := e.op()
	register := modrm>>6 == 3
	switch bit {
	case 1: // B
		return ok && !register || !ok && (op >= 0x50 && op < 0x60 || op >= 0xb0 && op < 0xc0) || ok && (e.plain() || e.bytewise() || e.packed())
	case 2: // X
		return ok && !register && modrm&7 == 4
	case 4: // R
		if op == 0x84 || op == 0x86 || op == 0x88 || op == 0x8a || ok && e.packed() {
			return true
		}
		return ok && e.plain() && op != 0x81 && op != 0x83 && op != 0xc1 && op != 0xc7 && op != 0xd1 && op != 0xd3 && op != 0xf7
	}
	return op >= 0xb8 && op < 0xc0 || op < 0x40 && op&7 == 5 || op == 0x98 || op == 0x99 || op == 0xa9 || op == 0xa5 || op == 0xab || ok && e.plain() // W
}

// plain reports whether the operation is one of the common ones with general
// registers that are not bytes.
func (e encoding) plain() bool {
	switch op := e.op(); op {
	case 0x63, 0x69, 0x6b, 0x81, 0x83, 0x85, 0x87, 0x89, 0x8b, 0x8d, 0xc1, 0xc7, 0xd1, 0xd3, 0xf7:
		return true
	case 0x0f:
		op := e.rest[1:]
		return len(op) > 0 && (op[0]&0xf0 == 0x40 || op[0] == 0xaf || op[0] == 0xb1 || op[0] == 0xb6 || op[0] == 0xb7 || op[0] == 0xbc || op[0] == 0xbd || op[0] == 0xbe || op[0] == 0xbf)
	default:
		return op < 0x40 && (op&7 == 1 || op&7 == 3)
	}
}

// bytewise reports whether the operation is one of the common ones with
// registers that are bytes.
func (e encoding) bytewise() bool {
	switch e.op() {
	case 0x80, 0x84, 0x86, 0x88, 0x8a, 0xc0, 0xc6, 0xf6, 0xfe:
		return true
	case 0x0f:
		return len(e.rest) > 1 && e.rest[1]&0xf0 == 0x90
	}
	return e.op() < 0x40 && e.op()&5 == 0
}

// packed reports whether the operation is one of the common ones with two
// vector registers.
func (e encoding) packed() bool {
	if e.op() != 0x0f || len(e.rest) < 2 {
		return false
	}
	switch op := e.rest[1]; {
	case op == 0x10 || op == 0x11 || op == 0x28 || op == 0x29 || op == 0x2e || op == 0x2f || op == 0x51 || op >= 0x54 && op <= 0x5f:
		return true
	case op >= 0x60 && op <= 0x76 && op != 0x6e && (op < 0x71 || op > 0x73), op == 0x7f, op >= 0xd1 && op != 0xd6 && op != 0xd7 && op != 0xf0 && op != 0xf7:
		return bytes.IndexByte(e.prefixes, 0x66) >= 0 || (op == 0x6f || op == 0x7f || op == 0x70) && len(e.prefixes) > 0 && e.prefixes[len(e.prefixes)-1]|1 == 0xf3
	}
	return false
}

// chooses reports whether a REX prefix without bits is known to choose one of
// the registers that are bytes.
func (e encoding) chooses() bool {
	modrm, ok := e.modRM()
	if !ok || !e.bytewise() && !(e.op() == 0x0f && (e.rest[1] == 0xb6 || e.rest[1] == 0xbe)) {
		return false
	}
	reg := e.op() < 0x40 || e.op() == 0x84 || e.op() == 0x86 || e.op() == 0x88 || e.op() == 0x8a
	return modrm>>6 == 3 && modrm&4 != 0 || reg && modrm>>3&4 != 0
}

// shortJump reads a jump or call of 16 bits, which some processors know in
// 64-bit code, and objdump.
func (e encoding) shortJump(addr uint64) (Inst, bool) {
	if e.bits != 64 || e.op() != 0xe8 && e.op() != 0xe9 || len(e.rest) < 3 || e.rex&8 != 0 || bytes.IndexByte(e.prefixes, 0x66) < 0 {
		return Inst{}, false
	}
	i := Inst{Len: len(e.prefixes) + 3 + min(int(e.rex), 1), Kind: Jump, HasTarget: true}
	op := "jmpw"
	if e.op() == 0xe8 {
		op, i.Kind = "callw", Call
	}
	i.Target = (addr + uint64(i.Len) + uint64(e.rest[1]) + uint64(e.rest[2])<<8) & 0xffff
	i.Text = join(e.idle(op, ""), op, strconv.FormatUint(i.Target, 16))
	return i, true
}

// waits reports whether an instruction of the x87 follows a wait: objdump takes
// both for one.
func (e encoding) waits() bool {
	if e.op() != 0x9b {
		return false
	}
	op := encodingOf(e.rest[1:], e.bits).op()
	return op >= 0xd8 && op <= 0xdf
}

// stackNames are instructions of earlier coprocessors, by the byte behind db.
var stackNames = map[byte]string{0xe0: "fneni(8087 only)", 0xe1: "fndisi(8087 only)", 0xe4: "fnsetpm(287 only)", 0xe5: "frstpm(287 only)"}

// waitNames are operations of the x87 that have another name with a wait.
var waitNames = map[string]string{"fnstenv": "fstenv", "fnstcw": "fstcw", "fnstsw": "fstsw", "fnclex": "fclex", "fninit": "finit", "fnsave": "fsave"}

// badStack reports whether it is one of the operations of the x87 that are
// other names of what has one: objdump does not know them.
func (e encoding) badStack() bool {
	if len(e.rest) < 2 {
		return false
	}
	switch op, modrm := e.rest[0], e.rest[1]&^7; op {
	case 0xd9:
		return modrm == 0xd8
	case 0xdc:
		return modrm == 0xd0 || modrm == 0xd8
	case 0xdd:
		return modrm == 0xc8
	case 0xde:
		return modrm == 0xd0
	case 0xdf:
		return modrm == 0xc8 || modrm == 0xd0 || modrm == 0xd8
	}
	return false
}

// A stand-in is an instruction with the operands of one that is none, or has a
// register that is none.
type standIn struct {
	modrm    byte   // in place of the one that is there
	op       string // of what is shown; "" for that of the stand-in
	register string // of what is shown, in place of %es
}

// standIn returns what iced refuses and objdump shows.
func (e encoding) standIn() (standIn, bool) {
	modrm, ok := e.modRM()
	if !ok {
		return standIn{}, false
	}
	reg, without := modrm>>3&7, modrm&^0x38
	switch op := e.op(); {
	case op == 0x8c && reg >= 6:
		return standIn{modrm: without, register: "?"}, true
	case op == 0x8e && reg == 1:
		return standIn{modrm: without, register: "cs"}, true
	case op == 0x8e && reg >= 6:
		return standIn{modrm: without, register: "?"}, true
	case modrm>>6 != 3 && (op == 0xd9 && reg == 1 || op == 0xdb && (reg == 4 || reg == 6) || op == 0xdd && reg == 5):
		return standIn{modrm: without, op: "(bad)"}, true
	}
	return standIn{}, false
}

// in returns the code with the stand-in in its place.
func (s standIn) in(code []byte, e encoding) []byte {
	if s == (standIn{}) {
		return code
	}
	code = bytes.Clone(code)
	at := len(e.prefixes) + 1
	if e.rex != 0 {
		at++
	}
	code[at] = s.modrm
	return code
}

// show turns the text of the stand-in into the one of what it stands for.
func (s standIn) show(text string) string {
	if s.op != "" {
		var prefix string
		for {
			name, rest, _ := strings.Cut(text, " ")
			if name != "lock" && name != "data16" && name != "bnd" && name != "notrack" && !strings.HasPrefix(name, "rep") && !strings.HasPrefix(name, "rex") &&
				name != "addr32" && len(name) != 2 {
				return join(prefix, s.op, strings.TrimLeft(rest, " "))
			}
			prefix, text = prefix+name+" ", rest
		}
	}
	if before, args, ok := strings.Cut(text, "es,"); ok && !strings.Contains(args, "es:") { // mov %es,…
		return before + s.register + "," + args
	}
	return strings.TrimSuffix(text, "es") + s.register
}
