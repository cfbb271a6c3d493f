package perftest

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"strings"
)

// An attrField is a field of struct perf_event_attr, or a bit of its flags.
type attrField struct {
	name   string
	off    int // in bytes; of a flag: its bit in the flags
	width  int // in bytes; 0 for a flag
	signed bool
}

// attrFields is struct perf_event_attr (include/uapi/linux/perf_event.h).
var attrFields = []attrField{
	{"type", 0, 4, false},
	{"size", 4, 4, false},
	{"config", 8, 8, false},
	{"sample_period", 16, 8, false},
	{"sample", 24, 8, false},
	{"read", 32, 8, false},
	{"wakeup_events", 48, 4, false},
	{"bp_type", 52, 4, false},
	{"config1", 56, 8, false}, // bp_addr
	{"config2", 64, 8, false}, // bp_len
	{"branch_sample_type", 72, 8, false},
	{"sample_regs_user", 80, 8, false},
	{"sample_stack_user", 88, 4, false},
	{"clockid", 92, 4, true},
	{"sample_regs_intr", 96, 8, false},
	{"aux_watermark", 104, 4, false},
	{"sample_max_stack", 108, 2, false},
	{"aux_sample_size", 112, 4, false},
	{"aux_action", 116, 4, false},
	{"sig_data", 120, 8, false},
	{"config3", 128, 8, false},
	{"config4", 136, 8, false},
}

// attrFlags names the bits of the flags, from bit 0.
var attrFlags = []string{
	"disabled", "inherit", "pinned", "exclusive", "exclude_user", "exclude_kernel", "exclude_hv", "exclude_idle",
	"mmap", "comm", "freq", "inherit_stat", "enable_on_exec", "task", "watermark", "precise_ip", "",
	"mmap_data", "sample_id_all", "exclude_host", "exclude_guest", "exclude_callchain_kernel", "exclude_callchain_user",
	"mmap2", "comm_exec", "use_clockid", "context_switch", "write_backward", "namespaces", "ksymbol", "bpf_event",
	"aux_output", "cgroup", "text_poke", "build_id", "inherit_thread", "remove_on_exec", "sigtrap", "defer_callchain",
	"defer_output",
}

// SampleBits names the bits of sample_type, from bit 0.
var SampleBits = []string{
	"IP", "TID", "TIME", "ADDR", "READ", "CALLCHAIN", "ID", "CPU", "PERIOD", "STREAM_ID", "RAW", "BRANCH_STACK",
	"REGS_USER", "STACK_USER", "WEIGHT", "DATA_SRC", "IDENTIFIER", "TRANSACTION", "REGS_INTR", "PHYS_ADDR", "AUX",
	"CGROUP", "DATA_PAGE_SIZE", "CODE_PAGE_SIZE", "WEIGHT_STRUCT",
}

// ReadBits names the bits of read_format, from bit 0.
var ReadBits = []string{"TOTAL_TIME_ENABLED", "TOTAL_TIME_RUNNING", "ID", "GROUP", "LOST"}

// Bits of sample_type.
const (
	bitIP = 1 << iota
	bitTID
	bitTime
	bitAddr
	bitRead
	bitCallchain
	bitID
	bitCPU
	bitPeriod
	bitStreamID
	bitRaw
	bitBranchStack
	bitRegsUser
	bitStackUser
	bitWeight
	bitDataSrc
	bitIdentifier
	bitTransaction
	bitRegsIntr
	bitPhysAddr
	bitAux
	bitCgroup
	bitDataPageSize
	bitCodePageSize
	bitWeightStruct
)

// An event is a line that begins with event.
type event struct {
	name  string
	ids   []uint64
	vals  map[string]uint64
	flags uint64
	tail  []byte
}

func (e *event) has(bit uint64) bool { return e.vals["sample"]&bit != 0 }
func (e *event) sampleIDAll() bool   { return e.flags>>18&1 != 0 }

const defaultSample = bitIdentifier | bitIP | bitTID | bitTime | bitCPU | bitPeriod

func (f *file) event(l *line) error {
	e := &event{
		vals:  map[string]uint64{"type": 1, "sample_period": 1, "sample": defaultSample},
		flags: 1 << 18,
	}
	if len(l.pos) > 0 {
		e.name = l.pos[0]
		l.pos = l.pos[1:]
	}
	size := uint64(128)
	if f.attrSize >= 16+64 {
		size = f.attrSize - 16
	}
	e.vals["size"] = size
	for _, a := range attrFields {
		s, ok := l.str(a.name)
		if !ok {
			continue
		}
		var err error
		switch a.name {
		case "sample":
			e.vals["sample"], err = names(s, SampleBits, e.vals["sample"])
		case "read":
			e.vals["read"], err = names(s, ReadBits, 0)
		default:
			e.vals[a.name], err = number(s)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
	}
	for i, name := range attrFlags {
		switch {
		case name == "":
		case name == "precise_ip":
			e.flags |= l.num("precise_ip", 0) & 3 << 15
		case l.flag(name):
			e.flags |= 1 << i
		case l.flag("!" + name):
			e.flags &^= 1 << i
		}
	}
	e.tail = l.hex("tail")
	if len(e.tail) > 0 && int(e.vals["size"]) < 144+len(e.tail) {
		return fmt.Errorf("tail: wants size=%d or more", 144+len(e.tail))
	}
	if e.vals["size"] > 4096 {
		return fmt.Errorf("size: %d is more than 4096", e.vals["size"])
	}
	e.ids = []uint64{100 + uint64(len(f.events))}
	if _, ok := l.str("ids"); ok {
		e.ids = l.nums("ids")
	}
	f.events = append(f.events, e)
	return nil
}

// attr encodes struct perf_event_attr, of vals["size"] bytes, or 64 if that is 0.
func (e *event) attr(order binary.AppendByteOrder) []byte {
	n := int(e.vals["size"])
	if n == 0 {
		n = 64
	}
	b := make([]byte, max(144, n))
	for _, a := range attrFields {
		switch v := e.vals[a.name]; a.width {
		case 2:
			order.(binary.ByteOrder).PutUint16(b[a.off:], uint16(v))
		case 4:
			order.(binary.ByteOrder).PutUint32(b[a.off:], uint32(v))
		case 8:
			order.(binary.ByteOrder).PutUint64(b[a.off:], v)
		}
	}
	// A big-endian compiler allocates bit fields from the other end.
	flags := e.flags
	if order.String() == "BigEndian" {
		flags = bits.Reverse64(flags)
		// precise_ip has two bits, whose order stays.
		p := e.flags >> 15 & 3
		flags &^= 3 << (63 - 16)
		flags |= p << (63 - 16)
	}
	order.(binary.ByteOrder).PutUint64(b[40:], flags)
	copy(b[144:], e.tail)
	return b[:n]
}

// names reads bit names joined by |, or a number.
func names(s string, table []string, def uint64) (uint64, error) {
	var v uint64
	if rest, ok := strings.CutPrefix(s, "+"); ok {
		v, s = def, rest
	}
	if n, err := number(s); err == nil {
		return v | n, nil
	}
next:
	for _, w := range strings.Split(s, "|") {
		for i, name := range table {
			if name == w {
				v |= 1 << i
				continue next
			}
		}
		if n, err := number(w); err == nil {
			v |= n
			continue
		}
		return 0, fmt.Errorf("no bit is called %q", w)
	}
	return v, nil
}
