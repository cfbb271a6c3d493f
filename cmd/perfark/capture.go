package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/archive"
	"github.com/perfark/perfark/capture"
	"github.com/perfark/perfark/record"
	"github.com/perfark/perfark/redact"
)

// A captureCmd is a run of perfark capture.
type captureCmd struct {
	*app
	rec *recordCmd
	arc *archiveCmd

	output   string
	duration durationValue
	keepData bool
	remote   remoteFlags
	redact   redactFlags
	policy   *redact.Policy // nil: nothing is redacted

	unattended dirFlags
	noted      bool // what a recording has to say of itself was said
}

func newCaptureCmd(a *app) *cobra.Command {
	c := &captureCmd{app: a, rec: &recordCmd{app: a}, arc: &archiveCmd{app: a, all: true}}
	cmd := &cobra.Command{
		Use:   "capture [-- COMMAND ARG...]",
		Short: "record, and pack the recording with its binaries into one bundle",
		Long: `Capture records as perfark record does, finds the binaries behind every frame as
perfark archive does, resolves every frame from what it packed, and writes one
bundle, which perfark report opens on any machine. Nothing else is left.

What is recorded is COMMAND, or what -a, -C, -p, -t, -u or -G name, or without any of
these all processors, until the command ends, for the time of --duration, or until
Ctrl-C, after which the bundle is written; a second Ctrl-C ends it at once, with
nothing left behind.

Without -o the bundle is HOST-TIME.perfark in the current directory, with the time in
UTC at which the recording began. What is printed goes to standard error, as standard
output is that of COMMAND; but --json goes there.

With --dir bundles go into a directory, in which what several of them need is kept
once, and which stays within --keep and --max-bytes. With --every capture goes on
there until a signal ends it, unattended: within --max-cpu and --max-memory, alone,
with 99 samples a second by default, and through full disks.

Exit status: 1 there is no bundle; 3 something is missing from it (--allow-missing and
--min-coverage say what is good enough); else that of COMMAND; 128 and the number of
the signal that cut a COMMAND or --duration short; 0 without either; 2 wrong usage.`,
		Example: `  perfark capture -g -- ./server
  perfark capture -F 99 -a -g --duration 20s -o now.perfark
  perfark capture -p 4711 --call-graph dwarf --duration 10s --slim
  perfark capture --ssh root@db1 -a -g --duration 20s
  perfark capture -a -g --every 10m --duration 20s --dir /var/profiles --keep 7d --max-bytes 10G`,
		Annotations: map[string]string{likePerf: "yes", untilWord: "yes"},
		Args:        cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.remote.check(cmd.Flags()); err != nil {
				return err
			}
			if c.remote.host != "" {
				return c.runRemote(cmd.Context(), cmd)
			}
			c.rec.o.Command = args
			if err := c.checkDir(cmd.Flags()); err != nil {
				return err
			}
			if c.unattended.dir != "" {
				return c.runDir(cmd.Context())
			}
			return c.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&c.output, "output", "o", "", "write `FILE`, or - for standard output (default: HOST-TIME.perfark)")
	fs.Var(&c.duration, "duration", "end the recording after `TIME`, such as 20s or 5m")
	fs.BoolVar(&c.keepData, "keep-data", false, "leave the recording too, as FILE with .data for .perfark")
	c.unattended.addFlags(fs)
	c.remote.addFlags(fs)
	fs.StringVar(&c.redact.policy, "redact", "", "leave out names of hosts, users and arguments by `POLICY`: default, strict, or a file, see perfark redact")
	fs.Lookup("redact").NoOptDefVal = "default"
	c.redact.addFlags(fs)
	c.rec.addTargetFlags(cmd)
	c.rec.addSampleFlags(cmd)
	c.rec.addBufferFlags(cmd)
	c.arc.addPackFlags(cmd)
	a.addSymbolFlags(cmd)
	a.addLimitFlags(cmd)
	a.addOutputFlags(cmd)
	fs.Var((*jobsValue)(&c.arc.workers), "jobs", "use `N` processors for what is not recording (default: all)")
	fs.SetInterspersed(false)
	return cmd
}

// prepare turns flags into options, and finds what is wrong with them.
func (c *captureCmd) prepare() error {
	if err := c.rec.options(); err != nil {
		return err
	}
	o := &c.rec.o
	o.Duration = time.Duration(c.duration)
	if err := o.Check(); errors.Is(err, record.ErrNoTarget) {
		o.All = true // as perf record does
	}
	if err := o.Check(); err != nil {
		return &exitError{exitUsage, err}
	}
	if o.NoSamples {
		return usagef("-n: a bundle is of the binaries that samples are in")
	}
	if _, err := c.arc.planOptions(""); err != nil {
		return err
	}
	if err := c.hiding(); err != nil {
		return err
	}
	c.arc.again = "perfark"
	for _, arg := range o.Cmdline[1:] {
		c.arc.again += " " + shellQuote(arg)
	}
	if !c.json {
		c.stdout = bufio.NewWriter(c.stderr) // what is printed; standard output is the command's
	}
	return nil
}

