package perfdata

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/internal/perftest"
)

// small is a recording with a bit of everything.
const small = `
event cpu-clock:u sample=+CALLCHAIN|BRANCH_STACK|REGS_USER read=ID sample_regs_user=3 precise_ip=1 exclude_kernel exclude_hv freq ids=100,101
event task-clock config=1 ids=102
mmap pid=-1 tid=0 start=0xffffffff81000000 len=0x1000000 pgoff=0xffffffff81000000 name=[kernel.kallsyms]_text
comm pid=10 tid=10 name=prog
mmap2 pid=10 tid=10 start=0x400000 len=0x2000 prot=5 flags=2 id=0123456789abcdef0123456789abcdef01234567 name=/bin/x time=5
sample ip=0x400123 pid=10 tid=11 time=7 cpu=1 period=3 chain=user,0x400123,0x500321 regs=1,2 branches=1>2:0x1234
sample ev=1 ip=0x500124 pid=10 tid=10 time=8 cpu=0 period=5
finished_round
exit pid=10 ppid=1 tid=10 ptid=1 time=9
feature hostname box
feature osrelease 6.1.0
feature event_desc
`

// smallTexts are the records of small.
func smallTexts(t testing.TB) []string {
	t.Helper()
	return texts(t, open(t, perftest.Data(t, small), Options{}))
}

// withoutMeta removes the records that pipes have besides.
func withoutMeta(list []string) []string {
	return slices.DeleteFunc(list, func(s string) bool {
		return strings.HasPrefix(s, "ATTR ") || strings.HasPrefix(s, "FEATURE ")
	})
}

// TestContainers: the same recording in every container has the same events,
// features and records. S50: also from a big-endian machine; P19, P22: also if
// the magic is that of an older perf.
func TestContainers(t *testing.T) {
	want := smallTexts(t)
	if len(want) != 7 {
		t.Fatalf("%d records: %q", len(want), want)
	}
	tests := []struct {
		file   string
		header Header
	}{
		{"", Header{Magic: "PERFILE2", Version: 1, Size: 104, AttrSize: 144, Word: 8}},
		{"file big", Header{Magic: "PERFILE2", Version: 1, Size: 104, AttrSize: 144, Word: 8, Big: true}},
		{"file word32", Header{Magic: "PERFILE2", Version: 1, Size: 104, AttrSize: 144, Word: 8}}, // no difference
		{"file big word32", Header{Magic: "PERFILE2", Version: 1, Size: 104, AttrSize: 144, Word: 4, Big: true}},
		{"file magic=PERFFILE", Header{Magic: "PERFFILE", Version: 0, Size: 104, AttrSize: 144, Word: 8}},
		{"file magic=PERFFILE big", Header{Magic: "PERFFILE", Version: 0, Size: 104, AttrSize: 144, Word: 8, Big: true}},
		{"file attrs=after", Header{Magic: "PERFILE2", Version: 1, Size: 104, AttrSize: 144, Word: 8}},
		{"file data_offset=8192", Header{Magic: "PERFILE2", Version: 1, Size: 104, AttrSize: 144, Word: 8}},
		{"file spare=3", Header{Magic: "PERFILE2", Version: 1, Size: 104, AttrSize: 144, Word: 8}},
		{"file attr_size=112", Header{Magic: "PERFILE2", Version: 1, Size: 104, AttrSize: 112, Word: 8}},
		{"file attr_size=152", Header{Magic: "PERFILE2", Version: 1, Size: 104, AttrSize: 152, Word: 8}},
		{"file attr_size=168", Header{Magic: "PERFILE2", Version: 1, Size: 104, AttrSize: 168, Word: 8}}, // P06
		{"file pipe", Header{Magic: "PERFILE2", Version: 1, Size: 16, Word: 8, Pipe: true}},
		{"file pipe big", Header{Magic: "PERFILE2", Version: 1, Size: 16, Word: 8, Pipe: true, Big: true}},
		{"file pipe magic=PERFFILE", Header{Magic: "PERFFILE", Version: 0, Size: 16, Word: 8, Pipe: true}},
		{"file pipe magic=PERFFILE big", Header{Magic: "PERFFILE", Version: 0, Size: 16, Word: 8, Pipe: true, Big: true}},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			b := perftest.Data(t, tt.file+small)
			f := open(t, b, Options{})
			h := *f.Header()
			if h.FileSize != int64(len(b)) || f.Size() != int64(len(b)) {
				t.Errorf("size %d, want %d", h.FileSize, len(b))
			}
			for _, bit := range []int{FeatureHostname, FeatureOSRelease, FeatureEventDesc} {
				if !h.Has(bit) {
					t.Errorf("feature %d is missing", bit)
				}
			}
			h.FileSize, h.Attrs, h.Data, h.Features = 0, Section{}, Section{}, [4]uint64{}
			if h != tt.header {
				t.Errorf("header %+v\nwant %+v", h, tt.header)
			}
			if got := f.Hostname() + " " + f.OSRelease(); got != "box 6.1.0" {
				t.Errorf("features %q", got)
			}
			if got := f.Features(); !slices.Equal(got, []int{FeatureHostname, FeatureOSRelease, FeatureEventDesc}) {
				t.Errorf("features %v", got)
			}
			ev := f.Events()
			if len(ev) != 2 || ev[0].Name != "cpu-clock:u" || ev[1].Name != "task-clock" || !slices.Equal(ev[0].IDs, []uint64{100, 101}) || !slices.Equal(ev[1].IDs, []uint64{102}) {
				t.Errorf("events %+v", ev)
			}
			if p := ev[0].Attr.Flags.Precise(); p != 1 {
				t.Errorf("precise_ip is %d", p)
			}
			if got := withoutMeta(texts(t, f)); !slices.Equal(got, want) {
				t.Errorf("records %q\nwant %q", got, want)
			}
			if d, w := f.Damage(), f.Warnings(); len(d)+len(w) > 0 {
				t.Errorf("damage %q, warnings %q", d, w)
			}
		})
	}
}

