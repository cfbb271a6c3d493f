package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/perfdata"
)

var capturedLine = regexp.MustCompile(`(?m)^# captured on .*\n`)

func headerText(t *testing.T, f *perfdata.File, o headerOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := writeHeader(&b, f, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func evlistText(t *testing.T, f *perfdata.File, o evlistOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := writeEvlist(&b, f, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestHeaderCorpus holds the header of every recording of the corpus against
// perf 6.1's. docs/differences.md has the ones that differ.
func TestHeaderCorpus(t *testing.T) {
	dir := perftest.Corpus(t)
	same := 0
	for _, rel := range perftest.CorpusFiles(t) {
		want, _ := perftest.Expected(t, rel, "header.txt")
		f, err := perfdata.Open(filepath.Join(dir, rel), perfdata.Options{})
		if err != nil {
			if strings.TrimSpace(want) != "" {
				t.Errorf("%s: %v", rel, err)
			}
			continue
		}
		got := capturedLine.ReplaceAllString(headerText(t, f, headerOptions{}), "")
		f.Close()
		if strings.TrimSpace(want) == "" {
			continue // perf refuses it
		}
		if got == want {
			same++
			continue
		}
		t.Errorf("%s: got\n%s\nwant\n%s", rel, got, want)
	}
	t.Logf("%d headers are perf's", same)
}

func TestEvlistCorpus(t *testing.T) {
	dir := perftest.Corpus(t)
	for _, rel := range perftest.CorpusFiles(t) {
		want, ok := perftest.Expected(t, rel, "evlist.txt")
		if !ok || strings.TrimSpace(want) == "" {
			continue
		}
		f, err := perfdata.Open(filepath.Join(dir, rel), perfdata.Options{})
		if err != nil {
			t.Errorf("%s: %v", rel, err)
			continue
		}
		// In pipes perf evlist does not look at the feature EVENT_DESC, as
		// perf report does, and makes names up: docs/differences.md.
		if _, ok := f.EventDesc(); ok && f.Header().Pipe {
			report, _ := perftest.Expected(t, rel, "report60.txt")
			want = ""
			for _, m := range regexp.MustCompile("(?m)^# Samples: .* of event '(.*)'$").FindAllStringSubmatch(report, -1) {
				want += m[1] + "\n"
			}
			if want == "" {
				continue
			}
		}
		if got := evlistText(t, f, evlistOptions{}); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", rel, got, want)
		}
		f.Close()
	}
}

// openText opens a fixture.
func openText(t *testing.T, text string) *perfdata.File {
	t.Helper()
	f, err := perfdata.Open(perftest.File(t, text), perfdata.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// allFeatures is a recording with every feature that perf 6.1 prints.
const allFeatures = `
event cycles type=0 read=ID|LOST mmap freq sample_period=4000 ids=1,2
event "cpu/inst=1,x=2/u" type=4 config=0x1c0 exclude_kernel ids=3
event branches type=0 config=4 ids=4
sample ip=0x400000 pid=1 tid=1 time=598851784000
feature hostname box
feature osrelease 6.1.0
feature version 6.1.100
feature arch x86_64
feature nrcpus u32:4 u32:3
feature cpudesc "Some CPU"
feature cpuid GenuineIntel,6,78,3
feature total_mem u64:16299868
feature cmdline /usr/bin/perf record "it's" "a b"
feature event_desc
feature cpu_topology u32:1 str:0-3 u32:2 str:0-1 str:2-3 u32:0 u32:0 u32:0 u32:0 u32:1 u32:0 u32:1 u32:0 u32:2 str:0-1 str:2-3 u32:0 u32:0 u32:1 u32:1
feature numa_topology u32:1 u32:0 u64:5596956 u64:3515564 str:0-1,2,3
feature branch_stack
feature pmu_mappings u32:2 u32:1 str:software u32:4 str:cpu
feature group_desc u32:1 str:mygroup u32:0 u32:2
feature auxtrace u64:1 u64:4096 u64:48
feature stat
feature cache u32:1 u32:2 u32:1 u32:64 u32:64 u32:8 str:Data str:32K str:0-1 u32:3 u32:64 u32:4096 u32:16 str:Unified str:4096K str:0-3
feature sample_time u64:598851784000 u64:602366696123
feature mem_topology u64:1 u64:0x8000000 u64:2 u64:0 u64:200 u64:200 u64:0xffffff u64:0xffffffff u64:3 u64:0xff u64:1 u64:64 u64:64 u64:1
feature clockid u64:1
feature compressed u32:0 u32:1 u32:1 u32:15 u32:528384
feature cpu_pmu_caps u32:2 str:branches str:32 str:pmu_name str:skylake
feature clock_data u32:1 u32:1 u64:1600000000123456789 u64:598851784123
feature hybrid_topology u32:2 str:cpu_core str:0-15 str:cpu_atom str:16-23
feature pmu_caps u32:1 u32:1 str:branches str:32 str:cpu_atom
`

// TestHeaderPerf compares with the perf that is installed: every feature,
// with and without -I, little-endian and big-endian, and recordings made now.
func TestHeaderPerf(t *testing.T) {
	perftest.NeedTool(t, "perf")
	t.Setenv("TZ", "UTC")
	files := map[string]string{
		"all":    perftest.File(t, allFeatures),
		"big":    perftest.File(t, perftest.InOrder(allFeatures, true)),
		"file":   perftest.Record(t, "-e", "cpu-clock", "-g", "--", "true"),
		"groups": perftest.Record(t, "-e", "{cpu-clock,task-clock}", "-k", "mono", "-z", "--", "true"),
	}
	r := perftest.Perf(t, "record", "-o", "-", "-e", "cpu-clock", "--", "true")
	files["pipe"] = filepath.Join(t.TempDir(), "pipe")
	if err := os.WriteFile(files["pipe"], []byte(r.Stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, file := range files {
		t.Run(name, func(t *testing.T) {
			f, err := perfdata.Open(file, perfdata.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			compare := func(got string, args ...string) {
				t.Helper()
				want := perftest.Perf(t, append(args, "-i", file)...).Stdout
				if got != want {
					t.Errorf("perf %v: got\n%s\nwant\n%s", args, got, want)
				}
			}
			compare(headerText(t, f, headerOptions{}), "report", "--header-only")
			compare(headerText(t, f, headerOptions{all: true}), "report", "--header-only", "-I")
			compare(evlistText(t, f, evlistOptions{}), "evlist")
			compare(evlistText(t, f, evlistOptions{verbose: true}), "evlist", "-v")
			compare(evlistText(t, f, evlistOptions{freq: true}), "evlist", "-F")
			compare(evlistText(t, f, evlistOptions{group: true}), "evlist", "-g")
		})
	}
}

// TestEvlistBits has every bit and field of an attr printed, by us and by
// perf.
func TestEvlistBits(t *testing.T) {
	perftest.NeedTool(t, "perf")
	text := "event a bp_type=3 wakeup_events=7 config1=0x55 config2=4 sample_regs_user=0xff sample_stack_user=64 clockid=-2 sample_regs_intr=3 aux_watermark=9 sample_max_stack=127 aux_sample_size=8 sig_data=3 " +
		"branch_sample_type=0x7ffff precise_ip=2 disabled inherit pinned exclusive exclude_user exclude_kernel exclude_hv exclude_idle mmap comm freq inherit_stat enable_on_exec task watermark mmap_data exclude_host exclude_guest exclude_callchain_kernel exclude_callchain_user mmap2 comm_exec use_clockid context_switch write_backward namespaces ksymbol bpf_event aux_output cgroup text_poke build_id inherit_thread remove_on_exec sigtrap\n" +
		"feature hostname x\n"
	for bit := range 25 {
		if bit != 17 { // TRANSACTION, which perf does not print
			text += "event e type=0 sample=" + perftest.SampleBits[bit] + "|IDENTIFIER read=" + perftest.ReadBits[bit%5] + "\n"
		}
	}
	file := perftest.File(t, text)
	f := openText(t, text)
	if got, want := evlistText(t, f, evlistOptions{verbose: true}), perftest.Perf(t, "evlist", "-v", "-i", file).Stdout; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// bpfFeatures is two BPF programs: one with a function, named by the program,
// and one with two, named by its BTF.
const bpfFeatures = `
sample ip=1
feature bpf_prog_info u32:2 \
 u32:224 u32:24 u64:0x118 \
  u32:1 u32:9 hex:00*56 text:onefunc hex:00*9 hex:00*24 u32:1 u32:1 u64:0 u64:8 u32:0 u32:0 u64:0 u32:0 u32:0 hex:00*28 u32:1 u64:16 hex:00*32 \
  u64:0xffffffffc0001000 u32:0x55 u32:0 hex:0123456789abcdef \
 u32:224 u32:56 u64:0x138 \
  u32:1 u32:7 hex:00*56 text:prog hex:00*12 hex:00*24 u32:2 u32:2 u64:0 u64:16 u32:3 u32:8 u64:24 u32:2 u32:0 hex:00*28 u32:2 u64:40 hex:00*32 \
  u64:0xffffffffc0002000 u64:0xffffffffc0003000 u32:16 u32:32 u32:0 u32:2 u32:4 u32:3 hex:1111111111111111 hex:2222222222222222
feature bpf_btf u32:1 u32:3 u32:83 \
 u16:0xeb9f u8:1 u8:0 u32:24 u32:0 u32:36 u32:36 u32:23 \
 u32:0 u32:0x0d000000 u32:0 \
 u32:1 u32:0x0c000000 u32:1 \
 u32:11 u32:0x0c000000 u32:1 \
 u8:0 cstr:main_prog cstr:helper_prog
`

// TestHeaderBPF holds the lines about BPF programs against perf's.
func TestHeaderBPF(t *testing.T) {
	text := strings.ReplaceAll(bpfFeatures, "\\\n", "")
	want := `# bpf_prog_info 7:
# 	sub_prog 0: bpf_prog_1111111111111111_main_prog addr 0xffffffffc0002000 size 16
# 	sub_prog 1: bpf_prog_2222222222222222_helper_prog addr 0xffffffffc0003000 size 32
# bpf_prog_info 9: bpf_prog_0123456789abcdef_onefunc addr 0xffffffffc0001000 size 85
# btf info of id 3
`
	for _, big := range []bool{false, true} {
		text := perftest.InOrder(text, big)
		got := headerText(t, openText(t, text), headerOptions{})
		if !strings.Contains(got, want) {
			t.Errorf("big %v: got\n%s\nwant\n%s", big, got, want)
		}
	}
	r := perftest.Perf(t, "report", "--header-only", "-i", perftest.File(t, text))
	if !strings.Contains(r.Stdout, want) {
		t.Errorf("perf:\n%s%s", r.Stdout, r.Stderr)
	}
}

// TestHeaderNew has the features that perf 6.1 does not know.
func TestHeaderNew(t *testing.T) {
	f := openText(t, `
sample ip=1
feature bpf_btf u32:2 u32:9 u32:0 u32:7 u32:0
feature cpu_domain_info u32:17 u32:2 u32:0 u32:1 u32:0 str:MC str:0000000f str:0-3
feature e_machine u32:62 u32:5
feature cln_size u32:64
feature 77 u32:1
`)
	got := capturedLine.ReplaceAllString(headerText(t, f, headerOptions{all: true}), "")
	want := `# ========
# header version : 1
# data offset    : 256
# data size      : 56
# feat offset    : 312
# btf info of id 7
# btf info of id 9
# schedstat version	: 17
# Maximum sched domains	: 2
# cpu			: 0
# nr_domains		: 1
# Domain		: 0
# Domain name		: MC
# Domain cpu map	: 0000000f
# Domain cpu list	: 0-3
# e_machine : 62
#   e_flags : 5
# cacheline size : 64
`
	if !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestHeaderDamaged (P14): a feature that cannot be read is left out and
// told, and hides nothing else.
func TestHeaderDamaged(t *testing.T) {
	f := openText(t, "sample ip=1\nfeature hostname box\nfeature osrelease u32:0xffffffff text:x\nfeature arch x86_64\nfeature cmdline u32:0x40000000 str:x\n")
	got := headerText(t, f, headerOptions{all: true})
	if !strings.Contains(got, "# hostname : box\n# arch : x86_64\n# missing") {
		t.Errorf("got\n%s", got)
	}
	warnings := strings.Join(f.Warnings(), "\n")
	for _, want := range []string{"feature OSRELEASE: offset 0x1bc: string: count 4294967295, but only 1 bytes follow", "feature CMDLINE: offset 0x205: nr: count 1073741824, but only 68 bytes follow"} {
		if !strings.Contains(warnings, want) {
			t.Errorf("warnings\n%s\nlack\n%s", warnings, want)
		}
	}
}

// TestHeaderEscapes (X01): names cannot act on the terminal.
func TestHeaderEscapes(t *testing.T) {
	f := openText(t, "sample ip=1\nfeature hostname \"a\\x1b[31m\\n# fake : line\"\n")
	if got := headerText(t, f, headerOptions{}); !strings.Contains(got, `# hostname : a\x1b[31m\x0a# fake : line`+"\n") {
		t.Errorf("got\n%s", got)
	}
}

func TestHeaderJSON(t *testing.T) {
	f := openText(t, allFeatures)
	b, err := json.Marshal(jsonHeaderOf(f))
	if err != nil {
		t.Fatal(err)
	}
	var j struct {
		Format   string `json:"format"`
		Features map[string]json.RawMessage
		Events   []struct {
			Name string
			IDs  []uint64
			Attr struct {
				SampleType []string `json:"sample_type"`
			}
		}
	}
	if err := json.Unmarshal(b, &j); err != nil {
		t.Fatal(err)
	}
	if j.Format != "file" || len(j.Events) != 3 || j.Events[1].Name != "cpu/inst=1,x=2/u" || len(j.Events[0].Attr.SampleType) != 6 {
		t.Errorf("%s", b)
	}
	for name, want := range map[string]string{
		"HOSTNAME":    `"box"`,
		"NRCPUS":      `{"avail":4,"online":3}`,
		"CMDLINE":     `["/usr/bin/perf","record","it's","a b"]`,
		"SAMPLE_TIME": `{"first_ns":598851784000,"last_ns":602366696123}`,
		"GROUP_DESC":  `[{"leader":0,"members":2,"name":"mygroup"}]`,
		"CLOCK_DATA":  `{"clock":"monotonic","clock_ns":598851784123,"clockid":1,"wall_clock_ns":1600000000123456789}`,
	} {
		if string(j.Features[name]) != want {
			t.Errorf("%s: %s, want %s", name, j.Features[name], want)
		}
	}
	for _, bit := range f.Features() {
		if _, ok := j.Features[perfdata.FeatureName(bit)]; !ok {
			t.Errorf("no %s", perfdata.FeatureName(bit))
		}
	}
}
