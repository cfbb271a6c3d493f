package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/objfile"
)

const (
	kcoreText = 0xffffffff9d000000
	kcoreMod  = 0xffffffffc0100000
)

const kcoreSymsText = "0000000000000000 A fixed_percpu_data\n" +
	"ffffffff9d000000 T _stext\nffffffff9d000000 T _text\nffffffff9d000010 T schedule\nffffffff9d001800 T _etext\n" +
	"ffffffffc0100010 t mod_work\t[my_mod]\n"

const kcoreModText = "my_mod 8192 1 other,another, Live 0xffffffffc0100000\nhidden 4096 0 - Live 0x0000000000000000\n"

// writeKcore makes a directory as /proc: of a kernel with two pages of code and
// a module with two.
func writeKcore(t *testing.T, dir string, order binary.AppendByteOrder) (text, mod []byte) {
	t.Helper()
	text, mod = bytes.Repeat([]byte{0x90, 0x91, 0x92, 0x93}, 2048), bytes.Repeat([]byte{0xa0, 0xa1}, 4096)
	segments := []perftest.CoreSegment{
		{Addr: 0xffff888000000000, Data: make([]byte, 4096), Size: 64 << 40},
		{Addr: kcoreText - 4096, Data: append(make([]byte, 4096), append(text, make([]byte, 4096)...)...)},
		{Addr: kcoreMod, Data: mod},
	}
	write(t, dir+"/kcore", perftest.Core(uint16(objfile.MachineX86_64), order, segments...))
	write(t, dir+"/kallsyms", []byte(kcoreSymsText))
	write(t, dir+"/modules", []byte(kcoreModText))
	return text, mod
}

// kcoreKey asks for the copy of the boot of writeKcore.
func kcoreKey(kind Kind) Key {
	return Key{ID: testID(1, 20), Kind: kind, Path: kernelName, RefName: "_text", RefAddr: kcoreText, Module: "/lib/modules/6.1/my-mod.ko.xz", ModuleAddr: kcoreMod}
}

// TestReadKcore: of a kernel's memory the code is copied, and nothing else.
func TestReadKcore(t *testing.T) {
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		dir := t.TempDir()
		text, mod := writeKcore(t, dir, order)
		k, err := ReadKcore(dir)
		if err != nil {
			t.Fatal(err)
		}
		if string(k.Kallsyms) != kcoreSymsText || string(k.Modules) != kcoreModText {
			t.Errorf("%v: kallsyms %q, modules %q", order, k.Kallsyms, k.Modules)
		}
		if want := perftest.Core(uint16(objfile.MachineX86_64), order, perftest.CoreSegment{Addr: kcoreText, Data: text}, perftest.CoreSegment{Addr: kcoreMod, Data: mod}); !bytes.Equal(k.Core, want) {
			t.Errorf("%v: %d bytes, want %d, or they differ", order, len(k.Core), len(want))
		}
	}
}

// TestKcoreCache: copies are kept where perf keeps them, are found by the boot,
// and one is not kept twice.
func TestKcoreCache(t *testing.T) {
	dir := t.TempDir()
	writeKcore(t, dir, binary.LittleEndian)
	k, err := ReadKcore(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := Cache(t.TempDir())
	id := testID(1, 20)
	other := *k
	other.Kallsyms = []byte(strings.ReplaceAll(kcoreSymsText, "ffffffff9d", "ffffffff9e"))
	for i, x := range []struct {
		k      *Kcore
		stamp  string
		stored bool
	}{{k, "2026010203040506", true}, {&other, "2026010203040507", true}, {k, "2026010203040508", false}} {
		at, stored, err := c.PutKcore(t.Context(), id, x.k, x.stamp, PutOptions{})
		if err != nil || stored != x.stored || x.stored != (filepath.Base(at) == x.stamp) {
			t.Errorf("%d: %q, stored %v, %v", i, at, stored, err)
		}
	}
	for kind, want := range map[Kind][]byte{KCore: k.Core, KCoreKallsyms: k.Kallsyms, KCoreModules: k.Modules} {
		if got := contents(t, c, kcoreKey(kind)); !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, want %d", kind, len(got), len(want))
		}
	}
	// Without a copy of kallsyms alone, names come from there, too.
	if got := contents(t, c, Key{ID: id, Kind: Kallsyms, Path: kernelName, RefName: "_text", RefAddr: kcoreText}); string(got) != kcoreSymsText {
		t.Errorf("kallsyms: %q", got)
	}
	list, err := c.List(t.Context())
	if err != nil || len(list) != 6 {
		t.Errorf("%d files, %v: %+v", len(list), err, list)
	}
	fi, err := os.Stat(filepath.Join(c.Dir(), list[0].File))
	if err != nil || fi.Mode().Perm() != 0o400 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
	if got, err := KcoreID(filepath.Join(c.Dir(), kcoreName, id.String(), "2026010203040506")); err != nil || got != id {
		t.Errorf("id %s, %v", got, err)
	}
	for why, change := range map[string]func(*Key){
		"another address":   func(k *Key) { k.RefAddr += 4096 },
		"another symbol":    func(k *Key) { k.RefName = "_begin" },
		"nothing recorded":  func(k *Key) { k.RefName, k.RefAddr = "", 0 },
		"module elsewhere":  func(k *Key) { k.ModuleAddr += 4096 },
		"module not loaded": func(k *Key) { k.Module = "[gone]" },
	} {
		key := kcoreKey(KCore)
		change(&key)
		if f, err := c.Get(t.Context(), key); !errors.Is(err, fs.ErrNotExist) || len(Refusals(err)) == 0 {
			t.Errorf("%s: %v, %v", why, f, err)
		}
	}
	none := kcoreKey(KCore)
	none.ID = testID(2, 20)
	testNone(t, c, none)
	gone, err := c.Remove(t.Context(), RemoveOptions{ID: id})
	if err != nil || len(gone) != 6 {
		t.Errorf("removed %d, %v", len(gone), err)
	}
}

