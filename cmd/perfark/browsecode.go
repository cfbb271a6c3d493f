package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/perfark/perfark/annotate"
	"github.com/perfark/perfark/browse"
	"github.com/perfark/perfark/profile"
)

// A codeBrowser lists the functions that a browser asks for.
type codeBrowser struct {
	in      *input
	p       *profile.Profile // with all addresses of samples
	options annotate.Options
	page    annotate.PageOptions
	source  func(file string) []string

	mu     sync.Mutex
	funcs  []*annotate.Function // with samples, the hottest first; nil until the first is asked for
	cycles *annotate.Cycles     // from when funcs is there
}

// code lists the code of a function.
func (b *codeBrowser) code(ctx context.Context, f browse.Function) (*browse.Code, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fn, err := b.find(f)
	if err != nil {
		return nil, err
	}
	code, err := annotate.Open(ctx, b.p, fn.Object, b.options)
	if err != nil {
		return nil, err
	}
	defer code.Close()
	l, err := code.List(ctx, fn)
	if err != nil {
		return nil, err
	}
	object := &b.p.Objects[fn.Object]
	c := &browse.Code{
		Name: fn.Func.Name, Object: object.Path, Lines: l.Lines, Total: l.Total, Events: b.p.Events,
		Sources: map[string][]string{}, Notices: l.Notices, Size: l.Func.End - l.Func.Start,
		Memory: b.memory(fn, l.Lines), Timing: b.cycles.Timing(l),
	}
	for i := range l.Lines {
		for _, frame := range l.Lines[i].Frames {
			if _, ok := c.Sources[frame.File]; !ok && b.source != nil && frame.File != "" {
				c.Sources[frame.File] = b.source(frame.File)
			}
		}
	}
	o := b.page
	o.Cycles = b.cycles
	o.Events, o.Object, o.Machine = b.p.Events, object, code.Machine()
	for i := range b.p.Events {
		o.Columns = append(o.Columns, int32(i))
	}
	o.Source = func(file string) []string { return c.Sources[file] }
	c.Print = func(w io.Writer) error { return annotate.WritePage(w, l, o) }
	return c, nil
}

// memory returns how far from where the file has code one of the processes had
// it.
func (b *codeBrowser) memory(fn *annotate.Function, lines []annotate.Line) uint64 {
	for i := range b.p.Locations {
		if x := &b.p.Locations[i]; x.Object == fn.Object && len(lines) > 0 {
			return x.IP - x.Addr + fn.Func.Start - lines[0].Addr
		}
	}
	return 0
}

// find returns a function with its samples, if it has any.
func (b *codeBrowser) find(f browse.Function) (*annotate.Function, error) {
	if b.funcs == nil {
		var events []int32
		for i := range b.p.Events {
			events = append(events, int32(i))
		}
		b.funcs = annotate.Collect(b.p)
		b.cycles = annotate.NewCycles(b.p)
		annotate.Sort(b.p, b.funcs, events)
	}
	for _, fn := range b.funcs {
		if f.Is(fn.Object, &fn.Func) {
			return fn, nil
		}
	}
	for i := range b.p.Functions {
		fn := &b.p.Functions[i]
		if f.Is(fn.Object, fn) && fn.Object >= 0 && !fn.Inlined {
			return &annotate.Function{Object: fn.Object, Func: *fn, Total: make([]annotate.Count, len(b.p.Events))}, nil
		}
	}
	if f.Symbol == "" {
		return nil, fmt.Errorf("%s: no samples in a function with a name", b.in.Name())
	}
	if slices.ContainsFunc(b.p.Functions, func(fn profile.Function) bool { return fn.Inlined && fn.Name == f.Symbol }) {
		return nil, fmt.Errorf("%s: it has no code of its own: the compiler put it into other functions", f.Symbol)
	}
	return nil, fmt.Errorf("%s: no samples are in it, nor in what it called", f.Symbol)
}
