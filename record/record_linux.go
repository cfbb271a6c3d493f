package record

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/perfdata"
)

// A recorder is a recording under way.
type recorder struct {
	o     Options
	file  *sink
	out   *os.File
	list  []wanted
	cmd   *command
	cpus  []int
	tids  []int // -1: all
	rings []*ring
	open  []*counter
	lost  []uint64 // of each of open, what files that are complete say of it
	epoll int
	wake  *waker // of the loop, when it has something else to see to
	ids   *identities
	hosts hostFacts

	programs bpfPrograms
	triggers []trigger
	commands []byte // from Options.Control, not yet a line

	wall  time.Time     // when the file began,
	clock time.Duration // and the time of its clock then
	note  func(format string, args ...any)

	smaller bool // rings, than was asked for
	running bool // this is not the first file

	stats Stats
}

// Stats are what a recording came to.
type Stats struct {
	Begun       bool   // a file was begun: there is something in it
	Samples     uint64 // that were written
	Bytes       uint64 // read from the rings
	Compressed  uint64 // what became of Bytes in the file; 0 without compression
	Size        int64  // bytes of the last file
	Lost        uint64 // samples that the kernel says it lost
	LostRecords uint64 // records of all kinds, as the kernel says in between
	Gaps        uint64 // where it says so
	Throttled   uint64 // how often the kernel took fewer samples than were asked for
	Wakeups     int
	Status      int  // exit status of the command; 128 and the signal if one ended it
	Ran         bool // there was a command
	SizeReached bool // the recording ended as the file had Options.MaxSize

	// KernelHidden says that the kernel did not tell where it is.
	KernelHidden bool

	Notes []string // what was not done as asked, and why: what note was told

	Copies CopyStats
}

// sysctl reads a number of /proc/sys/kernel.
func sysctl(name string) (int, bool) {
	b, err := os.ReadFile(filepath.Join("/proc/sys/kernel", name))
	if err != nil {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	return n, err == nil
}

// onlineCPUs are the processors that run.
func onlineCPUs() ([]int, error) {
	b, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		cpus := make([]int, runtime.NumCPU())
		for i := range cpus {
			cpus[i] = i
		}
		return cpus, nil
	}
	return ParseCPUs(strings.TrimSpace(string(b)))
}

// threads lists the threads of a process.
func threads(pid int) ([]int, error) {
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if errors.Is(err, unix.ENOENT) {
		err = unix.ESRCH
	}
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", pid, err)
	}
	var tids []int
	for _, d := range list {
		if tid, err := strconv.Atoi(d.Name()); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids, nil
}

// targets fills in which processors and threads events are opened on.
func (r *recorder) targets() error {
	online, err := onlineCPUs()
	if err != nil {
		return err
	}
	r.cpus = online
	for _, c := range r.o.CPUs {
		if !slices.Contains(online, c) {
			return fmt.Errorf("cpu %d: not online", c)
		}
	}
	if len(r.o.CPUs) > 0 {
		r.cpus = r.o.CPUs
	}
	for _, pid := range r.o.PIDs {
		tids, err := threads(pid)
		if err != nil {
			return err
		}
		r.tids = append(r.tids, tids...)
	}
	for _, tid := range r.o.TIDs {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", tid)); err != nil {
			return fmt.Errorf("thread %d: %w", tid, unix.ESRCH)
		}
		r.tids = append(r.tids, tid)
	}
	if len(r.o.UIDs) > 0 {
		tids, err := threadsOf(r.o.UIDs)
		if err != nil {
			return err
		}
		r.tids = append(r.tids, tids...)
	}
	switch {
	case r.o.hasTask():
		slices.Sort(r.tids)
		r.tids = slices.Compact(r.tids)
	case r.o.hasCPU():
		r.tids = []int{-1}
	default:
		r.tids = []int{r.cmd.pid()}
	}
	if r.o.PerThread && !r.o.hasCPU() {
		r.cpus = []int{-1}
	}
	return nil
}

// threadsOf lists the threads of the processes of users.
func threadsOf(uids []int) ([]int, error) {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var tids []int
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		var st unix.Stat_t
		if unix.Stat(filepath.Join("/proc", d.Name()), &st) != nil || !slices.Contains(uids, int(st.Uid)) {
			continue
		}
		if list, err := threads(pid); err == nil {
			tids = append(tids, list...)
		}
	}
	if tids == nil {
		return nil, fmt.Errorf("users %d: no process is theirs", uids)
	}
	return tids, nil
}

