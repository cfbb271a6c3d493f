package perfdata

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
)

// writeSample makes a recording with two events, maps with and without build
// ids, call chains and features.
func writeSample(t *testing.T, w *Writer) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	st := SampleIdentifier | SampleIP | SampleTID | SampleTime | SampleCPU | SamplePeriod | SampleCallchain
	a := Attr{Type: TypeSoftware, Size: 128, SamplePeriod: 4000, SampleType: st, Flags: FlagSampleIDAll | FlagFreq | FlagMmap | FlagMmap2 | FlagComm | FlagTask}
	_, err := w.AddEvent(a, 11, 12)
	must(err)
	b := a
	b.Config, b.Size = 1, 112 // task-clock, from an older perf
	ev, err := w.AddEvent(b, 21)
	must(err)
	trailer := SampleID{PID: 10, TID: 10, Time: 5, ID: 11, CPU: 1}
	must(w.Write(&Mmap{
		Meta: Meta{Type: RecordMmap, Misc: CPUModeKernel, SampleID: SampleID{PID: -1, ID: 11}}, MapPID: -1,
		Start: 0xffffffff81000000, Len: 0x1000000, Pgoff: 0xffffffff81000000, Name: "[kernel.kallsyms]_text",
	}))
	must(w.Write(&Comm{Meta: Meta{Type: RecordComm, SampleID: trailer}, CommPID: 10, CommTID: 10, Name: "prog"}))
	must(w.Write(&Mmap{
		Meta: Meta{Type: RecordMmap2, Misc: CPUModeUser | MiscMmapBuildID, SampleID: trailer}, MapPID: 10, MapTID: 10,
		Start: 0x400000, Len: 0x2000, Prot: 5, Flags: 2, BuildID: sha1ID, Name: "/bin/prog",
	}))
	must(w.Write(&Mmap{
		Meta: Meta{Type: RecordMmap2, Misc: CPUModeUser, SampleID: trailer}, MapPID: 10, MapTID: 10,
		Start: 0x500000, Len: 0x2000, Prot: 5, Flags: 2, Maj: 8, Min: 1, Ino: 77, InoGen: 1, Name: "/lib/l.so",
	}))
	for i := range 3 {
		must(w.Write(&Sample{
			Meta: Meta{Type: RecordSample, Misc: CPUModeUser, SampleID: SampleID{PID: 10, TID: 10, Time: uint64(1000 + i), ID: 12, CPU: 1}},
			IP:   0x400123, Period: 3, Callchain: []uint64{ContextUser, 0x400123, 0x500321},
		}))
	}
	must(w.Write(&Sample{
		Meta:  Meta{Type: RecordSample, Misc: CPUModeUser, SampleID: SampleID{PID: 10, TID: 10, Time: 1010, ID: 21}},
		Event: ev, IP: 0x500124, Period: 5, Callchain: []uint64{ContextUser, 0x500124},
	}))
	must(w.Write(&Finished{Meta{Type: RecordFinishedRound}}))
	must(w.SetFeature(FeatureHostname, "box"))
	must(w.SetFeature(FeatureArch, "x86_64"))
	must(w.SetFeature(FeatureNRCPUs, NRCPUs{2, 2}))
	must(w.SetFeature(FeatureCmdline, []string{"perf", "record"}))
	if !w.o.Pipe {
		must(w.SetFeature(FeatureBuildID, BuildIDTable{Records: []*BuildIDRecord{
			buildIDRec(0x8001, -1, "\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11", "[kernel.kallsyms]"),
			buildIDRec(0x8002, -1, "\x22\x22\x22\x22\x22\x22\x22\x22\x22\x22\x22\x22\x22\x22\x22\x22", "/lib/l.so"),
		}}))
	}
}

func newFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "perf.data"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestWriterPerf has real perf read what a Writer wrote.
func TestWriterPerf(t *testing.T) {
	perftest.NeedTool(t, "perf")
	for _, o := range []WriterOptions{{}, {Pipe: true}, {Big: true}, {Spare: 2}} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			f := newFile(t)
			w, err := NewWriter(f, o)
			if err != nil {
				t.Fatal(err)
			}
			writeSample(t, w)
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			names := "cpu-clock:HG\ntask-clock:HG\n"
			ids := "1111111111111111111111111111111111111111 [kernel.kallsyms]\n22222222222222222222222222222222         /lib/l.so\n"
			if o.Pipe {
				ids = ""
			}
			run := func(stderr string, args ...string) string {
				t.Helper()
				r := perftest.Perf(t, append(args, "-i", f.Name())...)
				if r.Code != 0 || strings.TrimSpace(strings.ReplaceAll(r.Stderr, stderr, "")) != "" {
					t.Errorf("perf %v: exit status %d, %s", args, r.Code, r.Stderr)
				}
				return r.Stdout
			}
			if got := run("", "evlist"); got != names {
				t.Errorf("evlist:\n%swant:\n%s", got, names)
			}
			if got := run("", "buildid-list"); got != ids && !o.Pipe {
				t.Errorf("buildid-list:\n%swant:\n%s", got, ids)
			}
			const noKernel = "No kallsyms or vmlinux with build-id 1111111111111111111111111111111111111111 was found\n"
			script := strings.Join(strings.Fields(strings.ReplaceAll(run(noKernel, "script", "-F", "comm,pid,tid,cpu,time,event,ip,dso,period"), "[unknown]", "")), " ")
			one := "prog 10/10 [001] 0.000001: 3 cpu-clock:HG: 123 (/bin/prog) 321 (/lib/l.so) "
			if want := one + one + one + "prog 10/10 [000] 0.000001: 5 task-clock:HG: 124 (/lib/l.so)"; script != want {
				t.Errorf("script:\n%s\nwant:\n%s", script, want)
			}
			report := run(noKernel, "report", "--stdio", "-g", "none", "--no-children", "--sort", "dso", "-n", "--show-total-period")
			for _, want := range []string{"Samples: 3  of event 'cpu-clock:HG'", "Event count (approx.): 9", "Samples: 1  of event 'task-clock:HG'"} {
				if !strings.Contains(report, want) {
					t.Errorf("report lacks %q:\n%s", want, report)
				}
			}
			header := run("", "report", "--header-only")
			if !strings.Contains(header, "# hostname : box\n# arch : x86_64\n") || !strings.Contains(header, "# cmdline : perf record \n") {
				t.Errorf("header:\n%s", header)
			}
		})
	}
}

// TestWriterReads has our reader read it, in both byte orders and kinds.
func TestWriterReads(t *testing.T) {
	for _, o := range []WriterOptions{{}, {Pipe: true}, {Big: true}, {Big: true, Pipe: true}, {Magic: "PERFFILE"}, {Spare: 3}} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			out := newFile(t)
			w, err := NewWriter(out, o)
			if err != nil {
				t.Fatal(err)
			}
			writeSample(t, w)
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := w.AddEvent(Attr{}); !errors.Is(err, ErrWriter) {
				t.Errorf("AddEvent after Close: %v", err)
			}
			if err := w.WriteRaw(nil); !errors.Is(err, ErrWriter) {
				t.Errorf("WriteRaw after Close: %v", err)
			}
			f, err := Open(out.Name(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if d := f.Damage(); len(d) != 0 && !o.Pipe {
				t.Errorf("damage: %v", d)
			}
			if f.Hostname() != "box" || f.Arch() != "x86_64" || !reflect.DeepEqual(f.Cmdline(), []string{"perf", "record"}) {
				t.Errorf("features: %q %q %q", f.Hostname(), f.Arch(), f.Cmdline())
			}
			if len(f.Events()) != 2 || !reflect.DeepEqual(f.Events()[0].IDs, []uint64{11, 12}) || f.Events()[1].Attr.Config != 1 {
				t.Errorf("events: %+v", f.Events())
			}
			if !o.Pipe {
				if ids := f.BuildIDs(); len(ids) != 2 || ids[1].Name != "/lib/l.so" || len(ids[1].BuildID) != 16 {
					t.Errorf("build ids: %+v", ids)
				}
			}
			checkCopy(t, out.Name())
		})
	}
}

