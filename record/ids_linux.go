package record

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/store"
)

// A mapping is what is known of a mapping of a file.
type mapping struct {
	pid        int
	start, end uint64
	maj, min   uint32
	ino, gen   uint64
	name       string
}

// identities finds the Build IDs of mapped files while they are mapped.
type identities struct {
	proc  string
	known map[fileKey]buildid.ID
	vdso  *buildid.ID
}

type fileKey struct {
	maj, min uint32
	ino, gen uint64
	name     string
}

// of returns the Build ID of what is mapped: "" if there is none, or it cannot
// be read.
func (t *identities) of(m mapping) buildid.ID {
	if m.name == "[vdso]" {
		if t.vdso == nil {
			id, _ := store.RunningVDSO()
			t.vdso = &id
		}
		return *t.vdso
	}
	if m.ino == 0 || !strings.HasPrefix(m.name, "/") || strings.HasPrefix(m.name, "//anon") {
		return ""
	}
	key := fileKey{m.maj, m.min, m.ino, m.gen, m.name}
	if id, ok := t.known[key]; ok {
		return id
	}
	id, ok := t.read(m)
	if !ok {
		return ""
	}
	if t.known == nil {
		t.known = map[fileKey]buildid.ID{}
	}
	t.known[key] = id
	return id
}

// read reads the id of a file: through the mapping itself, or, where that is
// not allowed or gone, by its name as the process sees it if that is the same
// file still.
func (t *identities) read(m mapping) (buildid.ID, bool) {
	dir := filepath.Join(t.proc, strconv.Itoa(m.pid))
	if id, ok := t.open(filepath.Join(dir, "map_files", fmt.Sprintf("%x-%x", m.start, m.end)), nil); ok {
		return id, true
	}
	name := strings.TrimSuffix(m.name, " (deleted)")
	for _, root := range []string{filepath.Join(dir, "root"), ""} {
		if id, ok := t.open(root+name, &m); ok {
			return id, true
		}
	}
	return "", false
}

// open reads the id of a file, if it is the one of m.
func (t *identities) open(name string, m *mapping) (buildid.ID, bool) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return "", false
	}
	defer f.Close()
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", false
	}
	if m != nil && (st.Ino != m.ino || unix.Major(st.Dev) != m.maj || unix.Minor(st.Dev) != m.min) {
		return "", false
	}
	id, err := objfile.ReadBuildID(f, st.Size)
	if err != nil {
		return "", true // it has none, and that will not change
	}
	return id, true
}
