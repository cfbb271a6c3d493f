package session

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
)

// branchCallStack is PERF_SAMPLE_BRANCH_CALL_STACK.
const branchCallStack = 1 << 11

// A loader turns one recording into a Result.
type loader struct {
	f *perfdata.File
	o Options

	untimed bool // records have no times: their place counts

	objects     *objects
	atlas       *atlas
	unwinder    *unwinder    // nil: stacks are not unwound
	unwoundLogs []unwoundLog // of the first pass over the samples
	logs        bool         // this pass makes them
	procs       map[int32]*process
	threads     map[int32]*thread
	kernels     map[int32]*space // by machine
	guests      map[int32]*space // user space of guests, by machine
	comms       []string
	texts       *atomic.Int64 // bytes of Extra.Text
	commIDs     map[string]int32
	ksyms       map[int32]int32 // mapping of a KSYMBOL → what it covered, or none
	cgroups     map[uint64]string
	// By tid, in order of time.
	namespaces map[int32][]nsPoint
	deferred   deferrals

	eventIDs  map[uint64]int
	callStack []bool // by event: its branch stacks are stacks of calls
	shapes    shapes

	recall  *recall     // what the first pass over the samples left; nil: nothing
	plain   *plain      // nil: through perfdata.BatchReader
	index   *locIndex   // of the locations of a profile; nil: they are being collected
	chains  *chainStore // of the stacks, with index; nil: they are not kept
	callers bool        // count samples for each location in their chains: see Result.Callers
	depth   int         // frames of a chain that count then
	workers []*worker
	stats   Stats
	lost    profile.Lost
	res     Result
}

// A process is a pid through time.
type process struct {
	space
	exited  bool
	objects []int32 // ever mapped as code, in order
	since   int     // those before belong to programs before the last exec or fork
	shared  bool    // objects belongs to the parent
	renewed bool    // by an exec, after which nothing was mapped yet

	codeStart, codeEnd uint64 // around all code of a CodeLog; 0 if there is none
}

// deferred call chains by thread and cookie: ranges of ips.
type deferrals struct {
	byCookie map[deferKey][2]int
	ips      []byte // little-endian
}

type deferKey struct {
	tid    int32
	cookie uint64
}

func newLoader(f *perfdata.File, o Options) *loader {
	l := &loader{
		f:       f,
		o:       o,
		objects: newObjects(),
		texts:   new(atomic.Int64),
		atlas:   newAtlas(),
		procs:   map[int32]*process{},
		threads: map[int32]*thread{},
		kernels: map[int32]*space{hostMachine: {}},
		guests:  map[int32]*space{},
		commIDs: map[string]int32{},
		ksyms:   map[int32]int32{},
		cgroups: map[uint64]string{},

		namespaces: map[int32][]nsPoint{},

		eventIDs: map[uint64]int{},
	}
	l.deferred.byCookie = map[deferKey][2]int{}
	// perf asks the first event. Without times in the records that are not
	// samples, nothing can be put in order.
	if ev := f.Events(); len(ev) > 0 {
		a := &ev[0].Attr
		l.untimed = !a.Flags.Has(perfdata.FlagSampleIDAll) || a.SampleType&perfdata.SampleTime == 0
	}
	if o.Keep&keepSample == 0 {
		l.shapes = newShapes(f)
	}
	for i, ev := range f.Events() {
		l.callStack = append(l.callStack, ev.Attr.BranchSampleType&branchCallStack != 0)
		for _, id := range ev.IDs {
			if _, ok := l.eventIDs[id]; !ok {
				l.eventIDs[id] = i
			}
		}
	}
	l.thread(0).set(moment{}, l.comm("swapper"))
	return l
}

// when returns the moment of a record.
func (l *loader) when(time, pos uint64) moment {
	switch {
	case l.untimed:
		time = pos
	case time == ^uint64(0):
		time = 0
	}
	return moment{time, pos}
}

func (l *loader) thread(tid int32) *thread {
	th := l.threads[tid]
	if th == nil {
		th = &thread{}
		l.threads[tid] = th
	}
	return th
}

func (l *loader) process(pid int32) *process {
	p := l.procs[pid]
	if p == nil {
		p = &process{}
		l.procs[pid] = p
	}
	return p
}

func (l *loader) comm(s string) int32 {
	id, ok := l.commIDs[s]
	if !ok {
		id = int32(len(l.comms))
		l.comms = append(l.comms, s)
		l.commIDs[s] = id
	}
	return id
}

