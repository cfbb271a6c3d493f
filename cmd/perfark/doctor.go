package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perfark/perfark/archive"
	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/doctor"
	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/session"
	"github.com/perfark/perfark/store"
	"github.com/perfark/perfark/symbol"
)

// summary is the last line of a report, on standard error: how much of the
// recording has a name, and which command tells the rest. Where nothing is
// missing or unverified there is nothing to say.
func (a *app) summary(in *input, res *session.Result, out *symbol.Outcome) {
	unverified := slices.ContainsFunc(out.Objects, func(x symbol.ObjectOutcome) bool { return x.Unverified && x.FramesNamed > 0 })
	if len(out.Missing()) == 0 && !unverified && res.Profile.Lost.Events+res.Profile.Lost.Samples == 0 && !res.Partial() {
		return
	}
	if in.uid < 0 && in.bundle == nil {
		a.notef("%s", out.Coverage) // standard input, which is gone
		return
	}
	a.notef("%s; perfark doctor %s tells what would help", out.Coverage, shellQuote(in.Name()))
}

// A doctorCmd is a run of perfark doctor.
type doctorCmd struct {
	*app
	host        bool
	binary      string
	minCoverage float64
	workers     int
}

func newDoctorCmd(a *app) *cobra.Command {
	c := &doctorCmd{app: a}
	cmd := &cobra.Command{
		Use:   "doctor [FILE]",
		Short: "say what is lost, why, and the command that helps",
		Long: `Doctor says for each object of a recording or bundle how many samples are lost, why,
and the exact command that helps: the package to install by name, the option to
record with, the host to archive on. FILE may be a program or library too: then it
says whether recordings of it will be readable.

Without FILE, or with --host, it says what a recording made on this host now, by this
user, would miss: hidden kernel addresses, missing capabilities, busy programs
without frame pointers, symbols or Build IDs, run times that tell perf no names.

It runs nothing, changes nothing and uses no network.

Exit status: 0; 3 if the coverage is below --min-coverage, the recording is damaged,
or the program FILE has no Build ID.`,
		Example: `  perfark doctor                                # this host
  perfark doctor perf.data
  perfark doctor --min-coverage 95 app.perfark  # in CI
  perfark doctor ./server                       # before it is shipped`,
		RunE: func(cmd *cobra.Command, args []string) error {
			set := cmd.Flags().Changed("min-coverage")
			if set && (c.minCoverage < 0 || c.minCoverage > 100) {
				return usagef("--min-coverage %v: not a percentage from 0 to 100", c.minCoverage)
			}
			if len(args) == 0 && a.input == "" {
				if set || c.binary != "" {
					return usagef("--min-coverage and --binary are about a recording: name one")
				}
				return c.runHost()
			}
			name, err := a.inputName(args)
			if err != nil {
				return err
			}
			return c.run(cmd.Context(), name, set)
		},
	}
	a.addInputFlags(cmd)
	a.addArchiveLimitFlags(cmd)
	a.addSymbolFlags(cmd)
	a.addOutputFlags(cmd)
	fs := cmd.Flags()
	fs.BoolVar(&c.host, "host", false, "say what a recording made on this host now would miss, too")
	fs.StringVar(&c.binary, "binary", "", "say how many samples are in the program or library `FILE`, and where the others are")
	fs.Float64Var(&c.minCoverage, "min-coverage", 0, "exit with status 3 if less than `PCT` percent of the frames have names")
	addJobsFlag(cmd, &c.workers)
	return cmd
}

// A doctorReport is the --json of perfark doctor.
type doctorReport struct {
	File     string            `json:"file,omitempty"` // "" for the host alone
	Samples  uint64            `json:"samples"`
	Coverage *archive.Coverage `json:"coverage,omitempty"`
	Percent  *float64          `json:"percent,omitempty"` // of the frames that have names
	Binary   *binaryShare      `json:"binary,omitempty"`
	Findings []jsonFinding     `json:"findings"`
	Host     []jsonFinding     `json:"host,omitempty"`
}

// A jsonFinding is a finding in JSON.
type jsonFinding struct {
	Kind    doctor.Kind  `json:"kind"`
	Level   doctor.Level `json:"level"` // loss, risk, note
	Object  archive.Name `json:"object,omitempty"`
	ID      buildid.ID   `json:"id,omitempty"`
	Samples uint64       `json:"samples"`

	Unnamed   int `json:"unnamed,omitempty"`   // of the addresses that were hit
	Addresses int `json:"addresses,omitempty"` // that were hit

	What  string    `json:"what"`
	Fixes []jsonFix `json:"fixes"`
}

type jsonFix struct {
	Command string `json:"command,omitempty"`
	When    string `json:"when,omitempty"`
}

