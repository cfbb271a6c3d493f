package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/store"
)

// A Pool is a directory that keeps the files of many bundles once: bundles
// beside it name them by their SHA-256 and do not hold them. A file never
// changes, has its name only when it is complete, and is compressed as the
// members of a bundle are.
type Pool struct {
	root *os.Root
}

// poolExt is the end of the names of files in a pool.
const poolExt = ".zst"

// A poolFrame is the size of the frames of a file in a pool, in bytes, and
// poolKept how many of each are kept: many files are open at a time.
const (
	poolFrame = 1 << 20
	poolKept  = 4
)

// PoolName returns the name in a pool of a file by its SHA-256 in hex.
func PoolName(sum string) string { return sum[:2] + "/" + sum + poolExt }

// OpenPool opens the pool in a directory. The error wraps fs.ErrNotExist if
// there is none.
func OpenPool(dir string) (*Pool, error) {
	// It may be beside a bundle where anybody can put files, and to open a pipe
	// is to wait for a writer, unless the name can be that of a directory alone.
	root, err := os.OpenRoot(filepath.Join(dir, ".") + "/")
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: pathless(err)}
	}
	return &Pool{root}, nil
}

// CreatePool opens the pool in a directory, which it makes if it is not there.
// It refuses one that others may write to.
func CreatePool(dir string) (*Pool, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	p, err := OpenPool(dir)
	if err != nil {
		return nil, err
	}
	fi, err := p.root.Stat(".")
	if err == nil {
		err = store.CheckOwner(dir, fi)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Close closes the pool. Files that were opened stay open.
func (p *Pool) Close() error { return p.root.Close() }

// Dir returns the directory of the pool.
func (p *Pool) Dir() string { return p.root.Name() }

// Open opens a file of size bytes by its SHA-256. Its bytes are not compared
// with that: see Archive.Verify. The error wraps fs.ErrNotExist if there is none.
func (p *Pool) Open(sum string, size int64) (*store.File, error) {
	name := filepath.Join(p.Dir(), PoolName(sum))
	f, err := p.root.OpenFile(PoolName(sum), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, pathless(err))
	}
	s, err := openPooled(f, size)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &store.File{
		ReaderAt: io.NewSectionReader(s, 0, size), Size: size, Origin: name,
		Close: func() error { return errors.Join(s.Close(), f.Close()) },
	}, nil
}

// openPooled opens the contents of a file of a pool, which must have size bytes.
func openPooled(f *os.File, size int64) (*seekable, error) {
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	}
	s, err := newSeekable(f, st.Size(), 1)
	if err != nil {
		return nil, err
	}
	s.max = poolKept
	if s.size != size {
		s.Close()
		return nil, fmt.Errorf("%d bytes, want %d", s.size, size)
	}
	return s, nil
}

// has reports whether a file of size bytes is there, as far as its seek table
// tells.
func (p *Pool) has(sum string, size int64) bool {
	f, err := p.Open(sum, size)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// put stores a file of a manifest unless it is there. It returns what it wrote,
// in bytes.
func (p *Pool) put(ctx context.Context, f *File, open func() (io.ReadCloser, error), r *room, o EncodeOptions, made func(string) func()) (int64, error) {
	if p.has(f.SHA256, f.Size) {
		return 0, nil
	}
	if err := r.take(fileCost); err != nil {
		return 0, err
	}
	name := PoolName(f.SHA256)
	if err := p.root.Mkdir(filepath.Dir(name), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return 0, err
	}
	var written int64
	err := Create(ctx, filepath.Join(p.Dir(), name), made, func(out *os.File) error {
		if o.Workers <= 0 {
			o.Workers = runtime.GOMAXPROCS(0)
		}
		z := zstdFrames(&roomWriter{out, r}, o, poolFrame)
		e := &encoding{ctx: ctx, z: z, buf: make([]byte, 1<<20)}
		err := e.contents(&outEntry{name: string(f.Name), size: f.Size, sum: f.SHA256, open: open})
		if cerr := z.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
		written, err = out.Seek(0, io.SeekEnd)
		return err
	})
	return written, err
}

// Put stores a file of a manifest, whose contents open opens, unless it is there.
// The error is a *ChangedError if the contents are not those of the manifest.
func (p *Pool) Put(ctx context.Context, f *File, open func() (io.ReadCloser, error), o EncodeOptions) error {
	_, err := p.put(ctx, f, open, &room{}, o, nil)
	return err
}

// A PoolFile is a file of a pool.
type PoolFile struct {
	SHA256 string
	Size   int64 // on the disk, in bytes
}

// List lists the files of the pool, sorted by their SHA-256. What is no file of
// a pool is passed over.
func (p *Pool) List() ([]PoolFile, error) {
	var out []PoolFile
	err := fs.WalkDir(p.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		sum := strings.TrimSuffix(d.Name(), poolExt)
		if err != nil || !d.Type().IsRegular() || checkSum(0, sum) != nil || name != PoolName(sum) {
			return err
		}
		fi, err := d.Info()
		if err == nil {
			out = append(out, PoolFile{sum, fi.Size()})
		}
		return err
	})
	slices.SortFunc(out, func(a, b PoolFile) int { return strings.Compare(a.SHA256, b.SHA256) })
	return out, err
}

