package browse

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/perfark/perfark/annotate"
	"github.com/perfark/perfark/disasm"
	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/profile"
)

// codeOptions are how code is shown, from one function to the next.
type codeOptions struct {
	noSource bool
	numbers  bool // of source lines
	raw      bool // addresses, and operands as the decoder has them
	memory   bool // addresses are those in memory, not those in the file
	level    int  // distances stand at: jump targets, calls too, all
	minMax   bool // the shortest and longest times, not averages
	noArrows bool
	jumps    bool // how many jumps go to a place
	paths    bool // where source lines are from
	value    annotate.Value
	global   bool // percentages are of the event, not of the function
	hits     bool // of samples, not of periods
}

// A codePane is the code of a function: its instructions with what was counted
// there, and the source lines in between.
type codePane struct {
	f       Function
	code    *Code
	columns []int32 // events that are shown
	err     string
	lines   []codeLine
	shown   codeOptions // that lines were made with
	short   *annotate.Short
	targets map[uint64]int
	most    int // jumps to one place
	start   uint64
	end     uint64 // behind the last instruction
	hot     []int  // instructions, the hottest first
	hottest int    // of hot: the last that was gone to
	scroller
	height int
}

// A codeLine is an instruction, or what stands between.
type codeLine struct {
	inst int    // -1: none
	text string // of what is none, safe to print
	file string // of a source line
	line int
}

// openCode shows the code of a function.
func (m *Model) openCode(f Function) tea.Cmd {
	if m.data.Code == nil {
		m.message = "code is not shown here"
		return nil
	}
	p := &codePane{f: f}
	d := m.data
	return tea.Batch(m.push(p), m.jobs.start(func(ctx context.Context) tea.Msg {
		code, err := d.Code(ctx, f)
		return callMsg(func(m *Model) tea.Cmd {
			if err != nil {
				p.err = escape.Name(strings.ReplaceAll(err.Error(), "\n", " "))
				return nil
			}
			p.fill(m, code)
			return nil
		})
	}))
}

// columnsOf returns which events of a list the table shows.
func (m *Model) columnsOf(events []profile.Event) []int32 {
	var out []int32
	if t := m.table(); t != nil {
		for _, name := range t.Events {
			for i := range events {
				if events[i].Name == name && !slices.Contains(out, int32(i)) {
					out = append(out, int32(i))
					break
				}
			}
		}
	}
	if out == nil && len(events) > 0 {
		out = []int32{0}
	}
	return out
}

// fill shows code that was loaded.
func (p *codePane) fill(m *Model, code *Code) {
	p.code, p.columns = code, m.columnsOf(code.Events)
	p.targets = map[uint64]int{}
	if n := len(code.Lines); n > 0 {
		p.start = code.Lines[0].Addr
		last := &code.Lines[n-1]
		p.end = last.Addr + uint64(max(len(last.Bytes), 1))
		p.short = annotate.NewShort(code.Lines, max(code.Size, p.end-p.start))
	}
	for i := range code.Lines {
		x := &code.Lines[i]
		if p.local(x) {
			p.targets[x.Inst.Target]++
			p.most = max(p.most, p.targets[x.Inst.Target])
		}
		if p.period(x) > 0 {
			p.hot = append(p.hot, i)
		}
	}
	slices.SortStableFunc(p.hot, func(a, b int) int {
		return cmp.Compare(p.period(&code.Lines[b]), p.period(&code.Lines[a]))
	})
	p.height = m.layout(p).body
	p.build(m)
	p.goHot(0)
}

func (p *codePane) period(x *annotate.Line) uint64 {
	if len(p.columns) == 0 || int(p.columns[0]) >= len(x.Counts) {
		return 0
	}
	c := x.Counts[p.columns[0]]
	return cmp.Or(c.Period, c.Samples)
}

// local reports whether an instruction jumps inside the function.
func (p *codePane) local(x *annotate.Line) bool { return p.short.Local(x) }

// before is how many source lines are shown ahead of one, if they were not yet.
const before = 5

