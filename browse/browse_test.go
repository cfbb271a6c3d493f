package browse

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/perfark/perfark/annotate"
	"github.com/perfark/perfark/disasm"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/report"
)

var update = flag.Bool("update", false, "write the golden files")

// hostile is a name that would clear the screen, colour it, and turn it around.
const hostile = "evil\x1b[2J\x1b[31m\u202e\n\tname"

// testProfile has two events and three threads; main calls hot and cold, hot
// calls itself and memcpy.
func testProfile() *profile.Profile {
	p := &profile.Profile{
		Events: []profile.Event{{Name: "cycles"}, {Name: "instructions"}},
		Objects: []profile.Object{
			{Path: "/usr/bin/app", Short: "app", BuildID: "0123456789abcdef0123456789abcdef01234567"},
			{Path: "/lib/libc.so.6", Short: "libc.so.6"},
			{Path: "/opt/" + hostile, Short: hostile},
		},
		Threads: []profile.Thread{{PID: 1, TID: 1, Comm: "app"}, {PID: 2, TID: 2, Comm: "東京サーバ"}, {PID: 3, TID: 3, Comm: hostile}},
	}
	for _, f := range []struct {
		object int32
		name   string
	}{{0, "main"}, {0, "hot"}, {0, "cold(int)"}, {1, "memcpy"}, {2, hostile}, {1, "計算する関数"}} {
		n := int32(len(p.Functions))
		start := uint64(n) * 0x100
		p.Functions = append(p.Functions, profile.Function{Object: f.object, Name: f.name, Start: start, End: start + 0x100})
		p.Locations = append(p.Locations, profile.Location{Object: f.object, Level: '.', IP: 0x400000 + start + 4, Addr: start + 4, Func: n})
	}
	p.Locations = append(p.Locations, profile.Location{Object: profile.None, Level: '.', IP: 0xdeadbeef, Addr: 0xdeadbeef, Func: profile.None})
	stack := func(frames ...int32) int32 { // outermost first
		at := int32(profile.None)
		for _, f := range frames {
			p.Stacks = append(p.Stacks, profile.Stack{Location: f, Caller: at})
			at = int32(len(p.Stacks) - 1)
		}
		return at
	}
	add := func(event, thread int32, n uint64, frames ...int32) {
		p.Samples = append(p.Samples, profile.Sample{
			Event: event, Thread: thread, CPU: -1, Location: frames[len(frames)-1], Stack: stack(frames...),
			Extra: profile.None, Count: n, Period: 1000 * n,
		})
		p.Events[event].Samples += n
		p.Events[event].Period += 1000 * n
	}
	add(0, 0, 40, 0, 1)
	add(0, 0, 10, 0, 1, 1)
	add(0, 0, 20, 0, 1, 3)
	add(0, 0, 10, 0, 2)
	add(0, 1, 12, 0, 5)
	add(0, 2, 6, 0, 4)
	add(0, 0, 2, 6)
	add(1, 0, 100, 0, 2)
	return p
}

func testData(graph bool) *Data {
	o := report.Options{Children: graph, Workers: 1, MaxStack: 127}
	if graph {
		o.Graph = report.Graph{Mode: report.GraphTree, Order: report.ByCaller, MinPercent: 0.5}
	}
	return testReport(o)
}

