package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/internal/perftest"
)

// recordSource burns the processor in leaf, N times a million steps, and ends
// with STATUS.
const recordSource = `
#include <stdlib.h>
volatile unsigned long x;
__attribute__((noinline)) void leaf(int n) { for (int i = 0; i < n; i++) x += i * x + 1; }
__attribute__((noinline)) void mid(int n) { leaf(n); x++; }
int main(int c, char **v) {
	int n = atoi(v[1]);
	for (int i = 0; i < n; i++) mid(1000000);
	return c > 2 ? atoi(v[2]) : 0;
}
`

// A recorder is a directory with a program, burn, to be recorded in it, and
// perfark.
type recorder struct {
	testing.TB
	dir, bin string
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	perftest.NeedTool(t, "perf")
	perftest.NeedTool(t, "gcc")
	r := &recorder{TB: t, dir: t.TempDir()}
	t.Setenv("HOME", r.dir) // copies of files go there
	if err := os.Rename(perftest.CC(t, "burn", recordSource, "-O1", "-g", "-fno-omit-frame-pointer"), filepath.Join(r.dir, "burn")); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r.bin = filepath.Join(r.dir, "perfark")
	if err := os.Symlink(self, r.bin); err != nil {
		t.Fatal(err)
	}
	if res := r.record("probe.data", "-e", "cpu-clock", "--", "true"); res.Code != 0 {
		t.Skipf("NOTICE: no recording is possible here: %s", res.Stderr)
	}
	return r
}

// words splits a command line. A word that has spaces in it is written with ~.
func words(line string) []string {
	list := strings.Fields(line)
	for i := range list {
		list[i] = strings.ReplaceAll(list[i], "~", " ")
	}
	return list
}

func (r *recorder) record(out string, args ...string) perftest.Result {
	r.Helper()
	return perftest.Run(r, r.dir, nil, nil, r.bin, append([]string{"record", "-o", out}, args...)...)
}

func (r *recorder) perf(args ...string) perftest.Result {
	r.Helper()
	return perftest.PerfIn(r, r.dir, r.dir, nil, args...)
}

// background starts a program that is ended with the test.
func (r *recorder) background(name string, args ...string) *exec.Cmd {
	r.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = r.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd
}

