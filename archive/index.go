package archive

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/store"
)

// An index is what an archive holds, checked against the grammar of
// docs/archive.md. Everything in it has a place in a ~/.debug tree, or is the
// perf.data.
type index struct {
	img      *image
	bundle   bool
	manifest *Manifest
	raw      []byte              // the manifest's bytes
	files    map[string]*inEntry // by name in the tree, manifests excepted
	links    map[string]string   // hex id to directory, in the tree
	dangling []string            // hex ids whose link leads to nothing in the archive
	data     *inEntry            // the perf.data, nil if there is none
	dataImg  *image              // where it is
	objects  []Object
	twice    string // an entry that stands twice, with equal contents

	pool    *Pool            // that the manifest names; nil if it is not there
	poolDir string           // where it is, or should be; "" if that is not known
	pooled  map[string]*File // files that are no members, by name in the tree
	absent  []Object         // with those of the pooled files alone that are not in the pool
}

// Close frees what the index reads from.
func (x *index) Close() error {
	err := x.img.Close()
	if x.pool != nil {
		err = errors.Join(err, x.pool.Close())
	}
	if x.dataImg != x.img && x.dataImg != nil {
		err = errors.Join(err, x.dataImg.Close())
	}
	return err
}

// Names of perf's archive of symbols and data, which perf archive --all makes.
const perfInner = "perf.symbols.tar.bz2"

// openIndex reads all headers and the manifest of an archive, or of the
// archive inside perf's archive of both. It writes nothing but temporary
// files without a name.
func openIndex(ctx context.Context, r io.ReaderAt, size int64, o OpenOptions) (*index, error) {
	return openNested(ctx, r, size, o, 0)
}

func openNested(ctx context.Context, r io.ReaderAt, size int64, o OpenOptions, depth int) (_ *index, err error) {
	img, err := openImage(ctx, r, size, o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			img.Close()
		}
	}()
	lim := o.Limits.withDefaults()
	list, err := scanTar(ctx, img, img.size, lim.MaxFiles)
	if err != nil {
		return nil, err
	}
	if err := checkEntries(ctx, list, img, lim); err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(list, func(e inEntry) bool { return e.name == perfInner }); i >= 0 && depth == 0 {
		return openPerfAll(ctx, img, list, i, o)
	}
	x := &index{img: img, files: map[string]*inEntry{}, links: map[string]string{}}
	if len(list) > 0 && list[0].name == manifestName && depth == 0 {
		x.bundle = true
	}
	for i := range list {
		if err := x.add(&list[i]); err != nil {
			return nil, err
		}
	}
	if err := x.finish(ctx); err != nil {
		return nil, err
	}
	if x.manifest != nil && x.manifest.Pool != "" {
		x.openPool(o)
	}
	return x, nil
}

// openPerfAll opens the archive inside perf's archive of both.
func openPerfAll(ctx context.Context, img *image, list []inEntry, i int, o OpenOptions) (*index, error) {
	var data *inEntry
	for j := range list {
		e := &list[j]
		switch {
		case e.typ == tar.TypeDir, j == i:
		case e.typ != tar.TypeReg || data != nil:
			return nil, fmt.Errorf("entry %q: only perf.data and %s are expected here", e.name, perfInner)
		default:
			data = e
		}
	}
	e := list[i]
	if e.typ != tar.TypeReg {
		return nil, fmt.Errorf("entry %q: not a file", e.name)
	}
	x, err := openNested(ctx, io.NewSectionReader(img, e.off, e.size), e.size, o, 1)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", perfInner, err)
	}
	x.data, x.dataImg = data, img
	return x, nil
}

