package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// createRecording creates a file for this user alone. A recording or link that
// stands in its place becomes name.old; devices and pipes are written to, also
// behind the links of /dev.
func createRecording(name string) (*os.File, error) {
	fi, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case systemLink(name, fi):
		if to, err := os.Stat(name); err != nil || !to.Mode().IsRegular() {
			return os.OpenFile(name, os.O_WRONLY, 0)
		}
		return os.OpenFile(name, os.O_RDWR|os.O_TRUNC, 0)
	case fi.Mode()&os.ModeDevice != 0:
		return os.OpenFile(name, os.O_WRONLY, 0)
	case fi.Mode()&os.ModeNamedPipe != 0:
		return openPipe(name)
	case fi.Mode().IsRegular() && fi.Size() == 0 && !begun(name):
		if err := os.Remove(name); err != nil {
			return nil, err
		}
	default:
		if fi.IsDir() && !recordingDir(name) {
			return nil, fmt.Errorf("%q: a directory", name)
		}
		if err := removeRecording(name + ".old"); err != nil {
			return nil, err
		}
		if err := os.Rename(name, name+".old"); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) // not every file system has locks
	}
	return f, err
}

// begun reports whether a file is one that another recorder has just made.
func begun(name string) bool {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == unix.EWOULDBLOCK
}

// systemLink reports whether a name is one of the links that the system has to
// open files, such as /dev/stdout, which are not to be moved away.
func systemLink(name string, fi os.FileInfo) bool {
	if fi.Mode()&os.ModeSymlink == 0 {
		return false
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(name))
	if err != nil {
		return false
	}
	dir, err = filepath.Abs(dir)
	return err == nil && (dir == "/dev" || strings.HasPrefix(dir, "/proc/"))
}

// openPipe opens a pipe to write to it, unless others may have put it there.
func openPipe(name string) (*os.File, error) {
	fd, err := unix.Open(name, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	var dir, st unix.Stat_t
	if err := errors.Join(unix.Stat(filepath.Dir(name), &dir), unix.Fstat(fd, &st)); err != nil {
		unix.Close(fd)
		return nil, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	if dir.Mode&unix.S_IWOTH != 0 && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		unix.Close(fd)
		return nil, fmt.Errorf("%q: a pipe of another user, in a directory to which everybody may write", name)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// recordingDir reports whether a directory holds a recording, as perf record
// --threads and --kcore write it, and nothing else.
func recordingDir(name string) bool {
	list, err := os.ReadDir(name)
	if err != nil {
		return false
	}
	data := false
	for _, e := range list {
		switch n := e.Name(); {
		case strings.HasPrefix(n, "kcore_dir") && e.IsDir(), strings.HasPrefix(n, "data.") && e.Type().IsRegular():
		case n == "data" && e.Type().IsRegular():
			data = true
		default:
			return false
		}
	}
	return data
}

// removeRecording removes the recording before the last, and nothing else.
func removeRecording(name string) error {
	fi, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !fi.IsDir():
		return os.Remove(name)
	case !recordingDir(name):
		return hintf(fmt.Errorf("%q: a directory is where the recording before this one would go", name), "-o FILE")
	}
	return os.RemoveAll(name)
}
