package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/perfdata"
)

// A sink is a file, or a pipe, that records go to. It looks at each on the
// way: it counts, notes the Build IDs of mappings, and adds those that the
// kernel did not have.
type sink struct {
	w      *perfdata.Writer
	z      *perfdata.Compressor // to w; nil: records are plain
	stats  *Stats
	ids    *identities // nil: no ids are taken
	timeAt int         // of the time in samples; 0: they have none

	// kernelIDs: the kernel was asked for build ids. If it was not, a mapping
	// that is marked as having one has none: somebody else asked.
	kernelIDs bool
	ours      bool // the records that are taken are not the kernel's, but ours

	programs *bpfPrograms // those that are loaded; nil: nobody asks

	tmp []byte
	end int64 // of the data, once it is known

	samples perfdata.SampleTimes
	table   idTable
}

// A record is at most this long.
const maxRecord = 1 << 16

// take takes records that stand in a ring: first, and then second, as a record
// may begin at the end of the ring and go on at its begin.
func (s *sink) take(first, second []byte) error {
	for len(first) > 0 {
		n, err := s.whole(first)
		if err != nil {
			return err
		}
		first = first[n:]
		if len(first) == 0 {
			break
		}
		s.tmp = append(append(s.tmp[:0], first...), second[:min(len(second), maxRecord)]...)
		size := recordSize(s.tmp)
		if size < 8 || size > len(s.tmp) || size < len(first) {
			return fmt.Errorf("ring: a record of %d bytes where %d are left", size, len(first)+len(second))
		}
		if _, err := s.whole(s.tmp[:size]); err != nil {
			return err
		}
		second = second[size-len(first):]
		first = nil
	}
	n, err := s.whole(second)
	if err == nil && n < len(second) {
		err = fmt.Errorf("ring: a record of %d bytes where %d are left", recordSize(second[n:]), len(second)-n)
	}
	return err
}

func recordSize(b []byte) int {
	if len(b) < 8 {
		return 0
	}
	return int(binary.NativeEndian.Uint16(b[6:]))
}

// whole takes the records that are whole, and returns their length.
func (s *sink) whole(b []byte) (int, error) {
	from, at := 0, 0
	for len(b)-at >= 8 {
		size := recordSize(b[at:])
		if size < 8 || size > len(b)-at {
			break
		}
		rec := b[at : at+size]
		switch perfdata.Type(binary.NativeEndian.Uint32(rec)) {
		case perfdata.RecordSample:
			s.sample(rec)
		case perfdata.RecordMmap2:
			if changed := s.mmap2(rec); changed != nil {
				if err := s.write(b[from:at]); err != nil {
					return at, err
				}
				if err := s.write(changed); err != nil {
					return at, err
				}
				from = at + size
			}
		case perfdata.RecordLost:
			if size >= 24 {
				s.stats.Gaps++
				s.stats.LostRecords += binary.NativeEndian.Uint64(rec[16:])
			}
		case perfdata.RecordThrottle:
			s.stats.Throttled++
		case perfdata.RecordBPFEvent:
			if size >= 24 && binary.NativeEndian.Uint16(rec[8:]) == bpfEventLoad {
				s.programs.loaded(binary.NativeEndian.Uint32(rec[12:]))
			}
		}
		at += size
	}
	return at, s.write(b[from:at])
}

func (s *sink) sample(rec []byte) {
	s.stats.Samples++
	if s.timeAt == 0 || len(rec) < s.timeAt+8 {
		return
	}
	t := binary.NativeEndian.Uint64(rec[s.timeAt:])
	if t == 0 {
		return
	}
	if s.samples.First == 0 || t < s.samples.First {
		s.samples.First = t
	}
	s.samples.Last = max(s.samples.Last, t)
}

// Places in PERF_RECORD_MMAP2.
const (
	mmapPID   = 8
	mmapStart = 16
	mmapLen   = 24
	mmapUnion = 40
	mmapProt  = 64
	mmapName  = 72
)

