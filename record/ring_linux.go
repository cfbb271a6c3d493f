package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/perfdata"
)

// A counter is an open perf event.
type counter struct {
	fd    int
	event int // index in the list of wanted
	cpu   int // -1: any
	tid   int // -1: all
	id    uint64
}

// openCounter opens an event. leader is -1, or the descriptor of the group's leader.
func openCounter(a *perfdata.Attr, tid, cpu, leader int, flags uintptr) (int, error) {
	b := a.AppendTo(nil, attrSize, nativeBig)
	fd, _, errno := unix.Syscall6(unix.SYS_PERF_EVENT_OPEN, uintptr(unsafe.Pointer(&b[0])),
		uintptr(tid), uintptr(cpu), uintptr(leader), flags|unix.PERF_FLAG_FD_CLOEXEC, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

var nativeBig = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

// ioctls (include/uapi/linux/perf_event.h).
func (c *counter) readID() error {
	var id uint64
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(c.fd), unix.PERF_EVENT_IOC_ID, uintptr(unsafe.Pointer(&id)))
	if errno != 0 {
		return fmt.Errorf("id of an event: %w", errno)
	}
	c.id = id
	return nil
}

func (c *counter) enable() error  { return unix.IoctlSetInt(c.fd, unix.PERF_EVENT_IOC_ENABLE, 0) }
func (c *counter) disable() error { return unix.IoctlSetInt(c.fd, unix.PERF_EVENT_IOC_DISABLE, 0) }

// setFilter has the kernel drop the records of a tracepoint that a filter does
// not match.
func setFilter(fd int, filter string) error {
	b, err := unix.BytePtrFromString(filter)
	if err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.PERF_EVENT_IOC_SET_FILTER, uintptr(unsafe.Pointer(b))); errno != 0 {
		return errno
	}
	return nil
}

// output sends the records of c to the ring of another.
func (c *counter) output(to int) error {
	return unix.IoctlSetInt(c.fd, unix.PERF_EVENT_IOC_SET_OUTPUT, to)
}

// lost reads how many samples of the event were lost; false if the kernel does
// not say.
func (c *counter) lost(f perfdata.ReadFormat) (uint64, bool) {
	var buf [4096]byte
	n, err := unix.Read(c.fd, buf[:])
	if err != nil || f&perfdata.ReadLost == 0 {
		return 0, false
	}
	words := make([]uint64, n/8)
	for i := range words {
		words[i] = binary.NativeEndian.Uint64(buf[8*i:])
	}
	at := 1 // value, or nr of a group
	if f&perfdata.ReadEnabled != 0 {
		at++
	}
	if f&perfdata.ReadRunning != 0 {
		at++
	}
	if f&perfdata.ReadGroup != 0 {
		at++ // value of the leader
	}
	if f&perfdata.ReadID != 0 {
		at++
	}
	if at >= len(words) {
		return 0, false
	}
	return words[at], true
}

// A ring is the memory that the kernel writes records of one processor or
// thread to.
type ring struct {
	fd   int // of the counter it belongs to
	mem  []byte
	data []byte
	head *uint64 // in mem
	tail *uint64
	pos  uint64 // read up to here

	backward bool // the newest record stands first, and the oldest are overwritten
}

// Places in struct perf_event_mmap_page.
const (
	pageDataHead = 1024
	pageDataTail = 1032
)

// errMlock says that the ring is larger than what may be locked.
var errMlock = errors.New("the ring does not fit into what may be locked")

// mapRing maps the ring of the counter fd: pages of data, a power of two. One
// that is read only is written to from its end on, see FlagWriteBackward.
func mapRing(fd, pages int, readOnly bool) (*ring, error) {
	size := os.Getpagesize()
	prot := unix.PROT_READ | unix.PROT_WRITE
	if readOnly {
		prot = unix.PROT_READ
	}
	mem, err := unix.Mmap(fd, 0, size*(1+pages), prot, unix.MAP_SHARED)
	if err == unix.EPERM {
		return nil, errMlock
	}
	if err != nil {
		return nil, fmt.Errorf("ring of %d pages: %w", pages, err)
	}
	return &ring{
		fd: fd, mem: mem, data: mem[size:], backward: readOnly,
		head: (*uint64)(unsafe.Pointer(&mem[pageDataHead])),
		tail: (*uint64)(unsafe.Pointer(&mem[pageDataTail])),
	}, nil
}

// read gives what is in the ring to take, in two pieces if it goes on at the
// begin, and then to the kernel for reuse.
func (r *ring) read(take func(first, second []byte) error) (int, error) {
	head := atomic.LoadUint64(r.head)
	n := head - r.pos
	if n == 0 {
		return 0, nil
	}
	mask := uint64(len(r.data) - 1)
	from, to := r.pos&mask, head&mask
	var err error
	if from < to {
		err = take(r.data[from:to], nil)
	} else {
		err = take(r.data[from:], r.data[:to])
	}
	r.pos = head
	atomic.StoreUint64(r.tail, head)
	return int(n), err
}

// readBackward gives the newest records to take, the newest first, as many as
// are whole. The kernel writes no others meanwhile.
func (r *ring) readBackward(take func(first, second []byte) error) (int, error) {
	if err := unix.IoctlSetInt(r.fd, unix.PERF_EVENT_IOC_PAUSE_OUTPUT, 1); err != nil {
		return 0, fmt.Errorf("ring: %w", err)
	}
	defer unix.IoctlSetInt(r.fd, unix.PERF_EVENT_IOC_PAUSE_OUTPUT, 0)
	head := atomic.LoadUint64(r.head)
	size := uint64(len(r.data))
	mask := size - 1
	n := uint64(0)
	for head+n != r.pos && n+8 <= size { // r.pos is where it was read up to before
		at := (head + n) & mask
		rec := uint64(recordSize(r.data[at:]))
		if rec < 8 || n+rec > size {
			break
		}
		n += rec
	}
	r.pos = head
	if n == 0 {
		return 0, nil
	}
	from, to := head&mask, (head+n)&mask
	if from < to {
		return int(n), take(r.data[from:to], nil)
	}
	return int(n), take(r.data[from:], r.data[:to])
}

func (r *ring) close() { unix.Munmap(r.mem) }
