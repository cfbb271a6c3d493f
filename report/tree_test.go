package report

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/perfark/perfark/profile"
)

// chained gives samples of build call chains: for each, names of functions
// with their objects, the innermost first. Equal prefixes from the outermost
// on are stored once.
func chained(p *profile.Profile, chains [][]string) *profile.Profile {
	type edge struct{ caller, loc int32 }
	have := make(map[edge]int32)
	for i, chain := range chains {
		caller := int32(profile.None)
		for _, name := range slices.Backward(chain) {
			e := edge{caller, location(p, name)}
			n, ok := have[e]
			if !ok {
				n = int32(len(p.Stacks))
				have[e] = n
				p.Stacks = append(p.Stacks, profile.Stack{Location: e.loc, Caller: caller})
			}
			caller = n
		}
		p.Samples[i].Stack = caller
	}
	return p
}

// location returns a location in a function, "dso name", or at an address
// without a name, "dso 0x12". The function is made if it is not there.
func location(p *profile.Profile, name string) int32 {
	dso, sym, _ := strings.Cut(name, " ")
	obj := int32(slices.IndexFunc(p.Objects, func(o profile.Object) bool { return o.Short == dso }))
	if obj < 0 {
		obj = int32(len(p.Objects))
		p.Objects = append(p.Objects, profile.Object{Short: dso})
	}
	level := byte('.')
	if dso == "[kernel]" {
		level = 'k'
	}
	var addr uint64
	fn := int32(profile.None)
	if _, err := fmt.Sscanf(sym, "0x%x", &addr); err != nil {
		fn = int32(slices.IndexFunc(p.Functions, func(f profile.Function) bool { return f.Object == obj && f.Name == sym }))
		if fn < 0 {
			fn = int32(len(p.Functions))
			start := uint64(0x10000 + 0x100*len(p.Functions))
			p.Functions = append(p.Functions, profile.Function{Object: obj, Name: sym, Start: start, End: start + 0x100})
		}
		addr = p.Functions[fn].Start + 0x10
	}
	loc := profile.Location{Object: obj, Level: level, IP: addr, Addr: addr, Func: fn}
	if i := slices.Index(p.Locations, loc); i >= 0 {
		return int32(i)
	}
	p.Locations = append(p.Locations, loc)
	return int32(len(p.Locations) - 1)
}

// The samples of perf's tests/hists_cumulate.c: those of hists_output.c with
// these chains.
var cumulateChains = [][]string{
	{"[kernel] schedule", "perf run_command", "perf main"},
	{"perf main"},
	{"perf cmd_record", "perf run_command", "perf main"},
	{"libc malloc", "perf cmd_record", "perf run_command", "perf main"},
	{"libc free", "perf cmd_record", "perf run_command", "perf main"},
	{"perf main"},
	{"[kernel] page_fault", "[kernel] sys_perf_event_open", "perf run_command", "perf main"},
	{"bash main"},
	{"bash xmalloc", "libc malloc", "bash xmalloc", "libc malloc", "bash xmalloc", "bash main"},
	{"[kernel] page_fault", "libc malloc", "bash main"},
}

func cumulate() *profile.Profile { return chained(build([]string{"cycles"}, hists), cumulateChains) }

