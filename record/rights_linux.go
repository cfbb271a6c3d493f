package record

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// neededRights are the capabilities of which a recording has use once its
// events are open: to end the command, to read files of others and what they
// have mapped, and the kernel's symbols.
const neededRights = 1<<unix.CAP_KILL | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_SYSLOG |
	1<<unix.CAP_PERFMON | 1<<unix.CAP_CHECKPOINT_RESTORE

// dropRights gives up all other capabilities, in all threads (REC-1). The
// command has been started, and has what the user has.
func (r *recorder) dropRights() {
	keep := uint64(neededRights)
	if r.o.KeepOverride {
		keep |= 1 << unix.CAP_DAC_OVERRIDE
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if unix.Capget(&hdr, &have[0]) != nil {
		return
	}
	want := have
	for i := range want {
		mask := uint32(keep >> (32 * i))
		want[i].Effective &= mask
		want[i].Permitted &= mask
		want[i].Inheritable = 0
	}
	if want == have {
		return
	}
	hdr.Pid = 0
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&hdr)), uintptr(unsafe.Pointer(&want[0])), 0)
	if errno == unix.ENOTSUP { // with cgo, which perfark is never built with but by go test -race
		errno = 0
		runtime.LockOSThread() // this one at least
		if err := unix.Capset(&hdr, &want[0]); err != nil {
			errors.As(err, &errno)
		}
	}
	runtime.KeepAlive(&hdr)
	runtime.KeepAlive(&want)
	if errno != 0 {
		r.note("capabilities that are not needed any more cannot be given up: %v", errno)
	}
}

// realtime has this thread, and the recording with it, go before all others
// that are not as urgent.
func realtime(priority int) error {
	runtime.LockOSThread()
	a := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Flags: unix.SCHED_FLAG_RESET_ON_FORK, Priority: uint32(priority)}
	if err := unix.SchedSetAttr(0, &a, 0); err != nil {
		return fmt.Errorf("priority %d: %w: CAP_SYS_NICE, or ulimit -r, allows it", priority, err)
	}
	return nil
}

// ownThreads are the threads of this process.
func ownThreads() []int {
	list, _ := os.ReadDir("/proc/self/task")
	var tids []int
	for _, d := range list {
		if tid, err := strconv.Atoi(d.Name()); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids
}
