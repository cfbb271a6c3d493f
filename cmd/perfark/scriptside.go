package main

import (
	"slices"
	"strconv"

	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/session"
)

// side appends a record that is no sample, if it is to be shown.
func (sp *scriptPrinter) side(b []byte, e *session.Event, show *showFlags, clock *scriptClock) []byte {
	if !show.has(e.Record) {
		return b
	}
	m := e.Record.Head()
	ev := sp.sideEvent(m.ID)
	if ev == nil {
		return b
	}
	f := ev.fields
	pid, tid, cpu := m.PID, m.TID, m.CPU
	if !ev.attr.Flags.Has(perfdata.FlagSampleIDAll) {
		pid, tid, cpu = sideThread(e.Record)
	}
	if f&fieldComm != 0 {
		b = sp.appendComm(b, e.Comm, ev)
	}
	b = appendThread(b, pid, tid, f)
	if f&fieldCPU != 0 {
		b = appendCPU(b, cpu)
	}
	if f&fieldMisc != 0 {
		b = appendMisc(b, m.Type, m.Misc)
	}
	if f&fieldTOD != 0 {
		b = sp.timeOfDay(b, m.Time)
	}
	if f&fieldTime != 0 {
		b = sp.appendTime(b, clock.at(m.Time))
	}
	b = append(b, "PERF_RECORD_"...)
	b = append(b, m.Type.String()...)
	if r, ok := e.Record.(*perfdata.TextPoke); ok {
		return append(sp.appendPoke(b, r), '\n')
	}
	return append(appendRecord(b, e.Record), '\n')
}

// has reports whether records like r are shown.
func (s *showFlags) has(r perfdata.Record) bool {
	switch r := r.(type) {
	case *perfdata.Mmap:
		return s.mmaps
	case *perfdata.Comm, *perfdata.Fork:
		return s.tasks
	case *perfdata.Switch:
		return s.switches
	case *perfdata.Lost:
		return s.lost && r.Type == perfdata.RecordLost
	case *perfdata.Namespaces:
		return s.namespaces
	case *perfdata.Cgroup:
		return s.cgroups
	case *perfdata.Ksymbol, *perfdata.BPFEvent:
		return s.bpf
	case *perfdata.TextPoke:
		return s.pokes
	}
	return false
}

// sideEvent returns the event that a record belongs to: the first one if it
// does not say, nil if it is not known.
func (sp *scriptPrinter) sideEvent(id uint64) *scriptEvent {
	switch {
	case len(sp.events) == 0:
		return nil
	case len(sp.events) == 1 || id == 0:
		return &sp.events[0]
	}
	if i, ok := sp.ids[id]; ok {
		return &sp.events[i]
	}
	if !sp.events[0].attr.Flags.Has(perfdata.FlagSampleIDAll) {
		return &sp.events[0]
	}
	return nil
}

// sideThread is the thread of a record of an old recording, in which only the
// record itself tells.
func sideThread(r perfdata.Record) (pid, tid, cpu int32) {
	switch r := r.(type) {
	case *perfdata.Mmap:
		return r.MapPID, r.MapTID, 0
	case *perfdata.Comm:
		return r.CommPID, r.CommTID, 0
	case *perfdata.Fork:
		return r.ForkPID, r.ForkTID, 0
	}
	m := r.Head()
	return m.PID, m.TID, max(m.CPU, 0)
}

// namespaceNames are those of a NAMESPACES record.
var namespaceNames = [...]string{"net", "uts", "ipc", "pid", "user", "mnt", "cgroup"}

// appendRecord appends what is in a record, as perf does.
func appendRecord(b []byte, r perfdata.Record) []byte {
	switch r := r.(type) {
	case *perfdata.Mmap:
		return appendMmap(b, r)
	case *perfdata.Comm:
		if r.Misc&perfdata.MiscCommExec != 0 {
			b = append(b, " exec"...)
		}
		b = append(b, ": "...)
		b = append(b, escape.Name(r.Name)...)
		b = append(b, ':')
		return appendIDs(b, r.CommPID, r.CommTID, '/')
	case *perfdata.Fork:
		b = append(b, '(')
		b = appendIDs(b, r.ForkPID, r.ForkTID, ':')
		b = append(b, "):("...)
		b = appendIDs(b, r.ParentPID, r.ParentTID, ':')
		return append(b, ')')
	case *perfdata.Switch:
		return appendSwitch(b, r)
	case *perfdata.Lost:
		return strconv.AppendUint(append(b, " lost "...), r.Count, 10)
	case *perfdata.Cgroup:
		b = strconv.AppendUint(append(b, " cgroup: "...), r.CgroupID, 10)
		b = append(b, ' ')
		return append(b, escape.Name(r.Path)...)
	case *perfdata.Namespaces:
		b = append(b, ' ')
		b = appendIDs(b, r.TaskPID, r.TaskTID, '/')
		b = append(b, " - nr_namespaces: "...)
		b = strconv.AppendInt(b, int64(len(r.Links)), 10)
		b = append(b, "\n\t\t["...)
		for i, l := range r.Links {
			if i > 0 && i%4 == 0 {
				b = append(b, "\n\t\t "...)
			}
			b = strconv.AppendInt(b, int64(i), 10)
			b = append(b, '/')
			if i < len(namespaceNames) {
				b = append(b, namespaceNames[i]...)
			} else {
				b = append(b, "unknown"...)
			}
			b = append(b, ": "...)
			b = strconv.AppendUint(b, l.Dev, 10)
			b = append(b, '/')
			if l.Ino != 0 {
				b = append(b, "0x"...)
			}
			b = strconv.AppendUint(b, l.Ino, 16)
			if i+1 < len(r.Links) {
				b = append(b, ", "...)
			}
		}
		return append(b, ']')
	case *perfdata.Ksymbol:
		b = strconv.AppendUint(append(b, " addr "...), r.Addr, 16)
		b = strconv.AppendUint(append(b, " len "...), uint64(r.Len), 10)
		b = strconv.AppendUint(append(b, " type "...), uint64(r.Kind), 10)
		b = strconv.AppendUint(append(b, " flags 0x"...), uint64(r.Flags), 16)
		b = append(b, " name "...)
		return append(b, escape.Name(r.Name)...)
	case *perfdata.BPFEvent:
		b = strconv.AppendUint(append(b, " type "...), uint64(r.Kind), 10)
		b = strconv.AppendUint(append(b, ", flags "...), uint64(r.Flags), 10)
		return strconv.AppendUint(append(b, ", id "...), uint64(r.ProgID), 10)
	}
	return b
}

