// Package archive packs the binaries behind a profile, carries them to
// another machine, and opens them there.
//
// There are two kinds of archive, described in docs/archive.md. A symbols
// archive is a compressed tar of a ~/.debug tree, the kind perf archive makes.
// A bundle (.perfark) holds the perf.data too and is read in place. What comes
// in from outside is not trusted: see Unpack and Open.
package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/store"
)

// A Format is a kind of archive.
type Format uint8

// The kinds of archive.
const (
	Bzip2  Format = iota // FILE.tar.bz2, what perf archive writes
	Zstd                 // FILE.tar.zst
	Gzip                 // FILE.tar.gz
	XZ                   // FILE.tar.xz
	Tar                  // FILE.tar, not compressed
	Bundle               // FILE.perfark: with the perf.data, readable in place
)

var formats = [...]struct{ name, ext string }{
	Bzip2:  {"bz2", ".tar.bz2"},
	Zstd:   {"zst", ".tar.zst"},
	Gzip:   {"gz", ".tar.gz"},
	XZ:     {"xz", ".tar.xz"},
	Tar:    {"tar", ".tar"},
	Bundle: {"perfark", ".perfark"},
}

// String returns the name of the format as --format takes it: bz2, zst, gz,
// xz, tar or perfark.
func (f Format) String() string {
	if int(f) < len(formats) {
		return formats[f].name
	}
	return fmt.Sprintf("format %d", uint8(f))
}

// Ext returns the end of the names of such files, such as ".tar.bz2".
func (f Format) Ext() string { return formats[f].ext }

// ParseFormat is the inverse of Format.String. It also takes the names of the
// programs: bzip2, zstd, gzip.
func ParseFormat(s string) (Format, error) {
	switch s {
	case "bzip2":
		return Bzip2, nil
	case "zstd":
		return Zstd, nil
	case "gzip":
		return Gzip, nil
	}
	for f := range formats {
		if formats[f].name == s {
			return Format(f), nil
		}
	}
	return 0, fmt.Errorf("format %q: not one of bz2, zst, gz, xz, tar, perfark", s)
}

// FormatOf returns the format that a file name asks for.
func FormatOf(name string) (Format, bool) {
	name = strings.ToLower(name)
	for f, x := range formats {
		if strings.HasSuffix(name, x.ext) {
			return Format(f), true
		}
	}
	for ext, f := range map[string]Format{".tbz2": Bzip2, ".tbz": Bzip2, ".tzst": Zstd, ".tgz": Gzip, ".txz": XZ} {
		if strings.HasSuffix(name, ext) {
			return f, true
		}
	}
	return 0, false
}

// Names in an archive.
const (
	manifestName = "MANIFEST.json" // of a bundle; its first member
	dataName     = "perf.data"     // of a bundle
	debugDir     = ".debug"        // of a bundle: where its tree is
	linkDir      = ".build-id"     // in the tree
	ownDir       = ".perfark"      // in the tree: manifests and perf maps
)

// ObjectName returns the name of a file in the tree: <path>/<id>/<kind>, with
// the recorded path less its leading slashes. Objects that have no id stand
// under the SHA-256 of their contents, in hex. Empty components and "." are
// left out, ".." is written "%2e%2e", and so is the dot of a leading .build-id
// or .perfark. What is too long for a file system is cut, and ends in a hash.
func ObjectName(recorded string, id buildid.ID, sum string, kind store.Kind) string {
	dir := id.String()
	if id == "" {
		dir = sum
	}
	return treePath(recorded) + "/" + dir + "/" + string(kind)
}

// PerfMapName returns the name of a perf map in the tree.
func PerfMapName(pid int32) string { return fmt.Sprintf("%s/jit/perf-%d.map", ownDir, pid) }

// JITDumpName returns the name of a jitdump in the tree. sum is the SHA-256 of
// its contents, in hex.
func JITDumpName(pid int32, sum string) string {
	return fmt.Sprintf("%s/jit/%d-%.16s.dump", ownDir, pid, sum)
}

// kcoreDir is where the tree has copies of kernel memory.
const kcoreDir = "[kernel.kcore]"

// kcoreKinds are the kinds of the files of a copy of kernel memory, by name.
var kcoreKinds = map[string]store.Kind{"kcore": store.KCore, "kallsyms": store.KCoreKallsyms, "modules": store.KCoreModules}

// isKcore reports whether files of a kind are of a copy of kernel memory.
func isKcore(k store.Kind) bool {
	return k == store.KCore || k == store.KCoreKallsyms || k == store.KCoreModules
}

