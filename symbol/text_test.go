package symbol_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/store"
	"github.com/perfark/perfark/symbol"
)

// openText opens the code of the first object of p.
func openText(t *testing.T, p *profile.Profile, src store.Source) *symbol.Text {
	t.Helper()
	x, err := symbol.OpenText(t.Context(), p, 0, symbol.Options{Source: src})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		x.Close()
		if f, ok := src.(*fake); ok && f.open.Load() != 0 {
			t.Errorf("%d files are still open", f.open.Load())
		}
	})
	return x
}

// code reads up to n bytes of code.
func code(t *testing.T, x *symbol.Text, addr uint64, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	m, err := x.Read(addr, b)
	if err != nil {
		t.Fatalf("0x%x: %v", addr, err)
	}
	return b[:m]
}

// TestTextFile: the code of a program is that of its file, at the places and
// addresses that debug/elf has.
func TestTextFile(t *testing.T) {
	for _, flags := range [][]string{nil, {"-no-pie"}, {"-static"}} {
		b, id, leaf := program(t, flags...)
		x := openText(t, one(profile.Object{Path: "/bin/spin", BuildID: id}, leaf), &fake{files: map[store.Key][]byte{{ID: id, Kind: store.ELF}: b}})
		f, err := elf.NewFile(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		syms, err := f.Symbols()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range syms {
			if s.Name != "hot_leaf" {
				continue
			}
			if got := code(t, x, leaf, int(s.Size)); !bytes.Equal(got, b[leaf:leaf+s.Size]) {
				t.Errorf("%q: % x", flags, got)
			}
			link, ok := x.Address(leaf)
			back, ok2 := x.Location(link)
			if link != s.Value || !ok || back != leaf || !ok2 {
				t.Errorf("%q: 0x%x, %v and back 0x%x, %v, want 0x%x, 0x%x", flags, link, ok, back, ok2, s.Value, leaf)
			}
			if a, b := x.Name(link), x.Name(link+3); a != "hot_leaf" || b != "hot_leaf+0x3" {
				t.Errorf("%q: names %q, %q", flags, a, b)
			}
			if got := x.Section(leaf); got != ".text" {
				t.Errorf("%q: section %q", flags, got)
			}
		}
		if x.Unverified || x.Bits != map[elf.Class]int{elf.ELFCLASS32: 32, elf.ELFCLASS64: 64}[f.Class] || x.Machine != objfile.Machine(f.Machine) {
			t.Errorf("%q: %+v", flags, x)
		}
		if got, err := x.Read(uint64(len(b))+10, make([]byte, 4)); got != 0 || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: behind the end: %d, %v", flags, got, err)
		}
		if got := code(t, x, uint64(len(b))-2, 16); len(got) != 2 {
			t.Errorf("%q: at the end: % x", flags, got)
		}
	}
}

