package perfdata

import (
	"fmt"
	"math"
	"math/bits"
)

// AppendRecord appends r, encoded, to b: the inverse of Decoder.Decode. Type
// and Misc are those of r's Meta, where the kind of the Go type leaves a
// choice; the size is computed. a is the attr of the record's event: it gives the
// layout of samples and of the trailer; nil leaves the trailer out. Absent ids
// of the trailer, -1, are written as -1.
//
// Strings are padded to 8, as the kernel and perf do. The dump of a user stack is
// written as long as it was valid. *Bad is written as the bytes it holds.
func AppendRecord(b []byte, r Record, a *Attr, big bool) ([]byte, error) {
	e := encoder{b: b, order: appendOrder(big)}
	start := len(b)
	m := r.Head()
	if bad, ok := r.(*Bad); ok {
		return append(b, bad.Bytes...), nil
	}
	e.u32(uint32(m.Type))
	e.u16(m.Misc)
	e.u16(0)
	if err := e.body(r, a); err != nil {
		return b, fmt.Errorf("%s: %w", m.Type, err)
	}
	if m.Type >= RecordMmap && m.Type < recordUserMin && m.Type != RecordSample && m.Type.Known() && a != nil && a.Flags.Has(FlagSampleIDAll) {
		e.sampleID(&m.SampleID, a.SampleType)
	}
	size := len(e.b) - start
	if size > math.MaxUint16 {
		if m.Type >= recordSimpleperfMin && m.Type <= recordSimpleperfMax {
			// Simpleperf's own records keep the upper half of the size in misc.
			e.order.AppendUint16(e.b[:start+4], uint16(size>>16))
		} else {
			return b, fmt.Errorf("%s: %d bytes, but a record has at most %d", m.Type, size, math.MaxUint16)
		}
	}
	e.order.AppendUint16(e.b[:start+6], uint16(size))
	return e.b, nil
}

// pad8 pads what was written since start to a multiple of 8.
func (e *encoder) pad8(start int) {
	e.zeros((8 - (len(e.b)-start)%8) % 8)
}

// cstr writes a string with its NUL, padded to 8.
func (e *encoder) cstr(s string) {
	start := len(e.b)
	e.b = append(append(e.b, s...), 0)
	e.pad8(start)
}

// fixed writes a string into n bytes. One that is longer is cut, with a NUL.
func (e *encoder) fixed(s string, n int) {
	s = s[:min(len(s), n-1)]
	e.b = append(e.b, s...)
	e.zeros(n - len(s))
}

func (e *encoder) i32(v int32) { e.u32(uint32(v)) }

// sampleID writes the trailer of all records but samples.
func (e *encoder) sampleID(s *SampleID, st SampleType) {
	if st&SampleTID != 0 {
		e.i32(s.PID)
		e.i32(s.TID)
	}
	if st&SampleTime != 0 {
		e.u64(s.Time)
	}
	if st&SampleIdentID != 0 {
		e.u64(s.ID)
	}
	if st&SampleStreamID != 0 {
		e.u64(s.StreamID)
	}
	if st&SampleCPU != 0 {
		e.i32(s.CPU)
		e.u32(0)
	}
	if st&SampleIdentifier != 0 {
		e.u64(s.ID)
	}
}

