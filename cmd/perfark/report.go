package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/report"
	"github.com/perfark/perfark/session"
	"github.com/perfark/perfark/symbol"
)

// A reportCmd is a run of perfark report.
type reportCmd struct {
	*app
	filterFlags
	symbolFlags
	config         reportConfig
	sort, fields   string
	separator      string
	widths         string
	graph          callGraph
	limit          percentLimit
	percentage     string
	parent         string
	ignoreCallees  string
	symbolPart     string
	sockets        string
	cgroups        string
	quantum        string
	color          string
	maxStack       int
	groupSort      int
	stdio          bool
	children       bool
	inverted       bool
	branches       bool
	memory         bool
	hierarchy      bool
	inline         bool
	excludeOther   bool
	hideUnresolved bool
	showSamples    bool
	showTotal      bool
	showCPU        bool
	header         bool
	headerOnly     bool
	info           bool
	stats          bool
	tasks, mmaps   bool
	group          bool
	skipEmpty      bool
	fullSource     bool
	ns             bool
	rawTrace       bool
	workers        int

	chains bool         // call chains are needed
	extra  []report.Key // of --fields +KEYS
	lines  bool         // source lines are needed

	given struct{ children, branches, group, skipEmpty *bool }
}

func newReportCmd(a *app) *cobra.Command {
	c := &reportCmd{app: a, graph: newCallGraph()}
	cmd := &cobra.Command{
		Use:   "report [FILE]",
		Short: "show where the samples of a recording are",
		Long: `Report counts the samples of a recording by thread name, object and symbol, with
their callers where they were recorded, as perf report --stdio does. FILE is a
recording, a bundle or -, and perf.data by default. Objects are found by their Build
IDs: in --symbols, in the bundle, in the buildid cache, in debug directories and on
this host. What could not be named, and why, is printed on standard error.

Flags are perf's: each has a --no- form, and may be cut short. Of perfconfig, the
sections report and call-graph count.

Exit status: 0 all samples are shown; 3 a part of the recording was lost.`,
		Example: `  perfark report --no-children --sort dso,sym
  perfark report -g caller,0.5,callee --max-stack 20
  perfark report --no-children -g folded -q
  perfark report -i profile.perfark -n --percent-limit 1
  perfark report -i perf.data --symbols perf.data.tar.bz2 -F overhead,period,comm
  perf record -o - -a sleep 1 | perfark report -i -`,
		Annotations: map[string]string{likePerf: "yes"},
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := a.inputName(args)
			if err != nil {
				return err
			}
			return c.run(cmd.Context(), cmd, name)
		},
	}
	a.addInputFlags(cmd)
	a.addArchiveLimitFlags(cmd)
	a.addSymbolFlags(cmd)
	a.addIndexFlags(cmd)
	a.addOutputFlags(cmd)
	fs := cmd.Flags()
	fs.StringVarP(&c.sort, "sort", "s", "", "tell apart and order by `KEYS` (default: comm,dso,symbol; -s help lists them)")
	fs.StringVarP(&c.fields, "fields", "F", "", "print the columns `KEYS`: those of --sort, overhead, overhead_children, sample, period …")
	fs.BoolVarP(&c.showSamples, "show-nr-samples", "n", false, "print a column of samples")
	fs.BoolVar(&c.showTotal, "show-total-period", false, "print a column of periods")
	fs.BoolVar(&c.showCPU, "show-cpu-utilization", false, "print columns of the shares of kernel and user space")
	fs.BoolVar(&c.showCPU, "showcpuutilization", false, "the same")
	fs.Lookup("showcpuutilization").Hidden = true
	fs.StringVarP(&c.separator, "field-separator", "t", "", "separate columns by `SEP` instead of padding them")
	fs.StringVarP(&c.widths, "column-widths", "w", "", "make columns `WIDTHS` wide, in their order")
	fs.BoolVar(&c.stdio, "stdio", false, "print text (there is nothing else)")
	fs.StringVar(&c.color, "stdio-color", "auto", "colour percentages `WHEN`: always, never or auto, which is on a terminal")
	c.given.children = addSwitch(fs, &c.children, "no-children", "", true, "count a sample where it was taken, not in its callers too")
	fs.VarP(&c.graph, "call-graph", "g", "print call graphs as `KIND,MIN,LIMIT,ORDER,KEY,VALUE` say, in any order (default: "+callGraphDefault+")")
	g := fs.Lookup("call-graph")
	g.NoOptDefVal = callGraphDefault
	g.Annotations = map[string][]string{optionalValue: {"yes"}}
	fs.VarP(callGraphOff{&c.graph}, "no-call-graph", "", "print no call graphs")
	fs.Lookup("no-call-graph").NoOptDefVal = "true"
	addSwitch(fs, &c.inverted, "inverted", "G", false, "call graphs by caller, as -g caller")
	fs.IntVar(&c.maxStack, "max-stack", 0, "look at most at `N` frames of a call chain (default: 127)")
	fs.StringVar(&c.ignoreCallees, "ignore-callees", "", "call chains begin at the functions that match `REGEXP`")
	fs.StringVarP(&c.parent, "parent", "p", "", "add the column parent, of callers that match `REGEXP`")
	addSwitch(fs, &c.excludeOther, "exclude-other", "x", false, "with --parent: leave out samples without such a caller")
	addSwitch(fs, &c.inline, "no-inline", "", true, "do not show functions that the compiler put into others")
	c.given.branches = addSwitch(fs, &c.branches, "branch-stack", "b", false, "count the branches in branch stacks, not samples")
	addSwitch(fs, &c.memory, "mem-mode", "", false, "show memory accesses")
	addSwitch(fs, &c.hierarchy, "hierarchy", "", false, "show a tree of the keys")
	c.given.group = addSwitch(fs, &c.group, "group", "", true, "show events side by side; --no-group: those of a group one by one")
	fs.IntVar(&c.groupSort, "group-sort-idx", 0, "order rows by event `N` of a group")
	fs.StringVar(&c.percentage, "percentage", "", "percent `OF` everything, absolute, or of what filters leave, relative")
	c.limit.g = &c.graph
	fs.Var(&c.limit, "percent-limit", "leave out rows, and branches of call graphs, below `PCT` percent")
	c.given.skipEmpty = addSwitch(fs, &c.skipEmpty, "no-skip-empty", "", true, "show events without samples too")
	fs.StringVarP(&c.comms, "comms", "c", "", "show only threads with one of the names `COMM,…`")
	fs.StringVarP(&c.dsos, "dsos", "d", "", "show only samples in the objects `DSO,…`")
	fs.StringVarP(&c.filterFlags.symbols, "symbols-only", "S", "", "show only samples in the functions `SYMBOL,…`, or at 0xADDR, or in the function that begins there")
	fs.StringVar(&c.symbolPart, "symbol-filter", "", "show only rows whose symbol has `TEXT` in it")
	addSwitch(fs, &c.hideUnresolved, "hide-unresolved", "U", false, "leave out samples and callers without a name")
	fs.StringVar(&c.sockets, "socket-filter", "", "show only samples of the processor socket `N`")
	fs.StringVar(&c.cgroups, "cgroup", "", "show only samples of the cgroups `PATH,…`, by perf's names (-s cgroup prints them)")
	c.addDropFilters(fs)
	fs.StringVar(&c.quantum, "time-quantum", "100ms", "round the times of the key time down to multiples of `TIME` (ms, us, ns, s)")
	c.addSymbolNameFlags(fs)
	addSwitch(fs, &c.rawTrace, "raw-trace", "", false, "show the fields of tracepoints as they are, not as the kernel prints them")
	addSwitch(fs, &c.fullSource, "full-source-path", "", false, "print the paths of source files, not their names alone")
	fs.BoolVar(&c.ns, "ns", false, "print times in nanoseconds")
	fs.BoolVar(&c.header, "header", false, "print the header of the recording first")
	fs.BoolVar(&c.headerOnly, "header-only", false, "print the header of the recording alone")
	fs.BoolVarP(&c.info, "show-info", "I", false, "print the long sections of the header too")
	fs.BoolVar(&c.stats, "stats", false, "count the records of the recording by type")
	fs.BoolVar(&c.tasks, "tasks", false, "print the tree of the threads")
	fs.BoolVar(&c.mmaps, "mmaps", false, "print the tree of the threads, and what they mapped")
	addJobsFlag(cmd, &c.workers)
	addForeignFlags(fs, reportForeign)
	completeFlags(cmd, map[string]func() []string{
		"sort": sortKeys, "fields": sortKeys, "call-graph": callGraphWords,
		"percentage": oneOf("absolute", "relative"), "stdio-color": oneOf("always", "never", "auto"),
	})
	return cmd
}

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
	if o.Sort, err = report.ParseKeys(sort, field); err != nil {
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
		slices.ContainsFunc(slices.Concat(o.Sort, o.Fields), func(k report.Key) bool { return slices.Contains(lineKeys, k) })
}

