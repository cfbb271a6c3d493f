package objfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/internal/perftest"
)

const kallsymsText = `0000000000000000 A fixed_percpu_data
ffffffff81000000 T srso_alias_untrain_ret
ffffffff81000000 T _text
ffffffff81000000 T _stext
ffffffff81000100 t local_one
ffffffff81000100 W weak_one
ffffffff81000200 T last
ffffffff81000300 R rodata
ffffffff81000310 r rodata2
ffffffff82000000 D data
ffffffff82000010 b bss
ffffffffc0001000 t m_init	[mod_a]
ffffffffc0001010 T m_run	[mod_a]
ffffffffc0001010 T $x	[mod_a]
ffffffffc0008000 t n_run	[mod-b]
`

func TestKallsyms(t *testing.T) {
	k, err := ReadKallsyms(strings.NewReader(kallsymsText), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		addr      uint64
		want, mod string
	}{
		{0xffffffff80ffffff, "", ""},
		{0xffffffff81000000, "_stext", ""}, // only the last of several has an end
		{0xffffffff810000ff, "_stext", ""},
		{0xffffffff81000100, "weak_one", ""},
		{0xffffffff81000200, "last", ""},
		{0xffffffff81000300, "last", ""}, // types R and r are not kept
		{0xffffffff81ffffff, "last", ""},
		{0xffffffff82000000, "data", ""},
		{0xffffffff82000010, "bss", ""},
		{0xffffffff82001fff, "bss", ""}, // up to a page, as what follows is a module
		{0xffffffff82002000, "", ""},
		{0xffffffffc0001000, "m_init", "mod_a"},
		{0xffffffffc0001010, "m_run", "mod_a"},
		{0xffffffffc0002fff, "m_run", "mod_a"},
		{0xffffffffc0003000, "", ""},
		{0xffffffffc0008000, "n_run", "mod-b"},
		{0xffffffffc0009000, "", ""},
		{0, "", ""},
	} {
		s, mod, ok := k.Lookup(tt.addr)
		if s.Name != tt.want || mod != tt.mod || ok != (tt.want != "") {
			t.Errorf("%#x: got %q [%s], %v; want %q [%s]", tt.addr, s.Name, mod, ok, tt.want, tt.mod)
		}
	}
	if a, ok := k.Address("_stext"); a != 0xffffffff81000000 || !ok {
		t.Errorf("_stext: %#x, %v", a, ok)
	}
	if _, ok := k.Address("m_run"); ok {
		t.Error("a module's symbol was taken for the kernel's")
	}
	if m := k.Modules(); len(m) != 2 || m[0] != "mod_a" || m[1] != "mod-b" {
		t.Errorf("modules %q", m)
	}
}

func TestKallsymsErrors(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want string
		is   error
	}{
		{"", `kallsyms: none of its lines has the form "address type name"`, nil},
		{"hello\nworld\n", `kallsyms: none of its lines has the form "address type name"`, nil},
		{strings.Repeat("0000000000000000 T a\n", 9), ErrRestricted.Error(), ErrRestricted}, // S12
		{"ffffffff81000000 R a\n", "kallsyms: no symbols", ErrNoSymbols},
		{"fffffffff81000000 T a\n", `kallsyms: none of its lines has the form "address type name"`, nil},
	} {
		_, err := ReadKallsyms(strings.NewReader(tt.in), nil)
		if err == nil || err.Error() != tt.want || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%.30q: got %v, want %s", tt.in, err, tt.want)
		}
	}
	var l *decode.LimitError
	_, err := ReadKallsyms(strings.NewReader(kallsymsText), decode.NewBudget(decode.Limits{Bytes: 100}))
	if !errors.As(err, &l) {
		t.Errorf("over the budget: %v", err)
	}
}

// TestKallsymsRunning reads the symbols of the running kernel.
func TestKallsymsRunning(t *testing.T) {
	b, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Skip("no /proc/kallsyms")
	}
	start := time.Now()
	k, err := ReadKallsyms(bytes.NewReader(b), nil)
	if errors.Is(err, ErrRestricted) {
		t.Skip("NOTICE: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d symbols of %d bytes in %v", k.Len(), len(b), time.Since(start))
	names := map[uint64][]string{}
	for l := range strings.Lines(string(b)) {
		f := strings.Fields(l)
		a, _ := strconv.ParseUint(f[0], 16, 64)
		if strings.Contains("TtWw", f[1]) {
			names[a] = append(names[a], f[2])
		}
	}
next:
	for a, ns := range names {
		s, _, ok := k.Lookup(a)
		for _, n := range ns {
			if s.Name == n {
				continue next
			}
		}
		t.Errorf("%#x: got %+v, %v; want one of %q", a, s, ok, ns)
	}
}

