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

// ErrNoMember says that a file holds no ELF file at an offset.
var ErrNoMember = errors.New("no ELF file lies there")

// ErrCompressedMember says that a member of a zip archive is compressed: code
// cannot be mapped out of it.
var ErrCompressedMember = errors.New("the member is compressed")

// A Member is an ELF file inside a larger one: a library that is mapped
// straight out of an APK or another zip archive, which holds it uncompressed
// and at the beginning of a page.
type Member struct {
	Name      string // as in the archive, or its DT_SONAME, or its offset in hex
	Off, Size int64  // where it lies, in bytes
}

// Members finds the ELF files inside a file. It is not safe for concurrent use.
type Members struct {
	r      io.ReaderAt
	size   int64
	budget *decode.Budget

	read    bool
	dir     []zipEntry // of a zip archive, in the order of the file
	dirErr  error
	found   []Member
	nothing extent // no member begins in here
	pages   int    // looked at
	opened  int
}

// NewMembers returns the members of the file r of size bytes. A nil budget
// means the default limits.
func NewMembers(r io.ReaderAt, size int64, b *decode.Budget) *Members {
	if b == nil {
		b = decode.NewBudget(decode.Limits{})
	}
	return &Members{r: r, size: size, budget: b}
}

// FindMember is At for a single offset.
func FindMember(r io.ReaderAt, size int64, off uint64) (Member, error) {
	return NewMembers(r, size, nil).At(off)
}

// At returns the ELF file that holds the byte at off. In a zip archive that is
// the member whose data lie there. In any other file it is the last ELF file
// before off that begins at a page, up to a gigabyte away, and one of whose
// segments holds the byte. The error wraps ErrNoMember if there is none, and
// ErrCompressedMember if it could not have been mapped.
//
// Asking for ascending offsets is fast, also where nothing is found.
func (m *Members) At(off uint64) (Member, error) {
	if off >= uint64(m.size) {
		return Member{}, fmt.Errorf("offset %#x: %w: the file has %d bytes", off, ErrNoMember, m.size)
	}
	for i := len(m.found) - 1; i >= 0; i-- {
		if x := m.found[i]; off >= uint64(x.Off) && off-uint64(x.Off) < uint64(x.Size) {
			return x, nil
		}
	}
	if !m.read {
		m.read = true
		m.dir, m.dirErr = readZip(m.r, m.size, m.budget)
	}
	var x Member
	var err error
	switch {
	case m.dirErr != nil:
		return Member{}, fmt.Errorf("zip archive: %w", m.dirErr)
	case m.dir != nil:
		x, err = m.inZip(off)
	default:
		x, err = m.behind(off)
	}
	if err != nil {
		return Member{}, fmt.Errorf("offset %#x: %w", off, err)
	}
	if len(m.found) < maxHeaders {
		m.found = append(m.found, x)
	}
	return x, nil
}

// Named returns the member of a zip archive with that name, the first if there
// are several. The error wraps ErrNoMember if there is none.
func (m *Members) Named(name string) (Member, error) {
	if !m.read {
		m.read = true
		m.dir, m.dirErr = readZip(m.r, m.size, m.budget)
	}
	if m.dirErr != nil {
		return Member{}, fmt.Errorf("zip archive: %w", m.dirErr)
	}
	for i := range m.dir {
		if m.dir[i].name == name {
			return m.member(&m.dir[i])
		}
	}
	return Member{}, fmt.Errorf("member %q: %w", name, ErrNoMember)
}

// inZip finds the entry whose local header is the last before off.
func (m *Members) inZip(off uint64) (Member, error) {
	n, _ := slices.BinarySearchFunc(m.dir, off, func(e zipEntry, off uint64) int {
		if e.header <= off {
			return -1
		}
		return 1
	})
	if n == 0 {
		return Member{}, ErrNoMember
	}
	x, err := m.member(&m.dir[n-1])
	if err == nil && (off < uint64(x.Off) || off-uint64(x.Off) >= uint64(x.Size)) {
		return Member{}, ErrNoMember
	}
	return x, err
}

