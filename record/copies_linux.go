package record

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/store"
)

// A keeper copies what would not be there later. Whoever reads the rings tells
// it of files, which are open already then, so that a process may end; they are
// copied one after the other by a goroutine of a low priority, and closed.
//
// A file that is where its name says, on a disk that stays, is not copied, but
// watched: once the name leads to another file, or nowhere, the old one is
// copied through a process that has it mapped, or the descriptor that is held of
// some. Descriptors are held of files only that are on the file systems of the
// host itself, which nobody wants to unmount.
type keeper struct {
	o     Copies
	proc  string
	tree  *store.BuildIDCache
	root  uint64          // device of our root directory
	stay  map[uint64]bool // devices that nobody wants to unmount
	spare int             // descriptors that may be held

	queue   chan wish
	copying sync.WaitGroup
	waiting sync.WaitGroup
	wake    *waker // of events, when there is more to poll, or the end

	mu      sync.Mutex
	stats   CopyStats
	files   map[inode]*kept
	bytes   int             // that files take, about
	lost    map[string]bool // names of what was gone
	jits    map[int]*jit
	jitKeys []int // of jits, in the order in which they came
	notify  int   // an inotify descriptor; -1: none
	watches map[int32]*kept
	polled  bool // there are files that cannot be watched
	over    bool
}

// An inode is a file of this host.
type inode struct{ dev, ino uint64 }

// A kept is a file that was mapped.
type kept struct {
	name  string
	id    buildid.ID
	at    inode
	mtime unix.Timespec
	size  int64
	maps  []mapping // some that have it, the newest last
	state keptState
	tries int         // how often it was watched
	held  *store.File // nil: it is not held
}

type keptState uint8

const (
	keptWatched keptState = iota // it is where its name says
	keptWaits                    // it has to be copied, and there was no room in the queue
	keptDone                     // it was copied, or left out
)

// A wish is a file to be copied.
type wish struct {
	x *kept
	f *store.File
}

// Bounds of a keeper.
const (
	queueMost   = 64       // files that wait to be copied
	filesMost   = 16 << 20 // bytes of what is known of files
	lostMost    = 1000     // names of files that were gone
	heldMost    = 256
	jitsMost    = 4096 // processes that make code
	foreignMost = 256  // of them, those whose /tmp, or jitdump, is held
	mapsMost    = 4
	triesMost   = 16
)

// diskReserve is what copies leave free on the disk, in bytes.
const diskReserve = 64 << 20

func newKeeper(o Copies, spare int) (*keeper, error) {
	o.defaults()
	k := &keeper{
		o: o, proc: "/proc", tree: store.Cache(o.Dir), spare: min(max(spare, 0), heldMost),
		queue: make(chan wish, queueMost), files: map[inode]*kept{}, lost: map[string]bool{},
		stay: map[uint64]bool{}, jits: map[int]*jit{}, watches: map[int32]*kept{},
	}
	for _, dir := range []string{"/var/tmp", "/tmp", "/var", "/usr", "/"} {
		var st unix.Stat_t
		if unix.Stat(dir, &st) == nil {
			k.root = uint64(st.Dev)
			k.stay[uint64(st.Dev)] = true
		}
	}
	var err error
	if k.wake, err = newWaker(); err != nil {
		return nil, err
	}
	if k.notify, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err != nil {
		k.notify, k.polled = -1, true
	}
	return k, nil
}

// start begins to copy and to watch, until finish is called.
func (k *keeper) start() {
	k.copying.Go(k.copies)
	k.waiting.Go(k.events)
}

