//go:build !linux

package perftest

import "testing"

// Exclusive does nothing: perf records on Linux alone.
func Exclusive(testing.TB) {}

// Shared does nothing: perf records on Linux alone.
func Shared(testing.TB) {}

// Alone does nothing: these tests run on Linux alone.
func Alone(testing.TB, string) {}

func lockRecording(testing.TB, string, []string) func() { return func() {} }
