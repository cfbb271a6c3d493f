package session

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/perfdata"
)

// TestParseTimes has the facts of perf's test "time utils".
func TestParseTimes(t *testing.T) {
	const (
		b   = 1234567123456789
		end = b + 100
		inf = math.MaxUint64
	)
	tests := []struct {
		in   string
		want []TimeRange
	}{
		{"1234567.123456789,1234567.123456789", []TimeRange{{b, b}}},
		{"1234567.123456789,1234567.123456790", []TimeRange{{b, b + 1}}},
		{"1234567.123456789,", []TimeRange{{b, inf}}},
		{",1234567.123456789", []TimeRange{{0, b}}},
		{"0,1234567.123456789", []TimeRange{{0, b}}},
		{",", []TimeRange{{0, inf}}},
		{"1,2 3,4", []TimeRange{{1e9, 2e9}, {3e9, 4e9}}},
		{"1.5,2  2.25,", []TimeRange{{15e8, 2e9}, {225e7, inf}}},
		{"7654321.987654321,7654321.987654444 8000000,8000000.000000005", []TimeRange{{7654321987654321, 7654321987654444}, {8000000000000000, 8000000000000005}}},
		{"10%", []TimeRange{{b, b + 9}}},
		{"10%/1", []TimeRange{{b, b + 9}}},
		{"10%/2", []TimeRange{{b + 10, b + 19}}},
		{"10%/10", []TimeRange{{b + 90, end}}},
		{"10%/1,10%/2", []TimeRange{{b, b + 9}, {b + 10, b + 19}}},
		{"10%/1,10%/3,10%/10", []TimeRange{{b, b + 9}, {b + 20, b + 29}, {b + 90, end}}},
		{"0%-100%", []TimeRange{{b, end}}},
		{"10%-20%", []TimeRange{{b + 10, b + 19}}},
		{"10%-20%, 40%-50%", []TimeRange{{b + 10, b + 19}, {b + 40, b + 49}}},
		{"12.5%-25%", []TimeRange{{b + 13, b + 24}}},
	}
	for _, tt := range tests {
		got, err := ParseTimes(tt.in, b, end)
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%q: %v, %v; want %v", tt.in, got, err, tt.want)
		}
	}
	for _, bad := range []string{
		"", "1", "1.2", "x,y", "2,1", "1,2,3", "1,2 1.5,3", "3,4 1,2", "-1,2", "1,0x2", "1.x,2", "1..2,3",
		"10%/0", "10%/11", "10%/-1", "10%/x", "110%", "50%-10%", "-10%-20%", "10%,10", "NaN%", "Inf%", "10%/1,10%/1", "20%-30%,10%-20%",
		"99999999999999999999,", "18446744074,",
	} {
		if got, err := ParseTimes(bad, b, end); err == nil {
			t.Errorf("%q: %v, want an error", bad, got)
		} else if !strings.HasPrefix(err.Error(), "invalid time ") {
			t.Errorf("%q: error %q", bad, err)
		}
	}
}

// TestParseNanoseconds has those of the same test of perf, for one time.
func TestParseNanoseconds(t *testing.T) {
	for in, want := range map[string]uint64{
		"0": 0, "1": 1e9, "0.000000001": 1, "1.000000001": 1e9 + 1, "123456.123456": 123456123456000,
		"1234567.123456789": 1234567123456789, "18446744073.709551615": math.MaxUint64, "1.": 1e9, "1.5": 15e8,
		"0.0000000019": 1,
	} {
		if got, err := ParseNanoseconds(in); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", in, got, err, want)
		}
	}
	for _, bad := range []string{"", ".5", "-1", "18446744073.709551616", "1e3", "1.-5", "1,5"} {
		if got, err := ParseNanoseconds(bad); err == nil {
			t.Errorf("%q: %d, want an error", bad, got)
		}
	}
}

func FuzzParseTimes(f *testing.F) {
	for _, s := range []string{"1,2", "10%/2,10%/3", "10%-20%", "1.5,2 3,", "%"} {
		f.Add(s, uint64(100), uint64(300))
	}
	f.Fuzz(func(t *testing.T, s string, first, last uint64) {
		ranges, err := ParseTimes(s, first, last)
		if err != nil {
			return
		}
		for i, r := range ranges {
			if r.Start > r.End || i > 0 && r.Start <= ranges[i-1].End {
				t.Errorf("%q: %v", s, ranges)
			}
			for _, x := range []uint64{r.Start, r.End} {
				if !inTimes(ranges, x) {
					t.Errorf("%q: %d is not in %v", s, x, ranges)
				}
			}
			if r.End < math.MaxUint64 && inTimes(ranges, r.End+1) != (i+1 < len(ranges) && ranges[i+1].Start == r.End+1) {
				t.Errorf("%q: %d and %v", s, r.End+1, ranges)
			}
		}
	})
}

// TestFilter: what is filtered is not counted at all.
func TestFilter(t *testing.T) {
	text := header + `
comm pid=10 tid=10 name=a time=1
sample pid=10 tid=10 cpu=0 ip=0x1 time=10 period=1
sample pid=10 tid=11 cpu=1 ip=0x2 time=20 period=2
sample pid=20 tid=20 cpu=2 ip=0x3 time=30 period=4
sample pid=20 tid=21 cpu=0 ip=0x4 time=40 period=8

`
	tests := []struct {
		f      Filter
		period uint64
	}{
		{Filter{}, 15},
		{Filter{CPUs: []int32{0}}, 9},
		{Filter{CPUs: []int32{1, 2}}, 6},
		{Filter{CPUs: []int32{}}, 0},
		{Filter{PIDs: []int32{20}}, 12},
		{Filter{TIDs: []int32{11, 21}}, 10},
		{Filter{Times: []TimeRange{{20, 30}}}, 6},
		{Filter{Times: []TimeRange{{0, 10}, {40, math.MaxUint64}}}, 9},
		{Filter{Times: []TimeRange{{11, 19}}}, 0},
		{Filter{PIDs: []int32{20}, CPUs: []int32{0}}, 8},
	}
	perftest.Orders(t, text, func(t *testing.T, data []byte) {
		for _, keep := range []Keep{0, KeepStacks, KeepDataSrc} {
			for _, tt := range tests {
				p := loadData(t, data, Options{Filter: tt.f, Keep: keep}).Profile
				var sum uint64
				for _, s := range p.Samples {
					sum += s.Period
				}
				if p.Events[0].Period != tt.period || sum != tt.period {
					t.Errorf("%+v: period %d in samples, %d in the event, want %d", tt.f, sum, p.Events[0].Period, tt.period)
				}
			}
		}
		f, err := perfdata.New(strings.NewReader(string(data)), int64(len(data)), "test.data", perfdata.Options{})
		if err != nil {
			t.Fatal(err)
		}
		first, last, err := SampleTimes(context.Background(), f)
		if err != nil || first != 10 || last != 40 {
			t.Errorf("samples from %d to %d, %v; want 10 to 40", first, last, err)
		}
	})
}