func (l *loader) kernel(machine int32) *space { return spaceOf(l.kernels, machine) }
func (l *loader) guest(machine int32) *space  { return spaceOf(l.guests, machine) }

func spaceOf(m map[int32]*space, machine int32) *space {
	sp := m[machine]
	if sp == nil {
		sp = &space{}
		m[machine] = sp
	}
	return sp
}

// A change is a decoded side. Which fields are set depends on typ.
type change struct {
	moment
	typ  perfdata.Type
	misc uint16

	pid, tid, ppid, ptid int32
	mmap                 *perfdata.Mmap
	ksym                 *perfdata.Ksymbol
	ns                   perfdata.NSLink
	code                 *Code // and the object that it is of
	object               int32
	comm                 int32
}

// apply decodes sides, which are in the order of the file, and applies them in
// the order of time.
func (l *loader) apply(sides []side) error {
	for _, r := range l.f.BuildIDs() {
		l.objects.addTable(r, IDTable)
	}
	changes := make([]change, 0, len(sides))
	names := map[string]string{} // paths come again and again
	d := perfdata.NewDecoder(l.f)
	for i := range sides {
		s := &sides[i]
		rec, err := d.Decode(s.data, s.off)
		if err != nil {
			l.stats.Bad++ // and the decoder has noted what
			continue
		}
		head := rec.Head()
		c := change{moment: l.when(head.Time, s.pos), typ: head.Type, misc: head.Misc}
		switch r := rec.(type) {
		case *perfdata.Mmap:
			m := *r
			if n, ok := names[m.Name]; ok {
				m.Name = n
			} else {
				names[m.Name] = m.Name
			}
			c.mmap = &m
		case *perfdata.Comm:
			c.pid, c.tid, c.comm = r.CommPID, r.CommTID, l.comm(r.Name)
		case *perfdata.Fork:
			c.pid, c.tid, c.ppid, c.ptid = r.ForkPID, r.ForkTID, r.ParentPID, r.ParentTID
		case *perfdata.Ksymbol:
			k := *r
			c.ksym = &k
		case *perfdata.Namespaces:
			if len(r.Links) <= cgroupNS {
				continue
			}
			c.tid, c.ns = r.TaskTID, r.Links[cgroupNS]
		case *perfdata.Cgroup:
			l.cgroups[r.CgroupID] = r.Path
			continue
		case *perfdata.BuildIDRecord:
			l.objects.addTable(r, IDPipe)
			continue
		case *perfdata.Lost:
			if head.Type == typeLost {
				l.lost.Events += r.Count
			} else {
				l.lost.Samples += r.Count
			}
			continue
		case *perfdata.CallchainDeferred:
			l.addDeferred(r)
			continue
		default:
			continue
		}
		changes = append(changes, c)
		s.data = nil
	}
	changes = l.addBPF(l.addCode(changes))
	slices.SortStableFunc(changes, func(a, b change) int {
		return cmpUint(a.time, b.time)
	})
	for i := range changes {
		l.change(&changes[i])
	}
	l.objects.disambiguate()
	return nil
}

func (l *loader) change(c *change) {
	switch c.typ {
	case typeMmap, typeMmap2:
		l.mmap(c.moment, c.mmap)
	case typeComm:
		l.thread(c.tid).set(c.moment, c.comm)
		if c.misc&perfdata.MiscCommExec != 0 {
			p := l.process(c.pid)
			p.exec()
			p.codeStart, p.codeEnd = 0, 0
			p.renewed = true
		}
	case typeFork:
		l.fork(c)
	case typeExit:
		if p := l.procs[c.pid]; p != nil && c.pid == c.tid {
			p.exited = true
		}
	case typeNamespaces:
		l.namespaces[c.tid] = append(l.namespaces[c.tid], nsPoint{c.moment, c.ns})
	case typeKsymbol:
		l.ksymbol(c.moment, c.ksym)
	case typeCode:
		l.code(c)
	}
}

