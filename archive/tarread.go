package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// An inEntry is one entry of a tar that was read.
type inEntry struct {
	name  string // as written, except that a directory has no slash at the end
	typ   byte   // tar.TypeReg, TypeDir, TypeSymlink or TypeLink
	size  int64  // of the contents, in bytes
	off   int64  // of the contents in the image
	link  string
	mtime time.Time
}

// Limits of a tar header from outside.
const (
	maxExtended = 1 << 20   // bytes of a PAX header or of a GNU long name
	maxMember   = 1 << 50   // bytes
	maxNames    = 128 << 20 // bytes of the names of all entries
)

// A tarReader lists the entries of a tar. It reads headers only.
//
// It takes what GNU tar, bsdtar and Go write for files, directories and links:
// ustar, GNU long names, and the PAX records path, linkpath, size and mtime.
// Where readers disagree about what a header means it refuses: sizes that
// contradict each other, two extended headers for one entry, global headers,
// sparse files, anything but zeros after the end mark, and no end mark.
type tarReader struct {
	ctx  context.Context
	r    io.ReaderAt
	size int64 // of the image
	off  int64
	max  int // entries
}

// scanTar returns all entries.
func scanTar(ctx context.Context, r io.ReaderAt, size int64, max int) ([]inEntry, error) {
	t := &tarReader{ctx: ctx, r: r, size: size, max: max}
	var list []inEntry
	var names int64
	for {
		at := t.off
		e, err := t.next()
		if err == io.EOF {
			return list, nil
		}
		if err != nil {
			return nil, fmt.Errorf("entry %d: offset %#x: %w", len(list)+1, at, err)
		}
		if len(list) == t.max {
			return nil, fmt.Errorf("more than %d entries; raise the limit with --max-files", t.max)
		}
		if names += int64(len(e.name) + len(e.link)); names > maxNames {
			return nil, fmt.Errorf("names of more than %d bytes", int64(maxNames))
		}
		list = append(list, *e)
	}
}

// extended is what the headers before an entry's own say about it.
type extended struct {
	kind       byte // of the first of them; 0 if there is none
	name, link string
	size       int64 // -1 if not given
	mtime      time.Time
}

func (t *tarReader) next() (*inEntry, error) {
	x := extended{size: -1}
	for {
		if err := t.ctx.Err(); err != nil {
			return nil, err
		}
		h, err := t.block()
		if err != nil {
			return nil, err
		}
		if *h == (header{}) {
			if x.kind != 0 {
				return nil, fmt.Errorf("the end follows an extended header")
			}
			return nil, t.end()
		}
		if err := h.check(); err != nil {
			return nil, err
		}
		size, err := h.number("size", 124, 12)
		if err != nil {
			return nil, err
		}
		typ := h[156]
		switch typ {
		case tar.TypeXHeader, tar.TypeGNULongName, tar.TypeGNULongLink:
			if err := x.add(typ, size, t); err != nil {
				return nil, err
			}
			continue
		}
		return t.entry(h, typ, size, x)
	}
}

// entry makes an entry of its own header and of those before it.
func (t *tarReader) entry(h *header, typ byte, size int64, x extended) (*inEntry, error) {
	e := &inEntry{name: h.text(0, 100), link: h.text(157, 100), typ: typ, size: size, off: t.off, mtime: x.mtime}
	if string(h[257:263]) == "ustar\x00" {
		if p := h.text(345, 155); p != "" {
			e.name = p + "/" + e.name
		}
	}
	if x.name != "" {
		e.name = x.name
	}
	if x.link != "" {
		e.link = x.link
	}
	switch typ {
	case 0, tar.TypeReg, '7':
		e.typ = tar.TypeReg
	case tar.TypeDir:
		e.name = strings.TrimSuffix(e.name, "/")
	case tar.TypeSymlink, tar.TypeLink:
	default:
		return nil, fmt.Errorf("%q: %s; only files, directories and links are allowed", e.name, typeName(typ))
	}
	if x.size >= 0 && x.size != size {
		// A size too large for the old field is zero there.
		if size != 0 || x.size <= 0o77777777777 {
			return nil, fmt.Errorf("%q: size %d in the header, but %d in the extended header", e.name, size, x.size)
		}
		e.size = x.size
	}
	if e.typ != tar.TypeReg && e.size != 0 {
		return nil, fmt.Errorf("%q: size %d for %s", e.name, e.size, typeName(typ))
	}
	if e.mtime.IsZero() {
		s, err := h.number("mtime", 136, 12)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", e.name, err)
		}
		e.mtime = time.Unix(s, 0).UTC()
	}
	if err := t.skip(e.size); err != nil {
		return nil, fmt.Errorf("%q: %w", e.name, err)
	}
	return e, nil
}

