package record

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

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
	at         int64 // ns of the wall clock; 0 if it is not known
}

// identities finds the Build IDs of mapped files while they are mapped. It is
// asked by the reader of the rings, and by the one of the mappings alone.
type identities struct {
	proc string
	keep *keeper // nil: no copies are kept

	mu         sync.Mutex
	known      map[fileKey]knownID
	knownBytes int
	early      map[mapping]sighting
	earlyBytes int
	vdso       *buildid.ID
}

// A sighting is what was found out about a mapping by the side, before the
// reader of the rings comes to it. By then the file may be another.
type sighting struct {
	id buildid.ID
	n  int // how often
}

// Bounds of what is kept, in bytes: paths may be long. When there is more, it is
// found out again.
const (
	mostKnown = 16 << 20
	mostEarly = 4 << 20
	entrySize = 200 // of an entry without its path
)

// A knownID is an id that was read, and the state of the file then: one that is
// written over has another.
type knownID struct {
	id    buildid.ID
	ctime unix.Timespec
	size  int64
	file  *kept // nil: nobody keeps it
}

type fileKey struct {
	maj, min uint32
	ino, gen uint64
	name     string
}

// of returns the Build ID of what is mapped, as it was when it was mapped: "" if
// there is none, or it cannot be read.
func (t *identities) of(m mapping) buildid.ID {
	m.at = 0
	t.mu.Lock()
	e, ok := t.early[m]
	if e.n--; ok {
		t.earlyBytes -= entrySize + len(m.name)
		t.early[m] = e
		if e.n <= 0 {
			delete(t.early, m)
		}
	}
	t.mu.Unlock()
	if ok {
		return e.id
	}
	return t.look(m)
}

// sight looks at what has just been mapped, and has of return what it found.
// Files that are in seen have just been looked at.
func (t *identities) sight(m mapping, seen map[fileKey]buildid.ID) {
	key := fileKey{m.maj, m.min, m.ino, m.gen, m.name}
	id, ok := seen[key]
	if !ok {
		id = t.look(m)
		if m.ino != 0 {
			seen[key] = id
		}
	}
	m.at = 0
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.early == nil || t.earlyBytes > mostEarly {
		t.early, t.earlyBytes = map[mapping]sighting{}, 0
	}
	t.earlyBytes += entrySize + len(m.name)
	e := t.early[m]
	if e.id != id {
		e = sighting{id: id}
	}
	e.n++
	t.early[m] = e
}

// look returns the Build ID of what is mapped, and has it kept.
func (t *identities) look(m mapping) buildid.ID {
	if m.name == "[vdso]" {
		return t.ofVDSO()
	}
	if m.ino == 0 || !strings.HasPrefix(m.name, "/") || strings.HasPrefix(m.name, "//anon") {
		t.keep.code(m)
		return ""
	}
	if t.keep.dump(m) {
		return ""
	}
	key := fileKey{m.maj, m.min, m.ino, m.gen, m.name}
	t.mu.Lock()
	known, have := t.known[key]
	t.mu.Unlock()
	if have && t.unchanged(&m, known) {
		t.keep.again(known.file, m)
		return known.id
	}
	f, err := t.open(&m)
	if err != nil {
		if !have {
			t.keep.gone(m)
		}
		return known.id
	}
	id, err := objfile.ReadBuildID(f, f.Size)
	if err != nil {
		id = "" // it has none
	}
	st, fsType, err := f.Stat()
	if err != nil {
		f.Close()
		return id
	}
	file := t.keep.offer(m, id, f, &st, fsType)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.know(key, knownID{id, st.Ctim, st.Size, file})
	return id
}

// know keeps what is known of a file. The lock is held.
func (t *identities) know(key fileKey, is knownID) {
	if t.known == nil || t.knownBytes > mostKnown {
		t.known, t.knownBytes = map[fileKey]knownID{}, 0
	}
	if _, ok := t.known[key]; !ok {
		t.knownBytes += entrySize + len(key.name)
	}
	t.known[key] = is
}

