package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/objfile"
)

// memberMark stands between the path of a zip archive and the name of a file
// inside, as simpleperf writes it: /data/app/base.apk!/lib/arm64/libX.so.
const memberMark = "!/"

// openMember opens a file inside of a zip archive by such a path. The error
// wraps fs.ErrNotExist if the path is none.
func openMember(name string) (*File, error) {
	outer, member, ok := strings.Cut(name, memberMark)
	if !ok || outer == "" || member == "" {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	f, err := openPath(outer)
	if err != nil {
		return nil, err
	}
	m, err := objfile.NewMembers(f, f.Size, decode.NewBudget(decode.Limits{})).Named(member)
	if err != nil {
		f.Close()
		if errors.Is(err, objfile.ErrNoMember) {
			return nil, fmt.Errorf("%s: %w: %w", outer, err, fs.ErrNotExist)
		}
		return nil, &RefusedError{Path: name, Reason: Malformed, Err: err}
	}
	f.ReaderAt, f.Size, f.Origin = io.NewSectionReader(f.ReaderAt, m.Off, m.Size), m.Size, name
	return f, nil
}
