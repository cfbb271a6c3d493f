//go:build iced

package disasm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/perfark/perfark/disasm/iced"
)

// icedWindow is how many bytes the module sees at a time: more than the
// longest instruction has.
const icedWindow = 16

// What iced's Formatter and Instruction.flowControl take and return.
const (
	icedGas   = 0
	icedIntel = 1

	icedUnchecked = 1 // objdump, too, prints "lock" in front of what cannot be locked

	flowJump         = 1
	flowIndirectJump = 2
	flowConditional  = 3
	flowReturn       = 4
	flowCall         = 5
	flowIndirectCall = 6
	flowTransaction  = 8
)

// x86 is iced-x86 in its module's memory.
type x86 struct {
	m         *iced.Module
	bits      int
	intel     bool
	result    int32 // where calls leave what they return
	window    int32
	insn      int32
	format    int32
	decoder   int32
	truncated bool  // the last call of read saw but the beginning of an instruction
	checked   int32 // refuses what no processor takes
}

// newX86 returns a decoder of 32- or 64-bit code.
func newX86(bits int, intel bool) *Decoder {
	m := iced.New(icedHost{})
	x := &x86{m: m, bits: bits, intel: intel, result: m.X__wbindgen_malloc(64, 8), window: m.X__wbindgen_malloc(icedWindow, 1), insn: m.Xinstruction_new()}
	m.Xdecoder_new(x.result, int32(bits), x.window, icedWindow, icedUnchecked)
	x.decoder = x.word(0)
	m.Xdecoder_new(x.result, int32(bits), x.window, icedWindow, 0)
	x.checked = x.word(0)
	syntax := int32(icedGas)
	if intel {
		syntax = icedIntel
	}
	m.Xformatter_new(x.result, syntax)
	f := x.word(0)
	x.format = f
	m.Xformatter_set_firstOperandCharIndex(f, operandColumn)
	m.Xformatter_set_spaceAfterOperandSeparator(f, 0)
	m.Xformatter_set_smallHexNumbersInDecimal(f, 0)
	m.Xformatter_set_uppercaseHex(f, 0)
	m.Xformatter_set_showBranchSize(f, 0)
	m.Xformatter_set_branchLeadingZeros(f, 0)
	m.Xformatter_set_ripRelativeAddresses(f, 1)
	m.Xformatter_set_showZeroDisplacements(f, 1)
	if intel {
		m.Xformatter_set_memorySizeOptions(f, 1) // always
		m.Xformatter_set_uppercaseKeywords(f, 1)
		m.Xformatter_set_addLeadingZeroToHexNumbers(f, 0)
		m.Xformatter_set_alwaysShowScale(f, 1)
		m.Xformatter_set_hexPrefix(f, x.text("0x"), 2)
		m.Xformatter_set_hexSuffix(f, x.text(""), 0)
	}
	return &Decoder{decode: x.decode}
}

func (x *x86) memory() []byte { return *x.m.Xmemory().Slice() }

// word returns a word of what the last call left.
func (x *x86) word(off int32) int32 {
	return int32(binary.LittleEndian.Uint32(x.memory()[x.result+off:]))
}

// text copies s to the module's memory, for a call that takes it over.
func (x *x86) text(s string) int32 {
	p := x.m.X__wbindgen_malloc(int32(max(len(s), 1)), 1)
	copy(x.memory()[p:], s)
	return p
}

