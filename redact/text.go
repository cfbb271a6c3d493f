package redact

import (
	"path"
	"regexp"
	"strconv"
	"strings"
)

// Patterns of what names a container or a machine.
var (
	// Directories whose entries are named after users.
	homePath = regexp.MustCompile(`(/(?:var/|export/)?home/|/Users/)([^/\s:,;'"()<>=]+)`)

	// …/lxc/NAME, machine-NAME.scope, and where their files are.
	containerPath = regexp.MustCompile(`(/var/lib/(?:lxc|machines|lxd/containers|lxd/storage-pools/[^/]+/containers|incus/containers)/|/lxc/|/lxc\.payload\.|/lxc\.monitor\.|/machine\.slice/machine-|/machine-|/libvirt/qemu/|/docker/containers/)([^/\s]+?)(\.scope|\.service)?(/|$)`)

	// Ids in hex of 64 (containers, layers) or 32 digits (machines, boots), but
	// not of 40: those are Build IDs.
	longHex = regexp.MustCompile(`(^|[^0-9A-Za-z])([0-9a-f]{64}|[0-9a-f]{32})([^0-9A-Za-z]|$)`)

	// Short ids of containers, in the names of their cgroups.
	shortID = regexp.MustCompile(`((?:docker|libpod|crio|cri-containerd|containerd)[-/])([0-9a-f]{12})([^0-9A-Za-z]|$)`)

	uuidForm = regexp.MustCompile(`[0-9a-fA-F]{8}[-_][0-9a-fA-F]{4}[-_][0-9a-fA-F]{4}[-_][0-9a-fA-F]{4}[-_][0-9a-fA-F]{12}`)
)

// A field is where a text stands, for reports and for the rules that it has.
type field string

// Fields, in the order of reports.
const (
	fieldHost    field = "HOSTNAME"
	fieldRelease field = "OSRELEASE"
	fieldVersion field = "VERSION"
	fieldHeader  field = "other features"
	fieldCmdline field = "CMDLINE"
	fieldEvent   field = "event names"
	fieldComm    field = "thread names"
	fieldPath    field = "file names"
	fieldCgroup  field = "cgroups"
	fieldSymbol  field = "kernel symbols"
	fieldTracing field = "tracing data"
	fieldRaw     field = "raw data"
	fieldStack   field = "user stacks"
	fieldNumber  field = "text in addresses"
	fieldBinary  field = "other binary data"
	fieldMessage field = "messages"
)

var fieldOrder = []field{
	fieldHost, fieldRelease, fieldVersion, fieldCmdline, fieldEvent, fieldHeader, fieldComm, fieldPath, fieldCgroup,
	fieldSymbol, fieldTracing, fieldRaw, fieldStack, fieldNumber, fieldBinary, fieldMessage,
}

// learn notes the names in a text that are to be replaced everywhere.
func (r *Redactor) learn(s string, f field) {
	if s == "" || r.learnt[learntKey{f, s}] {
		return
	}
	r.learnt[learntKey{f, s}] = true
	if r.p.Users == Mask {
		for _, m := range homePath.FindAllStringSubmatch(s, -1) {
			r.addUser(m[2], m[1])
		}
	}
	if r.p.Containers == Mask {
		for _, m := range containerPath.FindAllStringSubmatch(s, -1) {
			if !longHex.MatchString(m[2]) && !uuidForm.MatchString(m[2]) {
				r.addName(kindContainer, m[2])
			}
		}
		for _, m := range longHex.FindAllStringSubmatch(s, -1) {
			r.dict.add(word{old: m[2], kind: hexKind(m[2])})
		}
		for _, m := range shortID.FindAllStringSubmatch(s, -1) {
			r.dict.add(word{old: m[2], kind: kindContainer})
		}
		for _, m := range uuidForm.FindAllString(s, -1) {
			r.dict.add(word{old: m, kind: kindID})
		}
	}
	if r.p.Environment == Mask {
		for _, v := range secretsIn(s, f == fieldCmdline || f == fieldComm) {
			r.addSecret(v)
		}
		if f == fieldCmdline || f == fieldComm {
			for _, u := range anyURL.FindAllString(s, -1) {
				r.dict.add(word{old: u, kind: kindURL})
			}
		}
	}
	for _, re := range r.p.Patterns {
		for _, m := range re.FindAllString(s, -1) {
			if len(m) > 1 {
				r.dict.add(word{old: m, kind: kindWord})
			}
		}
	}
}

