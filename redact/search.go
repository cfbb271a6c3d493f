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

// SearchRecording looks for the names in a recording, of which raw are the
// bytes: in its header, its features, and in its records as they are when they
// are decompressed. Numbers, such as times, are passed over: they hold any
// bytes by chance.
func (r *Redactor) SearchRecording(ctx context.Context, f *perfdata.File, raw io.ReaderAt) ([]Found, error) {
	h := f.Header()
	var out []Found
	if !h.Pipe {
		end := int64(h.Data.Offset + h.Data.Size)
		for _, s := range [][2]int64{{0, int64(h.Data.Offset)}, {end, h.FileSize - end}} {
			found, err := r.Search(ctx, io.NewSectionReader(raw, s[0], s[1]), s[1])
			if err != nil {
				return out, err
			}
			for _, x := range found {
				x.Offset += s[0]
				x.Where = fmt.Sprintf("offset %#x", x.Offset)
				out = append(out, x)
			}
		}
	}
	batches := f.Batches(ctx)
	defer batches.Close()
	d := perfdata.NewDecoder(f)
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
		d.Stream = b.Stream
		for i := 0; i < len(b.Data); {
			_, _, size := perfdata.RecordHeader(b.Data[i:], h.Big)
			found, err := r.searchRecord(d, b.Data[i:i+size], b.At(i), raw)
			if err != nil {
				return out, err
			}
			for _, x := range found {
				x.Where, x.Offset = fmt.Sprintf("the record at offset %#x", b.At(i)), b.At(i)
				out = append(out, x)
			}
			i += size
		}
		b.Release()
	}
	return out, nil
}

// searchRecord looks for the names in a record, and in what follows it.
func (r *Redactor) searchRecord(d *perfdata.Decoder, rec []byte, off int64, raw io.ReaderAt) ([]Found, error) {
	const where = "a record"
	big := r.f.Header().Big
	typ, _, _ := perfdata.RecordHeader(rec, big)
	switch typ {
	case perfdata.RecordSample:
		v, err := d.Decode(rec, off)
		s, ok := v.(*perfdata.Sample)
		if err != nil || !ok {
			return r.found(rec[8:], where), nil
		}
		var out []Found
		for _, b := range [][]byte{s.Raw, s.UserStack[:cap(s.UserStack)], s.Aux} {
			out = append(out, r.found(b, where)...)
		}
		for _, list := range [][]uint64{s.Callchain, s.UserRegs, s.IntrRegs} {
			for _, v := range list {
				if _, ok := r.number(v, big); ok && v != textNumber {
					out = append(out, Found{Name: "text", Where: where, Offset: off})
				}
			}
		}
		return out, nil
	case perfdata.RecordTracingData:
		v, err := d.Decode(rec, off)
		t, ok := v.(*perfdata.TracingData)
		if err != nil || !ok {
			break
		}
		b := make([]byte, min(int64(t.Len), r.f.Header().FileSize*2+1<<20))
		if n, err := raw.ReadAt(b, off+int64(len(rec))); n < len(b) {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		return r.found(b, where), nil
	}
	return r.found(rec[8:], where), nil
}

// Kept reports whether the policy leaves data in which names may be: then what
// is found there is no fault.
func (r *Redactor) Kept() (stacks, raw, objects bool) {
	return r.p.Stacks == Keep, r.p.Raw == Keep, r.p.Objects == Keep
}