func testReport(o report.Options) *Data {
	p := testProfile()
	code := &Code{
		Name: "hot", Object: "/usr/bin/app", Memory: 0x400000, Events: p.Events, Total: []annotate.Count{{Samples: 50, Period: 50000}, {}},
		Sources: map[string][]string{"/src/app.c": {"int hot(int n)", "{", "\tfor (;;)", "\t\tn += 東京(n);", "}"}},
	}
	frame := func(line int) []annotate.Frame {
		return []annotate.Frame{{Func: "hot", File: "/src/app.c", Line: line}}
	}
	add := func(addr uint64, n uint64, text string, line int, in disasm.Inst) {
		code.Lines = append(code.Lines, annotate.Line{
			Addr: addr, Inst: in, Bytes: []byte{0x90, 0x90}, Text: text,
			Counts: []annotate.Count{{Samples: n, Period: 1000 * n}, {}}, Frames: frame(line),
		})
	}
	add(0x1100, 0, "push   %rbp", 1, disasm.Inst{Len: 2})
	add(0x1102, 5, "add    %rax,%rbx", 3, disasm.Inst{Len: 2})
	add(0x1104, 40, "call   1300 <memcpy@plt>", 4, disasm.Inst{Len: 2, Kind: disasm.Call, Target: 0x1300, HasTarget: true})
	add(0x1106, 0, "cmp    %rax,%rcx # "+hostile, 4, disasm.Inst{Len: 2})
	add(0x1108, 5, "jne    1102 <hot+0x2>", 3, disasm.Inst{Len: 2, Kind: disasm.Branch, Target: 0x1102, HasTarget: true})
	add(0x110a, 0, "ret", 5, disasm.Inst{Len: 2, Kind: disasm.Return})
	code.Print = func(w io.Writer) error { _, err := io.WriteString(w, "code\n"); return err }
	return &Data{
		Name: "perf.data", Tables: report.Flat(p, o), Profile: p,
		Code: func(_ context.Context, f Function) (*Code, error) {
			if f.Symbol == "hot" || f.Symbol == "" {
				return code, nil
			}
			return nil, errors.New("no code of " + f.Symbol)
		},
		Timeline: func(context.Context, int) (*Timeline, error) {
			t := &Timeline{Start: 1e9, End: 11e9}
			for i := range 160 {
				t.Counts = append(t.Counts, uint64(i%40))
			}
			return t, nil
		},
		Info:    func() (string, error) { return "# hostname : " + hostile + "\n# arch : x86_64\n", nil },
		Samples: func(_ context.Context, s Selection) (string, error) { return fmt.Sprintf("%+v %s\n", s, hostile), nil },
		Doctor:  func(context.Context) (string, error) { return "loss: 2 samples\n\tnothing helps\n", nil },
	}
}

// A driver runs a Model without a terminal.
type driver struct {
	t     testing.TB
	m     *Model
	quit  bool
	saved map[string]string
	asked []Request
}

func newDriver(t testing.TB, o Options, w, h int) *driver {
	d := &driver{t: t, saved: map[string]string{}}
	load := o.Load
	if load == nil {
		load = func(context.Context, Request, *Progress) (*Data, error) { return testData(true), nil }
	}
	o.Load = func(ctx context.Context, r Request, p *Progress) (*Data, error) {
		d.asked = append(d.asked, r)
		return load(ctx, r, p)
	}
	o.Save = func(name string, write func(io.Writer) error) (string, error) {
		var b strings.Builder
		err := write(&b)
		d.saved[name] = b.String()
		return name, err
	}
	if o.Title == "" {
		o.Title = "perf.data"
	}
	d.m = New(t.Context(), o)
	d.m.w, d.m.h = w, h
	d.m.tick = func(*Progress) tea.Cmd { return nil }
	d.do(d.m.Init())
	return d
}

// do does what a command says, and all that comes of it.
func (d *driver) do(cmd tea.Cmd) {
	for todo := []tea.Cmd{cmd}; len(todo) > 0; {
		cmd, todo = todo[0], todo[1:]
		if cmd == nil {
			continue
		}
		switch msg := cmd().(type) {
		case nil:
		case tea.BatchMsg:
			todo = append(todo, msg...)
		case tea.QuitMsg:
			d.quit = true
		case panicMsg:
			d.t.Fatalf("panic: %v\n%s", msg.value, msg.stack)
		default:
			todo = append(todo, d.m.Update(msg))
		}
	}
}

var named = map[string]rune{
	"up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft, "right": tea.KeyRight, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown,
	"home": tea.KeyHome, "end": tea.KeyEnd, "enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "backspace": tea.KeyBackspace,
	"space": tea.KeySpace, "f1": tea.KeyF1,
}

