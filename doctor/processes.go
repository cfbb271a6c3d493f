package doctor

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/objfile"
)

// Limits of what is looked at on a running host.
const (
	maxProcesses = 1 << 16
	maxHot       = 32 // objects
	hotProcesses = 16
)

// A running is a process of the host.
type running struct {
	pid   int32
	comm  string
	ticks uint64 // of processor time
	files []string
}

// innerPID returns the number that a process has in its own pid namespace; 0
// if it is in the host's, or is gone.
func (h *Host) innerPID(pid int32) int {
	for line := range strings.Lines(h.read(fmt.Sprintf("proc/%d/status", pid))) {
		rest, ok := strings.CutPrefix(line, "NSpid:")
		if !ok {
			continue
		}
		if words := strings.Fields(rest); len(words) > 1 {
			n, _ := strconv.Atoi(words[len(words)-1])
			return n
		}
	}
	return 0
}

// busiest lists the processes that used the most processor time.
func (h *Host) busiest() []running {
	list, err := os.ReadDir(filepath.Join(h.root, "proc"))
	if err != nil {
		return nil
	}
	var out []running
	for _, e := range list[:min(len(list), maxProcesses)] {
		pid, err := strconv.ParseInt(e.Name(), 10, 32)
		if err != nil || pid <= 0 {
			continue
		}
		r := running{pid: int32(pid)}
		// pid (comm) state ppid … utime stime, the 14th and 15th: proc(5).
		stat := h.read("proc/" + e.Name() + "/stat")
		open, end := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
		if open < 0 || end < open {
			continue
		}
		r.comm = stat[open+1 : end]
		words := strings.Fields(stat[end+1:])
		if len(words) < 13 {
			continue
		}
		for _, w := range words[11:13] {
			n, _ := strconv.ParseUint(w, 10, 64)
			r.ticks += n
		}
		if r.ticks > 0 {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b running) int {
		return cmp.Or(cmp.Compare(b.ticks, a.ticks), cmp.Compare(a.pid, b.pid))
	})
	return out
}

// mappedCode lists the files that a process has mapped as code.
func (h *Host) mappedCode(pid int32) []string {
	var files []string
	for line := range strings.Lines(h.read(fmt.Sprintf("proc/%d/maps", pid))) {
		// start-end perms offset dev inode   path
		words := strings.SplitN(strings.TrimSpace(line), " ", 6)
		if len(words) < 6 || !strings.Contains(words[1], "x") {
			continue
		}
		if p := strings.TrimLeft(words[5], " "); strings.HasPrefix(p, "/") && !slices.Contains(files, p) {
			files = append(files, p)
		}
	}
	return files
}

// processes says what a recording of the processes that are busy now would
// miss: run times that tell perf nothing, programs without ids, symbols or
// frame pointers.
func (h *Host) processes() []Finding {
	var list []Finding
	var hot []string
	by := map[string]*running{}
	all := h.busiest()
	for i := range all {
		p := &all[i]
		if i >= hotProcesses {
			break
		}
		p.files = h.mappedCode(p.pid)
		list = append(list, h.runtime(p)...)
		for _, f := range p.files {
			if by[f] == nil && len(hot) < maxHot {
				by[f] = p
				hot = append(hot, f)
			}
		}
	}
	return append(list, h.programs(hot, by)...)
}

