package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/perfark/perfark/perfdata"
)

// A Switch says between which events samples count.
type Switch struct {
	On    int  // index of the event that begins it; -1: it begins with the recording
	Off   int  // of the one that ends it, until the next On; -1: none does
	Shown bool // the samples of On and Off that switch count, too

	// Times leaves out samples, as Filter.Times does: those do not switch.
	Times []TimeRange
}

// SwitchTimes returns when samples of f count, as Filter.Times has it; it is
// not nil. It reads all samples.
func SwitchTimes(ctx context.Context, f *perfdata.File, s Switch) ([]TimeRange, error) {
	type point struct {
		time  uint64
		event int
	}
	var points []point
	d := perfdata.NewDecoder(f)
	err := EachRecord(ctx, f, func(typ perfdata.Type, rec []byte, at int64) {
		if typ != typeSample {
			return
		}
		r, err := d.Decode(rec, at)
		if x, ok := r.(*perfdata.Sample); err == nil && ok && (x.Event == s.On || x.Event == s.Off) && (s.Times == nil || inTimes(s.Times, x.Time)) {
			points = append(points, point{x.Time, x.Event})
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(points, func(a, b point) int { return cmp.Compare(a.time, b.time) })

	cut := uint64(1) // what the samples that switch take from both ends
	if s.Shown {
		cut = 0
	}
	out := []TimeRange{}
	counts, since := s.On < 0, uint64(0)
	for _, p := range points {
		switch {
		case !counts && p.event == s.On:
			counts, since = true, p.time+cut
		case counts && p.event == s.Off:
			counts = false
			if p.time >= since+cut {
				out = append(out, TimeRange{since, p.time - cut})
			}
		}
	}
	if counts {
		out = append(out, TimeRange{since, math.MaxUint64})
	}
	return out, nil
}

// EachRecord calls fn for the records of f, in the order in which they lie
// there.
func EachRecord(ctx context.Context, f *perfdata.File, fn func(typ perfdata.Type, rec []byte, at int64)) error {
	batches := f.Batches(ctx)
	defer batches.Close()
	for {
		b, err := batches.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
		for i := 0; i+8 <= len(b.Data); {
			typ, _, size := perfdata.RecordHeader(b.Data[i:], f.Header().Big)
			if size < 8 || size > len(b.Data)-i {
				break
			}
			fn(typ, b.Data[i:i+size], b.At(i))
			i += size
		}
		b.Release()
	}
}

// Both returns the times that are in a and in b, each as in Filter.Times.
func Both(a, b []TimeRange) []TimeRange {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	out := []TimeRange{}
	for len(a) > 0 && len(b) > 0 {
		if r := (TimeRange{max(a[0].Start, b[0].Start), min(a[0].End, b[0].End)}); r.Start <= r.End {
			out = append(out, r)
		}
		if a[0].End < b[0].End {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return out
}
