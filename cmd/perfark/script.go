package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/session"
	"github.com/perfark/perfark/symbol"
)

// A scriptCmd is a run of perfark script.
type scriptCmd struct {
	*app
	filterFlags
	symbolFlags
	fields     []string
	hideChains bool
	maxStack   int
	inline     bool

	inlineGiven *bool
	stopAt      []string
	show        showFlags
	kernelPath  bool
	ns          bool
	relative    bool
	delta       bool
	fullSource  bool
	header      bool
	headerOnly  bool
	info        bool
	workers     int

	// only leaves samples out, besides the filters; nil leaves none out.
	only func(p *profile.Profile, e *session.Event, s *perfdata.Sample) bool
}

// defaultMaxStack is how many frames of a call chain are shown: as many as the
// kernel records by default.
const defaultMaxStack = 127

// showFlags say which records other than samples are printed.
type showFlags struct {
	tasks, mmaps, switches, lost, namespaces, cgroups, bpf, pokes bool
}

func (s *showFlags) any() bool { return *s != showFlags{} }

func newScriptCmd(a *app) *cobra.Command {
	_, cmd := scriptCommand(a)
	return cmd
}

// scriptCommand returns the command, and what its flags are bound to.
func scriptCommand(a *app) (*scriptCmd, *cobra.Command) {
	c := &scriptCmd{app: a}
	cmd := &cobra.Command{
		Use:   "script [FILE]",
		Short: "print the samples of a recording one by one",
		Long: `Script prints every sample of a recording, in the order of time, as perf script
does: who, where, when, what, and the call chain. FILE is a recording, a bundle or -,
and perf.data by default. Objects are found as report finds them. It writes as it
reads, on all processors, in memory that does not grow with the recording's length.

--fields chooses the columns: FIELD,… for these alone, +FIELD and -FIELD to add and
to take away, with hw:, sw:, trace:, raw: or break: before it for events of one type.
The fields: ` + wrapList(fieldList()) + `

Exit status: 0 all samples are printed; 3 a part of the recording was lost.`,
		Example: `  perfark script | stackcollapse-perf.pl | flamegraph.pl > flame.svg
  perfark script -F comm,tid,time,ip,sym -C 0,2-3 --time 10%-20%
  perfark script -F +srcline,-period -G --show-task-events
  perfark script -i profile.perfark -F trace:time,trace`,
		Annotations: map[string]string{likePerf: "yes"},
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := a.inputName(args)
			if err != nil {
				return err
			}
			if err := checkForeignFlags(cmd.Flags(), scriptForeign); err != nil {
				return err
			}
			return c.run(cmd.Context(), name)
		},
	}
	a.addInputFlags(cmd)
	a.addArchiveLimitFlags(cmd)
	a.addSymbolFlags(cmd)
	a.addIndexFlags(cmd)
	fs := cmd.Flags()
	fs.BoolVarP(&a.quiet, "quiet", "q", false, "no progress, fewer messages")
	fs.CountVarP(&a.verbose, "verbose", "v", "print more messages; may be repeated")
	fs.StringArrayVarP(&c.fields, "fields", "F", nil, "print the columns `FIELDS`; may be repeated")
	fs.BoolVarP(&c.hideChains, "hide-call-graph", "G", false, "print the address of a sample, not its call chain")
	fs.IntVar(&c.maxStack, "max-stack", 0, "print at most `N` frames of a call chain (default: 127)")
	c.inlineGiven = addSwitch(fs, &c.inline, "inline", "", false, "print inlined functions in all call chains (default: in unwound ones)")
	fs.StringSliceVar(&c.stopAt, "stop-bt", nil, "end call chains at the functions `SYMBOLS`")
	c.addScriptFilters(fs)
	c.addSymbolNameFlags(fs)
	fs.BoolVar(&c.show.tasks, "show-task-events", false, "print when threads begin, end and change their name")
	fs.BoolVar(&c.show.mmaps, "show-mmap-events", false, "print what was mapped")
	fs.BoolVar(&c.show.switches, "show-switch-events", false, "print context switches")
	fs.BoolVar(&c.show.lost, "show-lost-events", false, "print where records were lost")
	fs.BoolVar(&c.show.namespaces, "show-namespace-events", false, "print changes of namespaces")
	fs.BoolVar(&c.show.cgroups, "show-cgroup-events", false, "print the names of cgroups")
	fs.BoolVar(&c.show.bpf, "show-bpf-events", false, "print BPF programs that were loaded")
	fs.BoolVar(&c.show.pokes, "show-text-poke-events", false, "print changes of the kernel's code")
	fs.BoolVar(&c.kernelPath, "show-kernel-path", false, "print the path of the kernel image, where one was recorded")
	fs.BoolVar(&c.ns, "ns", false, "print times in nanoseconds")
	fs.BoolVar(&c.relative, "reltime", false, "print times since the first sample")
	fs.BoolVar(&c.delta, "deltatime", false, "print times since the sample before")
	fs.BoolVar(&c.fullSource, "full-source-path", false, "print the paths of source files, not their names alone")
	fs.BoolVar(&c.header, "header", false, "print the header of the recording first")
	fs.BoolVar(&c.headerOnly, "header-only", false, "print the header of the recording alone")
	fs.BoolVarP(&c.info, "show-info", "I", false, "print the long sections of the header too")
	addJobsFlag(cmd, &c.workers)
	addForeignFlags(fs, scriptForeign)
	completeFlags(cmd, map[string]func() []string{"fields": func() []string { return strings.Split(fieldList(), ", ") }})
	return c, cmd
}

