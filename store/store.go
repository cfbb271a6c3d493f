// Package store finds the files behind a profile: by Build ID, on this host,
// in a ~/.debug tree, in debug directories, in an archive. It also keeps a
// ~/.debug tree that stock perf reads.
//
// What a Source yields under a Build ID has been read and carries that id.
// What it refuses it refuses with a reason, a *RefusedError. The layout, the
// rules and their order are in docs/store.md.
package store

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/perfark/perfark/buildid"
)

// A Kind is the role of a file, and its name in perf's ~/.debug layout.
type Kind string

// The kinds of files.
const (
	ELF      Kind = "elf"      // the object itself; a module may be compressed
	Debug    Kind = "debug"    // its separate debug file
	Kallsyms Kind = "kallsyms" // a copy of /proc/kallsyms
	VDSO     Kind = "vdso"     // the vDSO image
	PerfMap  Kind = "perfmap"  // /tmp/perf-PID.map
	JITDump  Kind = "jitdump"  // jit-PID.dump, which the process had mapped
	Index    Kind = "index"    // what perfark found out about the addresses of an object, see package index

	// Split is a .dwo or .dwp file of split DWARF. It has no id of its own and
	// is asked for by its path; whoever reads it compares the DWO ids. In a
	// tree it is kept as an object without an id.
	Split Kind = "split"

	// SourceText is a file of source code, asked for by the path that debug
	// information has. It stands in archives alone, as an object without an id.
	SourceText Kind = "source"
)

// carriesID reports whether files of the kind hold the Build ID they are
// asked for by.
func (k Kind) carriesID() bool { return k == ELF || k == Debug || k == VDSO }

// A Key asks for a file.
type Key struct {
	ID   buildid.ID // "" if the recording has none: then by Path, and the answer is Unverified
	Kind Kind
	Path string // the recorded path: tells objects apart that share an id, and is all there is without one
	PID  int32  // PerfMap, JITDump: whose; else a process that had it mapped, 0 if unknown

	// Identity of the mapped file where the recording gives it (MMAP2 without
	// a Build ID); 0 if not. It admits a file that has no id.
	Maj, Min    uint32
	Ino, InoGen uint64

	// KCore and its companions: what has to be where in that copy of a kernel's
	// memory, as each is of one boot, and of the modules that were loaded then.
	RefName    string // a symbol of the kernel; "": no copy is used
	RefAddr    uint64
	Module     string // by name or path; "": none is asked for
	ModuleAddr uint64 // where it begins
}

// String describes what is asked for.
func (k Key) String() string {
	switch {
	case k.Kind == KCore && k.Module != "":
		return fmt.Sprintf("copy of the kernel's memory with module %q at 0x%x", k.Module, k.ModuleAddr)
	case k.Kind == PerfMap:
		return fmt.Sprintf("perf map of process %d", k.PID)
	case k.Kind == JITDump:
		return fmt.Sprintf("jitdump %q of process %d", k.Path, k.PID)
	case k.ID != "" && k.Path != "":
		return fmt.Sprintf("%s of %q with build id %s", k.Kind, k.Path, k.ID)
	case k.ID != "":
		return fmt.Sprintf("%s with build id %s", k.Kind, k.ID)
	}
	return fmt.Sprintf("%s of %q, which has no build id", k.Kind, k.Path)
}

// A File is an open file of a Source. The bytes of a File never change, as
// long as Unchanged says so for those that come from a directory others write.
type File struct {
	io.ReaderAt
	Size       int64
	Origin     string // where it came from, for people: a path, or "archive.perfark: name"
	Unverified bool   // nothing ties it to the recording but its path
	Close      func() error

	// Bound is set if the file is known to be that of the asked path, not only
	// one of the same Build ID: a process has it mapped, it is at the path, or
	// stands under the path in a ~/.debug tree. It decides where two programs
	// share an id.
	Bound bool

	// Live is set for the memory of the kernel that runs.
	Live bool

	// Info is that of a file of a file system as it was opened, nil for others.
	Info fs.FileInfo

	f      *os.File // nil if not a file of a file system
	mapped bool     // a process of the recording has it mapped
}

// Unchanged fails if the file was written to since it was opened. Whoever
// copies a File calls it after the copy.
func (f *File) Unchanged() error {
	if f.f == nil {
		return nil
	}
	now, err := f.f.Stat()
	if err != nil {
		return err
	}
	if now.Size() != f.Info.Size() || !now.ModTime().Equal(f.Info.ModTime()) || !sameChange(now, f.Info) {
		return fmt.Errorf("%s: changed while it was read", f.Origin)
	}
	return nil
}

// A Source yields files. All methods may be called from many goroutines.
type Source interface {
	// Get opens a file. The error wraps fs.ErrNotExist if there is none; what
	// was there and could not be used is in it as *RefusedError. A file under
	// a Build ID has been read and found to carry that id, unless it is of a
	// kind that carries none (kallsyms, perf maps).
	Get(ctx context.Context, k Key) (*File, error)
}
