package record

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/perfdata"
)

// features writes what a header says of the host, as perf record does. What
// cannot be found out is left out.
func (r *recorder) features() error {
	h := r.hosts
	set := map[int]any{}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		set[perfdata.FeatureHostname] = unix.ByteSliceToString(u.Nodename[:])
		set[perfdata.FeatureOSRelease] = unix.ByteSliceToString(u.Release[:])
		set[perfdata.FeatureArch] = unix.ByteSliceToString(u.Machine[:])
	}
	set[perfdata.FeatureVersion] = r.o.Version
	set[perfdata.FeatureCmdline] = r.o.Cmdline
	online, _ := onlineCPUs()
	avail := h.cpus("possible")
	set[perfdata.FeatureNRCPUs] = perfdata.NRCPUs{Avail: uint32(max(len(avail), len(online))), Online: uint32(len(online))}
	if desc, id := h.processor(); desc != "" {
		set[perfdata.FeatureCPUDesc] = desc
		if id != "" {
			set[perfdata.FeatureCPUID] = id
		}
	}
	if kb := h.meminfo("/proc/meminfo", "MemTotal"); kb > 0 {
		set[perfdata.FeatureTotalMem] = kb
	}
	set[perfdata.FeatureEventDesc] = r.eventDesc()
	if t, ok := h.topology(online); ok {
		set[perfdata.FeatureCPUTopology] = t
	}
	if n := h.numa(); len(n) > 0 {
		set[perfdata.FeatureNUMATopology] = n
	}
	if p := h.pmus(); len(p) > 0 {
		set[perfdata.FeaturePMUMappings] = p
	}
	if g := r.groups(); len(g) > 0 {
		set[perfdata.FeatureGroupDesc] = g
	}
	if c := h.caches(online); len(c) > 0 {
		set[perfdata.FeatureCache] = perfdata.Caches{Version: 1, Levels: c}
	}
	if t, ok := h.memory(); ok {
		set[perfdata.FeatureMemTopology] = t
	}
	if r.o.Branch != 0 || r.o.Callgraph.Mode == CallgraphLBR {
		set[perfdata.FeatureBranchStack] = []byte{}
	}
	if r.o.UseClock {
		var res unix.Timespec
		if unix.ClockGetres(r.o.Clock, &res) == nil {
			set[perfdata.FeatureClockID] = uint64(res.Nano())
		}
		set[perfdata.FeatureClockData] = perfdata.ClockData{Version: 1, ClockID: uint32(r.o.Clock), WallTime: uint64(r.wall.UnixNano()), Time: uint64(r.clock)}
	}
	if r.o.Compress > 0 {
		c := perfdata.Compressed{Version: 1, Type: 1, Level: uint32(r.o.Compress), MmapLen: uint32(max(r.o.Pages*os.Getpagesize(), defaultRing))}
		if z := r.file.z; z != nil && z.Out > 0 {
			c.Ratio = uint32((z.In + z.Out/2) / z.Out)
		}
		set[perfdata.FeatureCompressed] = c
	}
	if !r.o.NoBPF && !r.o.Pipe && seekable(r.out) {
		set[perfdata.FeatureBPFProgInfo], set[perfdata.FeatureBPFBTF] = r.programs.features()
	}
	own, others := h.pmuCaps()
	if len(own) > 0 {
		set[perfdata.FeatureCPUPMUCaps] = own
	}
	set[perfdata.FeaturePMUCaps] = others
	if n := h.hybrid(); len(n) > 1 {
		set[perfdata.FeatureHybridTopology] = n
	}
	for _, bit := range slices.Sorted(maps.Keys(set)) {
		if b, ok := set[bit].([]byte); ok {
			if err := r.file.w.SetFeatureData(bit, b); err != nil {
				return err
			}
			continue
		}
		if err := r.file.w.SetFeature(bit, set[bit]); err != nil {
			return err
		}
	}
	return nil
}

// eventDesc names the events.
func (r *recorder) eventDesc() perfdata.EventDescs {
	d := perfdata.EventDescs{AttrSize: attrSize}
	for i := range r.list {
		e := perfdata.EventDesc{Attr: r.list[i].attr, Name: r.list[i].Name}
		for _, c := range r.open {
			if c.event == i {
				e.IDs = append(e.IDs, c.id)
			}
		}
		d.Events = append(d.Events, e)
	}
	return d
}

