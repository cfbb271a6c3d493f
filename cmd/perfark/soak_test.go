package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/archive"
)

// A soak is a directory that captures go into, on a disk of its own, under load.
type soak struct {
	*recorder
	dir    string
	disk   int64 // bytes
	max    int64 // --max-bytes
	memory int64 // --max-memory
	filler string

	filled   atomic.Int64 // bytes of filler; -1 while it changes
	peak     atomic.Int64 // of what the disk has, without filler
	verified map[string]bool
}

// used returns what is on the disk, names or not, in bytes.
func (s *soak) used() int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(s.dir), &st); err != nil {
		return 0
	}
	return int64(st.Blocks-st.Bfree) * int64(st.Bsize)
}

func (s *soak) start() (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.Command(s.bin, "capture", "-e", "cpu-clock", "-F", "199", "-a", "-g", "--every", "400ms", "--duration", "150ms", "--dir", s.dir,
		"--max-bytes", strconv.FormatInt(s.max, 10), "--max-cpu", "0", "--max-memory", strconv.FormatInt(s.memory, 10), "--nice", "0", "--jobs", "2",
		"--max-object-size", "16M", "--debug-info", "none")
	cmd.Dir = s.recorder.dir
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	return cmd, &errs
}

// began waits until a process has the directory: before, it does not mind
// signals yet.
func (s *soak) began(pid int) {
	s.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		b, _ := os.ReadFile(filepath.Join(s.dir, ".perfark.lock"))
		if n, _ := strconv.Atoi(strings.TrimSpace(string(b))); n == pid {
			return
		}
		if time.Now().After(end) {
			s.Fatalf("process %d does not take the directory within a minute", pid)
		}
	}
}

// watch looks at the disk and at the memory of a process until the function it
// returns is called.
func (s *soak) watch(pid int) func() {
	stop, done := make(chan struct{}), make(chan struct{})
	anon := regexp.MustCompile(`RssAnon:\s+(\d+) kB`)
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			filled := s.filled.Load()
			if n := s.used() - filled; filled >= 0 && filled == s.filled.Load() {
				s.peak.Store(max(s.peak.Load(), n))
			}
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			if m := anon.FindSubmatch(b); m != nil {
				if kb, _ := strconv.ParseInt(string(m[1]), 10, 64); kb<<10 > s.memory+s.memory/8 {
					s.Errorf("%d kB of memory, with --max-memory %d", kb, s.memory>>10)
				}
			}
		}
	}()
	return func() { close(stop); <-done }
}

// verify checks the bundles that were not checked before, or all. Their pool
// may have lost nothing.
func (s *soak) verify(all bool) int {
	s.Helper()
	list, err := filepath.Glob(filepath.Join(s.dir, "*.perfark"))
	if err != nil {
		s.Fatal(err)
	}
	for _, name := range list {
		if s.verified[name] && !all {
			continue
		}
		s.verified[name] = true
		a, err := archive.Open(s.Context(), name, archive.OpenOptions{})
		if err != nil {
			s.Errorf("%v", err)
			continue
		}
		rep, err := a.Verify(s.Context(), archive.VerifyOptions{})
		if err != nil || len(rep.Defects) > 0 || rep.Files < 2 {
			s.Errorf("%s: %+v, %v", name, rep, err)
		}
		a.Close()
	}
	return len(list)
}

// fill leaves room for n bytes on the disk.
func (s *soak) fill(n int64) {
	s.Helper()
	f, err := os.Create(s.filler)
	if err != nil {
		s.Fatal(err)
	}
	defer f.Close()
	s.filled.Store(-1)
	size := max(s.disk-s.used()-n, 0)
	if err := unix.Fallocate(int(f.Fd()), 0, 0, size); err != nil && err != unix.ENOSPC {
		s.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		s.Fatal(err)
	}
	s.filled.Store(st.Blocks * 512)
}

