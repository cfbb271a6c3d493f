// Package profile is the model that every view reads: samples over stacks of
// locations in objects, as tables with int32 handles. It knows nothing of
// perf.data, files or views.
package profile

import "github.com/perfark/perfark/buildid"

// None is the handle of nothing: no object, no stack, no function.
const None = -1

// A Profile is a set of tables. Handles are indices into them.
type Profile struct {
	Events    []Event
	Objects   []Object
	Locations []Location
	Functions []Function
	Stacks    []Stack
	Threads   []Thread
	Samples   []Sample
	Callers   []Sample // what the samples through a location count, once each; nil if that was not counted
	Frames    []Frame
	Files     []string // source files, as the debug information names them; bytes
	Extras    []Extra
	Runs      []Run             // of code without a branch that was taken; nil if that was not kept
	Stretches []Stretch         // of code, with the time they took; nil if that was not kept
	Cgroups   map[uint64]string // path by id
	Lost      Lost
}

// An Event is what was counted.
type Event struct {
	Name    string
	Samples uint64 // number of samples
	Period  uint64 // their sum
}

// An ObjectKind says what a mapping was of.
type ObjectKind uint8

// The kinds of objects.
const (
	KindFile        ObjectKind = iota // a binary or library
	KindKernel                        // the kernel image
	KindModule                        // a kernel module
	KindVDSO                          // the kernel's page of code in user space
	KindPerfMap                       // code made at run time, named by /tmp/perf-PID.map
	KindBPF                           // kernel code made at run time: a KSYMBOL
	KindGuestKernel                   // the kernel of a virtual machine
	KindGuestModule
	KindSpecial // [heap], [stack], SysV memory: no symbols
	KindUnnamed // a mapping with an empty name
	KindJIT     // code made at run time, with its names in a jitdump file: addresses are offsets in it
)

// An Object is a thing that was mapped: a file with an identity. One path
// with two ids is two objects.
type Object struct {
	Kind    ObjectKind
	Path    string     // as perf's long name; bytes
	Short   string     // as perf's short name: base name, [module], [JIT] tid N
	BuildID buildid.ID // "" if the recording has none
	PID     int32      // KindPerfMap, KindJIT: whose; else 0
	Guest   int32      // of a virtual machine: the pid of its process, -1 if unknown; 0: of the host

	// Identity of the file where the recording gives it; 0 if not.
	Maj, Min    uint32
	Ino, InoGen uint64

	// Container is the path of the file that was mapped, if this object is one
	// inside of it, such as a library in an APK, and Offset where it begins
	// there. Path is then that of the container, !/, and the name inside; Addr
	// of its locations counts from its own beginning. Set by symbol.
	Container string
	Offset    uint64
	Outer     int32 // the object of the container, if there is one

	// RefAddr is the run-time address of the kernel's reference symbol (_text
	// or _stext, RefName), and Start and End the recorded range: kernel and
	// modules. 0 if unknown.
	RefName    string
	RefAddr    uint64
	Start, End uint64

	Samples uint64 // samples with at least one frame here
	Note    string // why its frames have no names, or "unverified: …"; set by symbol
}

// Levels of a location, as perf prints them.
const (
	LevelKernel     = 'k'
	LevelUser       = '.'
	LevelGuest      = 'g'
	LevelGuestUser  = 'u'
	LevelHypervisor = 'H'
)

// A Location is an address in an object.
type Location struct {
	Object int32  // None: no mapping at this address
	Level  byte   // one of the levels above
	IP     uint64 // as sampled (of one sample of several that share the location)
	Addr   uint64 // file offset in a user object; address for the kernel, modules, perf maps; IP if Object is None
	Func   int32  // set by symbol; None: no name

	// Profile.Frames[Frames:Frames+NFrames] are what the compiler put at this
	// address: innermost first, the function that the machine code belongs to
	// last. Set by symbol if asked for; NFrames is 0 if nothing is known.
	Frames  int32
	NFrames uint16
}

// A Frame is a function at a location, and the source line there.
type Frame struct {
	Func int32 // None: no name
	File int32 // index into Files; None: unknown
	Line int32 // from 1; 0: unknown
}

// FramesOf returns the frames of a location, innermost first; none if nothing
// is known of it.
func (p *Profile) FramesOf(l *Location) []Frame {
	return p.Frames[l.Frames : l.Frames+int32(l.NFrames)]
}

