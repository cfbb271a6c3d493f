package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
)

// removeMaps removes the perf maps that the programs of a test leave in /tmp, in
// which perf looks for them, when it ends: those that have a symbol of that
// name. No other test makes some until then.
func removeMaps(t *testing.T, symbol string) {
	t.Helper()
	perftest.Alone(t, "maps")
	t.Cleanup(func() { deleteMaps(symbol) })
}

// deleteMaps deletes the perf maps that have a symbol of that name.
func deleteMaps(symbol string) {
	list, _ := filepath.Glob("/tmp/perf-*.map")
	for _, name := range list {
		if b, err := os.ReadFile(name); err == nil && bytes.Contains(b, []byte(symbol)) {
			os.Remove(name)
		}
	}
}

// jitSource makes code at run time and says so: with "map", in
// /tmp/perf-PID.map; with "dump", in jit-PID.dump, where the code of one place
// changes, and moves.
const jitSource = `#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* mov %edi,%eax; 1: dec %eax; jnz 1b; ret */
static const unsigned char loop[] = {0x89, 0xf8, 0xff, 0xc8, 0x75, 0xfc, 0xc3};
static int fd;
static uint64_t count;
struct prefix { uint32_t id, size; uint64_t time; };

static uint64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}
static void put(const void *b, size_t n) { if (write(fd, b, n) != (ssize_t)n) exit(1); }
static void load(const char *name, void *code, const char *file, int line) {
	struct { struct prefix p; uint64_t addr, n; } info = {{2, 0, now()}, (uintptr_t)code, 2};
	info.p.size = sizeof info + 2 * 16 + strlen(file) + 1 + 2;
	put(&info, sizeof info);
	uint64_t at = (uintptr_t)code;
	int l[2] = {line, 0};
	put(&at, 8); put(l, 8); put(file, strlen(file) + 1);
	at += 2; l[0]++;
	put(&at, 8); put(l, 8); put("\xff", 2);
	struct { struct prefix p; uint32_t pid, tid; uint64_t vma, addr, size, index; } r = {
		{0, sizeof r + strlen(name) + 1 + sizeof loop, now()}, getpid(), syscall(SYS_gettid), (uintptr_t)code, (uintptr_t)code, sizeof loop, count++};
	put(&r, sizeof r); put(name, strlen(name) + 1); put(code, sizeof loop);
}
static void run(void *code, int ms) {
	/* Some milliseconds a time, so that hardly a sample is of the clock. */
	for (uint64_t end = now() + ms * 1000000ull; now() < end;) ((int (*)(int))code)(5000000);
}
int main(int argc, char **argv) {
	int ms = atoi(argv[2]);
	char name[256];
	unsigned char *m = mmap(0, 1 << 16, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(m + 64, loop, sizeof loop);
	if (!strcmp(argv[1], "map")) {
		snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
		FILE *f = fopen(name, "w");
		fprintf(f, "%lx %zx jit_old\n%lx %zx jit_hot\n", (long)m, sizeof loop + 64, (long)m + 64, sizeof loop);
		fclose(f);
		run(m + 64, ms);
		return 0;
	}
	snprintf(name, sizeof name, "%s/jit-%d.dump", argv[3], getpid());
	fd = open(name, O_CREAT | O_TRUNC | O_RDWR, 0600);
	struct { uint32_t magic, version, size, mach, pad, pid; uint64_t time, flags; } h = {0x4a695444, 1, sizeof h, EM_X86_64, 0, getpid(), now(), 0};
	put(&h, sizeof h);
	if (mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED) return 1;
	load("jit_first", m + 64, "first.js", 10);
	run(m + 64, ms);
	mprotect(m, 1 << 16, PROT_READ | PROT_WRITE);
	mprotect(m, 1 << 16, PROT_READ | PROT_WRITE | PROT_EXEC);
	load("jit_second", m + 64, "second.js", 20);
	run(m + 64, 2 * ms);
	memcpy(m + 0x8000, loop, sizeof loop);
	struct { struct prefix p; uint32_t pid, tid; uint64_t vma, old, addr, size, index; } mv = {
		{1, sizeof mv, now()}, getpid(), getpid(), (uintptr_t)m + 0x8000, (uintptr_t)m + 64, (uintptr_t)m + 0x8000, sizeof loop, 1};
	put(&mv, sizeof mv);
	run(m + 0x8000, ms);
	return 0;
}
`

