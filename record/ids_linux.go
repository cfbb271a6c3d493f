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
	known map[fileKey]knownID
	vdso  *buildid.ID
}

// A knownID is an id that was read, and the state of the file then: one that is
// written over has another.
type knownID struct {
	id    buildid.ID
	ctime unix.Timespec
	size  int64
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
	known, have := t.known[key]
	now, ok := t.read(m, known, have)
	if !ok {
		return ""
	}
	if t.known == nil {
		t.known = map[fileKey]knownID{}
	}
	t.known[key] = now
	return now.id
}

// read reads the id of a file: through the mapping itself, or, where that is
// not allowed or gone, by its name as the process sees it if that is the same
// file still. What is known of the file is enough if it did not change, or is
// gone.
func (t *identities) read(m mapping, known knownID, have bool) (knownID, bool) {
	dir := filepath.Join(t.proc, strconv.Itoa(m.pid))
	name := strings.TrimSuffix(m.name, " (deleted)")
	for i, at := range []string{filepath.Join(dir, "map_files", fmt.Sprintf("%x-%x", m.start, m.end)), filepath.Join(dir, "root") + name, name} {
		same := &m
		if i == 0 {
			same = nil // it is the mapping
		}
		if id, ok := t.open(at, same, known, have); ok {
			return id, true
		}
	}
	return known, have
}

// open reads the id of a file, if it is the one of m.
func (t *identities) open(name string, m *mapping, known knownID, have bool) (knownID, bool) {
	var st unix.Stat_t
	is := func() bool {
		return st.Mode&unix.S_IFMT == unix.S_IFREG && (m == nil || st.Ino == m.ino && unix.Major(st.Dev) == m.maj && unix.Minor(st.Dev) == m.min)
	}
	if unix.Stat(name, &st) != nil || !is() {
		return knownID{}, false
	}
	if have && st.Ctim == known.ctime && st.Size == known.size {
		return known, true
	}
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return knownID{}, false
	}
	defer f.Close()
	if unix.Fstat(int(f.Fd()), &st) != nil || !is() {
		return knownID{}, false
	}
	id, err := objfile.ReadBuildID(f, st.Size)
	if err != nil {
		id = "" // it has none
	}
	return knownID{id, st.Ctim, st.Size}, true
}
