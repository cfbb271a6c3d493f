package objfile

import (
	"fmt"

	"github.com/perfark/perfark/internal/decode"
)

// Tags of the dynamic section (gABI).
const (
	ptDynamic = 2

	dtHash    = 4
	dtStrtab  = 5
	dtSymtab  = 6
	dtStrsz   = 10
	dtSoname  = 14
	dtGNUHash = 0x6ffffef5
	dtGlink   = 0x70000000 // of 64-bit PowerPC
)

// dynamic adds the dynamic symbols of a file that has no section headers, as
// the dynamic linker finds them: by PT_DYNAMIC. Their number stands in the hash
// table only.
func (l *loader) dynamic(f *File) error {
	tags, err := f.dynamicTags()
	if err != nil {
		return err
	}
	if tags[dtSymtab] == 0 || tags[dtStrtab] == 0 {
		return nil
	}
	n, err := f.dynamicCount(tags)
	if err != nil {
		return err
	}
	off, room, ok := f.bytesAt(tags[dtSymtab])
	if !ok || n > room/f.symSize() {
		return fmt.Errorf("DT_SYMTAB: %d symbols at address %#x are not in the file", n, tags[dtSymtab])
	}
	raw, err := f.read(off, n*f.symSize(), "dynamic symbols")
	if err != nil {
		return err
	}
	off, room, ok = f.bytesAt(tags[dtStrtab])
	if !ok || tags[dtStrsz] > room {
		return fmt.Errorf("DT_STRTAB: %d bytes at address %#x are not in the file", tags[dtStrsz], tags[dtStrtab])
	}
	names, err := f.lazyTable(off, tags[dtStrsz])
	if err != nil {
		return err
	}
	return l.add(f, memTable(raw, names), nil)
}

// dynamicTags reads the dynamic section; nil if there is none.
func (f *File) dynamicTags() (map[uint64]uint64, error) {
	for _, p := range f.segments {
		if p.typ != ptDynamic {
			continue
		}
		b, err := f.read(p.off, min(p.filesz, 64<<10), "dynamic section")
		if err != nil {
			return nil, err
		}
		tags := map[uint64]uint64{}
		for c := decode.NewCursor(b, int64(p.off), f.big); c.Len() >= f.class/4; {
			tag := f.word(&c, "d_tag")
			if tag == 0 {
				break
			}
			tags[tag] = f.word(&c, "d_val")
		}
		return tags, nil
	}
	return nil, nil
}

// soname returns the name that a library gives itself (DT_SONAME), "" if it
// has none.
func (f *File) soname() string {
	tags, err := f.dynamicTags()
	if err != nil || tags[dtSoname] == 0 || tags[dtSoname] >= tags[dtStrsz] {
		return ""
	}
	off, room, ok := f.bytesAt(tags[dtStrtab])
	if !ok || tags[dtStrsz] > room {
		return ""
	}
	names, err := f.lazyTable(off, tags[dtStrsz])
	if err != nil {
		return ""
	}
	return names.at(uint32(tags[dtSoname]), 255)
}

// bytesAt returns where in the file an address is, and how many bytes of its
// segment follow.
func (f *File) bytesAt(addr uint64) (off, room uint64, ok bool) {
	p, ok := f.load(addr)
	if !ok || addr-p.vaddr >= p.filesz {
		return 0, 0, false
	}
	off = p.off + (addr - p.vaddr)
	if off < p.off || off >= uint64(f.size) {
		return 0, 0, false
	}
	return off, min(p.filesz-(addr-p.vaddr), uint64(f.size)-off), true
}

// dynamicCount returns the number of dynamic symbols: nchain of DT_HASH, or
// the last one that DT_GNU_HASH reaches.
func (f *File) dynamicCount(tags map[uint64]uint64) (uint64, error) {
	if addr := tags[dtHash]; addr != 0 {
		off, _, ok := f.bytesAt(addr)
		if !ok {
			return 0, fmt.Errorf("DT_HASH: address %#x is not in the file", addr)
		}
		b, err := f.read(off, 16, "DT_HASH")
		if err != nil {
			return 0, err
		}
		c := decode.NewCursor(b, int64(off), f.big)
		if f.machine == MachineS390 && f.class == 64 {
			c.Skip(8, "nbucket") // its words have 64 bits
			return c.Uint64("nchain"), nil
		}
		c.Skip(4, "nbucket")
		return uint64(c.Uint32("nchain")), nil
	}
	addr := tags[dtGNUHash]
	if addr == 0 {
		return 0, fmt.Errorf("neither DT_HASH nor DT_GNU_HASH: the number of symbols is unknown")
	}
	off, room, ok := f.bytesAt(addr)
	if !ok {
		return 0, fmt.Errorf("DT_GNU_HASH: address %#x is not in the file", addr)
	}
	b, err := f.read(off, room, "DT_GNU_HASH")
	if err != nil {
		return 0, err
	}
	defer f.budget.Free(int64(len(b)))
	c := decode.NewCursor(b, int64(off), f.big)
	buckets := uint64(c.Uint32("nbuckets"))
	first := uint64(c.Uint32("symoffset"))
	bloom := uint64(c.Uint32("bloom_size"))
	c.Skip(4, "bloom_shift")
	if bloom > uint64(c.Len())/uint64(f.class/8) {
		return 0, fmt.Errorf("DT_GNU_HASH: bloom filter of %d words, but only %d bytes follow", bloom, c.Len())
	}
	c.Skip(int(bloom)*f.class/8, "bloom")
	if buckets > uint64(c.Len())/4 {
		return 0, fmt.Errorf("DT_GNU_HASH: %d buckets, but only %d bytes follow", buckets, c.Len())
	}
	last := uint64(0)
	for range buckets {
		last = max(last, uint64(c.Uint32("bucket")))
	}
	if last < first || last == 0 {
		return first, c.Err()
	}
	if last-first > uint64(c.Len())/4 {
		return 0, fmt.Errorf("DT_GNU_HASH: a bucket begins at symbol %d, but only %d bytes follow", last, c.Len())
	}
	c.Skip(int(last-first)*4, "chain")
	for c.Len() >= 4 {
		last++
		if c.Uint32("chain")&1 != 0 {
			return last, nil
		}
	}
	return 0, fmt.Errorf("DT_GNU_HASH: the last chain has no end")
}
