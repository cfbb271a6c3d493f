package doctor

import (
	"bytes"
	"context"
	"io/fs"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/session"
	"github.com/perfark/perfark/store"
	"github.com/perfark/perfark/symbol"
)

func objfileMachine(m uint16) objfile.Machine { return objfile.Machine(m) }

// examine says what is wrong with the recording that a text describes.
func examine(t *testing.T, text string, r Recording) []string {
	t.Helper()
	b := perftest.Data(t, text)
	f, err := perfdata.New(bytes.NewReader(b), int64(len(b)), "test.data", perfdata.Options{})
	if err != nil {
		t.Fatal(err)
	}
	res, err := session.Load(t.Context(), f, session.Options{Keep: session.KeepStacks})
	if err != nil {
		t.Fatal(err)
	}
	out, err := symbol.Resolve(t.Context(), res.Profile, symbol.Options{Source: r.Source})
	if err != nil {
		t.Fatal(err)
	}
	r.File, r.Session, r.Outcome = f, res, out
	list, err := r.Findings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, line := range lines(list) {
		got = append(got, strings.TrimPrefix(count(list[i].Samples, "sample"), "0 samples")+" "+line)
	}
	return got
}

const id = "0123456789abcdef0123456789abcdef01234567"

func TestRecording(t *testing.T) {
	elsewhere := Recording{Name: "a b.data", Caller: "nobody (uid 65534)", Elsewhere: []string{"/root/.debug"}}
	here := Recording{Here: true}
	tests := []struct {
		name  string
		text  string
		r     Recording
		begin string
		parts []string
	}{
		{
			name: "not found, from another host", // P20: the files exist on the host of the CI only
			text: `
				mmap2 pid=1 tid=1 start=0x1000 len=0x1000 prot=5 id=` + id + ` name=/usr/bin/x
				sample ip=0x1100 pid=1 tid=1
				feature hostname ci7
				feature osrelease 5.14.0-427.el9.x86_64
				feature cmdline perf record -- ./x`,
			begin: "1 sample symbols loss: /usr/bin/x: no file with this build id was found",
			parts: []string{"perfark archive (on ci7 (Red Hat Enterprise Linux or a relative))", "debuginfod-find executable " + id},
		},
		{
			name: "another user's cache", // S15
			r:    elsewhere,
			text: `
				mmap2 pid=1 tid=1 start=0x1000 len=0x1000 prot=5 id=` + id + ` name=/usr/bin/x
				sample ip=0x1100 pid=1 tid=1`,
			begin: "1 sample symbols loss: /usr/bin/x",
			parts: []string{"/root/.debug, which nobody (uid 65534) cannot read, may hold it | sudo perfark archive -i 'a b.data'"},
		},
		{
			name: "no kernel symbols, another user", // S15
			r:    elsewhere,
			text: `
				mmap pid=-1 tid=0 start=0xffffffff81000000 len=0x1000000 name=[kernel.kallsyms]_stext pgoff=0xffffffff81000000
				sample ip=0xffffffff81000100 pid=1 tid=1`,
			begin: "1 sample kernel loss: [kernel.kallsyms]: ",
			parts: []string{"| sudo perfark archive -i 'a b.data' | "},
		},
		{
			name:  "kernel hidden", // S13
			text:  "sample ip=0xffffffff81000100 pid=1 tid=1\nfeature cmdline perf record -a",
			begin: "1 sample kernel-addrs loss: kernel addresses without a mapping",
			parts: []string{"sudo sysctl kernel.kptr_restrict=0 && sudo perf record -a"},
		},
		{
			name: "gone when the recording ended", // C23
			r:    here,
			text: `
				mmap2 pid=1 tid=1 start=0x1000 len=0x1000 prot=5 maj=8 min=1 ino=7 name=/mnt/app/prog
				sample ip=0x1100 pid=1 tid=1
				feature build_id {
					build_id pid=-1 id=` + id + ` name=/usr/bin/other
				}`,
			begin: "1 sample namespace loss: /mnt/app/prog: ",
			parts: []string{"the file was gone when the recording ended (deleted, or its file system unmounted), or is in another mount namespace", "perf record --buildid-mmap"},
		},
		{
			name: "gone, with its id", // C23
			r:    here,
			text: `
				mmap2 pid=1 tid=1 start=0x1000 len=0x1000 prot=5 id=` + id + ` name=/mnt/app/prog
				sample ip=0x1100 pid=1 tid=1`,
			begin: "1 sample namespace loss: /mnt/app/prog: ",
			parts: []string{"its id is known", "perfark buildid-cache --add COPY-OF-THE-FILE-THAT-RAN"},
		},
		{
			name: "recorded with -B",
			text: `
				mmap2 pid=1 tid=1 start=0x1000 len=0x1000 prot=5 maj=8 min=1 ino=7 name=/opt/prog
				sample ip=0x1100 pid=1 tid=1
				feature cmdline perf record -B -g -- ./prog`,
			begin: "1 sample build-ids loss: /opt/prog: no build id in the recording",
			parts: []string{"perf record was told to take none (-B)", "perf record --buildid-mmap -g -- ./prog && perfark archive"},
		},
		{
			name: "an object that only calls", // --buildid-all
			text: `
				event cpu-clock sample=+CALLCHAIN
				mmap2 pid=1 tid=1 start=0x1000 len=0x1000 prot=5 maj=8 min=1 ino=7 name=/opt/lib
				mmap2 pid=1 tid=1 start=0x8000 len=0x1000 prot=5 maj=8 min=1 ino=8 name=/opt/prog
				sample ip=0x8100 pid=1 tid=1 chain=user,0x8100,0x1100,0x8200
				feature build_id {
					build_id pid=-1 id=` + id + ` name=/opt/prog
				}`,
			begin: "1 sample build-ids loss: /opt/lib: no build id in the recording",
			parts: []string{"perf takes ids for objects in which a sample was", "perf record --buildid-all"},
		},
		{
			name: "run-time code",
			text: `
				mmap2 pid=5 tid=5 start=0x1000 len=0x1000 prot=5 id=` + id + ` name=/usr/lib/jvm/lib/server/libjvm.so
				mmap2 pid=5 tid=5 start=0x8000 len=0x1000 prot=5 name=//anon
				comm pid=5 tid=5 name=java
				sample ip=0x8100 pid=5 tid=5`,
			begin: "1 sample jit loss: /tmp/perf-5.map: ",
			parts: []string{"of process 5 (java), which runs Java", "DumpPerfMapAtExit", "-k mono"},
		},
		{
			name: "jitdump with another clock",
			text: `
				mmap2 pid=5 tid=5 start=0x1000 len=0x1000 prot=5 maj=8 min=1 ino=7 name=/tmp/jit-5.dump
				mmap2 pid=5 tid=5 start=0x8000 len=0x1000 prot=5 name=//anon
				sample ip=0x8100 pid=5 tid=5
				feature cmdline perf record -g -- java A`,
			begin: "1 sample clock loss: a program wrote a jitdump",
			parts: []string{"perf record -k mono -g -- java A"},
		},
		{
			name:  "lost",
			text:  "sample ip=0x1100 pid=1 tid=1\nlost lost=7\nlost_samples lost=9\nfeature cmdline perf record -F 9999 -a",
			begin: "9 samples lost loss: the kernel lost 7 records and 9 samples",
			parts: []string{"| perf record -m 16M -F 9999 -a", "| perf record -F 99 -a"},
		},
		{
			name:  "throttled",
			text:  "sample ip=0x1100 pid=1 tid=1\nthrottle\nthrottle",
			begin: " throttled risk: the kernel stopped taking samples 2 times for a while",
		},
		{
			name:  "killed",
			text:  "file killed\nsample ip=0x1100 pid=1 tid=1",
			begin: " truncated loss: the recording is damaged or cut off",
			parts: []string{"kill -INT, not kill -9"},
		},
		{
			name:  "empty",
			text:  "mmap2 pid=1 tid=1 start=0x1000 len=0x1000 prot=5 name=/opt/prog",
			begin: " empty loss: the recording has no samples",
		},
		{
			name:  "no chains",
			text:  "sample ip=0x1100 pid=1 tid=1\nfeature cmdline perf record ./a",
			begin: " no-chains note: no call chains were recorded",
			parts: []string{"| perf record -g ./a"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { wantLine(t, examine(t, tt.text, tt.r), tt.begin, tt.parts...) })
	}
}

// Chains that end at once, or in nowhere, are those of code without frame
// pointers, unless the code shows that it has them.
func TestFramePointers(t *testing.T) {
	text := `
		event cpu-clock sample=+CALLCHAIN
		mmap2 pid=1 tid=1 start=0x400000 len=0x10000 pgoff=0x0 prot=5 id=ID name=/opt/prog
		feature cmdline perf record -g -- ./prog
	` + strings.Repeat("sample ip=0x401140 pid=1 tid=1 chain=user,0x401140\n", 12) +
		strings.Repeat("sample ip=0x401140 pid=1 tid=1 chain=user,0x401140,0x401150,0x99999999\n", 12)
	got := examine(t, strings.ReplaceAll(text, "ID", id), Recording{Here: true, Host: tree{}.host(t)})
	wantLine(t, got, "24 samples frame-ptr loss: /opt/prog: call chains end in it: it seems to be built without frame pointers", "perf record --call-graph dwarf -- ./prog", "-fno-omit-frame-pointer")
	for _, tt := range []struct {
		flag string
		want bool
	}{{"-fomit-frame-pointer", true}, {"-fno-omit-frame-pointer", false}} {
		src := "__attribute__((noinline)) int spin(int n) { volatile int x[8] = {n}; for (int i = 0; i < n; i++) x[i % 8] += i; return x[n % 8]; }\nint main(int c, char **v) { return spin(c); }\n"
		prog := perftest.CC(t, "prog", src, "-O1", tt.flag, "-no-pie", "-Wl,-z,noseparate-code")
		own, err := store.FileID(prog)
		if err != nil {
			t.Fatal(err)
		}
		at := ""
		for line := range strings.Lines(perftest.Run(t, t.TempDir(), nil, nil, "nm", prog).Stdout) {
			if words := strings.Fields(line); len(words) == 3 && words[2] == "spin" {
				at = "0x" + strings.TrimLeft(words[0], "0")
			}
		}
		one := strings.ReplaceAll(strings.ReplaceAll(text, "ID", own.String()), "0x401140", at)
		found := strings.Contains(strings.Join(examine(t, one, Recording{Here: true, Source: store.OneFile(prog)}), "\n"), "frame-ptr loss: /opt/prog: call chains end in it, as it is built without frame pointers (0 of 1 functions")
		if found != tt.want {
			t.Errorf("%s: found %v\n%s", tt.flag, found, strings.Join(examine(t, one, Recording{Here: true, Source: store.OneFile(prog)}), "\n"))
		}
	}
}

// A programs is a Source of programs by their recorded path.
type programs map[string]string

func (p programs) Get(ctx context.Context, k store.Key) (*store.File, error) {
	if name, ok := p[k.Path]; ok && k.Kind == store.ELF {
		return store.OneFile(name).Get(ctx, k)
	}
	return nil, fs.ErrNotExist
}

// The packages of several objects can be installed by one command.
func TestPackagesAtOnce(t *testing.T) {
	src := "__attribute__((noinline)) static int f(int x) { return x * 3; }\nint main(int c, char **v) { return f(c); }\n"
	text, files := "", programs{}
	for i, name := range []string{"env", "ceph-osd"} {
		id := strings.Repeat([]string{"a1", "b2"}[i], 20)
		files["/usr/bin/"+name] = perftest.CC(t, name, src, "-s", "-Wl,--build-id=0x"+id)
		text += strings.NewReplacer("START", []string{"0x10000", "0x20000"}[i], "ID", id, "NAME", name).Replace(`
			mmap2 pid=1 tid=1 start=START len=0x1000 pgoff=0x1000 prot=5 id=ID name=/usr/bin/NAME
			sample ip=START pid=1 tid=1
		`)
	}
	got := examine(t, text, Recording{Here: true, Host: tree{}.host(t), Source: files})
	wantLine(t, got, "1 sample symbols loss: /usr/bin/env: stripped", "the package is coreutils")
	wantLine(t, got, "1 sample symbols loss: /usr/bin/ceph-osd: stripped", "| sudo apt install ceph-osd-dbg (the package is ceph-osd)")
	wantLine(t, got, " symbols note: the debug packages of all of these at once", "sudo apt install ceph-osd-dbg coreutils-dbgsym")
}
