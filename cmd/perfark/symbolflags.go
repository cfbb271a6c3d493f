package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/store"
)

// symbolFlags say how addresses get names, beyond where objects are found.
type symbolFlags struct {
	vmlinux, kallsyms string
	ignoreVmlinux     bool
	modules           bool
	symfs             string
	demangle          bool
	demangleKernel    bool
}

func (c *symbolFlags) addSymbolNameFlags(fs *pflag.FlagSet) {
	fs.StringVarP(&c.vmlinux, "vmlinux", "k", "", "name the kernel's addresses by this `FILE` alone, if its Build ID is the recorded one")
	fs.StringVar(&c.kallsyms, "kallsyms", "", "name the kernel's addresses by this `FILE` alone; nothing is checked")
	addSwitch(fs, &c.ignoreVmlinux, "ignore-vmlinux", "", false, "name the kernel's addresses by kallsyms even if there is an image")
	fs.BoolVarP(&c.modules, "modules", "m", false, "accepted as perf has it: modules are always named")
	fs.StringVar(&c.symfs, "symfs", "", "look for objects below `DIR` first, by their recorded paths")
	addSwitch(fs, &c.demangle, "no-demangle", "", true, "print names as they stand in the symbol tables")
	addSwitch(fs, &c.demangleKernel, "demangle-kernel", "", false, "demangle names of the kernel too")
}

// check looks whether the files are there.
func (c *symbolFlags) check() error {
	for _, f := range []struct{ flag, name string }{{"--vmlinux", c.vmlinux}, {"--kallsyms", c.kallsyms}, {"--symfs", c.symfs}} {
		if f.name == "" {
			continue
		}
		fi, err := os.Stat(f.name)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %s: %w", f.flag, f.name, pathless(err))
		case fi.IsDir() != (f.flag == "--symfs"):
			return fmt.Errorf("%s: %s: is %s", f.flag, f.name, map[bool]string{true: "a directory", false: "not a directory"}[fi.IsDir()])
		}
	}
	return nil
}

// source returns src with what the flags name before it.
func (c *symbolFlags) source(src store.Source, p *profile.Profile) store.Source {
	if c.symfs != "" {
		src = store.Multi(symfs(c.symfs), store.DebugDirs([]string{filepath.Join(c.symfs, "usr/lib/debug"), c.symfs}), src)
	}
	if c.vmlinux == "" && c.kallsyms == "" && !c.ignoreVmlinux {
		return src
	}
	k := &kernelSource{Source: src, flags: c, kernels: map[string]bool{}}
	for i := range p.Objects {
		if p.Objects[i].Kind == profile.KindKernel {
			k.kernels[p.Objects[i].Path] = true
		}
	}
	return k
}

// rename undoes or adds demangling.
func (c *symbolFlags) rename(p *profile.Profile) {
	if c.demangle && !c.demangleKernel {
		return
	}
	for i := range p.Functions {
		f := &p.Functions[i]
		kernel := false
		if f.Object >= 0 {
			k := p.Objects[f.Object].Kind
			kernel = k == profile.KindKernel || k == profile.KindModule
		}
		switch {
		case !c.demangle && f.Linkage != "":
			f.Name = f.Linkage
		case c.demangle && kernel:
			f.Name = objfile.Demangle(f.Name)
		}
	}
}

// symfs is a tree of files by their recorded paths.
type symfs string

func (s symfs) Get(ctx context.Context, k store.Key) (*store.File, error) {
	if k.Path == "" || !filepath.IsAbs(k.Path) {
		return nil, fmt.Errorf("%s: %v: %w", string(s), k, fs.ErrNotExist)
	}
	return store.OneFile(filepath.Join(string(s), filepath.Clean(k.Path))).Get(ctx, k)
}

// A kernelSource has the files of the kernel that the flags name, and no
// others.
type kernelSource struct {
	store.Source
	flags   *symbolFlags
	kernels map[string]bool // paths of the kernel
}

func (s *kernelSource) Get(ctx context.Context, k store.Key) (*store.File, error) {
	none := fmt.Errorf("%v: %w", k, fs.ErrNotExist)
	switch {
	case k.Kind == store.Kallsyms && s.flags.kallsyms != "":
		f, err := os.Open(s.flags.kallsyms)
		if err != nil {
			return nil, err
		}
		fi, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, err
		}
		size := fi.Size()
		if size == 0 { // of /proc, which does not tell
			size = 1 << 30
		}
		return &store.File{ReaderAt: f, Size: size, Origin: s.flags.kallsyms, Unverified: true, Close: f.Close, Info: fi}, nil
	case k.Kind == store.Kallsyms && s.flags.vmlinux != "":
		k.Kind = store.ELF
		f, err := store.OneFile(s.flags.vmlinux).Get(ctx, k)
		if err != nil {
			return nil, err // which says why it is not used
		}
		f.Close()
		return nil, none
	case k.Kind == store.ELF && s.kernels[k.Path]:
		if s.flags.kallsyms != "" || s.flags.ignoreVmlinux {
			return nil, none
		}
		return store.OneFile(s.flags.vmlinux).Get(ctx, k)
	case k.Kind == store.Debug && s.kernels[k.Path]:
		return nil, none
	}
	return s.Source.Get(ctx, k)
}
