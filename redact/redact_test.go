package redact

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/perfdata"
)

const (
	layer   = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	machine = "fedcba9876543210fedcba9876543210"
	pod     = "01234567-89ab-cdef-0123-456789abcdef"
)

// planted are the secrets of fixture: X07, X08, X09.
var planted = []string{
	"web01secret", "example.internal", "alicewonder", "hunter2SECRET", "pw4bob", layer, machine, pod, "projectx",
	"lxcname", "ENVVALUE9", "STACKVALUE9", "carolhome",
}

// tracing makes tracing data of version 0.6 with one tracepoint, sched:x, whose
// id is 77.
func tracing(big bool, system string) []byte {
	var o binary.AppendByteOrder = binary.LittleEndian
	flag := byte(0)
	if big {
		o, flag = binary.BigEndian, 1
	}
	b := append([]byte("\x17\x08\x44tracing0.6\x00"), flag, 8)
	b = o.AppendUint32(b, 4096)
	sized := func(s string) { b = append(o.AppendUint64(b, uint64(len(s))), s...) }
	for _, n := range []string{"header_page", "header_event"} {
		b = append(append(b, n...), 0)
		sized(n)
	}
	b = o.AppendUint32(b, 0)
	b = o.AppendUint32(b, 1)
	b = append(append(b, system...), 0)
	b = o.AppendUint32(b, 1)
	sized("name: x_web01secret\nID: 77\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n" +
		"\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\tfield:__data_loc char[] file;\toffset:24;\tsize:4;\tsigned:0;\n\nprint fmt: \"comm=%s\", REC->comm\n")
	text := func(s string) { b = append(o.AppendUint32(b, uint32(len(s))), s...) }
	text("ffffffff81000000 T _text\n")
	text("0xffffffff82000000 : \"on web01secret\"\n")
	sized("10 web01secret-wrk\n11 plain\n")
	return b
}

// fixture is a recording with a secret in every place that has room for one.
func fixture(big, pipe, zstd bool) string {
	word := ""
	if big {
		word += " big"
	}
	if pipe {
		word += " pipe"
	}
	raw := make([]byte, 0, 64)
	raw = append(raw, make([]byte, 8)...)
	raw = append(raw, "web01secret-wrk\x00"...)
	raw = append(raw, make([]byte, 4)...)
	raw = append(raw, "/home/alicewonder/data.txt\x00\x00"...)
	stack := "\x01\x02\x03\x00PASSWORD=STACKVALUE9\x00HOME=/home/alicewonder\x00/home/carolhome/x\x00"
	block, end := "", ""
	if zstd {
		block, end = "zstd {\n", "}\n"
	}
	compressed := ""
	if zstd {
		compressed = "feature compressed u32:1 u32:1 u32:1 u32:4 u32:4096\n"
	}
	features := `feature hostname web01secret.example.internal
feature osrelease 6.1.0-web01secret
feature version 6.1-web01secret
feature arch x86_64
feature cmdline /usr/bin/perf record -F 99 -o /home/alicewonder/p.data -e cpu-clock -- /home/alicewonder/app/server "--token=hunter2SECRET" https://bob:pw4bob@h/ "X=ENVVALUE9"
feature event_desc
feature group_desc u32:1 str:{web01secret/e/} u32:0 u32:1
feature pmu_mappings u32:1 u32:1 str:web01secret_pmu
feature 60 text:unknown-web01secret
feature tracing_data hex:` + hex.EncodeToString(tracing(big, "web01secret_sys")) + "\n" + compressed
	if !pipe {
		features += `feature build_id {
	build_id pid=-1 id=0123456789abcdef0123456789abcdef01234567 name=/home/alicewonder/app/libweb01secret.so.1
}
`
	}
	records := `comm pid=10 tid=10 name=server-web01sec time=1
comm pid=11 tid=11 name=WEB01SECRET time=1
comm pid=12 tid=12 name=http://pw4bob/ time=1
comm pid=13 tid=13 name=plain time=1
mmap2 pid=10 tid=10 start=0x400000 len=0x1000 prot=5 flags=2 id=abcdef name=/home/alicewonder/app/server time=2
mmap2 pid=10 tid=10 start=0x500000 len=0x1000 prot=5 flags=2 id=abcd01 name=/var/lib/docker/overlay2/` + layer + `/merged/usr/lib/libc.so.6 time=2
mmap pid=10 tid=10 start=0x600000 len=0x1000 name=/usr/lib/x86_64-linux-gnu/libc.so.6 time=2
mmap pid=10 tid=10 start=0x700000 len=0x1000 name=/var/lib/lxc/lxcname/rootfs/bin/x time=2
mmap pid=10 tid=10 start=0x800000 len=0x1000 name=/var/log/journal/` + machine + `/system.journal time=2
cgroup id=1 name=/kubepods.slice/pod` + pod + `/docker-` + layer + `.scope time=3
ksymbol addr=0xffffffffc0000000 len=64 kind=1 name=bpf_prog_web01secret time=3
thread_map threads=10/web01secret
event_update kind=2 id=100 name=cycles_web01secret
bpf_metadata prog=web01secret entries=k/projectx
auxtrace_error kind=1 msg=web01secret
auxtrace_info kind=1 priv=0x6574796d6f727061
build_id pid=-1 id=0123456789abcdef0123456789abcdef01234567 name=/home/alicewonder/kernel.ko
raw type=99 text:unknown-web01secret pad:8
sample ip=0x400123 pid=10 tid=10 time=7 cpu=1 period=4000 chain=user,0x400123,0x400456,0x657465526563696c,0x6563696c61 raw=` + hex.EncodeToString(raw) + ` regs=1,0x6c6f68656361646c stack=` + hex.EncodeToString([]byte(stack)) + `
sample ip=0x500123 pid=10 tid=10 time=8 cpu=1 period=4000 chain=user,0x500123 raw=00000000000000000000000000000000 regs=1,2 stack=00*8
finished_round
`
	if pipe {
		return "file" + word + "\nevent web01secret type=2 config=77 sample=+RAW|CALLCHAIN|REGS_USER|STACK_USER sample_regs_user=3 sample_stack_user=128\n" + features + block + records + end
	}
	return "file" + word + "\nevent web01secret type=2 config=77 sample=+RAW|CALLCHAIN|REGS_USER|STACK_USER sample_regs_user=3 sample_stack_user=128\n" + block + records + end + features
}

