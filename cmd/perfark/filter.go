package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/session"
)

// filterFlags say which samples of a recording are wanted.
type filterFlags struct {
	comms, dsos, symbols string
	pids, tids, cpus     string
	times                string
	switchOn, switchOff  string
	showSwitch           bool
	addrRange            uint64 // bytes; of script
}

// addScriptFilters binds the filters of script.
func (c *filterFlags) addScriptFilters(fs *pflag.FlagSet) {
	fs.StringVarP(&c.comms, "comms", "c", "", "only samples of threads with one of the names `COMM,…`")
	fs.StringVar(&c.dsos, "dsos", "", "only samples in the objects `DSO,…`")
	fs.StringVarP(&c.symbols, "symbols-only", "S", "", "only samples in the functions `SYMBOL,…`, or at 0xADDR, or in the function that begins there")
	fs.Uint64Var(&c.addrRange, "addr-range", 0, "with -S 0xADDR: only samples in the `N` bytes from there on, too")
	c.addDropFilters(fs)
}

// addDropFilters binds those filters that take samples out of all totals.
func (c *filterFlags) addDropFilters(fs *pflag.FlagSet) {
	fs.StringVar(&c.pids, "pid", "", "only samples of the processes `PID,…`")
	fs.StringVar(&c.tids, "tid", "", "only samples of the threads `TID,…`")
	fs.StringVarP(&c.cpus, "cpu", "C", "", "only samples of the processors `CPUS`, such as 0,2-3")
	fs.StringVar(&c.times, "time", "", "only samples of these `TIMES`: START,STOP in seconds, or 10%-20%, or 10%/2")
	fs.StringVar(&c.switchOn, "switch-on", "", "only samples behind one of the event `EVENT`")
	fs.StringVar(&c.switchOff, "switch-off", "", "only samples before one of the event `EVENT`, and behind the next of --switch-on")
	addSwitch(fs, &c.showSwitch, "show-on-off-events", "", false, "with the samples of --switch-on and --switch-off themselves")
}

// dropFilter returns the filter that samples have to pass to be counted at
// all.
func (c *filterFlags) dropFilter(ctx context.Context, f *perfdata.File) (o session.Filter, err error) {
	if o.CPUs, err = parseCPUs(c.cpus); err != nil {
		return o, err
	}
	if o.CPUs != nil {
		for _, e := range f.Events() {
			if e.Attr.SampleType&perfdata.SampleCPU == 0 {
				return o, hintf(fmt.Errorf("%s: samples of %q do not say on which processor: --cpu cannot tell them apart", f.Name(), e.Name),
					"record with perf record --sample-cpu or -a")
			}
		}
	}
	if c.times != "" {
		var first, last uint64
		if session.TimesNeedBounds(c.times) {
			if first, last, err = session.SampleTimes(ctx, f); err != nil {
				return o, err
			}
		}
		if o.Times, err = session.ParseTimes(c.times, first, last); err != nil {
			return o, usagef("--time: %s", err)
		}
	}
	if c.switchOn != "" || c.switchOff != "" {
		o.Times, err = c.switchTimes(ctx, f, o.Times)
	}
	return o, err
}

// switchTimes returns when samples count by --switch-on and --switch-off, of
// the times that other flags leave.
func (c *filterFlags) switchTimes(ctx context.Context, f *perfdata.File, times []session.TimeRange) ([]session.TimeRange, error) {
	s := session.Switch{On: -1, Off: -1, Shown: c.showSwitch, Times: times}
	for _, x := range []struct {
		flag, name string
		event      *int
	}{{"--switch-on", c.switchOn, &s.On}, {"--switch-off", c.switchOff, &s.Off}} {
		if x.name == "" {
			continue
		}
		*x.event = slices.IndexFunc(f.Events(), func(e perfdata.Event) bool { return e.Name == x.name })
		if *x.event < 0 {
			return nil, hintf(fmt.Errorf("%s: %s: no event is called %q", f.Name(), x.flag, x.name), "perfark evlist -i %s lists the events", f.Name())
		}
	}
	if slices.ContainsFunc(f.Events(), func(e perfdata.Event) bool { return e.Attr.SampleType&perfdata.SampleTime == 0 }) {
		return nil, fmt.Errorf("%s: samples have no times: --switch-on and --switch-off cannot tell them apart", f.Name())
	}
	on, err := session.SwitchTimes(ctx, f, s)
	return session.Both(times, on), err
}

// parseIDs parses a list of numbers of processes or threads.
func parseIDs(flag, list string) ([]int32, error) {
	if list == "" {
		return nil, nil
	}
	var ids []int32
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(word), 10, 32)
		if err != nil {
			return nil, usagef("%s %q: %q is not a number", flag, list, word)
		}
		ids = append(ids, int32(n))
	}
	return ids, nil
}