// What is asked of the kernel is what perf record asks for with the same
// flags, and the exit statuses are perf's.
func TestRecordAttrs(t *testing.T) {
	r := newRecorder(t)
	sleep := strconv.Itoa(r.background("sleep", "60").Process.Pid)
	for _, flags := range []string{
		"+-- ./burn 2 3",
		"-g ./burn 2",
		"-a -- sleep 0.01",
		"-c 100000 -a -- sleep 0.01",
		"-C 0 -F 99 -- sleep 0.01",
		"-p PID -- sleep 0.01",
		"+-t PID -- sleep 0.01",
		"-e cpu-clock,task-clock -g -- ./burn 2",
		"+-e {cpu-clock,page-faults} --call-graph dwarf -- ./burn 2",
		"+-e {cpu-clock,page-faults}:S -d -- ./burn 2",
		"-e cpu-clock --call-graph dwarf,4096 -a -- sleep 0.01",
		"+-e cpu-clock -D 10 -s -T -- ./burn 8",
		"-e cpu-clock -D 10 -a -- sleep 0.1",
		"-e cpu-clock -a --namespaces --all-cgroups --switch-events -- ./burn 2",
		"+-c 100000 -e cpu-clock:u -i -W -P -k CLOCK_MONOTONIC -- ./burn 2",
		"-e page-faults -c 1 -d --phys-data --data-page-size -- ./burn 2",
		"-e cpu-clock -n -- ./burn 2",
		"-e cpu-clock --all-user -- ./burn 2",
		"-e cpu-clock --user-callchains -g -- ./burn 2",
		"-e cpu-clock -R --sample-cpu -- ./burn 2",
		"-e cpu-clock:k,task-clock:u --no-inherit -- ./burn 2",
		"-e cpu-clock -e page-faults --group -- ./burn 2",
		"-e dummy -- ./burn 2",
		"-e cpu-clock/period=100000,call-graph=fp/ -- ./burn 2",
		"-e cpu-clock --no-bpf-event --no-period -- ./burn 2",
		"-e mem:0x404000:rw -- ./burn 2",
		"+-e task-clock -z -- sh -c kill~-9~$$",
		"-e cpu-clock --call-graph fp,32 -- ./burn 2",
		"+-e cpu-clock/call-graph=dwarf,stack-size=4096,no-inherit/ -I --sample-identifier -- ./burn 2",
		"-e cpu-clock/max-stack=5,overwrite/,task-clock/freq=100,percore/ -- ./burn 2",
		"+-e {cpu-clock:u,task-clock:k}:D -D 1-2,3-4 --no-buffering -- ./burn 2",
		"-e {cpu-clock,task-clock}:W -- ./burn 2",
		"-e {cpu-clock,page-faults}:S -g -a -- ./burn 2",
		"-e cpu-clock:S,page-faults -- ./burn 2",
		"-e cpu-clock --user-regs=ip,ax --call-graph dwarf -- ./burn 2",
		"-e cpu-clock --user-regs -Iip,sp -- ./burn 2",
		"-e cpu-clock -r 1 --aio=2 --affinity cpu --mmap-flush 4096 -m 16,16 -- ./burn 2",
		"-e cpu-clock --synth=no --tail-synthesize --proc-map-timeout 100 --num-thread-synthesize 2 -- ./burn 2",
		"+-e sched:sched_switch --filter prev_pid>0 --filter prev_pid<5 -e cpu-clock -- ./burn 2",
		"-e sched:* -a -- ./burn 2",
		"-e {sched:*exec*} -- ./burn 2",
		"-e cpu-clock:ppp,cpu-clock:P,cpu-clock:Iu,cpu-clock:H,cpu-clock:G,cpu-clock:ku -- ./burn 2",
	} {
		flags, often := strings.CutPrefix(flags, "+")
		if !often && os.Getenv("PERFARK_RECORD") == "" {
			continue // make record has them all
		}
		t.Run(flags, func(t *testing.T) {
			r := &recorder{t, r.dir, r.bin}
			args := words(strings.ReplaceAll(flags, "PID", sleep))
			want := r.perf(append([]string{"record", "-o", "p.data"}, args...)...)
			wantAttrs := r.perf("evlist", "-v", "-i", "p.data")
			if wantAttrs.Code != 0 {
				t.Skipf("NOTICE: perf cannot record this here: %s", want.Stderr)
			}
			got := r.record("a.data", args...)
			attrs := strings.ReplaceAll(r.perf("evlist", "-v", "-i", "a.data").Stdout, ", build_id: 1", "")
			expect := wantAttrs.Stdout
			if want.Code < 0 && !strings.Contains(flags, "kill") { // perf died, see perftest.Record, and left no names
				name := regexp.MustCompile(`(?m)^.*?: type`)
				attrs, expect = name.ReplaceAllString(attrs, "type"), name.ReplaceAllString(expect, "type")
			}
			if attrs != expect {
				t.Errorf("attrs:\n%swant:\n%s", attrs, expect)
			}
			code := want.Code
			if strings.Contains(flags, "kill") { // perf dies of the signal that its command died of
				code = 128 + int(unix.SIGKILL)
			}
			if got.Code != code && code >= 0 { // see perftest.Record
				t.Errorf("exit status %d, want %d: %s", got.Code, code, got.Stderr)
			}
			if !strings.Contains(got.Stderr, "[ perf record: Captured and wrote ") {
				t.Errorf("standard error: %s", got.Stderr)
			}
		})
	}
}

