package perfdata

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/internal/perftest"
)

// fuzzLimits make what costs too much fail soon.
var fuzzLimits = Options{Limits: decode.Limits{Bytes: 16 << 20, Steps: 1 << 24}}

// read reads a recording in all ways, and checks what must hold of any.
func read(t *testing.T, b []byte) {
	f, err := New(bytes.NewReader(b), int64(len(b)), "fuzz", fuzzLimits)
	if err != nil {
		return
	}
	defer f.Close()
	for _, next := range []func() (Record, error){f.Records().Next, f.Ordered(OrderOptions{MaxBytes: 1 << 16}).Next} {
		total := 0
		for {
			r, err := next()
			if err != nil {
				var limit *decode.LimitError
				if err != io.EOF && !errors.As(err, &limit) {
					t.Fatalf("%T %v", err, err)
				}
				break
			}
			m := r.Head()
			if m.Offset < 0 || m.Offset > f.Size() {
				t.Fatalf("%v: offset %#x of %#x", m.Type, m.Offset, f.Size())
			}
			if bad, ok := r.(*Bad); ok {
				if bad.Err == nil || len(f.Damage()) == 0 {
					t.Fatalf("bad record without error or damage: %+v", bad)
				}
				continue
			}
			if m.Size < 8 || m.Size > maxRecord {
				t.Fatalf("%v: size %d", m.Type, m.Size)
			}
			if s, ok := r.(*Sample); ok && 8*len(s.Callchain) > m.Size {
				t.Fatalf("call chain of %d in a record of %d bytes", len(s.Callchain), m.Size)
			}
			total += m.Size
		}
		if f.size == int64(len(b)) && total > len(b) && f.inflaters == nil && !bytes.Contains(b, zstdMagic) {
			t.Fatalf("records of %d bytes in a file of %d", total, len(b))
		}
	}
	for bit := range 256 {
		f.Feature(bit)
	}
}

// seeds adds recordings of every kind, and the small ones of the corpus.
func seeds(f *testing.F, pipe bool) {
	kinds := []string{"file", "file big", "file magic=PERFFILE", "file attrs=after", "file attr_size=168", "file killed", "file header_size=72"}
	if pipe {
		kinds = []string{"file pipe", "file pipe big"}
	}
	for _, k := range kinds {
		f.Add(perftest.Data(f, k+small))
	}
	f.Add(zstdRecords(f, "zstd", 50, 20))
	f.Add(zstdRecords(f, "compressed2", 50, 20))
	if os.Getenv("PERFARK_CORPUS") == "" {
		return
	}
	for _, name := range corpus(f) {
		if st, err := os.Stat(name); err == nil && st.Size() < 32<<10 {
			b, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
}

// FuzzOpen reads whole files.
func FuzzOpen(f *testing.F) {
	seeds(f, false)
	f.Fuzz(read)
}

// FuzzPipe reads what begins as a pipe's recording.
func FuzzPipe(f *testing.F) {
	seeds(f, true)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 16 {
			b = bytes.Clone(b)
			if !isPerfData(b) {
				copy(b, magicLE)
			}
			order(string(b[:8]) == magicBE).PutUint64(b[8:], headerSizePipe)
		}
		read(t, b)
	})
}

// FuzzAttr decodes an attr and encodes it again.
func FuzzAttr(f *testing.F) {
	f.Add(make([]byte, 64), false)
	f.Add(bytes.Repeat([]byte{0xa5}, 152), true)
	f.Fuzz(func(t *testing.T, b []byte, big bool) {
		c := decode.NewCursor(b, 0, big)
		a := decodeAttr(&c)
		if len(b) < attrSizeMin {
			if c.Err() == nil {
				t.Fatalf("%d bytes decoded", len(b))
			}
			return
		}
		if c.Err() != nil || c.Len() != 0 {
			t.Fatalf("%v, %d bytes unread", c.Err(), c.Len())
		}
		a.Name()
		if len(b)%8 == 0 {
			if got := a.AppendTo(nil, len(b), big); !bytes.Equal(got, b) {
				t.Fatalf("\n got %x\nwant %x", got, b)
			}
		}
	})
}

// FuzzRecord decodes a record of any type, with any attr.
func FuzzRecord(f *testing.F) {
	attr := (&Attr{SampleType: sampleKnown, ReadFormat: readKnown, Flags: FlagSampleIDAll, SampleRegsUser: 7, BranchSampleType: BranchHWIndex | BranchCounters}).AppendTo(nil, AttrSizeMax, false)
	for typ := RecordMmap; typ <= recordUserMax; typ++ {
		if typ.Known() {
			f.Add(uint16(typ), uint16(0), make([]byte, 160), attr, false)
			f.Add(uint16(typ), uint16(0xffff), bytes.Repeat([]byte{1, 0, 0, 0, 0, 0, 0, 0}, 20), attr, true)
		}
	}
	f.Fuzz(func(t *testing.T, typ, misc uint16, body, attr []byte, big bool) {
		if len(body) > maxRecord-8 || len(attr) < attrSizeMin {
			return
		}
		o := order(big)
		b := make([]byte, 8, 8+len(body))
		o.PutUint32(b, uint32(typ))
		o.PutUint16(b[4:], misc)
		o.PutUint16(b[6:], uint16(8+len(body)))
		b = append(b, body...)
		_, _, size := RecordHeader(b, big)
		file := &File{name: "fuzz"}
		file.hdr.Big = big
		c := decode.NewCursor(attr, 0, big)
		a := decodeAttr(&c)
		file.events = []Event{{Attr: a, IDs: []uint64{0, 1}}, {Attr: a, IDs: []uint64{2, 256}}}
		file.table = newEventTable(file.events)
		d := NewDecoder(file)
		d.Time(b)
		r, err := d.Decode(b, 64)
		if err != nil {
			var e *decode.Error
			if !errors.As(err, &e) || e.Offset < 64 || e.Offset > int64(64+len(b)) {
				t.Fatalf("%T %v", err, err)
			}
			if size == len(b) && len(file.Damage()) == 0 {
				t.Fatal("no damage noted")
			}
			return
		}
		if m := r.Head(); m.Size != len(b) || m.Offset != 64 {
			t.Fatalf("%+v", m)
		}
		text(r)
	})
}
