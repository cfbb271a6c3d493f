package disasm

import (
	"testing"

	"github.com/perfark/perfark/objfile"
)

// FuzzDecode reads any bytes as the code of each machine: it comes to the
// end, and every instruction has a text.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("\xf3\x0f\x1e\xfa\x55\x48\x89\xe5\xc5\xf8\x77\xc3"))
	f.Add([]byte("\xfd\x7b\xbf\xa9\x00\x00\x00\x94"))
	f.Add([]byte("\x66\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00"))
	f.Add([]byte("\x40\x40\x40\xf0\xf2"))
	var all []*Decoder
	for _, m := range []objfile.Machine{objfile.MachineX86_64, objfile.Machine386, objfile.MachineAArch64} {
		for _, intel := range []bool{false, true} {
			bits := 64
			if m == objfile.Machine386 {
				bits = 32
			}
			d, err := New(m, bits, Options{Intel: intel})
			if err != nil {
				f.Fatal(err)
			}
			all = append(all, d)
		}
	}
	f.Fuzz(func(t *testing.T, code []byte) {
		for _, d := range all {
			for at := 0; at < len(code); {
				in := d.Decode(code[at:], uint64(at))
				if in.Len < 1 || in.Text == "" {
					t.Fatalf("%x: %+v", code[at:], in)
				}
				at += in.Len
			}
		}
	})
}
