package capture

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

//go:embed remote.sh
var remoteScript string

// bootstrap is what the shell of the user on the other host is given. That may
// be any shell: there is nothing in the quotes that one of them would take for
// its own. The sh it starts reads the script from its standard input, byte by
// byte, so that nothing is taken of what follows.
const bootstrap = `sh -c 'read -r n && eval "$(dd bs=1 count=$n 2>/dev/null)"'`

// Bounds of what the other host may send beside the bundle.
const (
	remoteLine  = 4 << 10  // bytes of a line
	remoteNoise = 64 << 10 // bytes before the first line of ours
	remoteText  = 1 << 20  // bytes of messages that are shown
)

// remotePatience is how long the other side may take to end when all is said.
const remotePatience = 10 * time.Second

// ErrConnection says that ssh ended before all was there.
var ErrConnection = errors.New("connection lost")

// A Remote is a capture on another host. perfark is copied there through ssh,
// runs, and the bundle comes back the same way. Nothing is left there: a shell
// script removes all in the end, also when the connection breaks or either
// side is killed.
type Remote struct {
	Host    string   // as ssh has it: [user@]host, ssh://…
	SSH     string   // the ssh program and its options, as a shell reads them; "" for ssh
	Options []string // KEY=VALUE, for ssh -o
	Sudo    bool     // run all there by sudo -n
	Binary  string   // the perfark to be copied: a static program for the other host
	MaxSize int64    // bytes of the bundle; 0 means 64 GiB

	// Message is called with each line that ssh and the other host write to
	// standard error. It comes from outside and is not escaped. Nil drops them.
	Message func(line string)

	// Begun is called when the capture has begun there, with the name that the
	// bundle will have there; from then on the end of the context is told to
	// the other side as Ctrl-C, and the bundle is waited for. Nil is for nobody.
	Begun func(name string)

	// Progress is called while bytes of the bundle arrive; nil is for nobody.
	Progress func(done, total int64)
}

// A MachineError says that the perfark to be copied does not run on the other
// host.
type MachineError struct {
	System, Machine string // of the host, as uname says
	Binary          string // what the file is for, as uname would say
}

func (e *MachineError) Error() string {
	return fmt.Sprintf("runs %s on %s, but the perfark to be copied there is for %s", e.System, e.Machine, e.Binary)
}

// Run runs perfark capture with args on the other host and writes the bundle to
// w. It returns the exit status of the capture; size is 0 if it left no
// bundle. The bytes are those that were sent, not yet verified. The error
// wraps ErrConnection if ssh ended too early, and is a *MachineError if the
// copy would not run there.
func (r *Remote) Run(ctx context.Context, args []string, w io.Writer) (status int, size int64, err error) {
	if r.Host == "" || r.Host[0] == '-' {
		return 0, 0, fmt.Errorf("%q: not a host", r.Host)
	}
	bin, err := readProgram(r.Binary)
	if err != nil {
		return 0, 0, err
	}
	s := &remoteSession{Remote: r, bin: bin, mark: "perfark-" + rand.Text()}
	if err := s.start(); err != nil {
		return 0, 0, err
	}
	ended := make(chan struct{})
	var g sync.WaitGroup
	g.Go(func() {
		select {
		case <-ctx.Done():
			s.interrupt()
		case <-ended:
		}
	})
	status, size, err = s.talk(args, w)
	close(ended)
	g.Wait()
	werr := s.end()
	if err != nil {
		if ctx.Err() != nil {
			return 0, 0, context.Cause(ctx)
		}
		if werr != nil && errors.Is(err, ErrConnection) {
			err = fmt.Errorf("%w: ssh: %w", err, werr)
		}
		return 0, 0, err
	}
	return status, size, nil
}

// A remoteSession is one run of ssh.
type remoteSession struct {
	*Remote
	bin  *program
	mark string // begins the lines that are for us
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	text *lineWriter

	mu    sync.Mutex
	begun bool // the capture runs there
}

// start starts ssh. It ignores SIGINT, which a terminal sends to it as well as
// to this process: the other side is told in another way.
func (s *remoteSession) start() error {
	ssh := s.SSH
	if ssh == "" {
		ssh = "ssh"
	}
	argv := []string{"-c", `trap "" INT; exec ` + ssh + ` "$@"`, "sh", "-T"}
	for _, o := range s.Options {
		argv = append(argv, "-o", o)
	}
	remote := "exec " + bootstrap
	if s.Sudo {
		remote = "exec sudo -n " + bootstrap
	}
	s.cmd = exec.Command("sh", append(argv, s.Host, remote)...)
	s.text = &lineWriter{line: s.Message}
	s.cmd.Stderr = s.text
	// A master process of ssh that stays for others keeps our pipe open.
	s.cmd.WaitDelay = time.Second
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	s.out = bufio.NewReaderSize(out, 64<<10)
	return s.cmd.Start()
}

