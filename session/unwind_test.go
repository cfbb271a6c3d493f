package session

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/unwind"
)

const unwindProgram = `
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
static volatile unsigned long sink;
__attribute__((noinline)) void leaf(int n) { for (int i = 0; i < n; i++) sink += i * i; }
__attribute__((noinline)) int compare(const void *a, const void *b) { leaf(50); return memcmp(a, b, 4); }
__attribute__((noinline)) void sort(int depth) {
	char room[64 * (depth + 1)];
	memset(room, depth, sizeof room);
	if (depth > 0) { sort(depth - 1); sink += room[depth]; return; }
	int v[400];
	for (int i = 0; i < 400; i++) v[i] = rand();
	qsort(v, 400, sizeof *v, compare);
	sink += v[7] + room[0];
}
static void on(int s) { (void)s; leaf(200000); }
int main(void) {
	signal(SIGUSR1, on);
	for (time_t end = time(0) + 1; time(0) <= end;) { sort(8); raise(SIGUSR1); }
	return 0;
}
`

// openHost opens the call frame information of an object where it was mapped
// from.
func openHost(o *profile.Object) *unwind.Module {
	b, err := os.ReadFile(o.Path)
	if err != nil {
		return nil
	}
	f, err := objfile.Open(bytes.NewReader(b), int64(len(b)), o.Path, nil)
	if err != nil {
		return nil
	}
	m, _ := unwind.NewModule(f, nil, nil)
	return m
}

// TestUnwindPerf compares the user stacks of a recording made with
// --call-graph dwarf with those of perf script.
func TestUnwindPerf(t *testing.T) {
	for _, tool := range []string{"perf", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("NOTICE: %s is not installed", tool)
		}
	}
	dir := t.TempDir()
	src, bin, data := filepath.Join(dir, "p.c"), filepath.Join(dir, "p"), filepath.Join(dir, "perf.data")
	if err := os.WriteFile(src, []byte(unwindProgram), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) []byte {
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), "HOME="+dir, "LC_ALL=C", "DEBUGINFOD_URLS=")
		out, err := cmd.Output()
		if err != nil {
			t.Skipf("NOTICE: %s: %v", name, err)
		}
		return out
	}
	run("gcc", "-O2", "-fomit-frame-pointer", "-o", bin, src)
	perftest.Shared(t)
	run("perf", "record", "-q", "-e", "cpu-clock:u", "-F", "499", "--call-graph", "dwarf,16384", "-o", data, bin)
	want := map[string]int{}
	for _, block := range strings.Split(string(run("perf", "script", "-i", data, "--no-inline", "-F", "ip")), "\n\n") {
		if f := strings.Fields(block); len(f) > 0 {
			if f[len(f)-1] == "ffffffffffffffff" { // the caller of what perf could not read
				f = f[:len(f)-1]
			}
			want[strings.Join(f, " ")]++
		}
	}

	f, err := perfdata.Open(data, perfdata.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	res, err := Load(context.Background(), f, Options{Keep: KeepStacks, Unwind: openHost})
	if err != nil {
		t.Fatal(err)
	}
	p := res.Profile
	got := map[string]int{}
	for i := range p.Samples {
		var frames []string
		for s := p.Samples[i].Stack; s != profile.None; s = p.Stacks[s].Caller {
			l := &p.Locations[p.Stacks[s].Location]
			frames = append(frames, fmt.Sprintf("%x", l.Addr))
		}
		got[strings.Join(frames, " ")] += int(p.Samples[i].Count)
	}
	total, same := 0, 0
	var odd []string
	for s, n := range want {
		total += n
		same += min(n, got[s])
		if got[s] < n {
			odd = append(odd, "perf: "+s)
		}
	}
	for s, n := range got {
		if n > want[s] {
			odd = append(odd, "ours: "+s)
		}
	}
	sort.Strings(odd)
	if total < 30 {
		t.Fatalf("perf script shows %d samples", total)
	}
	if same*100 < total*99 {
		t.Errorf("%d of %d stacks are those of perf\n%s", same, total, strings.Join(odd[:min(len(odd), 20)], "\n"))
	}

	// Those that were kept from the first pass are those that are unwound.
	if len(res.l.unwoundLogs) == 0 {
		t.Error("no unwound chain was kept")
	}
	stacks := p.Stacks
	res.l.unwoundLogs = nil
	if err := res.Stacks(context.Background(), nil, 0); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(p.Stacks, stacks) {
		t.Error("unwound again, the stacks are others")
	}
}
