package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/perfark/perfark/archive"
	"github.com/perfark/perfark/capture"
	"github.com/perfark/perfark/internal/escape"
)

// A dirFlags is what captures into a directory need beside what others do.
type dirFlags struct {
	dir       string
	every     durationValue
	keep      durationValue
	maxBytes  sizeValue
	maxCPU    float64
	maxMemory sizeValue
	nice      int
	file      string
	listen    string
}

// Defaults of captures into a directory.
const (
	dirFreq   = 99 // samples a second
	dirKeep   = 7 * 24 * time.Hour
	dirBytes  = 10 << 30
	dirCPU    = 10 // percent of one processor
	dirMemory = 512 << 20
	dirNice   = 5
	dirLevel  = 3 // of compression: the best of the fast ones
)

// addFlags binds the flags.
func (d *dirFlags) addFlags(fs *pflag.FlagSet) {
	d.keep, d.maxBytes, d.maxMemory = durationValue(dirKeep), dirBytes, dirMemory
	fs.StringVar(&d.dir, "dir", "", "write the bundle into `DIR`, beside others with which it shares what both need")
	fs.Var(&d.every, "every", "go on, with a recording of --duration every `TIME`, until a signal comes")
	fs.Var(&d.keep, "keep", "remove bundles from --dir that are older than `TIME` (default: 7d)")
	fs.Var(&d.maxBytes, "max-bytes", "have at most `SIZE` in --dir, of which the oldest bundles are removed first (default: 10G)")
	fs.Float64Var(&d.maxCPU, "max-cpu", dirCPU, "use at most `PCT` percent of one processor over time, with --every; 0: any")
	fs.Var(&d.maxMemory, "max-memory", "give up a recording that takes more than `SIZE` of memory, with --dir (default: 512M)")
	fs.IntVar(&d.nice, "nice", dirNice, "run with the priority `N` from 0 to 19, with --dir")
	fs.StringVar(&d.file, "metrics-file", "", "write metrics for Prometheus to `FILE` after each recording, with --dir")
	fs.StringVar(&d.listen, "metrics-listen", "", "serve metrics for Prometheus at http://`ADDRESS`/metrics, which must be of this host alone, with --every")
	for _, name := range []string{"keep", "max-bytes", "max-memory"} {
		fs.Lookup(name).DefValue = ""
	}
}

// check refuses what does not go together.
func (c *captureCmd) checkDir(fs *pflag.FlagSet) error {
	d := &c.unattended
	for _, name := range []string{"every", "keep", "max-bytes", "max-cpu", "max-memory", "nice", "metrics-file", "metrics-listen"} {
		if d.dir == "" && fs.Changed(name) {
			return usagef("--%s: want --dir DIR", name)
		}
	}
	switch {
	case d.dir == "":
		return nil
	case c.output != "":
		return usagef("-o and --dir: one of them, please")
	case c.keepData:
		return usagef("--keep-data: not with --dir")
	case d.nice < 0 || d.nice > 19:
		return usagef("--nice %d: not from 0 to 19", d.nice)
	case d.maxCPU < 0:
		return usagef("--max-cpu %v: not a percentage", d.maxCPU)
	case d.every == 0 && d.listen != "":
		return usagef("--metrics-listen: want --every TIME")
	case d.every == 0:
		return nil
	case c.duration == 0:
		return usagef("--every: want --duration TIME too")
	case d.every < c.duration:
		return usagef("--every %v: less than --duration %v", &d.every, &c.duration)
	case len(c.rec.o.Command) > 0:
		return usagef("--every: a COMMAND would run each time; name processes, cgroups or processors")
	case c.json:
		return usagef("--json: not with --every; perfark verify --json prints what is in a bundle")
	}
	return nil
}

