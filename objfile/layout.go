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
