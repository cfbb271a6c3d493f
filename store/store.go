// Package store finds the files behind a profile: by Build ID, on this host,
// in a ~/.debug tree, in debug directories, in an archive.
package store

import (
	"context"
	"io"

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
)

// A Key asks for a file.
type Key struct {
	ID   buildid.ID // "" if the recording has none: then by Path, and the answer is Unverified
	Kind Kind
	Path string // the recorded path: tells objects apart that share an id, and is all there is without one
	PID  int32  // PerfMap: whose
}

// A File is an open file of a Source. The bytes of a File never change.
type File struct {
	io.ReaderAt
	Size       int64
	Origin     string // where it came from, for people: a path, or "archive.perfark: name"
	Unverified bool   // nothing ties it to the recording but its path
	Close      func() error
}

// A Source yields files. All methods may be called from many goroutines.
type Source interface {
	// Get opens a file. The error wraps fs.ErrNotExist if there is none. A
	// file under a Build ID has been read and found to carry that id, unless
	// it is of a kind that carries none (kallsyms, perf maps).
	Get(ctx context.Context, k Key) (*File, error)
}
