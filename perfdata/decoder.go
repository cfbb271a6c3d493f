package perfdata

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"strings"

	"github.com/perfark/perfark/internal/decode"
)

// RecordHeader decodes the first eight bytes of a record: its type, misc, and
// its size in bytes, header included. b must have eight bytes. A size below 8
// is damage.
func RecordHeader(b []byte, big bool) (typ Type, misc uint16, size int) {
	h := binary.LittleEndian.Uint64(b)
	if big {
		h = binary.BigEndian.Uint64(b)
		h = h>>32 | h>>16&0xffff<<32 | h<<48
	}
	typ, misc, size = Type(h), uint16(h>>32), int(h>>48)
	if typ >= recordSimpleperfMin && typ <= recordSimpleperfMax {
		size |= int(misc) << 16
		misc = 0
	}
	return typ, misc, size
}

// A layout is what a Decoder has to know of an event's records.
type layout struct {
	st       SampleType
	rf       ReadFormat
	fixed    int // words of a sample before its first field of varying size
	period   uint64
	hwIndex  bool
	counters bool
	regsUser int // registers
	regsIntr int

	trailer int // words of the sample_id trailer; 0 if there is none

	id        int // where the id stands in a sample, in words; -1 if nowhere
	trailerID int // and in the trailer, in words from its end, from 1; -1 if nowhere
}

// The fields of a sample whose size does not vary and which come first.
const sampleFixed = SampleIdentifier | SampleIP | SampleTID | SampleTime | SampleAddr |
	SampleIdentID | SampleStreamID | SampleCPU | SamplePeriod

// The fields of the trailer of other records.
const sampleTrailer = SampleTID | SampleTime | SampleIdentID | SampleStreamID | SampleCPU | SampleIdentifier

func count(s SampleType) int { return bits.OnesCount64(uint64(s)) }

func newLayout(a *Attr) layout {
	st := a.SampleType
	l := layout{
		st:        st,
		rf:        a.ReadFormat,
		fixed:     count(st & sampleFixed),
		period:    max(a.SamplePeriod, 1),
		hwIndex:   a.BranchSampleType&BranchHWIndex != 0,
		counters:  a.BranchSampleType&BranchCounters != 0,
		regsUser:  bits.OnesCount64(a.SampleRegsUser),
		regsIntr:  bits.OnesCount64(a.SampleRegsIntr),
		id:        -1,
		trailerID: -1,
	}
	if a.Flags&FlagSampleIDAll != 0 {
		l.trailer = count(st & sampleTrailer)
	}
	switch {
	case st&SampleIdentifier != 0:
		l.id, l.trailerID = 0, 1
	case st&SampleIdentID != 0:
		l.id = count(st & (SampleIP | SampleTID | SampleTime | SampleAddr))
		l.trailerID = 1 + count(st&(SampleStreamID|SampleCPU))
	}
	return l
}

// An eventTable finds the event of a record.
type eventTable struct {
	layouts []layout
	ids     map[uint64]int32
	first   uint64  // the smallest id
	dense   []int32 // the events of ids from first on, -1 for none; nil if they lie too far apart
	mixed   bool    // the id does not stand at the same place in all samples
	same    bool    // all events have the same layout
	known   bool    // no event has fields newer than this program
}

func newEventTable(events []Event) eventTable {
	t := eventTable{ids: make(map[uint64]int32), same: true, known: true}
	for i := range events {
		l := newLayout(&events[i].Attr)
		t.layouts = append(t.layouts, l)
		if l.id != t.layouts[0].id || l.trailerID != t.layouts[0].trailerID {
			t.mixed = true
		}
		if l.st&^sampleKnown != 0 || l.rf&^readKnown != 0 {
			t.known = false
		}
		a, b := l, t.layouts[0]
		a.period, b.period = 0, 0
		if a != b {
			t.same = false
		}
		for _, id := range events[i].IDs {
			if _, ok := t.ids[id]; !ok {
				t.ids[id] = int32(i)
			}
		}
	}
	t.makeDense()
	return t
}

