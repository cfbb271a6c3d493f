package main

import (
	"fmt"
	"math"
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

// Every flag of perf record is one of ours, or refused with a reason.
func TestRecordFlags(t *testing.T) {
	perftest.NeedTool(t, "perf")
	res := perftest.Perf(t, "record", "-h")
	fs := newRecordCmd(&app{}).Flags()
	flags := regexp.MustCompile(`(?m)^    (?:-(\w)|  )(?:, )?\s*(?:--([\w-]+))?`).FindAllStringSubmatch(res.Stdout+res.Stderr, -1)
	if len(flags) < 60 {
		t.Fatalf("%d flags in:\n%s%s", len(flags), res.Stdout, res.Stderr)
	}
	for _, f := range flags {
		if long := f[2]; long != "" && fs.Lookup(long) == nil {
			t.Errorf("there is no --%s", long)
		}
		if short := f[1]; short != "" && fs.ShorthandLookup(short) == nil {
			t.Errorf("there is no -%s", short)
		}
	}
}

// Events that this machine may not have are asked for as perf does: it prints
// what it tried to open, and we what we would.
func TestRecordHardwareAttrs(t *testing.T) {
	r := newRecorder(t)
	first := func(text string) string {
		_, text, _ = strings.Cut(text, "perf_event_attr:\n")
		text, _, _ = strings.Cut(text, "-----")
		return text
	}
	for _, flags := range []string{
		"+-e cycles:pp -g",
		"-e cycles:u", "-e instructions:k -c 1000", "+-e cache-misses -a", "-e branch-misses:P", "+-e L1-dcache-load-misses", "-e LLC-loads:u",
		"-e dTLB-store-misses", "-e iTLB-load-misses", "-e branch-loads", "-e node-prefetches", "-e L1-icache-prefetches", "+-e r1a8:k",
		"-e ref-cycles -b", "+-e cycles -j any_call,u", "-e cycles -j any,save_type,k", "-e cycles --call-graph lbr", "-e cycles:k --call-graph lbr",
		"+-e cycles -d -W --transaction --phys-data --data-page-size --code-page-size", "-e stalled-cycles-frontend -F 99", "-e bus-cycles",
		"-e cycles:S", "+-e {cycles,instructions}:S", "-e cycles:H", "-e cycles:G", "-e cycles:hk", "-e cycles:I", "-e cycles:pppu",
		"-e cycles/period=10000,call-graph=lbr/", "-e cycles/branch_type=any/", "-b", "-j any", "-c 1000", "-e cycles -I", "-e cycles --intr-regs=ip",
		"-e cpu-cycles", "-e idle-cycles-backend", "-e msr/tsc/ -a", "-e cycles:D", "-e cycles --all-kernel", "-e LLC", "-e l1d",
		"-e cycles --switch-events --namespaces", "-e mem:0x1000:x", "-e mem:0x1000/4:r",
	} {
		flags, often := strings.CutPrefix(flags, "+")
		if !often && os.Getenv("PERFARK_RECORD") == "" {
			continue // make record has them all
		}
		args := append(words(flags), "--", "true")
		want := first(r.perf(append([]string{"record", "-vv", "-o", "p.data"}, args...)...).Stderr)
		got := first(perftest.Run(t, r.dir, nil, nil, r.bin, append([]string{"record", "--dry-run", "-vv", "-o", "a.data"}, args...)...).Stderr)
		if want == "" {
			t.Logf("NOTICE: %s: perf does not say what it opens", flags)
			continue
		}
		if got != want {
			t.Errorf("%s: got\n%swant\n%s", flags, got, want)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(r.dir, "a.data*")); len(files) > 0 {
		t.Errorf("--dry-run wrote %q", files)
	}
}

// A wrong command line says what is wrong in one line, and writes no file.
func TestRecordWrong(t *testing.T) {
	r := newRecorder(t)
	for flags, want := range map[string]string{
		"--off-cpu":               "--off-cpu: it takes a BPF program",
		"--threads=cpu":           "--threads: one thread reads all buffers",
		"--kcore":                 "--kcore: the running kernel is not copied",
		"-S":                      "--snapshot: hardware traces are not recorded",
		"--filter x":              "want it behind the -e that it is about",
		"-e cpu-clock --filter x": `"cpu-clock" is no tracepoint`,
		"--user-regs=ip,nosuch":   `--user-regs: "nosuch" is none of`,
		"--synth=x":               `--synth: "x": want no, all, or some of task, mmap and cgroup`,
		"-D 20-10":                `-D: "20-10": want milliseconds, or times in order such as 10-20,30-40`,
		"--control=fd:x":          `--control: descriptor "x": want a number`,
		"--control=fifo:burn":     `--control: "burn": it is no FIFO`,
		"--control=x":             `--control: "x": want fd:IN[,ACK] or fifo:IN[,ACK]`,
		"-r 100":                  "priority 100: want 1 to 99",
		"--affinity=moon":         "want one of node, cpu, sys",
	} {
		res := r.record("w.data", append(words(flags), "--", "true")...)
		if res.Code != exitUsage || !strings.Contains(res.Stderr, want) || strings.Count(res.Stderr, "\n") > 2 {
			t.Errorf("%s: exit status %d, %s", flags, res.Code, res.Stderr)
		}
	}
	if _, err := os.Stat(filepath.Join(r.dir, "w.data")); err == nil {
		t.Error("a file was written")
	}
	if res := perftest.Run(t, r.dir, nil, nil, r.bin, "record", "-I?"); res.Code != 0 || res.Stdout != r.perf("record", "-I?").Stderr[:len(res.Stdout)] && !strings.HasPrefix(res.Stdout, "available registers: ") {
		t.Errorf("-I?: exit status %d, %s", res.Code, res.Stdout)
	}
}

// sampleTimes are the times of the samples of a recording, in seconds, as perf
// has them.
func (r *recorder) sampleTimes(file string) []float64 {
	r.Helper()
	var out []float64
	for f := range strings.FieldsSeq(r.perf("script", "-i", file, "-F", "time", "--ns").Stdout) {
		if v, err := strconv.ParseFloat(strings.TrimSuffix(f, ":"), 64); err == nil {
			out = append(out, v)
		}
	}
	return out
}

// Commands from a FIFO enable and disable events and end the recording, and
// are acknowledged, as with perf.
func TestRecordControl(t *testing.T) {
	r := newRecorder(t)
	var fifos [2]*os.File
	for i, name := range []string{"ctl", "ack"} {
		name = filepath.Join(r.dir, name)
		if err := unix.Mkfifo(name, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		fifos[i] = f
	}
	cmd := r.background(r.bin, "record", "-q", "-D", "-1", "-e", "cpu-clock", "-a", "-o", "c.data", "--control", "fifo:ctl,ack", "--", "sleep", "60")
	tell := func(word string) {
		t.Helper()
		if _, err := fifos[0].WriteString(word + "\n"); err != nil {
			t.Fatal(err)
		}
		fifos[1].SetReadDeadline(time.Now().Add(20 * time.Second))
		b := make([]byte, 16)
		if n, err := fifos[1].Read(b); string(b[:n]) != "ack\n" {
			t.Fatalf("%s: answer %q, %v", word, b[:n], err)
		}
	}
	tell("ping")
	time.Sleep(300 * time.Millisecond)
	tell("enable")
	time.Sleep(300 * time.Millisecond)
	tell("disable cpu-clock")
	time.Sleep(300 * time.Millisecond)
	tell("stop")
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 128+int(syscall.SIGTERM) { // of the command, which was ended
		t.Errorf("%v", err)
	}
	times := r.sampleTimes("c.data")
	if len(times) < 100 || times[len(times)-1]-times[0] < 0.2 || times[len(times)-1]-times[0] > 1.5 {
		t.Errorf("%d samples", len(times))
	}
}

// Events are enabled at the times of -D alone.
func TestRecordWindows(t *testing.T) {
	r := newRecorder(t)
	if res := r.record("d.data", "-D", "200-400,900-1100", "-e", "cpu-clock", "--", "./burn", "1000"); res.Code != 0 {
		t.Fatal(res.Stderr)
	}
	times := r.sampleTimes("d.data")
	gap := 0.0
	for i := 1; i < len(times); i++ {
		gap = max(gap, times[i]-times[i-1])
	}
	if len(times) < 50 || gap < 0.4 {
		t.Errorf("%d samples, the longest time without one is %v s", len(times), gap)
	}
}

// Filters of tracepoints are the kernel's.
func TestRecordFilter(t *testing.T) {
	r := newRecorder(t)
	res := r.record("f.data", "-a", "-e", "sched:sched_switch", "--filter", "prev_pid > 0", "--filter", `prev_comm == "sleep"`, "-e", "cpu-clock", "--", "sleep", "0.2")
	if res.Code != 0 && strings.Contains(res.Stderr, "tracepoint") {
		t.Skipf("NOTICE: %s", res.Stderr)
	}
	out := r.perf("script", "-i", "f.data", "-F", "event,trace").Stdout
	n := 0
	for line := range strings.Lines(out) {
		if strings.Contains(line, "sched_switch") {
			n++
			if !strings.Contains(line, "prev_comm=sleep ") {
				t.Errorf("not filtered: %s", line)
			}
		}
	}
	if n == 0 || !strings.Contains(out, "cpu-clock") {
		t.Errorf("%d switches:\n%s", n, out)
	}
	if res := r.record("f.data", "-e", "sched:sched_switch", "--filter", "nosuch == 1", "--", "true"); res.Code != 1 || !strings.Contains(res.Stderr, `filter "nosuch == 1": the kernel does not take it`) {
		t.Errorf("exit status %d, %s", res.Code, res.Stderr)
	}
}

// Another file begins when an event happens that is not recorded itself; what
// was there before is found out as --synth says.
func TestRecordSynth(t *testing.T) {
	r := newRecorder(t)
	res := r.record("s.data", "-e", "cpu-clock", "--switch-output-event", "sched:sched_process_exit", "--", "sh", "-c", "./burn 100; ./burn 100; ./burn 1")
	files, _ := filepath.Glob(filepath.Join(r.dir, "s.data.*"))
	if res.Code != 0 && strings.Contains(res.Stderr, "tracepoint") {
		t.Logf("NOTICE: %s", res.Stderr)
	} else if res.Code != 0 || len(files) < 2 {
		t.Errorf("exit status %d, files %q, %s", res.Code, files, res.Stderr)
	}
	counts := func(flag string) (comms, maps int) {
		t.Helper()
		if res := r.record("y.data", "-e", "cpu-clock", "-a", flag, "--", "true"); res.Code != 0 {
			t.Fatal(res.Stderr)
		}
		dump := r.perf("script", "-D", "-i", "y.data").Stdout
		return len(regexp.MustCompile(`(?m)^0 0 0x[0-9a-f]+ \[0x[0-9a-f]+\]: PERF_RECORD_COMM`).FindAllString(dump, -1)),
			len(regexp.MustCompile(`(?m)^0 0 0x[0-9a-f]+ \[0x[0-9a-f]+\]: PERF_RECORD_MMAP2 \d`).FindAllString(dump, -1))
	}
	for flag, want := range map[string][2]bool{"--synth=no": {false, false}, "--synth=task": {true, false}, "--synth=mmap": {true, true}, "--tail-synthesize": {true, true}} {
		comms, maps := counts(flag)
		if comms > 0 != want[0] || maps > 0 != want[1] {
			t.Errorf("%s: %d names, %d mappings", flag, comms, maps)
		}
	}
}

// steadySource is a program that is a known part of its time in each of two
// functions.
const steadySource = `
volatile unsigned long x;
__attribute__((noinline)) void a(int n) { for (int i = 0; i < n; i++) x += i * x + 1; }
__attribute__((noinline)) void b(int n) { for (int i = 0; i < n; i++) x += i * x + 1; }
int main(void) { for (int i = 0; i < 300; i++) { a(700000); b(300000); } }
`

// The page of a report is that of perf record of the same work, within what
// samples differ by.
func TestRecordSame(t *testing.T) {
	r := newRecorder(t)
	if err := os.Rename(perftest.CC(t, "steady", steadySource, "-O1", "-g"), filepath.Join(r.dir, "steady")); err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^ +([\d.]+)% +steady +steady +\[\.\] ([ab])\b`)
	page := func(file string) map[string]float64 {
		out := map[string]float64{}
		for _, m := range row.FindAllStringSubmatch(r.perf("report", "--stdio", "--no-children", "-g", "none", "-i", file).Stdout, -1) {
			out[m[2]], _ = strconv.ParseFloat(m[1], 64)
		}
		return out
	}
	args := []string{"-e", "task-clock:u", "-F", "4999", "-g", "--", "./steady"}
	r.record("a.data", args...)
	r.perf(append([]string{"record", "-o", "p.data"}, args...)...)
	got, want := page("a.data"), page("p.data")
	if len(want) == 0 {
		t.Skip("NOTICE: perf may not record here")
	}
	for name, v := range want {
		if math.Abs(got[name]-v) > 4 || math.Abs(v-map[string]float64{"a": 70, "b": 30}[name]) > 6 {
			t.Errorf("%s: %.2f %%, with perf %.2f %%", name, got[name], v)
		}
	}
}

// F29: what is said to be lost, and what was not, is all that happened: the
// time of the thread in samples.
func TestRecordLostCount(t *testing.T) {
	r := newRecorder(t)
	const period = 50000 // ns
	cmd := r.background(r.bin, "record", "-m", "1", "-c", strconv.Itoa(period), "-e", "task-clock:u", "-o", "l.data", "--", "./burn", "400")
	for running := true; running; { // for as long as it takes
		time.Sleep(200 * time.Millisecond)
		cmd.Process.Signal(syscall.SIGSTOP)
		time.Sleep(300 * time.Millisecond)
		running = cmd.Process.Signal(syscall.SIGCONT) == nil && !zombie(cmd.Process.Pid)
	}
	cmd.Wait()
	user := cmd.ProcessState.UserTime() // with that of the command
	dump := r.perf("script", "-D", "-i", "l.data").Stdout
	samples := strings.Count(dump, "PERF_RECORD_SAMPLE(")
	lost := 0
	for _, m := range regexp.MustCompile(`lost samples :(\d+)`).FindAllStringSubmatch(dump, -1) {
		v, _ := strconv.Atoi(m[1])
		lost += v
	}
	throttled := strings.Contains(dump, "PERF_RECORD_THROTTLE")
	if lost == 0 || throttled {
		t.Skipf("NOTICE: %d lost, throttled %v: the machine is too busy", lost, throttled)
	}
	all := float64(samples+lost) * period / 1e9
	if d := math.Abs(all - user.Seconds()); d > 0.15*user.Seconds()+0.1 {
		t.Errorf("%d samples and %d lost are %.2f s, of %.2f s", samples, lost, all, user.Seconds())
	}
}

// zombie reports whether a process has ended.
func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(b), ") Z ")
}

// REC-7: signals without meaning, and calls that they cut short, lose nothing.
func TestRecordInterrupted(t *testing.T) {
	r := newRecorder(t)
	cmd := r.background(r.bin, "record", "-q", "-e", "task-clock:u", "-c", "500000", "-o", "i.data", "--", "./burn", "200")
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for running := true; running; {
		select {
		case err := <-done:
			running = false
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Millisecond):
			cmd.Process.Signal(syscall.SIGWINCH)
			cmd.Process.Signal(syscall.SIGCHLD)
		}
	}
	res := r.perf("script", "-i", "i.data", "-F", "time")
	quiet := r.record("q.data", "-q", "-e", "task-clock:u", "-c", "500000", "--", "./burn", "200")
	want := r.perf("script", "-i", "q.data", "-F", "time")
	got, ref := strings.Count(res.Stdout, "\n"), strings.Count(want.Stdout, "\n")
	if res.Code != 0 || res.Stderr != "" || quiet.Code != 0 || math.Abs(float64(got-ref)) > 0.3*float64(ref) {
		t.Errorf("%d samples, without signals %d, %s", got, ref, res.Stderr)
	}
	if _, err := exec.LookPath("strace"); err != nil || os.Getenv("PERFARK_RECORD") == "" {
		return // make record has it
	}
	fault := perftest.Run(t, r.dir, nil, nil, "strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=write,epoll_wait,epoll_pwait",
		"-e", "inject=epoll_wait,epoll_pwait:error=EINTR:when=1+3", "-e", "inject=write:error=EINTR:when=2+5",
		r.bin, "record", "-q", "-e", "task-clock:u", "-c", "500000", "-o", "e.data", "--", "./burn", "200")
	res = r.perf("script", "-i", "e.data", "-F", "time")
	if fault.Code != 0 || res.Stderr != "" || strings.Count(res.Stdout, "\n") < ref/2 {
		t.Errorf("exit status %d, %d samples, %s%s", fault.Code, strings.Count(res.Stdout, "\n"), fault.Stderr, res.Stderr)
	}
}

// REC-1: once events are open the recorder has no capability that it has no
// use for; the command has what it would have without.
func TestRecordCapabilities(t *testing.T) {
	r := newRecorder(t)
	if os.Getuid() != 0 {
		t.Skip("NOTICE: needs root, to give it up")
	}
	bin := r.bin
	all := os.Getenv("PERFARK_RECORD") != ""
	if all { // as it is built for users: then there are no threads that keep them
		bin = filepath.Join(r.dir, "static")
		cmd := exec.Command("go", "build", "-o", bin, ".")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	mine := capabilities(t, "/proc/self/status")
	cmd := r.background(bin, "record", "-q", "-N", "-e", "cpu-clock", "-a", "-o", "c.data", "--", "sh", "-c", "cat /proc/self/status >child; sleep 60")
	defer func() {
		cmd.Process.Signal(unix.SIGTERM)
		cmd.Wait()
	}()
	child := filepath.Join(r.dir, "child")
	for range 200 {
		if st, err := os.Stat(child); err == nil && st.Size() > 500 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if got := capabilities(t, child); got != mine {
		t.Errorf("the command has capabilities %#x, we have %#x", got, mine)
	}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", cmd.Process.Pid))
	const unneeded = 1<<unix.CAP_CHOWN | 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SETUID | 1<<unix.CAP_SYS_MODULE | 1<<unix.CAP_DAC_OVERRIDE
	with, without := 0, 0
	for _, task := range tasks {
		if capabilities(t, task)&unneeded != 0 {
			with++
		} else {
			without++
		}
	}
	if without == 0 || all && with > 0 {
		t.Errorf("%d threads have them, %d do not", with, without)
	}
}

// capabilities reads those that are effective from a file such as
// /proc/PID/status.
func capabilities(t *testing.T, status string) uint64 {
	t.Helper()
	b, err := os.ReadFile(status)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`CapEff:\t([0-9a-f]+)`).FindSubmatch(b)
	if m == nil {
		t.Fatalf("%s: %s", status, b)
	}
	v, _ := strconv.ParseUint(string(m[1]), 16, 64)
	return v
}

// The header has all that perf writes, and says the same.
func TestRecordHeader(t *testing.T) {
	r := newRecorder(t)
	varies := regexp.MustCompile(`^# (captured on|data size|feat offset|perf version|cmdline|time of|sample duration|node0 meminfo|reference time|compressed)|^# node\d+ meminfo`)
	ids := regexp.MustCompile(`id = \{[^}]*\}`)
	words := func(text string) map[string]bool {
		out := map[string]bool{}
		for line := range strings.Lines(text) {
			line = ids.ReplaceAllString(strings.TrimSpace(line), "id")
			if varies.MatchString(line) {
				continue
			}
			if list, ok := strings.CutPrefix(line, "# pmu mappings: "); ok { // in the order of a directory
				for w := range strings.SplitSeq(list, ", ") {
					out["pmu "+w] = true
				}
				continue
			}
			if list, ok := strings.CutPrefix(line, "# missing features: "); ok {
				for w := range strings.FieldsSeq(list) {
					out["missing "+w] = true
				}
				continue
			}
			out[line] = true
		}
		return out
	}
	for _, flags := range [][]string{
		{"-e", "cpu-clock", "-a", "-g", "--", "./burn", "30"},
		{"-e", "{cpu-clock,page-faults}", "-k", "mono", "-z", "--", "./burn", "30"},
	} {
		want := r.perf(append([]string{"record", "-o", "p.data"}, flags...)...)
		if want.Code != 0 {
			t.Skipf("NOTICE: perf may not record here: %s", want.Stderr)
		}
		r.record("a.data", flags...)
		header := []string{"report", "--header-only", "-I", "-i"}
		perf, ours := words(r.perf(append(header, "p.data")...).Stdout), words(r.perf(append(header, "a.data")...).Stdout)
		for line := range perf {
			if !ours[line] && !strings.HasPrefix(line, "missing ") { // perf leaves the ids out with -z
				t.Errorf("%v: not there: %s", flags, line)
			}
		}
		for line := range ours {
			if !perf[line] {
				t.Errorf("%v: perf has no %s", flags, line)
			}
		}
	}
}
