// Package record writes recordings: it opens perf events on this host, reads
// their rings, and writes a perf.data that perf and perfark read, with the
// identity of every binary taken when it is mapped.
//
// What is asked of the kernel, and in which order records stand, is as perf
// record does it; where perfark does more it is said beside the option.
package record

import (
	"errors"
	"fmt"
	"time"

	"github.com/perfark/perfark/perfdata"
)

// A CallgraphMode says how callers are recorded.
type CallgraphMode uint8

// The modes of call graphs.
const (
	CallgraphNone  CallgraphMode = iota
	CallgraphFP                  // the kernel follows frame pointers
	CallgraphDWARF               // registers, and the top of the user stack
	CallgraphLBR                 // the processor's record of calls
)

// A Callgraph is what --call-graph says.
type Callgraph struct {
	Mode      CallgraphMode
	StackSize uint32 // bytes of user stack with CallgraphDWARF; 0 means 8192
	MaxStack  uint16 // frames; 0 means the kernel's limit
	Deferred  bool   // user frames are recorded on the way back to user space (Linux 6.19)
	NoUser    bool   // no user frames
	NoKernel  bool   // no kernel frames
}

// Options say what is recorded. The zero value records nothing: there has to
// be a target.
type Options struct {
	Events []Event // none means cycles, or cpu-clock where there are none

	Freq    uint64 // samples a second; 0 means 4000 unless Period is set
	Period  uint64 // events between samples, instead
	FreqMax bool   // the highest frequency that the kernel allows

	// The target: all processors, some, processes or threads with all that
	// they start, or the command. A command runs in any case if there is one.
	All       bool
	CPUs      []int
	PIDs      []int
	TIDs      []int
	Command   []string
	NoInherit bool // threads and processes started later do not count
	Cgroups   []string

	Callgraph Callgraph
	Branch    uint64 // branch_sample_type; 0: no branch stacks

	Address, PhysAddr, DataPageSize, CodePageSize bool
	Weight, Transaction, SampleCPU, RunningTime   bool
	DataSrc, IntrRegs, UserRegs                   bool
	NoTime, NoPeriod                              bool
	AllUser, AllKernel                            bool

	Group      bool // all events are one group
	Namespaces bool // records of namespaces
	AllCgroups bool // records of cgroups, and the cgroup with each sample
	Switches   bool // records of context switches
	NoBuildID  bool // the kernel is not asked for build ids in MMAP2 records
	Clock      int32
	UseClock   bool // times are of Clock, one of unix.CLOCK_*

	Version string   // what the header says wrote the recording
	Cmdline []string // and the command line

	Delay    time.Duration // before events are enabled; <0: they never are
	Pages    int           // of the ring of each processor, a power of two; 0 means 512 KiB, or what may be locked
	Compress int           // zstd level from 1; 0: plain records
	Flush    time.Duration // records reach the file no later than this; 0 means 500 ms
}

// ErrNoTarget says that there is nothing to record.
var ErrNoTarget = errors.New("nothing to record: want a command, -a, -p, -t, -u or a cgroup")

// target reports what is recorded: hasCPU if the target is processors, none if
// it is the command alone.
func (o *Options) hasCPU() bool { return o.All || len(o.CPUs) > 0 || len(o.Cgroups) > 0 }

func (o *Options) hasTask() bool { return len(o.PIDs)+len(o.TIDs) > 0 }

// check finds what cannot be asked for.
func (o *Options) check() error {
	if !o.hasCPU() && !o.hasTask() && len(o.Command) == 0 {
		return ErrNoTarget
	}
	if o.Pages != 0 && o.Pages&(o.Pages-1) != 0 {
		return fmt.Errorf("%d pages: want a power of two", o.Pages)
	}
	if o.Callgraph.Mode == CallgraphDWARF {
		if n := o.Callgraph.StackSize; n%8 != 0 || n > maxStackSize {
			return fmt.Errorf("a stack of %d bytes: want a multiple of 8 up to %d", n, maxStackSize)
		}
	}
	return nil
}

// maxStackSize is what fits into a record beside the rest (perf's bound).
const maxStackSize = 65528

// A wanted is an event as it is opened: its attr, and what of it may be given
// up if the kernel refuses.
type wanted struct {
	Event
	attr     perfdata.Attr
	tracking bool // its rings get mmap, comm, fork and exit
}

