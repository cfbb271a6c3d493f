package redact

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/store"
)

// An ObjectReport is a file that holds names that are replaced.
type ObjectReport struct {
	Path    string `json:"path"` // as it is in the result
	Kind    string `json:"kind"`
	Names   int    `json:"names"`   // places with names
	Outcome string `json:"outcome"` // masked, kept, dropped
	Why     string `json:"why,omitempty"`
}

// objectReports collects what was done to files, from several goroutines.
type objectReports struct {
	mu   sync.Mutex
	seen map[string]ObjectReport
}

func (o *objectReports) add(x ObjectReport) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen == nil {
		o.seen = map[string]ObjectReport{}
	}
	o.seen[x.Kind+" "+x.Path] = x
}

func (o *objectReports) list() []ObjectReport {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []ObjectReport
	for _, x := range o.seen {
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b ObjectReport) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Kind, b.Kind))
	})
	return out
}

// Refused is the reason for files that are left out because of the names in
// them.
const Refused store.Reason = "redacted"

// Source returns a source for the redacted recording of what src has for the
// original: it is asked for redacted paths, and in the files names are
// overwritten, which leaves every byte at its place, or, where they stand in
// compressed sections, the section moves to the end of the file, decompressed.
// Such a file carries the mark of a slim copy: whoever has the original prefers
// it. Files without names stay as they are.
func (r *Redactor) Source(src store.Source) store.Source { return &source{r, src} }

type source struct {
	r   *Redactor
	src store.Source
}

// Get opens a file. See store.Source.
func (s *source) Get(ctx context.Context, k store.Key) (*store.File, error) {
	switch k.Kind {
	case store.Index, // it may hold names, and is only a shortcut
		store.KCore, store.KCoreKallsyms, store.KCoreModules: // memory may hold anything
		return nil, fmt.Errorf("%v: %w", k, fs.ErrNotExist)
	}
	redacted := k.Path
	if old, ok := s.r.original[k.Path]; ok {
		k.Path = old
	}
	f, err := s.src.Get(ctx, k)
	if err != nil {
		return nil, s.r.refusal(err)
	}
	out, err := s.r.object(ctx, f, k.Kind, redacted)
	if err != nil {
		f.Close()
		return nil, err
	}
	return out, nil
}

// refusal returns an error of a source without names.
func (r *Redactor) refusal(err error) error {
	if e, ok := errors.AsType[*store.RefusedError](err); ok {
		c := *e
		c.Path, c.Why = r.Text(e.Path), r.Text(e.Why)
		if e.Err != nil {
			c.Err = errors.New(r.Text(e.Err.Error()))
		}
		return &c
	}
	if errors.Is(err, fs.ErrNotExist) {
		return &textError{r.Text(err.Error()), fs.ErrNotExist}
	}
	return &textError{r.Text(err.Error()), nil}
}

// A textError is an error with another text.
type textError struct {
	text string
	is   error
}

func (e *textError) Error() string { return e.text }
func (e *textError) Unwrap() error { return e.is }

// object returns a file without names.
func (r *Redactor) object(ctx context.Context, f *store.File, kind store.Kind, path string) (*store.File, error) {
	out := &store.File{
		ReaderAt: f.ReaderAt, Size: f.Size, Origin: r.Text(f.Origin), Unverified: f.Unverified, Bound: f.Bound, Close: f.Close,
	}
	if path == "" {
		path = out.Origin
	}
	x, err := r.overlay(ctx, f.ReaderAt, f.Size)
	if err == nil {
		err = f.Unchanged()
	}
	if err != nil {
		return nil, &store.RefusedError{Path: out.Origin, Reason: store.Unreadable, Err: err}
	}
	if x.names == 0 {
		return out, nil
	}
	rep := ObjectReport{Path: path, Kind: string(kind), Names: x.names, Outcome: "masked", Why: x.why}
	defer func() { r.objects.add(rep) }()
	switch {
	case r.p.Objects == Keep:
		rep.Outcome = "kept"
		return out, nil
	case r.p.Objects == Drop || x.stuck:
		rep.Outcome = "dropped"
		why := "holds names that are redacted"
		if x.stuck {
			why += ", compressed, so that they cannot be overwritten"
		}
		return nil, &store.RefusedError{Path: out.Origin, Reason: Refused, Why: why}
	}
	out.ReaderAt, out.Size = x, x.size+int64(len(x.tail))
	return out, nil
}

// An overlay is a file with other bytes in some places, and more at its end.
type overlay struct {
	r     io.ReaderAt
	size  int64 // of r
	edits []edit
	tail  []byte
	names int // places with names
	stuck bool
	why   string
}

// ReadAt reads the file as it is with the edits.
func (o *overlay) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fs.ErrInvalid
	}
	total := o.size + int64(len(o.tail))
	if off >= total {
		return 0, io.EOF
	}
	short := int64(len(p)) > total-off
	if short {
		p = p[:total-off]
	}
	n := 0
	if off < o.size {
		want := int(min(int64(len(p)), o.size-off))
		k, err := o.r.ReadAt(p[:want], off)
		if k < want {
			if err == nil {
				err = io.ErrUnexpectedEOF
			}
			return k, err
		}
		n = want
	}
	if n < len(p) {
		copy(p[n:], o.tail[off+int64(n)-o.size:])
	}
	i, _ := slices.BinarySearchFunc(o.edits, off, func(e edit, off int64) int { return cmp.Compare(e.off+int64(len(e.data))-1, off) })
	for ; i < len(o.edits) && o.edits[i].off < off+int64(len(p)); i++ {
		e := &o.edits[i]
		if at := e.off - off; at >= 0 {
			copy(p[at:], e.data)
		} else {
			copy(p, e.data[-at:])
		}
	}
	if short {
		return len(p), io.EOF
	}
	return len(p), nil
}

