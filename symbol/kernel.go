package symbol

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/store"
)

// A kernel is what is known of one recorded kernel, the host's or a guest's.
// It is loaded once, and shared by the kernel's object and those of its
// modules.
type kernel struct {
	once sync.Once

	obj        *profile.Object // of the image; nil if the profile has none
	sym        *objfile.Kallsyms
	shift      uint64 // add it to a recorded address to get that in sym
	moved      bool   // sym is of another boot: its modules are elsewhere
	origin     string
	unverified bool   // nothing but the boot ties it to the recording
	reason     Reason // why sym is nil
	detail     string
}

// kernelOf returns the kernel that obj is or is a module of.
func (r *resolver) kernelOf(ctx context.Context, obj *profile.Object) *kernel {
	r.mu.Lock()
	k := r.kernels[obj.Guest]
	if k == nil {
		k = &kernel{}
		r.kernels[obj.Guest] = k
	}
	r.mu.Unlock()
	k.once.Do(func() {
		for i := range r.p.Objects {
			o := &r.p.Objects[i]
			if (o.Kind == profile.KindKernel || o.Kind == profile.KindGuestKernel) && o.Guest == obj.Guest && (k.obj == nil || k.obj.BuildID == "") {
				k.obj = o
			}
		}
		if k.obj != nil {
			k.load(ctx, r)
		} else {
			k.reason = NoKallsyms
		}
	})
	return k
}

// load reads the kernel's kallsyms and finds out by how much they are off.
func (k *kernel) load(ctx context.Context, r *resolver) {
	want := key(k.obj, store.Kallsyms)
	want.RefName, want.RefAddr = k.obj.RefName, k.obj.RefAddr
	sf, err := r.get(ctx, want)
	if err != nil {
		k.reason, k.detail = reason(err, k.obj)
		if k.reason == NotFound || k.reason == NoBuildID {
			k.reason = NoKallsyms
		}
		return
	}
	defer closeFile(sf)
	names := []string{"_stext", "_text", k.obj.RefName}
	read := func(addrs []uint64) (*objfile.Kallsyms, error) {
		return objfile.ReadKallsymsFor(io.NewSectionReader(sf, 0, sf.Size), addrs, names, decode.NewBudget(r.o.Limits))
	}
	addrs := k.addrs(r.p)
	sym, err := read(addrs)
	if err != nil {
		k.reason, k.detail = reason(err, k.obj)
		return
	}
	if k.obj.RefName != "" && k.obj.RefAddr != 0 {
		at, ok := sym.Address(k.obj.RefName)
		if !ok {
			k.reason, k.detail = OtherBoot, sf.Origin
			return
		}
		k.shift = at - k.obj.RefAddr
		k.moved = k.shift != 0
	}
	if k.moved && !sf.Unverified { // the addresses are others
		for i := range addrs {
			addrs[i] += k.shift
		}
		slices.Sort(addrs)
		if sym, err = read(addrs); err != nil {
			k.reason, k.detail = reason(err, k.obj)
			return
		}
	}
	if sf.Unverified && k.moved {
		// Of what is only said to be of the same boot, a shift is the proof
		// that it is not.
		k.reason, k.detail = OtherBoot, sf.Origin
		return
	}
	k.sym, k.origin, k.unverified = sym, sf.Origin, sf.Unverified
}

