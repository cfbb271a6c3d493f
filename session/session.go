// Package session turns the records of a recording into a profile of
// addresses: which code of which object ran, on which thread, called from
// where.
//
// It goes over the recording twice. The first pass looks at record headers
// and collects what says who was running and what was mapped: comm, fork,
// exec, exit, mmap, ksymbol. From these it builds, in the order of time, every
// state that every address space was in (see atlas). The second pass decodes
// samples, on all cores and in no order, and looks each address up in the
// state at the sample's time. No file but the recording is read.
//
// Result.Stacks goes over the samples once more, when their locations have
// names, and makes the stacks by these; Result.Callers counts samples in their
// callers and keeps no stacks. What the second pass found out about samples is
// there for them in memory as far as there is room (see recall); the others are
// read again. Result.Walk yields the records one by one, in
// the order of time.
//
// The rules by which records change the state are those of perf
// (tools/perf/util/machine.c, thread.c, map.c); docs/session.md says where
// they differ and why.
package session

import (
	"context"
	"fmt"
	"runtime"

	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/unwind"
)

// Keep says which differences between samples a profile keeps. Samples that
// differ in nothing that is kept become one.
type Keep uint32

// What can be kept.
const (
	KeepComm   Keep = 1 << iota // Thread.Comm; else it is ""
	KeepPID                     // Thread.PID; else it is -1
	KeepTID                     // Thread.TID; else it is -1
	KeepCPU                     // Sample.CPU; else it is -1
	KeepStacks                  // Sample.Stack, and the locations of all frames; else only those of the sample addresses
	KeepFrames                  // the locations of all frames, but no stacks: for Result.Stacks and Result.Walk

	// Fields of profile.Extra.
	KeepTime         // Time: see Options.TimeQuantum
	KeepAddr         // Addr and Data
	KeepPhysAddr     // PhysAddr
	KeepDataSrc      // DataSrc
	KeepWeight       // Weight, InsLat, PStage
	KeepTransaction  // Transaction
	KeepCgroup       // Cgroup, and Profile.Cgroups
	KeepNamespace    // NSDev and NSIno
	KeepDataPageSize // DataPageSize
	KeepCodePageSize // CodePageSize
	KeepMapSize      // MapSize
	KeepText         // Text: see Options.Text

	// keepSample are those that need more of a sample than its fixed fields.
	keepSample = KeepAddr | KeepPhysAddr | KeepDataSrc | KeepWeight | KeepTransaction | KeepCgroup |
		KeepDataPageSize | KeepCodePageSize | KeepText
	keepExtra = keepSample | KeepTime | KeepNamespace | KeepMapSize
)

// Options are for Load. The zero value keeps sample addresses only.
type Options struct {
	Workers int  // goroutines that decode samples; 0 means GOMAXPROCS
	Keep    Keep // dimensions of the profile

	// Filter tells which samples count. The others are as if they were not in
	// the recording, in Profile.Events and in all else.
	Filter Filter

	// TimeQuantum is what the times of KeepTime are rounded down to, in
	// nanoseconds; 0 keeps them as they are, which makes nearly every sample
	// one of its own.
	TimeQuantum uint64

	// Text tells what the raw data of a sample of an event says, for KeepText.
	// It is called by many goroutines. Of all texts together 256 MiB are kept,
	// of one the first 4 KiB.
	Text func(event int, raw []byte) string

	// Branches makes a sample of period 1 of every entry of a branch stack, as
	// perf report -b does: Sample.Location and Extra.To are where it went,
	// Extra.From where it came from. Samples without a branch stack are none.
	// KeepStacks has no effect.
	Branches bool

	// Runs fills Profile.Runs from branch stacks.
	Runs bool

	// History makes frames of the branches in branch stacks.
	History History

	// Stretches fills Profile.Stretches from branch stacks with cycles.
	Stretches bool

	// Unwind, if set, gives the call frame information of an object, nil if it
	// has none that can be trusted: the stacks of samples with a dump of the
	// user stack are unwound by it. It is called once for each object, by many
	// goroutines.
	Unwind func(*profile.Object) *unwind.Module

	// DataAnywhere looks for data addresses in the maps of process and kernel,
	// as perf script does, not only in those of the sample's code.
	DataAnywhere bool

	// MaxUnwound is how many frames an unwound stack has at most, and how many
	// the kernel's part before it: the innermost ones. 0 means 1,024.
	MaxUnwound int

	// Code, if set, gives what a file says about code that a process made at
	// run time; nil if it is not to be had. The file is an object of KindJIT.
	Code func(*profile.Object) *CodeLog

	// HitsOnly finds which objects were hit by which kind of frame, and
	// nothing else: the profile has no locations and no samples, but its
	// objects and events are complete. Keep does not matter then.
	HitsOnly bool

	// Guests looks addresses of virtual machines up in the guests' maps. They
	// are counted in Result.GuestSamples in either case.
	Guests bool

	// Progress, if set, is told of each piece of the recording whose samples
	// have been counted: its bytes, decompressed. It is called by many
	// goroutines.
	Progress func(bytes int64)

	// Walk says that Result.Walk follows. Where most of the recording is copies
	// of stacks, the samples are kept in memory without these, as far as there
	// is room, and not read again: of Sample.UserStack Walk then has the first
	// bytes only.
	Walk bool

	MaxNodes int // of the index of mappings, 32 bytes each; 0 means 32 Mi
	MaxDefer int // addresses in deferred call chains, 8 bytes each; 0 means 32 Mi

	// MaxRecall is how many bytes of memory there are for what the first pass
	// over the samples leaves for Stacks or Callers, which take longer without
	// and give the same; 0 means 256 MiB, less than 0 none.
	MaxRecall int64

	batches  bool // for tests: read as if it were not plain
	maxShort int  // for tests: instead of shortMax
}

