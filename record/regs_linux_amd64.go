package record

// hostRegs are the registers that samples have on this architecture: all of
// user space but the segments that the kernel does not give (perf_regs.h).
var hostRegs = regMasks{user: 0xff0fff, intr: 0xff0fff}
