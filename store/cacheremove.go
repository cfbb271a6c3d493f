package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/perfark/perfark/buildid"
)

// RemoveOptions says what to remove; the conditions that are set must all hold.
type RemoveOptions struct {
	ID    buildid.ID // "" for any
	Path  string     // the recorded path; "" for any
	All   bool       // everything; needed if neither of the others is set
	Force bool       // in a tree that another user owns or may write to
}

// Remove removes the files of an id, of a path, or all, with the links that
// lead to them, and returns what it removed. Where another path holds the id
// too, the link leads there afterwards.
func (c *BuildIDCache) Remove(ctx context.Context, o RemoveOptions) ([]Entry, error) {
	if o.ID == "" && o.Path == "" && !o.All {
		return nil, errors.New("nothing to remove: neither an id nor a path")
	}
	return c.remove(ctx, o.Force, func(list []Entry) []Entry {
		var out []Entry
		for _, e := range list {
			if (o.ID == "" || e.ID.Match(o.ID)) && (o.Path == "" || e.Path == o.Path) {
				out = append(out, e)
			}
		}
		return out
	})
}

// GCOptions bounds a cache.
type GCOptions struct {
	MaxSize int64     // bytes to keep at most; 0 means no bound
	Before  time.Time // what was last used before goes; zero means nothing does
	DryRun  bool      // remove nothing, say what would go
	Force   bool      // in a tree that another user owns or may write to
	Now     time.Time // to tell the files of a stopped program from those of a running one; zero means keep them
}

// tempAge is how long a temporary file may be one that is being written.
const tempAge = 24 * time.Hour

// GC removes what was not used for long, then what was not used for longest
// until the rest fits, and always links that lead nowhere, files that do not
// carry their id, and what stopped programs left. Files of one directory go
// together. It returns what it removed.
func (c *BuildIDCache) GC(ctx context.Context, o GCOptions) ([]Entry, error) {
	if o.DryRun {
		list, err := c.List(ctx)
		return o.choose(list), err
	}
	return c.remove(ctx, o.Force, o.choose)
}

// A group is the files of a directory, which go together.
type group struct {
	entries []Entry
	used    time.Time // the latest of them
	broken  bool      // none of them is usable
}

func (o GCOptions) choose(list []Entry) []Entry {
	var (
		groups []*group
		byDir  = map[string]*group{}
		out    []Entry
	)
	for _, e := range list {
		if e.Kind == Temp {
			if !o.Now.IsZero() && o.Now.Sub(e.Used) > tempAge && e.inode != nil {
				out = append(out, e)
			}
			continue
		}
		dir := path.Dir(e.File)
		if e.Kind == Link || e.Kind == PerfMap || e.Kind == JITDump || e.Kind == Manifest || strings.HasPrefix(e.File, linkDir+"/") && strings.Count(e.File, "/") == 2 {
			dir = e.File // goes alone
		}
		g := byDir[dir]
		if g == nil {
			g = &group{broken: true}
			byDir[dir] = g
			groups = append(groups, g)
		}
		g.entries = append(g.entries, e)
		g.broken = g.broken && (e.Problem != "" || e.Kind == Probes)
		if e.Used.After(g.used) {
			g.used = e.Used
		}
	}
	slices.SortStableFunc(groups, func(a, b *group) int {
		if a.broken != b.broken {
			if a.broken {
				return -1
			}
			return 1
		}
		return a.used.Compare(b.used)
	})
	size := newSizer()
	var total int64
	for _, g := range groups {
		for _, e := range g.entries {
			total += size.add(e)
		}
	}
	for _, g := range groups {
		if !g.broken && !g.used.Before(o.Before) && (o.MaxSize <= 0 || total <= o.MaxSize) {
			continue
		}
		for _, e := range g.entries {
			total -= size.drop(e)
			out = append(out, e)
		}
	}
	return out
}

// A sizer adds up sizes, files of several names once.
type sizer struct{ names map[fileID]int }