func (l *loader) fork(c *change) {
	if c.tid != c.ptid {
		comm := int32(defaultComm)
		if th := l.threads[c.ptid]; th != nil {
			comm = th.last()
		}
		th := l.thread(c.tid)
		th.set(c.moment, comm)
	}
	if c.pid == c.ppid {
		return // a thread: it has the maps of its process
	}
	child := l.process(c.pid)
	child.exited = false
	child.since = len(child.objects)
	if c.misc&perfdata.MiscForkExec != 0 {
		// perf made it up for a process that was there; its maps follow.
		child.execed, child.fresh = false, nil
		child.owner = false
		if child.last() != 0 {
			child.set(l.atlas, c.moment, 0)
		}
		return
	}
	parent := l.process(c.ppid)
	parent.fork(l.atlas, c.moment, &child.space)
	child.codeStart, child.codeEnd = parent.codeStart, parent.codeEnd
	switch inherited := parent.objects[parent.since:]; {
	case len(inherited) == 0:
	case len(child.objects) == 0:
		child.objects, child.since, child.shared = inherited, 0, true
	default:
		child.unshare()
		child.objects = append(child.objects, inherited...)
	}
}

func (l *loader) mmap(t moment, r *perfdata.Mmap) {
	m := mapping{start: r.Start, last: r.Start + r.Len - 1, pgoff: r.Pgoff, object: none}
	if m.last < m.start {
		m.last = ^uint64(0) // wraps, or a kernel of length 0: up to the end
	}
	mode := r.Misc & perfdata.MiscCPUModeMask
	machine := int32(hostMachine)
	if mode == perfdata.CPUModeGuestKernel || mode == perfdata.CPUModeGuestUser {
		machine = r.MapPID
	}
	if mode == perfdata.CPUModeKernel || mode == perfdata.CPUModeGuestKernel {
		l.mmapKernel(t, r, m, machine)
		return
	}
	if r.Len == 0 {
		return
	}
	exec := r.Prot&protExec != 0
	if r.Type == typeMmap {
		exec = r.Misc&perfdata.MiscMmapData == 0
	}
	o := userObject(r.Name, r.MapPID, r.Flags, exec)
	if o.Kind == profile.KindPerfMap && machine == hostMachine && l.process(r.MapPID).hasCode(&m) {
		return
	}
	switch o.Kind {
	case profile.KindPerfMap:
		m.identity = true
	case profile.KindVDSO:
		m.pgoff = 0
		o.BuildID = r.BuildID
	case profile.KindSpecial:
		m.identity = !strings.HasPrefix(r.Name, "[v")
	default:
		o.BuildID = r.BuildID
		o.Maj, o.Min, o.Ino, o.InoGen = r.Maj, r.Min, r.Ino, r.InoGen
	}
	o.Guest = guestOf(machine)
	m.object = l.objects.resolve(o, machine)
	if machine != hostMachine {
		l.add(l.guest(machine), t, m)
		return
	}
	p := l.process(r.MapPID)
	if p.renewed {
		p.renewed = false
		p.since = len(p.objects)
	}
	id := l.add(&p.space, t, m)
	if o.Kind == profile.KindVDSO && id != none {
		// The last thing that execve maps (load_elf_binary in fs/binfmt_elf.c).
		p.loaded()
	}
	if exec {
		p.addObject(m.object)
	}
}

func (p *process) addObject(o int32) {
	// The same object is mapped again and again by the same linker, so it
	// will be near the end if it is there.
	n := len(p.objects)
	if slices.Contains(p.objects[max(p.since, n-64):], o) {
		return
	}
	p.unshare()
	p.objects = append(p.objects, o)
}

func (p *process) unshare() {
	if p.shared {
		p.objects, p.shared = slices.Clone(p.objects), false
	}
}

// add maps m unless there is no room.
func (l *loader) add(sp *space, t moment, m mapping) int32 {
	if len(l.atlas.forest.nodes) >= l.o.MaxNodes {
		l.res.DroppedMaps++
		return none
	}
	sp.add(l.atlas, t, m)
	return int32(len(l.atlas.maps) - 1)
}

