package annotate

import (
	"strings"
	"testing"

	"github.com/perfark/perfark/disasm"
	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
)

// Samples count for the function that the machine code is of, and for no
// function that does not hold their address.
func TestCollect(t *testing.T) {
	p := &profile.Profile{
		Events:  []profile.Event{{Name: "a"}, {Name: "b"}},
		Objects: []profile.Object{{Short: "x"}, {Short: "w"}},
		Functions: []profile.Function{
			{Object: 0, Name: "f", Start: 0x10, End: 0x20}, {Object: 1, Name: "g", Start: 0x10, End: 0x20}, {Object: 1, Name: "e", Start: 0x20, End: 0x30},
		},
		Locations: []profile.Location{
			{Object: 0, Addr: 0x10, Func: 0}, {Object: 0, Addr: 0x20, Func: 0}, {Object: 1, Addr: 0x11, Func: 1}, {Object: 1, Addr: 0x21, Func: 2}, {Object: 0, Func: profile.None},
		},
		Samples: []profile.Sample{
			{Event: 0, Location: 0, Count: 1, Period: 5}, {Event: 1, Location: 0, Count: 2, Period: 7}, {Event: 0, Location: 1, Count: 9, Period: 9},
			{Event: 0, Location: 2, Count: 1, Period: 5}, {Event: 0, Location: 3, Count: 1, Period: 5}, {Event: 0, Location: 4, Count: 1, Period: 5},
		},
	}
	list := Collect(p)
	Sort(p, list, []int32{0})
	var got []string
	for _, fn := range list {
		got = append(got, p.Objects[fn.Object].Short+" "+fn.Func.Name)
	}
	if s := strings.Join(got, ", "); s != "w e, w g, x f" {
		t.Errorf("%s", s)
	}
	if f := list[2]; f.Total[0] != (Count{1, 5}) || f.Total[1] != (Count{2, 7}) {
		t.Errorf("%+v", f.Total)
	}
	Sort(p, list, []int32{1, 0})
	if list[0].Func.Name != "f" {
		t.Errorf("%s is first of event b", list[0].Func.Name)
	}
}

// A loop at 0x10 to 0x18 that is entered from above, and left at 0x14 now and
// then.
func TestRuns(t *testing.T) {
	p := &profile.Profile{
		Objects:   []profile.Object{{}, {}},
		Locations: []profile.Location{{Addr: 0x8}, {Addr: 0x10}, {Addr: 0x14}, {Addr: 0x18}, {Object: 1, Addr: 0x18}},
		Runs: []profile.Run{
			{Start: 0, End: 3, Count: 1, Predicted: 1}, {Start: 1, End: 3, Count: 6, Predicted: 3}, {Start: 1, End: 2, Count: 3},
			{Start: 1, End: 4, Count: 100}, {Start: 3, End: 1, Count: 100},
		},
	}
	all := func(int32) bool { return true }
	if r := NewRuns(p, 0, func(int32) bool { return false }); r != nil {
		t.Errorf("%+v of no samples", r)
	}
	r := NewRuns(p, 0, all)
	for addr, want := range map[uint64]string{
		0x8: "\t# +10.00%", 0x10: "\t# +90.00%", 0x12: "", 0x14: "\t# -30.00% (p:0.00%)", 0x18: "\t# -100.00% (p:57.14%)", 0x20: "",
	} {
		if got := r.At(addr).String(); got != want {
			t.Errorf("%#x: %q, want %q", addr, got, want)
		}
	}
	if got := (*Runs)(nil).At(1); got != (Flow{}) {
		t.Errorf("%+v of nothing", got)
	}
}

// Five lines lead to the first one, then those that were not shown.
func TestSourceWalk(t *testing.T) {
	var text []string
	for i := range 20 {
		text = append(text, strings.Repeat("i", i+1))
	}
	w := newSourceWalk(func(file string) []string {
		if file == "/a.c" {
			return text
		}
		return nil
	})
	next := func(fn, file string, line int) string {
		var out []string
		for _, s := range w.next([]Frame{{Func: fn, File: file, Line: line}}) {
			if s.number > 0 && !s.place {
				out = append(out, s.text)
			} else {
				out = append(out, "["+s.text+"]")
			}
		}
		return strings.Join(out, " ")
	}
	for _, tt := range []struct {
		fn, file string
		line     int
		want     string
	}{
		{"f", "/a.c", 8, "[f():] [/a.c:8] iii iiii iiiii iiiiii iiiiiii iiiiiiii"},
		{"f", "/a.c", 8, ""},
		{"f", "/a.c", 10, "[/a.c:10] iiiiiiiii iiiiiiiiii"},
		{"g", "/b.c", 3, "[g():] [/b.c:3]"},
		{"f", "/a.c", 5, "[f():] [/a.c:5] iiiii"},
		{"f", "/a.c", 99, "[/a.c:99]"},
		{"f", "", 0, ""},
	} {
		if got := next(tt.fn, tt.file, tt.line); got != tt.want {
			t.Errorf("%s %s:%d: %q, want %q", tt.fn, tt.file, tt.line, got, tt.want)
		}
	}
	if w.next(nil) != nil {
		t.Error("lines without a place")
	}
}

