package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/perfark/perfark/archive"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/session"
	"github.com/perfark/perfark/store"
)

// A sources is where a command finds objects.
type sources struct {
	store.Source
	elsewhere []string // caches of other users that the caller may not look into
	sameHost  bool     // the recording was made on this host, in this boot
	closers   []io.Closer
}

// Close closes the archives among them.
func (s *sources) Close() error {
	var errs []error
	for _, c := range s.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// openSources returns the sources of objects for a recording, those with the
// best tie to it first: what --symbols names, the living processes and files of
// this host, the caches, and the directories of debug files. All are bound to
// the recording by Build IDs; what is bound by its path alone is used only on
// the host and in the boot that recorded. owner is the user id of the
// recording's owner, -1 if unknown: their cache is looked into too.
func (a *app) openSources(ctx context.Context, f *perfdata.File, res *session.Result, owner int) (*sources, error) {
	recorded := f.Header().ModTime
	if recorded.IsZero() {
		recorded = liveTime(ctx, f)
	}
	s := &sources{sameHost: sameHost(f, recorded)}
	var list []store.Source
	var trees []string
	for _, name := range a.symbols {
		fi, err := os.Stat(name)
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("--symbols: %w", a.openError(name, err))
		}
		if fi.IsDir() {
			trees = append(trees, name)
			list = append(list, store.Cache(name), store.DebugDirs([]string{name}))
			continue
		}
		path, file, err := a.seekable(ctx, name)
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("--symbols: %s: %w", name, pathless(err))
		}
		if file != nil {
			s.closers = append(s.closers, file)
		}
		arc, err := archive.Open(ctx, path, a.archiveOptions())
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("--symbols: %s", strings.Replace(err.Error(), path, name, 1))
		}
		a.noteAbsent(arc, name)
		s.closers = append(s.closers, arc)
		list = append(list, arc)
	}
	if a.copies != "" {
		list = append(list, store.Cache(a.copies))
	}
	o := store.HostOptions{SameHost: s.sameHost, Recorded: recorded, Release: f.OSRelease()}
	if s.sameHost {
		for i := range res.Processes {
			if p := &res.Processes[i]; !p.Exited && p.PID > 0 {
				o.PIDs = append(o.PIDs, p.PID)
			}
		}
	}
	open, closed := a.caches(owner)
	s.elsewhere = closed
	var caches []store.Source
	from, to := recordedDuring(f, recorded)
	for _, dir := range open {
		caches = append(caches, store.Cache(dir).During(from, to))
	}
	list = append(list, cachedKallsyms{store.Multi(caches...), s.sameHost}, store.Host(o))
	list = append(list, caches...)
	dirs, err := a.debugDirectories()
	if err != nil {
		s.Close()
		return nil, err
	}
	list = append(list, store.DebugDirs(dirs))
	s.Source = store.Multi(append(list, store.Debuglinks(store.Multi(list...), append(trees, dirs...)))...)
	if s.sameHost {
		s.Source = store.Doubted(s.Source, "", o.Recorded)
	}
	return s, nil
}

// recordedDuring returns when a recording that ended at a time, zero if that is
// not known, was made: what recorders wrote down of processes' code meanwhile
// is of its processes. It began before its first sample, and its file may have
// been written to before all was copied.
func recordedDuring(f *perfdata.File, ended time.Time) (from, to time.Time) {
	if ended.IsZero() {
		return time.Time{}, time.Now()
	}
	const around = time.Minute
	if t, ok := f.SampleTime(); ok && t.Last >= t.First {
		from = ended.Add(-time.Duration(min(t.Last-t.First, math.MaxInt64/2)) - around)
	}
	return from, ended.Add(around)
}

// debugDirectories returns the directories of debug files: those of
// --debug-dir, which must be there, and the usual one.
func (a *app) debugDirectories() ([]string, error) {
	for _, dir := range a.debugDirs {
		switch fi, err := os.Stat(dir); {
		case err != nil:
			return nil, fmt.Errorf("--debug-dir: %w", a.openError(dir, err))
		case !fi.IsDir():
			return nil, fmt.Errorf("--debug-dir: %s: not a directory", dir)
		}
	}
	return append(slices.Clone(a.debugDirs), "/usr/lib/debug"), nil
}