// redacted redacts a recording in memory, more or less.
func redacted(t testing.TB, data []byte, p Policy) (*perfdata.File, []byte, *Redactor) {
	t.Helper()
	f, err := perfdata.New(bytes.NewReader(data), int64(len(data)), "in", perfdata.Options{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close(); f.Close() })
	r, err := New(context.Background(), f, p)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Write(context.Background(), out); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	g, err := perfdata.New(bytes.NewReader(b), int64(len(b)), "out", perfdata.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g, b, r
}

// everything returns all records of a recording as they are when decompressed.
func everything(t testing.TB, f *perfdata.File) []byte {
	t.Helper()
	var out []byte
	batches := f.Batches(context.Background())
	for {
		b, err := batches.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b.Data...)
		b.Release()
	}
}

// TestPlanted has a secret in every place of a recording (X07, X08, X09).
func TestPlanted(t *testing.T) {
	for _, big := range []bool{false, true} {
		for _, pipe := range []bool{false, true} {
			for _, zstd := range []bool{false, true} {
				t.Run(fmt.Sprintf("big=%v,pipe=%v,zstd=%v", big, pipe, zstd), func(t *testing.T) {
					data := perftest.Data(t, fixture(big, pipe, zstd))
					in, err := perfdata.New(bytes.NewReader(data), int64(len(data)), "in", perfdata.Options{})
					if err != nil {
						t.Fatal(err)
					}
					before := append(everything(t, in), data...)
					for _, s := range planted {
						if !bytes.Contains(before, []byte(s)) {
							t.Errorf("%q was not planted", s)
						}
					}
					f, b, r := redacted(t, data, Policy{Also: []string{"projectx"}})
					all := append(everything(t, f), b...)
					for _, s := range planted {
						if i := bytes.Index(bytes.ToLower(all), []byte(strings.ToLower(s))); i >= 0 {
							t.Errorf("%q is still there: %q", s, all[max(i-30, 0):min(i+30, len(all))])
						}
					}
					if found, err := r.Search(context.Background(), bytes.NewReader(b), int64(len(b))); err != nil || len(found) > 0 {
						t.Errorf("Search: %v, %v", found, err)
					}
					if found, err := r.SearchRecording(context.Background(), f, bytes.NewReader(b)); err != nil || len(found) > 0 {
						t.Errorf("SearchRecording: %v, %v", found, err)
					}
					// What it finds is what the original has.
					if found, err := r.SearchRecording(context.Background(), in, bytes.NewReader(data)); err != nil || len(found) < 20 {
						t.Errorf("SearchRecording of the original: %v, %v", found, err)
					}
					if a, b := samples(t, in), samples(t, f); a != b {
						t.Errorf("samples %+v, want %+v", b, a)
					}
					if d := f.Damage(); len(d) > 0 {
						t.Errorf("damage: %v", d)
					}
					checkPlanted(t, f, pipe)
				})
			}
		}
	}
}

