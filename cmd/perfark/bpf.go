package main

import (
	"slices"
	"strings"
	"sync"

	"github.com/perfark/perfark/annotate"
	"github.com/perfark/perfark/objfile"
)

// bpfLine returns what gives the source lines of the BPF programs in a
// recording; nil if it has none.
func (in *input) bpfLine() func(addr uint64) (file string, line int, ok bool) {
	progs, ok := in.BPFProgs()
	if !ok || len(progs) == 0 {
		return nil
	}
	var mu sync.Mutex
	names := in.BPFNames()
	return func(addr uint64) (string, int, bool) {
		mu.Lock()
		defer mu.Unlock()
		for i := range progs {
			if file, line, ok := names.Line(&progs[i], addr); ok {
				return file, line, true
			}
		}
		return "", 0, false
	}
}

// maxBPFLines bounds the lines of source that the descriptions of BPF programs
// may have, over all files.
const maxBPFLines = 1 << 20

// bpfTexts returns the lines of source that the BTF of the BPF programs in a
// recording has, by file; annotate.NoText stands for those between.
func (in *input) bpfTexts() map[string][]string {
	progs, ok := in.BPFProgs()
	if !ok || len(progs) == 0 {
		return nil
	}
	names := in.BPFNames()
	files := map[string][]string{}
	left := maxBPFLines
	for i := range progs {
		names.Texts(&progs[i], func(file string, line int, text string) bool {
			lines := files[file]
			if n := line - len(lines); n > 0 {
				if n > left {
					return true
				}
				left -= n
				lines = slices.Grow(lines, n)
				for range n {
					lines = append(lines, annotate.NoText)
				}
				files[file] = lines
			}
			lines[line-1] = text
			return true
		})
	}
	return files
}

// sameTexts reports whether a source file has the lines that are known of it.
func sameTexts(file, known []string) bool {
	for i, text := range known {
		if text != annotate.NoText && (i >= len(file) || strings.TrimSpace(file[i]) != strings.TrimSpace(text)) {
			return false
		}
	}
	return true
}

// machines are those of Linux, by what uname -m calls them.
var machines = map[string]objfile.Machine{
	"x86_64": objfile.MachineX86_64, "aarch64": objfile.MachineAArch64, "riscv64": objfile.MachineRISCV,
	"ppc64le": objfile.MachinePPC64, "ppc64": objfile.MachinePPC64, "s390x": objfile.MachineS390, "loongarch64": objfile.MachineLoong,
}

// bpfCode returns what gives the machine code of the BPF programs in a
// recording; nil if it has none.
func (in *input) bpfCode() func(addr uint64) ([]byte, objfile.Machine, bool) {
	progs, ok := in.BPFProgs()
	machine, known := machines[in.Arch()]
	if !ok || len(progs) == 0 || !known {
		return nil
	}
	return func(addr uint64) ([]byte, objfile.Machine, bool) {
		for i := range progs {
			for _, f := range progs[i].Funcs {
				if at := addr - f.Addr; at < uint64(len(f.Code)) {
					return f.Code[at:], machine, true
				}
			}
		}
		return nil, 0, false
	}
}