// interrupt ends the capture, or the connection where there is none yet.
func (s *remoteSession) interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun {
		io.WriteString(s.in, "stop\n")
		return
	}
	s.cmd.Process.Signal(syscall.SIGTERM)
}

// end tells the other side to end, if it has not yet, and waits for ssh.
func (s *remoteSession) end() error {
	s.in.Close()
	timer := time.AfterFunc(remotePatience, func() { s.cmd.Process.Signal(syscall.SIGTERM) })
	defer timer.Stop()
	io.Copy(io.Discard, s.out)
	err := s.cmd.Wait()
	s.text.flush()
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	return err
}

// talk holds the conversation with the script.
func (s *remoteSession) talk(args []string, w io.Writer) (status int, size int64, err error) {
	if err := s.send(s.script(args)); err != nil {
		return 0, 0, err
	}
	if err := s.hello(); err != nil {
		return 0, 0, err
	}
	if err := s.send([]byte("go\n")); err != nil {
		return 0, 0, err
	}
	how, err := s.expect("ready")
	if err != nil {
		return 0, 0, err
	}
	body := s.bin.data
	if how == "gzip" {
		if body, err = compress(body); err != nil {
			return 0, 0, err
		}
	}
	if err := s.send(fmt.Appendf(nil, "%d\n", len(body))); err != nil {
		return 0, 0, err
	}
	if err := s.send(body); err != nil {
		return 0, 0, err
	}
	there, err := s.expect("begin")
	if err != nil {
		return 0, 0, err
	}
	s.mu.Lock()
	s.begun = true
	s.mu.Unlock()
	if s.Begun != nil {
		s.Begun(there)
	}
	return s.result(w)
}

// script is what the sh of the other side is to read: the length, and the
// script with its arguments in it.
func (s *remoteSession) script(args []string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "mark=%s size=%d sum=%s\nset --", s.mark, len(s.bin.data), s.bin.sum)
	for _, a := range args {
		b.WriteString(" " + quote(a))
	}
	b.WriteString("\n" + remoteScript)
	return fmt.Appendf(nil, "%d\n%s", b.Len(), b.String())
}

// quote makes one word of s for a POSIX shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// send writes to the other side. Where that fails it has ended, and what it
// said before is the reason.
func (s *remoteSession) send(b []byte) error {
	_, err := s.in.Write(b)
	if err == nil {
		return nil
	}
	for {
		word, rest, rerr := s.line()
		switch {
		case rerr != nil:
			return rerr
		case word == "fail":
			return errors.New(rest)
		}
	}
}

// hello passes over what the shell of the user prints before our script is
// read, and compares the host with the program to be copied.
func (s *remoteSession) hello() error {
	for left := remoteNoise; ; {
		line, err := s.out.ReadSlice('\n')
		left -= len(line)
		if i := bytes.Index(line, []byte(s.mark+" host ")); i >= 0 && err == nil {
			system, machine, _ := strings.Cut(strings.TrimSpace(string(line[i+len(s.mark)+len(" host "):])), " ")
			return s.bin.fits(system, machine)
		}
		switch {
		case err != nil && err != bufio.ErrBufferFull:
			return fmt.Errorf("%w before anything was done there", ErrConnection)
		case left < 0:
			return fmt.Errorf("its shell printed more than %d bytes before the command was run", remoteNoise)
		}
	}
}

// line reads a line of ours.
func (s *remoteSession) line() (word, rest string, err error) {
	line, err := s.out.ReadSlice('\n')
	if err != nil && err != bufio.ErrBufferFull {
		return "", "", s.lost(err)
	}
	text, ok := strings.CutPrefix(string(line[:min(len(line), remoteLine)]), s.mark+" ")
	if !ok {
		return "", "", fmt.Errorf("unexpected output %q", line[:min(len(line), 80)])
	}
	word, rest, _ = strings.Cut(strings.TrimSuffix(text, "\n"), " ")
	return word, rest, nil
}

// expect reads a line of ours that begins with want.
func (s *remoteSession) expect(want string) (string, error) {
	word, rest, err := s.line()
	switch {
	case err != nil:
		return "", err
	case word == want:
		return rest, nil
	case word == "fail":
		return "", errors.New(rest)
	}
	return "", fmt.Errorf("unexpected %q, want %s", word, want)
}

func (s *remoteSession) lost(err error) error {
	if err == io.EOF {
		return ErrConnection
	}
	return fmt.Errorf("%w: %w", ErrConnection, err)
}

