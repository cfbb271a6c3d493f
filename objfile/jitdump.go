package objfile

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/perfark/perfark/internal/decode"
)

// ErrNotJITDump says that a file is no jitdump.
var ErrNotJITDump = errors.New("not a jitdump file")

// A JITDump is the log of a run-time compiler: what code it put where and
// when, with the code itself, its names and its lines. It is read from its
// file when asked for names and lines, so that must stay open. It is safe for
// concurrent use.
//
// As a symbol table, its addresses are offsets in the file, of the bytes of
// code: one place that had different code in the course of time has different
// addresses.
//
// Source: Documentation/jitdump-specification.txt in tools/perf.
type JITDump struct {
	Big      bool
	Machine  Machine
	PID      uint32 // of the process, as it sees itself
	ArchTime bool   // times are those of the processor (TSC), not of CLOCK_MONOTONIC
	Time     uint64 // of the header
	Code     []JITCode
	Warnings []string

	r      io.ReaderAt
	size   int64
	budget *decode.Budget
	loads  []int32 // of Code: those whose code is in the file, by Off

	// ahead is by how much the addresses of lines are ahead of the code. V8
	// adds the size of the ELF header that perf inject puts in front of it.
	ahead uint64
}

// A JITCode is a piece of code at an address from some time on: it was loaded,
// or moved there.
type JITCode struct {
	Time uint64 // nanoseconds, see JITDump.ArchTime
	Addr uint64
	Size uint64 // bytes, more than 0
	Off  int64  // of the bytes of code in the file

	name   int64 // offset
	debug  int64 // of the entries of the debug information; 0 if there is none
	debugs uint32
	moved  bool
	index  uint64

	// Unwind is the offset of its .eh_frame and .eh_frame_hdr in the file,
	// which have UnwindSize bytes, UnwindHeader of them the latter. 0 if there
	// are none.
	Unwind, UnwindSize, UnwindHeader int64
}

// Kinds of records.
const (
	jitLoad = iota
	jitMove
	jitDebugInfo
	jitClose
	jitUnwindingInfo
)

const (
	jitMagic  = 0x4a695444 // "JiTD" as a big-endian number
	jitHeader = 40
	jitPrefix = 16
	jitEntry  = 16      // of debug information, before the name of the file
	maxJIT    = 1 << 21 // pieces of code
)

