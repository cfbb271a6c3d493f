package perfdata

import "io"

// Plain returns the bytes of a recording whose records are one run, from
// start to end of r, for readers that want to go through it in parallel on
// their own. ok is false if the records are in several files. Compressed
// records, and data behind records that is not part of them, are in there as
// they are in the file; so is damage. Batches handles all that.
func (f *File) Plain() (r io.ReaderAt, start, end int64, ok bool) {
	if len(f.streams) != 1 {
		return nil, 0, 0, false
	}
	s := &f.streams[0]
	return s.r, s.start, s.end, true
}
