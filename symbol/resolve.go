// Package symbol gives the locations of a profile their names: it fetches the
// files of each object from a store.Source, reads their symbols, and fills
// Location.Func, Profile.Functions and Object.Note.
//
// A name is never taken from a file with another Build ID than the recorded
// one. What has no name has a reason, and the reason has a text; see Reason.
// What the names of an object rest on is in its ObjectOutcome.
//
// The result is the same for any number of workers.
package symbol

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/index"
	"github.com/perfark/perfark/internal/crew"
	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/store"
)

// Options says how a profile is resolved. The zero value names nothing but
// what the recording itself names.
type Options struct {
	Source  store.Source  // of files; nil if there is none
	Workers int           // objects resolved at a time, and parts of a large one; 0 means GOMAXPROCS
	Limits  decode.Limits // of each object

	// Lines and Inlines ask for Location.Frames: the source line at each
	// address, and the functions that the compiler put into each other there.
	// One cannot be had without the other: either gives both.
	Lines, Inlines bool

	// Exact says that all locations are instructions, callers too, as where
	// branches are frames: none is where a call goes on.
	Exact bool

	// BPFLine, if set, returns the source line of the machine code at an
	// address of a BPF program. It is called by many goroutines.
	BPFLine func(addr uint64) (file string, line int, ok bool)

	// BPFCode, if set, returns the machine code of the BPF function at an
	// address, from there to its end, and for which machine it is.
	BPFCode func(addr uint64) (code []byte, m objfile.Machine, ok bool)

	// SourceSum, if set, is told the MD5 of source files, where debug
	// information is read that has it. It is called by many goroutines.
	SourceSum func(file string, md5 [16]byte)

	// FilesOnly says that indexes in Source are not used: for whoever wants to
	// know what the files can name.
	FilesOnly bool

	// Index keeps what was found out about objects; nil: nothing is kept. What
	// took less than a few milliseconds is not kept, unless IndexAll is set.
	Index    Indexes
	IndexAll bool
}

// Indexes keeps indexes by Build ID: an *index.Cache, or what packs them into
// an archive. Methods are called from many goroutines.
type Indexes interface {
	// Get opens an index. Any error means that there is none.
	Get(id buildid.ID) (*index.File, error)

	// Put keeps an index in place of what there was for the id, unless that is
	// better.
	Put(id index.Identity, b *index.Builder) error
}

// Resolve names the locations of p. It replaces p.Functions and what an
// earlier Resolve found. The error is that of the context; whatever else goes
// wrong is in the Outcome.
func Resolve(ctx context.Context, p *profile.Profile, o Options) (*Outcome, error) {
	r := &resolver{p: p, o: o, kernels: map[int32]*kernel{}}
	if r.wantLines() {
		r.leaf = leaves(p)
		for i := range r.leaf {
			r.leaf[i] = r.leaf[i] || o.Exact
		}
	}
	unsplit := r.split(ctx)
	tasks := r.tasks()
	out := &Outcome{Objects: make([]ObjectOutcome, len(p.Objects)), Unmapped: ObjectOutcome{Object: profile.None}, UnmappedKernel: ObjectOutcome{Object: profile.None}}
	for i := range out.Objects {
		out.Objects[i].Object = int32(i)
	}
	r.run(ctx, tasks)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p.Functions, p.Frames, p.Files = nil, nil, nil
	for i := range p.Locations {
		l := &p.Locations[i]
		l.Func, l.Frames, l.NFrames = profile.None, 0, 0
	}
	files := map[string]int32{}
	funcs, frames := 0, 0
	for _, t := range tasks {
		funcs += len(t.funcs)
		frames += len(t.frames)
	}
	p.Functions = slices.Grow(p.Functions, funcs)
	p.Frames = slices.Grow(p.Frames, frames)
	for _, t := range tasks {
		t.assign(p, files)
		if err := unsplit[t.object]; err != nil && t.out.Reason == Damaged {
			t.out.Detail = err.Error()
		}
		out.Objects[t.object] = t.out
	}
	out.cover(p)
	out.explain(p)
	return out, nil
}

