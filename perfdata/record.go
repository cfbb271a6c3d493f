package perfdata

import (
	"fmt"

	"github.com/perfark/perfark/buildid"
)

// A Type is the kind of a record: PERF_RECORD_* of
// include/uapi/linux/perf_event.h below 64, and the types that the perf tool
// itself writes (tools/perf/util/event.h) from 64.
type Type uint32

// Records of the kernel.
const (
	RecordMmap              Type = 1
	RecordLost              Type = 2
	RecordComm              Type = 3
	RecordExit              Type = 4
	RecordThrottle          Type = 5
	RecordUnthrottle        Type = 6
	RecordFork              Type = 7
	RecordRead              Type = 8
	RecordSample            Type = 9
	RecordMmap2             Type = 10
	RecordAux               Type = 11
	RecordItraceStart       Type = 12
	RecordLostSamples       Type = 13
	RecordSwitch            Type = 14
	RecordSwitchCPUWide     Type = 15
	RecordNamespaces        Type = 16
	RecordKsymbol           Type = 17
	RecordBPFEvent          Type = 18
	RecordCgroup            Type = 19
	RecordTextPoke          Type = 20
	RecordAuxOutputHWID     Type = 21
	RecordCallchainDeferred Type = 22

	recordKernelMax Type = 22
)

// Records of perf.
const (
	RecordHeaderAttr      Type = 64
	RecordEventType       Type = 65
	RecordTracingData     Type = 66
	RecordBuildID         Type = 67
	RecordFinishedRound   Type = 68
	RecordIDIndex         Type = 69
	RecordAuxtraceInfo    Type = 70
	RecordAuxtrace        Type = 71
	RecordAuxtraceError   Type = 72
	RecordThreadMap       Type = 73
	RecordCPUMap          Type = 74
	RecordStatConfig      Type = 75
	RecordStat            Type = 76
	RecordStatRound       Type = 77
	RecordEventUpdate     Type = 78
	RecordTimeConv        Type = 79
	RecordHeaderFeature   Type = 80
	RecordCompressed      Type = 81
	RecordFinishedInit    Type = 82
	RecordCompressed2     Type = 83
	RecordBPFMetadata     Type = 84
	RecordSchedstatCPU    Type = 85
	RecordSchedstatDomain Type = 86

	recordUserMin Type = 64
	recordUserMax Type = 86
)

// Records of Android's simpleperf, whose size is 32 bits wide: misc holds the
// upper half.
const (
	recordSimpleperfMin Type = 32768
	recordSimpleperfMax Type = 32768 + 255
)

// recordLimit is where types cannot be those of future kernels and perfs any
// more, but only damage. (Types of the kernel are below 64.)
const recordLimit Type = 1024

var typeNames = map[Type]string{
	RecordMmap: "MMAP", RecordLost: "LOST", RecordComm: "COMM", RecordExit: "EXIT",
	RecordThrottle: "THROTTLE", RecordUnthrottle: "UNTHROTTLE", RecordFork: "FORK",
	RecordRead: "READ", RecordSample: "SAMPLE", RecordMmap2: "MMAP2", RecordAux: "AUX",
	RecordItraceStart: "ITRACE_START", RecordLostSamples: "LOST_SAMPLES",
	RecordSwitch: "SWITCH", RecordSwitchCPUWide: "SWITCH_CPU_WIDE",
	RecordNamespaces: "NAMESPACES", RecordKsymbol: "KSYMBOL", RecordBPFEvent: "BPF_EVENT",
	RecordCgroup: "CGROUP", RecordTextPoke: "TEXT_POKE",
	RecordAuxOutputHWID: "AUX_OUTPUT_HW_ID", RecordCallchainDeferred: "CALLCHAIN_DEFERRED",
	RecordHeaderAttr: "ATTR", RecordEventType: "EVENT_TYPE", RecordTracingData: "TRACING_DATA",
	RecordBuildID: "BUILD_ID", RecordFinishedRound: "FINISHED_ROUND", RecordIDIndex: "ID_INDEX",
	RecordAuxtraceInfo: "AUXTRACE_INFO", RecordAuxtrace: "AUXTRACE",
	RecordAuxtraceError: "AUXTRACE_ERROR", RecordThreadMap: "THREAD_MAP", RecordCPUMap: "CPU_MAP",
	RecordStatConfig: "STAT_CONFIG", RecordStat: "STAT", RecordStatRound: "STAT_ROUND",
	RecordEventUpdate: "EVENT_UPDATE", RecordTimeConv: "TIME_CONV", RecordHeaderFeature: "FEATURE",
	RecordCompressed: "COMPRESSED", RecordFinishedInit: "FINISHED_INIT",
	RecordCompressed2: "COMPRESSED2", RecordBPFMetadata: "BPF_METADATA",
	RecordSchedstatCPU: "SCHEDSTAT_CPU", RecordSchedstatDomain: "SCHEDSTAT_DOMAIN",
}