// outline is a tree in a line: frames, samples, what follows.
func outline(tree []*Branch) string {
	var parts []string
	for _, br := range tree {
		var names []string
		for i := range br.Frames {
			f := &br.Frames[i]
			name := f.Name
			if name == "" {
				name = fmt.Sprintf("%#x", f.Addr)
			}
			if f.Inlined {
				name += "*"
			}
			names = append(names, name)
		}
		s := fmt.Sprintf("%s:%d", strings.Join(names, ";"), br.Total.Samples)
		if len(br.Sub) > 0 {
			s += "(" + outline(br.Sub) + ")"
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, " ")
}

// rowsOf is the rows of a table in one line each, with their trees.
func rowsOf(t *Table) []string {
	var out []string
	for i, tree := range t.Trees(0, t.Len()) {
		r := t.Row(i)
		s := ""
		if r.Children != nil {
			s = fmt.Sprintf("%.0f/", percent(r.Children[0].Period, t.Totals[0].Period))
		}
		s += fmt.Sprintf("%.0f %s %s %s", t.Percent(&r, 0), r.Comm, r.DSO, r.SymbolText())
		if tree != nil {
			s += " | " + outline(tree)
		}
		out = append(out, s)
	}
	return out
}

// The four scenarios of perf's tests/hists_cumulate.c, with its numbers.
func TestHistsCumulate(t *testing.T) {
	tests := []struct {
		name string
		o    Options
		want []string
	}{
		{"no callgraph, no children", Options{}, []string{
			"20 perf perf [.] main",
			"10 bash [kernel] [k] page_fault",
			"10 bash bash [.] main",
			"10 bash bash [.] xmalloc",
			"10 perf [kernel] [k] page_fault",
			"10 perf [kernel] [k] schedule",
			"10 perf libc [.] free",
			"10 perf libc [.] malloc",
			"10 perf perf [.] cmd_record",
		}},
		{"callgraph, no children", Options{Graph: Graph{Mode: GraphTree}}, []string{
			"20 perf perf [.] main | main:2",
			"10 bash [kernel] [k] page_fault | page_fault;malloc;main:1",
			"10 bash bash [.] main | main:1",
			"10 bash bash [.] xmalloc | xmalloc;malloc;xmalloc;malloc;xmalloc;main:1",
			"10 perf [kernel] [k] page_fault | page_fault;sys_perf_event_open;run_command;main:1",
			"10 perf [kernel] [k] schedule | schedule;run_command;main:1",
			"10 perf libc [.] free | free;cmd_record;run_command;main:1",
			"10 perf libc [.] malloc | malloc;cmd_record;run_command;main:1",
			"10 perf perf [.] cmd_record | cmd_record;run_command;main:1",
		}},
		{"children, no callgraph", Options{Children: true}, []string{
			"70/20 perf perf [.] main",
			"50/0 perf perf [.] run_command",
			"30/10 bash bash [.] main",
			"30/10 perf perf [.] cmd_record",
			"20/0 bash libc [.] malloc",
			"10/10 bash [kernel] [k] page_fault",
			"10/10 bash bash [.] xmalloc",
			"10/10 perf [kernel] [k] page_fault",
			"10/10 perf [kernel] [k] schedule",
			"10/10 perf libc [.] free",
			"10/10 perf libc [.] malloc",
			"10/0 perf [kernel] [k] sys_perf_event_open",
		}},
		{"callgraph and children, callees first", Options{Children: true, Graph: Graph{Mode: GraphTree}}, []string{
			"70/20 perf perf [.] main | main:7",
			"50/0 perf perf [.] run_command | run_command;main:5",
			"30/10 bash bash [.] main | main:3",
			"30/10 perf perf [.] cmd_record | cmd_record;run_command;main:3",
			"20/0 bash libc [.] malloc | malloc:2(main:1 xmalloc;malloc;xmalloc;main:1)",
			"10/10 bash [kernel] [k] page_fault | page_fault;malloc;main:1",
			"10/10 bash bash [.] xmalloc | xmalloc;malloc;xmalloc;malloc;xmalloc;main:1",
			"10/10 perf [kernel] [k] schedule | schedule;run_command;main:1",
			"10/0 perf [kernel] [k] sys_perf_event_open | sys_perf_event_open;run_command;main:1",
			"10/10 perf [kernel] [k] page_fault | page_fault;sys_perf_event_open;run_command;main:1",
			"10/10 perf libc [.] free | free;cmd_record;run_command;main:1",
			"10/10 perf libc [.] malloc | malloc;cmd_record;run_command;main:1",
		}},
		{"callgraph and children, callers first", Options{Children: true, Graph: Graph{Mode: GraphTree, Order: ByCaller}}, nil},
	}
	tests[4].want = []string{
		"70/20 perf perf [.] main | main:7(run_command:5(cmd_record:3(malloc:1 free:1) schedule:1 sys_perf_event_open;page_fault:1))",
		"50/0 perf perf [.] run_command | run_command:5(cmd_record:3(malloc:1 free:1) schedule:1 sys_perf_event_open;page_fault:1)",
		"30/10 bash bash [.] main | main:3(malloc;page_fault:1 xmalloc;malloc;xmalloc;malloc;xmalloc:1)",
		"30/10 perf perf [.] cmd_record | cmd_record:2(malloc:1 free:1) main;run_command;cmd_record:1",
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, workers := range []int{1, 2, 5} {
				tt.o.Workers = workers
				got := rowsOf(Flat(cumulate(), tt.o)[0])
				if len(tt.want) < 5 {
					got = got[:4]
				}
				if !slices.Equal(got, tt.want) {
					t.Fatalf("%d workers: rows\n%s\nwant\n%s", workers, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
				}
			}
		})
	}
}