// TestOldHeader: before Linux 2.6.3x a header had no features.
func TestOldHeader(t *testing.T) {
	perftest.Orders(t, "file header_size=72\ncomm pid=1 tid=1 name=x", func(t *testing.T, b []byte) {
		f := open(t, b, Options{})
		if got := texts(t, f); len(got) != 1 || len(f.Features()) != 0 || len(f.Damage()) != 0 {
			t.Errorf("records %q, features %v, damage %q", got, f.Features(), f.Damage())
		}
	})
}

// TestNewerAttr is P06: a tail of the attr that is newer than this program.
func TestNewerAttr(t *testing.T) {
	for _, tt := range []struct{ file, tail, warning string }{
		{"file attr_size=168", "", ""},
		{"file attr_size=168", " tail=01", "attr of 152 bytes: those from 144 on are newer than this program and not all zero"},
		{"file attr_size=168 pipe", " tail=01", "attr of 152 bytes: those from 144 on are newer than this program and not all zero"},
	} {
		f := open(t, perftest.Data(t, tt.file+"\nevent a"+tt.tail+"\nevent b ids=7"+tt.tail+"\ncomm pid=1 tid=1 name=x"), Options{})
		texts(t, f)
		if got := strings.Join(f.Warnings(), "|"); got != tt.warning || len(f.Damage()) > 0 {
			t.Errorf("%s%s: warnings %q, want %q; damage %q", tt.file, tt.tail, got, tt.warning, f.Damage())
		}
		if a := f.Events()[0].Attr; len(a.Tail) != 8 {
			t.Errorf("%s: tail %x", tt.file, a.Tail)
		}
	}
}

// TestAttr encodes and decodes an attr with all bits of all fields set, of
// every size.
func TestAttr(t *testing.T) {
	var b []byte
	for i := range 160 {
		b = append(b, byte(i*7+1))
	}
	for _, big := range []bool{false, true} {
		for n := attrSizeMin; n <= len(b); n += 8 {
			c := decode.NewCursor(b[:n], 0, big)
			a := decodeAttr(&c)
			if c.Err() != nil || c.Len() != 0 {
				t.Fatalf("%d bytes: %v, %d unread", n, c.Err(), c.Len())
			}
			if got := a.AppendTo(nil, n, big); !bytes.Equal(got, b[:n]) {
				t.Errorf("%d bytes, big %v:\n got %x\nwant %x", n, big, got, b[:n])
			}
		}
	}
	// precise_ip keeps its own order of bits.
	if got := attrFlags(1<<(63-16)|1<<63, true); got != 1<<15|1 {
		t.Errorf("flags %#x", got)
	}
}