func BenchmarkKallsyms(b *testing.B) {
	text, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		b.Skip("no /proc/kallsyms")
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := ReadKallsyms(bytes.NewReader(text), nil); err != nil {
			b.Skip(err)
		}
	}
}

func FuzzKallsyms(f *testing.F) {
	f.Add([]byte(kallsymsText))
	f.Add([]byte("ffffffff81000000 T a\nffffffff81000000 t b\t[m]\n0 W c"))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := ReadKallsyms(bytes.NewReader(b), nil)
		if err != nil {
			return
		}
		k.Modules()
		k.Address("_text")
		for i := range k.Len() {
			s := k.Sym(i)
			if got, _, ok := k.Lookup(s.Start); ok && got.Start > s.Start {
				t.Errorf("%#x: got %+v", s.Start, got)
			}
		}
	})
}

// TestKallsymsPerf compares names of the running kernel with those of the
// real perf, aliases above all.
func TestKallsymsPerf(t *testing.T) {
	perftest.NeedTool(t, "perf")
	b, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Skip("no /proc/kallsyms")
	}
	k, err := ReadKallsyms(bytes.NewReader(b), nil)
	if err != nil {
		t.Skip("NOTICE: ", err)
	}
	raw, err := os.ReadFile("/sys/kernel/notes")
	if err != nil {
		t.Skip("no /sys/kernel/notes")
	}
	notes, err := buildid.ParseNotes(raw, 0, false, 4)
	if err != nil || notes.GNU == "" {
		t.Skip("the running kernel has no build id")
	}
	ref, ok := k.Address("_stext")
	end, ok2 := k.Address("_etext")
	if !ok || !ok2 {
		t.Skip("no _stext")
	}
	var sb strings.Builder
	fmt.Fprintf(&sb, "event cpu-clock sample=IP|TID|TIME\nmmap pid=-1 tid=0 start=%#x len=%#x pgoff=%#x name=[kernel.kallsyms]_stext mode=kernel time=1\ncomm pid=9 tid=9 name=x time=2\n", ref, end-ref, ref)
	var addrs []uint64
	for i := 0; i < k.Len(); i++ {
		s := k.Sym(i)
		alias := i > 0 && k.Sym(i-1).Start == s.Start
		if s.Start >= ref && s.Start < end && k.Module(i) == "" && (alias || i%100 == 0) && len(addrs) < 4000 {
			addrs = append(addrs, s.Start, s.Start+(s.End-s.Start)/2)
		}
	}
	for i, a := range addrs {
		fmt.Fprintf(&sb, "sample ip=%#x pid=9 tid=9 time=%d\n", a, 10+i)
	}
	fmt.Fprintf(&sb, "feature build_id {\n\tbuild_id pid=-1 id=%s name=[kernel.kallsyms] mode=kernel\n}\n", notes.GNU)
	r := perftest.Perf(t, "script", "-f", "-i", perftest.File(t, sb.String()), "-F", "ip,sym,symoff")
	lines := strings.Split(strings.TrimSpace(r.Stdout), "\n")
	if len(lines) != len(addrs) {
		t.Fatalf("perf answered %d of %d: %s", len(lines), len(addrs), r.Stderr)
	}
	bad := 0
	for i, a := range addrs {
		f := strings.Fields(lines[i])
		s, _, _ := k.Lookup(a)
		if got := fmt.Sprintf("%s+%#x", s.Name, a-s.Start); len(f) < 2 || f[1] != got {
			if bad++; bad < 10 {
				t.Errorf("%#x: got %s, perf says %q", a, got, lines[i])
			}
		}
	}
	t.Logf("%d addresses, %d differ", len(addrs), bad)
}

