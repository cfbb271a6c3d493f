package main

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/perfark/perfark/archive"
	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/store"
)

// Programs to record. spin's hot function is hot_leaf, other's is
// zzz_wrong_function: no row of a recording of spin may show that.
const (
	spinSource = `#include <stdlib.h>
volatile unsigned long sink;
__attribute__((noinline)) void hot_leaf(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i * i; }
__attribute__((noinline)) void hot_mid(unsigned long n) { hot_leaf(n); sink++; }
int main(int c, char **v) { hot_mid(c > 1 ? strtoul(v[1], 0, 0) : 100000000); return 0; }
`
	otherSource = `#include <stdlib.h>
volatile unsigned long sink;
__attribute__((noinline)) void pad(void) { sink++; }
__attribute__((noinline)) void zzz_wrong_function(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i; }
int main(int c, char **v) { zzz_wrong_function(c > 1 ? strtoul(v[1], 0, 0) : 100000000); pad(); return 0; }
`
)

// A host is the machine that records: a directory of programs, and a home.
type host struct {
	t         testing.TB
	dir, home string
}

func newHost(t *testing.T) *host {
	t.Helper()
	if testing.Short() {
		t.Skip("records with perf")
	}
	perftest.NeedTool(t, "perf")
	perftest.NeedTool(t, "gcc")
	h := &host{t: t, dir: t.TempDir(), home: t.TempDir()}
	t.Chdir(h.dir)
	t.Setenv("HOME", h.home)
	t.Setenv("PERF_CONFIG", "/dev/null")
	t.Setenv("PERF_BUILDID_DIR", "")
	t.Setenv("SUDO_USER", "")
	return h
}

// use makes home the home directory, until the test ends.
func (h *host) use(home string) { os.Setenv("HOME", home) }

// cc compiles a program under a name. Each gets an id of its own.
func (h *host) cc(name, source string, flags ...string) {
	h.t.Helper()
	src := filepath.Join(h.t.TempDir(), "x.c")
	if err := os.WriteFile(src, []byte(source), 0o600); err != nil {
		h.t.Fatal(err)
	}
	args := append([]string{"-O1", "-g", "-fno-omit-frame-pointer", "-Wl,--build-id=uuid", "-o", filepath.Join(h.dir, name), src}, flags...)
	if r := perftest.Run(h.t, h.dir, nil, nil, "gcc", args...); r.Code != 0 {
		h.t.Fatalf("gcc: %s", r.Stderr)
	}
}

// sh runs a shell script in the directory of programs.
func (h *host) sh(script string) {
	h.t.Helper()
	if r := perftest.Run(h.t, h.dir, nil, nil, "bash", "-ec", script); r.Code != 0 {
		h.t.Fatalf("%s: exit status %d: %s", script, r.Code, r.Stderr)
	}
}

// record runs perf record with args.
func (h *host) record(args ...string) string {
	h.t.Helper()
	out := filepath.Join(h.t.TempDir(), "perf.data")
	if args[0] != "-e" {
		args = append([]string{"-e", "cpu-clock:u"}, args...)
	}
	args = append([]string{"record", perftest.NoBPF, "-q", "-F", "1999", "-o", out}, args...)
	r := perftest.Run(h.t, h.dir, nil, nil, "perf", args...)
	if _, err := os.Stat(out); err != nil || r.Code == 129 || r.Code == 255 {
		h.t.Skipf("NOTICE: perf may not record here: %s", strings.TrimSpace(r.Stderr))
	}
	return out
}

// A packed is what perfark archive --json says, and how it ended.
type packed struct {
	packReport
	code   int
	stderr string
}

// pack archives a recording to out beside it, with args.
func (h *host) pack(data string, args ...string) packed {
	h.t.Helper()
	if !slices.ContainsFunc(args, func(s string) bool { return s == "-o" || s == "--all" || s == "--format" }) {
		args = append(args, "--format", "zst")
	}
	code, stdout, stderr := runArgs(h.t.(*testing.T), "", append([]string{"archive", "-i", data, "--json"}, args...)...)
	p := packed{code: code, stderr: stderr}
	if stdout != "" {
		if err := json.Unmarshal([]byte(stdout), &p.packReport); err != nil {
			h.t.Fatalf("%v: %q", err, stdout)
		}
	}
	return p
}

// has reports whether the object at a path is packed.
func (p *packed) has(path string) bool {
	for _, o := range p.Objects {
		for _, q := range o.Paths {
			if string(q) == path {
				return true
			}
		}
	}
	return false
}

// lacks returns the reason why the object at a path is missing, "" if it is not.
func (p *packed) lacks(path string) string {
	for _, m := range p.Missing {
		if string(m.Path) == path {
			return m.Reason + ": " + m.Detail
		}
	}
	return ""
}

// noNames returns why the object at a path has frames without names.
func (p *packed) noNames(path string) string {
	for _, u := range p.Unnamed {
		if string(u.Path) == path {
			return u.Reason
		}
	}
	return ""
}

