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
	"github.com/perfark/perfark/objfile"
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

// foldStubs adds the rows of stubs to those without a name: perf puts stubs
// there, under _init or under another stub's name, see docs/symbols.md.
func foldStubs(in map[row]uint64) map[row]uint64 {
	out := map[row]uint64{}
	for r, n := range in {
		if strings.HasSuffix(r.sym, "@plt") || r.sym == "_init" || r.sym == ".plt" {
			r.sym = "0x"
		}
		out[r] += n
	}
	return out
}

// goTables returns the objects whose names come from the table of a Go
// program, which perf does not read.
func goTables(p *profile.Profile, out *symbol.Outcome, src store.Source) map[string]bool {
	dsos := map[string]bool{}
	for i := range p.Objects {
		o := &p.Objects[i]
		if o.Kind != profile.KindFile || out.Objects[i].Quality >= objfile.Symtab {
			continue
		}
		sf, err := src.Get(context.Background(), store.Key{ID: o.BuildID, Kind: store.ELF, Path: o.Path})
		if err != nil {
			continue
		}
		if f, err := objfile.Open(sf, sf.Size, o.Path, nil); err == nil && f.IsGo() {
			dsos[o.Short] = true
		}
		sf.Close()
	}
	return dsos
}

// foldNames adds the rows of an object to those without a name.
func foldNames(in map[row]uint64, dso string) map[row]uint64 {
	out := map[row]uint64{}
	for r, n := range in {
		if r.dso == dso {
			r.sym = "0x"
		}
		out[r] += n
	}
	return out
}

