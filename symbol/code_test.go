package symbol_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/session"
	"github.com/perfark/perfark/store"
)

// dumpSource writes the code that it has in memory to the file argv[1], range
// by range: start, end, bytes.
const dumpSource = `
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int cmp(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(int c, char **v) {
	enum { n = 200000 };
	int *a = malloc(n * sizeof *a);
	for (int r = 0; r < 5; r++) {
		for (int i = 0; i < n; i++) a[i] = rand();
		qsort(a, n, sizeof *a, cmp);
		char *p = malloc(1 << 20);
		for (int i = 0; i < 200; i++) memset(p, i, 1 << 20);
		free(p);
	}
	FILE *maps = fopen("/proc/self/maps", "r"), *out = fopen(v[1], "w");
	char line[4096];
	while (fgets(line, sizeof line, maps)) {
		unsigned long s, e;
		char x[5];
		if (sscanf(line, "%lx-%lx %4s", &s, &e, x) != 3 || x[2] != 'x' || x[0] != 'r' || strstr(line, "[vs")) continue;
		fwrite(&s, 8, 1, out); fwrite(&e, 8, 1, out); fwrite((void *)s, e - s, 1, out);
	}
	return fclose(out) != 0;
}
`

// TestCodeReading: the bytes at a location in its file are those that the
// process had at the sampled address, whatever linker laid the program out. It
// is perf's test "Object code reading", with the process itself for objdump.
func TestCodeReading(t *testing.T) {
	for _, flags := range [][]string{
		{"-O1"},
		{"-O1", "-no-pie"},
		{"-O1", "-static"},
		{"-O1", "-static-pie", "-Wl,-z,max-page-size=0x200000"},
		{"-O1", "-Wl,-z,noseparate-code"},
		{"-O1", "-fuse-ld=lld"},
		{"-O1", "-fuse-ld=gold"},
	} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			perftest.NeedTool(t, "gcc")
			home := t.TempDir()
			src := filepath.Join(home, "prog.c")
			if err := os.WriteFile(src, []byte(dumpSource), 0o644); err != nil {
				t.Fatal(err)
			}
			if r := perftest.Run(t, home, nil, nil, "gcc", append([]string{"-Wl,--build-id", "-o", "prog", "prog.c"}, flags...)...); r.Code != 0 {
				t.Skipf("NOTICE: gcc %q: %s", flags, r.Stderr)
			}
			file := filepath.Join(home, "perf.data")
			r := perftest.PerfIn(t, home, home, nil, "record", "-q", "-e", "cpu-clock:u", "-F", "9999", "-o", file, "--", "./prog", "memory")
			if _, err := os.Stat(file); err != nil || r.Code != 0 {
				t.Skipf("NOTICE: perf cannot record here: status %d: %s", r.Code, r.Stderr)
			}
			compareCode(t, file, filepath.Join(home, "memory"))
		})
	}
}

func compareCode(t *testing.T, file, memory string) {
	t.Helper()
	type area struct {
		start, end uint64
		b          []byte
	}
	var mem []area
	for b := read(t, memory); len(b) >= 16; {
		a := area{start: binary.LittleEndian.Uint64(b), end: binary.LittleEndian.Uint64(b[8:])}
		a.b, b = b[16:16+a.end-a.start], b[16+a.end-a.start:]
		mem = append(mem, a)
	}
	p := load(t, file, session.KeepComm)
	files := map[int32][]byte{}
	checked := 0
	for _, l := range p.Locations {
		if l.Object == profile.None || p.Objects[l.Object].Kind != profile.KindFile || l.Level != '.' {
			continue
		}
		for _, a := range mem {
			if l.IP < a.start || l.IP+16 > a.end {
				continue
			}
			b, ok := files[l.Object]
			if !ok {
				b = read(t, p.Objects[l.Object].Path)
				files[l.Object] = b
			}
			if got, want := b[l.Addr:l.Addr+16], a.b[l.IP-a.start:][:16]; !bytes.Equal(got, want) {
				t.Errorf("%s at %#x: % x, the process had % x at %#x", p.Objects[l.Object].Path, l.Addr, got, want, l.IP)
			}
			checked++
		}
	}
	if checked < 20 {
		t.Errorf("only %d addresses were compared", checked)
	}
}