// wrapList breaks a list into lines.
func wrapList(list string) string {
	var b strings.Builder
	n := len("The fields: ")
	for i, word := range strings.Split(list, ", ") {
		if i > 0 {
			b.WriteByte(',')
			if n+len(word)+2 > 84 {
				b.WriteByte('\n')
				n = 0
			} else {
				b.WriteByte(' ')
				n += 2
			}
		}
		b.WriteString(word)
		n += len(word)
	}
	return b.String()
}

func (c *scriptCmd) run(ctx context.Context, name string) error {
	defer collectLate(40)()
	if slices.Contains(c.fields, "help") {
		fmt.Fprintf(c.stdout, "%s\n", strings.ReplaceAll(fieldList(), ", ", "\n"))
		return nil
	}
	fields, err := c.parseFields()
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
	if c.headerOnly {
		return c.runHeader(in, headerOptions{all: c.info})
	}
	plan, err := c.plan(ctx, in, fields)
	if err != nil {
		return err
	}
	return c.script(ctx, in, plan)
}

// parseFields checks the flags, and parses --fields.
func (c *scriptCmd) parseFields() (*fieldParser, error) {
	switch {
	case c.relative && c.delta:
		return nil, usagef("--reltime and --deltatime: one of them, please")
	case c.maxStack < 0:
		return nil, usagef("--max-stack %d: want a number of frames", c.maxStack)
	}
	p := newFieldParser()
	for _, f := range c.fields {
		if err := p.parse(f); err != nil {
			return nil, usagef("--fields: %s", err)
		}
	}
	for _, n := range p.notes {
		c.notef("%s", n)
	}
	return p, nil
}

// A scriptPlan is what is printed of a recording.
type scriptPlan struct {
	fields *fieldParser
	chains bool // call chains
	filter session.Filter
	needs  scriptNeeds
}

// plan settles what is printed, by what the recording has.
func (c *scriptCmd) plan(ctx context.Context, in *input, fields *fieldParser) (*scriptPlan, error) {
	p := &scriptPlan{fields: fields}
	p.chains = !c.hideChains && slices.ContainsFunc(in.Events(), func(e perfdata.Event) bool {
		return e.Attr.SampleType&perfdata.SampleCallchain != 0
	})
	if !*c.inlineGiven { // as perf
		c.inline = dumps(in.Events())
	}
	err := fields.bind(in.Events(), p.chains)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.Name(), err)
	}
	p.needs = needs(fields, in.Events(), p.chains)
	if p.filter, err = c.dropFilter(ctx, in.File); err != nil {
		return nil, err
	}
	if p.filter.PIDs, err = parseIDs("--pid", c.pids); err != nil {
		return nil, err
	}
	p.filter.TIDs, err = parseIDs("--tid", c.tids)
	return p, err
}