// Trees drawn in every way. The golden files are what perf draws of such
// chains: see TestReportLikePerf of cmd/perfark, which compares with it.
func TestTreePage(t *testing.T) {
	tests := []struct {
		name string
		o    Options
		page PageOptions
	}{
		{"children-caller", Options{Children: true, Graph: Graph{Mode: GraphTree, Order: ByCaller, MinPercent: 0.5}}, PageOptions{}},
		{"children-callee", Options{Children: true, Graph: Graph{Mode: GraphTree, MinPercent: 0.5}}, PageOptions{}},
		{"fractal", Options{Children: true, Graph: Graph{Mode: GraphFractal, Order: ByCaller, MinPercent: 40}}, PageOptions{}},
		{"flat", Options{Graph: Graph{Mode: GraphFlat, Value: ValueCount}}, PageOptions{}},
		{"folded", Options{Children: true, Graph: Graph{Mode: GraphFolded, Order: ByCaller, Value: ValuePeriod}}, PageOptions{Separator: "|"}},
		{"symbol-first", Options{Sort: []Key{Symbol}, Graph: Graph{Mode: GraphTree}}, PageOptions{}},
		{"print-limit", Options{Children: true, Graph: Graph{Mode: GraphTree, Order: ByCaller, PrintLimit: 1}}, PageOptions{PercentLimit: 25}},
		{"hierarchy", Options{Hierarchy: true, ShowSamples: true, Graph: Graph{Mode: GraphTree}}, PageOptions{}},
		{"hierarchy-limit", Options{Hierarchy: true}, PageOptions{PercentLimit: 20}},
		{"colors", Options{Children: true, Graph: Graph{Mode: GraphTree, Order: ByCaller}}, PageOptions{Color: true, PercentLimit: 50}},
		{"column-widths", Options{Children: true, ShowSamples: true}, PageOptions{Widths: []int{6, 0, 4, 3, 9}}},
		{"filter", Options{Filter: Filter{DSOs: []string{"perf"}, Comms: []string{"perf", "x"}}}, PageOptions{}},
		{"filter-relative", Options{Relative: true, Filter: Filter{DSOs: []string{"perf"}}}, PageOptions{Quiet: true}},
		{"parent", Options{Parent: regexp.MustCompile("^cmd_"), Graph: Graph{Mode: GraphTree}}, PageOptions{PercentLimit: 15}},
		{"verbose", Options{}, PageOptions{Verbose: true, Quiet: true, Origin: func(int32) byte { return 'd' }}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var first []byte
			for _, workers := range []int{1, 3} {
				tt.o.Workers = workers
				var buf bytes.Buffer
				if err := WritePage(&buf, Flat(cumulate(), tt.o), tt.page); err != nil {
					t.Fatal(err)
				}
				if first != nil && !bytes.Equal(first, buf.Bytes()) {
					t.Errorf("%d workers: other bytes", workers)
				}
				first = buf.Bytes()
			}
			golden(t, tt.name, first)
		})
	}
}

