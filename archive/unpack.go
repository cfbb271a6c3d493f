package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/store"
)

// UnpackOptions says where to unpack, and bounds what is accepted.
type UnpackOptions struct {
	Dir     string // the ~/.debug directory; it is made if it is not there
	DataDir string // where the perf.data of a bundle goes; "" means the current directory
	// Force replaces a perf.data that is there, and objects that differ from
	// those of the archive though they have the same name.
	Force    bool
	Limits   Limits
	Pool     string // see OpenOptions.Pool
	Temp     string // directory for what must be decompressed first; "" means os.TempDir
	Workers  int    // 0 means one per CPU
	Progress Progress
}

// Unpacked says what became of an archive.
type Unpacked struct {
	Files   []UnpackedFile // sorted by name
	Data    string         // the perf.data that was written, "" if none
	Missing []Missing      // what the manifest says is not in the archive
}

// An Outcome is what became of a file.
type Outcome string

// The outcomes.
const (
	Added   Outcome = "added"
	Kept    Outcome = "kept"    // one as good was there already
	Refused Outcome = "refused" // see Why
)

// An UnpackedFile is what became of a file of an archive.
type UnpackedFile struct {
	Outcome Outcome    `json:"outcome"`
	ID      buildid.ID `json:"id,omitempty"`
	Kind    store.Kind `json:"kind"`
	Name    Name       `json:"name"` // in the tree
	Size    int64      `json:"size"` // bytes
	Why     string     `json:"why,omitempty"`
}

// Unpack puts the objects of an archive into a ~/.debug directory, where perf
// and perfark find them, and its perf.data into another. It reads everything
// that Open reads. The archive is read twice; what is not a regular file is
// copied to a temporary one first.
//
// The archive is not trusted. All its headers and its manifest are checked
// before anything is written, and one bad entry refuses the whole. No link of
// the archive is made: a link from an id to its object is made by us when the
// object is there. Every file is copied to a temporary name, its size, its
// SHA-256 and its Build ID are verified, and then it gets its name; a file that
// fails that is refused and the others go on. Nothing is written outside of
// Dir and DataDir, whatever links others put there meanwhile, and not into a
// directory that others may write to.
//
// The result is not nil if something may have been written, also with an error.
func Unpack(ctx context.Context, r io.Reader, o UnpackOptions) (*Unpacked, error) {
	f, size, done, err := seekableInput(ctx, r, o)
	if err != nil {
		return nil, err
	}
	defer done()
	oo := OpenOptions{Limits: o.Limits, Temp: o.Temp, Progress: o.Progress, Pool: o.Pool}
	if io.Reader(f) == r {
		oo.beside = f.Name()
	}
	x, err := openIndex(ctx, f, size, oo)
	if err != nil {
		return nil, err
	}
	defer x.Close()
	u := &unpacker{ctx: ctx, x: x, o: o}
	return u.run()
}

// seekableInput returns r as a file that can be read twice.
func seekableInput(ctx context.Context, r io.Reader, o UnpackOptions) (f *os.File, size int64, done func() error, err error) {
	if f, ok := r.(*os.File); ok {
		if st, err := f.Stat(); err == nil && st.Mode().IsRegular() {
			return f, st.Size(), func() error { return nil }, nil
		} else if err == nil && st.IsDir() {
			return nil, 0, nil, fmt.Errorf("is a directory")
		}
	}
	f, err = tempFile(o.Temp)
	if err != nil {
		return nil, 0, nil, err
	}
	if d, ok := r.(interface{ SetReadDeadline(time.Time) error }); ok {
		// Wakes a read that waits, where the system can.
		defer context.AfterFunc(ctx, func() { d.SetReadDeadline(time.Now()) })()
	}
	most := o.Limits.withDefaults().MaxBytes
	n, err := io.Copy(struct{ io.Writer }{f}, io.LimitReader(&ctxReader{ctx, r}, most+1))
	if e := context.Cause(ctx); e != nil {
		err = e
	} else if err == nil && n > most {
		err = fmt.Errorf("more than %d bytes; raise the limit with --max-bytes", most)
	}
	if err != nil {
		f.Close()
		return nil, 0, nil, err
	}
	return f, n, f.Close, nil
}

// A ctxReader fails once its context is done.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *ctxReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// An unpacker is the state of one Unpack.
type unpacker struct {
	ctx  context.Context
	x    *index
	o    UnpackOptions
	root *os.Root // of Dir

	mu          sync.Mutex
	files       []UnpackedFile
	done, total int64
}

