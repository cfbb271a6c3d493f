package archive

import (
	"errors"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/store"
)

// maxBeside bounds how many files of split DWARF are taken for one program.
const maxBeside = 1000

// beside opens the files of split DWARF that stand beside a program and are
// named after it: PROGRAM.dwp, PROGRAM.dwo and PROGRAM-SOURCE.dwo, as gcc and
// clang name them. What is no regular file is passed over.
func beside(program string) []*store.File {
	dir, base := path.Split(program)
	if !path.IsAbs(program) {
		return nil
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []*store.File
	for _, e := range list {
		name := e.Name()
		rest, ok := strings.CutPrefix(name, base)
		if !ok || rest != ".dwp" && rest != ".dwo" && !(strings.HasPrefix(rest, "-") && strings.HasSuffix(rest, ".dwo")) {
			continue
		}
		if len(out) == maxBeside {
			break
		}
		if f, err := openFileOnly(path.Join(dir, name)); err == nil {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b *store.File) int { return strings.Compare(a.Origin, b.Origin) })
	return out
}

// openFileOnly opens a regular file that is not empty, and nothing else: a
// FIFO would block, a link may lead anywhere.
func openFileOnly(name string) (*store.File, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	fi, err := f.Stat()
	if err == nil && (!fi.Mode().IsRegular() || fi.Size() == 0) {
		err = errors.New("not a regular file, or empty")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &store.File{ReaderAt: f, Size: fi.Size(), Origin: name, Info: fi, Close: f.Close}, nil
}
