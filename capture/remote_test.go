package capture

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Words come through a shell as they are.
func TestQuote(t *testing.T) {
	for _, s := range []string{"", "a b", "it's", "'", "''\\'", "$HOME`id`\\", "new\nline\n", "*?[", "-n", "\x01\x80\xff", "!x"} {
		out, err := exec.Command("sh", "-c", "set -- "+quote(s)+`; printf '%s.%s' "$1" "$#"`).Output()
		if err != nil || string(out) != s+".1" {
			t.Errorf("%q: %q, %v", s, out, err)
		}
	}
}

func TestProgram(t *testing.T) {
	elf := func(machine, data byte) string {
		b := make([]byte, 64)
		copy(b, "\x7fELF\x02")
		b[5] = data
		b[18+data/2] = machine // of a number below 256, in both orders
		name := filepath.Join(t.TempDir(), "perfark")
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, tt := range []struct {
		machine, data byte
		system, name  string
		err           string
	}{
		{62, 1, "Linux", "x86_64", ""},
		{62, 1, "Linux", "aarch64", "runs Linux on aarch64, but the perfark to be copied there is for Linux on x86_64"},
		{62, 1, "Darwin", "x86_64", "runs Darwin on x86_64, but the perfark to be copied there is for Linux on x86_64"},
		{62, 1, "Linux", "a-new-machine", ""},
		{183, 1, "Linux", "aarch64", ""},
		{3, 1, "Linux", "i586", ""},
		{40, 1, "Linux", "armv7l", ""},
		{22, 2, "Linux", "s390x", ""},
		{21, 2, "Linux", "ppc64le", "runs Linux on ppc64le, but the perfark to be copied there is for Linux on ppc64"},
		{200, 1, "Linux", "x86_64", ""},
		{200, 1, "FreeBSD", "amd64", "runs FreeBSD on amd64, but the perfark to be copied there is for Linux on another machine"},
	} {
		p, err := readProgram(elf(tt.machine, tt.data))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := p.fits(tt.system, tt.name); err != nil {
			got = err.Error()
		}
		if got != tt.err {
			t.Errorf("%d on %s %s: %q, want %q", tt.machine, tt.system, tt.name, got, tt.err)
		}
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\necho this is no program\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := readProgram(text); err == nil || !strings.HasSuffix(err.Error(), ": not a program for Linux") {
		t.Error(err)
	}
}

func TestLineWriter(t *testing.T) {
	var got []string
	w := &lineWriter{line: func(s string) { got = append(got, s) }}
	for _, s := range []string{"a", "b\nc\r\n\n", "", "d\n", strings.Repeat("x", remoteLine+3), "\ne"} {
		if n, err := w.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatal(n, err)
		}
	}
	w.flush()
	if want := []string{"ab", "c", "d", strings.Repeat("x", remoteLine), "xxx", "e"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	got = nil
	for range 2 * remoteText / 100 {
		w.Write(append(bytes.Repeat([]byte("y"), 99), '\n'))
	}
	if n := len(strings.Join(got, "")); n > remoteText+100 || !strings.HasPrefix(got[len(got)-1], "… and more") {
		t.Errorf("%d bytes, at the end %q", n, got[len(got)-1])
	}
}

// Whatever the other side says, what is taken of it is bounded, and a bundle
// has the size that was said.
func FuzzRemote(f *testing.F) {
	for _, s := range []string{
		"motd\nM host Linux x86_64\nM ready gzip\nM begin /tmp/x/out\nM bundle 5\nhelloM end 0\n",
		"M host Linux x86_64\nM ready plain\nM begin /x\nM end 3\n",
		"M host Linux x86_64\nM fail no room\n", "M host Linux x86_64\nM ready gzip\nM begin\nM bundle 9999999999999999999\n",
		"M host Linux x86_64\nM ready\nM begin\nM bundle 10\nshort", "junk", "",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &remoteSession{Remote: &Remote{MaxSize: 1 << 16}, mark: "M", bin: &program{machine: "x86_64"}, out: bufio.NewReaderSize(bytes.NewReader(data), 64<<10)}
		if err := s.hello(); err != nil {
			return
		}
		for _, want := range []string{"ready", "begin"} {
			if _, err := s.expect(want); err != nil {
				return
			}
		}
		var out bytes.Buffer
		status, size, err := s.result(&out)
		if out.Len() > 1<<16 || err == nil && (int64(out.Len()) != size || status < 0 || status > 255) {
			t.Errorf("status %d, size %d, %d bytes, %v", status, size, out.Len(), err)
		}
		if err != nil && errors.Is(err, io.EOF) {
			t.Errorf("%v", err)
		}
	})
}