// runtime says that a process makes code whose names perf will not learn.
func (h *Host) runtime(p *running) []Finding {
	rt := runtimeOf(p.files)
	if rt.name == "" || len(rt.fixes) == 0 {
		return nil
	}
	pid := fmt.Sprint(p.pid)
	inner := pid
	if n := h.innerPID(p.pid); n > 0 {
		inner = strconv.Itoa(n)
	}
	if h.exists("proc/"+pid+"/root/tmp/perf-"+inner+".map") || h.exists("tmp/perf-"+pid+".map") || slices.ContainsFunc(p.files, isJitdump) {
		return nil
	}
	args := strings.ReplaceAll(h.read("proc/"+pid+"/cmdline"), "\x00", " ")
	if rt.name == "Python" && !strings.Contains(args, " -X") {
		// Without the option the interpreter makes no code: its own functions
		// have names, the program's have none.
		f := Finding{Kind: JIT, Level: Note, Object: p.comm, What: "process " + pid + " runs Python: the interpreter has names, but functions of the program have none"}
		f.Fixes = rt.fixes
		return []Finding{f}
	}
	f := Finding{Kind: JIT, Level: Loss, Object: p.comm, What: "process " + pid + " runs " + rt.name + ", which makes code at run time and has written no perf map: that code would have no names"}
	if rt.name == "Java" {
		f.fix("jcmd "+pid+" Compiler.perfmap", "JDK 17 and later, at the end of the recording")
	}
	f.Fixes = append(f.Fixes, rt.fixes...)
	return []Finding{f}
}

// programs says what is wrong with the files of busy processes.
func (h *Host) programs(files []string, by map[string]*running) []Finding {
	var list []Finding
	owners := h.owners(files)
	for _, name := range files {
		p := by[name]
		if strings.HasSuffix(name, " (deleted)") {
			f := Finding{Kind: Namespace, Level: Risk, Object: name, What: fmt.Sprintf("process %d (%s) runs a file that was deleted: perf finds no build id of it when a recording ends", p.pid, p.comm)}
			f.fix("perf record --buildid-mmap … && perfark archive", "while it runs")
			list = append(list, f)
			continue
		}
		at := fmt.Sprintf("proc/%d/root%s", p.pid, name)
		if !h.exists(at) {
			at = name
		}
		x, file, err := h.openELF(at)
		if err != nil {
			continue
		}
		if !h.exists(name) {
			f := Finding{Kind: Namespace, Level: Risk, Object: name, What: fmt.Sprintf("process %d (%s) runs it in another mount namespace, as in a container: perf looks for the file here", p.pid, p.comm)}
			f.fix("perf record --buildid-mmap … && perfark archive", "while it runs")
			list = append(list, f)
		}
		if x.BuildID() == "" {
			list = append(list, noID(name))
		}
		if q := x.Quality(); q < objfile.MiniDebug && !h.hasDebugFile(x) {
			f := Finding{Kind: Symbols, Level: Risk, Object: name, ID: x.BuildID(), What: "has " + symbolsOf(q) + ", and its debug file is not installed"}
			if owner, ok := owners[name]; ok {
				f.fix(h.install(owner), "the package is "+owner.name)
			} else if cmd := h.OS.installElsewhere(name, f.ID); cmd != "" && !h.OS.listed() {
				f.fix(cmd, "if it came as a package")
			}
			if f.ID != "" && len(f.Fixes) > 0 {
				f.fix(h.OS.fetch("debuginfo", f.ID), "from the distribution's server; then perfark report "+debuginfodDir)
			} else if len(f.Fixes) == 0 {
				f.fix("perfark buildid-cache --update UNSTRIPPED-FILE", "if you have the file as it was before it was stripped")
			}
			list = append(list, f)
		}
		if with, of := filePrologues(x, file); of >= 16 && with*4 < of {
			f := Finding{Kind: FramePtr, Level: Risk, Object: name, What: fmt.Sprintf("is built without frame pointers (%d of %d functions set one up): call chains of perf record -g end in it", with, of)}
			f.fix("perf record --call-graph dwarf …", "")
			list = append(list, f)
		}
		file.Close()
	}
	return list
}

// symbolsOf says what a file of a quality has.
func symbolsOf(q objfile.Quality) string {
	if q == objfile.Dynsym {
		return "symbols for the functions it exports only"
	}
	return "no symbols"
}