// dumps reports whether samples carry dumps of the stack, to be unwound.
func dumps(events []perfdata.Event) bool {
	return slices.ContainsFunc(events, func(e perfdata.Event) bool { return e.Attr.SampleType&perfdata.SampleStackUser != 0 })
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
	if c.memory && !in.Header().Pipe && have&perfdata.SampleDataSrc == 0 &&
		!slices.ContainsFunc(in.Events(), func(e perfdata.Event) bool { return strings.Contains(e.Name, "arm_spe_") }) {
		return &multiError{"Selected --mem-mode but no mem data. Did you call perf record without -d?"}
	}
	o.Memory, o.SortOrder = c.memory, c.sort
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
	if (special || sort[0] == report.Trace) && o.Sort == nil && o.Fields == nil {
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
	o.Children = c.children && chains && !special && !c.hierarchy
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
		if c.inverted || (o.Children || c.hierarchy && c.children) && !g.ordered { // as perf, which sets the order before it turns children off
			o.Graph.Order = report.ByCaller
		}
	}
	c.chains = c.chains || o.Children || o.Graph.Mode != report.GraphNone
	return nil
}

// A multiError is an error of several lines.
type multiError []string

func (e *multiError) Error() string { return strings.Join(*e, "\n") }

func (c *reportCmd) run(ctx context.Context, cmd *cobra.Command, name string) error {
	for _, list := range []string{c.sort, c.fields} {
		if list == "help" {
			for _, k := range sortKeys() {
				fmt.Fprintln(c.stdout, k)
			}
			return nil
		}
	}
	if err := checkForeignFlags(cmd.Flags(), reportForeign); err != nil {
		return err
	}
	if err := c.readConfig(cmd); err != nil {
		return err
	}
	// The tables have few pointers: to collect garbage often costs little, and
	// halves what large recordings need.
	defer collectLate(25)()
	o, err := c.options(cmd)
	if err != nil {
		return err
	}
	quantum, err := c.parseQuantum()
	if err != nil {
		return err
	}
	if err := c.symbolFlags.check(); err != nil {
		return err
	}
	in, err := c.openInput(ctx, name)
	if err != nil {
		return err
	}
	defer in.Close()
	switch {
	case c.headerOnly:
		c.startPager()
		return writeHeader(c.stdout, in.File, headerOptions{all: c.info})
	case c.stats:
		return c.printStats(ctx, in)
	case c.tasks || c.mmaps:
		return c.printTasks(in)
	}
	trace := traceReader{c: c, in: in}
	if err := c.parseKeys(&o, cmd.Flags().Changed("sort"), trace.keys); err != nil {
		return err
	}
	for i := range trace.fields {
		o.TraceFields = append(o.TraceFields, trace.fields[i].TraceField)
	}
	if o.Filter.Cgroups != nil {
		if err := haveCgroups(in.File); err != nil {
			return err
		}
	}
	if err := c.mode(in, &o); err != nil {
		return err
	}
	c.addFields(&o)
	so := session.Options{Workers: c.workers, Keep: keep(o), TimeQuantum: quantum, Branches: c.branches, MaxUnwound: cmp.Or(c.maxStack, defaultMaxStack)}
	if so.Keep&session.KeepText != 0 {
		trace.load()
		trace.whole = slices.Contains(slices.Concat(o.Sort, o.Fields), report.Trace)
		so.Text = trace.text
	}
	if so.Filter, err = c.dropFilter(ctx, in.File); err != nil {
		return err
	}
	if c.chains {
		so.Keep |= session.KeepFrames
	}
	res, err := c.load(ctx, in, so)
	if err != nil {
		return err
	}
	src, err := c.openSources(ctx, in.File, res, in.uid)
	if err != nil {
		return err
	}
	defer src.Close()
	c.lines = needsLines(&o)
	out, err := c.resolve(ctx, res.Profile, symbol.Options{
		Source: c.source(in.sources(src), res.Profile), Workers: c.workers,
		Lines: c.lines, Inlines: !o.NoInline && c.chains, BPFLine: in.bpfLine(),
	})
	if err != nil {
		return err
	}
	c.rename(res.Profile)
	o.Restricted = res.KernelRestricted
	o.Groups = c.groups(in.File)
	o.Sockets = sockets(in.File)
	r := report.New(res.Profile, o)
	if c.chains {
		if same, depth, ok := r.Rows(); ok {
			err = res.Callers(ctx, same, so.Keep, depth)
		} else {
			err = res.Stacks(ctx, report.Same(res.Profile, o), so.Keep)
		}
		if err != nil {
			return err
		}
	}
	tables := r.Tables()
	if err := c.print(in, res, out, tables); err != nil {
		return err
	}
	c.stdout.Flush()
	c.explain(in, res, out)
	if len(src.elsewhere) > 0 && absent(out) {
		c.notef("%s, which %s cannot read, may hold what is missing", strings.Join(src.elsewhere, " or "), caller())
	}
	loss := c.lossError(in, res)
	c.summary(in, res, out)
	return loss
}

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