func (x *x86) decode(code []byte, addr uint64) Inst {
	e := encodingOf(code[:min(len(code), icedWindow)], x.bits)
	if e.rex != 0 && len(e.rest) > 0 && (isREX(e.rest[0]) || e.rest[0] == 0x9b || isPrefix(e.rest[0])) {
		return Inst{Len: len(e.prefixes) + 1, Text: strings.TrimSuffix(e.names(), " ")} // without effect, as something comes between it and the operation
	}
	if e.badStack() {
		return Inst{Len: len(e.prefixes) + 2 + min(int(e.rex), 1), Text: e.names() + "(bad)", Bad: true}
	}
	if e.waits() {
		skip := len(e.prefixes) + 1
		i := x.decode(code[skip:], addr+uint64(skip))
		prefix, op, args := split(i.Text)
		if name := waitNames[op]; name != "" {
			i.Text = join(prefix, name, args)
		}
		i.Text, i.Len = e.names()+i.Text, i.Len+skip
		return i
	}
	if e.op() == 0xdb && len(e.rest) > 1 && stackNames[e.rest[1]] != "" {
		return Inst{Len: len(e.prefixes) + min(int(e.rex), 1) + 2, Text: e.names() + stackNames[e.rest[1]]}
	}
	if e.vector() && e.rex != 0 { // without effect
		skip := len(e.prefixes) + 1
		i := x.decode(code[skip:], addr+uint64(skip))
		i.Text, i.Len = e.names()+i.Text, i.Len+skip
		return i
	}
	if i, ok := e.shortJump(addr); ok {
		return i
	}
	m := x.m
	have := min(len(code), icedWindow)
	stand, other := e.standIn()
	n := x.read(code[:have], addr)
	if other {
		n = x.read(stand.in(code[:have], e), addr)
	}
	if n == 0 && have < icedWindow && x.truncated {
		return Inst{Len: 1, Text: fmt.Sprintf(".byte 0x%x", code[0]), Bad: true}
	}
	if n == 0 {
		return badX86(code[:have], x.bits, func() bool {
			return x.read(e.rest, addr) > 0 || x.read(append([]byte{0x66}, e.rest...), addr) > 0
		})
	}
	i := Inst{Len: n}
	switch m.Xinstruction_flowControl(x.insn) {
	case flowJump:
		i.Kind, i.HasTarget = Jump, true
	case flowIndirectJump:
		i.Kind = Jump
	case flowConditional:
		i.Kind, i.HasTarget = Branch, true
	case flowTransaction:
		i.Kind, i.HasTarget = Branch, code[0] == 0xc7 // xbegin alone
	case flowReturn:
		i.Kind = Return
	case flowCall:
		i.Kind, i.HasTarget = Call, true
	case flowIndirectCall:
		i.Kind = Call
	}
	if i.HasTarget {
		i.Target = uint64(m.Xinstruction_nearBranchTarget(x.insn))
	}
	if m.Xinstruction_isIpRelMemoryOperand(x.insn) != 0 {
		i.Data, i.HasData = uint64(m.Xinstruction_ipRelMemoryAddress(x.insn)), true
	}
	text := x.formatted()
	var rex string
	if x.bits == 64 {
		rex = x.idleREX(stand.in(code[:n], e), addr, text)
	}
	if x.intel {
		i.Text = intel86(code[:n], rex, text, x.bits)
	} else {
		i.Text = gas(code[:n], rex, text, x.bits)
	}
	if other {
		i.Text = stand.show(i.Text)
		i.Bad = stand.op != ""
	}
	return i
}

// read decodes the instruction that begins code. It returns its length, or 0
// if there is none, or not the whole of it.
func (x *x86) read(code []byte, addr uint64) int {
	w := x.memory()[x.window:][:icedWindow]
	have := copy(w, code)
	clear(w[have:])
	decoder := x.decoder
	if encodingOf(code, x.bits).vector() {
		decoder = x.checked
	}
	x.m.Xdecoder_set_position(x.result, decoder, 0)
	x.m.Xdecoder_set_ip(decoder, int64(addr))
	x.m.Xdecoder_decodeOut(decoder, x.insn)
	n := int(x.m.Xinstruction_length(x.insn))
	invalid := x.m.Xinstruction_isInvalid(x.insn) != 0
	x.truncated = !invalid && n > have
	if invalid || x.truncated {
		return 0
	}
	return n
}

// formatted returns the text of the instruction that was decoded.
func (x *x86) formatted() string {
	x.m.Xformatter_format(x.result, x.format, x.insn)
	p, l := x.word(0), x.word(4)
	text := string(x.memory()[p : p+l])
	x.m.X__wbindgen_free(p, l, 1)
	return text
}

// idleREX returns the name of a REX prefix, if a bit of it means nothing to the
// instruction, which is text. Where that cannot be told from the encoding, the
// instruction is read without the bit.
func (x *x86) idleREX(code []byte, addr uint64, text string) string {
	e := encodingOf(code, 64)
	if e.rex == 0 || e.vector() {
		return ""
	}
	at := len(e.prefixes)
	if e.rex == 0x40 {
		if e.chooses() {
			return ""
		}
		without := append(bytes.Clone(code[:at]), code[at+1:]...)
		if x.read(without, addr+1) == len(without) && x.formatted() == text {
			return rexName(e.rex) + " "
		}
		return ""
	}
	for bit := byte(1); bit <= 8; bit <<= 1 {
		if e.rex&bit == 0 || e.usesREX(bit) {
			continue
		}
		without := bytes.Clone(code)
		without[at] &^= bit
		if x.read(without, addr) == len(code) && x.formatted() == text {
			return rexName(e.rex) + " "
		}
	}
	return ""
}

// icedHost stands for the JavaScript around the module. Nothing that is
// called here comes to it.
type icedHost struct{}

func (icedHost) X__wbg_instruction_new(int32) int32            { panic("iced: instruction_new") }
func (icedHost) X__wbg_new_34c624469fb1d4fd() int32            { panic("iced: new") }
func (icedHost) X__wbg_new_3a66822ed076951c(_, _ int32) int32  { panic("iced: new") }
func (icedHost) X__wbg_push_906164999551d793(_, _ int32) int32 { panic("iced: push") }
func (icedHost) X__wbg_usedmemory_new(int32) int32             { panic("iced: usedmemory_new") }
func (icedHost) X__wbg_usedregister_new(int32) int32           { panic("iced: usedregister_new") }
func (icedHost) X__wbindgen_object_drop_ref(int32)             { panic("iced: object_drop_ref") }
func (icedHost) X__wbindgen_throw(_, _ int32)                  { panic("iced: throw") }
