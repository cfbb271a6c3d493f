package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/annotate"
	"github.com/perfark/perfark/browse"
	"github.com/perfark/perfark/disasm"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/session"
	"github.com/perfark/perfark/symbol"
)

// addBrowserFlags binds the flags that choose between text and the browser.
func addBrowserFlags(fs *pflag.FlagSet, stdio, tui, plain *bool) {
	fs.BoolVar(stdio, "stdio", false, "print text, on a terminal too")
	fs.BoolVar(tui, "tui", false, "browse on the terminal, which is what a terminal gets unless other flags want text")
	fs.BoolVar(plain, "plain", false, "browse without drawing on the screen: a line for each change, for screen readers")
}

// terminal returns the streams of a browser: those of perfark where they are a
// terminal, nil if not. With force, standard input may be something else.
func (a *app) terminal(force bool) (in *os.File, out *os.File, done func(), err error) {
	done = func() {}
	out, ok := a.out.w.(*os.File)
	if !ok || !isTerminal(out) {
		if force {
			return nil, nil, done, usagef("--tui: standard output is no terminal")
		}
		return nil, nil, done, nil
	}
	if in, ok = a.stdin.(*os.File); ok && isTerminal(in) {
		if !force && (a.env.term == "dumb" || a.env.term == "") {
			return nil, nil, done, nil
		}
		return in, out, done, nil
	}
	if !force {
		return nil, nil, done, nil
	}
	if in, err = os.OpenFile("/dev/tty", os.O_RDWR, 0); err != nil {
		return nil, nil, done, fmt.Errorf("--tui: %w", err)
	}
	return in, out, func() { in.Close() }, nil
}

// A collector keeps what is written while the screen is not to be written on.
type collector struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (c *collector) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.b.Write(p)
}

func (c *collector) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.b.Reset()
}

func (c *collector) lines() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.b.Len() == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(c.b.String(), "\n"), "\n")
}

// within returns an app with the options of a, that prints elsewhere.
func (a *app) within(stdout, stderr io.Writer, watch func(what string, n, total int64)) *app {
	b := &app{
		stdin: a.stdin, stderr: stderr, env: a.env, args: a.args, root: a.root, buildIDDir: a.buildIDDir, noPager: true,
		input: a.input, force: a.force, symbols: a.symbols, debugDirs: a.debugDirs, noIndex: a.noIndex,
		limits: a.limits, archives: a.archives, quiet: a.quiet, verbose: a.verbose, copies: a.copies, memory: a.memory,
	}
	b.out = &output{w: stdout, cancel: func(error) {}}
	b.stdout = bufio.NewWriter(b.out)
	b.meters.watch = watch
	return b
}

// runBrowser shows a browser on the terminal, and then what was said meanwhile.
func (a *app) runBrowser(ctx context.Context, in, out *os.File, notes *collector, o browse.Options) error {
	o.In, o.Out = in, out
	o.Env = os.Environ()
	o.NoColor = a.env.noColor || strings.HasPrefix(a.env.term, "vt1") || a.env.term == "vt220" || a.env.term == "dumb"
	o.ASCII = !a.env.utf8
	o.Plain = o.Plain || a.env.term == "dumb"
	o.Mouse = a.env.mouse
	o.Notes = notes.lines
	o.Save = saveNumbered
	stopped, continued := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(stopped, syscall.SIGTSTP)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	defer signal.Stop(stopped)
	o.Stopped, o.Continued = stopped, continued
	o.Stop, o.CanStop = stop, hasShell
	defer keepScreen(in, out)()
	err := browse.Run(ctx, o)
	io.WriteString(a.stderr, strings.Join(append(notes.lines(), ""), "\n"))
	if p, ok := errors.AsType[*browse.Panic](err); ok {
		return &exitError{code: a.bug(p.Value, p.Stack)}
	}
	return err
}

// stop stops the process, and those that began with it if a key wants that. It
// returns when it is continued. SIGSTOP does it, as Go has no way back to what
// SIGTSTP does by itself.
func stop(by browse.Stopper) {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	pid := os.Getpid()
	if by == browse.ByKey {
		pid = 0 // the process group, as the terminal does it
	}
	if syscall.Kill(pid, syscall.SIGSTOP) == nil {
		<-continued
	}
}

// hasShell reports whether anybody can continue the process when it is stopped:
// a process of the same session that one of the process group came from.
func hasShell() bool {
	const deepest = 64
	group, pid := unix.Getpgrp(), os.Getpid()
	session, err := unix.Getsid(0)
	if err != nil {
		return false
	}
	for range deepest {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return false
		}
		_, rest, _ := strings.Cut(string(status), "\nPPid:")
		if _, err := fmt.Sscan(rest, &pid); err != nil || pid <= 0 {
			return false
		}
		switch g, err := unix.Getpgid(pid); {
		case err != nil:
			return false
		case g != group:
			s, err := unix.Getsid(pid)
			return err == nil && s == session
		}
	}
	return false
}

