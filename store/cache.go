package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A BuildIDCache is a tree in the layout of perf's ~/.debug, which stock perf
// reads and writes too. Reading takes every form that perf has written:
// .build-id/xx/rest as a link to a directory with elf, debug, kallsyms, vdso
// in it, as a link to the object, as a directory, and as rest.debug of a GNU
// tree. Links that leave the tree are not followed.
//
// Objects without a Build ID lie in PATH/SHA256/elf, which perf does not know.
//
// Methods may be called from many goroutines, and many programs may use the
// tree at once: no file is seen before it is whole.
type BuildIDCache struct {
	dir string

	from, to time.Time // see During; zero: any time
}

// Cache returns the cache in dir, which need not exist.
func Cache(dir string) *BuildIDCache { return &BuildIDCache{dir: dir} }

// Dir returns the directory of the cache.
func (c *BuildIDCache) Dir() string { return c.dir }

// root opens the tree. A pipe of that name is not waited for.
func (c *BuildIDCache) root() (*os.Root, error) {
	if fi, err := os.Stat(c.dir); err != nil {
		return nil, err
	} else if !fi.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: c.dir, Err: syscall.ENOTDIR}
	}
	return os.OpenRoot(c.dir)
}

// Get opens a file of the tree. Of two copies under an id, one under the asked
// path and one that the link leads to, it yields the better if they are the
// same program, and else the one under the path.
func (c *BuildIDCache) Get(ctx context.Context, k Key) (*File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := search{key: k}
	root, err := c.root()
	if err != nil {
		s.note(c.dir, err)
		return nil, s.err(c.dir)
	}
	defer root.Close()
	switch {
	case k.Kind == PerfMap:
		return c.perfMap(root, &s)
	case k.Kind == JITDump:
		return c.jitDump(root, &s)
	case k.Kind == Split:
		s.key = Key{Kind: ELF, Path: k.Path}
		return c.byHash(root, &s)
	case k.ID == "":
		return c.byHash(root, &s)
	case k.Kind == KCore || k.Kind == KCoreKallsyms || k.Kind == KCoreModules:
		return c.kcore(root, &s)
	}
	var files []*File
	for _, name := range idNames(k.ID) {
		for _, dir := range treeDirs(k) {
			f, err := openInTree(root, path.Join(dir, name, string(k.Kind)))
			f, err = checked(f, err, k)
			if err != nil {
				s.note(c.dir+"/"+dir, err)
				continue
			}
			f.Bound = k.Path != "" && dir == treeDirs(k)[0]
			files = append(files, f)
		}
		for _, at := range linked(root, name, &s) {
			f, err := openInTree(root, at)
			f, err = checked(f, err, k)
			if err != nil {
				s.note(c.dir+"/"+at, err)
				continue
			}
			files = append(files, f)
		}
		if len(files) > 0 {
			break
		}
	}
	if len(files) == 0 && k.Kind == Kallsyms {
		// As perf does: that of a copy of the kernel's memory.
		return c.kcore(root, &s)
	}
	if len(files) == 0 {
		return nil, s.err(c.dir)
	}
	return pick(k, files)
}

// treeDirs returns the places in the tree where k's path has its ids: of the
// path as recorded, without the mark of a deleted file, and the places that
// kinds have whatever the recorded name is.
func treeDirs(k Key) []string {
	var dirs []string
	add := func(p string) {
		if t, err := TreePath(p); err == nil {
			dirs = append(dirs, t)
		}
	}
	if k.Path != "" {
		add(k.Path)
		if p, ok := strings.CutSuffix(k.Path, deletedMark); ok {
			add(p)
		}
	}
	switch {
	case k.Kind == Kallsyms && k.Path != kernelName:
		add(kernelName)
	case k.Kind == VDSO && k.Path != vdsoName:
		add(vdsoName)
	}
	return dirs
}

// linked returns the files that the link of an id may lead to, for the kind
// asked for.
func linked(root *os.Root, hex string, s *search) []string {
	link := linkName(hex)
	var at []string
	fi, err := root.Stat(link)
	switch {
	case err == nil && fi.IsDir():
		at = append(at, path.Join(link, string(s.key.Kind)))
	case err == nil:
		// The earliest perf linked to the object itself; for a kernel that was
		// a kallsyms file.
		if s.key.Kind == ELF && !isKernel(s.key.Path) || s.key.Kind == Kallsyms || s.key.Kind == VDSO {
			at = append(at, link)
		}
	default:
		if l, lerr := root.Lstat(link); lerr == nil && l.Mode()&fs.ModeSymlink != 0 {
			origin := root.Name() + "/" + link
			if errors.Is(err, fs.ErrNotExist) {
				text, _ := root.Readlink(link)
				s.refuse(origin, Deleted, "links to %q, which is not there", text)
			} else {
				s.note(origin, treeError(origin, err))
			}
		}
	}
	if s.key.Kind == Debug {
		at = append(at, link+".debug")
	}
	return at
}

