package store

import (
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
	"strings"
	"syscall"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/objfile"
)

// PutOptions says how to store a file. The zero value keeps the better of the
// old and the new.
type PutOptions struct {
	// Update stores the file even where the one that is there is as good or
	// better, or is another program of the same id.
	Update bool

	// Force writes into a tree that another user owns or may write to.
	Force bool

	// SHA256 is that of the file, in hex, if it is known: a copy that differs
	// is refused.
	SHA256 string
}

// A PutResult says what became of a file.
type PutResult struct {
	File     string // where it is, relative to the tree
	Stored   bool   // it was copied into the tree; else what was there is as good
	Linked   bool   // the id's link leads to it
	Conflict string // a different program holds the id in the tree: its directory; "" if none does
}

// A ConflictError says that a tree holds a different program under the same
// path and Build ID.
type ConflictError struct {
	File string // the one in the tree
	ID   buildid.ID
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s: holds a different program with build id %s", e.File, e.ID)
}

// Put stores a copy of f as the file that k asks for, so that perf finds it:
// PATH/ID/KIND, and a link .build-id/xx/rest to its directory. Without an id
// an object goes to PATH/SHA256/KIND.
//
// The copy is verified, synced and gets its name then. An object that is there
// and can name as much stays. The link stays where it is, as perf leaves it,
// unless it leads nowhere or the new object can name more. Nothing is written
// through a symbolic link, nor into a directory that others may write to. Mode
// bits are never wider than those of f.
func (c *BuildIDCache) Put(ctx context.Context, k Key, f *File, o PutOptions) (PutResult, error) {
	if k.ID == "" && k.Kind != ELF && k.Kind != VDSO {
		return PutResult{}, fmt.Errorf("%s: a %s without a build id has no place in a cache", f.Origin, k.Kind)
	}
	if _, part := kcoreBase(k.Kind); part || k.Kind == PerfMap || k.Kind == JITDump || k.Kind == Split {
		return PutResult{}, fmt.Errorf("%s: a %s has no place in a cache", f.Origin, k.Kind)
	}
	if _, err := checked(&File{ReaderAt: f.ReaderAt, Size: f.Size, Origin: f.Origin, Close: noClose}, nil, k); err != nil {
		return PutResult{}, err
	}
	dir, err := TreePath(k.Path)
	if err != nil {
		return PutResult{}, err
	}
	w, err := c.write(o.Force)
	if err != nil {
		return PutResult{}, err
	}
	defer w.root.Close()
	// A directory that gc finds empty may go while we write into it.
	for try := 0; ; try++ {
		res, err := w.put(ctx, k, dir, f, o)
		if errors.Is(err, syscall.ENOENT) && try < 3 {
			continue
		}
		return res, err
	}
}

func noClose() error { return nil }

// A treeWriter writes to a tree whose root is open.
type treeWriter struct {
	root  *os.Root
	force bool
}

// write opens the tree for writing, and makes it if it is not there.
func (c *BuildIDCache) write(force bool) (*treeWriter, error) {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return nil, err
	}
	if fi, err := os.Lstat(c.dir); err == nil && fi.Mode()&fs.ModeSymlink != 0 && !force {
		if err := CheckOwner(c.dir, fi); err != nil {
			return nil, err
		}
	}
	root, err := os.OpenRoot(c.dir)
	if err != nil {
		return nil, err
	}
	w := &treeWriter{root, force}
	fi, err := root.Stat(".")
	if err == nil && !force {
		err = CheckOwner(c.dir, fi)
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return w, nil
}

// CheckOwner fails if somebody else may have planted something in a directory,
// or at a link: it is not owned by this user, nor by root alone. A link's own
// mode says nothing. name is for the error.
func CheckOwner(name string, fi fs.FileInfo) error {
	uid, ok := owner(fi)
	if !ok {
		return nil
	}
	me := os.Geteuid()
	perm := fi.Mode().Perm()
	if fi.Mode()&fs.ModeSymlink != 0 {
		perm = 0
	}
	switch {
	case uid != me && uid != 0:
		return fmt.Errorf("%s: refused: owned by user %d, and we are user %d", name, uid, me)
	case uid != me && perm&0o022 != 0, perm&0o002 != 0:
		return fmt.Errorf("%s: refused: others may write to it (mode %#o)", name, perm)
	}
	return nil
}