func keyMsg(k string) tea.KeyPressMsg {
	if rest, ok := strings.CutPrefix(k, "shift+"); ok {
		msg := keyMsg(rest)
		msg.Mod = tea.ModShift
		return msg
	}
	if rest, ok := strings.CutPrefix(k, "alt+"); ok {
		msg := keyMsg(rest)
		msg.Mod, msg.Text = tea.ModAlt, ""
		return msg
	}
	if rest, ok := strings.CutPrefix(k, "ctrl+"); ok {
		return tea.KeyPressMsg{Code: []rune(rest)[0], Mod: tea.ModCtrl}
	}
	if code, ok := named[k]; ok {
		return tea.KeyPressMsg{Code: code}
	}
	return tea.KeyPressMsg{Code: []rune(k)[0], Text: k}
}

// press presses keys, which blanks part; "text:" types what follows.
func (d *driver) press(keys string) {
	for _, k := range strings.Fields(keys) {
		if text, ok := strings.CutPrefix(k, "text:"); ok {
			for _, r := range text {
				d.do(d.m.Update(keyMsg(string(r))))
			}
			continue
		}
		d.do(d.m.Update(keyMsg(k)))
	}
}

// screen returns what is on the screen, without colours; what is selected is
// marked.
func (d *driver) screen() string {
	text, x, y := d.m.View()
	if y >= d.m.h || x >= max(d.m.w, 1) {
		d.t.Errorf("cursor at %d,%d of %dx%d", x, y, d.m.w, d.m.h)
	}
	lines := strings.Split(text, "\n")
	if len(lines) > max(d.m.h, 1) {
		d.t.Errorf("%d lines on a screen of %d", len(lines), d.m.h)
	}
	var b strings.Builder
	for i, s := range lines {
		if n := width(s); n > d.m.w {
			d.t.Errorf("line %d is %d wide on a screen of %d: %q", i, n, d.m.w, s)
		}
		for _, code := range []string{reverse, bold, plainText, red, green, blue, magenta, cyan, plainColor} {
			s = strings.ReplaceAll(s, code, "")
		}
		if strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f || r == 0x202e }) {
			d.t.Errorf("line %d: %q acts on the terminal", i, s)
		}
		mark := " "
		if i == y {
			mark = ">"
		}
		b.WriteString(strings.TrimRight(mark+s, " ") + "\n")
	}
	return b.String()
}

// with is a browser of the report with options.
func with(o report.Options) Options {
	return Options{Load: func(context.Context, Request, *Progress) (*Data, error) { return testReport(o), nil }}
}

// timed is a browser of code of which it is known how long it took.
func timed() Options {
	return Options{Load: func(context.Context, Request, *Progress) (*Data, error) {
		d := testData(true)
		code := d.Code
		d.Code = func(ctx context.Context, f Function) (*Code, error) {
			c, err := code(ctx, f)
			if err == nil {
				c.Timing = &annotate.Timing{IPC: 1.5, Coverage: 50, Lines: make([]annotate.LineTiming, len(c.Lines))}
				c.Timing.Lines[1] = annotate.LineTiming{IPC: 1.5}
				c.Timing.Lines[4] = annotate.LineTiming{IPC: 1.5, Cycles: 12, Min: 3, Max: 99}
			}
			return c, err
		}
		return d, nil
	}}
}

var (
	hierarchy = report.Options{Hierarchy: true, Graph: report.Graph{Mode: report.GraphTree, MinPercent: 0.5}, MaxStack: 127, Workers: 1}
	group     = report.Options{Groups: []report.Group{{Members: []int32{0, 1}}}, Workers: 1}
)

