package browse

import (
	"context"
	"fmt"
	"io"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/perfark/perfark/internal/escape"
)

func strip(s string) string { return ansi.Strip(s) }

// A scroller is a place in a list: the line that is selected, the first that is
// on the screen, and how many columns are out of it at the left.
type scroller struct{ at, top, left int }

// key moves in a list of n lines of which h are on the screen.
func (s *scroller) key(k string, n, h int) bool {
	switch k {
	case "up":
		s.at--
	case "down":
		s.at++
	case "pgup", "ctrl+b":
		s.at -= max(h-1, 1)
	case "pgdown", "ctrl+f", "space":
		s.at += max(h-1, 1)
	case "home", "g":
		s.at = 0
	case "end", "G":
		s.at = n - 1
	case "right":
		s.left += 10
	case "left":
		if s.left == 0 {
			return false
		}
		s.left = max(s.left-10, 0)
	default:
		return false
	}
	s.fit(n, h)
	return true
}

// fit has the selected line be in the list, and on the screen.
func (s *scroller) fit(n, h int) {
	s.at = max(min(s.at, n-1), 0)
	s.top = max(min(s.top, s.at), s.at-max(h, 1)+1, 0)
}

// A textPane is a page of text.
type textPane struct {
	name  string
	text  []string // safe to print
	lines []string // the same, none longer than wide
	wide  int
	scroller
	height int
	busy   bool
}

// wrap breaks lines that are longer than the screen is wide.
func (p *textPane) wrap(w int) {
	if p.wide == w {
		return
	}
	p.wide, p.lines = w, nil
	for _, s := range p.text {
		p.lines = append(p.lines, wrap(s, w)...)
	}
}

// page shows text that takes a while to find out.
func (m *Model) page(name string, f func(ctx context.Context) (string, error)) tea.Cmd {
	p := &textPane{name: escape.Name(name), busy: true}
	return tea.Batch(m.push(p), m.jobs.start(func(ctx context.Context) tea.Msg {
		text, err := f(ctx)
		return callMsg(func(m *Model) tea.Cmd {
			p.busy = false
			if err != nil {
				if m.pane() == p {
					m.pop()
				}
				m.failed(err)
				return nil
			}
			p.text, p.wide = safe(text), 0
			return nil
		})
	}))
}

func (p *textPane) title(*Model) string   { return p.name }
func (p *textPane) heading(*Model) string { return "" }

func (p *textPane) view(m *Model, w, h int) ([]string, int) {
	if p.busy {
		return []string{"looking"}, -1
	}
	p.height = h
	p.wrap(w)
	p.fit(len(p.lines), h)
	var out []string
	for i := p.top; i < len(p.lines) && len(out) < h; i++ {
		s := cut(p.lines[i], p.left, w)
		if i == p.at {
			s = m.bar(s)
		}
		out = append(out, s)
	}
	return out, p.at - p.top
}

func (p *textPane) key(m *Model, k string) (tea.Cmd, bool) {
	p.wrap(m.w)
	switch k {
	case "j":
		k = "down"
	case "k":
		k = "up"
	case "/":
		m.ask("search: ", func(m *Model, text string) tea.Cmd {
			m.search = text
			p.find(m, 1)
			return nil
		})
		return nil, true
	case "n", "N":
		p.find(m, map[string]int{"n": 1, "N": -1}[k])
		return nil, true
	case "right":
		return nil, true // nothing is out there
	case "P":
		return m.save("perf.page.*", strings.Join(p.text, "\n")+"\n"), true
	}
	return nil, p.scroller.key(k, len(p.lines), p.height)
}

// find goes to the next line with what is looked for, by steps of one line.
func (p *textPane) find(m *Model, step int) {
	if m.search == "" {
		return
	}
	want := strings.ToLower(m.search)
	for i := 1; i <= len(p.lines); i++ {
		at := (p.at + step*i + 2*len(p.lines)) % len(p.lines)
		if strings.Contains(strings.ToLower(p.lines[at]), want) {
			p.at = at
			p.fit(len(p.lines), p.height)
			return
		}
	}
	m.message = "not found: " + escape.Name(m.search)
}

