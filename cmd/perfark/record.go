package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/record"
	"github.com/perfark/perfark/redact"
)

// A process that was started to be recorded becomes the program that it is
// told, and does so here: while packages are initialised the runtime keeps this
// goroutine on the first thread of the process, where the events are.
func init() {
	if record.Waiting() {
		record.Wait()
	}
}

// A recordCmd is a run of perfark record.
type recordCmd struct {
	*app
	o record.Options

	events                                 []eventArg
	switchEvents                           []eventArg
	intrRegs, userRegs                     string
	synth, control                         string
	dryRun, buffering                      bool
	refused                                string // a flag that there is not, and why
	freq                                   string
	cpus                                   string
	pids                                   []string
	tids                                   []string
	users                                  []string
	cgroups                                []string
	g                                      bool
	callGraph                              string
	branchAny                              bool
	branches                               []string
	output                                 string
	pages                                  string
	compress                               string
	delay                                  string
	clock                                  string
	maxSize                                sizeValue
	switches                               string
	maxFiles                               int
	stamp                                  bool
	periodGiven                            *bool
	time                                   bool
	cache, inherit, samples, bpf, buildIDs bool
	allIDs                                 bool
	boundary                               bool
	keepCmdline                            bool
}

func newRecordCmd(a *app) *cobra.Command {
	c := &recordCmd{app: a}
	cmd := &cobra.Command{
		Use:   "record [-- COMMAND ARG...]",
		Short: "record a profile of a command, of processes, or of the whole system",
		Long: `Record samples what COMMAND, some processes or threads, users, cgroups, or all
processors do, and writes a recording that perf reads as one of its own. No perf is
needed on this host. Flags are those of perf record; without -e it counts cycles, or
on machines without such a counter the time of a timer; without a COMMAND or another
target it is all processors.

The identity of each binary is taken when it is mapped, so that it is right for files
that are replaced or deleted before the end. What is in the file is a whole recording
at any time, also after kill -9.

A file that stands in the place of the recording is renamed to FILE.old. With -o -,
or if standard output is a pipe, the recording is written to standard output, and
COMMAND writes to standard error.

With CAP_PERFMON all this works without root; with less, what may be recorded is, and
a message says what is missing and what would bring it.

Exit status: that of COMMAND, 128 and the number if a signal ended it; 1 nothing
could be recorded; 2 wrong usage.`,
		Example: `  perfark record -g -- ./server
  perfark record -F 99 -a --call-graph dwarf -- sleep 20
  perfark record -p 4711 -e cpu-clock,page-faults -o - | perfark report -i -`,
		Annotations: map[string]string{likePerf: "yes", untilWord: "yes"},
		Args:        cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.o.Command = args
			return c.run(cmd.Context())
		},
	}
	c.addTargetFlags(cmd)
	c.addSampleFlags(cmd)
	c.addBufferFlags(cmd)
	c.addFileFlags(cmd)
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// addTargetFlags binds what is recorded, and how often.
func (c *recordCmd) addTargetFlags(cmd *cobra.Command) {
	fs, o := cmd.Flags(), &c.o
	c.addEventFlags(fs)
	fs.StringVarP(&c.freq, "freq", "F", "", "take `N` samples a second, or max (default: 4000)")
	fs.Uint64VarP(&o.Period, "count", "c", 0, "take a sample every `N` events")
	addSwitch(fs, &o.All, "all-cpus", "a", false, "record all processors")
	fs.StringVarP(&c.cpus, "cpu", "C", "", "record the processors `LIST`, such as 0-2,5")
	fs.StringSliceVarP(&c.pids, "pid", "p", nil, "record the processes `PID,…`")
	fs.StringSliceVarP(&c.tids, "tid", "t", nil, "record the threads `TID,…`")
	fs.StringSliceVarP(&c.users, "uid", "u", nil, "record the processes of the users `USER,…`, by name or number")
	fs.StringSliceVarP(&c.cgroups, "cgroup", "G", nil, "record the cgroup `NAME` alone; with several, the first event that of the first, and so on")
	addSwitch(fs, &c.inherit, "no-inherit", "i", true, "do not record what the target starts")
	addSwitch(fs, &o.PerThread, "per-thread", "", false, "have a buffer for each thread, not for each processor")
	addSwitch(fs, &o.Group, "group", "", false, "make all events one group")
	addSwitch(fs, &o.AllUser, "all-user", "", false, "record user space alone")
	addSwitch(fs, &o.AllKernel, "all-kernel", "", false, "record the kernel alone")
	fs.StringVarP(&c.delay, "delay", "D", "", "begin `MS` milliseconds after the start of the program, or record at times such as 10-20,30-40; -1: never, for what is only mapped, or until --control says so")
	addSwitch(fs, &o.StrictFreq, "strict-freq", "", false, "fail if the frequency is more than the kernel allows")
}

