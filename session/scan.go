package session

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync/atomic"

	"github.com/perfark/perfark/internal/crew"
	"github.com/perfark/perfark/perfdata"
)

// Types of records that the first pass decodes.
const (
	typeMmap        = 1
	typeLost        = 2
	typeComm        = 3
	typeExit        = 4
	typeFork        = 7
	typeSample      = 9
	typeMmap2       = 10
	typeLostSamples = 13
	typeNamespaces  = 16
	typeKsymbol     = 17
	typeCgroup      = 19
	typeDeferred    = 22
	typeHeaderAttr  = 64
	typeBuildID     = 67
	typeAuxtrace    = 71
)

func wanted(t perfdata.Type) bool {
	switch t {
	case typeMmap, typeLost, typeComm, typeExit, typeFork, typeMmap2,
		typeLostSamples, typeNamespaces, typeKsymbol, typeCgroup, typeDeferred, typeBuildID:
		return true
	}
	return false
}

// A side is a copy of a record that is not a sample.
type side struct {
	pos  uint64
	off  int64
	data []byte
}

// A scanner collects sides from some of the batches.
type scanner struct {
	stats Stats
	sides []side
	arena []byte // the current block of copies
	big   bool
}

// scan is the first pass: it counts records, and applies those that are not
// samples in the order of time.
func (l *loader) scan(ctx context.Context) error {
	n := min(l.o.Workers, 4)
	big := l.f.Header().Big
	scanners := func() []scanner {
		ws := make([]scanner, n)
		for i := range ws {
			ws[i].big = big
		}
		return ws
	}
	ws := scanners()
	if !l.o.batches {
		l.plain = newPlain(l.f)
	}
	if l.plain != nil {
		var next atomic.Int64
		err := parallel(ctx, n, func(ctx context.Context, i int) error { return l.plain.scan(ctx, &ws[i], &next) })
		if errors.Is(err, errOdd) {
			l.plain, ws = nil, scanners()
		} else if err != nil {
			return err
		}
	}
	if l.plain == nil {
		br := l.f.Batches(ctx)
		defer br.Close()
		if err := parallel(ctx, n, func(_ context.Context, i int) error { return ws[i].run(br) }); err != nil {
			return err
		}
	}
	if l.plain == nil {
		countCompressed(l.f, &l.stats)
	}
	var sides []side
	for i := range ws {
		l.stats.add(&ws[i].stats)
		sides = append(sides, ws[i].sides...)
		ws[i].sides = nil
	}
	slices.SortFunc(sides, func(a, b side) int { return cmpUint(a.pos, b.pos) })
	return l.apply(sides)
}

// parallel calls f(0) to f(n-1) in parallel. It returns the first error that
// is not the cancellation that another error caused.
func parallel(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, n)
	var wg crew.Group
	for i := range n {
		wg.Go(func() {
			if errs[i] = f(ctx, i); errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	var first error
	for _, err := range errs {
		if err != nil && (first == nil || errors.Is(first, context.Canceled)) {
			first = err
		}
	}
	return first
}

func cmpUint(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// run takes batches until there are no more.
func (s *scanner) run(br *perfdata.BatchReader) error {
	for {
		b, err := br.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		s.batch(b)
		b.Release()
	}
}

func (s *scanner) batch(b *perfdata.Batch) {
	if b.Bad != nil {
		s.stats.Bad++
	}
	data := b.Data
	var samples uint64
	for i := 0; i+8 <= len(data); {
		typ, _, size := perfdata.RecordHeader(data[i:], s.big)
		if size < 8 || size > len(data)-i {
			break // batches hold whole records: this cannot be
		}
		if typ == typeSample {
			samples++
			i += size
			continue
		}
		s.record(b, i)
		i += size
	}
	s.stats.Types[typeSample] += samples
	s.stats.Total += samples
}

// record counts the record at b.Data[i], and keeps a copy of it if it bears on
// names or maps.
func (s *scanner) record(b *perfdata.Batch, i int) {
	typ, _, size := perfdata.RecordHeader(b.Data[i:], s.big)
	s.stats.Total++
	if typ < 256 {
		s.stats.Types[typ]++
	} else {
		s.stats.Other++
	}
	if wanted(typ) {
		s.sides = append(s.sides, side{b.Pos + uint64(i), b.At(i), s.copy(b.Data[i : i+size])})
	}
}

// copy copies b into a block shared with others.
func (s *scanner) copy(b []byte) []byte {
	if len(b) > cap(s.arena)-len(s.arena) {
		s.arena = make([]byte, 0, max(256<<10, len(b)))
	}
	n := len(s.arena)
	s.arena = append(s.arena, b...)
	return s.arena[n:len(s.arena):len(s.arena)]
}

func (s *Stats) add(o *Stats) {
	s.Total += o.Total
	s.Other += o.Other
	s.Bad += o.Bad
	for i := range s.Types {
		s.Types[i] += o.Types[i]
	}
}
