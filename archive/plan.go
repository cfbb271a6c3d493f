package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/session"
	"github.com/perfark/perfark/store"
)

// DebugInfo says which separate debug files go into an archive: those found
// by Build ID or .gnu_debuglink, the shared ones of dwz, and .dwp and .dwo
// files beside a program.
type DebugInfo uint8

// The choices of separate debug files.
const (
	DebugAll  DebugInfo = iota // of every object
	DebugHot                   // of objects that hold at least one percent of the samples
	DebugNone                  // none: names may be missing where an object is stripped
)

// ParseDebugInfo reads "none", "hot" or "all".
func ParseDebugInfo(s string) (DebugInfo, error) {
	switch s {
	case "all":
		return DebugAll, nil
	case "hot":
		return DebugHot, nil
	case "none":
		return DebugNone, nil
	}
	return 0, fmt.Errorf("%q: not one of none, hot, all", s)
}

// PlanOptions says what goes into an archive.
type PlanOptions struct {
	// Source is where the objects are. It must be set.
	Source store.Source

	Tool string // for the manifest: "perfark 0.1"
	Host *Host  // for the manifest: where the profile was recorded; nil to leave it out

	Exclude       []buildid.ID // objects to leave out
	Verified      bool         // leave out what no Build ID ties to the recording
	MaxObjectSize int64        // largest file to take, in bytes; 0 means no limit
	Index         bool         // put in what is known of the addresses of the profile, see package index
	Sources       bool         // put in the source files of the lines that samples are in
	Slim          bool         // leave out what this profile does not need of a file
	SlimAgain     bool         // also of what is a slim copy: files of package redact have that mark
	DebugInfo     DebugInfo
	Vmlinux       bool          // take the kernel image too
	Kcore         bool          // take the code of the running kernel out of its memory; copies of it are taken anyway
	VmlinuxFile   string        // the kernel image, if not to be looked for
	Command       string        // what the user typed, for hints: "perfark archive -i perf.data"
	Caller        string        // who runs this, for messages: "nobody (uid 65534)"; "" for root
	Elsewhere     []string      // caches of other users that Source cannot look into
	OtherHost     string        // the recording host, if it is not this one
	Data          *DataFile     // the recording, to be described or packed; nil for neither
	Limits        decode.Limits // per file read
	Workers       int           // 0 means one per CPU
	Progress      Progress      // may be nil
}

// A DataFile is the recording an archive is made for.
type DataFile struct {
	io.ReaderAt
	Name    string
	Size    int64 // bytes
	MTime   time.Time
	Include bool // pack it: the archive is a bundle
}

// A Plan is what will go into an archive, and what is missing. Close it to
// close the files it holds open.
type Plan struct {
	Missing  []Missing // most samples first
	Excluded []Missing // left out because the user said so

	o       PlanOptions
	session *session.Result
	profile *profile.Profile // of session
	mapper  []int32          // by object: a process that had it mapped, 0 if unknown
	total   uint64           // samples
	items   []*item
	data    *Data          // after collect
	open    map[Name]*part // by name in the archive, after manifest

	whole []uint64 // by location, for PlanOptions.Slim: fingerprints of what the whole files say
}

// An item is an object of the profile with the files found for it.
type item struct {
	object     int // in the profile
	id         buildid.ID
	kind       profile.ObjectKind
	path       string
	pid        int32
	samples    uint64
	unverified bool
	parts      []*part
	extra      bool // shared debug information: no object of the profile
}

// A part is a file of an item.
type part struct {
	kind    store.Kind
	key     store.Key
	file    *store.File
	quality objfile.Quality
	whole   int64   // size before it was reduced; 0 if it was not
	reading reading // after collect
	wantID  buildid.ID

	slim     *objfile.Slimming // what is kept of the file, if it is made slim; else nil
	original io.ReaderAt       // the whole file then
	trace    *trace            // while it is found out what is needed of it
}

// NewPlan finds the files of all objects that have a frame in the profile of
// r, or that unwinding its stacks needs, without reading them whole. What
// cannot be found is in Plan.Missing with the reason and, where there is one,
// the command that would help.
func NewPlan(ctx context.Context, r *session.Result, o PlanOptions) (*Plan, error) {
	pl := &Plan{o: o, session: r, profile: r.Profile, mapper: mappers(r)}
	for i := range r.Profile.Samples {
		pl.total += r.Profile.Samples[i].Count
	}
	for i := range r.Profile.Objects {
		if err := ctx.Err(); err != nil {
			pl.Close()
			return nil, err
		}
		obj := &r.Profile.Objects[i]
		if !pl.wanted(i) {
			continue
		}
		if o.Progress != nil {
			o.Progress(0, 0, "looking for "+obj.Path)
		}
		if slices.ContainsFunc(o.Exclude, obj.BuildID.Match) {
			m := pl.missing(i)
			m.Reason, m.Detail = "excluded", "excluded by the user"
			pl.Excluded = append(pl.Excluded, m)
			continue
		}
		pl.find(ctx, i)
	}
	pl.restricted()
	pl.sort()
	if o.Slim {
		if err := pl.slim(ctx); err != nil {
			pl.Close()
			return nil, err
		}
	}
	if o.Sources && !o.Verified {
		if err := pl.findSources(ctx); err != nil {
			pl.Close()
			return nil, err
		}
	}
	return pl, nil
}

