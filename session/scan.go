package session

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

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
	typeKsymbol     = 17
	typeDeferred    = 22
	typeBuildID     = 67
	typeAuxtrace    = 71
)

func wanted(t perfdata.Type) bool {
	switch t {
	case typeMmap, typeLost, typeComm, typeExit, typeFork, typeMmap2,
		typeLostSamples, typeKsymbol, typeDeferred, typeBuildID:
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
	arena []byte // the tail of the current block of copies
	err   error
}

// scan is the first pass: it counts records, and applies those that are not
// samples in the order of time.
func (l *loader) scan(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	br := l.f.Batches(ctx)
	ws := make([]scanner, min(l.o.Workers, 4))
	var wg sync.WaitGroup
	for i := range ws {
		wg.Go(func() {
			if ws[i].err = ws[i].run(br, l.f.Header().Big); ws[i].err != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	errs := make([]error, len(ws))
	for i := range ws {
		errs[i] = ws[i].err
	}
	if err := firstError(errs); err != nil {
		return err
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

func cmpUint(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// firstError returns the first error that is not the cancellation that
// another worker's error caused.
func firstError(errs []error) error {
	var first error
	for _, err := range errs {
		if err != nil && (first == nil || errors.Is(first, context.Canceled)) {
			first = err
		}
	}
	return first
}

// run takes batches until there are no more.
func (s *scanner) run(br *perfdata.BatchReader, big bool) error {
	for {
		b, err := br.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		s.batch(b, big)
		b.Release()
	}
}

func (s *scanner) batch(b *perfdata.Batch, big bool) {
	if b.Bad != nil {
		s.stats.Bad++
	}
	data := b.Data
	var samples uint64
	for i := 0; i+8 <= len(data); {
		typ, _, size := perfdata.RecordHeader(data[i:], big)
		if size < 8 || size > len(data)-i {
			break // batches hold whole records: this cannot be
		}
		if typ == typeSample {
			samples++
			i += size
			continue
		}
		s.stats.Total++
		if typ < 256 {
			s.stats.Types[typ]++
		} else {
			s.stats.Other++
		}
		if wanted(typ) {
			s.sides = append(s.sides, side{b.Pos + uint64(i), b.At(i), s.copy(data[i : i+size])})
		}
		i += size
	}
	s.stats.Types[typeSample] += samples
	s.stats.Total += samples
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
