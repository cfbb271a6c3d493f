//go:build linux

package store

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/buildid"
)

// sleeper compiles a program that sleeps, with an id of its own.
func sleeper(t *testing.T, name string) (prog string, id buildid.ID) {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("skipped: no gcc")
	}
	src := write(t, t.TempDir()+"/s.c", []byte("#include <unistd.h>\nint main(void){pause();return 0;}\n"))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(gcc, "-g", "-Wl,--build-id=uuid", "-o", name, src).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v: %s", err, out)
	}
	return name, elfID(t, name)
}

// elfID reads the id with another reader than ours.
func elfID(t *testing.T, name string) buildid.ID {
	t.Helper()
	f, err := elf.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, s := range f.Sections {
		b, err := s.Data()
		if s.Type != elf.SHT_NOTE || err != nil {
			continue
		}
		for len(b) > 16 { // names of four bytes only
			n := int(f.ByteOrder.Uint32(b[4:]))
			if f.ByteOrder.Uint32(b[8:]) == 3 && string(b[12:16]) == "GNU\x00" {
				return buildid.New(b[16 : 16+n])
			}
			b = b[min(12+(int(f.ByteOrder.Uint32(b))+3)&^3+(n+3)&^3, len(b)):]
		}
	}
	return ""
}

// start runs a program until the test ends, and waits until it is that one.
func start(t *testing.T, exe string, args ...string) int32 {
	t.Helper()
	cmd := exec.Command(exe, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return int32(cmd.Process.Pid)
}

func mustRead(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestHostPath(t *testing.T) {
	for _, base := range []string{"prog", "d ir (x)/a b", "new\nline", "bytes\xff\xfe", `back\012slash`, "x (deleted)"} { // B33, C06
		id := testID(0xab, 20)
		prog := write(t, filepath.Join(t.TempDir(), base), testELF{id: id, text: "code"}.bytes())
		testSource(t, Host(HostOptions{}), Key{ID: id, Kind: ELF, Path: prog}, mustRead(t, prog))
	}
	// As perf names it if it took the name from /proc/PID/maps.
	id := testID(0xac, 20)
	prog := write(t, t.TempDir()+"/new\nline", testELF{id: id, text: "code"}.bytes())
	testSource(t, Host(HostOptions{}), Key{ID: id, Kind: ELF, Path: strings.ReplaceAll(prog, "\n", `\012`)}, mustRead(t, prog))
	// BUN-2: only regular files that hold something.
	dir := t.TempDir()
	syscall.Mkfifo(dir+"/fifo", 0o600)
	os.WriteFile(dir+"/empty", nil, 0o600)
	os.Mkdir(dir+"/dir", 0o700)
	for _, p := range []string{dir + "/fifo", dir + "/empty", dir + "/dir", "/dev/null", "/proc/self/status", "/sys/kernel/notes"} {
		testNone(t, Host(HostOptions{}), Key{ID: testID(1, 20), Kind: ELF, Path: p}, NotRegular)
	}
	// BUN-3: a file replaced under the path.
	prog = write(t, dir+"/prog", testELF{id: testID(2, 20), text: "new"}.bytes())
	testNone(t, Host(HostOptions{}), Key{ID: testID(1, 20), Kind: ELF, Path: prog}, Replaced)
	testNone(t, Host(HostOptions{}), Key{ID: testID(1, 20), Kind: ELF, Path: dir + "/none"})
}

// C05, C06: a removed program comes from the process that runs it; its mark is
// no part of its name, unless a file has that very name.
func TestHostDeleted(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	prog, id := sleeper(t, dir+"/d ir/x\ny")
	want := mustRead(t, prog)
	pid := start(t, prog)
	if err := os.Remove(prog); err != nil {
		t.Fatal(err)
	}
	s := Host(HostOptions{PIDs: []int32{pid}})
	for _, p := range []string{prog, prog + " (deleted)"} {
		testSource(t, s, Key{ID: id, Kind: ELF, Path: p}, want)
	}
	f, err := s.Get(t.Context(), Key{ID: id, Kind: ELF, Path: prog})
	if err != nil || !f.Bound || !strings.HasPrefix(f.Origin, fmt.Sprintf("/proc/%d/map_files/", pid)) {
		t.Errorf("Get: %+v, %v", f, err)
	}
	f.Close()
	// Nobody runs it: the reason says so.
	testNone(t, Host(HostOptions{}), Key{ID: id, Kind: ELF, Path: prog + " (deleted)"}, Deleted)
	// Another program now has the name.
	write(t, prog, testELF{id: testID(9, 20), text: "other"}.bytes())
	testSource(t, s, Key{ID: id, Kind: ELF, Path: prog + " (deleted)"}, want)
	testNone(t, Host(HostOptions{}), Key{ID: id, Kind: ELF, Path: prog + " (deleted)"}, Replaced)
	// And a file truly named so.
	id2 := testID(8, 20)
	named := write(t, dir+"/x (deleted)", testELF{id: id2, text: "named so"}.bytes())
	write(t, dir+"/x", testELF{id: id, text: "not it"}.bytes())
	testSource(t, Host(HostOptions{}), Key{ID: id2, Kind: ELF, Path: named}, mustRead(t, named))
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: needs root, for /proc/PID/map_files")
	}
}

// C10: a memfd is not looked up on a disk, but taken from its process.
func TestHostMemfd(t *testing.T) {
	needRoot(t)
	prog, id := sleeper(t, t.TempDir()+"/prog")
	want := mustRead(t, prog)
	fd, err := unix.MemfdCreate("prog", 0)
	if err != nil {
		t.Skip("skipped:", err)
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, want); err != nil {
		t.Fatal(err)
	}
	pid := start(t, fmt.Sprintf("/proc/self/fd/%d", fd))
	k := Key{ID: id, Kind: ELF, Path: "/memfd:prog (deleted)"}
	testSource(t, Host(HostOptions{PIDs: []int32{pid}}), k, want)
	// A file of that name on the disk is none of it.
	root := t.TempDir()
	write(t, root+"/memfd:prog (deleted)", want)
	write(t, root+"/memfd:prog", want)
	testNone(t, Host(HostOptions{Root: root}), k, Deleted)
	for _, p := range []string{"//anon", "/dev/zero (deleted)", "/SYSV00000000 (deleted)", "/anon_hugepage (deleted)", "[heap]", "[stack]", ""} {
		testNone(t, Host(HostOptions{}), Key{ID: id, Kind: ELF, Path: p}, Deleted)
	}
}

// C01, C02: a program in another mount namespace comes from there, and never
// the host's file of that path.
func TestHostMountNamespace(t *testing.T) {
	needRoot(t)
	if _, err := exec.LookPath("unshare"); err != nil {
		t.Skip("skipped: no unshare")
	}
	prog, id := sleeper(t, t.TempDir()+"/prog")
	want := mustRead(t, prog)
	inside := t.TempDir() + "/mnt"
	os.Mkdir(inside, 0o755)
	hostFile := write(t, inside+"/prog", testELF{id: testID(7, 20), text: "the host's"}.bytes())
	ready := t.TempDir() + "/ready"
	script := `mount -t tmpfs none "$1" && cp "$2" "$1/prog" && "$1/prog" & echo $! >"$3.tmp" && mv "$3.tmp" "$3"; wait`
	cmd := exec.Command("unshare", "-m", "sh", "-c", script, "sh", inside, prog, ready)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Skip("skipped:", err)
	}
	t.Cleanup(func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); cmd.Wait() })
	var pid int32
	for range 200 {
		time.Sleep(10 * time.Millisecond)
		b, err := os.ReadFile(ready)
		if err != nil {
			continue
		}
		fmt.Sscan(string(b), &pid)
		if children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)); err == nil && len(children) > 0 {
			fmt.Sscan(string(children), &pid)
		}
		if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && exe == hostFile {
			break
		}
		pid = 0
	}
	if pid == 0 {
		t.Skip("skipped: no mount namespace could be made")
	}
	k := Key{ID: id, Kind: ELF, Path: hostFile}
	testSource(t, Host(HostOptions{PIDs: []int32{pid}}), k, want)
	testNone(t, Host(HostOptions{}), k, Replaced)
	// By the path in its root alone, as where map_files may not be read.
	p, err := openProc("/proc", pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	f, err := p.openInRoot(hostFile, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := verify(f, k); err != nil {
		t.Error(err)
	}
	f.Close()
}

// What has no id is used only if it is the very file, and is never verified.
func TestHostNoID(t *testing.T) {
	dir := t.TempDir()
	prog := write(t, dir+"/prog", testELF{text: "no id"}.bytes())
	var st unix.Stat_t
	if err := unix.Stat(prog, &st); err != nil {
		t.Fatal(err)
	}
	k := Key{Kind: ELF, Path: prog, Ino: st.Ino, Maj: unix.Major(st.Dev), Min: unix.Minor(st.Dev)}
	now := time.Now()
	o := HostOptions{SameHost: true, Recorded: now}
	testSource(t, Host(o), k, mustRead(t, prog))
	f, err := Host(o).Get(t.Context(), k)
	if err != nil || !f.Unverified {
		t.Errorf("Get: %+v, %v; want an unverified file", f, err)
	}
	f.Close()
	testNone(t, Host(HostOptions{Recorded: now}), k, OtherHost)
	testNone(t, Host(HostOptions{SameHost: true}), k, Untied)
	testNone(t, Host(HostOptions{SameHost: true, Recorded: now.Add(-time.Hour)}), k, Replaced)
	noInode := k
	noInode.Ino = 0
	testNone(t, Host(o), noInode, Untied)
	otherInode := k
	otherInode.Ino++
	testNone(t, Host(o), otherInode, Replaced)
	otherDevice := k
	otherDevice.Min++
	testNone(t, Host(o), otherDevice, Replaced)
	// C07: replaced by rename during the recording.
	write(t, dir+"/new", testELF{text: "replaced"}.bytes())
	if err := os.Rename(dir+"/new", prog); err != nil {
		t.Fatal(err)
	}
	testNone(t, Host(o), k, Replaced)
}

func TestHostPerfMap(t *testing.T) {
	needRoot(t)
	prog, _ := sleeper(t, t.TempDir()+"/prog")
	pid := start(t, prog)
	name := fmt.Sprintf("/tmp/perf-%d.map", pid)
	b := []byte("1000 10 jitted\n")
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Skip("skipped:", err)
	}
	t.Cleanup(func() { os.Remove(name) })
	k := Key{Kind: PerfMap, PID: pid, Path: name}
	o := HostOptions{SameHost: true, Recorded: time.Now().Add(time.Minute), PIDs: []int32{pid}}
	testSource(t, Host(o), k, b)
	testNone(t, Host(HostOptions{}), k, OtherHost)
	testNone(t, Host(HostOptions{SameHost: true, Recorded: time.Now().Add(-time.Hour)}), k, OtherHost)
	// That of an earlier process with the same number.
	old := time.Now().Add(-time.Hour)
	os.Chtimes(name, old, old)
	if rs := refused(t, Host(o), k); !slices.Contains(rs, Replaced) {
		t.Errorf("written before the process started: %q", rs)
	}
	os.Chtimes(name, time.Now(), time.Now())
	// S7: somebody else's, a link, a FIFO.
	os.Chown(name, 12345, -1)
	if rs := refused(t, Host(o), k); !slices.Contains(rs, Unreadable) {
		t.Errorf("of another user: %q", rs)
	}
	os.Remove(name)
	target := write(t, t.TempDir()+"/target", b)
	os.Symlink(target, name)
	if rs := refused(t, Host(o), k); !slices.Contains(rs, NotRegular) {
		t.Errorf("a link: %q", rs)
	}
	os.Remove(name)
	syscall.Mkfifo(name, 0o600)
	if rs := refused(t, Host(o), k); !slices.Contains(rs, NotRegular) {
		t.Errorf("a FIFO: %q", rs)
	}
	os.Remove(name)
	testNone(t, Host(o), k)
	// Of a process that has ended.
	root := t.TempDir()
	write(t, root+"/tmp/perf-4194303.map", b)
	os.Chmod(root+"/tmp/perf-4194303.map", 0o644)
	f, err := Host(HostOptions{SameHost: true, Root: root}).Get(t.Context(), Key{Kind: PerfMap, PID: 4194303})
	if err != nil || !f.Unverified {
		t.Errorf("Get: %+v, %v; want an unverified file", f, err)
	} else {
		f.Close()
	}
}

