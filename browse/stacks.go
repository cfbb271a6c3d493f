package browse

import (
	"cmp"
	"context"
	"slices"

	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/profile"
)

// A callTree is all stacks of some events, by the names of functions.
type callTree struct {
	names []string // safe to print
	nodes []callNode
}

// A callNode is a function as called from its parent. Nodes come behind their
// parents; node 0 is all.
type callNode struct {
	name, up    int32
	kids        []int32 // the largest first
	self, total uint64  // periods
}

type callEdge struct{ up, name int32 }

// checked is after how much of a piece of work it is asked if anybody still
// waits for it.
const checked = 1 << 12

// newCallTree builds the tree of the events of p with these indices. Stacks are
// as many as the profile has, whatever is in them. When ctx is done the rest is left out.
func newCallTree(ctx context.Context, p *profile.Profile, events []int32) *callTree {
	t := &callTree{names: []string{"all"}, nodes: []callNode{{up: -1}}}
	byName := map[string]int32{}
	edges := map[callEdge]int32{}
	name := func(s string) int32 {
		n, ok := byName[s]
		if !ok {
			n = int32(len(t.names))
			t.names = append(t.names, escape.Name(s))
			byName[s] = n
		}
		return n
	}
	child := func(up, name int32) int32 {
		n, ok := edges[callEdge{up, name}]
		if !ok {
			n = int32(len(t.nodes))
			t.nodes = append(t.nodes, callNode{name: name, up: up})
			edges[callEdge{up, name}] = n
		}
		return n
	}
	ofFunc := make([]int32, len(p.Functions))
	for i := range ofFunc {
		ofFunc[i] = -1
	}
	function := func(f int32) int32 {
		if ofFunc[f] < 0 {
			ofFunc[f] = name(p.Functions[f].Name)
		}
		return ofFunc[f]
	}
	under := func(up, location int32) int32 {
		l := &p.Locations[location]
		frames := p.FramesOf(l)
		for i := len(frames) - 1; i >= 0; i-- {
			if f := frames[i].Func; f != profile.None {
				up = child(up, function(f))
			}
		}
		switch {
		case len(frames) > 0:
			return up
		case l.Func != profile.None:
			return child(up, function(l.Func))
		case l.Object != profile.None:
			return child(up, name("["+cmp.Or(p.Objects[l.Object].Short, "unnamed")+"]"))
		}
		return child(up, name("[unknown]"))
	}
	ofStack := make([]int32, len(p.Stacks))
	for i := range ofStack {
		ofStack[i] = -1
	}
	var path []int32
	stack := func(s int32) int32 {
		path = path[:0]
		for s != profile.None && ofStack[s] < 0 && len(path) <= len(ofStack) {
			path = append(path, s)
			s = p.Stacks[s].Caller
		}
		at := int32(0)
		if s != profile.None {
			at = ofStack[s]
		}
		for i := len(path) - 1; i >= 0; i-- {
			at = under(at, p.Stacks[path[i]].Location)
			ofStack[path[i]] = at
		}
		return at
	}
	for i := range p.Samples {
		s := &p.Samples[i]
		if i%checked == 0 && ctx.Err() != nil {
			break
		}
		if !slices.Contains(events, s.Event) {
			continue
		}
		at := int32(0)
		if s.Stack != profile.None {
			at = stack(s.Stack)
		} else {
			at = under(0, s.Location)
		}
		t.nodes[at].self += cmp.Or(s.Period, s.Count)
	}
	for i := len(t.nodes) - 1; i >= 0; i-- {
		n := &t.nodes[i]
		n.total += n.self
		if i > 0 {
			t.nodes[n.up].total += n.total
			t.nodes[n.up].kids = append(t.nodes[n.up].kids, int32(i))
		}
	}
	for i := range t.nodes {
		slices.SortFunc(t.nodes[i].kids, func(a, b int32) int {
			return cmp.Or(cmp.Compare(t.nodes[b].total, t.nodes[a].total), cmp.Compare(t.nodes[a].name, t.nodes[b].name))
		})
	}
	return t
}

func (t *callTree) name(n int32) string { return t.names[t.nodes[n].name] }

// percent is the share of a number of all.
func (t *callTree) percent(v uint64) float64 {
	if t.nodes[0].total == 0 {
		return 0
	}
	return 100 * float64(v) / float64(t.nodes[0].total)
}

// A neighbour is a function that calls another, or is called by it.
type neighbour struct {
	name  int32
	total uint64
}

// around returns what calls a function and what it calls, most first, and what
// is in the function itself. Each sample counts once.
func (t *callTree) around(name int32) (callers, callees []neighbour, self, total uint64) {
	up, down := map[int32]uint64{}, map[int32]uint64{}
	inside := make([]int32, len(t.nodes)) // the outermost node of the function that this is in, +1
	for i := range t.nodes {
		n := &t.nodes[i]
		if n.up >= 0 {
			inside[i] = inside[n.up]
		}
		if n.name != name || i == 0 {
			continue
		}
		self += n.self
		if inside[i] == 0 {
			inside[i] = int32(i) + 1
			total += n.total
			up[t.nodes[n.up].name] += n.total
		}
		for _, k := range n.kids {
			if c := &t.nodes[k]; c.name != name && !t.again(k, name) {
				down[c.name] += c.total
			}
		}
	}
	return sorted(up), sorted(down), self, total
}

// again reports whether the call of a node by a function is already under way
// further out.
func (t *callTree) again(n, by int32) bool {
	name := t.nodes[n].name
	for at := t.nodes[n].up; at > 0; at = t.nodes[at].up {
		if up := t.nodes[at].up; up > 0 && t.nodes[at].name == name && t.nodes[up].name == by {
			return true
		}
	}
	return false
}

func sorted(m map[int32]uint64) []neighbour {
	var out []neighbour
	for name, total := range m {
		out = append(out, neighbour{name, total})
	}
	slices.SortFunc(out, func(a, b neighbour) int {
		return cmp.Or(cmp.Compare(b.total, a.total), cmp.Compare(a.name, b.name))
	})
	return out
}
