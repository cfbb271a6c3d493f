package perfdata

import "context"

// A Batch is a run of whole records, as raw bytes. RecordHeader walks it.
type Batch struct {
	Stream int    // 0, or in directories which of the files
	Offset int64  // of the first record in its file: see At
	Pos    uint64 // grows from batch to batch and, byte by byte, within Data: the order of records
	Data   []byte // decompressed; valid until Release

	// Bad is set, and Data empty, where bytes had to be skipped.
	Bad *Bad

	marks []mark
	pool  *BatchReader
}

// A mark says that from Data[pos] on, records come from the COMPRESSED record
// at off.
type mark struct {
	pos int
	off int64
}

// A BatchReader yields a recording as raw records, in the order of the file.
// Next may be called from several goroutines at once.
type BatchReader struct {
	f   *File
	ctx context.Context
}

// A Reader yields the records of a recording in the order of the file.
type Reader struct {
	f *File
}

// A Decoder decodes records of one File. It is for one goroutine; make one for
// each.
type Decoder struct {
	f *File
}
