package browse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/perfark/perfark/annotate"
	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/report"
)

// A Model is what a browser shows: a stack of panes of which the last is on the
// screen. It is for one goroutine.
type Model struct {
	o     Options
	jobs  *jobs
	marks *glyphs
	w, h  int

	data     *Data
	request  Request
	progress *Progress // of what is loading; nil if nothing is
	cancel   context.CancelFunc
	event    int // index into data.Tables

	panes    []pane
	prompt   *prompt
	message  string // in the last line until the next key
	search   string // what was looked for last
	code     codeOptions
	verbose  bool        // the other way than data.Page has it
	relative bool        // percentages are of what filters leave
	views    []*listing  // of the tables, as they are at first
	trees    *sync.Mutex // of the tables

	tree   *callTree // of event treeOf; nil if it was not made
	treeOf int

	saving   int  // files that are being written
	insisted bool // a key to leave was pressed nevertheless

	tick func(*Progress) tea.Cmd // looks again after a while how far it is
	err  error                   // that ended it
	quit bool
}

// A pane is a page of the screen.
type pane interface {
	title(m *Model) string
	heading(m *Model) string // above what is scrolled; "" for none
	// view returns at most h lines, and which of them is selected, -1 for none.
	view(m *Model, w, h int) (lines []string, at int)
	key(m *Model, k string) (cmd tea.Cmd, ok bool)
	status(m *Model) string
	say(m *Model) string // what is selected, in a line of text
	help() []keyHelp
}

type keyHelp struct{ keys, what string }

// A prompt asks for a line of text, or for one key.
type prompt struct {
	ask  string
	text []rune
	done func(m *Model, text string) tea.Cmd
	yes  func(m *Model) tea.Cmd // if not nil, what y does; all other keys do nothing
}

// A loadedMsg is the answer to a request.
type loadedMsg struct {
	request  Request
	progress *Progress
	data     *Data
	views    []*listing // of data.Tables
	trees    *sync.Mutex
	err      error
}

// A tickMsg is time to look how far it is.
type tickMsg struct{ progress *Progress }

const tickTime = 100 * time.Millisecond

// New returns a browser that has nothing loaded yet. Its work ends with ctx.
func New(ctx context.Context, o Options) *Model {
	m := &Model{o: o, jobs: &jobs{ctx: ctx}, marks: &drawn, w: 80, h: 24, tick: tick}
	m.code = codeOptions{
		noSource: o.NoSource, value: o.Value,
		global: o.Percent == annotate.GlobalPeriod || o.Percent == annotate.GlobalHits,
		hits:   o.Percent == annotate.LocalHits || o.Percent == annotate.GlobalHits,
	}
	if o.ASCII {
		m.marks = &typed
	}
	return m
}

// Init begins to load.
func (m *Model) Init() tea.Cmd { return m.load(Request{}) }

// load begins to load what is asked for. What is shown stays until it is there.
func (m *Model) load(r Request) tea.Cmd {
	if m.cancel != nil {
		m.cancel()
	}
	p := &Progress{}
	p.Set("reading "+cmp.Or(r.File, m.o.Title), 0, 0)
	m.progress = p
	ctx, cancel := context.WithCancel(m.jobs.ctx)
	m.cancel = cancel
	return tea.Batch(m.tick(p), m.jobs.start(func(context.Context) tea.Msg {
		d, err := m.o.Load(ctx, r, p)
		msg := loadedMsg{request: r, progress: p, data: d, err: err}
		if err == nil {
			msg.trees = &sync.Mutex{}
			for _, t := range d.Tables {
				msg.views = append(msg.views, newListing(ctx, t, d.Page, looks{}, msg.trees))
			}
		}
		return msg
	}))
}

func tick(p *Progress) tea.Cmd {
	return tea.Tick(tickTime, func(time.Time) tea.Msg { return tickMsg{p} })
}

// close lets go of what is loaded.
func (m *Model) close() {
	if m.cancel != nil {
		m.cancel()
	}
	if m.data != nil && m.data.Close != nil {
		m.data.Close()
	}
	m.data = nil
}

// Update takes a message of tea's, and returns what is to be done next.
func (m *Model) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.w, m.h = max(msg.Width, 0), max(msg.Height, 0)
		if m.w == 0 && m.h == 0 { // a line that knows no sizes, as a serial one
			m.w, m.h = 80, 24
		}
	case tea.KeyPressMsg:
		return m.key(msg)
	case tea.PasteMsg:
		if m.prompt != nil {
			m.prompt.add(msg.Content)
		}
	case tea.MouseWheelMsg:
		return m.wheel(msg.Button)
	case tea.MouseClickMsg:
		return m.click(msg.Y)
	case tickMsg:
		if msg.progress == m.progress {
			return m.tick(m.progress)
		}
	case loadedMsg:
		return m.loaded(msg)
	case interface{ apply(m *Model) tea.Cmd }:
		return msg.apply(m)
	}
	return m.settle()
}