// member returns the member of a directory entry, which must be an ELF file.
func (m *Members) member(e *zipEntry) (Member, error) {
	if e.method != 0 {
		return Member{}, fmt.Errorf("%q: %w, and code cannot be mapped out of it", e.name, ErrCompressedMember)
	}
	var b [30]byte
	if n, err := m.r.ReadAt(b[:], int64(e.header)); n < len(b) {
		return Member{}, fmt.Errorf("%q: offset %#x: local header: %w", e.name, e.header, err)
	}
	if string(b[:4]) != "PK\x03\x04" {
		return Member{}, fmt.Errorf("%q: offset %#x: local header begins with %q", e.name, e.header, b[:4])
	}
	at := e.header + 30 + uint64(binary.LittleEndian.Uint16(b[26:])) + uint64(binary.LittleEndian.Uint16(b[28:]))
	if e.size > uint64(m.size) || at > uint64(m.size)-e.size {
		return Member{}, fmt.Errorf("%q: offset %#x: size: %d bytes, but the file has %d", e.name, at, e.size, m.size)
	}
	var magic [4]byte
	if n, _ := m.r.ReadAt(magic[:], int64(at)); n < 4 || e.size < 4 || string(magic[:]) != "\x7fELF" {
		return Member{}, fmt.Errorf("%q: %w", e.name, ErrNoMember)
	}
	return Member{Name: e.name, Off: int64(at), Size: int64(e.size)}, nil
}

// Bounds of the search for an ELF file that no directory lists.
const (
	memberPage  = 4096
	memberReach = 1 << 30 // bytes looked through, from one offset and for one file
	maxMembers  = 1024    // ELF files looked at in one file
)

// behind looks for an ELF header at each page from off down.
func (m *Members) behind(off uint64) (Member, error) {
	page := off &^ (memberPage - 1)
	low := uint64(0)
	if page > memberReach {
		low = page - memberReach
	}
	asked := page
	for at := page; ; at -= memberPage {
		if m.nothing.start <= at && at < m.nothing.end {
			// An earlier search went on from here and found nothing.
			at = m.nothing.start
		} else {
			if m.pages++; m.pages > memberReach/memberPage {
				return Member{}, fmt.Errorf("%w, or so it seems: %d MiB were searched", ErrNoMember, memberReach>>20)
			}
			var magic [4]byte
			if n, _ := m.r.ReadAt(magic[:], int64(at)); n == 4 && string(magic[:]) == "\x7fELF" {
				if m.opened++; m.opened > maxMembers {
					return Member{}, fmt.Errorf("more than %d ELF files inside: %w", maxMembers, ErrNoMember)
				}
				if x, ok := m.elf(at, off); ok {
					return x, nil
				}
			}
		}
		if at <= low || at < memberPage {
			m.nothing = extent{at, asked + memberPage}
			return Member{}, ErrNoMember
		}
	}
}

// elf reports whether the ELF file at offset at holds the byte at off in a
// segment, and how far it reaches.
func (m *Members) elf(at, off uint64) (Member, bool) {
	rest := m.size - int64(at)
	b := decode.NewBudget(decode.Limits{Bytes: 16 << 20})
	f := &File{r: io.NewSectionReader(m.r, int64(at), rest), size: rest, name: "elf", budget: b}
	if f.header() != nil {
		return Member{}, false
	}
	holds := false
	end := uint64(f.ehsize)
	reach := func(off, size uint64) {
		if off < uint64(rest) {
			end = max(end, min(addClamp(off, size), uint64(rest)))
		}
	}
	for _, p := range f.segments {
		if p.typ != ptLoad {
			continue
		}
		reach(p.off, p.filesz)
		if off-at >= p.off&^(memberPage-1) && off-at < addClamp(p.off, p.filesz) {
			holds = true
		}
	}
	if !holds {
		return Member{}, false
	}
	for i := range f.sections {
		if s := &f.sections[i]; s.typ != shtNobits {
			reach(s.off, s.size)
		}
	}
	reach(f.shoff, uint64(len(f.sections))*f.shsize())
	name := f.soname()
	if name == "" {
		name = fmt.Sprintf("%#x", at)
	}
	return Member{Name: name, Off: int64(at), Size: int64(end)}, true
}

