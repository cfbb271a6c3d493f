package session

import (
	"cmp"
	"math"
	"slices"

	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
)

// Bits of perf_branch_entry behind its addresses.
const (
	branchCyclesShift = 4
	branchCyclesMask  = 1<<16 - 1
)

// Limits of what is kept of the text of samples, in bytes: of one, and of all.
const (
	maxText  = 4 << 10
	maxTexts = 256 << 20
)

// noExtra is an Extra in which nothing is kept.
var noExtra = profile.Extra{Data: profile.None, From: profile.None, To: profile.None}

// extraOf returns the number of what is kept of the current sample but
// addresses and time, none if that is nothing. Its locations are those of
// the builder.
func (b *builder) extraOf(w *worker, f *frames, th *threadEntry, branch *perfdata.Branch) int32 {
	c, s := &w.cur, w.s
	x := noExtra
	if b.keep&KeepTime != 0 {
		x.Time = c.time
		if q := b.l.o.TimeQuantum; q > 1 {
			x.Time -= x.Time % q
		}
	}
	if b.keep&KeepNamespace != 0 {
		x.NSDev, x.NSIno = w.l.namespaceAt(c.tid, f.t)
	}
	if b.keep&KeepMapSize != 0 {
		m, ip := c.mode, c.ip
		if branch != nil {
			m, ip = f.branchMode(branch.To), branch.To
		}
		if e := w.find(f.state(m), ip); e.mapping != none {
			x.MapSize = e.hi - e.lo + 1
		}
	}
	if c.any {
		if b.keep&KeepAddr != 0 && s.Addr != 0 {
			x.Addr = s.Addr
			x.Data = b.dataLocation(w, f)
		}
		if b.keep&KeepPhysAddr != 0 {
			x.PhysAddr = s.PhysAddr
		}
		if b.keep&KeepDataSrc != 0 {
			x.DataSrc = s.DataSrc
		}
		if b.keep&KeepWeight != 0 {
			x.Weight = s.Weight
			if w.l.f.Events()[c.event].Attr.SampleType&perfdata.SampleWeightStruct != 0 {
				// union perf_sample_weight: 32, 16 and 16 bits.
				x.Weight, x.InsLat, x.PStage = s.Weight&math.MaxUint32, uint16(s.Weight>>32), uint16(s.Weight>>48)
			}
		}
		if b.keep&KeepTransaction != 0 {
			x.Transaction = s.Txn
		}
		if b.keep&KeepCgroup != 0 {
			x.Cgroup = s.CgroupID
		}
		if b.keep&KeepDataPageSize != 0 {
			x.DataPageSize = s.DataPage
		}
		if b.keep&KeepCodePageSize != 0 {
			x.CodePageSize = s.CodePage
		}
		if b.keep&KeepText != 0 && b.l.o.Text != nil && c.event >= 0 {
			x.Text = b.l.o.Text(int(c.event), s.Raw)
			x.Text = x.Text[:min(len(x.Text), maxText)]
		}
	}
	if branch != nil {
		x.From = b.branchEnd(w, f, branch.From)
		x.To = b.branchEnd(w, f, branch.To)
		x.BranchFlags = branch.Flags
		x.BranchCycles = cyclesOf(branch)
	}
	if x == noExtra {
		return none
	}
	// The same thread's samples often have the same.
	if th.extra != 0 && b.extras[th.extra-1] == x {
		return th.extra - 1
	}
	id, ok := b.extraIDs[x]
	if !ok && x.Text != "" && b.l.texts.Add(int64(len(x.Text))) > maxTexts {
		x.Text = ""
		id, ok = b.extraIDs[x]
	}
	if !ok {
		id = int32(len(b.extras))
		b.extraIDs[x] = id
		b.extras = append(b.extras, x)
	}
	th.extra = id + 1
	return id
}

// dataLocation is where the data of the current sample is.
func (b *builder) dataLocation(w *worker, f *frames) int32 {
	mode := f.dataMode(w.s.Addr)
	return b.exact(w, f.state(mode), mode, w.s.Addr, f.t.pos)
}