// Every tool of perf reads what was recorded without a word, and says the same
// as perfark.
func TestRecordReaders(t *testing.T) {
	r := newRecorder(t)
	burn := strconv.Itoa(r.background("./burn", "100000").Process.Pid)
	for _, flags := range []string{
		"+-e cpu-clock -g -- ./burn 50",
		"-e cpu-clock --call-graph dwarf -F 500 -- ./burn 50",
		"-a -g -- ./burn 50",
		"+-p PID -- sleep 0.3",
		"-t PID -- sleep 0.3",
		"-e {cpu-clock,page-faults} -- ./burn 50",
		"+-z -g -- ./burn 50",
		"-z19 -a -- ./burn 50",
		"--per-thread -- ./burn 50",
		"--overwrite -- ./burn 50",
		"-D 50 -- ./burn 80",
		"-k mono -- ./burn 50",
		"-g -- sh -c for~i~in~1~2~3;do~./burn~5&~ls>/dev/null;done;wait;./burn~20",
	} {
		flags, often := strings.CutPrefix(flags, "+")
		if !often && os.Getenv("PERFARK_RECORD") == "" {
			continue // make record has them all
		}
		t.Run(flags, func(t *testing.T) {
			r := &recorder{t, r.dir, r.bin}
			if res := r.record("a.data", words(strings.ReplaceAll(flags, "PID", burn))...); res.Code != 0 {
				t.Fatalf("%d: %s", res.Code, res.Stderr)
			}
			for _, read := range []string{
				"report --stdio -i a.data", "script -i a.data", "annotate --stdio -i a.data -s leaf", "buildid-list -i a.data",
				"inject -b -i a.data -o inj.data", "diff a.data a.data", "report --header-only -I -i a.data",
			} {
				res := r.perf(strings.Fields(read)...)
				if res.Code != 0 || res.Stderr != "" || !strings.HasPrefix(read, "inject") && len(res.Stdout) < 40 {
					t.Errorf("perf %s: exit status %d, %d bytes, %s", read, res.Code, len(res.Stdout), res.Stderr)
				}
			}
			page := []string{"report", "--stdio", "--no-children", "-g", "none", "--comms", "burn", "--percent-limit", "1", "-i", "a.data"}
			want := r.perf(page...)
			got := perftest.Run(t, r.dir, perftest.Env(r.dir), nil, r.bin, page...)
			if recordRows(got.Stdout) != recordRows(want.Stdout) || !strings.Contains(recordRows(got.Stdout), "leaf") {
				t.Errorf("rows:\n%s\nwant:\n%s\n%s", recordRows(got.Stdout), recordRows(want.Stdout), got.Stderr)
			}
			if n := strings.Count(r.perf("buildid-list", "-i", "a.data").Stdout, "/burn"); n != 1 && !strings.Contains(flags, "-a ") {
				t.Errorf("the table of Build IDs has burn %d times", n)
			}
		})
	}
}

// recordRows are the lines of a page with a percentage, without the padding of its
// columns.
func recordRows(page string) string {
	var b strings.Builder
	for line := range strings.Lines(page) {
		if strings.Contains(line, "%") && !strings.HasPrefix(line, "#") {
			b.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
		}
	}
	return b.String()
}

// The same work gives as many samples as with perf.
func TestRecordCount(t *testing.T) {
	r := newRecorder(t)
	count := regexp.MustCompile(`\((\d+) samples\)`)
	samples := func(res perftest.Result) float64 {
		m := count.FindStringSubmatch(res.Stderr)
		if m == nil {
			t.Fatal(res.Stderr)
		}
		n, _ := strconv.Atoi(m[1])
		return float64(n)
	}
	flags := []string{"-e", "task-clock:u", "-c", "1000000", "--", "./burn", "150"}
	got := samples(r.record("a.data", flags...))
	want := samples(r.perf(append([]string{"record", "-o", "p.data"}, flags...)...))
	if math.Abs(got-want) > 0.2*want {
		t.Errorf("%v samples, perf %v", got, want)
	}
}