// fallbacks are what is given up, one after the other, if the kernel does not
// know it or forbids it. Each says what it changed, "" if that is of no
// importance.
func (r *recorder) fallback(w *wanted, err error) (said string, ok bool) {
	a := &w.attr
	has := func(f perfdata.AttrFlags) bool { return a.Flags&f != 0 }
	switch {
	case err == unix.EACCES || err == unix.EPERM:
		if has(perfdata.FlagExcludeKernel) || r.o.hasCPU() || slices.ContainsFunc(r.list, func(l wanted) bool { return !l.added && l.attr.Flags.Has(perfdata.FlagExcludeUser) }) {
			return "", false // there would be nothing left of one of them
		}
		for i := range r.list {
			l := &r.list[i]
			l.attr.Flags |= perfdata.FlagExcludeKernel | perfdata.FlagExcludeHV
			if sep := ":"; !l.added {
				if strings.Contains(l.Name, ":") {
					sep = ""
				}
				l.Name += sep + "u"
			}
		}
		return "the kernel's part is not recorded: " + paranoidText(1), true
	case a.Flags.Precise() > 0 && (w.PreciseMax || w.Precise == 0):
		a.Flags = a.Flags&^perfdata.FlagPreciseIP | perfdata.AttrFlags(a.Flags.Precise()-1)<<15
		return "", true
	case err == unix.EINVAL || err == unix.EOPNOTSUPP || err == unix.E2BIG:
		for _, f := range []perfdata.AttrFlags{perfdata.FlagDeferCallchain | perfdata.FlagDeferOutput, perfdata.FlagBuildID, perfdata.FlagCgroup,
			perfdata.FlagBPFEvent | perfdata.FlagKsymbol, perfdata.FlagNamespaces, perfdata.FlagExcludeGuest, perfdata.FlagUseClockID} {
			if has(f) {
				for i := range r.list {
					r.list[i].attr.Flags &^= f
				}
				if f == perfdata.FlagUseClockID {
					return "times are of the kernel's own clock: it does not take another one for these events", true
				}
				return "", true
			}
		}
		if a.ReadFormat&perfdata.ReadLost != 0 {
			for i := range r.list {
				r.list[i].attr.ReadFormat &^= perfdata.ReadLost
			}
			return "", true
		}
		if a.SampleType&perfdata.SampleWeightStruct != 0 {
			a.SampleType = a.SampleType&^perfdata.SampleWeightStruct | perfdata.SampleWeight
			return "", true
		}
	}
	return "", false
}

// paranoidText says why the kernel forbids something, and what would allow it:
// the level of kernel.perf_event_paranoid at which it does.
func paranoidText(level int) string {
	n, _ := sysctl("perf_event_paranoid")
	if n <= level {
		return "the process is another user's: CAP_PERFMON, or CAP_SYS_PTRACE, allows it"
	}
	return fmt.Sprintf("kernel.perf_event_paranoid is %d: sysctl kernel.perf_event_paranoid=%d, or CAP_PERFMON, allows it", n, level)
}

// paranoidLevel is the highest kernel.perf_event_paranoid at which an event may
// be opened.
func (r *recorder) paranoidLevel(w *wanted) int {
	switch {
	case w.Type == perfdata.TypeTracepoint && w.attr.SampleType&perfdata.SampleRaw != 0 && r.o.hasCPU():
		return -1
	case r.o.hasCPU():
		return 0
	case w.attr.Flags.Has(perfdata.FlagExcludeKernel):
		return 2
	}
	return 1
}