// given is told of a mapping whose id the kernel gave. Which file it is, it did
// not.
func (t *identities) given(m mapping, id buildid.ID) {
	if t.keep == nil || !strings.HasPrefix(m.name, "/") || id == "" {
		return
	}
	key := fileKey{name: m.name + "\x00" + string(id)}
	t.mu.Lock()
	_, have := t.known[key]
	if !have {
		t.know(key, knownID{id: id})
	}
	t.mu.Unlock()
	if have {
		return
	}
	p, err := store.OpenProcess(t.proc, m.pid)
	if err != nil {
		t.keep.gone(m)
		return
	}
	defer p.Close()
	for _, open := range t.ways(p, &m) {
		f, err := open()
		if err != nil {
			continue
		}
		st, fsType, err := f.Stat()
		got, err2 := objfile.ReadBuildID(f, f.Size)
		if errors.Join(err, err2, p.Same()) == nil && got.Match(id) {
			t.keep.offer(m, id, f, &st, fsType)
			return
		}
		f.Close()
	}
	t.keep.gone(m)
}

func (t *identities) ofVDSO() buildid.ID {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.vdso == nil {
		id, _ := store.RunningVDSO()
		t.vdso = &id
	}
	return *t.vdso
}

// unchanged reports whether a file that is known is what it was, or cannot be
// looked at any more.
func (t *identities) unchanged(m *mapping, known knownID) bool {
	dir := filepath.Join(t.proc, strconv.Itoa(m.pid))
	at := filepath.Join(dir, "map_files", fmt.Sprintf("%x-%x", m.start, m.end))
	name := strings.TrimSuffix(m.name, " (deleted)")
	var st unix.Stat_t
	for _, at := range []string{at, filepath.Join(dir, "root") + name, name} {
		if unix.Stat(at, &st) == nil && m.is(&st) {
			return st.Ctim == known.ctime && st.Size == known.size
		}
	}
	// Some file systems show stat another device than the kernel has.
	if unix.Stat(at, &st) == nil && unix.Major(uint64(st.Dev)) == 0 && st.Ino == m.ino {
		return st.Ctim == known.ctime && st.Size == known.size
	}
	return true
}

// is reports whether what stat says of a regular file is of m.
func (m *mapping) is(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFREG && st.Ino == m.ino && unix.Major(uint64(st.Dev)) == m.maj && unix.Minor(uint64(st.Dev)) == m.min
}

// then reports whether a file with the inode of m is the one that was mapped, as
// it was: its number was not used again since, and nobody wrote to it.
func (m *mapping) then(f *store.File, st *unix.Stat_t) bool {
	if gen := f.Generation(); m.gen != 0 && gen != 0 && gen != uint32(m.gen) {
		return false
	}
	return m.at == 0 || st.Mtim.Nano() <= m.at
}

// ways are the ways to what a process has mapped: the mapping itself, where we
// may use it; its program; the name as it sees it.
func (t *identities) ways(p *store.Process, m *mapping) []func() (*store.File, error) {
	name := strings.TrimSuffix(m.name, " (deleted)")
	return []func() (*store.File, error){
		func() (*store.File, error) { return p.Mapping(m.start, m.end) },
		func() (*store.File, error) { return p.InRoot(name) },
		p.Exe,
	}
}

// open opens the file that is mapped: by the process, which is the one that it
// was before afterwards, else by its name as we see it.
func (t *identities) open(m *mapping) (*store.File, error) {
	if p, err := store.OpenProcess(t.proc, m.pid); err == nil {
		defer p.Close()
		for i, open := range t.ways(p, m) {
			f, err := open()
			if err != nil {
				continue
			}
			st, _, err := f.Stat()
			if err == nil && (m.is(&st) || i == 0 && t.named(p, m, &st)) && m.then(f, &st) && p.Same() == nil {
				return f, nil
			}
			f.Close()
		}
	}
	f, err := store.OpenPath(strings.TrimSuffix(m.name, " (deleted)"))
	if err != nil {
		return nil, err
	}
	if st, _, err := f.Stat(); err != nil || !m.is(&st) || !m.then(f, &st) {
		f.Close()
		return nil, fs.ErrNotExist
	}
	return f, nil
}

// named reports whether a mapping of a process is m by what the kernel prints
// of it: btrfs, overlayfs and the like show stat another device.
func (t *identities) named(p *store.Process, m *mapping, st *unix.Stat_t) bool {
	if unix.Major(uint64(st.Dev)) != 0 {
		return false
	}
	path, err := p.MappingPath(m.start, m.end)
	return err == nil && store.SameName(path, m.name)
}