func typeName(t byte) string {
	switch t {
	case tar.TypeDir:
		return "a directory"
	case tar.TypeSymlink:
		return "a symbolic link"
	case tar.TypeLink:
		return "a hard link"
	case tar.TypeChar, tar.TypeBlock:
		return "a device"
	case tar.TypeFifo:
		return "a FIFO"
	case tar.TypeXGlobalHeader:
		return "a global extended header"
	case tar.TypeGNUSparse:
		return "a sparse file"
	}
	return fmt.Sprintf("type %q", t)
}

// skip passes over contents and their padding.
func (t *tarReader) skip(n int64) error {
	if n < 0 || n > maxMember {
		return fmt.Errorf("size %d", n)
	}
	if left := t.size - t.off; n > left {
		return fmt.Errorf("cut off: %d bytes wanted, but only %d follow", n, left)
	}
	t.off += (n + blockSize - 1) &^ (blockSize - 1)
	return nil
}

// block reads the next header.
func (t *tarReader) block() (*header, error) {
	if t.size-t.off < blockSize {
		return nil, fmt.Errorf("cut off: a header wanted, but only %d bytes follow", max(t.size-t.off, 0))
	}
	h := new(header)
	if err := readFull(t.r, h[:], t.off); err != nil {
		return nil, err
	}
	t.off += blockSize
	return h, nil
}

// end checks what follows the first block of zeros: another one, and no more
// than zeros.
func (t *tarReader) end() error {
	if t.size-t.off < blockSize {
		return fmt.Errorf("cut off: only one block of zeros at the end")
	}
	buf := make([]byte, 64<<10)
	for t.off < t.size {
		if err := t.ctx.Err(); err != nil {
			return err
		}
		b := buf[:min(int64(len(buf)), t.size-t.off)]
		if err := readFull(t.r, b, t.off); err != nil {
			return err
		}
		for i, c := range b {
			if c != 0 {
				return fmt.Errorf("data after the end mark, at offset %#x", t.off+int64(i))
			}
		}
		t.off += int64(len(b))
	}
	return io.EOF
}

// add reads the contents of an extended header.
func (x *extended) add(typ byte, size int64, t *tarReader) error {
	if size <= 0 || size > maxExtended {
		return fmt.Errorf("extended header of %d bytes, at most %d are allowed", size, maxExtended)
	}
	// GNU tar writes up to one of K and L, Go and POSIX one x.
	if x.kind != 0 && (x.kind == tar.TypeXHeader || typ == tar.TypeXHeader) ||
		typ == tar.TypeGNULongName && x.name != "" || typ == tar.TypeGNULongLink && x.link != "" {
		return fmt.Errorf("two extended headers for one entry")
	}
	x.kind = typ
	b := make([]byte, min(size, max(t.size-t.off, 0)))
	at := t.off
	if err := t.skip(size); err != nil {
		return err
	}
	if err := readFull(t.r, b, at); err != nil {
		return err
	}
	switch typ {
	case tar.TypeXHeader:
		return x.pax(b)
	case tar.TypeGNULongName:
		x.name = string(bytes.TrimRight(b, "\x00"))
	case tar.TypeGNULongLink:
		x.link = string(bytes.TrimRight(b, "\x00"))
	}
	return nil
}