// String returns the type as perf report --stats names it, such as "MMAP2";
// "UNKNOWN(200)" for types that are not known.
func (t Type) String() string {
	if s, ok := typeNames[t]; ok {
		return s
	}
	return fmt.Sprintf("UNKNOWN(%d)", uint32(t))
}

// Known reports whether records of the type are decoded.
func (t Type) Known() bool {
	return t >= RecordMmap && t <= recordKernelMax || t >= recordUserMin && t <= recordUserMax
}

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

	// A Throttle record says that the kernel stopped (THROTTLE) or went on
	// with (UNTHROTTLE) an event that came too often.
	Throttle struct {
		Meta
		ThrottleTime uint64 // ns
		EventID      uint64
		EventStream  uint64
	}

	// A Read record is a counter's value at the exit of a task.
	Read struct {
		Meta
		Event            int // index into File.Events; -1 if the id is unknown
		TaskPID, TaskTID int32
		Values           []ReadValue
		Times            [2]uint64 // ns enabled, running
	}

	// An Aux record says that data came into the AUX area.
	Aux struct {
		Meta
		AuxOffset, AuxSize uint64 // bytes
		Flags              uint64 // 1 truncated, 2 overwrite, 4 partial, 8 collision
	}

	// An ItraceStart record names the task that an instruction trace begins with.
	ItraceStart struct {
		Meta
		TaskPID, TaskTID int32
	}

	// A Switch is SWITCH or SWITCH_CPU_WIDE. MiscSwitchOut tells the direction;
	// OtherPID and OtherTID are -1 for SWITCH.
	Switch struct {
		Meta
		OtherPID, OtherTID int32
	}

	// A TextPoke is a change of kernel code. Old and New alias the input.
	TextPoke struct {
		Meta
		Addr     uint64
		Old, New []byte
	}

	// An AuxOutputHWID joins a hardware id to an event that writes to the AUX area.
	AuxOutputHWID struct {
		Meta
		HWID uint64
	}

	// A CallchainDeferred is the user part of call chains that ended in
	// ContextUserDefer and the same cookie.
	CallchainDeferred struct {
		Meta
		Cookie    uint64
		Callchain []uint64
	}

	// An Unknown record is one whose type is newer than this program. Body
	// aliases the input.
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

