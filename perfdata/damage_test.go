package perfdata

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/internal/perftest"
)

// damageFiles are recordings of the corpus to be damaged: a file, a pipe,
// compressed data, an AUX trace.
func damageFiles(t *testing.T, names ...string) map[string][]byte {
	files := make(map[string][]byte)
	for _, name := range corpus(t) {
		if slices.Contains(names, filepath.Base(name)) {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			files[filepath.Base(name)] = b
		}
	}
	if len(files) != len(names) {
		t.Fatalf("of %q the corpus has %d", names, len(files))
	}
	return files
}

// A taken is a sample as it was delivered.
type taken struct {
	off, size int64
	text      string
}

// samples reads all samples of a recording that may be damaged. It fails the
// test if that takes longer than a second.
func samples(t *testing.T, b []byte) (list []taken, f *File, err error) {
	t.Helper()
	start := time.Now()
	f, err = New(bytes.NewReader(b), int64(len(b)), "perf.data", Options{})
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	r := f.Records()
	for {
		rec, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return list, f, err
		}
		if s, ok := rec.(*Sample); ok {
			list = append(list, taken{s.Offset, int64(s.Size), text(s)})
		}
	}
	if d := time.Since(start); d > time.Second && !raceEnabled {
		t.Errorf("reading %d bytes took %v", len(b), d)
	}
	return list, f, nil
}

func reported(f *File) bool { return len(f.Damage()) > 0 || len(f.Unknown()) > 0 }

// TestTruncate cuts recordings (P03): at every byte the small ones. Whatever
// is whole before the cut is delivered, and the cut is told.
func TestTruncate(t *testing.T) {
	steps := map[string]int{
		"sleep.data":                 1,
		"sleep.compressed.pipe.data": 7,
		"perf.data.callgraph-3.8":    4093,
		"perf.data.intel_pt-4.14":    2039,
	}
	for name, b := range damageFiles(t, keys(steps)...) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, whole, err := samples(t, b)
			if err != nil {
				t.Fatal(err)
			}
			step := steps[name]
			if testing.Short() {
				step *= 50
			}
			zstd := strings.Contains(name, "compressed")
			attrs := int64(whole.hdr.Attrs.Offset + whole.hdr.Attrs.Size)
			for n := 1; n < len(b); n += step {
				got, f, err := samples(t, b[:n])
				if err != nil {
					var e *decode.Error
					if !errors.As(err, &e) && !errors.Is(err, ErrNotPerfData) {
						t.Fatalf("cut at %#x: %v", n, err)
					}
					if int64(n) >= attrs && !whole.hdr.Pipe {
						t.Fatalf("cut at %#x, behind the events: %v", n, err)
					}
					continue
				}
				want := slices.DeleteFunc(slices.Clone(all), func(x taken) bool { return x.off+x.size > int64(n) })
				if zstd && len(got) <= len(all) {
					want = all[:len(got)]
				}
				if !slices.Equal(got, want) {
					t.Fatalf("cut at %#x: %d samples, %d are whole", n, len(got), len(want))
				}
				// A pipe's recording cut between two records is whole.
				if len(f.Damage()) == 0 && !whole.hdr.Pipe {
					t.Fatalf("cut at %#x: not told", n)
				}
			}
		})
	}
}