// report returns the rows of perfark's flat report by the symbols in from
// alone: the home is empty, and the programs are not where they were.
func (h *host) report(data, from string, args ...string) string {
	h.t.Helper()
	away := h.dir + ".away"
	if err := os.Rename(h.dir, away); err != nil {
		h.t.Fatal(err)
	}
	h.use(h.t.TempDir())
	args = append([]string{"report", "-i", data, "--symbols", from, "--stdio", "--no-children", "-g", "none"}, args...)
	code, stdout, stderr := runArgs(h.t.(*testing.T), "", args...)
	h.use(h.home)
	if err := os.Rename(away, h.dir); err != nil {
		h.t.Fatal(err)
	}
	if code != 0 && code != 3 {
		h.t.Fatalf("report: exit status %d: %s", code, stderr)
	}
	return rows(stdout)
}

// rows drops what is no row of a page.
func rows(page string) string {
	var out []string
	for line := range strings.Lines(page) {
		if line[0] != '#' && strings.TrimSpace(line) != "" {
			out = append(out, strings.TrimRight(line, " \n"))
		}
	}
	return strings.Join(out, "\n")
}

// hidden runs a command in a mount namespace in which directories are empty.
func (h *host) hidden(dirs []string, name string, args ...string) perftest.Result {
	h.t.Helper()
	script := `while [ "$1" != -- ]; do mount -t tmpfs none "$1" || exit 99; shift; done; shift; exec "$@"`
	all := append([]string{"-m", "sh", "-c", script, "sh"}, dirs...)
	all = append(append(all, "--", name), args...)
	r := perftest.Run(h.t, "/", perftest.Env("/nonexistent"), nil, "unshare", all...)
	if r.Code == 99 || strings.Contains(r.Stderr, "unshare failed") {
		h.t.Skipf("NOTICE: directories cannot be hidden here: %s", r.Stderr)
	}
	return r
}

const libSource = `void lib_call(void (*f)(unsigned long), unsigned long n) { f(n); __asm__ volatile(""); }
`

// A leaf need not have a frame of its own, so its caller may be lost: hot_mid,
// and lib_call is seen.
const callerSource = `volatile unsigned long sink;
void lib_call(void (*f)(unsigned long), unsigned long n);
__attribute__((noinline)) void hot_leaf(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i * i; }
__attribute__((noinline)) void hot_mid(unsigned long n) { hot_leaf(n); sink++; }
int main() { lib_call(hot_mid, 300000000); return 0; }
`

// The main job: record, archive, hide everything, unpack, report. What perf
// and perfark say is what they said on the recording side.
func TestArchiveCarry(t *testing.T) {
	h := newHost(t)
	quick := "gz"
	if _, err := exec.LookPath("zstd"); err == nil {
		quick = "zst"
	}
	h.cc("libcall.so", libSource, "-shared", "-fPIC")
	h.cc("prog", callerSource, "-L.", "-lcall", "-Wl,-rpath,"+h.dir)
	for _, tt := range []struct {
		name   string
		format string
		args   []string
	}{
		{"system-wide", quick, []string{"-a", "-g", "--", "./prog"}},
		{"caller", "bz2", []string{"-g", "--", "./prog"}},
		{"buildid-mmap", quick, []string{"--buildid-mmap", "-g", "--", "./prog"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &host{t: t, dir: h.dir, home: h.home}
			data := h.record(append([]string{"-e", "cpu-clock"}, tt.args...)...)
			flags := []string{"-i", data, "--stdio", "--no-children", "-g", "none"}
			perfArgs := append([]string{"report"}, flags...)
			want := perftest.Run(t, h.dir, perftest.Env(h.home), nil, "perf", perfArgs...).Stdout
			code, ours, _ := runArgs(t, "", append([]string{"report"}, flags...)...)
			if code != 0 || !strings.Contains(rows(want), "hot_leaf") {
				t.Fatalf("exit status %d; perf's page is\n%s", code, want)
			}
			p := h.pack(data, "--format", tt.format, "--level", "1")
			if !p.has(h.dir+"/libcall.so") || !p.has(h.dir+"/prog") {
				t.Fatalf("packed %v, missing %v", p.Objects, p.Missing)
			}
			if p.code != 0 && tt.name != "system-wide" {
				t.Errorf("exit status %d, missing %v", p.code, p.Missing)
			}
			byTar, byUs := t.TempDir(), t.TempDir()
			if r := perftest.Run(t, "/", nil, nil, "tar", "xf", p.Archive, "-C", byTar); r.Code != 0 {
				t.Fatalf("tar: %s", r.Stderr)
			}
			if code, _, stderr := runArgs(t, "", "unpack", p.Archive, "-C", byUs); code != 0 {
				t.Fatalf("unpack: exit status %d: %s", code, stderr)
			}
			hide := []string{h.dir, h.home}
			if _, err := os.Stat("/usr/lib/debug"); err == nil {
				hide = append(hide, "/usr/lib/debug")
			}
			for _, dir := range []string{byTar, byUs} {
				r := h.hidden(hide, "perf", append([]string{"--buildid-dir", dir}, perfArgs...)...)
				if rows(r.Stdout) != rows(want) {
					t.Errorf("perf by %s says\n%s\nwant\n%s", dir, rows(r.Stdout), rows(want))
				}
			}
			self := filepath.Join(t.TempDir(), "perfark")
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(exe, self); err != nil {
				t.Fatal(err)
			}
			if static(t, exe) {
				hide = append(hide, "/usr") // nothing of this host is left but the kernel
			}
			for _, from := range []string{p.Archive, byTar, byUs} {
				r := h.hidden(hide, self, append([]string{"report", "--symbols", from}, flags...)...)
				if rows(r.Stdout) != rows(ours) {
					t.Errorf("perfark by %s says\n%s\nwant\n%s\n%s", from, rows(r.Stdout), rows(ours), r.Stderr)
				}
			}
			if code, stdout, stderr := runArgs(t, "", "verify", p.Archive, data); code != p.code || !strings.Contains(stdout, "coverage: ") {
				t.Errorf("verify: exit status %d, want %d: %s%s", code, p.code, stdout, stderr)
			}
		})
	}
}

