package session

import (
	"context"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
)

// forker forks, execs itself, starts threads that rename themselves, and maps
// and unmaps code, so that what is where changes all the time.
const forker = `
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile long sink;
static void spin(int n) { for (long i = 0; i < n * 100000L; i++) sink += i; }
static void *thread(void *arg) {
	char name[16];
	for (int i = 0; i < 3; i++) {
		snprintf(name, sizeof name, "t%ld.%d", (long)arg, i);
		prctl(PR_SET_NAME, name);
		spin(20);
	}
	return 0;
}
int main(int argc, char **argv) {
	int depth = argc > 1 ? atoi(argv[1]) : 2;
	pthread_t t[2];
	for (long i = 0; i < 2; i++) pthread_create(&t[i], 0, thread, (void *)i);
	/* code made at run time: a loop */
	unsigned char code[] = {0xb9, 0, 0, 0x20, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
	char *m = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
#ifdef __x86_64__
	memcpy(m, code, sizeof code);
	mprotect(m, 4096, PROT_READ | PROT_EXEC);
	((void (*)(void))m)();
#endif
	for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
	for (int i = 0; depth > 0 && i < 3; i++) {
		if (fork() == 0) {
			spin(10);
			char d[8];
			snprintf(d, sizeof d, "%d", depth - 1);
			if (i != 1) execl("/proc/self/exe", argv[0], d, NULL);
			prctl(PR_SET_NAME, "noexec");
			spin(30);
			_exit(0);
		}
	}
	while (wait(0) > 0) ;
	return 0;
}
`

// TestFreshRecording records the forker on all CPUs and compares every sample
// with perf script.
func TestFreshRecording(t *testing.T) {
	for _, args := range [][]string{
		{"-g"},
		{"--buildid-mmap"},
		{"-z", "-g"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			prog := perftest.CC(t, "forker", forker, "-O1", "-g", "-fno-omit-frame-pointer", "-pthread")
			data := perftest.Record(t, append(append([]string{"-e", "cpu-clock", "-F", "1499", "-a"}, args...), prog)...)
			out := perftest.Perf(t, "script", "-f", "-i", data, "-F", "comm,tid,cpu,time,period,event,ip,dso")
			want, ok := scanScript(t, strings.NewReader(out.Stdout))
			if !ok || len(want) < 100 {
				t.Skipf("NOTICE: perf script says nothing of use: %s", out.Stderr)
			}
			r := load(t, data, Options{Keep: KeepComm | KeepTID | KeepStacks})
			compareScript(t, r.Profile, want)
			checkSums(t, data, r)
			checkStats(t, data)
			t.Logf("%d samples", len(want))
		})
	}
}

// checkSums checks that no sample vanished, and that the profile is the same
// for any number of workers.
func checkSums(t *testing.T, name string, r *Result) {
	t.Helper()
	p := r.Profile
	sums := make([]profile.Event, len(p.Events))
	for _, s := range p.Samples {
		sums[s.Event].Samples += s.Count
		sums[s.Event].Period += s.Period
	}
	for i := range sums {
		sums[i].Name = p.Events[i].Name
	}
	if !reflect.DeepEqual(sums, p.Events) {
		t.Errorf("samples add up to %v, want %v", sums, p.Events)
	}
	f, err := perfdata.Open(name, perfdata.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, keep := range []Keep{KeepComm, KeepComm | KeepTID | KeepPID | KeepCPU | KeepStacks} {
		var first *Result
		for _, n := range []int{1, 3} {
			got, err := Load(context.Background(), f, Options{Keep: keep, Workers: n})
			if err != nil {
				t.Fatal(err)
			}
			got.l = nil
			if first == nil {
				first = got
			} else if !reflect.DeepEqual(got, first) {
				t.Errorf("keep %b: %d workers give another profile than one", keep, n)
			}
		}
	}
	for _, o := range []Options{{Keep: KeepComm | KeepTID | KeepCPU | KeepStacks, Workers: 3}, {HitsOnly: true}} {
		a, err := Load(context.Background(), f, o)
		if err != nil {
			t.Fatal(err)
		}
		o.batches = true
		b, err := Load(context.Background(), f, o)
		if err != nil {
			t.Fatal(err)
		}
		a.l, b.l = nil, nil
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%+v: read in chunks, the result is another one", o)
		}
	}
	checkTwoStages(t, f)
	var first *Result
	for _, n := range []int{1, 3} {
		got, err := Load(context.Background(), f, Options{HitsOnly: true, Workers: n})
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = got
		} else if !reflect.DeepEqual(got, first) {
			t.Errorf("hits: %d workers give another result than one", n)
		}
	}
	for i, h := range first.Hit {
		if full := r.Hit[i]; len(r.Profile.Stacks) > 0 && h != full {
			t.Errorf("object %q: hits %b with HitsOnly, %b with stacks", r.Profile.Objects[i].Path, h, full)
		}
	}
}

// checkTwoStages checks that frames first and stacks later give what one pass
// does.
func checkTwoStages(t *testing.T, f *perfdata.File) {
	t.Helper()
	ctx := context.Background()
	keep := KeepComm | KeepTID | KeepCPU
	want, err := Load(ctx, f, Options{Keep: keep | KeepStacks})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 3} {
		got, err := Load(ctx, f, Options{Keep: KeepFrames, Workers: n})
		if err != nil {
			t.Fatal(err)
		}
		if err := got.Stacks(ctx, nil, keep); err != nil {
			t.Fatal(err)
		}
		want.l, got.l = nil, nil
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d workers: in two stages, the result is another one", n)
		}
	}
}

// BenchmarkLoad measures on the recording that PERFARK_BENCH_DATA names.
func BenchmarkLoad(b *testing.B) {
	name := os.Getenv("PERFARK_BENCH_DATA")
	if name == "" {
		b.Skip("NOTICE: PERFARK_BENCH_DATA does not name a recording")
	}
	for _, bench := range []struct {
		name string
		o    Options
	}{
		{"hits", Options{HitsOnly: true}},
		{"flat", Options{Keep: KeepComm}},
		{"stacks", Options{Keep: KeepComm | KeepStacks}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			f, err := perfdata.Open(name, perfdata.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			b.SetBytes(f.Size())
			for b.Loop() {
				if _, err := Load(context.Background(), f, bench.o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
