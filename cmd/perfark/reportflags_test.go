package main

import (
	"debug/elf"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
)

// placedSource has the functions that samples are placed in.
const placedSource = `
volatile unsigned x;
#define F(name) __attribute__((noinline)) void name(void) { x++; x++; x++; x++; }
F(leaf) F(middle) F(thread) F(other)
int main(void) { leaf(); middle(); thread(); other(); return 0; }
`

// placedChains has each function in every position of a chain: where it was
// sampled, in the middle, where the chain begins, twice, and alone.
var placedChains = []string{
	"leaf middle thread main",
	"leaf middle other main",
	"middle thread main",
	"middle",
	"thread main",
	"leaf thread main",
	"leaf",
	"middle leaf middle main",
	"leaf leaf thread main",
	"main",
	"unknown middle thread main",
	"leaf unknown main",
	"other main",
}

// placed makes a recording that has a sample with each of placedChains in
// three threads, all of other periods, so that no two rows are equal in what
// is printed of them. Those whose chain does not match only are left out.
func placed(t *testing.T, prog, only string) string {
	t.Helper()
	return perftest.File(t, placedText(t, prog, only))
}

func placedText(t *testing.T, prog, only string) string {
	t.Helper()
	f, err := elf.Open(prog)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	note, err := f.Section(".note.gnu.build-id").Data()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	text.WriteString("event cpu-clock:u sample=+CALLCHAIN\n")
	var code *elf.Prog
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			code = p
		}
	}
	fmt.Fprintf(&text, "mmap2 pid=10 tid=10 start=%#x len=%#x pgoff=%#x prot=5 flags=2 name=%s time=1\n", code.Vaddr, (code.Memsz+0xfff)&^0xfff, code.Off, prog)
	text.WriteString(`comm pid=10 tid=10 name=flags-test time=2
fork pid=10 ppid=10 tid=11 ptid=10 time=3
fork pid=10 ppid=10 tid=12 ptid=10 time=3
comm pid=10 tid=11 name="first one" time=4
comm pid=10 tid=12 name=2nd time=4
`)
	at := map[string]uint64{"unknown": 0x10}
	for _, name := range []string{"leaf", "middle", "thread", "other", "main"} {
		at[name] = code.Vaddr - code.Off + offsetOf(t, prog, name) + 4
	}
	match := regexp.MustCompile(only)
	n := 0
	for _, chain := range placedChains {
		var ips []string
		for name := range strings.FieldsSeq(chain) {
			ips = append(ips, fmt.Sprintf("%#x", at[name]))
		}
		for tid := 10; tid <= 12; tid++ {
			n++
			if match.MatchString(chain) {
				fmt.Fprintf(&text, "sample pid=10 tid=%d ip=%s cpu=%d time=%d period=%d chain=user,%s\n", tid, ips[0], n%2, 10+n, 1000+17*n+n*n*n%89*100, strings.Join(ips, ","))
			}
		}
	}
	fmt.Fprintf(&text, `finished_round
feature nrcpus u32:2 u32:2
feature sample_time u64:11 u64:%d
feature build_id {
	build_id pid=-1 id=%x name=%s
}
`, 10+n, note[16:], prog)
	return text.String()
}

// A function that was sampled, that called, and that did both, is where perf
// has it, whatever the flags say of it. Unlike a recording that was just made,
// this one has it all every time.
func TestReportPlaced(t *testing.T) {
	prog := perftest.CC(t, "flags-test", placedSource, "-O1", "-static", "-no-pie", "-Wl,--build-id")
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("PERF_CONFIG", "/dev/null")
	all := placed(t, prog, "")
	more := []string{"--hierarchy -c 2nd", "--hierarchy -c nosuch", "-w 8", "-w 0,0,20 -g none", "-F +cpu --show-cpu-utilization", "-F +cpu --show-cpu-utilization -n --no-children"}
	// With equal branches, which of them are within a limit is up to perf's memory.
	limits := []string{"--children -g caller,0,3", "--no-children -g callee,0,1", "--no-children -g flat,0,2", "--children -g folded,0,1,caller", "--children -g fractal,0,2"}
	for _, args := range slices.Concat(reportFlags, more, limits) {
		t.Run(args, func(t *testing.T) { samePage(t, all, home, args) })
	}

	// Where perf's answer is another (docs/differences.md), it still is the same
	// to another question, or for a recording of the samples in question alone.
	rows := func(blocks map[string]int, cut string) map[string]int {
		re := regexp.MustCompile(cut)
		out := map[string]int{}
		for b, n := range blocks {
			if row, _, _ := strings.Cut(b, "\n"); !strings.HasPrefix(row, "#") {
				out[re.ReplaceAllString(b, "")] += n
			}
		}
		return out
	}
	const (
		none   = `^$`
		trees  = `(?s)\n.*`
		symbol = `(?m)  \[\.\] \S+$`
	)
	for _, tt := range []struct{ args, only, perfArgs, cut string }{
		{"--ignore-callees middle", "", "--ignore-callees middle -g callee", trees},
		{"--ignore-callees middle -g none", "", "--ignore-callees middle -g callee", trees},
		{"-d flags-test --percentage relative", "^[^u]", "-s comm,sym", none},
		{"-S leaf --percentage relative", "^leaf", "", symbol},
		{"-S leaf --percentage relative --no-children", "^leaf", "--no-children", symbol},
		{"--hierarchy --no-children -S leaf --percentage relative -g none", "^leaf", "--hierarchy --no-children -g none", none},
		{"-S middle,thread --percentage relative -g callee", "^(middle|thread)", "-g callee", none},
	} {
		t.Run(tt.args, func(t *testing.T) {
			_, got := twoPages(t, all, home, tt.args)
			want, _ := twoPages(t, placed(t, prog, tt.only), home, tt.perfArgs)
			if got, want := rows(likeBlocks(got), tt.cut), rows(likeBlocks(want), tt.cut); len(got) < 3 || !maps.Equal(got, want) {
				t.Errorf("blocks that differ:\n%s", likeDiff(got, want))
			}
		})
	}
}

