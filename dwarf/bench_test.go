package dwarf_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/perfark/perfark/dwarf"
	"github.com/perfark/perfark/objfile"
)

// BenchmarkFrames asks for all addresses of the list PERFARK_BENCH_ADDRS in
// the file PERFARK_BENCH_FILE, from nothing each time.
func BenchmarkFrames(b *testing.B) {
	name, list := os.Getenv("PERFARK_BENCH_FILE"), os.Getenv("PERFARK_BENCH_ADDRS")
	if name == "" || list == "" {
		b.Skip("PERFARK_BENCH_FILE or PERFARK_BENCH_ADDRS is not set")
	}
	text, err := os.ReadFile(list)
	if err != nil {
		b.Fatal(err)
	}
	var addrs []uint64
	for _, s := range strings.Fields(string(text)) {
		a, err := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 64)
		if err != nil {
			b.Fatal(err)
		}
		addrs = append(addrs, a)
	}
	for b.Loop() {
		_, d := openDWARF(b, name, objfile.DWARFOptions{})
		var buf []dwarf.Frame
		for _, a := range addrs {
			if buf, err = d.Frames(a, buf[:0]); err != nil {
				b.Fatal(err)
			}
		}
	}
}