// static reports whether a program needs no other file to run.
func static(t *testing.T, name string) bool {
	f, err := elf.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return !slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}

// A bundle holds the recording and is opened in place; plain tar unpacks it.
func TestArchiveAll(t *testing.T) {
	h := newHost(t)
	h.cc("spin", spinSource)
	data := h.record("-g", "--", "./spin")
	p := h.pack(data, "--all")
	if p.code != 0 || p.Archive != data+".perfark" {
		t.Fatalf("exit status %d, %q: %s", p.code, p.Archive, p.stderr)
	}
	if fi, err := os.Stat(p.Archive); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", fi.Mode(), err)
	}
	h.use(t.TempDir())
	os.Rename("spin", "spin.away")
	code, page, stderr := runArgs(t, "", "report", "-i", p.Archive, "--stdio", "--no-children", "-g", "none")
	if code != 0 || !strings.Contains(page, "hot_leaf") {
		t.Errorf("report of the bundle: exit status %d\n%s%s", code, page, stderr)
	}
	if code, stdout, stderr := runArgs(t, "", "verify", p.Archive); code != 0 || !strings.Contains(stdout, "coverage: ") {
		t.Errorf("verify: exit status %d: %s%s", code, stdout, stderr)
	}
	if _, err := exec.LookPath("zstd"); err == nil {
		dir := t.TempDir()
		if r := perftest.Run(t, dir, nil, nil, "tar", "--zstd", "-xf", p.Archive); r.Code != 0 {
			t.Fatalf("tar: %s", r.Stderr)
		}
		r := perftest.Run(t, dir, perftest.Env(dir), nil, "perf", "report", "-i", "perf.data", "--stdio", "--no-children", "-g", "none")
		if !strings.Contains(r.Stdout, "hot_leaf") {
			t.Errorf("perf in the unpacked bundle says\n%s%s", r.Stdout, r.Stderr)
		}
	}
	b, err := os.ReadFile(p.Archive)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 0x40
	bad := filepath.Join(t.TempDir(), "bad.perfark")
	if err := os.WriteFile(bad, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := runArgs(t, "", "verify", bad); code != 1 || stderr == "" {
		t.Errorf("verify of a damaged bundle: exit status %d: %s%s", code, stdout, stderr)
	}
}

// perf archive's own output is read in place, verified, and resolves.
func TestArchiveOfPerf(t *testing.T) {
	h := newHost(t)
	perftest.NeedTool(t, "bzip2")
	h.cc("spin", spinSource)
	data := h.record("-g", "--", "./spin")
	if r := perftest.Run(t, h.dir, append(perftest.Env(h.home), "TMPDIR="+t.TempDir()), nil, "perf", "archive", data); r.Code != 0 {
		t.Skipf("NOTICE: perf archive does not work here: %s", r.Stderr)
	}
	if got := h.report(data, data+".tar.bz2"); !strings.Contains(got, "hot_leaf") {
		t.Errorf("by perf's archive:\n%s", got)
	}
	code, stdout, stderr := runArgs(t, "", "verify", data+".tar.bz2", data)
	if code != 0 && code != 3 || !strings.Contains(stdout, "without a recorded hash") {
		t.Errorf("verify: exit status %d: %s%s", code, stdout, stderr)
	}
}

// B01: nothing to be found is exit status 1 and no file; with --allow-missing
// it is an archive that says what it lacks.
func TestArchiveNothing(t *testing.T) {
	h := newHost(t)
	h.cc("spin", spinSource, "-static")
	data := h.record("--", "./spin")
	os.Rename("spin", "gone")
	h.use(t.TempDir())
	p := h.pack(data)
	if p.code != 1 || !strings.Contains(p.stderr, h.dir+"/spin: ") || !strings.Contains(p.stderr, "nothing to archive") {
		t.Errorf("exit status %d: %s", p.code, p.stderr)
	}
	if _, err := os.Stat(data + ".tar.zst"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a file: %v", err)
	}
	p = h.pack(data, "--allow-missing")
	if p.code != 0 || p.lacks(h.dir+"/spin") == "" {
		t.Errorf("--allow-missing: exit status %d, missing %v: %s", p.code, p.Missing, p.stderr)
	}
}

