package perfdata

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
)

// expected returns the name of perf's answer about a file of the corpus.
func expected(name, what string) string {
	dir := os.Getenv("PERFARK_CORPUS")
	rel, _ := filepath.Rel(dir, name)
	return filepath.Join(dir, "expected", strings.ReplaceAll(rel, "/", "~")+"."+what)
}

// short names a file in messages.
func shortName(name string) string {
	rel, _ := filepath.Rel(os.Getenv("PERFARK_CORPUS"), name)
	return rel
}

// readAll reads all records with a function that gets each.
func readAll(t testing.TB, f *File, fn func(Record)) {
	t.Helper()
	r := f.Records()
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		fn(rec)
	}
}

// TestEvlist compares the names of events with those of perf evlist.
func TestEvlist(t *testing.T) {
	n := 0
	for _, name := range corpus(t) {
		want, err := os.ReadFile(expected(name, "evlist.txt"))
		if err != nil || len(want) == 0 {
			continue // perf cannot read it
		}
		f, err := Open(name, Options{})
		if err != nil {
			t.Errorf("%s: %v", shortName(name), err)
			continue
		}
		var got []string
		for _, e := range f.Events() {
			if f.Header().Pipe {
				// perf evlist does not look at EVENT_DESC in pipes; perf
				// report, with which TestEventName compares, does.
				e.Name = e.Attr.Name()
			}
			got = append(got, e.Name)
		}
		f.Close()
		// Behind the names there may be a "# Tip:".
		list, _, _ := strings.Cut(string(want), "\n#")
		if w := strings.Fields(strings.ReplaceAll(list, " ", "_")); !slices.Equal(got, w) {
			for i := range got {
				got[i] = strings.ReplaceAll(got[i], " ", "_")
			}
			if !slices.Equal(got, w) {
				t.Errorf("%s: events %q, perf says %q", shortName(name), got, w)
			}
		}
		n++
	}
	t.Logf("%d files", n)
}

// TestEventName compares the names with those in the pages of perf report.
func TestEventName(t *testing.T) {
	line := regexp.MustCompile(`(?m)^# Samples: .* of event '(.*)'`)
	n := 0
	for _, name := range corpus(t) {
		page, err := os.ReadFile(expected(name, "report60.txt"))
		if err != nil {
			continue
		}
		f, err := Open(name, Options{})
		if err != nil {
			continue
		}
		for _, m := range line.FindAllSubmatch(page, -1) {
			if f.Header().Has(FeatureAuxtrace) {
				break // perf makes up events of the trace
			}
			n++
			if !slices.ContainsFunc(f.Events(), func(e Event) bool { return e.Name == string(m[1]) }) {
				t.Errorf("%s: perf report has an event %q, we have %v", shortName(name), m[1], f.Events()[0].Name)
			}
		}
		f.Close()
	}
	t.Logf("%d names", n)
}

// TestStats compares the number of records of each type with those of perf
// report --stats.
func TestStats(t *testing.T) {
	perf, err := exec.LookPath("perf")
	if err != nil {
		t.Skip("perf is not installed: record counts are not compared with its")
	}
	for _, name := range corpus(t) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			compareStats(t, perf, name)
		})
	}
}

var statsLine = regexp.MustCompile(`(?m)^ *([A-Z_0-9]+) events: *(\d+)`)