// In a pipe there is a recording too, and what the command prints is not in
// it.
func TestRecordPipe(t *testing.T) {
	r := newRecorder(t)
	for _, flags := range []string{"-e cpu-clock -g", "-e sched:sched_switch,cpu-clock", "-z"} {
		args := append(strings.Fields(flags), "--", "sh", "-c", "echo hello; ./burn 40")
		res := perftest.Run(t, r.dir, nil, nil, r.bin, append([]string{"record"}, args...)...)
		if res.Code != 0 || !strings.Contains(res.Stderr, "hello\n") {
			t.Errorf("%s: exit status %d, %s", flags, res.Code, res.Stderr)
		}
		if strings.HasPrefix(flags, "-e sched") && strings.Contains(res.Stderr, "tracepoint") {
			t.Skipf("NOTICE: %s", res.Stderr)
		}
		for _, read := range []string{"report --stdio -i -", "script -i -"} {
			out := perftest.PerfIn(t, r.dir, r.dir, []byte(res.Stdout), strings.Fields(read)...)
			if out.Code != 0 || out.Stderr != "" || !strings.Contains(out.Stdout, "leaf") {
				t.Errorf("%s: perf %s: exit status %d, %s", flags, read, out.Code, out.Stderr)
			}
		}
		out := perftest.Run(t, r.dir, perftest.Env(r.dir), []byte(res.Stdout), r.bin, "report", "-i", "-", "--stdio")
		if out.Code != 0 || !strings.Contains(out.Stdout, "leaf") {
			t.Errorf("%s: report: exit status %d, %s", flags, out.Code, out.Stderr)
		}
	}
}

// REC-3: a recorder that is killed at any moment leaves a recording with all
// that is older than a second.
func TestRecordKilled(t *testing.T) {
	r := newRecorder(t)
	kills := 3
	if n, err := strconv.Atoi(os.Getenv("PERFARK_KILLS")); err == nil {
		kills = n
	}
	for range kills {
		os.Remove(filepath.Join(r.dir, "k.data"))
		cmd := r.background(r.bin, "record", "-q", "-e", "cpu-clock", "-F", "2000", "-a", "-g", "-o", "k.data")
		for tries := 0; tries < 1000; tries++ { // on a busy machine it takes long to begin
			if _, err := os.Stat(filepath.Join(r.dir, "k.data")); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second + rand.N(time.Second))
		var ts unix.Timespec
		unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
		cmd.Process.Kill()
		cmd.Wait()
		perf := r.perf("script", "-i", "k.data", "-F", "time", "--ns")
		ours := perftest.Run(t, r.dir, perftest.Env(r.dir), nil, r.bin, "script", "-i", "k.data", "-F", "time", "--ns")
		for tool, res := range map[string]perftest.Result{"perf": perf, "perfark": ours} {
			last := 0.0
			for f := range strings.FieldsSeq(res.Stdout) {
				v, _ := strconv.ParseFloat(strings.TrimSuffix(f, ":"), 64)
				last = max(last, v)
			}
			if res.Code != 0 || tool == "perf" && res.Stderr != "" || float64(ts.Nano())/1e9-last > 1 {
				t.Errorf("%s: exit status %d, last sample %.3f s before the end, %s", tool, res.Code, float64(ts.Nano())/1e9-last, res.Stderr)
			}
		}
	}
}

// REC-4: what the kernel lost is in the recording, and said.
func TestRecordLost(t *testing.T) {
	r := newRecorder(t)
	burn := strconv.Itoa(r.background("./burn", "100000").Process.Pid)
	cmd := exec.Command(r.bin, "record", "-m", "1", "-F", "20000", "-e", "cpu-clock", "-p", burn, "-o", "l.data")
	var errs bytes.Buffer
	cmd.Dir, cmd.Stderr = r.dir, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT, syscall.SIGINT} {
		time.Sleep(600 * time.Millisecond)
		cmd.Process.Signal(s)
	}
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 128+int(syscall.SIGINT) {
		t.Errorf("exit status %d", code)
	}
	dump := r.perf("script", "-D", "-i", "l.data").Stdout
	sum := func(re string) (n int) {
		for _, m := range regexp.MustCompile(re).FindAllStringSubmatch(dump, -1) {
			v, _ := strconv.Atoi(m[1])
			n += v
		}
		return n
	}
	lost, samples := sum(`PERF_RECORD_LOST: id:\d+: lost:(\d+)`), sum(`lost samples :(\d+)`)
	// The kernel says LOST when there is room again, which may be never.
	if lost == 0 || samples < lost || !strings.Contains(errs.String(), fmt.Sprintf("perfark: %d of ", samples)) {
		t.Errorf("%d records and %d samples were lost; %s", lost, samples, &errs)
	}
}

