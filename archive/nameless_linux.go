package archive

import "golang.org/x/sys/unix"

// openNameless opens a new file in dir that has no name, where the file system
// can do that.
func openNameless(dir string) (fd int, err error) {
	return unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
}