// makeDense makes the table by which ids are looked up fast. The kernel counts
// them up, so they lie close together.
func (t *eventTable) makeDense() {
	if len(t.ids) == 0 {
		return
	}
	lo, hi := ^uint64(0), uint64(0)
	for id := range t.ids {
		lo, hi = min(lo, id), max(hi, id)
	}
	if hi-lo >= uint64(8*len(t.ids)+1024) {
		return
	}
	t.first, t.dense = lo, make([]int32, hi-lo+1)
	for i := range t.dense {
		t.dense[i] = -1
	}
	for id, ev := range t.ids {
		t.dense[id-lo] = ev
	}
}

// A Decoder decodes records of one File. It is for one goroutine; make one for
// each.
type Decoder struct {
	// Stream is the Stream of the Batch that is decoded: File.Damage then
	// names the right file of a directory.
	Stream int

	f     *File
	tab   *eventTable
	big   bool
	quiet bool // damage is not noted: it only tries

	// One of each, so that decoding allocates nothing but names.
	sample     Sample
	mmap       Mmap
	comm       Comm
	fork       Fork
	lost       Lost
	namespaces Namespaces
	ksymbol    Ksymbol
	bpf        BPFEvent
	cgroup     Cgroup
	throttle   Throttle
	read       Read
	aux        Aux
	itrace     ItraceStart
	swtch      Switch
	poke       TextPoke
	hwid       AuxOutputHWID
	deferred   CallchainDeferred
	finished   Finished
	unknown    Unknown
}

// NewDecoder returns a decoder of the records of f.
func NewDecoder(f *File) *Decoder {
	return &Decoder{f: f, tab: &f.table, big: f.hdr.Big}
}

func (d *Decoder) u64(b []byte) uint64 {
	if d.big {
		return binary.BigEndian.Uint64(b)
	}
	return binary.LittleEndian.Uint64(b)
}

func (d *Decoder) u32(b []byte) uint32 {
	if d.big {
		return binary.BigEndian.Uint32(b)
	}
	return binary.LittleEndian.Uint32(b)
}

// lookup returns the event of an id, or -1. Records that perf made up have
// the id 0 and belong to the first event.
func (d *Decoder) lookup(id uint64) int {
	t := d.tab
	if i := id - t.first; i < uint64(len(t.dense)) {
		if ev := t.dense[i]; ev >= 0 {
			return int(ev)
		}
	}
	if id == 0 {
		return 0
	}
	if t.dense == nil {
		if ev, ok := t.ids[id]; ok {
			return int(ev)
		}
	}
	return -1
}

// sampleEvent returns the event of a sample: -1 if its id is unknown.
func (d *Decoder) sampleEvent(body []byte) int {
	t := d.tab
	switch len(t.layouts) {
	case 0:
		return -1
	case 1:
		return 0
	}
	if t.mixed {
		// Only the events whose id stands where one of theirs is found.
		for i := range t.layouts {
			if at := t.layouts[i].id; at >= 0 && len(body) >= 8*at+8 {
				if ev, ok := t.ids[d.u64(body[8*at:])]; ok && t.layouts[ev].id == at {
					return int(ev)
				}
			}
		}
		return -1
	}
	at := t.layouts[0].id
	if at < 0 {
		return 0
	}
	if len(body) < 8*at+8 {
		return -1
	}
	return d.lookup(d.u64(body[8*at:]))
}

// trailerEvent returns the event of another record.
func (d *Decoder) trailerEvent(body []byte) int {
	t := d.tab
	if len(t.layouts) == 0 {
		return -1
	}
	if len(t.layouts) == 1 || t.layouts[0].trailer == 0 {
		return 0
	}
	if t.mixed {
		for i := range t.layouts {
			if at := t.layouts[i].trailerID; at > 0 && len(body) >= 8*at {
				if ev, ok := t.ids[d.u64(body[len(body)-8*at:])]; ok && t.layouts[ev].trailerID == at {
					return int(ev)
				}
			}
		}
		return 0
	}
	at := t.layouts[0].trailerID
	if at < 0 || len(body) < 8*at {
		return 0
	}
	return max(d.lookup(d.u64(body[len(body)-8*at:])), 0)
}

