package perfdata

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/perfark/perfark/internal/decode"
)

// ErrNotPerfData is wrapped by the error of Open, New and NewStream for a
// file that is something else. The text says what it looks like.
var ErrNotPerfData = errors.New("not a perf.data file")

// Options are for Open, New and NewStream. The zero value is useful.
type Options struct {
	Limits decode.Limits  // of the file; not used if Budget is given
	Budget *decode.Budget // shared with other readers of the same input; nil makes one of Limits
	Temp   string         // directory for unlinked temporary files; "" means os.TempDir

	// ModTime is when the recording was made, for New and NewStream, which
	// cannot ask the file system.
	ModTime time.Time
}

// A File is an open recording. Its methods may be called from several
// goroutines at once; each Reader, Decoder and OrderedReader is for one.
type File struct {
	name    string
	opt     Options
	budget  *decode.Budget
	r       io.ReaderAt
	size    int64
	closers []io.Closer

	hdr      Header
	events   []Event
	table    eventTable
	features map[int]feature
	streams  []stream
	kcore    []string
	tracing  Section // of a pipe: behind its TRACING_DATA record

	mu        sync.Mutex
	damage    damage
	unknown   map[Type]int64
	inflaters map[*inflater]bool // running coroutines
	warn      []string

	typed map[int]any // decoded features by bit: see feature.go
}

// A Section is a part of a file, in bytes.
type Section struct{ Offset, Size uint64 }

// A Header is the first part of a recording, and what is known about the file
// as a whole.
type Header struct {
	Magic    string // "PERFILE2", or "PERFFILE" before Linux 3.6
	Version  int    // what perf prints: 0 for PERFFILE, 1 for PERFILE2
	Size     uint64 // bytes of the header: 104, 72 without features, 16 in pipes
	AttrSize uint64 // bytes of an entry of Attrs: the attr and a Section; 0 in pipes

	Attrs, Data, EventTypes Section // as recorded; 0 in pipes
	Features                [4]uint64
	Word                    int // bytes of the recorder's unsigned long, as far as it shows: 4 or 8

	Big       bool      // the recorder was big-endian
	Pipe      bool      // written to a pipe: header and features come as records
	Dir       bool      // a directory
	Wrapped   string    // "gzip", "xz" or "zstd" if the whole file was compressed; else ""
	Killed    bool      // data.size is 0: the recorder did not end
	Truncated bool      // the file is shorter than its header says
	FileSize  int64     // bytes, decompressed
	ModTime   time.Time // of the file; zero if there is none. perf prints it as "captured on"
}

// Has reports whether the feature bit is set in the header's bitmap, or came
// as a record.
func (h *Header) Has(bit int) bool {
	return bit >= 0 && bit < 256 && h.Features[bit/64]>>(bit%64)&1 == 1
}

// An Event is something that was counted: a perf_event_attr, and its name.
type Event struct {
	Attr Attr
	Name string   // as perf prints it, such as "cycles:u"
	IDs  []uint64 // of its counters, in the order of the file

	// From EVENT_UPDATE records.
	Unit  string
	Scale float64 // 0 if none was given

	offset int64 // of the attr
}

// A feature is where the payload of a feature section is.
type feature struct {
	off  int64  // in the file
	size int64  // bytes
	data []byte // of pipes; nil for files
}

// A stream is a run of records: the data of a file, or one data.N of a
// directory.
type stream struct {
	name       string // of the file
	r          io.ReaderAt
	start, end int64 // bytes
	killed     bool  // end is that of the file, not one that was recorded
}

// Name returns the name that f was opened with.
func (f *File) Name() string { return f.name }

// Header returns the header. It must not be changed.
func (f *File) Header() *Header { return &f.hdr }

// Events returns the events, in the order of the file. They must not be
// changed.
func (f *File) Events() []Event { return f.events }

// Size returns the length of the recording in bytes, decompressed if all of it
// was compressed; of a directory that of all its files.
func (f *File) Size() int64 {
	n := f.size
	for _, s := range f.streams {
		if s.r != f.r {
			n += s.end
		}
	}
	return n
}

// Close closes the files of f. Readers of f must not be used afterwards.
func (f *File) Close() error {
	f.mu.Lock()
	running := f.inflaters
	f.inflaters = nil
	f.mu.Unlock()
	for z := range running {
		z.stop()
	}
	var first error
	for _, c := range f.closers {
		if err := c.Close(); err != nil && first == nil {
			first = err
		}
	}
	f.closers = nil
	return first
}