// addSampleFlags binds what samples hold, and which other records there are.
func (c *recordCmd) addSampleFlags(cmd *cobra.Command) {
	fs, o := cmd.Flags(), &c.o
	fs.BoolVarP(&c.g, "g", "g", false, "record call chains by frame pointers")
	fs.StringVar(&c.callGraph, "call-graph", "", "record call chains by `MODE`: fp, dwarf[,SIZE] with SIZE bytes of stack (default: 8192), lbr")
	addSwitch(fs, &o.Callgraph.NoKernel, "user-callchains", "", false, "record the user part of call chains alone")
	addSwitch(fs, &o.Callgraph.NoUser, "kernel-callchains", "", false, "record the kernel part of call chains alone")
	addSwitch(fs, &c.branchAny, "branch-any", "b", false, "record branches of all kinds")
	fs.StringSliceVarP(&c.branches, "branch-filter", "j", nil, "record branches of the `KINDS` any, any_call, any_ret, ind_call, ind_jmp, call, cond, stack, u, k, hv, …")
	addSwitch(fs, &o.Address, "data", "d", false, "record the addresses of data")
	addSwitch(fs, &o.PhysAddr, "phys-data", "", false, "record physical addresses of data")
	addSwitch(fs, &o.DataPageSize, "data-page-size", "", false, "record the size of the page of data")
	addSwitch(fs, &o.CodePageSize, "code-page-size", "", false, "record the size of the page of code")
	c.periodGiven = addSwitch(fs, &o.AlwaysPeriod, "period", "P", false, "record the period of each sample")
	addSwitch(fs, &o.Weight, "weight", "W", false, "record weights")
	addSwitch(fs, &o.Transaction, "transaction", "", false, "record flags of transactions")
	addSwitch(fs, &o.Raw, "raw-samples", "R", false, "record raw data of all events")
	c.addRegisterFlags(fs)
	addSwitch(fs, &o.Identifier, "sample-identifier", "", false, "record the id of the event of each sample")
	addSwitch(fs, &o.SampleCPU, "sample-cpu", "", false, "record the processor of each sample")
	addSwitch(fs, &c.time, "timestamp", "T", true, "record the time of each sample")
	addSwitch(fs, &o.Stat, "stat", "s", false, "record what each thread counted")
	addSwitch(fs, &c.samples, "no-samples", "n", true, "record no samples, only what is mapped and started")
	addSwitch(fs, &o.RunningTime, "running-time", "", false, "record how long counters were on with :S events")
	addSwitch(fs, &o.Namespaces, "namespaces", "", false, "record namespaces")
	addSwitch(fs, &o.AllCgroups, "all-cgroups", "", false, "record cgroups, and that of each sample")
	addSwitch(fs, &o.Switches, "switch-events", "", false, "record context switches")
	addSwitch(fs, &c.bpf, "no-bpf-event", "", true, "do not record BPF programs")
	fs.StringVarP(&c.clock, "clockid", "k", "", "take the times of `CLOCK`: mono, raw, real, boot, tai")
	addSwitch(fs, &c.buildIDs, "no-buildid", "B", true, "take no Build IDs")
	addSwitch(fs, &c.cache, "no-buildid-cache", "N", true, "do not copy files that will not be there later to the cache of --buildid-dir")
	c.addCopyFlags(fs)
	addSwitch(fs, &c.allIDs, "buildid-all", "", false, "accepted as perf has it: Build IDs are taken of all that is mapped")
	addSwitch(fs, &c.o.KernelIDs, "buildid-mmap", "", false, "ask the kernel for Build IDs too, which perf 6.1 recording beside it dies of")
	fs.BoolVar(&c.keepCmdline, "keep-cmdline", false, "note the command line as it is: without it passwords, tokens and keys in it become ***")
	addSwitch(fs, &c.boundary, "timestamp-boundary", "", false, "accepted as perf has it: the times of the first and last sample are always noted")
}

