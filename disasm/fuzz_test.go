package disasm

import (
	"runtime/debug"
	"strings"
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
	f.Add([]byte("\x01\x11\x06\xe4\x02\xb8\x00\x04\x3c\x4c\x02\x00\xeb\xbf\xf0\x58\x00\x24"))
	f.Add([]byte("\x63\x80\xff\x02\x00\x48\x2d\xe9\xf0\xb5\x00\xf0\x01\xf8"))
	f.Add([]byte("\x04\x00\x00\x00\x00\x00\x00\x00\x60\x00\x00\x00"))
	var all []*Decoder
	for _, x := range []struct {
		m    objfile.Machine
		bits int
		o    Options
	}{
		{objfile.MachineX86_64, 64, Options{}}, {objfile.MachineX86_64, 64, Options{Intel: true}},
		{objfile.Machine386, 32, Options{}}, {objfile.Machine386, 32, Options{Intel: true}},
		{objfile.MachineAArch64, 64, Options{}}, {objfile.MachineRISCV, 64, Options{}}, {objfile.MachineS390, 64, Options{Big: true}},
		{objfile.MachinePPC64, 64, Options{}}, {objfile.MachinePPC64, 64, Options{Big: true}}, {objfile.MachineLoong, 64, Options{}},
		{objfile.MachineARM, 32, Options{}}, {objfile.MachineARM, 32, Options{Big: true}}, {objfile.MachineARM, 32, Options{Thumb: true}},
	} {
		d, err := New(x.m, x.bits, x.o)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, d)
	}
	f.Fuzz(func(t *testing.T, code []byte) {
		for _, d := range all {
			for at := 0; at < len(code); {
				ownPanics(t, d, code[at:], uint64(at))
				in := d.Decode(code[at:], uint64(at))
				if in.Len < 1 || in.Text == "" {
					t.Fatalf("%x: %+v", code[at:], in)
				}
				at += in.Len
			}
		}
	})
}

// ownPanics fails if a decoder of ours panics, which Decode hides: it does so
// for those of other modules.
func ownPanics(t *testing.T, d *Decoder, code []byte, addr uint64) {
	t.Helper()
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		_, after, _ := strings.Cut(string(debug.Stack()), "\npanic(")
		for line := range strings.Lines(after) {
			if strings.HasPrefix(line, "github.com/") || strings.HasPrefix(line, "golang.org/") {
				if strings.Contains(line, "/perfark/disasm.") {
					t.Errorf("%x: %v\n%s", code, v, after)
				}
				return
			}
		}
	}()
	d.decode(code, addr)
}
