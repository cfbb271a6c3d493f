// Package disasm turns machine code into instructions, in the words and the
// layout of GNU objdump.
package disasm

import (
	"errors"
	"fmt"

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
	// objdump prints it behind a "#".
	Data    uint64
	HasData bool
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
		text += fmt.Sprintf("        # %x", i.Data)
		if name := symbol(i.Data); name != "" {
			text += " <" + name + ">"
		}
	}
	return text + i.Comment
}

// Options say how instructions are written.
type Options struct {
	Intel bool // x86: Intel's syntax, not that of AT&T
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
	switch m {
	case objfile.MachineX86_64, objfile.Machine386:
		return newX86(bits, o.Intel), nil
	case objfile.MachineAArch64:
		return &Decoder{decode: arm64}, nil
	}
	return nil, fmt.Errorf("machine %d: %w", m, ErrMachine)
}

// Decode reads the instruction at the start of code, which is at addr. The
// code may be that of many instructions; if it is empty, the result is zero.
func (d *Decoder) Decode(code []byte, addr uint64) Inst {
	if len(code) == 0 {
		return Inst{}
	}
	i := d.decode(code, addr)
	i.Len = min(max(i.Len, 1), len(code))
	return i
}

// Notice says what this decoder lacks, or nothing.
func (d *Decoder) Notice() string { return d.notice }
