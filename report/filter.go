package report

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/perfark/perfark/profile"
)

// What becomes of a sample: it counts, it counts in the totals alone, or not
// at all.
const (
	shown   = 0
	hidden  = 1
	dropped = 2
)

// filtered returns what becomes of each sample; nil if all count.
func (b *builder) filtered() []uint8 {
	f := &b.o.Filter
	parents := b.o.ExcludeOther && b.parents != nil
	if f.empty() && !b.o.HideUnresolved && !parents {
		return nil
	}
	threads, cgroups, places := b.filterThreads(), b.filterCgroups(), b.filterPlaces()
	out := make([]uint8, len(b.p.Samples))
	for i := range out {
		s := &b.p.Samples[i]
		place := b.place(s)
		switch {
		case b.o.HideUnresolved && b.s.funcIndex(place) == profile.None:
			out[i] = dropped
		case !threads[max(s.Thread, -1)+1],
			!cgroups[s.Extra+1],
			!places[place],
			f.Sockets != nil && !slices.Contains(f.Sockets, socket(b.o.Sockets, s.CPU)),
			parents && b.parents[b.t.node(s)+1] == profile.None:
			out[i] = hidden
		}
	}
	return out
}

// filterThreads returns which threads the filter leaves, by index +1, behind
// none.
func (b *builder) filterThreads() []bool {
	f := &b.o.Filter
	out := make([]bool, len(b.p.Threads)+1)
	out[0] = len(f.Comms)+len(f.PIDs)+len(f.TIDs) == 0
	for i := range b.p.Threads {
		th := &b.p.Threads[i]
		out[i+1] = (f.Comms == nil || slices.Contains(f.Comms, comm(th))) &&
			(f.PIDs == nil || slices.Contains(f.PIDs, th.PID)) && (f.TIDs == nil || slices.Contains(f.TIDs, th.TID))
	}
	return out
}

// filterCgroups returns which extras the filter leaves, by index +1, behind
// none.
func (b *builder) filterCgroups() []bool {
	list := b.o.Filter.Cgroups
	out := make([]bool, len(b.p.Extras)+1)
	out[0] = list == nil
	for i := range b.p.Extras {
		name := b.cgroup(&b.p.Extras[i])
		out[i+1] = list == nil || slices.Contains(list, name) || slices.Contains(list, strings.TrimPrefix(name, "/"))
	}
	return out
}

// filterPlaces returns which places the filter leaves.
func (b *builder) filterPlaces() []bool {
	f := &b.o.Filter
	objects := make([]bool, len(b.p.Objects))
	for i := range objects {
		o := &b.p.Objects[i]
		objects[i] = f.DSOs == nil || slices.Contains(f.DSOs, b.s.dsos[i].name) || slices.Contains(f.DSOs, o.Path)
	}
	names, addrs := f.symbols()
	funcs := make([]bool, len(b.p.Functions))
	for i := range funcs {
		fn := &b.p.Functions[i]
		funcs[i] = f.Symbols == nil || slices.Contains(names, fn.Name) || slices.Contains(addrs, fn.Start)
	}
	// At run time: that of a place, or where its function begins.
	at := func(l *profile.Location, fn int32) bool {
		return slices.Contains(addrs, l.IP) || fn != profile.None && slices.Contains(addrs, l.IP-(l.Addr-b.p.Functions[fn].Start))
	}
	out := make([]bool, b.s.len())
	for i := range out {
		l := b.s.location(int32(i))
		fn := b.s.funcIndex(int32(i))
		switch {
		case l.Object == profile.None && f.DSOs != nil && !slices.Contains(f.DSOs, b.s.dso(l).name),
			l.Object != profile.None && !objects[l.Object],
			(fn == profile.None && f.Symbols != nil || fn != profile.None && !funcs[fn]) && !at(l, fn):
		default:
			out[i] = true
		}
	}
	return out
}

// symbols returns the names among Symbols, and the addresses.
func (f *Filter) symbols() (names []string, addrs []uint64) {
	for _, s := range f.Symbols {
		hex, ok := strings.CutPrefix(s, "0x")
		if addr, err := strconv.ParseUint(hex, 16, 64); ok && err == nil {
			addrs = append(addrs, addr)
		} else {
			names = append(names, s)
		}
	}
	return names, addrs
}

var defaultParent = regexp.MustCompile(`^sys_|^do_page_fault`)

// parentDim finds the caller of each chain that Options.Parent names: of
// several that nearest to the begin of the chain.
func (b *builder) parentDim(d *dim) {
	re := b.o.Parent
	if re == nil {
		re = defaultParent
	}
	match := matcher(b.s, re)
	nodes := b.t.nodes
	b.parents = make([]int32, len(nodes)+1)
	done := make([]bool, len(nodes)+1)
	b.parents[0], done[0] = profile.None, true
	var path []int32
	for i := range nodes {
		path = path[:0]
		at := int32(i)
		for ; !done[at+1]; at = nodes[at].Caller {
			path = append(path, at)
		}
		for j := len(path) - 1; j >= 0; j-- {
			n := path[j]
			up := b.parents[nodes[n].Caller+1]
			if match(nodes[n].Location) && (b.o.Graph.Order == ByCallee || up == profile.None) {
				up = b.s.funcIndex(nodes[n].Location)
			}
			b.parents[n+1], done[n+1] = up, true
		}
	}
	names := make([]string, len(b.parents))
	for i, f := range b.parents {
		names[i] = b.parentName(f)
	}
	d.codes = ranks(names)
}

// parentName is the name of a parent as perf prints it.
func (b *builder) parentName(f int32) string {
	if f == profile.None {
		return "[other]"
	}
	return b.p.Functions[f].Name
}
