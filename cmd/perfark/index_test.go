package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestIndexes: where indexes are kept, and what turns them off.
func TestIndexes(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "config")
	for _, tt := range []struct {
		name   string
		env    environ
		off    bool
		config string
		want   string // "" for no indexes
	}{
		{name: "home", env: environ{home: "/home/x"}, want: "/home/x/.cache/perfark/index"},
		{name: "XDG_CACHE_HOME", env: environ{home: "/home/x", cacheHome: "/var/x"}, want: "/var/x/perfark/index"},
		{name: "relative XDG_CACHE_HOME", env: environ{home: "/home/x", cacheHome: "x"}},
		{name: "no home", env: environ{}},
		{name: "--no-index", env: environ{home: "/home/x"}, off: true},
		{name: "config off", env: environ{home: "/home/x"}, config: "[perfark]\nindex = off\n"},
		{name: "config on", env: environ{home: "/home/x"}, config: "[perfark]\nindex = on\nindex-size = 5M\n", want: "/home/x/.cache/perfark/index"},
		{name: "another section", env: environ{home: "/home/x"}, config: "[report]\nindex = off\n", want: "/home/x/.cache/perfark/index"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.WriteFile(config, []byte(tt.config), 0o644); err != nil {
				t.Fatal(err)
			}
			tt.env.perfconfig = config
			a := &app{env: tt.env, noIndex: tt.off, stderr: io.Discard}
			got := ""
			if c := a.indexes(); c != nil {
				got = c.Dir()
			}
			if got != tt.want {
				t.Errorf("directory %q, want %q", got, tt.want)
			}
		})
	}
}