// openELF opens an ELF file of the host. What a process put in its place, such as
// a FIFO, is not waited for.
func (h *Host) openELF(name string) (*objfile.File, *os.File, error) {
	f, err := os.OpenFile(filepath.Join(h.root, name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s: not a regular file", name)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	x, err := objfile.Open(f, fi.Size(), name, decode.NewBudget(decode.Limits{}))
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return x, f, nil
}

// hasDebugFile reports whether the debug file of x is where distributions put
// it.
func (h *Host) hasDebugFile(x *objfile.File) bool {
	id := x.BuildID().String()
	return len(id) > 2 && h.exists("usr/lib/debug/.build-id/"+id[:2]+"/"+id[2:]+".debug")
}

// filePrologues counts how many functions of a file set up a frame pointer, of
// some that are spread over its symbols.
func filePrologues(x *objfile.File, f *os.File) (with, of int) {
	tab, err := x.Symbols(objfile.SymbolOptions{})
	if err != nil || tab == nil {
		return 0, 0
	}
	n := tab.Len()
	step := max(1, n/maxPrologues)
	buf := make([]byte, prologue)
	for i := 0; i < n && of < maxPrologues; i += step {
		s := tab.Sym(i)
		if s.End <= s.Start || s.End-s.Start < 32 || strings.HasSuffix(s.Name, "@plt") {
			continue // a leaf needs none
		}
		k, _ := f.ReadAt(buf[:min(uint64(len(buf)), s.End-s.Start)], int64(s.Start))
		if len(bytes.Trim(buf[:k], "\x00")) == 0 {
			continue // data
		}
		set, known := setsFramePointer(buf[:k], x.Machine(), x.Big())
		if !known {
			return 0, 0
		}
		of++
		if set {
			with++
		}
	}
	return with, of
}

// noID says that a file has no Build ID.
func noID(name string) Finding {
	f := Finding{Kind: LinkID, Level: Loss, Object: name, What: "has no build id: nothing will tie a recording to this very build"}
	f.fix("", "link it with one: gcc -Wl,--build-id, clang -Wl,--build-id, rustc -C link-arg=-Wl,--build-id, go build -ldflags=-B=gobuildid")
	return f
}

// File says what a program or library lacks for recordings of it to be
// readable: CI may ask before it is shipped.
func (h *Host) File(name string) ([]Finding, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	x, err := objfile.Open(f, fi.Size(), name, decode.NewBudget(decode.Limits{}))
	if err != nil {
		return nil, err
	}
	var list []Finding
	if x.BuildID() == "" {
		n := noID(name)
		if x.GoID() != "" {
			n.What += "; the Go linker's own id is there, but neither the kernel nor perf knows it"
			n.Fixes = []Fix{{"go build -ldflags=-B=gobuildid", "or go 1.24 and later without -B none"}}
		}
		list = append(list, n)
	}
	if q := x.Quality(); q < objfile.MiniDebug && x.GoID() == "" && !h.hasDebugFile(x) {
		fd := Finding{Kind: Symbols, Level: Risk, Object: name, ID: x.BuildID(), What: "has " + symbolsOf(q) + ", and its debug file is not installed"}
		fd.fix("objcopy --only-keep-debug UNSTRIPPED-FILE FILE.debug", "keep it, and name its directory with --debug-dir; or do not strip")
		list = append(list, fd)
	} else if q < objfile.FullDWARF && !goLines(x) && !h.hasDebugFile(x) {
		fd := Finding{Kind: Lines, Level: Note, Object: name, ID: x.BuildID(), What: "has names, but no source lines and no inlined functions: " + q.String()}
		fd.fix("", "build it with -g, and keep the debug files")
		list = append(list, fd)
	}
	if with, of := filePrologues(x, f); of >= 16 && with*4 < of {
		fd := Finding{Kind: FramePtr, Level: Risk, Object: name, What: fmt.Sprintf("is built without frame pointers (%d of %d functions set one up): call chains of perf record -g end in it", with, of)}
		fd.fix("", "build it with -fno-omit-frame-pointer (gcc, clang), -C force-frame-pointers=yes (rustc); or record it with perf record --call-graph dwarf")
		list = append(list, fd)
	}
	Sort(list)
	return list, nil
}

// goLines reports whether a program has the table of Go functions, which has
// their lines and inlined calls.
func goLines(x *objfile.File) bool {
	_, err := x.GoTable()
	return err == nil
}
