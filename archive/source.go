package archive

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/store"
)

// OpenOptions says how to open an archive.
type OpenOptions struct {
	Limits   Limits
	Temp     string // directory for what must be decompressed; "" means os.TempDir
	Progress Progress

	// Pool is the directory that has what the manifest says is in a pool; ""
	// means the one it names, beside the file that Open opens.
	Pool string

	beside string // the name that Open was given
}

// An Archive is an open archive. It is a store.Source: it serves the files
// in it without unpacking them. All methods may be called from many
// goroutines.
type Archive struct {
	name string
	x    *index
	file *os.File // nil if New was called

	mu  sync.Mutex
	ids map[string]idResult // by name in the tree
}

// An idResult is what reading the id of a file gave.
type idResult struct {
	id  buildid.ID
	err error
}

// Open opens any archive we read, ours and perf's, by its contents and not its
// name. A bundle and a .tar.zst of ours are read in place; everything else is
// decompressed once, to a file in Temp that has no name.
func Open(ctx context.Context, name string, o OpenOptions) (*Archive, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	a, err := openFile(ctx, f, o)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return a, nil
}

func openFile(ctx context.Context, f *os.File, o OpenOptions) (*Archive, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("not a regular file")
	}
	o.beside = f.Name()
	a, err := New(ctx, f, st.Size(), f.Name(), o)
	if err != nil {
		return nil, err
	}
	a.file = f
	return a, nil
}

// New is Open for an archive of size bytes in r. The name is for people.
func New(ctx context.Context, r io.ReaderAt, size int64, name string, o OpenOptions) (*Archive, error) {
	x, err := openIndex(ctx, r, size, o)
	if err != nil {
		return nil, err
	}
	return &Archive{name: name, x: x, ids: map[string]idResult{}}, nil
}

// Manifest returns the manifest, or nil if the archive has none: perf's have
// none.
func (a *Archive) Manifest() *Manifest { return a.x.manifest }

// Data returns the perf.data in the archive and its size in bytes; false if
// there is none.
func (a *Archive) Data() (io.ReaderAt, int64, bool) {
	e := a.x.data
	if e == nil {
		return nil, 0, false
	}
	return io.NewSectionReader(a.x.dataImg, e.off, e.size), e.size, true
}

// Objects lists the objects in the archive: those of the manifest, or what
// the names in an archive of perf say. Without a manifest there are no sums
// and no samples.
func (a *Archive) Objects() []Object { return a.x.objects }

// Dangling lists the ids, in hex, whose link leads to nothing: perf archive
// writes such links for objects it did not find.
func (a *Archive) Dangling() []string { return a.x.dangling }

// OpenMember opens a file of the archive by its name in the tree.
func (a *Archive) OpenMember(name Name) (*store.File, error) {
	f, err := a.x.open(string(name))
	if err != nil {
		return nil, fmt.Errorf("%s: %q: %w", a.name, name, err)
	}
	f.Info = nil // a member has no times worth the name
	f.Origin = a.name + ": " + f.Origin
	return f, nil
}

// Absent lists the objects of which files are neither in the archive nor in
// the pool that it names, each with these files alone. Everything but a bundle
// of an unattended capture has all of them.
func (a *Archive) Absent() []Object { return a.x.absent }

// PoolDir returns the directory that has files of the archive, or should have
// them; "" if it has none elsewhere, or is read from no place that is known.
func (a *Archive) PoolDir() string { return a.x.poolDir }

// Get opens a file of the archive. See store.Source.
func (a *Archive) Get(ctx context.Context, k store.Key) (*store.File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	none := fmt.Errorf("%s: no %v: %w", a.name, k, fs.ErrNotExist)
	if k.Kind == store.Split {
		k = store.Key{Kind: store.ELF, Path: k.Path}
	}
	if isKcore(k.Kind) {
		return a.kcore(k)
	}
	var found []*Object
	for i := range a.x.objects {
		if o := &a.x.objects[i]; wanted(o, k) && o.file(k.Kind) != nil {
			found = append(found, o)
		}
	}
	if len(found) == 0 {
		return nil, none
	}
	if len(found) > 1 {
		// The id alone does not tell: the path must.
		same := slices.DeleteFunc(slices.Clone(found), func(o *Object) bool { return !o.at(k.Path) })
		switch {
		case len(same) > 0:
			found = same
		case k.ID != "" && !a.alike(found, k.Kind):
			return nil, &store.RefusedError{Path: a.name, Reason: store.Ambiguous,
				Why: fmt.Sprintf("%d different files have build id %s, and none has the path %q", len(found), k.ID, k.Path)}
		}
	}
	o := found[0]
	f, err := a.OpenMember(o.file(k.Kind).Name)
	if err != nil {
		return nil, err
	}
	f.Bound = o.at(k.Path)
	if isLog(k.Kind) || k.ID == "" {
		f.Unverified = !isLog(k.Kind)
		return f, nil
	}
	if k.Kind == store.Kallsyms || k.Kind == store.Index {
		return f, nil
	}
	got := a.idOf(o.file(k.Kind).Name, f)
	switch {
	case got.err != nil:
		f.Close()
		return nil, &store.RefusedError{Path: f.Origin, Reason: store.Malformed, Err: got.err}
	case !got.id.Match(k.ID):
		f.Close()
		return nil, &store.RefusedError{Path: f.Origin, Reason: store.Replaced, Got: got.id,
			Why: fmt.Sprintf("carries build id %s, want %s", orNone(got.id), k.ID)}
	}
	return f, nil
}

