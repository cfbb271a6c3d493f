package record

// HostRegs are the registers that samples have on this architecture: x0 to
// x29, lr, sp and pc (perf_regs.h).
var HostRegs = Regs{User: 1<<33 - 1, Intr: 1<<33 - 1, Unwind: 1<<31 | 1<<32}
