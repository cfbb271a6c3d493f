package store

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A proc is a process held by a descriptor of its directory in /proc: once it
// ends, every look-up through the descriptor fails, even if another process
// gets its number.
type proc struct {
	pid   int32
	dir   int    // O_PATH descriptor of /proc/PID
	start uint64 // clock ticks after boot
}

// openProc opens the directory of a process.
func openProc(procfs string, pid int32) (*proc, error) {
	name := filepath.Join(procfs, strconv.Itoa(int(pid)))
	fd, err := openat(unix.AT_FDCWD, name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	p := &proc{pid: pid, dir: fd}
	if p.start, err = p.startTime(); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *proc) close() { unix.Close(p.dir) }

// read reads a small file of the process's directory.
func (p *proc) read(name string) ([]byte, error) {
	fd, err := openat(p.dir, name, unix.O_RDONLY|unix.O_NOFOLLOW)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: fmt.Sprintf("/proc/%d/%s", p.pid, name), Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 1<<20))
}

// startTime returns when the process started, in clock ticks after boot: field
// 22 of its stat. The second field is its name, which may hold anything.
func (p *proc) startTime() (uint64, error) {
	b, err := p.read("stat")
	if err != nil {
		return 0, err
	}
	_, rest, ok := bytes.Cut(b[max(bytes.LastIndexByte(b, ')'), 0):], []byte(" "))
	fields := bytes.Fields(rest)
	if !ok || len(fields) < 20 {
		return 0, fmt.Errorf("/proc/%d/stat: not as expected", p.pid)
	}
	return strconv.ParseUint(string(fields[19]), 10, 64)
}

// same fails unless the process is the one that was opened.
func (p *proc) same(start uint64) error {
	now, err := p.startTime()
	if err != nil {
		return err
	}
	if now != start {
		return fmt.Errorf("process %d: is another one than before", p.pid)
	}
	return nil
}

// status returns a field of the process's status, such as "Uid".
func (p *proc) status(field string) []string {
	b, err := p.read("status")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		if name, rest, ok := strings.Cut(line, ":"); ok && name == field {
			return strings.Fields(rest)
		}
	}
	return nil
}

// uid returns the effective user of the process, -1 if it is not known.
func (p *proc) uid() int {
	if f := p.status("Uid"); len(f) >= 2 {
		if n, err := strconv.Atoi(f[1]); err == nil {
			return n
		}
	}
	return -1
}

// nsPID returns the process's number in its own namespace.
func (p *proc) nsPID() int32 {
	if f := p.status("NSpid"); len(f) > 0 {
		if n, err := strconv.ParseInt(f[len(f)-1], 10, 32); err == nil {
			return int32(n)
		}
	}
	return p.pid
}

// userHZ is the unit of times in /proc: 100 per second on all architectures
// that perf records on.
const userHZ = 100

// started returns when a process started on the wall clock; zero if the boot
// time is not known.
func started(procfs string, ticks uint64) time.Time {
	b, err := os.ReadFile(filepath.Join(procfs, "stat"))
	if err != nil {
		return time.Time{}
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "btime" {
			if sec, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				return time.Unix(sec, 0).Add(time.Duration(ticks) * (time.Second / userHZ))
			}
		}
	}
	return time.Time{}
}

// A mapping is a file mapped by a living process: a line of its maps.
type mapping struct {
	pid        int32
	start      uint64 // of the process, in clock ticks after boot
	rng        string // "START-END", its name in map_files
	path       string // as the kernel shows it, perhaps with " (deleted)"
	maj, min   uint32
	ino        uint64
	executable bool
}

// errNoMapping says that a line of maps is not of a file.
var errNoMapping = errors.New("not the mapping of a file")

// parseMapping reads a line of /proc/PID/maps:
//
//	START-END PERMS OFFSET MAJ:MIN INODE    PATH
//
// A newline in a path is written \012; nothing else is escaped.
func parseMapping(line string) (mapping, error) {
	var m mapping
	line = strings.TrimSuffix(line, "\n")
	var f [5]string
	for i := range f {
		line = strings.TrimLeft(line, " ")
		var ok bool
		if f[i], line, ok = strings.Cut(line, " "); !ok {
			return m, errNoMapping
		}
	}
	m.path = strings.TrimLeft(line, " ")
	// A path begins with a slash: what was trimmed were not its own spaces.
	if len(m.path) == 0 || m.path[0] != '/' || len(f[1]) < 3 {
		return m, errNoMapping
	}
	lo, hi, ok := strings.Cut(f[0], "-")
	if !ok || !isHex([]byte(lo)) || !isHex([]byte(hi)) {
		return m, errNoMapping
	}
	m.rng = f[0]
	m.executable = f[1][2] == 'x'
	maj, min, ok := strings.Cut(f[3], ":")
	x, err := strconv.ParseUint(maj, 16, 32)
	y, err2 := strconv.ParseUint(min, 16, 32)
	z, err3 := strconv.ParseUint(f[4], 10, 64)
	if !ok || err != nil || err2 != nil || err3 != nil {
		return m, errNoMapping
	}
	m.maj, m.min, m.ino = uint32(x), uint32(y), z
	return m, nil
}