// B02, B03: the debug file of a stripped program comes along, by id and by
// debuglink, and is the first to go over --max-object-size.
func TestArchiveDebugFile(t *testing.T) {
	h := newHost(t)
	perftest.NeedTool(t, "objcopy")
	h.cc("app", spinSource)
	h.sh(`objcopy --only-keep-debug app app.debug; objcopy --strip-all --add-gnu-debuglink=app.debug app
		head -c 300000 /dev/urandom > fat; objcopy --add-section .debug_fat=fat app.debug fat.debug`)
	data := h.record("--", "./app")
	if p := h.pack(data); p.code != 0 || !strings.Contains(h.report(data, p.Archive), "hot_leaf") {
		t.Errorf("by debuglink: exit status %d: %s", p.code, p.stderr)
	}
	h.sh(`id=$(readelf -n app | sed -n 's/.*Build ID: //p'); rm app.debug; mkdir -p dbg/.build-id/${id:0:2}; mv fat.debug dbg/.build-id/${id:0:2}/${id:2}.debug`)
	p := h.pack(data, "--debug-dir", "dbg")
	if p.code != 0 || !strings.Contains(h.report(data, p.Archive), "hot_leaf") {
		t.Errorf("by id: exit status %d: %s", p.code, p.stderr)
	}
	p = h.pack(data, "--debug-dir", "dbg", "--max-object-size", "100K")
	if !p.has(h.dir+"/app") || strings.Contains(h.report(data, p.Archive), "hot_leaf") || p.noNames(h.dir+"/app") == "" {
		t.Errorf("--max-object-size: exit status %d: %s", p.code, p.stderr)
	}
	if p = h.pack(data, "--debug-dir", "dbg", "--debug-info", "none"); strings.Contains(h.report(data, p.Archive), "hot_leaf") {
		t.Error("--debug-info none packed it")
	}
}

// B07: an id of zeros is none: two programs with it stay apart.
func TestArchiveZeroID(t *testing.T) {
	h := newHost(t)
	const zeros = "-Wl,--build-id=0x0000000000000000000000000000000000000000"
	h.cc("z1", spinSource, zeros)
	h.cc("z2", otherSource, zeros)
	data := h.record("--", "sh", "-c", "./z1; ./z2")
	p := h.pack(data)
	for _, o := range p.Objects {
		if slices.Contains(o.Paths, "/"+"z1") && o.ID != "" {
			t.Errorf("%+v", o)
		}
	}
	if !p.has(h.dir+"/z1") || !p.has(h.dir+"/z2") {
		t.Fatalf("objects %v, missing %v", p.Objects, p.Missing)
	}
	got := h.report(data, p.Archive, "--sort", "dso,sym")
	for _, line := range strings.Split(got, "\n") {
		if strings.Contains(line, "z1 ") && strings.Contains(line, "zzz_wrong_function") || strings.Contains(line, "z2 ") && strings.Contains(line, "hot_leaf") {
			t.Errorf("the other program's function: %s", line)
		}
	}
	if !strings.Contains(got, "hot_leaf") || !strings.Contains(got, "zzz_wrong_function") {
		t.Errorf("rows\n%s", got)
	}
}

// B09: a Go program without a GNU id goes in under the hash of its contents.
func TestArchiveGo(t *testing.T) {
	h := newHost(t)
	perftest.NeedTool(t, "go")
	src := "package main\n\nvar sink int\n\n//go:noinline\nfunc hotLeaf(n int) {\n\tfor i := 0; i < n; i++ {\n\t\tsink += i * i\n\t}\n}\n\nfunc main() { hotLeaf(200000000) }\n"
	if err := os.WriteFile(filepath.Join(h.dir, "x.go"), []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-ldflags=-B none", "-o", "gobin", "x.go")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOCACHE="+goEnv(t, "GOCACHE"), "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	data := h.record("--", "./gobin")
	p := h.pack(data)
	found := false
	for _, o := range p.Objects {
		if slices.Contains(o.Paths, "") || !strings.HasSuffix(string(o.Paths[0]), "/gobin") {
			continue
		}
		found = true
		if o.ID != "" || !o.Unverified || o.GoID == "" || !strings.Contains(string(o.Files[0].Name), o.Files[0].SHA256) {
			t.Errorf("%+v", o)
		}
	}
	if got := h.report(data, p.Archive); !found || !strings.Contains(got, "main.hotLeaf") {
		t.Errorf("found %v, rows\n%s", found, got)
	}
}

func goEnv(t *testing.T, name string) string {
	cmd := exec.Command("go", "env", name)
	cmd.Env = append(os.Environ(), "HOME="+realHome)
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("NOTICE: go env: %v", err)
	}
	return strings.TrimSpace(string(out))
}

