package dwarf_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/perfark/perfark/dwarf"
	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/objfile"
)

// TestExtent: what is said of one address is said of all in its extent.
func TestExtent(t *testing.T) {
	names := filepath.SplitList(os.Getenv("PERFARK_DEBUG_FILES"))
	names = append(names, perftest.CC(t, "prog", extentSource, "-O2", "-g"), perftest.CC(t, "prog4", extentSource, "-O2", "-gdwarf-4", "-ffunction-sections", "-freorder-blocks-and-partition"))
	for _, name := range names {
		if fi, err := os.Stat(name); err != nil || fi.IsDir() {
			continue
		}
		_, d := openDWARF(t, name, objfile.DWARFOptions{})
		var fns []dwarf.Func
		if err := d.Functions(func(f dwarf.Func) bool {
			fns = append(fns, f)
			return true
		}); err != nil || len(fns) == 0 {
			t.Fatalf("%s: %d functions, %v", name, len(fns), err)
		}
		frames := func(a uint64) []dwarf.Frame {
			out, err := d.Frames(a, nil)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		rnd := rand.New(rand.NewPCG(1, 2))
		bytes, wide := 0, 0
		const n = 3000
		for range n {
			f := fns[rnd.IntN(len(fns))]
			if f.End <= f.Start {
				continue
			}
			a := f.Start + rnd.Uint64N(f.End-f.Start)
			lo, hi := d.Extent(a)
			if lo > a || hi <= a {
				t.Fatalf("%s: Extent(%#x) = %#x, %#x", name, a, lo, hi)
			}
			want := frames(a)
			for _, b := range []uint64{lo, hi - 1, lo + rnd.Uint64N(hi-lo)} {
				if got := frames(b); !reflect.DeepEqual(got, want) {
					t.Fatalf("%s: Extent(%#x) = %#x, %#x, but at %#x there is\n%+v\nand not\n%+v", name, a, lo, hi, b, got, want)
				}
			}
			bytes += int(hi - lo)
			if hi-lo > 1 {
				wide++
			}
		}
		t.Logf("%s: %d of %d extents have more than a byte, %.1f on average", name, wide, n, float64(bytes)/n)
		if wide*10 < n*5 {
			t.Errorf("%s: %d of %d extents have more than a byte", name, wide, n)
		}
	}
}

const extentSource = `
extern int printf(const char *, ...);
volatile unsigned long x;
static inline __attribute__((always_inline)) void inner(long n) { for (long i = 0; i < n; i++) x += i * n; }
static inline __attribute__((always_inline)) void middle(long n) {
	inner(n + 1);
	if (n == 77) printf("%ld\n", n);
	x++;
}
__attribute__((noinline)) void hot(long n) {
	middle(n);
	inner(n);
	if (__builtin_expect(n > 1000, 0)) { printf("large %ld\n", n); inner(n * 2); }
	x--;
}
__attribute__((noinline)) static int many(int c) {
	switch (c) { case 1: return 5; case 2: hot(2); return 9; case 3: middle(7); return 3; case 4: x = 5; return 1; }
	return c * 3;
}
int main(int c, char **v) { hot(c); return many(c); }
`
