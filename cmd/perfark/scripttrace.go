package main

import (
	"context"
	"io"
	"sync"

	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/session"
)

// traceFormats are how the samples of tracepoints are printed.
type traceFormats struct {
	of        []*perfdata.TraceFormat // by event; nil for what is no tracepoint
	functions map[uint64]int32        // locations of the kernel's code that is printed by name
}

// traceFormats reads the formats of the tracepoints among the events that print
// the field trace.
func (c *scriptCmd) traceFormats(in *input, p *fieldParser) *traceFormats {
	t := &traceFormats{of: make([]*perfdata.TraceFormat, len(in.Events())), functions: map[uint64]int32{}}
	if p.sets[outputTracepoint].fields&fieldTrace == 0 {
		return t
	}
	var ok bool
	if t.of, ok = c.readTraceFormats(in); !ok {
		c.notef("%s: does not say what is in the data of tracepoints: they are printed in hex", in.Name())
	}
	return t
}

// locate adds the functions that tracepoints print by name, and with o.Sides
// code that was changed, to the locations of the profile, before these are
// resolved.
func (t *traceFormats) locate(ctx context.Context, res *session.Result, o session.WalkOptions) error {
	wanted := o.Sides
	for _, f := range t.of {
		wanted = wanted || f != nil && f.PrintsPointers()
	}
	if !wanted {
		return nil
	}
	const most = 1 << 20
	var mu sync.Mutex
	add := func(addr uint64) {
		mu.Lock()
		defer mu.Unlock()
		if len(t.functions) < most {
			t.functions[addr] = profile.None
		}
	}
	err := res.Walk(ctx, o, io.Discard, func(dst []byte, e *session.Event) []byte {
		switch r := e.Record.(type) {
		case *perfdata.TextPoke:
			add(r.Addr)
		case *perfdata.Sample:
			if r.Event >= 0 && r.Event < len(t.of) && t.of[r.Event] != nil {
				t.of[r.Event].Pointers(r.Raw, add)
			}
		}
		return dst
	})
	if err != nil {
		return err
	}
	p := res.Profile
	for addr := range t.functions {
		if o := kernelAt(p, addr); o != profile.None {
			t.functions[addr] = int32(len(p.Locations))
			p.Locations = append(p.Locations, profile.Location{Object: o, Level: profile.LevelKernel, IP: addr, Addr: addr, Func: profile.None})
		}
	}
	return nil
}

// kernelAt returns the part of the kernel that an address is in.
func kernelAt(p *profile.Profile, addr uint64) int32 {
	kernel := int32(profile.None)
	for i := range p.Objects {
		o := &p.Objects[i]
		switch o.Kind {
		case profile.KindModule, profile.KindBPF:
			if o.Start <= addr && addr < o.End {
				return int32(i)
			}
		case profile.KindKernel:
			if int64(addr) < 0 && kernel == profile.None {
				kernel = int32(i)
			}
		}
	}
	return kernel
}

// trace appends the data of a tracepoint.
func (sp *scriptPrinter) trace(b []byte, s *scriptSample) []byte {
	f := sp.formats.of[s.Event]
	if f == nil {
		b = append(b, "raw="...)
		for _, c := range s.Raw {
			b = appendHexZeros(b, uint64(c), 2)
		}
		return b
	}
	n := len(b)
	b = f.AppendPrint(b, s.Raw, sp.function)
	for _, c := range b[n:] {
		if c < ' ' || c > '~' {
			return append(b[:n:n], escape.Lines(string(b[n:]))...)
		}
	}
	return b
}

// function names an address of kernel code.
func (sp *scriptPrinter) function(addr uint64) (string, uint64, bool) {
	loc, ok := sp.formats.functions[addr]
	if !ok || loc < 0 {
		return "", 0, false
	}
	l := &sp.p.Locations[loc]
	if l.Func < 0 {
		return "", 0, false
	}
	f := &sp.p.Functions[l.Func]
	return f.Name, l.Addr - f.Start, true
}