// script loads a recording, names its addresses, and prints its samples.
func (c *scriptCmd) script(ctx context.Context, in *input, p *scriptPlan) error {
	res, err := c.load(ctx, in, session.Options{
		Workers: c.workers, Filter: p.filter, Keep: p.needs.keep(), DataAnywhere: true, MaxRecall: -1, Walk: true,
		MaxUnwound: cmp.Or(c.maxStack, defaultMaxStack),
	})
	if err != nil {
		return err
	}
	formats := c.traceFormats(in, p.fields)
	if err := formats.locate(ctx, res, session.WalkOptions{Workers: c.workers, Filter: p.filter, Sides: c.show.pokes}); err != nil {
		return err
	}
	src, err := c.openSources(ctx, in.File, res, in.uid)
	if err != nil {
		return err
	}
	defer src.Close()
	if p.needs.fields&(fieldSym|fieldSrcline|fieldBrstackSym) != 0 || len(formats.functions) > 0 || c.filterFlags.symbols != "" {
		_, err := c.resolve(ctx, res.Profile, symbol.Options{
			Source: c.source(in.sources(src), res.Profile), Workers: c.workers,
			Lines: p.needs.fields&fieldSrcline != 0, Inlines: c.inline && p.chains, BPFLine: in.bpfLine(),
		})
		if err != nil {
			return err
		}
		c.rename(res.Profile)
	}
	c.startPager()
	if c.header {
		if err := writeHeader(c.stdout, in.File, headerOptions{all: c.info}); err != nil {
			return err
		}
	}
	if err := c.print(ctx, in, res, p, formats); err != nil {
		return err
	}
	if err := c.stdout.Flush(); err != nil {
		return err
	}
	return c.lossError(in, res)
}

// scriptNeeds are what the columns need of a recording.
type scriptNeeds struct {
	fields field
	frames bool // call chains or branches
	data   bool // where data addresses are
}

// keep returns what has to be kept of a recording for them.
func (n *scriptNeeds) keep() session.Keep {
	k := session.KeepComm
	if n.frames {
		k |= session.KeepFrames
	}
	if n.data {
		k |= session.KeepAddr
	}
	if n.fields&fieldCgroup != 0 {
		k |= session.KeepCgroup
	}
	return k
}

func needs(p *fieldParser, events []perfdata.Event, chains bool) (n scriptNeeds) {
	for i := range events {
		a := &events[i].Attr
		f := p.sets[outputOf(a)].fields
		n.fields |= f
		if f&fieldIP != 0 && chains && a.SampleType&perfdata.SampleCallchain != 0 || f&(fieldBrstack|fieldBrstackSym|fieldBrstackOff) != 0 {
			n.frames = true
		}
		if addrHasSymbol(a) && (f&fieldAddr != 0 || isBTS(a)) {
			n.data = true
		}
	}
	return n
}

// addrHasSymbol reports whether the data address of an event's samples is one
// that has a symbol (sample_addr_correlates_sym in tools/perf/util/event.c).
func addrHasSymbol(a *perfdata.Attr) bool {
	const faults, minorFaults, majorFaults = 2, 5, 6 // PERF_COUNT_SW_PAGE_FAULTS …
	return a.Type == typeSoftware && (a.Config == faults || a.Config == minorFaults || a.Config == majorFaults) || isBTS(a)
}

// isBTS reports whether each sample of the event is a branch.
func isBTS(a *perfdata.Attr) bool {
	const branches = 4 // PERF_COUNT_HW_BRANCH_INSTRUCTIONS
	return a.Type == typeHardware && a.Config&branches != 0 && a.SamplePeriod == 1 && a.Flags&perfdata.FlagFreq == 0
}

// Values of perf_event_attr.type.
const (
	typeHardware   = 0
	typeSoftware   = 1
	typeTracepoint = 2
)

// print prints the records.
func (c *scriptCmd) print(ctx context.Context, in *input, res *session.Result, p *scriptPlan, formats *traceFormats) error {
	sp := c.printer(in.File, res, p, formats)
	match, err := c.scriptMatcher(res.Profile)
	if err != nil {
		return err
	}
	o := session.WalkOptions{Workers: c.workers, Sides: c.show.any(), Filter: p.filter}
	clock := scriptClock{relative: c.relative, delta: c.delta}
	if c.relative || c.delta {
		o.Workers = 1 // in order
	}
	workers := make([]scriptSample, max(1, o.Workers, defaultWorkers()))
	return res.Walk(ctx, o, c.stdout, func(dst []byte, e *session.Event) []byte {
		ps, ok := e.Record.(*perfdata.Sample)
		switch {
		case !ok:
			return sp.side(dst, e, &c.show, &clock)
		case ps.Event < 0 || ps.Event >= len(sp.events) || sp.events[ps.Event].fields == 0,
			match != nil && !match(e, ps), c.only != nil && !c.only(res.Profile, e, ps):
			return dst
		}
		s := &workers[e.Worker]
		s.set(ps, e)
		if sp.events[ps.Event].fields&fieldTime != 0 {
			s.time = clock.at(ps.Time)
		}
		return sp.sample(dst, s)
	})
}

