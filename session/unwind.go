package session

import (
	"encoding/binary"
	"sync"

	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/unwind"
)

// maxUnwound is the most frames that are found on one stack.
const maxUnwound = 1024

// An unwinder finds the frames of a sample's user space in the copy of its
// stack, for recordings made with --call-graph dwarf.
type unwinder struct {
	machine string // as the recording names it
	module  func(*profile.Object) *unwind.Module
	once    []sync.Once // by object
	modules []*unwind.Module
}

func newUnwinder(l *loader) *unwinder {
	machine := l.f.Arch()
	n := len(l.objects.table)
	return &unwinder{machine: machine, module: l.o.Unwind, once: make([]sync.Once, n), modules: make([]*unwind.Module, n)}
}

// of returns the rules of an object, nil if there are none.
func (u *unwinder) of(l *loader, object int32) *unwind.Module {
	u.once[object].Do(func() {
		o := &l.objects.table[object]
		switch o.Kind {
		case profile.KindFile, profile.KindVDSO:
			u.modules[object] = u.module(o)
		}
	})
	return u.modules[object]
}

// unwound returns the call chain of the current sample: the kernel's part, as
// recorded, and the frames of its user space, as unwound. As in the chains of
// perf, an address that a call returns to is told by that of the call's last
// byte. The result is valid until the next sample.
func (w *worker) unwound(f *frames) []byte {
	u, s := w.l.unwinder, w.s
	arch := unwind.ArchOf(u.machine, s.UserABI)
	if arch == unwind.NoArch || s.UserABI == unwind.ABINone {
		return w.cur.chain
	}
	var regs unwind.Regs
	if !arch.Load(&regs, w.l.f.Events()[s.Event].Attr.SampleRegsUser, s.UserRegs) {
		return w.cur.chain
	}
	if w.walker == nil || w.walkerArch != arch {
		w.walker, w.walkerArch = unwind.NewWalker(arch), arch
	}
	out := kernelPart(w.unwoundBuf[:0], w.cur.chain, w.l.o.MaxUnwound)
	out = binary.LittleEndian.AppendUint64(out, perfdata.ContextUser)
	stack := unwind.Stack{Base: arch.SP(&regs), Data: s.UserStack, Big: w.l.f.Header().Big}
	limit := maxUnwound
	if n := w.l.o.MaxUnwound; n > 0 {
		limit = min(n, limit)
	}
	for range limit {
		ip := regs.PC
		if !regs.Exact {
			ip--
		}
		e := w.find(f.user, ip)
		if ip >= perfdata.MaxContext || !regs.Exact && e.mapping == none {
			break // no code is there: a rule or a register was wrong
		}
		out = binary.LittleEndian.AppendUint64(out, ip)
		if e.mapping == none {
			break
		}
		if !w.step(u, e, &regs, &stack) {
			break
		}
	}
	w.unwoundBuf = out
	return out
}

// step goes to the caller of a frame in the mapping of e.
func (w *worker) step(u *unwinder, e *rangeEntry, regs *unwind.Regs, stack *unwind.Stack) bool {
	m := &w.l.atlas.maps[e.mapping]
	var module *unwind.Module
	if m.object != none && !m.identity {
		module = u.of(w.l, m.object)
	}
	err := w.walker.Step(module, m.addr(regs.PC), regs, stack)
	made := m.object == none || m.identity || w.l.objects.table[m.object].Kind == profile.KindJIT
	if err == unwind.ErrNoRule && (module != nil || made) {
		// Code made at run time, or by hand. What a file that could not be had
		// does with the frame pointer nobody knows.
		err = w.walker.StepFP(regs, stack)
	}
	return err == nil
}

// kernelPart appends what a call chain has before the frames of user space, at
// most limit addresses unless that is 0.
func kernelPart(out, chain []byte, limit int) []byte {
	user, n := false, 0
	for i := 0; i+8 <= len(chain); i += 8 {
		ip := binary.LittleEndian.Uint64(chain[i:])
		if ip >= perfdata.MaxContext {
			m, ok := contextMode(ip)
			user = ok && m == modeUser || ip == perfdata.ContextUserDefer
		}
		if ip < perfdata.MaxContext {
			n++
		}
		if user || limit > 0 && n > limit {
			break
		}
		out = append(out, chain[i:i+8]...)
	}
	return out
}
