package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/perfark/perfark/archive"
	"github.com/perfark/perfark/internal/escape"
)

// An unpackCmd is a run of perfark unpack.
type unpackCmd struct {
	*app
	dir     string
	dataDir string
	force   bool
	workers int
}

func newUnpackCmd(a *app) *cobra.Command {
	c := &unpackCmd{app: a}
	cmd := &cobra.Command{
		Use:   "unpack ARCHIVE",
		Short: "put the objects of an archive where perf and perfark find them",
		Long: `Unpack puts the objects of an archive into ~/.debug, or the directory that perf is
configured to use, and the recording of a bundle into the current directory. It
reads what perfark archive writes, and both archives of perf archive; - is standard
input.

The archive is not trusted. It is checked as a whole before anything is written, and
each file again before it gets its name: size, hash, Build ID. What is there already
stays, unless the archive has a copy that can name more.

Exit status: 0 all is there; 3 some objects were refused; 1 nothing could be used.`,
		Example: `  perfark unpack perf.data.tar.bz2
  perfark unpack app.perfark && perfark report
  perfark unpack -C /tmp/debug app.perfark && perf --buildid-dir /tmp/debug report`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("want one archive, got %d", len(args))
			}
			return c.run(cmd.Context(), args[0])
		},
	}
	a.addArchiveLimitFlags(cmd)
	a.addOutputFlags(cmd)
	fs := cmd.Flags()
	fs.StringVarP(&c.dir, "directory", "C", "", "put objects into `DIR` (default: the buildid directory of perf, ~/.debug)")
	fs.StringVar(&c.dataDir, "data-dir", "", "put the recording of a bundle into `DIR` (default: the current directory)")
	fs.BoolVarP(&c.force, "force", "f", false, "replace a recording that is there, and objects that differ from those in the archive")
	addJobsFlag(cmd, &c.workers)
	return cmd
}

// An unpackReport is the --json of perfark unpack.
type unpackReport struct {
	Archive   string                 `json:"archive"`
	Directory string                 `json:"directory"`
	Data      string                 `json:"data,omitempty"` // the recording that was written
	Files     []archive.UnpackedFile `json:"files"`
	Missing   []archive.Missing      `json:"missing,omitempty"` // not in the archive to begin with
}

func (c *unpackCmd) run(ctx context.Context, name string) error {
	r := c.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return c.openError(name, err)
		}
		defer f.Close()
		r = f
	}
	if c.dir == "" {
		c.dir = c.cacheDir()
	}
	u, err := c.unpack(ctx, name, r)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	return c.print(name, u)
}

func (c *unpackCmd) unpack(ctx context.Context, name string, r io.Reader) (*archive.Unpacked, error) {
	m := c.meter("unpacking "+name, 0)
	defer c.meters.stop()
	return archive.Unpack(ctx, r, archive.UnpackOptions{
		Dir: c.dir, DataDir: c.dataDir, Force: c.force, Limits: c.archives, Workers: c.workers,
		Progress: func(done, total int64, what string) { m.Set(what); m.At(done, total) },
	})
}

func (c *unpackCmd) print(name string, u *archive.Unpacked) error {
	if c.json {
		err := c.printJSON(unpackReport{Archive: name, Directory: c.dir, Data: u.Data, Files: orEmpty(u.Files), Missing: u.Missing})
		if err != nil {
			return err
		}
	}
	var size int64
	n := map[archive.Outcome]int{}
	for _, f := range u.Files {
		n[f.Outcome]++
		if f.Outcome == archive.Added {
			size += f.Size
		}
		if c.verbose > 0 && !c.json && f.Outcome != archive.Refused {
			fmt.Fprintf(c.stdout, "%-7s %s\n", f.Outcome, escape.Name(string(f.Name)))
		}
	}
	if !c.quiet && !c.json {
		fmt.Fprintf(c.stdout, "%s: %s added (%s), %d kept\n", escape.Name(c.dir), count(n[archive.Added], "file"), bytesText(size), n[archive.Kept])
		if u.Data != "" {
			fmt.Fprintf(c.stdout, "%s: added\n", escape.Name(u.Data))
		}
	}
	c.stdout.Flush()
	for _, f := range u.Files {
		switch {
		case f.Outcome == archive.Refused:
			c.notef("refused: %s: %s", f.Name, f.Why)
		case f.Why != "":
			c.notef("%s: %s", f.Name, f.Why)
		}
	}
	if len(u.Missing) > 0 {
		c.notef("%s lacks %s since it was packed; perfark verify says which", name, count(len(u.Missing), "object"))
	}
	switch refused := n[archive.Refused]; {
	case len(u.Files) == 0 && u.Data == "":
		return fmt.Errorf("%s: nothing is in it", name)
	case refused == 0:
		return nil
	case refused == len(u.Files) && u.Data == "":
		return fmt.Errorf("%s: all %s refused", name, count(refused, "file"))
	default:
		return partialf("%s: %s refused", name, count(refused, "file"))
	}
}