// kcore opens a file of the copy of kernel memory that is of the boot that k
// asks for.
func (a *Archive) kcore(k store.Key) (*store.File, error) {
	var errs []error
	for i := range a.x.objects {
		o := &a.x.objects[i]
		if k.ID == "" || !o.ID.Match(k.ID) || o.file(k.Kind) == nil {
			continue
		}
		err := store.SameKcore(func(kind store.Kind) (*store.File, error) {
			f := o.file(kind)
			if f == nil {
				return nil, fmt.Errorf("%s: no %s beside %s: %w", a.name, kind, o.file(k.Kind).Name, fs.ErrNotExist)
			}
			return a.OpenMember(f.Name)
		}, k)
		if err == nil {
			return a.OpenMember(o.file(k.Kind).Name)
		}
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		return nil, fmt.Errorf("%s: no %v: %w", a.name, k, fs.ErrNotExist)
	}
	return nil, errors.Join(errs...)
}

func orNone(id buildid.ID) string {
	if id == "" {
		return "none"
	}
	return id.String()
}

// idOf returns the id that a file carries.
func (a *Archive) idOf(name Name, f *store.File) idResult {
	a.mu.Lock()
	r, ok := a.ids[string(name)]
	a.mu.Unlock()
	if ok {
		return r
	}
	r.id, r.err = objfile.ReadBuildID(f, f.Size)
	a.mu.Lock()
	a.ids[string(name)] = r
	a.mu.Unlock()
	return r
}

// alike reports whether all objects have the same bytes.
func (a *Archive) alike(list []*Object, kind store.Kind) bool {
	first := list[0].file(kind)
	for _, o := range list[1:] {
		if f := o.file(kind); f.SHA256 != first.SHA256 || f.Size != first.Size {
			return false
		}
	}
	return true
}

// wanted reports whether o may be what k asks for.
func wanted(o *Object, k store.Key) bool {
	switch {
	case k.Kind == store.PerfMap:
		return o.PID == k.PID
	case k.Kind == store.JITDump:
		return o.PID == k.PID && o.at(k.Path)
	case k.ID != "":
		return o.ID.Match(k.ID)
	}
	return o.ID == "" && o.at(k.Path) && o.isInode(k)
}

// at reports whether o was recorded under a path. Without a manifest the path
// is that of the tree, less its first slash.
func (o *Object) at(p string) bool {
	return p != "" && slices.ContainsFunc(o.Paths, func(q Name) bool {
		return string(q) == p || strings.TrimLeft(string(q), "/") == strings.TrimLeft(p, "/")
	})
}

// file returns the file of a kind, nil if there is none.
func (o *Object) file(kind store.Kind) *File {
	for i := range o.Files {
		if o.Files[i].Kind == kind {
			return &o.Files[i]
		}
	}
	return nil
}

// Close frees what Open opened.
func (a *Archive) Close() error {
	err := a.x.Close()
	if a.file != nil {
		if e := a.file.Close(); err == nil {
			err = e
		}
	}
	return err
}

// ReadManifest reads the manifest of a bundle, and nothing else of it.
func ReadManifest(ctx context.Context, name string, l Limits) (*Manifest, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := readManifest(ctx, f, l)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

func readManifest(ctx context.Context, f *os.File, l Limits) (*Manifest, error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("not a regular file")
	}
	img, err := openImage(ctx, f, fi.Size(), OpenOptions{Limits: l})
	if err != nil {
		return nil, err
	}
	defer img.Close()
	t := tar.NewReader(io.NewSectionReader(img, 0, img.size))
	h, err := t.Next()
	switch {
	case err != nil:
		return nil, err
	case h.Name != manifestName || h.Typeflag != tar.TypeReg:
		return nil, fmt.Errorf("not a bundle: begins with %q", h.Name)
	}
	b, err := io.ReadAll(io.LimitReader(t, maxManifest+1))
	if err != nil {
		return nil, err
	}
	return ParseManifest(b)
}