// mappers returns for each object a process that had it mapped; one that may
// still run is better than one that ended.
func mappers(r *session.Result) []int32 {
	pids := make([]int32, len(r.Profile.Objects))
	for _, exited := range []bool{false, true} {
		for i := range r.Processes {
			p := &r.Processes[i]
			if p.Exited != exited || p.PID <= 0 {
				continue
			}
			for _, obj := range p.Objects {
				if pids[obj] == 0 {
					pids[obj] = p.PID
				}
			}
		}
	}
	return pids
}

// wanted reports whether an object of the profile belongs into the archive.
func (pl *Plan) wanted(i int) bool {
	obj := &pl.profile.Objects[i]
	switch obj.Kind {
	case profile.KindSpecial, profile.KindUnnamed, profile.KindBPF:
		return false
	case profile.KindVDSO:
		return true // the kernel maps it into every process
	}
	return pl.needed(i)
}

// needed reports whether an object that is not there is missed.
func (pl *Plan) needed(i int) bool {
	return pl.profile.Objects[i].Samples > 0 || pl.session.Hit[i]&session.HitUnwind != 0
}

// find opens the files of an object.
func (pl *Plan) find(ctx context.Context, i int) {
	obj := &pl.profile.Objects[i]
	it := &item{object: i, id: obj.BuildID, kind: obj.Kind, path: obj.Path, pid: obj.PID, samples: obj.Samples}
	var err error
	switch obj.Kind {
	case profile.KindKernel, profile.KindGuestKernel:
		err = pl.findKernel(ctx, it)
	case profile.KindVDSO:
		err = pl.add(ctx, it, store.VDSO)
	case profile.KindPerfMap:
		err = pl.add(ctx, it, store.PerfMap)
	case profile.KindJIT:
		err = pl.add(ctx, it, store.JITDump)
	default:
		err = pl.add(ctx, it, store.ELF)
		if err == nil && !pl.unwanted(it) {
			pl.findDebug(ctx, it)
		}
	}
	if err != nil && pl.needed(i) {
		pl.miss(it, err)
	}
	if pl.unwanted(it) {
		for _, p := range it.parts {
			p.file.Close()
		}
		m := pl.missing(i)
		m.Reason, m.Detail = "unverified", "no build id ties it to the recording, and only verified objects are wanted"
		pl.Excluded = append(pl.Excluded, m)
		return
	}
	if len(it.parts) > 0 {
		pl.items = append(pl.items, it)
	}
}

// unwanted reports whether it is left out because nothing but its path ties it
// to the recording.
func (pl *Plan) unwanted(it *item) bool { return pl.o.Verified && it.unverified }

// findKernel opens the list of kernel symbols, and the kernel image if that is
// asked for. One of the two is enough for names.
func (pl *Plan) findKernel(ctx context.Context, it *item) error {
	err := pl.add(ctx, it, store.Kallsyms)
	if err == nil {
		defer pl.findKcore(ctx, it)
	}
	if !pl.o.Vmlinux {
		return err
	}
	if verr := pl.add(ctx, it, store.ELF); verr != nil {
		if err != nil {
			return errors.Join(err, verr)
		}
		m := pl.missing(it.object)
		m.Path = Name(cmp.Or(pl.o.VmlinuxFile, "vmlinux"))
		m.Samples = 0 // the list of symbols names them
		pl.explainImage(&m, verr)
		pl.Missing = append(pl.Missing, m)
	}
	return nil
}

// findKcore adds a copy of the memory of the kernel in the boot of the
// recording, with that of its modules.
func (pl *Plan) findKcore(ctx context.Context, it *item) {
	obj := &pl.profile.Objects[it.object]
	if it.id == "" || it.unverified {
		return
	}
	var parts []*part
	for _, kind := range []store.Kind{store.KCoreModules, store.KCore, store.KCoreKallsyms} {
		k := store.Key{ID: it.id, Kind: kind, Path: it.path, RefName: obj.RefName, RefAddr: obj.RefAddr}
		f, err := pl.o.Source.Get(ctx, k)
		if err == nil && f.Live && !pl.o.Kcore {
			f.Close()
			err = fs.ErrNotExist
		}
		switch {
		case err == nil:
			parts = append(parts, &part{kind: kind, key: k, file: f})
		case kind != store.KCoreModules:
			for _, p := range parts {
				p.file.Close()
			}
			return
		}
	}
	for _, p := range parts {
		pl.append(it, p)
	}
}

