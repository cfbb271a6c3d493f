package perftest

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// A kind is a record type: its number, and its body as fields in order.
//
// A field is KEY:CODE. Codes: u8 u16 u32 u64 are numbers; z is a string with
// its NUL, padded to 8; cN a string in N bytes; hN bytes in N bytes; h bytes
// as they are, hp8 the same padded to 8; v64 a list of u64; cpus a list of CPUs. n64(…) is a
// count of 8 bytes and then tuples of fields, written as A/B,A/B; nr= overrides the
// count, as it does that of cpus. The others are for one record each.
type kind struct {
	name   string
	typ    uint32
	fields string
}

// kinds is the table of records (include/uapi/linux/perf_event.h, and
// tools/lib/perf/include/perf/event.h from 64).
var kinds = []kind{
	{"mmap", 1, "pid:u32 tid:u32 start:u64 len:u64 pgoff:u64 name:z"},
	{"lost", 2, "id:u64 lost:u64"},
	{"comm", 3, "pid:u32 tid:u32 name:z"},
	{"exit", 4, "pid:u32 ppid:u32 tid:u32 ptid:u32 time:u64"},
	{"throttle", 5, "time:u64 id:u64 stream:u64"},
	{"unthrottle", 6, "time:u64 id:u64 stream:u64"},
	{"fork", 7, "pid:u32 ppid:u32 tid:u32 ptid:u32 time:u64"},
	{"read", 8, "pid:u32 tid:u32 read:read"},
	{"sample", 9, "sample"},
	{"mmap2", 10, "pid:u32 tid:u32 start:u64 len:u64 pgoff:u64 id:mmap2id prot:u32 flags:u32 name:z"},
	{"aux", 11, "offset:u64 len:u64 flags:u64"},
	{"itrace_start", 12, "pid:u32 tid:u32"},
	{"lost_samples", 13, "lost:u64"},
	{"switch", 14, ""},
	{"switch_cpu_wide", 15, "pid:u32 tid:u32"},
	{"namespaces", 16, "pid:u32 tid:u32 links:n64(dev:u64,ino:u64)"},
	{"ksymbol", 17, "addr:u64 len:u32 kind:u16 flags:u16 name:z"},
	{"bpf_event", 18, "kind:u16 flags:u16 prog:u32 tag:h8"},
	{"cgroup", 19, "id:u64 name:z"},
	{"text_poke", 20, "addr:u64 old_len:u16 new_len:u16 bytes:poke"},
	{"aux_output_hw_id", 21, "id:u64"},
	{"callchain_deferred", 22, "cookie:u64 chain:n64(ip:u64)"},

	{"attr", 64, "attr"},
	{"event_type", 65, "id:u64 name:z"},
	{"tracing_data", 66, "len:u32 data:outside"},
	{"build_id", 67, "build_id"},
	{"finished_round", 68, ""},
	{"id_index", 69, "entries:n64(id:u64,idx:u64,cpu:u64,tid:u64) machines:h"},
	{"auxtrace_info", 70, "kind:u32 reserved:u32 priv:v64"},
	{"auxtrace", 71, "len:u64 offset:u64 ref:u64 idx:u32 tid:u32 cpu:u32 reserved:u32 data:outside"},
	{"auxtrace_error", 72, "kind:u32 code:u32 cpu:u32 pid:u32 tid:u32 fmt:u32 ip:u64 time:u64 msg:c64 machine_pid:u32 vcpu:u32"},
	{"thread_map", 73, "threads:n64(pid:u64,comm:c16)"},
	{"cpu_map", 74, "cpus:cpus"},
	{"stat_config", 75, "entries:n64(tag:u64,value:u64)"},
	{"stat", 76, "id:u64 cpu:u32 thread:u32 value:u64 enabled:u64 running:u64"},
	{"stat_round", 77, "kind:u64 time:u64"},
	{"event_update", 78, "kind:u64 id:u64 data:update"},
	{"time_conv", 79, "shift:u64 mult:u64 zero:u64 cycles:u64 mask:u64 cap_zero:u8 cap_short:u8 reserved:h6"},
	{"header_feature", 80, "feature:u64 data:h"},
	{"zstd", 81, "data:h"},
	{"finished_init", 82, ""},
	{"compressed2", 83, "len:u64 data:hp8"},
	{"bpf_metadata", 84, "prog:c16 entries:n64(key:c64,value:c256)"},
	{"schedstat_cpu", 85, "time:u64 cpu:u32 version:u16 domain:u16 values:hp8"},
	{"schedstat_domain", 86, "time:u64 cpu:u32 version:u16 domain:u16 values:hp8"},
}