// A row that --symbol-filter leaves has the tree that it has without.
func TestTreeSymbolPart(t *testing.T) {
	for _, order := range []Order{ByCaller, ByCallee} {
		for _, mode := range []GraphMode{GraphTree, GraphFractal, GraphFolded} {
			o := Options{Children: true, Graph: Graph{Mode: mode, Order: order, MinPercent: 0.5}}
			var want []string
			all := Flat(cumulate(), o)[0]
			for i, line := range rowsOf(all) {
				if r := all.Row(i); strings.Contains(r.SymbolText(), "ma") {
					want = append(want, line)
				}
			}
			o.Filter.SymbolPart = "ma"
			if got := rowsOf(Flat(cumulate(), o)[0]); len(want) < 2 || !slices.Equal(got, want) {
				t.Errorf("order %v, mode %v:\ngot  %q\nwant %q", order, mode, got, want)
			}
		}
	}
}

// naive is a row and its tree, made sample by sample as perf does.
type naive struct {
	self, acc uint64
	chains    map[string]uint64 // by the path of functions
}

// A tree is what perf's way of making it gives: sample by sample, entry by
// entry, with a chain appended to each.
func TestChildrenRandom(t *testing.T) {
	names := []string{"a f", "a g", "b f", "b h", "a 0x40", "[kernel] k"}
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 60 {
		var samples []sample
		var chains [][]string
		for range 1 + rng.IntN(30) {
			var chain []string
			for range rng.IntN(8) {
				chain = append(chain, names[rng.IntN(len(names))])
			}
			samples = append(samples, sample{comm: string(rune('x' + rng.IntN(2))), tid: 1, period: uint64(1 + rng.IntN(9)), dso: "a", addr: 1})
			chains = append(chains, chain)
		}
		p := chained(build([]string{"e"}, samples), chains)
		for i := range p.Samples {
			leaf := names[rng.IntN(len(names))] // not always where the chain begins
			if len(chains[i]) > 0 && rng.IntN(4) > 0 {
				leaf = chains[i][0]
			}
			p.Samples[i].Location = location(p, leaf)
		}
		p.Stacks, p.Samples = shuffled(rng, p.Stacks, p.Samples)
		for _, order := range []Order{ByCallee, ByCaller} {
			want := make(map[string]*naive)
			row := func(key string) *naive {
				if want[key] == nil {
					want[key] = &naive{chains: make(map[string]uint64)}
				}
				return want[key]
			}
			for i := range p.Samples {
				s := &p.Samples[i]
				var chain []string
				for at := s.Stack; at != profile.None; at = p.Stacks[at].Caller {
					chain = append(chain, placeName(p, p.Stacks[at].Location))
				}
				if order == ByCaller {
					slices.Reverse(chain)
				}
				comm := p.Threads[s.Thread].Comm
				seen := map[string]bool{placeName(p, s.Location): true}
				r := row(comm + " " + placeName(p, s.Location))
				r.self += s.Period
				r.acc += s.Period
				if len(chain) > 0 {
					r.chains[strings.Join(chain, ";")] += s.Period
				}
				for j, f := range chain {
					if seen[f] {
						continue
					}
					seen[f] = true
					r := row(comm + " " + f)
					r.acc += s.Period
					r.chains[strings.Join(chain[j:], ";")] += s.Period
				}
			}
			for _, children := range []bool{true, false} {
				for _, workers := range []int{1, 3} {
					o := Options{Children: children, Workers: workers, Graph: Graph{Mode: GraphTree, Order: order}}
					tab := Flat(p, o)[0]
					got := make(map[string]string)
					trees := tab.Trees(0, tab.Len())
					for i := range tab.Len() {
						r := tab.Row(i)
						sym := r.Symbol
						if sym == "" {
							sym = fmt.Sprintf("%#x", r.Addr)
						}
						text := fmt.Sprint(r.Counts[0].Period)
						if children {
							text += fmt.Sprint("/", r.Children[0].Period)
						}
						for _, c := range flatten(p, trees[i]) {
							text += " " + c
						}
						got[r.Comm+" "+r.DSO+" "+sym] = text
					}
					n := 0
					for key, w := range want {
						if !children && w.self == 0 {
							continue
						}
						n++
						text := fmt.Sprint(w.self)
						if children {
							text += fmt.Sprint("/", w.acc)
						}
						var list []string
						for c, v := range w.chains {
							if children || ownChain(p, key, c, order) > 0 {
								if !children {
									v = ownChain(p, key, c, order)
								}
								list = append(list, fmt.Sprintf("%s=%d", c, v))
							}
						}
						slices.Sort(list)
						for _, c := range list {
							text += " " + c
						}
						if got[key] != text {
							t.Fatalf("round %d, order %d, children %v, %d workers: %s:\n%s\nwant\n%s", round, order, children, workers, key, got[key], text)
						}
					}
					if n != tab.Len() {
						t.Fatalf("%d rows, want %d", tab.Len(), n)
					}
				}
			}
		}
	}
}

