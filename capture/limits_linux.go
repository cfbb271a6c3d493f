package capture

import (
	"bufio"
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the processor's time that this process has used.
func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Memory returns the memory that this process has for itself, in bytes: what is
// neither of files nor shared.
func Memory() int64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		if rest, ok := strings.CutPrefix(sc.Text(), "RssAnon:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb << 10
		}
	}
	return 0
}

// WithMemory returns a context that is done, with ErrMemory, when the process
// has more than limit bytes of memory for itself. The function it returns ends
// the watch. A limit of 0 is none.
func WithMemory(ctx context.Context, limit int64) (context.Context, func()) {
	if limit <= 0 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(50 * time.Millisecond)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				if Memory() > limit {
					cancel(ErrMemory)
				}
			}
		}
	}()
	return ctx, func() {
		cancel(context.Canceled)
		<-done
	}
}

// Nice lowers the priority of this process, of the processor by n from 0 to 19
// and if that is more than 0 that of the disk to the least. Both are of threads:
// it sets those of all there are, from which others have theirs.
func Nice(n int) error {
	if n <= 0 {
		return nil
	}
	// ioprio_set: class 2 (best effort), level 7 (linux/ioprio.h).
	const whoProcess, prio = 1, 2<<13 | 7
	for set := map[string]bool{}; ; {
		list, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		more := false
		for _, e := range list {
			if set[e.Name()] {
				continue
			}
			set[e.Name()], more = true, true
			tid, err := strconv.Atoi(e.Name())
			if err != nil {
				continue
			}
			if err := unix.Setpriority(unix.PRIO_PROCESS, tid, n); err != nil && err != unix.ESRCH {
				return err
			}
			unix.Syscall(unix.SYS_IOPRIO_SET, whoProcess, uintptr(tid), prio)
		}
		if !more {
			return nil
		}
	}
}
