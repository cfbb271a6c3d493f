package record

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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

// A Recorder is a recording under way.
type Recorder struct {
	o     Options
	w     *perfdata.Writer
	file  *os.File // of w, if it is one
	list  []wanted
	cmd   *command
	cpus  []int
	tids  []int // -1: all
	rings []*ring
	open  []*counter
	epoll int

	wall  time.Time     // when the recording began,
	clock time.Duration // and the time of its clock then
	note  func(format string, args ...any)
	err   error

	Stats Stats
}

// Stats are what a recording came to.
type Stats struct {
	Bytes   uint64 // read from the rings
	Lost    uint64 // samples that the kernel says it lost
	Wakeups int
	Status  int  // exit status of the command; 128 and the signal if one ended it
	Ran     bool // there was a command

	// KernelHidden says that the kernel did not tell where it is.
	KernelHidden bool
}

// fresh is what the kernel has to say about events (proc/sys/kernel).
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
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", pid, errors.Unwrap(err))
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
func (r *Recorder) targets() error {
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
	switch {
	case r.o.hasTask():
		if r.o.NoInherit {
			r.cpus = []int{-1} // a ring for each thread
		}
	case r.o.hasCPU():
		r.tids = []int{-1}
	default:
		r.tids = []int{r.cmd.pid()}
	}
	return nil
}