// TestCallersCount: with Profile.Callers a report needs no stacks.
func TestCallersCount(t *testing.T) {
	names := []string{"a f", "a g", "b f", "b h", "a 0x40", "b 0x40", "[kernel] k"}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 60 {
		var samples []sample
		var chains [][]string
		for range 1 + rng.IntN(30) {
			var chain []string
			for range rng.IntN(8) {
				chain = append(chain, names[rng.IntN(len(names))])
			}
			thread := rng.IntN(2)
			samples = append(samples, sample{comm: string(rune('x' + thread)), tid: int32(thread), period: uint64(1 + rng.IntN(9)), dso: "a", addr: 1})
			chains = append(chains, chain)
		}
		p := chained(build([]string{"e"}, samples), chains)
		for _, sort := range [][]Key{nil, {Symbol}, {DSO}, {PID, Symbol}, {Comm}} {
			for _, depth := range []int{0, 2} {
				for _, order := range []Order{ByCallee, ByCaller} {
					p.Callers = nil
					o := Options{Children: true, Sort: sort, MaxStack: depth, Workers: 2, Graph: Graph{Order: order}}
					var page, direct strings.Builder
					if err := WritePage(&page, Flat(p, o), PageOptions{}); err != nil {
						t.Fatal(err)
					}
					r := New(p, o)
					same, limit, ok := r.Rows()
					if !ok {
						t.Fatalf("%v: the stacks are needed", sort)
					}
					p.Callers = callersOf(p, same, limit)
					if err := WritePage(&direct, r.Tables(), PageOptions{}); err != nil {
						t.Fatal(err)
					}
					if page.String() != direct.String() {
						t.Fatalf("%v, depth %d, order %d: with callers:\n%s\nwith stacks:\n%s", sort, depth, order, direct.String(), page.String())
					}
				}
			}
		}
	}
	for _, o := range []Options{
		{}, {Children: true, Graph: Graph{Mode: GraphTree}}, {Children: true, HideUnresolved: true}, {Children: true, Hierarchy: true},
		{Children: true, Sort: []Key{Parent}}, {Children: true, Sort: []Key{CPU}}, {Children: true, Filter: Filter{Comms: []string{"x"}}},
	} {
		if _, _, ok := New(cumulate(), o).Rows(); ok {
			t.Errorf("%+v: no stacks are needed", o)
		}
	}
}

// callersOf counts the samples that have a location in their chain or are of
// it.
func callersOf(p *profile.Profile, same []int32, depth int) []profile.Sample {
	var out []profile.Sample
	for _, s := range p.Samples {
		var chain []int32
		for at := s.Stack; at != profile.None; at = p.Stacks[at].Caller {
			chain = append(chain, same[p.Stacks[at].Location])
		}
		if n := len(chain); depth > 0 {
			chain = chain[:min(depth, n)]
		} else if depth < 0 {
			chain = chain[max(n+depth, 0):]
		}
		chain = append(chain, same[s.Location])
		slices.Sort(chain)
		for _, loc := range slices.Compact(chain) {
			s.Location, s.Stack = loc, profile.None
			out = append(out, s)
		}
	}
	return out
}

