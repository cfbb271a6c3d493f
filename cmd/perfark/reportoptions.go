package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/report"
	"github.com/perfark/perfark/session"
)

// options checks the flags, which come before what perfconfig says.
func (c *reportCmd) options(cmd *cobra.Command) (o report.Options, err error) {
	fs := cmd.Flags()
	if c.separator == "." {
		return o, usagef("-t %q: want another separator: numbers have a dot", c.separator)
	}
	if c.separator == `\t` {
		c.separator = "\t"
	}
	if !fs.Changed("sort") {
		c.sort = cmp.Or(c.config.sort, c.sort)
	}
	// What is no key may be a field of a tracepoint: see keys.
	maybe := func(string) ([]report.Key, error) { return []report.Key{report.FieldKey(0)}, nil }
	if err := c.parseKeys(&o, fs.Changed("sort"), maybe); err != nil {
		return o, err
	}
	switch c.percentage {
	case "", "absolute":
	case "relative":
		o.Relative = true
	default:
		return o, usagef("--percentage %q: want absolute or relative", c.percentage)
	}
	switch c.color {
	case "always", "never", "auto":
	default:
		return o, usagef("--stdio-color %q: want always, never or auto", c.color)
	}
	if c.hierarchy && fs.Changed("fields") {
		return o, usagef("--hierarchy and --fields do not go together")
	}
	if c.maxStack < 0 {
		return o, usagef("--max-stack %d: want a number of frames", c.maxStack)
	}
	if _, err := parseWidths(c.widths); err != nil {
		return o, err
	}
	if o.Parent, err = compile("--parent", c.parent); err != nil {
		return o, err
	}
	if o.IgnoreCallees, err = compile("--ignore-callees", c.ignoreCallees); err != nil {
		return o, err
	}
	if c.timeQuantum, err = c.parseQuantum(); err != nil {
		return o, err
	}
	if err := c.symbolFlags.check(); err != nil {
		return o, err
	}
	o.ExcludeOther = c.excludeOther
	o.MaxStack = cmp.Or(c.maxStack, defaultMaxStack)
	o.NoInline, o.HideUnresolved, o.Hierarchy = !c.inline, c.hideUnresolved, c.hierarchy
	o.ShowSamples, o.ShowPeriod, o.ShowCPU = c.showSamples, c.showTotal, c.showCPU
	o.GroupSort = c.groupSort
	o.SourcePaths, o.Nanoseconds = c.fullSource, c.ns
	o.KeepEmpty = !c.skipEmpty
	o.Workers = c.workers
	return o, c.parseFilter(&o.Filter)
}

// parseKeys parses --sort and --fields; sorted says that --sort was given. A +
// before either adds to the default. field is as in report.ParseKeys.
func (c *reportCmd) parseKeys(o *report.Options, sorted bool, field func(string) ([]report.Key, error)) (err error) {
	sort, more := strings.CutPrefix(c.sort, "+")
	if o.Sort, o.Together, err = report.ParseLevels(sort, field); err != nil {
		return usagef("--sort: %s", err)
	}
	if more {
		o.Sort = append(slices.Clone(report.DefaultSort), o.Sort...)
	}
	fields, more := strings.CutPrefix(c.fields, "+")
	if o.Fields, err = report.ParseKeys(fields, field); err != nil {
		return usagef("--fields: %s", err)
	}
	if more {
		c.extra, o.Fields = o.Fields, nil
	}
	if c.sort == "" && o.Fields == nil {
		o.Sort = nil
	}
	if o.Fields != nil && !sorted {
		o.Sort = nil // not that of perfconfig
	}
	return nil
}

// addFields puts the columns of --fields +KEYS behind the usual counts.
func (c *reportCmd) addFields(o *report.Options) {
	if c.extra == nil {
		return
	}
	sort := o.Sort
	if sort == nil {
		sort = report.DefaultSort
	}
	var counts []report.Key
	if o.Children {
		counts = append(counts, report.OverheadChildren)
	}
	counts = append(counts, report.Overhead)
	o.Sort = append(slices.Clone(counts), sort...)
	if o.ShowCPU {
		counts = append(counts, report.OverheadSys, report.OverheadUser)
	}
	if o.ShowSamples {
		counts = append(counts, report.Samples)
	}
	if o.ShowPeriod {
		counts = append(counts, report.Period)
	}
	o.Fields = append(counts, c.extra...)
	o.AddedFields = true
}

