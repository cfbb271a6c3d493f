package store

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/perfark/perfark/buildid"
)

// Names in a ~/.debug tree.
const (
	linkDir     = ".build-id"
	ownDir      = ".perfark"      // manifests of archives that were unpacked here
	mapDir      = ownDir + "/jit" // and their perf maps and jitdumps
	kernelName  = "[kernel.kallsyms]"
	guestName   = "[guest.kernel.kallsyms]"
	kcoreName   = "[kernel.kcore]"
	vdsoName    = "[vdso]"
	deletedMark = " (deleted)"
	tempMark    = ".perfark-tmp-"
)

// perfIDSize is the longest id perf knows, in bytes; it cuts longer ones.
const perfIDSize = 20

// dirID returns the id that names directories and links: perf cuts at 20
// bytes.
func dirID(id buildid.ID) buildid.ID {
	if len(id) > perfIDSize {
		return id[:perfIDSize]
	}
	return id
}

// idNames returns the hex names under which a tree may hold id, the likeliest
// first: as it is, as perf cuts it, without the zeros that old perf pads with,
// and with them.
func idNames(id buildid.ID) []string {
	ids := []buildid.ID{id, dirID(id), id.Trim()}
	if len(id) < perfIDSize {
		ids = append(ids, id+buildid.ID(make([]byte, perfIDSize-len(id))))
	}
	names := make([]string, 0, len(ids))
	for _, id := range ids {
		if s := id.String(); !slices.Contains(names, s) {
			names = append(names, s)
		}
	}
	return names
}

// linkName returns the place of an id's link in the tree: ab/cdef for abcdef.
func linkName(hex string) string {
	if len(hex) < 3 {
		return linkDir + "/" + hex
	}
	return linkDir + "/" + hex[:2] + "/" + hex[2:]
}

// TreePath returns the place of a recorded path inside a ~/.debug tree, without
// a slash in front: where the directory of its ids is. It fails for a path that
// cannot have one: empty, with a NUL, a component over 255 bytes, or inside
// .build-id or .perfark.
func TreePath(p string) (string, error) {
	if strings.IndexByte(p, 0) >= 0 {
		return "", fmt.Errorf("path %q: has a NUL byte", p)
	}
	t := path.Clean("/" + p)[1:]
	if t == "" {
		return "", fmt.Errorf("path %q: names no file", p)
	}
	if first, _, _ := strings.Cut(t, "/"); first == linkDir || first == ownDir {
		return "", fmt.Errorf("path %q: is kept for other things", p)
	}
	if strings.HasPrefix(t, tempMark) {
		return "", fmt.Errorf("path %q: is kept for temporary files", p)
	}
	for c := range strings.SplitSeq(t, "/") {
		if len(c) > 255 {
			return "", fmt.Errorf("path %q: a component of %d bytes", p, len(c))
		}
	}
	return t, nil
}

// ParseLink reads the text of a link .build-id/xx/rest: ../../PATH/ID, where
// PATH is a place in the tree. What else may be there, an absolute path or one
// that leaves the tree, is an error.
func ParseLink(text string) (treePath, id string, err error) {
	rest, ok := strings.CutPrefix(text, "../../")
	if !ok || rest != path.Clean(rest) {
		return "", "", fmt.Errorf("link target %q: not ../../PATH/ID", text)
	}
	dir, id := path.Split(rest)
	dir = strings.TrimSuffix(dir, "/")
	if t, err := TreePath(dir); err != nil || t != dir {
		return "", "", fmt.Errorf("link target %q: not a place in the tree", text)
	}
	if !isIDName(id) {
		return "", "", fmt.Errorf("link target %q: does not end in a build id", text)
	}
	return dir, id, nil
}

// linkText is the text of the link to an id's directory under a tree path.
func linkText(dir string) string { return "../../" + dir }

// isIDName reports whether s is the hex form of a Build ID or of a SHA-256.
func isIDName(s string) bool {
	return len(s) >= 2 && len(s) <= 2*buildid.MaxSize && len(s)%2 == 0 && isHex([]byte(s)) && s == strings.ToLower(s)
}

// isHashName reports whether s is the hex form of a SHA-256.
func isHashName(s string) bool { return len(s) == 64 && isIDName(s) }

// isKernel reports whether a recorded name is that of a kernel image.
func isKernel(p string) bool {
	return strings.HasPrefix(p, "[kernel.") || strings.HasPrefix(p, "[guest.kernel.")
}

// isVDSO reports whether a recorded name is that of a vDSO.
func isVDSO(p string) bool {
	switch p {
	case vdsoName, "[vdso32]", "[vdsox32]":
		return true
	}
	return false
}

// isMemory reports whether a recorded name is of something that no directory
// holds: memfd, shared memory, anonymous memory. "why" says what.
func isMemory(p string) (why string, ok bool) {
	switch {
	case strings.HasPrefix(p, "/memfd:"), strings.HasPrefix(p, "memfd:"):
		return "a memfd lives in memory only", true
	case strings.HasPrefix(p, "/SYSV"):
		return "shared memory lives in memory only", true
	case strings.HasPrefix(p, "//anon"), p == "/dev/zero", p == "/dev/zero"+deletedMark, strings.HasPrefix(p, "/anon_hugepage"):
		return "anonymous memory is no file", true
	case p == "" || p[0] == '[' && !isModuleName(p):
		return "not the name of a file", true
	}
	return "", false
}

// isModuleName reports whether a recorded name is a module without a path:
// [name]. The kernel's own names in brackets are none.
func isModuleName(p string) bool {
	if len(p) < 3 || p[0] != '[' || p[len(p)-1] != ']' || isKernel(p) || isVDSO(p) {
		return false
	}
	switch p {
	case "[heap]", "[vvar]", "[vsyscall]", "[uprobes]", "[anon]":
		return false
	}
	return !strings.HasPrefix(p, "[stack") && !strings.HasPrefix(p, "[anon") && !strings.HasPrefix(p, "[vvar") &&
		!strings.HasPrefix(p, "[bpf") && !strings.ContainsAny(p, " /")
}

// moduleName returns the kernel's name of a module: that of its file without
// .ko and the suffix of a compression, or what is between brackets.
func moduleName(p string) string {
	if isModuleName(p) {
		p = p[1 : len(p)-1]
	}
	p = path.Base(p)
	// However it is compressed: what is in the file tells.
	if i := strings.LastIndex(p, ".ko"); i > 0 && (p[i+3:] == "" || p[i+3] == '.' && !strings.Contains(p[i+4:], ".")) {
		p = p[:i]
	}
	return strings.ReplaceAll(p, "-", "_")
}
