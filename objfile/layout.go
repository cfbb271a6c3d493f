package objfile

import (
	"crypto/sha256"
	"encoding/binary"
)

// Layout returns a hash of what decides where the file's code is in memory:
// its machine and its loaded segments. A stripped copy has the layout of its
// original; it takes no reading of the code, unlike TextHash.
func (f *File) Layout() [sha256.Size]byte {
	b := binary.LittleEndian.AppendUint16(nil, uint16(f.machine))
	b = append(b, byte(f.class), byte(f.typ))
	if f.big {
		b = append(b, 1)
	}
	for _, p := range f.loads {
		b = binary.LittleEndian.AppendUint64(b, p.vaddr)
		b = binary.LittleEndian.AppendUint64(b, p.off)
		b = binary.LittleEndian.AppendUint64(b, p.filesz)
		b = binary.LittleEndian.AppendUint64(b, p.memsz)
		b = binary.LittleEndian.AppendUint32(b, p.flags)
	}
	return sha256.Sum256(b)
}

// FileOffset returns where in the file an address as linked lies: the inverse
// of Address. ok is false if no segment holds it.
func (f *File) FileOffset(addr uint64) (off uint64, ok bool) {
	p, ok := f.load(addr)
	if !ok || addr-p.vaddr >= p.filesz {
		return 0, false
	}
	return addr - p.vaddr + p.off, true
}

// Segment returns where in the file an address as linked lies, and how many
// bytes of its segment follow there.
func (f *File) Segment(addr uint64) (off, size uint64, ok bool) {
	p, ok := f.load(addr)
	if !ok || addr-p.vaddr >= p.filesz {
		return 0, 0, false
	}
	return addr - p.vaddr + p.off, p.filesz - (addr - p.vaddr), true
}

// NextSegment returns where the first segment begins behind an address.
func (f *File) NextSegment(addr uint64) (start uint64, ok bool) {
	for _, p := range f.loads {
		if p.vaddr > addr && p.filesz > 0 {
			return p.vaddr, true
		}
	}
	return 0, false
}

// A LoadedSection is a code section of a relocatable file, in the space Loaded.
type LoadedSection struct {
	Name string
	Addr uint64 // where it begins
	Off  uint64 // in the file
	Size uint64 // in bytes
}

// LoadedSection returns the section of a relocatable file that holds an
// address in the space Loaded.
func (f *File) LoadedSection(addr uint64) (LoadedSection, bool) {
	for i, at := range f.layout() {
		if s := &f.sections[i]; addr >= at && addr-at < s.size && s.typ != shtNobits {
			return LoadedSection{s.name, at, s.off, s.size}, true
		}
	}
	return LoadedSection{}, false
}

// Bits returns the width of the addresses of programs for a machine: 32 or 64.
func (m Machine) Bits() int {
	switch m {
	case Machine386, MachineARM, MachineMIPS, MachinePPC, MachineSPARC, MachineXtensa:
		return 32
	}
	return 64
}

// SectionAt returns the name of the section of code that holds an offset in
// the file; "" if there is none.
func (f *File) SectionAt(off uint64) string {
	for i := range f.sections {
		s := &f.sections[i]
		if s.flags&(shfAlloc|shfExec) == shfAlloc|shfExec && s.typ != shtNobits && off >= s.off && off-s.off < s.size {
			return s.name
		}
	}
	return ""
}
