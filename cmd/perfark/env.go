package main

import (
	"cmp"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/perfark/perfark/store"
)

// An environ is all that perfark takes from its environment.
type environ struct {
	home       string // HOME
	sudoHome   string // home directory of SUDO_USER; "" if not run by sudo
	buildIDDir string // PERF_BUILDID_DIR, which perf sets for perf-archive
	perfconfig string // PERF_CONFIG: read instead of the two files; "" if not set
	cacheHome  string // XDG_CACHE_HOME
	ssh        string // PERFARK_SSH: what is run for ssh; "" for ssh
	pager      string // PERF_PAGER, or PAGER; "" if neither is set
	term       string // TERM
	noColor    bool   // NO_COLOR is set and not empty: https://no-color.org
	utf8       bool   // LC_ALL, LC_CTYPE or LANG, whichever is set first, says UTF-8
	mouse      bool   // PERFARK_MOUSE is set and not empty: the browser takes the mouse
}

func readEnv() environ {
	e := environ{
		home:       os.Getenv("HOME"),
		buildIDDir: os.Getenv("PERF_BUILDID_DIR"),
		perfconfig: os.Getenv("PERF_CONFIG"),
		cacheHome:  os.Getenv("XDG_CACHE_HOME"),
		pager:      os.Getenv("PERF_PAGER"),
		ssh:        os.Getenv("PERFARK_SSH"),
		term:       os.Getenv("TERM"),
		noColor:    os.Getenv("NO_COLOR") != "",
		mouse:      os.Getenv("PERFARK_MOUSE") != "",
	}
	locale := strings.ToUpper(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	e.utf8 = strings.HasSuffix(locale, "UTF-8") || strings.HasSuffix(locale, "UTF8")
	if e.pager == "" {
		e.pager = os.Getenv("PAGER")
	}
	if name := os.Getenv("SUDO_USER"); name != "" && name != "root" {
		if u, err := user.Lookup(name); err == nil {
			e.sudoHome = u.HomeDir
		}
	}
	return e
}

// cacheDir returns the buildid directory that perf would use: that of the
// command line, of PERF_BUILDID_DIR, of buildid.dir in perfconfig, ~/.debug;
// without a home directory .debug in the current one.
func (a *app) cacheDir() string { return a.cacheDirs()[0] }

// cacheDirs returns the directories in which objects by Build ID may be, the
// one of cacheDir first.
func (a *app) cacheDirs() []string {
	p := store.Places{
		Dir:      cmp.Or(a.buildIDDir, a.env.buildIDDir),
		Home:     a.env.home,
		SudoHome: a.env.sudoHome,
	}
	for _, name := range a.env.configs() {
		if b, err := os.ReadFile(name); err == nil {
			p.Configs = append(p.Configs, b)
		}
	}
	dirs, err := p.Dirs()
	if err != nil {
		a.verbosef("%s", err)
	}
	return dirs
}

// configs returns perf's configuration files, the one that counts most first:
// $PERF_CONFIG alone if that is set.
func (e *environ) configs() []string {
	if e.perfconfig != "" {
		return []string{e.perfconfig}
	}
	return []string{filepath.Join(e.home, ".perfconfig"), "/etc/perfconfig"}
}