// S8: a jitdump is that which the process had mapped, and nobody else's.
func TestHostJITDump(t *testing.T) {
	needRoot(t)
	prog, _ := sleeper(t, t.TempDir()+"/prog")
	pid := start(t, prog)
	name := t.TempDir() + "/jit-7.dump"
	b := []byte("JiTD, and so on")
	write(t, name, b)
	os.Chmod(name, 0o600)
	inode := func() uint64 {
		var st syscall.Stat_t
		if err := syscall.Stat(name, &st); err != nil {
			t.Fatal(err)
		}
		return st.Ino
	}
	k := Key{Kind: JITDump, PID: pid, Path: name, Ino: inode()}
	o := HostOptions{SameHost: true, Recorded: time.Now().Add(time.Minute)}
	testSource(t, Host(o), k, b)
	testNone(t, Host(HostOptions{}), k, OtherHost)
	f, err := Host(o).Get(t.Context(), k)
	if err != nil || f.Unverified || !f.Bound {
		t.Fatalf("%+v, %v", f, err)
	}
	// The process goes on writing.
	if w, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0); err == nil {
		w.WriteString("more")
		w.Close()
	}
	if err := f.Unchanged(); err != nil {
		t.Error(err)
	}
	f.Close()
	// Without its inode it may be the one; with that of another it is not.
	k.Ino = 0
	if f, err = Host(o).Get(t.Context(), k); err != nil || !f.Unverified {
		t.Errorf("without an inode: %+v, %v", f, err)
	} else {
		f.Close()
	}
	k.Ino = inode() + 1
	testNone(t, Host(o), k, Replaced)
	k.Ino = inode()
	os.Chown(name, 12345, -1)
	if rs := refused(t, Host(o), k); !slices.Contains(rs, Unreadable) {
		t.Errorf("of another user: %q", rs)
	}
	os.Remove(name)
	k.Ino = 0
	testNone(t, Host(o), k)
	os.Symlink(write(t, t.TempDir()+"/target", b), name)
	if rs := refused(t, Host(o), k); !slices.Contains(rs, NotRegular) {
		t.Errorf("a link: %q", rs)
	}
	os.Remove(name)
	syscall.Mkfifo(name, 0o600)
	if rs := refused(t, Host(o), k); !slices.Contains(rs, NotRegular) {
		t.Errorf("a FIFO: %q", rs)
	}
	k.Path = "relative/jit-7.dump"
	testNone(t, Host(o), k)
}