// TestScreens compares screens with golden files: keys, and what is then there.
func TestScreens(t *testing.T) {
	tests := []struct {
		name, keys string
		o          Options
		w, h       int
	}{
		{name: "rows"},
		{name: "wide", w: 120, h: 30},
		{name: "narrow", w: 40, h: 10},
		{name: "ascii", o: Options{ASCII: true, NoColor: true}, keys: "down a"},
		{name: "open", keys: "down +"},
		{name: "openall", keys: "E"},
		{name: "openbranch", keys: "e down down +"},
		{name: "closed", keys: "E C"},
		{name: "end", keys: "end"},
		{name: "right", keys: "right right"},
		{name: "event", keys: "tab"},
		{name: "menu", keys: "down enter down"},
		{name: "dso", keys: "end up d"},
		{name: "thread", keys: "down t"},
		{name: "symbol", keys: "/ text:o enter n"},
		{name: "none", keys: "/ text:nothing enter"},
		{name: "unfiltered", keys: "/ text:hot enter d esc"},
		{name: "limit", keys: "L text:15 enter"},
		{name: "prompt", keys: "/ text:abc"},
		{name: "verbose", keys: "V"},
		{name: "help", keys: "?"},
		{name: "info", keys: "i"},
		{name: "doctor", keys: "! down"},
		{name: "origin", keys: "down enter down down down down down down enter"},
		{name: "notes", o: Options{Notes: func() []string { return []string{"perfark: unnamed: " + hostile} }}, keys: "w"},
		{name: "code", keys: "down a"},
		{name: "codejump", keys: "down a down down down J"},
		{name: "codefollow", keys: "down a down down down enter"},
		{name: "codeall", keys: "down a s o t k"},
		{name: "codenumbers", keys: "down a k l"},
		{name: "codehot", keys: "down a end H tab"},
		{name: "codesearch", keys: "down a / text:ret enter"},
		{name: "codelevel", keys: "down a O O"},
		{name: "codememory", keys: "down a o f"},
		{name: "codebackwards", keys: "down a end ? text:rax enter"},
		{name: "codetimes", o: timed(), keys: "down a"},
		{name: "codeminmax", o: timed(), keys: "down a c"},
		{name: "codesamples", keys: "down a r"},
		{name: "codenone", keys: "a"},
		{name: "codecall", keys: "down a enter"},
		{name: "codefirst", o: Options{Code: true}},
		{name: "flame", keys: "f"},
		{name: "flamezoom", keys: "f down down enter"},
		{name: "flamesearch", keys: "f / text:mem enter"},
		{name: "callers", keys: "down b"},
		{name: "callersgo", keys: "down b down down enter"},
		{name: "timeline", keys: "T"},
		{name: "timelinepart", keys: "T right right space pgdown"},
		{name: "back", keys: "down a q"},
		{name: "relative", keys: "down d F"},
		{name: "relativeopen", keys: "down d e F"},
		{name: "kernel", keys: "k"},
		{name: "nokernel", o: with(report.Options{Filter: report.Filter{DSOs: []string{"app"}}}), keys: "k"},
		{name: "bare", keys: "H"},
		{name: "events", keys: "M down"},
		{name: "events2", keys: "M down enter"},
		{name: "samples", keys: "down r"},
		{name: "samplesof", keys: "down r enter"},
		{name: "group", o: with(group), keys: "1"},
		{name: "groupagain", o: with(group), keys: "1 0"},
		{name: "hierarchy", o: with(hierarchy)},
		{name: "hierarchyopen", o: with(hierarchy), keys: "+ down + down +"},
		{name: "hierarchyall", o: with(hierarchy), keys: "E"},
		{name: "hierarchybelow", o: with(hierarchy), keys: "e down down c"},
		{name: "hierarchyclosed", o: with(hierarchy), keys: "E end C"},
		{name: "hierarchyfilter", o: with(hierarchy), keys: "/ text:hot enter"},
		{name: "hierarchydso", o: with(hierarchy), keys: "+ down d F"},
		{name: "hierarchynone", o: with(hierarchy), keys: "d"},
		{name: "hierarchylimit", o: with(hierarchy), keys: "E L text:10 enter"},
		{name: "flat", o: with(report.Options{Graph: report.Graph{Mode: report.GraphFlat}, MaxStack: 127}), keys: "e"},
		{name: "folded", o: with(report.Options{Graph: report.Graph{Mode: report.GraphFolded}, MaxStack: 127}), keys: "e"},
		{name: "fractal", o: with(report.Options{Graph: report.Graph{Mode: report.GraphFractal, Order: report.ByCaller}, Children: true, MaxStack: 127}), keys: "e"},
		{name: "files", o: Options{Files: func() []string { return []string{"other.data", hostile} }}, keys: "s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.w == 0 {
				tt.w, tt.h = 80, 24
			}
			d := newDriver(t, tt.o, tt.w, tt.h)
			d.press(tt.keys)
			got := d.screen()
			name := filepath.Join("testdata", tt.name+".txt")
			if *update {
				if err := os.MkdirAll("testdata", 0o777); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("after %q:\n%s\nwant:\n%s", tt.keys, got, want)
			}
			if d.quit {
				t.Error("left")
			}
		})
	}
}