func jsonFindings(list []doctor.Finding) []jsonFinding {
	out := []jsonFinding{}
	for _, f := range list {
		j := jsonFinding{f.Kind, f.Level, archive.Name(f.Object), f.ID, f.Samples, f.Unnamed, f.Addresses, f.What, []jsonFix{}}
		for _, x := range f.Fixes {
			j.Fixes = append(j.Fixes, jsonFix(x))
		}
		out = append(out, j)
	}
	return out
}

// runHost examines the host alone.
func (c *doctorCmd) runHost() error {
	list := doctor.ReadHost(c.root).Findings()
	if c.json {
		return c.printJSON(doctorReport{Findings: []jsonFinding{}, Host: jsonFindings(list)})
	}
	fmt.Fprintf(c.stdout, "a recording made here now, by this user:\n")
	c.print(list)
	return nil
}

func (c *doctorCmd) run(ctx context.Context, name string, minCoverage bool) error {
	in, err := c.openInput(ctx, name)
	if errors.Is(err, perfdata.ErrNotPerfData) && name != "-" {
		if list, ferr := doctor.ReadHost(c.root).File(name); ferr == nil {
			return c.runFile(name, list)
		}
	}
	if err != nil {
		return err
	}
	defer in.Close()
	res, err := c.load(ctx, in, session.Options{Workers: c.workers, Keep: session.KeepStacks})
	if err != nil {
		return err
	}
	src, err := c.openSources(ctx, in.File, res, in.uid)
	if err != nil {
		return err
	}
	defer src.Close()
	files := in.sources(src)
	out, err := symbol.Resolve(ctx, res.Profile, symbol.Options{Source: files, Workers: c.workers, Limits: c.limits, Lines: true})
	if err != nil {
		return err
	}
	r := &doctor.Recording{
		File: in.File, Session: res, Outcome: out, Source: files,
		Host: doctor.ReadHost(c.root), Here: src.sameHost, OS: recordedOS(in), Elsewhere: src.elsewhere, Caller: caller(),
	}
	if name != "-" {
		r.Name = name
	}
	list, err := r.Findings(ctx)
	if err != nil {
		return err
	}
	rep := doctorReport{File: in.Name(), Coverage: archive.CoverageOf(out), Findings: jsonFindings(list)}
	percent := out.Coverage.Percent()
	rep.Percent, rep.Samples = &percent, out.Coverage.Samples
	if c.binary != "" {
		if rep.Binary, err = c.share(res.Profile, out.Coverage.Samples); err != nil {
			return err
		}
	}
	var host []doctor.Finding
	if c.host {
		host = r.Host.Findings()
		rep.Host = jsonFindings(host)
	}
	if c.json {
		err = c.printJSON(rep)
	} else {
		c.printAll(in, &rep, out, list, host)
	}
	if err != nil {
		return err
	}
	if minCoverage && percent < c.minCoverage {
		return partialf("%s: %.2f percent of the frames have names, less than %v", in.Name(), percent, c.minCoverage)
	}
	if len(in.Damage()) > 0 || res.Partial() {
		return partialf("%s: the recording is damaged", in.Name())
	}
	return nil
}

// recordedOS is the distribution that a recording was made on, if its bundle
// tells.
func recordedOS(in *input) doctor.OS {
	if in.bundle == nil || in.bundle.Manifest() == nil || in.bundle.Manifest().Host == nil || in.bundle.Manifest().Host.OS == nil {
		return doctor.OS{}
	}
	return doctor.OS(*in.bundle.Manifest().Host.OS)
}

// runFile prints what is wrong with a program.
func (c *doctorCmd) runFile(name string, list []doctor.Finding) error {
	if c.json {
		if err := c.printJSON(doctorReport{File: name, Findings: jsonFindings(list)}); err != nil {
			return err
		}
	} else {
		c.print(list)
	}
	if slices.ContainsFunc(list, func(f doctor.Finding) bool { return f.Kind == doctor.LinkID }) {
		return partialf("%s: no build id", name)
	}
	return nil
}

// printAll prints a page about a recording.
func (c *doctorCmd) printAll(in *input, rep *doctorReport, out *symbol.Outcome, list, host []doctor.Finding) {
	w := c.stdout
	var about []string
	if h := in.Hostname(); h != "" {
		about = append(about, "recorded on "+h)
	}
	if r := in.OSRelease(); r != "" {
		about = append(about, "Linux "+strings.TrimSpace(r+" "+in.Arch()))
	}
	about = append(about, count(rep.Samples, "sample"))
	fmt.Fprintf(w, "%s: %s\n%s\n", escape.Name(in.Name()), escape.Name(strings.Join(about, ", ")), out.Coverage)
	if b := rep.Binary; b != nil {
		fmt.Fprintf(w, "%s\n", escape.Name(b.String()))
	}
	c.print(list)
	if c.host {
		fmt.Fprintf(w, "\na recording made here now, by this user:\n")
		c.print(host)
	}
}