// S55, S56: our own vDSO under its id, and no other.
func TestHostVDSO(t *testing.T) {
	b, err := ownVDSO("/proc")
	if err != nil {
		t.Skip("skipped:", err)
	}
	name := write(t, t.TempDir()+"/vdso", b)
	id := elfID(t, name)
	testSource(t, Host(HostOptions{}), Key{ID: id, Kind: VDSO, Path: "[vdso]"}, b)
	testNone(t, Host(HostOptions{}), Key{ID: testID(1, 20), Kind: VDSO, Path: "[vdso]"}, OtherHost)
	testNone(t, Host(HostOptions{}), Key{Kind: VDSO, Path: "[vdso]"}, Untied)
	same, err := Host(HostOptions{SameHost: true}).Get(t.Context(), Key{Kind: VDSO, Path: "[vdso]"})
	if err != nil || !same.Unverified {
		t.Errorf("Get: %+v, %v; want an unverified file", same, err)
	} else if c := Cache(t.TempDir()); true {
		if _, err := c.Put(t.Context(), Key{Kind: VDSO, Path: "[vdso]"}, same, PutOptions{}); err != nil {
			t.Error(err)
		}
		testSource(t, c, Key{Kind: VDSO, Path: "[vdso]"}, b)
	}
	// The kernel's package brings those of all kinds.
	root := t.TempDir()
	id32 := testID(0x32, 20)
	lib := write(t, root+"/lib/modules/6.1.0/vdso/vdso32.so", testELF{id: id32, text: "32"}.bytes())
	s := Host(HostOptions{Root: root, Release: "6.1.0"})
	testSource(t, s, Key{ID: id32, Kind: VDSO, Path: "[vdso32]"}, mustRead(t, lib))
}