// openAll opens the events on all targets. What the kernel refuses and can be
// done without is given up, for all of them alike.
func (r *recorder) openAll() error {
	r.fewer()
	again := 0
	for {
		w, err := r.tryOpen()
		if err == nil {
			return nil
		}
		r.closeAll()
		if w == nil {
			return err
		}
		var errno unix.Errno
		if !errors.As(err, &errno) {
			return err
		}
		if errno == unix.EINVAL && r.cmd != nil && again < 3 && w != &r.list[w.Leader] {
			// The process that waits got a thread meanwhile, with which it may
			// have exchanged the counters that are open already.
			again++
			continue
		}
		said, ok := r.fallback(w, errno)
		if !ok && (errno == unix.ENOENT || errno == unix.ENODEV || errno == unix.EOPNOTSUPP) && w.Type == perfdata.TypeHardware && w.Config == 0 {
			w.Type, w.Config = perfdata.TypeSoftware, swCPUClock
			w.attr.Type, w.attr.Config = w.Type, w.Config
			if w.PreciseMax {
				w.attr.Flags |= perfdata.FlagPreciseIP
			}
			w.Name = strings.Replace(strings.Replace(w.Name, "cpu-cycles", "cpu-clock", 1), "cycles", "cpu-clock", 1)
			said, ok = "this machine has no counter of cycles: cpu-clock, a timer, takes its place, which does not see code that runs with interrupts off", true
		}
		if !ok {
			return r.explain(w, errno)
		}
		if said != "" {
			r.note("%s", said)
		}
	}
}

// raiseFiles raises the limit of open files; false if it is as high as it may
// be.
func raiseFiles() bool {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return false
	}
	if l.Cur < l.Max {
		l.Cur = l.Max
	} else {
		l.Cur, l.Max = 2*l.Max, 2*l.Max
	}
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &l) == nil
}

// spareFiles is how many files are open besides counters, at most.
const spareFiles = 12

// room reports how many counters may be open.
func room() int {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return math.MaxInt32
	}
	used := 16
	if list, err := os.ReadDir("/proc/self/fd"); err == nil {
		used = len(list)
	}
	return int(min(l.Cur, math.MaxInt32)) - used - spareFiles
}

// fewer gives up threads, or else processors, if there are more than the limit
// of open files allows.
func (r *recorder) fewer() {
	for len(r.tids)*len(r.cpus)*len(r.list) > room() && raiseFiles() {
	}
	fit := room() / len(r.list) // targets
	n, m := len(r.tids), len(r.cpus)
	switch {
	case n*m <= fit:
	case fit >= m && n > 1:
		r.tids = r.tids[:fit/m]
		r.note("%d of %d threads are recorded: more open files are not allowed; raise ulimit -n", len(r.tids), n)
	case fit >= 1 && m > 1 && n == 1:
		r.cpus = r.cpus[:fit]
		r.note("%d of %d processors are recorded: more open files are not allowed; raise ulimit -n", len(r.cpus), m)
	}
}

// explain says why an event cannot be opened, and what helps.
func (r *recorder) explain(w *wanted, err unix.Errno) error {
	paranoid := paranoidText(r.paranoidLevel(w))
	if r.o.hasCPU() && len(r.o.Cgroups) == 0 && !r.o.hasTask() {
		paranoid += "; -u records processes of this user"
	}
	why := map[unix.Errno]string{
		unix.EACCES: paranoid, unix.EPERM: paranoid,
		unix.ENOENT: "this machine has no such event", unix.ENODEV: "this machine has no such event",
		unix.EOPNOTSUPP: "the PMU cannot sample it", unix.EBUSY: "another event has it for itself",
		unix.EMFILE: "too many open files: raise ulimit -n", unix.ENOSPC: "more breakpoints or groups than the processor has",
		unix.EINVAL: "the kernel does not take what is asked of it", unix.ESRCH: "the process is gone",
	}[err]
	switch {
	case w.attr.SampleType&perfdata.SampleBranchStack != 0 && (err == unix.EOPNOTSUPP || err == unix.EINVAL):
		why = "this machine has no branch records for it"
	case err == unix.EINVAL && w.Type > perfdata.TypeBreakpoint && !r.o.hasCPU():
		why = "its PMU counts on processors, not in a process: -a"
	case why == "":
		why = "perf_event_open"
	}
	return fmt.Errorf("event %q: %s: %w", w.Name, why, err)
}

