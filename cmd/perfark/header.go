package main

import (
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/perfdata"
)

func newHeaderCmd(a *app) *cobra.Command {
	var o headerOptions
	cmd := &cobra.Command{
		Use:   "header [FILE]",
		Short: "show what a recording says of itself",
		Long: `Header prints what perf report --header-only prints: when and where the recording was
made, by which command, with which events, on which processors. FILE is a recording,
a bundle or -, and perf.data by default. The long sections are printed with -I only.

Exit status: 0 all was read; 3 a part of it is damaged, which standard error explains.`,
		Example: `  perfark header
  perfark header -I -i perf.data
  perfark header --json profile.perfark`,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := a.inputName(args)
			if err != nil {
				return err
			}
			in, err := a.openInput(cmd.Context(), name)
			if err != nil {
				return err
			}
			defer in.Close()
			return a.runHeader(in, o)
		},
	}
	a.addInputFlags(cmd)
	a.addArchiveLimitFlags(cmd)
	a.addOutputFlags(cmd)
	cmd.Flags().BoolVarP(&o.all, "info", "I", false, "print the sections on CPU topology, NUMA, caches and memory too")
	return cmd
}

// runHeader prints the header of a recording alone.
func (a *app) runHeader(in *input, o headerOptions) error {
	if a.json {
		if err := a.printJSON(jsonHeaderOf(in.File)); err != nil {
			return err
		}
	} else {
		a.startPager()
		if err := writeHeader(a.stdout, in.File, o); err != nil {
			return err
		}
	}
	a.stdout.Flush()
	for _, bit := range in.Features() {
		if bit > perfdata.FeatureClnSize {
			a.verbosef("%s: feature %d is newer than this program", in.Name(), bit)
		}
	}
	return a.headerLosses(in.File)
}

// headerLosses prints the warnings about a recording whose records have not
// been read, and returns the error that stands for damage. A feature that
// cannot be read is a loss here: it is what was asked for.
func (a *app) headerLosses(f *perfdata.File) error {
	lost := false
	for _, w := range f.Warnings() {
		a.notef("%s: %s", f.Name(), w)
		lost = lost || strings.HasPrefix(w, "feature ")
	}
	damage := f.Damage()
	for _, d := range damage {
		a.notef("%s: %s", d.Name, d)
	}
	if len(damage) == 0 && !lost {
		return nil
	}
	return &exitError{code: exitPartial}
}

// headerOptions are for writeHeader.
type headerOptions struct {
	all bool // the long sections too
}

// writeHeader writes the header of a recording as perf report --header-only
// does. In pipes perf prints features when they come, behind the block; so do
// we.
func writeHeader(w io.Writer, f *perfdata.File, o headerOptions) error {
	p := &headerPrinter{f: f, o: o}
	h := f.Header()
	p.line("# ========")
	p.line("# captured on    : %s", captured(h.ModTime))
	p.line("# header version : %d", h.Version)
	p.line("# data offset    : %d", h.Data.Offset)
	p.line("# data size      : %d", h.Data.Size)
	p.line("# feat offset    : %d", h.Data.Offset+h.Data.Size)
	if h.Pipe {
		p.line("# ========")
		p.line("#")
		p.features()
	} else {
		p.features()
		p.line("# missing features: %s", strings.Join(missingFeatures(f), ""))
		p.line("# ========")
		p.line("#")
	}
	_, err := io.WriteString(w, p.b.String())
	return err
}

// captured formats a time as ctime(3) does.
func captured(t time.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	return t.Format("Mon Jan _2 15:04:05 2006")
}

// lastNamed is the last feature that the perf of today's distributions knows:
// it lists no others as missing.
const lastNamed = perfdata.FeaturePMUCaps

// missingFeatures lists the features that a recording lacks, each with a blank
// behind it.
func missingFeatures(f *perfdata.File) []string {
	last := lastNamed
	for bit := lastNamed + 1; bit <= perfdata.FeatureClnSize; bit++ {
		if f.Header().Has(bit) {
			last = bit
		}
	}
	var list []string
	for bit := 1; bit <= last; bit++ {
		if !f.Header().Has(bit) {
			list = append(list, perfdata.FeatureName(bit)+" ")
		}
	}
	return list
}

