package main

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
)

// S01, S02: chains of programs that lld has linked, whose file offsets are not
// their addresses, are whole: by frame pointers, and by call frame information
// of programs that are not position independent.
func TestLLDChains(t *testing.T) {
	h := newHost(t)
	perftest.NeedTool(t, "ld.lld")
	h.cc("fp", spinSource, "-fuse-ld=lld", "-O0")
	h.cc("nopie", spinSource, "-fuse-ld=lld", "-no-pie", "-fomit-frame-pointer", "-fno-optimize-sibling-calls")
	h.cc("pie", spinSource, "-fuse-ld=lld", "-pie", "-fPIE", "-fomit-frame-pointer", "-fno-optimize-sibling-calls")
	for name, how := range map[string][]string{
		"fp":    {"-g"},
		"nopie": {"--call-graph", "dwarf"},
		"pie":   {"--call-graph", "dwarf"},
	} {
		data := h.record(append(how, "-F", "199", "--", "./"+name, "100000000")...)
		code, out, stderr := runArgs(t, "", "report", "-q", "-i", data, "--no-children", "-g", "folded,0,caller", "-s", "dso,sym")
		if code != 0 || !strings.Contains(out, "main;hot_mid;hot_leaf\n") {
			t.Errorf("%s: exit status %d\n%s%s", name, code, out, stderr)
		}
	}
}

// S40: symbols in .gnu_debugdata need no step by hand: those of the program in
// a bundle are read where it is opened.
func TestMiniDebugInfoBundle(t *testing.T) {
	h := newHost(t)
	perftest.NeedTool(t, "xz")
	perftest.NeedTool(t, "objcopy")
	h.cc("mini", spinSource)
	h.sh(`objcopy -S --remove-section .comment --keep-symbol=hot_leaf --keep-symbol=hot_mid --keep-symbol=main mini m
xz m
strip mini
objcopy --add-section .gnu_debugdata=m.xz mini
rm m.xz`)
	data := h.record("--", "./mini", "100000000")
	p := h.pack(data)
	if p.code != 0 {
		t.Fatalf("archive: exit status %d: %s", p.code, p.stderr)
	}
	if got := h.report(data, p.Archive); !strings.Contains(got, "[.] hot_leaf") {
		t.Errorf("from the archive alone:\n%s", got)
	}
}

// B11, B12: what goes for the Build ID of a Go program is its GNU id alone,
// never the text of its Go id in hex; and a program without one is used with a
// word about it.
func TestGoBuildIDs(t *testing.T) {
	h := newHost(t)
	h.goBuild("both", goSpin, "-B gobuildid")
	h.goBuild("goid", goSpin, "-B none")
	for _, name := range []string{"both", "goid"} {
		data := h.record("--", "./"+name)
		p := h.pack(data)
		found := false
		for _, o := range p.Objects {
			if len(o.Paths) == 0 || !strings.HasSuffix(string(o.Paths[0]), "/"+name) {
				continue
			}
			found = true
			if o.GoID == "" || strings.Contains(fmt.Sprint(o.ID), hex.EncodeToString([]byte(o.GoID))[:16]) {
				t.Errorf("%s: id %q, Go id %q", name, o.ID, o.GoID)
			}
			if want := gnuID(t, h, name); fmt.Sprint(o.ID) != want {
				t.Errorf("%s: id %q, want %q", name, o.ID, want)
			}
		}
		if !found {
			t.Errorf("%s is not in %+v", name, p.Objects)
		}
		code, out, stderr := runArgs(t, "", "report", "-i", data, "--symbols", p.Archive, "-s", "sym")
		if told := strings.Contains(stderr, "unverified: "); code != 0 || !strings.Contains(out, "main.hotLeaf") || told != (name == "goid") || told != strings.Contains(stderr, "perfark doctor "+data+" tells") {
			t.Errorf("%s: exit status %d\n%s%s", name, code, out, stderr)
		}
	}
}

