package main

import (
	"math/rand/v2"
	"testing"

	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
)

// TestQuickFrames: the lines of call chains are those that are made field by
// field.
func TestQuickFrames(t *testing.T) {
	p := &profile.Profile{
		Objects: []profile.Object{{Path: "/bin/a"}, {Kind: profile.KindKernel, Path: "[kernel.kallsyms]"}, {Kind: profile.KindModule, Short: "[m]"}},
		Functions: []profile.Function{
			{Object: 0, Name: "f", Start: 0x10}, {Object: 1, Name: "k", Start: 0xffffffff81000000}, {Object: 0, Name: "low"}, {Object: 0, Name: "in\x1b"},
		},
		Frames: []profile.Frame{{Func: 3, File: profile.None}, {Func: 0, File: profile.None}},
	}
	for _, l := range []profile.Location{
		{Object: 0, Addr: 0x10, Func: 0}, {Object: 0, Addr: 0x1f, Func: 0}, {Object: 1, Addr: 0xffffffff81000123, Func: 1},
		{Object: 2, Addr: 0xffffffffc0000000, Func: profile.None}, {Object: profile.None, Addr: 0, Func: profile.None},
		{Object: 0, Addr: 0x123456789, Func: 2}, {Object: 0, Addr: 0x18, Func: 0, NFrames: 2}, {Object: 0, Addr: ^uint64(0), Func: profile.None},
	} {
		l.IP = l.Addr ^ 0x5000
		p.Locations = append(p.Locations, l)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for _, inline := range []bool{false, true} {
		for _, maxStack := range []int{0, 1, 3} {
			sp := &scriptPrinter{
				p: p, inline: inline, maxStack: maxStack, names: [][]byte{[]byte("f"), []byte("k"), []byte("low"), []byte("in")},
				dsos:   [][]byte{dsoText("/bin/a"), dsoText("[kernel.kallsyms]"), dsoText("[m]"), dsoText("[unknown]")},
				events: []scriptEvent{{fields: quickFields, chains: true, attr: &perfdata.Attr{}}},
			}
			for range 100 {
				var chain []scriptFrame
				for range rng.IntN(6) {
					loc := int32(rng.IntN(len(p.Locations)+1)) - 1
					ip := rng.Uint64() >> rng.IntN(64)
					chain = append(chain, scriptFrame{ip, loc})
				}
				sp.quick, sp.texts = nil, nil
				want := string(sp.frames(nil, chain, quickFields))
				sp.prepare()
				if sp.quick == nil {
					t.Fatal("frames are not prepared")
				}
				if got := string(sp.frames(nil, chain, quickFields)); got != want {
					t.Fatalf("inline %v, at most %d: %v:\n%s\nwant\n%s", inline, maxStack, chain, got, want)
				}
			}
		}
	}
}
