package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/perfark/perfark/archive"
	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/session"
	"github.com/perfark/perfark/symbol"
)

// An archiveCmd is a run of perfark archive.
type archiveCmd struct {
	*app
	output       string
	format       string
	level        int
	given        func(flag string) bool
	all          bool
	unpack       bool
	excludeFile  string
	verified     bool
	maxObject    sizeValue
	dryRun       bool
	slim         bool
	index        bool
	sourceText   string
	debugInfo    string
	vmlinux      string
	kcore        bool
	allowMissing bool
	minCoverage  float64
	workers      int
	again        string // what the user would type to do this again; "" for perfark archive
}

func newArchiveCmd(a *app) *cobra.Command {
	c := &archiveCmd{app: a}
	cmd := &cobra.Command{
		Use:   "archive [FILE]",
		Short: "pack the binaries behind a recording into one file",
		Long: `Archive finds the binary behind every frame of a recording (sample addresses, call
chains, branch stacks) by its Build ID, reads the id again from the very bytes it
packs, resolves every frame from what it packed, and says what is missing and why.

It writes FILE.tar.bz2, which stock perf reads once it is unpacked into ~/.debug.
With --all it writes FILE.perfark, which holds the recording too and which perfark
opens in place.

Exit status: 0 every object is in the archive; 3 some are missing; 1 none was found,
or the archive could not be written: then there is no file, and an older one stays.`,
		Example: `  perfark archive                                  # perf.data to perf.data.tar.bz2
  perfark archive --format zst -o out.tar.zst app.data
  perfark archive --all --debug-info hot app.data  # one file, to be opened in place
  perfark archive --all --slim app.data            # a small one, for this recording alone
  perfark archive --dry-run                        # what would go in, and what is missing`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.unpack {
				return c.runUnpack(cmd, args)
			}
			name, err := a.inputName(args)
			if err != nil {
				return err
			}
			return c.run(cmd.Context(), name)
		},
	}
	a.addInputFlags(cmd)
	a.addSymbolFlags(cmd)
	a.addOutputFlags(cmd)
	fs := cmd.Flags()
	fs.StringVarP(&c.output, "output", "o", "", "write to `FILE`, whose name may tell the format")
	fs.StringVar(&c.format, "format", "", "write a `FORMAT`: bz2, zst, gz, xz, or tar (default: bz2)")
	fs.BoolVar(&c.all, "all", false, "write a bundle that holds the recording too")
	fs.BoolVar(&c.unpack, "unpack", false, "unpack the archive FILE, as perf archive does")
	fs.BoolVarP(&c.dryRun, "dry-run", "n", false, "say what would be packed and what is missing; write nothing")
	c.addPackFlags(cmd)
	addJobsFlag(cmd, &c.workers)
	return cmd
}

// addPackFlags binds what goes into an archive, and when it is good enough.
func (c *archiveCmd) addPackFlags(cmd *cobra.Command) {
	fs := cmd.Flags()
	c.given = fs.Changed
	fs.IntVar(&c.level, "level", 0, "compress with `LEVEL` 1 (fast) to 9 (small) (default: that of the format)")
	fs.StringVar(&c.excludeFile, "exclude-buildids", "", "leave out the objects whose Build IDs stand in `FILE`, one a line")
	fs.BoolVar(&c.verified, "verified", false, "leave out objects that no Build ID ties to the recording, as perf archive does")
	fs.Var(&c.maxObject, "max-object-size", "pack files larger than `SIZE` without their debug information, or not at all (default: no limit)")
	fs.BoolVar(&c.slim, "slim", false, "pack slim copies: of each file only what this recording needs, zeros for the rest")
	fs.BoolVar(&c.index, "index", false, "pack what is known of the addresses of this recording: names, lines and inlined functions are there at once, also where no debug files are packed")
	fs.StringVar(&c.sourceText, "sources", "none", "pack the source files of `WHICH` lines, for annotate: none, or hot (those with samples)")
	fs.StringVar(&c.debugInfo, "debug-info", "all", "pack separate debug files of `WHICH` objects: none, hot (1% of the samples) or all")
	fs.StringVar(&c.vmlinux, "vmlinux", "", "pack the kernel image too: `FILE`, or that found by its Build ID")
	fs.BoolVar(&c.kcore, "kcore", false, "pack the code of the running kernel and its modules, out of its memory; copies of it are packed anyway")
	fs.Lookup("vmlinux").NoOptDefVal = vmlinuxByID
	fs.BoolVar(&c.allowMissing, "allow-missing", false, "exit with status 0 even if objects are missing")
	fs.Float64Var(&c.minCoverage, "min-coverage", 0, "exit with status 0 if at least `PCT` percent of the frames have names")
}

