package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"sync"
)

// collectFrom is how much memory a command may take before garbage is
// collected at all, in bytes. Most are done before: looking through a small heap
// again and again would be a third of their time.
const collectFrom = 64 << 20

// collectLate says that garbage be collected when the process takes collectFrom
// bytes, and from then on whenever the heap grew by percent. The function that
// it returns undoes it.
func collectLate(percent int) func() {
	limit := debug.SetMemoryLimit(-1)
	if limit < math.MaxInt64 {
		old := debug.SetGCPercent(percent) // the user has a limit already
		return func() { debug.SetGCPercent(old) }
	}
	old := debug.SetGCPercent(-1)
	debug.SetMemoryLimit(collectFrom)
	var mu sync.Mutex
	done := false
	unlimit := func() {
		if debug.SetMemoryLimit(-1) == collectFrom {
			debug.SetMemoryLimit(limit)
		}
	}
	// What nobody refers to is cleaned up when it is first collected.
	runtime.AddCleanup(new([32]byte), func(percent int) {
		mu.Lock()
		defer mu.Unlock()
		if !done {
			done = true
			debug.SetGCPercent(percent)
			unlimit()
		}
	}, percent)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		done = true
		debug.SetGCPercent(old)
		unlimit()
	}
}
