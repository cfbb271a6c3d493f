package session

import (
	"bytes"
	"math"
	"reflect"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/perfdata"
)

func TestSwitchTimes(t *testing.T) {
	// Not in the order of time, as the buffers of several processors are.
	const text = `event a ids=1
event b ids=2 config=1
sample ev=a pid=1 tid=1 ip=1 time=50
sample ev=b pid=1 tid=1 ip=1 time=60
sample ev=a pid=1 tid=1 ip=1 time=10
sample ev=a pid=1 tid=1 ip=1 time=20
sample ev=b pid=1 tid=1 ip=1 time=30
sample ev=b pid=1 tid=1 ip=1 time=40
sample ev=a pid=1 tid=1 ip=1 time=70
`
	end := uint64(math.MaxUint64)
	for _, tt := range []struct {
		s    Switch
		want []TimeRange
	}{
		{Switch{On: 0, Off: 1}, []TimeRange{{11, 29}, {51, 59}, {71, end}}},
		{Switch{On: 0, Off: 1, Shown: true}, []TimeRange{{10, 30}, {50, 60}, {70, end}}},
		{Switch{On: 1, Off: -1}, []TimeRange{{31, end}}},
		{Switch{On: -1, Off: 1}, []TimeRange{{0, 29}}},
		{Switch{On: 0, Off: 0}, []TimeRange{{11, 19}, {51, 69}}},
		{Switch{On: 0, Off: 1, Times: []TimeRange{{15, 45}}}, []TimeRange{{21, 29}}},
		{Switch{On: 2, Off: 3}, []TimeRange{}},
	} {
		perftest.Orders(t, text, func(t *testing.T, data []byte) {
			f, err := perfdata.New(bytes.NewReader(data), int64(len(data)), "x", perfdata.Options{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := SwitchTimes(t.Context(), f, tt.s)
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%+v: %v, %v, want %v", tt.s, got, err, tt.want)
			}
		})
	}
}

func TestBoth(t *testing.T) {
	r := func(v ...uint64) []TimeRange {
		out := []TimeRange{}
		for i := 0; i < len(v); i += 2 {
			out = append(out, TimeRange{v[i], v[i+1]})
		}
		return out
	}
	for _, tt := range []struct{ a, b, want []TimeRange }{
		{nil, nil, nil},
		{nil, r(), r()},
		{r(1, 5), nil, r(1, 5)},
		{r(1, 5, 8, 9), r(5, 8), r(5, 5, 8, 8)},
		{r(1, 9), r(2, 3, 5, 6, 9, 12), r(2, 3, 5, 6, 9, 9)},
		{r(1, 2), r(3, 4), r()},
	} {
		for range 2 {
			if got := Both(tt.a, tt.b); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("Both(%v, %v) = %v, want %v", tt.a, tt.b, got, tt.want)
			}
			tt.a, tt.b = tt.b, tt.a
		}
	}
}
