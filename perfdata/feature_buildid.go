package perfdata

import (
	"bytes"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/internal/decode"
)

// Sizes in a record of the BUILD_ID table: struct perf_record_header_build_id
// (tools/lib/perf/include/perf/event.h).
const (
	buildIDHead   = 8  // struct perf_event_header
	buildIDField  = 24 // the id, its size at [20], three reserved bytes
	buildIDMax    = 20
	buildIDNoPID  = buildIDHead + buildIDField     // before Linux 2.6.34
	buildIDFixed  = buildIDHead + 4 + buildIDField // then the name
	buildIDRecord = 67                             // the type in pipes; 0 in the table
)

// A BuildIDTable is the feature BUILD_ID. Layouts through time:
//
//   - to Linux 2.6.33 a record had no pid, and was 4 bytes shorter;
//   - to Linux 5.9 an id was 20 bytes, shorter ones padded with zeros;
//   - since then MiscBuildIDSize says that its length follows it.
//
// A record that cannot be read costs that record: the table is read on from
// where the next one seems to be.
type BuildIDTable struct {
	Records  []*BuildIDRecord
	NoPID    bool            // the layout of 2.6.33; MachinePID is -1, or 0 for guests
	Warnings []*decode.Error // what was wrong, with offsets
}

// BuildIDs returns the build ids in the header, in the order of the file. In
// pipes they are records, and this is nil.
func (f *File) BuildIDs() []*BuildIDRecord {
	v, _ := featureOf[BuildIDTable](f, FeatureBuildID)
	return v.Records
}

// decodeBuildIDTable never fails: what is wrong is in Warnings.
func decodeBuildIDTable(c *decode.Cursor) BuildIDTable {
	b := c.Rest()
	t := buildIDTable{b: b, off: c.Offset() - int64(len(b)), big: c.Big()}
	t.fixed = buildIDFixed
	if t.hasNoPID() {
		t.fixed = buildIDNoPID
		t.out.NoPID = true
	}
	t.read()
	return t.out
}

type buildIDTable struct {
	b     []byte
	off   int64 // of b in the file
	big   bool
	fixed int // bytes before the name
	out   BuildIDTable
}

// maxBuildIDWarnings bounds what a broken table can make us say.
const maxBuildIDWarnings = 100

func (t *buildIDTable) warn(pos int, field, format string, args ...any) {
	if len(t.out.Warnings) >= maxBuildIDWarnings {
		return
	}
	c := decode.NewCursor(nil, t.off+int64(pos), t.big)
	c.Failf(field, format, args...)
	t.out.Warnings = append(t.out.Warnings, c.Err().(*decode.Error))
}

// head reads the record header at pos.
func (t *buildIDTable) head(pos int) (typ uint32, misc uint16, size int) {
	c := decode.NewCursor(t.b[pos:], 0, t.big)
	typ, misc = c.Uint32(""), c.Uint16("")
	return typ, misc, int(c.Uint16(""))
}

// hasNoPID decides between the two layouts by where the names begin: where
// the older one has the name, the other has the length of the id.
func (t *buildIDTable) hasNoPID() bool {
	with, without := 0, 0
	for pos := 0; pos+buildIDNoPID < len(t.b); {
		_, _, size := t.head(pos)
		if size <= buildIDNoPID || size > len(t.b)-pos {
			break
		}
		switch {
		case startsName(t.b[pos+buildIDNoPID : pos+size]): // no length of an id has these values
			without++
		case size > buildIDFixed && startsName(t.b[pos+buildIDFixed:pos+size]):
			with++
		}
		pos += size
	}
	return without > with
}

// startsName reports whether b begins as names of objects do: /path,
// [vdso], //anon.
func startsName(b []byte) bool { return len(b) > 0 && (b[0] == '/' || b[0] == '[') }

// plausible reports whether a record may begin at pos.
func (t *buildIDTable) plausible(pos int) bool {
	if len(t.b)-pos <= t.fixed {
		return false
	}
	typ, misc, size := t.head(pos)
	return (typ == 0 || typ == buildIDRecord) && misc&^(7|MiscBuildIDSize) == 0 && misc&7 <= CPUModeGuestUser &&
		size > t.fixed && size <= len(t.b)-pos && startsName(t.b[pos+t.fixed:])
}

// resync returns the first position from pos on, and before end, where a
// record may begin; -1 if there is none.
func (t *buildIDTable) resync(pos, end int) int {
	for ; pos < end; pos++ {
		if t.plausible(pos) {
			return pos
		}
	}
	return -1
}

func (t *buildIDTable) read() {
	pos := 0
	for pos < len(t.b) {
		if len(bytes.Trim(t.b[pos:], "\x00")) == 0 {
			return // padding of a pipe record
		}
		if len(t.b)-pos <= buildIDHead {
			t.warn(pos, "build_id", "%d bytes left over", len(t.b)-pos)
			return
		}
		_, _, size := t.head(pos)
		end := pos + size
		switch {
		case size < t.fixed:
			t.warn(pos, "build_id.size", "%d bytes, want %d or more", size, t.fixed)
			end = -1
		case end > len(t.b):
			t.warn(pos, "build_id.size", "%d bytes, but the section ends after %d", size, len(t.b)-pos)
			end = t.record(pos, len(t.b))
		default:
			end = t.record(pos, end)
		}
		if end < 0 {
			if end = t.resync(pos+1, len(t.b)); end < 0 {
				return
			}
		}
		pos = end
	}
}

