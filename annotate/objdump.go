package annotate

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/perfark/perfark/disasm"
)

// An objdump is given a small ELF file with the code of one function and
// nothing else: no file that came with a recording. What it prints is read
// line by line: an address, and an instruction.

// ErrArchitecture is the error, wrapped, of an objdump that cannot read code of
// the machine.
var ErrArchitecture = errors.New("wrong architecture")

// What an objdump may print, in bytes, and how long it may take for a function.
// What it has started may hold its output for a moment longer.
const (
	maxObjdump  = 64 << 20
	objdumpTime = 2 * time.Minute
	objdumpWait = 2 * time.Second
)

// checkObjdump asks the objdump whether it knows the machine.
func (c *Code) checkObjdump(ctx context.Context) error {
	out, err := c.runObjdump(ctx, []byte{0, 0, 0, 0}, 0, "-f")
	if err != nil && !errors.Is(err, ErrArchitecture) {
		return err
	}
	_, arch, ok := strings.Cut(out, "architecture: ")
	if arch, _, _ = strings.Cut(arch, ","); err != nil || !ok || strings.HasPrefix(arch, "UNKNOWN") {
		return fmt.Errorf("%s: %w: it does not read code of ELF machine %d", c.o.Objdump, ErrArchitecture, c.text.Machine)
	}
	return nil
}

var (
	instruction = regexp.MustCompile(`^\s*([0-9a-f]+):\s+(\S.*?)\s*$`)
	inSection   = regexp.MustCompile(`\s*<\.text(\+0x[0-9a-f]+)?>`)
)

// objdump has the code of a function read.
func (c *Code) objdump(ctx context.Context, code []byte, start uint64) ([]Line, error) {
	args := []string{"-d", "-z", "--no-show-raw-insn"}
	if c.o.Disasm.Intel {
		args = append(args, "-M", "intel")
	}
	if c.text.Thumb(start) {
		args = append(args, "-M", "force-thumb")
	}
	out, err := c.runObjdump(ctx, code, start, args...)
	if err != nil {
		return nil, err
	}
	var lines []Line
	end := start + uint64(len(code))
	for _, s := range strings.Split(out, "\n") {
		m := instruction.FindStringSubmatch(s)
		if m == nil {
			continue
		}
		addr, err := strconv.ParseUint(m[1], 16, 64)
		if err != nil || addr < start || addr >= end || len(lines) > 0 && addr <= lines[len(lines)-1].Addr {
			continue
		}
		lines = append(lines, Line{Addr: addr, Inst: disasm.Parse(c.text.Machine, inSection.ReplaceAllString(m[2], ""))})
	}
	if len(lines) == 0 || lines[0].Addr != start {
		return nil, fmt.Errorf("%s: prints no instruction at 0x%x", c.o.Objdump, start)
	}
	for i := range lines {
		next := end
		if i+1 < len(lines) {
			next = lines[i+1].Addr
		}
		lines[i].Bytes = code[lines[i].Addr-start : next-start]
		lines[i].Inst.Len = len(lines[i].Bytes)
	}
	return lines, nil
}

// runObjdump runs the objdump on a file with code, and returns what it prints.
func (c *Code) runObjdump(ctx context.Context, code []byte, start uint64, args ...string) (string, error) {
	dir, err := os.MkdirTemp("", "perfark-annotate-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "code")
	if err := os.WriteFile(name, c.elf(code, start), 0o600); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, objdumpTime, fmt.Errorf("takes longer than %s", objdumpTime))
	defer cancel()
	cmd := exec.CommandContext(ctx, c.o.Objdump, append(args, name)...)
	cmd.WaitDelay = objdumpWait
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, errs := &capped{}, &capped{}
	cmd.Stdout, cmd.Stderr = out, errs
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		switch {
		case out.full || errs.full:
			return "", fmt.Errorf("%s: prints more than %d bytes", c.o.Objdump, maxObjdump)
		case ctx.Err() != nil:
			return "", fmt.Errorf("%s: %w", c.o.Objdump, context.Cause(ctx))
		case !errors.As(err, &exit):
			return "", fmt.Errorf("objdump: %w", err)
		}
		what, _, _ := strings.Cut(strings.ReplaceAll(errs.String(), name, "the code"), "\n")
		if strings.Contains(what, "UNKNOWN") || strings.Contains(what, "not recognized") || strings.Contains(what, "ambiguous") {
			return out.String(), fmt.Errorf("%s: %w: %s", c.o.Objdump, ErrArchitecture, what)
		}
		if what == "" {
			return "", fmt.Errorf("%s: %w", c.o.Objdump, err)
		}
		return "", fmt.Errorf("%s: %w: %s", c.o.Objdump, err, what)
	}
	return out.String(), nil
}

// capped takes so much and no more.
type capped struct {
	b    bytes.Buffer
	full bool
}

func (c *capped) String() string { return c.b.String() }

func (c *capped) Write(p []byte) (int, error) {
	if c.full = c.b.Len()+len(p) > maxObjdump; c.full {
		return 0, io.ErrShortWrite
	}
	return c.b.Write(p)
}

// elf is an ELF file of the object's machine with nothing in it but code.
func (c *Code) elf(code []byte, start uint64) []byte {
	var order binary.AppendByteOrder = binary.LittleEndian
	data := byte(1)
	if c.text.Big {
		order, data = binary.BigEndian, 2
	}
	wide := c.text.Bits == 64
	class, headers, section := byte(1), 52, 40
	if wide {
		class, headers, section = 2, 64, 64
	}
	const names = "\x00.text\x00.shstrtab\x00"
	word := func(b []byte, v uint64) []byte {
		if wide {
			return order.AppendUint64(b, v)
		}
		return order.AppendUint32(b, uint32(v))
	}
	b := append([]byte("\x7fELF"), class, data, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	b = order.AppendUint16(b, 2) // ET_EXEC
	b = order.AppendUint16(b, uint16(c.text.Machine))
	b = order.AppendUint32(b, 1)
	at := headers + len(code)
	b = word(b, start)
	b = word(b, 0)
	b = word(b, uint64(at+len(names)))
	b = order.AppendUint32(b, c.text.Flags)
	for _, v := range []int{headers, 0, 0, section, 3, 2} {
		b = order.AppendUint16(b, uint16(v))
	}
	b = append(append(b, code...), names...)
	header := func(name, typ uint32, flags, addr uint64, off, size int, align uint64) {
		b = order.AppendUint32(b, name)
		b = order.AppendUint32(b, typ)
		b = word(b, flags)
		b = word(b, addr)
		b = word(b, uint64(off))
		b = word(b, uint64(size))
		b = order.AppendUint32(b, 0)
		b = order.AppendUint32(b, 0)
		b = word(b, align)
		b = word(b, 0)
	}
	header(0, 0, 0, 0, 0, 0, 0)
	header(1, 1, 6, start, headers, len(code), 1)
	header(7, 3, 0, 0, at, len(names), 1)
	return b
}
