package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/record"
)

// An eventArg is an -e of perf record, and the flags behind it that are about
// its events.
type eventArg struct {
	text        string
	filters     []string
	excludePerf bool
}

// An eventFlag adds to the events, in the order of the command line.
type eventFlag struct {
	list *[]eventArg
	set  func(list *[]eventArg, text string) error
}

func (eventFlag) String() string { return "" }
func (eventFlag) Type() string   { return "string" }

func (f eventFlag) Set(text string) error { return f.set(f.list, text) }

// lastEvents returns the events that a flag is about.
func lastEvents(list []eventArg) (*eventArg, error) {
	if len(list) == 0 {
		return nil, fmt.Errorf("want it behind the -e that it is about")
	}
	return &list[len(list)-1], nil
}

// addEventFlags binds -e and what follows it.
func (c *recordCmd) addEventFlags(fs *pflag.FlagSet) {
	fs.VarP(eventFlag{&c.events, func(list *[]eventArg, text string) error {
		*list = append(*list, eventArg{text: text})
		return nil
	}}, "event", "e", "record `EVENTS`: a list of names, rNNN, mem:ADDR:rwx, SYSTEM:TRACEPOINT, PMU/TERMS/, {groups}, each with :MODIFIERS; may be repeated (default: cycles)")
	fs.Var(eventFlag{&c.events, func(list *[]eventArg, text string) error {
		e, err := lastEvents(*list)
		if err == nil {
			e.filters = append(e.filters, text)
		}
		return err
	}}, "filter", "of the tracepoints of the last -e, record those that `FILTER` matches, such as 'prev_pid > 0'")
	fs.Var(eventFlag{&c.events, func(list *[]eventArg, text string) error {
		e, err := lastEvents(*list)
		if err == nil {
			e.excludePerf = true
		}
		return err
	}}, "exclude-perf", "of the tracepoints of the last -e, record none of perfark itself")
	fs.Lookup("exclude-perf").NoOptDefVal = "true"
}

// parseEvents parses all events of the command line.
func parseEvents(args []eventArg) ([]record.Event, error) {
	var out []record.Event
	for _, arg := range args {
		list, err := record.Host{}.ParseEvents(arg.text)
		switch {
		case errors.Is(err, fs.ErrPermission):
			return nil, err
		case err != nil:
			return nil, &exitError{exitUsage, err}
		}
		for i := range list {
			e := &list[i]
			e.Leader += len(out)
			if (len(arg.filters) > 0 || arg.excludePerf) && !e.Tracepoint() {
				return nil, usagef("--filter, --exclude-perf: %q is no tracepoint", e.Name)
			}
			for _, f := range arg.filters {
				e.AddFilter(f)
			}
			e.ExcludeSelf = arg.excludePerf
		}
		out = append(out, list...)
	}
	return out, nil
}

// addRegisterFlags binds which registers are recorded.
func (c *recordCmd) addRegisterFlags(fs *pflag.FlagSet) {
	fs.StringVarP(&c.intrRegs, "intr-regs", "I", "", "record the registers of each sample, all or `REGS`; ? lists them")
	fs.StringVar(&c.userRegs, "user-regs", "", "record the registers of user space with each sample, all or `REGS`; ? lists them")
	for _, n := range []string{"intr-regs", "user-regs"} {
		f := fs.Lookup(n)
		f.NoOptDefVal = allRegs
		f.Annotations = map[string][]string{stickyValue: {"any"}}
	}
}

// allRegs is the value of flags for registers that have none.
const allRegs = "all"

// parseRegs returns the bits of registers, of those in have.
func parseRegs(s string, have uint64) (uint64, error) {
	switch s {
	case "", "?":
		return 0, nil
	case allRegs:
		return have, nil
	}
	bits := map[string]uint64{}
	for r := range 64 {
		if have>>r&1 != 0 {
			bits[strings.ToLower(registerName(hostArch(), r))] = 1 << r
		}
	}
	var out uint64
	for name := range strings.SplitSeq(s, ",") {
		b, ok := bits[strings.ToLower(name)]
		if !ok {
			return 0, fmt.Errorf("%q is none of %s", name, strings.Join(registerNames(have), " "))
		}
		out |= b
	}
	return out, nil
}