func kindNamed(name string) *kind {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		return nil
	}
	return &kinds[i]
}

// markers names the context markers of call chains.
var markers = []struct {
	name string
	ip   uint64
}{
	{"hv", ^uint64(0) - 31},
	{"kernel", ^uint64(0) - 127},
	{"user", ^uint64(0) - 511},
	{"deferred", ^uint64(0) - 639},
	{"guest", ^uint64(0) - 2047},
	{"guest_kernel", ^uint64(0) - 2175},
	{"guest_user", ^uint64(0) - 2559},
}

var modes = []string{"unknown", "kernel", "user", "hypervisor", "guest_kernel", "guest_user"}

const (
	miscMmapBuildID = 1 << 14
	miscBuildIDSize = 1 << 15
)

// record encodes the record of one line, with what follows outside of it.
func (f *file) record(l *line) ([]byte, error) {
	if l.verb == "bytes" {
		b, err := f.pieces(l.pos)
		l.pos = nil
		return b, err
	}
	ev, err := f.eventOf(l)
	if err != nil {
		return nil, err
	}
	e := f.events[ev]
	var body, outside []byte
	var typ uint32
	var misc uint64
	if l.verb == "raw" {
		typ = uint32(l.num("type", 0))
		if body, err = f.pieces(l.pos); err != nil {
			return nil, err
		}
		l.pos = nil
	} else {
		k := kindNamed(l.verb)
		if k == nil {
			return nil, fmt.Errorf("no record is called that")
		}
		typ = k.typ
		if body, outside, misc, err = f.body(k, e, l); err != nil {
			return nil, err
		}
	}
	body = append(body, l.hex("tail")...)
	if typ < 64 && typ != 9 && l.verb != "raw" && e.sampleIDAll() && !l.flag("notrailer") {
		body = f.trailer(body, e, l)
	}
	if mode, ok := l.str("mode"); ok {
		i := slices.Index(modes, mode)
		if i < 0 {
			return nil, fmt.Errorf("mode=%s: want one of %s", mode, strings.Join(modes, " "))
		}
		misc = misc&^7 | uint64(i)
	}
	misc = l.num("misc", misc)
	if l.verb != "raw" {
		typ = uint32(l.num("type", uint64(typ)))
	}
	if n := int(l.num("cut", 0)); n > 0 {
		if n > len(body) {
			return nil, fmt.Errorf("cut=%d: the body has %d bytes", n, len(body))
		}
		body = body[:len(body)-n]
	}
	if len(body) > 65535-8 {
		if _, ok := l.vals["size"]; !ok {
			return nil, fmt.Errorf("record of %d bytes is larger than 65535", len(body)+8)
		}
	}
	b := f.head(typ, uint16(misc), body)
	if _, ok := l.str("size"); ok {
		f.order.AppendUint16(b[:6], uint16(l.num("size", 0)))
	}
	return append(b, outside...), nil
}

func (f *file) eventOf(l *line) (int, error) {
	s, ok := l.str("ev")
	if !ok {
		return 0, nil
	}
	for i, e := range f.events {
		if e.name == s {
			return i, nil
		}
	}
	n, err := number(s)
	if err != nil || n >= uint64(len(f.events)) {
		return 0, fmt.Errorf("ev=%s: no such event", s)
	}
	return int(n), nil
}