// loaded shows what was loaded.
func (m *Model) loaded(msg loadedMsg) tea.Cmd {
	if msg.progress != m.progress {
		if msg.data != nil && msg.data.Close != nil {
			msg.data.Close()
		}
		return nil
	}
	m.progress = nil
	if msg.err != nil {
		if m.data == nil {
			m.err = msg.err
			return tea.Quit
		}
		m.message = escape.Name(msg.err.Error())
		return nil
	}
	if m.data != nil && m.data.Close != nil {
		m.data.Close()
	}
	first := m.data == nil
	m.data, m.request = msg.data, msg.request
	m.trees, m.views = msg.trees, msg.views
	m.tree = nil
	m.verbose = false
	m.event = min(m.event, max(len(m.data.Tables)-1, 0))
	p, cmd := m.newRows()
	m.panes = []pane{p}
	if first {
		for i := len(m.data.Pages) - 1; i >= 0; i-- {
			cmd = tea.Batch(cmd, m.push(&textPane{name: m.data.Pages[i].Name, text: safe(m.data.Pages[i].Text)}))
		}
	}
	if first && m.o.Code && m.data.Code != nil {
		return tea.Batch(cmd, m.openCode(Function{Object: profile.None, Symbol: m.o.Symbol}))
	}
	return tea.Batch(cmd, m.settle())
}

// settle begins what the pane on the screen needs, if it needs anything.
func (m *Model) settle() tea.Cmd {
	if s, ok := m.pane().(interface{ settle(m *Model) tea.Cmd }); ok {
		return s.settle(m)
	}
	return nil
}

// pane returns the one on the screen; nil before anything is loaded.
func (m *Model) pane() pane {
	if len(m.panes) == 0 {
		return nil
	}
	return m.panes[len(m.panes)-1]
}

// push shows another pane, until it is left.
func (m *Model) push(p pane) tea.Cmd {
	m.panes = append(m.panes, p)
	return m.settle()
}

// pop leaves a pane; the first one stays.
func (m *Model) pop() {
	if len(m.panes) > 1 {
		m.panes = m.panes[:len(m.panes)-1]
	}
}

// table returns the table of the event that is shown; nil if there is none.
func (m *Model) table() *report.Table {
	if m.data == nil || m.event >= len(m.data.Tables) {
		return nil
	}
	return m.data.Tables[m.event]
}

// leave leaves, but not at once what is still being written.
func (m *Model) leave() tea.Cmd {
	if m.saving > 0 && !m.insisted {
		m.insisted = true
		m.message = "a file is being written: once more leaves without it"
		return nil
	}
	m.quit = true
	return tea.Quit
}

func (m *Model) key(msg tea.KeyPressMsg) tea.Cmd {
	k := msg.String()
	if msg.Mod&^tea.ModShift == tea.ModAlt && msg.Code != '[' && msg.Code != 'o' && msg.Code != 'O' {
		// What Esc is taken for if another key comes at once; of [ and O more was to come.
		cmd := m.key(tea.KeyPressMsg{Code: tea.KeyEscape})
		msg.Mod &^= tea.ModAlt
		if msg.Code > ' ' && msg.Code < tea.KeyExtended && msg.Code != tea.KeyBackspace {
			msg.Text = string(cmp.Or(msg.ShiftedCode, msg.Code))
		}
		return tea.Batch(cmd, m.key(msg))
	}
	switch k {
	case "ctrl+c":
		m.insisted = true
		return m.leave()
	}
	m.message = ""
	if m.prompt != nil {
		return m.prompt.key(m, msg)
	}
	p := m.pane()
	if p == nil {
		if k == "q" || k == "esc" || k == "Q" {
			return m.leave()
		}
		return nil
	}
	if k == "esc" && m.progress != nil { // of what is loading in place of this
		m.cancel()
		m.progress = nil
		m.message = "not loaded"
		return nil
	}
	if cmd, ok := p.key(m, k); ok {
		return tea.Batch(cmd, m.settle())
	}
	return tea.Batch(m.common(k), m.settle())
}

