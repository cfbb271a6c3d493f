package perfdata

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/perfark/perfark/internal/decode"
)

// Feature bits: HEADER_* of tools/perf/util/header.h. A recording has a
// section for each that is set, or in pipes a HEADER_FEATURE record.
const (
	FeatureTracingData    = 1 // raw: formats of tracepoints
	FeatureBuildID        = 2
	FeatureHostname       = 3
	FeatureOSRelease      = 4
	FeatureVersion        = 5
	FeatureArch           = 6
	FeatureNRCPUs         = 7
	FeatureCPUDesc        = 8
	FeatureCPUID          = 9
	FeatureTotalMem       = 10
	FeatureCmdline        = 11
	FeatureEventDesc      = 12
	FeatureCPUTopology    = 13
	FeatureNUMATopology   = 14
	FeatureBranchStack    = 15 // empty: samples hold branch stacks
	FeaturePMUMappings    = 16
	FeatureGroupDesc      = 17
	FeatureAuxtrace       = 18
	FeatureStat           = 19 // empty: written by perf stat record
	FeatureCache          = 20
	FeatureSampleTime     = 21
	FeatureMemTopology    = 22
	FeatureClockID        = 23
	FeatureDirFormat      = 24
	FeatureBPFProgInfo    = 25
	FeatureBPFBTF         = 26
	FeatureCompressed     = 27
	FeatureCPUPMUCaps     = 28
	FeatureClockData      = 29
	FeatureHybridTopology = 30
	FeaturePMUCaps        = 31
	FeatureCPUDomainInfo  = 32
	FeatureEMachine       = 33
	FeatureClnSize        = 34

	featureEnd = 35 // behind the last that is known here
)

// A featureRow is all that is particular to a feature.
type featureRow struct {
	bit    int
	name   string // as perf lists missing features
	decode func(c *decode.Cursor) any
	encode func(e *encoder, v any)
}

// features is the table of the features, by bit; bit 0 is never set.
var features = [featureEnd]featureRow{
	{},
	row(FeatureTracingData, "TRACING_DATA", decodeBytes, encodeBytes),
	row(FeatureBuildID, "BUILD_ID", decodeBuildIDTable, encodeBuildIDTable),
	row(FeatureHostname, "HOSTNAME", decodeString, encodeString),
	row(FeatureOSRelease, "OSRELEASE", decodeString, encodeString),
	row(FeatureVersion, "VERSION", decodeString, encodeString),
	row(FeatureArch, "ARCH", decodeString, encodeString),
	row(FeatureNRCPUs, "NRCPUS", decodeNRCPUs, encodeNRCPUs),
	row(FeatureCPUDesc, "CPUDESC", decodeString, encodeString),
	row(FeatureCPUID, "CPUID", decodeString, encodeString),
	row(FeatureTotalMem, "TOTAL_MEM", decodeUint64, encodeUint64),
	row(FeatureCmdline, "CMDLINE", decodeStrings, encodeStrings),
	row(FeatureEventDesc, "EVENT_DESC", decodeEventDesc, encodeEventDesc),
	row(FeatureCPUTopology, "CPU_TOPOLOGY", decodeCPUTopology, encodeCPUTopology),
	row(FeatureNUMATopology, "NUMA_TOPOLOGY", decodeNUMATopology, encodeNUMATopology),
	row(FeatureBranchStack, "BRANCH_STACK", decodeBytes, encodeBytes),
	row(FeaturePMUMappings, "PMU_MAPPINGS", decodePMUMappings, encodePMUMappings),
	row(FeatureGroupDesc, "GROUP_DESC", decodeGroupDesc, encodeGroupDesc),
	row(FeatureAuxtrace, "AUXTRACE", decodeAuxtrace, encodeAuxtrace),
	row(FeatureStat, "STAT", decodeBytes, encodeBytes),
	row(FeatureCache, "CACHE", decodeCache, encodeCache),
	row(FeatureSampleTime, "SAMPLE_TIME", decodeSampleTime, encodeSampleTime),
	row(FeatureMemTopology, "MEM_TOPOLOGY", decodeMemTopology, encodeMemTopology),
	row(FeatureClockID, "CLOCKID", decodeUint64, encodeUint64),
	row(FeatureDirFormat, "DIR_FORMAT", decodeUint64, encodeUint64),
	row(FeatureBPFProgInfo, "BPF_PROG_INFO", decodeBPFProgs, encodeBPFProgs),
	row(FeatureBPFBTF, "BPF_BTF", decodeBTFs, encodeBTFs),
	row(FeatureCompressed, "COMPRESSED", decodeCompressed, encodeCompressed),
	row(FeatureCPUPMUCaps, "CPU_PMU_CAPS", decodeCaps, encodeCaps),
	row(FeatureClockData, "CLOCK_DATA", decodeClockData, encodeClockData),
	row(FeatureHybridTopology, "HYBRID_TOPOLOGY", decodeHybridTopology, encodeHybridTopology),
	row(FeaturePMUCaps, "PMU_CAPS", decodePMUCaps, encodePMUCaps),
	row(FeatureCPUDomainInfo, "CPU_DOMAIN_INFO", decodeCPUDomainInfo, encodeCPUDomainInfo),
	row(FeatureEMachine, "E_MACHINE", decodeEMachine, encodeEMachine),
	row(FeatureClnSize, "CLN_SIZE", decodeUint32, encodeUint32),
}

