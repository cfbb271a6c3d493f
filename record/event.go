package record

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/perfark/perfark/perfdata"
)

// An Event is what one perf_event_open counts.
type Event struct {
	Name string // as perf names it, modifiers included
	Type uint32
	// As in perf_event_attr: what they mean depends on Type.
	Config, Config1, Config2 uint64
	BPType                   uint32 // of breakpoints: what is watched for
	Leader                   int    // index of the first event of its group; its own if it is in none
	CPUs                     []int  // where the PMU can count; nil: everywhere

	Period, Freq uint64 // of this event alone; 0: what Options say
	Callgraph    string // of this event alone, as in --call-graph; "": what Options say
	MaxStack     uint16 // frames, of this event alone; 0: what Options say
	StackSize    uint32 // bytes of user stack, of this event alone; 0: what Options say
	Branch       uint64 // branch_sample_type, of this event alone; 0: what Options say
	Inherit      Choice // by what the target starts
	Overwrite    Choice // the oldest records, if the ring is full
	NoTime       bool
	Filter       string // of a tracepoint, in the kernel's language; "": none
	ExcludeSelf  bool   // tracepoints: not of the recorder's threads of now

	// Modifiers.
	User, Kernel, Hypervisor, Guest, Host bool // counted; if none is set, all are
	Idle                                  bool // not counted while idle
	Precise                               int  // 0 to 3
	PreciseMax                            bool // P: as precise as can be
	Pinned, Exclusive                     bool
	SampleRead                            bool // S: the group is read with each sample of the leader
	Group                                 string

	tracepoint string // SYSTEM:NAME
	modified   bool   // it has modifiers of its own
	implicit   bool   // nobody named it
}

// AddFilter has a tracepoint recorded only where a filter matches too.
func (e *Event) AddFilter(filter string) {
	if e.Filter != "" {
		filter = "(" + e.Filter + ") && (" + filter + ")"
	}
	e.Filter = filter
}

// Tracepoint reports whether the event is one, of which alone there are
// filters.
func (e *Event) Tracepoint() bool { return e.Type == perfdata.TypeTracepoint }

// A Choice is what an event says of itself where Options speak of all.
type Choice int8

// The choices.
const (
	Default Choice = iota // what Options say
	Yes
	No
)

// or returns what is chosen, def by default.
func (c Choice) or(def bool) bool { return c == Yes || c == Default && def }

// Software events (enum perf_sw_ids) that have a part in recording.
const (
	swCPUClock  = 0
	swDummy     = 9
	swBPFOutput = 10
)

// eventNames are the events that have names of their own
// (include/uapi/linux/perf_event.h), the first name of each is that of perf.
var eventNames = []struct {
	typ    uint32
	config uint64
	names  []string
}{
	{perfdata.TypeHardware, 0, []string{"cpu-cycles", "cycles"}},
	{perfdata.TypeHardware, 1, []string{"instructions"}},
	{perfdata.TypeHardware, 2, []string{"cache-references"}},
	{perfdata.TypeHardware, 3, []string{"cache-misses"}},
	{perfdata.TypeHardware, 4, []string{"branch-instructions", "branches"}},
	{perfdata.TypeHardware, 5, []string{"branch-misses"}},
	{perfdata.TypeHardware, 6, []string{"bus-cycles"}},
	{perfdata.TypeHardware, 7, []string{"stalled-cycles-frontend", "idle-cycles-frontend"}},
	{perfdata.TypeHardware, 8, []string{"stalled-cycles-backend", "idle-cycles-backend"}},
	{perfdata.TypeHardware, 9, []string{"ref-cycles"}},
	{perfdata.TypeSoftware, 0, []string{"cpu-clock"}},
	{perfdata.TypeSoftware, 1, []string{"task-clock"}},
	{perfdata.TypeSoftware, 2, []string{"page-faults", "faults"}},
	{perfdata.TypeSoftware, 3, []string{"context-switches", "cs"}},
	{perfdata.TypeSoftware, 4, []string{"cpu-migrations", "migrations"}},
	{perfdata.TypeSoftware, 5, []string{"minor-faults"}},
	{perfdata.TypeSoftware, 6, []string{"major-faults"}},
	{perfdata.TypeSoftware, 7, []string{"alignment-faults"}},
	{perfdata.TypeSoftware, 8, []string{"emulation-faults"}},
	{perfdata.TypeSoftware, 9, []string{"dummy"}},
	{perfdata.TypeSoftware, 10, []string{"bpf-output"}},
	{perfdata.TypeSoftware, 11, []string{"cgroup-switches"}},
}