// body writes what follows the header of a record.
func (e *encoder) body(r Record, a *Attr) error {
	switch r := r.(type) {
	case *Sample:
		if a == nil {
			return fmt.Errorf("a sample of no event: %w", ErrWriter)
		}
		return e.sample(r, a)
	case *Mmap:
		return e.mmap(r)
	case *Lost:
		if r.Type != RecordLostSamples {
			e.u64(r.LostID)
		}
		e.u64(r.Count)
	case *Comm:
		e.i32(r.CommPID)
		e.i32(r.CommTID)
		e.cstr(r.Name)
	case *Fork:
		e.i32(r.ForkPID)
		e.i32(r.ParentPID)
		e.i32(r.ForkTID)
		e.i32(r.ParentTID)
		e.u64(r.ForkTime)
	case *Throttle:
		e.u64(r.ThrottleTime)
		e.u64(r.EventID)
		e.u64(r.EventStream)
	case *Read:
		e.i32(r.TaskPID)
		e.i32(r.TaskTID)
		if a == nil {
			return fmt.Errorf("counters of no event: %w", ErrWriter)
		}
		return e.read(r.Values, r.Times, a.ReadFormat)
	case *Aux:
		e.u64(r.AuxOffset)
		e.u64(r.AuxSize)
		e.u64(r.Flags)
	case *ItraceStart:
		e.i32(r.TaskPID)
		e.i32(r.TaskTID)
	case *Switch:
		if r.Type == RecordSwitchCPUWide {
			e.i32(r.OtherPID)
			e.i32(r.OtherTID)
		}
	case *Namespaces:
		e.i32(r.TaskPID)
		e.i32(r.TaskTID)
		e.u64(uint64(len(r.Links)))
		for _, l := range r.Links {
			e.u64(l.Dev)
			e.u64(l.Ino)
		}
	case *Ksymbol:
		e.u64(r.Addr)
		e.u32(r.Len)
		e.u16(r.Kind)
		e.u16(r.Flags)
		e.cstr(r.Name)
	case *BPFEvent:
		e.u16(r.Kind)
		e.u16(r.Flags)
		e.u32(r.ProgID)
		e.bytes(r.Tag[:])
	case *Cgroup:
		e.u64(r.CgroupID)
		e.cstr(r.Path)
	case *TextPoke:
		if len(r.Old) > math.MaxUint16 || len(r.New) > math.MaxUint16 {
			return fmt.Errorf("code of %d and %d bytes does not fit", len(r.Old), len(r.New))
		}
		start := len(e.b)
		e.u64(r.Addr)
		e.u16(uint16(len(r.Old)))
		e.u16(uint16(len(r.New)))
		e.bytes(r.Old)
		e.bytes(r.New)
		e.pad8(start)
	case *AuxOutputHWID:
		e.u64(r.HWID)
	case *CallchainDeferred:
		e.u64(r.Cookie)
		e.words(r.Callchain)
	case *Unknown:
		e.bytes(r.Body)
	default:
		return e.user(r)
	}
	return nil
}

// words writes a count and as many words.
func (e *encoder) words(v []uint64) {
	e.u64(uint64(len(v)))
	for _, w := range v {
		e.u64(w)
	}
}

func (e *encoder) mmap(r *Mmap) error {
	e.i32(r.MapPID)
	e.i32(r.MapTID)
	e.u64(r.Start)
	e.u64(r.Len)
	e.u64(r.Pgoff)
	if r.Type == RecordMmap2 {
		device := r.Maj|r.Min != 0 || r.Ino|r.InoGen != 0 // see Decoder.mmapBuildID
		if r.Misc&MiscMmapBuildID != 0 && !device {
			if len(r.BuildID) > buildIDMax {
				return fmt.Errorf("a build id of %d bytes: at most %d fit", len(r.BuildID), buildIDMax)
			}
			e.u8(uint8(len(r.BuildID)))
			e.zeros(3)
			e.b = append(e.b, r.BuildID...)
			e.zeros(buildIDMax - len(r.BuildID))
		} else {
			e.u32(r.Maj)
			e.u32(r.Min)
			e.u64(r.Ino)
			e.u64(r.InoGen)
		}
		e.u32(r.Prot)
		e.u32(r.Flags)
	}
	e.cstr(r.Name)
	return nil
}

