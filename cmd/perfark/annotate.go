package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perfark/perfark/annotate"
	"github.com/perfark/perfark/disasm"
	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/session"
	"github.com/perfark/perfark/symbol"
)

// An annotateCmd is a run of perfark annotate.
type annotateCmd struct {
	*app
	filterFlags
	symbolFlags
	percentType string
	style       string
	stdio       bool
	fullPaths   bool
	raw         bool
	sources     bool
	samples     bool
	period      bool
	skipMissing bool
	limit       float64
	sourceDirs  []string
	workers     int
}

func newAnnotateCmd(a *app) *cobra.Command {
	c := &annotateCmd{app: a}
	cmd := &cobra.Command{
		Use:   "annotate [SYMBOL]",
		Short: "show where in the code of functions the samples are",
		Long: `Annotate prints the instructions of each function with samples, the one with most of
them first, with the share of each instruction and the source lines in between, as
perf annotate --stdio does. It needs no other program: perfark reads the code itself.
Objects are found as report finds them, and count only with the recorded Build ID.

Exit status: 0 every function that was asked for is shown; 3 some could not be, or a
part of the recording was lost; 1 none could be.`,
		Example: `  perfark annotate main
  perfark annotate -i profile.perfark --symbol=hot_leaf -l
  perfark annotate -M intel --no-source --asm-raw -d libc.so.6`,
		Annotations: map[string]string{likePerf: "yes"},
		Args:        cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				c.filterFlags.symbols = args[0]
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
	fs.StringVarP(&c.filterFlags.symbols, "symbol", "s", "", "show only the function `SYMBOL`")
	fs.StringVarP(&c.dsos, "dsos", "d", "", "show only functions of the objects `DSO,…`")
	fs.StringVar(&c.percentType, "percent-type", "local-period", "what percentages are of: local-period, local-hits, global-period or global-hits")
	fs.StringVarP(&c.style, "disassembler-style", "M", "att", "write instructions of x86 in the `STYLE` att or intel")
	fs.Float64Var(&c.limit, "percent-limit", 0, "leave out functions below `PCT` percent")
	fs.BoolVar(&c.stdio, "stdio", false, "print text (there is nothing else)")
	fs.BoolVarP(&c.fullPaths, "full-paths", "P", false, "print the paths of objects, not their names alone")
	addSwitch(fs, &c.raw, "asm-raw", "", false, "print the bytes of instructions")
	addSwitch(fs, &c.sources, "no-source", "", true, "leave out source lines")
	addSwitch(fs, &c.samples, "show-nr-samples", "n", false, "print numbers of samples, not percentages")
	addSwitch(fs, &c.period, "show-total-period", "", false, "print periods, not percentages")
	addSwitch(fs, &c.skipMissing, "skip-missing", "", false, "say nothing of functions whose code is missing")
	fs.StringArrayVar(&c.sourceDirs, "source-dir", nil, "look for source files in `DIR` first; may be repeated")
	c.addDropFilters(fs)
	c.addSymbolNameFlags(fs)
	addJobsFlag(cmd, &c.workers)
	return cmd
}

func (c *annotateCmd) run(ctx context.Context) error {
	if err := c.symbolFlags.check(); err != nil {
		return err
	}
	percent, err := annotate.ParsePercentType(c.percentType)
	if err != nil {
		return usagef("--percent-type: %s", err)
	}
	if c.style != "att" && c.style != "intel" {
		return usagef("-M %s: not att or intel", c.style)
	}
	name, err := c.inputName(nil)
	if err != nil {
		return err
	}
	in, err := c.openInput(ctx, name)
	if err != nil {
		return err
	}
	defer in.Close()
	so := session.Options{Workers: c.workers, MaxRecall: -1}
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
	options := symbol.Options{Source: c.symbolFlags.source(in.sources(src), p), Workers: c.workers, BPFLine: in.bpfLine()}
	if _, err := c.resolve(ctx, p, options); err != nil {
		return err
	}
	shown, failed := 0, 0
	options.Limits = c.limits
	for _, fn := range c.wanted(p) {
		l, err := annotate.List(ctx, p, fn, annotate.Options{Symbol: options, Disasm: disasm.Options{Intel: c.style == "intel"}, NoLine: !c.sources})
		var missing *symbol.TextError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &missing):
			if failed++; !c.skipMissing {
				c.notef("%s: not shown: %s", escape.Name(fn.Func.Name), escape.Name(err.Error()))
				if missing.Hint != "" {
					c.hintf("%s", missing.Hint)
				}
			}
			continue
		case err != nil:
			failed++
			c.notef("%s: not shown: %s", escape.Name(fn.Func.Name), escape.Name(err.Error()))
			continue
		}
		for _, n := range l.Notices {
			c.notef("%s: %s", escape.Name(fn.Func.Name), escape.Name(n))
		}
		if shown == 0 {
			c.startPager()
		}
		shown++
		if err := annotate.WritePage(c.stdout, l, c.page(p, l, percent)); err != nil {
			return err
		}
	}
	c.stdout.Flush()
	switch {
	case shown == 0 && failed == 0 && c.filterFlags.symbols != "":
		return fmt.Errorf("%s: no samples in a function %q", in.Name(), c.filterFlags.symbols)
	case shown == 0 && failed == 0:
		return fmt.Errorf("%s: no samples in a function with a name", in.Name())
	case shown == 0:
		return fmt.Errorf("%s: no function could be shown", in.Name())
	case failed > 0 && !c.skipMissing:
		return partialf("%s: %d of %d functions are not shown", in.Name(), failed, shown+failed)
	}
	return c.lossError(in, res)
}