// S11, S12: kallsyms of the running kernel for its own recordings, and never
// zeros.
func TestHostKallsyms(t *testing.T) {
	id := testID(0x5a, 20)
	proc, sys := t.TempDir(), t.TempDir()
	note := append([]byte{4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0}, id...)
	if bigEndian {
		t.Skip("skipped: the note is little-endian")
	}
	write(t, sys+"/kernel/notes", note)
	syms := []byte("0000000000000000 A fixed_percpu_data\nffffffff81000000 T _stext\n")
	write(t, proc+"/kallsyms", syms)
	o := HostOptions{Proc: proc, Sys: sys}
	k := Key{ID: id, Kind: Kallsyms, Path: "[kernel.kallsyms]"}
	testSource(t, Host(o), k, syms)
	testNone(t, Host(o), Key{ID: testID(1, 20), Kind: Kallsyms, Path: "[kernel.kallsyms]"}, OtherHost)
	testNone(t, Host(o), Key{Kind: Kallsyms, Path: "[kernel.kallsyms]"}, Untied)
	same := o
	same.SameHost = true
	f, err := Host(same).Get(t.Context(), Key{Kind: Kallsyms, Path: "[kernel.kallsyms]"})
	if err != nil {
		t.Fatal(err)
	}
	if !f.Unverified {
		t.Error("kallsyms without an id are verified")
	}
	f.Close()
	testNone(t, Host(o), Key{ID: id, Kind: Kallsyms, Path: "[guest.kernel.kallsyms]"})
	write(t, proc+"/kallsyms", bytes.ReplaceAll(syms, []byte("ffffffff81000000"), []byte("0000000000000000")))
	testNone(t, Host(o), k, Restricted)
	if got, err := KernelID(sys); err != nil || got != id {
		t.Errorf("KernelID = %s, %v", got, err)
	}
}