// build makes the lines, with the instruction that is selected as before.
func (p *codePane) build(m *Model) {
	selected := p.instruction()
	o := m.code
	p.shown = o
	p.lines = p.lines[:0]
	other := func(text string) { p.lines = append(p.lines, codeLine{inst: -1, text: text}) }
	for _, n := range p.code.Notices {
		other(escape.Name(n))
	}
	fn, file, line := "", "", 0
	shown := map[string]int{}
	for i := range p.code.Lines {
		x := &p.code.Lines[i]
		if len(x.Frames) > 0 && !o.noSource {
			f := x.Frames[0]
			if f.Func != "" && f.Func != fn {
				fn, file, line = f.Func, "", 0
				text := strings.TrimSuffix(escape.Name(f.Func), "()") + "():"
				if len(x.Frames) > 1 {
					if up := x.Frames[1]; up.File != "" {
						text += fmt.Sprintf(" inlined at %s:%d", escape.Name(base(up.File, o.paths)), up.Line)
					}
				}
				other(text)
			}
			if f.File != "" && f.Line > 0 && (f.File != file || f.Line != line) {
				file, line = f.File, f.Line
				p.source(m, f, shown)
			}
		}
		p.lines = append(p.lines, codeLine{inst: i})
	}
	for i := range p.lines {
		if p.lines[i].inst >= 0 && p.lines[i].inst == selected {
			p.at = i
		}
	}
	p.fit(len(p.lines), p.height)
}

// base is the name of a source file.
func base(file string, whole bool) string {
	if whole {
		return file
	}
	return file[strings.LastIndexByte(file, '/')+1:]
}

// source adds a source line, and those that lead to it.
func (p *codePane) source(m *Model, f annotate.Frame, shown map[string]int) {
	text := p.code.Sources[f.File]
	if m.code.paths || f.Line > len(text) {
		p.lines = append(p.lines, codeLine{inst: -1, text: fmt.Sprintf("%s:%d", escape.Name(base(f.File, m.code.paths)), f.Line), file: f.File})
	}
	from := max(f.Line-before, 1)
	if last := shown[f.File]; last >= from {
		from = min(last+1, f.Line)
	}
	for n := from; n <= f.Line && n <= len(text); n++ {
		if text[n-1] == annotate.NoText {
			continue
		}
		p.lines = append(p.lines, codeLine{-1, escape.Name(detab(strings.TrimRight(text[n-1], "\r"))), f.File, n})
	}
	shown[f.File] = max(shown[f.File], f.Line)
}

// instruction returns the one of the selected line, or the next behind it; -1
// if there is none.
func (p *codePane) instruction() int {
	for i := max(p.at, 0); i < len(p.lines); i++ {
		if p.lines[i].inst >= 0 {
			return p.lines[i].inst
		}
	}
	return -1
}

// goTo selects an instruction, and has some lines before it on the screen.
func (p *codePane) goTo(inst int) {
	for i := range p.lines {
		if p.lines[i].inst == inst {
			p.at = i
			p.top = max(i-p.height/2, 0)
			break
		}
	}
	p.fit(len(p.lines), p.height)
}

func (p *codePane) goHot(n int) {
	if len(p.hot) == 0 {
		return
	}
	p.hottest = (n + len(p.hot)) % len(p.hot)
	p.goTo(p.hot[p.hottest])
}

func (p *codePane) title(m *Model) string {
	if p.code == nil {
		return "code of " + escape.Name(cmp.Or(p.f.Symbol, "the hottest function"))
	}
	var n uint64
	var names []string
	for _, e := range p.columns {
		names = append(names, p.code.Events[e].Name)
		n += p.code.Total[e].Samples
	}
	return fmt.Sprintf("%s  %s  %d samples of '%s', %s", escape.Name(p.code.Name), escape.Name(p.code.Object),
		n, escape.Name(strings.Join(names, ", ")), m.code.String())
}

// String says what is in front of instructions.
func (o codeOptions) String() string {
	switch o.value {
	case annotate.Samples:
		return "samples"
	case annotate.Period:
		return "periods"
	}
	return "percent: " + o.percentType().String()
}