func (c *captureCmd) run(ctx context.Context) error {
	if err := c.prepare(); err != nil {
		return err
	}
	out := c.output
	switch {
	case out == "-" && isTerminal(os.Stdout):
		return hintf(usagef("standard output is a terminal: a bundle is not written to it"), "-o FILE")
	case out == "-" && (c.json || c.keepData):
		return usagef("-o -: want a file with --json or --keep-data")
	case out == "":
		out = capture.BundleName("", c.bundleHost(), time.Now())
	}
	where := os.TempDir()
	if out != "-" {
		if err := safeDir(out); err != nil {
			return err
		}
		// What would refuse the bundle at the end does so now.
		if fi, err := os.Lstat(out); err == nil && !fi.Mode().IsRegular() {
			return fmt.Errorf("%s: there, and not a regular file", out)
		}
		where = filepath.Dir(out)
	}
	// The recording is beside the bundle: room is needed there in any case, and
	// what is for temporary files is often memory.
	work, err := newWorkDir(where)
	if err != nil {
		return err
	}
	defer work.remove()
	w := &window{work: work.name, bundle: out}
	if out == "-" {
		w.bundle = filepath.Join(work.name, "stdout.perfark")
	}
	if err := c.window(ctx, w); err != nil {
		return err
	}
	if out == "-" {
		if err := c.toStdout(w); err != nil {
			return err
		}
	}
	return c.status(w, out)
}

// A window is one recording and the bundle that becomes of it.
type window struct {
	work   string // a directory for what is not to stay
	bundle string // the name of the file
	pack   archive.PackOptions

	unattended bool  // it is one of many: nobody reads what is printed
	room       int64 // bytes that may be written beside the bundle; 0: any number
	strain     capture.Strain

	stats  *record.Stats
	result *archive.Result
	lost   error // what kept the recording from being whole
	signal error // what ended it, if that was a signal
}

// window makes a recording and its bundle. A signal ends the recording, and the
// bundle is still made; where there are many it ends all.
func (c *captureCmd) window(ctx context.Context, w *window) error {
	data := filepath.Join(w.work, "perf.data")
	if err := c.record(ctx, w, data); err != nil {
		return err
	}
	switch w.signal = context.Cause(ctx); {
	case w.signal != nil && w.unattended:
		return w.signal
	case w.signal != nil:
		ctx = context.WithoutCancel(ctx) // a second signal ends the process
	default:
		patient.Store(false)
	}
	if c.keepData {
		var err error
		if data, err = c.keep(w, data); err != nil {
			return err
		}
	}
	return c.pack(ctx, w, data)
}

// status returns the end of the command for a window, whose bundle is there.
func (c *captureCmd) status(w *window, out string) error {
	if w.lost != nil {
		return w.lost
	}
	if err := c.arc.incomplete(out, w.result); err != nil {
		return err
	}
	if w.signal != nil && (w.stats.Ran || c.duration > 0) {
		return &exitError{code: exitCode(w.signal)}
	}
	if w.stats.Status != 0 {
		return &exitError{code: w.stats.Status}
	}
	return nil
}

// note prints what is of no importance to who asked for quiet.
func (c *captureCmd) note(format string, args ...any) { c.rec.note(format, args...) }

