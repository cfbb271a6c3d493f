package archive

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"path"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/store"
)

// ErrChanged says that a file was written to while it was read, each time it
// was tried.
var ErrChanged = errors.New("changed while reading")

// readTries is how often a file that changes under our hands is read again.
const readTries = 3

// chunk is the size of one read, in bytes.
const chunk = 1 << 20

// maxIdentity bounds what reading an id may keep in memory of one file, in
// bytes: the program headers, the section table and the notes.
const maxIdentity = 32 << 20

// collect reads every file of the plan from end to end, on several goroutines,
// and drops those that are not what they should be. A file that is written to
// meanwhile is opened and read again.
func (pl *Plan) collect(ctx context.Context) error {
	type job struct {
		it *item
		p  *part
	}
	var jobs []job
	meter := &meter{report: pl.o.Progress}
	for _, it := range pl.items {
		for _, p := range it.parts {
			if p.reading.sum == "" {
				jobs = append(jobs, job{it, p})
				meter.total += p.file.Size
			}
		}
	}
	if d := pl.o.Data; d != nil && pl.data == nil {
		meter.total += d.Size
	}
	// The largest first, so that no goroutine is left alone with it.
	slices.SortStableFunc(jobs, func(a, b job) int { return cmp.Compare(b.p.file.Size, a.p.file.Size) })
	errs := make([]error, len(jobs))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(pl.workers())
	if d := pl.o.Data; d != nil && pl.data == nil {
		g.Go(func() error {
			h := sha256.New()
			if err := stream(gctx, d.ReaderAt, d.Size, io.MultiWriter(h, meter.of(d.Name))); err != nil {
				return fmt.Errorf("%s: %w", d.Name, err)
			}
			pl.data = &Data{
				Name: Name(path.Base(d.Name)), Size: d.Size, SHA256: hex.EncodeToString(h.Sum(nil)),
				MTime: d.MTime, Included: d.Include,
			}
			return nil
		})
	}
	for i, j := range jobs {
		g.Go(func() error {
			errs[i] = pl.readPart(gctx, j.p, meter.of(j.p.file.Origin))
			return gctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, j := range jobs {
		if errs[i] != nil {
			pl.drop(j.it, j.p, errs[i])
		}
	}
	pl.sort()
	return nil
}

// readPart reads p until it holds still, and checks its id.
func (pl *Plan) readPart(ctx context.Context, p *part, seen io.Writer) error {
	for try := 1; ; try++ {
		r, err := read(ctx, p.file, p.kind, pl.o.Limits, seen)
		if err == nil {
			if p.wantID != "" && !r.id.Match(p.wantID) {
				return &store.RefusedError{
					Path: p.file.Origin, Reason: store.Replaced, Got: r.id,
					Why: fmt.Sprintf("carries build id %s; %s is wanted", r.id, p.wantID),
				}
			}
			p.reading, p.quality = r, r.quality
			return nil
		}
		switch {
		case !errors.Is(err, ErrChanged):
			return &store.RefusedError{Path: p.file.Origin, Reason: store.Unreadable, Err: err}
		case try == readTries || p.key.Kind == "":
			return &store.RefusedError{Path: p.file.Origin, Reason: store.Changed, Err: err}
		}
		f, err := pl.fresh(ctx, p)
		if err != nil {
			return err
		}
		p.file.Close()
		p.file = f
	}
}

// fresh opens the file of p again.
func (pl *Plan) fresh(ctx context.Context, p *part) (*store.File, error) {
	f, err := pl.get(ctx, p.key)
	if err == nil && p.slim != nil {
		// Its tables may have moved: what is kept now is kept whole.
		p.slim, p.original = nil, nil
	}
	if err != nil || p.whole == 0 {
		return f, err
	}
	small, err := reduced(f, pl.o.Limits)
	if err != nil {
		f.Close()
	}
	return small, err
}

// drop takes a file out of the plan. An object whose only file that names
// code it was is missing.
func (pl *Plan) drop(it *item, p *part, err error) {
	p.file.Close()
	it.parts = slices.DeleteFunc(it.parts, func(q *part) bool { return q == p })
	if slices.ContainsFunc(it.parts, func(q *part) bool { return !q.companion() }) || len(it.parts) == 0 && p.companion() {
		return
	}
	for _, q := range it.parts {
		q.file.Close()
	}
	it.parts = nil
	if !it.extra {
		pl.miss(it, err)
	}
}

// companion reports whether p only adds to another file: debug information.
func (p *part) companion() bool {
	switch p.kind {
	case store.ELF, store.Kallsyms, store.VDSO, store.PerfMap, store.JITDump, store.SourceText:
		return false
	}
	return true
}

// A meter adds up what many goroutines read.
type meter struct {
	mu          sync.Mutex
	done, total int64
	report      Progress
}

// of returns what counts the bytes of what that are written to it.
func (m *meter) of(what string) io.Writer { return meterWriter{m, what} }

type meterWriter struct {
	m    *meter
	what string
}

func (w meterWriter) Write(p []byte) (int, error) {
	m := w.m
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done += int64(len(p))
	if m.report != nil {
		m.report(min(m.done, m.total), m.total, "reading "+w.what)
	}
	return len(p), nil
}

// A reading is what one reading of a file from end to end found.
type reading struct {
	size      int64
	sum       string // SHA-256, in hex
	seed      maphash.Seed
	check     uint64     // maphash with seed: much faster, to see that a second reading finds the same
	elf       bool       // the bytes are an ELF file, perhaps compressed
	id        buildid.ID // in the notes of these very bytes; "" if there is none
	goID      string
	slim      bool // marked as a slim copy
	quality   objfile.Quality
	debuglink string // base name of the separate debug file; "" if there is none
	crc       uint32 // its checksum
	altlink   string // name of the file of shared debug information; "" if there is none
	altID     buildid.ID
}

// read reads f from end to end and returns its hash, and what these very
// bytes say about themselves. The error is ErrChanged if the file did not hold
// still: it was written to since it was opened, or the bytes that the id was
// read from are others in the second reading.
func read(ctx context.Context, f *store.File, kind store.Kind, l decode.Limits, seen io.Writer) (reading, error) {
	c := reading{size: f.Size}
	rec := &recorder{r: f.ReaderAt, left: maxIdentity}
	if carriesID(kind) {
		c.identify(rec, f.Origin, l)
	}
	h := sha256.New()
	var check maphash.Hash
	if err := stream(ctx, f.ReaderAt, c.size, io.MultiWriter(h, &check, &matcher{spans: rec.spans}, seen)); err != nil {
		return reading{}, err
	}
	if f.Unchanged() != nil {
		return reading{}, ErrChanged
	}
	c.sum = hex.EncodeToString(h.Sum(nil))
	c.seed, c.check = check.Seed(), check.Sum64()
	return c, nil
}

// identify reads what an ELF file says about itself. What is no ELF file has
// nothing to say.
func (c *reading) identify(r io.ReaderAt, name string, l decode.Limits) {
	x, err := objfile.Open(r, c.size, name, decode.NewBudget(l))
	if err != nil {
		return
	}
	c.elf = true
	c.id, c.goID, c.quality, c.slim = x.BuildID(), x.GoID(), x.Quality(), x.IsSlim()
	c.debuglink, c.crc, _ = x.Debuglink()
	c.altlink, c.altID, _ = x.Altlink()
}

// carriesID reports whether files of kind are ELF files with an id.
func carriesID(kind store.Kind) bool {
	return kind != store.Kallsyms && !isLog(kind) && kind != store.Index && kind != store.SourceText && !isKcore(kind)
}

// stream copies size bytes of r to w. A file that ends early has changed.
func stream(ctx context.Context, r io.ReaderAt, size int64, w io.Writer) error {
	buf := make([]byte, min(chunk, max(size, 1)))
	for off := int64(0); off < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := r.ReadAt(buf[:min(int64(len(buf)), size-off)], off)
		if n == 0 {
			if err == nil || err == io.EOF {
				err = ErrChanged
			}
			return err
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}

// A span is a piece of a file as it was read.
type span struct {
	off int64
	b   []byte
}

// A recorder keeps a copy of all that is read through it, so that a later
// reading of the whole can be compared with it.
type recorder struct {
	r     io.ReaderAt
	left  int
	spans []span
}

func (r *recorder) ReadAt(p []byte, off int64) (int, error) {
	if len(p) > r.left {
		return 0, fmt.Errorf("identity is spread over more than %d bytes", maxIdentity)
	}
	n, err := r.r.ReadAt(p, off)
	r.left -= n
	r.spans = append(r.spans, span{off, bytes.Clone(p[:n])})
	return n, err
}

// A matcher sees a file go by from its start and compares it with spans of
// it. Write returns ErrChanged at the first difference.
type matcher struct {
	spans []span
	off   int64
}

func (m *matcher) Write(p []byte) (int, error) {
	for _, s := range m.spans {
		lo, hi := max(s.off, m.off), min(s.off+int64(len(s.b)), m.off+int64(len(p)))
		if lo < hi && !bytes.Equal(s.b[lo-s.off:hi-s.off], p[lo-m.off:hi-m.off]) {
			return 0, ErrChanged
		}
	}
	m.off += int64(len(p))
	return len(p), nil
}

// again returns a reader of f that notices if it is not what r was of.
func (r *reading) again(f *store.File) io.ReadCloser {
	a := &rereading{r: io.NewSectionReader(f, 0, f.Size), want: r.check}
	a.hash.SetSeed(r.seed)
	return a
}

// A rereading is the second reading of a file. No file can be made to have the
// hash of another, as nobody knows the seed.
type rereading struct {
	r    io.Reader
	hash maphash.Hash
	want uint64
}

func (a *rereading) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	a.hash.Write(p[:n])
	return n, err
}

func (a *rereading) Close() error { return nil }

// Same reports whether what was read is what it was.
func (a *rereading) Same() bool { return a.hash.Sum64() == a.want }

// spool copies f to an unlinked temporary file in dir, where nobody else can
// write to it. It closes f.
func spool(ctx context.Context, f *store.File, dir string) (*store.File, error) {
	defer f.Close()
	t, err := os.CreateTemp(dir, ".perfark-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(t.Name()); err != nil {
		t.Close()
		return nil, err
	}
	err = stream(ctx, f.ReaderAt, f.Size, t)
	if err == nil && f.Unchanged() != nil {
		err = ErrChanged
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return &store.File{ReaderAt: t, Size: f.Size, Origin: f.Origin, Unverified: f.Unverified, Bound: f.Bound, Info: f.Info, Close: t.Close}, nil
}