// vmlinuxByID is --vmlinux without a file.
const vmlinuxByID = "by-id"

func (c *archiveCmd) run(ctx context.Context, name string) error {
	format, out, err := c.target(name)
	if err != nil {
		return err
	}
	o, err := c.planOptions(name)
	if err != nil {
		return err
	}
	pipe, err := c.openPipe(ctx, name)
	if err != nil {
		return c.openError(name, err)
	}
	if pipe {
		name = "-"
	}
	if name == "-" {
		done, err := c.spoolInput(ctx)
		if err != nil {
			return err
		}
		defer done()
	}
	in, err := c.openInput(ctx, name)
	if err != nil {
		return err
	}
	defer in.Close()
	if o.Data, err = c.rawData(name, in, format == archive.Bundle); err != nil {
		return err
	}
	pl, err := c.plan(ctx, in, name, o)
	if err != nil {
		return err
	}
	defer pl.Close()
	if c.dryRun {
		lost := c.lossError(in, pl.res)
		return cmp.Or(c.printPlan(pl.Plan), lost)
	}
	r, err := c.pack(ctx, pl, out, archive.PackOptions{EncodeOptions: archive.EncodeOptions{Format: format}})
	if err != nil {
		return err
	}
	if err := c.printResult(out, format, r, pl); err != nil {
		return err
	}
	if err := c.lossError(in, pl.res); err != nil {
		return err
	}
	return c.incomplete(out, r)
}

// planOptions turns flags into what a plan takes.
func (c *archiveCmd) planOptions(name string) (archive.PlanOptions, error) {
	o := archive.PlanOptions{
		Tool: "perfark " + version(), MaxObjectSize: int64(c.maxObject), Verified: c.verified, Slim: c.slim, Index: c.index, Workers: c.workers, Limits: c.limits,
		Kcore: c.kcore, Vmlinux: c.given("vmlinux"), VmlinuxFile: c.vmlinux,
		Command: cmp.Or(c.again, c.command(name)),
	}
	if c.vmlinux == vmlinuxByID {
		o.VmlinuxFile = ""
	}
	switch c.sourceText {
	case "none", "":
	case "hot":
		o.Sources = true
	default:
		return o, usagef("--sources %q: want none or hot", c.sourceText)
	}
	if o.Sources && o.Verified {
		return o, usagef("--sources: no Build ID ties a source file to a recording, and --verified wants one")
	}
	var err error
	if o.DebugInfo, err = archive.ParseDebugInfo(c.debugInfo); err != nil {
		return o, usagef("--debug-info: %s", err)
	}
	if c.given("min-coverage") && (c.minCoverage < 0 || c.minCoverage > 100) {
		return o, usagef("--min-coverage %v: not a percentage from 0 to 100", c.minCoverage)
	}
	o.Exclude, err = readExcludes(c.excludeFile)
	return o, err
}

// A plan is an archive.Plan with what it was made of. Close closes all of it
// but the input.
type plan struct {
	*archive.Plan
	res *session.Result
	src *sources

	hidden bool // of a redacted recording
}

// Close closes the plan and its sources.
func (pl *plan) Close() error { return errors.Join(pl.Plan.Close(), pl.src.Close()) }

