package doctor

import (
	"strconv"
	"strings"

	"github.com/perfark/perfark/buildid"
)

// An OS is a distribution, as /etc/os-release names it.
type OS struct {
	ID       string // debian, ubuntu, fedora, rhel, …; "" if unknown
	Like     string // IDs of those it derives from, separated by blanks
	Version  string // "12"; "" if it has none
	Codename string // bookworm
	Name     string // for people: Debian GNU/Linux 12 (bookworm)
}

// ParseOS reads an os-release file.
//
// Source: os-release(5).
func ParseOS(text string) OS {
	var o OS
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok || len(value) > 256 {
			continue
		}
		if u, err := strconv.Unquote(value); err == nil {
			value = u
		} else {
			value = strings.Trim(value, `'`)
		}
		switch key {
		case "ID":
			o.ID = value
		case "ID_LIKE":
			o.Like = value
		case "VERSION_ID":
			o.Version = value
		case "VERSION_CODENAME":
			o.Codename = value
		case "PRETTY_NAME":
			o.Name = value
		}
	}
	return o
}

// OSOfRelease guesses the distribution by the name of a kernel, which is all
// that a recording tells of it: 6.1.0-44-amd64, 5.14.0-427.el9.x86_64. The
// zero OS says that nothing can be guessed.
func OSOfRelease(release string) OS {
	has := func(list ...string) bool {
		for _, s := range list {
			if strings.Contains(release, s) {
				return true
			}
		}
		return false
	}
	switch {
	case has(".fc"):
		return OS{ID: "fedora", Name: "Fedora"}
	case has(".el7", ".el8", ".el9", ".el10"):
		return OS{ID: "rhel", Like: "fedora", Name: "Red Hat Enterprise Linux or a relative"}
	case has(".amzn"):
		return OS{ID: "amzn", Like: "fedora", Name: "Amazon Linux"}
	case has("-generic", "-lowlatency", "-azure", "-aws", "-gcp", "-oracle"):
		return OS{ID: "ubuntu", Like: "debian", Name: "Ubuntu"}
	case has("-default"):
		return OS{ID: "opensuse", Like: "suse", Name: "openSUSE or SLES"}
	case has("-arch"):
		return OS{ID: "arch", Name: "Arch Linux"}
	case has("-amd64", "-arm64", "-686", "-armmp", "-riscv64", "-powerpc64le", "-s390x"):
		return OS{ID: "debian", Name: "Debian"}
	}
	return OS{}
}

// Families of distributions, by their package managers.
const (
	debFamily    = "debian"
	rpmFamily    = "fedora"
	suseFamily   = "suse"
	archFamily   = "arch"
	alpineFamily = "alpine"
)

// family returns by which package manager files are installed; "" if unknown.
func (o OS) family() string {
	for _, id := range append([]string{o.ID}, strings.Fields(o.Like)...) {
		switch id {
		case "debian", "ubuntu":
			return debFamily
		case "fedora", "rhel", "centos", "amzn":
			return rpmFamily
		case "suse", "opensuse", "sles":
			return suseFamily
		case "arch":
			return archFamily
		case "alpine":
			return alpineFamily
		}
	}
	if strings.HasPrefix(o.ID, "opensuse") {
		return suseFamily
	}
	return ""
}

// debuginfod returns the public server of debug files for a distribution, that
// of all of them if it is not known.
func (o OS) debuginfod() string {
	switch o.ID {
	case "debian", "ubuntu", "fedora", "centos", "arch":
		host := map[string]string{"debian": "debian.net", "ubuntu": "ubuntu.com", "fedora": "fedoraproject.org", "centos": "centos.org", "arch": "archlinux.org"}
		return "https://debuginfod." + host[o.ID]
	}
	if o.family() == suseFamily {
		return "https://debuginfod.opensuse.org"
	}
	return "https://debuginfod.elfutils.org"
}

// fetch is the command that gets a file by its id from a server; what is
// debuginfo or executable. Where it puts it perfark looks if it is told to.
func (o OS) fetch(what string, id buildid.ID) string {
	return "DEBUGINFOD_URLS=" + o.debuginfod() + " debuginfod-find " + what + " " + id.String()
}

// debuginfodDir is where debuginfod-find keeps what it got.
const debuginfodDir = "--debug-dir ~/.cache/debuginfod_client"

// listed reports whether it can be looked up which package owns a file.
func (o OS) listed() bool {
	f := o.family()
	return f == debFamily || f == alpineFamily
}
