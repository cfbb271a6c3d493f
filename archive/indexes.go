package archive

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/perfark/perfark/buildid"
	addrindex "github.com/perfark/perfark/index" // index is the type of what is in an archive
	"github.com/perfark/perfark/store"
	"github.com/perfark/perfark/symbol"
)

// index adds to the objects of a manifest what is known of the addresses in
// the profile: names, inlined functions and lines, from all files that the
// plan's Source has, also debug information that is not packed; of a slim
// archive, from what is.
func (pl *Plan) index(ctx context.Context, m *Manifest) error {
	x := &indexer{found: map[buildid.ID][]byte{}}
	o := symbol.Options{Source: pl.o.Source, Workers: pl.workers(), Limits: pl.o.Limits, Lines: true, Inlines: true, Index: x, IndexAll: true}
	if pl.o.Slim {
		o.Source = &planSource{pl, m}
	}
	if _, err := symbol.Resolve(ctx, pl.profile, o); err != nil {
		return err
	}
	for i := range m.Objects {
		obj := &m.Objects[i]
		b := x.found[obj.ID]
		if obj.ID == "" || b == nil || len(obj.Files) == 0 {
			continue
		}
		delete(x.found, obj.ID) // where programs share an id, the first has the link
		f := &store.File{ReaderAt: bytes.NewReader(b), Size: int64(len(b)), Origin: "index", Close: func() error { return nil }}
		p := &part{kind: store.Index, file: f}
		var err error
		if p.reading, err = read(ctx, f, p.kind, pl.o.Limits, io.Discard); err != nil {
			return err
		}
		entry := File{Kind: p.kind, Size: p.reading.size, SHA256: p.reading.sum}
		entry.Name = Name(ObjectName(string(obj.Paths[0]), obj.ID, "", p.kind))
		pl.open[entry.Name] = p
		obj.Files = append(obj.Files, entry)
	}
	return nil
}

// An indexer keeps the indexes that are made, one for each id.
type indexer struct {
	mu    sync.Mutex
	found map[buildid.ID][]byte
}

// Get knows of no index.
func (x *indexer) Get(buildid.ID) (*addrindex.File, error) { return nil, fs.ErrNotExist }

// Put keeps an index. Of two with one id it is the larger one, whichever comes
// first: archives are the same for any number of workers.
func (x *indexer) Put(id addrindex.Identity, b *addrindex.Builder) error {
	var out bytes.Buffer
	if err := b.WriteTo(&out, id); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	old := x.found[id.ID]
	if cmp.Or(cmp.Compare(out.Len(), len(old)), bytes.Compare(out.Bytes(), old)) > 0 {
		x.found[id.ID] = out.Bytes()
	}
	return nil
}

// checkIndex reads all of an index of an id.
func checkIndex(f *store.File, id buildid.ID) error {
	x, err := addrindex.Open(f, f.Size)
	if err != nil {
		return err
	}
	if x.ID != id {
		return fmt.Errorf("index of build id %s, want %s", x.ID, orNone(id))
	}
	return new(addrindex.Builder).Merge(x)
}
