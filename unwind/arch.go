package unwind

import (
	"strings"

	"github.com/perfark/perfark/objfile"
)

// An Arch is a set of registers: that of a process, not that of a machine, on
// which there may be processes of 32 bits.
type Arch uint8

// The architectures whose stacks can be unwound. NoArch is none.
const (
	NoArch Arch = iota
	X86_64
	I386
	ARM64
	ARM
	RISCV64
	S390X
	PPC64
	MIPS64
	LoongArch64
)

// ABIs of the registers of a sample (enum perf_sample_regs_abi).
const (
	ABINone = 0
	ABI32   = 1
	ABI64   = 2
)

// ArchOf returns the architecture of a process on a machine, as the recording
// names it (uname -m), whose registers have an ABI of 32 or 64 bits.
func ArchOf(machine string, abi uint64) Arch {
	narrow := abi == ABI32
	switch machine {
	case "x86_64", "i386", "i486", "i586", "i686":
		if narrow {
			return I386
		}
		return X86_64
	case "aarch64", "arm64":
		if narrow {
			return ARM
		}
		return ARM64
	case "riscv64", "s390x", "ppc64", "ppc64le", "mips64", "loongarch64":
		if narrow {
			return NoArch
		}
		return map[string]Arch{"riscv64": RISCV64, "s390x": S390X, "ppc64": PPC64, "ppc64le": PPC64, "mips64": MIPS64, "loongarch64": LoongArch64}[machine]
	}
	if strings.HasPrefix(machine, "arm") && narrow {
		return ARM
	}
	return NoArch
}

func (a Arch) bits32() bool { return a == I386 || a == ARM }

// A spec is what differs between architectures.
type spec struct {
	machine objfile.Machine
	perf    []int8 // DWARF number by the kernel's number; -1 for none
	perfPC  int    // the kernel's number of the program counter
	sp      uint64 // DWARF number of the stack pointer
	ra      int    // the column of the return address, where a CIE does not say
	fp      uint64 // of the frame pointer
}

func (s *spec) dwarf(perf int) int {
	if perf < 0 || perf >= len(s.perf) {
		return -1
	}
	return int(s.perf[perf])
}

func (a Arch) spec() *spec {
	if int(a) < len(specs) {
		return specs[a]
	}
	return nil
}

// numbered returns the numbers from to, to+1, … of n registers.
func numbered(to, n int) []int8 {
	out := make([]int8, n)
	for i := range out {
		out[i] = int8(to + i)
	}
	return out
}

// pcFirst is the layout of the kernels that put the program counter before
// registers 1 to 31.
func pcFirst() []int8 { return append([]int8{-1}, numbered(1, 31)...) }

// specs is by Arch. Sources: arch/*/include/uapi/asm/perf_regs.h, and the
// psABI of each architecture.
var specs = [...]*spec{
	X86_64: {
		machine: objfile.MachineX86_64, // ax bx cx dx si di bp sp ip flags cs ss ds es fs gs r8 to r15
		perf:    append([]int8{0, 3, 2, 1, 4, 5, 6, 7, 16, -1, -1, -1, -1, -1, -1, -1}, numbered(8, 8)...),
		perfPC:  8, sp: 7, ra: 16, fp: 6,
	},
	I386:  {machine: objfile.Machine386, perf: []int8{0, 3, 1, 2, 6, 7, 5, 4, 8}, perfPC: 8, sp: 4, ra: 8, fp: 5},
	ARM64: {machine: objfile.MachineAArch64, perf: numbered(0, 32), perfPC: 32, sp: 31, ra: 30, fp: 29},
	ARM:   {machine: objfile.MachineARM, perf: numbered(0, 15), perfPC: 15, sp: 13, ra: 14, fp: 11},
	RISCV64: {
		machine: objfile.MachineRISCV, perf: pcFirst(), perfPC: 0, sp: 2, ra: 1, fp: 8,
	},
	S390X: {machine: objfile.MachineS390, perf: numbered(0, 16), perfPC: 33, sp: 15, ra: 14, fp: 11},
	PPC64: {
		machine: objfile.MachinePPC64, // r0 to r31, nip, msr, orig_r3, ctr, link
		perf:    append(numbered(0, 32), -1, -1, -1, 66, 65), perfPC: 32, sp: 1, ra: 65, fp: 31,
	},
	MIPS64: {
		machine: objfile.MachineMIPS, // pc, r1 to r25, r28 to r31
		perf:    append(append([]int8{-1}, numbered(1, 25)...), 28, 29, 30, 31), perfPC: 0, sp: 29, ra: 31, fp: 30,
	},
	LoongArch64: {machine: objfile.MachineLoong, perf: pcFirst(), perfPC: 0, sp: 3, ra: 1, fp: 22},
}
