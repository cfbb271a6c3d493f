package record

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// A waker ends the wait of a loop that waits for its descriptor too. Whoever
// wakes it may come late: when it is closed, nothing is written, as its number
// may be that of another file by then.
type waker struct {
	fd int // an eventfd: for the loop alone, which ends before it is closed

	mu     sync.Mutex
	closed bool
}

func newWaker() (*waker, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	return &waker{fd: fd}, nil
}

// wake ends a wait.
func (w *waker) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		unix.Write(w.fd, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

// woken has the next wait last until it is woken again.
func (w *waker) woken() {
	var b [8]byte
	unix.Read(w.fd, b[:])
}

func (w *waker) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		unix.Close(w.fd)
	}
}