// pax reads the records of a PAX header: "length key=value\n", where length is
// that of the whole record.
func (x *extended) pax(b []byte) error {
	seen := map[string]bool{}
	for len(b) > 0 {
		sp := bytes.IndexByte(b[:min(len(b), 20)], ' ')
		if sp <= 0 {
			return fmt.Errorf("extended header: record without a length")
		}
		n, err := strconv.ParseUint(string(b[:sp]), 10, 31)
		if err != nil || int(n) > len(b) || int(n) < sp+3 || b[n-1] != '\n' {
			return fmt.Errorf("extended header: record of length %q, but %d bytes follow", b[:sp], len(b))
		}
		key, value, ok := strings.Cut(string(b[sp+1:n-1]), "=")
		if !ok || key == "" {
			return fmt.Errorf("extended header: record %.40q", b[:n])
		}
		b = b[n:]
		if seen[key] {
			return fmt.Errorf("extended header: %q stands twice", key)
		}
		seen[key] = true
		switch key {
		case "path":
			x.name = value
		case "linkpath":
			x.link = value
		case "size":
			if x.size, err = strconv.ParseInt(value, 10, 64); err != nil || x.size < 0 {
				return fmt.Errorf("extended header: size %q", value)
			}
		case "mtime":
			if x.mtime, err = paxTime(value); err != nil {
				return err
			}
		default:
			if strings.HasPrefix(key, "GNU.sparse.") {
				return fmt.Errorf("a sparse file; only plain files are allowed")
			}
			continue
		}
		if (key == "path" || key == "linkpath") && (value == "" || strings.IndexByte(value, 0) >= 0) {
			return fmt.Errorf("extended header: %s %q", key, value)
		}
	}
	return nil
}

// paxTime reads seconds since 1970 with a fraction, which is cut to ns.
func paxTime(s string) (time.Time, error) {
	whole, frac, _ := strings.Cut(s, ".")
	sec, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("extended header: mtime %q", s)
	}
	var ns int64
	if frac != "" {
		frac = (frac + "000000000")[:9]
		if ns, err = strconv.ParseInt(frac, 10, 64); err != nil || ns < 0 {
			return time.Time{}, fmt.Errorf("extended header: mtime %q", s)
		}
	}
	return time.Unix(sec, ns).UTC(), nil
}

// A header is one header block.
type header [blockSize]byte

// check verifies magic and checksum.
func (h *header) check() error {
	if string(h[257:262]) != "ustar" {
		return fmt.Errorf("not a tar header: magic %q, want ustar", h[257:263])
	}
	want, err := h.number("checksum", 148, 8)
	if err != nil {
		return err
	}
	var sum int64
	for i, c := range h {
		if i >= 148 && i < 156 {
			c = ' '
		}
		sum += int64(c)
	}
	if sum != want {
		return fmt.Errorf("header checksum %d, but its bytes give %d", want, sum)
	}
	return nil
}

// text returns a field up to its first NUL.
func (h *header) text(at, n int) string {
	s, _, _ := strings.Cut(string(h[at:at+n]), "\x00")
	return s
}

// number reads a field in octal, or in base 256 if its first bit is set.
func (h *header) number(what string, at, n int) (int64, error) {
	b := h[at : at+n]
	if b[0]&0x80 != 0 {
		if b[0] != 0x80 {
			return 0, fmt.Errorf("%s %x is negative or too large", what, b)
		}
		var v int64
		for _, c := range b[1:] {
			if v >= 1<<55 {
				return 0, fmt.Errorf("%s %x is too large", what, b)
			}
			v = v<<8 | int64(c)
		}
		return v, nil
	}
	s := strings.Trim(string(b), " \x00")
	if s == "" {
		return 0, nil
	}
	v, err := strconv.ParseUint(s, 8, 62)
	if err != nil {
		return 0, fmt.Errorf("%s %q is not an octal number", what, s)
	}
	return int64(v), nil
}

// readFull reads all of b.
func readFull(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}
