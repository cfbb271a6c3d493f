// Package record writes recordings: it opens perf events on this host, reads
// their rings, and writes a perf.data that perf and perfark read, with the
// identity of every binary taken when it is mapped.
//
// What is asked of the kernel, and in which order records stand, is as perf
// record does it; where perfark does more it is said beside the option.
package record

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
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

	FreqGiven bool // Freq is for tracepoints too, of which otherwise each is a sample

	// The target: all processors, some, processes or threads with all that
	// they start, or the command. A command runs in any case if there is one.
	All       bool
	CPUs      []int
	PIDs      []int
	TIDs      []int
	UIDs      []int // of the users whose processes of now, and all that they start, are recorded
	Command   []string
	NoInherit bool     // threads and processes started later do not count
	PerThread bool     // a ring for each thread, not for each processor
	Cgroups   []string // one for all events, or that of each; "" means all

	Callgraph Callgraph
	Branch    uint64 // branch_sample_type; 0: no branch stacks

	Address, PhysAddr, DataPageSize, CodePageSize bool
	Weight, Transaction, SampleCPU, RunningTime   bool
	NoTime, NoPeriod, AlwaysPeriod, Raw           bool
	Identifier                                    bool // samples have their id at the same place in all events

	// Registers of samples, when they were taken and of user space, by bit as
	// perf_regs.h numbers them; 0: none. HostRegs are those that there are.
	IntrRegs, UserRegs uint64

	Stat               bool // what each thread counted, when it ends
	NoSamples          bool // what is mapped and started, but no samples
	AllUser, AllKernel bool

	Group      bool // all events are one group
	Namespaces bool // records of namespaces
	AllCgroups bool // records of cgroups, and the cgroup with each sample
	Switches   bool // records of context switches
	NoBuildID  bool // no build ids are taken, and no copies

	Copies Copies // where files go that would not be there later

	// KernelIDs asks the kernel for build ids, which knows them however short a
	// process lives. But kernels up to 6.18 at least then mark the mappings in
	// the recordings of others as having ids, which perf 6.1 dies of.
	KernelIDs  bool
	NoBPF      bool // no records of BPF programs
	StrictFreq bool // a frequency that the kernel does not allow is an error
	Overwrite  bool // the rings are read at the end alone, or when another file begins
	Clock      int32
	UseClock   bool // times are of Clock, one of unix.CLOCK_*

	Version string   // what the header says wrote the recording
	Cmdline []string // and the command line

	Delay    time.Duration // before events are enabled; <0: they never are
	Duration time.Duration // after which the recording ends, from when all is set up; 0: never
	Pages    int           // of the ring of each processor, a power of two; 0 means 512 KiB, or what may be locked
	Windows  []Window      // after Delay, when events are enabled; none: all the time
	Eager    bool          // records are read as soon as they are there
	Priority int           // of the thread that reads, SCHED_FIFO; 0: as any other
	Synth    Synth         // what is found out about what was there before; 0: all
	SynthEnd bool          // and at the end, not before the first sample

	// DropRights gives up, once events are open and for the whole process, the
	// capabilities that recording does not need; it keeps CAP_DAC_OVERRIDE if
	// KeepOverride says that files are still to be made where only that allows
	// it.
	DropRights, KeepOverride bool

	Control  *Control // commands while it records
	Compress int      // zstd level from 1; 0: plain records
	Pipe     bool     // the output is one, even if it could seek
	MaxSize  int64    // bytes of the file at which the recording ends; 0: never
	Switch   Switch
	Flush    time.Duration // records reach the file no later than this; 0 means 500 ms
}

// A Switch says when one file ends and another begins. The zero value: never.
type Switch struct {
	Size  int64                    // bytes of a file; 0: any number
	Every time.Duration            // 0: no matter how long
	Now   <-chan os.Signal         // when something comes
	Next  func() (*os.File, error) // what the next file is, when one is complete
	Files int                      // how many the caller keeps; 0: all

	// Events are not recorded: each of them is a reason to begin a file.
	Events []Event
}

// A Window is a time during which events are enabled, from when the recording
// began, as Delay is.
type Window struct{ From, To time.Duration }