// shsize is the size of a section header in bytes.
func (f *File) shsize() uint64 {
	if f.class == 32 {
		return 40
	}
	return 64
}

// A zipEntry is a member in the directory of a zip archive.
type zipEntry struct {
	name   string
	method uint16 // 0: stored as it is
	header uint64 // offset of the local header
	size   uint64 // bytes in the archive
}

// Bounds of a zip archive's directory.
const (
	maxZipDir     = 64 << 20 // bytes
	zipEndSize    = 22
	zipComment    = 1<<16 - 1
	zipEntrySize  = 46
	zipLocator    = 20
	zipEnd64      = 56
	zipEnd64Magic = "PK\x06\x06"
)

// readZip reads the directory of a zip archive; it is nil, without an error,
// if r is none. Bytes in front of the archive are allowed for: a program that
// unpacks itself.
// Source: APPNOTE.TXT of PKWARE, sections 4.3 and 4.4.
func readZip(r io.ReaderAt, size int64, b *decode.Budget) ([]zipEntry, error) {
	tail := make([]byte, min(size, zipEndSize+zipComment))
	start := size - int64(len(tail))
	if n, err := r.ReadAt(tail, start); n < len(tail) {
		return nil, fmt.Errorf("offset %#x: end of directory: %w", start, err)
	}
	end := -1
	for i := len(tail) - zipEndSize; i >= 0; i-- {
		if tail[i] == 'P' && string(tail[i:i+4]) == "PK\x05\x06" && i+zipEndSize+int(binary.LittleEndian.Uint16(tail[i+20:])) <= len(tail) {
			end = i
			break
		}
	}
	if end < 0 {
		return nil, nil
	}
	c := decode.NewCursor(tail[end:], start+int64(end), false)
	c.Skip(10, "end of directory")
	entries := uint64(c.Uint16("entries"))
	length := uint64(c.Uint32("directory size"))
	at := uint64(c.Uint32("directory offset"))
	behind := uint64(start) + uint64(end)
	if entries == math.MaxUint16 || length == math.MaxUint32 || at == math.MaxUint32 {
		if e, ok := zip64(r, size, behind); ok {
			entries, length, at, behind = e.entries, e.length, e.at, e.pos
		}
	}
	if length > behind || at > behind-length {
		return nil, fmt.Errorf("offset %#x: directory: %d bytes at %#x, but it ends before %#x", start+int64(end), length, at, behind)
	}
	if length > maxZipDir {
		return nil, fmt.Errorf("offset %#x: directory: %d bytes, at most %d are read", start+int64(end), length, maxZipDir)
	}
	if entries > length/zipEntrySize {
		return nil, fmt.Errorf("offset %#x: directory: %d members, but it has %d bytes", start+int64(end), entries, length)
	}
	// What stands in front of the archive, all offsets lack.
	front := behind - length - at
	if err := b.Alloc(int64(length)+int64(entries)*48, "zip: directory"); err != nil {
		return nil, err
	}
	raw := make([]byte, length)
	if n, err := r.ReadAt(raw, int64(at+front)); n < len(raw) {
		return nil, fmt.Errorf("offset %#x: directory: %w", at+front, err)
	}
	text := string(raw) // names share it
	out := make([]zipEntry, 0, entries)
	c = decode.NewCursor(raw, int64(at+front), false)
	for c.Len() >= zipEntrySize && string(c.Peek(4)) == "PK\x01\x02" && uint64(len(out)) < entries {
		e := decodeZipEntry(&c, text)
		if c.Err() != nil {
			break
		}
		if e.header > math.MaxInt64-front || e.header+front > uint64(size) {
			continue
		}
		e.header += front
		out = append(out, e)
	}
	if err := c.Err(); err != nil && len(out) == 0 {
		return nil, err
	}
	slices.SortStableFunc(out, func(a, b zipEntry) int { return cmp.Compare(a.header, b.header) })
	return out, nil
}

