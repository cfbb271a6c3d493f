package dwarf

// IsSplit reports whether a part of the debug information lies in .dwo or .dwp
// files.
func (d *Data) IsSplit() bool {
	if d.index() != nil {
		return false
	}
	for i := range d.heads {
		if u := d.opened[i].Load(); d.heads[i].kind == utSkeleton || u != nil && u.dwoName != "" {
			return true
		}
	}
	return false
}

// HasUnit reports whether a .dwo or .dwp file has the unit of an id: what
// Options.Split looks for where several files may have it.
func (d *Data) HasUnit(id uint64) bool {
	_, err := d.splitFor(&unit{dwoID: id})
	return err == nil
}
