package redact

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/store"
)

// knowing returns a Redactor that knows a host, a user and a word.
func knowing(t testing.TB, p Policy) *Redactor {
	t.Helper()
	text := "file\ncomm pid=1 tid=1 name=x\nmmap pid=1 tid=1 start=0x1000 len=0x1000 name=/home/alicewonder/x\nfeature hostname web01secret\n"
	data, err := perftest.Build(text)
	if err != nil {
		t.Fatal(err)
	}
	f, err := perfdata.New(bytes.NewReader(data), int64(len(data)), "in", perfdata.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	p.Also = []string{"projectx"}
	r, err := New(context.Background(), f, p)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Write(context.Background(), &memory{}); err != nil {
		t.Fatal(err)
	}
	return r
}

// program makes a program whose bytes hold names: in its text, in the name of a
// function, and in its debug information, with sections compressed in a way.
func program(t *testing.T, compress string) string {
	t.Helper()
	const src = "#include <stdio.h>\nconst char *where = \"built on web01secret\";\n__attribute__((noinline)) int projectx_main(int n) { return n * 3; }\n" +
		"int main(int c, char **v) { puts(where); return projectx_main(c) == 42; }\n"
	exe := perftest.CC(t, "prog", src, "-g", "-O1", "-gz="+compress, "-fdebug-prefix-map="+t.TempDir()+"=/x", "-DX", "-ffile-prefix-map=/=/home/alicewonder/")
	return exe
}

// memSource is a source of one file.
type memSource struct {
	b    []byte
	path string
}

func (m memSource) Get(_ context.Context, k store.Key) (*store.File, error) {
	if k.Path != m.path {
		return nil, fmt.Errorf("%v: %w", k, fs.ErrNotExist)
	}
	return &store.File{ReaderAt: bytes.NewReader(m.b), Size: int64(len(m.b)), Origin: m.path, Close: func() error { return nil }}, nil
}

// TestObject overwrites names in programs, whose symbols and lines stay right.
func TestObject(t *testing.T) {
	for _, compress := range []string{"none", "zlib", "zlib-gnu"} {
		t.Run(compress, func(t *testing.T) {
			exe := program(t, compress)
			b, err := os.ReadFile(exe)
			if err != nil {
				t.Fatal(err)
			}
			r := knowing(t, Policy{})
			if found, err := r.Search(context.Background(), bytes.NewReader(b), int64(len(b))); err != nil || len(found) == 0 {
				t.Fatalf("nothing to find: %v, %v", found, err)
			}
			src := r.Source(memSource{b, "/home/alicewonder/x"})
			f, err := src.Get(context.Background(), store.Key{Kind: store.ELF, Path: "/home/user1/x"})
			if err != nil {
				t.Fatal(err)
			}
			if f.Origin != "/home/user1/x" {
				t.Errorf("origin %q", f.Origin)
			}
			got := make([]byte, f.Size)
			if _, err := f.ReadAt(got, 0); err != nil {
				t.Fatal(err)
			}
			if found, err := r.Search(context.Background(), bytes.NewReader(got), f.Size); err != nil || len(found) > 0 {
				t.Errorf("found %v, %v", found, err)
			}
			for _, s := range []string{"web01secret", "alicewonder", "projectx"} {
				if bytes.Contains(got, []byte(s)) {
					t.Errorf("%q is still there", s)
				}
			}
			x, err := objfile.Open(bytes.NewReader(got), f.Size, "got", decode.NewBudget(decode.Limits{}))
			if err != nil {
				t.Fatal(err)
			}
			old, err := objfile.Open(bytes.NewReader(b), int64(len(b)), "old", decode.NewBudget(decode.Limits{}))
			if err != nil {
				t.Fatal(err)
			}
			if x.BuildID() != old.BuildID() || !x.IsSlim() {
				t.Errorf("build id %v, want %v; marked %v", x.BuildID(), old.BuildID(), x.IsSlim())
			}
			out := filepath.Join(t.TempDir(), "out")
			if err := os.WriteFile(out, got, 0o700); err != nil {
				t.Fatal(err)
			}
			sameSymbols(t, exe, out)
			if compress == "zlib-gnu" {
				return // such sections are left out
			}
			lines := tool(t, "readelf", "--debug-dump=rawline", out)
			if !strings.Contains(lines, "/home/user1xxxxxx") && !strings.Contains(lines, "prog.c") {
				t.Errorf("lines are lost: %s", lines)
			}
			if err := exec.Command(out).Run(); err != nil {
				t.Errorf("the program does not run any more: %v", err)
			}
			rep := r.Report().Objects
			if len(rep) != 1 || rep[0].Outcome != "masked" || rep[0].Path != "/home/user1/x" {
				t.Errorf("report %+v", rep)
			}
		})
	}
}

func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("no %s", name)
	}
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		t.Errorf("%s %q: %v", name, args, err)
	}
	return string(out)
}

