package archive

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/store"
)

// objects turns what was read into the objects of a manifest. Items with one
// id and the same program are one object, with all their paths and the best
// copy of each file. Items with one id and different programs stay apart:
// each under its own path.
func (pl *Plan) objects() []Object {
	var groups [][]*item
	for _, it := range pl.items {
		if len(it.parts) == 0 {
			continue
		}
		i := slices.IndexFunc(groups, func(g []*item) bool { return pl.same(g[0], it) })
		if i < 0 {
			groups = append(groups, []*item{it})
			continue
		}
		groups[i] = append(groups[i], it)
	}
	taken := map[Name]string{}
	var out []Object
	for _, g := range groups {
		o := Object{ID: g[0].id, Kind: kindName(g[0].kind), PID: g[0].pid, Unverified: g[0].unverified}
		if o.Kind != "perfmap" && o.Kind != "jitdump" {
			o.PID = 0
		}
		if o.Unverified {
			o.ID = "" // a file that is only thought to be the one must not answer for an id
		}
		for _, it := range g {
			o.Paths = append(o.Paths, Name(it.path))
			o.Samples += it.samples
			if it.id == "" && it.object >= 0 {
				if p := &pl.profile.Objects[it.object]; p.Ino != 0 {
					o.Inodes = append(o.Inodes, Inode{p.Maj, p.Min, p.Ino, p.InoGen})
				}
			}
		}
		slices.Sort(o.Paths)
		o.Paths = slices.Compact(o.Paths)
		for _, p := range best(g) {
			f := pl.file(o, g, p)
			if sum, ok := taken[f.Name]; ok && sum != f.SHA256 {
				continue // the same path under the same id twice: the first stays
			}
			taken[f.Name] = f.SHA256
			o.Files = append(o.Files, f)
			pl.open[f.Name] = p
			if p.reading.goID != "" {
				o.GoID = p.reading.goID
			}
		}
		if len(o.Files) > 0 {
			out = append(out, o)
		}
	}
	slices.SortStableFunc(out, func(a, b Object) int {
		return cmp.Or(strings.Compare(string(a.Paths[0]), string(b.Paths[0])), strings.Compare(string(a.ID), string(b.ID)))
	})
	return out
}

// file is the entry of a part in the manifest.
func (pl *Plan) file(o Object, g []*item, p *part) File {
	f := File{Kind: p.kind, Size: p.reading.size, SHA256: p.reading.sum, Origin: Name(origin(p.file)), Whole: p.whole, Slim: p.slim != nil || p.reading.slim}
	switch p.kind {
	case store.PerfMap:
		f.Name = Name(PerfMapName(g[0].pid))
	case store.KCore, store.KCoreKallsyms, store.KCoreModules:
		f.Name = Name(KcoreName(o.ID, kcoreStamp(g), p.kind))
	case store.JITDump:
		f.Name = Name(JITDumpName(g[0].pid, p.reading.sum))
	default:
		f.Name = Name(ObjectName(string(o.Paths[0]), o.ID, g[0].parts[0].reading.sum, p.kind))
	}
	if p.reading.elf {
		f.Quality = p.reading.quality.String()
	}
	f.Mode, f.UID, f.GID = owner(p.file.Info)
	return f
}

// kcoreStamp is what stands for the time in the names of a copy of kernel
// memory: the same copy always has the same.
func kcoreStamp(g []*item) string {
	h := sha256.New()
	for _, it := range g {
		for _, p := range it.parts {
			if isKcore(p.kind) {
				fmt.Fprintln(h, p.kind, p.reading.sum)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// livePattern is the name by which the file of a living process is opened.
var livePattern = regexp.MustCompile(`^/proc/[0-9]+/(map_files|exe|root)\b.*$`)

// origin says where a file came from, the same for any process that had it
// mapped.
func origin(f *store.File) string {
	return livePattern.ReplaceAllString(f.Origin, "/proc/PID/$1")
}

// same reports whether two items are the same program: they have the same id,
// or none, and their files are equal, or differ in symbols only.
func (pl *Plan) same(a, b *item) bool {
	if a.id != b.id || a.kind != b.kind || a.unverified != b.unverified {
		return false
	}
	switch a.kind {
	case profile.KindPerfMap:
		return a.pid == b.pid
	case profile.KindJIT:
		return a.pid == b.pid && a.path == b.path && a.parts[0].reading.sum == b.parts[0].reading.sum
	}
	x, y := a.parts[0], b.parts[0]
	if x.reading.sum == y.reading.sum {
		return true
	}
	if a.id == "" || a.unverified || x.kind != y.kind {
		return false
	}
	hx, hy := textHash(whole(x), pl.o.Limits), textHash(whole(y), pl.o.Limits)
	return hx != "" && hx == hy
}

// best returns the best file of each kind in a group: that which can name
// most, the first of equals. The main file of the group comes first.
func best(g []*item) []*part {
	var out []*part
	for _, it := range g {
		for _, p := range it.parts {
			i := slices.IndexFunc(out, func(q *part) bool { return q.kind == p.kind })
			if i < 0 {
				out = append(out, p)
			} else if q := out[i]; p.quality > q.quality || p.quality == q.quality && q.reading.slim && !p.reading.slim {
				out[i] = p
			}
		}
	}
	return out
}

// textHash is the hash of the code in a file, "" if it has none.
func textHash(f *store.File, l decode.Limits) string {
	x, err := objfile.Open(f, f.Size, f.Origin, decode.NewBudget(l))
	if err != nil {
		return ""
	}
	sum, err := x.TextHash()
	if err != nil {
		return ""
	}
	return string(sum[:])
}
