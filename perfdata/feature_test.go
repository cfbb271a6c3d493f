package perfdata

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/internal/perftest"
)

const sha1ID = "\x01\x23\x45\x67\x89\xab\xcd\xef\x01\x23\x45\x67\x89\xab\xcd\xef\x01\x23\x45\x67"

func buildIDRec(misc uint16, pid int32, id buildid.ID, name string) *BuildIDRecord {
	return &BuildIDRecord{
		Meta:       Meta{Type: 67, Misc: misc, Size: (36+len(name)+8)&^7 + 4, SampleID: SampleID{PID: -1, TID: -1, CPU: -1}},
		MachinePID: pid, BuildID: id, Name: name,
	}
}

// featureValues has a value of every feature, with what each part of it can
// be.
var featureValues = map[int]any{
	FeatureTracingData: []byte("\x17\x08\x44tracing0.6"),
	FeatureBuildID: BuildIDTable{Records: []*BuildIDRecord{
		buildIDRec(0x8001, -1, sha1ID, "[kernel.kallsyms]"),
		buildIDRec(0x8002, -1, "12345678", "/bin/short"),
		buildIDRec(0x0002, -1, sha1ID, "/bin/old"),
		buildIDRec(0x8004, 0, buildid.ID(sha1ID[:16]), "[guest.kernel.kallsyms]"),
		buildIDRec(0x8005, 4711, "", "/bin/none"),
	}},
	FeatureHostname:  "box",
	FeatureOSRelease: "6.1.0-13-amd64",
	FeatureVersion:   strings.Repeat("v", 64),
	FeatureArch:      "x86_64",
	FeatureNRCPUs:    NRCPUs{Avail: 8, Online: 6},
	FeatureCPUDesc:   "",
	FeatureCPUID:     "GenuineIntel,6,78,3",
	FeatureTotalMem:  uint64(16299868),
	FeatureCmdline:   []string{"/usr/bin/perf", "record", "it's", ""},
	FeatureEventDesc: EventDescs{AttrSize: 136, Events: []EventDesc{
		{Attr: Attr{Type: 0, Size: 136, Config: 1, SampleType: SampleIP, Flags: FlagDisabled | 1<<15, ClockID: -1, Config3: 9}, Name: "cycles:u", IDs: []uint64{1, 2}},
		{Attr: Attr{Type: 1, Size: 136}, Name: "dummy"},
	}},
	FeatureCPUTopology: CPUTopology{
		Cores: []string{"0-3"}, Threads: []string{"0-1", "2-3"}, Dies: []string{"0-1", "2-3"}, HasDies: true,
		CPUs: []CPUPlace{{0, 0, 0}, {0, 0, 0}, {1, 1, 1}, {1, 1, 1}},
	},
	FeatureNUMATopology: []NUMANode{{Node: 0, Total: 5, Free: 4, CPUs: "0-1"}, {Node: 1, Total: 1 << 40, Free: 0, CPUs: "2-3"}},
	FeatureBranchStack:  []byte(nil),
	FeaturePMUMappings:  []PMUMapping{{1, "software"}, {4, "cpu"}},
	FeatureGroupDesc:    []GroupDesc{{"{anon_group}", 0, 2}, {"g", 2, 3}},
	FeatureAuxtrace:     AuxtraceIndex{{{4096, 48}, {8192, 48}}, {{1 << 40, 48}}},
	FeatureStat:         []byte(nil),
	FeatureCache: Caches{Version: 1, Levels: []CacheLevel{
		{1, 64, 64, 8, "Data", "32K", "0-1"}, {3, 64, 4096, 16, "Unified", "4096K", "0-3"},
	}},
	FeatureSampleTime:  SampleTimes{598851784000, 602366696000},
	FeatureMemTopology: MemTopology{Version: 1, BlockSize: 0x8000000, Nodes: []MemNode{{0, 200, []uint64{0xffffff, ^uint64(0), 3, 0xff}}, {1, 64, []uint64{1}}}},
	FeatureClockID:     uint64(1),
	FeatureDirFormat:   uint64(1),
	FeatureBPFProgInfo: []BPFProg{{
		InfoLen: 8, Arrays: 0, Info: []byte("\x00\x00\x00\x00\x07\x07\x07\x07"), Data: []byte("datadata"), ID: 0x07070707,
	}},
	FeatureBPFBTF:         []BTF{{7, []byte("btf")}, {8, []byte("x")}},
	FeatureCompressed:     Compressed{0, 1, 1, 15, 528384},
	FeatureCPUPMUCaps:     []Cap{{"branches", "32"}, {"pmu_name", "skylake"}},
	FeatureClockData:      ClockData{1, 1, 1600000000123456789, 598851784000},
	FeatureHybridTopology: []HybridPMU{{"cpu_core", "0-15"}, {"cpu_atom", "16-23"}},
	FeaturePMUCaps:        []PMUCaps{{"cpu_core", []Cap{{"branches", "32"}}}, {"cpu_atom", []Cap{}}},
	FeatureCPUDomainInfo: CPUDomainInfo{17, 2, []CPUDomains{
		{0, []CPUDomain{{0, "SMT", "00000003", "0-1"}, {1, "MC", "0000000f", "0-3"}}}, {1, nil},
	}},
	FeatureEMachine: EMachine{62, 0},
	FeatureClnSize:  uint32(64),
}

