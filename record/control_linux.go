package record

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/perfdata"
)

// What wakes the loop besides the rings, in place of the number of a counter.
const (
	wakeOther   = -1 // the eventfd: something else has to be seen to
	wakeControl = -2 // a command
	wakeTrigger = -3 // an event that is a reason to begin another file
)

// A toggle is a moment at which events are enabled, or no longer.
type toggle struct {
	at time.Duration // since the recording began
	on bool
}

// toggles returns when events are enabled and disabled, in order. None if they
// are enabled from the start, or never.
func (o *Options) toggles() []toggle {
	if len(o.Windows) == 0 {
		if o.Delay > 0 {
			return []toggle{{o.Delay, true}}
		}
		return nil
	}
	var list []toggle
	for _, w := range o.Windows {
		list = append(list, toggle{w.From, true}, toggle{w.To, false})
	}
	return list
}

// toggle enables or disables the events of a name, or with "" all but the one
// that sees what is mapped.
func (r *recorder) toggle(name string, on bool) error {
	found := name == ""
	for _, c := range r.open {
		w := &r.list[c.event]
		if w.added || name != "" && w.Name != name {
			continue
		}
		found = true
		err := c.disable
		if on {
			err = c.enable
		}
		if err := err(); err != nil {
			return fmt.Errorf("event %q: %w", w.Name, err)
		}
	}
	if !found {
		return fmt.Errorf("event %q: it is not recorded", name)
	}
	return nil
}

// controls does what has been written to Control.In by now. It reports whether
// the recording is to end.
func (r *recorder) controls() (stop bool) {
	c := r.o.Control
	var b [4096]byte
	for len(r.commands) < len(b) && readable(int(c.In.Fd())) {
		n, err := unix.Read(int(c.In.Fd()), b[:])
		if err == unix.EINTR {
			continue
		}
		if n <= 0 { // there is nobody any more to write to it
			if err != unix.EAGAIN {
				unix.EpollCtl(r.epoll, unix.EPOLL_CTL_DEL, int(c.In.Fd()), nil)
			}
			break
		}
		r.commands = append(r.commands, b[:n]...)
	}
	for {
		line, rest, ok := bytes.Cut(r.commands, []byte("\n"))
		if !ok {
			if len(r.commands) >= len(b) {
				r.note("control: a line of more than %d bytes is left out", len(b))
				r.commands = nil
			}
			return stop
		}
		word, arg, _ := strings.Cut(strings.TrimSpace(strings.TrimRight(string(line), "\x00")), " ")
		r.commands = rest
		done, err := r.control(word, strings.TrimSpace(arg))
		stop = stop || done
		if err != nil {
			r.note("control: %v", err)
			continue
		}
		if c.Ack != nil {
			c.Ack.Write([]byte("ack\n"))
		}
	}
}

// control does what one command says.
func (r *recorder) control(word, arg string) (stop bool, err error) {
	switch word {
	case "enable":
		return false, r.toggle(arg, true)
	case "disable":
		return false, r.toggle(arg, false)
	case "stop":
		return true, nil
	case "ping":
		return false, nil
	case "evlist":
		if out := r.o.Control.Out; out != nil {
			for i := range r.list {
				fmt.Fprintln(out, r.list[i].Name)
			}
		}
		return false, nil
	case "snapshot":
		return false, errors.New("snapshot: there are no hardware traces")
	}
	return false, fmt.Errorf("%q: want enable, disable, evlist, ping or stop", word)
}

func readable(fd int) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(p, 0)
		if err != unix.EINTR {
			return err == nil && n > 0
		}
	}
}

// openTriggers opens the events that are a reason to begin another file. Each
// has rings of its own, in which nothing is of interest but that there is
// something.
func (r *recorder) openTriggers() error {
	for i := range r.o.Switch.Events {
		e := &r.o.Switch.Events[i]
		w := wanted{Event: *e, cgroup: -1, attr: e.attr()}
		w.attr.Size = attrSize
		w.attr.SamplePeriod, w.attr.WakeupEvents = max(e.Period, 1), 1
		if e.Freq > 0 {
			w.attr.SamplePeriod, w.attr.Flags = e.Freq, perfdata.FlagFreq
		}
		w.attr.SampleType = perfdata.SampleTime
		w.exclude(&r.o, func(on bool, f perfdata.AttrFlags) {
			if on {
				w.attr.Flags |= f
			}
		})
		for _, cpu := range r.cpus {
			for _, tid := range r.tids {
				if cpu >= 0 && !r.o.NoInherit {
					w.attr.Flags |= perfdata.FlagInherit
				}
				fd, err := openCounter(&w.attr, tid, cpu, -1, 0)
				if err == unix.ESRCH && len(r.tids) > 1 {
					continue
				}
				if err != nil {
					var errno unix.Errno
					errors.As(err, &errno)
					return r.explain(&w, errno)
				}
				r.triggers = append(r.triggers, trigger{fd: fd})
				m, err := mapRing(fd, 1, false)
				if err != nil {
					return fmt.Errorf("event %q: %w", e.Name, err)
				}
				r.triggers[len(r.triggers)-1].ring = m
				if e.Filter != "" {
					if err := setFilter(fd, e.Filter); err != nil {
						return fmt.Errorf("event %q: filter %q: %w", e.Name, e.Filter, err)
					}
				}
				if err := r.watch(fd, wakeTrigger); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// A trigger is a counter whose samples begin another file.
type trigger struct {
	fd   int
	ring *ring
}

// triggered empties the rings of triggers, and reports whether there was
// anything in them.
func (r *recorder) triggered() bool {
	any := false
	for _, t := range r.triggers {
		n, _ := t.ring.read(func(first, second []byte) error { return nil })
		any = any || n > 0
	}
	return any
}

func (r *recorder) closeTriggers() {
	for _, t := range r.triggers {
		if t.ring != nil {
			t.ring.close()
		}
		unix.Close(t.fd)
	}
	r.triggers = nil
}