func (u *unpacker) run() (*Unpacked, error) {
	data, err := u.checkData()
	if err != nil {
		return nil, err
	}
	if err := u.checkSpace(); err != nil {
		return nil, err
	}
	if err := u.openRoot(); err != nil {
		return nil, err
	}
	defer u.root.Close()
	err = u.objects()
	if err == nil && u.x.raw != nil {
		err = u.manifest()
	}
	res := &Unpacked{}
	if err == nil && data != "" {
		if err = u.writeData(data); err == nil {
			res.Data = data
		}
	}
	slices.SortFunc(u.files, func(a, b UnpackedFile) int { return strings.Compare(string(a.Name), string(b.Name)) })
	res.Files = u.files
	if m := u.x.manifest; m != nil {
		res.Missing = m.Missing
	}
	return res, err
}

// checkSpace fails if the files do not fit.
func (u *unpacker) checkSpace() error {
	for _, e := range u.x.files {
		u.total += e.size
	}
	for _, f := range u.x.pooled {
		u.total += f.Size
	}
	if u.x.data != nil {
		u.total += u.x.data.size
	}
	const reserve = 16 << 20
	for dir := filepath.Clean(u.o.Dir); ; dir = filepath.Dir(dir) {
		var st unix.Statfs_t
		err := unix.Statfs(dir, &st)
		if err == unix.ENOENT && dir != filepath.Dir(dir) {
			continue
		}
		if err != nil {
			return nil // others will say what is wrong with it
		}
		if free := int64(st.Bavail) * int64(st.Bsize); u.total > free-reserve {
			return fmt.Errorf("%s: %d bytes to unpack, but only %d are free", u.o.Dir, u.total, free)
		}
		return nil
	}
}

// openRoot opens the tree, and makes it if it is not there.
func (u *unpacker) openRoot() error {
	if err := os.MkdirAll(u.o.Dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(u.o.Dir)
	if err != nil {
		return err
	}
	fi, err := root.Stat(".")
	if err == nil {
		err = store.CheckOwner(u.o.Dir, fi)
	}
	if err != nil {
		root.Close()
		return err
	}
	u.root = root
	sweep(root)
	return nil
}

// sweep removes the temporary files that killed processes left in a tree. One
// that is being written is locked; should we hit one that is about to get its
// name, its writer begins again.
func sweep(root *os.Root) {
	d, err := root.Open(".")
	if err != nil {
		return
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return
	}
	for _, name := range names {
		if !strings.HasPrefix(name, tempPrefix) {
			continue
		}
		f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		fi, err := f.Stat()
		if err == nil && fi.Mode().IsRegular() && unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			root.Remove(name)
		}
		f.Close()
	}
}

// unpackers is the most objects that are unpacked at a time: each may hold a
// frame of the archive in memory.
const unpackers = 4

// objects puts all files into the tree.
func (u *unpacker) objects() error {
	workers := u.o.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	g, ctx := errgroup.WithContext(u.ctx)
	g.SetLimit(min(workers, unpackers))
	cache := store.Cache(u.o.Dir)
	for i := range u.x.objects {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error { return u.object(ctx, cache, &u.x.objects[i]) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, id := range u.x.dangling {
		b, _ := buildid.Parse(id)
		u.note(UnpackedFile{Outcome: Refused, ID: b, Kind: store.ELF, Name: Name(u.x.links[id]), Why: "the archive has a link to it, but not the object"})
	}
	return u.ctx.Err()
}

func (u *unpacker) note(f UnpackedFile) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.files = append(u.files, f)
}

// object puts the files of one object into the tree. It returns an error only
// if going on makes no sense.
func (u *unpacker) object(ctx context.Context, cache *store.BuildIDCache, o *Object) error {
	for i := range o.Files {
		f := &o.Files[i]
		out := UnpackedFile{Outcome: Added, ID: o.ID, Kind: f.Kind, Name: f.Name, Size: f.Size}
		var err error
		if isLog(f.Kind) {
			err = u.own(ctx, &out, f)
		} else {
			err = u.put(ctx, cache, o, f, &out)
		}
		if err != nil {
			if fatal(ctx, err) {
				return fmt.Errorf("%s: %w", filepath.Join(u.o.Dir, string(f.Name)), pathless(err))
			}
			out.Outcome, out.Why = Refused, strings.TrimPrefix(err.Error(), fmt.Sprintf("%q: not used: ", string(out.Name)))
		}
		u.note(out)
	}
	return nil
}

// fatal reports whether an error is not about one file.
func fatal(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EROFS) ||
		errors.Is(err, unix.EIO) || errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}