// KcoreName returns the name in the tree of a file of a copy of kernel memory,
// which is where perf looks for it. stamp tells the copies of one kernel apart.
func KcoreName(id buildid.ID, stamp string, kind store.Kind) string {
	for name, k := range kcoreKinds {
		if k == kind {
			return kcoreDir + "/" + id.String() + "/" + stamp + "/" + name
		}
	}
	return ""
}

// isLog reports whether files of a kind are what a process wrote about its own
// code. They stand in ownDir, and are for its user only.
func isLog(k store.Kind) bool { return k == store.PerfMap || k == store.JITDump }

// LinkName returns the name in the tree of the link that leads from an id to
// its directory, and where it leads: .build-id/xx/rest and ../../<dir>.
func LinkName(id buildid.ID, file string) (name, target string) {
	s := id.String()
	return linkDir + "/" + s[:2] + "/" + s[2:], "../../" + path.Dir(file)
}

// ManifestName returns the name in the tree of the manifest whose bytes are
// given. Manifests of several archives can stand in one tree.
func ManifestName(b []byte) string {
	sum := sha256.Sum256(b)
	return ownDir + "/" + hex.EncodeToString(sum[:8]) + ".json"
}

// treePath turns a recorded path into a path in the tree.
func treePath(p string) string {
	var out []string
	for c := range strings.SplitSeq(p, "/") {
		switch {
		case c == "" || c == ".":
			continue
		case c == "..":
			c = "%2e%2e"
		case len(out) == 0 && (c == linkDir || c == ownDir):
			c = "%2e" + c[1:]
		case len(c) > 255:
			c = shorten(c, c)
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return "%"
	}
	const most = 4096 - 2*(1+2*buildid.MaxSize) // an id and a kind follow
	t := strings.Join(out, "/")
	if len(t) > most {
		return shorten(out[len(out)-1], t)
	}
	return t
}

// shorten cuts a component of a path so that it ends in a hash of whole, and
// is at most 255 bytes long.
func shorten(s, whole string) string {
	sum := sha256.Sum256([]byte(whole))
	tail := "%" + hex.EncodeToString(sum[:8])
	return s[:min(len(s), 255-len(tail))] + tail
}

// checkName refuses names that do not stay in the tree or that have more than
// one spelling.
func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("name is empty")
	case len(name) > 4096:
		return fmt.Errorf("name of %d bytes that begins with %.40q: at most 4096 are allowed", len(name), name)
	case strings.HasPrefix(name, "/"):
		return fmt.Errorf("name %q is absolute", name)
	case strings.IndexByte(name, 0) >= 0:
		return fmt.Errorf("name %q holds a zero byte", name)
	}
	for c := range strings.SplitSeq(name, "/") {
		if c == "" || c == "." || c == ".." {
			return fmt.Errorf("name %q has a component %q", name, c)
		}
		if len(c) > 255 {
			return fmt.Errorf("name that begins with %.40q has a component of %d bytes: at most 255 are allowed", name, len(c))
		}
	}
	return nil
}

// Progress is called now and then, from one goroutine at a time, with the
// bytes done, the bytes in all (0 if unknown), and what is being done.
type Progress func(done, total int64, what string)

// EncodeOptions says how to write an archive.
type EncodeOptions struct {
	Format   Format
	Level    int // of compression: 0 means the format's default, 1 fast, 9 small
	Workers  int // 0 means one per CPU; the bytes written do not depend on it
	Progress Progress
}

// Contents opens what goes into an archive.
type Contents struct {
	Data func() (io.ReadCloser, error)      // the perf.data; called if Manifest.Data is Included
	File func(*File) (io.ReadCloser, error) // a file of the manifest

	// A reader with a method Same() bool knows by itself whether what was read
	// of it is what the manifest tells of; of others the SHA-256 is checked.
}

// A ChangedError says that a file's bytes are not those of the manifest: it
// was changed between being looked at and being packed.
type ChangedError struct {
	Name string
	Why  string
}

func (e *ChangedError) Error() string {
	return fmt.Sprintf("%q: changed while it was packed: %s", e.Name, e.Why)
}

// Encode writes an archive to w: the manifest m, and all files it lists, in
// the order of their names. Files under one name are written once. Every file
// is checked against the size and the SHA-256 in m while it is written; the
// error is a *ChangedError if it differs. After an error what was written to w
// is of no use.
func Encode(ctx context.Context, w io.Writer, m *Manifest, c Contents, o EncodeOptions) error {
	return encode(ctx, w, m, c, o)
}