// parseFilter parses the flags that hide rows.
func (c *reportCmd) parseFilter(f *report.Filter) (err error) {
	for _, x := range []struct {
		flag, list string
		to         *[]string
	}{{"--comms", c.comms, &f.Comms}, {"--dsos", c.dsos, &f.DSOs}, {"-S", c.filterFlags.symbols, &f.Symbols}, {"--cgroup", c.cgroups, &f.Cgroups}} {
		names, err := parseNames(x.flag, x.list)
		if err != nil {
			return err
		}
		*x.to = slices.Sorted(maps.Keys(names))
	}
	if f.PIDs, err = parseIDs("--pid", c.pids); err != nil {
		return err
	}
	if f.TIDs, err = parseIDs("--tid", c.tids); err != nil {
		return err
	}
	if f.Sockets, err = parseIDs("--socket-filter", c.sockets); err != nil {
		return err
	}
	f.SymbolPart = c.symbolPart
	return nil
}

// compile compiles a regular expression of a flag; nil for none.
func compile(flag, text string) (*regexp.Regexp, error) {
	const most = 1 << 10
	switch {
	case text == "":
		return nil, nil
	case len(text) > most:
		return nil, usagef("%s: an expression of %d bytes, at most %d are looked at", flag, len(text), most)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, usagef("%s: %s", flag, err)
	}
	return re, nil
}

// parseQuantum parses --time-quantum, in ns.
func (c *reportCmd) parseQuantum() (uint64, error) {
	n := strings.TrimRight(c.quantum, "nums")
	v, err := strconv.ParseUint(n, 10, 32)
	scale, ok := map[string]uint64{"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1}[c.quantum[len(n):]]
	if err != nil || !ok || v == 0 {
		return 0, usagef("--time-quantum %q: want a time such as 100ms, with s, ms, us or ns", c.quantum)
	}
	return v * scale, nil
}

// parseWidths parses --column-widths.
func parseWidths(list string) ([]int, error) {
	if list == "" {
		return nil, nil
	}
	const most = 1 << 12
	var out []int
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 0 || n > most {
			return nil, usagef("--column-widths %q: %q is not the width of a column", list, word)
		}
		out = append(out, n)
	}
	return out, nil
}

// keep returns what the columns of a report need of each sample.
func keep(o report.Options) session.Keep {
	var k session.Keep
	sort := o.Sort
	if sort == nil && o.Fields == nil {
		sort = report.DefaultSort
	}
	for _, key := range slices.Concat(sort, o.Fields) {
		k |= keepOf(key)
	}
	if o.Memory {
		k |= session.KeepWeight
	}
	if len(o.TraceFields) > 0 {
		k |= session.KeepText
	}
	f := &o.Filter
	if f.Comms != nil {
		k |= session.KeepComm
	}
	if f.PIDs != nil {
		k |= session.KeepPID
	}
	if f.TIDs != nil {
		k |= session.KeepTID
	}
	if f.Sockets != nil {
		k |= session.KeepCPU
	}
	if f.Cgroups != nil {
		k |= session.KeepCgroup
	}
	return k
}

func keepOf(key report.Key) session.Keep {
	switch key {
	case report.Comm:
		return session.KeepComm
	case report.PID, report.TID:
		return session.KeepComm | session.KeepTID
	case report.CPU, report.Socket:
		return session.KeepCPU
	case report.LocalWeight, report.Weight, report.LocalInsLat, report.InsLat, report.LocalPStage, report.PStage:
		return session.KeepWeight
	case report.Transaction:
		return session.KeepTransaction
	case report.Cgroup:
		return session.KeepCgroup
	case report.CgroupID:
		return session.KeepNamespace
	case report.Time:
		return session.KeepTime
	case report.Trace:
		return session.KeepText
	case report.DSOSize:
		return session.KeepMapSize
	case report.CodePageSize:
		return session.KeepCodePageSize
	case report.SymbolData, report.DSOData:
		return session.KeepAddr
	case report.Mem, report.Locked, report.TLB, report.Snoop, report.Blocked:
		return session.KeepDataSrc
	case report.CacheLine:
		return session.KeepAddr | session.KeepDataSrc
	case report.PhysAddr:
		return session.KeepPhysAddr
	case report.DataPageSize:
		return session.KeepDataPageSize
	}
	return 0
}

