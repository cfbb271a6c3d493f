package record

// HostRegs are the registers that samples have on this architecture: all of
// user space but the segments that the kernel does not give (perf_regs.h).
var HostRegs = Regs{User: 0xff0fff, Intr: 0xff0fff, Unwind: 1<<7 | 1<<8}
