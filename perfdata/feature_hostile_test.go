package perfdata

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
)

// samplesAndRest reads a recording to its end and returns how many samples it has.
func samplesAndRest(t *testing.T, f *File) (samples int, recs []string) {
	t.Helper()
	for r := f.Records(); ; {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return samples, recs
		}
		if err != nil {
			t.Fatal(err)
		}
		switch rec := rec.(type) {
		case *Sample:
			samples++
		case *Bad:
			recs = append(recs, "bad: "+rec.Err.Error())
		default:
			recs = append(recs, rec.Head().Type.String())
		}
	}
}

// TestFeatureTableHostile (P14): the table of features cut short, or pointing
// where nothing is, into itself, over the data, beyond the file. The samples
// are there all the same, and so are the features that are whole.
func TestFeatureTableHostile(t *testing.T) {
	const text = "sample ip=1 pid=1 tid=1\nsample ip=2 pid=1 tid=1\nfeature hostname box\nfeature osrelease 6.1\nfeature arch x86_64\n"
	orders(t, func(t *testing.T, big bool) {
		good := perftest.Data(t, perftest.InOrder(text, big))
		var o binary.ByteOrder = binary.LittleEndian
		if big {
			o = binary.BigEndian
		}
		table := int(o.Uint64(good[40:]) + o.Uint64(good[48:]))
		slot := func(b []byte, i int, off, size uint64) {
			o.PutUint64(b[table+16*i:], off)
			o.PutUint64(b[table+16*i+8:], size)
		}
		tests := []struct {
			name     string
			change   func(b []byte) []byte
			hostname string // "" if it is lost
			arch     string
		}{
			{"table cut in the first slot", func(b []byte) []byte { return b[:table+5] }, "", ""},
			{"table cut in the second slot", func(b []byte) []byte { return b[:table+20] }, "", ""},
			{"payloads cut", func(b []byte) []byte { return b[:table+48+70] }, "box", ""},
			// Big-endian, the offset begins with four zero bytes: an empty string.
			{"section into the table", func(b []byte) []byte { slot(b, 0, uint64(table), 48); return b }, "", "x86_64"},
			{"section beyond the file", func(b []byte) []byte { slot(b, 0, 1<<40, 68); return b }, "", "x86_64"},
			{"section wraps", func(b []byte) []byte { slot(b, 0, ^uint64(0)-3, 8); return b }, "", "x86_64"},
			{"size is huge", func(b []byte) []byte { slot(b, 0, uint64(table+48), 1<<63); return b }, "", "x86_64"},
			{"size is 0", func(b []byte) []byte { slot(b, 0, uint64(table+48), 0); return b }, "", "x86_64"},
			{"all sections are one", func(b []byte) []byte {
				for i := range 3 {
					slot(b, i, uint64(table+48), 68)
				}
				return b
			}, "box", "box"},
			{"every bit is set", func(b []byte) []byte {
				for i := 72; i < 104; i++ {
					b[i] = 0xff
				}
				return b
			}, "", ""},
		}
		for _, tt := range tests {
			b := tt.change(bytes.Clone(good))
			f, err := New(bytes.NewReader(b), int64(len(b)), "x", Options{})
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
				continue
			}
			for bit := range 256 {
				f.Feature(bit)
			}
			if n, _ := samplesAndRest(t, f); n != 2 {
				t.Errorf("%s: %d samples", tt.name, n)
			}
			if tt.name != "every bit is set" && (f.Hostname() != tt.hostname || f.Arch() != tt.arch) {
				t.Errorf("%s: hostname %q, arch %q", tt.name, f.Hostname(), f.Arch())
			}
			if tt.hostname != "box" && !(big && tt.name == "section into the table") && len(f.Warnings())+len(f.Damage()) == 0 {
				t.Errorf("%s: nothing is said about it", tt.name)
			}
		}
	})
}

