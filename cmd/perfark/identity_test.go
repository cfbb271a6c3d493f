package main

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

// A witness is a host where perfark records, with a home for the copies.
type witness struct {
	*host
	bin string
}

func newWitness(t *testing.T) *witness {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("NOTICE: not root: other mount namespaces cannot be made")
	}
	w := &witness{host: newHost(t), bin: filepath.Join(t.TempDir(), "perfark")}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, w.bin); err != nil {
		t.Fatal(err)
	}
	perftest.Shared(t)
	return w
}

// watch records with perfark: what it prints, and the recording.
func (w *witness) watch(args ...string) (data, stderr string) {
	w.t.Helper()
	data = filepath.Join(w.t.TempDir(), "perf.data")
	if args[0] != "-e" {
		args = append([]string{"-e", "cpu-clock:u"}, args...)
	}
	args = append([]string{"record", "-F", "999", "-o", data}, args...)
	r := perftest.Run(w.t, w.dir, append(os.Environ(), "HOME="+w.home), nil, w.bin, args...)
	if strings.Contains(r.Stderr, "unshare failed") || strings.Contains(r.Stderr, "mount: ") {
		w.t.Skipf("NOTICE: no namespaces here: %s", r.Stderr)
	}
	if r.Code != 0 {
		w.t.Fatalf("record: exit status %d: %s", r.Code, r.Stderr)
	}
	return data, r.Stderr
}

// elsewhere is what the report of the bundle of a recording says where programs,
// caches and /usr/lib/debug are hidden.
func (w *witness) elsewhere(data string, args ...string) (page string, p packed) {
	w.t.Helper()
	bundle := filepath.Join(w.t.TempDir(), "b.perfark")
	p = w.pack(data, "--all", "--allow-missing", "-o", bundle)
	if p.code != 0 {
		w.t.Fatalf("archive: exit status %d: %s", p.code, p.stderr)
	}
	hide := []string{w.dir, w.home, filepath.Dir(data)}
	if _, err := os.Stat("/usr/lib/debug"); err == nil {
		hide = append(hide, "/usr/lib/debug")
	}
	r := w.hidden(hide, w.bin, append([]string{"report", "-i", bundle, "--stdio", "--no-children", "-g", "none", "-s", "dso,sym"}, args...)...)
	if r.Code != 0 && r.Code != 3 {
		w.t.Fatalf("report: exit status %d: %s", r.Code, r.Stderr)
	}
	return rows(r.Stdout), p
}

