package session

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
)

// hostMachine is the machine that was recorded; guests have the pid of their
// process on the host.
const hostMachine = -1

const (
	kernelPath      = "[kernel.kallsyms]"
	guestKernelPath = "[guest.kernel.kallsyms"
	mapHugeTLB      = 0x40000
	protExec        = 4
)

// A fileID tells files of one path apart.
type fileID struct {
	maj, min uint32
	ino, gen uint64
}

// objectKey is the identity of an object. start tells two loads of a module
// apart, whose code then stands at different addresses.
type objectKey struct {
	machine int32
	kind    profile.ObjectKind
	path    string
	id      buildid.ID
	file    fileID
	start   uint64
}

// pathKey is what the BUILD_ID table joins objects by.
type pathKey struct {
	machine int32
	path    string // of modules the name, such as [xt_nat]
}

// objects is the table of all that was mapped.
type objects struct {
	table  []profile.Object
	facts  []objectFacts
	byKey  map[objectKey]int32
	byPath map[pathKey][]int32
	ids    map[pathKey]tableID
}

type objectFacts struct {
	machine int32
	source  IDSource
	mapped  bool
	oneOf   []int32 // it is one of these, and hit if one of them is
}

// A tableID is what BUILD_ID records say about a path.
type tableID struct {
	id       buildid.ID
	conflict bool // they say different things
	object   int32
}

func newObjects() *objects {
	return &objects{
		byKey:  map[objectKey]int32{},
		byPath: map[pathKey][]int32{},
		ids:    map[pathKey]tableID{},
	}
}

// joinName is the name by which the BUILD_ID table knows an object: the table
// may have a module by its path where the map has its name.
func joinName(o *profile.Object) string {
	switch o.Kind {
	case profile.KindModule, profile.KindGuestModule:
		return o.Short
	case profile.KindKernel:
		return kernelPath
	case profile.KindGuestKernel:
		return guestKernelPath
	}
	return o.Path
}

// intern returns the object like o, which it adds if it is new.
func (t *objects) intern(o profile.Object, machine int32) int32 {
	k := objectKey{machine: machine, kind: o.Kind, path: o.Path, id: o.BuildID}
	if o.Kind == profile.KindPerfMap || o.Kind == profile.KindFile {
		// Files without an id are told apart by their inode; one of which
		// nothing is known is taken for the first of its path.
		k.file = fileID{o.Maj, o.Min, o.Ino, o.InoGen}
	}
	switch o.Kind {
	case profile.KindModule, profile.KindGuestModule, profile.KindBPF:
		k.start = o.Start
	case profile.KindJIT:
		k.file, k.start = fileID{o.Maj, o.Min, o.Ino, o.InoGen}, uint64(o.PID)
	}
	if i, ok := t.byKey[k]; ok {
		return i
	}
	pk := pathKey{machine, o.Path}
	if o.Kind == profile.KindFile {
		for _, i := range t.byPath[pk] {
			p := &t.table[i]
			pf := fileID{p.Maj, p.Min, p.Ino, p.InoGen}
			if p.Kind != o.Kind || p.BuildID != o.BuildID || pf != (fileID{}) && k.file != (fileID{}) {
				continue
			}
			if pf == (fileID{}) {
				p.Maj, p.Min, p.Ino, p.InoGen = o.Maj, o.Min, o.Ino, o.InoGen
			}
			t.byKey[k] = i
			return i
		}
	}
	i := int32(len(t.table))
	t.table = append(t.table, o)
	t.facts = append(t.facts, objectFacts{machine: machine})
	t.byKey[k] = i
	t.byPath[pk] = append(t.byPath[pk], i)
	return i
}

// addTable takes an entry of the BUILD_ID table, or a BUILD_ID record of a
// pipe. Each is an object even if nothing was mapped.
func (t *objects) addTable(r *perfdata.BuildIDRecord, src IDSource) {
	mode := r.Misc & perfdata.MiscCPUModeMask
	if mode != perfdata.CPUModeKernel && mode != perfdata.CPUModeUser &&
		mode != perfdata.CPUModeGuestKernel && mode != perfdata.CPUModeGuestUser {
		return
	}
	id := r.BuildID
	if r.Misc&perfdata.MiscBuildIDSize == 0 {
		id = id.Trim()
	}
	if id == "" || r.Name == "" {
		return
	}
	machine := int32(hostMachine)
	if mode == perfdata.CPUModeGuestKernel || mode == perfdata.CPUModeGuestUser {
		machine = r.MachinePID
	}
	var o profile.Object
	if mode == perfdata.CPUModeKernel || mode == perfdata.CPUModeGuestKernel {
		o = kernelObject(r.Name, machine != hostMachine)
	} else {
		o = userObject(r.Name, 0, 0, true)
	}
	o.Guest = guestOf(machine)
	k := pathKey{machine, joinName(&o)}
	old, ok := t.ids[k]
	switch {
	case !ok:
		o.BuildID = id
		i := t.intern(o, machine)
		t.facts[i].source = src
		t.ids[k] = tableID{id: id, object: i}
	case old.id.Match(id):
		if len(id) > len(old.id) && len(old.id) < 20 {
			return
		}
	default:
		o.BuildID = id
		t.facts[t.intern(o, machine)].source = src
		old.conflict = true
		t.ids[k] = old
	}
}

// guestOf is a machine as profile.Object has it.
func guestOf(machine int32) int32 {
	switch machine {
	case hostMachine:
		return 0
	case 0:
		return -1
	}
	return machine
}

