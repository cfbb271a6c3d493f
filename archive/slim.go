package archive

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"slices"
	"sync"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/store"
	"github.com/perfark/perfark/symbol"
)

// slim makes every file of the plan a slim one, in which only that is there
// which this profile needs. To find out what that is the profile is resolved
// from the whole files first; see check.
func (pl *Plan) slim(ctx context.Context) error {
	var traces []*trace
	for _, it := range pl.items {
		for _, p := range it.parts {
			if p.slimmable() {
				p.trace = &trace{r: p.file.ReaderAt}
				traces = append(traces, p.trace)
			}
		}
	}
	if len(traces) == 0 {
		return nil
	}
	_, err := symbol.Resolve(ctx, pl.profile, symbol.Options{Source: itemSource{pl}, Workers: pl.workers(), Limits: pl.o.Limits, Lines: true, Inlines: true})
	if err != nil {
		return err
	}
	pl.whole = fingerprints(pl.profile)
	needs := pl.needs()
	for _, it := range pl.items {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, p := range it.parts {
			if p.trace != nil {
				pl.slimPart(it, p, needs)
			}
			p.trace = nil
		}
	}
	return nil
}

// slimmable reports whether a part may be made slim: what is compressed, or
// is no object, is packed whole.
func (p *part) slimmable() bool {
	if p.kind != store.ELF && p.kind != store.Debug || p.whole > 0 {
		return false
	}
	var head [4]byte
	n, _ := p.file.ReadAt(head[:], 0)
	return n == len(head) && string(head[:]) == "\x7fELF"
}

// A need is what a profile needs of an object.
type need struct {
	code    []objfile.Span // in the file, as it was mapped
	offsets []uint64       // of its locations in that file
	all     bool           // it holds another object, and is kept as it is
}

// Around an address that no function holds, so much of the code is kept, in
// bytes; and functions are kept up to a multiple of codeGrain.
const (
	codeAround = 4 << 10
	codeGrain  = 64
)

// needs collects what is needed of each file: objects with one Build ID are
// one, whatever their paths.
func (pl *Plan) needs() map[string]*need {
	out := map[string]*need{}
	at := func(i int32) *need {
		k := pl.needKey(int(i))
		if out[k] == nil {
			out[k] = &need{}
		}
		return out[k]
	}
	p := pl.profile
	for i := range p.Objects {
		if o := &p.Objects[i]; o.Container != "" && o.Outer >= 0 {
			at(o.Outer).all = true
		}
	}
	for i := range p.Functions {
		fn := &p.Functions[i]
		if fn.Object < 0 || fn.Inlined || fn.End <= fn.Start || fn.End > 1<<62 {
			continue
		}
		n := at(fn.Object)
		n.code = append(n.code, objfile.Span{Start: int64(fn.Start &^ (codeGrain - 1)), End: int64((fn.End + codeGrain - 1) &^ (codeGrain - 1))})
	}
	for i := range p.Locations {
		l := &p.Locations[i]
		if l.Object < 0 || l.Addr > 1<<62 {
			continue
		}
		n := at(l.Object)
		n.offsets = append(n.offsets, l.Addr)
		if l.Func == profile.None {
			n.code = append(n.code, objfile.Span{Start: max(int64(l.Addr)-codeAround, 0), End: int64(l.Addr) + codeAround})
		}
	}
	for _, n := range out {
		slices.Sort(n.offsets)
		n.offsets = slices.Compact(n.offsets)
	}
	return out
}

// needKey tells objects apart whose files are not the same.
func (pl *Plan) needKey(object int) string {
	o := &pl.profile.Objects[object]
	if o.BuildID != "" {
		return "id " + string(o.BuildID)
	}
	return "path " + o.Path
}

// slimPart makes a part slim, if that can be done.
func (pl *Plan) slimPart(it *item, p *part, needs map[string]*need) {
	x, err := objfile.Open(p.file.ReaderAt, p.file.Size, p.file.Origin, decode.NewBudget(pl.o.Limits))
	if err != nil || x.Size() != p.file.Size {
		return
	}
	// The debug file of an object that the recording has no id of has one.
	n := needs["id "+string(it.id)]
	if n == nil || it.id == "" {
		n = needs["path "+it.path]
	}
	if n != nil && n.all {
		return
	}
	o := objfile.SlimOptions{AllCode: true, AllDebug: true, More: p.trace.spans(), Again: pl.o.SlimAgain}
	if n != nil && it.kind == profile.KindFile {
		o.AllCode = false
		o.Code = n.code
		if p.kind == store.Debug {
			o.Code = nil // it has none
		}
		if addrs, ok := pl.linkAddresses(it, p, x, n.offsets); ok {
			o.AllDebug, o.Addrs = false, addrs
		}
	}
	z, err := x.Slim(o)
	if err != nil {
		return
	}
	p.original = p.file.ReaderAt
	p.slim = z
	p.file = slimFile(p.file, z)
}

// linkAddresses turns offsets in the file that was mapped into addresses of
// the debug information in x, which is that of p.
func (pl *Plan) linkAddresses(it *item, p *part, x *objfile.File, offsets []uint64) (addrs []uint64, ok bool) {
	runtime, distance := x, uint64(0)
	if p.kind == store.Debug {
		main := pl.mainPart(it)
		if main == nil {
			return nil, false
		}
		r := main.file.ReaderAt
		if main.original != nil {
			r = main.original
		}
		f, err := objfile.Open(r, main.file.Size, main.file.Origin, decode.NewBudget(pl.o.Limits))
		if err != nil {
			return nil, false
		}
		if distance, ok = x.Moved(f); !ok {
			return nil, false
		}
		runtime = f
	}
	for _, off := range offsets {
		if a, ok := runtime.Address(off); ok {
			addrs = append(addrs, a-distance)
		}
	}
	return addrs, true
}