// put stores an object under its path and under all others it was recorded
// with.
func (u *unpacker) put(ctx context.Context, cache *store.BuildIDCache, o *Object, f *File, out *UnpackedFile) error {
	file, err := u.x.open(string(f.Name))
	if err != nil {
		return err
	}
	defer file.Close()
	file.ReaderAt = &counted{file.ReaderAt, u.progress(string(f.Name))}
	if file.Info == nil {
		file.Info = memberInfo(&inEntry{name: string(f.Name), size: f.Size, mtime: epoch})
	}
	dir, _, _, err := splitObject(string(f.Name))
	if err != nil {
		return err
	}
	if isKcore(f.Kind) {
		stored, err := cache.PutKcoreFile(ctx, o.ID, path.Base(path.Dir(string(f.Name))), f.Kind, file, store.PutOptions{Update: u.o.Force, SHA256: f.SHA256})
		if !stored && err == nil {
			out.Outcome = Kept
		}
		return err
	}
	res, err := cache.Put(ctx, store.Key{ID: o.ID, Kind: f.Kind, Path: dir}, file, store.PutOptions{Update: u.o.Force, SHA256: f.SHA256})
	if err != nil {
		return err
	}
	if !res.Stored {
		out.Outcome = Kept
	}
	if res.Conflict != "" {
		out.Why = fmt.Sprintf("build id %s leads to a different program, %s", o.ID, res.Conflict)
	}
	if o.ID == "" || f.Kind != store.ELF {
		return nil
	}
	const most = 64
	for _, p := range o.Paths[:min(len(o.Paths), most)] {
		if treePath(string(p)) == dir {
			continue
		}
		if _, err := cache.Put(ctx, store.Key{ID: o.ID, Kind: f.Kind, Path: string(p)}, file, store.PutOptions{SHA256: f.SHA256}); err != nil {
			if fatal(ctx, err) {
				return err
			}
			out.Why = err.Error()
		}
	}
	return nil
}

// memberInfo gives a file of the archive the mode it is to have.
func memberInfo(e *inEntry) fs.FileInfo {
	return (&tar.Header{Name: e.name, Typeflag: tar.TypeReg, Size: e.size, Mode: 0o644, ModTime: e.mtime}).FileInfo()
}

func (u *unpacker) progress(what string) func(n int) {
	return func(n int) {
		if u.o.Progress == nil {
			return
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		u.done += int64(n)
		u.o.Progress(min(u.done, u.total), u.total, what)
	}
}

// A counted tells how much of a file is read. Reads of headers do not count.
type counted struct {
	io.ReaderAt
	seen func(n int)
}

func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, off)
	if n > 64<<10 {
		c.seen(n)
	}
	return n, err
}

// own writes a file into our own directory of the tree.
func (u *unpacker) own(ctx context.Context, out *UnpackedFile, f *File) error {
	file, err := u.x.open(string(f.Name))
	if err != nil {
		return err
	}
	defer file.Close()
	kept, err := install(ctx, u.root, string(f.Name), &source{r: file, size: file.Size, sum: f.SHA256}, u.o.Force)
	if kept {
		out.Outcome = Kept
	}
	return err
}

// manifest keeps the manifest in the tree, so that it says later what is known
// of the objects.
func (u *unpacker) manifest() error {
	raw := u.x.raw
	if u.x.manifest.Pool != "" { // in the tree nothing is elsewhere
		var err error
		if raw, err = u.x.manifest.Whole().Encode(); err != nil {
			return err
		}
	}
	sum := sha256.Sum256(raw)
	_, err := install(u.ctx, u.root, ManifestName(raw), &source{
		r: bytes.NewReader(raw), size: int64(len(raw)), sum: hex.EncodeToString(sum[:])}, u.o.Force)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(u.o.Dir, ManifestName(raw)), pathless(err))
	}
	return nil
}

// A source is a file to be installed.
type source struct {
	r     io.ReaderAt
	size  int64
	sum   string // SHA-256 in hex; "" if unknown
	mtime time.Time
}

// tempPrefix is how temporary names in a tree begin. The store removes those
// that killed processes left.
const tempPrefix = ".perfark-tmp-"