// addBufferFlags binds how records reach the file.
func (c *recordCmd) addBufferFlags(cmd *cobra.Command) {
	fs, o := cmd.Flags(), &c.o
	fs.StringVarP(&c.pages, "mmap-pages", "m", "", "have buffers of `N` pages, or of a size such as 512K, for each processor (default: 512K)")
	fs.StringVarP(&c.compress, "compression-level", "z", "", "compress records with zstd at `LEVEL` 1 to 22 (default: 1)")
	f := fs.Lookup("compression-level")
	f.NoOptDefVal = "1"
	f.Annotations = map[string][]string{stickyValue: {}}
	fs.Var(&c.maxSize, "max-size", "end when the file has `SIZE`")
	addSwitch(fs, &c.buffering, "no-buffering", "", true, "read records as soon as they are there")
	fs.IntVarP(&o.Priority, "realtime", "r", 0, "read buffers with the real-time priority `N`, SCHED_FIFO")
	fs.StringVar(&c.synth, "synth", "all", "of what was there before, record `KINDS`: no, all, or some of task, mmap, cgroup")
	addSwitch(fs, &o.SynthEnd, "tail-synthesize", "", false, "find out what is there at the end, not at the begin")
	fs.StringVar(&c.control, "control", "", "take commands from `CHANNEL`, fd:IN[,ACK] or fifo:IN[,ACK]: enable or disable [EVENT], evlist, ping, stop")
	addSwitch(fs, &o.Overwrite, "overwrite", "", false, "keep the newest of what fits into the buffers, until the end or SIGUSR2 with --switch-output")
}

// addFileFlags binds where a recording goes, and what is printed.
func (c *recordCmd) addFileFlags(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVarP(&c.output, "output", "o", "", "write `FILE`, or - for standard output (default: perf.data)")
	fs.StringVar(&c.switches, "switch-output", "", "begin another file on `WHEN`: signal (SIGUSR2), a size such as 100M, or a time such as 30s")
	fs.Lookup("switch-output").NoOptDefVal = "signal"
	fs.Var(eventFlag{&c.switchEvents, func(list *[]eventArg, text string) error {
		*list = append(*list, eventArg{text: text})
		return nil
	}}, "switch-output-event", "begin another file when one of `EVENTS` happens, which are not recorded themselves")
	addSwitch(fs, &c.dryRun, "dry-run", "", false, "check the command line and record nothing")
	fs.IntVar(&c.maxFiles, "switch-max-files", 0, "keep the last `N` files of --switch-output (default: all)")
	addSwitch(fs, &c.stamp, "timestamp-filename", "", false, "add the time to the name of the file")
	c.addSameFlags(fs)
	fs.CountVarP(&c.verbose, "verbose", "v", "print more messages; may be repeated")
	fs.BoolVarP(&c.quiet, "quiet", "q", false, "print no messages but errors")
}

func (c *recordCmd) run(ctx context.Context) error {
	if err := c.options(); err != nil {
		return err
	}
	if c.intrRegs == "?" || c.userRegs == "?" {
		return c.listRegisters()
	}
	out := &recording{recordCmd: c}
	out.destination()
	stop, err := out.switching()
	if err != nil {
		return err
	}
	defer stop()
	if err := c.o.Check(); errors.Is(err, record.ErrNoTarget) {
		c.o.All = true // as perf does
	}
	if err := c.o.Check(); err != nil {
		return &exitError{exitUsage, err}
	}
	if c.verbose > 1 {
		if err := c.printAttrs(); err != nil {
			return err
		}
	}
	if c.dryRun {
		return nil
	}
	if err := out.open(); err != nil {
		return err
	}
	c.copies()
	out.rights()
	// A recorder has little that is garbage, and should not look for it.
	defer debug.SetGCPercent(debug.SetGCPercent(200))
	// Nor does it need more than a processor: where there is none to spare, the
	// runtime leaves threads alone that wait in the kernel.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	// The file has to be completed, however long that takes; the second signal
	// ends the process in any case.
	patient.Store(true)
	st, err := record.Run(ctx, out.f, c.o, c.note)
	if err != nil {
		out.discard(st)
		if c.o.Pipe && errors.Is(err, syscall.EPIPE) {
			return &exitError{code: 128 + int(syscall.SIGPIPE)} // the reader has gone: not worth a word
		}
		return err
	}
	if err := out.finish(st); err != nil {
		return err
	}
	c.losses(st)
	if err := context.Cause(ctx); err != nil && !st.Ran {
		return &exitError{code: exitCode(err)} // it was to end, and there is no more to say
	}
	if st.Status != 0 {
		return &exitError{code: st.Status}
	}
	return nil
}

