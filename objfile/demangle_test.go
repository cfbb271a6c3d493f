package objfile

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/perfark/perfark/internal/perftest"
)

// TestDemangle states what perf 6.1 prints.
func TestDemangle(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"main", "main"},
		{"_start", "_start"},
		{"init_cpu_features.constprop.0", "init_cpu_features.constprop.0"},
		{"_Znwm@plt", "operator new@plt"},
		{"puts@plt", "puts@plt"},
		{"memcpy@@GLIBC_2.14", "memcpy@@GLIBC_2.14"},
		{"_ZN2ns3fooEl@@V1", "ns::foo"},
		{"_ZL4specll.constprop.0", "spec"},                                         // S43
		{"_ZL4specll.constprop.0.isra.0.cold", "spec"},                             // S43
		{"_ZZ4mainENKUllE_clEl.constprop.0", "main::{lambda(long)#1}::operator()"}, //
		{"_Z6taggedB6taggedl", "tagged[abi:tagged]"},                               //
		{"_ZN3std3sys9backtrace28__rust_begin_short_backtrace17h30b50ba0bd2d9e27E", "std::sys::backtrace::__rust_begin_short_backtrace"}, // a lost underscore
		{"_ZN58_$LT$alloc..string..String$u20$as$u20$core..fmt..Write$GT$9write_str17h0123456789abcdefE", "<alloc::string::String as core::fmt::Write>::write_str"},
		{"_ZN4core3fmt5write17h0123456789abcdefE.llvm.123", "core::fmt::write"}, // S42
		{"_ZN4core3fmt5write17h0000000000000000E", "core::fmt::write::h0000000000000000"},
		{"_RNvNtCs1stPtnWQKnT_10rustc_lint8internal4main.llvm.5", "rustc_lint::internal::main"}, // S42
		{"_RNCNvCs1_1a1b012x", "_RNCNvCs1_1a1b012x"},
		{"_RINvCs1_1a1bNCNvB2_1c0Kj10_E", "a::b::<a::c::{closure#0}, 16>"}, // a zero that ends a number
		{"camlFoo__x$27y__12", "Foo.x'y.12"},
		{"caml_main", "caml_main"},
		{"Ljava/lang/StringLatin1;equals([B[B)Z", "java.lang.StringLatin1.equals(byte[], byte[])"},
		{"Ljava/util/zip/ZipUtils;CENSIZ([BI)J", "java.util.zip.ZipUtils.CENSIZ(byte[], int)"},
		{"Ljava/util/regex/Pattern$BmpCharProperty;match(Ljava/util/regex/Matcher;ILjava/lang/CharSequence;)Z", "java.util.regex.Pattern$BmpCharProperty.match(java.util.regex.Matcher, int, java.lang.CharSequence)"},
		{"Ljava/lang/AbstractStringBuilder;appendChars(Ljava/lang/String;II)V", "java.lang.AbstractStringBuilder.appendChars(java.lang.String, int, int)"},
		{"Ljava/lang/Object;<init>()V", "java.lang.Object<init>()"},
		{"Lfoo;bar([[Lx/y;D)V", "foo.bar(x.y[][], double)"},
		{"Lfoo;bar(Q)V", "Lfoo;bar(Q)V"},
		{"Lfoo;bar(L)V", "Lfoo;bar(L)V"},
		{"LLVMBuildAdd", "LLVMBuildAdd"},
		{"L(;)", "L(;)"},
		{"_Z", "_Z"},
		{"_R", "_R"},
		{"_ZN", "_ZN"},
	} {
		if got := Demangle(tt.in); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.in, got, tt.want)
		}
	}
}

// knownDemangle are names in which we differ from c++filt, by a part of them.
var knownDemangle = []string{
	"Ut_", "UlvE_", // constructors of unnamed types, lambdas in constructors' parameters
	"_ZGRZ",                             // reference temporaries without a number
	"80000000000000000000000000000000_", // c++filt is wrong
	"7fffffffffffffffffffffffffffffff_",
}

