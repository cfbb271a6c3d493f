package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

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
	code           annotateCmd // what the browser shows of code
	stdio, tui     bool
	plain          bool
	children       bool
	inverted       bool
	branches       bool
	memory         bool
	totalCycles    bool
	branchHistory  bool
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
	threads        bool
	group          bool
	skipEmpty      bool
	fullSource     bool
	ns             bool
	rawTrace       bool
	workers        int

	timeQuantum uint64 // ns

	stacks bool         // whole stacks are needed, not counts alone
	chains bool         // call chains are needed
	extra  []report.Key // of --fields +KEYS
	lines  bool         // source lines are needed

	given struct{ children, branches, group, skipEmpty *bool }
}

func newReportCmd(a *app) *cobra.Command {
	_, cmd := reportCommand(a)
	return cmd
}

// reportCommand returns a report with its command, which has the flags.
func reportCommand(a *app) (*reportCmd, *cobra.Command) {
	c := &reportCmd{app: a, graph: newCallGraph()}
	cmd := &cobra.Command{
		Use:   "report [FILE]",
		Short: "show where the samples of a recording are",
		Long: `Report counts the samples of a recording by thread name, object and symbol, with
their callers where they were recorded, as perf report --stdio does. FILE is a
recording, a bundle or -, and perf.data by default. Objects are found by their Build
IDs: in --symbols, in the bundle, in the buildid cache, in debug directories and on
this host. What could not be named, and why, is printed on standard error.

On a terminal the report can be browsed: h lists the keys. --stdio prints it.

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
	addBrowserFlags(fs, &c.stdio, &c.tui, &c.plain)
	c.code.color = "never"
	c.code.addCodeFlags(fs)
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
	c.addBlockFlags(fs)
	c.addHistoryFlags(fs)
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
	fs.BoolVarP(&c.threads, "threads", "T", false, "print what threads counted, behind the page (of perf record -s)")
	addJobsFlag(cmd, &c.workers)
	addForeignFlags(fs, reportForeign)
	completeFlags(cmd, map[string]func() []string{
		"sort": sortKeys, "fields": sortKeys, "call-graph": callGraphWords,
		"percentage": oneOf("absolute", "relative"), "stdio-color": oneOf("always", "never", "auto"),
	})
	return c, cmd
}

func (c *reportCmd) run(ctx context.Context, cmd *cobra.Command, name string) error {
	if c.sort == "help" || c.fields == "help" {
		fmt.Fprintln(c.stdout, strings.Join(sortKeys(), "\n"))
		return nil
	}
	if err := checkForeignFlags(cmd.Flags(), reportForeign); err != nil {
		return err
	}
	if err := c.readConfig(cmd); err != nil {
		return err
	}
	if on, err := c.browses(); err != nil {
		return err
	} else if on {
		return c.browse(ctx, cmd, name)
	}
	// The tables have few pointers: to collect garbage often costs little, and
	// halves what large recordings need.
	defer collectLate(25)()
	o, err := c.options(cmd)
	if err != nil {
		return err
	}
	in, err := c.openInput(ctx, name)
	if err != nil {
		return err
	}
	defer in.Close()
	switch {
	case c.headerOnly:
		return c.runHeader(in, headerOptions{all: c.info})
	case c.stats:
		return c.printStats(ctx, in)
	case c.tasks || c.mmaps:
		return c.printTasks(in)
	}
	so, err := c.bind(ctx, in, &o, cmd.Flags().Changed("sort"))
	if err != nil {
		return err
	}
	return c.report(ctx, in, o, so)
}

// A reported is a recording with its report.
type reported struct {
	in     *input
	res    *session.Result
	src    *sources
	out    *symbol.Outcome
	flat   profile.Profile // with all addresses of samples, and no stacks
	o      report.Options
	tables []*report.Table
	blocks *report.BlockTable // with --total-cycles
}

// report loads a recording, names its addresses, and prints its tables.
func (c *reportCmd) report(ctx context.Context, in *input, o report.Options, so session.Options) error {
	r, err := c.make(ctx, in, o, so)
	if err != nil {
		return err
	}
	defer r.src.Close()
	if err := c.print(r); err != nil {
		return err
	}
	if c.threads && !c.json {
		if err := c.printThreads(ctx, in); err != nil {
			return err
		}
	}
	c.stdout.Flush()
	return c.conclude(r)
}

// make loads a recording, names its addresses, and makes its tables. Whoever
// is done with them closes the sources.
func (c *reportCmd) make(ctx context.Context, in *input, o report.Options, so session.Options) (_ *reported, err error) {
	x := &reported{in: in, o: o}
	if x.res, err = c.load(ctx, in, so); err != nil {
		return nil, err
	}
	res := x.res
	if x.src, err = c.openSources(ctx, in.File, res, in.uid); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			x.src.Close()
		}
	}()
	c.lines = needsLines(&o)
	c.stage("finding names")
	names := symbol.Options{
		Source: c.source(in.sources(x.src), res.Profile), Workers: c.workers,
		Lines: c.lines, Inlines: !o.NoInline && c.chains, Exact: c.branchHistory, BPFLine: in.bpfLine(),
	}
	x.out, err = c.resolve(ctx, res.Profile, names)
	if err != nil {
		return nil, err
	}
	c.rename(res.Profile)
	if c.stacks {
		x.flat = *res.Profile
	}
	o.Restricted = res.KernelRestricted
	o.Groups = c.groups(in.File)
	o.Sockets = sockets(in.File)
	if hasKey(&o, report.IPC) {
		timings := c.functionTimings(ctx, in, res.Profile, names)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		o.Timing = func(f report.Function) (ipc, coverage float64) {
			if t := timings[f]; t != nil {
				return t.IPC, t.Coverage
			}
			return 0, 0
		}
	}
	r := report.New(res.Profile, o)
	if c.chains {
		c.stage("adding up the call chains")
		if same, depth, ok := r.Rows(); ok && !c.stacks {
			err = res.Callers(ctx, same, so.Keep, depth)
		} else {
			err = res.Stacks(ctx, report.Same(res.Profile, o), so.Keep)
		}
		if err != nil {
			return nil, err
		}
	}
	c.stage("making the table")
	x.tables = r.Tables()
	if c.totalCycles {
		if x.blocks, err = c.blockTable(ctx, in, res.Profile, names); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// conclude says on standard error what a report lacks.
func (c *reportCmd) conclude(r *reported) error {
	c.explain(r.in, r.res, r.out)
	if len(r.src.elsewhere) > 0 && absent(r.out) {
		c.notef("%s, which %s cannot read, may hold what is missing", strings.Join(r.src.elsewhere, " or "), caller())
	}
	loss := c.lossError(r.in, r.res)
	c.summary(r.in, r.res, r.out)
	return loss
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

// print prints the tables.
func (c *reportCmd) print(r *reported) error {
	if c.json {
		return report.WriteJSON(c.stdout, r.tables, report.JSONOptions{File: r.in.Name(), Lost: r.res.Profile.Lost.Samples, PercentLimit: c.limit.v, Blocks: r.blocks})
	}
	page := c.page(r)
	page.Color = c.colors()
	if c.header {
		var b strings.Builder
		if err := writeHeader(&b, r.in.File, headerOptions{all: c.info}); err != nil {
			return err
		}
		page.Header = b.String()
	}
	if len(r.tables) == 0 {
		c.notef("%s: the recording has no samples", r.in.Name())
	}
	c.startPager()
	return report.WritePage(c.stdout, r.tables, page)
}

// page is how tables are printed.
func (c *reportCmd) page(r *reported) report.PageOptions {
	page := report.PageOptions{
		Separator: c.separator, Quiet: c.quiet, PercentLimit: c.limit.v, Lost: r.res.Profile.Lost.Samples,
		Slices: c.times, Verbose: c.verbose > 0, Blocks: r.blocks,
	}
	page.Widths, _ = parseWidths(c.widths) // which options has checked
	page.Origin = func(object int32) byte {
		if object < 0 {
			return '!'
		}
		return originLetter(&r.res.Profile.Objects[object], &r.out.Objects[object])
	}
	return page
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