// offer takes over f, the file that is mapped.
func (k *keeper) offer(m mapping, id buildid.ID, f *store.File, st *unix.Stat_t, fsType int64) *kept {
	if k == nil {
		f.Close()
		return nil
	}
	if store.IsInMemory(m.name) {
		k.code(m)
	}
	at := inode{uint64(st.Dev), st.Ino}
	k.mu.Lock()
	defer k.mu.Unlock()
	x := k.files[at]
	if x != nil && x.id == id && (x.state != keptDone || x.name == m.name) {
		x.seen(m)
		f.Close()
		return x
	}
	if k.over || k.bytes > filesMost {
		k.stats.leave(m.name, id, "too many files were mapped")
		f.Close()
		return nil
	}
	if x != nil { // it was written over, or is gone, and the number of its inode was used again
		if x.state != keptDone {
			k.stats.leave(x.name, x.id, errWritten.Error())
		}
		k.release(x)
	}
	x = &kept{name: m.name, id: id, at: at, mtime: st.Mtim, size: st.Size}
	x.seen(m)
	k.files[at] = x
	k.bytes += 2*entrySize + len(x.name)
	k.watch(x, f.DescriptorPath())
	if k.fleeting(x.name, st, fsType) {
		k.wanted(x, f)
		return x
	}
	if k.stay[at.dev] && k.spare > 0 {
		k.spare--
		x.held = f
		return x
	}
	f.Close()
	return x
}

// seen notes that a process has x mapped.
func (x *kept) seen(m mapping) {
	x.maps = slices.DeleteFunc(x.maps, func(o mapping) bool { return o.pid == m.pid })
	if len(x.maps) >= mapsMost {
		x.maps = slices.Delete(x.maps, 0, 1)
	}
	if m.name == x.name {
		m.name = x.name // the same bytes
	}
	x.maps = append(x.maps, m)
}

// again notes that one more process has a file mapped.
func (k *keeper) again(x *kept, m mapping) {
	if k == nil || x == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	x.seen(m)
}

// gone notes a file that could not be opened.
func (k *keeper) gone(m mapping) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lost[m.name] || len(k.lost) >= lostMost {
		return
	}
	k.lost[m.name] = true
	k.stats.leave(m.name, "", "its process, and its file, were gone before it could be opened")
}

// wanted has x copied, which is f. The lock is held.
func (k *keeper) wanted(x *kept, f *store.File) {
	if x.held == f {
		x.held = nil
		k.spare++
	}
	x.state = keptDone
	if k.over {
		k.mu.Unlock()
		defer k.mu.Lock()
		k.queue <- wish{x, f}
		return
	}
	select {
	case k.queue <- wish{x, f}:
	default:
		x.state = keptWaits
		f.Close()
	}
}

// fleeting reports whether a file that is mapped under a name would not be
// found by it later.
func (k *keeper) fleeting(name string, st *unix.Stat_t, fsType int64) bool {
	if store.IsInMemory(name) || st.Nlink == 0 {
		return true
	}
	var ours unix.Stat_t
	if unix.Stat(name, &ours) != nil || ours.Dev != st.Dev || ours.Ino != st.Ino {
		return true
	}
	return uint64(st.Dev) != k.root && (comesAndGoes(fsType) || removable(uint64(st.Dev)))
}

// comesAndGoes reports whether file systems of a type are not there as long as
// the host is: in memory, of a container, of an image, or the user's own.
func comesAndGoes(fsType int64) bool {
	switch fsType {
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, unix.FUSE_SUPER_MAGIC, unix.SQUASHFS_MAGIC,
		unix.ISOFS_SUPER_MAGIC, unix.UDF_SUPER_MAGIC, unix.MSDOS_SUPER_MAGIC, unix.HUGETLBFS_MAGIC, unix.CRAMFS_MAGIC, unix.EROFS_SUPER_MAGIC_V1:
		return true
	}
	return false
}

// removable reports whether a device is a loop device, or its medium can be
// taken out.
func removable(dev uint64) bool {
	const loop = 7 // Documentation/admin-guide/devices.txt
	if unix.Major(dev) == loop {
		return true
	}
	h := hostFacts{sys: "/sys"}
	at := fmt.Sprintf("%d:%d", unix.Major(dev), unix.Minor(dev))
	return h.line("dev/block", at, "removable") == "1" || h.line("dev/block", at, "..", "removable") == "1"
}

