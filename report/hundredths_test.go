package report

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

// TestHundredths checks that percentages are rounded as strconv does it.
func TestHundredths(t *testing.T) {
	values := []float64{0, 0.005, math.Nextafter(0.005, 0), 0.015, 0.025, 0.995, 1.005, 99.995, 100, 1e6, 1 << 20, 1e19, math.MaxFloat64, math.Inf(1), math.NaN(), -1}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 100000 {
		n, of := rnd.Uint64N(1<<20), 1+rnd.Uint64N(1<<20)
		values = append(values, percent(n, of), percent(n, 1<<rnd.IntN(20)), float64(n)/1000, math.Nextafter(float64(n)/1000, 0))
	}
	for _, v := range values {
		got, want := appendHundredths([]byte("x"), v), strconv.AppendFloat([]byte("x"), v, 'f', 2, 64)
		if !slices.Equal(got, want) {
			t.Fatalf("%v: %s, want %s", v, got, want)
		}
	}
}

// TestInterner checks that tuples are numbered in the order in which they come,
// whether or not one of their values decides.
func TestInterner(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, decides := range []bool{false, true} {
		set := interner{width: 2}
		if decides {
			set.decide(1, 500)
		}
		want := map[[2]int32]int32{}
		for range 20000 {
			k := [2]int32{rnd.Int32N(3) - 1, rnd.Int32N(500)}
			n, ok := want[k]
			if !ok {
				n = int32(len(want))
				want[k] = n
			}
			if got := set.number(k[:]); got != n {
				t.Fatalf("decides %v: %v has number %d, want %d", decides, k, got, n)
			}
		}
		if set.len() != len(want) {
			t.Errorf("decides %v: %d tuples, want %d", decides, set.len(), len(want))
		}
	}
}
