package session

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/perfdata"
)

// A synthetic recording is made while it is read: n samples, each like the
// first but for its time and its call chain, in which frame j of sample i is
// at a place of its own in function j.
type synthetic struct {
	head, sample []byte
	chain        int // offset of the first address in sample
	n            int64
}

const (
	syntheticDepth = 40
	syntheticSize  = 0x100 // bytes of a function
)

func newSynthetic(t *testing.T, n int64) *synthetic {
	text := chained + "mmap2 pid=5 tid=5 start=0x100000 len=0x100000 prot=5 name=/bin/a time=1\nsample pid=5 tid=5 ip=0x100000 time=9 chain=user"
	for range syntheticDepth {
		text += ",0x100000"
	}
	data := perftest.Data(t, text+"\n")
	off := int(binary.LittleEndian.Uint64(data[40:]))
	size := int(binary.LittleEndian.Uint64(data[48:]))
	at := off
	for {
		typ, _, n := perfdata.RecordHeader(data[at:], false)
		if typ == typeSample {
			break
		}
		at += n
	}
	s := &synthetic{head: data[:at], sample: data[at : off+size], n: n}
	s.chain = bytes.LastIndex(s.sample, binary.LittleEndian.AppendUint64(nil, perfdata.ContextUser)) + 8
	binary.LittleEndian.PutUint64(s.head[48:], uint64(at-off)+uint64(n)*uint64(len(s.sample)))
	binary.LittleEndian.PutUint64(s.head[72:], 0) // no features
	return s
}

func (s *synthetic) size() int64 { return int64(len(s.head)) + s.n*int64(len(s.sample)) }

func (s *synthetic) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	if off < int64(len(s.head)) {
		n = copy(p, s.head[off:])
	}
	rec := make([]byte, len(s.sample))
	for n < len(p) {
		at := off + int64(n) - int64(len(s.head))
		i := at / int64(len(rec))
		if i >= s.n {
			return n, io.EOF
		}
		copy(rec, s.sample)
		x := uint64(i)
		for j := s.chain; j < len(rec); j += 8 {
			ip := 0x100000 + uint64(j-s.chain)/8*syntheticSize + x%64
			binary.LittleEndian.PutUint64(rec[j:], ip)
			x = x/64 + uint64(i)*7
		}
		n += copy(p[n:], rec[at%int64(len(rec)):])
	}
	return n, nil
}

// peak calls f and returns by how many bytes the heap grew meanwhile, as far
// as the calls of look show.
func peak(f func(look func())) uint64 {
	var mu sync.Mutex
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before, most, calls := m.HeapAlloc, uint64(0), 0
	f(func() {
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls%16 == 0 {
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc-min(before, m.HeapAlloc))
		}
	})
	return most
}

// TestHuge is P12 and P13 of the cases: very many samples, each of a stack
// that no other has. What is kept by function is one stack, and memory does
// not grow with samples: PERFARK_HUGE=1 makes it a recording of 5 million,
// 2 GB.
func TestHuge(t *testing.T) {
	n := int64(100_000)
	switch {
	case os.Getenv("PERFARK_HUGE") != "":
		n = 5_000_000
	case testing.Short():
		n = 20_000
	}
	s := newSynthetic(t, n)
	f, err := perfdata.New(s, s.size(), "huge.data", perfdata.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ctx := context.Background()
	var r *Result
	grown := peak(func(look func()) {
		var read int64
		var mu sync.Mutex
		r, err = Load(ctx, f, Options{Keep: KeepFrames, Progress: func(bytes int64) {
			mu.Lock()
			read += bytes
			mu.Unlock()
			look()
		}})
		if want := s.size() - int64(len(s.head)); read < want {
			t.Errorf("progress told of %d bytes, want at least %d", read, want)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	p := r.Profile
	if e := p.Events[0]; e.Samples != uint64(n) || len(f.Damage()) > 0 {
		t.Fatalf("%d samples, damage %v", e.Samples, f.Damage())
	}
	if grown > 64<<20 {
		t.Errorf("loading took %d MB", grown>>20)
	}
	same := make([]int32, len(p.Locations))
	first := map[uint64]int32{}
	for i := range p.Locations {
		k := p.Locations[i].Addr / syntheticSize
		if _, ok := first[k]; !ok {
			first[k] = int32(i)
		}
		same[i] = first[k]
	}
	runtime.GC()
	if err := r.Stacks(ctx, same, 0); err != nil {
		t.Fatal(err)
	}
	if len(p.Stacks) != syntheticDepth || len(p.Samples) != 1 || p.Samples[0].Count != uint64(n) {
		t.Errorf("%d stacks, %d samples, the first of %d", len(p.Stacks), len(p.Samples), p.Samples[0].Count)
	}
	seen := int64(0)
	grown = peak(func(look func()) {
		err = r.Walk(ctx, WalkOptions{Workers: 2}, writerFunc(func(b []byte) { seen += int64(len(b)); look() }), func(dst []byte, e *Event) []byte {
			if len(e.Frames) != syntheticDepth {
				t.Errorf("%d frames", len(e.Frames))
			}
			return append(dst, '.')
		})
	})
	if err != nil || seen != n {
		t.Errorf("the walk met %d samples, %v; want %d", seen, err, n)
	}
	// Nothing tells that a round has ended: what waits is bounded all the same.
	if grown > 600<<20 {
		t.Errorf("the walk took %d MB", grown>>20)
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) {
	f(b)
	return len(b), nil
}
