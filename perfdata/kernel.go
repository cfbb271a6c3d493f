package perfdata

import (
	"slices"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/internal/decode"
)

// kernel decodes the body of a record of the kernel; c holds it without the
// trailer. The layouts are those of enum perf_event_type in
// include/uapi/linux/perf_event.h.
func (d *Decoder) kernel(c *decode.Cursor, m Meta) Record {
	switch m.Type {
	case RecordMmap, RecordMmap2:
		return d.decodeMmap(c, m)
	case RecordLost:
		d.lost = Lost{Meta: m, LostID: c.Uint64("lost.id"), Count: c.Uint64("lost.lost")}
		return &d.lost
	case RecordLostSamples:
		d.lost = Lost{Meta: m, Count: c.Uint64("lost_samples.lost")}
		return &d.lost
	case RecordComm:
		d.comm = Comm{
			Meta:    m,
			CommPID: int32(c.Uint32("comm.pid")),
			CommTID: int32(c.Uint32("comm.tid")),
			Name:    c.CString("comm.comm"),
		}
		return &d.comm
	case RecordFork, RecordExit:
		d.fork = Fork{
			Meta:      m,
			ForkPID:   int32(c.Uint32("fork.pid")),
			ParentPID: int32(c.Uint32("fork.ppid")),
			ForkTID:   int32(c.Uint32("fork.tid")),
			ParentTID: int32(c.Uint32("fork.ptid")),
			ForkTime:  c.Uint64("fork.time"),
		}
		return &d.fork
	case RecordThrottle, RecordUnthrottle:
		d.throttle = Throttle{
			Meta:         m,
			ThrottleTime: c.Uint64("throttle.time"),
			EventID:      c.Uint64("throttle.id"),
			EventStream:  c.Uint64("throttle.stream_id"),
		}
		return &d.throttle
	case RecordRead:
		return d.decodeReadRecord(c, m)
	case RecordAux:
		d.aux = Aux{
			Meta:      m,
			AuxOffset: c.Uint64("aux.aux_offset"),
			AuxSize:   c.Uint64("aux.aux_size"),
			Flags:     c.Uint64("aux.flags"),
		}
		return &d.aux
	case RecordItraceStart:
		d.itrace = ItraceStart{
			Meta:    m,
			TaskPID: int32(c.Uint32("itrace_start.pid")),
			TaskTID: int32(c.Uint32("itrace_start.tid")),
		}
		return &d.itrace
	case RecordSwitch:
		d.swtch = Switch{Meta: m, OtherPID: -1, OtherTID: -1}
		return &d.swtch
	case RecordSwitchCPUWide:
		d.swtch = Switch{
			Meta:     m,
			OtherPID: int32(c.Uint32("switch.next_prev_pid")),
			OtherTID: int32(c.Uint32("switch.next_prev_tid")),
		}
		return &d.swtch
	case RecordNamespaces:
		return d.decodeNamespaces(c, m)
	case RecordKsymbol:
		d.ksymbol = Ksymbol{
			Meta:  m,
			Addr:  c.Uint64("ksymbol.addr"),
			Len:   c.Uint32("ksymbol.len"),
			Kind:  c.Uint16("ksymbol.ksym_type"),
			Flags: c.Uint16("ksymbol.flags"),
			Name:  c.CString("ksymbol.name"),
		}
		return &d.ksymbol
	case RecordBPFEvent:
		d.bpf = BPFEvent{
			Meta:   m,
			Kind:   c.Uint16("bpf_event.type"),
			Flags:  c.Uint16("bpf_event.flags"),
			ProgID: c.Uint32("bpf_event.id"),
		}
		copy(d.bpf.Tag[:], c.Bytes(8, "bpf_event.tag"))
		return &d.bpf
	case RecordCgroup:
		d.cgroup = Cgroup{Meta: m, CgroupID: c.Uint64("cgroup.id"), Path: c.CString("cgroup.path")}
		return &d.cgroup
	case RecordTextPoke:
		d.poke = TextPoke{Meta: m, Addr: c.Uint64("text_poke.addr")}
		old, new := c.Uint16("text_poke.old_len"), c.Uint16("text_poke.new_len")
		d.poke.Old = c.Bytes(int(old), "text_poke.old")
		d.poke.New = c.Bytes(int(new), "text_poke.new")
		return &d.poke
	case RecordAuxOutputHWID:
		d.hwid = AuxOutputHWID{Meta: m, HWID: c.Uint64("aux_output_hw_id.hw_id")}
		return &d.hwid
	case RecordCallchainDeferred:
		d.deferred = CallchainDeferred{
			Meta:      m,
			Cookie:    c.Uint64("callchain_deferred.cookie"),
			Callchain: d.deferred.Callchain[:0],
		}
		n := c.Count(8, "callchain_deferred.nr")
		d.deferred.Callchain = d.words(d.deferred.Callchain, c.Bytes(8*n, "callchain_deferred.ips"))
		return &d.deferred
	}
	d.unknown = Unknown{Meta: m, Body: c.Rest()}
	return &d.unknown
}