// mmap2 notes what a mapping is of. If its id had to be found out, or it is
// marked wrongly, it returns the record as it should be.
func (s *sink) mmap2(rec []byte) (changed []byte) {
	if len(rec) <= mmapName || s.ids == nil {
		return nil
	}
	name, _, ok := bytes.Cut(rec[mmapName:], []byte{0})
	if !ok {
		return nil
	}
	misc := binary.NativeEndian.Uint16(rec[4:])
	mode := misc & perfdata.MiscCPUModeMask
	if misc&perfdata.MiscMmapBuildID != 0 && !s.kernelIDs && !s.ours {
		misc &^= perfdata.MiscMmapBuildID
		rec = slices.Clone(rec)
		binary.NativeEndian.PutUint16(rec[4:], misc)
		changed = rec
	}
	if misc&perfdata.MiscMmapBuildID != 0 {
		n := min(int(rec[mmapUnion]), 20)
		id := buildid.ID(rec[mmapUnion+4 : mmapUnion+4+n])
		s.table.add(mode, string(name), id)
		if mode == perfdata.CPUModeUser && !s.ours {
			s.ids.given(mapped(rec, string(name)), id)
		}
		return nil
	}
	if s.ours || mode != perfdata.CPUModeUser || binary.NativeEndian.Uint32(rec[mmapProt:])&protExec == 0 {
		return changed
	}
	id := s.ids.of(mapped(rec, string(name)))
	if id == "" {
		s.table.unknown(string(name))
		return changed
	}
	s.table.add(mode, string(name), id)
	out := slices.Clone(rec)
	binary.NativeEndian.PutUint16(out[4:], misc|perfdata.MiscMmapBuildID)
	clear(out[mmapUnion:mmapProt])
	n := copy(out[mmapUnion+4:mmapProt], id[:min(len(id), 20)])
	out[mmapUnion] = byte(n)
	return out
}

// mapped returns what a PERF_RECORD_MMAP2 without a Build ID says.
func mapped(rec []byte, name string) mapping {
	u64 := func(at int) uint64 { return binary.NativeEndian.Uint64(rec[at:]) }
	return mapping{
		pid: int(int32(binary.NativeEndian.Uint32(rec[mmapPID:]))), start: u64(mmapStart), end: u64(mmapStart) + u64(mmapLen), name: name,
		maj: binary.NativeEndian.Uint32(rec[mmapUnion:]), min: binary.NativeEndian.Uint32(rec[mmapUnion+4:]), ino: u64(mmapUnion + 8), gen: u64(mmapUnion + 16),
	}
}

const protExec = 4

func native32(b []byte) uint32 { return binary.NativeEndian.Uint32(b) }

// write writes records of which nothing is to be found out any more.
func (s *sink) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if s.z != nil {
		return s.z.Write(b)
	}
	return s.w.WriteRaw(b)
}

// emit takes one record that we wrote.
func (s *sink) emit(rec []byte) error {
	s.ours = true
	defer func() { s.ours = false }()
	return s.take(rec, nil)
}

// checkpoint makes what there is by now a recording that can be read.
func (s *sink) checkpoint() error {
	if s.z != nil {
		if err := s.z.Flush(); err != nil {
			return err
		}
	}
	return s.w.Checkpoint()
}

// An idTable is the table of Build IDs in a header: what was mapped, in the
// order in which it first was.
type idTable struct {
	at      map[string]int
	records []*perfdata.BuildIDRecord
	without map[string]bool // names of mappings whose id is not known
}

// unknown notes that a name also stood for a file whose id is not known.
func (t *idTable) unknown(name string) {
	if t.without == nil {
		t.without = map[string]bool{}
	}
	t.without[name] = true
}

// list returns what is in the table: a name that also stood for a file whose id
// is not known is not, as that would get the id of the other.
func (t *idTable) list() []*perfdata.BuildIDRecord {
	return slices.DeleteFunc(slices.Clone(t.records), func(r *perfdata.BuildIDRecord) bool { return t.without[r.Name] })
}

// add notes what a name stands for. If that changes, as for a file that was
// replaced, the last is in the table, which has names alone; the mappings have
// each their own.
func (t *idTable) add(mode uint16, name string, id buildid.ID) {
	if i, ok := t.at[name]; ok {
		t.records[i].BuildID = id
		return
	}
	r := &perfdata.BuildIDRecord{MachinePID: -1, BuildID: id, Name: strings.TrimSuffix(name, "_text")}
	r.Misc = mode | perfdata.MiscBuildIDSize
	if t.at == nil {
		t.at = map[string]int{}
	}
	t.at[name] = len(t.records)
	t.records = append(t.records, r)
}

// seekable reports whether what is in a file can be changed later.
func seekable(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode().IsRegular()
}
