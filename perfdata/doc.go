// Package perfdata reads and writes perf.data, the file of Linux perf record.
//
// In go bytes: a file, what was written to a pipe, a directory, any of them
// cut off, damaged, compressed, from a machine of the other byte order, from
// perf 2.6.31 to the newest. Out come records, one by one, typed; and the
// facts about the recording: its events and its features.
//
// # A recording
//
// A file has a header, a list of events (what was counted, as the
// perf_event_attr that was given to the kernel), the data, which is nothing
// but records one behind the other, and features: sections with the host
// name, the build ids, and so on. Written to a pipe, it is a 16-byte header
// and records; events and features come as records too.
//
// Every record begins with eight bytes: type, misc, size. Types below 64 come
// from the kernel, the others from perf. A SAMPLE says where a CPU was; its
// layout depends on the sample_type of its event, and the event is found by
// the id in the record. All other kernel records end with a trailer of the
// same fields, SampleID.
//
// # Ways to read
//
// [Open] a file and use
//
//   - [File.Records]: one record after the other, as they stand in the file;
//   - [File.Ordered]: the same in the order of time, in bounded memory, typed
//     or as bytes;
//   - [File.Batches]: raw bytes by the megabyte, whole records only, to be
//     decoded by several goroutines, each with its own [Decoder]. This is the
//     fast way.
//
// All three may be used any number of times on one File.
//
// # Damage
//
// The input is not trusted: no length in it is believed before it has been
// compared with what follows. Nor is it assumed to be whole. A record that
// cannot be decoded becomes a [*Bad] and reading goes on; where the size of a
// record makes no sense, reading goes on at the next place where records can
// be seen. [File.Damage] tells afterwards, with offsets, what was lost: a
// caller whose result must be complete has to ask it.
//
// Open fails if there is nothing to read at all: see [ErrNotPerfData]. What
// would cost more than [Options] allow ends with a *decode.LimitError.
//
// The format, and where we differ from perf, is docs/perfdata.md.
package perfdata
