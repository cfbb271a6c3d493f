package main

import (
	"bufio"
	"os"
	"os/user"
	"path/filepath"
	"strings"
)

// An environ is all that perfark takes from its environment.
type environ struct {
	home       string // HOME
	sudoHome   string // home directory of SUDO_USER; "" if not run by sudo
	buildIDDir string // PERF_BUILDID_DIR, which perf sets for perf-archive
	perfconfig string // PERF_CONFIG: read instead of the two files; "" if not set
	pager      string // PERF_PAGER, or PAGER; "" if neither is set
	term       string // TERM
}

func readEnv() environ {
	e := environ{
		home:       os.Getenv("HOME"),
		buildIDDir: os.Getenv("PERF_BUILDID_DIR"),
		perfconfig: os.Getenv("PERF_CONFIG"),
		pager:      os.Getenv("PERF_PAGER"),
		term:       os.Getenv("TERM"),
	}
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
func (a *app) cacheDir() string {
	for _, dir := range []string{a.buildIDDir, a.env.buildIDDir, a.env.configured()} {
		if dir != "" {
			return dir
		}
	}
	return filepath.Join(a.env.home, ".debug")
}

// cacheDirs returns the directories in which objects by Build ID may be: the
// one of cacheDir, and that of the user who ran sudo.
func (a *app) cacheDirs() []string {
	dirs := []string{a.cacheDir()}
	if a.env.sudoHome != "" {
		if dir := filepath.Join(a.env.sudoHome, ".debug"); dir != dirs[0] {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// configured returns buildid.dir of perf's configuration, "" if it is not
// set: of $PERF_CONFIG, else of ~/.perfconfig over /etc/perfconfig.
func (e *environ) configured() string {
	if e.perfconfig != "" {
		return e.expand(configValue(e.perfconfig, "buildid", "dir"))
	}
	for _, name := range []string{filepath.Join(e.home, ".perfconfig"), "/etc/perfconfig"} {
		if v := configValue(name, "buildid", "dir"); v != "" {
			return e.expand(v)
		}
	}
	return ""
}

func (e *environ) expand(dir string) string {
	if rest, ok := strings.CutPrefix(dir, "~/"); ok {
		return filepath.Join(e.home, rest)
	}
	return dir
}

// configValue returns the last value of key in a section of a perfconfig
// file, in the form of git's configuration; "" if there is none.
func configValue(name, section, key string) string {
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	var value, in string
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		line := strings.TrimSpace(sc.Text())
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[':
			in = strings.Trim(line, "[] \t")
		case in == section:
			k, v, _ := strings.Cut(line, "=")
			if strings.TrimSpace(k) == key {
				v, _, _ = strings.Cut(v, "#")
				value = strings.Trim(strings.TrimSpace(v), `"`)
			}
		}
	}
	return value
}