// Before anything is loaded there is a screen, and a way out.
func TestLoading(t *testing.T) {
	block, going := make(chan bool), make(chan bool)
	var p *Progress
	m := New(t.Context(), Options{Title: "perf.data", Load: func(_ context.Context, _ Request, progress *Progress) (*Data, error) {
		p = progress
		p.Set("reading perf.data", 30, 120)
		close(going)
		<-block
		return testData(true), nil
	}})
	m.Init()
	<-going
	text, _, _ := m.View()
	if want := "reading perf.data  25%\n[###############                                             ]\n"; !strings.Contains(text, want) {
		t.Errorf("%q, want %q in it", text, want)
	}
	if cmd := m.Update(keyMsg("q")); cmd == nil || !m.quit {
		t.Error("q does not leave")
	}
	close(block)
	m.jobs.wg.Wait()
}

// An error of what is to be shown first ends it; a later one is a message.
func TestLoadError(t *testing.T) {
	fail := true
	o := Options{Load: func(context.Context, Request, *Progress) (*Data, error) {
		if fail {
			return nil, errors.New("no such file")
		}
		return testData(true), nil
	}}
	d := newDriver(t, o, 80, 24)
	if !d.quit || d.m.err == nil || d.m.err.Error() != "no such file" {
		t.Errorf("left: %v, error %v", d.quit, d.m.err)
	}
	fail = false
	o.Files = func() []string { return []string{"b.data"} }
	d = newDriver(t, o, 80, 24)
	fail = true
	d.press("s enter")
	if d.quit || d.m.message != "no such file" {
		t.Errorf("left: %v, message %q", d.quit, d.m.message)
	}
}

// What is loaded again is asked for by file and time, and the old is let go.
func TestReload(t *testing.T) {
	closed := 0
	d := newDriver(t, Options{
		Files: func() []string { return []string{"b.data"} },
		Load: func(context.Context, Request, *Progress) (*Data, error) {
			x := testData(true)
			x.Close = func() { closed++ }
			return x, nil
		},
	}, 80, 24)
	d.press("s enter T right space right enter")
	want := "[{ } {b.data } {b.data 1.125000000,1.374999999}]"
	if got := fmt.Sprint(d.asked); got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
	d.press("esc")
	if got := d.asked[len(d.asked)-1]; got != (Request{File: "b.data"}) {
		t.Errorf("asked for %v", got)
	}
	d.m.close()
	if closed != 4 {
		t.Errorf("%d closed of 4", closed)
	}
}

// What keys write is what is shown.
func TestSave(t *testing.T) {
	d := newDriver(t, Options{}, 80, 24)
	d.press("P y down a P")
	for name, want := range map[string]string{
		"perf.hist.*":      "# Samples: 100  of event 'cycles'",
		"perf.view.*":      "Samples: 100 of event 'cycles', Event count (approx.): 100000\n",
		"hot.annotation.*": "code\n",
	} {
		if !strings.Contains(d.saved[name], want) {
			t.Errorf("%s: %q, want %q in it", name, d.saved[name], want)
		}
		if strings.Contains(d.saved[name], "\x1b") {
			t.Errorf("%s has escape sequences: %q", name, d.saved[name])
		}
	}
}

// A file that takes long is not cut off by a key to leave; one that insists
// ends the writing of it.
func TestSaveLeave(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began := make(chan bool)
	var err error
	m := New(ctx, Options{Save: func(name string, write func(io.Writer) error) (string, error) {
		close(began)
		<-ctx.Done()
		err = write(io.Discard)
		return name, err
	}})
	m.save("perf.page.*", "text")
	if m.message != "writing perf.page" {
		t.Errorf("message %q", m.message)
	}
	<-began
	m.leave()
	if m.quit || !strings.Contains(m.message, "being written") {
		t.Errorf("left: %v, message %q", m.quit, m.message)
	}
	m.leave()
	if !m.quit {
		t.Error("stays")
	}
	cancel()
	m.jobs.wg.Wait()
	if !errors.Is(err, context.Canceled) {
		t.Errorf("written: error %v", err)
	}
}

