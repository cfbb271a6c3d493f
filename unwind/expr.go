package unwind

import "github.com/perfark/perfark/objfile"

// Operations of DWARF expressions that call frame information uses (DWARF 5,
// 7.7.1).
const (
	opAddr       = 0x03
	opDeref      = 0x06
	opConst1u    = 0x08
	opConst1s    = 0x09
	opConst2u    = 0x0a
	opConst2s    = 0x0b
	opConst4u    = 0x0c
	opConst4s    = 0x0d
	opConst8u    = 0x0e
	opConst8s    = 0x0f
	opConstu     = 0x10
	opConsts     = 0x11
	opDup        = 0x12
	opDrop       = 0x13
	opOver       = 0x14
	opPick       = 0x15
	opSwap       = 0x16
	opRot        = 0x17
	opAbs        = 0x19
	opAnd        = 0x1a
	opDiv        = 0x1b
	opMinus      = 0x1c
	opMod        = 0x1d
	opMul        = 0x1e
	opNeg        = 0x1f
	opNot        = 0x20
	opOr         = 0x21
	opPlus       = 0x22
	opPlusUconst = 0x23
	opShl        = 0x24
	opShr        = 0x25
	opShra       = 0x26
	opXor        = 0x27
	opBra        = 0x28
	opEq         = 0x29
	opGe         = 0x2a
	opGt         = 0x2b
	opLe         = 0x2c
	opLt         = 0x2d
	opNe         = 0x2e
	opSkip       = 0x2f
	opLit0       = 0x30
	opBreg0      = 0x70
	opBregx      = 0x92
	opDerefSize  = 0x94
	opNop        = 0x96
)

const (
	maxStack = 64
	maxOps   = 1000
)

// eval computes an expression. bias is what the object was moved by; push, if
// it is not nil, is on the stack at the start.
func (m *Module) eval(expr []byte, regs *Regs, mem *Stack, bias uint64, push *uint64) (uint64, error) {
	var buf [maxStack]uint64
	st := buf[:0]
	if push != nil {
		st = append(st, *push)
	}
	addrSize := 4
	if m.wide {
		addrSize = 8
	}
	r := reader{data: expr, big: m.big}
	for n := 0; r.pos < len(expr); n++ {
		if n >= maxOps || r.bad || len(st) > maxStack-2 {
			return 0, ErrBadRule
		}
		op := r.u8()
		var v uint64
		switch {
		case op == opAddr:
			v = r.word(addrSize) + bias
		case op == opConst1u:
			v = uint64(r.u8())
		case op == opConst1s:
			v = uint64(int64(int8(r.u8())))
		case op == opConst2u:
			v = uint64(r.u16())
		case op == opConst2s:
			v = uint64(int64(int16(r.u16())))
		case op == opConst4u:
			v = uint64(r.u32())
		case op == opConst4s:
			v = uint64(int64(int32(r.u32())))
		case op == opConst8u, op == opConst8s:
			v = r.u64()
		case op == opConstu:
			v = r.uleb()
		case op == opConsts:
			v = uint64(r.sleb())
		case op >= opLit0 && op < opLit0+32:
			v = uint64(op - opLit0)
		case op >= opBreg0 && op < opBreg0+32, op == opBregx:
			reg := uint64(op - opBreg0)
			if op == opBregx {
				reg = r.uleb()
			}
			x, ok := regs.Reg(reg)
			if reg == m.pcReg() {
				x, ok = regs.PC, true
			}
			off := r.sleb()
			if !ok {
				return 0, ErrUnknown
			}
			v = x + uint64(off)
		default:
			var err error
			if st, err = m.operate(op, &r, st, mem, addrSize); err != nil {
				return 0, err
			}
			continue
		}
		st = append(st, v)
	}
	if r.bad || len(st) == 0 {
		return 0, ErrBadRule
	}
	v := st[len(st)-1]
	if addrSize == 4 {
		v = uint64(uint32(v))
	}
	return v, nil
}

// pcReg is the number under which expressions know the program counter: the
// rules of PLTs ask where in an entry it is. Behind all registers if they do
// not.
func (m *Module) pcReg() uint64 {
	switch m.machine {
	case objfile.MachineX86_64:
		return 16
	case objfile.Machine386:
		return 8
	}
	return maxRegs
}

// operate does an operation on the stack st.
func (m *Module) operate(op byte, r *reader, st []uint64, mem *Stack, addrSize int) ([]uint64, error) {
	need := 2
	switch op {
	case opNop, opSkip:
		need = 0
	case opDup, opDrop, opAbs, opNeg, opNot, opPlusUconst, opDeref, opDerefSize, opBra, opPick:
		need = 1
	case opRot:
		need = 3
	}
	if len(st) < need {
		return nil, ErrBadRule
	}
	top := len(st) - 1
	switch op {
	case opNop:
		return st, nil
	case opSkip, opBra:
		d := int(int16(r.u16()))
		if op == opBra {
			v := st[top]
			st = st[:top]
			if v == 0 {
				return st, nil
			}
		}
		if r.pos+d < 0 || r.pos+d > len(r.data) {
			return nil, ErrBadRule
		}
		r.pos += d
		return st, nil
	case opDup:
		return append(st, st[top]), nil
	case opDrop:
		return st[:top], nil
	case opOver:
		return append(st, st[top-1]), nil
	case opPick:
		i := int(r.u8())
		if i > top {
			return nil, ErrBadRule
		}
		return append(st, st[top-i]), nil
	case opSwap:
		st[top], st[top-1] = st[top-1], st[top]
		return st, nil
	case opRot:
		st[top], st[top-1], st[top-2] = st[top-1], st[top-2], st[top]
		return st, nil
	case opAbs:
		if int64(st[top]) < 0 {
			st[top] = -st[top]
		}
		return st, nil
	case opNeg:
		st[top] = -st[top]
		return st, nil
	case opNot:
		st[top] = ^st[top]
		return st, nil
	case opPlusUconst:
		st[top] += r.uleb()
		return st, nil
	case opDeref, opDerefSize:
		size := addrSize
		if op == opDerefSize {
			size = int(r.u8())
		}
		v, ok := mem.word(st[top], size)
		if !ok {
			return nil, ErrMemory
		}
		st[top] = v
		return st, nil
	}
	v, ok := binary2(op, st[top-1], st[top])
	if !ok {
		return nil, ErrBadRule
	}
	st[top-1] = v
	return st[:top], nil
}

// binary2 is an operation of two operands.
func binary2(op byte, a, b uint64) (uint64, bool) {
	truth := func(t bool) (uint64, bool) {
		if t {
			return 1, true
		}
		return 0, true
	}
	switch op {
	case opAnd:
		return a & b, true
	case opDiv:
		if b == 0 {
			return 0, false
		}
		return uint64(int64(a) / int64(b)), true
	case opMinus:
		return a - b, true
	case opMod:
		if b == 0 {
			return 0, false
		}
		return a % b, true
	case opMul:
		return a * b, true
	case opOr:
		return a | b, true
	case opPlus:
		return a + b, true
	case opShl:
		return a << min(b, 64), true
	case opShr:
		return a >> min(b, 64), true
	case opShra:
		return uint64(int64(a) >> min(b, 63)), true
	case opXor:
		return a ^ b, true
	case opEq:
		return truth(a == b)
	case opGe:
		return truth(int64(a) >= int64(b))
	case opGt:
		return truth(int64(a) > int64(b))
	case opLe:
		return truth(int64(a) <= int64(b))
	case opLt:
		return truth(int64(a) < int64(b))
	case opNe:
		return truth(a != b)
	}
	return 0, false
}
