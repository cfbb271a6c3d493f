package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/report"
	"github.com/perfark/perfark/session"
	"github.com/perfark/perfark/symbol"
)

// explain says on standard error what could not be named and why, by object,
// most samples first, and what the kernel lost.
func (c *reportCmd) explain(in *input, res *session.Result, out *symbol.Outcome) {
	missing := out.Missing()
	const most = 5
	for i := range missing {
		if i == most && c.verbose == 0 {
			c.notef("and %s more (-v lists them)", count(len(missing)-most, "object"))
			break
		}
		c.notef("unnamed: %s", unnamedText(res.Profile, &missing[i]))
		if missing[i].Hint != "" && c.verbose > 0 {
			c.hintf("%s", missing[i].Hint)
		}
	}
	c.explainLines(res.Profile, out, c.lines)
	for i := range out.Objects {
		x := &out.Objects[i]
		if x.Unverified && x.FramesNamed > 0 {
			c.notef("unverified: %s: no build id in the recording ties it to %s", objectText(res.Profile, x.Object), strings.Join(x.Origins, ", "))
		}
		if c.verbose > 0 && len(x.Origins) > 0 {
			c.verbosef("%s: names from %s", objectText(res.Profile, x.Object), strings.Join(x.Origins, ", "))
		}
		if c.verbose > 0 {
			for _, w := range x.Warnings {
				c.verbosef("%s: %s", objectText(res.Profile, x.Object), w)
			}
		}
	}
	if res.KernelRestricted {
		c.notef("the recording does not say where the kernel is: sysctl kernel.kptr_restrict or kernel.perf_event_paranoid hid it from the one who recorded")
	}
	l := &res.Profile.Lost
	if l.Events > 0 {
		c.notef("the kernel lost %d records while recording: the processors or the disk were too busy", l.Events)
	}
	for _, x := range []struct {
		n    uint64
		what string
	}{
		{l.Samples, "samples were lost while recording"},
		{l.UnknownID, "samples belong to no event of the header"},
		{l.BadChains, "call chains have an unknown context marker"},
		{l.Unordered, "records came too late to be put in order"},
		{l.NoThread, "samples belong to no thread"},
	} {
		if x.n > 0 {
			c.notef("%d %s", x.n, x.what)
		}
	}
}

// absent reports whether there are objects without names for want of a file
// that may be in a cache.
func absent(out *symbol.Outcome) bool {
	return slices.ContainsFunc(out.Missing(), func(x symbol.ObjectOutcome) bool {
		switch x.Reason {
		case symbol.NotFound, symbol.Mismatch, symbol.Replaced, symbol.Deleted, symbol.NotPermitted,
			symbol.Restricted, symbol.NoKallsyms, symbol.NoModule, symbol.NoVDSO, symbol.NoRuntime:
			return true
		}
		return false
	})
}

// unnamedText is a line about an object some of whose frames have no name.
func unnamedText(p *profile.Profile, x *symbol.ObjectOutcome) string {
	s := fmt.Sprintf("%s: %s of %s, %s: %s", objectText(p, x.Object), thousands(uint64(x.Frames-x.FramesNamed)), count(x.Frames, "location"),
		count(int(x.SamplesUnnamed), "sample"), x.Reason)
	if x.Detail != "" {
		s += ": " + x.Detail
	}
	return s
}

// objectText names an object for a message.
func objectText(p *profile.Profile, i int32) string {
	if i < 0 {
		return report.UnknownDSO
	}
	o := &p.Objects[i]
	name := cmp.Or(o.Path, o.Short, report.Unnamed)
	if o.BuildID != "" {
		name += " (" + o.BuildID.String() + ")"
	}
	return name
}

// originLetter says where the names of an object are from, as perf report -v
// does (dso__symtab_origin in tools/perf/util/dso.c).
func originLetter(o *profile.Object, x *symbol.ObjectOutcome) byte {
	if len(x.Origins) == 0 {
		return '!'
	}
	from := x.Origins[len(x.Origins)-1] // the debug file, if there is one
	switch {
	case o.Kind == profile.KindPerfMap:
		return 'j'
	case x.Kallsyms:
		return 'k'
	case strings.HasPrefix(from, "/usr/lib/debug/.build-id/"):
		return 'b'
	case strings.HasPrefix(from, "/usr/lib/debug/") && strings.HasSuffix(from, ".debug"):
		return 'f'
	case strings.HasPrefix(from, "/usr/lib/debug/"):
		return 'u'
	case o.Kind == profile.KindKernel:
		return 'v'
	case from == o.Path && o.Kind == profile.KindModule:
		return 'K'
	case from == o.Path:
		return 'd'
	case strings.HasSuffix(from, "/debug"):
		return 'D'
	}
	return 'B' // by its Build ID
}

// lossError says on standard error what of a recording was lost, by place, and
// returns an error of status 3 if something was. res is nil if no profile was
// made.
func (a *app) lossError(in *input, res *session.Result) error {
	damage := in.Damage()
	const most = 20
	for i, d := range damage {
		if i == most && a.verbose == 0 {
			a.notef("%s: and %d more places (-v lists them)", in.Name(), len(damage)-most)
			break
		}
		a.notef("%s: %s", d.Name, d)
	}
	for _, w := range in.Warnings() {
		a.notef("%s: %s", in.Name(), w)
	}
	unknown := in.Unknown()
	for _, t := range slices.Sorted(maps.Keys(unknown)) {
		a.notef("%s: %s of type %d skipped: newer than perfark knows, or damaged", in.Name(), count(int(unknown[t]), "record"), uint32(t))
	}
	if len(damage) > 0 || res != nil && res.Partial() {
		return partialf("%s: the recording is damaged: what could be read of it is shown", in.Name())
	}
	return nil
}