// note prints what was not done as asked.
func (c *recordCmd) note(format string, args ...any) {
	if !c.quiet {
		c.notef(format, args...)
	}
}

// losses says what is not in the recording.
func (c *recordCmd) losses(st *record.Stats) {
	defer c.kept(st)
	if st.Lost > 0 {
		c.notef("%d of %d samples were lost: the buffers were full; a larger -m, a lower -F, or -z without a high level help", st.Lost, st.Lost+st.Samples)
	}
	if n := st.LostRecords; n > st.Lost {
		c.notef("%d records that are no samples were lost: what was mapped or started, so that names may be missing; a larger -m helps", n-st.Lost)
	}
	if st.Throttled > 0 {
		c.note("the kernel throttled the samples %d times: they took more time than kernel.perf_cpu_time_max_percent allows", st.Throttled)
	}
	if st.KernelHidden {
		c.note("the kernel hides its addresses: its frames will have no names")
		c.hintf("sysctl kernel.kptr_restrict=0, or CAP_SYSLOG, shows them")
	}
}

// options turns flags into what record takes.
func (c *recordCmd) options() error {
	o := &c.o
	if c.refused != "" {
		return usagef("%s", c.refused)
	}
	o.Version = version()
	if o.Cmdline = commandLine(); !c.keepCmdline {
		o.Cmdline = redact.Args(o.Cmdline)
	}
	o.NoPeriod = *c.periodGiven && !o.AlwaysPeriod
	o.NoTime, o.Eager = !c.time, !c.buffering
	o.NoInherit, o.NoSamples, o.NoBPF, o.NoBuildID = !c.inherit, !c.samples, !c.bpf, !c.buildIDs
	var err error
	if o.Events, err = parseEvents(c.events); err != nil {
		return err
	}
	if o.Switch.Events, err = parseEvents(c.switchEvents); err != nil {
		return err
	}
	switch {
	case c.freq == "max":
		o.FreqMax = true
	case c.freq != "":
		if o.Freq, err = strconv.ParseUint(c.freq, 10, 32); err != nil || o.Freq == 0 {
			return usagef("-F %q: want a number of samples a second, or max", c.freq)
		}
	}
	o.FreqGiven = c.freq != ""
	if c.freq != "" && o.Period != 0 {
		return usagef("-F and -c: one of them, please")
	}
	if o.Switch.Files = c.maxFiles; c.maxFiles < 0 {
		return usagef("--switch-max-files %d: want a number of files", c.maxFiles)
	}
	if c.cpus != "" {
		if o.CPUs, err = record.ParseCPUs(c.cpus); err != nil {
			return usagef("-C: %s", err)
		}
	}
	for flag, list := range map[string]struct {
		words []string
		to    *[]int
	}{"-p": {c.pids, &o.PIDs}, "-t": {c.tids, &o.TIDs}} {
		for _, w := range list.words {
			n, err := strconv.ParseUint(strings.TrimSpace(w), 10, 31)
			if err != nil || n == 0 {
				return usagef("%s %q: want numbers", flag, w)
			}
			*list.to = append(*list.to, int(n))
		}
	}
	for _, u := range c.users {
		uid, err := record.UserID(u)
		if err != nil {
			return usagef("-u: %s", err)
		}
		o.UIDs = append(o.UIDs, uid)
	}
	o.Cgroups = c.cgroups
	if err := c.chains(); err != nil {
		return err
	}
	if err := c.registers(); err != nil {
		return err
	}
	if c.branchAny {
		c.branches = append(c.branches, "any")
	}
	if o.Branch, err = record.ParseBranches(c.branches); err != nil {
		return usagef("-j: %s", err)
	}
	if c.pages != "" {
		if o.Pages, err = parsePages(c.pages); err != nil {
			return err
		}
	}
	if c.compress != "" {
		if o.Compress, err = strconv.Atoi(c.compress); err != nil || o.Compress < 0 || o.Compress > 22 {
			return usagef("-z %q: want a level from 1 to 22", c.compress)
		}
	}
	if c.delay != "" {
		if o.Delay, o.Windows, err = record.ParseWindows(c.delay); err != nil {
			return usagef("-D: %s", err)
		}
	}
	if o.Synth, err = record.ParseSynth(c.synth); err != nil {
		return usagef("--synth: %s", err)
	}
	if c.control != "" {
		if o.Control, err = parseControl(c.control); err != nil {
			return usagef("--control: %s", err)
		}
	}
	if c.clock != "" {
		if o.Clock, err = record.ParseClock(c.clock); err != nil {
			return usagef("-k: %s", err)
		}
		o.UseClock = true
	}
	o.MaxSize = int64(c.maxSize)
	return nil
}

