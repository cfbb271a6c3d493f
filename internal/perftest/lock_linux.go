package perftest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// lockWait is how long a test waits for its turn to record.
const lockWait = 3 * time.Minute

// held has the names of the tests that hold the lock, and how.
var held struct {
	sync.Mutex
	by map[string]int // unix.LOCK_SH or unix.LOCK_EX
}

// Exclusive keeps all other tests from recording until the test ends, those of
// other packages and of other users too. A recording that asks the kernel for
// Build IDs (--buildid-mmap) needs it: a perf 6.1 that records at the same time
// dies of what the kernel then writes into its buffers. [Run] takes it for the
// time of such a recording; a test calls it for recordings that it starts by
// other means. A test that waits longer than three minutes fails.
func Exclusive(t testing.TB) {
	t.Helper()
	hold(t, unix.LOCK_EX)
}

// Shared keeps tests that call [Exclusive] from recording until the test ends.
// A test that records with perf needs it; [Run] takes it for the time of perf
// record. A test that waits longer than three minutes fails.
func Shared(t testing.TB) {
	t.Helper()
	hold(t, unix.LOCK_SH)
}

// Alone keeps other tests that call it with the name, those of other processes
// too, from going on until the test ends: for what is one on a host. A test that
// waits longer than three minutes fails.
func Alone(t testing.TB, name string) {
	t.Helper()
	f := flock(t, "perfark-test-"+name, unix.LOCK_EX, time.Now().Add(lockWait))
	t.Cleanup(func() { f.Close() })
}

// hold takes the lock for the rest of the test.
func hold(t testing.TB, how int) {
	t.Helper()
	release := acquire(t, how)
	name := t.Name()
	held.Lock()
	if held.by == nil {
		held.by = map[string]int{}
	}
	before := held.by[name]
	held.by[name] = max(before, how)
	held.Unlock()
	t.Cleanup(func() {
		held.Lock()
		if before == 0 {
			delete(held.by, name)
		} else {
			held.by[name] = before
		}
		held.Unlock()
		release()
	})
}

// heldBy returns how the test, or one that it is a part of, holds the lock.
func heldBy(name string) int {
	held.Lock()
	defer held.Unlock()
	how := 0
	for {
		how = max(how, held.by[name])
		i := strings.LastIndexByte(name, '/')
		if i < 0 {
			return how
		}
		name = name[:i]
	}
}

// lockRecording takes the lock as the command wants it, and returns what
// releases it.
func lockRecording(t testing.TB, name string, args []string) func() {
	t.Helper()
	switch {
	case !slices.Contains(args[:min(len(args), 3)], "record"):
		return func() {}
	case slices.Contains(args, "--buildid-mmap"):
		return acquire(t, unix.LOCK_EX)
	case filepath.Base(name) == "perf":
		return acquire(t, unix.LOCK_SH)
	}
	return func() {}
}

// acquire takes the lock, unless the test has it already. There are two files:
// who waits for the second holds the first, so that those who share the lock do
// not pass one who waits for it alone.
func acquire(t testing.TB, how int) (release func()) {
	t.Helper()
	if has := heldBy(t.Name()); has >= how {
		return func() {}
	} else if has != 0 {
		t.Fatal("perftest: the test shares the lock of recordings and wants it alone: call Exclusive first")
	}
	end := time.Now().Add(lockWait)
	turn := flock(t, "perfark-test-turn", unix.LOCK_EX, end)
	defer turn.Close()
	f := flock(t, "perfark-test-record", how, end)
	return func() { f.Close() }
}

// flock locks a file of the directory for temporary files. The lock ends with
// the process, whatever it dies of.
func flock(t testing.TB, name string, how int, end time.Time) *os.File {
	t.Helper()
	name = filepath.Join(os.TempDir(), name)
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	for tries := 0; errors.Is(err, fs.ErrNotExist) && tries < 10; tries++ {
		// With O_CREAT, Linux refuses files of others in a directory of all.
		if f, err = os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o644); errors.Is(err, fs.ErrExist) {
			f, err = os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW, 0)
		} else if err == nil {
			f.Chmod(0o644) // for any user, whatever the umask
		}
	}
	if err != nil {
		t.Fatalf("perftest: the lock: %v", err)
	}
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch {
		case err == nil:
			return f
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			f.Close()
			t.Fatalf("perftest: the lock: %s: %v", name, err)
		case time.Now().After(end):
			f.Close()
			t.Fatalf("perftest: the lock: %s: another test has it for %v already", name, lockWait)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