// user writes the body of a record that perf writes of itself.
func (e *encoder) user(r Record) error {
	start := len(e.b)
	switch r := r.(type) {
	case *HeaderAttr:
		n := int(r.Attr.Size)
		if n == 0 {
			n = attrSizeMin
		}
		if n > attrEntryMax {
			return fmt.Errorf("attr of %d bytes: at most %d are allowed", n, attrEntryMax)
		}
		e.b = r.Attr.AppendTo(e.b, n, e.big())
		for _, id := range r.IDs {
			e.u64(id)
		}
	case *EventType:
		e.u64(r.EventID)
		e.cstr(r.Name)
	case *TracingData:
		e.u32(r.Len)
	case *BuildIDRecord:
		e.i32(r.MachinePID)
		e.buildID(r.BuildID, r.Misc)
		e.cstr(r.Name)
	case *Finished:
	case *IDIndex:
		e.idIndex(r)
	case *AuxtraceInfo:
		e.u32(r.Kind)
		e.u32(0)
		for _, w := range r.Priv {
			e.u64(w)
		}
	case *Auxtrace:
		e.u64(r.Len)
		e.u64(r.AuxOffset)
		e.u64(r.Reference)
		e.u32(r.Index)
		e.i32(r.TaskTID)
		e.i32(r.AuxCPU)
		e.u32(0)
	case *AuxtraceError:
		e.auxtraceError(r)
	case *ThreadMap:
		e.u64(uint64(len(r.Threads)))
		for _, t := range r.Threads {
			e.u64(uint64(t.PID))
			e.fixed(t.Comm, 16)
		}
	case *CPUMapRecord:
		e.cpuMap(&r.CPUMap)
		e.pad8(start)
	case *StatConfig:
		e.u64(uint64(len(r.Entries)))
		for _, x := range r.Entries {
			e.u64(x[0])
			e.u64(x[1])
		}
	case *Stat:
		e.u64(r.EventID)
		e.i32(r.StatCPU)
		e.i32(r.Thread)
		e.u64(r.Value)
		e.u64(r.Enabled)
		e.u64(r.Running)
	case *StatRound:
		e.u64(r.Kind)
		e.u64(r.RoundTime)
	case *EventUpdate:
		e.u64(r.Kind)
		e.u64(r.EventID)
		switch r.Kind {
		case 0, 2:
			e.cstr(r.Text)
		case 1:
			e.u64(math.Float64bits(r.Scale))
		case 3:
			e.cpuMap(&r.CPUs)
			e.pad8(start)
		}
	case *TimeConv:
		e.u64(r.Shift)
		e.u64(r.Mult)
		e.u64(r.Zero)
		e.u64(r.Cycles)
		e.u64(r.Mask)
		e.flag(r.CapZero)
		e.flag(r.CapShort)
		e.zeros(6)
	case *HeaderFeature:
		e.u64(r.Feature)
		e.bytes(r.Data)
	case *CompressedData:
		if r.Type == RecordCompressed2 {
			e.u64(uint64(len(r.Data)))
			e.bytes(r.Data)
			e.pad8(start)
		} else {
			e.bytes(r.Data)
		}
	case *BPFMetadata:
		e.fixed(r.Program, 16)
		e.u64(uint64(len(r.Entries)))
		for _, x := range r.Entries {
			e.fixed(x[0], 64)
			e.fixed(x[1], 256)
		}
	case *Schedstat:
		e.u64(r.Timestamp)
		e.u32(r.StatCPU)
		e.u16(r.Version)
		e.u16(r.Domain)
		e.bytes(r.Values)
	default:
		return fmt.Errorf("%T cannot be written", r)
	}
	return nil
}

func (e *encoder) flag(v bool) {
	if v {
		e.u8(1)
	} else {
		e.u8(0)
	}
}

// idIndex writes the second array only if there is a guest in it, as old perf
// has none.
func (e *encoder) idIndex(r *IDIndex) {
	e.u64(uint64(len(r.Entries)))
	guests := false
	for _, x := range r.Entries {
		e.u64(x.ID)
		e.u64(x.Index)
		e.u64(uint64(x.CPU))
		e.u64(uint64(x.TID))
		guests = guests || x.MachinePID != 0 || x.VCPU != -1
	}
	if !guests {
		return
	}
	for _, x := range r.Entries {
		e.u64(uint64(x.MachinePID))
		e.u64(uint64(x.VCPU))
	}
}

// auxtraceError writes the newest format that is needed: 1 has a time, 2 a
// guest.
func (e *encoder) auxtraceError(r *AuxtraceError) {
	format := uint32(1)
	if r.MachinePID != 0 || r.VCPU != -1 {
		format = 2
	}
	e.u32(r.Kind)
	e.u32(r.Code)
	e.i32(r.ErrCPU)
	e.i32(r.TaskPID)
	e.i32(r.TaskTID)
	e.u32(format)
	e.u64(r.IP)
	e.u64(r.ErrTime)
	e.fixed(r.Message, 64)
	if format == 2 {
		e.i32(r.MachinePID)
		e.i32(r.VCPU)
	}
}

// cpuMap writes a list of CPUs. 0xffff is "any".
func (e *encoder) cpuMap(m *CPUMap) {
	e.u16(0)
	n := len(m.CPUs)
	if m.Any {
		n++
	}
	e.u16(uint16(n))
	if m.Any {
		e.u16(math.MaxUint16)
	}
	for _, c := range m.CPUs {
		e.u16(uint16(c))
	}
}

// read writes struct read_format.
func (e *encoder) read(v []ReadValue, times [2]uint64, f ReadFormat) error {
	group := f&ReadGroup != 0
	if !group && len(v) != 1 {
		return fmt.Errorf("%d counters, but the event's read_format has one", len(v))
	}
	if group {
		e.u64(uint64(len(v)))
	} else {
		e.u64(v[0].Value)
	}
	if f&ReadEnabled != 0 {
		e.u64(times[0])
	}
	if f&ReadRunning != 0 {
		e.u64(times[1])
	}
	for _, x := range v {
		if group {
			e.u64(x.Value)
		}
		if f&ReadID != 0 {
			e.u64(x.ID)
		}
		if f&ReadLost != 0 {
			e.u64(x.Lost)
		}
	}
	return nil
}

