package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A command is a process that is there, with events open on it, before it
// becomes the program it is to be: it waits for the word.
type command struct {
	cmd  *exec.Cmd
	goOn *os.File // a byte to it lets the program begin
	errs *os.File // errno of an exec that failed; the end of file if it did not
}

// waiterName is what os.Args[0] of a process that waits is.
const waiterName = "perf-exec"

// Waiting reports whether this process was started to wait and then to become
// another program: see Wait. A program that records asks first of all.
func Waiting() bool {
	return len(os.Args) > 1 && os.Args[0] == waiterName && isPipe(3) && isPipe(4)
}

func isPipe(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
}

// Wait waits for the recorder's word and becomes the program of os.Args[1:].
// It has to run on the first thread of the process, as events are open on
// that: in an init function of the program. It does not return.
func Wait() {
	runtime.LockOSThread()
	goOn, errs := os.NewFile(3, "go"), os.NewFile(4, "errors")
	unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(unsafe.StringData(waiterName+"\x00"))), 0, 0, 0)
	unix.CloseOnExec(3)
	unix.CloseOnExec(4)
	// From here on no thread may begin: one would inherit the counters that are
	// open by then, and as its process's they could change places, after which
	// the kernel refuses what is to join their group.
	runtime.GOMAXPROCS(1)
	b := []byte{0}
	errs.Write(b)
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_READ, goOn.Fd(), uintptr(unsafe.Pointer(&b[0])), 1)
		if errno == unix.EINTR {
			continue
		}
		if n != 1 {
			os.Exit(1) // the recorder gave up
		}
		break
	}
	fail := func(err error) {
		var errno unix.Errno
		if !errors.As(err, &errno) {
			errno = unix.ENOENT
		}
		binary.Write(errs, binary.NativeEndian, int32(errno))
		os.Exit(127)
	}
	name, err := exec.LookPath(os.Args[1])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		fail(err)
	}
	fail(unix.Exec(name, os.Args[1:], os.Environ()))
}

// startCommand starts a process that waits. Its standard streams are ours; if
// ours is the recording, its output goes where errors go.
func startCommand(args []string, piped bool) (*command, error) {
	goR, goW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		goR.Close()
		goW.Close()
		return nil, err
	}
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: append([]string{waiterName}, args...),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, ExtraFiles: []*os.File{goR, errW},
	}
	if piped {
		cmd.Stdout = os.Stderr
	}
	err = cmd.Start()
	goR.Close()
	errW.Close()
	if err != nil {
		goW.Close()
		errR.Close()
		return nil, fmt.Errorf("%q: %w", args[0], err)
	}
	c := &command{cmd: cmd, goOn: goW, errs: errR}
	if _, err := io.ReadFull(errR, make([]byte, 1)); err != nil {
		c.cancel()
		return nil, fmt.Errorf("%q: the process that is to become it has ended: %v", args[0], cmd.ProcessState)
	}
	return c, nil
}

func (c *command) pid() int { return c.cmd.Process.Pid }

// run lets the program begin. The error is that of its start.
func (c *command) run() error {
	_, err := c.goOn.Write([]byte{1})
	c.goOn.Close()
	defer c.errs.Close()
	if err != nil {
		return err
	}
	var errno int32
	switch err := binary.Read(c.errs, binary.NativeEndian, &errno); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%q: %w", c.cmd.Args[1], unix.Errno(errno))
}

// cancel ends a process that still waits.
func (c *command) cancel() {
	c.goOn.Close()
	c.errs.Close()
	c.cmd.Wait()
}
