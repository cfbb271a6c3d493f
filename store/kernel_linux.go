package store

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/objfile"
)

// KernelID returns the Build ID of the running kernel, from kernel/notes below
// sys, which is /sys if "".
func KernelID(sys string) (buildid.ID, error) {
	if sys == "" {
		sys = "/sys"
	}
	return notesID(filepath.Join(sys, "kernel/notes"))
}

// ModuleID returns the Build ID of a loaded module, from module/NAME/notes
// below sys, which is /sys if "". A dash in a name is an underscore there.
func ModuleID(sys, name string) (buildid.ID, error) {
	if sys == "" {
		sys = "/sys"
	}
	name = moduleName(name)
	if name == "" || strings.ContainsAny(name, "/\x00") || strings.HasPrefix(name, ".") {
		return "", fmt.Errorf("module %q: not a name", name)
	}
	return notesID(filepath.Join(sys, "module", name, "notes/.note.gnu.build-id"))
}

// notesID reads the Build ID from a file of notes, whose byte order is ours.
func notesID(name string) (buildid.ID, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return "", err
	}
	n, err := buildid.ParseNotes(b, 0, bigEndian, 4)
	if n.GNU == "" && err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if n.GNU == "" {
		return "", fmt.Errorf("%s: no build id", name)
	}
	return n.GNU, nil
}

// kallsyms opens /proc/kallsyms if it is that of the recorded kernel: by its
// id, or without one in the same boot.
func (h *host) kallsyms(s *search) *File {
	name := filepath.Join(h.o.Proc, "kallsyms")
	h.kernelOnce.Do(func() { h.kernel, h.kernelErr = KernelID(h.o.Sys) })
	switch {
	case s.key.ID == "" && !h.o.SameHost:
		s.refuse(name, Untied, "the recording has no build id of its kernel, and nothing shows that it was made on this host")
		return nil
	case s.key.ID == "":
	case h.kernelErr != nil:
		s.note(filepath.Join(h.o.Sys, "kernel/notes"), h.kernelErr)
		return nil
	case !h.kernel.Match(s.key.ID):
		s.refused = append(s.refused, &RefusedError{Path: name, Reason: OtherHost, Got: h.kernel,
			Why: "the running kernel has build id " + h.kernel.String() + "; " + s.key.ID.String() + " is wanted"})
		return nil
	}
	h.symsOnce.Do(func() {
		f, err := os.Open(name)
		if err != nil {
			h.symsErr = err
			return
		}
		defer f.Close()
		h.syms, h.symsErr = io.ReadAll(io.LimitReader(f, most))
	})
	if h.symsErr != nil {
		s.note(name, h.symsErr)
		return nil
	}
	f, err := checked(memFile(h.syms, name), nil, s.key)
	if err != nil {
		s.note(name, err)
		return nil
	}
	f.Unverified = s.key.ID == ""
	return f
}

// kcore opens a copy of the memory of the running kernel, if it is the boot of
// the recording.
func (h *host) kcore(s *search) *File {
	name := filepath.Join(h.o.Proc, kcoreFile)
	h.kernelOnce.Do(func() { h.kernel, h.kernelErr = KernelID(h.o.Sys) })
	if s.key.ID == "" || h.kernelErr != nil || !h.kernel.Match(s.key.ID) {
		return nil // that it is another kernel is said of its symbols
	}
	h.coreOnce.Do(func() { h.core, h.coreErr = ReadKcore(h.o.Proc) })
	if h.coreErr != nil {
		s.note(name, h.coreErr)
		return nil
	}
	if err := SameKcore(func(k Kind) (*File, error) { return h.core.File(k, name), nil }, s.key); err != nil {
		s.note(name, err)
		return nil
	}
	f := h.core.File(s.key.Kind, name)
	f.Live = true
	return f
}

// vdso opens the vDSO: of our own memory, or one of those that the kernel's
// package brings, which are of all its kinds.
func (h *host) vdso(s *search) *File {
	if s.key.ID == "" && !h.o.SameHost {
		s.refuse(s.key.Path, Untied, "the recording has no build id of its vDSO")
		return nil
	}
	k := s.key
	k.Kind = VDSO
	b, err := ownVDSO(h.o.Proc)
	if err == nil {
		var f *File
		if f, err = checked(memFile(b, "the vDSO of the running kernel"), nil, k); err == nil {
			// In one boot there is one, but for programs of other word sizes.
			f.Unverified = k.ID == ""
			return f
		}
	}
	if r, ok := errors.AsType[*RefusedError](err); ok && r.Reason == Replaced {
		r.Reason = OtherHost // of another kernel: nobody replaced it
	}
	s.note("the vDSO of the running kernel", err)
	if h.o.Release == "" || strings.Contains(h.o.Release, "/") {
		return nil
	}
	dir := h.path(path.Join("/lib/modules", h.o.Release, "vdso"))
	for _, name := range []string{"vdso64.so", "vdso32.so", "vdsox32.so", "vdso.so"} {
		f, err := openPath(filepath.Join(dir, name))
		if f, err = checked(f, err, k); err == nil {
			return f
		}
	}
	return nil
}

// maxVDSO bounds the image of a vDSO, in bytes.
const maxVDSO = 1 << 20

// ownVDSO reads the vDSO of our own process.
func ownVDSO(procfs string) ([]byte, error) {
	maps, err := os.ReadFile(filepath.Join(procfs, "self/maps"))
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(maps) {
		f := bytes.Fields(line)
		if len(f) != 6 || string(f[5]) != vdsoName {
			continue
		}
		lo, hi, _ := strings.Cut(string(f[0]), "-")
		start, err := strconv.ParseUint(lo, 16, 63)
		end, err2 := strconv.ParseUint(hi, 16, 63)
		if err != nil || err2 != nil || end < start || end-start > maxVDSO {
			return nil, fmt.Errorf("/proc/self/maps: vDSO at %q", f[0])
		}
		mem, err := os.Open(filepath.Join(procfs, "self/mem"))
		if err != nil {
			return nil, err
		}
		defer mem.Close()
		b := make([]byte, end-start)
		_, err = mem.ReadAt(b, int64(start))
		return b, err
	}
	return nil, fmt.Errorf("/proc/self/maps: no vDSO: %w", fs.ErrNotExist)
}

