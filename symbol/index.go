package symbol

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/perfark/perfark/index"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/store"
)

// worthKeeping is how long the look-ups of an object must have taken for what
// they found to be kept. Writing an index takes a few milliseconds too.
const worthKeeping = 10 * time.Millisecond

// An indexes is what is known of an object from earlier, and what is learned
// now. The zero value knows nothing and keeps nothing.
type indexes struct {
	keeper  Indexes
	id      index.Identity // of the files at hand; no ID if nothing can be kept
	list    []*index.File
	close   []*store.File
	all     bool
	shift   uint64 // the addresses of the index are those of the locations and shift more
	broken  bool   // an index is damaged and should be replaced
	symbols bool   // task.listed is what the files say
	lines   bool   // and so are the frames
	framed  []bool // by task.locs: an index had the frames
}

// openIndexes opens the indexes of an object: that of the cache, and that
// which the Source has, such as an archive. They are used if they were made
// from the files at hand, or from better ones of the same program, or if there
// are no files; err says why then.
func (r *resolver) openIndexes(ctx context.Context, t *task, obj *profile.Object, files []objectFile, err error) *indexes {
	x := &indexes{keeper: r.o.Index, all: r.o.IndexAll}
	want := index.Identity{ID: obj.BuildID}
	if len(files) > 0 {
		want.ID = files[0].f.BuildID()
		var in []index.Input
		for _, of := range files {
			in = append(in, index.Input{ReaderAt: of.sf, Size: of.sf.Size})
			want.Quality = max(want.Quality, of.f.Quality())
		}
		sum, ferr := index.Fingerprint(in...)
		if ferr != nil || want.ID == "" {
			return x
		}
		want.Sources = sum
		if !files[0].f.DebugOnly() {
			want.Layout = files[0].f.Layout()
			x.id = want
		}
	} else if why, _ := reason(err, obj); want.ID == "" || why != NotFound && why != Mismatch && why != Deleted {
		return x
	}
	use := func(f *index.File) bool {
		if !f.Serves(want) {
			f.Close()
			return false
		}
		x.list = append(x.list, f)
		return true
	}
	if r.o.Index != nil {
		f, err := r.o.Index.Get(want.ID)
		x.broken = errors.Is(err, index.ErrDamaged)
		if err == nil && use(f) && f.Quality > want.Quality {
			// What is learned belongs to the better files too: a symbol table
			// has the same names in all copies that have one.
			x.id = index.Identity{}
			if want.Quality >= objfile.Symtab && !r.wantLines() {
				x.id = f.Identity
			}
		}
	}
	if !r.o.FilesOnly {
		if sf, err := r.get(ctx, store.Key{ID: want.ID, Kind: store.Index, Path: obj.Path}); err == nil {
			x.close = append(x.close, sf)
			f, err := index.Open(sf, sf.Size)
			if err != nil {
				t.out.Warnings = append(t.out.Warnings, sf.Origin+": not used: "+err.Error())
			} else {
				use(f)
			}
		}
	}
	if len(files) == 0 && len(x.list) > 0 {
		t.out.Origins = append(t.out.Origins, "index")
		for _, f := range x.list {
			t.out.Quality = max(t.out.Quality, f.Quality)
		}
	}
	return x
}

// keeps reports whether what is learned can be kept.
func (x *indexes) keeps() bool { return x.keeper != nil && x.id.ID != "" }

// Close closes the indexes.
func (x *indexes) Close() {
	for _, f := range x.list {
		f.Close()
	}
	for _, f := range x.close {
		closeFile(f)
	}
}

// damaged notes that an index failed while it was read. It is asked nothing
// any more.
func (x *indexes) damaged(i int) {
	x.list[i].Close()
	x.list = append(x.list[:i:i], x.list[i+1:]...)
	x.broken = true
}

// namesKnown names those locations of t that the indexes know, and returns the
// addresses of the others.
func (x *indexes) namesKnown(p *profile.Profile, t *task, addrs []uint64) []uint64 {
	if len(x.list) == 0 {
		return addrs
	}
	for i := 0; i < len(x.list); i++ {
		if err := x.names(x.list[i], p, t); err != nil {
			x.damaged(i)
			i--
		}
	}
	rest := addrs[:0:0]
	for n, a := range addrs {
		if !t.done[n] {
			rest = append(rest, a)
		}
	}
	return rest
}

