package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/perfark/perfark/annotate"
	"github.com/perfark/perfark/internal/perftest"
)

// TestAnnotateBPFRecorded: the code of BPF programs, and the lines of their
// sources, are those that the recording has; what they call in the kernel is
// named by kallsyms of the same boot.
func TestAnnotateBPFRecorded(t *testing.T) {
	needIced(t)
	t.Setenv("HOME", t.TempDir())
	t.Chdir(t.TempDir())
	data := string(bpfRecording(t, false))
	if err := os.WriteFile("kallsyms", []byte("ffffffff81000000 T _text\nffffffff81000010 T schedule\nffffffff82000000 T _etext\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := runArgs(t, data, "annotate", "--stdio", "-i", "-", "-s", "bpf_prog_1111111111111111_prog_main")
	for _, want := range []string{
		" of bpf_prog_1111111111111111_prog_main for ", "ffffffffc0500000 <bpf_prog_1111111111111111_prog_main>:",
		": 12               return helper(n);\n", "   42.86 :   ffffffffc0500024:       ret\n",
	} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit status %d: %s: no %q in\n%s", code, errs, want, out)
		}
	}
	if strings.Contains(out, "Disassembly of section") || strings.Contains(out, "\x00") {
		t.Errorf("a section, or lines that nobody knows, are shown:\n%s", out)
	}
	code, out, errs = runArgs(t, data, "annotate", "--stdio", "-i", "-", "-s", "bpf_prog_2222222222222222_helper", "--kallsyms", "kallsyms")
	if want := "  100.00 :   ffffffffc0500108:       jmp    ffffffff81000010 <schedule>\n"; code != 0 || !strings.Contains(out, want) {
		t.Errorf("exit status %d: %s: no %q in\n%s", code, errs, want, out)
	}

	// A file of the recorded name counts if it has the recorded lines.
	lines := make([]string, 12)
	lines[10], lines[11] = "int n = 1;", "    return helper(n);"
	for i, want := range []bool{true, false} {
		if i == 1 {
			lines[11] = "return helper(n + 1);"
		}
		if err := os.WriteFile("prog.c", []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, errs := runArgs(t, data, "annotate", "--stdio", "-i", "-", "-s", "bpf_prog_1111111111111111_prog_main")
		if code != 0 || strings.Contains(out, "int n = 1;") != want || !strings.Contains(out, "return helper(n);") {
			t.Errorf("%d: exit status %d: %s\n%s", i, code, errs, out)
		}
	}

	// Without the description of the program, there is no code.
	data = string(perftest.Data(t, `event cycles
comm pid=5 tid=5 name=x
ksymbol addr=0xffffffffc0500000 len=0x80 kind=1 name=bpf_prog_1111111111111111_prog_main time=1
sample pid=5 tid=5 period=4 time=2 ip=0xffffffffc0500004
`))
	code, out, errs = runArgs(t, data, "annotate", "--stdio", "-i", "-")
	if code != 1 || out != "" || !strings.Contains(errs, "no code bytes were recorded for it: a BPF program\nperfark: hint: record as root, and without --no-bpf-event\n") {
		t.Errorf("exit status %d: %s%s", code, errs, out)
	}
}

const hotBPFSource = `
#define SEC(x) __attribute__((section(x), used))
struct __sk_buff { unsigned int len; };
static __attribute__((noinline)) int mix(int n) {
	int t = 1;
	for (int i = 0; i < 3000; i++)
		t = t * 31 + (i ^ n);
	return t;
}
SEC("tc")
int hot_prog(struct __sk_buff *skb) {
	return mix(skb->len) & 1;
}
char _license[] SEC("license") = "GPL";
`

// TestAnnotateBPFReal: a BPF program that ran here. The perf of Debian cannot
// show its code; objdump reads the same bytes.
func TestAnnotateBPFReal(t *testing.T) {
	needIced(t)
	perftest.NeedTool(t, "perf")
	bpftool := perftest.NeedTool(t, "bpftool")
	objdump := perftest.NeedTool(t, "objdump")
	clang := ""
	for _, name := range []string{"clang", "clang-14", "clang-19"} {
		if r := perftest.Run(t, ".", nil, nil, "which", name); r.Code == 0 && clang == "" {
			clang = name
		}
	}
	if os.Geteuid() != 0 || clang == "" {
		t.Skip("NOTICE: not root, or no clang: no BPF program can be made and loaded")
	}
	dir := t.TempDir()
	fs := filepath.Join(dir, "bpf")
	if err := os.Mkdir(fs, 0o700); err != nil {
		t.Fatal(err)
	}
	if r := perftest.Run(t, dir, nil, nil, "mount", "-t", "bpf", "bpf", fs); r.Code != 0 {
		t.Skipf("NOTICE: no file system of BPF programs: %s", r.Stderr)
	}
	defer perftest.Run(t, dir, nil, nil, "umount", fs)
	for name, text := range map[string]string{"hot.c": hotBPFSource, "in": strings.Repeat("x", 64)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if r := perftest.Run(t, dir, nil, nil, clang, "-O2", "-g", "-target", "bpf", "-c", "hot.c", "-o", "hot.o"); r.Code != 0 {
		t.Skipf("NOTICE: clang: %s", r.Stderr)
	}
	if r := perftest.Run(t, dir, nil, nil, bpftool, "prog", "load", "hot.o", fs+"/hot"); r.Code != 0 {
		t.Skipf("NOTICE: no BPF program can be loaded: %s", r.Stderr)
	}
	data := filepath.Join(t.TempDir(), "perf.data")
	perftest.Perf(t, "record", "-N", "-o", data, "-e", "cpu-clock", "-F", "5000", "--", bpftool, "prog", "run", "pinned", fs+"/hot", "data_in", filepath.Join(dir, "in"), "repeat", "20000")
	if _, err := os.Stat(data); err != nil {
		t.Skip("NOTICE: perf does not record here")
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PERF_CONFIG", "/dev/null")
	bundle := filepath.Join(t.TempDir(), "x.perfark")
	if code, _, errs := runArgs(t, "", "archive", "--all", "--allow-missing", "-o", bundle, data); code != 0 {
		t.Fatal(errs)
	}
	if err := os.Remove(filepath.Join(dir, "hot.c")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	_, out, errs := runArgs(t, "", "report", "-i", bundle, "--stdio", "--no-children", "-s", "sym")
	name := regexp.MustCompile(`bpf_prog_[0-9a-f]{16}_mix`).FindString(out)
	if name == "" {
		t.Fatalf("no samples in the program: %s%s", out, errs)
	}
	code, out, errs := runArgs(t, "", "annotate", "--stdio", "-i", bundle, "-s", name)
	if code != 0 || !strings.Contains(out, "t = t * 31 + (i ^ n);") {
		t.Errorf("exit status %d: %s\n%s", code, errs, out)
	}
	code, out, errs = runArgs(t, "", "annotate", "--json", "-i", bundle, "-s", name)
	var doc annotate.Document
	if err := json.Unmarshal([]byte(out), &doc); err != nil || code != 0 || len(doc.Functions) != 1 {
		t.Fatalf("exit status %d, %v: %s", code, err, errs)
	}
	var raw, text bytes.Buffer
	for _, l := range doc.Functions[0].Lines {
		b, err := hex.DecodeString(l.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		raw.Write(b)
		text.WriteString(strings.TrimRight(targetName.ReplaceAllString(l.Text, ""), " ") + "\n")
	}
	if err := os.WriteFile("code", raw.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	start := doc.Functions[0].Lines[0].Addr
	r := perftest.Run(t, ".", nil, nil, objdump, "-D", "-b", "binary", "-m", "i386:x86-64", "--no-show-raw-insn", "--adjust-vma=0x"+strconv.FormatUint(start, 16), "code")
	var want strings.Builder
	for _, m := range regexp.MustCompile(`(?m)^ *[0-9a-f]+:\t(.*)$`).FindAllStringSubmatch(string(r.Stdout), -1) {
		want.WriteString(strings.TrimRight(targetAddr.ReplaceAllString(m[1], "$1"), " ") + "\n")
	}
	if text.String() != want.String() || text.Len() == 0 {
		t.Error(firstDifference(text.String(), want.String()))
	}
}
