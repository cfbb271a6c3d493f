package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/perfark/perfark/profile"
)

// Levels are the rows of WritePage, in its order; Of, Only and By change no
// numbers but those that they are for.
func TestLevels(t *testing.T) {
	p := cumulate()
	o := Options{Hierarchy: true, Workers: 1, Sort: []Key{Comm, DSO, Symbol}, Graph: Graph{Mode: GraphTree, MinPercent: 0.5}}
	table := Flat(p, o)[0]
	for _, rows := range [][]int32{nil, {0, 2, 3}, {}} {
		l := table.Levels(rows)
		if want := []string{"Command", "Shared Object", "Symbol"}; !slices.Equal(l.Titles, want) {
			t.Errorf("titles %q, want %q", l.Titles, want)
		}
		lines := NewLines(l.Table, PageOptions{})
		var got []string
		for i := range l.Depth {
			cells := lines.Row(i)
			text := strings.Join(strings.Fields(cells[0]+" "+cells[l.Keys[l.Depth[i]][0]]), " ")
			got = append(got, text)
			if l.End[i] <= i || l.End[i] > len(l.Depth) {
				t.Errorf("row %d ends at %d", i, l.End[i])
			}
			if l.Leaf(i) != (l.End[i] == i+1) {
				t.Errorf("row %d ends at %d, leaf: %v", i, l.End[i], l.Leaf(i))
			}
		}
		var page strings.Builder
		if err := WritePage(&page, []*Table{table.Only(rows)}, PageOptions{Quiet: true}); err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, s := range strings.Split(page.String(), "\n") {
			if f := strings.Fields(s); len(f) > 0 && strings.HasSuffix(f[0], "%") {
				want = append(want, strings.Join(f, " "))
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("rows %v:\n%q\nwant\n%q", rows, got, want)
		}
		trees := l.Trees(0, len(l.Depth))
		for i := range trees {
			if trees[i] != nil && !l.Leaf(i) {
				t.Errorf("row %d has a tree, and rows below", i)
			}
		}
	}
	some := table.Of([]int32{0, 1})
	if a, b := table.Row(0), table.Row(1); some.Totals[0].Period != a.Counts[0].Period+b.Counts[0].Period || some.Len() != table.Len() {
		t.Errorf("totals %v, %d rows", some.Totals, some.Len())
	}
	if Flat(p, Options{Workers: 1})[0].Levels(nil) != nil {
		t.Error("levels of a table that is none")
	}
}

// By is Options.GroupSort.
func TestBy(t *testing.T) {
	p := cumulate()
	p.Events = append(p.Events, profile.Event{Name: "second"})
	for i := range p.Samples {
		p.Samples[i].Event = int32(i % 2)
	}
	o := Options{Workers: 1, Groups: []Group{{Members: []int32{0, 1}}}}
	table := Flat(p, o)[0]
	for by := range 2 {
		o.GroupSort = by
		var got, want strings.Builder
		WritePage(&got, []*Table{table.By(by)}, PageOptions{})
		WritePage(&want, Flat(p, o), PageOptions{})
		if got.String() != want.String() {
			t.Errorf("by %d:\n%s\nwant\n%s", by, got.String(), want.String())
		}
	}
}
