package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/buildid"
)

// A host is the Source of this host.
type host struct {
	o HostOptions

	once    sync.Once
	byPath  map[string][]mapping
	byInode map[uint64][]mapping

	kernelOnce sync.Once
	kernel     buildid.ID // of the running kernel
	kernelErr  error

	symsOnce sync.Once
	syms     []byte // /proc/kallsyms
	symsErr  error

	coreOnce sync.Once
	core     *Kcore // of the running kernel
	coreErr  error

	modOnce sync.Once
	modules map[string][]string // module name → paths
}

func newHost(o HostOptions) Source {
	if o.Root == "" {
		o.Root = "/"
	}
	if o.Proc == "" {
		o.Proc = "/proc"
	}
	if o.Sys == "" {
		o.Sys = "/sys"
	}
	return &host{o: o}
}

// Get opens a file of this host.
func (h *host) Get(ctx context.Context, k Key) (*File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := &search{key: k}
	var f *File
	switch {
	case k.Kind == PerfMap:
		f = h.perfMap(s)
	case k.Kind == JITDump:
		f = h.jitDump(s)
	case k.Kind == Split:
		f = h.split(s)
	case strings.HasPrefix(k.Path, "[guest."):
		// No file of a guest is on its host.
	case k.Kind == Kallsyms:
		f = h.kallsyms(s)
	case k.Kind == KCore || k.Kind == KCoreKallsyms || k.Kind == KCoreModules:
		f = h.kcore(s)
	case k.Kind == VDSO || k.Kind == ELF && isVDSO(k.Path):
		f = h.vdso(s)
	case k.Kind != ELF:
		// DebugDirs and Debuglinks know where debug files are.
	case isKernel(k.Path):
		f = h.image(s)
	case isModule(k.Path):
		f = h.module(s)
	default:
		f = h.object(s)
	}
	if f == nil {
		return nil, s.err("this host")
	}
	return f, nil
}

// mostMapped is how many processes are asked for one file.
const mostMapped = 4

// scan reads what the living processes of the recording have mapped.
func (h *host) scan() {
	h.byPath, h.byInode = map[string][]mapping{}, map[uint64][]mapping{}
	add := func(m mapping) {
		for _, p := range unescape(m.path) {
			if l := h.byPath[p]; !slices.ContainsFunc(l, func(o mapping) bool { return o.ino == m.ino && o.maj == m.maj && o.min == m.min }) || len(l) < mostMapped {
				h.byPath[p] = append(l, m)
			}
		}
		if l := h.byInode[m.ino]; len(l) < mostMapped {
			h.byInode[m.ino] = append(l, m)
		}
	}
	for _, pid := range h.o.PIDs {
		p, err := openProc(h.o.Proc, pid)
		if err != nil {
			continue // it has ended
		}
		list, _ := p.mappings() // not ours to read, or it ends just now
		for _, m := range list {
			add(m)
		}
		p.close()
	}
}

// object opens a file that user space mapped.
func (h *host) object(s *search) *File {
	k := s.key
	h.once.Do(h.scan)
	ms := slices.Clone(h.byPath[k.Path])
	if k.Ino != 0 {
		ms = append(ms, h.byInode[k.Ino]...)
	}
	if p, ok := strings.CutSuffix(k.Path, deletedMark); ok {
		ms = append(ms, h.byPath[p]...) // the mark may be of the recording's time only
	} else {
		ms = append(ms, h.byPath[k.Path+deletedMark]...)
	}
	tried := map[mapping]bool{}
	for _, m := range ms {
		if tried[m] {
			continue
		}
		tried[m] = true
		if f := h.mapped(m, s); f != nil {
			return f
		}
	}
	if why, ok := isMemory(k.Path); ok {
		s.refuse(k.Path, Deleted, "%s, and no living process of the recording has it mapped", why)
		return nil
	}
	if !strings.HasPrefix(k.Path, "/") {
		return nil
	}
	return h.onDisk(s)
}

// mapped opens a file by the process that has it mapped.
func (h *host) mapped(m mapping, s *search) *File {
	p, err := openProc(h.o.Proc, m.pid)
	if err != nil {
		return nil
	}
	defer p.close()
	if p.start != m.start {
		return nil
	}
	f, err := p.openMapped(m)
	origin := fmt.Sprintf("%s, mapped by process %d", m.path, m.pid)
	f, err = checked(f, err, s.key)
	if err == nil {
		err = h.tied(f, &m, s.key)
	}
	if err != nil {
		s.note(origin, err)
		return nil
	}
	f.Bound, f.mapped = true, true
	return f
}