// record makes the recording of a window. It is completed also if ctx is done.
func (c *captureCmd) record(ctx context.Context, w *window, data string) error {
	f, err := os.OpenFile(data, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	o := c.rec.o
	o.Copies.Dir = filepath.Join(w.work, "debug")
	if o.Freq /= w.strain.Rate(); o.FreqMax && w.strain > capture.Ease {
		o.Freq, o.FreqMax = dirFreq, false
	}
	o.Period *= w.strain.Rate()
	if w.room > 0 { // the other half is for the bundle
		o.MaxSize = min(cmp.Or(o.MaxSize, w.room/2), w.room/2)
		o.Copies.MaxBytes = min(cmp.Or(o.Copies.MaxBytes, w.room/4), w.room/4)
	}
	patient.Store(!w.unattended)
	note := c.rec.note
	if w.unattended && c.noted { // it would be the same each time
		note = func(string, ...any) {}
	}
	if w.stats, err = record.Run(ctx, f, o, note); err != nil {
		return err
	}
	c.noted = true
	if err := f.Close(); err != nil {
		return err
	}
	if w.unattended {
		if w.stats.Lost > 0 {
			c.notef("%d of %d samples were lost", w.stats.Lost, w.stats.Lost+w.stats.Samples)
		}
		return nil
	}
	c.rec.losses(w.stats)
	if !c.quiet {
		fmt.Fprintf(c.stderr, "[ perfark capture: recorded %s (%s) ]\n", bytesText(w.stats.Size), count(w.stats.Samples, "sample"))
	}
	return nil
}

// pack makes the bundle of a window, and says what is in it.
func (c *captureCmd) pack(ctx context.Context, w *window, data string) error {
	in, err := c.openInput(ctx, data)
	if err != nil {
		return err
	}
	defer in.Close()
	o, err := c.arc.planOptions("")
	if err != nil {
		return err
	}
	if w.strain >= capture.NoDebug {
		o.DebugInfo = archive.DebugNone
	}
	if c.policy != nil {
		if in, err = c.conceal(ctx, in, *c.policy, data+".redacted"); err != nil {
			return err
		}
		defer os.Remove(data + ".redacted")
		defer in.Close()
		o.Data = in.hidden.data
	} else if o.Data, err = c.arc.rawData(data, in, true); err != nil {
		return err
	}
	c.copies = filepath.Join(w.work, "debug")
	pl, err := c.arc.plan(ctx, in, "the recording", o)
	if err != nil {
		return err
	}
	defer pl.Close()
	w.pack.Format = archive.Bundle
	if w.room > 0 {
		if w.pack.Room = w.room - treeSize(w.work); w.pack.Room <= 0 {
			return archive.ErrNoRoom
		}
	}
	if in.hidden != nil {
		w.pack.Check = c.noNames(ctx, in.hidden, w.pack.Pool)
	}
	if w.result, err = c.arc.pack(ctx, pl, w.bundle, w.pack); err != nil {
		return err
	}
	if in.hidden != nil {
		if err := in.hidden.kept(w.bundle); err != nil {
			c.notef("%s", err)
		}
	}
	w.lost = c.lossError(in, pl.res)
	if w.unattended {
		return nil
	}
	name := w.bundle
	if c.output == "-" {
		name = "standard output"
	}
	return c.arc.printPacked(name, archive.Bundle, w.result, pl)
}

// keep gives the recording of a window the name that --keep-data says. What is
// there goes to that name with .old, as with record.
func (c *captureCmd) keep(w *window, data string) (string, error) {
	name := strings.TrimSuffix(w.bundle, archive.Bundle.Ext()) + ".data"
	if _, err := os.Lstat(name); err == nil {
		if err := os.Rename(name, name+".old"); err != nil {
			return "", err
		}
	}
	return name, os.Rename(data, name)
}

// toStdout writes the bundle of a window to standard output.
func (c *captureCmd) toStdout(w *window) error {
	f, err := os.Open(w.bundle)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(c.out, f)
	return err
}

// hiding reads what is to be redacted.
func (c *captureCmd) hiding() error {
	switch {
	case c.redact.policy == "" && c.redact.given():
		return usagef("want --redact with what says how it is done")
	case c.redact.policy == "":
		return nil
	case c.keepData:
		return usagef("--keep-data would leave the recording as it was before --redact; perfark unpack takes the redacted one out of the bundle")
	}
	p, err := c.redact.read()
	c.policy = &p
	return err
}

// bundleHost is what names of bundles begin with: this host, unless that is to
// be redacted.
func (c *captureCmd) bundleHost() string {
	if c.policy != nil && c.policy.Hosts != redact.Keep {
		return "capture"
	}
	return hostname()
}

// A workDir is a directory of this run alone. It is locked, so that those which
// killed processes left are known.
type workDir struct {
	name   string
	lock   *os.File
	forget func()
}

const workPrefix = capture.WorkPrefix

// newWorkDir makes a directory in dir, and removes what is left there of
// others that were killed.
func newWorkDir(dir string) (*workDir, error) {
	sweepWork(dir)
	for again := 0; ; again++ {
		name, err := os.MkdirTemp(dir, workPrefix)
		if err != nil {
			return nil, err
		}
		w := &workDir{name: name, forget: keepTemp(name)}
		if err = w.take(); err == nil {
			return w, nil
		}
		w.remove()
		// One that begins at the same time may have taken it for what is left.
		if again == 100 || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: %w", name, pathless(err))
		}
	}
}

// take locks the directory, so that nobody removes it.
func (w *workDir) take() error {
	var err error
	if w.lock, err = os.Open(w.name); err != nil {
		return err
	}
	if err := unix.Flock(int(w.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return err
	}
	_, err = os.Lstat(w.name) // it may have been removed before it was locked
	return err
}

func (w *workDir) remove() {
	os.RemoveAll(w.name)
	w.forget()
	if w.lock != nil {
		w.lock.Close()
	}
}

// sweepWork removes the directories of processes that were killed.
func sweepWork(dir string) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range list {
		if strings.HasPrefix(e.Name(), workPrefix) && e.IsDir() {
			archive.RemoveStale(filepath.Join(dir, e.Name()))
		}
	}
}
