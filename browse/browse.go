// Package browse shows a report on a terminal: rows that open into their
// callers, the code of functions, flame graphs, and the pages that go with
// them, under the keys of perf report.
//
// It reads no files. What it shows comes from the functions in Options and
// Data, which run beside the screen: keys never wait for them. A Model is what
// is on the screen; Run connects one with a terminal.
package browse

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"golang.org/x/term"

	"github.com/perfark/perfark/annotate"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/report"
)

// Options are what a browser is given. Load is needed; for what else is nil
// there is no key.
type Options struct {
	Title string // of the recording, until Load has returned

	// Load loads what the request asks for. It says through progress how far it
	// is; its context is done when nobody waits for it any more.
	Load func(ctx context.Context, r Request, progress *Progress) (*Data, error)

	Files func() []string // other recordings that Load can be asked for

	// Save writes a file and returns its name. name may have a * in it, which
	// stands for the first number that is not taken. If write fails, there is no
	// file.
	Save func(name string, write func(io.Writer) error) (string, error)

	Notes func() []string // what was said since Run began, that is to be read

	Code   bool   // begin with the code of a function
	Symbol string // of this one; "" for the hottest

	Value    annotate.Value       // what stands in front of instructions at first
	Percent  annotate.PercentType // what percentages there are of
	NoSource bool                 // no source lines at first

	NoColor bool // no colours; what is selected is still marked
	ASCII   bool // the terminal may not know how to draw lines
	Plain   bool // a line for each change, in the order of time: for those who listen
	Mouse   bool // the wheel scrolls, a click selects; then the terminal itself does not

	// Stop stops the process until it is continued: all that belongs to it, if a
	// key wants it, or only the process, if it was sent for with Stopped. It is
	// called when the terminal is as it was before Run. nil: there is no key.
	Stop      func(by Stopper)
	CanStop   func() bool      // whether there is who continues it; nil: there is
	Stopped   <-chan os.Signal // that ask to stop
	Continued <-chan os.Signal // that say that the process was stopped and goes on

	In  io.Reader // of the terminal
	Out io.Writer
	Env []string // of the process: TERM and the like
}

// A Stopper is who has the process stop.
type Stopper uint8

// The stoppers.
const (
	ByKey Stopper = iota
	BySignal
)

// A Request says what is to be loaded.
type Request struct {
	File  string // "" for the recording that Run began with
	Times string // the part of it, as --time has it; "" for all
}

// Progress says how far a piece of work is. Its methods may be called from
// many goroutines.
type Progress struct {
	what    atomic.Pointer[string]
	n, size atomic.Int64
}

// Set says what is being done, how much of it is done, and of how much in all:
// 0 if that is not known.
func (p *Progress) Set(what string, n, size int64) {
	if p == nil {
		return
	}
	if last := p.what.Load(); last == nil || *last != what {
		p.what.Store(&what)
	}
	p.n.Store(n)
	p.size.Store(size)
}

func (p *Progress) get() (what string, n, size int64) {
	if s := p.what.Load(); s != nil {
		what = *s
	}
	return what, p.n.Load(), p.size.Load()
}

// Data is a recording that was loaded. For what is nil there is no key.
type Data struct {
	Name    string
	Tables  []*report.Table
	Page    report.PageOptions // how rows are written
	Profile *profile.Profile   // with the stacks that the tables are of

	// Code lists the code of a function with samples or without: see Function.
	Code func(ctx context.Context, f Function) (*Code, error)

	// Timeline counts samples by time, in so many parts of the same length.
	Timeline func(ctx context.Context, parts int) (*Timeline, error)

	// Samples prints samples as perf script does: those of a selection. nil: the
	// recording cannot be read again, as one from a pipe.
	Samples func(ctx context.Context, s Selection) (string, error)

	Pages []Page // that are shown before the table

	Info   func() (string, error)                    // the header of the recording
	Doctor func(ctx context.Context) (string, error) // what is lost, and what helps

	Close func() // called once, when nothing of it is shown any more
}

// A Selection says which samples are meant: those of all that is set in it.
type Selection struct {
	Symbol string // of the function that was sampled
	Comm   string
	DSO    string // short name
	Event  string // name
}

