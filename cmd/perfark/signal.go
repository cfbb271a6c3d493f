package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/term"
)

// grace is how long a command may take to stop after a signal.
const grace = 900 * time.Millisecond

// patient is set by a command that completes what it has begun, however long
// that takes: only a second signal makes it go.
var patient atomic.Bool

// temps are the names of files and directories to remove if the process has to
// go before the command that made them can.
var temps struct {
	sync.Mutex
	names map[string]bool
}

// keepTemp has name removed if the process is made to exit, until the
// returned function is called. Commands hand it to packages that write files.
func keepTemp(name string) (forget func()) {
	temps.Lock()
	defer temps.Unlock()
	if temps.names == nil {
		temps.names = make(map[string]bool)
	}
	temps.names[name] = true
	return func() {
		temps.Lock()
		defer temps.Unlock()
		delete(temps.names, name)
	}
}

func removeTemps() {
	temps.Lock()
	defer temps.Unlock()
	for name := range temps.names {
		os.RemoveAll(name)
	}
}

// screen gives the terminal back if the process has to go before the browser
// that has it.
var screen struct {
	sync.Mutex
	leave func()
}

// keepScreen has leaveScreen bring the terminal to the state it is in, until
// the returned function is called. What SIGQUIT prints is printed on a terminal
// in that state, too.
func keepScreen(in, out *os.File) (forget func()) {
	state, err := term.GetState(int(in.Fd()))
	set := func(f func()) {
		screen.Lock()
		defer screen.Unlock()
		screen.leave = f
	}
	set(func() {
		// No mouse, no marks around pasted text, keys as ever, the other screen, the cursor and its shape.
		io.WriteString(out, "\x1b[?1002l\x1b[?1006l\x1b[?2004l\x1b[>4m\x1b[<1u\x1b[?1049l\x1b[?25h\x1b[0 q\x1b[m")
		if err == nil {
			term.Restore(int(in.Fd()), state)
		}
	})
	quit, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(quit, syscall.SIGQUIT)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-quit:
			leaveScreen()
			signal.Reset(syscall.SIGQUIT)
			syscall.Kill(os.Getpid(), syscall.SIGQUIT)
		case <-done:
		}
	})
	return func() {
		signal.Stop(quit)
		close(done)
		wg.Wait()
		set(nil)
	}
}

func leaveScreen() {
	screen.Lock()
	defer screen.Unlock()
	if screen.leave != nil {
		screen.leave()
	}
}

// notify returns a context that the first SIGINT, SIGTERM or SIGHUP cancels
// with a *signalError. A second one, or a command that does not stop within
// the grace, ends the process. SIGPIPE is turned into EPIPE of the write.
func notify() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	sigs := make(chan os.Signal, 2)
	signal.Notify(sigs, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	signal.Ignore(syscall.SIGPIPE)
	done := make(chan struct{})
	go func() {
		var sig os.Signal
		select {
		case sig = <-sigs:
		case <-done:
			return
		}
		cancel(&signalError{sig})
		timer := time.NewTimer(grace)
		defer timer.Stop()
		over := timer.C
		if patient.Load() {
			over = nil
		}
		select {
		case <-sigs:
		case <-over:
		case <-done:
			return
		}
		removeTemps()
		leaveScreen()
		os.Exit(exitCode(&signalError{sig}))
	}()
	return ctx, func() {
		signal.Stop(sigs)
		close(done)
		cancel(nil)
	}
}