// explain says on standard error what could not be named and why, by object,
// most samples first, and what the kernel lost.
func (c *reportCmd) explain(in *input, res *session.Result, out *symbol.Outcome) {
	missing := out.Missing()
	const most = 5
	for i := range missing {
		if i == most && c.verbose == 0 {
			c.notef("and %s more (-v lists them)", count(len(missing)-most, "object"))
			break
		}
		c.notef("unnamed: %s", unnamedText(res.Profile, &missing[i]))
		if missing[i].Hint != "" && c.verbose > 0 {
			c.hintf("%s", missing[i].Hint)
		}
	}
	c.explainLines(res.Profile, out, c.lines)
	for i := range out.Objects {
		x := &out.Objects[i]
		if x.Unverified && x.FramesNamed > 0 {
			c.notef("unverified: %s: no build id in the recording ties it to %s", objectText(res.Profile, x.Object), strings.Join(x.Origins, ", "))
		}
		if c.verbose > 0 && len(x.Origins) > 0 {
			c.verbosef("%s: names from %s", objectText(res.Profile, x.Object), strings.Join(x.Origins, ", "))
		}
		if c.verbose > 0 {
			for _, w := range x.Warnings {
				c.verbosef("%s: %s", objectText(res.Profile, x.Object), w)
			}
		}
	}
	if res.KernelRestricted {
		c.notef("the recording does not say where the kernel is: sysctl kernel.kptr_restrict or kernel.perf_event_paranoid hid it from the one who recorded")
	}
	l := &res.Profile.Lost
	if l.Events > 0 {
		c.notef("the kernel lost %d records while recording: the processors or the disk were too busy", l.Events)
	}
	for _, x := range []struct {
		n    uint64
		what string
	}{
		{l.Samples, "samples were lost while recording"},
		{l.UnknownID, "samples belong to no event of the header"},
		{l.BadChains, "call chains have an unknown context marker"},
		{l.Unordered, "records came too late to be put in order"},
		{l.NoThread, "samples belong to no thread"},
	} {
		if x.n > 0 {
			c.notef("%d %s", x.n, x.what)
		}
	}
}

