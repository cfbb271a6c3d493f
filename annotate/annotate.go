// Package annotate shows where in a function its samples are: by instruction
// and by source line.
//
// Functions are found in a profile with names (Collect). The code of one comes
// from the file that was mapped; each of its instructions is given its line and
// the functions that were inlined there by package symbol, as addresses of a
// profile are (List).
package annotate

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/perfark/perfark/disasm"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/symbol"
)

// A Count is what was counted of one event.
type Count struct {
	Samples uint64 // number of samples
	Period  uint64 // their sum
}

func (c *Count) add(s *profile.Sample) {
	c.Samples += s.Count
	c.Period += s.Period
}

// A Function is a function with samples.
type Function struct {
	Object int32
	Func   profile.Function
	Total  []Count // of its samples, by event
	at     map[uint64][]Count
}

// Collect returns the functions of a named profile that samples are in, those
// with the greatest period of the first of events first. Only the address of a
// sample counts, not its callers. Events are indices; nil stands for all.
func Collect(p *profile.Profile, events []int32) []*Function {
	if events == nil {
		for i := range p.Events {
			events = append(events, int32(i))
		}
	}
	column := make([]int, len(p.Events))
	for i := range column {
		column[i] = slices.Index(events, int32(i))
	}
	type extent struct {
		object     int32
		start, end uint64
	}
	known := map[extent]*Function{}
	var list []*Function
	for i := range p.Samples {
		s := &p.Samples[i]
		l := &p.Locations[s.Location]
		if l.Func == profile.None || column[s.Event] < 0 {
			continue
		}
		f := &p.Functions[l.Func]
		if l.Addr < f.Start || l.Addr >= f.End && f.End != f.Start {
			continue
		}
		k := extent{l.Object, f.Start, f.End}
		fn := known[k]
		if fn == nil {
			fn = &Function{Object: l.Object, Func: *f, Total: make([]Count, len(events)), at: map[uint64][]Count{}}
			known[k] = fn
			list = append(list, fn)
		}
		if fn.at[l.Addr] == nil {
			fn.at[l.Addr] = make([]Count, len(events))
		}
		fn.at[l.Addr][column[s.Event]].add(s)
		fn.Total[column[s.Event]].add(s)
	}
	slices.SortStableFunc(list, func(a, b *Function) int {
		for i := range events {
			if c := cmp.Compare(b.Total[i].Period, a.Total[i].Period); c != 0 {
				return c
			}
		}
		return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Func.Start, b.Func.Start))
	})
	return list
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
	Func string // "" if unknown
	File string // path as the debug information has it; "" if unknown
	Line int    // from 1; 0: unknown
}

// A Listing is the code of a function with what was counted in it.
type Listing struct {
	*Function
	Section string // of the object, with the code
	Lines   []Line
	Notices []string // what the reader is to know of it
}

// Options say how a function is listed.
type Options struct {
	Symbol symbol.Options // where files come from
	Disasm disasm.Options
	NoLine bool   // source lines are not looked up
	Limit  uint64 // bytes of code that are shown of a function; 0: 16 MiB
}

const defaultLimit = 16 << 20

// List reads the code of a function of p. The error of an object without code
// is a *symbol.TextError.
func List(ctx context.Context, p *profile.Profile, fn *Function, o Options) (*Listing, error) {
	text, err := symbol.OpenText(ctx, p, fn.Object, o.Symbol)
	if err != nil {
		return nil, err
	}
	defer text.Close()
	o.Disasm.Big = text.Big
	d, err := disasm.New(text.Machine, text.Bits, o.Disasm)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text.Origin, err)
	}
	l := &Listing{Function: fn, Section: text.Section(fn.Func.Start)}
	if n := d.Notice(); n != "" {
		l.Notices = append(l.Notices, n)
	}
	if text.Unverified {
		l.Notices = append(l.Notices, text.Origin+": unverified: nothing but its path ties it to the recording")
	}
	limit := cmp.Or(o.Limit, defaultLimit)
	size := fn.Func.End - fn.Func.Start
	if size > limit {
		l.Notices = append(l.Notices, fmt.Sprintf("only the first %d of %d bytes are shown", limit, size))
		size = limit
	}
	code := make([]byte, size)
	n, err := text.Read(fn.Func.Start, code)
	if err != nil {
		return nil, err
	}
	if code = code[:n]; n == 0 {
		return nil, fmt.Errorf("%s: no code at 0x%x", text.Origin, fn.Func.Start)
	}
	start, ok := text.Address(fn.Func.Start)
	if !ok {
		return nil, fmt.Errorf("%s: 0x%x is in no segment", text.Origin, fn.Func.Start)
	}
	for at := 0; at < len(code); {
		in := d.Decode(code[at:], start+uint64(at))
		l.Lines = append(l.Lines, Line{Addr: start + uint64(at), Inst: in, Bytes: code[at : at+in.Len]})
		at += in.Len
	}
	l.count(start)
	return l, l.name(ctx, p, text, start, o)
}