func keys[V any](m map[string]V) []string {
	var list []string
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

// mutate damages b in one of several ways. It returns the first byte that is
// different, and the first from which on all are as before; -1 if none.
func mutate(r *rand.Rand, b []byte) (out []byte, from, to int) {
	at := r.IntN(len(b))
	n := min(1+r.IntN(64), len(b)-at)
	out = slices.Clone(b)
	switch r.IntN(7) {
	case 0:
		out[at] ^= 1 << r.IntN(8)
		return out, at, at + 1
	case 1:
		out[at] = byte(r.Uint32())
		return out, at, at + 1
	case 2:
		v := []byte{0, 0xff, 0x7f, 0x80}[r.IntN(4)]
		for i := range n {
			out[at+i] = v
		}
		return out, at, at + n
	case 3: // a word, aligned
		at &^= 7
		n = min(8, len(b)-at)
		for i := range n {
			out[at+i] = byte(r.Uint32())
		}
		return out, at, at + n
	case 4: // cut out
		n = min(n*8&^7, len(b)-at)
		return slices.Delete(out, at, at+n), at, -1
	case 5: // put in
		return slices.Insert(out, at, make([]byte, n)...), at, -1
	}
	// a piece of the file over another
	src := r.IntN(len(b))
	n = copy(out[at:], b[src:min(src+256, len(b))])
	return out, at, at + n
}

// TestMutants reads 500 damaged recordings (P05): no panic, no hang, every
// sample before the damage, and those behind it or a word about their loss.
func TestMutants(t *testing.T) {
	names := []string{"sleep.data", "sleep.compressed.data", "perf.data.branch-4.14", "perf.data.piped.target.throttled-3.4", "perf.data.intel_pt-4.14"}
	count := 100
	if testing.Short() {
		count = 20
	}
	for name, b := range damageFiles(t, names...) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, whole, err := samples(t, b)
			if err != nil {
				t.Fatal(err)
			}
			zstd := strings.Contains(name, "compressed")
			data := int64(whole.hdr.Data.Offset)
			if whole.hdr.Pipe {
				data = all[0].off // events and features stand before the samples
			}
			r := rand.New(rand.NewPCG(2, uint64(len(b))))
			behind, beyond := 0, 0
			for i := range count {
				mutant, from, to := mutate(r, b)
				got, f, err := samples(t, mutant)
				if err != nil {
					if int64(from) >= data {
						t.Errorf("mutant %d, damaged from %#x: %v", i, from, err)
					}
					continue
				}
				// A piece cut out of a pipe can leave two halves that make one
				// good record: only a file says how long its data was.
				if seamless := whole.hdr.Pipe && to < 0; len(got) < len(all) && !reported(f) && !seamless {
					t.Errorf("mutant %d, damaged in [%#x, %#x): %d samples of %d, and nothing is told", i, from, to, len(got), len(all))
				}
				if int64(from) < data || zstd {
					continue
				}
				before := slices.DeleteFunc(slices.Clone(all), func(x taken) bool { return x.off+x.size > int64(from) })
				if len(got) < len(before) || !slices.Equal(got[:len(before)], before) {
					t.Errorf("mutant %d, damaged in [%#x, %#x): the %d samples before are not delivered", i, from, to, len(before))
				}
				// How many of those behind it are found again.
				for _, x := range all {
					if to >= 0 && x.off >= int64(to) {
						behind++
						if slices.Contains(got, x) {
							beyond++
						}
					}
				}
			}
			t.Logf("of the samples behind the damage, %d of %d were read", beyond, behind)
			if beyond*100 < behind*90 {
				t.Errorf("of the samples behind the damage, only %d of %d were read", beyond, behind)
			}
		})
	}
}

// TestDamage: what is told about damage, with its offset, and what is read
// nevertheless. Names are those of the recipes in threats.md and of cases.
func TestDamage(t *testing.T) {
	const comm = "\ncomm pid=1 tid=1 name=first\n"
	const last = "\ncomm pid=1 tid=1 name=last\ncomm pid=2 tid=2 name=last\ncomm pid=3 tid=3 name=last\n"
	tests := []struct {
		name, in string
		n        int // records that are delivered
		damage   []string
	}{
		{"P1 size 0", comm + "raw type=10 size=0 u64:0" + last, 4,
			[]string{"offset 0x138: record.size: is 0, but a record has at least 8 bytes (type 10) (16 bytes lost)"}},
		{"P2 size 7", comm + "raw type=10 size=7 u64:0" + last, 4,
			[]string{"offset 0x138: record.size: is 7, but a record has at least 8 bytes (type 10) (16 bytes lost)"}},
		{"P3 size beyond the data", comm + "raw type=10 size=65528 u64:0" + last, 4,
			[]string{"offset 0x138: record.size: MMAP2 (10) of 65528 bytes, but only 184 follow (16 bytes lost)"}},
		{"P3 last record", comm + "raw type=10 size=800 u64:0", 1,
			[]string{"offset 0x138: record.size: MMAP2 (10) of 800 bytes, but only 16 follow (16 bytes lost)"}},
		{"odd size", comm + "raw type=3 size=13 u64:0" + last, 4,
			[]string{"offset 0x138: record.size: COMM (3) of 13 bytes, which is no multiple of 8 (16 bytes lost)"}},
		{"odd type", comm + "raw type=0x12345678 u64:0" + last, 4,
			[]string{"offset 0x138: record.type: is 305419896, with size 16 (16 bytes lost)"}},
		{"type 0", comm + "raw type=0 u64:0" + last, 4,
			[]string{"offset 0x138: record.type: is 0, with size 16 (16 bytes lost)"}},
		{"P12 AUXTRACE", comm + "auxtrace len=0x8000000000000000" + last, 4,
			[]string{"offset 0x138: auxtrace.size: 9223372036854775808 bytes wanted, but only 168 follow (48 bytes lost)"}},
		{"P20 TRACING_DATA", comm + "tracing_data len=0xffffffff" + last, 4,
			[]string{"offset 0x138: tracing_data.size: 4294967296 bytes wanted, but only 168 follow (12 bytes lost)"}},
		{"P4 killed", "file killed" + comm + last, 4,
			[]string{"offset 0x30: header.data.size: is 0: the recorder did not end; reading to the end of the file, without features"}},
		{"P17 times", "file" + comm + "comm pid=1 tid=1 name=x time=0xffffffffffffffff\ncomm pid=1 tid=1 name=x time=5\ncomm pid=1 tid=1 name=x time=1", 4, nil},
		{"P18 cpu and tid", comm + "sample ip=1 pid=-1 tid=-1 cpu=0xffffffff evid=77", 2, nil},
		{"P13 build ids", comm + "raw type=67 misc=0x8002 u32:0 hex:ff*20 u8:255 u8:0 u16:0 text:../../etc/x", 2, nil},
		{"P15 names", comm + "mmap2 start=-4096 len=0x2000 pgoff=0x8000000000000000 name=\"\\n\\x1b]0;x\\a<script>\\xff\"\nraw type=1 u32:1 u32:2 u64:1 u64:0 u64:3 hex:41*64 u64:1 u64:2 u64:3 u64:4", 3, nil},
		{"P16 fork cycle", comm + "fork pid=7 ppid=7 tid=7 ptid=7\nexit pid=9 ppid=9 tid=9 ptid=9\ncomm pid=1 tid=1 name=\"\\x1b\\x1b\\x1b\\x1b\\x1b\\x1b\\x1b\\x1b\\x1b\\x1b\\x1b\\x1b\\x1b\\x1b\\x1b\"", 4, nil},
		{"P20 EVENT_TYPE", comm + "event_type id=1 name=x\nraw type=65", 2,
			[]string{"offset 0x158: event_type.event_id: 8 bytes wanted, but only 0 follow (8 bytes lost)"}},
		{"P23 KSYMBOL", comm + "raw type=17 u64:1 u32:1 u16:1 u16:0 hex:41*8 hex:00*32\nraw type=18 u64:0" + last, 5,
			[]string{"offset 0x180: sample_id: 32 bytes wanted, but only 8 follow (16 bytes lost)"}},
		{"trailing bytes", comm + "bytes hex:090000", 1,
			[]string{"offset 0x138: record: 8 bytes wanted, but only 3 follow (3 bytes lost)"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			perftest.Orders(t, tt.in, func(t *testing.T, b []byte) {
				f := open(t, b, Options{})
				n := 0
				readAll(t, f, func(r Record) {
					if _, ok := r.(*Bad); !ok {
						n++
					}
				})
				var got []string
				for _, d := range f.Damage() {
					got = append(got, d.String())
				}
				if n != tt.n || !slices.Equal(got, tt.damage) {
					t.Errorf("%d records, damage %q\nwant %d, %q", n, got, tt.n, tt.damage)
				}
			})
		})
	}
}