// maxCPU is the highest number of a processor that is believed.
const maxCPU = 1 << 16

// parseCPUs parses a list of processors and ranges of them.
func parseCPUs(list string) ([]int32, error) {
	if list == "" {
		return nil, nil
	}
	var cpus []int32
	for word := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(word), "-")
		if !isRange {
			last = first
		}
		a, err := strconv.ParseUint(first, 10, 32)
		b, err2 := strconv.ParseUint(last, 10, 32)
		if err != nil || err2 != nil || a > b || b > maxCPU {
			return nil, usagef("--cpu %q: %q is neither the number of a processor nor a range", list, word)
		}
		for cpu := a; cpu <= b; cpu++ {
			cpus = append(cpus, int32(cpu))
		}
	}
	return cpus, nil
}

// parseNames parses a list of names; file://FILE has one a line.
func parseNames(flag, list string) (map[string]bool, error) {
	if list == "" {
		return nil, nil
	}
	names := map[string]bool{}
	for word := range strings.SplitSeq(list, ",") {
		file, ok := strings.CutPrefix(word, "file://")
		if !ok {
			names[word] = true
			continue
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", flag, file, pathless(err))
		}
		for line := range strings.Lines(string(b)) {
			if line = strings.TrimSpace(line); line != "" {
				names[line] = true
			}
		}
	}
	return names, nil
}

// scriptMatcher returns what decides whether a sample is printed; nil if all
// are.
func (c *filterFlags) scriptMatcher(p *profile.Profile) (func(*session.Event, *perfdata.Sample) bool, error) {
	comms, err := parseNames("--comms", c.comms)
	if err != nil {
		return nil, err
	}
	dsos, err := parseNames("--dsos", c.dsos)
	if err != nil {
		return nil, err
	}
	symbols, err := parseNames("--symbols", c.symbols)
	if err != nil {
		return nil, err
	}
	if comms == nil && dsos == nil && symbols == nil {
		return nil, nil
	}
	var addrs []uint64
	for s := range symbols {
		if addr, ok := symbolAddr(s); ok {
			addrs = append(addrs, addr)
		}
	}
	at := func(ip uint64) bool {
		return slices.ContainsFunc(addrs, func(a uint64) bool { return ip == a || ip > a && ip-a < c.addrRange })
	}
	return func(e *session.Event, s *perfdata.Sample) bool {
		if comms != nil && !comms[e.Comm] {
			return false
		}
		if dsos == nil && symbols == nil {
			return true
		}
		if e.Location < 0 {
			return false
		}
		l := &p.Locations[e.Location]
		if dsos != nil && (l.Object < 0 || !dsos[p.Objects[l.Object].Short] && !dsos[p.Objects[l.Object].Path]) {
			return false
		}
		switch {
		case symbols == nil || at(s.IP):
			return true
		case l.Func < 0:
			return false
		}
		fn := &p.Functions[l.Func]
		return symbols[fn.Name] || slices.Contains(addrs, s.IP-(l.Addr-fn.Start))
	}, nil
}

// symbolAddr returns the address that a word of -S is.
func symbolAddr(word string) (addr uint64, ok bool) {
	hex, ok := strings.CutPrefix(word, "0x")
	if !ok {
		return 0, false
	}
	addr, err := strconv.ParseUint(hex, 16, 64)
	return addr, err == nil
}

// defaultWorkers is how many goroutines work where no number is given.
func defaultWorkers() int { return runtime.GOMAXPROCS(0) }

// A boolSwitch is a flag and its --no- form, of which the last one counts.
type boolSwitch struct {
	v    *bool
	set  *bool // whether either was given; may be nil
	sets bool
}

func (s boolSwitch) String() string {
	if s.v == nil {
		return "false"
	}
	return strconv.FormatBool(*s.v == s.sets)
}

func (s boolSwitch) Set(text string) error {
	on, err := strconv.ParseBool(text)
	if err != nil {
		return err
	}
	*s.v = on == s.sets
	if s.set != nil {
		*s.set = true
	}
	return nil
}

func (boolSwitch) Type() string     { return "bool" }
func (boolSwitch) IsBoolFlag() bool { return true }

// addSwitch binds --name and --no-name, or --name for a --no-name. usage is
// that of the one that changes something, which is shown: the other is
// accepted.
func addSwitch(fs *pflag.FlagSet, v *bool, name, short string, initial bool, usage string) *bool {
	*v = initial
	given := new(bool)
	plain, isNo := strings.CutPrefix(name, "no-")
	for _, n := range []string{plain, "no-" + plain} {
		s := boolSwitch{v, given, n == plain}
		short, text := short, usage
		if n != name {
			short, text = "", "undo --"+name
		}
		f := fs.VarPF(s, n, short, text)
		f.NoOptDefVal = "true"
		f.DefValue = "false"
		f.Hidden = n != name && !isNo
	}
	return given
}