// explain gives outcomes with unnamed frames a reason if they have none yet,
// and objects their notes.
func (o *Outcome) explain(p *profile.Profile) {
	if o.Unmapped.Frames > 0 {
		o.Unmapped.Reason = NoMapping
	}
	for i := range o.Objects {
		x := &o.Objects[i]
		switch {
		case x.Frames == x.FramesNamed:
			x.Reason, x.Detail = Named, ""
		case x.Reason == Named:
			x.Reason = Gap
		}
		if x.FramesLined == x.Frames && x.LineReason != NoShared && x.LineReason != NoSplit {
			x.LineReason, x.LineDetail = "", ""
		}
		x.LineHint = x.LineReason.lineHint(p.Objects[i].Path, x.LineDetail)
		x.Hint = x.Reason.hint(p.Objects[i].Path)
		note := string(x.Reason)
		if x.Detail != "" {
			note += ": " + x.Detail
		}
		if x.Unverified {
			note = strings.TrimSuffix("unverified: the recording has no build id, the file was found by its path; "+note, "; ")
		}
		p.Objects[i].Note = note
	}
	o.Unmapped.Hint = o.Unmapped.Reason.hint("")
	if o.UnmappedKernel.Frames > 0 {
		o.UnmappedKernel.Reason = Hidden
		o.UnmappedKernel.Hint = Hidden.hint("")
	}
}

// A resolver is one run of Resolve.
type resolver struct {
	p *profile.Profile
	o Options

	mu      sync.Mutex
	kernels map[int32]*kernel // by guest, see profile.Object.Guest

	inside map[string]*profile.Object // by path: those inside of another file, see split
	leaf   []bool                     // by location: see leaves; nil if no lines are wanted
}

func (r *resolver) wantLines() bool { return r.o.Lines || r.o.Inlines }

func (r *resolver) workers() int {
	if r.o.Workers > 0 {
		return r.o.Workers
	}
	return runtime.GOMAXPROCS(0)
}

// A task is the work on one object. It belongs to one goroutine at a time.
type task struct {
	object int32
	locs   []int32 // its locations, by address
	funcs  []profile.Function
	byKey  map[funcKey]int32 // of funcs, as far as keyed; see lookup
	keyed  int
	named  []int32 // by locs: index in funcs, or profile.None
	done   []bool  // by locs: an index has told if there is a symbol
	listed []int32 // by locs: named, as the symbols have it
	out    ObjectOutcome

	// If lines are wanted:
	leaf    []bool // see leaves
	inlines map[inlineKey]int32
	frames  []profile.Frame // their functions and files are those of the task
	files   []string
	byFile  map[string]int32
	spans   []span   // by locs: in frames
	at      []uint64 // by locs: the address at which lines are looked up, see codeAddr
	framed  []bool   // by locs: it is known what is there
	keeps   bool     // answers are wanted
	answers []answer // by locs: what the sources said
	lineErr error    // the first of a look-up
}

// tasks returns a task for each object that has locations, in the order of
// objects.
func (r *resolver) tasks() []*task {
	by := make([][]int32, len(r.p.Objects))
	for i, l := range r.p.Locations {
		if l.Object >= 0 && int(l.Object) < len(by) {
			by[l.Object] = append(by[l.Object], int32(i))
		}
	}
	var out []*task
	for i, locs := range by {
		if len(locs) > 0 {
			out = append(out, &task{object: int32(i), locs: locs, leaf: r.leaf, out: ObjectOutcome{Object: int32(i)}})
		}
	}
	return out
}

// run works on all tasks, those with the most locations first, and returns
// when all are done.
func (r *resolver) run(ctx context.Context, tasks []*task) {
	order := slices.Clone(tasks)
	slices.SortStableFunc(order, func(a, b *task) int { return cmp.Compare(len(b.locs), len(a.locs)) })
	todo := make(chan *task, len(order))
	for _, t := range order {
		todo <- t
	}
	close(todo)
	var wg crew.Group
	for range min(r.workers(), len(order)) {
		wg.Go(func() {
			for t := range todo {
				if ctx.Err() == nil {
					r.resolve(ctx, t)
				}
			}
		})
	}
	wg.Wait()
}

// assign appends the functions and frames of a finished task to the profile.
// files has the numbers of the source files in it.
func (t *task) assign(p *profile.Profile, files map[string]int32) {
	base := int32(len(p.Functions))
	p.Functions = append(p.Functions, t.funcs...)
	for i, f := range t.named {
		if f != profile.None {
			p.Locations[t.locs[i]].Func = base + f
		}
	}
	if len(t.frames) == 0 {
		return
	}
	number := make([]int32, len(t.files))
	for i, name := range t.files {
		n, ok := files[name]
		if !ok {
			n = int32(len(p.Files))
			p.Files = append(p.Files, name)
			files[name] = n
		}
		number[i] = n
	}
	first := int32(len(p.Frames))
	for _, f := range t.frames {
		if f.Func != profile.None {
			f.Func += base
		}
		if f.File != profile.None {
			f.File = number[f.File]
		}
		p.Frames = append(p.Frames, f)
	}
	for i, s := range t.spans {
		if s.n > 0 {
			l := &p.Locations[t.locs[i]]
			l.Frames, l.NFrames = first+s.at, s.n
		}
	}
}