// cachedKallsyms is what caches have of kallsyms, to be asked before the
// running kernel, which takes long to print them. A copy that perf made at the
// end of a recording is as good, or better if modules came and went since. Of a
// recording of this boot, a copy of an earlier one is not.
type cachedKallsyms struct {
	caches   store.Source
	sameHost bool
}

func (c cachedKallsyms) Get(ctx context.Context, k store.Key) (*store.File, error) {
	none := fmt.Errorf("%v: %w", k, fs.ErrNotExist)
	if k.Kind != store.Kallsyms || k.ID == "" {
		return nil, none
	}
	f, err := c.caches.Get(ctx, k)
	if err != nil {
		return nil, none // what was refused is said by the caches, asked again
	}
	if up, ok := uptime(); c.sameHost && (!ok || f.Info == nil || f.Info.ModTime().Before(time.Now().Add(-up))) {
		f.Close()
		return nil, none
	}
	return f, nil
}

// sameHost reports whether a recording that ended at a time was made on this
// host since it was booted, as far as it tells.
func sameHost(f *perfdata.File, recorded time.Time) bool {
	host, err := os.Hostname()
	if err != nil || host == "" || f.Hostname() != host {
		return false
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil || f.OSRelease() != strings.TrimSpace(string(release)) {
		return false
	}
	up, ok := uptime()
	return ok && recorded.After(time.Now().Add(-up))
}

// uptime returns for how long this host has been running.
func uptime() (time.Duration, bool) {
	b, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0, false
	}
	first, _, _ := strings.Cut(string(b), " ")
	seconds, err := strconv.ParseFloat(first, 64)
	return time.Duration(seconds * float64(time.Second)), err == nil
}

// liveTime returns when a recording without a file time ended, which is one
// that comes through a pipe: if its last record is less than a minute old by
// the clock that perf uses by default, ns since the boot. Else the recording
// is of another day or host, and the result zero.
func liveTime(ctx context.Context, f *perfdata.File) time.Time {
	const live = time.Minute
	up, ok := uptime()
	if !ok {
		return time.Time{}
	}
	last := lastTime(ctx, f)
	age := up - time.Duration(min(last, math.MaxInt64))
	if last == 0 || age < -live || age > live {
		return time.Time{}
	}
	return time.Now().Add(-max(age, 0))
}

// lastTime returns the latest of the times of the last records of each batch,
// in ns; 0 if there is none.
func lastTime(ctx context.Context, f *perfdata.File) uint64 {
	d := perfdata.NewDecoder(f)
	batches := f.Batches(ctx)
	var last uint64
	for {
		b, err := batches.Next()
		if err != nil {
			return last
		}
		var rec []byte
		for data := b.Data; len(data) >= 8; {
			typ, _, size := perfdata.RecordHeader(data, f.Header().Big)
			if size < 8 || size > len(data) {
				break
			}
			if typ == perfdata.RecordSample {
				rec = data[:size]
			}
			data = data[size:]
		}
		if rec != nil {
			last = max(last, d.Time(rec))
		}
		b.Release()
	}
}

// caches returns the directories in which objects by Build ID may be: those of
// the caller, then that of the owner of the recording, and of root. Those that
// the caller may not look into are returned apart.
func (a *app) caches(owner int) (open, closed []string) {
	open = a.cacheDirs()
	var homes []string
	if owner >= 0 && owner != os.Geteuid() {
		if u, err := user.LookupId(strconv.Itoa(owner)); err == nil {
			homes = append(homes, u.HomeDir)
		}
	}
	if os.Geteuid() != 0 {
		homes = append(homes, "/root")
	}
	for _, home := range homes {
		dir := filepath.Join(home, ".debug")
		if slices.Contains(open, dir) || slices.Contains(closed, dir) {
			continue
		}
		switch _, err := os.ReadDir(dir); {
		case err == nil:
			open = append(open, dir)
		case errors.Is(err, os.ErrPermission):
			closed = append(closed, dir)
		}
	}
	return open, closed
}

// caller says who runs perfark, "" for root.
func caller() string {
	uid := os.Geteuid()
	if uid == 0 {
		return ""
	}
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return fmt.Sprintf("%s (uid %d)", u.Username, uid)
	}
	return fmt.Sprintf("uid %d", uid)
}

// shellQuote returns s as a shell takes it for one word.
func shellQuote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:,+=@%", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
