package annotate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/perfark/perfark/disasm"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/symbol"
)

// Options say how functions are listed.
type Options struct {
	Symbol  symbol.Options // where files come from
	Disasm  disasm.Options
	Objdump string // the GNU objdump that reads the code; "": package disasm does
	Limit   uint64 // bytes of code that are shown of a function; 0: 16 MiB
}

const (
	defaultLimit = 16 << 20

	// maxLines is how many instructions of a function are shown.
	maxLines = 1 << 20

	// batch is how many instructions have their lines looked up at a time.
	batch = 32 << 10
)

// A Code is the machine code of one object of a profile. It is not for several
// goroutines at a time.
type Code struct {
	p      *profile.Profile
	object int32
	o      Options
	text   *symbol.Text
	d      *disasm.Decoder // nil with Options.Objdump

	announced []*Function
	next      []*Function // functions that were announced, in the order in which they are listed
	ready     map[*Function]*Listing
}

// Open opens the code of an object. The error of an object without code is a
// *symbol.TextError; it wraps disasm.ErrMachine if nothing can read the code.
func Open(ctx context.Context, p *profile.Profile, object int32, o Options) (*Code, error) {
	text, err := symbol.OpenText(ctx, p, object, o.Symbol)
	if err != nil {
		return nil, err
	}
	c := &Code{p: p, object: object, o: o, text: text, ready: map[*Function]*Listing{}}
	if o.Objdump != "" {
		err = c.checkObjdump(ctx)
	} else {
		o.Disasm.Big = text.Big
		c.d, err = disasm.New(text.Machine, text.Bits, o.Disasm)
	}
	if err != nil {
		text.Close()
		return nil, fmt.Errorf("%s: %w", text.Origin, err)
	}
	return c, nil
}

// Close closes the file of the code.
func (c *Code) Close() { c.text.Close() }

// Machine returns the machine of the code.
func (c *Code) Machine() objfile.Machine { return c.text.Machine }

// Announce tells which functions will be listed, and in which order: the lines
// of many are looked up at a time.
func (c *Code) Announce(list []*Function) {
	if len(list) > 0 && len(c.announced) > 0 && &list[0] == &c.announced[0] {
		return
	}
	c.announced, c.next = list, list
}

// List reads the code of a function.
func (c *Code) List(ctx context.Context, fn *Function) (*Listing, error) {
	if x, ok := c.ready[fn]; ok {
		delete(c.ready, fn)
		return x, nil
	}
	l, err := c.read(ctx, fn)
	if err != nil {
		return nil, err
	}
	todo := []*Listing{l}
	size := len(l.Lines)
	if i := slices.Index(c.next, fn); i >= 0 {
		c.next = c.next[i+1:]
	}
	for len(c.next) > 0 && size < batch {
		fn := c.next[0]
		c.next = c.next[1:]
		if l, err := c.read(ctx, fn); err == nil { // else it is said when it is listed
			c.ready[fn] = l
			todo = append(todo, l)
			size += len(l.Lines)
		}
	}
	return l, c.name(ctx, todo)
}

