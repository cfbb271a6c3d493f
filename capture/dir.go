// Package capture makes bundles where nobody looks on: at intervals into a
// directory that it keeps within bounds, and on other hosts.
//
// It knows when a window of recording begins, what it is called, what is kept
// and what it may cost. What records and packs is a function of the caller.
package capture

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/archive"
	"github.com/perfark/perfark/store"
)

// Names in a directory of bundles.
const (
	lockName = ".perfark.lock" // locked by the process that captures; it has its number
	poolName = "objects"       // see archive.Pool
)

// WorkPrefix begins the names of the directories that windows work in. They are
// locked as long as they are in use; Open removes others.
const WorkPrefix = ".perfark-capture-"

// A LockedError says that a process captures into a directory already.
type LockedError struct {
	Dir string
	PID int // 0 if it is not known
}

func (e *LockedError) Error() string {
	who := "another process"
	if e.PID > 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("%s: %s captures into it", e.Dir, who)
}

// A Dir is a directory of bundles that refer to a pool, open for one process.
// It is not for use by many goroutines.
type Dir struct {
	name string
	lock *os.File
	pool *archive.Pool

	bundles []*bundle // the oldest first
	unknown []string  // bundles of others whose manifest cannot be read
	foreign []string  // sums that bundles of others refer to
}

// A bundle is one that a Dir made and may remove.
type bundle struct {
	name string // of the file
	size int64
	born time.Time // on the monotonic clock, of this process: see Dir.load
	refs []string  // sums of files in the pool
	bad  bool      // its manifest cannot be read: what it refers to is not known
}

// ours is how the files that a Dir makes are called: HOST-TIME.perfark.
var ours = regexp.MustCompile(`-([0-9]{8}T[0-9]{6}Z)(-[0-9]+)?\.perfark$`)

const stampLayout = "20060102T150405Z"