// kill ends the processes of a group, and waits until they are gone.
func (w *witness) kill(pid string) {
	w.t.Helper()
	perftest.Run(w.t, w.dir, nil, nil, "kill", "-9", pid)
	for range 100 {
		if b, err := os.ReadFile("/proc/" + pid + "/stat"); err != nil || strings.Contains(string(b), ") Z ") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.t.Fatalf("process %s does not end", pid)
}

// What a process ran is in the bundle, whatever became of it, and under no name
// of another program.
func TestIdentity(t *testing.T) {
	all := newWitness(t)
	all.cc("spin", spinSource)
	all.cc("spin2", spinSource)
	all.cc("spin2 (deleted)", spinSource)
	all.cc("other", otherSource)
	all.cc("memfd", memfdSource)
	all.cc("noid", spinSource, "-Wl,--build-id=none")
	all.cc("libspin.so", strings.Replace(spinSource, "int main", "int run", 1), "-shared", "-fPIC")
	all.cc("user", "int run(int, char **);\nint main(int c, char **v) { return run(c, v); }\n", "-L.", "-lspin", "-Wl,-rpath,$ORIGIN")
	for _, tt := range []struct {
		name   string
		flags  string
		script string
		path   string // whose rows are looked at, below the directory; absolute paths are as they are
		lacks  string // why the bundle has not the bytes; "": it has
	}{
		{
			name:   "C01 of a mount namespace",
			script: "exec unshare -m sh -c 'mount -t tmpfs none ns && cp spin ns/prog && exec ns/prog 300000000'",
			path:   "ns/prog",
		},
		{
			name:   "C02 another program of that name",
			flags:  "-a",
			script: "cp other ns/prog; exec unshare -m sh -c 'mount -t tmpfs none ns && cp spin ns/prog && exec ns/prog 300000000'",
			path:   "ns/prog",
		},
		{
			name:   "C05 deleted while it runs",
			script: "./spin2 300000000 & sleep 0.2; rm spin2; wait",
			path:   "spin2",
		},
		{
			name:   "C05 deleted when it has ended",
			script: "./spin2 30000000; rm spin2; sleep 0.1",
			path:   "spin2",
		},
		{
			name:   "C06 a name with the mark",
			script: "./'spin2 (deleted)' 100000000; rm spin2",
			path:   "spin2 (deleted)",
		},
		{
			name:   "C07 upgraded",
			script: "./spin2 300000000 & sleep 0.2; cp other new; mv new spin2; wait; ./spin2 1000000",
			path:   "spin2",
		},
		{
			name:   "C07 moved",
			script: "./spin2 300000000 & sleep 0.2; mv spin2 spin3; cp other spin2; wait",
			path:   "spin2",
		},
		{
			name:   "C07 written over",
			script: "./user 3000000000 & sleep 0.2; cat other > libspin.so; sleep 0.1; kill -9 $!; wait",
			path:   "libspin.so",
			lacks:  "replaced: ",
		},
		{
			name:   "C10 in memory",
			script: "./memfd ./spin 100000000",
			path:   "/memfd:prog (deleted)",
		},
		{
			name:   "C23 unmounted",
			script: "mount -t tmpfs none mnt && cp spin mnt/app && mnt/app 100000000; umount mnt",
			path:   "mnt/app",
		},
		{
			name:   "C23 and without an id",
			script: "mount -t tmpfs none mnt && cp noid mnt/noid && mnt/noid 100000000; umount mnt",
			path:   "mnt/noid",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWitness(t)
			w.sh("cp " + all.dir + "/* .; mkdir ns mnt")
			t.Cleanup(func() { syscall.Unmount(filepath.Join(w.dir, "mnt"), syscall.MNT_DETACH) })
			data, stderr := w.watch(append(strings.Fields(tt.flags), "--", "sh", "-c", tt.script)...)
			page, p := w.elsewhere(data)
			path := tt.path
			if path[0] != '/' {
				path = filepath.Join(w.dir, path)
			}
			if tt.lacks != "" {
				if why := p.lacks(path); !strings.HasPrefix(why, tt.lacks) || !strings.Contains(stderr, "it was written to meanwhile") {
					t.Errorf("%s: %q, want %q; recorder: %s", path, why, tt.lacks, stderr)
				}
			} else if !p.has(path) || !strings.Contains(page, "[.] hot_leaf") {
				t.Errorf("%s: %q; rows\n%s\nrecorder: %s", path, p.lacks(path), page, stderr)
			}
			if strings.Contains(page, "zzz_wrong_function") && !strings.HasPrefix(tt.name, "C07 upgraded") {
				t.Errorf("another program's name:\n%s", page)
			}
			if mounts, _ := os.ReadFile("/proc/self/mounts"); strings.Contains(string(mounts), w.dir+"/mnt ") {
				t.Error("mnt could not be unmounted")
			}
		})
	}
}

// C05: a program that was deleted before it was recorded.
func TestIdentityDeletedBefore(t *testing.T) {
	w := newWitness(t)
	w.cc("delapp", spinSource)
	pid := w.start("./delapp", "20000000000")
	os.Remove("delapp")
	data, stderr := w.watch("-p", pid, "--", "sleep", "0.5")
	w.kill(pid)
	if page, p := w.elsewhere(data); !strings.Contains(page, "[.] hot_leaf") || len(p.Missing) > 0 {
		t.Errorf("missing %v\n%s\n%s", p.Missing, page, stderr)
	}
}

// REC-5: a program that is replaced again and again, and runs each time, has the
// names of each; one that is written over has no name of another, and the
// recorder says which are gone.
func TestIdentityReplacedOften(t *testing.T) {
	const n = 8
	all := newWitness(t)
	for i := range n {
		all.cc(fmt.Sprintf("p%d", i), strings.ReplaceAll(spinSource, "hot_leaf", fmt.Sprintf("hot_leaf%d", i)))
	}
	for how, replace := range map[string]string{"moved": "cp p$i new; mv new x", "written over": "cat p$i > x; chmod +x x"} {
		t.Run(how, func(t *testing.T) {
			w := newWitness(t)
			w.sh("cp " + all.dir + "/* .")
			data, stderr := w.watch("--", "sh", "-c", fmt.Sprintf("for i in $(seq 0 %d); do %s; ./x 50000000; done", n-1, replace))
			_, p := w.elsewhere(data)
			bundle := filepath.Join(t.TempDir(), "b.perfark")
			w.pack(data, "--all", "--allow-missing", "-o", bundle)
			r := w.hidden([]string{w.dir, w.home}, w.bin, "script", "-i", bundle, "-F", "comm,pid,ip,sym")
			var pids []string
			named := map[int]bool{}
			for line := range strings.Lines(r.Stdout) {
				f := strings.Fields(line)
				if len(f) < 4 || f[0] != "x" {
					continue
				}
				if !slices.Contains(pids, f[1]) {
					pids = append(pids, f[1])
				}
				i := slices.Index(pids, f[1])
				if strings.HasPrefix(f[3], "hot_leaf") {
					named[i] = true
					if f[3] != fmt.Sprintf("hot_leaf%d", i) {
						t.Fatalf("program %d: %s\n%s", i, f[3], stderr)
					}
				}
			}
			// Some are gone before they can be looked at if the machine is busy.
			if how == "moved" && (len(pids) != n || len(named) < n/2) || how != "moved" && (len(named) > 1 || !strings.Contains(stderr, "it was written to meanwhile")) {
				t.Errorf("%d programs, %d have names; missing %v: %s\n%.1000s%s", len(pids), len(named), p.Missing, stderr, r.Stdout, r.Stderr)
			}
		})
	}
}