// Searching goes by windows, of which the beginning was seen before: names may
// lie across the end of one.
const (
	window = 1 << 20
	lead   = 8 << 10
)

// eachWindow calls do with pieces of a file. What begins in the first skip
// bytes was seen before, as far as it lies before the place seen.
func eachWindow(ctx context.Context, r io.ReaderAt, size int64, do func(b []byte, off int64)) error {
	buf := make([]byte, window+lead)
	for off := int64(0); off < size; off += window {
		if err := ctx.Err(); err != nil {
			return err
		}
		from := max(off-lead, 0)
		b := buf[:min(int64(len(buf)), size-from, off+window-from)]
		n, err := r.ReadAt(b, from)
		if n < len(b) {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("offset %#x: %w", from+int64(n), err)
		}
		do(b, from)
	}
	return nil
}

// editsOf returns the edits of a file, in order and apart from each other.
func (r *Redactor) editsOf(ctx context.Context, f io.ReaderAt, size int64) ([]edit, error) {
	var out []edit
	err := eachWindow(ctx, f, size, func(b []byte, off int64) { out = append(out, r.dict.edits(b, off, r.p.Users == Mask)...) })
	return tidy(out), err
}

// tidy sorts edits and leaves out those that lie within others: the longest
// count.
func tidy(list []edit) []edit {
	slices.SortStableFunc(list, func(a, b edit) int {
		return cmp.Or(cmp.Compare(a.off, b.off), cmp.Compare(len(b.data), len(a.data)))
	})
	out := list[:0]
	end := int64(-1)
	for _, e := range list {
		if e.off < end {
			if e.off+int64(len(e.data)) <= end {
				continue
			}
			e.data = e.data[end-e.off:]
			e.off = end
		}
		out = append(out, e)
		end = e.off + int64(len(e.data))
	}
	return out
}

// overlay finds the names in a file.
func (r *Redactor) overlay(ctx context.Context, f io.ReaderAt, size int64) (*overlay, error) {
	o := &overlay{r: f, size: size}
	var err error
	if o.edits, err = r.editsOf(ctx, f, size); err != nil {
		return nil, err
	}
	o.names = len(o.edits)
	x, err := objfile.Open(f, size, "object", decode.NewBudget(decode.Limits{}))
	if err != nil {
		return o, nil // a text, or a file of a kind that has no sections
	}
	if x.Size() != size {
		return o, r.packed(ctx, o)
	}
	for _, c := range x.CompressedSections() {
		if err := r.section(o, &c); err != nil {
			return nil, err
		}
	}
	if o.names > 0 && x.Class() != 0 && !x.IsSlim() { // PE files have no place for it
		o.edits = append(o.edits, slimMark(o.edits))
	}
	o.edits = tidy(o.edits)
	return o, nil
}

// packed looks into a file that is compressed as a whole, such as a module of
// the kernel. Names in it stay there.
func (r *Redactor) packed(ctx context.Context, o *overlay) error {
	plain, size, err := objfile.Decompress(o.r, o.size, decode.NewBudget(decode.Limits{}))
	if err != nil {
		return nil // it is what it is: what cannot be read names nothing
	}
	list, err := r.editsOf(ctx, plain, size)
	if o.names += len(list); len(list) > 0 {
		o.stuck = true
	}
	return err
}

// section replaces a compressed section that holds names by its contents.
func (r *Redactor) section(o *overlay, c *objfile.CompressedSection) error {
	b, err := c.Contents()
	if err != nil {
		return nil // no reader reads it either
	}
	list := tidy(r.dict.edits(b, 0, r.p.Users == Mask))
	if len(list) == 0 {
		return nil
	}
	for _, e := range list {
		copy(b[e.off:], e.data)
	}
	for (o.size+int64(len(o.tail)))%16 != 0 {
		o.tail = append(o.tail, 0)
	}
	at := o.size + int64(len(o.tail))
	entry, ok, err := c.HeaderFor(at, int64(len(b)))
	if err == nil && !ok {
		if o.why != "" {
			o.why += ", "
		}
		o.why += c.Name + " is left out"
		b = nil
		entry, _, err = c.HeaderFor(0, 0)
	}
	if err != nil {
		return err
	}
	o.names += len(list)
	o.tail = append(o.tail, b...)
	o.edits = append(o.edits, edit{c.Header.Start, string(entry)}, edit{c.Data.Start, strings.Repeat("\x00", int(c.Data.End-c.Data.Start))})
	return nil
}

// slimMark is the mark of a slim copy: see package objfile. Copies in which
// other names are overwritten have another hash in it.
func slimMark(list []edit) edit {
	h := fnv.New32a()
	for _, e := range list {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], uint64(e.off))
		h.Write(b[:])
		h.Write([]byte(e.data))
	}
	const at = 9 // in e_ident
	return edit{at, string(h.Sum(nil)[:3]) + "slim"}
}
