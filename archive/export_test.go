package archive

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// A bundle beside a pool is written whole, as it would be without one; with a
// file that is not in the pool, it says what is missing; with one that has other
// bytes, there is none.
func TestExport(t *testing.T) {
	dir, _, second := pooling(t)
	open := func(name string) *Archive {
		t.Helper()
		a, err := Open(t.Context(), name, OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { a.Close() })
		return a
	}
	a := open(filepath.Join(dir, "2.perfark"))
	out := filepath.Join(t.TempDir(), "whole.perfark")
	m, size, err := a.Export(t.Context(), out, EncodeOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(out); err != nil || fi.Size() != size {
		t.Errorf("%v, %v; want %d bytes", fi, err, size)
	}
	whole := open(out)
	rep, err := whole.Verify(t.Context(), VerifyOptions{})
	if err != nil || rep.Files != 4 || len(rep.Defects) > 0 {
		t.Errorf("verify: %+v, %v", rep, err)
	}
	if want := second.Manifest.Whole(); !reflect.DeepEqual(whole.Manifest(), m) || !reflect.DeepEqual(m.Objects, want.Objects) || m.Pool != "" {
		t.Errorf("manifest %+v\nwant %+v", whole.Manifest(), want)
	}
	// What is whole is exported as it is.
	again := filepath.Join(t.TempDir(), "again.perfark")
	if _, _, err := whole.Export(t.Context(), again, EncodeOptions{}, nil); err != nil {
		t.Fatal(err)
	}
	x, _ := os.ReadFile(out)
	y, _ := os.ReadFile(again)
	if string(x) != string(y) {
		t.Errorf("%d bytes, exported again %d", len(x), len(y))
	}

	lib, app := "", ""
	for _, o := range a.Objects() {
		switch o.Paths[0] {
		case "/lib/lib.so":
			lib = o.Files[0].SHA256
		case "/bin/app":
			app = o.Files[0].SHA256
		}
	}
	if err := a.x.pool.Remove(lib); err != nil {
		t.Fatal(err)
	}
	m, _, err = open(filepath.Join(dir, "2.perfark")).Export(t.Context(), out, EncodeOptions{}, nil)
	if err != nil || len(m.Missing) != 1 || m.Missing[0].ID != id(2) || m.Missing[0].Reason != "not-found" || m.Missing[0].Samples != 3 || len(m.Objects) != 2 {
		t.Errorf("%+v, %v", m, err)
	}
	rep, err = open(out).Verify(t.Context(), VerifyOptions{})
	if err != nil || rep.Files != 3 || len(rep.Defects) > 0 {
		t.Errorf("verify: %+v, %v", rep, err)
	}

	os.Remove(out)
	name := filepath.Join(dir, "objects", PoolName(app))
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := open(filepath.Join(dir, "2.perfark")).Export(t.Context(), out, EncodeOptions{}, nil); err == nil {
		t.Error("exported with a file that was changed")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := whole.Export(ctx, out, EncodeOptions{}, nil); err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("after the end: %v", err)
	}
	if list, err := os.ReadDir(filepath.Dir(out)); err != nil || len(list) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
}
