package perfdata

import (
	"cmp"
	"fmt"
	"slices"
)

// maxDamage is how many places File.Damage lists. What is beyond them is
// counted.
const maxDamage = 1000

// Damage is a part of a recording that could not be read.
type Damage struct {
	Name   string // of the file
	Offset int64  // in it, bytes; in compressed data that of the COMPRESSED record
	Len    int64  // bytes lost; 0 if unknown
	What   string // such as "mmap2.pgoff: 8 bytes wanted, but only 4 follow"
}

// String returns the damage as one line, without the file's name.
func (d Damage) String() string {
	if d.Len > 0 {
		return fmt.Sprintf("offset %#x: %s (%d bytes lost)", d.Offset, d.What, d.Len)
	}
	return fmt.Sprintf("offset %#x: %s", d.Offset, d.What)
}

// damage is a list of places, each once.
type damage struct {
	list []Damage
	seen map[Damage]bool
	more Damage // the first place beyond the list, with the bytes of all
	n    int64  // number of those
}

func (d *damage) add(x Damage) {
	if d.seen[x] {
		return
	}
	if len(d.list) >= maxDamage {
		if d.n == 0 {
			d.more = x
			d.more.Len = 0
		}
		d.n++
		d.more.Len += x.Len
		return
	}
	if d.seen == nil {
		d.seen = make(map[Damage]bool)
	}
	d.seen[x] = true
	d.list = append(d.list, x)
}

// AddDamage notes that a part of f could not be read. Equal damage is kept
// once, so that reading twice does not double it.
func (f *File) AddDamage(d Damage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.damage.add(d)
}

// Damage returns what could not be read up to now, sorted by file and offset.
// It is empty if all that was read was whole; what no Reader came to is not
// known. At most a thousand places are listed; the last entry counts the rest.
func (f *File) Damage() []Damage {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := slices.Clone(f.damage.list)
	slices.SortStableFunc(list, func(a, b Damage) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.What, b.What))
	})
	if n := f.damage.n; n > 0 {
		d := f.damage.more
		d.What = fmt.Sprintf("and in %d more places: %s", n, d.What)
		list = append(list, d)
	}
	return list
}

// warnf notes something that costs nothing but should be known.
func (f *File) warnf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := fmt.Sprintf(format, args...); !slices.Contains(f.warn, s) && len(f.warn) < maxDamage {
		f.warn = append(f.warn, s)
	}
}

// Warnings returns what is odd about f though nothing was lost, one line each.
func (f *File) Warnings() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.warn)
}

// Unknown returns how many records there are of each type that this program
// does not know, as far as the recording was read to its end.
func (f *File) Unknown() map[Type]int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := make(map[Type]int64, len(f.unknown))
	for t, n := range f.unknown {
		m[t] = n
	}
	return m
}