// read reads the instructions of a function.
func (c *Code) read(ctx context.Context, fn *Function) (*Listing, error) {
	text := c.text
	l := &Listing{Function: fn, Section: text.Section(fn.Func.Start), Origin: text.Origin}
	if text.Unverified {
		l.Notices = append(l.Notices, text.Origin+": unverified: nothing but its path ties it to the recording")
	}
	limit := cmp.Or(c.o.Limit, defaultLimit)
	size := fn.Func.End - fn.Func.Start
	if size == 0 {
		return nil, &symbol.TextError{Object: c.p.Objects[c.object].Path, Reason: symbol.NoSize, Detail: text.Origin}
	}
	code := make([]byte, min(size, limit))
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
	d := c.d
	if d != nil && text.Thumb(start) {
		o := c.o.Disasm
		o.Thumb, o.Big = true, text.Big
		if d, err = disasm.New(text.Machine, text.Bits, o); err != nil {
			return nil, err
		}
	}
	if d != nil && d.Notice() != "" {
		l.Notices = append(l.Notices, d.Notice())
	}
	if d == nil {
		if l.Lines, err = c.objdump(ctx, code, start); err != nil {
			return nil, err
		}
	}
	for at := 0; at < len(code) && d != nil && len(l.Lines) < maxLines; {
		in := d.Decode(code[at:], start+uint64(at))
		l.Lines = append(l.Lines, Line{Addr: start + uint64(at), Inst: in, Bytes: code[at : at+in.Len]})
		at += in.Len
	}
	l.Lines = l.Lines[:min(len(l.Lines), maxLines)]
	last := &l.Lines[len(l.Lines)-1]
	shown := last.Addr + uint64(len(last.Bytes)) - start
	if rest := l.count(len(c.p.Events), shown); shown < size && (uint64(len(code)) == limit || len(l.Lines) == maxLines) {
		l.Notices = append(l.Notices, fmt.Sprintf("%s: only the first %d of %d bytes are shown: %d samples are in the rest", l.Func.Name, shown, size, rest))
	}
	if text.Padded {
		l.trim()
	}
	l.Name = c.label(l, start)
	for i := range l.Lines {
		x := &l.Lines[i]
		x.Text = x.Inst.Format(func(link uint64) string { return c.label(l, link) })
	}
	return l, nil
}

// trim leaves out nops at the end, as perf does of functions whose size is not
// known.
func (l *Listing) trim() {
	n := len(l.Lines)
	for n > 1 {
		x := &l.Lines[n-1]
		text := x.Inst.Format(func(uint64) string { return "" })
		if !strings.Contains(" "+text, " nop") || slices.ContainsFunc(x.Counts, func(c Count) bool { return c != Count{} }) {
			break
		}
		n--
	}
	l.Lines = l.Lines[:n]
}

// label is the name of an address: what the object has, else the distance from
// the beginning of the function.
func (c *Code) label(l *Listing, link uint64) string {
	if name := c.text.Name(link); name != "" {
		return name
	}
	start := l.Lines[0].Addr
	switch {
	case link < start || link-start >= l.Func.End-l.Func.Start:
		return ""
	case link == start:
		return l.Func.Name
	}
	return fmt.Sprintf("%s+0x%x", l.Func.Name, link-start)
}

// name finds the lines of instructions, as locations of a profile of their
// own.
func (c *Code) name(ctx context.Context, listings []*Listing) error {
	p := c.p
	q := &profile.Profile{Events: p.Events[:min(1, len(p.Events))], Objects: slices.Clone(p.Objects)}
	for _, l := range listings {
		for i := range l.Lines {
			q.AddAddress(c.object, l.place(&l.Lines[i]))
		}
	}
	so := c.o.Symbol
	so.Lines, so.Inlines = true, true
	if _, err := symbol.Resolve(ctx, q, so); err != nil {
		return err
	}
	labels := make([]string, len(q.Functions))
	for i := range q.Functions {
		f := &q.Functions[i]
		labels[i] = f.Name + "()"
		if full := objfile.DemangleFull(f.Linkage); full != f.Linkage {
			labels[i] = full
		}
	}
	frames := make([]Frame, len(q.Frames))
	for i, f := range q.Frames {
		frames[i].Line = int(f.Line)
		if f.Func != profile.None {
			frames[i].Func, frames[i].label = q.Functions[f.Func].Name, labels[f.Func]
		}
		if f.File != profile.None {
			frames[i].File = q.Files[f.File]
		}
	}
	at := 0
	for _, l := range listings {
		for i := range l.Lines {
			x := &q.Locations[at]
			l.Lines[i].Frames = frames[x.Frames : x.Frames+int32(x.NFrames) : x.Frames+int32(x.NFrames)]
			at++
		}
	}
	return nil
}
