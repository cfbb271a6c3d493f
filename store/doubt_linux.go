package store

import (
	"io/fs"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// identify returns the inode at a path and when it was made. It is not ok
// where the file system keeps no such time, or shows other inodes to stat than
// to perf, as overlayfs may.
func identify(name string) (ino uint64, born time.Time, ok bool) {
	var sfs unix.Statfs_t
	if unix.Statfs(name, &sfs) != nil || sfs.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return 0, time.Time{}, false
	}
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, name, unix.AT_STATX_DONT_SYNC, unix.STATX_INO|unix.STATX_BTIME|unix.STATX_TYPE, &st)
	if err != nil || st.Mask&unix.STATX_BTIME == 0 || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0, time.Time{}, false
	}
	return st.Ino, time.Unix(st.Btime.Sec, int64(st.Btime.Nsec)), true
}

// inode returns the inode of a file, 0 if it is not known.
func inode(fi fs.FileInfo) uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}