// names names those locations of t that an index knows.
func (x *indexes) names(f *index.File, p *profile.Profile, t *task) error {
	refs := make([]uint32, len(t.locs)) // one more than what FindSymbol says
	funcs := make([]int32, f.Symbols()+1)
	number := int32(0)
	for n, l := range t.locs {
		if t.done[n] {
			continue
		}
		ref, ok, err := f.FindSymbol(p.Locations[l].Addr + x.shift)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if int64(ref) >= int64(len(funcs)) {
			_, err := f.Symbol(ref)
			return err
		}
		refs[n] = ref + 1
		if ref != 0 && funcs[ref] == 0 {
			number++
			funcs[ref] = number
		}
	}
	first := len(t.funcs) == 0
	if first {
		t.funcs = make([]profile.Function, 0, number+number/8)
	}
	clear(funcs)
	for n, ref := range refs {
		switch {
		case ref == 0:
			continue
		case ref == 1:
			t.named[n], t.done[n] = profile.None, true
			continue
		}
		fn := &funcs[ref-1] // one more than the index
		if *fn == 0 {
			s, err := f.Symbol(ref - 1)
			if err != nil {
				return err
			}
			*fn = t.symbol(s, x.shift, first) + 1
		}
		t.named[n], t.done[n] = *fn-1, true
	}
	return nil
}

// symbol returns the function of a symbol of an index, whose addresses are
// those of the locations and shift more. fresh says that t has no function yet
// that it could be.
func (t *task) symbol(s index.Symbol, shift uint64, fresh bool) int32 {
	k := funcKey{linkage: s.Linkage, start: s.Start - shift}
	if !fresh {
		if fn, ok := t.lookup(k); ok {
			return fn
		}
	}
	return t.add(profile.Function{Object: t.object, Name: s.Name, Linkage: s.Linkage, Start: s.Start - shift, End: s.End - shift})
}

// framesKnown gives those locations of t their frames that the indexes know.
func (x *indexes) framesKnown(p *profile.Profile, t *task) {
	if len(x.list) > 0 && t.frames == nil {
		t.frames = make([]profile.Frame, 0, len(t.locs)+len(t.locs)/4)
	}
	before := slices.Clone(t.framed)
	for i := 0; i < len(x.list); i++ {
		k := knower{f: x.list[i], shift: x.shift, inlined: map[recordKey]int32{}}
		for n := range t.locs {
			if t.framed[n] {
				continue
			}
			if err := k.frames(p, t, n); err != nil {
				x.damaged(i)
				i--
				break
			}
		}
	}
	if t.framed != nil {
		x.framed = slices.Clone(t.framed)
		for n, was := range before {
			x.framed[n] = x.framed[n] && !was
		}
	}
}

// A knower gives the frames of an index to locations. It remembers which strings
// it has looked at: there are few, and many frames.
type knower struct {
	f       *index.File
	shift   uint64
	buf     []index.Record
	inlined map[recordKey]int32
	files   map[uint32]int32 // by number of the string
	file    uint32           // the last of files
	number  int32
}

// A recordKey is an inlineKey with the number of a string.
type recordKey struct {
	name  uint32
	outer int32
}

// frames gives location n of t its frames, if the index knows them. It does
// what setFrames does.
func (k *knower) frames(p *profile.Profile, t *task, n int) error {
	ref, ok, err := k.f.FindFrames(t.at[n] + k.shift)
	if err != nil || !ok {
		return err
	}
	if k.buf, err = k.f.Records(ref, k.buf[:0]); err != nil {
		return err
	}
	t.framed[n] = true
	if len(k.buf) == 0 {
		return nil
	}
	first := len(t.frames)
	says, err := k.add(p, t, n)
	if err != nil || !says {
		t.frames = t.frames[:first]
		t.framed[n] = err == nil
		return err
	}
	t.spans[n] = span{int32(first), uint16(len(k.buf))}
	return nil
}

