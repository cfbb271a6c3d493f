package archive

import (
	"os"
	"path/filepath"
	"testing"
)

// What stands in a pool, or for a bundle in a directory of captures, may be
// anything: it is refused, or read within its size.
func FuzzPool(f *testing.F) {
	f.Add([]byte("\x28\xb5\x2f\xfd"), uint16(1))
	f.Add(newPacked().object(Object{Kind: "file", Paths: []Name{"/x"}}).withData([]byte("data")).encode(f, EncodeOptions{Format: Bundle}), uint16(700))
	f.Fuzz(func(t *testing.T, b []byte, size uint16) {
		name := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		ReadManifest(t.Context(), name, Limits{MaxBytes: 1 << 20, MaxFiles: 100})
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		s, err := openPooled(file, int64(size))
		if err != nil {
			return
		}
		defer s.Close()
		if n, err := s.ReadAt(make([]byte, size), 0); err == nil && n != int(size) {
			t.Errorf("%d bytes of %d, and no error", n, size)
		}
	})
}
