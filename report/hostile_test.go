package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/perfark/perfark/profile"
)

// U1, U2: names that would act upon a terminal, a page or a spreadsheet do not
// come out as they are, wherever a name is printed.
func TestHostileNames(t *testing.T) {
	const evil = "\x1b]0;t\x07\x1b[2J\r\n\t\x9b31m\u202e\u2028</script><img onerror>;a,b\xff"
	for _, mark := range []string{"", "=", "@", "+", "-"} {
		name := mark + evil
		p := &profile.Profile{
			Events:  []profile.Event{{Name: name}, {Name: "x"}},
			Objects: []profile.Object{{Short: name, Path: "/" + name}},
			Functions: []profile.Function{
				{Object: 0, Name: name, Start: 0x10, End: 0x20},
				{Object: 0, Name: name + "2", Start: 0x10, End: 0x20, Inlined: true},
			},
			Locations: []profile.Location{{Object: 0, Level: '.', IP: 0x11, Addr: 0x11, Func: 0, Frames: 0, NFrames: 2}},
			Frames:    []profile.Frame{{Func: 1, File: 0, Line: 3}, {Func: 0, File: 0, Line: 4}},
			Files:     []string{"/src/" + name},
			Threads:   []profile.Thread{{PID: 1, TID: 1, Comm: name, Last: name}},
			Stacks:    []profile.Stack{{Location: 0, Caller: profile.None}, {Location: 0, Caller: 0}},
			Extras:    []profile.Extra{{Cgroup: 5, Data: 0, From: 0, To: 0}},
			Cgroups:   map[uint64]string{5: name},
			Samples:   []profile.Sample{{Stack: 1, Extra: 0, Count: 2, Period: 3}, {Event: 1, Stack: 0, Extra: 0, Count: 1, Period: 1}},
		}
		all := []Key{PID, Comm, DSO, Symbol, SymbolOffset, Parent, Srcline, Srcfile, Cgroup, DSOFrom, DSOTo, SymbolFrom, SymbolTo, SrclineFrom,
			SrclineTo, SymbolData, DSOData, SymbolCode, AddrFrom, AddrTo}
		for _, mode := range []GraphMode{GraphTree, GraphFractal, GraphFlat, GraphFolded} {
			for _, key := range []ChainKey{ByFunction, ByAddress, BySrcline} {
				for _, hierarchy := range []bool{false, true} {
					o := Options{Sort: all, Children: true, Hierarchy: hierarchy, Graph: Graph{Mode: mode, Key: key}, Groups: []Group{{Name: name, Members: []int32{0, 1}}},
						Filter: Filter{Comms: []string{name}}}
					for _, sep := range []string{"", ",", "\t"} {
						var buf bytes.Buffer
						if err := WritePage(&buf, Flat(p, o), PageOptions{Separator: sep, Verbose: true}); err != nil {
							t.Fatal(err)
						}
						for _, c := range []string{"\x1b", "\x07", "\r", "\x9b", "\u202e", "\u2028", "\xff"} {
							if strings.Contains(buf.String(), c) {
								t.Fatalf("%q is printed:\n%q", c, buf.String())
							}
						}
						if sep == "" || hierarchy {
							continue
						}
						for line := range strings.Lines(buf.String()) {
							for _, cell := range strings.Split(line, sep) {
								if !strings.HasPrefix(line, "#") && cell != "" && strings.IndexByte("=+@-", cell[0]) >= 0 {
									t.Fatalf("a cell begins with %q: %q", cell[0], line)
								}
							}
						}
					}
					var buf bytes.Buffer
					if err := WriteJSON(&buf, Flat(p, o), JSONOptions{File: name}); err != nil {
						t.Fatal(err)
					}
					if i := bytes.IndexFunc(buf.Bytes(), func(r rune) bool { return r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 || r == 0x202e || r == 0x2028 }); i >= 0 {
						t.Fatalf("JSON has %q at %d", buf.Bytes()[i], i)
					}
					var v struct {
						Schema string
						Tables []struct{ Rows []map[string]any }
					}
					if err := json.Unmarshal(buf.Bytes(), &v); err != nil || v.Schema != Schema || len(v.Tables) != 1 || len(v.Tables[0].Rows) != 1 && hierarchy {
						t.Fatalf("JSON %s: %v", buf.Bytes(), err)
					}
				}
			}
		}
	}
}

