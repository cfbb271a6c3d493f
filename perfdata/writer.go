package perfdata

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// WriterOptions are for NewWriter. The zero value writes a file as perf record
// does on a little-endian machine.
type WriterOptions struct {
	Big   bool   // write as a big-endian machine does
	Pipe  bool   // write for a pipe: events and features are records
	Magic string // "" means "PERFILE2"; "PERFFILE" is the one before Linux 3.6
	Spare int    // empty slots behind the table of features
}

// A Writer writes a recording: events first, then records, at any time
// features, and at the end Close.
//
// In a file, the size of the data and the features are written by Close. Until
// then the header says what that of perf says: data of size 0. So what a
// Writer leaves that did not come to Close is a killed recording, and its
// records can be read. In a pipe all is written at once, and Close only
// flushes.
type Writer struct {
	o      WriterOptions
	w      *bufio.Writer
	seek   io.WriteSeeker // nil in pipes
	enc    encoder
	events []Event
	ids    map[uint64]int // id → event
	hdr    Header
	begun  bool
	closed bool
	pos    int64 // bytes written
	feat   map[int][]byte
	err    error // the first; sticky
}

// ErrWriter is wrapped by errors of a Writer that was used in the wrong order.
var ErrWriter = errors.New("writer used out of order")

// NewWriter returns a Writer to w. For files, that is without o.Pipe, w must
// be an io.WriteSeeker, such as an *os.File, and the recording begins where it
// stands.
func NewWriter(w io.Writer, o WriterOptions) (*Writer, error) {
	if o.Magic == "" {
		o.Magic = magicLE
	}
	if o.Magic != magicLE && o.Magic != magicOld {
		return nil, fmt.Errorf("magic %q: want %s or %s", o.Magic, magicLE, magicOld)
	}
	wr := &Writer{
		o:    o,
		w:    bufio.NewWriterSize(w, 256<<10),
		ids:  map[uint64]int{},
		feat: map[int][]byte{},
		hdr:  Header{Magic: o.Magic, Size: headerSize, Big: o.Big, Pipe: o.Pipe, Word: 8},
	}
	wr.enc.order = appendOrder(o.Big)
	if o.Pipe {
		wr.hdr.Size = headerSizePipe
		return wr, nil
	}
	s, ok := w.(io.WriteSeeker)
	if !ok {
		return nil, fmt.Errorf("%T cannot seek: only a pipe can be written to it", w)
	}
	wr.seek = s
	return wr, nil
}

