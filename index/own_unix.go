//go:build unix

package index

import (
	"io/fs"
	"os"
	"syscall"
)

// own reports whether only the caller, or root, may write to a directory.
func own(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid() && fi.Mode().Perm()&0o022 == 0
}
