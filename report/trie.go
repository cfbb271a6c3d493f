package report

import (
	"regexp"

	"github.com/perfark/perfark/profile"
)

// A trie is the chains of a profile as rows and call trees see them: its
// locations are places, with a node for each inlined function.
type trie struct {
	nodes []profile.Stack
	of    []int32 // node by stack of the profile; nil: they are the same

	// place is what stands in the sample's place, by stack; nil or a negative
	// one: nothing else.
	place []int32
}

// node returns the node of a sample, profile.None if it has no chain.
func (t *trie) node(s *profile.Sample) int32 {
	if s.Stack == profile.None || t.of == nil {
		return s.Stack
	}
	return t.of[s.Stack]
}

// newTrie returns the chains of p under the options.
func newTrie(p *profile.Profile, s *places, o *Options) *trie {
	switch {
	case o.MaxStack > 0 || o.IgnoreCallees != nil || o.HideUnresolved:
		return cutTrie(p, s, o)
	case s.first != nil:
		return inlineTrie(p, s)
	}
	return &trie{nodes: p.Stacks}
}

// inlineTrie gives every frame of a location a node.
func inlineTrie(p *profile.Profile, s *places) *trie {
	t := &trie{of: make([]int32, len(p.Stacks))}
	n := 0
	for i := range p.Stacks {
		_, k := s.chain(p.Stacks[i].Location)
		n += int(k)
		t.of[i] = profile.None
	}
	t.nodes = make([]profile.Stack, 0, n)
	var path []int32
	for i := range p.Stacks {
		path = path[:0]
		at := int32(i)
		for ; at != profile.None && t.of[at] == profile.None; at = p.Stacks[at].Caller {
			path = append(path, at)
		}
		caller := int32(profile.None)
		if at != profile.None {
			caller = t.of[at]
		}
		for j := len(path) - 1; j >= 0; j-- {
			first, k := s.chain(p.Stacks[path[j]].Location)
			for f := first + k - 1; f >= first; f-- {
				t.nodes = append(t.nodes, profile.Stack{Location: f, Caller: caller})
				caller = int32(len(t.nodes) - 1)
			}
			t.of[path[j]] = caller
		}
	}
	return t
}

// cutTrie makes the chains anew: with what the options leave of them.
func cutTrie(p *profile.Profile, s *places, o *Options) *trie {
	t := &trie{of: make([]int32, len(p.Stacks)), place: make([]int32, len(p.Stacks))}
	type edge struct{ caller, place int32 }
	have := make(map[edge]int32)
	used := make([]bool, len(p.Stacks))
	for i := range p.Samples {
		if st := p.Samples[i].Stack; st != profile.None {
			used[st] = true
		}
	}
	ignored := matcher(s, o.IgnoreCallees)
	var chain []int32
	for i := range p.Stacks {
		t.of[i], t.place[i] = profile.None, profile.None
		if !used[i] {
			continue
		}
		chain = chain[:0]
		depth := 0
		for at := int32(i); at != profile.None && (o.MaxStack == 0 || depth < o.MaxStack); at = p.Stacks[at].Caller {
			depth++
			loc := p.Stacks[at].Location
			if o.HideUnresolved && p.Locations[loc].Func == profile.None {
				continue
			}
			if ignored != nil && ignored(loc) {
				chain = chain[:0]
				t.place[i] = loc
			}
			first, k := s.chain(loc)
			for f := range k {
				chain = append(chain, first+f)
			}
		}
		caller := int32(profile.None)
		for j := len(chain) - 1; j >= 0; j-- {
			e := edge{caller, chain[j]}
			n, ok := have[e]
			if !ok {
				n = int32(len(t.nodes))
				have[e] = n
				t.nodes = append(t.nodes, profile.Stack{Location: chain[j], Caller: caller})
			}
			caller = n
		}
		t.of[i] = caller
	}
	return t
}

// matcher returns a function that tells whether the function at a place has a
// name that re matches; nil if re is nil.
func matcher(s *places, re *regexp.Regexp) func(place int32) bool {
	if re == nil {
		return nil
	}
	known := make(map[int32]bool)
	return func(place int32) bool {
		f := s.funcIndex(place)
		if f == profile.None {
			return false
		}
		m, ok := known[f]
		if !ok {
			m = re.MatchString(s.p.Functions[f].Name)
			known[f] = m
		}
		return m
	}
}
