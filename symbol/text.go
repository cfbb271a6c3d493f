package symbol

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/store"
)

// Text is the machine code of an object.
type Text struct {
	Machine    objfile.Machine
	Bits       int    // 32 or 64
	Flags      uint32 // of the machine, see objfile.File.Flags
	Big        bool   // the most significant byte comes first
	Origin     string
	Unverified bool // nothing but its path ties the file to the recording
	Padded     bool // functions end where the next one begins: the last instructions may be padding

	slim string // path of the object, if the file is a slim copy of it
	code io.ReaderAt
	off  func(addr uint64) (off, size uint64, ok bool) // place in code, and how much follows
	link func(addr uint64) (uint64, bool)
	back func(link uint64) (uint64, bool)
	name func(addr uint64) string
	done func()

	labels *objfile.Table    // in the space of Address; nil if there are none
	kernel *objfile.Kallsyms // of a copy of kernel memory, in place of labels; else nil
	names  map[uint64]string
}

// A TextError says why there is no machine code of an object.
type TextError struct {
	Object string // its path
	Reason Reason
	Detail string // particulars; "" if there are none
	Hint   string // what would help; "" if nothing would
}

func (e *TextError) Error() string {
	if e.Detail != "" {
		return fmt.Sprintf("%s: %s (%s)", e.Object, e.Reason, e.Detail)
	}
	return e.Object + ": " + string(e.Reason)
}

// OpenText opens the machine code of an object of a profile: of a program the
// file that was mapped, of the kernel its vmlinux, of code made at run time
// its jitdump. No file with another Build ID than the recorded one is used.
// The error is a *TextError.
func OpenText(ctx context.Context, p *profile.Profile, object int32, o Options) (*Text, error) {
	r := &resolver{p: p, o: o, kernels: map[int32]*kernel{}}
	obj := &p.Objects[object]
	fail := func(reason Reason, detail string) error {
		return &TextError{Object: obj.Path, Reason: reason, Detail: detail, Hint: reason.textHint(obj.Path)}
	}
	switch obj.Kind {
	case profile.KindJIT:
		t, err := r.jitText(ctx, obj)
		if err != nil {
			why, detail := reason(err, obj)
			if why == NotFound || why == NoBuildID {
				why = NoJITDump
			}
			return nil, fail(why, detail)
		}
		return t, nil
	case profile.KindPerfMap:
		return nil, fail(NoJITCode, "")
	case profile.KindBPF:
		t, ok := bpfText(p, object, o)
		if !ok {
			return nil, fail(NoBPFCode, "")
		}
		r.labelBPF(ctx, t, obj)
		return t, nil
	case profile.KindSpecial, profile.KindUnnamed:
		return nil, fail(NotCode, "")
	}
	t, err := r.fileText(ctx, obj)
	if err == nil {
		return t, nil
	}
	why, detail := reason(err, obj)
	if (why == NotFound || why == NoBuildID) && obj.Kind != profile.KindFile {
		why = NoVmlinux
	}
	if isKernel(obj) {
		t, kerr := r.kcoreText(ctx, obj)
		if kerr == nil {
			return t, nil
		}
		if x := store.MostTelling(kerr); x != nil && (detail == "" || x.Reason == store.OtherBoot) {
			detail = x.Error()
		}
	}
	return nil, fail(why, detail)
}

// isKernel reports whether obj is a kernel or a module of one.
func isKernel(obj *profile.Object) bool {
	switch obj.Kind {
	case profile.KindKernel, profile.KindGuestKernel, profile.KindModule, profile.KindGuestModule:
		return true
	}
	return false
}