// trailer cuts the sample_id off the end of a record's body. It is read
// backwards: what stands before it has no definite length.
func (d *Decoder) trailer(c *decode.Cursor, body []byte, id *SampleID) []byte {
	*id = SampleID{PID: -1, TID: -1, CPU: -1}
	ev := d.trailerEvent(body)
	if ev < 0 {
		return body
	}
	l := &d.tab.layouts[ev]
	n := 8 * l.trailer
	if n == 0 {
		return body
	}
	if len(body) < n {
		c.Failf("sample_id", "%d bytes wanted, but only %d follow", n, len(body))
		return nil
	}
	b := body[len(body)-n:]
	if l.st&SampleTID != 0 {
		id.PID, id.TID = int32(d.u32(b)), int32(d.u32(b[4:]))
		b = b[8:]
	}
	if l.st&SampleTime != 0 {
		id.Time = d.u64(b)
		b = b[8:]
	}
	if l.st&SampleIdentID != 0 {
		id.ID = d.u64(b)
		b = b[8:]
	}
	if l.st&SampleStreamID != 0 {
		id.StreamID = d.u64(b)
		b = b[8:]
	}
	if l.st&SampleCPU != 0 {
		id.CPU = int32(d.u32(b))
		b = b[8:]
	}
	if l.st&SampleIdentifier != 0 {
		id.ID = d.u64(b)
	}
	return body[:len(body)-n]
}

// Time returns the time of the record in b, which must be whole, in ns; 0 if
// it has none.
func (d *Decoder) Time(b []byte) uint64 {
	typ, _, _ := RecordHeader(b, d.big)
	body := b[8:]
	if typ >= recordUserMin {
		return 0
	}
	if typ != RecordSample {
		var id SampleID
		var c decode.Cursor
		d.trailer(&c, body, &id)
		return id.Time
	}
	ev := max(d.sampleEvent(body), 0)
	if ev >= len(d.tab.layouts) {
		return 0
	}
	st := d.tab.layouts[ev].st
	at := 8 * count(st&(SampleIdentifier|SampleIP|SampleTID))
	if st&SampleTime == 0 || len(body) < at+8 {
		return 0
	}
	return d.u64(body[at:])
}

