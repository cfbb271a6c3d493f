package store

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// S58: the layouts of debug directories.
func TestDebugDirs(t *testing.T) {
	id := testID(0xab, 20)
	hex := id.String()
	elf := testELF{id: id, text: "code", symtab: true}.bytes()
	debug := testELF{id: id, text: "code", dwarf: true, debugOnly: true}.bytes()
	for _, tt := range []struct {
		at   string
		b    []byte
		kind Kind
	}{
		{".build-id/ab/" + hex[2:] + ".debug", debug, Debug},
		{"ab/" + hex[2:] + ".debug", debug, Debug},
		{hex + "/debuginfo", debug, Debug},
		{"usr/bin/prog.debug", debug, Debug},
		{"usr/bin/prog", debug, Debug},
		{hex + "/executable", elf, ELF},
		{".build-id/ab/" + hex[2:], elf, ELF},
		{"ab/" + hex[2:], elf, ELF},
		{".build-id/ab/" + hex[2:] + ".debug", elf, ELF}, // an image that was not split
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, tt.at), tt.b)
		s := DebugDirs([]string{filepath.Join(dir, "absent"), dir})
		testSource(t, s, Key{ID: id, Kind: tt.kind, Path: "/usr/bin/prog"}, tt.b)
	}
	// A debug file is not the object, and one of another id is neither.
	dir := t.TempDir()
	write(t, dir+"/ab/"+hex[2:]+".debug", debug)
	write(t, dir+"/"+hex+"/debuginfo", testELF{id: testID(1, 20), text: "x"}.bytes())
	testNone(t, DebugDirs([]string{dir}), Key{ID: id, Kind: ELF}, Replaced)
	os.Remove(dir + "/ab/" + hex[2:] + ".debug")
	testNone(t, DebugDirs([]string{dir}), Key{ID: id, Kind: Debug}, Replaced)
}

// The places of a debug file that an object names, and what is refused there.
func TestDebuglinks(t *testing.T) {
	id := testID(0xab, 20)
	debug := testELF{id: id, text: "code", dwarf: true, debugOnly: true}.bytes()
	noID := testELF{text: "code", dwarf: true, debugOnly: true}.bytes()
	object := func(link []byte) []byte {
		return testELF{id: id, text: "code", link: "prog.debug", linkCRC: crc(link)}.bytes()
	}
	for _, tt := range []struct {
		name string
		at   string // of the debug file; DIR is the object's directory, DEBUG a debug directory
		b    []byte
		crc  []byte // bytes whose CRC the object has
		want []Reason
	}{
		{name: "beside", at: "DIR/prog.debug", b: debug, crc: debug},
		{name: "in .debug", at: "DIR/.debug/prog.debug", b: debug, crc: debug},
		{name: "in the debug directory", at: "DEBUG", b: debug, crc: debug},
		{name: "without an id", at: "DIR/prog.debug", b: noID, crc: noID},
		{name: "other CRC", at: "DIR/prog.debug", b: debug, crc: noID, want: []Reason{Replaced}},
		{name: "other id", at: "DIR/prog.debug", b: testELF{id: testID(1, 20), text: "x"}.bytes(), crc: testELF{id: testID(1, 20), text: "x"}.bytes(), want: []Reason{Replaced}},
		{name: "no object", at: "DIR/prog.debug", b: []byte("text"), crc: []byte("text"), want: []Reason{Malformed}},
		{name: "missing", at: "DIR/other.debug", b: debug, crc: debug, want: nil}, // S32
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, dbg := t.TempDir(), t.TempDir()
			prog := write(t, dir+"/prog", object(tt.crc))
			at := filepath.Join(dbg, dir, "prog.debug")
			if tt.at != "DEBUG" {
				at = dir + tt.at[len("DIR"):]
			}
			write(t, at, tt.b)
			s := Debuglinks(Host(HostOptions{}), []string{dbg})
			k := Key{ID: id, Kind: Debug, Path: prog}
			if len(tt.want) > 0 || tt.name == "missing" {
				testNone(t, s, k, tt.want...)
				return
			}
			testSource(t, s, k, tt.b)
		})
	}
	// The object is not where it was recorded, but in a tree of copies.
	tree, id2 := t.TempDir(), id.String()
	copied := write(t, tree+"/.build-id/"+id2[:2]+"/"+id2[2:], object(debug))
	write(t, filepath.Dir(copied)+"/.debug/prog.debug", debug)
	testSource(t, Debuglinks(DebugDirs([]string{tree}), nil), Key{ID: id, Kind: Debug, Path: "/usr/bin/prog"}, debug)
	root := t.TempDir()
	write(t, root+"/usr/bin/.debug/prog.debug", debug)
	testSource(t, Debuglinks(DebugDirs([]string{tree}), []string{root}), Key{ID: id, Kind: Debug, Path: "/usr/bin/prog"}, debug)
	// S31: a link cut short is ignored; there is just no debug file.
	dir := t.TempDir()
	b := object(debug)
	i := bytes.Index(b, []byte("prog.debug\x00"))
	b = slices.Replace(b, i, i+len("prog.debug\x00"), []byte("prog.debugXX")[:11]...)
	prog := write(t, dir+"/prog", b)
	write(t, dir+"/prog.debug", debug)
	testNone(t, Debuglinks(Host(HostOptions{}), nil), Key{ID: id, Kind: Debug, Path: prog})
	// A link to the object itself.
	prog = write(t, dir+"/self", testELF{id: id, text: "code", link: "self", linkCRC: 1}.bytes())
	testNone(t, Debuglinks(Host(HostOptions{}), nil), Key{ID: id, Kind: Debug, Path: prog}, Replaced)
}