// A finder finds symbols by address.
type finder interface {
	Find(addr uint64) (i int, ok bool)
	Sym(i int) objfile.Sym
}

// maxCopy is the longest name that is copied out of its string table, in
// bytes. Longer ones share the table's bytes: thousands of symbols may have the
// same name of a megabyte.
const maxCopy = 4096

// sort sorts the locations of t by address, makes them nameless, and returns
// the addresses.
func (t *task) sort(p *profile.Profile) []uint64 {
	t.named, t.done = make([]int32, len(t.locs)), make([]bool, len(t.locs))
	for i := range t.named {
		t.named[i] = profile.None
	}
	if t.leaf != nil {
		t.spans, t.framed = make([]span, len(t.locs)), make([]bool, len(t.locs))
	}
	type place struct {
		addr uint64
		loc  int32
	}
	list := make([]place, len(t.locs))
	for i, l := range t.locs {
		list[i] = place{p.Locations[l].Addr, l}
	}
	slices.SortFunc(list, func(a, b place) int { return cmp.Or(cmp.Compare(a.addr, b.addr), cmp.Compare(a.loc, b.loc)) })
	addrs := make([]uint64, len(t.locs))
	for i, x := range list {
		addrs[i], t.locs[i] = x.addr, x.loc
	}
	return addrs
}

// name looks up the locations of t, which are sorted, but for those that an
// index has told of. The finder's addresses are those of the locations and
// shift more.
func (t *task) name(p *profile.Profile, f finder, shift uint64, demangle func(string) string) {
	seen := map[int]int32{}
	for n, l := range t.locs {
		if t.done[n] {
			continue
		}
		t.named[n] = profile.None
		i, ok := f.Find(p.Locations[l].Addr + shift)
		if !ok {
			continue
		}
		fn, ok := seen[i]
		if !ok {
			s := f.Sym(i)
			if len(s.Name) <= maxCopy {
				s.Name = strings.Clone(s.Name)
			}
			if fn, ok = t.lookup(funcKey{s.Name, s.Start - shift}); !ok {
				fn = t.add(profile.Function{Object: t.object, Name: demangle(s.Name), Linkage: s.Name, Start: s.Start - shift, End: s.End - shift})
			}
			seen[i] = fn
		}
		t.named[n] = fn
	}
}

func asIs(name string) string { return name }

// resolve names the locations of one object.
func (r *resolver) resolve(ctx context.Context, t *task) {
	obj := &r.p.Objects[t.object]
	addrs := t.sort(r.p)
	switch obj.Kind {
	case profile.KindFile:
		r.file(ctx, t, obj, store.ELF, addrs)
	case profile.KindVDSO:
		r.file(ctx, t, obj, store.VDSO, addrs)
		if t.out.Reason == NotFound || t.out.Reason == NoBuildID {
			t.out.Reason = NoVDSO
		}
	case profile.KindKernel, profile.KindGuestKernel:
		r.kernel(ctx, t, obj)
	case profile.KindModule, profile.KindGuestModule:
		r.module(ctx, t, obj)
	case profile.KindPerfMap:
		r.perfMap(ctx, t, obj, addrs)
	case profile.KindJIT:
		r.jitDump(ctx, t, obj)
	case profile.KindBPF:
		t.name(r.p, whole{obj}, 0, asIs)
		r.bpfLines(ctx, t)
	default:
		t.out.Reason = NotCode
	}
}

// whole is a finder for code that has one symbol, its own name.
type whole struct{ obj *profile.Object }

func (w whole) Find(addr uint64) (int, bool) {
	return 0, w.obj.End == 0 || w.obj.Start <= addr && addr < w.obj.End
}

func (w whole) Sym(int) objfile.Sym {
	return objfile.Sym{Name: w.obj.Path, Start: w.obj.Start, End: w.obj.End}
}

// key returns the key of a file of obj.
func key(obj *profile.Object, kind store.Kind) store.Key {
	return store.Key{ID: obj.BuildID, Kind: kind, Path: obj.Path, PID: obj.PID, Maj: obj.Maj, Min: obj.Min, Ino: obj.Ino, InoGen: obj.InoGen}
}