type learntKey struct {
	f field
	s string
}

func hexKind(s string) string {
	if len(s) == 64 {
		return kindContainer
	}
	return kindID
}

// addName adds a name to the words: as it stands if it is rare enough, else
// only where it is alone, or not at all.
func (r *Redactor) addName(kind, s string) {
	switch {
	case common(s) || len(s) < 2:
	case len(s) < minStrong:
		r.dict.add(word{old: s, kind: kind, bound: true, textOnly: true})
	default:
		r.dict.add(word{old: s, kind: kind})
	}
}

// addUser adds the name of a user, with the directory it was found in, if any.
func (r *Redactor) addUser(s, dir string) {
	if s == "" || s == "." || s == ".." || strings.HasPrefix(s, "[") || r.dict.allow[strings.ToLower(s)] {
		return
	}
	if s == "root" {
		return // everybody has it
	}
	r.users[s] = true
	r.addName(kindUser, s)
	if dir == "" {
		dir = homes[0]
	}
	if common(s) || len(s) < minStrong {
		r.dict.add(word{old: dir + s, kind: kindUser, bound: true})
	}
}

// addSecret adds a value that is secret. What anybody could have written says
// nothing.
func (r *Redactor) addSecret(s string) {
	s = strings.Trim(s, `'"`)
	if len(s) < 5 || common(s) || s == stars {
		return
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil && len(s) < 10 {
		return
	}
	r.dict.add(word{old: s, kind: kindSecret})
}

// addHost adds the name of a host: as it is, without its domain, and the domain.
func (r *Redactor) addHost(s string) {
	if s == "" {
		return
	}
	r.addName(kindHost, s)
	short, domain, ok := strings.Cut(s, ".")
	if !ok {
		return
	}
	r.addName(kindHost, short)
	if strings.Contains(domain, ".") {
		r.addName(kindDomain, domain)
	}
}

// name gives all words their pseudonyms, in the order in which they were found.
// Those with a directory keep it.
func (r *Redactor) nameWords() {
	for _, w := range r.dict.words {
		if w.new != "" {
			continue
		}
		switch {
		case w.kind == kindUser && strings.Contains(w.old, "/"):
			dir, base := path.Split(w.old)
			w.new = dir + r.names.get(kindUser, base)
		case w.kind == kindHost && strings.Contains(w.old, "."):
			short, domain, _ := strings.Cut(w.old, ".")
			w.new = r.names.get(kindHost, short)
			if strings.Contains(domain, ".") {
				w.new += "." + r.names.get(kindDomain, domain)
			}
		default:
			w.new = r.names.get(w.kind, w.old)
		}
	}
	r.dict.build()
}

// text returns what stands in the place of a text.
func (r *Redactor) text(s string, f field) string {
	if s == "" {
		return s
	}
	c := r.fields[f]
	if c == nil {
		c = &fieldTexts{texts: map[string]*fieldText{}}
		r.fields[f] = c
	}
	t := c.texts[s]
	if t == nil {
		t = &fieldText{old: s, new: r.replace(s, f)}
		c.texts[s] = t
		c.list = append(c.list, t)
	}
	t.count++
	return t.new
}

// A fieldText is a text of a field, and what stands in its place.
type fieldText struct {
	old, new string
	count    int64
}

type fieldTexts struct {
	texts map[string]*fieldText
	list  []*fieldText // as they were found
}

func (r *Redactor) replace(s string, f field) string {
	switch f {
	case fieldComm:
		return r.comm(s)
	case fieldPath:
		return r.path(s)
	case fieldHost:
		return r.host(s)
	}
	return r.dict.text(s)
}

// host replaces the name of the host as a whole: there is nothing else in it.
func (r *Redactor) host(s string) string {
	if r.p.Hosts == Keep {
		return r.dict.text(s)
	}
	if new := r.dict.text(s); new != s {
		return new
	}
	return r.names.get(kindHost, s)
}

// commSize is how long the name of a thread is at most, in bytes: longer ones
// are cut by the kernel.
const commSize = 15

// comm replaces the name of a thread. One that is cut may end in the beginning
// of a name.
func (r *Redactor) comm(s string) string {
	if r.p.Comm == All && !r.knownComm(s) {
		return r.names.get(kindComm, s)
	}
	if r.p.Environment == Mask {
		s = anyURL.ReplaceAllStringFunc(s, func(u string) string { return r.names.get(kindURL, u) })
		s = assign.ReplaceAllStringFunc(s, func(a string) string {
			m := assign.FindStringSubmatch(a)
			return m[1] + m[2] + r.names.get(kindSecret, m[3])
		})
	}
	out := r.dict.text(s)
	if len(s) >= commSize {
		out = r.cutWord(out)
	}
	return out[:min(len(out), commSize)]
}

// knownComm reports whether a thread is of the kernel or of perf: these have
// the same names everywhere.
func (r *Redactor) knownComm(s string) bool {
	for _, p := range []string{"swapper", "kworker/", "ksoftirqd/", "migration/", "rcu_", "perf", "perfark", ":-1"} {
		if strings.HasPrefix(s, p) && len(s) < commSize && !strings.Contains(s, " ") && (strings.HasSuffix(p, "/") || s == p || p == "rcu_") {
			return true
		}
	}
	return false
}

// cutWord replaces the beginning of a word at the end of a text that was cut. Of
// several it is the shortest: the name of a host without its domain.
func (r *Redactor) cutWord(s string) string {
	const least = 4
	var best *word
	cut := 0
	for _, w := range r.dict.words {
		if w.textOnly || w.bound || best != nil && len(w.old) >= len(best.old) {
			continue
		}
		for n := min(len(w.old)-1, len(s)); n >= least; n-- {
			if strings.EqualFold(s[len(s)-n:], w.old[:n]) {
				best, cut = w, n
				break
			}
		}
	}
	if best == nil {
		return s
	}
	return s[:len(s)-cut] + best.new
}

// systemDirs are where programs and libraries are that are the same on all
// hosts of a distribution.
var systemDirs = []string{"/usr/", "/lib/", "/lib64/", "/lib32/", "/bin/", "/sbin/", "/proc/", "/sys/", "/dev/", "/nix/store/", "/gnu/store/", "/snap/core"}

// path replaces what is secret in the name of a file, or with the rule All each
// of its components. What has no slash in it, such as [vdso] or //anon, is no
// name of a file.
func (r *Redactor) path(s string) string {
	if r.p.Paths == All && strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "//") && !r.systemPath(s) {
		return r.allPath(s)
	}
	return r.dict.text(s)
}

