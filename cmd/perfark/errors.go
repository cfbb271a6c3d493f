package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// The exit statuses.
const (
	exitOK      = 0 // complete
	exitFailed  = 1 // failed, nothing usable written
	exitUsage   = 2 // wrong usage
	exitPartial = 3 // done, but partial: the message says what is missing
)

// An exitError ends a command with a status of its own. Without an error in it
// nothing is printed: the command has said what there is to say.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usagef returns an error for a wrong command line.
func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// partialf returns the error of a command that did its work on less than it
// was asked for; the message says what is missing.
func partialf(format string, args ...any) error {
	return &exitError{exitPartial, fmt.Errorf(format, args...)}
}

// A hintError adds advice to an error, printed on a line of its own.
type hintError struct {
	error
	hint string
}

func (e *hintError) Unwrap() error { return e.error }

// hintf adds a line of advice to err, without the word hint.
func hintf(err error, format string, args ...any) error {
	return &hintError{err, fmt.Sprintf(format, args...)}
}

// hints returns the advice in the chain of err, the outermost first.
func hints(err error) []string {
	var hs []string
	if errors.Is(err, syscall.EMFILE) {
		hs = append(hs, "raise the number of files that may be open: ulimit -n 1024")
	}
	for err != nil {
		if h, ok := errors.AsType[*hintError](err); ok {
			hs = append(hs, h.hint)
			err = h.error
			continue
		}
		break
	}
	return hs
}

// A signalError is the cause of a context that a signal cancelled.
type signalError struct{ sig os.Signal }

func (e *signalError) Error() string {
	if e.sig == os.Interrupt {
		return "interrupted"
	}
	return "stopped by signal: " + e.sig.String()
}

// exitCode returns the exit status for err.
func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if e, ok := errors.AsType[*signalError](err); ok {
		if s, ok := e.sig.(syscall.Signal); ok {
			return 128 + int(s)
		}
		return exitFailed
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	if errors.Is(err, context.Canceled) {
		return exitFailed
	}
	return exitFailed
}
