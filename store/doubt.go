package store

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/objfile"
)

// Doubted returns a Source that does not believe every Build ID. perf before
// 5.12, or without --buildid-mmap, takes the id of an object when the recording
// ends, from the file that then has its path. If that is not the file that was
// mapped, because a program was installed meanwhile, the id is that of the
// wrong program, and so is every file that carries it, also the copy that perf
// put into its cache.
//
// Doubted refuses, as Replaced, an object whose recorded inode (Key.Ino is only
// set if the id comes from such a look at the path) is not the one at its path
// now, if the file there carries the id and is older than ended, the end of the
// recording. (If it carries another id, perf had the id from elsewhere: from
// the process, in its mount namespace.) A file that has the recorded inode is
// good. The zero time doubts nothing. Root is as in HostOptions.
func Doubted(src Source, root string, ended time.Time) Source {
	if ended.IsZero() {
		return src
	}
	if root == "" {
		root = "/"
	}
	return doubted{src, root, ended}
}

type doubted struct {
	src   Source
	root  string
	ended time.Time
}

func (d doubted) Get(ctx context.Context, k Key) (*File, error) {
	f, err := d.src.Get(ctx, k)
	if err != nil || k.ID == "" || k.Ino == 0 || k.Kind != ELF && k.Kind != Debug || !strings.HasPrefix(k.Path, "/") {
		return f, err
	}
	at := filepath.Join(d.root, k.Path)
	ino, born, ok := identify(at)
	if !ok || ino == k.Ino || born.After(d.ended.Add(slack)) {
		return f, nil
	}
	if f.Info != nil && k.Kind == ELF && inode(f.Info) == k.Ino || !carries(at, k.ID) {
		return f, nil
	}
	f.Close()
	return nil, &RefusedError{Path: at, Reason: Replaced, Why: fmt.Sprintf(
		"the file changed during the recording: inode %d was mapped, the build id is that of inode %d", k.Ino, ino)}
}

// carries reports whether the file at a path carries an id.
func carries(name string, id buildid.ID) bool {
	f, err := openPath(name)
	if err != nil {
		return false
	}
	defer f.Close()
	got, err := objfile.ReadBuildID(f, f.Size)
	return err == nil && got.Match(id)
}