// lineKeys are the keys that need source lines.
var lineKeys = []report.Key{report.Srcline, report.Srcfile, report.SrclineFrom, report.SrclineTo}

// needsLines reports whether o shows source lines.
func needsLines(o *report.Options) bool {
	return o.Graph.Mode != report.GraphNone && o.Graph.Key != report.ByFunction ||
		slices.ContainsFunc(lineKeys, func(k report.Key) bool { return hasKey(o, k) })
}

// hasKey reports whether a table has a key.
func hasKey(o *report.Options, k report.Key) bool {
	return slices.Contains(o.Sort, k) || slices.Contains(o.Fields, k)
}

// dumps reports whether samples carry dumps of the stack, to be unwound.
func dumps(events []perfdata.Event) bool {
	return slices.ContainsFunc(events, func(e perfdata.Event) bool { return e.Attr.SampleType&perfdata.SampleStackUser != 0 })
}

// bind settles what only the recording tells: which fields its tracepoints have,
// what is counted, and what is needed of it for that. sorted says that --sort
// was given.
func (c *reportCmd) bind(ctx context.Context, in *input, o *report.Options, sorted bool) (so session.Options, err error) {
	trace := traceReader{c: c, in: in}
	if err := c.parseKeys(o, sorted, trace.keys); err != nil {
		return so, err
	}
	for i := range trace.fields {
		o.TraceFields = append(o.TraceFields, trace.fields[i].TraceField)
	}
	if o.Filter.Cgroups != nil {
		if err := haveCgroups(in.File); err != nil {
			return so, err
		}
	}
	if err := c.mode(in, o); err != nil {
		return so, err
	}
	c.addFields(o)
	so = session.Options{
		Workers: c.workers, Keep: keep(*o), TimeQuantum: c.timeQuantum, Branches: c.branches, Stretches: c.totalCycles || hasKey(o, report.IPC),
		MaxUnwound: cmp.Or(c.maxStack, defaultMaxStack),
	}
	if c.chains {
		so.Keep |= session.KeepFrames
		so.History = c.history(o.Graph.Order)
	}
	if so.Keep&session.KeepText != 0 {
		trace.load()
		trace.whole = hasKey(o, report.Trace)
		so.Text = trace.text
	}
	so.Filter, err = c.dropFilter(ctx, in.File)
	return so, err
}

