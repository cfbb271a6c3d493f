package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/perfark/perfark/internal/perftest"
)

// loginSSH stands for ssh: it has a shell run the command here, as sshd does.
const loginSSH = `#!/bin/sh
while :; do case $1 in -T) shift ;; -o) shift 2 ;; *) break ;; esac; done
shift
cd "$REMOTE" || exit
exec env PATH="$REMOTEPATH" HOME="$REMOTEHOME" TMPDIR="$REMOTE" XDG_RUNTIME_DIR= $LOGIN -c "$*"
`

// A remote is a host to capture on, and a directory here to do it from.
type remote struct {
	*recorder
	there string   // the directory for temporary files there
	path  string   // PATH there, without gzip, which the race detector makes slow here
	env   []string // with PERFARK_SSH
}

// newRemote has perfark run a shell of this host instead of ssh.
func newRemote(t *testing.T) *remote {
	t.Helper()
	r := &remote{recorder: newRecorder(t), there: t.TempDir(), path: t.TempDir()}
	perftest.Run(t, r.path, nil, nil, "sh", "-c", "ln -s /usr/bin/* /bin/* /usr/sbin/* . 2>/dev/null; rm -f gzip")
	ssh := r.program("ssh", loginSSH)
	r.env = append(os.Environ(), "PERFARK_SSH="+ssh, "REMOTE="+r.there, "REMOTEHOME="+t.TempDir(), "REMOTEPATH="+r.path, "LOGIN=sh")
	return r
}

// program writes a program into the directory of the test.
func (r *remote) program(name, text string) string {
	r.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		r.Fatal(err)
	}
	return path
}

func (r *remote) capture(args ...string) perftest.Result {
	r.Helper()
	return perftest.Run(r, r.dir, r.env, nil, r.bin, append([]string{"capture"}, args...)...)
}

// begin starts a capture and waits until its recording there has samples.
func (r *remote) begin(args ...string) (*exec.Cmd, *bytes.Buffer) {
	r.Helper()
	cmd := exec.Command(r.bin, append([]string{"capture"}, args...)...)
	var errs bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stderr = r.dir, r.env, &errs
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	r.until("a recording", func() bool {
		list, _ := filepath.Glob(filepath.Join(r.there, "*", ".perfark-capture-*", "perf.data"))
		if len(list) != 1 {
			return false
		}
		st, err := os.Stat(list[0])
		return err == nil && st.Size() > 40<<10
	})
	return cmd, &errs
}

func (r *remote) until(what string, done func() bool) {
	r.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("no %s within 20 s", what)
		}
	}
}

// clean checks that nothing is left there, no file and no process, and here
// nothing but the files in want.
func (r *remote) clean(want ...string) {
	r.Helper()
	empty := func() bool {
		list, err := os.ReadDir(r.there)
		return err == nil && len(list) == 0 && len(r.running()) == 0
	}
	r.until("end of what runs there", empty)
	list, err := os.ReadDir(r.dir)
	if err != nil {
		r.Fatal(err)
	}
	for _, e := range list {
		known := false
		for _, w := range append(want, "burn", "perfark", "probe.data", ".cache", "ssh", "config", "uname") {
			known = known || e.Name() == w
		}
		if !known {
			r.Errorf("left here: %s", e.Name())
		}
	}
}