func (o codeOptions) percentType() annotate.PercentType {
	switch {
	case o.global && o.hits:
		return annotate.GlobalHits
	case o.global:
		return annotate.GlobalPeriod
	case o.hits:
		return annotate.LocalHits
	}
	return annotate.LocalPeriod
}

func (p *codePane) heading(m *Model) string {
	if p.code == nil || p.err != "" {
		return ""
	}
	s := ""
	for range p.columns {
		s += padLeft(m.code.value.String(), p.valueWidth(m)+1)
	}
	if t := p.code.Timing; t != nil {
		cycle := "Cycle"
		if m.code.minMax {
			cycle = "Cycle(min/max)"
		}
		s += padLeft("IPC", ipcWidth) + " " + padLeft(cycle, p.cycleWidth(m)) + " " + m.marks.vertical + " " + t.String()
	}
	return s
}

// ipcWidth is the width of instructions per cycle.
const ipcWidth = 5

// cycleWidth is the width of what is known of the time of code.
func (p *codePane) cycleWidth(m *Model) int {
	if m.code.minMax {
		return 18
	}
	return 5
}

// timing is what stands between the values and an instruction: how long the
// code took.
func (p *codePane) timing(m *Model, inst int) string {
	t := p.code.Timing
	if t == nil {
		return ""
	}
	ipc, cycles := "", ""
	if inst >= 0 && inst < len(t.Lines) {
		x := &t.Lines[inst]
		if x.IPC != 0 {
			ipc = strconv.FormatFloat(x.IPC, 'f', 2, 64)
		}
		switch {
		case m.code.minMax:
			cycles = x.Range()
		case x.Cycles != 0:
			cycles = strconv.FormatUint(x.Cycles, 10)
		}
	}
	return padLeft(ipc, ipcWidth) + " " + padLeft(cycles, p.cycleWidth(m)) + " "
}

// percent is the share of an instruction.
func (p *codePane) percent(m *Model, x *annotate.Line, e int32) float64 {
	all := &p.code.Events[e]
	return m.code.percentType().Share(x.Counts[e], p.code.Total[e], annotate.Count{Samples: all.Samples, Period: all.Period})
}

// values is what stands in front of an instruction; the width of each is the
// same.
func (p *codePane) values(m *Model, x *annotate.Line) (text string, hottest float64) {
	for _, e := range p.columns {
		c := x.Counts[e]
		v := p.percent(m, x, e)
		hottest = max(hottest, v)
		s := ""
		switch {
		case c.Samples == 0 && c.Period == 0:
		case m.code.value == annotate.Samples:
			s = strconv.FormatUint(c.Samples, 10)
		case m.code.value == annotate.Period:
			s = strconv.FormatUint(c.Period, 10)
		default:
			s = strconv.FormatFloat(v, 'f', 2, 64)
		}
		text += padLeft(s, p.valueWidth(m)) + " "
	}
	return text, hottest
}

func (p *codePane) valueWidth(m *Model) int {
	if m.code.value == annotate.Period {
		return 11
	}
	return 6
}

// An arrow is the jump of the selected instruction, by the lines where it
// begins and ends.
type arrow struct{ from, to int }

func (p *codePane) arrow(m *Model) (a arrow, ok bool) {
	if m.code.noArrows || p.at >= len(p.lines) || p.lines[p.at].inst < 0 {
		return a, false
	}
	x := &p.code.Lines[p.lines[p.at].inst]
	if !p.local(x) {
		return a, false
	}
	to := p.lineAt(x.Inst.Target)
	return arrow{p.at, to}, to >= 0 && to != p.at
}

// lineAt returns the line of the instruction at an address; -1 for none.
func (p *codePane) lineAt(addr uint64) int {
	for i := range p.lines {
		if n := p.lines[i].inst; n >= 0 && p.code.Lines[n].Addr == addr {
			return i
		}
	}
	return -1
}

