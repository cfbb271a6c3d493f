package store

import (
	"path"
	"slices"
	"strings"
	"testing"
)

func TestParseConfig(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want []Setting
		err  string
	}{
		{"", nil, ""},
		{"[buildid]\n\tdir = ~/big disk/debug  # here\n", []Setting{{"buildid", "dir", "~/big disk/debug"}}, ""},
		{"; c\n[BuildID] Dir=\"/a # b \" \n", []Setting{{"buildid", "dir", "/a # b "}}, ""},
		{"[a \"B c\"]\nk\n[b]\nx = 1\ny = a\\\n b\\n", []Setting{{"a.B c", "k", "true"}, {"b", "x", "1"}, {"b", "y", "a b\n"}}, ""},
		{"[buildid]\r\ndir = /x\r\n", []Setting{{"buildid", "dir", "/x"}}, ""},
		{"[a]\nx = 1\n[b\n", []Setting{{"a", "x", "1"}}, `line 3: section "b": no closing bracket`},
		{"x = 1\n", nil, `line 2: key "x": before any section`},
		{"[a]\nx = \"1\n", nil, `line 3: key "x": no closing quote`},
		{"[a]\n= 1\n", nil, `line 2: "=" begins neither a section nor a key`},
		{"[a]\nk v\n", nil, `line 2: key "k": "v" where an = belongs`},
		{"[a]\nk = \\q\n", nil, `line 2: key "k": unknown escape \q`},
	} {
		got, err := ParseConfig([]byte(tt.in))
		msg := ""
		if err != nil {
			msg = err.Error()
		}
		if !slices.Equal(got, tt.want) || msg != tt.err {
			t.Errorf("ParseConfig(%q) = %+v, %q; want %+v, %q", tt.in, got, msg, tt.want, tt.err)
		}
	}
}

func TestPlaces(t *testing.T) {
	user := []byte("[buildid]\ndir = ~/x\n")
	system := []byte("[buildid]\ndir = /var/debug\n")
	for _, tt := range []struct {
		p    Places
		want []string
	}{
		{Places{}, []string{".debug"}},
		{Places{Home: "/root"}, []string{"/root/.debug"}},
		{Places{Home: "/root", SudoHome: "/home/u"}, []string{"/root/.debug", "/home/u/.debug"}}, // S15
		{Places{Home: "/root", Configs: [][]byte{user, system}}, []string{"/root/x", "/var/debug", "/root/.debug"}},
		{Places{Dir: "/d/", Home: "/root", SudoHome: "/root", Configs: [][]byte{nil, system}}, []string{"/d", "/var/debug", "/root/.debug"}},
	} {
		if got, err := tt.p.Dirs(); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %q, %v; want %q", tt.p, got, err, tt.want)
		}
	}
	if _, err := (Places{Configs: [][]byte{[]byte("[x")}}).Dirs(); err == nil || err.Error() != `perfconfig: line 1: section "x": no closing bracket` {
		t.Errorf("broken configuration: %v", err)
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte("[buildid]\n\tdir = ~/big disk/debug  # here\n"))
	f.Add([]byte("[a \"B c\"]\nk\n[b]\nx = 1\ny = a\\\n b\\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, _ := ParseConfig(b)
		for _, s := range list {
			if s.Section == "" || s.Key == "" || s.Key != strings.ToLower(s.Key) {
				t.Errorf("%+v", s)
			}
		}
	})
}

func TestParseLink(t *testing.T) {
	id := strings.Repeat("ab", 20)
	for _, tt := range []struct{ text, dir, err string }{
		{"../../usr/bin/ls/" + id, "usr/bin/ls", ""},
		{"../../[kernel.kallsyms]/" + id, "[kernel.kallsyms]", ""},
		{"../../a\n b/" + id, "a\n b", ""},
		{"/etc/passwd", "", `link target "/etc/passwd": not ../../PATH/ID`},
		{"../../../etc/" + id, "", `link target "../../../etc/` + id + `": not a place in the tree`},
		{"../../a/../../b/" + id, "", `link target "../../a/../../b/` + id + `": not ../../PATH/ID`},
		{"../../" + id, "", `link target "../../` + id + `": not a place in the tree`},
		{"../../.build-id/ab/" + id, "", `link target "../../.build-id/ab/` + id + `": not a place in the tree`},
		{"../../usr/bin/ls/xyz", "", `link target "../../usr/bin/ls/xyz": does not end in a build id`},
		{"", "", `link target "": not ../../PATH/ID`},
	} {
		dir, got, err := ParseLink(tt.text)
		msg := ""
		if err != nil {
			msg = err.Error()
		}
		if dir != tt.dir || msg != tt.err || err == nil && got != id {
			t.Errorf("ParseLink(%q) = %q, %q, %q; want %q, %q", tt.text, dir, got, msg, tt.dir, tt.err)
		}
	}
}

func FuzzParseLink(f *testing.F) {
	f.Add("../../usr/bin/ls/" + strings.Repeat("ab", 20))
	f.Add("../../../etc/passwd")
	f.Fuzz(func(t *testing.T, text string) {
		dir, id, err := ParseLink(text)
		if err != nil {
			return
		}
		if to := path.Join(".build-id/ab", text); to != dir+"/"+id || strings.HasPrefix(to, "..") || strings.HasPrefix(to, "/") {
			t.Errorf("ParseLink(%q) = %q, %q, but it leads to %q", text, dir, id, to)
		}
	})
}

func FuzzTreePath(f *testing.F) {
	f.Add("/usr/bin/ls")
	f.Add("/../a//b/./c")
	f.Fuzz(func(t *testing.T, p string) {
		got, err := TreePath(p)
		if err != nil {
			return
		}
		if again, err := TreePath(got); err != nil || again != got {
			t.Errorf("TreePath(%q) = %q, and of that %q, %v", p, got, again, err)
		}
		if strings.HasPrefix(got, "/") || strings.HasPrefix(got+"/", "../") || strings.HasPrefix(got, linkDir+"/") {
			t.Errorf("TreePath(%q) = %q", p, got)
		}
	})
}

func FuzzCheckKallsyms(f *testing.F) {
	f.Add([]byte("0000000000000000 A fixed_percpu_data\nffffffff81000000 T _stext\n"))
	f.Add([]byte("0000000000000000 T _stext\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if checkKallsyms(memFile(b, "fuzz")) == nil && !strings.ContainsAny(string(b), "123456789abcdefABCDEF") {
			t.Errorf("%q: accepted without an address", b)
		}
	})
}
