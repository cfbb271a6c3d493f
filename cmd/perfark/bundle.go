package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/perfark/perfark/archive"
	"github.com/perfark/perfark/internal/escape"
)

// A bundleCmd is a run of a command of perfark bundle.
type bundleCmd struct {
	*app
	level        int
	allowMissing bool
	workers      int
}

func newBundleCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "bundle COMMAND",
		Short:   "make a bundle of an unattended capture whole",
		Example: "  perfark bundle export /var/profiles/db1-20261130T120000Z.perfark db1.perfark",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q", args[0])
			}
			return usagef("want a command: export")
		},
	}
	cmd.AddCommand(newBundleExportCmd(a))
	return cmd
}

func newBundleExportCmd(a *app) *cobra.Command {
	c := &bundleCmd{app: a}
	cmd := &cobra.Command{
		Use:   "export IN OUT",
		Short: "write a bundle that needs no files beside it",
		Long: `Export reads the bundle IN, which may refer to files in a directory beside it, as
those of perfark capture --every do, and writes the bundle OUT, which has them in it:
the same recording and the same files, each of which is compared with its hash. OUT is
there if and only if it is complete; IN stays as it is.

Exit status: 0 all is there; 3 files that IN refers to are missing from OUT, as they are
not beside it (0 with --allow-missing); 1 there is no OUT.`,
		Example:               `  perfark bundle export /var/profiles/db1-20261130T120000Z.perfark db1.perfark`,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("want a bundle and the name of another, got %s", count(len(args), "name"))
			}
			return c.export(cmd.Context(), args[0], args[1])
		},
	}
	a.addArchiveLimitFlags(cmd)
	a.addOutputFlags(cmd)
	fs := cmd.Flags()
	fs.IntVar(&c.level, "level", 0, "compress with `LEVEL` 1 (fast) to 9 (small) (default: by samples of what it is)")
	fs.BoolVar(&c.allowMissing, "allow-missing", false, "exit with status 0 even if files are missing")
	addJobsFlag(cmd, &c.workers)
	return cmd
}

// An exportReport is the --json of perfark bundle export.
type exportReport struct {
	Archive string            `json:"archive"`
	Size    int64             `json:"size"`    // bytes
	Absent  []archive.Missing `json:"absent"`  // what is missing that was not missing from the other
	Objects int               `json:"objects"` // count
}

func (c *bundleCmd) export(ctx context.Context, in, out string) error {
	if c.level < 0 || c.level > 9 {
		return usagef("--level %d: want 1 to 9", c.level)
	}
	if src, err := os.Stat(in); err == nil {
		if dst, err := os.Stat(out); err == nil && os.SameFile(src, dst) {
			return usagef("%s and %s are one file", in, out)
		}
	}
	arc, err := archive.Open(ctx, in, c.archiveOptions())
	if err != nil {
		return c.openError(in, err)
	}
	defer arc.Close()
	m := c.meter("writing "+out, 0)
	defer c.meters.stop()
	made, size, err := arc.Export(ctx, out, archive.EncodeOptions{
		Level: c.level, Workers: c.workers,
		Progress: func(done, total int64, what string) { m.Set(what); m.At(done, total) },
	}, keepTemp)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("%s: %w", in, err)
	}
	absent := made.Missing[len(arc.Manifest().Missing):]
	if c.json {
		err = c.printJSON(exportReport{Archive: out, Size: size, Absent: orEmpty(absent), Objects: len(made.Objects)})
	} else if !c.quiet {
		_, err = fmt.Fprintf(c.stdout, "%s: %s, %s\n", escape.Name(out), bytesText(size), count(len(made.Objects), "object"))
	}
	if err != nil {
		return err
	}
	c.stdout.Flush()
	c.printMissing(absent)
	if len(absent) > 0 && !c.allowMissing {
		return partialf("%s: %s missing", out, count(len(absent), "object"))
	}
	return nil
}