// absent reports whether there are objects without names for want of a file
// that may be in a cache.
func absent(out *symbol.Outcome) bool {
	return slices.ContainsFunc(out.Missing(), func(x symbol.ObjectOutcome) bool {
		switch x.Reason {
		case symbol.NotFound, symbol.Mismatch, symbol.Replaced, symbol.Deleted, symbol.NotPermitted,
			symbol.Restricted, symbol.NoKallsyms, symbol.NoModule, symbol.NoVDSO, symbol.NoRuntime:
			return true
		}
		return false
	})
}

// unnamedText is a line about an object some of whose frames have no name.
func unnamedText(p *profile.Profile, x *symbol.ObjectOutcome) string {
	s := fmt.Sprintf("%s: %s of %s, %s: %s", objectText(p, x.Object), thousands(uint64(x.Frames-x.FramesNamed)), count(x.Frames, "location"),
		count(int(x.SamplesUnnamed), "sample"), x.Reason)
	if x.Detail != "" {
		s += ": " + x.Detail
	}
	return s
}

// objectText names an object for a message.
func objectText(p *profile.Profile, i int32) string {
	if i < 0 {
		return report.UnknownDSO
	}
	o := &p.Objects[i]
	name := cmp.Or(o.Path, o.Short, report.Unnamed)
	if o.BuildID != "" {
		name += " (" + o.BuildID.String() + ")"
	}
	return name
}

