package doctor

import (
	"bufio"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/objfile"
)

// A pkg is an installed package.
type pkg struct {
	name string // without the architecture
	arch string // "" if the name says enough
}

// Limits of what is read of a package manager's lists, in bytes.
const (
	maxLists   = 512 << 20 // all of them
	maxApkList = 64 << 20
)

// owners finds the installed packages that hold files, by the files' paths.
func (h *Host) owners(paths []string) map[string]pkg {
	want := map[string]string{} // by the name in the lists
	for _, p := range paths {
		for _, alias := range usrMerged(p) {
			if _, ok := want[alias]; !ok {
				want[alias] = p
			}
		}
	}
	switch h.OS.family() {
	case debFamily:
		return h.dpkgOwners(want)
	case alpineFamily:
		return h.apkOwners(want)
	}
	return nil
}

// usrMerged returns the names under which a package may list a file: /bin,
// /lib and /sbin are links into /usr, and lists have either name.
func usrMerged(p string) []string {
	names := []string{p}
	if rest, ok := strings.CutPrefix(p, "/usr/"); ok {
		names = append(names, "/"+rest)
	} else {
		names = append(names, "/usr"+p)
	}
	return names
}

// dpkgOwners reads /var/lib/dpkg/info/PACKAGE[:ARCH].list.
func (h *Host) dpkgOwners(want map[string]string) map[string]pkg {
	dir := filepath.Join(h.root, "var/lib/dpkg/info")
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	out := map[string]pkg{}
	left := int64(maxLists)
	for _, e := range list {
		name, ok := strings.CutSuffix(e.Name(), ".list")
		if !ok || !e.Type().IsRegular() {
			continue
		}
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			continue
		}
		sc := bufio.NewScanner(io.LimitReader(f, left))
		for sc.Scan() {
			left -= int64(len(sc.Bytes())) + 1
			if p, ok := want[string(sc.Bytes())]; ok {
				if _, ok := out[p]; !ok {
					name, arch, _ := strings.Cut(name, ":")
					out[p] = pkg{name, arch}
				}
			}
		}
		f.Close()
		if len(out) == len(want) || left <= 0 {
			break
		}
	}
	return out
}

// apkOwners reads /lib/apk/db/installed, where P: is a package, F: a directory
// in it and R: a file in that.
func (h *Host) apkOwners(want map[string]string) map[string]pkg {
	out := map[string]pkg{}
	name, dir := "", ""
	for line := range strings.Lines(h.readMax("lib/apk/db/installed", maxApkList)) {
		key, value, _ := strings.Cut(strings.TrimRight(line, "\n"), ":")
		switch key {
		case "P":
			name = value
		case "F":
			dir = value
		case "R":
			if p, ok := want["/"+path.Join(dir, value)]; ok {
				out[p] = pkg{name: name}
			}
		}
	}
	return out
}

// debugPackage returns the name of the package with the debug files of p, and
// whether it is in the archive that is always there.
func (h *Host) debugPackage(p pkg) (name string, main bool) {
	if h.OS.family() == alpineFamily {
		return p.name + "-dbg", true
	}
	switch {
	case p.name == "libc6" || p.name == "libc-bin":
		return "libc6-dbg", true
	case strings.HasPrefix(p.name, "linux-image-"):
		if h.OS.ID == "ubuntu" {
			return p.name + "-dbgsym", false
		}
		return p.name + "-dbg", true
	}
	if rest, ok := strings.CutPrefix(strings.TrimPrefix(p.name, "lib"), "python3."); ok {
		// python3.11-minimal and libpython3.11-stdlib are of one source.
		version, _, _ := strings.Cut(rest, "-")
		return "python3." + version + "-dbg", true
	}
	known := h.available()
	if slices.Contains(known, p.name+"-dbg") {
		return p.name + "-dbg", true
	}
	return p.name + "-dbgsym", slices.Contains(known, p.name+"-dbgsym") || h.debugArchive()
}