// groups describes the groups of several events.
func (r *recorder) groups() []perfdata.GroupDesc {
	var out []perfdata.GroupDesc
	for i := range r.list {
		n := uint32(0)
		for j := range r.list {
			if r.list[j].Leader == i {
				n++
			}
		}
		if n < 2 {
			continue
		}
		name := r.list[i].Group
		if name == "" {
			name = "{anon_group}"
		}
		out = append(out, perfdata.GroupDesc{Name: name, Leader: uint32(i), Members: n})
	}
	return out
}

// hostFacts reads facts of the host from its file systems.
type hostFacts struct{ sys, proc string }

func (h hostFacts) line(elem ...string) string {
	b, err := os.ReadFile(filepath.Join(append([]string{h.sys}, elem...)...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func (h hostFacts) cpus(what string) []int {
	cpus, err := ParseCPUs(h.line("devices/system/cpu", what))
	if err != nil {
		return nil
	}
	return cpus
}

// processor returns the name of the processor and, on x86, its id as perf
// writes it: vendor, family, model, stepping.
func (h hostFacts) processor() (desc, id string) {
	f, err := os.Open(filepath.Join(h.proc, "cpuinfo"))
	if err != nil {
		return "", ""
	}
	defer f.Close()
	facts := map[string]string{}
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		key, value, ok := strings.Cut(sc.Text(), ":")
		if key = strings.TrimSpace(key); ok && facts[key] == "" {
			facts[key] = strings.Join(strings.Fields(value), " ")
		}
	}
	for _, key := range []string{"model name", "cpu", "Processor", "uarch", "Model Name", "machine"} {
		if desc = facts[key]; desc != "" {
			break
		}
	}
	switch runtime.GOARCH {
	case "amd64", "386":
		id = strings.Join([]string{facts["vendor_id"], facts["cpu family"], facts["model"], facts["stepping"]}, ",")
	case "arm64":
		id = h.line("devices/system/cpu/cpu0/regs/identification/midr_el1")
	}
	return desc, id
}

// meminfo returns a number of a file such as /proc/meminfo, in kB.
func (h hostFacts) meminfo(name, key string) uint64 {
	b, err := os.ReadFile(name)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if i := strings.Index(line, key+":"); i >= 0 {
			f := strings.Fields(line[i+len(key)+1:])
			if len(f) > 0 {
				n, _ := strconv.ParseUint(f[0], 10, 64)
				return n
			}
		}
	}
	return 0
}

// topology says which processors share a socket, a die and a core.
func (h hostFacts) topology(online []int) (perfdata.CPUTopology, bool) {
	t := perfdata.CPUTopology{HasDies: true}
	add := func(list *[]string, s string) {
		if s != "" && !slices.Contains(*list, s) {
			*list = append(*list, s)
		}
	}
	number := func(cpu int, what string) uint32 {
		n, err := strconv.ParseInt(h.line("devices/system/cpu", fmt.Sprintf("cpu%d", cpu), "topology", what), 10, 32)
		if err != nil {
			return 0
		}
		return uint32(n)
	}
	for _, cpu := range online {
		dir := func(what string) string {
			return h.line("devices/system/cpu", fmt.Sprintf("cpu%d", cpu), "topology", what)
		}
		first := func(names ...string) string {
			for _, n := range names {
				if s := dir(n); s != "" {
					return s
				}
			}
			return ""
		}
		add(&t.Cores, first("package_cpus_list", "core_siblings_list"))
		add(&t.Dies, first("die_cpus_list"))
		add(&t.Threads, first("core_cpus_list", "thread_siblings_list"))
	}
	for _, cpu := range h.cpus("present") {
		t.CPUs = append(t.CPUs, perfdata.CPUPlace{Core: number(cpu, "core_id"), Socket: number(cpu, "physical_package_id"), Die: number(cpu, "die_id")})
	}
	if len(t.Dies) == 0 {
		t.HasDies = false
	}
	return t, len(t.Cores) > 0
}

func (h hostFacts) numa() []perfdata.NUMANode {
	var out []perfdata.NUMANode
	nodes, err := ParseCPUs(h.line("devices/system/node/online"))
	if err != nil {
		return nil
	}
	for _, n := range nodes {
		dir := filepath.Join(h.sys, "devices/system/node", fmt.Sprintf("node%d", n))
		out = append(out, perfdata.NUMANode{
			Node:  uint32(n),
			Total: h.meminfo(filepath.Join(dir, "meminfo"), "MemTotal"),
			Free:  h.meminfo(filepath.Join(dir, "meminfo"), "MemFree"),
			CPUs:  h.line("devices/system/node", fmt.Sprintf("node%d", n), "cpulist"),
		})
	}
	return out
}

func (h hostFacts) pmus() []perfdata.PMUMapping {
	list, err := os.ReadDir(filepath.Join(h.sys, "bus/event_source/devices"))
	if err != nil {
		return nil
	}
	var out []perfdata.PMUMapping
	for _, d := range list {
		if n, err := strconv.ParseUint(h.line("bus/event_source/devices", d.Name(), "type"), 10, 32); err == nil {
			out = append(out, perfdata.PMUMapping{Type: uint32(n), Name: d.Name()})
		}
	}
	return out
}

// pmuCaps returns what PMUs say they can do: that of the processor, and the
// others.
func (h hostFacts) pmuCaps() (own []perfdata.Cap, others []perfdata.PMUCaps) {
	for _, pmu := range h.pmus() {
		list, err := os.ReadDir(filepath.Join(h.sys, "bus/event_source/devices", pmu.Name, "caps"))
		if err != nil {
			continue
		}
		var caps []perfdata.Cap
		for _, d := range list {
			if v := h.line("bus/event_source/devices", pmu.Name, "caps", d.Name()); v != "" {
				caps = append(caps, perfdata.Cap{Name: d.Name(), Value: v})
			}
		}
		switch {
		case len(caps) == 0:
		case pmu.Name == "cpu":
			own = caps
		default:
			others = append(others, perfdata.PMUCaps{PMU: pmu.Name, Caps: caps})
		}
	}
	return own, others
}

// hybrid lists the PMUs of processors of several kinds, where there are some.
func (h hostFacts) hybrid() []perfdata.HybridPMU {
	var out []perfdata.HybridPMU
	for _, pmu := range h.pmus() {
		if cpus := h.line("bus/event_source/devices", pmu.Name, "cpus"); cpus != "" && strings.HasPrefix(pmu.Name, "cpu_") {
			out = append(out, perfdata.HybridPMU{PMU: pmu.Name, CPUs: cpus})
		}
	}
	return out
}

// caches lists the caches, each once.
func (h hostFacts) caches(online []int) []perfdata.CacheLevel {
	var out []perfdata.CacheLevel
	for _, cpu := range online {
		for i := range 8 {
			at := func(what string) string {
				return h.line("devices/system/cpu", fmt.Sprintf("cpu%d", cpu), "cache", fmt.Sprintf("index%d", i), what)
			}
			number := func(what string) uint32 {
				n, _ := strconv.ParseUint(at(what), 10, 32)
				return uint32(n)
			}
			c := perfdata.CacheLevel{
				Level: number("level"), LineSize: number("coherency_line_size"), Sets: number("number_of_sets"),
				Ways: number("ways_of_associativity"), Type: at("type"), Size: at("size"), CPUs: at("shared_cpu_list"),
			}
			if c.Type != "" && !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b perfdata.CacheLevel) int { return cmp.Compare(a.Level, b.Level) })
	return out
}

// memory lists which blocks of memory belong to which node.
func (h hostFacts) memory() (perfdata.MemTopology, bool) {
	t := perfdata.MemTopology{Version: 1}
	size, err := strconv.ParseUint(h.line("devices/system/memory/block_size_bytes"), 16, 64)
	if err != nil {
		return t, false
	}
	t.BlockSize = size
	nodes, err := ParseCPUs(h.line("devices/system/node/online"))
	if err != nil {
		return t, false
	}
	for _, n := range nodes {
		list, err := os.ReadDir(filepath.Join(h.sys, "devices/system/node", fmt.Sprintf("node%d", n)))
		if err != nil {
			return t, false
		}
		node := perfdata.MemNode{Node: uint64(n)}
		for _, d := range list {
			b, ok := strings.CutPrefix(d.Name(), "memory")
			if i, err := strconv.ParseUint(b, 10, 24); ok && err == nil {
				for uint64(len(node.Set)) <= i/64 {
					node.Set = append(node.Set, 0)
				}
				node.Set[i/64] |= 1 << (i % 64)
				node.Size = max(node.Size, i+1)
			}
		}
		t.Nodes = append(t.Nodes, node)
	}
	return t, true
}

// clockTime returns the time of a clock.
func clockTime(id int32) time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(id, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
