package record

import (
	"encoding/binary"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
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
	verified, attachObject uint32
	attachType, _          uint32
}

// bpfPrograms are what is known of BPF programs, and of the types that they
// use, by id: what the features BPF_PROG_INFO and BPF_BTF say.
type bpfPrograms struct {
	programs, types map[uint32][]byte
	bytes           int
	records         []perfdata.Record // of those that were there before
}

// bpfMost is how many bytes are kept of them.
const bpfMost = 64 << 20

// Commands of bpf(2).
const (
	bpfProgNext  = 11
	bpfProgByID  = 13
	bpfInfoByFD  = 15
	bpfTypeByID  = 19
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

// collect finds the BPF programs that are loaded, if this process may know:
// where their code is, and what it is called. It takes CAP_SYS_ADMIN, and
// CAP_SYSLOG for the names.
func (b *bpfPrograms) collect(proc string) {
	var names *objfile.Kallsyms
	for id := uint32(0); ; {
		attr := [4]uint32{id}
		if _, err := bpfCall(bpfProgNext, &attr); err != nil {
			return // that was the last, or it is not allowed
		}
		id = attr[1]
		p, err := bpfProgramOf(id)
		if err != nil {
			continue
		}
		b.add(p)
		if names == nil {
			f, err := os.Open(filepath.Join(proc, "kallsyms"))
			if err != nil {
				return
			}
			names, err = objfile.ReadKallsyms(f, decode.NewBudget(decode.Limits{}))
			f.Close()
			if err != nil {
				return
			}
		}
		for i, addr := range p.ksyms {
			if name, ok := bpfName(names, addr); ok {
				b.records = append(b.records, &perfdata.Ksymbol{Meta: meta(perfdata.RecordKsymbol, perfdata.CPUModeKernel), Addr: addr, Len: p.funcLens[i], Kind: ksymbolBPF, Name: name})
			}
		}
		b.records = append(b.records, &perfdata.BPFEvent{Meta: meta(perfdata.RecordBPFEvent, perfdata.CPUModeKernel), Kind: bpfEventLoad, ProgID: p.info.id, Tag: p.info.tag})
	}
}

// A bpfProgram is a program, and what the kernel says of it.
type bpfProgram struct {
	info     bpfInfo
	ksyms    []uint64 // where its functions are; never empty
	funcLens []uint32
	arrays   [9][]byte // by the bit of struct perf_bpil
}

// bpfProgramOf asks about a program: once how much there is to know, and then
// that.
func bpfProgramOf(id uint32) (*bpfProgram, error) {
	fd, err := bpfCall(bpfProgByID, &[4]uint32{id})
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var counts bpfInfo
	if err := bpfInfoOf(fd, unsafe.Pointer(&counts), unsafe.Sizeof(counts)); err != nil {
		return nil, err
	}
	n := min(counts.ksyms, counts.funcLens, bpfMaxFuncs)
	if n == 0 {
		return nil, unix.ENOENT // it is interpreted, or we may not know
	}
	p := &bpfProgram{ksyms: make([]uint64, n), funcLens: make([]uint32, n)}
	var pin runtime.Pinner
	defer pin.Unpin()
	array := func(bit int, count, size uint32, at *uint64) uint32 {
		if total := uint64(count) * uint64(size); total == 0 || total > bpfMost {
			return 0
		}
		b := make([]byte, count*size)
		pin.Pin(&b[0])
		*at = uint64(uintptr(unsafe.Pointer(&b[0])))
		p.arrays[bit] = b
		return count
	}
	i := &p.info
	i.funcInfoSize, i.lineSize, i.jitedLineSize = counts.funcInfoSize, counts.lineSize, counts.jitedLineSize
	i.jitedLen = array(0, counts.jitedLen, 1, &i.jited)
	i.ksyms = array(3, n, 8, &i.ksymsAt)
	i.funcLens = array(4, n, 4, &i.funcLensAt)
	i.nfuncInfo = array(5, counts.nfuncInfo, counts.funcInfoSize, &i.funcInfo)
	i.nlineInfo = array(6, counts.nlineInfo, counts.lineSize, &i.lineInfo)
	i.njitedLine = array(7, counts.njitedLine, counts.jitedLineSize, &i.jitedLine)
	i.ntags = array(8, counts.ntags, 8, &i.tags)
	if err := bpfInfoOf(fd, unsafe.Pointer(i), unsafe.Sizeof(*i)); err != nil {
		return nil, err
	}
	for k := range p.ksyms {
		p.ksyms[k] = binary.NativeEndian.Uint64(p.arrays[3][8*k:])
		p.funcLens[k] = binary.NativeEndian.Uint32(p.arrays[4][4*k:])
	}
	return p, nil
}

// block lays a program out as struct perf_bpil: lengths, which arrays there
// are, what the kernel said with offsets for pointers, the arrays.
func (p *bpfProgram) block() []byte {
	info := p.info
	pointers := [...]*uint64{0: &info.jited, 1: &info.xlated, 2: &info.mapIDs, 3: &info.ksymsAt, 4: &info.funcLensAt, 5: &info.funcInfo, 6: &info.lineInfo, 7: &info.jitedLine, 8: &info.tags}
	var data []byte
	mask := uint64(0)
	for bit, at := range pointers {
		here := *at != 0 && p.arrays[bit] != nil // the kernel takes back what it does not tell
		*at = 0
		if here {
			*at = uint64(len(data))
			mask |= 1 << bit
			data = append(data, p.arrays[bit]...)
			data = append(data, make([]byte, -len(data)&7)...)
		}
	}
	size := int(unsafe.Sizeof(info))
	b := binary.NativeEndian.AppendUint32(nil, uint32(size))
	b = binary.NativeEndian.AppendUint32(b, uint32(len(data)))
	b = binary.NativeEndian.AppendUint64(b, mask)
	b = append(b, unsafe.Slice((*byte)(unsafe.Pointer(&info)), size)...)
	return append(b, data...)
}

// add notes a program, and the types that it uses.
func (b *bpfPrograms) add(p *bpfProgram) {
	if b == nil || b.programs[p.info.id] != nil {
		return
	}
	if b.programs == nil {
		b.programs, b.types = map[uint32][]byte{}, map[uint32][]byte{}
	}
	block := p.block()
	if b.bytes += len(block); b.bytes > bpfMost {
		return
	}
	b.programs[p.info.id] = block
	if id := p.info.btf; id != 0 && b.types[id] == nil {
		if t := bpfTypes(id); b.bytes+len(t) <= bpfMost && t != nil {
			b.bytes += len(t)
			b.types[id] = t
		}
	}
}

// loaded notes a program that was loaded just now, unless it is gone already.
func (b *bpfPrograms) loaded(id uint32) {
	if b == nil || b.programs[id] != nil || b.bytes > bpfMost {
		return
	}
	if p, err := bpfProgramOf(id); err == nil {
		b.add(p)
	}
}

// bpfTypes returns the type information of an id; nil if there is none.
func bpfTypes(id uint32) []byte {
	fd, err := bpfCall(bpfTypeByID, &[4]uint32{id})
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var info struct { // bpf_btf_info
		at       uint64
		size, id uint32
	}
	if err := bpfInfoOf(fd, unsafe.Pointer(&info), unsafe.Sizeof(info)); err != nil || info.size == 0 || info.size > bpfMost {
		return nil
	}
	b := make([]byte, info.size)
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&b[0])
	info.at = uint64(uintptr(unsafe.Pointer(&b[0])))
	if err := bpfInfoOf(fd, unsafe.Pointer(&info), unsafe.Sizeof(info)); err != nil || int(info.size) != len(b) {
		return nil
	}
	return b
}

