package record

import (
	"os"
	"path/filepath"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/perfdata"
)

// bpfInfo is the begin of struct bpf_prog_info (include/uapi/linux/bpf.h).
type bpfInfo struct {
	kind, id               uint32
	tag                    [8]byte
	jitedLen, xlatedLen    uint32
	jited, xlated          uint64
	loadTime               uint64
	uid, maps              uint32
	mapIDs                 uint64
	name                   [16]byte
	ifindex, gpl           uint32
	netnsDev, netnsIno     uint64
	ksyms, funcLens        uint32 // how many
	ksymsAt, funcLensAt    uint64
	btf, funcInfoSize      uint32
	funcInfo               uint64
	nfuncInfo, nlineInfo   uint32
	lineInfo, jitedLine    uint64
	njitedLine, lineSize   uint32
	jitedLineSize, ntags   uint32
	tags                   uint64
	runTime, runs, recurse uint64
}

// Commands of bpf(2).
const (
	bpfProgNext  = 11
	bpfProgByID  = 13
	bpfInfoByFD  = 15
	bpfMaxFuncs  = 1 << 12
	ksymbolBPF   = 1
	bpfEventLoad = 1
)

func bpfCall(cmd int, attr *[4]uint32) (int, error) {
	n, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(cmd), uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr))
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

// bpf writes the BPF programs that are loaded, if this process may know: where
// their code is, and what it is called.
func (s *synth) bpf() error {
	var names *objfile.Kallsyms
	for id := uint32(0); ; {
		attr := [4]uint32{id}
		if _, err := bpfCall(bpfProgNext, &attr); err != nil {
			return nil // that was the last, or it is not allowed
		}
		id = attr[1]
		attr = [4]uint32{id}
		fd, err := bpfCall(bpfProgByID, &attr)
		if err != nil {
			continue
		}
		info, addrs, lens, err := bpfProgram(fd)
		unix.Close(fd)
		if err != nil {
			continue
		}
		if names == nil {
			f, err := os.Open(filepath.Join(s.proc, "kallsyms"))
			if err != nil {
				return nil
			}
			names, err = objfile.ReadKallsyms(f, decode.NewBudget(decode.Limits{}))
			f.Close()
			if err != nil {
				return nil
			}
		}
		for i, addr := range addrs {
			name, ok := bpfName(names, addr)
			if !ok {
				continue
			}
			if err := s.write(&perfdata.Ksymbol{Meta: meta(perfdata.RecordKsymbol, perfdata.CPUModeKernel), Addr: addr, Len: lens[i], Kind: ksymbolBPF, Name: name}); err != nil {
				return err
			}
		}
		e := &perfdata.BPFEvent{Meta: meta(perfdata.RecordBPFEvent, perfdata.CPUModeKernel), Kind: bpfEventLoad, ProgID: info.id, Tag: info.tag}
		if err := s.write(e); err != nil {
			return err
		}
	}
}

// bpfProgram asks about a program.
func bpfProgram(fd int) (info bpfInfo, addrs []uint64, lens []uint32, err error) {
	if err = bpfInfoOf(fd, &info); err != nil {
		return
	}
	n := min(info.ksyms, info.funcLens, bpfMaxFuncs)
	if n == 0 {
		return info, nil, nil, unix.ENOENT // it is interpreted, or we may not know
	}
	addrs, lens = make([]uint64, n), make([]uint32, n)
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&addrs[0])
	pin.Pin(&lens[0])
	ask := bpfInfo{ksyms: n, funcLens: n, ksymsAt: uint64(uintptr(unsafe.Pointer(&addrs[0]))), funcLensAt: uint64(uintptr(unsafe.Pointer(&lens[0])))}
	err = bpfInfoOf(fd, &ask)
	return info, addrs, lens, err
}

func bpfInfoOf(fd int, info *bpfInfo) error {
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(info)
	at := uint64(uintptr(unsafe.Pointer(info)))
	attr := [4]uint32{uint32(fd), uint32(unsafe.Sizeof(*info))}
	*(*uint64)(unsafe.Pointer(&attr[2])) = at
	_, err := bpfCall(bpfInfoByFD, &attr)
	return err
}

// bpfName returns what kallsyms calls the function at addr.
func bpfName(names *objfile.Kallsyms, addr uint64) (string, bool) {
	sym, _, ok := names.Lookup(addr)
	return sym.Name, ok && sym.Start == addr
}
