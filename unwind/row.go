package unwind

// Instructions of call frame information (DWARF 5, 7.24; GNU and AArch64
// extensions).
const (
	cfaAdvanceLoc        = 0x40
	cfaOffset            = 0x80
	cfaRestore           = 0xc0
	cfaNop               = 0x00
	cfaSetLoc            = 0x01
	cfaAdvanceLoc1       = 0x02
	cfaAdvanceLoc2       = 0x03
	cfaAdvanceLoc4       = 0x04
	cfaOffsetExtended    = 0x05
	cfaRestoreExtended   = 0x06
	cfaUndefined         = 0x07
	cfaSameValue         = 0x08
	cfaRegister          = 0x09
	cfaRememberState     = 0x0a
	cfaRestoreState      = 0x0b
	cfaDefCFA            = 0x0c
	cfaDefCFARegister    = 0x0d
	cfaDefCFAOffset      = 0x0e
	cfaDefCFAExpression  = 0x0f
	cfaExpression        = 0x10
	cfaOffsetExtendedSF  = 0x11
	cfaDefCFASF          = 0x12
	cfaDefCFAOffsetSF    = 0x13
	cfaValOffset         = 0x14
	cfaValOffsetSF       = 0x15
	cfaValExpression     = 0x16
	cfaMIPSAdvanceLoc8   = 0x1d
	cfaNegateRAState     = 0x2d // DW_CFA_AARCH64_negate_ra_state, DW_CFA_GNU_window_save
	cfaGNUArgsSize       = 0x2e
	cfaGNUNegativeOffset = 0x2f
)

// A kind says how the value of a register of the caller is had.
type kind uint8

const (
	same      kind = iota // it is what it is in this frame
	undefined             // it is lost
	inMemory              // at CFA + off
	value                 // CFA + off
	register              // in another register of this frame
	atExpr                // at the address that an expression gives
	valueExpr             // the value of an expression
)

// A rule is how one register of the caller is had.
type rule struct {
	reg  uint8
	kind kind
	from uint8
	off  int64
	expr []byte
}

// A row is the rules at one address.
type row struct {
	cfaReg  uint64
	cfaOff  int64
	cfaExpr []byte // if not nil, instead of the two above
	rules   []rule // of the registers that are not the same
	ra      uint64
	signal  bool
	signed  bool // the return address has a pointer authentication code
	defined bool // there is a rule for the CFA
}

func (w *row) rule(reg uint64) *rule {
	for i := range w.rules {
		if uint64(w.rules[i].reg) == reg {
			return &w.rules[i]
		}
	}
	return nil
}

// put sets the rule of a register.
func (w *row) put(reg uint64, r rule) {
	if reg >= maxRegs {
		return
	}
	r.reg = uint8(reg)
	if old := w.rule(reg); old != nil {
		*old = r
		return
	}
	w.rules = append(w.rules, r)
}

// drop lets a register have no rule.
func (w *row) drop(reg uint64) {
	for i := range w.rules {
		if uint64(w.rules[i].reg) == reg {
			w.rules = append(w.rules[:i], w.rules[i+1:]...)
			return
		}
	}
}

func (w *row) clone() row {
	c := *w
	c.rules = append([]rule(nil), w.rules...)
	return c
}

// maxRemember is how many states a program may keep for later.
const maxRemember = 16

// row runs the programs for the code at pc, an address as linked.
func (m *Module) row(pc uint64) (*row, error) {
	e := m.find(pc)
	if e == nil {
		return nil, ErrNoRule
	}
	c, prog, ok := m.program(e)
	if !ok {
		return nil, ErrBadRule
	}
	if err := m.budget.Step(int64(len(c.program)+len(prog)), "call frame information"); err != nil {
		return nil, err
	}
	x := execution{m: m, c: c, loc: e.start, pc: ^uint64(0), space: &m.spaces[e.space]}
	if !x.run(c.program) {
		return nil, ErrBadRule
	}
	x.initial = x.row.clone()
	x.pc = pc
	if !x.run(prog) {
		return nil, ErrBadRule
	}
	x.row.ra, x.row.signal = c.ra, c.signal
	if !x.row.defined {
		return nil, ErrBadRule
	}
	return &x.row, nil
}

// An execution is a run of the program of a CIE, or of an FDE.
type execution struct {
	m       *Module
	c       *cie
	space   *space
	loc, pc uint64 // where the row begins; what is looked for
	row     row
	initial row
	stack   []row
}