// Multi takes the best whatever the order, the first of equals, and keeps all
// reasons.
func TestMulti(t *testing.T) {
	id := testID(0x21, 20)
	k := Key{ID: id, Kind: ELF, Path: "/bin/tool"}
	stripped := testELF{id: id, text: "code"}.bytes()
	full := testELF{id: id, text: "code", symtab: true, dwarf: true}.bytes()
	bad := testELF{id: testID(1, 20), text: "code"}.bytes()
	at := func(b []byte) Source {
		dir := t.TempDir()
		write(t, dir+"/bin/tool/"+id.String()+"/elf", b)
		return Cache(dir)
	}
	empty := Cache(t.TempDir())
	for _, s := range []Source{
		Multi(at(stripped), at(full)), Multi(at(full), at(stripped)), Multi(empty, at(bad), at(stripped), at(full)),
		Multi(Multi(at(stripped)), Multi(at(full))),
	} {
		testSource(t, s, k, full)
	}
	testNone(t, Multi(), k)
	testNone(t, Multi(empty), k)
	testNone(t, Multi(empty, at(bad), at(bad)), k, Replaced, Replaced)
	f, err := Multi(at(stripped), at(stripped)).Get(t.Context(), k)
	if err != nil || !f.Bound {
		t.Errorf("Get: %+v, %v", f, err)
	}
	f.Close()
}

func TestOneFile(t *testing.T) {
	id := testID(0xab, 20)
	b := testELF{id: id, text: "code"}.bytes()
	name := write(t, t.TempDir()+"/prog", b)
	testSource(t, OneFile(name), Key{ID: id, Kind: ELF, Path: name}, b)
	testNone(t, OneFile(name), Key{ID: testID(1, 20), Kind: ELF}, Replaced)
	f, err := OneFile(name).Get(t.Context(), Key{Kind: ELF, Path: name})
	if err != nil || !f.Unverified {
		t.Errorf("Get: %+v, %v; want an unverified file", f, err)
	} else {
		f.Close()
	}
	if got, err := FileID(name); err != nil || got != id {
		t.Errorf("FileID = %s, %v", got, err)
	}
}

// B19: two programs with one id. What is at the path is used, unless a cache
// has another one for the same path.
func TestMultiCollision(t *testing.T) {
	id := testID(0x11, 20)
	spin := testELF{id: id, text: "spin"}.bytes()
	other := testELF{id: id, text: "zzz_wrong_function", symtab: true, dwarf: true}.bytes()
	prog := write(t, t.TempDir()+"/spin", spin)
	k := Key{ID: id, Kind: ELF, Path: prog}
	elsewhere, here := Cache(t.TempDir()), Cache(t.TempDir())
	put(t, elsewhere, Key{ID: id, Kind: ELF, Path: "/bin/other"}, other, PutOptions{})
	put(t, here, k, other, PutOptions{})
	for _, order := range [][]Source{{Host(HostOptions{}), elsewhere}, {elsewhere, Host(HostOptions{})}} {
		testSource(t, Multi(order...), k, spin)
	}
	testNone(t, Multi(Host(HostOptions{}), here), k, Ambiguous)
}
