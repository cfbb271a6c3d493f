package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/perfdata"
)

// A side sees mappings as soon as they are made, in rings of its own that wake
// it with each record: the rings of the recording are read twice a second, when
// a short process is gone, and with it what it had mapped. What it sees is not
// recorded; the identities of the files are known then. (perf has such a thread
// for BPF programs.)
//
// It is woken so many times a second at most, so that a storm of processes costs
// little, and looks at each file once then.
type side struct {
	ids   *identities
	seen  map[fileKey]buildid.ID // since it was woken
	timed bool                   // records have the time of the wall clock
	rings []*ring
	fds   []int
	epoll int
	stop  *waker
	work  sync.WaitGroup
	buf   []byte
}

const (
	sidePages = 16

	// What is not woken for is saved up, for bursts.
	sideEvery = 40 * time.Millisecond // how often it is woken if it always is
	sideBurst = 25                    // how often at once
)

// openSide opens the events of a side on the targets of the recording; nil if
// that is not allowed, or there are too many: mappings are then seen later.
func (r *recorder) openSide() *side {
	if n := len(r.tids) * len(r.cpus); n > room()/2 {
		return nil
	}
	a := perfdata.Attr{
		Type: perfdata.TypeSoftware, Config: swDummy, Size: attrSize, WakeupEvents: 1, // byte
		Flags: perfdata.FlagMmap | perfdata.FlagMmap2 | perfdata.FlagWatermark | perfdata.FlagExcludeKernel | perfdata.FlagExcludeHV,
	}
	if !r.o.NoInherit {
		a.Flags |= perfdata.FlagInherit
	}
	if !r.o.hasCPU() && !r.o.hasTask() {
		a.Flags |= perfdata.FlagDisabled | perfdata.FlagEnableOnExec
	}
	timed := a
	timed.Flags |= perfdata.FlagSampleIDAll | perfdata.FlagUseClockID
	timed.SampleType, timed.ClockID = perfdata.SampleTime, unix.CLOCK_REALTIME
	for i, a := range []*perfdata.Attr{&timed, &a} {
		s := &side{epoll: -1, timed: i == 0}
		if s.open(a, r.tids, r.cpus) == nil {
			return s
		}
		s.close()
	}
	return nil
}

func (s *side) open(a *perfdata.Attr, tids, cpus []int) (err error) {
	if s.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if s.stop, err = newWaker(); err != nil {
		return err
	}
	if err := s.watch(s.stop.fd); err != nil {
		return err
	}
	for _, cpu := range cpus {
		first := -1
		for _, tid := range tids {
			fd, err := openCounter(a, tid, cpu, -1, 0)
			if err == unix.ESRCH {
				continue
			}
			if err != nil {
				return err
			}
			s.fds = append(s.fds, fd)
			if first < 0 || cpu < 0 {
				first = fd
				m, err := mapRing(fd, sidePages, false)
				if err != nil {
					return err
				}
				s.rings = append(s.rings, m)
			} else if err := (&counter{fd: fd}).output(first); err != nil {
				return err
			}
			if err := s.watch(fd); err != nil {
				return err
			}
		}
	}
	if len(s.rings) == 0 {
		return fmt.Errorf("no target: %w", unix.ESRCH)
	}
	return nil
}

func (s *side) watch(fd int) error {
	return unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// start begins to read, for ids, until end is called.
func (s *side) start(ids *identities) {
	if s == nil {
		return
	}
	s.ids, s.seen = ids, map[fileKey]buildid.ID{}
	s.work.Go(s.loop)
}

// end ends the reading.
func (s *side) end() {
	if s == nil {
		return
	}
	s.stop.wake()
	s.work.Wait()
	s.close()
}

func (s *side) close() {
	for _, m := range s.rings {
		m.close()
	}
	for _, fd := range s.fds {
		unix.Close(fd)
	}
	if s.epoll >= 0 {
		unix.Close(s.epoll)
	}
	if s.stop != nil {
		s.stop.close()
	}
}

func (s *side) loop() {
	events := make([]unix.EpollEvent, 16)
	saved := time.Now().Add(-sideBurst * sideEvery) // one more wake for each sideEvery since then
	for {
		n, err := unix.EpollWait(s.epoll, events, -1)
		if err != nil && err != unix.EINTR {
			return
		}
		for _, ev := range events[:max(n, 0)] {
			if int(ev.Fd) == s.stop.fd {
				return
			}
			if ev.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 {
				unix.EpollCtl(s.epoll, unix.EPOLL_CTL_DEL, int(ev.Fd), nil)
			}
		}
		clear(s.seen)
		for _, m := range s.rings {
			m.read(s.take)
		}
		now := time.Now()
		if first := now.Add(-sideBurst * sideEvery); saved.Before(first) {
			saved = first
		}
		if saved = saved.Add(sideEvery); saved.After(now) {
			// A system call, as that costs less than a timer.
			ts := unix.NsecToTimespec(int64(sideEvery))
			unix.Nanosleep(&ts, nil)
		}
	}
}

// take reads records. A mapping is looked up, and with that known.
func (s *side) take(first, second []byte) error {
	s.buf = append(append(s.buf[:0], first...), second...)
	for b := s.buf; len(b) >= 8; {
		size := recordSize(b)
		if size < 8 || size > len(b) {
			break
		}
		rec := b[:size]
		b = b[size:]
		if perfdata.Type(native32(rec)) != perfdata.RecordMmap2 || size <= mmapName ||
			binary.NativeEndian.Uint16(rec[4:])&perfdata.MiscCPUModeMask != perfdata.CPUModeUser || native32(rec[mmapProt:])&protExec == 0 {
			continue
		}
		if name, _, ok := bytes.Cut(rec[mmapName:], []byte{0}); ok {
			m := mapped(rec, string(name))
			if s.timed {
				m.at = int64(binary.NativeEndian.Uint64(rec[size-8:]))
			}
			s.ids.sight(m, s.seen)
		}
	}
	return nil
}