// wanted returns the functions that the flags ask for.
func (c *annotateCmd) wanted(p *profile.Profile) []*annotate.Function {
	names := split(c.filterFlags.symbols)
	dsos := split(c.dsos)
	var total uint64
	for i := range p.Events {
		total += p.Events[i].Period
	}
	var out []*annotate.Function
	for _, fn := range annotate.Collect(p, nil) {
		o := &p.Objects[fn.Object]
		var period uint64
		for _, n := range fn.Total {
			period += n.Period
		}
		switch {
		case names != nil && !slices.Contains(names, fn.Func.Name) && !slices.Contains(names, fn.Func.Linkage):
		case dsos != nil && !slices.Contains(dsos, o.Short) && !slices.Contains(dsos, o.Path):
		case total > 0 && 100*float64(period)/float64(total) < c.limit:
		default:
			out = append(out, fn)
		}
	}
	return out
}

func split(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// page is how a listing is printed.
func (c *annotateCmd) page(p *profile.Profile, l *annotate.Listing, percent annotate.PercentType) annotate.PageOptions {
	o := annotate.PageOptions{
		Type: percent, FullPath: c.fullPaths, Raw: c.raw, NoSource: !c.sources, Events: p.Events, Section: l.Section,
		ObjectLong: p.Objects[l.Object].Path, Source: c.readSource,
	}
	switch {
	case c.samples:
		o.Value = annotate.Samples
	case c.period:
		o.Value = annotate.Period
	}
	return o
}

// maxSource is the size in bytes of source files that are read.
const maxSource = 16 << 20

// readSource returns the lines of a source file: of --source-dir, else where
// it was compiled.
func (c *annotateCmd) readSource(file string) []string {
	var places []string
	for _, dir := range c.sourceDirs {
		places = append(places, filepath.Join(dir, file), filepath.Join(dir, filepath.Base(file)))
	}
	for _, name := range append(places, file) {
		fi, err := os.Stat(name)
		if err != nil || !fi.Mode().IsRegular() || fi.Size() > maxSource {
			continue
		}
		if text, err := os.ReadFile(name); err == nil {
			return strings.Split(string(text), "\n")
		}
	}
	return nil
}