// onDisk opens the recorded path itself.
func (h *host) onDisk(s *search) *File {
	name, deleted := h.literal(s.key.Path)
	f, err := openPath(h.path(name))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		if m, merr := openMember(h.path(name)); !errors.Is(merr, fs.ErrNotExist) || len(Refusals(merr)) > 0 {
			f, err = m, merr
		}
	}
	f, err = checked(f, err, s.key)
	if err == nil {
		err = h.tied(f, nil, s.key)
	}
	switch {
	case err == nil:
		f.Bound = true
		return f
	case deleted && errors.Is(err, fs.ErrNotExist) && len(Refusals(err)) == 0:
		s.refuse(s.key.Path, Deleted, "it was deleted, and no living process of the recording has it mapped")
	default:
		s.note(h.path(name), err)
	}
	return nil
}

// split opens a file of split DWARF by its path.
func (h *host) split(s *search) *File {
	if !strings.HasPrefix(s.key.Path, "/") {
		return nil
	}
	f, err := openPath(h.path(s.key.Path))
	if err != nil {
		s.note(s.key.Path, err)
		return nil
	}
	f.Unverified = true
	return f
}

// literal returns the name that a recorded path has on this host: as it is, if
// there is a file of that name; else without the mark of a deleted file, and
// with the newlines that perf leaves escaped in the names of processes that ran
// before it.
func (h *host) literal(name string) (_ string, deleted bool) {
	there := func(name string) bool {
		_, err := os.Lstat(h.path(name))
		return !errors.Is(err, fs.ErrNotExist)
	}
	if there(name) {
		return name, false
	}
	plain, deleted := strings.CutSuffix(name, deletedMark)
	for _, p := range unescape(plain) {
		if there(p) {
			return p, deleted
		}
	}
	return plain, deleted
}

// path returns where a recorded path is on this host.
func (h *host) path(name string) string { return filepath.Join(h.o.Root, name) }

// tied closes f and fails if the recording has no id and nothing else ties f
// to it: then f must be the inode that was mapped, as it was. m is the mapping
// that led to f, nil if its path did.
func (h *host) tied(f *File, m *mapping, k Key) (err error) {
	if k.ID != "" {
		return nil
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	f.Unverified = true
	refuse := func(r Reason, format string, args ...any) error {
		return &RefusedError{Path: f.Origin, Reason: r, Why: fmt.Sprintf(format, args...)}
	}
	switch {
	case !h.o.SameHost:
		return refuse(OtherHost, "the recording has no build id for it, and nothing shows that it was made on this host")
	case h.o.Recorded.IsZero():
		return refuse(Untied, "the recording has no build id for it, nor a time to compare with")
	case k.Ino == 0:
		return refuse(Untied, "the recording has neither a build id nor an inode for it")
	case f.Info.ModTime().After(h.o.Recorded.Add(slack)):
		return refuse(Replaced, "no build id, and written to at %s, after the recording", f.Info.ModTime().UTC().Format(time.RFC3339))
	}
	st, ok := f.Info.Sys().(*syscall.Stat_t)
	if !ok {
		return refuse(Untied, "no build id, and no inode to compare")
	}
	gen := generation(f)
	if k.InoGen != 0 && gen != 0 && uint32(k.InoGen) != gen {
		return refuse(Replaced, "no build id, and its inode %d is of generation %d; %d was mapped", st.Ino, gen, uint32(k.InoGen))
	}
	maj, min := unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev))
	switch {
	case st.Ino == k.Ino && maj == k.Maj && min == k.Min:
	case st.Ino == k.Ino && k.InoGen != 0 && gen != 0:
		// btrfs and overlayfs show another device to stat than to perf.
	case m != nil && m.ino == k.Ino && m.maj == k.Maj && m.min == k.Min:
	default:
		return refuse(Replaced, "no build id, and it is inode %d of %d:%d; inode %d of %d:%d was mapped", st.Ino, maj, min, k.Ino, k.Maj, k.Min)
	}
	return nil
}

// getVersion is FS_IOC_GETVERSION, _IOR('v', 1, long) of include/uapi/linux/fs.h.
const getVersion = 0x80087601

// generation returns the generation of a file's inode, 0 if it is not known.
func generation(f *File) uint32 {
	if f.f == nil {
		return 0
	}
	n, err := unix.IoctlGetUint32(int(f.f.Fd()), getVersion)
	if err != nil {
		return 0
	}
	return n
}