// running returns the processes there whose program is perfark's copy.
func (r *remote) running() (pids []int) {
	exes, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, e := range exes {
		if name, err := os.Readlink(e); err == nil && strings.HasPrefix(name, r.there+"/") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(e)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// whole checks a bundle.
func (r *remote) whole(name string) {
	r.Helper()
	if res := perftest.Run(r, r.dir, nil, nil, r.bin, "verify", "--allow-missing", name); res.Code != 0 {
		r.Errorf("verify: %d: %s", res.Code, res.Stderr)
	}
	res := perftest.Run(r, r.dir, perftest.Env(r.dir), nil, r.bin, "report", "-i", name, "--stdio")
	if !strings.Contains(res.Stdout, "leaf") {
		r.Errorf("report: %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
}

// Whatever shell the user has on the other host, arguments come there as they
// are, and the bundle comes back.
func TestCaptureRemoteShells(t *testing.T) {
	r := newRemote(t)
	odd := []string{"a b", "it's", `x"y$HOME` + "`id`" + `\n!!`, "new\nline\n", "", "*", "-o", "~", "\x80\xff", "%s\\"}
	want := ""
	for _, a := range odd {
		want += "<" + strings.ToValidUTF8(a, `\x80\xff`) + ">\n"
	}
	for _, shell := range []string{"dash", "busybox ash", "fish", "csh"} {
		if _, err := exec.LookPath(strings.Fields(shell)[0]); err != nil {
			continue // there is at least one
		}
		t.Run(shell, func(t *testing.T) {
			r := &remote{&recorder{t, r.dir, r.bin}, r.there, r.path, append(r.env, "LOGIN="+shell)}
			out := "odd 'name\n.perfark"
			res := r.capture(append([]string{"--ssh", "box", "-q", "-F", "200", "-o", out, "--", "sh", "-c", `printf "<%s>\n" "$@"; exec "$0" 60`, filepath.Join(r.dir, "burn")}, odd...)...)
			if res.Code != 0 || res.Stdout != "" || !strings.Contains(res.Stderr, want) {
				t.Errorf("%d: %s%s", res.Code, res.Stdout, res.Stderr)
			}
			r.whole(out)
			r.clean(out)
			os.Remove(filepath.Join(r.dir, out))
		})
	}
}

// The exit status is that of the capture there, with or without a bundle.
func TestCaptureRemoteStatus(t *testing.T) {
	r := newRemote(t)
	burn := filepath.Join(r.dir, "burn")
	res := r.capture("--ssh", "me@box", "-o", "s.perfark", "--", burn, "60", "7")
	if res.Code != 7 || !strings.Contains(res.Stderr, "\ns.perfark: ") {
		t.Errorf("%d: %s", res.Code, res.Stderr)
	}
	r.whole("s.perfark")
	for args, want := range map[string]string{ // what is wrong here, with its name
		"--ssh= -o x.perfark -a":                                     `--ssh "": want a host`,
		"--ssh box -o nodir/x.perfark -a":                            "nodir/x.perfark: no such file or directory",
		"--ssh box -o /dev -a":                                       "/dev: there, and not a regular file",
		"--ssh box --remote-binary nosuch -o x.perfark -- ./nothing": "box: open nosuch: no such file or directory",
	} {
		if res := r.capture(strings.Fields(args)...); res.Code == 0 || res.Stderr != "perfark: capture: "+want+"\n" {
			t.Errorf("%s: status %d, %s", args, res.Code, res.Stderr)
		}
	}
	if res := r.capture("--ssh", "box", "-o", "n.perfark", "-e", "nosuch"); res.Code != 2 || !strings.Contains(res.Stderr, "nosuch") {
		t.Errorf("%d: %s", res.Code, res.Stderr)
	}
	res = r.capture("--ssh", "box", "-o", "-", "-q", "--", burn, "60")
	if res.Code != 0 {
		t.Errorf("%d: %s", res.Code, res.Stderr)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "o.perfark"), []byte(res.Stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	r.whole("o.perfark")
	for _, args := range []string{"--sudo", "--ssh box --json", "--ssh box --keep-data", "--ssh-option A=b"} {
		if res := r.capture(append(strings.Fields(args), "-o", "n.perfark")...); res.Code != 2 {
			t.Errorf("%s: %d: %s", args, res.Code, res.Stderr)
		}
	}
	if res := r.capture("--ssh=-oProxyCommand=touch x", "-o", "n.perfark"); res.Code != 1 || !strings.Contains(res.Stderr, "not a host") {
		t.Errorf("%d: %s", res.Code, res.Stderr)
	}
	r.clean("s.perfark", "o.perfark")
}

// A host for which the program is not made is told by its name, and which one
// to give.
func TestCaptureRemoteMachine(t *testing.T) {
	r := newRemote(t)
	for _, tt := range []struct{ system, machine, err, hint string }{
		{"Linux", "aarch64", `box: runs Linux on aarch64, but the perfark to be copied there is for Linux on `, "GOARCH=arm64"},
		{"Linux", "armv7l", `box: runs Linux on armv7l, but `, "GOARCH=arm\n"},
		{"Darwin", "arm64", `box: runs Darwin on arm64, but `, "perfark records on Linux"},
		{"Linux", "\x1b[2J", "", "does not run"},
	} {
		r.program("uname", fmt.Sprintf("#!/bin/sh\ncase $1 in -s) echo %s ;; *) printf '%%s\\n' '%s' ;; esac\n", tt.system, tt.machine))
		env := r.env
		r.env = append(env, "LOGIN=env PATH="+r.dir+":"+r.path+" sh")
		args := []string{"--ssh", "box", "-o", "m.perfark"}
		if tt.err == "" { // of a machine that is not known it is seen whether the copy runs
			args = append(args, "--remote-binary", "burn")
		}
		res := r.capture(append(args, "--", "true")...)
		r.env = env
		if res.Code != 1 || !strings.Contains(res.Stderr, tt.err) || !strings.Contains(res.Stderr, tt.hint) || strings.Contains(res.Stderr, "\x1b") {
			t.Errorf("%q: %d: %s", tt, res.Code, res.Stderr)
		}
		r.clean()
	}
	if res := r.capture("--ssh", "box", "--remote-binary", "burn.c", "-o", "m.perfark"); res.Code != 1 {
		t.Errorf("%d: %s", res.Code, res.Stderr)
	}
	// What is no program there says so itself.
	if res := r.capture("--ssh", "box", "--remote-binary", "burn", "-o", "m.perfark", "--", "true"); res.Code != 1 || !strings.Contains(res.Stderr, "does not run") {
		t.Errorf("%d: %s", res.Code, res.Stderr)
	}
	r.clean()
}

// Where no program may be run of the directory for temporary files, another is
// taken; where there is none, all are named.
func TestCaptureRemoteNoexec(t *testing.T) {
	r := newRemote(t)
	perftest.NeedTool(t, "unshare")
	if perftest.Run(t, r.dir, nil, nil, "unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", r.dir).Code != 0 {
		t.Skip("NOTICE: no file systems may be mounted here")
	}
	run := func(prepare string) perftest.Result {
		r.program("shell", "#!/bin/sh\nmount -t tmpfs -o noexec,size=1m tmpfs $REMOTE/t; mount -t tmpfs -o noexec tmpfs /dev/shm\n"+prepare+"\nexec sh \"$@\"\n")
		if err := os.MkdirAll(filepath.Join(r.there, "t"), 0o700); err != nil {
			t.Fatal(err)
		}
		env := r.env
		r.env = append(env, "LOGIN=unshare -m env TMPDIR="+filepath.Join(r.there, "t")+" "+filepath.Join(r.dir, "shell"))
		defer func() { r.env = env }()
		return r.capture("--ssh", "box", "-q", "-o", "x.perfark", "--", filepath.Join(r.dir, "burn"), "60")
	}
	if res := run(""); res.Code != 0 {
		t.Errorf("%d: %s", res.Code, res.Stderr)
	}
	r.whole("x.perfark")
	os.Remove(filepath.Join(r.dir, "x.perfark"))
	res := run("export HOME=/proc XDG_RUNTIME_DIR=$REMOTE/t")
	if res.Code != 1 || !strings.Contains(res.Stderr, "no directory for a copy of perfark") || !strings.Contains(res.Stderr, "/dev/shm: no program may be run there (noexec)") || !strings.Contains(res.Stderr, "/proc: may not be written to") {
		t.Errorf("%d: %s", res.Code, res.Stderr)
	}
	os.Remove(filepath.Join(r.there, "t"))
	r.clean("shell")
}

// hostileSSH answers as the script on the other host does, up to its end.
const hostileSSH = `#!/bin/sh
read -r n; script=$(dd bs=1 count=$n 2>/dev/null); mark=$(printf '%s\n' "$script" | sed -n 's/^mark=\([^ ]*\) .*/\1/p;q')
say() { printf '%b\n' "$mark $*"; }
begin() { say host Linux $(uname -m); read -r go; say ready plain; read -r n; head -c $n >/dev/null; say begin /x; }
`

// Another host that sends what it likes sends no escape sequences to the
// terminal, fills no memory, and leaves no file.
func TestCaptureRemoteHostile(t *testing.T) {
	r := newRemote(t)
	if res := r.capture("--ssh", "box", "-q", "-o", "good.perfark", "--", filepath.Join(r.dir, "burn"), "60"); res.Code != 0 {
		t.Fatalf("%d: %s", res.Code, res.Stderr)
	}
	for _, tt := range []struct{ does, err string }{
		{`exit 0`, "box: connection lost"},
		{`exit 255`, "box: connection lost before anything was done there: ssh: exit status 255"},
		{`while :; do echo 0123456789012345678901234567890123456789; done`, "box: its shell printed more than 65536 bytes"},
		{`head -c 1000000 /dev/zero; exit 1`, "box: its shell printed more than 65536 bytes"},
		{`say host Linux $(uname -m); read -r go; say fail 'no\033[2J\007room'`, `box: no\x1b[2J\x07room`},
		{`say host Linux $(uname -m); read -r go; echo surprise`, `box: unexpected output "surprise\n"`},
		{`begin; say bundle 99999999999999999999`, `box: a bundle of "99999999999999999999" bytes, want at most 68719476736`},
		{`begin; say bundle -1`, `want at most`},
		{`begin; say bundle 100; echo short`, `box: connection lost after 6 of the 100 bytes of the bundle`},
		{`begin; say bundle 6; echo short; say end 0`, `box: the bundle that came: `},
		{`begin; say bundle 0; say end 0`, `box: no bundle came`},
		{`begin; say end 0`, `box: no bundle came`},
		{`begin; say end 300`, `box: unexpected "end 300"`},
		{`begin; say bundle $(($(wc -c <good.perfark))); { head -c 50000 good.perfark; printf x; tail -c +50002 good.perfark; }; say end 0`, `box: the bundle that came: `},
		{`begin; printf '\033]0;owned\007\n\r\033[1A' >&2; head -c 5000000 /dev/zero | tr '\0' '\033' >&2; yes >&2 & y=$!; sleep 0.3; kill $y; say end 3`, `\x1b]0;owned\x07`},
	} {
		r.program("ssh", hostileSSH+tt.does+"\n")
		res := r.capture("--ssh", "box", "--remote-binary", "burn", "-o", "x.perfark", "--", "true")
		want := 1
		if strings.HasSuffix(tt.does, "end 3") {
			want = 3
		}
		if res.Code != want || !strings.Contains(res.Stderr, tt.err) || strings.ContainsAny(res.Stderr, "\x1b\x07\r") || len(res.Stderr) > 5<<20 {
			t.Errorf("%s: %d: %.300q", tt.does, res.Code, res.Stderr)
		}
		r.clean("good.perfark")
	}
}

// Ctrl-C ends the recording, and the bundle comes; when it is given twice, or
// one of the processes is killed, nothing is left on either side.
func TestCaptureRemoteSignals(t *testing.T) {
	r := newRemote(t)
	target := strconv.Itoa(r.background("./burn", "1000000").Process.Pid)
	args := []string{"--ssh", "box", "-o", "i.perfark", "-F", "2000", "-p", target}

	cmd, errs := r.begin(args...)
	cmd.Process.Signal(os.Interrupt)
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 0 || !strings.Contains(errs.String(), "box: the recording ends, and the bundle is waited for") {
		t.Errorf("%v: %s", cmd.ProcessState, errs)
	}
	r.whole("i.perfark")
	r.clean("i.perfark")
	os.Remove(filepath.Join(r.dir, "i.perfark"))

	for _, how := range []string{"SIGTERM twice", "SIGKILL of perfark", "SIGKILL of ssh"} {
		cmd, errs := r.begin(args...)
		var stopped []int
		switch how {
		case "SIGTERM twice":
			// No bundle comes between the two.
			for _, pid := range r.running() {
				syscall.Kill(pid, syscall.SIGSTOP)
				stopped = append(stopped, pid)
			}
			if len(stopped) == 0 {
				t.Fatal("nothing runs there")
			}
			cmd.Process.Signal(syscall.SIGTERM)
			time.Sleep(100 * time.Millisecond)
			cmd.Process.Signal(syscall.SIGTERM)
		case "SIGKILL of perfark":
			cmd.Process.Kill()
		default:
			killChildren(t, cmd.Process.Pid) // the sh there, with which the pipes end
		}
		cmd.Wait()
		for _, pid := range stopped {
			syscall.Kill(pid, syscall.SIGCONT)
		}
		if code := cmd.ProcessState.ExitCode(); code == 0 || code == 3 {
			t.Errorf("%s: exit status %d: %s", how, code, errs)
		}
		r.clean()
	}
}

// killChildren kills the children of a process.
func killChildren(t *testing.T, pid int) {
	t.Helper()
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	killed := 0
	for _, name := range lists {
		b, _ := os.ReadFile(name)
		for pid := range strings.FieldsSeq(string(b)) {
			n, _ := strconv.Atoi(pid)
			syscall.Kill(n, syscall.SIGKILL)
			killed++
		}
	}
	if killed == 0 {
		t.Skip("NOTICE: this kernel does not list the children of a process")
	}
}

// newSSHD starts a real sshd for one test, on a port of its own.
func newSSHD(t *testing.T) (r *remote, sshd *exec.Cmd) {
	t.Helper()
	if _, err := exec.LookPath("sshd"); err != nil {
		if _, err := os.Stat("/usr/sbin/sshd"); err != nil {
			t.Skip("NOTICE: no sshd here (Debian package openssh-server): capture --ssh is tested without it")
		}
	}
	if os.Getuid() != 0 {
		t.Skip("NOTICE: not root: no sshd is started")
	}
	r = newRemote(t)
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	for _, key := range []string{"user", "host"} {
		if res := perftest.Run(t, dir, nil, nil, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key); res.Code != 0 {
			t.Skipf("NOTICE: ssh-keygen: %s", res.Stderr)
		}
	}
	os.MkdirAll("/run/sshd", 0o755)
	for name, text := range map[string]string{
		filepath.Join(dir, "sshd"): fmt.Sprintf("ListenAddress 127.0.0.1\nPort %d\nHostKey %[2]s/host\nAuthorizedKeysFile %[2]s/user.pub\nStrictModes no\nUsePAM no\nPermitRootLogin prohibit-password\nPidFile none\nSetEnv TMPDIR=%s\n",
			port, dir, r.there),
		filepath.Join(dir, "config"): fmt.Sprintf("Host box\nHostName 127.0.0.1\nUser root\nIdentityFile %s/user\nIdentitiesOnly yes\nUserKnownHostsFile /dev/null\nStrictHostKeyChecking no\nLogLevel ERROR\n",
			dir),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sshd = exec.Command("/usr/sbin/sshd", "-D", "-e", "-f", filepath.Join(dir, "sshd"))
	var log bytes.Buffer
	sshd.Stderr = &log
	if err := sshd.Start(); err != nil {
		t.Skipf("NOTICE: sshd: %v", err)
	}
	t.Cleanup(func() {
		sshd.Process.Kill()
		sshd.Wait()
		if t.Failed() {
			t.Logf("sshd: %s", log.String())
		}
	})
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			c.Close()
			break
		}
		if time.Now().After(end) {
			t.Skipf("NOTICE: sshd does not answer: %s", log.String())
		}
	}
	r.env = append(os.Environ(), fmt.Sprintf("PERFARK_SSH=ssh -F %s/config", dir))
	if res := r.capture("--ssh", "box", "--ssh-option", fmt.Sprintf("Port=%d", port), "--ssh-option", "HostKeyAlias=x", "-e", "none"); strings.Contains(res.Stderr, "connection lost") {
		t.Skipf("NOTICE: no login by ssh: %s", res.Stderr)
	}
	r.env = append(r.env, fmt.Sprintf("PERFARK_SSH=ssh -F %s/config -p %d", dir, port))
	return r, sshd
}

// A real sshd: captures of a command and of the whole system, and a connection
// that breaks.
func TestCaptureRemoteSSHD(t *testing.T) {
	r, sshd := newSSHD(t)
	burn := filepath.Join(r.dir, "burn")
	res := r.capture("--ssh", "root@box", "-g", "-o", "c.perfark", "--", burn, "60")
	if res.Code != 0 {
		t.Errorf("%d: %s", res.Code, res.Stderr)
	}
	r.whole("c.perfark")
	r.background("./burn", "1000000")
	res = r.capture("--ssh", "box", "--ssh-option", "Compression=yes", "-a", "-F", "200", "--duration", "1s", "--allow-missing", "--slim", "-o", "a.perfark")
	if res.Code != 0 {
		t.Errorf("%d: %s", res.Code, res.Stderr)
	}
	r.whole("a.perfark")
	r.clean("c.perfark", "a.perfark")

	cmd, errs := r.begin("--ssh", "box", "-o", "b.perfark", "-F", "200", "-a", "--duration", "60s")
	killChildren(t, sshd.Process.Pid)
	cmd.Wait()
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(errs.String(), "box: connection lost") {
		t.Errorf("%v: %s", cmd.ProcessState, errs)
	}
	r.clean("c.perfark", "a.perfark")

	// Nobody is asked for a password, and an unknown host is ssh's to tell.
	if res := r.capture("--ssh", "nobody@box", "--ssh-option", "BatchMode=yes", "-o", "n.perfark"); res.Code != 1 || !strings.Contains(res.Stderr, "connection lost before anything was done there: ssh: exit status 255") {
		t.Errorf("%d: %s", res.Code, res.Stderr)
	}
}
