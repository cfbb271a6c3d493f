package store

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/objfile"
)

// DebugDirs returns a Source of separate debug files (and executables) in
// directories such as /usr/lib/debug. In each it looks for
//
//	.build-id/xx/rest.debug and xx/rest.debug   the debug file
//	.build-id/xx/rest and xx/rest               the executable
//	ID/debuginfo and ID/executable              as debuginfod's clients keep them
//	PATH.debug and PATH                         the debug file (Fedora, Debian)
//	.dwz/REST of a PATH with .dwz in it         what debug files share
//
// All that is found is verified by its Build ID.
func DebugDirs(dirs []string) Source { return debugDirs(dirs) }

type debugDirs []string

func (d debugDirs) Get(ctx context.Context, k Key) (*File, error) {
	s := search{key: k}
	if k.ID == "" || k.Kind != ELF && k.Kind != Debug {
		return nil, s.err("debug directories")
	}
	for _, dir := range d {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for _, name := range debugNames(k) {
			name = filepath.Join(dir, name)
			f, err := openPath(name)
			f, err = checked(f, err, k)
			if err != nil {
				s.note(name, err)
				continue
			}
			if debugOnly(f) != (k.Kind == Debug) && k.Kind == ELF {
				f.Close() // names only: no code, so not the object
				continue
			}
			return f, nil
		}
	}
	return nil, s.err("debug directories")
}

// dwzDir is the directory of the files that dwz makes, in a debug directory.
const dwzDir = "/.dwz/"

// debugNames returns where a debug directory may have what k asks for.
func debugNames(k Key) []string {
	var names []string
	for _, hex := range idNames(k.ID) {
		if len(hex) < 4 {
			continue
		}
		link := hex[:2] + "/" + hex[2:]
		if k.Kind == Debug {
			names = append(names, linkDir+"/"+link+".debug", link+".debug", hex+"/debuginfo")
		} else {
			names = append(names, linkDir+"/"+link, link, hex+"/executable", linkDir+"/"+link+".debug", hex+"/debuginfo")
		}
	}
	if t, err := TreePath(strings.TrimSuffix(k.Path, deletedMark)); err == nil && strings.HasPrefix(k.Path, "/") && k.Kind == Debug {
		names = append(names, t+".debug", t)
		if _, shared, ok := strings.Cut(t, dwzDir); ok {
			names = append(names, dwzDir[1:]+shared)
		}
	}
	return names
}

// debugOnly reports whether f holds names and no code.
func debugOnly(f *File) bool {
	o, err := objfile.Open(f, f.Size, f.Origin, decode.NewBudget(decode.Limits{}))
	return err == nil && o.DebugOnly()
}

// Debuglinks returns a Source of the separate debug files that objects name in
// .gnu_debuglink. The objects come from objects. A debug file called NAME by
// the object DIR/BASE is looked for as
//
//	DIR/NAME, DIR/.debug/NAME, and DEBUGDIR/DIR/NAME and
//	DEBUGDIR/DIR/.debug/NAME for each of dirs
//
// where DIR is that of the recorded path and that of the path it resolves to;
// and as the first two where the object was found, such as a tree of copies.
// It is used only if its CRC-32 is the one in the link, and if it carries the
// object's Build ID or none.
func Debuglinks(objects Source, dirs []string) Source { return debuglinks{objects, dirs} }

type debuglinks struct {
	objects Source
	dirs    []string
}

func (d debuglinks) Get(ctx context.Context, k Key) (*File, error) {
	s := search{key: k}
	if k.Kind != Debug || !strings.HasPrefix(k.Path, "/") {
		return nil, s.err("debug links")
	}
	obj := k
	obj.Kind = ELF
	f, err := d.objects.Get(ctx, obj)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, s.err("debug links")
	}
	defer f.Close()
	o, err := objfile.Open(f, f.Size, f.Origin, decode.NewBudget(decode.Limits{}))
	if err != nil {
		return nil, s.err("debug links")
	}
	name, crc, ok := o.Debuglink()
	if !ok {
		return nil, s.err("debug links")
	}
	for _, at := range d.places(k.Path, f, name) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		g, err := openDebuglink(at, f, crc, k)
		if err != nil {
			s.note(at, err)
			continue
		}
		g.Unverified = f.Unverified
		return g, nil
	}
	return nil, s.err(fmt.Sprintf("debug link %q of %q", name, k.Path))
}

// places returns where the debug file of an object may be, which was recorded
// under a path and found as f.
func (d debuglinks) places(object string, f *File, name string) []string {
	object = path.Clean(strings.TrimSuffix(object, deletedMark))
	dirs := []string{path.Dir(object)}
	if real, err := filepath.EvalSymlinks(object); err == nil && path.Dir(real) != dirs[0] {
		dirs = append(dirs, path.Dir(real))
	}
	var out []string
	for _, dir := range dirs {
		out = append(out, path.Join(dir, name), path.Join(dir, ".debug", name))
		for _, debug := range d.dirs {
			out = append(out, filepath.Join(debug, dir, name), filepath.Join(debug, dir, ".debug", name))
		}
	}
	if at := path.Dir(f.Origin); f.Info != nil && path.IsAbs(at) && !slices.Contains(dirs, at) {
		out = append(out, path.Join(at, name), path.Join(at, ".debug", name))
	}
	return out
}

// openDebuglink opens a debug file and compares its CRC with that of the link.
func openDebuglink(at string, object *File, crc uint32, k Key) (*File, error) {
	f, err := openPath(at)
	if err != nil {
		return nil, err
	}
	refuse := func(err error) (*File, error) {
		f.Close()
		return nil, err
	}
	if object.Info != nil && sameFile(object, f) {
		return refuse(&RefusedError{Path: at, Reason: Replaced, Why: "the debug link leads to the object itself"})
	}
	got, err := objfile.CRC32(f, f.Size)
	if err != nil {
		return refuse(&RefusedError{Path: at, Reason: Unreadable, Err: err})
	}
	if got != crc {
		return refuse(&RefusedError{Path: at, Reason: Replaced, Why: fmt.Sprintf("its CRC is %08x; the debug link wants %08x", got, crc)})
	}
	id, err := objfile.ReadBuildID(f, f.Size)
	if err != nil {
		return refuse(&RefusedError{Path: at, Reason: Malformed, Err: err})
	}
	if want := cmp.Or(k.ID, id); id != "" && !id.Match(want) {
		return refuse(&RefusedError{Path: at, Reason: Replaced, Why: "carries build id " + id.String() + "; " + want.String() + " is wanted", Got: id})
	}
	return f, nil
}