// tryOpen opens all events. On an error it returns the event that it is of.
func (r *recorder) tryOpen() (*wanted, error) {
	for _, cpu := range r.cpus {
		leaders := map[[2]int]int{} // by event and thread
		rings := map[bool]int{}     // counters with the rings of this processor, by whether they are overwritten
		for i := range r.list {
			w := &r.list[i]
			if w.CPUs != nil && cpu >= 0 && !slices.Contains(w.CPUs, cpu) {
				continue
			}
			backward := w.attr.Flags.Has(perfdata.FlagWriteBackward)
			for ti, tid := range r.tids {
				leader := -1
				if w.Leader != i {
					var ok bool
					if leader, ok = leaders[[2]int{w.Leader, ti}]; !ok {
						continue
					}
				}
				flags := uintptr(0)
				on := tid
				if w.cgroup >= 0 && !w.added {
					flags, on = unix.PERF_FLAG_PID_CGROUP, w.cgroup
				}
				fd, err := openCounter(&w.attr, on, cpu, leader, flags)
				if err == unix.ESRCH && (len(r.tids) > 1 || len(r.o.UIDs) > 0) {
					continue // a thread that is gone by now
				}
				if err != nil {
					return w, err
				}
				c := &counter{fd: fd, event: i, cpu: cpu, tid: tid}
				r.open = append(r.open, c)
				leaders[[2]int{i, ti}] = fd
				if w.Filter != "" {
					if err := setFilter(fd, w.Filter); err != nil {
						return nil, fmt.Errorf("event %q: filter %q: the kernel does not take it: %w", w.Name, w.Filter, err)
					}
				}
				if err := c.readID(); err != nil {
					return nil, err
				}
				first, ok := rings[backward]
				if !ok || cpu < 0 {
					if err := r.addRing(fd, backward); err != nil {
						return nil, err
					}
					rings[backward] = fd
				} else if err := c.output(first); err != nil {
					return nil, fmt.Errorf("event %q: ring: %w", w.Name, err)
				}
				if err := r.watch(fd, len(r.open)-1); err != nil {
					return nil, err
				}
			}
		}
	}
	if len(r.rings) == 0 {
		return nil, unix.ESRCH
	}
	return nil, nil
}

// watch has the loop told when a ring is full enough, or its target is gone.
func (r *recorder) watch(fd, n int) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(n)}
	if err := unix.EpollCtl(r.epoll, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

// addRing maps the ring of a counter. One that may not be locked is made
// smaller, for all of them alike.
func (r *recorder) addRing(fd int, backward bool) error {
	for {
		m, err := mapRing(fd, r.o.Pages, backward)
		if err == nil {
			r.rings = append(r.rings, m)
			return nil
		}
		if !errors.Is(err, errMlock) {
			return err
		}
		if r.o.Pages == 1 {
			kb, _ := sysctl("perf_event_mlock_kb")
			return fmt.Errorf("%w: kernel.perf_event_mlock_kb is %d; raise it, or have CAP_IPC_LOCK", errMlock, kb)
		}
		r.o.Pages /= 2
		r.smaller = true
	}
}

func (r *recorder) closeAll() {
	for _, m := range r.rings {
		m.close()
	}
	for _, c := range r.open {
		unix.Close(c.fd)
	}
	r.rings, r.open = nil, nil
}

// drain reads all rings once, and ends the round if anything was there.
// Rings that are overwritten are read if all is.
func (r *recorder) drain(all bool) error {
	n := 0
	for _, m := range r.rings {
		var got int
		var err error
		switch {
		case !m.backward:
			got, err = m.read(r.file.take)
		case all:
			got, err = m.readBackward(r.file.take)
		}
		if err != nil {
			return err
		}
		n += got
	}
	if n == 0 {
		return nil
	}
	r.stats.Bytes += uint64(n)
	return r.file.write(bare(perfdata.RecordFinishedRound))
}

// loop reads the rings until ctx is done, the command has ended, or all
// targets are gone.
func (r *recorder) loop(ctx context.Context, ended <-chan struct{}) error {
	flush := r.o.Flush
	if flush <= 0 {
		flush = 500 * time.Millisecond
	}
	events := make([]unix.EpollEvent, 64)
	begun := time.Now()
	last, since := begun, begun
	toggles := r.o.toggles()
	gone := 0
	for {
		wait := time.Until(last.Add(flush))
		if len(toggles) > 0 {
			wait = min(wait, time.Until(begun.Add(toggles[0].at)))
		}
		if r.o.Duration > 0 {
			wait = min(wait, time.Until(begun.Add(r.o.Duration)))
		}
		n, err := unix.EpollWait(r.epoll, events, int((max(wait, 0)+time.Millisecond-1)/time.Millisecond))
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("epoll: %w", err)
		}
		woken, stop, another := 0, false, false
		for i := range max(n, 0) {
			switch fd := events[i].Fd; {
			case fd == wakeOther:
				r.wake.woken()
			case fd == wakeControl:
				stop = r.controls()
			case fd == wakeTrigger:
				another = r.triggered()
			case events[i].Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0:
				unix.EpollCtl(r.epoll, unix.EPOLL_CTL_DEL, r.open[events[i].Fd].fd, nil)
				gone++
			}
			woken = 1
		}
		r.stats.Wakeups += woken
		for len(toggles) > 0 && time.Since(begun) >= toggles[0].at {
			if err := r.toggle("", toggles[0].on); err != nil {
				return err
			}
			toggles = toggles[1:]
		}
		if err := r.drain(false); err != nil {
			return err
		}
		if time.Since(last) >= flush {
			if err := r.file.checkpoint(); err != nil {
				return err
			}
			last = time.Now()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ended:
			return nil
		default:
		}
		if stop || gone >= len(r.open) && !r.o.hasCPU() || r.o.Duration > 0 && time.Since(begun) >= r.o.Duration {
			return nil
		}
		switch sw := &r.o.Switch; {
		case r.o.MaxSize > 0 && r.file.w.Offset() >= r.o.MaxSize:
			r.stats.SizeReached = true
			return nil
		case sw.Next != nil && (sw.Size > 0 && r.file.w.Offset() >= sw.Size || sw.Every > 0 && time.Since(since) >= sw.Every || another || received(sw.Now)):
			if err := r.next(); err != nil {
				return err
			}
			since = time.Now()
		}
	}
}