// Hit says how an object was hit.
type Hit uint8

// The ways an object is hit.
const (
	HitIP     Hit = 1 << iota // by the address of a sample
	HitChain                  // by an address in a call chain
	HitBranch                 // by an address in a branch stack

	// HitUnwind marks objects that were mapped as code by a process of which
	// there are samples with a dump of the stack: unwinding may need them.
	HitUnwind

	HitFrame = HitIP | HitChain | HitBranch
)

// IDSource says where the build id of an object comes from.
type IDSource uint8

// The sources of build ids.
const (
	IDNone  IDSource = iota // there is none
	IDMmap                  // the MMAP2 record of the mapping
	IDTable                 // the BUILD_ID section, by name
	IDPipe                  // a BUILD_ID record, by name

	// IDAmbiguous: the section has an id for the path, but several files were
	// mapped at that path, or it has several ids. The object is left without.
	IDAmbiguous
)

// A Result is what a recording says. Slices named by object are parallel to
// Profile.Objects.
type Result struct {
	Profile *profile.Profile

	Hit       []Hit      // by object; HitChain and HitBranch need HitsOnly or KeepStacks
	Mapped    []bool     // by object: false for those that only the BUILD_ID section names
	IDSource  []IDSource // by object
	Locations []int      // by object: distinct addresses hit; 0 with HitsOnly

	MissingIDs []int32   // objects that were hit, are files, and have no build id
	Processes  []Process // by pid
	Stats      Stats

	// KernelRestricted: there are kernel addresses, but the recording does
	// not say where the kernel is, as if kernel.kptr_restrict forbade it.
	KernelRestricted bool
	KernelSamples    uint64  // samples whose address is in the host's kernel
	GuestSamples     uint64  // in a virtual machine
	Auxtrace         bool    // the recording has traces of the hardware, whose code is not known
	UserStacks       uint64  // samples with a dump of the user stack
	Branches         uint64  // samples with a branch stack
	UntimedCode      []int32 // objects of KindJIT whose times are not those of the recording
	DroppedMaps      uint64  // mappings beyond Options.MaxNodes
	DroppedChains    uint64  // deferred call chains beyond Options.MaxDefer

	l *loader // for Stacks and Walk
}

// Partial reports whether something that was recorded is not in the profile.
func (r *Result) Partial() bool {
	return r.DroppedMaps+r.DroppedChains+r.Stats.Bad+r.Profile.Lost.UnknownID > 0
}

// A Process is a pid and what it ran last.
type Process struct {
	PID     int32
	Comm    string  // "" if unknown
	Exited  bool    // before the end of the recording
	Sampled bool    // there are samples of it
	Objects []int32 // mapped as code, in order
}

// Stats counts the records of a recording, as perf report --stats does.
type Stats struct {
	Total   uint64
	Types   [256]uint64 // by record type; types from 256 up are in Other
	Other   uint64
	Bad     uint64   // records that could not be decoded, or bytes skipped
	Samples []uint64 // by event
}

// Load reads the recording f. The profile is the same for any number of
// workers. The error is that of the recording, or ctx's; damaged records are
// no error: see perfdata.File.Damage.
func Load(ctx context.Context, f *perfdata.File, o Options) (*Result, error) {
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.MaxNodes <= 0 {
		o.MaxNodes = 32 << 20
	}
	if o.MaxDefer <= 0 {
		o.MaxDefer = 32 << 20
	}
	if o.MaxRecall == 0 {
		o.MaxRecall = recallMax
	}
	keep := o.Keep
	stacks := keep&KeepStacks != 0 && !o.HitsOnly && !o.Branches
	if stacks {
		// The first time what their locations are, and what Stacks can recall.
		o.Keep = KeepFrames | keep&^KeepStacks
		if keep&keepExtra != 0 {
			o.Keep = KeepFrames | keep&KeepAddr
		}
	}
	l := newLoader(f, o)
	_, _, _, one := f.Plain()
	l.logs = one && !o.HitsOnly && o.Keep&(KeepFrames|KeepStacks) != 0 // places are those of one file
	if err := l.scan(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	if err := l.samples(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	r := l.result()
	if stacks {
		if err := r.Stacks(ctx, nil, keep); err != nil {
			return nil, err
		}
	}
	return r, nil
}
