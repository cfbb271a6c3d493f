// Command workload keeps a processor busy for a while, in functions that are
// easy to tell apart in a profile. It is what make demo records.
package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"sort"
	"time"
)

func main() {
	d := 2 * time.Second
	if len(os.Args) > 1 {
		var err error
		if d, err = time.ParseDuration(os.Args[1]); err != nil {
			fmt.Fprintf(os.Stderr, "workload: %v\n", err)
			os.Exit(2)
		}
	}
	var sum uint64
	for end := time.Now().Add(d); time.Now().Before(end); {
		sum += sieve(200_000) + sorting(20_000) + hashing(64)
	}
	fmt.Println("workload:", sum%1000)
}

//go:noinline
func sieve(n int) uint64 {
	composite := make([]bool, n)
	var primes uint64
	for i := 2; i < n; i++ {
		if composite[i] {
			continue
		}
		primes++
		for j := 2 * i; j < n; j += i {
			composite[j] = true
		}
	}
	return primes
}

//go:noinline
func sorting(n int) uint64 {
	v := make([]int, n)
	x := uint32(1)
	for i := range v {
		x = x*1664525 + 1013904223
		v[i] = int(x >> 8)
	}
	sort.Ints(v)
	return uint64(v[n/2])
}

//go:noinline
func hashing(n int) uint64 {
	var block [4096]byte
	for range n {
		sum := sha256.Sum256(block[:])
		copy(block[:], sum[:])
	}
	return uint64(block[0])
}