// draw is what an arrow puts in the place of the last column of a label, and of
// the mark and the blank behind it; "" for nothing, and a single character for
// the first alone.
func (a arrow) draw(g *glyphs, line int) string {
	lo, hi := min(a.from, a.to), max(a.from, a.to)
	end := g.horizontal + g.horizontal
	if line == a.to {
		end = g.horizontal + g.head
	}
	switch {
	case line == lo:
		return g.down + end
	case line == hi:
		return g.up + end
	case line > lo && line < hi:
		return g.vertical
	}
	return ""
}

func (p *codePane) view(m *Model, w, h int) ([]string, int) {
	p.height = h
	switch {
	case p.err != "":
		lines := wrap(p.err, w)
		return lines[:min(len(lines), h)], -1
	case p.code == nil:
		return []string{"reading the code"}, -1
	}
	if p.shown != m.code {
		p.build(m)
	}
	p.fit(len(p.lines), h)
	a, arrows := p.arrow(m)
	var out []string
	for i := p.top; i < len(p.lines) && len(out) < h; i++ {
		over := ""
		if arrows {
			over = a.draw(m.marks, i)
		}
		s := p.line(m, i, over)
		if i == p.at {
			s = m.bar(cut(strip(s), p.left, w))
		} else {
			s = cut(s, p.left, w)
		}
		out = append(out, s)
	}
	return out, p.at - p.top
}

// line is a line with what stands in front of it. Over is what an arrow puts
// over it.
func (p *codePane) line(m *Model, i int, over string) string {
	l := &p.lines[i]
	if l.inst < 0 {
		blank := strings.Repeat(" ", (p.valueWidth(m)+1)*len(p.columns)) + p.timing(m, -1)
		front := strings.Repeat(" ", p.labelWidth(m))
		if m.code.numbers && l.line > 0 {
			front = pad(strconv.Itoa(l.line), p.labelWidth(m))
		}
		return blank + m.marks.vertical + front + m.colored(blue, cmp.Or(over, " ")) + m.colored(cyan, l.text)
	}
	x := &p.code.Lines[l.inst]
	values, v := p.values(m, x)
	return m.colored(heat(v), values) + p.timing(m, l.inst) + m.marks.vertical + p.instructionText(m, x, over)
}

// jumpWidth is the width of how many jumps go to a place.
func (p *codePane) jumpWidth(m *Model) int {
	if !m.code.jumps {
		return 0
	}
	return len(strconv.Itoa(p.most)) + 1
}

// address is where an instruction is, as raw code shows it.
func (p *codePane) address(m *Model, addr uint64) uint64 {
	if m.code.memory {
		return addr + p.code.Memory
	}
	return addr
}

// labelWidth is the width of what stands in front of an instruction, without
// the blank behind it.
func (p *codePane) labelWidth(m *Model) int {
	n := p.end - p.start
	if m.code.raw {
		n = max(p.address(m, p.end), p.address(m, p.start))
	}
	return p.jumpWidth(m) + len(strconv.FormatUint(n, 16)) + 1
}

// instructionText is an instruction, and where it is.
func (p *codePane) instructionText(m *Model, x *annotate.Line, over string) string {
	o := &m.code
	label := ""
	n := p.targets[x.Addr]
	switch {
	case o.raw:
		label = strconv.FormatUint(p.address(m, x.Addr), 16) + ":"
	case n > 0, o.level > 0 && x.Inst.Kind == disasm.Call, o.level > 1:
		label = strconv.FormatUint(x.Addr-p.start, 16) + ":"
	}
	s := padLeft(label, p.labelWidth(m)-p.jumpWidth(m))
	if w := p.jumpWidth(m); w > 0 {
		count := ""
		if n > 0 {
			count = strconv.Itoa(n)
		}
		s = pad(count, w) + s
	}
	mark := " "
	switch k := x.Inst.Kind; {
	case k == disasm.Call:
		mark = m.marks.call
	case k == disasm.Return:
		mark = m.marks.ret
	case k == disasm.Plain:
	case p.local(x) && x.Inst.Target > x.Addr:
		mark = m.marks.jumpDown
	case p.local(x):
		mark = m.marks.jumpUp
	default:
		mark = m.marks.call // out of the function
	}
	text := p.short.Text(x)
	if o.raw {
		text = p.short.Whole(x)
	}
	if width(over) > 1 { // in the place of the mark, too
		return s + m.colored(blue, over) + text
	}
	return s + m.colored(blue, cmp.Or(over, " ")) + m.colored(magenta, mark) + " " + text
}