func received(c <-chan os.Signal) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// next completes the file and begins another.
func (r *recorder) next() error {
	if err := r.end(); err != nil {
		return err
	}
	r.running = true
	f, err := r.o.Switch.Next()
	if err != nil {
		return err
	}
	return r.begin(f)
}

// kernelIDs reports whether the kernel was asked for build ids.
func (r *recorder) kernelIDs() bool {
	return slices.ContainsFunc(r.list, func(w wanted) bool { return w.attr.Flags.Has(perfdata.FlagBuildID) })
}

// bare returns a record that is its header alone.
func bare(t perfdata.Type) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(t))
	b = binary.NativeEndian.AppendUint16(b, 0)
	return binary.NativeEndian.AppendUint16(b, 8)
}

// Run records to out until the target is gone, the command ends, or ctx is
// done. If out is a regular file it becomes one of perf's, else what a pipe
// carries. note is told what was not done as asked, and why; it may be nil.
//
// What is in the file at any time is a recording that can be read. The error is
// of what kept it from being complete; Stats say how far it came.
func Run(ctx context.Context, out *os.File, o Options, note func(format string, args ...any)) (*Stats, error) {
	r := &recorder{o: o, hosts: hostFacts{sys: "/sys", proc: "/proc"}}
	r.note = func(format string, args ...any) {
		r.stats.Notes = append(r.stats.Notes, fmt.Sprintf(format, args...))
		if note != nil {
			note(format, args...)
		}
	}
	err := r.all(ctx, out)
	return &r.stats, err
}

// Attrs returns what the kernel would be asked for first: names and attrs of
// all events, with the one that sees what is mapped.
func Attrs(o Options) ([]perfdata.EventDesc, error) {
	r := &recorder{o: o, note: func(string, ...any) {}}
	if err := r.settle(); err != nil {
		return nil, err
	}
	var out []perfdata.EventDesc
	for _, w := range r.o.configure(HostRegs) {
		out = append(out, perfdata.EventDesc{Attr: w.attr, Name: w.Name})
	}
	return out, nil
}

// settle fills in what was left open, and corrects what cannot be.
func (r *recorder) settle() error {
	o := &r.o
	if len(o.Events) == 0 {
		o.Events = []Event{{Name: "cycles:ppp", Type: perfdata.TypeHardware, PreciseMax: true, implicit: true}}
	}
	o.Events = slices.Clone(o.Events)
	for i := range o.Events {
		if e := &o.Events[i]; e.ExcludeSelf {
			for _, tid := range ownThreads() {
				e.AddFilter(fmt.Sprintf("common_pid != %d", tid))
			}
		}
	}
	if o.hasTask() && (o.All || len(o.CPUs) > 0) {
		r.note("processes, threads and users are what is recorded, not processors")
		o.All, o.CPUs = false, nil
	}
	if o.Freq == 0 && o.Period == 0 {
		o.Freq = 4000
	}
	o.NoInherit = o.NoInherit || o.PerThread || len(o.TIDs) > 0
	if o.Pages == 0 {
		o.Pages = defaultRing / os.Getpagesize()
	}
	limit, known := sysctl("perf_event_max_sample_rate")
	if known && (o.FreqMax || o.Freq > uint64(limit)) {
		switch {
		case o.StrictFreq && !o.FreqMax:
			return fmt.Errorf("frequency %d: kernel.perf_event_max_sample_rate is %d", o.Freq, limit)
		case !o.FreqMax:
			r.note("frequency %d is over kernel.perf_event_max_sample_rate, %d, which is used", o.Freq, limit)
		default:
			r.note("frequency: the highest that the kernel allows is %d", limit)
		}
		o.Freq = uint64(limit)
	}
	return o.Check()
}