// count gives each instruction the samples from its first byte to its last.
func (l *Listing) count(start uint64) {
	width := len(l.Total)
	all := make([]Count, width*len(l.Lines))
	for i := range l.Lines {
		l.Lines[i].Counts = all[i*width : (i+1)*width]
	}
	for addr, counts := range l.at {
		link := addr - l.Func.Start + start
		i, found := slices.BinarySearchFunc(l.Lines, link, func(x Line, at uint64) int { return cmp.Compare(x.Addr, at) })
		if !found {
			i--
		}
		if i < 0 || i >= len(l.Lines) {
			continue
		}
		for e := range counts {
			l.Lines[i].Counts[e].Samples += counts[e].Samples
			l.Lines[i].Counts[e].Period += counts[e].Period
		}
	}
}

// name finds the lines of the instructions and the names of what they refer
// to, as locations of a profile of their own.
func (l *Listing) name(ctx context.Context, p *profile.Profile, text *symbol.Text, start uint64, o Options) error {
	q := &profile.Profile{Events: p.Events[:min(1, len(p.Events))], Objects: slices.Clone(p.Objects)}
	level := byte(profile.LevelUser)
	if k := p.Objects[l.Object].Kind; k == profile.KindKernel || k == profile.KindModule {
		level = profile.LevelKernel
	}
	add := func(addr uint64) {
		n := int32(len(q.Locations))
		q.Locations = append(q.Locations, profile.Location{Object: l.Object, Level: level, IP: addr, Addr: addr, Func: profile.None})
		q.Samples = append(q.Samples, profile.Sample{CPU: -1, Location: n, Stack: profile.None, Extra: profile.None, Count: 1})
	}
	for i := range l.Lines {
		add(l.Lines[i].Addr - start + l.Func.Start)
	}
	targets := map[uint64]int32{}
	refer := func(link uint64) {
		if _, ok := targets[link]; ok {
			return
		}
		if at, ok := text.Location(link); ok {
			targets[link] = int32(len(q.Locations))
			add(at)
		}
	}
	for i := range l.Lines {
		if in := &l.Lines[i].Inst; in.HasTarget {
			refer(in.Target)
		}
		if in := &l.Lines[i].Inst; in.HasData {
			refer(in.Data)
		}
	}
	so := o.Symbol
	so.Lines, so.Inlines = !o.NoLine, !o.NoLine
	if _, err := symbol.Resolve(ctx, q, so); err != nil {
		return err
	}
	named := func(link uint64) string {
		if link >= start && link-start < l.Func.End-l.Func.Start {
			return offset(l.Func.Name, link-start)
		}
		n, ok := targets[link]
		if !ok || q.Locations[n].Func == profile.None {
			return ""
		}
		f := &q.Functions[q.Locations[n].Func]
		return offset(f.Name, q.Locations[n].Addr-f.Start)
	}
	for i := range l.Lines {
		x := &l.Lines[i]
		x.Text = x.Inst.Format(named)
		for _, f := range q.FramesOf(&q.Locations[i]) {
			frame := Frame{Line: int(f.Line)}
			if f.Func != profile.None {
				frame.Func = q.Functions[f.Func].Name
			}
			if f.File != profile.None {
				frame.File = q.Files[f.File]
			}
			x.Frames = append(x.Frames, frame)
		}
	}
	return nil
}

// offset is an address as objdump writes it: a name, and how far behind its
// beginning.
func offset(name string, n uint64) string {
	if n == 0 {
		return name
	}
	return fmt.Sprintf("%s+0x%x", name, n)
}