// callee is the name of what an instruction calls; "" if it does not say.
func callee(x *annotate.Line) string {
	i, j := strings.LastIndex(x.Text, "<"), strings.LastIndexByte(x.Text, '>')
	if x.Inst.Kind == disasm.Plain || i < 0 || j < i {
		return ""
	}
	name := x.Text[i+1 : j]
	if k := strings.LastIndex(name, "+0x"); k > 0 {
		name = name[:k]
	}
	return strings.TrimSuffix(name, "@plt")
}

func (p *codePane) key(m *Model, k string) (tea.Cmd, bool) {
	if p.code == nil {
		return nil, false
	}
	o := &m.code
	switch k {
	case "H":
		p.goHot(0)
	case "tab":
		p.goHot(p.hottest + 1)
	case "shift+tab":
		p.goHot(p.hottest - 1)
	case "s":
		o.noSource = !o.noSource
	case "k":
		o.numbers = !o.numbers
	case "l":
		o.paths = !o.paths
	case "o":
		o.raw = !o.raw
	case "j":
		o.noArrows = !o.noArrows
	case "J":
		o.jumps = !o.jumps
	case "t":
		o.value = [...]annotate.Value{annotate.Percent: annotate.Period, annotate.Period: annotate.Samples, annotate.Samples: annotate.Percent}[o.value]
	case "O":
		o.level = (o.level + 1) % 3
		m.message = "distances at " + [...]string{"jump targets", "jump targets and calls", "all instructions"}[o.level]
	case "f":
		o.memory = !o.memory
		m.message = "addresses are those of the file"
		if o.memory {
			m.message = "addresses are those of memory, in one of the processes"
		}
		if !o.raw {
			m.message += ": o shows them"
		}
	case "c":
		if p.code.Timing == nil {
			m.message = "how long code took is not known: see perf record -b"
			break
		}
		o.minMax = !o.minMax
	case "r":
		return m.openSamples("samples of function "+escape.Name(p.code.Name), Selection{Symbol: p.code.Name}), true
	case "p":
		o.global = !o.global
	case "b":
		o.hits = !o.hits
	case "enter", "right":
		return p.follow(m, k)
	case "/":
		m.ask("search: ", func(m *Model, text string) tea.Cmd {
			m.search = text
			p.find(m, 1)
			return nil
		})
	case "?":
		m.ask("search backwards: ", func(m *Model, text string) tea.Cmd {
			m.search = text
			p.find(m, -1)
			return nil
		})
	case "n":
		p.find(m, 1)
	case "N":
		p.find(m, -1)
	case "P":
		if p.code.Print == nil {
			break
		}
		return m.saveAs(fileName(p.code.Name)+".annotation.*", p.code.Print), true
	default:
		return nil, p.scroller.key(k, len(p.lines), p.height)
	}
	if p.shown != m.code {
		p.build(m)
	}
	return nil, true
}

// follow goes where the selected instruction goes.
func (p *codePane) follow(m *Model, k string) (tea.Cmd, bool) {
	if p.at >= len(p.lines) || p.lines[p.at].inst < 0 {
		return nil, p.scroller.key(k, len(p.lines), p.height)
	}
	x := &p.code.Lines[p.lines[p.at].inst]
	switch {
	case p.local(x):
		if to := p.lineAt(x.Inst.Target); to >= 0 {
			p.goTo(p.lines[to].inst)
		}
	case x.Inst.Kind == disasm.Return && k == "enter":
		m.pop()
	case callee(x) != "":
		return m.openCode(Function{Object: p.f.Object, Start: noStart, Symbol: callee(x)}), true
	default:
		return nil, p.scroller.key(k, len(p.lines), p.height)
	}
	return nil, true
}