// fallbacks are what is given up, one after the other, if the kernel does not
// know it or forbids it. Each says what it changed, "" if that is of no
// importance.
func (r *Recorder) fallback(w *wanted, err error) (said string, ok bool) {
	a := &w.attr
	has := func(f perfdata.AttrFlags) bool { return a.Flags&f != 0 }
	switch {
	case err == unix.EACCES || err == unix.EPERM:
		if has(perfdata.FlagExcludeKernel) || r.o.hasCPU() {
			return "", false
		}
		for i := range r.list {
			r.list[i].attr.Flags |= perfdata.FlagExcludeKernel | perfdata.FlagExcludeHV
		}
		return "the kernel's part is not recorded: " + paranoidText(), true
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

// paranoidText says why the kernel forbids something, and what would allow it.
func paranoidText() string {
	n, _ := sysctl("perf_event_paranoid")
	return fmt.Sprintf("kernel.perf_event_paranoid is %d: sysctl kernel.perf_event_paranoid=1, or CAP_PERFMON, allows it", n)
}

// openAll opens the events on all targets. What the kernel refuses and can be
// done without is given up, for all of them alike.
func (r *Recorder) openAll() error {
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
		if errno == unix.EMFILE && raiseFiles() {
			continue
		}
		said, ok := r.fallback(w, errno)
		if !ok && (errno == unix.ENOENT || errno == unix.ENODEV || errno == unix.EOPNOTSUPP) && w.Type == perfdata.TypeHardware && w.Config == 0 {
			w.Type, w.Config = perfdata.TypeSoftware, swCPUClock
			w.attr.Type, w.attr.Config = w.Type, w.Config
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

// explain says why an event cannot be opened, and what helps.
func (r *Recorder) explain(w *wanted, err unix.Errno) error {
	why := map[unix.Errno]string{
		unix.EACCES: paranoidText(), unix.EPERM: paranoidText(),
		unix.ENOENT: "this machine has no such event", unix.ENODEV: "this machine has no such event",
		unix.EOPNOTSUPP: "the PMU cannot sample it", unix.EBUSY: "another event has it for itself",
		unix.EMFILE: "too many open files: raise ulimit -n", unix.ENOSPC: "more breakpoints or groups than the processor has",
		unix.EINVAL: "the kernel does not take what is asked of it", unix.ESRCH: "the process is gone",
	}[err]
	if why == "" {
		why = "perf_event_open"
	}
	return fmt.Errorf("event %q: %s: %w", w.Name, why, err)
}

// tryOpen opens all events. On an error it returns the event that it is of.
func (r *Recorder) tryOpen() (*wanted, error) {
	for ci, cpu := range r.cpus {
		leaders := map[[2]int]int{} // by event and thread
		first := -1                 // counter with the ring of this processor
		for i := range r.list {
			w := &r.list[i]
			if w.CPUs != nil && cpu >= 0 && !slices.Contains(w.CPUs, cpu) {
				continue
			}
			if w.tracking && r.list[i].Config == swDummy && r.o.hasTask() && ci > 0 && cpu < 0 {
				continue
			}
			for ti, tid := range r.tids {
				leader := -1
				if w.Leader != i {
					leader = leaders[[2]int{w.Leader, ti}]
				}
				fd, err := openCounter(&w.attr, tid, cpu, leader, 0)
				if err == unix.ESRCH && len(r.tids) > 1 {
					continue // a thread that is gone by now
				}
				if err != nil {
					return w, err
				}
				c := &counter{fd: fd, event: i, cpu: cpu, tid: tid}
				r.open = append(r.open, c)
				leaders[[2]int{i, ti}] = fd
				if err := c.readID(); err != nil {
					return nil, err
				}
				if first < 0 || cpu < 0 {
					if err := r.addRing(fd); err != nil {
						return nil, err
					}
					first = fd
				} else if err := c.output(first); err != nil {
					return nil, fmt.Errorf("event %q: ring: %w", w.Name, err)
				}
			}
		}
	}
	if len(r.rings) == 0 {
		return nil, unix.ESRCH
	}
	return nil, nil
}

// addRing maps the ring of a counter. Without a size of its own it is as large
// as may be locked, up to 512 KiB.
func (r *Recorder) addRing(fd int) error {
	pages := r.o.Pages
	if pages == 0 {
		pages = 512 << 10 / os.Getpagesize()
	}
	for {
		m, err := mapRing(fd, pages, false)
		if errors.Is(err, errMlock) && r.o.Pages == 0 && pages > 1 {
			pages /= 2
			continue
		}
		if errors.Is(err, errMlock) {
			kb, _ := sysctl("perf_event_mlock_kb")
			return fmt.Errorf("a ring of %d pages: %w: kernel.perf_event_mlock_kb is %d; use a smaller -m, raise it, or have CAP_IPC_LOCK", pages, errMlock, kb)
		}
		if err != nil {
			return err
		}
		r.rings = append(r.rings, m)
		ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLHUP | unix.EPOLLERR, Fd: int32(len(r.rings) - 1)}
		return unix.EpollCtl(r.epoll, unix.EPOLL_CTL_ADD, fd, &ev)
	}
}

func (r *Recorder) closeAll() {
	for _, m := range r.rings {
		m.close()
	}
	for _, c := range r.open {
		unix.Close(c.fd)
	}
	r.rings, r.open = nil, nil
}

// drain reads all rings once, and ends the round if anything was there.
func (r *Recorder) drain() error {
	n := 0
	for _, m := range r.rings {
		n += m.read(func(b []byte) {
			if r.err == nil {
				r.err = r.w.WriteRaw(b)
			}
		})
	}
	if n > 0 && r.err == nil {
		r.Stats.Bytes += uint64(n)
		r.err = r.w.WriteRaw(bare(perfdata.RecordFinishedRound))
	}
	return r.err
}

// loop reads the rings until ctx is done, the command has ended, or all
// targets are gone.
func (r *Recorder) loop(ctx context.Context, ended <-chan struct{}) error {
	flush := r.o.Flush
	if flush <= 0 {
		flush = 500 * time.Millisecond
	}
	events := make([]unix.EpollEvent, 64)
	last := time.Now()
	gone := 0
	for {
		n, err := unix.EpollWait(r.epoll, events, 100)
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("epoll: %w", err)
		}
		for i := range max(n, 0) {
			if events[i].Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 {
				unix.EpollCtl(r.epoll, unix.EPOLL_CTL_DEL, r.rings[events[i].Fd].fd, nil)
				gone++
			} else {
				r.Stats.Wakeups++
			}
		}
		if err := r.drain(); err != nil {
			return err
		}
		if time.Since(last) >= flush {
			if err := r.w.Flush(); err != nil {
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
		if gone >= len(r.rings) && r.o.hasTask() {
			return nil
		}
	}
}

// bare returns a record that is its header alone.
func bare(t perfdata.Type) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(t))
	b = binary.NativeEndian.AppendUint16(b, 0)
	return binary.NativeEndian.AppendUint16(b, 8)
}

// Run records to out until the target is gone, the command ends, or ctx is
// done. If out is an *os.File that can seek, it becomes a file, else what a
// pipe carries. note is told what was not done as asked, and why.
//
// What is in the file at any time can be read as a recording that was killed.
func Run(ctx context.Context, out *os.File, o Options, note func(format string, args ...any)) (*Stats, error) {
	if len(o.Events) == 0 {
		o.Events = []Event{{Name: "cycles", Type: perfdata.TypeHardware, PreciseMax: true}}
	}
	if o.Freq == 0 && o.Period == 0 {
		o.Freq = 4000
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	limit, known := sysctl("perf_event_max_sample_rate")
	if known && (o.FreqMax || o.Freq > uint64(limit)) {
		if !o.FreqMax {
			note("frequency %d is over kernel.perf_event_max_sample_rate, %d, which is used", o.Freq, limit)
		}
		o.Freq = uint64(limit)
	}
	r := &Recorder{o: o, note: note}
	var err error
	if r.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	defer unix.Close(r.epoll)
	if len(o.Command) > 0 {
		if r.cmd, err = startCommand(o.Command); err != nil {
			return nil, err
		}
	}
	err = r.run(ctx, out)
	r.closeAll()
	return &r.Stats, err
}

func (r *Recorder) run(ctx context.Context, out *os.File) error {
	waiting := r.cmd != nil
	defer func() {
		if waiting {
			r.cmd.cancel()
		}
	}()
	if err := r.targets(); err != nil {
		return err
	}
	r.list = r.o.configure(hostRegs)
	if err := r.openAll(); err != nil {
		return err
	}
	if err := r.begin(out); err != nil {
		return err
	}
	if err := r.enable(); err != nil {
		return err
	}
	ended := make(chan struct{})
	if r.cmd != nil {
		waiting = false
		if err := r.cmd.run(); err != nil {
			r.cmd.cmd.Wait()
			return err
		}
		go func() {
			defer close(ended)
			r.cmd.cmd.Wait()
		}()
	}
	err := r.loop(ctx, ended)
	if r.cmd != nil {
		r.endCommand(ended)
	}
	for _, c := range r.open {
		c.disable()
	}
	return errors.Join(err, r.end())
}

// endCommand waits for the command, which is told to end if it runs still.
func (r *Recorder) endCommand(ended <-chan struct{}) {
	select {
	case <-ended:
	default:
		r.cmd.cmd.Process.Signal(unix.SIGTERM)
		<-ended
	}
	r.Stats.Ran = true
	st := r.cmd.cmd.ProcessState
	r.Stats.Status = st.ExitCode()
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		r.Stats.Status = 128 + int(ws.Signal())
	}
}

// enable lets the events count that do not begin with the command's exec.
func (r *Recorder) enable() error {
	if r.o.Delay < 0 {
		return nil
	}
	if r.o.Delay > 0 {
		return nil // see loop
	}
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
func (r *Recorder) begin(out *os.File) error {
	pipe := false
	if _, err := out.Seek(0, io.SeekCurrent); err != nil {
		pipe = true
	}
	var err error
	if r.w, err = perfdata.NewWriter(out, perfdata.WriterOptions{Big: nativeBig, Pipe: pipe}); err != nil {
		return err
	}
	r.file = out
	r.wall, r.clock = time.Now(), clockTime(r.o.Clock)
	for i := range r.list {
		var ids []uint64
		for _, c := range r.open {
			if c.event == i {
				ids = append(ids, c.id)
			}
		}
		if _, err := r.w.AddEvent(r.list[i].attr, ids...); err != nil {
			return err
		}
	}
	s := &synth{proc: "/proc", attr: &r.list[0].attr, big: nativeBig, emit: r.w.WriteRaw, data: r.o.Address, namespaces: r.o.Namespaces}
	hidden, err := s.kernel()
	if err != nil {
		return err
	}
	r.Stats.KernelHidden = hidden
	switch {
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
		if err := s.all(); err != nil {
			return err
		}
	default:
		if err := s.process(r.cmd.pid()); err != nil {
			return err
		}
	}
	if err := r.w.WriteRaw(bare(perfdata.RecordFinishedInit)); err != nil {
		return err
	}
	return r.w.Flush()
}

// end reads what is left, and what was lost.
func (r *Recorder) end() error {
	if err := r.drain(); err != nil {
		return err
	}
	for _, c := range r.open {
		n, ok := c.lost(r.list[c.event].attr.ReadFormat)
		if !ok || n == 0 {
			continue
		}
		r.Stats.Lost += n
		rec := &perfdata.Lost{Meta: meta(perfdata.RecordLostSamples, 0), Count: n}
		rec.ID = c.id
		b, err := perfdata.AppendRecord(nil, rec, &r.list[c.event].attr, nativeBig)
		if err != nil {
			return err
		}
		if err := r.w.WriteRaw(b); err != nil {
			return err
		}
	}
	if err := r.features(); err != nil {
		return err
	}
	return r.w.Close()
}