func TestHostKernelFiles(t *testing.T) {
	root, sys := t.TempDir(), t.TempDir()
	kid, mid := testID(0x6b, 20), testID(0x6d, 20)
	image := testELF{id: kid, text: "kernel", symtab: true}.bytes()
	mod := testELF{id: mid, text: "module", symtab: true}.bytes()
	dir := root + "/lib/modules/6.1.0-x"
	write(t, root+"/boot/vmlinux-6.1.0-x", image)
	write(t, dir+"/kernel/fs/some-fs.ko", mod)
	write(t, dir+"/modules.dep", []byte("kernel/fs/some-fs.ko:\nkernel/fs/gone.ko.zst: kernel/fs/some-fs.ko\n"))
	s := Host(HostOptions{Root: root, Sys: sys, Release: "6.1.0-x"})
	testSource(t, s, Key{ID: kid, Kind: ELF, Path: "[kernel.kallsyms]"}, image)
	for _, p := range []string{"[some_fs]", "/lib/modules/6.1.0-x/kernel/fs/some-fs.ko", "/lib/modules/6.1.0-x/elsewhere/some-fs.ko.xz"} {
		testSource(t, s, Key{ID: mid, Kind: ELF, Path: p}, mod)
	}
	testNone(t, s, Key{ID: testID(1, 20), Kind: ELF, Path: "[some_fs]"}, Replaced)
	testNone(t, s, Key{ID: mid, Kind: ELF, Path: "[gone]"})
	testNone(t, s, Key{Kind: ELF, Path: "[some_fs]"}, Untied)
	// Without depmod's list the tree is walked; compressed ones are seen through.
	os.Remove(dir + "/modules.dep")
	os.Remove(dir + "/kernel/fs/some-fs.ko")
	for _, z := range []struct{ tool, ext string }{{"xz", ".xz"}, {"gzip", ".gz"}, {"zstd", ".zst"}} {
		if _, err := exec.LookPath(z.tool); err != nil {
			t.Logf("skipped: no %s", z.tool)
			continue
		}
		plain := write(t, t.TempDir()+"/m", mod)
		args := []string{"-c", plain}
		if z.tool == "xz" {
			args = []string{"--check=crc32", "-c", plain}
		}
		packed, err := exec.Command(z.tool, args...).Output()
		if err != nil {
			t.Fatal(err)
		}
		name := write(t, dir+"/updates/dkms/some-fs.ko"+z.ext, packed)
		s := Host(HostOptions{Root: root, Sys: sys, Release: "6.1.0-x"})
		testSource(t, s, Key{ID: mid, Kind: ELF, Path: "[some_fs]"}, packed)
		os.Remove(name)
	}
}

func TestWalkInRoot(t *testing.T) {
	root := t.TempDir()
	outside := write(t, t.TempDir()+"/secret", []byte("secret"))
	write(t, root+"/usr/bin/prog", []byte("prog"))
	symlink(t, "/usr/bin", root+"/bin")
	symlink(t, "../usr/../usr/bin/prog", root+"/etc/alt")
	symlink(t, "../../../../../../../.."+outside, root+"/up")
	symlink(t, outside, root+"/abs")
	symlink(t, "loop", root+"/loop")
	open := func(name string, noLink bool) (string, error) {
		fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		got, err := walkInRoot(fd, name, noLink)
		if err != nil {
			return "", err
		}
		defer unix.Close(got)
		f, err := openPointed(got, name)
		if err != nil {
			return "", err
		}
		defer f.Close()
		b := make([]byte, f.Size)
		_, err = f.ReadAt(b, 0)
		return string(b), err
	}
	before := countFDs(t)
	for _, p := range []string{"/usr/bin/prog", "/bin/prog", "/etc/alt", "/../../usr//./bin/prog", "usr/bin/prog"} {
		if b, err := open(p, false); err != nil || b != "prog" {
			t.Errorf("%s: %q, %v", p, b, err)
		}
	}
	for _, p := range []string{"/up", "/abs", "/loop", "/none", "/usr/bin/prog/x", "/usr", "/" + strings.Repeat("../a/", 10000)} {
		if b, err := open(p, false); err == nil {
			t.Errorf("%s: %q", p, b)
		}
	}
	if _, err := open("/etc/alt", true); err != errLink {
		t.Errorf("link with noLink: %v", err)
	}
	if after := countFDs(t); after != before {
		t.Errorf("%d descriptors open, were %d", after, before)
	}
}

