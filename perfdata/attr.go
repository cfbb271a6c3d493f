package perfdata

import (
	"encoding/binary"
	"math/bits"

	"github.com/perfark/perfark/internal/decode"
)

// Sizes of struct perf_event_attr, in bytes.
const (
	attrSizeMin  = 64  // the first published version; also what a size of 0 means
	AttrSizeMax  = 144 // the newest known here: with config4
	attrEntryMax = 1 << 16
)

// An Attr is struct perf_event_attr (include/uapi/linux/perf_event.h): what
// was counted and what each sample holds. Fields that a shorter, older attr
// does not have are 0.
type Attr struct {
	Type   uint32 // TypeHardware, TypeSoftware, ... or the number of a PMU
	Size   uint32 // bytes, as recorded; 0 means 64
	Config uint64

	SamplePeriod uint64 // events between samples; with FlagFreq samples a second
	SampleType   SampleType
	ReadFormat   ReadFormat
	Flags        AttrFlags // in the bit order of little-endian machines

	WakeupEvents uint32 // or bytes, with FlagWatermark
	BPType       uint32 // breakpoints: 1 read, 2 write, 4 execute
	Config1      uint64 // or the address of a breakpoint, a kprobe, a uprobe
	Config2      uint64 // or the length of a breakpoint in bytes

	BranchSampleType uint64
	SampleRegsUser   uint64 // mask
	SampleStackUser  uint32 // bytes
	ClockID          int32  // with FlagUseClockID
	SampleRegsIntr   uint64 // mask
	AuxWatermark     uint32 // bytes
	SampleMaxStack   uint16 // frames
	Reserved2        uint16
	AuxSampleSize    uint32 // bytes
	AuxAction        uint32
	SigData          uint64
	Config3          uint64
	Config4          uint64

	// Tail is what follows in attrs newer than this program; nil if nothing.
	Tail []byte
}

// Values of Attr.Type.
const (
	TypeHardware   = 0
	TypeSoftware   = 1
	TypeTracepoint = 2
	TypeHWCache    = 3
	TypeRaw        = 4
	TypeBreakpoint = 5
)

// SampleType is a set of fields: PERF_SAMPLE_*.
type SampleType uint64

// The fields of a sample.
const (
	SampleIP SampleType = 1 << iota
	SampleTID
	SampleTime
	SampleAddr
	SampleRead
	SampleCallchain
	SampleIdentID // PERF_SAMPLE_ID
	SampleCPU
	SamplePeriod
	SampleStreamID
	SampleRaw
	SampleBranchStack
	SampleRegsUser
	SampleStackUser
	SampleWeight
	SampleDataSrc
	SampleIdentifier
	SampleTransaction
	SampleRegsIntr
	SamplePhysAddr
	SampleAux
	SampleCgroup
	SampleDataPageSize
	SampleCodePageSize
	SampleWeightStruct

	sampleKnown = 1<<iota - 1
)

// ReadFormat is a set of counter fields: PERF_FORMAT_*.
type ReadFormat uint64

// The fields of a read counter.
const (
	ReadEnabled ReadFormat = 1 << iota // PERF_FORMAT_TOTAL_TIME_ENABLED
	ReadRunning                        // PERF_FORMAT_TOTAL_TIME_RUNNING
	ReadID
	ReadGroup
	ReadLost

	readKnown = 1<<iota - 1
)

// Bits of Attr.BranchSampleType that change the layout of samples.
const (
	BranchHWIndex  = 1 << 17
	BranchCounters = 1 << 19
)

// AttrFlags are the one-bit fields of perf_event_attr, first field lowest.
type AttrFlags uint64

// The fields of AttrFlags.
const (
	FlagDisabled               AttrFlags = 1 << 0
	FlagInherit                AttrFlags = 1 << 1
	FlagPinned                 AttrFlags = 1 << 2
	FlagExclusive              AttrFlags = 1 << 3
	FlagExcludeUser            AttrFlags = 1 << 4
	FlagExcludeKernel          AttrFlags = 1 << 5
	FlagExcludeHV              AttrFlags = 1 << 6
	FlagExcludeIdle            AttrFlags = 1 << 7
	FlagMmap                   AttrFlags = 1 << 8
	FlagComm                   AttrFlags = 1 << 9
	FlagFreq                   AttrFlags = 1 << 10
	FlagInheritStat            AttrFlags = 1 << 11
	FlagEnableOnExec           AttrFlags = 1 << 12
	FlagTask                   AttrFlags = 1 << 13
	FlagWatermark              AttrFlags = 1 << 14
	FlagPreciseIP              AttrFlags = 3 << 15 // two bits: see Precise
	FlagMmapData               AttrFlags = 1 << 17
	FlagSampleIDAll            AttrFlags = 1 << 18
	FlagExcludeHost            AttrFlags = 1 << 19
	FlagExcludeGuest           AttrFlags = 1 << 20
	FlagExcludeCallchainKernel AttrFlags = 1 << 21
	FlagExcludeCallchainUser   AttrFlags = 1 << 22
	FlagMmap2                  AttrFlags = 1 << 23
	FlagCommExec               AttrFlags = 1 << 24
	FlagUseClockID             AttrFlags = 1 << 25
	FlagContextSwitch          AttrFlags = 1 << 26
	FlagWriteBackward          AttrFlags = 1 << 27
	FlagNamespaces             AttrFlags = 1 << 28
	FlagKsymbol                AttrFlags = 1 << 29
	FlagBPFEvent               AttrFlags = 1 << 30
	FlagAuxOutput              AttrFlags = 1 << 31
	FlagCgroup                 AttrFlags = 1 << 32
	FlagTextPoke               AttrFlags = 1 << 33
	FlagBuildID                AttrFlags = 1 << 34
	FlagInheritThread          AttrFlags = 1 << 35
	FlagRemoveOnExec           AttrFlags = 1 << 36
	FlagSigtrap                AttrFlags = 1 << 37
	FlagDeferCallchain         AttrFlags = 1 << 38
	FlagDeferOutput            AttrFlags = 1 << 39
)