// A headerPrinter writes the lines of a header.
type headerPrinter struct {
	b strings.Builder
	f *perfdata.File
	o headerOptions
}

// line writes a line. The strings among args come from the recording and are
// escaped.
func (p *headerPrinter) line(format string, args ...any) {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = escape.Name(s)
		}
	}
	fmt.Fprintf(&p.b, format, args...)
	p.b.WriteByte('\n')
}

// A headerRow is how a feature is printed. Features without a row, such as
// BUILD_ID, are not.
type headerRow struct {
	bit   int
	long  bool // with -I only
	print func(p *headerPrinter, v any)
}

// headerRows is the table of what a header shows, by bit.
var headerRows = []headerRow{
	stringRow(perfdata.FeatureHostname, "hostname"),
	stringRow(perfdata.FeatureOSRelease, "os release"),
	stringRow(perfdata.FeatureVersion, "perf version"),
	stringRow(perfdata.FeatureArch, "arch"),
	headerRowOf(perfdata.FeatureNRCPUs, false, func(p *headerPrinter, v perfdata.NRCPUs) {
		p.line("# nrcpus online : %d", v.Online)
		p.line("# nrcpus avail : %d", v.Avail)
	}),
	stringRow(perfdata.FeatureCPUDesc, "cpudesc"),
	stringRow(perfdata.FeatureCPUID, "cpuid"),
	headerRowOf(perfdata.FeatureTotalMem, false, func(p *headerPrinter, v uint64) { p.line("# total memory : %d kB", v) }),
	headerRowOf(perfdata.FeatureCmdline, false, (*headerPrinter).cmdline),
	headerRowOf(perfdata.FeatureEventDesc, false, (*headerPrinter).eventDesc),
	headerRowOf(perfdata.FeatureCPUTopology, true, (*headerPrinter).cpuTopology),
	headerRowOf(perfdata.FeatureNUMATopology, true, func(p *headerPrinter, v []perfdata.NUMANode) {
		for _, n := range v {
			p.line("# node%d meminfo  : total = %d kB, free = %d kB", n.Node, n.Total, n.Free)
			p.line("# node%d cpu list : %s", n.Node, cpuList(n.CPUs))
		}
	}),
	headerRowOf(perfdata.FeatureBranchStack, false, func(p *headerPrinter, _ []byte) { p.line("# contains samples with branch stack") }),
	headerRowOf(perfdata.FeaturePMUMappings, false, (*headerPrinter).pmuMappings),
	headerRowOf(perfdata.FeatureGroupDesc, false, (*headerPrinter).groupDesc),
	headerRowOf(perfdata.FeatureAuxtrace, false, func(p *headerPrinter, _ perfdata.AuxtraceIndex) {
		p.line("# contains AUX area data (e.g. instruction trace)")
	}),
	headerRowOf(perfdata.FeatureStat, false, func(p *headerPrinter, _ []byte) { p.line("# contains stat data") }),
	headerRowOf(perfdata.FeatureCache, true, func(p *headerPrinter, v perfdata.Caches) {
		p.line("# CPU cache info:")
		for _, l := range v.Levels {
			p.line("#  L%d %-15s %8s [%s]", int32(l.Level), l.Type, l.Size, l.CPUs)
		}
	}),
	headerRowOf(perfdata.FeatureSampleTime, false, func(p *headerPrinter, v perfdata.SampleTimes) {
		p.line("# time of first sample : %s", seconds(v.First))
		p.line("# time of last sample : %s", seconds(v.Last))
		p.line("# sample duration : %10.3f ms", float64(v.Last-v.First)/1e6)
	}),
	headerRowOf(perfdata.FeatureMemTopology, true, func(p *headerPrinter, v perfdata.MemTopology) {
		p.line("# memory nodes (nr %d, block size 0x%x):", len(v.Nodes), v.BlockSize)
		for _, n := range v.Nodes {
			p.line("#  %3d [%s]: %s", n.Node, unit(v.BlockSize*uint64(bitCount(n.Set, n.Size))), bitList(n.Set, n.Size))
		}
	}),
	headerRowOf(perfdata.FeatureClockID, false, func(p *headerPrinter, v uint64) { p.line("# clockid frequency: %d MHz", v*1000) }),
	headerRowOf(perfdata.FeatureDirFormat, false, func(p *headerPrinter, v uint64) { p.line("# directory data version : %d", v) }),
	headerRowOf(perfdata.FeatureBPFProgInfo, false, (*headerPrinter).bpfProgs),
	headerRowOf(perfdata.FeatureBPFBTF, false, func(p *headerPrinter, v []perfdata.BTF) {
		for _, b := range slices.SortedFunc(slices.Values(v), func(a, b perfdata.BTF) int { return int(a.ID) - int(b.ID) }) {
			p.line("# btf info of id %d", b.ID)
		}
	}),
	headerRowOf(perfdata.FeatureCompressed, false, func(p *headerPrinter, v perfdata.Compressed) {
		kind := "Unknown"
		if v.Type == 1 {
			kind = "Zstd"
		}
		p.line("# compressed : %s, level = %d, ratio = %d", kind, int32(v.Level), int32(v.Ratio))
	}),
	headerRowOf(perfdata.FeatureCPUPMUCaps, false, func(p *headerPrinter, v []perfdata.Cap) { p.caps("cpu", v) }),
	headerRowOf(perfdata.FeatureClockData, false, (*headerPrinter).clockData),
	headerRowOf(perfdata.FeatureHybridTopology, true, func(p *headerPrinter, v []perfdata.HybridPMU) {
		p.line("# hybrid cpu system:")
		for _, n := range v {
			p.line("# %s cpu list : %s", n.PMU, n.CPUs)
		}
	}),
	headerRowOf(perfdata.FeaturePMUCaps, false, func(p *headerPrinter, v []perfdata.PMUCaps) {
		for _, n := range v {
			p.caps(n.PMU, n.Caps)
		}
	}),
	headerRowOf(perfdata.FeatureCPUDomainInfo, true, (*headerPrinter).cpuDomains),
	headerRowOf(perfdata.FeatureEMachine, false, func(p *headerPrinter, v perfdata.EMachine) {
		p.line("# e_machine : %d", v.Machine)
		if v.Flags != 0 {
			p.line("#   e_flags : %d", v.Flags)
		}
	}),
	headerRowOf(perfdata.FeatureClnSize, false, func(p *headerPrinter, v uint32) { p.line("# cacheline size : %d", v) }),
}