// placeName is a row of a location: its object, and its function or address.
func placeName(p *profile.Profile, loc int32) string {
	l := &p.Locations[loc]
	sym := fmt.Sprintf("%#x", l.Addr)
	if l.Func >= 0 {
		sym = p.Functions[l.Func].Name
	}
	return p.Objects[l.Object].Short + " " + sym
}

// ownChain returns the period of the samples of a row that have a chain.
func ownChain(p *profile.Profile, key, chain string, order Order) uint64 {
	var sum uint64
	for i := range p.Samples {
		s := &p.Samples[i]
		var list []string
		for at := s.Stack; at != profile.None; at = p.Stacks[at].Caller {
			list = append(list, placeName(p, p.Stacks[at].Location))
		}
		if order == ByCaller {
			slices.Reverse(list)
		}
		if p.Threads[s.Thread].Comm+" "+placeName(p, s.Location) == key && strings.Join(list, ";") == chain {
			sum += s.Period
		}
	}
	return sum
}

// flatten returns the chains that end in a tree, with their periods, sorted.
func flatten(p *profile.Profile, tree []*Branch) []string {
	var out []string
	for _, br := range chainList(tree, 1) {
		var names []string
		for _, f := range br.chain() {
			name := f.Name
			if name == "" {
				name = fmt.Sprintf("%#x", f.Addr)
			}
			names = append(names, p.Objects[f.Object].Short+" "+name)
		}
		out = append(out, fmt.Sprintf("%s=%d", strings.Join(names, ";"), br.Self.Period))
	}
	slices.Sort(out)
	return out
}

// shuffled puts stacks in any order: callers do not have to come first.
func shuffled(rng *rand.Rand, stacks []profile.Stack, samples []profile.Sample) ([]profile.Stack, []profile.Sample) {
	to := rng.Perm(len(stacks))
	out := make([]profile.Stack, len(stacks))
	for i, s := range stacks {
		if s.Caller != profile.None {
			s.Caller = int32(to[s.Caller])
		}
		out[to[i]] = s
	}
	for i := range samples {
		if samples[i].Stack != profile.None {
			samples[i].Stack = int32(to[samples[i].Stack])
		}
	}
	return out, samples
}

// S34: an inlined function whose name lies in a file that was not found is no
// address of its own, and the function around it keeps its name.
func TestInlinedWithoutName(t *testing.T) {
	p := &profile.Profile{
		Events:    []profile.Event{{Name: "e"}},
		Objects:   []profile.Object{{Short: "x"}},
		Functions: []profile.Function{{Object: 0, Name: "outer", Start: 0x10, End: 0x20}},
		Locations: []profile.Location{{Object: 0, Level: '.', IP: 0x7f11, Addr: 0x11, Func: 0, Frames: 0, NFrames: 2}},
		Frames:    []profile.Frame{{Func: profile.None, File: profile.None}, {Func: 0, File: profile.None}},
		Threads:   []profile.Thread{{PID: 1, TID: 1, Comm: "x"}},
		Stacks:    []profile.Stack{{Location: 0, Caller: profile.None}},
		Samples:   []profile.Sample{{Stack: 0, Extra: profile.None, Count: 2, Period: 3}},
	}
	o := Options{Sort: []Key{Symbol}, Graph: Graph{Mode: GraphTree, Order: ByCaller, PrintLimit: 10}}
	var buf bytes.Buffer
	if err := WritePage(&buf, Flat(p, o), PageOptions{Quiet: true}); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(strings.Fields(buf.String()), " ")
	if want := "100.00% [.] outer | ---[unknown] (inlined)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
