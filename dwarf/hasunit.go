package dwarf

// HasUnit reports whether a .dwo or .dwp file has the unit of an id: what
// Options.Split looks for where several files may have it.
func (d *Data) HasUnit(id uint64) bool {
	_, err := d.splitFor(&unit{dwoID: id})
	return err == nil
}
