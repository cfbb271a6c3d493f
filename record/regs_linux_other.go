//go:build linux && !amd64 && !arm64

package record

// hostRegs are the registers that samples have on this architecture: the first
// 32 of perf_regs.h, and with them the program counter of those that have it
// first.
var hostRegs = regMasks{user: 1<<32 - 1, intr: 1<<32 - 1}
