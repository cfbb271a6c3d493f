package archive

import (
	"fmt"
	"slices"
	"strings"

	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/session"
	"github.com/perfark/perfark/store"
)

// A tooLargeError says that a file is over the size the user allows.
type tooLargeError struct{ size, limit int64 }

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("%d bytes, over the limit of %d", e.size, e.limit)
}

// missing returns the entry for an object of the profile that will not be in
// the archive.
func (pl *Plan) missing(i int) Missing {
	obj := &pl.profile.Objects[i]
	return Missing{
		ID: obj.BuildID, Kind: kindName(obj.Kind), Path: Name(obj.Path), PID: obj.PID,
		Samples: obj.Samples, Frames: uint64(pl.session.Locations[i]),
	}
}

// miss adds an object to what is missing.
func (pl *Plan) miss(it *item, err error) {
	m := pl.missing(it.object)
	pl.explain(&m, it, err)
	pl.Missing = append(pl.Missing, m)
}

// explain says why an object is missing, and what would help. Err is that of
// the Source.
func (pl *Plan) explain(m *Missing, it *item, err error) {
	cmd := pl.o.Command
	if e, ok := err.(*tooLargeError); ok {
		m.Reason = "too-large"
		m.Detail = fmt.Sprintf("%d bytes, over --max-object-size", e.size)
		m.Hint = fmt.Sprintf("%s --max-object-size %d", cmd, e.size)
		return
	}
	if pl.session.IDSource[it.object] == session.IDAmbiguous {
		m.Reason = "replaced"
		m.Detail = "several files were mapped at this path, and the recording has one build id for them"
		m.Hint = "perf record --buildid-mmap …, then " + cmd
		return
	}
	if r := store.MostTelling(err); r != nil {
		pl.explainRefusal(m, it, r)
	}
	if m.Reason == "" {
		pl.explainAbsence(m, it)
	}
	if pl.o.Caller != "" && len(pl.o.Elsewhere) > 0 && m.Reason != "memfd" {
		m.Detail += "; " + strings.Join(pl.o.Elsewhere, " or ") + ", which " + pl.o.Caller + " cannot read, may hold it"
		m.Hint = "sudo " + cmd
	}
}

// explainImage says why the kernel image is missing.
func (pl *Plan) explainImage(m *Missing, err error) {
	m.Reason = "not-found"
	m.Detail = "no image of this kernel was found"
	m.Hint = pl.o.Command + " --vmlinux=FILE, or install the debug symbols of the kernel"
	if e, ok := err.(*tooLargeError); ok {
		m.Reason = "too-large"
		m.Detail = fmt.Sprintf("%d bytes, over --max-object-size", e.size)
		m.Hint = fmt.Sprintf("%s --max-object-size %d", pl.o.Command, e.size)
	} else if r := store.MostTelling(err); r != nil {
		m.Reason = strings.ReplaceAll(string(r.Reason), " ", "-")
		m.Detail = r.Why
		if r.Err != nil {
			m.Detail = r.Err.Error()
		}
	}
}

// explainRefusal explains a file that is there but is not the one.
func (pl *Plan) explainRefusal(m *Missing, it *item, r *store.RefusedError) {
	cmd := pl.o.Command
	m.Reason = strings.ReplaceAll(string(r.Reason), " ", "-")
	m.Detail = r.Error()
	switch r.Reason {
	case store.Replaced:
		m.Detail = r.Why
		if r.Got != "" && r.Got != it.id {
			m.Detail = fmt.Sprintf("replaced since the recording (file now has id %s)", r.Got)
		}
		m.Hint = "perfark buildid-cache --add COPY-OF-THE-OLD-FILE && " + cmd
		if it.id == "" || pl.session.IDSource[it.object] == session.IDTable && r.Got == "" {
			// No copy would be believed; or the id is of the wrong file.
			m.Hint = "perf record --buildid-mmap …, then " + cmd
		}
	case store.Deleted:
		pl.explainAbsence(m, it)
	case store.Unreadable:
		if pl.o.Caller != "" {
			m.Detail = fmt.Sprintf("%q is not readable by %s", r.Path, pl.o.Caller)
			m.Hint = "sudo " + cmd
		}
	case store.Restricted:
		m.Detail = "kernel addresses are hidden (kernel.kptr_restrict)"
		m.Hint = "sudo sysctl kernel.kptr_restrict=0 && " + cmd
		if pl.o.Caller != "" {
			m.Hint = "sudo " + cmd
		}
	case store.NoID, store.Untied:
		if it.id == "" {
			m.Detail = r.Why
			m.Hint = "link it with a build id (gcc -Wl,--build-id), perf record --buildid-mmap …, then " + cmd
			if it.kind != profile.KindFile {
				m.Hint = "perf record --buildid-mmap …, then " + cmd
			}
		}
	case store.Changed:
		m.Detail = fmt.Sprintf("%q changed while reading, %d times", r.Path, readTries)
		m.Hint = cmd
	case store.OtherHost:
		m.Hint = pl.onHost()
		if pl.o.OtherHost == "" && (it.kind == profile.KindKernel || it.kind == profile.KindVDSO) {
			pl.explainAbsence(m, it)
			if it.kind == profile.KindKernel && r.Got != "" {
				m.Detail = fmt.Sprintf("the running kernel has build id %s, and no cache has the recorded one", r.Got)
			}
		}
	}
}

