package archive

import "testing"

// Debug information that names secrets packs none.
func TestIsSource(t *testing.T) {
	for name, want := range map[string]bool{
		"/src/a.c": true, "/src/A.CPP": true, "/src/b.rs": true, "/usr/include/c++/12/vector": true, "/usr/include/x.h": true,
		"/etc/shadow": false, "/root/.ssh/id_ed25519": false, "/home/u/.bashrc": false, "/usr/include/../../etc/shadow": false,
		"/srv/key.pem": false, "rel/a.c": false, "": false, "/": false, "/src/a.": false, "/src/a.c .": false,
	} {
		if got := IsSource(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}