// Samples behind the code that is shown are not those of its last instruction.
func TestCount(t *testing.T) {
	l := &Listing{
		Function: &Function{Func: profile.Function{Start: 0x10, End: 0x100}, at: map[uint64][]Count{0x10: {{1, 1}}, 0x13: {{2, 2}}, 0x14: {{4, 4}}, 0x80: {{8, 8}}}},
		Lines:    []Line{{Addr: 0x1010, Bytes: make([]byte, 2)}, {Addr: 0x1012, Bytes: make([]byte, 2)}},
	}
	if rest := l.count(1, 4); rest != 12 || l.Lines[0].Counts[0].Samples != 1 || l.Lines[1].Counts[0].Samples != 2 {
		t.Errorf("%d samples in the rest, %+v", rest, l.Lines)
	}
}

// Arrows at calls, at jumps out of the function and at those that nobody knows
// the target of; operations that do nothing are "nop", as perf has it.
func TestWriteText(t *testing.T) {
	l := &Listing{
		Function: &Function{Func: profile.Function{Name: "main::{lambda}::operator()", Start: 0x10, End: 0x20}, Total: []Count{{1, 1}}},
		Name:     "f", Section: ".text", Origin: "x",
		Lines: []Line{
			{Addr: 0x10, Text: "jmp\t*%rax", Inst: disasm.Inst{Kind: disasm.Jump}},
			{Addr: 0x12, Text: "jmp\t40 <g>", Inst: disasm.Inst{Kind: disasm.Jump, HasTarget: true, Target: 0x40}},
			{Addr: 0x13, Text: "jmp\t*0x8(%rip)        # 40 <d>", Inst: disasm.Inst{Kind: disasm.Jump, HasData: true, Data: 0x40}},
			{Addr: 0x14, Text: "nopw\t0x0(%rax)"},
			{Addr: 0x16, Text: "jne\t10 <f>", Inst: disasm.Inst{Kind: disasm.Branch, HasTarget: true, Target: 0x10}},
			{Addr: 0x18, Text: "ret", Inst: disasm.Inst{Kind: disasm.Return}},
		},
	}
	for i := range l.Lines {
		l.Lines[i].Counts = make([]Count, 1)
	}
	l.Lines[5].Counts[0] = Count{1, 1}
	var b strings.Builder
	o := PageOptions{Events: []profile.Event{{Name: "e"}}, Columns: []int32{0}, Object: &profile.Object{Path: "/x"}, Machine: objfile.MachineX86_64, Lines: true}
	if err := WriteText(&b, l, "head", o); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(b.String()) {
		got = append(got, strings.TrimRight(line, " \n"))
	}
	const want = `
Sorted summary for file /x
----------------------------------------------

  100.00 ??:0
head
main::{lambda}::operator()() /x
Percent


            Disassembly of section .text:

            0000000000000010 <f>:
            main::{lambda}::operator()():
         0: → jmp  *%rax
            → jmp  g
            → jmp  *0x8(%rip)        # 40 <d>
              nop
            ↑ jne  0
100.00      ← ret`
	if s := strings.Join(got, "\n"); s != want {
		t.Errorf("%s\nwant %s", s, want)
	}
}

// Names and sources of any bytes do no harm.
func TestWritePageHostile(t *testing.T) {
	const evil = "a\x1b[31m\nb"
	l := &Listing{
		Function: &Function{Func: profile.Function{Name: evil, Linkage: evil, Start: 0, End: 8}, Total: []Count{{1, 1}}},
		Name:     evil, Section: evil, Origin: evil,
		Lines: []Line{
			{Addr: 0, Text: "call\t0 <" + evil + ">", Bytes: make([]byte, 8), Counts: []Count{{1, 1}}, Inst: disasm.Inst{Kind: disasm.Call, HasTarget: true},
				Frames: []Frame{{Func: evil, File: evil, Line: 1}}},
		},
	}
	o := PageOptions{
		Events: []profile.Event{{Name: evil}}, Columns: []int32{0}, Title: evil, Object: &profile.Object{Path: "/x/" + evil}, Lines: true,
		Source: func(string) []string { return []string{evil} }, Machine: objfile.MachineX86_64,
	}
	for _, raw := range []bool{false, true} {
		o.Raw = raw
		var page, text strings.Builder
		if err := WritePage(&page, l, o); err != nil {
			t.Fatal(err)
		}
		if err := WriteText(&text, l, escape.Name(evil), o); err != nil {
			t.Fatal(err)
		}
		if s := page.String() + text.String(); strings.Contains(s, "\x1b") || strings.Contains(s, "m\nb") {
			t.Errorf("%q", s)
		}
	}
}

func TestParsePercentType(t *testing.T) {
	for s, want := range map[string]PercentType{"local-period": LocalPeriod, "hits-local": LocalHits, "global-period": GlobalPeriod, "hits-global": GlobalHits} {
		if got, err := ParsePercentType(s); got != want || err != nil {
			t.Errorf("%s: %v, %v", s, got, err)
		}
	}
	if _, err := ParsePercentType("local"); err == nil {
		t.Error("no error")
	}
}