// defaultRing is the size of a ring without -m: what every user may lock.
const defaultRing = 512 << 10

func (r *recorder) all(ctx context.Context, out *os.File) error {
	if err := r.settle(); err != nil {
		return err
	}
	var err error
	if r.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	defer unix.Close(r.epoll)
	if r.wake, err = newWaker(); err != nil {
		return err
	}
	defer r.wake.close()
	if err := r.watch(r.wake.fd, wakeOther); err != nil {
		return err
	}
	if len(r.o.Command) > 0 {
		if r.cmd, err = startCommand(r.o.Command, r.o.Pipe && out == os.Stdout); err != nil {
			return err
		}
	}
	defer r.closeAll()
	defer r.closeTriggers()
	return r.run(ctx, out)
}

func (r *recorder) run(ctx context.Context, out *os.File) error {
	waiting := r.cmd != nil
	defer func() {
		if waiting {
			r.cmd.cancel()
		}
	}()
	if r.o.Priority > 0 {
		if err := realtime(r.o.Priority); err != nil {
			return err
		}
	}
	if err := r.targets(); err != nil {
		return err
	}
	r.list = r.o.configure(HostRegs)
	closeCgroups, err := r.cgroups()
	if err != nil {
		return err
	}
	defer closeCgroups()
	pages := r.o.Pages
	if err := r.openAll(); err != nil {
		return err
	}
	if r.smaller {
		r.note("the buffers have %d pages, not %d: more may not be locked; raise kernel.perf_event_mlock_kb, or have CAP_IPC_LOCK", r.o.Pages, pages)
	}
	if err := r.openTriggers(); err != nil {
		return err
	}
	if c := r.o.Control; c != nil {
		if err := r.watch(int(c.In.Fd()), wakeControl); err != nil {
			return fmt.Errorf("control: %w", err)
		}
	}
	var side *side
	if !r.o.NoBuildID {
		side = r.openSide()
	}
	if !r.o.NoBPF {
		r.programs.collect("/proc")
	}
	if r.o.DropRights {
		r.dropRights()
	}
	if !r.o.NoBuildID {
		r.ids = &identities{proc: "/proc"}
		if r.o.Copies.Dir != "" {
			if r.ids.keep, err = newKeeper(r.o.Copies, room()/2); err != nil {
				return err
			}
			r.ids.keep.start()
			defer func() { r.stats.Copies = r.ids.keep.finish() }()
		}
		side.start(r.ids)
		defer side.end()
	}
	if err := r.begin(out); err != nil {
		return err
	}
	if r.o.Delay == 0 {
		if err := r.enable(); err != nil {
			return err
		}
	}
	stop := context.AfterFunc(ctx, r.wake.wake)
	defer stop()
	ended := make(chan struct{})
	if r.cmd != nil {
		waiting = false
		if err := r.cmd.run(); err != nil {
			r.cmd.cmd.Wait()
			r.stats.Begun = false
			return errors.Join(err, r.out.Truncate(0))
		}
		go func() {
			r.cmd.cmd.Wait()
			close(ended)
			r.wake.wake()
		}()
	}
	err = r.loop(ctx, ended)
	if r.cmd != nil {
		if e := r.endCommand(ended, err == nil); err == nil {
			err = e
		}
	}
	for _, c := range r.open {
		c.disable()
	}
	e := r.end()
	if e != nil && !r.o.Pipe && seekable(r.out) {
		salvage(r.out, r.file.end)
	}
	if err == nil { // if the file cannot be written to, end says so once more
		err = e
	}
	return err
}