// appendPoke appends a change of the kernel's code: where, and the bytes before
// and after it.
func (sp *scriptPrinter) appendPoke(b []byte, r *perfdata.TextPoke) []byte {
	b = strconv.AppendUint(append(b, ' '), r.Addr, 16)
	b = append(b, ' ')
	if name, offset, ok := sp.function(r.Addr); ok {
		b = append(append(b, escape.Name(name)...), "+0x"...)
		b = strconv.AppendUint(b, offset, 16)
	}
	b = strconv.AppendInt(append(b, " old len "...), int64(len(r.Old)), 10)
	b = strconv.AppendInt(append(b, " new len "...), int64(len(r.New)), 10)
	const perLine = 16
	for _, x := range []struct {
		title string
		bytes []byte
	}{{"Old", r.Old}, {"New", r.New}} {
		for line := range slices.Chunk(x.bytes, perLine) {
			b = append(append(append(b, "\n            "...), x.title...), " bytes:"...)
			for _, c := range line {
				b = appendHexZeros(append(b, ' '), uint64(c), 2)
			}
		}
	}
	return b
}

func appendIDs(b []byte, pid, tid int32, sep byte) []byte {
	b = strconv.AppendInt(b, int64(pid), 10)
	b = append(b, sep)
	return strconv.AppendInt(b, int64(tid), 10)
}

// appendAlternate appends v as C's %#x does.
func appendAlternate(b []byte, v uint64) []byte {
	if v == 0 {
		return append(b, '0')
	}
	return strconv.AppendUint(append(b, "0x"...), v, 16)
}

func appendMmap(b []byte, r *perfdata.Mmap) []byte {
	b = append(b, ' ')
	b = appendIDs(b, r.MapPID, r.MapTID, '/')
	b = append(b, ": ["...)
	b = appendAlternate(b, r.Start)
	b = append(b, '(')
	b = appendAlternate(b, r.Len)
	b = append(b, ") @ "...)
	b = appendAlternate(b, r.Pgoff)
	if r.Type == perfdata.RecordMmap {
		b = append(b, "]: "...)
		if r.Misc&perfdata.MiscMmapData != 0 {
			b = append(b, 'r')
		} else {
			b = append(b, 'x')
		}
		b = append(b, ' ')
		return append(b, escape.Name(r.Name)...)
	}
	if r.BuildID != "" {
		b = append(b, " <"...)
		b = append(b, r.BuildID.String()...)
		b = append(b, ">]: "...)
	} else {
		b = append(b, ' ')
		b = appendDevice(b, r.Maj)
		b = append(b, ':')
		b = appendDevice(b, r.Min)
		b = append(b, ' ')
		b = strconv.AppendUint(b, r.Ino, 10)
		b = append(b, ' ')
		b = strconv.AppendUint(b, r.InoGen, 10)
		b = append(b, "]: "...)
	}
	const read, write, exec, shared = 1, 2, 4, 1 // PROT_READ …, MAP_SHARED
	for _, p := range [...]struct {
		bit uint32
		c   byte
	}{{read, 'r'}, {write, 'w'}, {exec, 'x'}} {
		if r.Prot&p.bit == 0 {
			p.c = '-'
		}
		b = append(b, p.c)
	}
	if r.Flags&shared != 0 {
		b = append(b, 's')
	} else {
		b = append(b, 'p')
	}
	b = append(b, ' ')
	return append(b, escape.Name(r.Name)...)
}

// appendDevice appends half of a device number as C's %02x does.
func appendDevice(b []byte, v uint32) []byte {
	if v < 16 {
		b = append(b, '0')
	}
	return strconv.AppendUint(b, uint64(v), 16)
}

func appendSwitch(b []byte, r *perfdata.Switch) []byte {
	way, other := " IN         ", "prev"
	if r.Misc&perfdata.MiscSwitchOut != 0 {
		way, other = " OUT        ", "next"
		if r.Misc&miscSwitchPreempt != 0 {
			way = " OUT preempt"
		}
	}
	b = append(b, way...)
	if r.Type == perfdata.RecordSwitch {
		return b
	}
	b = append(b, "  "...)
	b = append(b, other...)
	b = append(b, " pid/tid: "...)
	b = appendInt(b, int64(r.OtherPID), 5)
	b = append(b, '/')
	n := len(b)
	b = strconv.AppendInt(b, int64(r.OtherTID), 10)
	for len(b)-n < 5 {
		b = append(b, ' ')
	}
	return b
}
