package store

import (
	"os"

	"golang.org/x/sys/unix"
)

// lockTemp marks a temporary file as being written: what is left of it when we
// are killed is not locked, and may be removed.
func lockTemp(f *os.File) {
	unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) // not every file system can
}

// clone makes t, which is empty, share the bytes of f, if their file system can
// do that.
func clone(t *os.File, f *File) bool {
	if f.f == nil || unix.IoctlFileClone(int(t.Fd()), int(f.f.Fd())) != nil {
		return false
	}
	fi, err := t.Stat()
	return err == nil && fi.Size() == f.Size
}
