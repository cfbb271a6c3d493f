// Package disasm turns machine code into instructions, in the words and the
// layout of GNU objdump.
package disasm

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/perfark/perfark/objfile"
)

// ErrMachine is the error, wrapped, for a machine whose code cannot be read.
var ErrMachine = errors.New("no disassembler for this machine")

// Kind is what an instruction does to the flow of control.
type Kind uint8

// Kinds of instructions.
const (
	Plain  Kind = iota // the next instruction follows
	Jump               // goes elsewhere
	Branch             // may go elsewhere
	Call
	Return
)

// Inst is one instruction.
type Inst struct {
	Len  int    // in bytes, at least 1 for any code that is not empty
	Text string // operation and operands as objdump prints them, without symbols
	Kind Kind
	Bad  bool // no instruction: Text says so
	// Target is where a Jump, Branch or Call goes, if the instruction itself
	// says it.
	Target    uint64
	HasTarget bool
	// Data is the address of an operand in memory relative to the instruction;
	// objdump prints it behind a "#", with Gap blanks before; 0: 8.
	Data    uint64
	HasData bool
	Gap     int
	Comment string // what objdump says behind it all
}

// Format returns the text of an instruction with the names of addresses as
// objdump prints them. symbol returns a name like "main+0x10", or "".
func (i Inst) Format(symbol func(uint64) string) string {
	text := i.Text
	if i.HasTarget {
		if name := symbol(i.Target); name != "" {
			text += " <" + name + ">"
		}
	}
	if i.HasData {
		text += fmt.Sprintf("%*s# %x", cmp.Or(i.Gap, 8), "", i.Data)
		if name := symbol(i.Data); name != "" {
			text += " <" + name + ">"
		}
	}
	return text + i.Comment
}

// Options say how instructions are written.
type Options struct {
	Intel bool // x86: Intel's syntax, not that of AT&T
	Thumb bool // ARM: the code is Thumb
	Big   bool // the code is of a machine with the most significant byte first
}

// Decoder reads the code of one machine. It is not for several goroutines at
// a time.
type Decoder struct {
	decode func(code []byte, addr uint64) Inst
	notice string
}

// New returns a decoder for the code of a machine; bits is 32 or 64. The
// error wraps ErrMachine.
func New(m objfile.Machine, bits int, o Options) (*Decoder, error) {
	var order binary.ByteOrder = binary.LittleEndian
	if o.Big {
		order = binary.BigEndian
	}
	switch m {
	case objfile.MachineX86_64, objfile.Machine386:
		return newX86(bits, o.Intel), nil
	case objfile.MachineAArch64:
		return &Decoder{decode: arm64}, nil
	case objfile.MachinePPC64:
		return &Decoder{decode: ppc64(order)}, nil
	case objfile.MachineS390:
		return &Decoder{decode: s390x}, nil
	case objfile.MachineRISCV:
		if bits == 64 {
			return &Decoder{decode: riscv64()}, nil
		}
	case objfile.MachineLoong:
		if bits == 64 {
			return &Decoder{decode: loong64}, nil
		}
	case objfile.MachineARM:
		if o.Thumb {
			return &Decoder{decode: thumb(order), notice: "Thumb code is shown as numbers: --objdump=PATH, of a GNU objdump for ARM, reads it"}, nil
		}
		return &Decoder{decode: arm(o.Big)}, nil
	}
	return nil, fmt.Errorf("machine %d: %w", m, ErrMachine)
}

// Decode reads the instruction at the start of code, which is at addr. The
// code may be that of many instructions; if it is empty, the result is zero.
func (d *Decoder) Decode(code []byte, addr uint64) Inst {
	if len(code) == 0 {
		return Inst{}
	}
	i := d.guarded(code, addr)
	i.Len = min(max(i.Len, 1), len(code))
	return i
}

// guarded is decode. The decoders of other modules are not made for hostile
// code: what they cannot stand is no instruction.
func (d *Decoder) guarded(code []byte, addr uint64) (i Inst) {
	defer func() {
		if recover() != nil {
			i = Inst{Len: 1, Text: ".byte\t" + hexBytes(code[:1]), Bad: true}
		}
	}()
	return d.decode(code, addr)
}