var realHome = os.Getenv("HOME")

// B19: two programs with one id, recorded one after the other in one home:
// each recording gets its own.
func TestArchiveCollision(t *testing.T) {
	h := newHost(t)
	const same = "-Wl,--build-id=0x1111111111111111111111111111111111111111"
	h.cc("other", otherSource, same)
	h.cc("spin", spinSource, same)
	h.record("--", "./other")
	data := h.record("--", "./spin")
	p := h.pack(data)
	got := h.report(data, p.Archive)
	if !strings.Contains(got, "hot_leaf") || strings.Contains(got, "zzz_wrong_function") {
		t.Errorf("rows\n%s\n%s", got, p.stderr)
	}
	both := h.record("--", "sh", "-c", "./other; ./spin")
	p = h.pack(both)
	for _, line := range strings.Split(h.report(both, p.Archive, "--sort", "dso,sym"), "\n") {
		if strings.Contains(line, " spin ") && strings.Contains(line, "zzz_") || strings.Contains(line, " other ") && strings.Contains(line, "hot_") {
			t.Errorf("the other program's function: %s", line)
		}
	}
}

// B18: one program on two paths is stored once, and both are listed.
func TestArchiveTwoPaths(t *testing.T) {
	h := newHost(t)
	h.cc("a", spinSource)
	h.sh("cp a b")
	data := h.record("--", "sh", "-c", "./a; ./b")
	p := h.pack(data)
	n := 0
	for _, o := range p.Objects {
		if o.Paths[0] == "/" || !strings.HasPrefix(string(o.Paths[0]), h.dir) {
			continue
		}
		n++
		if len(o.Paths) != 2 || len(o.Files) != 1 {
			t.Errorf("%+v", o)
		}
	}
	if n != 1 {
		t.Errorf("%d objects of ours, want 1", n)
	}
	if got := h.report(data, p.Archive, "--sort", "dso,sym"); strings.Count(got, "hot_leaf") != 2 {
		t.Errorf("rows\n%s", got)
	}
}

// B21: the best copy of an id wins, though a stripped one was recorded first.
func TestArchiveBestCopy(t *testing.T) {
	h := newHost(t)
	perftest.NeedTool(t, "strip")
	h.cc("full", spinSource)
	h.sh("strip -o tool full")
	h.record("--", "./tool")
	h.sh("mv full tool")
	data := h.record("--", "./tool")
	p := h.pack(data)
	if got := h.report(data, p.Archive); !strings.Contains(got, "hot_leaf") {
		t.Errorf("rows\n%s", got)
	}
}

// B33: names of any bytes.
func TestArchiveNames(t *testing.T) {
	h := newHost(t)
	h.cc("spin", spinSource)
	h.sh(`mkdir 'd ir (x)'; cp spin 'd ir (x)/a b'; cp spin $'new\nline'; cp spin $'b\xff\xfe'`)
	data := h.record("--", "bash", "-c", `'d ir (x)/a b'; ./new?line; ./b??`)
	moved := filepath.Join(filepath.Dir(data), "my data.x")
	if err := os.Rename(data, moved); err != nil {
		t.Fatal(err)
	}
	p := h.pack(moved)
	for _, n := range []string{"/d ir (x)/a b", "/b\xff\xfe"} {
		if !p.has(h.dir + n) {
			t.Errorf("%q is not packed: %v", n, p.Missing)
		}
	}
	if p.Archive != moved+".tar.zst" || p.code != 0 {
		t.Errorf("archive %q, exit status %d: %s", p.Archive, p.code, p.stderr)
	}
}

// C01, C02: a program of a mount namespace that is gone is not the file at its
// path on the host; one that runs is taken from its process.
func TestArchiveNamespace(t *testing.T) {
	h := newHost(t)
	h.cc("real", spinSource)
	h.sh("mkdir ns")
	h.cc("ns/prog", otherSource)
	inside := func(n string) string {
		return "mount -t tmpfs none ns && cp real ns/prog && exec ns/prog " + n
	}
	if r := perftest.Run(t, h.dir, nil, nil, "unshare", "-m", "sh", "-c", inside("1")); r.Code != 0 {
		t.Skipf("NOTICE: no mount namespaces here: %s", r.Stderr)
	}
	data := h.record("-a", "--", "unshare", "-m", "sh", "-c", inside("100000000"))
	p := h.pack(data)
	if reason := p.lacks(h.dir + "/ns/prog"); p.code != 3 || !strings.HasPrefix(reason, "replaced: ") {
		t.Errorf("exit status %d, ns/prog: %q", p.code, reason)
	}
	if got := h.report(data, p.Archive); strings.Contains(got, "zzz_wrong_function") {
		t.Errorf("the host's file was used:\n%s", got)
	}
	pid := h.start("unshare", "-m", "sh", "-c", inside("20000000000"))
	data = h.record("-p", pid, "--", "sleep", "0.2")
	p = h.pack(data)
	if got := h.report(data, p.Archive); !p.has(h.dir+"/ns/prog") || !strings.Contains(got, "hot_leaf") {
		t.Errorf("living process: exit status %d\n%s\n%s", p.code, got, p.stderr)
	}
}