// body encodes what follows the header, and what follows the record.
func (f *file) body(k *kind, e *event, l *line) (b, outside []byte, misc uint64, err error) {
	switch k.name {
	case "sample":
		b, misc, err = f.sample(e, l)
		return b, nil, misc, err
	case "attr":
		i, err := f.eventOf(l)
		return f.headerAttr(i)[8:], nil, 0, err
	case "build_id":
		b, misc, err = f.buildID(l)
		return b, nil, misc, err
	case "mmap", "mmap2":
		misc = 2
		if v, ok := l.vals["pid"]; ok && v == "-1" {
			misc = 1
		}
	}
	for _, fd := range splitFields(k.fields) {
		key, code, _ := strings.Cut(fd, ":")
		switch code {
		case "mmap2id":
			if _, ok := l.vals["id"]; ok {
				id := l.hex("id")
				if len(id) > 20 {
					return nil, nil, 0, fmt.Errorf("id: %d bytes, at most 20 fit", len(id))
				}
				misc |= miscMmapBuildID
				b = append(b, byte(l.num("idsize", uint64(len(id)))), 0, 0, 0)
				b = append(b, append(id, make([]byte, 20-len(id))...)...)
				continue
			}
			b = f.order.AppendUint32(b, uint32(l.num("maj", 0)))
			b = f.order.AppendUint32(b, uint32(l.num("min", 0)))
			b = f.order.AppendUint64(b, l.num("ino", 0))
			b = f.order.AppendUint64(b, l.num("gen", 0))
		case "outside":
			outside = l.hex(key)
			n := uint64(len(outside))
			outside = pad(outside, 8)
			if _, given := l.vals["len"]; !given && n > 0 {
				if k.name == "auxtrace" {
					f.order.AppendUint64(b[:0], n)
				} else {
					f.order.AppendUint32(b[:0], uint32(n))
				}
			}
		case "poke":
			b = pad(append(b, l.hex("bytes")...), 8)
		case "read":
			b, err = f.read(b, e, l)
		case "update":
			b, err = f.update(b, l)
		default:
			b, err = f.field(b, key, code, l)
		}
		if err != nil {
			return nil, nil, 0, err
		}
	}
	return b, outside, misc, nil
}

// splitFields cuts a list of fields at blanks.
func splitFields(s string) []string { return strings.Fields(s) }

