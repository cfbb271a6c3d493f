package perfdata

import (
	"bytes"
	"math"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/internal/decode"
)

// user decodes the body of a record that perf wrote of itself. The layouts are
// those of tools/lib/perf/include/perf/event.h. These records are few: each
// is allocated.
func (d *Decoder) user(c *decode.Cursor, m Meta) Record {
	switch m.Type {
	case RecordHeaderAttr:
		return decodeHeaderAttr(c, m)
	case RecordEventType:
		return &EventType{Meta: m, EventID: c.Uint64("event_type.event_id"), Name: c.CString("event_type.name")}
	case RecordTracingData:
		return &TracingData{Meta: m, Len: c.Uint32("tracing_data.size")}
	case RecordBuildID:
		return decodeBuildID(c, m)
	case RecordFinishedRound, RecordFinishedInit:
		d.finished = Finished{Meta: m}
		return &d.finished
	case RecordIDIndex:
		return decodeIDIndex(c, m)
	case RecordAuxtraceInfo:
		r := &AuxtraceInfo{Meta: m, Kind: c.Uint32("auxtrace_info.type")}
		c.Skip(4, "auxtrace_info.reserved")
		for c.Len() >= 8 {
			r.Priv = append(r.Priv, c.Uint64("auxtrace_info.priv"))
		}
		return r
	case RecordAuxtrace:
		r := &Auxtrace{
			Meta:      m,
			Len:       c.Uint64("auxtrace.size"),
			AuxOffset: c.Uint64("auxtrace.offset"),
			Reference: c.Uint64("auxtrace.reference"),
			Index:     c.Uint32("auxtrace.idx"),
			TaskTID:   int32(c.Uint32("auxtrace.tid")),
			AuxCPU:    int32(c.Uint32("auxtrace.cpu")),
		}
		r.DataOffset = m.Offset + int64(m.Size)
		return r
	case RecordAuxtraceError:
		return decodeAuxtraceError(c, m)
	case RecordThreadMap:
		r := &ThreadMap{Meta: m}
		for range c.Count(24, "thread_map.nr") {
			r.Threads = append(r.Threads, ThreadMapEntry{
				PID:  int64(c.Uint64("thread_map.pid")),
				Comm: fixedString(c, 16, "thread_map.comm"),
			})
		}
		return r
	case RecordCPUMap:
		return &CPUMapRecord{Meta: m, CPUMap: decodeCPUMap(c)}
	case RecordStatConfig:
		r := &StatConfig{Meta: m}
		for range c.Count(16, "stat_config.nr") {
			r.Entries = append(r.Entries, [2]uint64{c.Uint64("stat_config.tag"), c.Uint64("stat_config.val")})
		}
		return r
	case RecordStat:
		return &Stat{
			Meta:    m,
			EventID: c.Uint64("stat.id"),
			StatCPU: int32(c.Uint32("stat.cpu")),
			Thread:  int32(c.Uint32("stat.thread")),
			Value:   c.Uint64("stat.val"),
			Enabled: c.Uint64("stat.ena"),
			Running: c.Uint64("stat.run"),
		}
	case RecordStatRound:
		return &StatRound{Meta: m, Kind: c.Uint64("stat_round.type"), RoundTime: c.Uint64("stat_round.time")}
	case RecordEventUpdate:
		return decodeEventUpdate(c, m)
	case RecordTimeConv:
		return decodeTimeConv(c, m)
	case RecordHeaderFeature:
		return &HeaderFeature{Meta: m, Feature: c.Uint64("feature.feat_id"), Data: c.Rest()}
	case RecordCompressed:
		return &CompressedData{Meta: m, Data: c.Rest()}
	case RecordCompressed2:
		n := c.Count(1, "compressed2.data_size")
		return &CompressedData{Meta: m, Data: c.Bytes(n, "compressed2.data")}
	case RecordBPFMetadata:
		r := &BPFMetadata{Meta: m, Program: fixedString(c, 16, "bpf_metadata.prog_name")}
		for range c.Count(64+256, "bpf_metadata.nr_entries") {
			r.Entries = append(r.Entries, [2]string{
				fixedString(c, 64, "bpf_metadata.event_name"),
				fixedString(c, 256, "bpf_metadata.event_value"),
			})
		}
		return r
	case RecordSchedstatCPU, RecordSchedstatDomain:
		r := &Schedstat{
			Meta:      m,
			Timestamp: c.Uint64("schedstat.timestamp"),
			StatCPU:   c.Uint32("schedstat.cpu"),
			Version:   c.Uint16("schedstat.version"),
			Domain:    c.Uint16("schedstat.domain"),
		}
		r.Values = c.Rest()
		return r
	}
	d.unknown = Unknown{Meta: m, Body: c.Rest()}
	return &d.unknown
}