// TestBadHeader: recipes P5 to P7, with the exact error, or what is said of
// what could still be read.
func TestBadHeader(t *testing.T) {
	good := perftest.Data(t, "comm pid=1 tid=1 name=first\nfeature hostname box")
	h := open(t, good, Options{}).hdr
	attrs, data, size := int(h.Attrs.Offset), int(h.Data.Offset), len(good)
	table := data + int(h.Data.Size)
	if attrs != 0x70 || h.AttrSize != 144 || data != 0x100 || table != 0x138 || size != 396 {
		t.Fatalf("the fixture is another: %+v, %d bytes", h, size)
	}
	le := func(at int, v uint64) func([]byte) []byte {
		return func(b []byte) []byte {
			order(false).PutUint64(b[at:], v)
			return b
		}
	}
	cut := func(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:n] } }
	tests := []struct {
		name   string
		change func([]byte) []byte
		err    string
		n      int // records
		damage []string
	}{
		{"as it is", cut(size), "", 1, nil},
		{"attr_size 0", le(16, 0), "offset 0x10: header.attr_size: is 0: the recorder was killed before it wrote the header", 0, nil},
		{"attr_size 1", le(16, 1), "offset 0x10: header.attr_size: is 1, but must be at least 80", 0, nil},
		{"attr_size 2^31", le(16, 1<<31), "offset 0x10: header.attr_size: is 2147483648, but must be at most 65536", 0, nil},
		{"attr_size 2^63", le(16, 1<<63), "offset 0x10: header.attr_size: is 9223372036854775808, but must be at most 65536", 0, nil},
		{"header.size", le(8, 105), "offset 0x8: header.size: is 105, but must be 104, 72 or 16", 0, nil},
		{"no attrs", le(32, 0), "offset 0x20: header.attrs.size: is 0, less than one entry of 144", 0, nil},
		{"attrs beyond the file", le(24, 1<<40), "offset 0x18: header.attrs: 144 bytes at 0x10000000000, but the file has 396", 0, nil},
		{"attrs.size", le(32, 168), "", 1, []string{"offset 0x20: header.attrs.size: 168 is no multiple of header.attr_size 144"}},
		{"P5 data wraps", le(48, 1<<64-64), "", 1, []string{
			"offset 0x138: record.size: is 0, but a record has at least 8 bytes (type 328) (84 bytes lost)",
			"offset 0x18c: data: 18446744073709551552 bytes recorded, but the file ends after 140 (9223372036854775807 bytes lost)",
			"offset 0x18c: features HOSTNAME: cut off",
		}},
		{"P6 data at EOF", le(40, 396), "", 0, []string{"offset 0x18c: data: 56 bytes at 0x18c recorded, but the file has 396", "offset 0x18c: features HOSTNAME: cut off"}},
		{"P6 data at EOF-1", le(40, 395), "", 0, []string{
			"offset 0x18b: record: 8 bytes wanted, but only 1 follow (1 bytes lost)",
			"offset 0x18c: data: 56 bytes recorded, but the file ends after 1 (55 bytes lost)",
			"offset 0x18c: features HOSTNAME: cut off",
		}},
		{"P6 data at EOF+64K", le(40, 396+65536), "", 0, []string{"offset 0x18c: data: 56 bytes at 0x1018c recorded, but the file has 396", "offset 0x18c: features HOSTNAME: cut off"}},
		{"P6 data at 2^32+264", le(40, 1<<32+264), "", 0, []string{"offset 0x18c: data: 56 bytes at 0x100000108 recorded, but the file has 396", "offset 0x18c: features HOSTNAME: cut off"}},
		{"P7 ids on the attr itself", le(attrs+128, 104), "", 1, nil},
		{"P7 ids beyond", le(attrs+128, 1<<50), "", 1, []string{"offset 0xf0: attr.ids: 8 bytes at 0x4000000000000, but the file has 396"}},
		{"P7 ids.size", le(attrs+136, 1<<50), "", 1, []string{"offset 0xf8: attr.ids.size: 1125899906842624 bytes, but the file has 396"}},
		{"P14 feature table cut", cut(table + 8), "", 1, []string{"offset 0x138: features HOSTNAME: cut off"}},
		{"P14 feature beyond", le(table, 1<<60), "", 1, []string{"offset 0x138: feature HOSTNAME: 68 bytes at 0x1000000000000000, but the file has 396"}},
		{"P14 feature size", le(table+8, 1<<60), "", 1, []string{"offset 0x138: feature HOSTNAME: 1152921504606846976 bytes at 0x148, but the file has 396"}},
		{"P22 magic swapped", func(b []byte) []byte { copy(b, magicBE); return b }, "offset 0x8: header.size: is 7493989779944505344, but must be 104, 72 or 16", 0, nil},
		{"P19 pipe with a file's header", le(8, 16), "offset 0x10: records: no HEADER_ATTR, so no event, among them", 0, nil},
		{"cut in the header", cut(44), "offset 0x28: header.data.offset: 8 bytes wanted, but only 4 follow", 0, nil},
		{"cut in the attrs", cut(120), "offset 0x18: header.attrs: 144 bytes at 0x70, but the file has 120", 0, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := tt.change(slices.Clone(good))
			f, err := New(bytes.NewReader(b), int64(len(b)), "perf.data", Options{})
			if err != nil {
				if tt.err == "" || err.Error() != "perf.data: "+tt.err {
					t.Errorf("error %q\nwant %q", err, tt.err)
				}
				return
			}
			defer f.Close()
			n := 0
			readAll(t, f, func(r Record) {
				if _, ok := r.(*Comm); ok {
					n++
				}
			})
			var got []string
			for _, d := range f.Damage() {
				got = append(got, d.String())
			}
			if tt.err != "" || n != tt.n || !slices.Equal(got, tt.damage) {
				t.Errorf("%d records, damage %q\nwant %d, %q, error %q", n, got, tt.n, tt.damage, tt.err)
			}
		})
	}
}

// TestNamedFeatures is P03: what was cut off is named.
func TestNamedFeatures(t *testing.T) {
	b := perftest.Data(t, small)
	f := open(t, b, Options{})
	end := f.hdr.Data.Offset + f.hdr.Data.Size
	f = open(t, b[:end-8], Options{})
	texts(t, f)
	var got []string
	for _, d := range f.Damage() {
		got = append(got, d.What)
	}
	if want := "features HOSTNAME, OSRELEASE, EVENT_DESC: cut off"; !slices.Contains(got, want) {
		t.Errorf("damage %q lacks %q", got, want)
	}
	// Without EVENT_DESC the name is made of the attr.
	if !f.hdr.Truncated || f.Events()[0].Name != "cpu-clock:up" {
		t.Errorf("truncated %v, event %q", f.hdr.Truncated, f.Events()[0].Name)
	}
}