func headerRowOf[T any](bit int, long bool, print func(p *headerPrinter, v T)) headerRow {
	return headerRow{bit: bit, long: long, print: func(p *headerPrinter, v any) {
		if t, ok := v.(T); ok {
			print(p, t)
		}
	}}
}

func stringRow(bit int, label string) headerRow {
	return headerRowOf(bit, false, func(p *headerPrinter, v string) { p.line("# %s : %s", label, v) })
}

// features prints the features that are there, in the order of the file.
func (p *headerPrinter) features() {
	for _, bit := range p.f.Features() {
		i := slices.IndexFunc(headerRows, func(r headerRow) bool { return r.bit == bit })
		switch {
		case i < 0:
		case headerRows[i].long && !p.o.all:
			p.line("# %s info available, use -I to display", perfdata.FeatureName(bit))
		default:
			headerRows[i].print(p, p.f.Feature(bit))
		}
	}
}

// cmdline prints the arguments, each with a blank behind it, and a backslash
// before single quotes.
func (p *headerPrinter) cmdline(args []string) {
	var b strings.Builder
	for _, a := range args {
		b.WriteString(strings.ReplaceAll(a, "'", `\'`) + " ")
	}
	p.line("# cmdline : %s", b.String())
}

func (p *headerPrinter) eventDesc(v perfdata.EventDescs) {
	for i := range v.Events {
		e := &v.Events[i]
		var b strings.Builder
		fmt.Fprintf(&b, "# event : name = %s, ", e.Name)
		if len(e.IDs) > 0 {
			b.WriteString(", id = {")
			for i, id := range e.IDs {
				if i > 0 {
					b.WriteByte(',')
				}
				fmt.Fprintf(&b, " %d", id)
			}
			b.WriteString(" }")
		}
		for _, f := range attrFields(&e.Attr) {
			fmt.Fprintf(&b, ", %s = %s", f.name, f.value)
		}
		p.line("%s", b.String())
	}
}

