package report

import (
	"regexp"
)

// Names of what is not an object, in the column of objects.
const (
	UnknownDSO = "[unknown]"            // no mapping at the address
	Restricted = "[kernel, restricted]" // kernel code, and the recording has no kernel map
	Unnamed    = "[unnamed mapping]"    // a mapping with an empty name
)

// Options says which rows and columns a report has. The zero value is that of
// perf report --no-children -g none: overhead, comm, dso, symbol.
type Options struct {
	Sort   []Key // what rows are told apart and ordered by; nil means comm, dso, symbol if Fields is nil too
	Fields []Key // the columns, followed by those of Sort that are missing; nil means overhead and Sort

	// AddedFields says that Fields begins with the usual counts, to which the
	// others were added: headings are those without Fields.
	AddedFields bool

	// TraceFields are what keys of FieldKey mean. Extra.Text has their values, in
	// this order.
	TraceFields []TraceField

	ShowSamples bool // a column of samples after the overhead; not used with Fields
	ShowPeriod  bool // and one of periods
	ShowCPU     bool // and shares of kernel and user space

	SourcePaths bool // source files by their paths, not their names alone

	// Timing returns how fast a function was, for the key IPC: instructions per
	// cycle, and the share of them of which that is known, in percent. It may be
	// called by many goroutines. nil: nothing is known.
	Timing func(f Function) (ipc, coverage float64)

	Nanoseconds bool // the times of the key Time in ns, not in µs

	// Children counts a sample in its callers too, once in each row. It needs
	// Profile.Stacks.
	Children bool

	// Graph is how call trees are made and drawn; its zero value is none.
	Graph Graph

	// NoInline leaves the functions that the compiler put into others out of
	// chains.
	NoInline bool

	// Hierarchy makes a tree of the keys: a row for each value of the first,
	// below it one for each of the second. Not used with Fields; Children has
	// no effect.
	Hierarchy bool

	// Together are keys that stand on one level of a hierarchy, if they follow
	// one another in the table; any other key has a level by itself.
	Together [][]Key

	// Relative makes percentages of what Filter leaves, not of everything.
	Relative bool

	Filter Filter

	// Parent names the callers that the key Parent tells rows apart by: the
	// innermost that matches, or the outermost if chains are ByCaller. nil
	// means ^sys_|^do_page_fault. With ExcludeOther samples without such a
	// caller are as if Filter had left them out.
	Parent       *regexp.Regexp
	ExcludeOther bool

	// IgnoreCallees makes what matches the begin of the chain: what it called
	// is left out. nil means nothing.
	IgnoreCallees *regexp.Regexp

	// MaxStack cuts chains after so many locations from their begin, which is
	// the outermost if they are ByCaller, as perf has it; 0 does not cut.
	MaxStack int

	// Memory says that samples are of memory accesses (--mem-mode): the page
	// calls the period a weight, and names the keys as SortOrder does, or their
	// default.
	Memory    bool
	SortOrder string

	// HideUnresolved leaves out samples and callers without a name.
	HideUnresolved bool

	// Restricted says that the recording has no map of the kernel: kernel
	// addresses stand under that name instead of as unknown.
	Restricted bool

	Groups    []Group // events shown side by side; the others have a table each
	GroupSort int     // the member of a group whose counts order the rows; 0 is the leader
	KeepEmpty bool    // tables of events without samples too

	Sockets []int32 // socket by CPU, for the key Socket; -1 or no entry if unknown

	Workers int // goroutines; 0 means GOMAXPROCS
}

// A Filter leaves rows out. What it leaves out still counts in the totals,
// unless Options.Relative. Empty fields leave nothing out.
type Filter struct {
	Comms   []string
	DSOs    []string // short names, or paths
	Symbols []string // names; or 0xADDR, an address at run time, or that at which a symbol begins
	PIDs    []int32
	TIDs    []int32
	Sockets []int32
	Cgroups []string // paths, with or without the / they begin with

	// SymbolPart is a part of the names of the symbols shown. In contrast to
	// Symbols it leaves out rows, not samples.
	SymbolPart string
}

func (f *Filter) empty() bool {
	return len(f.Comms)+len(f.DSOs)+len(f.Symbols)+len(f.PIDs)+len(f.TIDs)+len(f.Sockets)+len(f.Cgroups) == 0
}

// A GraphMode is how call trees are drawn.
type GraphMode uint8

// The modes.
const (
	GraphNone    GraphMode = iota
	GraphTree              // "graph": shares of the event
	GraphFractal           // shares of the caller above
	GraphFlat              // a chain below the other
	GraphFolded            // a chain in a line
)

// An Order is the direction of chains.
type Order uint8

// The orders.
const (
	ByCallee Order = iota // innermost first
	ByCaller              // outermost first
)

// A ChainKey is what frames of chains are told apart by.
type ChainKey uint8

// The keys of chains.
const (
	ByFunction ChainKey = iota
	ByAddress
	BySrcline
)

// A ChainValue is what is printed of a chain.
type ChainValue uint8

// The values of chains.
const (
	ValuePercent ChainValue = iota
	ValuePeriod
	ValueCount
)

// Graph says how call trees are made and drawn.
type Graph struct {
	Mode       GraphMode
	Order      Order
	Key        ChainKey
	Value      ChainValue
	MinPercent float64 // smaller branches are not drawn: of the event, with GraphFractal of the branch above
	PrintLimit int     // branches drawn at most side by side; 0 means all
}

// A Group is a set of events that were counted together: one table shows them
// side by side.
type Group struct {
	Name    string  // "" for a group without one
	Forced  bool    // not a group of the recording: asked for with --group
	Members []int32 // indices into Profile.Events, the leader first
}

// A Count is a number of samples and the sum of their periods.
type Count struct {
	Samples uint64
	Period  uint64
}

func (c *Count) add(d Count) {
	c.Samples += d.Samples
	c.Period += d.Period
}