// field encodes one field of the table.
func (f *file) field(b []byte, key, code string, l *line) ([]byte, error) {
	switch {
	case strings.HasPrefix(code, "n64("):
		return f.tuples(b, key, code, l)
	case code == "v64":
		for _, v := range l.nums(key) {
			b = f.order.AppendUint64(b, v)
		}
		return b, nil
	case code == "cpus":
		list := l.nums(key)
		b = f.order.AppendUint16(b, 0)
		b = f.order.AppendUint16(b, uint16(l.num("nr", uint64(len(list)))))
		for _, n := range list {
			b = f.order.AppendUint16(b, uint16(n))
		}
		return pad(b, 8), nil
	case code == "h":
		return append(b, l.hex(key)...), nil
	case code == "hp8":
		// Padded so that the record is a multiple of 8; its header is 8.
		return pad(append(b, l.hex(key)...), 8), nil
	}
	s, _ := l.str(key)
	out, err := f.scalar(b, code, s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return out, nil
}

// scalar encodes a value of a simple code; "" is zero.
func (f *file) scalar(b []byte, code, s string) ([]byte, error) {
	switch code[0] {
	case 'u':
		if s == "" {
			s = "0"
		}
		n, err := number(s)
		if err != nil {
			return nil, err
		}
		switch code {
		case "u8":
			return append(b, byte(n)), nil
		case "u16":
			return f.order.AppendUint16(b, uint16(n)), nil
		case "u32":
			return f.order.AppendUint32(b, uint32(n)), nil
		}
		return f.order.AppendUint64(b, n), nil
	case 'z':
		return append(b, pad(append([]byte(s), 0), 8)...), nil
	case 'c', 'h':
		n := 0
		fmt.Sscanf(code[1:], "%d", &n)
		v := []byte(s)
		if code[0] == 'h' {
			var err error
			if v, err = hexBytes(s); err != nil {
				return nil, err
			}
		}
		if len(v) > n {
			return nil, fmt.Errorf("%d bytes, at most %d fit", len(v), n)
		}
		return append(b, append(v, make([]byte, n-len(v))...)...), nil
	}
	return nil, fmt.Errorf("no code is called %s", code)
}

// tuples encodes a count and that many groups of fields.
func (f *file) tuples(b []byte, key, code string, l *line) ([]byte, error) {
	inner := strings.Split(code[4:len(code)-1], ",")
	var list []string
	if s, ok := l.str(key); ok && s != "" {
		list = strings.Split(s, ",")
	}
	n := l.num("nr", uint64(len(list)))
	b = f.order.AppendUint64(b, n)
	for _, item := range list {
		vals := strings.Split(item, "/")
		if len(vals) != len(inner) {
			return nil, fmt.Errorf("%s: %q: want %d values joined by /", key, item, len(inner))
		}
		for i, fd := range inner {
			_, c, _ := strings.Cut(fd, ":")
			v := vals[i]
			if key == "chain" {
				v = markerValue(v)
			}
			var err error
			if b, err = f.scalar(b, c, v); err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	return b, nil
}

// markerValue turns the name of a context marker into its number.
func markerValue(s string) string {
	for _, m := range markers {
		if m.name == s {
			return fmt.Sprint(m.ip)
		}
	}
	return s
}

// update encodes the tail of EVENT_UPDATE: kind 0 unit, 1 scale and 2 name
// and anything else as bytes.
func (f *file) update(b []byte, l *line) ([]byte, error) {
	if s, ok := l.str("name"); ok { // unit or name
		return append(b, pad(append([]byte(s), 0), 8)...), nil
	}
	return append(b, pad(l.hex("data"), 8)...), nil
}

// read encodes struct read_format.
func (f *file) read(b []byte, e *event, l *line) ([]byte, error) {
	rf := e.vals["read"]
	type value struct{ v, id, lost uint64 }
	var vs []value
	if s, ok := l.str("read"); ok && s != "" {
		for _, w := range strings.Split(s, ",") {
			parts := append(strings.Split(w, "/"), "0", "0")[:3]
			var v [3]uint64
			for i, p := range parts {
				n, err := number(p)
				if err != nil {
					return nil, fmt.Errorf("read: %w", err)
				}
				v[i] = n
			}
			vs = append(vs, value{v[0], v[1], v[2]})
		}
	}
	enabled, running := l.num("enabled", 0), l.num("running", 0)
	group := rf&8 != 0
	if !group {
		if len(vs) > 1 {
			return nil, fmt.Errorf("read: %d values, but read_format has no GROUP", len(vs))
		}
		if len(vs) == 0 {
			vs = []value{{}}
		}
		b = f.order.AppendUint64(b, vs[0].v)
	} else {
		b = f.order.AppendUint64(b, l.num("read_nr", uint64(len(vs))))
	}
	if rf&1 != 0 {
		b = f.order.AppendUint64(b, enabled)
	}
	if rf&2 != 0 {
		b = f.order.AppendUint64(b, running)
	}
	for _, v := range vs {
		if group {
			b = f.order.AppendUint64(b, v.v)
		}
		if rf&4 != 0 {
			b = f.order.AppendUint64(b, v.id)
		}
		if rf&16 != 0 {
			b = f.order.AppendUint64(b, v.lost)
		}
	}
	return b, nil
}

// sample encodes a SAMPLE, in the order that the kernel writes
// (perf_output_sample, kernel/events/core.c).
func (f *file) sample(e *event, l *line) ([]byte, uint64, error) {
	var b []byte
	u64 := func(bit uint64, key string) {
		v := l.num(key, 0)
		if e.has(bit) {
			b = f.order.AppendUint64(b, v)
		}
	}
	u32s := func(bit uint64, k1, k2 string) {
		v1, v2 := l.num(k1, 0), l.num(k2, 0)
		if e.has(bit) {
			b = f.order.AppendUint32(b, uint32(v1))
			b = f.order.AppendUint32(b, uint32(v2))
		}
	}
	id := l.num("evid", firstID(e))
	ip := l.num("ip", 0)
	misc := uint64(2)
	if ip>>63 == 1 {
		misc = 1
	}
	if e.has(bitIdentifier) {
		b = f.order.AppendUint64(b, id)
	}
	if e.has(bitIP) {
		b = f.order.AppendUint64(b, ip)
	}
	u32s(bitTID, "pid", "tid")
	u64(bitTime, "time")
	u64(bitAddr, "addr")
	if e.has(bitID) {
		b = f.order.AppendUint64(b, id)
	}
	u64(bitStreamID, "stream")
	u32s(bitCPU, "cpu", "res")
	u64(bitPeriod, "period")
	if e.has(bitRead) {
		var err error
		if b, err = f.read(b, e, l); err != nil {
			return nil, 0, err
		}
	}
	if chain, _ := l.str("chain"); e.has(bitCallchain) {
		var ips []uint64
		for _, w := range strings.FieldsFunc(chain, func(r rune) bool { return r == ',' }) {
			n, err := number(markerValue(w))
			if err != nil {
				return nil, 0, fmt.Errorf("chain: %w", err)
			}
			ips = append(ips, n)
		}
		b = f.order.AppendUint64(b, l.num("chain_nr", uint64(len(ips))))
		for _, ip := range ips {
			b = f.order.AppendUint64(b, ip)
		}
	}
	if raw := l.hex("raw"); e.has(bitRaw) {
		padded := append(raw, make([]byte, (8-(4+len(raw))%8)%8)...)
		b = f.order.AppendUint32(b, uint32(l.num("raw_size", uint64(len(padded)))))
		b = append(b, padded...)
	}
	if err := f.branches(&b, e, l); err != nil {
		return nil, 0, err
	}
	if err := f.regs(&b, e.has(bitRegsUser), e.vals["sample_regs_user"], "abi", "regs", l); err != nil {
		return nil, 0, err
	}
	if stack := l.hex("stack"); e.has(bitStackUser) {
		stack = pad(stack, 8)
		b = f.order.AppendUint64(b, l.num("stack_size", uint64(len(stack))))
		b = append(b, stack...)
		if len(stack) > 0 {
			b = f.order.AppendUint64(b, l.num("dyn", uint64(len(stack))))
		}
	}
	u64(bitWeight|bitWeightStruct, "weight")
	u64(bitDataSrc, "data_src")
	u64(bitTransaction, "txn")
	if err := f.regs(&b, e.has(bitRegsIntr), e.vals["sample_regs_intr"], "iabi", "iregs", l); err != nil {
		return nil, 0, err
	}
	u64(bitPhysAddr, "phys_addr")
	u64(bitCgroup, "cgroup")
	u64(bitDataPageSize, "data_page")
	u64(bitCodePageSize, "code_page")
	if aux := l.hex("aux"); e.has(bitAux) {
		aux = pad(aux, 8)
		b = f.order.AppendUint64(b, l.num("aux_size", uint64(len(aux))))
		b = append(b, aux...)
	}
	return b, misc, nil
}

func firstID(e *event) uint64 {
	if len(e.ids) == 0 {
		return 0
	}
	return e.ids[0]
}

// branches encodes a branch stack.
func (f *file) branches(b *[]byte, e *event, l *line) error {
	s, _ := l.str("branches")
	hw := l.num("hw_idx", 0)
	counters := l.nums("counters")
	if !e.has(bitBranchStack) {
		return nil
	}
	var list []string
	if s != "" {
		list = strings.Split(s, ",")
	}
	*b = f.order.AppendUint64(*b, l.num("branch_nr", uint64(len(list))))
	if e.vals["branch_sample_type"]>>17&1 != 0 {
		*b = f.order.AppendUint64(*b, hw)
	}
	for _, w := range list {
		fromTo, flags, _ := strings.Cut(w, ":")
		from, to, ok := strings.Cut(fromTo, ">")
		if !ok {
			return fmt.Errorf("branches: %q: want FROM>TO", w)
		}
		if flags == "" {
			flags = "0"
		}
		for i, x := range []string{from, to, flags} {
			n, err := number(x)
			if err != nil {
				return fmt.Errorf("branches: %w", err)
			}
			if i == 2 && f.big {
				n = bigBranchFlags(n)
			}
			*b = f.order.AppendUint64(*b, n)
		}
	}
	if e.vals["branch_sample_type"]>>19&1 != 0 {
		for i := range list {
			var c uint64
			if i < len(counters) {
				c = counters[i]
			}
			*b = f.order.AppendUint64(*b, c)
		}
	}
	return nil
}

// bigBranchFlags lays out the bit fields of struct perf_branch_entry as a
// big-endian compiler does: from the top.
func bigBranchFlags(v uint64) uint64 {
	var out uint64
	at := 64
	for _, width := range []int{1, 1, 1, 1, 16, 4, 2, 4, 3, 31} {
		at -= width
		out |= v & (1<<width - 1) << at
		v >>= width
	}
	return out
}

// regs encodes a register file: as many registers as mask has bits.
func (f *file) regs(b *[]byte, has bool, mask uint64, abiKey, key string, l *line) error {
	regs := l.nums(key)
	def := uint64(0)
	if len(regs) > 0 {
		def = 2
	}
	abi := l.num(abiKey, def)
	if !has {
		return nil
	}
	*b = f.order.AppendUint64(*b, abi)
	if abi == 0 {
		return nil
	}
	if n := bits.OnesCount64(mask); len(regs) > n {
		return fmt.Errorf("%s: %d values, but the event's mask has %d bits", key, len(regs), n)
	}
	for i := range bits.OnesCount64(mask) {
		var v uint64
		if i < len(regs) {
			v = regs[i]
		}
		*b = f.order.AppendUint64(*b, v)
	}
	return nil
}

// trailer adds the sample_id fields that end all records but samples.
func (f *file) trailer(b []byte, e *event, l *line) []byte {
	pid, tid := l.num("pid", 0), l.num("tid", 0)
	spid, stid := l.num("spid", pid), l.num("stid", tid)
	time := l.num("at", l.num("time", 0))
	id, stream, cpu := l.num("evid", firstID(e)), l.num("stream", 0), l.num("cpu", 0)
	if e.has(bitTID) {
		b = f.order.AppendUint32(b, uint32(spid))
		b = f.order.AppendUint32(b, uint32(stid))
	}
	if e.has(bitTime) {
		b = f.order.AppendUint64(b, time)
	}
	if e.has(bitID) {
		b = f.order.AppendUint64(b, id)
	}
	if e.has(bitStreamID) {
		b = f.order.AppendUint64(b, stream)
	}
	if e.has(bitCPU) {
		b = f.order.AppendUint32(b, uint32(cpu))
		b = f.order.AppendUint32(b, 0)
	}
	if e.has(bitIdentifier) {
		b = f.order.AppendUint64(b, id)
	}
	return b
}

// buildID encodes the body of HEADER_BUILD_ID, which is also an entry of the
// table in the feature.
func (f *file) buildID(l *line) ([]byte, uint64, error) {
	misc := uint64(2)
	name, _ := l.str("name")
	if strings.HasPrefix(name, "[kernel") || strings.HasPrefix(name, "[guest.kernel") {
		misc = 1
	}
	id := l.hex("id")
	if len(id) > 20 {
		return nil, 0, fmt.Errorf("id: %d bytes, at most 20 fit", len(id))
	}
	n := len(id)
	id = append(id, make([]byte, 24-len(id))...)
	if !l.flag("nosize") {
		misc |= miscBuildIDSize
		id[20] = byte(l.num("idsize", uint64(n)))
	}
	pid := l.num("pid", ^uint64(0))
	var b []byte
	if !l.flag("nopid") {
		b = f.order.AppendUint32(b, uint32(pid))
	}
	b = append(b, id...)
	text := []byte(name)
	if !l.flag("nonul") {
		text = append(text, 0)
	}
	align := int(l.num("align", 8))
	if align < 1 || align > 4096 {
		return nil, 0, fmt.Errorf("align=%d: want 1 to 4096", align)
	}
	return append(b, pad(text, align)...), misc, nil
}

// headerAttr is the HEADER_ATTR record of an event.
func (f *file) headerAttr(i int) []byte {
	b := pad(f.events[i].attr(f.order), 8)
	for _, id := range f.events[i].ids {
		b = f.order.AppendUint64(b, id)
	}
	return f.head(64, 0, b)
}