// TestTextSlim: code that a slim copy was made without is not there, rather than
// zeros; what it was made with is.
func TestTextSlim(t *testing.T) {
	const source = `
__attribute__((noinline, aligned(65536))) long kept(long n) { long s = 0; while (n--) s += n * n ^ s >> 3; return s; }
__attribute__((noinline, aligned(65536))) long other(long n) { long s = 0; while (n--) s -= n * n ^ s >> 5; return s; }
__attribute__((noinline, aligned(65536))) long tiny(void) { return 0; }
int main(int c, char **v) { (void)v; return kept(c) + other(c) + tiny(); }
`
	b := read(t, perftest.CC(t, "apart", source, "-O1", "-Wl,--build-id=uuid"))
	f, err := objfile.Open(bytes.NewReader(b), int64(len(b)), "apart", nil)
	if err != nil {
		t.Fatal(err)
	}
	tab, err := f.Symbols(objfile.SymbolOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kept, _ := tab.Address("kept")
	z, err := f.Slim(objfile.SlimOptions{Code: []objfile.Span{{Start: int64(kept), End: int64(kept + 64)}}})
	if err != nil {
		t.Fatal(err)
	}
	slim := make([]byte, len(b))
	if _, err := z.ReadAt(bytes.NewReader(b), int64(len(b)), slim, 0); err != nil {
		t.Fatal(err)
	}
	x := openText(t, one(profile.Object{Path: "/bin/apart", BuildID: f.BuildID()}, kept), &fake{files: map[store.Key][]byte{{ID: f.BuildID(), Kind: store.ELF}: slim}})
	if got := code(t, x, kept, 32); !bytes.Equal(got, b[kept:kept+32]) {
		t.Errorf("% x, want % x", got, b[kept:kept+32])
	}
	for name, size := range map[string]int{"other": 32, "tiny": 3} {
		at, ok := tab.Address(name)
		n, err := x.Read(at, make([]byte, size))
		why, is := errors.AsType[*symbol.TextError](err)
		if !ok || n != 0 || !is || why.Reason != symbol.LeftOut || why.Object != "/bin/apart" || !strings.Contains(why.Hint, "--slim") {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
	}
}

// TestTextVDSO: the code of the vDSO is its image.
func TestTextVDSO(t *testing.T) {
	id, err := store.RunningVDSO()
	if err != nil {
		t.Skipf("NOTICE: no vDSO here: %v", err)
	}
	host := store.Host(store.HostOptions{})
	f, err := host.Get(t.Context(), store.Key{ID: id, Kind: store.VDSO, Path: "[vdso]"})
	if err != nil {
		t.Fatal(err)
	}
	image := make([]byte, f.Size)
	if _, err := f.ReadAt(image, 0); err != nil {
		t.Fatal(err)
	}
	f.Close()
	e, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		t.Fatal(err)
	}
	syms, err := e.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	x := openText(t, one(profile.Object{Kind: profile.KindVDSO, Path: "[vdso]", BuildID: id}, 0), host)
	n := 0
	for _, s := range syms {
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Size == 0 {
			continue
		}
		at, ok := x.Location(s.Value)
		if got := code(t, x, at, int(s.Size)); !ok || !bytes.Equal(got, image[s.Value:s.Value+s.Size]) {
			t.Errorf("%s: 0x%x, %v: % x", s.Name, at, ok, got)
		}
		if got := x.Name(s.Value); got == "" || strings.Contains(got, "+") {
			t.Errorf("%s: name %q", s.Name, got)
		}
		n++
	}
	if n == 0 || x.Section(syms[0].Value) == "" {
		t.Errorf("%d functions", n)
	}
	_, err = symbol.OpenText(t.Context(), one(profile.Object{Kind: profile.KindVDSO, Path: "[vdso]", BuildID: "another"}, 0), 0, symbol.Options{Source: host})
	if te, ok := errors.AsType[*symbol.TextError](err); !ok || te.Object != "[vdso]" {
		t.Errorf("another kernel's: %v", err)
	}
}

// jitdump makes one with a piece of code at 0x7f0000, in either byte order.
func jitdump(o binary.AppendByteOrder, machine uint32, code string) []byte {
	u32 := func(b []byte, v ...uint32) []byte {
		for _, x := range v {
			b = o.AppendUint32(b, x)
		}
		return b
	}
	b := u32(nil, 0x4a695444, 1, 40, machine, 0, 77)
	b = o.AppendUint64(o.AppendUint64(b, 5), 0)
	body := u32(nil, 77, 78)
	for _, v := range []uint64{0x7f0000, 0x7f0000, uint64(len(code)), 1} {
		body = o.AppendUint64(body, v)
	}
	body = append(append(body, "hot\x00"...), code...)
	b = u32(b, 0, uint32(16+len(body)))
	b = o.AppendUint64(b, 10)
	return append(b, body...)
}

// TestTextJIT: code made at run time is in the jitdump, whole pieces of it and
// no more.
func TestTextJIT(t *testing.T) {
	for _, tt := range []struct {
		o       binary.AppendByteOrder
		machine objfile.Machine
	}{{binary.LittleEndian, objfile.MachineX86_64}, {binary.BigEndian, objfile.MachineS390}} {
		const text = "\xff\xc8\x75\xfc\xc3"
		b := jitdump(tt.o, uint32(tt.machine), text)
		at := uint64(bytes.Index(b, []byte(text)))
		obj := profile.Object{Kind: profile.KindJIT, Path: "/tmp/jit-77.dump", PID: 77}
		x := openText(t, one(obj, at), &fake{files: map[store.Key][]byte{{Path: obj.Path, Kind: store.JITDump}: b}})
		if got := code(t, x, at, 100); string(got) != text {
			t.Errorf("% x", got)
		}
		if got := code(t, x, at+2, 2); string(got) != text[2:4] {
			t.Errorf("% x", got)
		}
		if link, ok := x.Address(at + 2); link != 0x7f0002 || !ok {
			t.Errorf("0x%x, %v", link, ok)
		}
		if x.Machine != tt.machine || x.Bits != 64 || x.Big != (tt.machine == objfile.MachineS390) || x.Section(at) != "" {
			t.Errorf("%+v", x)
		}
		if _, err := x.Read(at+uint64(len(text)), make([]byte, 1)); err == nil {
			t.Error("behind the piece: no error")
		}
	}
}

// TestTextKcore: the code of a kernel is at the addresses where it ran.
func TestTextKcore(t *testing.T) {
	const id = buildid.ID("0123456789abcdef0123")
	core := perftest.Core(62, binary.LittleEndian, perftest.CoreSegment{Addr: text, Data: bytes.Repeat([]byte{0x90, 0xc3}, 2048)})
	src := &fake{files: map[store.Key][]byte{{ID: id, Kind: store.KCore}: core, {ID: id, Kind: store.KCoreKallsyms}: []byte(kallsyms)}}
	p := one(profile.Object{Kind: profile.KindKernel, Path: "[kernel.kallsyms]", BuildID: id, RefName: "_stext", RefAddr: text}, text+0x101)
	x := openText(t, p, src)
	if got := code(t, x, text+0x101, 3); string(got) != "\xc3\x90\xc3" {
		t.Errorf("% x", got)
	}
	if got := code(t, x, text+4094, 100); len(got) != 2 {
		t.Errorf("% x", got)
	}
	if link, ok := x.Address(text + 0x101); link != text+0x101 || !ok || !x.Padded || x.Section(text) != "load0" {
		t.Errorf("0x%x, %v, %+v", link, ok, x)
	}
	for addr, want := range map[uint64]string{text + 0x100: "do_one", text + 0x101: "do_one+0x1", 0xffffffffc0001004: "m_run+0x4", 0x1000: ""} {
		if got := x.Name(addr); got != want {
			t.Errorf("0x%x: %q, want %q", addr, got, want)
		}
	}
	if at, err := symbol.Places(t.Context(), p, 0, "do_two", symbol.Options{Source: src}); err != nil || len(at) != 1 || at[0] != text+0x200 {
		t.Errorf("places %x, %v", at, err)
	}
	p.Objects[0].RefName = ""
	src.errs = map[store.Key]error{{ID: id, Kind: store.KCore}: &store.RefusedError{Path: "/k", Reason: store.OtherBoot, Why: "it is of another boot"}}
	_, err := symbol.OpenText(t.Context(), p, 0, symbol.Options{Source: src})
	if te, ok := errors.AsType[*symbol.TextError](err); !ok || te.Reason != symbol.NoVmlinux || !strings.Contains(te.Detail, "it is of another boot") || !strings.Contains(te.Hint, "buildid-cache -k /proc/kcore") {
		t.Errorf("%v", err)
	}
}

// TestTextReasons is O09 and C15: what has no code has a reason, and where
// something helps, a hint.
func TestTextReasons(t *testing.T) {
	const id = buildid.ID("0123456789abcdef0123")
	for _, tt := range []struct {
		obj    profile.Object
		reason symbol.Reason
		hint   string
	}{
		{profile.Object{Kind: profile.KindPerfMap, Path: "/tmp/perf-7.map", PID: 7}, symbol.NoJITCode, "jitdump"},
		{profile.Object{Kind: profile.KindJIT, Path: "/tmp/jit-7.dump", PID: 7}, symbol.NoJITDump, "jitdump"},
		{profile.Object{Kind: profile.KindBPF, Path: "bpf_prog_1"}, symbol.NoBPFCode, "as root"},
		{profile.Object{Kind: profile.KindSpecial, Path: "[heap]"}, symbol.NotCode, ""},
		{profile.Object{Kind: profile.KindUnnamed, Path: "//anon"}, symbol.NotCode, ""},
		{profile.Object{Kind: profile.KindKernel, Path: "[kernel.kallsyms]", BuildID: id}, symbol.NoVmlinux, "vmlinux"},
		{profile.Object{Kind: profile.KindModule, Path: "[m]", BuildID: id}, symbol.NoVmlinux, "vmlinux"},
		{profile.Object{Path: "/bin/x", BuildID: id}, symbol.NotFound, "buildid-cache"},
		{profile.Object{Path: "/bin/x (deleted)", BuildID: id}, symbol.Deleted, ""},
	} {
		x, err := symbol.OpenText(t.Context(), one(tt.obj, 0x1000), 0, symbol.Options{Source: &fake{}})
		te, ok := errors.AsType[*symbol.TextError](err)
		if x != nil || !ok || te.Reason != tt.reason || te.Object != tt.obj.Path || tt.hint != "" && !strings.Contains(te.Hint, tt.hint) {
			t.Errorf("%s: %v, %+v", tt.obj.Path, err, te)
		}
	}
	b, own, leaf := program(t)
	_, err := symbol.OpenText(t.Context(), one(profile.Object{Path: "/bin/spin", BuildID: own}, leaf), 0, symbol.Options{Source: &fake{files: map[store.Key][]byte{{ID: own, Kind: store.ELF}: b[:3]}}})
	if te, ok := errors.AsType[*symbol.TextError](err); !ok || te.Reason != symbol.Damaged {
		t.Errorf("damaged: %v", err)
	}
}