// compareStats compares the number of records of each type in a recording
// with those of perf report --stats.
func compareStats(t *testing.T, perf, name string) {
	var out, stderr bytes.Buffer
	cmd := exec.Command(perf, "--buildid-dir", t.TempDir(), "report", "--stats", "-f", "-i", name)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "LC_ALL=C", "DEBUGINFOD_URLS=")
	cmd.Stdout, cmd.Stderr = &out, &stderr
	cmd.Run()
	want := make(map[string]int)
	_, all, _ := strings.Cut(out.String(), "Aggregated stats:")
	all, _, _ = strings.Cut(all, " stats:") // those of single events
	for _, m := range statsLine.FindAllStringSubmatch(all, -1) {
		if m[1] != "TOTAL" {
			want[m[1]], _ = strconv.Atoi(m[2])
		}
	}
	f, err := Open(name, Options{})
	if err != nil {
		if len(want) > 0 {
			t.Errorf("%v, but perf reads it", err)
		}
		t.Skip(err)
	}
	defer f.Close()
	got := make(map[string]int)
	readAll(t, f, func(r Record) {
		if _, ok := r.(*Bad); !ok {
			got[r.Head().Type.String()]++
		}
	})
	if len(want) == 0 || strings.Contains(stderr.String(), "failed to process") {
		t.Skipf("perf cannot read it: %.80q", stderr.String())
	}
	// perf counts a COMPRESSED record as one besides what is in it.
	delete(want, "COMPRESSED")
	if !maps.Equal(got, want) {
		t.Errorf("records %v\nperf says %v", got, want)
	}
}

// A scriptSample is what a line of perf script says.
type scriptSample struct {
	tid    int32
	us     uint64 // time
	period uint64 // 0 if not printed
	event  string
	ips    []uint64 // the chain, or the ip alone
}

var scriptLine = regexp.MustCompile(`^ *(.+?) +(-?\d+) (?:\[(-?\d+)\] )? *(\d+)\.(\d{6}): +(?:(\d+) +)?(\S.*?):(?:  *([0-9a-f]+) .*)? ?$`)

// readScript parses the output of perf script. Files that print other fields
// are left out: ok is false.
func readScript(t *testing.T, name string, r io.Reader) (list []scriptSample, ok bool) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		s := in.Text()
		switch {
		case s == "":
		case s[0] == '\t':
			if len(list) == 0 {
				return nil, false
			}
			ip, err := strconv.ParseUint(strings.Fields(s)[0], 16, 64)
			if err != nil {
				return nil, false
			}
			l := &list[len(list)-1]
			l.ips = append(l.ips, ip)
		default:
			m := scriptLine.FindStringSubmatch(s)
			if m == nil {
				t.Logf("%s: %q", filepath.Base(name), s)
				return nil, false
			}
			tid, _ := strconv.ParseInt(m[2], 10, 32)
			sec, _ := strconv.ParseUint(m[4], 10, 64)
			us, _ := strconv.ParseUint(m[5], 10, 64)
			period, _ := strconv.ParseUint(m[6], 10, 64)
			x := scriptSample{tid: int32(tid), us: sec*1e6 + us, period: period, event: m[7]}
			if m[8] != "" {
				ip, err := strconv.ParseUint(m[8], 16, 64)
				if err != nil {
					return nil, false
				}
				x.ips = []uint64{ip}
			}
			list = append(list, x)
		}
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return list, len(list) > 0
}

// TestScript compares every sample's thread, time, period, event, address and
// call chain with perf script, in its order: that of time.
func TestScript(t *testing.T) {
	files, samples := 0, 0
	for _, name := range corpus(t) {
		file, err := os.Open(expected(name, "script.txt.gz"))
		if err != nil {
			continue
		}
		z, err := gzip.NewReader(file)
		if err != nil {
			t.Fatal(err)
		}
		want, ok := readScript(t, name, z)
		file.Close()
		if ok {
			files++
			samples += compareScript(t, name, want)
		}
	}
	t.Logf("%d files, %d samples", files, samples)
}

// compareScript compares the samples of a recording with what perf script
// says of them.
func compareScript(t *testing.T, name string, want []scriptSample) int {
	f, err := Open(name, Options{})
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return 0
	}
	defer f.Close()
	if f.Events()[0].Attr.ReadFormat&ReadGroup != 0 {
		return 0 // perf makes a sample of each counter
	}
	r := f.Ordered(OrderOptions{})
	i, bad := 0, 0
	for {
		rec, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		s, ok := rec.(*Sample)
		if !ok {
			continue
		}
		if i == len(want) {
			t.Errorf("%s: more samples than the %d of perf", name, i)
			break
		}
		w := want[i]
		i++
		if got := asScript(f, s, w); fmt.Sprint(got) != fmt.Sprint(w) && bad < 3 {
			bad++
			t.Errorf("%s: sample %d: %+v\nperf says %+v", name, i, got, w)
		}
	}
	if i != len(want) {
		t.Errorf("%s: %d samples, perf has %d", name, i, len(want))
	}
	if r.Late() != 0 {
		t.Errorf("%s: %d records out of order", name, r.Late())
	}
	return i
}

