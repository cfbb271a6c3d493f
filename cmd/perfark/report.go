package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
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
	sort, fields           string
	separator              string
	callGraph              string
	stdio, noChildren      bool
	showSamples, showTotal bool
	header, headerOnly     bool
	info                   bool
	stats                  bool
	noGroup                bool
	noBranchStack          bool
	keepEmpty              bool
	percentLimit           float64
	workers                int
}

func newReportCmd(a *app) *cobra.Command {
	c := &reportCmd{app: a}
	cmd := &cobra.Command{
		Use:   "report [FILE]",
		Short: "show where the samples of a recording are",
		Long: `Report counts the samples of a recording by thread name, object and symbol, as
perf report --stdio --no-children -g none does. FILE is a recording, a bundle or -,
and perf.data by default. Objects are found by their Build IDs: in --symbols, in the
bundle, in the buildid cache, in debug directories and on this host. What could not
be named, and why, is printed on standard error.

Exit status: 0 all samples are shown; 3 a part of the recording was lost.`,
		Example: `  perfark report --sort dso,sym
  perfark report -i profile.perfark -n --percent-limit 1
  perfark report -i perf.data --symbols perf.data.tar.bz2 -F overhead,period,comm
  perf record -o - -a sleep 1 | perfark report -i -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := a.inputName(args)
			if err != nil {
				return err
			}
			return c.run(cmd.Context(), name)
		},
	}
	a.addInputFlags(cmd)
	a.addArchiveLimitFlags(cmd)
	a.addSymbolFlags(cmd)
	a.addOutputFlags(cmd)
	fs := cmd.Flags()
	fs.StringVarP(&c.sort, "sort", "s", "", "tell apart and order by `KEYS`: comm, dso, symbol, pid, tid, cpu (default: comm,dso,symbol)")
	fs.StringVarP(&c.fields, "fields", "F", "", "print the columns `KEYS`: those of --sort, overhead, sample, period")
	fs.BoolVarP(&c.showSamples, "show-nr-samples", "n", false, "print a column of samples")
	fs.BoolVar(&c.showTotal, "show-total-period", false, "print a column of periods")
	fs.StringVarP(&c.separator, "field-separator", "t", "", "separate columns by `SEP` instead of padding them")
	fs.BoolVar(&c.stdio, "stdio", false, "print text (there is nothing else)")
	fs.BoolVar(&c.noChildren, "no-children", false, "count a sample where it was taken, not in its callers (there is nothing else)")
	fs.StringVarP(&c.callGraph, "call-graph", "g", "", "print call graphs of this `KIND`: none")
	fs.BoolVar(&c.header, "header", false, "print the header of the recording first")
	fs.BoolVar(&c.headerOnly, "header-only", false, "print the header of the recording alone")
	fs.BoolVarP(&c.info, "show-info", "I", false, "print the long sections of the header too")
	fs.BoolVar(&c.stats, "stats", false, "count the records of the recording by type")
	fs.Bool("no-inline", false, "no inlined functions in call graphs (there are none)")
	fs.BoolVar(&c.noGroup, "no-group", false, "show the events of a group one by one")
	fs.BoolVar(&c.noBranchStack, "no-branch-stack", false, "count samples, not the branches in them (there is nothing else)")
	fs.BoolVar(&c.keepEmpty, "no-skip-empty", false, "show events without samples too")
	fs.Float64Var(&c.percentLimit, "percent-limit", 0, "leave out rows below `PCT` percent")
	addJobsFlag(cmd, &c.workers)
	return cmd
}

// options checks the flags.
func (c *reportCmd) options() (o report.Options, err error) {
	if c.callGraph != "" && c.callGraph != "none" {
		return o, usagef("-g %q: want none", c.callGraph)
	}
	if c.separator == "." {
		return o, usagef("-t %q: want another separator: numbers have a dot", c.separator)
	}
	if c.separator == `\t` {
		c.separator = "\t"
	}
	sort, more := strings.CutPrefix(c.sort, "+")
	if o.Sort, err = report.ParseKeys(sort); err != nil {
		return o, usagef("--sort: %s", err)
	}
	if more {
		o.Sort = append([]report.Key{report.Comm, report.DSO, report.Symbol}, o.Sort...)
	}
	fields, more := strings.CutPrefix(c.fields, "+")
	if o.Fields, err = report.ParseKeys(fields); err != nil {
		return o, usagef("--fields: %s", err)
	}
	if more {
		if c.sort == "" {
			o.Sort = []report.Key{report.Comm, report.DSO, report.Symbol}
		}
		o.Sort, o.Fields = append(o.Sort, o.Fields...), nil
	}
	if c.sort == "" && c.fields == "" {
		o.Sort = nil
	}
	o.ShowSamples, o.ShowPeriod = c.showSamples, c.showTotal
	o.KeepEmpty = c.keepEmpty
	return o, nil
}

// keep returns what the columns of a report need of each sample.
func keep(o report.Options) session.Keep {
	var k session.Keep
	sort := o.Sort
	if sort == nil && o.Fields == nil {
		sort = []report.Key{report.Comm}
	}
	for _, key := range slices.Concat(sort, o.Fields) {
		switch key {
		case report.Comm:
			k |= session.KeepComm
		case report.PID, report.TID:
			k |= session.KeepComm | session.KeepTID
		case report.CPU:
			k |= session.KeepCPU
		}
	}
	return k
}

func (c *reportCmd) run(ctx context.Context, name string) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	in, err := c.openInput(ctx, name)
	if err != nil {
		return err
	}
	defer in.Close()
	if c.headerOnly {
		c.startPager()
		return writeHeader(c.stdout, in.File, headerOptions{all: c.info})
	}
	if c.stats {
		return c.printStats(ctx, in)
	}
	res, err := c.load(ctx, in, session.Options{Workers: c.workers, Keep: keep(o)})
	if err != nil {
		return err
	}
	src, err := c.openSources(ctx, in.File, res, in.uid)
	if err != nil {
		return err
	}
	defer src.Close()
	out, err := symbol.Resolve(ctx, res.Profile, symbol.Options{Source: in.sources(src), Workers: c.workers, Limits: c.limits})
	if err != nil {
		return err
	}
	o.Restricted = res.KernelRestricted
	if !c.noGroup {
		o.Groups = groups(in.File)
	}
	tables := report.Flat(res.Profile, o)
	if err := c.print(in, res, tables); err != nil {
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

// explain says on standard error what could not be named and why, by object,
// most samples first, and what the kernel lost.
func (c *reportCmd) explain(in *input, res *session.Result, out *symbol.Outcome) {
	if in.Header().Has(perfdata.FeatureBranchStack) && !c.noBranchStack {
		c.notef("%s: has branch stacks: samples are counted, not branches, as perf report --no-branch-stack does", in.Name())
	}
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
	res, err := session.Load(ctx, in.File, o)
	a.meters.stop()
	return res, err
}

// groups returns the groups of events of a recording.
func groups(f *perfdata.File) []report.Group {
	desc, _ := f.GroupDesc()
	var gs []report.Group
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
func (c *reportCmd) print(in *input, res *session.Result, tables []*report.Table) error {
	if c.json {
		return c.printJSON(jsonReport(in, res, tables))
	}
	page := report.PageOptions{Separator: c.separator, Quiet: c.quiet, PercentLimit: c.percentLimit, Lost: res.Profile.Lost.Samples}
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

// printStats prints how many records of each type there are, as perf report
// --stats does.
func (c *reportCmd) printStats(ctx context.Context, in *input) error {
	res, err := c.load(ctx, in, session.Options{Workers: c.workers, HitsOnly: true})
	if err != nil {
		return err
	}
	st := &res.Stats
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
		}
		events := []event{}
		for i, n := range st.Samples {
			events = append(events, event{in.Events()[i].Name, n})
		}
		if err := c.printJSON(map[string]any{"total": st.Total, "types": types, "other": st.Other, "bad": st.Bad, "events": events}); err != nil {
			return err
		}
		return c.lossError(in, res)
	}
	w := c.stdout
	fmt.Fprintf(w, "\nAggregated stats:\n%16s events: %10d\n", "TOTAL", st.Total)
	line := func(name string, n uint64) {
		if n > 0 || c.keepEmpty {
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
		if n > 0 || c.keepEmpty {
			fmt.Fprintf(w, "%s stats:\n%16s events: %10d\n", escape.Name(in.Events()[i].Name), "SAMPLE", n)
		}
	}
	return c.lossError(in, res)
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

// A jsonTable is a table of perfark report --json.
type jsonTable struct {
	Events  []string  `json:"events"`
	Group   string    `json:"group,omitempty"`
	Samples uint64    `json:"samples"`
	Period  uint64    `json:"period"`
	Rows    []jsonRow `json:"rows"`
}

// A jsonRow has the columns of the table alone. Counts are by event.
type jsonRow struct {
	Overhead []float64 `json:"overhead"` // percent of the event's period
	Samples  []uint64  `json:"samples"`
	Period   []uint64  `json:"period"`
	Comm     *string   `json:"comm,omitempty"`
	TID      *int32    `json:"tid,omitempty"`
	Thread   *string   `json:"thread,omitempty"` // last name of the thread
	CPU      *int32    `json:"cpu,omitempty"`
	DSO      *string   `json:"dso,omitempty"`
	Symbol   *string   `json:"symbol,omitempty"` // absent if there is none
	Address  string    `json:"address,omitempty"`
	Level    string    `json:"level,omitempty"`
}

func jsonReport(in *input, res *session.Result, tables []*report.Table) any {
	list := []jsonTable{}
	for _, t := range tables {
		jt := jsonTable{Events: t.Events, Group: t.Name, Samples: t.Samples, Period: t.Period, Rows: []jsonRow{}}
		for i := range t.Rows {
			jt.Rows = append(jt.Rows, rowJSON(t, &t.Rows[i]))
		}
		list = append(list, jt)
	}
	return map[string]any{"file": in.Name(), "lost_samples": res.Profile.Lost.Samples, "tables": list}
}

func rowJSON(t *report.Table, r *report.Row) jsonRow {
	var j jsonRow
	for i, n := range r.Counts {
		j.Overhead = append(j.Overhead, t.Percent(r, i))
		j.Samples = append(j.Samples, n.Samples)
		j.Period = append(j.Period, n.Period)
	}
	for _, k := range t.Columns {
		switch k {
		case report.Comm:
			j.Comm = &r.Comm
		case report.PID, report.TID:
			j.TID, j.Thread = &r.TID, &r.Thread
		case report.CPU:
			j.CPU = &r.CPU
		case report.DSO:
			j.DSO = &r.DSO
		case report.Symbol:
			j.Level = string(rune(r.Level))
			if r.Symbol != "" {
				j.Symbol = &r.Symbol
			} else {
				j.Address = fmt.Sprintf("%#x", r.Addr)
			}
		}
	}
	return j
}
