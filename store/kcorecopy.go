package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/objfile"
)

// A Kcore is a copy of the code of a kernel and of its modules, as it was in
// memory: what perf copies of /proc/kcore.
type Kcore struct {
	Kallsyms, Modules []byte // of the same time; no modules: a kernel without
	Core              []byte // an ELF file whose segments are code at its addresses
}

// ReadKcore copies the code of a kernel: dir is /proc, or a directory that has
// the files kcore, kallsyms and modules, as copies of it have. What is copied
// is what kallsyms has between _stext and _etext, and the modules. It is
// bounded, whatever size kcore has.
func ReadKcore(dir string) (*Kcore, error) {
	var k Kcore
	var err error
	if k.Kallsyms, err = readBounded(filepath.Join(dir, kcoreSyms)); err != nil {
		return nil, err
	}
	if f, err := checked(memFile(k.Kallsyms, filepath.Join(dir, kcoreSyms)), nil, Key{Kind: Kallsyms}); err != nil {
		return nil, err
	} else {
		f.Close()
	}
	if k.Modules, err = readBounded(filepath.Join(dir, kcoreModules)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	name := filepath.Join(dir, kcoreFile)
	f, size, err := openKernelFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	x, err := objfile.Open(f, size, name, nil)
	if err != nil {
		return nil, err
	}
	if x.Type() != objfile.TypeCore {
		return nil, fmt.Errorf("%s: not a core file: ELF type %d, want %d", name, x.Type(), objfile.TypeCore)
	}
	areas, err := k.areas(name)
	if err != nil {
		return nil, err
	}
	k.Core, err = copyCore(f, x, areas)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &k, nil
}

// openKernelFile opens a regular file, which may be one of /proc: openRegular
// refuses those. It returns the size in bytes that the file says it has.
func openKernelFile(name string) (*os.File, int64, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = &RefusedError{Path: name, Reason: NotRegular, Why: "not a regular file"}
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, fi.Size(), nil
}

// readBounded reads a file of /proc, whose size is not known before.
func readBounded(name string) ([]byte, error) {
	f, _, err := openKernelFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && len(b) > most {
		err = fmt.Errorf("%s: more than %d bytes", name, most)
	}
	return b, err
}

// An area is a piece of the kernel's memory.
type area struct{ start, end uint64 }

// areas returns where the code of the kernel and of its modules is, in order,
// by whole pages.
func (k *Kcore) areas(name string) ([]area, error) {
	const page = 4096
	text, ok := symbolIn(bytes.NewReader(k.Kallsyms), "_stext")
	if !ok {
		text, ok = symbolIn(bytes.NewReader(k.Kallsyms), "_text")
	}
	end, ok2 := symbolIn(bytes.NewReader(k.Kallsyms), "_etext")
	if !ok || !ok2 || end <= text || end > ^uint64(0)-page {
		return nil, fmt.Errorf("%s: kallsyms beside it does not say where the code is: no _stext and _etext", name)
	}
	list := []area{{text &^ (page - 1), (end + page - 1) &^ (page - 1)}}
	mods, err := readModules(bytes.NewReader(k.Modules))
	if err != nil {
		return nil, err
	}
	for _, m := range mods {
		if m.start+m.size <= ^uint64(0)-page {
			list = append(list, area{m.start &^ (page - 1), (m.start + m.size + page - 1) &^ (page - 1)})
		}
	}
	slices.SortFunc(list, func(a, b area) int { return cmp.Compare(a.start, b.start) })
	out := list[:1]
	var total uint64
	for _, a := range list[1:] {
		if last := &out[len(out)-1]; a.start <= last.end {
			last.end = max(last.end, a.end)
		} else {
			out = append(out, a)
		}
	}
	for _, a := range out {
		if total += a.end - a.start; a.end-a.start > maxKcore || total > maxKcore {
			return nil, fmt.Errorf("%s: code of more than %d bytes, if kallsyms and modules beside it are right", name, maxKcore)
		}
	}
	return out, nil
}

// A piece is an area that a core file has.
type piece struct {
	area
	off uint64 // in the file
}

// maxKcore bounds the code of a kernel and its modules, in bytes, and maxPieces
// the segments of a copy.
const (
	maxKcore  = 512 << 20
	maxPieces = 10_000
)

// piecesOf finds areas in a core file. Those that it has not whole are cut.
func piecesOf(x *objfile.File, areas []area) ([]piece, error) {
	var pieces []piece
	for _, a := range areas {
		for at := a.start; at < a.end; {
			off, n, ok := x.Segment(at)
			if !ok || n == 0 {
				next, ok := x.NextSegment(at)
				if !ok || next >= a.end {
					break
				}
				at = next
				continue
			}
			if len(pieces) == maxPieces {
				return nil, fmt.Errorf("code in more than %d pieces", maxPieces)
			}
			n = min(n, a.end-at)
			if whole := uint64(x.Size()); off > whole || n > whole-off {
				return nil, fmt.Errorf("0x%x bytes at 0x%x: beyond the end of the file", n, at)
			}
			pieces = append(pieces, piece{area{at, at + n}, off})
			at += n
		}
	}
	if len(pieces) == 0 {
		return nil, errors.New("it has no memory at the addresses of the code")
	}
	return pieces, nil
}

// coreHead is the headers of a core file of the machine of x that has these
// pieces one behind the other, up to where the first one stands.
func coreHead(x *objfile.File, pieces []piece) []byte {
	var order binary.AppendByteOrder = binary.LittleEndian
	data := byte(1)
	if x.Big() {
		order, data = binary.BigEndian, 2
	}
	class, head, entry := byte(2), 64, 56
	if x.Class() == 32 {
		class, head, entry = 1, 52, 32
	}
	word := func(b []byte, v uint64) []byte {
		if class == 1 {
			return order.AppendUint32(b, uint32(v))
		}
		return order.AppendUint64(b, v)
	}
	b := append([]byte("\x7fELF"), class, data, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	b = order.AppendUint16(b, uint16(objfile.TypeCore))
	b = order.AppendUint16(b, uint16(x.Machine()))
	b = order.AppendUint32(b, 1)
	b = word(b, 0)            // e_entry
	b = word(b, uint64(head)) // e_phoff
	b = word(b, 0)            // e_shoff
	b = order.AppendUint32(b, x.Flags())
	for _, v := range []int{head, entry, len(pieces), 0, 0, 0} {
		b = order.AppendUint16(b, uint16(v))
	}
	const page = 4096
	first := (head + entry*len(pieces) + page - 1) &^ (page - 1)
	at := uint64(first)
	for _, p := range pieces {
		b = order.AppendUint32(b, 1) // PT_LOAD
		const rwx = 7
		if class == 2 {
			b = order.AppendUint32(b, rwx)
		}
		n := p.end - p.start
		for _, v := range []uint64{at, p.start, 0, n, n} {
			b = word(b, v)
		}
		if class == 1 {
			b = order.AppendUint32(b, rwx)
		}
		b = word(b, page)
		at += n
	}
	return append(b, make([]byte, first-len(b))...)
}

// copyCore makes a core file of some areas of another, r.
func copyCore(r io.ReaderAt, x *objfile.File, areas []area) ([]byte, error) {
	pieces, err := piecesOf(x, areas)
	if err != nil {
		return nil, err
	}
	out := coreHead(x, pieces)
	size := uint64(0)
	for _, p := range pieces {
		size += p.end - p.start
	}
	out = slices.Grow(out, int(size))
	for _, p := range pieces {
		from := len(out)
		out = out[:from+int(p.end-p.start)]
		if n, err := r.ReadAt(out[from:], int64(p.off)); n < len(out)-from {
			return nil, fmt.Errorf("0x%x bytes at 0x%x: %w", p.end-p.start, p.start, err)
		}
	}
	return out, nil
}

// File returns a file of the copy.
func (k *Kcore) File(kind Kind, origin string) *File {
	switch kind {
	case KCoreKallsyms:
		return memFile(k.Kallsyms, origin)
	case KCoreModules:
		return memFile(k.Modules, origin)
	}
	return memFile(k.Core, origin)
}

// KcoreID returns the Build ID of the kernel whose kcore is in dir: of /proc,
// from /sys; of another, from ../sys, as perf does; and of a copy, from the
// name of the directory that it is in.
func KcoreID(dir string) (buildid.ID, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	id, err := KernelID(filepath.Join(filepath.Dir(dir), "sys"))
	if err == nil {
		return id, nil
	}
	if filepath.Base(filepath.Dir(filepath.Dir(dir))) == kcoreName {
		return buildid.Parse(filepath.Base(filepath.Dir(dir)))
	}
	return "", fmt.Errorf("%s: nothing says of which kernel it is: %w", dir, pathless(err))
}

// PutKcore stores a copy of /proc/kcore where perf looks for it:
// [kernel.kcore]/ID/STAMP/{kcore,kallsyms,modules}. If the same is there, in
// dir, it is not stored again.
func (c *BuildIDCache) PutKcore(ctx context.Context, id buildid.ID, k *Kcore, stamp string, o PutOptions) (dir string, stored bool, err error) {
	if id == "" {
		return "", false, errors.New("kcore: of a kernel without a build id")
	}
	if stamp == "" || stamp != path.Base(stamp) || strings.HasPrefix(stamp, ".") {
		return "", false, fmt.Errorf("kcore: %q is not the name of a directory", stamp)
	}
	w, err := c.write(o.Force)
	if err != nil {
		return "", false, err
	}
	defer w.root.Close()
	home := path.Join(kcoreName, dirID(id).String())
	if old, ok := w.sameKcore(home, k); ok && !o.Update {
		return old, false, nil
	}
	dir = path.Join(home, stamp)
	if err := w.mkdir(dir); err != nil {
		return dir, false, err
	}
	// kallsyms is what readers look for first: it comes last.
	for _, kind := range []Kind{KCoreModules, KCore, KCoreKallsyms} {
		base, _ := kcoreBase(kind)
		if err := w.putKcore(ctx, dir, kind, k.File(kind, base), ""); err != nil {
			return dir, false, err
		}
	}
	w.sync(dir)
	return dir, true, nil
}

// putKcore writes a file of a copy.
func (w *treeWriter) putKcore(ctx context.Context, dir string, kind Kind, f *File, sum string) error {
	base, _ := kcoreBase(kind)
	tmp, _, err := w.copy(ctx, Key{Kind: kind}, f, sum)
	if err != nil {
		return err
	}
	err = w.root.Rename(tmp, path.Join(dir, base))
	if err != nil {
		w.root.Remove(tmp)
	}
	return err
}

// PutKcoreFile stores a file of a copy of /proc/kcore that an archive has, as
// PutKcore stores it. One of the same bytes stays.
func (c *BuildIDCache) PutKcoreFile(ctx context.Context, id buildid.ID, stamp string, kind Kind, f *File, o PutOptions) (stored bool, err error) {
	base, ok := kcoreBase(kind)
	if !ok || id == "" || stamp == "" || stamp != path.Base(stamp) || strings.HasPrefix(stamp, ".") {
		return false, fmt.Errorf("%s: has no place in a cache", f.Origin)
	}
	w, err := c.write(o.Force)
	if err != nil {
		return false, err
	}
	defer w.root.Close()
	dir := path.Join(kcoreName, dirID(id).String(), stamp)
	if old, err := openInTree(w.root, path.Join(dir, base)); err == nil {
		same := old.Size == f.Size && equalFiles(old, f)
		old.Close()
		if same {
			return false, nil
		}
	}
	if err := w.mkdir(dir); err != nil {
		return false, err
	}
	if err := w.putKcore(ctx, dir, kind, f, o.SHA256); err != nil {
		return false, err
	}
	w.sync(dir)
	return true, nil
}

// sameKcore returns the directory below home with a copy of the same boot and
// the same modules.
func (w *treeWriter) sameKcore(home string, k *Kcore) (dir string, ok bool) {
	stamps, _ := readDirNames(w.root, home)
	for _, stamp := range stamps {
		same := true
		for _, kind := range []Kind{KCoreModules, KCoreKallsyms, KCore} {
			base, _ := kcoreBase(kind)
			want := k.File(kind, base)
			f, err := openInTree(w.root, path.Join(home, stamp, base))
			if err != nil {
				same = want.Size == 0 && kind == KCoreModules && errors.Is(err, fs.ErrNotExist)
			} else {
				same = f.Size == want.Size && (kind == KCore || equalFiles(f, want))
				f.Close()
			}
			if !same {
				break
			}
		}
		if same {
			return path.Join(home, stamp), true
		}
	}
	return "", false
}

// equalFiles reports whether two files of one size have the same bytes. Those
// that cannot be read have not.
func equalFiles(a, b *File) bool {
	x, y := make([]byte, 64<<10), make([]byte, 64<<10)
	for off := int64(0); off < a.Size; off += int64(len(x)) {
		want := int(min(int64(len(x)), a.Size-off))
		n, _ := a.ReadAt(x[:want], off)
		m, _ := b.ReadAt(y[:want], off)
		if n != want || m != want || !bytes.Equal(x[:n], y[:m]) {
			return false
		}
	}
	return true
}
