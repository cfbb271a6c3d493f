package record

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/store"
)

// A sleeper maps itself, writes where, and ends with its standard input.
const sleeperSource = `
#include <stdio.h>
#include <unistd.h>
int main(int c, char **v) { char b; while (read(0, &b, 1) > 0); return 0; }
`

// mapped1 starts a program and returns its executable mapping of a file, as
// MMAP2 has it, and what ends it.
func mapped1(t *testing.T, prog string, args ...string) (m mapping, end func()) {
	t.Helper()
	cmd := exec.Command(prog, args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	end = func() { once.Do(func() { in.Close(); cmd.Process.Kill(); cmd.Wait() }) }
	t.Cleanup(end)
	for range 500 {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", cmd.Process.Pid))
		for line := range bytes.Lines(b) {
			if r, ok := parseMapping(bytes.TrimSpace(line)); ok && r.Prot&unix.PROT_EXEC != 0 && filepath.Base(r.Name) == filepath.Base(prog) {
				return mapping{pid: cmd.Process.Pid, start: r.Start, end: r.Start + r.Len, maj: r.Maj, min: r.Min, ino: r.Ino, name: r.Name}, end
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatalf("%s maps nothing", prog)
	return
}

func program(t *testing.T) string {
	t.Helper()
	perftest.NeedTool(t, "gcc")
	prog := filepath.Join(t.TempDir(), "prog")
	if err := os.Rename(perftest.CC(t, "prog", sleeperSource, "-O1", "-Wl,--build-id=uuid"), prog); err != nil {
		t.Fatal(err)
	}
	return prog
}

func keeperOf(t *testing.T, o Copies) (*identities, string) {
	t.Helper()
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "cache")
	}
	k, err := newKeeper(o, 0)
	if err != nil {
		t.Fatal(err)
	}
	k.start()
	return &identities{proc: "/proc", keep: k}, o.Dir
}

// idOf reads the Build ID of a program as debug/elf sees it.
func idOf(t *testing.T, name string) buildid.ID {
	t.Helper()
	f, err := elf.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := f.Section(".note.gnu.build-id").Data()
	if err != nil {
		t.Fatal(err)
	}
	return buildid.ID(b[16:])
}

// isKept reports whether a tree has the bytes of a program under its id.
func isKept(t *testing.T, dir string, id buildid.ID, name string, want []byte) bool {
	t.Helper()
	f, err := store.Cache(dir).Get(context.Background(), store.Key{ID: id, Kind: store.ELF, Path: name})
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		return false
	}
	defer f.Close()
	got := make([]byte, f.Size)
	f.ReadAt(got, 0)
	if !bytes.Equal(got, want) {
		t.Errorf("%s: the copy has other bytes", name)
	}
	return true
}

// Files that are deleted, or replaced, while a process has them mapped are
// copied; one that stays where it is, is not.
func TestKeeper(t *testing.T) {
	for what, change := range map[string]func(prog string){
		"stays":    func(string) {},
		"touched":  func(prog string) { os.Chtimes(prog, time.Now(), time.Now()) },
		"linked":   func(prog string) { os.Link(prog, prog+"2") },
		"deleted":  func(prog string) { os.Remove(prog) },
		"moved":    func(prog string) { os.Rename(prog, prog+"2") },
		"replaced": func(prog string) { os.WriteFile(prog+"2", []byte("new"), 0o755); os.Rename(prog+"2", prog) },
		"a FIFO":   func(prog string) { os.Remove(prog); unix.Mkfifo(prog, 0o666) },
		"a link": func(prog string) {
			os.Remove(prog)
			os.Symlink("/dev/zero", prog)
		},
		"a directory": func(prog string) { os.Remove(prog); os.Mkdir(prog, 0o755) },
	} {
		t.Run(what, func(t *testing.T) {
			prog := program(t)
			want, err := os.ReadFile(prog)
			if err != nil {
				t.Fatal(err)
			}
			id := idOf(t, prog)
			ids, dir := keeperOf(t, Copies{})
			m, _ := mapped1(t, prog)
			if got := ids.of(m); got != id {
				t.Errorf("id %s, want %s", got, id)
			}
			change(prog)
			st := ids.keep.finish()
			stays := what == "stays" || what == "touched" || what == "linked"
			if got := isKept(t, dir, id, prog, want); got == stays || len(st.Left) > 0 {
				t.Errorf("copied %v: %+v", got, st)
			}
		})
	}
}

// What is seen by the side is told to the reader of the rings, also when the
// file was written over meanwhile.
func TestSighting(t *testing.T) {
	prog := program(t)
	id := idOf(t, prog)
	ids := &identities{proc: "/proc"}
	m, end := mapped1(t, prog)
	seen := map[fileKey]buildid.ID{}
	ids.sight(m, seen)
	ids.sight(m, seen)
	end()
	if err := os.WriteFile(prog, bytes.Repeat([]byte{0}, 1000), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := ids.of(m); got != id {
			t.Errorf("id %s, want %s", got, id)
		}
	}
	if len(ids.early) > 0 {
		t.Errorf("%d sightings are left", len(ids.early))
	}
}

// A process that has become another program, or has ended, gives no id of what
// it was. (What is mapped where something else was is not that.)
func TestIdentityOtherMapping(t *testing.T) {
	prog := program(t)
	ids, _ := keeperOf(t, Copies{})
	defer ids.keep.finish()
	m, end := mapped1(t, prog)
	other := m
	other.ino++
	other.name = "/no/such"
	if got := ids.of(other); got != "" {
		t.Errorf("id %s of another file that was mapped there", got)
	}
	end()
	m.start, m.end = 0, 0
	if got := ids.of(m); got != idOf(t, prog) {
		t.Errorf("id %q of a file that is there still", got)
	}
}

// Limits hold, and what is left out is named with the reason.
func TestKeeperLimits(t *testing.T) {
	sizes := func(n int) (progs []string, size int64) {
		for range n {
			p := program(t)
			fi, err := os.Stat(p)
			if err != nil {
				t.Fatal(err)
			}
			progs, size = append(progs, p), fi.Size()
		}
		return
	}
	progs, size := sizes(3)
	for what, tt := range map[string]struct {
		o    Copies
		want int
		why  string
	}{
		"count": {Copies{MaxFiles: 2}, 2, "there are 2 copies, and there may be no more"},
		"bytes": {Copies{MaxBytes: size + 10}, 1, fmt.Sprintf("it has %d bytes, and all copies together may have %d", size, size+10)},
		"file":  {Copies{MaxFile: size - 1}, 0, fmt.Sprintf("it has %d bytes, and a copy may have %d", size, size-1)},
	} {
		t.Run(what, func(t *testing.T) {
			ids, _ := keeperOf(t, tt.o)
			dir := t.TempDir()
			for i, p := range progs {
				copied := filepath.Join(dir, fmt.Sprintf("%d", i))
				b, err := os.ReadFile(p)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(copied, b, 0o755); err != nil {
					t.Fatal(err)
				}
				m, _ := mapped1(t, copied)
				ids.of(m)
				os.Remove(copied)
			}
			st := ids.keep.finish()
			if st.Files != tt.want || len(st.Left) != len(progs)-tt.want {
				t.Fatalf("%+v", st)
			}
			for _, l := range st.Left {
				if l.Why != tt.why {
					t.Errorf("%q, want %q", l.Why, tt.why)
				}
			}
		})
	}
}

// A sparse file of 10 GB that is mapped is not read.
func TestKeeperSparse(t *testing.T) {
	perftest.NeedTool(t, "python3")
	ids, dir := keeperOf(t, Copies{})
	big := filepath.Join(t.TempDir(), "big")
	f, err := os.Create(big)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(10 << 30); err != nil {
		t.Skipf("NOTICE: no sparse files here: %v", err)
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		t.Skipf("NOTICE: files of %s cannot be executed: %v", filepath.Dir(big), err)
	}
	defer unix.Munmap(mem)
	b, _ := os.ReadFile("/proc/self/maps")
	for line := range bytes.Lines(b) {
		if r, ok := parseMapping(bytes.TrimSpace(line)); ok && r.Name == big {
			ids.of(mapping{pid: os.Getpid(), start: r.Start, end: r.Start + r.Len, maj: r.Maj, min: r.Min, ino: r.Ino, name: r.Name})
		}
	}
	os.Remove(big)
	begin := time.Now()
	st := ids.keep.finish()
	if st.Files != 0 || len(st.Left) != 1 || !strings.Contains(st.Left[0].Why, "10737418240 bytes") || time.Since(begin) > 5*time.Second {
		t.Errorf("%+v in %v", st, time.Since(begin))
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("something was written")
	}
}

// Thousands of files that are deleted as soon as they are mapped: what is
// copied, and left out, is all of them, and no descriptor is left.
func TestKeeperMany(t *testing.T) {
	const n = 3000
	before, _ := os.ReadDir("/proc/self/fd")
	ids, _ := keeperOf(t, Copies{MaxFiles: 50})
	dir := t.TempDir()
	for i := range n {
		name := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(name, fmt.Appendf(nil, "file %d", i), 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := store.OpenPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			os.Remove(name)
		}
		st, fsType, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		ids.keep.offer(mapping{pid: os.Getpid(), name: name, ino: st.Ino}, "", f, &st, fsType)
		if i%2 == 1 {
			os.Remove(name)
		}
	}
	st := ids.keep.finish()
	// Some that waited could not be had any more; the number of an inode may be
	// used again at once.
	if st.Files > 50 || st.Files == 0 || len(st.Left) != leftMost || st.Files+len(st.Left)+st.More > n {
		t.Errorf("%d copied, %d left out of %d", st.Files, len(st.Left)+st.More, n)
	}
	after, _ := os.ReadDir("/proc/self/fd")
	if len(after) > len(before)+2 {
		t.Errorf("%d descriptors, %d before", len(after), len(before))
	}
}

// While the name of a program is exchanged for links, FIFOs and other programs
// all the time, what is copied under an id are the bytes of that id.
func TestKeeperSwapped(t *testing.T) {
	a, b := program(t), program(t)
	dir := t.TempDir()
	at := filepath.Join(dir, "x")
	ids, cache := keeperOf(t, Copies{})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			tmp := filepath.Join(dir, "tmp")
			os.Remove(tmp)
			switch rand.IntN(5) {
			case 0:
				os.Symlink(a, tmp)
			case 1:
				unix.Mkfifo(tmp, 0o666)
			case 2:
				os.Symlink("/dev/tty", tmp)
			case 3:
				os.Link(b, tmp)
			case 4:
				os.Link(a, tmp)
			}
			os.Rename(tmp, at)
		}
	})
	m, _ := mapped1(t, a)
	m.name = at
	real := m
	for i := range 200 {
		m = real
		if i%2 == 1 {
			m.pid, m.start, m.end = os.Getpid(), 0, 0 // by its name alone
		}
		m.gen = uint64(i)
		if got := ids.of(m); got != "" && got != idOf(t, a) {
			t.Fatalf("id %s", got)
		}
	}
	close(stop)
	wg.Wait()
	ids.keep.finish()
	want, err := os.ReadFile(a)
	if err != nil {
		t.Fatal(err)
	}
	isKept(t, cache, idOf(t, a), at, want)
}

