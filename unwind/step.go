package unwind

// A Walker walks stacks of one architecture. It keeps the rules it has met,
// and belongs to one goroutine.
type Walker struct {
	arch Arch
	spec *spec
	rows map[rowKey]found
}

type rowKey struct {
	m  *Module
	pc uint64
}

type found struct {
	row *row
	err error
}

// maxRows is how many rules a Walker keeps.
const maxRows = 1 << 18

// NewWalker returns a Walker for stacks of a, which must not be NoArch.
func NewWalker(a Arch) *Walker {
	return &Walker{arch: a, spec: a.spec(), rows: map[rowKey]found{}}
}

// Step replaces the registers of a frame by those of its caller. m is the
// module at r.PC, and off the place of r.PC in the space of
// profile.Location.Addr: a file offset. If r.PC is a return address,
// the rules are those of the call before it.
//
// If there is no caller the error says why, and r is undefined: ErrOutermost if
// that is how it should be. ErrNoRule may leave the way by frame pointers,
// see StepFP.
func (w *Walker) Step(m *Module, off uint64, r *Regs, mem *Stack) error {
	if m == nil || m.machine != w.spec.machine {
		return ErrNoRule
	}
	look := off
	if !r.Exact {
		look--
	}
	addr, ok := m.file.Address(look)
	if !ok {
		return ErrNoRule
	}
	row, err := w.row(m, addr)
	if err != nil {
		return err
	}
	bias := r.PC - addr
	if !r.Exact {
		bias--
	}
	return w.apply(m, row, r, mem, bias)
}

func (w *Walker) row(m *Module, addr uint64) (*row, error) {
	k := rowKey{m, addr}
	f, ok := w.rows[k]
	if !ok {
		if len(w.rows) >= maxRows {
			clear(w.rows)
		}
		f.row, f.err = m.row(addr)
		w.rows[k] = f
	}
	return f.row, f.err
}

// apply computes the registers of the caller.
func (w *Walker) apply(m *Module, row *row, r *Regs, mem *Stack, bias uint64) error {
	size := 8
	if w.arch.bits32() {
		size = 4
	}
	var cfa uint64
	if row.cfaExpr != nil {
		v, err := m.eval(row.cfaExpr, r, mem, bias, nil)
		if err != nil {
			return err
		}
		cfa = v
	} else {
		v, ok := r.Reg(row.cfaReg)
		if !ok {
			return ErrUnknown
		}
		cfa = v + uint64(row.cfaOff)
	}
	if size == 4 {
		cfa = uint64(uint32(cfa))
	}
	old := *r
	pc, pcOK := old.Reg(row.ra)
	r.set(w.spec.sp, cfa)
	for i := range row.rules {
		rule := &row.rules[i]
		v, ok, err := w.restore(m, rule, &old, mem, cfa, bias, size)
		if err != nil {
			return err
		}
		if uint64(rule.reg) == row.ra {
			if rule.kind == undefined {
				return ErrOutermost
			}
			if !ok && rule.kind == inMemory {
				return ErrMemory
			}
			pc, pcOK = v, ok
		}
		if ok {
			r.set(uint64(rule.reg), v)
		} else {
			r.forget(uint64(rule.reg))
		}
	}
	if !pcOK {
		return ErrUnknown
	}
	if row.signed && w.arch == ARM64 {
		pc &= 1<<48 - 1
	}
	sp, _ := r.Reg(w.spec.sp)
	if pc == 0 {
		return ErrOutermost
	}
	if oldSP, _ := old.Reg(w.spec.sp); pc == old.PC && sp == oldSP {
		return ErrLoop
	}
	r.PC, r.Exact = pc, row.signal
	return nil
}

// restore returns the value of a register of the caller; ok is false if it
// is not known.
func (w *Walker) restore(m *Module, rule *rule, old *Regs, mem *Stack, cfa, bias uint64, size int) (v uint64, ok bool, err error) {
	switch rule.kind {
	case same:
		v, ok = old.Reg(uint64(rule.reg))
	case inMemory:
		v, ok = mem.word(cfa+uint64(rule.off), size)
	case value:
		v, ok = cfa+uint64(rule.off), true
	case register:
		v, ok = old.Reg(uint64(rule.from))
	case atExpr, valueExpr:
		v, err = m.eval(rule.expr, old, mem, bias, &cfa)
		if err == ErrMemory || err == ErrUnknown {
			return 0, false, nil
		}
		ok = err == nil
		if ok && rule.kind == atExpr {
			v, ok = mem.word(v, size)
		}
	}
	return v, ok, err
}

// StepFP replaces the registers of a frame by those of its caller for code
// that keeps a frame pointer, as that of many run-time compilers, and has no
// rules: the frame pointer points to that of the caller and, next to it, the
// return address. The caller has to make sure that there is code there.
func (w *Walker) StepFP(r *Regs, mem *Stack) error {
	size := uint64(8)
	if w.arch.bits32() {
		size = 4
	}
	switch w.arch {
	case X86_64, I386, ARM64:
	default:
		return ErrNoRule // frames look otherwise
	}
	fp, ok := r.Reg(w.spec.fp)
	sp, ok2 := r.Reg(w.spec.sp)
	if !ok || !ok2 || fp < sp || fp%size != 0 {
		return ErrNoRule
	}
	next, ok := mem.word(fp, int(size))
	ret, ok2 := mem.word(fp+size, int(size))
	if !ok || !ok2 {
		return ErrMemory
	}
	if ret == 0 {
		return ErrOutermost
	}
	if next != 0 && next <= fp {
		return ErrNoRule // stacks grow down
	}
	caller := Regs{PC: ret}
	caller.set(w.spec.fp, next)
	caller.set(w.spec.sp, fp+2*size)
	*r = caller
	return nil
}
