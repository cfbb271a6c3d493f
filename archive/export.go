package archive

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"slices"
)

// Export writes under name a bundle that has by itself what a, a bundle, has in
// it and in the pool that it names: the same recording and the same files, each
// of which is compared with its hash again. The manifest is the one of a, but
// for where the files are, and for what is absent: that is missing then. The file is
// there if and only if it is complete; made is as [PackOptions.Made].
func (a *Archive) Export(ctx context.Context, name string, o EncodeOptions, made func(temp string) (gone func())) (m *Manifest, size int64, err error) {
	if a.Manifest() == nil || a.Manifest().Data == nil || !a.Manifest().Data.Included {
		return nil, 0, errors.New("not a bundle: no recording is in it")
	}
	o.Format = Bundle
	m = a.without(a.Absent())
	c := Contents{
		Data: func() (io.ReadCloser, error) {
			r, size, _ := a.Data()
			return io.NopCloser(io.NewSectionReader(r, 0, size)), nil
		},
		File: func(f *File) (io.ReadCloser, error) {
			s, err := a.OpenMember(f.Name)
			if err != nil {
				return nil, err
			}
			return struct {
				io.Reader
				io.Closer
			}{io.NewSectionReader(s, 0, s.Size), closing(s.Close)}, nil
		},
	}
	err = Create(ctx, name, made, func(f *os.File) error {
		if err := Encode(ctx, f, m, c, o); err != nil {
			return err
		}
		size, err = f.Seek(0, io.SeekEnd)
		return err
	})
	return m, size, err
}

type closing func() error

func (f closing) Close() error { return f() }

// without returns the manifest of a bundle by itself in which the files of
// absent, as of [Archive.Absent], are missing.
func (a *Archive) without(absent []Object) *Manifest {
	m := a.Manifest().Whole()
	if len(absent) == 0 {
		return m
	}
	gone := map[Name]bool{}
	for _, o := range absent {
		for _, f := range o.Files {
			gone[f.Name] = true
		}
	}
	m.Coverage = nil // was of all
	m.Missing = slices.Clone(m.Missing)
	m.Objects = slices.DeleteFunc(m.Objects, func(o Object) bool {
		return len(o.Files) > 0 && !slices.ContainsFunc(o.Files, func(f File) bool { return !gone[f.Name] })
	})
	for i := range m.Objects {
		o := &m.Objects[i]
		o.Files = slices.DeleteFunc(o.Files, func(f File) bool { return gone[f.Name] })
	}
	for _, o := range absent {
		x := Missing{ID: o.ID, Kind: o.Kind, PID: o.PID, Samples: o.Samples, Reason: "not-found",
			Detail: "not in the directory " + cmp.Or(a.PoolDir(), a.Manifest().Pool) + " of the capture"}
		if len(o.Paths) > 0 {
			x.Path = o.Paths[0]
		}
		m.Missing = append(m.Missing, x)
	}
	return m
}
