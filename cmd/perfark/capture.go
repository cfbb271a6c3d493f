package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/archive"
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

Exit status: 1 there is no bundle; 3 something is missing from it (--allow-missing and
--min-coverage say what is good enough); else that of COMMAND; 128 and the number of
the signal that cut a COMMAND or --duration short; 0 without either; 2 wrong usage.`,
		Example: `  perfark capture -g -- ./server
  perfark capture -F 99 -a -g --duration 20s -o now.perfark
  perfark capture -p 4711 --call-graph dwarf --duration 10s --slim
  perfark capture --ssh root@db1 -a -g --duration 20s`,
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
			return c.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&c.output, "output", "o", "", "write `FILE`, or - for standard output (default: HOST-TIME.perfark)")
	fs.Var(&c.duration, "duration", "end the recording after `TIME`, such as 20s or 5m")
	fs.BoolVar(&c.keepData, "keep-data", false, "leave the recording too, as FILE with .data for .perfark")
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
		out = freeName("", c.bundleName(time.Now()), archive.Bundle.Ext())
	}
	where := os.TempDir()
	if out != "-" {
		if err := safeDir(out); err != nil {
			return err
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
	w := window{data: filepath.Join(work.name, "perf.data"), bundle: out}
	if out == "-" {
		w.bundle = filepath.Join(work.name, "stdout.perfark")
	}
	st, err := c.record(ctx, &w)
	if err != nil {
		return err
	}
	signal := context.Cause(ctx)
	if signal != nil {
		ctx = context.WithoutCancel(ctx) // a second signal ends the process
	} else {
		patient.Store(false)
	}
	if c.keepData {
		if err := c.keep(&w); err != nil {
			return err
		}
	}
	r, err := c.pack(ctx, &w)
	if err != nil {
		return err
	}
	if out == "-" {
		if err := c.toStdout(&w); err != nil {
			return err
		}
	}
	if err := c.arc.incomplete(out, r); err != nil {
		return err
	}
	if signal != nil && (st.Ran || c.duration > 0) {
		return &exitError{code: exitCode(signal)}
	}
	if st.Status != 0 {
		return &exitError{code: st.Status}
	}
	return nil
}

// A window is one recording and the bundle that becomes of it.
type window struct {
	data, bundle string // names of files
	pack         archive.PackOptions
}

// record makes the recording of a window. It is completed also if ctx is done.
func (c *captureCmd) record(ctx context.Context, w *window) (*record.Stats, error) {
	f, err := os.OpenFile(w.data, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	patient.Store(true)
	st, err := record.Run(ctx, f, c.rec.o, c.rec.note)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	c.rec.losses(st)
	if !c.quiet {
		fmt.Fprintf(c.stderr, "[ perfark capture: recorded %s (%s) ]\n", bytesText(st.Size), count(st.Samples, "sample"))
	}
	return st, nil
}

// pack makes the bundle of a window, and says what is in it.
func (c *captureCmd) pack(ctx context.Context, w *window) (*archive.Result, error) {
	in, err := c.openInput(ctx, w.data)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	o, err := c.arc.planOptions("")
	if err != nil {
		return nil, err
	}
	if c.policy != nil {
		if in, err = c.conceal(ctx, in, *c.policy, w.data+".redacted"); err != nil {
			return nil, err
		}
		defer os.Remove(w.data + ".redacted")
		defer in.Close()
		o.Data = in.hidden.data
	} else if o.Data, err = c.arc.rawData(w.data, in, true); err != nil {
		return nil, err
	}
	pl, err := c.arc.plan(ctx, in, "the recording", o)
	if err != nil {
		return nil, err
	}
	defer pl.Close()
	w.pack.Format = archive.Bundle
	r, err := c.arc.pack(ctx, pl, w.bundle, w.pack)
	if err != nil {
		return nil, err
	}
	if in.hidden != nil {
		if err := c.searchBundle(ctx, in.hidden, w.bundle); err != nil {
			os.Remove(w.bundle)
			return nil, err
		}
		if err := in.hidden.kept(w.bundle); err != nil {
			c.notef("%s", err)
		}
	}
	name := w.bundle
	if c.output == "-" {
		name = "standard output"
	}
	if err := c.arc.printPacked(name, archive.Bundle, r, pl); err != nil {
		return nil, err
	}
	return r, c.lossError(in, pl.res)
}

// keep gives the recording of a window the name that --keep-data says. What is
// there goes to that name with .old, as with record.
func (c *captureCmd) keep(w *window) error {
	name := strings.TrimSuffix(w.bundle, archive.Bundle.Ext()) + ".data"
	if _, err := os.Lstat(name); err == nil {
		if err := os.Rename(name, name+".old"); err != nil {
			return err
		}
	}
	if err := os.Rename(w.data, name); err != nil {
		return err
	}
	w.data = name
	return nil
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

// bundleName returns the name of a bundle, which has that of this host in it
// unless that is to be redacted.
func (c *captureCmd) bundleName(now time.Time) string {
	if c.policy != nil && c.policy.Hosts != redact.Keep {
		return bundleNameOf("capture", now)
	}
	return bundleName(now)
}

// bundleName returns the name of a bundle of this host, without its end, of a
// recording that begins now.
func bundleName(now time.Time) string {
	host, _ := os.Hostname()
	return bundleNameOf(host, now)
}

// bundleNameOf is bundleName for a host.
func bundleNameOf(host string, now time.Time) string {
	safe := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '_'
	}
	host = strings.TrimLeft(strings.Map(safe, host), ".-")
	if host == "" {
		host = "host"
	}
	return host[:min(len(host), 100)] + "-" + now.UTC().Format("20060102T150405Z")
}

// freeName returns the name of a file that is not there: base with ext, or
// with a number between them.
func freeName(dir, base, ext string) string {
	name := filepath.Join(dir, base+ext)
	for i := 2; ; i++ {
		if _, err := os.Lstat(name); err != nil {
			return name
		}
		name = filepath.Join(dir, fmt.Sprintf("%s-%d%s", base, i, ext))
	}
}

// A workDir is a directory of this run alone. It is locked, so that those which
// killed processes left are known.
type workDir struct {
	name   string
	lock   *os.File
	forget func()
}

const workPrefix = ".perfark-capture-"

// newWorkDir makes a directory in dir, and removes what is left there of
// others that were killed.
func newWorkDir(dir string) (*workDir, error) {
	sweepWork(dir)
	name, err := os.MkdirTemp(dir, workPrefix)
	if err != nil {
		return nil, err
	}
	w := &workDir{name: name, forget: keepTemp(name)}
	if w.lock, err = os.Open(name); err == nil {
		err = unix.Flock(int(w.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		w.remove()
		return nil, fmt.Errorf("%s: %w", name, pathless(err))
	}
	return w, nil
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
		if !strings.HasPrefix(e.Name(), workPrefix) || !e.IsDir() {
			continue
		}
		name := filepath.Join(dir, e.Name())
		fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && int(st.Uid) == os.Geteuid() && unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil {
			os.RemoveAll(name)
		}
		unix.Close(fd)
	}
}