// image opens an image of the recorded kernel.
func (h *host) image(s *search) *File {
	r := h.o.Release
	if s.key.ID == "" || r == "" || strings.Contains(r, "/") {
		return nil
	}
	for _, name := range []string{
		"/boot/vmlinux-" + r,
		"/usr/lib/debug/boot/vmlinux-" + r,
		"/lib/modules/" + r + "/build/vmlinux",
		"/lib/modules/" + r + "/vmlinux",
		"/usr/lib/debug/lib/modules/" + r + "/vmlinux",
		"/usr/lib/debug/boot/vmlinux-" + r + ".debug",
	} {
		f, err := openPath(h.path(name))
		if f, err = checked(f, err, s.key); err == nil {
			return f
		}
		s.note(h.path(name), err)
	}
	return nil
}

// isModule reports whether a recorded name is that of a kernel module.
func isModule(p string) bool {
	if isModuleName(p) {
		return true
	}
	base := path.Base(p)
	return moduleName(base) != strings.ReplaceAll(base, "-", "_")
}

// module opens the file of a kernel module: at its recorded path, or where the
// kernel's tree has a module of the name.
func (h *host) module(s *search) *File {
	k := s.key
	unverified := false
	if k.ID == "" && h.o.SameHost {
		// What is loaded now is what was loaded then, unless it was reloaded.
		if id, err := ModuleID(h.o.Sys, k.Path); err == nil {
			k.ID, unverified = id, true
		}
	}
	if k.ID == "" {
		s.refuse(k.Path, Untied, "the recording has no build id of the module")
		return nil
	}
	var names []string
	if strings.HasPrefix(k.Path, "/") {
		names = append(names, h.path(k.Path))
	}
	h.modOnce.Do(h.listModules)
	names = append(names, h.modules[moduleName(k.Path)]...)
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		f, err := openPath(name)
		if f, err = checked(f, err, k); err == nil {
			f.Unverified = unverified
			return f
		}
		s.note(name, err)
	}
	return nil
}

// listModules finds the modules of the recorded release: those that depmod
// knows, else all that are in the tree.
func (h *host) listModules() {
	h.modules = map[string][]string{}
	r := h.o.Release
	if r == "" || strings.Contains(r, "/") || r == "." || r == ".." {
		return
	}
	dir := h.path("/lib/modules/" + r)
	add := func(name string) {
		m := moduleName(name)
		h.modules[m] = append(h.modules[m], name)
	}
	b, err := os.ReadFile(filepath.Join(dir, "modules.dep"))
	if err == nil {
		for line := range strings.Lines(string(b)) {
			if name, _, ok := strings.Cut(line, ":"); ok {
				if !filepath.IsAbs(name) {
					name = filepath.Join(dir, name)
				}
				add(name)
			}
		}
		return
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return
	}
	filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && isModule(name) {
			add(name)
		}
		return nil
	})
}

// KernelMaps returns where the code of the running kernel and of its modules
// is, from kallsyms and modules in proc and the notes in sys ("" means /proc
// and /sys). Addresses that the kernel hides are zero. A module without a
// Build ID has none.
func KernelMaps(proc, sys string) ([]KernelMap, error) {
	if proc == "" {
		proc = "/proc"
	}
	kernel := KernelMap{Name: kernelName}
	var err error
	if kernel.ID, err = KernelID(sys); err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(proc, "kallsyms"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		// Of a hundred thousand lines three are of interest.
		if !bytes.HasSuffix(sc.Bytes(), []byte("text")) {
			continue
		}
		fields := bytes.Fields(sc.Bytes())
		if len(fields) != 3 {
			continue // of a module
		}
		addr, err := strconv.ParseUint(string(fields[0]), 16, 64)
		if err != nil {
			continue
		}
		switch string(fields[2]) {
		case "_text", "_stext":
			if kernel.Start == 0 {
				kernel.Start = addr
			}
		case "_etext":
			kernel.End = addr
		}
		if kernel.End > 0 && kernel.Start > 0 {
			break
		}
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	maps := []KernelMap{kernel}
	b, err := os.ReadFile(filepath.Join(proc, "modules"))
	if errors.Is(err, fs.ErrNotExist) {
		return maps, nil // a kernel without modules
	}
	if err != nil {
		return maps, err
	}
	for line := range strings.Lines(string(b)) {
		// name size references users state address
		fields := strings.Fields(line)
		if len(fields) < 6 {
			continue
		}
		size, err := strconv.ParseUint(fields[1], 10, 64)
		start, err2 := strconv.ParseUint(strings.TrimPrefix(fields[5], "0x"), 16, 64)
		if err != nil || err2 != nil {
			continue
		}
		m := KernelMap{Name: "[" + fields[0] + "]", Start: start}
		if start != 0 {
			m.End = start + size
		}
		m.ID, _ = ModuleID(sys, fields[0]) // some have none
		maps = append(maps, m)
	}
	return maps, nil
}

// RunningVDSO returns the Build ID of the vDSO that the kernel maps into
// programs such as this one.
func RunningVDSO() (buildid.ID, error) {
	b, err := ownVDSO("/proc")
	if err != nil {
		return "", err
	}
	return objfile.ReadBuildID(bytes.NewReader(b), int64(len(b)))
}