// TestKallsymsFor: what is read for some addresses says of them what all of it
// says.
func TestKallsymsFor(t *testing.T) {
	for _, text := range []string{kallsymsText, kallsymsFound(t)} {
		k, err := ReadKallsyms(strings.NewReader(text), nil)
		if err != nil {
			t.Log("NOTICE: ", err)
			continue
		}
		var all []uint64
		for i := range k.Len() {
			s := k.Sym(i)
			all = append(all, s.Start-1, s.Start, s.Start+1, s.End-1, s.End, s.End+1<<40)
		}
		all = append(all, 0, 1, ^uint64(0))
		slices.Sort(all)
		all = slices.Compact(all)
		for _, step := range []int{1, 2, 7, 1001, 1 << 30} {
			var only []uint64
			for i := step / 2 % len(all); i < len(all); i += step {
				only = append(only, all[i])
			}
			sameKallsyms(t, text, k, only)
		}
		sameKallsyms(t, text, k, nil)
	}
}

// kallsymsFound is what the running kernel says.
func kallsymsFound(t *testing.T) string {
	b, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Log("NOTICE: no /proc/kallsyms")
	}
	return string(b)
}

// sameKallsyms compares what is read for the addresses of only with k.
func sameKallsyms(t *testing.T, text string, k *Kallsyms, only []uint64) {
	t.Helper()
	names := []string{"_stext", "_text", "m_run", "no such"}
	some, err := ReadKallsymsFor(strings.NewReader(text), only, names, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := 2*len(only) + 64; step(only) > 100 && some.Len() > n {
		t.Errorf("%d symbols of %d kept for %d addresses", some.Len(), k.Len(), len(only))
	}
	for _, a := range only {
		s, m, ok := some.Lookup(a)
		s2, m2, ok2 := k.Lookup(a)
		if s != s2 || m != m2 || ok != ok2 {
			t.Fatalf("%#x: got %+v [%s] %v, want %+v [%s] %v", a, s, m, ok, s2, m2, ok2)
		}
	}
	for _, name := range names {
		a, ok := some.Address(name)
		if a2, ok2 := k.Address(name); a != a2 || ok != ok2 {
			t.Fatalf("%q: got %#x %v, want %#x %v", name, a, ok, a2, ok2)
		}
	}
}

// step is how far addresses are apart, about.
func step(only []uint64) uint64 {
	if len(only) < 2 {
		return 0
	}
	return (only[len(only)-1] - only[0]) / uint64(len(only))
}

func TestHexWord(t *testing.T) {
	for _, s := range []string{"ffffffff81000000 T", "0123456789abcdef ", "0123456789abcdeF ", "0123456/89abcdef ", "0123456:89abcdef ", "0123456789`bcdef ", "0123456789abcdeg ", "0123456789abcdef0 ", "12 ", "", "00000000@0000000 ", "000000000000\xb000 "} {
		v, n := hexWord([]byte(s))
		if v2, n2 := hexDigits([]byte(s)); v != v2 || n != n2 {
			t.Errorf("%q: got %#x, %d, want %#x, %d", s, v, n, v2, n2)
		}
	}
}

func FuzzKallsymsFor(f *testing.F) {
	f.Add([]byte(kallsymsText), uint64(0xffffffff81000010), uint64(1<<60))
	f.Add([]byte("ffffffff81000000 T a\nffffffff81000000 t b\t[m]\n1 W c"), uint64(5), uint64(0xffffffff81000001))
	f.Fuzz(func(t *testing.T, b []byte, a1, a2 uint64) {
		only := []uint64{min(a1, a2), max(a1, a2)}
		text := string(b)
		k, err := ReadKallsyms(strings.NewReader(text), nil)
		_, err2 := ReadKallsymsFor(strings.NewReader(text), only, nil, nil)
		if (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() {
			t.Fatalf("error %v, want %v", err2, err)
		}
		if err == nil {
			sameKallsyms(t, text, k, only)
		}
	})
}

func BenchmarkKallsymsFor(b *testing.B) {
	text, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		b.Skip("no /proc/kallsyms")
	}
	k, err := ReadKallsyms(bytes.NewReader(text), nil)
	if err != nil {
		b.Skip(err)
	}
	var only []uint64
	for i := 0; i < k.Len(); i += 300 {
		only = append(only, k.Sym(i).Start)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := ReadKallsymsFor(bytes.NewReader(text), only, []string{"_text", "_stext"}, nil); err != nil {
			b.Fatal(err)
		}
	}
}