func checkPlanted(t *testing.T, f *perfdata.File, pipe bool) {
	t.Helper()
	if got, want := f.Hostname(), "host1.domain1"; got != want {
		t.Errorf("hostname %q, want %q", got, want)
	}
	if got, want := f.OSRelease(), "6.1.0-host1"; got != want {
		t.Errorf("release %q, want %q", got, want)
	}
	want := []string{"/usr/bin/perf", "record", "-F", "99", "-o", "/home/user1/p.data", "-e", "cpu-clock", "--", "/home/user1/app/server", "arg1", "arg2", "arg3"}
	if got := f.Cmdline(); !slices.Equal(got, want) {
		t.Errorf("command line %q, want %q", got, want)
	}
	if got := f.Arch(); got != "x86_64" {
		t.Errorf("arch %q", got)
	}
	if slices.Contains(f.Features(), 60) {
		t.Error("an unknown feature went out")
	}
	var comms, maps, cgroups []string
	var stack, raw []byte
	rd := f.Records()
	for {
		rec, err := rd.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch rec := rec.(type) {
		case *perfdata.Comm:
			comms = append(comms, rec.Name)
		case *perfdata.Mmap:
			maps = append(maps, rec.Name)
		case *perfdata.Cgroup:
			cgroups = append(cgroups, rec.Path)
		case *perfdata.Unknown:
			t.Errorf("a record of type %d went out", rec.Type)
		case *perfdata.Sample:
			if stack == nil {
				stack, raw = slices.Clone(rec.UserStack), slices.Clone(rec.Raw)
			}
		}
	}
	if want := []string{"server-host1", "host1", "url2", "plain"}; !slices.Equal(comms, want) {
		t.Errorf("threads %q, want %q", comms, want)
	}
	if want := []string{
		"/home/user1/app/server", "/var/lib/docker/overlay2/container1/merged/usr/lib/libc.so.6", "/usr/lib/x86_64-linux-gnu/libc.so.6",
		"/var/lib/lxc/container2/rootfs/bin/x", "/var/log/journal/id1/system.journal",
	}; !slices.Equal(maps, want) {
		t.Errorf("maps %q, want %q", maps, want)
	}
	if want := []string{"/kubepods.slice/podid2/docker-container1.scope"}; !slices.Equal(cgroups, want) {
		t.Errorf("cgroups %q, want %q", cgroups, want)
	}
	if want := "\x01\x02\x03\x00PASSWORD=xxxxxxxxxxx\x00HOME=xxxxxxxxxxxxxxxxx\x00/home/xxxxxxxxx/x\x00"; !strings.HasPrefix(string(stack), want) {
		t.Errorf("stack %q, want %q", stack, want)
	}
	if got := cString(raw[8:24]); got != "host1-wrk" {
		t.Errorf("comm in raw data %q, want host1-wrk", got)
	}
	if !pipe {
		if ids := f.BuildIDs(); len(ids) != 1 || ids[0].Name != "/home/user1/app/libhost1.so.1" {
			t.Errorf("build ids %v", ids)
		}
	}
	if tr, err := f.Tracing(); err != nil || tr.Format(77) == nil || tr.Format(77).Name != "x_host1" || tr.Format(77).System != "host1_sys" {
		t.Errorf("tracing: %v, %+v", err, tr.Format(77))
	}
}