// TestRecordCounts (P24, P25): counts in records of perf itself that are more
// than there is.
func TestRecordCounts(t *testing.T) {
	const huge = " nr=0x1000000000000000"
	tests := []struct{ line, err string }{
		{"thread_map threads=10/x" + huge, "thread_map.nr: count 1152921504606846976, but only 24 bytes follow"},
		{"thread_map threads=10/x nr=2", "thread_map.nr: count 2, but only 24 bytes follow"},
		{"cpu_map cpus=0,1,2,3,4,5 nr=0xffff", "cpu_map.nr: count 65535, but only 12 bytes follow"},
		{"stat_config entries=1/2" + huge, "stat_config.nr: count 1152921504606846976, but only 16 bytes follow"},
		{"id_index entries=1/2/3/4" + huge, "id_index.nr: count 1152921504606846976, but only 32 bytes follow"},
		{"namespaces pid=1 tid=1 links=1/2" + huge, "namespaces.nr: count 1152921504606846976, but only 16 bytes follow"},
		{"bpf_metadata prog=p entries=a/b" + huge, "bpf_metadata.nr_entries: count 1152921504606846976, but only 320 bytes follow"},
		{"callchain_deferred chain=1,2" + huge, "callchain_deferred.nr: count 1152921504606846976, but only 16 bytes follow"},
		{"compressed2 len=9 data=00", "compressed2.data_size: count 9, but only 8 bytes follow"},
		{"time_conv shift=1 cut=40", "time_conv.time_mult: 8 bytes wanted, but only 0 follow"},
		{"raw type=74 u16:1 u16:0xffff u16:4 u16:0", "cpu_map.nr: count 65535, but only 2 bytes follow"},
		{"raw type=74 u16:1 u16:1 u16:3 u16:0", "cpu_map.long_size: is 3, but must be 4 or 8"},
		{"raw type=74 u16:9 u16:1 u32:0", "cpu_map.type: is 9, but must be 0, 1 or 2"},
	}
	for _, tt := range tests {
		orders(t, func(t *testing.T, big bool) {
			f := openFixture(t, "sample ip=1 pid=1 tid=1\n"+tt.line+"\nsample ip=2 pid=1 tid=1\n", big)
			n, recs := samplesAndRest(t, f)
			if n != 2 || len(recs) != 1 || !strings.HasPrefix(recs[0], "bad: ") || !strings.HasSuffix(recs[0], tt.err) {
				t.Errorf("%s: %d samples, %q\nwant %s", tt.line, n, recs, tt.err)
			}
			if len(f.Damage()) != 1 {
				t.Errorf("%s: damage %v", tt.line, f.Damage())
			}
		})
	}
}

// TestFeatureWarnsOnce asks for a broken feature from many goroutines.
func TestFeatureWarnsOnce(t *testing.T) {
	f := openFixture(t, "sample ip=1\nfeature hostname u32:99\n", false)
	done := make(chan bool)
	for range 8 {
		go func() { f.Hostname(); done <- true }()
	}
	for range 8 {
		<-done
	}
	if w := f.Warnings(); len(w) != 1 || !strings.Contains(w[0], "HOSTNAME: offset") {
		t.Errorf("warnings %q", w)
	}
}

// TestManyFeatures: 255 features that are not known, each with a payload, are
// kept as they are.
func TestManyFeatures(t *testing.T) {
	var text strings.Builder
	for bit := featureEnd; bit < 256; bit++ {
		fmt.Fprintf(&text, "feature %d u32:%d\n", bit, bit)
	}
	orders(t, func(t *testing.T, big bool) {
		f := openFixture(t, "sample ip=1\nfeature hostname box\n"+text.String(), big)
		for bit := featureEnd; bit < 256; bit++ {
			b, ok := f.Feature(bit).([]byte)
			if !ok || len(b) != 4 || order(big).Uint32(b) != uint32(bit) {
				t.Fatalf("feature %d is %x", bit, b)
			}
		}
		if len(f.Warnings()) != 0 || len(f.Damage()) != 0 {
			t.Errorf("%v %v", f.Warnings(), f.Damage())
		}
	})
}