// plan finds what belongs to a recording. The name is for people.
func (c *archiveCmd) plan(ctx context.Context, in *input, name string, o archive.PlanOptions) (*plan, error) {
	o.Host = hostOf(in.File)
	if host, _ := os.Hostname(); o.Host != nil && o.Host.Name != "" && o.Host.Name != host {
		o.OtherHost = o.Host.Name
	} else if o.Host != nil && o.Host.Name != "" {
		o.Host.OS = c.hostOS()
	}
	if in.hidden != nil {
		o.Host, o.OtherHost, o.Command, o.Index, o.Sources, o.SlimAgain = nil, "", "perfark archive", false, false, true
	}
	m := c.meter("reading "+name, 0)
	o.Progress = func(done, total int64, what string) { m.Set(what); m.At(done, total) }
	so := session.Options{Workers: c.workers, Keep: session.KeepStacks}
	done := c.lazyFiles(ctx, in, &so)
	res, err := session.Load(ctx, in.File, so)
	done()
	if err != nil {
		return nil, err
	}
	c.limitMemory()
	src, err := c.openSources(ctx, in.recorded(), res, in.uid)
	if err != nil {
		return nil, err
	}
	o.Source = in.sources(src)
	if in.hidden == nil {
		o.Elsewhere, o.Caller = src.elsewhere, caller()
	}
	p, err := archive.NewPlan(ctx, res, o)
	if err != nil {
		src.Close()
		return nil, err
	}
	if in.hidden != nil {
		for i := range p.Missing {
			m := &p.Missing[i]
			m.Detail, m.Hint = in.hidden.r.Text(m.Detail), in.hidden.r.Text(m.Hint)
		}
	}
	return &plan{p, res, src, in.hidden != nil}, nil
}

// pack writes the archive of a plan. If there is nothing to write it says what
// is missing.
func (c *archiveCmd) pack(ctx context.Context, pl *plan, out string, o archive.PackOptions) (*archive.Result, error) {
	var packing *meter
	o.Level, o.Workers = c.level, c.workers
	o.EncodeOptions.Progress = func(done, total int64, what string) {
		if packing == nil {
			packing = c.meter("packing", total)
		}
		packing.Set("packing " + path.Base(path.Dir(path.Dir(what))))
		packing.At(done, total)
	}
	o.Empty = o.Empty || c.allowMissing
	o.Made = keepTemp
	r, err := pl.Pack(ctx, out, o)
	c.meters.stop()
	if err != nil {
		if errors.Is(err, archive.ErrNothing) {
			c.printMissing(r.Manifest.Missing)
		}
		return nil, fmt.Errorf("%s: %w", out, err)
	}
	return r, nil
}

// incomplete returns an error if more is missing from an archive than the user
// allows.
func (c *archiveCmd) incomplete(out string, r *archive.Result) error {
	if len(r.Manifest.Missing) == 0 || c.allowMissing || c.given("min-coverage") && r.Outcome.Coverage.Percent() >= c.minCoverage {
		return nil
	}
	return partialf("%s: %s missing", out, count(len(r.Manifest.Missing), "object"))
}

// limitMemory keeps the heap near what is live now: reading symbols and
// compressing leave garbage that would else be as much as all of it.
func (a *app) limitMemory() {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	limit := max(128<<20, int64(m.HeapAlloc)+96<<20)
	if a.memory > 0 {
		limit = min(limit, a.memory/10*9)
	}
	debug.SetMemoryLimit(limit)
}

// runUnpack is perf archive --unpack: without a name it takes the one archive
// in the current directory.
func (c *archiveCmd) runUnpack(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		for _, pattern := range []string{"perf*.tar.bz2", "perf*.perfark"} {
			names, err := filepath.Glob(pattern)
			if err != nil {
				return err
			}
			args = append(args, names...)
		}
		switch len(args) {
		case 0:
			return errors.New("--unpack: no perf*.tar.bz2 or perf*.perfark here; name the archive")
		case 1:
		default:
			return usagef("--unpack: %d archives here (%s); name one", len(args), strings.Join(args, ", "))
		}
	}
	unpack, _, err := cmd.Root().Find([]string{"unpack"})
	if err != nil {
		return err
	}
	unpack.SetContext(cmd.Context())
	return unpack.RunE(unpack, args)
}

