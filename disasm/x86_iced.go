//go:build iced

package disasm

import (
	"encoding/binary"

	"github.com/perfark/perfark/disasm/iced"
)

// icedWindow is how many bytes the module sees at a time: more than the
// longest instruction has.
const icedWindow = 16

// What iced's Formatter and Instruction.flowControl take and return.
const (
	icedGas   = 0
	icedIntel = 1

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
	m       *iced.Module
	bits    int
	intel   bool
	result  int32 // where calls leave what they return
	window  int32
	insn    int32
	format  int32
	decoder int32
}

// newX86 returns a decoder of 32- or 64-bit code.
func newX86(bits int, intel bool) *Decoder {
	m := iced.New(icedHost{})
	x := &x86{m: m, bits: bits, intel: intel, result: m.X__wbindgen_malloc(64, 8), window: m.X__wbindgen_malloc(icedWindow, 1), insn: m.Xinstruction_new()}
	m.Xdecoder_new(x.result, int32(bits), x.window, icedWindow, 0)
	x.decoder = x.word(0)
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
	if x.bits == 64 && len(code) > 1 && isREX(code[0]) && (isREX(code[1]) || prefixNames[code[1]] != "") {
		return Inst{Len: 1, Text: rexName(code[0])} // without effect, as something comes between it and the operation
	}
	m := x.m
	w := x.memory()[x.window:][:icedWindow]
	have := copy(w, code)
	clear(w[have:])
	m.Xdecoder_set_position(x.result, x.decoder, 0)
	m.Xdecoder_set_ip(x.decoder, int64(addr))
	m.Xdecoder_decodeOut(x.decoder, x.insn)
	n := int(m.Xinstruction_length(x.insn))
	if m.Xinstruction_isInvalid(x.insn) != 0 || n > have {
		return badX86(code[:have], x.bits)
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
	m.Xformatter_format(x.result, x.format, x.insn)
	p, l := x.word(0), x.word(4)
	text := string(x.memory()[p : p+l])
	m.X__wbindgen_free(p, l, 1)
	if x.intel {
		i.Text = intel86(code[:n], text, x.bits)
	} else {
		i.Text = gas(code[:n], text, x.bits)
	}
	return i
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
