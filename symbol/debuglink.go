package symbol

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/store"
)

// hasDebug reports whether anything would tie a debug file to f, which may be
// nil: the Build ID that k has, or the checksum in the debug link of f.
func hasDebug(k store.Key, f *objfile.File) bool {
	if k.ID != "" || f == nil {
		return k.ID != ""
	}
	_, _, ok := f.Debuglink()
	return ok
}

// openDebug opens the debug file that k asks for. Without a Build ID it must
// have the checksum that f says.
func (r *resolver) openDebug(ctx context.Context, k store.Key, f *objfile.File, b *decode.Budget) (*objfile.File, *store.File, error) {
	d, df, err := r.open(ctx, k, b)
	if err != nil || k.ID != "" {
		return d, df, err
	}
	_, want, ok := f.Debuglink()
	if !ok {
		closeFile(df)
		return nil, nil, fmt.Errorf("%s: no debug link: %w", k, fs.ErrNotExist)
	}
	got, err := objfile.CRC32(df, df.Size)
	if err == nil && got != want {
		err = fmt.Errorf("%s: its CRC is %08x; the debug link wants %08x", df.Origin, got, want)
	}
	if err != nil {
		closeFile(df)
		return nil, nil, err
	}
	return d, df, nil
}
