package perfdata

import (
	"context"
	"io"
)

// The bodies of these follow in the next commits; the signatures stay.

func Open(name string, o Options) (*File, error)                           { panic("soon") }
func New(r io.ReaderAt, size int64, name string, o Options) (*File, error) { panic("soon") }
func NewStream(r io.Reader, name string, o Options) (*File, error)         { panic("soon") }

func (f *File) Close() error     { panic("soon") }
func (f *File) Name() string     { return f.name }
func (f *File) Header() *Header  { return &f.hdr }
func (f *File) Events() []Event  { return f.events }
func (f *File) Size() int64      { return f.size }
func (f *File) Features() []int  { panic("soon") } // bits present, ascending
func (f *File) Damage() []Damage { panic("soon") } // what was lost, sorted by file and offset
func (f *File) AddDamage(Damage) { panic("soon") } // for readers of Batches; equal ones are kept once
func (f *File) Warnings() []string {
	panic("soon")
}
func (f *File) Unknown() map[Type]int64 { panic("soon") } // records of unknown types, by type

// FeatureData returns the payload of a feature section and its offset in the
// file; nil if it is absent.
func (f *File) FeatureData(bit int) ([]byte, int64, error) { panic("soon") }

func (f *File) Records() *Reader                         { panic("soon") }
func (f *File) Ordered(o OrderOptions) *OrderedReader    { panic("soon") }
func (f *File) Batches(ctx context.Context) *BatchReader { panic("soon") }

func (r *Reader) Next() (Record, error)        { panic("soon") }
func (r *OrderedReader) Next() (Record, error) { panic("soon") }
func (r *OrderedReader) Late() int64           { panic("soon") } // records delivered out of order
func (r *BatchReader) Next() (*Batch, error)   { panic("soon") }
func (b *Batch) At(i int) int64                { panic("soon") } // offset of Data[i:] for messages and Decode
func (b *Batch) Release()                      { panic("soon") } // gives the buffer back; Data is then invalid

func NewDecoder(f *File) *Decoder                                       { panic("soon") }
func (d *Decoder) Decode(b []byte, off int64) (Record, error)           { panic("soon") }
func (d *Decoder) Sample(b []byte, off int64, s *Sample) error          { panic("soon") }
func RecordHeader(b []byte, big bool) (typ Type, misc uint16, size int) { panic("soon") }

// OrderOptions are for File.Ordered.
type OrderOptions struct {
	MaxBytes int64 // of queued records; 0 means 256 MiB
}

// An OrderedReader yields records in the order of time.
type OrderedReader struct{ f *File }

// Damage is a part of a recording that could not be read.
type Damage struct {
	Name   string // of the file
	Offset int64
	Len    int64 // bytes lost; -1 if unknown
	What   string
}
type damage struct{}
type layout struct{}