// fixedString reads an array of n characters up to its first NUL.
func fixedString(c *decode.Cursor, n int, field string) string {
	b := c.Bytes(n, field)
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// decodeHeaderAttr decodes HEADER_ATTR: an attr whose own size says where the
// ids begin.
func decodeHeaderAttr(c *decode.Cursor, m Meta) *HeaderAttr {
	r := &HeaderAttr{Meta: m}
	off, big := c.Offset(), c.Big()
	b := c.Rest()
	if len(b) < attrSizeMin {
		*c = decode.NewCursor(b, off, big)
		c.Failf("attr", "%d bytes wanted, but only %d follow", attrSizeMin, len(b))
		return r
	}
	n := int(order(big).Uint32(b[4:]))
	if n == 0 {
		n = attrSizeMin
	}
	if n < attrSizeMin || n > len(b) {
		*c = decode.NewCursor(b, off, big)
		c.FailAt(off+4, "attr.size", "is %d, but must be between %d and the %d that follow", n, attrSizeMin, len(b))
		return r
	}
	*c = decode.NewCursor(b[:n:n], off, big)
	r.Attr = decodeAttr(c)
	*c = decode.NewCursor(b[n:], off+int64(n), big)
	for c.Len() >= 8 {
		r.IDs = append(r.IDs, c.Uint64("attr.id"))
	}
	return r
}

// decodeBuildID decodes HEADER_BUILD_ID (since Linux 3.? with the pid in
// front), alone in a pipe or in the BUILD_ID feature.
func decodeBuildID(c *decode.Cursor, m Meta) *BuildIDRecord {
	r := &BuildIDRecord{Meta: m, MachinePID: int32(c.Uint32("build_id.pid"))}
	if b := c.Bytes(24, "build_id.build_id"); b != nil {
		n := 20
		if m.Misc&MiscBuildIDSize != 0 {
			n = min(int(b[20]), 20)
		}
		r.BuildID = buildid.New(b[:n])
	}
	r.Name = c.CString("build_id.filename")
	return r
}

func decodeIDIndex(c *decode.Cursor, m Meta) *IDIndex {
	r := &IDIndex{Meta: m}
	n := c.Count(32, "id_index.nr")
	for range n {
		r.Entries = append(r.Entries, IDIndexEntry{
			ID:    c.Uint64("id_index.id"),
			Index: c.Uint64("id_index.idx"),
			CPU:   int64(c.Uint64("id_index.cpu")),
			TID:   int64(c.Uint64("id_index.tid")),
			VCPU:  -1,
		})
	}
	if c.Len() < 16*n {
		return r // before Linux 6.0 there were no guests
	}
	for i := range r.Entries {
		r.Entries[i].MachinePID = int64(c.Uint64("id_index.machine_pid"))
		r.Entries[i].VCPU = int64(c.Uint64("id_index.vcpu"))
	}
	return r
}

func decodeAuxtraceError(c *decode.Cursor, m Meta) *AuxtraceError {
	r := &AuxtraceError{
		Meta:    m,
		Kind:    c.Uint32("auxtrace_error.type"),
		Code:    c.Uint32("auxtrace_error.code"),
		ErrCPU:  int32(c.Uint32("auxtrace_error.cpu")),
		TaskPID: int32(c.Uint32("auxtrace_error.pid")),
		TaskTID: int32(c.Uint32("auxtrace_error.tid")),
		VCPU:    -1,
	}
	format := c.Uint32("auxtrace_error.fmt")
	r.IP = c.Uint64("auxtrace_error.ip")
	if format == 0 { // before there was a time
		r.Message = c.CString("auxtrace_error.msg")
		return r
	}
	r.ErrTime = c.Uint64("auxtrace_error.time")
	r.Message = fixedString(c, min(c.Len(), 64), "auxtrace_error.msg")
	if format >= 2 && c.Len() >= 8 {
		r.MachinePID = int32(c.Uint32("auxtrace_error.machine_pid"))
		r.VCPU = int32(c.Uint32("auxtrace_error.vcpu"))
	}
	return r
}

// decodeCPUMap decodes struct perf_record_cpu_map_data: a list of CPUs, a
// bitmap in words of 4 or 8 bytes, or a range.
func decodeCPUMap(c *decode.Cursor) CPUMap {
	var m CPUMap
	at := c.Offset()
	switch kind := c.Uint16("cpu_map.type"); kind {
	case 0:
		n := int(c.Uint16("cpu_map.nr"))
		if n > c.Len()/2 {
			c.FailAt(at+2, "cpu_map.nr", "count %d, but only %d bytes follow", n, c.Len())
			return m
		}
		for range n {
			if cpu := c.Uint16("cpu_map.cpu"); cpu == 0xffff {
				m.Any = true
			} else {
				m.CPUs = append(m.CPUs, int32(cpu))
			}
		}
	case 1:
		n, size := int(c.Uint16("cpu_map.nr")), int(c.Uint16("cpu_map.long_size"))
		if size == 8 {
			c.Skip(4, "cpu_map.pad")
		} else if size != 4 {
			c.FailAt(at+4, "cpu_map.long_size", "is %d, but must be 4 or 8", size)
			return m
		}
		if n > c.Len()/size {
			c.FailAt(at+2, "cpu_map.nr", "count %d, but only %d bytes follow", n, c.Len())
			return m
		}
		for i := range n {
			var w uint64
			if size == 4 {
				w = uint64(c.Uint32("cpu_map.mask"))
			} else {
				w = c.Uint64("cpu_map.mask")
			}
			for bit := range 8 * size {
				if w>>bit&1 != 0 {
					m.CPUs = append(m.CPUs, int32(8*size*i+bit))
				}
			}
		}
	case 2:
		m.Any = c.Uint8("cpu_map.any_cpu") != 0
		c.Skip(1, "cpu_map.pad")
		first, last := c.Uint16("cpu_map.start_cpu"), c.Uint16("cpu_map.end_cpu")
		for cpu := int32(first); cpu <= int32(last) && c.Err() == nil; cpu++ {
			m.CPUs = append(m.CPUs, cpu)
		}
	default:
		c.FailAt(at, "cpu_map.type", "is %d, but must be 0, 1 or 2", kind)
	}
	return m
}

func decodeEventUpdate(c *decode.Cursor, m Meta) *EventUpdate {
	r := &EventUpdate{Meta: m, Kind: c.Uint64("event_update.type"), EventID: c.Uint64("event_update.id")}
	switch r.Kind {
	case 0, 2:
		r.Text = c.CString("event_update.name")
	case 1:
		r.Scale = math.Float64frombits(c.Uint64("event_update.scale"))
	case 3:
		r.CPUs = decodeCPUMap(c)
	}
	return r
}

func decodeTimeConv(c *decode.Cursor, m Meta) *TimeConv {
	r := &TimeConv{
		Meta:  m,
		Shift: c.Uint64("time_conv.time_shift"),
		Mult:  c.Uint64("time_conv.time_mult"),
		Zero:  c.Uint64("time_conv.time_zero"),
	}
	if c.Len() >= 24 { // since Linux 5.11
		r.Cycles = c.Uint64("time_conv.time_cycles")
		r.Mask = c.Uint64("time_conv.time_mask")
		r.CapZero = c.Uint8("time_conv.cap_user_time_zero") != 0
		r.CapShort = c.Uint8("time_conv.cap_user_time_short") != 0
	}
	return r
}