// TestResync: more damage than a chunk, and less.
func TestResync(t *testing.T) {
	for _, n := range []int{100, chunkSize - 8, chunkSize, 3 * chunkSize} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			var s strings.Builder
			s.WriteString("comm pid=1 tid=1 name=first\n")
			fmt.Fprintf(&s, "bytes hex:00*%d\n", n&^7)
			for i := range 4 {
				fmt.Fprintf(&s, "comm pid=%d tid=1 name=last\n", i)
			}
			f := open(t, perftest.Data(t, s.String()), Options{})
			got := 0
			readAll(t, f, func(r Record) {
				if _, ok := r.(*Comm); ok {
					got++
				}
			})
			if d := f.Damage(); got != 5 || len(d) != 1 || d[0].Len != int64(n&^7) {
				t.Errorf("%d records, damage %q", got, d)
			}
		})
	}
}

// zeros is a file whose end is a hole.
type zeros struct {
	head []byte
	read *int64
}

func (z zeros) ReadAt(p []byte, off int64) (int, error) {
	*z.read += int64(len(p))
	clear(p)
	if off < int64(len(z.head)) {
		copy(p, z.head[off:])
	}
	return len(p), nil
}

// TestHole is P26: a recording of 1 TiB of which almost all is a hole.
func TestHole(t *testing.T) {
	b := perftest.Data(t, "file killed\ncomm pid=1 tid=1 name=first")
	var read int64
	f, err := New(zeros{b, &read}, 1<<40, "hole", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	readAll(t, f, func(r Record) {
		if _, ok := r.(*Comm); ok {
			n++
		}
	})
	d := f.Damage()
	if n != 1 || len(d) != 2 || d[1].Len != 1<<40-int64(len(b)) || !strings.Contains(d[1].What, "no record found behind it") {
		t.Errorf("%d records, damage %q", n, d)
	}
	if read > 2*maxSeek {
		t.Errorf("%d bytes read", read)
	}
}

// TestBadLimit: what is listed does not grow with the damage.
func TestBadLimit(t *testing.T) {
	b := benchFile(3000)
	f := open(t, b, Options{})
	off := int64(f.hdr.Data.Offset)
	for i := off; i < int64(len(b)); {
		_, _, size := RecordHeader(b[i:], false)
		b[i+14] = 0xff // an id of no event
		i += int64(size)
	}
	f.table.same = false
	f2 := open(t, b, Options{})
	f2.events = append(f2.events, Event{Attr: Attr{SampleType: SampleIdentifier}})
	f2.table = newEventTable(f2.events)
	readAll(t, f2, func(Record) {})
	d := f2.Damage()
	if len(d) != maxDamage+1 || !strings.HasPrefix(d[maxDamage].What, "and in 2000 more places: ") {
		t.Errorf("%d entries, the last %v", len(d), d[len(d)-1])
	}
}