// run executes instructions until one moves beyond pc.
func (x *execution) run(prog []byte) bool {
	r := reader{data: prog, big: x.m.big}
	w := &x.row
	scaled := func(n int64) int64 { return n * x.c.dataAlign }
	for r.pos < len(prog) && !r.bad {
		op := r.u8()
		arg := uint64(op & 0x3f)
		step := uint64(0)
		switch op & 0xc0 {
		case cfaAdvanceLoc:
			step, op = arg, cfaNop
		case cfaOffset:
			w.put(arg, rule{kind: inMemory, off: scaled(int64(r.uleb()))})
			continue
		case cfaRestore:
			x.restore(arg)
			continue
		}
		switch op {
		case cfaNop:
		case cfaSetLoc:
			loc, ok := r.encoded(x.c.fde, x.c.addrSize, x.space)
			if !ok {
				return false
			}
			if loc > x.pc {
				return true
			}
			x.loc = loc
		case cfaAdvanceLoc1:
			step = uint64(r.u8())
		case cfaAdvanceLoc2:
			step = uint64(r.u16())
		case cfaAdvanceLoc4:
			step = uint64(r.u32())
		case cfaMIPSAdvanceLoc8:
			step = r.u64()
		case cfaOffsetExtended:
			reg := r.uleb()
			w.put(reg, rule{kind: inMemory, off: scaled(int64(r.uleb()))})
		case cfaOffsetExtendedSF:
			reg := r.uleb()
			w.put(reg, rule{kind: inMemory, off: scaled(r.sleb())})
		case cfaGNUNegativeOffset:
			reg := r.uleb()
			w.put(reg, rule{kind: inMemory, off: -scaled(int64(r.uleb()))})
		case cfaValOffset:
			reg := r.uleb()
			w.put(reg, rule{kind: value, off: scaled(int64(r.uleb()))})
		case cfaValOffsetSF:
			reg := r.uleb()
			w.put(reg, rule{kind: value, off: scaled(r.sleb())})
		case cfaRestoreExtended:
			x.restore(r.uleb())
		case cfaUndefined:
			w.put(r.uleb(), rule{kind: undefined})
		case cfaSameValue:
			w.put(r.uleb(), rule{kind: same})
		case cfaRegister:
			reg, from := r.uleb(), r.uleb()
			if from >= maxRegs {
				w.put(reg, rule{kind: undefined})
				break
			}
			w.put(reg, rule{kind: register, from: uint8(from)})
		case cfaRememberState:
			if len(x.stack) >= maxRemember {
				return false
			}
			x.stack = append(x.stack, w.clone())
		case cfaRestoreState:
			if len(x.stack) == 0 {
				return false
			}
			*w = x.stack[len(x.stack)-1]
			x.stack = x.stack[:len(x.stack)-1]
		case cfaDefCFA:
			w.cfaReg, w.cfaOff, w.cfaExpr, w.defined = r.uleb(), int64(r.uleb()), nil, true
		case cfaDefCFASF:
			w.cfaReg, w.cfaOff, w.cfaExpr, w.defined = r.uleb(), scaled(r.sleb()), nil, true
		case cfaDefCFARegister:
			w.cfaReg, w.cfaExpr, w.defined = r.uleb(), nil, true
		case cfaDefCFAOffset:
			w.cfaOff = int64(r.uleb())
		case cfaDefCFAOffsetSF:
			w.cfaOff = scaled(r.sleb())
		case cfaDefCFAExpression:
			w.cfaExpr, w.defined = r.take64(r.uleb()), true
		case cfaExpression:
			reg := r.uleb()
			w.put(reg, rule{kind: atExpr, expr: r.take64(r.uleb())})
		case cfaValExpression:
			reg := r.uleb()
			w.put(reg, rule{kind: valueExpr, expr: r.take64(r.uleb())})
		case cfaGNUArgsSize:
			r.uleb()
		case cfaNegateRAState:
			w.signed = !w.signed
		default:
			return false
		}
		if step != 0 {
			step *= x.c.codeAlign
			if x.loc+step > x.pc || x.loc+step < x.loc {
				return true
			}
			x.loc += step
		}
	}
	return !r.bad
}

// restore gives a register the rule it has in the CIE.
func (x *execution) restore(reg uint64) {
	if old := x.initial.rule(reg); old != nil {
		x.row.put(reg, *old)
		return
	}
	x.row.drop(reg)
}

func (r *reader) take64(n uint64) []byte {
	if n > uint64(len(r.data)-r.pos) {
		r.bad = true
		return nil
	}
	return r.take(int(n))
}