// asScript returns s as perf script prints it; w says which fields it prints.
func asScript(f *File, s *Sample, w scriptSample) scriptSample {
	e := f.Events()[s.Event]
	got := scriptSample{tid: s.TID, us: s.Time / 1000, event: e.Name, ips: w.ips}
	if e.Attr.SampleType&SampleTime == 0 {
		got.us = w.us
	}
	if w.period != 0 {
		got.period = s.Period
	}
	if len(w.ips) == 1 && e.Attr.SampleType&SampleCallchain == 0 {
		got.ips = []uint64{s.IP}
	} else if len(w.ips) > 0 {
		got.ips = nil
		for _, ip := range s.Callchain {
			if ip < MaxContext {
				got.ips = append(got.ips, ip)
			}
		}
		if len(got.ips) > len(w.ips) && len(w.ips) == 127 {
			got.ips = got.ips[:127] // perf's default --max-stack
		}
		// In user space perf prints addresses of the file mapped.
		if len(got.ips) == len(w.ips) {
			for i, ip := range got.ips {
				if ip < 1<<63 && w.ips[i] < ip {
					got.ips[i] = w.ips[i]
				}
			}
		}
	}
	return got
}

// TestRecorded compares fresh recordings of every kind with perf's answers.
func TestRecorded(t *testing.T) {
	perf, err := exec.LookPath("perf")
	if err != nil {
		t.Skip("perf is not installed: fresh recordings are not compared")
	}
	if testing.Short() {
		t.Skip("-short")
	}
	tests := []struct {
		name string
		args []string
		pipe bool
	}{
		{"callgraph", []string{"-a", "-g"}, false},
		{"two events", []string{"-e", "task-clock"}, false},
		{"directory zstd", []string{"-a", "-g", "-z", "--threads=cpu"}, false},
		{"pipe zstd", []string{"-z"}, true},
		{"buildid-mmap", []string{"--buildid-mmap"}, false},
		{"dwarf", []string{"--call-graph", "dwarf,1024"}, false},
		{"all of a sample", []string{"-a", "-d", "--phys-data", "-W", "--sample-cpu", "-s", "-T", "--namespaces", "--all-cgroups", "--switch-events", "-R"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			name := filepath.Join(t.TempDir(), "perf.data")
			args := append([]string{"record", "-o", name, "-F", "1999", "-e", "cpu-clock"}, tt.args...)
			if tt.pipe {
				args[2] = "-"
			}
			perftest.Shared(t)
			var stderr bytes.Buffer
			cmd := exec.Command(perf, append(args, "--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do /bin/true; done")...)
			cmd.Stderr = &stderr
			if tt.pipe {
				out, err := os.Create(name)
				if err != nil {
					t.Fatal(err)
				}
				defer out.Close()
				cmd.Stdout = out
			}
			if err := cmd.Run(); err != nil {
				t.Skipf("NOTICE: perf may not record here: %v: %.200q", err, stderr.String())
			}
			f, err := Open(name, Options{})
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			readAll(t, f, func(r Record) {
				if _, ok := r.(*Sample); ok {
					n++
				}
			})
			if d := f.Damage(); len(d) > 0 || n == 0 {
				t.Errorf("%d samples, damage %q", n, d)
			}
			f.Close()
			compareStats(t, perf, name) // perf 6.1 cannot read pipes with zstd
			script := exec.Command(perf, "script", "-f", "-i", name, "-F", "comm,tid,time,event,ip,sym,dso,period")
			script.Env = append(os.Environ(), "LC_ALL=C", "DEBUGINFOD_URLS=")
			text, err := script.Output()
			if err != nil {
				t.Skipf("perf script: %v", err)
			}
			if strings.Contains(tt.name, "dwarf") {
				return // perf unwinds
			}
			want, ok := readScript(t, name, bytes.NewReader(text))
			if !ok || len(want) == 0 {
				t.Fatalf("perf script: %.500q", text)
			}
			if n := compareScript(t, name, want); n > 0 {
				t.Logf("%d samples", n)
			}
		})
	}
}

