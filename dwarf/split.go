package dwarf

import (
	"fmt"
)

// splitFor returns the unit of a .dwo or .dwp file that belongs to a skeleton.
func (d *Data) splitFor(skel *unit) (*unit, error) {
	if err := d.index(); err != nil {
		return nil, err
	}
	for _, u := range d.units {
		if u.version >= 5 && u.kind != utSplitCompile || u.version >= 5 && u.dwoID != skel.dwoID {
			continue
		}
		s := &unit{d: d, off: u.off, end: u.end, die: u.die, layout: u.layout, kind: u.kind,
			abbrevOff: u.abbrevOff, abbrevEnd: u.abbrevEnd, dwoID: u.dwoID, skel: skel}
		if err := s.root(); err != nil {
			return nil, err
		}
		if s.dwoID == skel.dwoID {
			return s, nil
		}
	}
	return nil, fmt.Errorf("it has no unit of the id %016x", skel.dwoID)
}
