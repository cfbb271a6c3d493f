// Package doctor says why frames of a recording have no names or no callers,
// what a recording made on a host would miss, and the exact command that
// helps. It takes what session and symbol found, and files of the host under a
// root directory; it changes nothing, runs nothing and asks no network.
package doctor

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/perfark/perfark/buildid"
)

// A Kind is the word for a finding, for programs that read it.
type Kind string

// The kinds of findings.
const (
	Symbols     Kind = "symbols"      // an object's frames have no names
	Kernel      Kind = "kernel"       // kernel frames have no names
	JIT         Kind = "jit"          // code made at run time has no names
	Clock       Kind = "clock"        // the clock of the recording does not fit jitdump files
	FramePtr    Kind = "frame-ptr"    // call chains end in code without frame pointers
	NoChains    Kind = "no-chains"    // no call chains were recorded
	DeepChains  Kind = "deep-chains"  // call chains were cut at the kernel's limit
	Lines       Kind = "lines"        // names, but no source lines and no inlined functions
	BuildIDs    Kind = "build-ids"    // objects were recorded without Build IDs
	Unverified  Kind = "unverified"   // names come from a file that no Build ID ties to the recording
	Namespace   Kind = "namespace"    // files are in another mount or pid namespace, or gone
	OtherUser   Kind = "other-user"   // what is missing may be in another user's cache
	Lost        Kind = "lost"         // the kernel could not keep up
	Throttled   Kind = "throttled"    // the kernel took fewer samples than asked for
	Truncated   Kind = "truncated"    // a part of the recording is gone
	Guest       Kind = "guest"        // samples of virtual machines
	Trace       Kind = "trace"        // hardware traces, which are not decoded
	Empty       Kind = "empty"        // no samples at all
	Capability  Kind = "capability"   // what the user may not do
	KernelAddrs Kind = "kernel-addrs" // the kernel hides its addresses
	NoEvents    Kind = "no-events"    // the kernel or the machine has no such events
	Container   Kind = "container"    // perf would run in a container
	LinkID      Kind = "link-id"      // a file has no Build ID
)

// A Level says how much a finding matters.
type Level uint8

// The levels, the worst first.
const (
	Loss Level = iota // names, callers or samples are lost
	Risk              // what is shown may be wrong or less than it could be
	Note              // good to know
)

// String returns the level's word.
func (l Level) String() string {
	switch l {
	case Loss:
		return "loss"
	case Risk:
		return "risk"
	}
	return "note"
}

// MarshalText returns the level's word.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// A Fix is a command that helps.
type Fix struct {
	Command string // for a shell; "" if When says all
	When    string // where to run it, or what it needs: "on the host that recorded"; "" if nothing
}

// A Finding is something that is wrong, or will be.
type Finding struct {
	Kind    Kind
	Level   Level
	Object  string     // path of the object; "" if it is about more than one
	ID      buildid.ID // of the object; "" if it has none
	Samples uint64     // samples that lose something by it; 0 if it is not about samples, or none can be counted
	What    string     // what is wrong and why, in plain words

	// Of Addresses, the distinct ones in the object that were hit, so many have
	// no name; 0 if it is not about names.
	Unnamed, Addresses int

	Fixes []Fix // what helps, the best first; others are alternatives
}

// fix adds a command to f.
func (f *Finding) fix(command, when string) {
	x := Fix{command, when}
	if (command != "" || when != "") && !slices.Contains(f.Fixes, x) {
		f.Fixes = append(f.Fixes, x)
	}
}

// Sort puts findings in the order of samples, the most first; those about no
// samples follow by level.
func Sort(list []Finding) {
	slices.SortStableFunc(list, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(levelRank(a), levelRank(b)), cmp.Compare(b.Samples, a.Samples), cmp.Compare(a.Level, b.Level))
	})
}

// levelRank keeps notes behind all others, whatever they count.
func levelRank(f Finding) int {
	if f.Level == Note {
		return 1
	}
	return 0
}

// quote returns s as a shell takes it for one word.
func quote(s string) string {
	if s != "" && strings.Trim(s, "/._-+@:,=%abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// thousands writes n with commas.
func thousands[N int | uint64](n N) string {
	s := strconv.FormatUint(uint64(n), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// count writes a number of things.
func count(n uint64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return thousands(n) + " " + thing + "s"
}