// mode settles what is counted, by what the recording has: branches, memory
// accesses, or samples with or without their callers. The messages are perf's.
func (c *reportCmd) mode(in *input, o *report.Options) error {
	var have perfdata.SampleType
	for _, e := range in.Events() {
		have |= e.Attr.SampleType
	}
	chains := have&perfdata.SampleCallchain != 0
	dumps := dumps(in.Events())
	if dumps {
		o.MaxStack = 0 // unwinding stops there: session.Options.MaxUnwound
	}
	if !*c.given.branches {
		c.branches = in.Header().Has(perfdata.FeatureBranchStack) && have&perfdata.SampleBranchStack != 0 && !dumps && !c.memory
	} else if c.branches && have&perfdata.SampleBranchStack == 0 {
		return &multiError{"Selected -b but no branch data. Did you call perf record without -b?"}
	}
	recorded := chains
	if c.branchHistory {
		c.branches, chains = false, chains || have&perfdata.SampleBranchStack != 0
		c.graph.given, c.graph.Key = true, report.ByAddress
	}
	c.totalCycles = c.totalCycles && c.branches // as perf, which ignores it else
	if c.memory && !in.Header().Pipe && have&perfdata.SampleDataSrc == 0 &&
		!slices.ContainsFunc(in.Events(), func(e perfdata.Event) bool { return strings.Contains(e.Name, "arm_spe_") }) {
		return &multiError{"Selected --mem-mode but no mem data. Did you call perf record without -d?"}
	}
	o.Memory, o.SortOrder = c.memory, c.sort
	if c.totalCycles {
		o.Sort, o.Fields, o.Hierarchy, c.hierarchy = nil, nil, false, false
	}
	special := c.branches || c.memory
	sort := report.DefaultSort
	switch {
	case c.branches && c.memory:
		return usagef("--branch-stack and --mem-mode do not go together")
	case c.branches:
		sort = report.DefaultBranchSort
	case c.memory:
		sort = report.DefaultMemSort
	case tracepoints(in.File):
		sort = report.DefaultTraceSort
	}
	if c.branchHistory {
		sort = historySort
	}
	if (special || c.branchHistory || sort[0] == report.Trace) && o.Sort == nil && o.Fields == nil {
		o.Sort = sort
	}
	keys := slices.Concat(o.Sort, o.Fields, c.extra)
	if i := slices.IndexFunc(keys, report.Key.OfBranch); i >= 0 && !c.branches {
		return usagef("%q is a key of branches, which -b counts", keys[i])
	}
	parents := slices.Contains(keys, report.Parent)
	switch {
	case c.parent != "" && !parents:
		if o.Sort == nil && o.Fields == nil {
			o.Sort = slices.Clone(sort)
		}
		o.Sort, parents = append(o.Sort, report.Parent), true
	case c.parent == "":
		o.ExcludeOther = false
	}
	o.Children = c.children && recorded && !special && !c.hierarchy
	if parents && !chains {
		return &multiError{"Selected --sort parent, but no callchain data. Did you call 'perf record' without -g?"}
	}
	c.chains = parents
	g := &c.graph
	switch {
	case g.off:
		o.Graph.Mode = report.GraphNone
	case g.given && !chains:
		return &multiError{"Selected -g or --branch-history.", "But no callchain or branch data.", "Did you call 'perf record' without -g or -b?"}
	case chains && !c.branches:
		o.Graph = g.Graph
	}
	if chains && !c.branches {
		// The order says, without call graphs too, which end of a chain
		// --max-stack cuts and from where --parent looks.
		o.Graph.Order = g.Order
		if c.inverted || (o.Children || (c.hierarchy || c.branchHistory) && c.children) && !g.ordered { // as perf, which sets the order before it turns children off
			o.Graph.Order = report.ByCaller
		}
	}
	c.chains = c.chains || o.Children || o.Graph.Mode != report.GraphNone
	return nil
}

// A multiError is an error of several lines.
type multiError []string

func (e *multiError) Error() string { return strings.Join(*e, "\n") }

// haveCgroups returns an error if no samples say in which cgroup they are.
func haveCgroups(f *perfdata.File) error {
	if slices.ContainsFunc(f.Events(), func(e perfdata.Event) bool { return e.Attr.SampleType&perfdata.SampleCgroup != 0 }) {
		return nil
	}
	return hintf(fmt.Errorf("%s: samples do not say in which cgroup: --cgroup cannot tell them apart", f.Name()),
		"record with perf record --all-cgroups")
}

// sockets returns the socket of each processor; nil if the recording does not
// say.
func sockets(f *perfdata.File) []int32 {
	t, ok := f.CPUTopology()
	if !ok {
		return nil
	}
	var out []int32
	for _, cpu := range t.CPUs {
		out = append(out, int32(cpu.Socket))
	}
	return out
}

// groups returns the groups of events of a recording; with --group all of its
// events are one, if it has none.
func (c *reportCmd) groups(f *perfdata.File) []report.Group {
	if !c.group {
		return nil
	}
	desc, _ := f.GroupDesc()
	var gs []report.Group
	if len(desc) == 0 && *c.given.group && len(f.Events()) > 1 {
		g := report.Group{Forced: true}
		for i := range f.Events() {
			g.Members = append(g.Members, int32(i))
		}
		return []report.Group{g}
	}
	for _, d := range desc {
		g := report.Group{Name: d.Name}
		if d.Name == "{anon_group}" {
			g.Name = ""
		}
		for i := d.Leader; i < d.Leader+d.Members && int(i) < len(f.Events()); i++ {
			g.Members = append(g.Members, int32(i))
		}
		gs = append(gs, g)
	}
	return gs
}