// get asks the source for a file. The error wraps fs.ErrNotExist if there is
// none.
func (r *resolver) get(ctx context.Context, k store.Key) (*store.File, error) {
	if r.o.Source == nil {
		return nil, fmt.Errorf("%s: %w", k, fs.ErrNotExist)
	}
	if obj := r.inside[k.Path]; obj != nil && k.Kind == store.ELF && k.ID == "" {
		return r.member(ctx, obj, k)
	}
	return r.o.Source.Get(ctx, k)
}

func closeFile(f *store.File) {
	if f != nil && f.Close != nil {
		f.Close()
	}
}

// errMismatch says that the Source broke its promise.
var errMismatch = errors.New("build id differs")

// open gets an ELF file and checks that its id is the one asked for, which
// the Source promises.
func (r *resolver) open(ctx context.Context, k store.Key, b *decode.Budget) (*objfile.File, *store.File, error) {
	sf, err := r.get(ctx, k)
	if err != nil {
		return nil, nil, err
	}
	f, err := objfile.Open(sf, sf.Size, sf.Origin, b)
	if err == nil && k.ID != "" && !hasID(f, k) {
		err = fmt.Errorf("%s: %w: it is %s", sf.Origin, errMismatch, f.BuildID())
	}
	if err != nil {
		closeFile(sf)
		return nil, nil, err
	}
	return f, sf, nil
}

func hasID(f *objfile.File, k store.Key) bool {
	for _, id := range f.IDs() {
		if id.Match(k.ID) {
			return true
		}
	}
	return false
}

// An objectFile is an open file of an object.
type objectFile struct {
	f     *objfile.File
	sf    *store.File
	moved uint64 // how far the code of the mapped file lies behind it, see objfile.File.Moved
}

// file names the locations of an object that is an ELF file: of its own
// symbols, and of its separate debug file if it has only some.
func (r *resolver) file(ctx context.Context, t *task, obj *profile.Object, kind store.Kind, addrs []uint64) {
	b := decode.NewBudget(r.o.Limits)
	f, sf, err := r.open(ctx, key(obj, kind), b)
	if f != nil {
		defer closeFile(sf)
		t.used(f, sf)
	}
	var debug *objfile.File
	var df *store.File
	var debugMoved uint64
	dkey := key(obj, store.Debug)
	if dkey.ID == "" && f != nil {
		// The debug file is as certain as the file is that it belongs to.
		dkey.ID = f.BuildID()
	}
	if kind == store.ELF && hasDebug(dkey, f) && (f == nil || f.Quality() < objfile.Symtab || r.wantLines() && f.Quality() < objfile.FullDWARF) {
		var derr error
		debug, df, derr = r.openDebug(ctx, dkey, f, b)
		if derr == nil {
			defer closeFile(df)
			moved, fits := uint64(0), true
			if f != nil {
				moved, fits = debug.Moved(f)
			}
			if !fits {
				t.out.Warnings = append(t.out.Warnings, fmt.Sprintf("%s: %v", df.Origin, objfile.ErrOtherProgram))
				debug = nil
			} else {
				t.used(debug, df)
				debugMoved = moved
			}
		} else if !errors.Is(derr, fs.ErrNotExist) {
			t.out.Warnings = append(t.out.Warnings, derr.Error())
		}
	}
	var files []objectFile
	if f != nil {
		files = append(files, objectFile{f, sf, 0})
	}
	if debug != nil {
		files = append(files, objectFile{debug, df, debugMoved})
	}
	x := r.openIndexes(ctx, t, obj, files, err)
	defer x.Close()
	addrs = x.namesKnown(r.p, t, addrs)
	start := time.Now()
	dwarf, done := r.startDWARF(ctx, obj, files, x, b)
	defer done()
	tab, err := symbolsOf(f, debug, addrs, err)
	t.warn(f)
	t.warn(debug)
	switch {
	case tab != nil:
		t.name(r.p, tab, 0, objfile.Demangle)
		x.symbols = true
	case len(addrs) > 0:
		t.out.Reason, t.out.Detail = reason(err, obj)
	}
	g := &goTable{f: f}
	t.listed = slices.Clone(t.named)
	if r.wantLines() {
		r.lines(ctx, t, dwarf, files, g, x)
	}
	x.keep(r.p, t, time.Since(start))
	switch {
	case tab == nil && len(addrs) > 0:
	case t.out.Quality >= objfile.Symtab:
	case len(t.funcs) == 0 && t.out.Quality < objfile.Dynsym:
		t.out.Reason = Stripped
	case t.out.Quality == objfile.GoFuncs:
		t.out.Reason = OnlyGo
	default:
		t.out.Reason = Exported // of those that have no name
	}
}

