package symbol

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/perfark/perfark/dwarf"
	"github.com/perfark/perfark/internal/crew"
	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/store"
)

// A frame is a function at an address, and the line there.
type frame struct {
	name    string
	mangled bool   // name is as in the symbol table
	printed string // name as it is printed, if that is known already
	start   uint64 // where the function with the code begins, 0 if unknown: at link time, in a task as its locations
	file    string
	line    int32
}

// A lineSource knows what the compiler put at an address. It is asked from
// several goroutines.
type lineSource interface {
	// frames appends to buf what is at a link-time address, innermost first,
	// the function that the machine code belongs to last; nothing if it does
	// not know the address.
	frames(addr uint64, buf []frame) ([]frame, error)
}

// An extenter is a lineSource that knows for which addresses around one it says
// the same.
type extenter interface {
	extent(addr uint64) (lo, hi uint64)
}

// An orderer is a lineSource that says in which order it is best asked: that of
// the numbers.
type orderer interface {
	order(addr uint64) int
}

// dwarfLines are those of debug information.
type dwarfLines struct {
	data  *dwarf.Data
	moved uint64 // see objectFile
	bufs  sync.Pool
}

func (d *dwarfLines) frames(addr uint64, buf []frame) ([]frame, error) {
	b, _ := d.bufs.Get().(*[]dwarf.Frame)
	if b == nil {
		b = new([]dwarf.Frame)
	}
	defer d.bufs.Put(b)
	list, err := d.data.Frames(addr-d.moved, (*b)[:0])
	*b = list
	for i := range list {
		f := &list[i]
		buf = append(buf, frame{name: f.Name, mangled: f.Linkage, start: f.Start + d.moved, file: f.File, line: line(f.Line)})
	}
	return buf, err
}

func (d *dwarfLines) extent(addr uint64) (lo, hi uint64) {
	lo, hi = d.data.Extent(addr - d.moved)
	return lo + d.moved, hi + d.moved
}

func (d *dwarfLines) order(addr uint64) int { return d.data.Order(addr - d.moved) }

// goLines are those of a Go program's own table.
type goLines struct{ table *objfile.GoTable }

func (g goLines) frames(addr uint64, buf []frame) ([]frame, error) {
	list, err := g.table.Frames(addr, nil)
	for i := range list {
		f := &list[i]
		buf = append(buf, frame{name: f.Name, start: f.Start, file: f.File, line: line(f.Line)})
	}
	return buf, err
}

func line(n int) int32 {
	if n < 0 || n > math.MaxInt32 {
		return 0
	}
	return int32(n)
}

// lineSources asks one source after the other.
type lineSources []lineSource

func (s lineSources) frames(addr uint64, buf []frame) ([]frame, error) {
	var first error
	n := len(buf)
	for _, x := range s {
		out, err := x.frames(addr, buf)
		if len(out) > n && (err == nil || known(out[n:])) {
			return out, nil
		}
		first = cmp.Or(first, err)
		buf = out[:n]
	}
	return buf, first
}

// extent is that of the first source, which is the one that answers where it
// knows more than the address.
func (s lineSources) extent(addr uint64) (lo, hi uint64) {
	if x, ok := s[0].(extenter); ok {
		return x.extent(addr)
	}
	return addr, addr + 1
}

// order is that of the first source.
func (s lineSources) order(addr uint64) int {
	if x, ok := s[0].(orderer); ok {
		return x.order(addr)
	}
	return 0
}

// known reports whether one of the frames says anything.
func known(list []frame) bool {
	return slices.ContainsFunc(list, func(f frame) bool { return f.name != "" || f.line != 0 })
}

// An opened is the debug information of an object, and what was opened for it.
type opened struct {
	lines    lineSources
	data     *dwarf.Data // nil if there is no DWARF
	warnings []string
	mu       sync.Mutex
	close    []*store.File
	missing  []missingPart // files that the debug information lies in, too
	splits   map[string]*splitFile
}

