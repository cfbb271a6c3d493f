//go:build !linux

package record

import (
	"context"
	"errors"
	"os"

	"github.com/perfark/perfark/perfdata"
)

// HostRegs are the registers that samples have: none.
var HostRegs Regs

// Stats are what a recording came to: here there is none.
type Stats struct {
	Begun, Ran, SizeReached, KernelHidden                          bool
	Samples, Bytes, Compressed, Lost, LostRecords, Gaps, Throttled uint64
	Size                                                           int64
	Wakeups, Status                                                int
	Copies                                                         CopyStats
	Notes                                                          []string
}

// Waiting reports whether this process waits to become another program: never.
func Waiting() bool { return false }

// Wait does nothing.
func Wait() {}

// Attrs says that only Linux has perf events.
func Attrs(Options) ([]perfdata.EventDesc, error) {
	return nil, errors.New("only Linux can be recorded")
}

// Run says that only Linux has perf events.
func Run(context.Context, *os.File, Options, func(string, ...any)) (*Stats, error) {
	return nil, errors.New("only Linux can be recorded")
}