// perfMap opens the perf map of a process: in the process's own /tmp while it
// lives, else ours.
func (h *host) perfMap(s *search) *File {
	pid := s.key.PID
	name := fmt.Sprintf("/tmp/perf-%d.map", pid)
	if !h.o.SameHost {
		s.refuse(name, OtherHost, "nothing shows that the recording was made on this host")
		return nil
	}
	p, err := openProc(h.o.Proc, pid)
	if err != nil {
		f, err := h.openLog(name, -1)
		if err != nil {
			s.note(name, err)
			return nil
		}
		f.Unverified = true
		return f
	}
	defer p.close()
	at := started(h.o.Proc, p.start)
	if !h.o.Recorded.IsZero() && at.After(h.o.Recorded.Add(slack)) {
		s.refuse(name, OtherHost, "process %d started at %s, after the recording", pid, at.UTC().Format(time.RFC3339))
		return nil
	}
	uid := p.uid()
	// An earlier process with this number may have left one.
	open := func(f *File, err error) (*File, error) {
		if err == nil && !at.IsZero() && f.Info.ModTime().Before(at.Add(-slack)) {
			f.Close()
			err = &RefusedError{Path: f.Origin, Reason: Replaced, Why: fmt.Sprintf("last written to at %s, before process %d started", f.Info.ModTime().UTC().Format(time.RFC3339), pid)}
		}
		return f, err
	}
	for _, inner := range []string{fmt.Sprintf("/tmp/perf-%d.map", p.nsPID()), name} {
		f, err := open(p.openLog(inner, uid))
		if err == nil {
			f.Bound = true
			return f
		}
		s.note(inner, err)
	}
	f, err := open(h.openLog(name, uid))
	if err != nil {
		s.note(name, err)
		return nil
	}
	f.Bound = true
	return f
}

// jitDump opens the file in which a process wrote down the code that it made,
// by the path that it had for the process: in its root while it lives, else in
// ours. If the recording says which file it was, it must be that.
func (h *host) jitDump(s *search) *File {
	k := s.key
	if !h.o.SameHost {
		s.refuse(k.Path, OtherHost, "nothing shows that the recording was made on this host")
		return nil
	}
	if !strings.HasPrefix(k.Path, "/") {
		return nil
	}
	check := func(f *File, err error) *File {
		if err == nil && k.Ino != 0 {
			if st, ok := f.Info.Sys().(*syscall.Stat_t); !ok || st.Ino != k.Ino {
				f.Close()
				err = &RefusedError{Path: f.Origin, Reason: Replaced, Why: fmt.Sprintf("not the file that was mapped, which is inode %d of %d:%d", k.Ino, k.Maj, k.Min)}
			}
		}
		if err != nil {
			s.note(k.Path, err)
			return nil
		}
		f.Bound = k.Ino != 0
		f.Unverified = !f.Bound
		return f
	}
	if p, err := openProc(h.o.Proc, k.PID); err == nil {
		defer p.close()
		if at := started(h.o.Proc, p.start); h.o.Recorded.IsZero() || !at.After(h.o.Recorded.Add(slack)) {
			return check(p.openLog(k.Path, p.uid()))
		}
	}
	return check(h.openLog(k.Path, -1))
}

// openLog opens a file that the process writes for others, in the process's
// root. The process may be at it: what it appends meanwhile does not matter.
func (p *proc) openLog(name string, uid int) (*File, error) {
	f, err := p.openInRoot(name, true)
	if err != nil {
		return nil, err
	}
	if err := mapOwner(f, uid); err != nil {
		return nil, err
	}
	if err := p.same(p.start); err != nil {
		f.Close()
		return nil, err
	}
	f.f = nil
	return f, nil
}

// openLog opens a file that a process wrote for others, in our own root. uid
// is the owner of the process, -1 if it has ended.
func (h *host) openLog(name string, uid int) (*File, error) {
	root, err := openat(unix.AT_FDCWD, h.o.Root, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	fd, err := walkInRoot(root, name, true)
	if errors.Is(err, errLink) {
		return nil, &RefusedError{Path: name, Reason: NotRegular, Why: "a symbolic link"}
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	f, err := openPointed(fd, h.path(name))
	if err != nil {
		return nil, err
	}
	if uid < 0 {
		uid = os.Geteuid()
	}
	if err := mapOwner(f, uid); err != nil {
		return nil, err
	}
	f.f = nil // what is appended meanwhile does not matter
	return f, nil
}

// mapOwner closes f and fails unless it is owned by uid or root: anybody can
// write to /tmp. That of a process which has ended must be ours or root's.
func mapOwner(f *File, uid int) error {
	if got, ok := owner(f.Info); ok && got != 0 && got != uid {
		f.Close()
		return &RefusedError{Path: f.Origin, Reason: Unreadable, Why: fmt.Sprintf("owned by user %d; the process's user %d, or root, is wanted", got, uid)}
	}
	return nil
}
