package archive

import (
	"io/fs"
	"syscall"
)

// owner returns the permissions and the owner of a file; zeros if unknown.
func owner(fi fs.FileInfo) (mode, uid, gid uint32) {
	if fi == nil {
		return 0, 0, 0
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return uint32(fi.Mode().Perm()), 0, 0
	}
	return uint32(st.Mode) & 0o7777, st.Uid, st.Gid
}
