package store

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/objfile"
)

// Kinds that List shows beyond those a Source is asked for.
const (
	Probes Kind = "probes" // perf's list of probe points
	KCore  Kind = "kcore"  // a copy of /proc/kcore, with its kallsyms and modules
	Link   Kind = "link"   // a link that leads nowhere
	Temp   Kind = "temp"   // left by a program that was killed

	Manifest Kind = "manifest" // of an archive that was unpacked here
)

// An Entry is a file of a cache.
type Entry struct {
	ID      buildid.ID      // as named; "" for an object without one, and for Temp
	Hash    string          // SHA-256 in hex of an object without an id, as named
	Path    string          // the recorded path, or the kernel's name in brackets; "" if the tree does not tell
	Kind    Kind            //
	File    string          // relative to the tree
	Size    int64           // bytes
	Quality objfile.Quality // of ELF and Debug
	GoID    string          // of ELF: the Go linker's id; "" if there is none
	Used    time.Time       // when it was last written or read, as far as the file system tells
	Linked  bool            // perf finds it: the id's link leads to its directory
	Problem string          // why it is not usable; "" if it is

	inode fs.FileInfo
}

// maxDepth bounds how deep List walks: no path has more components.
const maxDepth = 2048

// List returns all files of the cache, ordered by path, id and kind. Objects
// are opened: their quality and a wrong id are in the Entry. A cache that does
// not exist is empty.
func (c *BuildIDCache) List(ctx context.Context) ([]Entry, error) {
	root, err := c.root()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	l := &lister{ctx: ctx, root: root}
	if err := l.links(); err != nil {
		return nil, err
	}
	l.own()
	if err := l.walk("", 0); err != nil {
		return nil, err
	}
	slices.SortFunc(l.entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.ID, b.ID), cmp.Compare(a.File, b.File))
	})
	return l.entries, nil
}

type lister struct {
	ctx     context.Context
	root    *os.Root
	entries []Entry
}