// Without rights, a user's own program that was deleted is kept too.
func TestIdentityUser(t *testing.T) {
	w := newWitness(t)
	perftest.NeedTool(t, "setpriv")
	w.cc("spin", spinSource)
	dir, err := os.MkdirTemp("", "perfark")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w.sh("cp " + self + " " + dir + "/perfark; cp spin " + dir + "; chmod 755 " + dir + "/*; chown -R 65534 " + dir)
	r := perftest.Run(t, dir, []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}, nil, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
		"./perfark", "record", "-e", "cpu-clock", "-F", "999", "-o", "perf.data", "--", "sh", "-c", "./spin 100000000 & sleep 0.1; rm spin; wait")
	if r.Code != 0 {
		t.Skipf("NOTICE: users may not record here: %s", r.Stderr)
	}
	r = perftest.Run(t, dir, []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}, nil, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
		"./perfark", "report", "-i", "perf.data", "--stdio", "-g", "none")
	if r.Code != 0 || !strings.Contains(r.Stdout, "[.] hot_leaf") {
		t.Errorf("exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}

// C03, C04: perf maps and jitdumps of processes in one, or two, namespaces of
// process numbers, with and without a /tmp of their own, that are gone.
func TestIdentityCode(t *testing.T) {
	const ns = "unshare -pfm --kill-child --mount-proc "
	const own = ns + "sh -c 'mount -t tmpfs none /tmp && exec "
	all := newWitness(t)
	all.cc("jit", jitSource)
	removeMaps(t, "jit_hot")
	for _, tt := range []struct{ name, script, want string }{
		{"C03 shared", "exec " + ns + "./jit map 300", "jit_hot"},
		{"C03 own", "exec " + own + "./jit map 300'", "jit_hot"},
		{"C04 own", "exec " + own + ns + "./jit map 300'", "jit_hot"},
		{"C04 of another user", "exec " + own + `sh -c "(sleep 0.15; chown 12345 /tmp/perf-1.map) & exec ./jit map 300"'`, ""},
		{"jitdump", "exec " + own + "./jit dump 100 /tmp'", "jit_first"},
		{"ends before", own + "./jit map 200'; sleep 0.5", "jit_hot"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWitness(t)
			w.sh("cp " + all.dir + "/jit .")
			data, stderr := w.watch("-k", "mono", "--", "sh", "-c", tt.script)
			os.Remove("/tmp/perf-1.map")
			page, _ := w.elsewhere(data)
			switch {
			case tt.want == "" && (strings.Contains(page, "jit_") || !strings.Contains(stderr, "owned by user 12345")):
				t.Errorf("a map of another user:\n%s\n%s", page, stderr)
			case !strings.Contains(page, tt.want) || strings.Contains(page, "jit_old"):
				t.Errorf("no %s in\n%s\n%s", tt.want, page, stderr)
			}
		})
	}
}

// B09: a Go program without a GNU id, deleted, is in the bundle by its content,
// with its Go id.
func TestIdentityGo(t *testing.T) {
	w := newWitness(t)
	perftest.NeedTool(t, "go")
	w.goBuild("gobin", goSpin, "-B none")
	data, stderr := w.watch("--", "sh", "-c", "./gobin; rm gobin; sleep 0.1")
	page, p := w.elsewhere(data)
	if !strings.Contains(page, "main.hotLeaf") {
		t.Errorf("rows\n%s\n%s", page, stderr)
	}
	for _, o := range p.Objects {
		if len(o.Paths) > 0 && strings.HasSuffix(string(o.Paths[0]), "/gobin") && (o.ID != "" || o.GoID == "" || !strings.Contains(string(o.Files[0].Name), o.Files[0].SHA256)) {
			t.Errorf("%+v", o)
		}
	}
}

// S13: without the kernel's addresses user space has all its names, the kernel's
// part is one row, and one message names the sysctl. S14: doctor says so
// before.
func TestIdentityRestricted(t *testing.T) {
	w := newWitness(t)
	perftest.NeedTool(t, "setpriv")
	w.cc("spin", spinSource)
	restricted := []string{"--inh-caps=-syslog", "--bounding-set=-syslog"}
	if r := perftest.Run(t, w.dir, nil, nil, "setpriv", append(restricted, "sh", "-c", "grep -m1 ' _text$' /proc/kallsyms")...); r.Code != 0 || !strings.HasPrefix(r.Stdout, "0000000000000000 ") {
		t.Skipf("NOTICE: the kernel shows its addresses all the same: %s%s", r.Stdout, r.Stderr)
	}
	data := filepath.Join(t.TempDir(), "perf.data")
	r := perftest.Run(t, w.dir, append(os.Environ(), "HOME="+w.home), nil, "setpriv", append(restricted, w.bin, "record", "-e", "cpu-clock", "-F", "1999", "-o", data,
		"--", "sh", "-c", "./spin 50000000; dd if=/dev/zero of=/dev/null bs=1M count=3000 2>/dev/null")...)
	if r.Code != 0 || strings.Count(r.Stderr, "kernel.kptr_restrict") != 1 {
		t.Errorf("record: exit status %d: %s", r.Code, r.Stderr)
	}
	page, p := w.elsewhere(data)
	if !strings.Contains(page, "[.] hot_leaf") || !strings.Contains(page, "[kernel, restricted]") || strings.Contains(page, "[unknown]  ") {
		t.Errorf("rows\n%s", page)
	}
	if why := p.lacks("[kernel]"); !strings.HasPrefix(why, "restricted: ") {
		t.Errorf("the kernel: %q", why)
	}
	r = perftest.Run(t, w.dir, append(os.Environ(), "HOME="+w.home), nil, "setpriv", append(restricted, w.bin, "doctor")...)
	if !strings.Contains(r.Stdout, "kernel-addrs") {
		t.Errorf("doctor: exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}

// S15: recorded by root; another user reads the kernel's names in the bundle,
// and of the recording alone is told what is missing.
func TestIdentityOtherUser(t *testing.T) {
	w := newWitness(t)
	perftest.NeedTool(t, "setpriv")
	if b, _ := exec.Command("grep", "-m1", " _text$", "/proc/kallsyms").Output(); strings.HasPrefix(string(b), "0000000000000000 ") || len(b) == 0 {
		t.Skip("NOTICE: the kernel hides its addresses from root")
	}
	data, _ := w.watch("-e", "cpu-clock", "--", "dd", "if=/dev/zero", "of=/dev/null", "bs=1M", "count=3000")
	bundle := filepath.Join(w.t.TempDir(), "b.perfark")
	if p := w.pack(data, "--all", "-o", bundle); p.code != 0 {
		t.Errorf("archive: exit status %d: %s", p.code, p.stderr)
	}
	dir, err := os.MkdirTemp("", "perfark")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range [][]string{{"cp", self, dir + "/perfark"}, {"cp", data, dir + "/perf.data"}, {"cp", bundle, dir + "/b.perfark"}, {"chmod", "-R", "a+rX", dir}} {
		if out, err := exec.Command(cmd[0], cmd[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	nobody := func(args ...string) perftest.Result {
		return perftest.Run(t, dir, []string{"HOME=/nonexistent", "PATH=" + os.Getenv("PATH")}, nil, "setpriv",
			append([]string{"--reuid=65534", "--regid=65534", "--clear-groups", "./perfark", "report", "--stdio", "-g", "none", "-i"}, args...)...)
	}
	if r := nobody("b.perfark"); r.Code != 0 || !strings.Contains(r.Stdout, "[k] ") || strings.Contains(r.Stdout, "[k] 0x") {
		t.Errorf("the bundle: exit status %d\n%s%s", r.Code, rows(r.Stdout), r.Stderr)
	}
	if r := nobody("perf.data"); !strings.Contains(r.Stderr, "kernel.kptr_restrict") && !strings.Contains(r.Stderr, "/root/.debug") {
		t.Errorf("the recording alone: exit status %d\n%s%s", r.Code, rows(r.Stdout), r.Stderr)
	}
}
