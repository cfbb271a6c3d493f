package objfile

// VirtualAddr returns the address as linked of the byte at offset off of the
// file, in the space that Table and profile.Location.Addr have for user
// objects: the inverse of st_value - p_vaddr + p_offset. ok is false if no
// segment holds it.
func (f *File) VirtualAddr(off uint64) (addr uint64, ok bool) {
	// Of two segments that share a page of the file the executable one is
	// meant: it is where code was mapped from.
	for i := range f.loads {
		p := &f.loads[i]
		if off-p.off < p.filesz && off >= p.off {
			addr, ok = off-p.off+p.vaddr, true
			if p.flags&pfExec != 0 {
				return addr, true
			}
		}
	}
	return addr, ok
}

// SectionAddr returns the address as linked of the first section of a name; ok
// is false if there is none.
func (f *File) SectionAddr(name string) (addr uint64, ok bool) {
	s := f.section(name)
	if s == nil {
		return 0, false
	}
	return s.addr, true
}