// runDir captures into a directory.
func (c *captureCmd) runDir(ctx context.Context) error {
	d := &c.unattended
	metrics := &capture.Metrics{MaxBytes: int64(d.maxBytes), File: d.file}
	if err := c.prepare(); err != nil {
		return err
	}
	if o := &c.rec.o; o.Freq == 0 && o.Period == 0 && !o.FreqMax {
		o.Freq = dirFreq
	}
	dir, err := capture.Open(ctx, d.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	var g sync.WaitGroup
	defer g.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if d.listen != "" {
		l, err := capture.ListenLoopback(d.listen)
		if err != nil {
			return fmt.Errorf("--metrics-listen: %w", err)
		}
		defer l.Close()
		c.note("metrics are at http://%s/metrics", l.Addr())
		g.Go(func() {
			if err := metrics.Serve(ctx, l); err != nil {
				cancel(fmt.Errorf("--metrics-listen: %w", err))
			}
		})
	}
	c.limit()
	said := false
	w := &window{}
	stats, err := dir.Run(ctx, capture.Options{
		Every: time.Duration(d.every), Keep: time.Duration(d.keep), MaxBytes: int64(d.maxBytes), MaxCPU: d.maxCPU, Host: c.bundleHost(),
		Make: func(ctx context.Context, cw capture.Window) (capture.Made, error) {
			*w = window{bundle: cw.Bundle, room: cw.Room, strain: cw.Strain, unattended: d.every > 0}
			w.pack.Pool, w.pack.Empty = cw.Pool, true
			return c.dirWindow(ctx, w)
		},
		Note: c.notef,
		Changed: func(s capture.Stats) {
			if err := metrics.Set(s); err != nil && !said {
				c.notef("--metrics-file %s: %v", d.file, err)
				said = true
			}
		},
	})
	if cause := context.Cause(ctx); cause != nil {
		if _, ok := errors.AsType[*signalError](cause); !ok {
			return cause
		}
	}
	if d.every > 0 && err == nil {
		c.note("%s made, %d failed, %d skipped, %d missed", count(stats.Complete+stats.Partial, "bundle"), stats.Failed, stats.Skipped, stats.Missed)
		patient.Store(true) // it was to be ended by a signal
		return nil
	}
	if errors.Is(err, archive.ErrNoRoom) {
		return hintf(err, "a larger --max-bytes than %v, or less with --slim, --debug-info none, --max-object-size SIZE", &d.maxBytes)
	}
	if err != nil {
		return err
	}
	return c.status(w, w.bundle)
}

// limit makes this process one that is in nobody's way.
func (c *captureCmd) limit() {
	d := &c.unattended
	if !c.arc.given("jobs") {
		c.arc.workers = 1
	}
	if !c.arc.given("level") {
		c.arc.level = dirLevel
	}
	if c.arc.workers > 0 {
		runtime.GOMAXPROCS(c.arc.workers + 1) // one for what reads the rings
	}
	if err := capture.Nice(d.nice); err != nil {
		c.notef("--nice %d: %v", d.nice, err)
	}
	c.memory = int64(d.maxMemory)
	debug.SetMemoryLimit(c.memory / 10 * 9)
}

// dirWindow makes one window of a capture into a directory.
func (c *captureCmd) dirWindow(ctx context.Context, w *window) (capture.Made, error) {
	defer debug.FreeOSMemory()
	began := time.Now()
	mctx, stop := capture.WithMemory(ctx, c.memory)
	defer stop()
	work, err := newWorkDir(filepath.Dir(w.bundle))
	if err != nil {
		return capture.Made{}, err
	}
	defer work.remove()
	w.work = work.name
	if err := c.window(mctx, w); err != nil {
		if cause := context.Cause(mctx); errors.Is(cause, capture.ErrMemory) {
			err = fmt.Errorf("%w (--max-memory %v)", cause, &c.unattended.maxMemory)
		}
		return capture.Made{}, err
	}
	r := w.result
	m := capture.Made{
		Samples: w.stats.Samples, Lost: w.stats.Lost, Missing: len(r.Manifest.Missing),
		Frames: r.Manifest.Coverage.Frames, Named: r.Manifest.Coverage.Named,
		Data: w.stats.Size, Size: r.Size, Pooled: r.Pooled,
	}
	if w.unattended && !c.quiet {
		fmt.Fprintf(c.stderr, "%s: %s and %s of objects, %s, %v, in %v\n", escape.Name(w.bundle), bytesText(m.Size), bytesText(m.Pooled),
			count(m.Samples, "sample"), r.Outcome.Coverage, time.Since(began).Round(time.Millisecond))
		if m.Missing > 0 {
			c.notef("%s: %s missing; perfark verify says which and why", w.bundle, count(m.Missing, "object"))
		}
	}
	return m, nil
}

// hostname is what names of bundles begin with.
func hostname() string {
	host, _ := os.Hostname()
	return host
}

// treeSize returns the sum of what the files below a directory take, in bytes.
func treeSize(dir string) int64 {
	var n int64
	filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil {
			if fi, err := e.Info(); err == nil {
				n += fi.Size() + 8<<10
			}
		}
		return nil
	})
	return n
}
