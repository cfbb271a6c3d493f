package perfdata

import (
	"fmt"
	"strings"
)

// nameEvents gives the events their names: those of EVENT_UPDATE records,
// which are set already, of the feature EVENT_DESC, of old EVENT_TYPE records
// (by config), or what the attr itself says.
func (f *File) nameEvents(types map[uint64]string) {
	desc, _ := f.EventDesc()
	for i := range f.events {
		e := &f.events[i]
		if e.Name == "" && i < len(desc) {
			e.Name = desc[i].Name
		}
		if e.Name == "" && e.Attr.Type == TypeTracepoint {
			e.Name = types[e.Attr.Config]
		}
		if e.Name == "" {
			e.Name = e.Attr.Name()
		}
	}
}

var hardwareNames = [...]string{
	"cycles", "instructions", "cache-references", "cache-misses", "branches",
	"branch-misses", "bus-cycles", "stalled-cycles-frontend", "stalled-cycles-backend", "ref-cycles",
}

var softwareNames = [...]string{
	"cpu-clock", "task-clock", "page-faults", "context-switches", "cpu-migrations", "minor-faults",
	"major-faults", "alignment-faults", "emulation-faults", "dummy", "bpf-output", "cgroup-switches",
}

var (
	cacheNames   = [...]string{"L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node"}
	cacheOps     = [...][2]string{{"load", "loads"}, {"store", "stores"}, {"prefetch", "prefetches"}}
	cacheResults = [...]string{"refs", "misses"}
)

// Name returns the name that perf gives to an event of which it knows no
// better than the attr: "cycles:u", "L1-dcache-load-misses", "raw 0x1234".
func (a *Attr) Name() string {
	switch a.Type {
	case TypeHardware:
		return nth(hardwareNames[:], a.Config, "unknown-hardware") + a.modifiers()
	case TypeSoftware:
		return nth(softwareNames[:], a.Config, "unknown-software") + a.modifiers()
	case TypeTracepoint:
		return "unknown tracepoint"
	case TypeHWCache:
		return a.cacheName() + a.modifiers()
	case TypeRaw:
		return fmt.Sprintf("raw %#x", a.Config) + a.modifiers()
	case TypeBreakpoint:
		var s strings.Builder
		fmt.Fprintf(&s, "mem:%#x:", a.Config1)
		for i, c := range []byte("rwx") {
			if a.BPType>>i&1 != 0 {
				s.WriteByte(c)
			}
		}
		return s.String() + a.modifiers()
	}
	return fmt.Sprintf("unknown attr type: %d", a.Type)
}

func nth(names []string, i uint64, other string) string {
	if i < uint64(len(names)) {
		return names[i]
	}
	return other
}

// cacheName names a PERF_TYPE_HW_CACHE event: config is the cache, the
// operation and the result, a byte each.
func (a *Attr) cacheName() string {
	cache, op, result := int(a.Config&0xff), int(a.Config>>8&0xff), int(a.Config>>16&0xff)
	switch {
	case cache >= len(cacheNames):
		return "unknown-ext-hardware-cache-type"
	case op >= len(cacheOps):
		return "unknown-ext-hardware-cache-op"
	case result >= len(cacheResults):
		return "unknown-ext-hardware-cache-result"
	case result > 0:
		return cacheNames[cache] + "-" + cacheOps[op][0] + "-" + cacheResults[result]
	}
	return cacheNames[cache] + "-" + cacheOps[op][1]
}

// modifiers returns the part of an event's name behind the colon, as perf
// prints it: where it counts (k, u, h), how precisely (p), and whether in the
// host (H) or in guests (G).
func (a *Attr) modifiers() string {
	var s []byte
	f := a.Flags
	guest := false
	if f&(FlagExcludeKernel|FlagExcludeUser|FlagExcludeHV) != 0 {
		if f&FlagExcludeKernel == 0 {
			s = append(s, 'k')
		}
		if f&FlagExcludeUser == 0 {
			s = append(s, 'u')
		}
		if f&FlagExcludeHV == 0 {
			s = append(s, 'h')
		}
		guest = true
	}
	if n := f.Precise(); n > 0 {
		s = append(s, "ppp"[:n]...)
		guest = true
	}
	if f&FlagExcludeHost != 0 || (f&FlagExcludeGuest != 0) == guest {
		if f&FlagExcludeHost == 0 {
			s = append(s, 'H')
		}
		if f&FlagExcludeGuest == 0 {
			s = append(s, 'G')
		}
	}
	if len(s) == 0 {
		return ""
	}
	return ":" + string(s)
}
