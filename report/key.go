// Package report turns a profile into tables, as data and as text. It knows
// nothing of files: what goes in is a *profile.Profile, what comes out are
// rows in perf's order with perf's numbers, their call trees, and the page
// that perf report --stdio prints.
package report

import (
	"fmt"
	"strings"
)

// A Key is a column of a table: something to tell rows apart by, or something
// that is counted. Those behind the names below are of fields of tracepoints:
// see FieldKey.
type Key uint16

// The keys. PID and TID both go by thread, as perf's pid does; only the
// heading differs.
const (
	Overhead         Key = iota // share of the event's period
	Samples                     // number of samples
	Period                      // sum of their periods
	OverheadChildren            // share of the period with that of what was called
	OverheadSys                 // share of the event's period, in the kernel
	OverheadUser                // and in user space
	OverheadGuestSys            // and in the kernel of a virtual machine
	OverheadGuestUser
	PID
	Comm
	DSO
	Symbol
	CPU
	TID
	SymbolOffset // symbol and distance from its begin
	Parent       // caller that Options.Parent names
	Socket
	Srcline
	Srcfile
	SymbolSize
	LocalWeight // average of a sample
	Weight      // sum of the samples
	LocalInsLat
	InsLat
	LocalPStage
	PStage
	Transaction
	Cgroup
	CgroupID
	Time
	CodePageSize
	DSOSize // of the mapping, as perf has it
	IPCNull // nothing, in the place of IPC where there are no branches
	Addr    // of the code, at run time

	// Of branches.
	DSOFrom
	DSOTo
	SymbolFrom
	SymbolTo
	SrclineFrom
	SrclineTo
	AddrFrom
	AddrTo
	Mispredict
	Abort
	InTx
	IPC // instructions per cycle of the function: see Options.Timing
	Cycles

	// Of what was loaded or stored.
	SymbolData
	DSOData
	SymbolCode
	Mem
	Locked
	TLB
	Snoop
	Blocked
	CacheLine
	PhysAddr
	DataPageSize

	Trace // what a tracepoint's data says

	numKeys
)

// A kind says what the value of a key hangs on.
type kind uint8

const (
	ofCounts kind = iota
	ofThread
	ofPlace // of the code: a location, or an inlined function there
	ofCPU
	ofExtra
	ofChain // of the callers
)

const ipcHeading = "IPC   [IPC Coverage]"

// keyTable is in the order in which perf tries the names against an
// abbreviation (tools/perf/util/sort.c), our own ones last.
var keyTable = []struct {
	name    string
	key     Key
	kind    kind
	heading string
}{
	{"pid", PID, ofThread, "    Pid:Command"},
	{"comm", Comm, ofThread, "Command"},
	{"dso", DSO, ofPlace, "Shared Object"},
	{"symbol", Symbol, ofPlace, "Symbol"},
	{"parent", Parent, ofChain, "Parent symbol"},
	{"cpu", CPU, ofCPU, "CPU"},
	{"socket", Socket, ofCPU, "Socket"},
	{"srcline", Srcline, ofPlace, "Source:Line"},
	{"srcfile", Srcfile, ofPlace, "Source File"},
	{"local_weight", LocalWeight, ofExtra, "Local Weight"},
	{"weight", Weight, ofExtra, "Weight"},
	{"transaction", Transaction, ofExtra, "Transaction                "},
	{"trace", Trace, ofExtra, "Trace output"},
	{"symbol_size", SymbolSize, ofPlace, "Symbol size"},
	{"dso_size", DSOSize, ofExtra, "DSO size"},
	{"cgroup", Cgroup, ofExtra, "Cgroup"},
	{"cgroup_id", CgroupID, ofExtra, "cgroup id (dev/inode)"},
	{"ipc_null", IPCNull, ofPlace, ipcHeading},
	{"time", Time, ofExtra, "Time"},
	{"code_page_size", CodePageSize, ofExtra, "Code Page Size"},
	{"local_ins_lat", LocalInsLat, ofExtra, "Local INSTR Latency"},
	{"ins_lat", InsLat, ofExtra, "INSTR Latency"},
	{"local_p_stage_cyc", LocalPStage, ofExtra, "Local Pipeline Stage Cycle"},
	{"p_stage_cyc", PStage, ofExtra, "Pipeline Stage Cycle"},
	{"addr", Addr, ofPlace, "Address"},
	{"dso_from", DSOFrom, ofExtra, "Source Shared Object"},
	{"dso_to", DSOTo, ofExtra, "Target Shared Object"},
	{"symbol_from", SymbolFrom, ofExtra, "Source Symbol"},
	{"symbol_to", SymbolTo, ofExtra, "Target Symbol"},
	{"mispredict", Mispredict, ofExtra, "Branch Mispredicted"},
	{"abort", Abort, ofExtra, "Transaction abort"},
	{"in_tx", InTx, ofExtra, "Branch in transaction"},
	{"cycles", Cycles, ofExtra, "Basic Block Cycles"},
	{"srcline_from", SrclineFrom, ofExtra, "From Source:Line"},
	{"srcline_to", SrclineTo, ofExtra, "To Source:Line"},
	{"ipc_lbr", IPC, ofPlace, ipcHeading},
	{"addr_from", AddrFrom, ofExtra, "Source Address"},
	{"addr_to", AddrTo, ofExtra, "Target Address"},
	{"symbol_daddr", SymbolData, ofExtra, "Data Symbol"},
	{"dso_daddr", DSOData, ofExtra, "Data Object"},
	{"locked", Locked, ofExtra, "Locked"},
	{"tlb", TLB, ofExtra, "TLB access"},
	{"mem", Mem, ofExtra, "Memory access"},
	{"snoop", Snoop, ofExtra, "Snoop"},
	{"dcacheline", CacheLine, ofExtra, "Data Cacheline"},
	{"symbol_iaddr", SymbolCode, ofPlace, "Code Symbol"},
	{"phys_daddr", PhysAddr, ofExtra, "Data Physical Address"},
	{"data_page_size", DataPageSize, ofExtra, "Data Page Size"},
	{"blocked", Blocked, ofExtra, "Blocked"},
	{"overhead", Overhead, ofCounts, "Overhead"},
	{"overhead_sys", OverheadSys, ofCounts, "sys"},
	{"overhead_us", OverheadUser, ofCounts, "usr"},
	{"overhead_guest_sys", OverheadGuestSys, ofCounts, "guest sys"},
	{"overhead_guest_us", OverheadGuestUser, ofCounts, "guest usr"},
	{"overhead_children", OverheadChildren, ofCounts, "Children"},
	{"sample", Samples, ofCounts, "Samples"},
	{"period", Period, ofCounts, "Period"},
	{"tid", TID, ofThread, "    Tid:Command"},
	{"symoff", SymbolOffset, ofPlace, "Symbol Offset"},
}