// chains sets how call chains are recorded.
func (c *recordCmd) chains() error {
	if c.callGraph == "" {
		if c.g {
			c.o.Callgraph.Mode = record.CallgraphFP
		}
		return nil
	}
	cg, err := record.ParseCallgraph(c.callGraph)
	if err != nil {
		return usagef("--call-graph: %s", err)
	}
	cg.NoKernel, cg.NoUser = c.o.Callgraph.NoKernel, c.o.Callgraph.NoUser
	c.o.Callgraph = cg
	return nil
}

// parsePages parses what -m says into a power of two of pages. What is behind a
// comma is for hardware traces.
func parsePages(s string) (int, error) {
	s, _, _ = strings.Cut(s, ",")
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		var size sizeValue
		if err := size.Set(s); err != nil {
			return 0, usagef("-m %q: want a number of pages, or a size such as 512K", s)
		}
		page := int64(os.Getpagesize())
		n = uint64((int64(size) + page - 1) / page)
	}
	if n == 0 || n > 1<<24 {
		return 0, usagef("-m %q: want 1 page or more, up to 64G", s)
	}
	p := 1
	for uint64(p) < n {
		p *= 2
	}
	return p, nil
}

// commandLine is what the header says: the program's path, and its arguments.
func commandLine() []string {
	line := slices.Clone(os.Args)
	if exe, err := os.Executable(); err == nil {
		line[0] = exe
	}
	return line
}

// A recording is the file, or one after the other the files, of a run.
type recording struct {
	*recordCmd
	f     *os.File
	name  string // "" for standard output
	files []string
	moved bool // there was something in its place
	sigs  chan os.Signal
}

// destination decides where the recording goes, as perf does.
func (r *recording) destination() {
	defer func() {
		if r.o.Control != nil && r.o.Pipe {
			r.o.Control.Out = os.Stderr
		}
	}()
	switch {
	case r.output == "-" || r.output == "" && isPipe(os.Stdout):
		r.o.Pipe = true
	case r.output == "":
		r.name = "perf.data"
	default:
		r.name = r.output
	}
}

// rights has the recorder keep no more capabilities than it has use for.
func (r *recording) rights() {
	var dirs []string
	if r.name != "" && (r.stamp || r.o.Switch.Next != nil) {
		dirs = append(dirs, filepath.Dir(r.name))
	}
	if r.o.Copies.Dir != "" {
		dirs = append(dirs, r.o.Copies.Dir)
	}
	r.o.DropRights, r.o.KeepOverride = true, keepOverride(dirs...)
}

// open opens what the recording goes to.
func (r *recording) open() error {
	if r.name == "" {
		if isTerminal(os.Stdout) {
			return hintf(usagef("standard output is a terminal: a recording is not written to it"), "-o FILE")
		}
		r.f = os.Stdout
		return nil
	}
	if err := safeDir(r.name); err != nil {
		return err
	}
	was, err := os.Lstat(r.name)
	r.moved = err == nil && (was.Size() > 0 || !was.Mode().IsRegular())
	if r.f, err = createRecording(r.name); err != nil {
		return err
	}
	if st, err := r.f.Stat(); err == nil && !st.Mode().IsRegular() {
		r.o.Pipe = st.Mode()&os.ModeNamedPipe != 0
	}
	return nil
}

func isPipe(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeNamedPipe != 0
}

// safeDir refuses directories in which anybody may put another file in the
// place of ours.
func safeDir(name string) error {
	dir := filepath.Dir(name)
	st, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if st.Mode().Perm()&0o002 != 0 && st.Mode()&os.ModeSticky == 0 {
		return hintf(fmt.Errorf("%q: everybody may write to it: others could put their file in the place of this one", dir), "-o a file in a directory of yours")
	}
	return nil
}