// Remove removes a file by its SHA-256. It is the caller who knows that no
// bundle names it.
func (p *Pool) Remove(sum string) error {
	if err := checkSum(0, sum); err != nil {
		return err
	}
	return p.root.Remove(PoolName(sum))
}

// mayPool reports whether a file goes into a pool, if there is one. Slim copies and indexes are
// of one recording, perf maps and jitdumps of one process: no other bundle has
// them.
func (f *File) mayPool() bool { return !f.Slim && f.Kind != store.Index && !isLog(f.Kind) }

// pool puts the files of m that may be in a pool there, and has m say so. It
// returns what was written, in bytes.
func (pl *Plan) pool(ctx context.Context, m *Manifest, r *room, o PackOptions) (int64, error) {
	m.Pool = filepath.Base(o.Pool.Dir())
	c := pl.contents()
	var written int64
	seen := map[string]bool{}
	for i := range m.Objects {
		for k := range m.Objects[i].Files {
			f := &m.Objects[i].Files[k]
			if !f.mayPool() {
				continue
			}
			if !seen[f.SHA256] {
				seen[f.SHA256] = true
				n, err := o.Pool.put(ctx, f, func() (io.ReadCloser, error) { return c.File(f) }, r, o.EncodeOptions, o.Made)
				if err != nil {
					return written, err
				}
				written += n
			}
			f.Pooled = true
		}
	}
	return written, nil
}

// Whole returns a manifest for the same files of which none is in a pool: that
// of a bundle by itself.
func (m *Manifest) Whole() *Manifest {
	w := *m
	w.Pool = ""
	w.Objects = slices.Clone(m.Objects)
	for i := range w.Objects {
		o := &w.Objects[i]
		o.Files = slices.Clone(o.Files)
		for k := range o.Files {
			o.Files[k].Pooled = false
		}
	}
	return &w
}

// pooled reports whether all files of an object are in a pool, so that the
// bundle has no link to it.
func (o *Object) pooled() bool {
	return !slices.ContainsFunc(o.Files, func(f File) bool { return !f.Pooled })
}

// openPool opens the pool that the manifest names. Files that are not there
// are absent, as all are if there is no pool.
func (x *index) openPool(o OpenOptions) {
	x.poolDir = o.Pool
	if x.poolDir == "" && o.beside != "" {
		x.poolDir = filepath.Join(filepath.Dir(o.beside), x.manifest.Pool)
		if _, err := os.Stat(x.poolDir); err != nil {
			// A link to a bundle may lead to where the pool is.
			if real, err := filepath.EvalSymlinks(o.beside); err == nil {
				x.poolDir = filepath.Join(filepath.Dir(real), x.manifest.Pool)
			}
		}
	}
	if x.poolDir != "" {
		x.pool, _ = OpenPool(x.poolDir)
	}
	for _, obj := range x.objects {
		obj.Files = slices.DeleteFunc(slices.Clone(obj.Files), func(f File) bool {
			return !f.Pooled || x.pool != nil && x.pool.has(f.SHA256, f.Size)
		})
		if len(obj.Files) > 0 {
			x.absent = append(x.absent, obj)
		}
	}
}

// open opens a file by its name in the tree, which the caller adds to an error.
func (x *index) open(name string) (*store.File, error) {
	if e := x.files[name]; e != nil {
		return &store.File{
			ReaderAt: io.NewSectionReader(x.img, e.off, e.size), Size: e.size, Origin: e.name,
			Info: memberInfo(e), Close: func() error { return nil },
		}, nil
	}
	f := x.pooled[name]
	switch {
	case f == nil:
		return nil, fs.ErrNotExist
	case x.pool == nil:
		return nil, fmt.Errorf("kept in the directory %q beside the bundle, which is not here: %w", x.manifest.Pool, fs.ErrNotExist)
	}
	return x.pool.Open(f.SHA256, f.Size)
}
