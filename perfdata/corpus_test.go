package perfdata

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// corpus returns the perf.data files of the corpus: real recordings that are
// not part of the repository.
func corpus(t testing.TB) []string {
	dir := os.Getenv("PERFARK_CORPUS")
	if dir == "" {
		t.Skip("PERFARK_CORPUS is not set: tests on real recordings are skipped")
	}
	var list []string
	filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "expected" {
			return filepath.SkipDir
		}
		if d.Type().IsRegular() {
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			b := make([]byte, 8)
			io.ReadFull(f, b)
			f.Close()
			if isPerfData(b) {
				list = append(list, path)
			}
		}
		return nil
	})
	if len(list) == 0 {
		t.Fatalf("no perf.data in %s", dir)
	}
	return list
}