// TestReadKcoreHostile: sizes are what kallsyms and modules say, and what is
// not there is not made.
func TestReadKcoreHostile(t *testing.T) {
	for _, tt := range []struct {
		name, file, text, err string
	}{
		{"kernel of 2 GiB", "kallsyms", "ffffffff80000000 T _stext\nffffffffffff0000 T _etext\n", "code of more than 536870912 bytes"},
		{"modules of 8 EiB", "modules", "m 9223372036854775807 0 - Live 0x10000\n", "code of more than 536870912 bytes"},
		{"end before start", "kallsyms", "ffffffff9d000000 T _etext\nffffffff9d001000 T _stext\n", "no _stext and _etext"},
		{"end at the end", "kallsyms", "ffffffff9d000000 T _stext\nffffffffffffffff T _etext\n", "no _stext and _etext"},
		{"restricted", "kallsyms", "0000000000000000 T _stext\n0000000000000000 T _etext\n", "kptr_restrict"},
		{"no list", "kallsyms", "\x7fELF", "not a list of kernel symbols"},
		{"no code there", "kallsyms", "ffffffff00000000 T _stext\nffffffff00001000 T _etext\n", ""},
		{"not a core", "kcore", "MZ", "kcore: "},
		{"a program", "kcore", string(perftest.Core(62, binary.LittleEndian)[:16]) + "\x02\x00", "kcore: "},
		{"cut off", "kcore", string(perftest.Core(62, binary.LittleEndian, perftest.CoreSegment{Addr: kcoreText, Data: make([]byte, 4096), Size: 1 << 40})), "0x2000 bytes at 0xffffffff9d000000: beyond the end of the file"},
	} {
		dir := t.TempDir()
		writeKcore(t, dir, binary.LittleEndian)
		write(t, dir+"/"+tt.file, []byte(tt.text))
		k, err := ReadKcore(dir)
		if tt.err == "" {
			if err != nil || len(k.Core) > 5*4096 {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.err)
		}
	}
	dir := t.TempDir()
	writeKcore(t, dir, binary.LittleEndian)
	if err := os.Remove(dir + "/kcore"); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadKcore(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without kcore: %v", err)
	}
}

// FuzzReadKcore: whatever the three files are, the copy is bounded.
func FuzzReadKcore(f *testing.F) {
	f.Add([]byte(kcoreSymsText), []byte(kcoreModText), perftest.Core(62, binary.LittleEndian, perftest.CoreSegment{Addr: kcoreText, Data: make([]byte, 8192)}))
	f.Add([]byte("ffffffff9d000000 T _stext\nffffffff9d001000 T _etext\n"), []byte{}, perftest.Core(22, binary.BigEndian, perftest.CoreSegment{Addr: kcoreText, Data: make([]byte, 4096), Size: 1 << 60}))
	f.Fuzz(func(t *testing.T, syms, mods, core []byte) {
		dir := t.TempDir()
		for name, b := range map[string][]byte{"kallsyms": syms, "modules": mods, "kcore": core} {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		k, err := ReadKcore(dir)
		if err != nil {
			return
		}
		if len(k.Core) > len(core)*maxPieces+1<<20 {
			t.Errorf("%d bytes of %d", len(k.Core), len(core))
		}
		if _, err := objfile.Open(bytes.NewReader(k.Core), int64(len(k.Core)), "copy", nil); err != nil {
			t.Error(err)
		}
	})
}
