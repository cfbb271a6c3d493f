package record

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Whoever wakes a loop that has ended, such as the end of a context, writes to
// no file that has got the descriptor since.
func TestWakerClosed(t *testing.T) {
	w, err := newWaker()
	if err != nil {
		t.Fatal(err)
	}
	w.wake()
	if !readable(w.fd) {
		t.Error("it was woken, and nothing is there to be read")
	}
	w.woken()
	if readable(w.fd) {
		t.Error("it was read, and there is more")
	}
	fd := w.fd
	other, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(other)
	w.close()
	if err := unix.Dup3(other, fd, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	w.wake()
	w.close()
	if readable(fd) {
		t.Error("a waker that is closed wrote to another file")
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
		t.Errorf("a waker that is closed closed another file: %v", err)
	}
}
