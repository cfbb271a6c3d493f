package symbol

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
)

// A Reason is why frames have no name.
type Reason string

// The reasons. Their text is what lists print.
const (
	Named        Reason = ""
	NoBuildID    Reason = "no build id in the recording"
	NotFound     Reason = "no file with this build id was found"
	Mismatch     Reason = "the file that is there has another build id"
	Replaced     Reason = "the file that is there is not the one that was mapped"
	Ambiguous    Reason = "different programs carry this build id"
	Stripped     Reason = "stripped: the file has no symbols"
	Exported     Reason = "stripped: the file has symbols for the functions it exports only"
	OnlyGo       Reason = "stripped: the file has the names of its Go functions only"
	NoRuntime    Reason = "only the debug file was found: the program itself is needed too"
	Gap          Reason = "no symbol at these addresses"
	Damaged      Reason = "the file cannot be read"
	Restricted   Reason = "kernel addresses were restricted when kallsyms was saved"
	NoKallsyms   Reason = "no kallsyms or vmlinux of this kernel was found"
	OtherBoot    Reason = "kallsyms is of another boot, and lacks the reference symbol"
	NoModule     Reason = "neither kallsyms nor a file of this build id has the module"
	NoVDSO       Reason = "the vDSO of this kernel was not captured"
	NoPerfMap    Reason = "code made at run time, without a perf map"
	NoJITDump    Reason = "code made at run time, whose jitdump file was not found"
	Deleted      Reason = "the file was deleted"
	Memfd        Reason = "the program lived in memory only (memfd)"
	NoMapping    Reason = "no mapping at these addresses: not code, or the stack was not followed rightly"
	Hidden       Reason = "kernel addresses without a mapping: they were hidden from the one who recorded"
	NotCode      Reason = "the mapping is not of a file with code"
	NotPermitted Reason = "the file may not be read"

	// Why there is no machine code.
	NoVmlinux Reason = "no vmlinux of this kernel, or file of this module, was found"
	NoJITCode Reason = "no code bytes were recorded for it: code made at run time, known by a perf map alone"
	NoSize    Reason = "no code bytes: the function has no size"
	NoBPFCode Reason = "no code bytes were recorded for it: a BPF program"
	LeftOut   Reason = "its code was left out of a slim copy, which was made for another recording"

	// Why there are no lines and no inlined functions.
	NoDebugInfo Reason = "no debug information"
	NoLineTable Reason = "debug information without source lines"
	NoShared    Reason = "the debug information that it shares with other programs (dwz) was not found"
	NoSplit     Reason = "its split debug information (.dwo or .dwp) was not found"
)

// hint returns what would give the frames of an object their names, as advice
// with a command in it where there is one; "" if nothing would.
func (r Reason) hint(path string) string {
	q := quote(path)
	switch r {
	case NoBuildID:
		if isArchive(path) {
			return "on the host that recorded, in the same boot: perfark archive; names come from the libraries inside"
		}
		return "build it with a build id: gcc -Wl,--build-id, go build -ldflags=-B=gobuildid"
	case NotFound, NoModule, NoRuntime:
		return "on the host that recorded: perfark buildid-cache --add " + q + ", then perfark archive"
	case Mismatch, Replaced, Ambiguous, Deleted:
		return "find the very build that ran: perfark buildid-cache --add FILE, or --symbols DIR"
	case Stripped, Exported, OnlyGo:
		return "install its debug symbols, or: perfark buildid-cache --update UNSTRIPPED-FILE"
	case Restricted, Hidden:
		return "record and archive as root with sysctl kernel.kptr_restrict=0"
	case NoKallsyms, OtherBoot:
		return "on the host that recorded, in the same boot, as root: perfark archive"
	case NoJITDump:
		return "on the host that recorded, while the file is there: perfark archive"
	case NoVDSO:
		return "on the host that recorded, with the same kernel: perfark archive"
	case NoPerfMap:
		return "let the run time write /tmp/perf-PID.map: java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit, node --perf-basic-prof, python -X perf; or a jitdump: perf record -k mono node --perf-prof"
	case Memfd:
		return "archive while the process lives: perfark archive"
	case NoMapping:
		return "compile with -fno-omit-frame-pointer, or record with --call-graph dwarf"
	case NotPermitted:
		return "as root: perfark archive"
	case NoDebugInfo, NoLineTable:
		return "install its debug symbols, or compile with -g"
	}
	return ""
}