// A signal ends the recording, which is complete; what the command does with
// it is its own affair, until a second one.
func TestRecordSignal(t *testing.T) {
	r := newRecorder(t)
	for _, test := range []struct {
		sig  syscall.Signal
		args string
		n    int
		code int
	}{
		{syscall.SIGINT, "-a", 1, 130},
		{syscall.SIGTERM, "-- sleep 60", 1, 143},
		{syscall.SIGTERM, "-- sh -c trap~''~TERM;exec~./burn~100000", 2, 143},
		{syscall.SIGTERM, "-- sh -c trap~'exit~5'~TERM;while~:;do~sleep~0.1;done", 1, 5},
	} {
		args := words(test.args)
		cmd := r.background(r.bin, append([]string{"record", "-q", "-e", "cpu-clock", "-o", "s.data"}, args...)...)
		for range test.n {
			time.Sleep(700 * time.Millisecond)
			cmd.Process.Signal(test.sig)
		}
		cmd.Wait()
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // its group: the command that would not end
		if code := cmd.ProcessState.ExitCode(); code != test.code {
			t.Errorf("%s: exit status %d, want %d", test.args, code, test.code)
		}
		if res := r.perf("report", "--stdio", "-i", "s.data"); res.Code != 0 || res.Stderr != "" {
			t.Errorf("%s: perf report: exit status %d, %s", test.args, res.Code, res.Stderr)
		}
	}
}

// REC-5: a file that is replaced while it runs keeps the id it had when it was
// mapped; the new one has its own.
func TestRecordReplaced(t *testing.T) {
	r := newRecorder(t)
	other := perftest.CC(t, "other", recordSource+"\nint more;", "-O1", "-g")
	script := fmt.Sprintf("cp burn x; ./x 20; cp %s y; mv y x; ./x 20; rm x", other)
	if res := r.record("r.data", "-e", "cpu-clock", "--buildid-mmap", "--", "sh", "-c", script); res.Code != 0 {
		t.Fatal(res.Stderr)
	}
	dump := r.perf("script", "-D", "-i", "r.data").Stdout
	ids := map[string]bool{}
	for _, m := range regexp.MustCompile(`<([0-9a-f]+)>\]: r-xp .*/x\n`).FindAllStringSubmatch(dump, -1) {
		ids[m[1]] = true
	}
	for _, f := range []string{filepath.Join(r.dir, "burn"), other} {
		id := strings.TrimSpace(r.perf("buildid-list", "-i", f).Stdout)
		id, _, _ = strings.Cut(id, " ")
		if !ids[id] {
			t.Errorf("%s: id %s is not among those of the mappings, %v", f, id, ids)
		}
	}
}

