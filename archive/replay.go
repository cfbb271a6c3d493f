package archive

import (
	"context"
	"fmt"
	"io/fs"
	"slices"

	"github.com/perfark/perfark/store"
	"github.com/perfark/perfark/symbol"
)

// A Coverage says how much of a profile had names when it was resolved from
// the archive alone. See symbol.Coverage.
type Coverage struct {
	Frames  int    `json:"frames"` // distinct addresses
	Named   int    `json:"named"`
	Samples uint64 `json:"samples"`
	Full    uint64 `json:"full"` // samples all of whose frames have a name
}

// replay resolves the profile of the plan from the files that m lists alone:
// the very files that Encode packs, or refuses if their bytes are others then.
func (pl *Plan) replay(ctx context.Context, m *Manifest) (*symbol.Outcome, error) {
	o := symbol.Options{Source: &planSource{pl, m}, Workers: pl.workers(), Limits: pl.o.Limits, FilesOnly: true}
	o.Lines, o.Inlines = pl.whole != nil, pl.whole != nil // to be compared with those of the whole files
	out, err := symbol.Resolve(ctx, pl.profile, o)
	if err != nil {
		return nil, err
	}
	m.Coverage = CoverageOf(out)
	m.Missing = slices.DeleteFunc(slices.Clone(m.Missing), func(x Missing) bool { return x.Kind == "module" && pl.named(x, out) })
	return out, nil
}

// named reports whether all frames of an object got their names without it:
// those of a kernel module from kallsyms.
func (pl *Plan) named(m Missing, out *symbol.Outcome) bool {
	for i := range pl.profile.Objects {
		o := &pl.profile.Objects[i]
		if o.Path == string(m.Path) && o.BuildID == m.ID && out.Objects[i].FramesNamed < out.Objects[i].Frames {
			return false
		}
	}
	return true
}

// CoverageOf returns the coverage of what was resolved.
func CoverageOf(out *symbol.Outcome) *Coverage {
	c := out.Coverage
	return &Coverage{Frames: c.Frames, Named: c.FramesNamed, Samples: c.Samples, Full: c.SamplesFullyNamed}
}

// A planSource serves the files that a manifest lists and a plan has open.
type planSource struct {
	pl *Plan
	m  *Manifest
}

// Get opens a file. Of several objects with one id it is that with the path.
func (s *planSource) Get(ctx context.Context, k store.Key) (*store.File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if k.Kind == store.Split {
		k = store.Key{Kind: store.ELF, Path: k.Path}
	}
	o, err := choose(s.m.Objects, k)
	if err != nil {
		return nil, err
	}
	f := o.file(k.Kind)
	p := s.pl.open[f.Name]
	return &store.File{
		ReaderAt: p.file.ReaderAt, Size: p.file.Size, Origin: string(f.Name),
		Unverified: o.Unverified && !isLog(k.Kind),
		Bound:      o.at(k.Path),
		Info:       p.file.Info,
		Close:      func() error { return nil },
	}, nil
}

// choose finds the object that answers k and has a file of its kind. Where
// programs share an id, the path must tell.
func choose(objects []Object, k store.Key) (*Object, error) {
	var found []*Object
	for i := range objects {
		if o := &objects[i]; wanted(o, k) && o.file(k.Kind) != nil {
			if k.Path != "" && o.at(k.Path) {
				return o, nil
			}
			found = append(found, o)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, &store.RefusedError{Path: "archive", Reason: store.Ambiguous, Why: "different programs have build id " + k.ID.String()}
	}
	return nil, fmt.Errorf("archive: no %v: %w", k, fs.ErrNotExist)
}
