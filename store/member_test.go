package store

import (
	"archive/zip"
	"bytes"
	"testing"
)

// Paths into zip archives, as simpleperf records them, lead to the files inside.
func TestHostMember(t *testing.T) {
	lib := testELF{id: testID(0xab, 20), text: "code"}.bytes()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, method := range map[string]uint16{"lib/arm64/libX.so": zip.Store, "lib/arm64/libZ.so": zip.Deflate} {
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		if err != nil {
			t.Fatal(err)
		}
		f.Write(lib)
	}
	w.Close()
	apk := write(t, t.TempDir()+"/base.apk", b.Bytes())
	h := Host(HostOptions{})
	testSource(t, h, Key{ID: testID(0xab, 20), Kind: ELF, Path: apk + "!/lib/arm64/libX.so"}, lib)
	testNone(t, h, Key{ID: testID(1, 20), Kind: ELF, Path: apk + "!/lib/arm64/libX.so"}, Replaced)
	testNone(t, h, Key{ID: testID(0xab, 20), Kind: ELF, Path: apk + "!/lib/arm64/libZ.so"}, Malformed)
	testNone(t, h, Key{ID: testID(0xab, 20), Kind: ELF, Path: apk + "!/lib/arm64/libW.so"})
	testNone(t, h, Key{ID: testID(0xab, 20), Kind: ELF, Path: apk + "2!/lib/arm64/libX.so"})
}
