package store

import (
	"context"
	"errors"
	"io/fs"

	"github.com/perfark/perfark/objfile"
)

// Multi returns a Source that asks all sources and yields the best answer: the
// file that can name most, the first of several that can name as much. Of two
// different programs with one id it yields the one that a process has mapped,
// or is bound to the asked path; without one it refuses both as Ambiguous.
//
// A verified file wins over one that is not. Files of kinds that are no ELF
// objects come from the first source that has one.
func Multi(sources ...Source) Source { return multi(sources) }

type multi []Source

func (m multi) Get(ctx context.Context, k Key) (*File, error) {
	var (
		files   []*File
		refused []error
	)
	for _, s := range m {
		f, err := s.Get(ctx, k)
		if err != nil {
			if ctx.Err() != nil {
				closeAll(files)
				return nil, ctx.Err()
			}
			for _, r := range Refusals(err) {
				refused = append(refused, r)
			}
			if !errors.Is(err, fs.ErrNotExist) {
				refused = append(refused, err)
			}
			continue
		}
		files = append(files, f)
		if f.Unverified {
			continue
		}
		if k.Kind != ELF && k.Kind != Debug {
			break
		}
		if q, _ := inspect(f, false); f.mapped && q == worth(2*objfile.FullDWARF+1) {
			break // the very file, and none can name more
		}
	}
	files = verifiedFirst(files)
	if len(files) > 0 {
		f, err := pick(k, files)
		if err == nil {
			return f, nil
		}
		refused = append(refused, err)
	}
	if len(refused) > 0 {
		return nil, errors.Join(refused...)
	}
	return nil, &notFoundError{"all sources", k}
}

// verifiedFirst drops unverified files if there is a verified one.
func verifiedFirst(files []*File) []*File {
	var good, bad []*File
	for _, f := range files {
		if f.Unverified {
			bad = append(bad, f)
		} else {
			good = append(good, f)
		}
	}
	if len(good) == 0 || len(bad) == 0 {
		return files
	}
	closeAll(bad)
	return good
}