// findDebug opens the separate debug files of an object.
func (pl *Plan) findDebug(ctx context.Context, it *item) {
	switch pl.o.DebugInfo {
	case DebugNone:
		return
	case DebugHot:
		if it.samples*100 < pl.total {
			return
		}
	}
	pl.findInside(ctx, it)
	from := it.parts[0].file
	if x := pl.findOwnDebug(ctx, it); x != nil {
		from = x.parts[0].file
	} else if pl.add(ctx, it, store.Debug) == nil {
		from = it.parts[len(it.parts)-1].file
	}
	if r := identity(from, pl.o.Limits); r.altID != "" {
		at := from.Origin
		if from == it.parts[0].file {
			at = it.path
		}
		pl.findShared(ctx, r, from, path.Dir(at))
	}
	pl.findSplit(ctx, it, from)
	if fi, err := os.Lstat(it.path); err != nil || it.parts[0].file.Info == nil || !os.SameFile(fi, it.parts[0].file.Info) {
		return // of a copy nothing can be said about its neighbours
	}
	// Nothing in files of split DWARF can be checked here: they go in as what
	// has no id, and the reader of DWARF compares its own.
	for _, f := range beside(it.path) {
		if slices.ContainsFunc(pl.items, func(x *item) bool { return x.extra && x.path == f.Origin }) {
			f.Close()
			continue
		}
		x := &item{object: profile.None, path: f.Origin, extra: true, unverified: true}
		if pl.append(x, &part{kind: store.ELF, file: f}) {
			pl.items = append(pl.items, x)
		}
	}
}

// findOwnDebug opens the separate debug file of an object that the recording
// gives no id of. The object's bytes may carry one all the same, and the debug
// file is as certain as they are. It returns nil if there is none to add.
func (pl *Plan) findOwnDebug(ctx context.Context, it *item) *item {
	if it.id != "" {
		return nil
	}
	own := identity(it.parts[0].file, pl.o.Limits).id
	if own == "" || slices.ContainsFunc(pl.items, func(x *item) bool { return x.id == own }) {
		return nil
	}
	key := store.Key{ID: own, Kind: store.Debug, Path: it.path}
	f, err := pl.o.Source.Get(ctx, key)
	if err != nil {
		return nil
	}
	x := &item{object: profile.None, id: own, path: it.path, extra: true}
	if !pl.append(x, &part{kind: store.Debug, key: key, file: f, quality: objfile.FullDWARF, wantID: own}) {
		return nil
	}
	pl.items = append(pl.items, x)
	return x
}

// findShared opens the debug information that dwz moved to a file of its own.
// Its name may be relative to dir, that of the file it is shared by.
func (pl *Plan) findShared(ctx context.Context, r reading, from *store.File, dir string) {
	if slices.ContainsFunc(pl.items, func(it *item) bool { return it.extra && it.id == r.altID }) {
		return
	}
	at := r.altlink
	if !path.IsAbs(at) {
		at = path.Join(dir, at)
	}
	it := &item{object: profile.None, id: r.altID, path: at, extra: true}
	f, err := store.Altlink(ctx, pl.o.Source, from, path.Join(dir, "x"), r.altlink, r.altID)
	if err != nil {
		return
	}
	key := store.Key{ID: it.id, Kind: store.Debug, Path: f.Origin}
	if pl.append(it, &part{kind: store.Debug, key: key, file: f, quality: objfile.FullDWARF, wantID: it.id}) {
		pl.items = append(pl.items, it)
	}
}

// add opens a file of an item.
func (pl *Plan) add(ctx context.Context, it *item, kind store.Kind) error {
	obj := &pl.profile.Objects[it.object]
	key := store.Key{
		ID: it.id, Kind: kind, Path: it.path, PID: it.pid,
		Maj: obj.Maj, Min: obj.Min, Ino: obj.Ino, InoGen: obj.InoGen,
	}
	if key.PID == 0 {
		key.PID = pl.mapper[it.object]
	}
	f, err := pl.get(ctx, key)
	if err != nil {
		return err
	}
	p := &part{kind: kind, key: key, file: f}
	if carriesID(kind) {
		p.wantID = it.id
		p.quality = identity(f, pl.o.Limits).quality
	}
	if !pl.append(it, p) {
		return &tooLargeError{f.Size, pl.o.MaxObjectSize}
	}
	it.unverified = it.unverified || f.Unverified
	return nil
}