func row[T any](bit int, name string, dec func(c *decode.Cursor) T, enc func(e *encoder, v T)) featureRow {
	return featureRow{
		bit:    bit,
		name:   name,
		decode: func(c *decode.Cursor) any { return dec(c) },
		encode: func(e *encoder, v any) { enc(e, v.(T)) },
	}
}

// FeatureName returns the name that perf has for a feature, such as
// "HOSTNAME", or "feature 40" for a bit that is not known here.
func FeatureName(bit int) string {
	if bit > 0 && bit < featureEnd {
		return features[bit].name
	}
	return fmt.Sprintf("feature %d", bit)
}

// featureWhat names a feature in messages.
func featureWhat(bit int) string {
	if bit > 0 && bit < featureEnd {
		return "feature " + features[bit].name
	}
	return FeatureName(bit)
}

// DecodeFeature decodes the payload b of a feature, which stands at off in the
// file, into the type that the accessor of File for that feature returns. The
// payload of an unknown feature is returned as it is. The error is a
// *decode.Error; what stood before the defect comes with it where that makes
// sense (build ids do).
func DecodeFeature(bit int, b []byte, off int64, big bool) (any, error) {
	if bit <= 0 || bit >= featureEnd {
		return b, nil
	}
	c := decode.NewCursor(b, off, big)
	v := features[bit].decode(&c)
	return v, c.Err()
}

// AppendFeature appends the payload of a feature to b: the inverse of
// DecodeFeature. It panics if v is not of the type that belongs to bit.
func AppendFeature(b []byte, bit int, v any, big bool) []byte {
	if bit <= 0 || bit >= featureEnd {
		return append(b, v.([]byte)...)
	}
	e := encoder{b: b, order: binary.LittleEndian}
	if big {
		e.order = binary.BigEndian
	}
	features[bit].encode(&e, v)
	return e.b
}

// Feature returns the decoded payload of a feature, of the type that its
// accessor returns; nil if it is absent. A feature that cannot be decoded is
// a warning of f, and as good as absent.
func (f *File) Feature(bit int) any {
	f.mu.Lock()
	v, ok := f.typed[bit]
	f.mu.Unlock()
	if ok {
		return v
	}
	v, warnings := f.decodeFeature(bit)
	f.mu.Lock()
	defer f.mu.Unlock()
	if v, ok := f.typed[bit]; ok {
		return v // another goroutine was faster
	}
	if f.typed == nil {
		f.typed = map[int]any{}
	}
	f.typed[bit] = v
	f.warn = append(f.warn, warnings...)
	return v
}

func (f *File) decodeFeature(bit int) (v any, warnings []string) {
	data, off, err := f.FeatureData(bit)
	if err != nil {
		return nil, []string{fmt.Sprintf("%s: %v", featureWhat(bit), err)}
	}
	if data == nil {
		return nil, nil
	}
	v, err = DecodeFeature(bit, data, off, f.hdr.Big)
	if t, ok := v.(BuildIDTable); ok {
		for _, w := range t.Warnings {
			warnings = append(warnings, "feature BUILD_ID: "+w.Error())
		}
		return v, warnings
	}
	if err != nil {
		return nil, []string{fmt.Sprintf("%s: %v", featureWhat(bit), err)}
	}
	return v, nil
}

// featureOf returns a feature as its type, and whether it is there.
func featureOf[T any](f *File, bit int) (T, bool) {
	v, ok := f.Feature(bit).(T)
	return v, ok
}

func (f *File) featureString(bit int) string {
	s, _ := featureOf[string](f, bit)
	return s
}

// The accessors of features. Strings are bytes as recorded; what is absent or
// cannot be decoded is the zero value, and for structures ok is false.