// addrs returns the addresses of the profile that the kernel or a module of it
// has, in ascending order.
func (k *kernel) addrs(p *profile.Profile) []uint64 {
	of := make([]bool, len(p.Objects))
	for i := range p.Objects {
		switch o := &p.Objects[i]; o.Kind {
		case profile.KindKernel, profile.KindGuestKernel, profile.KindModule, profile.KindGuestModule:
			of[i] = o.Guest == k.obj.Guest
		}
	}
	var out []uint64
	for i := range p.Locations {
		if l := &p.Locations[i]; l.Object != profile.None && of[l.Object] {
			out = append(out, l.Addr)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// kernel names the locations of a kernel image: from a vmlinux of its build
// id, else from kallsyms. Its addresses are those at run time.
func (r *resolver) kernel(ctx context.Context, t *task, obj *profile.Object) {
	if r.vmlinux(ctx, t, obj) {
		return
	}
	k := r.kernelOf(ctx, obj)
	if k.sym == nil {
		t.out.Reason, t.out.Detail = k.reason, k.detail
		return
	}
	t.out.Kallsyms = true
	t.out.Unverified = t.out.Unverified || k.unverified
	t.out.Origins = append(t.out.Origins, k.origin)
	t.name(r.p, kernelSymbols{k, ""}, k.shift, asIs)
}

// kernelSymbols finds the symbols of the kernel, or of one module.
type kernelSymbols struct {
	k      *kernel
	module string
}

func (s kernelSymbols) Find(addr uint64) (int, bool) {
	i, ok := s.k.sym.Find(addr)
	if !ok {
		return 0, false
	}
	m := s.k.sym.Module(i)
	if s.module == "" {
		// The kernel's own, and code that belongs to no file: [bpf],
		// [__builtin__ftrace]. That of another boot is elsewhere.
		return i, m == "" || !s.k.moved
	}
	return i, sameModule(m, s.module)
}

func (s kernelSymbols) Sym(i int) objfile.Sym { return s.k.sym.Sym(i) }

// vmlinux names the locations of a kernel image from an ELF file, and reports
// whether it could.
func (r *resolver) vmlinux(ctx context.Context, t *task, obj *profile.Object) bool {
	if obj.BuildID == "" {
		return false
	}
	f, sf, err := r.open(ctx, key(obj, store.ELF), decode.NewBudget(r.o.Limits))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			t.out.Warnings = append(t.out.Warnings, err.Error())
		}
		return false
	}
	defer closeFile(sf)
	tab, err := f.Symbols(objfile.SymbolOptions{Space: objfile.Addresses})
	if err != nil || f.Quality() < objfile.Symtab {
		return false
	}
	shift, ok := r.imageShift(ctx, obj, tab)
	if !ok {
		t.out.Warnings = append(t.out.Warnings, sf.Origin+": not used: nothing says where the kernel was loaded")
		return false
	}
	t.used(f, sf)
	t.warn(f)
	t.name(r.p, tab, shift, asIs)
	r.kernelLines(ctx, t, obj, []objectFile{{f, sf, 0}}, shift, objfile.Offsets)
	return true
}

// imageShift returns what must be added to a recorded address to get that in
// a vmlinux: by the recorded reference symbol, or by a symbol that kallsyms of
// the same boot has too.
func (r *resolver) imageShift(ctx context.Context, obj *profile.Object, tab *objfile.Table) (uint64, bool) {
	if obj.RefName != "" && obj.RefAddr != 0 {
		at, ok := tab.Address(obj.RefName)
		return at - obj.RefAddr, ok
	}
	k := r.kernelOf(ctx, obj)
	if k.sym == nil {
		return 0, false
	}
	for _, name := range [...]string{"_stext", "_text"} {
		run, ok := k.sym.Address(name)
		at, ok2 := tab.Address(name)
		if ok && ok2 {
			return at - run, true
		}
	}
	return 0, false
}

// module names the locations of a kernel module: from kallsyms of the same
// boot, which has run-time addresses, else from the module's file, whose
// code the kernel lays out in a known way.
func (r *resolver) module(ctx context.Context, t *task, obj *profile.Object) {
	defer r.moduleLines(ctx, t, obj)
	k := r.kernelOf(ctx, obj)
	if k.sym != nil && !k.moved {
		t.name(r.p, kernelSymbols{k, moduleName(obj)}, 0, asIs)
		if len(t.funcs) > 0 {
			t.out.Kallsyms = true
			t.out.Origins = append(t.out.Origins, k.origin)
			return
		}
	}
	if obj.BuildID == "" || obj.Start == 0 {
		t.out.Reason = NoModule
		if k.sym == nil && k.reason != NoKallsyms {
			t.out.Reason, t.out.Detail = k.reason, k.detail
		}
		return
	}
	f, sf, err := r.open(ctx, key(obj, store.ELF), decode.NewBudget(r.o.Limits))
	if err != nil {
		t.out.Reason, t.out.Detail = reason(err, obj)
		if t.out.Reason == NotFound {
			t.out.Reason = NoModule
		}
		return
	}
	defer closeFile(sf)
	t.used(f, sf)
	o := objfile.SymbolOptions{Space: objfile.Loaded}
	if f.Type() != objfile.TypeRel {
		t.out.Reason, t.out.Detail = Damaged, sf.Origin+": not a relocatable file, which modules are"
		return
	}
	tab, err := f.Symbols(o)
	t.warn(f)
	if err != nil {
		t.out.Reason, t.out.Detail = reason(err, obj)
		return
	}
	t.name(r.p, tab, -obj.Start, asIs)
}

// moduleName returns the name of a module as the kernel has it: of "[name]"
// or ".../name.ko.xz".
func moduleName(obj *profile.Object) string {
	name := obj.Path
	if !strings.HasPrefix(name, "[") {
		name = path.Base(name)
		if i := strings.LastIndex(name, ".ko"); i > 0 {
			name = name[:i]
		}
	}
	return strings.Trim(name, "[]")
}

// sameModule compares names of modules, in which - and _ are the same.
func sameModule(a, b string) bool {
	return strings.ReplaceAll(a, "-", "_") == strings.ReplaceAll(b, "-", "_")
}