// get opens a file: the kernel image that the user named, or what the Source
// has.
func (pl *Plan) get(ctx context.Context, k store.Key) (*store.File, error) {
	name := pl.o.VmlinuxFile
	if name == "" || k.Kind != store.ELF || k.Path != kernelPath {
		return pl.o.Source.Get(ctx, k)
	}
	f, err := openFileOnly(name)
	if err != nil {
		return nil, &store.RefusedError{Path: name, Reason: store.Unreadable, Err: err}
	}
	if got := identity(f, pl.o.Limits).id; k.ID != "" && !got.Match(k.ID) {
		f.Close()
		return nil, &store.RefusedError{
			Path: name, Reason: store.Replaced, Got: got,
			Why: fmt.Sprintf("carries build id %s; %s is wanted", orNone(got), k.ID),
		}
	}
	return f, nil
}

// kernelPath is the recorded path of the host's kernel.
const kernelPath = "[kernel.kallsyms]"

// append adds p to it. A file that is too large goes in without its debug
// information if that makes it small enough; else it is closed and append
// reports false.
func (pl *Plan) append(it *item, p *part) bool {
	limit := pl.o.MaxObjectSize
	if limit > 0 && p.file.Size > limit {
		small, err := reduced(p.file, pl.o.Limits)
		if err != nil || small.Size > limit || p.companion() {
			p.file.Close()
			return false
		}
		p.whole = p.file.Size
		p.file = small
		p.quality = identity(small, pl.o.Limits).quality
	}
	it.parts = append(it.parts, p)
	return true
}

// identity reads what an ELF file says about itself.
func identity(f *store.File, l decode.Limits) reading {
	r := reading{size: f.Size}
	r.identify(f.ReaderAt, f.Origin, l)
	return r
}

// sort puts the items into the order of their names, and what is missing into
// that of the samples it costs.
func (pl *Plan) sort() {
	slices.SortStableFunc(pl.items, func(a, b *item) int {
		return cmp.Or(strings.Compare(a.path, b.path), strings.Compare(string(a.id), string(b.id)))
	})
	for _, list := range [][]Missing{pl.Missing, pl.Excluded} {
		slices.SortStableFunc(list, func(a, b Missing) int {
			return cmp.Or(-cmp.Compare(a.Samples, b.Samples), strings.Compare(string(a.Path), string(b.Path)), strings.Compare(string(a.ID), string(b.ID)))
		})
	}
}

// Close closes the files that the plan holds open.
func (pl *Plan) Close() error {
	var errs []error
	for _, it := range pl.items {
		for _, p := range it.parts {
			if p.file != nil {
				errs = append(errs, p.file.Close())
				p.file = nil
			}
		}
	}
	return errors.Join(errs...)
}

// kindName is the word for a kind of object in manifests.
func kindName(k profile.ObjectKind) string {
	switch k {
	case profile.KindKernel, profile.KindGuestKernel:
		return "kernel"
	case profile.KindModule, profile.KindGuestModule:
		return "module"
	case profile.KindVDSO:
		return "vdso"
	case profile.KindPerfMap:
		return "perfmap"
	case profile.KindJIT:
		return "jitdump"
	}
	return "file"
}

func (pl *Plan) workers() int {
	if pl.o.Workers > 0 {
		return pl.o.Workers
	}
	return runtime.GOMAXPROCS(0)
}

// A PlannedFile is a file that would go into an archive.
type PlannedFile struct {
	ID         buildid.ID `json:"id,omitempty"`
	Path       Name       `json:"path"` // of the object
	Kind       store.Kind `json:"kind"`
	Size       int64      `json:"size"` // bytes
	Quality    string     `json:"quality,omitempty"`
	Origin     Name       `json:"origin"` // where it is now
	Samples    uint64     `json:"samples"`
	Unverified bool       `json:"unverified,omitempty"`
	Kept       int64      `json:"kept,omitempty"`  // bytes of a slim copy that are not holes; 0 if it is none
	Whole      int64      `json:"whole,omitempty"` // size before debug information was left out, for --max-object-size; 0 if it was not
}

// Files lists what would go into the archive, in the order of paths. Equal
// files are packed once, but listed for each path.
func (pl *Plan) Files() []PlannedFile {
	out := []PlannedFile{}
	for _, it := range pl.items {
		for _, p := range it.parts {
			f := PlannedFile{
				ID: it.id, Path: Name(it.path), Kind: p.kind, Size: p.file.Size,
				Origin: Name(p.file.Origin), Samples: it.samples, Unverified: it.unverified, Whole: p.whole,
			}
			if p.slim != nil {
				for _, s := range p.slim.Keep {
					f.Kept += s.End - s.Start
				}
				for i := range p.slim.Patches {
					f.Kept += int64(len(p.slim.Patches[i].Data)) // what is repeated takes no room
				}
			}
			if carriesID(p.kind) {
				f.Quality = p.quality.String()
			}
			out = append(out, f)
		}
	}
	return out
}