// keyOf is the index in keyTable, by key.
var keyOf = func() (of [numKeys]uint8) {
	for i, n := range keyTable {
		of[n.key] = uint8(i)
	}
	return of
}()

// String returns the name of k as --sort takes it.
func (k Key) String() string {
	if k < numKeys {
		return keyTable[keyOf[k]].name
	}
	return fmt.Sprintf("field %d", k.field())
}

// OfBranch reports whether only branches have k.
func (k Key) OfBranch() bool { return k >= DSOFrom && k <= Cycles }

// counts reports whether k is something that is counted, not told apart by.
func (k Key) counts() bool { return k <= OverheadGuestUser }

func (k Key) kind() kind {
	if k >= numKeys {
		return ofExtra
	}
	return keyTable[keyOf[k]].kind
}

// heading is the title of the column.
func (k Key) heading() string { return keyTable[keyOf[k]].heading }

// Default orders of perf report: for samples, for branches (-b), for samples of
// memory accesses (--mem-mode), and for those of tracepoints alone.
var (
	DefaultSort       = []Key{Comm, DSO, Symbol}
	DefaultTraceSort  = []Key{Trace}
	DefaultBranchSort = []Key{Comm, DSOFrom, SymbolFrom, SymbolTo, Cycles}
	DefaultMemSort    = []Key{LocalWeight, Mem, Symbol, DSO, SymbolData, DSOData, Snoop, TLB, Locked, Blocked, LocalInsLat, LocalPStage}
)

// ParseKeys parses a list of keys separated by commas or spaces. As with perf,
// case does not matter, a name may be cut short, and a key named twice counts once.
// Other words are those of fields of tracepoints, for which it asks field, if
// that is not nil: none are an error, which names the word and what is accepted.
// Braces are for [ParseLevels].
func ParseKeys(list string, field func(word string) ([]Key, error)) ([]Key, error) {
	keys, _, err := ParseLevels(list, field)
	return keys, err
}

// ParseLevels is as ParseKeys, and returns too which keys stand together on one
// level of a hierarchy: those in braces, as in {comm,dso},symbol, and all fields
// that one word names.
func ParseLevels(list string, field func(word string) ([]Key, error)) (keys []Key, together [][]Key, err error) {
	var group []Key
	in := false
	for list != "" {
		word, end := list, byte(0)
		if i := strings.IndexAny(list, "{}, "); i >= 0 {
			word, end, list = list[:i], list[i], list[i+1:]
		} else {
			list = ""
		}
		more, err := parseKey(strings.TrimSpace(word), field)
		if err != nil {
			return nil, nil, err
		}
		n := len(keys)
		for _, k := range more {
			keys = appendKey(keys, k)
		}
		group = append(group, keys[n:]...)
		if !in {
			if len(group) > 1 {
				together = append(together, group)
			}
			group = nil
		}
		switch end {
		case '{':
			in = true
		case '}':
			in = false // but what follows without a comma is still of the group, as with perf
		}
	}
	if len(group) > 1 {
		together = append(together, group)
	}
	return keys, together, nil
}

// parseKey returns the keys of a word; none for an empty one.
func parseKey(word string, field func(word string) ([]Key, error)) ([]Key, error) {
	if word == "" {
		return nil, nil
	}
	if k, ok := namedKey(strings.ToLower(word)); ok {
		return []Key{k}, nil
	}
	if field != nil {
		if more, err := field(word); err != nil || len(more) > 0 {
			return more, err
		}
	}
	return nil, fmt.Errorf("unknown key %q: want some of %s", word, keyList())
}

// namedKey returns the key of a name, or of the begin of one.
func namedKey(word string) (Key, bool) {
	for _, n := range keyTable {
		if n.name == word {
			return n.key, true
		}
	}
	for _, n := range keyTable {
		if strings.HasPrefix(n.name, word) {
			return n.key, true
		}
	}
	return 0, false
}

func keyList() string {
	names := make([]string, len(keyTable))
	for i, n := range keyTable {
		names[i] = n.name
	}
	return strings.Join(names, ", ")
}

// Keys returns all keys but those of fields of tracepoints.
func Keys() []Key {
	keys := make([]Key, numKeys)
	for i := range keys {
		keys[i] = Key(i)
	}
	return keys
}

// appendKey appends k unless it is there.
func appendKey(keys []Key, k Key) []Key {
	for _, have := range keys {
		if have == k {
			return keys
		}
	}
	return append(keys, k)
}