// salvage has the header of a file that could not be completed, as the disk
// is full, say how many whole records there are before end; 0: as many as there
// are.
func salvage(f *os.File, end int64) {
	if end == 0 {
		end = math.MaxInt64
	}
	var h [104]byte
	if _, err := f.ReadAt(h[:], 0); err != nil {
		return
	}
	from := binary.NativeEndian.Uint64(h[40:])
	r := bufio.NewReader(io.NewSectionReader(f, int64(from), end-int64(from)))
	size := uint64(0)
	for {
		b, err := r.Peek(8)
		n := recordSize(b)
		if err != nil || n < 8 {
			break
		}
		if got, err := r.Discard(n); err != nil || got < n {
			break
		}
		size += uint64(n)
	}
	binary.NativeEndian.PutUint64(h[:], size)
	f.WriteAt(h[:8], 48)
}

// endCommand waits for the command, which is told to end if it runs still.
// What it does until then is recorded.
func (r *recorder) endCommand(ended <-chan struct{}, record bool) error {
	var err error
	for told := false; ; told = true {
		select {
		case <-ended:
		case <-time.After(100 * time.Millisecond):
			if !told {
				r.cmd.cmd.Process.Signal(unix.SIGTERM)
			}
			if record && err == nil {
				if err = r.drain(false); err == nil {
					err = r.file.checkpoint()
				}
			}
			continue
		}
		break
	}
	r.stats.Ran = true
	st := r.cmd.cmd.ProcessState
	r.stats.Status = st.ExitCode()
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		r.stats.Status = 128 + int(ws.Signal())
	}
	return err
}

// enable lets the events count that do not begin with the command's exec.
func (r *recorder) enable() error {
	for _, c := range r.open {
		a := &r.list[c.event].attr
		if a.Flags.Has(perfdata.FlagEnableOnExec) || !a.Flags.Has(perfdata.FlagDisabled) {
			continue
		}
		if err := c.enable(); err != nil {
			return fmt.Errorf("event %q: %w", r.list[c.event].Name, err)
		}
	}
	return nil
}

// begin writes what stands before the first sample.
func (r *recorder) begin(out *os.File) error {
	r.out = out
	r.file = &sink{stats: &r.stats, ids: r.ids, timeAt: r.timeAt(), kernelIDs: r.kernelIDs(), programs: &r.programs}
	var err error
	pipe := r.o.Pipe || !seekable(out)
	if r.file.w, err = perfdata.NewWriter(out, perfdata.WriterOptions{Big: nativeBig, Pipe: pipe}); err != nil {
		return err
	}
	r.stats.Begun = true
	r.wall, r.clock = time.Now(), clockTime(r.o.Clock)
	index := &perfdata.IDIndex{Meta: meta(perfdata.RecordIDIndex, 0)}
	for i := range r.list {
		var ids []uint64
		for _, c := range r.open {
			if c.event == i {
				ids = append(ids, c.id)
				index.Entries = append(index.Entries, perfdata.IDIndexEntry{ID: c.id, Index: uint64(c.event), CPU: int64(c.cpu), TID: int64(c.tid), VCPU: -1})
			}
		}
		if _, err := r.file.w.AddEvent(r.list[i].attr, ids...); err != nil {
			return err
		}
	}
	if pipe {
		if err := r.features(); err != nil {
			return err
		}
	}
	if err := r.tracing(); err != nil {
		return err
	}
	if err := r.targetRecords(index); err != nil {
		return err
	}
	if r.o.Compress > 0 {
		if r.file.z, err = perfdata.NewCompressor(r.o.Compress, nativeBig, r.file.w.WriteRaw); err != nil {
			return err
		}
	}
	if err := r.file.write(bare(perfdata.RecordFinishedInit)); err != nil {
		return err
	}
	return r.file.checkpoint()
}

// timeAt is where in samples the time stands; 0 if not in the same place in
// all, or nowhere.
func (r *recorder) timeAt() int {
	at := 24
	if r.list[0].attr.SampleType&perfdata.SampleIdentifier != 0 {
		at += 8
	}
	for i := range r.list {
		if r.list[i].attr.SampleType&perfdata.SampleTime == 0 {
			return 0
		}
	}
	return at
}

