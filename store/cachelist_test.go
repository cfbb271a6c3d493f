package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/perfark/perfark/objfile"
)

func TestList(t *testing.T) {
	c := Cache(t.TempDir())
	if list, err := Cache(c.Dir() + "/absent").List(t.Context()); err != nil || list != nil {
		t.Errorf("List of nothing: %v, %v", list, err)
	}
	id8, id20 := testID(8, 8), testID(0x20, 20)
	short := testELF{id: id8, text: "8-byte id", symtab: true}.bytes()
	full := testELF{id: id20, text: "prog", dwarf: true}.bytes()
	bare := testELF{text: "bare"}.bytes()
	for _, p := range []struct {
		k Key
		b []byte
	}{{Key{ID: id8, Kind: ELF, Path: "/bin/short"}, short}, {Key{ID: id20, Kind: ELF, Path: "/bin/a b\n\xff"}, full}, {Key{Kind: ELF, Path: "/bin/bare"}, bare}} {
		if _, err := put(t, c, p.k, p.b, PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	bad := testID(0xba, 20).String()
	write(t, c.Dir()+"/bin/bad/"+bad+"/elf", full)
	write(t, c.Dir()+"/bin/bad/"+bad+"/probes", nil)
	gone := testID(0x60, 20)
	symlink(t, "../../bin/gone/"+gone.String(), c.Dir()+"/.build-id/60/"+gone.String()[2:])
	write(t, c.Dir()+"/.build-id/77/"+strings.Repeat("77", 19)+".debug", testELF{id: testID(0x77, 20), dwarf: true, debugOnly: true}.bytes())
	write(t, c.Dir()+"/"+tempMark+"x", []byte("half"))
	write(t, c.Dir()+"/[kernel.kcore]/"+bad+"/2026010203040506/kcore", []byte("core"))
	write(t, c.Dir()+"/.perfark/0123456789abcdef.json", []byte("{}"))
	write(t, c.Dir()+"/.perfark/jit/perf-12.map", []byte("10 10 f\n"))
	write(t, c.Dir()+"/.perfark/jit/12-0123456789abcdef.dump", []byte("JiTD"))
	testSource(t, c, Key{Kind: PerfMap, PID: 12}, []byte("10 10 f\n"))
	list, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sum := ""
	for _, e := range list {
		sum += e.Hash
	}
	dbg := testELF{id: testID(0x77, 20), dwarf: true, debugOnly: true}.bytes()
	want := []Entry{
		{Kind: Temp, File: tempMark + "x", Size: 4, Problem: "left by a program that was stopped"},
		{Kind: Manifest, File: ".perfark/0123456789abcdef.json", Size: 2},
		{ID: testID(0x77, 20), Kind: Debug, File: ".build-id/77/" + strings.Repeat("77", 19) + ".debug", Size: int64(len(dbg)), Quality: objfile.FullDWARF, Linked: true},
		{ID: id20, Path: "/bin/a b\n\xff", Kind: ELF, File: "bin/a b\n\xff/" + id20.String() + "/elf", Size: int64(len(full)), Quality: objfile.FullDWARF, Linked: true},
		{ID: testID(0xba, 20), Path: "/bin/bad", Kind: ELF, File: "bin/bad/" + bad + "/elf", Size: int64(len(full)), Quality: objfile.FullDWARF, Problem: "carries build id " + id20.String() + "; " + bad + " is wanted"},
		{ID: testID(0xba, 20), Path: "/bin/bad", Kind: Probes, File: "bin/bad/" + bad + "/probes"},
		{Hash: sum, Path: "/bin/bare", Kind: ELF, File: "bin/bare/" + sum + "/elf", Size: int64(len(bare))},
		{ID: gone, Path: "/bin/gone", Kind: Link, File: ".build-id/60/" + gone.String()[2:], Problem: "links to ../../bin/gone/" + gone.String() + ", which is not there"},
		{ID: id8, Path: "/bin/short", Kind: ELF, File: "bin/short/" + id8.String() + "/elf", Size: int64(len(short)), Quality: objfile.Symtab, Linked: true},
		{Path: "/tmp/perf-12.map", Kind: PerfMap, File: ".perfark/jit/perf-12.map", Size: 8},
		{Path: "12-0123456789abcdef.dump", Kind: JITDump, File: ".perfark/jit/12-0123456789abcdef.dump", Size: 4},
		{ID: testID(0xba, 20), Path: "[kernel.kcore]", Kind: KCore, File: "[kernel.kcore]/" + bad + "/2026010203040506/kcore", Size: 4},
	}
	if diff := cmp.Diff(want, list, cmpopts.IgnoreUnexported(Entry{}), cmpopts.IgnoreFields(Entry{}, "Used")); diff != "" {
		t.Error(diff)
	}
	missing, err := c.Missing(t.Context(), []Key{{ID: id8, Kind: ELF}, {ID: testID(0xba, 20), Kind: ELF}, {Kind: ELF, Path: "/x"}, {ID: gone, Kind: ELF}})
	if err != nil || len(missing) != 2 || missing[0].ID != testID(0xba, 20) || missing[1].ID != gone {
		t.Errorf("Missing: %v, %v", missing, err)
	}
	// Removing all leaves nothing.
	if _, err := c.Remove(t.Context(), RemoveOptions{}); err == nil {
		t.Error("Remove of nothing in particular succeeded")
	}
	if _, err := c.Remove(t.Context(), RemoveOptions{All: true}); err != nil {
		t.Fatal(err)
	}
	if names, _ := os.ReadDir(c.Dir()); len(names) != 0 {
		t.Errorf("left behind: %v", names)
	}
}

func TestGC(t *testing.T) {
	now := time.Now()
	fill := func() *BuildIDCache {
		c := Cache(t.TempDir())
		for i := range 4 {
			id := testID(byte(i+1), 20)
			k := Key{ID: id, Kind: ELF, Path: fmt.Sprintf("/bin/p%d", i)}
			res, err := put(t, c, k, testELF{id: id, text: fmt.Sprint(i), fill: 10000}.bytes(), PutOptions{})
			if err != nil {
				t.Fatal(err)
			}
			at := now.Add(-time.Duration(i) * 24 * time.Hour)
			if err := os.Chtimes(filepath.Join(c.Dir(), res.File), at, at); err != nil {
				t.Fatal(err)
			}
		}
		symlink(t, "../../gone/ff00", c.Dir()+"/.build-id/ff/00")
		old := write(t, c.Dir()+"/"+tempMark+"old", []byte("half"))
		os.Chtimes(old, now.Add(-48*time.Hour), now.Add(-48*time.Hour))
		write(t, c.Dir()+"/"+tempMark+"new", []byte("half"))
		return c
	}
	size := int64(len(testELF{id: testID(1, 20), text: "0", fill: 10000}.bytes()))
	tests := []struct {
		name string
		o    GCOptions
		want []string
	}{
		{"only what is broken", GCOptions{}, []string{".build-id/ff/00"}},
		{"older than", GCOptions{Before: now.Add(-36 * time.Hour)}, []string{"p2", "p3", ".build-id/ff/00"}},
		{"size", GCOptions{MaxSize: 2*size + 100}, []string{"p2", "p3", ".build-id/ff/00"}},
		{"size of one", GCOptions{MaxSize: size}, []string{"p1", "p2", "p3", ".build-id/ff/00"}},
		{"both", GCOptions{MaxSize: 3 * size, Before: now.Add(-60 * time.Hour)}, []string{"p3", ".build-id/ff/00"}},
		{"leftovers", GCOptions{Now: now}, []string{".build-id/ff/00", tempMark + "old"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := fill()
			tt.o.DryRun = true
			dry, err := c.GC(t.Context(), tt.o)
			if err != nil {
				t.Fatal(err)
			}
			tt.o.DryRun = false
			gone, err := c.GC(t.Context(), tt.o)
			if err != nil {
				t.Fatal(err)
			}
			var names, dryNames []string
			for _, e := range gone {
				names = append(names, e.File)
			}
			for _, e := range dry {
				dryNames = append(dryNames, e.File)
			}
			slices.Sort(names)
			slices.Sort(dryNames)
			if !slices.Equal(names, dryNames) {
				t.Errorf("dry run says %q, removed %q", dryNames, names)
			}
			if len(names) != len(tt.want) {
				t.Fatalf("removed %q, want %q", names, tt.want)
			}
			for _, w := range tt.want {
				if !slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, w) }) {
					t.Errorf("removed %q, want %q", names, tt.want)
				}
			}
			// A look does not make things look used.
			again, err := c.GC(t.Context(), tt.o)
			if err != nil || len(again) != 0 {
				t.Errorf("again: %v, %v", again, err)
			}
			for i := range 4 {
				id := testID(byte(i+1), 20)
				_, err := os.Lstat(c.Dir() + "/" + linkName(id.String()))
				kept := !slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, fmt.Sprintf("p%d/", i)) })
				if kept != (err == nil) {
					t.Errorf("p%d kept: %v, its link: %v", i, kept, err)
				}
			}
		})
	}
}

