package redact

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/perfdata"
)

// A Found is a name that is still there.
type Found struct {
	Name   string
	Where  string // such as "offset 0x1f48", or the name of a section
	Offset int64
}

// ErrFound says that a name is in what was written.
var ErrFound = errors.New("a name that is to be replaced is in the result")

// maxFound is how many places are looked for.
const maxFound = 100

// Search looks for the names in size bytes of r, and in the sections of an ELF
// file that are compressed. It is the proof of what was written, and finds all
// names but those that are so common that they are replaced in texts alone.
func (r *Redactor) Search(ctx context.Context, f io.ReaderAt, size int64) ([]Found, error) {
	var out []Found
	seen := int64(-1)
	err := eachWindow(ctx, f, size, func(b []byte, off int64) {
		for _, x := range r.found(b, "") {
			if at := off + x.Offset; at > seen && len(out) < maxFound {
				seen = at
				out = append(out, Found{x.Name, fmt.Sprintf("offset %#x", at), at})
			}
		}
	})
	if err != nil {
		return out, err
	}
	x, err := objfile.Open(f, size, "object", decode.NewBudget(decode.Limits{}))
	if err != nil {
		return out, nil
	}
	for _, c := range x.CompressedSections() {
		if b, err := c.Contents(); err == nil {
			out = append(out, r.found(b, "section "+c.Name)...)
		}
	}
	return out, nil
}

// found returns the names in a piece of data.
func (r *Redactor) found(b []byte, where string) []Found {
	if !r.dict.built {
		r.dict.build()
	}
	var out []Found
	for from := 0; len(out) < maxFound; {
		at, n, w := r.dict.find(b, from, true)
		if w == nil {
			break
		}
		if string(b[at:at+n]) != fitWord(w, n) { // a pseudonym in its own place
			out = append(out, Found{w.old, where, int64(at)})
		}
		from = at + n
	}
	return out
}

// SearchRecords looks for the names in the records of a recording, as they are
// when they are decompressed.
func (r *Redactor) SearchRecords(ctx context.Context, f *perfdata.File) ([]Found, error) {
	batches := f.Batches(ctx)
	defer batches.Close()
	var out []Found
	for len(out) < maxFound {
		b, err := batches.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		if b.Bad != nil {
			continue
		}
		for _, x := range r.found(b.Data, "") {
			at := b.At(int(x.Offset))
			out = append(out, Found{x.Name, fmt.Sprintf("a record at offset %#x", at), at})
		}
		b.Release()
	}
	return out, nil
}

// Kept reports whether the policy leaves data in which names may be: then what
// is found there is no fault.
func (r *Redactor) Kept() (stacks, raw, objects bool) {
	return r.p.Stacks == Keep, r.p.Raw == Keep, r.p.Objects == Keep
}

// SearchStream looks for the names in what r yields, to its end.
func (r *Redactor) SearchStream(ctx context.Context, rd io.Reader) ([]Found, error) {
	var out []Found
	buf := make([]byte, lead+window)
	have, seen := 0, int64(-1)
	for off := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		n, err := io.ReadFull(rd, buf[have:])
		b := buf[:have+n]
		for _, x := range r.found(b, "") {
			if at := off + x.Offset; at > seen && len(out) < maxFound {
				seen = at
				out = append(out, Found{x.Name, fmt.Sprintf("offset %#x", at), at})
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		keep := min(lead, len(b))
		off += int64(len(b) - keep)
		have = copy(buf, b[len(b)-keep:])
	}
}