func appendOrder(big bool) binary.AppendByteOrder {
	if big {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// AddEvent adds an event and returns its index. Events come before the first
// record. All attrs of a file have the same length: the shorter ones are
// filled up with zeros, which mean the same.
func (w *Writer) AddEvent(a Attr, ids ...uint64) (int, error) {
	if w.begun || w.closed {
		return 0, fmt.Errorf("event after the first record: %w", ErrWriter)
	}
	if n := len(a.Tail); n > attrEntryMax-AttrSizeMax-sectionSize {
		return 0, fmt.Errorf("attr: a tail of %d bytes is too long", n)
	}
	if a.Size == 0 {
		a.Size = attrSizeMin
	}
	a.Size = min(max(a.Size, attrSizeMin), uint32(AttrSizeMax+len(a.Tail)))
	i := len(w.events)
	w.events = append(w.events, Event{Attr: a, IDs: slices.Clone(ids)})
	for _, id := range ids {
		w.ids[id] = i
	}
	return i, nil
}

// begin writes what stands before the records.
func (w *Writer) begin() {
	if w.begun {
		return
	}
	w.begun = true
	if w.o.Pipe {
		w.flush(appendHeader(nil, &w.hdr))
		for i := range w.events {
			e := &w.events[i]
			w.record(&HeaderAttr{Meta: Meta{Type: RecordHeaderAttr}, Attr: e.Attr, IDs: e.IDs})
		}
		return
	}
	size := uint32(attrSizeMin)
	for i := range w.events {
		size = max(size, w.events[i].Attr.Size)
	}
	w.enc.b = make([]byte, headerSize)
	idsAt := make([]uint64, len(w.events))
	for i := range w.events {
		w.events[i].Attr.Size = size
		idsAt[i] = uint64(len(w.enc.b))
		for _, id := range w.events[i].IDs {
			w.enc.u64(id)
		}
	}
	w.hdr.AttrSize = uint64(size) + sectionSize
	w.hdr.Attrs = Section{uint64(len(w.enc.b)), w.hdr.AttrSize * uint64(len(w.events))}
	for i := range w.events {
		w.enc.b = w.events[i].Attr.AppendTo(w.enc.b, int(size), w.o.Big)
		w.enc.u64(idsAt[i])
		w.enc.u64(8 * uint64(len(w.events[i].IDs)))
	}
	w.hdr.Data.Offset = uint64(len(w.enc.b))
	appendHeader(w.enc.b[:0], &w.hdr)
	w.flush(w.enc.b)
	w.enc.b = nil
}

// flush writes b to the buffer.
func (w *Writer) flush(b []byte) {
	if w.err != nil {
		return
	}
	n, err := w.w.Write(b)
	w.pos += int64(n)
	w.err = err
}

// record encodes and writes r.
func (w *Writer) record(r Record) {
	b, err := AppendRecord(w.enc.b[:0], r, w.layoutOf(r), w.o.Big)
	if err != nil {
		if w.err == nil {
			w.err = err
		}
		return
	}
	w.enc.b = b
	w.flush(b)
}

// layoutOf returns the attr of the event that a record belongs to; nil if
// there are no events.
func (w *Writer) layoutOf(r Record) *Attr {
	i := 0
	switch r := r.(type) {
	case *Sample:
		i = r.Event
	default:
		i = w.ids[r.Head().ID]
	}
	if i < 0 || i >= len(w.events) {
		i = 0
	}
	if len(w.events) == 0 {
		return nil
	}
	return &w.events[i].Attr
}

// Write appends a record: see AppendRecord. The event of a sample is that of
// its Event, of another record that of the ID in its trailer, or the first. A record that cannot be encoded is an
// error and leaves the recording as it is; any other error stays.
func (w *Writer) Write(r Record) error {
	if err := w.ready(); err != nil {
		return err
	}
	b, err := AppendRecord(w.enc.b[:0], r, w.layoutOf(r), w.o.Big)
	if err != nil {
		return err
	}
	w.enc.b = b
	w.flush(b)
	return w.err
}

// WriteRaw appends bytes as they are: whole records, in the byte order of the
// recording, such as the kernel leaves in its buffers or Batch.Data holds.
func (w *Writer) WriteRaw(b []byte) error {
	if err := w.ready(); err != nil {
		return err
	}
	w.flush(b)
	return w.err
}

// ready begins the recording if need be.
func (w *Writer) ready() error {
	if w.err != nil {
		return w.err
	}
	if w.closed {
		return fmt.Errorf("record after Close: %w", ErrWriter)
	}
	w.begin()
	return w.err
}

// SetFeature sets a feature to v, of the type that File.Feature returns for
// it. In a pipe it is written at once, as a record.
func (w *Writer) SetFeature(bit int, v any) error {
	return w.SetFeatureData(bit, AppendFeature(nil, bit, v, w.o.Big))
}

// SetFeatureData sets the payload of a feature.
func (w *Writer) SetFeatureData(bit int, b []byte) error {
	if bit < 0 || bit > 255 {
		return fmt.Errorf("feature %d: there are 256", bit)
	}
	if w.o.Pipe {
		return w.Write(&HeaderFeature{Meta: Meta{Type: RecordHeaderFeature}, Feature: uint64(bit), Data: b})
	}
	if w.closed {
		return fmt.Errorf("feature after Close: %w", ErrWriter)
	}
	w.feat[bit] = slices.Clone(b)
	return w.err
}

// Flush writes to the underlying writer what was buffered, so that a killed
// recorder loses nothing that came before.
func (w *Writer) Flush() error {
	if err := w.ready(); err != nil {
		return err
	}
	w.err = w.w.Flush()
	return w.err
}

// Checkpoint is Flush, and has the header of a file say how much data there is,
// so that what a killed recorder leaves is a recording like any other, only
// without features.
func (w *Writer) Checkpoint() error {
	if err := w.Flush(); err != nil || w.o.Pipe {
		return err
	}
	h := w.hdr
	h.Data.Size = uint64(w.pos) - h.Data.Offset
	w.err = w.patch(appendHeader(nil, &h))
	return w.err
}

// Offset returns how many bytes of the recording have been written.
func (w *Writer) Offset() int64 { return w.pos }

// Close writes the features and completes the header. It does not close the
// underlying writer. Without it a file is a killed recording.
func (w *Writer) Close() error {
	if w.closed {
		return w.err
	}
	if err := w.ready(); err != nil {
		return err
	}
	w.closed = true
	if w.o.Pipe {
		w.err = w.w.Flush()
		return w.err
	}
	w.hdr.Data.Size = uint64(w.pos) - w.hdr.Data.Offset
	bits := slices.Sorted(maps.Keys(w.feat))
	off := uint64(w.pos) + sectionSize*uint64(len(bits)+w.o.Spare)
	w.enc.b = w.enc.b[:0]
	for _, bit := range bits {
		w.hdr.Features[bit/64] |= 1 << (bit % 64)
		w.enc.u64(off)
		w.enc.u64(uint64(len(w.feat[bit])))
		off += uint64(len(w.feat[bit]))
	}
	w.enc.zeros(sectionSize * w.o.Spare)
	w.flush(w.enc.b)
	for _, bit := range bits {
		w.flush(w.feat[bit])
	}
	if w.err == nil {
		w.err = w.w.Flush()
	}
	if w.err == nil {
		w.err = w.patch(appendHeader(nil, &w.hdr))
	}
	return w.err
}

// patch writes the header anew and goes back to the end.
func (w *Writer) patch(header []byte) error {
	if _, err := w.seek.Seek(-w.pos, io.SeekCurrent); err != nil {
		return err
	}
	if _, err := w.seek.Write(header); err != nil {
		return err
	}
	_, err := w.seek.Seek(w.pos-int64(len(header)), io.SeekCurrent)
	return err
}

// appendHeader appends a file's header, or a pipe's.
func appendHeader(b []byte, h *Header) []byte {
	e := encoder{b: b, order: appendOrder(h.Big)}
	if h.Magic == magicOld {
		e.b = append(e.b, magicOld...)
	} else {
		e.u64(binary.LittleEndian.Uint64([]byte(magicLE)))
	}
	e.u64(h.Size)
	if h.Pipe {
		return e.b
	}
	e.u64(h.AttrSize)
	for _, s := range []Section{h.Attrs, h.Data, h.EventTypes} {
		e.u64(s.Offset)
		e.u64(s.Size)
	}
	if h.Size < headerSize {
		return e.b
	}
	for _, w := range h.Features {
		if h.Word == 4 {
			e.u32(uint32(w))
			e.u32(uint32(w >> 32))
			continue
		}
		e.u64(w)
	}
	return e.b
}
