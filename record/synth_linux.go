package record

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/store"
)

// A synth makes the records of what was there before the recording began:
// threads, their names and their mappings, the kernel and its modules. perf
// writes the same, with times of 0.
type synth struct {
	proc string
	attr *perfdata.Attr // of the event that they belong to
	big  bool
	emit func(rec []byte) error
	buf  []byte

	data       bool // mappings of data too
	namespaces bool
	noMaps     bool                     // for the process at hand
	tasksOnly  bool                     // and for all
	id         func(mapping) buildid.ID // "" if it cannot be had; nil: nobody asks
}

func (s *synth) write(r perfdata.Record) error {
	b, err := perfdata.AppendRecord(s.buf[:0], r, s.attr, s.big)
	if err != nil {
		return err
	}
	s.buf = b
	return s.emit(b)
}

func meta(t perfdata.Type, misc uint16) perfdata.Meta {
	return perfdata.Meta{Type: t, Misc: misc, SampleID: perfdata.SampleID{}}
}

// index writes which counter an id is of, in as many records as that takes.
func (s *synth) index(x *perfdata.IDIndex) error {
	for all := range slices.Chunk(x.Entries, 2000) {
		if err := s.write(&perfdata.IDIndex{Meta: x.Meta, Entries: all}); err != nil {
			return err
		}
	}
	return nil
}

// kernel writes the mappings of the kernel and its modules. Where the kernel
// hides addresses there are none.
func (s *synth) kernel() (restricted bool, err error) {
	maps, err := store.KernelMaps(s.proc, "")
	if err != nil {
		return false, err
	}
	for i, m := range maps {
		if m.Start == 0 {
			restricted = restricted || i == 0
			continue
		}
		r := &perfdata.Mmap{Meta: meta(perfdata.RecordMmap, perfdata.CPUModeKernel), MapPID: -1, Start: m.Start, Len: m.End - m.Start, Name: m.Name}
		if i == 0 {
			r.Pgoff, r.Name = m.Start, "[kernel.kallsyms]_text"
		}
		if m.ID != "" {
			r.Type, r.BuildID, r.Prot = perfdata.RecordMmap2, m.ID, unix.PROT_EXEC
			r.Misc |= perfdata.MiscMmapBuildID
		}
		if err := s.write(r); err != nil {
			return restricted, err
		}
	}
	return restricted, nil
}

// all writes every process.
func (s *synth) all() error {
	dirs, err := os.ReadDir(s.proc)
	if err != nil {
		return err
	}
	var pids []int
	for _, d := range dirs {
		if pid, err := strconv.Atoi(d.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	for _, pid := range pids {
		if err := s.process(pid); err != nil {
			return err
		}
	}
	return nil
}

// process writes the threads of a process and its mappings. One that is gone
// is none.
func (s *synth) process(pid int) error {
	tasks, err := os.ReadDir(filepath.Join(s.proc, strconv.Itoa(pid), "task"))
	if err != nil {
		return nil
	}
	var tids []int
	for _, t := range tasks {
		if tid, err := strconv.Atoi(t.Name()); err == nil {
			tids = append(tids, tid)
		}
	}
	slices.Sort(tids)
	if i, ok := slices.BinarySearch(tids, pid); ok && i > 0 {
		tids = slices.Insert(slices.Delete(tids, i, i+1), 0, pid)
	}
	for _, tid := range tids {
		if err := s.thread(pid, tid); err != nil {
			return err
		}
	}
	return nil
}

// waiting writes a process that is to become the command. What it has mapped
// is of no account: events begin with its exec.
func (s *synth) waiting(pid int) error {
	s.noMaps = true
	defer func() { s.noMaps = false }()
	return s.process(pid)
}

// thread writes what a thread is, and with the first one of a process its
// mappings.
func (s *synth) thread(pid, tid int) error {
	name, tgid, ppid, ok := s.status(tid)
	if !ok || tgid != pid {
		return nil
	}
	fork := &perfdata.Fork{Meta: meta(perfdata.RecordFork, perfdata.MiscForkExec), ForkPID: int32(pid), ForkTID: int32(tid), ParentPID: int32(ppid), ParentTID: int32(ppid)}
	if pid != tid {
		fork.ParentPID, fork.ParentTID = int32(pid), int32(pid)
	}
	if err := s.write(fork); err != nil {
		return err
	}
	if s.namespaces {
		if err := s.namespacesOf(pid, tid); err != nil {
			return err
		}
	}
	if err := s.write(&perfdata.Comm{Meta: meta(perfdata.RecordComm, 0), CommPID: int32(pid), CommTID: int32(tid), Name: name}); err != nil {
		return err
	}
	if pid != tid || s.noMaps || s.tasksOnly {
		return nil
	}
	return s.maps(pid)
}

// status reads what /proc/TID/status says.
func (s *synth) status(tid int) (name string, tgid, ppid int, ok bool) {
	b, err := os.ReadFile(filepath.Join(s.proc, strconv.Itoa(tid), "status"))
	if err != nil {
		return "", 0, 0, false
	}
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":\t")
		switch key {
		case "Name":
			name = unescape(value)
		case "Tgid":
			tgid, _ = strconv.Atoi(value)
		case "PPid":
			ppid, _ = strconv.Atoi(value)
		}
	}
	return name, tgid, ppid, tgid > 0
}