// ReadJITDump reads the records of the jitdump r of size bytes, but for code
// and names. A nil budget means the default limits. What is malformed is
// passed over, with a warning; a record that is not there in full ends the
// reading, as the process may still be writing. The error wraps ErrNotJITDump
// if r is something else.
func ReadJITDump(r io.ReaderAt, size int64, b *decode.Budget) (*JITDump, error) {
	if b == nil {
		b = decode.NewBudget(decode.Limits{})
	}
	d := &JITDump{r: r, size: size, budget: b}
	var buf [64]byte
	h := buf[:jitHeader]
	if n, err := r.ReadAt(h, 0); n < len(h) {
		if err != nil && err != io.EOF {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %d bytes", ErrNotJITDump, n)
	}
	switch {
	case binary.BigEndian.Uint32(h) == jitMagic:
		d.Big = true
	case binary.LittleEndian.Uint32(h) != jitMagic:
		return nil, fmt.Errorf("%w: it begins with %q", ErrNotJITDump, h[:4])
	}
	c := decode.NewCursor(h[4:], 4, d.Big)
	version := c.Uint32("version")
	head := int64(c.Uint32("total_size"))
	d.Machine = Machine(c.Uint32("elf_mach"))
	c.Skip(4, "pad1")
	d.PID = c.Uint32("pid")
	d.Time = c.Uint64("timestamp")
	d.ArchTime = c.Uint64("flags")&1 != 0
	if version == 0 || version > 1 {
		return nil, fmt.Errorf("%w: offset 0x4: version %d, want 1", ErrNotJITDump, version)
	}
	if head < jitHeader || head > size {
		return nil, fmt.Errorf("%w: offset 0x8: header of %d bytes in a file of %d", ErrNotJITDump, head, size)
	}
	if err := d.records(head); err != nil {
		return nil, err
	}
	for i := range d.Code {
		if !d.Code[i].moved {
			d.loads = append(d.loads, int32(i))
		}
	}
	slices.SortStableFunc(d.loads, func(i, j int32) int { return cmp.Compare(d.Code[i].Off, d.Code[j].Off) })
	return d, nil
}

// warn keeps a warning, of a bounded number.
func (d *JITDump) warn(at int64, format string, args ...any) {
	if len(d.Warnings) < 16 {
		d.Warnings = append(d.Warnings, fmt.Sprintf("offset %#x: ", at)+fmt.Sprintf(format, args...))
	}
}

// records reads all records from off on.
func (d *JITDump) records(off int64) error {
	w := window{r: d.r, size: d.size}
	var pending JITCode // what was said of the next code
	ahead := ^uint64(0)
	byIndex := map[uint64]int{}
	for size := int64(0); d.size-off >= jitPrefix; off += size {
		b, err := w.at(off, jitPrefix+48)
		if err != nil {
			return fmt.Errorf("offset %#x: %w", off, err)
		}
		c := decode.NewCursor(b, off, d.Big)
		id := c.Uint32("id")
		size = int64(c.Uint32("total_size"))
		time := c.Uint64("timestamp")
		if size < jitPrefix {
			d.warn(off, "record of %d bytes; reading ends here", size)
			return nil
		}
		if size > d.size-off {
			d.warn(off, "record of %d bytes, but only %d follow: the last one was not written in full", size, d.size-off)
			return nil
		}
		if err := d.budget.Step(1, "jitdump: records"); err != nil {
			return err
		}
		if len(d.Code) == maxJIT {
			d.warn(off, "more than %d pieces of code; reading ends here", maxJIT)
			return nil
		}
		switch id {
		case jitLoad:
			j := pending
			pending = JITCode{}
			j.Time = time
			if d.load(&c, &w, &j, off+size) {
				byIndex[j.index] = len(d.Code)
				if err := d.add(j); err != nil {
					return err
				}
			}
		case jitMove:
			c.Skip(4+4+8, "pid")
			c.Uint64("old_code_addr")
			addr := c.Uint64("new_code_addr")
			n := c.Uint64("code_size")
			index := c.Uint64("code_index")
			i, ok := byIndex[index]
			if size < jitPrefix+48 || c.Err() != nil || !ok {
				d.warn(off, "code %d was moved, but never loaded", index)
				break
			}
			j := d.Code[i]
			j.Time, j.Addr, j.Size, j.moved = time, addr, min(n, j.Size), true
			if j.Size == 0 || j.Addr > math.MaxUint64-j.Size {
				d.warn(off, "%d bytes of code moved to %#x", n, addr)
				break
			}
			if err := d.add(j); err != nil {
				return err
			}
		case jitDebugInfo:
			addr := c.Uint64("code_addr")
			n := c.Uint64("nr_entry")
			if c.Err() != nil || size < jitPrefix+16 || n > uint64(size-jitPrefix-16)/(jitEntry+1) {
				d.warn(off, "%d lines in %d bytes", n, size)
				break
			}
			pending.debug, pending.debugs = off+jitPrefix+16, uint32(n)
			if n > 0 {
				ahead = min(ahead, c.Uint64("addr")-addr)
			}
			d.ahead = 0
			if ahead == 64 || ahead == 52 {
				d.ahead = ahead
			}
		case jitUnwindingInfo:
			n, head := c.Uint64("unwinding_size"), c.Uint64("eh_frame_hdr_size")
			if c.Err() != nil || size < jitPrefix+24 || n > uint64(size-jitPrefix-24) || head > n {
				d.warn(off, "%d bytes to unwind by, %d of them header, in %d", n, head, size)
				break
			}
			pending.Unwind, pending.UnwindSize, pending.UnwindHeader = off+jitPrefix+24, int64(n), int64(head)
		case jitClose:
			return nil
		}
	}
	return nil
}

// load decodes a record that ends at end, and reports whether it is in order:
//
//	u32 pid tid; u64 vma code_addr code_size code_index; name; code
func (d *JITDump) load(c *decode.Cursor, w *window, j *JITCode, end int64) bool {
	at := c.Offset() - jitPrefix
	c.Skip(4+4+8, "pid")
	j.Addr = c.Uint64("code_addr")
	j.Size = c.Uint64("code_size")
	j.index = c.Uint64("code_index")
	j.name = c.Offset()
	switch {
	case c.Err() != nil || end < j.name+1:
		d.warn(at, "load of %d bytes", end-at)
		return false
	case j.Size > uint64(end-j.name-1):
		d.warn(at, "%d bytes of code in a record of %d", j.Size, end-at)
		return false
	case j.Addr > math.MaxUint64-j.Size:
		d.warn(at, "code of %d bytes at %#x", j.Size, j.Addr)
		return false
	}
	// The code begins behind the name; there may be padding behind it.
	last := end - int64(j.Size) - 1
	for at := j.name; ; at += 1024 {
		b, err := w.at(at, 1024)
		if i := bytes.IndexByte(b, 0); i >= 0 && at+int64(i) <= last {
			j.Off = at + int64(i) + 1
			return j.Size > 0
		}
		if err != nil || len(b) < 1024 || at+1024 > last || at-j.name > maxName {
			break
		}
	}
	d.warn(at, "the name has no end")
	return false
}

// A window reads a file from front to back in large pieces.
type window struct {
	r    io.ReaderAt
	size int64
	off  int64
	buf  []byte
}

// at returns n bytes at off, fewer at the end of the file. They are valid until
// the next call.
func (w *window) at(off int64, n int) ([]byte, error) {
	n = int(max(min(int64(n), w.size-off), 0))
	if off < w.off || off+int64(n) > w.off+int64(len(w.buf)) {
		const most = 64 << 10
		if cap(w.buf) == 0 {
			w.buf = make([]byte, min(most, w.size))
		}
		w.off = off
		w.buf = w.buf[:min(int64(cap(w.buf)), w.size-off)]
		m, err := w.r.ReadAt(w.buf, off)
		if w.buf = w.buf[:m]; m < n {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return w.buf[off-w.off:][:n], nil
}

func (d *JITDump) add(j JITCode) error {
	if err := d.budget.Alloc(120, "jitdump: code"); err != nil {
		return err
	}
	d.Code = append(d.Code, j)
	return nil
}

// Len returns the number of pieces of code in the file.
func (d *JITDump) Len() int { return len(d.loads) }

// Find returns the number of the code that is at an offset in the file.
func (d *JITDump) Find(off uint64) (int, bool) {
	i, _ := slices.BinarySearchFunc(d.loads, off, func(i int32, off uint64) int {
		if uint64(d.Code[i].Off) <= off {
			return -1
		}
		return 1
	})
	if i == 0 || off-uint64(d.Code[d.loads[i-1]].Off) >= d.Code[d.loads[i-1]].Size {
		return 0, false
	}
	return i - 1, true
}

// Sym returns code i with its name and its place in the file.
func (d *JITDump) Sym(i int) Sym {
	j := &d.Code[d.loads[i]]
	return Sym{d.string(j.name, j.Off), uint64(j.Off), uint64(j.Off) + j.Size}
}

// string returns the string at off, which ends before end.
func (d *JITDump) string(off, end int64) string {
	most := int(min(max(end-off, 0), maxName))
	for _, n := range [...]int{min(256, most), most} {
		b := make([]byte, n)
		if m, _ := d.r.ReadAt(b, off); m < n {
			return ""
		}
		if i := bytes.IndexByte(b, 0); i >= 0 || n == most {
			return string(b[:max(i, 0)])
		}
	}
	return ""
}

// Bytes reads the code of piece i, for a disassembler.
func (d *JITDump) Bytes(i int) ([]byte, error) {
	j := &d.Code[d.loads[i]]
	if err := d.budget.Alloc(int64(j.Size), "jitdump: code"); err != nil {
		return nil, err
	}
	b := make([]byte, j.Size)
	if n, err := d.r.ReadAt(b, j.Off); n < len(b) {
		return nil, fmt.Errorf("jitdump: offset %#x: code: %w", j.Off, err)
	}
	return b, nil
}

// Line returns the source line of the code at an offset in the file.
func (d *JITDump) Line(off uint64) (file string, line int, ok bool) {
	i, ok := d.Find(off)
	if !ok {
		return "", 0, false
	}
	j := &d.Code[d.loads[i]]
	// Addresses are those where it was loaded; an entry reaches up to the next.
	// V8 20 writes names that it has freed already, with zeros in them: then
	// nothing is where it should be.
	addr := j.Addr + (off - uint64(j.Off)) + d.ahead
	at, name := j.debug, ""
	best := uint64(0)
	for range j.debugs {
		if d.budget.Step(1, "jitdump: lines") != nil {
			break
		}
		var buf [jitEntry + 2]byte
		if n, _ := d.r.ReadAt(buf[:], at); n < len(buf) {
			break
		}
		c := decode.NewCursor(buf[:], at, d.Big)
		start, l := c.Uint64("addr"), int32(c.Uint32("lineno"))
		c.Skip(4, "discrim")
		if same := c.Rest(); same[0] == 0xff && same[1] == 0 {
			at += jitEntry + 2 // the file is that of the entry before
		} else {
			name = d.string(at+jitEntry, d.size)
			at += jitEntry + int64(len(name)) + 1
		}
		if start-j.Addr > j.Size+d.ahead {
			return "", 0, false
		}
		if start <= addr && start >= best && l > 0 {
			file, line, best = name, int(l), start
		}
	}
	return file, line, line > 0
}