// A perf map that is a link, a FIFO, another user's, or older than its process
// is not taken.
func TestKeeperLogs(t *testing.T) {
	prog := program(t)
	for what, tt := range map[string]struct {
		plant func(name string) error
		want  bool
		why   string
	}{
		"good": {func(name string) error { return os.WriteFile(name, []byte("1000 10 f\n"), 0o600) }, true, ""},
		"link": {func(name string) error { return os.Symlink("/etc/passwd", name) }, false, "not a regular file"},
		"FIFO": {func(name string) error { return unix.Mkfifo(name, 0o600) }, false, "not a regular file"},
		"old": {func(name string) error {
			past := time.Now().Add(-time.Hour)
			return errors.Join(os.WriteFile(name, []byte("1000 10 f\n"), 0o600), os.Chtimes(name, past, past))
		}, false, ""},
		"other user": {func(name string) error {
			return errors.Join(os.WriteFile(name, []byte("1000 10 f\n"), 0o600), os.Chown(name, 12345, -1))
		}, false, "owned by user 12345"},
		"none": {func(string) error { return nil }, false, ""},
	} {
		t.Run(what, func(t *testing.T) {
			ids, dir := keeperOf(t, Copies{})
			m, _ := mapped1(t, prog)
			ids.of(mapping{pid: m.pid, name: "//anon"})
			name := fmt.Sprintf("/tmp/perf-%d.map", m.pid)
			t.Cleanup(func() { os.Remove(name) })
			if err := tt.plant(name); err != nil {
				ids.keep.finish()
				t.Skipf("NOTICE: %v", err)
			}
			begin := time.Now()
			st := ids.keep.finish()
			f, err := store.Cache(dir).During(begin.Add(-time.Minute), time.Now()).Get(context.Background(), store.Key{Kind: store.PerfMap, PID: int32(m.pid)})
			if (err == nil) != tt.want || tt.want && (st.Files != 1 || f.Unverified) {
				t.Errorf("%v: %+v", err, st)
			}
			if err == nil {
				f.Close()
				if _, err := store.Cache(dir).During(begin.Add(-time.Hour), begin.Add(-time.Minute)).Get(context.Background(), store.Key{Kind: store.PerfMap, PID: int32(m.pid)}); err == nil {
					t.Error("the map of a recording is used for another one")
				}
			}
			if got := fmt.Sprint(st.Left); (tt.why == "") != (len(st.Left) == 0) || !strings.Contains(got, tt.why) {
				t.Errorf("left out: %s, want %q", got, tt.why)
			}
		})
	}
}

// A file system on which a program ran that was copied can be unmounted, while
// it is recorded.
func TestKeeperUnmount(t *testing.T) {
	prog := program(t)
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, ""); err != nil {
		t.Skipf("NOTICE: not to be mounted here: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	b, err := os.ReadFile(prog)
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, "prog")
	if err := os.WriteFile(at, b, 0o755); err != nil {
		t.Fatal(err)
	}
	ids, cache := keeperOf(t, Copies{})
	m, end := mapped1(t, at)
	ids.of(m)
	end()
	for range 200 {
		if err = unix.Unmount(dir, 0); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		t.Error(err)
	}
	if st := ids.keep.finish(); st.Files != 1 || !isKept(t, cache, idOf(t, prog), at, b) {
		t.Errorf("%+v", st)
	}
}
