package archive

import (
	"context"
	"io"
	"slices"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/store"
)

// findInside opens the debug files of the libraries that have frames and lie
// inside of the file of it, such as an APK. They are as certain as that is.
func (pl *Plan) findInside(ctx context.Context, it *item) {
	f := it.parts[0].file
	if it.id != "" || it.kind != profile.KindFile || objfile.IsObject(f) {
		return
	}
	var addrs []uint64
	for i := range pl.profile.Locations {
		if l := &pl.profile.Locations[i]; int(l.Object) == it.object {
			addrs = append(addrs, l.Addr)
		}
	}
	slices.Sort(addrs)
	members := objfile.NewMembers(f, f.Size, decode.NewBudget(pl.o.Limits))
	end := uint64(0)
	for _, addr := range addrs {
		if addr < end || ctx.Err() != nil {
			continue
		}
		m, err := members.At(addr)
		if err != nil {
			continue
		}
		end = uint64(m.Off + m.Size)
		id, err := objfile.ReadBuildID(io.NewSectionReader(f, m.Off, m.Size), m.Size)
		if err != nil || id == "" || slices.ContainsFunc(pl.items, func(x *item) bool { return x.id == id }) {
			continue
		}
		x := &item{object: profile.None, id: id, path: it.path + "!/" + m.Name, extra: true}
		key := store.Key{ID: id, Kind: store.Debug, Path: x.path}
		if d, err := pl.o.Source.Get(ctx, key); err == nil && pl.append(x, &part{kind: store.Debug, key: key, file: d, quality: objfile.FullDWARF, wantID: id}) {
			pl.items = append(pl.items, x)
		}
	}
}
