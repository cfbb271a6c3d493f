package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/store"
)

// epoch is the time of every member but perf.data. tar complains about 1970.
var epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// An outEntry is one entry of the tar to be written.
type outEntry struct {
	name  string
	typ   byte
	mode  int64
	size  int64
	link  string
	mtime time.Time
	sum   string // SHA-256 in hex; "" if it is not checked
	open  func() (io.ReadCloser, error)
}

// outEntries lists what goes into an archive, in order.
func outEntries(m *Manifest, c Contents, f Format) ([]outEntry, error) {
	manifest, err := m.Encode()
	if err != nil {
		return nil, err
	}
	first := outEntry{name: manifestName, typ: tar.TypeReg, mode: 0o600, size: int64(len(manifest))}
	first.open = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(manifest)), nil }
	if f != Bundle {
		first.name = ManifestName(manifest)
	}
	out := []outEntry{first}
	prefix := ""
	if f == Bundle {
		prefix = debugDir + "/"
	}
	if m.Data != nil && m.Data.Included {
		if f != Bundle {
			return nil, fmt.Errorf("a symbols archive cannot hold the perf.data")
		}
		out = append(out, outEntry{name: dataName, typ: tar.TypeReg, mode: 0o600,
			size: m.Data.Size, mtime: m.Data.MTime, sum: m.Data.SHA256, open: c.Data})
	}
	head := len(out)
	seen := map[Name]*File{}
	dirs := map[string]bool{}
	links := map[buildid.ID]bool{}
	if m.Pool != "" && f != Bundle {
		return nil, fmt.Errorf("only bundles have files in a pool")
	}
	for i := range m.Objects {
		o := &m.Objects[i]
		for k := range o.Files {
			f := &o.Files[k]
			if p := seen[f.Name]; p != nil {
				if p.SHA256 != f.SHA256 || p.Size != f.Size {
					return nil, fmt.Errorf("two different files under the name %q", f.Name)
				}
				continue
			}
			seen[f.Name] = f
			if err := checkPlace(f); err != nil {
				return nil, err
			}
			if f.Pooled {
				continue
			}
			mode := int64(0o644)
			if f.Kind == store.Kallsyms || isLog(f.Kind) || isKcore(f.Kind) {
				mode = 0o600
			}
			out = append(out, outEntry{name: prefix + string(f.Name), typ: tar.TypeReg, mode: mode, size: f.Size,
				sum: f.SHA256, open: func() (io.ReadCloser, error) { return c.File(f) }})
			if d := path.Dir(string(f.Name)); !isLog(f.Kind) && !dirs[d] {
				dirs[d] = true
				out = append(out, outEntry{name: prefix + d + "/", typ: tar.TypeDir, mode: 0o755})
			}
		}
		if o.ID != "" && !o.pooled() && !links[o.ID] {
			links[o.ID] = true
			name, target := LinkName(o.ID, string(o.Files[0].Name))
			out = append(out, outEntry{name: prefix + name, typ: tar.TypeSymlink, mode: 0o777, link: target})
		}
	}
	slices.SortFunc(out[head:], func(a, b outEntry) int { return strings.Compare(a.name, b.name) })
	for name := range seen {
		for d := path.Dir(string(name)); d != "."; d = path.Dir(d) {
			if seen[Name(d)] != nil {
				return nil, fmt.Errorf("%q: is the name of a file, and of a directory over %q", d, name)
			}
		}
	}
	linkEqual(out[head:])
	return out, nil
}

// checkPlace fails for a file under a name that nobody would read.
func checkPlace(f *File) error {
	name := string(f.Name)
	if err := checkName(name); err != nil {
		return err
	}
	if f.Kind == store.PerfMap && mapPattern.MatchString(name) || f.Kind == store.JITDump && dumpPattern.MatchString(name) {
		return nil
	}
	_, _, _, err := splitObject(name)
	return err
}

// linkEqual makes every file that has the contents of an earlier one a hard
// link to that: one program may have been mapped from two paths, once with an
// id and once without.
func linkEqual(list []outEntry) {
	first := map[string]string{}
	for i := range list {
		e := &list[i]
		if e.typ != tar.TypeReg || e.size == 0 || e.sum == "" {
			continue
		}
		if name, ok := first[e.sum]; ok {
			*e = outEntry{name: e.name, typ: tar.TypeLink, mode: e.mode, link: name}
			continue
		}
		first[e.sum] = e.name
	}
}