// AddAddress adds a location at an address of an object, in the space of
// Location.Addr, with a sample of its own: so it is known to be that of an
// instruction, not of the one behind a call. It returns its handle. Addresses
// that a recording does not have are named in a profile that is made of them;
// their Level, LevelUser, means nothing for names.
func (p *Profile) AddAddress(object int32, addr uint64) (location int32) {
	location = int32(len(p.Locations))
	p.Locations = append(p.Locations, Location{Object: object, Level: LevelUser, IP: addr, Addr: addr, Func: None})
	p.Samples = append(p.Samples, Sample{CPU: -1, Location: location, Stack: None, Extra: None, Count: 1})
	return location
}

// Recorded returns the object and the address that a location has in the
// recording: of an object inside of another, those in the container.
func (p *Profile) Recorded(l *Location) (object int32, addr uint64) {
	if l.Object >= 0 && int(l.Object) < len(p.Objects) {
		if o := &p.Objects[l.Object]; o.Container != "" {
			return o.Outer, l.Addr + o.Offset
		}
	}
	return l.Object, l.Addr
}

// A Function is a symbol of an object.
type Function struct {
	Object     int32
	Name       string // demangled; bytes
	Linkage    string // as in the symbol table
	Start, End uint64 // half-open, in the space of Location.Addr
	Inlined    bool   // it stands in other functions here: Start and End are those of the outermost
}

// A Stack is a frame and its callers; equal stacks are stored once.
type Stack struct {
	Location int32
	Caller   int32 // the stack of the caller; None at the outermost frame
}

// A Thread is a thread under one of its names.
type Thread struct {
	PID, TID int32
	Comm     string // at the time of its samples; ":TID" if it had none yet

	// Later is the first name that a thread without one was given after its
	// samples, and Last the last name of TID in the recording. "" if there is
	// none, or it was not kept.
	Later, Last string
}

// A Sample is what was counted in one place: equal ones are added up.
type Sample struct {
	Event    int32
	Thread   int32
	CPU      int32  // -1 if unknown, or not kept
	Location int32  // of the sample's ip
	Stack    int32  // call chain and branch stack; None if there is none, or not kept
	Extra    int32  // index into Extras; None if there is nothing, or it was not kept
	Count    uint64 // number of samples
	Period   uint64 // their sum
}

// An Extra is what few recordings have, and few reports ask for. Fields that
// were not recorded or not kept are 0, locations None.
type Extra struct {
	Time         uint64 // nanoseconds of the recording's clock
	Addr         uint64 // data address, as sampled
	Data         int32  // location of Addr
	PhysAddr     uint64
	DataPageSize uint64
	CodePageSize uint64
	MapSize      uint64 // bytes of the mapping with the sample's address, or where the branch went; 0: there is none
	DataSrc      uint64 // perf_mem_data_src
	Weight       uint64
	InsLat       uint16 // instruction latency, cycles
	PStage       uint16 // pipeline stage latency, cycles
	Transaction  uint64
	Cgroup       uint64 // id: see Profile.Cgroups
	NSDev, NSIno uint64 // of the thread's cgroup namespace

	// Of a branch, if samples are branches.
	From, To     int32  // locations
	BranchFlags  uint64 // the bits of perf_branch_entry behind from and to
	BranchCycles uint16 // since the branch before; 0: unknown

	// What the data of a tracepoint says, and each behind a NUL the values of
	// those of its fields that were asked for; bytes.
	Text string
}

// A Run is code that was gone through in a straight line: from where a branch
// went to where the next one left.
type Run struct {
	Location   int32 // of the samples in whose branch stacks it is
	Start, End int32 // locations: of its first instruction, and of the branch at its end
	Count      uint64
	Predicted  uint64 // how often the branch at its end went where it was thought to go
}

// A Stretch is code that was gone through in a straight line, and the cycles
// that took: one entry of a branch stack, and where the one before went.
type Stretch struct {
	Location   int32  // of the samples in whose branch stacks it is; None if that was not kept
	Start, End int32  // locations: of its first instruction, and of the branch at its end; Start is None if unknown
	Count      uint64 // how often it was gone through
	Cycles     uint64 // their sum
	Min, Max   uint16 // of these, above 0
}

// Lost counts what the profile lacks.
type Lost struct {
	Events    uint64 // LOST
	Samples   uint64 // LOST_SAMPLES
	UnknownID uint64 // samples of no known event
	BadChains uint64 // chains with an unknown context marker
	Unordered uint64 // records that came too late to be put in order
	NoThread  uint64
}