func countFDs(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

func TestParseMapping(t *testing.T) {
	for _, tt := range []struct {
		line string
		want mapping
	}{
		{"7f00-7f10 r-xp 00001000 fe:00 123                        /usr/lib/a b (deleted)\n",
			mapping{rng: "7f00-7f10", path: "/usr/lib/a b (deleted)", maj: 0xfe, ino: 123, executable: true}},
		{"7f00-7f10 rw-p 00001000 00:1f 18446744073709551615       /new\\012line",
			mapping{rng: "7f00-7f10", path: `/new\012line`, min: 0x1f, ino: 1<<64 - 1}},
	} {
		if got, err := parseMapping(tt.line); err != nil || got != tt.want {
			t.Errorf("parseMapping(%q) = %+v, %v", tt.line, got, err)
		}
	}
	for _, line := range []string{"", "\n", "7f00-7f10 rw-p 00000000 00:00 0\n", "7f00-7f10 rw-p 00000000 00:00 0      [heap]\n",
		"../-x rw-p 0 00:00 1 /x", "7f00-7f10 r 0 00:00 1 /x", "7f00-7f10 r-xp 0 zz:00 1 /x"} {
		if m, err := parseMapping(line); err != errNoMapping {
			t.Errorf("parseMapping(%q) = %+v, %v", line, m, err)
		}
	}
}

func FuzzParseMapping(f *testing.F) {
	f.Add("7f00-7f10 r-xp 00001000 fe:00 123                        /usr/lib/a b (deleted)\n")
	f.Fuzz(func(t *testing.T, line string) {
		m, err := parseMapping(line)
		if err != nil {
			return
		}
		// What is opened is a name in map_files, never a way out of it.
		if strings.ContainsAny(m.rng, "/.\x00") || m.path[0] != '/' {
			t.Errorf("parseMapping(%q) = %+v", line, m)
		}
	})
}

// X04, F14: a directory that is exchanged for a link while files are put below
// it, and removed: nothing lands, or is removed, outside of the tree.
func TestPutRace(t *testing.T) {
	dir, victim := t.TempDir(), t.TempDir()
	id := testID(0xab, 20)
	kept := write(t, victim+"/prog/"+id.String()+"/elf", []byte("not ours"))
	write(t, dir+"/bin/keep", nil)
	symlink(t, victim, dir+"/swap")
	stop := make(chan struct{})
	swapped := make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				swapped <- n
				return
			default:
				if unix.Renameat2(unix.AT_FDCWD, dir+"/bin", unix.AT_FDCWD, dir+"/swap", unix.RENAME_EXCHANGE) == nil {
					n++
				}
			}
		}
	}()
	c := Cache(dir)
	b := testELF{id: id, text: "x"}.bytes()
	const puts = 40
	stored := 0
	for range puts {
		if _, err := c.Put(t.Context(), Key{ID: id, Kind: ELF, Path: "/bin/prog"}, memFile(b, "memory"), PutOptions{Update: true}); err == nil {
			stored++
		}
		c.Remove(t.Context(), RemoveOptions{ID: id})
	}
	close(stop)
	n := <-swapped
	if n == 0 {
		t.Skip("skipped: the file system cannot exchange names")
	}
	t.Logf("%d swaps, %d of %d stored", n, stored, puts)
	if got, err := os.ReadFile(kept); err != nil || string(got) != "not ours" {
		t.Errorf("outside of the tree: %q, %v", got, err)
	}
	for _, d := range []string{victim, victim + "/prog", victim + "/prog/" + id.String()} {
		if names, err := os.ReadDir(d); err != nil || len(names) != 1 {
			t.Errorf("%s: %v, %v", d, names, err)
		}
	}
}
