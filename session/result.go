package session

import (
	"slices"

	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
)

// result puts together what the two passes found.
func (l *loader) result() *Result {
	p := &profile.Profile{Objects: l.objects.table}
	r := &l.res
	r.Profile = p
	n := len(p.Objects)
	r.Hit = make([]Hit, n)
	r.Locations = make([]int, n)
	for i := range p.Objects {
		r.Mapped = append(r.Mapped, l.objects.facts[i].mapped)
		r.IDSource = append(r.IDSource, l.objects.facts[i].source)
	}
	l.sum(p)
	for _, w := range l.workers {
		for i, h := range w.hits {
			r.Hit[i] |= h
		}
	}
	if !l.o.HitsOnly {
		l.merge(p)
		l.countObjects(p)
	}
	l.processes()
	for i := range p.Objects {
		o := &p.Objects[i]
		for _, j := range l.objects.facts[i].oneOf {
			r.Hit[i] |= r.Hit[j]
			o.Samples += p.Objects[j].Samples // at most
		}
		if o.BuildID == "" && hasID(o.Kind) && r.Hit[i]&HitFrame != 0 {
			r.MissingIDs = append(r.MissingIDs, int32(i))
		}
	}
	p.Lost = l.lost
	r.Stats = l.stats
	if len(l.cgroups) > 0 {
		p.Cgroups = l.cgroups
	}
	out := *r
	for _, w := range l.workers {
		if len(w.log.at) > 0 {
			l.unwoundLogs = append(l.unwoundLogs, w.log)
		}
	}
	l.workers, l.res = nil, Result{}
	if !l.o.HitsOnly {
		out.l = l
	}
	return &out
}

// sum adds up the workers' counts.
func (l *loader) sum(p *profile.Profile) {
	r := &l.res
	for _, ev := range l.f.Events() {
		p.Events = append(p.Events, profile.Event{Name: ev.Name})
	}
	l.stats.Samples = make([]uint64, len(p.Events))
	missing := false
	for _, w := range l.workers {
		for i := range w.events {
			p.Events[i].Samples += w.events[i].Samples
			p.Events[i].Period += w.events[i].Period
			l.stats.Samples[i] += w.events[i].Samples
		}
		l.lost.UnknownID += w.unknownID
		l.lost.BadChains += w.badChains
		l.stats.Bad += w.bad
		r.KernelSamples += w.kernelSamples
		r.GuestSamples += w.guestSamples
		r.UserStacks += w.userStacks
		r.Branches += w.branchStacks
		missing = missing || w.kernelMissing
	}
	r.Auxtrace = l.f.Header().Has(perfdata.FeatureAuxtrace) || l.stats.Types[typeAuxtrace] > 0
	r.KernelRestricted = missing && !l.hasKernel()
}

// hasKernel reports whether the recording says where the host's kernel is.
func (l *loader) hasKernel() bool {
	for i := range l.objects.table {
		if l.objects.table[i].Kind == profile.KindKernel && l.objects.facts[i].mapped {
			return true
		}
	}
	return false
}

// countObjects counts the samples, and the locations, that touch each object.
func (l *loader) countObjects(p *profile.Profile) {
	r := &l.res
	for i := range p.Locations {
		if o := p.Locations[i].Object; o != profile.None {
			r.Locations[o]++
		}
	}
	touch := func(loc int32, n uint64, h Hit) int32 {
		o := p.Locations[loc].Object
		if o != profile.None {
			p.Objects[o].Samples += n
			r.Hit[o] |= h
		}
		return o
	}
	switch {
	case l.o.Branches:
		for i := range p.Samples {
			s := &p.Samples[i]
			to := touch(s.Location, s.Count, HitBranch)
			from := p.Extras[s.Extra].From
			if p.Locations[from].Object != to {
				touch(from, s.Count, HitBranch)
			}
		}
	case l.o.Keep&(KeepFrames|KeepStacks) == 0:
		for i := range p.Samples {
			touch(p.Samples[i].Location, p.Samples[i].Count, HitIP)
		}
	default:
		n := make([]uint64, len(p.Objects))
		for _, w := range l.workers {
			w.b.sets.add(n)
		}
		for i := range n {
			p.Objects[i].Samples += n[i]
		}
	}
}

// processes lists the processes, and marks what an unwinder may need.
func (l *loader) processes() {
	r := &l.res
	sampled := map[int32]bool{}
	for _, w := range l.workers {
		for pid, stack := range w.sampled {
			sampled[pid] = sampled[pid] || stack
		}
	}
	for pid, p := range l.procs {
		out := Process{PID: pid, Exited: p.exited, Objects: p.objects[p.since:]}
		stack, ok := sampled[pid]
		out.Sampled = ok
		if stack {
			for _, o := range p.objects {
				r.Hit[o] |= HitUnwind
			}
		}
		out.Comm = l.lastComm(pid)
		r.Processes = append(r.Processes, out)
	}
	for pid := range sampled {
		if l.procs[pid] == nil {
			r.Processes = append(r.Processes, Process{PID: pid, Comm: l.lastComm(pid), Sampled: true})
		}
	}
	slices.SortFunc(r.Processes, func(a, b Process) int { return int(int64(a.PID) - int64(b.PID)) })
}

// lastComm returns the last name of a thread, "" if it has none.
func (l *loader) lastComm(tid int32) string {
	if th := l.threads[tid]; th != nil {
		if comm := th.last(); comm >= 0 {
			return l.comms[comm]
		}
	}
	return ""
}