// Hostname returns the name of the machine that recorded.
func (f *File) Hostname() string { return f.featureString(FeatureHostname) }

// OSRelease returns what uname -r said.
func (f *File) OSRelease() string { return f.featureString(FeatureOSRelease) }

// Version returns the version of the perf that recorded.
func (f *File) Version() string { return f.featureString(FeatureVersion) }

// Arch returns what uname -m said, or since Linux 6.19 perf's own name.
func (f *File) Arch() string { return f.featureString(FeatureArch) }

// CPUDesc returns the name of the processor.
func (f *File) CPUDesc() string { return f.featureString(FeatureCPUDesc) }

// CPUID returns vendor, family, model and stepping, or the like.
func (f *File) CPUID() string { return f.featureString(FeatureCPUID) }

// Cmdline returns the arguments of perf, from its path.
func (f *File) Cmdline() []string {
	v, _ := featureOf[[]string](f, FeatureCmdline)
	return v
}

// NRCPUs returns the numbers of processors.
func (f *File) NRCPUs() (NRCPUs, bool) { return featureOf[NRCPUs](f, FeatureNRCPUs) }

// TotalMem returns the size of the memory in kB.
func (f *File) TotalMem() (uint64, bool) { return featureOf[uint64](f, FeatureTotalMem) }

// EventDesc returns the events with their names.
func (f *File) EventDesc() ([]EventDesc, bool) {
	v, ok := featureOf[EventDescs](f, FeatureEventDesc)
	return v.Events, ok
}

// CPUTopology returns cores, sockets and dies.
func (f *File) CPUTopology() (CPUTopology, bool) {
	return featureOf[CPUTopology](f, FeatureCPUTopology)
}

// NUMATopology returns the memory nodes.
func (f *File) NUMATopology() ([]NUMANode, bool) {
	return featureOf[[]NUMANode](f, FeatureNUMATopology)
}

// PMUMappings returns the names of event types, in the order of the file.
func (f *File) PMUMappings() ([]PMUMapping, bool) {
	return featureOf[[]PMUMapping](f, FeaturePMUMappings)
}

// GroupDesc returns the groups of events.
func (f *File) GroupDesc() ([]GroupDesc, bool) { return featureOf[[]GroupDesc](f, FeatureGroupDesc) }

// Auxtrace returns the index of AUXTRACE records.
func (f *File) Auxtrace() ([]AuxtraceEntry, bool) {
	v, ok := featureOf[AuxtraceIndex](f, FeatureAuxtrace)
	var all []AuxtraceEntry
	for _, b := range v {
		all = append(all, b...)
	}
	return all, ok
}

// Caches returns the processor's caches.
func (f *File) Caches() ([]CacheLevel, bool) {
	v, ok := featureOf[Caches](f, FeatureCache)
	return v.Levels, ok
}

// SampleTime returns the times of the first and last sample.
func (f *File) SampleTime() (SampleTimes, bool) { return featureOf[SampleTimes](f, FeatureSampleTime) }

// MemTopology returns the physical memory blocks of each node.
func (f *File) MemTopology() (MemTopology, bool) {
	return featureOf[MemTopology](f, FeatureMemTopology)
}

// ClockResolution returns the resolution of the recording's clock in ns.
func (f *File) ClockResolution() (uint64, bool) { return featureOf[uint64](f, FeatureClockID) }

// DirFormat returns the version of the directory layout.
func (f *File) DirFormat() (uint64, bool) { return featureOf[uint64](f, FeatureDirFormat) }

// BPFProgs returns the BPF programs that were loaded.
func (f *File) BPFProgs() ([]BPFProg, bool) { return featureOf[[]BPFProg](f, FeatureBPFProgInfo) }

// BTFs returns the type information of BPF programs.
func (f *File) BTFs() ([]BTF, bool) { return featureOf[[]BTF](f, FeatureBPFBTF) }

// Compressed says how the records were compressed.
func (f *File) Compressed() (Compressed, bool) { return featureOf[Compressed](f, FeatureCompressed) }

// CPUPMUCaps returns the capabilities of the PMU "cpu".
func (f *File) CPUPMUCaps() ([]Cap, bool) { return featureOf[[]Cap](f, FeatureCPUPMUCaps) }

// ClockData relates the recording's clock to the time of day.
func (f *File) ClockData() (ClockData, bool) { return featureOf[ClockData](f, FeatureClockData) }

// HybridTopology returns the kinds of cores.
func (f *File) HybridTopology() ([]HybridPMU, bool) {
	return featureOf[[]HybridPMU](f, FeatureHybridTopology)
}

