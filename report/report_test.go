package report

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/perfark/perfark/profile"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// A sample of a fixture: what perf's hists tests give as a fake sample.
type sample struct {
	event    int32
	comm     string
	pid, tid int32
	cpu      int32
	dso      string // "" for no mapping
	sym      string // "" for none; else "name@start"
	level    byte
	addr     uint64
	period   uint64
}

// build makes a profile of samples.
func build(events []string, samples []sample) *profile.Profile {
	p := &profile.Profile{}
	for _, e := range events {
		p.Events = append(p.Events, profile.Event{Name: e})
	}
	for _, s := range samples {
		obj := int32(profile.None)
		if s.dso != "" {
			obj = int32(slices.IndexFunc(p.Objects, func(o profile.Object) bool { return o.Short == s.dso }))
			if obj < 0 {
				obj = int32(len(p.Objects))
				o := profile.Object{Short: s.dso, Path: "/usr/bin/" + s.dso}
				if s.dso == "[kernel]" {
					o.Kind = profile.KindKernel
				}
				p.Objects = append(p.Objects, o)
			}
		}
		fn := int32(profile.None)
		if s.sym != "" {
			f := profile.Function{Object: obj}
			name, start, _ := strings.Cut(s.sym, "@")
			f.Name = name
			fmt.Sscanf(start, "%v", &f.Start)
			f.End = f.Start + 0x100
			fn = int32(slices.Index(p.Functions, f))
			if fn < 0 {
				fn = int32(len(p.Functions))
				p.Functions = append(p.Functions, f)
			}
		}
		loc := int32(len(p.Locations))
		p.Locations = append(p.Locations, profile.Location{Object: obj, Level: s.level, IP: s.addr, Addr: s.addr, Func: fn})
		th := profile.Thread{PID: s.pid, TID: s.tid, Comm: s.comm}
		thread := int32(slices.Index(p.Threads, th))
		if thread < 0 {
			thread = int32(len(p.Threads))
			p.Threads = append(p.Threads, th)
		}
		p.Samples = append(p.Samples, profile.Sample{Event: s.event, Thread: thread, CPU: s.cpu, Location: loc, Stack: profile.None, Extra: profile.None, Count: 1, Period: s.period})
	}
	return p
}

// The samples of perf's tests/hists_output.c: ten of period 100 in three
// processes, with names that two objects share.
var hists = []sample{
	{comm: "perf", pid: 100, tid: 100, cpu: 0, dso: "[kernel]", sym: "schedule@0xf00", level: 'k', addr: 0xf10, period: 100},
	{comm: "perf", pid: 100, tid: 100, cpu: 1, dso: "perf", sym: "main@0x700", level: '.', addr: 0x710, period: 100},
	{comm: "perf", pid: 100, tid: 100, cpu: 1, dso: "perf", sym: "cmd_record@0x900", level: '.', addr: 0x910, period: 100},
	{comm: "perf", pid: 100, tid: 100, cpu: 1, dso: "libc", sym: "malloc@0x700", level: '.', addr: 0x720, period: 100},
	{comm: "perf", pid: 100, tid: 100, cpu: 2, dso: "libc", sym: "free@0x800", level: '.', addr: 0x810, period: 100},
	{comm: "perf", pid: 200, tid: 200, cpu: 2, dso: "perf", sym: "main@0x700", level: '.', addr: 0x710, period: 100},
	{comm: "perf", pid: 200, tid: 200, cpu: 3, dso: "[kernel]", sym: "page_fault@0x800", level: 'k', addr: 0x810, period: 100},
	{comm: "bash", pid: 300, tid: 300, cpu: 0, dso: "bash", sym: "main@0x700", level: '.', addr: 0x710, period: 100},
	{comm: "bash", pid: 300, tid: 300, cpu: 1, dso: "bash", sym: "xmalloc@0x800", level: '.', addr: 0x810, period: 100},
	{comm: "bash", pid: 300, tid: 300, cpu: 3, dso: "[kernel]", sym: "page_fault@0x800", level: 'k', addr: 0x820, period: 100},
}

// summary is the rows of a table in one line each: percent and names.
func summary(t *Table) []string {
	var out []string
	for i := range t.Len() {
		row := t.Row(i)
		r := &row
		s := fmt.Sprintf("%.2f", t.Percent(r, 0))
		for _, k := range t.Columns {
			switch k {
			case Samples:
				s += fmt.Sprintf(" %d", r.Counts[0].Samples)
			case Period:
				s += fmt.Sprintf(" %d", r.Counts[0].Period)
			case Comm:
				s += " " + r.Comm
			case DSO:
				s += " " + r.DSO
			case Symbol:
				s += " " + r.SymbolText()
			case PID, TID:
				s += fmt.Sprintf(" %d:%s", r.TID, r.Thread)
			case CPU:
				s += fmt.Sprintf(" cpu%d", r.CPU)
			}
		}
		out = append(out, s)
	}
	return out
}