// grouped makes a recording of placedText with a second event, in a group with
// the first, that has other samples and periods.
func grouped(t *testing.T, text string) string {
	t.Helper()
	var out strings.Builder
	n := 0
	for line := range strings.Lines(text) {
		out.WriteString(line)
		switch verb, rest, _ := strings.Cut(line, " "); {
		case verb == "event":
			out.WriteString("event page-faults:u config=2 sample=+CALLCHAIN\n")
		case verb == "sample" && n%3 != 0:
			fmt.Fprintf(&out, "sample ev=1 %s", strings.Replace(rest, "period=", fmt.Sprintf("period=%d", n%7+1), 1))
			fallthrough
		case verb == "sample":
			n++
		}
	}
	out.WriteString("feature group_desc u32:1 str:{anon_group} u32:0 u32:2\n")
	return perftest.File(t, out.String())
}

// Flags do together what they do alone: combinations by chance, the same ones
// each time; PERFARK_COMBINATIONS=N tries N.
func TestReportCombined(t *testing.T) {
	perftest.NeedTool(t, "perf")
	prog := perftest.CC(t, "flags-test", placedSource, "-O1", "-static", "-no-pie", "-Wl,--build-id")
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("PERF_CONFIG", "/dev/null")
	text := placedText(t, prog, "")
	one, two := perftest.File(t, text), grouped(t, text)
	tries := 40
	if n, err := strconv.Atoi(os.Getenv("PERFARK_COMBINATIONS")); err == nil {
		tries = n
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range tries {
		var args []string
		// maybe adds one of several flags, in percent of all cases.
		maybe := func(percent int, flags ...string) bool {
			if r.IntN(100) >= percent {
				return false
			}
			args = append(args, flags[r.IntN(len(flags))])
			return true
		}
		maybe(50, "--children", "--no-children")
		if maybe(60, "-s ") {
			keys := []string{"comm", "dso", "sym", "pid", "cpu", "parent"}
			r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
			args[len(args)-1] += strings.Join(keys[:1+r.IntN(3)], ",")
		}
		if maybe(60, "-g graph", "-g fractal", "-g flat", "-g folded", "-g none", "-g caller", "-g callee") && args[len(args)-1] != "-g none" {
			for _, words := range [][]string{{"0", "0.5", "3", "20"}, {"caller", "callee"}, {"function"}, {"percent", "period", "count"}} {
				if r.IntN(2) == 0 {
					args[len(args)-1] += "," + words[r.IntN(len(words))]
				}
			}
		}
		maybe(15, "-G")
		maybe(20, "--max-stack 1", "--max-stack 2", "--max-stack 3")
		if maybe(15, "-p middle", "-p main", "-p ^leaf$", "-p nosuch") && !slices.Contains(args, "--hierarchy") {
			maybe(40, "-x")
		} else {
			maybe(15, "--hierarchy")
		}
		maybe(20, "--percent-limit 0", "--percent-limit 1", "--percent-limit 5", "--percent-limit 10")
		maybe(20, "-n", "--show-total-period", "--show-cpu-utilization")
		maybe(10, "-t ,", "-t ;", "-t |")
		maybe(10, "-w 8", "-w 6,7", "-w 0,5,20")
		maybe(10, "-U")
		maybe(10, "-C 0", "-C 1")
		maybe(10, "--time 10%-50%", "--time 30%/2", "--time 0%-20%,60%-90%")
		if !slices.Contains(args, "--hierarchy") {
			maybe(10, "-F +period", "-F +cpu", "-F +sample")
		}
		list := strings.Join(args, " ")
		wide := []string{`\b0{17}(\d{3})\b`, "$1"} // perf fills processors up with zeros, to any width
		t.Run(list, func(t *testing.T) { samePage(t, one, home, list, wide...) })
		maybe(30, "--no-group", "--group-sort-idx 1")
		list = strings.Join(args, " ")
		t.Run("group "+list, func(t *testing.T) { samePage(t, two, home, list, append(wide, "of events 'cpu", "of event 'cpu")...) })
	}
}
