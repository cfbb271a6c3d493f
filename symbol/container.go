package symbol

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/store"
)

// maxMembers is how many objects one file is split into.
const maxMembers = 1024

// split makes objects of the files inside of other files: of libraries that
// are mapped straight out of an APK or another zip archive. Such a file has no
// Build ID, as it is no ELF file, and its locations move to the objects that
// lie at their offsets. It returns why the other locations of a container
// have no name, by object.
func (r *resolver) split(ctx context.Context) map[int32]error {
	by := map[int32][]int32{}
	for i := range r.p.Locations {
		o := r.p.Locations[i].Object
		if o < 0 || int(o) >= len(r.p.Objects) {
			continue
		}
		if obj := &r.p.Objects[o]; obj.Kind == profile.KindFile && obj.BuildID == "" && obj.Container == "" {
			by[o] = append(by[o], int32(i))
		}
	}
	first := len(r.p.Objects)
	why := map[int32]error{}
	var touched []int32
	for o := range int32(first) {
		if by[o] == nil || ctx.Err() != nil {
			continue
		}
		n := len(r.p.Objects)
		if err := r.splitObject(ctx, o, by[o]); err != nil {
			why[o] = err
		}
		if len(r.p.Objects) > n {
			touched = append(touched, o)
		}
	}
	if len(touched) > 0 {
		r.recount(touched, int32(first))
	}
	r.inside = map[string]*profile.Object{}
	for i := range r.p.Objects {
		if x := &r.p.Objects[i]; x.Container != "" {
			r.inside[x.Path] = x
		}
	}
	return why
}

// splitObject splits one object that has the locations locs.
func (r *resolver) splitObject(ctx context.Context, o int32, locs []int32) error {
	sf, err := r.get(ctx, key(&r.p.Objects[o], store.ELF))
	if err != nil || objfile.IsObject(sf) {
		closeFile(sf)
		return nil
	}
	defer closeFile(sf)
	t := task{object: o, locs: locs}
	t.sort(r.p)
	members := objfile.NewMembers(sf, sf.Size, decode.NewBudget(r.o.Limits))
	made := map[int64]int32{}
	var failed error
	for _, l := range t.locs {
		loc := &r.p.Locations[l]
		m, err := members.At(loc.Addr)
		if err != nil {
			if failed == nil || errors.Is(err, objfile.ErrCompressedMember) {
				failed = err
			}
			continue
		}
		to, ok := made[m.Off]
		if !ok {
			if len(made) == maxMembers {
				continue
			}
			to = int32(len(r.p.Objects))
			made[m.Off] = to
			x := r.p.Objects[o]
			x.Container, x.Offset, x.Outer = x.Path, uint64(m.Off), o
			x.Path += "!/" + m.Name
			x.Short += "!" + path.Base(m.Name)
			x.Samples, x.Note = 0, ""
			r.p.Objects = append(r.p.Objects, x)
		}
		loc.Object, loc.Addr = to, loc.Addr-uint64(m.Off)
	}
	return failed
}

// recount counts the samples of objects that were split, and of all from first
// on.
func (r *resolver) recount(objects []int32, first int32) {
	p := r.p
	counted := make([]bool, len(p.Objects))
	for o := range counted {
		counted[o] = int32(o) >= first
	}
	for _, o := range objects {
		counted[o] = true
		p.Objects[o].Samples = 0
	}
	stamps := make([]int, len(p.Objects))
	for i := range p.Samples {
		s := &p.Samples[i]
		touch := func(loc int32) {
			if loc < 0 || int(loc) >= len(p.Locations) {
				return
			}
			if o := p.Locations[loc].Object; o >= 0 && counted[o] && stamps[o] != i+1 {
				stamps[o] = i + 1
				p.Objects[o].Samples += s.Count
			}
		}
		touch(s.Location)
		for c, steps := s.Stack, 0; c >= 0 && int(c) < len(p.Stacks) && steps <= len(p.Stacks); steps++ {
			touch(p.Stacks[c].Location)
			c = p.Stacks[c].Caller
		}
	}
}

// member gets a file that lies inside another one. The error wraps
// fs.ErrNotExist if the other is not there.
func (r *resolver) member(ctx context.Context, obj *profile.Object, k store.Key) (*store.File, error) {
	k.Path = obj.Container
	sf, err := r.get(ctx, k)
	if err != nil {
		return nil, err
	}
	m, err := objfile.FindMember(sf, sf.Size, obj.Offset)
	if err == nil && uint64(m.Off) != obj.Offset {
		err = fmt.Errorf("offset %#x: %w", obj.Offset, objfile.ErrNoMember)
	}
	if err != nil {
		closeFile(sf)
		return nil, fmt.Errorf("%s: %w", sf.Origin, err)
	}
	x := *sf
	x.ReaderAt, x.Size = io.NewSectionReader(sf, m.Off, m.Size), m.Size
	x.Origin = sf.Origin + "!/" + m.Name
	return &x, nil
}

// isArchive reports whether a path is that of a file which holds others, by its
// name: no linker gives such a file an id.
func isArchive(name string) bool {
	switch path.Ext(name) {
	case ".apk", ".apex", ".aar", ".jar", ".zip", ".xapk", ".aab":
		return true
	}
	return false
}