// checkEntries checks what holds for every tar: clean names, each used once,
// no file where there is a directory, sizes within the limits, and hard links
// to earlier entries only. These become what the other is: GNU tar writes them
// for a file, or a symbolic link, that it packs a second time.
func checkEntries(ctx context.Context, list []inEntry, img *image, lim Limits) error {
	seen := make(map[string]*inEntry, len(list))
	inner := map[string]bool{} // names that something is below of
	var total int64
	for i := range list {
		e := &list[i]
		if err := checkName(e.name); err != nil {
			return fmt.Errorf("entry %d: %w", i+1, err)
		}
		if e.typ == tar.TypeLink {
			to := seen[e.link]
			if to == nil || to.typ == tar.TypeDir {
				return fmt.Errorf("entry %q: hard link to %q, which is not an earlier file of the archive", e.name, e.link)
			}
			e.typ, e.off, e.size, e.link = to.typ, to.off, to.size, to.link
		}
		if old := seen[e.name]; old != nil {
			// perf archive packs what it lists twice, twice.
			same, err := sameEntry(ctx, img, old, e)
			if err != nil {
				return err
			}
			if !same {
				return fmt.Errorf("entry %q: stands twice, and differs", e.name)
			}
		}
		seen[e.name] = e
		for d := path.Dir(e.name); d != "." && !inner[d]; d = path.Dir(d) {
			inner[d] = true
		}
		if len(inner) > lim.MaxFiles {
			return fmt.Errorf("more than %d directories; raise the limit with --max-files", lim.MaxFiles)
		}
		if total += e.size; total > lim.MaxBytes {
			return fmt.Errorf("files of more than %d bytes; raise the limit with --max-bytes", lim.MaxBytes)
		}
	}
	for name, e := range seen {
		if e.typ != tar.TypeDir && inner[name] {
			return fmt.Errorf("entry %q: both a file or link, and a directory", name)
		}
	}
	return nil
}

// sameEntry reports whether two entries are alike, contents included.
func sameEntry(ctx context.Context, img *image, a, b *inEntry) (bool, error) {
	if a.typ != b.typ || a.size != b.size || a.link != b.link {
		return false, nil
	}
	if a.off == b.off {
		return true, nil
	}
	x, err := sumOf(ctx, img, a)
	if err != nil {
		return false, err
	}
	y, err := sumOf(ctx, img, b)
	return x == y, err
}