// A Page is text under a title.
type Page struct{ Name, Text string }

// A Function says which function is meant: that of an object which begins at
// an address, or if Object is profile.None the first of a name, or if that is
// "" the one with the most samples.
type Function struct {
	Object int32
	Start  uint64 // in the space of profile.Location.Addr
	Symbol string
}

// noStart is the Start of a function that goes by object and name.
const noStart = ^uint64(0)

// Is reports whether a function of an object is the one that is meant.
func (f *Function) Is(object int32, fn *profile.Function) bool {
	switch {
	case f.Object == profile.None:
		return f.Symbol == "" || fn.Name == f.Symbol || fn.Linkage == f.Symbol
	case f.Object != object:
		return false
	case f.Start != noStart && !fn.Inlined:
		return fn.Start == f.Start
	}
	return fn.Name == f.Symbol || fn.Linkage == f.Symbol
}

// Code is the code of a function.
type Code struct {
	Name    string           // of the function
	Object  string           // name of the object
	Lines   []annotate.Line  // its instructions
	Total   []annotate.Count // what was counted in it, by event
	Events  []profile.Event  // what Total and Lines count
	Sources map[string][]string
	Notices []string // what the reader is to know of it

	Size   uint64           // of the function, in bytes; 0 for that of Lines
	Memory uint64           // what is added to an address of Lines to get one in memory
	Timing *annotate.Timing // how long Lines took; nil if that is not known

	// Print writes it as text, for the key that makes a file of it.
	Print func(w io.Writer) error
}

// A Timeline is how many samples were taken when.
type Timeline struct {
	Start, End uint64 // ns
	Counts     []uint64
}

// A panicMsg is what a piece of work died of.
type panicMsg struct {
	value any
	stack []byte
}

// A Panic is what Run returns if there was one, which is a fault: the terminal
// is as it was.
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("internal error: %v", p.Value) }

// jobs are pieces of work beside the screen.
type jobs struct {
	ctx context.Context
	wg  sync.WaitGroup
}

// start begins a piece of work. What it returns comes as a message.
func (j *jobs) start(f func(ctx context.Context) tea.Msg) tea.Cmd {
	done := make(chan tea.Msg, 1)
	j.wg.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				done <- panicMsg{p, debug.Stack()}
			}
		}()
		done <- f(j.ctx)
	})
	return func() tea.Msg {
		select {
		case msg := <-done:
			return msg
		case <-j.ctx.Done():
			return nil
		}
	}
}

// patience is how long a user who leaves waits for work that does not stop.
const patience = 300 * time.Millisecond

// ended waits for all work to end, and reports whether it did. A call tree that
// is being made can take longer than anybody wants to wait.
func (j *jobs) ended() bool {
	done := make(chan bool)
	go func() {
		j.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(patience):
		return false
	}
}

// A program is a Model that tea can run: it sees to it that a panic does not
// leave the terminal in a state, and in the plain mode writes what changed.
type program struct {
	m       *Model
	panic   *Panic
	plain   io.Writer
	said    string
	stopped atomic.Bool   // by us: who continues it need not be said
	raw     func(on bool) // has keys come one by one, or not
}

func (p *program) Init() tea.Cmd {
	p.say()
	return p.m.Init()
}

func (p *program) Update(msg tea.Msg) (_ tea.Model, cmd tea.Cmd) {
	defer func() {
		if v := recover(); v != nil {
			p.panic = &Panic{v, debug.Stack()}
			cmd = tea.Quit
		}
	}()
	if died, ok := msg.(panicMsg); ok {
		p.panic = &Panic{died.value, died.stack}
		return p, tea.Quit
	}
	switch msg := msg.(type) {
	case tea.KeyPressMsg:
		if msg.String() == "ctrl+z" {
			return p, p.stop(ByKey)
		}
	case stopMsg:
		return p, p.stop(BySignal)
	case continuedMsg: // whoever stopped the process has changed the terminal
		return p, p.pause(func() {})
	case resumedMsg:
		if p.raw != nil {
			p.raw(true)
		}
		p.said = ""
		p.say()
		return p, tea.ClearScreen // all is drawn anew
	}
	cmd = p.m.Update(msg)
	p.say()
	return p, cmd
}