// TestStrict keeps no bytes of memory and no names of files or threads.
func TestStrict(t *testing.T) {
	f, b, _ := redacted(t, perftest.Data(t, fixture(false, false, false)), Strict())
	for _, s := range append(slices.Clone(planted), "server", "PASSWORD", "data.txt") {
		if s != "projectx" && bytes.Contains(b, []byte(s)) {
			t.Errorf("%q is still there", s)
		}
	}
	rd := f.Records()
	n := 0
	for {
		rec, err := rd.Next()
		if err == io.EOF {
			break
		}
		switch rec := rec.(type) {
		case *perfdata.Sample:
			if n++; len(rec.UserStack) > 0 || rec.UserABI != 0 || len(rec.UserRegs) > 0 {
				t.Errorf("sample has a stack of %d bytes, registers %v", len(rec.UserStack), rec.UserRegs)
			}
		case *perfdata.Mmap:
			if rec.BuildID == "\xab\xcd\xef" && rec.Name != "/dir1/dir2/dir3/file1" {
				t.Errorf("map %q", rec.Name)
			}
		}
	}
	if n != 2 {
		t.Errorf("%d samples, want 2", n)
	}
}

// TestKey: with a key pseudonyms are the same in all recordings.
func TestKey(t *testing.T) {
	p := Policy{Key: []byte("0123456789abcdef")}
	a, _, _ := redacted(t, perftest.Data(t, "file\ncomm pid=1 tid=1 name=x\nfeature hostname web01secret\n"), p)
	b, _, _ := redacted(t, perftest.Data(t, "file\ncomm pid=1 tid=1 name=x-oddhost\nfeature hostname web01secret\n"), p)
	if a.Hostname() != b.Hostname() || !strings.HasPrefix(a.Hostname(), "host-") {
		t.Errorf("%q and %q, want the same", a.Hostname(), b.Hostname())
	}
	c, _, _ := redacted(t, perftest.Data(t, "file\ncomm pid=1 tid=1 name=x\nfeature hostname web01secret\n"), Policy{Key: []byte("another secret key")})
	if c.Hostname() == a.Hostname() {
		t.Errorf("%q with another key too", a.Hostname())
	}
}