// PMUCaps returns the capabilities of each PMU.
func (f *File) PMUCaps() ([]PMUCaps, bool) { return featureOf[[]PMUCaps](f, FeaturePMUCaps) }

// CPUDomainInfo returns the scheduler's domains.
func (f *File) CPUDomainInfo() (CPUDomainInfo, bool) {
	return featureOf[CPUDomainInfo](f, FeatureCPUDomainInfo)
}

// EMachine returns the ELF machine of the recorder.
func (f *File) EMachine() (EMachine, bool) { return featureOf[EMachine](f, FeatureEMachine) }

// CacheLineSize returns the size of a cache line in bytes.
func (f *File) CacheLineSize() (uint32, bool) { return featureOf[uint32](f, FeatureClnSize) }

// An encoder appends values in a byte order.
type encoder struct {
	b     []byte
	order binary.AppendByteOrder
}

func (e *encoder) big() bool      { return e.order == binary.AppendByteOrder(binary.BigEndian) }
func (e *encoder) u8(v uint8)     { e.b = append(e.b, v) }
func (e *encoder) u16(v uint16)   { e.b = e.order.AppendUint16(e.b, v) }
func (e *encoder) u32(v uint32)   { e.b = e.order.AppendUint32(e.b, v) }
func (e *encoder) u64(v uint64)   { e.b = e.order.AppendUint64(e.b, v) }
func (e *encoder) bytes(b []byte) { e.b = append(e.b, b...) }
func (e *encoder) zeros(n int)    { e.b = append(e.b, make([]byte, n)...) }

// Strings in features: a 4-byte length, then the bytes with a NUL, padded to
// 64 (tools/perf/util/header.c: do_write_string).
const nameAlign = 64

func (e *encoder) str(s string) {
	n := (len(s) + 1 + nameAlign - 1) / nameAlign * nameAlign
	e.u32(uint32(n))
	e.b = append(e.b, s...)
	e.zeros(n - len(s))
}