// TestNotPerfData says what a file is that is no recording.
func TestNotPerfData(t *testing.T) {
	gz := func(s string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		io.WriteString(w, s)
		w.Close()
		return b.String()
	}
	tests := []struct{ in, err string }{
		{"", "zero-sized"},
		{"\x7fELF\x02\x01\x01", "an ELF file"},
		{strings.Repeat("x", 257) + "ustar\x0000" + strings.Repeat("y", 300), "a tar archive"},
		{"BZh91AY&SY", "a bzip2 file"},
		{"PK\x03\x04zip", "a zip archive"},
		{"{\"a\": 1}", "JSON"},
		{"# ========\n", "text"},
		{strings.Repeat("\x00", 600), "it begins with zeros"},
		{"\x01\x02\x03\x04", `it begins with "\x01\x02\x03\x04"`},
		{"PERF", "cut off after 4 bytes"},
		{gz("hello"), "text, compressed with gzip"},
		{gz(gz("PERFILE2")), "a gzip file, compressed with gzip"},
		{gz(""), "zero-sized, compressed with gzip"},
	}
	for _, tt := range tests {
		_, err := New(strings.NewReader(tt.in), int64(len(tt.in)), "x", Options{})
		if !errors.Is(err, ErrNotPerfData) || err.Error() != "x: not a perf.data file: "+tt.err {
			t.Errorf("New(%.20q): %v, want %q", tt.in, err, tt.err)
		}
		_, err = NewStream(strings.NewReader(tt.in), "x", Options{})
		if !errors.Is(err, ErrNotPerfData) || err.Error() != "x: not a perf.data file: "+tt.err {
			t.Errorf("NewStream(%.20q): %v, want %q", tt.in, err, tt.err)
		}
	}
}