// configure returns the attrs of the events, the tracking one among them, as
// perf record asks for them (evlist__config, evsel__config).
func (o *Options) configure(regs regMasks) []wanted {
	list := make([]wanted, 0, len(o.Events)+1)
	for i := range o.Events {
		list = append(list, wanted{Event: o.Events[i]})
	}
	if o.Group {
		for i := range list {
			list[i].Leader = 0
		}
	}
	if o.hasCPU() || o.Delay != 0 {
		// An event that counts nothing on all processors: it sees what is
		// mapped where no event of the list is open, or not yet enabled.
		list = append(list, wanted{Event: Event{Name: "dummy:HG", Type: perfdata.TypeSoftware, Config: swDummy, Leader: len(list), Period: 1}, tracking: true})
	} else {
		list[0].tracking = true
	}
	for i := range list {
		o.configureOne(list, i, regs)
	}
	same := true
	for i := range list {
		same = same && list[i].attr.SampleType == list[0].attr.SampleType
	}
	for i := range list {
		a := &list[i].attr
		if len(list) > 1 {
			if same {
				a.SampleType |= perfdata.SampleIdentID
			} else {
				a.SampleType |= perfdata.SampleIdentifier
			}
		}
		a.ReadFormat |= perfdata.ReadID
	}
	return list
}

// regMasks are the registers that samples have, by architecture.
type regMasks struct{ user, intr uint64 }

func (o *Options) configureOne(list []wanted, i int, regs regMasks) {
	w := &list[i]
	dummy := w.Type == perfdata.TypeSoftware && w.Config == swDummy
	w.attr = w.Event.attr()
	a := &w.attr
	a.Size = attrSize
	set := func(on bool, f perfdata.AttrFlags) {
		if on {
			a.Flags |= f
		}
	}
	sample := func(on bool, s perfdata.SampleType) {
		if on {
			a.SampleType |= s
		}
	}
	leader := w.Leader == i
	members := 0
	for j := range list {
		if list[j].Leader == w.Leader {
			members++
		}
	}
	set(true, perfdata.FlagSampleIDAll)
	set(!o.NoInherit, perfdata.FlagInherit)
	sample(true, perfdata.SampleIP|perfdata.SampleTID)
	sample(!o.NoTime && !w.NoTime, perfdata.SampleTime)
	if w.SampleRead {
		sample(true, perfdata.SampleRead)
		if members > 1 {
			a.ReadFormat |= perfdata.ReadGroup
			a.Flags &^= perfdata.FlagInherit
		}
	}
	o.rate(w, leader)
	sample(o.hasCPU() || o.SampleCPU, perfdata.SampleCPU)
	if w.Type == perfdata.TypeTracepoint {
		sample(true, perfdata.SampleRaw|perfdata.SampleCPU)
	}
	if !dummy {
		o.fields(w, regs, sample)
	}
	if o.RunningTime {
		a.ReadFormat |= perfdata.ReadEnabled | perfdata.ReadRunning
	}
	a.ReadFormat |= perfdata.ReadLost

	track := w.tracking
	set(track, perfdata.FlagMmap|perfdata.FlagMmap2|perfdata.FlagComm|perfdata.FlagCommExec|perfdata.FlagTask|
		perfdata.FlagKsymbol|perfdata.FlagBPFEvent)
	set(track && !o.NoBuildID, perfdata.FlagBuildID)
	set(track && o.Address, perfdata.FlagMmapData)
	set(track && o.Namespaces, perfdata.FlagNamespaces)
	set(track && o.AllCgroups, perfdata.FlagCgroup)
	set(track && o.Switches, perfdata.FlagContextSwitch)
	sample(o.AllCgroups, perfdata.SampleCgroup)

	set(leader, perfdata.FlagDisabled)
	set(leader && !o.hasCPU() && !o.hasTask() && o.Delay == 0, perfdata.FlagEnableOnExec)
	set(w.Pinned, perfdata.FlagPinned)
	set(w.Exclusive, perfdata.FlagExclusive)
	set(w.Idle, perfdata.FlagExcludeIdle)
	if o.UseClock {
		set(true, perfdata.FlagUseClockID)
		a.ClockID = o.Clock
	}
	w.exclude(o, set)
}