// decodeZipEntry decodes one entry of a directory, the bytes of which are in
// text.
func decodeZipEntry(c *decode.Cursor, text string) zipEntry {
	var e zipEntry
	c.Skip(10, "zip.versions")
	e.method = c.Uint16("zip.method")
	c.Skip(8, "zip.time")
	e.size = uint64(c.Uint32("zip.size"))
	whole := uint64(c.Uint32("zip.whole"))
	name := int(c.Uint16("zip.name length"))
	extra := int(c.Uint16("zip.extra length"))
	comment := int(c.Uint16("zip.comment length"))
	c.Skip(8, "zip.attributes")
	e.header = uint64(c.Uint32("zip.header"))
	at := len(text) - c.Len()
	c.Skip(name, "zip.name")
	if c.Err() == nil {
		e.name = text[at : at+name]
	}
	x := decode.NewCursor(c.Bytes(extra, "zip.extra"), c.Offset(), false)
	c.Skip(comment, "zip.comment")
	// What does not fit in 32 bits stands in an extra field, in this order.
	for x.Len() >= 4 {
		tag := x.Uint16("extra.tag")
		field := decode.NewCursor(x.Bytes(int(x.Uint16("extra.size")), "extra"), x.Offset(), false)
		if tag != 1 {
			continue
		}
		if whole == math.MaxUint32 {
			field.Uint64("zip64.whole")
		}
		if e.size == math.MaxUint32 {
			e.size = field.Uint64("zip64.size")
		}
		if e.header == math.MaxUint32 {
			e.header = field.Uint64("zip64.header")
		}
		break
	}
	return e
}

// A zipEnd is the end of a directory in the form for large archives.
type zipEnd struct{ entries, length, at, pos uint64 }

// zip64 reads it. Its place stands in front of the usual one.
func zip64(r io.ReaderAt, size int64, end uint64) (zipEnd, bool) {
	var l [zipLocator]byte
	if end < zipLocator {
		return zipEnd{}, false
	}
	if n, _ := r.ReadAt(l[:], int64(end-zipLocator)); n < len(l) || string(l[:4]) != "PK\x06\x07" {
		return zipEnd{}, false
	}
	var b [zipEnd64]byte
	pos := binary.LittleEndian.Uint64(l[8:])
	for _, at := range []uint64{pos, end - zipLocator - zipEnd64} {
		if at > uint64(size) {
			continue
		}
		if n, _ := r.ReadAt(b[:], int64(at)); n == len(b) && bytes.HasPrefix(b[:], []byte(zipEnd64Magic)) {
			return zipEnd{
				entries: binary.LittleEndian.Uint64(b[32:]),
				length:  binary.LittleEndian.Uint64(b[40:]),
				at:      binary.LittleEndian.Uint64(b[48:]),
				pos:     at,
			}, true
		}
	}
	return zipEnd{}, false
}

// IsObject reports whether a file begins as an ELF or PE file does, compressed
// ones included: it is no file that others lie in.
func IsObject(r io.ReaderAt) bool {
	var magic [6]byte
	n, _ := r.ReadAt(magic[:], 0)
	b := magic[:n]
	return bytes.HasPrefix(b, []byte("\x7fELF")) || bytes.HasPrefix(b, []byte("MZ")) || n == len(magic) && opener(b) != nil
}
