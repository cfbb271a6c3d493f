package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
)

// moduleSource is a kernel module, as far as its file goes: two sections of
// code that stay, the second aligned, one that is freed after start, and a
// Build ID.
const moduleSource = `
__asm__(".pushsection .note.gnu.build-id,\"a\",@note\n"
	".balign 4\n.long 4, 20, 3\n.asciz \"GNU\"\n"
	".byte 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20\n.popsection");
int __attribute__((section(".init.text"))) mod_init(void) { return 1; }
int mod_first(int x) { return x * 3; }
int mod_second(int x) { return x * 5 + 1; }
int __attribute__((section(".text.hot"), aligned(64))) mod_hot(int x) { return x * 7 + 2; }
`

const moduleID = "0102030405060708090a0b0c0d0e0f1011121314"

// TestModules: S19, S20, S21 and S22; P18: no name is empty. A module is joined to its file by name, with - equal
// to _, and by id; whatever its name says, its contents tell how it is
// compressed; and its sections lie as the kernel lays them out.
func TestModules(t *testing.T) {
	perftest.NeedTool(t, "gcc")
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("PERF_CONFIG", "/dev/null")
	src := filepath.Join(dir, "m.c")
	if err := os.WriteFile(src, []byte(moduleSource), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := perftest.Run(t, dir, nil, nil, "gcc", "-c", "-O1", "-fcf-protection=none", "-o", "m.ko", src); r.Code != 0 {
		t.Fatalf("gcc: %s", r.Stderr)
	}
	r := perftest.Run(t, dir, nil, nil, "nm", "m.ko")
	if r.Code != 0 {
		t.Skipf("NOTICE: nm: %s", r.Stderr)
	}
	for name, how := range map[string][]string{
		"scsi-mod.ko":      nil,
		"scsi-mod.ko.xz":   {"xz", "-k", "-c"},
		"scsi-mod.ko.gz":   {"gzip", "-k", "-c"},
		"scsi-mod.ko.zst":  {"zstd", "-q", "-c"},
		"scsi-mod.ko.zstd": {"zstd", "-q", "-c"}, // S20
		"scsi_mod.ko":      {"gzip", "-k", "-c"}, // S20, too: no suffix at all
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			t.Setenv("HOME", home)
			b, err := os.ReadFile("m.ko")
			if err != nil {
				t.Fatal(err)
			}
			if how != nil {
				perftest.NeedTool(t, how[0])
				r := perftest.Run(t, dir, nil, nil, how[0], append(how[1:], "m.ko")...)
				if r.Code != 0 {
					t.Fatalf("%s: %s", how[0], r.Stderr)
				}
				b = []byte(r.Stdout)
			}
			recorded := "/lib/modules/1.2.3/kernel/" + name
			// In the cache, where perf puts what it met at this path.
			at := filepath.Join(home, ".debug", recorded, moduleID)
			link := filepath.Join(home, ".debug/.build-id/01")
			for _, d := range []string{at, link} {
				if err := os.MkdirAll(d, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(at, "elf"), b, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("../.."+recorded+"/"+moduleID, filepath.Join(link, moduleID[2:])); err != nil {
				t.Fatal(err)
			}
			// mod_first and mod_second are in .text, mod_hot on the next 64 bytes.
			data := perftest.File(t, fmt.Sprintf(`event cycles
mmap pid=-1 tid=0 start=0xffffffff81000000 len=0x1000000 pgoff=0xffffffff81000000 name=[kernel.kallsyms]_text
mmap pid=-1 tid=0 start=0xffffffffc0100000 len=0x2000 name=[scsi_mod]
comm pid=5 tid=5 name=x
sample pid=5 tid=5 period=1 ip=0xffffffffc0100000
sample pid=5 tid=5 period=1 ip=0xffffffffc0100004
sample pid=5 tid=5 period=1 ip=0xffffffffc0100040
sample pid=5 tid=5 period=1 ip=0xffffffffc0101800
feature build_id {
	build_id pid=-1 mode=kernel id=%s name=%s
}
`, moduleID, recorded))
			want := "[scsi_mod] mod_first\n[scsi_mod] mod_hot\n[scsi_mod] mod_second\n[scsi_mod] 0x0000000000001800\n"
			check := func(from string, args ...string) {
				code, out, stderr := runArgs(t, "", append([]string{"report", "-i", data, "--stdio", "--no-children", "-s", "dso,sym"}, args...)...)
				got := ""
				for line := range strings.Lines(rows(out)) {
					if f := strings.Fields(line); len(f) == 4 {
						got += f[1] + " " + f[3] + "\n"
					}
				}
				if code != 0 || got != want {
					t.Errorf("from %s: exit status %d\n%s\nwant\n%s\n%s", from, code, out, want, stderr)
				}
			}
			check("the cache")
			arc := filepath.Join(t.TempDir(), "x.tar.zst")
			if code, out, stderr := runArgs(t, "", "archive", "-i", data, "-o", arc); code != 0 {
				t.Errorf("archive: exit status %d\n%s\n%s", code, out, stderr)
			}
			t.Setenv("HOME", t.TempDir())
			check("the archive", "--symbols", arc)
		})
	}
}

// TestKcoreDir: a recording of perf record --kcore is a directory that has the
// kernel's symbols, too. They come before those of any other place, and go
// into the archive.
func TestKcoreDir(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	dir := filepath.Join(t.TempDir(), "perf.data")
	write := func(name string, b []byte) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(perftest.File(t, `event cycles
mmap pid=-1 tid=0 start=0xffffffff81000000 len=0x1000000 pgoff=0xffffffff81000000 name=[kernel.kallsyms]_text
comm pid=5 tid=5 name=x
sample pid=5 tid=5 period=1 ip=0xffffffff81000010
feature build_id {
	build_id pid=-1 id=aa*20 name=[kernel.kallsyms]
}
`))
	if err != nil {
		t.Fatal(err)
	}
	write("data", data)
	write("kcore_dir/kallsyms", []byte("ffffffff81000000 T _text\nffffffff81000010 T of_that_boot\nffffffff81000020 T _etext\n"))
	code, out, stderr := runArgs(t, "", "report", "-i", dir, "--stdio", "--no-children")
	if code != 0 || !strings.Contains(out, "[k] of_that_boot") {
		t.Errorf("exit status %d\n%s\n%s", code, out, stderr)
	}
	arc := filepath.Join(t.TempDir(), "x.tar.zst")
	if code, _, stderr = runArgs(t, "", "archive", "-i", dir, "-o", arc); code != 0 {
		t.Errorf("archive: exit status %d: %s", code, stderr)
	}
	if err := os.RemoveAll(filepath.Join(dir, "kcore_dir")); err != nil {
		t.Fatal(err)
	}
	if code, out, stderr = runArgs(t, "", "report", "-i", dir, "--symbols", arc, "--stdio", "--no-children"); code != 0 || !strings.Contains(out, "[k] of_that_boot") {
		t.Errorf("from the archive: exit status %d\n%s\n%s", code, out, stderr)
	}
}
