package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// Perf maps and jitdumps that a recorder put into a tree have the time in their
// names at which their process, or the recording, ended: ns of the wall clock,
// in hex. A jitdump has also a hash of its path.
var (
	keptMap  = regexp.MustCompile(`^perf-([0-9]{1,10})\.([0-9a-f]{16})\.map$`)
	keptDump = regexp.MustCompile(`^([0-9]{1,10})\.([0-9a-f]{16})\.([0-9a-f]{8})\.dump$`)
)

func pathHash(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:4])
}

// During returns the cache with those perf maps and jitdumps of recorders only
// that were written down between two times: the number of a process ties them
// to a recording as long as it lasted. Others, that archives brought, it has
// too.
func (c *BuildIDCache) During(from, to time.Time) *BuildIDCache {
	return &BuildIDCache{dir: c.dir, from: from, to: to}
}

// PutLog stores a perf map or a jitdump of a process, as it was when the
// process, or the recording, ended. k says whose, and which path a jitdump had.
// It returns where it is, relative to the tree. What is appended to f
// meanwhile does not matter.
func (c *BuildIDCache) PutLog(ctx context.Context, k Key, f *File, at time.Time) (string, error) {
	if k.PID <= 0 || at.UnixNano() < 0 {
		return "", fmt.Errorf("%s: of no process", f.Origin)
	}
	name := fmt.Sprintf("%s/perf-%d.%016x.map", mapDir, k.PID, at.UnixNano())
	switch k.Kind {
	case PerfMap:
	case JITDump:
		name = fmt.Sprintf("%s/%d.%016x.%s.dump", mapDir, k.PID, at.UnixNano(), pathHash(k.Path))
	default:
		return "", fmt.Errorf("%s: a %s is no log", f.Origin, k.Kind)
	}
	w, err := c.write(false)
	if err != nil {
		return "", err
	}
	defer w.root.Close()
	tmp, _, err := w.copy(ctx, k, f, "")
	if err != nil {
		return "", err
	}
	defer w.root.Remove(tmp) // fails once it has its name
	if err := w.mkdir(mapDir); err != nil {
		return "", err
	}
	if err := w.root.Rename(tmp, name); err != nil {
		return "", err
	}
	w.sync(mapDir)
	return name, nil
}

// kept returns the names of what recorders put into the tree for a process, in
// the order of their times.
func (c *BuildIDCache) kept(root *os.Root, k Key) []string {
	all, _ := readDirNames(root, mapDir)
	type log struct {
		name  string
		stamp uint64
	}
	var list []log
	pattern := keptMap
	if k.Kind == JITDump {
		pattern = keptDump
	}
	for _, name := range all {
		m := pattern.FindStringSubmatch(name)
		if m == nil || m[1] != strconv.Itoa(int(k.PID)) || k.Kind == JITDump && k.Path != "" && m[3] != pathHash(k.Path) {
			continue
		}
		stamp, _ := strconv.ParseUint(m[2], 16, 63)
		at := time.Unix(0, int64(stamp))
		if !c.to.IsZero() && (at.Before(c.from) || at.After(c.to)) {
			continue
		}
		list = append(list, log{name, stamp})
	}
	slices.SortFunc(list, func(a, b log) int {
		if a.stamp < b.stamp {
			return -1
		}
		return 1
	})
	names := make([]string, len(list))
	for i := range list {
		names[i] = path.Join(mapDir, list[i].name)
	}
	return names
}

// openKept opens the last of what recorders put into the tree for a process;
// nil if there is none.
func (c *BuildIDCache) openKept(root *os.Root, s *search) *File {
	names := c.kept(root, s.key)
	if len(names) == 0 {
		return nil
	}
	last := names[len(names)-1]
	f, err := openInTree(root, last)
	if err != nil {
		s.note(c.dir+"/"+last, err)
		return nil
	}
	f.Bound = !c.from.IsZero()
	f.Unverified = !f.Bound
	return f
}