// compareRows compares all rows.
func compareRows(t *testing.T, file, home string) *symbol.Outcome {
	t.Helper()
	p := load(t, file, session.KeepComm)
	out, err := symbol.Resolve(context.Background(), p, symbol.Options{Source: sources(home)})
	if err != nil {
		t.Fatal(err)
	}
	got, want := rows(p), perfRows(t, file, home)
	for dso := range goTables(p, out, sources(home)) {
		got, want = foldNames(got, dso), foldNames(want, dso)
	}
	got, want = foldStubs(got), foldStubs(want)
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

// TestRowsMangled records programs in C++ and Rust, in both its schemes.
func TestRowsMangled(t *testing.T) {
	for _, tt := range []struct {
		tool, file, src string
		flags           []string
	}{
		{"g++", "x.cc", cxxSource, []string{"-O2", "-fno-inline-functions"}},
		{"rustc", "x.rs", rustSource, []string{"-O"}},
		{"rustc", "x.rs", rustSource, []string{"-O", "-Csymbol-mangling-version=v0"}},
	} {
		t.Run(tt.tool, func(t *testing.T) {
			perftest.NeedTool(t, tt.tool)
			home := t.TempDir()
			if err := os.WriteFile(filepath.Join(home, tt.file), []byte(tt.src), 0o644); err != nil {
				t.Fatal(err)
			}
			if r := perftest.Run(t, home, nil, nil, tt.tool, append(tt.flags, "-o", "x", tt.file)...); r.Code != 0 {
				t.Skipf("NOTICE: %s cannot compile here: %s", tt.tool, r.Stderr)
			}
			file := filepath.Join(home, "perf.data")
			r := perftest.PerfIn(t, home, home, nil, "record", "-q", "-e", "cpu-clock", "-F", "4999", "-o", file, "--", "./x")
			if _, err := os.Stat(file); err != nil || r.Code != 0 {
				t.Skipf("NOTICE: perf cannot record here: status %d: %s", r.Code, r.Stderr)
			}
			compareRows(t, file, home)
		})
	}
}

const cxxSource = `
#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>
namespace ns {
template <class T, int N> struct Box {
	T v[N];
	__attribute__((noinline)) T sum(std::vector<T> const &x, int k) const { T s = 0; for (int i = 0; i < 500; i++) for (auto &e : x) s += e * k + v[i % N]; return s; }
	__attribute__((noinline)) Box &operator+=(const Box &o) { for (int r = 0; r < 5000; r++) for (int i = 0; i < N; i++) v[i] += o.v[i] + r; return *this; }
	__attribute__((noinline)) operator bool() const { volatile int q = 0; for (int i = 0; i < 20000; i++) q = q + i; return v[0] != 0; }
	__attribute__((noinline)) ~Box() { volatile int q = 0; for (int i = 0; i < 20000; i++) q = q + i; }
};
namespace { __attribute__((noinline)) long anon(long n) { volatile long q = 0; for (long i = 0; i < n; i++) q = q + i; return q; } }
struct Cmp { __attribute__((noinline)) bool operator()(const std::string &a, const std::string &b) const { volatile int q = 0; for (int i = 0; i < 100; i++) q = q + i; return a < b; } };
}
static __attribute__((noinline)) long spec(long n, long k) { volatile long q = 0; for (long i = 0; i < n; i++) { q = q + i * k; if (q == 77) throw 1; } return q; }
[[gnu::abi_tag("tagged")]] __attribute__((noinline)) long tagged(long n) { volatile long q = 0; for (long i = 0; i < n; i++) q = q + i; return q; }
int main() {
	long r = 0;
	std::vector<long> x(100, 3);
	ns::Box<long, 4> b{{1, 2, 3, 4}};
	std::map<std::string, int, ns::Cmp> m;
	for (int i = 0; i < 60; i++) {
		{ ns::Box<long, 4> d{{1, 2, 3, 4}}; r += d.sum(x, i); b += d; if (b) r++; }
		r += ns::anon(40000) + spec(40000, 3) + spec(50000, 3) + tagged(40000);
		auto lam = [&](long n) __attribute__((noinline)) { volatile long q = 0; for (long i = 0; i < 40000; i++) q = q + i * n; return (long)q; };
		r += lam(i);
		m[std::to_string(i)] = i;
		std::vector<std::string> s;
		for (int k = 0; k < 50; k++) s.push_back(std::to_string(k * 7919 % 101));
		std::sort(s.begin(), s.end(), ns::Cmp());
		r += s[0].size();
	}
	return r == 1;
}
`

const rustSource = `
use std::collections::HashMap;
use std::hint::black_box;
mod inner {
    use std::hint::black_box;
    pub trait Work { fn work(&self, n: u64) -> u64; }
    pub struct A<T>(pub T);
    impl<T: Copy + Into<u64>> Work for A<T> {
        #[inline(never)]
        fn work(&self, n: u64) -> u64 { let mut s = self.0.into(); for i in 0..n { s = black_box(s.wrapping_mul(31) + i); } s }
    }
    #[inline(never)]
    pub fn generic<F: Fn(u64) -> u64>(f: F, n: u64) -> u64 { let mut s = 0u64; for i in 0..n { s = s.wrapping_add(f(i)); } black_box(s) }
}
use inner::Work;
#[inline(never)]
fn slice(x: &[&str]) -> usize { let mut s = 0; for _ in 0..10000 { for e in x { s += black_box(e.len()); } } s }
#[inline(never)]
fn __underscored<const N: usize>(x: [u8; N]) -> u64 { let mut s = 0; for _ in 0..10000 { for e in x { s += black_box(e as u64); } } s }
fn main() {
    let mut m: HashMap<String, u64> = HashMap::new();
    let mut r = 0u64;
    for i in 0..150u64 {
        r = r.wrapping_add(inner::A(i as u32).work(50000));
        r = r.wrapping_add(inner::generic(|x| black_box(x ^ r), 50000));
        r += slice(&["a", "bb"]) as u64 + __underscored([1; 7]);
        for k in 0..200 { *m.entry(format!("{}", k)).or_insert(0) += 1; }
        let w: Box<dyn Work> = Box::new(inner::A(i as u8));
        r = r.wrapping_add(w.work(50000));
    }
    std::process::exit((black_box(r) == 1) as i32 + m.len() as i32 - 200);
}
`

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