// common does what a key does in every pane.
func (m *Model) common(k string) tea.Cmd {
	switch k {
	case "q", "esc", "left", "backspace":
		if len(m.panes) > 1 {
			m.pop()
			return nil
		}
		switch k {
		case "q":
			return m.leave()
		case "esc":
			m.prompt = &prompt{ask: "leave? (y or n) ", yes: (*Model).leave}
		}
	case "Q":
		return m.leave()
	case "?", "h", "f1":
		return m.push(helpPage(m.pane()))
	case "w":
		return m.push(m.notes())
	case "y":
		return m.copyView()
	}
	return nil
}

// ask asks for a line of text.
func (m *Model) ask(text string, done func(m *Model, text string) tea.Cmd) {
	m.prompt = &prompt{ask: text, done: done}
}

// most characters in a line of a prompt.
const maxPrompt = 1 << 10

func (p *prompt) add(text string) {
	for _, r := range text {
		if len(p.text) < maxPrompt && r >= ' ' && r != 0x7f {
			p.text = append(p.text, r)
		}
	}
}

func (p *prompt) key(m *Model, msg tea.KeyPressMsg) tea.Cmd {
	if p.yes != nil {
		m.prompt = nil
		if k := msg.String(); k == "y" || k == "Y" {
			return p.yes(m)
		}
		return nil
	}
	switch k := msg.String(); k {
	case "enter":
		m.prompt = nil
		return tea.Batch(p.done(m, string(p.text)), m.settle())
	case "esc":
		m.prompt = nil
	case "backspace", "ctrl+h":
		if len(p.text) > 0 {
			p.text = p.text[:len(p.text)-1]
		}
	case "ctrl+u":
		p.text = nil
	default:
		p.add(msg.Text)
	}
	return nil
}

// wheel scrolls.
func (m *Model) wheel(b tea.MouseButton) tea.Cmd {
	k := ""
	switch b {
	case tea.MouseWheelUp:
		k = "up"
	case tea.MouseWheelDown:
		k = "down"
	}
	p := m.pane()
	if p == nil || m.prompt != nil || k == "" {
		return nil
	}
	var all []tea.Cmd
	for range 3 {
		cmd, _ := p.key(m, k)
		all = append(all, cmd)
	}
	return tea.Batch(append(all, m.settle())...)
}

// click selects a line of the screen.
func (m *Model) click(y int) tea.Cmd {
	p := m.pane()
	if p == nil || m.prompt != nil {
		return nil
	}
	l := m.layout(p)
	lines, at := p.view(m, m.w, l.body)
	y -= l.top
	if at < 0 || y < 0 || y >= len(lines) {
		return nil
	}
	k := "down"
	if y < at {
		k = "up"
	}
	for range max(at-y, y-at) {
		p.key(m, k)
	}
	return m.settle()
}

// A frame says which lines of the screen are for what.
type frame struct {
	title, heading, status bool
	top, body              int // first line, and number of lines, of what is scrolled
}

// layout gives small screens to what is scrolled.
func (m *Model) layout(p pane) frame {
	f := frame{body: m.h}
	if f.body >= 3 {
		f.status = true
		f.body--
	}
	if f.body >= 3 {
		f.title = true
		f.top++
		f.body--
	}
	if p != nil && f.body >= 3 && p.heading(m) != "" {
		f.heading = true
		f.top++
		f.body--
	}
	return f
}