// Records that perf writes of itself.
type (
	// A HeaderAttr is an event of a recording that went through a pipe.
	HeaderAttr struct {
		Meta
		Attr Attr
		IDs  []uint64
	}

	// An EventType is the name of an event in recordings before Linux 3.10.
	EventType struct {
		Meta
		EventID uint64
		Name    string
	}

	// A TracingData record is followed by Len bytes of the formats of
	// tracepoints, which are not part of it.
	TracingData struct {
		Meta
		Len uint32 // bytes
	}

	// A Finished record is FINISHED_ROUND, with which all CPUs' buffers have
	// been read once, or FINISHED_INIT, with which the state before the
	// recording is complete.
	Finished struct{ Meta }

	// An IDIndex says which CPU and thread each event id counts for.
	IDIndex struct {
		Meta
		Entries []IDIndexEntry
	}

	// An AuxtraceInfo says what wrote the AUX area. Priv is the business of its decoder.
	AuxtraceInfo struct {
		Meta
		Kind uint32 // 1 Intel PT, 2 Intel BTS, 3 CoreSight, 4 Arm SPE, 5 S390, 6 HiSilicon
		Priv []uint64
	}

	// An Auxtrace record is followed by Len bytes of the AUX area, which are
	// not part of it.
	Auxtrace struct {
		Meta
		Len        uint64 // bytes
		AuxOffset  uint64 // bytes, in the AUX area
		Reference  uint64
		Index      uint32
		TaskTID    int32
		AuxCPU     int32
		DataOffset int64 // in the file
	}

	// An AuxtraceError is an error of an AUX area decoder, kept by perf inject.
	AuxtraceError struct {
		Meta
		Kind, Code       uint32
		ErrCPU           int32
		TaskPID, TaskTID int32
		IP               uint64
		ErrTime          uint64
		Message          string
		MachinePID, VCPU int32 // of a guest; 0 and -1 if not recorded
	}

	// A ThreadMap lists the threads that perf stat counted.
	ThreadMap struct {
		Meta
		Threads []ThreadMapEntry
	}

	// A CPUMapRecord lists CPUs. Any stands for "not bound to a CPU".
	CPUMapRecord struct {
		Meta
		CPUMap
	}

	// A StatConfig is the configuration of perf stat: tag and value.
	StatConfig struct {
		Meta
		Entries [][2]uint64
	}

	// A Stat is a counter's value, of perf stat.
	Stat struct {
		Meta
		EventID                 uint64
		StatCPU, Thread         int32
		Value, Enabled, Running uint64
	}

	// A StatRound ends an interval of perf stat (Kind 0) or all of it (1).
	StatRound struct {
		Meta
		Kind      uint64
		RoundTime uint64 // ns
	}

	// An EventUpdate gives a detail of an event: Kind 0 its unit, 1 its scale,
	// 2 its name, 3 its CPUs.
	EventUpdate struct {
		Meta
		Kind    uint64
		EventID uint64
		Text    string
		Scale   float64
		CPUs    CPUMap
	}

	// A TimeConv says how the CPU's time stamp counter becomes perf's time.
	TimeConv struct {
		Meta
		Shift, Mult, Zero uint64
		Cycles, Mask      uint64 // 0 if not recorded
		CapZero, CapShort bool
	}

	// A HeaderFeature is a feature section of a recording that went through a
	// pipe. Data aliases the input.
	HeaderFeature struct {
		Meta
		Feature uint64
		Data    []byte
	}

	// CompressedData holds a piece of a zstd stream of records. Readers
	// decompress it; only a Decoder returns it.
	CompressedData struct {
		Meta
		Data []byte
	}

	// BPFMetadata holds variables of a BPF program.
	BPFMetadata struct {
		Meta
		Program string
		Entries [][2]string // name, value
	}

	// A Schedstat is a line of /proc/schedstat: SCHEDSTAT_CPU or
	// SCHEDSTAT_DOMAIN. What is in Values depends on Version.
	Schedstat struct {
		Meta
		Timestamp uint64
		StatCPU   uint32
		Version   uint16
		Domain    uint16
		Values    []byte // as recorded; aliases the input
	}
)

// An IDIndexEntry is one entry of an IDIndex.
type IDIndexEntry struct {
	ID, Index        uint64
	CPU, TID         int64 // -1 for none
	MachinePID, VCPU int64 // of a guest; 0 and -1 if not recorded
}

// A ThreadMapEntry is a thread and its name.
type ThreadMapEntry struct {
	PID  int64
	Comm string
}

// A CPUMap is a set of CPUs, ascending as recorded.
type CPUMap struct {
	Any  bool
	CPUs []int32
}

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
	UserStack  []byte // the dump, cut to the bytes that were valid; its capacity is the whole dump
	StackAt    int    // where in the record the dump begins, in bytes; 0 without UserStack
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