func orders(t *testing.T, fn func(t *testing.T, big bool)) {
	for _, big := range []bool{false, true} {
		t.Run(map[bool]string{false: "little", true: "big"}[big], func(t *testing.T) { fn(t, big) })
	}
}

func TestFeatures(t *testing.T) {
	for bit := 1; bit < featureEnd; bit++ {
		if features[bit].bit != bit {
			t.Fatalf("features[%d] is for bit %d", bit, features[bit].bit)
		}
		v, ok := featureValues[bit]
		if !ok {
			t.Errorf("no value for %s", FeatureName(bit))
			continue
		}
		t.Run(FeatureName(bit), func(t *testing.T) {
			orders(t, func(t *testing.T, big bool) {
				b := AppendFeature(nil, bit, v, big)
				got, err := DecodeFeature(bit, b, 0, big)
				if err != nil {
					t.Fatal(err)
				}
				if tab, ok := got.(BuildIDTable); ok {
					for _, r := range tab.Records {
						r.Offset = 0
					}
				}
				if !reflect.DeepEqual(got, v) && !(len(b) == 0) {
					t.Errorf("got  %+v\nwant %+v", got, v)
				}
				if again := AppendFeature(nil, bit, got, big); !bytes.Equal(again, b) {
					t.Errorf("encodes to %x\nwas        %x", again, b)
				}
				// Cut anywhere (P14), it is an error or less of the same; never a panic.
				for n := range b {
					if v, err := DecodeFeature(bit, b[:n], 0, big); err == nil && v != nil {
						AppendFeature(nil, bit, v, big)
					}
				}
			})
		})
	}
}

// TestFeatureBytes holds the encodings against bytes written down by hand.
func TestFeatureBytes(t *testing.T) {
	tests := []struct {
		bit  int
		text string
	}{
		{FeatureHostname, "str:box"},
		{FeatureNRCPUs, "u32:8 u32:6"},
		{FeatureTotalMem, "u64:16299868"},
		{FeatureCmdline, `u32:4 str:/usr/bin/perf str:record str:it's str:`},
		{FeatureCPUTopology, "u32:1 str:0-3 u32:2 str:0-1 str:2-3 u32:0 u32:0 u32:0 u32:0 u32:1 u32:1 u32:1 u32:1 u32:2 str:0-1 str:2-3 u32:0 u32:0 u32:1 u32:1"},
		{FeatureNUMATopology, "u32:2 u32:0 u64:5 u64:4 str:0-1 u32:1 u64:0x10000000000 u64:0 str:2-3"},
		{FeaturePMUMappings, "u32:2 u32:1 str:software u32:4 str:cpu"},
		{FeatureGroupDesc, "u32:2 str:{anon_group} u32:0 u32:2 str:g u32:2 u32:3"},
		{FeatureAuxtrace, "u64:2 u64:4096 u64:48 u64:8192 u64:48 u64:1 u64:0x10000000000 u64:48"},
		{FeatureCache, "u32:1 u32:2 u32:1 u32:64 u32:64 u32:8 str:Data str:32K str:0-1 u32:3 u32:64 u32:4096 u32:16 str:Unified str:4096K str:0-3"},
		{FeatureSampleTime, "u64:598851784000 u64:602366696000"},
		{FeatureMemTopology, "u64:1 u64:0x8000000 u64:2 u64:0 u64:200 u64:200 u64:0xffffff u64:0xffffffffffffffff u64:3 u64:0xff u64:1 u64:64 u64:64 u64:1"},
		{FeatureClockID, "u64:1"},
		{FeatureCompressed, "u32:0 u32:1 u32:1 u32:15 u32:528384"},
		{FeatureCPUPMUCaps, "u32:2 str:branches str:32 str:pmu_name str:skylake"},
		{FeatureClockData, "u32:1 u32:1 u64:1600000000123456789 u64:598851784000"},
		{FeatureHybridTopology, "u32:2 str:cpu_core str:0-15 str:cpu_atom str:16-23"},
		{FeaturePMUCaps, "u32:2 u32:1 str:branches str:32 str:cpu_core u32:0 str:cpu_atom"},
		{FeatureCPUDomainInfo, "u32:17 u32:2 u32:0 u32:2 u32:0 str:SMT str:00000003 str:0-1 u32:1 str:MC str:0000000f str:0-3 u32:1 u32:0"},
		{FeatureEMachine, "u32:62 u32:0"},
		{FeatureClnSize, "u32:64"},
		{FeatureBPFBTF, "u32:2 u32:7 u32:3 text:btf u32:8 u32:1 text:x"},
		{FeatureBPFProgInfo, "u32:1 u32:8 u32:8 u64:0 u32:0 hex:07070707 text:datadata"},
	}
	for _, tt := range tests {
		t.Run(FeatureName(tt.bit), func(t *testing.T) {
			orders(t, func(t *testing.T, big bool) {
				// An unknown feature passes the pieces through.
				want := lastFeature(t, fmt.Sprintf("feature 99 %s\n", tt.text), big)
				if got := AppendFeature(nil, tt.bit, featureValues[tt.bit], big); !bytes.Equal(got, want) {
					t.Errorf("got  %x\nwant %x", got, want)
				}
			})
		})
	}
}

