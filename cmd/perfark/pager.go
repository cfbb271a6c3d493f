package main

import (
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
// about the data.
func (a *app) stopPager() {
	if a.pager == nil {
		return
	}
	a.pager.in.Close()
	_ = a.pager.cmd.Wait()
	a.pager = nil
}
