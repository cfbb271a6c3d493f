package session

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/perfark/perfark/perfdata"
)

// A Filter tells which samples count. The zero value takes all.
type Filter struct {
	CPUs  []int32     // nil: any
	PIDs  []int32     // nil: any
	TIDs  []int32     // nil: any
	Times []TimeRange // sorted and apart, as ParseTimes returns them; nil: any
}

func (f *Filter) empty() bool {
	return f.CPUs == nil && f.PIDs == nil && f.TIDs == nil && f.Times == nil
}

func (f *Filter) takes(c *current) bool {
	if f.Times != nil && !inTimes(f.Times, c.time) {
		return false
	}
	return (f.CPUs == nil || slices.Contains(f.CPUs, c.cpu)) &&
		(f.PIDs == nil || slices.Contains(f.PIDs, c.pid)) &&
		(f.TIDs == nil || slices.Contains(f.TIDs, c.tid))
}

// A TimeRange is a part of a recording: from Start to End, both inside, in
// nanoseconds of its clock.
type TimeRange struct{ Start, End uint64 }

func inTimes(ranges []TimeRange, t uint64) bool {
	i, _ := slices.BinarySearchFunc(ranges, t, func(r TimeRange, t uint64) int {
		switch {
		case t > r.End:
			return -1
		case t < r.Start:
			return 1
		}
		return 0
	})
	return i < len(ranges) && ranges[i].Start <= t && t <= ranges[i].End
}

// TimesNeedBounds reports whether ParseTimes needs to know first and last.
func TimesNeedBounds(s string) bool { return strings.Contains(s, "%") }

// ParseTimes parses what perf's --time takes: "a,b" in seconds, either of
// which may be missing, and several of these with spaces between; or parts of
// the recording: "10%" is the first tenth, "10%/2" the second, "10%-20%" what
// lies between, and several of one kind with commas between. Of parts, first
// and last are the times of the first and the last sample.
func ParseTimes(s string, first, last uint64) ([]TimeRange, error) {
	ranges, err := parseTimes(strings.TrimSpace(s), first, last)
	if err != nil {
		return nil, fmt.Errorf("invalid time %q: %w", s, err)
	}
	for i := range ranges {
		if i > 0 && ranges[i].Start <= ranges[i-1].End {
			return nil, fmt.Errorf("invalid time %q: parts overlap, or are not in order", s)
		}
	}
	return ranges, nil
}

func parseTimes(s string, first, last uint64) (out []TimeRange, err error) {
	var r TimeRange
	if TimesNeedBounds(s) {
		for _, part := range strings.Split(s, ",") {
			if r, err = parsePart(strings.TrimSpace(part), first, last); err != nil {
				return nil, err
			}
			out = append(out, r)
		}
		return out, nil
	}
	if !strings.Contains(s, ",") {
		return nil, errors.New(`wants "START,STOP" in seconds, or percentages`)
	}
	for _, part := range strings.Fields(s) {
		start, stop, ok := strings.Cut(part, ",")
		if !ok {
			return nil, fmt.Errorf("%q has no comma", part)
		}
		r = TimeRange{0, math.MaxUint64}
		if start != "" {
			if r.Start, err = ParseNanoseconds(start); err != nil {
				return nil, err
			}
		}
		if stop != "" {
			if r.End, err = ParseNanoseconds(stop); err != nil {
				return nil, err
			}
			if r.End == 0 {
				r.End = math.MaxUint64 // as perf has it
			}
		}
		if r.Start > r.End {
			return nil, fmt.Errorf("%q ends before it starts", part)
		}
		out = append(out, r)
	}
	return out, nil
}

// parsePart parses a part of a recording.
func parsePart(s string, first, last uint64) (TimeRange, error) {
	if last < first {
		last = first
	}
	if p, nth, ok := strings.Cut(s, "/"); ok {
		f, err := parsePercent(p)
		if err != nil {
			return TimeRange{}, err
		}
		n, err := strconv.ParseUint(nth, 10, 31)
		if err != nil || n == 0 {
			return TimeRange{}, fmt.Errorf("%q is not the number of a part", nth)
		}
		return partOf(f*float64(n-1), f*float64(n), first, last)
	}
	if p, q, ok := strings.Cut(s, "-"); ok {
		from, err := parsePercent(p)
		if err != nil {
			return TimeRange{}, err
		}
		to, err := parsePercent(q)
		if err != nil {
			return TimeRange{}, err
		}
		return partOf(from, to, first, last)
	}
	f, err := parsePercent(s)
	if err != nil {
		return TimeRange{}, err
	}
	return partOf(0, f, first, last)
}

func partOf(from, to float64, first, last uint64) (TimeRange, error) {
	if from < 0 || from > 1 || to < 0 || to > 1 {
		return TimeRange{}, errors.New("is not within 0% to 100%")
	}
	total := float64(last - first)
	r := TimeRange{first + uint64(math.Round(from*total)), first + uint64(math.Round(to*total))}
	if r.End > r.Start && r.End != last {
		r.End-- // it belongs to the next part
	}
	if r.End < r.Start {
		return r, errors.New("ends before it starts")
	}
	return r, nil
}

func parsePercent(s string) (float64, error) {
	n, ok := strings.CutSuffix(strings.TrimSpace(s), "%")
	if !ok {
		return 0, fmt.Errorf("%q has no percent sign", s)
	}
	v, err := strconv.ParseFloat(n, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q is not a percentage", s)
	}
	return v / 100, nil
}

// ParseNanoseconds parses a time in seconds, with at most nine digits behind
// the point: more are cut off. It returns nanoseconds.
func ParseNanoseconds(s string) (uint64, error) {
	whole, frac, point := strings.Cut(s, ".")
	sec, err := strconv.ParseUint(whole, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a time in seconds", s)
	}
	var ns uint64
	if point {
		frac = (frac + "000000000")[:9]
		if ns, err = strconv.ParseUint(frac, 10, 64); err != nil {
			return 0, fmt.Errorf("%q is not a time in seconds", s)
		}
	}
	if sec > (math.MaxUint64-ns)/1e9 {
		return 0, fmt.Errorf("%q is too large", s)
	}
	return sec*1e9 + ns, nil
}

// SampleTimes returns the times of the first and of the last sample of f: from
// its SAMPLE_TIME section, or else from the samples, all of which it reads.
// Both are 0 if there are none.
func SampleTimes(ctx context.Context, f *perfdata.File) (first, last uint64, err error) {
	if t, ok := f.SampleTime(); ok && t.Last > 0 {
		return t.First, t.Last, nil
	}
	d := perfdata.NewDecoder(f)
	first = math.MaxUint64
	err = EachRecord(ctx, f, func(typ perfdata.Type, rec []byte, _ int64) {
		if typ != typeSample {
			return
		}
		if t := d.Time(rec); t != 0 && t != math.MaxUint64 {
			first, last = min(first, t), max(last, t)
		}
	})
	if err != nil {
		return 0, 0, err
	}
	if last == 0 {
		first = 0
	}
	return first, last, nil
}