// lastFeature returns the payload of the one feature of a fixture.
func lastFeature(t *testing.T, text string, big bool) []byte {
	t.Helper()
	b := perftest.Data(t, perftest.InOrder(text, big))
	var o binary.ByteOrder = binary.LittleEndian
	if big {
		o = binary.BigEndian
	}
	table := o.Uint64(b[40:]) + o.Uint64(b[48:])
	off, size := o.Uint64(b[table:]), o.Uint64(b[table+8:])
	return b[off : off+size]
}

// TestFeatureErrors are the hostile features of P14, with the text that the
// user sees.
func TestFeatureErrors(t *testing.T) {
	tests := []struct {
		name, text string
		bit        int
		err        string
	}{
		{"string longer than its section", "u32:0xffffffff text:x", FeatureHostname, "offset 0x10: string: count 4294967295, but only 1 bytes follow"},
		{"string without its length", "u16:1", FeatureHostname, "offset 0x10: string: 4 bytes wanted, but only 2 follow"},
		{"cmdline count", "u32:0x40000000 str:x", FeatureCmdline, "offset 0x10: nr: count 1073741824, but only 68 bytes follow"},
		{"event_desc count", "u32:0xffffffff u32:128 hex:00*128", FeatureEventDesc, "offset 0x10: nr_events: count 4294967295, but only 128 bytes follow"},
		{"event_desc attr_size", "u32:1 u32:8 hex:00*128", FeatureEventDesc, "offset 0x10: attr_size: 8 bytes, want 64 or more"},
		{"event_desc attr_size huge", "u32:1 u32:0xfffffff0 hex:00*128", FeatureEventDesc, "offset 0x10: nr_events: count 1, but only 128 bytes follow"},
		{"event_desc ids", "u32:1 u32:64 hex:00*64 u32:9 str:x u64:1", FeatureEventDesc, "offset 0xa0: nr_ids: count 9, but only 8 bytes follow"},
		{"mem_topology words", "u64:1 u64:1 u64:1 u64:0 u64:64 u64:0xffffffffffffffff u64:0", FeatureMemTopology, "offset 0x38: bitmap.size: 18446744073709551615 bits, but only 8 bytes follow"},
		{"mem_topology version", "u64:2 u64:1 u64:0", FeatureMemTopology, "offset 0x10: version: 2, want 1"},
		{"cache version", "u32:7 u32:0", FeatureCache, "offset 0x10: version: 7, want 1"},
		{"clock_data version", "u32:0 u32:0 u64:1 u64:1", FeatureClockData, "offset 0x10: version: 0, want 1"},
		{"auxtrace", "u64:0x1000000000000000 u64:1 u64:1", FeatureAuxtrace, "offset 0x10: nr: count 1152921504606846976, but only 16 bytes follow"},
		{"bpf data_len", "u32:1 u32:8 u32:0x7fffffff u64:0 u64:0", FeatureBPFProgInfo, "offset 0x18: data_len: count 2147483647, but only 16 bytes follow"},
		{"bpf info_len", "u32:1 u32:0xfffffff u32:0 u64:0 u64:0", FeatureBPFProgInfo, "offset 0x24: info_len: 268435455 bytes, at most 4096 are credible"},
		{"btf size", "u32:1 u32:1 u32:999", FeatureBPFBTF, "offset 0x18: size: count 999, but only 0 bytes follow"},
		{"nrcpus", "u32:1", FeatureNRCPUs, "offset 0x14: nr_cpus_online: 4 bytes wanted, but only 0 follow"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			orders(t, func(t *testing.T, big bool) {
				b := lastFeature(t, "feature 99 "+tt.text, big)
				_, err := DecodeFeature(tt.bit, b, 0x10, big)
				if err == nil || err.Error() != tt.err {
					t.Errorf("error %v\n want %s", err, tt.err)
				}
			})
		})
	}
}