// install writes a file under name in root, whole or not at all. A file of the
// same bytes that is there is kept; a different one is an error, or replaced
// with force. The caller names the file in errors.
func install(ctx context.Context, root *os.Root, name string, s *source, force bool) (kept bool, err error) {
	for try := 0; ; try++ {
		kept, err = installOnce(ctx, root, name, s, force)
		if !errors.Is(err, fs.ErrNotExist) || try == 3 {
			return kept, err
		}
	}
}

func installOnce(ctx context.Context, root *os.Root, name string, s *source, force bool) (kept bool, err error) {
	if same(ctx, root, name, s) {
		return true, nil
	}
	if !force {
		if _, err := root.Lstat(name); err == nil {
			return false, errors.New("is there and differs")
		}
	}
	if err := mkdirs(root, path.Dir(name)); err != nil {
		return false, err
	}
	temp := tempPrefix + rand.Text()
	f, err := root.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false, err
	}
	defer f.Close()
	unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) // see sweep
	defer root.Remove(temp)                            // fails once it was renamed
	h := sha256.New()
	if err := stream(ctx, s.r, s.size, io.MultiWriter(f, h)); err != nil {
		return false, err
	}
	if got := hex.EncodeToString(h.Sum(nil)); s.sum != "" && got != s.sum {
		return false, fmt.Errorf("sha256 is %s, but the manifest says %s", got, s.sum)
	}
	if err := f.Sync(); err != nil {
		return false, err
	}
	if !s.mtime.IsZero() {
		if err := root.Chtimes(temp, s.mtime, s.mtime); err != nil {
			return false, err
		}
	}
	if force {
		err = root.Rename(temp, name)
	} else if err = root.Link(temp, name); errors.Is(err, fs.ErrExist) {
		if same(ctx, root, name, s) { // another unpacker was faster
			return true, nil
		}
		return false, errors.New("is there and differs")
	} else if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOTSUP) {
		err = root.Rename(temp, name) // no links on this file system
	}
	if err != nil {
		return false, err
	}
	if d, err := root.Open(path.Dir(name)); err == nil {
		d.Sync() // not every file system can
		d.Close()
	}
	return false, nil
}

// same reports whether the file that is there has the bytes of s.
func same(ctx context.Context, root *os.Root, name string, s *source) bool {
	fi, err := root.Lstat(name)
	if err != nil || !fi.Mode().IsRegular() || fi.Size() != s.size {
		return false
	}
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	a, b := sha256.New(), sha256.New()
	return stream(ctx, f, s.size, a) == nil && stream(ctx, s.r, s.size, b) == nil && string(a.Sum(nil)) == string(b.Sum(nil))
}

// mkdirs makes a directory and those above it. None of them may be a link.
func mkdirs(root *os.Root, dir string) error {
	if dir == "." {
		return nil
	}
	if err := mkdirs(root, path.Dir(dir)); err != nil {
		return err
	}
	if err := root.Mkdir(dir, 0o755); err == nil || !errors.Is(err, fs.ErrExist) {
		return err
	}
	fi, err := root.Lstat(dir)
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return fmt.Errorf("%s/%s: refused: not a directory", root.Name(), dir)
	}
	return store.CheckOwner(root.Name()+"/"+dir, fi)
}

// checkData returns the name for the perf.data, "" if the archive has none. It
// fails if a different one is there.
func (u *unpacker) checkData() (string, error) {
	e := u.x.data
	if e == nil {
		return "", nil
	}
	name := filepath.Join(u.o.DataDir, path.Base(e.name))
	fi, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return name, nil
	case err != nil:
		return "", err
	case fi.IsDir():
		return "", fmt.Errorf("%s: is a directory", name)
	case u.o.Force:
		return name, nil
	}
	root, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return "", err
	}
	defer root.Close()
	if same(u.ctx, root, filepath.Base(name), u.dataSource()) {
		return name, nil
	}
	return "", fmt.Errorf("%s: is there; it is replaced with --force only", name)
}

func (u *unpacker) dataSource() *source {
	e := u.x.data
	s := &source{r: io.NewSectionReader(u.x.dataImg, e.off, e.size), size: e.size, mtime: e.mtime}
	if m := u.x.manifest; m != nil && m.Data != nil {
		s.sum = m.Data.SHA256
	}
	return s
}

func (u *unpacker) writeData(name string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer root.Close()
	if _, err = install(u.ctx, root, filepath.Base(name), u.dataSource(), u.o.Force); err != nil {
		return fmt.Errorf("%s: %w", name, pathless(err))
	}
	return nil
}
