package store

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	atCWD   = unix.AT_FDCWD
	noATime = unix.O_NOATIME
)

// openRegular opens a file for reading without ever opening anything else: a
// FIFO would block and a device may act on open. The name is looked at through
// a descriptor that only points at the file, and what is opened is what that
// descriptor points at. dir is a descriptor that name is relative to, or
// unix.AT_FDCWD.
func openRegular(dir int, name, origin string) (*File, error) {
	path, err := openat(dir, name, unix.O_PATH)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: origin, Err: err}
	}
	defer unix.Close(path)
	return openPointed(path, origin)
}

// openPointed opens for reading the regular file that an O_PATH descriptor
// points at.
func openPointed(path int, origin string) (*File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(path, &st); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: origin, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, &RefusedError{Path: origin, Reason: NotRegular, Why: "not a regular file"}
	}
	var sfs unix.Statfs_t
	if err := unix.Fstatfs(path, &sfs); err == nil && (sfs.Type == unix.PROC_SUPER_MAGIC || sfs.Type == unix.SYSFS_MAGIC) {
		return nil, &RefusedError{Path: origin, Reason: NotRegular, Why: "a file of the kernel, not of a disk"}
	}
	fd, err := openat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", path), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: origin, Err: err}
	}
	return newFile(os.NewFile(uintptr(fd), origin), origin)
}

func openat(dir int, name string, flags int) (fd int, err error) {
	for {
		fd, err = unix.Openat(dir, name, flags|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// sameChange reports whether a file's status did not change either: a write
// whose time was set back shows there.
func sameChange(a, b fs.FileInfo) bool {
	x, ok := a.Sys().(*syscall.Stat_t)
	y, ok2 := b.Sys().(*syscall.Stat_t)
	if !ok || !ok2 {
		return true
	}
	// A new name or a removed one changes the time of status, not the bytes.
	return x.Ino == y.Ino && (x.Ctim == y.Ctim || x.Nlink != y.Nlink)
}

// owner returns the user id of a file's owner.
func owner(fi fs.FileInfo) (uid int, ok bool) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}

// A fileID tells files of this host apart.
type fileID struct{ dev, ino uint64 }

func identity(fi fs.FileInfo) (fileID, bool) {
	if fi == nil {
		return fileID{}, false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}, false
	}
	return fileID{uint64(st.Dev), st.Ino}, true
}

// used returns when a file was last read or written, as far as the file system
// keeps it.
func used(fi fs.FileInfo) time.Time {
	t := fi.ModTime()
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		if a := time.Unix(st.Atim.Unix()); a.After(t) {
			return a
		}
	}
	return t
}