// TestManyFunctions: many functions and none found by anybody else: addr2line
// is never asked, whatever PATH has (P16, P17).
func TestManyFunctions(t *testing.T) {
	perftest.NeedTool(t, "gcc")
	const n = 3000
	dir := t.TempDir()
	var src strings.Builder
	fmt.Fprintln(&src, "volatile int x; static inline __attribute__((always_inline)) void add(int n) { x += n; }")
	for i := range n {
		fmt.Fprintf(&src, "__attribute__((noinline)) void f%d(void) { add(%d); }\n", i, i)
	}
	fmt.Fprintln(&src, "int main(void) { return 0; }")
	if err := os.WriteFile(filepath.Join(dir, "many.c"), []byte(src.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, dir, "gcc", "-O1", "-g", "-Wl,--build-id", "-o", "many", "many.c")
	trap := filepath.Join(dir, "bin")
	if err := os.Mkdir(trap, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"addr2line", "llvm-symbolizer", "objdump"} {
		if err := os.WriteFile(filepath.Join(trap, tool), []byte("#!/bin/sh\ntouch "+dir+"/called\nsleep 100\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", trap)
	b := read(t, filepath.Join(dir, "many"))
	f := openObject(t, b)
	tab, err := f.Symbols(objfile.SymbolOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var addrs []uint64
	var want []string
	for s := range tab.All {
		if strings.HasPrefix(s.Name, "f") && len(s.Name) < 6 && s.Name[1] >= '0' && s.Name[1] <= '9' {
			addrs = append(addrs, s.Start)
			want = append(want, s.Name)
		}
	}
	if len(addrs) != n {
		t.Fatalf("%d functions", len(addrs))
	}
	p := one(profile.Object{Path: "/bin/many", BuildID: f.BuildID()}, addrs...)
	out := resolveLines(t, p, &fake{files: map[store.Key][]byte{{ID: f.BuildID(), Kind: store.ELF}: b}}, nil)
	if out.Objects[0].FramesLined != n {
		t.Errorf("%d lines", out.Objects[0].FramesLined)
	}
	for i, c := range chains(p) {
		num := strings.TrimPrefix(want[i], "f")
		if !strings.HasPrefix(c, "add many.c:1 < "+want[i]+" many.c:") {
			t.Fatalf("f%s: %s", num, c)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "called")); err == nil {
		t.Error("another program was called")
	}
}

// TestManyObjects: memory is that of the objects looked at just now, and not of
// all (P15).
func TestManyObjects(t *testing.T) {
	if testing.Short() {
		t.Skip()
	}
	dir := t.TempDir()
	prog := build(t, dir, "gcc", "-g3", "-static", "-include", "stdio.h", "-include", "stdlib.h")
	b := read(t, prog)
	id := openObject(t, b).BuildID()
	at := bytes.Index(b, []byte(id))
	if at < 0 {
		t.Fatal("no id in the file")
	}
	start, _ := function(t, b, "hot")
	const n = 200
	src := &fake{files: map[store.Key][]byte{}}
	p := &profile.Profile{}
	for i := range n {
		// One file for all, but for its id, which the source makes up.
		own := append([]byte(nil), id...)
		binary.LittleEndian.PutUint32(own, uint32(i))
		x := profile.Object{Path: fmt.Sprintf("/bin/%d", i), BuildID: buildid.New(own)}
		if i < 20 {
			c := bytes.Clone(b)
			copy(c[at:], own)
			src.files[store.Key{ID: x.BuildID, Kind: store.ELF}] = c
		} else {
			x.BuildID = p.Objects[i%20].BuildID
		}
		p.Objects = append(p.Objects, x)
		p.Locations = append(p.Locations, profile.Location{Object: int32(i), Level: '.', Addr: start, Func: profile.None})
		p.Samples = append(p.Samples, profile.Sample{Location: int32(i), Stack: profile.None, Extra: profile.None, Count: 1, Period: 1})
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	out := resolveLines(t, p, src, nil)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 64<<20 {
		t.Errorf("%d MiB are kept", grown>>20)
	}
	for i := range p.Locations {
		if p.Locations[i].NFrames == 0 {
			t.Fatalf("object %d has no frames: %+v", i, out.Objects[i])
		}
	}
}