func (l *loader) mmapKernel(t moment, r *perfdata.Mmap, m mapping, machine int32) {
	guest := machine != hostMachine
	name := r.Name
	o := kernelObject(name, guest)
	o.BuildID = r.BuildID
	o.Guest = guestOf(machine)
	m.identity = true
	switch {
	case o.Kind == profile.KindKernel || o.Kind == profile.KindGuestKernel:
		if strings.HasPrefix(name, "__entry_SYSCALL_64_trampoline") {
			// A second view of kernel code: pgoff is where it really is.
			m.identity = false
			if guest {
				o.Path, o.Short = guestKernelPath+"]", guestKernelPath+"]"
			}
			break
		}
		if i := strings.LastIndexByte(name, ']'); i >= 0 && r.Pgoff != 0 {
			o.RefName, o.RefAddr = name[i+1:], r.Pgoff
		}
		o.Start, o.End = m.start, m.last+1
		if r.Len > 0 && r.Start != 0 && l.kernel(machine).last() == 0 {
			m.start, m.last = kernelImage(m.start, m.last)
		}
	case r.Len == 0:
		return
	default:
		o.Start, o.End = m.start, m.last+1
	}
	m.object = l.objects.resolve(o, machine)
	if p := &l.objects.table[m.object]; p.Start == 0 && p.End == 0 || p.RefAddr == 0 && o.RefAddr != 0 {
		// The table knew the object, but not where it is.
		p.Start, p.End, p.RefName, p.RefAddr = o.Start, o.End, o.RefName, o.RefAddr
	}
	l.add(l.kernel(machine), t, m)
}

// kernelImage returns what of the kernel may lie around the range that was
// recorded, which ends with _etext. The code of its start-up lies behind that,
// and is at the bottom of the call chains of idle CPUs; behind _text, which
// some recordings have only _stext of, comes its entry. perf learns the true
// range from the symbols. Whatever else is mapped there goes first.
func kernelImage(start, last uint64) (uint64, uint64) {
	const (
		align = 2 << 20
		image = 128 << 20
		x86   = 1 << 30 // what x86-64 keeps for the image, up to the modules
	)
	end := max(last, start+image)
	if start >= ^uint64(0)-2*x86+1 {
		end = max(last, min(end, start|(x86-1)))
	}
	if end < start {
		end = last
	}
	return start &^ (align - 1), end
}

// ksymbol adds or removes kernel code made at run time.
func (l *loader) ksymbol(t moment, r *perfdata.Ksymbol) {
	if r.Len == 0 {
		return
	}
	sp := l.kernel(hostMachine)
	m := mapping{start: r.Addr, last: r.Addr + uint64(r.Len) - 1, object: none, identity: true}
	if m.last < m.start {
		m.last = ^uint64(0)
	}
	old, lo, hi := l.atlas.find(sp.last(), r.Addr)
	if r.Flags&1 != 0 {
		under, ok := l.ksyms[old]
		if old == none || !ok {
			return // we never heard of it, or it is the kernel itself
		}
		m.start, m.last = l.atlas.maps[old].start, l.atlas.maps[old].last
		if under != none {
			u := l.atlas.maps[under]
			m.object, m.identity, m.pgoff = u.object, u.identity, u.addr(m.start)
		}
		l.add(sp, t, m)
		return
	}
	if old != none && (m.start < lo || m.last > hi) {
		old = none // covers more than one thing: nothing to go back to
	}
	if under, ok := l.ksyms[old]; ok {
		old = under
	}
	m.object = l.objects.resolve(profile.Object{
		Kind: profile.KindBPF, Path: r.Name, Short: r.Name, Start: m.start, End: m.last + 1,
	}, hostMachine)
	if id := l.add(sp, t, m); id != none {
		l.ksyms[id] = old
	}
}

// addDeferred keeps the user part of a call chain that was recorded after its
// sample.
func (l *loader) addDeferred(r *perfdata.CallchainDeferred) {
	if len(l.deferred.ips)/8+len(r.Callchain) > l.o.MaxDefer {
		l.res.DroppedChains++
		return
	}
	from := len(l.deferred.ips)
	for _, ip := range r.Callchain {
		if ip == perfdata.ContextUserDefer {
			break // one deferral must not lead to another
		}
		l.deferred.ips = binary.LittleEndian.AppendUint64(l.deferred.ips, ip)
	}
	l.deferred.byCookie[deferKey{r.TID, r.Cookie}] = [2]int{from, len(l.deferred.ips)}
}

// firstName is the first name that is known of a thread, "" if there is none.
func (l *loader) firstName(tid int32) string {
	if th := l.threads[tid]; th != nil {
		if c := th.first(); c != defaultComm {
			return l.comms[c]
		}
	}
	return ""
}

// commName is the name of a thread.
func (l *loader) commName(comm, tid int32) string {
	if comm >= 0 {
		return l.comms[comm]
	}
	return fmt.Sprintf(":%d", tid)
}