// What signals say, and that the terminal is ours again.
type (
	stopMsg      struct{}
	continuedMsg struct{}
	resumedMsg   struct{}
)

// stop stops the process.
func (p *program) stop(by Stopper) tea.Cmd {
	if p.m.o.Stop == nil || p.m.o.CanStop != nil && !p.m.o.CanStop() {
		p.m.message = "nobody could continue what is stopped here"
		p.say()
		return nil
	}
	return p.pause(func() {
		p.stopped.Store(true)
		p.m.o.Stop(by)
	})
}

// pause gives the terminal back while f runs.
func (p *program) pause(f func()) tea.Cmd {
	if p.raw != nil {
		p.raw(false)
	}
	return tea.Exec(paused(f), func(error) tea.Msg { return resumedMsg{} })
}

// A paused is what is done while the terminal is as it was before.
type paused func()

func (f paused) Run() error        { f(); return nil }
func (paused) SetStdin(io.Reader)  {}
func (paused) SetStdout(io.Writer) {}
func (paused) SetStderr(io.Writer) {}

// say writes what is selected if that is not what was.
func (p *program) say() {
	if p.plain == nil {
		return
	}
	text := p.m.Say()
	if text == p.said || text == "" {
		return
	}
	p.said = text
	io.WriteString(p.plain, text+"\r\n")
}

func (p *program) View() (v tea.View) {
	v.AltScreen = true
	// Where the end of pasted text is lost, as on a slow line, all keys after it
	// would be.
	v.DisableBracketedPasteMode = true
	if p.plain != nil {
		v.AltScreen = false
		return v
	}
	if p.panic != nil {
		return v
	}
	defer func() {
		if r := recover(); r != nil {
			p.panic = &Panic{r, debug.Stack()}
		}
	}()
	text, x, y := p.m.View()
	v.Content = text
	if y >= 0 {
		v.Cursor = tea.NewCursor(x, y)
		v.Cursor.Blink = false
	}
	if p.m.o.Mouse {
		v.MouseMode = tea.MouseModeCellMotion
	}
	return v
}

// Run shows a browser until its user leaves it, or the context is done. The
// error is that of Load if there was nothing to show. When it returns the
// terminal is as it was, and nothing runs any more but what cannot be stopped
// and takes long: then Data.Close is not called.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := New(ctx, o)
	p := &program{m: m}
	colors := colorprofile.ANSI
	if o.NoColor {
		colors = colorprofile.ASCII
	}
	opts := []tea.ProgramOption{
		tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithEnvironment(o.Env),
		tea.WithoutSignalHandler(), tea.WithColorProfile(colors), tea.WithFPS(30),
	}
	if f, ok := o.Out.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		opts = append(opts, tea.WithWindowSize(m.w, m.h)) // which nobody else says
	}
	if o.Plain {
		p.plain = o.Out
		opts = append(opts, tea.WithoutRenderer())
		if f, ok := o.In.(*os.File); ok {
			fd := int(f.Fd())
			var was *term.State
			p.raw = func(on bool) {
				switch {
				case on && was == nil:
					was, _ = term.MakeRaw(fd)
				case !on && was != nil:
					term.Restore(fd, was)
					was = nil
				}
			}
			p.raw(true)
			defer p.raw(false)
		}
	}
	screen := tea.NewProgram(p, opts...)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-o.Stopped:
				screen.Send(stopMsg{})
			case <-o.Continued:
				if !p.stopped.Swap(false) { // else pause comes to its end
					screen.Send(continuedMsg{})
				}
			case <-ctx.Done():
				return
			}
		}
	})
	_, err := screen.Run()
	cancel()
	wg.Wait()
	if m.jobs.ended() {
		m.close()
	}
	switch {
	case p.panic != nil:
		return p.panic
	case m.err != nil:
		return m.err
	case context.Cause(ctx) != nil && err != nil && !m.quit:
		return context.Cause(ctx)
	}
	return err
}
