package perfdata

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// benchFile returns a recording of n samples like those of a system-wide
// perf record -g: 167 bytes, 13 entries of a call chain each on average.
func benchFile(n int) []byte {
	o := binary.LittleEndian
	a := Attr{
		Type: TypeSoftware, Size: 136, SamplePeriod: 50000, Flags: FlagFreq | FlagSampleIDAll,
		SampleType: SampleIP | SampleTID | SampleTime | SampleCallchain | SampleCPU | SamplePeriod | SampleIdentifier,
	}
	const head, attr = 104, 136
	b := []byte(magicLE)
	for range 12 {
		b = o.AppendUint64(b, 0)
	}
	put := func(at int, v int) { o.PutUint64(b[at:], uint64(v)) }
	b = a.AppendTo(b, attr, false)
	b = o.AppendUint64(b, uint64(head+attr+16))
	b = o.AppendUint64(b, 2*8)
	b = o.AppendUint64(b, 100)
	b = o.AppendUint64(b, 101)
	data := len(b)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		chain := r.IntN(26)
		b = o.AppendUint32(b, uint32(RecordSample))
		b = o.AppendUint16(b, 1)
		b = o.AppendUint16(b, uint16(8+8*(7+chain)))
		for _, v := range []uint64{100 + uint64(i&1), 0xffffffff81000000 + uint64(r.IntN(1<<20)), 77 | 77<<32, uint64(i) * 1000, uint64(i & 1), 50000, uint64(chain)} {
			b = o.AppendUint64(b, v)
		}
		for range chain {
			b = o.AppendUint64(b, 0x400000+uint64(r.IntN(1<<20)))
		}
	}
	put(8, head)
	put(16, attr+16)
	put(24, head)
	put(32, attr+16)
	put(40, data)
	put(48, len(b)-data)
	return b
}

// BenchmarkSample decodes samples in batches, as session does. The figure to
// look at is entries of call chains: 95 million take 95/entries-per-µs
// seconds.
func BenchmarkSample(b *testing.B) {
	data := benchFile(200_000)
	f, err := New(bytes.NewReader(data), int64(len(data)), "bench", Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	d := NewDecoder(f)
	var s Sample
	var samples, entries int
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		r := f.Batches(context.Background())
		for {
			batch, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			for i := 0; i < len(batch.Data); {
				_, _, size := RecordHeader(batch.Data[i:], false)
				if err := d.Sample(batch.Data[i:i+size], batch.At(i), &s); err != nil {
					b.Fatal(err)
				}
				samples++
				entries += len(s.Callchain)
				i += size
			}
			batch.Release()
		}
	}
	b.ReportMetric(float64(entries)/b.Elapsed().Seconds()/1e6, "Mentries/s")
	b.ReportMetric(float64(samples)/b.Elapsed().Seconds()/1e6, "Msamples/s")
}

// BenchmarkFile decodes all samples of the recording that PERFARK_BENCH_DATA
// names, in parallel: make bench sets it.
func BenchmarkFile(b *testing.B) {
	name := os.Getenv("PERFARK_BENCH_DATA")
	if name == "" {
		b.Skip("PERFARK_BENCH_DATA is not set")
	}
	f, err := Open(name, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	b.SetBytes(f.Size())
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprint("workers=", workers), func(b *testing.B) {
			var samples, entries atomic.Int64
			cpu := cpuTime()
			for b.Loop() {
				samples.Store(0)
				entries.Store(0)
				r := f.Batches(context.Background())
				var wg sync.WaitGroup
				for range workers {
					wg.Go(func() {
						n, m := decodeSamples(f, r)
						samples.Add(n)
						entries.Add(m)
					})
				}
				wg.Wait()
			}
			b.ReportMetric((cpuTime()-cpu).Seconds()/float64(b.N), "cpu-s/op")
			b.ReportMetric(float64(samples.Load())/1e6, "Msamples")
			b.ReportMetric(float64(entries.Load())/1e6, "Mentries")
		})
	}
}

// decodeSamples decodes the samples of the batches that it gets from r.
func decodeSamples(f *File, r *BatchReader) (samples, entries int64) {
	d := NewDecoder(f)
	var s Sample
	for {
		batch, err := r.Next()
		if err != nil {
			return samples, entries
		}
		for i := 0; i < len(batch.Data); {
			typ, _, size := RecordHeader(batch.Data[i:], d.big)
			if typ == RecordSample && d.Sample(batch.Data[i:i+size], batch.At(i), &s) == nil {
				samples++
				entries += int64(len(s.Callchain))
			}
			i += size
		}
		batch.Release()
	}
}

// cpuTime returns the CPU time that this process used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkWalk only finds the records.
func BenchmarkWalk(b *testing.B) {
	data := benchFile(200_000)
	f, err := New(bytes.NewReader(data), int64(len(data)), "bench", Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		r := f.Batches(context.Background())
		for {
			batch, err := r.Next()
			if err == io.EOF {
				break
			}
			batch.Release()
		}
	}
}

// BenchmarkNext reads record by record.
func BenchmarkNext(b *testing.B) {
	data := benchFile(200_000)
	f, err := New(bytes.NewReader(data), int64(len(data)), "bench", Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		r := f.Records()
		for {
			if _, err := r.Next(); err == io.EOF {
				break
			}
		}
	}
}

// BenchmarkDecode is BenchmarkSample without reading.
func BenchmarkDecode(b *testing.B) {
	data := benchFile(5000) // fits in the CPU's cache, as a batch just read does
	f, err := New(bytes.NewReader(data), int64(len(data)), "bench", Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	batch, err := f.Batches(context.Background()).Next()
	if err != nil {
		b.Fatal(err)
	}
	d := NewDecoder(f)
	var s Sample
	n := 0
	b.SetBytes(int64(len(batch.Data)))
	for b.Loop() {
		for i := 0; i < len(batch.Data); {
			_, _, size := RecordHeader(batch.Data[i:], false)
			if err := d.Sample(batch.Data[i:i+size], batch.At(i), &s); err != nil {
				b.Fatal(err)
			}
			n++
			i += size
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/sample")
}
