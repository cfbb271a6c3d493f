// Package unwind finds the callers of a frame from a copy of the registers and
// of the top of the stack, by the call frame information of the binaries: what
// .eh_frame and .debug_frame say about where each function keeps its return
// address and the registers of its caller.
//
// What goes in is an *objfile.File and a pair of Regs and Stack; what comes
// out are the Regs of the caller. Nothing is guessed: where there is no rule,
// or a value that a rule asks for was not recorded, the walk ends.
//
// The formats are those of DWARF 5, section 6.4, and of the Linux Standard
// Base, "Exception Frames"; numbers of registers are those of each
// architecture's psABI, and of perf_regs.h for what a recording holds.
package unwind

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

// maxRegs is the number of registers that rules can name; those beyond are
// ones of vectors, which no address is kept in.
const maxRegs = 72

// Regs are the registers of a frame, by their DWARF numbers.
type Regs struct {
	PC    uint64 // where the frame runs, or returns to
	Exact bool   // PC is an instruction that runs next, not one that a call returns to

	r     [maxRegs]uint64
	valid [2]uint64
}

// Reg returns the value of a register; ok is false if it is not known.
func (r *Regs) Reg(n uint64) (v uint64, ok bool) {
	if n >= maxRegs || r.valid[n/64]>>(n%64)&1 == 0 {
		return 0, false
	}
	return r.r[n], true
}

func (r *Regs) set(n, v uint64) {
	if n < maxRegs {
		r.r[n] = v
		r.valid[n/64] |= 1 << (n % 64)
	}
}

func (r *Regs) forget(n uint64) {
	if n < maxRegs {
		r.valid[n/64] &^= 1 << (n % 64)
	}
}

// A Stack is a copy of memory: Data stood at Base.
type Stack struct {
	Base uint64
	Data []byte
	Big  bool
}

// word reads size bytes (1, 2, 4 or 8) at addr.
func (s *Stack) word(addr uint64, size int) (uint64, bool) {
	off := addr - s.Base
	if addr < s.Base || off > uint64(len(s.Data)) || uint64(len(s.Data))-off < uint64(size) {
		return 0, false
	}
	b := s.Data[off : off+uint64(size)]
	var o binary.ByteOrder = binary.LittleEndian
	if s.Big {
		o = binary.BigEndian
	}
	switch size {
	case 1:
		return uint64(b[0]), true
	case 2:
		return uint64(o.Uint16(b)), true
	case 4:
		return uint64(o.Uint32(b)), true
	case 8:
		return o.Uint64(b), true
	}
	return 0, false
}

// Why a walk ends.
var (
	ErrOutermost = errors.New("unwind: the outermost frame")                       // as the rules say
	ErrNoRule    = errors.New("unwind: no call frame information for the address") // see Step
	ErrMemory    = errors.New("unwind: beyond what was recorded of the stack")
	ErrUnknown   = errors.New("unwind: a register that was not recorded")
	ErrLoop      = errors.New("unwind: the frame is its own caller")
	ErrBadRule   = errors.New("unwind: malformed call frame information")
)

// Load sets r from the registers of a sample: values in the order of the bits
// of mask (attr.sample_regs_user), which are numbered as in the kernel's
// perf_regs.h of the architecture. It reports false if there is no program
// counter or no stack pointer.
func (a Arch) Load(r *Regs, mask uint64, values []uint64) bool {
	*r = Regs{Exact: true}
	spec := a.spec()
	if spec == nil {
		return false
	}
	havePC := false
	for _, v := range values {
		if mask == 0 {
			break
		}
		bit := bits.TrailingZeros64(mask)
		mask &= mask - 1
		if a.bits32() {
			v = uint64(uint32(v))
		}
		if bit == spec.perfPC {
			r.PC, havePC = v, true
			if spec.ra == spec.dwarf(bit) {
				continue // the column of the return address is no register
			}
		}
		if n := spec.dwarf(bit); n >= 0 {
			r.set(uint64(n), v)
		}
	}
	_, haveSP := r.Reg(spec.sp)
	return havePC && haveSP
}

// SP returns the stack pointer of r.
func (a Arch) SP(r *Regs) uint64 {
	if spec := a.spec(); spec != nil {
		sp, _ := r.Reg(spec.sp)
		return sp
	}
	return 0
}
