package disasm

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// data is code that is no instruction, or none that the library knows.
func data(code []byte, n int, directive string, order binary.ByteOrder) Inst {
	if len(code) < n {
		return Inst{Len: len(code), Text: ".byte\t" + hexBytes(code), Bad: true}
	}
	i := Inst{Len: n, Bad: true}
	switch n {
	case 2:
		i.Text = fmt.Sprintf("%s\t0x%04x", directive, order.Uint16(code))
	case 4:
		i.Text = fmt.Sprintf("%s\t0x%08x", directive, order.Uint32(code))
	default:
		i.Text = directive + "\t" + hexBytes(code[:n])
	}
	return i
}

// column puts the operands of an instruction in objdump's column, behind a
// blank or a tab.
func column(op, args string, width int) string {
	if args == "" {
		return op
	}
	if width == 0 {
		return op + "\t" + args
	}
	return fmt.Sprintf("%-*s %s", width, op, args)
}

// parts splits an instruction in its operation and its operands.
func parts(text string) (op, args string) {
	op, args, _ = strings.Cut(text, " ")
	return op, strings.TrimSpace(args)
}

// target gives an instruction the address that it goes to, and the text of it
// as its last operand.
func (i *Inst) target(op, args string, to uint64, width int) {
	i.Target, i.HasTarget = to, true
	i.Text = column(op, args[:strings.LastIndexAny(args, ", ")+1]+strconv.FormatUint(to, 16), width)
}