func (p *headerPrinter) cpuTopology(v perfdata.CPUTopology) {
	for _, s := range v.Cores {
		p.line("# sibling sockets : %s", s)
	}
	for _, s := range v.Dies {
		p.line("# sibling dies    : %s", s)
	}
	for _, s := range v.Threads {
		p.line("# sibling threads : %s", s)
	}
	switch {
	case len(v.CPUs) == 0 && v.HasDies:
		p.line("# Core ID, Die ID and Socket ID information is not available")
	case len(v.CPUs) == 0:
		p.line("# Core ID and Socket ID information is not available")
	}
	for i, c := range v.CPUs {
		if v.HasDies {
			p.line("# CPU %d: Core ID %d, Die ID %d, Socket ID %d", i, int32(c.Core), int32(c.Die), int32(c.Socket))
			continue
		}
		p.line("# CPU %d: Core ID %d, Socket ID %d", i, int32(c.Core), int32(c.Socket))
	}
}

func (p *headerPrinter) pmuMappings(v []perfdata.PMUMapping) {
	if len(v) == 0 {
		p.line("# pmu mappings: not available")
		return
	}
	var list []string
	for _, m := range v {
		list = append(list, fmt.Sprintf("%s = %d", m.Name, m.Type))
	}
	p.line("# pmu mappings: %s", strings.Join(list, ", "))
}

func (p *headerPrinter) groupDesc(v []perfdata.GroupDesc) {
	for _, g := range v {
		if g.Members > 1 {
			p.line("# group: %s", groupText(p.f.Events(), g))
		}
	}
}

// groupText returns a group as perf does: name{leader,member}.
func groupText(events []perfdata.Event, g perfdata.GroupDesc) string {
	name := g.Name
	if name == "{anon_group}" {
		name = ""
	}
	var list []string
	for i := uint64(g.Leader); i < uint64(g.Leader)+uint64(g.Members) && i < uint64(len(events)); i++ {
		list = append(list, events[i].Name)
	}
	return name + "{" + strings.Join(list, ",") + "}"
}

func (p *headerPrinter) bpfProgs(v []perfdata.BPFProg) {
	names := p.f.BPFNames()
	for _, prog := range slices.SortedFunc(slices.Values(v), func(a, b perfdata.BPFProg) int { return int(a.ID) - int(b.ID) }) {
		if len(prog.Funcs) == 1 {
			f := prog.Funcs[0]
			p.line("# bpf_prog_info %d: %s addr %#x size %d", prog.ID, names.Func(&prog, 0), f.Addr, f.Size)
			continue
		}
		if len(prog.Funcs) == 0 {
			continue
		}
		p.line("# bpf_prog_info %d:", prog.ID)
		for i, f := range prog.Funcs {
			p.line("# \tsub_prog %d: %s addr %#x size %d", i, names.Func(&prog, i), f.Addr, f.Size)
		}
	}
}

func (p *headerPrinter) caps(pmu string, caps []perfdata.Cap) {
	if len(caps) == 0 {
		p.line("# %s pmu capabilities: not available", pmu)
		return
	}
	var list []string
	for _, c := range caps {
		list = append(list, c.Name+"="+c.Value)
	}
	p.line("# %s pmu capabilities: %s", pmu, strings.Join(list, ", "))
}