// fileText opens the code in the file of obj.
func (r *resolver) fileText(ctx context.Context, obj *profile.Object) (*Text, error) {
	f, sf, err := r.open(ctx, key(obj, textKind(obj)), decode.NewBudget(r.o.Limits))
	if err != nil {
		return nil, err
	}
	t := &Text{
		Machine: f.Machine(), Bits: f.Class(), Flags: f.Flags(), Big: f.Big(), Origin: sf.Origin, Unverified: sf.Unverified,
		code: sf, done: func() { closeFile(sf) },
	}
	if f.IsSlim() {
		t.slim = obj.Path
	}
	t.name = func(addr uint64) string {
		off, _, ok := t.off(addr)
		if !ok {
			return ""
		}
		return f.SectionAt(off)
	}
	if f.Type() != objfile.TypeRel {
		r.label(ctx, t, f, obj)
	}
	switch {
	case f.DebugOnly():
		err = objfile.ErrNoRuntime
	case obj.Kind == profile.KindKernel || obj.Kind == profile.KindGuestKernel:
		err = r.kernelText(ctx, t, f, obj)
	case f.Type() == objfile.TypeRel && isKernel(obj):
		t.moduleText(f, obj.Start)
	default:
		size := uint64(max(sf.Size, 0))
		t.off = func(addr uint64) (uint64, uint64, bool) { return addr, size - min(addr, size), addr < size }
		t.link, t.back = f.Address, f.FileOffset
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// kcoreText opens the code of a kernel or a module in a copy of the memory that
// it was in, at the addresses that it ran at.
func (r *resolver) kcoreText(ctx context.Context, obj *profile.Object) (*Text, error) {
	k := r.kernelOf(ctx, obj)
	if k.obj == nil {
		return nil, fmt.Errorf("the kernel of %s: %w", obj.Path, fs.ErrNotExist)
	}
	want := key(k.obj, store.KCore)
	want.RefName, want.RefAddr = k.obj.RefName, k.obj.RefAddr
	if obj != k.obj && (obj.Kind == profile.KindModule || obj.Kind == profile.KindGuestModule) {
		want.Module, want.ModuleAddr = moduleName(obj), obj.Start
	}
	sf, err := r.get(ctx, want)
	if err != nil {
		return nil, err
	}
	f, err := objfile.Open(sf, sf.Size, sf.Origin, decode.NewBudget(r.o.Limits))
	if err == nil && f.Type() != objfile.TypeCore {
		err = fmt.Errorf("%s: not a core file", sf.Origin)
	}
	if err != nil {
		closeFile(sf)
		return nil, err
	}
	same := func(addr uint64) (uint64, bool) { return addr, true }
	t := &Text{
		Machine: f.Machine(), Bits: f.Class(), Flags: f.Flags(), Big: f.Big(), Origin: sf.Origin, Unverified: sf.Unverified, Padded: true,
		code: sf, off: f.Segment, link: same, back: same, done: func() { closeFile(sf) },
		// As objdump calls what is in no section.
		name: func(uint64) string { return "load0" },
	}
	// Names are of the same boot; without them addresses are numbers.
	want.Kind = store.KCoreKallsyms
	if kf, err := r.get(ctx, want); err == nil {
		t.kernel, _ = objfile.ReadKallsyms(io.NewSectionReader(kf, 0, kf.Size), decode.NewBudget(r.o.Limits))
		closeFile(kf)
	}
	return t, nil
}

// label finds the symbols of f, the code of obj, or those of its debug file if
// that has more. What cannot be had is not named.
func (r *resolver) label(ctx context.Context, t *Text, f *objfile.File, obj *profile.Object) {
	o := objfile.SymbolOptions{Space: objfile.Addresses, Labels: true}
	if k := key(obj, store.Debug); f.Quality() < objfile.Symtab && textKind(obj) == store.ELF {
		if k.ID == "" {
			k.ID = f.BuildID()
		}
		if debug, df, err := r.openDebug(ctx, k, f, decode.NewBudget(r.o.Limits)); err == nil {
			if t.labels, err = debug.SymbolsWith(f, o); err == nil {
				done := t.done
				t.done = func() { closeFile(df); done() }
				return
			}
			closeFile(df)
		}
	}
	t.labels, _ = f.Symbols(o)
}

// textKind returns the kind of the file with the code of obj.
func textKind(obj *profile.Object) store.Kind {
	if obj.Kind == profile.KindVDSO {
		return store.VDSO
	}
	return store.ELF
}

// jitText opens the code in a jitdump, in which addresses are places.
func (r *resolver) jitText(ctx context.Context, obj *profile.Object) (*Text, error) {
	sf, err := r.get(ctx, key(obj, store.JITDump))
	if err != nil {
		return nil, err
	}
	d, err := objfile.ReadJITDump(sf, sf.Size, decode.NewBudget(r.o.Limits))
	if err != nil {
		closeFile(sf)
		return nil, err
	}
	run := func(off uint64) (uint64, bool) {
		i, ok := d.Find(off)
		if !ok {
			return 0, false
		}
		return d.Code[i].Addr + off - uint64(d.Code[i].Off), true
	}
	return &Text{
		Machine: d.Machine, Bits: d.Machine.Bits(), Big: d.Big, Origin: sf.Origin, code: sf,
		off: func(addr uint64) (uint64, uint64, bool) {
			i, ok := d.Find(addr)
			if !ok {
				return 0, 0, false
			}
			s := d.Sym(i)
			return addr, s.End - addr, true
		},
		link: run,
		back: func(uint64) (uint64, bool) { return 0, false }, // which of the pieces at one address is not known
		done: func() { closeFile(sf) },
	}, nil
}

// bpfText is the code that the recording has of a BPF program; ok is false if
// it has none.
func bpfText(p *profile.Profile, object int32, o Options) (t *Text, ok bool) {
	var machine objfile.Machine
	for i := range p.Locations {
		if l := &p.Locations[i]; o.BPFCode != nil && !ok && l.Object == object {
			_, machine, ok = o.BPFCode(l.Addr)
		}
	}
	if !ok {
		return nil, false
	}
	same := func(addr uint64) (uint64, bool) { return addr, true }
	return &Text{
		Machine: machine, Bits: 64, Origin: "the recording", code: bpfReader(o.BPFCode),
		off: func(addr uint64) (uint64, uint64, bool) {
			code, _, ok := o.BPFCode(addr)
			return addr, uint64(len(code)), ok
		},
		link: same, back: same,
	}, true
}

// labelBPF gives the functions of the kernel that a BPF program calls their
// names, if kallsyms is of the boot of the recording.
func (r *resolver) labelBPF(ctx context.Context, t *Text, obj *profile.Object) {
	k := r.kernelOf(ctx, obj)
	if k.sym == nil || k.shift != 0 {
		return
	}
	want := key(k.obj, store.Kallsyms)
	want.RefName, want.RefAddr = k.obj.RefName, k.obj.RefAddr
	f, err := r.get(ctx, want)
	if err != nil {
		return
	}
	defer closeFile(f)
	t.kernel, _ = objfile.ReadKallsyms(io.NewSectionReader(f, 0, f.Size), decode.NewBudget(r.o.Limits))
}

// A bpfReader reads code at its addresses.
type bpfReader func(addr uint64) (code []byte, m objfile.Machine, ok bool)

func (r bpfReader) ReadAt(b []byte, addr int64) (int, error) {
	code, _, _ := r(uint64(addr))
	n := copy(b, code)
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// Places returns where in an object a symbol begins that is not the one it is
// called by, in the space of Location.Addr: name is as in the symbol table, or
// as printed.
func Places(ctx context.Context, p *profile.Profile, object int32, name string, o Options) ([]uint64, error) {
	t, err := OpenText(ctx, p, object, o)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	var out []uint64
	if t.kernel != nil {
		for i := range t.kernel.Len() {
			if s := t.kernel.Sym(i); s.Name == name {
				out = append(out, s.Start)
			}
		}
		return out, nil
	}
	if t.labels == nil {
		return nil, nil
	}
	for s := range t.labels.All {
		if s.Name != name && (len(s.Name) <= len(name) || objfile.Demangle(s.Name) != name) {
			continue
		}
		if at, ok := t.back(s.Start); ok {
			out = append(out, at)
		}
	}
	return out, nil
}

// kernelText makes t the code of a vmlinux, which was moved when it started.
func (r *resolver) kernelText(ctx context.Context, t *Text, f *objfile.File, obj *profile.Object) error {
	tab, err := f.Symbols(objfile.SymbolOptions{Space: objfile.Addresses})
	if err != nil {
		return err
	}
	shift, ok := r.imageShift(ctx, obj, tab)
	if !ok {
		return errors.New("nothing says where the kernel was loaded")
	}
	t.link = func(addr uint64) (uint64, bool) { return addr + shift, true }
	t.back = func(link uint64) (uint64, bool) { return link - shift, true }
	t.off = func(addr uint64) (uint64, uint64, bool) {
		off, ok := f.FileOffset(addr + shift)
		return off, uint64(max(f.Size(), 0)) - min(off, uint64(max(f.Size(), 0))), ok
	}
	return nil
}

// moduleText makes t the code of a kernel module, which is in a relocatable
// file: objdump counts in each section from 0.
func (t *Text) moduleText(f *objfile.File, start uint64) {
	t.off = func(addr uint64) (uint64, uint64, bool) {
		s, ok := f.LoadedSection(addr - start)
		return s.Off + (addr - start - s.Addr), s.Size - (addr - start - s.Addr), ok
	}
	t.link = func(addr uint64) (uint64, bool) {
		s, ok := f.LoadedSection(addr - start)
		return addr - start - s.Addr, ok
	}
	t.back = func(uint64) (uint64, bool) { return 0, false } // calls are relocations
}

// Read reads the code at an address, in the space of Location.Addr. It returns
// less than buf holds where the code ends; none if there is none. The error of
// code that a slim copy lacks is a *TextError.
func (t *Text) Read(addr uint64, buf []byte) (int, error) {
	off, size, ok := t.off(addr)
	if !ok {
		return 0, fmt.Errorf("%s: no code at 0x%x: %w", t.Origin, addr, fs.ErrNotExist)
	}
	n, err := t.code.ReadAt(buf[:min(uint64(len(buf)), size)], int64(off))
	if err == io.EOF {
		err = nil
	}
	if t.slim != "" && leftOut(off, buf[:n]) {
		return 0, &TextError{Object: t.slim, Reason: LeftOut, Detail: t.Origin, Hint: LeftOut.textHint(t.slim)}
	}
	return n, err
}

// leftOut reports whether a slim copy lacks a part of the code at off: it was
// made for another recording. Code is kept in pieces of 64 bytes, and zeros
// stand for the others. An end of a function that is shorter may be zeros by
// itself.
func leftOut(off uint64, code []byte) bool {
	const piece, few = 64, 16
	if len(code) > 0 && len(bytes.Trim(code, "\x00")) == 0 {
		return true
	}
	for len(code) > 0 {
		n := min(piece-off%piece, uint64(len(code)))
		if n >= few && len(bytes.Trim(code[:n], "\x00")) == 0 {
			return true
		}
		off, code = off+n, code[n:]
	}
	return false
}

// Address returns the address that a place has in the file as it was linked,
// which is what objdump prints.
func (t *Text) Address(addr uint64) (uint64, bool) { return t.link(addr) }

// Location is the inverse of Address, as far as it is known.
func (t *Text) Location(link uint64) (uint64, bool) { return t.back(link) }

// Name returns what GNU objdump -C calls an address as linked: the symbol
// before it and the distance; "" if there is none. It is not for several
// goroutines at a time.
func (t *Text) Name(link uint64) string {
	if t.kernel != nil {
		s, _, ok := t.kernel.Lookup(link)
		switch {
		case !ok:
			return ""
		case link == s.Start:
			return s.Name
		}
		return fmt.Sprintf("%s+0x%x", s.Name, link-s.Start)
	}
	if t.labels == nil {
		return ""
	}
	s, ok := t.labels.Before(link)
	if !ok || s.Start != link {
		if name, ok := t.labels.Slot(link); ok {
			return objfile.DemangleFull(name)
		}
	}
	if !ok {
		return ""
	}
	name, ok := t.names[s.Start]
	if !ok {
		if name = objfile.DemangleFull(s.Name); len(t.names) == maxLabels || t.names == nil {
			t.names = map[uint64]string{}
		}
		t.names[s.Start] = name
	}
	switch {
	case link == s.Start:
		return name
	case link < s.Start:
		return fmt.Sprintf("%s-0x%x", name, s.Start-link)
	}
	return fmt.Sprintf("%s+0x%x", name, link-s.Start)
}

// Thumb reports whether the function at an address as linked is Thumb code.
func (t *Text) Thumb(link uint64) bool { return t.labels != nil && t.labels.Thumb(link) }

// maxLabels is how many names a Text remembers.
const maxLabels = 1 << 16

// Section returns the name of the section with the code at an address; "" if
// there is none.
func (t *Text) Section(addr uint64) string {
	if t.name == nil {
		return ""
	}
	return t.name(addr)
}

// Close closes the file of the code.
func (t *Text) Close() {
	if t.done != nil {
		t.done()
	}
}