// Parts of the names of cache events, in the order of their numbers.
var (
	cacheNames   = [][]string{{"L1-dcache", "l1-d", "l1d", "L1-data"}, {"L1-icache", "l1-i", "l1i", "L1-instruction"}, {"LLC", "L2"}, {"dTLB", "d-tlb", "Data-TLB"}, {"iTLB", "i-tlb", "Instruction-TLB"}, {"branch", "branches", "bpu", "btb", "bpc"}, {"node"}}
	cacheOps     = [][]string{{"load", "loads", "read"}, {"store", "stores", "write"}, {"prefetch", "prefetches", "speculative-read", "speculative-load"}}
	cacheResults = [][]string{{"refs", "Reference", "ops", "access"}, {"misses", "miss"}}
)

// A Host says where the facts about events stand. The zero value is this host.
type Host struct {
	Sys     string // "" means /sys
	Tracefs string // "" means Sys/kernel/tracing, or else Sys/kernel/debug/tracing
}

func (h Host) sys(elem ...string) string {
	root := h.Sys
	if root == "" {
		root = "/sys"
	}
	return filepath.Join(append([]string{root}, elem...)...)
}

func (h Host) tracefs() string {
	if h.Tracefs != "" {
		return h.Tracefs
	}
	dir := h.sys("kernel/tracing")
	if _, err := os.Stat(filepath.Join(dir, "events")); errors.Is(err, fs.ErrNotExist) {
		old := h.sys("kernel/debug/tracing")
		if _, err := os.Stat(old); err == nil {
			return old
		}
	}
	return dir
}

// ParseEvents parses a list of events as perf record -e takes it: names,
// rNNN, mem:ADDR, SYSTEM:TRACEPOINT with * and ?, PMU/TERMS/, {groups}, all
// with :MODIFIERS. Leaders count from the begin of the list.
func (h Host) ParseEvents(list string) ([]Event, error) {
	p := &eventParser{h: h, all: list, rest: strings.TrimSpace(list)}
	if p.rest == "" {
		return nil, fmt.Errorf("event %q: no event", list)
	}
	for {
		if err := p.item(); err != nil {
			return nil, err
		}
		p.space()
		if p.rest == "" {
			return p.events, nil
		}
		if !p.skip(",") {
			return nil, p.errorf("want a comma")
		}
	}
}

type eventParser struct {
	h      Host
	all    string
	rest   string
	events []Event
}

func (p *eventParser) errorf(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if p.rest == "" || p.rest == p.all {
		return fmt.Errorf("event %q: %w", p.all, err)
	}
	return fmt.Errorf("event %q: at %q: %w", p.all, p.rest, err)
}

func (p *eventParser) space() { p.rest = strings.TrimLeft(p.rest, " \t\n") }

func (p *eventParser) skip(s string) bool {
	rest, ok := strings.CutPrefix(p.rest, s)
	if ok {
		p.rest = rest
	}
	return ok
}

// item parses a group or an event.
func (p *eventParser) item() error {
	p.space()
	name, isGroup := p.groupName()
	if !isGroup {
		return p.event(-1)
	}
	first := len(p.events)
	for {
		p.space()
		if err := p.event(first); err != nil {
			return err
		}
		p.space()
		if p.skip("}") {
			break
		}
		if !p.skip(",") {
			return p.errorf("want a comma or }")
		}
	}
	mods := ""
	if p.skip(":") {
		mods = p.word()
	}
	for i := first; i < len(p.events); i++ {
		p.events[i].Group = name
		if err := p.events[i].modify(mods); err != nil {
			return p.errorf("%v", err)
		}
	}
	return nil
}

