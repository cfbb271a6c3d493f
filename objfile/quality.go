package objfile

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/internal/decode"
)

// A Quality says how much of its code a file can name. Of two files with the
// same build id the one of higher quality is the better.
type Quality int

// The qualities, in order.
const (
	Stripped  Quality = iota // no symbols
	Dynsym                   // .dynsym: exported and imported functions only
	MiniDebug                // and .gnu_debugdata: function symbols, compressed
	GoFuncs                  // .gopclntab: all Go functions, and their lines and inlined calls
	Symtab                   // .symtab: all functions
	FullDWARF                // .debug_info: functions, lines, inlines
)

// String returns the quality in the words that lists use.
func (q Quality) String() string {
	switch q {
	case Dynsym:
		return "dynsym only"
	case MiniDebug:
		return "mini debuginfo"
	case GoFuncs:
		return "Go functions"
	case Symtab:
		return "symtab"
	case FullDWARF:
		return "full DWARF"
	}
	return "stripped"
}

// Quality returns what the file can name.
func (f *File) Quality() Quality {
	if f.pe != nil {
		return f.peQuality()
	}
	q := Stripped
	for i := range f.sections {
		s := &f.sections[i]
		if s.typ == shtNobits || s.size == 0 {
			continue
		}
		switch {
		case s.name == ".debug_info" || s.name == ".zdebug_info":
			q = max(q, FullDWARF)
		case s.typ == shtSymtab && s.size > f.symSize():
			q = max(q, Symtab)
		case s.name == ".gnu_debugdata":
			q = max(q, MiniDebug)
		case s.typ == shtDynsym && s.size > f.symSize():
			q = max(q, Dynsym)
		}
	}
	if q < GoFuncs && f.IsGo() && !f.DebugOnly() {
		q = GoFuncs
	}
	return q
}

// symSize is the size of a symbol in bytes.
func (f *File) symSize() uint64 {
	if f.class == 32 {
		return 16
	}
	return 24
}

// maxLink is the most bytes a .gnu_debuglink may have.
const maxLink = 4096 + 8

// Debuglink returns the file name and CRC-32 of the separate debug file, from
// .gnu_debuglink; ok is false if there is none. The name has no slash in it.
// A malformed link is ignored, with a warning.
//
// Source: GDB manual, "Separate Debug Files".
func (f *File) Debuglink() (name string, crc uint32, ok bool) {
	s := f.section(".gnu_debuglink")
	if s == nil {
		return "", 0, false
	}
	name, c, err := f.link(s)
	if err == nil {
		n := len(name) + 1
		c.Skip(min((4-n%4)%4, c.Len()), "debuglink.padding")
		crc = c.Uint32("debuglink.crc")
		err = c.Err()
	}
	if err == nil && (strings.Contains(name, "/") || name == "." || name == "..") {
		err = fmt.Errorf("name %q is not a plain file name", name)
	}
	if err != nil {
		f.warn(WarnDebuglink, ".gnu_debuglink is ignored: %v", err)
		return "", 0, false
	}
	return name, crc, true
}

// Altlink returns the name, which may be a path, and the build id of the
// file that holds shared debug information (dwz), from .gnu_debugaltlink; ok
// is false if there is none. A malformed link is ignored, with a warning.
func (f *File) Altlink() (name string, id buildid.ID, ok bool) {
	s := f.section(".gnu_debugaltlink")
	if s == nil {
		return "", "", false
	}
	name, c, err := f.link(s)
	if err == nil && c.Len() > buildid.MaxSize {
		err = fmt.Errorf("build id of %d bytes, at most %d are allowed", c.Len(), buildid.MaxSize)
	}
	if err != nil {
		f.warn(WarnDebuglink, ".gnu_debugaltlink is ignored: %v", err)
		return "", "", false
	}
	return name, buildid.New(c.Rest()), true
}

// link reads a section that begins with a file name.
func (f *File) link(s *section) (string, *decode.Cursor, error) {
	if s.typ == shtNobits || s.size > maxLink {
		return "", nil, fmt.Errorf("its %d bytes are not in the file, or over %d", s.size, maxLink)
	}
	b, err := f.read(s.off, s.size, s.name)
	if err != nil {
		return "", nil, err
	}
	c := decode.NewCursor(b, int64(s.off), f.big)
	name := c.CString("name")
	if name == "" || len(name) == len(b) {
		return "", nil, &decode.Error{Offset: int64(s.off), Field: "name", Why: "empty, or without an end"}
	}
	return name, &c, nil
}

// CRC32 returns the checksum of a file as .gnu_debuglink has it.
func CRC32(r io.ReaderAt, size int64) (uint32, error) {
	h := crc32.NewIEEE()
	_, err := io.CopyBuffer(h, io.NewSectionReader(r, 0, size), make([]byte, 1<<20))
	return h.Sum32(), err
}

// ErrNoText says that a file holds no code to hash.
var ErrNoText = errors.New("no code in the file")

// TextHash returns a SHA-256 of the code in the file and of its place. Two
// files with one build id but different hashes are different programs; a
// stripped copy has the hash of its original. The error is ErrNoText for a
// file that holds no code: a separate debug file has the build id of a
// program, but nothing to compare; and for a slim copy, which holds a part of
// it.
func (f *File) TextHash() (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	var buf []byte
	any := false
	add := func(addr, off, size uint64) error {
		if size == 0 {
			return nil
		}
		if size > uint64(f.size) || off > uint64(f.size)-size {
			return &decode.Error{Offset: int64(off), Field: "code", Why: fmt.Sprintf("%d bytes wanted, but the file has %d", size, f.size)}
		}
		if err := f.budget.Step(int64(size), "elf: code"); err != nil {
			return err
		}
		if n := min(size, 1<<20); uint64(len(buf)) < n {
			buf = make([]byte, n)
		}
		any = true
		var place [16]byte
		binary.LittleEndian.PutUint64(place[:], addr)
		binary.LittleEndian.PutUint64(place[8:], size)
		h.Write(place[:])
		_, err := io.CopyBuffer(h, io.NewSectionReader(f.r, int64(off), int64(size)), buf)
		return err
	}
	if f.DebugOnly() || f.slim {
		return sum, ErrNoText
	}
	for _, p := range f.segments {
		if p.typ != ptLoad || p.flags&pfExec == 0 {
			continue
		}
		// The ELF header may lie in the segment. It says where the sections
		// are, which stripping changes.
		skip := uint64(0)
		if p.off < uint64(f.ehsize) {
			skip = min(uint64(f.ehsize)-p.off, p.filesz)
		}
		if err := add(p.vaddr+skip, p.off+skip, p.filesz-skip); err != nil {
			return sum, err
		}
	}
	if len(f.segments) == 0 {
		for _, s := range f.sections {
			if s.flags&(shfAlloc|shfExec) == shfAlloc|shfExec && s.typ == shtProgbits {
				if err := add(0, s.off, s.size); err != nil {
					return sum, err
				}
			}
		}
	}
	if !any {
		return sum, ErrNoText
	}
	h.Sum(sum[:0])
	return sum, nil
}
