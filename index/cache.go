package index

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/perfark/perfark/buildid"
)

// DefaultMax is how large a cache may get, in bytes.
const DefaultMax = 1 << 30

// A Cache keeps indexes in a directory, by Build ID. Many processes may use
// one directory at a time: a file appears whole or not at all. The directory
// must be the caller's own, and nobody else's to write to: names would be taken
// from there. Methods may be called from many goroutines. A nil *Cache is one
// that has nothing and keeps nothing.
type Cache struct {
	dir  string
	max  int64
	puts atomic.Int64
}

// NewCache returns the cache in a directory, which is made when the first
// index is kept. It holds at most max bytes; 0 means DefaultMax.
func NewCache(dir string, max int64) *Cache {
	return &Cache{dir: dir, max: cmp.Or(max, DefaultMax)}
}

// Dir returns the directory.
func (c *Cache) Dir() string { return c.dir }

const (
	suffix   = ".index"
	tempMark = ".tmp-"
)

// name returns where the index of an id is: ab/cdef.index for abcdef.
func name(id buildid.ID) string {
	s := id.String()
	if len(s) < 4 {
		s = "00" + s
	}
	return s[:2] + "/" + s[2:] + suffix
}

// root opens the directory. The error is fs.ErrPermission if it is not the
// caller's own.
func (c *Cache) root() (*os.Root, error) {
	fi, err := os.Stat(c.dir)
	if err != nil {
		return nil, err
	}
	if !fi.IsDir() || !own(fi) {
		return nil, fmt.Errorf("%s: not a directory of the caller alone: %w", c.dir, fs.ErrPermission)
	}
	root, err := os.OpenRoot(c.dir)
	if err != nil {
		return nil, err
	}
	if now, err := root.Stat("."); err != nil || !os.SameFile(fi, now) {
		root.Close()
		return nil, fmt.Errorf("%s: exchanged meanwhile: %w", c.dir, fs.ErrPermission)
	}
	return root, nil
}

// used is how old the time of an index must be before a use makes it new: the
// time is that of the last use, as far as removal needs it.
const used = time.Hour

// Get opens the index of a Build ID. The error wraps fs.ErrNotExist if there
// is none, and ErrDamaged if there is one that cannot be used, which the next
// Put replaces.
func (c *Cache) Get(id buildid.ID) (*File, error) {
	if c == nil || id == "" {
		return nil, fs.ErrNotExist
	}
	root, err := c.root()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	at := name(id)
	r, err := root.OpenFile(at, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO must not be waited for
	if err != nil {
		return nil, err
	}
	fi, err := r.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = damaged("not a regular file")
	}
	var f *File
	if err == nil {
		f, err = Open(r, fi.Size())
	}
	if err == nil && f.ID != id {
		err = damaged("of build id %s", f.ID)
	}
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("%s/%s: %w", c.dir, at, err)
	}
	if now := time.Now(); now.Sub(fi.ModTime()) > used {
		root.Chtimes(at, now, now)
	}
	f.close = r.Close
	return f, nil
}

// Put keeps an index in place of what there was for its Build ID, unless that
// is of better files. Then, and without a Cache, it does nothing.
func (c *Cache) Put(id Identity, b *Builder) error {
	if c == nil || id.ID == "" {
		return nil
	}
	if old, err := c.Get(id.ID); err == nil {
		better := old.Sources != id.Sources && old.Quality > id.Quality
		old.Close()
		if better {
			return nil
		}
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	root, err := c.root()
	if err != nil {
		return err
	}
	defer root.Close()
	at := name(id.ID)
	if err := root.MkdirAll(path.Dir(at), 0o700); err != nil {
		return err
	}
	var random [8]byte
	rand.Read(random[:])
	temp := tempMark + hex.EncodeToString(random[:])
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = b.WriteTo(f, id)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = root.Rename(temp, at)
	}
	if err != nil {
		root.Remove(temp)
		return err
	}
	c.puts.Add(1)
	return nil
}

// stale is how old a temporary file is that nobody writes any more.
const stale = time.Hour

// Trim removes what was not used for longest until the cache is at most as
// large as it may be. It does nothing if nothing was put.
func (c *Cache) Trim() error {
	if c == nil || c.puts.Swap(0) == 0 {
		return nil
	}
	root, err := c.root()
	if err != nil {
		return err
	}
	defer root.Close()
	type kept struct {
		name string
		size int64
		used time.Time
	}
	var files []kept
	var sum int64
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // it was removed just now
		}
		fi, err := d.Info()
		if err != nil {
			return nil
		}
		switch {
		case strings.HasPrefix(name, tempMark):
			if time.Since(fi.ModTime()) > stale {
				root.Remove(name)
			}
		case strings.HasSuffix(name, suffix):
			files = append(files, kept{name, fi.Size(), fi.ModTime()})
			sum += fi.Size()
		}
		return nil
	})
	if err != nil || sum <= c.max {
		return err
	}
	slices.SortFunc(files, func(a, b kept) int { return cmp.Or(a.used.Compare(b.used), strings.Compare(a.name, b.name)) })
	var errs []error
	for _, f := range files {
		if sum <= c.max {
			break
		}
		if err := root.Remove(f.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
			continue
		}
		sum -= f.size
	}
	return errors.Join(errs...)
}