// Open makes a directory ready for bundles, and takes it: the error is a
// *LockedError if another process has it. What killed processes left in it is
// removed.
func Open(ctx context.Context, name string) (*Dir, error) {
	if err := os.MkdirAll(name, 0o700); err != nil {
		return nil, err
	}
	fi, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if err := store.CheckOwner(name, fi); err != nil {
		return nil, err
	}
	if fi.Mode().Perm()&0o022 != 0 { // nor a group, as what is removed is not looked at twice
		return nil, fmt.Errorf("%s: others may write to it (mode %#o)", name, fi.Mode().Perm())
	}
	d := &Dir{name: name}
	if err := d.take(); err != nil {
		return nil, err
	}
	if d.pool, err = archive.CreatePool(filepath.Join(name, poolName)); err == nil {
		d.sweep()
		err = d.load(ctx)
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Close gives the directory up.
func (d *Dir) Close() error {
	var err error
	if d.pool != nil {
		err = d.pool.Close()
	}
	return errors.Join(err, d.lock.Close())
}

// take locks the directory.
func (d *Dir) take() error {
	var err error
	if d.lock, err = os.OpenFile(filepath.Join(d.name, lockName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600); err != nil {
		return err
	}
	if err := unix.Flock(int(d.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer d.lock.Close()
		if err != unix.EWOULDBLOCK {
			return fmt.Errorf("%s: %w", d.lock.Name(), err)
		}
		b := make([]byte, 32)
		n, _ := d.lock.ReadAt(b, 0)
		pid, _ := strconv.Atoi(string(bytes.TrimSpace(b[:n])))
		return &LockedError{d.name, pid}
	}
	// On a full disk the number cannot be written. The lock holds all the same.
	d.lock.Truncate(0)
	d.lock.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	return nil
}

// sweep removes what killed processes left: directories of windows, and files
// that have no name of their own yet. What is being written is locked.
func (d *Dir) sweep() {
	filepath.WalkDir(d.name, func(name string, e fs.DirEntry, err error) error {
		base := filepath.Base(name)
		if err != nil || name == d.name || base == lockName {
			return nil
		}
		work := e.IsDir() && strings.HasPrefix(base, WorkPrefix)
		if work || e.Type().IsRegular() && base[0] == '.' && strings.Contains(base, ".perfark-") {
			archive.RemoveStale(name)
		}
		if e.IsDir() && (base[0] == '.' || !d.inPool(name)) {
			return fs.SkipDir
		}
		return nil
	})
}

// inPool reports whether a path is that of the pool or below.
func (d *Dir) inPool(name string) bool {
	rel, err := filepath.Rel(d.pool.Dir(), name)
	return err == nil && filepath.IsLocal(rel)
}

// load finds the bundles that are there. How old they are is known by the clock
// of the wall once, here; from then on time is what the monotonic clock says,
// so that nothing is removed because somebody sets the other one.
func (d *Dir) load(ctx context.Context) error {
	list, err := os.ReadDir(d.name)
	if err != nil {
		return err
	}
	now := time.Now()
	for _, e := range list {
		if !e.Type().IsRegular() || !strings.HasSuffix(e.Name(), archive.Bundle.Ext()) {
			continue
		}
		name := filepath.Join(d.name, e.Name())
		fi, err := e.Info()
		if err != nil {
			return err
		}
		m, err := archive.ReadManifest(ctx, name, archive.Limits{})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		g := ours.FindStringSubmatch(e.Name())
		switch {
		case g == nil && err != nil:
			d.unknown = append(d.unknown, name)
		case g == nil:
			d.foreign = append(d.foreign, pooled(m)...)
		default:
			b := &bundle{name: name, size: fi.Size(), bad: err != nil}
			made, terr := time.Parse(stampLayout, g[1])
			if terr != nil {
				made = fi.ModTime()
			}
			b.born = now.Add(-max(now.Round(0).Sub(made), 0)) // not of the future
			if err == nil {
				b.refs = pooled(m)
			}
			d.bundles = append(d.bundles, b)
		}
	}
	slices.SortStableFunc(d.bundles, func(a, b *bundle) int {
		return cmp.Or(a.born.Compare(b.born), strings.Compare(a.name, b.name))
	})
	return nil
}

// pooled lists the sums of the files that a manifest says are in the pool.
func pooled(m *archive.Manifest) []string {
	if m.Pool != poolName {
		return nil
	}
	var sums []string
	for i := range m.Objects {
		for _, f := range m.Objects[i].Files {
			if f.Pooled {
				sums = append(sums, f.SHA256)
			}
		}
	}
	return sums
}

// BundleName returns the name of a file in dir for the bundle of a recording of a
// host that begins now: HOST-TIME.perfark, and if there is one HOST-TIME-2.perfark
// and so on.
func BundleName(dir, host string, now time.Time) string {
	base := filepath.Join(dir, safeName(host)+"-"+now.UTC().Format(stampLayout))
	name := base + archive.Bundle.Ext()
	for i := 2; ; i++ {
		// Where it cannot be told, whoever writes the file finds out why.
		if _, err := os.Lstat(name); err != nil {
			return name
		}
		name = fmt.Sprintf("%s-%d%s", base, i, archive.Bundle.Ext())
	}
}

// safeName returns the name of a host so that it can be a part of that of a
// file: letters, digits and ._- alone, not too long.
func safeName(host string) string {
	safe := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}
	host = strings.TrimLeft(strings.Map(safe, host), ".-")
	if host == "" {
		return "host"
	}
	return host[:min(len(host), 100)]
}

// add takes a bundle that was made.
func (d *Dir) add(ctx context.Context, name string, born time.Time) error {
	b := &bundle{name: name, born: born}
	fi, err := os.Stat(name)
	if err != nil {
		return err
	}
	b.size = fi.Size()
	m, err := archive.ReadManifest(ctx, name, archive.Limits{})
	if b.bad = err != nil; !b.bad {
		b.refs = pooled(m)
	}
	d.bundles = append(d.bundles, b)
	return err
}

// removeOldest removes the oldest bundle.
func (d *Dir) removeOldest() error {
	b := d.bundles[0]
	if err := os.Remove(b.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	d.bundles = d.bundles[1:]
	return nil
}

// collect removes what no bundle refers to from the pool, and returns how many
// files that were. It must not be called while a bundle is made. As long as
// there is a bundle whose references are not known, everything stays.
func (d *Dir) collect() (int, error) {
	used := map[string]bool{}
	for _, sum := range d.foreign {
		used[sum] = true
	}
	for _, b := range d.bundles {
		if b.bad {
			return 0, nil
		}
		for _, sum := range b.refs {
			used[sum] = true
		}
	}
	if len(d.unknown) > 0 {
		return 0, nil
	}
	list, err := d.pool.List()
	if err != nil {
		return 0, err
	}
	n := 0
	for _, f := range list {
		if used[f.SHA256] {
			continue
		}
		if err := d.pool.Remove(f.SHA256); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return n, err
		}
		n++
	}
	return n, nil
}

// size returns what the directory takes on the disk, in bytes: all of it, and
// what of that a Dir would never remove as others put it there.
func (d *Dir) size() (total, others int64) {
	filepath.WalkDir(d.name, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // it may be gone
		}
		fi, err := e.Info()
		if err != nil {
			return nil
		}
		n := onDisk(fi)
		total += n
		rel, _ := filepath.Rel(d.name, name)
		first, _, _ := strings.Cut(rel, "/")
		if first != "." && first != poolName && first != lockName && !strings.HasPrefix(first, WorkPrefix) && !ours.MatchString(first) {
			others += n
		}
		return nil
	})
	return total, others
}

// onDisk returns what a file takes on the disk, in bytes.
func onDisk(fi fs.FileInfo) int64 {
	if st, ok := fi.Sys().(*unixStat); ok {
		return st.Blocks * 512
	}
	return fi.Size()
}