// sameSymbols compares what nm says of two programs, but for the names that are
// replaced.
func sameSymbols(t *testing.T, a, b string) {
	t.Helper()
	want := strings.ReplaceAll(tool(t, "nm", "-n", a), "projectx", "word1xxx")
	if got := tool(t, "nm", "-n", b); got != want {
		t.Errorf("symbols\n%s\nwant\n%s", got, want)
	}
}

// TestObjectRules has objects with names dropped or kept.
func TestObjectRules(t *testing.T) {
	b := []byte("\x7fELF? on web01secret")
	for rule, want := range map[Rule]string{Drop: "redacted", Keep: "kept"} {
		r := knowing(t, Policy{Objects: rule})
		f, err := r.Source(memSource{b, "/home/alicewonder/x"}).Get(context.Background(), store.Key{Kind: store.ELF, Path: "/home/user1/x"})
		switch e, ok := errors.AsType[*store.RefusedError](err); {
		case rule == Drop && (!ok || string(e.Reason) != want):
			t.Errorf("drop: %v", err)
		case rule == Keep:
			got := make([]byte, f.Size)
			if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, b) {
				t.Errorf("keep: %q, %v", got, err)
			}
		}
		if rep := r.Report().Objects; len(rep) != 1 || rep[0].Names != 1 {
			t.Errorf("report %+v", rep)
		}
	}
	r := knowing(t, Policy{})
	plain := []byte("nothing in here")
	f, err := r.Source(memSource{plain, "/p"}).Get(context.Background(), store.Key{Kind: store.PerfMap, Path: "/p"})
	if err != nil || len(r.Report().Objects) != 0 {
		t.Errorf("%v, %+v", err, r.Report().Objects)
	}
	if got := make([]byte, f.Size); true {
		if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%q, %v", got, err)
		}
	}
	if _, err := r.Source(memSource{plain, "/home/alicewonder/none"}).Get(context.Background(), store.Key{Kind: store.ELF, Path: "/q"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want ErrNotExist", err)
	}
}

// TestAcrossWindows finds names wherever they lie with regard to the pieces
// that a file is read by.
func TestAcrossWindows(t *testing.T) {
	r := knowing(t, Policy{})
	b := bytes.Repeat([]byte{'.'}, 2*window+lead+100)
	places := []int{0, window - 5, window, window + 3, 2*window - 1, 2*window + lead, len(b) - len("web01secret")}
	for _, at := range places {
		copy(b[at:], "web01secret")
	}
	copy(b[window+lead-3:], "/home/dave-o/x")
	o, err := r.overlay(context.Background(), bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(io.NewSectionReader(o, 0, int64(len(b))))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(got, []byte("web01secre")) || bytes.Contains(got, []byte("dave")) || !bytes.Contains(got, []byte("/home/xxxxxx/x")) {
		t.Error("names are still there")
	}
	if found, err := r.Search(context.Background(), bytes.NewReader(b), int64(len(b))); err != nil || len(found) != 5 {
		t.Errorf("found %v, %v", found, err)
	}
}

// FuzzObject overwrites names in hostile files, and reads them in pieces.
func FuzzObject(f *testing.F) {
	f.Add([]byte("\x7fELF\x02\x01\x01 /home/bob/x web01secret projectx"), 3)
	if b, err := os.ReadFile("/bin/true"); err == nil && len(b) < 64<<10 {
		f.Add(b, 100)
	}
	f.Fuzz(func(t *testing.T, b []byte, step int) {
		r := knowing(t, Policy{})
		o, err := r.overlay(context.Background(), bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		total := o.size + int64(len(o.tail))
		whole := make([]byte, total)
		if _, err := o.ReadAt(whole, 0); err != nil && total > 0 {
			t.Fatal(err)
		}
		step = max(step%1000, 1)
		piece := make([]byte, step)
		for off := int64(0); off < total; off += int64(step) {
			n, _ := o.ReadAt(piece, off)
			if !bytes.Equal(piece[:n], whole[off:off+int64(n)]) {
				t.Fatalf("offset %d: %q, want %q", off, piece[:n], whole[off:off+int64(n)])
			}
		}
		if !o.stuck && bytes.Contains(whole, []byte("web01secret")) {
			t.Errorf("a name is still there: %q", whole)
		}
	})
}
