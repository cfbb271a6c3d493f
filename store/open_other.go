//go:build !linux

package store

import (
	"io/fs"
	"os"
	"time"
)

const (
	atCWD   = 0
	noATime = 0
)

// openRegular opens a regular file for reading. dir is not used here.
func openRegular(_ int, name, origin string) (*File, error) {
	fi, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, &RefusedError{Path: origin, Reason: NotRegular, Why: "not a regular file"}
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return newFile(f, origin)
}

func sameChange(a, b fs.FileInfo) bool { return os.SameFile(a, b) }

func owner(fs.FileInfo) (uid int, ok bool) { return 0, false }

type fileID struct{ dev, ino uint64 }

func identity(fs.FileInfo) (fileID, bool) { return fileID{}, false }

func used(fi fs.FileInfo) time.Time { return fi.ModTime() }