// Synth are kinds of records about what was there before: see Options.
type Synth uint8

// The kinds. All are those of the zero value; SynthNone is none of them, so that
// kernel, modules and targets are left.
const (
	SynthTasks Synth = 1 << iota
	SynthMaps        // and with them tasks
	SynthCgroups
	SynthNone
)

// has reports whether records of a kind are wanted.
func (s Synth) has(kind Synth) bool {
	if s&SynthMaps != 0 {
		s |= SynthTasks
	}
	return s == 0 || s&kind != 0
}

// ParseSynth parses no, all, or a list of task, mmap and cgroup, as perf record
// --synth takes it.
func ParseSynth(s string) (Synth, error) {
	var out Synth
	for word := range strings.SplitSeq(s, ",") {
		kind, ok := map[string]Synth{"no": SynthNone, "all": SynthMaps | SynthCgroups, "task": SynthTasks, "mmap": SynthMaps, "cgroup": SynthCgroups}[word]
		if !ok || kind == SynthNone && s != word {
			return 0, fmt.Errorf("%q: want no, all, or some of task, mmap and cgroup", s)
		}
		out |= kind
	}
	return out, nil
}

// A Control is where commands come from while it records, as perf record
// --control has them: enable, disable, evlist, ping, stop.
type Control struct {
	In  *os.File
	Ack *os.File // gets "ack\n" after each command; nil: nothing does
	Out *os.File // gets what evlist prints; nil: nothing does
}

// ParseWindows parses what perf record -D takes: milliseconds, or times such as
// 10-20,30-40 for which events are enabled.
func ParseWindows(s string) (delay time.Duration, list []Window, err error) {
	if ms, err := strconv.ParseInt(s, 10, 32); err == nil {
		if ms < 0 {
			return -1, nil, nil
		}
		return time.Duration(ms) * time.Millisecond, nil, nil
	}
	last := time.Duration(0)
	for r := range strings.SplitSeq(s, ",") {
		from, to, ok := strings.Cut(r, "-")
		a, err := strconv.ParseUint(from, 10, 31)
		b, err2 := strconv.ParseUint(to, 10, 31)
		w := Window{time.Duration(a) * time.Millisecond, time.Duration(b) * time.Millisecond}
		if !ok || err != nil || err2 != nil || w.From >= w.To || w.From < last {
			return 0, nil, fmt.Errorf("%q: want milliseconds, or times in order such as 10-20,30-40", s)
		}
		last = w.To
		list = append(list, w)
	}
	return list[0].From, list, nil
}

// ErrNoTarget says that there is nothing to record.
var ErrNoTarget = errors.New("nothing to record: want a command, -a, -p, -t, -u or a cgroup")

// hasCPU reports whether processors are recorded. If neither they nor tasks are,
// it is the command alone.
func (o *Options) hasCPU() bool { return o.All || len(o.CPUs) > 0 || len(o.Cgroups) > 0 }

// hasTask reports whether processes or threads are recorded that run already.
func (o *Options) hasTask() bool { return len(o.PIDs)+len(o.TIDs)+len(o.UIDs) > 0 }

// chain returns how the callers of an event are recorded.
func (o *Options) chain(w *Event) Callgraph {
	cg := o.Callgraph
	switch {
	case w.Callgraph == "no":
		return Callgraph{}
	case w.Callgraph != "":
		cg, _ = ParseCallgraph(w.Callgraph)
	case w.MaxStack > 0:
		cg = Callgraph{Mode: CallgraphFP}
	}
	if w.MaxStack > 0 {
		cg.MaxStack = w.MaxStack
	}
	if w.StackSize > 0 {
		cg.StackSize = w.StackSize
	}
	return cg
}

// address reports whether the samples of an event have the address of data. As
// with perf they have if they have a copy of the stack.
func (o *Options) address(w *Event) bool {
	return o.Address || o.Callgraph.Mode == CallgraphDWARF || o.chain(w).Mode == CallgraphDWARF
}