// load loads a recording, with progress.
func (a *app) load(ctx context.Context, in *input, o session.Options) (*session.Result, error) {
	size := in.Size()
	if in.Header().Has(perfdata.FeatureCompressed) {
		size = 0 // of what is in it nothing is known
	}
	m := a.meter("reading "+in.Name(), size)
	o.Progress = m.Add
	done := a.lazyFiles(ctx, in, &o)
	res, err := session.Load(ctx, in.File, o)
	done()
	a.meters.stop()
	if err == nil {
		a.untimedCode(res)
	}
	return res, err
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

// print prints the tables.
func (c *reportCmd) print(in *input, res *session.Result, out *symbol.Outcome, tables []*report.Table) error {
	if c.json {
		return report.WriteJSON(c.stdout, tables, report.JSONOptions{File: in.Name(), Lost: res.Profile.Lost.Samples, PercentLimit: c.limit.v})
	}
	page := report.PageOptions{
		Separator: c.separator, Quiet: c.quiet, PercentLimit: c.limit.v, Lost: res.Profile.Lost.Samples,
		Slices: c.times, Verbose: c.verbose > 0, Color: c.colors(),
	}
	page.Widths, _ = parseWidths(c.widths) // which options has checked
	page.Origin = func(object int32) byte {
		if object < 0 {
			return '!'
		}
		return originLetter(&res.Profile.Objects[object], &out.Objects[object])
	}
	if c.header {
		var b strings.Builder
		if err := writeHeader(&b, in.File, headerOptions{all: c.info}); err != nil {
			return err
		}
		page.Header = b.String()
	}
	if len(tables) == 0 {
		c.notef("%s: the recording has no samples", in.Name())
	}
	c.startPager()
	return report.WritePage(c.stdout, tables, page)
}

// colors reports whether the page is coloured.
func (c *reportCmd) colors() bool {
	switch c.color {
	case "always":
		return true
	case "never":
		return false
	}
	f, ok := c.out.w.(*os.File)
	return ok && isTerminal(f) && !c.env.noColor && c.env.term != "dumb"
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

// originLetter says where the names of an object are from, as perf report -v
// does (dso__symtab_origin in tools/perf/util/dso.c).
func originLetter(o *profile.Object, x *symbol.ObjectOutcome) byte {
	if len(x.Origins) == 0 {
		return '!'
	}
	from := x.Origins[len(x.Origins)-1] // the debug file, if there is one
	switch {
	case o.Kind == profile.KindPerfMap:
		return 'j'
	case x.Kallsyms:
		return 'k'
	case strings.HasPrefix(from, "/usr/lib/debug/.build-id/"):
		return 'b'
	case strings.HasPrefix(from, "/usr/lib/debug/") && strings.HasSuffix(from, ".debug"):
		return 'f'
	case strings.HasPrefix(from, "/usr/lib/debug/"):
		return 'u'
	case o.Kind == profile.KindKernel:
		return 'v'
	case from == o.Path && o.Kind == profile.KindModule:
		return 'K'
	case from == o.Path:
		return 'd'
	case strings.HasSuffix(from, "/debug"):
		return 'D'
	}
	return 'B' // by its Build ID
}

// printStats prints how many records of each type there are, as perf report
// --stats does.
func (c *reportCmd) printStats(ctx context.Context, in *input) error {
	res, err := c.load(ctx, in, session.Options{Workers: c.workers, HitsOnly: true})
	if err != nil {
		return err
	}
	st := &res.Stats
	lost := make([]uint64, len(st.Samples))
	if st.Types[perfdata.RecordLostSamples] > 0 {
		if lost, err = lostSamples(ctx, in); err != nil {
			return err
		}
	}
	if c.json {
		types := make(map[string]uint64)
		for t, n := range st.Types {
			if n > 0 {
				types[perfdata.Type(t).String()] = n
			}
		}
		type event struct {
			Event   string `json:"event"`
			Samples uint64 `json:"samples"`
			Lost    uint64 `json:"lost_samples"`
		}
		events := []event{}
		for i, n := range st.Samples {
			events = append(events, event{in.Events()[i].Name, n, lost[i]})
		}
		if err := c.printJSON(map[string]any{"total": st.Total, "types": types, "other": st.Other, "bad": st.Bad, "events": events}); err != nil {
			return err
		}
		return c.lossError(in, res)
	}
	w := c.stdout
	fmt.Fprintf(w, "\nAggregated stats:\n%16s events: %10d\n", "TOTAL", st.Total)
	line := func(name string, n uint64) {
		if n > 0 || !c.skipEmpty {
			fmt.Fprintf(w, "%16s events: %10d  (%4.1f%%)\n", name, n, 100*float64(n)/float64(max(st.Total, 1)))
		}
	}
	for t, n := range st.Types {
		if t > 0 && (n > 0 || perfdata.Type(t).Known()) {
			line(perfdata.Type(t).String(), n)
		}
	}
	line("UNKNOWN", st.Other)
	for i, n := range st.Samples {
		if n > 0 || !c.skipEmpty {
			fmt.Fprintf(w, "%s stats:\n%16s events: %10d\n", escape.Name(in.Events()[i].Name), "SAMPLE", n)
			if lost[i] > 0 {
				fmt.Fprintf(w, "%16s events: %10d\n", "LOST_SAMPLES", lost[i])
			}
		}
	}
	return c.lossError(in, res)
}

// lostSamples counts the samples that the kernel lost of each event.
func lostSamples(ctx context.Context, in *input) ([]uint64, error) {
	of := make(map[uint64]int)
	for i, e := range in.Events() {
		for _, id := range e.IDs {
			of[id] = i
		}
	}
	lost := make([]uint64, len(in.Events()))
	d := perfdata.NewDecoder(in.File)
	batches := in.Batches(ctx)
	defer batches.Close()
	for {
		b, err := batches.Next()
		if errors.Is(err, io.EOF) {
			return lost, nil
		}
		if err != nil {
			return nil, err
		}
		for i := 0; i+8 <= len(b.Data); {
			typ, _, size := perfdata.RecordHeader(b.Data[i:], in.Header().Big)
			if size < 8 || size > len(b.Data)-i {
				break
			}
			if typ == perfdata.RecordLostSamples {
				if r, err := d.Decode(b.Data[i:i+size], b.At(i)); err == nil {
					if l, ok := r.(*perfdata.Lost); ok && of[l.ID] < len(lost) {
						lost[of[l.ID]] += l.Count // without an id: the first
					}
				}
			}
			i += size
		}
		b.Release()
	}
}

// lossError says on standard error what of a recording was lost, by place, and
// returns an error of status 3 if something was. res is nil if no profile was
// made.
func (a *app) lossError(in *input, res *session.Result) error {
	damage := in.Damage()
	const most = 20
	for i, d := range damage {
		if i == most && a.verbose == 0 {
			a.notef("%s: and %d more places (-v lists them)", in.Name(), len(damage)-most)
			break
		}
		a.notef("%s: %s", d.Name, d)
	}
	for _, w := range in.Warnings() {
		a.notef("%s: %s", in.Name(), w)
	}
	unknown := in.Unknown()
	for _, t := range slices.Sorted(maps.Keys(unknown)) {
		a.notef("%s: %s of type %d skipped: newer than perfark knows, or damaged", in.Name(), count(int(unknown[t]), "record"), uint32(t))
	}
	if len(damage) > 0 || res != nil && res.Partial() {
		return partialf("%s: the recording is damaged: what could be read of it is shown", in.Name())
	}
	return nil
}