// result reads the bundle, if there is one, and the exit status.
func (s *remoteSession) result(w io.Writer) (status int, size int64, err error) {
	word, rest, err := s.line()
	if err != nil {
		return 0, 0, err
	}
	if word == "bundle" {
		size, err = strconv.ParseInt(rest, 10, 64)
		most := s.MaxSize
		if most == 0 {
			most = 64 << 30
		}
		if err != nil || size < 0 || size > most {
			return 0, 0, fmt.Errorf("a bundle of %q bytes, want at most %d", rest, most)
		}
		n, err := io.Copy(&counter{w: w, total: size, report: s.Progress}, io.LimitReader(s.out, size))
		switch {
		case err != nil:
			return 0, 0, err
		case n < size:
			return 0, 0, fmt.Errorf("%w after %d of the %d bytes of the bundle", ErrConnection, n, size)
		}
		if word, rest, err = s.line(); err != nil {
			return 0, 0, err
		}
	}
	status, err = strconv.Atoi(rest)
	switch {
	case word == "fail":
		return 0, 0, errors.New(rest)
	case word != "end" || err != nil || status < 0 || status > 255:
		return 0, 0, fmt.Errorf("unexpected %q, want end and an exit status", word+" "+rest)
	}
	return status, size, nil
}

// A counter reports what went through it.
type counter struct {
	w           io.Writer
	done, total int64
	report      func(done, total int64)
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.done += int64(n)
	if c.report != nil {
		c.report(c.done, c.total)
	}
	return n, err
}

// A lineWriter cuts what is written to it into lines, up to remoteText bytes.
type lineWriter struct {
	line func(string)
	buf  []byte
	n    int
}

func (w *lineWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		i := bytes.IndexByte(rest, '\n')
		end := i + 1
		if i < 0 {
			i, end = len(rest), len(rest)
		}
		room := remoteLine - len(w.buf)
		if cut := i > room; cut {
			i, end = room, room
		}
		w.buf = append(w.buf, rest[:i]...)
		if end > i || len(w.buf) >= remoteLine {
			w.flush()
		}
		rest = rest[end:]
	}
	return len(p), nil
}

// flush ends a line.
func (w *lineWriter) flush() {
	line := strings.TrimSuffix(string(w.buf), "\r")
	w.buf = w.buf[:0]
	if line == "" || w.line == nil || w.n > remoteText {
		return
	}
	if w.n += len(line); w.n > remoteText {
		line = "… and more, which is left out"
	}
	w.line(line)
}

// A program is a file to be copied to the other host.
type program struct {
	data    []byte
	sum     string // SHA-256, in hex
	machine string // as uname -m says; "" if it is not known here
}

// maxProgram is how large a program may be, in bytes.
const maxProgram = 1 << 28

// machines are the names of machines by the number in an ELF header, and by the
// order of its bytes.
var machines = map[[2]uint16]string{
	{3, 1}: "i686", {40, 1}: "arm", {62, 1}: "x86_64", {183, 1}: "aarch64", {243, 1}: "riscv64",
	{258, 1}: "loongarch64", {21, 1}: "ppc64le", {21, 2}: "ppc64", {22, 2}: "s390x", {8, 1}: "mipsel", {8, 2}: "mips",
}

// readProgram reads the program to be copied, which has to be an ELF file.
func readProgram(name string) (*program, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxProgram+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxProgram:
		return nil, fmt.Errorf("%q: more than %d bytes", name, maxProgram)
	case len(b) < 20 || string(b[:4]) != "\x7fELF" || b[5] != 1 && b[5] != 2:
		return nil, fmt.Errorf("%q: not a program for Linux", name)
	}
	order := binary.ByteOrder(binary.LittleEndian)
	if b[5] == 2 {
		order = binary.BigEndian
	}
	sum := sha256.Sum256(b)
	return &program{b, hex.EncodeToString(sum[:]), machines[[2]uint16{order.Uint16(b[18:]), uint16(b[5])}]}, nil
}

// fits says whether the program runs on a host of which uname says system and
// machine. What is not known here is tried.
func (p *program) fits(system, machine string) error {
	is := machine
	switch {
	case strings.HasPrefix(machine, "i") && strings.HasSuffix(machine, "86"):
		is = "i686"
	case strings.HasPrefix(machine, "armv"):
		is = "arm"
	}
	known := false
	for _, m := range machines {
		known = known || m == is
	}
	if system != "Linux" || known && p.machine != "" && is != p.machine {
		want := p.machine
		if want == "" {
			want = "another machine"
		}
		return &MachineError{system, machine, "Linux on " + want}
	}
	return nil
}

// compress makes gzip's format of b.
func compress(b []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}