// saveNumbered writes a new file. A * in its name is the first number that is
// not taken. What cannot be written whole is removed.
func saveNumbered(name string, write func(io.Writer) error) (string, error) {
	before, after, numbered := strings.Cut(name, "*")
	const most = 1000
	for i := range most {
		if numbered {
			name = fmt.Sprint(before, i, after)
		}
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		switch {
		case numbered && errors.Is(err, os.ErrExist):
			continue
		case err != nil:
			return "", fmt.Errorf("%s: %w", name, pathless(err))
		}
		w := bufio.NewWriter(f)
		err = write(w)
		if ferr := w.Flush(); err == nil {
			err = ferr
		}
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			os.Remove(name)
			return "", fmt.Errorf("%s: %w", name, pathless(err))
		}
		return name, nil
	}
	return "", fmt.Errorf("%s: %d of them are there already", name, most)
}

// recordingsHere returns the other recordings and bundles among the first files
// of this directory, by name.
func recordingsHere(but string) []string {
	const most = 1000
	dir, err := os.Open(".")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(most)
	var out []string
	for _, name := range names {
		if name == but || name == filepath.Clean(but) {
			continue
		}
		if strings.HasSuffix(name, ".perfark") || isRecording(name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// isRecording reports whether a regular file begins as a recording does.
func isRecording(name string) bool {
	fi, err := os.Stat(name)
	if err != nil || !fi.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	var magic [8]byte
	if _, err := io.ReadFull(f, magic[:]); err != nil {
		return false
	}
	return string(magic[:]) == "PERFILE2" || string(magic[:]) == "2ELIFREP"
}

// browses reports whether the report is browsed: on a terminal, unless a flag
// is of text.
func (c *reportCmd) browses() (bool, error) {
	text := c.stdio || c.json || c.quiet || c.headerOnly || c.stats || c.tasks || c.mmaps || c.totalCycles
	switch {
	case c.tui && text:
		return false, usagef("--tui does not go together with flags that want text")
	case c.tui, c.plain && !text:
		_, _, done, err := c.terminal(true)
		done()
		return err == nil, err
	case text, c.separator != "", c.header, c.threads: // of which perf has the last two as text, too
		return false, nil
	}
	in, _, done, err := c.terminal(false)
	done()
	return in != nil, err
}

// browse shows the report in a browser.
func (c *reportCmd) browse(ctx context.Context, cmd *cobra.Command, name string) error {
	in, out, done, err := c.terminal(c.tui || c.plain)
	if err != nil {
		return err
	}
	defer done()
	if _, err := c.options(cmd); err != nil { // of the command line
		return err
	}
	notes := &collector{}
	c.code.app = c.app
	page, err := c.code.page()
	if err != nil {
		return err
	}
	b := &reportBrowser{c: c, cmd: cmd, name: name, notes: notes, code: &c.code}
	return b.run(ctx, in, out, browse.Options{Plain: c.plain, Percent: page.Type, NoSource: !c.code.sources})
}

// browses reports whether code is browsed: on a terminal, unless a flag is of
// text.
func (c *annotateCmd) browses() (bool, error) {
	text := c.stdio || c.stdio2 || c.json || c.quiet
	switch {
	case c.tui && text:
		return false, usagef("--tui does not go together with flags that want text")
	case text, !c.tui && !c.plain && (c.lines || c.limit > 0):
		return false, nil
	}
	in, _, done, err := c.terminal(c.tui || c.plain)
	done()
	return in != nil, err
}

// browse shows the code of a function in a browser, and behind it all
// functions.
func (c *annotateCmd) browse(ctx context.Context, name string) error {
	in, out, done, err := c.terminal(c.tui || c.plain)
	if err != nil {
		return err
	}
	defer done()
	page, err := c.page()
	if err != nil {
		return err
	}
	// The table is a report by function, with the flags that both have.
	r, cmd := reportCommand(&app{env: c.env})
	r.app, r.filterFlags, r.symbolFlags, r.workers = c.app, c.filterFlags, c.symbolFlags, c.workers
	for flag, value := range map[string]string{"no-children": "true", "no-call-graph": "true", "sort": "dso,symbol"} {
		if err := cmd.Flags().Set(flag, value); err != nil {
			return err
		}
	}
	notes := &collector{}
	b := &reportBrowser{c: r, cmd: cmd, name: name, notes: notes, code: c}
	return b.run(ctx, in, out, browse.Options{
		Plain: c.plain, Code: true, Symbol: c.symbol, Value: page.Value, Percent: page.Type, NoSource: !c.sources,
	})
}

// A reportBrowser loads what a browser of reports asks for, one after the
// other.
type reportBrowser struct {
	c     *reportCmd
	cmd   *cobra.Command
	name  string
	notes *collector
	code  *annotateCmd // how code is shown

	mu   sync.Mutex
	loss atomic.Pointer[error] // of what was loaded last
}

// run shows the browser. Its error is that of what was shown last.
func (b *reportBrowser) run(ctx context.Context, in, out *os.File, o browse.Options) error {
	o.Title, o.Load = b.name, b.load
	o.Files = func() []string { return recordingsHere(b.name) }
	if err := b.c.runBrowser(ctx, in, out, b.notes, o); err != nil {
		return err
	}
	if loss := b.loss.Load(); loss != nil {
		return *loss
	}
	return nil
}

func (b *reportBrowser) load(ctx context.Context, req browse.Request, progress *browse.Progress) (*browse.Data, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	defer collectLate(25)()
	b.notes.reset()
	c := *b.c
	c.app = b.c.within(io.Discard, b.notes, progress.Set)
	c.stacks = true
	name := b.name
	if req.File != "" {
		name, c.input = req.File, ""
	}
	if req.Times != "" {
		c.times = req.Times
	}
	o, err := c.options(b.cmd)
	if err != nil {
		return nil, err
	}
	in, err := c.openInput(ctx, name)
	if err != nil {
		return nil, err
	}
	so, err := c.bind(ctx, in, &o, b.cmd.Flags().Changed("sort"))
	var r *reported
	if err == nil {
		so.Stretches = true // which code is shown with
		r, err = c.make(ctx, in, o, so)
	}
	if err != nil {
		in.Close()
		return nil, err
	}
	progress.Set("finishing", 0, 0)
	loss := c.conclude(r)
	b.loss.Store(&loss)
	d := &browse.Data{
		Name: in.Name(), Tables: r.tables, Page: c.page(r), Profile: r.res.Profile,
		Info: func() (string, error) {
			var s strings.Builder
			err := writeHeader(&s, in.File, headerOptions{all: true})
			return s.String(), err
		},
		Close: func() {
			r.src.Close()
			in.Close()
		},
	}
	a := *b.code
	a.app = c.app
	page, err := a.page()
	if err != nil {
		d.Close()
		return nil, err
	}
	code := &codeBrowser{in: in, p: &r.flat, page: page}
	symbols := symbol.Options{
		Source: c.source(in.sources(r.src), r.res.Profile), Workers: c.workers, BPFLine: in.bpfLine(), BPFCode: in.bpfCode(),
		Index: c.indexes(), Limits: c.limits,
	}
	code.options = annotate.Options{Symbol: symbols, Disasm: disasm.Options{Intel: a.style == "intel"}, Objdump: a.objdump}
	if code.source, err = a.sourceFiles(ctx, in); err != nil {
		d.Close()
		return nil, err
	}
	if a.finder != nil {
		code.options.Symbol.SourceSum = a.finder.sum
	}
	d.Code = code.code
	if d.Pages, err = b.pages(ctx, in); err != nil {
		d.Close()
		return nil, err
	}
	if in.uid >= 0 || in.bundle != nil { // not of a pipe, which is gone
		d.Timeline = func(ctx context.Context, parts int) (*browse.Timeline, error) { return timeline(ctx, in.File, parts) }
		d.Samples = func(ctx context.Context, s browse.Selection) (string, error) {
			return b.samples(ctx, name, req.Times, s)
		}
		d.Doctor = func(ctx context.Context) (string, error) { return b.doctor(ctx, name) }
	}
	return d, nil
}

// doctor returns the page of perfark doctor.
func (b *reportBrowser) doctor(ctx context.Context, name string) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var text bytes.Buffer
	d := &doctorCmd{app: b.c.within(&text, b.notes, func(string, int64, int64) {}), workers: b.c.workers}
	err := d.run(ctx, name, false)
	d.stdout.Flush()
	if text.Len() > 0 {
		return text.String(), nil
	}
	return "", err
}

// timeline counts the samples of a recording by time.
func timeline(ctx context.Context, f *perfdata.File, parts int) (*browse.Timeline, error) {
	first, last, err := session.SampleTimes(ctx, f)
	if err != nil {
		return nil, err
	}
	t := &browse.Timeline{Start: first, End: last, Counts: make([]uint64, parts)}
	if last <= first {
		return t, nil
	}
	d := perfdata.NewDecoder(f)
	err = session.EachRecord(ctx, f, func(typ perfdata.Type, rec []byte, _ int64) {
		if typ != perfdata.RecordSample {
			return
		}
		if at := d.Time(rec); at >= first && at <= last {
			i := int(float64(at-first) / float64(last-first) * float64(parts))
			t.Counts[min(i, parts-1)]++
		}
	})
	t.End++
	return t, err
}
