package doctor

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/perfark/perfark/internal/perftest"
)

// A tree is files of a host by name; a value that begins with -> is a link.
type tree map[string]string

// host makes a host of the files of a tree over those of one where nothing is
// wrong.
func (tr tree) host(t *testing.T) *Host {
	t.Helper()
	root := t.TempDir()
	files := tree{
		"etc/os-release":                              "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\nVERSION_ID=\"12\"\nVERSION_CODENAME=bookworm\n",
		"proc/sys/kernel/osrelease":                   "6.1.0-44-amd64\n",
		"proc/sys/kernel/kptr_restrict":               "0\n",
		"proc/sys/kernel/perf_event_paranoid":         "1\n",
		"proc/sys/kernel/perf_event_mlock_kb":         "516\n",
		"proc/sys/kernel/perf_event_max_stack":        "127\n",
		"proc/sys/kernel/perf_event_max_sample_rate":  "100000\n",
		"proc/self/status":                            "Name:\tperfark\nUid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\nSeccomp:\t0\n",
		"proc/self/ns/pid":                            "->" + initPIDNS,
		"proc/kallsyms":                               "ffffffff81000000 T _stext\n",
		"sys/bus/event_source/devices/cpu/type":       "4\n",
		"sys/kernel/security/lockdown":                "[none] integrity confidentiality\n",
		"var/lib/dpkg/info/coreutils.list":            "/.\n/bin\n/bin/ls\n/usr/bin/env\n",
		"var/lib/dpkg/info/libc6:amd64.list":          "/lib/x86_64-linux-gnu/libc.so.6\n",
		"var/lib/dpkg/info/libc6:i386.list":           "/lib/i386-linux-gnu/libc.so.6\n",
		"var/lib/dpkg/info/python3.11-minimal.list":   "/usr/bin/python3.11\n",
		"var/lib/dpkg/info/ceph-osd.list":             "/usr/bin/ceph-osd\n",
		"var/lib/apt/lists/deb_main_binary_Packages":  "Package: ceph-osd\nVersion: 1\n\nPackage: ceph-osd-dbg\nVersion: 1\n",
		"var/lib/apt/lists/deb_other_Packages.lz4":    "\x04\x22\x4d\x18",
		"var/lib/dpkg/info/coreutils.md5sums":         "0 /usr/bin/wrong\n",
		"var/lib/dpkg/info/linux-image-6.1.0-44.list": "/boot/vmlinuz\n",
	}
	for name, text := range tr {
		files[name] = text
	}
	for name, text := range files {
		if text == "" {
			continue
		}
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if to, ok := strings.CutPrefix(text, "->"); ok {
			err = os.Symlink(to, name)
		} else {
			err = os.WriteFile(name, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return ReadHost(root)
}

// user is the status of a process without privileges.
const user = "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\nSeccomp:\t0\n"

// lines writes findings so that they can be compared.
func lines(list []Finding) []string {
	var out []string
	for _, f := range list {
		s := string(f.Kind) + " " + f.Level.String() + ": "
		if f.Object != "" {
			s += f.Object + ": "
		}
		s += f.What
		for _, x := range f.Fixes {
			s += " | " + x.Command
			if x.When != "" {
				s += " (" + x.When + ")"
			}
		}
		out = append(out, s)
	}
	return out
}

// wantLine fails unless one of the lines begins with a text and holds others.
func wantLine(t *testing.T, got []string, begin string, parts ...string) {
	t.Helper()
	for _, line := range got {
		if strings.HasPrefix(line, begin) && !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(line, p) }) {
			return
		}
	}
	t.Errorf("no line that begins with %q and holds %q in\n%s", begin, parts, strings.Join(got, "\n"))
}

// Doctor predicts what a recording would miss (S13, S14).
func TestHost(t *testing.T) {
	tests := []struct {
		name  string
		files tree
		want  []string // one line each: its beginning
		parts []string // of the first
	}{
		{name: "root, nothing wrong"},
		{
			name:  "kptr_restrict 2, root",
			files: tree{"proc/sys/kernel/kptr_restrict": "2\n", "proc/kallsyms": "0000000000000000 T _stext\n"},
			want:  []string{"kernel-addrs loss: kernel.kptr_restrict is 2: nobody, not even root, sees kernel addresses"},
			parts: []string{"sudo sysctl kernel.kptr_restrict=1 && sudo perf record"},
		},
		{
			name:  "kptr_restrict 1, user",
			files: tree{"proc/sys/kernel/kptr_restrict": "1\n", "proc/kallsyms": "0000000000000000 T _stext\n", "proc/self/status": user, "proc/sys/kernel/perf_event_paranoid": "-1\n"},
			want:  []string{"kernel-addrs loss: kernel.kptr_restrict is 1 and CAP_SYSLOG is missing", "capability risk: CAP_SYS_PTRACE is missing"},
			parts: []string{"sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1"},
		},
		{
			name:  "paranoid 2, user",
			files: tree{"proc/kallsyms": "0000000000000000 T _stext\n", "proc/self/status": user, "proc/sys/kernel/perf_event_paranoid": "2\n"},
			want: []string{
				"capability loss: kernel.perf_event_paranoid is 2 and CAP_PERFMON is missing: no samples of the kernel",
				"kernel-addrs loss: kernel.perf_event_paranoid is 2 and CAP_SYSLOG is missing",
				"capability risk: CAP_SYS_PTRACE",
			},
			parts: []string{"| sudo sysctl kernel.perf_event_paranoid=1 (until the next boot)", "setcap cap_perfmon,cap_syslog,cap_sys_ptrace+ep"},
		},
		{
			name:  "paranoid 3, user",
			files: tree{"proc/self/status": user, "proc/sys/kernel/perf_event_paranoid": "3\n"},
			want:  []string{"capability loss: kernel.perf_event_paranoid is 3 and CAP_PERFMON is missing: this user can record nothing at all", "capability risk: "},
		},
		{
			name:  "CAP_PERFMON alone",
			files: tree{"proc/self/status": "Uid:\t1\t1\t1\t1\nCapEff:\t0000004000000000\n", "proc/sys/kernel/perf_event_paranoid": "4\n"},
			want:  []string{"capability risk: CAP_SYS_PTRACE is missing"},
		},
		{
			name:  "container",
			files: tree{"proc/self/status": "Uid:\t0\t0\t0\t0\nCapEff:\t00000000a80425fb\nSeccomp:\t2\n", "proc/self/ns/pid": "->pid:[4026532301]", "proc/sys/kernel/perf_event_paranoid": "-1\n"},
			want:  []string{"capability loss: a seccomp filter is active", "container risk: this runs in a container"},
			parts: []string{"docker run --cap-add PERFMON --security-opt seccomp=unconfined"},
		},
		{
			name:  "lockdown",
			files: tree{"sys/kernel/security/lockdown": "none integrity [confidentiality]\n"},
			want:  []string{"kernel-addrs loss: the kernel is locked down"},
		},
		{
			name:  "no perf events",
			files: tree{"proc/sys/kernel/perf_event_paranoid": "", "proc/kallsyms": ""},
			want:  []string{"no-events loss: the kernel has no perf events"},
		},
		{
			name:  "no kallsyms",
			files: tree{"proc/kallsyms": ""},
			want:  []string{"kernel-addrs loss: there is no /proc/kallsyms"},
		},
		{
			name:  "no counters",
			files: tree{"sys/bus/event_source/devices/cpu/type": "", "sys/bus/event_source/devices/software/type": "1\n"},
			want:  []string{"no-events risk: this machine shows no counters"},
		},
		{
			name: "limits",
			files: tree{"proc/sys/kernel/perf_event_max_sample_rate": "750\n", "proc/sys/kernel/perf_event_max_stack": "16\n",
				"proc/sys/kernel/perf_event_mlock_kb": "8\n", "proc/self/status": user, "proc/sys/kernel/perf_event_paranoid": "-1\n"},
			want: []string{
				"capability risk: CAP_SYS_PTRACE",
				"lost risk: kernel.perf_event_mlock_kb is 8",
				"throttled risk: kernel.perf_event_max_sample_rate is 750 a second",
				"deep-chains risk: kernel.perf_event_max_stack is 16",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := lines(tt.files.host(t).Findings())
			if len(got) != len(tt.want) {
				t.Fatalf("%d findings, want %d:\n%s", len(got), len(tt.want), strings.Join(got, "\n"))
			}
			for i, want := range tt.want {
				parts := tt.parts
				if i > 0 {
					parts = nil
				}
				wantLine(t, got[i:i+1], want, parts...)
			}
		})
	}
}

// Busy processes show what their recording would miss: run times without a
// perf map, programs that are stripped, without frame pointers or ids, deleted,
// or in another mount namespace (C01, C05).
func TestHostProcesses(t *testing.T) {
	src := `#include <stdlib.h>
` + strings.Repeat("", 1)
	for i := range 40 {
		src += strings.ReplaceAll("__attribute__((noinline)) int fN(int x) { int a[9] = {x}; for (int i = 0; i < x; i++) a[i % 9] += rand(); return a[x % 9]; }\n", "N", string(rune('A'+i%26))+string(rune('a'+i/26)))
	}
	src += "int main(int c, char **v) { return fAa(c) + fBa(c); }\n"
	read := func(name string, flags ...string) string {
		b, err := os.ReadFile(perftest.CC(t, name, src, append(flags, "-O1")...))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	stat := func(pid, comm, ticks string) string {
		return pid + " (" + comm + ") R 1 1 1 0 -1 0 0 0 0 0 " + ticks + " 0 0 0 20 0 1 0 1 1 1\n"
	}
	h := tree{
		"proc/10/stat":                     stat("10", "my) server", "900"),
		"proc/10/maps":                     "55d0-55e0 r-xp 00000000 08:01 5    /usr/bin/env\n55e0-55f0 r--p 00000000 08:01 5    /usr/bin/data\n7f00-7f10 r-xp 00000000 08:01 6    /opt/app/fp\n7f10-7f20 r-xp 00000000 08:01 7    /opt/gone (deleted)\n",
		"proc/11/stat":                     stat("11", "java", "800"),
		"proc/11/maps":                     "7f00-7f10 r-xp 00000000 08:01 9    /usr/lib/jvm/lib/server/libjvm.so\n",
		"proc/11/status":                   "NSpid:\t11\t1\n",
		"proc/12/stat":                     stat("12", "node", "700"),
		"proc/12/maps":                     "7f00-7f10 r-xp 00000000 08:01 9    /usr/bin/node\n",
		"proc/12/root/tmp/perf-12.map":     "1 1 a\n",
		"proc/13/stat":                     stat("13", "python3.11", "600"),
		"proc/13/maps":                     "7f00-7f10 r-xp 00000000 08:01 9    /usr/bin/python3.11\n",
		"proc/14/stat":                     stat("14", "boxed", "500"),
		"proc/14/maps":                     "7f00-7f10 r-xp 00000000 08:01 9    /app/noid\n",
		"proc/14/root/app/noid":            read("noid", "-Wl,--build-id=none", "-fno-omit-frame-pointer"),
		"proc/15/stat":                     stat("15", "idle", "0"),
		"proc/15/maps":                     "7f00-7f10 r-xp 00000000 08:01 9    /usr/bin/idle\n",
		"usr/bin/env":                      read("env", "-s", "-fno-omit-frame-pointer"),
		"opt/app/fp":                       read("fp", "-fomit-frame-pointer"),
		"usr/lib/jvm/lib/server/libjvm.so": read("libjvm", "-fno-omit-frame-pointer"),
	}.host(t)
	got := lines(h.Findings())
	wantLine(t, got, "symbols risk: /usr/bin/env: has symbols for the functions it exports only", "debian-debug bookworm-debug main", "sudo apt install coreutils-dbgsym", "debuginfod.debian.net")
	wantLine(t, got, "frame-ptr risk: /opt/app/fp: is built without frame pointers (0 of ", "perf record --call-graph dwarf")
	wantLine(t, got, "namespace risk: /opt/gone (deleted): process 10 (my) server) runs a file that was deleted", "--buildid-mmap")
	wantLine(t, got, "jit loss: java: process 11 runs Java", "jcmd 11 Compiler.perfmap", "PreserveFramePointer")
	wantLine(t, got, "jit note: python3.11: process 13 runs Python", "python3 -X perf")
	wantLine(t, got, "namespace risk: /app/noid: process 14 (boxed) runs it in another mount namespace")
	wantLine(t, got, "link-id loss: /app/noid: has no build id", "-Wl,--build-id")
	if len(got) != 7 {
		t.Errorf("%d findings:\n%s", len(got), strings.Join(got, "\n"))
	}
}

// A process may have put a FIFO over what it has mapped: nobody waits for its
// writer.
func TestHostFIFO(t *testing.T) {
	h := tree{}.host(t)
	if err := syscall.Mkfifo(filepath.Join(h.root, "fifo"), 0o600); err != nil {
		t.Skipf("NOTICE: no FIFO: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		_, _, err := h.openELF("fifo")
		done <- err
	}()
	select {
	case err := <-done:
		if fmt.Sprint(err) != "fifo: not a regular file" {
			t.Errorf("error %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it waits")
	}
}

// Packages are named as the distribution names them.
func TestDebugPackage(t *testing.T) {
	h := tree{}.host(t)
	for path, want := range map[string]string{
		"/usr/lib/x86_64-linux-gnu/libc.so.6": "sudo apt install libc6-dbg",
		"/lib/i386-linux-gnu/libc.so.6":       "sudo apt install libc6-dbg:i386",
		"/usr/bin/python3.11":                 "sudo apt install python3.11-dbg",
		"/usr/bin/ceph-osd":                   "sudo apt install ceph-osd-dbg",
		"/bin/ls":                             `echo "deb http://debug.mirrors.debian.org/debian-debug bookworm-debug main" | sudo tee /etc/apt/sources.list.d/debug.list && sudo apt update && sudo apt install coreutils-dbgsym`,
	} {
		p, ok := h.owners([]string{path})[path]
		if !ok {
			t.Errorf("%s: no package", path)
			continue
		}
		if got := h.install(p); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if got := h.owners([]string{"/usr/bin/wrong", "/usr/local/bin/x"}); len(got) != 0 {
		t.Errorf("%v", got)
	}
	with := tree{"var/lib/apt/lists/debug.mirrors.debian.org_debian-debug_dists_x": "x"}.host(t)
	if got := with.install(pkg{name: "coreutils"}); got != "sudo apt install coreutils-dbgsym" {
		t.Errorf("with the archive of debug packages: %q", got)
	}
	ubuntu := tree{"etc/os-release": "ID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\n"}.host(t)
	if got := ubuntu.install(pkg{name: "coreutils"}); !strings.Contains(got, "ubuntu-dbgsym-keyring") || !strings.Contains(got, "http://ddebs.ubuntu.com noble main") {
		t.Errorf("ubuntu: %q", got)
	}
	alpine := tree{"etc/os-release": "ID=alpine\n", "lib/apk/db/installed": "P:musl\nF:lib\nR:libc.so\n\nP:busybox\nF:bin\nR:busybox\n"}.host(t)
	if got := alpine.install(alpine.owners([]string{"/bin/busybox"})["/bin/busybox"]); got != "sudo apk add busybox-dbg" {
		t.Errorf("alpine: %q", got)
	}
	for release, want := range map[string]string{
		"5.14.0-427.el9.x86_64": `sudo dnf debuginfo-install "$(rpm -qf /usr/bin/x)"`,
		"6.8.0-31-generic":      `sudo apt install "$(dpkg-query -S /usr/bin/x | cut -d: -f1)-dbgsym"`,
		"6.1.0-44-amd64":        `sudo apt install "$(dpkg-query -S /usr/bin/x | cut -d: -f1)-dbgsym"`,
		"6.4.0-150600-default":  "sudo zypper install -C 'debuginfo(build-id)=abcd'",
		"6.9.1-arch1-1":         "",
		"6.18.44-fc-v857":       "",
	} {
		if got := OSOfRelease(release).installElsewhere("/usr/bin/x", "\xab\xcd"); got != want {
			t.Errorf("%s: %q, want %q", release, got, want)
		}
	}
}

// B13: what a program lacks before it is shipped.
func TestFile(t *testing.T) {
	h := tree{}.host(t)
	src := "int main(void) { return 0; }\n"
	got, err := h.File(perftest.CC(t, "noid", src, "-Wl,--build-id=none", "-g"))
	if err != nil || len(got) != 1 || got[0].Kind != LinkID || !strings.Contains(got[0].Fixes[0].When, "-Wl,--build-id") {
		t.Errorf("%v %v", lines(got), err)
	}
	got, err = h.File(perftest.CC(t, "good", src, "-g"))
	if err != nil || len(got) != 0 {
		t.Errorf("%v %v", lines(got), err)
	}
	if _, err := h.File("host_test.go"); err == nil {
		t.Error("a text is a program")
	}
}

// The table of Go functions has lines and inlined calls: nothing is missing
// without debug information.
func TestFileGo(t *testing.T) {
	tool := perftest.NeedTool(t, "go")
	dir := t.TempDir()
	src := filepath.Join(dir, "main.go")
	if err := os.WriteFile(src, []byte("package main\n\nfunc main() { println(1) }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flags := range []string{"-ldflags=-s -w", "-ldflags=-w", "-ldflags="} {
		name := filepath.Join(dir, "prog")
		cmd := exec.Command(tool, "build", "-o", name, flags, src)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("NOTICE: go cannot build here: %s", out)
		}
		h := tree{}.host(t)
		got, err := h.File(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range got {
			if f.Kind == Lines {
				t.Errorf("%s: %s", flags, f.What)
			}
		}
	}
}

func TestSetsFramePointer(t *testing.T) {
	tests := []struct {
		name string
		code string
		m    uint16
		set  bool
	}{
		{"x86-64 with endbr64", "\xf3\x0f\x1e\xfa\x55\x48\x89\xe5\x48\x83\xec\x10", 62, true},
		{"x86-64 without", "\x48\x83\xec\x18\x31\xc0\xc3", 62, false},
		{"x86-64 Go", "\x49\x3b\x66\x10\x76\x30\x55\x48\x89\xe5", 62, true},
		{"i386", "\x55\x89\xe5\x83\xec\x08", 3, true},
		{"aarch64 stp x29, x30, [sp, #-32]!", "\xfd\x7b\xbe\xa9\xfd\x03\x00\x91", 183, true},
		{"aarch64 stp x29, x30, [sp, #16]", "\xff\x83\x00\xd1\xfd\x7b\x01\xa9", 183, true},
		{"aarch64 stp x19, x20", "\xf3\x53\xbe\xa9\xc0\x03\x5f\xd6", 183, false},
		{"riscv addi s0, sp, 32", "\x01\x11\x22\xec\x13\x04\x01\x02", 243, true},
		{"riscv c.addi4spn s0", "\x01\x11\x22\xec\x00\x10\x82\x80", 243, true},
		{"riscv without", "\x05\x05\x82\x80", 243, false},
	}
	for _, tt := range tests {
		if set, known := setsFramePointer([]byte(tt.code), objfileMachine(tt.m), false); set != tt.set || !known {
			t.Errorf("%s: %v %v, want %v", tt.name, set, known, tt.set)
		}
	}
	if _, known := setsFramePointer([]byte("xxxx"), objfileMachine(22), true); known {
		t.Error("s390 is known")
	}
}

// The command that records again keeps what was asked for.
func TestAgain(t *testing.T) {
	tests := []struct{ cmdline, options, want string }{
		{"", "-g", "perf record -g …"},
		{"/usr/bin/perf record -g -F 99 -- ./a b", "--call-graph dwarf", "perf record --call-graph dwarf -F 99 -- ./a b"},
		{"perf record --call-graph fp -a sleep 1", "--call-graph dwarf", "perf record --call-graph dwarf -a sleep 1"},
		{"perf record -B -N -e cycles ./a -B", "--buildid-mmap", "perf record --buildid-mmap -e cycles ./a -B"},
		{"perf record -F 9999 -c 5 -o x ./a", "-F 99", "perf record -F 99 -o x ./a"},
		{"perf mem record ./a", "-g", "perf record -g …"},
	}
	for _, tt := range tests {
		if got := again(strings.Fields(tt.cmdline), tt.options); got != tt.want {
			t.Errorf("%q with %q: %q, want %q", tt.cmdline, tt.options, got, tt.want)
		}
	}
	if got := again([]string{"perf", "record", "--", "a b"}, ""); got != "perf record -- 'a b'" {
		t.Errorf("%q", got)
	}
}
