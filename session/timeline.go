package session

import "sort"

// A moment orders records: by time, and at equal times by their place in the
// recording. Records without a time have time 0 and come first. In recordings
// without times, time is the place.
type moment struct {
	time uint64 // ns
	pos  uint64 // perfdata.Batch.Pos of the record
}

func (a moment) before(b moment) bool {
	return a.time < b.time || a.time == b.time && a.pos < b.pos
}

// A state is the maps of an address space at some time. States never change.
// The newest mapping that covers an address is what is there: that is what
// perf gets by trimming older maps.
type state struct {
	base tree    // older mappings
	log  []int32 // newer ones, newest last, at most logMax
}

// logMax is how many mappings a state may list before they go into the tree.
// Most processes map no more than that from exec to exit, and never need one.
const logMax = 16

// An atlas holds all mappings and all states of all address spaces.
type atlas struct {
	maps   []mapping
	states []state // [0] is the empty one
	forest *forest
}

func newAtlas() *atlas {
	return &atlas{states: make([]state, 1), forest: newForest()}
}

// find returns the mapping at ip in state s, or none, and the addresses around
// ip, both inside, for which that is the answer, too.
func (a *atlas) find(s int32, ip uint64) (m int32, lo, hi uint64) {
	st := &a.states[s]
	lo, hi = 0, ^uint64(0)
	for i := len(st.log) - 1; i >= 0; i-- {
		mp := &a.maps[st.log[i]]
		switch {
		case ip < mp.start:
			hi = min(hi, mp.start-1)
		case ip > mp.last:
			lo = max(lo, mp.last+1)
		default:
			return st.log[i], max(lo, mp.start), min(hi, mp.last)
		}
	}
	return a.forest.find(st.base, ip, lo, hi)
}

// A space is an address space through time: that of one pid, whatever
// processes had it one after the other, or of a kernel.
type space struct {
	points []point // in order of time
	pinned int     // forest nodes below are part of a point or of a child
	owner  bool    // the spare room behind the last state's log is ours

	// Mappings since an exec whose end was not seen yet: see loaded.
	execed bool
	full   bool // the kernel has mapped all that it maps
	fresh  []int32
}

// A point is a state and since when.
type point struct {
	moment
	state int32
}

// last returns the newest state.
func (sp *space) last() int32 {
	if len(sp.points) == 0 {
		return 0
	}
	return sp.points[len(sp.points)-1].state
}

// set makes s the state from t on.
func (sp *space) set(a *atlas, t moment, s int32) {
	if n := len(sp.points); n > 0 && t.time == 0 && sp.points[n-1].time == 0 {
		// Maps that were there from the start have no history.
		sp.points[n-1].state = s
		return
	}
	sp.pinned = len(a.forest.nodes)
	sp.points = append(sp.points, point{t, s})
}

// at returns the state at t and the times between which it holds; lo and hi
// themselves may need a look at the place as well.
func (sp *space) at(t moment) (s int32, lo, hi uint64) {
	i := sort.Search(len(sp.points), func(i int) bool { return t.before(sp.points[i].moment) })
	hi = ^uint64(0)
	if i < len(sp.points) {
		hi = sp.points[i].time
	}
	if i == 0 {
		return 0, 0, hi
	}
	return sp.points[i-1].state, sp.points[i-1].time, hi
}

// add maps m at t.
func (sp *space) add(a *atlas, t moment, m mapping) {
	a.maps = append(a.maps, m)
	id := int32(len(a.maps) - 1)
	if sp.execed {
		sp.fresh = append(sp.fresh, id)
		switch {
		case sp.full:
			sp.flush(a, t)
			return
		case len(sp.fresh) > freshMax:
			sp.execed, sp.fresh = false, nil
		}
	}
	old := a.states[sp.last()]
	s := state{base: old.base}
	switch {
	case len(old.log) == logMax:
		s.base = a.fold(old, sp.pinned)
		s.log = append(make([]int32, 0, 4), id)
	case sp.owner:
		s.log = append(old.log, id)
	default:
		s.log = append(append(make([]int32, 0, len(old.log)+4), old.log...), id)
	}
	sp.owner = true
	a.states = append(a.states, s)
	sp.set(a, t, int32(len(a.states)-1))
}

// freshMax is how many mappings after an exec are waited for.
const freshMax = 256

// exec says that the process runs another program. What the old one had
// mapped stays for now, below what follows: until the new one runs, the user
// part of call chains is where the old one called execve.
func (sp *space) exec() { sp.execed, sp.full, sp.fresh = true, false, nil }

// loaded says that the kernel has mapped the new program. The next mapping is
// the program's own doing.
func (sp *space) loaded() { sp.full = true }

// flush drops what was mapped before the last exec.
func (sp *space) flush(a *atlas, t moment) {
	var s state
	s.log = sp.fresh
	for len(s.log) > logMax {
		s.base = a.fold(state{s.base, s.log[:logMax]}, len(a.forest.nodes))
		s.log = s.log[logMax:]
	}
	a.states = append(a.states, s)
	sp.owner = false
	sp.execed, sp.fresh = false, nil
	sp.set(a, t, int32(len(a.states)-1))
}

// fold puts the log of a state into its tree. Nodes from pinned on may change.
func (a *atlas) fold(s state, pinned int) tree {
	a.forest.owned = pinned
	t := s.base
	for _, id := range s.log {
		t = a.forest.insert(t, a.maps[id].start, a.maps[id].last, id)
	}
	return t
}

// fork makes the newest state of sp that of child at t.
func (sp *space) fork(a *atlas, t moment, child *space) {
	child.execed, child.fresh = false, nil
	child.owner = false
	child.set(a, t, sp.last())
	sp.pinned = len(a.forest.nodes)
	child.pinned = len(a.forest.nodes)
}

// A thread is the names of a tid through time.
type thread struct {
	names []name
}

// A name is a comm and since when. A comm of defaultComm is that of a thread
// whose name is not known.
type name struct {
	moment
	comm int32
}

const defaultComm = -1

func (th *thread) last() int32 {
	if len(th.names) == 0 {
		return defaultComm
	}
	return th.names[len(th.names)-1].comm
}

func (th *thread) set(t moment, comm int32) {
	switch n := len(th.names); {
	case th.last() == comm:
	case n > 0 && t.time == 0 && th.names[n-1].time == 0:
		th.names[n-1].comm = comm
	default:
		th.names = append(th.names, name{t, comm})
	}
}

// first is the first name that is known.
func (th *thread) first() int32 {
	for _, n := range th.names {
		if n.comm != defaultComm {
			return n.comm
		}
	}
	return defaultComm
}

// at is like space.at.
func (th *thread) at(t moment) (comm int32, lo, hi uint64) {
	i := sort.Search(len(th.names), func(i int) bool { return t.before(th.names[i].moment) })
	hi = ^uint64(0)
	if i < len(th.names) {
		hi = th.names[i].time
	}
	if i == 0 {
		return defaultComm, 0, hi
	}
	return th.names[i-1].comm, th.names[i-1].time, hi
}