// watch asks to be told when the file at path, of x, is written to, or gets or
// loses a name. The lock is held.
func (k *keeper) watch(x *kept, path string) {
	x.tries++
	if k.notify >= 0 && x.tries <= triesMost {
		const what = unix.IN_ATTRIB | unix.IN_MODIFY | unix.IN_MOVE_SELF | unix.IN_DELETE_SELF | unix.IN_ONESHOT
		if wd, err := unix.InotifyAddWatch(k.notify, path, what); err == nil {
			k.watches[int32(wd)] = x
			return
		}
	}
	if !k.polled && x.tries <= triesMost {
		k.polled = true
		k.wake.wake()
	}
}

// pollEvery is how often files are looked at that cannot be watched.
const pollEvery = time.Second

// events waits for what happens to files and processes.
func (k *keeper) events() {
	buf := make([]byte, 64<<10)
	looked := time.Now()
	for {
		k.mu.Lock()
		over, polled := k.over, k.polled
		fds := []unix.PollFd{{Fd: int32(k.wake.fd), Events: unix.POLLIN}, {Fd: int32(k.notify), Events: unix.POLLIN}}
		var of []*jit
		for _, pid := range k.jitKeys {
			if j := k.jits[pid]; j.ends >= 0 {
				fds = append(fds, unix.PollFd{Fd: int32(j.ends), Events: unix.POLLIN})
				of = append(of, j)
			}
		}
		k.mu.Unlock()
		if over {
			return
		}
		wait := -1
		if polled {
			wait = int(max(time.Until(looked.Add(pollEvery)), 0)/time.Millisecond) + 1
		}
		if _, err := unix.Poll(fds, wait); err != nil && err != unix.EINTR {
			return
		}
		if fds[0].Revents != 0 {
			k.wake.woken()
		}
		if fds[1].Revents != 0 {
			k.notified(buf)
		}
		for i, j := range of {
			if fds[2+i].Revents != 0 {
				k.write(j, time.Now())
			}
		}
		if polled && time.Since(looked) >= pollEvery {
			k.look()
			looked = time.Now()
		}
	}
}

// notified reads what the kernel says of files that are watched.
func (k *keeper) notified(buf []byte) {
	n, err := unix.Read(k.notify, buf)
	if err != nil {
		return
	}
	for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
		wd, mask, size := int32(native32(b)), native32(b[4:]), int(native32(b[12:]))
		b = b[min(unix.SizeofInotifyEvent+size, len(b)):]
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0:
			k.look()
		case mask&unix.IN_IGNORED == 0:
			k.mu.Lock()
			x := k.watches[wd]
			delete(k.watches, wd)
			k.mu.Unlock()
			if x != nil {
				k.check(x)
			}
		}
	}
}

// look checks all files.
func (k *keeper) look() {
	k.mu.Lock()
	list := make([]*kept, 0, len(k.files))
	for _, x := range k.files {
		if x.state != keptDone {
			list = append(list, x)
		}
	}
	k.mu.Unlock()
	slices.SortFunc(list, func(a, b *kept) int { return strings.Compare(a.name, b.name) })
	for _, x := range list {
		k.check(x)
	}
}

// check looks whether a file is where its name says, and has it copied if not.
func (k *keeper) check(x *kept) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if x.state == keptDone {
		return
	}
	var st unix.Stat_t
	same := func() bool {
		return unix.Stat(x.name, &st) == nil && inode{uint64(st.Dev), st.Ino} == x.at
	}
	if x.state == keptWatched && same() {
		if !k.over {
			k.watch(x, x.name)
		}
		// It may have gone while nobody watched.
		if same() && (st.Mtim == x.mtime && st.Size == x.size || k.still(x, &st)) {
			return
		}
	}
	if x.state == keptWatched && same() {
		x.state = keptDone
		k.stats.leave(x.name, x.id, errWritten.Error())
		k.release(x)
		return
	}
	f, err := k.reopen(x)
	if err != nil {
		x.state = keptDone
		k.stats.leave(x.name, x.id, err.Error())
		return
	}
	k.wanted(x, f)
}

