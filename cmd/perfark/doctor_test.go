package main

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
)

// C25: the time is in a library, and the launcher is asked about.
func TestDoctorBinary(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	src := "int main(void) { return 0; }\n"
	app := perftest.CC(t, "app", src, "-Wl,--build-id=0xaa11111111111111111111111111111111111111")
	lib := perftest.CC(t, "libx.so", "int f(void) { return 0; }\n", "-shared", "-Wl,--build-id=0xbb11111111111111111111111111111111111111")
	data := filepath.Join(t.TempDir(), "x.data")
	text := `
		mmap2 pid=1 tid=1 start=0x1000 len=0x1000 prot=5 id=aa11111111111111111111111111111111111111 name=/opt/app
		mmap2 pid=1 tid=1 start=0x8000 len=0x1000 prot=5 id=bb11111111111111111111111111111111111111 name=/opt/libx.so
		sample ip=0x1100 pid=1 tid=1
	` + strings.Repeat("sample ip=0x8100 pid=1 tid=1\n", 99)
	if err := os.WriteFile(data, perftest.Data(t, text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ binary, want string }{
		{app, "1 sample, 1.0%, in " + app + " (id aa11111111111111111111111111111111111111); others: 99.0% in /opt/libx.so (id bb11111111111111111111111111111111111111)\n"},
		{lib, "99 samples, 99.0%, in " + lib + " (id bb11111111111111111111111111111111111111); others: 1.0% in /opt/app (id aa11111111111111111111111111111111111111)\n"},
	} {
		code, out, errs := runArgs(t, "", "doctor", data, "--binary", tt.binary)
		if code != 0 || !strings.Contains(out, "\n"+tt.want) {
			t.Errorf("%s: exit status %d\n%s%s", tt.binary, code, out, errs)
		}
	}
	if code, _, errs := runArgs(t, "", "doctor", data, "--binary", "nothing"); code != 1 || !strings.Contains(errs, "--binary: ") {
		t.Errorf("exit status %d: %s", code, errs)
	}
}

// B13: a program without a Build ID fails in CI.
func TestDoctorFile(t *testing.T) {
	src := "int main(void) { return 0; }\n"
	code, out, errs := runArgs(t, "", "doctor", perftest.CC(t, "noid", src, "-g", "-Wl,--build-id=none"))
	if code != 3 || !strings.Contains(out, "has no build id") || !strings.Contains(out, "-Wl,--build-id") || !strings.Contains(errs, ": no build id") {
		t.Errorf("exit status %d\n%s%s", code, out, errs)
	}
	code, out, errs = runArgs(t, "", "doctor", perftest.CC(t, "good", src, "-g"))
	if code != 0 || out != "nothing is missing\n" || errs != "" {
		t.Errorf("exit status %d\n%s%s", code, out, errs)
	}
}

// The page about a host that is another tree: what it says, and that commands
// are there to be copied.
func TestDoctorHost(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"proc/sys/kernel/kptr_restrict":       "2\n",
		"proc/sys/kernel/perf_event_paranoid": "1\n",
		"proc/self/status":                    "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n",
		"proc/kallsyms":                       "0000000000000000 T _stext\n",
	} {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	a := &app{stdout: bufio.NewWriter(&out), root: root}
	if err := (&doctorCmd{app: a}).runHost(); err != nil {
		t.Fatal(err)
	}
	a.stdout.Flush()
	want := `a recording made here now, by this user:

loss: kernel-addrs
    kernel.kptr_restrict is 2: nobody, not even root, sees kernel addresses: a recording would not say where the kernel is, and all its frames would be unnamed
    $ sudo sysctl kernel.kptr_restrict=1 && sudo perf record …
      (until the next boot)
`
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
}

// S15: recorded by root, read by another user.
func TestDoctorOtherUser(t *testing.T) {
	perftest.NeedTool(t, "setpriv")
	if os.Geteuid() != 0 {
		t.Skip("NOTICE: only root can become another user")
	}
	dir, err := os.MkdirTemp("/tmp", "perfark-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "x.data")
	text := `
		mmap2 pid=1 tid=1 start=0x1000 len=0x1000 prot=5 id=aa11111111111111111111111111111111111111 name=/opt/app
		sample ip=0x1100 pid=1 tid=1`
	if err := os.WriteFile(data, perftest.Data(t, text), 0o644); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat("/root/.debug"); err != nil || !fi.IsDir() {
		t.Skip("NOTICE: root has no cache here")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if r := perftest.Run(t, dir, nil, nil, "cp", exe, filepath.Join(dir, "perfark")); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	r := perftest.Run(t, dir, []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}, nil, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "./perfark", "doctor", data)
	if r.Code != 0 || !regexp.MustCompile(`/root/\.debug, which .*uid 65534\) cannot read, may hold it\n    \$ sudo perfark archive -i `).MatchString(r.Stdout) {
		t.Errorf("exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}