// available lists the debug packages that apt knows of, as far as its lists
// are plain text.
func (h *Host) available() []string {
	if h.aptRead {
		return h.apt
	}
	h.aptRead = true
	dir := filepath.Join(h.root, "var/lib/apt/lists")
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	left := int64(maxLists)
	for _, e := range list {
		if !strings.HasSuffix(e.Name(), "_Packages") || !e.Type().IsRegular() || left <= 0 {
			continue
		}
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			continue
		}
		sc := bufio.NewScanner(io.LimitReader(f, left))
		sc.Buffer(nil, 1<<20)
		for sc.Scan() {
			left -= int64(len(sc.Bytes())) + 1
			if name, ok := strings.CutPrefix(sc.Text(), "Package: "); ok && (strings.HasSuffix(name, "-dbg") || strings.HasSuffix(name, "-dbgsym")) {
				h.apt = append(h.apt, name)
			}
		}
		f.Close()
	}
	return h.apt
}

// debugArchive reports whether apt knows the archive of debug packages.
func (h *Host) debugArchive() bool {
	list, err := os.ReadDir(filepath.Join(h.root, "var/lib/apt/lists"))
	return err == nil && slices.ContainsFunc(list, func(e os.DirEntry) bool {
		return strings.Contains(e.Name(), "debian-debug") || strings.HasPrefix(e.Name(), "ddebs.")
	})
}

// install is the command that installs the debug packages of packages, which
// are owners of files.
func (h *Host) install(owners ...pkg) string {
	var names []string
	main := true
	for _, p := range owners {
		name, ok := h.debugPackage(p)
		main = main && ok
		if p.arch != "" && p.arch != "amd64" && p.arch != "arm64" {
			name += ":" + p.arch
		}
		names = append(names, name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if h.OS.family() == alpineFamily {
		return "sudo apk add " + strings.Join(names, " ")
	}
	cmd := "sudo apt install " + strings.Join(names, " ")
	if main {
		return cmd
	}
	return addArchive(h.OS) + " && sudo apt update && " + cmd
}

// addArchive is the command that makes apt know the archive of debug packages.
func addArchive(o OS) string {
	name, pre := o.Codename, ""
	if name == "" {
		name, pre = "$VERSION_CODENAME", ". /etc/os-release && "
	}
	line := "deb http://debug.mirrors.debian.org/debian-debug " + name + "-debug main"
	if o.ID == "ubuntu" {
		line = "deb http://ddebs.ubuntu.com " + name + " main restricted universe multiverse"
		pre += "sudo apt install ubuntu-dbgsym-keyring && "
	}
	return pre + `echo "` + line + `" | sudo tee /etc/apt/sources.list.d/debug.list`
}

// installElsewhere is the command that installs the debug file of a program on
// another host, which has to find out the package itself.
func (o OS) installElsewhere(p string, id buildid.ID) string {
	q := quote(p)
	switch o.family() {
	case debFamily:
		return `sudo apt install "$(dpkg-query -S ` + q + ` | cut -d: -f1)-dbgsym"`
	case rpmFamily:
		return `sudo dnf debuginfo-install "$(rpm -qf ` + q + `)"`
	case suseFamily:
		if id != "" {
			return "sudo zypper install -C 'debuginfo(build-id)=" + id.String() + "'"
		}
	case alpineFamily:
		return `sudo apk add "$(apk info -qW ` + q + `)-dbg"`
	}
	return ""
}

// carries reports whether the file at a path of the host has a Build ID.
func (h *Host) carries(p string, id buildid.ID) bool {
	if id == "" || !strings.HasPrefix(p, "/") {
		return false
	}
	name := filepath.Join(h.root, p)
	fi, err := os.Stat(name)
	if err != nil || !fi.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	got, err := objfile.ReadBuildID(f, fi.Size())
	return err == nil && got.Match(id)
}

// exists reports whether there is a file at a path of the host.
func (h *Host) exists(p string) bool {
	_, err := os.Stat(filepath.Join(h.root, p))
	return err == nil
}
