package main

import (
	"archive/zip"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perfark/perfark/objfile"
)

// loaderSource maps the ELF file at an offset of a file as the dynamic linker
// of Android does, and calls the function at an address of it: FILE {OFFSET
// ADDRESS COUNT}…
const loaderSource = `#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int c, char **v) {
	int fd = open(v[1], O_RDONLY);
	for (int i = 2; i + 2 < c; i += 3) {
		unsigned long off = strtoul(v[i], 0, 0), addr = strtoul(v[i+1], 0, 0), n = strtoul(v[i+2], 0, 0);
		Elf64_Ehdr h;
		Elf64_Phdr p[16];
		pread(fd, &h, sizeof h, off);
		pread(fd, p, h.e_phnum * sizeof *p, off + h.e_phoff);
		char *base = mmap(0, 1 << 24, PROT_NONE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0);
		for (int j = 0; j < h.e_phnum; j++) {
			if (p[j].p_type != PT_LOAD) continue;
			unsigned long skew = p[j].p_vaddr & 4095;
			int prot = (p[j].p_flags & PF_R ? PROT_READ : 0) | (p[j].p_flags & PF_W ? PROT_WRITE : 0) | (p[j].p_flags & PF_X ? PROT_EXEC : 0);
			if (mmap(base + p[j].p_vaddr - skew, p[j].p_filesz + skew, prot, MAP_PRIVATE|MAP_FIXED, fd, off + p[j].p_offset - skew) == MAP_FAILED) return 1;
		}
		((unsigned long (*)(unsigned long))(base + addr))(n);
	}
	return 0;
}
`

// The function that works has its name in the debug file alone.
const workSource = `static __attribute__((noinline, noclone)) unsigned long HOT(unsigned long n) { unsigned long s = 0; for (unsigned long i = 0; i < n; i++) { s += i * n; __asm__ volatile("" : "+r"(s)); } return s; }
unsigned long WORK(unsigned long n) { return HOT(n) + 1; }
`

// C19, C20, C21: libraries that are mapped out of a file that holds several,
// with and without a directory of it. They have names at home, and where only
// the archive is.
func TestArchiveContainer(t *testing.T) {
	h := newHost(t)
	h.cc("loader", loaderSource)
	var libs [2][]byte
	var addr [2]uint64
	for i, n := range []string{"X", "Y"} {
		h.cc("lib"+n+".so", workSource, "-shared", "-fPIC", "-DWORK=work_"+n, "-DHOT=hot_"+n, "-Wl,-soname,lib"+n+".so")
		b, err := os.ReadFile("lib" + n + ".so")
		if err != nil {
			t.Fatal(err)
		}
		id, err := objfile.ReadBuildID(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		h.sh(fmt.Sprintf("mkdir -p dbg/.build-id/%s; objcopy --only-keep-debug lib%[3]s.so dbg/.build-id/%[1]s/%[2]s.debug; objcopy --strip-all lib%[3]s.so", id.String()[:2], id.String()[2:], n))
		b, err = os.ReadFile("lib" + n + ".so")
		if err != nil {
			t.Fatal(err)
		}
		f, err := elf.NewFile(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		syms, err := f.DynamicSymbols()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range syms {
			if s.Name == "work_"+n {
				addr[i] = s.Value
			}
		}
		libs[i] = b
	}
	raw := append(make([]byte, 8192), libs[0]...)
	raw = append(raw, make([]byte, 4096-len(raw)%4096)...)
	raw = append(raw, libs[1]...)
	var apk bytes.Buffer
	w := zip.NewWriter(&apk)
	for i, b := range libs {
		w.Flush()
		hdr := &zip.FileHeader{Name: fmt.Sprintf("lib/x86_64/lib%c.so", 'X'+i), Method: zip.Store, CompressedSize64: uint64(len(b)), UncompressedSize64: uint64(len(b))}
		pad := 4096 - (apk.Len()+30+len(hdr.Name)+4)%4096
		hdr.Extra = append(binary.LittleEndian.AppendUint16([]byte{0x35, 0xd9}, uint16(pad)), make([]byte, pad)...)
		f, err := w.CreateRaw(hdr)
		if err != nil {
			t.Fatal(err)
		}
		f.Write(b)
	}
	w.Close()
	for name, b := range map[string][]byte{"apk.bin": raw, "base.apk": apk.Bytes()} {
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
		args := []string{"--", "./loader", name}
		for i := range libs {
			args = append(args, fmt.Sprint(bytes.Index(b, libs[i])), fmt.Sprint(addr[i]), "200000000")
		}
		data := h.record(append([]string{"-g"}, args...)...)
		p := h.pack(data, "--debug-dir", "dbg")
		if p.code != 0 || !p.has(filepath.Join(h.dir, name)) {
			t.Fatalf("%s: exit status %d, missing %v: %s", name, p.code, p.Missing, p.stderr)
		}
		_, home, _ := runArgs(t, "", "report", "-i", data, "--stdio", "--debug-dir", "dbg", "-g", "none")
		// The second reading of the samples, for stacks, finds them too.
		code, tree, stderr := runArgs(t, "", "report", "-i", data, "--stdio", "--debug-dir", "dbg", "-g", "caller")
		if code != 0 || !strings.Contains(tree, "--work_X") && !strings.Contains(tree, "--hot_X") && !strings.Contains(tree, "work_X\n") {
			t.Errorf("%s: exit status %d: %s%s", name, code, tree, stderr)
		}
		code, script, stderr := runArgs(t, "", "script", "-i", data, "--debug-dir", "dbg")
		if code != 0 || !strings.Contains(script, "hot_X+0x") {
			t.Errorf("%s: script: exit status %d: %.2000s%s", name, code, script, stderr)
		}
		if code, page, stderr := runArgs(t, "", "doctor", data); code != 0 && code != 3 {
			t.Errorf("%s: doctor: exit status %d: %.2000s%s", name, code, page, stderr)
		}
		for _, page := range []string{rows(home), h.report(data, p.Archive)} {
			for _, n := range []string{"X", "Y"} {
				found := false
				for line := range strings.Lines(page) {
					found = found || strings.Contains(line, name+"!lib"+n+".so") && strings.Contains(line, "[.] hot_"+n)
				}
				if !found {
					t.Errorf("%s: no row of lib%s.so in\n%s", name, n, page)
				}
			}
		}
	}
}
