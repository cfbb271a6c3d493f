package disasm

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/perfark/perfark/objfile"
)

// randomX86 makes code of bytes by chance, more of it with the beginnings that
// instructions have.
func randomX86(r *rand.Rand, n int) []byte {
	var code []byte
	prefixes := []byte{0x66, 0xf2, 0xf3, 0x67, 0x2e, 0x3e, 0x26, 0x36, 0x64, 0x65, 0xf0}
	for len(code) < n {
		for r.IntN(4) == 0 {
			code = append(code, prefixes[r.IntN(len(prefixes))])
		}
		if r.IntN(2) == 0 {
			code = append(code, 0x40|byte(r.IntN(16)))
		}
		switch r.IntN(8) {
		case 0, 1:
			code = append(code, 0x0f)
		case 2:
			code = append(code, 0x0f, 0x38)
		case 3:
			code = append(code, 0x0f, 0x3a)
		}
		for range 1 + r.IntN(8) {
			code = append(code, byte(r.Uint32()))
		}
	}
	return code[:n]
}

// TestRandom reads code by chance: what a compiler never makes, but tables
// between functions are read as. PERFARK_SEED chooses another one, and more of
// it; with -v the commonest differences are shown.
func TestRandom(t *testing.T) {
	if !withIced {
		t.Skip("for builds with iced")
	}
	if _, err := exec.LookPath("objdump"); err != nil {
		t.Skip("no objdump")
	}
	seed, n := uint64(1), 60_000
	if s := os.Getenv("PERFARK_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
		n = 1_000_000
	}
	code := randomX86(rand.New(rand.NewPCG(seed, 0)), n)
	name := filepath.Join(t.TempDir(), "code")
	if err := os.WriteFile(name, code, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		machine, syntax string
		m               objfile.Machine
		bits            int
		o               Options
		ends, texts     float64 // percent that agree, at least
	}{
		{"i386:x86-64", "att", objfile.MachineX86_64, 64, Options{}, 99.8, 98.9},
		{"i386:x86-64", "intel", objfile.MachineX86_64, 64, Options{Intel: true}, 99.8, 98.4},
		{"i386", "att", objfile.Machine386, 32, Options{}, 99.6, 98},
	} {
		t.Run(tt.machine+" "+tt.syntax, func(t *testing.T) {
			out, err := exec.Command("objdump", "-D", "-z", "-b", "binary", "-m", tt.machine, "-M", tt.syntax, "--no-show-raw-insn", name).Output()
			if err != nil {
				t.Fatal(err)
			}
			d, err := New(tt.m, tt.bits, tt.o)
			if err != nil {
				t.Fatal(err)
			}
			var starts []int
			var want []string
			for line := range strings.Lines(string(out)) {
				addr, text, ok := strings.Cut(line, ":\t")
				if a, err := strconv.ParseUint(strings.TrimSpace(addr), 16, 64); ok && err == nil {
					starts, want = append(starts, int(a)), append(want, strings.TrimRight(text, " \n"))
				}
			}
			starts = append(starts, len(code))
			ends, texts, shown := 0, 0, 0
			for i, w := range want {
				at := starts[i]
				in := d.Decode(code[at:], uint64(at))
				have := in.Format(noNames)
				if at+in.Len == starts[i+1] {
					ends++
				}
				if bare(have) == bare(w) {
					texts++
				} else if shown++; shown <= 50 {
					t.Logf("% x: %q, want %q", code[at:starts[i+1]], have, w)
				}
			}
			total := float64(len(want))
			e, x := 100*float64(ends)/total, 100*float64(texts)/total
			t.Logf("of %d instructions %.3f %% end and %.3f %% read as objdump's", len(want), e, x)
			if e < tt.ends || x < tt.texts {
				t.Errorf("want %v and %v", tt.ends, tt.texts)
			}
		})
	}
}

// TestRandomARM64 reads words by chance of all groups but SME, and of SVE
// those that are known: what is no instruction of objdump's is none here.
func TestRandomARM64(t *testing.T) {
	const tool = "aarch64-linux-gnu-objdump"
	if _, err := exec.LookPath(tool); err != nil {
		t.Skip("no " + tool)
	}
	n := 50_000
	r := rand.New(rand.NewPCG(7, 0))
	if s := os.Getenv("PERFARK_SEED"); s != "" {
		seed, _ := strconv.ParseUint(s, 10, 64)
		r, n = rand.New(rand.NewPCG(seed, 0)), 500_000
	}
	var code []byte
	for len(code) < n*word4 {
		w := r.Uint32()
		known := w>>25&15 >= 4
		if len(code)%16 == 0 { // SVE: what is shown is right, though not all is
			w = w&^(15<<25) | 2<<25
			known = sve(w) != ""
		}
		if known {
			code = binary.LittleEndian.AppendUint32(code, w)
		}
	}
	name := filepath.Join(t.TempDir(), "code")
	if err := os.WriteFile(name, code, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(tool, "-D", "-z", "-b", "binary", "-m", "aarch64", "--no-show-raw-insn", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	d, err := New(objfile.MachineAArch64, 64, Options{})
	if err != nil {
		t.Fatal(err)
	}
	total, differ := 0, 0
	for line := range strings.Lines(string(out)) {
		addr, want, ok := strings.Cut(line, ":\t")
		at, err := strconv.ParseUint(strings.TrimSpace(addr), 16, 64)
		if !ok || err != nil {
			continue
		}
		total++
		in := d.Decode(code[at:], at)
		if have := in.Format(noNames); bare(have) != bare(strings.TrimRight(want, " \n")) {
			differ++
			t.Logf("%08x: %q, want %q", binary.LittleEndian.Uint32(code[at:]), have, want)
		}
	}
	if t.Logf("%d of %d differ", differ, total); total != n || differ > n/10_000 {
		t.Errorf("of %d instructions %d differ", total, differ)
	}
}

// bare is a text without what shows that a file has no symbols.
func bare(s string) string { return strings.ReplaceAll(s, "0x", "") }
