package browse

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
)

// A screenBuffer is what Run writes to.
type screenBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *screenBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *screenBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func options(in io.Reader, out io.Writer) Options {
	return Options{Title: "perf.data", In: in, Out: out, Env: []string{"TERM=xterm", "LANG=C.UTF-8"}}
}

// A panic of a piece of work, or of a key, is returned when the terminal is as
// it was.
func TestRunPanic(t *testing.T) {
	for name, load := range map[string]func() (*Data, error){
		"load": func() (*Data, error) { panic("work") },
		"code": func() (*Data, error) { return &Data{Tables: testData(true).Tables, Name: "x"}, nil },
	} {
		r, _ := io.Pipe()
		var out screenBuffer
		o := options(r, &out)
		o.Load = func(context.Context, Request, *Progress) (*Data, error) {
			d, err := load()
			if d != nil {
				d.Code = func(context.Context, Function) (*Code, error) { panic("code") }
			}
			return d, err
		}
		if name == "code" {
			o.Code = true
		}
		err := Run(t.Context(), o)
		p, ok := errors.AsType[*Panic](err)
		if !ok || len(p.Stack) == 0 {
			t.Errorf("%s: %v", name, err)
		}
		if s := out.String(); !strings.Contains(s, "\x1b[?1049h") || strings.LastIndex(s, "\x1b[?1049l") < strings.LastIndex(s, "\x1b[?1049h") {
			t.Errorf("%s: the alternate screen was not left: %q", name, s)
		}
	}
}

// Run ends with its context, and with a key; what was loaded is let go.
func TestRunEnds(t *testing.T) {
	for _, by := range []string{"context", "key", "end of input"} {
		r, w := io.Pipe() // the reader of files that tea uses has a race between its own ends
		var out screenBuffer
		o := options(r, &out)
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		why := errors.New("a signal")
		closed, loaded := false, make(chan bool)
		o.Load = func(context.Context, Request, *Progress) (*Data, error) {
			defer close(loaded)
			d := testData(true)
			d.Close = func() { closed = true }
			return d, nil
		}
		done := make(chan error)
		go func() { done <- Run(ctx, o) }()
		<-loaded
		for end := time.Now().Add(5 * time.Second); !strings.Contains(out.String(), "Samples:") && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
		}
		var want error
		switch by {
		case "context":
			cancel(why)
			want = why
		case "key":
			io.WriteString(w, "q")
		default:
			w.Close()
			cancel(why)
			want = why
		}
		select {
		case err := <-done:
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", by, err, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: goes on", by)
		}
		if !closed {
			t.Errorf("%s: data not closed", by)
		}
		if strings.Contains(out.String(), "\x1b[?2004h") {
			t.Errorf("%s: pasted text is asked for in brackets", by)
		}
	}
}

// The wheel scrolls, a click selects.
func TestMouse(t *testing.T) {
	d := newDriver(t, Options{Mouse: true}, 80, 24)
	d.screen()
	d.do(d.m.Update(tea.MouseClickMsg{X: 3, Y: 4}))
	if got, want := d.m.Say(), "row 3 of 9"; !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	d.do(d.m.Update(tea.MouseWheelMsg{Button: tea.MouseWheelDown}))
	d.do(d.m.Update(tea.MouseWheelMsg{Button: tea.MouseWheelUp}))
	d.do(d.m.Update(tea.MouseClickMsg{X: 3, Y: 23}))
	d.do(d.m.Update(tea.MouseClickMsg{X: 3, Y: 0}))
	if got, want := d.m.Say(), "row 3 of 9"; !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	d.screen()
}

// A call tree is that of the stacks; each sample counts once in a function that
// calls itself.
func TestCallTree(t *testing.T) {
	tree := newCallTree(t.Context(), testProfile(), []int32{0})
	hot := int32(-1)
	for i, n := range tree.names {
		if n == "hot" {
			hot = int32(i)
		}
	}
	callers, callees, self, total := tree.around(hot)
	if len(callers) != 1 || tree.names[callers[0].name] != "main" || callers[0].total != 70000 {
		t.Errorf("callers %v", callers)
	}
	if len(callees) != 1 || tree.names[callees[0].name] != "memcpy" || callees[0].total != 20000 {
		t.Errorf("callees %v", callees)
	}
	if self != 50000 || total != 70000 || tree.nodes[0].total != 100000 {
		t.Errorf("self %d, total %d of %d", self, total, tree.nodes[0].total)
	}
}
