package main

import (
	"context"
	"sync"

	"github.com/perfark/perfark/annotate"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/report"
	"github.com/perfark/perfark/symbol"
)

// A functionTimer finds out how fast functions were, for the key ipc_lbr.
type functionTimer struct {
	ctx    context.Context
	p      *profile.Profile
	o      annotate.Options
	cycles *annotate.Cycles

	mu    sync.Mutex
	done  map[report.Function][2]float64
	codes map[int32]*annotate.Code // nil: the object has no code
}

// timer returns a timer for the branch stacks of a profile with names. The
// context is that of the report that it is for.
func (c *reportCmd) timer(ctx context.Context, in *input, p *profile.Profile, names symbol.Options) *functionTimer {
	names.Index, names.Limits, names.BPFCode = c.indexes(), c.limits, in.bpfCode()
	t := &functionTimer{
		ctx: ctx, p: p, o: annotate.Options{Symbol: names},
		done: map[report.Function][2]float64{}, codes: map[int32]*annotate.Code{},
	}
	if allBranches(in.Events()) {
		t.cycles = annotate.NewCycles(p)
	}
	return t
}

// of is report.Options.Timing.
func (t *functionTimer) of(f report.Function) (ipc, coverage float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v, ok := t.done[f]; ok {
		return v[0], v[1]
	}
	if x := t.timing(f); x != nil {
		ipc, coverage = x.IPC, x.Coverage
	}
	t.done[f] = [2]float64{ipc, coverage}
	return ipc, coverage
}

// timing returns how fast a function was; nil if that is not known.
func (t *functionTimer) timing(f report.Function) *annotate.Timing {
	if t.cycles == nil || f.Object < 0 {
		return nil
	}
	code, ok := t.codes[f.Object]
	if !ok {
		code, _ = annotate.Open(t.ctx, t.p, f.Object, t.o) // else nothing is known: annotate says why
		t.codes[f.Object] = code
	}
	if code == nil {
		return nil
	}
	fn := &annotate.Function{Object: f.Object, Func: profile.Function{Object: f.Object, Start: f.Start, End: f.Stop}, Total: make([]annotate.Count, len(t.p.Events))}
	x, _ := code.Timing(t.ctx, fn, t.cycles)
	return x
}

// close closes the files of code.
func (t *functionTimer) close() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for object, code := range t.codes {
		if code != nil {
			code.Close()
		}
		delete(t.codes, object)
	}
}