// TestJITDump: what perf names after perf inject -j is named without, and from
// the bundle alone; and each line is there.
func TestJITDump(t *testing.T) {
	h := newHost(t)
	h.cc("jit", jitSource)
	data := h.record("-k", "mono", "./jit", "dump", "100", h.dir)
	if _, err := os.Stat(filepath.Join(h.dir, "jit")); err != nil {
		t.Fatal(err)
	}
	injected := filepath.Join(t.TempDir(), "injected.data")
	if r := perftest.Run(t, h.dir, nil, nil, "perf", "inject", "-j", "-i", data, "-o", injected); r.Code != 0 {
		t.Fatalf("perf inject: %s", r.Stderr)
	}
	// Rows are PERCENT SYMBOL.
	symbols := func(page string) string {
		var out []string
		for line := range strings.Lines(rows(page)) {
			if f := strings.Fields(line); len(f) > 2 && strings.HasPrefix(f[len(f)-1], "jit_") {
				out = append(out, f[0]+" "+f[len(f)-1])
			}
		}
		return strings.Join(out, "\n")
	}
	r := perftest.Run(t, h.dir, nil, nil, "perf", "report", "-i", injected, "--stdio", "--no-children", "-s", "sym")
	want := symbols(r.Stdout)
	code, stdout, stderr := runArgs(t, "", "report", "-i", data, "--stdio", "--no-children", "-s", "sym")
	if got := symbols(stdout); code != 0 || got != want || !strings.Contains(got, "jit_first") || !strings.Contains(got, "jit_second") {
		t.Fatalf("exit status %d\n%s\nwant\n%s\n%s", code, stdout, r.Stdout, stderr)
	}
	bundle := filepath.Join(t.TempDir(), "x.perfark")
	p := h.pack(data, "--all", "-o", bundle)
	if p.code != 0 {
		t.Errorf("archive: exit status %d: %s", p.code, p.stderr)
	}
	dumps, err := filepath.Glob("jit-*.dump")
	if err != nil || len(dumps) != 1 || !p.has(filepath.Join(h.dir, dumps[0])) {
		t.Errorf("%q, %v: packed is %+v", dumps, err, p.Objects)
	}
	os.Remove(dumps[0])
	code, stdout, stderr = runArgs(t, "", "report", "-i", bundle, "--stdio", "--no-children", "-s", "sym")
	if got := symbols(stdout); code != 0 || got != want {
		t.Errorf("from the bundle: exit status %d\n%s\n%s", code, stdout, stderr)
	}
	if code, stdout, _ = runArgs(t, "", "report", "-i", bundle, "--stdio", "--no-children", "-s", "srcline"); !strings.Contains(stdout, "first.js:11") || !strings.Contains(stdout, "second.js:21") {
		t.Errorf("lines: exit status %d\n%s", code, stdout)
	}
	if code, stdout, stderr = runArgs(t, "", "verify", bundle); code != 0 {
		t.Errorf("verify: exit status %d\n%s%s", code, stdout, stderr)
	}
	dir := t.TempDir()
	if code, _, stderr = runArgs(t, "", "unpack", "-C", dir, bundle); code != 0 {
		t.Errorf("unpack: exit status %d: %s", code, stderr)
	}
	code, stdout, stderr = runArgs(t, "", "report", "-i", data, "--symbols", dir, "--stdio", "--no-children", "-s", "sym")
	if got := symbols(stdout); code != 0 || got != want {
		t.Errorf("from the unpacked bundle: exit status %d\n%s\n%s", code, stdout, stderr)
	}
}

// TestJITDumpClock: a recording by another clock says so.
func TestJITDumpClock(t *testing.T) {
	h := newHost(t)
	h.cc("jit", jitSource)
	data := h.record("./jit", "dump", "50", h.dir)
	code, stdout, stderr := runArgs(t, "", "report", "-i", data, "--stdio", "--no-children")
	if code != 0 || !strings.Contains(stdout, "jit_second") || strings.Contains(stdout, "jit_first") || !strings.Contains(stderr, "hint: perf record -k mono") {
		t.Errorf("exit status %d\n%s\n%s", code, stdout, stderr)
	}
}

// TestPerfMapNamespace: C03 and C04. A process in a namespace of its own, and
// one in two of them, writes /tmp/perf-1.map into its own /tmp. It is packed
// under the number that the recording has; one of another user is refused.
func TestPerfMapNamespace(t *testing.T) {
	for name, how := range map[string]string{
		"one": "exec ./jit map 60000",
		"two": "exec unshare -pf --kill-child --mount-proc ./jit map 60000",
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			removeMaps(t, "jit_hot")
			h.cc("jit", jitSource)
			if r := perftest.Run(t, h.dir, nil, nil, "unshare", "-pfm", "--mount-proc", "true"); r.Code != 0 {
				t.Skipf("NOTICE: no pid namespaces here: %s", r.Stderr)
			}
			h.start("unshare", "-pfm", "--kill-child", "--mount-proc", "sh", "-c", "mount -t tmpfs none /tmp && "+how)
			pid := childNamed(t, "jit")
			outer := "/tmp/perf-" + pid + ".map"
			data := h.record("-p", pid, "--", "sleep", "0.2")
			p := h.pack(data)
			if p.Archive == "" {
				t.Fatalf("exit status %d: %s", p.code, p.stderr)
			}
			if got := h.report(data, p.Archive); !strings.Contains(got, "jit_hot") || strings.Contains(got, "jit_old") {
				t.Errorf("exit status %d\n%s\n%s", p.code, got, p.lacks(outer)+p.stderr)
			}
			if err := os.Chown("/proc/"+pid+"/root/tmp/perf-1.map", 12345, -1); err != nil {
				t.Skipf("NOTICE: not root: %v", err)
			}
			p = h.pack(data)
			if why := p.lacks(outer) + p.stderr; p.code == 0 || !strings.Contains(why, "owned by user 12345") {
				t.Errorf("a map of somebody else: exit status %d, %s", p.code, why)
			}
		})
	}
}

// childNamed returns the pid of a descendant of this process that runs a
// program of a name.
func childNamed(t *testing.T, name string) string {
	t.Helper()
	self := itoa(os.Getpid())
	parent := func(pid string) string {
		b, _ := os.ReadFile("/proc/" + pid + "/stat")
		_, rest, _ := strings.Cut(string(b), ") ")
		if f := strings.Fields(rest); len(f) > 1 {
			return f[1]
		}
		return ""
	}
	list, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, comm := range list {
		if b, _ := os.ReadFile(comm); strings.TrimSpace(string(b)) != name {
			continue
		}
		pid := filepath.Base(filepath.Dir(comm))
		for p := pid; p != "" && p != "0" && p != "1"; p = parent(p) {
			if p == self {
				return pid
			}
		}
	}
	t.Fatalf("no process %q", name)
	return ""
}