func (d *Decoder) decodeMmap(c *decode.Cursor, m Meta) Record {
	// Field names as constants per type: errors name the record.
	if m.Type == RecordMmap {
		d.mmap = Mmap{
			Meta:   m,
			MapPID: int32(c.Uint32("mmap.pid")),
			MapTID: int32(c.Uint32("mmap.tid")),
			Start:  c.Uint64("mmap.start"),
			Len:    c.Uint64("mmap.len"),
			Pgoff:  c.Uint64("mmap.pgoff"),
			Name:   c.CString("mmap.filename"),
		}
		return &d.mmap
	}
	d.mmap = Mmap{
		Meta:   m,
		MapPID: int32(c.Uint32("mmap2.pid")),
		MapTID: int32(c.Uint32("mmap2.tid")),
		Start:  c.Uint64("mmap2.start"),
		Len:    c.Uint64("mmap2.len"),
		Pgoff:  c.Uint64("mmap2.pgoff"),
	}
	if id, ok := d.mmapBuildID(c); ok && m.Misc&MiscMmapBuildID != 0 {
		d.mmap.BuildID = id
		c.Skip(24, "mmap2.build_id")
	} else {
		d.mmap.Maj = c.Uint32("mmap2.maj")
		d.mmap.Min = c.Uint32("mmap2.min")
		d.mmap.Ino = c.Uint64("mmap2.ino")
		d.mmap.InoGen = c.Uint64("mmap2.ino_generation")
	}
	d.mmap.Prot = c.Uint32("mmap2.prot")
	d.mmap.Flags = c.Uint32("mmap2.flags")
	d.mmap.Name = c.CString("mmap2.filename")
	return &d.mmap
}

// mmapBuildID looks whether a build id follows: its size in a byte, three bytes
// of zero, and 20 bytes, with zeros behind the id. ok is false if it can be
// none.
//
// The bit in misc does not prove it. The kernel writes an mmap for all events
// that listen from one header, and does not take the bit off again for those
// that did not ask for build ids (perf_event_mmap_output in
// kernel/events/core.c): next to perf record --buildid-mmap, the recordings of
// others have it on records with a device and an inode. perf 6.1 dies of them.
// A device of a small number may look like a short id; that it is believed to
// be only if some event asked for ids.
func (d *Decoder) mmapBuildID(c *decode.Cursor) (id buildid.ID, ok bool) {
	b := c.Peek(24)
	if len(b) < 24 || b[0] > 20 || b[1]|b[2]|b[3] != 0 {
		return "", false
	}
	n := int(b[0])
	if buildid.New(b[4+n:]) != "" {
		return "", false
	}
	const minors = 1 << 20 // of a device
	asked := func(e Event) bool { return e.Attr.Flags.Has(FlagBuildID) }
	if n > 0 && n <= 8 && order(c.Big()).Uint32(b[4:]) < minors && !slices.ContainsFunc(d.f.events, asked) {
		return "", false
	}
	return buildid.New(b[4 : 4+n]), true
}

func (d *Decoder) decodeNamespaces(c *decode.Cursor, m Meta) Record {
	d.namespaces = Namespaces{
		Meta:    m,
		TaskPID: int32(c.Uint32("namespaces.pid")),
		TaskTID: int32(c.Uint32("namespaces.tid")),
		Links:   d.namespaces.Links[:0],
	}
	for range c.Count(16, "namespaces.nr") {
		d.namespaces.Links = append(d.namespaces.Links, NSLink{
			Dev: c.Uint64("namespaces.dev"),
			Ino: c.Uint64("namespaces.ino"),
		})
	}
	return &d.namespaces
}

func (d *Decoder) decodeReadRecord(c *decode.Cursor, m Meta) Record {
	d.read = Read{
		Meta:    m,
		TaskPID: int32(c.Uint32("read.pid")),
		TaskTID: int32(c.Uint32("read.tid")),
		Values:  d.read.Values[:0],
	}
	ev := 0
	if len(d.tab.layouts) > 1 && m.ID != 0 {
		ev = d.lookup(m.ID)
	}
	d.read.Event = ev
	if len(d.tab.layouts) > 0 {
		d.read.Values = decodeRead(c, d.tab.layouts[max(ev, 0)].rf, d.read.Values, &d.read.Times)
	}
	return &d.read
}
