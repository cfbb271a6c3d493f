package record

import (
	"encoding/binary"
	"maps"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/perfark/perfark/perfdata"
)

// tracing writes what readers need to know of tracepoints, if any is recorded:
// in a file as a feature, in a pipe as a record.
func (r *recorder) tracing() error {
	var names []string
	for i := range r.list {
		if r.list[i].Type == perfdata.TypeTracepoint {
			names = append(names, r.list[i].tracepoint)
		}
	}
	if len(names) == 0 {
		return nil
	}
	b := tracingData(Host{}.tracefs(), names)
	if !r.o.Pipe && seekable(r.out) {
		return r.file.w.SetFeatureData(perfdata.FeatureTracingData, b)
	}
	b = append(b, make([]byte, -len(b)&7)...)
	if err := r.file.w.Write(&perfdata.TracingData{Meta: meta(perfdata.RecordTracingData, 0), Len: uint32(len(b))}); err != nil {
		return err
	}
	return r.file.w.WriteRaw(b)
}

// tracingData describes tracepoints in the layout of trace.dat, version 0.6:
// formats of pages and of events, and no names of the kernel, which readers
// take from where all other names are.
func tracingData(root string, names []string) []byte {
	b := []byte("\x17\x08\x44tracing0.6\x00")
	order := binary.NativeEndian
	u32 := func(v int) { b = order.AppendUint32(b, uint32(v)) }
	sized := func(text []byte) { b = append(order.AppendUint64(b, uint64(len(text))), text...) }
	read := func(elem ...string) []byte {
		text, err := os.ReadFile(filepath.Join(append([]string{root}, elem...)...))
		if err != nil {
			return nil
		}
		return text
	}
	big := byte(0)
	if nativeBig {
		big = 1
	}
	b = append(b, big, bits.UintSize/8)
	u32(os.Getpagesize())
	for _, n := range []string{"header_page", "header_event"} {
		b = append(append(b, n...), 0)
		sized(read("events", n))
	}
	systems := map[string][]string{}
	for _, n := range names {
		system, event, _ := strings.Cut(n, ":")
		if !slices.Contains(systems[system], event) {
			systems[system] = append(systems[system], event)
		}
	}
	formats := func(system string) {
		events := systems[system]
		slices.Sort(events)
		u32(len(events))
		for _, e := range events {
			sized(read("events", system, e, "format"))
		}
	}
	formats("ftrace")
	delete(systems, "ftrace")
	u32(len(systems))
	for _, s := range slices.Sorted(maps.Keys(systems)) {
		b = append(append(b, s...), 0)
		formats(s)
	}
	u32(0) // kallsyms
	printk := read("printk_formats")
	u32(len(printk))
	b = append(b, printk...)
	sized(read("saved_cmdlines"))
	return b
}
