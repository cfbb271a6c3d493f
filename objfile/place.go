package objfile

// SectionAddr returns the address as linked of the first section of a name; ok
// is false if there is none.
func (f *File) SectionAddr(name string) (addr uint64, ok bool) {
	s := f.section(name)
	if s == nil {
		return 0, false
	}
	return s.addr, true
}
