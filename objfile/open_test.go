package objfile

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// systemFiles returns ELF files of this machine, as many as there are.
func systemFiles(t *testing.T) []string {
	var out []string
	for _, pat := range []string{
		"/bin/bash", "/bin/ls", "/usr/bin/perf", "/usr/bin/gcc", "/usr/bin/g++", "/usr/bin/git", "/usr/bin/python3", "/usr/bin/node",
		"/lib/*/libc.so.6", "/lib/*/libm.so.6", "/lib/*/libz.so.1", "/lib*/*/ld-linux*.so.*", "/usr/lib/*/libstdc++.so.6", "/usr/lib/*/libcrypto.so.*",
		"/usr/lib/*/libbfd-*.so", "/usr/lib/*/libpython3*.so.1.0", "/usr/lib/*/libLLVM-14.so.1", "/usr/lib/gcc/*-linux-gnu/*/crtbegin.o", "/usr/lib/*/crt1.o",
	} {
		names, _ := filepath.Glob(pat)
		for _, name := range names {
			if real, err := filepath.EvalSymlinks(name); err == nil && !slices.Contains(out, real) {
				out = append(out, real)
			}
		}
	}
	if len(out) == 0 {
		t.Skip("no ELF files on this machine")
	}
	return out
}

func openTest(t testing.TB, name string) *File {
	t.Helper()
	r, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	st, err := r.Stat()
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(r, st.Size(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestOpenSystem compares the headers and the build id with debug/elf and readelf.
func TestOpenSystem(t *testing.T) {
	_, err := exec.LookPath("readelf")
	if err != nil {
		t.Skip("readelf is not installed")
	}
	hex := regexp.MustCompile(`Build ID: ([0-9a-f]+)`)
	for _, name := range systemFiles(t) {
		f := openTest(t, name)
		std, err := elf.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if int(std.Machine) != int(f.Machine()) || int(std.Type) != int(f.Type()) || len(std.Sections) != len(f.sections) || len(std.Progs) != len(f.segments) {
			t.Errorf("%s: headers differ from those of debug/elf", name)
			continue
		}
		for i, s := range std.Sections {
			g := f.sections[i]
			if s.Name != g.name || uint32(s.Type) != g.typ || s.Addr != g.addr || s.Offset != g.off || s.FileSize != g.size && s.Type != elf.SHT_NOBITS || uint64(s.Flags) != g.flags {
				t.Errorf("%s: section %d is %+v, want %+v", name, i, g, s.SectionHeader)
			}
		}
		std.Close()
		out, err := exec.Command("readelf", "-nW", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		want := ""
		if m := hex.FindSubmatch(out); m != nil {
			want = string(m[1])
		}
		if got := f.BuildID().String(); got != want {
			t.Errorf("%s: build id %q, readelf says %q", name, got, want)
		}
		if len(f.Warnings()) > 0 {
			t.Errorf("%s: warnings %v", name, f.Warnings())
		}
	}
}