// targetRecords writes which counters there are, and on what; and what was
// there before, if that has to be at the begin.
func (r *recorder) targetRecords(index *perfdata.IDIndex) error {
	s := r.synth()
	if err := s.index(index); err != nil {
		return err
	}
	if r.o.hasTask() || !r.o.hasCPU() {
		m := &perfdata.ThreadMap{Meta: meta(perfdata.RecordThreadMap, 0)}
		for _, tid := range r.tids[:min(len(r.tids), 2000)] {
			name, _, _, _ := s.status(tid)
			m.Threads = append(m.Threads, perfdata.ThreadMapEntry{PID: int64(tid), Comm: name})
		}
		if err := s.write(m); err != nil {
			return err
		}
	}
	cpus := &perfdata.CPUMapRecord{Meta: meta(perfdata.RecordCPUMap, 0)}
	for _, c := range r.cpus {
		if c < 0 {
			cpus.Any = true
		} else {
			cpus.CPUs = append(cpus.CPUs, int32(c))
		}
	}
	if err := s.write(cpus); err != nil {
		return err
	}
	if r.o.SynthEnd {
		return nil
	}
	return r.before()
}

// synth returns what makes records of what there is already.
func (r *recorder) synth() *synth {
	s := &synth{proc: "/proc", attr: &r.list[0].attr, big: nativeBig, emit: r.file.emit, tasksOnly: !r.o.Synth.has(SynthMaps), data: slices.ContainsFunc(r.o.Events, func(e Event) bool { return r.o.address(&e) }), namespaces: r.o.Namespaces}
	if r.ids != nil {
		s.id = r.ids.of
	}
	return s
}

// before writes what was there before: the kernel, threads, their mappings.
func (r *recorder) before() error {
	s := r.synth()
	hidden, err := s.kernel()
	if err != nil {
		return err
	}
	r.stats.KernelHidden = hidden && slices.ContainsFunc(r.list, func(w wanted) bool { return !w.added && !w.attr.Flags.Has(perfdata.FlagExcludeKernel) })
	for _, b := range r.programs.records {
		if err := s.write(b); err != nil {
			return err
		}
	}
	if r.o.AllCgroups && r.o.Synth.has(SynthCgroups) {
		if err := s.cgroups(); err != nil {
			return err
		}
	}
	switch {
	case !r.o.Synth.has(SynthTasks):
	case r.running: // and so may be what it started
		return s.all()
	case r.o.hasTask():
		done := map[int]bool{}
		for _, tid := range r.tids {
			_, pid, _, ok := s.status(tid)
			if !ok || done[pid] {
				continue
			}
			done[pid] = true
			if err := s.process(pid); err != nil {
				return err
			}
		}
	case r.o.hasCPU():
		return s.all()
	default:
		if r.o.SynthEnd {
			return s.process(r.cmd.pid())
		}
		return s.waiting(r.cmd.pid())
	}
	return nil
}

// end reads what is left, and what was lost, and completes the file.
func (r *recorder) end() error {
	if r.file == nil {
		return nil
	}
	if err := r.drain(true); err != nil {
		return err
	}
	if r.o.SynthEnd {
		if err := r.before(); err != nil {
			return err
		}
	}
	if r.lost == nil {
		r.lost = make([]uint64, len(r.open))
	}
	for i, c := range r.open {
		n, ok := c.lost(r.list[c.event].attr.ReadFormat)
		if !ok || n <= r.lost[i] {
			continue
		}
		n, r.lost[i] = n-r.lost[i], n
		r.stats.Lost += n
		rec := &perfdata.Lost{Meta: meta(perfdata.RecordLostSamples, 0), Count: n}
		rec.ID, rec.CPU = c.id, int32(c.cpu)
		b, err := perfdata.AppendRecord(nil, rec, &r.list[c.event].attr, nativeBig)
		if err != nil {
			return err
		}
		if err := r.file.write(b); err != nil {
			return err
		}
	}
	if err := r.file.checkpoint(); err != nil {
		return err
	}
	r.file.end = r.file.w.Offset()
	if z := r.file.z; z != nil {
		r.stats.Compressed += z.Out
	}
	if !r.o.Pipe && seekable(r.out) {
		if err := r.features(); err != nil {
			return err
		}
		if t := r.file.table.list(); len(t) > 0 && !r.o.NoBuildID {
			if err := r.file.w.SetFeature(perfdata.FeatureBuildID, perfdata.BuildIDTable{Records: t}); err != nil {
				return err
			}
		}
		if t := r.file.samples; t.First != 0 {
			if err := r.file.w.SetFeature(perfdata.FeatureSampleTime, t); err != nil {
				return err
			}
		}
	}
	err := r.file.w.Close()
	r.stats.Size = r.file.w.Offset()
	return err
}