// groupName reads NAME{ or {.
func (p *eventParser) groupName() (name string, ok bool) {
	i := strings.IndexAny(p.rest, "{,/:} ")
	if i < 0 || p.rest[i] != '{' {
		return "", false
	}
	name, p.rest = p.rest[:i], p.rest[i+1:]
	return name, true
}

// word reads up to a comma, a brace or the end.
func (p *eventParser) word() string {
	i := strings.IndexAny(p.rest, ",}")
	if i < 0 {
		i = len(p.rest)
	}
	w := p.rest[:i]
	p.rest = p.rest[i:]
	return strings.TrimSpace(w)
}

// event parses one event; leader is -1 outside of groups.
func (p *eventParser) event(leader int) error {
	name := p.rest
	if i := strings.IndexAny(name, ",}:/ "); i >= 0 {
		name = name[:i]
	}
	if name == "" {
		return p.errorf("want the name of an event")
	}
	add := func(e Event) {
		e.Leader = leader
		if leader < 0 {
			e.Leader = len(p.events)
		}
		p.events = append(p.events, e)
	}
	first := len(p.events)
	after := p.rest[len(name):]
	switch {
	case name == "mem" && strings.HasPrefix(after, ":"):
		e, err := p.breakpoint()
		if err != nil {
			return err
		}
		add(e)
		return nil
	case strings.HasPrefix(after, "/"):
		p.rest = after[1:]
		i := strings.IndexByte(p.rest, '/')
		if i < 0 {
			return p.errorf("want a / at the end of the terms of %s", name)
		}
		terms := p.rest[:i]
		p.rest = p.rest[i+1:]
		e, err := p.h.pmuEvent(name, terms)
		if err != nil {
			return p.errorf("%v", err)
		}
		add(e)
		p.skip(":")
		return p.modifyFrom(first, p.word())
	case strings.HasPrefix(after, ":"):
		if e, ok := p.h.named(name); ok {
			p.rest = after[1:]
			add(e)
			return p.modifyFrom(first, p.word())
		}
		p.rest = after[1:]
		what := p.word()
		what, mods, _ := strings.Cut(what, ":")
		list, err := p.h.tracepoints(name, what)
		if err != nil {
			return p.errorf("%w", err)
		}
		for _, e := range list {
			add(e)
		}
		return p.modifyFrom(first, mods)
	}
	p.rest = after
	e, ok := p.h.named(name)
	if !ok {
		return p.errorf("there is no event %q on this host", name)
	}
	add(e)
	return nil
}

// modifyFrom applies modifiers to the events from first on.
func (p *eventParser) modifyFrom(first int, mods string) error {
	for i := first; i < len(p.events); i++ {
		if err := p.events[i].modify(mods); err != nil {
			return p.errorf("%v", err)
		}
		if mods != "" {
			p.events[i].Name += ":" + mods
			p.events[i].modified = true
		}
	}
	return nil
}

// modify applies modifiers.
func (e *Event) modify(mods string) error {
	for i := 0; i < len(mods); i++ {
		switch mods[i] {
		case 'u':
			e.User = true
		case 'k':
			e.Kernel = true
		case 'h':
			e.Hypervisor = true
		case 'G':
			e.Guest = true
		case 'H':
			e.Host = true
		case 'I':
			e.Idle = true
		case 'p':
			if e.Precise++; e.Precise > 3 {
				return fmt.Errorf("modifier %q: more than three p", mods)
			}
		case 'P':
			e.PreciseMax = true
		case 'D':
			e.Pinned = true
		case 'e':
			e.Exclusive = true
		case 'S':
			e.SampleRead = true
		case 'W', 'b': // weak groups, BPF counters: nothing to be done when sampling
		default:
			return fmt.Errorf("modifier %q: %q is none of ukhGHIpPDeSWb", mods, mods[i])
		}
	}
	return nil
}