func newSizer() *sizer { return &sizer{map[fileID]int{}} }

func (s *sizer) add(e Entry) int64 {
	id, ok := identity(e.inode)
	if !ok {
		return e.Size
	}
	s.names[id]++
	if s.names[id] > 1 {
		return 0
	}
	return e.Size
}

func (s *sizer) drop(e Entry) int64 {
	id, ok := identity(e.inode)
	if !ok {
		return e.Size
	}
	s.names[id]--
	if s.names[id] > 0 {
		return 0
	}
	return e.Size
}

// TotalSize adds up the sizes of entries; a file of several names counts once.
func TotalSize(list []Entry) int64 {
	s := newSizer()
	var n int64
	for _, e := range list {
		n += s.add(e)
	}
	return n
}

// remove removes what choose picks.
func (c *BuildIDCache) remove(ctx context.Context, force bool, choose func([]Entry) []Entry) ([]Entry, error) {
	if _, err := os.Stat(c.dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	list, err := c.List(ctx)
	if err != nil {
		return nil, err
	}
	w, err := c.write(force)
	if err != nil {
		return nil, err
	}
	defer w.root.Close()
	gone := choose(list)
	if len(gone) == 0 {
		return nil, nil
	}
	left := map[string][]string{} // id in hex → directories that keep it
	going := map[string]bool{}
	for _, e := range gone {
		going[e.File] = true
	}
	for _, e := range list {
		if !going[e.File] && e.ID != "" && e.Problem == "" && !strings.HasPrefix(e.File, linkDir+"/") && e.Kind != Probes {
			hex := e.ID.String()
			if dir := path.Dir(e.File); !slices.Contains(left[hex], dir) {
				left[hex] = append(left[hex], dir)
			}
		}
	}
	var removed []Entry
	var errs []error
	for _, e := range gone {
		if err := ctx.Err(); err != nil {
			return removed, err
		}
		if err := w.removeEntry(e, left[e.ID.String()]); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, e)
	}
	return removed, errors.Join(errs...)
}

// removeEntry removes a file, the link to it before, and the directories that
// it leaves empty. others are directories that hold the id too.
func (w *treeWriter) removeEntry(e Entry, others []string) error {
	dir := path.Dir(e.File)
	if e.ID != "" && e.Linked && !strings.HasPrefix(e.File, linkDir+"/") && !slices.Contains(others, dir) {
		link := linkName(e.ID.String())
		var err error
		if len(others) > 0 {
			err = w.relinkTo(e.ID, link, others)
		} else {
			err = w.root.Remove(link)
			w.prune(path.Dir(link))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	err := w.root.Remove(e.File)
	if e.Kind == Temp && err != nil {
		err = w.root.RemoveAll(e.File)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s/%s: %w", w.root.Name(), e.File, pathless(err))
	}
	w.prune(dir)
	return nil
}

// relinkTo lets the link lead to the best of several directories.
func (w *treeWriter) relinkTo(id buildid.ID, link string, dirs []string) error {
	best := slices.MaxFunc(dirs, func(a, b string) int {
		return cmp.Compare(w.rank(id, a).value, w.rank(id, b).value)
	})
	fi, err := w.root.Lstat(link)
	if err != nil {
		return err
	}
	if fi.IsDir() {
		return nil // holds files itself
	}
	return w.relink(best, link, fi)
}

// prune removes empty directories upwards, and the lists of probes that alone
// keep one from being empty.
func (w *treeWriter) prune(dir string) {
	for dir != "." && dir != "/" && dir != "" {
		if w.root.Remove(dir) != nil {
			names, err := readDirNames(w.root, dir)
			if err != nil || len(names) != 1 || names[0] != string(Probes) || !isIDName(path.Base(dir)) {
				return
			}
			if w.root.Remove(path.Join(dir, string(Probes))) != nil || w.root.Remove(dir) != nil {
				return
			}
		}
		dir = path.Dir(dir)
	}
}
