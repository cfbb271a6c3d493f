// Package annotate shows where in a function its samples are: by instruction
// and by source line.
//
// Functions are found in a profile with names (Collect). The code of one comes
// from the file that was mapped (Open); each of its instructions is given its
// line and the functions that were inlined there by package symbol, as
// addresses of a profile are (Code.List). WritePage, WriteText and WriteJSON
// print it.
package annotate

import (
	"cmp"
	"slices"

	"github.com/perfark/perfark/disasm"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/report"
)

// A Count is what was counted of one event.
type Count struct {
	Samples uint64 `json:"samples"` // number of samples
	Period  uint64 `json:"period"`  // their sum
}

func (c *Count) add(x Count) {
	c.Samples += x.Samples
	c.Period += x.Period
}

// A Function is a function with samples.
type Function struct {
	Object int32
	Func   profile.Function
	Total  []Count // of its samples, by event
	at     map[uint64][]Count
}

// Collect returns the functions of a named profile that samples are in. Only
// the address of a sample counts, not its callers.
func Collect(p *profile.Profile) []*Function {
	type extent struct {
		object     int32
		start, end uint64
	}
	known := map[extent]*Function{}
	var list []*Function
	for i := range p.Samples {
		s := &p.Samples[i]
		_, handle, ok := report.FunctionAt(p, s.Location)
		if !ok || s.Event < 0 {
			continue
		}
		l, f := &p.Locations[s.Location], &p.Functions[handle]
		if l.Addr < f.Start || l.Addr >= f.End && f.End != f.Start {
			continue
		}
		k := extent{l.Object, f.Start, f.End}
		fn := known[k]
		if fn == nil {
			fn = &Function{Object: l.Object, Func: *f, Total: make([]Count, len(p.Events)), at: map[uint64][]Count{}}
			known[k] = fn
			list = append(list, fn)
		}
		if fn.at[l.Addr] == nil {
			fn.at[l.Addr] = make([]Count, len(p.Events))
		}
		c := Count{s.Count, s.Period}
		fn.at[l.Addr][s.Event].add(c)
		fn.Total[s.Event].add(c)
	}
	return list
}

// Sort puts functions of p in order, as perf does: those with the greatest
// period of the first of events first, equal ones by the names of their object
// and their own.
func Sort(p *profile.Profile, list []*Function, events []int32) {
	slices.SortStableFunc(list, func(a, b *Function) int {
		for _, e := range events {
			if c := cmp.Compare(b.Total[e].Period, a.Total[e].Period); c != 0 {
				return c
			}
		}
		x, y := &p.Objects[a.Object], &p.Objects[b.Object]
		return cmp.Or(cmp.Compare(x.Short, y.Short), cmp.Compare(a.Func.Name, b.Func.Name), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Func.Start, b.Func.Start))
	})
}

// A Line is an instruction of a listing.
type Line struct {
	Addr   uint64 // as the file was linked
	Inst   disasm.Inst
	Bytes  []byte
	Text   string  // with the names of its targets
	Counts []Count // by event
	Frames []Frame // source lines, innermost first; none if nothing is known
}

// A Frame is a source line of an instruction, and the function that it is of.
type Frame struct {
	Func string `json:"func,omitempty"` // "" if unknown
	File string `json:"file,omitempty"` // path as the debug information has it; "" if unknown
	Line int    `json:"line,omitempty"` // from 1; 0: unknown

	label string // of Func, with its parameters, as objdump has it
}

// A Listing is the code of a function with what was counted in it.
type Listing struct {
	*Function
	Name    string // of the code's first byte, as a disassembler has it
	Section string // of the object, with the code
	Origin  string // of the file with the code
	Lines   []Line
	Notices []string // what the reader is to know of it
}

// place returns the address of an instruction in the space of Location.Addr.
func (l *Listing) place(x *Line) uint64 { return x.Addr - l.Lines[0].Addr + l.Func.Start }

// count gives each instruction the samples from its first byte to its last.
// Those behind the bytes that are shown are given to none; it returns how many
// there are.
func (l *Listing) count(events int, shown uint64) (rest uint64) {
	all := make([]Count, events*len(l.Lines))
	for i := range l.Lines {
		l.Lines[i].Counts = all[i*events : (i+1)*events : (i+1)*events]
	}
	for addr, counts := range l.at {
		if addr-l.Func.Start >= shown {
			for _, c := range counts {
				rest += c.Samples
			}
			continue
		}
		link := addr - l.Func.Start + l.Lines[0].Addr
		i, found := slices.BinarySearchFunc(l.Lines, link, func(x Line, at uint64) int { return cmp.Compare(x.Addr, at) })
		if !found {
			i--
		}
		if i < 0 {
			continue
		}
		for e := range counts {
			l.Lines[i].Counts[e].add(counts[e])
		}
	}
	return rest
}