// TestTaken: a pseudonym is no name that the recording has already.
func TestTaken(t *testing.T) {
	f, _, _ := redacted(t, perftest.Data(t, "file\nmmap pid=1 tid=1 start=0x1000 len=0x1000 name=/home/user1/x\nmmap pid=1 tid=1 start=0x2000 len=0x1000 name=/home/alicewonder/x\n"), Policy{})
	var got []string
	rd := f.Records()
	for {
		rec, err := rd.Next()
		if err != nil {
			break
		}
		if m, ok := rec.(*perfdata.Mmap); ok {
			got = append(got, m.Name)
		}
	}
	if want := []string{"/home/user2/x", "/home/user3/x"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestCommonNames: what everybody has is replaced only where it is a name.
func TestCommonNames(t *testing.T) {
	text := `file
comm pid=1 tid=1 name=app-db1
mmap pid=1 tid=1 start=0x1000 len=0x1000 name=/home/app/app.so
mmap pid=1 tid=1 start=0x2000 len=0x1000 name=/usr/lib/db1util.so
mmap pid=1 tid=1 start=0x3000 len=0x1000 name=/home/apple/x
mmap pid=1 tid=1 start=0x4000 len=0x1000 name=/root/x
feature hostname db1
`
	f, _, _ := redacted(t, perftest.Data(t, text), Policy{})
	var got []string
	rd := f.Records()
	for {
		rec, err := rd.Next()
		if err != nil {
			break
		}
		switch rec := rec.(type) {
		case *perfdata.Comm:
			got = append(got, rec.Name)
		case *perfdata.Mmap:
			got = append(got, rec.Name)
		}
	}
	if want := []string{"app-host1", "/home/user1/app.so", "/usr/lib/db1util.so", "/home/user2/x", "/root/x"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if f.Hostname() != "host1" {
		t.Errorf("host %q", f.Hostname())
	}
}

// TestArgs is REC-6.
func TestArgs(t *testing.T) {
	tests := []struct{ in, want string }{
		{"perfark record -F 99 -- ./spin --token=hunter2SECRET", "perfark record -F 99 -- ./spin --token=***"},
		{"perf record ./x --password hunter2 -v", "perf record ./x --password *** -v"},
		{"env TOKEN=abc AWS_SECRET_ACCESS_KEY=x/y PATH=/bin ./x", "env TOKEN=*** AWS_SECRET_ACCESS_KEY=*** PATH=/bin ./x"},
		{"./x -Dpassword=abc --api-key=1 --db_password=2", "./x -Dpassword=*** --api-key=*** --db_password=***"},
		{"curl -u bob:pw https://bob:pw@example.com/a?b=c&token=d", "curl -u bob:*** https://***@example.com/a?b=c&token=***"},
		{"./x AKIAIOSFODNN7EXAMPLE ghp_0123456789abcdefghij0123", "./x *** ***"},
		{"perf record -p 4711 -u alice -e cycles:u -g ./monkey=1 --author=me --tokens=5", "perf record -p 4711 -u alice -e cycles:u -g ./monkey=1 --author=me --tokens=5"},
		{"./x --password -v", "./x --password -v"},
		{"./x --session-id=5 Authorization:Bearer", "./x --session-id=*** Authorization:***"},
	}
	for _, tt := range tests {
		if got := strings.Join(Args(strings.Fields(tt.in)), " "); got != tt.want {
			t.Errorf("Args(%q)\n  = %q\nwant %q", tt.in, got, tt.want)
		}
	}
	if got := Args([]string{"sh", "-c", "TOKEN=a b --password='c d' e"}); !slices.Equal(got, []string{"sh", "-c", "TOKEN=*** b --password=*** e"}) {
		t.Errorf("%q", got)
	}
}

func TestCmdline(t *testing.T) {
	tests := []struct{ in, want string }{
		{"/usr/bin/perf record -ag -F99 -e cycles:u,cpu-clock -p 4711 -o /home/alicewonder/x.data", "/usr/bin/perf record -ag -F99 -e cycles:u,cpu-clock -p 4711 -o /home/user1/x.data"},
		{"perf record --call-graph=dwarf,16384 --freq=99 -z3 -u bobby -k mono ./x -u bobby --mode=python3", "perf record --call-graph=dwarf,16384 --freq=99 -z3 -u user1 -k mono ./x arg1 arg2 arg3"},
		{"perf record --filter f!=tenantfilter -g --tenant9secret x", "perf record --filter arg1 -g arg2 arg3"},
		{"perf record -g -- ./x", "perf record -g -- ./x"},
		{"perf", "perf"},
		{"perf record -G web/db -C 0-3 -- sleep 5", "perf record -G web/db -C 0-3 -- sleep arg1"},
		{"perf -v record ./x y", "perf -v record arg1 arg2"}, // what perf takes before its command is not known: rather too little
		{"perf record", "perf record"},
		{"perf record -F", "perf record -F"},
	}
	for _, tt := range tests {
		text := "file\ncomm pid=1 tid=1 name=x\nfeature cmdline"
		for _, a := range strings.Fields(tt.in) {
			text += fmt.Sprintf(" %q", a)
		}
		f, _, r := redacted(t, perftest.Data(t, text+"\n"), Policy{})
		if got := strings.Join(f.Cmdline(), " "); got != tt.want {
			t.Errorf("%q\n     = %q\nwant %q", tt.in, got, tt.want)
		}
		for _, w := range r.dict.words {
			if w.old == "python3" || w.old == "dwarf,16384" {
				t.Errorf("%q is taken for a name", w.old)
			}
		}
	}
}

// TestPublic: a value that is part of the name of a system's file is no secret.
func TestPublic(t *testing.T) {
	text := "file\nmmap pid=1 tid=1 start=0x1000 len=0x1000 name=/usr/lib/x86_64-linux-gnu/libc.so.6\n" +
		"feature cmdline perf record ./x \"--triplet=x86_64-linux-gnu\" \"--token=x86_64\" \"--id=4711abcdef\"\n"
	_, b, r := redacted(t, perftest.Data(t, text), Policy{})
	if !bytes.Contains(b, []byte("/usr/lib/x86_64-linux-gnu/libc.so.6")) || bytes.Contains(b, []byte("4711abcdef")) {
		t.Errorf("words %+v", r.Report().Names)
	}
}

func TestParsePolicy(t *testing.T) {
	p, err := ParsePolicy(strings.NewReader("# ours\nbase strict\npaths mask # not all\nuser-stacks drop\nalso projectx\nallow web\npattern tenant-[0-9]+#?\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Strict()
	want.Paths, want.Also, want.Allow = Mask, []string{"projectx"}, []string{"web"}
	if len(p.Patterns) != 1 || p.Patterns[0].String() != "tenant-[0-9]+#?" {
		t.Errorf("patterns %v", p.Patterns)
	}
	p.Patterns = nil
	if !reflect.DeepEqual(p, want) {
		t.Errorf("got %+v\nwant %+v", p, want)
	}
	for in, want := range map[string]string{
		"comm drop\n":    `line 1: comm "drop": not one of mask, all`,
		"\nnone x\n":     `line 2: "none": not one of cmdline, hosts, users, environment, containers, comm, paths, user-stacks, user-regs, raw, objects, unknown, also, allow, pattern, base`,
		"comm\n":         `line 1: "comm": want a name and a value`,
		"base x\n":       `line 1: base "x": not one of default, strict`,
		"pattern a(b\n":  "line 1: pattern: error parsing regexp: missing closing ): `a(b`",
		"objects keep\n": "<nil>",
		strings.Repeat("#", maxPolicy-8) + "\nalso ab":    "<nil>",
		strings.Repeat("#", maxPolicy-8) + "\nalso abc\n": "more than 1048576 bytes",
	} {
		if _, err := ParsePolicy(strings.NewReader(in)); fmt.Sprint(err) != want {
			t.Errorf("%.80q: %v, want %s", in, err, want)
		}
	}
}

// FuzzFile redacts hostile recordings: no panic, and no name that it knows
// stays.
func FuzzFile(f *testing.F) {
	for _, text := range []string{
		fixture(false, false, false), fixture(true, false, true), fixture(false, true, false), fixture(true, true, true),
		"file\nauxtrace len=8 data=0102030405060708\nfeature auxtrace u64:1 u64:104 u64:48\n",
	} {
		b, err := perftest.Build(text)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, false)
		f.Add(b, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, strict bool) {
		in, err := perfdata.New(bytes.NewReader(data), int64(len(data)), "in", perfdata.Options{})
		if err != nil {
			return
		}
		defer in.Close()
		p := Policy{}
		if strict {
			p = Strict()
		}
		r, err := New(context.Background(), in, p)
		if err != nil {
			return
		}
		var out memory
		if err := r.Write(context.Background(), &out); err != nil {
			return
		}
		if host := in.Hostname(); len(host) >= minStrong && !common(host) {
			if bytes.Contains(out.b, []byte(host)) {
				t.Errorf("host name %q is in the result", host)
			}
		}
	})
}

// FuzzTracing walks hostile tracing data.
func FuzzTracing(f *testing.F) {
	f.Add(tracing(false, "a"))
	f.Add(tracing(true, "b"))
	f.Fuzz(func(t *testing.T, b []byte) {
		out, err := walkTracing(b, func(_ string, text []byte) []byte { return text })
		if err == nil && !bytes.HasPrefix(b, out) {
			t.Errorf("%q became %q", b, out)
		}
	})
}

// FuzzArgs masks hostile command lines, and masks nothing twice.
func FuzzArgs(f *testing.F) {
	f.Add("./x\x00--token=abc\x00https://a:b@c/")
	f.Fuzz(func(t *testing.T, s string) {
		once := Args(strings.Split(s, "\x00"))
		if twice := Args(once); !slices.Equal(once, twice) {
			t.Errorf("%q, then %q", once, twice)
		}
	})
}

// FuzzPolicy reads hostile policies.
func FuzzPolicy(f *testing.F) {
	f.Add("base strict\nalso x\n")
	f.Fuzz(func(t *testing.T, s string) { _, _ = ParsePolicy(strings.NewReader(s)) })
}

// A memory is a file in memory.
type memory struct {
	b   []byte
	off int64
}

func (m *memory) Write(p []byte) (int, error) {
	if n := m.off + int64(len(p)); n > int64(len(m.b)) {
		m.b = append(m.b, make([]byte, n-int64(len(m.b)))...)
	}
	copy(m.b[m.off:], p)
	m.off += int64(len(p))
	return len(p), nil
}

func (m *memory) Seek(off int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		off += m.off
	case io.SeekEnd:
		off += int64(len(m.b))
	}
	m.off = off
	return off, nil
}
