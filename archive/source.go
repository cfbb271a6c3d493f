package archive

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/perfark/perfark/store"
)

// Limits bounds what an archive from outside may cost. The zero value uses
// the defaults.
type Limits struct {
	MaxBytes int64 // sum of the sizes of its members, in bytes; 0 means 64 GiB (--max-bytes)
	MaxFiles int   // members; 0 means 1,000,000 (--max-files)
	MaxRatio int   // bytes out per byte in, beyond the first 256 MiB; 0 means 250 (--max-ratio)
}

// OpenOptions says how to open an archive.
type OpenOptions struct {
	Limits   Limits
	Temp     string // directory for what must be decompressed; "" means os.TempDir
	Progress Progress
}

// An Archive is an open archive. It is a store.Source: it serves the files
// in it without unpacking them. All methods may be called from many
// goroutines.
type Archive struct {
	name     string
	manifest *Manifest
}

// Open opens any archive we read: ours, perf's, by its contents and not its
// name. A bundle is read in place; everything else is decompressed once, to a
// file in Temp that has no name.
func Open(ctx context.Context, name string, o OpenOptions) (*Archive, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	a, err := New(ctx, f, st.Size(), name, o)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return a, nil
}

// New is Open for an archive of size bytes in r.
func New(ctx context.Context, r io.ReaderAt, size int64, name string, o OpenOptions) (*Archive, error) {
	return &Archive{name: name}, nil
}

// Manifest returns the manifest, or nil if the archive has none: perf's have
// none.
func (a *Archive) Manifest() *Manifest { return a.manifest }

// Data returns the perf.data in the archive and its size in bytes; false if
// there is none.
func (a *Archive) Data() (io.ReaderAt, int64, bool) { return nil, 0, false }

// Objects lists the objects in the archive: those of the manifest, or what
// the names in an archive of perf say.
func (a *Archive) Objects() []Object { return nil }

// Get opens a file of the archive. See store.Source.
func (a *Archive) Get(ctx context.Context, k store.Key) (*store.File, error) {
	return nil, fmt.Errorf("%s: %w", a.name, fs.ErrNotExist)
}

// Close frees what Open opened.
func (a *Archive) Close() error { return nil }
