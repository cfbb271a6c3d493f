package redact

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/perfark/perfark/perfdata"
)

// A writing is a recording that is being written.
type writing struct {
	r    *Redactor
	w    *perfdata.Writer
	z    *perfdata.Compressor // nil: records are plain
	dec  *perfdata.Decoder
	raw  io.ReaderAt    // for what stands behind records; nil if there is none
	ids  map[uint64]int // id → event
	fat  bool           // there are samples with what was in memory
	last int            // of a directory: records since the last round

	index []perfdata.AuxtraceEntry
	b     []byte
	s     perfdata.Sample
}

// roundEvery is after how many records of a directory, which are in order of
// time, readers are told that they may be delivered.
const roundEvery = 4096

// Write writes the recording. What it writes to must be empty.
func (r *Redactor) Write(ctx context.Context, out io.WriteSeeker) error {
	h := r.f.Header()
	w, err := perfdata.NewWriter(out, perfdata.WriterOptions{Big: h.Big, Pipe: h.Pipe, Magic: h.Magic})
	if err != nil {
		return err
	}
	x := &writing{r: r, w: w, dec: perfdata.NewDecoder(r.f), ids: map[uint64]int{}}
	if at, _, _, ok := r.f.Plain(); ok {
		x.raw = at
	}
	for i, e := range r.f.Events() {
		if _, err := w.AddEvent(e.Attr, e.IDs...); err != nil {
			return err
		}
		for _, id := range e.IDs {
			x.ids[id] = i
		}
		const memory = perfdata.SampleRaw | perfdata.SampleStackUser | perfdata.SampleAux | perfdata.SampleCallchain | perfdata.SampleRegsUser | perfdata.SampleRegsIntr
		x.fat = x.fat || e.Attr.SampleType&memory != 0
	}
	c, compressed := r.f.Compressed()
	if compressed {
		level := int(c.Level)
		if level < 1 || level > 22 {
			level = 1
		}
		if x.z, err = perfdata.NewCompressor(level, h.Big, w.WriteRaw); err != nil {
			return err
		}
	}
	if err := r.records(ctx, x.record); err != nil {
		return err
	}
	if x.z != nil {
		if err := x.z.Flush(); err != nil {
			return err
		}
	}
	if h.Pipe {
		return w.Close()
	}
	for _, bit := range r.f.Features() {
		if err := x.feature(bit); err != nil {
			return err
		}
	}
	if len(r.f.KcoreDirs()) > 0 {
		r.dropped["copies of kernel memory (kcore_dir)"]++
	}
	return w.Close()
}

// feature writes a feature of a file.
func (x *writing) feature(bit int) error {
	switch {
	case bit == perfdata.FeatureDirFormat && x.r.f.Header().Dir:
		return nil // what is written is a file
	case bit == perfdata.FeatureAuxtrace:
		return x.w.SetFeature(bit, auxtraceIndex(x.index))
	}
	b, off, err := x.r.f.FeatureData(bit)
	if err != nil {
		return err
	}
	if b, ok := x.r.feature(bit, b, off); ok {
		return x.w.SetFeatureData(bit, b)
	}
	return nil
}

// auxtraceIndex makes the index of AUXTRACE records as perf does: blocks of at
// most 256.
func auxtraceIndex(list []perfdata.AuxtraceEntry) perfdata.AuxtraceIndex {
	var out perfdata.AuxtraceIndex
	for len(list) > 0 {
		n := min(len(list), 256)
		out = append(out, list[:n])
		list = list[n:]
	}
	return out
}

// emit writes a record.
func (x *writing) emit(rec []byte) error {
	if x.z == nil {
		return x.w.WriteRaw(rec)
	}
	if typ, _, _ := perfdata.RecordHeader(rec, x.r.f.Header().Big); typ < 64 {
		return x.z.Write(rec)
	}
	if err := x.z.Flush(); err != nil {
		return err
	}
	return x.w.WriteRaw(rec)
}

// encode writes a record that was changed.
func (x *writing) encode(v perfdata.Record) error {
	i := x.ids[v.Head().ID]
	if s, ok := v.(*perfdata.Sample); ok {
		i = s.Event
	}
	var a *perfdata.Attr
	if e := x.r.f.Events(); i >= 0 && i < len(e) {
		a = &e[i].Attr
	}
	b, err := perfdata.AppendRecord(x.b[:0], v, a, x.r.f.Header().Big)
	if err != nil {
		x.r.dropped["records that do not fit: "+v.Head().Type.String()]++
		return nil
	}
	x.b = b
	return x.emit(b)
}

