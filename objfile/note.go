package objfile

import (
	"fmt"
	"io"
	"slices"

	"github.com/perfark/perfark/buildid"
)

// Notes are small; a core file's are not, and a hostile file's may all be
// the same megabyte. These bound what is looked at in one file.
const (
	maxNote  = 1 << 20 // bytes of one section or segment
	maxNotes = 8 << 20 // bytes in all
)

// ReadBuildID returns the build id of the ELF file r of size bytes, and ""
// if it has none. It reads the headers and notes only, unless r is
// compressed. The id is that of BuildID. The error wraps ErrNotELF if r is
// something else.
//
// For a file inside another one, such as a library that is mapped out of an
// APK, r is an io.SectionReader of it.
func ReadBuildID(r io.ReaderAt, size int64) (buildid.ID, error) {
	f, err := Open(r, size, "elf", nil)
	if err != nil {
		return "", err
	}
	return f.BuildID(), nil
}

// BuildID returns the GNU build id, and "" if there is none. If the file has
// several that differ, it is the first and there is a warning; see IDs.
func (f *File) BuildID() buildid.ID {
	if len(f.ids) == 0 {
		return ""
	}
	return f.ids[0]
}

// IDs returns all distinct GNU build ids of the file, in the order met: in
// note sections, or, if these have none, in PT_NOTE segments. A sound file has
// at most one.
func (f *File) IDs() []buildid.ID { return f.ids }

// GoID returns the build id that the Go linker writes, text such as
// "abc/def/ghi/jkl"; "" if there is none. It is no build id to perf and the
// kernel.
func (f *File) GoID() string { return f.goID }

// readNotes collects the ids. Sections come first, as the program headers of
// a separate debug file point to bytes that are not there. A file without
// sections has its id in a segment only.
func (f *File) readNotes() {
	left := uint64(maxNotes)
	for _, s := range f.sections {
		if s.typ == shtNote && s.flags&shfCompressed == 0 {
			f.readNote("section "+s.name, s.off, s.size, s.addralign, &left)
		}
	}
	if f.DebugOnly() || len(f.ids) > 0 && f.goID != "" {
		return
	}
	for i, p := range f.segments {
		if p.typ == ptNote {
			f.readNote(fmt.Sprintf("segment %d", i), p.off, p.filesz, p.align, &left)
		}
	}
}

// readNote reads the notes at off, as long as all notes together stay within
// left bytes.
func (f *File) readNote(what string, off, size, align uint64, left *uint64) {
	if size > maxNote {
		f.warn(WarnNotes, "%s: notes of %d bytes, only %d are read", what, size, maxNote)
		size = maxNote
	}
	if size > *left {
		return
	}
	*left -= size
	b, err := f.read(off, size, "notes")
	if err != nil {
		f.warn(WarnNotes, "%s: %v", what, err)
		return
	}
	f.budget.Free(int64(size))
	n, err := buildid.ParseNotes(b, int64(off), f.big, int(min(align, 8)))
	if err != nil {
		f.warn(WarnNotes, "%s: %v", what, err)
	}
	for _, id := range n.All {
		f.addID(id)
	}
	if f.goID == "" {
		f.goID = n.Go
	}
}

// addID adds a build id. Few are kept: a sound file has one.
func (f *File) addID(id buildid.ID) {
	if id == "" || len(f.ids) >= 8 || slices.Contains(f.ids, id) {
		return
	}
	f.ids = append(f.ids, id)
	if len(f.ids) == 2 {
		f.warn(WarnTwoIDs, "two build ids: %s, and %s which is not used", f.ids[0], id)
	}
}
