package main

import "github.com/perfark/perfark/perfdata"

// tracepoints reports whether all events of a recording are tracepoints.
func tracepoints(f *perfdata.File) bool {
	for _, e := range f.Events() {
		if e.Attr.Type != typeTracepoint {
			return false
		}
	}
	return len(f.Events()) > 0
}

// traceText returns what tells what the data of a sample of a tracepoint says;
// nil if the recording does not say how to read it. Functions stand as
// addresses, as samples are read before symbols are.
func (c *reportCmd) traceText(in *input) func(event int, raw []byte) string {
	tracing, err := in.Tracing()
	if err != nil {
		c.notef("%s", err)
	}
	if tracing == nil {
		return nil
	}
	formats := make([]*perfdata.TraceFormat, len(in.Events()))
	for i, e := range in.Events() {
		if e.Attr.Type != typeTracepoint {
			continue
		}
		if f := tracing.Format(e.Attr.Config); f != nil {
			if err := f.Prepare(); err != nil {
				c.verbosef("%s: %s: %s", in.Name(), e.Name, err)
			}
			formats[i] = f
		}
	}
	return func(event int, raw []byte) string {
		if event >= len(formats) || formats[event] == nil {
			return ""
		}
		return string(formats[event].AppendPrint(nil, raw, func(uint64) (string, uint64, bool) { return "", 0, false }))
	}
}