// Many write, remove and read at once: nobody sees half a file, nothing that
// was written last is lost.
func TestCacheConcurrent(t *testing.T) {
	c := Cache(t.TempDir())
	id := testID(0xcc, 20)
	bodies := [][]byte{
		testELF{id: id, text: "same", fill: 300000}.bytes(),
		testELF{id: id, text: "same", symtab: true, fill: 200000}.bytes(),
		testELF{id: id, text: "same", symtab: true, dwarf: true, fill: 100000}.bytes(),
	}
	whole := map[string]bool{}
	for _, b := range bodies {
		whole[string(b)] = true
	}
	ctx, stop := context.WithCancel(t.Context())
	var readers, writers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for ctx.Err() == nil {
				f, err := c.Get(context.Background(), Key{ID: id, Kind: ELF, Path: "/bin/p0"})
				if errors.Is(err, fs.ErrNotExist) && !slices.ContainsFunc(Refusals(err), func(r *RefusedError) bool { return r.Reason != Deleted }) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				b, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size))
				if err != nil || !whole[string(b)] {
					t.Errorf("read %d bytes: %v", len(b), err)
				}
				f.Close()
			}
		})
	}
	for w := range 6 {
		writers.Go(func() {
			for i := range 10 {
				b := bodies[(w+i)%len(bodies)]
				f := memFile(b, "memory")
				k := Key{ID: id, Kind: ELF, Path: fmt.Sprintf("/bin/p%d", w%2)}
				if _, err := c.Put(context.Background(), k, f, PutOptions{Update: i%3 == 0}); err != nil {
					t.Error(err)
				}
				if w == 5 {
					if _, err := c.Remove(context.Background(), RemoveOptions{Path: "/bin/p0"}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	writers.Wait()
	stop()
	readers.Wait()
	if _, err := put(t, c, Key{ID: id, Kind: ELF, Path: "/bin/p0"}, bodies[2], PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, c, Key{ID: id, Kind: ELF}); string(got) != string(bodies[2]) {
		t.Error("the best copy did not win")
	}
	names, err := os.ReadDir(c.Dir())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasPrefix(n.Name(), tempMark) {
			t.Errorf("left behind: %s", n.Name())
		}
	}
}

// S1, S2, BUN-4: a file that changes while it is copied is not stored.
func TestPutChanged(t *testing.T) {
	id := testID(0xab, 20)
	src := write(t, t.TempDir()+"/src", testELF{id: id, text: "x", fill: 1 << 20}.bytes())
	f, err := openPath(src)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := os.OpenFile(src, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	time.Sleep(10 * time.Millisecond)
	if _, err := w.WriteAt([]byte("y"), 1<<19); err != nil {
		t.Fatal(err)
	}
	c := Cache(t.TempDir())
	_, err = c.Put(t.Context(), Key{ID: id, Kind: ELF, Path: "/p"}, f, PutOptions{})
	if r := Refusals(err); len(r) != 1 || r[0].Reason != Changed {
		t.Errorf("Put: %v", err)
	}
	if names, _ := os.ReadDir(c.Dir()); len(names) != 0 {
		t.Errorf("left behind: %v", names)
	}
	// Interrupted.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g, err := openPath(src)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if _, err := c.Put(ctx, Key{ID: id, Kind: ELF, Path: "/p"}, g, PutOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Put: %v", err)
	}
	if names, _ := os.ReadDir(c.Dir()); len(names) != 0 {
		t.Errorf("left behind: %v", names)
	}
}
