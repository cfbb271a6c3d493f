package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/perfark/perfark/objfile"
)

// openAll yields a file for every key.
type openAll struct{}

func (openAll) Get(ctx context.Context, k Key) (*File, error) { return memFile([]byte("x"), "x"), nil }

// C07, C02: an id that perf took from a file that was put in the place of the
// mapped one is not believed, whoever has a file with it.
func TestDoubted(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	name := filepath.Join(root, "prog")
	if err := os.WriteFile(name, b, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := openPath(name)
	if err != nil {
		t.Fatal(err)
	}
	id, err := objfile.ReadBuildID(f, f.Size)
	f.Close()
	if err != nil || id == "" {
		t.Skipf("NOTICE: the test binary has no build id: %v", err)
	}
	ino, _, ok := identify(name)
	if !ok {
		t.Skip("NOTICE: the file system keeps no time of birth")
	}
	src := openAll{}
	now := time.Now()
	for _, tt := range []struct {
		what  string
		k     Key
		ended time.Time
		ok    bool
	}{
		{"the same inode", Key{ID: id, Kind: ELF, Path: "/prog", Ino: ino}, now, true},
		{"another inode", Key{ID: id, Kind: ELF, Path: "/prog", Ino: ino + 1}, now, false},
		{"its debug file", Key{ID: id, Kind: Debug, Path: "/prog", Ino: ino + 1}, now, false},
		{"put there later", Key{ID: id, Kind: ELF, Path: "/prog", Ino: ino + 1}, now.Add(-time.Hour), true},
		{"an id from elsewhere", Key{ID: "\x01" + id[1:], Kind: ELF, Path: "/prog", Ino: ino + 1}, now, true},
		{"no inode", Key{ID: id, Kind: ELF, Path: "/prog"}, now, true},
		{"no file there", Key{ID: id, Kind: ELF, Path: "/none", Ino: 1}, now, true},
		{"no end", Key{ID: id, Kind: ELF, Path: "/prog", Ino: ino + 1}, time.Time{}, true},
	} {
		f, err := Doubted(src, root, tt.ended).Get(t.Context(), tt.k)
		if err == nil {
			f.Close()
		}
		if (err == nil) != tt.ok {
			t.Errorf("%s: error %v", tt.what, err)
		}
		if err != nil {
			r := Refusals(err)
			if !errors.Is(err, fs.ErrNotExist) || len(r) != 1 || r[0].Reason != Replaced || !strings.Contains(err.Error(), "changed during the recording") {
				t.Errorf("%s: error %v", tt.what, err)
			}
		}
	}
}