// TestWriterKilled stops in the middle: what was flushed can be read, and is
// told to be incomplete.
func TestWriterKilled(t *testing.T) {
	out := newFile(t)
	w, err := NewWriter(out, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	writeSample(t, w)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	f, err := Open(out.Name(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for r := f.Records(); ; n++ {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if bad, ok := rec.(*Bad); ok || err != nil {
			t.Fatalf("%+v, %v", bad, err)
		}
	}
	if n != 9 || !f.Header().Killed || len(f.Damage()) == 0 {
		t.Errorf("%d records, killed %v, damage %v", n, f.Header().Killed, f.Damage())
	}
	checkCopy(t, out.Name())
}

// TestWriterAt begins in the middle of a file.
func TestWriterAt(t *testing.T) {
	out := newFile(t)
	io.WriteString(out, "before")
	w, err := NewWriter(out, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	writeSample(t, w)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	io.WriteString(out, "after")
	b, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	inner := b[6 : len(b)-5]
	if string(b[:6]) != "before" || string(b[len(b)-5:]) != "after" || w.Offset() != int64(len(inner)) {
		t.Fatalf("%d bytes, %d written", len(b), w.Offset())
	}
	f, err := New(bytes.NewReader(inner), int64(len(inner)), "inner", Options{})
	if err != nil || len(f.Damage()) != 0 {
		t.Errorf("%v, %v", err, f.Damage())
	}
}

func TestWriterErrors(t *testing.T) {
	if _, err := NewWriter(io.Discard, WriterOptions{}); err == nil || err.Error() != "io.discard cannot seek: only a pipe can be written to it" {
		t.Errorf("no seeker: %v", err)
	}
	if _, err := NewWriter(io.Discard, WriterOptions{Pipe: true, Magic: "x"}); err == nil || err.Error() != `magic "x": want PERFILE2 or PERFFILE` {
		t.Errorf("magic: %v", err)
	}
	w, err := NewWriter(io.Discard, WriterOptions{Pipe: true})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		r   Record
		err string
	}{
		{&Comm{Meta: Meta{Type: RecordComm}, Name: strings.Repeat("x", 70000)}, "COMM: 70024 bytes, but a record has at most 65535"},
		{&Sample{Meta: Meta{Type: RecordSample}}, "SAMPLE: a sample of no event: writer used out of order"},
		{&Mmap{Meta: Meta{Type: RecordMmap2, Misc: MiscMmapBuildID}, BuildID: sha1ID + "x"}, "MMAP2: a build id of 21 bytes: at most 20 fit"},
	}
	for _, tt := range tests {
		if err := w.Write(tt.r); err == nil || err.Error() != tt.err {
			t.Errorf("%T: error %v, want %s", tt.r, err, tt.err)
		}
	}
	if err := w.Write(&Finished{Meta{Type: RecordFinishedRound}}); err != nil {
		t.Errorf("after records that could not be encoded: %v", err)
	}
}

// everyRecord has a line for every record type, in the words of perftest.
const everyRecord = `
mmap pid=10 tid=11 start=0x400000 len=0x1000 pgoff=0x2000 name=/bin/x time=5 cpu=1
mmap pid=-1 tid=0 start=0xffffffff81000000 len=0x1000 pgoff=0xffffffff81000000 name=[kernel.kallsyms]_text
lost id=7 lost=8 time=6
comm pid=10 tid=10 name=name time=6 misc=0x2000
exit pid=1 ppid=2 tid=3 ptid=4 time=7
fork pid=1 ppid=2 tid=3 ptid=4 time=7 misc=0x2000
throttle time=8 id=100 stream=9
unthrottle time=8 id=100 stream=9
read pid=1 tid=2 read=5/100/1,6/101/2 enabled=7 running=6
mmap2 pid=1 tid=1 start=1 len=2 pgoff=3 maj=8 min=1 ino=9 gen=2 prot=5 flags=2 name=/a
mmap2 pid=1 tid=1 start=1 len=2 pgoff=3 id=0102030405060708 prot=5 flags=2 name=/ab
aux offset=1 len=2 flags=4
itrace_start pid=1 tid=2
lost_samples lost=3
switch misc=0x2000
switch_cpu_wide pid=4 tid=5
namespaces pid=1 tid=1 links=3/4026531993,3/4026531838
ksymbol addr=0xffffffffc0001000 len=64 kind=1 flags=0 name=bpf_prog_0123456789abcdef_x
bpf_event kind=1 flags=0 prog=77 tag=0123456789abcdef
cgroup id=5 name=/system.slice
text_poke addr=0xffffffff81000010 old_len=5 new_len=2 bytes=0f1f440000cccc
aux_output_hw_id id=3
callchain_deferred cookie=1 chain=user,0x400000,0x400100
attr
event_type id=5 name=sched:sched_switch
tracing_data
build_id pid=-1 id=0123456789abcdef0123456789abcdef01234567 name=/bin/x
finished_round
id_index entries=100/0/1/10,101/1/2/11
id_index entries=100/0/1/10 machines=05000000000000000600000000000000
auxtrace_info kind=1 priv=1,2,3
auxtrace offset=5 ref=6 idx=1 tid=2 cpu=3
auxtrace_error kind=1 code=2 cpu=3 pid=4 tid=5 fmt=1 ip=6 time=7 msg=bad cut=8
auxtrace_error kind=1 code=2 cpu=3 pid=4 tid=5 fmt=2 ip=6 time=7 msg=bad machine_pid=8 vcpu=9
thread_map threads=10/x,11/y
cpu_map cpus=0,1,5,6
cpu_map cpus=0xffff,7
stat_config entries=1/2,3/4
stat id=100 cpu=1 thread=2 value=3 enabled=4 running=5
stat_round kind=1 time=2
event_update kind=0 id=100 name=MiB
event_update kind=1 id=100 data=0000000000000000
event_update kind=2 id=100 name=newname
time_conv shift=1 mult=2 zero=3 cycles=4 mask=5 cap_zero=1
header_feature feature=3 data=00
finished_init
bpf_metadata prog=p entries=k/v,k2/v2
schedstat_cpu time=1 cpu=2 version=17 values=0102030405060708
schedstat_domain time=1 cpu=2 version=17 domain=1 values=0102030405060708
raw type=200 misc=5 hex:0102030405060708
`

// TestAppendRecord encodes what was decoded from bytes that perftest made:
// every record type, in both byte orders.
func TestAppendRecord(t *testing.T) {
	header := "event cpu-clock read=TOTAL_TIME_ENABLED|TOTAL_TIME_RUNNING|ID|GROUP|LOST\nevent task-clock config=1 read=TOTAL_TIME_ENABLED|TOTAL_TIME_RUNNING|ID|GROUP|LOST\n"
	for _, l := range strings.Split(strings.TrimSpace(everyRecord), "\n") {
		t.Run(strings.Fields(l)[0], func(t *testing.T) {
			orders(t, func(t *testing.T, big bool) {
				if strings.HasPrefix(l, "event_update kind=1") && big || strings.HasPrefix(l, "id_index") && strings.Contains(l, "machines") && big {
					return // given as bytes
				}
				f := openFixture(t, header+l, big)
				raw, recs := rawRecords(t, f)
				if len(raw) != 1 {
					t.Fatalf("%d records", len(raw))
				}
				if _, ok := recs[0].(*Unknown); ok != strings.HasPrefix(l, "raw") {
					t.Errorf("%T", recs[0])
				}
				got, err := AppendRecord(nil, recs[0], attrOf(f, recs[0]), big)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, raw[0]) {
					t.Errorf("%+v\n got %x\nwant %x", recs[0], got, raw[0])
				}
			})
		})
	}
}

func openFixture(t *testing.T, text string, big bool) *File {
	t.Helper()
	b := perftest.Data(t, perftest.InOrder(text, big))
	f, err := New(bytes.NewReader(b), int64(len(b)), "fixture", Options{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// rawRecords returns the records of f, as bytes and decoded by decoders of
// their own.
func rawRecords(t *testing.T, f *File) (raw [][]byte, recs []Record) {
	t.Helper()
	br := f.Batches(context.Background())
	for {
		b, err := br.Next()
		if errors.Is(err, io.EOF) {
			return raw, recs
		}
		if err != nil {
			t.Fatal(err)
		}
		for data := bytes.Clone(b.Data); len(data) >= 8; {
			_, _, size := RecordHeader(data, f.Header().Big)
			r, err := NewDecoder(f).Decode(data[:size], 0)
			if err != nil {
				t.Fatal(err)
			}
			raw, recs = append(raw, data[:size]), append(recs, r)
			data = data[size:]
		}
		b.Release()
	}
}

// sampleKeys gives each bit of sample_type a value.
var sampleKeys = []string{
	"ip=0x400123", "pid=10 tid=11", "time=1234567", "addr=0x7fff0001", "read=5/100/1 enabled=9 running=8", "chain=kernel,0xffffffff81000001,user,0x400123",
	"evid=100", "cpu=3", "period=4000", "stream=77", "raw=0102030405060708090a0b0c", "branches=0x1>0x2:0x1,0x3>0x4:0xabcd2",
	"abi=2 regs=1,2,3", "stack=90*48", "weight=0x500000007", "data_src=0x68100142", "", "txn=3", "abi=2 iregs=4,5", "phys_addr=0x1000", "aux=0102030405060708",
	"cgroup=42", "data_page=4096", "code_page=2097152", "weight=0x1234",
}

// TestBitMatrix takes every bit of sample_type alone, with the bit before it,
// with the one behind it, and with all others, and every set of bits of
// read_format, in both byte orders: what perftest makes is decoded, and
// encoded to the same bytes.
func TestBitMatrix(t *testing.T) {
	check := func(t *testing.T, st uint64, rf int) {
		t.Helper()
		line := "sample"
		seen := map[string]bool{}
		read := "read=5/100/1"
		if rf&8 != 0 {
			read = "read=5/100/1,6/101/2"
		}
		for bit, keys := range sampleKeys {
			if st>>bit&1 == 0 {
				continue
			}
			for _, kv := range strings.Fields(keys) {
				k, _, _ := strings.Cut(kv, "=")
				if k == "read" {
					kv = read
				}
				if k == "abi" && bit == 18 {
					kv, k = "iabi=2", "iabi"
				}
				if !seen[k] {
					line += " " + kv
					seen[k] = true
				}
			}
		}
		text := fmt.Sprintf("event e sample=%#x read=%d sample_regs_user=7 sample_regs_intr=0x11 sample_stack_user=64 branch_sample_type=0xa0000\n%s\ncomm pid=1 tid=2 name=c time=9 cpu=1 stream=3\n", st, rf, line)
		for _, big := range []bool{false, true} {
			f := openFixture(t, text, big)
			raw, recs := rawRecords(t, f)
			if len(raw) != 2 || len(f.Damage()) != 0 {
				t.Fatalf("%d records, damage %v, of\n%s", len(raw), f.Damage(), text)
			}
			for i, r := range recs {
				got, err := AppendRecord(nil, r, &f.Events()[0].Attr, big)
				if err != nil || !bytes.Equal(got, raw[i]) {
					t.Fatalf("big %v: %v\n%+v\n got %x\nwant %x\nof\n%s", big, err, r, got, raw[i], text)
				}
			}
			checkSample(t, recs[0].(*Sample), st, rf)
			var out bytes.Buffer
			if err := copyFile(&out, f); err != nil || !bytes.Equal(out.Bytes(), perftest.Data(t, perftest.InOrder(text, big))) {
				t.Fatalf("copy: %v", err)
			}
		}
	}
	const all = 1<<25 - 1
	for bit := range 25 {
		for _, st := range []uint64{1 << bit, 3 << bit & all, 1 << bit >> 1 * 3, all &^ (1 << bit)} {
			check(t, st, 0)
		}
	}
	for rf := range 32 {
		check(t, 1<<4, rf)
		check(t, 1<<4|1<<0|1<<5|1<<16, rf)
	}
}

// checkSample holds a decoded sample against what the fixture said.
func checkSample(t *testing.T, s *Sample, st uint64, rf int) {
	t.Helper()
	has := func(bit int) bool { return st>>bit&1 != 0 }
	eq := func(bit int, name string, got, want any) {
		t.Helper()
		if has(bit) && !reflect.DeepEqual(got, want) {
			t.Errorf("sample_type %#x: %s is %v, want %v", st, name, got, want)
		}
	}
	eq(0, "ip", s.IP, uint64(0x400123))
	eq(1, "pid", [2]int32{s.PID, s.TID}, [2]int32{10, 11})
	eq(2, "time", s.Time, uint64(1234567))
	eq(3, "addr", s.Addr, uint64(0x7fff0001))
	eq(5, "callchain", s.Callchain, []uint64{ContextKernel, 0xffffffff81000001, ContextUser, 0x400123})
	eq(6, "id", s.ID, uint64(100))
	eq(7, "cpu", s.CPU, int32(3))
	eq(8, "period", s.Period, uint64(4000))
	eq(9, "stream", s.StreamID, uint64(77))
	eq(10, "raw", s.Raw, []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
	eq(11, "branches", s.Branches, []Branch{{1, 2, 1}, {3, 4, 0xabcd2}})
	eq(12, "regs", s.UserRegs, []uint64{1, 2, 3})
	eq(13, "stack", s.UserStack, bytes.Repeat([]byte{0x90}, 48))
	eq(15, "data_src", s.DataSrc, uint64(0x68100142))
	eq(16, "identifier", s.ID, uint64(100))
	eq(17, "txn", s.Txn, uint64(3))
	eq(18, "iregs", s.IntrRegs, []uint64{4, 5})
	eq(19, "phys_addr", s.PhysAddr, uint64(0x1000))
	eq(20, "aux", s.Aux, []byte{1, 2, 3, 4, 5, 6, 7, 8})
	eq(21, "cgroup", s.CgroupID, uint64(42))
	eq(22, "data_page", s.DataPage, uint64(4096))
	eq(23, "code_page", s.CodePage, uint64(2097152))
	if has(14) {
		eq(14, "weight", s.Weight, uint64(0x500000007))
	} else {
		eq(24, "weight", s.Weight, uint64(0x1234))
	}
	if !has(4) {
		return
	}
	want := []ReadValue{{Value: 5}}
	if rf&8 != 0 {
		want = append(want, ReadValue{Value: 6})
	}
	for i := range want {
		if rf&4 != 0 {
			want[i].ID = uint64(100 + i)
		}
		if rf&16 != 0 {
			want[i].Lost = uint64(1 + i)
		}
	}
	eq(4, "read", s.Read, want)
	var times [2]uint64
	if rf&1 != 0 {
		times[0] = 9
	}
	if rf&2 != 0 {
		times[1] = 8
	}
	eq(4, "read times", s.ReadTimes, times)
}

// TestCopyPerf records with the real perf, to files and pipes, and writes
// that anew.
func TestCopyPerf(t *testing.T) {
	for _, args := range [][]string{
		{"-e", "cpu-clock", "--", "true"},
		{"-e", "cpu-clock", "-g", "-a", "--", "sleep", "0.05"},
		{"-e", "{cpu-clock,task-clock}:S", "--call-graph", "dwarf,1024", "-z", "--", "true"},
		{"-e", "cpu-clock", "--buildid-mmap", "--all-cgroups", "--namespaces", "-k", "mono", "--", "true"},
	} {
		checkCopy(t, perftest.Record(t, args...))
	}
	r := perftest.Perf(t, "record", "-o", "-", "-e", "cpu-clock", "--", "true")
	name := filepath.Join(t.TempDir(), "pipe.data")
	if err := os.WriteFile(name, []byte(r.Stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	checkCopy(t, name)
}

// TestCopyFixtures writes odd but well-formed layouts anew.
func TestCopyFixtures(t *testing.T) {
	for _, text := range []string{
		"file attrs=after", "file data_offset=4096", "file spare=3", "file word32", "file attr_size=160", "file attr_size=80", "file header_size=72",
		"file magic=PERFFILE", "file pipe", "file pipe magic=PERFFILE", "file killed",
		"file attr_size=184\nevent a tail=0102*23",
	} {
		orders(t, func(t *testing.T, big bool) {
			if !strings.Contains(text, "event") {
				text += "\nevent a"
			}
			text := text + " read=GROUP|ID|LOST" + everyRecord
			b := perftest.Data(t, perftest.InOrder(text+"feature hostname h\nfeature 40 u32:1\nfeature 200 text:unknown\n", big))
			f, err := New(bytes.NewReader(b), int64(len(b)), "fixture", Options{})
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			var out bytes.Buffer
			if err := copyFile(&out, f); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if i := differ(out.Bytes(), b); i >= 0 {
				t.Errorf("%s: they differ at %#x", text, i)
			}
		})
	}
}

// FuzzAppendRecord decodes a record, encodes it, and decodes that: the same
// record, and no panic on the way.
func FuzzAppendRecord(f *testing.F) {
	const header = "event a sample=0x1ffffff read=0x1f sample_regs_user=7 sample_regs_intr=3 branch_sample_type=0xa0000\n"
	open := func(f testing.TB, big bool, lines string) *File {
		b := perftest.Data(f, perftest.InOrder(header+lines, big))
		file, err := New(bytes.NewReader(b), int64(len(b)), "fixture", Options{})
		if err != nil {
			f.Fatal(err)
		}
		return file
	}
	for _, big := range []bool{false, true} {
		br := open(f, big, everyRecord).Batches(context.Background())
		b, err := br.Next()
		if err != nil {
			f.Fatal(err)
		}
		for data := b.Data; len(data) >= 8; {
			_, _, size := RecordHeader(data, big)
			f.Add(bytes.Clone(data[:size]), big)
			data = data[size:]
		}
	}
	files := map[bool]*File{false: open(f, false, ""), true: open(f, true, "")}
	f.Fuzz(func(t *testing.T, b []byte, big bool) {
		if len(b) < 8 || len(b) > 1<<16-1 {
			return
		}
		file := files[big]
		d := NewDecoder(file)
		r, err := d.Decode(b, 0)
		if err != nil {
			return
		}
		enc, err := AppendRecord(nil, r, &file.Events()[0].Attr, big)
		if err != nil {
			return // does not fit: the padding of a name, say
		}
		again, err := NewDecoder(file).Decode(enc, 0)
		if err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		enc2, err := AppendRecord(nil, again, &file.Events()[0].Attr, big)
		if err != nil || !bytes.Equal(enc, enc2) {
			t.Fatalf("%v\n%x\n%x", err, enc, enc2)
		}
	})
}