func TestBuildIDTable(t *testing.T) {
	const id20 = "0123456789abcdef0123456789abcdef01234567"
	tests := []struct {
		name     string
		text     string // lines of the block, or pieces
		want     []string
		warnings []string
	}{
		{
			name: "today",
			text: "{\nbuild_id id=" + id20 + " name=[kernel.kallsyms]\nbuild_id id=0102030405060708 name=/bin/x align=64\n}",
			want: []string{"1 -1 " + id20 + " [kernel.kallsyms]", "2 -1 0102030405060708 /bin/x"},
		},
		{
			name: "ids of every length",
			text: "{\nbuild_id id=01 name=/1\nbuild_id id=" + id20[:38] + " name=/19\nbuild_id id=" + id20 + " name=/20\nbuild_id name=/0\n}",
			want: []string{"2 -1 01 /1", "2 -1 " + id20[:38] + " /19", "2 -1 " + id20 + " /20", "2 -1  /0"},
		},
		{
			name: "before 5.10: padded with zeros",
			text: "{\nbuild_id nosize id=" + id20 + " name=[kernel.kallsyms]\nbuild_id nosize id=01020304050607080102030405060708 name=/bin/x\nbuild_id nosize name=/zero\n}",
			want: []string{"1 -1 " + id20 + " [kernel.kallsyms]", "2 -1 0102030405060708010203040506070800000000 /bin/x", "2 -1  /zero"},
		},
		{
			name: "2.6.33: without pid",
			text: "{\nbuild_id nopid nosize id=" + id20 + " name=[kernel.kallsyms]\nbuild_id nopid nosize mode=guest_kernel id=" + id20 + " name=[guest.kernel.kallsyms]\n}",
			want: []string{"1 -1 " + id20 + " [kernel.kallsyms]", "4 0 " + id20 + " [guest.kernel.kallsyms]"},
		},
		{
			name: "2.6.33: no kernel in it",
			text: "{\nbuild_id nopid nosize id=" + id20 + " name=/bin/a\nbuild_id nopid nosize id=" + id20 + " name=/bin/b\n}",
			want: []string{"2 -1 " + id20 + " /bin/a", "2 -1 " + id20 + " /bin/b"},
		},
		{
			name: "guests",
			text: "{\nbuild_id mode=guest_kernel pid=77 id=" + id20 + " name=[guest.kernel.kallsyms.77]\nbuild_id mode=guest_user pid=0 id=" + id20 + " name=/bin/x\n}",
			want: []string{"4 77 " + id20 + " [guest.kernel.kallsyms.77]", "5 0 " + id20 + " /bin/x"},
		},
		{
			name: "the type of the pipe record",
			text: "{\nbuild_id id=" + id20 + " name=/bin/x\n}",
			want: []string{"2 -1 " + id20 + " /bin/x"},
		},
		{
			name: "S28: names not padded",
			text: "{\nbuild_id id=" + id20 + " name=/bin/abc align=1\nbuild_id id=" + id20 + " name=/b align=1\n}",
			want: []string{"2 -1 " + id20 + " /bin/abc", "2 -1 " + id20 + " /b"},
		},
		{
			name: "S28: the size leaves out padding",
			text: "{\nbuild_id id=" + id20 + " name=/bin/abc size=45\nbuild_id id=" + id20 + " name=/b\n}",
			want: []string{"2 -1 " + id20 + " /bin/abc", "2 -1 " + id20 + " /b"},
			warnings: []string{
				"offset 0x0: build_id.size: 45 bytes, but the next record begins after 52",
			},
		},
		{
			name: "S28: the size leaves out the end of the name",
			text: "{\nbuild_id id=" + id20 + " name=/bin/abc size=40\nbuild_id id=" + id20 + " name=/b\n}",
			want: []string{"2 -1 " + id20 + " /bin/abc", "2 -1 " + id20 + " /b"},
			warnings: []string{
				"offset 0x0: build_id.size: 40 bytes, but the name ends after 45",
			},
		},
		{
			name:     "S28: the size is too large",
			text:     "{\nbuild_id id=" + id20 + " name=/bin/abc size=96\nbuild_id id=" + id20 + " name=/b\n}",
			want:     []string{"2 -1 " + id20 + " /bin/abc", "2 -1 " + id20 + " /b"},
			warnings: []string{"offset 0x0: build_id.size: 96 bytes, but a record begins after 52"},
		},
		{
			name:     "S28, P13: name without NUL at the end",
			text:     "{\nbuild_id id=" + id20 + " name=/bin/abcd align=1 nonul\n}",
			want:     []string{"2 -1 " + id20 + " /bin/abcd"},
			warnings: []string{"offset 0x24: build_id.filename: no NUL in the record's 45 bytes"},
		},
		{
			name:     "S28: name without NUL in the middle",
			text:     "{\nbuild_id id=" + id20 + " name=/bin/abcd align=1 nonul\nbuild_id id=" + id20 + " name=/b\n}",
			want:     []string{"2 -1 " + id20 + " /bin/abcd", "2 -1 " + id20 + " /b"},
			warnings: []string{"offset 0x24: build_id.filename: no NUL in the record's 45 bytes"},
		},
		{
			name:     "P13: size 0",
			text:     "{\nbuild_id id=" + id20 + " name=/bin/abc size=0\nbuild_id id=" + id20 + " name=/b\n}",
			want:     []string{"2 -1 " + id20 + " /b"},
			warnings: []string{"offset 0x0: build_id.size: 0 bytes, want 36 or more"},
		},
		{
			name:     "P13: size beyond the section",
			text:     "{\nbuild_id id=" + id20 + " name=/bin/abc\nbuild_id id=" + id20 + " name=/b size=0xffff\n}",
			want:     []string{"2 -1 " + id20 + " /bin/abc", "2 -1 " + id20 + " /b"},
			warnings: []string{"offset 0x34: build_id.size: 65535 bytes, but the section ends after 44"},
		},
		{
			name:     "P13: id of 255 bytes",
			text:     "{\nbuild_id id=" + id20 + " idsize=255 name=/bin/x\n}",
			want:     []string{"2 -1 " + id20 + " /bin/x"},
			warnings: []string{"offset 0x20: build_id.size: an id of 255 bytes, at most 20 fit"},
		},
		{
			name: "P13: names and modes are kept as they are",
			text: "{\nbuild_id id=" + id20 + " name=../../etc/x mode=kernel\nbuild_id id=" + id20 + " name=\"/\\x1b[31m\\xff\" mode=guest_user pid=-7\n}",
			want: []string{"1 -1 " + id20 + " ../../etc/x", "5 -7 " + id20 + " /\x1b[31m\xff"},
		},
		{
			name:     "no table at all",
			text:     "hex:ff*100",
			warnings: []string{"offset 0x0: build_id.size: 65535 bytes, but the section ends after 100", `offset 0x0: build_id: type 4294967295, size 65535, name "` + strings.Repeat(`\xff`, 64) + `": not a record of the table`},
		},
		{name: "zeros", text: "hex:00*100"},
		{name: "nothing", text: "hex:"},
		{name: "a few bytes", text: "hex:0102", warnings: []string{"offset 0x0: build_id: 2 bytes left over"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			orders(t, func(t *testing.T, big bool) {
				b := lastFeature(t, "feature build_id "+tt.text, big)
				v, err := DecodeFeature(FeatureBuildID, b, 0, big)
				if err != nil {
					t.Fatal(err)
				}
				var got, warnings []string
				tab := v.(BuildIDTable)
				for _, r := range tab.Records {
					got = append(got, fmt.Sprintf("%d %d %s %s", r.Misc&7, r.MachinePID, r.BuildID, r.Name))
				}
				for _, w := range tab.Warnings {
					warnings = append(warnings, w.Error())
				}
				if !reflect.DeepEqual(got, tt.want) {
					t.Errorf("got  %q\nwant %q", got, tt.want)
				}
				if !reflect.DeepEqual(warnings, tt.warnings) {
					t.Errorf("warnings %q\n    want %q", warnings, tt.warnings)
				}
			})
		})
	}
}