// release closes what is held of x. The lock is held.
func (k *keeper) release(x *kept) {
	if x.held != nil {
		x.held.Close()
		x.held = nil
		k.spare++
	}
}

// still reports whether a file that was written to has the id that it had:
// only its times changed.
func (k *keeper) still(x *kept, st *unix.Stat_t) bool {
	f, err := store.OpenPath(x.name)
	if err != nil {
		return false
	}
	defer f.Close()
	id, err := objfile.ReadBuildID(f, f.Size)
	if err != nil || id == "" || id != x.id || f.Size != x.size {
		return false
	}
	x.mtime = st.Mtim
	return true
}

// errWritten says that a file has other bytes than when it was mapped.
var errWritten = errors.New("it was written to meanwhile: what it was before is gone")

// errUnmapped says that a file cannot be had any more.
var errUnmapped = errors.New("it was replaced or deleted meanwhile, and no process has it mapped any more")

// reopen opens a file that its name does not lead to any more. The lock is held.
func (k *keeper) reopen(x *kept) (*store.File, error) {
	is := func(f *store.File) bool {
		st, _, err := f.Stat()
		return err == nil && inode{uint64(st.Dev), st.Ino} == x.at && st.Size == x.size && st.Mtim == x.mtime
	}
	if x.held != nil {
		if is(x.held) && x.held.Renew() == nil { // it may have lost a name, or got another
			return x.held, nil
		}
		k.release(x)
		return nil, errWritten
	}
	t := identities{proc: k.proc}
	for _, m := range slices.Backward(x.maps) {
		p, err := store.OpenProcess(k.proc, m.pid)
		if err != nil {
			continue
		}
		for _, open := range t.ways(p, &m) {
			if f, err := open(); err == nil {
				if is(f) && p.Same() == nil {
					p.Close()
					return f, nil
				}
				f.Close()
			}
		}
		p.Close()
	}
	if f, err := store.OpenPath(x.name); err == nil { // it had to wait, no more
		if is(f) {
			return f, nil
		}
		f.Close()
	}
	return nil, errUnmapped
}

// copies copies what is in the queue, one after the other.
func (k *keeper) copies() {
	// The thread ends with this goroutine, as its priority does not rise again.
	runtime.LockOSThread()
	unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), 10)
	const idle = 3 << 13 // IOPRIO_CLASS_IDLE, include/uapi/linux/ioprio.h
	unix.Syscall(unix.SYS_IOPRIO_SET, 1, 0, idle)
	for w := range k.queue {
		name := strings.TrimSuffix(w.x.name, " (deleted)")
		err := k.room(w.f.Size)
		if err == nil {
			var res store.PutResult
			res, err = k.tree.Put(context.Background(), store.Key{ID: w.x.id, Kind: store.ELF, Path: name}, w.f, store.PutOptions{})
			k.count(w.f.Size, res.Stored, err)
		}
		w.f.Close()
		if err != nil {
			k.mu.Lock()
			k.stats.leave(w.x.name, w.x.id, reason(err))
			k.mu.Unlock()
		}
	}
}

// reason is why a file was not copied.
func reason(err error) string {
	if r := store.MostTelling(err); r != nil {
		return r.Error()
	}
	return err.Error()
}

func (k *keeper) count(size int64, stored bool, err error) {
	if err != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stats.Files++
	if stored {
		k.stats.Bytes += size
	}
}

