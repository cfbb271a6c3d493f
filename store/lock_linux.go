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
