package perfdata

import (
	"context"
	"io"
)

// A Reader yields the records of a recording in the order of the file.
type Reader struct {
	b     *BatchReader
	d     *Decoder
	batch *Batch
	i     int // in batch.Data
	bad   Bad
}

// Records returns a Reader of the records of f from the first on.
func (f *File) Records() *Reader {
	return &Reader{b: f.Batches(context.Background()), d: NewDecoder(f)}
}

// Next returns the next record, which is valid until the call after. What
// cannot be decoded is a *Bad, and reading goes on behind it. At the end the
// error is io.EOF; other errors are those of reading the file, or a
// *decode.LimitError.
func (r *Reader) Next() (Record, error) {
	for r.batch == nil || r.i >= len(r.batch.Data) {
		if r.batch != nil {
			r.batch.Release()
			r.batch = nil
		}
		b, err := r.b.Next()
		if err != nil {
			return nil, err
		}
		if b.Bad != nil {
			return b.Bad, nil
		}
		r.batch, r.i, r.d.Stream = b, 0, b.Stream
	}
	typ, misc, size := RecordHeader(r.batch.Data[r.i:], r.d.big)
	b, off := r.batch.Data[r.i:r.i+size], r.batch.At(r.i)
	r.i += size
	rec, err := r.d.Decode(b, off)
	if err != nil {
		r.bad = Bad{Meta: Meta{Type: typ, Misc: misc, Size: size, Offset: off}, Bytes: b, Err: err}
		return &r.bad, nil
	}
	return rec, nil
}

// Close ends reading before the end of the file. It need not be called after
// an error or io.EOF, nor before File.Close.
func (r *Reader) Close() { r.b.Close() }

var _ io.Closer = (*File)(nil)