// printer returns what prints the samples of a recording.
func (c *scriptCmd) printer(f *perfdata.File, res *session.Result, p *scriptPlan, formats *traceFormats) *scriptPrinter {
	sp := newScriptPrinter(f, res)
	sp.nanoseconds, sp.flags, sp.inline = c.ns, p.fields.flags, c.inline
	sp.formats = formats
	if !dumps(f.Events()) {
		sp.maxStack = cmp.Or(c.maxStack, defaultMaxStack) // of unwound stacks that is MaxUnwound
	}
	if c.kernelPath {
		for i := range res.Profile.Objects {
			if o := &res.Profile.Objects[i]; o.Kind == profile.KindKernel {
				sp.dsos[i] = dsoText(o.Path)
			}
		}
	}
	if len(c.stopAt) > 0 {
		sp.stop = map[string]bool{}
		for _, s := range c.stopAt {
			sp.stop[s] = true
		}
	}
	sp.setEvents(f, p.fields, p.chains)
	sp.setFiles(c.fullSource)
	sp.prepare()
	return sp
}

// set takes what an event has.
func (s *scriptSample) set(ps *perfdata.Sample, e *session.Event) {
	s.Sample, s.comm = ps, e.Comm
	s.loc, s.data = e.Location, e.Data
	s.chain = s.chain[:0]
	for i, l := range e.Frames {
		s.chain = append(s.chain, scriptFrame{e.IPs[i], l})
	}
	s.from, s.to = s.from[:0], s.to[:0]
	for _, br := range e.Branches {
		s.from, s.to = append(s.from, br[0]), append(s.to, br[1])
	}
}

// A scriptClock makes the times that are printed, of samples and of the records
// between them.
type scriptClock struct {
	relative, delta bool
	seen            bool
	last            uint64
}

func (c *scriptClock) at(t uint64) uint64 {
	switch {
	case t == 0 && !c.seen: // made up at the begin of the recording
		return t
	case c.relative:
		if !c.seen {
			c.seen, c.last = true, t
		}
		return t - c.last
	case c.delta:
		if !c.seen {
			c.seen, c.last = true, t
		}
		d := t - c.last
		c.last = t
		return d
	}
	return t
}

// setEvents prepares how samples of each event are printed.
func (sp *scriptPrinter) setEvents(f *perfdata.File, p *fieldParser, chains bool) {
	width := 0
	for _, e := range f.Events() {
		width = max(width, len(escape.Name(e.Name)))
	}
	sp.ids = map[uint64]int{}
	sp.clock, sp.hasClock = f.ClockData()
	for i := range f.Events() {
		e := &f.Events()[i]
		a := &e.Attr
		for _, id := range e.IDs {
			sp.ids[id] = i
		}
		name := escape.Name(e.Name)
		sp.events = append(sp.events, scriptEvent{
			fields: p.sets[outputOf(a)].fields,
			attr:   a,
			name:   []byte(strings.Repeat(" ", width-len(name)) + name + ": "),
			chains: chains && a.SampleType&perfdata.SampleCallchain != 0,
			bts:    isBTS(a),
			sym:    addrHasSymbol(a),
			raw:    a.Type == typeSoftware && a.Config == 10, // PERF_COUNT_SW_BPF_OUTPUT
		})
	}
}

// setFiles prepares the names of source files.
func (sp *scriptPrinter) setFiles(full bool) {
	for _, name := range sp.p.Files {
		if !full {
			name = name[strings.LastIndexByte(name, '/')+1:]
		}
		sp.files = append(sp.files, escape.Name(name))
	}
}

// timeOfDay appends the wall-clock time of a sample.
func (sp *scriptPrinter) timeOfDay(b []byte, t uint64) []byte {
	if !sp.hasClock {
		return append(b, "N/A "...)
	}
	at := time.Unix(0, int64(sp.clock.WallTime+(t-sp.clock.Time)))
	b = at.AppendFormat(b, "2006-01-02 15:04:05")
	b = append(b, '.')
	if sp.nanoseconds {
		b = appendZeros(b, uint64(at.Nanosecond()), 9)
	} else {
		b = appendZeros(b, uint64(at.Nanosecond()/1000), 6)
	}
	return append(b, ' ')
}
