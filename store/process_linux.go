package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A Process is a living process, held by a descriptor of its directory in
// /proc: once it ends, everything through it fails, even if another process
// gets its number. What it opens are regular files, looked at through a
// descriptor that only points at them before they are opened, so that neither
// a FIFO nor a device is. Close it.
type Process struct{ p *proc }

// OpenProcess opens a process. procfs is /proc.
func OpenProcess(procfs string, pid int) (*Process, error) {
	p, err := openProc(procfs, int32(pid))
	if err != nil {
		return nil, err
	}
	return &Process{p}, nil
}

// Close lets go of the process.
func (p *Process) Close() { p.p.close() }

// Same fails unless the process still is the one that was opened: the time of
// its start is the same.
func (p *Process) Same() error { return p.p.same(p.p.start) }

// UID returns the effective user of the process, -1 if it is not known.
func (p *Process) UID() int { return p.p.uid() }

// Started returns when the process started on the wall clock, to a second; zero
// if that is not known.
func (p *Process) Started() time.Time { return started("/proc", p.p.start) }

// NSPID returns the number that the process has in its innermost namespace.
func (p *Process) NSPID() int { return int(p.p.nsPID()) }

// Mapping opens the file that is mapped from start to end.
func (p *Process) Mapping(start, end uint64) (*File, error) {
	return p.p.openMapFile(mapping{rng: fmt.Sprintf("%x-%x", start, end)})
}

// MappingPath returns what the kernel says is mapped from start to end: a path,
// perhaps with " (deleted)".
func (p *Process) MappingPath(start, end uint64) (string, error) {
	return readlinkat(p.p.dir, fmt.Sprintf("map_files/%x-%x", start, end))
}

func readlinkat(dir int, name string) (string, error) {
	text := make([]byte, 2*unix.PathMax)
	n, err := unix.Readlinkat(dir, name, text)
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(text[:n]), nil
}

// Exe opens the program of the process.
func (p *Process) Exe() (*File, error) {
	return openRegular(p.p.dir, "exe", fmt.Sprintf("/proc/%d/exe", p.p.pid))
}

// InRoot opens a file by the path that it has for the process. No link leads
// out of the process's root.
func (p *Process) InRoot(name string) (*File, error) { return p.p.openInRoot(name, false) }

// Dir holds a directory by the path that it has for the process.
func (p *Process) Dir(name string) (*Dir, error) {
	root, err := openat(p.p.dir, "root", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	return holdDir(root, name)
}

// A Dir is a directory that is held by a descriptor that only points at it. It
// leads there also when the process, and with it its mount namespace, is gone.
type Dir struct{ fd int }

// HoldDir holds a directory of this host.
func HoldDir(name string) (*Dir, error) {
	root, err := openat(unix.AT_FDCWD, "/", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	return holdDir(root, name)
}

func holdDir(root int, name string) (*Dir, error) {
	fd, err := walkInRoot(root, name, false)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		unix.Close(fd)
		return nil, &fs.PathError{Op: "open", Path: name, Err: unix.ENOTDIR}
	}
	return &Dir{fd}, nil
}

// Close lets go of the directory.
func (d *Dir) Close() { unix.Close(d.fd) }

// IsSame reports whether both are one directory.
func (d *Dir) IsSame(o *Dir) bool {
	var a, b unix.Stat_t
	return unix.Fstat(d.fd, &a) == nil && unix.Fstat(o.fd, &b) == nil && a.Dev == b.Dev && a.Ino == b.Ino
}

// Log opens a file of the directory that a process of a user writes for
// others. It must be that user's or root's, and no link. It may be written to
// meanwhile.
func (d *Dir) Log(name string, uid int) (*File, error) {
	if strings.Contains(name, "/") {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	fd, err := openat(d.fd, name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	f, err := openPointed(fd, name)
	if err != nil {
		return nil, err
	}
	if err := mapOwner(f, uid); err != nil {
		return nil, err
	}
	f.f = nil
	return f, nil
}

// OpenPath opens a regular file of this host by its path.
func OpenPath(name string) (*File, error) { return openPath(name) }

// Stat returns what the file system says of f, which came from one.
func (f *File) Stat() (st unix.Stat_t, fsType int64, err error) {
	if f.f == nil {
		return st, 0, errors.New("not a file of a file system")
	}
	fd := int(f.f.Fd())
	if err := unix.Fstat(fd, &st); err != nil {
		return st, 0, err
	}
	var sfs unix.Statfs_t
	if err := unix.Fstatfs(fd, &sfs); err != nil {
		return st, 0, err
	}
	return st, int64(sfs.Type), nil
}

// Generation returns the generation of the file's inode, whose number may have
// been that of another file before; 0 if it is not known.
func (f *File) Generation() uint32 { return generation(f) }

// DescriptorPath returns a path that leads to the file of f as long as it is
// open; "" if it came from none.
func (f *File) DescriptorPath() string {
	if f.f == nil {
		return ""
	}
	return fmt.Sprintf("/proc/self/fd/%d", f.f.Fd())
}

// Reopened returns f with its size of now, for a file that is appended to.
func (f *File) Reopened() (*File, error) {
	var r *os.File
	switch x := f.ReaderAt.(type) {
	case *os.File:
		r = x
	default:
		return nil, errors.New("not a file of a file system")
	}
	fi, err := r.Stat()
	if err != nil {
		return nil, err
	}
	return &File{ReaderAt: r, Size: fi.Size(), Origin: f.Origin, Info: fi, Close: noClose}, nil
}

// Renew takes f for what it is now: what was written to before does not count
// for Unchanged any more.
func (f *File) Renew() error {
	if f.f == nil {
		return errors.New("not a file of a file system")
	}
	fi, err := f.f.Stat()
	if err != nil {
		return err
	}
	f.Info, f.Size = fi, fi.Size()
	return nil
}

// OwnedBy fails unless f is a user's or root's.
func (f *File) OwnedBy(uid int) error {
	if got, ok := owner(f.Info); ok && got != 0 && got != uid {
		return &RefusedError{Path: f.Origin, Reason: Unreadable, Why: fmt.Sprintf("owned by user %d; the process's user %d, or root, is wanted", got, uid)}
	}
	return nil
}

// IsInMemory reports whether a recorded name is of something that no directory
// holds, such as a memfd.
func IsInMemory(name string) bool {
	_, ok := isMemory(name)
	return ok
}

// SameName reports whether what the kernel prints of a mapping in /proc may be
// the recorded name.
func SameName(printed, recorded string) bool {
	trim := func(s string) string { return strings.TrimSuffix(s, deletedMark) }
	return printed == recorded || slices.Contains(unescape(trim(printed)), trim(recorded))
}
