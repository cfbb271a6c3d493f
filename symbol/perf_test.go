package symbol_test

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/session"
	"github.com/perfark/perfark/store"
	"github.com/perfark/perfark/symbol"
)

// sources is where perf looks, in a home directory.
func sources(home string) store.Source {
	cache := store.Cache(filepath.Join(home, ".debug"))
	debug := store.DebugDirs([]string{"/usr/lib/debug"})
	return store.Multi(cache, debug, store.Host(store.HostOptions{}))
}

func load(t *testing.T, file string, keep session.Keep) *profile.Profile {
	t.Helper()
	f, err := perfdata.Open(file, perfdata.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := session.Load(context.Background(), f, session.Options{Keep: keep})
	if err != nil {
		t.Fatal(err)
	}
	return r.Profile
}

// A row is a line of a flat report.
type row struct{ comm, dso, sym string }

// rows adds up the periods of a resolved profile as a flat report does.
func rows(p *profile.Profile) map[row]uint64 {
	out := map[row]uint64{}
	for _, s := range p.Samples {
		l := p.Locations[s.Location]
		r := row{comm: p.Threads[s.Thread].Comm, dso: "[unknown]", sym: fmt.Sprintf("%#016x", l.IP)}
		if l.Object != profile.None {
			r.dso = p.Objects[l.Object].Short
			r.sym = fmt.Sprintf("%#016x", l.Addr)
		}
		if l.Func != profile.None {
			r.sym = p.Functions[l.Func].Name
		} else {
			r.sym = "0x"
		}
		out[r] += s.Period
	}
	return out
}

// perfRows reads perf's rows; addresses without a name become "0x".
func perfRows(t *testing.T, file, home string) map[row]uint64 {
	t.Helper()
	r := perftest.PerfIn(t, t.TempDir(), home, nil, "report", "-f", "-i", file, "--stdio", "--no-children", "-g", "none", "-F", "period,comm,dso,sym", "-t", "|", "--no-inline")
	out := map[row]uint64{}
	sc := bufio.NewScanner(strings.NewReader(r.Stdout))
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		f := strings.SplitN(sc.Text(), "|", 4)
		if len(f) != 4 || strings.HasPrefix(f[0], "#") {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(f[0]), 10, 64)
		if err != nil {
			continue
		}
		sym := strings.TrimSpace(f[3])
		sym = strings.TrimSpace(sym[strings.Index(sym, "]")+1:])
		if strings.HasPrefix(sym, "0x") {
			sym = "0x"
		}
		out[row{strings.TrimSpace(f[1]), strings.TrimSpace(f[2]), sym}] += n
	}
	if len(out) == 0 {
		t.Fatalf("perf report printed no rows: %s", r.Stderr)
	}
	return out
}

// compareRows compares all rows. What we name and perf does not, and stubs, may differ.
func compareRows(t *testing.T, file, home string) *symbol.Outcome {
	t.Helper()
	p := load(t, file, session.KeepComm)
	out, err := symbol.Resolve(context.Background(), p, symbol.Options{Source: sources(home)})
	if err != nil {
		t.Fatal(err)
	}
	got, want := rows(p), perfRows(t, file, home)
	keys := slices.Collect(maps.Keys(got))
	for r := range want {
		if _, ok := got[r]; !ok {
			keys = append(keys, r)
		}
	}
	noID := map[string]bool{} // perf takes whatever file has the path
	for _, o := range p.Objects {
		if o.Kind == profile.KindFile && o.BuildID == "" {
			noID[o.Short] = true
		}
	}
	same, more, bad := 0, 0, 0
	for _, r := range keys {
		switch {
		case got[r] == want[r]:
			same++
		case noID[r.dso]:
			more++
		case strings.HasSuffix(r.sym, "@plt"), r.sym == "_init", r.sym == ".plt":
			more++
		default:
			bad++
			t.Errorf("%s: %v: period %d, perf has %d", filepath.Base(file), r, got[r], want[r])
		}
	}
	t.Logf("%s: %d rows as perf, %d more than perf, %d differ; %v", filepath.Base(file), same, more, bad, out.Coverage)
	for _, m := range out.Missing() {
		name := "(none)"
		if m.Object >= 0 {
			name = p.Objects[m.Object].Path
		}
		t.Logf("  %s: %d of %d frames, %d samples: %s %s", name, m.Frames-m.FramesNamed, m.Frames, m.SamplesUnnamed, m.Reason, m.Detail)
	}
	return out
}

// TestRowsPerf records programs with the real perf and compares the rows of
// its report with ours.
func TestRowsPerf(t *testing.T) {
	perftest.NeedTool(t, "gcc")
	spin := perftest.CC(t, "spin", spinSource, "-O1")
	for _, tt := range []struct {
		name string
		args []string
	}{
		{"spin", []string{"-e", "cpu-clock", "-F", "2999", "--", spin, "300"}},
		{"system", []string{"-e", "cpu-clock", "-F", "999", "-a", "--", "sh", "-c", "ls -lR /usr/lib >/dev/null; " + spin + " 100"}},
		{"vdso", []string{"-e", "cpu-clock", "-F", "999", "--", perftest.CC(t, "vd", vdsoSource, "-O1")}}, // S55
		{"static", []string{"-e", "cpu-clock", "-F", "999", "--", perftest.CC(t, "st", spinSource, "-O1", "-static"), "100"}},
		{"nopie", []string{"-e", "cpu-clock", "-F", "999", "--", perftest.CC(t, "np", spinSource, "-O1", "-no-pie"), "100"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			home := t.TempDir()
			file := filepath.Join(home, "perf.data")
			r := perftest.PerfIn(t, home, home, nil, append([]string{"record", "-q", "-o", file}, tt.args...)...)
			if _, err := os.Stat(file); err != nil || r.Code != 0 {
				t.Skipf("NOTICE: perf cannot record here: status %d: %s", r.Code, r.Stderr)
			}
			compareRows(t, file, home)
		})
	}
}

const spinSource = `
#include <stdlib.h>
#include <string.h>
volatile unsigned long x;
__attribute__((noinline)) void hot_leaf(long n) { for (long i = 0; i < n; i++) x += i; }
__attribute__((noinline)) void hot_mid(long n) { hot_leaf(n); x++; }
int main(int c, char **v) {
	long ms = c > 1 ? atol(v[1]) : 100;
	for (long i = 0; i < ms; i++) { hot_mid(400000); char *p = malloc(i + 100); memset(p, 1, i + 100); free(p); }
	return 0;
}
`

const vdsoSource = `
#include <time.h>
int main(void) { struct timespec t; for (long i = 0; i < 5000000; i++) clock_gettime(CLOCK_MONOTONIC, &t); return 0; }
`
