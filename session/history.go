package session

import (
	"encoding/binary"
	"slices"

	"github.com/perfark/perfark/perfdata"
)

// A History says whether the branches of branch stacks are frames of call
// chains, as perf report --branch-history has it.
type History uint8

// The kinds of history.
const (
	NoHistory       History = iota
	HistoryByCallee         // each branch is where it went, and behind that where it came from
	HistoryByCaller         // the other way round, so that the oldest branch, seen from the outermost frame, begins where it went
)

// maxHistory is how many branches perf takes for a sound branch stack
// (PERF_MAX_BRANCH_DEPTH).
const maxHistory = 127

// branchChain returns the call chain of the current sample with its branches in
// front, innermost first, and with the markers that say whose addresses they
// are. Frames of the chain that branches tell of are left out, and so are
// rounds of loops. The result is valid until the next sample.
func (w *worker) branchChain(f *frames) []byte {
	c := &w.cur
	if len(c.branches) == 0 || len(c.branches) > maxHistory || w.l.callStack[c.event] {
		return c.chain
	}
	w.historyBuf = append(w.historyBuf[:0], c.branches...)
	list := w.historyBuf
	if w.l.o.History == HistoryByCaller { // of a loop the oldest round stays
		slices.Reverse(list)
		list = withoutLoops(list)
		slices.Reverse(list)
	} else {
		list = withoutLoops(list)
	}
	out := w.historyChain[:0]
	last := uint64(0) // marker
	push := func(ip uint64) {
		if ip >= perfdata.MaxContext {
			return
		}
		if marker := contextOf(f.branchMode(ip)); marker != last {
			last = marker
			out = binary.LittleEndian.AppendUint64(out, marker)
		}
		out = binary.LittleEndian.AppendUint64(out, ip)
	}
	for i := range list {
		if w.l.o.History == HistoryByCaller {
			push(list[i].From)
			push(list[i].To)
		} else {
			push(list[i].To)
			push(list[i].From)
		}
	}
	w.historyChain = appendRest(out, c.chain, c.branches)
	return w.historyChain
}

// contextOf is the marker of a mode.
func contextOf(m mode) uint64 {
	switch m {
	case modeKernel:
		return perfdata.ContextKernel
	case modeGuestKernel:
		return perfdata.ContextGuestKernel
	case modeGuestUser:
		return perfdata.ContextGuestUser
	case modeHypervisor:
		return perfdata.ContextHV
	}
	return perfdata.ContextUser
}

// longestCall is how many bytes a call has at most, for perf: an address in a
// chain is behind the call.
const longestCall = 8

// appendRest appends a call chain without the innermost frames that are calls
// in a branch stack. As for perf, each branch is compared with one frame, and a
// marker counts as one.
func appendRest(out, chain []byte, branches []perfdata.Branch) []byte {
	var marker []byte
	for i := range branches {
		if len(chain) < 8 {
			break
		}
		ip := binary.LittleEndian.Uint64(chain)
		if ip >= perfdata.MaxContext {
			marker = chain[:8]
		} else if branches[i].From >= ip || ip-branches[i].From > longestCall {
			continue
		}
		chain = chain[8:]
	}
	return append(append(out, marker...), chain...)
}

// withoutLoops takes rounds of loops out of a list of branches, and returns
// what is left: of the same branches in the same order one behind the other
// those that come first. What begins a round at the end goes, too. As for perf,
// a branch is only compared with the first of its hash
// (tools/perf/util/machine.c, remove_loops).
func withoutLoops(list []perfdata.Branch) []perfdata.Branch {
	const (
		golden = 0x61c8864680b583eb
		bits   = 7
		size   = 127
	)
	var first [size]uint8 // place in list of the first of that hash, plus 1
	for i := 0; i < len(list); i++ {
		h := list[i].From * golden >> (64 - bits) % size
		at := int(first[h]) - 1
		if at < 0 {
			first[h] = uint8(i + 1)
			continue
		}
		if list[at].From != list[i].From {
			continue
		}
		n, loop := 0, true
		for j := at; j < i && i+n < len(list); j++ {
			if list[j].From != list[i+n].From {
				loop = false
				break
			}
			n++
		}
		if loop {
			list = append(list[:i], list[i+n:]...)
		}
	}
	return list
}