// Check finds what cannot be asked for, whatever the host is.
func (o *Options) Check() error {
	if !o.hasCPU() && !o.hasTask() && len(o.Command) == 0 {
		return ErrNoTarget
	}
	if o.Pages != 0 && o.Pages&(o.Pages-1) != 0 {
		return fmt.Errorf("%d pages: want a power of two", o.Pages)
	}
	if p := o.Priority; p < 0 || p > 99 {
		return fmt.Errorf("priority %d: want 1 to 99", p)
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
	added    bool // for tracking alone: nobody asked for it
	cgroup   int  // descriptor of the one that is recorded; -1: any
}

// configure returns the attrs of the events, the tracking one among them, as
// perf record asks for them (evlist__config, evsel__config).
func (o *Options) configure(regs Regs) []wanted {
	list := make([]wanted, 0, len(o.Events)+1)
	for i := range o.Events {
		list = append(list, wanted{Event: o.Events[i], cgroup: -1})
	}
	if o.Group {
		for i := range list {
			list[i].Leader = 0
		}
	}
	if o.hasCPU() || o.Delay != 0 || o.Overwrite {
		// An event that counts nothing on all processors: it sees what is
		// mapped where no event of the list is open, or not yet enabled.
		list = append(list, wanted{Event: Event{Name: "dummy:HG", Type: perfdata.TypeSoftware, Config: swDummy, Leader: len(list), Host: true, Guest: true}, tracking: true, added: true, cgroup: -1})
	} else {
		list[0].tracking = true
	}
	for i := range list {
		o.configureOne(list, i, regs)
	}
	for i := range list {
		// The leader is sampled, and the others are read with it: what becomes
		// of them are samples of their own, of the same kind.
		if l := &list[list[i].Leader]; l.SampleRead && list[i].Leader != i {
			a := &list[i].attr
			a.SamplePeriod, a.SampleType = 0, l.attr.SampleType
			a.Flags &^= perfdata.FlagFreq | perfdata.FlagWriteBackward
		}
	}
	same := true
	for i := range list {
		same = same && list[i].attr.SampleType == list[0].attr.SampleType
	}
	for i := range list {
		a := &list[i].attr
		if len(list) > 1 || o.Pipe || o.Identifier {
			if same && !o.Identifier {
				a.SampleType |= perfdata.SampleIdentID
			} else {
				a.SampleType = a.SampleType&^perfdata.SampleIdentID | perfdata.SampleIdentifier
			}
		}
		a.ReadFormat |= perfdata.ReadID
	}
	return list
}

// Regs are registers of samples, by bit as perf_regs.h numbers them.
type Regs struct {
	User, Intr uint64
	Unwind     uint64 // without which no stack can be unwound
}

func (w *wanted) isDummy() bool { return w.Type == perfdata.TypeSoftware && w.Config == swDummy }

func (o *Options) configureOne(list []wanted, i int, regs Regs) {
	w := &list[i]
	dummy := w.isDummy()
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
	set(w.Inherit.or(!o.NoInherit), perfdata.FlagInherit)
	sample(true, perfdata.SampleIP|perfdata.SampleTID)
	sample(!o.NoTime && !w.NoTime, perfdata.SampleTime)
	if w.SampleRead {
		sample(true, perfdata.SampleRead|perfdata.SampleIdentID) // the id says whose values they are
		if members > 1 {
			a.ReadFormat |= perfdata.ReadGroup
			a.Flags &^= perfdata.FlagInherit
		}
	}
	o.rate(w)
	sample(o.hasCPU() || o.SampleCPU, perfdata.SampleCPU)
	if w.Type == perfdata.TypeTracepoint {
		sample(true, perfdata.SampleRaw|perfdata.SampleCPU)
	}
	if o.Raw {
		sample(true, perfdata.SampleRaw|perfdata.SampleCPU|perfdata.SampleTime)
	}
	o.fields(w, regs, sample)
	if dummy {
		a.SampleType &^= perfdata.SampleBranchStack
	}
	if o.Stat {
		set(true, perfdata.FlagInheritStat)
	}
	set(!w.added && w.Overwrite.or(o.Overwrite), perfdata.FlagWriteBackward)
	if o.RunningTime || o.Stat {
		a.ReadFormat |= perfdata.ReadEnabled | perfdata.ReadRunning
	}
	a.ReadFormat |= perfdata.ReadLost
	if o.Eager {
		a.WakeupEvents = 1
	}

	track := w.tracking
	set(track, perfdata.FlagMmap|perfdata.FlagMmap2|perfdata.FlagComm|perfdata.FlagCommExec|perfdata.FlagTask|
		perfdata.FlagKsymbol)
	set(track && !o.NoBPF, perfdata.FlagBPFEvent)
	set(track && o.KernelIDs && !o.NoBuildID, perfdata.FlagBuildID)
	set(track && o.address(&w.Event), perfdata.FlagMmapData)
	set(track && o.Namespaces, perfdata.FlagNamespaces)
	set(track && o.AllCgroups, perfdata.FlagCgroup)
	set(track && o.Switches, perfdata.FlagContextSwitch)
	sample(o.AllCgroups, perfdata.SampleCgroup)

	immediate := w.added && (o.hasCPU() || o.hasTask()) // it sees what is mapped from the start
	set(leader && !immediate, perfdata.FlagDisabled)
	set(leader && !immediate && !o.hasCPU() && !o.hasTask() && (o.Delay == 0 || w.added), perfdata.FlagEnableOnExec)
	set(w.Pinned && leader, perfdata.FlagPinned)
	set(w.Exclusive && leader, perfdata.FlagExclusive)
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
	set(o.AllUser, perfdata.FlagExcludeKernel)
	set(o.AllKernel, perfdata.FlagExcludeUser)
	switch {
	case w.Guest && !w.Host:
		set(true, perfdata.FlagExcludeHost)
	case w.Host && !w.Guest, !w.Host && !w.Guest && !w.implicit && (!w.modified || w.User || w.Precise > 0):
		set(true, perfdata.FlagExcludeGuest)
	}
	precise := min(w.Precise, 3)
	if w.PreciseMax {
		precise = 3
	}
	w.attr.Flags |= perfdata.AttrFlags(precise) << 15
}

// rate sets the period or the frequency of an event.
func (o *Options) rate(w *wanted) {
	a := &w.attr
	switch {
	case w.added && !o.FreqGiven && o.Period == 0:
		a.SamplePeriod = 1
	case w.Freq > 0:
		a.SamplePeriod, a.Flags = w.Freq, a.Flags|perfdata.FlagFreq
	case w.Period > 0:
		a.SamplePeriod = w.Period
	case o.Period > 0:
		a.SamplePeriod = o.Period
	case (w.Type == perfdata.TypeTracepoint || w.Type == perfdata.TypeBreakpoint) && !o.FreqGiven:
		a.SamplePeriod = 1
	default:
		a.SamplePeriod, a.Flags = o.Freq, a.Flags|perfdata.FlagFreq
	}
	if o.NoSamples {
		a.SamplePeriod = 0
	}
	if (a.Flags.Has(perfdata.FlagFreq) || w.Type == perfdata.TypeTracepoint || o.AlwaysPeriod) && !o.NoPeriod {
		a.SampleType |= perfdata.SamplePeriod
	}
}

// fields sets what the samples of an event hold beyond where and when.
func (o *Options) fields(w *wanted, regs Regs, sample func(bool, perfdata.SampleType)) {
	a := &w.attr
	sample(o.address(&w.Event), perfdata.SampleAddr|perfdata.SampleDataSrc)
	sample(o.PhysAddr, perfdata.SamplePhysAddr)
	sample(o.DataPageSize, perfdata.SampleDataPageSize)
	sample(o.CodePageSize, perfdata.SampleCodePageSize)
	sample(o.Weight, perfdata.SampleWeightStruct)
	sample(o.Transaction, perfdata.SampleTransaction)
	if o.IntrRegs != 0 && !w.isDummy() {
		sample(true, perfdata.SampleRegsIntr)
		a.SampleRegsIntr = o.IntrRegs
	}
	if o.UserRegs != 0 && !w.isDummy() {
		sample(true, perfdata.SampleRegsUser)
		a.SampleRegsUser |= o.UserRegs
	}
	branch := cmp.Or(w.Branch, o.Branch)
	if branch != 0 {
		sample(true, perfdata.SampleBranchStack)
		a.BranchSampleType = branch
	}
	cg := o.chain(&w.Event)
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
		if o.UserRegs == 0 {
			a.SampleRegsUser |= regs.User
		}
		a.SampleRegsUser |= regs.Unwind // and those that were asked for, as with perf
		a.SampleStackUser = cg.StackSize
		if a.SampleStackUser == 0 {
			a.SampleStackUser = 8192
		}
		a.Flags |= perfdata.FlagExcludeCallchainUser
	case CallgraphLBR:
		if branch == 0 && (w.User || !w.Kernel && !w.Hypervisor) { // of user space alone
			sample(true, perfdata.SampleBranchStack)
			a.BranchSampleType = branchUser | branchCallStack | branchNoCycles | branchNoFlags | perfdata.BranchHWIndex
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

// branchNames are the kinds of branches (perf record -j), with their bits of
// branch_sample_type.
var branchNames = map[string]uint64{
	"u": 1 << 0, "k": 1 << 1, "hv": 1 << 2, "any": 1 << 3, "any_call": 1 << 4, "any_ret": 1 << 5, "ind_call": 1 << 6,
	"abort_tx": 1 << 7, "in_tx": 1 << 8, "no_tx": 1 << 9, "cond": 1 << 10, "stack": branchCallStack, "ind_jmp": 1 << 12,
	"call": 1 << 13, "no_flags": branchNoFlags, "no_cycles": branchNoCycles, "save_type": 1 << 16, "priv": 1 << 18,
}

// ParseBranches parses kinds of branches as perf record -j takes them.
func ParseBranches(kinds []string) (uint64, error) {
	var mask uint64
	for _, k := range kinds {
		bit, ok := branchNames[strings.ToLower(strings.TrimSpace(k))]
		if !ok {
			return 0, fmt.Errorf("%q is no kind of branches", k)
		}
		mask |= bit
	}
	if mask != 0 && mask&^7 == 0 {
		mask |= branchNames["any"]
	}
	return mask, nil
}

// ParseCallgraph parses fp[,FRAMES], dwarf[,SIZE] or lbr.
func ParseCallgraph(s string) (Callgraph, error) {
	mode, size, sized := strings.Cut(s, ",")
	var cg Callgraph
	switch mode {
	case "fp":
		cg.Mode = CallgraphFP
	case "dwarf":
		cg.Mode = CallgraphDWARF
	case "lbr":
		cg.Mode = CallgraphLBR
	default:
		return cg, fmt.Errorf("%q: want fp[,FRAMES], dwarf[,SIZE] or lbr", s)
	}
	if !sized {
		return cg, nil
	}
	if cg.Mode == CallgraphFP && size == "defer" {
		cg.Deferred = true
		return cg, nil
	}
	n, err := strconv.ParseUint(size, 0, 32)
	if err != nil || cg.Mode == CallgraphLBR || n == 0 {
		return cg, fmt.Errorf("%q: want fp[,FRAMES], dwarf[,SIZE] or lbr", s)
	}
	if cg.Mode == CallgraphFP {
		if n > math.MaxUint16 {
			return cg, fmt.Errorf("chains of %d frames: want up to %d", n, math.MaxUint16)
		}
		cg.MaxStack = uint16(n)
		return cg, nil
	}
	if n = (n + 7) &^ 7; n > maxStackSize {
		return cg, fmt.Errorf("a stack of %d bytes: want up to %d", n, maxStackSize)
	}
	cg.StackSize = uint32(n)
	return cg, nil
}

// ParseClock parses the name of a clock, such as mono or CLOCK_BOOTTIME, or its
// number.
func ParseClock(s string) (int32, error) {
	name := strings.TrimPrefix(strings.ToLower(s), "clock_")
	clocks := map[string]int32{
		"realtime": 0, "real": 0, "monotonic": 1, "mono": 1, "monotonic_raw": 4, "raw": 4, "boottime": 7, "boot": 7, "tai": 11,
	}
	if id, ok := clocks[name]; ok {
		return id, nil
	}
	n, err := strconv.ParseInt(s, 10, 8)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("clock %q: want mono, raw, real, boot or tai", s)
	}
	return int32(n), nil
}