// links looks at .build-id: at what lies in it itself, and at links that lead
// nowhere.
func (l *lister) links() error {
	dirs, err := readDirNames(l.root, linkDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, xx := range dirs {
		names, err := readDirNames(l.root, path.Join(linkDir, xx))
		if err != nil {
			continue // a file: not ours
		}
		if err := l.ctx.Err(); err != nil {
			return err
		}
		for _, rest := range names {
			l.link(xx, rest)
		}
	}
	return nil
}

func (l *lister) link(xx, rest string) {
	at := path.Join(linkDir, xx, rest)
	hex, debug := strings.CutSuffix(xx+rest, ".debug")
	id, err := buildid.Parse(hex)
	if err != nil {
		return
	}
	fi, err := l.root.Lstat(at)
	if err != nil {
		return
	}
	if fi.Mode()&fs.ModeSymlink != 0 && !debug {
		text, _ := l.root.Readlink(at)
		to, err := l.root.Stat(at)
		switch {
		case err != nil:
			p, _, _ := ParseLink(text)
			l.entries = append(l.entries, Entry{ID: id, Path: display(p), Kind: Link, File: at, Used: fi.ModTime(), Problem: "links to " + text + ", which is not there"})
			return
		case to.IsDir():
			return // its files are met where they are
		}
		p, _, _ := ParseLink(text)
		l.file(Entry{ID: id, Path: display(p), Kind: fileKind(p), File: at, Linked: true})
		return
	}
	switch {
	case fi.IsDir():
		l.idDir(at, Entry{ID: id, Linked: true})
	case debug:
		l.file(Entry{ID: id, Kind: Debug, File: at, Linked: true})
	default:
		l.file(Entry{ID: id, Kind: ELF, File: at, Linked: true})
	}
}

// own adds what archives brought beside objects.
func (l *lister) own() {
	names, _ := readDirNames(l.root, ownDir) // absent, most often
	for _, name := range names {
		if strings.HasSuffix(name, ".json") {
			l.file(Entry{Kind: Manifest, File: path.Join(ownDir, name)})
		}
	}
	names, _ = readDirNames(l.root, mapDir)
	for _, name := range names {
		if strings.HasPrefix(name, "perf-") && strings.HasSuffix(name, ".map") {
			l.file(Entry{Path: "/tmp/" + name, Kind: PerfMap, File: path.Join(mapDir, name)})
		}
		if dumpName.MatchString(name) || keptDump.MatchString(name) {
			l.file(Entry{Path: name, Kind: JITDump, File: path.Join(mapDir, name)})
		}
	}
}

// fileKind is the kind of a file that old perf kept for a name.
func fileKind(p string) Kind {
	if isKernel(p) {
		return Kallsyms
	}
	return ELF
}

// display turns a place in the tree into the path it stands for.
func display(tree string) string {
	if tree == "" || tree[0] == '[' {
		return tree
	}
	return "/" + tree
}

// walk collects the files of all directories named by an id below dir.
func (l *lister) walk(dir string, depth int) error {
	if err := l.ctx.Err(); err != nil {
		return err
	}
	if depth > maxDepth {
		return nil
	}
	names, err := readDirNames(l.root, cmp.Or(dir, "."))
	if err != nil {
		if depth == 0 {
			return err
		}
		l.entries = append(l.entries, Entry{Path: display(dir), Kind: Temp, File: dir, Problem: pathless(err).Error()})
		return nil
	}
	for _, name := range names {
		at := path.Join(dir, name)
		if at == linkDir || at == ownDir {
			continue
		}
		fi, err := l.root.Lstat(at)
		if err != nil {
			continue
		}
		if depth == 0 && strings.HasPrefix(name, tempMark) {
			l.entries = append(l.entries, Entry{Kind: Temp, File: at, Size: fi.Size(), Used: used(fi), Problem: "left by a program that was stopped", inode: fi})
			continue
		}
		if !fi.IsDir() {
			continue
		}
		if depth > 0 && isIDName(name) {
			e := Entry{Path: display(dir)}
			id, err := buildid.Parse(name)
			if err != nil {
				continue
			}
			if isHashName(name) {
				e.Hash = name
			} else {
				e.ID = id
				e.Linked = l.leadsTo(name, fi)
			}
			l.idDir(at, e)
			if dir == kcoreName {
				continue // it has directories of times
			}
		}
		if err := l.walk(at, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// leadsTo reports whether the link of an id leads to a directory.
func (l *lister) leadsTo(hex string, dir fs.FileInfo) bool {
	fi, err := l.root.Stat(linkName(hex))
	return err == nil && os.SameFile(fi, dir)
}

// idDir adds the files of an id's directory.
func (l *lister) idDir(dir string, e Entry) {
	for _, kind := range []Kind{ELF, Debug, Kallsyms, VDSO, Probes, Index} {
		e.Kind, e.File = kind, path.Join(dir, string(kind))
		if fi, err := l.root.Lstat(e.File); err == nil && !fi.IsDir() {
			l.file(e)
		}
	}
	if e.Path != kcoreName {
		return
	}
	stamps, _ := readDirNames(l.root, dir)
	for _, stamp := range stamps {
		for _, name := range []string{"kcore", "kallsyms", "modules"} {
			e.Kind, e.File = KCore, path.Join(dir, stamp, name)
			if fi, err := l.root.Lstat(e.File); err == nil && !fi.IsDir() {
				l.file(e)
			}
		}
	}
}

// file adds a file that is there.
func (l *lister) file(e Entry) {
	fi, err := l.root.Stat(e.File)
	if err != nil {
		e.Problem = pathless(err).Error()
		l.entries = append(l.entries, e)
		return
	}
	e.Size, e.Used, e.inode = fi.Size(), used(fi), fi
	switch e.Kind {
	case ELF, Debug, Kallsyms, VDSO:
		l.inspect(&e)
	}
	l.entries = append(l.entries, e)
}

// inspect opens an object for its quality and its id.
func (l *lister) inspect(e *Entry) {
	k := Key{ID: e.ID, Kind: e.Kind}
	f, err := openQuietly(l.root, e.File)
	if err == nil {
		defer f.Close()
		if k.Kind == ELF || k.Kind == Debug {
			if o, err := objfile.Open(f, f.Size, f.Origin, nil); err == nil {
				e.Quality, e.GoID = o.Quality(), o.GoID()
			}
		}
		if k.Kind == Kallsyms {
			err = checkKallsyms(f)
		} else {
			err = verify(f, k)
		}
	}
	if r, ok := errors.AsType[*RefusedError](err); ok {
		e.Problem = r.Why
		if e.Problem == "" {
			e.Problem = r.Err.Error()
		}
	} else if err != nil {
		e.Problem = pathless(err).Error()
	}
}

// Missing returns the keys of which the cache has no usable file, in order.
// Keys without an id are left out.
func (c *BuildIDCache) Missing(ctx context.Context, keys []Key) ([]Key, error) {
	var out []Key
	for _, k := range keys {
		if k.ID == "" {
			continue
		}
		f, err := c.Get(ctx, k)
		switch {
		case err == nil:
			f.Close()
		case errors.Is(err, fs.ErrNotExist):
			out = append(out, k)
		default:
			return out, err
		}
	}
	return out, nil
}
