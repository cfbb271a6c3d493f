package main

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/report"
)

// tracepoints reports whether all events of a recording are tracepoints.
func tracepoints(f *perfdata.File) bool {
	return len(f.Events()) > 0 && !slices.ContainsFunc(f.Events(), func(e perfdata.Event) bool { return e.Attr.Type != typeTracepoint })
}

// A traceReader tells what the data of tracepoints says: as a whole, and field
// by field.
type traceReader struct {
	c       *reportCmd
	in      *input
	formats []*perfdata.TraceFormat // by event; nil for those without one, and before load
	whole   bool                    // the key trace is shown
	fields  []traceField
}

// A traceField is a field that is a key.
type traceField struct {
	report.TraceField
	of  *perfdata.TraceField
	raw bool // as in the data, not as the kernel prints it
}

// load reads the formats of the tracepoints of the recording.
func (t *traceReader) load() {
	if t.formats != nil {
		return
	}
	t.formats, _ = t.c.readTraceFormats(t.in)
}

// readTraceFormats reads the formats of the tracepoints among the events of a
// recording: by event, nil for one without. ok is false if there are
// tracepoints, but nothing says what is in their data.
func (a *app) readTraceFormats(in *input) (of []*perfdata.TraceFormat, ok bool) {
	of = make([]*perfdata.TraceFormat, len(in.Events()))
	var tracing *perfdata.Tracing
	for i, e := range in.Events() {
		if e.Attr.Type != typeTracepoint {
			continue
		}
		if tracing == nil {
			var err error
			if tracing, err = in.Tracing(); err != nil {
				a.notef("%s", err)
			}
			if tracing == nil {
				return of, false
			}
		}
		f := tracing.Format(e.Attr.Config)
		if f == nil {
			continue
		}
		if err := f.Prepare(); err != nil {
			a.verbosef("%s: %s: %s", in.Name(), e.Name, err)
		}
		of[i] = f
	}
	return of, true
}

// keys returns the keys of a word, which is perf's [EVENT.]FIELD[/raw]. EVENT
// is a name, a part of one or %N; FIELD may be * or trace_fields for all.
func (t *traceReader) keys(word string) ([]report.Key, error) {
	t.load()
	name, option, _ := strings.Cut(word, "/")
	if option != "" && option != "raw" {
		return nil, fmt.Errorf("%q: fields of tracepoints have no option %q, but raw", word, option)
	}
	event, field, ok := strings.Cut(name, ".")
	if !ok {
		event, field = "", name
	}
	events, err := t.events(event)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", word, err)
	}
	var keys []report.Key
	for _, e := range events {
		for i := range t.formats[e].Fields {
			f := &t.formats[e].Fields[i]
			if f.Name == field || !f.Common && (event != "" && field == "*" || event == "" && field == "trace_fields") {
				keys = append(keys, t.key(e, f, option == "raw" || t.c.rawTrace))
			}
		}
	}
	if len(t.fields) > maxTraceFields {
		return nil, fmt.Errorf("%q: %d fields, at most %d can be shown", word, len(t.fields), maxTraceFields)
	}
	return keys, nil
}

// maxTraceFields is how many fields of tracepoints a report has columns for.
const maxTraceFields = 512

// events returns the tracepoints of a name, all for none.
func (t *traceReader) events(name string) (events []int, err error) {
	for i, e := range t.in.Events() {
		number, isNumber := strings.CutPrefix(name, "%")
		switch {
		case t.formats[i] == nil,
			isNumber && number != strconv.Itoa(i+1),
			!isNumber && strings.Contains(name, ":") && e.Name != name,
			!isNumber && !strings.Contains(e.Name, name):
		default:
			events = append(events, i)
		}
	}
	if name != "" && len(events) > 1 {
		return nil, fmt.Errorf("%s are called that: want one, such as %%%d", count(len(events), "event"), events[0]+1)
	}
	return events, nil
}

// key returns the key of a field of an event.
func (t *traceReader) key(event int, f *perfdata.TraceField, raw bool) report.Key {
	if i := slices.IndexFunc(t.fields, func(x traceField) bool { return x.of == f && x.raw == raw }); i >= 0 {
		return report.FieldKey(i)
	}
	width := f.Size
	if !f.String {
		width = 2*f.Size + 2 // as perf: room for a number in hex
	}
	t.fields = append(t.fields, traceField{report.TraceField{Name: f.Name, Event: int32(event), Width: max(width, len(f.Name))}, f, raw})
	return report.FieldKey(len(t.fields) - 1)
}

// text returns what the data of a sample says: as a whole if that is wanted, and
// behind NULs the fields. Functions stand as addresses, as samples are read
// before symbols are.
func (t *traceReader) text(event int, raw []byte) string {
	if event >= len(t.formats) || t.formats[event] == nil {
		return ""
	}
	format := t.formats[event]
	var printed, out []byte
	switch {
	case !t.c.rawTrace && (t.whole || slices.ContainsFunc(t.fields, func(f traceField) bool { return int(f.Event) == event && !f.raw })):
		printed = format.AppendPrint(nil, raw, func(uint64) (string, uint64, bool) { return "", 0, false })
		printed = bytes.ReplaceAll(printed, []byte{0}, []byte{'.'})
		if t.whole {
			out = printed
		}
	case t.whole:
		out = format.AppendFields([]byte{' '}, raw)
	}
	out = slices.Clip(out)
	for i := range t.fields {
		f := &t.fields[i]
		out = append(out, 0)
		if int(f.Event) != event {
			continue
		}
		if value, ok := printedField(printed, f.Name); ok && !f.raw {
			out = append(out, value...)
		} else {
			out = format.AppendField(out, raw, f.of)
		}
	}
	return string(out)
}

// printedField returns the value of a field in what a tracepoint prints, up to
// the next blank.
func printedField(printed []byte, name string) (value []byte, ok bool) {
	for word := range bytes.SplitSeq(printed, []byte{' '}) {
		if value, ok := bytes.CutPrefix(word, []byte(name)); ok && len(value) > 0 && value[0] == '=' {
			return value[1:], true
		}
	}
	return nil, false
}