// target returns the format to write and the name of the file.
func (c *archiveCmd) target(name string) (archive.Format, string, error) {
	format := archive.Bzip2
	byName, known := archive.FormatOf(c.output)
	switch {
	case c.all:
		format = archive.Bundle
		if c.format != "" && c.format != format.String() {
			return 0, "", usagef("--all writes a bundle; --format %s does not go with it", c.format)
		}
		if c.output != "" && known && byName != archive.Bundle && byName != archive.Zstd {
			return 0, "", usagef("--all writes a bundle, which is compressed with zstd: -o %s does not go with it", c.output)
		}
	case c.format != "":
		f, err := archive.ParseFormat(c.format)
		if err != nil {
			return 0, "", usagef("--%s", err)
		}
		format = f
	case c.output != "" && known:
		format = byName
	}
	switch {
	case c.given("level") && (c.level < 1 || c.level > 9):
		return 0, "", usagef("--level %d: not from 1 to 9", c.level)
	case c.given("level") && format == archive.XZ:
		return 0, "", usagef("--level %d: xz is written at one level only", c.level)
	case c.given("level") && format == archive.Tar:
		return 0, "", usagef("--level %d: a tar is not compressed", c.level)
	}
	if c.output != "" {
		return format, c.output, nil
	}
	if name == "-" {
		return 0, "", usagef("-o FILE is needed when the recording comes from standard input")
	}
	return format, strings.TrimRight(name, "/") + format.Ext(), nil
}

// command is what the user would type to do this again.
func (c *archiveCmd) command(name string) string {
	s := "perfark archive"
	if c.all {
		s += " --all"
	}
	if name != "perf.data" {
		s += " -i " + shellQuote(name)
	}
	return s
}

// readExcludes reads the ids of --exclude-buildids: one a line, with comments
// after #. What follows an id on its line, such as the path that buildid-list
// prints, does not matter.
func readExcludes(name string) ([]buildid.ID, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("--exclude-buildids: %s: %w", name, pathless(err))
	}
	defer f.Close()
	ids, err := parseExcludes(f)
	if err != nil {
		return nil, fmt.Errorf("--exclude-buildids: %s: %w", name, err)
	}
	return ids, nil
}

func parseExcludes(r io.Reader) ([]buildid.ID, error) {
	var ids []buildid.ID
	sc := bufio.NewScanner(r)
	n := 1
	for ; sc.Scan(); n++ {
		line, _, _ := strings.Cut(sc.Text(), "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		id, err := buildid.Parse(words[0])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if id != "" {
			ids = append(ids, id)
		}
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", n, err)
	}
	return ids, nil
}

// hostOf is what a recording says about the host it was made on.
func hostOf(f *perfdata.File) *archive.Host {
	h := &archive.Host{Name: f.Hostname(), Release: f.OSRelease(), Arch: f.Arch()}
	if *h == (archive.Host{}) {
		return nil
	}
	return h
}

// spoolInput makes standard input a file: a bundle is to hold what comes there
// byte for byte. The function it returns closes the file.
func (c *archiveCmd) spoolInput(ctx context.Context) (func(), error) {
	r, _, closers, err := c.spool(ctx)
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	f := r.(*os.File)
	done := func() {
		for _, x := range closers {
			x.Close()
		}
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		done()
		return nil, fmt.Errorf("standard input: %w", err)
	}
	c.stdin = f
	return done, nil
}

// rawData opens the file that the recording is read from, to be described in
// the manifest or packed. It is nil for a recording that is not one regular
// file.
func (c *archiveCmd) rawData(name string, in *input, include bool) (*archive.DataFile, error) {
	if in.bundle != nil {
		r, size, _ := in.bundle.Data()
		return &archive.DataFile{ReaderAt: r, Name: "perf.data", Size: size, MTime: dataTime(in.bundle), Include: include}, nil
	}
	f, ok := c.stdin.(*os.File) // see spoolInput
	if name != "-" {
		var err error
		if f, err = os.Open(name); err != nil {
			return nil, err
		}
		in.closers = append(in.closers, f)
		if fi, err := f.Stat(); err == nil && fi.IsDir() && in.OneStream() {
			// perf record --kcore: what is beside the data is packed as objects.
			if f, err = os.Open(filepath.Join(name, "data")); err != nil {
				return nil, err
			}
			in.closers = append(in.closers, f)
		}
	} else if !ok {
		return nil, nil
	}
	fi, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case name == "-":
		return &archive.DataFile{ReaderAt: f, Name: "perf.data", Size: fi.Size(), Include: include}, nil
	case fi.Mode().IsRegular():
		return &archive.DataFile{ReaderAt: f, Name: name, Size: fi.Size(), MTime: fi.ModTime().UTC().Truncate(time.Second), Include: include}, nil
	case include:
		return nil, fmt.Errorf("%s: --all packs recordings that are one regular file", name)
	}
	return nil, nil
}