// print prints findings, those that say the same together.
func (c *doctorCmd) print(list []doctor.Finding) {
	w := c.stdout
	if len(list) == 0 {
		fmt.Fprintln(w, "nothing is missing")
		return
	}
	const most = 20
	done := make([]bool, len(list))
	printed := 0
	for i, f := range list {
		if done[i] {
			continue
		}
		if printed == most && c.verbose == 0 {
			rest := 0
			for _, d := range done {
				if !d {
					rest++
				}
			}
			fmt.Fprintf(w, "\nand %s more (-v lists them)\n", count(rest, "finding"))
			return
		}
		printed++
		fmt.Fprintln(w)
		for k := i; k < len(list); k++ {
			g := list[k]
			if k == i || !done[k] && g.Object != "" && g.What == f.What && slices.Equal(g.Fixes, f.Fixes) {
				done[k] = true
				fmt.Fprintln(w, escape.Name(heading(g)))
			}
		}
		fmt.Fprintf(w, "    %s\n", escape.Name(f.What))
		for _, x := range f.Fixes {
			switch {
			case x.Command == "":
				fmt.Fprintf(w, "    > %s\n", escape.Name(x.When))
			case x.When == "":
				fmt.Fprintf(w, "    $ %s\n", escape.Name(x.Command))
			default:
				fmt.Fprintf(w, "    $ %s\n      (%s)\n", escape.Name(x.Command), escape.Name(x.When))
			}
		}
	}
}

// heading is the first line of a finding: how much, and what it is about.
func heading(f doctor.Finding) string {
	s := f.Level.String() + ": "
	if f.Samples > 0 {
		s += count(f.Samples, "sample") + ": "
	}
	if f.Unnamed > 0 && f.Unnamed < f.Addresses {
		s += fmt.Sprintf("%s of %s addresses: ", thousands(uint64(f.Unnamed)), thousands(uint64(f.Addresses)))
	}
	s += cmp.Or(f.Object, string(f.Kind))
	if f.ID != "" {
		s += " (" + f.ID.String() + ")"
	}
	return s
}

// A binaryShare says how many samples are in a file.
type binaryShare struct {
	File    string        `json:"file"`
	ID      buildid.ID    `json:"id,omitempty"`
	Samples uint64        `json:"samples"`
	Total   uint64        `json:"total"`
	Others  []objectShare `json:"others"` // the objects with the most samples
}

// An objectShare is how many samples were taken in an object.
type objectShare struct {
	Path    archive.Name `json:"path"`
	ID      buildid.ID   `json:"id,omitempty"`
	Samples uint64       `json:"samples"`
}

// share counts the samples that were taken in the file of --binary. An object
// is that file if it has its Build ID; without one, if it has its path.
func (c *doctorCmd) share(p *profile.Profile, total uint64) (*binaryShare, error) {
	id, err := store.FileID(c.binary)
	if err != nil {
		return nil, fmt.Errorf("--binary: %w", err)
	}
	b := &binaryShare{File: c.binary, ID: id, Total: total}
	by := make([]uint64, len(p.Objects))
	for i := range p.Samples {
		s := &p.Samples[i]
		if o := p.Locations[s.Location].Object; o >= 0 {
			by[o] += s.Count
		}
	}
	for i, n := range by {
		o := &p.Objects[i]
		switch {
		case id != "" && o.BuildID.Match(id), (id == "" || o.BuildID == "") && o.Path == c.binary:
			b.Samples += n
		case n > 0:
			b.Others = append(b.Others, objectShare{archive.Name(cmp.Or(o.Path, o.Short)), o.BuildID, n})
		}
	}
	slices.SortStableFunc(b.Others, func(x, y objectShare) int { return cmp.Compare(y.Samples, x.Samples) })
	b.Others = b.Others[:min(len(b.Others), 5)]
	return b, nil
}

// String says it in a line.
func (b *binaryShare) String() string {
	percent := func(n uint64) string { return fmt.Sprintf("%.1f%%", 100*float64(n)/float64(max(b.Total, 1))) }
	name := func(p string, id buildid.ID) string {
		if id == "" {
			return p + " (no build id)"
		}
		return p + " (id " + id.String() + ")"
	}
	s := fmt.Sprintf("%s, %s, in %s", count(b.Samples, "sample"), percent(b.Samples), name(b.File, b.ID))
	for i, o := range b.Others {
		if i == 0 {
			s += "; others: "
		} else {
			s += ", "
		}
		s += percent(o.Samples) + " in " + name(string(o.Path), o.ID)
	}
	return s
}

// hostOS is what this host's os-release says, for the manifest of an archive
// that is made where the recording was; nil if it says nothing.
func (a *app) hostOS() *archive.OS {
	o := archive.OS(doctor.ReadHost(a.root).OS)
	if o == (archive.OS{}) {
		return nil
	}
	return &o
}