// hostArch is this machine as uname calls it.
func hostArch() string {
	return cmp.Or(map[string]string{"amd64": "x86_64", "arm64": "aarch64", "386": "i686"}[runtime.GOARCH], runtime.GOARCH)
}

// registerNames lists registers by their numbers.
func registerNames(have uint64) []string {
	var out []string
	for r := range 64 {
		if have>>r&1 != 0 {
			out = append(out, registerName(hostArch(), r))
		}
	}
	return out
}

// registers turns the flags into masks.
func (c *recordCmd) registers() (err error) {
	if c.o.IntrRegs, err = parseRegs(c.intrRegs, record.HostRegs.Intr); err != nil {
		return usagef("-I: %s", err)
	}
	if c.o.UserRegs, err = parseRegs(c.userRegs, record.HostRegs.User); err != nil {
		return usagef("--user-regs: %s", err)
	}
	if c.o.UserRegs != 0 && c.o.Callgraph.Mode == record.CallgraphDWARF && c.o.UserRegs != record.HostRegs.User {
		c.note("--user-regs: stacks are unwound by the registers that were recorded, which may not be enough")
	}
	return nil
}

// listRegisters prints the registers that can be recorded.
func (c *recordCmd) listRegisters() error {
	have := record.HostRegs.User
	if c.intrRegs == "?" {
		have = record.HostRegs.Intr
	}
	fmt.Fprintf(c.stdout, "available registers: %s\n", strings.Join(registerNames(have), " "))
	return c.stdout.Flush()
}

// refusedFlags are the flags of perf record that there are not, and why.
var refusedFlags = []struct{ name, short, why string }{
	{"snapshot", "S", "hardware traces are not recorded"},
	{"aux-sample", "", "hardware traces are not recorded"},
	{"off-cpu", "", "it takes a BPF program, which perfark has none of; -e sched:sched_switch -g records where threads leave the processor"},
	{"kcore", "", "the running kernel is not copied; perfark archive packs its symbols, with --vmlinux its file, and with --kcore its code"},
	{"threads", "", "one thread reads all buffers; where that is not enough, a larger -m is what helps"},
	{"clang-path", "", "BPF programs are not compiled"},
	{"clang-opt", "", "BPF programs are not compiled"},
}

// A refusedFlag notes that it was given, and why there is none.
type refusedFlag struct {
	said      *string
	name, why string
}

func (refusedFlag) String() string { return "" }
func (refusedFlag) Type() string   { return "string" }

func (f refusedFlag) Set(string) error {
	*f.said = "--" + f.name + ": " + f.why
	return nil
}

// An ignoredFlag is taken as perf has it, and changes nothing of what is
// recorded. Its value is checked.
type ignoredFlag struct{ check func(string) error }

func (ignoredFlag) String() string       { return "" }
func (ignoredFlag) Type() string         { return "string" }
func (f ignoredFlag) Set(s string) error { return f.check(s) }
func anyText(string) error               { return nil }
func wordFlag(list ...string) ignoredFlag {
	return ignoredFlag{func(s string) error { return isOneOf(s, list) }}
}
func countFlag(low, high uint64) ignoredFlag {
	return ignoredFlag{func(s string) error {
		if n, err := strconv.ParseUint(s, 10, 32); err != nil || n < low || n > high {
			return fmt.Errorf("want a number from %d to %d", low, high)
		}
		return nil
	}}
}

func isOneOf(s string, list []string) error {
	for _, w := range list {
		if s == w {
			return nil
		}
	}
	return fmt.Errorf("want one of %s", strings.Join(list, ", "))
}