// A packReport is the --json of perfark archive.
type packReport struct {
	Archive  string                `json:"archive,omitempty"` // "" for --dry-run
	Format   string                `json:"format,omitempty"`
	Size     int64                 `json:"size,omitempty"`
	Coverage *archive.Coverage     `json:"coverage,omitempty"`
	Objects  []archive.Object      `json:"objects,omitempty"`
	Files    []archive.PlannedFile `json:"files,omitempty"` // of --dry-run
	Missing  []archive.Missing     `json:"missing"`
	Unnamed  []unnamed             `json:"unnamed,omitempty"` // packed, but with frames that have no names
	Excluded []archive.Missing     `json:"excluded,omitempty"`
}

// An unnamed is an object with frames that have no names though it is packed.
type unnamed struct {
	ID      buildid.ID   `json:"id,omitempty"`
	Path    archive.Name `json:"path"` // "" for addresses where nothing was mapped
	Samples uint64       `json:"samples"`
	Reason  string       `json:"reason"`
	Hint    string       `json:"hint,omitempty"`
	gap     bool         // there are names, but not for these addresses
}

// unnamedOf lists the objects with frames that have no names, but for those
// that are missing or excluded.
func unnamedOf(r *archive.Result, objects []profile.Object, excluded []archive.Missing) []unnamed {
	absent := slices.Concat(r.Manifest.Missing, excluded)
	var out []unnamed
	for _, u := range r.Outcome.Missing() {
		x := unnamed{Samples: u.SamplesUnnamed, Reason: string(u.Reason), Hint: u.Hint, gap: u.Reason == symbol.Gap}
		if u.Detail != "" {
			x.Reason += ": " + u.Detail
		}
		if u.Reason == symbol.Hidden && slices.ContainsFunc(r.Manifest.Missing, func(m archive.Missing) bool { return m.Reason == "restricted" }) {
			continue // the kernel is missing for the same reason
		}
		if u.Object >= 0 {
			o := &objects[u.Object]
			x.ID, x.Path = o.BuildID, archive.Name(o.Path)
			if slices.ContainsFunc(absent, func(m archive.Missing) bool { return m.Path == x.Path && m.ID == x.ID }) {
				continue
			}
		}
		out = append(out, x)
	}
	return out
}

// printPlan prints what --dry-run is to tell.
func (c *archiveCmd) printPlan(plan *archive.Plan) error {
	c.meters.stop()
	files := plan.Files()
	if c.json {
		err := c.printJSON(packReport{Files: files, Missing: orEmpty(plan.Missing), Excluded: plan.Excluded})
		if err != nil {
			return err
		}
	} else {
		var total int64
		fmt.Fprintf(c.stdout, "%10s  %-9s %-13s %10s  %-40s %s\n", "SIZE", "KIND", "QUALITY", "SAMPLES", "BUILD ID", "PATH")
		for _, f := range files {
			total += f.Size
			from := ""
			if f.Origin != f.Path {
				from = " (from " + escape.Name(string(f.Origin)) + ")"
			}
			if f.Unverified {
				from += " (unverified)"
			}
			if f.Kept > 0 {
				from += fmt.Sprintf(" (slim: %s of it)", bytesText(f.Kept))
			}
			if f.Whole > 0 {
				from += fmt.Sprintf(" (without its debug information: %s)", bytesText(f.Whole))
			}
			fmt.Fprintf(c.stdout, "%10s  %-9s %-13s %10d  %-40s %s%s\n",
				bytesText(f.Size), escape.Name(string(f.Kind)), f.Quality, f.Samples, f.ID, escape.Name(string(f.Path)), from)
		}
		fmt.Fprintf(c.stdout, "%10s  %s\n", bytesText(total), count(len(files), "file"))
		c.printMissing(plan.Excluded)
		c.printMissing(plan.Missing)
	}
	switch {
	case len(files) == 0 && !c.allowMissing:
		return archive.ErrNothing
	case len(plan.Missing) == 0 || c.allowMissing:
		return nil
	}
	return partialf("%s missing", count(len(plan.Missing), "object"))
}

