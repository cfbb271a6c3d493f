package main

import (
	"strconv"
	"strings"
)

// registerName returns the name of a register of sample_regs_user and
// sample_regs_intr, as perf prints it: arch/*/include/uapi/asm/perf_regs.h.
func registerName(arch string, r int) string {
	numbered := func(prefix string, from int) string { return prefix + strconv.Itoa(r-from) }
	switch {
	case arch == "x86_64" || arch == "i386" || arch == "i586" || arch == "i686" || arch == "x86":
		names := [...]string{"AX", "BX", "CX", "DX", "SI", "DI", "BP", "SP", "IP", "FLAGS", "CS", "SS", "DS", "ES", "FS", "GS"}
		switch {
		case r < len(names):
			return names[r]
		case r < 24:
			return numbered("R", 8)
		case r >= 32:
			return "XMM" + strconv.Itoa((r-32)/2)
		}
	case arch == "aarch64" || arch == "arm64":
		switch {
		case r < 30:
			return numbered("x", 0)
		case r == 30:
			return "lr"
		case r == 31:
			return "sp"
		case r == 32:
			return "pc"
		case r == 46:
			return "vg"
		}
	case strings.HasPrefix(arch, "arm"):
		switch {
		case r < 11:
			return numbered("r", 0)
		case r < 16:
			return [...]string{"fp", "ip", "sp", "lr", "pc"}[r-11]
		}
	case strings.HasPrefix(arch, "riscv"):
		names := [...]string{
			"pc", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7",
			"s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
		}
		if r < len(names) {
			return names[r]
		}
	case strings.HasPrefix(arch, "ppc") || strings.HasPrefix(arch, "powerpc"):
		names := [...]string{"nip", "msr", "orig_gpr3", "ctr", "link", "xer", "ccr", "softe", "trap", "dar", "dsisr", "sier", "mmcra"}
		switch {
		case r < 32:
			return numbered("r", 0)
		case r-32 < len(names):
			return names[r-32]
		}
	case strings.HasPrefix(arch, "s390"):
		switch {
		case r < 16:
			return numbered("R", 0)
		case r < 32:
			return numbered("FP", 16)
		case r == 32:
			return "MASK"
		case r == 33:
			return "PC"
		}
	case strings.HasPrefix(arch, "mips"):
		switch {
		case r == 0:
			return "PC"
		case r < 32:
			return "$" + strconv.Itoa(r)
		}
	case strings.HasPrefix(arch, "loongarch"):
		switch {
		case r == 0:
			return "PC"
		case r < 32:
			return "$r" + strconv.Itoa(r)
		}
	}
	return "unknown"
}
