package perftest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/internal/perftest"
)

// TestExclusive: while one test records alone, others wait, and what the test
// itself runs does not.
func TestExclusive(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	free := func(how int) bool {
		f, err := os.Open(filepath.Join(os.TempDir(), "perfark-test-record"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return unix.Flock(int(f.Fd()), how|unix.LOCK_NB) == nil
	}
	t.Run("alone", func(t *testing.T) {
		perftest.Exclusive(t)
		if free(unix.LOCK_SH) {
			t.Error("another could record")
		}
		t.Run("part", func(t *testing.T) {
			perftest.Exclusive(t)
			perftest.Shared(t)
			perftest.Run(t, "", nil, nil, "true", "record", "--buildid-mmap")
		})
		if free(unix.LOCK_SH) {
			t.Error("another could record behind the part")
		}
	})
	if !free(unix.LOCK_EX) {
		t.Error("the lock outlives the test")
	}
	t.Run("shared", func(t *testing.T) {
		perftest.Shared(t)
		perftest.Shared(t)
		if free(unix.LOCK_EX) || !free(unix.LOCK_SH) {
			t.Error("the lock is not shared")
		}
	})
	if !free(unix.LOCK_EX) {
		t.Error("the shared lock outlives the test")
	}

	// One that waits to be alone goes before those that come later and share.
	perftest.Run(t, "", nil, nil, "true", "record", "--buildid-mmap")
	holder := exec.Command("flock", "-s", filepath.Join(os.TempDir(), "perfark-test-record"), "sleep", "0.3")
	perftest.NeedTool(t, "flock")
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	defer holder.Wait()
	for free(unix.LOCK_EX) {
		time.Sleep(time.Millisecond)
	}
	perftest.Run(t, "", nil, nil, "true", "record", "--buildid-mmap")
	if !free(unix.LOCK_EX) {
		t.Error("did not wait for one that shares")
	}
}