// explainAbsence explains an object of which there is no file at all.
func (pl *Plan) explainAbsence(m *Missing, it *item) {
	cmd := pl.o.Command
	switch {
	case it.kind == profile.KindGuestKernel || it.kind == profile.KindGuestModule:
		m.Reason, m.Detail = "guest", "belongs to a virtual machine, whose files are not on this host"
		m.Hint = cmd + " --symbols DIR"
	case it.kind == profile.KindPerfMap:
		m.Reason = "no-map"
		m.Detail = fmt.Sprintf("there is no /tmp/perf-%d.map: the program wrote none, or it is gone", it.pid)
		m.Hint = "node --perf-basic-prof, java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit, PYTHONPERFSUPPORT=1 and the like make one; then record again"
	case inMemory(it.path):
		m.Reason = "memfd"
		m.Detail = "lived in memory only, and no process that runs has it mapped"
		m.Hint = "record again, then " + cmd + ", while the program runs"
	case strings.HasSuffix(it.path, " (deleted)"):
		m.Reason = "deleted"
		m.Detail = "deleted, and no process that runs has it mapped"
		m.Hint = "perfark buildid-cache --add COPY-OF-THE-FILE && " + cmd
		if it.id == "" {
			m.Detail = "deleted before its build id was taken, and no process that runs has it mapped"
			m.Hint = "perf record --buildid-mmap …, then " + cmd + ", while the program runs"
		}
	case pl.o.OtherHost != "":
		m.Reason = "other-host"
		m.Detail = fmt.Sprintf("recorded on host %q; no file here has this id", pl.o.OtherHost)
		m.Hint = pl.onHost()
	case it.kind == profile.KindKernel || it.kind == profile.KindVDSO:
		m.Reason = "other-kernel"
		m.Detail = "belongs to a kernel that does not run here now, and no cache has it"
		m.Hint = cmd + ", before the host is booted into another kernel"
	case it.kind == profile.KindModule && !strings.HasPrefix(it.path, "/"):
		m.Reason, m.Detail = "no-file", "the recording names no file for this kernel module"
	default:
		m.Reason = "not-found"
		m.Detail = "no such file: it was deleted or moved, or is in another mount namespace (a container)"
		m.Hint = "perfark buildid-cache --add COPY-OF-THE-FILE && " + cmd
		switch {
		case pl.runs(it.object):
			m.Hint = cmd + ", while the program runs"
		case it.id == "": // no copy would be believed
			m.Hint = "perf record --buildid-mmap …, then " + cmd + ", while the program runs"
		}
	}
}

// runs reports whether a process that had an object mapped was there when the
// recording ended.
func (pl *Plan) runs(object int) bool {
	for i := range pl.session.Processes {
		p := &pl.session.Processes[i]
		if !p.Exited && slices.Contains(p.Objects, int32(object)) {
			return true
		}
	}
	return false
}

// onHost is the command on the host that made the recording.
func (pl *Plan) onHost() string {
	if pl.o.OtherHost == "" {
		return ""
	}
	return pl.o.Command + ", on host " + pl.o.OtherHost
}

// inMemory reports whether a recorded path is of a file without a name in any
// directory.
func inMemory(p string) bool {
	for _, prefix := range []string{"/memfd:", "memfd:", "/SYSV", "/dev/zero"} {
		if strings.HasPrefix(p, prefix) {
			return true
		}
	}
	return false
}

// restricted reports kernel frames for which the recording has no kernel at
// all: perf was not allowed to see its addresses.
func (pl *Plan) restricted() {
	if !pl.session.KernelRestricted {
		return
	}
	pl.Missing = append(pl.Missing, Missing{
		Kind: "kernel", Path: "[kernel]", Samples: pl.session.KernelSamples, Reason: "restricted",
		Detail: "the recording has no kernel addresses (kernel.kptr_restrict, kernel.perf_event_paranoid)",
		Hint:   "sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1, then record again",
	})
}
