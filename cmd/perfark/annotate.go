package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/perfark/perfark/annotate"
	"github.com/perfark/perfark/disasm"
	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/session"
	"github.com/perfark/perfark/symbol"
)

// An annotateCmd is a run of perfark annotate.
type annotateCmd struct {
	*app
	filterFlags
	symbolFlags
	sourceFlags
	symbol      string
	percentType string
	style       string
	objdump     string
	color       string
	stdio, tui  bool
	plain       bool
	stdio2      bool
	json        bool
	fullPaths   bool
	lines       bool
	inline      bool
	raw         bool
	sources     bool
	samples     bool
	period      bool
	group       bool
	skipMissing bool
	limit       float64
	workers     int
	finder      *sourceFinder // nil: no source is shown
	given       struct{ group *bool }
}

var annotateForeign = []foreignFlag{
	{"dump-raw-trace", "D", noValue, noDump},
	{"gtk", "", noValue, noBrowser},
	{"itrace", "", maybeValue, noHardware},
}

func newAnnotateCmd(a *app) *cobra.Command {
	c := &annotateCmd{app: a}
	cmd := &cobra.Command{
		Use:   "annotate [SYMBOL]",
		Short: "show where in the code of functions the samples are",
		Long: `Annotate prints the instructions of each function with samples, the one with most of
them first, with the share of each instruction and the source lines in between, as
perf annotate --stdio does. It needs no other program: perfark reads the code itself.
Objects are found as report finds them, and count only with the recorded Build ID;
the text of source files only if they are those that were compiled.
On a terminal it can be browsed, from the hottest function on: h lists the keys.
--stdio prints it.

Exit status: 0 every function that was asked for is shown; 3 some could not be, or a
part of the recording was lost; 1 none could be.`,
		Example: `  perfark annotate main
  perfark annotate -i profile.perfark --symbol=hot_leaf -l
  perfark annotate -M intel --no-source --asm-raw -d libc.so.6
  perfark annotate -i profile.perfark --prefix-map /build/app=$PWD`,
		Annotations: map[string]string{likePerf: "yes"},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("%d symbols; want one", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkForeignFlags(cmd.Flags(), annotateForeign); err != nil {
				return err
			}
			if len(args) == 1 {
				c.symbol = args[0]
			}
			return c.run(cmd.Context())
		},
	}
	a.addInputFlags(cmd)
	a.addArchiveLimitFlags(cmd)
	a.addSymbolFlags(cmd)
	a.addIndexFlags(cmd)
	fs := cmd.Flags()
	fs.BoolVarP(&a.quiet, "quiet", "q", false, "no progress, fewer messages")
	fs.CountVarP(&a.verbose, "verbose", "v", "print more messages; may be repeated")
	fs.StringVarP(&c.symbol, "symbol", "s", "", "show only the function `SYMBOL`, by any of its names")
	fs.StringVarP(&c.dsos, "dsos", "d", "", "show only functions of the objects `DSO,…`")
	fs.Float64Var(&c.limit, "percent-limit", 0, "leave out functions below `PCT` percent")
	addBrowserFlags(fs, &c.stdio, &c.tui, &c.plain)
	c.addCodeFlags(fs)
	fs.BoolVar(&c.stdio2, "stdio2", false, "print text with arrows at jumps, and names in place of addresses")
	fs.BoolVar(&c.json, "json", false, "print JSON (docs/annotate.md has its form)")
	fs.StringVar(&c.color, "stdio-color", "auto", "colour percentages `WHEN`: always, never or auto, which is on a terminal")
	fs.BoolVarP(&c.fullPaths, "full-paths", "P", false, "print the paths of objects and sources, not their names alone")
	addSwitch(fs, &c.lines, "print-line", "l", false, "print a table of the source lines first, and lines behind instructions")
	addSwitch(fs, &c.inline, "no-inline", "", true, "do not say where inlined code is called")
	addSwitch(fs, &c.raw, "asm-raw", "", false, "print the bytes of instructions")
	addSwitch(fs, &c.samples, "show-nr-samples", "n", false, "print numbers of samples, not percentages")
	addSwitch(fs, &c.period, "show-total-period", "", false, "print periods, not percentages")
	addSwitch(fs, &c.skipMissing, "skip-missing", "", false, "say nothing of functions whose code is missing")
	c.given.group = addSwitch(fs, &c.group, "group", "", true, "show all events side by side, not those of a group alone; --no-group: each by itself")
	c.addDropFilters(fs)
	c.addSymbolNameFlags(fs)
	addJobsFlag(cmd, &c.workers)
	addForeignFlags(fs, annotateForeign)
	completeFlags(cmd, map[string]func() []string{
		"percent-type":       oneOf("local-period", "local-hits", "global-period", "global-hits"),
		"disassembler-style": oneOf("att", "intel"), "stdio-color": oneOf("always", "never", "auto"),
	})
	return cmd
}

