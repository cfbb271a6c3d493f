package perfdata

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/internal/perftest"
)

// open opens a recording in memory.
func open(t testing.TB, b []byte, o Options) *File {
	t.Helper()
	f, err := New(bytes.NewReader(b), int64(len(b)), "perf.data", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// text returns a record as text, without what only says where it is.
func text(r Record) string {
	v := reflect.ValueOf(r).Elem()
	m := r.Head()
	s := fmt.Sprintf("%v misc=%#x", m.Type, m.Misc)
	if m.SampleID != (SampleID{PID: -1, TID: -1, CPU: -1}) {
		s += fmt.Sprintf(" id=%+v", m.SampleID)
	}
	for i := range v.NumField() {
		name, x := v.Type().Field(i).Name, v.Field(i)
		if name == "Meta" || name == "DataOffset" || x.IsZero() || x.Kind() == reflect.Slice && x.Len() == 0 {
			continue
		}
		if id, ok := x.Interface().(buildid.ID); ok {
			s += fmt.Sprintf(" %s=%s", name, id.String())
			continue
		}
		switch x.Interface().(type) {
		case string:
			s += fmt.Sprintf(" %s=%q", name, x)
		case []byte, [8]byte:
			s += fmt.Sprintf(" %s=%x", name, x)
		default:
			s += fmt.Sprintf(" %s=%+v", name, x)
		}
	}
	return s
}

// texts returns all records as text.
func texts(t testing.TB, f *File) []string {
	t.Helper()
	var list []string
	readAll(t, f, func(r Record) { list = append(list, text(r)) })
	return list
}

// TestMmapBuildID: the bit in misc that says "build id" is on records that hold a
// device and an inode, if another recording asked for build ids. P13: an id of
// 255 bytes is none.
func TestMmapBuildID(t *testing.T) {
	tests := []struct{ in, id string }{
		{"mmap2 id=0123456789abcdef0123456789abcdef01234567", "0123456789abcdef0123456789abcdef01234567"},
		{"mmap2 id=0123456789abcdef", "0123456789abcdef"},
		{"mmap2 id=ab*20 idsize=255", ""},
		{"mmap2 misc=0x4002 maj=254 min=0 ino=10010699 gen=2842516526", ""},
		{"mmap2 misc=0x4002 maj=8 min=1 ino=10010699 gen=0", ""},
		{"mmap2 misc=0x4002 maj=0 min=37 ino=77 gen=0", ""},
	}
	for _, tt := range tests {
		perftest.Orders(t, tt.in, func(t *testing.T, data []byte) {
			f, err := New(bytes.NewReader(data), int64(len(data)), "x", Options{})
			if err != nil {
				t.Fatal(err)
			}
			readAll(t, f, func(r Record) {
				m, ok := r.(*Mmap)
				if ok && (m.BuildID.String() != tt.id || m.BuildID == "" && m.Ino == 0) {
					t.Errorf("%s: id %s, inode %d, want id %q", tt.in, m.BuildID, m.Ino, tt.id)
				}
			})
		})
	}
}

// TestDecode decodes a record of every type, in both byte orders.
func TestDecode(t *testing.T) {
	const trailer = " id={PID:10 TID:11 Time:5 ID:100 StreamID:0 CPU:3}"
	tests := []struct{ in, want string }{
		{"mmap pid=10 tid=11 start=0x1000 len=0x2000 pgoff=0x3000 name=/bin/x misc=0x2002 time=5 cpu=3",
			"MMAP misc=0x2002" + trailer + ` MapPID=10 MapTID=11 Start=4096 Len=8192 Pgoff=12288 Name="/bin/x"`},
		{"mmap pid=-1 tid=0 start=0xffffffff81000000 len=1 pgoff=0xffffffff81000000 name=[kernel.kallsyms]_text spid=10 stid=11 time=5 cpu=3",
			"MMAP misc=0x1" + trailer + ` MapPID=-1 Start=18446744071578845184 Len=1 Pgoff=18446744071578845184 Name="[kernel.kallsyms]_text"`},
		{"mmap2 pid=10 tid=11 start=1 len=2 pgoff=3 maj=8 min=1 ino=77 gen=6 prot=5 flags=2 name=/b time=5 cpu=3",
			"MMAP2 misc=0x2" + trailer + ` MapPID=10 MapTID=11 Start=1 Len=2 Pgoff=3 Maj=8 Min=1 Ino=77 InoGen=6 Prot=5 Flags=2 Name="/b"`},
		{"mmap2 pid=10 tid=11 id=0123456789abcdef prot=5 name=/b time=5 cpu=3",
			"MMAP2 misc=0x4002" + trailer + ` MapPID=10 MapTID=11 BuildID=0123456789abcdef Prot=5 Name="/b"`},
		{"mmap2 pid=10 tid=11 id=00*20 prot=5 time=5 cpu=3", // an id of zeros is none
			"MMAP2 misc=0x4002" + trailer + ` MapPID=10 MapTID=11 Prot=5`},
		{"lost id=7 lost=8 spid=10 stid=11 time=5 cpu=3", "LOST misc=0x0" + trailer + " LostID=7 Count=8"},
		{"comm pid=10 tid=11 name=sh misc=0x2000 time=5 cpu=3", "COMM misc=0x2000" + trailer + ` CommPID=10 CommTID=11 Name="sh"`},
		{"fork pid=10 ppid=1 tid=11 ptid=2 time=9 at=5 cpu=3", "FORK misc=0x0" + trailer + " ForkPID=10 ParentPID=1 ForkTID=11 ParentTID=2 ForkTime=9"},
		{"exit pid=10 ppid=1 tid=11 ptid=2 time=9 at=5 cpu=3", "EXIT misc=0x0" + trailer + " ForkPID=10 ParentPID=1 ForkTID=11 ParentTID=2 ForkTime=9"},
		{"throttle time=9 id=7 stream=6 spid=10 stid=11 at=5 cpu=3", "THROTTLE misc=0x0" + trailer + " ThrottleTime=9 EventID=7 EventStream=6"},
		{"unthrottle time=9 id=7 stream=6 spid=10 stid=11 at=5 cpu=3", "UNTHROTTLE misc=0x0" + trailer + " ThrottleTime=9 EventID=7 EventStream=6"},
		{"read pid=10 tid=11 read=5 time=5 cpu=3", "READ misc=0x0" + trailer + " TaskPID=10 TaskTID=11 Values=[{Value:5 ID:0 Lost:0}]"},
		{"aux offset=1 len=2 flags=4 spid=10 stid=11 time=5 cpu=3", "AUX misc=0x0" + trailer + " AuxOffset=1 AuxSize=2 Flags=4"},
		{"itrace_start pid=10 tid=11 time=5 cpu=3", "ITRACE_START misc=0x0" + trailer + " TaskPID=10 TaskTID=11"},
		{"lost_samples lost=4 spid=10 stid=11 time=5 cpu=3", "LOST_SAMPLES misc=0x0" + trailer + " Count=4"},
		{"switch misc=0x2000 spid=10 stid=11 time=5 cpu=3", "SWITCH misc=0x2000" + trailer + " OtherPID=-1 OtherTID=-1"},
		{"switch_cpu_wide pid=4 tid=5 spid=10 stid=11 time=5 cpu=3", "SWITCH_CPU_WIDE misc=0x0" + trailer + " OtherPID=4 OtherTID=5"},
		{"namespaces pid=10 tid=11 links=3/4,5/6 time=5 cpu=3", "NAMESPACES misc=0x0" + trailer + " TaskPID=10 TaskTID=11 Links=[{Dev:3 Ino:4} {Dev:5 Ino:6}]"},
		{"ksymbol addr=0xffffffffc0000000 len=9 kind=1 flags=1 name=bpf_prog_x spid=10 stid=11 time=5 cpu=3",
			"KSYMBOL misc=0x0" + trailer + ` Addr=18446744072635809792 Len=9 Kind=1 Flags=1 Name="bpf_prog_x"`},
		{"bpf_event kind=1 flags=2 prog=3 tag=0102030405060708 spid=10 stid=11 time=5 cpu=3",
			"BPF_EVENT misc=0x0" + trailer + " Kind=1 Flags=2 ProgID=3 Tag=0102030405060708"},
		{"cgroup id=7 name=/a/b spid=10 stid=11 time=5 cpu=3", "CGROUP misc=0x0" + trailer + ` CgroupID=7 Path="/a/b"`},
		{"text_poke addr=1 old_len=2 new_len=3 bytes=0102030405 spid=10 stid=11 time=5 cpu=3",
			"TEXT_POKE misc=0x0" + trailer + " Addr=1 Old=0102 New=030405"},
		{"aux_output_hw_id id=9 spid=10 stid=11 time=5 cpu=3", "AUX_OUTPUT_HW_ID misc=0x0" + trailer + " HWID=9"},
		{"callchain_deferred cookie=4 chain=1,2,3 spid=10 stid=11 time=5 cpu=3", "CALLCHAIN_DEFERRED misc=0x0" + trailer + " Cookie=4 Callchain=[1 2 3]"},

		{"event_type id=3 name=cycles", `EVENT_TYPE misc=0x0 EventID=3 Name="cycles"`},
		{"tracing_data data=0102030405", "TRACING_DATA misc=0x0 Len=5"},
		{"build_id pid=-1 id=0123456789abcdef0123456789abcdef01234567 name=/bin/x",
			`BUILD_ID misc=0x8002 MachinePID=-1 BuildID=0123456789abcdef0123456789abcdef01234567 Name="/bin/x"`},
		{"build_id pid=5 id=0123456789abcdef mode=guest_kernel name=[guest.kernel.kallsyms]",
			`BUILD_ID misc=0x8004 MachinePID=5 BuildID=0123456789abcdef Name="[guest.kernel.kallsyms]"`},
		{"finished_round", "FINISHED_ROUND misc=0x0"},
		{"finished_init", "FINISHED_INIT misc=0x0"},
		{"id_index entries=100/0/1/-1,101/1/-1/22", "ID_INDEX misc=0x0 Entries=[{ID:100 Index:0 CPU:1 TID:-1 MachinePID:0 VCPU:-1} {ID:101 Index:1 CPU:-1 TID:22 MachinePID:0 VCPU:-1}]"},
		{"auxtrace_info kind=3 priv=7,8", "AUXTRACE_INFO misc=0x0 Kind=3 Priv=[7 8]"},
		{"auxtrace offset=4 ref=5 idx=6 tid=7 cpu=8 data=ff*24", "AUXTRACE misc=0x0 Len=24 AuxOffset=4 Reference=5 Index=6 TaskTID=7 AuxCPU=8"},
		{"auxtrace_error kind=1 code=5 cpu=2 pid=3 tid=4 fmt=2 ip=6 time=7 msg=lost machine_pid=8 vcpu=1",
			`AUXTRACE_ERROR misc=0x0 Kind=1 Code=5 ErrCPU=2 TaskPID=3 TaskTID=4 IP=6 ErrTime=7 Message="lost" MachinePID=8 VCPU=1`},
		{"raw type=72 u32:1 u32:5 u32:2 u32:3 u32:4 u32:0 u64:6 cstr:old pad:8", `AUXTRACE_ERROR misc=0x0 Kind=1 Code=5 ErrCPU=2 TaskPID=3 TaskTID=4 IP=6 Message="old" VCPU=-1`},
		{"thread_map threads=10/sh,11/a", "THREAD_MAP misc=0x0 Threads=[{PID:10 Comm:sh} {PID:11 Comm:a}]"},
		{"cpu_map cpus=0,3,0xffff", "CPU_MAP misc=0x0 CPUMap={Any:true CPUs:[0 3]}"},
		{"raw type=74 u16:1 u16:2 u16:8 u32:0 u64:5 u64:1 pad:8", "CPU_MAP misc=0x0 CPUMap={Any:false CPUs:[0 2 64]}"},
		{"raw type=74 u16:1 u16:2 u16:4 u32:5 u32:1 pad:8", "CPU_MAP misc=0x0 CPUMap={Any:false CPUs:[0 2 32]}"},
		{"raw type=74 u16:2 u8:1 u8:0 u16:4 u16:6", "CPU_MAP misc=0x0 CPUMap={Any:true CPUs:[4 5 6]}"},
		{"stat_config entries=1/2,3/4", "STAT_CONFIG misc=0x0 Entries=[[1 2] [3 4]]"},
		{"stat id=1 cpu=2 thread=3 value=4 enabled=5 running=6", "STAT misc=0x0 EventID=1 StatCPU=2 Thread=3 Value=4 Enabled=5 Running=6"},
		{"stat_round kind=1 time=9", "STAT_ROUND misc=0x0 Kind=1 RoundTime=9"},
		{"raw type=78 u64:2 u64:100 cstr:cycles:u pad:8", `EVENT_UPDATE misc=0x0 Kind=2 EventID=100 Text="cycles:u"`},
		{"raw type=78 u64:0 u64:100 cstr:Joules pad:8", `EVENT_UPDATE misc=0x0 EventID=100 Text="Joules"`},
		{"raw type=78 u64:1 u64:100 u64:0x3fe0000000000000", `EVENT_UPDATE misc=0x0 Kind=1 EventID=100 Scale=0.5`},
		{"raw type=78 u64:3 u64:100 u16:0 u16:1 u16:7 pad:8", `EVENT_UPDATE misc=0x0 Kind=3 EventID=100 CPUs={Any:false CPUs:[7]}`},
		{"time_conv shift=1 mult=2 zero=3 cycles=4 mask=5 cap_zero=1 cap_short=1", "TIME_CONV misc=0x0 Shift=1 Mult=2 Zero=3 Cycles=4 Mask=5 CapZero=true CapShort=true"},
		{"raw type=79 u64:1 u64:2 u64:3", "TIME_CONV misc=0x0 Shift=1 Mult=2 Zero=3"},
		{"raw type=80 u64:3 text:box", "FEATURE misc=0x0 Feature=3 Data=626f78"},
		{"bpf_metadata prog=p entries=a/b", "BPF_METADATA misc=0x0 Program=\"p\" Entries=[[a b]]"},
		{"schedstat_cpu time=1 cpu=2 version=15 values=0102", "SCHEDSTAT_CPU misc=0x0 Timestamp=1 StatCPU=2 Version=15 Values=0102000000000000"},
		{"schedstat_domain time=1 cpu=2 version=15 domain=1", "SCHEDSTAT_DOMAIN misc=0x0 Timestamp=1 StatCPU=2 Version=15 Domain=1"},
		{"attr", "ATTR misc=0x0 Attr={Type:1 Size:144 Config:0 SamplePeriod:1 SampleType:65927 ReadFormat:0 Flags:262144 WakeupEvents:0 BPType:0 Config1:0 Config2:0 BranchSampleType:0 SampleRegsUser:0 SampleStackUser:0 ClockID:0 SampleRegsIntr:0 AuxWatermark:0 SampleMaxStack:0 Reserved2:0 AuxSampleSize:0 AuxAction:0 SigData:0 Config3:0 Config4:0 Tail:[]} IDs=[100]"},
		{"raw type=200 u64:1", "UNKNOWN(200) misc=0x0 Body=0100000000000000"}, // P07
		{"raw type=40 u64:1", "UNKNOWN(40) misc=0x0 Body=0100000000000000"},
		{"sample ip=1 pid=10 tid=11 time=5 cpu=3 period=9", "SAMPLE misc=0x2" + trailer + " IP=1 Period=9"},
	}
	for _, tt := range tests {
		perftest.Orders(t, "file attr_size=160\nevent cpu-clock\n"+tt.in+"\ncomm pid=1 tid=2 name=last time=6", func(t *testing.T, b []byte) {
			f := open(t, b, Options{})
			got := texts(t, f)
			want := tt.want
			if f.Header().Big {
				for from, to := range map[string]string{
					"Body=0100000000000000": "Body=0000000000000001",
				} {
					want = strings.ReplaceAll(want, from, to)
				}
			}
			if len(got) != 2 || got[0] != want || !strings.Contains(got[1], `"last"`) {
				t.Errorf("%s\n got %q\nwant %q", tt.in, got, want)
			}
			if d := f.Damage(); len(d) > 0 {
				t.Errorf("%s: damage %v", tt.in, d)
			}
		})
	}
}

// TestDecodeErrors cuts every record short and asks for the exact message;
// what follows is read.
func TestDecodeErrors(t *testing.T) {
	tests := []struct{ in, err string }{
		{"raw type=10 u32:1 u32:2 u64:3 u64:4 hex:00*32", "mmap2.pgoff: 8 bytes wanted, but only 0 follow"},
		{"raw type=10 u32:1 u32:2 u64:3 u64:4 u64:5 u64:6 hex:00*32", "mmap2.ino: 8 bytes wanted, but only 0 follow"},
		{"raw type=1 u32:1 u32:2", "sample_id: 32 bytes wanted, but only 8 follow"},
		{"namespaces pid=1 tid=2 nr=1152921504606846976 links=1/2", "namespaces.nr: count 1152921504606846976, but only 16 bytes follow"},
		{"callchain_deferred nr=99 chain=1", "callchain_deferred.nr: count 99, but only 8 bytes follow"},
		{"text_poke old_len=9 new_len=90 bytes=00*8", "text_poke.new: 90 bytes wanted, but only 3 follow"},    // P23
		{"thread_map nr=4294967295 threads=1/a", "thread_map.nr: count 4294967295, but only 24 bytes follow"}, // P24
		{"cpu_map nr=65535 cpus=1", "cpu_map.nr: count 65535, but only 4 bytes follow"},
		{"raw type=74 u16:9 u16:1 u32:0", "cpu_map.type: is 9, but must be 0, 1 or 2"},
		{"raw type=74 u16:1 u16:1 u16:3 u16:0", "cpu_map.long_size: is 3, but must be 4 or 8"},
		{"raw type=74 u16:1 u16:65535 u16:4 u16:0 u64:1", "cpu_map.nr: count 65535, but only 10 bytes follow"},
		{"stat_config nr=72057594037927936 entries=1/2", "stat_config.nr: count 72057594037927936, but only 16 bytes follow"}, // P25
		{"id_index nr=3 entries=1/2/3/4", "id_index.nr: count 3, but only 32 bytes follow"},
		{"raw type=79 u64:1", "time_conv.time_mult: 8 bytes wanted, but only 0 follow"}, // P24
		{"raw type=64 u32:1 u32:9 hex:00*64", "attr.size: is 9, but must be between 64 and the 72 that follow"},
		{"raw type=64 u32:1 u32:64", "attr: 64 bytes wanted, but only 8 follow"},
		{"raw type=84 hex:00*16 u64:3 hex:00*320", "bpf_metadata.nr_entries: count 3, but only 320 bytes follow"},
		{"raw type=83 u64:99 u64:0", "compressed2.data_size: count 99, but only 8 bytes follow"},
		{"raw type=80", "feature.feat_id: 8 bytes wanted, but only 0 follow"},
		{"raw type=78 u64:2", "event_update.id: 8 bytes wanted, but only 0 follow"},
		{"raw type=9 u64:100 u64:1", "sample.tid: 8 bytes wanted, but only 0 follow"},
		{"raw type=9 hex:00*4 hex:00*4", "sample.ip: 8 bytes wanted, but only 0 follow"},
	}
	for _, tt := range tests {
		perftest.Orders(t, tt.in+"\ncomm pid=1 tid=2 name=last time=6", func(t *testing.T, b []byte) {
			f := open(t, b, Options{})
			var got []string
			var bad *Bad
			readAll(t, f, func(r Record) {
				if b, ok := r.(*Bad); ok {
					bad = b
					return
				}
				got = append(got, text(r))
			})
			if len(got) == 0 || !strings.Contains(got[len(got)-1], `"last"`) {
				t.Errorf("%s: read %q, not the last", tt.in, got)
			}
			d := f.Damage()
			if len(d) == 0 || d[0].What != tt.err {
				t.Errorf("%s: damage %q\nwant %q", tt.in, d, tt.err)
			}
			var e *decode.Error
			if bad == nil || !errors.As(bad.Err, &e) {
				t.Errorf("%s: no *Bad with a *decode.Error", tt.in)
			}
		})
	}
}

// sampleBit is a bit of sample_type with the text that sets its field and the
// text of the field.
var sampleBits = []struct {
	name, in, want string
}{
	{"IP", "ip=0x401000", " IP=4198400"},
	{"ADDR", "addr=4660", " Addr=4660"},
	{"READ", "read=5/7/9,6/8/1 enabled=100 running=90", " Read=[{Value:5 ID:7 Lost:9} {Value:6 ID:8 Lost:1}] ReadTimes=[100 90]"},
	{"CALLCHAIN", "chain=user,0x401000,2", " Callchain=[18446744073709551104 4198400 2]"},
	{"RAW", "raw=0102", " Raw=01020000"},
	{"BRANCH_STACK", "branches=1>2:0x1,3>4:0xa21 hw_idx=6 counters=8,9", " Branches=[{From:1 To:2 Flags:1} {From:3 To:4 Flags:2593}] BranchIdx=6 BranchCntr=[8 9]"},
	{"REGS_USER", "regs=11,12", " UserABI=2 UserRegs=[11 12]"},
	{"STACK_USER", "stack=0102030405060708+ff*8 dyn=9", " UserStack=0102030405060708ff"},
	{"WEIGHT", "weight=13", " Weight=13"},
	{"DATA_SRC", "data_src=14", " DataSrc=14"},
	{"TRANSACTION", "txn=15", " Txn=15"},
	{"REGS_INTR", "iregs=16", " IntrABI=2 IntrRegs=[16]"},
	{"PHYS_ADDR", "phys_addr=17", " PhysAddr=17"},
	{"CGROUP", "cgroup=18", " CgroupID=18"},
	{"DATA_PAGE_SIZE", "data_page=4096", " DataPage=4096"},
	{"CODE_PAGE_SIZE", "code_page=2097152", " CodePage=2097152"},
	{"AUX", "aux=0102030405060708", " Aux=0102030405060708"},
	{"WEIGHT_STRUCT", "weight=0x1000200000003", " Weight=281483566645251"},
}

// fieldOrder is that of the fields of Sample.
var fieldOrder = []string{"IP", "Addr", "Period", "Read", "ReadTimes", "Callchain", "Raw", "Branches", "BranchIdx",
	"UserABI", "UserRegs", "UserStack", "IntrABI", "IntrRegs", "Weight", "DataSrc", "Txn", "PhysAddr", "CgroupID", "DataPage", "CodePage", "Aux", "BranchCntr"}

// sampleWant puts the texts of fields into the order of Sample's.
func sampleWant(fields string) string {
	var list []string
	at := strings.Split(fields, " ")
	for _, w := range at {
		if name, _, ok := strings.Cut(w, "="); ok && slices.Contains(fieldOrder, name) {
			list = append(list, w)
		} else if len(list) > 0 {
			list[len(list)-1] += " " + w
		}
	}
	slices.SortStableFunc(list, func(a, b string) int {
		na, _, _ := strings.Cut(a, "=")
		nb, _, _ := strings.Cut(b, "=")
		return slices.Index(fieldOrder, na) - slices.Index(fieldOrder, nb)
	})
	return strings.Join(list, " ")
}

// TestSampleBits decodes each bit of sample_type alone, with its neighbour,
// and all at once, with every place the id can stand at.
func TestSampleBits(t *testing.T) {
	const event = "event e read=TOTAL_TIME_ENABLED|TOTAL_TIME_RUNNING|ID|GROUP|LOST sample_regs_user=3 sample_regs_intr=1 branch_sample_type=0xa0000 sample_period=7 sample="
	check := func(bits []int, base string) {
		names, in, want := base, "sample pid=10 tid=11 time=5 stream=4 cpu=3", ""
		for _, i := range bits {
			b := sampleBits[i]
			names += "|" + b.name
			in += " " + b.in
			want += b.want
		}
		perftest.Orders(t, event+names+"\n"+in, func(t *testing.T, data []byte) {
			f := open(t, data, Options{})
			got := texts(t, f)
			if len(got) != 1 || len(f.Damage()) > 0 {
				t.Fatalf("%s: %q, damage %q", names, got, f.Damage())
			}
			fields, _ := strings.CutPrefix(got[0][strings.Index(got[0], "} ")+2:], " ")
			if before, after, ok := strings.Cut(fields, " StackAt="); ok {
				rec, err := f.Records().Next()
				if err != nil {
					t.Fatal(err)
				}
				s := rec.(*Sample)
				if !bytes.HasPrefix(data[s.Offset+int64(s.StackAt):], s.UserStack) {
					t.Errorf("%s: the stack is not at %d", names, s.StackAt)
				}
				fields = before + strings.TrimLeft(after, "0123456789")
			}
			if w := sampleWant(want + " Period=7"); fields != w {
				t.Errorf("%s\n got %s\nwant %s", names, fields, w)
			}
			id := "{PID:10 TID:11 Time:5 ID:100 StreamID:4 CPU:3}"
			if !strings.HasPrefix(base, "ID|") {
				id = strings.Replace(id, "ID:100", "ID:0", 1)
			}
			if !strings.Contains(got[0], "id="+id) {
				t.Errorf("%s: %s, want id=%s", names, got[0], id)
			}
		})
	}
	// All but WEIGHT_STRUCT, which takes WEIGHT's place.
	var all []int
	for i := range sampleBits {
		if sampleBits[i].name != "WEIGHT_STRUCT" {
			all = append(all, i)
		}
	}
	for _, base := range []string{"ID|TID|TIME|STREAM_ID|CPU", "TID|TIME|STREAM_ID|CPU"} {
		for i := range sampleBits {
			check([]int{i}, base)
			if i+1 < len(all) {
				check(all[i:i+2], base)
			}
		}
		check(all, base)
	}
}

// TestSampleDefaults checks what a sample has whose event records nothing of
// it.
func TestSampleDefaults(t *testing.T) {
	perftest.Orders(t, "event e sample=IP sample_period=0\nsample ip=5", func(t *testing.T, b []byte) {
		f := open(t, b, Options{})
		r, err := f.Records().Next()
		if err != nil {
			t.Fatal(err)
		}
		s := r.(*Sample)
		if s.PID != -1 || s.TID != -1 || s.CPU != -1 || s.Period != 1 || s.Event != 0 || s.Time != 0 || s.IP != 5 {
			t.Errorf("got %+v", s)
		}
	})
}

// TestReadFormat decodes every read_format, alone and as a group.
func TestReadFormat(t *testing.T) {
	for f := range ReadFormat(32) {
		text := fmt.Sprintf("event e sample=READ|TIME read=%d\nsample read=5/7/9,6/8/1 enabled=100 running=90 time=3", f)
		if f&ReadGroup == 0 {
			text = strings.Replace(text, ",6/8/1", "", 1)
		}
		perftest.Orders(t, text, func(t *testing.T, b []byte) {
			file := open(t, b, Options{})
			r, err := file.Records().Next()
			if err != nil {
				t.Fatal(err)
			}
			s, ok := r.(*Sample)
			if !ok {
				t.Fatalf("read_format %#x: %v", f, file.Damage())
			}
			want := []ReadValue{{5, 7, 9}, {6, 8, 1}}
			if f&ReadGroup == 0 {
				want = want[:1]
			}
			times := [2]uint64{100, 90}
			for i := range want {
				if f&ReadID == 0 {
					want[i].ID = 0
				}
				if f&ReadLost == 0 {
					want[i].Lost = 0
				}
			}
			if f&ReadEnabled == 0 {
				times[0] = 0
			}
			if f&ReadRunning == 0 {
				times[1] = 0
			}
			if !slices.Equal(s.Read, want) || s.ReadTimes != times || s.Time != 3 || len(file.Damage()) > 0 {
				t.Errorf("read_format %#x: %v %v, want %v %v, damage %v", f, s.Read, s.ReadTimes, want, times, file.Damage())
			}
		})
	}
}

// TestSampleErrors: recipes P8 to P10 of the threats, with the exact message.
func TestSampleErrors(t *testing.T) {
	tests := []struct{ in, err string }{
		{"event e sample=0x1ffffff\nraw type=9 u64:1", "sample.ip: 8 bytes wanted, but only 0 follow"},
		{"event e sample=IP|CALLCHAIN\nsample ip=1 chain=1,2 chain_nr=2305843009213693952", "sample.callchain.nr: count 2305843009213693952, but only 16 bytes follow"},
		{"event e sample=IP|CALLCHAIN\nsample ip=1 chain=1,2 chain_nr=3", "sample.callchain.nr: count 3, but only 16 bytes follow"},
		{"event e sample=IP|CALLCHAIN\nraw type=9 u64:1", "sample.callchain.nr: 8 bytes wanted, but only 0 follow"},
		{"event e sample=IP|READ read=GROUP|ID\nraw type=9 u64:1 u64:0x100000000000000 u64:1 u64:1", "read.nr: count 72057594037927936, but only 16 bytes follow"},
		{"event e sample=IP|READ read=GROUP|ID\nraw type=9 u64:1 u64:2 u64:1 u64:1", "read.value: 8 bytes wanted, but only 0 follow"},
		{"event e sample=IP|BRANCH_STACK\nraw type=9 u64:1 u64:0xffffffffffffffff u64:0", "sample.branch_stack.nr: count 18446744073709551615, but only 8 bytes follow"},
		{"event e sample=IP|REGS_USER sample_regs_user=-1\nraw type=9 u64:1 u64:2 u64:0", "sample.regs_user: 512 bytes wanted, but only 8 follow"},
		{"event e sample=IP|REGS_INTR sample_regs_intr=-1\nraw type=9 u64:1 u64:2 u64:0", "sample.regs_intr: 512 bytes wanted, but only 8 follow"},
		{"event e sample=IP|STACK_USER\nsample ip=1 stack=00*8 stack_size=4096", "sample.stack_user.size: count 4096, but only 16 bytes follow"},
		{"event e sample=IP|STACK_USER\nsample ip=1 stack=00*8 dyn=9", "sample.stack_user.dyn_size: is 9, but the dump has 8 bytes"},
		{"event e sample=IP|RAW\nsample ip=1 raw=00*4 raw_size=4294967295", "sample.raw.size: count 4294967295, but only 4 bytes follow"},
		{"event e sample=IP|AUX\nsample ip=1 aux=00*8 aux_size=9223372036854775807", "sample.aux.size: count 9223372036854775807, but only 8 bytes follow"},
		{"event e sample=IP\nraw type=9 u64:1 u64:2 u64:3", "sample: 16 bytes belong to no field"},
	}
	for _, tt := range tests {
		perftest.Orders(t, tt.in, func(t *testing.T, b []byte) {
			f := open(t, b, Options{})
			readAll(t, f, func(Record) {})
			d := f.Damage()
			if len(d) != 1 || d[0].What != tt.err {
				t.Errorf("%s: damage %q\nwant %q", tt.in, d, tt.err)
			}
		})
	}
}

// TestSampleTail: what bits newer than this program add is left out without
// complaint.
func TestSampleTail(t *testing.T) {
	perftest.Orders(t, "event e sample=0x2000001\nraw type=9 u64:1 u64:2", func(t *testing.T, b []byte) {
		f := open(t, b, Options{})
		got := texts(t, f)
		if len(got) != 1 || !strings.HasSuffix(got[0], " IP=1 Period=1") || len(f.Damage()) > 0 {
			t.Errorf("got %q, damage %q", got, f.Damage())
		}
	})
}

// TestEvents: samples find their events, by either kind of id.
func TestEvents(t *testing.T) {
	tests := []struct {
		in   string
		want []int
	}{
		{"event a ids=100,101\nevent b config=1 ids=102\nsample evid=101 ip=1\nsample evid=102 ip=1\nsample evid=0 ip=1\nsample evid=77 ip=1", []int{0, 1, 0, -1}},
		{"event a sample=IP|TID|ID|CPU\nevent b sample=IP|TID|ID|CPU\nsample ev=b ip=1\nsample ev=a ip=1", []int{1, 0}},
		// One event takes all, as in perf.
		{"event a\nsample evid=5 ip=1", []int{0}},
		// Ids far apart.
		{"event a ids=1,0xffffffffffff\nevent b ids=2\nsample evid=0xffffffffffff ip=1\nsample evid=2 ip=1\nsample evid=3 ip=1", []int{0, 1, -1}},
		// Layouts that differ need an IDENTIFIER.
		{"event a sample=IDENTIFIER|IP\nevent b sample=IDENTIFIER|TIME|ADDR|CALLCHAIN\nsample ev=a ip=1\nsample ev=b addr=2 chain=1", []int{0, 1}},
		// perf refuses these: "non matching sample_type".
		{"event a sample=IP|ID\nevent b sample=IP|TID|ID\nsample ev=a ip=1\nsample ev=b ip=2", []int{0, 1}},
	}
	for _, tt := range tests {
		perftest.Orders(t, tt.in, func(t *testing.T, b []byte) {
			f := open(t, b, Options{})
			var got []int
			readAll(t, f, func(r Record) {
				if s, ok := r.(*Sample); ok {
					got = append(got, s.Event)
				}
			})
			if !slices.Equal(got, tt.want) {
				t.Errorf("%s: events %v, want %v; damage %q", tt.in, got, tt.want, f.Damage())
			}
		})
	}
	// An id of no event cannot be decoded if the layouts differ.
	f := open(t, perftest.Data(t, "event a sample=IDENTIFIER|IP\nevent b sample=IDENTIFIER|TIME|ADDR\nsample ev=a evid=9 ip=1"), Options{})
	readAll(t, f, func(Record) {})
	if d := f.Damage(); len(d) != 1 || d[0].What != "sample.id: is that of no event" {
		t.Errorf("damage %q", d)
	}
}

// TestTrailers: without sample_id_all records have none.
func TestTrailers(t *testing.T) {
	f := open(t, perftest.Data(t, "event a !sample_id_all\ncomm pid=1 tid=1 name=abcdefg"), Options{})
	got := texts(t, f)
	if want := `COMM misc=0x0 CommPID=1 CommTID=1 Name="abcdefg"`; len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
	perftest.Orders(t, "event a sample=TID|TIME|ID|STREAM_ID|CPU|IDENTIFIER\nlost id=1 lost=2 spid=3 stid=4 time=5 stream=6 cpu=7", func(t *testing.T, b []byte) {
		f := open(t, b, Options{})
		got := texts(t, f)
		if want := `LOST misc=0x0 id={PID:3 TID:4 Time:5 ID:100 StreamID:6 CPU:7} LostID=1 Count=2`; len(got) != 1 || got[0] != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestBranchFlags(t *testing.T) {
	// mispred, cycles 0x1234, type 5, spec 2, new_type 3, priv 6 of a
	// big-endian machine: the first field is the highest bit.
	big := uint64(1)<<63 | 0x1234<<44 | 5<<40 | 2<<38 | 3<<34 | 6<<31
	want := uint64(1) | 0x1234<<4 | 5<<20 | 2<<24 | 3<<26 | 6<<30
	if got := branchFlags(big, true); got != want {
		t.Errorf("got %#x, want %#x", got, want)
	}
	if got := branchFlags(want, false); got != want {
		t.Errorf("got %#x, want %#x", got, want)
	}
}

func TestRecordHeader(t *testing.T) {
	typ, misc, size := RecordHeader([]byte{9, 0, 0, 0, 2, 0, 0x28, 0}, false)
	if typ != RecordSample || misc != 2 || size != 40 {
		t.Error(typ, misc, size)
	}
	typ, misc, size = RecordHeader([]byte{0, 0, 0, 9, 0, 2, 0, 0x28}, true)
	if typ != RecordSample || misc != 2 || size != 40 {
		t.Error(typ, misc, size)
	}
	// simpleperf: misc is the upper half of the size.
	typ, misc, size = RecordHeader([]byte{1, 0x80, 0, 0, 1, 0, 8, 0}, false)
	if typ != 32769 || misc != 0 || size != 1<<16+8 {
		t.Error(typ, misc, size)
	}
}

// TestSampleAllocs: the decoder of samples allocates nothing.
func TestSampleAllocs(t *testing.T) {
	b := benchFile(100)
	f := open(t, b, Options{})
	batch, err := f.Batches(t.Context()).Next()
	if err != nil {
		t.Fatal(err)
	}
	d := NewDecoder(f)
	s := Sample{Callchain: make([]uint64, 0, 64)}
	n := testing.AllocsPerRun(10, func() {
		for i := 0; i < len(batch.Data); {
			_, _, size := RecordHeader(batch.Data[i:], false)
			if err := d.Sample(batch.Data[i:i+size], 0, &s); err != nil {
				t.Fatal(err)
			}
			i += size
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