// named returns the event of a name alone.
func (h Host) named(name string) (Event, bool) {
	for _, n := range eventNames {
		if slices.Contains(n.names, name) {
			return Event{Name: name, Type: n.typ, Config: n.config}, true
		}
	}
	if len(name) > 1 && name[0] == 'r' {
		if v, err := strconv.ParseUint(name[1:], 16, 64); err == nil {
			return Event{Name: name, Type: perfdata.TypeRaw, Config: v}, true
		}
	}
	if config, ok := cacheEvent(name); ok {
		return Event{Name: name, Type: perfdata.TypeHWCache, Config: config}, true
	}
	// What a PMU calls an event, such as cpu/topdown-retiring/.
	pmus, _ := os.ReadDir(h.sys("bus/event_source/devices"))
	for _, d := range pmus {
		if _, err := os.Stat(h.sys("bus/event_source/devices", d.Name(), "events", name)); err == nil && !strings.Contains(name, ".") {
			if e, err := h.pmuEvent(d.Name(), name); err == nil {
				e.Name = name
				return e, true
			}
		}
	}
	return Event{}, false
}

// cacheEvent returns the number of an event such as L1-dcache-load-misses.
func cacheEvent(name string) (uint64, bool) {
	kind, rest := -1, ""
	for i, names := range cacheNames {
		for _, n := range names {
			if after, ok := cutFold(name, n); ok && (after == "" || after[0] == '-') && (kind < 0 || len(after) < len(rest)) {
				kind, rest = i, strings.TrimPrefix(after, "-")
			}
		}
	}
	if kind < 0 {
		return 0, false
	}
	op, result := -1, -1
	for rest != "" {
		found := false
		for i, names := range cacheOps {
			for _, n := range names {
				if after, ok := cutFold(rest, n); ok && op < 0 && (after == "" || after[0] == '-') {
					op, rest, found = i, strings.TrimPrefix(after, "-"), true
				}
			}
		}
		for i, names := range cacheResults {
			for _, n := range names {
				if after, ok := cutFold(rest, n); ok && result < 0 && rest != "" && (after == "" || after[0] == '-') {
					result, rest, found = i, strings.TrimPrefix(after, "-"), true
				}
			}
		}
		if !found {
			return 0, false
		}
	}
	return uint64(kind) | uint64(max(op, 0))<<8 | uint64(max(result, 0))<<16, true
}

func cutFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

// breakpoint parses mem:ADDR[/LEN][:rwx].
func (p *eventParser) breakpoint() (Event, error) {
	text := p.rest
	p.skip("mem:")
	w := p.word()
	name := text[:len(text)-len(p.rest)]
	addr, access, _ := strings.Cut(w, ":")
	addr, length, _ := strings.Cut(addr, "/")
	at, err := strconv.ParseUint(addr, 0, 64)
	if err != nil {
		return Event{}, p.errorf("address %q of a breakpoint: want a number", addr)
	}
	e := Event{Name: name, Type: perfdata.TypeBreakpoint, Config1: at, Config2: 4}
	if access == "" {
		access = "rw"
	}
	access, mods, _ := strings.Cut(access, ":")
	for _, c := range access {
		i := strings.IndexRune("rwx", c)
		if i < 0 {
			return e, p.errorf("access %q of a breakpoint: want some of r, w, x", access)
		}
		e.BPType |= 1 << i
	}
	if e.BPType == 4 {
		e.Config2 = 8
	}
	if length != "" {
		if e.Config2, err = strconv.ParseUint(length, 0, 8); err != nil || e.Config2 > 8 {
			return e, p.errorf("length %q of a breakpoint: want 1 to 8", length)
		}
	}
	return e, e.modify(mods)
}