// Leaving.
func TestLeave(t *testing.T) {
	for keys, want := range map[string]bool{
		"q": true, "ctrl+c": true, "a q q": true, "a Q": true, "esc y": true, "esc Y": true, "esc n": false, "esc enter": false, "esc esc": false, "esc x q": true,
		"? q": false, "a esc": false, "/ text:x esc": false, "left": false, "a alt+esc": false, "a f1 alt+esc q": true, "a f1 esc q": false, "a alt+q": true, "alt+y": true, "a alt+[ q": false, "/ text:q enter": false, "/ ctrl+c": true,
	} {
		d := newDriver(t, Options{}, 80, 24)
		d.press(keys)
		if d.quit != want {
			t.Errorf("%q: left: %v, want %v", keys, d.quit, want)
		}
	}
}

// Keys that come before the table has followed are not lost, and add to each
// other.
func TestKeysAhead(t *testing.T) {
	for _, tt := range []struct{ ahead, want string }{
		{"d F", "d F"}, {"F d", "F d"}, {"d t", "d t"}, {"d d", ""}, {"V k", "V k"}, {"d t esc", "d"}, {"d V F", "d V F"},
	} {
		want := newDriver(t, Options{}, 80, 24)
		want.press("down " + tt.want + " right left")
		d := newDriver(t, Options{}, 80, 24)
		d.press("down")
		var cmds []tea.Cmd
		for k := range strings.FieldsSeq(tt.ahead) {
			cmds = append(cmds, d.m.Update(keyMsg(k)))
		}
		for _, cmd := range slices.Backward(cmds) {
			d.do(cmd)
		}
		d.press("right left") // takes the message away
		if got, want := d.screen(), want.screen(); got != want {
			t.Errorf("%s:\n%s\nwant:\n%s", tt.ahead, got, want)
		}
	}
}

// Without UTF-8 no byte of a name is anything else than it is: 雛 has the one
// that begins a control sequence where characters have eight bits.
func TestASCII(t *testing.T) {
	d := newDriver(t, Options{ASCII: true}, 80, 24)
	for _, keys := range []string{"", "E", "C end", "f", "esc b", "esc / text:雛", "esc V", "i", "esc r"} {
		d.press(keys)
		for _, s := range []string{d.screen(), d.m.Say()} {
			if strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 }) {
				t.Errorf("%q: %s", keys, s)
			}
		}
	}
	if got, want := typeable("a東b\u0301"), "a??b"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A terminal that does not know its size is as large as most.
func TestNoSize(t *testing.T) {
	d := newDriver(t, Options{}, 80, 24)
	want := d.screen()
	d.do(d.m.Update(tea.WindowSizeMsg{}))
	if got := d.screen(); got != want {
		t.Errorf("%s\nwant:\n%s", got, want)
	}
	d.press("h")
	if got := d.m.Say(); !strings.Contains(got, "Enter") {
		t.Errorf("help says %q", got)
	}
}

// TestSay: the plain mode says what is selected.
func TestSay(t *testing.T) {
	for _, tt := range []struct{ keys, want string }{
		{"", "row 1 of 9: Children 80.00%, Self 0.00%, Command app, Shared Object app, Symbol [.] main, closed"},
		{"down", "row 2 of 9: Children 70.00%, Self 50.00%, Command app, Shared Object app, Symbol [.] hot, closed"},
		{"down a", "80.00 percent, at 4: call memcpy@plt"},
		{"down a up", "source: n += 東京(n);"},
		{"f down", "main 98.00%, itself 0.00%"},
		{"/ text:ab", "show only symbols with (none for all): ab"},
	} {
		d := newDriver(t, Options{Plain: true}, 80, 24)
		d.press(tt.keys)
		if got := d.m.Say(); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.keys, got, tt.want)
		}
	}
}