// A splitFile is a .dwo or .dwp file, opened once for all units in it.
type splitFile struct {
	once sync.Once
	data *dwarf.Data
	err  error
}

// split returns the file at a path, which open opens.
func (o *opened) split(at string, open func() (*dwarf.Data, error)) (*dwarf.Data, error) {
	o.mu.Lock()
	s := o.splits[at]
	if s == nil {
		if o.splits == nil {
			o.splits = map[string]*splitFile{}
		}
		s = &splitFile{}
		o.splits[at] = s
	}
	o.mu.Unlock()
	s.once.Do(func() { s.data, s.err = open() })
	return s.data, s.err
}

// A missingPart is a file that debug information refers to and that was not
// found.
type missingPart struct {
	reason Reason // NoShared or NoSplit
	path   string
}

func (o *opened) add(f *store.File) {
	o.mu.Lock()
	o.close = append(o.close, f)
	o.mu.Unlock()
}

const maxMissingParts = 16

func (o *opened) miss(r Reason, path string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.missing) < maxMissingParts {
		o.missing = append(o.missing, missingPart{r, path})
	}
}

// Close closes the files that were opened on the way. The debug information
// must not be used after.
func (o *opened) Close() {
	for _, f := range o.close {
		closeFile(f)
	}
}

// openLines adds the table of a Go program to the debug information.
func openLines(t *task, o *opened, g *goTable) *opened {
	t.out.Warnings = append(t.out.Warnings, o.warnings...)
	if table := g.get(t); table != nil {
		o.lines = append(o.lines, goLines{table})
	}
	return o
}

// openDWARF opens the debug information of an object: that of the best of its
// files, with what it shares with others (dwz) and what was split off. The
// first file is the one that was mapped. space is where the addresses of a
// relocatable file begin. Files that have none are passed over. It changes
// nothing in the files.
func (r *resolver) openDWARF(ctx context.Context, obj *profile.Object, files []objectFile, space objfile.Space, b *decode.Budget) *opened {
	o := &opened{}
	for _, of := range files {
		data, err := of.f.DWARF(r.dwarfOptions(ctx, o, obj, of, files[0].f, space, b))
		if err != nil {
			if !errors.Is(err, dwarf.ErrNoInfo) {
				o.warnings = append(o.warnings, err.Error())
			}
			continue
		}
		o.data = data
		o.lines = append(o.lines, &dwarfLines{data: data, moved: of.moved})
		break
	}
	return o
}

// cacheBytes bounds what is kept of the units of an object that were read, in
// bytes.
const cacheBytes = 64 << 20

// dwarfOptions says where the debug information of a file goes on.
func (r *resolver) dwarfOptions(ctx context.Context, o *opened, obj *profile.Object, of objectFile, runtime *objfile.File, space objfile.Space, b *decode.Budget) objfile.DWARFOptions {
	return objfile.DWARFOptions{
		Runtime:    runtime,
		Space:      space,
		CacheBytes: cacheBytes, // lookUp asks in order
		Sum:        r.o.SourceSum,
		Alt:        func() (*dwarf.Data, error) { return r.openAlt(ctx, o, obj, of, b) },
		Split:      func(u dwarf.SplitUnit) (*dwarf.Data, error) { return r.openSplit(ctx, o, obj, of, u, b) },
	}
}

