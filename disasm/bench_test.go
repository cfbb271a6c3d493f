package disasm

import (
	"debug/elf"
	"testing"

	"github.com/perfark/perfark/objfile"
)

// BenchmarkDecode reads the code of a C library, one instruction after the other.
func BenchmarkDecode(b *testing.B) {
	for _, x := range []struct {
		name, file string
		m          objfile.Machine
	}{
		{"x86-64", "/lib/x86_64-linux-gnu/libc.so.6", objfile.MachineX86_64},
		{"arm64", "/usr/aarch64-linux-gnu/lib/libc.so.6", objfile.MachineAArch64},
	} {
		b.Run(x.name, func(b *testing.B) {
			f, err := elf.Open(x.file)
			if err != nil {
				b.Skip(err)
			}
			defer f.Close()
			s := f.Section(".text")
			code, err := s.Data()
			if err != nil {
				b.Fatal(err)
			}
			d, err := New(x.m, 64, Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			at := 0
			for b.Loop() {
				if at >= len(code) {
					at = 0
				}
				at += d.Decode(code[at:], s.Addr+uint64(at)).Len
			}
		})
	}
}