func (p *textPane) status(m *Model) string {
	return fmt.Sprintf("line %d of %d  q goes back", min(p.at+1, len(p.lines)), len(p.lines))
}

func (p *textPane) say(m *Model) string {
	p.wrap(m.w)
	switch {
	case p.busy:
		return p.name + ": looking"
	case p.at < len(p.lines):
		return p.lines[p.at]
	}
	return p.name
}

func (p *textPane) help() []keyHelp {
	return []keyHelp{{"/  n  N", "search, to the next, to the one before"}, {"P", "print the page to a file"}}
}

// save writes text to a file.
func (m *Model) save(name, text string) tea.Cmd {
	return m.saveAs(name, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

func (m *Model) saveAs(name string, write func(w io.Writer) error) tea.Cmd {
	if m.o.Save == nil {
		m.message = "no files are written here"
		return nil
	}
	m.saving++
	m.message = "writing " + strings.TrimSuffix(name, ".*")
	return m.jobs.start(func(ctx context.Context) tea.Msg {
		name, err := m.o.Save(name, func(w io.Writer) error { return write(stopping{ctx, w}) })
		return savedMsg{name, err}
	})
}

// A stopping writes until its context is done: a long file is no reason to
// stay.
type stopping struct {
	ctx context.Context
	w   io.Writer
}

func (s stopping) Write(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.w.Write(p)
}

// commonHelp is what keys do in every pane.
var commonHelp = []keyHelp{
	{"Up Down", "the line above, below"},
	{"PgUp PgDn Space", "a page up, down"},
	{"Home End g G", "the first, the last line"},
	{"Left Right", "scroll sideways; Left goes back, too"},
	{"q Esc", "go back; leave"},
	{"Q Ctrl-C", "leave from anywhere"},
	{"Ctrl-Z", "stop; fg goes on"},
	{"y", "copy what is on the screen, to the clipboard and to a file"},
	{"w", "what was said meanwhile, and is worth a look"},
	{"h F1", "this page"},
}

func helpPage(of pane) pane {
	var lines []string
	for _, k := range append(of.help(), commonHelp...) {
		lines = append(lines, "  "+pad(k.keys, 18)+k.what)
	}
	return &textPane{name: "keys", text: lines}
}

// notes is a page of what was said since the browser began.
func (m *Model) notes() pane {
	var lines []string
	if m.o.Notes != nil {
		for _, s := range m.o.Notes() {
			lines = append(lines, safe(s)...)
		}
	}
	if len(lines) == 0 {
		lines = []string{"nothing was said"}
	}
	return &textPane{name: "notes", text: lines}
}

// A menu is a list of what can be done.
type menu struct {
	name  string
	items []item
	scroller
	height int
}

type item struct {
	text string // safe to print
	do   func(m *Model) tea.Cmd
}

func (p *menu) title(*Model) string   { return p.name }
func (p *menu) heading(*Model) string { return "" }
func (p *menu) status(*Model) string  { return "Enter does it  q goes back" }

func (p *menu) view(m *Model, w, h int) ([]string, int) {
	p.height = h
	p.fit(len(p.items), h)
	var out []string
	for i := p.top; i < len(p.items) && len(out) < h; i++ {
		s := "  " + cut(p.items[i].text, p.left, w-2)
		if i == p.at {
			s = m.bar(s)
		}
		out = append(out, s)
	}
	return out, p.at - p.top
}

func (p *menu) key(m *Model, k string) (tea.Cmd, bool) {
	switch k {
	case "enter":
		m.pop()
		if p.at < len(p.items) {
			return p.items[p.at].do(m), true
		}
		return nil, true
	case "j":
		k = "down"
	case "k":
		k = "up"
	}
	return nil, p.scroller.key(k, len(p.items), p.height)
}

func (p *menu) say(*Model) string {
	if p.at < len(p.items) {
		return p.items[p.at].text
	}
	return p.name
}

func (p *menu) help() []keyHelp { return []keyHelp{{"Enter", "do what is selected"}} }
