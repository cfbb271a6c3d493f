package session

import (
	"strings"

	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
)

// A CodeLog is what a file says about code that a process made at run time: a
// jitdump.
type CodeLog struct {
	Code []Code // in the order in which it was made

	// Monotonic says that times are those of CLOCK_MONOTONIC. If they are not
	// those of the recording too, what was made last at an address is taken
	// for what was there at all times.
	Monotonic bool
}

// Code is a piece of code at an address from some time on.
type Code struct {
	Time uint64 // nanoseconds
	Addr uint64
	Size uint64 // bytes
	Off  uint64 // of the bytes in the file
}

// clockMonotonic is CLOCK_MONOTONIC of include/uapi/linux/time.h, which
// perf record -k mono sets.
const clockMonotonic = 1

// typeCode is the type of the changes that a CodeLog makes.
const typeCode perfdata.Type = 1 << 30

// isCodeDump reports whether a mapping says where a process writes the code
// that it makes: it maps a file of that name, as code, for no other end.
// Source: jit_detect, tools/perf/util/jitdump.c.
func isCodeDump(m *perfdata.Mmap) bool {
	name, ok := strings.CutSuffix(base(m.Name), ".dump")
	name, ok2 := strings.CutPrefix(name, "jit-")
	exec := m.Prot&protExec != 0
	if m.Type == typeMmap {
		exec = m.Misc&perfdata.MiscMmapData == 0
	}
	return ok && ok2 && exec && name != "" && strings.Trim(name, "0123456789") == ""
}

// addCode appends the changes of the files in which the processes of the
// recording wrote down what code they made. Their code is a mapping of these
// files: what is at an address is at some offset of the file.
func (l *loader) addCode(changes []change) []change {
	if l.o.Code == nil {
		return changes
	}
	type dump struct {
		pid  int32
		path string
		ino  uint64
	}
	seen := map[dump]bool{}
	for i := range changes[:len(changes):len(changes)] {
		m := changes[i].mmap
		if m == nil || !isCodeDump(m) {
			continue
		}
		mode := m.Misc & perfdata.MiscCPUModeMask
		if mode != perfdata.CPUModeUser || seen[dump{m.MapPID, m.Name, m.Ino}] {
			continue
		}
		seen[dump{m.MapPID, m.Name, m.Ino}] = true
		o := profile.Object{
			Kind: profile.KindJIT, Path: m.Name, Short: base(m.Name), PID: m.MapPID,
			Maj: m.Maj, Min: m.Min, Ino: m.Ino, InoGen: m.InoGen,
		}
		log := l.o.Code(&o)
		if log == nil || len(log.Code) == 0 {
			continue
		}
		object := l.objects.resolve(o, hostMachine)
		timed := log.Monotonic && l.monotonic()
		if !timed {
			l.res.UntimedCode = append(l.res.UntimedCode, object)
		}
		for j := range log.Code {
			if len(changes) >= l.o.MaxNodes {
				l.res.DroppedMaps += uint64(len(log.Code) - j)
				break
			}
			// Without a time it is there as soon as the file is.
			c := change{moment: changes[i].moment, typ: typeCode, pid: m.MapPID, code: &log.Code[j], object: object}
			if timed {
				c.time = log.Code[j].Time
			}
			changes = append(changes, c)
		}
	}
	return changes
}

// monotonic reports whether the times of the recording are those of
// CLOCK_MONOTONIC.
func (l *loader) monotonic() bool {
	ev := l.f.Events()
	return !l.untimed && len(ev) > 0 && ev[0].Attr.Flags.Has(perfdata.FlagUseClockID) && ev[0].Attr.ClockID == clockMonotonic
}

// code maps a piece of code.
func (l *loader) code(c *change) {
	m := mapping{start: c.code.Addr, last: c.code.Addr + c.code.Size - 1, pgoff: c.code.Off, object: c.object}
	if c.code.Size == 0 || m.last < m.start {
		return
	}
	p := l.process(c.pid)
	l.add(&p.space, c.moment, m)
	p.addObject(c.object)
	if p.codeEnd == 0 || m.start < p.codeStart {
		p.codeStart = m.start
	}
	p.codeEnd = max(p.codeEnd, m.last)
}

// hasCode reports whether there is code of a CodeLog somewhere around a range.
// A run time makes its memory writable and executable in turns, each time with
// a record as if the memory were new.
func (p *process) hasCode(m *mapping) bool {
	return p.codeEnd != 0 && m.start <= p.codeEnd && m.last >= p.codeStart
}
