package objfile

import (
	"bufio"
	"bytes"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// nmSymbols returns the addresses and names of the functions that nm knows.
func nmSymbols(t *testing.T, name string, dynamic bool) map[uint64][]string {
	args := []string{"--defined-only", name}
	if dynamic {
		args = append([]string{"-D"}, args...)
	}
	out, err := exec.Command("nm", args...).Output()
	if err != nil {
		return nil
	}
	m := map[uint64][]string{}
	sc := bufio.NewScanner(bytes.NewReader(out))
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		f := strings.Fields(sc.Text())
		if len(f) < 3 || !strings.Contains("tTwWi", f[1]) || strings.HasPrefix(f[2], ".annobin") {
			continue
		}
		a, err := strconv.ParseUint(f[0], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		m[a] = append(m[a], f[2])
	}
	return m
}

// TestSymbolsNM looks up every text symbol that nm lists, at its first byte.
func TestSymbolsNM(t *testing.T) {
	if _, err := exec.LookPath("nm"); err != nil {
		t.Skip("nm is not installed")
	}
	for _, name := range systemFiles(t) {
		f := openTest(t, name)
		if f.size > 20<<20 && (testing.Short() || raceFactor > 1) {
			continue
		}
		tab, err := f.Symbols(SymbolOptions{})
		if err != nil {
			t.Logf("%v", err)
			continue
		}
		want := nmSymbols(t, name, true)
		for a, n := range nmSymbols(t, name, false) {
			want[a] = append(want[a], n...)
		}
		bad := 0
		for addr, names := range want {
			p, ok := f.load(addr)
			if !ok || p.flags&pfExec == 0 {
				continue // a weak object
			}
			off := addr - p.vaddr + p.off
			s, ok := tab.Lookup(off)
			has := false
			for _, n := range names {
				n, _, _ := strings.Cut(n, "@")
				g, _, _ := strings.Cut(s.Name, "@")
				has = has || n == g
			}
			if !ok || !has || s.Start != off {
				if bad++; bad < 10 {
					t.Errorf("%s: %#x: got %+v, %v; nm has %q", name, addr, s, ok, names)
				}
			}
		}
		t.Logf("%s: %d symbols, %d addresses compared, quality %v, warnings %v", name, tab.Len(), len(want), f.Quality(), f.Warnings())
	}
}
