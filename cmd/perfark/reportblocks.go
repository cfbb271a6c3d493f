package main

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/spf13/pflag"

	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/report"
	"github.com/perfark/perfark/symbol"
)

// addBlockFlags binds what report has of blocks of code.
func (c *reportCmd) addBlockFlags(fs *pflag.FlagSet) {
	addSwitch(fs, &c.totalCycles, "total-cycles", "", false, "show the blocks of code that took the most cycles (of perf record -b, where the processor counts them)")
}

// branchAny is the bit of branch_sample_type that asks for all branches
// (PERF_SAMPLE_BRANCH_ANY).
const branchAny = 1 << 3

// allBranches reports whether branch stacks have all branches, so that code
// between two entries was gone through in a straight line.
func allBranches(events []perfdata.Event) bool {
	return slices.ContainsFunc(events, func(e perfdata.Event) bool { return e.Attr.BranchSampleType&branchAny != 0 })
}

// blockTable finds the blocks of code of a profile of branches, and their
// lines.
func (c *reportCmd) blockTable(ctx context.Context, in *input, p *profile.Profile, o symbol.Options) (*report.BlockTable, error) {
	all := func(*profile.Stretch) bool { return true }
	bt := &report.BlockTable{Blocks: report.Blocks(p, all, allBranches(in.Events()))}
	for i := range p.Stretches {
		bt.Total += p.Stretches[i].Cycles
	}
	// Lines are those of addresses that need not be in the recording, such as
	// where a function begins: of a profile of their own.
	q := &profile.Profile{Events: make([]profile.Event, 1), Objects: slices.Clone(p.Objects)}
	type place struct {
		object int32
		addr   uint64
	}
	at := map[place]int32{}
	add := func(b *report.Block, addr uint64) {
		k := place{b.Object, addr}
		if _, ok := at[k]; ok || b.Object < 0 {
			return
		}
		at[k] = q.AddAddress(b.Object, addr)
	}
	for i := range bt.Blocks {
		b := &bt.Blocks[i]
		add(b, b.Start)
		add(b, b.End)
		if b.Known {
			add(b, b.Begin)
		}
	}
	o.Lines, o.Inlines = true, false
	if _, err := symbol.Resolve(ctx, q, o); err != nil {
		return nil, err
	}
	lines := make([]string, len(q.Locations))
	known := make([]bool, len(q.Objects)) // objects with lines
	for i := range q.Locations {
		l := &q.Locations[i]
		if l.NFrames == 0 {
			continue
		}
		if f := &q.Frames[l.Frames]; f.File != profile.None && f.Line > 0 {
			file := q.Files[f.File]
			if !c.fullSource {
				file = path.Base(file)
			}
			lines[i], known[l.Object] = fmt.Sprintf("%s:%d", file, f.Line), true
		}
	}
	bt.Line = func(f report.Function, addr uint64) string {
		i, ok := at[place{f.Object, addr}]
		switch {
		case !ok || !known[f.Object]:
			return ""
		case lines[i] != "":
			return lines[i]
		case q.Locations[i].Func == profile.None:
			return ""
		}
		return fmt.Sprintf("%s+%d", q.Functions[q.Locations[i].Func].Name, addr-f.Start)
	}
	return bt, nil
}