// A recording without samples, and one without call chains.
func TestEmpty(t *testing.T) {
	d := newDriver(t, Options{Load: func(context.Context, Request, *Progress) (*Data, error) {
		return &Data{Name: "perf.data", Profile: &profile.Profile{}}, nil
	}}, 80, 24)
	d.press("down up pgdown end + e c E C tab / enter n d t L enter V P enter a b f down esc T s ! i y ? q")
	if s := d.screen(); !strings.Contains(s, "no samples") {
		t.Errorf("%s", s)
	}
	d = newDriver(t, Options{Load: func(context.Context, Request, *Progress) (*Data, error) { return testData(false), nil }}, 80, 24)
	d.press("+ e E down d")
	d.screen()
}

var allKeys = strings.Fields("up down left right pgup pgdown home end enter esc tab shift+tab backspace space f1 " +
	"+ - e c E C / n N d t k S F H r M 0 1 9 L V P m a b f T s ! i y w ? h H j J k l o O p g G 0 x 5 東")

// act presses a key or changes the size of the screen, by two bytes.
func (d *driver) act(a, b byte) {
	sizes := []int{0, 1, 2, 3, 5, 13, 40, 80, 200}
	if a%8 == 0 {
		d.do(d.m.Update(tea.WindowSizeMsg{Width: sizes[int(b)%len(sizes)], Height: sizes[int(b/16)%len(sizes)]}))
	} else {
		d.do(d.m.Update(keyMsg(allKeys[int(b)%len(allKeys)])))
	}
	d.screen()
	d.m.Say()
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte("\x01\x01\x01\x20\x00\x00\x01\x21"))
	f.Fuzz(func(t *testing.T, in []byte) {
		d := newDriver(t, Options{Files: func() []string { return []string{"x"} }}, 80, 24)
		for i := 0; i+1 < len(in) && i < 400; i += 2 {
			d.act(in[i], in[i+1])
		}
	})
}

// TestRandomKeys is FuzzKeys for some numbers.
func TestRandomKeys(t *testing.T) {
	for seed := range uint64(16) {
		r := rand.New(rand.NewPCG(seed, 1))
		o := Options{}
		switch seed % 4 {
		case 0:
			o = with(hierarchy)
		case 1:
			o = with(group)
		}
		o.ASCII, o.NoColor = seed%2 == 0, seed%3 == 0
		o.Files = func() []string { return []string{"x"} }
		d := newDriver(t, o, 80, 24)
		for range 150 {
			d.act(byte(r.Uint32()), byte(r.Uint32()))
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestLarge: what a key takes does not grow with the table.
func TestLarge(t *testing.T) {
	p := testProfile()
	for i := range 60000 {
		n := int32(len(p.Functions))
		p.Functions = append(p.Functions, profile.Function{Object: 0, Name: fmt.Sprint("f", i), Start: uint64(i) * 16, End: uint64(i)*16 + 16})
		p.Locations = append(p.Locations, profile.Location{Object: 0, Level: '.', IP: uint64(i) * 16, Addr: uint64(i) * 16, Func: n})
		p.Stacks = append(p.Stacks, profile.Stack{Location: int32(len(p.Locations) - 1), Caller: 0})
		p.Samples = append(p.Samples, profile.Sample{CPU: -1, Location: int32(len(p.Locations) - 1), Stack: int32(len(p.Stacks) - 1), Extra: profile.None, Count: 1, Period: 1})
	}
	o := report.Options{Children: true, Graph: report.Graph{Mode: report.GraphTree, Order: report.ByCaller}, MaxStack: 127}
	d := newDriver(t, Options{Load: func(context.Context, Request, *Progress) (*Data, error) {
		return &Data{Name: "perf.data", Tables: report.Flat(p, o), Profile: p}, nil
	}}, 80, 24)
	d.press("end home E")
	began := time.Now()
	const presses = 200
	for range presses / 4 {
		d.m.Update(keyMsg("pgdown"))
		d.m.View()
		d.m.Update(keyMsg("end"))
		d.m.View()
		d.m.Update(keyMsg("up"))
		d.m.View()
		d.m.Update(keyMsg("home"))
		d.m.View()
	}
	if took := time.Since(began) / presses; took > 100*time.Millisecond {
		t.Errorf("a key takes %v", took)
	}
	d.m.jobs.wg.Wait()
}