// gnuID returns the Build ID that readelf prints for a program, "" for none.
func gnuID(t *testing.T, h *host, name string) string {
	t.Helper()
	perftest.NeedTool(t, "readelf")
	r := perftest.Run(t, h.dir, nil, nil, "readelf", "-n", name)
	_, id, _ := strings.Cut(r.Stdout, "Build ID: ")
	id, _, _ = strings.Cut(id, "\n")
	return strings.TrimSpace(id)
}

// P14, P18, P19: what is printed of many equal stacks is as small as the stacks
// are few, and counts them all.
func TestManyEqualStacks(t *testing.T) {
	const n, stacks = 20000, 50
	var text strings.Builder
	text.WriteString("event cycles sample=+CALLCHAIN\ncomm pid=10 tid=10 name=w time=1\nmmap2 pid=10 tid=10 start=0x400000 len=0x100000 prot=5 flags=2 name=/no/w time=2\n")
	for i := range n {
		fmt.Fprintf(&text, "sample ip=%#x pid=10 tid=10 time=%d period=1 chain=user,%#x,0x400456,0x400789\n", 0x401000+i%stacks, 3+i, 0x401000+i%stacks)
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PERF_CONFIG", "/dev/null")
	data := perftest.File(t, text.String()+"finished_round\n")
	code, script, stderr := runArgs(t, "", "script", "-q", "-i", data)
	if got := strings.Count(script, "[000]"); code != 0 || got != n {
		t.Fatalf("script: exit status %d, %d samples: %s\n%s", code, got, stderr, script[:min(len(script), 300)])
	}
	for _, args := range [][]string{{"--json"}, {"-g", "folded,0,caller,count"}, {"-g", "caller,0"}} {
		code, out, stderr := runArgs(t, "", append([]string{"report", "-q", "-i", data, "--no-children", "-s", "comm"}, args...)...)
		if code != 0 || len(out) == 0 || len(out) > len(script)/10 {
			t.Errorf("%q: exit status %d, %d bytes, script has %d: %s", args, code, len(out), len(script), stderr)
		}
		if args[0] != "-g" || !strings.HasPrefix(args[1], "folded") {
			continue
		}
		sum, lines := 0, 0
		for line := range strings.Lines(out) {
			var count int
			if _, err := fmt.Sscanf(line, "%d 0x400789;0x400456;0x401", &count); err == nil {
				sum, lines = sum+count, lines+1
			}
		}
		if sum != n || lines != stacks {
			t.Errorf("%d lines for %d samples, want %d for %d:\n%s", lines, sum, stacks, n, out[:min(len(out), 400)])
		}
	}
}

// A file that --vmlinux names is used for a kernel with its Build ID alone, and
// the report says why it is not.
func TestVmlinuxRefused(t *testing.T) {
	text := perftest.CC(t, "prog", "int main(void) { return 0; }\n", "-Wl,--build-id=0x"+strings.Repeat("ab", 20))
	data := perftest.File(t, fmt.Sprintf(`mmap pid=-1 tid=0 start=0xffffffff81000000 len=0x1000000 pgoff=0xffffffff81000000 name=[kernel.kallsyms]_text
comm pid=5 tid=5 name=x
sample pid=5 tid=5 period=1 ip=0xffffffff81000010
feature build_id {
	build_id pid=-1 mode=kernel id=%s name=[kernel.kallsyms]
}
`, strings.Repeat("cd", 20)))
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PERF_CONFIG", "/dev/null")
	for file, want := range map[string]string{text: "carries build id " + strings.Repeat("ab", 20), data: "not an ELF file", "/no/such": "no such file"} {
		code, _, stderr := runArgs(t, "", "report", "-i", data, "--vmlinux", file)
		if wantCode := map[bool]int{true: 1}[file == "/no/such"]; code != wantCode || !strings.Contains(stderr, want) || !strings.Contains(stderr, file) {
			t.Errorf("--vmlinux %s: exit status %d, %s, want %q", file, code, stderr, want)
		}
	}
}