// TestBatches checks that batches hold what Next delivers, also when several
// take them.
func TestBatches(t *testing.T) {
	for _, name := range corpus(t) {
		f, err := Open(name, Options{})
		if err != nil {
			continue
		}
		var want, got []string
		readAll(t, f, func(r Record) {
			m := r.Head()
			want = append(want, fmt.Sprint(m.Type, m.Size, m.Offset))
		})
		b := f.Batches(context.Background())
		pos := uint64(0)
		for {
			batch, err := b.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if batch.Pos < pos {
				t.Fatalf("%s: position %d after %d", shortName(name), batch.Pos, pos)
			}
			pos = batch.Pos + uint64(len(batch.Data))
			if batch.Bad != nil {
				m := batch.Bad.Head()
				got = append(got, fmt.Sprint(m.Type, m.Size, m.Offset))
			}
			for i := 0; i < len(batch.Data); {
				typ, _, size := RecordHeader(batch.Data[i:], f.Header().Big)
				got = append(got, fmt.Sprint(typ, size, batch.At(i)))
				i += size
			}
			batch.Release()
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: batches hold %d records, Next delivers %d", shortName(name), len(got), len(want))
		}
		f.Close()
	}
}

// TestParallel: several goroutines that share a BatchReader get all records,
// in an order that Pos gives back, compressed or not.
func TestParallel(t *testing.T) {
	files := map[string][]byte{"plain": benchFile(20000), "zstd": zstdRecords(t, "zstd", 500, 20000)}
	for name, b := range files {
		t.Run(name, func(t *testing.T) {
			f := open(t, b, Options{})
			var want []uint64
			readAll(t, f, func(r Record) {
				if s, ok := r.(*Sample); ok {
					want = append(want, s.Time)
				}
			})
			type part struct {
				pos   uint64
				times []uint64
			}
			var mu sync.Mutex
			var parts []part
			var wg sync.WaitGroup
			r := f.Batches(t.Context())
			for range 8 {
				wg.Go(func() {
					d := NewDecoder(f)
					var s Sample
					for {
						batch, err := r.Next()
						if err != nil {
							return
						}
						p := part{pos: batch.Pos}
						for i := 0; i < len(batch.Data); {
							typ, _, size := RecordHeader(batch.Data[i:], false)
							if typ == RecordSample && d.Sample(batch.Data[i:i+size], batch.At(i), &s) == nil {
								p.times = append(p.times, s.Time)
							}
							i += size
						}
						batch.Release()
						mu.Lock()
						parts = append(parts, p)
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.pos, b.pos) })
			var got []uint64
			for _, p := range parts {
				got = append(got, p.times...)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d samples, want %d", len(got), len(want))
			}
		})
	}
}

// TestCancel: a context that is done ends reading, and its coroutines.
func TestCancel(t *testing.T) {
	f := open(t, zstdRecords(t, "zstd", 500, 20000), Options{})
	ctx, cancel := context.WithCancel(t.Context())
	r := f.Batches(ctx)
	for range 2 {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if _, err := r.Next(); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if len(f.inflaters) != 0 {
		t.Errorf("%d coroutines are left", len(f.inflaters))
	}
	before := runtime.NumGoroutine()
	for range 20 {
		g := open(t, zstdRecords(t, "zstd", 500, 2000), Options{})
		if _, err := g.Records().Next(); err != nil {
			t.Fatal(err)
		}
		g.Records().Next()
		g.Close()
	}
	if n := runtime.NumGoroutine(); n > before+2 {
		t.Errorf("%d goroutines more", n-before)
	}
}