// startDWARF returns a function that opens the debug information of an object,
// once. It begins to while symbols are read, if it will be needed and there are
// workers for it. The second function closes what was opened.
func (r *resolver) startDWARF(ctx context.Context, obj *profile.Object, files []objectFile, x *indexes, b *decode.Budget) (open func() *opened, done func()) {
	var o *opened
	var wg crew.Group
	run := func() { o = r.openDWARF(ctx, obj, files, objfile.Offsets, b) }
	if r.wantLines() && r.workers() > 1 && len(x.list) == 0 && len(files) > 0 && !files[0].f.DebugOnly() {
		wg.Go(run)
	}
	open = func() *opened {
		if wg.Wait(); o == nil {
			run()
		}
		return o
	}
	return open, func() {
		if wg.Wait(); o != nil {
			o.Close()
		}
	}
}

// symbolsOf returns the symbols of a program f and its debug file, of which
// one may be nil, as far as addrs need them. Without either, err is why.
func symbolsOf(f, debug *objfile.File, addrs []uint64, err error) (*objfile.Table, error) {
	if len(addrs) == 0 {
		return nil, nil
	}
	o := objfile.SymbolOptions{Only: addrs}
	switch {
	case f != nil && debug != nil && f.Quality() < objfile.Symtab:
		return debug.SymbolsWith(f, o)
	case f != nil:
		return f.Symbols(o)
	case debug != nil:
		return debug.Symbols(o)
	}
	return nil, err
}

// used notes a file whose symbols are used.
func (t *task) used(f *objfile.File, sf *store.File) {
	t.out.Origins = append(t.out.Origins, sf.Origin)
	t.out.Unverified = t.out.Unverified || sf.Unverified
	t.out.Quality = max(t.out.Quality, f.Quality())
}

func (t *task) warn(f *objfile.File) {
	if f == nil {
		return
	}
	for _, w := range f.Warnings() {
		t.out.Warnings = append(t.out.Warnings, w.Text)
	}
}

// perfMap names code that was made at run time.
func (r *resolver) perfMap(ctx context.Context, t *task, obj *profile.Object, addrs []uint64) {
	sf, err := r.get(ctx, key(obj, store.PerfMap))
	if err != nil {
		t.out.Reason, t.out.Detail = reason(err, obj)
		if t.out.Reason == NotFound || t.out.Reason == NoBuildID {
			t.out.Reason = NoPerfMap
			if dump := r.dumpOf(obj); dump != "" {
				t.out.Detail = "its jitdump " + dump + " was not found either"
			}
		}
		return
	}
	defer closeFile(sf)
	tab, err := objfile.ReadPerfMap(io.NewSectionReader(sf, 0, sf.Size), addrs, decode.NewBudget(r.o.Limits))
	if err != nil {
		t.out.Reason, t.out.Detail = Damaged, err.Error()
		return
	}
	t.out.Origins = append(t.out.Origins, sf.Origin)
	t.name(r.p, tab, 0, asIs)
}

// reason turns the error of a Source or a reader into the reason why the
// frames of obj have no names, with particulars.
func reason(err error, obj *profile.Object) (Reason, string) {
	switch {
	case errors.Is(err, errMismatch):
		return Mismatch, err.Error()
	case errors.Is(err, objfile.ErrNoSymbols):
		return Stripped, ""
	case errors.Is(err, objfile.ErrNoRuntime):
		return NoRuntime, ""
	case errors.Is(err, objfile.ErrRestricted):
		return Restricted, ""
	case errors.Is(err, fs.ErrPermission):
		return NotPermitted, err.Error()
	}
	if x := store.MostTelling(err); x != nil {
		switch x.Reason {
		case store.Replaced, store.NoID:
			if x.Got == "" || obj.BuildID == "" {
				return Replaced, x.Error()
			}
			return Mismatch, x.Error()
		case store.Ambiguous:
			return Ambiguous, x.Error()
		case store.Restricted:
			return Restricted, x.Error()
		case store.Unreadable:
			return NotPermitted, x.Error()
		case store.Deleted:
			if strings.Contains(obj.Path, "memfd:") {
				return Memfd, ""
			}
			return Deleted, ""
		case store.Untied:
			return NoBuildID, x.Error()
		}
		return NotFound, x.Error()
	}
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return Damaged, err.Error()
	case strings.HasPrefix(strings.TrimPrefix(obj.Path, "/"), "memfd:"):
		return Memfd, ""
	case strings.HasSuffix(obj.Path, " (deleted)"):
		return Deleted, ""
	case obj.BuildID == "":
		return NoBuildID, ""
	}
	return NotFound, ""
}