// TestBuildIDTableMutants cuts and changes a table at random: no panic, and
// all that is found lies in the section.
func TestBuildIDTableMutants(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	good := AppendFeature(nil, FeatureBuildID, featureValues[FeatureBuildID], false)
	for range 20000 {
		b := bytes.Clone(good[:rnd.IntN(len(good)+1)])
		for range rnd.IntN(4) {
			if len(b) > 0 {
				b[rnd.IntN(len(b))] = byte(rnd.Uint32())
			}
		}
		checkBuildIDTable(t, b, false)
	}
}

func checkBuildIDTable(t *testing.T, b []byte, big bool) {
	v, err := DecodeFeature(FeatureBuildID, b, 0, big)
	if err != nil {
		t.Fatal(err)
	}
	last := int64(-1)
	for _, r := range v.(BuildIDTable).Records {
		if r.Offset <= last || r.Offset+buildIDNoPID > int64(len(b)) || len(r.Name) > len(b) || len(r.BuildID) > 20 || r.Name == "" {
			t.Fatalf("%x: record %+v", b, r)
		}
		last = r.Offset
	}
}

func FuzzBuildIDTable(f *testing.F) {
	for _, name := range corpusIfAny() {
		if rec, err := Open(name, Options{}); err == nil {
			if b, _, err := rec.FeatureData(FeatureBuildID); err == nil && len(b) < 2048 {
				f.Add(b, rec.Header().Big)
			}
			rec.Close()
		}
	}
	for _, big := range []bool{false, true} {
		f.Add(AppendFeature(nil, FeatureBuildID, featureValues[FeatureBuildID], big), big)
	}
	f.Fuzz(checkBuildIDTable)
}