// record writes a record of the input.
func (x *writing) record(rec []byte, at place) error {
	big := x.r.f.Header().Big
	typ, _, _ := perfdata.RecordHeader(rec, big)
	if x.r.f.Header().Dir {
		if typ == perfdata.RecordFinishedRound {
			return nil
		}
		if x.last++; x.last == roundEvery {
			x.last = 0
			if err := x.encode(&perfdata.Finished{Meta: perfdata.Meta{Type: perfdata.RecordFinishedRound}}); err != nil {
				return err
			}
		}
	}
	x.dec.Stream = at.stream
	switch {
	case typ == perfdata.RecordSample:
		return x.sample(rec, at)
	case typ == perfdata.RecordHeaderAttr:
		return nil // the Writer writes them
	case typ == perfdata.RecordHeaderFeature:
		return x.pipeFeature(rec, at)
	case typ == perfdata.RecordTracingData:
		return x.tracingData(rec, at)
	case typ == perfdata.RecordAuxtrace:
		return x.auxtrace(rec, at)
	case hasText(typ):
		return x.named(rec, at)
	case typ.Known(), x.r.p.Unknown == Keep:
		return x.rest(rec)
	}
	x.r.dropped["records of unknown type: "+typ.String()]++
	return nil
}

// named writes a record that has texts.
func (x *writing) named(rec []byte, at place) error {
	v, err := x.dec.Decode(rec, at.off)
	if err != nil {
		x.r.dropped["damaged records"]++
		return nil
	}
	if !textsOf(v, x.r.place) {
		return x.rest(rec)
	}
	return x.encode(v)
}

// rest writes a record whose texts are as they should be. What else is in it,
// such as what was in memory behind a text, is masked.
func (x *writing) rest(rec []byte) error {
	x.r.mask(rec[8:], fieldBinary)
	return x.emit(rec)
}

// place is text, and notes where files are found again that are asked for by a
// redacted path.
func (r *Redactor) place(s string, f field) string {
	new := r.text(s, f)
	if f == fieldPath && new != s {
		r.original[new] = s
	}
	return new
}

// mask overwrites names in binary data.
func (r *Redactor) mask(b []byte, f field) {
	if n := r.dict.bytes(b); n > 0 {
		r.bytes[f] += int64(n)
	}
}

// sample writes a sample. What was in memory can hold names: raw data, the copy
// of the user stack, a piece of a trace, registers, and call chains that were
// not followed rightly, whose addresses are then something else.
func (x *writing) sample(rec []byte, at place) error {
	if !x.fat {
		return x.emit(rec)
	}
	s := &x.s
	if err := x.dec.Sample(rec, at.off, s); err != nil || s.Event < 0 {
		x.r.dropped["damaged samples"]++
		return nil
	}
	p := &x.r.p
	anew := false
	switch a := &x.r.f.Events()[s.Event].Attr; {
	case len(s.Raw) == 0:
	case p.Raw == Keep:
	case p.Raw == Drop && (a.Type == perfdata.TypeTracepoint || len(s.Raw) > 0):
		const common = 8 // type, flags and pid of a tracepoint
		clear(s.Raw[min(common, len(s.Raw)):])
		x.r.bytes[fieldRaw]++
	default:
		for _, f := range x.r.rawTexts(s) {
			x.r.rawText(s.Raw[f.Offset:f.Offset+f.Size], f.Name)
		}
		x.r.mask(s.Raw, fieldRaw)
	}
	// Behind the valid part of the copy of a stack is what was in the buffer
	// of the kernel before.
	stack := s.UserStack
	clear(stack[len(stack):cap(stack)])
	switch {
	case cap(stack) == 0 || p.Stacks == Keep:
	case p.Stacks == Drop:
		s.UserStack, anew = nil, true
		x.r.dropped["copies of user stacks"]++
	default:
		x.r.mask(stack, fieldStack)
		x.r.maskEnvironment(stack)
	}
	if p.Registers == Drop && s.UserABI != 0 {
		s.UserABI, s.UserRegs, anew = 0, nil, true
		x.r.dropped["registers of user space"]++
	}
	x.r.mask(s.Aux, fieldBinary)
	big := x.r.f.Header().Big
	for _, list := range [][]uint64{s.Callchain, s.UserRegs, s.IntrRegs} {
		for i, v := range list {
			if new, ok := x.r.number(v, big); ok {
				list[i], anew = new, true
				x.r.bytes[fieldNumber]++
			}
		}
	}
	if anew {
		return x.encode(s)
	}
	return x.emit(rec)
}

// textNumber is eight times x.
const textNumber = 0x7878787878787878

// number returns what stands in the place of an address or a register, if that
// is text: eight characters, which no address consists of, or fewer with a name
// in them.
func (r *Redactor) number(v uint64, big bool) (uint64, bool) {
	n := 0
	for x := v; x != 0; x >>= 8 {
		if c := byte(x); c < ' ' || c >= 0x7f {
			return v, false
		}
		n++
	}
	switch {
	case n == 8:
		return textNumber, true
	case n < minStrong:
		return v, false
	}
	var b [8]byte
	order(big).PutUint64(b[:], v)
	if r.dict.bytes(b[:]) == 0 {
		return v, false
	}
	return order(big).Uint64(b[:]), true
}

