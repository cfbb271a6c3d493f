package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/store"
)

// benchManifest makes a manifest of all files in the directory PERFARK_BENCH.
func benchManifest(b *testing.B) (*Manifest, Contents, int64) {
	dir := os.Getenv("PERFARK_BENCH")
	if dir == "" {
		b.Skip("PERFARK_BENCH names no directory of files to pack")
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		b.Fatal(err)
	}
	m := &Manifest{Version: 1}
	var total int64
	names := map[Name]string{}
	for _, e := range list {
		fi, err := e.Info()
		if err != nil || !fi.Mode().IsRegular() {
			continue
		}
		name := filepath.Join(dir, e.Name())
		r, err := os.Open(name)
		if err != nil {
			b.Fatal(err)
		}
		h := sha256.New()
		_, err = io.Copy(h, r)
		r.Close()
		if err != nil {
			b.Fatal(err)
		}
		sum := hex.EncodeToString(h.Sum(nil))
		f := File{Kind: store.ELF, Name: Name(ObjectName(name, "", sum, store.ELF)), Size: fi.Size(), SHA256: sum}
		names[f.Name] = name
		m.Objects = append(m.Objects, Object{Kind: "file", Paths: []Name{Name(name)}, Files: []File{f}})
		total += fi.Size()
	}
	return m, Contents{File: func(f *File) (io.ReadCloser, error) { return os.Open(names[f.Name]) }}, total
}

type countWriter struct{ n atomic.Int64 }

func (w *countWriter) Write(p []byte) (int, error) {
	w.n.Add(int64(len(p)))
	return len(p), nil
}

// BenchmarkEncode packs the files of PERFARK_BENCH in all formats and prints
// the size in MB that comes out.
func BenchmarkEncode(b *testing.B) {
	m, c, total := benchManifest(b)
	for _, o := range []EncodeOptions{
		{Format: Zstd}, {Format: Zstd, Level: 1}, {Format: Zstd, Level: 5}, {Format: Bundle},
		{Format: Bzip2}, {Format: XZ}, {Format: Gzip}, {Format: Tar},
	} {
		b.Run(fmt.Sprintf("%v-%d", o.Format, o.Level), func(b *testing.B) {
			b.SetBytes(total)
			for b.Loop() {
				var w countWriter
				if err := Encode(b.Context(), &w, m, c, o); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(w.n.Load())/1e6, "MB-out")
				b.ReportMetric(float64(total)/1e6, "MB-in")
			}
		})
	}
}

// BenchmarkUnpack unpacks the files of PERFARK_BENCH.
func BenchmarkUnpack(b *testing.B) {
	m, c, total := benchManifest(b)
	for _, f := range []Format{Zstd, Bzip2} {
		b.Run(f.String(), func(b *testing.B) {
			name := filepath.Join(b.TempDir(), "a")
			w, err := os.Create(name)
			if err != nil {
				b.Fatal(err)
			}
			defer w.Close()
			if err := Encode(b.Context(), w, m, c, EncodeOptions{Format: f}); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(total)
			var before, after unix.Rusage
			unix.Getrusage(unix.RUSAGE_SELF, &before)
			n := 0
			for b.Loop() {
				n++
				r, err := os.Open(name)
				if err != nil {
					b.Fatal(err)
				}
				u, err := Unpack(b.Context(), r, UnpackOptions{Dir: b.TempDir(), DataDir: b.TempDir()})
				r.Close()
				if err != nil || refused(u) > 0 {
					b.Fatal(u, err)
				}
			}
			unix.Getrusage(unix.RUSAGE_SELF, &after)
			cpu := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
			b.ReportMetric(float64(cpu)/1e9/float64(n), "cpu-s")
		})
	}
}
