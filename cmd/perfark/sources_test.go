package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/store"
)

// A copy of kallsyms that is older than the boot is not of this one, and a
// recording of this boot does without it.
func TestCachedKallsyms(t *testing.T) {
	up, ok := uptime()
	if !ok {
		t.Skip("NOTICE: skipped: no /proc/uptime")
	}
	dir := t.TempDir()
	id, _ := buildid.Parse(strings.Repeat("ab", 20))
	at := filepath.Join(dir, "[kernel.kallsyms]", id.String())
	link := filepath.Join(dir, ".build-id", "ab", id.String()[2:])
	name := filepath.Join(at, "kallsyms")
	for _, err := range []error{
		os.MkdirAll(at, 0o755),
		os.MkdirAll(filepath.Dir(link), 0o755),
		os.Symlink("../../[kernel.kallsyms]/"+id.String(), link),
		os.WriteFile(name, []byte("ffffffff81000000 T _stext\n"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	k := store.Key{ID: id, Kind: store.Kallsyms, Path: "[kernel.kallsyms]"}
	for _, tt := range []struct {
		age      time.Duration
		sameHost bool
		key      store.Key
		want     bool
	}{
		{0, true, k, true},
		{0, false, k, true},
		{up + time.Hour, true, k, false},
		{up + time.Hour, false, k, true},
		{0, true, store.Key{Kind: store.Kallsyms, Path: k.Path}, false},
		{0, true, store.Key{ID: id, Kind: store.ELF, Path: k.Path}, false},
	} {
		mtime := time.Now().Add(-tt.age)
		if err := os.Chtimes(name, mtime, mtime); err != nil {
			t.Fatal(err)
		}
		f, err := cachedKallsyms{store.Cache(dir), tt.sameHost}.Get(t.Context(), tt.key)
		if (err == nil) != tt.want || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("age %v, same host %v, %v: %v", tt.age, tt.sameHost, tt.key, err)
		}
		if err == nil {
			f.Close()
		}
	}
}