// featureStr reads a string of a feature.
func featureStr(c *decode.Cursor, field string) string {
	b := c.Bytes(c.Length32(field), field)
	if i := slices.Index(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

func decodeBytes(c *decode.Cursor) []byte  { return c.Rest() }
func encodeBytes(e *encoder, v []byte)     { e.bytes(v) }
func decodeString(c *decode.Cursor) string { return featureStr(c, "string") }
func encodeString(e *encoder, v string)    { e.str(v) }
func decodeUint32(c *decode.Cursor) uint32 { return c.Uint32("value") }
func encodeUint32(e *encoder, v uint32)    { e.u32(v) }
func decodeUint64(c *decode.Cursor) uint64 { return c.Uint64("value") }
func encodeUint64(e *encoder, v uint64)    { e.u64(v) }
func decodeStrings(c *decode.Cursor) []string {
	n := c.Count32(4, "nr")
	v := make([]string, 0, n)
	for range n {
		v = append(v, featureStr(c, "string"))
	}
	return v
}

func encodeStrings(e *encoder, v []string) {
	e.u32(uint32(len(v)))
	for _, s := range v {
		e.str(s)
	}
}

// NRCPUs counts processors.
type NRCPUs struct{ Avail, Online uint32 }

func decodeNRCPUs(c *decode.Cursor) NRCPUs {
	return NRCPUs{Avail: c.Uint32("nr_cpus_avail"), Online: c.Uint32("nr_cpus_online")}
}

func encodeNRCPUs(e *encoder, v NRCPUs) {
	e.u32(v.Avail)
	e.u32(v.Online)
}

// EventDescs is the feature EVENT_DESC.
type EventDescs struct {
	AttrSize uint32 // bytes of each attr in the section
	Events   []EventDesc
}

// An EventDesc is an event and its name.
type EventDesc struct {
	Attr Attr
	Name string // as given to perf, such as "cycles:u"
	IDs  []uint64
}

func decodeEventDesc(c *decode.Cursor) EventDescs {
	var v EventDescs
	at := c.Offset()
	n := c.Uint32("nr_events")
	v.AttrSize = c.Uint32("attr_size")
	switch {
	case c.Err() != nil:
		return v
	case v.AttrSize < attrSizeMin:
		c.FailAt(at, "attr_size", "%d bytes, want %d or more", v.AttrSize, attrSizeMin)
		return v
	case uint64(n) > uint64(c.Len())/(uint64(v.AttrSize)+8):
		c.FailAt(at, "nr_events", "count %d, but only %d bytes follow", n, c.Len())
		return v
	}
	for range n {
		var d EventDesc
		// As in the header: an attr that says it is shorter than its entry is.
		off := c.Offset()
		b := c.Bytes(int(v.AttrSize), "attr")
		if c.Err() != nil {
			return v
		}
		a := decode.NewCursor(b, off, c.Big())
		d.Attr = decodeAttr(&a)
		nids := int(c.Uint32("nr_ids"))
		d.Name = featureStr(c, "name")
		if nids > c.Len()/8 {
			c.Failf("nr_ids", "count %d, but only %d bytes follow", nids, c.Len())
			return v
		}
		for range nids {
			d.IDs = append(d.IDs, c.Uint64("id"))
		}
		v.Events = append(v.Events, d)
	}
	return v
}

func encodeEventDesc(e *encoder, v EventDescs) {
	e.u32(uint32(len(v.Events)))
	e.u32(v.AttrSize)
	for i := range v.Events {
		d := &v.Events[i]
		e.b = d.Attr.AppendTo(e.b, int(v.AttrSize), e.big())
		e.u32(uint32(len(d.IDs)))
		e.str(d.Name)
		for _, id := range d.IDs {
			e.u64(id)
		}
	}
}

// A CPUTopology says where the processors are.
type CPUTopology struct {
	Cores   []string // CPUs that share a socket (or die), as lists such as "0-3"
	Threads []string // CPUs that share a core
	Dies    []string // CPUs that share a die; since Linux 5.3

	// By CPU; nil in recordings of perf before 3.19. HasDies says that Die is
	// known.
	CPUs    []CPUPlace
	HasDies bool
}

// A CPUPlace is where a CPU is.
type CPUPlace struct{ Core, Socket, Die uint32 }

// decodeCPUTopology has no count of CPUs of its own: it is that of NRCPUS. As
// 8 bytes follow for each CPU, and then 4 more behind a list of strings, the
// number is found from what is left.
func decodeCPUTopology(c *decode.Cursor) CPUTopology {
	v := CPUTopology{Cores: decodeStrings(c), Threads: decodeStrings(c)}
	if c.Err() != nil || c.Len() < 8 {
		return v
	}
	rest := c.Rest()
	at := c.Offset() - int64(len(rest))
	n := cpusWithDies(rest, at, c.Big())
	if n == 0 {
		n = len(rest) / 8
	} else {
		v.HasDies = true
	}
	d := decode.NewCursor(rest, at, c.Big())
	for range n {
		v.CPUs = append(v.CPUs, CPUPlace{Core: d.Uint32("core_id"), Socket: d.Uint32("socket_id")})
	}
	if v.HasDies {
		v.Dies = decodeStrings(&d)
		for i := range v.CPUs {
			v.CPUs[i].Die = d.Uint32("die_id")
		}
	}
	return v
}

// cpusWithDies returns the n for which b is n pairs of core and socket, a list
// of at least one string, and n dies, with at most the padding of a record
// behind; 0 if there is none. The strings make it unique in practice: they
// are lists of CPUs behind a length. Hostile input may make many n look right
// for long, so the search is bounded.
func cpusWithDies(b []byte, off int64, big bool) int {
	steps := 1 << 20
	for n := 1; n <= (len(b)-4)/12; n++ {
		c := decode.NewCursor(b[8*n:], off, big)
		count := c.Count32(4, "nr")
		if c.Err() != nil || count == 0 {
			continue
		}
		ok := true
		for range count {
			if steps--; steps < 0 {
				return 0
			}
			l := c.Length32("string")
			s := c.Bytes(l, "string")
			if ok = c.Err() == nil && l > 0 && slices.Contains(s, 0) && cpuList(s); !ok {
				break
			}
		}
		if ok && c.Len() >= 4*n && c.Len() < 4*n+8 {
			return n
		}
	}
	return 0
}

// cpuList reports whether b begins like a list of CPUs.
func cpuList(b []byte) bool {
	for _, x := range b {
		switch {
		case x == 0:
			return true
		case (x < '0' || x > '9') && x != '-' && x != ',':
			return false
		}
	}
	return true
}

func encodeCPUTopology(e *encoder, v CPUTopology) {
	encodeStrings(e, v.Cores)
	encodeStrings(e, v.Threads)
	for _, p := range v.CPUs {
		e.u32(p.Core)
		e.u32(p.Socket)
	}
	if !v.HasDies {
		return
	}
	encodeStrings(e, v.Dies)
	for _, p := range v.CPUs {
		e.u32(p.Die)
	}
}

// A NUMANode is memory with the CPUs near it.
type NUMANode struct {
	Node        uint32
	Total, Free uint64 // kB
	CPUs        string // a list such as "0-3"
}

func decodeNUMATopology(c *decode.Cursor) []NUMANode {
	n := c.Count32(24, "nr_nodes")
	v := make([]NUMANode, 0, n)
	for range n {
		v = append(v, NUMANode{
			Node:  c.Uint32("node"),
			Total: c.Uint64("total"),
			Free:  c.Uint64("free"),
			CPUs:  featureStr(c, "cpus"),
		})
	}
	return v
}

func encodeNUMATopology(e *encoder, v []NUMANode) {
	e.u32(uint32(len(v)))
	for _, n := range v {
		e.u32(n.Node)
		e.u64(n.Total)
		e.u64(n.Free)
		e.str(n.CPUs)
	}
}

// A PMUMapping names a value of Attr.Type.
type PMUMapping struct {
	Type uint32
	Name string
}

func decodePMUMappings(c *decode.Cursor) []PMUMapping {
	n := c.Count32(8, "nr")
	v := make([]PMUMapping, 0, n)
	for range n {
		v = append(v, PMUMapping{Type: c.Uint32("type"), Name: featureStr(c, "name")})
	}
	return v
}

func encodePMUMappings(e *encoder, v []PMUMapping) {
	e.u32(uint32(len(v)))
	for _, m := range v {
		e.u32(m.Type)
		e.str(m.Name)
	}
}

// A GroupDesc is a group of events that were counted together.
type GroupDesc struct {
	Name    string // "{anon_group}" if it was given none
	Leader  uint32 // index into File.Events
	Members uint32 // with the leader; the others follow it
}

func decodeGroupDesc(c *decode.Cursor) []GroupDesc {
	n := c.Count32(12, "nr_groups")
	v := make([]GroupDesc, 0, n)
	for range n {
		v = append(v, GroupDesc{Name: featureStr(c, "name"), Leader: c.Uint32("leader_idx"), Members: c.Uint32("nr_members")})
	}
	return v
}

func encodeGroupDesc(e *encoder, v []GroupDesc) {
	e.u32(uint32(len(v)))
	for _, g := range v {
		e.str(g.Name)
		e.u32(g.Leader)
		e.u32(g.Members)
	}
}

// An AuxtraceIndex is the feature AUXTRACE, in the blocks it is stored in.
type AuxtraceIndex [][]AuxtraceEntry

// An AuxtraceEntry says where an AUXTRACE record is.
type AuxtraceEntry struct {
	Offset uint64 // in the file
	Size   uint64 // bytes of the record, without the trace behind it
}

// decodeAuxtrace reads blocks of a count and its entries. Simpleperf leaves
// out the counts.
func decodeAuxtrace(c *decode.Cursor) AuxtraceIndex {
	var v AuxtraceIndex
	off := c.Offset()
	b := c.Rest()
	blocks := decode.NewCursor(b, off, c.Big())
	for blocks.Len() >= 8 && blocks.Err() == nil {
		v = append(v, auxtraceEntries(&blocks, blocks.Count(16, "nr")))
	}
	if err := blocks.Err(); err != nil {
		if len(b)%16 != 0 {
			*c = blocks // with its error
			return v
		}
		bare := decode.NewCursor(b, off, c.Big())
		v = AuxtraceIndex{auxtraceEntries(&bare, len(b)/16)}
	}
	return v
}

func auxtraceEntries(c *decode.Cursor, n int) []AuxtraceEntry {
	block := make([]AuxtraceEntry, 0, n)
	for range n {
		block = append(block, AuxtraceEntry{Offset: c.Uint64("file_offset"), Size: c.Uint64("size")})
	}
	return block
}

func encodeAuxtrace(e *encoder, v AuxtraceIndex) {
	for _, block := range v {
		e.u64(uint64(len(block)))
		for _, a := range block {
			e.u64(a.Offset)
			e.u64(a.Size)
		}
	}
}

// Caches is the feature CACHE.
type Caches struct {
	Version uint32 // 1
	Levels  []CacheLevel
}

// A CacheLevel is a cache of some CPUs.
type CacheLevel struct {
	Level, LineSize, Sets, Ways uint32
	Type                        string // "Data", "Instruction", "Unified"
	Size                        string // such as "32K"
	CPUs                        string // a list such as "0-3"
}

func decodeCache(c *decode.Cursor) Caches {
	var v Caches
	at := c.Offset()
	if v.Version = c.Uint32("version"); c.Err() == nil && v.Version != 1 {
		c.FailAt(at, "version", "%d, want 1", v.Version)
		return v
	}
	n := c.Count32(28, "nr")
	v.Levels = make([]CacheLevel, 0, n)
	for range n {
		v.Levels = append(v.Levels, CacheLevel{
			Level:    c.Uint32("level"),
			LineSize: c.Uint32("line_size"),
			Sets:     c.Uint32("sets"),
			Ways:     c.Uint32("ways"),
			Type:     featureStr(c, "type"),
			Size:     featureStr(c, "size"),
			CPUs:     featureStr(c, "map"),
		})
	}
	return v
}

func encodeCache(e *encoder, v Caches) {
	e.u32(v.Version)
	e.u32(uint32(len(v.Levels)))
	for _, l := range v.Levels {
		e.u32(l.Level)
		e.u32(l.LineSize)
		e.u32(l.Sets)
		e.u32(l.Ways)
		e.str(l.Type)
		e.str(l.Size)
		e.str(l.CPUs)
	}
}

// SampleTimes are when the first and last sample were taken, in ns of the
// recording's clock.
type SampleTimes struct{ First, Last uint64 }

func decodeSampleTime(c *decode.Cursor) SampleTimes {
	return SampleTimes{First: c.Uint64("first_sample_time"), Last: c.Uint64("last_sample_time")}
}

func encodeSampleTime(e *encoder, v SampleTimes) {
	e.u64(v.First)
	e.u64(v.Last)
}

// A MemTopology says which blocks of physical memory belong to which node.
type MemTopology struct {
	Version   uint64 // 1
	BlockSize uint64 // bytes
	Nodes     []MemNode
}

// A MemNode has the blocks whose bits are set.
type MemNode struct {
	Node uint64
	Size uint64   // bits in use
	Set  []uint64 // the lowest bit of the first is block 0
}

func decodeMemTopology(c *decode.Cursor) MemTopology {
	var v MemTopology
	at := c.Offset()
	if v.Version = c.Uint64("version"); c.Err() == nil && v.Version != 1 {
		c.FailAt(at, "version", "%d, want 1", v.Version)
		return v
	}
	v.BlockSize = c.Uint64("block_size")
	n := c.Count(24, "nr")
	v.Nodes = make([]MemNode, 0, n)
	for range n {
		m := MemNode{Node: c.Uint64("node")}
		c.Skip(8, "size") // again as bitmap.size, which is what perf goes by
		at := c.Offset()
		size := c.Uint64("bitmap.size")
		m.Size = size
		words := size / 64
		if size%64 != 0 {
			words++
		}
		if c.Err() == nil && words > uint64(c.Len()/8) {
			c.FailAt(at, "bitmap.size", "%d bits, but only %d bytes follow", size, c.Len())
		}
		if c.Err() != nil {
			return v
		}
		m.Set = make([]uint64, words)
		for i := range m.Set {
			m.Set[i] = c.Uint64("bitmap")
		}
		v.Nodes = append(v.Nodes, m)
	}
	return v
}

func encodeMemTopology(e *encoder, v MemTopology) {
	e.u64(v.Version)
	e.u64(v.BlockSize)
	e.u64(uint64(len(v.Nodes)))
	for _, n := range v.Nodes {
		e.u64(n.Node)
		e.u64(n.Size)
		e.u64(n.Size)
		for _, w := range n.Set {
			e.u64(w)
		}
	}
}

// Compressed says how COMPRESSED records are packed.
type Compressed struct {
	Version uint32
	Type    uint32 // 1 zstd
	Level   uint32
	Ratio   uint32
	MmapLen uint32 // bytes: no batch of records is larger
}

func decodeCompressed(c *decode.Cursor) Compressed {
	return Compressed{
		Version: c.Uint32("version"),
		Type:    c.Uint32("type"),
		Level:   c.Uint32("level"),
		Ratio:   c.Uint32("ratio"),
		MmapLen: c.Uint32("mmap_len"),
	}
}

func encodeCompressed(e *encoder, v Compressed) {
	e.u32(v.Version)
	e.u32(v.Type)
	e.u32(v.Level)
	e.u32(v.Ratio)
	e.u32(v.MmapLen)
}

// A Cap is a capability of a PMU.
type Cap struct{ Name, Value string }

func decodeCaps(c *decode.Cursor) []Cap {
	n := c.Count32(8, "nr_caps")
	v := make([]Cap, 0, n)
	for range n {
		v = append(v, Cap{Name: featureStr(c, "name"), Value: featureStr(c, "value")})
	}
	return v
}

func encodeCaps(e *encoder, v []Cap) {
	e.u32(uint32(len(v)))
	for _, k := range v {
		e.str(k.Name)
		e.str(k.Value)
	}
}

// PMUCaps are the capabilities of a PMU.
type PMUCaps struct {
	PMU  string
	Caps []Cap
}

func decodePMUCaps(c *decode.Cursor) []PMUCaps {
	n := c.Count32(8, "nr_pmu")
	v := make([]PMUCaps, 0, n)
	for range n {
		caps := decodeCaps(c)
		v = append(v, PMUCaps{PMU: featureStr(c, "pmu_name"), Caps: caps})
	}
	return v
}

func encodePMUCaps(e *encoder, v []PMUCaps) {
	e.u32(uint32(len(v)))
	for _, p := range v {
		encodeCaps(e, p.Caps)
		e.str(p.PMU)
	}
}

// ClockData is one moment in two clocks.
type ClockData struct {
	Version  uint32 // 1
	ClockID  uint32 // CLOCK_* of the recording
	WallTime uint64 // ns since 1970
	Time     uint64 // ns of the recording's clock
}

func decodeClockData(c *decode.Cursor) ClockData {
	var v ClockData
	at := c.Offset()
	if v.Version = c.Uint32("version"); c.Err() == nil && v.Version != 1 {
		c.FailAt(at, "version", "%d, want 1", v.Version)
		return v
	}
	v.ClockID = c.Uint32("clockid")
	v.WallTime = c.Uint64("wall_clock_ns")
	v.Time = c.Uint64("clockid_time_ns")
	return v
}

func encodeClockData(e *encoder, v ClockData) {
	e.u32(v.Version)
	e.u32(v.ClockID)
	e.u64(v.WallTime)
	e.u64(v.Time)
}

// A HybridPMU is the PMU of one kind of cores.
type HybridPMU struct{ PMU, CPUs string }

func decodeHybridTopology(c *decode.Cursor) []HybridPMU {
	n := c.Count32(8, "nr")
	v := make([]HybridPMU, 0, n)
	for range n {
		v = append(v, HybridPMU{PMU: featureStr(c, "pmu_name"), CPUs: featureStr(c, "cpus")})
	}
	return v
}

func encodeHybridTopology(e *encoder, v []HybridPMU) {
	e.u32(uint32(len(v)))
	for _, h := range v {
		e.str(h.PMU)
		e.str(h.CPUs)
	}
}

// CPUDomainInfo holds the domains in which the scheduler balances.
type CPUDomainInfo struct {
	Version    uint32 // of /proc/schedstat
	MaxDomains uint32
	CPUs       []CPUDomains
}

// CPUDomains are the domains of a CPU, from the inside.
type CPUDomains struct {
	CPU     uint32
	Domains []CPUDomain
}

// A CPUDomain is a set of CPUs.
type CPUDomain struct {
	Domain              uint32
	Name, CPUMask, CPUs string // such as "MC", "00000003", "0-1"
}

// decodeCPUDomainInfo reads CPUs up to the end: their number is that of
// NRCPUS.
func decodeCPUDomainInfo(c *decode.Cursor) CPUDomainInfo {
	v := CPUDomainInfo{Version: c.Uint32("schedstat_version"), MaxDomains: c.Uint32("max_sched_domains")}
	for c.Len() >= 8 && c.Err() == nil {
		d := CPUDomains{CPU: c.Uint32("cpu")}
		n := c.Count32(16, "nr_domains")
		for range n {
			d.Domains = append(d.Domains, CPUDomain{
				Domain:  c.Uint32("domain"),
				Name:    featureStr(c, "dname"),
				CPUMask: featureStr(c, "cpumask"),
				CPUs:    featureStr(c, "cpulist"),
			})
		}
		v.CPUs = append(v.CPUs, d)
	}
	return v
}

func encodeCPUDomainInfo(e *encoder, v CPUDomainInfo) {
	e.u32(v.Version)
	e.u32(v.MaxDomains)
	for _, d := range v.CPUs {
		e.u32(d.CPU)
		e.u32(uint32(len(d.Domains)))
		for _, m := range d.Domains {
			e.u32(m.Domain)
			e.str(m.Name)
			e.str(m.CPUMask)
			e.str(m.CPUs)
		}
	}
}

// EMachine is what the ELF header of a program of the recorder holds.
type EMachine struct{ Machine, Flags uint32 }

func decodeEMachine(c *decode.Cursor) EMachine {
	return EMachine{Machine: c.Uint32("e_machine"), Flags: c.Uint32("e_flags")}
}

func encodeEMachine(e *encoder, v EMachine) {
	e.u32(v.Machine)
	e.u32(v.Flags)
}
