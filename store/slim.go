package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/objfile"
)

// A worth says how good a copy of a program is: how much it can name, and of
// those that can name as much, whether all of it is there.
type worth int

func worthOf(f *objfile.File) worth {
	w := worth(2 * f.Quality())
	if !f.IsSlim() {
		w++
	}
	return w
}

// quality returns how much the copy can name.
func (w worth) quality() objfile.Quality { return objfile.Quality(w / 2) }

// inspect returns the worth of f, and a hash of its code, "" if it holds none,
// or not all, or text is not set.
func inspect(f *File, text bool) (worth, string) {
	o, err := objfile.Open(f, f.Size, f.Origin, decode.NewBudget(decode.Limits{}))
	if err != nil {
		return 0, ""
	}
	if !text {
		return worthOf(o), ""
	}
	sum, err := o.TextHash()
	if err != nil {
		return worthOf(o), ""
	}
	return worthOf(o), string(sum[:])
}

// isSlim reports whether f is a slim copy.
func isSlim(f *File) bool {
	o, err := objfile.Open(f, f.Size, f.Origin, decode.NewBudget(decode.Limits{}))
	return err == nil && o.IsSlim()
}

// tellApart gives slim copies, whose code has no hash, one if it is not that of
// the whole copies: they are of another program then. hashes are parallel to
// files.
func tellApart(files []*File, hashes []string) {
	for i, f := range files {
		if hashes[i] != "" || !isSlim(f) {
			continue
		}
		for j, g := range files {
			if hashes[j] == "" || hashes[j][0] == 0 {
				continue
			}
			if c, err := compareSlim(g, f, true); err == nil && c.differ {
				hashes[i] = fmt.Sprintf("\x00slim %d", i)
				break
			}
		}
	}
}

// A comparison is what the bytes of a slim copy have to do with those of
// another copy, whole or slim.
type comparison struct {
	differ bool // there are bytes in both that are not the same
	adds   bool // it has bytes where the other has zeros
}

// identSize is the beginning of an ELF file in which slim copies have a mark.
const identSize = 16

// compareSlim compares a slim copy with another copy of the same program, or
// their code alone: tables of sections may differ.
func compareSlim(whole, slim *File, code bool) (c comparison, err error) {
	spans := []objfile.Span{{Start: identSize, End: slim.Size}}
	if code {
		o, err := objfile.Open(slim, slim.Size, slim.Origin, decode.NewBudget(decode.Limits{}))
		if err != nil {
			return c, err
		}
		spans = o.CodeSpans()
	}
	partial := isSlim(whole)
	a, b := make([]byte, 1<<20), make([]byte, 1<<20)
	for _, s := range spans {
		for off := s.Start; off < s.End; off += int64(len(b)) {
			n := int(min(int64(len(b)), s.End-off))
			if k, err := slim.ReadAt(b[:n], off); k < n {
				return c, err
			}
			k, err := whole.ReadAt(a[:n], off)
			if err != nil && err != io.EOF {
				return c, err
			}
			clear(a[k:n])
			for i, x := range b[:n] {
				if x == 0 || x == a[i] {
					continue
				}
				if a[i] != 0 || code && !partial {
					c.differ = true
					return c, nil
				}
				c.adds = true
			}
		}
	}
	return c, nil
}

// A union reads two slim copies of one program as one that has what either
// has.
type union struct{ a, b *File }

func (u union) ReadAt(p []byte, off int64) (int, error) {
	n, err := u.a.ReadAt(p, off)
	if n < len(p) && err != io.EOF {
		return n, err
	}
	q := make([]byte, n)
	if k, berr := u.b.ReadAt(q, off); k < n {
		return k, berr
	}
	for i, x := range q {
		p[i] |= x
	}
	return n, err
}

// unite returns a file that has what old, in a tree, and f have: both are slim
// copies of one program.
func unite(ctx context.Context, old, f *File, sha string) (*File, error) {
	if sha != "" {
		h := sha256.New()
		if _, err := io.CopyBuffer(h, &ctxReader{ctx, io.NewSectionReader(f, 0, f.Size)}, make([]byte, 1<<20)); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Origin, err)
		}
		if got := hex.EncodeToString(h.Sum(nil)); got != sha {
			return nil, &RefusedError{Path: f.Origin, Reason: Malformed, Why: "its sha256 is " + got + "; " + sha + " is wanted"}
		}
	}
	return &File{ReaderAt: union{f, old}, Size: f.Size, Origin: f.Origin, Info: f.Info, Close: noClose}, nil
}

// A sparse writes a file from its beginning on, and leaves holes for zeros.
type sparse struct {
	f interface {
		io.WriterAt
		Truncate(size int64) error
	}
	off int64
}

// page is the least that a hole saves, in bytes.
const page = 4 << 10

func (s *sparse) Write(p []byte) (int, error) {
	for done := 0; done < len(p); {
		// Up to the end of a page, and on as long as it is all zeros or not.
		n := page - int((s.off+int64(done))%page)
		n = min(n, len(p)-done)
		zero := allZero(p[done : done+n])
		for done+n < len(p) {
			k := min(page, len(p)-done-n)
			if allZero(p[done+n:done+n+k]) != zero {
				break
			}
			n += k
		}
		if !zero {
			if k, err := s.f.WriteAt(p[done:done+n], s.off+int64(done)); err != nil {
				return done + k, err
			}
		}
		done += n
	}
	s.off += int64(len(p))
	return len(p), nil
}

// finish gives the file its size: it may end in a hole.
func (s *sparse) finish() error { return s.f.Truncate(s.off) }

func allZero(b []byte) bool {
	for len(b) >= 8 {
		if b[0]|b[1]|b[2]|b[3]|b[4]|b[5]|b[6]|b[7] != 0 {
			return false
		}
		b = b[8:]
	}
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}
