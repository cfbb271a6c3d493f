package perfdata

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"strings"

	"github.com/perfark/perfark/internal/decode"
)

// Sizes of the file's parts, in bytes.
const (
	headerSize     = 104 // of struct perf_file_header
	headerSizeOld  = 72  // the same before there were features
	headerSizePipe = 16
	sectionSize    = 16
)

const (
	magicOld = "PERFFILE"
	magicLE  = "PERFILE2"
	magicBE  = "2ELIFREP"
)

func order(big bool) binary.ByteOrder {
	if big {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// isPerfData reports whether b begins like a recording.
func isPerfData(b []byte) bool {
	if len(b) < 8 {
		return false
	}
	m := string(b[:8])
	return m == magicOld || m == magicLE || m == magicBE
}

// readHeader reads all but the records: the header, the events, and where the
// features are.
func (f *File) readHeader() error {
	head := make([]byte, min(headerSize, f.size))
	if _, err := io.ReadFull(io.NewSectionReader(f.r, 0, f.size), head); err != nil {
		return err
	}
	if !isPerfData(head) {
		return fmt.Errorf("%w: %s", ErrNotPerfData, whatIs(head))
	}
	h := &f.hdr
	h.Magic, h.Version, h.Word = magicLE, 1, 8
	h.FileSize = f.size
	h.Big = string(head[:8]) == magicBE
	if string(head[:8]) == magicOld {
		h.Magic, h.Version = magicOld, 0
		h.Big = oldIsBig(head)
	}
	c := decode.NewCursor(head[8:], 8, h.Big)
	h.Size = c.Uint64("header.size")
	if c.Err() != nil {
		return c.Err()
	}
	if h.Size == headerSizePipe {
		h.Pipe = true
		f.streams = []stream{{name: f.name, r: f.r, start: headerSizePipe, end: f.size, killed: true}}
		return f.readPipe()
	}
	h.AttrSize = c.Uint64("header.attr_size")
	h.Attrs = readSection(&c, "header.attrs")
	h.Data = readSection(&c, "header.data")
	h.EventTypes = readSection(&c, "header.event_types")
	var bitmap []byte
	switch h.Size {
	case headerSize:
		bitmap = c.Bytes(32, "header.features")
	case headerSizeOld:
	default:
		c.FailAt(8, "header.size", "is %d, but must be %d, %d or %d", h.Size, headerSize, headerSizeOld, headerSizePipe)
	}
	if c.Err() != nil {
		return c.Err()
	}
	if bitmap != nil {
		h.Features, h.Word = featureBits(bitmap, h.Big)
	}
	if err := f.readAttrs(); err != nil {
		return err
	}
	f.findData()
	f.findFeatures()
	f.nameEvents(nil)
	f.table = newEventTable(f.events)
	return nil
}

// oldIsBig finds the byte order of a PERFFILE, which does not tell: it is the
// one in which the size of an attr, or of a pipe's header, makes sense.
func oldIsBig(head []byte) bool {
	if len(head) < 24 {
		return len(head) >= 16 && binary.BigEndian.Uint64(head[8:]) == headerSizePipe
	}
	if binary.BigEndian.Uint64(head[8:]) == headerSizePipe {
		return true
	}
	n := binary.BigEndian.Uint64(head[16:])
	return n >= attrSizeMin+sectionSize && n <= attrEntryMax
}

func readSection(c *decode.Cursor, name string) Section {
	return Section{Offset: c.Uint64(name + ".offset"), Size: c.Uint64(name + ".size")}
}

// featureBits decodes the bitmap of features, which is an array of the
// recorder's unsigned long. On big-endian machines their size makes a
// difference: the right one is that which shows known features. Like perf we
// ask for HOSTNAME, which every recording has.
func featureBits(b []byte, big bool) (set [4]uint64, word int) {
	for i := range set {
		set[i] = order(big).Uint64(b[8*i:])
	}
	const hostname = 1 << FeatureHostname
	if !big || set[0]&hostname != 0 {
		return set, 8
	}
	var swapped [4]uint64
	for i := range set {
		swapped[i] = bits.RotateLeft64(set[i], 32)
	}
	if swapped[0]&hostname != 0 || set[0]>>featureEnd != 0 && swapped[0]>>featureEnd == 0 {
		return swapped, 4
	}
	return set, 8
}

// within returns s as offsets into a file of the given size, and whether it
// lies in it.
func (s Section) within(size int64) (off, n int64, ok bool) {
	if s.Offset > uint64(size) || s.Size > uint64(size)-s.Offset {
		return 0, 0, false
	}
	return int64(s.Offset), int64(s.Size), true
}

// readAttrs reads the table of events. Its entries are AttrSize bytes long,
// whatever the attrs in them say of themselves: newer ones are longer than we
// know.
func (f *File) readAttrs() error {
	h := &f.hdr
	bad := func(at int64, field, format string, args ...any) error {
		return &decode.Error{Offset: at, Field: field, Why: fmt.Sprintf(format, args...)}
	}
	switch {
	case h.AttrSize == 0:
		return bad(16, "header.attr_size", "is 0: the recorder was killed before it wrote the header")
	case h.AttrSize < attrSizeMin+sectionSize:
		return bad(16, "header.attr_size", "is %d, but must be at least %d", h.AttrSize, attrSizeMin+sectionSize)
	case h.AttrSize > attrEntryMax:
		return bad(16, "header.attr_size", "is %d, but must be at most %d", h.AttrSize, attrEntryMax)
	}
	n := h.Attrs.Size / h.AttrSize
	if n == 0 {
		return bad(32, "header.attrs.size", "is %d, less than one entry of %d", h.Attrs.Size, h.AttrSize)
	}
	if h.Attrs.Size%h.AttrSize != 0 {
		f.AddDamage(Damage{Name: f.name, Offset: 32, What: fmt.Sprintf("header.attrs.size: %d is no multiple of header.attr_size %d", h.Attrs.Size, h.AttrSize)})
	}
	off, _, ok := h.Attrs.within(f.size)
	if !ok {
		if h.Attrs.Offset >= uint64(f.size) || (uint64(f.size)-h.Attrs.Offset)/h.AttrSize == 0 {
			return bad(24, "header.attrs", "%d bytes at %#x, but the file has %d", h.Attrs.Size, h.Attrs.Offset, f.size)
		}
		off = int64(h.Attrs.Offset)
		had := n
		n = (uint64(f.size) - h.Attrs.Offset) / h.AttrSize
		h.Truncated = true
		f.AddDamage(Damage{Name: f.name, Offset: f.size, What: fmt.Sprintf("attrs: %d events recorded, but the file ends after %d", had, n)})
	}
	if err := f.budget.Alloc(int64(n*h.AttrSize), "perf.data: attrs"); err != nil {
		return err
	}
	b := make([]byte, n*h.AttrSize)
	if _, err := f.r.ReadAt(b, off); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	idBytes := uint64(0)
	for i := range int(n) {
		at := off + int64(i)*int64(h.AttrSize)
		entry := b[uint64(i)*h.AttrSize : uint64(i+1)*h.AttrSize]
		size := len(entry) - sectionSize
		c := decode.NewCursor(entry[:size], at, h.Big)
		e := Event{Attr: decodeAttr(&c), offset: at}
		if c.Err() != nil {
			return c.Err()
		}
		f.checkAttr(i, &e.Attr, size)
		c = decode.NewCursor(entry[size:], at+int64(size), h.Big)
		ids := readSection(&c, "attr.ids")
		// Sections do not share bytes, so all of them fit in the file.
		if idBytes += ids.Size; ids.Size > uint64(f.size) || idBytes > uint64(f.size) {
			f.AddDamage(Damage{Name: f.name, Offset: at + int64(size) + 8, What: fmt.Sprintf("attr.ids.size: %d bytes, but the file has %d", ids.Size, f.size)})
			idBytes -= ids.Size
		} else {
			e.IDs = f.readIDs(ids, at+int64(size))
		}
		f.events = append(f.events, e)
	}
	return nil
}

// checkAttr notes what is odd about an attr whose entry has n bytes for it.
func (f *File) checkAttr(i int, a *Attr, n int) {
	if size := int(a.Size); size != n && !(size == 0 && n == attrSizeMin) {
		f.warnf("event %d: attr.size is %d, but its entry has %d bytes", i, a.Size, n)
	}
	for _, x := range a.Tail {
		if x != 0 {
			f.warnf("attr of %d bytes: those from %d on are newer than this program and not all zero", n, AttrSizeMax)
			break
		}
	}
}

// readIDs reads the ids of an event, as many as there are in the file.
func (f *File) readIDs(s Section, at int64) []uint64 {
	if s.Size == 0 {
		return nil
	}
	if s.Offset >= uint64(f.size) || s.Size > uint64(f.size)-s.Offset {
		f.AddDamage(Damage{Name: f.name, Offset: at, What: fmt.Sprintf("attr.ids: %d bytes at %#x, but the file has %d", s.Size, s.Offset, f.size)})
		if s.Offset >= uint64(f.size) {
			return nil
		}
		s.Size = uint64(f.size) - s.Offset
	}
	b := make([]byte, s.Size)
	if _, err := f.r.ReadAt(b, int64(s.Offset)); err != nil && !errors.Is(err, io.EOF) {
		f.AddDamage(Damage{Name: f.name, Offset: int64(s.Offset), What: "attr.ids: " + err.Error()})
		return nil
	}
	ids := make([]uint64, 0, len(b)/8)
	for ; len(b) >= 8; b = b[8:] {
		ids = append(ids, order(f.hdr.Big).Uint64(b))
	}
	return ids
}

// findData finds where the records are.
func (f *File) findData() {
	h := &f.hdr
	s := stream{name: f.name, r: f.r}
	off, n, ok := h.Data.within(f.size)
	switch {
	case ok && n > 0:
		s.start, s.end = off, off+n
	case h.Data.Offset >= uint64(f.size):
		h.Truncated = true
		s.start, s.end = f.size, f.size
		f.AddDamage(Damage{Name: f.name, Offset: f.size, What: fmt.Sprintf("data: %d bytes at %#x recorded, but the file has %d", h.Data.Size, h.Data.Offset, f.size)})
	case h.Data.Size == 0:
		// The recorder writes the size when it ends. It was killed; what
		// it wrote before is there.
		h.Killed = true
		s.start, s.end, s.killed = int64(h.Data.Offset), f.size, true
		f.AddDamage(Damage{Name: f.name, Offset: 48, What: "header.data.size: is 0: the recorder did not end; reading to the end of the file, without features"})
	default:
		h.Truncated = true
		s.start, s.end = int64(h.Data.Offset), f.size
		f.AddDamage(Damage{Name: f.name, Offset: f.size, Len: clampInt64(h.Data.Size - uint64(f.size-s.start)), What: fmt.Sprintf("data: %d bytes recorded, but the file ends after %d", h.Data.Size, f.size-s.start)})
	}
	f.streams = []stream{s}
}

func clampInt64(v uint64) int64 { return int64(min(v, 1<<63-1)) }

// findFeatures reads the table behind the data: a section for every bit of
// the bitmap, known or not, in ascending order.
func (f *File) findFeatures() {
	h := &f.hdr
	f.features = make(map[int]feature)
	if h.Killed || h.Features == [4]uint64{} {
		return
	}
	end := h.Data.Offset + h.Data.Size
	if h.Truncated || end < h.Data.Offset || end > uint64(f.size) {
		var cut []string
		for bit := range 256 {
			if h.Has(bit) {
				cut = append(cut, FeatureName(bit))
			}
		}
		f.cutOff(f.size, cut)
		return
	}
	table := make([]byte, 256*sectionSize)
	n, err := f.r.ReadAt(table, int64(end))
	if err != nil && !errors.Is(err, io.EOF) {
		f.AddDamage(Damage{Name: f.name, Offset: int64(end), What: "features: " + err.Error()})
	}
	c := decode.NewCursor(table[:n], int64(end), h.Big)
	var cut []string
	first := int64(0)
	for bit := range 256 {
		if !h.Has(bit) {
			continue
		}
		at := c.Offset()
		s := readSection(&c, "feature")
		off, size, ok := s.within(f.size)
		switch {
		case c.Err() != nil:
			if cut == nil {
				first = at
			}
			cut = append(cut, FeatureName(bit))
		case !ok:
			f.AddDamage(Damage{Name: f.name, Offset: at, What: fmt.Sprintf("%s: %d bytes at %#x, but the file has %d", featureWhat(bit), s.Size, s.Offset, f.size)})
		default:
			f.features[bit] = feature{off: off, size: size}
		}
	}
	f.cutOff(first, cut)
}

// cutOff notes that the file ends at off before the features names.
func (f *File) cutOff(off int64, names []string) {
	if len(names) > 0 {
		f.AddDamage(Damage{Name: f.name, Offset: off, What: "features " + strings.Join(names, ", ") + ": cut off"})
	}
}

// Features returns the bits of the features that are there, ascending.
func (f *File) Features() []int {
	var list []int
	for bit := range 256 {
		if _, ok := f.features[bit]; ok {
			list = append(list, bit)
		}
	}
	return list
}

// FeatureData returns the payload of a feature and its offset in the file;
// nil if it is absent, and an empty slice if it is empty.
func (f *File) FeatureData(bit int) ([]byte, int64, error) {
	x, ok := f.features[bit]
	if !ok {
		return nil, 0, nil
	}
	if x.data != nil {
		return x.data, x.off, nil
	}
	if err := f.budget.Alloc(x.size, "perf.data: feature "+FeatureName(bit)); err != nil {
		return nil, x.off, fmt.Errorf("%s: %w", f.name, err)
	}
	b := make([]byte, x.size)
	if _, err := f.r.ReadAt(b, x.off); err != nil && !errors.Is(err, io.EOF) {
		return nil, x.off, fmt.Errorf("%s: %w", f.name, err)
	}
	return b, x.off, nil
}

// FeatureSection returns where in the file the payload of a feature stands.
// Of a recording through a pipe it is the part of the record behind its id.
func (f *File) FeatureSection(bit int) (Section, bool) {
	x, ok := f.features[bit]
	return Section{Offset: uint64(x.off), Size: uint64(x.size)}, ok
}

// readPipe goes through a recording that was written to a pipe and keeps what
// in a file the header would hold.
func (f *File) readPipe() error {
	f.features = make(map[int]feature)
	names := make(map[uint64]string)
	d := &Decoder{f: f, tab: &f.table, big: f.hdr.Big, quiet: true}
	w := f.newBatches(context.Background())
	w.scan = true
	defer w.stop()
	for {
		b, err := w.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		for i := 0; i < len(b.Data); {
			typ, _, size := RecordHeader(b.Data[i:], f.hdr.Big)
			rec := b.Data[i : i+size]
			switch typ {
			case RecordTracingData:
				f.noteTracing(rec, b.At(i))
			case RecordHeaderAttr, RecordHeaderFeature, RecordEventUpdate, RecordEventType:
				// A bad one is found again, and noted, by whoever reads the records.
				if r, err := d.Decode(rec, b.At(i)); err == nil {
					if err := f.pipeRecord(r, names); err != nil {
						return err
					}
				}
			}
			i += size
		}
		b.Release()
	}
	if len(f.events) == 0 {
		return &decode.Error{Offset: headerSizePipe, Field: "records", Why: "no HEADER_ATTR, so no event, among them"}
	}
	f.nameEvents(names)
	f.table = newEventTable(f.events)
	return nil
}

// noteTracing keeps where the formats of tracepoints are: behind the record.
func (f *File) noteTracing(rec []byte, at int64) {
	if len(rec) < 12 || f.tracing.Size > 0 {
		return
	}
	n, off := int64(order(f.hdr.Big).Uint32(rec[8:])), at+int64(len(rec))
	if n <= f.size-off {
		f.tracing = Section{Offset: uint64(off), Size: uint64(n)}
	}
}

func (f *File) pipeRecord(r Record, names map[uint64]string) error {
	switch r := r.(type) {
	case *HeaderAttr:
		n := int(r.Attr.Size)
		if n == 0 {
			n = attrSizeMin
		}
		f.checkAttr(len(f.events), &r.Attr, n)
		if err := f.budget.Alloc(int64(r.Size), "perf.data: attrs"); err != nil {
			return err
		}
		f.events = append(f.events, Event{Attr: r.Attr, IDs: r.IDs, offset: r.Offset + 8})
	case *HeaderFeature:
		if r.Feature == 0 || r.Feature >= 256 {
			return nil // the mark of the last
		}
		bit := int(r.Feature)
		if len(r.Data) == 0 && bit > FeaturePMUCaps {
			return nil // the same: perf writes the first bit that it does not know
		}
		if _, ok := f.features[bit]; ok {
			return nil
		}
		if err := f.budget.Alloc(int64(len(r.Data)), "perf.data: features"); err != nil {
			return err
		}
		f.features[bit] = feature{off: r.Offset + 16, size: int64(len(r.Data)), data: append([]byte{}, r.Data...)}
		f.hdr.Features[bit/64] |= 1 << (bit % 64)
	case *EventUpdate:
		for i := range f.events {
			e := &f.events[i]
			if len(e.IDs) == 0 || e.IDs[0] != r.EventID {
				continue
			}
			switch r.Kind {
			case 0:
				e.Unit = r.Text
			case 1:
				e.Scale = r.Scale
			case 2:
				e.Name = r.Text
			}
		}
	case *EventType:
		names[r.EventID] = r.Name
	}
	return nil
}