// Notice says what this decoder lacks, or nothing.
func (d *Decoder) Notice() string { return d.notice }

// Parse reads an instruction as objdump prints it, without symbols: what it
// does to the flow of control, and its target if that is the last operand.
func Parse(m objfile.Machine, text string) Inst {
	i := Inst{}
	if before, comment, ok := strings.Cut(text, "# 0x"); ok {
		if n, err := strconv.ParseUint(comment, 16, 64); err == nil {
			i.Data, i.HasData = n, true
			text = strings.TrimRight(before, " \t")
		}
	}
	i.Text = text
	op, args, _ := strings.Cut(strings.ReplaceAll(text, "\t", " "), " ")
	if i.Kind = kindOf(m, op); i.Kind == Plain || i.Kind == Return {
		return i
	}
	args = args[strings.LastIndexAny(args, ", ")+1:]
	if n, err := strconv.ParseUint(strings.TrimPrefix(args, "0x"), 16, 64); err == nil {
		i.Target, i.HasTarget = n, true
		i.Text = strings.TrimSuffix(text, args) + strconv.FormatUint(n, 16)
	}
	return i
}

// kindOf tells from the name of an operation what it does.
func kindOf(m objfile.Machine, op string) Kind {
	has := func(names ...string) bool { return slices.Contains(names, op) }
	begins := func(names ...string) bool {
		return slices.ContainsFunc(names, func(s string) bool { return strings.HasPrefix(op, s) })
	}
	switch m {
	case objfile.MachineX86_64, objfile.Machine386:
		switch {
		case begins("call", "lcall"):
			return Call
		case begins("jmp", "ljmp"):
			return Jump
		case begins("j", "loop"):
			return Branch
		case begins("ret", "lret", "iret", "sysret"):
			return Return
		}
	case objfile.MachineAArch64, objfile.MachineARM:
		switch {
		case has("ret", "eret", "retaa", "retab"):
			return Return
		case has("bl", "blr", "blx"):
			return Call
		case has("b", "br", "bx", "b.n", "b.w"):
			return Jump
		case m == objfile.MachineAArch64 && (begins("b.") || has("cbz", "cbnz", "tbz", "tbnz")),
			m == objfile.MachineARM && (has("cbz", "cbnz") || len(op) >= 3 && op[0] == 'b' && strings.Contains("eq ne cs cc mi pl vs vc hi ls ge lt gt le", strings.TrimSuffix(strings.TrimSuffix(op[1:], ".n"), ".w"))):
			return Branch
		}
	case objfile.MachineRISCV, objfile.MachineLoong:
		switch {
		case has("ret"):
			return Return
		case has("jal", "jalr", "call", "bl", "c.jal", "c.jalr"):
			return Call
		case has("j", "jr", "b", "tail", "c.j", "c.jr"):
			return Jump
		case begins("b", "c.b"):
			return Branch
		}
	case objfile.MachineMIPS:
		switch {
		case begins("jal", "bal", "bgezal", "bltzal"):
			return Call
		case has("j", "b", "jr", "bc"):
			return Jump
		case begins("b"):
			return Branch
		}
	case objfile.MachinePPC, objfile.MachinePPC64:
		switch {
		case begins("blr", "bclr", "rfi"):
			return Return
		case has("bl", "bla", "bctrl", "bcl"):
			return Call
		case has("b", "ba", "bctr"):
			return Jump
		case begins("b") && !begins("brinc", "bpermd", "brd", "brh", "brw"):
			return Branch
		}
	case objfile.MachineS390:
		switch {
		case begins("bras", "bas", "bal"):
			return Call
		case has("j", "jg", "br", "b"):
			return Jump
		case begins("j", "br", "cgij", "cgrj", "crj", "cij", "clgij", "clgrj", "clij", "clrj"):
			return Branch
		}
	case objfile.MachineSPARC, objfile.MachineSPARC64:
		switch {
		case has("call"):
			return Call
		case has("ret", "retl", "return"):
			return Return
		case has("b", "ba", "jmp"):
			return Jump
		case begins("b", "fb"):
			return Branch
		}
	}
	return Plain
}
