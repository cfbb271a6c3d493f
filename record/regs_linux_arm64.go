package record

// hostRegs are the registers that samples have on this architecture: x0 to
// x29, lr, sp and pc (perf_regs.h).
var hostRegs = regMasks{user: 1<<33 - 1, intr: 1<<33 - 1}