// unescape turns \n and \\, which the kernel writes into status, back.
func unescape(s string) string {
	return strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\134`, `\`, `\012`, "\n", `\011`, "\t", `\040`, " ").Replace(s)
}

// nsNames is the order of a NAMESPACES record.
var nsNames = [...]string{"net", "uts", "ipc", "pid", "user", "mnt", "cgroup"}

func (s *synth) namespacesOf(pid, tid int) error {
	r := &perfdata.Namespaces{Meta: meta(perfdata.RecordNamespaces, 0), TaskPID: int32(pid), TaskTID: int32(tid)}
	for _, n := range nsNames {
		var st unix.Stat_t
		if unix.Stat(filepath.Join(s.proc, strconv.Itoa(tid), "ns", n), &st) != nil {
			st = unix.Stat_t{}
		}
		r.Links = append(r.Links, perfdata.NSLink{Dev: uint64(st.Dev), Ino: st.Ino})
	}
	return s.write(r)
}

// maps writes the mappings of a process.
func (s *synth) maps(pid int) error {
	f, err := os.Open(filepath.Join(s.proc, strconv.Itoa(pid), "maps"))
	if err != nil {
		return nil // it is gone, or not ours to see
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(make([]byte, 64<<10), 64<<10)
	for sc.Scan() {
		r, ok := parseMapping(sc.Bytes())
		if !ok || r.Prot&unix.PROT_EXEC == 0 && !s.data {
			continue
		}
		r.MapPID, r.MapTID = int32(pid), int32(pid)
		r.Type, r.Misc = perfdata.RecordMmap2, perfdata.CPUModeUser
		if r.Prot&unix.PROT_EXEC == 0 {
			r.Misc |= perfdata.MiscMmapData
		}
		if s.id != nil && r.Prot&unix.PROT_EXEC != 0 {
			if id := s.id(mapping{pid: pid, start: r.Start, end: r.Start + r.Len, maj: r.Maj, min: r.Min, ino: r.Ino, name: r.Name}); id != "" {
				r.BuildID = id
				r.Misc |= perfdata.MiscMmapBuildID
				r.Maj, r.Min, r.Ino = 0, 0, 0
			}
		}
		if err := s.write(r); err != nil {
			return err
		}
	}
	if err := sc.Err(); err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	return nil
}

// parseMapping parses a line of /proc/PID/maps.
func parseMapping(line []byte) (*perfdata.Mmap, bool) {
	fields := bytes.SplitN(line, []byte(" "), 6)
	if len(fields) < 5 {
		return nil, false
	}
	from, to, ok := bytes.Cut(fields[0], []byte("-"))
	maj, min, ok2 := bytes.Cut(fields[3], []byte(":"))
	if !ok || !ok2 || len(fields[1]) < 4 {
		return nil, false
	}
	var r perfdata.Mmap
	var err error
	hex := func(b []byte, size int) uint64 {
		v, e := strconv.ParseUint(string(b), 16, size)
		err = cmp.Or(err, e)
		return v
	}
	r.Start = hex(from, 64)
	r.Len = hex(to, 64) - r.Start
	r.Pgoff = hex(fields[2], 64)
	r.Maj, r.Min = uint32(hex(maj, 32)), uint32(hex(min, 32))
	ino, e := strconv.ParseUint(string(fields[4]), 10, 64)
	r.Ino = ino
	if cmp.Or(err, e) != nil {
		return nil, false
	}
	for i, p := range []uint32{unix.PROT_READ, unix.PROT_WRITE, unix.PROT_EXEC} {
		if fields[1][i] != '-' {
			r.Prot |= p
		}
	}
	r.Flags = unix.MAP_SHARED
	if fields[1][3] == 'p' {
		r.Flags = unix.MAP_PRIVATE
	}
	if len(fields) == 6 {
		r.Name = strings.ReplaceAll(string(bytes.TrimLeft(fields[5], " ")), `\012`, "\n")
	}
	if r.Name == "" {
		r.Name = "//anon"
	}
	return &r, true
}