// mkdir makes a directory of the tree and those above it. It fails if one of
// them is a link or is not ours.
func (w *treeWriter) mkdir(dir string) error {
	for i := 0; i <= len(dir); i++ {
		if i < len(dir) && dir[i] != '/' {
			continue
		}
		at := dir[:i]
		if at == "" {
			continue
		}
		fi, err := w.root.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			if err = w.root.Mkdir(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			fi, err = w.root.Lstat(at)
		}
		if err != nil {
			return err
		}
		origin := w.root.Name() + "/" + at
		if !fi.IsDir() {
			return fmt.Errorf("%s: refused: %s where a directory belongs", origin, what(fi))
		}
		if !w.force {
			if err := CheckOwner(origin, fi); err != nil {
				return err
			}
		}
	}
	return nil
}

// what names the kind of a file for people.
func what(fi fs.FileInfo) string {
	switch {
	case fi.Mode().IsRegular():
		return "a file"
	case fi.Mode()&fs.ModeSymlink != 0:
		return "a symbolic link"
	case fi.IsDir():
		return "a directory"
	}
	return "a special file"
}

// temp makes a new file in the root of the tree.
func (w *treeWriter) temp() (*os.File, string, error) {
	name := tempMark + rand.Text()
	f, err := w.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		lockTemp(f)
	}
	return f, name, err
}

// put is one attempt at Put.
func (w *treeWriter) put(ctx context.Context, k Key, dir string, f *File, o PutOptions) (PutResult, error) {
	var res PutResult
	name := ""
	if k.ID != "" {
		name = dirID(k.ID).String()
		res.File = path.Join(dir, name, string(k.Kind))
		keep, err := w.present(k, res.File, f, o)
		if err != nil {
			return res, err
		}
		home := path.Join(dir, name)
		if keep || w.share(k, home, f, o) {
			return w.finish(k, home, res)
		}
		if old := w.other(k, res.File, f, o); old != nil {
			defer old.Close()
			if f, err = unite(ctx, old, f, o.SHA256); err != nil {
				return res, err
			}
			o.SHA256 = ""
		}
	}
	tmp, sum, err := w.copy(ctx, k, f, o.SHA256)
	if err != nil {
		return res, err
	}
	defer w.root.Remove(tmp) // fails once it has its name
	if k.ID == "" {
		name = sum
		res.File = path.Join(dir, name, string(k.Kind))
		if fi, err := w.root.Lstat(res.File); err == nil && fi.Mode().IsRegular() && fi.Size() == f.Size && !o.Update {
			return res, nil // named by its content: it is the same
		}
	}
	home := path.Join(dir, name)
	if err := w.mkdir(home); err != nil {
		return res, err
	}
	if fi, err := w.root.Lstat(res.File); err == nil && fi.IsDir() {
		return res, fmt.Errorf("%s/%s: refused: a directory where a file belongs", w.root.Name(), res.File)
	}
	if err := w.root.Rename(tmp, res.File); err != nil {
		return res, err
	}
	res.Stored = true
	w.sync(home)
	return w.finish(k, home, res)
}

// present reports whether the tree holds a file at name that is as good as f.
// A different program there is a ConflictError.
func (w *treeWriter) present(k Key, name string, f *File, o PutOptions) (bool, error) {
	if o.Update {
		return false, nil
	}
	old, err := openInTree(w.root, name)
	old, err = checked(old, err, k)
	if err != nil {
		return false, nil // nothing there, or nothing of worth
	}
	defer old.Close()
	if k.Kind != ELF && k.Kind != Debug {
		return old.Size == f.Size, nil
	}
	oldQ, oldHash := inspect(old, k.Kind == ELF)
	newQ, newHash := inspect(f, k.Kind == ELF)
	hashes := []string{oldHash, newHash}
	tellApart([]*File{old, f}, hashes)
	if differ(hashes) {
		return false, &ConflictError{File: old.Origin, ID: k.ID}
	}
	if oldQ == newQ && old.Size == f.Size && isSlim(old) {
		// Two slim copies, made for two recordings.
		if c, err := compareSlim(old, f, true); err == nil && c.differ {
			return false, &ConflictError{File: old.Origin, ID: k.ID}
		}
		c, err := compareSlim(old, f, false)
		return err == nil && !c.adds && !c.differ, nil
	}
	return oldQ >= newQ, nil
}