// printMissing prints what is not in the archive, and the command that would
// help, once for all that it helps.
func (a *app) printMissing(list []archive.Missing) {
	for i, m := range list {
		a.notef("missing: %s", missingText(m))
		if i+1 == len(list) || list[i+1].Hint != m.Hint {
			a.adviseOnce(m.Hint)
		}
	}
}

// adviseOnce prints a line of advice unless it was printed before.
func (a *app) adviseOnce(hint string) {
	if hint == "" || slices.Contains(a.advised, hint) {
		return
	}
	a.advised = append(a.advised, hint)
	a.hintf("%s", hint)
}

// missingText is a line about something that is missing: id, path, samples
// lost, and the reason.
func missingText(m archive.Missing) string {
	id := m.ID.String()
	if id == "" {
		id = "no build id"
	}
	return fmt.Sprintf("%s %s: %s: %s: %s", id, m.Path, count(m.Samples, "sample"), m.Reason, m.Detail)
}

// printResult prints what was packed.
func (c *archiveCmd) printResult(out string, format archive.Format, r *archive.Result, pl *plan) error {
	if err := c.printPacked(out, format, r, pl); err != nil || c.json || c.quiet {
		return err
	}
	fmt.Fprintf(c.stdout, "Now please run:\n\n$ perfark unpack %s\n\n", escape.Name(shellQuote(operand(out))))
	if format != archive.Bundle {
		fmt.Fprintf(c.stdout, "or\n\n$ tar xvf %s -C ~/.debug\n\n", escape.Name(shellQuote(operand(out))))
	}
	fmt.Fprintf(c.stdout, "wherever you need to run 'perf report' on.\n")
	return nil
}

// printPacked prints what is in an archive, what of it has no names, and what
// is missing.
func (c *archiveCmd) printPacked(out string, format archive.Format, r *archive.Result, pl *plan) error {
	unnamed := unnamedOf(r, pl.res.Profile.Objects, pl.Excluded)
	if c.json {
		return c.printJSON(packReport{
			Archive: out, Format: format.String(), Size: r.Size, Coverage: r.Manifest.Coverage,
			Objects: r.Manifest.Objects, Missing: orEmpty(r.Manifest.Missing), Excluded: pl.Excluded, Unnamed: unnamed,
		})
	}
	if !c.quiet {
		fmt.Fprintln(c.stdout, r.Outcome.Coverage)
	}
	c.stdout.Flush()
	c.printMissing(r.Manifest.Missing)
	c.printUnnamed(unnamed)
	if c.quiet {
		return nil
	}
	files, slim := 0, 0
	for _, o := range r.Manifest.Objects {
		files += len(o.Files)
		for _, f := range o.Files {
			if f.Slim {
				slim++
			}
			if f.Slim && !c.slim && !pl.hidden {
				c.notef("%s: only a slim copy was found, made for another archive: code and lines may be missing", f.Origin)
			}
			if f.Whole > 0 {
				c.notef("%s: packed without its debug information: %s of %s (--max-object-size)", f.Origin, bytesText(f.Size), bytesText(f.Whole))
			}
		}
	}
	fmt.Fprintf(c.stdout, "%s: %s, %s", escape.Name(out), bytesText(r.Size), count(files, "file"))
	if slim > 0 {
		fmt.Fprintf(c.stdout, ", %d slim", slim)
	}
	fmt.Fprintln(c.stdout)
	return nil
}

// operand returns the name of a file so that neither a dash makes it a flag nor
// a colon makes it, for tar, a file on another host.
func operand(name string) string {
	if dir, _, _ := strings.Cut(name, "/"); strings.HasPrefix(name, "-") || strings.Contains(dir, ":") {
		return "./" + name
	}
	return name
}

// printUnnamed prints which objects have frames without names.
func (c *archiveCmd) printUnnamed(list []unnamed) {
	const most = 20
	for i, u := range list {
		if i == most && c.verbose == 0 {
			c.notef("no names: and %s more (-v lists them)", count(len(list)-most, "object"))
			break
		}
		c.notef("no names: %s: %s: %s", cmp.Or(string(u.Path), "[unknown]"), count(u.Samples, "sample"), u.Reason)
		if !u.gap {
			c.adviseOnce(u.Hint)
		}
	}
}

// thousands writes n with commas.
func thousands(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// count writes a number of things.
func count[N int | uint64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return thousands(uint64(n)) + " " + thing + "s"
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
