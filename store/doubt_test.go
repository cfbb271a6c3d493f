//go:build linux

package store

import (
	"os"
	"testing"
	"time"
)

// C07: perf took the id of an object from the file that had its path when the
// recording ended. If that is not the file that was mapped, the id is that of
// the wrong program.
func TestDoubted(t *testing.T) {
	id := testID(0xab, 20)
	dir := t.TempDir()
	prog := write(t, dir+"/prog", testELF{id: testID(1, 20), text: "old"}.bytes())
	ino, born, ok := identify(prog)
	if !ok || born.IsZero() {
		t.Skip("skipped: the file system keeps no time of birth")
	}
	write(t, dir+"/new", testELF{id: id, text: "new"}.bytes())
	if err := os.Rename(dir+"/new", prog); err != nil {
		t.Fatal(err)
	}
	ended := time.Now().Add(time.Minute)
	host := Host(HostOptions{})
	k := Key{ID: id, Kind: ELF, Path: prog, Ino: ino}
	testNone(t, Doubted(host, "", ended), k, Replaced)
	now, _, _ := identify(prog)
	for name, tt := range map[string]struct {
		s Source
		k Key
	}{
		"the very inode":               {Doubted(host, "", ended), Key{ID: id, Kind: ELF, Path: prog, Ino: now}},
		"id of the mapping":            {Doubted(host, "", ended), Key{ID: id, Kind: ELF, Path: prog}},
		"replaced after the recording": {Doubted(host, "", time.Now().Add(-time.Hour)), k},
		"end of the recording unknown": {Doubted(host, "", time.Time{}), k},
	} {
		t.Run(name, func(t *testing.T) { testSource(t, tt.s, tt.k, mustRead(t, prog)) })
	}
}

// P21: who may not read a file is told whose it is.
func TestUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("skipped: root may read everything")
	}
	prog := write(t, t.TempDir()+"/prog", testELF{id: testID(1, 20), text: "x"}.bytes())
	if err := os.Chmod(prog, 0o111); err != nil {
		t.Fatal(err)
	}
	_, err := Host(HostOptions{}).Get(t.Context(), Key{ID: testID(1, 20), Kind: ELF, Path: prog})
	rs := Refusals(err)
	if len(rs) != 1 || rs[0].Reason != Unreadable || rs[0].Why == "" {
		t.Errorf("Get: %v", err)
	}
}