// View returns what is on the screen, not wider nor higher than it, and where
// the cursor stands: y is -1 if nowhere.
func (m *Model) View() (text string, x, y int) {
	if m.w <= 0 || m.h <= 0 {
		return "", 0, -1
	}
	p := m.pane()
	f := m.layout(p)
	var lines []string
	add := func(s string) { lines = append(lines, cut(s, 0, m.w)) }
	if f.title {
		add(m.bar(m.title()))
	}
	if f.heading {
		add(bold + cut(p.heading(m), 0, m.w) + plainText)
	}
	at := -1
	switch {
	case p == nil:
		for _, s := range m.loadingLines(f.body) {
			add(s)
		}
	default:
		var body []string
		body, at = p.view(m, m.w, f.body)
		for _, s := range body[:min(len(body), f.body)] {
			add(s)
		}
		if at >= 0 {
			at += f.top
		}
	}
	for len(lines) < m.h-btoi(f.status) {
		lines = append(lines, "")
	}
	lines = lines[:m.h-btoi(f.status)]
	x, y = 0, at
	if f.status {
		s, cx := m.lastLine()
		add(s)
		if cx >= 0 {
			x, y = min(cx, m.w-1), m.h-1
		}
	} else if m.prompt != nil {
		s, cx := m.lastLine()
		lines[m.h-1] = cut(s, 0, m.w)
		x, y = min(cx, m.w-1), m.h-1
	}
	text = strings.Join(lines, "\n")
	if m.o.ASCII {
		text = typeable(text)
	}
	return text, x, y
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// bar is a line that stands out from one end to the other.
func (m *Model) bar(s string) string { return reverse + pad(cut(s, 0, m.w), m.w) + plainText }

func (m *Model) title() string {
	if p := m.pane(); p != nil {
		return p.title(m)
	}
	return escape.Name(m.o.Title)
}

// lastLine returns the last line of the screen, and the column of the cursor
// in it, -1 for none.
func (m *Model) lastLine() (string, int) {
	switch {
	case m.prompt != nil:
		s := m.prompt.ask + escape.Name(string(m.prompt.text))
		if n := width(s) - m.w + 1; n > 0 {
			s = cut(s, n, m.w)
		}
		return s, width(s)
	case m.message != "":
		return m.bar(m.message), -1
	case m.pane() == nil:
		return m.bar("q leaves"), -1
	}
	s := m.pane().status(m)
	if m.progress != nil {
		s = m.progressText() + "  Esc stops that  " + s
	}
	return m.bar(s), -1
}

// progressText says how far what is loading is.
func (m *Model) progressText() string {
	what, n, size := m.progress.get()
	s := escape.Name(what)
	if size > 0 {
		s += fmt.Sprintf("  %d%%", 100*min(n, size)/size)
	} else if n > 0 {
		s += fmt.Sprintf("  %d MB", n/1e6)
	}
	return s
}

func (m *Model) loadingLines(h int) []string {
	if m.progress == nil {
		return nil
	}
	_, n, size := m.progress.get()
	out := []string{m.progressText()}
	if w := min(m.w-2, 60); size > 0 && w > 0 {
		full := int(min(n, size) * int64(w) / size)
		out = append(out, "["+strings.Repeat("#", full)+strings.Repeat(" ", w-full)+"]")
	}
	return out[:min(len(out), h)]
}

// Say returns what is selected, or what happens, in a line of plain text.
func (m *Model) Say() string {
	if m.o.ASCII {
		return typeable(m.words())
	}
	return m.words()
}

func (m *Model) words() string {
	switch {
	case m.prompt != nil:
		return m.prompt.ask + escape.Name(string(m.prompt.text))
	case m.message != "":
		return m.message
	case m.pane() == nil:
		if m.progress == nil {
			return ""
		}
		what, _, _ := m.progress.get()
		return escape.Name(what)
	}
	return m.pane().say(m)
}

// copyView copies what the pane shows, all of it that is on the screen, to the
// clipboard of the terminal, and to a file.
func (m *Model) copyView() tea.Cmd {
	text := m.viewText()
	copied := tea.SetClipboard(text)
	if m.o.Save == nil {
		m.message = "copied"
		return copied
	}
	return tea.Batch(copied, m.save("perf.view.*", text))
}

// viewText is the current view without colours.
func (m *Model) viewText() string {
	p := m.pane()
	lines := []string{p.title(m)}
	if h := p.heading(m); h != "" {
		lines = append(lines, h)
	}
	body, _ := p.view(m, m.w, m.layout(p).body)
	lines = append(lines, body...)
	for i, s := range lines {
		lines[i] = strings.TrimRight(strip(s), " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

// A savedMsg says that a file was written.
type savedMsg struct {
	name string
	err  error
}

func (s savedMsg) apply(m *Model) tea.Cmd {
	m.saving--
	m.insisted = false
	if s.err != nil {
		m.message = escape.Name(s.err.Error())
		return nil
	}
	m.message = escape.Name(s.name) + " written"
	return nil
}

// A callMsg is a message that does what it says itself.
type callMsg func(m *Model) tea.Cmd

func (f callMsg) apply(m *Model) tea.Cmd { return f(m) }

// openFiles asks which other recording is to be shown.
func (m *Model) openFiles() tea.Cmd {
	if m.o.Files == nil {
		return nil
	}
	return m.jobs.start(func(context.Context) tea.Msg {
		list := m.o.Files()
		return callMsg(func(m *Model) tea.Cmd {
			if len(list) == 0 {
				m.message = "no other recordings here"
				return nil
			}
			var items []item
			for _, name := range list {
				items = append(items, item{escape.Name(name), func(m *Model) tea.Cmd { return m.load(Request{File: name}) }})
			}
			return m.push(&menu{name: "show another recording", items: items})
		})
	})
}

// failed says what an error says, if it is none of leaving.
func (m *Model) failed(err error) {
	if !errors.Is(err, context.Canceled) {
		m.message = escape.Name(strings.ReplaceAll(err.Error(), "\n", " "))
	}
}