// addCodeFlags binds what report has of annotate, for its browser.
func (c *annotateCmd) addCodeFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.percentType, "percent-type", "local-period", "percentages of instructions are of `WHAT`: local-period, local-hits, global-period or global-hits")
	fs.StringVarP(&c.style, "disassembler-style", "M", "att", "write instructions of x86 in the `STYLE` att or intel")
	fs.StringVar(&c.objdump, "objdump", "", "have the GNU objdump `PATH` read the code, if it knows the machine")
	addSwitch(fs, &c.sources, "no-source", "", true, "leave out source lines")
	c.addSourceFlags(fs)
}

func (c *annotateCmd) run(ctx context.Context) error {
	if err := c.symbolFlags.check(); err != nil {
		return err
	}
	page, err := c.page()
	if err != nil {
		return err
	}
	name, err := c.inputName(nil)
	if err != nil {
		return err
	}
	if on, err := c.browses(); err != nil {
		return err
	} else if on {
		return c.browse(ctx, name)
	}
	in, err := c.openInput(ctx, name)
	if err != nil {
		return err
	}
	defer in.Close()
	so := session.Options{Workers: c.workers, MaxRecall: -1}
	for _, e := range in.Events() {
		so.Runs = so.Runs || e.Attr.SampleType&perfdata.SampleBranchStack != 0
	}
	so.Stretches = so.Runs
	if so.Filter, err = c.dropFilter(ctx, in.File); err != nil {
		return err
	}
	if so.Filter.PIDs, err = parseIDs("--pid", c.pids); err != nil {
		return err
	}
	if so.Filter.TIDs, err = parseIDs("--tid", c.tids); err != nil {
		return err
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
	p := res.Profile
	options := symbol.Options{
		Source: c.symbolFlags.source(in.sources(src), p), Workers: c.workers, BPFLine: in.bpfLine(), BPFCode: in.bpfCode(),
	}
	out, err := c.resolve(ctx, p, options)
	if err != nil {
		return err
	}
	options.Index, options.Limits = c.indexes(), c.limits
	r := &annotation{
		annotateCmd: c, in: in, p: p, out: out, page: page,
		options: annotate.Options{Symbol: options, Disasm: disasm.Options{Intel: c.style == "intel"}, Objdump: c.objdump},
		codes:   map[int32]*openCode{},
	}
	defer r.close()
	if r.page.Source, err = c.sourceFiles(ctx, in); err != nil {
		return err
	}
	if c.finder != nil {
		r.options.Symbol.SourceSum = c.finder.sum
	}
	if err := r.print(ctx); err != nil {
		return err
	}
	return c.lossError(in, res)
}

// page checks the flags that say how listings are printed.
func (c *annotateCmd) page() (annotate.PageOptions, error) {
	o := annotate.PageOptions{FullPath: c.fullPaths, Raw: c.raw, Lines: c.lines, Inlined: c.inline}
	var err error
	switch {
	case c.style != "att" && c.style != "intel":
		return o, usagef("-M %q: want att or intel", c.style)
	case c.color != "always" && c.color != "never" && c.color != "auto":
		return o, usagef("--stdio-color %q: want always, never or auto", c.color)
	case c.samples:
		o.Value = annotate.Samples
	case c.period:
		o.Value = annotate.Period
	}
	if o.Type, err = annotate.ParsePercentType(c.percentType); err != nil {
		return o, usagef("--percent-type: %s", err)
	}
	if c.objdump != "" {
		if c.objdump, err = exec.LookPath(c.objdump); err != nil {
			return o, hintf(fmt.Errorf("--objdump: %w", err), "without it perfark reads the code itself")
		}
	}
	o.Color = (&reportCmd{app: c.app, color: c.color}).colors()
	return o, nil
}

// An annotation is the listings of one recording.
type annotation struct {
	*annotateCmd
	in      *input
	p       *profile.Profile
	out     *symbol.Outcome
	page    annotate.PageOptions
	options annotate.Options
	codes   map[int32]*openCode
	doc     annotate.Document

	cycles *annotate.Cycles // of branch stacks, if timed
	timed  bool

	shown, failed int
	lacking       map[*annotate.Function]bool
	said          map[string]bool // notes and hints
}

// An openCode is the code of an object, or why there is none.
type openCode struct {
	*annotate.Code
	runs *annotate.Runs
	err  error
}

func (r *annotation) close() {
	for _, c := range r.codes {
		if c.Code != nil {
			c.Close()
		}
	}
}

// A column is what is shown on one page: an event, or several.
type column struct {
	title  string
	events []int32
}

// columns are the pages of each function: one for each event, unless events
// are shown side by side.
func (r *annotation) columns() []column {
	var out []column
	grouped := map[int32]bool{}
	if r.group {
		c := reportCmd{group: true}
		c.given.group = r.given.group
		for _, g := range c.groups(r.in.File) {
			var names []string
			for _, e := range g.Members {
				names = append(names, r.p.Events[e].Name)
				grouped[e] = true
			}
			title := strings.Join(names, ", ")
			if !g.Forced {
				title = cmp.Or(g.Name, "anon group") + " { " + title + " }"
			}
			out = append(out, column{title, g.Members})
		}
	}
	for i := range r.p.Events {
		if e := int32(i); !grouped[e] {
			out = append(out, column{r.p.Events[i].Name, []int32{e}})
		}
	}
	slices.SortStableFunc(out, func(a, b column) int { return cmp.Compare(a.events[0], b.events[0]) })
	return out
}

// print prints all that was asked for.
func (r *annotation) print(ctx context.Context) error {
	list := r.wanted(ctx)
	r.said, r.lacking = map[string]bool{}, map[*annotate.Function]bool{}
	r.doc.File = r.in.Name()
	for _, e := range r.p.Events {
		r.doc.Events = append(r.doc.Events, annotate.DocEvent{Name: e.Name, Count: annotate.Count{Samples: e.Samples, Period: e.Period}})
	}
	columns := r.columns()
	if r.json {
		all := column{}
		for i := range r.p.Events {
			all.events = append(all.events, int32(i))
		}
		columns = []column{all}
	}
	for _, col := range columns {
		if err := r.printColumn(ctx, col, list); err != nil {
			return err
		}
	}
	if r.json {
		if err := annotate.WriteJSON(r.stdout, &r.doc); err != nil {
			return err
		}
	}
	if err := r.stdout.Flush(); err != nil {
		return err
	}
	if len(list) == 0 || r.symbol == "" && !r.skipMissing {
		r.unnamed()
	}
	switch {
	case r.shown == 0 && r.failed == 0 && len(list) > 0:
		return fmt.Errorf("%s: no function has %g percent", r.in.Name(), r.limit)
	case r.shown == 0 && r.failed == 0 && r.symbol != "":
		return fmt.Errorf("%s: no samples in a function %q", r.in.Name(), r.symbol)
	case r.shown == 0 && r.failed == 0 && r.dsos != "":
		return fmt.Errorf("%s: no samples in a function of %q", r.in.Name(), r.dsos)
	case r.shown == 0 && r.failed == 0:
		return fmt.Errorf("%s: no samples in a function with a name", r.in.Name())
	case r.shown == 0 && !r.skipMissing:
		return fmt.Errorf("%s: no function could be shown", r.in.Name())
	case r.failed > 0 && !r.skipMissing:
		return partialf("%s: %d of %d functions are not shown", r.in.Name(), r.failed, r.shown+r.failed)
	}
	return nil
}

func (r *annotation) printColumn(ctx context.Context, col column, list []*annotate.Function) error {
	var take []*annotate.Function
	for _, fn := range list {
		if slices.ContainsFunc(col.events, func(e int32) bool { return fn.Total[e].Samples > 0 && r.share(fn, e) >= r.limit }) {
			take = append(take, fn)
		}
	}
	annotate.Sort(r.p, take, col.events)
	byObject := map[int32][]*annotate.Function{}
	for _, fn := range take {
		byObject[fn.Object] = append(byObject[fn.Object], fn)
	}
	page := r.page
	if r.stdio2 || r.json {
		if !r.timed {
			r.timed, r.cycles = true, annotate.NewCycles(r.p)
		}
		page.Cycles = r.cycles
	}
	page.Events, page.Columns, page.Title = r.p.Events, col.events, col.title
	header := r.header(col, list)
	for _, fn := range take {
		code := r.open(ctx, fn.Object, byObject[fn.Object], list)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var l *annotate.Listing
		err := code.err
		if err == nil {
			l, err = code.List(ctx, fn)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			r.missing(fn, err)
			continue
		}
		for _, n := range l.Notices {
			r.sayOnce("%s", n)
		}
		page.Object, page.Runs, page.Machine = &r.p.Objects[fn.Object], code.runs, code.Machine()
		if r.shown++; r.shown == 1 {
			r.startPager()
		}
		switch {
		case r.json:
			r.doc.Functions = append(r.doc.Functions, l.Document(page))
		case r.stdio2:
			err = annotate.WriteText(r.stdout, l, header, page)
		default:
			err = annotate.WritePage(r.stdout, l, page)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// share is the percentage of an event that a function has.
func (r *annotation) share(fn *annotate.Function, e int32) float64 {
	if r.p.Events[e].Period == 0 {
		return 0
	}
	return 100 * float64(fn.Total[e].Period) / float64(r.p.Events[e].Period)
}

// header is the line above a listing of --stdio2, as perf has it.
func (r *annotation) header(col column, list []*annotate.Function) string {
	var samples, period uint64
	add := func(e int32, c annotate.Count) {
		if slices.Contains(col.events, e) {
			samples += c.Samples
		}
		if e == col.events[0] {
			period += c.Period
		}
	}
	switch {
	case r.symbol != "":
		for _, fn := range list {
			for e, c := range fn.Total {
				add(int32(e), c)
			}
		}
	case r.dsos != "":
		for i := range r.p.Samples {
			s := &r.p.Samples[i]
			if o := r.p.Locations[s.Location].Object; o != profile.None && r.inDSOs(o) {
				add(s.Event, annotate.Count{Samples: s.Count, Period: s.Period})
			}
		}
	default:
		for e := range r.p.Events {
			add(int32(e), annotate.Count{Samples: r.p.Events[e].Samples, Period: r.p.Events[e].Period})
		}
	}
	unit := " "
	for _, u := range []string{"K", "M", "G"} {
		if samples <= 1000 {
			break
		}
		samples, unit = samples/1000, u
	}
	event, rate := "event", ""
	if len(col.events) > 1 {
		event = "events"
	}
	if a := &r.in.Events()[col.events[0]].Attr; a.Flags&perfdata.FlagFreq != 0 {
		rate = fmt.Sprintf(" %d Hz,", a.SamplePeriod)
	}
	return fmt.Sprintf("Samples: %d%s of %s '%s',%s Event count (approx.): %d, [percent: %s]", samples, unit, event, escape.Name(col.title), rate, period, r.page.Type)
}

// open opens the code of an object, of which functions will be listed.
func (r *annotation) open(ctx context.Context, object int32, announced, list []*annotate.Function) *openCode {
	c := r.codes[object]
	if c == nil {
		c = &openCode{}
		c.Code, c.err = annotate.Open(ctx, r.p, object, r.options)
		take := func(int32) bool { return true }
		if r.symbol != "" {
			// As perf does: of samples in other functions nothing is counted.
			names := map[string]bool{}
			for _, fn := range list {
				names[fn.Func.Name] = true
			}
			take = func(location int32) bool {
				f := r.p.Locations[location].Func
				return f != profile.None && names[r.p.Functions[f].Name]
			}
		}
		c.runs = annotate.NewRuns(r.p, object, take)
		r.codes[object] = c
	}
	if c.err == nil {
		c.Announce(announced)
	}
	return c
}

// missing says why a function is not shown.
func (r *annotation) missing(fn *annotate.Function, err error) {
	if r.lacking[fn] {
		return // for another event
	}
	r.lacking[fn] = true
	r.failed++
	var why *symbol.TextError
	hint := ""
	switch {
	case errors.As(err, &why):
		hint = why.Hint
	case errors.Is(err, disasm.ErrMachine):
		hint = "--objdump=PATH, of a GNU objdump for this machine, reads it"
	case errors.Is(err, annotate.ErrArchitecture):
		hint = "without --objdump perfark reads the code of most machines itself"
	}
	r.doc.Missing = append(r.doc.Missing, annotate.DocMissing{Symbol: fn.Func.Name, Object: r.p.Objects[fn.Object].Path, Reason: err.Error(), Hint: hint})
	if r.skipMissing {
		return
	}
	r.notef("%s: not shown: %s", escape.Name(fn.Func.Name), escape.Name(err.Error()))
	if hint != "" && !r.said[hint] {
		r.said[hint] = true
		r.hintf("%s", escape.Name(hint))
	}
}

// unnamed says why samples are in no function with a name, of the objects that
// were asked for.
func (r *annotation) unnamed() {
	list := r.out.Missing()
	if r.dsos != "" {
		list = slices.DeleteFunc(list, func(x symbol.ObjectOutcome) bool { return x.Object < 0 || !r.inDSOs(x.Object) })
	}
	const most = 5
	for i := range list {
		if i == most {
			r.notef("and %s more (perfark report -v lists them)", count(len(list)-most, "object"))
			break
		}
		r.notef("unnamed: %s", unnamedText(r.p, &list[i]))
		if list[i].Hint != "" {
			r.hintf("%s", list[i].Hint)
		}
	}
}

// sayOnce prints a note that is the same for many functions.
func (r *annotation) sayOnce(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	if !r.said[s] {
		r.said[s] = true
		r.notef("%s", escape.Name(s))
	}
}

// wanted returns the functions that the flags ask for.
func (r *annotation) wanted(ctx context.Context) []*annotate.Function {
	all := annotate.Collect(r.p)
	if r.dsos != "" {
		all = slices.DeleteFunc(all, func(fn *annotate.Function) bool { return !r.inDSOs(fn.Object) })
	}
	if r.symbol == "" {
		return all
	}
	var list []*annotate.Function
	for _, fn := range all {
		if f := &fn.Func; f.Name == r.symbol || f.Linkage == r.symbol {
			list = append(list, fn)
		}
	}
	if len(list) == 0 {
		list = r.aliased(ctx, all)
	}
	return list
}

// inDSOs reports whether --dsos names an object.
func (r *annotation) inDSOs(object int32) bool {
	o, dsos := &r.p.Objects[object], strings.Split(r.dsos, ",")
	return slices.Contains(dsos, o.Short) || slices.Contains(dsos, o.Path)
}

// aliased returns the functions that have the wanted name among others.
func (r *annotation) aliased(ctx context.Context, all []*annotate.Function) []*annotate.Function {
	places := map[int32][]uint64{}
	var list []*annotate.Function
	for _, fn := range all {
		at, ok := places[fn.Object]
		if !ok {
			at, _ = symbol.Places(ctx, r.p, fn.Object, r.symbol, r.options.Symbol) // what cannot be read has no names
			places[fn.Object] = at
		}
		if slices.Contains(at, fn.Func.Start) {
			list = append(list, fn)
		}
	}
	return list
}
