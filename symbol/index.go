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
	for i := 0; i < len(x.list); i++ {
		f := x.list[i]
		funcs := map[uint32]int32{0: profile.None}
		for n, l := range t.locs {
			if t.done[n] {
				continue
			}
			ref, ok, err := f.FindSymbol(p.Locations[l].Addr + x.shift)
			if err == nil && ok {
				fn, seen := funcs[ref]
				if !seen {
					var s index.Symbol
					if s, err = f.Symbol(ref); err == nil {
						fn = t.symbol(s)
						funcs[ref] = fn
					}
				}
				if err == nil {
					t.named[n], t.done[n] = fn, true
				}
			}
			if err != nil {
				x.damaged(i)
				i--
				break
			}
		}
	}
	if len(x.list) == 0 {
		return addrs
	}
	rest := addrs[:0:0]
	for n, a := range addrs {
		if !t.done[n] {
			rest = append(rest, a)
		}
	}
	return rest
}

// symbol returns the function of a symbol.
func (t *task) symbol(s index.Symbol) int32 {
	k := funcKey{linkage: s.Linkage, start: s.Start, outer: profile.None}
	fn, ok := t.byKey[k]
	if !ok {
		fn = t.add(k, profile.Function{Object: t.object, Name: s.Name, Linkage: s.Linkage, Start: s.Start, End: s.End})
	}
	return fn
}

// framesKnown gives those locations of t their frames that the indexes know.
func (x *indexes) framesKnown(p *profile.Profile, t *task) {
	var buf []index.Frame
	var list []frame
	for i := 0; i < len(x.list); i++ {
		f := x.list[i]
		for n := range t.locs {
			if t.framed[n] {
				continue
			}
			ref, ok, err := f.FindFrames(t.at[n] + x.shift)
			if err == nil && ok {
				if buf, err = f.Frames(ref, buf[:0]); err == nil {
					list = list[:0]
					for _, y := range buf {
						z := frame{name: y.Linkage, mangled: y.Mangled, printed: y.Name, file: y.File, line: line(int(y.Line))}
						if y.Start != 0 {
							z.start = y.Start - x.shift
						}
						list = append(list, z)
					}
					t.setFrames(p, n, list)
					t.framed[n] = true
				}
			}
			if err != nil {
				x.damaged(i)
				i--
				break
			}
		}
	}
	if t.framed != nil {
		x.framed = slices.Clone(t.framed)
	}
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