// features returns what is written as BPF_PROG_INFO and BPF_BTF. As with perf
// they are there without programs too.
func (b *bpfPrograms) features() (programs, types []byte) {
	order := binary.NativeEndian
	programs = order.AppendUint32(nil, uint32(len(b.programs)))
	for _, id := range slices.Sorted(maps.Keys(b.programs)) {
		programs = append(programs, b.programs[id]...)
	}
	types = order.AppendUint32(nil, uint32(len(b.types)))
	for _, id := range slices.Sorted(maps.Keys(b.types)) {
		types = order.AppendUint32(types, id)
		types = order.AppendUint32(types, uint32(len(b.types[id])))
		types = append(types, b.types[id]...)
	}
	return programs, types
}

// bpfInfoOf asks about what fd is: at points to as much as the caller knows of
// its description.
func bpfInfoOf(fd int, at unsafe.Pointer, size uintptr) error {
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(at)
	attr := [4]uint32{uint32(fd), uint32(size)}
	*(*uint64)(unsafe.Pointer(&attr[2])) = uint64(uintptr(at))
	_, err := bpfCall(bpfInfoByFD, &attr)
	return err
}

// bpfName returns what kallsyms calls the function at addr.
func bpfName(names *objfile.Kallsyms, addr uint64) (string, bool) {
	sym, _, ok := names.Lookup(addr)
	return sym.Name, ok && sym.Start == addr
}