// UI-7: a name of 100,000 bytes is printed, and other rows are not as long.
func TestLongName(t *testing.T) {
	p := &profile.Profile{Events: []profile.Event{{Name: "e"}}, Objects: []profile.Object{{Short: "x"}}, Threads: []profile.Thread{{PID: 1, TID: 1, Comm: "c"}}}
	for i := range 100 {
		name := fmt.Sprint("f", i)
		if i == 0 {
			name = strings.Repeat("n", 100000)
		}
		start := uint64(0x10 + 0x10*i)
		p.Functions = append(p.Functions, profile.Function{Name: name, Start: start, End: start + 0x10})
		p.Locations = append(p.Locations, profile.Location{Level: '.', IP: start, Addr: start, Func: int32(i)})
		p.Stacks = append(p.Stacks, profile.Stack{Location: int32(i), Caller: profile.None})
		p.Samples = append(p.Samples, profile.Sample{Stack: int32(i), Extra: profile.None, Count: 1, Period: 1})
	}
	var buf bytes.Buffer
	if err := WritePage(&buf, Flat(p, Options{Sort: []Key{Symbol, Comm}}), PageOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := buf.Len(); !strings.Contains(buf.String(), p.Functions[0].Name) || n > 100000+102*(maxWidth+100) {
		t.Errorf("%d bytes", n)
	}
}

// Numbers at their limits, and a profile of nothing.
func TestExtremes(t *testing.T) {
	p := &profile.Profile{
		Events:    []profile.Event{{Name: "e"}},
		Locations: []profile.Location{{Object: profile.None, Level: '.', IP: math.MaxUint64, Addr: math.MaxUint64, Func: profile.None}},
		Samples: []profile.Sample{
			{Thread: profile.None, CPU: -1, Stack: profile.None, Extra: profile.None, Count: math.MaxUint64 / 2, Period: math.MaxUint64},
			{Thread: profile.None, CPU: 1 << 20, Stack: profile.None, Extra: profile.None},
		},
	}
	for key := range numKeys {
		for _, children := range []bool{false, true} {
			o := Options{Sort: []Key{key}, Children: children, Graph: Graph{Mode: GraphTree}}
			var buf bytes.Buffer
			if err := WritePage(&buf, Flat(p, o), PageOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := WriteJSON(&buf, Flat(p, o), JSONOptions{}); err != nil {
				t.Fatal(err)
			}
			Same(p, o)
		}
	}
	if got := Flat(&profile.Profile{}, Options{Children: true, Graph: Graph{Mode: GraphTree}}); len(got) != 0 {
		t.Errorf("%d tables of nothing", len(got))
	}
}

// A recursion of thousands of frames, as deep as a record can have, in every
// order; and a chain that branches in every frame.
func TestDeep(t *testing.T) {
	const deep = 3000
	p := chained(build([]string{"e"}, []sample{{comm: "a", dso: "d", sym: "f@0x10", addr: 0x11, period: 1}}), [][]string{nil})
	up := int32(profile.None)
	for i := range deep {
		p.Stacks = append(p.Stacks, profile.Stack{Location: location(p, fmt.Sprintf("d f%d", i%3)), Caller: up})
		up = int32(i)
		if i%3 == 0 {
			p.Samples = append(p.Samples, profile.Sample{Location: p.Stacks[i].Location, Stack: up, Extra: profile.None, Count: 1, Period: 1})
		}
	}
	p.Samples[0].Stack = up
	for _, o := range []Options{
		{Children: true, Graph: Graph{Mode: GraphTree, Order: ByCaller, MinPercent: 20}},
		{Children: true, Graph: Graph{Mode: GraphTree, MinPercent: 20}},
		{Graph: Graph{Mode: GraphFolded}, MaxStack: 100},
	} {
		tab := Flat(p, o)[0]
		var buf bytes.Buffer
		if err := WritePage(&buf, []*Table{tab}, PageOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzFlat makes profiles of bytes: no report of one ends in a panic, and the
// bytes are the same for one worker and for three.
func FuzzFlat(f *testing.F) {
	f.Add([]byte{3, 2, 1, 0, 9, 8, 7, 200, 100, 50, 25, 12, 6, 3, 1, 0, 255, 254, 253})
	f.Add(bytes.Repeat([]byte{1, 130, 7, 66}, 20))
	f.Fuzz(func(t *testing.T, data []byte) {
		next := func(n int) int {
			if len(data) == 0 {
				return 0
			}
			v := int(data[0])
			data = data[1:]
			return v % n
		}
		p := &profile.Profile{Events: []profile.Event{{Name: "a"}, {Name: "b"}}, Files: []string{"f.c"}}
		for i := range 1 + next(3) {
			p.Objects = append(p.Objects, profile.Object{Short: string(rune('a' + i)), Kind: profile.ObjectKind(next(11))})
		}
		for range 1 + next(6) {
			p.Functions = append(p.Functions, profile.Function{Object: int32(next(len(p.Objects))), Name: string(rune('f' + next(4))), Start: uint64(next(4)), End: uint64(next(9)), Inlined: next(2) == 1})
		}
		for range 1 + next(8) {
			l := profile.Location{Object: int32(next(len(p.Objects)+1) - 1), Level: ".kguH"[next(5)], IP: uint64(next(99)), Addr: uint64(next(9)), Func: int32(next(len(p.Functions)+1) - 1)}
			if n := next(4); n > 0 {
				l.Frames, l.NFrames = int32(len(p.Frames)), uint16(n)
				for range n {
					p.Frames = append(p.Frames, profile.Frame{Func: int32(next(len(p.Functions)+1) - 1), File: int32(next(2) - 1), Line: int32(next(3))})
				}
			}
			p.Locations = append(p.Locations, l)
		}
		for range next(4) {
			p.Threads = append(p.Threads, profile.Thread{PID: 1, TID: int32(next(3)), Comm: string(rune('x' + next(3)))})
		}
		for i := range next(40) {
			p.Stacks = append(p.Stacks, profile.Stack{Location: int32(next(len(p.Locations))), Caller: int32(next(i+1) - 1)})
		}
		p.Extras = []profile.Extra{{Data: int32(next(len(p.Locations)+1) - 1), From: int32(next(len(p.Locations)+1) - 1), To: profile.None, DataSrc: uint64(next(256)) << 5, Weight: uint64(next(9))}}
		for range next(20) {
			p.Samples = append(p.Samples, profile.Sample{Event: int32(next(2)), Thread: int32(next(len(p.Threads)+1) - 1), CPU: int32(next(3) - 1),
				Location: int32(next(len(p.Locations))), Stack: int32(next(len(p.Stacks)+1) - 1), Extra: int32(next(2) - 1), Count: uint64(next(3)), Period: uint64(next(9))})
		}
		o := Options{
			Children: next(2) == 1, NoInline: next(3) == 1, Hierarchy: next(4) == 1, Relative: next(2) == 1, HideUnresolved: next(4) == 1, KeepEmpty: next(2) == 1,
			Memory: next(5) == 1, MaxStack: next(4), GroupSort: next(3),
			Graph: Graph{Mode: GraphMode(next(5)), Order: Order(next(2)), Key: ChainKey(next(3)), Value: ChainValue(next(3)), MinPercent: float64(next(30)), PrintLimit: next(3)},
		}
		for range next(4) {
			o.Sort = appendKey(o.Sort, Key(next(int(numKeys))))
		}
		if next(3) == 1 {
			o.Groups = []Group{{Members: []int32{0, 1}}}
		}
		if next(3) == 1 {
			o.Filter.DSOs = []string{"a"}
		}
		page := func(workers int) []byte {
			var buf bytes.Buffer
			o := o
			o.Workers, o.Sort = workers, slices.Clone(o.Sort)
			if err := WritePage(&buf, Flat(p, o), PageOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := WriteJSON(&buf, Flat(p, o), JSONOptions{}); err != nil {
				t.Fatal(err)
			}
			return buf.Bytes()
		}
		one, three := page(1), page(3)
		if !bytes.Equal(one, three) {
			t.Errorf("one worker:\n%s\nthree:\n%s", one, three)
		}
		// A location that stands for all of its class changes nothing.
		same := Same(p, o)
		if same == nil {
			return
		}
		for i := range p.Stacks {
			p.Stacks[i].Location = same[p.Stacks[i].Location]
		}
		for i := range p.Samples {
			p.Samples[i].Location = same[p.Samples[i].Location]
		}
		if again := page(2); !bytes.Equal(one, again) {
			t.Errorf("by address:\n%s\nby class:\n%s", one, again)
		}
	})
}
