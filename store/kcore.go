package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// KcoreDirs returns a Source of the kallsyms in the directories that
// perf record --kcore makes beside a recording: kcore_dir of the host, and
// kcore_dir__PID of virtual machines. They were copied in the boot and at the
// time of the recording, and are part of it: whatever Build ID is asked for,
// they are those of its kernel. Links that lead out of the directory are
// refused.
func KcoreDirs(dirs []string) Source { return kcoreDirs(dirs) }

type kcoreDirs []string

func (d kcoreDirs) Get(ctx context.Context, k Key) (*File, error) {
	s := &search{key: k}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	want := "kcore_dir"
	if guest, ok := strings.CutPrefix(k.Path, "[guest.kernel.kallsyms"); ok {
		want += "__" + strings.Trim(guest, ".]")
	}
	for _, dir := range d {
		if k.Kind != Kallsyms || filepath.Base(dir) != want {
			continue
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			s.note(dir, err)
			continue
		}
		f, err := openInTree(root, "kallsyms")
		root.Close()
		if f, err = checked(f, err, k); err == nil {
			f.Bound = true
			return f, nil
		}
		s.note(filepath.Join(dir, "kallsyms"), err)
	}
	return nil, s.err(fmt.Sprintf("%d directories of --kcore", len(d)))
}