// lines gives the locations of an object that is an ELF file their frames. The
// first of files is the one that was mapped. open opens the debug information.
func (r *resolver) lines(ctx context.Context, t *task, open func() *opened, files []objectFile, g *goTable, x *indexes) {
	t.at = make([]uint64, len(t.locs))
	for n := range t.at {
		t.at[n] = t.codeAddr(r.p, n)
	}
	if r.o.SourceSum == nil || len(files) == 0 {
		x.framesKnown(r.p, t)
	} else {
		// No index has checksums of source files: it is asked last.
		defer func() {
			x.framesKnown(r.p, t)
			if !slices.Contains(t.framed, false) {
				t.out.LineReason = ""
			}
		}()
	}
	t.keeps = x.keeps()
	if !slices.Contains(t.framed, false) || len(files) == 0 {
		return
	}
	f := files[0].f
	if f.DebugOnly() {
		return // nothing places its code
	}
	o := openLines(t, open(), g)
	if len(o.lines) == 0 {
		t.out.LineReason = NoDebugInfo
		return
	}
	r.lookUp(ctx, t, o.lines, f.Address, f.FileOffset)
	t.lineOutcome(o)
	x.lines = len(o.missing) == 0
}

// kernelLines gives the locations of a kernel image or a module their frames,
// if lines are wanted. The addresses in the files are those of the locations
// and shift more.
func (r *resolver) kernelLines(ctx context.Context, t *task, obj *profile.Object, files []objectFile, shift uint64, space objfile.Space) {
	if !r.wantLines() {
		return
	}
	start := time.Now()
	t.listed = slices.Clone(t.named)
	t.at = make([]uint64, len(t.locs))
	for n := range t.at {
		t.at[n] = t.codeAddr(r.p, n)
	}
	x := r.openIndexes(ctx, t, obj, files, nil)
	defer x.Close()
	x.shift = shift
	x.framesKnown(r.p, t)
	t.keeps = x.keeps()
	if !slices.Contains(t.framed, false) {
		return
	}
	b := decode.NewBudget(r.o.Limits)
	o := r.openDWARF(ctx, obj, files, space, b)
	defer o.Close()
	t.out.Warnings = append(t.out.Warnings, o.warnings...)
	if len(o.lines) == 0 {
		t.out.LineReason = NoDebugInfo
		return
	}
	forth := func(a uint64) (uint64, bool) { return a + shift, true }
	back := func(a uint64) (uint64, bool) { return a - shift, a != 0 }
	r.lookUp(ctx, t, o.lines, forth, back)
	t.lineOutcome(o)
	x.lines = len(o.missing) == 0
	x.keep(r.p, t, time.Since(start))
}

// moduleLines gives the locations of a kernel module their frames, if lines
// are wanted: from its file and its separate debug file, whose code the kernel
// lays out in a known way.
func (r *resolver) moduleLines(ctx context.Context, t *task, obj *profile.Object) {
	if !r.wantLines() || obj.BuildID == "" || obj.Start == 0 {
		return
	}
	b := decode.NewBudget(r.o.Limits)
	f, sf, err := r.open(ctx, key(obj, store.ELF), b)
	if err != nil || f.Type() != objfile.TypeRel {
		closeFile(sf)
		t.out.LineReason = NoDebugInfo
		return
	}
	defer closeFile(sf)
	files := []objectFile{{f, sf, 0}}
	if f.Quality() < objfile.FullDWARF {
		if d, df, err := r.open(ctx, key(obj, store.Debug), b); err == nil {
			defer closeFile(df)
			files = append(files, objectFile{d, df, 0})
		}
	}
	r.kernelLines(ctx, t, obj, files, -obj.Start, objfile.Loaded)
}

// A goTable is the table of a Go program, read when it is needed.
type goTable struct {
	f     *objfile.File // nil if there is none
	table *objfile.GoTable
	once  sync.Once
}

// get returns the table, nil if there is none.
func (g *goTable) get(t *task) *objfile.GoTable {
	if g.f == nil || !g.f.IsGo() {
		return nil
	}
	g.once.Do(func() {
		var err error
		g.table, err = g.f.GoTable()
		if err != nil && !errors.Is(err, objfile.ErrNoGoTable) {
			t.out.Warnings = append(t.out.Warnings, err.Error())
		}
	})
	return g.table
}