// Precise returns precise_ip: 0 arbitrary skid to 3 none.
func (f AttrFlags) Precise() int { return int(f >> 15 & 3) }

// Has reports whether all of f's bits in m are set.
func (f AttrFlags) Has(m AttrFlags) bool { return f&m == m }

// attrFlags turns the flags of a machine of the given byte order into ours,
// and back. Compilers for big-endian machines allot bit fields from the top,
// so the first field is the highest bit; precise_ip, the only field of two
// bits, keeps the order of its own. (perf reverses the bits of each byte and
// so exchanges precise_ip 1 and 2.)
func attrFlags(v uint64, big bool) uint64 {
	if !big {
		return v
	}
	swap := func(v uint64) uint64 {
		return v&^(3<<15) | v>>1&(1<<15) | v<<1&(1<<16)
	}
	return swap(bits.Reverse64(v))
}

// attrFlagsOut is the inverse of attrFlags.
func attrFlagsOut(v uint64, big bool) uint64 {
	if !big {
		return v
	}
	v = v&^(3<<15) | v>>1&(1<<15) | v<<1&(1<<16)
	return bits.Reverse64(v)
}

// decodeAttr decodes an attr from c, which holds its bytes and no more. Fields
// that do not fit in it stay 0.
func decodeAttr(c *decode.Cursor) Attr {
	var a Attr
	u32 := func(p *uint32, name string) {
		if c.Len() >= 4 {
			*p = c.Uint32(name)
		}
	}
	u64 := func(p *uint64, name string) {
		if c.Len() >= 8 {
			*p = c.Uint64(name)
		}
	}
	a.Type = c.Uint32("attr.type")
	a.Size = c.Uint32("attr.size")
	a.Config = c.Uint64("attr.config")
	a.SamplePeriod = c.Uint64("attr.sample_period")
	a.SampleType = SampleType(c.Uint64("attr.sample_type"))
	a.ReadFormat = ReadFormat(c.Uint64("attr.read_format"))
	a.Flags = AttrFlags(attrFlags(c.Uint64("attr.flags"), c.Big()))
	a.WakeupEvents = c.Uint32("attr.wakeup_events")
	a.BPType = c.Uint32("attr.bp_type")
	a.Config1 = c.Uint64("attr.config1")
	u64(&a.Config2, "attr.config2")
	u64(&a.BranchSampleType, "attr.branch_sample_type")
	u64(&a.SampleRegsUser, "attr.sample_regs_user")
	u32(&a.SampleStackUser, "attr.sample_stack_user")
	if c.Len() >= 4 {
		a.ClockID = int32(c.Uint32("attr.clockid"))
	}
	u64(&a.SampleRegsIntr, "attr.sample_regs_intr")
	u32(&a.AuxWatermark, "attr.aux_watermark")
	if c.Len() >= 4 {
		a.SampleMaxStack = c.Uint16("attr.sample_max_stack")
		a.Reserved2 = c.Uint16("attr.reserved_2")
	}
	u32(&a.AuxSampleSize, "attr.aux_sample_size")
	u32(&a.AuxAction, "attr.aux_action")
	u64(&a.SigData, "attr.sig_data")
	u64(&a.Config3, "attr.config3")
	u64(&a.Config4, "attr.config4")
	if c.Len() > 0 {
		a.Tail = append([]byte(nil), c.Rest()...)
	}
	return a
}

// AppendTo appends the first n bytes of a, as a machine of the given byte
// order writes them, to b. Behind the Tail there are zeros.
func (a *Attr) AppendTo(b []byte, n int, big bool) []byte {
	var o binary.AppendByteOrder = binary.LittleEndian
	if big {
		o = binary.BigEndian
	}
	start := len(b)
	b = o.AppendUint32(b, a.Type)
	b = o.AppendUint32(b, a.Size)
	b = o.AppendUint64(b, a.Config)
	b = o.AppendUint64(b, a.SamplePeriod)
	b = o.AppendUint64(b, uint64(a.SampleType))
	b = o.AppendUint64(b, uint64(a.ReadFormat))
	b = o.AppendUint64(b, attrFlagsOut(uint64(a.Flags), big))
	b = o.AppendUint32(b, a.WakeupEvents)
	b = o.AppendUint32(b, a.BPType)
	b = o.AppendUint64(b, a.Config1)
	b = o.AppendUint64(b, a.Config2)
	b = o.AppendUint64(b, a.BranchSampleType)
	b = o.AppendUint64(b, a.SampleRegsUser)
	b = o.AppendUint32(b, a.SampleStackUser)
	b = o.AppendUint32(b, uint32(a.ClockID))
	b = o.AppendUint64(b, a.SampleRegsIntr)
	b = o.AppendUint32(b, a.AuxWatermark)
	b = o.AppendUint16(b, a.SampleMaxStack)
	b = o.AppendUint16(b, a.Reserved2)
	b = o.AppendUint32(b, a.AuxSampleSize)
	b = o.AppendUint32(b, a.AuxAction)
	b = o.AppendUint64(b, a.SigData)
	b = o.AppendUint64(b, a.Config3)
	b = o.AppendUint64(b, a.Config4)
	if n <= AttrSizeMax {
		return b[:start+n]
	}
	b = append(b, a.Tail...)
	if have := len(b) - start; have > n {
		return b[:start+n]
	}
	return append(b, make([]byte, n-(len(b)-start))...)
}
