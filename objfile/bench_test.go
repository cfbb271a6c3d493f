package objfile

import (
	"os"
	"testing"
)

// BenchmarkSymbols loads the table of a large library and looks up one name.
func BenchmarkSymbols(b *testing.B) {
	for _, name := range []string{"/usr/bin/node", "/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1", "/lib/x86_64-linux-gnu/libc.so.6"} {
		r, err := os.Open(name)
		if err != nil {
			continue
		}
		st, _ := r.Stat()
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f, err := Open(r, st.Size(), name, nil)
				if err != nil {
					b.Fatal(err)
				}
				t, err := f.Symbols(SymbolOptions{})
				if err != nil {
					b.Fatal(err)
				}
				t.Lookup(t.syms[len(t.syms)/2].start)
			}
		})
		r.Close()
	}
}
