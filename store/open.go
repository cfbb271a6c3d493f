package store

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/perfark/perfark/objfile"
)

// newFile makes a File of an open one, which it closes if it is not regular or
// is empty.
func newFile(f *os.File, origin string) (*File, error) {
	fi, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		f.Close()
		return nil, &RefusedError{Path: origin, Reason: NotRegular, Why: "not a regular file"}
	}
	if fi.Size() == 0 {
		f.Close()
		return nil, &RefusedError{Path: origin, Reason: NotRegular, Why: "empty"}
	}
	return &File{ReaderAt: f, Size: fi.Size(), Origin: origin, Close: f.Close, Info: fi, f: f}, nil
}

// memFile makes a File of bytes.
func memFile(b []byte, origin string) *File {
	return &File{ReaderAt: bytes.NewReader(b), Size: int64(len(b)), Origin: origin, Close: func() error { return nil }}
}

// openPath opens a regular file by its path.
func openPath(name string) (*File, error) { return openRegular(atCWD, name, name) }

// openInTree opens a regular file of a tree that may be hostile: links are
// followed only inside. name is relative to the root.
func openInTree(root *os.Root, name string) (*File, error) { return openInTreeFlag(root, name, 0) }

// openQuietly is openInTree for somebody who only looks: where we may, the time
// of last use stays.
func openQuietly(root *os.Root, name string) (*File, error) {
	if f, err := openInTreeFlag(root, name, noATime); err == nil || !errors.Is(err, fs.ErrPermission) {
		return f, err
	}
	return openInTree(root, name)
}

func openInTreeFlag(root *os.Root, name string, flag int) (*File, error) {
	origin := root.Name() + "/" + name
	fi, err := root.Stat(name)
	if err != nil {
		return nil, treeError(origin, err)
	}
	if !fi.Mode().IsRegular() {
		return nil, &RefusedError{Path: origin, Reason: NotRegular, Why: "not a regular file"}
	}
	// The name may have become a FIFO meanwhile; newFile looks again.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|flag, 0)
	if err != nil {
		return nil, treeError(origin, err)
	}
	return newFile(f, origin)
}

// treeError turns the error for a link that leaves the tree into a refusal.
func treeError(origin string, err error) error {
	if pe, ok := err.(*fs.PathError); ok && pe.Err.Error() == "path escapes from parent" {
		return &RefusedError{Path: origin, Reason: NotRegular, Why: "a link that leaves the tree"}
	}
	return err
}

// verify reads the Build ID of f from its bytes and fails unless it is the one
// asked for. Files of kinds that carry no id pass, as does any file if the key
// has none.
func verify(f *File, k Key) error {
	if k.ID == "" || !k.Kind.carriesID() {
		return nil
	}
	id, err := objfile.ReadBuildID(f, f.Size)
	switch {
	case err != nil:
		return &RefusedError{Path: f.Origin, Reason: Malformed, Err: err}
	case id == "":
		return &RefusedError{Path: f.Origin, Reason: NoID, Why: "carries no build id; " + k.ID.String() + " is wanted"}
	case !id.Match(k.ID):
		return &RefusedError{Path: f.Origin, Reason: Replaced, Why: "carries build id " + id.String() + "; " + k.ID.String() + " is wanted", Got: id}
	}
	return nil
}

// checked verifies f and closes it if that fails.
func checked(f *File, err error, k Key) (*File, error) {
	if err != nil {
		return nil, err
	}
	if k.Kind == Kallsyms {
		err = checkKallsyms(f)
	} else {
		err = verify(f, k)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// checkKallsyms fails if no text symbol has an address: the kernel shows zeros
// to those who may not see them.
func checkKallsyms(f *File) error {
	const most = 1 << 20 // the per-CPU variables at the start are small numbers; text comes long before this
	buf := make([]byte, min(f.Size, most))
	n, err := f.ReadAt(buf, 0)
	if n < len(buf) {
		return &RefusedError{Path: f.Origin, Reason: Unreadable, Err: err}
	}
	whole := int64(n) == f.Size
	symbols := 0
	for line := range bytes.Lines(buf) {
		if !whole && line[len(line)-1] != '\n' {
			break
		}
		addr, rest, ok := bytes.Cut(line, []byte(" "))
		if !ok || len(addr) == 0 || len(addr) > 16 || len(rest) < 3 || rest[1] != ' ' || !isHex(addr) {
			return &RefusedError{Path: f.Origin, Reason: Malformed, Why: "not a list of kernel symbols"}
		}
		symbols++
		if rest[0] == 'T' || rest[0] == 't' {
			if len(bytes.Trim(addr, "0")) > 0 {
				return nil
			}
		}
	}
	if symbols == 0 {
		return &RefusedError{Path: f.Origin, Reason: Malformed, Why: "not a list of kernel symbols"}
	}
	return &RefusedError{Path: f.Origin, Reason: Restricted, Why: "all its addresses are zero: a restricted capture (kernel.kptr_restrict)"}
}

func isHex(b []byte) bool {
	for _, c := range b {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return false
		}
	}
	return len(b) > 0
}

// sameFile reports whether two files are one.
func sameFile(a, b *File) bool {
	return a.Info != nil && b.Info != nil && os.SameFile(a.Info, b.Info)
}