// header returns the header blocks of e: ustar, or PAX where that is needed.
func (e *outEntry) header() ([]byte, error) {
	var b bytes.Buffer
	h := tar.Header{Typeflag: e.typ, Name: e.name, Linkname: e.link, Size: e.size, Mode: e.mode, ModTime: e.mtime.Truncate(time.Second)}
	if e.mtime.IsZero() {
		h.ModTime = epoch
	}
	if err := tar.NewWriter(&b).WriteHeader(&h); err != nil {
		return nil, fmt.Errorf("%q: %w", e.name, err)
	}
	return b.Bytes(), nil
}

// An encoder compresses a stream on several goroutines.
type encoder interface {
	io.Writer
	// Cut ends the frame, if the format has frames.
	Cut() error
	// Close writes what is left and waits for all goroutines. It does not
	// close the underlying writer.
	Close() error
}

func encode(ctx context.Context, w io.Writer, m *Manifest, c Contents, o EncodeOptions) (err error) {
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	list, err := outEntries(m, c, o.Format)
	if err != nil {
		return err
	}
	z, err := newEncoder(w, o)
	if err != nil {
		return err
	}
	defer func() {
		if e := z.Close(); err == nil {
			err = e
		}
	}()
	e := &encoding{ctx: ctx, z: z, buf: make([]byte, 1<<20), progress: o.Progress}
	for i := range list {
		e.total += list[i].size
	}
	for i := range list {
		if err := e.member(&list[i]); err != nil {
			return err
		}
	}
	if _, err := z.Write(make([]byte, 2*blockSize)); err != nil {
		return err
	}
	e.report("")
	return nil
}

// An encoding is the state of one call of encode.
type encoding struct {
	ctx         context.Context
	z           encoder
	buf         []byte
	done, total int64
	progress    Progress
}

func (e *encoding) report(what string) {
	if e.progress != nil {
		e.progress(e.done, e.total, what)
	}
}

// member writes one member. The frames of its contents are its own.
func (e *encoding) member(x *outEntry) error {
	h, err := x.header()
	if err != nil {
		return err
	}
	if _, err := e.z.Write(h); err != nil {
		return err
	}
	if x.size == 0 {
		return e.ctx.Err()
	}
	if err := e.z.Cut(); err != nil {
		return err
	}
	if err := e.contents(x); err != nil {
		return err
	}
	if pad := -x.size & (blockSize - 1); pad > 0 {
		if _, err := e.z.Write(make([]byte, pad)); err != nil {
			return err
		}
	}
	return e.z.Cut()
}

// contents writes the contents of a member, and checks them.
func (e *encoding) contents(x *outEntry) error {
	r, err := x.open()
	if err != nil {
		return err
	}
	defer r.Close()
	e.report(x.name)
	fast, _ := r.(interface{ Same() bool })
	var sum hash.Hash
	if fast == nil {
		sum = sha256.New()
	}
	for left := x.size; left > 0; {
		if err := e.ctx.Err(); err != nil {
			return err
		}
		n, err := r.Read(e.buf[:min(left, int64(len(e.buf)))])
		if sum != nil {
			sum.Write(e.buf[:n])
		}
		if _, err := e.z.Write(e.buf[:n]); err != nil {
			return err
		}
		left -= int64(n)
		e.done += int64(n)
		e.report(x.name)
		if err == io.EOF && left > 0 {
			return &ChangedError{x.name, fmt.Sprintf("%d bytes, but it had %d", x.size-left, x.size)}
		}
		if err != nil && err != io.EOF {
			return fmt.Errorf("%q: %w", x.name, err)
		}
	}
	if n, _ := r.Read(e.buf[:1]); n > 0 {
		return &ChangedError{x.name, fmt.Sprintf("longer than the %d bytes it had", x.size)}
	}
	if fast != nil && !fast.Same() {
		return &ChangedError{x.name, "its bytes are not those that were looked at"}
	}
	if sum != nil && x.sum != "" {
		if got := hex.EncodeToString(sum.Sum(nil)); got != x.sum {
			return &ChangedError{x.name, fmt.Sprintf("sha256 is %s, but it was %s", got, x.sum)}
		}
	}
	return nil
}
