package main

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
)

const kcoreID = "0102030405060708090a0b0c0d0e0f1011121314"

// kcoreDir makes a directory as /proc, of a kernel with the functions schedule
// and pick_next and a module with mod_work, and a recording with samples in all
// of them.
func kcoreDir(t *testing.T, dir string) (data []byte) {
	t.Helper()
	gcc := perftest.NeedTool(t, "gcc")
	source := `.text
_text: .skip 64, 0x90
schedule: nop
	call pick_next
	ret
	nopw 0(%rax,%rax,1)
	.p2align 4
pick_next: inc %eax
	jnz pick_next
	ret
	.skip 11, 0x90
	.p2align 12
mod_work: dec %ecx
	jnz mod_work
	.quad 0
	.p2align 12
`
	tmp := t.TempDir()
	if err := os.WriteFile(filepath.Join(tmp, "k.s"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := perftest.Run(t, tmp, nil, nil, gcc, "-c", "-o", "k.o", "k.s"); r.Code != 0 {
		t.Skipf("gcc: %s", r.Stderr)
	}
	f, err := elf.Open(filepath.Join(tmp, "k.o"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Machine != elf.EM_X86_64 {
		t.Skip("not x86-64")
	}
	code, err := f.Section(".text").Data()
	if err != nil {
		t.Fatal(err)
	}
	const text, module = 0xffffffff9d000000, 0xffffffffc0100000
	write := func(name string, b []byte) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("kcore", perftest.Core(uint16(f.Machine), binary.LittleEndian,
		perftest.CoreSegment{Addr: text, Data: code[:4096]}, perftest.CoreSegment{Addr: module, Data: code[4096:]}))
	write("kallsyms", []byte("ffffffff9d000000 T _stext\nffffffff9d000000 T _text\nffffffff9d000040 T schedule\nffffffff9d000050 t pick_next\nffffffff9d000060 T behind\nffffffff9d001000 T _etext\n"+
		"ffffffffc0100000 t mod_work\t[mod]\nffffffffc0100004 t mod_data\t[mod]\n"))
	write("modules", []byte("mod 4096 0 - Live 0xffffffffc0100000\n"))
	return perftest.Data(t, `event cycles
mmap pid=-1 tid=0 start=0xffffffff9d000000 len=0x1000 pgoff=0xffffffff9d000000 name="[kernel.kallsyms]_text" misc=1
mmap pid=-1 tid=0 start=0xffffffffc0100000 len=0x1000 name=/lib/modules/6.1/mod.ko misc=1
comm pid=10 tid=10 name=w time=1
sample ip=0xffffffff9d000041 pid=10 tid=10 time=3 period=6 misc=1
sample ip=0xffffffff9d000052 pid=10 tid=10 time=4 period=4 misc=1
sample ip=0xffffffffc0100002 pid=10 tid=10 time=4 period=5 misc=1
feature build_id {
	build_id pid=-1 id=`+kcoreID+` name=[kernel.kallsyms] misc=1
}
`)
}

var kcoreWant = []string{
	"Disassembly of section load0:", "ffffffff9d000040 <schedule>:",
	"  100.00 :   ffffffff9d000041:       call   ffffffff9d000050 <pick_next>\n", "    0.00 :   ffffffff9d000046:       ret\n",
	"ffffffff9d000050 <pick_next>:", "  100.00 :   ffffffff9d000052:       jne    ffffffff9d000050 <pick_next>\n",
	"ffffffffc0100000 <mod_work>:", "  100.00 :   ffffffffc0100002:       jne    ffffffffc0100000 <mod_work>\n",
}

// TestAnnotateKcore: kernel functions come from a copy of the memory that they
// were in: beside the recording, in a cache, in a bundle; of another boot none is
// used. What stock perf shows of it is the same but for names.
func TestAnnotateKcore(t *testing.T) {
	needIced(t)
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PERF_CONFIG", "/dev/null")
	proc := filepath.Join(t.TempDir(), "proc")
	recording := kcoreDir(t, proc)
	file := filepath.Join(t.TempDir(), "perf.data")
	if err := os.WriteFile(file, recording, 0o600); err != nil {
		t.Fatal(err)
	}
	// A directory of perf record --kcore, and the bundle of it.
	dir := filepath.Join(t.TempDir(), "dir.data")
	kcoreDir(t, filepath.Join(dir, "kcore_dir"))
	if err := os.WriteFile(filepath.Join(dir, "data"), recording, 0o600); err != nil {
		t.Fatal(err)
	}
	annotate := func(t *testing.T, cache, input string) string {
		t.Helper()
		code, out, errs := runArgs(t, "", "--buildid-dir", cache, "annotate", "--stdio", "-i", input)
		for _, want := range kcoreWant {
			if code != 0 || !strings.Contains(out, want) {
				t.Fatalf("exit status %d, %s: no %q in\n%s", code, errs, want, out)
			}
		}
		if strings.Contains(out, "nopw") {
			t.Errorf("the padding behind schedule is shown:\n%s", out)
		}
		return out
	}
	empty := t.TempDir()
	t.Run("directory", func(t *testing.T) { annotate(t, empty, dir) })
	t.Run("perf", func(t *testing.T) {
		perftest.NeedTool(t, "perf")
		perftest.NeedTool(t, "objdump")
		for _, symbol := range []string{"schedule", "pick_next", "mod_work"} {
			args := []string{"annotate", "--stdio", "-i", dir, "-s", symbol}
			want := perftest.PerfIn(t, ".", empty, nil, args...)
			if strings.Contains(string(want.Stderr), "version mismatch") {
				t.Skip("NOTICE: another perf")
			}
			_, got, _ := runArgs(t, "", append([]string{"--buildid-dir", empty}, args...)...)
			if g, w := nameless(got), nameless(string(want.Stdout)); g != w || g == "" {
				t.Errorf("%s: %s\n%s", symbol, firstDifference(g, w), want.Stderr)
			}
		}
	})
	bundle := filepath.Join(t.TempDir(), "k.perfark")
	code, _, errs := runArgs(t, "", "--buildid-dir", empty, "archive", "--all", "--allow-missing", "-o", bundle, dir)
	if code != 0 {
		t.Fatalf("archive: exit status %d: %s", code, errs)
	}
	t.Run("bundle", func(t *testing.T) {
		annotate(t, empty, bundle)
		// The file of the module is missing.
		if code, _, errs := runArgs(t, "", "verify", bundle); code != 3 || strings.Contains(errs, "kcore") {
			t.Errorf("verify: exit status %d: %s", code, errs)
		}
	})
	t.Run("unpacked", func(t *testing.T) {
		cache := t.TempDir()
		t.Chdir(t.TempDir())
		if code, _, errs := runArgs(t, "", "--buildid-dir", cache, "unpack", bundle); code != 0 {
			t.Fatalf("unpack: exit status %d: %s", code, errs)
		}
		annotate(t, cache, file)
	})

	// buildid-cache -k, once and again.
	cache := t.TempDir()
	notes := filepath.Join(filepath.Dir(proc), "sys/kernel/notes")
	if err := os.MkdirAll(filepath.Dir(notes), 0o777); err != nil {
		t.Fatal(err)
	}
	note := "\x04\x00\x00\x00\x14\x00\x00\x00\x03\x00\x00\x00GNU\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14"
	if err := os.WriteFile(notes, []byte(note), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kcore added to ", "the same kcore is in "} {
		code, _, errs := runArgs(t, "", "--buildid-dir", cache, "buildid-cache", "-v", "-k", filepath.Join(proc, "kcore"))
		if code != 0 || !strings.Contains(errs, want+cache+"/[kernel.kcore]/"+kcoreID+"/") {
			t.Errorf("exit status %d: %s", code, errs)
		}
	}
	t.Run("cache", func(t *testing.T) { annotate(t, cache, file) })
	t.Run("redacted", func(t *testing.T) {
		out := filepath.Join(t.TempDir(), "r.perfark")
		if code, _, errs := runArgs(t, "", "--buildid-dir", cache, "redact", "--allow-missing", "-o", out, file); code != 0 && code != 3 {
			t.Skipf("redact: exit status %d: %s", code, errs)
		}
		b, err := os.ReadFile(out)
		if err != nil || strings.Contains(string(b), "kcore") {
			t.Errorf("%v, or a copy of kernel memory is in it", err)
		}
	})
	t.Run("another boot", func(t *testing.T) {
		data := perftest.File(t, `mmap pid=-1 tid=0 start=0xffffffff9e000000 len=0x1000 pgoff=0xffffffff9e000000 name="[kernel.kallsyms]_text" misc=1
comm pid=10 tid=10 name=w time=1
sample ip=0xffffffff9e000041 pid=10 tid=10 time=3 period=6 misc=1
feature build_id {
	build_id pid=-1 id=`+kcoreID+` name=[kernel.kallsyms] misc=1
}
`)
		kallsyms := filepath.Join(t.TempDir(), "kallsyms")
		if err := os.WriteFile(kallsyms, []byte("ffffffff9e000000 T _text\nffffffff9e000040 T schedule\nffffffff9e001000 T _etext\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, errs := runArgs(t, "", "--buildid-dir", cache, "annotate", "--stdio", "-i", data, "--kallsyms", kallsyms)
		if code != 1 || out != "" || !strings.Contains(errs, "at 0xffffffff9d000000; the recording, at 0xffffffff9e000000: another boot") {
			t.Errorf("exit status %d: %s%s", code, errs, out)
		}
	})
}

var (
	targetName = regexp.MustCompile(` <[^>]*>`)
	targetAddr = regexp.MustCompile(`\b0x(f{6,8}[0-9a-f]+)\b`)
)

// nameless is the instructions of a page without the names of addresses: perf
// has none of a copy of memory.
func nameless(page string) string {
	var b strings.Builder
	for line := range strings.Lines(page) {
		if instructionLine.MatchString(line) {
			b.WriteString(targetAddr.ReplaceAllString(targetName.ReplaceAllString(line, ""), "$1"))
		}
	}
	return b.String()
}