// tracepoints returns the tracepoints that match.
func (h Host) tracepoints(system, name string) ([]Event, error) {
	dir := filepath.Join(h.tracefs(), "events")
	if strings.Contains(system+name, "/") || system == ".." || name == ".." {
		return nil, fmt.Errorf("tracepoint %s:%s: there is none", system, name)
	}
	found, err := filepath.Glob(filepath.Join(dir, system, name, "id"))
	if err != nil {
		return nil, fmt.Errorf("tracepoint %s:%s: %v", system, name, err)
	}
	var out []Event
	for _, f := range found {
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		id, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %v", f, err)
		}
		at := filepath.Dir(f)
		name := filepath.Base(filepath.Dir(at)) + ":" + filepath.Base(at)
		out = append(out, Event{Name: name, Type: perfdata.TypeTracepoint, Config: id, tracepoint: name})
	}
	// As the kernel lists them, and perf has them.
	slices.SortStableFunc(out, func(a, b Event) int {
		as, _, _ := strings.Cut(a.tracepoint, ":")
		bs, _, _ := strings.Cut(b.tracepoint, ":")
		return cmp.Or(cmp.Compare(as, bs), cmp.Compare(a.Config, b.Config))
	})
	if out == nil {
		switch _, err := os.ReadDir(dir); {
		case errors.Is(err, fs.ErrPermission):
			return nil, fmt.Errorf("tracepoint %s:%s: %w: be root, or mount tracefs so that you may read it", system, name, err)
		case err != nil:
			return nil, fmt.Errorf("tracepoint %s:%s: %w: mount tracefs there", system, name, err)
		}
		return nil, fmt.Errorf("tracepoint %s:%s: there is none in %s", system, name, dir)
	}
	return out, nil
}

// pmuEvent returns the event that terms such as event=0x3c,umask=1 describe,
// by the formats that the PMU publishes in sysfs.
func (h Host) pmuEvent(pmu, terms string) (Event, error) {
	e := Event{Name: pmu + "/" + terms + "/"}
	dir := h.sys("bus/event_source/devices", filepath.Base(pmu))
	if b, err := os.ReadFile(filepath.Join(dir, "type")); err == nil {
		n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32)
		if err != nil {
			return e, fmt.Errorf("%s/type: %v", dir, err)
		}
		e.Type = uint32(n)
	} else if named, ok := h.named(pmu); ok { // cycles/period=1000/
		e.Type, e.Config = named.Type, named.Config
		dir = ""
	} else {
		return e, fmt.Errorf("there is no PMU %q on this host", pmu)
	}
	if dir != "" {
		for _, f := range []string{"cpumask", "cpus"} {
			if b, err := os.ReadFile(filepath.Join(dir, f)); err == nil {
				if cpus, err := ParseCPUs(strings.TrimSpace(string(b))); err == nil {
					e.CPUs = cpus
				}
				break
			}
		}
	}
	return e, h.terms(&e, dir, terms, 0)
}

func (h Host) terms(e *Event, dir, terms string, depth int) error {
	for term := range strings.SplitSeq(terms, ",") {
		if term = strings.TrimSpace(term); term == "" {
			continue
		}
		key, value, has := strings.Cut(term, "=")
		known, err := e.term(key, value, has)
		if err != nil || known {
			if err != nil {
				return err
			}
			continue
		}
		if dir == "" {
			return fmt.Errorf("term %q: want period, freq, name, call-graph, stack-size, max-stack, branch_type, time, inherit, overwrite or a no- of these", key)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "events", filepath.Base(key))); err == nil && !has && depth == 0 {
			if err := h.terms(e, dir, strings.TrimSpace(string(b)), 1); err != nil {
				return err
			}
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, "format", filepath.Base(key)))
		if err != nil {
			return fmt.Errorf("term %q: %s knows no such term or event", key, filepath.Base(dir))
		}
		v := uint64(1)
		if has {
			if v, err = strconv.ParseUint(value, 0, 64); err != nil {
				return fmt.Errorf("term %q: %q is no number", key, value)
			}
		}
		if err := e.format(strings.TrimSpace(string(b)), v); err != nil {
			return fmt.Errorf("term %q: %v", key, err)
		}
	}
	return nil
}