// Another file begins by size, and each is whole; a recording that stands in
// the place is kept.
func TestRecordFiles(t *testing.T) {
	r := newRecorder(t)
	res := r.record("sw.data", "-e", "cpu-clock", "-F", "10000", "--switch-output=100K", "--switch-max-files", "2", "--", "./burn", "3000")
	files, _ := filepath.Glob(filepath.Join(r.dir, "sw.data.*"))
	if res.Code != 0 || len(files) != 2 || strings.Count(res.Stderr, "[ perf record: Dump ") < 3 {
		t.Errorf("exit status %d, files %q, %s", res.Code, files, res.Stderr)
	}
	named := 0 // the last may have begun when the command had ended
	for _, f := range files {
		res := r.perf("script", "--show-mmap-events", "-i", f)
		if res.Code != 0 || res.Stderr != "" {
			t.Errorf("%s: %s", f, res.Stderr)
		}
		if strings.Contains(res.Stdout, "/burn") {
			named++
		}
	}
	if named == 0 {
		t.Error("a file that begins while the command runs does not know what it has mapped")
	}
	for range 2 {
		if res := r.record("old.data", "-e", "cpu-clock", "--max-size", "60K", "-F", "20000", "-m", "8", "--", "./burn", "100000"); !strings.Contains(res.Stderr, "[ perf record: perf size limit reached") {
			t.Errorf("exit status %d, %s", res.Code, res.Stderr)
		}
	}
	for _, f := range []string{"old.data", "old.data.old"} {
		st, err := os.Stat(filepath.Join(r.dir, f))
		if err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f, st, err)
		}
	}
	// REC-2: a link that somebody put there is not followed.
	victim := filepath.Join(r.dir, "victim")
	if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, filepath.Join(r.dir, "link.data")); err != nil {
		t.Fatal(err)
	}
	r.record("link.data", "-e", "cpu-clock", "--", "true")
	if b, err := os.ReadFile(victim); string(b) != "mine" || err != nil {
		t.Errorf("the file behind a link was written to: %d bytes, %v", len(b), err)
	}
}

// What stands where a recording is to go is moved or removed only if it is a
// recording or a link: no directory of anybody's, and none of the links of
// /dev.
func TestRecordInTheWay(t *testing.T) {
	r := newRecorder(t)
	path := func(name string) string { return filepath.Join(r.dir, name) }
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	there := func(name, text string) {
		t.Helper()
		if b, err := os.ReadFile(path(name)); err != nil || string(b) != text {
			t.Errorf("%s: %q, %v, want %q", name, b, err, text)
		}
	}
	write("src/main.c", "mine")
	if res := r.record("src", "-e", "cpu-clock", "--", "true"); res.Code != 1 || res.Stderr != "perfark: record: \"src\": a directory\n" {
		t.Errorf("exit status %d, %s", res.Code, res.Stderr)
	}
	there("src/main.c", "mine")
	write("app", "a file")
	write("app.old/data", "")
	write("app.old/notes", "mine")
	if res := r.record("app", "-e", "cpu-clock", "--", "true"); res.Code != 1 || !strings.Contains(res.Stderr, "\"app.old\": a directory is where") {
		t.Errorf("exit status %d, %s", res.Code, res.Stderr)
	}
	there("app", "a file")
	there("app.old/notes", "mine")
	// Recordings that are directories do as files do.
	write("dir/data", "new")
	write("dir/data.0", "new")
	write("dir.old/data", "old")
	if res := r.record("dir", "-e", "cpu-clock", "--", "true"); res.Code != 0 {
		t.Errorf("exit status %d, %s", res.Code, res.Stderr)
	}
	there("dir.old/data", "new")
	// An empty file has no recording before it.
	write("empty", "")
	write("empty.old", "old")
	r.record("empty", "-e", "cpu-clock", "--", "./nosuch")
	there("empty.old", "old")
	// One that another has just made is moved, not removed.
	first, err := createRecording(path("both"))
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := createRecording(path("both"))
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if _, err := first.WriteString("first"); err != nil {
		t.Fatal(err)
	}
	there("both.old", "first")
	// Links that the system has are no files of somebody.
	if err := os.Symlink("/proc/self/fd/1", path("stdout")); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Lstat(path("stdout"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"/dev/stdout": true, "/proc/self/fd/1": true, path("stdout"): false} {
		if got := systemLink(name, fi); got != want {
			t.Errorf("systemLink(%q) = %v", name, got)
		}
	}
	if res := perftest.Run(t, r.dir, nil, nil, r.bin, "record", "-o", "/proc/self/fd/1", "-e", "cpu-clock", "--", "true"); res.Code != 0 || !strings.HasPrefix(res.Stdout, "PERFILE2") {
		t.Errorf("exit status %d, %.40q, %s", res.Code, res.Stdout, res.Stderr)
	}
}

// A pipe that others have put into /tmp is not written to. (REC-2)
func TestRecordPlantedPipe(t *testing.T) {
	r := newRecorder(t)
	if os.Getuid() != 0 {
		t.Skip("NOTICE: needs root, to be two users")
	}
	dir := filepath.Join(r.dir, "tmp")
	name := filepath.Join(dir, "x.data")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777|os.ModeSticky), unix.Mkfifo(name, 0o666), os.Chown(name, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0) // the other reads
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if res := r.record(name, "-e", "cpu-clock", "--", "true"); res.Code != 1 || !strings.Contains(res.Stderr, "a pipe of another user") {
		t.Errorf("exit status %d, %s", res.Code, res.Stderr)
	}
	if err := os.Chown(name, 0, 0); err != nil {
		t.Fatal(err)
	}
	if res := r.record(name, "-e", "cpu-clock", "--", "true"); res.Code != 0 {
		t.Errorf("exit status %d, %s", res.Code, res.Stderr)
	}
}