// start starts a program that is killed at the end of the test, and waits
// until it runs what it execs.
func (h *host) start(name string, args ...string) (pid string) {
	h.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = h.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	time.Sleep(300 * time.Millisecond)
	return itoa(cmd.Process.Pid)
}

func itoa(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

// C05: a deleted program is taken from its process while that lives; later the
// reason is told.
func TestArchiveDeleted(t *testing.T) {
	h := newHost(t)
	h.cc("delapp", spinSource)
	pid := h.start("./delapp", "20000000000")
	os.Remove("delapp")
	data := h.record("-p", pid, "--", "sleep", "0.2")
	p := h.pack(data)
	if got := h.report(data, p.Archive); p.code != 0 || !strings.Contains(got, "hot_leaf") {
		t.Errorf("exit status %d\n%s\n%s", p.code, got, p.stderr)
	}
	if r := perftest.Run(t, h.dir, nil, nil, "kill", "-9", pid); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	time.Sleep(100 * time.Millisecond)
	p = h.pack(data, "-o", filepath.Join(t.TempDir(), "x.tar.bz2"))
	if reason := p.lacks(h.dir + "/delapp (deleted)"); p.code != 3 && p.code != 1 || !strings.HasPrefix(reason+p.stderr, "deleted: ") && !strings.Contains(p.stderr, ": deleted: ") {
		t.Errorf("after its end: exit status %d, %q: %s", p.code, reason, p.stderr)
	}
}

// C06: a file whose name ends in " (deleted)" is told from a deleted one.
func TestArchiveDeletedName(t *testing.T) {
	h := newHost(t)
	h.cc("x (deleted)", spinSource)
	h.cc("y", otherSource)
	data := h.record("--", "sh", "-c", "'./x (deleted)'; ./y; mv y y.away")
	p := h.pack(data)
	if !p.has(h.dir+"/x (deleted)") || p.has(h.dir+"/y") || p.lacks(h.dir+"/y") == "" {
		t.Errorf("objects %v, missing %v", p.Objects, p.Missing)
	}
	if got := h.report(data, p.Archive); !strings.Contains(got, "hot_leaf") || strings.Contains(got, "zzz_wrong_function") {
		t.Errorf("rows\n%s", got)
	}
}

// C07: a program that was replaced while it was recorded: the id in the
// recording is that of the new file, which is not used.
func TestArchiveUpgraded(t *testing.T) {
	h := newHost(t)
	h.cc("up", spinSource)
	h.cc("new", otherSource)
	data := h.record("--", "sh", "-c", "./up 300000000 & sleep 0.3; mv new up; wait")
	p := h.pack(data, "--allow-missing")
	if p.has(h.dir+"/up") || !strings.Contains(p.lacks(h.dir+"/up"), "the file changed during the recording") {
		t.Errorf("exit status %d, up: %q: %s", p.code, p.lacks(h.dir+"/up"), p.stderr)
	}
	if got := h.report(data, p.Archive); strings.Contains(got, "zzz_wrong_function") {
		t.Errorf("the new file was used:\n%s", got)
	}
}

const memfdSource = `#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int c, char **v) {
	int m = memfd_create("prog", 0), f = open(v[1], O_RDONLY);
	char b[65536], p[64];
	long n;
	while ((n = read(f, b, sizeof b)) > 0) write(m, b, n);
	sprintf(p, "/proc/self/fd/%d", m);
	execv(p, v + 1);
	return 1;
}
`

// C10: a program in memory is taken from its process, and never looked up on
// a disk; without a process there is one clear reason.
func TestArchiveMemfd(t *testing.T) {
	h := newHost(t)
	h.cc("memfd", memfdSource)
	h.cc("spin", spinSource)
	pid := h.start("./memfd", "./spin", "20000000000")
	data := h.record("-p", pid, "--", "sleep", "0.2")
	p := h.pack(data)
	if got := h.report(data, p.Archive); p.code != 0 || !strings.Contains(got, "hot_leaf") {
		t.Errorf("exit status %d\n%s\n%s", p.code, got, p.stderr)
	}
	data = h.record("--", "./memfd", "./spin")
	p = h.pack(data, "--allow-missing")
	if reason := p.lacks("/memfd:prog (deleted)"); !strings.HasPrefix(reason, "memfd: ") {
		t.Errorf("/memfd:prog: %q: %s", reason, p.stderr)
	}
}

// S10: a program without section headers has its id in a segment.
func TestArchiveSectionless(t *testing.T) {
	h := newHost(t)
	h.cc("app", spinSource, "-rdynamic")
	b, err := os.ReadFile("app")
	if err != nil {
		t.Fatal(err)
	}
	copy(b[40:48], make([]byte, 8)) // e_shoff
	copy(b[58:64], make([]byte, 6)) // e_shentsize, e_shnum, e_shstrndx
	if err := os.WriteFile("app", b, 0o755); err != nil {
		t.Fatal(err)
	}
	data := h.record("--buildid-mmap", "--", "./app")
	p := h.pack(data)
	if p.code != 0 || !p.has(h.dir+"/app") {
		t.Errorf("exit status %d, missing %v: %s", p.code, p.Missing, p.stderr)
	}
}

// S12: a kallsyms of zeros in the cache is not packed.
func TestArchiveZeroKallsyms(t *testing.T) {
	h := newHost(t)
	data := h.record("-e", "cpu-clock:k", "--", "dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=300000")
	files, _ := filepath.Glob(h.home + "/.debug/*kernel.kallsyms*/*/kallsyms")
	if len(files) != 1 {
		t.Skip("NOTICE: perf caches no kallsyms here")
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var zeros strings.Builder
	for line := range strings.Lines(string(b)) {
		if len(line) > 16 {
			zeros.WriteString("0000000000000000" + line[16:])
		}
	}
	if err := os.WriteFile(files[0], []byte(zeros.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	p := h.pack(data, "--allow-missing")
	if p.code != 0 || !p.has("[kernel.kallsyms]") {
		t.Skipf("NOTICE: the running kernel's kallsyms is not to be had: %v", p.Missing)
	}
	for _, o := range p.Objects {
		if o.Paths[0] == "[kernel.kallsyms]" && o.Files[0].Origin != "/proc/kallsyms" {
			t.Errorf("packed %q", o.Files[0].Origin)
		}
	}
}

// S11: the kernel that runs is not asked for the symbols of another one.
func TestArchiveForeignKernel(t *testing.T) {
	h := newHost(t)
	data := h.record("-e", "cpu-clock:k", "--", "dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=300000")
	id, err := store.KernelID("")
	if err != nil {
		t.Skipf("NOTICE: the running kernel shows no build id: %v", err)
	}
	b, err := os.ReadFile(data)
	if err != nil {
		t.Fatal(err)
	}
	foreign := bytes.ReplaceAll(b, []byte(id), bytes.Repeat([]byte{0xee}, len(id)))
	if err := os.WriteFile(data, foreign, 0o600); err != nil {
		t.Fatal(err)
	}
	p := h.pack(data, "--allow-missing")
	reason := p.lacks("[kernel.kallsyms]")
	if p.has("[kernel.kallsyms]") || !strings.Contains(reason, "other-kernel: the running kernel has build id "+id.String()) {
		t.Errorf("kernel: %q: %s", reason, p.stderr)
	}
	if got := h.report(data, p.Archive); strings.Contains(got, "[k] ksys") || strings.Contains(got, "[k] vfs_") {
		t.Errorf("names of the running kernel:\n%s", got)
	}
}

// S15: recorded by root, archived by somebody else: whose cache may hold what
// is missing is told, and the command.
func TestArchiveOtherUser(t *testing.T) {
	h := newHost(t)
	if os.Geteuid() != 0 {
		t.Skip("NOTICE: needs root")
	}
	perftest.NeedTool(t, "setpriv")
	h.cc("spin", spinSource)
	data := h.record("--", "./spin")
	dir, err := os.MkdirTemp("/tmp", "perfark-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	os.Chmod(dir, 0o777)
	b, err := os.ReadFile(data)
	if err != nil {
		t.Fatal(err)
	}
	os.WriteFile(filepath.Join(dir, "perf.data"), b, 0o644)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	self := filepath.Join(dir, "perfark")
	if r := perftest.Run(t, dir, nil, nil, "cp", exe, self); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	os.Chmod(self, 0o755)
	r := perftest.Run(t, dir, []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}, nil, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", self, "archive", "--allow-missing")
	if r.Code != 0 || !strings.Contains(r.Stderr, "(uid 65534)") || !strings.Contains(r.Stderr, "hint: sudo perfark archive") {
		t.Errorf("exit status %d: %s", r.Code, r.Stderr)
	}
	r = perftest.Run(t, dir, []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}, nil, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", self, "report")
	if note := "(uid 65534) cannot read, may hold what is missing"; r.Code != 0 || strings.Contains(r.Stderr, "unnamed: [kernel") && !strings.Contains(r.Stderr, note) {
		t.Errorf("report: exit status %d, or no %q: %s", r.Code, note, r.Stderr)
	}
}

// Names that tar or perfark would take for something else.
func TestOperand(t *testing.T) {
	for name, want := range map[string]string{
		"perf.data.tar.bz2": "perf.data.tar.bz2", "-x.perfark": "./-x.perfark", "at-12:30.tar.bz2": "./at-12:30.tar.bz2", "/d/at-12:30": "/d/at-12:30",
	} {
		if got := operand(name); got != want {
			t.Errorf("operand(%q) = %q, want %q", name, got, want)
		}
	}
}

// What an archive lacks is not looked for on this host, and those who packed
// know best why it is missing.
func TestMerge(t *testing.T) {
	lacks := func(path, reason, detail, hint string) archive.Missing {
		return archive.Missing{ID: "\x01\x02", Path: archive.Name(path), Reason: reason, Detail: detail, Hint: hint}
	}
	known := []archive.Missing{lacks("/a", "unreadable", "by nobody", "sudo")}
	got := merge([]archive.Missing{lacks("/a", "not-found", "no such file", ""), lacks("/b", "not-found", "no such file", "")}, known, "perfark archive -i x")
	want := []archive.Missing{known[0], lacks("/b", "not-found", "not in the archive", "perfark archive -i x, on the host that recorded")}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// S55: the vDSO comes along, by its id.
func TestArchiveVDSO(t *testing.T) {
	h := newHost(t)
	h.cc("vd", "#include <time.h>\nint main(){struct timespec t;for(long i=0;i<4000000;i++)clock_gettime(CLOCK_MONOTONIC,&t);return 0;}\n")
	data := h.record("--", "./vd")
	p := h.pack(data)
	if got := h.report(data, p.Archive); !p.has("[vdso]") || !strings.Contains(got, "[vdso]") || strings.Contains(got, "[vdso]  [.] 0x") {
		t.Errorf("missing %v, rows\n%s", p.Missing, got)
	}
}

// S57: a stripped program is no gap in the archive, but its frames have no
// names, and that is told.
func TestArchiveStripped(t *testing.T) {
	h := newHost(t)
	perftest.NeedTool(t, "strip")
	h.cc("app", spinSource, "-s")
	data := h.record("--", "./app")
	p := h.pack(data)
	if p.code != 0 || !p.has(h.dir+"/app") || !strings.HasPrefix(p.noNames(h.dir+"/app"), "stripped") {
		t.Errorf("exit status %d: %s", p.code, p.stderr)
	}
}

// The wrong command line is one line and an exit status.
func TestArchiveErrors(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	os.WriteFile("ids", []byte("# comment\n\n00112233 /path\nxyz\n"), 0o600)
	os.WriteFile("empty", nil, 0o600)
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{}, 1, "perfark: archive: perf.data: no such file\nperfark: hint: name one with -i, or make one with perf record\n"},
		{[]string{"none"}, 1, "perfark: archive: none: no such file\n"},
		{[]string{"a", "b"}, 2, "perfark: archive: one input, please: got \"a\" and \"b\"\n"},
		{[]string{"--format", "zip"}, 2, "perfark: archive: --format \"zip\": not one of bz2, zst, gz, xz, tar, perfark\n"},
		{[]string{"--all", "--format", "gz"}, 2, "perfark: archive: --all writes a bundle; --format gz does not go with it\n"},
		{[]string{"--level", "10"}, 2, "perfark: archive: --level 10: not from 1 to 9\n"},
		{[]string{"--level", "0"}, 2, "perfark: archive: --level 0: not from 1 to 9\n"},
		{[]string{"--level", "3", "--format", "xz"}, 2, "perfark: archive: --level 3: xz is written at one level only\n"},
		{[]string{"--level", "3", "--format", "tar"}, 2, "perfark: archive: --level 3: a tar is not compressed\n"},
		{[]string{"--debug-info", "some"}, 2, "perfark: archive: --debug-info: \"some\": not one of none, hot, all\n"},
		{[]string{"--min-coverage", "101"}, 2, "perfark: archive: --min-coverage 101: not a percentage from 0 to 100\n"},
		{[]string{"--max-object-size", "64X"}, 2, "perfark: archive: invalid argument \"64X\" for \"--max-object-size\" flag: \"64X\" is not a size such as 500, 64K, 20M or 4G\n"},
		{[]string{"--exclude-buildids", "nofile"}, 1, "perfark: archive: --exclude-buildids: nofile: no such file or directory\n"},
		{[]string{"--exclude-buildids", "ids"}, 1, "perfark: archive: --exclude-buildids: ids: line 4: build id \"xyz\": not an even number of hex digits\n"},
		{[]string{"-i", "-"}, 2, "perfark: archive: -o FILE is needed when the recording comes from standard input\n"},
		{[]string{"--unpack"}, 1, "perfark: archive: --unpack: no perf*.tar.bz2 or perf*.perfark here; name the archive\n"},
	} {
		code, stdout, stderr := runArgs(t, "", append([]string{"archive"}, tt.args...)...)
		if code != tt.code || stdout != "" || stderr != tt.want {
			t.Errorf("archive %q: exit status %d, %q%q, want %d, %q", tt.args, code, stdout, stderr, tt.code, tt.want)
		}
	}
}

func FuzzParseExcludes(f *testing.F) {
	f.Add([]byte("# comment\n\n00112233 /path\n00000000\n"))
	f.Add([]byte("xyz\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		ids, err := parseExcludes(bytes.NewReader(b))
		if err == nil && len(ids) > bytes.Count(b, []byte("\n"))+1 {
			t.Errorf("%d ids of %d bytes", len(ids), len(b))
		}
		for _, id := range ids {
			if id == "" {
				t.Error("an id that is none")
			}
		}
	})
}
