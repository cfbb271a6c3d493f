package session

import (
	"encoding/binary"
	"math/bits"

	"github.com/perfark/perfark/perfdata"
)

// A current is the sample at hand: what the second pass needs of it.
type current struct {
	event    int
	pid, tid int32
	cpu      int32
	mode     mode
	time     uint64
	ip       uint64
	period   uint64
	chain    []byte // little-endian

	// Set by decodeAny only.
	any        bool
	branches   []perfdata.Branch
	userStack  bool
	sampleRead bool // the period is in the counters
}

// A shape says where the fields of an event's samples are, in bytes from the
// start of the record, 0 for those that are absent. Only samples of fixed
// fields and a call chain have one, which are nearly all there are.
type shape struct {
	size                    int // of header and fixed fields
	ip, tid, time, cpu, per int
	chain                   bool
	period                  uint64 // of samples that have none
}

// shapes are those of all events of a recording. The zero value is for
// recordings whose samples only a perfdata.Decoder can read.
type shapes struct {
	ok     bool
	id     int // where the id stands; 0: all samples are of the first event
	events []shape
}

func newShapes(f *perfdata.File) shapes {
	const fixed = perfdata.SampleIdentifier | perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime |
		perfdata.SampleAddr | perfdata.SampleIdentID | perfdata.SampleStreamID | perfdata.SampleCPU | perfdata.SamplePeriod
	events := f.Events()
	var s shapes
	if f.Header().Big || len(events) == 0 {
		return s
	}
	for i := range events {
		st := events[i].Attr.SampleType
		if st&^(fixed|perfdata.SampleCallchain) != 0 {
			return s
		}
		at := func(bit, before perfdata.SampleType) int {
			if st&bit == 0 {
				return 0
			}
			return 8 + 8*bits.OnesCount64(uint64(st&before))
		}
		// The order of fields is that of perf_output_sample.
		before := perfdata.SampleIdentifier
		sh := shape{
			size:   8 + 8*bits.OnesCount64(uint64(st&fixed)),
			chain:  st&perfdata.SampleCallchain != 0,
			period: max(events[i].Attr.SamplePeriod, 1),
		}
		sh.ip = at(perfdata.SampleIP, before)
		before |= perfdata.SampleIP
		sh.tid = at(perfdata.SampleTID, before)
		before |= perfdata.SampleTID
		sh.time = at(perfdata.SampleTime, before)
		before |= perfdata.SampleTime | perfdata.SampleAddr
		id := at(perfdata.SampleIdentID, before)
		before |= perfdata.SampleIdentID | perfdata.SampleStreamID
		sh.cpu = at(perfdata.SampleCPU, before)
		before |= perfdata.SampleCPU
		sh.per = at(perfdata.SamplePeriod, before)
		if st&perfdata.SampleIdentifier != 0 {
			id = 8
		}
		if len(events) > 1 {
			if i > 0 && id != s.id {
				return shapes{}
			}
			s.id = id
		}
		s.events = append(s.events, sh)
	}
	s.ok = true
	return s
}

// decode reads the sample in b into c. It returns false for all that is not
// quite as it should be, which is the Decoder's to judge.
func (w *worker) decode(b []byte, misc uint16, c *current) bool {
	s := &w.l.shapes
	event := 0
	if s.id != 0 {
		if len(b) < s.id+8 {
			return false
		}
		id := binary.LittleEndian.Uint64(b[s.id:])
		if id != w.lastID {
			e, ok := w.l.eventIDs[id]
			if !ok {
				return false
			}
			w.lastID, w.lastEvent = id, e
		}
		event = w.lastEvent
	}
	sh := &s.events[event]
	if len(b) < sh.size {
		return false
	}
	if c.any {
		*c = current{}
	}
	c.event, c.mode = event, cpuMode(misc)
	c.ip, c.time, c.period = 0, 0, sh.period
	c.pid, c.tid, c.cpu = -1, -1, -1
	if sh.ip != 0 {
		c.ip = binary.LittleEndian.Uint64(b[sh.ip:])
	}
	if sh.tid != 0 {
		v := binary.LittleEndian.Uint64(b[sh.tid:])
		c.pid, c.tid = int32(v), int32(v>>32)
	}
	if sh.time != 0 {
		c.time = binary.LittleEndian.Uint64(b[sh.time:])
	}
	if sh.cpu != 0 {
		c.cpu = int32(binary.LittleEndian.Uint32(b[sh.cpu:]))
	}
	if sh.per != 0 {
		c.period = binary.LittleEndian.Uint64(b[sh.per:])
	}
	rest := b[sh.size:]
	if !sh.chain {
		c.chain = nil
		return len(rest) == 0
	}
	if len(rest) < 8 || binary.LittleEndian.Uint64(rest) != uint64(len(rest)/8-1) || len(rest)%8 != 0 {
		return false
	}
	c.chain = rest[8:]
	return true
}

// decodeAny reads any sample with the Decoder.
func (w *worker) decodeAny(b []byte, off int64, c *current) bool {
	s := w.s
	if err := w.d.Sample(b, off, s); err != nil {
		w.bad++
		return false
	}
	if s.Event < 0 {
		w.unknownID++
		return false
	}
	w.chainBuf = w.chainBuf[:0]
	for _, ip := range s.Callchain {
		w.chainBuf = binary.LittleEndian.AppendUint64(w.chainBuf, ip)
	}
	*c = current{
		any:   true,
		event: s.Event, pid: s.PID, tid: s.TID, cpu: s.CPU, mode: cpuMode(s.Misc),
		time: s.Time, ip: s.IP, period: s.Period, chain: w.chainBuf,
		branches: s.Branches, userStack: len(s.UserStack) > 0, sampleRead: len(s.Read) > 0,
	}
	return true
}