// printAttrs prints what the kernel is asked for, as perf record -vv does.
func (c *recordCmd) printAttrs() error {
	list, err := record.Attrs(c.o)
	if err != nil {
		return err
	}
	rule := strings.Repeat("-", 60) + "\n"
	for i := range list {
		fmt.Fprintf(c.stderr, "%sperf_event_attr:\n", rule)
		for _, f := range attrFields(&list[i].Attr) {
			fmt.Fprintf(c.stderr, "  %-32s %s\n", f.name, f.value)
		}
		fmt.Fprintf(c.stderr, "%s%s\n", rule, escape.Name(list[i].Name))
	}
	return nil
}

// keepOverride reports whether files will have to be made in a directory that
// this user may write to by CAP_DAC_OVERRIDE alone.
func keepOverride(dirs ...string) bool {
	for _, dir := range dirs {
		var st unix.Stat_t
		err := unix.Stat(dir, &st)
		for err != nil && dir != filepath.Dir(dir) { // it will be made
			dir = filepath.Dir(dir)
			err = unix.Stat(dir, &st)
		}
		if err != nil || int(st.Uid) != os.Geteuid() || st.Mode&unix.S_IWUSR == 0 {
			return true
		}
	}
	return false
}

// addSameFlags binds those flags of perf record that change how it works but
// not what is recorded, and those that are refused, so that the message says
// why.
func (c *recordCmd) addSameFlags(fs *pflag.FlagSet) {
	same := func(v pflag.Value, name, noValue, usage string) {
		fs.Var(v, name, "accepted as perf has it: "+usage)
		fs.Lookup(name).NoOptDefVal = noValue
	}
	same(wordFlag("node", "cpu", "sys"), "affinity", "", "one thread reads all buffers, `WHERE` it may run")
	same(countFlag(0, 4), "aio", "1", "`N` writes at a time; the file is written as it is read")
	same(ignoredFlag{anyText}, "mmap-flush", "", "`SIZE`; buffers are read when they are half full, twice a second at least")
	same(countFlag(1, 1<<31), "num-thread-synthesize", "", "`N` threads; one finds out what runs")
	same(countFlag(0, 1<<31), "proc-map-timeout", "", "`MS`; mappings are read for as long as it takes")
	same(ignoredFlag{anyText}, "debuginfod", "any", "nothing is fetched while recording from `URLS`")
	same(ignoredFlag{func(s string) error { _, err := os.Stat(s); return err }}, "vmlinux", "", "`FILE` is for events that there are not")
	for _, r := range refusedFlags {
		fs.VarP(refusedFlag{&c.refused, r.name, r.why}, r.name, r.short, "refused: "+r.why)
		f := fs.Lookup(r.name)
		f.NoOptDefVal = "any"
		f.Hidden = true
		f.Annotations = map[string][]string{stickyValue: {"any"}}
	}
}

// parseControl opens what --control names: fd:IN[,ACK] or fifo:IN[,ACK].
func parseControl(s string) (*record.Control, error) {
	kind, list, _ := strings.Cut(s, ":")
	in, ack, hasAck := strings.Cut(list, ",")
	open := map[string]func(string) (*os.File, error){"fd": controlFD, "fifo": controlFIFO}[kind]
	if open == nil || in == "" {
		return nil, fmt.Errorf("%q: want fd:IN[,ACK] or fifo:IN[,ACK]", s)
	}
	c := &record.Control{Out: os.Stdout}
	var err error
	if c.In, err = open(in); err != nil {
		return nil, err
	}
	if hasAck && ack != "" {
		c.Ack, err = open(ack)
	}
	return c, err
}

func controlFD(text string) (*os.File, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return nil, fmt.Errorf("descriptor %q: want a number", text)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(n), &st); err != nil {
		return nil, fmt.Errorf("descriptor %d: %w", n, err)
	}
	return os.NewFile(uintptr(n), "fd:"+text), nil
}

// controlFIFO opens a FIFO, for both ways, so that it does not matter which
// side comes first, or goes.
func controlFIFO(name string) (*os.File, error) {
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		unix.Close(fd)
		return nil, fmt.Errorf("%q: it is no FIFO", name)
	}
	return os.NewFile(uintptr(fd), name), nil
}