// Decode decodes the record in b, which must hold it and no more; off is its
// offset in the file, for errors and Meta. The record is valid until the next
// call. The error is a *decode.Error; it is noted in File.Damage.
func (d *Decoder) Decode(b []byte, off int64) (Record, error) {
	if len(b) < 8 {
		return nil, d.note(off, len(b), &decode.Error{Offset: off, Field: "record", Why: fmt.Sprintf("8 bytes wanted, but only %d follow", len(b))})
	}
	typ, misc, size := RecordHeader(b, d.big)
	if size != len(b) {
		return nil, d.note(off, len(b), &decode.Error{Offset: off, Field: "record.size", Why: fmt.Sprintf("is %d, but the record has %d bytes", size, len(b))})
	}
	if typ == RecordSample {
		if err := d.Sample(b, off, &d.sample); err != nil {
			return nil, err
		}
		return &d.sample, nil
	}
	m := Meta{Type: typ, Misc: misc, Size: size, Offset: off, SampleID: SampleID{PID: -1, TID: -1, CPU: -1}}
	c := decode.NewCursor(b[8:], off+8, d.big)
	var r Record
	switch {
	case typ >= RecordMmap && typ <= recordKernelMax:
		body := d.trailer(&c, b[8:], &m.SampleID)
		if c.Err() == nil {
			c = decode.NewCursor(body, off+8, d.big)
		}
		r = d.kernel(&c, m)
	case typ >= recordUserMin && typ <= recordUserMax:
		r = d.user(&c, m)
	default:
		d.unknown = Unknown{Meta: m, Body: b[8:]}
		r = &d.unknown
	}
	if err := c.Err(); err != nil {
		return nil, d.note(off, size, err)
	}
	// Names are padded to 8 bytes, with anything.
	if typ <= recordKernelMax && c.Len() >= 8 && d.tab.known {
		if err := d.leftover(typ, off, b, c.Rest()); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// note puts a record that cannot be decoded on the list of damage.
func (d *Decoder) note(off int64, n int, err error) error {
	if d.quiet {
		return err
	}
	what := err.Error()
	if e, ok := err.(*decode.Error); ok {
		what = e.Field + ": " + e.Why
		// Damage without decompression stands where its field does.
		if e.Offset >= off && e.Offset <= off+int64(n) {
			off = e.Offset
		}
	}
	name := d.f.name
	if d.Stream >= 0 && d.Stream < len(d.f.streams) {
		name = d.f.streams[d.Stream].name
	}
	d.f.AddDamage(Damage{Name: name, Offset: off, Len: int64(n), What: what})
	return err
}

var sampleFields = []struct {
	bit  SampleType
	name string
}{
	{SampleIdentifier, "sample.identifier"},
	{SampleIP, "sample.ip"},
	{SampleTID, "sample.tid"},
	{SampleTime, "sample.time"},
	{SampleAddr, "sample.addr"},
	{SampleIdentID, "sample.id"},
	{SampleStreamID, "sample.stream_id"},
	{SampleCPU, "sample.cpu"},
	{SamplePeriod, "sample.period"},
}

// shortSample is the error of a sample that ends among its fixed fields.
func shortSample(l *layout, off int64, body []byte) error {
	n := 0
	for _, f := range sampleFields {
		if l.st&f.bit == 0 {
			continue
		}
		if n+8 > len(body) {
			return &decode.Error{Offset: off + 8 + int64(n), Field: f.name, Why: fmt.Sprintf("8 bytes wanted, but only %d follow", len(body)-n)}
		}
		n += 8
	}
	return nil
}

// Sample decodes the SAMPLE record in b into s, whose slices it reuses: it
// allocates nothing once they are long enough. Raw, UserStack and Aux alias b.
// A sample of an unknown event has Event -1; if the events' samples differ in
// layout it cannot be decoded. The error is a *decode.Error; it is noted in
// File.Damage.
func (d *Decoder) Sample(b []byte, off int64, s *Sample) error {
	if len(b) < 8 {
		return d.note(off, len(b), &decode.Error{Offset: off, Field: "record", Why: fmt.Sprintf("8 bytes wanted, but only %d follow", len(b))})
	}
	body := b[8:]
	ev := d.sampleEvent(body)
	if ev < 0 && (len(d.tab.layouts) == 0 || !d.tab.same) {
		return d.note(off, len(b), &decode.Error{Offset: off + 8, Field: "sample.id", Why: "is that of no event"})
	}
	l := &d.tab.layouts[max(ev, 0)]
	_, misc, size := RecordHeader(b, d.big)
	// Field by field: a Meta put together first and then copied shows here.
	s.Type, s.Misc, s.Size, s.Offset = RecordSample, misc, size, off
	s.PID, s.TID, s.CPU = -1, -1, -1
	s.Time, s.ID, s.StreamID = 0, 0, 0
	s.Event = ev
	s.IP, s.Addr, s.Period = 0, 0, l.period
	s.Callchain = s.Callchain[:0]

	if len(body) < 8*l.fixed {
		return d.note(off, len(b), shortSample(l, off, body))
	}
	st := l.st
	w := body[:8*l.fixed]
	if st&SampleIdentifier != 0 {
		s.ID = d.u64(w)
		w = w[8:]
	}
	if st&SampleIP != 0 {
		s.IP = d.u64(w)
		w = w[8:]
	}
	if st&SampleTID != 0 {
		s.PID, s.TID = int32(d.u32(w)), int32(d.u32(w[4:]))
		w = w[8:]
	}
	if st&SampleTime != 0 {
		s.Time = d.u64(w)
		w = w[8:]
	}
	if st&SampleAddr != 0 {
		s.Addr = d.u64(w)
		w = w[8:]
	}
	if st&SampleIdentID != 0 {
		s.ID = d.u64(w)
		w = w[8:]
	}
	if st&SampleStreamID != 0 {
		s.StreamID = d.u64(w)
		w = w[8:]
	}
	if st&SampleCPU != 0 {
		s.CPU = int32(d.u32(w))
		w = w[8:]
	}
	if st&SamplePeriod != 0 {
		s.Period = d.u64(w)
	}
	rest := body[8*l.fixed:]

	// Most samples end with a call chain, or before it.
	if st&^(sampleFixed|SampleCallchain) == 0 {
		if st&SampleCallchain != 0 {
			if len(rest) >= 8 {
				n := d.u64(rest)
				if n <= uint64(len(rest)/8-1) {
					s.Callchain = d.words(s.Callchain, rest[8:8+8*n])
					rest = rest[8+8*n:]
					return d.leftover(RecordSample, off, b, rest)
				}
			}
			// Short: let the cursor say how.
			c := decode.NewCursor(rest, off+int64(len(b)-len(rest)), d.big)
			c.Count(8, "sample.callchain.nr")
			return d.note(off, len(b), c.Err())
		}
		return d.leftover(RecordSample, off, b, rest)
	}
	c := decode.NewCursor(rest, off+int64(len(b)-len(rest)), d.big)
	d.sampleRest(&c, l, s)
	if err := c.Err(); err != nil {
		return d.note(off, len(b), err)
	}
	if st&^sampleKnown != 0 {
		return nil // fields that are newer than this program follow
	}
	return d.leftover(RecordSample, off, b, c.Rest())
}

// leftover notes bytes at the end of a record that belong to no field: its
// size is damaged, and what it swallowed is lost.
func (d *Decoder) leftover(typ Type, off int64, b, rest []byte) error {
	if len(rest) == 0 {
		return nil
	}
	at := off + int64(len(b)-len(rest))
	err := &decode.Error{Offset: at, Field: strings.ToLower(typ.String()), Why: fmt.Sprintf("%d bytes belong to no field", len(rest))}
	if d.quiet {
		return err // no proof that this is a record
	}
	d.note(at, len(rest), err)
	return nil
}

// words appends the words in b, whose length is a multiple of 8, to s.
func (d *Decoder) words(s []uint64, b []byte) []uint64 {
	n := len(s)
	if m := n + len(b)/8; m <= cap(s) {
		s = s[:m]
	} else {
		s = append(s, make([]uint64, len(b)/8)...)
	}
	out := s[n:]
	if d.big {
		for i := range out {
			out[i] = binary.BigEndian.Uint64(b[8*i:])
		}
		return s
	}
	for len(out) >= 4 && len(b) >= 32 {
		out[0] = binary.LittleEndian.Uint64(b[0:8])
		out[1] = binary.LittleEndian.Uint64(b[8:16])
		out[2] = binary.LittleEndian.Uint64(b[16:24])
		out[3] = binary.LittleEndian.Uint64(b[24:32])
		out, b = out[4:], b[32:]
	}
	for i := range out {
		out[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return s
}

// sampleRest decodes what follows the fixed fields of a sample, in the order
// in which the kernel writes it (perf_output_sample in kernel/events/core.c).
func (d *Decoder) sampleRest(c *decode.Cursor, l *layout, s *Sample) {
	st := l.st
	s.Read, s.ReadTimes = s.Read[:0], [2]uint64{}
	s.Raw, s.UserStack, s.Aux, s.StackAt = nil, nil, nil, 0
	s.Branches, s.BranchIdx, s.BranchCntr = s.Branches[:0], 0, s.BranchCntr[:0]
	s.UserABI, s.IntrABI = 0, 0
	s.UserRegs, s.IntrRegs = s.UserRegs[:0], s.IntrRegs[:0]
	s.Weight, s.DataSrc, s.Txn, s.PhysAddr, s.CgroupID, s.DataPage, s.CodePage = 0, 0, 0, 0, 0, 0, 0

	if st&SampleRead != 0 {
		s.Read = decodeRead(c, l.rf, s.Read, &s.ReadTimes)
	}
	if st&SampleCallchain != 0 {
		n := c.Count(8, "sample.callchain.nr")
		s.Callchain = d.words(s.Callchain, c.Bytes(8*n, "sample.callchain"))
	}
	if st&SampleRaw != 0 {
		n := c.Length32("sample.raw.size")
		s.Raw = c.Bytes(n, "sample.raw")
	}
	if st&SampleBranchStack != 0 {
		d.branches(c, l, s)
	}
	if st&SampleRegsUser != 0 {
		if s.UserABI = c.Uint64("sample.regs_user.abi"); s.UserABI != 0 {
			s.UserRegs = d.words(s.UserRegs, c.Bytes(8*l.regsUser, "sample.regs_user"))
		}
	}
	if st&SampleStackUser != 0 {
		if s.UserStack = stackUser(c); s.UserStack != nil {
			s.StackAt = int(c.Offset()-s.Offset) - 8 - cap(s.UserStack)
		}
	}
	if st&(SampleWeight|SampleWeightStruct) != 0 {
		s.Weight = c.Uint64("sample.weight")
	}
	if st&SampleDataSrc != 0 {
		s.DataSrc = c.Uint64("sample.data_src")
	}
	if st&SampleTransaction != 0 {
		s.Txn = c.Uint64("sample.transaction")
	}
	if st&SampleRegsIntr != 0 {
		if s.IntrABI = c.Uint64("sample.regs_intr.abi"); s.IntrABI != 0 {
			s.IntrRegs = d.words(s.IntrRegs, c.Bytes(8*l.regsIntr, "sample.regs_intr"))
		}
	}
	if st&SamplePhysAddr != 0 {
		s.PhysAddr = c.Uint64("sample.phys_addr")
	}
	if st&SampleCgroup != 0 {
		s.CgroupID = c.Uint64("sample.cgroup")
	}
	if st&SampleDataPageSize != 0 {
		s.DataPage = c.Uint64("sample.data_page_size")
	}
	if st&SampleCodePageSize != 0 {
		s.CodePage = c.Uint64("sample.code_page_size")
	}
	if st&SampleAux != 0 {
		n := c.Count(1, "sample.aux.size")
		s.Aux = c.Bytes(n, "sample.aux")
	}
}

func (d *Decoder) branches(c *decode.Cursor, l *layout, s *Sample) {
	n := c.Count(24, "sample.branch_stack.nr")
	if l.hwIndex {
		s.BranchIdx = c.Uint64("sample.branch_stack.hw_idx")
	}
	b := c.Bytes(24*n, "sample.branch_stack")
	for ; len(b) >= 24; b = b[24:] {
		s.Branches = append(s.Branches, Branch{
			From:  d.u64(b),
			To:    d.u64(b[8:]),
			Flags: branchFlags(d.u64(b[16:]), d.big),
		})
	}
	if l.counters {
		s.BranchCntr = d.words(s.BranchCntr, c.Bytes(8*n, "sample.branch_stack.counters"))
	}
}

// branchFlags turns the bit fields of perf_branch_entry into the order of
// little-endian machines. On others the first field is the highest.
func branchFlags(v uint64, big bool) uint64 {
	if !big {
		return v
	}
	var out uint64
	at := 64
	lo := 0
	// mispred predicted in_tx abort cycles type spec new_type priv reserved
	for _, width := range [...]int{1, 1, 1, 1, 16, 4, 2, 4, 3, 31} {
		at -= width
		out |= v >> at & (1<<width - 1) << lo
		lo += width
	}
	return out
}

// stackUser reads PERF_SAMPLE_STACK_USER: size, the dump, and how much of the
// dump is valid.
func stackUser(c *decode.Cursor) []byte {
	n := c.Count(1, "sample.stack_user.size")
	if n == 0 {
		return nil
	}
	b := c.Bytes(n, "sample.stack_user")
	dyn := c.Uint64("sample.stack_user.dyn_size")
	if dyn > uint64(len(b)) {
		if c.Err() == nil {
			c.FailAt(c.Offset()-8, "sample.stack_user.dyn_size", "is %d, but the dump has %d bytes", dyn, len(b))
		}
		return nil
	}
	return b[:dyn]
}

// decodeRead decodes struct read_format, whose order depends on ReadGroup:
//
//	single:  value [enabled] [running] [id] [lost]
//	group:   nr [enabled] [running] {value [id] [lost]}×nr
func decodeRead(c *decode.Cursor, f ReadFormat, out []ReadValue, times *[2]uint64) []ReadValue {
	const name = "read.value"
	var v ReadValue
	n := 1
	if f&ReadGroup != 0 {
		n = c.Count(8, "read.nr")
	} else {
		v.Value = c.Uint64(name)
	}
	if f&ReadEnabled != 0 {
		times[0] = c.Uint64("read.time_enabled")
	}
	if f&ReadRunning != 0 {
		times[1] = c.Uint64("read.time_running")
	}
	for range n {
		if f&ReadGroup != 0 {
			v = ReadValue{Value: c.Uint64(name)}
		}
		if f&ReadID != 0 {
			v.ID = c.Uint64("read.id")
		}
		if f&ReadLost != 0 {
			v.Lost = c.Uint64("read.lost")
		}
		if c.Err() != nil {
			return out[:0]
		}
		out = append(out, v)
	}
	return out
}
