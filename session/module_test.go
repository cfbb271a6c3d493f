package session

import (
	"testing"

	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/profile"
)

// TestModulePath: what perf takes for a kernel module, and what it calls it
// (tools/perf/tests/kmod-path.c), and S20: compressed in ways that perf does not know.
func TestModulePath(t *testing.T) {
	for path, want := range map[string]string{ // "" if it is none
		"/xxxx/xxxx/x-x.ko":    "[x_x]",
		"/xxxx/xxxx/x.ko.gz":   "[x]",
		"/xxxx/xxxx/x.gz":      "",
		"x.gz":                 "",
		"x.ko.gz":              "[x]",
		"[test_module]":        "[test_module]",
		"[test.module]":        "[test.module]",
		"[test-module]":        "[test_module]",
		"[vdso]":               "",
		"[vdso32]":             "",
		"[vdsox32]":            "",
		"[vsyscall]":           "",
		"[kernel.kallsyms]":    "",
		"/x/x.ko.xz":           "[x]",
		"/x/x.ko.zst":          "[x]",
		"/x/x.ko.zstd":         "[x]",
		"/x/x.ko.lz4":          "[x]",
		"/x/a.ko.b.ko":         "[a.ko.b]",
		"/x/a.ko.b.c":          "",
		"/x/x.kopy":            "",
		"/usr/lib/libx.so.ko2": "",
	} {
		name, ok := moduleName(path)
		if name != want || ok != (want != "") {
			t.Errorf("%s: %q, %v; want %q", path, name, ok, want)
		}
		if path == "[vsyscall]" {
			continue // nothing maps it in the kernel
		}
		// In a recording: in kernel mode a module, in user mode never.
		r := loadData(t, perftest.Data(t, header+"mmap pid=-1 tid=0 start=0xffffffffc0000000 len=0x1000 name="+path+"\nmmap pid=5 tid=5 start=0x10000 len=0x1000 name="+path+"\n"), Options{})
		for i, o := range r.Profile.Objects {
			kernel := i == 0
			if (o.Kind == profile.KindModule) != (kernel && want != "") || o.Kind == profile.KindModule && o.Short != want {
				t.Errorf("%s: object %d is %+v", path, i, o)
			}
		}
	}
}