// sumOf returns the SHA-256 of an entry, in hex.
func sumOf(ctx context.Context, img *image, e *inEntry) (string, error) {
	h := sha256.New()
	if err := stream(ctx, io.NewSectionReader(img, e.off, e.size), e.size, h); err != nil {
		return "", fmt.Errorf("entry %q: %w", e.name, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

var (
	linkPattern     = regexp.MustCompile(`^\.build-id/([0-9a-f]{2})/([0-9a-f]{1,126})$`)
	manifestPattern = regexp.MustCompile(`^\.perfark/[0-9a-f]{16}\.json$`)
	mapPattern      = regexp.MustCompile(`^\.perfark/jit/perf-([0-9]{1,10})\.map$`)
	kcorePattern    = regexp.MustCompile(`^\[kernel\.kcore\]/([0-9a-f]+)/([0-9A-Za-z_-]{1,64})/(kcore|kallsyms|modules)$`)
	dumpPattern     = regexp.MustCompile(`^\.perfark/jit/([0-9]{1,10})-[0-9a-f]{16}\.dump$`)
)

// add takes an entry that has a place, and refuses all others.
func (x *index) add(e *inEntry) error {
	name := e.name
	if x.bundle {
		switch {
		case e.typ == tar.TypeReg && name == manifestName:
			return x.setManifest(e)
		case e.typ == tar.TypeReg && name == dataName:
			x.data, x.dataImg = e, x.img
			return nil
		case e.typ == tar.TypeDir && name == debugDir:
			return nil
		}
		rest, ok := strings.CutPrefix(name, debugDir+"/")
		if !ok {
			return fmt.Errorf("entry %q: has no place in a bundle", name)
		}
		name = rest
	}
	switch e.typ {
	case tar.TypeDir:
		return nil
	case tar.TypeSymlink:
		return x.addLink(name, e.link)
	}
	switch {
	case manifestPattern.MatchString(name) && !x.bundle:
		if err := x.setManifest(e); err != nil {
			return err
		}
		if want := ManifestName(x.raw); name != want {
			return fmt.Errorf("entry %q: its contents belong under the name %q", name, want)
		}
		return nil
	case mapPattern.MatchString(name), dumpPattern.MatchString(name):
	default:
		if _, _, _, err := splitObject(name); err != nil {
			return err
		}
	}
	if x.files[name] != nil {
		x.twice = e.name
	}
	x.files[name] = e
	return nil
}

func (x *index) setManifest(e *inEntry) error {
	if x.raw != nil {
		return fmt.Errorf("entry %q: a second manifest", e.name)
	}
	if e.size > maxManifest {
		return fmt.Errorf("entry %q: %d bytes, at most %d are allowed", e.name, e.size, maxManifest)
	}
	x.raw = make([]byte, e.size)
	if err := readFull(x.img, x.raw, e.off); err != nil {
		return err
	}
	m, err := ParseManifest(x.raw)
	if err != nil {
		return err
	}
	x.manifest = m
	return nil
}

// addLink takes a link from an id to its directory.
func (x *index) addLink(name, target string) error {
	m := linkPattern.FindStringSubmatch(name)
	if m == nil {
		return fmt.Errorf("entry %q: a symbolic link that is not .build-id/xx/rest", name)
	}
	dir, ok := strings.CutPrefix(target, "../../")
	id := m[1] + m[2]
	if !ok || checkName(dir) != nil || path.Base(dir) != id || path.Dir(dir) == "." || reserved(dir) {
		return fmt.Errorf("entry %q: a link to %q, want ../../<path>/%s", name, target, id)
	}
	x.links[id] = dir
	return nil
}

// reserved reports whether a name in the tree is inside our own directories.
func reserved(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return first == linkDir || first == ownDir
}

// splitObject splits the name of a file in the tree: <path>/<id>/<kind>, or
// <path>/<id> as the first perf wrote it.
func splitObject(name string) (dir, hexID string, kind store.Kind, err error) {
	if m := kcorePattern.FindStringSubmatch(name); m != nil && isHexID(m[1]) {
		return kcoreDir, m[1], kcoreKinds[m[3]], nil
	}
	dir, base := path.Split(name)
	dir = strings.TrimSuffix(dir, "/")
	switch kind = store.Kind(base); kind {
	case store.ELF, store.Debug, store.Kallsyms, store.VDSO, store.Index, store.SourceText, probes:
		dir, hexID = path.Split(dir)
		dir = strings.TrimSuffix(dir, "/")
	default:
		hexID = base
		kind = store.ELF
		if strings.HasPrefix(dir, "[kernel.") || strings.HasPrefix(dir, "[guest.kernel.") {
			kind = store.Kallsyms
		}
	}
	if dir == "" || reserved(dir) || !isHexID(hexID) {
		return "", "", "", fmt.Errorf("entry %q: has no place in a ~/.debug tree: want <path>/<id>/elf, debug, kallsyms, vdso, index, source", name)
	}
	return dir, hexID, kind, nil
}

// probes is a list of probe points in a ~/.debug tree. It is not used.
const probes store.Kind = "probes"

func isHexID(s string) bool {
	if len(s) < 2 || len(s)%2 != 0 || len(s) > 2*buildid.MaxSize {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// finish checks the manifest against the files, or without one makes out what
// the files are.
func (x *index) finish(ctx context.Context) error {
	for id, dir := range x.links {
		if !x.holds(dir) {
			x.dangling = append(x.dangling, id)
		}
	}
	slices.Sort(x.dangling)
	if x.manifest != nil {
		return x.match()
	}
	if x.bundle {
		return fmt.Errorf("no manifest")
	}
	x.guess()
	return nil
}

// holds reports whether a directory, or a file of that name, is there.
func (x *index) holds(dir string) bool {
	for _, kind := range []store.Kind{store.ELF, store.Kallsyms, store.VDSO, store.Debug, probes} {
		if x.files[dir+"/"+string(kind)] != nil {
			return true
		}
	}
	return x.files[dir] != nil
}

// match checks that the archive holds what its manifest lists, no less and no
// more.
func (x *index) match() error {
	if x.twice != "" {
		return fmt.Errorf("entry %q: stands twice", x.twice)
	}
	m := x.manifest
	listed := map[string]*File{}
	x.pooled = map[string]*File{}
	if m.Pool != "" && !x.bundle {
		return fmt.Errorf("the manifest names a pool, and only bundles have one")
	}
	for i := range m.Objects {
		for k := range m.Objects[i].Files {
			f := &m.Objects[i].Files[k]
			name := string(f.Name)
			e := x.files[name]
			switch {
			case f.Pooled && e != nil:
				return fmt.Errorf("entry %q: the manifest says that it is in the pool", name)
			case f.Pooled:
				x.pooled[name] = f
			case e == nil:
				return fmt.Errorf("the manifest lists %q, but it is not in the archive", name)
			case e.size != f.Size:
				return fmt.Errorf("entry %q: %d bytes, but the manifest says %d", name, e.size, f.Size)
			}
			if old := listed[name]; old != nil && (old.SHA256 != f.SHA256 || old.Size != f.Size || old.Pooled != f.Pooled) {
				return fmt.Errorf("the manifest lists %q twice, and differently", name)
			}
			if err := matchKind(&m.Objects[i], f); err != nil {
				return err
			}
			listed[name] = f
		}
	}
	for name := range x.files {
		if listed[name] == nil {
			return fmt.Errorf("entry %q: not in the manifest", name)
		}
	}
	if len(x.dangling) > 0 {
		return fmt.Errorf("the link of build id %s leads to nothing in the archive", x.dangling[0])
	}
	included := m.Data != nil && m.Data.Included
	switch {
	case included && x.data == nil:
		return fmt.Errorf("the manifest lists %s, but it is not in the archive", dataName)
	case !included && x.data != nil:
		return fmt.Errorf("entry %q: not in the manifest", dataName)
	case included && x.data.size != m.Data.Size:
		return fmt.Errorf("entry %q: %d bytes, but the manifest says %d", dataName, x.data.size, m.Data.Size)
	}
	x.objects = m.Objects
	return nil
}

// matchKind checks that a file of the manifest is of the kind that its name
// says.
func matchKind(o *Object, f *File) error {
	name := string(f.Name)
	if m := mapPattern.FindStringSubmatch(name); m != nil {
		if f.Kind != store.PerfMap || m[1] != strconv.Itoa(int(o.PID)) {
			return fmt.Errorf("the manifest takes %q for the %q of process %d", name, f.Kind, o.PID)
		}
		return nil
	}
	if m := dumpPattern.FindStringSubmatch(name); m != nil {
		if f.Kind != store.JITDump || m[1] != strconv.Itoa(int(o.PID)) {
			return fmt.Errorf("the manifest takes %q for the %q of process %d", name, f.Kind, o.PID)
		}
		return nil
	}
	if _, _, kind, err := splitObject(name); err != nil || kind != f.Kind {
		return fmt.Errorf("the manifest takes %q for kind %q", name, f.Kind)
	}
	return nil
}

// guess makes objects of the names in an archive without a manifest.
func (x *index) guess() {
	byDir := map[string]*Object{}
	for name, e := range x.files {
		if m := mapPattern.FindStringSubmatch(name); m != nil {
			pid, _ := strconv.ParseInt(m[1], 10, 32)
			byDir[name] = &Object{Kind: "perfmap", PID: int32(pid), Unverified: true,
				Files: []File{{Kind: store.PerfMap, Name: Name(name), Size: e.size}}}
			continue
		}
		dir, hexID, kind, err := splitObject(name)
		if err != nil || kind == probes {
			continue
		}
		home := dir + "/" + hexID
		if isKcore(kind) {
			home = path.Dir(name) // each is of another boot
		}
		o := byDir[home]
		if o == nil {
			o = &Object{Kind: guessKind(dir), Paths: []Name{Name(recordedPath(dir))}}
			if len(hexID) == 64 {
				o.Unverified = true // a content hash
			} else {
				o.ID, _ = buildid.Parse(hexID)
			}
			byDir[home] = o
		}
		o.Files = append(o.Files, File{Kind: kind, Name: Name(name), Size: e.size})
	}
	for _, o := range byDir {
		slices.SortFunc(o.Files, func(a, b File) int { return strings.Compare(string(a.Name), string(b.Name)) })
		x.objects = append(x.objects, *o)
	}
	slices.SortFunc(x.objects, func(a, b Object) int {
		return cmp.Or(strings.Compare(string(a.Files[0].Name), string(b.Files[0].Name)), cmp.Compare(a.PID, b.PID))
	})
}

// recordedPath is the inverse of what perf does to the paths of files.
func recordedPath(dir string) string {
	if strings.HasPrefix(dir, "[") {
		return dir
	}
	return "/" + dir
}

func guessKind(dir string) string {
	switch base := path.Base(dir); {
	case strings.HasPrefix(dir, "[kernel."), strings.HasPrefix(base, "vmlinux"):
		return "kernel"
	case strings.HasPrefix(dir, "[vdso"):
		return "vdso"
	case strings.HasSuffix(base, ".ko"), strings.Contains(base, ".ko."):
		return "module"
	}
	return "file"
}
