package record

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/perfdata"
)

// cgroupRoot returns where the cgroups are mounted that events know: those of
// version 1 with perf_event, else those of version 2.
func cgroupRoot(proc string) (string, error) {
	f, err := os.Open(filepath.Join(proc, "self/mounts"))
	if err != nil {
		return "", err
	}
	defer f.Close()
	unified := ""
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		w := strings.Fields(sc.Text())
		if len(w) < 4 {
			continue
		}
		at := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(w[1])
		switch {
		case w[2] == "cgroup" && strings.Contains(","+w[3]+",", ",perf_event,"):
			return at, nil
		case w[2] == "cgroup2" && unified == "":
			unified = at
		}
	}
	if unified == "" {
		return "", fmt.Errorf("no cgroups are mounted: want perf_event, or those of version 2")
	}
	return unified, sc.Err()
}

// cgroups opens the cgroups that events are recorded of.
func (r *recorder) cgroups() (closeAll func(), err error) {
	open := map[string]*os.File{}
	closeAll = func() {
		for _, f := range open {
			f.Close()
		}
	}
	if len(r.o.Cgroups) == 0 {
		return closeAll, nil
	}
	root, err := cgroupRoot("/proc")
	if err != nil {
		return nil, err
	}
	for i := range r.list {
		name := r.o.Cgroups[0]
		if len(r.o.Cgroups) > 1 {
			name = ""
			if i < len(r.o.Cgroups) {
				name = r.o.Cgroups[i]
			}
		}
		if name == "" || r.list[i].added {
			continue
		}
		if open[name] == nil {
			f, err := os.Open(filepath.Join(root, filepath.Clean("/"+name)))
			if err != nil {
				closeAll()
				return nil, fmt.Errorf("cgroup %q: %w", name, err)
			}
			open[name] = f
		}
		r.list[i].cgroup = int(open[name].Fd())
	}
	return closeAll, nil
}

// cgroups writes the names of all cgroups.
func (s *synth) cgroups() error {
	root, err := cgroupRoot(s.proc)
	if err != nil {
		return nil // samples have ids without names
	}
	return filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, name, 0)
		if err != nil || h.Size() < 8 {
			return nil
		}
		path := strings.TrimPrefix(name, root)
		if path == "" {
			path = "/"
		}
		return s.write(&perfdata.Cgroup{Meta: meta(perfdata.RecordCgroup, 0), CgroupID: binary.NativeEndian.Uint64(h.Bytes()), Path: path})
	})
}