// term sets one of the terms that every PMU has.
func (e *Event) term(key, value string, has bool) (known bool, err error) {
	number := func(to *uint64, size int) (bool, error) {
		v, err := strconv.ParseUint(value, 0, size)
		if err != nil {
			return true, fmt.Errorf("term %q: %q is no number of %d bits", key, value, size)
		}
		*to = v
		return true, nil
	}
	choices := map[string]*Choice{"inherit": &e.Inherit, "overwrite": &e.Overwrite}
	if c := choices[strings.TrimPrefix(key, "no-")]; c != nil && (!has || value == "0" || value == "1") {
		if *c = Yes; strings.HasPrefix(key, "no-") != (value == "0") {
			*c = No
		}
		return true, nil
	}
	if key == "percore" && !has { // of perf stat
		return true, nil
	}
	if !has {
		return false, nil
	}
	var v uint64
	switch key {
	case "config":
		return number(&e.Config, 64)
	case "config1":
		return number(&e.Config1, 64)
	case "config2":
		return number(&e.Config2, 64)
	case "period":
		return number(&e.Period, 64)
	case "freq":
		return number(&e.Freq, 64)
	case "nr": // of perf trace
		return number(&v, 32)
	case "max-stack":
		known, err = number(&v, 16)
		e.MaxStack = uint16(v)
	case "stack-size":
		known, err = number(&v, 16)
		if e.StackSize = uint32(v+7) &^ 7; e.StackSize > maxStackSize {
			err = fmt.Errorf("term %q: %d bytes: want up to %d", key, v, maxStackSize)
		}
	case "branch_type":
		known = true
		e.Branch, err = ParseBranches([]string{value})
	case "name":
		known = true
		e.Name = strings.Trim(value, "'")
	case "call-graph":
		known = true
		if _, err = ParseCallgraph(value); value == "no" {
			err = nil
		}
		e.Callgraph = value
	case "time":
		known = true
		e.NoTime = value == "0"
	}
	return known, err
}

// format puts the bits of v where a format such as config:0-7,32-35 says.
func (e *Event) format(format string, v uint64) error {
	word, ranges, ok := strings.Cut(format, ":")
	var to *uint64
	switch word {
	case "config":
		to = &e.Config
	case "config1":
		to = &e.Config1
	case "config2":
		to = &e.Config2
	default:
		ok = false
	}
	if !ok {
		return fmt.Errorf("its format %q is not known", format)
	}
	for r := range strings.SplitSeq(ranges, ",") {
		from, last, both := strings.Cut(r, "-")
		lo, err := strconv.ParseUint(from, 10, 6)
		hi := lo
		if both && err == nil {
			hi, err = strconv.ParseUint(last, 10, 6)
		}
		if err != nil || hi < lo {
			return fmt.Errorf("its format %q is not known", format)
		}
		for b := lo; b <= hi; b++ {
			*to = *to&^(1<<b) | v&1<<b
			v >>= 1
		}
	}
	if v != 0 {
		return fmt.Errorf("the value has %d bits too many", bits.Len64(v))
	}
	return nil
}

// ParseCPUs parses a list of processors such as 0-2,5. The result is sorted.
func ParseCPUs(list string) ([]int, error) {
	var out []int
	for r := range strings.SplitSeq(list, ",") {
		from, last, both := strings.Cut(strings.TrimSpace(r), "-")
		lo, err := strconv.ParseUint(from, 10, 16)
		hi := lo
		if both && err == nil {
			hi, err = strconv.ParseUint(last, 10, 16)
		}
		if err != nil || hi < lo {
			return nil, fmt.Errorf("cpus %q: want a list such as 0-2,5", list)
		}
		for c := lo; c <= hi; c++ {
			out = append(out, int(c))
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// attr returns what of perf_event_attr the event itself says.
func (e *Event) attr() perfdata.Attr {
	return perfdata.Attr{Type: e.Type, Config: e.Config, Config1: e.Config1, Config2: e.Config2, BPType: e.BPType}
}
