//go:build linux && !amd64 && !arm64

package record

// HostRegs are the registers that samples have on this architecture: the first
// 32 of perf_regs.h, and with them the program counter of those that have it
// first.
var HostRegs = Regs{User: 1<<32 - 1, Intr: 1<<32 - 1}