func (p *headerPrinter) clockData(v perfdata.ClockData) {
	name := clockName(v.ClockID)
	p.line("# clockid: %s (%d)", name, v.ClockID)
	sec, nsec := int64(v.WallTime/1e9), v.WallTime%1e9
	date := time.Unix(sec, 0).Format("2006-01-02 15:04:05")
	p.line("# reference time: %s.%06d = %d.%06d (TOD) = %d.%09d (%s)", date, nsec/1000, sec, nsec/1000, v.Time/1e9, v.Time%1e9, name)
}

var clockNames = []string{0: "realtime", 1: "monotonic", 4: "monotonic_raw", 7: "boottime", 11: "tai"}

// clockName returns perf's name of a clock.
func clockName(id uint32) string {
	if int(id) < len(clockNames) && clockNames[id] != "" {
		return clockNames[id]
	}
	return "(not found)"
}

func (p *headerPrinter) cpuDomains(v perfdata.CPUDomainInfo) {
	p.line("# schedstat version\t: %d", v.Version)
	p.line("# Maximum sched domains\t: %d", v.MaxDomains)
	for _, c := range v.CPUs {
		p.line("# cpu\t\t\t: %d", c.CPU)
		p.line("# nr_domains\t\t: %d", len(c.Domains))
		for _, d := range c.Domains {
			p.line("# Domain\t\t: %d", d.Domain)
			if d.Name != "" {
				p.line("# Domain name\t\t: %s", d.Name)
			}
			p.line("# Domain cpu map\t: %s", d.CPUMask)
			p.line("# Domain cpu list\t: %s", d.CPUs)
		}
	}
}

// seconds formats ns as seconds with six digits.
func seconds(ns uint64) string { return fmt.Sprintf("%d.%06d", ns/1e9, ns%1e9/1e3) }

// unit formats a number as perf does: 32M, 24G; never below 2 of a unit.
func unit(n uint64) string {
	i := 0
	for n/1024 > 1 && i < 3 {
		n /= 1024
		i++
	}
	return strconv.FormatUint(n, 10) + string("BKMG"[i])
}

// bitCount counts the bits of the first size ones that are set.
func bitCount(set []uint64, size uint64) int {
	n := 0
	for i, w := range set {
		n += bits.OnesCount64(masked(w, i, size))
	}
	return n
}

// masked clears the bits of word i that are not among the first size.
func masked(w uint64, i int, size uint64) uint64 {
	at := uint64(i) * 64
	switch {
	case at >= size:
		return 0
	case size-at < 64:
		return w & (1<<(size-at) - 1)
	}
	return w
}

// bitList lists the bits that are set, as ranges: 0-23,32.
func bitList(set []uint64, size uint64) string {
	var list []string
	start := int64(-1)
	end := int64(-1)
	flush := func() {
		switch {
		case start < 0:
		case start == end:
			list = append(list, strconv.FormatInt(start, 10))
		default:
			list = append(list, fmt.Sprintf("%d-%d", start, end))
		}
	}
	for i, w := range set {
		for w = masked(w, i, size); w != 0; w &= w - 1 {
			n := int64(i)*64 + int64(bits.TrailingZeros64(w))
			if n != end+1 || start < 0 {
				flush()
				start = n
			}
			end = n
		}
	}
	flush()
	return strings.Join(list, ",")
}

// cpuList writes a list of CPUs in its shortest form, as perf does. What is
// none is returned as it is.
func cpuList(s string) string {
	set := make([]uint64, 0, 16)
	for _, part := range strings.Split(strings.TrimSpace(s), ",") {
		a, b, ok := strings.Cut(part, "-")
		if !ok {
			b = a
		}
		from, err1 := strconv.ParseUint(a, 10, 16)
		to, err2 := strconv.ParseUint(b, 10, 16)
		if err1 != nil || err2 != nil || from > to {
			return s
		}
		for n := from; n <= to; n++ {
			for uint64(len(set)) <= n/64 {
				set = append(set, 0)
			}
			set[n/64] |= 1 << (n % 64)
		}
	}
	return bitList(set, uint64(len(set))*64)
}