// An event of the kernel alone is nothing to somebody who may not see the
// kernel.
func TestRecordKernelForbidden(t *testing.T) {
	r := newRecorder(t)
	perftest.NeedTool(t, "setpriv")
	if level, err := os.ReadFile("/proc/sys/kernel/perf_event_paranoid"); os.Getuid() != 0 || err != nil || strings.TrimSpace(string(level)) < "2" {
		t.Skip("NOTICE: needs root, and kernel.perf_event_paranoid to be 2")
	}
	if err := errors.Join(os.Chmod(r.dir, 0o777|os.ModeSticky), os.Chmod(filepath.Dir(r.dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, ev := range []string{"cpu-clock:k", "cpu-clock,cpu-clock:k", "cpu-clock:u,cpu-clock:k"} {
		res := perftest.Run(t, r.dir, nil, nil, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", r.bin, "record", "-o", "k.data", "-e", ev, "--", "./burn", "1")
		if res.Code != 1 || !strings.Contains(res.Stderr, "sysctl kernel.perf_event_paranoid=1") {
			t.Errorf("%s: exit status %d, %s", ev, res.Code, res.Stderr)
		}
	}
}

// A full disk ends the recording with an error; what fitted is a recording.
func TestRecordFull(t *testing.T) {
	r := newRecorder(t)
	if os.Getuid() != 0 {
		t.Skip("NOTICE: needs root, to mount a small file system")
	}
	small := filepath.Join(r.dir, "small")
	if err := os.Mkdir(small, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", small, "tmpfs", 0, "size=200k"); err != nil {
		t.Skipf("NOTICE: cannot mount: %v", err)
	}
	defer unix.Unmount(small, unix.MNT_DETACH)
	res := r.record("small/x.data", "-e", "cpu-clock", "-F", "20000", "--", "./burn", "300")
	if res.Code != 1 || !strings.HasSuffix(strings.TrimSpace(res.Stderr), "small/x.data: no space left on device") {
		t.Errorf("exit status %d, %s", res.Code, res.Stderr)
	}
	if res := r.perf("report", "--stdio", "-i", "small/x.data"); res.Code != 0 || res.Stderr != "" || !strings.Contains(res.Stdout, "leaf") {
		t.Errorf("perf: exit status %d, %s", res.Code, res.Stderr)
	}
}

// REC-1, REC-8, REC-9: with less rights, less is recorded, and a message says
// what and why.
func TestRecordRights(t *testing.T) {
	newRecorder(t) // skips where nothing can be recorded
	if os.Getuid() != 0 {
		t.Skip("NOTICE: needs root, to give it up")
	}
	perftest.NeedTool(t, "setpriv")
	// A directory that nobody can reach, with the binary itself in it.
	dir, err := os.MkdirTemp("", "perfark-rights-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "perfark")
	if err := os.WriteFile(bin, b, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	nobody := func(env string, args ...string) perftest.Result {
		return perftest.Run(t, dir, nil, nil, "sh", append([]string{"-c", env + ` exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"`, "sh"}, args...)...)
	}
	paranoid, _ := os.ReadFile("/proc/sys/kernel/perf_event_paranoid")
	if strings.TrimSpace(string(paranoid)) != "2" {
		t.Skipf("NOTICE: kernel.perf_event_paranoid is %s, want 2", paranoid)
	}
	for _, test := range []struct {
		env, flags, want string
		code             int
	}{
		{"", "-e cpu-clock -- sleep 0.01", "the kernel's part is not recorded: kernel.perf_event_paranoid is 2", 0},
		{"", "-e cpu-clock -a -- sleep 0.01", "kernel.perf_event_paranoid=0, or CAP_PERFMON, allows it; -u records processes of this user: permission denied", 1},
		{"", "-e cpu-clock -p 1 -- sleep 0.01", "the process is another user's: CAP_PERFMON, or CAP_SYS_PTRACE, allows it: permission denied", 1},
		{"", "-e sched:sched_switch -- sleep 0.01", "permission denied: be root", 1},
		{"", "-e cpu-clock:u -m 64M -- sleep 0.01", "more may not be locked", 0},
		{"ulimit -n 16;", "-e cpu-clock:u -- sleep 0.01", "hint: raise the number of files that may be open", 1},
		{"ulimit -n 36;", "-e cpu-clock:u,task-clock:u,cpu-clock:u,task-clock:u,cpu-clock:u,task-clock:u,cpu-clock:u -- sleep 0.01", "ulimit -n", 0},
	} {
		res := nobody(test.env, append([]string{bin, "record", "-o", "n.data"}, strings.Fields(test.flags)...)...)
		if res.Code != test.code && test.env == "" || !strings.Contains(res.Stderr, test.want) {
			t.Errorf("%s %s: exit status %d, %s", test.env, test.flags, res.Code, res.Stderr)
		}
	}
	res := perftest.Run(t, dir, nil, nil, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=+perfmon", "--ambient-caps=+perfmon",
		bin, "record", "-o", "n.data", "-e", "cpu-clock", "-a", "--", "sleep", "0.1")
	if res.Code != 0 || !strings.Contains(res.Stderr, " samples)") {
		t.Errorf("CAP_PERFMON: exit status %d, %s", res.Code, res.Stderr)
	}
}

// bpfSource loads a program that does nothing, and keeps it.
const bpfSource = `
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
	struct bpf_insn in[2] = {{.code = 0xb7}, {.code = 0x95}};
	union bpf_attr a;
	memset(&a, 0, sizeof a);
	a.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
	a.insns = (unsigned long)in;
	a.insn_cnt = 2;
	a.license = (unsigned long)"GPL";
	strcpy(a.prog_name, "hello");
	if (syscall(SYS_bpf, BPF_PROG_LOAD, &a, sizeof a) < 0) return 1;
	puts("loaded");
	fflush(stdout);
	pause();
}
`

// What is known of BPF programs that were loaded before is what perf knows.
func TestRecordBPF(t *testing.T) {
	r := newRecorder(t)
	cmd := exec.Command(perftest.CC(t, "load", bpfSource))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	if n, _ := out.Read(make([]byte, 16)); n == 0 {
		t.Skip("NOTICE: no BPF program can be loaded here")
	}
	events := func(file string) string {
		dump := r.perf("script", "-D", "-i", file).Stdout
		return strings.Join(regexp.MustCompile(`PERF_RECORD_(KSYMBOL|BPF_EVENT) .*(_hello|flags 0).*`).FindAllString(dump, -1), "\n")
	}
	want := r.perf("record", "-o", "p.data", "-e", "cpu-clock", "-a", "--", "true")
	if want.Code != 0 {
		t.Skipf("NOTICE: perf may not record here: %s", want.Stderr)
	}
	r.record("a.data", "-e", "cpu-clock", "-a", "--", "true")
	if got, want := events("a.data"), events("p.data"); got != want || !strings.Contains(got, "_hello") {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