// resolve finds or makes the object of a mapping and gives it the id that the
// table has, unless the mapping has its own.
func (t *objects) resolve(o profile.Object, machine int32) int32 {
	if o.Kind == profile.KindKernel {
		if e, ok := t.ids[pathKey{machine, kernelPath}]; ok {
			o.Path, o.Short = t.table[e.object].Path, t.table[e.object].Short
		}
	}
	src := IDMmap
	if o.BuildID == "" {
		src = IDNone
		e, ok := t.ids[pathKey{machine, joinName(&o)}]
		switch {
		case !ok || !hasID(o.Kind):
		case e.conflict:
			src = IDAmbiguous
		default:
			o.BuildID, src = e.id, t.facts[e.object].source
		}
	}
	i := t.intern(o, machine)
	t.touch(i, src)
	return i
}

// disambiguate takes back ids that the table gives to a path at which several
// files were mapped: it is that of one of them, and nothing says of which.
// perf names addresses in all by the symbols of that one.
func (t *objects) disambiguate() {
	keys := make([]pathKey, 0, len(t.ids))
	for k := range t.ids {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b pathKey) int {
		return cmp.Or(cmp.Compare(a.machine, b.machine), strings.Compare(a.path, b.path))
	})
	for _, k := range keys {
		var files []int32
		for _, i := range t.byPath[k] {
			o := &t.table[i]
			if o.Kind == profile.KindFile && t.facts[i].mapped && t.facts[i].source != IDMmap && o.BuildID == t.ids[k].id {
				files = append(files, i)
			}
		}
		if len(files) < 2 {
			continue
		}
		o := profile.Object{Kind: profile.KindFile, Path: k.path, Short: base(k.path), BuildID: t.ids[k].id}
		src := t.facts[files[0]].source
		for _, i := range files {
			t.table[i].BuildID = ""
			t.facts[i].source = IDAmbiguous
		}
		t.table = append(t.table, o)
		t.facts = append(t.facts, objectFacts{machine: k.machine, source: src, oneOf: files})
	}
}

func (t *objects) touch(i int32, src IDSource) {
	f := &t.facts[i]
	f.mapped = true
	if f.source == IDNone || src == IDMmap {
		f.source = src
	}
}

// hasID reports whether things of that kind are files that carry ids.
func hasID(k profile.ObjectKind) bool {
	switch k {
	case profile.KindPerfMap, profile.KindJIT, profile.KindBPF, profile.KindSpecial, profile.KindUnnamed:
		return false
	}
	return true
}

// userObject says what a mapping in user space is, from its name. pid is the
// process that mapped it.
func userObject(name string, pid int32, flags uint32, exec bool) profile.Object {
	o := profile.Object{Kind: profile.KindFile, Path: name, Short: base(name)}
	anon := name == "//anon" || strings.HasPrefix(name, "/dev/zero") ||
		strings.HasPrefix(name, "/anon_hugepage") || strings.HasPrefix(name, "[anon") ||
		flags&mapHugeTLB != 0
	special := strings.HasPrefix(name, "[stack") || strings.HasPrefix(name, "/SYSV") || name == "[heap]"
	switch {
	case (anon || special) && exec:
		// Code made at run time. Its compiler may have written down what is
		// where.
		o.Kind = profile.KindPerfMap
		o.PID = pid
		o.Path = "/tmp/perf-" + strconv.Itoa(int(pid)) + ".map"
		o.Short = "[JIT] tid " + strconv.Itoa(int(pid))
	case anon || special || name == "[vsyscall]" || name == "[uprobes]":
		o.Kind = profile.KindSpecial
	case name == "":
		o.Kind = profile.KindUnnamed
		o.Short = "[unnamed mapping]"
	case name == "[vdso]" || name == "[vdso32]" || name == "[vdsox32]":
		o.Kind = profile.KindVDSO
	}
	return o
}

// kernelObject says what a mapping in kernel space is, from its name.
func kernelObject(name string, guest bool) profile.Object {
	if mod, ok := moduleName(name); ok {
		o := profile.Object{Kind: profile.KindModule, Path: name, Short: mod}
		if guest {
			o.Kind = profile.KindGuestModule
		}
		return o
	}
	o := profile.Object{Kind: profile.KindKernel, Path: kernelPath, Short: kernelPath}
	if !guest && strings.HasPrefix(name, "/") {
		o.Path, o.Short = name, "[kernel.vmlinux]" // the table's, where perf found one
	}
	if guest {
		o.Kind, o.Path = profile.KindGuestKernel, name
		if i := strings.LastIndexByte(name, ']'); i >= 0 {
			o.Path = name[:i+1] // without the reference symbol
		}
		o.Short = o.Path
	}
	return o
}

// moduleName returns the name of a kernel module as perf prints it, [x_y], for
// its path or its name in brackets.
func moduleName(p string) (string, bool) {
	if strings.HasPrefix(p, "[") {
		if strings.HasPrefix(p, "[kernel.kallsyms]") || strings.HasPrefix(p, guestKernelPath) ||
			strings.HasPrefix(p, "[vdso") || strings.HasPrefix(p, "[vsyscall]") || !strings.HasSuffix(p, "]") {
			return "", false
		}
		return strings.ReplaceAll(p, "-", "_"), true
	}
	// However it is compressed: what is in the file tells.
	b := base(p)
	i := strings.LastIndex(b, ".ko")
	if i < 0 || b[i+3:] != "" && (b[i+3] != '.' || strings.Contains(b[i+4:], ".")) {
		return "", false
	}
	b = b[:i]
	return "[" + strings.ReplaceAll(b, "-", "_") + "]", true
}

// base is the part of a name behind the last slash; unlike path.Base it leaves
// names such as "//anon" and "x/" recognisable.
func base(name string) string {
	if strings.HasSuffix(name, "/") {
		return path.Base(name)
	}
	return name[strings.LastIndexByte(name, '/')+1:]
}
