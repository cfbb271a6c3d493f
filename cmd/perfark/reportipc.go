package main

import (
	"context"

	"github.com/perfark/perfark/annotate"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/report"
	"github.com/perfark/perfark/symbol"
)

// functionTimings finds out how fast the functions in the branch stacks of a
// profile with names were, for the key ipc_lbr. Functions whose code is not to
// be had are left out: annotate says why.
func (c *reportCmd) functionTimings(ctx context.Context, in *input, p *profile.Profile, names symbol.Options) map[report.Function]*annotate.Timing {
	out := map[report.Function]*annotate.Timing{}
	if !allBranches(in.Events()) {
		return out
	}
	names.Index, names.Limits, names.BPFCode = c.indexes(), c.limits, in.bpfCode()
	cycles := annotate.NewCycles(p)
	var code *annotate.Code
	object := int32(profile.None)
	for _, f := range cycles.Functions() {
		if ctx.Err() != nil {
			break
		}
		if f.Object != object {
			if code != nil {
				code.Close()
			}
			object = f.Object
			code, _ = annotate.Open(ctx, p, object, annotate.Options{Symbol: names})
		}
		if code == nil {
			continue
		}
		fn := &annotate.Function{Object: f.Object, Func: profile.Function{Object: f.Object, Start: f.Start, End: f.Stop}, Total: make([]annotate.Count, len(p.Events))}
		if t, err := code.Timing(ctx, fn, cycles); err == nil && t != nil {
			out[f] = t
		}
	}
	if code != nil {
		code.Close()
	}
	return out
}