// exclude says in which modes an event does not count.
func (w *wanted) exclude(o *Options, set func(bool, perfdata.AttrFlags)) {
	if w.User || w.Kernel || w.Hypervisor {
		set(!w.User, perfdata.FlagExcludeUser)
		set(!w.Kernel, perfdata.FlagExcludeKernel)
		set(!w.Hypervisor, perfdata.FlagExcludeHV)
	}
	set(o.AllUser, perfdata.FlagExcludeKernel|perfdata.FlagExcludeHV)
	set(o.AllKernel, perfdata.FlagExcludeUser|perfdata.FlagExcludeHV)
	switch {
	case w.Guest && !w.Host:
		set(true, perfdata.FlagExcludeHost)
	case w.Host && !w.Guest, !w.Guest && !w.tracking && w.Type != perfdata.TypeTracepoint:
		set(true, perfdata.FlagExcludeGuest)
	}
	precise := min(w.Precise, 3)
	if w.PreciseMax {
		precise = 3
	}
	w.attr.Flags |= perfdata.AttrFlags(precise) << 15
}

// rate sets the period or the frequency of an event.
func (o *Options) rate(w *wanted, leader bool) {
	a := &w.attr
	switch {
	case w.Freq > 0:
		a.SamplePeriod, a.Flags = w.Freq, a.Flags|perfdata.FlagFreq
	case w.Period > 0:
		a.SamplePeriod = w.Period
	case o.Period > 0:
		a.SamplePeriod = o.Period
	default:
		a.SamplePeriod, a.Flags = o.Freq, a.Flags|perfdata.FlagFreq
	}
	if w.SampleRead && !leader {
		a.SamplePeriod, a.Flags = 0, a.Flags&^perfdata.FlagFreq
	}
	if a.Flags.Has(perfdata.FlagFreq) && !o.NoPeriod || w.Type == perfdata.TypeTracepoint {
		a.SampleType |= perfdata.SamplePeriod
	}
}

// fields sets what the samples of an event hold beyond where and when.
func (o *Options) fields(w *wanted, regs regMasks, sample func(bool, perfdata.SampleType)) {
	a := &w.attr
	sample(o.Address, perfdata.SampleAddr)
	sample(o.PhysAddr, perfdata.SamplePhysAddr)
	sample(o.DataPageSize, perfdata.SampleDataPageSize)
	sample(o.CodePageSize, perfdata.SampleCodePageSize)
	sample(o.Weight, perfdata.SampleWeightStruct)
	sample(o.DataSrc, perfdata.SampleDataSrc)
	sample(o.Transaction, perfdata.SampleTransaction)
	if o.IntrRegs {
		sample(true, perfdata.SampleRegsIntr)
		a.SampleRegsIntr = regs.intr
	}
	if o.UserRegs {
		sample(true, perfdata.SampleRegsUser)
		a.SampleRegsUser = regs.user
	}
	if o.Branch != 0 {
		sample(true, perfdata.SampleBranchStack)
		a.BranchSampleType = o.Branch
	}
	cg := o.Callgraph
	if cg.Mode == CallgraphNone {
		return
	}
	sample(true, perfdata.SampleCallchain)
	a.SampleMaxStack = cg.MaxStack
	if cg.NoUser {
		a.Flags |= perfdata.FlagExcludeCallchainUser
	}
	if cg.NoKernel {
		a.Flags |= perfdata.FlagExcludeCallchainKernel
	}
	switch cg.Mode {
	case CallgraphDWARF:
		sample(true, perfdata.SampleRegsUser|perfdata.SampleStackUser)
		a.SampleRegsUser |= regs.user
		a.SampleStackUser = cg.StackSize
		if a.SampleStackUser == 0 {
			a.SampleStackUser = 8192
		}
		a.Flags |= perfdata.FlagExcludeCallchainUser
	case CallgraphLBR:
		if o.Branch == 0 {
			sample(true, perfdata.SampleBranchStack)
			a.BranchSampleType = branchUser | branchCallStack | branchNoCycles | branchNoFlags | perfdata.BranchHWIndex
			a.Flags |= perfdata.FlagExcludeCallchainUser
		}
	}
	if cg.Deferred {
		a.Flags |= perfdata.FlagDeferCallchain
		if w.tracking {
			a.Flags |= perfdata.FlagDeferOutput
		}
	}
}

// Bits of branch_sample_type (enum perf_branch_sample_type).
const (
	branchUser      = 1 << 0
	branchCallStack = 1 << 11
	branchNoFlags   = 1 << 14
	branchNoCycles  = 1 << 15
)

// attrSize is PERF_ATTR_SIZE_VER7: what perf 6.1 reads. What came later is of
// no use to those who only record.
const attrSize = 128