// mappings returns the files that a process has mapped, the first range of
// each, executable ones first.
func (p *proc) mappings() ([]mapping, error) {
	fd, err := openat(p.dir, "maps", unix.O_RDONLY|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "maps")
	defer f.Close()
	type file struct {
		path string
		ino  uint64
	}
	at := map[file]int{}
	var list []mapping
	r := bufio.NewReaderSize(f, 64<<10)
	for {
		line, err := r.ReadString('\n')
		if m, perr := parseMapping(line); perr == nil {
			m.pid, m.start = p.pid, p.start
			key := file{m.path, m.ino}
			if i, ok := at[key]; !ok {
				at[key] = len(list)
				list = append(list, m)
			} else if m.executable && !list[i].executable {
				list[i] = m
			}
		}
		if err == io.EOF {
			return list, nil
		}
		if err != nil {
			return list, err
		}
	}
}

// openMapped opens a file that the process has mapped: by the mapping itself,
// which leads to the file even if it was deleted; else the process's exe or the
// path in its root.
func (p *proc) openMapped(m mapping) (*File, error) {
	var first error
	for _, open := range []func(mapping) (*File, error){p.openMapFile, p.openExe, p.openInProcRoot} {
		f, err := open(m)
		if err == nil {
			if err = p.same(m.start); err == nil {
				return f, nil
			}
			f.Close()
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

func (p *proc) openMapFile(m mapping) (*File, error) {
	return openRegular(p.dir, "map_files/"+m.rng, fmt.Sprintf("/proc/%d/map_files/%s", p.pid, m.rng))
}

func (p *proc) openExe(m mapping) (*File, error) {
	text := make([]byte, 2*unix.PathMax)
	n, err := unix.Readlinkat(p.dir, "exe", text)
	if err != nil {
		return nil, &fs.PathError{Op: "readlink", Path: fmt.Sprintf("/proc/%d/exe", p.pid), Err: err}
	}
	if !slices.Contains(unescape(m.path), string(text[:n])) {
		return nil, fs.ErrNotExist
	}
	return openRegular(p.dir, "exe", fmt.Sprintf("/proc/%d/exe", p.pid))
}

func (p *proc) openInProcRoot(m mapping) (*File, error) {
	if strings.HasSuffix(m.path, deletedMark) {
		return nil, fs.ErrNotExist
	}
	for _, name := range unescape(m.path) {
		f, err := p.openInRoot(name, false)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return nil, fs.ErrNotExist
}

// openInRoot opens a file by the path that it has for the process. noLink
// refuses a symbolic link as the last component.
func (p *proc) openInRoot(name string, noLink bool) (*File, error) {
	origin := fmt.Sprintf("/proc/%d/root%s", p.pid, name)
	root, err := openat(p.dir, "root", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: origin, Err: err}
	}
	fd, err := walkInRoot(root, name, noLink)
	if err != nil {
		if errors.Is(err, errLink) {
			return nil, &RefusedError{Path: origin, Reason: NotRegular, Why: "a symbolic link"}
		}
		return nil, &fs.PathError{Op: "open", Path: origin, Err: err}
	}
	defer unix.Close(fd)
	return openPointed(fd, origin)
}

// Bounds of walkInRoot, those of the kernel or tighter.
const (
	maxLinks = 40
	maxOpen  = 256 // levels of directories
)

// errLink says that the last component is a symbolic link.
var errLink = errors.New("a symbolic link")

// walkInRoot returns an O_PATH descriptor of the file that name has for
// somebody whose root directory is root, which it closes. Links are resolved
// inside of that root by their text, so that none leads out of it, neither an
// absolute one, nor "..", nor one of those in /proc.
func walkInRoot(root int, name string, noLink bool) (fd int, err error) {
	dirs := []int{root}
	defer func() {
		for _, d := range dirs {
			unix.Close(d)
		}
	}()
	rest := strings.Split(name, "/")
	for links := 0; len(rest) > 0; {
		c := rest[0]
		rest = rest[1:]
		if c == "" || c == "." {
			continue
		}
		if c == ".." {
			if n := len(dirs) - 1; n > 0 {
				unix.Close(dirs[n])
				dirs = dirs[:n]
			}
			continue
		}
		if len(dirs) >= maxOpen || len(rest) > unix.PathMax {
			return -1, unix.ENAMETOOLONG
		}
		fd, err := openat(dirs[len(dirs)-1], c, unix.O_PATH|unix.O_NOFOLLOW)
		if err != nil {
			return -1, err
		}
		dirs = append(dirs, fd)
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return -1, err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFLNK {
			continue
		}
		if noLink && len(rest) == 0 {
			return -1, errLink
		}
		if links++; links > maxLinks {
			return -1, unix.ELOOP
		}
		text := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(fd, "", text)
		if err != nil {
			return -1, err
		}
		unix.Close(fd)
		dirs = dirs[:len(dirs)-1]
		target := string(text[:n])
		if strings.HasPrefix(target, "/") {
			for _, d := range dirs[1:] {
				unix.Close(d)
			}
			dirs = dirs[:1]
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	fd = dirs[len(dirs)-1]
	dirs = dirs[:len(dirs)-1]
	return fd, nil
}

// unescape returns the paths that a path in maps may stand for: "\012" is a
// newline, or stands for itself.
func unescape(p string) []string {
	if q := strings.ReplaceAll(p, `\012`, "\n"); q != p {
		return []string{q, p}
	}
	return []string{p}
}