// corpusIfAny returns some recordings of the corpus, if there is one.
func corpusIfAny() []string {
	names, _ := filepath.Glob(filepath.Join(os.Getenv("PERFARK_CORPUS"), "google__perf_data_converter", "src", "quipper", "testdata", "perf.data.*"))
	return names
}

// FuzzFeature decodes any bytes as any feature: no panic, and what could be
// decoded is the same after it was encoded.
func FuzzFeature(f *testing.F) {
	for bit, v := range featureValues {
		for _, big := range []bool{false, true} {
			f.Add(bit, AppendFeature(nil, bit, v, big), big)
		}
	}
	for _, name := range corpusIfAny() {
		rec, err := Open(name, Options{})
		if err != nil {
			continue
		}
		for _, bit := range rec.Features() {
			if b, _, err := rec.FeatureData(bit); err == nil && len(b) < 2048 {
				f.Add(bit, b, rec.Header().Big)
			}
		}
		rec.Close()
	}
	f.Fuzz(func(t *testing.T, bit int, b []byte, big bool) {
		v, err := DecodeFeature(bit, b, 0, big)
		if progs, ok := v.([]BPFProg); ok {
			names := BPFNames{btfs: []BTF{{Data: b}}, big: big, types: map[uint32]*btfTypes{0: readBTF(b, big)}}
			for i := range progs {
				for j := range progs[i].Funcs {
					names.Func(&progs[i], j)
				}
			}
		}
		if err != nil || bit == FeatureBuildID || bit == FeatureCPUTopology { // the number of CPUs is a guess
			return
		}
		enc := AppendFeature(nil, bit, v, big)
		again, err := DecodeFeature(bit, enc, 0, big)
		if err != nil {
			t.Fatalf("%s: %v", FeatureName(bit), err)
		}
		if enc2 := AppendFeature(nil, bit, again, big); !bytes.Equal(enc2, enc) {
			t.Errorf("%s:\nfirst  %+v\nsecond %+v", FeatureName(bit), v, again)
		}
	})
}

// FuzzBTF reads types.
func FuzzBTF(f *testing.F) {
	f.Add([]byte("\x9f\xeb\x01\x00\x18\x00\x00\x00\x00\x00\x00\x00\x0c\x00\x00\x00\x0c\x00\x00\x00\x03\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x0c\x00\x00\x00\x00\x00a\x00"), uint32(1), false)
	f.Fuzz(func(t *testing.T, b []byte, id uint32, big bool) {
		if s := readBTF(b, big).name(id); len(s) > maxBTFName {
			t.Errorf("a name of %d bytes", len(s))
		}
	})
}
