package store

import (
	"context"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/objfile"
)

// OneFile returns a Source of one object: the file of that name, for a key
// with its Build ID, or, as unverified, for a key without one.
func OneFile(name string) Source { return oneFile(name) }

type oneFile string

func (o oneFile) Get(ctx context.Context, k Key) (*File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := search{key: k}
	if k.Kind != ELF || k.ID == "" && k.Path == "" {
		return nil, s.err(string(o))
	}
	f, err := openPath(string(o))
	f, err = checked(f, err, k)
	if err != nil {
		s.note(string(o), err)
		return nil, s.err(string(o))
	}
	f.Unverified = k.ID == ""
	f.Bound = k.Path == string(o)
	return f, nil
}

// FileID returns the Build ID of an object file, "" if it has none. The error
// wraps objfile.ErrNotELF if it is no object.
func FileID(name string) (buildid.ID, error) {
	f, err := openPath(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	id, err := objfile.ReadBuildID(f, f.Size)
	if err != nil {
		return "", &RefusedError{Path: name, Reason: Malformed, Err: err}
	}
	return id, nil
}
