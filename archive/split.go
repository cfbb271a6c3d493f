package archive

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/dwarf"
	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/store"
	"github.com/perfark/perfark/symbol"
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

// findSplit adds the .dwo and .dwp files that the addresses of the profile in an
// object need. from has its debug information. They are told by the ids of
// their units.
func (pl *Plan) findSplit(ctx context.Context, it *item, from *store.File) {
	b := decode.NewBudget(pl.o.Limits)
	run := it.parts[0].file
	place, err := objfile.Open(run, run.Size, run.Origin, b)
	if err != nil {
		return
	}
	f := place
	if from != run {
		if f, err = objfile.Open(from, from.Size, from.Origin, b); err != nil {
			return
		}
	}
	moved, ok := f.Moved(place)
	if f.Quality() < objfile.FullDWARF || !ok {
		return
	}
	asked := map[string]*dwarf.Data{} // by path; nil if there is nothing
	var mu sync.Mutex
	look := func(u dwarf.SplitUnit) (*dwarf.Data, error) {
		mu.Lock()
		defer mu.Unlock()
		for _, at := range symbol.SplitPlaces(it.path, from.Origin, u) {
			d, ok := asked[at]
			if !ok {
				d = pl.addSplit(ctx, at, u.ID, b)
				asked[at] = d
			}
			if d != nil && d.HasUnit(u.ID) {
				return d, nil
			}
		}
		return nil, fs.ErrNotExist
	}
	d, err := f.DWARF(objfile.DWARFOptions{Runtime: place, Split: look})
	if err != nil || !d.IsSplit() {
		return
	}
	var buf []dwarf.Frame
	for i := range pl.profile.Locations {
		l := &pl.profile.Locations[i]
		if int(l.Object) != it.object || ctx.Err() != nil {
			continue
		}
		// Both the address and the call in front of it: see docs/symbols.md.
		for _, off := range [...]uint64{l.Addr, l.Addr - 1} {
			if addr, ok := place.Address(off); ok {
				buf, _ = d.Frames(addr-moved, buf[:0])
			}
		}
	}
}

// addSplit adds the file of split DWARF at a path, if it is one that has a
// unit.
func (pl *Plan) addSplit(ctx context.Context, at string, unit uint64, b *decode.Budget) *dwarf.Data {
	sf, err := pl.o.Source.Get(ctx, store.Key{Kind: store.Split, Path: at})
	if err != nil {
		return nil
	}
	f, err := objfile.Open(sf, sf.Size, sf.Origin, b)
	if err != nil {
		sf.Close()
		return nil
	}
	d, err := f.DWARF(objfile.DWARFOptions{DWO: true})
	if err != nil || !d.HasUnit(unit) {
		sf.Close()
		return nil
	}
	x := &item{object: profile.None, path: at, extra: true, unverified: true}
	if !pl.append(x, &part{kind: store.ELF, file: sf}) {
		return nil
	}
	pl.items = append(pl.items, x)
	return d
}
