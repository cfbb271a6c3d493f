package redact

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/perfark/perfark/perfdata"
)

// recordings lists the recordings of the corpus; the test is skipped if there
// is none.
func recordings(t *testing.T) []string {
	t.Helper()
	dir := os.Getenv("PERFARK_CORPUS")
	if dir == "" {
		t.Skip("PERFARK_CORPUS is not set: no recordings to redact")
	}
	var out []string
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if fi, err := d.Info(); err == nil && fi.Size() < 4<<20 && fi.Mode().IsRegular() {
			f, err := perfdata.Open(name, perfdata.Options{})
			if err == nil {
				out = append(out, name)
				f.Close()
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestCorpus redacts every recording of the corpus: nothing that was replaced
// is found in the result, and the result has the same samples.
func TestCorpus(t *testing.T) {
	for _, name := range recordings(t) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			f, err := perfdata.Open(name, perfdata.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			out, err := os.Create(filepath.Join(t.TempDir(), "out"))
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			r, err := New(ctx, f, Policy{})
			if err == nil {
				err = r.Write(ctx, out)
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := perfdata.Open(out.Name(), perfdata.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer got.Close()
			if found, err := r.SearchRecording(ctx, got, out); err != nil || len(found) > 0 {
				t.Errorf("found %+v, %v", found, err)
			}
			if a, b := samples(t, f), samples(t, got); a != b {
				t.Errorf("samples %+v, want %+v", b, a)
			}
			if d := got.Damage(); len(d) > 0 {
				t.Errorf("damage: %v", d)
			}
		})
	}
}

type sums struct {
	samples, period, ips, frames, mmaps uint64
}

// samples sums up what must not change.
func samples(t *testing.T, f *perfdata.File) sums {
	t.Helper()
	var s sums
	r := f.Records()
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return s
		}
		if err != nil {
			t.Fatal(err)
		}
		switch rec := rec.(type) {
		case *perfdata.Sample:
			s.samples++
			s.period += rec.Period
			s.ips += rec.IP
			s.frames += uint64(len(rec.Callchain))
		case *perfdata.Mmap:
			s.mmaps += rec.Start + rec.Len + rec.Pgoff
		}
	}
}
