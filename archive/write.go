package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/store"
	"github.com/perfark/perfark/symbol"
)

// A draft is a file that has no name of its own until it is complete. Where
// the file system allows it has none at all, so that nothing is left of it
// when the process is killed.
type draft struct {
	*os.File
	name string // the final name
	temp string // its name now; "" if it has none
}

// newDraft begins a file that will be name. It refuses a name that is there
// and not a regular file: a link would have to be followed or replaced, and
// both may not be meant.
func newDraft(name string) (*draft, error) {
	fi, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case fi.Mode()&fs.ModeSymlink != 0:
		return nil, errors.New("a symbolic link, which is not written through; name the file it should be")
	case !fi.Mode().IsRegular():
		return nil, errors.New("there, and not a regular file")
	}
	d := &draft{name: name}
	d.sweep()
	dir := filepath.Dir(name)
	fd, err := openNameless(dir)
	if err == nil {
		d.File = os.NewFile(uintptr(fd), name)
		if unix.Access(d.proc(), unix.R_OK) == nil {
			return d, nil
		}
		d.File.Close()
	}
	d.File, err = os.CreateTemp(dir, strings.ReplaceAll(d.prefix(), "*", "_")+"*")
	if err != nil {
		return nil, pathless(err) // the name means nothing to anybody
	}
	d.temp = d.File.Name()
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		d.abort()
		return nil, fmt.Errorf("%q: %w", d.temp, err)
	}
	return d, nil
}

// proc is a name for the open file.
func (d *draft) proc() string { return fmt.Sprintf("/proc/self/fd/%d", d.Fd()) }

// prefix is how the temporary names of d begin.
func (d *draft) prefix() string {
	base := filepath.Base(d.name)
	return "." + base[:min(len(base), 200)] + ".perfark-"
}

// sweep removes what killed processes left under temporary names of d. A file
// that is still being written is locked.
func (d *draft) sweep() {
	dir := filepath.Dir(d.name)
	list, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range list {
		if strings.HasPrefix(e.Name(), d.prefix()) && e.Type().IsRegular() {
			RemoveStale(filepath.Join(dir, e.Name()))
		}
	}
}

// RemoveStale removes a temporary file or directory that a process left when it
// was killed: one of ours, which no process has locked any more.
func RemoveStale(name string) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil && int(st.Uid) == os.Geteuid() && unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil {
		os.RemoveAll(name)
	}
}

// commit gives the file its name, over a file that has it, and makes that
// last. After an error the file that had the name is there, unless the error is
// that of the disk of its directory.
func (d *draft) commit() error {
	if err := d.Sync(); err != nil {
		return err
	}
	if err := d.place(); err != nil {
		return err
	}
	d.temp = ""
	if err := syncDir(filepath.Dir(d.name)); err != nil {
		return err
	}
	return d.File.Close()
}

// syncDir makes the names in a directory last. Where that cannot be done, as it
// may be written to but not read, or the file system has no such thing, that is
// no error: the names are there.
func syncDir(name string) error {
	dir, err := os.Open(name)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}

func (d *draft) place() error {
	if d.temp == "" {
		// A link cannot replace a file, a rename can.
		if err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			return err
		}
		err := unix.EEXIST
		for i := 0; err == unix.EEXIST && i < 1000; i++ {
			d.temp = filepath.Join(filepath.Dir(d.name), fmt.Sprintf("%s%d-%d", d.prefix(), os.Getpid(), i))
			e := unix.Linkat(unix.AT_FDCWD, d.proc(), unix.AT_FDCWD, d.temp, unix.AT_SYMLINK_FOLLOW)
			err, _ = e.(unix.Errno)
		}
		if err != 0 {
			d.temp = ""
			return &os.LinkError{Op: "link", Old: d.proc(), New: d.name, Err: err}
		}
	}
	return os.Rename(d.temp, d.name)
}

// abort removes the file.
func (d *draft) abort() {
	d.File.Close()
	if d.temp != "" {
		os.Remove(d.temp)
	}
}

// noSpace adds to an error for a full disk how much was free on it. The error
// loses what os adds, as the caller names the file.
func noSpace(name string, err error) error {
	err = pathless(err)
	var st unix.Statfs_t
	if !errors.Is(err, unix.ENOSPC) || unix.Statfs(filepath.Dir(name), &st) != nil {
		return err
	}
	return fmt.Errorf("%w; %d bytes were free in %q", err, int64(st.Bavail)*int64(st.Bsize), filepath.Dir(name))
}

// pathless strips the operation and name that os adds.
func pathless(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	if le, ok := errors.AsType[*os.LinkError](err); ok {
		return le.Err
	}
	return err
}

// contents opens what goes into the archive.
func (pl *Plan) contents() Contents {
	return Contents{
		Data: func() (io.ReadCloser, error) {
			d := pl.o.Data
			return io.NopCloser(io.NewSectionReader(d.ReaderAt, 0, d.Size)), nil
		},
		File: func(f *File) (io.ReadCloser, error) {
			p, ok := pl.open[f.Name]
			if !ok {
				return nil, fmt.Errorf("%q: not in the plan", f.Name)
			}
			return p.reading.again(p.file), nil
		},
	}
}

// ErrNothing says that there is not one file to put into an archive.
var ErrNothing = errors.New("nothing to archive")