// dataMode is in whose maps a data address is looked for: in those of the mode
// of the sample's code, as perf report has it (ip__resolve_data); with
// DataAnywhere in those of the process if the kernel touched what it has
// mapped, and the other way round (thread__find_map_fb).
func (f *frames) dataMode(addr uint64) mode {
	mode := f.w.cur.mode
	switch {
	case !f.w.l.o.DataAnywhere:
	case mode == modeKernel && int64(addr) >= 0 && f.w.find(f.user, addr).mapping != none:
		return modeUser
	case mode == modeUser && int64(addr) < 0:
		return modeKernel
	}
	return mode
}

// exact is location, but never that of another one of the same class.
func (b *builder) exact(w *worker, state int32, m mode, ip, pos uint64) int32 {
	if x := b.l.index; x != nil && x.same != nil {
		return x.exact(w.locKeyAt(where(state, m), ip))
	}
	return b.location(w, state, m, ip, pos)
}

func (b *builder) branchEnd(w *worker, f *frames, ip uint64) int32 {
	m := f.branchMode(ip)
	return b.location(w, f.state(m), m, ip, f.t.pos)
}

// addBranches adds the entries of the current sample's branch stack as
// samples.
func (b *builder) addBranches(w *worker, f *frames, th *threadEntry) {
	c := &w.cur
	c.period = 1
	for i := range c.branches {
		x := b.extraOf(w, f, th, &c.branches[i])
		loc := b.extras[x].To
		k := sampleKey{loc: loc, stack: none, group: b.group(c, th, x)}
		b.samples.reserve(1)
		b.samples.add(k, b.samples.hash(k), 1, 1)
	}
}

// mergeExtras fills p.Extras, each once and in order, and returns the new
// number of each builder's.
func mergeExtras(p *profile.Profile, bs []*builder, locs [][]int32) [][]int32 {
	remap := newRemap(bs, func(b *builder) int { return len(b.extras) })
	var all []profile.Extra
	for i, b := range bs {
		b.extraIDs = nil
		for j := range b.extras {
			x := &b.extras[j]
			for _, l := range [...]*int32{&x.Data, &x.From, &x.To} {
				if *l != profile.None && locs != nil {
					*l = locs[i][*l]
				}
			}
		}
		all = append(all, b.extras...)
	}
	slices.SortFunc(all, compareExtra)
	p.Extras = slices.Clip(slices.Compact(all))
	for i, b := range bs {
		for j := range b.extras {
			k, _ := slices.BinarySearchFunc(p.Extras, b.extras[j], compareExtra)
			remap[i][j] = int32(k)
		}
		b.extras = nil
	}
	return remap
}

func compareExtra(a, b profile.Extra) int {
	return cmp.Or(
		cmp.Compare(a.Time, b.Time), cmp.Compare(a.Data, b.Data), cmp.Compare(a.Addr, b.Addr),
		cmp.Compare(a.PhysAddr, b.PhysAddr), cmp.Compare(a.DataPageSize, b.DataPageSize),
		cmp.Compare(a.CodePageSize, b.CodePageSize), cmp.Compare(a.MapSize, b.MapSize), cmp.Compare(a.DataSrc, b.DataSrc),
		cmp.Compare(a.Weight, b.Weight), cmp.Compare(a.InsLat, b.InsLat), cmp.Compare(a.PStage, b.PStage),
		cmp.Compare(a.Transaction, b.Transaction), cmp.Compare(a.Cgroup, b.Cgroup),
		cmp.Compare(a.NSDev, b.NSDev), cmp.Compare(a.NSIno, b.NSIno),
		cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.BranchFlags, b.BranchFlags),
		cmp.Compare(a.Text, b.Text),
	)
}

// A nsPoint is the cgroup namespace of a thread, and since when.
type nsPoint struct {
	moment
	link perfdata.NSLink
}

// cgroupNS is the place of the cgroup namespace in a NAMESPACES record.
const cgroupNS = 6

// namespaceAt returns the cgroup namespace of a thread, 0 if it is unknown.
func (l *loader) namespaceAt(tid int32, t moment) (dev, ino uint64) {
	for _, p := range slices.Backward(l.namespaces[tid]) {
		if !t.before(p.moment) {
			return p.link.Dev, p.link.Ino
		}
	}
	return 0, 0
}