// lineOutcome says what was missing of the debug information o.
func (t *task) lineOutcome(o *opened) {
	if o.data != nil {
		t.out.Warnings = append(t.out.Warnings, o.data.Warnings()...)
	}
	switch {
	case len(o.missing) > 0:
		m := o.missing[0]
		t.out.LineReason, t.out.LineDetail = m.reason, m.path
		if n := len(o.missing); n > 1 {
			t.out.LineDetail += fmt.Sprintf(" and %d more", n-1)
		}
	case o.data == nil || t.lineErr != nil:
	case len(t.frames) > 0 && !slices.ContainsFunc(t.spans, func(s span) bool { return s.n > 0 && t.frames[s.at].Line > 0 }):
		t.out.LineReason = NoLineTable
	}
}

// openAlt opens the file that debug information shares with others. That file
// cannot share anything in turn: two that name each other would never end.
func (r *resolver) openAlt(ctx context.Context, o *opened, obj *profile.Object, of objectFile, b *decode.Budget) (*dwarf.Data, error) {
	name, id, ok := of.f.Altlink()
	if !ok {
		return nil, fmt.Errorf("%s: %w", of.sf.Origin, fs.ErrNotExist)
	}
	if r.o.Source == nil || id == "" {
		o.miss(NoShared, name)
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	sf, err := store.Altlink(ctx, r.o.Source, of.sf, obj.Path, name, id)
	if err != nil {
		o.miss(NoShared, name)
		return nil, err
	}
	o.add(sf)
	f, err := objfile.Open(sf, sf.Size, sf.Origin, b)
	if err != nil {
		return nil, err
	}
	return f.DWARF(objfile.DWARFOptions{})
}

// openSplit opens the .dwo or .dwp file that holds the rest of a unit: the
// first that has a unit of its id.
func (r *resolver) openSplit(ctx context.Context, o *opened, obj *profile.Object, of objectFile, u dwarf.SplitUnit, b *decode.Budget) (*dwarf.Data, error) {
	for _, at := range SplitPlaces(obj.Path, of.sf.Origin, u) {
		d, err := o.split(at, func() (*dwarf.Data, error) {
			sf, err := r.get(ctx, store.Key{Kind: store.Split, Path: at})
			if err != nil {
				return nil, err
			}
			o.add(sf)
			f, err := objfile.Open(sf, sf.Size, sf.Origin, b)
			if err != nil {
				return nil, err
			}
			return f.DWARF(objfile.DWARFOptions{DWO: true, Sum: r.o.SourceSum})
		})
		if err == nil && d.HasUnit(u.ID) {
			return d, nil
		}
	}
	o.miss(NoSplit, splitName(u))
	return nil, fmt.Errorf("%s: %w", splitName(u), fs.ErrNotExist)
}

// splitName returns the path of a .dwo file as the compiler meant it.
func splitName(u dwarf.SplitUnit) string {
	if path.IsAbs(u.Name) || u.CompDir == "" {
		return u.Name
	}
	return path.Join(u.CompDir, u.Name)
}

// SplitPlaces returns where the rest of a unit of an object may be, the likeliest
// first: in a package beside the object or its debug file (origin), where the
// compiler wrote it, or beside the object. All are absolute paths.
func SplitPlaces(object, origin string, u dwarf.SplitUnit) []string {
	var out []string
	add := func(p string) {
		if path.IsAbs(p) && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	add(object + ".dwp")
	add(origin + ".dwp")
	add(splitName(u))
	for _, p := range [...]string{object, origin} {
		add(path.Join(path.Dir(p), u.Name))
		add(path.Join(path.Dir(p), path.Base(u.Name)))
	}
	return out
}

// lookUp asks a source about the locations of t that are still without
// frames, in the order that it likes and on several cores.
func (r *resolver) lookUp(ctx context.Context, t *task, src lineSource, link, unlink func(addr uint64) (uint64, bool)) {
	todo := make([]int32, 0, len(t.locs))
	for n := range t.locs {
		if !t.framed[n] {
			todo = append(todo, int32(n))
		}
	}
	asked := todo
	if s, ok := src.(orderer); ok {
		by := make([]int, len(t.locs))
		for _, n := range todo {
			if at, ok := link(t.at[n]); ok {
				by[n] = s.order(at)
			}
		}
		asked = slices.Clone(todo)
		slices.SortFunc(asked, func(a, b int32) int { return cmp.Or(cmp.Compare(by[a], by[b]), cmp.Compare(a, b)) })
	}
	got := make([][]frame, len(t.locs))
	ext, _ := src.(extenter)
	if t.keeps {
		t.answers = make([]answer, len(t.locs))
	}
	errs := make([]error, len(t.locs))
	const least = 64 // addresses that are worth a worker
	parts := max(1, min(r.workers(), len(todo)/least))
	var wg crew.Group
	for part := range parts {
		list := asked[len(asked)*part/parts : len(asked)*(part+1)/parts]
		wg.Go(func() {
			var buf []frame
			printed := map[string]string{}
			for _, n := range list {
				if ctx.Err() != nil {
					return
				}
				at, ok := link(t.at[n])
				if !ok {
					continue
				}
				var err error
				buf, err = src.frames(at, buf[:0])
				for i := range buf {
					f := &buf[i]
					f.start, _ = unlink(f.start)
					if !f.mangled || i == len(buf)-1 && t.listed[n] != profile.None {
						continue // it has the symbol's name
					}
					s, ok := printed[f.name]
					if !ok {
						s = objfile.Demangle(f.name)
						printed[f.name] = s
					}
					f.printed = s
				}
				got[n], errs[n] = slices.Clone(buf), err
				if t.keeps {
					t.answers[n] = answerAt(t.at[n], at, ext, unlink, got[n])
				}
			}
		})
	}
	wg.Wait()
	for _, n := range todo {
		if errs[n] != nil {
			t.failed(errs[n])
			continue
		}
		t.framed[n] = true
		t.setFrames(r.p, int(n), got[n])
	}
}

// An answer is what a source says of a range of addresses, in those of the
// locations, as it is kept in an index.
type answer struct {
	lo, hi uint64
	frames []frame
}

// answerAt returns the answer of a source for the address at, link when linked.
func answerAt(at, link uint64, ext extenter, unlink func(addr uint64) (uint64, bool), frames []frame) answer {
	a := answer{at, at + 1, frames}
	if ext == nil || len(frames) == 0 {
		return a
	}
	lo, hi := ext.extent(link)
	// The range is one in the locations' addresses too if it lies in one segment.
	first, ok1 := unlink(lo)
	last, ok2 := unlink(hi - 1)
	if ok1 && ok2 && first == lo-link+at && last == hi-1-link+at {
		a.lo, a.hi = first, last+1
	}
	return a
}

// failed keeps the first error of a look-up: the others mostly say the same.
func (t *task) failed(err error) {
	if t.lineErr == nil {
		t.lineErr = err
		t.out.Warnings = append(t.out.Warnings, err.Error())
	}
}

// codeAddr returns the address of location n for lines and inlined functions.
// A caller's address is where it goes on after the call, which may be another
// line, or another function if the call does not return: what it was doing is
// in front of that. The function that the symbol table has at the address is
// never left.
func (t *task) codeAddr(p *profile.Profile, n int) uint64 {
	addr := p.Locations[t.locs[n]].Addr
	if t.leaf[t.locs[n]] || addr == 0 {
		return addr
	}
	if f := t.listed[n]; f != profile.None && t.funcs[f].Start == addr {
		return addr
	}
	return addr - 1
}

// leaves returns which locations are those of samples, or of branches, and not
// of callers only.
func leaves(p *profile.Profile) []bool {
	out := make([]bool, len(p.Locations))
	set := func(l int32) {
		if l >= 0 && int(l) < len(out) {
			out[l] = true
		}
	}
	for i := range p.Samples {
		set(p.Samples[i].Location)
	}
	for i := range p.Extras {
		x := &p.Extras[i]
		set(x.From)
		set(x.To)
		set(x.Data)
	}
	return out
}

// setFrames gives location n its frames. The symbol table names the outermost
// function, as perf shows it, and the debug information where there is no
// symbol.
func (t *task) setFrames(p *profile.Profile, n int, list []frame) {
	if len(list) == 0 || !known(list) {
		return
	}
	outer := &list[len(list)-1]
	if t.named[n] == profile.None && outer.name != "" {
		t.named[n] = t.unlisted(p, n, outer)
	}
	if len(list) > math.MaxUint16 {
		list = list[len(list)-math.MaxUint16:]
	}
	at := span{int32(len(t.frames)), uint16(len(list))}
	for i := range list {
		f := &list[i]
		fn := t.named[n]
		if i < len(list)-1 {
			fn = t.inlined(f, t.named[n])
		}
		t.frames = append(t.frames, profile.Frame{Func: fn, File: t.file(f.file), Line: f.line})
	}
	t.spans[n] = at
}

// A span is a part of task.frames.
type span struct {
	at int32
	n  uint16
}

// A funcKey tells functions of an object apart that are not inlined.
type funcKey struct {
	linkage string
	start   uint64
}

// An inlineKey tells inlined functions of an object apart.
type inlineKey struct {
	linkage string
	outer   int32 // the function that it stands in
}

// lookup returns the function of a key, if there is one. The map is filled when
// it is needed: with an index, it mostly is not.
func (t *task) lookup(k funcKey) (int32, bool) {
	if t.byKey == nil {
		t.byKey = map[funcKey]int32{}
	}
	for ; t.keyed < len(t.funcs); t.keyed++ {
		if f := &t.funcs[t.keyed]; !f.Inlined {
			t.byKey[funcKey{f.Linkage, f.Start}] = int32(t.keyed)
		}
	}
	fn, ok := t.byKey[k]
	return fn, ok
}

// inlined returns the function of f, inlined into outer.
func (t *task) inlined(f *frame, outer int32) int32 {
	if f.name == "" {
		return profile.None
	}
	k := inlineKey{f.name, outer}
	fn, ok := t.inlines[k]
	if !ok {
		x := profile.Function{Object: t.object, Name: t.printed(f), Linkage: f.name, Inlined: true}
		if outer != profile.None {
			x.Start, x.End = t.funcs[outer].Start, t.funcs[outer].End
		}
		fn = t.add(x)
		if t.inlines == nil {
			t.inlines = map[inlineKey]int32{}
		}
		t.inlines[k] = fn
	}
	return fn
}

// unlisted returns the function of f, which has code at location n but no
// symbol.
func (t *task) unlisted(p *profile.Profile, n int, f *frame) int32 {
	addr := p.Locations[t.locs[n]].Addr
	start := addr
	if f.start != 0 && f.start <= addr {
		start = f.start
	}
	fn, ok := t.lookup(funcKey{f.name, start})
	if !ok {
		fn = t.add(profile.Function{Object: t.object, Name: t.printed(f), Linkage: f.name, Start: start})
	}
	t.funcs[fn].End = max(t.funcs[fn].End, addr+1)
	return fn
}

func (t *task) add(f profile.Function) int32 {
	t.funcs = append(t.funcs, f)
	return int32(len(t.funcs) - 1)
}

// printed returns the name of f as it is printed.
func (t *task) printed(f *frame) string {
	switch {
	case f.printed != "":
		return f.printed
	case f.mangled:
		return objfile.Demangle(f.name)
	}
	return f.name
}

// file returns the number of a source file in t.files.
func (t *task) file(name string) int32 {
	if name == "" {
		return profile.None
	}
	n, ok := t.byFile[name]
	if !ok {
		if t.byFile == nil {
			t.byFile = map[string]int32{}
		}
		n = int32(len(t.files))
		t.files = append(t.files, name)
		t.byFile[name] = n
	}
	return n
}
