package report

import (
	"testing"
)

// The samples of perf's tests/hists_filter.c, with its numbers: how many
// samples, rows and how much of the period a filter leaves of ten samples in
// nine rows.
func TestHistsFilter(t *testing.T) {
	in := []sample{
		{comm: "perf", pid: 100, tid: 100, cpu: 0, dso: "[kernel]", sym: "schedule@0xf00", level: 'k', addr: 0xf10, period: 100},
		{comm: "perf", pid: 100, tid: 100, cpu: 0, dso: "perf", sym: "main@0x700", level: '.', addr: 0x710, period: 100},
		{comm: "perf", pid: 100, tid: 100, cpu: 0, dso: "libc", sym: "malloc@0x700", level: '.', addr: 0x720, period: 100},
		{comm: "perf", pid: 200, tid: 200, cpu: 0, dso: "perf", sym: "main@0x700", level: '.', addr: 0x710, period: 100},
		{comm: "perf", pid: 200, tid: 200, cpu: 1, dso: "perf", sym: "cmd_record@0x900", level: '.', addr: 0x910, period: 100},
		{comm: "perf", pid: 200, tid: 200, cpu: 1, dso: "[kernel]", sym: "page_fault@0x800", level: 'k', addr: 0x810, period: 100},
		{comm: "bash", pid: 300, tid: 300, cpu: 2, dso: "bash", sym: "main@0x700", level: '.', addr: 0x710, period: 100},
		{comm: "bash", pid: 300, tid: 300, cpu: 2, dso: "bash", sym: "xmalloc@0x800", level: '.', addr: 0x810, period: 100},
		{comm: "bash", pid: 300, tid: 300, cpu: 3, dso: "libc", sym: "malloc@0x700", level: '.', addr: 0x720, period: 100},
		{comm: "bash", pid: 300, tid: 300, cpu: 3, dso: "[kernel]", sym: "page_fault@0x800", level: 'k', addr: 0x810, period: 100},
	}
	tests := []struct {
		name          string
		o             Options
		samples, rows int
	}{
		{"none", Options{}, 10, 9},
		{"thread", Options{Filter: Filter{TIDs: []int32{300}}}, 4, 4},
		{"process", Options{Filter: Filter{PIDs: []int32{100, 200}}}, 6, 5},
		{"comm", Options{Filter: Filter{Comms: []string{"bash", "x"}}}, 4, 4},
		{"dso", Options{Filter: Filter{DSOs: []string{"[kernel]"}}}, 3, 3},
		{"dso by path", Options{Filter: Filter{DSOs: []string{"/usr/bin/libc"}}}, 2, 2},
		{"symbol", Options{Filter: Filter{Symbols: []string{"main"}}}, 3, 2},
		{"symbol by address", Options{Filter: Filter{Symbols: []string{"0x900"}}}, 1, 1},
		{"socket", Options{Sockets: []int32{0, 1, 2, 3}, Filter: Filter{Sockets: []int32{0}}}, 4, 3},
		{"all", Options{Sockets: []int32{0, 1, 2, 3}, Filter: Filter{TIDs: []int32{300}, DSOs: []string{"bash"}, Symbols: []string{"main"}, Sockets: []int32{2}}}, 1, 1},
		{"none left", Options{Filter: Filter{Symbols: []string{"nosuch"}}}, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, relative := range []bool{false, true} {
				o := tt.o
				o.Relative = relative
				tabs := Flat(build([]string{"cycles"}, in), o)
				if len(tabs) != 1 {
					t.Fatalf("%d tables", len(tabs))
				}
				tab := tabs[0]
				samples, period := uint64(10), uint64(1000)
				if relative {
					samples, period = uint64(tt.samples), uint64(100*tt.samples)
				}
				if tab.Samples != samples || tab.Period != period || tab.Len() != tt.rows {
					t.Errorf("relative %v: %d samples, %d period, %d rows; want %d, %d, %d", relative, tab.Samples, tab.Period, tab.Len(), samples, period, tt.rows)
				}
				var sum uint64
				for i := range tab.Len() {
					r := tab.Row(i)
					sum += r.Counts[0].Period
				}
				if sum != uint64(100*tt.samples) || tab.Shown[0].Period != sum {
					t.Errorf("relative %v: period %d in rows, %d shown, want %d", relative, sum, tab.Shown[0].Period, 100*tt.samples)
				}
			}
		})
	}
}

// What has no name is not counted at all; a part of a name takes rows away.
func TestUnresolvedAndPart(t *testing.T) {
	in := []sample{
		{comm: "a", tid: 1, dso: "d", sym: "alpha@0x10", addr: 0x11, period: 10},
		{comm: "a", tid: 1, dso: "d", sym: "beta@0x20", addr: 0x21, period: 20},
		{comm: "a", tid: 1, dso: "d", addr: 0x99, period: 70},
	}
	tab := Flat(build([]string{"e"}, in), Options{HideUnresolved: true})[0]
	if tab.Period != 30 || tab.Len() != 2 {
		t.Errorf("period %d, %d rows", tab.Period, tab.Len())
	}
	tab = Flat(build([]string{"e"}, in), Options{Filter: Filter{SymbolPart: "lph"}})[0]
	if r := tab.Row(0); tab.Period != 100 || tab.Len() != 1 || r.Symbol != "alpha" || tab.Percent(&r, 0) != 10 {
		t.Errorf("period %d, %d rows, %+v", tab.Period, tab.Len(), r)
	}
}