// Field and sort orders as in perf's tests/hists_output.c.
func TestHistsOutput(t *testing.T) {
	tests := []struct {
		name         string
		fields, sort string
		want         []string
	}{
		{"default", "", "", []string{
			"20.00 perf perf [.] main",
			"10.00 bash [kernel] [k] page_fault",
			"10.00 bash bash [.] main",
			"10.00 bash bash [.] xmalloc",
			"10.00 perf [kernel] [k] page_fault",
			"10.00 perf [kernel] [k] schedule",
			"10.00 perf libc [.] free",
			"10.00 perf libc [.] malloc",
			"10.00 perf perf [.] cmd_record",
		}},
		{"fields overhead,comm", "overhead,comm", "", []string{
			"70.00 perf",
			"30.00 bash",
		}},
		{"fields overhead,period sorted by comm,dso", "overhead,period", "comm,dso", []string{
			"10.00 100 bash [kernel]",
			"20.00 200 bash bash",
			"20.00 200 perf [kernel]",
			"20.00 200 perf libc",
			"30.00 300 perf perf",
		}},
		{"fields without a count", "cpu,pid,comm,dso,sym", "", []string{
			"10.00 cpu0 100:perf perf [kernel] [k] schedule",
			"10.00 cpu0 300:bash bash bash [.] main",
			"10.00 cpu1 100:perf perf libc [.] malloc",
			"10.00 cpu1 100:perf perf perf [.] cmd_record",
			"10.00 cpu1 100:perf perf perf [.] main",
			"10.00 cpu1 300:bash bash bash [.] xmalloc",
			"10.00 cpu2 100:perf perf libc [.] free",
			"10.00 cpu2 200:perf perf perf [.] main",
			"10.00 cpu3 200:perf perf [kernel] [k] page_fault",
			"10.00 cpu3 300:bash bash [kernel] [k] page_fault",
		}},
		{"sort sym,dso", "", "sym,dso", []string{
			"20.00 [.] main perf",
			"20.00 [k] page_fault [kernel]",
			"10.00 [.] cmd_record perf",
			"10.00 [.] free libc",
			"10.00 [.] main bash",
			"10.00 [.] malloc libc",
			"10.00 [k] schedule [kernel]",
			"10.00 [.] xmalloc bash",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var o Options
			var err error
			if tt.fields != "" {
				if o.Fields, err = ParseKeys(tt.fields, nil); err != nil {
					t.Fatal(err)
				}
			}
			if tt.sort != "" {
				if o.Sort, err = ParseKeys(tt.sort, nil); err != nil {
					t.Fatal(err)
				}
			}
			got := summary(Flat(build([]string{"cycles"}, hists), o)[0])
			if !slices.Equal(got, tt.want) {
				t.Errorf("rows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// Rows that perf keeps apart, and those that it does not.
func TestRows(t *testing.T) {
	unknown := func(dso string, level byte, addr uint64) sample {
		return sample{comm: "a", pid: 1, tid: 1, dso: dso, level: level, addr: addr, period: 1}
	}
	tests := []struct {
		name string
		sort string
		in   []sample
		want []string
	}{
		{"S57: one row per address without a symbol", "dso,sym", []sample{
			unknown("w", '.', 0x20), unknown("w", '.', 0x10), unknown("w", '.', 0x20), unknown("", '.', 0x7f0000001000), unknown("", '.', 0),
			{comm: "a", tid: 1, dso: "w", sym: "leaf@0x10", level: '.', addr: 0x11, period: 1},
			{comm: "a", tid: 1, dso: "[kernel]", sym: "f@0x10", level: 'k', addr: 0x11, period: 1},
		}, []string{
			"28.57 w [.] 0x0000000000000020",
			"14.29 [kernel] [k] f",
			"14.29 w [.] leaf",
			"14.29 w [.] 0x0000000000000010",
			"14.29 [unknown] [.] 0000000000000000",
			"14.29 [unknown] [.] 0x00007f0000001000",
		}},
		{"without objects equal addresses are one", "sym", []sample{unknown("w", '.', 0x10), unknown("x", '.', 0x10)}, []string{
			"100.00 [.] 0x0000000000000010",
		}},
		{"equal rows without a name: signed addresses", "sym", []sample{
			unknown("w", '.', 0x20), unknown("[kernel]", 'k', 0xffffffff81000010), unknown("w", '.', 0x10), unknown("[kernel]", 'k', 0xffffffff81000000),
		}, []string{
			"25.00 [k] 0xffffffff81000000",
			"25.00 [k] 0xffffffff81000010",
			"25.00 [.] 0x0000000000000010",
			"25.00 [.] 0x0000000000000020",
		}},
		{"statics of one name are two", "dso,sym", []sample{
			{comm: "a", tid: 1, dso: "w", sym: "s@0x20", level: '.', addr: 0x21, period: 1},
			{comm: "a", tid: 1, dso: "w", sym: "s@0x900", level: '.', addr: 0x901, period: 1},
		}, []string{"50.00 w [.] s", "50.00 w [.] s"}},
		{"S13: kernel code without a kernel map", "dso", []sample{
			unknown("w", '.', 0x10), unknown("", 'k', 0xffffffff81000000), unknown("", 'k', 0xffffffff81000010), unknown("", '.', 0x30),
		}, []string{"50.00 [kernel, restricted]", "25.00 w", "25.00 [unknown]"}},
		{"kernel address that is in no map", "dso", []sample{
			{comm: "a", tid: 1, dso: "[kernel]", sym: "f@0x10", level: 'k', addr: 0x11, period: 1}, unknown("", 'k', 0xffffffffa0000000),
		}, []string{"50.00 [kernel]", "50.00 [unknown]"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			keys, err := ParseKeys(tt.sort, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := summary(Flat(build([]string{"cycles"}, tt.in), Options{Sort: keys, Restricted: strings.HasPrefix(tt.name, "S13")})[0])
			if !slices.Equal(got, tt.want) {
				t.Errorf("rows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// Threads go by the first name they get, and are listed by their last; an
// address in a module is printed as perf has it, from the begin of the module.
func TestThreadNames(t *testing.T) {
	p := build([]string{"cycles"}, []sample{{comm: ":7", pid: 7, tid: 7, dso: "[m]", level: 'k', addr: 0xffffffffa00db144, period: 1}})
	p.Threads[0].Later, p.Threads[0].Last = "init", "daemon"
	p.Objects[0].Kind, p.Objects[0].Start = profile.KindModule, 0xffffffffa00c0000
	got := summary(Flat(p, Options{Sort: []Key{Comm, PID, Symbol}})[0])
	if want := "100.00 init 7:daemon [k] 0x000000000001b144"; len(got) != 1 || got[0] != want {
		t.Errorf("rows %q, want %q", got, want)
	}
}

// P10: a mapping with an empty name.
func TestUnnamed(t *testing.T) {
	p := &profile.Profile{
		Events:    []profile.Event{{Name: "cycles"}},
		Objects:   []profile.Object{{Kind: profile.KindUnnamed}},
		Locations: []profile.Location{{Object: 0, Level: '.', Addr: 0x10, Func: profile.None}},
		Threads:   []profile.Thread{{PID: 1, TID: 1, Comm: "a"}},
		Samples:   []profile.Sample{{Location: 0, Stack: profile.None, Extra: profile.None, Count: 1, Period: 1}},
	}
	if got := Flat(p, Options{Sort: []Key{DSO}})[0].Row(0).DSO; got != "[unnamed mapping]" {
		t.Errorf("DSO = %q", got)
	}
}

// The pages are perf's: the shapes of the golden files have been compared with
// perf 6.1 by the tests of cmd/perfark, which run it.
func TestPage(t *testing.T) {
	samples := append(slices.Clone(hists),
		sample{comm: "evil\x1b[31m", pid: 4, tid: 4, cpu: -1, dso: "a,b\u202e", level: '.', addr: 0x1234, period: 40},
		sample{event: 1, comm: "bash", pid: 300, tid: 300, dso: "bash", sym: "main@0x700", level: '.', addr: 0x710, period: 3})
	p := build([]string{"cpu-clock", "page-faults", "dummy:HG"}, samples)
	tests := []struct {
		name string
		o    Options
		page PageOptions
	}{
		{"default", Options{}, PageOptions{}},
		{"samples", Options{ShowSamples: true, ShowPeriod: true}, PageOptions{Lost: 7, Header: "# ========\n# hostname : vm\n# ========\n#\n"}},
		{"separator", Options{ShowSamples: true, Sort: []Key{PID, DSO, Symbol}}, PageOptions{Separator: ","}},
		{"quiet", Options{Sort: []Key{Symbol, DSO}}, PageOptions{Quiet: true}},
		{"fields", Options{Fields: []Key{Comm, Overhead}, Sort: []Key{CPU}}, PageOptions{}},
		{"limit", Options{}, PageOptions{PercentLimit: 15}},
		{"group", Options{ShowSamples: true, Groups: []Group{{Members: []int32{0, 1}}}}, PageOptions{}},
		{"group-separator", Options{Groups: []Group{{Name: "g", Members: []int32{0, 1}}}}, PageOptions{Separator: "|"}},
		{"empty", Options{KeepEmpty: true, Sort: []Key{Comm}}, PageOptions{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var buf bytes.Buffer
			if err := WritePage(&buf, Flat(p, tt.o), tt.page); err != nil {
				t.Fatal(err)
			}
			golden(t, tt.name, buf.Bytes())
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("page\n%s\nwant\n%s", got, want)
	}
}

// A recording without samples, as perf report prints it.
func TestPageEmpty(t *testing.T) {
	for _, tt := range []struct {
		o    PageOptions
		want string
	}{
		{PageOptions{}, "# To display the perf.data header info, please use --header/--header-only options.\n#\n"},
		{PageOptions{Header: "# ========\n#\n", Lost: 7}, "# ========\n#\n"},
		{PageOptions{Quiet: true}, ""},
	} {
		var b bytes.Buffer
		if err := WritePage(&b, nil, tt.o); err != nil || b.String() != tt.want {
			t.Errorf("%+v: %q, %v, want %q", tt.o, b.String(), err, tt.want)
		}
	}
}

func TestShortCount(t *testing.T) {
	tests := []struct {
		n    uint64
		want string
	}{
		{0, "0 "}, {123, "123 "}, {1000, "1000 "}, {1001, "1K"}, {2128, "2K"}, {999_999, "999K"}, {1_000_000, "1000K"}, {1_000_001, "1M"},
		{7_400_000, "7M"}, {12_345_678_901, "12G"}, {12_345_678_901_234, "12345G"},
	}
	for _, tt := range tests {
		n, unit := shortCount(tt.n)
		if got := fmt.Sprintf("%d%c", n, unit); got != tt.want {
			t.Errorf("shortCount(%d) = %q, want %q", tt.n, got, tt.want)
		}
	}
}

// Braces, and words that name several fields, make one level of a hierarchy.
func TestParseLevels(t *testing.T) {
	fields := func(word string) ([]Key, error) {
		if word == "all" {
			return []Key{FieldKey(0), FieldKey(1)}, nil
		}
		return nil, nil
	}
	for _, tt := range []struct {
		in   string
		want [][]Key
	}{
		{"comm,dso,sym", nil},
		{"{comm,dso},sym", [][]Key{{Comm, DSO}}},
		{"comm,{dso sym},{pid,cpu}", [][]Key{{DSO, Symbol}, {PID, CPU}}},
		{"comm{dso,sym}pid,cpu", [][]Key{{DSO, Symbol, PID}}},
		{"{comm,{dso,sym", [][]Key{{Comm, DSO, Symbol}}},
		{"comm,{comm,dso}", nil},
		{"all,comm", [][]Key{{FieldKey(0), FieldKey(1)}}},
		{"{comm,all}}", [][]Key{{Comm, FieldKey(0), FieldKey(1)}}},
	} {
		_, got, err := ParseLevels(tt.in, fields)
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("ParseLevels(%q) = %v, %v, want %v", tt.in, got, err, tt.want)
		}
	}
}

func TestParseKeys(t *testing.T) {
	tests := []struct {
		in   string
		want []Key
		err  string
	}{
		{"comm,dso,sym", []Key{Comm, DSO, Symbol}, ""},
		{"Comm,DSO,comm", []Key{Comm, DSO}, ""},
		{"p,c,s,cp,t", []Key{PID, Comm, Symbol, CPU, Transaction}, ""},
		{"pid,tid,weight", []Key{PID, TID, Weight}, ""},
		{"over, sam ,period", []Key{Overhead, Samples, Period}, ""},
		{"comm dso,{sym}", []Key{Comm, DSO, Symbol}, ""},
		{",", nil, ""},
		{"symbols", nil, `unknown key "symbols": want some of ` + keyList()},
	}
	for _, tt := range tests {
		got, err := ParseKeys(tt.in, nil)
		msg := ""
		if err != nil {
			msg = err.Error()
		}
		if msg != tt.err || !slices.Equal(got, tt.want) {
			t.Errorf("ParseKeys(%q) = %v, %q, want %v, %q", tt.in, got, msg, tt.want, tt.err)
		}
	}
}
