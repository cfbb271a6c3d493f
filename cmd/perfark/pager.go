package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// A pager is a program that standard output goes through.
type pager struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

// startPager sends standard output through a pager, if it is a terminal and
// one is wanted: $PERF_PAGER, $PAGER, else less where it is installed, as perf
// does. "cat" and --no-pager want none.
func (a *app) startPager() {
	stdout, ok := a.out.w.(*os.File)
	if !ok || !isTerminal(stdout) || a.noPager || a.env.pager == "cat" || a.env.term == "dumb" {
		return
	}
	line := a.env.pager
	if line == "" {
		less, err := exec.LookPath("less")
		if err != nil {
			return
		}
		line = less
	}
	c := exec.Command("sh", "-c", line)
	c.Env = append(os.Environ(), "LESS=FRSX")
	c.Stdout, c.Stderr = stdout, os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		return
	}
	if err := c.Start(); err != nil {
		in.Close()
		return
	}
	a.pager = &pager{c, in}
	a.out.w = in
}

// stopPager waits for the pager to be left. Its exit status says nothing
// about the data, unless it could not be run: then nobody has seen them.
func (a *app) stopPager() error {
	if a.pager == nil {
		return nil
	}
	p := a.pager
	a.pager = nil
	p.in.Close()
	err := p.cmd.Wait()
	const cannotRun, notFound = 126, 127 // of the shell
	if e, ok := errors.AsType[*exec.ExitError](err); ok && (e.ExitCode() == cannotRun || e.ExitCode() == notFound) {
		return hintf(fmt.Errorf("pager %q cannot be run", p.cmd.Args[len(p.cmd.Args)-1]), "set PAGER to another, or use --no-pager")
	}
	return nil
}