// sample writes the fields of a sample in the order of the kernel
// (perf_output_sample in kernel/events/core.c).
func (e *encoder) sample(s *Sample, a *Attr) error {
	st := a.SampleType
	if st&^sampleKnown != 0 {
		return fmt.Errorf("sample_type %#x has bits that are not known", uint64(st))
	}
	u64 := func(bit SampleType, v uint64) {
		if st&bit != 0 {
			e.u64(v)
		}
	}
	u64(SampleIdentifier, s.ID)
	u64(SampleIP, s.IP)
	if st&SampleTID != 0 {
		e.i32(s.PID)
		e.i32(s.TID)
	}
	u64(SampleTime, s.Time)
	u64(SampleAddr, s.Addr)
	u64(SampleIdentID, s.ID)
	u64(SampleStreamID, s.StreamID)
	if st&SampleCPU != 0 {
		e.i32(s.CPU)
		e.u32(0)
	}
	u64(SamplePeriod, s.Period)
	if st&SampleRead != 0 {
		if err := e.read(s.Read, s.ReadTimes, a.ReadFormat); err != nil {
			return err
		}
	}
	if st&SampleCallchain != 0 {
		e.words(s.Callchain)
	}
	if st&SampleRaw != 0 {
		pad := (8 - (4+len(s.Raw))%8) % 8
		e.u32(uint32(len(s.Raw) + pad))
		e.bytes(s.Raw)
		e.zeros(pad)
	}
	if st&SampleBranchStack != 0 {
		e.branches(s, a)
	}
	if st&SampleRegsUser != 0 {
		if err := e.regs(s.UserABI, s.UserRegs, a.SampleRegsUser); err != nil {
			return fmt.Errorf("user registers: %w", err)
		}
	}
	if st&SampleStackUser != 0 {
		e.stack(s.UserStack)
	}
	u64(SampleWeight|SampleWeightStruct, s.Weight)
	u64(SampleDataSrc, s.DataSrc)
	u64(SampleTransaction, s.Txn)
	if st&SampleRegsIntr != 0 {
		if err := e.regs(s.IntrABI, s.IntrRegs, a.SampleRegsIntr); err != nil {
			return fmt.Errorf("interrupt registers: %w", err)
		}
	}
	u64(SamplePhysAddr, s.PhysAddr)
	u64(SampleCgroup, s.CgroupID)
	u64(SampleDataPageSize, s.DataPage)
	u64(SampleCodePageSize, s.CodePage)
	if st&SampleAux != 0 {
		start := len(e.b)
		e.u64(uint64(len(s.Aux)+7) &^ 7)
		e.bytes(s.Aux)
		e.pad8(start)
	}
	return nil
}

func (e *encoder) regs(abi uint64, regs []uint64, mask uint64) error {
	e.u64(abi)
	if abi == 0 {
		return nil
	}
	if n := bits.OnesCount64(mask); n != len(regs) {
		return fmt.Errorf("%d values, but the event's mask has %d bits", len(regs), n)
	}
	for _, v := range regs {
		e.u64(v)
	}
	return nil
}

// stack writes a dump of the user stack, all of it valid.
func (e *encoder) stack(b []byte) {
	start := len(e.b)
	e.u64(uint64(len(b)+7) &^ 7)
	e.bytes(b)
	e.pad8(start)
	if len(b) > 0 {
		e.u64(uint64(len(b)))
	}
}

func (e *encoder) branches(s *Sample, a *Attr) {
	e.u64(uint64(len(s.Branches)))
	if a.BranchSampleType&BranchHWIndex != 0 {
		e.u64(s.BranchIdx)
	}
	for _, b := range s.Branches {
		e.u64(b.From)
		e.u64(b.To)
		e.u64(branchFlagsOut(b.Flags, e.big()))
	}
	if a.BranchSampleType&BranchCounters == 0 {
		return
	}
	for i := range s.Branches {
		var v uint64
		if i < len(s.BranchCntr) {
			v = s.BranchCntr[i]
		}
		e.u64(v)
	}
}

// branchFlagsOut is the inverse of branchFlags.
func branchFlagsOut(v uint64, big bool) uint64 {
	if !big {
		return v
	}
	var out uint64
	at, lo := 64, 0
	for _, width := range [...]int{1, 1, 1, 1, 16, 4, 2, 4, 3, 31} {
		at -= width
		out |= v >> lo & (1<<width - 1) << at
		lo += width
	}
	return out
}