func compress(t testing.TB, kind string, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	var err error
	switch kind {
	case "gzip":
		w = gzip.NewWriter(&out)
	case "xz":
		w, err = xz.NewWriter(&out)
	case "zstd":
		w, err = zstd.NewWriter(&out)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.Write(b)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestWrapped is P09: files compressed as a whole, in a file and as a stream,
// whole and cut.
func TestWrapped(t *testing.T) {
	want := smallTexts(t)
	plain := perftest.Data(t, small)
	for _, kind := range []string{"gzip", "xz", "zstd"} {
		t.Run(kind, func(t *testing.T) {
			b := compress(t, kind, plain)
			name := filepath.Join(t.TempDir(), "perf.data."+kind)
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
			temp := t.TempDir()
			f, err := Open(name, Options{Temp: temp})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if got := texts(t, f); !slices.Equal(got, want) || f.Header().Wrapped != kind || len(f.Damage()) > 0 || f.Size() != int64(len(plain)) {
				t.Errorf("wrapped %q, records %q, damage %q", f.Header().Wrapped, got, f.Damage())
			}
			s, err := NewStream(bytes.NewReader(b), "-", Options{Temp: temp})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if got := texts(t, s); !slices.Equal(got, want) {
				t.Errorf("stream: records %q", got)
			}
			if left, _ := os.ReadDir(temp); len(left) != 0 {
				t.Errorf("files are left: %v", left)
			}
		})
	}
}

// TestWrappedCut: what comes before the damage of a compressed file is read.
func TestWrappedCut(t *testing.T) {
	plain := benchFile(4000)
	for _, kind := range []string{"gzip", "xz", "zstd"} {
		b := compress(t, kind, plain)
		b = b[:len(b)*2/3]
		f, err := New(bytes.NewReader(b), int64(len(b)), "x", Options{Temp: t.TempDir()})
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		n := 0
		readAll(t, f, func(r Record) {
			if _, ok := r.(*Sample); ok {
				n++
			}
		})
		d := f.Damage()
		if n < 1000 || len(d) < 2 || !strings.Contains(d[0].What+d[1].What+d[len(d)-1].What, kind+": ") {
			t.Errorf("%s: %d samples, damage %q", kind, n, d)
		}
		f.Close()
	}
}

// TestBombs: files of kilobytes that become gigabytes end in a LimitError (C1
// to C3, P11), and those within a limit that was given do not.
func TestBombs(t *testing.T) {
	plain := append(perftest.Data(t, "file killed\ncomm pid=1 tid=1 name=x"), make([]byte, 72<<20)...)
	for _, kind := range []string{"gzip", "zstd"} {
		b := compress(t, kind, plain)
		_, err := New(bytes.NewReader(b), int64(len(b)), "x", Options{Temp: t.TempDir()})
		var e *decode.LimitError
		if !errors.As(err, &e) || e.Option != "--max-input-bytes" {
			t.Errorf("%s: %v", kind, err)
		}
		if kind == "gzip" {
			continue // slow
		}
		f, err := New(bytes.NewReader(b), int64(len(b)), "x", Options{Temp: t.TempDir(), Limits: decode.Limits{Bytes: 80 << 20}})
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		f.Close()
	}
}

// TestWindow: a window larger than allowed is a LimitError, in a whole file
// and in records.
func TestWindow(t *testing.T) {
	w, err := zstd.NewWriter(nil, zstd.WithWindowSize(1<<20), zstd.WithSingleSegment(false))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w.Reset(&out)
	w.Write(make([]byte, 1<<20)) // a stream whose size is not known when it begins
	w.Flush()
	w.Write(perftest.Data(t, small))
	w.Close()
	o := Options{Limits: decode.Limits{Bytes: 1 << 16}}
	var e *decode.LimitError
	_, err = New(bytes.NewReader(out.Bytes()), int64(out.Len()), "x", o)
	if !errors.As(err, &e) || e.What != "zstd: window" {
		t.Errorf("file: %v", err)
	}
	b := perftest.Data(t, fmt.Sprintf("raw type=81 hex:%x", out.Bytes()))
	f := open(t, b, o)
	if _, err = f.Records().Next(); !errors.As(err, &e) || e.What != "zstd: COMPRESSED records: window" {
		t.Errorf("records: %v", err)
	}
}

// zstdRecords returns a recording whose records are one zstd stream in
// COMPRESSED records of at most split bytes.
func zstdRecords(t testing.TB, verb string, split int, n int) []byte {
	t.Helper()
	var s strings.Builder
	fmt.Fprintf(&s, "event a sample=+CALLCHAIN\ncomm pid=1 tid=1 name=first\n%s split=%d {\n", verb, split)
	for i := range n {
		fmt.Fprintf(&s, "sample ip=%d pid=1 tid=1 time=%d chain=1,2,3,%d\n", i*i, i, i*7)
	}
	s.WriteString("}\nfinished_round\ncomm pid=1 tid=1 name=last\n")
	return perftest.Data(t, s.String())
}

// TestZstd is P08: records of both kinds, cut into pieces of any size.
func TestZstd(t *testing.T) {
	for _, verb := range []string{"zstd", "compressed2"} {
		for _, split := range []int{1, 7, 100, 65000} {
			b := zstdRecords(t, verb, split, 300)
			f := open(t, b, Options{})
			got := texts(t, f)
			if len(got) != 303 || len(f.Damage()) > 0 {
				t.Errorf("%s split=%d: %d records, damage %q", verb, split, len(got), f.Damage())
				continue
			}
			if !strings.Contains(got[0], "first") || !strings.HasPrefix(got[301], "FINISHED_ROUND") || !strings.HasSuffix(got[300], "Callchain=[1 2 3 2093]") {
				t.Errorf("%s split=%d: %q", verb, split, got[299:])
			}
		}
	}
}

// TestZstdCut: the samples of all whole blocks come, and the loss is told.
func TestZstdCut(t *testing.T) {
	for _, verb := range []string{"zstd", "compressed2"} {
		b := zstdRecords(t, verb, 500, 20000)
		f := open(t, b[:len(b)*7/10], Options{})
		n := 0
		readAll(t, f, func(r Record) {
			if _, ok := r.(*Sample); ok {
				n++
			}
		})
		if n < 5000 || len(f.Damage()) == 0 {
			t.Errorf("%s: %d samples, damage %q", verb, n, f.Damage())
		}
	}
}

// TestZstdDamage: a flipped byte loses what depends on it. The records behind
// the compressed ones come.
func TestZstdDamage(t *testing.T) {
	b := zstdRecords(t, "zstd", 500, 20000)
	copy(b[len(b)/2:], bytes.Repeat([]byte{0xff}, 400)) // COMPRESSED headers too
	f := open(t, b, Options{})
	n, bad, last := 0, 0, false
	readAll(t, f, func(r Record) {
		switch r := r.(type) {
		case *Sample:
			n++
		case *Bad:
			bad++
		case *Comm:
			last = r.Name == "last"
		}
	})
	d := f.Damage()
	if n < 1000 || bad == 0 || !last || len(d) == 0 || !strings.HasPrefix(d[len(d)-1].What, "compressed: zstd: ") && !strings.Contains(d[len(d)-1].What, "places") {
		t.Errorf("%d samples, %d bad, last %v, damage %q", n, bad, last, d)
	}
}

// TestZstdBomb is P11: a COMPRESSED record that becomes gigabytes of records.
func TestZstdBomb(t *testing.T) {
	var out bytes.Buffer
	w, _ := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
	round := bytes.Repeat([]byte{68, 0, 0, 0, 0, 0, 8, 0}, 1<<17)
	for range 68 {
		w.Write(round)
	}
	w.Close()
	head := perftest.Data(t, fmt.Sprintf("comm pid=1 tid=1 name=x\nraw type=81 hex:%x", out.Bytes()))
	f := open(t, head, Options{})
	r := f.Records()
	n := 0
	var err error
	for {
		if _, err = r.Next(); err != nil {
			break
		}
		n++
	}
	var e *decode.LimitError
	if !errors.As(err, &e) || n < 1<<20 {
		t.Errorf("after %d records: %v", n, err)
	}
}

// TestZstdResync: a damaged record within compressed data; the next are found.
func TestZstdResync(t *testing.T) {
	for _, split := range []int{1, 50, 65000} {
		f := open(t, perftest.Data(t, fmt.Sprintf("zstd split=%d {\ncomm pid=1 tid=1 name=first\nraw type=10 size=3 hex:ff*200\n%s}\ncomm pid=1 tid=1 name=last",
			split, strings.Repeat("comm pid=1 tid=1 name=more\n", 50))), Options{})
		n, bad, last := 0, 0, false
		readAll(t, f, func(r Record) {
			switch r := r.(type) {
			case *Comm:
				n++
				last = r.Name == "last"
			case *Bad:
				bad++
			}
		})
		d := f.Damage()
		if n != 52 || bad != 1 || len(d) == 0 || !strings.HasPrefix(d[0].What, "in compressed data: ") {
			t.Errorf("split=%d: %d records, last %v, %d bad, damage %q", split, n, last, bad, d)
		}
	}
}

// TestNested: a COMPRESSED record within another is damage (P11).
func TestNested(t *testing.T) {
	f := open(t, perftest.Data(t, "zstd {\ncomm pid=1 tid=1 name=first\nraw type=81 hex:00*8\ncomm pid=1 tid=1 name=last\n}"), Options{})
	got := texts(t, f)
	d := f.Damage()
	if len(got) != 3 || !strings.Contains(got[2], "last") || len(d) != 1 || d[0].What != "in compressed data: is compressed twice" {
		t.Errorf("records %q, damage %q", got, d)
	}
}

// TestStream reads from a FIFO, which can be read but once.
func TestStream(t *testing.T) {
	want := smallTexts(t)
	for _, file := range []string{"", "file pipe"} {
		b := perftest.Data(t, file+small)
		name := filepath.Join(t.TempDir(), "fifo")
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- os.WriteFile(name, b, 0) }()
		f, err := Open(name, Options{Temp: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if got := withoutMeta(texts(t, f)); !slices.Equal(got, want) {
			t.Errorf("records %q", got)
		}
		f.Close()
	}
}

// dir makes a directory with a recording and streams.
func dir(t *testing.T) string {
	t.Helper()
	d := filepath.Join(t.TempDir(), "perf.data")
	if err := os.Mkdir(d, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(name string, b []byte) {
		if err := os.WriteFile(filepath.Join(d, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := perftest.Data(t, "comm pid=1 tid=1 name=main\ncomm pid=1 tid=1 name=at3 time=3\nfinished_round")
	write("data", b)
	stream := func(text string) []byte {
		b := perftest.Data(t, text)
		f := open(t, b, Options{})
		return b[f.hdr.Data.Offset : f.hdr.Data.Offset+f.hdr.Data.Size]
	}
	write("data.0", stream("comm pid=1 tid=1 name=at1 time=1\ncomm pid=1 tid=1 name=at5 time=5"))
	write("data.2", stream("comm pid=1 tid=1 name=at2 time=2\ncomm pid=1 tid=1 name=at4 time=4"))
	write("data.10", stream("zstd {\ncomm pid=1 tid=1 name=at6 time=6\n}"))
	for _, n := range []int{1, 3, 4, 5, 6, 7, 8, 9} {
		write(fmt.Sprintf("data.%d", n), nil) // of threads that had nothing to do
	}
	write("data.old", []byte("not a stream"))
	if err := os.Mkdir(filepath.Join(d, "kcore_dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	return d
}

func names(t *testing.T, next func() (Record, error)) string {
	t.Helper()
	var list []string
	for {
		r, err := next()
		if err == io.EOF {
			return strings.Join(list, " ")
		}
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := r.(*Comm); ok {
			list = append(list, c.Name)
		}
	}
}

func TestDirectory(t *testing.T) {
	d := dir(t)
	f, err := Open(d, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, want := names(t, f.Records().Next), "main at3 at1 at5 at2 at4 at6"; got != want {
		t.Errorf("in the order of files: %s, want %s", got, want)
	}
	if got, want := names(t, f.Ordered(OrderOptions{}).Next), "main at1 at2 at3 at4 at5 at6"; got != want {
		t.Errorf("in the order of time: %s, want %s", got, want)
	}
	if !f.Header().Dir || len(f.Damage()) > 0 || !slices.Equal(f.KcoreDirs(), []string{filepath.Join(d, "kcore_dir")}) {
		t.Errorf("dir %v, damage %q, kcore %q", f.Header().Dir, f.Damage(), f.KcoreDirs())
	}
}

// TestDirectoryGap: a stream that was lost on the way is told.
func TestDirectoryGap(t *testing.T) {
	d := dir(t)
	for _, name := range []string{"data.0", "data.4", "data.5"} {
		if err := os.Remove(filepath.Join(d, name)); err != nil {
			t.Fatal(err)
		}
	}
	f, err := Open(d, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, want := names(t, f.Records().Next), "main at3 at2 at4 at6"; got != want {
		t.Errorf("records %s, want %s", got, want)
	}
	want := []Damage{
		{Name: filepath.Join(d, "data.0"), What: "is not there, but data.1 is"},
		{Name: filepath.Join(d, "data.4"), What: "is not there, but data.6 is"},
	}
	if !slices.Equal(f.Damage(), want) {
		t.Errorf("damage %q, want %q", f.Damage(), want)
	}
}

// TestHostileDirectory is P21: streams that are links or FIFOs are not opened.
func TestHostileDirectory(t *testing.T) {
	d := dir(t)
	for _, name := range []string{"data.3", "data.4"} {
		if err := os.Remove(filepath.Join(d, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(d, "data.3")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(d, "data.4"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(d, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, want := names(t, f.Records().Next), "main at3 at1 at5 at2 at4 at6"; got != want {
		t.Errorf("records %s, want %s", got, want)
	}
	dmg := f.Damage()
	if len(dmg) != 2 || !strings.HasSuffix(dmg[0].What, "data.3: is a symbolic link, not a regular file") || !strings.Contains(dmg[1].What, "data.4: is not a regular file: p") {
		t.Errorf("damage %q", dmg)
	}
	// Damage names its file.
	if err := os.WriteFile(filepath.Join(d, "data.5"), []byte{3, 0, 0, 0, 0, 0, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8}, 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := Open(d, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for _, next := range []func() (Record, error){g.Records().Next, g.Ordered(OrderOptions{}).Next} {
		names(t, next)
		if dmg := g.Damage(); len(dmg) != 3 || dmg[2].Name != filepath.Join(d, "data.5") || dmg[2].What != "sample_id: 32 bytes wanted, but only 8 follow" {
			t.Errorf("damage %q", dmg)
		}
	}
	os.Remove(filepath.Join(d, "data"))
	if _, err := Open(d, Options{}); !errors.Is(err, ErrNotPerfData) || !strings.HasSuffix(err.Error(), `a directory without a file "data"`) {
		t.Errorf("without data: %v", err)
	}
	os.Symlink("/etc/passwd", filepath.Join(d, "data"))
	if _, err := Open(d, Options{}); err == nil || !strings.Contains(err.Error(), "is a symbolic link") {
		t.Errorf("with a link: %v", err)
	}
}

// TestPermission is P21 of the cases: the message says whose the file is. Root
// may read all, so it runs as somebody else.
func TestPermission(t *testing.T) {
	if name := os.Getenv("PERFARK_TEST_UNREADABLE"); name != "" {
		_, err := Open(name, Options{})
		fmt.Printf("%v\npermission: %v\n", err, errors.Is(err, fs.ErrPermission))
		os.Exit(0)
	}
	if os.Getuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	d, err := os.MkdirTemp("/var/tmp", "perfark-test-")
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(d)
	os.Chmod(d, 0o755)
	name := filepath.Join(d, "perf.data")
	if err := os.WriteFile(name, perftest.Data(t, small), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(name, 1234, 1234); err != nil {
		t.Skip(err)
	}
	f, err := Open(name, Options{}) // foreign, but readable: no refusal
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	self := filepath.Join(d, "test")
	b, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Skip(err)
	}
	if err := os.WriteFile(self, b, 0o755); err != nil {
		t.Skip(err)
	}
	cmd := exec.Command(self, "-test.run=^TestPermission$")
	cmd.Dir = d
	cmd.Env = append(os.Environ(), "PERFARK_TEST_UNREADABLE="+name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	want := "open " + name + ": permission denied: it belongs to uid 1234 with mode 0600; read it as that user or root, or chmod +r it\npermission: true\n"
	if err != nil || string(out) != want {
		t.Errorf("%v: %q\nwant %q", err, out, want)
	}
}

// repeated is a recording of any length: the records of head's last part again
// and again.
type repeated struct {
	head []byte // header and events
	body []byte // records
}

func (r repeated) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	if off < int64(len(r.head)) {
		n = copy(p, r.head[off:])
	}
	for n < len(p) {
		at := (off + int64(n) - int64(len(r.head))) % int64(len(r.body))
		n += copy(p[n:], r.body[at:])
	}
	return n, nil
}

// TestLarge is P12: memory does not grow with the file.
func TestLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	size := int64(1 << 30)
	if raceEnabled {
		size = 64 << 20
	}
	b := benchFile(20000)
	f := open(t, b, Options{})
	at := int(f.hdr.Data.Offset)
	src := repeated{slices.Clone(b[:at]), b[at:]}
	n := size / int64(len(src.body))
	order(false).PutUint64(src.head[48:], uint64(n)*uint64(len(src.body)))
	big, err := New(src, int64(at)+n*int64(len(src.body)), "large", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer big.Close()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	samples := int64(0)
	readAll(t, big, func(Record) { samples++ })
	runtime.ReadMemStats(&after)
	if samples != 20000*n {
		t.Errorf("%d samples, want %d", samples, 20000*n)
	}
	if grown := after.HeapSys - before.HeapSys; int64(grown) > 64<<20 {
		t.Errorf("the heap grew by %d MB", grown>>20)
	}
}

// TestShrinking: a file that is cut while it is read (PARSE-2).
func TestShrinking(t *testing.T) {
	name := filepath.Join(t.TempDir(), "perf.data")
	if err := os.WriteFile(name, benchFile(20000), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(name, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := f.Records()
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, chunkSize+100); err != nil {
		t.Fatal(err)
	}
	n := 1
	for {
		if _, err = r.Next(); err != nil {
			break
		}
		n++
	}
	if d := f.Damage(); err != io.EOF || n < 5000 || len(d) == 0 || d[0].What != "data: the file ended before its size at the start" {
		t.Errorf("%d records, %v, damage %q", n, err, d)
	}
}

// TestManyAttrs is P19: an event for every record of the pipe.
func TestManyAttrs(t *testing.T) {
	b := perftest.Data(t, "file pipe\nattr")
	one := b[16:]
	n, _, size := RecordHeader(one, false)
	if n != RecordHeaderAttr {
		t.Fatal(n)
	}
	b = append(b[:16:16], bytes.Repeat(one[:size], 100_000)...)
	f := open(t, b, Options{})
	if len(f.Events()) != 100_000 {
		t.Errorf("%d events", len(f.Events()))
	}
}

// TestPipeNames: names of events that come as records.
func TestPipeNames(t *testing.T) {
	f := open(t, perftest.Data(t, "file pipe\nevent a\nevent b config=1\nevent t type=2 config=77\n"+
		"raw type=78 u64:2 u64:101 cstr:power/energy/ pad:8\nraw type=78 u64:0 u64:101 cstr:Joules pad:8\nraw type=78 u64:1 u64:101 u64:0x3fe0000000000000\n"+
		"event_type id=77 name=sched:sched_switch"), Options{})
	var got []string
	for _, e := range f.Events() {
		got = append(got, fmt.Sprint(e.Name, e.Unit, e.Scale))
	}
	if want := []string{"cpu-clock:HG0", "power/energy/Joules0.5", "sched:sched_switch0"}; !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}

// TestAttrName compares names with what perf makes of attrs.
func TestAttrName(t *testing.T) {
	tests := []struct {
		a    Attr
		want string
	}{
		{Attr{Type: TypeHardware, Flags: FlagExcludeGuest}, "cycles"}, // as perf record sets it
		{Attr{Type: TypeHardware}, "cycles:HG"},
		{Attr{Type: TypeHardware, Config: 9, Flags: FlagExcludeGuest}, "ref-cycles"},
		{Attr{Type: TypeHardware, Config: 10, Flags: FlagExcludeGuest}, "unknown-hardware"},
		{Attr{Type: TypeHardware, Flags: FlagExcludeKernel | FlagExcludeHV}, "cycles:u"},
		{Attr{Type: TypeHardware, Flags: FlagExcludeUser}, "cycles:kh"},
		{Attr{Type: TypeHardware, Flags: FlagExcludeGuest | 2<<15}, "cycles:ppH"},
		{Attr{Type: TypeHardware, Flags: FlagExcludeHost}, "cycles:G"},
		{Attr{Type: TypeSoftware, Config: 2, Flags: FlagExcludeGuest}, "page-faults"},
		{Attr{Type: TypeSoftware, Config: 99, Flags: FlagExcludeGuest}, "unknown-software"},
		{Attr{Type: TypeTracepoint, Config: 99}, "unknown tracepoint"},
		{Attr{Type: TypeHWCache, Config: 0x10002, Flags: FlagExcludeGuest}, "LLC-load-misses"},
		{Attr{Type: TypeHWCache, Config: 0x100, Flags: FlagExcludeGuest}, "L1-dcache-stores"},
		{Attr{Type: TypeHWCache, Config: 7, Flags: FlagExcludeGuest}, "unknown-ext-hardware-cache-type"},
		{Attr{Type: TypeRaw, Config: 0x1234, Flags: FlagExcludeGuest}, "raw 0x1234"},
		{Attr{Type: TypeBreakpoint, Config1: 0x400000, BPType: 3, Flags: FlagExcludeGuest}, "mem:0x400000:rw"},
		{Attr{Type: 42}, "unknown attr type: 42"},
	}
	for _, tt := range tests {
		if got := tt.a.Name(); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.a, got, tt.want)
		}
	}
}

// TestUnknownRecords is P07: unknown types and features are skipped and counted.
func TestUnknownRecords(t *testing.T) {
	f := open(t, perftest.Data(t, "raw type=200 u64:1\nraw type=200 u64:2\nraw type=40\ncomm pid=1 tid=1 name=x\nfeature hostname box\nfeature 60 u64:5"), Options{})
	for range 2 { // reading twice does not double it
		texts(t, f)
		if got, want := f.Unknown(), map[Type]int64{200: 2, 40: 1}; !reflect.DeepEqual(got, want) {
			t.Errorf("unknown %v, want %v", got, want)
		}
	}
	if len(f.Damage()) > 0 || f.Hostname() != "box" || !slices.Equal(f.Features(), []int{3, 60}) {
		t.Errorf("damage %q, host %q, features %v", f.Damage(), f.Hostname(), f.Features())
	}
}