// perfMap opens the perf map that a recorder or an archive brought. Only the number of the
// process ties it to a recording.
func (c *BuildIDCache) perfMap(root *os.Root, s *search) (*File, error) {
	if s.key.PID <= 0 {
		return nil, s.err(c.dir)
	}
	if f := c.openKept(root, s); f != nil {
		return f, nil
	}
	at := fmt.Sprintf("%s/perf-%d.map", mapDir, s.key.PID)
	f, err := openInTree(root, at)
	if err != nil {
		s.note(c.dir+"/"+at, err)
		return nil, s.err(c.dir)
	}
	f.Unverified = true
	return f, nil
}

// dumpName matches the name of a jitdump that an archive brought: the process
// and a hash.
var dumpName = regexp.MustCompile(`^([0-9]{1,10})-[0-9a-f]{16}\.dump$`)

// jitDump opens the jitdump that a recorder or an archive brought. As of a perf map, only the
// number of the process ties it to a recording. Two cannot be told apart.
func (c *BuildIDCache) jitDump(root *os.Root, s *search) (*File, error) {
	if f := c.openKept(root, s); f != nil {
		return f, nil
	}
	names, err := readDirNames(root, mapDir)
	s.note(c.dir+"/"+mapDir, err)
	names = slices.DeleteFunc(names, func(name string) bool {
		m := dumpName.FindStringSubmatch(name)
		return m == nil || m[1] != strconv.Itoa(int(s.key.PID))
	})
	switch {
	case len(names) == 0:
		return nil, s.err(c.dir)
	case len(names) > 1:
		s.refuse(c.dir+"/"+mapDir, Ambiguous, "%d different jitdumps are of a process %d", len(names), s.key.PID)
		return nil, s.err(c.dir)
	}
	f, err := openInTree(root, path.Join(mapDir, names[0]))
	if err != nil {
		s.note(c.dir+"/"+mapDir+"/"+names[0], err)
		return nil, s.err(c.dir)
	}
	f.Unverified = true
	return f, nil
}

// byHash opens the object of a path that has no id: PATH/SHA256/elf, or vdso.
// Two of them cannot be told apart.
func (c *BuildIDCache) byHash(root *os.Root, s *search) (*File, error) {
	if s.key.Kind != ELF && s.key.Kind != VDSO || s.key.Path == "" {
		return nil, s.err(c.dir)
	}
	var found []string
	for _, dir := range treeDirs(s.key) {
		names, err := readDirNames(root, dir)
		s.note(c.dir+"/"+dir, err)
		for _, name := range names {
			if isHashName(name) {
				found = append(found, path.Join(dir, name, string(s.key.Kind)))
			}
		}
		if len(found) > 0 {
			break
		}
	}
	var files []*File
	for _, at := range found {
		f, err := openInTree(root, at)
		if err == nil {
			err = checkHash(f, path.Base(path.Dir(at)))
			if err != nil {
				f.Close()
			}
		}
		if err != nil {
			s.note(c.dir+"/"+at, err)
			continue
		}
		f.Unverified = true
		files = append(files, f)
	}
	switch len(files) {
	case 0:
		return nil, s.err(c.dir)
	case 1:
		return files[0], nil
	}
	s.refuse(files[0].Origin, Ambiguous, "%d objects without a build id are kept for this path", len(files))
	closeAll(files)
	return nil, s.err(c.dir)
}

// checkHash reads f and compares the hash of its bytes with the one it is
// filed under.
func checkHash(f *File, want string) error {
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, f.Size)); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return &RefusedError{Path: f.Origin, Reason: Replaced, Why: "its bytes have the hash " + got + "; it is filed under " + want}
	}
	return nil
}

// readDirNames lists a directory of the tree, in order. Names are any bytes.
func readDirNames(root *os.Root, dir string) ([]string, error) {
	d, err := root.Open(dir)
	if err != nil {
		return nil, treeError(root.Name()+"/"+dir, err)
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}