// switching prepares --switch-output.
func (r *recording) switching() (stop func(), err error) {
	if r.switches == "" {
		if len(r.o.Switch.Events) == 0 {
			return func() {}, nil
		}
		r.switches = "signal"
	}
	if r.name == "" {
		return nil, usagef("--switch-output: want a file")
	}
	sw := &r.o.Switch
	sw.Next = r.next
	if r.switches == "signal" {
		r.sigs = make(chan os.Signal, 1)
		sw.Now = r.sigs
		signal.Notify(r.sigs, switchSignal)
		return func() { signal.Stop(r.sigs) }, nil
	}
	if n := len(r.switches); strings.ContainsRune("smhd", rune(r.switches[n-1])) {
		unit := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}[r.switches[n-1]]
		v, err := strconv.ParseUint(r.switches[:n-1], 10, 31)
		if err == nil && v > 0 {
			sw.Every = time.Duration(v) * unit
			return func() {}, nil
		}
	}
	var size sizeValue
	if err := size.Set(r.switches); err != nil || size == 0 || strings.Trim(r.switches, "0123456789") == "" {
		return nil, usagef("--switch-output %q: want signal, a size such as 100M, or a time such as 30s", r.switches)
	}
	sw.Size = int64(size)
	return func() {}, nil
}

// next gives the file that is complete its name, and opens another.
func (r *recording) next() (*os.File, error) {
	if err := r.rename(); err != nil {
		return nil, err
	}
	var err error
	r.f, err = createRecording(r.name)
	return r.f, err
}

// rename adds the time to the name of the file, and removes those that are
// too many.
func (r *recording) rename() error {
	now := time.Now()
	name := r.name + "." + now.Format("20060102150405") + fmt.Sprintf("%02d", now.Nanosecond()/1e7)
	for _, err := os.Lstat(name); err == nil; _, err = os.Lstat(name) {
		name += "_"
	}
	if err := errors.Join(r.f.Close(), os.Rename(r.name, name)); err != nil {
		return err
	}
	r.files = append(r.files, name)
	if n := r.o.Switch.Files; n > 0 && len(r.files) > n {
		if err := os.Remove(r.files[0]); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		r.files = r.files[1:]
	}
	if !r.quiet {
		fmt.Fprintf(r.stderr, "[ perf record: Dump %s ]\n", escape.Name(name))
	}
	return nil
}

// discard removes a file that has nothing in it.
func (r *recording) discard(st *record.Stats) {
	if r.name == "" {
		return
	}
	r.f.Close()
	if st == nil || !st.Begun {
		if fi, err := os.Lstat(r.name); err == nil && fi.Mode().IsRegular() && fi.Size() == 0 {
			os.Remove(r.name)
			if r.moved { // what was there before is there again
				os.Rename(r.name+".old", r.name)
			}
		}
	}
}

// finish closes the file and says, as perf does, what was written.
func (r *recording) finish(st *record.Stats) error {
	name := r.name
	if name == "" {
		name = "-"
	} else if r.stamp || r.o.Switch.Next != nil {
		if err := r.rename(); err != nil {
			return err
		}
		name = r.files[len(r.files)-1]
	} else if err := r.f.Close(); err != nil {
		return err
	}
	if r.quiet {
		return nil
	}
	if st.SizeReached {
		fmt.Fprintf(r.stderr, "[ perf record: perf size limit reached (%d KB), stopping session ]\n", st.Size>>10)
	}
	fmt.Fprintf(r.stderr, "[ perf record: Woken up %d times to write data ]\n", st.Wakeups)
	text := ""
	if st.Samples > 0 {
		text = fmt.Sprintf(" (%d samples)", st.Samples)
	}
	if r.o.Compress > 0 && st.Compressed > 0 {
		text += fmt.Sprintf(", compressed (original %.3f MB, ratio is %.3f)", float64(st.Bytes)/(1<<20), float64(st.Bytes)/float64(st.Compressed))
	}
	_, err := io.WriteString(r.stderr, fmt.Sprintf("[ perf record: Captured and wrote %.3f MB %s%s ]\n", float64(st.Size)/(1<<20), escape.Name(name), text))
	return err
}

// switchSignal is what begins another file.
const switchSignal = syscall.Signal(12) // SIGUSR2