// mainPart returns the file that it is the debug file of, nil if it is not in
// the plan.
func (pl *Plan) mainPart(it *item) *part {
	for _, x := range pl.items {
		if x != it && (x.path != it.path || x.extra) {
			continue
		}
		for _, p := range x.parts {
			if p.kind == store.ELF {
				return p
			}
		}
	}
	return nil
}

// slimFile returns a file with zeros in place of all that is not kept, and
// the mark of a slim copy.
func slimFile(f *store.File, z *objfile.Slimming) *store.File {
	c := *f
	c.ReaderAt = &slimReader{f.ReaderAt, f.Size, z}
	return &c
}

// A slimReader reads a file as its slim copy.
type slimReader struct {
	r    io.ReaderAt
	size int64
	z    *objfile.Slimming
}

func (s *slimReader) ReadAt(b []byte, off int64) (int, error) {
	return s.z.ReadAt(s.r, s.size, b, off)
}

// maxTrace is the longest read that a trace notes, in bytes: longer ones are of
// whole sections, which are kept by their names.
const maxTrace = 256 << 10

// A trace notes which parts of a file were read.
type trace struct {
	r    io.ReaderAt
	mu   sync.Mutex
	list []objfile.Span
}

func (t *trace) ReadAt(b []byte, off int64) (int, error) {
	n, err := t.r.ReadAt(b, off)
	if n > 0 && n <= maxTrace {
		t.mu.Lock()
		t.list = append(t.list, objfile.Span{Start: off, End: off + int64(n)})
		t.mu.Unlock()
	}
	return n, err
}

func (t *trace) spans() []objfile.Span {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.list
}

// An itemSource serves the files of a plan before they are read, and notes
// what is read of them.
type itemSource struct{ pl *Plan }

// Get opens a file of the plan. Of several with one id it is that with the
// path.
func (s itemSource) Get(ctx context.Context, k store.Key) (*store.File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	kind := k.Kind
	if kind == store.Split {
		kind = store.ELF
	}
	var found *part
	var of *item
	for _, it := range s.pl.items {
		switch {
		case k.Kind == store.PerfMap && it.pid != k.PID,
			k.Kind != store.PerfMap && k.ID != "" && !it.id.Match(k.ID),
			k.Kind != store.PerfMap && k.ID == "" && it.path != k.Path:
			continue
		}
		for _, p := range it.parts {
			if p.kind == kind && (found == nil || it.path == k.Path) {
				found, of = p, it
			}
		}
	}
	if found == nil {
		return nil, fmt.Errorf("plan: no %v: %w", k, fs.ErrNotExist)
	}
	f := &store.File{
		ReaderAt: found.file.ReaderAt, Size: found.file.Size, Origin: found.file.Origin, Info: found.file.Info,
		Unverified: of.unverified && k.Kind != store.PerfMap, Bound: of.path == k.Path,
		Close: func() error { return nil },
	}
	if found.trace != nil {
		f.ReaderAt = found.trace
	}
	return f, nil
}

// fingerprintSeed is that of all fingerprints of a run.
var fingerprintSeed = maphash.MakeSeed()

// fingerprints returns a hash of what is known of each location.
func fingerprints(p *profile.Profile) []uint64 {
	sums := make([]uint64, len(p.Locations))
	funcs := make([]uint64, len(p.Functions))
	var buf []byte
	for i := range p.Functions {
		f := &p.Functions[i]
		buf = append(buf[:0], f.Name...)
		buf = append(buf, 0)
		buf = append(buf, f.Linkage...)
		buf = append(buf, 0)
		buf = binary.LittleEndian.AppendUint64(buf, f.Start)
		buf = binary.LittleEndian.AppendUint64(buf, f.End)
		funcs[i] = maphash.Bytes(fingerprintSeed, buf)
	}
	fn := func(b []byte, i int32) []byte {
		if i < 0 {
			return append(b, 0)
		}
		return binary.LittleEndian.AppendUint64(append(b, 1), funcs[i])
	}
	for i := range p.Locations {
		l := &p.Locations[i]
		buf = fn(buf[:0], l.Func)
		for _, f := range p.FramesOf(l) {
			buf = fn(buf, f.Func)
			if f.File >= 0 {
				buf = append(buf, p.Files[f.File]...)
			}
			buf = binary.LittleEndian.AppendUint32(append(buf, 0), uint32(f.Line))
		}
		sums[i] = maphash.Bytes(fingerprintSeed, buf)
	}
	return sums
}

// unslim makes those files whole again from which the profile, as it was
// resolved last, reads otherwise than from the whole ones. It reports whether
// there were any.
func (pl *Plan) unslim() bool {
	now := fingerprints(pl.profile)
	differ := map[string]bool{}
	for i, sum := range now {
		if o := pl.profile.Locations[i].Object; o >= 0 && sum != pl.whole[i] {
			differ[pl.needKey(int(o))] = true
		}
	}
	any := false
	for _, it := range pl.items {
		if !differ["path "+it.path] && (it.id == "" || !differ["id "+string(it.id)]) {
			continue
		}
		for _, p := range it.parts {
			if p.slim != nil {
				p.file = whole(p)
				p.original, p.slim, p.reading = nil, nil, reading{}
				any = true
			}
		}
	}
	return any
}

// whole returns the file of a part as it was before it was made slim.
func whole(p *part) *store.File {
	if p.slim == nil {
		return p.file
	}
	c := *p.file
	c.ReaderAt = p.original
	return &c
}