// TestDemangleFilt compares all names of this machine's libraries with
// c++filt, whose demangler perf has; S41: those of Rust's libraries, too.
func TestDemangleFilt(t *testing.T) {
	perftest.NeedTool(t, "c++filt")
	perftest.NeedTool(t, "nm")
	var names []string
	seen := map[string]bool{}
	for _, file := range append(systemFiles(t), rustFiles()...) {
		out, _ := exec.Command("nm", "-D", file).Output()
		if len(out) == 0 {
			out, _ = exec.Command("nm", file).Output()
		}
		for l := range strings.Lines(string(out)) {
			f := strings.Fields(l)
			if len(f) == 0 {
				continue
			}
			name, _, _ := strings.Cut(f[len(f)-1], "@")
			if (strings.HasPrefix(name, "_Z") || strings.HasPrefix(name, "_R")) && !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
		if (testing.Short() || raceFactor > 1) && len(names) > 20000 {
			break
		}
	}
	if len(names) == 0 {
		t.Skip("no mangled names on this machine")
	}
	cmd := exec.Command("c++filt", "-i", "-p")
	cmd.Stdin = strings.NewReader(strings.Join(names, "\n") + "\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Split(bytes.TrimSuffix(out, []byte{'\n'}), []byte{'\n'})
	if len(want) != len(names) {
		t.Fatalf("c++filt gave %d lines for %d", len(want), len(names))
	}
	bad, known := 0, 0
next:
	for i, n := range names {
		got := Demangle(n)
		if got == string(want[i]) {
			continue
		}
		for _, k := range knownDemangle {
			if strings.Contains(n, k) {
				known++
				continue next
			}
		}
		if bad++; bad < 10 {
			t.Logf("%s:\n got %s\nwant %s", n, got, want[i])
		}
	}
	if bad*10000 > len(names) {
		t.Errorf("over one in 10,000 names differ")
	}
	t.Logf("%d names, %d known to differ, %d wrong", len(names), known, bad)
}

// rustFiles returns libraries written in Rust.
func rustFiles() []string {
	out, err := exec.Command("rustc", "--print", "sysroot").Output()
	if err != nil {
		return nil
	}
	dir := strings.TrimSpace(string(out)) + "/lib"
	ls, _ := exec.Command("find", dir, "-maxdepth", "1", "-name", "lib*.so").Output()
	return strings.Fields(string(ls))
}

// TestDemangleBounded is U8: hostile names take little time and give little.
func TestDemangleBounded(t *testing.T) {
	var laughs strings.Builder
	laughs.WriteString("_Z1fI")
	for i := range 40 {
		laughs.WriteString("1AIS")
		if i > 0 {
			laughs.WriteByte("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[min(i-1, 35)])
		}
		laughs.WriteString("_S_E")
	}
	laughs.WriteString("EvT_")
	rust := "_RINvC1a1b" + strings.Repeat("TB1_B1_", 300) + "E"
	for _, in := range []string{
		"_ZN" + strings.Repeat("N", 30000),
		"_Z1f" + strings.Repeat("P", 30000) + "i",
		"_Z1fI" + strings.Repeat("J", 15000) + strings.Repeat("E", 15000) + "E",
		"_Z1fI" + strings.Repeat("I", 15000),
		"_Z" + strings.Repeat("dl", 15000),
		"_ZN" + strings.Repeat("1aI", 10000),
		"_Z1fIXL" + strings.Repeat("_Z1f", 7000),
		"_Z1f" + strings.Repeat("IXadL_Z1f", 3000),
		"Lx;f(" + strings.Repeat("[", 30000) + "I)V",
		"Lx;f(" + strings.Repeat("La;", 10000) + ")V",
		laughs.String(), rust,
		"_RINvC1a1b" + strings.Repeat("T", 30000),
		"_RINvC1a1bT" + strings.Repeat("FG_", 10000),
		"_RNv" + strings.Repeat("B_", 100),
		"_RMC0" + strings.Repeat("TTTB5_B6_B7_B8_", 60) + "E",
	} {
		start := cpuTime(t)
		out := Demangle(in)
		if d := cpuTime(t) - start; d > time.Second*raceFactor {
			t.Errorf("%.40s…: took %v", in, d)
		}
		if len(out) > maxDemangled+len(in) {
			t.Errorf("%.40s…: gave %d bytes", in, len(out))
		}
	}
}

func FuzzDemangle(f *testing.F) {
	for _, s := range []string{
		"_ZN2ns3fooEl@@V1", "_ZZ4mainENKUllE_clEl.constprop.0", "_ZN58_$LT$alloc..string..String$u20$as$u20$core..fmt..Write$GT$9write_str17h0123456789abcdefE",
		"_RINvCs1_1a1bNCNvB2_1c0Kj10_E", "_RNvXs8Z_NtNtCsgVdDwkt78Uu_4jiff4util8rangeINtB6_5ri128Knn80_Kn7f_ENtNtCs8NwYtU1Mohg_4core3fmt7Display3fmtBa_",
		"_RMC0DNtC1a1bp1cuEL_", "_RNvCu8gdel_5qa1x", "_Z1fI1AIJEEEvT_", "camlFoo__x$27y__12", "_GLOBAL__sub_I_x",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		start := cpuTime(t)
		out := Demangle(s)
		if len(out) > maxDemangled+len(s) || cpuTime(t)-start > 2*time.Second {
			t.Errorf("%d bytes in, %d out, %v", len(s), len(out), cpuTime(t)-start)
		}
	})
}