// quote quotes a path for a shell where it needs to be.
func quote(path string) string {
	if path != "" && strings.Trim(path, "/._-+@:,=abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == "" {
		return path
	}
	for i := range len(path) {
		if path[i] < ' ' || path[i] >= 0x7f {
			return "$" + "'" + strings.Trim(strings.ReplaceAll(strconv.QuoteToASCII(path), "'", `\'`), `"`) + "'"
		}
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// An ObjectOutcome is how far the frames of one object got their names.
type ObjectOutcome struct {
	Object int32 // index in Profile.Objects; profile.None for frames without a mapping

	Frames, FramesNamed     int    // distinct locations
	Samples, SamplesUnnamed uint64 // those with a frame here, and with one here that has no name

	Quality    objfile.Quality // of the best file used
	Kallsyms   bool            // names came from kallsyms; Quality means nothing
	Origins    []string        // where the files used came from
	Unverified bool            // nothing ties a file used to the recording but its path

	FramesLined int    // distinct locations with a source line; 0 if lines were not asked for
	LineReason  Reason // why others have none; "" if nothing is known to be missing
	LineDetail  string // particulars, such as the path of a missing file; "" if there are none
	LineHint    string // what would help; "" if nothing would

	Reason   Reason   // why frames have no name; Named if all have, or if there are none
	Detail   string   // particulars, such as the error; "" if there are none
	Hint     string   // what would help; "" if nothing would
	Warnings []string // defects of the files that were passed over
}

// A Coverage says how many frames and samples have names.
type Coverage struct {
	Frames, FramesNamed        int    // distinct locations
	Samples, SamplesFullyNamed uint64 // a fully named sample has a name for each of its frames
}

// Percent returns the share of frames with a name, in percent, rounded down to two
// decimals: 100 only if none lacks one. It is 100 if there are no frames.
func (c Coverage) Percent() float64 {
	return float64(share(uint64(c.FramesNamed), uint64(c.Frames), 100)) / 100
}

// String returns, in one line:
//
//	coverage: 99.31 % of 12,481 frames (98.9 % of samples fully named)
//
// Shares are rounded down: it says 100 only if nothing lacks a name.
func (c Coverage) String() string {
	f := share(uint64(c.FramesNamed), uint64(c.Frames), 100)
	s := share(c.SamplesFullyNamed, c.Samples, 10)
	return fmt.Sprintf("coverage: %d.%02d %% of %s frames (%d.%d %% of samples fully named)", f/100, f%100, group(c.Frames), s/10, s%10)
}

// share returns 100·part/whole in units of 1/unit percent, rounded down.
func share(part, whole, unit uint64) uint64 {
	if whole == 0 || part >= whole {
		return 100 * unit
	}
	for part > 1<<48 {
		part, whole = part>>1, whole>>1
	}
	return min(part*100*unit/whole, 100*unit-1)
}

// group writes n with commas between its thousands.
func group(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// An Outcome is what Resolve did.
type Outcome struct {
	Objects        []ObjectOutcome // one per object of the profile, in its order
	Unmapped       ObjectOutcome   // the frames in user space without an object
	UnmappedKernel ObjectOutcome   // the frames in the kernel without an object
	Coverage       Coverage
}

// Missing returns the outcomes that have frames without names, those with
// the most samples first.
func (o *Outcome) Missing() []ObjectOutcome {
	var out []ObjectOutcome
	for _, x := range append(o.Objects[:len(o.Objects):len(o.Objects)], o.Unmapped, o.UnmappedKernel) {
		if x.Frames > x.FramesNamed {
			out = append(out, x)
		}
	}
	slices.SortStableFunc(out, func(a, b ObjectOutcome) int {
		if c := cmp.Compare(b.SamplesUnnamed, a.SamplesUnnamed); c != 0 {
			return c
		}
		return cmp.Compare(b.Frames-b.FramesNamed, a.Frames-a.FramesNamed)
	})
	return out
}

// Unlined returns the outcomes that lack source lines or inlined functions for
// a known reason, those with the most samples first; none if lines were not
// asked for.
func (o *Outcome) Unlined() []ObjectOutcome {
	var out []ObjectOutcome
	for _, x := range o.Objects {
		if x.LineReason != "" {
			out = append(out, x)
		}
	}
	slices.SortStableFunc(out, func(a, b ObjectOutcome) int { return cmp.Compare(b.Samples, a.Samples) })
	return out
}

// cover counts frames and samples, after locations got their functions.
func (o *Outcome) cover(p *profile.Profile) {
	for i := range p.Locations {
		l := &p.Locations[i]
		x := o.of(objectOf(l))
		x.Frames++
		o.Coverage.Frames++
		if f := p.FramesOf(l); len(f) > 0 && f[0].Line > 0 {
			x.FramesLined++
		}
		if l.Func != profile.None {
			x.FramesNamed++
			o.Coverage.FramesNamed++
		}
	}
	c := newUnnamed(p)
	counts := map[int32]uint64{}
	for i := range p.Samples {
		s := &p.Samples[i]
		set := c.location(c.stack(s.Stack), s.Location)
		counts[set] += s.Count
		o.Coverage.Samples += s.Count
	}
	o.Coverage.SamplesFullyNamed = counts[0]
	for set, n := range counts {
		for ; set != 0; set = c.sets[set].rest {
			o.of(c.sets[set].object).SamplesUnnamed += n
		}
	}
	for i := range o.Objects {
		o.Objects[i].Samples = p.Objects[i].Samples
	}
	o.Unmapped.Samples = o.Unmapped.SamplesUnnamed
	o.UnmappedKernel.Samples = o.UnmappedKernel.SamplesUnnamed
}

// unmappedKernel stands for the object of kernel frames that have none.
const unmappedKernel = -2

func objectOf(l *profile.Location) int32 {
	if l.Object < 0 && l.Level == profile.LevelKernel {
		return unmappedKernel
	}
	return l.Object
}

func (o *Outcome) of(object int32) *ObjectOutcome {
	if object == unmappedKernel {
		return &o.UnmappedKernel
	}
	if object < 0 || int(object) >= len(o.Objects) {
		return &o.Unmapped
	}
	return &o.Objects[object]
}

// unnamed finds, for each stack, the set of objects in which it has frames
// without a name. Sets are numbers of lists; equal stacks share them, so each
// stack is looked at once. Set 0 is empty.
type unnamed struct {
	p     *profile.Profile
	sets  []unnamedSet
	index map[unnamedSet]int32
	memo  []int32 // by stack; unknown at first
}

type unnamedSet struct {
	rest   int32 // the set without object
	object int32
}

const unknown = -1

func newUnnamed(p *profile.Profile) *unnamed {
	u := &unnamed{p: p, sets: make([]unnamedSet, 1), index: map[unnamedSet]int32{}, memo: make([]int32, len(p.Stacks))}
	for i := range u.memo {
		u.memo[i] = unknown
	}
	return u
}

// stack returns the set of a stack.
func (u *unnamed) stack(s int32) int32 {
	var path []int32
	for s >= 0 && int(s) < len(u.memo) && u.memo[s] == unknown {
		u.memo[s] = 0 // ends a cycle
		path = append(path, s)
		s = u.p.Stacks[s].Caller
	}
	set := int32(0)
	if s >= 0 && int(s) < len(u.memo) {
		set = u.memo[s]
	}
	for _, s := range slices.Backward(path) {
		set = u.location(set, u.p.Stacks[s].Location)
		u.memo[s] = set
	}
	return set
}

// location returns the set with the object of a location in it, if that has
// no name.
func (u *unnamed) location(set, loc int32) int32 {
	if loc < 0 || int(loc) >= len(u.p.Locations) || u.p.Locations[loc].Func != profile.None {
		return set
	}
	object := objectOf(&u.p.Locations[loc])
	for s := set; s != 0; s = u.sets[s].rest {
		if u.sets[s].object == object {
			return set
		}
	}
	key := unnamedSet{set, object}
	n, ok := u.index[key]
	if !ok {
		n = int32(len(u.sets))
		u.sets = append(u.sets, key)
		u.index[key] = n
	}
	return n
}
