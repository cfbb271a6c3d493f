package store

import (
	"context"
	"errors"
	"path"
	"path/filepath"

	"github.com/perfark/perfark/buildid"
)

// Altlink opens the file of shared debug information (dwz) that f names in
// .gnu_debugaltlink: by its Build ID wherever src has it, and at the place the
// name says, which may be relative to f. The recorded path of the object is
// object. The file has been read and carries the id. The error wraps
// fs.ErrNotExist if there is none.
func Altlink(ctx context.Context, src Source, f *File, object, name string, id buildid.ID) (*File, error) {
	places := []string{name}
	if !path.IsAbs(name) {
		places = []string{path.Join(path.Dir(object), name)}
		if f.f != nil {
			// Debug files by id are often links into a tree of packages.
			if real, err := filepath.EvalSymlinks(f.f.Name()); err == nil {
				places = append([]string{filepath.Join(filepath.Dir(real), name)}, places...)
			}
		}
	}
	var refused []error
	for _, at := range places {
		for _, kind := range [...]Kind{Debug, ELF} {
			g, err := src.Get(ctx, Key{ID: id, Kind: kind, Path: at})
			if err == nil {
				return g, nil
			}
			refused = append(refused, err)
		}
	}
	return nil, errors.Join(refused...)
}
