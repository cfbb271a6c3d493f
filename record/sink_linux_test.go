package record

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/perfdata"
)

// testRecords are records as the kernel writes them: a mapping with a Build
// ID, one without, samples, and a loss.
func testRecords(t testing.TB, a *perfdata.Attr) [][]byte {
	t.Helper()
	m := func(typ perfdata.Type, misc uint16) perfdata.Meta { return meta(typ, misc) }
	list := []perfdata.Record{
		&perfdata.Mmap{Meta: m(perfdata.RecordMmap2, perfdata.CPUModeUser|perfdata.MiscMmapBuildID), MapPID: 1, MapTID: 1, Start: 0x1000, Len: 0x1000, Prot: 5, Name: "/bin/a", BuildID: "0123456789abcdefghij"},
		&perfdata.Mmap{Meta: m(perfdata.RecordMmap2, perfdata.CPUModeUser), MapPID: 1, MapTID: 1, Start: 0x3000, Len: 0x1000, Prot: 5, Name: "/bin/b", Maj: 8, Ino: 7},
		&perfdata.Sample{Meta: m(perfdata.RecordSample, perfdata.CPUModeUser)},
		&perfdata.Lost{Meta: m(perfdata.RecordLost, 0), Count: 5},
	}
	s := list[2].(*perfdata.Sample)
	s.IP, s.PID, s.TID, s.Time = 0x1010, 1, 1, 77
	var out [][]byte
	for _, r := range list {
		b, err := perfdata.AppendRecord(nil, r, a, nativeBig)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

var testAttr = perfdata.Attr{Type: perfdata.TypeSoftware, SampleType: perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime, Flags: perfdata.FlagSampleIDAll, Size: attrSize}

// sinkTo writes what stands in a ring of 4096 bytes from at on, and returns
// the file and the sink.
func sinkTo(t testing.TB, records []byte, at, level int) (*perfdata.File, *sink) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "x.data"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := &sink{stats: &Stats{}, timeAt: 24, kernelIDs: true, ids: &identities{known: map[fileKey]knownID{{8, 0, 7, 0, "/bin/b"}: {id: "short"}}}}
	if s.w, err = perfdata.NewWriter(f, perfdata.WriterOptions{Big: nativeBig}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.w.AddEvent(testAttr, 1); err != nil {
		t.Fatal(err)
	}
	if level > 0 {
		if s.z, err = perfdata.NewCompressor(level, nativeBig, s.w.WriteRaw); err != nil {
			t.Fatal(err)
		}
		s.w.SetFeature(perfdata.FeatureCompressed, perfdata.Compressed{Version: 1, Type: 1, Level: 1, MmapLen: defaultRing})
	}
	ring := make([]byte, 4096)
	n := copy(ring[at:], records)
	first, second := ring[at:at+n], ring[:copy(ring, records[n:])]
	if err := s.take(first, second); err != nil {
		t.Fatal(err)
	}
	if err := s.checkpoint(); err != nil {
		t.Fatal(err)
	}
	if level > 0 {
		if err := s.w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	got, err := perfdata.Open(f.Name(), perfdata.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { got.Close() })
	return got, s
}

// What stands in a ring is written as it is, wherever its end is, plain or
// compressed; only ids are added. Without Close, after a checkpoint alone, it
// is all there.
func TestSink(t *testing.T) {
	list := testRecords(t, &testAttr)
	all := slices.Concat(list...)
	for _, level := range []int{0, 3} {
		for cut := 0; cut < len(all); cut += 8 {
			f, s := sinkTo(t, all, 4096-cut, level)
			var names []string
			var ids []buildid.ID
			n := 0
			r := f.Records()
			for rec, err := r.Next(); err == nil; rec, err = r.Next() {
				n++
				if m, ok := rec.(*perfdata.Mmap); ok {
					names, ids = append(names, m.Name), append(ids, m.BuildID)
				}
			}
			r.Close()
			if n != len(list) || !slices.Equal(names, []string{"/bin/a", "/bin/b"}) || !slices.Equal(ids, []buildid.ID{"0123456789abcdefghij", "short"}) {
				t.Fatalf("level %d, cut at %d: %d records, mappings %q with ids %q", level, cut, n, names, ids)
			}
			if len(f.Damage()) > 0 {
				t.Errorf("level %d, cut at %d: %v", level, cut, f.Damage())
			}
			if st := s.stats; st.Samples != 1 || st.LostRecords != 5 || st.Gaps != 1 || s.samples != (perfdata.SampleTimes{First: 77, Last: 77}) {
				t.Errorf("level %d, cut at %d: %+v, %v", level, cut, *st, s.samples)
			}
			if len(s.table.records) != 2 {
				t.Errorf("table: %v", s.table.records)
			}
		}
	}
}

// A table of Build IDs has one id for a name: the last.
func TestIDTable(t *testing.T) {
	var tab idTable
	tab.add(perfdata.CPUModeKernel, "[kernel.kallsyms]_text", "k")
	tab.add(perfdata.CPUModeUser, "/x", "1")
	tab.add(perfdata.CPUModeUser, "/x", "2")
	if len(tab.records) != 2 || tab.records[0].Name != "[kernel.kallsyms]" || tab.records[1].BuildID != "2" {
		t.Errorf("%+v", tab.records)
	}
}

func TestTracingData(t *testing.T) {
	b := tracingData(fakeHost(t).tracefs(), []string{"sched:sched_wakeup", "sched:sched_switch"})
	f, err := os.Create(filepath.Join(t.TempDir(), "x.data"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := perfdata.NewWriter(f, perfdata.WriterOptions{Big: nativeBig})
	if err != nil {
		t.Fatal(err)
	}
	w.AddEvent(testAttr)
	if err := w.SetFeatureData(perfdata.FeatureTracingData, b); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteRaw(bare(perfdata.RecordFinishedInit)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := perfdata.Open(f.Name(), perfdata.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	tr, err := got.Tracing()
	if err != nil || tr.Format(316) == nil || tr.Format(318) == nil {
		t.Errorf("%+v, %v", tr, err)
	}
}

func TestParseMapping(t *testing.T) {
	got, ok := parseMapping([]byte("7f00-8000 r-xp 00001000 fe:01 42    /a b (deleted)"))
	if !ok || got.Start != 0x7f00 || got.Len != 0x100 || got.Pgoff != 0x1000 || got.Maj != 0xfe || got.Min != 1 || got.Ino != 42 || got.Name != "/a b (deleted)" || got.Prot != 5 {
		t.Errorf("%+v, %v", got, ok)
	}
	if got, ok := parseMapping([]byte("7f00-8000 rwxs 00000000 00:00 0")); !ok || got.Name != "//anon" || got.Flags != 1 {
		t.Errorf("%+v, %v", got, ok)
	}
	for _, s := range []string{"", "x", "1-2 r-x 0 0:0 0", "1-2 r-xp 0 00 0", "g-h r-xp 0 0:0 0"} {
		if got, ok := parseMapping([]byte(s)); ok {
			t.Errorf("%q: %+v", s, got)
		}
	}
}

func FuzzParseMapping(f *testing.F) {
	f.Add([]byte("7f00-8000 r-xp 00001000 fe:01 42    /a b (deleted)"))
	f.Add([]byte("7f00-8000 rwxs 00000000 00:00 0"))
	f.Fuzz(func(t *testing.T, b []byte) { parseMapping(b) })
}

// FuzzSink takes any bytes for a ring: an error, or the same records.
func FuzzSink(f *testing.F) {
	all := slices.Concat(testRecords(f, &testAttr)...)
	f.Add(all, 10)
	f.Add([]byte{1, 0, 0, 0, 0, 0, 4, 0}, 3)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		cut = min(max(cut, 0), len(b))
		var out bytes.Buffer
		w, err := perfdata.NewWriter(&out, perfdata.WriterOptions{Big: nativeBig, Pipe: true})
		if err != nil {
			t.Fatal(err)
		}
		s := &sink{w: w, stats: &Stats{}, timeAt: 24}
		if s.take(b[:cut], b[cut:]) == nil && s.checkpoint() == nil && out.Len() != 16+len(b) {
			t.Errorf("%d bytes became %d", len(b), out.Len()-16)
		}
	})
}

// A recorder that asked for no ids takes off the marks that one beside it
// caused.
func TestSinkMarks(t *testing.T) {
	m := &perfdata.Mmap{Meta: perfdata.Meta{Type: perfdata.RecordMmap2, Misc: perfdata.CPUModeUser}, MapPID: 1, MapTID: 1, Start: 0x1000, Len: 0x1000, Prot: 5, Maj: 8, Ino: 7, Name: "/gone"}
	rec, err := perfdata.AppendRecord(nil, m, nil, nativeBig)
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Clone(rec)
	binary.NativeEndian.PutUint16(rec[4:], binary.NativeEndian.Uint16(rec[4:])|perfdata.MiscMmapBuildID)
	s := &sink{stats: &Stats{}, ids: &identities{proc: t.TempDir()}}
	if got := s.mmap2(rec); !bytes.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
	if len(s.table.records) != 0 {
		t.Errorf("ids %v", s.table.records)
	}
}

// A file that is written over has another id than before.
func TestIdentitiesRewritten(t *testing.T) {
	ids := &identities{proc: t.TempDir()}
	b, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Skipf("NOTICE: %v", err)
	}
	want, err := objfile.ReadBuildID(bytes.NewReader(b), int64(len(b)))
	if err != nil || want == "" {
		t.Skip("NOTICE: /bin/sh has no build id")
	}
	name := filepath.Join(t.TempDir(), "b")
	of := func() buildid.ID {
		t.Helper()
		var st unix.Stat_t
		if err := unix.Stat(name, &st); err != nil {
			t.Fatal(err)
		}
		return ids.of(mapping{pid: 1, start: 0x1000, end: 0x2000, maj: unix.Major(st.Dev), min: unix.Minor(st.Dev), ino: st.Ino, name: name})
	}
	if err := os.WriteFile(name, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	if id := of(); id != "" {
		t.Fatalf("id %q", id)
	}
	if err := os.WriteFile(name, b, 0o600); err != nil { // the same inode
		t.Fatal(err)
	}
	if id := of(); id != want {
		t.Errorf("id %q, want %q", id, want)
	}
	os.Remove(name)
	if id := ids.of(mapping{name: "/none", ino: 1}); id != "" {
		t.Errorf("id %q of nothing", id)
	}
}