func (r *Redactor) systemPath(s string) bool {
	if strings.HasPrefix(s, "/usr/local/") || strings.HasPrefix(s, "/dev/shm/") {
		return false
	}
	for _, d := range systemDirs {
		if strings.HasPrefix(s, d) {
			return true
		}
	}
	return strings.HasPrefix(s, "/SYSV") || s == "/[aio]"
}

// jitFile are the names of files that say what process they are of.
var jitFile = regexp.MustCompile(`^(?:perf-\d+\.map|jit-\d+\.dump|jitted-\d+-\d+\.so)$`)

// allPath replaces each component of a path. What follows a blank, such as
// "(deleted)", stays, and the ends of names that say what a file is.
func (r *Redactor) allPath(s string) string {
	s, deleted := strings.CutSuffix(s, " (deleted)")
	tail := ""
	if deleted {
		tail = " (deleted)"
	}
	parts := strings.Split(s, "/")
	for i, p := range parts {
		switch {
		case p == "" || p == "tmp" && i == 1:
		case strings.HasPrefix(p, "memfd:"):
			parts[i] = "memfd:" + r.names.get(kindFile, p)
		case i < len(parts)-1:
			parts[i] = r.names.get(kindDir, p)
		case jitFile.MatchString(p):
		default:
			parts[i] = r.names.get(kindFile, p) + keptExt(p)
		}
	}
	return r.dict.text(strings.Join(parts, "/")) + tail
}

// keptExt is the end of a name that says what a file is: .so.1, .dll, .jar, .ko.
func keptExt(name string) string {
	if i := strings.Index(name, ".so"); i > 0 && (i+3 == len(name) || strings.Trim(name[i+3:], ".0123456789") == "") {
		return name[i:]
	}
	ext := path.Ext(name)
	if len(ext) > 6 || ext == name || strings.Trim(ext[min(1, len(ext)):], "abcdefghijklmnopqrstuvwxyz") != "" {
		return ""
	}
	return ext
}