// other returns the slim copy at name that f, a slim copy too, adds to; nil if
// there is none, or they cannot be put together: compressed sections are not
// zeros where they have nothing. The new one takes its place then.
func (w *treeWriter) other(k Key, name string, f *File, o PutOptions) *File {
	if o.Update || k.Kind != ELF && k.Kind != Debug {
		return nil
	}
	old, err := openInTree(w.root, name)
	old, err = checked(old, err, k)
	if err != nil {
		return nil
	}
	oldQ, _ := inspect(old, false)
	newQ, _ := inspect(f, false)
	ok := oldQ == newQ && old.Size == f.Size && isSlim(old)
	if ok {
		c, err := compareSlim(old, f, false)
		ok = err == nil && !c.differ
	}
	if !ok {
		old.Close()
		return nil
	}
	return old
}

// share gives the object that the id's link leads to a second name under home,
// if it is as good as f: one program installed under many paths is stored once.
func (w *treeWriter) share(k Key, home string, f *File, o PutOptions) bool {
	at := path.Join(linkName(path.Base(home)), string(k.Kind))
	if keep, err := w.present(k, at, f, o); err != nil || !keep || k.Kind == Kallsyms {
		return false
	}
	tmp := tempMark + rand.Text()
	if w.mkdir(home) != nil || w.root.Link(at, tmp) != nil {
		return false
	}
	defer w.root.Remove(tmp)
	return w.root.Rename(tmp, path.Join(home, string(k.Kind))) == nil
}

// copy copies f to a temporary file and verifies the copy: its id, and its hash
// if want is not empty. It returns the file's name and the hash of its bytes.
func (w *treeWriter) copy(ctx context.Context, k Key, f *File, want string) (name, sum string, err error) {
	t, tmp, err := w.temp()
	if err != nil {
		return "", "", err
	}
	defer t.Close()
	defer func() {
		if err != nil {
			w.root.Remove(tmp)
		}
	}()
	if want == "" && k.ID != "" && clone(t, f) {
		return tmp, "", w.seal(k, f, t, f.Size)
	}
	h := sha256.New()
	src := &ctxReader{ctx, io.NewSectionReader(f, 0, f.Size)}
	out := &sparse{f: t}
	n, err := io.CopyBuffer(io.MultiWriter(out, h), src, make([]byte, 1<<20))
	if err == nil {
		err = out.finish()
	}
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", f.Origin, err)
	}
	if n != f.Size {
		return "", "", &RefusedError{Path: f.Origin, Reason: Changed, Why: fmt.Sprintf("%d bytes could be read; it had %d", n, f.Size)}
	}
	sum = hex.EncodeToString(h.Sum(nil))
	if want != "" && sum != want {
		return "", "", &RefusedError{Path: f.Origin, Reason: Malformed, Why: "its sha256 is " + sum + "; " + want + " is wanted"}
	}
	return tmp, sum, w.seal(k, f, t, n)
}

// seal verifies t, the copy of n bytes of f, and makes it durable.
func (w *treeWriter) seal(k Key, f *File, t *os.File, n int64) error {
	if err := f.Unchanged(); err != nil {
		return &RefusedError{Path: f.Origin, Reason: Changed, Why: "changed while it was read"}
	}
	if err := verify(&File{ReaderAt: t, Size: n, Origin: f.Origin}, k); err != nil {
		return err
	}
	if err := t.Chmod(mode(k.Kind, f)); err != nil {
		return err
	}
	return t.Sync()
}