// room fails if a file of so many bytes may not be copied.
func (k *keeper) room(size int64) error {
	k.mu.Lock()
	files, bytes := k.stats.Files, k.stats.Bytes
	k.mu.Unlock()
	switch {
	case size > k.o.MaxFile:
		return fmt.Errorf("it has %d bytes, and a copy may have %d", size, k.o.MaxFile)
	case size > k.o.MaxBytes-bytes:
		return fmt.Errorf("it has %d bytes, and all copies together may have %d", size, k.o.MaxBytes)
	case files >= k.o.MaxFiles:
		return fmt.Errorf("there are %d copies, and there may be no more", files)
	}
	var sfs unix.Statfs_t
	for dir := k.o.Dir; ; dir = filepath.Dir(dir) {
		if unix.Statfs(dir, &sfs) == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
	if free := int64(min(sfs.Bavail, 1<<40)) * int64(sfs.Bsize); size > free-diskReserve {
		return fmt.Errorf("it has %d bytes, and the disk of the copies %d free, of which %d stay so", size, free, int64(diskReserve))
	}
	return nil
}

// finish copies what there is to be copied at the end of the recording, and
// says what came of it all.
func (k *keeper) finish() CopyStats {
	at := time.Now()
	k.mu.Lock()
	k.over = true
	k.mu.Unlock()
	k.wake.wake()
	k.waiting.Wait()
	for _, pid := range k.jitKeys {
		k.write(k.jits[pid], at)
	}
	k.look()
	close(k.queue)
	k.copying.Wait()
	for _, x := range k.files {
		k.release(x)
	}
	k.wake.close()
	if k.notify >= 0 {
		unix.Close(k.notify)
	}
	return k.stats
}

// A jit is a process that makes code while it runs.
type jit struct {
	pid     int // as the recording has it
	inner   int // as the process sees it
	uid     int
	start   time.Time
	foreign bool       // its /tmp is not ours, or it has another number there
	tmp     *store.Dir // its /tmp, if it is foreign; nil: it has none
	dumps   []*kept    // its jitdumps, held
	ends    int        // a descriptor that says when it ends; -1: nobody waits
	done    bool       // what it wrote was copied
}

// code notes that a process has made code. If what it writes of that will not
// be there when it has ended, its directory is held: the map is often complete
// at the very end only.
func (k *keeper) code(m mapping) {
	if k == nil || !store.IsInMemory(m.name) && m.name != "[heap]" && !strings.HasPrefix(m.name, "[anon:") || m.pid <= 0 {
		return
	}
	if m.name[0] == '[' && m.name != "[heap]" && !strings.HasPrefix(m.name, "[anon:") {
		return // [stack], [vsyscall] and the like
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.process(m.pid)
}

// process returns what is known of a process that makes code; nil if it is
// gone, or there are too many. The lock is held.
func (k *keeper) process(pid int) *jit {
	if j := k.jits[pid]; j != nil && !j.done {
		return j
	}
	if k.over || len(k.jitKeys) >= jitsMost {
		return nil
	}
	p, err := store.OpenProcess(k.proc, pid)
	if err != nil {
		return nil
	}
	defer p.Close()
	j := &jit{pid: pid, inner: p.NSPID(), uid: p.UID(), start: p.Started(), ends: -1}
	theirs, err := p.Dir("/tmp")
	if ours, err2 := store.HoldDir("/tmp"); err2 == nil {
		j.foreign = j.inner != pid || err == nil && !ours.IsSame(theirs)
		ours.Close()
	}
	if err == nil && j.foreign && k.hold(j) {
		j.tmp = theirs
	} else if err == nil {
		theirs.Close()
	}
	if p.Same() != nil {
		k.letGo(j)
		return nil
	}
	if k.jits[pid] == nil {
		k.jitKeys = append(k.jitKeys, pid)
	}
	k.jits[pid] = j
	return j
}

// hold has the end of a process waited for. The lock is held.
func (k *keeper) hold(j *jit) bool {
	if j.ends >= 0 {
		return true
	}
	n := 0
	for _, o := range k.jits {
		if o.ends >= 0 {
			n++
		}
	}
	if n >= foreignMost {
		k.stats.leave(fmt.Sprintf("/tmp/perf-%d.map", j.pid), "", fmt.Sprintf("%d processes of other namespaces make code, and there may be no more", n))
		return false
	}
	fd, err := unix.PidfdOpen(j.pid, 0)
	if err != nil {
		return false
	}
	j.ends = fd
	k.wake.wake()
	return true
}

func (k *keeper) letGo(j *jit) {
	j.done = true
	if j.tmp != nil {
		j.tmp.Close()
		j.tmp = nil
	}
	if j.ends >= 0 {
		unix.Close(j.ends)
		j.ends = -1
	}
	for _, d := range j.dumps {
		d.held.Close()
	}
	j.dumps = nil
}

// dump takes over the mapping of a jitdump; false if it is none. One that will
// not be found later is held, until its process ends.
func (k *keeper) dump(m mapping) bool {
	base := filepath.Base(strings.TrimSuffix(m.name, " (deleted)"))
	n, ok := strings.CutPrefix(base, "jit-")
	n, ok2 := strings.CutSuffix(n, ".dump")
	if _, err := strconv.ParseUint(n, 10, 31); !ok || !ok2 || err != nil {
		return false
	}
	if k == nil {
		return true
	}
	f, err := (&identities{proc: k.proc}).open(&m)
	if err != nil {
		return true
	}
	st, fsType, err := f.Stat()
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil || !k.fleeting(m.name, &st, fsType) {
		f.Close()
		return true
	}
	j := k.process(m.pid)
	at := inode{uint64(st.Dev), st.Ino}
	if j == nil || slices.ContainsFunc(j.dumps, func(d *kept) bool { return d.at == at }) || len(j.dumps) >= mapsMost {
		f.Close()
		return true
	}
	if err := f.OwnedBy(j.uid); err != nil {
		k.stats.leave(m.name, "", reason(err))
		f.Close()
		return true
	}
	if !k.hold(j) {
		f.Close()
		return true
	}
	j.dumps = append(j.dumps, &kept{name: m.name, at: at, held: f})
	return true
}

// startSlack is how exact the time is at which a process started.
const startSlack = 2 * time.Second

// write copies what a process wrote of its code: it has ended, or the recording
// has.
func (k *keeper) write(j *jit, at time.Time) {
	k.mu.Lock()
	if j.done {
		k.mu.Unlock()
		return
	}
	j.done = true
	k.mu.Unlock()
	dir := j.tmp
	if dir == nil && !j.foreign {
		if ours, err := store.HoldDir("/tmp"); err == nil {
			dir = ours
			defer ours.Close()
		}
	}
	if dir != nil {
		f, err := dir.Log(fmt.Sprintf("perf-%d.map", j.inner), j.uid)
		switch {
		case err == nil && f.Info.ModTime().Before(j.start.Add(-startSlack)):
			f.Close() // of an earlier process of that number
		case err == nil:
			k.log(store.Key{Kind: store.PerfMap, PID: int32(j.pid), Path: fmt.Sprintf("/tmp/perf-%d.map", j.pid)}, f, at)
			f.Close()
		case !errors.Is(err, unix.ENOENT):
			k.mu.Lock()
			k.stats.leave(fmt.Sprintf("/tmp/perf-%d.map", j.pid), "", reason(err))
			k.mu.Unlock()
		}
	}
	for _, d := range j.dumps {
		f, err := d.held.Reopened() // the descriptor is that of d.held
		if err != nil {
			k.mu.Lock()
			k.stats.leave(d.name, "", reason(err))
			k.mu.Unlock()
			continue
		}
		k.log(store.Key{Kind: store.JITDump, PID: int32(j.pid), Path: d.name}, f, at)
	}
	k.mu.Lock()
	k.letGo(j)
	k.mu.Unlock()
}

// log copies a perf map or a jitdump.
func (k *keeper) log(key store.Key, f *store.File, at time.Time) {
	err := k.room(f.Size)
	if err == nil {
		_, err = k.tree.PutLog(context.Background(), key, f, at)
		k.count(f.Size, true, err)
	}
	if err != nil {
		k.mu.Lock()
		k.stats.leave(key.Path, "", reason(err))
		k.mu.Unlock()
	}
}