// rawText replaces a text in a field of a fixed size.
func (r *Redactor) rawText(b []byte, name string) {
	f := rawField(name)
	s := cString(b)
	if new := r.text(s, f); new != s {
		clear(b[copy(b[:len(b)-1], new):])
	}
}

func rawField(name string) field {
	if name == "comm" || len(name) > 5 && name[len(name)-5:] == "_comm" {
		return fieldComm
	}
	return fieldMessage
}

// maskEnvironment overwrites the values of what looks like NAME=VALUE in
// memory: a stack begins with the environment.
func (r *Redactor) maskEnvironment(b []byte) {
	if r.p.Environment != Mask {
		return
	}
	for i := 0; i < len(b); i++ {
		if b[i] != '=' {
			continue
		}
		start := i
		for start > 0 && (b[start-1] >= 'A' && b[start-1] <= 'Z' || b[start-1] == '_' || b[start-1] >= '0' && b[start-1] <= '9') {
			start--
		}
		if i-start < 2 || b[start] <= '9' || start > 0 && b[start-1] != 0 {
			continue
		}
		end := i + 1
		for end < len(b) && b[end] >= ' ' && b[end] < 0x7f {
			b[end] = 'x'
			end++
		}
		if end > i+1 {
			r.bytes[fieldStack]++
		}
		i = end
	}
}

// pipeFeature writes a feature of a pipe.
func (x *writing) pipeFeature(rec []byte, at place) error {
	v, err := x.dec.Decode(rec, at.off)
	h, ok := v.(*perfdata.HeaderFeature)
	if err != nil || !ok {
		x.r.dropped["damaged records"]++
		return nil
	}
	if len(h.Data) == 0 || h.Feature == 0 || h.Feature > 255 {
		return x.emit(rec) // the mark of the last
	}
	b, ok := x.r.feature(int(h.Feature), h.Data, at.off+16)
	if !ok {
		return nil
	}
	h.Data = b
	return x.encode(h)
}

// tracingData writes the formats of tracepoints in a pipe, which follow their
// record.
func (x *writing) tracingData(rec []byte, at place) error {
	v, err := x.dec.Decode(rec, at.off)
	t, ok := v.(*perfdata.TracingData)
	if err != nil || !ok || x.raw == nil {
		x.r.dropped["damaged records"]++
		return nil
	}
	if int64(t.Len) > x.r.f.Header().FileSize {
		x.r.dropped["damaged records"]++
		return nil
	}
	b := make([]byte, t.Len)
	if n, err := x.raw.ReadAt(b, at.off+int64(len(rec))); n < len(b) {
		return fmt.Errorf("offset %#x: tracing data: %w", at.off, err)
	}
	out, err := x.r.tracingBlob(b)
	if err != nil {
		x.r.dropped["tracing data that is damaged"]++
		return nil
	}
	for len(out)%8 != 0 {
		out = append(out, 0)
	}
	t.Len = uint32(len(out))
	if err := x.encode(t); err != nil {
		return err
	}
	return x.w.WriteRaw(out)
}

// auxtrace writes a piece of a trace, which follows its record.
func (x *writing) auxtrace(rec []byte, at place) error {
	v, err := x.dec.Decode(rec, at.off)
	t, ok := v.(*perfdata.Auxtrace)
	if err != nil || !ok || x.raw == nil || t.Len > uint64(x.r.f.Header().FileSize) {
		x.r.dropped["damaged records"]++
		return nil
	}
	if x.z != nil {
		if err := x.z.Flush(); err != nil {
			return err
		}
	}
	x.index = append(x.index, perfdata.AuxtraceEntry{Offset: uint64(x.w.Offset()), Size: uint64(len(rec))})
	if err := x.emit(rec); err != nil {
		return err
	}
	buf := make([]byte, 1<<20)
	for done := int64(0); done < int64(t.Len); {
		b := buf[:min(int64(len(buf)), int64(t.Len)-done)]
		n, err := x.raw.ReadAt(b, t.DataOffset+done)
		if n < len(b) {
			return fmt.Errorf("offset %#x: trace: %w", t.DataOffset+done+int64(n), err)
		}
		x.r.mask(b, fieldBinary)
		if err := x.w.WriteRaw(b); err != nil {
			return err
		}
		done += int64(n)
	}
	return nil
}

func order(big bool) binary.ByteOrder {
	if big {
		return binary.BigEndian
	}
	return binary.LittleEndian
}
