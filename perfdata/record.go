package perfdata

import "github.com/perfark/perfark/buildid"

// A Type is the kind of a record: PERF_RECORD_* of
// include/uapi/linux/perf_event.h below 64, and the types that the perf tool
// itself writes (tools/perf/util/event.h) from 64.
type Type uint32

// CPU modes: the low three bits of Misc.
const (
	CPUModeUnknown     = 0
	CPUModeKernel      = 1
	CPUModeUser        = 2
	CPUModeHypervisor  = 3
	CPUModeGuestKernel = 4
	CPUModeGuestUser   = 5
)

// Bits of Misc; several share a bit and depend on the record type.
const (
	MiscCPUModeMask = 7
	MiscMmapData    = 1 << 13 // Mmap: not executable
	MiscCommExec    = 1 << 13 // Comm: set by exec
	MiscForkExec    = 1 << 13 // Fork: made up by perf, the maps follow
	MiscSwitchOut   = 1 << 13
	MiscMmapBuildID = 1 << 14 // Mmap2: the union holds a build id
	MiscBuildIDSize = 1 << 15 // BuildID: the id's length is given
)

// Meta is what every record has.
type Meta struct {
	Type   Type
	Misc   uint16
	Size   int   // bytes of the whole record
	Offset int64 // of its header in the file; inside compressed data that of the COMPRESSED record

	// The sample_id trailer of records other than samples. Time is 0 where
	// there is none. PID, TID and CPU are -1 where there is none.
	SampleID
}

// SampleID says when and where a record was written, and by which event.
type SampleID struct {
	PID, TID int32
	Time     uint64 // ns of the recording's clock; 0 if absent
	ID       uint64 // of the event; 0 if absent
	StreamID uint64
	CPU      int32
}

// A Record is one of the types below. It is valid until the next call that
// returned it.
type Record interface{ Head() *Meta }

// Head returns m.
func (m *Meta) Head() *Meta { return m }

// Records that bear on maps, threads and symbols.
type (
	// An Mmap is PERF_RECORD_MMAP or MMAP2. PID and TID are the process that
	// mapped; for the kernel and its modules PID is -1.
	Mmap struct {
		Meta
		MapPID, MapTID int32
		Start, Len     uint64 // bytes; Start+Len may wrap in damaged files
		Pgoff          uint64 // bytes; for the kernel the address of the reference symbol
		Maj, Min       uint32 // device; 0 if a build id took their place
		Ino, InoGen    uint64
		BuildID        buildid.ID // from MMAP2; "" if none
		Prot, Flags    uint32     // 0 for MMAP, which has neither: see Exec
		Name           string     // bytes of the path as recorded
	}

	// A Comm names a thread.
	Comm struct {
		Meta
		CommPID, CommTID int32
		Name             string
	}

	// A Fork is PERF_RECORD_FORK or EXIT.
	Fork struct {
		Meta
		ForkPID, ParentPID int32
		ForkTID, ParentTID int32
		ForkTime           uint64
	}

	// A Ksymbol is kernel code that came (or went) at run time: a BPF program,
	// a trampoline.
	Ksymbol struct {
		Meta
		Addr  uint64
		Len   uint32
		Kind  uint16 // 1 BPF, 2 out of line
		Flags uint16 // bit 0: unregistered
		Name  string
	}

	// A BPFEvent is a BPF program loaded (Kind 1) or unloaded (2).
	BPFEvent struct {
		Meta
		Kind, Flags uint16
		ProgID      uint32
		Tag         [8]byte
	}

	// A Namespaces record lists the namespaces of a task, in the order net,
	// uts, ipc, pid, user, mnt, cgroup.
	Namespaces struct {
		Meta
		TaskPID, TaskTID int32
		Links            []NSLink
	}

	// A Cgroup names a cgroup id.
	Cgroup struct {
		Meta
		CgroupID uint64
		Path     string
	}

	// A BuildIDRecord is HEADER_BUILD_ID, in the data of pipes, or an entry of
	// the BUILD_ID feature.
	BuildIDRecord struct {
		Meta
		MachinePID int32 // -1 host, 0 default guest, else the guest's pid
		BuildID    buildid.ID
		Name       string
	}
)

// NSLink is a namespace as a file in /proc/PID/ns.
type NSLink struct{ Dev, Ino uint64 }

// Records about the recording.
type (
	// A Lost record counts events lost by the kernel: LOST, and LOST_SAMPLES
	// (with LostID 0).
	Lost struct {
		Meta
		LostID uint64
		Count  uint64
	}

	// An Unknown record is one whose body nothing here needs, or whose type
	// is newer than this program. Body aliases the input.
	Unknown struct {
		Meta
		Body []byte
	}

	// A Bad record could not be decoded. Reading goes on behind it.
	Bad struct {
		Meta
		Bytes []byte // what was skipped, at most the first 64 KiB
		Err   error
	}
)

// A Sample is PERF_RECORD_SAMPLE. Fields whose bit is not in the event's
// sample_type have the defaults that perf gives them: PID, TID and CPU -1,
// Period the event's sample_period or 1.
type Sample struct {
	Meta
	Event int // index into File.Events; -1 if the id is unknown

	IP         uint64
	Addr       uint64
	Period     uint64
	Read       []ReadValue // PERF_SAMPLE_READ, leader first
	ReadTimes  [2]uint64   // ns enabled, running
	Callchain  []uint64    // ips and context markers (>= -4095), innermost first
	Raw        []byte
	Branches   []Branch
	BranchIdx  uint64
	UserABI    uint64 // 0 none, 1 32-bit, 2 64-bit
	UserRegs   []uint64
	UserStack  []byte // the dump, cut to the bytes that were valid
	IntrABI    uint64
	IntrRegs   []uint64
	Weight     uint64 // or the three fields of WEIGHT_STRUCT, packed as the kernel does
	DataSrc    uint64
	Txn        uint64
	PhysAddr   uint64
	CgroupID   uint64
	DataPage   uint64 // bytes
	CodePage   uint64 // bytes
	Aux        []byte
	BranchCntr []uint64
}

// A ReadValue is one counter of struct read_format.
type ReadValue struct {
	Value, ID, Lost uint64
}

// A Branch is one entry of a branch stack, newest first.
type Branch struct {
	From, To uint64
	Flags    uint64 // struct perf_branch_entry, little-endian bit order
}

// Context markers in call chains are the values from MaxContext up.
const (
	MaxContext         = ^uint64(0) - 4094 // -4095
	ContextHV          = ^uint64(0) - 31   // -32
	ContextKernel      = ^uint64(0) - 127
	ContextUser        = ^uint64(0) - 511
	ContextUserDefer   = ^uint64(0) - 639
	ContextGuest       = ^uint64(0) - 2047
	ContextGuestKernel = ^uint64(0) - 2175
	ContextGuestUser   = ^uint64(0) - 2559
)
