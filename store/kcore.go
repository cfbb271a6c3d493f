package store

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Names of the files of a copy of /proc/kcore, which are perf's.
const (
	kcoreFile    = "kcore"
	kcoreSyms    = "kallsyms"
	kcoreModules = "modules"
)

// most is how much of a file of /proc or /sys is read, in bytes.
const most = 256 << 20

// Kinds of the files that tell which boot a KCore is of: copies of
// /proc/kallsyms and /proc/modules that were made with it.
const (
	KCoreKallsyms Kind = "kcore-kallsyms"
	KCoreModules  Kind = "kcore-modules"
)

// kcoreBase returns the name of a file of a copy.
func kcoreBase(k Kind) (string, bool) {
	switch k {
	case KCore:
		return kcoreFile, true
	case KCoreKallsyms:
		return kcoreSyms, true
	case KCoreModules:
		return kcoreModules, true
	}
	return "", false
}

// KcoreDirs returns a Source of what is in the directories that
// perf record --kcore makes beside a recording: kcore_dir of the host, and
// kcore_dir__PID of virtual machines. They were copied in the boot and at the
// time of the recording, and are part of it: whatever Build ID is asked for,
// they are those of its kernel. Links that lead out of the directory are
// refused.
func KcoreDirs(dirs []string) Source { return kcoreDirs(dirs) }

type kcoreDirs []string

func (d kcoreDirs) Get(ctx context.Context, k Key) (*File, error) {
	s := &search{key: k}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	want := "kcore_dir"
	if guest, ok := strings.CutPrefix(k.Path, "[guest.kernel.kallsyms"); ok {
		want += "__" + strings.Trim(guest, ".]")
	}
	base, isKcore := kcoreBase(k.Kind)
	if k.Kind == Kallsyms {
		base = kcoreSyms
	} else if !isKcore {
		return nil, s.err(fmt.Sprintf("%d directories of --kcore", len(d)))
	}
	for _, dir := range d {
		if filepath.Base(dir) != want {
			continue
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			s.note(dir, err)
			continue
		}
		f, err := kcoreIn(root, ".", base, k)
		root.Close()
		if err == nil {
			f.Bound = true
			return f, nil
		}
		s.note(filepath.Join(dir, base), err)
	}
	return nil, s.err(fmt.Sprintf("%d directories of --kcore", len(d)))
}

// kcoreIn opens a file of a copy of /proc/kcore, if the copy is of the boot
// that is asked for.
func kcoreIn(root *os.Root, dir, base string, k Key) (*File, error) {
	if k.Kind != Kallsyms {
		if err := SameKcore(func(kind Kind) (*File, error) {
			name, _ := kcoreBase(kind)
			return openInTree(root, path.Join(dir, name))
		}, k); err != nil {
			return nil, err
		}
	}
	f, err := openInTree(root, path.Join(dir, base))
	return checked(f, err, k)
}

// kcore opens a file of the copies of /proc/kcore in the tree.
func (c *BuildIDCache) kcore(root *os.Root, s *search) (*File, error) {
	base, ok := kcoreBase(s.key.Kind)
	if !ok {
		base = kcoreSyms
	}
	for _, name := range idNames(s.key.ID) {
		dir := path.Join(kcoreName, name)
		stamps, err := readDirNames(root, dir)
		s.note(c.dir+"/"+dir, err)
		slices.Reverse(stamps) // the latest first
		for _, stamp := range stamps {
			k := s.key
			if k.Kind == Kallsyms && k.RefName != "" {
				k.Kind = KCoreKallsyms // of the boot of the recording
			}
			f, err := kcoreIn(root, path.Join(dir, stamp), base, k)
			if err == nil {
				return f, nil
			}
			s.note(c.dir+"/"+path.Join(dir, stamp), err)
		}
	}
	return nil, s.err(c.dir)
}

// SameKcore fails unless a copy of /proc/kcore, whose files open opens, is of
// the boot that k asks for, with its module at the same place. The error is a
// *RefusedError.
func SameKcore(open func(Kind) (*File, error), k Key) error {
	if k.RefName == "" || k.RefAddr == 0 {
		return &RefusedError{Path: k.Path, Reason: Untied, Why: "the recording does not say where the kernel was loaded"}
	}
	f, err := open(KCoreKallsyms)
	if err != nil {
		return err
	}
	defer f.Close()
	at, ok := symbolIn(io.NewSectionReader(f, 0, min(f.Size, most)), k.RefName)
	switch {
	case !ok:
		return &RefusedError{Path: f.Origin, Reason: OtherBoot, Why: fmt.Sprintf("it has no symbol %q", k.RefName)}
	case at != k.RefAddr:
		return &RefusedError{Path: f.Origin, Reason: OtherBoot, Why: fmt.Sprintf("it has %q at 0x%x; the recording, at 0x%x: another boot", k.RefName, at, k.RefAddr)}
	case k.Module == "":
		return nil
	}
	m, err := open(KCoreModules)
	if err != nil {
		return err
	}
	defer m.Close()
	list, err := readModules(io.NewSectionReader(m, 0, min(m.Size, most)))
	if err != nil {
		return &RefusedError{Path: m.Origin, Reason: Malformed, Err: err}
	}
	for _, x := range list {
		if x.name == moduleName(k.Module) && x.start == k.ModuleAddr {
			return nil
		}
	}
	return &RefusedError{Path: m.Origin, Reason: OtherBoot, Why: fmt.Sprintf("it has no module %s at 0x%x", moduleName(k.Module), k.ModuleAddr)}
}

// symbolIn returns the address of a symbol in a copy of /proc/kallsyms.
func symbolIn(r io.Reader, name string) (addr uint64, ok bool) {
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		line := sc.Bytes()
		if !bytes.HasSuffix(line, []byte(name)) {
			continue
		}
		f := bytes.Fields(line)
		if len(f) == 3 && string(f[2]) == name {
			addr, err := strconv.ParseUint(string(f[0]), 16, 64)
			return addr, err == nil
		}
	}
	return 0, false
}

// A loadedModule is a line of /proc/modules.
type loadedModule struct {
	name        string // with _ for -
	start, size uint64
}

// readModules reads a copy of /proc/modules: name, size, references, users,
// state, address.
func readModules(r io.Reader) ([]loadedModule, error) {
	var list []loadedModule
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20) // a module may have many users
	for sc.Scan() {
		f := strings.Fields(sc.Text())
		if len(f) < 6 {
			continue
		}
		size, err := strconv.ParseUint(f[1], 10, 64)
		start, err2 := strconv.ParseUint(strings.TrimPrefix(f[5], "0x"), 16, 64)
		if err == nil && err2 == nil && start != 0 && start+size >= start {
			list = append(list, loadedModule{moduleName(f[0]), start, size})
		}
	}
	return list, sc.Err()
}
