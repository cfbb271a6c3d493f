//go:build linux

package capture

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/archive"
	"github.com/perfark/perfark/store"
)

// bytesOf returns n bytes that do not shrink, the same for the same seed.
func bytesOf(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	r.Read(b)
	return b
}

// fake makes the bundle of a window: with a recording of size bytes, and an
// object in the pool for each seed.
func fake(ctx context.Context, w Window, size, object int, seeds ...uint64) (Made, error) {
	data := bytesOf(1, size)
	m := &archive.Manifest{Version: archive.ManifestVersion, Pool: poolName,
		Data: &archive.Data{Name: "perf.data", Size: int64(size), SHA256: sumOf(data), Included: true}}
	for _, seed := range seeds {
		b := bytesOf(seed, object)
		sum := sumOf(b)
		f := archive.File{Kind: store.ELF, Size: int64(object), SHA256: sum, Pooled: true,
			Name: archive.Name(archive.ObjectName(fmt.Sprintf("/bin/x%d", seed), "", sum, store.ELF))}
		m.Objects = append(m.Objects, archive.Object{Kind: "file", Paths: []archive.Name{archive.Name(fmt.Sprintf("/bin/x%d", seed))}, Unverified: true, Samples: 1, Files: []archive.File{f}})
		if err := w.Pool.Put(ctx, &f, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }, archive.EncodeOptions{}); err != nil {
			return Made{}, err
		}
	}
	err := archive.Create(ctx, w.Bundle, nil, func(f *os.File) error {
		return archive.Encode(ctx, f, m, archive.Contents{
			Data: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil },
		}, archive.EncodeOptions{Format: archive.Bundle})
	})
	return Made{Size: int64(size), Samples: 10, Frames: 4, Named: 3}, err
}

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func open(t *testing.T, name string) *Dir {
	t.Helper()
	d, err := Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// bundles lists the bundles of a directory, and checks that each has all it
// refers to.
func bundles(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*.perfark"))
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range list {
		a, err := archive.Open(t.Context(), name, archive.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		rep, err := a.Verify(t.Context(), archive.VerifyOptions{})
		if err != nil || len(rep.Defects) > 0 {
			t.Errorf("%s: %+v, %v", name, rep, err)
		}
		a.Close()
		list[i] = filepath.Base(name)
	}
	return list
}

func objects(t *testing.T, dir string) int {
	t.Helper()
	p, err := archive.OpenPool(filepath.Join(dir, poolName))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	list, err := p.List()
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// AGT-3: windows begin at multiples of the interval from the first, however long
// each takes; those whose time has passed are counted and not made up for.
func TestSchedule(t *testing.T) {
	d := open(t, t.TempDir())
	const every = 200 * time.Millisecond
	var begun []time.Duration
	start := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	stats, err := d.Run(ctx, Options{Every: every, Host: "h", Make: func(ctx context.Context, w Window) (Made, error) {
		begun = append(begun, time.Since(start))
		switch len(begun) {
		case 2: // this one and the one to come are missed
			time.Sleep(every*2 + every/4)
		case 4:
			cancel()
			return Made{}, ctx.Err()
		}
		return fake(ctx, w, 100, 100, 1)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if stats.Complete != 3 || stats.Missed < 2 || stats.Failed != 0 {
		t.Errorf("%+v", stats)
	}
	// However late this machine is, no window is too early, and what was missed
	// is not made up for.
	for i, n := range []uint64{0, 1, 4, 3 + stats.Missed} {
		if len(begun) != 4 || begun[i] < time.Duration(n)*every {
			t.Fatalf("windows began at %v; number %d was to begin at %v", begun, i, time.Duration(n)*every)
		}
	}
	if n := len(bundles(t, d.name)); n != 3 {
		t.Errorf("%d bundles, want 3", n)
	}
}

// Windows of one second have names of their own, with the host made safe.
func TestNames(t *testing.T) {
	dir := t.TempDir()
	at := time.Date(2026, 3, 4, 5, 6, 7, 8, time.FixedZone("", 3600))
	var got []string
	for range 3 {
		name := BundleName(dir, "../a b\x1b/ü", at)
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		got = append(got, filepath.Base(name))
	}
	want := []string{"_a_b___-20260304T040607Z.perfark", "_a_b___-20260304T040607Z-2.perfark", "_a_b___-20260304T040607Z-3.perfark"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, n := range got {
		if !ours.MatchString(n) {
			t.Errorf("%q is not known as ours", n)
		}
	}
	if n := safeName(strings.Repeat("x", 300)); len(n) != 100 {
		t.Errorf("a name of %d bytes", len(n))
	}
	// Where nothing can be told of a name, there is one all the same.
	if n := BundleName(filepath.Join(dir, got[0]), "a", at); filepath.Base(n) != "a-20260304T040607Z.perfark" {
		t.Errorf("below a file: %q", n)
	}
}

// F18: two processes do not share a directory; the number of the first is told,
// and its lock goes with it.
func TestLocked(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestHelper$")
	cmd.Env = append(os.Environ(), "PERFARK_TEST_DIR="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.Read(make([]byte, 1))
	_, err = Open(t.Context(), dir)
	locked, ok := errors.AsType[*LockedError](err)
	if !ok || locked.PID != cmd.Process.Pid || err.Error() != fmt.Sprintf("%s: process %d captures into it", dir, cmd.Process.Pid) {
		t.Errorf("while process %d has it: %v", cmd.Process.Pid, err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	open(t, dir)

	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "others may write to it") {
		t.Errorf("a directory that all may write to: %v", err)
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chown(dir, 4711, -1)); err != nil {
		t.Skipf("NOTICE: no directory of another user: %v", err)
	}
	if _, err := Open(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "owned by user 4711") {
		t.Errorf("a directory of another user: %v", err)
	}
}

// TestHelper is a process that has a directory.
func TestHelper(t *testing.T) {
	dir := os.Getenv("PERFARK_TEST_DIR")
	if dir == "" {
		t.Skip("it is for TestLocked")
	}
	open(t, dir)
	fmt.Println()
	time.Sleep(time.Minute)
}

// STO-4: what is old or too much goes, whole bundles first and then what they
// alone referred to; what others put there stays, with what it refers to.
func TestRetention(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	day := 24 * time.Hour
	now := time.Now()
	for name, seeds := range map[string][]uint64{
		"h-" + now.Add(-9*day).UTC().Format(stampLayout) + ".perfark":   {1, 2},
		"h-" + now.Add(-8*day).UTC().Format(stampLayout) + "-2.perfark": {2, 3},
		"h-" + now.Add(-6*day).UTC().Format(stampLayout) + ".perfark":   {3, 4},
		"h-" + now.Add(99*day).UTC().Format(stampLayout) + ".perfark":   {4, 5}, // the clock was wrong
		"kept.perfark": {1},
	} {
		if _, err := fake(t.Context(), Window{Bundle: filepath.Join(dir, name), Pool: d.pool}, 10, 1000, seeds...); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := fake(t.Context(), Window{Bundle: filepath.Join(t.TempDir(), "gone"), Pool: d.pool}, 10, 1000, 6); err != nil {
		t.Fatal(err)
	}
	d.Close()
	d = open(t, dir)
	stats, err := d.Run(t.Context(), Options{Keep: 7 * day, Host: "h", Make: func(ctx context.Context, w Window) (Made, error) {
		return fake(ctx, w, 10, 1000, 7)
	}})
	if err != nil || stats.Removed != 2 || stats.Collected != 2 || stats.Bundles != 3 {
		t.Errorf("%+v, %v", stats, err)
	}
	if list := bundles(t, dir); len(list) != 4 {
		t.Errorf("bundles %q", list)
	}
	if n := objects(t, dir); n != 5 {
		t.Errorf("%d objects, want 1, 3, 4, 5 and 7", n)
	}

	// Where it is not known what a bundle refers to, all objects stay.
	d.Close()
	if err := os.WriteFile(filepath.Join(dir, "broken.perfark"), []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	d = open(t, dir)
	if _, err := d.Run(t.Context(), Options{Keep: time.Nanosecond, Host: "h", Make: func(ctx context.Context, w Window) (Made, error) {
		return fake(ctx, w, 10, 1000, 8)
	}}); err != nil {
		t.Fatal(err)
	}
	if n := objects(t, dir); n != 6 {
		t.Errorf("%d objects, want all", n)
	}
}

// The directory never has more than it may, whatever windows need, and what is
// left refers to nothing that is gone.
func TestMaxBytes(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	const most = 14 << 20
	ctx, cancel := context.WithCancel(t.Context())
	n := uint64(0)
	stats, err := d.Run(ctx, Options{Every: time.Millisecond, MaxBytes: most, Host: "h",
		Make: func(ctx context.Context, w Window) (Made, error) {
			if n++; n == 40 {
				cancel()
			}
			if got, _ := d.size(); got+w.Room > most {
				t.Fatalf("%d bytes, and room for %d: more than %d", got, w.Room, most)
			}
			size := 200_000 + 50_000*int(n%7)
			if w.Room < int64(size)+400_000 {
				return Made{}, archive.ErrNoRoom
			}
			m, err := fake(ctx, w, size, 300_000, n/4, 1000)
			if got, _ := d.size(); got > most {
				t.Fatalf("%d bytes: more than %d", got, most)
			}
			return m, err
		}})
	if err != nil || stats.Removed == 0 || stats.Collected == 0 || stats.Failed > 2 {
		t.Errorf("%+v, %v", stats, err)
	}
	if list := bundles(t, dir); len(list) < 5 {
		t.Errorf("only %d bundles in %d bytes", len(list), stats.Bytes)
	}
}

// F1, F39: what killed processes left is removed, what is in use is not.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	open(t, dir).Close()
	sum := strings.Repeat("ab", 32)
	for _, name := range []string{WorkPrefix + "1/debug/x", WorkPrefix + "2/perf.data", ".x.perfark.perfark-12-0", poolName + "/ab/." + sum + ".zst.perfark-3-1", "mine/.x.perfark-1", ".other"} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(filepath.Join(dir, WorkPrefix+"2"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	var left []string
	filepath.Walk(dir, func(name string, fi os.FileInfo, err error) error {
		if err == nil && fi.Mode().IsRegular() {
			rel, _ := filepath.Rel(dir, name)
			left = append(left, rel)
		}
		return nil
	})
	want := []string{WorkPrefix + "2/perf.data", ".other", lockName, "mine/.x.perfark-1"}
	slices.Sort(want)
	slices.Sort(left)
	if !slices.Equal(left, want) {
		t.Errorf("left: %q, want %q", left, want)
	}
}

// F3: on a full disk a window is given up, what is there stays whole, and it
// goes on when there is room; the oldest bundles make some.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=12m,mode=700"); err != nil {
		t.Skipf("NOTICE: no tmpfs can be mounted: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	d := open(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	n, notes := uint64(0), 0
	filler := filepath.Join(dir, "of-others")
	stats, err := d.Run(ctx, Options{Every: time.Millisecond, Host: "h",
		Note: func(format string, args ...any) {
			notes++
			if s := fmt.Sprintf(format, args...); !strings.Contains(s, "given up") || !strings.Contains(s, "no space left") || strings.Contains(s, "\n") {
				t.Errorf("note %q", s)
			}
		},
		Make: func(ctx context.Context, w Window) (Made, error) {
			n++
			switch n {
			case 12: // somebody else fills it
				if err := os.WriteFile(filler, bytesOf(9, 5<<20), 0o600); err != nil {
					t.Fatal(err)
				}
			case 24:
				os.Remove(filler)
			case 40:
				cancel()
			}
			return fake(ctx, w, 300_000, 200_000, n, n-1)
		}})
	if err != nil || stats.Failed == 0 || notes != int(stats.Failed) || stats.Removed == 0 || stats.Failed > 20 {
		t.Errorf("%+v, %v, %d notes", stats, err, notes)
	}
	if list := bundles(t, dir); len(list) < 3 {
		t.Errorf("bundles %q", list)
	}
	if stats.Last.Samples == 0 || time.Since(stats.LastTime) > time.Minute {
		t.Errorf("the last one: %+v", stats)
	}
}

// The first window that cannot be made for another reason than room ends all:
// so will the others.
func TestFirstFails(t *testing.T) {
	d := open(t, t.TempDir())
	no := errors.New("not allowed")
	if _, err := d.Run(t.Context(), Options{Every: time.Hour, Make: func(context.Context, Window) (Made, error) { return Made{}, no }}); !errors.Is(err, no) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	stats, err := d.Run(ctx, Options{Every: time.Millisecond, Host: "h", Make: func(ctx context.Context, w Window) (Made, error) {
		switch n++; n {
		case 1, 3:
			return fake(ctx, w, 10, 10, 1)
		case 4:
			cancel()
		}
		return Made{}, no
	}})
	if err != nil || stats.Complete != 2 || stats.Failed != 1 {
		t.Errorf("%+v, %v", stats, err)
	}
}

// A bundle whose making is stopped or fails when it has its name already keeps
// what it refers to.
func TestStoppedLate(t *testing.T) {
	for _, want := range []error{nil, errors.New("no last word of the disk")} {
		d := open(t, t.TempDir())
		ctx, cancel := context.WithCancel(t.Context())
		_, err := d.Run(ctx, Options{Every: time.Hour, Host: "h", Make: func(ctx context.Context, w Window) (Made, error) {
			made, err := fake(ctx, w, 10, 10, 1)
			cancel()
			return made, errors.Join(err, want)
		}})
		if list := bundles(t, d.name); err != nil || len(list) != 1 || objects(t, d.name) != 1 {
			t.Errorf("%v: %v, %q, %d objects", want, err, list, objects(t, d.name))
		}
	}
	d := open(t, t.TempDir())
	_, err := d.Run(t.Context(), Options{Host: "h", Make: func(ctx context.Context, w Window) (Made, error) {
		made, err := fake(ctx, w, 10, 10, 1)
		return made, errors.Join(err, archive.ErrNoRoom)
	}})
	if list := bundles(t, d.name); !errors.Is(err, archive.ErrNoRoom) || len(list) != 1 || objects(t, d.name) != 1 {
		t.Errorf("%v, %q, %d objects", err, list, objects(t, d.name))
	}
}

// AGT-1: windows that take more than their share of the processor have fewer
// samples, then no search for debug information, and are left out until the
// share is kept.
func TestStrain(t *testing.T) {
	d := open(t, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var strains []Strain
	var burnt time.Duration // of the processor, by a clock that nothing else moves
	start := time.Now()
	note := func(format string, args ...any) {
		if strings.HasPrefix(format, "windows are skipped") {
			cancel()
		}
	}
	stats, err := d.Run(ctx, Options{Every: 100 * time.Millisecond, MaxCPU: 1, Host: "h", Note: note, cpu: func() time.Duration { return burnt }, Make: func(ctx context.Context, w Window) (Made, error) {
		strains = append(strains, w.Strain)
		burnt += 250 * time.Millisecond
		return fake(ctx, w, 10, 10, 1)
	}})
	if err != nil || stats.Skipped == 0 {
		t.Errorf("%+v, %v", stats, err)
	}
	// A minute's share is there at the beginning.
	if share := (time.Since(start)+time.Minute)/100 + 500*time.Millisecond; burnt > share+share/2 {
		t.Errorf("%v of the processor, the share is %v", burnt, share)
	}
	if n := len(strains); n < 3 || n > 5 || strains[0] != Ease || stats.Strain == Ease {
		t.Errorf("strains %v, then %v", strains, stats.Strain)
	}
	if HalfRate.Rate() != 2 || QuarterRate.Rate() != 4 || NoDebug.Rate() != 4 || Ease.Rate() != 1 {
		t.Error("rates")
	}
	r := &runner{o: Options{Every: time.Second, MaxCPU: 10, Note: func(string, ...any) {}}}
	r.strain(time.Millisecond, ErrMemory)
	r.strain(time.Millisecond, ErrMemory)
	r.strain(time.Millisecond, ErrMemory)
	if r.stats.Strain != NoDebug {
		t.Errorf("after windows that took too much memory: %v", r.stats.Strain)
	}
	r.strain(time.Millisecond, nil)
	if r.stats.Strain != QuarterRate {
		t.Errorf("after one that did not: %v", r.stats.Strain)
	}
}

// A window that takes too much memory is ended.
func TestWithMemory(t *testing.T) {
	ctx, stop := WithMemory(t.Context(), Memory()+32<<20)
	defer stop()
	b := make([]byte, 64<<20)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
	}
	if !errors.Is(context.Cause(ctx), ErrMemory) {
		t.Errorf("%v, with %d bytes", context.Cause(ctx), Memory())
	}
	if b[4096] != 1 {
		t.Error("never")
	}
	ctx, stop = WithMemory(t.Context(), 1<<40)
	stop()
	if err := context.Cause(ctx); errors.Is(err, ErrMemory) || err == nil {
		t.Errorf("after the end: %v", err)
	}
}

// What Prometheus reads, from a file and from a port of this host alone.
func TestMetrics(t *testing.T) {
	s := Stats{Complete: 3, Partial: 1, Failed: 2, Samples: 1e6, CPU: 1500 * time.Millisecond, Bundles: 4, Bytes: 12345,
		Last: Made{Samples: 10, Frames: 4, Named: 3}, LastTime: time.Unix(1_700_000_000, 5e8), Took: 2 * time.Second}
	file := filepath.Join(t.TempDir(), "perfark.prom")
	m := &Metrics{MaxBytes: 99, File: file}
	for range 2 {
		if err := m.Set(s); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if st, _ := os.Stat(file); st.Mode().Perm() != 0o644 {
		t.Errorf("mode %v", st.Mode())
	}
	line := regexp.MustCompile(`^(# HELP perfark_capture_[a-z_]+ [A-Z][^\n]*\.|# TYPE perfark_capture_[a-z_]+ (counter|gauge)|perfark_capture_[a-z_]+(\{result="[a-z]+"\})? [0-9.e+]+)$`)
	for l := range strings.Lines(string(b)) {
		if !line.MatchString(strings.TrimSuffix(l, "\n")) {
			t.Errorf("line %q", l)
		}
	}
	for _, want := range []string{
		`perfark_capture_windows_total{result="complete"} 3`, `perfark_capture_windows_total{result="failed"} 2`, "perfark_capture_cpu_seconds_total 1.5",
		"perfark_capture_last_coverage_ratio 0.75", "perfark_capture_last_timestamp_seconds 1.7000000005e+09", "perfark_capture_directory_limit_bytes 99",
	} {
		if !strings.Contains(string(b), want+"\n") {
			t.Errorf("no line %q in\n%s", want, b)
		}
	}

	for _, at := range []string{"0.0.0.0:0", "[::]:0", "192.0.2.1:80", ":0", "example.com:80", "127.0.0.1"} {
		if l, err := ListenLoopback(at); err == nil {
			l.Close()
			t.Errorf("%q was listened at", at)
		}
	}
	l, err := ListenLoopback("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Serve(ctx, l) }()
	for range 40 {
		res, err := http.Get("http://" + l.Addr().String() + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || !strings.Contains(string(got), `perfark_capture_windows_total{result="complete"} 3`) || res.Header.Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
			t.Fatalf("%v, %v:\n%s", err, res.Header, got)
		}
	}
	if res, err := http.Post("http://"+l.Addr().String()+"/metrics", "", nil); err != nil || res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %v, %v", res, err)
	}
	if res, err := http.Get("http://" + l.Addr().String() + "/debug"); err != nil || res.StatusCode != http.StatusNotFound {
		t.Errorf("another path: %v, %v", res, err)
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the end: %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("it does not end")
	}
}
