package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perfark/perfark/archive"
	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/session"
	"github.com/perfark/perfark/symbol"
)

// A verifyCmd is a run of perfark verify.
type verifyCmd struct {
	*app
	allowMissing bool
	minCoverage  float64
	workers      int
}

func newVerifyCmd(a *app) *cobra.Command {
	c := &verifyCmd{app: a}
	cmd := &cobra.Command{
		Use:   "verify ARCHIVE [FILE]",
		Short: "check every byte of an archive, and what it can name",
		Long: `Verify reads an archive from end to end. It checks each file against its hash, the
Build ID in the bytes of each object, and each link. Then it resolves every frame of
the recording FILE, or of the one in the bundle, from the archive alone, and says
what is missing.

Exit status: 0 sound and complete; 3 sound, but objects are missing; 1 damaged.`,
		Example: `  perfark verify perf.data.tar.bz2 perf.data
  perfark verify app.perfark`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usagef("want an archive, and at most one recording")
			}
			data := ""
			if len(args) == 2 {
				data = args[1]
			}
			return c.run(cmd.Context(), args[0], data, cmd.Flags().Changed("min-coverage"))
		},
	}
	a.addLimitFlags(cmd)
	a.addArchiveLimitFlags(cmd)
	a.addOutputFlags(cmd)
	fs := cmd.Flags()
	fs.BoolVar(&c.allowMissing, "allow-missing", false, "exit with status 0 even if objects are missing")
	fs.Float64Var(&c.minCoverage, "min-coverage", 0, "exit with status 0 if at least `PCT` percent of the frames have names")
	addJobsFlag(cmd, &c.workers)
	return cmd
}

// A verifyReport is the --json of perfark verify.
type verifyReport struct {
	Archive string `json:"archive"`
	*archive.Report
	Dangling []string          `json:"dangling,omitempty"` // ids whose link leads to nothing
	Coverage *archive.Coverage `json:"coverage,omitempty"`
	Missing  []archive.Missing `json:"missing"`
}

func (c *verifyCmd) run(ctx context.Context, name, data string, minCoverage bool) error {
	if minCoverage && (c.minCoverage < 0 || c.minCoverage > 100) {
		return usagef("--min-coverage %v: not a percentage from 0 to 100", c.minCoverage)
	}
	path, file, err := c.seekable(ctx, name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, pathless(err))
	}
	if file != nil {
		defer file.Close()
	}
	arc, err := archive.Open(ctx, path, c.archiveOptions())
	if err != nil {
		if path != name {
			err = fmt.Errorf("%s", strings.TrimPrefix(err.Error(), path+": "))
			return fmt.Errorf("%s: %w", name, err)
		}
		return c.openError(name, err)
	}
	defer arc.Close()
	c.noteAbsent(arc, name)
	m := c.meter("verifying "+name, 0)
	progress := func(done, total int64, what string) { m.Set(what); m.At(done, total) }
	rep, err := arc.Verify(ctx, archive.VerifyOptions{Workers: c.workers, Limits: c.limits, Progress: progress})
	c.meters.stop()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	v := verifyReport{Archive: name, Report: rep, Dangling: slices.Clone(arc.Dangling())}
	if m := arc.Manifest(); m != nil {
		v.Missing = m.Missing
	}
	out, err := c.replay(ctx, arc, path, data, &v)
	if err != nil {
		return err
	}
	v.Missing = orEmpty(v.Missing)
	if err := c.print(name, &v, out); err != nil {
		return err
	}
	switch missing := len(v.Missing) + len(v.Dangling); {
	case len(rep.Defects) > 0:
		return fmt.Errorf("%s: %s", name, count(len(rep.Defects), "defect"))
	case rep.Files == 0:
		return fmt.Errorf("%s: nothing is in it", name)
	case missing == 0 || c.allowMissing || minCoverage && out != nil && out.Coverage.Percent() >= c.minCoverage:
		return nil
	default:
		return partialf("%s: %s missing", name, count(missing, "object"))
	}
}

// replay resolves a recording from the archive: that in data, or in the
// archive; nil if there is neither. What it misses is what is missing then.
func (c *verifyCmd) replay(ctx context.Context, arc *archive.Archive, name, data string, v *verifyReport) (*symbol.Outcome, error) {
	var in *input
	if data == "" {
		if _, _, ok := arc.Data(); !ok {
			return nil, nil
		}
		data = name
	}
	in, err := c.openInput(ctx, data)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	res, err := c.load(ctx, in, session.Options{Workers: c.workers, Keep: session.KeepStacks})
	if err != nil {
		return nil, err
	}
	o := archive.PlanOptions{Source: arc, Limits: c.limits, Workers: c.workers, DebugInfo: archive.DebugNone, Command: "perfark archive -i " + shellQuote(data)}
	plan, err := archive.NewPlan(ctx, res, o)
	if err != nil {
		return nil, err
	}
	defer plan.Close()
	v.Missing = merge(plan.Missing, v.Missing, o.Command)
	v.Dangling = slices.DeleteFunc(v.Dangling, func(id string) bool {
		return slices.ContainsFunc(v.Missing, func(m archive.Missing) bool { return m.ID.String() == id })
	})
	out, err := symbol.Resolve(ctx, res.Profile, symbol.Options{Source: arc, Workers: c.workers, Limits: c.limits, FilesOnly: true})
	if err != nil {
		return nil, err
	}
	v.Coverage = archive.CoverageOf(out)
	return out, nil
}

// merge returns what is missing, with the reasons that the manifest has for it:
// those who packed knew better. Of others nothing is known but that the archive
// lacks them; command is what would pack them.
func merge(found, known []archive.Missing, command string) []archive.Missing {
	out := []archive.Missing{}
	for _, m := range found {
		if m.Reason == "not-found" || m.Reason == "other-kernel" {
			m.Reason, m.Detail, m.Hint = "not-found", "not in the archive", command+", on the host that recorded"
		}
		for _, k := range known {
			if k.ID == m.ID && k.Path == m.Path && k.PID == m.PID {
				m.Reason, m.Detail, m.Hint = k.Reason, k.Detail, k.Hint
				break
			}
		}
		out = append(out, m)
	}
	return out
}

func (c *verifyCmd) print(name string, v *verifyReport, out *symbol.Outcome) error {
	if c.json {
		return c.printJSON(v)
	}
	if !c.quiet {
		fmt.Fprintf(c.stdout, "%s: %s, %s read", escape.Name(name), count(v.Files, "file"), bytesText(v.Bytes))
		if v.Slim > 0 {
			fmt.Fprintf(c.stdout, ", %d slim", v.Slim)
		}
		if v.Unhashed > 0 {
			fmt.Fprintf(c.stdout, ", %d without a recorded hash", v.Unhashed)
		}
		fmt.Fprintln(c.stdout)
		if out != nil {
			fmt.Fprintln(c.stdout, out.Coverage)
		}
	}
	c.stdout.Flush()
	for _, d := range v.Defects {
		c.notef("%s: %s: %s", name, d.Name, d.What)
	}
	for _, id := range v.Dangling {
		c.notef("missing: %s: the link of this build id leads to nothing in the archive", id)
	}
	c.printMissing(v.Missing)
	return nil
}