// record adds the record from pos to end, and returns where the next begins,
// or -1 if this one could not be read. A record that says it is longer or
// shorter than its name (as some writers' do) is cut to it.
func (t *buildIDTable) record(pos, end int) int {
	if end-pos < t.fixed {
		return -1
	}
	name := t.b[pos+t.fixed : end]
	nul := bytes.IndexByte(name, 0)
	switch {
	case nul < 0 && t.add(pos, name):
		// The size may leave out the end of the name: no record begins at
		// end, but a NUL and then one do follow.
		if end < len(t.b) && !t.plausible(end) {
			t.extend(pos, end)
			return t.resync(end, len(t.b))
		}
		t.warn(pos+t.fixed, "build_id.filename", "no NUL in the record's %d bytes", end-pos)
		return end
	case nul < 0:
		return -1
	}
	if !t.add(pos, name[:nul]) {
		return -1
	}
	// Behind the name there is only padding, unless the size is too large.
	if rest := name[nul:]; len(bytes.Trim(rest, "\x00")) > 0 {
		if next := t.resync(pos+t.fixed+nul+1, end); next >= 0 {
			t.warn(pos, "build_id.size", "%d bytes, but a record begins after %d", end-pos, next-pos)
			return next
		}
	}
	if end < len(t.b) && len(bytes.Trim(t.b[end:], "\x00")) > 0 && !t.plausible(end) {
		// Padding that the size leaves out.
		if next := t.resync(end+1, min(end+nameAlign, len(t.b))); next >= 0 && len(bytes.Trim(t.b[end:next], "\x00")) == 0 {
			t.warn(pos, "build_id.size", "%d bytes, but the next record begins after %d", end-pos, next-pos)
			return next
		}
	}
	return end
}

// extend completes the name of the last record, which has no NUL before end,
// if it goes on as text up to one.
func (t *buildIDTable) extend(pos, end int) {
	more := t.b[end:min(end+4096, len(t.b))]
	nul := bytes.IndexByte(more, 0)
	if nul < 0 || bytes.ContainsFunc(more[:nul], func(r rune) bool { return r < ' ' }) {
		t.warn(pos+t.fixed, "build_id.filename", "no NUL in the record's %d bytes", end-pos)
		return
	}
	r := t.out.Records[len(t.out.Records)-1]
	r.Name += string(more[:nul])
	t.warn(pos, "build_id.size", "%d bytes, but the name ends after %d", end-pos, end-pos+nul+1)
}

// add appends the record at pos, and reports whether it is one.
func (t *buildIDTable) add(pos int, name []byte) bool {
	typ, misc, size := t.head(pos)
	if len(name) == 0 || typ != 0 && typ != buildIDRecord {
		t.warn(pos, "build_id", "type %d, size %d, name %q: not a record of the table", typ, size, clip(name))
		return false
	}
	r := &BuildIDRecord{
		Meta: Meta{
			Type: buildIDRecord, Misc: misc, Size: size, Offset: t.off + int64(pos),
			SampleID: SampleID{PID: -1, TID: -1, CPU: -1},
		},
		MachinePID: -1,
		Name:       string(name),
	}
	c := decode.NewCursor(t.b[pos+buildIDHead:pos+t.fixed], 0, t.big)
	if t.fixed == buildIDFixed {
		r.MachinePID = int32(c.Uint32("build_id.pid"))
	} else if m := misc & MiscCPUModeMask; m == CPUModeGuestKernel || m == CPUModeGuestUser {
		r.MachinePID = 0
	}
	var ok bool
	field := c.Bytes(buildIDField, "build_id.build_id")
	if r.BuildID, ok = buildIDOf(field, misc); !ok {
		t.warn(pos+t.fixed-4, "build_id.size", "an id of %d bytes, at most %d fit", field[buildIDMax], buildIDMax)
	}
	t.out.Records = append(t.out.Records, r)
	return true
}

// buildIDOf returns the id in the 24 bytes of a record; ok is false if its
// length is more than can be there, which is then taken as 20.
func buildIDOf(field []byte, misc uint16) (id buildid.ID, ok bool) {
	n := buildIDMax
	if misc&MiscBuildIDSize != 0 {
		n = int(field[buildIDMax])
	}
	if n > buildIDMax {
		return buildid.New(field[:buildIDMax]), false
	}
	return buildid.New(field[:n]), true
}

func clip(b []byte) []byte { return b[:min(len(b), 64)] }

// encodeBuildIDTable writes the records as perf does, the size from Meta, if it is larger, included.
func encodeBuildIDTable(e *encoder, t BuildIDTable) {
	for _, r := range t.Records {
		start := len(e.b)
		e.u32(0)
		e.u16(r.Misc)
		e.u16(0)
		if !t.NoPID {
			e.u32(uint32(r.MachinePID))
		}
		e.buildID(r.BuildID, r.Misc)
		e.b = append(append(e.b, r.Name...), 0)
		size := max(len(e.b)-start, r.Size)
		e.zeros(size - (len(e.b) - start))
		e.order.AppendUint16(e.b[:start+6], uint16(size))
	}
}

// buildID writes the 24 bytes of an id. Longer ids are cut to 20, as perf
// does.
func (e *encoder) buildID(id buildid.ID, misc uint16) {
	n := min(len(id), buildIDMax)
	e.b = append(e.b, id[:n]...)
	e.zeros(buildIDMax - n)
	if misc&MiscBuildIDSize != 0 {
		e.u8(uint8(n))
	} else {
		e.u8(0)
	}
	e.zeros(3)
}