// add appends the frames of location n to t.frames. says is false if they have
// neither a name nor a line.
func (k *knower) add(p *profile.Profile, t *task, n int) (says bool, err error) {
	outer := &k.buf[len(k.buf)-1]
	if t.named[n] == profile.None {
		f, err := k.frame(outer)
		if err != nil {
			return false, err
		}
		if f.name != "" {
			t.named[n] = t.unlisted(p, n, f)
		}
	}
	for i := range k.buf {
		r := &k.buf[i]
		fn := t.named[n]
		if i < len(k.buf)-1 {
			if fn, err = k.function(t, r, fn); err != nil {
				return false, err
			}
		}
		file, err := k.source(t, r.File)
		if err != nil {
			return false, err
		}
		t.frames = append(t.frames, profile.Frame{Func: fn, File: file, Line: line(int(r.Line))})
		if !says && r.Line == 0 {
			name, err := k.f.String(r.Linkage)
			if err != nil {
				return false, err
			}
			says = name != ""
		}
		says = says || r.Line != 0
	}
	return says, nil
}

// frame returns a frame of the index but for its file.
func (k *knower) frame(r *index.Record) (*frame, error) {
	f := &frame{mangled: r.Mangled, line: line(int(r.Line))}
	if r.Start != 0 {
		f.start = r.Start - k.shift
	}
	var err error
	if f.name, err = k.f.String(r.Linkage); err == nil {
		f.printed, err = k.f.String(r.Name)
	}
	return f, err
}

// function returns the function of a frame that was inlined into outer.
func (k *knower) function(t *task, r *index.Record, outer int32) (int32, error) {
	key := recordKey{r.Linkage, outer}
	fn, ok := k.inlined[key]
	if !ok {
		f, err := k.frame(r)
		if err != nil {
			return profile.None, err
		}
		fn = t.inlined(f, outer)
		k.inlined[key] = fn
	}
	return fn, nil
}

// source returns the number of a source file in t.files.
func (k *knower) source(t *task, name uint32) (int32, error) {
	if k.files != nil && name == k.file {
		return k.number, nil
	}
	n, ok := k.files[name]
	if !ok {
		s, err := k.f.String(name)
		if err != nil {
			return profile.None, err
		}
		if k.files == nil {
			k.files = map[uint32]int32{}
		}
		n = t.file(s)
		k.files[name] = n
	}
	k.file, k.number = name, n
	return n, nil
}

// keep keeps what was learned beyond the indexes, if it took long enough to
// find out.
func (x *indexes) keep(p *profile.Profile, t *task, took time.Duration) {
	if !x.keeps() || took < worthKeeping && !x.all && !x.broken {
		return
	}
	b := &index.Builder{}
	for n, l := range t.locs {
		if t.done[n] || !x.symbols {
			continue
		}
		addr := p.Locations[l].Addr
		var s *index.Symbol
		if fn := t.listed[n]; fn != profile.None {
			f := &t.funcs[fn]
			s = &index.Symbol{Name: f.Name, Linkage: f.Linkage, Start: f.Start, End: f.End}
		}
		b.Symbol(addr, addr+1, s)
	}
	if x.lines && t.answers != nil {
		var list []index.Frame
		for n := range t.locs {
			if !t.framed[n] || x.framed[n] {
				continue
			}
			a := &t.answers[n]
			list = list[:0]
			for i := range a.frames {
				f := &a.frames[i]
				y := index.Frame{Name: f.printed, Linkage: f.name, Mangled: f.mangled, File: f.file, Line: uint32(f.line)}
				if !f.mangled {
					y.Name = f.name
				}
				if f.start != 0 {
					y.Start = f.start + x.shift
				}
				list = append(list, y)
			}
			b.Frames(a.lo+x.shift, a.hi+x.shift, list)
		}
	}
	if b.Len() == 0 {
		return
	}
	for _, f := range x.list {
		if f.Identity == x.id {
			b.Merge(f) // what is damaged in it is left out
		}
	}
	x.keeper.Put(x.id, b) // without, it takes as long the next time
}
