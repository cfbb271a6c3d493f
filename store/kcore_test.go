package store

import (
	"bytes"
	"os"
	"testing"
)

// TestKcoreDirs: the kernel's symbols that perf record --kcore keeps beside a
// recording.
func TestKcoreDirs(t *testing.T) {
	dir := t.TempDir()
	host := []byte("ffffffff81000000 T _text\n")
	guest := []byte("ffffffff82000000 T _text\n")
	write(t, dir+"/kcore_dir/kallsyms", host)
	write(t, dir+"/kcore_dir__77/kallsyms", guest)
	s := KcoreDirs([]string{dir + "/kcore_dir", dir + "/kcore_dir__77"})
	want := func(k Key, b []byte) {
		t.Helper()
		if got := contents(t, s, k); !bytes.Equal(got, b) {
			t.Errorf("%v: got %q, want %q", k, got, b)
		}
	}
	want(Key{ID: testID(1, 20), Kind: Kallsyms, Path: "[kernel.kallsyms]"}, host)
	want(Key{Kind: Kallsyms, Path: "/boot/vmlinux"}, host)
	want(Key{Kind: Kallsyms, Path: "[guest.kernel.kallsyms.77]"}, guest)
	testNone(t, s, Key{Kind: Kallsyms, Path: "[guest.kernel.kallsyms.78]"})
	testNone(t, s, Key{Kind: ELF, Path: "[kernel.kallsyms]"})
	for name, make := range map[string]func(name string) error{
		"zeros": func(name string) error { return os.WriteFile(name, []byte("0000000000000000 T _text\n"), 0o600) },
		"link":  func(name string) error { return os.Symlink("../kcore_dir__77/kallsyms", name) },
	} {
		os.Remove(dir + "/kcore_dir/kallsyms")
		if err := make(dir + "/kcore_dir/kallsyms"); err != nil {
			t.Fatal(err)
		}
		if rs := refused(t, s, Key{Kind: Kallsyms, Path: "[kernel.kallsyms]"}); len(rs) != 1 {
			t.Errorf("%s: %q", name, rs)
		}
	}
}