// A Result says what an archive holds.
type Result struct {
	Manifest *Manifest
	Outcome  *symbol.Outcome // of the replay
	Size     int64           // of the archive, in bytes
	Pooled   int64           // written to the pool, in bytes
}

// PackOptions says how to write the archive of a plan.
type PackOptions struct {
	EncodeOptions
	Empty bool   // write it even if no object is in it
	Pool  *Pool  // where files go that other bundles may have too; it is beside this one. Nil: everything is in the bundle
	Room  int64  // bytes that may be written, to the pool too: more is ErrNoRoom; 0 means any number
	Temp  string // directory for copies of files that do not hold still; "" means os.TempDir

	// Check is called with the archive, when it is complete and has no name yet:
	// if it fails, there will be none. Nil checks nothing.
	Check func(r io.ReaderAt, size int64) error

	// Made is called with the temporary name of the archive, where the file
	// system cannot do without one, for whoever must end the process before
	// Pack returns. The function it returns is called when the name is gone.
	// Nil is for nobody.
	Made func(temp string) (gone func())
}

// Pack reads the files of the plan, resolves every frame of the profile from
// what it read, and writes the archive under name. The file is there if and
// only if it is complete and every byte in it is one that was verified; an
// older file of that name stays until then. The error wraps ErrNothing if no
// object was found.
func (pl *Plan) Pack(ctx context.Context, name string, o PackOptions) (*Result, error) {
	if o.Progress == nil {
		o.Progress = pl.o.Progress
	}
	for try := 1; ; try++ {
		if err := pl.collect(ctx); err != nil {
			return nil, err
		}
		m := pl.manifest()
		if !o.Empty && !slices.ContainsFunc(m.Objects, func(o Object) bool { return o.Samples > 0 }) {
			if pl.total == 0 {
				return &Result{Manifest: m}, fmt.Errorf("%w: the recording has no samples", ErrNothing)
			}
			return &Result{Manifest: m}, fmt.Errorf("%w: no object of the profile was found", ErrNothing)
		}
		r := &Result{Manifest: m}
		var err error
		if pl.o.Index {
			if err := pl.index(ctx, m); err != nil {
				return nil, err
			}
		}
		if r.Outcome, err = pl.replay(ctx, m); err != nil {
			return nil, err
		}
		if pl.whole != nil && pl.unslim() {
			continue
		}
		r.Size, r.Pooled, err = pl.writeFile(ctx, name, m, o)
		if err == nil {
			return r, nil
		}
		changed, ok := errors.AsType[*ChangedError](err)
		if !ok || try == readTries || !pl.settle(ctx, changed.Name, o.Temp) {
			return nil, err
		}
	}
}

// writeFile writes the archive to a file of its own and gives it its name.
// What it refers to is there before.
func (pl *Plan) writeFile(ctx context.Context, name string, m *Manifest, o PackOptions) (size, pooled int64, err error) {
	r := &room{o.Room > 0, o.Room}
	if o.Pool != nil {
		if pooled, err = pl.pool(ctx, m, r, o); err != nil {
			return 0, pooled, err
		}
	}
	if err := r.take(fileCost); err != nil {
		return 0, pooled, err
	}
	d, err := newDraft(name)
	if err != nil {
		return 0, pooled, noSpace(name, err)
	}
	if d.temp != "" && o.Made != nil {
		defer o.Made(d.temp)()
	}
	defer func() {
		if err != nil {
			d.abort()
			err = noSpace(name, err)
		}
	}()
	if err := Encode(ctx, &roomWriter{d, r}, m, pl.contents(), o.EncodeOptions); err != nil {
		return 0, pooled, err
	}
	if size, err = d.Seek(0, io.SeekEnd); err != nil {
		return 0, pooled, err
	}
	if err := ctx.Err(); err != nil {
		return 0, pooled, err
	}
	if o.Check != nil {
		if err := o.Check(d.File, size); err != nil {
			return 0, pooled, err
		}
	}
	return size, pooled, d.commit()
}

// settle takes a private copy of a file that was written to while it was
// packed. It reports whether another try makes sense.
func (pl *Plan) settle(ctx context.Context, name, temp string) bool {
	name = strings.TrimPrefix(name, debugDir+"/")
	p, ok := pl.open[Name(name)]
	if !ok {
		return false // the recording itself
	}
	for _, it := range pl.items {
		if !slices.Contains(it.parts, p) {
			continue
		}
		err := error(&store.RefusedError{Path: p.file.Origin, Reason: store.Changed, Err: ErrChanged})
		for range readTries {
			f, e := pl.fresh(ctx, p)
			if e != nil {
				err = e
				continue
			}
			if f, e = spool(ctx, f, temp); e != nil {
				continue
			}
			p.file.Close()
			p.file, p.reading = f, reading{}
			return true
		}
		pl.drop(it, p, err)
		return ctx.Err() == nil
	}
	return false
}

// manifest describes what was collected.
func (pl *Plan) manifest() *Manifest {
	pl.open = map[Name]*part{}
	pl.sort()
	return &Manifest{
		Version: ManifestVersion,
		Tool:    pl.o.Tool,
		Host:    pl.o.Host,
		Data:    pl.data,
		Objects: pl.objects(),
		Missing: pl.Missing,
	}
}