// find goes to the next line with what is looked for.
func (p *codePane) find(m *Model, step int) {
	n := len(p.lines)
	if m.search == "" || n == 0 {
		return
	}
	want := strings.ToLower(m.search)
	for i := 1; i <= n; i++ {
		at := ((p.at+step*i)%n + n) % n
		text := p.lines[at].text
		if inst := p.lines[at].inst; inst >= 0 {
			text = p.code.Lines[inst].Text
		}
		if strings.Contains(strings.ToLower(text), want) {
			p.at = at
			p.fit(n, p.height)
			return
		}
	}
	m.message = "not found: " + escape.Name(m.search)
}

// fileName is a name as that of a file: of harmless characters, and short.
func fileName(name string) string {
	const most = 100
	var b strings.Builder
	for _, r := range name {
		switch {
		case b.Len() >= most:
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-', r == '.' && b.Len() > 0:
			b.WriteRune(r)
		default:
			b.WriteByte('_')
		}
	}
	return cmp.Or(b.String(), "function")
}

// wrap breaks a text that is longer than a line, at a blank if there is one. What
// goes on is indented as the text is.
func wrap(s string, w int) []string {
	indent := s[:len(s)-len(strings.TrimLeft(s, " "))]
	if len(indent) > w/2 {
		indent = ""
	}
	var out []string
	for w > 1 && width(s) > w {
		part := cut(s, 0, w)
		if i := strings.LastIndexByte(part, ' '); i > max(len(part)/2, len(indent)) {
			part = part[:i+1]
		}
		if len(part) <= len(indent) {
			break
		}
		out = append(out, strings.TrimRight(part, " "))
		s = indent + s[len(part):]
	}
	return append(out, s)
}

func (p *codePane) status(m *Model) string {
	switch {
	case p.err != "":
		return "q goes back"
	case p.code == nil:
		return "q goes back"
	}
	s := fmt.Sprintf("line %d of %d", min(p.at+1, len(p.lines)), len(p.lines))
	if p.at < len(p.lines) && p.lines[p.at].file != "" {
		s += "  " + escape.Name(base(p.lines[p.at].file, false))
	}
	return s + "  H hottest  Tab next  s source  o addresses  h keys  q goes back"
}

func (p *codePane) say(m *Model) string {
	switch {
	case p.err != "":
		return p.err
	case p.code == nil || p.at >= len(p.lines):
		return p.title(m)
	}
	l := &p.lines[p.at]
	if l.inst < 0 {
		return "source: " + strings.TrimSpace(l.text)
	}
	x := &p.code.Lines[l.inst]
	v, _ := p.values(m, x)
	unit := ""
	if v = strings.TrimSpace(v); v == "" {
		v = "no samples"
	} else if m.code.value == annotate.Percent {
		unit = " percent"
	}
	text := p.short.Text(x)
	if m.code.raw {
		text = p.short.Whole(x)
	}
	if t := strings.Fields(p.timing(m, l.inst)); len(t) > 0 {
		unit += ", " + strings.Join(t, ", ")
	}
	return fmt.Sprintf("%s%s, at %x: %s", v, unit, x.Addr-p.start, strings.TrimSpace(text))
}

func (p *codePane) help() []keyHelp {
	return []keyHelp{
		{"Enter Right", "go where a jump or call goes; Enter at a return goes back"},
		{"H", "the hottest instruction"},
		{"Tab Shift-Tab", "the next hottest, the one before"},
		{"s", "source lines, or none"},
		{"k", "numbers of source lines"},
		{"l", "where source lines are from"},
		{"o", "addresses and operands as they are, or jump targets alone"},
		{"O", "distances at jump targets, at calls too, everywhere"},
		{"f", "addresses of the file, or those in memory"},
		{"j", "arrows of jumps, or none"},
		{"J", "how many jumps go to a place"},
		{"t", "percentages, periods, samples"},
		{"p", "percentages of the function, or of the event"},
		{"b", "of periods, or of numbers of samples"},
		{"c", "average times of code, or the shortest and the longest"},
		{"r", "the samples of the function one by one"},
		{"/  ?", "search, search backwards"},
		{"n  N", "to the next that is found, to the one before"},
		{"P", "print to a file"},
	}
}
