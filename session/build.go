package session

import "github.com/perfark/perfark/profile"

// A builder makes the tables of a profile from the samples of one worker.
// merge makes one profile of those of all.
type builder struct {
	l    *loader
	keep Keep

	threads   map[threadKey]int32
	threadPos []threadFirst
	groups    map[group]int32
	groupOf   []group
	locs      locTable
	samples   sampleTable

	cache   []locEntry
	touched uint64 // keeps the compiler from leaving out loads

	queue  frameQueue
	last   lastChain
	log    sampleLog
	own    []int32 // scratch of replay
	way    callerWay
	turn   int // see chainStore.number
	sets   objectSets
	onWay  objectWay
	serial uint64 // of the sample

	extras   []profile.Extra // see extraOf
	extraIDs map[profile.Extra]int32

	runs      map[runKey]profile.Run     // see addRuns
	stretches map[runKey]profile.Stretch // see addStretches

	strange bool // with an index: an address was not in it
}

type (
	threadKey struct {
		pid, tid int32
		comm     int32
		unnamed  int32 // the tid of a thread without a name, plus 1, if its name is kept
	}
	threadFirst struct {
		threadKey
		pos uint64
	}

	// A group is what tells samples of one place apart.
	group struct{ thread, event, cpu, extra int32 }

	// A locEntry of the cache says what an ip is in a state and mode.
	locEntry struct {
		ip     uint64
		where  uint32 // state and mode, plus 1
		loc    int32
		object int32
	}
)

const (
	locCacheBits = 15
)

func newBuilder(l *loader, h hasher) *builder {
	return &builder{
		l:        l,
		keep:     l.o.Keep,
		threads:  map[threadKey]int32{},
		groups:   map[group]int32{},
		locs:     locTable{h: h},
		samples:  sampleTable{h: h},
		cache:    make([]locEntry, 1<<locCacheBits),
		sets:     newObjectSets(h, len(l.objects.table)),
		extraIDs: map[profile.Extra]int32{},
	}
}

func (b *builder) thread(pid, tid, comm int32, pos uint64) int32 {
	k := threadKey{pid: -1, tid: -1, comm: none}
	if b.keep&KeepPID != 0 {
		k.pid = pid
	}
	if b.keep&KeepTID != 0 {
		k.tid = tid
	}
	if b.keep&KeepComm != 0 {
		k.comm = comm
		if comm == defaultComm {
			k.unnamed = tid + 1
		}
	}
	id, ok := b.threads[k]
	if !ok {
		id = int32(len(b.threadPos))
		b.threads[k] = id
		b.threadPos = append(b.threadPos, threadFirst{k, pos})
	}
	return id
}

// group returns the number of the group of the current sample, of thread
// th.
func (b *builder) group(c *current, th *threadEntry, extra int32) int32 {
	k := group{th.handle, int32(c.event), -1, extra}
	if b.keep&KeepCPU != 0 {
		k.cpu = c.cpu
	}
	// The same thread's samples mostly are of the same event and CPU.
	if th.group != 0 && b.groupOf[th.group-1] == k {
		return th.group - 1
	}
	id, ok := b.groups[k]
	if !ok {
		id = int32(len(b.groupOf))
		b.groups[k] = id
		b.groupOf = append(b.groupOf, k)
	}
	th.group = id + 1
	return id
}

// add adds the current sample.
func (b *builder) add(w *worker, f *frames, pos uint64, th *threadEntry) {
	c := &w.cur
	if b.l.o.Stretches && b.l.index == nil {
		b.addStretches(w, f)
	}
	if b.l.o.Branches {
		b.addBranches(w, f, th)
		return
	}
	if b.l.o.Runs && b.l.index == nil {
		b.addRuns(w, f)
	}
	extra := int32(none)
	if b.keep&keepExtra != 0 {
		extra = b.extraOf(w, f, th, nil)
	}
	group := b.group(c, th, extra)
	b.queueSample(w, f, pos, group)
}

func where(state int32, m mode) uint32 { return uint32(state)<<3 | uint32(m) + 1 }

// entryAt returns the place of an address in the cache.
func (b *builder) entryAt(ip uint64, where uint32) uint64 {
	return b.locs.h.mix(ip, uint64(where)) >> (64 - locCacheBits)
}

// locKeyAt returns what ip is in a state.
func (w *worker) locKeyAt(at uint32, ip uint64) locKey {
	state, m := int32((at-1)>>3), mode((at-1)&7)
	object, addr := int32(none), ip
	if r := w.find(state, ip); r.mapping != none {
		mp := &w.l.atlas.maps[r.mapping]
		if mp.object != none {
			object, addr = mp.object, mp.addr(ip)
		}
	}
	if object == none && m == modeKernel {
		w.kernelMissing = true
	}
	return locKey{addr, placeOf(object, m)}
}

// location returns the location of ip.
func (b *builder) location(w *worker, state int32, m mode, ip, pos uint64) int32 {
	at := where(state, m)
	i := b.entryAt(ip, at)
	e := &b.cache[i]
	if e.ip != ip || e.where != at {
		k := w.locKeyAt(at, ip)
		*e = locEntry{ip, at, b.locate(k, b.locs.hash(k), pos, ip), k.object()}
	}
	return e.loc
}