// mode returns the mode of a copy. Kernel addresses are the owner's alone; an
// object is as open as its original, and not set-uid.
func mode(k Kind, f *File) fs.FileMode {
	if _, part := kcoreBase(k); part {
		return 0o400 // as perf has it
	}
	if k == Kallsyms || k == VDSO || k == PerfMap || k == JITDump || f.Info == nil {
		return 0o600
	}
	return f.Info.Mode().Perm()&0o755 | 0o400
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

// sync makes the names in a directory durable. Some file systems cannot.
func (w *treeWriter) sync(dir string) {
	if d, err := w.root.Open(dir); err == nil {
		d.Sync()
		d.Close()
	}
}

// finish links the id of k to its directory if it should be.
func (w *treeWriter) finish(k Key, home string, res PutResult) (PutResult, error) {
	if k.ID == "" {
		return res, nil
	}
	link := linkName(path.Base(home))
	if err := w.mkdir(path.Dir(link)); err != nil {
		return res, err
	}
	for range 8 { // others may link and unlink meanwhile
		fi, err := w.root.Lstat(link)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = w.root.Symlink(linkText(home), link)
			if errors.Is(err, fs.ErrExist) {
				continue
			}
			res.Linked = err == nil
			return res, err
		case err != nil:
			return res, err
		case fi.Mode()&fs.ModeSymlink != 0:
			if text, err := w.root.Readlink(link); err == nil && text == linkText(home) {
				res.Linked = true
				return res, nil
			}
		}
		now, now2 := w.rank(k.ID, link), w.rank(k.ID, home)
		if now.value > 0 && differ([]string{now.text, now2.text}) {
			res.Conflict = w.target(link)
		}
		if now.value >= now2.value {
			if res.Conflict == "" {
				w.carry(home, link, k.Kind)
			}
			return res, nil
		}
		if res.Conflict == "" {
			for _, kind := range []Kind{ELF, Debug, Kallsyms, VDSO, Index} {
				w.carry(link, home, kind)
			}
		}
		if err := w.relink(home, link, fi); err != nil {
			return res, err
		}
		res.Linked = true
		return res, nil
	}
	return res, fmt.Errorf("%s/%s: others change it all the time", w.root.Name(), link)
}

// A standing is what a directory of an id is worth.
type standing struct {
	value int    // 0: nothing that carries the id
	text  string // hash of the object's code, "" if there is none
}

// rank returns what the directory, or the file of old perf, at name is worth.
func (w *treeWriter) rank(id buildid.ID, name string) standing {
	fi, err := w.root.Stat(name)
	if err != nil {
		return standing{}
	}
	if !fi.IsDir() {
		return standing{} // a file of old perf: whoever adds replaces it
	}
	var s standing
	for _, kind := range []Kind{Kallsyms, VDSO, ELF} {
		f, err := openInTree(w.root, path.Join(name, string(kind)))
		f, err = checked(f, err, Key{ID: id, Kind: kind})
		if err != nil {
			continue
		}
		value := 2 * 4 // kallsyms, vDSO: less than a symbol table, more than an image without
		if kind == ELF {
			var q worth
			q, s.text = inspect(f, true)
			if value = 2 + int(q); q.quality() >= objfile.Symtab {
				value += 2
			}
		}
		s.value = max(s.value, value)
		f.Close()
	}
	return s
}

// target says where a link leads, for people.
func (w *treeWriter) target(link string) string {
	text, err := w.root.Readlink(link)
	if err != nil {
		return link
	}
	return strings.TrimPrefix(text, "../../")
}

// carry makes the file of a kind in from known in to as well, unless to has
// one: perf looks only where the link leads. Files of a tree are never written
// to, so both names share the bytes.
func (w *treeWriter) carry(from, to string, kind Kind) {
	name := string(kind)
	if fi, err := w.root.Stat(to); err != nil || !fi.IsDir() {
		return
	}
	fi, err := w.root.Lstat(path.Join(from, name))
	if err != nil || !fi.Mode().IsRegular() {
		return
	}
	w.root.Link(path.Join(from, name), path.Join(to, name)) // what is there stays
}

// relink lets the link of an id lead to home, whatever it is now: a link, the
// file of old perf, or a directory whose files have been carried over.
func (w *treeWriter) relink(home, link string, old fs.FileInfo) error {
	tmp := tempMark + rand.Text()
	if old.IsDir() {
		if err := w.root.Rename(link, tmp+"-dir"); err != nil {
			return err
		}
		defer w.root.RemoveAll(tmp + "-dir")
	}
	// The text is right for the place of the link, not for that of tmp.
	if err := w.root.Symlink(linkText(home), tmp); err != nil {
		return err
	}
	if err := w.root.Rename(tmp, link); err != nil {
		w.root.Remove(tmp)
		return err
	}
	w.sync(path.Dir(link))
	return nil
}