// An unattended capture at short intervals under load, with kills at any moment
// and a disk that is full now and then: what is kept is whole, no bound is
// exceeded, and nothing but bundles and what they need is left in the end.
// PERFARK_SOAK says for how long, such as 1h.
func TestSoak(t *testing.T) {
	r := newRecorder(t)
	length := 12 * time.Second
	if v := os.Getenv("PERFARK_SOAK"); v != "" {
		var err error
		if length, err = time.ParseDuration(v); err != nil {
			t.Fatal(err)
		}
	}
	disk := t.TempDir()
	s := &soak{recorder: r, dir: filepath.Join(disk, "profiles"), disk: 64 << 20, max: 40 << 20, memory: 512 << 20, verified: map[string]bool{}}
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", s.disk)); err != nil {
		t.Skipf("NOTICE: no tmpfs can be mounted: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(disk, unix.MNT_DETACH) })
	s.filler = filepath.Join(disk, "of-others")
	for range 2 {
		r.background("./burn", "1000000")
	}
	r.background("sh", "-c", "while :; do ./burn 1; done")

	kills, full, refused := 0, 0, 0
	rnd := rand.New(rand.NewPCG(1, 2))
	for end := time.Now().Add(length); time.Now().Before(end); {
		cmd, errs := s.start()
		unwatch := s.watch(cmd.Process.Pid)
		time.Sleep(time.Duration(rnd.IntN(4000)) * time.Millisecond)
		kill := true
		switch rnd.IntN(4) {
		case 0: // a second one is refused
			second, serrs := s.start()
			second.Wait()
			if code := second.ProcessState.ExitCode(); code != 1 || !strings.Contains(serrs.String(), fmt.Sprintf("process %d captures into it", cmd.Process.Pid)) {
				// The first may not have begun: then it is the one that is refused.
				if !strings.Contains(errs.String(), fmt.Sprintf("process %d captures into it", second.Process.Pid)) {
					t.Errorf("a second one: status %d\n%s\nthe first:\n%s", code, serrs, errs)
				}
			}
			refused++
		case 1: // the disk is full for a while
			s.fill(int64(rnd.IntN(2 << 20)))
			time.Sleep(1500 * time.Millisecond)
			s.filled.Store(-1)
			os.Remove(s.filler)
			s.filled.Store(0)
			full++
		case 2:
			kill = false
		}
		if kill {
			cmd.Process.Kill()
			kills++
		} else {
			s.began(cmd.Process.Pid)
			cmd.Process.Signal(syscall.SIGTERM)
		}
		cmd.Wait()
		unwatch()
		if code := cmd.ProcessState.ExitCode(); !kill && code != 0 && code != 143 {
			t.Errorf("SIGTERM: status %d\n%s", code, errs)
		}
		if text := errs.String(); strings.Contains(text, "internal error") || strings.Contains(text, "panic") {
			t.Errorf("%s", text)
		}
		s.verify(false)
	}
	// One more round, in peace.
	cmd, errs := s.start()
	read := func() string {
		list, _ := filepath.Glob(filepath.Join(s.dir, "*.perfark"))
		return strings.Join(list, " ")
	}
	before := read()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end) && read() == before; {
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(time.Second)
	cmd.Process.Signal(syscall.SIGTERM)
	cmd.Wait()
	n := s.verify(true)
	if n == 0 {
		t.Errorf("no bundle was kept; the last run:\n%s", errs)
	}
	if peak := s.peak.Load(); peak > s.max+(256<<10) { // the file system has some blocks for itself
		t.Errorf("%d bytes were on the disk, with --max-bytes %d", peak, s.max)
	}
	list, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if n := e.Name(); !strings.HasSuffix(n, ".perfark") && n != "objects" && n != ".perfark.lock" {
			t.Errorf("left over: %s", n)
		}
	}
	t.Logf("%d kills, %d times a full disk, %d refused; %d bundles verified, %d kept, at most %d bytes", kills, full, refused, len(s.verified), n, s.peak.Load())
}
